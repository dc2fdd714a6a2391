/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The candidates of one problem: every row that supports it, and every variant
 * of the row.  Each is prepared, run once on poisoned output and compared with
 * the reference; the correct ones are timed in turns (timing.c).
 */
#include "tools/kbench/bench.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* Our rows whose estimate is this many times the lowest are not tried. */
#define PRUNE_RATIO 16.0

/* Tensors start at multiples of this. */
#define ALIGN ((size_t)512)

/* Variants that are prepared after the time limit too: a row lists the best
 * ones first. */
#define PREPARED_ANYWAY 3

/* Bytes of values sent to a device at a time. */
#define CHUNK ((size_t)4 << 20)

/* ---- memory -------------------------------------------------------- */

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int allocate(struct bench *b, size_t bytes, struct infer_error *err,
                    void **out)
{
    const struct device *d = b->plan->device;
    struct kb_pool *pool = b->plan->pool;
    void *memory;

    if (pool->memory && rounded(bytes) <= pool->bytes - pool->used) {
        *out = pool->memory + pool->used;
        pool->used += rounded(bytes);
        return 0;
    }
    if (b->n_memory == BENCH_MEMORY)
        return error_set(err, INFER_EMEMORY, "too many pieces of memory");
    const int rc = d->ops->alloc(d, bytes ? bytes : 1, err, &memory);
    if (rc == 0)
        b->memory[b->n_memory++] = *out = memory;
    return rc;
}

/* Copies of the data that together are twice the cache (--cold-cache). */
static int count_sets(const struct bench *b)
{
    if (!b->plan->cold)
        return 1;
    const double sets =
        2 * (double)b->plan->cache_bytes / (b->c->bytes + 1) + 1;
    return sets > BENCH_SETS ? BENCH_SETS : (int)sets;
}

/* Sends the pool's values repeatedly, from element 0 on. */
static int send_values(struct bench *b, int i, char *to, int64_t count,
                       struct infer_error *err)
{
    const struct device *d = b->plan->device;
    const size_t size = infer_dtype_size(b->c->p.in[i].dtype);
    const size_t period = KB_PERIOD * size, total = (size_t)count * size;
    const size_t chunk = CHUNK / period * period;
    int rc = 0;

    if (!b->chunk) {
        b->chunk = malloc(CHUNK);
        if (!b->chunk)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (size_t at = 0; at < chunk && at < total; at += period)
        memcpy(b->chunk + at, b->values.pool[i], period);
    for (size_t at = 0; rc == 0 && at < total; at += chunk)
        rc = d->ops->copy_in(d, to + at, b->chunk,
                             total - at < chunk ? total - at : chunk, err);
    return rc;
}

/* Copy of the input on the host, for pack(). */
static int keep_host(struct bench *b, int i, struct infer_error *err)
{
    const struct kern_tensor *t = &b->c->p.in[i];
    const size_t size = infer_dtype_size(t->dtype);
    const size_t total = (size_t)kern_tensor_count(t) * size;
    const size_t period = KB_PERIOD * size;

    b->host[i] = malloc(total + 1);
    if (!b->host[i])
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t at = 0; at < total; at += period)
        memcpy((char *)b->host[i] + at, b->values.pool[i],
               total - at < period ? total - at : period);
    return 0;
}

static int make_input(struct bench *b, int i, struct infer_error *err)
{
    const struct kern_tensor *t = &b->c->p.in[i];
    const size_t step = rounded(kern_tensor_span(t));
    void *memory;
    int rc = allocate(b, step * (size_t)b->sets, err, &memory);

    for (int s = 0; rc == 0 && s < b->sets; s++) {
        b->in[s][i] = (char *)memory + (size_t)s * step;
        rc = send_values(b, i, b->in[s][i], kern_tensor_count(t), err);
    }
    if (rc == 0 && b->c->p.constant_in >> i & 1)
        rc = keep_host(b, i, err);
    return rc;
}

static int make_output(struct bench *b, struct infer_error *err)
{
    const size_t span = kern_tensor_span(&b->c->p.out[0]);
    const size_t step = rounded(span);
    void *memory;
    const int rc = allocate(b, step * (size_t)b->sets, err, &memory);

    for (int s = 0; rc == 0 && s < b->sets; s++)
        b->out[s] = (char *)memory + (size_t)s * step;
    /* Only the sampled ranges are ever written. */
    b->fetched = malloc(span + 1);
    if (rc == 0 && !b->fetched)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return rc;
}

static int make_room(struct bench *b, struct infer_error *err)
{
    int rc = 0;

    b->sets = count_sets(b);
    if (!kb_values_new(&b->values, &b->c->p, b->plan->seed))
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; rc == 0 && i < b->c->p.n_in; i++)
        if (kern_problem_in(&b->c->p, i))
            rc = make_input(b, i, err);
    return rc == 0 ? make_output(b, err) : rc;
}

/* ---- candidates ---------------------------------------------------- */

static bool selected(const struct bench *b, const struct kern_row *row)
{
    const struct kb_plan *plan = b->plan;

    return row->op == b->c->p.op && plan->backend[row->backend] &&
           (!plan->kernels || fnmatch(plan->kernels, row->name, 0) == 0) &&
           kern_row_supports(row, &b->c->p, &plan->device->kern, NULL) == 0;
}

static double lowest_estimate(const struct bench *b)
{
    double lowest = 0;

    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (!row->fn->estimate || !selected(b, row))
            continue;
        const double e = row->fn->estimate(&b->c->p, &b->plan->device->kern);
        if (lowest == 0 || e < lowest)
            lowest = e;
    }
    return lowest;
}

/* NULL with the error set when out of memory. */
static struct candidate *add_candidate(struct bench *b,
                                       const struct kern_row *row,
                                       const char *variant,
                                       struct infer_error *err)
{
    struct candidate *list =
        realloc(b->candidate, ((size_t)b->count + 1) * sizeof(*list));
    struct kb_result *r = list ? kb_case_add(b->c) : NULL;

    if (list)
        b->candidate = list;
    if (!r) {
        error_set(err, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    struct candidate *k = &b->candidate[b->count++];
    memset(k, 0, sizeof(*k));
    k->result = b->c->n_results - 1;
    r->row = row;
    r->side = kb_side_of(row);
    r->state = KB_FAILED;
    snprintf(r->variant, sizeof(r->variant), "%s", variant);
    return k;
}

static int note_failure(struct bench *b, const struct kern_row *row,
                        int variant, const struct infer_error *why,
                        struct infer_error *err)
{
    char name[KERN_VARIANT_NAME] = "";

    if (variant)
        snprintf(name, sizeof(name), "variant %d", variant);
    if (!add_candidate(b, row, name, err))
        return INFER_EMEMORY;
    struct kb_result *r = &b->c->result[b->c->n_results - 1];
    snprintf(r->text, sizeof(r->text), "%s", why->text);
    b->candidate[b->count - 1].out = true;
    return 0;
}

/* most_us, unless 0: of the estimates of its variants, microseconds. */
static int add_row(struct bench *b, const struct kern_row *row, double most_us,
                   struct infer_error *err)
{
    const struct kern_device *d = &b->plan->device->kern;
    struct infer_error why = {0};
    const int n = kern_variants(row, &b->c->p, d, &why);
    const int most = b->plan->variants > 0 ? b->plan->variants : n;
    const double limit = b->plan->prepare_limit, start = cli_now();
    int rc = 0;

    if (n < 1)
        return note_failure(b, row, 0, &why, err);
    for (int v = 0; rc == 0 && v < n && v < most; v++) {
        struct kern_exec exec;
        if (most_us > 0 && row->fn->estimate_variant &&
            row->fn->estimate_variant(&b->c->p, d, v) > most_us)
            continue;
        if (limit > 0 && v >= PREPARED_ANYWAY && cli_now() - start > limit) {
            b->c->untried += (n < most ? n : most) - v;
            break;
        }
        const int r = kern_prepare_variant(row, &b->c->p, d, v, &why, &exec);
        if (r == INFER_EUNSUPPORTED && v > 0)
            continue;
        if (r < 0) {
            rc = note_failure(b, row, v, &why, err);
            continue;
        }
        struct candidate *k = add_candidate(b, row, exec.variant_name, err);
        if (!k) {
            kern_release(&exec);
            return INFER_EMEMORY;
        }
        k->exec = exec;
        k->prepared = true;
        bench_result(b, k)->workspace = exec.workspace;
        bench_result(b, k)->flags = exec.flags;
    }
    return rc;
}

static int add_rows(struct bench *b, struct infer_error *err)
{
    const double lowest = b->plan->every_kernel ? 0 : lowest_estimate(b);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (!selected(b, row))
            continue;
        if (lowest > 0 && row->fn->estimate &&
            row->fn->estimate(&b->c->p, &b->plan->device->kern) >
                PRUNE_RATIO * lowest)
            continue;
        rc = add_row(b, row, PRUNE_RATIO * lowest, err);
    }
    return rc;
}

/* ---- getting ready ------------------------------------------------- */

/* Packs the weights on the host. */
static void pack(const struct bench *b, struct candidate *k)
{
    for (int i = 0; i < b->c->p.n_in && k->pack_code == 0; i++) {
        const size_t bytes = k->exec.packed[i];
        if (bytes == 0)
            continue;
        k->host[i] = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
        k->pack_code =
            k->host[i]
                ? k->exec.row->fn->pack(&k->exec, i, b->host[i], k->host[i],
                                        &k->pack_why)
                : error_set(&k->pack_why, INFER_EMEMORY, "out of memory");
    }
}

/* Packing takes longer than all launches: it uses every core. */
static void pack_all(struct bench *b)
{
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < b->count; i++)
        if (!b->candidate[i].out)
            pack(b, &b->candidate[i]);
}

/* One copy a set on the device. */
static int send_packed(struct bench *b, struct candidate *k, int i,
                       struct infer_error *err)
{
    const struct device *d = b->plan->device;
    const size_t bytes = k->exec.packed[i], step = rounded(bytes);
    void *memory;
    int rc = allocate(b, step * (size_t)b->sets, err, &memory);

    for (int s = 0; rc == 0 && s < b->sets; s++) {
        k->packed[s][i] = (char *)memory + (size_t)s * step;
        rc = d->ops->copy_in(d, k->packed[s][i], k->host[i], bytes, err);
    }
    free(k->host[i]);
    k->host[i] = NULL;
    return rc;
}

static int share_workspace(struct bench *b, size_t bytes,
                           struct infer_error *err)
{
    if (bytes <= b->workspace_bytes && b->workspace)
        return 0;
    const int rc = allocate(b, bytes, err, &b->workspace);
    if (rc == 0)
        b->workspace_bytes = bytes;
    return rc;
}

static int get_ready(struct bench *b, struct candidate *k,
                     struct infer_error *err)
{
    int rc = share_workspace(b, k->exec.workspace, err);

    if (rc == 0 && k->pack_code < 0) {
        memcpy(err, &k->pack_why, sizeof(*err));
        rc = k->pack_code;
    }
    for (int i = 0; rc == 0 && i < b->c->p.n_in; i++)
        if (k->exec.packed[i])
            rc = send_packed(b, k, i, err);
    return rc;
}

int bench_launch(struct bench *b, struct candidate *k, int set,
                 struct infer_error *err)
{
    struct kern_args args = {.out = {b->out[set]},
                             .workspace = b->workspace,
                             .stream = b->plan->device->stream};

    for (int i = 0; i < b->c->p.n_in; i++)
        if (kern_problem_in(&b->c->p, i))
            args.in[i] = k->exec.packed[i] ? k->packed[set][i] : b->in[set][i];
    return k->exec.row->fn->launch(&k->exec, &args, err);
}

struct kb_result *bench_result(const struct bench *b, const struct candidate *k)
{
    return &b->c->result[k->result];
}

/* ---- verifying ----------------------------------------------------- */

/* Copies the sampled ranges of the output to the device or back. */
static int move_ranges(struct bench *b, bool fetch, struct infer_error *err)
{
    const struct device *d = b->plan->device;
    const size_t size = infer_dtype_size(b->c->p.out[0].dtype);
    int rc = 0;

    for (int r = 0; rc == 0 && r < b->verification->n_ranges; r++) {
        const size_t at = (size_t)b->verification->range[r][0] * size;
        const size_t n = (size_t)b->verification->range[r][1] * size;
        if (fetch) {
            rc = d->ops->copy_out(d, b->fetched + at, b->out[0] + at, n, err);
        } else {
            memset(b->fetched + at, 0xff, n); /* NaN */
            rc = d->ops->copy_in(d, b->out[0] + at, b->fetched + at, n, err);
        }
    }
    return rc;
}

/* 0 also for a wrong result, which is noted. */
static int verify(struct bench *b, struct candidate *k, struct infer_error *err)
{
    struct kb_result *r = bench_result(b, k);
    int rc = move_ranges(b, false, err);

    if (rc == 0)
        rc = bench_launch(b, k, 0, err);
    if (rc == 0)
        rc = move_ranges(b, true, err);
    if (rc < 0)
        return rc;
    if (!kb_verification_check(b->verification, &b->c->p, &k->exec, b->fetched,
                               &r->worst, r->text, sizeof(r->text))) {
        r->state = KB_WRONG;
        k->out = true;
    }
    return 0;
}

/* True if the device still works; else err says when it failed. */
static int still_there(const struct bench *b, const struct kb_result *r,
                       const struct infer_error *why, struct infer_error *err)
{
    const struct device *d = b->plan->device;

    if (d->ops->give_up)
        d->ops->give_up(d, why);
    if (!d->ops->enter || d->ops->enter(d, err) == 0)
        return 0;
    error_prefix(err, "%s on %s", r->row->name, b->c->text);
    return INFER_EDEVICE;
}

int bench_fail(struct bench *b, struct candidate *k,
               const struct infer_error *why, struct infer_error *err)
{
    struct kb_result *r = bench_result(b, k);

    r->state = KB_FAILED;
    snprintf(r->text, sizeof(r->text), "%s", why->text);
    k->out = true;
    return still_there(b, r, why, err);
}

static int verify_all(struct bench *b, struct infer_error *err)
{
    int rc = 0;

    pack_all(b);
    for (int i = 0; rc == 0 && i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        struct infer_error why = {0};
        if (k->out)
            continue;
        int r = get_ready(b, k, &why);
        if (r == 0)
            r = verify(b, k, &why);
        if (r < 0)
            rc = bench_fail(b, k, &why, err);
    }
    return rc;
}

/* ---- all ----------------------------------------------------------- */

static void release(struct bench *b)
{
    const struct device *d = b->plan->device;

    for (int i = 0; i < b->count; i++) {
        struct candidate *k = &b->candidate[i];
        if (k->graph)
            d->ops->graph_free(d, k->graph);
        if (k->prepared)
            kern_release(&k->exec);
        for (int h = 0; h < KERN_MAX_IN; h++)
            free(k->host[h]);
        free(k->times);
    }
    for (int i = 0; i < b->n_memory; i++)
        d->ops->free(d, b->memory[i]);
    b->plan->pool->used = 0;
    for (int i = 0; i < KERN_MAX_IN; i++)
        free(b->host[i]);
    kb_values_free(&b->values);
    free(b->candidate);
    free(b->chunk);
    free(b->fetched);
    free(b);
}

int kb_bench(const struct kb_plan *plan,
             const struct kb_verification *verification, struct kb_case *c,
             struct infer_error *err)
{
    struct bench *b = calloc(1, sizeof(*b));

    if (!b)
        return error_set(err, INFER_EMEMORY, "out of memory");
    b->plan = plan;
    b->verification = verification;
    b->c = c;
    int rc = plan->device->ops->enter
                 ? plan->device->ops->enter(plan->device, err)
                 : 0;
    if (rc == 0)
        rc = add_rows(b, err);
    if (rc == 0 && b->count > 0)
        rc = make_room(b, err);
    if (rc == 0)
        rc = verify_all(b, err);
    if (rc == 0)
        rc = bench_time(b, err);
    if (verification->count > c->verified)
        c->verified = verification->count;
    kb_case_judge(c);
    release(b);
    return rc;
}
