/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that kernels/unary.def is written with, in the precision of the
 * backend that includes them: FORM is how it declares a function, real its
 * type, and the words are those of kernels/unary.def.
 */
FORM real sigmoid_derivative(real x)
{
    const real s = REAL_SIGMOID(x);

    return s * (1 - s);
}

FORM real tanh_derivative(real x)
{
    const real t = REAL_TANH(x);

    return 1 - t * t;
}

FORM real silu_derivative(real a, real x)
{
    const real s = REAL_SIGMOID(a * x);

    return s * (1 + a * x * (1 - s));
}

FORM real tan_derivative(real x)
{
    const real t = REAL_TAN(x);

    return 1 + t * t;
}

/* x tanh(s), s = softplus x, whose derivative is sigmoid x. */
FORM real mish_derivative(real x)
{
    const real t = REAL_TANH(REAL_SOFTPLUS(x));

    return t + x * (1 - t * t) * REAL_SIGMOID(x);
}

/* Phi(x) + x phi(x) */
FORM real gelu_derivative(real x)
{
    return REAL(0.5) * (1 + REAL_ERF(x * REAL(0.70710678118654752440))) +
           x * REAL_EXP(REAL(-0.5) * x * x) * REAL(0.39894228040143267794);
}

#define GELU_ROOT REAL(0.79788456080286535588) /* sqrt(2/pi) */

FORM real gelu_tanh(real x)
{
    return REAL(0.5) * x *
           (1 + REAL_TANH(GELU_ROOT * (x + REAL(0.044715) * x * x * x)));
}

FORM real gelu_tanh_derivative(real x)
{
    const real t = REAL_TANH(GELU_ROOT * (x + REAL(0.044715) * x * x * x));

    return REAL(0.5) * (1 + t) + REAL(0.5) * x * (1 - t * t) * GELU_ROOT *
                                     (1 + 3 * REAL(0.044715) * x * x);
}

#undef GELU_ROOT
