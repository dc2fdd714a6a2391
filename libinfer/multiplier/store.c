/* SPDX-License-Identifier: Apache-2.0 */
/* Multipliers in model files: the record of the graph, and back. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/layers.h"
#include "libinfer/multiplier/multiplier.h"

/* The table as a constant, or NULL when out of memory. */
static struct constant *table_of(const struct multiplier *m)
{
    const int64_t dim[2] = {INT64_C(1) << m->bits, INT64_C(1) << m->bits};
    struct constant *c = constant_new(INFER_I32, 2, dim);

    if (c)
        memcpy(c->data, m->table, 4 * multiplier_entries(m));
    return c;
}

int multiplier_store(const struct multiplier *m, const char *exact,
                     struct graph *g, struct infer_error *err)
{
    char word[MULTIPLIER_ACCUMULATOR];
    struct graph_multiplier *to;
    bool *layers;
    int rc = multiplier_exact_layers(g, exact, err, &layers);

    if (rc < 0)
        return rc;
    free(layers);
    to = calloc(1, sizeof *to);
    if (!to)
        return error_set(err, INFER_EMEMORY, "out of memory");
    to->name = strdup(m->name[0] ? m->name : "unnamed");
    to->real = m->kind == MULTIPLIER_FLOAT;
    to->is_signed = m->is_signed;
    to->bits = m->bits;
    to->exact = exact ? strdup(exact) : NULL;
    if (m->accumulated)
        to->accumulator =
            strdup(multiplier_accumulator_word(m->accumulator, word));
    if (!to->name || (exact && !to->exact) ||
        (m->accumulated && !to->accumulator))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        rc = graph_multiplier_set_table(to, table_of(m), err);
    if (rc < 0)
        graph_multiplier_free(to);
    else
        graph_set_multiplier(g, to);
    return rc;
}

int multiplier_stored(const struct graph *g, struct infer_error *err,
                      struct multiplier **out)
{
    const struct graph_multiplier *from = g->multiplier;
    struct multiplier *m;
    int rc;

    *out = NULL;
    if (!from)
        return 0;
    m = multiplier_new(from->real ? MULTIPLIER_FLOAT : MULTIPLIER_INTEGER,
                       from->bits);
    if (!m)
        return error_set(err, INFER_EMEMORY, "out of memory");
    m->is_signed = from->is_signed;
    m->form = "model file";
    multiplier_set_name(m, from->name, strlen(from->name));
    rc = constant_load(from->table, m->table, err);
    if (rc == 0)
        rc = multiplier_check_entries(m, m->name, err);
    if (rc == 0 && from->accumulator) {
        int32_t accumulator[2];
        rc = multiplier_read_accumulator(from->accumulator, err, accumulator);
        if (rc == 0)
            rc = multiplier_accumulate(m, accumulator, err);
        if (rc < 0 && rc != INFER_EMEMORY)
            rc = INFER_EFORMAT;
    }
    if (rc < 0) {
        if (err)
            err->code = rc;
        error_prefix(err, "the model's multiplier");
        multiplier_free(m);
        return rc;
    }
    multiplier_seal(m);
    *out = m;
    return 0;
}
