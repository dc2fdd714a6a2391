/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that kernels/binary.def is written with, for the backend that
 * includes them: FORM is how it declares a function, real its type, REAL_FMOD
 * its remainder with the sign of the dividend, INT_MULTIPLY its wrapping
 * product.  Of integers, division and remainder by zero give 0.
 */

/* The sign of the divisor, as Python's %. */
FORM real modulo(real a, real b)
{
    const real r = REAL_FMOD(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

FORM int64_t divide_integers(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? INT_MULTIPLY(a, -1) : a / b;
}

FORM int64_t modulo_integers(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

FORM int64_t shift_left(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

FORM int64_t shift_right(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;
}

/* By squaring; a negative power is 1 / a^|b|, truncated. */
FORM int64_t power_of_integers(int64_t a, int64_t b)
{
    int64_t r = 1;

    if (b < 0)
        return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;
    while (b > 0) {
        if (b & 1)
            r = INT_MULTIPLY(r, a);
        b >>= 1;
        if (b > 0)
            a = INT_MULTIPLY(a, a);
    }
    return r;
}
