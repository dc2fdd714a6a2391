/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: networks of the file in place of an operator: IF, composites
 * of StableHLO, CALL_ONCE. */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/network.h"

/* Outputs of network `graph` for inputs from `first` on. */
static void inline_network(struct tflite_import *im, int graph, int first,
                           struct tflite_states *out)
{
    struct tflite_states *in = calloc(1, sizeof *in);
    struct tflite_network body = {.graph = graph};
    struct tflite_outer o;

    if (!in)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested >= TFLITE_MAX_NESTED)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "networks in networks deeper than %d", TFLITE_MAX_NESTED);
    else if (im->op.n_in - first > TFLITE_MAX_STATES ||
             im->op.n_out > TFLITE_MAX_STATES)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a network of more than %d inputs or outputs",
                    TFLITE_MAX_STATES);
    else
        tflite_network_take_inputs(im, in, first);
    im->nested++;
    if (im->status == 0) {
        const int n = im->op.n_out;

        if (tflite_network_begin(im, &body, in, &o) &&
            im->m->outputs.count != (size_t)n)
            tflite_fail(im, INFER_EFORMAT, "%zu outputs of a network for %d",
                        im->m->outputs.count, n);
        for (int i = 0; i < n && im->status == 0; i++)
            if (tflite_network_output(im, i, &out->v[i], &out->t[i]))
                out->n = i + 1;
        tflite_network_end(im, &body, &o);
    }
    im->nested--;
    if (in)
        tflite_network_drop_states(in);
    tflite_network_drop(&body);
    free(in);
}

static void replace(struct tflite_import *im, int graph, int first)
{
    struct tflite_states *out = calloc(1, sizeof *out);

    if (!out) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    inline_network(im, graph, first, out);
    if (im->status == 0)
        tflite_network_give_outputs(im, out);
    tflite_network_drop_states(out);
    free(out);
}

/* Output o of a network as a value of the graph in the file's order. */
static int plain_output(struct tflite_import *im, const struct tflite_states *s,
                        int o)
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
    struct tflite_states *s[2] = {calloc(1, sizeof **s), calloc(1, sizeof **s)};
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
            tflite_network_drop_states(s[i]);
        free(s[i]);
    }
}

/* One of two networks; the one that a condition which is known says. */
void tflite_import_if(struct tflite_import *im, int param)
{
    const struct constant *c;

    (void)param;
    if (!tflite_arity(im, 1, 1 + TFLITE_MAX_STATES))
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

/* The network that fills variables before the first run. */
void tflite_import_call_once(struct tflite_import *im, int param)
{
    struct tflite_network body = {.graph = fb_i32(&im->op.options, 0, 0)};
    struct tflite_states *none = calloc(1, sizeof *none);
    struct tflite_outer o;

    (void)param;
    if (!none)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested > 0 || im->initialising)
        tflite_fail(im, INFER_EUNSUPPORTED, "within a loop, or another one");
    if (im->status == 0) {
        im->initialising = true;
        tflite_network_begin(im, &body, none, &o);
        tflite_network_end(im, &body, &o);
        im->initialising = false;
    }
    tflite_network_drop(&body);
    free(none);
}
