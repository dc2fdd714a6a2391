/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a tuner, and what it says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "libinfer/tune/tune_private.h"

/* The vendors' libraries whose kernels may be chosen, with their versions; ""
 * for none.  They are loaded for that even if no kernel of theirs turns out the
 * fastest: a choice that was measured against other versions does not hold. */
static void name_libraries(const struct row_tiers *tiers, char *text,
                           size_t bytes)
{
    uint32_t all = 0;
    size_t used = 0;

    for (int i = 0; i < tiers->n; i++)
        all |= tiers->tier[i];
    text[0] = '\0';
    for (int i = 0; i < INFER_BACKEND_COUNT; i++) {
        const struct kern_library *l =
            kern_backend_of((enum infer_backend)i)->library;

        for (; (all >> i & 1) != 0 && l->name && used < bytes; l++) {
            const char *version = l->version(NULL);

            used += (size_t)snprintf(text + used, bytes - used, ", %s%s",
                                     version ? "" : "no ",
                                     version ? version : l->name);
        }
    }
}

int tuner_open(enum tune_mode mode, const char *path,
               const struct device *device, const struct row_tiers *tiers,
               struct infer_error *err, struct tuner **out)
{
    struct tuner *t = calloc(1, sizeof *t);
    char name[160] = "cpu", libraries[64], label[224];
    int rc = 0;

    if (!t)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    if (mode == TUNE_ON && device->kern.kind == KERN_CPU)
        mode = TUNE_OFF;
    t->mode = mode;
    t->pool.device = device;
    if (mode != TUNE_OFF) {
        name_libraries(tiers, libraries, sizeof libraries);
        if (device->ops->describe)
            rc = device->ops->describe(device, err, name, sizeof name);
        snprintf(label, sizeof label, "%.140s%.62s", name, libraries);
        if (rc == 0)
            rc = tune_cache_open(path, label, err, &t->cache);
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

char *tuner_text(const struct tuner *t)
{
    return t && t->cache ? tune_cache_text(t->cache) : NULL;
}

int tuner_import(struct tuner *t, const char *text, struct infer_error *err)
{
    return t && t->cache ? tune_cache_import(t->cache, text, err) : 0;
}
