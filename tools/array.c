/* SPDX-License-Identifier: Apache-2.0 */
/* Input and output arrays of runs. */
#include "tools/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/memory_size.h"
#include "kernels/base/scalar.h"
#include "libinfer/graph/graph.h"
#include "tools/cli.h"

void arrays_clear(struct arrays *a)
{
    while (a->count > 0)
        free(a->item[--a->count].data);
}

int64_t array_count(const struct infer_array *a)
{
    int64_t n = 1;
    int i;

    for (i = 0; i < a->rank; i++)
        n *= a->dim[i];
    return n;
}

int array_alloc(const char *what, const char *name, struct infer_array *a,
                struct infer_error *err)
{
    const uint64_t memory = memory_size();
    char needed[32], here[32];

    a->bytes = array_bytes(a->dtype, a->rank, a->dim);
    if (a->bytes > memory / 2)
        return error_set(
            err, INFER_EMEMORY,
            "%s '%s' of a batch of %lld: %s are needed, and of the %s of this "
            "machine half may be used",
            what, name, (long long)(a->rank > 0 ? a->dim[0] : 1),
            a->bytes == SIZE_MAX
                ? "more bytes than there are addresses"
                : cli_bytes((double)a->bytes, needed, sizeof(needed)),
            cli_bytes((double)memory, here, sizeof(here)));
    a->data = malloc(a->bytes > 0 ? a->bytes : 1);
    if (a->data == NULL)
        return error_set(err, INFER_EMEMORY, "%s '%s': out of memory", what,
                         name);
    return INFER_OK;
}

void array_fill(struct infer_array *a, uint64_t *seed)
{
    const int64_t n = array_count(a);
    int64_t i;

    for (i = 0; i < n; i++) {
        const double x = cli_random(seed);

        if (a->dtype == INFER_F32)
            ((float *)a->data)[i] = (float)x;
        else
            scalar_store(a->dtype, a->data, i, floor(4 * x + 4));
    }
}

/* ---- sizes of states ----------------------------------------------- */

static bool agree(const struct graph *g, const struct graph_shape *shape)
{
    struct graph *copy = graph_copy(g);
    struct infer_error fault;
    const bool fits =
        copy && graph_infer_shapes(copy, shape, &fault) == INFER_OK;

    graph_free(copy);
    return fits;
}

/* The batch of the inputs whose first size is free; -1: there is none. */
static int64_t batch_of(const struct graph *g, const struct infer_array *in)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->rank > 0 && v->dim[0] < 0)
            return in[i].dim[0];
    }
    return -1;
}

void state_sizes(const struct graph *g, const bool *made,
                 struct infer_array *in)
{
    struct graph_shape chosen[ARRAYS_MAX], state[ARRAYS_MAX];
    const int64_t batch = batch_of(g, in);
    bool any = false;

    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        int d = 1;

        chosen[i].rank = in[i].rank;
        memcpy(chosen[i].dim, in[i].dim, sizeof chosen[i].dim);
        state[i] = chosen[i];
        if (!made[i] || v->rank < 2 || v->dim[0] < 0)
            continue;
        while (d < v->rank && v->dim[d] >= 0)
            d++;
        if (d == v->rank)
            continue;
        state[i].dim[0] = v->dim[0];
        state[i].dim[d] = batch;
        any = true;
    }
    if (batch < 0 || !any || agree(g, chosen) || !agree(g, state))
        return;
    for (int i = 0; i < g->n_inputs; i++)
        memcpy(in[i].dim, state[i].dim, sizeof in[i].dim);
}
