/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgrad of depthwise convolution, channels last.
 *
 * Stride 1: a depthwise convolution of dy with the flipped filter, by a row of
 * fprop, which takes weights of any strides.
 *
 * Stride 2, 3x3 to 7x7, gathered, after a kernel that packs the weights
 * [r][s][k] into the workspace: counted from the padded corner, rows 2i and 2i
 * + 1 of dx (columns likewise) take from rows i, i - 1, .. of dy, DEPTH of
 * them: row 2i + a with filter rows a, a + 2, ...  So a thread that computes 2
 * rows by 2 TW columns of V channels, 16 bytes or the largest part of them that
 * divides the channels, reads DEPTH (TW + DEPTH - 1)
 * vectors of dy, each weight once, and no product is wasted.  Neighbours in a
 * warp take neighbouring channels; thread t computes channels V (t % (C/V)),
 * columns from 2 TW (t / (C/V) % tiles) on.  Rows of dy shared between threads
 * come from the L1 cache.  No shared memory.
 */
#include "kernels/cuda/depthwise/depthwise.cuh"
#include "kernels/rows.h"

#define THREADS 128

struct strided_args {
    struct conv_geometry g; /* of fprop: x is dx, y is dy */
    const void *dy, *w;
    int64_t count;            /* threads with work */
    struct fast_div channels; /* vectors of channels */
    struct fast_div tiles;    /* of a row of dx */
    struct fast_div rows;     /* pairs of rows of dx */
    struct output_args out;
};

/* ---- the kernel ---------------------------------------------------- */

/* The vectors of one row of dy from column q on; 0 beyond its ends. */
template <typename T, int V, int COLUMNS>
static __device__ __forceinline__ void load_row(const struct strided_args &a,
                                                const T *row, bool inside,
                                                int q, float (&to)[COLUMNS][V])
{
    vec<T, V> v[COLUMNS];

#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const bool ok = (unsigned)(q + i) < (unsigned)a.g.q;
        v[i] = load_vec<T, V>(row + (ok ? q + i : 0) * a.g.c);
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        const bool ok = inside && (unsigned)(q + i) < (unsigned)a.g.q;
        v[i] = depthwise_mask<T, V>(v[i], ok);
#pragma unroll
        for (int j = 0; j < V; j++)
            to[i][j] = to_float(v[i].at[j]);
    }
}

/* A row of the window, for a row of dx. */
template <typename T, int V, int R, int TW, int DEPTH>
static __device__ __forceinline__ void
add_taps(const struct strided_args &a, const T *taps,
         const float (&dy)[TW + DEPTH - 1][V], float (&acc)[2 * TW][V])
{
#pragma unroll
    for (int s = 0; s < R; s++) {
        float w[V];
        load_floats<T, V>(taps + s * a.g.c, w);
#pragma unroll
        for (int t = 0; t < TW; t++)
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[2 * t + s % 2][j] = fmaf(dy[t + DEPTH - 1 - s / 2][j], w[j],
                                             acc[2 * t + s % 2][j]);
    }
}

template <typename T, int V, int R, int TW>
static __global__ void __launch_bounds__(THREADS)
    strided_kernel(const __grid_constant__ struct strided_args a)
{
    enum { DEPTH = (R + 1) / 2 };
    const int64_t thread = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    uint32_t unit, tile, pair;

    launch_wait();
    if (thread >= a.count)
        return;
    uint32_t rest = a.channels.divmod((uint32_t)thread, &unit);
    rest = a.tiles.divmod(rest, &tile);
    const int n = (int)a.rows.divmod(rest, &pair);
    const int c = (int)unit * V, column = (int)tile * TW;
    float acc[2][2 * TW][V] = {};
#pragma unroll
    for (int back = 0; back < DEPTH; back++) {
        const int p = (int)pair - back;
        const bool inside = (unsigned)p < (unsigned)a.g.p;
        const T *row = (const T *)a.dy +
                       (n * a.g.p + (inside ? p : 0)) * a.g.q * a.g.c + c;
        float dy[TW + DEPTH - 1][V];
        load_row<T, V>(a, row, inside, column - (DEPTH - 1), dy);
#pragma unroll
        for (int parity = 0; parity < 2; parity++)
            if (parity + 2 * back < R)
                add_taps<T, V, R, TW, DEPTH>(
                    a, (const T *)a.w + (parity + 2 * back) * R * a.g.c + c, dy,
                    acc[parity]);
    }
#pragma unroll
    for (int parity = 0; parity < 2; parity++) {
        const int h = 2 * (int)pair + parity - a.g.pad_top;
        if ((unsigned)h >= (unsigned)a.g.h)
            continue;
#pragma unroll
        for (int i = 0; i < 2 * TW; i++) {
            const int w = 2 * column + i - a.g.pad_left;
            if ((unsigned)w < (unsigned)a.g.w)
                output_vector<T, V>(a.out, (n * a.g.h + h) * a.g.w + w, c,
                                    acc[parity][i]);
        }
    }
}

/* ---- stride 1 ------------------------------------------------------ */

/* Makes the problem of the convolution whose output is dx; its first weight
 * lies `offset` elements after that of p. */
static int flip(const struct kern_problem *p, struct kern_problem *out,
                int64_t *offset, struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    struct kern_tensor *w = &out->in[CONV_W];

    *out = *p;
    out->op = KERN_CONV_FPROP;
    out->constant_in = 0;
    *offset = 0;
    for (int i = 0; i < p->in[CONV_X].rank - 2; i++) {
        const int64_t reach = c->dilation[i] * (w->dim[i + 2] - 1);
        const int64_t begin = reach - c->pad_begin[i];
        const int64_t end =
            p->out[0].dim[i + 2] - p->in[CONV_X].dim[i + 2] - begin + reach;
        if (reach > 1 << 24 || end > 1 << 24 || end < -(1 << 24))
            return error_set(why, INFER_EUNSUPPORTED, "pads are too large");
        out->attr.conv.pad_begin[i] = (int)begin;
        out->attr.conv.pad_end[i] = (int)end;
        *offset += (w->dim[i + 2] - 1) * w->stride[i + 2];
        w->stride[i + 2] = -w->stride[i + 2];
    }
    return 0;
}

/* The fprop row for the flipped problem: of 16-bit types whose channels are no
 * multiple of 8 that of vectors of 4 bytes, where it takes the window. */
static const struct kern_row *inner_row(const struct kern_problem *flipped,
                                        const struct kern_device *d)
{
    const enum infer_dtype type = flipped->in[CONV_X].dtype;
    const bool half = type == INFER_F16;
    const struct kern_row *walk;

    if (type == INFER_F32)
        return kern_row_at(KERN_ROW_conv2d_fprop_nhwc_f32_cuda_depthwise);
    walk =
        kern_row_at(half ? KERN_ROW_conv2d_fprop_nhwc_f16_cuda_depthwise_walk
                         : KERN_ROW_conv2d_fprop_nhwc_bf16_cuda_depthwise_walk);
    return flipped->in[CONV_X].dim[1] % 8 &&
                   kern_row_supports(walk, flipped, d, NULL) == 0
               ? walk
               : kern_row_at(
                     half ? KERN_ROW_conv2d_fprop_nhwc_f16_cuda_depthwise
                          : KERN_ROW_conv2d_fprop_nhwc_bf16_cuda_depthwise);
}

/* ---- stride 2 ------------------------------------------------------ */

/* The geometry of fprop. */
static int read_fprop(const struct kern_problem *p, struct conv_geometry *g,
                      struct infer_error *why)
{
    struct kern_problem f = *p;

    f.op = KERN_CONV_FPROP;
    f.n_in = 2;
    f.in[CONV_X] = p->out[0];
    f.out[0] = p->in[CONV_X];
    return conv_geometry_read(&f, g, why);
}

static int check_strided(const struct kern_problem *p, struct conv_geometry *g,
                         struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, CONV_BIAS);
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    const int64_t size = (int64_t)infer_dtype_size(p->out[0].dtype);
    const int rc = read_fprop(p, g, why);

    if (rc < 0)
        return rc;
    if (p->out[0].rank != 4 || g->stride_h != 2 || g->stride_w != 2 ||
        g->dilation_h != 1 || g->dilation_w != 1 || g->r != g->s ||
        (g->r != 3 && g->r != 5 && g->r != 7) || g->pad_top < 0 ||
        g->pad_left < 0 || g->c * size % 4 != 0 || g->m < 1 || g->h < 1 ||
        g->w < 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 3x3, 5x5 and 7x7 of stride 2 without dilation, "
                         "channels of whole 4 bytes");
    if ((bias && !cuda_is_vector(bias)) ||
        (residual && (residual->dtype != p->out[0].dtype ||
                      !kern_tensor_is_dense(residual, KERN_NHWC))))
        return error_set(why, INFER_EUNSUPPORTED,
                         "bias is not dense F32, or the residual lies "
                         "otherwise than dx");
    return depthwise_weights_readable(p, why);
}

/* ---- both ---------------------------------------------------------- */

static bool has_stride(const struct kern_problem *p)
{
    for (int i = 0; i < p->in[CONV_X].rank - 2; i++)
        if (p->attr.conv.stride[i] != 1)
            return true;
    return false;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct conv_geometry g;
    struct kern_problem flipped;
    int64_t offset;

    if (!cuda_is_real(p->in[CONV_X].dtype) ||
        p->attr.conv.groups != p->in[CONV_X].dim[1] ||
        p->attr.conv.groups != p->out[0].dim[1])
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32, F16 and BF16, one channel a group, in "
                         "and out");
    if (has_stride(p))
        return check_strided(p, &g, why);
    const int rc = flip(p, &flipped, &offset, why);
    return rc < 0 ? rc
                  : kern_row_supports(inner_row(&flipped, d), &flipped, d, why);
}

/* That of the inner row; the kernels of stride 2 are as fast as their bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct kern_problem flipped;
    struct infer_error why;
    int64_t offset;

    if (has_stride(p) || flip(p, &flipped, &offset, &why) < 0)
        return depthwise_bytes_us(p);
    return inner_row(&flipped, d)->fn->estimate(&flipped, d);
}

/* Those of the inner row. */
static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    struct kern_problem flipped;
    int64_t offset;

    if (has_stride(p))
        return 1;
    const int rc = flip(p, &flipped, &offset, err);
    return rc < 0 ? rc : inner_row(&flipped, d)->fn->variants(&flipped, d, err);
}

struct dgrad_state {
    struct kern_exec inner; /* of stride 1 */
    int64_t offset;         /* bytes to its first weight */
    struct conv_geometry g; /* of stride 2 */
};

static void release(struct kern_exec *e)
{
    struct dgrad_state *s = (struct dgrad_state *)e->state;

    kern_release(&s->inner);
    free(s);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct dgrad_state *s = (struct dgrad_state *)calloc(1, sizeof(*s));
    const struct kern_problem *p = &e->problem;
    struct kern_problem flipped;
    int rc = 0;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    if (e->variant >= variants(p, d, err)) {
        rc = error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                       e->row->name, e->variant);
    } else if (has_stride(p)) {
        rc = read_fprop(p, &s->g, err);
        e->workspace = depthwise_pack_bytes(e, &s->g);
    } else {
        rc = flip(p, &flipped, &s->offset, err);
        s->offset *= (int64_t)infer_dtype_size(p->in[CONV_W].dtype);
        if (rc == 0)
            rc = kern_prepare_variant(inner_row(&flipped, d), &flipped, d,
                                      e->variant, err, &s->inner);
        e->workspace = s->inner.workspace;
        memcpy(e->variant_name, s->inner.variant_name, KERN_VARIANT_NAME);
    }
    e->state = s;
    if (rc < 0) {
        release(e);
        e->state = NULL;
    }
    return rc;
}

/* ---- launching ----------------------------------------------------- */

/* With vectors of V channels, or of half as many. */
template <typename T, int R, int TW, int V = 16 / (int)sizeof(T)>
static int launch_window(const struct conv_geometry *g,
                         const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    if constexpr (V * sizeof(T) > 4)
        if (g->c % V != 0)
            return launch_window<T, R, TW, V / 2>(g, e, args, err);
    const int tiles = conv_ceil_div(g->w + g->pad_left, 2 * TW);
    const int rows = conv_ceil_div(g->h + g->pad_top, 2);
    struct strided_args a = {};

    a.g = *g;
    a.dy = args->in[CONV_X];
    a.w = args->workspace;
    a.out = output_of(e, args, g->c);
    a.channels.init((uint32_t)(g->c / V));
    a.tiles.init((uint32_t)tiles);
    a.rows.init((uint32_t)rows);
    a.count = (int64_t)(g->c / V) * tiles * rows * g->n;
    return launch_chained(strided_kernel<T, V, R, TW>,
                          dim3(cuda_blocks(a.count, THREADS)), dim3(THREADS), 0,
                          args->stream, a, err);
}

template <typename T>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct dgrad_state *s = (const struct dgrad_state *)e->state;
    struct kern_args flipped = *args;

    if (!has_stride(&e->problem)) {
        flipped.in[CONV_W] = (const char *)args->in[CONV_W] + s->offset;
        return s->inner.row->fn->launch(&s->inner, &flipped, err);
    }
    const int rc = depthwise_pack_weights<T>(e, &s->g, args, err);
    if (rc < 0)
        return rc;
    return s->g.r == 3   ? launch_window<T, 3, 2>(&s->g, e, args, err)
           : s->g.r == 5 ? launch_window<T, 5, 1>(&s->g, e, args, err)
                         : launch_window<T, 7, 1>(&s->g, e, args, err);
}

#define DGRAD_ROW(symbol, T)                                                   \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = supports,                                                  \
        .estimate = estimate,                                                  \
        .variants = variants,                                                  \
        .prepare = prepare,                                                    \
        .launch = launch<T>,                                                   \
        .release = release,                                                    \
    };

DGRAD_ROW(conv2d_dgrad_nhwc_f32_cuda_depthwise, float)
DGRAD_ROW(conv2d_dgrad_nhwc_f16_cuda_depthwise, __half)
DGRAD_ROW(conv2d_dgrad_nhwc_bf16_cuda_depthwise, __nv_bfloat16)
