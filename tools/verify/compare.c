/* SPDX-License-Identifier: Apache-2.0 */
/* A result against the reference, element by element. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/verify/verify.h"

/* Distance in units of the last place of the expected value. */
static double ulps(enum infer_dtype dtype, double expected, double diff)
{
    int exponent;

    if (expected == 0 || !isfinite(expected))
        return INFINITY;
    (void)frexp(expected, &exponent);
    /* bound_unit() is half of the last place of a number in [1, 2). */
    return fabs(diff) / ldexp(bound_unit(dtype) * 2, exponent - 1);
}

static const char *index_text(const struct kern_tensor *t, int64_t i,
                              char buf[KERN_SHAPE_TEXT])
{
    int64_t index[KERN_MAX_RANK];
    size_t used = 0;

    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = i % t->dim[d];
        i /= t->dim[d];
    }
    buf[0] = '\0';
    for (int d = 0; d < t->rank; d++)
        used += (size_t)snprintf(buf + used, KERN_SHAPE_TEXT - used, "%s%lld",
                                 d ? "," : "", (long long)index[d]);
    return buf;
}

static bool compare_integers(const struct reference *t, int o,
                             enum infer_dtype dtype, const void *result,
                             char text[VERIFY_TEXT])
{
    const struct kern_tensor *y = &t->p.out[o];
    char where[KERN_SHAPE_TEXT];

    for (int64_t i = 0; i < kern_tensor_count(y); i++) {
        const int64_t e = scalar_load_i64(y->dtype, t->out[o], i);
        const int64_t r = scalar_load_i64(dtype, result, i);
        if (e == r)
            continue;
        snprintf(text, VERIFY_TEXT,
                 "output %d at [%s]: reference %" PRId64 ", result %" PRId64, o,
                 index_text(y, i, where), e, r);
        return false;
    }
    return true;
}

/* The reference, rounded to the type of the result. */
static double rounded(enum infer_dtype dtype, double value)
{
    double buf = 0;

    scalar_store(dtype, &buf, 0, value);
    return scalar_load(dtype, &buf, 0);
}

/* Values beyond the largest of a type without infinity become that. */
static double limited(enum infer_dtype dtype, double value)
{
    return dtype == INFER_F8E4M3 && fabs(value) > 448 ? copysign(448, value)
                                                      : value;
}

/* The result is the infinity that the reference becomes in its type, or would
 * become within the tolerance. */
static bool overflows(enum infer_dtype dtype, double expected, double result,
                      double tol)
{
    return isinf(result) && isfinite(expected) &&
           rounded(dtype, expected + copysign(tol, expected)) == result;
}

/* Zeros of either sign are equal; where both are infinite or both NaN they
 * agree too. */
static bool agree(double expected, double result, double tol, double *ratio)
{
    const double diff = fabs(result - expected);

    *ratio = 0;
    if (expected == result || (isnan(expected) && isnan(result)))
        return true;
    if (!(diff <= tol))
        return false;
    *ratio = diff / tol;
    return true;
}

bool verify_compare(const struct reference *t, int o, enum infer_dtype dtype,
                    const void *result, enum pass pass, const double *tol,
                    double *worst, char text[VERIFY_TEXT])
{
    const bool integers = pass != PASS_REAL;
    const double unit = bound_unit(dtype), tiny = bound_tiny(dtype);
    const int64_t count = kern_tensor_count(&t->p.out[o]);
    char where[KERN_SHAPE_TEXT];

    if (!scalar_is_float(dtype))
        return compare_integers(t, o, dtype, result, text);
    for (int64_t i = 0; i < count; i++) {
        const double exact = limited(dtype, ((const double *)t->out[o])[i]);
        const double e = integers ? rounded(dtype, exact) : exact;
        const double r = scalar_load(dtype, result, i);
        const double most = integers ? 0 : tol[i] + unit * fabs(exact) + tiny;
        double ratio;
        if (!agree(e, r, most, &ratio) && !overflows(dtype, e, r, most)) {
            snprintf(text, VERIFY_TEXT,
                     "%s of output %d at [%s]: reference %.9g, result %.9g, "
                     "difference "
                     "%.3g, tolerance %.3g, %.1f ulps",
                     pass == PASS_EXACT  ? "integers"
                     : pass == PASS_REAL ? "reals"
                                         : "integers with infinities",
                     o, index_text(&t->p.out[o], i, where), e, r, r - e, most,
                     ulps(dtype, e, r - e));
            return false;
        }
        if (ratio > *worst)
            *worst = ratio;
    }
    return true;
}
