/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: variables.  CALL_ONCE names a network that fills them before
 * the first run; VAR_HANDLE, in any network of the file, names one.  A network
 * of the graph has no memory: what a run writes for the next one to read is
 * refused, what it writes and reads itself is a value as any other.
 */
#include <stdlib.h>
#include <string.h>

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
static int find(struct tflite_import *im, const struct fb_vector *container,
                const struct fb_vector *name)
{
    struct tflite_variable *more;
    const int n = im->n_variables;

    for (int i = 0; i < n; i++)
        if (same_text(&im->variable[i].container, container) &&
            same_text(&im->variable[i].name, name))
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
    at = find(im, &container, &name);
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

void tflite_import_assign(struct tflite_import *im, int param)
{
    struct tflite_variable *to;
    int at;

    (void)param;
    if (im->op.n_in != 2) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs", im->op.n_in);
        return;
    }
    to = variable_of(im);
    if (!to)
        return;
    at = tflite_input_index(im, 1);
    if (im->status < 0)
        return;
    tflite_load(im, at);
    if (im->status == 0 && to->read)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a variable that keeps its value from run to run");
    if (im->status == 0 && im->value[at].state != TFLITE_KNOWN &&
        im->value[at].state != TFLITE_GRAPH)
        tflite_fail(im, INFER_EFORMAT, "nothing produces its input");
    if (im->status < 0)
        return;
    tflite_value_forget(&to->v);
    to->v = tflite_value_share(&im->value[at]);
    to->t = tflite_input_tensor(im, 1);
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
    if (im->status == 0 &&
        (t.type != from->t.type ||
         tflite_is_quantised(&t) != tflite_is_quantised(&from->t) ||
         (tflite_is_quantised(&t) && !tflite_same_quant(&t, &from->t))))
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a variable of another type than what is read");
    if (im->status < 0)
        return;
    from->read = from->read || !from->written;
    if (im->value[tflite_output_index(im, 0)].state != TFLITE_UNKNOWN)
        tflite_fail(im, INFER_EFORMAT, "its output is produced twice");
    else
        im->value[tflite_output_index(im, 0)] = tflite_value_share(&from->v);
}
