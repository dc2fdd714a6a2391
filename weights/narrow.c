/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks tensors of types that nothing computes in.  Layouts of the floats:
 * "FP8 formats for deep learning" (arXiv 2209.05433), "8-bit numerical formats
 * for deep neural networks" (arXiv 2206.02915), and the OCP's microscaling
 * formats; ONNX's documentation states them under "Float stored in 8 bits". */
#include "weights/narrow.h"

#include <math.h>
#include <string.h>

/* How one type is laid out. */
struct narrow {
    enum infer_dtype dtype;
    int bits, mantissa, bias;
    enum { PLAIN, ONE_NAN, NEGATIVE_ZERO, IEEE } special; /* of floats */
};

static const struct narrow types[] = {
    {INFER_F32, 8, 3, 7, ONE_NAN}, {INFER_F32, 8, 3, 8, NEGATIVE_ZERO},
    {INFER_F32, 8, 2, 15, IEEE},   {INFER_F32, 8, 2, 16, NEGATIVE_ZERO},
    {INFER_U8, 4, 0, 0, PLAIN},    {INFER_I8, 4, 0, 0, PLAIN},
    {INFER_F32, 4, 1, 1, PLAIN},   {INFER_F32, 8, 0, 127, ONE_NAN},
    {INFER_U8, 2, 0, 0, PLAIN},    {INFER_I8, 2, 0, 0, PLAIN},
};

static const struct narrow *find(int64_t data_type)
{
    return data_type >= NARROW_FLOAT8E4M3FN && data_type <= NARROW_INT2
               ? &types[data_type - NARROW_FLOAT8E4M3FN]
               : NULL;
}

enum infer_dtype narrow_dtype(int64_t data_type)
{
    const struct narrow *t = find(data_type);

    return t && data_type != NARROW_FLOAT8E4M3FN ? t->dtype : INFER_NONE;
}

size_t narrow_bytes(int64_t data_type, int64_t count)
{
    const size_t each = 8 / (size_t)find(data_type)->bits;

    return (size_t)count / each + ((size_t)count % each != 0);
}

/* The float of a sign, an exponent and a mantissa. */
static float decode(const struct narrow *t, unsigned code)
{
    const unsigned sign = code >> (t->bits - 1);
    const int width = t->bits - 1 - t->mantissa;
    const unsigned top = (1U << width) - 1;
    const unsigned exponent = code >> t->mantissa & top;
    const unsigned fraction = code & ((1U << t->mantissa) - 1);
    const float step = ldexpf(1.0f, -t->mantissa);
    float value;

    if (t->special == NEGATIVE_ZERO && code == 1U << (t->bits - 1))
        return NAN;
    if (t->special == IEEE && exponent == top)
        return fraction ? NAN : sign ? -INFINITY : INFINITY;
    if (t->special == ONE_NAN && exponent == top &&
        fraction + 1 == 1U << t->mantissa)
        return NAN;
    value = exponent == 0 ? ldexpf((float)fraction * step, 1 - t->bias)
                          : ldexpf(1.0f + (float)fraction * step,
                                   (int)exponent - t->bias);
    return sign ? -value : value;
}

static void store(const struct narrow *t, int64_t type, unsigned code,
                  int64_t i, struct constant *c)
{
    float value;

    if (t->dtype == INFER_F32) {
        /* A power of two without a sign. */
        value = type != NARROW_FLOAT8E8M0 ? decode(t, code)
                : code == 255             ? NAN
                                          : ldexpf(1.0f, (int)code - t->bias);
        memcpy(c->data + (size_t)i * sizeof value, &value, sizeof value);
    } else {
        if (t->dtype == INFER_I8 && code >> (t->bits - 1))
            code |= 0xffU << t->bits;
        c->data[i] = (unsigned char)code;
    }
}

struct constant *narrow_unpack(int64_t data_type, int rank, const int64_t *dim,
                               const unsigned char *packed)
{
    const struct narrow *t = find(data_type);
    struct constant *c = constant_new(t->dtype, rank, dim);
    const int each = 8 / t->bits;

    for (int64_t i = 0, n = c ? constant_count(c) : 0; i < n; i++)
        store(t, data_type,
              (unsigned)packed[i / each] >> (i % each * t->bits) &
                  ((1U << t->bits) - 1),
              i, c);
    return c;
}

struct narrow_limits narrow_limits(int64_t data_type)
{
    const struct narrow *t = find(data_type);
    const bool powers = data_type == NARROW_FLOAT8E8M0;
    struct narrow_limits l = {.bits = t->bits, .mantissa = t->mantissa};
    /* Codes of exponents; IEEE's last one holds infinities and NaN. */
    const int exponents = 1 << (t->bits - t->mantissa - !powers);

    l.integer = t->dtype != INFER_F32;
    l.is_signed = t->dtype == INFER_I8;
    l.infinity = t->special == IEEE;
    l.nan = t->special != PLAIN;
    if (l.integer) {
        l.largest = (double)((1 << (t->bits - l.is_signed)) - 1);
        return l;
    }
    l.least = powers ? -t->bias : 1 - t->bias;
    l.most = exponents - 1 - t->bias - (powers || t->special == IEEE);
    /* The last code of E4M3FN is its NaN. */
    l.largest = ldexp(2 - ldexp(1, -t->mantissa) *
                              (t->special == ONE_NAN && !powers ? 2 : 1),
                      l.most);
    return l;
}
