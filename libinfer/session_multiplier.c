/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplier of a session. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/multiplier.h"
#include "libinfer/session.h"

/* Opens the multiplier that was asked for, or that of the model; *out is NULL
 * for exact products.  *exact: the layers that do without, or NULL; of the
 * caller's options or of the model. */
static int open_multiplier(const struct infer_session *s, const char *text,
                           const char **exact, struct infer_error *err,
                           struct multiplier **out)
{
    const struct graph *g = model_graph(s->model);
    int rc = 0;

    *out = NULL;
    if (!text) {
        rc = multiplier_stored(g, err, out);
        if (*out && !*exact)
            *exact = g->multiplier->exact;
    } else if (strcmp(text, "none") != 0) {
        rc = multiplier_open(text, err, out);
    }
    if (rc == 0 && !*out && *exact)
        rc = error_set(err, INFER_EARGUMENT,
                       "multiplier_exact: there is no multiplier");
    return rc;
}

/* The table as plans read it; to be freed. */
static int table_of(const struct multiplier *m, struct infer_error *err,
                    void **out)
{
    uint32_t *entry = NULL;
    int32_t *error = NULL;
    const int rc = m->kind == MULTIPLIER_INTEGER
                       ? multiplier_errors_by_columns(m, err, &error)
                       : multiplier_by_columns(m, err, &entry);

    *out = error ? (void *)error : entry;
    return rc;
}

/* Copies the table to the device, and after it the accumulator or the factors
 * of its products. */
static int send_table(struct infer_session *s, const struct multiplier *m,
                      const void *entry, const uint16_t *factors,
                      struct infer_error *err)
{
    const void *beside =
        m->accumulated ? (const void *)m->accumulator : factors;
    const struct device *d = &s->device;
    const size_t entries = 4 * multiplier_entries(m);
    const size_t bytes = plan_products_bytes(&s->products);
    int rc = d->ops->alloc(d, bytes, err, &s->products.entry);

    if (rc == 0)
        rc = d->ops->copy_in(d, s->products.entry, entry, entries, err);
    if (rc == 0 && bytes > entries)
        rc = d->ops->copy_in(d, (char *)s->products.entry + entries, beside,
                             bytes - entries, err);
    return rc;
}

int session_take_multiplier(struct infer_session *s, const char *text,
                            const char *exact, struct infer_error *err)
{
    struct multiplier *m;
    uint16_t *factors = NULL;
    void *entry = NULL;
    int rc = open_multiplier(s, text, &exact, err, &m);

    if (rc < 0 || !m)
        return rc;
    if (exact && !(s->products.exact = strdup(exact)))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = table_of(m, err, &entry);
    s->products.accumulated = m->accumulated;
    if (rc == 0 && m->kind == MULTIPLIER_FLOAT && !m->accumulated) {
        rc = multiplier_factors(m, err, &factors);
        s->products.factors = rc > 0 ? rc : 0;
        rc = rc > 0 ? 0 : rc;
    }
    s->products.bits = m->bits;
    if (rc == 0)
        rc = send_table(s, m, entry, factors, err);
    if (rc == 0) {
        s->products.integers = m->kind == MULTIPLIER_INTEGER;
        s->config.products = &s->products;
    }
    free(entry);
    free(factors);
    multiplier_free(m);
    return rc;
}
