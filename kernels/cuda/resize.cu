/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Resize in every dimension at once.
 *
 * prepare() puts the tables of kernels/resize.h into device memory.  One thread
 * an output, in the order of its memory, sums over the product of the tables.
 * No shared memory.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/walk.cuh"

extern "C" {
#include "kernels/resize.h"
}

#define THREADS 256

/* A dimension's table on the device. */
struct line {
    struct fast_div extent; /* of y */
    int taps;
    int64_t y_stride;
    const int64_t *index;
    const float *weight;
};

/* Dimensions in the order of the output's strides, outermost first. */
struct resize_args {
    int rank;
    uint32_t count;
    struct line line[KERN_MAX_RANK];
    const void *x;
    void *y;
};

struct resize_state {
    struct resize_args args;
    void *memory; /* on the device */
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    resize_kernel(const __grid_constant__ struct resize_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    uint32_t rest = i, total = 1;
    int64_t to = 0;
    float sum = 0;

    if (i >= a.count)
        return;
    for (int d = a.rank - 1; d >= 0; d--) {
        uint32_t o;
        rest = a.line[d].extent.divmod(rest, &o);
        to += o * a.line[d].y_stride;
        total *= (uint32_t)a.line[d].taps;
    }
    for (uint32_t t = 0; t < total; t++) {
        uint32_t tap = t;
        int64_t from = 0;
        float weight = 1;

        rest = i;
        for (int d = a.rank - 1; d >= 0; d--) {
            const struct line &l = a.line[d];
            uint32_t o;
            rest = l.extent.divmod(rest, &o);
            const int64_t at = (int64_t)o * l.taps + tap % l.taps;
            tap /= l.taps;
            from += l.index[at];
            weight *= l.weight[at];
        }
        if (weight != 0)
            sum = fmaf(weight, to_float(((const T *)a.x)[from]), sum);
    }
    ((T *)a.y)[to] = from_float<T>(sum);
}

static int64_t reach(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static void sort(const struct kern_tensor *y, int *order)
{
    for (int i = 0; i < y->rank; i++) {
        int at = i;
        while (at > 0 &&
               reach(y->stride[order[at - 1]]) < reach(y->stride[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void free_tables(struct resize_table *t)
{
    for (int d = 0; d < KERN_MAX_RANK; d++)
        resize_table_free(&t[d]);
}

/* Offsets of all tables behind one another, then all weights. */
static int upload(struct resize_state *s, const struct kern_tensor *y,
                  const struct resize_table *t, struct infer_error *err)
{
    size_t n[KERN_MAX_RANK], total = 0, at = 0;
    int order[KERN_MAX_RANK];

    sort(y, order);
    for (int d = 0; d < y->rank; d++) {
        n[d] = (size_t)t[d].taps * (size_t)y->dim[d];
        total += n[d];
    }
    char *host = (char *)malloc(total * 12 + 1);
    if (!host)
        return error_set(err, INFER_EMEMORY, "resize: out of memory");
    cudaError_t code = cudaMalloc(&s->memory, total * 12 + 1);
    for (int i = 0; i < y->rank; i++) {
        const int d = order[i];
        struct line *l = &s->args.line[i];
        float *weight = (float *)(host + total * 8) + at;

        memcpy(host + at * 8, t[d].index, n[d] * 8);
        for (size_t k = 0; k < n[d]; k++)
            weight[k] = (float)t[d].weight[k];
        l->extent.init((uint32_t)y->dim[d]);
        l->taps = (int)t[d].taps;
        l->y_stride = y->stride[d];
        l->index = (const int64_t *)s->memory + at;
        l->weight = (const float *)((char *)s->memory + total * 8) + at;
        at += n[d];
    }
    if (code == cudaSuccess)
        code = cudaMemcpy(s->memory, host, total * 12, cudaMemcpyHostToDevice);
    /* The copy of so little may still be under way, and streams that do not
     * wait for the default one would read tables that are not there yet. */
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(cudaStreamLegacy);
    free(host);
    CUDA_TRY(err, code);
    return 0;
}

static void release(struct kern_exec *e)
{
    struct resize_state *s = (struct resize_state *)e->state;

    if (!s)
        return;
    if (s->memory)
        (void)cudaFree(s->memory);
    free(s);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *device,
                   struct infer_error *err)
{
    const struct kern_tensor *y = &e->problem.out[0];
    struct resize_table t[KERN_MAX_RANK] = {};
    struct resize_state *s = (struct resize_state *)calloc(1, sizeof *s);
    int r = 0;

    (void)device;
    if (!s)
        return error_set(err, INFER_EMEMORY, "resize: out of memory");
    e->state = s;
    s->args.rank = y->rank;
    s->args.count = (uint32_t)kern_tensor_count(y);
    for (int d = 0; r == 0 && s->args.count > 0 && d < y->rank; d++)
        r = resize_table_make(&e->problem, d, err, &t[d]);
    if (r == 0 && s->args.count > 0)
        r = upload(s, y, t, err);
    free_tables(t);
    if (r < 0)
        release(e);
    return r;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    struct resize_args a = ((const struct resize_state *)e->state)->args;

    if (a.count == 0)
        return 0;
    a.x = args->in[0];
    a.y = args->out[0];
    resize_kernel<T>
        <<<cuda_blocks(a.count, THREADS), THREADS, 0, cuda_stream(args)>>>(a);
    return CUDA_LAUNCHED(err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, e, args, err);
}

/* Taps are numbered with 32 bits. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_resize *a = &p->attr.resize;
    double taps = 1;
    int r = check_types(p, 1, 0, why);

    (void)d;
    if (r == 0)
        r = check_count(p, why);
    if (r == 0)
        r = resize_check(p, why);
    for (int i = 0; r == 0 && i < p->in[0].rank; i++)
        if (a->mode != KERN_NEAREST && a->scale[i] != 1.0f)
            taps *= a->antialias && a->scale[i] < 1 ? 4.0 / a->scale[i] + 4 : 4;
    if (r == 0 && taps > 1e9)
        r = error_set(why, INFER_EUNSUPPORTED,
                      "resize: more than 10^9 inputs an output");
    return r;
}

#define RESIZE_ROW(symbol, type)                                               \
    const struct kern_row symbol = {.name = #symbol,                           \
                                    .op = KERN_RESIZE,                         \
                                    .backend = INFER_BACKEND_CUDA,             \
                                    .layout = KERN_NHWC,                       \
                                    .dtype = type,                             \
                                    .acc = INFER_F32,                          \
                                    .min_sm = 75,                              \
                                    .flags = KERN_STRIDED,                     \
                                    .supports = supports,                      \
                                    .prepare = prepare,                        \
                                    .launch = launch,                          \
                                    .release = release};

RESIZE_ROW(resize_f32_cuda_table, INFER_F32)
RESIZE_ROW(resize_f16_cuda_table, INFER_F16)
RESIZE_ROW(resize_bf16_cuda_table, INFER_BF16)
