/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncnn: LSTM, GRU and RNN, step by step.
 *
 * An input of N,T,size gives N,T,directions * outputs.  The products with the
 * inputs are one dense layer a direction, for all steps and gates; each step
 * adds the product with the state.  Gates as the file orders them: LSTM input,
 * forget, output, cell; GRU reset, update, new.  States are the further inputs
 * and outputs, N,directions,entries; without them the first one is zero.
 */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

enum { RNN, GRU, LSTM };

struct recurrent {
    int kind;
    int64_t steps, size, outputs, hidden; /* hidden: of the cell */
    int directions;
    int gates, biases;       /* rows of `hidden` numbers */
    int wx, wh, wr, bias;    /* of all directions, one below the other */
    int x;                   /* products with the inputs, N,T,gates hidden */
    int u, late, projection; /* of the direction at hand */
};

/* Rows of direction d. */
static int part(struct ncnn *n, const struct recurrent *r, const char *role,
                int x, int d, int64_t rows)
{
    return r->directions == 1
               ? x
               : layers_slice(&n->b, role, x, 0, d * rows, (d + 1) * rows, 1);
}

static int dense(struct ncnn *n, const char *role, int x, int weight, int bias)
{
    const int in[3] = {x, weight, bias};

    return layers_emit(&n->b, GRAPH_DENSE, role, NULL, in, bias < 0 ? 2 : 3);
}

static int add(struct ncnn *n, int x, int y)
{
    return y < 0 ? x : layers_binary(&n->b, "sum", KERN_ADD, x, y);
}

static int times(struct ncnn *n, int x, int y)
{
    return layers_binary(&n->b, "product", KERN_MUL, x, y);
}

static int activated(struct ncnn *n, int x, enum kern_unary_kind kind)
{
    return layers_unary(&n->b, "gate", x, kind, 0, 0);
}

/* Gate g of N,gates hidden. */
static int gate(struct ncnn *n, const struct recurrent *r, int x, int g)
{
    return r->gates == 1 ? x
                         : layers_slice(&n->b, "gate", x, 1, g * r->hidden,
                                        (g + 1) * r->hidden, 1);
}

/* ---- one step ------------------------------------------------------ */

/* Of a state of -1, which is zero, there is no product. */
static void lstm(struct ncnn *n, const struct recurrent *r, int x, int *h,
                 int *c)
{
    int g[4];

    if (*h >= 0)
        x = add(n, x, dense(n, "state", *h, r->u, -1));
    for (int i = 0; i < 4; i++)
        g[i] = activated(n, gate(n, r, x, i), i < 3 ? KERN_SIGMOID : KERN_TANH);
    *c = add(n, times(n, g[0], g[3]), *c < 0 ? -1 : times(n, g[1], *c));
    *h = times(n, g[2], activated(n, *c, KERN_TANH));
    if (r->projection >= 0)
        *h = dense(n, "projection", *h, r->projection, -1);
}

/* (1 - u) new + u h, where new has the reset gate within. */
static void gru(struct ncnn *n, const struct recurrent *r, int x, int *h)
{
    const int s = *h < 0 ? -1 : dense(n, "state", *h, r->u, -1);
    const int reset =
        activated(n, add(n, gate(n, r, x, 0), s < 0 ? -1 : gate(n, r, s, 0)),
                  KERN_SIGMOID);
    const int update =
        activated(n, add(n, gate(n, r, x, 1), s < 0 ? -1 : gate(n, r, s, 1)),
                  KERN_SIGMOID);
    const int inner = s < 0 ? r->late : add(n, gate(n, r, s, 2), r->late);
    const int fresh = activated(
        n, add(n, gate(n, r, x, 2), times(n, reset, inner)), KERN_TANH);
    const int rest = layers_unary(&n->b, "rest", update, KERN_LINEAR, -1, 1);

    *h = add(n, times(n, rest, fresh), *h < 0 ? -1 : times(n, update, *h));
}

static void step(struct ncnn *n, const struct recurrent *r, int64_t t, int *h,
                 int *c)
{
    const int64_t axis = 1;
    const int x = layers_dims(&n->b, GRAPH_SQUEEZE, "step",
                              layers_slice(&n->b, "step", r->x, 1, t, t + 1, 1),
                              1, &axis);

    if (r->kind == LSTM)
        lstm(n, r, x, h, c);
    else if (r->kind == GRU)
        gru(n, r, x, h);
    else
        *h = activated(n,
                       *h < 0 ? x : add(n, x, dense(n, "state", *h, r->u, -1)),
                       KERN_TANH);
}

/* ---- a direction --------------------------------------------------- */

/* Biases of GRU: reset, update, new, and the one within the reset gate. */
static void choose(struct ncnn *n, struct recurrent *r, const int *in, int d)
{
    const int64_t rows = r->gates * r->hidden;
    int bias = part(n, r, "bias", r->bias, d, r->biases * r->hidden);

    r->late = -1;
    if (r->kind == GRU) {
        r->late =
            layers_slice(&n->b, "late", bias, 0, rows, rows + r->hidden, 1);
        bias = layers_slice(&n->b, "bias", bias, 0, 0, rows, 1);
    }
    r->u = part(n, r, "state_weight", r->wh, d, rows);
    r->projection =
        r->wr < 0 ? -1 : part(n, r, "projection_weight", r->wr, d, r->outputs);
    r->x =
        dense(n, "inputs", in[0], part(n, r, "weight", r->wx, d, rows), bias);
}

/* Input i, of N,directions,entries, at direction d. */
static int first_state(struct ncnn *n, const struct ncnn_ends *ends, int i,
                       int d)
{
    const int64_t axis = 1;

    return i >= ends->n_in
               ? -1
               : layers_dims(
                     &n->b, GRAPH_SQUEEZE, "first",
                     layers_slice(&n->b, "first", ends->in[i], 1, d, d + 1, 1),
                     1, &axis);
}

static int join(struct ncnn *n, const char *role, const int *y, int count,
                int axis)
{
    union graph_attr attr = layers_defaults(GRAPH_CONCAT);

    attr.axis.axis = axis;
    return count == 1 ? y[0]
                      : layers_emit(&n->b, GRAPH_CONCAT, role, &attr, y, count);
}

static int spread(struct ncnn *n, int x)
{
    const int64_t axis = 1;

    return layers_dims(&n->b, GRAPH_UNSQUEEZE, "joined", x, 1, &axis);
}

/* All steps of a direction, the last ones first where it is reversed. */
static int run(struct ncnn *n, const struct recurrent *r, bool reversed, int *h,
               int *c, int *y)
{
    for (int64_t i = 0; i < r->steps && n->b.status == 0; i++) {
        const int64_t t = reversed ? r->steps - 1 - i : i;

        step(n, r, t, h, c);
        y[t] = spread(n, *h);
    }
    return n->b.status < 0 ? n->b.status
                           : join(n, "steps", y, (int)r->steps, 1);
}

/* ---- the layer ----------------------------------------------------- */

static bool read_sizes(struct ncnn *n, const struct ncnn_ends *ends, int kind,
                       struct recurrent *r)
{
    const int64_t total = ncnn_int(n, 1, 0, INT32_MAX, 0);
    const int direction = ncnn_int(n, 2, 0, 2, 0);
    const int states = kind == LSTM ? 2 : 1;

    r->kind = kind;
    r->outputs = ncnn_int(n, 0, 1, NCNN_MAX_STEP, 1);
    r->hidden = kind == LSTM ? ncnn_int(n, 3, 1, NCNN_MAX_STEP, (int)r->outputs)
                             : r->outputs;
    r->directions = direction == 2 ? 2 : 1;
    r->gates = kind == LSTM ? 4 : kind == GRU ? 3 : 1;
    r->biases = kind == RNN ? 1 : 4;
    r->size = total / r->directions / r->hidden / r->gates;
    if (n->b.status < 0)
        return false;
    if (ncnn_int(n, 8, 0, INT32_MAX, 0) != 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED, "weights of 8-bit integers");
    else if (layers_rank(&n->b, ends->in[0]) != 3 || r->size < 1 ||
             r->size * r->directions * r->hidden * r->gates != total ||
             (layers_dim(&n->b, ends->in[0], 2) >= 0 &&
              layers_dim(&n->b, ends->in[0], 2) != r->size))
        layers_fail(&n->b, INFER_EFORMAT,
                    "%lld weights for an input of %d dimensions",
                    (long long)total, layers_rank(&n->b, ends->in[0]) - 1);
    else if ((ends->n_in != 1 && ends->n_in != 1 + states) ||
             (ends->n_out != 1 && ends->n_out != 1 + states))
        layers_fail(&n->b, INFER_EFORMAT, "%d inputs and %d outputs",
                    ends->n_in, ends->n_out);
    for (int i = 1; i < ends->n_in && n->b.status == 0; i++)
        if (layers_rank(&n->b, ends->in[i]) != 3 ||
            layers_known(&n->b, ends->in[i], 1) != r->directions)
            layers_fail(&n->b, INFER_EFORMAT, "a first state of other sizes");
    r->steps = n->b.status < 0 ? 0 : layers_known(&n->b, ends->in[0], 1);
    if (n->b.status == 0 && (r->steps < 1 || r->steps > GRAPH_MAX_INPUTS))
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a sequence of %lld steps; up to %d are unrolled",
                    (long long)r->steps, GRAPH_MAX_INPUTS);
    return n->b.status == 0;
}

static void read_weights(struct ncnn *n, struct recurrent *r)
{
    const int64_t rows = r->directions * r->gates * r->hidden;
    const int64_t wx[2] = {rows, r->size}, wh[2] = {rows, r->outputs};
    const int64_t bias = r->directions * r->biases * r->hidden;
    const int64_t wr[2] = {r->directions * r->outputs, r->hidden};

    r->wx = ncnn_weight(n, "weight", true, 2, wx);
    r->bias = ncnn_weight(n, "bias", true, 1, &bias);
    r->wh = ncnn_weight(n, "state_weight", true, 2, wh);
    r->wr = r->hidden == r->outputs
                ? -1
                : ncnn_weight(n, "projection_weight", true, 2, wr);
}

void ncnn_recurrent(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int direction = ncnn_int(n, 2, 0, 2, 0);
    int state[2][2] = {{-1, -1}, {-1, -1}}, y[2] = {-1, -1}, *steps;
    struct recurrent r = {.steps = 0};

    if (!read_sizes(n, ends, arg, &r))
        return;
    steps = calloc((size_t)r.steps, sizeof *steps);
    if (steps == NULL) {
        layers_no_room(&n->b);
        return;
    }
    read_weights(n, &r);
    for (int d = 0; d < r.directions && n->b.status == 0; d++) {
        for (int i = 0; i < 2; i++)
            state[i][d] = first_state(n, ends, 1 + i, d);
        choose(n, &r, ends->in, d);
        y[d] = run(n, &r, direction == 1 || d == 1, &state[0][d], &state[1][d],
                   steps);
        for (int i = 0; i + 1 < ends->n_out && n->b.status == 0; i++)
            state[i][d] = spread(n, state[i][d]);
    }
    free(steps);
    if (n->b.status < 0)
        return;
    ends->out[0] = join(n, "", y, r.directions, 2);
    for (int i = 0; i + 1 < ends->n_out; i++)
        ends->out[1 + i] = join(n, "states", state[i], r.directions, 1);
}
