/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the rows written in plain C for the CPU: division of work among
 * threads, walks over strided tensors, activations over arrays.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include <stdint.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/clones.h"
#include "kernels/base/float_bits.h"
#include "kernels/kern.h"

/* Fewest elements for another thread: waking one costs about 2 us, in which one
 * core moves some 10,000 elements. */
#define CPU_GRAIN 16384

/* How many of `threads` to use on that many elements of work. */
static inline int cpu_threads(int threads, int64_t elements)
{
    const int64_t useful = elements / CPU_GRAIN + 1;

    return useful < threads ? (int)useful : threads;
}

/* The part [*from, *to) of n that falls to thread i of count. */
static inline void cpu_share(int64_t n, int i, int count, int64_t *from,
                             int64_t *to)
{
    *from = n / count * i + (n % count < i ? n % count : i);
    *to = *from + n / count + (i < n % count);
}

/* ---- walks --------------------------------------------------------- */

#define CPU_MAX_OPERAND 6

/* Several tensors of one shape (broadcast ones with stride 0), their
 * dimensions sorted by the strides of operand 0 and merged where all allow. */
struct cpu_walk {
    int rank, operands;
    int64_t weight; /* work of an element, in elements; 1 at first */
    int64_t dim[KERN_MAX_RANK];
    int64_t stride[CPU_MAX_OPERAND][KERN_MAX_RANK];
};

/* Every tensor has the dimensions of t[0], or broadcasts to them. */
void cpu_walk_init(struct cpu_walk *w, int operands,
                   const struct kern_tensor *const *t);

/* Handles `rows` rows of n elements; strides are in elements. */
typedef void cpu_walk_fn(const void *context, int64_t rows, int64_t n,
                         float *const *at, const int64_t *row_stride,
                         const int64_t *stride);

/* Calls fn over all elements, from several threads at once.  base[i] is the
 * address of element 0 of operand i; elements are 4 bytes wide. */
void cpu_walk_run(const struct cpu_walk *w, int threads, void *const *base,
                  cpu_walk_fn *fn, const void *context);

/* Walks over output 0, then the inputs that are there, then the other outputs;
 * an operand's number is its place in this order. */
int cpu_walk_problem(const struct kern_exec *e, const struct kern_args *args,
                     cpu_walk_fn *fn, const void *context);

/* Elements of a block: it stays in the L1 cache between the operation and its
 * epilogue. */
#define CPU_BLOCK 2048

/* An element-wise operation with an epilogue, block by block. */
struct cpu_blocks {
    /* Computes n elements of y from the operands, which start at at[]. */
    void (*compute)(const void *context, float *const *at,
                    const int64_t *stride, float *y, int64_t n);
    const void *context;
    const struct kern_epilogue *epilogue;
    int operands;  /* the output is the first, a residual the last */
    bool residual; /* may be the output's memory */
};
/* A cpu_walk_fn whose context is a struct cpu_blocks. */
cpu_walk_fn cpu_walk_blocks;

/* Copies n dense elements of 4 bytes. */
void cpu_copy(const void *from, void *to, int64_t n, int threads);

/* ---- element-wise -------------------------------------------------- */

/* y[i] = act(x[i]); y may be x. */
void cpu_act(const struct kern_unary *act, const float *x, float *y, int64_t n);
/* The same on a dense array in place, by several threads. */
void cpu_act_parallel(const struct kern_unary *act, float *y, int64_t n,
                      int threads);
/* v = act(v), where kernels/quant/act.h has it, as it says. */
void cpu_quant_act(const struct kern_unary *act, float *v, int64_t n);
/* True where cpu_act() knows the function. */
bool cpu_act_known(const struct kern_unary *act);
/* True for identity, ReLU and clip, which are limits of their argument; *low
 * and *high are infinite otherwise. */
bool cpu_act_bounds(const struct kern_unary *act, float *low, float *high);
/* True where the functions and files named after these may run. */
bool cpu_has_avx2(void);
bool cpu_has_avx512(void);
/* y[i] = sigmoid(a x[i]), times x[i] if asked; y may be x. */
void cpu_sigmoid_avx512(float a, bool times_x, const float *x, float *y,
                        int64_t n);
/* y[i] = x[i] Phi(x[i]); y may be x. */
void cpu_gelu_avx512(const float *x, float *y, int64_t n);
/* dx[i] = dy[i] act'(x[i]), or the same by y[i] = act(x[i]) where
 * kern_unary_grad_from_output(); dx may be dy. */
void cpu_act_grad(const struct kern_unary *act, const float *dy, const float *x,
                  float *dx, int64_t n);
void cpu_act_grad_from_output(const struct kern_unary *act, const float *dy,
                              const float *y, float *dx, int64_t n);
/* y[i] = exp(x[i] - shift), unless y is NULL; returns the sum. */
float cpu_exp_sum(const float *x, float shift, float *y, int64_t n);
/* y[i] += x[i] */
void cpu_add(const float *x, float *y, int64_t n);

/* y[i] = log(x[i]) for normal x > 0 */
void cpu_log(const float *x, float *y, int64_t n);

/* Applies p's epilogue to n finished sums in y; residual may be NULL. */
static inline void cpu_epilogue(const struct kern_epilogue *ep, float *y,
                                const float *residual, int64_t n)
{
    if (residual && !ep->residual_last)
        cpu_add(residual, y, n);
    if (ep->act.kind != KERN_IDENTITY)
        cpu_act(&ep->act, y, y, n);
    if (residual && ep->residual_last)
        cpu_add(residual, y, n);
}

/* ---- checks -------------------------------------------------------- */

static inline bool cpu_is_f32(const struct kern_tensor *t)
{
    return t->dtype == INFER_F32;
}

/* Fails where a tensor of the problem is not F32. */
int cpu_need_f32(const struct kern_problem *p, struct infer_error *why);

/* True where t is dense and F32, or absent (NULL). */
static inline bool cpu_is_dense(const struct kern_tensor *t,
                                enum kern_layout layout)
{
    return !t || (cpu_is_f32(t) && kern_tensor_is_dense(t, layout));
}

/* True where channels lie side by side (or there is one). */
static inline bool cpu_channels_inner(const struct kern_tensor *t)
{
    return t->rank >= 2 && (t->stride[1] == 1 || t->dim[1] == 1);
}

/* The state of rows that need only this. */
struct cpu_state {
    int threads;
};

int cpu_prepare(struct kern_exec *e, const struct kern_device *d,
                struct infer_error *err);
void cpu_release(struct kern_exec *e);
static inline int cpu_threads_of(const struct kern_exec *e)
{
    return ((const struct cpu_state *)e->state)->threads;
}

#endif
