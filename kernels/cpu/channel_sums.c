/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over channels that lie side by side; channel_sums.h says how. */
#include "config.h"

#include "kernels/cpu/channel_sums.h"

#include <string.h>

/* Fewest elements of a wide row: below it, starting a loop costs a noticeable
 * share. */
#define WIDE 256
/* Elements of a part; most parts. */
#define PART      16384
#define MAX_PARTS 64
/* Floats and doubles of a vector: 64-byte lines. */
#define LINE 16

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

bool channel_shape_of(const struct kern_tensor *x, int threads,
                      struct channel_shape *s)
{
    const int64_t count = kern_tensor_count(x);
    int64_t parts, repeat;

    if (x->rank < 2 || count < 1 || !cpu_is_dense(x, KERN_NHWC))
        return false;
    s->channels = x->dim[1];
    s->pixels = count / s->channels;
    repeat = s->channels >= WIDE ? 1 : (WIDE - 1) / s->channels + 1;
    s->wide = s->channels * repeat;
    s->rows = s->pixels / repeat;
    s->rest = s->pixels % repeat * s->channels;
    parts = count / PART;
    parts = parts > MAX_PARTS ? MAX_PARTS : parts;
    parts = parts > s->rows ? s->rows : parts;
    s->parts = parts < 1 ? 1 : (int)parts;
    s->threads = cpu_threads(threads, count);
    return true;
}

void channel_widen(const struct channel_shape *s, float *v)
{
    for (int64_t i = s->channels; i < s->wide; i++)
        v[i] = v[i - s->channels];
}

/* ---- sums ---------------------------------------------------------- */

/* Bytes of a part: two vectors of doubles, then two of floats. */
static size_t part_bytes(const struct channel_shape *s)
{
    return (size_t)round_up(s->wide, LINE) * 2 *
           (sizeof(double) + sizeof(float));
}

size_t channel_row_floats(const struct channel_shape *s)
{
    return (size_t)(s->wide + 15) / 16 * 16;
}

size_t channel_sum_bytes(const struct channel_shape *s)
{
    return (size_t)s->parts * part_bytes(s) +
           (size_t)round_up(2 * s->channels, LINE) * sizeof(double);
}

CPU_CLONES static void add_to_doubles(const float *x, double *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += (double)x[i];
}

/* Up to CHANNEL_ROWS rows of n elements, in single precision and then in
 * double. */
static void sum_rows(const struct channel_sums *s, int64_t at, int64_t rows,
                     int64_t n, double *a, double *b)
{
    const int64_t wide = round_up(s->shape->wide, LINE);
    float *fa = (float *)(b + wide), *fb = fa + wide;

    memset(fa, 0, (size_t)(2 * wide) * sizeof(*fa));
    s->add(s, at, rows, n, fa, fb);
    add_to_doubles(fa, a, n);
    add_to_doubles(fb, b, n);
}

static void sum_part(const struct channel_sums *s, int part, void *memory)
{
    const struct channel_shape *shape = s->shape;
    double *a = memory, *b = a + round_up(shape->wide, LINE);
    int64_t from, to;

    memset(memory, 0, part_bytes(shape));
    cpu_share(shape->rows, part, shape->parts, &from, &to);
    for (; from < to; from += CHANNEL_ROWS)
        sum_rows(s, from * shape->wide,
                 to - from < CHANNEL_ROWS ? to - from : CHANNEL_ROWS,
                 shape->wide, a, b);
    if (part == shape->parts - 1 && shape->rest > 0)
        sum_rows(s, shape->rows * shape->wide, 1, shape->rest, a, b);
}

const double *channel_sum(const struct channel_sums *s, void *workspace)
{
    const struct channel_shape *shape = s->shape;
    const int64_t wide = round_up(shape->wide, LINE), c = shape->channels;
    const size_t bytes = part_bytes(shape);
    char *memory = workspace;
    double *total = (double *)(memory + (size_t)shape->parts * bytes);
    int part;

#pragma omp parallel for num_threads(shape->threads)                           \
    schedule(static) if (shape->threads > 1)
    for (part = 0; part < shape->parts; part++)
        sum_part(s, part, memory + (size_t)part * bytes);
    memset(total, 0, (size_t)(2 * c) * sizeof(*total));
    for (part = 0; part < shape->parts; part++) {
        const double *a = (const double *)(memory + (size_t)part * bytes);

        for (int64_t i = 0; i < shape->wide; i++) {
            total[i % c] += a[i];
            total[c + i % c] += a[wide + i];
        }
    }
    return total;
}

/* ---- all elements -------------------------------------------------- */

void channel_each(const struct channel_shape *s,
                  void (*fn)(const void *context, int64_t at, int64_t rows,
                             int64_t n),
                  const void *context)
{
    int i;

#pragma omp parallel for num_threads(s->threads)                               \
    schedule(static, 1) if (s->threads > 1)
    for (i = 0; i < s->threads; i++) {
        int64_t from, to;

        cpu_share(s->rows, i, s->threads, &from, &to);
        if (from < to)
            fn(context, from * s->wide, to - from, s->wide);
        if (i == s->threads - 1 && s->rest > 0)
            fn(context, s->rows * s->wide, 1, s->rest);
    }
}
