/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the built-in architecture of bare weights by their names and shapes. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/arch.h"

/* Candidates that a refusal describes. */
#define SHOWN 3
/* One of so many tensors must agree for that: networks share short names such
 * as conv1.weight. */
#define LEAST_SHARE 3

struct candidate {
    const struct arch_row *row;
    struct weights_fit fit;
};

/* Faults: weights of the architecture and tensors of the file that do not
 * agree. */
static size_t faults(const struct weights_fit *fit)
{
    return fit->misshaped + fit->missing + fit->surplus;
}

/* Share of tensors that agree, cross-multiplied: a comes nearer than b. */
static bool is_nearer(const struct weights_fit *a, const struct weights_fit *b)
{
    return (double)a->agree * (double)(b->agree + faults(b)) >
           (double)b->agree * (double)(a->agree + faults(a));
}

/* Whether a measurement could bring the graph into the list: each weight has at
 * most two tensors, its present name and its former one.  Without this, a file
 * of 65,000 tensors is compared with every architecture. */
static bool may_fit(const struct graph *g, size_t needed)
{
    return needed <= 2 * LEAST_SHARE * weights_count_open(g);
}

/* Keeps the SHOWN nearest, best first. */
static void keep_nearest(struct candidate *best, const struct candidate *c)
{
    int at = SHOWN;

    if (c->fit.agree * LEAST_SHARE < c->fit.agree + faults(&c->fit))
        return;
    while (at > 0 &&
           (best[at - 1].row == NULL || is_nearer(&c->fit, &best[at - 1].fit)))
        at--;
    if (at == SHOWN)
        return;
    memmove(&best[at + 1], &best[at],
            (size_t)(SHOWN - 1 - at) * sizeof(best[0]));
    best[at] = *c;
}

static int refuse_unknown(const struct weights_dict *dict,
                          const struct candidate *best, struct infer_error *err)
{
    int rc = error_set(err, INFER_EUNSUPPORTED,
                       "holds %zu tensor%s but no network, and no built-in "
                       "architecture fits (see --list-archs): export the "
                       "network with its weights (torch.onnx.export or "
                       "torch.export.save, Keras' model.save), or describe it "
                       "in an architecture file (--arch)",
                       dict->count, dict->count == 1 ? "" : "s");

    for (int i = 0; i < SHOWN && best[i].row != NULL; i++) {
        const struct weights_fit *f = &best[i].fit;

        error_add(err, rc,
                  "%s: %zu tensors fit, %zu have another shape, %zu are "
                  "missing, %zu are not in the architecture%s%s",
                  best[i].row->name, f->agree, f->misshaped, f->missing,
                  f->surplus, f->example[0] ? "; " : "", f->example);
    }
    return rc;
}

static int refuse_several(const struct arch_row *const *fits, int n,
                          struct infer_error *err)
{
    int rc = error_set(err, INFER_EUNSUPPORTED,
                       "%d built-in architectures fit, and the tensors do not "
                       "tell which one is meant: name it with --arch",
                       n);

    for (int i = 0; i < n; i++)
        error_add(err, rc, "%s: %s", fits[i]->name, fits[i]->description);
    return rc;
}

int arch_recognise(const struct weights_dict *dict, struct infer_error *err,
                   const struct arch_row **out)
{
    const struct arch_row *fits[8];
    struct candidate best[SHOWN] = {{0}};
    const size_t needed = weights_count_needed(dict);
    int n = 0;

    for (size_t i = 0; i < arch_count(); i++) {
        struct candidate c = {.row = arch_at(i)};
        struct graph *g = NULL;
        int rc = arch_open(c.row->name, dict, err, &g);
        const bool possible = rc == INFER_OK && may_fit(g, needed);

        if (possible)
            rc = weights_measure_fit(g, dict, err, &c.fit);
        graph_free(g);
        if (rc < 0)
            return rc;
        if (!possible)
            continue;
        if (faults(&c.fit) == 0 && n < (int)(sizeof(fits) / sizeof(*fits)))
            fits[n++] = c.row;
        keep_nearest(best, &c);
    }
    if (n == 0)
        return refuse_unknown(dict, best, err);
    if (n > 1)
        return refuse_several(fits, n, err);
    *out = fits[0];
    return INFER_OK;
}
