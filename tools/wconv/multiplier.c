/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplier that a model file holds: --multiplier, and what inspect says
 * of it. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/multiplier_source.h"
#include "tools/wconv/wconv.h"

int wconv_store_multiplier(const struct wconv_request *request, struct graph *g,
                           struct infer_error *err)
{
    const char *exact = request->multiplier_exact;
    struct multiplier *m = NULL;
    int rc;

    if (request->multiplier && strcmp(request->multiplier, "none") == 0) {
        graph_set_multiplier(g, NULL);
        rc = 0;
    } else if (request->multiplier) {
        rc = tool_open_multiplier(request->multiplier, err, &m);
    } else {
        rc = multiplier_stored(g, err, &m);
        if (m && !exact)
            exact = g->multiplier->exact;
    }
    if (rc == 0 && m)
        rc = multiplier_store(m, exact, g, err);
    else if (rc == 0 && exact)
        rc = error_set(err, INFER_EARGUMENT,
                       "--multiplier-exact: the model has no multiplier");
    multiplier_free(m);
    return rc;
}

bool wconv_multiplier_words(const struct graph *g, char *buf, size_t bytes)
{
    struct multiplier *m;
    char sums[MULTIPLIER_ACCUMULATOR + 16] = "", word[MULTIPLIER_ACCUMULATOR];

    if (multiplier_stored(g, NULL, &m) < 0 || !m)
        return false;
    if (m->accumulated)
        snprintf(sums, sizeof sums, ", sums by %s",
                 multiplier_accumulator_word(m->accumulator, word));
    snprintf(buf, bytes, "%s: %s of %d %sbits, CRC-32 %08x%s%s%.160s", m->name,
             m->kind == MULTIPLIER_FLOAT ? "floating point"
             : m->is_signed              ? "signed integers"
                                         : "unsigned integers",
             m->bits, m->kind == MULTIPLIER_FLOAT ? "mantissa " : "", m->crc,
             sums, g->multiplier->exact ? "; exact: " : "",
             g->multiplier->exact ? g->multiplier->exact : "");
    multiplier_free(m);
    return true;
}
