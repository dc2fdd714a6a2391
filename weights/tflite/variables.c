/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: variables.  CALL_ONCE names a network that fills them before
 * the first run; VAR_HANDLE, in any network of the file, names one.  Operators
 * with a memory have variable tensors of their own.
 *
 * A network of the graph has no memory.  What a run writes and reads itself is
 * a value as any other.  A variable that a run reads before it writes it is a
 * state: an input of the graph and, called NAME/next, an output after those of
 * the file, which the caller passes on.  In both of them 0 and the variable's
 * first value have changed places, so that a caller starts with zeros.  A file
 * shows only at a write that what was read before is a state: it is imported
 * once more then.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

#define MAX_VARIABLES 4096
#define RESOURCE      13 /* in the schema's list of types */

struct tflite_variable {
    struct fb_vector container, name;
    struct tflite_tensor t; /* of what it holds */
    struct tflite_value v;
    bool set;     /* it holds something */
    bool read;    /* what was there before the run, in it */
    bool written; /* in the run */
    int tensor;   /* of an operator with a memory; -1: VAR_HANDLE names it */
    bool state, swapped;       /* it is an input of the graph, in that order */
    struct tflite_tensor held; /* of a state: as it was before the run */
    int input;                 /* the value of the graph that it is */
    int place;                 /* among the inputs */
    int first;                 /* of what the graph holds for it; -1: zeros */
};

void tflite_variables_clear(struct tflite_import *im)
{
    for (int i = 0; i < im->n_variables; i++)
        tflite_value_forget(&im->variable[i].v);
    free(im->variable);
    im->variable = NULL;
    im->n_variables = 0;
}

static bool same_text(const struct fb_vector *a, const struct fb_vector *b)
{
    return a->count == b->count &&
           (a->count == 0 ||
            memcmp(fb_list_data(a), fb_list_data(b), a->count) == 0);
}

/* The variable of these names, a new one where there is none; -1 after a
 * failure. */
static int find(struct tflite_import *im, int tensor,
                const struct fb_vector *container, const struct fb_vector *name)
{
    struct tflite_variable *more;
    const int n = im->n_variables;

    for (int i = 0; i < n; i++)
        if (im->variable[i].tensor == tensor &&
            (tensor >= 0 || (same_text(&im->variable[i].container, container) &&
                             same_text(&im->variable[i].name, name))))
            return i;
    if (n >= MAX_VARIABLES)
        return tflite_fail(im, INFER_EUNSUPPORTED, "more than %d variables",
                           MAX_VARIABLES);
    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        more = realloc(im->variable, (size_t)(n ? 2 * n : 1) * sizeof *more);
        if (!more)
            return tflite_fail(im, INFER_EMEMORY, "out of memory");
        im->variable = more;
    }
    im->variable[n] = (struct tflite_variable){
        .container = *container,
        .name = *name,
        .tensor = tensor,
        .v = {.plain = -1, .swapped = -1, .weight = -1}};
    im->n_variables = n + 1;
    return n;
}

/* The handle is the variable's number. */
void tflite_import_var_handle(struct tflite_import *im, int param)
{
    const struct fb_vector container = fb_list(&im->op.options, 0, 1);
    const struct fb_vector name = fb_list(&im->op.options, 1, 1);
    struct constant *known[TFLITE_PROBES];
    int at;

    (void)param;
    if (im->op.n_in != 0 || im->op.n_out != 1 || container.file->damaged) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs and %d outputs", im->op.n_in,
                    im->op.n_out);
        return;
    }
    at = find(im, -1, &container, &name);
    known[0] = at < 0 ? NULL : tflite_constant_new(im, INFER_I64, 0, NULL);
    if (!known[0])
        return;
    *(int64_t *)(void *)known[0]->data = at;
    for (int p = 1; p < TFLITE_PROBES; p++)
        known[p] = constant_ref(known[0]);
    tflite_out_known(im, 0, known);
}

/* The variable that input 0 is the handle of. */
static struct tflite_variable *variable_of(struct tflite_import *im)
{
    const struct tflite_tensor t = tflite_input_tensor(im, 0);
    const struct constant *c =
        im->status == 0 && t.type == RESOURCE ? tflite_fixed(im, 0) : NULL;
    int64_t at;

    if (im->status < 0)
        return NULL;
    if (!c || c->dtype != INFER_I64 || constant_count(c) != 1) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a variable that no VAR_HANDLE names");
        return NULL;
    }
    at = *(const int64_t *)(const void *)c->data;
    return at >= 0 && at < im->n_variables ? &im->variable[at] : NULL;
}

/* ---- states -------------------------------------------------------- */

static bool is_kept(const struct tflite_import *im,
                    const struct tflite_variable *v)
{
    for (int i = 0; i < im->m->n_states; i++)
        if (same_text(&im->m->state[i].container, &v->container) &&
            same_text(&im->m->state[i].name, &v->name))
            return true;
    return false;
}

/* The next import of the file knows it for a state. */
static void keep(struct tflite_import *im, const struct tflite_variable *v)
{
    const int n = im->m->n_states;

    if (is_kept(im, v))
        return;
    if (n >= TFLITE_MAX_KEPT) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "more than %d variables that keep their value from run to "
                    "run",
                    TFLITE_MAX_KEPT);
        return;
    }
    if (!im->m->state)
        im->m->state = calloc(TFLITE_MAX_KEPT, sizeof *im->m->state);
    if (!im->m->state) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    im->m->state[n] = (struct tflite_kept){v->container, v->name};
    im->m->n_states = n + 1;
    im->new_states = true;
}

/* Element i of what CALL_ONCE fills a variable with, in the graph's type. */
static void store_first(const struct constant *c, int64_t i, double zero,
                        enum infer_dtype dtype, void *to, int64_t at)
{
    if (dtype == INFER_F32)
        ((float *)to)[at] = (float)(scalar_load(c->dtype, c->data, i) - zero);
    else
        scalar_store_i64(dtype, to, at, scalar_load_i64(c->dtype, c->data, i));
}

/* What CALL_ONCE fills a variable with, as the graph's value of a state: a
 * number where all are equal, -1 where they are 0. */
static int first_of(struct tflite_import *im, const struct tflite_variable *v,
                    const struct tflite_tensor *t, enum infer_dtype dtype)
{
    const struct constant *c = v->v.known[0];
    const int64_t n = c ? constant_count(c) : 0;
    const double zero =
        tflite_is_quantised(t) ? (double)tflite_quant(im, t).zero : 0;
    struct constant *all, *swapped;
    int order[INFER_MAX_RANK];
    bool equal = true;
    double one;

    if (v->tensor >= 0 || im->status < 0)
        return -1;
    if (v->v.state != TFLITE_KNOWN || n < 1 || !tflite_is_fixed(im, &v->v))
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "a state that does not start with known numbers");
    one = scalar_load(c->dtype, c->data, 0);
    for (int64_t i = 0; i < n; i++) {
        const double more = scalar_load(c->dtype, c->data, i);

        if (isnan(more))
            return tflite_fail(im, INFER_EUNSUPPORTED,
                               "a state that starts with NaN");
        equal = equal && more <= one && more >= one;
    }
    if (equal && one <= zero && one >= zero)
        return -1;
    all = tflite_constant_new(im, dtype, equal ? 0 : c->rank, c->dim);
    for (int64_t i = 0; all && i < (equal ? 1 : n); i++)
        store_first(c, i, zero, dtype, all->data, i);
    if (all && v->swapped && !equal) {
        tflite_order(c->rank, true, order);
        swapped = constant_transpose(all, order);
        constant_unref(all);
        if (!swapped)
            return tflite_fail(im, INFER_EMEMORY, "out of memory");
        all = swapped;
    }
    return tflite_add_constant(im, -1, all);
}

/* 0 and `first` change places: the way in and the way out of a state, without
 * an error of rounding. */
static int exchange(struct tflite_import *im, int x, int first)
{
    int in[3], zero, y;

    if (im->status < 0 || first < 0)
        return x;
    zero = tflite_cast(im, tflite_scalar(im, 0),
                       tflite_value_type(im, x, 0)->dtype);
    in[0] = tflite_binary(im, KERN_EQUAL, x, first);
    in[1] = zero;
    in[2] = x;
    y = tflite_emit(im, GRAPH_WHERE, NULL, in, 3);
    in[0] = tflite_binary(im, KERN_EQUAL, x, zero);
    in[1] = first;
    in[2] = y;
    return tflite_emit(im, GRAPH_WHERE, NULL, in, 3);
}

/* What is read of a variable has the shape of what it holds, whatever the file
 * says. */
static struct tflite_tensor read_as(const struct tflite_variable *v,
                                    const struct tflite_tensor *t)
{
    const struct constant *c = v->tensor < 0 ? v->v.known[0] : NULL;
    struct tflite_tensor is = *t;

    if (c) {
        is.rank = c->rank;
        memcpy(is.dim, c->dim, sizeof is.dim);
    }
    return is;
}

/* The variable, of the type of `read`, as an input of the graph. */
static void make_state(struct tflite_import *im, struct tflite_variable *v,
                       const struct tflite_tensor *read)
{
    const struct tflite_tensor is = read_as(v, read), *t = &is;
    struct tflite_tensor named = *t;
    struct graph_type type[TFLITE_PROBES];
    enum infer_dtype dtype = tflite_dtype(t->type);
    int order[INFER_MAX_RANK], value;
    char name[256];

    if (im->freed_batch || dtype == INFER_NONE) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    dtype == INFER_NONE ? "a state that is %s"
                                        : "a state for a free batch",
                    tflite_type_name(t->type));
        return;
    }
    if (tflite_is_quantised(t) || dtype == INFER_F16 || dtype == INFER_F64)
        dtype = INFER_F32;
    v->swapped = t->rank >= 4;
    tflite_order(t->rank, v->swapped, order);
    memset(type, 0, sizeof type);
    for (int p = 0; p < TFLITE_PROBES; p++) {
        type[p].dtype = dtype;
        type[p].rank = t->rank;
        for (int d = 0; d < t->rank; d++)
            type[p].dim[d] = t->dim[v->swapped ? order[d] : d];
    }
    if (v->tensor < 0)
        named.name = v->name;
    tflite_name(&named, name, sizeof name);
    v->first = first_of(im, v, t, dtype);
    if (im->status < 0)
        return;
    value = graph_add_input(im->g, *name ? name : "state", dtype, t->rank,
                            type[0].dim);
    if (value == INFER_EARGUMENT)
        tflite_fail(im, INFER_EUNSUPPORTED, "a state '%s' beside '%s'", name,
                    name);
    else if (value < 0)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    if (im->status < 0 || !tflite_set_type(im, value, type))
        return;
    v->input = value;
    value = exchange(im, value, v->first);
    if (im->status < 0)
        return;
    tflite_value_forget(&v->v);
    v->v =
        (struct tflite_value){.state = TFLITE_GRAPH,
                              .plain = v->swapped ? -1 : value,
                              .swapped = v->swapped || t->rank < 3 ? value : -1,
                              .weight = -1};
    v->t = v->held = *t;
    v->state = true;
    v->place = im->g->n_inputs;
    v->set = true;
}

int tflite_state(struct tflite_import *im, int i)
{
    const struct fb_vector none = {0};
    const struct tflite_tensor t = tflite_input_tensor(im, i);
    int at;

    if (im->status < 0)
        return -1;
    if (!t.variable || im->nested > 0 || im->initialising)
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           t.variable ? "a state within a loop"
                                      : "a state that is no variable");
    at = find(im, tflite_input_index(im, i), &none, &none);
    if (at < 0)
        return -1;
    if (!im->variable[at].state)
        make_state(im, &im->variable[at], &t);
    if (im->status < 0)
        return -1;
    if (im->variable[at].v.plain < 0)
        im->variable[at].v.plain =
            tflite_reorder(im, im->variable[at].v.swapped, t.rank, false);
    return im->variable[at].v.plain;
}

void tflite_set_state(struct tflite_import *im, int i, int value)
{
    const int tensor = tflite_input_index(im, i);

    for (int k = 0; k < im->n_variables && im->status == 0; k++)
        if (im->variable[k].tensor == tensor && tensor >= 0)
            im->variable[k].v = (struct tflite_value){.state = TFLITE_GRAPH,
                                                      .plain = value,
                                                      .swapped = -1,
                                                      .weight = -1};
}

static int add_state(struct tflite_import *im, struct tflite_variable *v)
{
    struct tflite_tensor named = v->t;
    char name[256], next[264];
    int x = v->swapped ? v->v.swapped : v->v.plain;

    if (v->v.state != TFLITE_GRAPH)
        return error_set(im->err, INFER_EUNSUPPORTED,
                         "a variable that is set to a constant in each run");
    if (x < 0)
        x = tflite_reorder(im, v->swapped ? v->v.plain : v->v.swapped,
                           v->held.rank, v->swapped);
    if (im->status == 0 && !tflite_same_type(im, x, v->input))
        return error_set(im->err, INFER_EUNSUPPORTED,
                         "a state that changes its shape");
    x = exchange(im, x, v->first);
    if (im->status == 0 &&
        (graph_is_output(im->g, x) || im->g->value[x].producer < 0))
        x = tflite_plain_unary(im, x, KERN_IDENTITY);
    if (v->tensor < 0)
        named.name = v->name;
    tflite_name(&named, name, sizeof name);
    snprintf(next, sizeof next, "%s/next", *name ? name : "state");
    if (im->status == 0)
        tflite_rename(im, x, next);
    if (im->status < 0)
        return error_set(im->err, im->status, "state: %s", im->text);
    return graph_add_output(im->g, x) < 0
               ? error_set(im->err, INFER_EUNSUPPORTED,
                           "more outputs and states than %d", GRAPH_MAX_INPUTS)
               : 0;
}

int tflite_add_states(struct tflite_import *im)
{
    int rc = 0;

    if (im->new_states)
        return error_set(im->err, INFER_EUNSUPPORTED,
                         "a variable that keeps its value from run to run");
    im->op = (struct tflite_operator){0};
    for (int place = 0; place <= im->g->n_inputs; place++)
        for (int i = 0; i < im->n_variables && rc == 0; i++)
            if (im->variable[i].state && im->variable[i].place == place)
                rc = add_state(im, &im->variable[i]);
    return rc;
}

/* ---- ASSIGN_VARIABLE and READ_VARIABLE ----------------------------- */

void tflite_import_assign(struct tflite_import *im, int param)
{
    struct tflite_variable *to;
    struct tflite_tensor t;
    int at;

    (void)param;
    if (im->op.n_in != 2) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs", im->op.n_in);
        return;
    }
    to = variable_of(im);
    if (!to)
        return;
    if (im->branches > 0) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a variable that is set where a condition holds");
        return;
    }
    at = tflite_input_index(im, 1);
    if (im->status < 0)
        return;
    t = tflite_input_tensor(im, 1);
    tflite_load(im, at);
    if (im->status == 0 && to->read && !to->state)
        keep(im, to);
    if (im->status == 0 && to->state && !tflite_same_kind(&t, &to->held))
        tflite_fail(im, INFER_EUNSUPPORTED, "a state that changes its type");
    if (im->status == 0 && im->value[at].state != TFLITE_KNOWN &&
        im->value[at].state != TFLITE_GRAPH)
        tflite_fail(im, INFER_EFORMAT, "nothing produces its input");
    if (im->status < 0)
        return;
    tflite_value_forget(&to->v);
    to->v = tflite_value_share(&im->value[at]);
    to->t = t;
    to->set = true;
    to->written = !im->initialising;
}

void tflite_import_read(struct tflite_import *im, int param)
{
    struct tflite_variable *from;
    struct tflite_tensor t;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    from = variable_of(im);
    if (!from)
        return;
    t = tflite_output_tensor(im, 0);
    if (im->status == 0 && !from->set)
        tflite_fail(im, INFER_EUNSUPPORTED, "a variable that nothing fills");
    if (im->status == 0 && !tflite_same_kind(&t, &from->t))
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a variable of another type than what is read");
    if (im->status < 0)
        return;
    /* What CALL_ONCE reads is no state: it runs once. */
    if (!im->initialising && !from->written) {
        if (!from->state && is_kept(im, from))
            make_state(im, from, &t);
        from->read = true;
    }
    if (im->status < 0)
        return;
    if (im->value[tflite_output_index(im, 0)].state != TFLITE_UNKNOWN)
        tflite_fail(im, INFER_EFORMAT, "its output is produced twice");
    else
        im->value[tflite_output_index(im, 0)] = tflite_value_share(&from->v);
}
