/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes from untrusted files.  Each function returns false, and
 * leaves *out alone, where the exact result does not fit. */
#ifndef KERNELS_BASE_CHECKED_H
#define KERNELS_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(size_t a, size_t b, size_t *out)
{
    size_t r;

    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_mul(size_t a, size_t b, size_t *out)
{
    size_t r;

    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;

    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Product of dim[0 .. rank-1], each of which must be >= 0. */
static inline bool checked_count(int rank, const int64_t *dim, int64_t *out)
{
    int64_t n = 1;
    int i;

    for (i = 0; i < rank; i++) {
        if (dim[i] < 0)
            return false;
        if (dim[i] == 0) {
            *out = 0;
            return true;
        }
    }
    for (i = 0; i < rank; i++)
        if (!checked_mul_i64(n, dim[i], &n))
            return false;
    *out = n;
    return true;
}

/* How many numbers lie from start up to below limit in steps of delta, at most
 * 2^62: false where delta is 0 or one of them is NaN. */
static inline bool checked_steps(double start, double limit, double delta,
                                 int64_t *out)
{
    const double n = (limit - start) / delta;
    const int64_t whole =
        n < 0x1p62 ? (int64_t)(n > 0 ? n : 0) : INT64_C(1) << 62;

    if (delta == 0 || n != n)
        return false;
    *out = whole + (n < 0x1p62 && (double)whole < n);
    return true;
}

/* True where [offset, offset + length) lies inside [0, total). */
static inline bool checked_range(uint64_t offset, uint64_t length,
                                 uint64_t total)
{
    return offset <= total && length <= total - offset;
}

#endif
