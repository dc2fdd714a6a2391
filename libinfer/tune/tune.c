/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a tuner, and what it says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "libinfer/tune/tune_private.h"

/* The vendors' libraries whose rows an exhaustive search measures, with their
 * versions; "" for none. */
static void name_libraries(const struct row_tiers *tiers, char *text,
                           size_t bytes)
{
    uint32_t all = 0;
    size_t used = 0;

    for (int i = 0; i < tiers->n; i++)
        all |= tiers->tier[i];
    text[0] = '\0';
    for (int i = 0; i < INFER_BACKEND_COUNT && used < bytes; i++) {
        const char *name = (all >> i & 1) != 0
                               ? kern_backend_libraries((enum infer_backend)i)
                               : "";

        if (name[0])
            used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                     used > 0 ? ", " : "", name);
    }
}

int tuner_open(enum tune_mode mode, const char *path,
               const struct device *device, const struct row_tiers *tiers,
               struct infer_error *err, struct tuner **out)
{
    struct tuner *t = calloc(1, sizeof *t);
    char name[160] = "cpu";
    int rc = 0;

    if (!t)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    if (mode == TUNE_ON && device->kern.kind == KERN_CPU)
        mode = TUNE_OFF;
    t->mode = mode;
    t->pool.device = device;
    if (mode != TUNE_OFF) {
        if (mode == TUNE_EXHAUSTIVE)
            name_libraries(tiers, t->libraries, sizeof t->libraries);
        if (device->ops->describe)
            rc = device->ops->describe(device, err, name, sizeof name);
        if (rc == 0)
            rc = tune_cache_open(path, name, err, &t->cache);
    }
    if (rc < 0) {
        tuner_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void tuner_close(struct tuner *t)
{
    if (!t)
        return;
    tune_pool_clear(&t->pool);
    tune_cache_close(t->cache);
    free(t);
}

enum tune_mode tuner_mode(const struct tuner *t)
{
    return t ? t->mode : TUNE_OFF;
}

bool tuner_trusts(const struct tuner *t, const char *exhaustive)
{
    return t->mode != TUNE_EXHAUSTIVE ||
           (exhaustive && strcmp(exhaustive, t->libraries) == 0);
}

const char *tuner_thoroughness(const struct tuner *t)
{
    return t->mode == TUNE_EXHAUSTIVE ? t->libraries : NULL;
}

void tuner_finish(struct tuner *t)
{
    if (!t || t->mode == TUNE_OFF)
        return;
    tune_pool_clear(&t->pool);
    tune_cache_write(t->cache);
}

void tuner_info(const struct tuner *t, struct infer_tuning_info *out)
{
    if (t)
        memcpy(out, &t->info, sizeof *out);
    else
        memset(out, 0, sizeof *out);
    out->cache = t && t->cache ? tune_cache_path(t->cache) : "";
    out->note = t && t->cache ? tune_cache_note(t->cache) : "";
}

bool tuner_recall_types(struct tuner *t, const char *key,
                        struct tune_types *out)
{
    return t->cache && tune_cache_find_types(t->cache, key, out);
}

int tuner_remember_types(struct tuner *t, const char *key,
                         const struct tune_types *types,
                         struct infer_error *err)
{
    return tune_cache_add_types(t->cache, key, types, err);
}

char *tuner_text(const struct tuner *t)
{
    return t && t->cache ? tune_cache_text(t->cache) : NULL;
}

int tuner_import(struct tuner *t, const char *text, struct infer_error *err)
{
    return t && t->cache ? tune_cache_import(t->cache, text, err) : 0;
}
