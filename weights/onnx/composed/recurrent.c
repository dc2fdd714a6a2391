/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX RNN, GRU and LSTM.
 *
 * The products with the inputs are one layer for all steps.  The rest is a node
 * `recurrent` for each direction, or unrolled: each step adds the product with
 * the state, whose weights all steps share.  Where lengths are given, a step
 * beyond the length of a sequence leaves its state and gives 0.
 *
 * Gates as ONNX orders them: RNN i; GRU z, r, h; LSTM i, o, f, c.
 */
#include <string.h>

#include "weights/onnx/composed/compose.h"

enum cell { CELL_RNN, CELL_GRU, CELL_LSTM };

#define GATES 4

/* Most steps that are unrolled: one, whose product with the state is a layer
 * like any other, and those that are asked for. */
#define UNROLLED           1
#define UNROLLED_IF_WANTED GRAPH_MAX_INPUTS

/* Functions of a direction: of gates, of what enters the state, of the LSTM's
 * output. */
struct functions {
    enum kern_unary_kind kind[3];
};

struct recurrent {
    enum cell cell;
    int gates, directions;
    int64_t steps, hidden; /* steps: -1 where their number is free */
    bool reverse, input_forget, linear_before_reset, batch_first;
    float clip; /* 0: none */
    struct functions f[2];
    bool unrolled;
    int x;      /* S,N,I unrolled, else N,S,I */
    int length; /* N,1, or -1 */
};

/* One direction. */
struct lane {
    const struct recurrent *r;
    const struct functions *f;
    int input;       /* as x, gates H: products with the inputs */
    int weight;      /* of the state: gates H,H */
    int bias_h;      /* GRU with linear_before_reset: of gate h */
    int peephole[3]; /* i, o, f; or -1 */
    int h, c;        /* state N,H; -1: zero */
};

/* ---- attributes ---------------------------------------------------- */

static int function_of(struct onnx_import *im, struct pb_span name,
                       enum kern_unary_kind *out)
{
    static const struct {
        const char *name;
        enum kern_unary_kind kind;
    } known[] = {{"Sigmoid", KERN_SIGMOID},
                 {"Tanh", KERN_TANH},
                 {"Relu", KERN_RELU},
                 {"Softsign", KERN_SOFTSIGN},
                 {"Softplus", KERN_SOFTPLUS}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (pb_span_is(name, known[i].name)) {
            *out = known[i].kind;
            return 0;
        }
    return onnx_fail(im, INFER_EUNSUPPORTED, "activation '%.*s'",
                     PB_TEXT(name, 64));
}

static int read_functions(struct onnx_import *im, struct recurrent *r)
{
    static const int functions[] = {1, 2, 3};
    const int n = functions[r->cell];
    const struct onnx_attr *a = onnx_attr(im, "activations");

    for (int d = 0; d < r->directions; d++) {
        r->f[d].kind[0] = r->cell == CELL_RNN ? KERN_TANH : KERN_SIGMOID;
        r->f[d].kind[1] = r->f[d].kind[2] = KERN_TANH;
    }
    if (!a || a->count == 0)
        return im->rc;
    if (a->type != ONNX_ATTR_STRINGS ||
        a->count != (size_t)n * (size_t)r->directions)
        return onnx_fail(im, INFER_EFORMAT, "%zu activations, expected %d",
                         a->count, n * r->directions);
    for (int i = 0; i < n * r->directions && im->rc == 0; i++)
        function_of(im, a->strings[i], &r->f[i / n].kind[i % n]);
    return im->rc;
}

static int read_attributes(struct onnx_import *im, struct recurrent *r)
{
    static const char *const words[] = {"forward", "reverse", "bidirectional",
                                        NULL};
    static const int gates[] = {1, 3, 4};
    int way = 0;

    r->cell = (enum cell)im->param;
    r->gates = gates[r->cell];
    onnx_word(im, "direction", words, &way);
    r->directions = way == 2 ? 2 : 1;
    r->reverse = way == 1;
    onnx_flag(im, "layout", &r->batch_first);
    onnx_float(im, "clip", &r->clip);
    if (r->cell == CELL_LSTM)
        onnx_flag(im, "input_forget", &r->input_forget);
    if (r->cell == CELL_GRU)
        onnx_flag(im, "linear_before_reset", &r->linear_before_reset);
    return read_functions(im, r);
}

/* ---- inputs -------------------------------------------------------- */

static int read_sizes(struct onnx_import *im, struct recurrent *r)
{
    static const int64_t column[2] = {-1, 1};
    int64_t hidden = 0;
    const int w = compose_input(im, 1), u = compose_input(im, 2);

    r->x = compose_input(im, 0);
    compose_need_rank(im, r->x, 3, 3);
    compose_need_rank(im, w, 3, 3);
    compose_need_rank(im, u, 3, 3);
    r->steps = compose_free_dim(im, r->x, r->batch_first ? 1 : 0);
    r->unrolled =
        r->steps >= 0 &&
        r->steps <= (im->options->unroll ? UNROLLED_IF_WANTED : UNROLLED);
    if (r->batch_first == r->unrolled)
        r->x = compose_swap(im, r->x, 0, 1);
    r->hidden = compose_dim(im, u, 2);
    hidden = r->hidden;
    onnx_int(im, "hidden_size", 1, INT32_MAX, &hidden);
    if (im->rc == 0 &&
        (hidden != r->hidden || compose_dim(im, w, 0) != r->directions ||
         compose_dim(im, u, 0) != r->directions ||
         compose_dim(im, w, 1) != r->gates * r->hidden ||
         compose_dim(im, u, 1) != r->gates * r->hidden ||
         compose_dim(im, w, 2) != compose_dim(im, r->x, 2)))
        return onnx_fail(im, INFER_EFORMAT,
                         "the weights do not fit hidden_size %lld and the "
                         "input",
                         (long long)hidden);
    if (im->rc == 0 && r->steps == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a sequence without steps");
    r->length = -1;
    if (onnx_has_input(im, 4))
        r->length =
            compose_cast(im, INFER_I64,
                         compose_reshape(im, compose_input(im, 4), 2, column));
    return im->rc;
}

/* Entry d of input i, -1 where that is absent. */
static int entry(struct onnx_import *im, int i, int d, int axis)
{
    if (!onnx_has_input(im, i))
        return -1;
    return compose_squeeze(
        im, compose_slice(im, compose_input(im, i), axis, d, d + 1, 1), axis);
}

static int gate(struct onnx_import *im, const struct recurrent *r, int x, int g)
{
    return compose_slice(im, x, -1, g * r->hidden, (g + 1) * r->hidden, 1);
}

static int dense(struct onnx_import *im, int x, int weight)
{
    const int in[2] = {x, weight};
    int value = -1;

    onnx_emit(im, GRAPH_DENSE, NULL, in, 2, -1, &value);
    return value;
}

/* The biases of inputs and state as one; that of the GRU's gate h stays apart
 * where the reset gate applies to it. */
static int join_bias(struct onnx_import *im, struct lane *l, int both)
{
    const struct recurrent *r = l->r;
    const int64_t n = r->gates * r->hidden;
    int of_input = compose_slice(im, both, 0, 0, n, 1);
    int of_state = compose_slice(im, both, 0, n, 2 * n, 1);

    if (r->linear_before_reset) {
        int part[2] = {compose_slice(im, of_state, 0, 0, 2 * r->hidden, 1), -1};

        l->bias_h = gate(im, r, of_state, 2);
        part[1] = compose_linear(im, 0, 0, l->bias_h);
        of_state = compose_concat(im, 2, part, 0);
    }
    return compose_binary(im, KERN_ADD, of_input, of_state);
}

static int start(struct onnx_import *im, const struct recurrent *r, int d,
                 struct lane *l)
{
    const int axis = r->batch_first ? 1 : 0;
    int bias, peephole;

    *l = (struct lane){.r = r, .f = &r->f[d], .bias_h = -1};
    l->input = dense(im, r->x, entry(im, 1, d, 0));
    l->weight = entry(im, 2, d, 0);
    bias = entry(im, 3, d, 0);
    if (bias >= 0)
        l->input =
            compose_binary(im, KERN_ADD, l->input, join_bias(im, l, bias));
    l->h = entry(im, 5, d, axis);
    l->c = r->cell == CELL_LSTM ? entry(im, 6, d, axis) : -1;
    peephole = r->cell == CELL_LSTM ? entry(im, 7, d, 0) : -1;
    for (int i = 0; i < 3; i++)
        l->peephole[i] = peephole < 0 ? -1 : gate(im, r, peephole, i);
    return im->rc;
}

/* ---- cells --------------------------------------------------------- */

static int add(struct onnx_import *im, int a, int b)
{
    return a < 0 ? b : b < 0 ? a : compose_binary(im, KERN_ADD, a, b);
}

/* A product; of nothing, which is zero, nothing. */
static int times(struct onnx_import *im, int a, int b)
{
    return a < 0 || b < 0 ? -1 : compose_binary(im, KERN_MUL, a, b);
}

/* Function k of the lane, behind the clip. */
static int apply(struct onnx_import *im, const struct lane *l, int k, int x)
{
    const double clip = (double)l->r->clip;

    if (clip > 0)
        x = compose_clip(im, -clip, clip, x);
    return compose_unary(im, l->f->kind[k], x);
}

/* The state's part of all gates, -1 for a state of zero. */
static int of_state(struct onnx_import *im, const struct lane *l)
{
    return l->h < 0 ? -1 : dense(im, l->h, l->weight);
}

static int step_rnn(struct onnx_import *im, struct lane *l, int x)
{
    return apply(im, l, 0, add(im, x, of_state(im, l)));
}

static int step_gru(struct onnx_import *im, const struct lane *l, int x)
{
    const struct recurrent *r = l->r;
    int g[3], u[3] = {-1, -1, -1}, reset, update;

    for (int i = 0; i < 3; i++)
        g[i] = gate(im, r, x, i);
    if (l->h >= 0 && r->linear_before_reset) {
        const int all = of_state(im, l);

        for (int i = 0; i < 3; i++)
            u[i] = gate(im, r, all, i);
    } else if (l->h >= 0) {
        for (int i = 0; i < 2; i++)
            u[i] = dense(im, l->h,
                         compose_slice(im, l->weight, 0, i * r->hidden,
                                       (i + 1) * r->hidden, 1));
    }
    update = apply(im, l, 0, add(im, g[0], u[0]));
    reset = apply(im, l, 0, add(im, g[1], u[1]));
    if (r->linear_before_reset)
        u[2] = times(im, reset, add(im, u[2], l->bias_h));
    else if (l->h >= 0)
        u[2] = dense(
            im, times(im, reset, l->h),
            compose_slice(im, l->weight, 0, 2 * r->hidden, 3 * r->hidden, 1));
    g[2] = apply(im, l, 1, add(im, g[2], u[2]));
    return add(im, times(im, compose_linear(im, -1, 1, update), g[2]),
               times(im, update, l->h));
}

static int step_lstm(struct onnx_import *im, struct lane *l, int x)
{
    const struct recurrent *r = l->r;
    int g[GATES];

    x = add(im, x, of_state(im, l));
    for (int i = 0; i < GATES; i++)
        g[i] = gate(im, r, x, i);
    g[0] = apply(im, l, 0, add(im, g[0], times(im, l->peephole[0], l->c)));
    g[2] =
        r->input_forget
            ? compose_linear(im, -1, 1, g[0])
            : apply(im, l, 0, add(im, g[2], times(im, l->peephole[2], l->c)));
    g[3] = apply(im, l, 1, g[3]);
    l->c = add(im, times(im, g[2], l->c), times(im, g[0], g[3]));
    g[1] = apply(im, l, 0, add(im, g[1], times(im, l->peephole[1], l->c)));
    return times(im, g[1], compose_unary(im, l->f->kind[2], l->c));
}

/* The value where the sequence goes on, else `other` (-1: 0). */
static int keep(struct onnx_import *im, int going, int value, int other)
{
    if (going < 0)
        return value;
    return compose_where(im, going, value,
                         other < 0 ? compose_number(im, INFER_F32, 0) : other);
}

/* Step t; gives its output. */
static int step(struct onnx_import *im, struct lane *l, int64_t t)
{
    const struct recurrent *r = l->r;
    const int x =
        compose_squeeze(im, compose_slice(im, l->input, 0, t, t + 1, 1), 0);
    const int c = l->c;
    int h, going = -1;

    if (r->length >= 0)
        going = compose_binary(im, KERN_GREATER, r->length,
                               compose_integer(im, INFER_I64, t));
    h = r->cell == CELL_RNN   ? step_rnn(im, l, x)
        : r->cell == CELL_GRU ? step_gru(im, l, x)
                              : step_lstm(im, l, x);
    l->h = keep(im, going, h, l->h);
    if (r->cell == CELL_LSTM)
        l->c = keep(im, going, l->c, c);
    return keep(im, going, h, -1);
}

/* ---- a node for all steps ------------------------------------------ */

/* A state of one sequence as that of each of x's. */
static int of_each(struct onnx_import *im, const struct recurrent *r, int state)
{
    const int both[2] = {state, r->x};
    union graph_attr attr;
    int value = -1;

    if (im->rc < 0 || state < 0 ||
        compose_free_dim(im, state, 0) == compose_free_dim(im, r->x, 0))
        return state;
    onnx_defaults(GRAPH_EXPAND, &attr);
    attr.dims.n = 2;
    attr.dims.dim[0] = GRAPH_EXPAND_LIKE(0);
    attr.dims.dim[1] = 1;
    onnx_emit(im, GRAPH_EXPAND, &attr, both, 2, -1, &value);
    return value;
}

/* The states h after all steps, and then c if that is wanted: N,S,H or N,S,2H.
 */
static int all_states(struct onnx_import *im, const struct lane *l, bool back)
{
    static const int64_t rows[2] = {3, -1}, vector[1] = {-1};
    static const enum kern_cell cells[] = {KERN_CELL_RNN, KERN_CELL_GRU,
                                           KERN_CELL_LSTM};
    const struct recurrent *r = l->r;
    const int first = r->cell == CELL_RNN ? 1 : 0;
    int in[7] = {l->input,
                 l->weight,
                 l->bias_h,
                 of_each(im, r, l->h),
                 of_each(im, r, l->c),
                 -1,
                 -1};
    union graph_attr attr;
    int value = -1;

    onnx_defaults(GRAPH_RECURRENT, &attr);
    attr.recurrent.cell = cells[r->cell];
    attr.recurrent.reverse = back;
    attr.recurrent.reset_after = r->linear_before_reset;
    attr.recurrent.input_forget = r->input_forget;
    attr.recurrent.with_cell = r->cell == CELL_LSTM && onnx_has_output(im, 2);
    attr.recurrent.clip = r->clip;
    for (int i = 0; i + first < 3; i++)
        attr.recurrent.act[i + first] = l->f->kind[i];
    if (l->peephole[0] >= 0)
        in[5] =
            compose_reshape(im, compose_concat(im, 3, l->peephole, 0), 2, rows);
    if (r->length >= 0)
        in[6] = compose_reshape(im, r->length, 1, vector);
    onnx_emit(im, GRAPH_RECURRENT, &attr, in, 7, -1, &value);
    return value;
}

/* A part of the states, and of its steps that after which none comes: N,H. */
static int last_state(struct onnx_import *im, int part, bool back)
{
    return compose_squeeze(im,
                           back ? compose_slice(im, part, 1, 0, 1, 1)
                                : compose_slice(im, part, 1, -1, INT32_MAX, 1),
                           1);
}

/* 0 at and beyond the length of each sequence: N,S,H. */
static int cut_to_length(struct onnx_import *im, const struct recurrent *r,
                         int y)
{
    int going;

    if (r->length < 0)
        return y;
    going = compose_binary(
        im, KERN_GREATER, compose_cast(im, INFER_F32, r->length),
        compose_cast(im, INFER_F32, compose_count_of(im, y, 1, 2, 1)));
    return compose_where(im, compose_unsqueeze(im, going, 2), y,
                         compose_number(im, INFER_F32, 0));
}

/* Direction d; gives S,1,N,H as run(). */
static int run_node(struct onnx_import *im, const struct recurrent *r, int d,
                    struct lane *l)
{
    const bool back = r->reverse || d == 1;
    int y, h;

    start(im, r, d, l);
    y = h = all_states(im, l, back);
    if (r->cell == CELL_LSTM && onnx_has_output(im, 2)) {
        h = compose_slice(im, y, 2, 0, r->hidden, 1);
        l->c = last_state(
            im, compose_slice(im, y, 2, r->hidden, 2 * r->hidden, 1), back);
    }
    l->h = last_state(im, h, back);
    return compose_unsqueeze(
        im, compose_swap(im, cut_to_length(im, r, h), 0, 1), 1);
}

/* ---- the operators ------------------------------------------------- */

/* All steps of direction d: S,1,N,H. */
static int run(struct onnx_import *im, const struct recurrent *r, int d,
               struct lane *l)
{
    const bool back = r->reverse || d == 1;
    int *y = onnx_alloc(&im->scratch, (size_t)r->steps * sizeof(*y));

    if (!y) {
        onnx_no_memory(im);
        return -1;
    }
    start(im, r, d, l);
    for (int64_t i = 0; i < r->steps && im->rc == 0; i++) {
        const int64_t t = back ? r->steps - 1 - i : i;

        y[t] =
            compose_unsqueeze(im, compose_unsqueeze(im, step(im, l, t), 0), 0);
    }
    return im->rc < 0 ? -1 : compose_concat(im, (int)r->steps, y, 0);
}

/* States of all directions: D,N,H, or N,D,H. */
static void give_state(struct onnx_import *im, const struct recurrent *r, int i,
                       const int *state)
{
    const int axis = r->batch_first ? 1 : 0;
    int all[2] = {-1, -1};

    if (im->rc < 0 || !onnx_has_output(im, i))
        return;
    for (int d = 0; d < r->directions; d++)
        all[d] = compose_unsqueeze(im, state[d], axis);
    compose_output(im, i, compose_concat(im, r->directions, all, axis));
}

int onnx_import_recurrent(struct onnx_import *im)
{
    static const int64_t by_batch[4] = {2, 0, 1, 3};
    const int most = im->param == CELL_LSTM ? 8 : 6;
    struct recurrent r = {.steps = 0};
    int y[2], h[2], c[2];

    onnx_arity(im, 3, most);
    read_attributes(im, &r);
    read_sizes(im, &r);
    for (int d = 0; d < r.directions && im->rc == 0; d++) {
        struct lane l = {.h = -1, .c = -1};

        y[d] = r.unrolled ? run(im, &r, d, &l) : run_node(im, &r, d, &l);
        h[d] = l.h;
        c[d] = l.c;
    }
    if (im->rc < 0)
        return im->rc;
    if (onnx_has_output(im, 0)) {
        y[0] = compose_concat(im, r.directions, y, 1);
        if (r.batch_first)
            y[0] = compose_transpose(im, y[0], 4, by_batch);
        compose_output(im, 0, y[0]);
    }
    give_state(im, &r, 1, h);
    if (r.cell == CELL_LSTM)
        give_state(im, &r, 2, c);
    return im->rc;
}
