/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: UNIDIRECTIONAL_SEQUENCE_LSTM and _RNN, step by step.
 *
 * The products with the inputs are one layer for all steps and gates; each step
 * adds the product with the state.  The state is zero before the first step of
 * a run: that which TensorFlow Lite keeps from one call to the next is that of
 * an interpreter whose variables were reset.
 *
 * Gates as the file orders them: input, forget, cell, output; a file without
 * the weights of the input gate uses 1 - forget for it.
 */
#include <stdlib.h>

#include "weights/tflite/tflite.h"

enum { GATES = 4, STATE_WEIGHTS = 5, PEEPHOLES = 9, BIASES = 12 };
enum { PROJECTION = 16, PROJECTION_BIAS = 17, NORMS = 20 };

struct sequence {
    int64_t steps, hidden;
    int axis;  /* of the steps */
    int gates; /* in input and weight: 4, or 3 without the input gate */
    int input; /* products with the inputs and biases, a step a slice */
    int state; /* weights of the state */
    int bias;  /* of a projection, or -1 */
    int projection;
    int peephole[GATES]; /* or -1 */
    float cell_clip, projection_clip;
    enum tflite_activation act;
};

/* ---- short forms --------------------------------------------------- */

static int dense(struct tflite_import *im, int x, int weight, int bias)
{
    const int in[3] = {x, weight, bias};

    return tflite_emit(im, GRAPH_DENSE, NULL, in, bias < 0 ? 2 : 3);
}

/* a + b; either may be absent. */
static int add(struct tflite_import *im, int a, int b)
{
    return a < 0 ? b : b < 0 ? a : tflite_binary(im, KERN_ADD, a, b);
}

static int times(struct tflite_import *im, int a, int b)
{
    return a < 0 || b < 0 ? -1 : tflite_binary(im, KERN_MUL, a, b);
}

static int clip(struct tflite_import *im, int x, float limit)
{
    return limit > 0 ? tflite_unary(im, x, KERN_CLIP, -limit, limit) : x;
}

/* ---- inputs -------------------------------------------------------- */

/* Steps of input 0; states have as many entries as the weights of input
 * `weight` have columns. */
static bool read_sizes(struct tflite_import *im, int weight, bool time_major,
                       struct sequence *s)
{
    struct graph_type x = tflite_type(im, 0, 0);
    const struct graph_type w = tflite_type(im, weight, 0);
    const struct tflite_tensor t = tflite_input_tensor(im, 0);

    if (im->status < 0)
        return false;
    s->axis = time_major ? 0 : 1;
    if (x.rank != 3 || w.rank != 2) {
        tflite_fail(im, INFER_EFORMAT, "input of rank %d, weights of rank %d",
                    x.rank, w.rank);
        return false;
    }
    if (t.type != TFLITE_FLOAT32) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "states of integers: the input is %s",
                    tflite_type_name(t.type));
        return false;
    }
    if (tflite_is_hybrid(im, 0, weight)) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "activations of a recurrent layer are not rounded at run "
                    "time: without --dynamic-range its weights become floats");
        return false;
    }
    s->steps = x.dim[s->axis];
    s->hidden = w.dim[0];
    for (int p = 1; p < im->probes; p++)
        if (tflite_type(im, 0, p).dim[s->axis] != s->steps) {
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "a free number of steps; --input-shape fixes it");
            return false;
        }
    if (s->steps < 1 || s->steps > GRAPH_MAX_INPUTS) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a sequence of %lld steps; up to %d are unrolled",
                    (long long)s->steps, GRAPH_MAX_INPUTS);
        return false;
    }
    return true;
}

/* Step t of the products with the inputs. */
static int part(struct tflite_import *im, const struct sequence *s, int64_t t)
{
    const int64_t axis = s->axis;

    return tflite_dims(im, GRAPH_SQUEEZE,
                       tflite_slice(im, s->input, s->axis, t, t + 1), 1, &axis);
}

/* Output 0 from the results of all steps. */
static void join(struct tflite_import *im, const struct sequence *s, int *y)
{
    const int64_t axis = s->axis;

    for (int64_t t = 0; t < s->steps; t++)
        y[t] = tflite_dims(im, GRAPH_UNSQUEEZE, y[t], 1, &axis);
    tflite_out(im, 0, tflite_concat(im, y, (int)s->steps, s->axis), false);
}

/* ---- LSTM ---------------------------------------------------------- */

static void read_weights(struct tflite_import *im, struct sequence *s)
{
    const int first = tflite_has(im, 1) ? 0 : 1;
    int w[GATES], u[GATES], b[GATES];

    s->gates = GATES - first;
    for (int g = first; g < GATES; g++) {
        w[g - first] = tflite_weight(im, 1 + g, NULL, false);
        u[g - first] = tflite_weight(im, STATE_WEIGHTS + g, NULL, false);
        b[g - first] = tflite_weight(im, BIASES + g, NULL, false);
    }
    for (int g = 0; g < GATES; g++)
        s->peephole[g] = -1;
    for (int g = 0; g < 3; g++) /* input, forget, output */
        if (tflite_has(im, PEEPHOLES + g))
            s->peephole[g < 2 ? g : 3] =
                tflite_weight(im, PEEPHOLES + g, NULL, false);
    s->projection = tflite_has(im, PROJECTION)
                        ? tflite_weight(im, PROJECTION, NULL, false)
                        : -1;
    s->bias = tflite_has(im, PROJECTION_BIAS)
                  ? tflite_weight(im, PROJECTION_BIAS, NULL, false)
                  : -1;
    s->input =
        dense(im, tflite_in(im, 0, false), tflite_concat(im, w, s->gates, 0),
              tflite_concat(im, b, s->gates, 0));
    s->state = tflite_concat(im, u, s->gates, 0);
}

/* One step: states *h and *c (-1: zero) become the next ones. */
static void step(struct tflite_import *im, const struct sequence *s, int64_t t,
                 int *h, int *c)
{
    const int first = GATES - s->gates;
    int x = part(im, s, t), g[GATES] = {-1, -1, -1, -1};

    if (*h >= 0)
        x = add(im, x, dense(im, *h, s->state, -1));
    for (int i = first; i < GATES; i++)
        g[i] = tflite_slice(im, x, 1, (i - first) * s->hidden,
                            (i - first + 1) * s->hidden);
    for (int i = first; i < 2; i++)
        g[i] = tflite_plain_unary(
            im, add(im, g[i], times(im, s->peephole[i], *c)), KERN_SIGMOID);
    if (first > 0)
        g[0] = tflite_unary(im, g[1], KERN_LINEAR, -1, 1);
    *c = clip(im,
              add(im, times(im, g[1], *c),
                  times(im, g[0], tflite_activated(im, s->act, g[2]))),
              s->cell_clip);
    g[3] = tflite_plain_unary(im, add(im, g[3], times(im, s->peephole[3], *c)),
                              KERN_SIGMOID);
    *h = times(im, g[3], tflite_activated(im, s->act, *c));
    if (s->projection >= 0)
        *h =
            clip(im, dense(im, *h, s->projection, s->bias), s->projection_clip);
}

void tflite_import_lstm(struct tflite_import *im, int param)
{
    struct sequence s = {.steps = 0};
    int h = -1, c = -1, *y;

    (void)param;
    if (!tflite_arity(im, 1, 24))
        return;
    if (im->op.n_in < 20) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs", im->op.n_in);
        return;
    }
    s.act = tflite_activation(im, 0);
    s.cell_clip = fb_f32(&im->op.options, 1, 0);
    s.projection_clip = fb_f32(&im->op.options, 2, 0);
    for (int i = NORMS; i < im->op.n_in; i++)
        if (tflite_has(im, i)) {
            tflite_fail(im, INFER_EUNSUPPORTED, "norms of the gates");
            return;
        }
    if (!read_sizes(im, STATE_WEIGHTS + 1, fb_bool(&im->op.options, 3), &s))
        return;
    y = calloc((size_t)s.steps, sizeof *y);
    if (!y) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    read_weights(im, &s);
    for (int64_t t = 0; t < s.steps && im->status == 0; t++) {
        step(im, &s, t, &h, &c);
        y[t] = h;
    }
    if (im->status == 0)
        join(im, &s, y);
    free(y);
}

/* ---- RNN ----------------------------------------------------------- */

/* Inputs: x, weights of x, weights of the state, bias, state. */
void tflite_import_rnn(struct tflite_import *im, int param)
{
    struct sequence s = {.steps = 0};
    int h = -1, *y;

    (void)param;
    if (!tflite_arity(im, 5, 5))
        return;
    s.act = tflite_activation(im, 1);
    if (!read_sizes(im, 2, fb_bool(&im->op.options, 0), &s))
        return;
    y = calloc((size_t)s.steps, sizeof *y);
    if (!y) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    s.input =
        dense(im, tflite_in(im, 0, false), tflite_weight(im, 1, NULL, false),
              tflite_weight(im, 3, NULL, false));
    s.state = tflite_weight(im, 2, NULL, false);
    for (int64_t t = 0; t < s.steps && im->status == 0; t++) {
        const int x = part(im, &s, t);

        h = tflite_activated(im, s.act,
                             h < 0 ? x : add(im, x, dense(im, h, s.state, -1)));
        y[t] = h;
    }
    if (im->status == 0)
        join(im, &s, y);
    free(y);
}
