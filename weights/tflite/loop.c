/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite, WHILE: the operators of the body are imported once an
 * iteration, as long as the condition can be computed while importing.  Keras'
 * recurrent layers become such loops over time steps.
 */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/network.h"

/* Iterations of all loops of a file. */
#define MAX_ITERATIONS 4096

/* Whether there is another iteration. */
static bool ask(struct tflite_import *im, struct tflite_network *condition,
                const struct tflite_states *s)
{
    struct tflite_tensor t;
    struct tflite_value v;
    struct tflite_outer o;
    bool more = false;

    if (tflite_network_begin(im, condition, s, &o) && im->m->outputs.count != 1)
        tflite_fail(im, INFER_EFORMAT, "a condition of %zu outputs",
                    im->m->outputs.count);
    if (im->status == 0 && tflite_network_output(im, 0, &v, &t)) {
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
    tflite_network_end(im, condition, &o);
    return more && im->status == 0;
}

static void iterate(struct tflite_import *im, struct tflite_network *body,
                    struct tflite_states *s)
{
    struct tflite_states *next = calloc(1, sizeof *next);
    struct tflite_outer o;

    if (!next) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    if (tflite_network_begin(im, body, s, &o) &&
        im->m->outputs.count != (size_t)s->n)
        tflite_fail(im, INFER_EFORMAT, "%zu outputs of a loop of %d variables",
                    im->m->outputs.count, s->n);
    for (int i = 0; i < s->n && im->status == 0; i++) {
        if (!tflite_network_output(im, i, &next->v[i], &next->t[i]))
            break;
        next->n = i + 1;
        if (!tflite_same_kind(&next->t[i], &s->t[i]))
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "variable %d changes its type in a loop", i);
    }
    tflite_network_end(im, body, &o);
    if (im->status == 0) {
        tflite_network_drop_states(s);
        *s = *next;
    } else {
        tflite_network_drop_states(next);
    }
    free(next);
}

static void start(struct tflite_import *im, struct tflite_states *s)
{
    if (im->op.n_in != im->op.n_out || im->op.n_in > TFLITE_MAX_STATES ||
        im->op.n_in < 1) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a loop of %d inputs and %d outputs; up to %d, as many of "
                    "both, are supported",
                    im->op.n_in, im->op.n_out, TFLITE_MAX_STATES);
        return;
    }
    tflite_network_take_inputs(im, s, 0);
}

void tflite_import_while(struct tflite_import *im, int param)
{
    struct tflite_network condition = {.graph = fb_i32(&im->op.options, 0, 0)};
    struct tflite_network body = {.graph = fb_i32(&im->op.options, 1, 0)};
    struct tflite_states *s = calloc(1, sizeof *s);

    (void)param;
    if (!s)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    else if (im->nested >= TFLITE_MAX_NESTED)
        tflite_fail(im, INFER_EUNSUPPORTED, "loops in loops deeper than %d",
                    TFLITE_MAX_NESTED);
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
    tflite_network_drop(&condition);
    tflite_network_drop(&body);
    if (s) {
        tflite_network_give_outputs(im, s);
        tflite_network_drop_states(s);
    }
    free(s);
}
