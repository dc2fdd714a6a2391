/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX If, Loop and Scan.
 *
 * The graph has no control flow.  An If whose condition is known is the branch
 * that it takes; of one that is computed at run time both branches are
 * computed, and each result is chosen from the two.  A loop is unrolled.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"
#include "weights/onnx/counted/counted.h"

/* ---- conditions ---------------------------------------------------- */

/* What is known of a condition: CONDITION_COMPUTED is one of run time. */
enum condition { CONDITION_FALSE, CONDITION_TRUE, CONDITION_COMPUTED };

static int read_condition(struct onnx_import *im, struct pb_span name,
                          enum condition *out)
{
    const struct onnx_small *const *small = onnx_small_named(im, name);
    bool truth = false;

    *out = CONDITION_COMPUTED;
    if (!small)
        return im->rc;
    for (int p = 0; p < im->probes; p++) {
        const struct onnx_small *s = small[p];
        bool now;

        if (s->count != 1)
            return onnx_fail(im, INFER_EFORMAT, "a condition of %lld elements",
                             (long long)s->count);
        now = s->i ? s->i[0] != 0 : s->d[0] != 0;
        if (p > 0 && now != truth)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the condition depends on sizes that the file "
                             "leaves open");
        truth = now;
    }
    *out = truth ? CONDITION_TRUE : CONDITION_FALSE;
    return 0;
}

/* One element as a tensor of no dimensions. */
static struct pb_span as_scalar(struct onnx_import *im, struct pb_span name)
{
    const struct pb_span in[2] = {name, onnx_step_ints(im, 1, 0, NULL)};
    const struct pb_span out = onnx_fresh_name(im, name);

    onnx_step(im, "Reshape", in, 2, out, NULL, 0);
    return out;
}

/* `out` is a where the condition holds, else b. */
static int choose(struct onnx_import *im, struct pb_span condition,
                  struct pb_span a, struct pb_span b, struct pb_span out)
{
    const struct pb_span in[3] = {condition, a, b};
    struct graph_type t, u;

    for (int p = 0; p < im->probes; p++) {
        if (onnx_named_type(im, a, p, &t) < 0 ||
            onnx_named_type(im, b, p, &u) < 0)
            return im->rc;
        if (t.dtype != u.dtype || t.rank != u.rank ||
            memcmp(t.dim, u.dim, (size_t)t.rank * sizeof t.dim[0]) != 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the condition is computed at run time, and what "
                             "depends on it has not one shape and type");
    }
    for (int i = 1; i < 3; i++) {
        const int v = onnx_value_find(im, in[i]);

        if (v >= 0 && im->value[v].count > 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the condition is computed at run time, and so is "
                             "how many entries a result has");
    }
    return onnx_step(im, "Where", in, 3, out, NULL, 0);
}

/* The values become the outputs of the node. */
static int give(struct onnx_import *im, const struct pb_span *value, int n)
{
    for (int i = 0; i < n && im->rc == 0; i++)
        if (onnx_has_output(im, i))
            onnx_step(im, "Identity", &value[i], 1, im->node->out[i], NULL, 0);
    return im->rc;
}

static struct pb_span *names(struct onnx_import *im, int n)
{
    struct pb_span *p = onnx_alloc(&im->scratch, (size_t)n * sizeof *p);

    if (!p)
        onnx_no_memory(im);
    return p;
}

/* ---- If ------------------------------------------------------------ */

/* Where no entry counts, the result is that of the branch that is not taken,
 * which has to be empty. */
static int empty_of(struct onnx_import *im, int count,
                    const struct pb_span *empty, int n)
{
    for (int i = 0; i < n && im->rc == 0; i++) {
        const struct onnx_small *const *small;
        int v;

        if (!onnx_has_output(im, i))
            continue;
        v = onnx_value_find(im, im->node->out[i]);
        if (onnx_named_small(im, empty[i], &small) < 0)
            return im->rc;
        if (!small || small[0]->count != 0 || v < 0 || im->value[v].count == 0)
            return counted_as_data(im, 0);
        onnx_set_counted(
            im, i, im->value[v].axis,
            compose_binary(im, KERN_MUL, im->value[v].count - 1,
                           compose_binary(im, KERN_MIN, count,
                                          compose_integer(im, INFER_I64, 1))));
    }
    return im->rc;
}

int onnx_import_if(struct onnx_import *im)
{
    const struct onnx_graph *branch[2] = {NULL, NULL};
    const int n = im->node->n_out;
    struct pb_span *result[2], condition;
    enum condition known = CONDITION_COMPUTED;
    const int none = counted_none(im, 0);

    onnx_arity(im, 1, 1);
    if (counted_input_is_sized(im, 0) && none < 0)
        return counted_as_data(im, 0);
    onnx_body_attr(im, "else_branch", &branch[0]);
    onnx_body_attr(im, "then_branch", &branch[1]);
    result[0] = names(im, n);
    result[1] = names(im, n);
    if (im->rc < 0 || read_condition(im, im->node->in[0], &known) < 0)
        return im->rc;
    for (int b = 0; b < 2; b++)
        if (known == CONDITION_COMPUTED || none >= 0 || b == (int)known)
            onnx_import_body(im, branch[b], NULL, 0, result[b], n);
    if (im->rc < 0 || im->skip)
        return im->rc;
    if (none >= 0 && known != CONDITION_FALSE)
        return counted_as_data(im, 0);
    if (known != CONDITION_COMPUTED && give(im, result[known], n) == 0 &&
        none >= 0)
        return empty_of(im, none, result[CONDITION_TRUE], n);
    if (known != CONDITION_COMPUTED)
        return im->rc;
    condition = as_scalar(im, im->node->in[0]);
    for (int i = 0; i < n && im->rc == 0; i++)
        if (onnx_has_output(im, i))
            choose(im, condition, result[1][i], result[0][i], im->node->out[i]);
    return im->rc;
}

/* ---- outputs of every iteration ------------------------------------ */

/* The parts of an output that loops collect: part t of each lies behind part
 * t - 1 of all. */
struct collected {
    struct onnx_list part;
    int outputs;
};

static int collect(struct onnx_import *im, struct collected *to,
                   const struct pb_span *part)
{
    struct infer_error *err = im->err;

    for (int i = 0; i < to->outputs && im->rc == 0; i++)
        im->rc = onnx_list_add(&to->part, part[i], ONNX_MAX_TENSORS,
                               "parts of a loop's outputs", err);
    return im->rc;
}

/* x with a new dimension of size 1. */
static struct pb_span unsqueeze(struct onnx_import *im, struct pb_span x,
                                int64_t axis)
{
    struct onnx_attr axes = {.name = (char *)"axes",
                             .type = ONNX_ATTR_INTS,
                             .ints = &axis,
                             .count = 1};
    const struct pb_span out = onnx_fresh_name(im, x);
    struct pb_span in[2] = {x, {NULL, 0}};

    if (im->opset >= 13)
        in[1] = onnx_step_ints(im, 1, 1, &axis);
    onnx_step(im, "Unsqueeze", in, im->opset >= 13 ? 2 : 1, out, &axes,
              im->opset >= 13 ? 0 : 1);
    return out;
}

/* Output `at` of the node: the parts of collected output i along a new axis. */
static int join(struct onnx_import *im, const struct collected *c, int i,
                int at, int64_t axis, bool backwards)
{
    const size_t n = c->part.count / (size_t)c->outputs;
    struct onnx_attr attr = {
        .name = (char *)"axis", .type = ONNX_ATTR_INT, .i = axis};
    struct pb_span *in;

    if (!onnx_has_output(im, at))
        return 0;
    if (n == 0)
        return onnx_drop_outputs(im, at);
    if (n > GRAPH_MAX_INPUTS)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%zu iterations, of which %d can be collected", n,
                         GRAPH_MAX_INPUTS);
    in = names(im, (int)n);
    for (size_t t = 0; t < n && im->rc == 0; t++)
        in[t] = unsqueeze(
            im,
            c->part.item[(backwards ? n - 1 - t : t) * (size_t)c->outputs +
                         (size_t)i],
            axis);
    return onnx_step(im, "Concat", in, (int)n, im->node->out[at], &attr, 1);
}

/* ---- Loop ---------------------------------------------------------- */

struct loop {
    const struct onnx_graph *body;
    int states;
    int64_t most; /* iterations; -1: no limit is stated */
    bool masked;  /* whether an iteration counts is computed at run time: */
    enum condition go;
    struct pb_span condition; /* by this */
    struct pb_span *arg;      /* iteration, condition, states */
    struct pb_span *result;   /* condition, states, parts */
    struct collected collected;
};

static int read_count(struct onnx_import *im, int64_t *most)
{
    const struct onnx_small *const *small = onnx_small_input(im, 0);

    *most = -1;
    if (!onnx_has_input(im, 0) || im->rc < 0)
        return im->rc;
    if (!small || !onnx_small_is_fixed(im, small))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the number of iterations %s; loops are unrolled",
                         small ? "depends on sizes that the file leaves open"
                               : "is computed at run time");
    if (small[0]->count != 1 || !small[0]->i)
        return onnx_fail(im, INFER_EFORMAT,
                         "the number of iterations is no integer");
    *most = small[0]->i[0] < 0 ? 0 : small[0]->i[0];
    return 0;
}

static int open_loop(struct onnx_import *im, struct loop *l)
{
    static const unsigned char truth = 1;
    struct constant *c;

    memset(l, 0, sizeof *l);
    onnx_arity(im, 0, -1);
    onnx_body_attr(im, "body", &l->body);
    read_count(im, &l->most);
    if (im->rc < 0)
        return im->rc;
    l->states = im->node->n_in > 2 ? im->node->n_in - 2 : 0;
    l->collected.outputs = (int)l->body->output.count - 1 - l->states;
    if (l->collected.outputs < 0 ||
        im->node->n_out > l->states + l->collected.outputs)
        return onnx_fail(im, INFER_EFORMAT,
                         "a body of %zu outputs for %d states and %d outputs",
                         l->body->output.count, l->states, im->node->n_out);
    l->arg = names(im, 2 + l->states);
    l->result = names(im, 1 + l->states + l->collected.outputs);
    l->go = CONDITION_TRUE;
    if (im->rc == 0 && onnx_has_input(im, 1)) {
        l->condition = im->node->in[1];
        read_condition(im, l->condition, &l->go);
    } else if (im->rc == 0) {
        c = constant_new(INFER_BOOL, 0, NULL);
        if (c)
            memcpy(c->data, &truth, 1);
        l->condition = onnx_step_constant(im, c);
    }
    for (int i = 0; i < l->states && im->rc == 0; i++)
        l->arg[2 + i] = im->node->in[2 + i];
    return im->rc;
}

/* The states after an iteration that may not count, and whether the next one
 * does. */
static int mask_states(struct onnx_import *im, struct loop *l)
{
    const struct pb_span both[2] = {l->condition, as_scalar(im, l->result[0])};
    const struct pb_span next = onnx_fresh_name(im, l->condition);

    for (int i = 0; i < l->states && im->rc == 0; i++) {
        const struct pb_span out = onnx_fresh_name(im, l->result[1 + i]);

        choose(im, l->condition, l->result[1 + i], l->arg[2 + i], out);
        l->arg[2 + i] = out;
    }
    onnx_step(im, "And", both, 2, next, NULL, 0);
    l->condition = next;
    return im->rc;
}

static int begin_mask(struct onnx_import *im, struct loop *l)
{
    if (l->collected.outputs > 0 || l->most < 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "how often the loop runs is computed at run time%s",
                         l->most < 0 ? " and has no limit"
                                     : ", and it collects an output for each "
                                       "iteration");
    l->masked = true;
    l->condition = as_scalar(im, l->condition);
    return im->rc;
}

static int iterate(struct onnx_import *im, struct loop *l, int64_t t)
{
    if (l->go == CONDITION_COMPUTED && !l->masked && begin_mask(im, l) < 0)
        return im->rc;
    l->arg[0] = onnx_step_ints(im, 0, 1, &t);
    l->arg[1] = l->condition;
    onnx_import_body(im, l->body, l->arg, 2 + l->states, l->result,
                     1 + l->states + l->collected.outputs);
    if (im->rc < 0 || im->skip)
        return im->rc;
    if (l->masked)
        return mask_states(im, l);
    for (int i = 0; i < l->states; i++)
        l->arg[2 + i] = l->result[1 + i];
    l->condition = l->result[0];
    collect(im, &l->collected, l->result + 1 + l->states);
    return read_condition(im, l->condition, &l->go);
}

int onnx_import_loop(struct onnx_import *im)
{
    struct loop l;
    int64_t t;

    for (int i = 0; i < 2; i++)
        if (counted_input_is_sized(im, i) &&
            (i == 1 || counted_size_at(im, i) < 0))
            return counted_as_data(im, i);
    if (open_loop(im, &l) < 0)
        return im->rc;
    if (l.go == CONDITION_TRUE && l.collected.outputs == 0 && l.most > 0 &&
        onnx_import_region_loop(im, l.body, l.condition, l.most) != 0)
        return im->rc;
    if (counted_input_is_sized(im, 0)) {
        free(l.collected.part.item);
        return counted_as_data(im, 0);
    }
    for (t = 0; (l.most < 0 || t < l.most) && l.go != CONDITION_FALSE &&
                im->rc == 0 && !im->skip;
         t++)
        iterate(im, &l, t);
    if (im->rc == 0 && !im->skip) {
        give(im, l.arg + 2,
             im->node->n_out < l.states ? im->node->n_out : l.states);
        for (int i = 0; i < l.collected.outputs && im->rc == 0; i++)
            join(im, &l.collected, i, l.states + i, 0, false);
    }
    free(l.collected.part.item);
    return im->rc;
}

/* ---- Scan ---------------------------------------------------------- */

struct scan {
    const struct onnx_graph *body;
    int states, inputs;
    int64_t length;
    struct pb_span *arg, *result;
    struct collected collected;
};

/* Entry i of a list attribute, 0 where it is absent. */
static int64_t entry(struct onnx_import *im, const char *name, int i)
{
    const struct onnx_attr *a = onnx_attr(im, name);

    if (!a)
        return 0;
    if (a->type != ONNX_ATTR_INTS || (size_t)i >= a->count) {
        onnx_fail(im, INFER_EFORMAT, "attribute '%s' has no entry %d", name, i);
        return 0;
    }
    return a->ints[i];
}

/* Axis of scanned input i as a dimension of it. */
static int scan_axis(struct onnx_import *im, int i, const struct graph_type *t)
{
    const int64_t stated = entry(im, "scan_input_axes", i);
    int axis = 0;

    if (im->rc == 0 && (stated < -INFER_MAX_RANK || stated >= INFER_MAX_RANK))
        onnx_fail(im, INFER_EFORMAT, "axis %lld", (long long)stated);
    if (im->rc == 0)
        im->rc = op_axis((int)stated, t->rank, &axis, im->err);
    return im->rc < 0 ? 0 : axis;
}

/* Every scanned input has as many entries along its axis. */
static int scan_length(struct onnx_import *im, struct scan *s)
{
    s->length = -1;
    for (int i = 0; i < s->inputs; i++)
        for (int p = 0; p < im->probes && im->rc == 0; p++) {
            struct graph_type t;
            int64_t n;

            onnx_input_type(im, s->states + i, p, &t);
            n = t.dim[scan_axis(im, i, &t)];
            if (im->rc == 0 && s->length >= 0 && n != s->length)
                return onnx_fail(im, INFER_EUNSUPPORTED,
                                 "inputs of %lld and %lld steps, or of an open "
                                 "number: loops are unrolled",
                                 (long long)s->length, (long long)n);
            s->length = n;
        }
    return im->rc;
}

static int open_scan(struct onnx_import *im, struct scan *s)
{
    int64_t inputs = 0;

    memset(s, 0, sizeof *s);
    if (im->opset < 9)
        return onnx_fail(im, INFER_EUNSUPPORTED, "Scan before opset 9");
    onnx_arity(im, 1, -1);
    onnx_int(im, "num_scan_inputs", 1, im->node->n_in, &inputs);
    onnx_body_attr(im, "body", &s->body);
    if (im->rc < 0)
        return im->rc;
    s->inputs = (int)inputs;
    s->states = im->node->n_in - s->inputs;
    s->collected.outputs = (int)s->body->output.count - s->states;
    if (s->inputs < 1 || /* the attribute is absent */
        s->collected.outputs < 0 ||
        im->node->n_out > s->states + s->collected.outputs)
        return onnx_fail(im, INFER_EFORMAT,
                         "%d scanned inputs, %d states and %d outputs",
                         s->inputs, s->states, im->node->n_out);
    s->arg = names(im, im->node->n_in);
    s->result = names(im, (int)s->body->output.count);
    for (int i = 0; i < s->states && im->rc == 0; i++)
        s->arg[i] = im->node->in[i];
    /* Read later, and only where there are such outputs. */
    onnx_ignore(im, "scan_output_axes");
    onnx_ignore(im, "scan_output_directions");
    return scan_length(im, s);
}

/* Entry t, or t from the end, of scanned input i. */
static struct pb_span scan_entry(struct onnx_import *im, const struct scan *s,
                                 int i, int64_t t)
{
    struct onnx_attr axis = {.name = (char *)"axis", .type = ONNX_ATTR_INT};
    const int64_t at =
        entry(im, "scan_input_directions", i) == 1 ? s->length - 1 - t : t;
    struct pb_span in[2] = {im->node->in[s->states + i], {NULL, 0}}, out;

    axis.i = entry(im, "scan_input_axes", i);
    in[1] = onnx_step_ints(im, 0, 1, &at);
    out = onnx_fresh_name(im, in[0]);
    onnx_step(im, "Gather", in, 2, out, &axis, 1);
    return out;
}

int onnx_import_scan(struct onnx_import *im)
{
    struct scan s;

    if (open_scan(im, &s) < 0)
        return im->rc;
    for (int64_t t = 0; t < s.length && im->rc == 0 && !im->skip; t++) {
        for (int i = 0; i < s.inputs; i++)
            s.arg[s.states + i] = scan_entry(im, &s, i, t);
        onnx_import_body(im, s.body, s.arg, s.states + s.inputs, s.result,
                         s.states + s.collected.outputs);
        if (im->rc < 0 || im->skip)
            break;
        memcpy(s.arg, s.result, (size_t)s.states * sizeof *s.arg);
        collect(im, &s.collected, s.result + s.states);
    }
    if (im->rc == 0 && !im->skip) {
        give(im, s.arg,
             im->node->n_out < s.states ? im->node->n_out : s.states);
        for (int i = 0; i < s.collected.outputs && im->rc == 0; i++)
            join(im, &s.collected, i, s.states + i,
                 entry(im, "scan_output_axes", i),
                 entry(im, "scan_output_directions", i) == 1);
    }
    free(s.collected.part.item);
    return im->rc;
}
