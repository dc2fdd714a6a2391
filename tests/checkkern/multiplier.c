/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of one given multiplier, for rows that know tables of products.  In
 * the passes on single terms each output is one product (or none), so that it
 * must agree bit by bit, whatever the operands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/product_table.h"
#include "kernels/table/product_factors.h"
#include "tests/checkkern/checkkern.h"

static struct multiplier *multiplier;
static uint16_t *factors;
static int rank; /* factors of an operand; 0: none */

bool multiplier_use(const char *name, struct infer_error *err)
{
    multiplier_free(multiplier);
    free(factors);
    factors = NULL;
    multiplier = NULL;
    if (multiplier_open(name, err, &multiplier) < 0)
        return false;
    rank = multiplier_factors(multiplier, err, &factors);
    return rank >= 0;
}

void multiplier_done(void)
{
    multiplier_free(multiplier);
    free(factors);
    multiplier = NULL;
    factors = NULL;
}

bool multiplier_in_use(void)
{
    return multiplier != NULL;
}

bool multiplier_give(const struct kern_row *row, struct kern_problem *p)
{
    const struct kern_tensor *old = product_table_of(p);
    const int at = product_factors_in(p->op);
    const int64_t side = INT64_C(1) << multiplier->bits;
    const int64_t dim[2] = {side, side}, factor_dim[3] = {2, side, rank};

    if (!(row->flags & KERN_PRODUCT_TABLE) || !old || old->dtype != INFER_U32)
        return false;
    const bool by_columns = old->stride[0] < old->stride[1];
    struct kern_tensor *t = &p->in[PRODUCT_TABLE_IN];
    *t = kern_tensor_dense(INFER_U32, 2, dim, KERN_NCHW);
    if (by_columns) {
        t->stride[0] = 1;
        t->stride[1] = side;
    }
    if (rank == 0) {
        if (at < p->n_in)
            memset(&p->in[at], 0, sizeof p->in[at]);
    } else {
        p->in[at] = kern_tensor_dense(INFER_BF16, 3, factor_dim, KERN_NCHW);
        if (p->n_in <= at)
            p->n_in = at + 1;
    }
    return true;
}

void multiplier_fill_tables(const struct kern_problem *p, void *const *dense)
{
    const size_t entries = multiplier_entries(multiplier);

    memcpy(dense[PRODUCT_TABLE_IN], multiplier->table,
           entries * sizeof *multiplier->table);
    if (rank > 0)
        memcpy(dense[product_factors_in(p->op)], factors,
               2 * sizeof *factors * (size_t)rank << multiplier->bits);
}

/* ---- single terms -------------------------------------------------- */

/* A significand of any bits; the exponent near 1, or anywhere up to most: 255
 * are infinities and NaN. */
static uint32_t draw(struct rng *rng, bool anywhere, int most)
{
    const uint32_t sign = rng_chance(rng, 50) ? PRODUCT_TABLE_SIGN : 0;
    const uint32_t fraction = (uint32_t)rng_range(rng, 0, (1 << 23) - 1);
    uint32_t exponent = (uint32_t)rng_range(rng, 107, 147);

    if (rng_chance(rng, 8))
        return sign;
    if (anywhere && rng_chance(rng, 30))
        exponent = (uint32_t)rng_range(rng, 0, most);
    return sign | exponent << 23 | fraction;
}

/* Which output channel an element of in[1] belongs to, and which of its terms
 * it is. */
static void place_of(const struct kern_problem *p, int64_t i, int64_t *scalar,
                     int64_t *term)
{
    const struct kern_tensor *w = &p->in[1];
    const int64_t groups =
        p->op == KERN_CONV_TRANSPOSE_FPROP ? p->attr.conv.groups : 1;
    int64_t window = 1;

    for (int d = 2; d < w->rank; d++)
        window *= w->dim[d];
    const int64_t first = i / window / w->dim[1];
    const int64_t second = i / window % w->dim[1], at = i % window;
    if (p->op == KERN_CONV_WGRAD) {
        *scalar = second;
        *term = first * window + at;
    } else if (p->op == KERN_CONV_TRANSPOSE_FPROP) {
        const int64_t each = w->dim[0] / groups;
        *scalar = first / each * w->dim[1] + second;
        *term = first % each * window + at;
    } else {
        *scalar = first;
        *term = second * window + at;
    }
}

bool multiplier_single(struct kern_problem *p)
{
    if (p->in[1].rank < 2)
        return false;
    for (int d = 0; d < p->in[1].rank; d++) /* elements in one place */
        if (p->in[1].dim[d] > 1 && p->in[1].stride[d] == 0)
            return false;
    /* Neither bias nor residual: their sums would round. */
    memset(&p->in[2], 0, sizeof p->in[2]);
    if (p->op != KERN_CONV_WGRAD)
        memset(&p->in[3], 0, sizeof p->in[3]);
    memset(&p->epilogue, 0, sizeof p->epilogue);
    return p->n_out == 1 && p->out[0].dtype == INFER_F32 &&
           kern_tensor_count(&p->in[1]) > 0;
}

bool multiplier_fill_single(const struct kern_problem *p, struct rng *rng,
                            bool anywhere, void *const *dense)
{
    const int64_t count = kern_tensor_count(&p->in[1]);
    uint32_t *x = dense[0], *w = dense[1];
    int64_t scalars = 0, terms = 0, scalar, term;

    for (int64_t i = 0; i < count; i++) {
        place_of(p, i, &scalar, &term);
        scalars = scalar + 1 > scalars ? scalar + 1 : scalars;
        terms = term + 1 > terms ? term + 1 : terms;
    }
    int64_t *chosen = calloc((size_t)scalars, sizeof *chosen);
    if (!chosen)
        return false;
    for (int64_t i = 0; i < scalars; i++)
        chosen[i] = rng_range(rng, 0, terms - 1);
    for (int64_t i = 0; i < kern_tensor_count(&p->in[0]); i++)
        x[i] = draw(rng, anywhere, 255);
    for (int64_t i = 0; i < count; i++) {
        place_of(p, i, &scalar, &term);
        /* Padding times an infinity is a product to some rows. */
        w[i] = term == chosen[scalar] ? draw(rng, anywhere, 254) : 0;
    }
    free(chosen);
    return true;
}

bool multiplier_compare(const struct reference *t, const void *result,
                        char text[VERIFY_TEXT])
{
    const int64_t count = kern_tensor_count(&t->p.out[0]);
    const double *wanted = t->out[0];
    const float *found = result;

    for (int64_t i = 0; i < count; i++) {
        const float w = (float)wanted[i];
        /* Zeros of both signs: a sum with other zeros. */
        if (isnan(w) ? !isnan(found[i]) : found[i] != w) {
            snprintf(text, VERIFY_TEXT,
                     "bit by bit, element %lld: %.9g (%a), not %.9g (%a)",
                     (long long)i, found[i], found[i], w, w);
            return false;
        }
    }
    return true;
}
