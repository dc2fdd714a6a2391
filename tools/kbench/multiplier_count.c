/* SPDX-License-Identifier: Apache-2.0 */
/* Which operands a model has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/graph/constant.h"
#include "tools/array.h"
#include "tools/kbench/multiplier_report.h"
#include "tools/probe.h"

static void count_floats(const struct multiplier *m, const void *data,
                         int64_t n, double *count)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)data + 4 * i, sizeof bits);
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
        count_floats(m, wanted->data, constant_count(wanted), count);
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

static bool multiplies(const struct graph_node *n)
{
    return n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE ||
           n->op == GRAPH_DENSE;
}

static int count_weights(const struct multiplier *m, const struct graph *g,
                         struct infer_error *err, double *count)
{
    double sum = 0;
    int rc = 0;

    for (int i = 0; rc == 0 && i < g->n_nodes; i++) {
        struct constant *c =
            multiplies(&g->node[i]) ? weights_of(g, g->node[i].in[1]) : NULL;
        if (c)
            rc = count_constant(m, c, err, count);
    }
    for (int i = 0; i < 1 << m->bits; i++)
        sum += count[i];
    if (rc == 0 && !(sum > 0))
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "no convolution or dense layer has weights that "
                       "multiplier '%s' takes",
                       m->name);
    return rc;
}

/* Counts what the layers read. */
static int count_samples(const struct multiplier *m, const struct graph *g,
                         const struct samples *samples, struct infer_error *err,
                         double *count)
{
    int *value = calloc((size_t)g->n_nodes + 1, sizeof *value), n = 0;
    struct probe p = {0};
    int rc = value ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc == 0 && m->kind != MULTIPLIER_FLOAT)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "--inputs: multiplier '%s' takes integers", m->name);
    for (int i = 0; rc == 0 && i < g->n_nodes; i++)
        if (multiplies(&g->node[i]))
            value[n++] = g->node[i].in[0];
    if (rc == 0)
        rc = probe_open(g, value, n, err, &p);
    for (int s = 0; rc == 0 && s < samples->n; s++) {
        rc = probe_run(&p, samples, s, err);
        for (int i = 0; rc == 0 && i < n; i++) {
            const struct infer_array *a = &p.out[p.place[i]];
            if (a->dtype == INFER_F32)
                count_floats(m, a->data, array_count(a), count);
        }
    }
    probe_close(&p);
    free(value);
    return rc;
}

int kb_multiplier_count(const struct multiplier *m, const struct graph *g,
                        const struct samples *samples, struct infer_error *err,
                        struct kb_operands *out)
{
    const size_t operands = (size_t)1 << m->bits;
    int rc = 0;

    out->second = calloc(operands, sizeof *out->second);
    out->first = samples ? calloc(operands, sizeof *out->first) : NULL;
    if (!out->second || (samples && !out->first))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = count_weights(m, g, err, out->second);
    if (rc == 0 && samples)
        rc = count_samples(m, g, samples, err, out->first);
    if (rc < 0)
        kb_multiplier_clear(out);
    return rc;
}

void kb_multiplier_clear(struct kb_operands *operands)
{
    free(operands->first);
    free(operands->second);
    *operands = (struct kb_operands){NULL, NULL};
}
