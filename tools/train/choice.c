/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel choice of a run: measured by one process, the same in all processes
 * and in a resumed run. */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "kernels/base/error.h"
#include "tools/train/train.h"

/* --deterministic excludes measured choices, which vary, unless --tune was
 * given. */
static int open_tuner(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    enum tune_mode mode = q->deterministic ? TUNE_OFF : TUNE_ON;
    struct row_tiers tiers;

    row_tiers_choose(&r->device, q->backend, &tiers);
    if (q->tune >= 0)
        mode = (enum tune_mode)q->tune;
    /* Only an exhaustive search lets libraries compete (net_launch.c). */
    if (q->backend == INFER_BACKEND_AUTO && mode != TUNE_EXHAUSTIVE)
        tiers.n = 1;
    return tuner_open(mode, q->tune_cache, &r->device, &tiers, err, &r->tuner);
}

/* A resumed run keeps its kernels.  A damaged file is reported when its weights
 * are read. */
static void import_resumed(struct train_run *r)
{
    const char *path = r->request->resume;
    struct infer_error err = {0};
    char *text = NULL;

    if (!path || tuner_mode(r->tuner) == TUNE_OFF ||
        checkpoint_kernels(path, NULL, &text) < 0 || !text)
        return;
    if (tuner_import(r->tuner, text, &err) < 0 && r->cli->verbosity >= 0)
        cli_error(r->cli, "%s: measured kernels ignored: %s", path, err.text);
    free(text);
}

/* Sends bytes of process 0 to the others, through device memory. */
static int share_bytes(struct train_run *r, void *data, size_t bytes,
                       struct infer_error *err)
{
    const struct device *d = &r->device;
    void *at;
    int rc = d->ops->alloc(d, bytes, err, &at);

    if (rc < 0)
        return rc;
    rc = d->ops->copy_in(d, at, data, bytes, err);
    if (rc == 0)
        rc = r->exchange->ops->share(r->exchange, at, bytes, err);
    if (rc == 0)
        rc = d->ops->copy_out(d, data, at, bytes, err);
    d->ops->free(d, at);
    return rc;
}

/* Sends the choices of process 0 to the others. */
static int share_kernels(struct train_run *r, struct infer_error *err)
{
    char *text = train_leads(r) ? tuner_text(r->tuner) : NULL;
    int64_t bytes = text ? (int64_t)strlen(text) + 1 : 0;
    int rc = share_bytes(r, &bytes, sizeof(bytes), err);

    if (rc == 0 && !text && bytes > 0 && !(text = calloc(1, (size_t)bytes)))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0 && bytes > 0)
        rc = share_bytes(r, text, (size_t)bytes, err);
    if (rc == 0 && bytes > 0 && !train_leads(r))
        rc = tuner_import(r->tuner, text, err);
    cJSON_free(text);
    return rc;
}

/* Reports an unusable tuning cache; with -v also what was tuned. */
static void report_tuning(const struct train_run *r)
{
    struct infer_tuning_info t;

    if (!train_leads(r))
        return;
    tuner_info(r->tuner, &t);
    if (t.note[0] != '\0' && r->cli->verbosity >= 0)
        cli_error(r->cli, "%s", t.note);
    if (t.measured + t.cached > 0)
        cli_verbose(r->cli,
                    "tuning: %d problems measured in %.2f s, %d from '%s'",
                    t.measured, t.seconds, t.cached, t.cache);
}

/* Process 0 measures for all, so that all compute alike. */
static int make_net(struct train_run *r, enum infer_dtype dtype, int64_t batch,
                    struct infer_error *err)
{
    const bool leads = train_leads(r);
    int rc = open_tuner(r, err);

    if (rc == 0 && leads) {
        import_resumed(r);
        rc = train_make_net(r, dtype, batch, false, err, &r->net);
    }
    if (rc == 0 && r->exchange && tuner_mode(r->tuner) != TUNE_OFF)
        rc = share_kernels(r, err);
    if (rc == 0 && !leads)
        rc = train_make_net(r, dtype, batch, false, err, &r->net);
    return rc;
}

int train_choose(struct train_run *r, enum infer_dtype dtype, int64_t batch,
                 struct infer_error *err)
{
    const int rc = make_net(r, dtype, batch, err);

    r->kernels = tuner_text(r->tuner);
    report_tuning(r);
    return rc;
}
