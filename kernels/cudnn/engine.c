/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that can run a graph, and plans, which are engines made ready:
 * see graph.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cudnn/descriptor.h"

/* ---- engines ------------------------------------------------------- */

static bool has_note(const int *notes, int64_t n, int note)
{
    for (int64_t i = 0; i < n; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* The settings of an engine as text: " k2=1 k3=0". */
static void describe_knobs(const struct cudnn_graph *g,
                           cudnnBackendDescriptor_t config, char *text,
                           size_t bytes)
{
    enum { MAX_KNOBS = CUDNN_KNOB_TYPE_COUNTS };
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t knob[MAX_KNOBS];
    int64_t n = 0, made = 0;
    size_t used = 0;

    while (made < MAX_KNOBS && lib->cudnnBackendCreateDescriptor(
                                   CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                   &knob[made]) == CUDNN_STATUS_SUCCESS)
        made++;
    if (lib->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n,
                                      knob) != CUDNN_STATUS_SUCCESS)
        n = 0;
    for (int64_t i = 0; i < n && i < made && used < bytes; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_SPLIT_K;
        int64_t value = 0, one = 0;

        lib->cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                      CUDNN_TYPE_KNOB_TYPE, 1, &one, &type);
        lib->cudnnBackendGetAttribute(knob[i],
                                      CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                      CUDNN_TYPE_INT64, 1, &one, &value);
        used += (size_t)snprintf(text + used, bytes - used, " k%d=%lld",
                                 (int)type, (long long)value);
    }
    while (made > 0)
        lib->cudnnBackendDestroyDescriptor(knob[--made]);
}

/* Engines of cuDNN 9.19 with wrong results on an H200, as checkkern found;
 * compiled: while planning. */
static bool is_faulty(const struct cudnn_graph *g, int64_t index, bool compiled)
{
    /* Off by up to a place of BF16 where the result takes the place of what is
     * added to it, and with a bias of 16 bits. */
    if (index == 39 && (g->adds || g->rounds_bias))
        return true;
    if (g->direction == CUDNN_DGRAD) /* takes pads to be even */
        return index == 50 && g->uneven_pads && !compiled;
    if (g->direction != CUDNN_WGRAD)
        return false;
    if (compiled) /* leaves zeros */
        return g->ragged;
    switch (index) {
    case 1: /* these take pads to be even */
    case 18:
    case 20:
        return g->uneven_pads;
    case 17: /* so does this one, Winograd's transform without a note */
        return g->uneven_pads || g->few_terms;
    case 47: /* these round parts of sums to 16 bits */
    case 61:
        return g->narrow;
    default:
        return false;
    }
}

/* Reads the properties of an engine, and decides whether it may be used. */
static bool examine(const struct cudnn_graph *g, bool deterministic,
                    struct cudnn_engine *e)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t engine = NULL;
    int note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {0};
    int behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT] = {0};
    int64_t n = 0, notes = 0, behaviors = 0, index = -1;

    if (lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                          &engine) != CUDNN_STATUS_SUCCESS)
        return false;
    lib->cudnnBackendGetAttribute(e->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                  &engine);
    lib->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                  CUDNN_TYPE_INT64, 1, &n, &index);
    lib->cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &notes, note);
    lib->cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviors, behavior);
    lib->cudnnBackendDestroyDescriptor(engine);
    const bool rounds =
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    /* Gradients of engine 50 of 9.19 differ from run to run, too, and its notes
     * do not say so. */
    const bool varies =
        index == 50 ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    const bool compiled =
        has_note(behavior, behaviors, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    const bool fourier = has_note(note, notes, CUDNN_NUMERICAL_NOTE_FFT);
    /* Engine 17 of 9.19 uses Winograd's transform for gradients of weights,
     * too, and its notes do not say so. */
    const bool transforms =
        fourier || (index == 17 && g->direction == CUDNN_WGRAD) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) ||
        has_note(note, notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
    e->flags = (varies ? KERN_NONDETERMINISTIC : 0u) |
               (transforms ? KERN_INEXACT : 0u);
    const int used =
        snprintf(e->name, sizeof(e->name), "eng%lld", (long long)index);
    describe_knobs(g, e->config, e->name + used,
                   sizeof(e->name) - (size_t)used);
    return n == 1 &&
           !has_note(note, notes,
                     CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           !has_note(behavior, behaviors,
                     CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER) &&
           !(rounds && g->ieee) && !(varies && deterministic) &&
           !is_faulty(g, index, compiled) && !(fourier && g->small_window);
}

static bool is_known(const struct cudnn_graph *g, const char *name)
{
    for (int i = 0; i < g->n_engines; i++)
        if (strcmp(g->engine[i].name, name) == 0)
            return true;
    return false;
}

/* Takes the engine over, or drops it. */
static void consider(struct cudnn_graph *g, bool deterministic,
                     cudnnBackendDescriptor_t config)
{
    struct cudnn_engine e = {.config = config};

    if (examine(g, deterministic, &e) && !is_known(g, e.name))
        g->engine[g->n_engines++] = e;
    else
        g->lib->cudnnBackendDestroyDescriptor(config);
}

static int collect(struct cudnn_graph *g, bool deterministic,
                   cudnnBackendDescriptor_t heuristic, int64_t count)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t *config =
        calloc((size_t)count, sizeof(cudnnBackendDescriptor_t));
    struct cudnn_engine *engine =
        realloc(g->engine,
                (size_t)(g->n_engines + count) * sizeof(struct cudnn_engine));
    int64_t made = 0, got = 0;
    int rc = 0;

    if (engine)
        g->engine = engine;
    if (!config || !engine)
        rc = error_set(g->err, INFER_EMEMORY, "cuDNN: out of memory");
    while (rc == 0 && made < count) {
        rc = CUDNN_CALL(g->err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[made]));
        made += rc == 0;
    }
    if (rc == 0)
        rc = CUDNN_CALL(g->err, lib,
                        cudnnBackendGetAttribute(heuristic,
                                                 CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                 count, &got, config));
    for (int64_t i = 0; i < made; i++)
        if (rc == 0 && i < got)
            consider(g, deterministic, config[i]);
        else
            lib->cudnnBackendDestroyDescriptor(config[i]);
    free(config);
    return rc;
}

/* Adds the engines that one mode of the heuristics offers; none is no
 * failure. */
static void ask(struct cudnn_graph *g, const struct cudnn_target *target,
                bool deterministic, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t h =
        cudnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;

    cudnn_set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                         g->operations);
    cudnn_set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
#if CUDNN_VERSION >= 90800
    if (target->device)
        cudnn_set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                             target->device);
#else
    (void)target;
#endif
    if (g->rc < 0)
        return;
    if (g->lib->cudnnBackendFinalize(h) != CUDNN_STATUS_SUCCESS ||
        g->lib->cudnnBackendGetAttribute(
            h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
            &count, NULL) != CUDNN_STATUS_SUCCESS ||
        count <= 0)
        return;
    g->rc = collect(g, deterministic, h, count);
}

int cudnn_graph_finish(struct cudnn_graph *g, const struct cudnn_target *target,
                       bool deterministic)
{
    g->operations = cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_set(g, g->operations, CUDNN_ATTR_OPERATIONGRAPH_OPS,
              CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->op);
    if (target->handle)
        cudnn_set(g, g->operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                  CUDNN_TYPE_HANDLE, 1, &target->handle);
    cudnn_finalize(g, g->operations);
    ask(g, target, deterministic, CUDNN_HEUR_MODE_A);
    ask(g, target, deterministic, CUDNN_HEUR_MODE_FALLBACK);
    if (g->rc == 0 && g->n_engines == 0)
        g->rc = error_set(g->err, INFER_EUNSUPPORTED,
                          "cuDNN: no engine computes this");
    g->err = NULL; /* the caller's, who is done */
    return g->rc;
}

/* ---- plans --------------------------------------------------------- */

int cudnn_plan_new(const struct cudnn_graph *g, int i,
                   const struct cudnn_target *target, struct infer_error *err,
                   struct cudnn_plan *out)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n = 0;
    int rc = CUDNN_CALL(err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));

    if (rc < 0)
        return rc;
    rc =
        CUDNN_CALL(err, lib,
                   cudnnBackendSetAttribute(
                       plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->engine[i].config));
    if (rc == 0 && target->handle)
        rc = CUDNN_CALL(
            err, lib,
            cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                     CUDNN_TYPE_HANDLE, 1, &target->handle));
#if CUDNN_VERSION >= 90800
    if (rc == 0 && target->device)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendSetAttribute(
                            plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->device));
#endif
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnBackendFinalize(plan));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendGetAttribute(
                            plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                            CUDNN_TYPE_INT64, 1, &n, &bytes));
    if (rc < 0) {
        lib->cudnnBackendDestroyDescriptor(plan);
        return rc;
    }
    out->plan = plan;
    out->workspace = bytes > 0 ? (size_t)bytes : 0;
    return 0;
}

void cudnn_plan_free(const struct cudnn_library *lib, struct cudnn_plan *plan)
{
    if (plan->plan)
        lib->cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
}

int cudnn_plan_run(const struct cudnn_graph *g, const struct cudnn_plan *plan,
                   cudnnHandle_t handle, void *const *pointer, void *workspace,
                   struct infer_error *err)
{
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t pack = NULL;
    int rc = CUDNN_CALL(err, lib,
                        cudnnBackendCreateDescriptor(
                            CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));

    if (rc < 0)
        return rc;
    rc = CUDNN_CALL(
        err, lib,
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                 CUDNN_TYPE_INT64, g->n_uids, g->uid));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendSetAttribute(
                            pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                            CUDNN_TYPE_VOID_PTR, g->n_uids, pointer));
    if (rc == 0)
        rc = CUDNN_CALL(
            err, lib,
            cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                     CUDNN_TYPE_VOID_PTR, 1, &workspace));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnBackendFinalize(pack));
    if (rc == 0)
        rc =
            CUDNN_CALL(err, lib, cudnnBackendExecute(handle, plan->plan, pack));
    lib->cudnnBackendDestroyDescriptor(pack);
    return rc;
}
