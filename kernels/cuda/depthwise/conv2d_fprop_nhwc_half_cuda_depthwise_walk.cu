/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution whose channels are no multiple of 8, or lie within the
 * pixels of another tensor wherever those begin, channels last.
 *
 * Such pixels do not begin at 16 bytes, so that depthwise.cuh would load two
 * channels at a time, and neighbours in a warp, which take several pixels
 * each, lie apart: what a warp asks for is spread over many lines of the cache.
 * Here a warp takes 32 neighbouring vectors of V channels (2, or 1 of odd
 * counts) of a row of outputs, of whatever pixels they are, and each thread
 * walks down `height` rows of them.  The window is kept in registers: a step
 * loads its last STRIDE rows and shifts the others.
 */
#include <stdio.h>

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/depthwise/depthwise_pack.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

#define DEPTHWISE_WALK_THREADS 128

struct walk_args {
    struct conv_geometry g;
    const void *x, *w;                      /* w: [r][s][k] */
    int height;                             /* rows of outputs of a thread */
    int64_t count;                          /* threads with work */
    struct fast_div line, channels, strips; /* vectors of a row, of a pixel */
    struct output_args out;
};

/* ---- the kernel ---------------------------------------------------- */

/* Where a thread's windows begin: the first channel, column and row. */
struct walk_place {
    int n, k, q, p, column;
};

template <typename T, int V, int R>
static __device__ __forceinline__ void
walk_load_row(const struct walk_args &a, const struct walk_place &at, int row,
              vec<T, V> (&x)[R])
{
    const bool inside = (unsigned)row < (unsigned)a.g.h;
    const T *from =
        (const T *)a.x +
        (int64_t)(at.n * a.g.h + (inside ? row : 0)) * a.g.w * a.g.x_pitch +
        at.k;

#pragma unroll
    for (int s = 0; s < R; s++) {
        const int column = at.column + s;
        x[s] = vec<T, V>();
        if (inside && (unsigned)column < (unsigned)a.g.w)
            x[s] = load_vec<T, V>(from + column * a.g.x_pitch);
    }
}

template <typename T, int V, int R, int STRIDE>
static __global__ void __launch_bounds__(DEPTHWISE_WALK_THREADS)
    walk_kernel(const __grid_constant__ struct walk_args a)
{
    const int64_t i =
        (int64_t)blockIdx.x * DEPTHWISE_WALK_THREADS + threadIdx.x;
    uint32_t flat, strip, k;
    struct walk_place at;
    vec<T, V> w[R][R], x[R][R];
    float bias[V];

    launch_wait();
    if (i >= a.count)
        return;
    at.n = (int)a.strips.divmod(a.line.divmod((uint32_t)i, &flat), &strip);
    at.q = (int)a.channels.divmod(flat, &k);
    at.k = (int)k * V;
    at.p = (int)strip * a.height;
    at.column = at.q * STRIDE - a.g.pad_left;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int s = 0; s < R; s++)
            w[r][s] =
                load_vec<T, V>((const T *)a.w + (r * R + s) * a.g.k + at.k);
#pragma unroll
    for (int j = 0; j < V; j++)
        bias[j] = a.out.bias ? a.out.bias[at.k + j] : 0;

    const int end = min(at.p + a.height, a.g.p);
    int row = at.p * STRIDE - a.g.pad_top;
#pragma unroll
    for (int r = STRIDE; r < R; r++)
        walk_load_row<T, V, R>(a, at, row++, x[r]);
    for (int p = at.p; p < end; p++) {
        float sum[V], residual[V];
        const int m = (at.n * a.g.p + p) * a.g.q + at.q;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int s = 0; s < R; s++)
                x[r][s] = x[r + STRIDE < R ? r + STRIDE : r][s];
#pragma unroll
        for (int r = R - STRIDE; r < R; r++)
            walk_load_row<T, V, R>(a, at, row++, x[r]);
        if (a.out.residual)
            output_load_residual<T, V>(a.out, m, at.k, residual);
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] = bias[j];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int s = 0; s < R; s++)
#pragma unroll
                for (int j = 0; j < V; j++)
                    sum[j] = fmaf(to_float(x[r][s].at[j]),
                                  to_float(w[r][s].at[j]), sum[j]);
        output_with_residual<T, V>(a.out, m, at.k, sum, residual);
    }
}

/* ---- the host's side ----------------------------------------------- */

enum { WALK_HEIGHTS = 3 };

struct walk_state {
    struct conv_geometry g;
    int height;
    bool packs; /* the weights, before each run */
};

/* Channels that are moved at once. */
static int walk_vector(const struct conv_geometry *g)
{
    return (g->k | g->x_pitch | g->y_pitch | g->r_pitch) % 2 == 0 ? 2 : 1;
}

/* The same where the tensors are known: views begin at any element. */
static int walk_vector_at(const struct conv_geometry *g,
                          const struct output_args *out, const void *x)
{
    const uintptr_t addresses =
        (uintptr_t)x | (uintptr_t)out->y | (uintptr_t)out->residual;

    return addresses % 4 == 0 ? walk_vector(g) : 1;
}

static int64_t walk_threads(const struct conv_geometry *g, int height, int v)
{
    return (int64_t)g->n * conv_ceil_div(g->p, height) * g->q * (g->k / v);
}

/* Rows of a thread: many where that leaves 1,024 threads a multiprocessor,
 * since each strip loads its first rows again. */
static int walk_height(const struct conv_geometry *g,
                       const struct kern_device *d, int variant)
{
    static const int order[WALK_HEIGHTS][WALK_HEIGHTS] = {
        {16, 7, 2}, {7, 16, 2}, {2, 7, 16}};
    const int64_t enough = 1024 * (int64_t)conv_multiprocessors(d);
    const int v = walk_vector(g);
    const int first = walk_threads(g, 16, v) >= enough  ? 0
                      : walk_threads(g, 7, v) >= enough ? 1
                                                        : 2;

    return order[first][variant];
}

static int walk_read(const struct kern_problem *p, const struct kern_device *d,
                     int variant, struct walk_state *s, struct infer_error *why)
{
    struct conv_geometry *g = &s->g;
    int rc = conv_geometry_read_pitched(p, g, why);

    s->packs = !(p->constant_in & 1u << CONV_W);
    if (rc == 0)
        rc = s->packs ? depthwise_weights_readable(p, why)
                      : conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (g->cg != 1 || g->kg != 1 ||
        (g->k % 8 == 0 && g->x_pitch == g->k && g->y_pitch == g->k))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes depthwise convolutions whose channels are no "
                         "multiple of 8 or part of a pixel, found %d groups of "
                         "%d to %d channels",
                         g->groups, g->cg, g->kg);
    if (g->r != g->s || (g->r != 3 && g->r != 5 && g->r != 7) ||
        g->stride_h != g->stride_w || g->stride_h > 2 || g->dilation_h != 1 ||
        g->dilation_w != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows of 3x3, 5x5 and 7x7 and strides of 1 "
                         "and 2, without dilation");
    if (variant < 0 || variant >= WALK_HEIGHTS)
        return error_set(why, INFER_EUNSUPPORTED, "has no variant %d", variant);
    s->height = walk_height(g, d, variant);
    if (g->m == 0 || walk_threads(g, 1, 1) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 2^31 vectors of outputs");
    return 0;
}

static int walk_variants(const struct kern_problem *,
                         const struct kern_device *, struct infer_error *)
{
    return WALK_HEIGHTS;
}

/* The bytes, twice over where windows are large, and a launch or two. */
static double walk_estimate(const struct kern_problem *p,
                            const struct kern_device *)
{
    struct conv_geometry g;

    if (conv_geometry_read_pitched(p, &g, NULL) < 0)
        return 1e30;
    return (p->constant_in & 1u << CONV_W ? 2 : 4) +
           kern_problem_bytes(p) * (1 + g.r / 7.0) / 2.5e6;
}

static void walk_declare(struct kern_exec *e, const struct walk_state *s)
{
    if (s->packs)
        e->workspace = depthwise_pack_bytes(e, &s->g);
    else
        e->packed[CONV_W] = depthwise_pack_bytes(e, &s->g);
    snprintf(e->variant_name, sizeof(e->variant_name), "rows%d", s->height);
}

static const auto walk_supports = state_supports<struct walk_state, walk_read>;
static const auto walk_prepare =
    state_prepare<struct walk_state, walk_read, walk_declare>;

static int walk_pack(const struct kern_exec *e, int i, const void *src,
                     void *dst, struct infer_error *err)
{
    (void)err;
    conv_pack_taps(&((const struct walk_state *)e->state)->g,
                   e->problem.in[i].dtype, src, e->problem.in[CONV_X].dtype,
                   dst);
    return 0;
}

typedef void (*walk_function)(const struct walk_args);

template <typename T, int V, int R> static walk_function walk_of(int stride)
{
    return stride == 1 ? walk_kernel<T, V, R, 1> : walk_kernel<T, V, R, 2>;
}

template <typename T, int V>
static walk_function walk_for(const struct conv_geometry *g)
{
    return g->r == 3   ? walk_of<T, V, 3>(g->stride_h)
           : g->r == 5 ? walk_of<T, V, 5>(g->stride_h)
                       : walk_of<T, V, 7>(g->stride_h);
}

template <typename T>
static int walk_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    const struct walk_state *s = (const struct walk_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const int rc = s->packs ? depthwise_pack_weights<T>(e, g, args, err) : 0;
    struct walk_args a;

    if (rc < 0)
        return rc;
    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = s->packs ? args->workspace : args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    const int v = walk_vector_at(g, &a.out, a.x);
    a.height = s->height;
    a.count = walk_threads(g, s->height, v);
    a.line.init((uint32_t)(g->q * (g->k / v)));
    a.channels.init((uint32_t)(g->k / v));
    a.strips.init((uint32_t)conv_ceil_div(g->p, s->height));
    return launch_chained(v == 2 ? walk_for<T, 2>(g) : walk_for<T, 1>(g),
                          dim3(cuda_blocks(a.count, DEPTHWISE_WALK_THREADS)),
                          dim3(DEPTHWISE_WALK_THREADS), 0, args->stream, a,
                          err);
}

STATE_ROW(conv2d_fprop_nhwc_f16_cuda_depthwise_walk, walk, __half,
          walk_variants)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_depthwise_walk, walk, __nv_bfloat16,
          walk_variants)
