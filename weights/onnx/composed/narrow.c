/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casts to the types of narrow.h, whose values are kept in I8, U8 and F32.
 *
 * A float of few bits is a multiple of a power of two that depends on the
 * element's own power of two: the number of powers that the element reaches is
 * counted, and the step is looked up.  All of it is exact.
 */
#include <math.h>

#include "weights/narrow.h"
#include "weights/onnx/composed/compose.h"

/* 2^first, 2^(first + 1), ..., each times `factor`. */
static int powers(struct onnx_import *im, int first, int64_t n, double factor)
{
    float *data;
    const int value = compose_floats(im, 1, &n, &data);

    for (int64_t i = 0; value >= 0 && i < n; i++)
        data[i] = (float)ldexp(factor, first + (int)i);
    return value;
}

/* How many of the limits each element compares so with: I64. */
static int count(struct onnx_import *im, int x, enum kern_binary_kind kind,
                 int limits)
{
    const int rank = compose_rank(im, x);
    int n;

    if (im->rc == 0 && rank >= INFER_MAX_RANK) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a narrow float of %d dimensions",
                  rank);
        return -1;
    }
    n = compose_binary(im, kind, compose_unsqueeze(im, x, rank), limits);
    n = compose_reduce(im, KERN_REDUCE_SUM, compose_cast(im, INFER_F32, n), -1);
    return compose_cast(im, INFER_I64, compose_squeeze(im, n, rank));
}

static int number(struct onnx_import *im, double v)
{
    return compose_number(im, INFER_F32, v);
}

static int is_nan(struct onnx_import *im, int x)
{
    return compose_unary(im, KERN_NOT, compose_binary(im, KERN_EQUAL, x, x));
}

/* What is beyond the largest value becomes infinite, or NaN. */
static int overflow(struct onnx_import *im, int y,
                    const struct narrow_limits *l)
{
    const int beyond =
        compose_binary(im, KERN_GREATER, compose_unary(im, KERN_ABS, y),
                       number(im, l->largest));
    const int other =
        !l->infinity ? number(im, NAN)
                     : compose_binary(im, KERN_MUL, y, number(im, HUGE_VAL));

    return compose_where(im, beyond, other, y);
}

static int round_float(struct onnx_import *im, int x, int type, bool saturate)
{
    const struct narrow_limits l = narrow_limits(type);
    const int n = l.most - l.least;
    const int reached =
        count(im, compose_unary(im, KERN_ABS, x), KERN_GREATER_EQUAL,
              powers(im, l.least + 1, n, 1));
    const int step = compose_gather(
        im, powers(im, l.least - l.mantissa, n + 1, 1), reached, 0);
    int y = compose_binary(im, KERN_DIV, x, step);

    y = compose_binary(im, KERN_MUL, compose_unary(im, KERN_ROUND, y), step);
    y = saturate || !l.nan ? compose_clip(im, -l.largest, l.largest, y)
                           : overflow(im, y, &l);
    if (!l.nan)
        y = compose_where(im, is_nan(im, x), number(im, 0), y);
    /* These have no -0: its code is NaN. */
    if (type == NARROW_FLOAT8E4M3FNUZ || type == NARROW_FLOAT8E5M2FNUZ)
        y = compose_where(im, compose_binary(im, KERN_EQUAL, y, number(im, 0)),
                          number(im, 0), y);
    return y;
}

/* A power of two, without a sign: rounded up, down, or to the nearest. */
static int round_power(struct onnx_import *im, int x, bool saturate, int mode)
{
    const struct narrow_limits l = narrow_limits(NARROW_FLOAT8E8M0);
    const int n = l.most - l.least, size = compose_unary(im, KERN_ABS, x);
    const int reached =
        mode == 0 ? count(im, size, KERN_GREATER, powers(im, l.least, n, 1))
                  : count(im, size, KERN_GREATER_EQUAL,
                          powers(im, l.least, n, mode == 1 ? 2 : 1.5));
    int y = compose_gather(im, powers(im, l.least, n + 1, 1), reached, 0);

    if (!saturate)
        y = compose_where(
            im, compose_binary(im, KERN_GREATER, size, number(im, l.largest)),
            number(im, NAN), y);
    return compose_where(im, is_nan(im, x), number(im, NAN), y);
}

int compose_narrow_float(struct onnx_import *im, int x, int type)
{
    static const char *const modes[] = {"up", "down", "nearest", NULL};
    bool saturate = true;
    int mode = 0;

    onnx_flag(im, "saturate", &saturate);
    onnx_word(im, "round_mode", modes, &mode);
    x = compose_cast(im, INFER_F32, x);
    return type == NARROW_FLOAT8E8M0 ? round_power(im, x, saturate, mode)
                                     : round_float(im, x, type, saturate);
}

int onnx_cast_narrow(struct onnx_import *im, int type)
{
    const struct narrow_limits l = narrow_limits(type);
    const int x = compose_input(im, 0);

    if (!l.integer) {
        compose_output(im, 0, compose_narrow_float(im, x, type));
    } else {
        onnx_ignore(im, "saturate"); /* of floats */
        onnx_ignore(im, "round_mode");
        compose_output(im, 0,
                       compose_wrap(im, compose_cast(im, INFER_I64, x), l.bits,
                                    l.is_signed, narrow_dtype(type)));
    }
    return onnx_set_narrow(im, type);
}
