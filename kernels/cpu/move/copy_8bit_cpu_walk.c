/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between F32 and integers of 8 bits, and of such integers, between any
 * strides.  Values become integers by truncation, within the type's limits.
 *
 * The inner loop is the longest dimension along which both tensors are dense,
 * else the longest; threads divide the others, and pieces of the inner one.
 * Few bytes side by side in the output that are rows of the input are
 * interleaved.
 */
#include "config.h"

#include <string.h>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/move/interleave.h"
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

/* The lines of a copy: all places of the dimensions but one or two, in the
 * order of the output's memory. */
struct lines {
    int rank;
    int64_t dim[KERN_MAX_RANK], step[2][KERN_MAX_RANK]; /* innermost first */
    int64_t index[KERN_MAX_RANK], x, y;
};

/* Begins at a line; second: another dimension that is left out, or -1. */
static void lines_begin(struct lines *l, const struct kern_problem *p,
                        int inner, int second, int64_t line)
{
    const struct kern_tensor *from = &p->in[0], *to = &p->out[0];

    *l = (struct lines){0};
    for (int d = to->rank - 1; d >= 0; d--) {
        int at = l->rank;

        if (d == inner || d == second)
            continue;
        for (; at > 0 && l->step[1][at - 1] > to->stride[d]; at--) {
            l->dim[at] = l->dim[at - 1];
            l->step[0][at] = l->step[0][at - 1];
            l->step[1][at] = l->step[1][at - 1];
        }
        l->dim[at] = to->dim[d];
        l->step[0][at] = from->stride[d];
        l->step[1][at] = to->stride[d];
        l->rank++;
    }
    for (int d = 0; d < l->rank; d++) {
        l->index[d] = line % l->dim[d];
        l->x += l->index[d] * l->step[0][d];
        l->y += l->index[d] * l->step[1][d];
        line /= l->dim[d];
    }
}

static void lines_next(struct lines *l)
{
    for (int d = 0; d < l->rank; d++) {
        l->x += l->step[0][d];
        l->y += l->step[1][d];
        if (++l->index[d] < l->dim[d])
            return;
        l->x -= l->dim[d] * l->step[0][d];
        l->y -= l->dim[d] * l->step[1][d];
        l->index[d] = 0;
    }
}

/* ---- few bytes side by side ---------------------------------------- */

CPU_INTERLEAVE(interleave, uint8_t, 32)

CPU_CLONES static void interleave_bytes(uint8_t *y, const uint8_t *x,
                                        int64_t sx, int64_t rows, int64_t cols)
{
    interleave(y, x, sx, rows, cols);
}

/* The dimensions of rows of few columns: *col is innermost in y, *row in x. */
static bool find_rows(const struct kern_tensor *x, const struct kern_tensor *y,
                      int *row, int *col)
{
    *row = *col = -1;
    for (int d = 0; d < y->rank; d++) {
        if (y->stride[d] == 1 && interleave_takes(y->dim[d]))
            *col = d;
        if (x->stride[d] == 1 && y->dim[d] >= DENSE)
            *row = d;
    }
    return *row >= 0 && *col >= 0 && *row != *col &&
           y->stride[*row] == y->dim[*col];
}

static void launch_rows(const struct kern_exec *e, const struct kern_args *args,
                        int row, int col)
{
    const struct kern_problem *p = &e->problem;
    const int64_t rows = p->out[0].dim[row], cols = p->out[0].dim[col];
    const int64_t count = kern_tensor_count(&p->out[0]);
    const int threads = cpu_threads(cpu_threads_of(e), count);

#pragma omp parallel for num_threads(threads)                                  \
    schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        struct lines l;
        int64_t line, end;

        cpu_share(count / (rows * cols), i, threads, &line, &end);
        for (lines_begin(&l, p, row, col, line); line < end; line++) {
            interleave_bytes((uint8_t *)args->out[0] + l.y,
                             (const uint8_t *)args->in[0] + l.x,
                             p->in[0].stride[col], rows, cols);
            lines_next(&l);
        }
    }
}

/* ---- all copies ---------------------------------------------------- */

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
    int row, col;

    (void)err;
    if (count == 0)
        return 0;
    if (convert == byte_to_byte && find_rows(from, to, &row, &col)) {
        launch_rows(e, args, row, col);
        return 0;
    }
#pragma omp parallel for num_threads(threads)                                  \
    schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        struct lines l;
        int64_t piece, end;

        cpu_share(count / n * pieces, i, threads, &piece, &end);
        for (lines_begin(&l, p, inner, -1, piece / pieces); piece < end;
             piece++) {
            const int64_t first = pieces > 1 ? piece % pieces * PIECE : 0;
            const int64_t rest = n - first;

            convert(
                (const char *)args->in[0] +
                    (l.x + first * sx) * (int64_t)infer_dtype_size(from->dtype),
                sx,
                (char *)args->out[0] +
                    (l.y + first * sy) * (int64_t)infer_dtype_size(to->dtype),
                sy, rest < PIECE ? rest : PIECE);
            if (pieces == 1 || (piece + 1) % pieces == 0)
                lines_next(&l);
        }
    }
    return 0;
}

KERN_FUNCTIONS(copy_8bit_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
