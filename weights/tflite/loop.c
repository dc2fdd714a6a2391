/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks within a network: IF, composites, CALL_ONCE, and WHILE.
 *
 * WHILE: the operators of the body are imported once an iteration, as long as
 * the condition can be computed while importing.  Keras' recurrent layers
 * become such loops over time steps.
 *
 * A network of the file is a list of tensors and a list of operators over them.
 * Each iteration has values of its own for the tensors of the body; those of
 * its constants go from one to the next, so that iterations share weights.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* Iterations of all loops of a file, and loops in loops. */
#define MAX_ITERATIONS 4096
#define MAX_NESTED     4
/* Operators in the iterations of all loops. */
#define MAX_LOOPED (1 << 17)
/* Tensors in the iterations of all loops: each has a value, which is made and
 * dropped. */
#define MAX_LOOPED_VALUES ((int64_t)1 << 24)
/* Variables of a loop. */
#define MAX_STATES 64

/* The loop's variables, each with references of its own. */
struct states {
    struct tflite_value v[MAX_STATES];
    struct tflite_tensor t[MAX_STATES]; /* type and quantisation */
    int n;
};

/* What an inner network takes the place of. */
struct outer {
    struct fb_vector tensors, inputs, outputs, operators;
    unsigned char *own;
    struct tflite_value *value;
    int n_values, first_node;
    struct tflite_operator op;
    const struct tflite_op *row;
    bool raw, parts_found;
};

struct tflite_value tflite_value_share(const struct tflite_value *v)
{
    struct tflite_value to = {.state = v->state,
                              .plain = v->plain,
                              .swapped = v->swapped,
                              .weight = -1};

    for (int p = 0; p < TFLITE_PROBES; p++)
        to.known[p] = v->known[p] ? constant_ref(v->known[p]) : NULL;
    return to;
}

static void drop_states(struct states *s)
{
    for (int i = 0; i < s->n; i++)
        tflite_value_forget(&s->v[i]);
    s->n = 0;
}

/* ---- networks within the file -------------------------------------- */

static void leave(struct tflite_import *im, const struct outer *o)
{
    struct tflite_model *m = im->m;

    m->tensors = o->tensors;
    m->inputs = o->inputs;
    m->outputs = o->outputs;
    m->operators = o->operators;
    m->own = o->own;
    im->value = o->value;
    im->n_values = o->n_values;
    im->first_node = o->first_node;
    im->op = o->op;
    im->row = o->row;
    im->raw = o->raw;
    im->parts_found = o->parts_found;
}

/* Selects a network; nothing is changed where that fails. */
static bool enter(struct tflite_import *im, int graph, struct outer *o)
{
    struct tflite_model *m = im->m;
    struct infer_error fault;
    int rc;

    *o = (struct outer){
        .tensors = m->tensors,
        .inputs = m->inputs,
        .outputs = m->outputs,
        .operators = m->operators,
        .own = m->own,
        .value = im->value,
        .n_values = im->n_values,
        .first_node = im->first_node,
        .op = im->op,
        .row = im->row,
        .raw = im->raw,
        .parts_found = im->parts_found,
    };
    rc = tflite_model_select(m, graph, &fault);
    if (rc < 0) {
        leave(im, o);
        tflite_fail(im, rc, "%s", fault.text);
        return false;
    }
    m->own = NULL; /* tells of the outermost network */
    im->n_values = (int)m->tensors.count;
    im->parts_found = false;
    return true;
}

/* The values of constants of the file stay, those of others are dropped. */
static void keep_constants(struct tflite_import *im)
{
    im->parts_found = false;
    for (int i = 0; i < im->n_values; i++) {
        struct tflite_value *v = &im->value[i];

        v->parts = 0;
        if (v->state == TFLITE_KNOWN && v->loaded)
            continue;
        tflite_value_forget(v);
        *v = (struct tflite_value){.plain = -1, .swapped = -1, .weight = -1};
    }
}

static struct tflite_tensor tensor_of(struct tflite_import *im, int index)
{
    struct tflite_tensor t = {.rank = 0};
    struct infer_error fault;
    int rc;

    if (index < 0 || index >= im->n_values) {
        tflite_fail(im, INFER_EFORMAT, "a loop names tensor %d of %d", index,
                    im->n_values);
        return t;
    }
    rc = tflite_model_tensor(im->m, index, &fault, &t);
    if (rc < 0)
        tflite_fail(im, rc, "%s", fault.text);
    return t;
}

/* The loop's variables become the inputs of the selected network. */
static void set_inputs(struct tflite_import *im, const struct states *s)
{
    if (im->m->inputs.count != (size_t)s->n) {
        tflite_fail(im, INFER_EFORMAT, "%zu inputs for a loop of %d variables",
                    im->m->inputs.count, s->n);
        return;
    }
    for (int i = 0; i < s->n && im->status == 0; i++) {
        const int at = fb_list_i32(&im->m->inputs, (size_t)i);
        const struct tflite_tensor t = tensor_of(im, at);

        if (im->status < 0)
            return;
        if (im->value[at].state != TFLITE_UNKNOWN)
            tflite_fail(im, INFER_EFORMAT, "two inputs are tensor %d", at);
        else if (!tflite_same_kind(&t, &s->t[i]))
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "variable %d changes its type in a loop", i);
        else
            im->value[at] = tflite_value_share(&s->v[i]);
    }
}

/* Output o of the selected network. */
static bool take_output(struct tflite_import *im, int o, struct tflite_value *v,
                        struct tflite_tensor *t)
{
    const int at = fb_list_i32(&im->m->outputs, (size_t)o);

    *t = tensor_of(im, at);
    if (im->status < 0)
        return false;
    tflite_load(im, at);
    if (im->status == 0 && im->value[at].state != TFLITE_KNOWN &&
        im->value[at].state != TFLITE_GRAPH)
        tflite_fail(im, INFER_EFORMAT, "nothing produces output %d of a loop",
                    o);
    if (im->status < 0)
        return false;
    *v = tflite_value_share(&im->value[at]);
    return true;
}

static void import_all(struct tflite_import *im)
{
    for (size_t i = 0; i < im->m->operators.count && im->status == 0; i++) {
        struct infer_error fault;
        const int rc = tflite_model_operator(im->m, (int)i, &fault, &im->op);

        if (rc < 0) {
            tflite_fail(im, rc, "%s", fault.text);
            return;
        }
        if (++im->looped > MAX_LOOPED)
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "loops of more than %d operators", MAX_LOOPED);
        else
            tflite_import_operator(im);
        if (im->status < 0) {
            char text[sizeof im->text];

            memcpy(text, im->text, sizeof text);
            snprintf(im->text, sizeof im->text, "%s: %.300s",
                     im->row ? im->row->name : "operator", text);
        }
    }
}

/* ---- iterations ---------------------------------------------------- */

struct body {
    int graph;
    struct tflite_value *value; /* between iterations: constants alone */
    int n_values;
    bool selected;
};

static bool make_values(struct tflite_import *im, struct body *b)
{
    if (b->value)
        return true;
    b->n_values = im->n_values;
    b->value = calloc((size_t)b->n_values + 1, sizeof *b->value);
    for (int i = 0; b->value && i < b->n_values; i++)
        b->value[i].plain = b->value[i].swapped = b->value[i].weight = -1;
    if (!b->value)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    return b->value != NULL;
}

/* Imports the network once more; end() must follow. */
static bool begin(struct tflite_import *im, struct body *b,
                  const struct states *s, struct outer *o)
{
    b->selected = enter(im, b->graph, o);
    if (!b->selected)
        return false;
    if (!make_values(im, b))
        return false;
    im->value = b->value;
    im->looped_values += im->n_values;
    if (im->looped_values > MAX_LOOPED_VALUES) {
        tflite_fail(im, INFER_EUNSUPPORTED, "loops of more than %lld tensors",
                    (long long)MAX_LOOPED_VALUES);
        return false;
    }
    set_inputs(im, s);
    import_all(im);
    return im->status == 0;
}

static void end(struct tflite_import *im, struct body *b, const struct outer *o)
{
    if (!b->selected)
        return;
    if (b->value)
        keep_constants(im);
    leave(im, o);
}

static void drop_body(struct body *b)
{
    for (int i = 0; b->value && i < b->n_values; i++)
        tflite_value_forget(&b->value[i]);
    free(b->value);
}

/* Whether there is another iteration. */
static bool ask(struct tflite_import *im, struct body *condition,
                const struct states *s)
{
    struct tflite_tensor t;
    struct tflite_value v;
    struct outer o;
    bool more = false;

    if (begin(im, condition, s, &o) && im->m->outputs.count != 1)
        tflite_fail(im, INFER_EFORMAT, "a condition of %zu outputs",
                    im->m->outputs.count);
    if (im->status == 0 && take_output(im, 0, &v, &t)) {
        for (int p = 0; p < im->probes; p++) {
            const struct constant *c = v.known[p];
            const bool here = c && constant_count(c) == 1 &&
                              scalar_load_i64(c->dtype, c->data, 0) != 0;

            if (!c || constant_count(c) != 1 || (p > 0 && here != more)) {
                tflite_fail(
                    im, INFER_EUNSUPPORTED,
                    "a loop whose number of iterations depends on data");
                break;
            }
            more = here;
        }
        tflite_value_forget(&v);
    }
    end(im, condition, &o);
    return more && im->status == 0;
}

static void iterate(struct tflite_import *im, struct body *body,
                    struct states *s)
{
    struct states *next = calloc(1, sizeof *next);
    struct outer o;

    if (!next) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    if (begin(im, body, s, &o) && im->m->outputs.count != (size_t)s->n)
        tflite_fail(im, INFER_EFORMAT, "%zu outputs of a loop of %d variables",
                    im->m->outputs.count, s->n);
    for (int i = 0; i < s->n && im->status == 0; i++) {
        if (!take_output(im, i, &next->v[i], &next->t[i]))
            break;
        next->n = i + 1;
        if (!tflite_same_kind(&next->t[i], &s->t[i]))
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "variable %d changes its type in a loop", i);
    }
    end(im, body, &o);
    if (im->status == 0) {
        drop_states(s);
        *s = *next;
    } else {
        drop_states(next);
    }
    free(next);
}

/* Inputs from `first` on become the states. */
static void take_inputs(struct tflite_import *im, struct states *s, int first)
{
    for (int i = first; i < im->op.n_in && im->status == 0; i++) {
        const int at = tflite_input_index(im, i);

        s->t[s->n] = tflite_input_tensor(im, i);
        if (im->status < 0)
            return;
        tflite_load(im, at);
        if (im->status == 0 && im->value[at].state != TFLITE_KNOWN &&
            im->value[at].state != TFLITE_GRAPH)
            tflite_fail(im, INFER_EFORMAT, "nothing produces input %d", i);
        if (im->status < 0)
            return;
        s->v[s->n] = tflite_value_share(&im->value[at]);
        s->n++;
    }
}

static void start(struct tflite_import *im, struct states *s)
{
    if (im->op.n_in != im->op.n_out || im->op.n_in > MAX_STATES ||
        im->op.n_in < 1) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a loop of %d inputs and %d outputs; up to %d, as many of "
                    "both, are supported",
                    im->op.n_in, im->op.n_out, MAX_STATES);
        return;
    }
    take_inputs(im, s, 0);
}

/* A value that the loop made takes the name of the tensor that it fills. */
static void name_output(struct tflite_import *im, const struct tflite_tensor *t,
                        const struct tflite_value *v)
{
    const int value = v->plain >= 0 ? v->plain : v->swapped;
    char name[256];

    tflite_name(t, name, sizeof name);
    if (*name && v->state == TFLITE_GRAPH && value >= 0 &&
        im->g->value[value].producer >= im->first_node)
        tflite_rename(im, value, name);
}

static void finish(struct tflite_import *im, struct states *s)
{
    for (int i = 0; i < s->n && im->status == 0; i++) {
        const struct tflite_tensor t = tflite_output_tensor(im, i);
        const int at = tflite_output_index(im, i);

        if (im->status == 0 && im->value[at].state != TFLITE_UNKNOWN)
            tflite_fail(im, INFER_EFORMAT, "its output is produced twice");
        else if (im->status == 0 && !tflite_same_kind(&t, &s->t[i]))
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "output %d has another type than the loop's variable",
                        i);
        else if (im->status == 0) {
            im->value[at] = tflite_value_share(&s->v[i]);
            name_output(im, &t, &s->v[i]);
        }
    }
}

void tflite_import_while(struct tflite_import *im, int param)
{
    struct body condition = {.graph = fb_i32(&im->op.options, 0, 0)};
    struct body body = {.graph = fb_i32(&im->op.options, 1, 0)};
    struct states *s = calloc(1, sizeof *s);

    (void)param;
    if (!s)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested >= MAX_NESTED)
        tflite_fail(im, INFER_EUNSUPPORTED, "loops in loops deeper than %d",
                    MAX_NESTED);
    else
        start(im, s);
    im->nested++;
    while (im->status == 0 && ask(im, &condition, s)) {
        if (++im->iterations > MAX_ITERATIONS)
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "loops of more than %d iterations", MAX_ITERATIONS);
        else
            iterate(im, &body, s);
    }
    im->nested--;
    drop_body(&condition);
    drop_body(&body);
    if (s) {
        finish(im, s);
        drop_states(s);
    }
    free(s);
}

/* ---- networks in place of an operator ------------------------------ */

/* Outputs of network `graph` for inputs from `first` on. */
static void inline_network(struct tflite_import *im, int graph, int first,
                           struct states *out)
{
    struct states *in = calloc(1, sizeof *in);
    struct body body = {.graph = graph};
    struct outer o;

    if (!in)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested >= MAX_NESTED)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "networks in networks deeper than %d", MAX_NESTED);
    else if (im->op.n_in - first > MAX_STATES || im->op.n_out > MAX_STATES)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a network of more than %d inputs or outputs", MAX_STATES);
    else
        take_inputs(im, in, first);
    im->nested++;
    if (im->status == 0) {
        const int n = im->op.n_out;

        if (begin(im, &body, in, &o) && im->m->outputs.count != (size_t)n)
            tflite_fail(im, INFER_EFORMAT, "%zu outputs of a network for %d",
                        im->m->outputs.count, n);
        for (int i = 0; i < n && im->status == 0; i++)
            if (take_output(im, i, &out->v[i], &out->t[i]))
                out->n = i + 1;
        end(im, &body, &o);
    }
    im->nested--;
    if (in)
        drop_states(in);
    drop_body(&body);
    free(in);
}

static void replace(struct tflite_import *im, int graph, int first)
{
    struct states *out = calloc(1, sizeof *out);

    if (!out) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    inline_network(im, graph, first, out);
    if (im->status == 0)
        finish(im, out);
    drop_states(out);
    free(out);
}

/* Output o of a network as a value of the graph in the file's order. */
static int plain_output(struct tflite_import *im, const struct states *s, int o)
{
    const int at = tflite_output_index(im, o);
    struct tflite_value *v = at < 0 ? NULL : &im->value[at];
    int x;

    if (!v || im->status < 0)
        return -1;
    if (v->state != TFLITE_UNKNOWN)
        return tflite_fail(im, INFER_EFORMAT, "its output is produced twice");
    *v = tflite_value_share(&s->v[o]);
    x = tflite_tensor_value(im, at, false);
    tflite_value_forget(v);
    *v = (struct tflite_value){.plain = -1, .swapped = -1, .weight = -1};
    return x;
}

/* Whether an operand has one element whatever the free sizes are. */
static bool is_single(struct tflite_import *im, int i)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type t = tflite_type(im, i, p);
        for (int d = 0; d < t.rank; d++)
            if (t.dim[d] != 1)
                return false;
    }
    return true;
}

/* Both networks run, and the condition chooses between their outputs, which
 * have the same shape: there is no telling which one a run has. */
static void choose(struct tflite_import *im)
{
    struct states *s[2] = {calloc(1, sizeof **s), calloc(1, sizeof **s)};
    const int64_t none = 0; /* of no dimensions */
    int in[3];

    if (!s[0] || !s[1])
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (!is_single(im, 0))
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a condition of more than one element");
    im->branches++;
    for (int i = 0; i < 2 && im->status == 0; i++)
        inline_network(im, fb_i32(&im->op.options, i, 0), 1, s[i]);
    im->branches--;
    im->raw = true;
    in[0] = tflite_in(im, 0, false);
    if (im->status == 0)
        in[0] = tflite_dims(im, GRAPH_RESHAPE, in[0], 0, &none);
    for (int o = 0; o < im->op.n_out && im->status == 0; o++) {
        const struct tflite_tensor t = tflite_output_tensor(im, o);

        if (!tflite_same_kind(&t, &s[0]->t[o]) ||
            !tflite_same_kind(&t, &s[1]->t[o]))
            tflite_fail(im, INFER_EUNSUPPORTED, "networks of other types");
        for (int i = 0; i < 2; i++)
            in[1 + i] = plain_output(im, s[i], o);
        if (im->status == 0 && !tflite_same_type(im, in[1], in[2]))
            tflite_fail(im, INFER_EUNSUPPORTED, "networks of other shapes");
        tflite_out(im, o, tflite_emit(im, GRAPH_WHERE, NULL, in, 3), false);
    }
    for (int i = 0; i < 2; i++) {
        if (s[i])
            drop_states(s[i]);
        free(s[i]);
    }
}

/* One of two networks; the one that a condition which is known says. */
void tflite_import_if(struct tflite_import *im, int param)
{
    const struct constant *c;

    (void)param;
    if (!tflite_arity(im, 1, 1 + MAX_STATES))
        return;
    c = tflite_fixed(im, 0);
    if (im->status < 0)
        return;
    if (!c) {
        choose(im);
        return;
    }
    if (constant_count(c) != 1) {
        tflite_fail(im, INFER_EFORMAT, "a condition of %lld elements",
                    (long long)constant_count(c));
        return;
    }
    replace(im,
            fb_i32(&im->op.options,
                   scalar_load_i64(c->dtype, c->data, 0) ? 0 : 1, 0),
            1);
}

/* An operator of StableHLO that another network of the file spells out. */
void tflite_import_composite(struct tflite_import *im, int param)
{
    (void)param;
    replace(im, fb_i32(&im->op.options_2, 1, 0), 0);
}

/* ---- CALL_ONCE ----------------------------------------------------- */

/* The network that fills variables before the first run. */
void tflite_import_call_once(struct tflite_import *im, int param)
{
    struct body body = {.graph = fb_i32(&im->op.options, 0, 0)};
    struct states *none = calloc(1, sizeof *none);
    struct outer o;

    (void)param;
    if (!none)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested > 0 || im->initialising)
        tflite_fail(im, INFER_EUNSUPPORTED, "within a loop, or another one");
    if (im->status == 0) {
        im->initialising = true;
        begin(im, &body, none, &o);
        end(im, &body, &o);
        im->initialising = false;
    }
    drop_body(&body);
    free(none);
}
