/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derivatives of an approximate product, for gradients: slopes of least-squares
 * lines through products of one operand o with a fixed other one, q.
 *
 * Of the regression all operands of a binade, 1 <= o < 2, take part, so that
 * the slope depends on q alone.  Of the table of derivatives only the `reach`
 * operands on either side take part.  Beyond a binade's ends products go on as
 * those of floating point: twice the operand has twice the product.
 */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/multiplier.h"

/* Operands on either side: a sixteenth of a binade, and few enough that the
 * largest tables take less than a second. */
#define MOST_REACH 8

/* Product of o, of which index has `count` a binade and may lie one binade
 * outside, and of q; *x: o. */
static double product_at(const struct multiplier *m, bool second, int index,
                         int q, double *x)
{
    const int count = 1 << m->bits;
    const int binade = index < 0 ? -1 : index / count;
    const int o = index - binade * count;
    const double scale = binade < 0 ? 0.5 : binade > 0 ? 2 : 1;

    *x = scale * multiplier_operand(m, o);
    return scale *
           (second ? multiplier_product(m, q, o) : multiplier_product(m, o, q));
}

/* Slope of the line through the products of operands from .. to. */
static double slope(const struct multiplier *m, bool second, int from, int to,
                    int q)
{
    const double n = to - from + 1;
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0, x;

    for (int i = from; i <= to; i++) {
        mean_y += product_at(m, second, i, q, &x) / n;
        mean_x += x / n;
    }
    for (int i = from; i <= to; i++) {
        const double y = product_at(m, second, i, q, &x) - mean_y;
        xy += (x - mean_x) * y;
        xx += (x - mean_x) * (x - mean_x);
    }
    return xy / xx;
}

int multiplier_slopes(const struct multiplier *m, bool local, bool second,
                      struct infer_error *err, float **out)
{
    const int count = 1 << m->bits;
    const int reach = count / 16 < 1            ? 1
                      : count / 16 > MOST_REACH ? MOST_REACH
                                                : count / 16;
    const int rc = multiplier_check_float(m, err);

    if (rc < 0)
        return rc;
    *out = malloc(sizeof **out * multiplier_entries(m));
    if (!*out)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int q = 0; q < count; q++) {
        const double whole = slope(m, second, 0, count - 1, q);
        for (int o = 0; o < count; o++)
            (*out)[(size_t)o << m->bits | (size_t)q] =
                (float)(local ? slope(m, second, o - reach, o + reach, q)
                              : whole);
    }
    return 0;
}
