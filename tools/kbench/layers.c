/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problems of a model: what the planner asks of the kernels, layer by
 * layer, each with how often it occurs.
 *
 * The graph is planned for the reference, which takes every epilogue, so that
 * bias, residual and activation are fused as far as the graph allows; then the
 * tensors are laid out as asked.  Only shapes count: an architecture without
 * weights gets zeros, which are never read.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "libinfer/model/model.h"
#include "libinfer/plan/plan.h"
#include "tools/kbench/kbench.h"
#include "weights/passes.h"
#include "weights/weights.h"

/* ---- the graph ----------------------------------------------------- */

/* Zero weights for an architecture. */
static int fill_weights(struct graph *g, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < g->n_values; i++) {
        struct graph_value *v = &g->value[i];
        bool free_shape = v->rank < 0;

        for (int k = 0; k < v->rank; k++)
            free_shape = free_shape || v->dim[k] < 0;
        if (!v->name || v->data || v->producer >= 0)
            continue;
        for (int k = 0; k < g->n_inputs; k++)
            free_shape = free_shape || g->input[k] == i;
        if (free_shape)
            continue;
        struct constant *c = constant_new(v->dtype, v->rank, v->dim);
        rc = c ? graph_set_constant(g, i, c, err)
               : error_set(err, INFER_EMEMORY, "out of memory");
    }
    return rc;
}

static bool lacks_weights(const struct graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        bool input =
            !g->value[i].name || g->value[i].data || g->value[i].producer >= 0;
        for (int k = 0; k < g->n_inputs; k++)
            input = input || g->input[k] == i;
        if (!input)
            return true;
    }
    return false;
}

/* Folds and fuses as wconv does; a model file is already fused. */
static int fuse(struct graph *g, struct infer_error *err)
{
    struct pass_options options;
    struct pass_report report;

    pass_options_init(&options);
    pass_report_init(&report);
    int rc = graph_sort(g, err);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    if (rc == 0)
        rc = weights_run_passes(g, &options, &report, err);
    pass_report_clear(&report);
    return rc;
}

static int open_model(const char *path, struct infer_error *err,
                      struct infer_model **out)
{
    struct weights_options options;
    struct weights_network s;

    weights_options_init(&options);
    int rc = weights_network_open(path, &options, err, &s);
    if (rc == 0 && !s.graph)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "%s: bare weights: name an architecture or a model",
                       path);
    if (rc == 0 && lacks_weights(s.graph)) {
        rc = fill_weights(s.graph, err);
        if (rc == 0)
            rc = fuse(s.graph, err);
    }
    if (rc == 0) {
        rc = model_from_graph(s.graph, err, out);
        s.graph = NULL; /* moved */
    }
    weights_network_close(&s);
    return rc;
}

static int input_shapes(const struct kb_request *r, const struct graph *g,
                        int64_t batch, struct graph_shape *shape,
                        struct infer_error *err)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        if (v->rank < 0)
            return error_set(err, INFER_EUNSUPPORTED, "input '%s' has no shape",
                             v->name);
        shape[i].rank = v->rank;
        for (int k = 0; k < v->rank; k++)
            shape[i].dim[k] = v->dim[k] >= 0 ? v->dim[k]
                              : k == 0       ? batch
                                             : r->extent;
    }
    return 0;
}

/* ---- the problems -------------------------------------------------- */

static void set_tensor(struct kern_tensor *t, enum infer_dtype dtype,
                       enum kern_layout layout)
{
    const bool real = t->dtype == INFER_F32 || t->dtype == INFER_F16 ||
                      t->dtype == INFER_BF16;

    *t = kern_tensor_dense(real ? dtype : t->dtype, t->rank, t->dim, layout);
}

static bool is_weight(const struct kern_problem *p, int i)
{
    if (p->op == KERN_SQUEEZE_EXCITE || p->op == KERN_CHAIN)
        return i == 1 || i == 2;
    return i == 1 && (p->op == KERN_CONV_FPROP || p->op == KERN_DENSE_FPROP ||
                      p->op == KERN_CONV_TRANSPOSE_FPROP);
}

/* The problem in another type and layout, with dense tensors. */
static void lay_out(const struct kb_request *r,
                    const struct kb_precision *precision,
                    struct kern_problem *p)
{
    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i))
            set_tensor(&p->in[i],
                       kern_op_is_vector(p->op, i) ? INFER_F32
                                                   : precision->dtype,
                       is_weight(p, i) ? KERN_NCHW : r->layout);
    for (int i = 0; i < p->n_out; i++)
        set_tensor(&p->out[i], precision->dtype, r->layout);
    p->allow_tf32 = precision->allow_tf32;
    p->deterministic = false;
}

static struct kb_case *find(const struct kb_cases *cases, int from,
                            const char *text)
{
    for (int i = from; i < cases->count; i++)
        if (strcmp(cases->item[i].text, text) == 0)
            return &cases->item[i];
    return NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int add_steps(const struct kb_request *r, const char *model,
                     int64_t batch, enum kb_dir dir,
                     const struct kb_precision *precision,
                     const struct plan *plan, struct kb_cases *out,
                     struct infer_error *err)
{
    const int from = out->count;
    char text[256];

    for (int i = 0; i < plan->steps.n; i++) {
        struct kern_problem p = plan->steps.at[i]->exec.problem;
        if (!plan->steps.at[i]->main || plan->steps.at[i]->once ||
            !r->ops[p.op] || (dir != KB_FPROP && p.op != KERN_CONV_FPROP))
            continue;
        lay_out(r, precision, &p);
        kb_problem_backward(&p, dir);
        kb_problem_lay_weights(r, dir, &p);
        struct kb_case *c =
            find(out, from, kb_problem_text(&p, dir, text, sizeof(text)));
        if (c) {
            c->count++;
            continue;
        }
        c = kb_cases_add(out, &p, dir, precision);
        if (!c)
            return error_set(err, INFER_EMEMORY, "out of memory");
        const char *name = base_name(model);
        snprintf(c->model, sizeof(c->model), "%.*s", (int)strcspn(name, "."),
                 name);
        snprintf(c->name, sizeof(c->name), "%s",
                 plan_step_name(plan, plan->steps.at[i]));
        c->batch = batch;
    }
    return 0;
}

int kb_layers(const struct kb_request *r, const char *model, int64_t batch,
              enum kb_dir dir, const struct kb_precision *precision,
              struct kb_cases *out, struct infer_error *err)
{
    struct device cpu = {0};
    struct infer_model *m = NULL;
    struct plan *plan = NULL;
    struct graph_shape *shape = NULL;
    int rc = device_open("cpu", 1, NULL, err, &cpu);
    struct plan_config config = {
        .device = &cpu,
        .tiers = {.n = 1, .tier = {ROW_TIER(INFER_BACKEND_REF)}},
        .precision = INFER_PRECISION_FP32};

    if (rc == 0)
        rc = open_model(model, err, &m);
    if (rc == 0) {
        const struct graph *g = model_graph(m);
        config.model = m;
        shape = calloc((size_t)g->n_inputs + 1, sizeof(*shape));
        rc = shape ? input_shapes(r, g, batch, shape, err)
                   : error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc == 0)
        rc = plan_new(&config, shape, err, &plan);
    if (rc == 0)
        rc = add_steps(r, model, batch, dir, precision, plan, out, err);
    plan_free(plan);
    free(shape);
    if (m)
        infer_model_close(&m);
    device_close(&cpu);
    return rc;
}
