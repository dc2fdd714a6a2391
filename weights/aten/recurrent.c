/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lstm, gru, rnn_tanh and rnn_relu: layers one after the other, each as ONNX's
 * operator of one layer.
 *
 * Gates as PyTorch orders them: i, f, g, o; r, z, n.  ONNX: i, o, f, c;
 * z, r, h.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

#define MAX_LAYERS 64
#define MAX_PARAMS (MAX_LAYERS * 8)

struct cell {
    const char *op;
    int gates;
    int order[4]; /* the gate of PyTorch at each place of ONNX */
};

/* By the row's param. */
static const struct cell cells[] = {{"LSTM", 4, {0, 3, 1, 2}},
                                    {"GRU", 3, {1, 0, 2}},
                                    {"RNN", 1, {0}},
                                    {"RNN", 1, {0}}};

struct layers {
    const struct cell *cell;
    struct pb_span param[MAX_PARAMS], h,
        c;                        /* h, c: layers x directions first */
    int layers, directions, each; /* each: parameters of a direction */
    bool biases, relu;
    int64_t hidden;
};

static struct pb_span joined(struct onnx_import *im, int axis, int n,
                             const struct pb_span *part)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", axis);
    return n == 1 ? part[0] : aten_step(im, "Concat", &a, n, part);
}

/* The rows of a parameter with its gates in ONNX's order. */
static struct pb_span in_order(struct onnx_import *im, const struct layers *l,
                               struct pb_span x)
{
    struct pb_span part[4];

    for (int i = 0; i < l->cell->gates; i++) {
        const int64_t from = l->cell->order[i] * l->hidden;

        part[i] = aten_cut(im, x, 0, from, from + l->hidden);
    }
    return l->cell->gates == 1 ? x : joined(im, 0, l->cell->gates, part);
}

/* Parameter `which` of every direction of a layer, with the directions in
 * front; two: it and the next one, one behind the other. */
static struct pb_span of_layer(struct onnx_import *im, const struct layers *l,
                               int layer, int which, bool two)
{
    struct pb_span part[2], half[2];

    for (int d = 0; d < l->directions; d++) {
        const int at = (layer * l->directions + d) * l->each + which;

        half[0] = in_order(im, l, l->param[at]);
        half[1] = two ? in_order(im, l, l->param[at + 1]) : half[0];
        part[d] = ATEN_STEP(im, "Unsqueeze", NULL, joined(im, 0, 1 + two, half),
                            aten_list1(im, 0));
    }
    return joined(im, 0, l->directions, part);
}

/* The initial state of a layer. */
static struct pb_span state_of(struct onnx_import *im, const struct layers *l,
                               struct pb_span all, int layer)
{
    return all.bytes ? aten_cut(im, all, 0, layer * l->directions,
                                (layer + 1) * l->directions)
                     : all;
}

/* One layer: x becomes its output (T,N,directions H); last: its states. */
static void run_layer(struct onnx_import *im, const struct layers *l, int layer,
                      struct pb_span *x, struct pb_span *last)
{
    static const int64_t order[4] = {0, 2, 1, 3};
    struct pb_span relu[2] = {{(unsigned char *)"Relu", 4},
                              {(unsigned char *)"Relu", 4}};
    struct pb_span in[7] = {*x, of_layer(im, l, layer, 0, false),
                            of_layer(im, l, layer, 1, false)};
    struct pb_span out[3];
    struct aten_attrs a = {.n = 0};

    if (l->biases)
        in[3] = of_layer(im, l, layer, 2, true);
    in[5] = state_of(im, l, l->h, layer);
    in[6] = state_of(im, l, l->c, layer);
    aten_set_int(&a, "hidden_size", l->hidden);
    aten_set_word(&a, "direction",
                  l->directions == 2 ? "bidirectional" : "forward");
    if (l->cell->gates == 3)
        aten_set_int(&a, "linear_before_reset", 1);
    if (l->relu) {
        a.item[a.n++] = (struct onnx_attr){.name = (char *)"activations",
                                           .type = ONNX_ATTR_STRINGS,
                                           .strings = relu,
                                           .count = (size_t)l->directions};
    }
    for (int i = 0; i < 3; i++)
        out[i] = onnx_fresh_name(im, im->node->out[0]);
    onnx_steps(im, l->cell->op, in, l->cell->gates == 4 ? 7 : 6, out,
               l->cell->gates == 4 ? 3 : 2, a.item, a.n);
    last[0] = out[1];
    last[1] = out[2];
    /* T,directions,N,H -> T,N,directions H */
    *x = aten_permute(im, out[0], 4, order);
    *x = ATEN_STEP(
        im, "Reshape", NULL, *x,
        aten_list(im, 3, (int64_t[]){0, 0, l->directions * l->hidden}));
}

static int read_layers(struct onnx_import *im, struct layers *l)
{
    const int param = aten_row(im)->param;
    struct pb_span state[2] = {aten_no_input(), aten_no_input()};
    int n;

    l->cell = &cells[param];
    l->relu = param == 3;
    l->biases = aten_flag(im, "has_biases", true);
    l->layers = (int)aten_int(im, "num_layers", 1);
    l->directions = aten_flag(im, "bidirectional", false) ? 2 : 1;
    l->each = l->biases ? 4 : 2;
    if (aten_has(im, "batch_sizes") || aten_has(im, "data"))
        return onnx_fail(im, INFER_EUNSUPPORTED, "packed sequences");
    if (aten_flag(im, "train", false) && aten_number(im, "dropout", 0) > 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the program was exported in training mode: call "
                         "eval() before the export");
    if (l->cell->gates == 4)
        n = aten_tensors(im, "hx", 2, state);
    else
        state[0] = aten_tensor(im, "hx"), n = 1;
    l->h = state[0];
    l->c = state[1];
    if (im->rc == 0 && n != (l->cell->gates == 4 ? 2 : 1))
        return onnx_fail(im, INFER_EFORMAT, "%d states", n);
    n = aten_tensors(im, "params", MAX_PARAMS, l->param);
    if (im->rc == 0 && (l->layers < 1 || l->layers > MAX_LAYERS ||
                        n != l->layers * l->directions * l->each))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%d parameters of %d layers: states that are "
                         "projected",
                         n, l->layers);
    l->hidden = aten_dim(im, l->param[1], -1);
    return im->rc < 0 || l->hidden > 0
               ? im->rc
               : onnx_fail(im, INFER_EUNSUPPORTED, "states of free width");
}

int aten_recurrent(struct onnx_import *im)
{
    static const int64_t order[3] = {1, 0, 2};
    const bool batch_first = aten_flag(im, "batch_first", false);
    struct pb_span x = aten_tensor(im, "input");
    struct pb_span h[MAX_LAYERS], c[MAX_LAYERS], last[2];
    struct layers l = {.layers = 0};
    struct aten_attrs first = {.n = 0};

    if (read_layers(im, &l) < 0)
        return im->rc;
    if (aten_rank(im, x) != 3)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a sequence of rank %d",
                         aten_rank(im, x));
    if (batch_first)
        x = aten_permute(im, x, 3, order);
    for (int i = 0; i < l.layers && im->rc == 0; i++) {
        run_layer(im, &l, i, &x, last);
        h[i] = last[0];
        c[i] = last[1];
    }
    if (batch_first)
        x = aten_permute(im, x, 3, order);
    aten_same(im, 0, x);
    aten_set_int(&first, "axis", 0);
    aten_give(im, 1, "Concat", &first, l.layers, h);
    if (l.cell->gates == 4)
        aten_give(im, 2, "Concat", &first, l.layers, c);
    return im->rc;
}
