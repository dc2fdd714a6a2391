/* SPDX-License-Identifier: Apache-2.0 */
/* Types of activations: dispatch by type, and checks that rows share. */
#ifndef KERNELS_CUDA_TYPES_CUH
#define KERNELS_CUDA_TYPES_CUH

#include "kernels/cuda/cuda_rt.h"

/* Calls run<T>(arguments) for the type of activations. */
#define CUDA_DISPATCH(dtype, run, ...)                                         \
    ((dtype) == INFER_F16    ? run<__half>(__VA_ARGS__)                        \
     : (dtype) == INFER_BF16 ? run<__nv_bfloat16>(__VA_ARGS__)                 \
                             : run<float>(__VA_ARGS__))

/* Defines launch() of rows that do run<T>() for the type of input 0; of: the
 * first argument of run, e or &e->problem. */
#define CUDA_LAUNCH(launch, run, of)                                           \
    static int launch(const struct kern_exec *e, const struct kern_args *args, \
                      struct infer_error *err)                                 \
    {                                                                          \
        return CUDA_DISPATCH(e->problem.in[0].dtype, run, of, args, err);      \
    }

/* Calls move(u), where u is an integer of the bytes of dtype. */
template <typename Move> static int by_size(enum infer_dtype dtype, Move move)
{
    return infer_dtype_size(dtype) == 8   ? move(uint64_t())
           : infer_dtype_size(dtype) == 4 ? move(uint32_t())
           : infer_dtype_size(dtype) == 2 ? move(uint16_t())
                                          : move(uint8_t());
}

/* Output and all inputs but the vectors from..to are of the row's type; those
 * are of that type or F32. */
static inline int check_types(const struct kern_problem *p, int from, int to,
                              struct infer_error *why)
{
    const enum infer_dtype t = p->in[0].dtype;

    for (int i = 1; i < p->n_in; i++) {
        const enum infer_dtype own = p->in[i].dtype;
        const bool vector = i >= from && i <= to;

        if (own != INFER_NONE && own != t && !(vector && own == INFER_F32))
            return error_set(why, INFER_EUNSUPPORTED,
                             "%s: input %d is %s beside %s",
                             kern_op_name(p->op), i, infer_dtype_name(own),
                             infer_dtype_name(t));
    }
    if (!cuda_is_real(t) || p->out[0].dtype != t)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s: %s to %s, supported are F32, F16 and BF16, in "
                         "and out alike",
                         kern_op_name(p->op), infer_dtype_name(t),
                         infer_dtype_name(p->out[0].dtype));
    return 0;
}

/* Vectors of F32, NULL where absent. */
static inline const float *input_f32(const struct kern_problem *p,
                                     const struct kern_args *args, int i)
{
    return kern_problem_in(p, i) ? (const float *)args->in[i] : NULL;
}

static inline float *output_f32(const struct kern_problem *p,
                                const struct kern_args *args, int i)
{
    return kern_problem_out(p, i) ? (float *)args->out[i] : NULL;
}

/* supports() of rows that check_types() is enough for. */
template <int FROM = 1, int TO = 0>
static int supports_types(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    return check_types(p, FROM, TO, why);
}

/* supports() of backward passes that compute dx and the gradient of a parameter
 * (input 2), one element of it for each element of x. */
static inline int supports_gradients(const struct kern_problem *p,
                                     const struct kern_device *d,
                                     struct infer_error *why)
{
    const struct kern_tensor *more = kern_problem_out(p, 1);

    (void)d;
    if (more && more->dtype != p->in[0].dtype)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s: output 1 is %s beside %s", kern_op_name(p->op),
                         infer_dtype_name(more->dtype),
                         infer_dtype_name(p->in[0].dtype));
    return check_types(p, 2, 2, why);
}

/* supports() of rows that take every problem of their operation. */
static inline int supports_all(const struct kern_problem *p,
                               const struct kern_device *d,
                               struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

/* For kernels that number their outputs with 31 bits. */
static inline int check_count(const struct kern_problem *p,
                              struct infer_error *why)
{
    if (kern_tensor_count(&p->out[0]) < (int64_t)1 << 31)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "%s: 2^31 outputs or more are not supported",
                     kern_op_name(p->op));
}

static inline bool is_integer(enum infer_dtype t)
{
    return t >= INFER_I64 && t <= INFER_BOOL;
}

#endif
