/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share-constants: integers that are in the graph more than once are kept once.
 *
 * What detectors do to the entries that they chose is told class by class, each
 * time with the same numbers of places; they would be as large as the weights.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

/* Smaller ones are no matter. */
#define LEAST_BYTES 256

struct entry {
    const struct constant *c;
    unsigned long hash;
    int value;
};

static int order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static bool same(const struct constant *a, const struct constant *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0 &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

/* The constants that may be shared, sorted so that equal ones are neighbours:
 * how many. */
static int list_entries(const struct pass *p, struct entry *entry)
{
    int n = 0;

    for (int v = 0; v < p->g->n_values; v++) {
        struct constant *c = pass_value_constant(p, v);

        if (!c || pass_is_float(&p->g->value[v]) || c->bytes < LEAST_BYTES ||
            p->readers[v] == 0 || p->is_output[v])
            continue;
        entry[n++] = (struct entry){
            c, crc32_z((unsigned long)c->dtype, c->data, c->bytes), v};
    }
    qsort(entry, (size_t)n, sizeof *entry, order);
    return n;
}

int pass_share_constants(struct pass *p)
{
    struct graph *g = p->g;
    const size_t most = (size_t)g->n_values + 1;
    struct entry *entry = malloc(most * sizeof *entry);
    int *first = malloc(most * sizeof *first);
    int n, changes = 0, rc = 0;

    if (!entry || !first) {
        free(entry);
        free(first);
        return pass_no_memory(p);
    }
    n = list_entries(p, entry);
    for (int v = 0; v < g->n_values; v++)
        first[v] = v;
    for (int i = 1, from = 0; i < n; i++) {
        if (!same(entry[from].c, entry[i].c)) {
            from = i;
            continue;
        }
        first[entry[i].value] = entry[from].value;
        pass_note(p, (int64_t)entry[i].c->bytes, "%s",
                  g->value[entry[i].value].name);
        changes++;
    }
    for (int node = 0; changes && node < g->n_nodes && rc >= 0; node++)
        for (int i = 0; i < g->node[node].n_in && rc >= 0; i++) {
            const int v = g->node[node].in[i];

            if (v >= 0 && first[v] != v)
                rc = pass_set_input(p, node, i, first[v]);
        }
    free(entry);
    free(first);
    return rc < 0 ? rc : changes;
}
