/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the functions of one argument (kernels/unary.def). */
#ifndef KERNELS_UNARY_H
#define KERNELS_UNARY_H

#include "kernels/kern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the derivative is known from the function's output. */
enum kern_from_output {
    KERN_NEVER,
    KERN_ALWAYS,
    KERN_IF_A,      /* for a > 0 */
    KERN_IF_A_AND_B /* for a > 0 and b > 0 */
};

/* What a value in single precision may differ from the reference by; the
 * figures are in tools/verify/bound.c. */
enum kern_error_class {
    KERN_ERROR_NONE,        /* a choice: nothing is rounded */
    KERN_ERROR_AFFINE,      /* a product and a sum */
    KERN_ERROR_ROUNDED,     /* one operation, of relative accuracy */
    KERN_ERROR_EXPONENTIAL, /* grows with |x| */
    KERN_ERROR_TIMES_X,     /* x times an approximation */
    KERN_ERROR_APPROXIMATE  /* a polynomial, of absolute accuracy near 0 */
};

/* Arguments that a test may take. */
enum kern_domain {
    KERN_REALS,
    KERN_POSITIVE,
    KERN_NONZERO,
    KERN_UNIT,     /* |x| < 1 */
    KERN_ABOVE_ONE /* x > 1 */
};

struct kern_unary_info {
    int params;                   /* of a and b, those that count */
    float a, b;                   /* defaults */
    const char *a_name, *b_name;  /* ONNX's attributes; NULL: none */
    bool any_type;                /* takes integers or BOOL too in a graph */
    bool exact, exact_derivative; /* on small integers, for parameters that
                                   * are small and have few binary places */
    enum kern_error_class bound;
    enum kern_domain domain;
    enum kern_from_output from_output;
};

/* Of a kind that does not exist, no fact is true. */
const struct kern_unary_info *kern_unary_info(enum kern_unary_kind kind);

/* The function with its default parameters. */
struct kern_unary kern_unary_default(enum kern_unary_kind kind);

/* Largest magnitude of the derivative; 1 for kinds that state none. */
double kern_unary_steepest(const struct kern_unary *f);

/* True if the kind gives an integer for an integer. */
bool kern_unary_keeps_integers(enum kern_unary_kind kind);

/* A backend's override of a plain form, or else the plain form.  The override
 * of a kind is a macro whose name ends in the kind's and whose text is a comma
 * and the expression: OVERRIDE_OR(VALUE_##kind, value). */
#define OVERRIDE_OR(...)            OVERRIDE_OR_(__VA_ARGS__, )
#define OVERRIDE_OR_(none, it, ...) it

#ifdef __cplusplus
}
#endif

#endif
