/* SPDX-License-Identifier: Apache-2.0 */
/* One row on one problem: twice on small integers, twice on reals. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/checkkern/checkkern.h"

/* Everything that one problem needs while it is checked. */
struct job {
    struct check *c;
    const struct kern_problem *p;
    struct kern_exec exec;
    struct guarded in[KERN_MAX_IN], packed[KERN_MAX_IN], out, workspace;
    void *dense[KERN_MAX_IN]; /* what in[i] holds, row-major */
    void *result, *again;     /* out, row-major, of both runs */
    double *tol;
    struct truth truth;
};

static void free_job(struct job *j)
{
    for (int i = 0; i < KERN_MAX_IN; i++) {
        guarded_free(&j->in[i]);
        guarded_free(&j->packed[i]);
        free(j->dense[i]);
        free(j->truth.in[i]);
    }
    guarded_free(&j->out);
    guarded_free(&j->workspace);
    free(j->truth.out);
    free(j->result);
    free(j->again);
    free(j->tol);
    kern_release(&j->exec);
}

__attribute__((format(printf, 2, 3))) static enum verdict
fail(const struct job *j, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    fprintf(stderr, "FAIL %s: %s\n     ", j->c->row->name,
            kern_problem_format(j->p, line, sizeof(line)));
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr,
            "\n     variant %d '%s'; again: checkkern --row=%s --seed=%" PRIu64
            " --problem=%d\n",
            j->exec.variant, j->exec.variant_name, j->c->row->name, j->c->seed,
            j->c->problem);
    return VERDICT_FAILED;
}

/* ---- set-up -------------------------------------------------------- */

/* Operations that move elements: their tensors are of one type. */
static bool moves(enum kern_op op)
{
    return op == KERN_WHERE || op == KERN_GATHER || op == KERN_PAD;
}

/* A type that holds every value of a problem's tensor; single precision for
 * inputs, where it will do, because the reference reads that quickly. */
static enum infer_dtype truth_dtype(const struct kern_problem *p,
                                    enum infer_dtype dtype, bool out)
{
    if (!scalar_is_float(dtype))
        return dtype;
    return out || dtype == INFER_F64 || moves(p->op) ? INFER_F64 : INFER_F32;
}

static void *dense_alloc(const struct kern_tensor *t, enum infer_dtype dtype)
{
    return calloc((size_t)kern_tensor_count(t) + 1, infer_dtype_size(dtype));
}

static bool start_input(struct job *j, int i)
{
    const struct kern_tensor *t = &j->p->in[i];
    const enum infer_dtype dtype = truth_dtype(j->p, t->dtype, false);

    if (!kern_problem_in(j->p, i))
        return true;
    j->truth.p.in[i] = kern_tensor_dense(dtype, t->rank, t->dim, KERN_NCHW);
    j->dense[i] = dense_alloc(t, t->dtype);
    j->truth.in[i] = dense_alloc(t, dtype);
    return j->dense[i] && j->truth.in[i] && guarded_new(&j->in[i], t) &&
           (j->exec.packed[i] == 0 ||
            guarded_bytes(&j->packed[i], j->exec.packed[i]));
}

/* Twins on the device of everything that a launch sees. */
static bool mirror(struct job *j, struct infer_error *err)
{
    const struct device *d = j->c->gpu;
    bool ok = !d || (guarded_mirror(&j->out, d, err) &&
                     guarded_mirror(&j->workspace, d, err));

    for (int i = 0; d && ok && i < j->p->n_in; i++)
        if (j->exec.packed[i])
            ok = guarded_mirror(&j->packed[i], d, err);
        else if (kern_problem_in(j->p, i))
            ok = guarded_mirror(&j->in[i], d, err);
    return ok;
}

static bool start(struct job *j)
{
    const struct kern_tensor *y = &j->p->out[0];
    const enum infer_dtype dtype = truth_dtype(j->p, y->dtype, true);
    bool ok = guarded_new(&j->out, y) &&
              guarded_bytes(&j->workspace, j->exec.workspace);

    j->truth.p = *j->p;
    j->truth.p.out[0] = kern_tensor_dense(dtype, y->rank, y->dim, KERN_NCHW);
    j->truth.out = dense_alloc(y, dtype);
    j->result = dense_alloc(y, y->dtype);
    j->again = dense_alloc(y, y->dtype);
    j->tol = dense_alloc(y, INFER_F64);
    for (int i = 0; i < j->p->n_in && ok; i++)
        ok = start_input(j, i);
    return ok && j->truth.out && j->result && j->again && j->tol;
}

/* ---- running ------------------------------------------------------- */

static bool pack_input(struct job *j, int i, struct infer_error *err)
{
    guarded_poison(&j->packed[i], 0xff);
    if (j->c->row->pack(&j->exec, i, j->in[i].origin, j->packed[i].origin,
                        err) < 0)
        return false;
    if (guarded_bytes_intact(&j->packed[i], j->exec.packed[i], 0xff))
        return true;
    snprintf(err->text, sizeof(err->text),
             "packing input %d wrote outside its %zu bytes", i,
             j->exec.packed[i]);
    return false;
}

static bool fill_inputs(struct job *j, enum pass pass, struct infer_error *err)
{
    struct rng rng = {j->c->seed + (uint64_t)j->c->problem * 2 +
                      (pass == PASS_REAL)};

    for (int i = 0; i < j->p->n_in; i++) {
        const struct kern_tensor *t = &j->p->in[i];
        if (!kern_problem_in(j->p, i))
            continue;
        data_fill(j->p, i, pass, &rng, j->dense[i]);
        guarded_poison(&j->in[i], 0xff);
        guarded_scatter(&j->in[i], j->dense[i]);
        /* Broadcast elements were written several times: the last counts. */
        guarded_gather(&j->in[i], j->dense[i]);
        scalar_convert(t->dtype, j->dense[i], j->truth.p.in[i].dtype,
                       j->truth.in[i], (size_t)kern_tensor_count(t));
        guarded_remember(&j->in[i]);
        if (j->exec.packed[i] && !pack_input(j, i, err))
            return false;
    }
    return true;
}

/* Runs the row once; what is not written keeps the poison. */
static bool run_once(struct job *j, int poison, void *result,
                     struct infer_error *err)
{
    struct kern_args args = {.workspace = guarded_at(&j->workspace),
                             .stream = j->c->gpu ? j->c->gpu->stream : NULL};
    bool ok = true;

    for (int i = 0; i < j->p->n_in && ok; i++) {
        struct guarded *g = j->exec.packed[i] ? &j->packed[i] : &j->in[i];
        if (!kern_problem_in(j->p, i))
            continue;
        args.in[i] = guarded_at(g);
        ok = guarded_send(g, err);
    }
    args.out[0] = guarded_at(&j->out);
    guarded_poison(&j->out, poison);
    guarded_poison(&j->workspace, poison);
    if (!ok || !guarded_send(&j->out, err) ||
        !guarded_send(&j->workspace, err) ||
        j->c->row->launch(&j->exec, &args, err) < 0 ||
        !guarded_fetch(&j->out, err) || !guarded_fetch(&j->workspace, err))
        return false;
    for (int i = 0; i < j->p->n_in && ok; i++)
        if (kern_problem_in(j->p, i))
            ok = guarded_fetch(j->exec.packed[i] ? &j->packed[i] : &j->in[i],
                               err);
    guarded_gather(&j->out, result);
    return ok;
}

/* What a run may not have touched. */
static enum verdict check_guards(struct job *j, int poison)
{
    for (int i = 0; i < j->p->n_in; i++)
        if (kern_problem_in(j->p, i) && !guarded_unchanged(&j->in[i]))
            return fail(j, "input %d was changed", i);
    if (!guarded_intact(&j->out, poison))
        return fail(j, "memory beside the output's elements was written");
    if (!guarded_bytes_intact(&j->workspace, j->exec.workspace, poison))
        return fail(j, "memory beside the %zu bytes of workspace was written",
                    j->exec.workspace);
    return VERDICT_OK;
}

/* ---- comparing ----------------------------------------------------- */

/* Distance in units of the last place of the expected value. */
static double ulps(enum infer_dtype dtype, double expected, double diff)
{
    int exponent;

    if (expected == 0 || !isfinite(expected))
        return INFINITY;
    (void)frexp(expected, &exponent);
    /* bound_unit() is half of the last place of a number in [1, 2). */
    return fabs(diff) / ldexp(bound_unit(dtype) * 2, exponent - 1);
}

static const char *index_text(const struct kern_tensor *t, int64_t i,
                              char buf[KERN_SHAPE_TEXT])
{
    int64_t index[KERN_MAX_RANK];
    size_t used = 0;

    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = i % t->dim[d];
        i /= t->dim[d];
    }
    buf[0] = '\0';
    for (int d = 0; d < t->rank; d++)
        used += (size_t)snprintf(buf + used, KERN_SHAPE_TEXT - used, "%s%lld",
                                 d ? "," : "", (long long)index[d]);
    return buf;
}

static enum verdict compare_integers(struct job *j)
{
    const struct kern_tensor *y = &j->p->out[0];
    char where[KERN_SHAPE_TEXT];

    for (int64_t i = 0; i < kern_tensor_count(y); i++) {
        const int64_t e = scalar_load_i64(y->dtype, j->truth.out, i);
        const int64_t r = scalar_load_i64(y->dtype, j->result, i);
        if (e != r)
            return fail(j, "at [%s]: reference %" PRId64 ", result %" PRId64,
                        index_text(y, i, where), e, r);
    }
    return VERDICT_OK;
}

/* The reference, rounded to the type of the result. */
static double rounded(enum infer_dtype dtype, double value)
{
    double buf = 0;

    scalar_store(dtype, &buf, 0, value);
    return scalar_load(dtype, &buf, 0);
}

/* Zeros of either sign are equal; where both are infinite or both NaN they
 * agree too. */
static bool agree(double expected, double result, double tol, double *ratio)
{
    const double diff = fabs(result - expected);

    *ratio = 0;
    if (expected == result || (isnan(expected) && isnan(result)))
        return true;
    if (!(diff <= tol))
        return false;
    *ratio = diff / tol;
    return true;
}

static enum verdict compare_floats(struct job *j, enum pass pass)
{
    const struct kern_tensor *y = &j->p->out[0];
    const double unit = bound_unit(y->dtype), tiny = bound_tiny(y->dtype);
    char where[KERN_SHAPE_TEXT];

    for (int64_t i = 0; i < kern_tensor_count(y); i++) {
        const double exact = ((const double *)j->truth.out)[i];
        const double e = pass == PASS_EXACT ? rounded(y->dtype, exact) : exact;
        const double r = scalar_load(y->dtype, j->result, i);
        const double tol =
            pass == PASS_EXACT ? 0 : j->tol[i] + unit * fabs(exact) + tiny;
        double ratio;
        if (!agree(e, r, tol, &ratio))
            return fail(j,
                        "%s at [%s]: reference %.9g, result %.9g, difference "
                        "%.3g, tolerance %.3g, %.1f ulps",
                        pass == PASS_EXACT ? "integers" : "reals",
                        index_text(y, i, where), e, r, r - e, tol,
                        ulps(y->dtype, e, r - e));
        if (ratio > j->c->worst)
            j->c->worst = ratio;
    }
    return VERDICT_OK;
}

static enum verdict compare(struct job *j, enum pass pass)
{
    const size_t bytes = (size_t)kern_tensor_count(&j->p->out[0]) *
                         infer_dtype_size(j->p->out[0].dtype);

    /* A second run starts from other poison: equal bits also mean that every
     * element was written. */
    if (!(j->exec.flags & KERN_NONDETERMINISTIC) &&
        memcmp(j->result, j->again, bytes) != 0)
        return fail(j, "a second run gives other bits, or elements were not "
                       "written");
    return scalar_is_float(j->p->out[0].dtype) ? compare_floats(j, pass)
                                               : compare_integers(j);
}

static enum verdict run_pass(struct job *j, enum pass pass)
{
    struct infer_error err = {0};
    enum verdict v;

    if (!fill_inputs(j, pass, &err))
        return fail(j, "%s", err.text);
    if (!truth_run(&j->truth, &err))
        return fail(j, "reference: %s", err.text);
    if (pass == PASS_REAL && !bound_fill(&j->truth, &j->exec, j->tol, &err))
        return fail(j, "bound: %s", err.text);
    if (!run_once(j, 0xff, j->result, &err))
        return fail(j, "launch: %s", err.text);
    v = check_guards(j, 0xff);
    if (v == VERDICT_OK && !run_once(j, 0x7f, j->again, &err))
        return fail(j, "second launch: %s", err.text);
    if (v == VERDICT_OK)
        v = check_guards(j, 0x7f);
    return v == VERDICT_OK ? compare(j, pass) : v;
}

/* supports() says no with a reason and without touching anything else. */
static enum verdict check_refusal(const struct job *j, int code,
                                  const struct infer_error *why)
{
    if (code != INFER_EUNSUPPORTED || why->text[0] == '\0')
        return fail(j, "supports() returns %d with the reason '%s'", code,
                    why->text);
    return VERDICT_REFUSED;
}

/* Each problem tries another variant of the row, and the first where that one
 * does not take it. */
static bool prepare(struct job *j, struct infer_error *err)
{
    const struct check *c = j->c;
    const int n = kern_variants(c->row, j->p, c->device, err);
    const int variant = n > 0 ? c->problem % n : 0;
    int r = n;

    if (n > 0)
        r = kern_prepare_variant(c->row, j->p, c->device, variant, err,
                                 &j->exec);
    if (r == INFER_EUNSUPPORTED && variant > 0)
        r = kern_prepare(c->row, j->p, c->device, err, &j->exec);
    return r == 0;
}

enum verdict check_problem(struct check *c, const struct kern_problem *p)
{
    struct job j = {.c = c, .p = p};
    struct infer_error err = {0};
    enum verdict v = VERDICT_OK;

    const int r = kern_row_supports(c->row, p, c->device, &err);
    if (r < 0) {
        if (c->verbose)
            printf("     refused: %s\n", err.text);
        return check_refusal(&j, r, &err);
    }
    if (!prepare(&j, &err))
        return fail(&j, "prepare() after supports(): %s", err.text);
    if (!start(&j))
        v = fail(&j, "out of memory");
    else if (!mirror(&j, &err))
        v = fail(&j, "%s", err.text);
    const bool exact = data_is_exact(p) && !(j.exec.flags & KERN_INEXACT);
    if (v == VERDICT_OK && exact) {
        v = run_pass(&j, PASS_EXACT);
        c->exact++;
    }
    if (v == VERDICT_OK)
        v = run_pass(&j, PASS_REAL);
    free_job(&j);
    return v;
}
