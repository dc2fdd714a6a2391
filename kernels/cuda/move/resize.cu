/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Resize in every dimension at once.
 *
 * prepare() puts the tables of kernels/resize.h into device memory.  One thread
 * an output, in the order of its memory, sums over the product of the tables.
 * No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/move/resize.cuh"
#include "kernels/cuda/strided.cuh"

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

typedef struct resize_state<struct resize_args> state;

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

/* Where the tables of dimensions `order` lie on the device: the offsets of all
 * behind one another, then all weights. */
static void point(state *s, const struct kern_tensor *y,
                  const struct resize_table *t, const int *order, size_t total)
{
    size_t at = 0;

    for (int i = 0; i < y->rank; i++) {
        const int d = order[i];
        struct line *l = &s->args.line[i];

        l->extent.init((uint32_t)y->dim[d]);
        l->taps = (int)t[d].taps;
        l->y_stride = y->stride[d];
        l->index = (const int64_t *)s->memory + at;
        l->weight = (const float *)((char *)s->memory + total * 8) + at;
        at += (size_t)t[d].taps * (size_t)y->dim[d];
    }
}

static int upload(state *s, const struct kern_tensor *y,
                  const struct resize_table *t, struct infer_error *err)
{
    size_t n[KERN_MAX_RANK], total = 0, at = 0;
    int order[KERN_MAX_RANK];

    cuda_sort_dimensions(y, order);
    for (int d = 0; d < y->rank; d++) {
        n[d] = (size_t)t[d].taps * (size_t)y->dim[d];
        total += n[d];
    }
    char *host = (char *)calloc(total + 1, 12);
    if (!host)
        return error_set(err, INFER_EMEMORY, "resize: out of memory");
    for (int i = 0; i < y->rank; i++) {
        const int d = order[i];
        float *weight = (float *)(host + total * 8) + at;

        memcpy(host + at * 8, t[d].index, n[d] * 8);
        for (size_t k = 0; k < n[d]; k++)
            weight[k] = (float)t[d].weight[k];
        at += n[d];
    }
    const int r = resize_upload(host, total * 12 + 1, &s->memory, err);
    free(host);
    if (r == 0)
        point(s, y, t, order, total);
    return r;
}

static int fill(state *s, const struct kern_problem *p, struct infer_error *err)
{
    const struct kern_tensor *y = &p->out[0];
    struct resize_table t[KERN_MAX_RANK] = {};
    int rc = 0;

    s->args.rank = y->rank;
    s->args.count = (uint32_t)kern_tensor_count(y);
    for (int d = 0; rc == 0 && d < y->rank; d++)
        rc = resize_table_make(p, d, err, &t[d]);
    if (rc == 0)
        rc = upload(s, y, t, err);
    resize_free_tables(t);
    return rc;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    struct resize_args a = ((const state *)e->state)->args;

    if (a.count == 0)
        return 0;
    a.x = args->in[0];
    a.y = args->out[0];
    resize_kernel<T>
        <<<cuda_blocks(a.count, THREADS), THREADS, 0, cuda_stream(args)>>>(a);
    return CUDA_LAUNCHED(err);
}

CUDA_LAUNCH(launch, run, e)

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int r = check_types(p, 1, 0, why);

    (void)d;
    if (r == 0)
        r = check_count(p, why);
    return r < 0 ? r : resize_limits(p, why);
}

KERN_FUNCTIONS(resize_cuda_table) = {
    .supports = supports,
    .prepare = resize_prepare<struct resize_args, fill>,
    .launch = launch,
    .release = resize_release<struct resize_args>,
};
