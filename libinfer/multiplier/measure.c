/* SPDX-License-Identifier: Apache-2.0 */
/* Operands, products and errors of a table. */
#include <math.h>
#include <string.h>

#include "libinfer/multiplier/multiplier.h"

double multiplier_operand(const struct multiplier *m, int index)
{
    const int count = 1 << m->bits;

    if (m->kind == MULTIPLIER_FLOAT)
        return 1 + (double)index / count;
    return m->is_signed && index >= count / 2 ? index - count : index;
}

double multiplier_product(const struct multiplier *m, int a, int b)
{
    const int32_t entry = m->table[(size_t)a << m->bits | (size_t)b];

    if (m->kind == MULTIPLIER_INTEGER)
        return entry;
    return ldexp(1 + (entry & 0x7fffff) / 8388608.0, entry >> 23);
}

void multiplier_measure(const struct multiplier *m, const double *first,
                        const double *second, struct multiplier_errors *out)
{
    const int count = 1 << m->bits;
    double pairs = 0, quotients = 0;

    memset(out, 0, sizeof *out);
    out->commutative = true;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            const double exact =
                multiplier_operand(m, a) * multiplier_operand(m, b);
            const double error = multiplier_product(m, a, b) - exact;
            const double weight =
                (first ? first[a] : 1) * (second ? second[b] : 1);
            pairs += weight;
            out->rate += weight * (error != 0);
            out->mean += weight * error;
            out->mean_absolute += weight * fabs(error);
            if (weight > 0 && fabs(error) > fabs(out->worst)) {
                out->worst = error;
                out->worst_a = a;
                out->worst_b = b;
            }
            if (m->table[(size_t)a << m->bits | (size_t)b] !=
                m->table[(size_t)b << m->bits | (size_t)a])
                out->commutative = false;
            if (exact == 0 || weight == 0)
                continue;
            quotients += weight;
            out->mean_relative += weight * fabs(error / exact);
            out->relative_bias += weight * error / fabs(exact);
            out->worst_relative =
                fmax(out->worst_relative, fabs(error / exact));
        }
    out->rate /= pairs;
    out->mean /= pairs;
    out->mean_absolute /= pairs;
    out->mean_relative /= quotients;
    out->relative_bias /= quotients;
}
