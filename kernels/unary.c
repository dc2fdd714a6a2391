/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the functions of one argument. */
#include "kernels/unary.h"

#include <math.h>

#define FACTS(...) __VA_ARGS__

static const struct kern_unary_info infos[KERN_UNARY_COUNT] = {
#define UNARY(kind, name, facts, value, derivative) [kind] = {FACTS facts},
#include "kernels/unary.def"
};

const struct kern_unary_info *kern_unary_info(enum kern_unary_kind kind)
{
    static const struct kern_unary_info unknown = {0};

    return (int)kind < 0 || kind >= KERN_UNARY_COUNT ? &unknown : &infos[kind];
}

struct kern_unary kern_unary_default(enum kern_unary_kind kind)
{
    const struct kern_unary_info *info = kern_unary_info(kind);

    return (struct kern_unary){.kind = kind, .a = info->a, .b = info->b};
}

bool kern_unary_grad_from_output(const struct kern_unary *f)
{
    switch (kern_unary_info(f->kind)->from_output) {
    case KERN_NEVER:
        return false;
    case KERN_ALWAYS:
        return true;
    case KERN_IF_A:
        return f->a > 0;
    case KERN_IF_A_AND_B:
        return f->a > 0 && f->b > 0;
    }
    return false;
}

double kern_unary_steepest(const struct kern_unary *f)
{
    const double a = fabs((double)f->a), b = fabs((double)f->b);

    (void)b;
#define UNARY_STEEPEST(of, value)                                              \
    if (f->kind == (of))                                                       \
        return value;
#include "kernels/unary.def"
    return 1;
}

bool kern_unary_keeps_integers(enum kern_unary_kind kind)
{
#define UNARY_INTEGER(of, value)                                               \
    if (kind == (of))                                                          \
        return true;
#include "kernels/unary.def"
    return false;
}
