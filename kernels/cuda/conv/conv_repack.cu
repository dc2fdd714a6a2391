/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with weights that change from launch to launch, and its dgrad
 * (the transposed convolution), on the implicit GEMM rows of fprop: a first
 * kernel packs the weights on the device into the workspace in the layout of
 * those rows, and they do the rest.
 *
 * dgrad: dx is a convolution of dy, stride 1, with the flipped filter and the
 * roles of K and C exchanged; pads become dilation (R - 1) - pad.  With a
 * stride, dy is dilated first: zeros are put between its pixels.  For a 1x1
 * filter without pads the result is dilated instead.
 *
 * Packing: one thread an element of the packed rows, inputs of a row innermost.
 * If outputs lie innermost in the weights, as in dgrad's, they are transposed
 * through shared memory: a block of 32 x 8 threads moves a tile of 32 inputs by
 * 32 outputs of one filter position, 33 elements a row so that columns spread
 * over the banks (4.1 KiB).  blockIdx: tiles of outputs, tiles of inputs,
 * filter positions times groups.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/conv/dilate.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/rows.h"

extern "C" {
#include "kernels/base/checked.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/tiles.h"
}

#define THREADS        256
#define TRANSPOSE_TILE 32

/* ---- packing ------------------------------------------------------- */

/* Rows as conv_pack_rows() makes them: one an output o, in it (r, s, i) with
 * the inputs i of the group innermost and zeros up to `channels`, then zeros up
 * to pitch.  A row of the filter takes `line` elements, the first `shift` of
 * which are zeros (wgmma_stem.cuh). */
struct pack_args {
    int outputs, group_outputs, inputs, channels, r, s, pitch;
    int line, shift;
    bool flipped; /* dgrad */
    bool tf32;    /* round to TF32 */
    enum infer_dtype type;
    int64_t stride[4]; /* of w: k, c, r, s */
    const void *w;
    void *packed;
};

/* Where the element lies in w. */
static __device__ __forceinline__ int64_t weight_at(const struct pack_args &a,
                                                    int o, int r, int s, int i)
{
    int k = o, c = i;

    if (a.flipped) {
        k = o / a.group_outputs * a.inputs + i;
        c = o % a.group_outputs;
        r = a.r - 1 - r;
        s = a.s - 1 - s;
    }
    return k * a.stride[0] + c * a.stride[1] + r * a.stride[2] +
           s * a.stride[3];
}

/* The element as it is packed. */
template <typename T>
static __device__ __forceinline__ float weight_of(const struct pack_args &a,
                                                  int o, int r, int s, int i)
{
    float v = load_as<T>(a.type, a.w, weight_at(a, o, r, s, i));

    if (a.tf32) /* to the nearest, ties away from zero */
        v = __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
    return v;
}

/* The next kernel reads weights before it waits for this one to end
 * (launch.cuh): the stores must be visible everywhere before. */
static __device__ __forceinline__ void publish_weights(void)
{
    __threadfence();
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    pack_kernel(const __grid_constant__ struct pack_args a)
{
    const int64_t count = (int64_t)a.outputs * a.pitch;

    dilate_wait();
    for (int64_t at = blockIdx.x * (int64_t)THREADS + threadIdx.x; at < count;
         at += (int64_t)gridDim.x * THREADS) {
        const int o = (int)(at / a.pitch), d = (int)(at % a.pitch);
        const int r = d / a.line, j = d % a.line - a.shift;
        const int s = j / a.channels, i = j % a.channels;
        float v = 0;
        if (r < a.r && j >= 0 && s < a.s && i < a.inputs)
            v = weight_of<T>(a, o, r, s, i);
        ((T *)a.packed)[at] = from_float<T>(v);
    }
    publish_weights();
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    transpose_kernel(const __grid_constant__ struct pack_args a)
{
    __shared__ float tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
    const int x = threadIdx.x % TRANSPOSE_TILE,
              y = threadIdx.x / TRANSPOSE_TILE;
    const int o0 = blockIdx.x * TRANSPOSE_TILE,
              i0 = blockIdx.y * TRANSPOSE_TILE;
    const int taps = a.r * a.s;
    const int tap = blockIdx.z % taps, group = blockIdx.z / taps;
    const int first = group * a.group_outputs;

    dilate_wait();
    for (int j = y; j < TRANSPOSE_TILE; j += THREADS / TRANSPOSE_TILE) {
        float v = 0;
        if (i0 + j < a.inputs && o0 + x < a.group_outputs)
            v = weight_of<T>(a, first + o0 + x, tap / a.s, tap % a.s, i0 + j);
        tile[j][x] = v;
    }
    __syncthreads();
    for (int j = y; j < TRANSPOSE_TILE; j += THREADS / TRANSPOSE_TILE)
        if (i0 + x < a.channels && o0 + j < a.group_outputs)
            ((T *)a.packed)[(int64_t)(first + o0 + j) * a.pitch +
                            tap * a.channels + i0 + x] =
                from_float<T>(tile[x][j]);
    publish_weights();
}

/* True if outputs lie closer together in w than inputs, the packed rows have no
 * padding between filter positions, and the grid can count them. */
static bool is_transposed(const struct pack_args *a)
{
    const int64_t output = a->stride[a->flipped ? 1 : 0];
    const int64_t input = a->stride[a->flipped ? 0 : 1];
    const int64_t taps = (int64_t)a->r * a->s;

    return output < input && a->shift == 0 && a->line == a->s * a->channels &&
           a->pitch == a->r * a->line &&
           taps * (a->outputs / a->group_outputs) <= 65535 &&
           a->channels <= 65535 * TRANSPOSE_TILE;
}

/* ---- configuration ------------------------------------------------- */

enum repack_kind {
    REPACK_PLAIN,        /* pack, multiply */
    REPACK_DILATE_INPUT, /* dilate dy, pack, multiply */
    REPACK_DILATE_OUTPUT /* pack, multiply, dilate the result */
};

struct repack_config {
    struct kern_problem inner;
    enum repack_kind kind;
    int64_t dilated_w; /* columns of dy with zeros between */
};

struct repack_state {
    struct kern_exec inner;
    struct repack_config config;
    int pitch;
    size_t dilated_at, inner_at; /* in the workspace; packed weights lie at 0 */
};

static void set_pads(struct kern_conv *c, int i, int64_t begin, int64_t end)
{
    c->pad_begin[i] = (int)begin;
    c->pad_end[i] = (int)end;
}

/* The convolution whose output is dx. */
static void configure_dgrad(const struct kern_problem *p,
                            struct repack_config *config)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *dy = &p->in[CONV_X], *w = &p->in[CONV_W];
    const struct kern_tensor *dx = &p->out[0];
    struct kern_problem *inner = &config->inner;
    int64_t x_dim[4], w_dim[4], extent[2];

    for (int i = 0; i < 2; i++)
        extent[i] = (dy->dim[i + 2] - 1) * c->stride[i] + 1;
    config->dilated_w = extent[1];
    config->kind = REPACK_PLAIN;
    if (c->stride[0] > 1 || c->stride[1] > 1) {
        const bool single = w->dim[2] == 1 && w->dim[3] == 1 &&
                            c->pad_begin[0] == 0 && c->pad_begin[1] == 0;
        config->kind = single ? REPACK_DILATE_OUTPUT : REPACK_DILATE_INPUT;
    }
    inner->op = KERN_CONV_FPROP;
    for (int i = 0; i < 4; i++)
        x_dim[i] = dy->dim[i];
    for (int i = 0; i < 2; i++) {
        const int64_t reach = c->dilation[i] * (w->dim[i + 2] - 1);
        const int64_t begin = reach - c->pad_begin[i];
        inner->attr.conv.stride[i] = 1;
        if (config->kind == REPACK_DILATE_INPUT)
            x_dim[i + 2] = extent[i];
        if (config->kind == REPACK_DILATE_OUTPUT)
            set_pads(&inner->attr.conv, i, 0, 0);
        else
            set_pads(&inner->attr.conv, i, begin,
                     dx->dim[i + 2] - x_dim[i + 2] - begin + reach);
    }
    inner->in[CONV_X] = kern_tensor_dense(dy->dtype, 4, x_dim, KERN_NHWC);
    w_dim[0] = dx->dim[1];
    w_dim[1] = dy->dim[1] / c->groups;
    w_dim[2] = w->dim[2];
    w_dim[3] = w->dim[3];
    inner->in[CONV_W] = kern_tensor_dense(dy->dtype, 4, w_dim, KERN_NCHW);
    if (config->kind == REPACK_DILATE_OUTPUT) {
        x_dim[1] = dx->dim[1];
        inner->out[0] = kern_tensor_dense(dx->dtype, 4, x_dim, KERN_NHWC);
        /* What is added at the pixels that get a product is gathered to where
         * the result goes, so that the sum is rounded once. */
        if (kern_problem_in(p, CONV_RESIDUAL))
            inner->in[CONV_RESIDUAL] = inner->out[0];
    }
}

static bool is_dgrad(const struct kern_problem *p)
{
    return p->op == KERN_CONV_DGRAD;
}

static int configure(const struct kern_problem *p, struct repack_config *config,
                     struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];

    if (p->in[CONV_X].rank != 4)
        return error_set(why, INFER_EUNSUPPORTED, "takes 2 spatial dimensions");
    for (int i = 0; i < 4; i++)
        if (p->in[CONV_X].dim[i] == 0 || p->out[0].dim[i] == 0 ||
            w->dim[i] == 0 || p->out[0].dim[i] > 1 << 24)
            return error_set(why, INFER_EUNSUPPORTED,
                             "an extent is 0 or above 2^24");
    if (w->dtype != p->in[CONV_X].dtype && w->dtype != INFER_F32)
        return error_set(why, INFER_EUNSUPPORTED,
                         "weights are neither F32 nor of the input's type");
    config->inner = *p;
    config->kind = REPACK_PLAIN;
    config->inner.constant_in = 1u << CONV_W;
    if (!is_dgrad(p)) {
        if (p->constant_in & 1u << CONV_W)
            return error_set(why, INFER_EUNSUPPORTED,
                             "weights are constant: others pack them once");
        config->inner.in[CONV_W] =
            kern_tensor_dense(p->in[CONV_X].dtype, 4, w->dim, KERN_NCHW);
        return 0;
    }
    configure_dgrad(p, config);
    if (!kern_tensor_is_dense(&p->in[CONV_X], KERN_NHWC) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NHWC) ||
        (kern_problem_in(p, CONV_RESIDUAL) &&
         !kern_tensor_is_dense(&p->in[CONV_RESIDUAL], KERN_NHWC)) ||
        kern_tensor_count(&config->inner.in[CONV_X]) > INT32_MAX ||
        kern_tensor_count(&p->out[0]) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last activations below 2^31 "
                         "elements");
    if (config->kind == REPACK_DILATE_OUTPUT &&
        (kern_problem_in(p, CONV_BIAS) ||
         p->epilogue.act.kind != KERN_IDENTITY ||
         (kern_problem_in(p, CONV_RESIDUAL) &&
          p->in[CONV_RESIDUAL].dtype != p->in[CONV_X].dtype) ||
         p->out[0].dtype != p->in[CONV_X].dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes a residual and nothing else after a strided "
                         "1x1 window");
    return 0;
}

/* The fprop families that multiply.  Their tiles are the variants, the best by
 * estimate first. */
static const struct {
    enum kern_row_number row;
    const struct conv_family *tiles;
} families[] = {
#define FAMILY(symbol)                                                         \
    {                                                                          \
        KERN_ROW_##symbol, &symbol##_tiles                                     \
    }
    FAMILY(conv2d_fprop_nhwc_f16_cuda_igemm_sm80),
    FAMILY(conv2d_fprop_nhwc_bf16_cuda_igemm_sm80),
    FAMILY(conv2d_fprop_nhwc_tf32_cuda_igemm_sm80),
    FAMILY(conv2d_fprop_nhwc_f32_cuda_igemm_tf32x3_sm80),
    FAMILY(conv2d_fprop_nhwc_f16_cuda_wgmma_sm90),
    FAMILY(conv2d_fprop_nhwc_bf16_cuda_wgmma_sm90),
    FAMILY(conv2d_fprop_nhwc_tf32_cuda_wgmma_sm90),
    FAMILY(conv2d_fprop_nhwc_f16_cuda_stem_wgmma_sm90),
    FAMILY(conv2d_fprop_nhwc_bf16_cuda_stem_wgmma_sm90),
#undef FAMILY
};

/* More than the families of one type have tiles. */
#define MAX_RANKED (3 * CONV_MAX_TILES)

/* The tiles that take the problem, the fastest first. */
struct ranked {
    struct {
        const struct kern_row *row;
        int variant; /* of the row: the tile's first */
        double us;
    } at[MAX_RANKED];
    int n;
};

static void insert(struct ranked *out, const struct kern_row *row, int variant,
                   double us)
{
    int at = out->n++;

    for (; at > 0 && out->at[at - 1].us > us; at--)
        out->at[at] = out->at[at - 1];
    out->at[at].row = row;
    out->at[at].variant = variant;
    out->at[at].us = us;
}

/* flags: whether products may be rounded to TF32. */
static void rank(const struct repack_config *config,
                 const struct kern_device *d, unsigned flags,
                 struct infer_error *why, struct ranked *out)
{
    const struct kern_problem *p = &config->inner;
    struct conv_ranking r;

    out->n = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct kern_row *row = kern_row_at(families[i].row);
        if ((row->flags & KERN_TF32) != (flags & KERN_TF32) ||
            kern_row_supports(row, p, d, why) < 0 ||
            conv_rank(families[i].tiles, p, d, why, &r) < 0)
            continue;
        for (int k = 0; k < r.n && out->n < MAX_RANKED; k++)
            insert(out, row, r.at[k].first, r.at[k].us);
    }
}

template <unsigned FLAGS>
static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d,
                        struct repack_config *config, struct ranked *ranked,
                        struct infer_error *why)
{
    const int rc = configure(p, config, why);

    if (rc < 0)
        return rc;
    rank(config, d, FLAGS, why, ranked);
    return ranked->n > 0 ? 0 : INFER_EUNSUPPORTED;
}

template <unsigned FLAGS>
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct ranked ranked;
    struct repack_config config;

    return read_problem<FLAGS>(p, d, &config, &ranked, why);
}

template <unsigned FLAGS>
static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    struct ranked ranked;
    struct repack_config config;
    const int rc = read_problem<FLAGS>(p, d, &config, &ranked, err);

    return rc < 0 ? rc : ranked.n;
}

template <unsigned FLAGS>
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct ranked ranked;
    struct repack_config config;

    if (read_problem<FLAGS>(p, d, &config, &ranked, NULL) < 0)
        return 1e30;
    /* Packing, and dilating, are one launch each. */
    return ranked.at[0].us + (config.kind == REPACK_PLAIN ? 2 : 5);
}

/* ---- preparing ----------------------------------------------------- */

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Bytes of the dilated input, or of the result before it is dilated. */
static size_t dilated_bytes(const struct repack_config *config)
{
    const struct kern_tensor *t = config->kind == REPACK_DILATE_INPUT
                                      ? &config->inner.in[CONV_X]
                                      : &config->inner.out[0];

    return config->kind == REPACK_PLAIN ? 0 : kern_tensor_span(t);
}

template <unsigned FLAGS>
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct repack_state *s = (struct repack_state *)calloc(1, sizeof(*s));
    struct ranked ranked = {};
    int rc = s ? read_problem<FLAGS>(&e->problem, d, &s->config, &ranked, err)
               : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (rc == 0 && e->variant >= ranked.n)
        rc = error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                       e->row->name, e->variant);
    if (rc == 0)
        rc =
            kern_prepare_variant(ranked.at[e->variant].row, &s->config.inner, d,
                                 ranked.at[e->variant].variant, err, &s->inner);
    if (rc < 0) {
        free(s);
        return rc;
    }
    snprintf(e->variant_name, sizeof e->variant_name, "%.44s %.18s",
             s->inner.row->name, s->inner.variant_name);
    const size_t packed = s->inner.packed[CONV_W];
    s->pitch = (int)(packed / infer_dtype_size(e->problem.in[CONV_X].dtype) /
                     (size_t)s->config.inner.out[0].dim[1]);
    s->dilated_at = aligned(packed);
    s->inner_at = s->dilated_at + aligned(dilated_bytes(&s->config));
    e->workspace = s->inner_at + s->inner.workspace;
    e->state = s;
    return 0;
}

static void release(struct kern_exec *e)
{
    struct repack_state *s = (struct repack_state *)e->state;

    kern_release(&s->inner);
    free(s);
}

/* ---- launching ----------------------------------------------------- */

template <typename T>
static int pack(const struct kern_exec *e, const struct kern_args *args,
                struct infer_error *err)
{
    const struct repack_state *s = (const struct repack_state *)e->state;
    const struct kern_tensor *w = &s->config.inner.in[CONV_W];
    struct pack_args a = {};

    a.outputs = (int)w->dim[0];
    a.group_outputs = a.outputs / e->problem.attr.conv.groups;
    a.inputs = (int)w->dim[1];
    a.r = (int)w->dim[2];
    a.s = (int)w->dim[3];
    a.pitch = s->pitch;
    const struct conv_tiled *tiled = (const struct conv_tiled *)s->inner.state;
    a.line = tiled->line;
    /* wgmma pads the channels of each filter position, mma the whole row. */
    a.channels = tiled->channels > 0 ? tiled->channels
                 : s->inner.row->min_sm >= 90 && a.line == 0
                     ? a.pitch / (a.r * a.s)
                     : a.inputs;
    if (a.line > 0) /* windows start at even elements */
        a.shift = s->config.inner.attr.conv.pad_begin[1] * a.inputs & 1;
    else
        a.line = a.s * a.channels;
    a.flipped = is_dgrad(&e->problem);
    a.tf32 = s->inner.flags & KERN_TF32;
    a.type = e->problem.in[CONV_W].dtype;
    for (int i = 0; i < 4; i++)
        a.stride[i] = e->problem.in[CONV_W].stride[i];
    a.w = args->in[CONV_W];
    a.packed = args->workspace;
    if (is_transposed(&a))
        return launch_chained(transpose_kernel<T>,
                              dim3(cuda_blocks(a.group_outputs, TRANSPOSE_TILE),
                                   cuda_blocks(a.channels, TRANSPOSE_TILE),
                                   a.r * a.s * (a.outputs / a.group_outputs)),
                              dim3(THREADS), 0, args->stream, a, err);
    return launch_chained(
        pack_kernel<T>, dim3(cuda_grid((int64_t)a.outputs * a.pitch, THREADS)),
        dim3(THREADS), 0, args->stream, a, err);
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct repack_state *s = (const struct repack_state *)e->state;
    const struct kern_problem *p = &e->problem, *inner = &s->config.inner;
    char *base = (char *)args->workspace;
    const void *residual =
        kern_problem_in(p, CONV_RESIDUAL) ? args->in[CONV_RESIDUAL] : NULL;
    struct kern_args rest = *args;
    int rc = pack<T>(e, args, err);

    rest.in[CONV_W] = base;
    rest.workspace = base + s->inner_at;
    if (rc == 0 && s->config.kind == REPACK_DILATE_INPUT) {
        rest.in[CONV_X] = base + s->dilated_at;
        rc = dilate<T>(&p->attr.conv, DILATE, &p->in[CONV_X], args->in[CONV_X],
                       &inner->in[CONV_X], base + s->dilated_at, NULL,
                       args->stream, err);
    }
    if (s->config.kind == REPACK_DILATE_OUTPUT) {
        rest.out[0] = base + s->dilated_at;
        rest.in[CONV_RESIDUAL] = base + s->dilated_at;
        if (rc == 0 && residual)
            rc = dilate<T>(&p->attr.conv, GATHER, &p->in[CONV_RESIDUAL],
                           residual, &inner->out[0], base + s->dilated_at, NULL,
                           args->stream, err);
    }
    if (rc == 0)
        rc = s->inner.row->fn->launch(&s->inner, &rest, err);
    if (rc < 0 || s->config.kind != REPACK_DILATE_OUTPUT)
        return rc;
    /* A residual in place stays where no product is added. */
    return dilate<T>(&p->attr.conv, residual == args->out[0] ? SCATTER : DILATE,
                     &inner->out[0], base + s->dilated_at, &p->out[0],
                     args->out[0], residual, args->stream, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[CONV_X].dtype, run, e, args, err);
}

#define REPACK_ROW(symbol, row_flags)                                          \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = supports<row_flags>,                                       \
        .estimate = estimate<row_flags>,                                       \
        .variants = variants<row_flags>,                                       \
        .prepare = prepare<row_flags>,                                         \
        .launch = launch,                                                      \
        .release = release,                                                    \
    };

/* wgmma on halves makes partial statistics of the outputs. */
REPACK_ROW(conv2d_fprop_nhwc_half_cuda_repack, KERN_BN_STATS)
REPACK_ROW(conv2d_nhwc_tf32_cuda_repack, KERN_TF32)
REPACK_ROW(conv2d_nhwc_cuda_repack, 0)
