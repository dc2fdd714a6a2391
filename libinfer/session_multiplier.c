/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplier of a session. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/multiplier.h"
#include "libinfer/session.h"

int session_take_multiplier(struct infer_session *s, const char *text,
                            const char *exact, struct infer_error *err)
{
    const struct device *d = &s->device;
    struct multiplier *m = NULL;
    uint32_t *entry = NULL;
    int rc;

    if (!text && exact)
        return error_set(err, INFER_EARGUMENT,
                         "multiplier_exact: there is no multiplier");
    if (!text)
        return 0;
    if (exact) {
        s->products.exact = strdup(exact);
        if (!s->products.exact)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    rc = multiplier_open(text, err, &m);
    if (rc == 0)
        rc = multiplier_by_columns(m, err, &entry);
    if (rc == 0)
        rc = d->ops->alloc(d, 4 * multiplier_entries(m), err,
                           &s->products.entry);
    if (rc == 0)
        rc = d->ops->copy_in(d, s->products.entry, entry,
                             4 * multiplier_entries(m), err);
    if (rc == 0) {
        s->products.bits = m->bits;
        s->config.products = &s->products;
    }
    free(entry);
    multiplier_free(m);
    return rc;
}
