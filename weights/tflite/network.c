/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: a network of the file in place of an operator: its import,
 * its inputs and outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tflite/network.h"

/* Operators in the iterations of all loops. */
#define MAX_LOOPED (1 << 17)
/* Tensors in the iterations of all loops: each has a value, which is made and
 * dropped. */
#define MAX_LOOPED_VALUES ((int64_t)1 << 24)

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

void tflite_network_drop_states(struct tflite_states *s)
{
    for (int i = 0; i < s->n; i++)
        tflite_value_forget(&s->v[i]);
    s->n = 0;
}

static void leave(struct tflite_import *im, const struct tflite_outer *o)
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
static bool enter(struct tflite_import *im, int graph, struct tflite_outer *o)
{
    struct tflite_model *m = im->m;
    struct infer_error fault;
    int rc;

    *o = (struct tflite_outer){
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
static void set_inputs(struct tflite_import *im, const struct tflite_states *s)
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

bool tflite_network_output(struct tflite_import *im, int o,
                           struct tflite_value *v, struct tflite_tensor *t)
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

static bool make_values(struct tflite_import *im, struct tflite_network *b)
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

bool tflite_network_begin(struct tflite_import *im, struct tflite_network *b,
                          const struct tflite_states *s, struct tflite_outer *o)
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

void tflite_network_end(struct tflite_import *im, struct tflite_network *b,
                        const struct tflite_outer *o)
{
    if (!b->selected)
        return;
    if (b->value)
        keep_constants(im);
    leave(im, o);
}

void tflite_network_drop(struct tflite_network *b)
{
    for (int i = 0; b->value && i < b->n_values; i++)
        tflite_value_forget(&b->value[i]);
    free(b->value);
}

void tflite_network_take_inputs(struct tflite_import *im,
                                struct tflite_states *s, int first)
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

void tflite_network_give_outputs(struct tflite_import *im,
                                 struct tflite_states *s)
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
