/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: SVDF, a dense layer over the last steps whose matrix is a
 * sum of `rank` products of a vector of features and one of time.  A step takes
 * the product of x with the features, and keeps those of the last M steps: the
 * state (B, filters * M), which is an input and an output of the graph.
 *
 * Inputs: x (B,C), features (filters,C), time (filters,M), bias, state.
 */
#include "weights/tflite/tflite.h"

enum { X, FEATURES, TIME, BIAS, STATE };

struct svdf {
    int64_t batch, filters, memory, units;
    bool integers;
};

static bool read_sizes(struct tflite_import *im, struct svdf *s)
{
    const struct graph_type x = tflite_type(im, X, 0);
    const struct graph_type f = tflite_type(im, FEATURES, 0);
    const struct graph_type t = tflite_type(im, TIME, 0);
    const int64_t rank = fb_i32(&im->op.options, 0, 0);

    if (im->status < 0)
        return false;
    if (x.rank != 2 || f.rank != 2 || t.rank != 2 || t.dim[0] != f.dim[0] ||
        rank < 1 || f.dim[0] % rank != 0 || t.dim[1] < 1 || f.dim[0] < 1 ||
        x.dim[0] != tflite_type(im, X, im->probes - 1).dim[0]) {
        tflite_fail(im, INFER_EFORMAT, "rank %lld for %lld filters",
                    (long long)rank, (long long)f.dim[0]);
        return false;
    }
    *s = (struct svdf){.batch = x.dim[0],
                       .filters = f.dim[0],
                       .memory = t.dim[1],
                       .units = f.dim[0] / rank};
    return true;
}

/* Products with the features: floats, or integers of the state's scale. */
static int features(struct tflite_import *im, const struct svdf *s)
{
    const int in[2] = {tflite_in(im, X, false),
                       tflite_weight(im, FEATURES, NULL, s->integers)};
    const int y = tflite_emit(im, GRAPH_DENSE, NULL, in, 2);
    const struct tflite_tensor x = tflite_input_tensor(im, X);
    const struct tflite_tensor w = tflite_input_tensor(im, FEATURES);
    const struct tflite_tensor state = tflite_input_tensor(im, STATE);
    struct tflite_quant q;
    double factor;

    if (!s->integers || im->status < 0)
        return y;
    q = tflite_quant(im, &state);
    factor = (double)(tflite_quant(im, &x).scale * tflite_quant(im, &w).scale /
                      q.scale);
    return tflite_requantise(im, y, &factor, 1, 0, 2, &q);
}

static int sum(struct tflite_import *im, int x)
{
    union graph_attr attr;

    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_SUM;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = 2;
    return tflite_emit(im, GRAPH_REDUCE, &attr, &x, 1);
}

/* Sums over time and rank.  Products of integers have 30 bits. */
static int over_time(struct tflite_import *im, const struct svdf *s, int x)
{
    const int64_t dim[3] = {s->batch, s->units, -1};
    int w = tflite_weight(im, TIME, NULL, s->integers);

    if (s->integers) {
        x = tflite_cast(im, x, INFER_I32);
        w = tflite_cast(im, w, INFER_I32);
    }
    x = sum(im, tflite_binary(im, KERN_MUL, x, w));
    if (s->filters != s->units)
        x = sum(im, tflite_dims(im, GRAPH_RESHAPE, x, 3, dim));
    return x;
}

static int with_bias(struct tflite_import *im, int x)
{
    return tflite_has(im, BIAS)
               ? tflite_binary(im, KERN_ADD, x, tflite_in(im, BIAS, false))
               : x;
}

static void give(struct tflite_import *im, const struct svdf *s, int x)
{
    const struct tflite_tensor w = tflite_input_tensor(im, TIME);
    const struct tflite_tensor state = tflite_input_tensor(im, STATE);
    const struct tflite_tensor out = tflite_output_tensor(im, 0);
    struct tflite_quant q;
    double factor;

    x = with_bias(im, x);
    if (!s->integers) {
        tflite_out(im, 0, tflite_fused(im, x, 1), false);
        return;
    }
    if (im->status < 0)
        return;
    q = tflite_quant(im, &out);
    factor = (double)(tflite_quant(im, &state).scale *
                      tflite_quant(im, &w).scale / q.scale);
    tflite_out(im, 0, tflite_requantise(im, x, &factor, 1, 0, 2, &q), false);
}

void tflite_import_svdf(struct tflite_import *im, int param)
{
    const int64_t last = 2;
    int64_t dim[3];
    struct svdf s;
    int state, now;

    (void)param;
    if (im->op.n_in != 5 || im->op.n_out != 1) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs and %d outputs", im->op.n_in,
                    im->op.n_out);
        return;
    }
    if (!read_sizes(im, &s))
        return;
    const struct tflite_tensor x = tflite_input_tensor(im, X);
    const struct tflite_tensor w = tflite_input_tensor(im, FEATURES);
    s.integers = tflite_is_quantised(&x) && tflite_is_quantised(&w);
    if (tflite_is_hybrid(im, X, FEATURES)) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "activations of SVDF are not rounded at run time: without "
                    "--dynamic-range its weights become floats");
        return;
    }
    im->raw = s.integers;
    dim[0] = s.batch;
    dim[1] = s.filters;
    dim[2] = s.memory;
    state = tflite_state(im, STATE);
    state = tflite_dims(im, GRAPH_RESHAPE, state, 3, dim);
    now = tflite_dims(im, GRAPH_UNSQUEEZE, features(im, &s), 1, &last);
    if (s.memory > 1) {
        const int both[2] = {tflite_slice(im, state, 2, 1, s.memory), now};

        now = tflite_concat(im, both, 2, 2);
    }
    give(im, &s, over_time(im, &s, now));
    dim[1] = s.filters * s.memory;
    tflite_set_state(im, STATE, tflite_dims(im, GRAPH_RESHAPE, now, 2, dim));
}
