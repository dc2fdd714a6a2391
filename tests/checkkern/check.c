/* SPDX-License-Identifier: Apache-2.0 */
/* One row on one problem: twice on small integers, twice on reals, once more in
 * place, and now and then twice on integers with infinities among them. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "kernels/table/accumulator.h"
#include "kernels/test_hooks.h"
#include "tests/checkkern/checkkern.h"
#include "tests/engine_order.h"

struct kern_test_hooks kern_test_hooks = {.order_engines = order_engines};

/* Everything that one problem needs while it is checked. */
struct job {
    struct check *c;
    const struct kern_problem *p;
    struct kern_exec exec;
    struct guarded in[KERN_MAX_IN], packed[KERN_MAX_IN], out[KERN_MAX_OUT];
    struct guarded workspace;
    void *dense[KERN_MAX_IN]; /* what in[i] holds, row-major */
    /* out[i], row-major, of both runs */
    void *result[KERN_MAX_OUT], *again[KERN_MAX_OUT];
    double *tol[KERN_MAX_OUT];
    struct reference reference;
    /* The input whose memory out[i] is, in this run; -1: none. */
    int alias[KERN_MAX_OUT];
};

static void free_job(struct job *j)
{
    for (int i = 0; i < KERN_MAX_IN; i++) {
        guarded_free(&j->in[i]);
        guarded_free(&j->packed[i]);
        free(j->dense[i]);
    }
    for (int i = 0; i < KERN_MAX_OUT; i++) {
        guarded_free(&j->out[i]);
        free(j->result[i]);
        free(j->again[i]);
        free(j->tol[i]);
    }
    guarded_free(&j->workspace);
    reference_free(&j->reference);
    kern_release(&j->exec);
}

__attribute__((format(printf, 2, 3))) static enum verdict
fail(const struct job *j, const char *fmt, ...)
{
    char line[512], what[1024], type[32] = "";
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (j->c->id.dtype != INFER_NONE)
        snprintf(type, sizeof(type), " --dtype=%s",
                 infer_dtype_name(j->c->id.dtype));
    /* At once: other threads have something to say too. */
    fprintf(stderr,
            "FAIL %s: %s\n     %s\n     variant %d '%s'; again: checkkern "
            "--row=%s --seed=%" PRIu64 " --problem=%d.%d%s\n",
            j->c->row->name, kern_problem_format(j->p, line, sizeof(line)),
            what, j->exec.variant, j->exec.variant_name, j->c->row->name,
            j->c->id.seed, j->c->id.number, j->c->id.draw, type);
    return VERDICT_FAILED;
}

/* ---- set-up -------------------------------------------------------- */

/* What kern.h promises of workspace and packed weights. */
#define SCRATCH_ALIGN 64
/* And of tensors on a GPU, but for rows that take any strides; on a CPU only
 * that they are aligned as their type is. */
#define TENSOR_ALIGN 16

/* Where tensor t of an argument begins: three problems of four give no better
 * alignment than what is promised. */
static size_t lead_of(const struct job *j, const struct kern_tensor *t,
                      int argument)
{
    const size_t unit = !j->c->gpu || (j->c->row->flags & KERN_STRIDED)
                            ? infer_dtype_size(t->dtype)
                            : TENSOR_ALIGN;

    if (j->c->id.number % 4 == 0)
        return 0;
    return unit * (size_t)(1 + (j->c->id.number + argument) % 3);
}

static void *dense_alloc(const struct kern_tensor *t)
{
    return calloc((size_t)kern_tensor_count(t) + 1, infer_dtype_size(t->dtype));
}

static bool start_input(struct job *j, int i)
{
    const struct kern_tensor *t = &j->p->in[i];

    if (!kern_problem_in(j->p, i))
        return true;
    j->dense[i] = dense_alloc(t);
    return j->dense[i] && guarded_new(&j->in[i], t, lead_of(j, t, i)) &&
           (j->exec.packed[i] == 0 ||
            guarded_bytes(&j->packed[i], j->exec.packed[i], SCRATCH_ALIGN));
}

/* A twin of a block, whose bytes travel twice a run. */
static bool mirror_one(struct job *j, struct guarded *g, size_t *bytes,
                       struct infer_error *err)
{
    *bytes += 2 * g->bytes;
    return guarded_mirror(g, j->c->gpu, err);
}

/* Copies of a run: every argument and the workspace's two ends, both ways. */
#define COPIES (2 * (KERN_MAX_IN + KERN_MAX_OUT + 2))
/* Pinned memory is taken in pieces of at least this. */
#define STAGE ((size_t)4 << 20)

/* Twins on the device of everything that a launch sees, and room for all of it
 * to travel at once: waiting for each copy takes longer than the checks. */
static bool mirror(struct job *j, struct infer_error *err)
{
    const struct device *d = j->c->gpu;
    size_t bytes = 0;
    bool ok = !d || mirror_one(j, &j->workspace, &bytes, err);

    for (int i = 0; d && ok && i < j->p->n_out; i++)
        if (kern_problem_out(j->p, i))
            ok = mirror_one(j, &j->out[i], &bytes, err);
    for (int i = 0; d && ok && i < j->p->n_in; i++)
        if (j->exec.packed[i])
            ok = mirror_one(j, &j->packed[i], &bytes, err);
        else if (kern_problem_in(j->p, i))
            ok = mirror_one(j, &j->in[i], &bytes, err);
    return ok && (!d || d->ops->reserve(d, bytes > STAGE ? bytes : STAGE,
                                        COPIES, err) == 0);
}

static bool start_output(struct job *j, int i)
{
    const struct kern_tensor *y = &j->p->out[i];

    if (!kern_problem_out(j->p, i))
        return true;
    j->result[i] = dense_alloc(y);
    j->again[i] = dense_alloc(y);
    j->tol[i] = calloc((size_t)kern_tensor_count(y) + 1, sizeof(*j->tol[i]));
    return j->result[i] && j->again[i] && j->tol[i] &&
           guarded_new(&j->out[i], y, lead_of(j, y, KERN_MAX_IN + i));
}

static bool start(struct job *j)
{
    bool ok = guarded_bytes(&j->workspace, j->exec.workspace, SCRATCH_ALIGN) &&
              reference_new(&j->reference, j->p);

    for (int i = 0; i < j->p->n_in && ok; i++)
        ok = start_input(j, i);
    for (int i = 0; i < j->p->n_out && ok; i++)
        ok = start_output(j, i);
    return ok;
}

/* ---- running ------------------------------------------------------- */

static bool pack_over(struct job *j, int i, int poison, struct infer_error *err)
{
    struct guarded *g = &j->packed[i];

    guarded_poison(g, poison);
    if (j->c->row->fn->pack(&j->exec, i, j->in[i].origin, g->origin, err) < 0)
        return false;
    if (guarded_bytes_intact(g, j->exec.packed[i], poison))
        return true;
    snprintf(err->text, sizeof(err->text),
             "packing input %d wrote outside its %zu bytes", i,
             j->exec.packed[i]);
    return false;
}

/* On a CPU twice, over other poison: equal bytes mean that all are written. */
static bool pack_input(struct job *j, int i, struct infer_error *err)
{
    struct guarded *g = &j->packed[i];

    if (j->c->device->kind == KERN_CPU) {
        if (!pack_over(j, i, 0, err))
            return false;
        guarded_remember(g);
    }
    if (!pack_over(j, i, 0xff, err))
        return false;
    if (j->c->device->kind == KERN_CPU &&
        !guarded_bytes_unchanged(g, j->exec.packed[i])) {
        snprintf(err->text, sizeof(err->text),
                 "packing input %d left some of its %zu bytes", i,
                 j->exec.packed[i]);
        return false;
    }
    guarded_remember(g);
    return true;
}

/* pass PASSES: single terms; PASSES + 1: with operands of any exponent. */
static bool fill_inputs(struct job *j, enum pass pass, struct infer_error *err)
{
    struct rng rng = {j->c->id.seed + (uint64_t)j->c->id.number * PASSES +
                      (uint64_t)pass};
    const bool single = pass >= PASSES;

    for (int i = 0; i < j->p->n_in; i++)
        if (kern_problem_in(j->p, i))
            data_fill(j->p, i, pass, &rng, kern_tensor_count(&j->p->in[i]),
                      j->dense[i]);
    if (product_factors_of(j->p))
        data_fill_factors(j->p, pass, &rng, j->dense[PRODUCT_TABLE_IN],
                          j->dense[product_factors_in(j->p->op)]);
    if (multiplier_in_use())
        multiplier_fill_tables(j->p, j->dense);
    if (single &&
        !multiplier_fill_single(j->p, &rng, pass > PASSES, j->dense)) {
        snprintf(err->text, sizeof(err->text), "out of memory");
        return false;
    }
    for (int i = 0; i < j->p->n_in; i++) {
        const struct kern_tensor *t = &j->p->in[i];
        if (!kern_problem_in(j->p, i))
            continue;
        guarded_poison(&j->in[i], 0xff);
        guarded_scatter(&j->in[i], j->dense[i]);
        /* Broadcast elements were written several times: the last counts. */
        guarded_gather(&j->in[i], j->dense[i]);
        reference_set(&j->reference, i, t->dtype, j->dense[i]);
        guarded_remember(&j->in[i]);
        if (j->exec.packed[i] && !pack_input(j, i, err))
            return false;
    }
    return true;
}

static bool send_inputs(struct job *j, struct kern_args *args,
                        struct infer_error *err)
{
    for (int i = 0; i < j->p->n_in; i++) {
        struct guarded *g = j->exec.packed[i] ? &j->packed[i] : &j->in[i];
        if (!kern_problem_in(j->p, i))
            continue;
        args->in[i] = guarded_at(g);
        if (!guarded_send(g, err))
            return false;
    }
    return true;
}

static bool send_outputs(struct job *j, int poison, struct kern_args *args,
                         struct infer_error *err)
{
    guarded_poison(&j->workspace, poison);
    for (int i = 0; i < j->p->n_out; i++) {
        if (!kern_problem_out(j->p, i))
            continue;
        args->out[i] = guarded_at(&j->out[i]);
        guarded_poison(&j->out[i], poison);
        if (j->alias[i] >= 0) {
            guarded_scatter(&j->out[i], j->dense[j->alias[i]]);
            args->in[j->alias[i]] = args->out[i];
        }
        if (!guarded_send(&j->out[i], err))
            return false;
    }
    return guarded_send_scratch(&j->workspace, err);
}

static bool fetch_all(struct job *j, struct infer_error *err)
{
    bool ok = guarded_fetch_scratch(&j->workspace, err);

    for (int i = 0; i < j->p->n_out && ok; i++)
        if (kern_problem_out(j->p, i))
            ok = guarded_fetch(&j->out[i], err);
    for (int i = 0; i < j->p->n_in && ok; i++)
        if (kern_problem_in(j->p, i))
            ok = guarded_fetch(j->exec.packed[i] ? &j->packed[i] : &j->in[i],
                               err);
    return ok;
}

/* Runs the row once; what is not written keeps the poison. */
static bool run_once(struct job *j, int poison, void *const *result,
                     struct infer_error *err)
{
    const struct device *d = j->c->gpu;
    struct kern_args args = {.workspace = guarded_at(&j->workspace),
                             .stream = d ? d->stream : NULL};
    bool ok = (!d || d->ops->begin(d, err) == 0) &&
              send_inputs(j, &args, err) &&
              send_outputs(j, poison, &args, err) &&
              j->c->row->fn->launch(&j->exec, &args, err) == 0 &&
              fetch_all(j, err) && (!d || d->ops->end(d, err) == 0);

    if (d && !ok)
        d->ops->give_up(d, err);
    for (int i = 0; i < j->p->n_out && ok; i++)
        if (kern_problem_out(j->p, i))
            guarded_gather(&j->out[i], result[i]);
    return ok;
}

/* What a run may not have touched. */
static enum verdict check_guards(struct job *j, int poison)
{
    for (int i = 0; i < j->p->n_in; i++)
        if (kern_problem_in(j->p, i) &&
            (!guarded_unchanged(&j->in[i]) ||
             (j->exec.packed[i] && !guarded_unchanged(&j->packed[i]))))
            return fail(j, "input %d was changed", i);
    for (int i = 0; i < j->p->n_out; i++)
        if (kern_problem_out(j->p, i) && !guarded_intact(&j->out[i], poison))
            return fail(j,
                        "memory beside the elements of output %d was "
                        "written",
                        i);
    if (!guarded_bytes_intact(&j->workspace, j->exec.workspace, poison))
        return fail(j, "memory beside the %zu bytes of workspace was written",
                    j->exec.workspace);
    return VERDICT_OK;
}

/* ---- comparing ----------------------------------------------------- */

/* True of a problem that stores its sums in single precision as they are. */
static bool is_bare(const struct kern_problem *p)
{
    return p->out[0].dtype == INFER_F32 && p->n_out == 1 &&
           p->epilogue.act.kind == KERN_IDENTITY &&
           !kern_problem_in(p, kern_op_residual(p->op)) &&
           (p->op == KERN_CONV_WGRAD || !kern_problem_in(p, 2));
}

static enum verdict compare(struct job *j, int o, enum pass pass)
{
    const enum infer_dtype dtype = j->p->out[o].dtype;
    const size_t bytes =
        (size_t)kern_tensor_count(&j->p->out[o]) * infer_dtype_size(dtype);
    char text[VERIFY_TEXT];

    /* A second run starts from other poison: equal bits also mean that every
     * element was written. */
    if (!(j->exec.flags & KERN_NONDETERMINISTIC) &&
        memcmp(j->result[o], j->again[o], bytes) != 0)
        return fail(j,
                    "output %d: a second run gives other bits, or elements "
                    "were not written",
                    o);
    reference_follow(&j->reference, o, j->p->out[0].dtype, j->result[0]);
    if ((pass == PASS_REAL || data_output_is_exact(j->p, o)) &&
        !verify_compare(&j->reference, o, dtype, j->result[o], pass, j->tol[o],
                        &j->c->worst, text))
        return fail(j, "%s", text);
    if (accumulator_of(j->p) && is_bare(j->p) &&
        !multiplier_compare(&j->reference, j->result[o], text))
        return fail(j, "%s", text);
    return VERDICT_OK;
}

static enum verdict compare_all(struct job *j, enum pass pass)
{
    enum verdict v = VERDICT_OK;

    for (int o = 0; o < j->p->n_out && v == VERDICT_OK; o++)
        if (kern_problem_out(j->p, o))
            v = compare(j, o, pass);
    return v;
}

static bool fill_bounds(struct job *j, struct infer_error *err)
{
    for (int o = 0; o < j->p->n_out; o++)
        if (kern_problem_out(j->p, o) &&
            !bound_fill(&j->reference, o, &j->exec, j->tol[o], err))
            return false;
    return true;
}

static enum verdict run_pass(struct job *j, enum pass pass)
{
    struct infer_error err = {0};
    enum verdict v;

    if (!fill_inputs(j, pass, &err))
        return fail(j, "%s", err.text);
    if (!reference_run(&j->reference, &err))
        return fail(j, "reference: %s", err.text);
    if (pass == PASS_REAL && !fill_bounds(j, &err))
        return fail(j, "bound: %s", err.text);
    if (!run_once(j, 0xff, j->result, &err))
        return fail(j, "launch: %s", err.text);
    v = check_guards(j, 0xff);
    if (v == VERDICT_OK && !run_once(j, 0x7f, j->again, &err))
        return fail(j, "second launch: %s", err.text);
    if (v == VERDICT_OK)
        v = check_guards(j, 0x7f);
    return v == VERDICT_OK ? compare_all(j, pass) : v;
}

/* A run on single terms: bit by bit. */
static enum verdict run_single(struct job *j, bool anywhere)
{
    const enum pass pass = anywhere ? PASSES + 1 : PASSES;
    struct infer_error err = {0};
    char text[VERIFY_TEXT];

    if (!fill_inputs(j, pass, &err))
        return fail(j, "%s", err.text);
    if (!reference_run(&j->reference, &err))
        return fail(j, "reference: %s", err.text);
    if (!run_once(j, 0xff, j->result, &err))
        return fail(j, "launch: %s", err.text);
    if (!multiplier_compare(&j->reference, j->result[0], text))
        return fail(j, "%s", text);
    return check_guards(j, 0xff);
}

/* ---- in place ------------------------------------------------------ */

/* The input whose place launch() lets output o take where they lie alike, -1
 * for none: see kern.h.  Of batch norm's two gradients one may have dy's. */
static int in_place_of(const struct job *j, int o)
{
    const enum kern_op op = j->p->op;

    if (op == KERN_BATCH_NORM_DGRAD && o == (j->c->id.number % 2 ? 0 : 3))
        return -1;
    return kern_op_in_place(op, o);
}

static bool lie_alike(const struct kern_tensor *a, const struct kern_tensor *b)
{
    bool alike = a->dtype == b->dtype && a->rank == b->rank;

    for (int i = 0; i < a->rank && alike; i++)
        alike = a->dim[i] == b->dim[i] &&
                (a->dim[i] == 1 || a->stride[i] == b->stride[i]);
    return alike;
}

/* How many outputs take the place of an input. */
static int find_aliases(struct job *j)
{
    int n = 0;

    for (int o = 0; o < j->p->n_out; o++) {
        const int i = in_place_of(j, o);
        const struct kern_tensor *x = i < 0 ? NULL : kern_problem_in(j->p, i);
        const struct kern_tensor *y = kern_problem_out(j->p, o);
        if (!x || !y || j->exec.packed[i] || !lie_alike(x, y))
            continue;
        j->alias[o] = i;
        n++;
    }
    return n;
}

static void forget_aliases(struct job *j)
{
    for (int o = 0; o < KERN_MAX_OUT; o++)
        j->alias[o] = -1;
}

/* Once more with outputs where inputs were. */
static enum verdict run_in_place(struct job *j)
{
    struct infer_error err = {0};
    char text[VERIFY_TEXT];

    if (find_aliases(j) == 0)
        return VERDICT_OK;
    const bool ran = run_once(j, 0xff, j->again, &err);
    forget_aliases(j);
    if (!ran)
        return fail(j, "launch in place: %s", err.text);
    for (int o = 0; o < j->p->n_out; o++) {
        if (!kern_problem_out(j->p, o))
            continue;
        reference_follow(&j->reference, o, j->p->out[0].dtype, j->again[0]);
        if (!verify_compare(&j->reference, o, j->p->out[o].dtype, j->again[o],
                            PASS_REAL, j->tol[o], &j->c->worst, text))
            return fail(j, "in place: %s", text);
    }
    return check_guards(j, 0xff);
}

/* ---- one problem --------------------------------------------------- */

/* supports() says no with a reason and without touching anything else. */
static enum verdict check_refusal(const struct job *j, int code,
                                  const struct infer_error *why)
{
    if (code != INFER_EUNSUPPORTED || why->text[0] == '\0')
        return fail(j, "supports() returns %d with the reason '%s'", code,
                    why->text);
    return VERDICT_REFUSED;
}

/* One problem of so many on cuDNN has its variant chosen; the engines of the
 * others are put in another order before, so that the first, which supports()
 * makes a plan of, is the one to be tried. */
#define CHOSEN_EVERY 8

static bool chooses(const struct check *c)
{
    return c->row->backend != INFER_BACKEND_CUDNN ||
           c->id.number % CHOSEN_EVERY == 0;
}

/* Prepares a variant, or the first if that one does not take the problem. */
static bool prepare(struct job *j, int variant, struct infer_error *err)
{
    const struct check *c = j->c;
    int rc =
        kern_prepare_variant(c->row, j->p, c->device, variant, err, &j->exec);

    if (rc == INFER_EUNSUPPORTED && variant > 0)
        rc = kern_prepare(c->row, j->p, c->device, err, &j->exec);
    return rc == 0;
}

/* One problem of so many.  What vendors' activations make of a NaN is theirs to
 * say: some turn it into 0; and cuDNN's convolutions in F16 and its maxima lose
 * infinities (9.19, precomputed implicit GEMM and engine 2). */
#define INFINITE_EVERY 5

static bool takes_infinite(const struct check *c, const struct kern_problem *p)
{
    const bool ours = c->row->backend == INFER_BACKEND_CUDA ||
                      c->row->backend == INFER_BACKEND_REF;

    return c->id.number % INFINITE_EVERY == 1 && data_takes_infinite(p) &&
           c->row->backend != INFER_BACKEND_CUDNN &&
           (ours || p->epilogue.act.kind == KERN_IDENTITY);
}

static enum verdict check_variant(struct check *c, const struct kern_problem *p,
                                  int variant)
{
    struct job j = {.c = c, .p = p};
    struct infer_error err = {0};
    enum verdict v = VERDICT_OK;

    forget_aliases(&j);
    if (!prepare(&j, variant, &err))
        return fail(&j, "prepare() after supports(): %s", err.text);
    if (!start(&j))
        v = fail(&j, "out of memory");
    else if (!mirror(&j, &err))
        v = fail(&j, "%s", err.text);
    const bool exact = data_is_exact(p) && !(j.exec.flags & KERN_INEXACT) &&
                       !multiplier_in_use();
    if (v == VERDICT_OK && exact) {
        v = run_pass(&j, PASS_EXACT);
        c->exact++;
    }
    if (v == VERDICT_OK && exact && takes_infinite(c, p)) {
        v = run_pass(&j, PASS_INFINITE);
        c->infinite++;
    }
    if (v == VERDICT_OK)
        v = run_pass(&j, PASS_REAL);
    if (v == VERDICT_OK)
        v = run_in_place(&j);
    free_job(&j);
    return v;
}

/* ---- any number of threads ----------------------------------------- */

static const int thread_counts[] = {1, 2, 3, 7};
#define COUNTS (sizeof(thread_counts) / sizeof(*thread_counts))

/* The row's outputs for a deterministic problem on that many threads. */
static enum verdict run_on(struct job *j, int threads)
{
    struct kern_device d = *j->c->device;
    struct infer_error err = {0};

    d.threads = threads;
    forget_aliases(j);
    if (kern_prepare(j->c->row, j->p, &d, &err, &j->exec) < 0)
        return fail(j, "prepare() for %d threads: %s", threads, err.text);
    if (!start(j) || !fill_inputs(j, PASS_REAL, &err) ||
        !run_once(j, 0xff, j->result, &err))
        return fail(j, "on %d threads: %s", threads, err.text);
    return check_guards(j, 0xff);
}

static enum verdict check_threads(struct check *c, const struct kern_problem *p)
{
    struct kern_device one = *c->device;
    struct kern_problem q = *p;
    struct job j[COUNTS];
    enum verdict v = VERDICT_OK;

    memset(j, 0, sizeof(j));
    one.threads = 1;
    q.deterministic = true;
    if (c->gpu || !kern_row_is_invariant(c->row) ||
        kern_row_supports(c->row, &q, &one, NULL) < 0)
        return VERDICT_OK;
    for (size_t i = 0; i < COUNTS && v == VERDICT_OK; i++) {
        j[i] = (struct job){.c = c, .p = &q};
        v = run_on(&j[i], thread_counts[i]);
        for (int o = 0; o < q.n_out && v == VERDICT_OK; o++)
            if (kern_problem_out(&q, o) &&
                memcmp(j[0].result[o], j[i].result[o],
                       (size_t)kern_tensor_count(&q.out[o]) *
                           infer_dtype_size(q.out[o].dtype)) != 0)
                v = fail(&j[i], "output %d: other bits on %d threads", o,
                         thread_counts[i]);
    }
    for (size_t i = 0; i < COUNTS; i++)
        free_job(&j[i]);
    return v;
}

/* Products of a given multiplier: on single terms bit by bit, then sums. */
static enum verdict check_multiplier(struct check *c,
                                     const struct kern_problem *p)
{
    struct kern_problem q = *p;
    struct job j = {.c = c, .p = &q};
    struct infer_error err = {0};
    enum verdict v = VERDICT_OK;

    if (!multiplier_single(&q) ||
        kern_row_supports(c->row, &q, c->device, NULL) < 0)
        return VERDICT_OK;
    forget_aliases(&j);
    if (!prepare(&j, 0, &err))
        return fail(&j, "prepare() after supports(): %s", err.text);
    if (!start(&j))
        v = fail(&j, "out of memory");
    else if (!mirror(&j, &err))
        v = fail(&j, "%s", err.text);
    for (int i = 0; v == VERDICT_OK && i < 2; i++) {
        v = run_single(&j, i == 1);
        c->single++;
    }
    free_job(&j);
    return v;
}

/* Each problem is computed by all tiles of a row that has tiles.  Variants of
 * other rows take turns, one a problem. */
enum verdict check_problem(struct check *c, const struct kern_problem *p)
{
    struct job j = {.c = c, .p = p};
    struct infer_error err = {0};
    enum verdict v = VERDICT_OK;

    first_engine = chooses(c) ? 0 : c->id.number;
    const int rc = kern_row_supports(c->row, p, c->device, &err);
    if (rc < 0) {
        if (c->verbose)
            printf("     refused: %s\n", err.text);
        return check_refusal(&j, rc, &err);
    }
    const int n = kern_variants(c->row, p, c->device, &err);
    if (n < 1)
        return fail(&j, "variants() after supports(): %s", err.text);
    if (!c->row->fn->estimate_variant)
        v = check_variant(c, p, chooses(c) ? c->id.number % n : 0);
    else
        for (int i = 0; v == VERDICT_OK && i < n; i++)
            v = check_variant(c, p, i);
    if (v == VERDICT_OK && multiplier_in_use())
        v = check_multiplier(c, p);
    return v == VERDICT_OK ? check_threads(c, p) : v;
}
