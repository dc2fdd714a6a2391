/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between two arrays of numbers. */
#include "tools/difference.h"

#include <math.h>
#include <string.h>

#include "kernels/base/scalar.h"

/* Divisor if all expected values are 0. */
#define LEAST_SCALE 1e-30

void difference_of(enum infer_dtype found_type, const void *found,
                   enum infer_dtype expected_type, const void *expected,
                   int64_t n, struct difference *out)
{
    int64_t i;

    memset(out, 0, sizeof(*out));
    for (i = 0; i < n; i++) {
        const double x = scalar_load(found_type, found, i);
        const double y = scalar_load(expected_type, expected, i);
        const double d = fabs(x - y);

        /* An infinite scale would hide every difference. */
        if (isfinite(y)) {
            out->scale = fmax(out->scale, fabs(y));
            out->finite++;
        }
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        out->count++;
        if (!(d <= out->max_abs)) {
            out->max_abs = isnan(d) ? INFINITY : d;
            out->at = i;
            out->found = x;
            out->expected = y;
        }
    }
    if (out->count > 0)
        out->max_rel = out->max_abs / fmax(out->scale, LEAST_SCALE);
}
