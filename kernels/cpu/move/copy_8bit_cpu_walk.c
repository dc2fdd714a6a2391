/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between F32 and integers of 8 bits, and of such integers, between any
 * strides.  Values become integers by truncation, within the type's limits.
 *
 * The inner loop is the longest dimension along which both tensors are dense,
 * else the longest; threads divide the others, and pieces of the inner one.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/quant/quant.h"

/* Elements of a piece of the inner loop. */
#define PIECE 65536

/* n elements, x_step and y_step apart. */
typedef void convert_fn(const void *x, int64_t x_step, void *y, int64_t y_step,
                        int64_t n);

/* The body of a conversion; elements side by side are a loop of their own,
 * which vectorises. */
#define CONVERT(name, from, to, expression)                                    \
    CPU_CLONES static void name(const void *x, int64_t x_step, void *y,        \
                                int64_t y_step, int64_t n)                     \
    {                                                                          \
        const from *a = x;                                                     \
        to *b = y;                                                             \
                                                                               \
        if (x_step == 1 && y_step == 1) {                                      \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                \
            {                                                                  \
                const from v = a[i];                                           \
                b[i] = (to)(expression);                                       \
            }                                                                  \
            return;                                                            \
        }                                                                      \
        for (int64_t i = 0; i < n; i++) {                                      \
            const from v = a[i * x_step];                                      \
            b[i * y_step] = (to)(expression);                                  \
        }                                                                      \
    }

/* NaN is 0. */
CPU_INLINE int limited(float v, float low, float high)
{
    v = v == v ? v : 0;
    v = v < low ? low : v;
    return (int)(v > high ? high : v);
}

CONVERT(f32_to_i8, float, int8_t, limited(v, -128, 127))
CONVERT(f32_to_u8, float, uint8_t, limited(v, 0, 255))
CONVERT(i8_to_f32, int8_t, float, v)
CONVERT(u8_to_f32, uint8_t, float, v)
CONVERT(byte_to_byte, uint8_t, uint8_t, v)

static convert_fn *conversion(enum infer_dtype from, enum infer_dtype to)
{
    if (from == to && quant_is_byte(to))
        return byte_to_byte;
    if (from == INFER_F32 && quant_is_integer(to))
        return to == INFER_I8 ? f32_to_i8 : f32_to_u8;
    if (to == INFER_F32 && quant_is_integer(from))
        return from == INFER_I8 ? i8_to_f32 : u8_to_f32;
    return NULL;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!conversion(p->in[0].dtype, p->out[0].dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "copies I8 and U8, and to and from F32");
    return 0;
}

/* Fewest elements of a dense line that are worth more than long lines. */
#define DENSE 8

static int inner_of(const struct kern_tensor *x, const struct kern_tensor *y)
{
    int inner = 0;

    for (int d = 0; d < y->rank; d++)
        if (x->stride[d] == 1 && y->stride[d] == 1 && y->dim[d] >= DENSE)
            return d;
    for (int d = 1; d < y->rank; d++)
        if (y->dim[d] >= y->dim[inner])
            inner = d;
    return inner;
}

/* Line `line` of the inner dimension: where it begins in x and y. */
static void find_line(const struct kern_problem *p, int inner, int64_t line,
                      int64_t *x, int64_t *y)
{
    const struct kern_tensor *from = &p->in[0], *to = &p->out[0];

    *x = *y = 0;
    for (int d = to->rank - 1; d >= 0; d--) {
        if (d == inner)
            continue;
        *x += line % to->dim[d] * from->stride[d];
        *y += line % to->dim[d] * to->stride[d];
        line /= to->dim[d];
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *from = &p->in[0], *to = &p->out[0];
    convert_fn *convert = conversion(from->dtype, to->dtype);
    const int64_t count = kern_tensor_count(to);
    const int inner = inner_of(from, to);
    const int64_t n = to->rank ? to->dim[inner] : 1;
    const int64_t sx = to->rank ? from->stride[inner] : 1;
    const int64_t sy = to->rank ? to->stride[inner] : 1;
    const int64_t pieces = (n + PIECE - 1) / PIECE;
    const int threads = cpu_threads(cpu_threads_of(e), count);

    (void)err;
    (void)threads; /* of use with OpenMP only */
    if (count == 0)
        return 0;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < count / n * pieces; i++) {
        const int64_t first = i % pieces * PIECE, rest = n - first;
        int64_t x, y;

        find_line(p, inner, i / pieces, &x, &y);
        convert((const char *)args->in[0] +
                    (x + first * sx) * (int64_t)infer_dtype_size(from->dtype),
                sx,
                (char *)args->out[0] +
                    (y + first * sy) * (int64_t)infer_dtype_size(to->dtype),
                sy, rest < PIECE ? rest : PIECE);
    }
    return 0;
}

KERN_FUNCTIONS(copy_8bit_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
