/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by resize and its backward pass on the host: tables in device memory,
 * the order of dimensions, limits. */
#ifndef KERNELS_CUDA_MOVE_RESIZE_CUH
#define KERNELS_CUDA_MOVE_RESIZE_CUH

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/types.cuh"

extern "C" {
#include "kernels/resize.h"
}

/* The state of an exec: what is passed to the kernel, and the device memory
 * that it points to. */
template <typename Args> struct resize_state {
    Args args;
    void *memory;
};

template <typename Args> static void resize_release(struct kern_exec *e)
{
    struct resize_state<Args> *s = (struct resize_state<Args> *)e->state;

    if (!s)
        return;
    if (s->memory)
        (void)cudaFree(s->memory);
    free(s);
    e->state = NULL;
}

/* prepare() of a row: makes the state, which fill() fills unless the output is
 * empty. */
template <typename Args,
          int (*fill)(struct resize_state<Args> *, const struct kern_problem *,
                      struct infer_error *)>
static int resize_prepare(struct kern_exec *e, const struct kern_device *device,
                          struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct resize_state<Args> *s =
        (struct resize_state<Args> *)calloc(1, sizeof *s);

    (void)device;
    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory",
                         kern_op_name(p->op));
    e->state = s;
    const int rc = kern_tensor_count(&p->out[0]) > 0 ? fill(s, p, err) : 0;
    if (rc < 0)
        resize_release<Args>(e);
    return rc;
}

/* Copies to memory that is allocated for it. */
static inline int resize_upload(const void *host, size_t bytes, void **memory,
                                struct infer_error *err)
{
    CUDA_TRY(err, cudaMalloc(memory, bytes));
    CUDA_TRY(err, cudaMemcpy(*memory, host, bytes, cudaMemcpyHostToDevice));
    /* The copy of so little may still be under way, and streams that do not
     * wait for the default one would read tables that are not there yet. */
    CUDA_TRY(err, cudaStreamSynchronize(cudaStreamLegacy));
    return 0;
}

static inline void resize_free_tables(struct resize_table *t)
{
    for (int d = 0; d < KERN_MAX_RANK; d++)
        resize_table_free(&t[d]);
}

/* Limits of the forward problem p: taps are numbered with 32 bits. */
static inline int resize_limits(const struct kern_problem *p,
                                struct infer_error *why)
{
    const struct kern_resize *a = &p->attr.resize;
    double taps = 1;
    const int r = resize_check(p, why);

    if (r < 0)
        return r;
    for (int i = 0; i < p->in[0].rank; i++)
        if (a->mode != KERN_NEAREST && a->scale[i] != 1.0f)
            taps *= a->antialias && a->scale[i] < 1 ? 4.0 / a->scale[i] + 4 : 4;
    if (taps > 1e9)
        return error_set(why, INFER_EUNSUPPORTED,
                         "resize: more than 10^9 inputs an output");
    return 0;
}

#endif
