/* SPDX-License-Identifier: Apache-2.0 */
/* Which operands the weights of a model are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/graph/constant.h"
#include "tools/kbench/multiplier_report.h"

/* Adds the elements of a constant that is in memory. */
static void count_floats(const struct multiplier *m, const struct constant *c,
                         double *count)
{
    for (int64_t i = 0; i < constant_count(c); i++) {
        uint32_t bits;
        memcpy(&bits, c->data + 4 * i, sizeof bits);
        const uint32_t exponent = bits & PRODUCT_TABLE_EXPONENT;
        if (exponent != 0 && exponent != PRODUCT_TABLE_EXPONENT)
            count[product_table_index(m->bits, bits)]++;
    }
}

static void count_integers(const struct multiplier *m, const struct constant *c,
                           double *count)
{
    for (int64_t i = 0; i < constant_count(c); i++)
        count[m->is_signed ? c->data[i] : c->data[i] ^ 128u]++;
}

static int count_constant(const struct multiplier *m, struct constant *c,
                          struct infer_error *err, double *count)
{
    const bool floats = m->kind == MULTIPLIER_FLOAT;
    struct constant *loaded, *wanted;
    int rc;

    if (floats ? c->dtype != INFER_F32 && c->dtype != INFER_F16 &&
                     c->dtype != INFER_BF16 && c->dtype != INFER_F64
               : c->dtype != INFER_I8 || m->bits != 8)
        return 0;
    rc = constant_in_memory(c, NULL, err, &loaded);
    if (rc < 0)
        return rc;
    wanted =
        floats ? constant_convert(loaded, INFER_F32) : constant_ref(loaded);
    constant_unref(loaded);
    if (!wanted)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (floats)
        count_floats(m, wanted, count);
    else
        count_integers(m, wanted, count);
    constant_unref(wanted);
    return 0;
}

/* The constant that a value is, or is dequantised from; NULL: none. */
static struct constant *weights_of(const struct graph *g, int value)
{
    const struct graph_value *v = value < 0 ? NULL : &g->value[value];

    if (!v || v->data || v->producer < 0)
        return v ? v->data : NULL;
    const struct graph_node *n = &g->node[v->producer];
    return n->op == GRAPH_DEQUANTIZE ? g->value[n->in[0]].data : NULL;
}

int kb_multiplier_count(const struct multiplier *m, const struct graph *g,
                        struct infer_error *err, double **out)
{
    const int operands = 1 << m->bits;
    double *count = calloc((size_t)operands, sizeof *count), sum = 0;
    int rc = count ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    for (int i = 0; rc == 0 && i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        if (n->op != GRAPH_CONV && n->op != GRAPH_CONV_TRANSPOSE &&
            n->op != GRAPH_DENSE)
            continue;
        struct constant *c = weights_of(g, n->in[1]);
        if (c)
            rc = count_constant(m, c, err, count);
    }
    for (int i = 0; rc == 0 && i < operands; i++)
        sum += count[i];
    if (rc == 0 && !(sum > 0))
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "no convolution or dense layer has weights that "
                       "multiplier '%s' takes",
                       m->name);
    if (rc < 0) {
        free(count);
        return rc;
    }
    *out = count;
    return 0;
}
