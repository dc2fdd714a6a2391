/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: options, one plan for each set of input shapes, the run. */
#include "libinfer/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/memory_size.h"
#include "libinfer/plan/best/best.h"

/* Largest work of a run on a CPU by default: a quarter of an hour at 100
 * GFLOP/s, 12,000 pictures through ResNet-50. */
#define DEFAULT_MAX_WORK 1e14

/* ---- creation ------------------------------------------------------ */

/* Times vary from run to run, and with them what is fastest: what must not vary
 * is not measured. */
static int open_tuner(struct infer_session *s,
                      const struct infer_session_options *o,
                      struct infer_error *err)
{
    enum tune_mode mode = (enum tune_mode)o->tune;
    int rc;

    if (o->tune < TUNE_OFF || o->tune > TUNE_EXHAUSTIVE)
        return error_set(err, INFER_EARGUMENT, "tune: %d, expected 0 to 2",
                         o->tune);
    if (o->deterministic)
        mode = TUNE_OFF;
    else if (s->best && mode == TUNE_ON && s->device.kern.kind == KERN_CPU)
        mode = TUNE_TIMES;
    rc = tuner_open(mode, o->tune_cache, &s->device, &s->config.tiers, err,
                    &s->tuner);
    s->config.tuner = s->tuner;
    return rc;
}

/* Checks what INFER_PRECISION_BEST needs; *floats: the type of layers that are
 * not in 8 bits. */
static int take_best(struct infer_session *s,
                     const struct infer_session_options *o,
                     struct infer_error *err, enum infer_precision *floats)
{
    const struct graph *g = model_graph(s->model);
    const bool exact = o->multiplier && strcmp(o->multiplier, "none") == 0;
    const char *why =
        o->deterministic  ? "deterministic measures nothing"
        : o->tune == 0    ? "tune 0 (off) measures nothing"
        : o->keep_tensors ? "keep_tensors (infer --dump-layers, --layers) "
                            "wants every tensor in floats"
        : exact           ? NULL
        : o->multiplier   ? "a multiplier is of one type"
        : g->multiplier   ? "the model's multiplier is of one type (multiplier "
                            "\"none\" leaves it out)"
                          : NULL;

    *floats = s->device.kern.kind == KERN_CUDA ? INFER_PRECISION_FP16
                                               : INFER_PRECISION_FP32;
    s->best = true;
    if (why)
        return error_set(err, INFER_EARGUMENT,
                         "precision best chooses by measured time: %s", why);
    if (!best_has_bytes(g))
        return error_set(
            err, INFER_EUNSUPPORTED,
            "precision best: the model has no layer in 8 bits; wconv NETWORK "
            "-o FILE --quantize=int8 --calibrate=PICTURES makes one "
            "(--min-sqnr, --max-drop: within a stated accuracy)");
    return 0;
}

static int configure(struct infer_session *s,
                     const struct infer_session_options *o,
                     struct infer_error *err)
{
    enum infer_precision precision = o->precision;
    int rc = device_open(o->device, o->threads, o->stream, err, &s->device);

    if (rc < 0)
        return rc;
    if (!o->alloc != !o->dealloc)
        return error_set(err, INFER_EARGUMENT,
                         "alloc, dealloc: one of the two is given, both are "
                         "needed");
    s->device.host.alloc = o->alloc;
    s->device.host.dealloc = o->dealloc;
    s->device.host.user = o->alloc_user;
    const bool gpu = s->device.kern.kind == KERN_CUDA;
    if ((int)o->precision < 0 || o->precision > INFER_PRECISION_BEST)
        return error_set(err, INFER_EARGUMENT, "precision %d: unknown",
                         (int)o->precision);
    if (o->precision == INFER_PRECISION_BEST)
        rc = take_best(s, o, err, &precision);
    if (rc < 0)
        return rc;
    if (precision != INFER_PRECISION_FP32 && !gpu &&
        (precision == INFER_PRECISION_TF32 || o->backend != INFER_BACKEND_REF))
        return error_set(err, INFER_EUNSUPPORTED,
                         "precision %s: device %s supports fp32, and fp16 and "
                         "bf16 with backend ref",
                         device_precision_names[o->precision],
                         s->device.ops->name);
    s->config.model = s->model;
    s->config.device = &s->device;
    s->config.deterministic = o->deterministic != 0;
    s->config.keep_tensors = o->keep_tensors != 0;
    s->config.pad_channels = s->device.kern.kind == KERN_CUDA;
    s->config.apart = s->device.kern.kind == KERN_CUDA;
    s->config.chains = s->device.kern.kind == KERN_CUDA;
    s->config.precision = precision;
    s->config.progress = o->progress;
    s->config.progress_user = o->progress_user;
    s->config.max_memory = o->max_memory;
    s->config.exceeded = &s->exceeded;
    s->config.max_work = o->max_work;
    if (!(o->max_work >= 0))
        return error_set(err, INFER_EARGUMENT,
                         "max_work: %g, expected 0 or more", o->max_work);
    if (!gpu && o->max_memory == 0)
        s->config.max_memory = memory_size() / 4 * 3;
    if (!gpu && o->max_work == 0)
        s->config.max_work = DEFAULT_MAX_WORK;
    s->profile = o->profile != 0;
    s->log = o->log;
    s->log_user = o->log_user;
    rc = device_check_backend(&s->device, o->backend, err);
    if (rc < 0)
        return rc;
    row_tiers_choose(&s->device, o->backend, &s->config.tiers);
    rc = session_take_multiplier(s, s->best ? "none" : o->multiplier,
                                 o->multiplier_exact, err);
    return rc < 0 ? rc : open_tuner(s, o, err);
}

static int allocate(struct infer_session *s, struct infer_error *err)
{
    const struct graph *g = model_graph(s->model);
    const size_t n_in = (size_t)g->n_inputs + 1;

    s->in = calloc(n_in, sizeof *s->in);
    s->matched = calloc(n_in, sizeof *s->matched);
    s->base = calloc(n_in, sizeof(const unsigned char *));
    s->shape = calloc(n_in, sizeof *s->shape);
    s->out = calloc((size_t)g->n_outputs + 1, sizeof *s->out);
    s->out_index = calloc((size_t)g->n_outputs + 1, sizeof *s->out_index);
    if (!s->in || !s->out || !s->matched || !s->base || !s->shape ||
        !s->out_index)
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    return 0;
}

static int keep_plan(struct infer_session *s, struct plan *plan,
                     struct infer_error *err)
{
    struct plan **list =
        realloc(s->plan, ((size_t)s->n_plans + 1) * sizeof(struct plan *));

    if (!list) {
        plan_free(plan);
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    }
    s->plan = list;
    s->plan[s->n_plans++] = plan;
    return 0;
}

/* Chooses kernels for a batch of one where that fixes all shapes, so that
 * what is unsupported is known now.  The plan is prepared when it is run. */
static int choose_first(struct infer_session *s, struct infer_error *err)
{
    const struct graph *g = model_graph(s->model);
    struct plan *plan;
    int i, k, rc;

    for (i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->rank < 0)
            return 0;
        s->shape[i].rank = v->rank;
        for (k = 0; k < v->rank; k++) {
            if (v->dim[k] < 0 && k > 0)
                return 0;
            s->shape[i].dim[k] = v->dim[k] < 0 ? 1 : v->dim[k];
        }
    }
    rc = plan_new(&s->config, s->shape, err, &plan);
    if (rc == INFER_EFORMAT)
        return 0; /* made for other batches than 1: a run will tell */
    if (rc == 0)
        rc = keep_plan(s, plan, err);
    if (rc == 0)
        s->current = plan;
    return rc;
}

int infer_session_create(struct infer_model *model,
                         const struct infer_session_options *options,
                         struct infer_error *err, struct infer_session **out)
{
    struct infer_session_options o;
    struct infer_session *s;
    int rc = session_options_read(options, err, &o);

    if (rc < 0)
        return rc;

    if (!model || !out)
        return error_set(err, INFER_EARGUMENT, "session: no %s given",
                         model ? "place for it" : "model");
    s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    s->model = model_ref(model);
    rc = configure(s, &o, err);
    if (rc == 0)
        rc = allocate(s, err);
    if (rc == 0)
        session_log_open(s, &o);
    if (rc == 0)
        rc = choose_first(s, err);
    if (rc < 0) {
        infer_session_close(&s);
        return rc;
    }
    *out = s;
    return 0;
}

void infer_session_close(struct infer_session **session)
{
    struct infer_session *s;
    int i;

    if (!session || !*session)
        return;
    s = *session;
    *session = NULL;
    micro_batches_close(s);
    for (i = 0; i < s->n_plans; i++)
        plan_free(s->plan[i]);
    free(s->plan);
    if (s->device.ops) {
        s->device.ops->free(&s->device, s->arena);
        s->device.ops->free(&s->device, s->workspace);
        s->device.ops->free(&s->device, s->products.entry);
        free(s->products.exact);
    }
    tuner_close(s->tuner);
    device_close(&s->device);
    free(s->in);
    free(s->out);
    free(s->matched);
    free(s->base);
    free(s->shape);
    free(s->out_index);
    infer_model_close(&s->model);
    free(s);
}

/* ---- plans --------------------------------------------------------- */

bool session_has_shapes(const struct infer_session *s, const struct graph *g)
{
    int i, k;

    for (i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->rank != s->shape[i].rank)
            return false;
        for (k = 0; k < v->rank; k++)
            if (v->dim[k] != s->shape[i].dim[k])
                return false;
    }
    return true;
}

/* Memory that all plans share; what it held is not needed any more. */
static int grow(struct infer_session *s, size_t need, void **memory,
                size_t *bytes, struct infer_error *err)
{
    void *fresh;
    int rc;

    if (*memory && need <= *bytes)
        return 0;
    s->ran = NULL;
    s->whole_ran = NULL;
    s->device.ops->free(&s->device, *memory);
    *memory = NULL;
    *bytes = 0;
    rc = s->device.ops->alloc(&s->device, need ? need : 1, err, &fresh);
    if (rc < 0)
        return rc;
    *memory = fresh;
    *bytes = need;
    return 0;
}

void session_drop_plan(struct infer_session *s, struct plan *plan)
{
    int index, i;

    for (index = 0; s->plan[index] != plan; index++)
        ;
    for (i = s->n_micro; i-- > 0;)
        if (s->micro[i]->plan == plan)
            micro_batches_drop(s, i);
    if (s->current == plan) {
        s->current = NULL;
        s->ready = false;
    }
    if (s->ran == plan)
        s->ran = NULL;
    s->whole = NULL;
    s->plan[index] = s->plan[--s->n_plans];
    plan_free(plan);
}

static int error_code(struct infer_error *err, int code)
{
    if (err)
        err->code = code;
    return code;
}

/* Reserves host memory for the arrays that are copied to and from the device.
 */
static int reserve(const struct infer_session *s, const struct plan *plan,
                   struct infer_error *err)
{
    const struct device *d = &s->device;
    size_t bytes = 0;
    int i;

    if (!d->ops->reserve)
        return 0;
    for (i = 0; i < plan->g->n_inputs; i++)
        if (!checked_add(bytes, plan->buffers.at[plan->input_buffer[i]].bytes,
                         &bytes))
            return error_set(err, INFER_EMEMORY, "inputs too large");
    for (i = 0; i < plan->g->n_outputs; i++)
        if (!checked_add(bytes, kern_tensor_span(&plan->output[i].t), &bytes))
            return error_set(err, INFER_EMEMORY, "outputs too large");
    return d->ops->reserve(d, bytes, plan->g->n_inputs + plan->g->n_outputs,
                           err);
}

static struct plan *find_plan(const struct infer_session *s)
{
    int i;

    for (i = 0; i < s->n_plans; i++)
        if (session_has_shapes(s, s->plan[i]->g))
            return s->plan[i];
    return NULL;
}

int session_plan(struct infer_session *s, struct infer_error *err,
                 struct plan **out)
{
    struct plan *plan = find_plan(s);
    int rc;

    if (!plan) {
        rc = plan_new(&s->config, s->shape, err, &plan);
        /* The model was sound with free sizes: these do not fit it. */
        if (rc == INFER_EFORMAT)
            return error_code(err, INFER_EARGUMENT);
        if (rc == 0)
            rc = keep_plan(s, plan, err);
        if (rc < 0)
            return rc;
    }
    *out = plan;
    return 0;
}

int session_prepare_plan(struct infer_session *s, struct plan *plan,
                         struct infer_error *err)
{
    return s->best ? best_prepare(plan, s->log, s->log_user, err)
                   : plan_prepare(plan, err);
}

/* Makes the plan prepared and the memory large enough for it. */
static int make_ready(struct infer_session *s, struct plan *plan,
                      struct infer_error *err)
{
    int rc;

    s->ready = false;
    if (!plan->prepared) {
        rc = session_prepare_plan(s, plan, err);
        if (rc < 0) {
            session_drop_plan(s, plan);
            return rc;
        }
    }
    rc = grow(s, plan->arena_bytes, &s->arena, &s->arena_bytes, err);
    if (rc == 0)
        rc = grow(s, plan->workspace_bytes, &s->workspace, &s->workspace_bytes,
                  err);
    if (rc == 0)
        rc = reserve(s, plan, err);
    if (rc < 0)
        return rc;
    plan_bind(plan, s->arena, s->workspace);
    s->current = plan;
    s->ready = true;
    return 0;
}

/* Whether the latest plan, or the batch that it is a part of, has the shapes
 * of session->shape. */
static bool is_current(const struct infer_session *s)
{
    return s->ready && session_has_shapes(s, session_graph(s));
}

/* Makes the plan for session->shape the current one, ready to run; or that of
 * its parts. */
static int use_plan(struct infer_session *s, struct infer_error *err)
{
    struct micro_batches *micro = NULL;
    struct plan *plan;
    int rc = 0;

    if (is_current(s))
        return 0;
    plan = find_plan(s);
    if (!plan)
        micro = micro_batches_find(s);
    if (!plan && !micro)
        rc = micro_batches_make(s, err, &micro);
    s->exceeded = false;
    if (rc == 0 && !plan && !micro)
        rc = session_plan(s, err, &plan);
    s->whole = NULL;
    if (rc == 0)
        rc = make_ready(s, micro ? micro->plan : plan, err);
    if (rc == INFER_EMEMORY && s->exceeded) {
        rc = micro_batches_fit(s, err, &micro);
        if (rc == 0)
            rc = make_ready(s, micro->plan, err);
    }
    if (rc == 0 && micro && s->config.max_memory > 0 &&
        micro->bytes > s->config.max_memory)
        rc = error_set(err, INFER_EMEMORY,
                       "the outputs of a batch of %lld take %zu bytes, "
                       "max_memory allows %llu",
                       (long long)micro->batch, micro->bytes,
                       (unsigned long long)s->config.max_memory);
    if (rc == 0 && micro)
        rc = grow(s, micro->bytes, &s->gathered, &s->gathered_bytes, err);
    if (rc == 0)
        s->whole = micro;
    if (rc == 0)
        session_log_plan(s);
    return rc;
}

static int enter(const struct infer_session *s, struct infer_error *err)
{
    return s->device.ops->enter ? s->device.ops->enter(&s->device, err) : 0;
}

int infer_session_prepare(struct infer_session *session,
                          const struct infer_array *in, int n_in,
                          struct infer_error *err)
{
    const struct session_given given = {.array = in, .count = n_in};
    int rc;

    if (!session)
        return error_set(err, INFER_EARGUMENT, "no session given");
    rc = session_match_inputs(session, &given, false, err);
    if (rc == 0)
        rc = enter(session, err);
    return rc < 0 ? rc : use_plan(session, err);
}

/* ---- runs ---------------------------------------------------------- */

/* The first run launches step by step, which loads the kernels; the second
 * records the steps and from then on they are replayed. */
static int launch_all(struct plan *plan, struct infer_error *err)
{
    const struct device *d = plan->config->device;
    int rc = 0;

    if (!d->ops->replay || plan->bound_runs++ == 0 || plan->n_run == 0)
        return plan_launch(plan, err);
    if (!plan->graph)
        rc = plan_record(plan, err, &plan->graph);
    return rc < 0 ? rc : d->ops->replay(d, plan->graph, err);
}

static int launch_step(void *user, struct plan_step *step,
                       struct infer_error *err)
{
    return plan_launch_step(user, step, err);
}

static int run_from(struct infer_session *s, int64_t first,
                    struct infer_error *err)
{
    int rc = session_take_inputs(s, first, err);

    if (rc < 0)
        return rc;
    return s->profile
               ? plan_time(&s->device, s->current->run, s->current->n_run,
                           launch_step, s->current, err)
               : launch_all(s->current, err);
}

static int run_micro_batches(struct infer_session *s, struct infer_error *err)
{
    int64_t first = 0;
    int rc = 0;

    while (rc == 0 && first < s->whole->batch) {
        rc = run_from(s, first, err);
        if (rc == 0)
            micro_batches_gather(s, first);
        first = micro_batches_next(s->whole, first);
    }
    return rc;
}

/* Between begin() and end(). */
static int run_current(struct infer_session *s, int n_out, bool lend,
                       struct infer_error *err)
{
    const struct device *d = &s->device;
    int rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = s->whole ? run_micro_batches(s, err) : run_from(s, 0, err);
    if (rc == 0)
        rc = session_give_outputs(s, n_out, lend, err);
    if (rc == 0)
        rc = d->ops->end(d, err);
    if (rc < 0 && d->ops->give_up)
        d->ops->give_up(d, err);
    return rc;
}

/* The outputs are in session->out. */
static int run_given(struct infer_session *s, const struct session_given *in,
                     const struct session_given *out, struct infer_error *err)
{
    int rc;

    if (!s)
        return error_set(err, INFER_EARGUMENT, "no session given");
    rc = session_match_inputs(s, in, true, err);
    if (rc == 0)
        rc = enter(s, err);
    if (rc == 0)
        rc = use_plan(s, err);
    if (rc == 0)
        rc = session_match_outputs(s, out, err);
    if (rc < 0)
        return rc;
    s->ran = NULL;
    rc = run_current(s, out->count, out->tensor != NULL, err);
    if (rc == 0) {
        s->ran = s->current;
        s->whole_ran = s->whole;
    }
    return rc;
}

int infer_session_run(struct infer_session *session,
                      const struct infer_array *in, int n_in,
                      struct infer_array *out, int n_out,
                      struct infer_error *err)
{
    const int rc =
        run_given(session, &(struct session_given){.array = in, .count = n_in},
                  &(struct session_given){.array = out, .count = n_out}, err);

    for (int i = 0; rc == 0 && i < n_out; i++) {
        const struct infer_tensor *t = &session->out[i];

        out[i].dtype = t->dtype;
        out[i].rank = t->rank;
        memcpy(out[i].dim, t->dim, sizeof out[i].dim);
        out[i].bytes = t->bytes;
    }
    return rc;
}

int infer_session_run_tensors(struct infer_session *session,
                              const struct infer_tensor *in, int n_in,
                              struct infer_tensor *out, int n_out,
                              struct infer_error *err)
{
    const int rc =
        run_given(session, &(struct session_given){.tensor = in, .count = n_in},
                  &(struct session_given){.tensor = out, .count = n_out}, err);

    for (int i = 0; rc == 0 && i < n_out; i++)
        out[i] = session->out[i];
    return rc;
}

/* ---- repeated runs ------------------------------------------------- */

/* Runs between one synchronisation and the next; more marks than this would
 * only take memory. */
#define MAX_QUEUED 256

static int repeat_queued(struct infer_session *s, int runs, double *seconds,
                         struct infer_error *err)
{
    const struct device *d = &s->device;
    int i, rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = d->ops->mark(d, 0, err);
    for (i = 0; rc == 0 && i < runs; i++) {
        rc = launch_all(s->ran, err);
        if (rc == 0)
            rc = d->ops->mark(d, i + 1, err);
    }
    if (rc == 0)
        rc = d->ops->end(d, err);
    for (i = 0; rc == 0 && i < runs; i++)
        rc = d->ops->elapsed(d, i + 1, err, &seconds[i]);
    if (rc < 0 && d->ops->give_up)
        d->ops->give_up(d, err);
    return rc;
}

int infer_session_repeat(struct infer_session *session, int runs,
                         double *seconds, struct infer_error *err)
{
    struct infer_session *s = session;
    int done, rc;

    if (!s || !seconds || runs < 0)
        return error_set(err, INFER_EARGUMENT, "repeat: nothing to repeat");
    if (!s->ran || s->ran != s->current)
        return error_set(err, INFER_EARGUMENT, "repeat: there was no run yet");
    if (!s->device.ops->mark)
        return error_set(err, INFER_EUNSUPPORTED,
                         "repeat: device %s has no clock of its own",
                         s->device.ops->name);
    rc = enter(s, err);
    for (done = 0; rc == 0 && done < runs; done += MAX_QUEUED)
        rc = repeat_queued(s,
                           runs - done < MAX_QUEUED ? runs - done : MAX_QUEUED,
                           seconds + done, err);
    return rc;
}
