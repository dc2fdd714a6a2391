/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keras: SimpleRNN, GRU, LSTM, Bidirectional and ConvLSTM, step by step.
 *
 * The products with the inputs are one layer for all steps; each step adds the
 * product with the state.  A sequence N,T,C has a fixed number of steps.  Where
 * a mask hides a step, the state and the output stay what they were.
 *
 * Gates as Keras orders them: GRU z, r, h; LSTM and ConvLSTM i, f, c, o.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

#define GATES      4
#define MAX_STATES 2

enum cell { CELL_SIMPLE, CELL_GRU, CELL_LSTM };

struct recurrent {
    struct keras_emit *k;
    const cJSON *config;
    enum cell cell;
    int64_t units, steps;
    int weight; /* of the state: gates H,H */
    int bias;   /* GRU, reset_after: of the state; -1: none */
    bool reset_after;
    int input;             /* N,T,gates H: products with the inputs */
    int mask;              /* N,T or -1 */
    int state[MAX_STATES]; /* h, c; -1: zero */
    int output;            /* of the last step; -1: zero */
};

int keras_recurrent_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable_in(l, "cell", "kernel", true);
    keras_add_variable_in(l, "cell", "recurrent_kernel", true);
    if (keras_bool(k, l->config, "use_bias", true))
        keras_add_variable_in(l, "cell", "bias", true);
    return k->status;
}

/* ---- nodes --------------------------------------------------------- */

static int binary(struct keras_emit *k, enum kern_binary_kind kind, int a,
                  int b)
{
    const struct keras_value x = {a, 0, false};

    return keras_binary(k, "step", x, b, kind).value;
}

static int add(struct keras_emit *k, int a, int b)
{
    return a < 0 ? b : b < 0 ? a : binary(k, KERN_ADD, a, b);
}

/* A product; of nothing, which is zero, nothing. */
static int times(struct keras_emit *k, int a, int b)
{
    return a < 0 || b < 0 ? -1 : binary(k, KERN_MUL, a, b);
}

static int dense(struct keras_emit *k, int x, int weight, int bias)
{
    const int in[3] = {x, weight, bias};

    return keras_node(k, GRAPH_DENSE, "state", in, bias >= 0 ? 3 : 2, NULL);
}

static int apply(const struct recurrent *r, const char *key, const char *usual,
                 int x)
{
    const cJSON *c = json_member(r->config, key);
    const struct keras_value v = {x, 2, false};

    return c == NULL ? keras_activation_word(r->k, v, usual).value
                     : keras_activation(r->k, v, c).value;
}

static int activation(const struct recurrent *r, int x)
{
    return apply(r, "activation", "tanh", x);
}

static int gate_activation(const struct recurrent *r, int x)
{
    return apply(r, "recurrent_activation",
                 r->k->major < 3 ? "hard_sigmoid" : "sigmoid", x);
}

static int gate(const struct recurrent *r, int x, int axis, int g)
{
    return keras_slice(r->k, "gate", x, axis, g * r->units, (g + 1) * r->units);
}

/* ---- cells --------------------------------------------------------- */

/* a z + (1 - z) b */
static int mix(struct keras_emit *k, int z, int a, int b)
{
    const int rest = keras_unary(k, "rest", z, KERN_LINEAR, -1, 1);

    return add(k, times(k, z, a), binary(k, KERN_MUL, rest, b));
}

static int step_gru(struct recurrent *r, int x)
{
    struct keras_emit *k = r->k;
    const int h = r->state[0];
    int part[3], inner[3] = {-1, -1, -1}, z, reset;

    for (int g = 0; g < 3; g++)
        part[g] = gate(r, x, 1, g);
    if (r->reset_after && (h >= 0 || r->bias >= 0)) {
        const int all = h >= 0 ? dense(k, h, r->weight, r->bias) : r->bias;

        for (int g = 0; g < 3; g++)
            inner[g] = gate(r, all, h >= 0 ? 1 : 0, g);
    } else if (h >= 0) {
        for (int g = 0; g < 2; g++)
            inner[g] = dense(k, h, gate(r, r->weight, 0, g), -1);
    }
    z = gate_activation(r, add(k, part[0], inner[0]));
    reset = gate_activation(r, add(k, part[1], inner[1]));
    if (r->reset_after)
        inner[2] = times(k, reset, inner[2]);
    else if (h >= 0)
        inner[2] = dense(k, times(k, reset, h), gate(r, r->weight, 0, 2), -1);
    return mix(k, z, h, activation(r, add(k, part[2], inner[2])));
}

/* The LSTM's gates x, along axis 1, become its states. */
static void step_gates(struct recurrent *r, int x, int *state)
{
    struct keras_emit *k = r->k;
    int g[GATES];

    for (int i = 0; i < GATES; i++)
        g[i] = gate(r, x, 1, i);
    state[1] =
        add(k, times(k, gate_activation(r, g[1]), r->state[1]),
            binary(k, KERN_MUL, gate_activation(r, g[0]), activation(r, g[2])));
    state[0] =
        binary(k, KERN_MUL, gate_activation(r, g[3]), activation(r, state[1]));
}

/* The value where the mask shows the step, else the other (-1: 0). */
static int keep(struct recurrent *r, int shown, int value, int other)
{
    int in[3] = {shown, value, other};

    if (shown < 0)
        return value;
    if (other < 0)
        in[2] = keras_constant(r->k, "zero", keras_filled(1, 0));
    return keras_node(r->k, GRAPH_WHERE, "masked", in, 3, NULL);
}

static int step(struct recurrent *r, int64_t t)
{
    static const int64_t one = 1;
    struct keras_emit *k = r->k;
    int x = keras_slice(k, "step", r->input, 1, t, t + 1), shown = -1;
    int state[MAX_STATES] = {-1, -1};

    x = keras_dims(k, GRAPH_SQUEEZE, "step", x, 1, &one);
    if (r->mask >= 0)
        shown = keras_slice(k, "mask", r->mask, 1, t, t + 1);
    if (r->cell == CELL_GRU) {
        state[0] = step_gru(r, x);
    } else {
        if (r->state[0] >= 0)
            x = binary(k, KERN_ADD, x, dense(k, r->state[0], r->weight, -1));
        if (r->cell == CELL_LSTM)
            step_gates(r, x, state);
        else
            state[0] = activation(r, x);
    }
    r->output = keep(r, shown, state[0],
                     keras_bool(k, r->config, "zero_output_for_mask", false)
                         ? -1
                         : r->output);
    for (int i = 0; i < MAX_STATES; i++)
        if (state[i] >= 0)
            r->state[i] = keep(r, shown, state[i], r->state[i]);
    return r->output;
}

/* ---- one direction ------------------------------------------------- */

/* Row i of GRU's two biases, or the only one. */
static int bias_row(struct keras_emit *k, const struct constant *c, int row,
                    const char *suffix)
{
    struct constant *b;
    int64_t n;

    if (c->rank == 1)
        return row == 0 ? keras_constant(k, suffix,
                                         constant_ref((struct constant *)c))
                        : -1;
    n = c->dim[1];
    b = constant_new(INFER_F32, 1, &n);
    if (b != NULL)
        memcpy(b->data, c->data + (size_t)(row * n) * sizeof(float),
               (size_t)n * sizeof(float));
    return keras_constant(k, suffix, b);
}

static const struct constant *
bias_of(struct keras_emit *k, const struct keras_layer *l, int64_t gates)
{
    const int i = keras_variable(l, "bias");
    const struct constant *c = i < 0 ? NULL : l->variable[i].data;

    if (c != NULL && c->dim[c->rank - 1] == gates &&
        (c->rank == 1 || (c->rank == 2 && c->dim[0] == 2)))
        return c;
    if (i >= 0)
        keras_fail(k, INFER_EFORMAT, "its bias does not fit");
    return NULL;
}

static bool refuse_options(struct keras_emit *k, const struct keras_layer *l)
{
    static const char *const words[] = {"stateful", "time_major"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (keras_bool(k, l->config, words[i], false))
            keras_fail(k, INFER_EUNSUPPORTED, "%s", words[i]);
    return k->status == 0;
}

/* All but the states. */
static bool start(struct keras_emit *k, struct keras_layer *l,
                  struct keras_value x, struct recurrent *r)
{
    static const int gates[] = {1, 3, 4};
    const struct constant *b;
    int64_t dim[INFER_MAX_RANK], n;
    int w;

    *r = (struct recurrent){.k = k,
                            .config = l->config,
                            .mask = -1,
                            .bias = -1,
                            .output = -1,
                            .state = {-1, -1}};
    r->cell = (enum cell)l->class->arg;
    r->units = keras_int(k, l->config, "units", 1, 1 << 24, 1);
    r->reset_after = keras_bool(k, l->config, "reset_after", false);
    n = gates[r->cell] * r->units;
    if (!refuse_options(k, l))
        return false;
    if (x.rank != 3) {
        keras_fail(k, INFER_EFORMAT, "its input has %d dimensions, 3 are due",
                   x.rank);
        return false;
    }
    x = keras_plain(k, x);
    if (!keras_sizes(k, x, 1, dim))
        return false;
    r->steps = dim[1];
    if (r->steps > GRAPH_MAX_INPUTS) {
        keras_fail(k, INFER_EUNSUPPORTED, "%lld steps; up to %d are unrolled",
                   (long long)r->steps, GRAPH_MAX_INPUTS);
        return false;
    }
    b = bias_of(k, l, n);
    w = keras_weight(k, l, 0, "weight", keras_dense_kernel);
    r->weight = keras_weight(k, l, 1, "recurrent", keras_dense_kernel);
    if (k->status < 0)
        return false;
    if (k->g->value[w].data->dim[0] != n ||
        k->g->value[w].data->dim[1] != dim[2] ||
        k->g->value[r->weight].data->dim[0] != n ||
        k->g->value[r->weight].data->dim[1] != r->units) {
        keras_fail(k, INFER_EFORMAT, "its kernels do not fit its input");
        return false;
    }
    r->input = dense(k, x.value, w, b ? bias_row(k, b, 0, "bias") : -1);
    if (b != NULL && b->rank == 2)
        r->bias = bias_row(k, b, 1, "recurrent_bias");
    return k->status == 0;
}

/* All steps: N,T,H in the order in which they are taken, or the last, N,H. */
static struct keras_value run(struct recurrent *r, bool backwards,
                              bool sequences)
{
    static const int64_t one = 1;
    struct keras_emit *k = r->k;
    int *y = calloc((size_t)r->steps, sizeof *y), value;

    if (y == NULL)
        return keras_fail(k, INFER_EMEMORY, "no memory for the steps");
    for (int64_t i = 0; i < r->steps && k->status == 0; i++) {
        y[i] = step(r, backwards ? r->steps - 1 - i : i);
        if (sequences)
            y[i] = keras_dims(k, GRAPH_UNSQUEEZE, "step", y[i], 1, &one);
    }
    value = k->status < 0 ? k->status
            : sequences   ? keras_concat(k, "", y, (int)r->steps, 1)
                          : y[r->steps - 1];
    free(y);
    return (struct keras_value){value, sequences ? 3 : 2, false};
}

/* The arguments of a call: a sequence, states, a mask. */
struct arguments {
    int state[2 * MAX_STATES], n_states;
    int mask;
};

static void read_arguments(struct keras_emit *k, const struct keras_value *in,
                           int n, struct arguments *a)
{
    *a = (struct arguments){.mask = -1};
    for (int i = 1; i < n && k->status == 0; i++) {
        const char *word = k->call->in[i].word;

        if (word != NULL && strcmp(word, "mask") == 0)
            a->mask = keras_plain(k, in[i]).value;
        else if (word != NULL && strcmp(word, "initial_state") != 0)
            keras_fail(k, INFER_EUNSUPPORTED, "argument '%s'", word);
        else if (a->n_states == 2 * MAX_STATES || in[i].rank != 2)
            keras_fail(k, INFER_EFORMAT, "its initial states do not fit");
        else
            a->state[a->n_states++] = in[i].value;
    }
}

static void give_states(struct keras_emit *k, const struct recurrent *r)
{
    for (int i = 0; i < (r->cell == CELL_LSTM ? 2 : 1); i++)
        k->more[k->n_more++] = (struct keras_value){r->state[i], 2, false};
}

static bool flag(struct keras_emit *k, const struct keras_layer *l,
                 const char *name)
{
    return keras_bool(k, l->config, name, false);
}

struct keras_value keras_recurrent(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct arguments a;
    struct recurrent r;
    struct keras_value y;

    read_arguments(k, in, n, &a);
    if (!start(k, l, in[0], &r))
        return keras_failed(k);
    if (a.n_states != 0 && a.n_states != (r.cell == CELL_LSTM ? 2 : 1))
        return keras_fail(k, INFER_EFORMAT, "%d initial states", a.n_states);
    for (int i = 0; i < a.n_states; i++)
        r.state[i] = a.state[i];
    r.mask = a.mask;
    y = run(&r, flag(k, l, "go_backwards"), flag(k, l, "return_sequences"));
    if (flag(k, l, "return_state"))
        give_states(k, &r);
    return y;
}

/* ---- Bidirectional ------------------------------------------------- */

/* The steps of N,T,H in the other order. */
static int reversed(struct keras_emit *k, int x)
{
    int node;
    const int y = keras_node(k, GRAPH_SLICE, "reversed", &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.slice = (struct graph_slice){.n_axes = 1,
                                                           .axis = {1},
                                                           .begin = {INT64_MAX},
                                                           .end = {INT64_MIN},
                                                           .step = {-1}};
    return y;
}

static struct keras_value merge(struct keras_emit *k, const char *mode,
                                const struct keras_value *y)
{
    const int both[2] = {y[0].value, y[1].value};
    struct keras_value x = y[0];

    if (strcmp(mode, "concat") == 0) {
        x.value = keras_concat(k, "", both, 2, x.rank - 1);
        return x;
    }
    if (strcmp(mode, "sum") != 0 && strcmp(mode, "mul") != 0 &&
        strcmp(mode, "ave") != 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "merge_mode '%s'", mode);
    x = keras_binary(k, "merge", x, both[1],
                     strcmp(mode, "mul") == 0 ? KERN_MUL : KERN_ADD);
    if (strcmp(mode, "ave") == 0)
        x.value = keras_unary(k, "", x.value, KERN_LINEAR, 0.5f, 0);
    return x;
}

struct keras_value keras_bidirectional(struct keras_emit *k,
                                       struct keras_layer *l,
                                       const struct keras_value *in, int n)
{
    const char *mode = json_string(l->config, "merge_mode");
    struct keras_value y[2];
    struct arguments a;
    struct recurrent r[2];

    read_arguments(k, in, n, &a);
    for (int d = 0; d < 2 && k->status == 0; d++) {
        struct keras_layer *inner = &l->inner[d];
        const bool sequences = flag(k, inner, "return_sequences");
        int states;

        if (inner->class == NULL || inner->class->emit != keras_recurrent)
            return keras_fail(k, INFER_EUNSUPPORTED, "a layer of class %s",
                              inner->class_name);
        k->layer = inner;
        if (!start(k, inner, in[0], &r[d]))
            break;
        states = r[d].cell == CELL_LSTM ? 2 : 1;
        if (a.n_states != 0 && a.n_states != 2 * states)
            keras_fail(k, INFER_EFORMAT, "%d initial states", a.n_states);
        for (int i = 0; i < states && a.n_states > 0; i++)
            r[d].state[i] = a.state[d * states + i];
        r[d].mask = a.mask;
        y[d] = run(&r[d], d == 1, sequences);
        if (d == 1 && sequences)
            y[d].value = reversed(k, y[d].value);
        k->layer = l;
    }
    k->layer = l;
    if (k->status < 0)
        return keras_failed(k);
    if (mode == NULL) /* both, one after the other */
        k->more[k->n_more++] = y[1];
    if (flag(k, &l->inner[0], "return_state"))
        for (int d = 0; d < 2; d++)
            give_states(k, &r[d]);
    return mode == NULL ? y[0] : merge(k, mode, y);
}

/* ---- ConvLSTM ------------------------------------------------------ */

static struct graph_conv geometry(struct keras_emit *k,
                                  const struct keras_layer *l, bool state)
{
    struct graph_conv c = {.conv.groups = 1, .auto_pad = GRAPH_PAD_SAME_UPPER};

    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        c.conv.stride[i] = c.conv.dilation[i] = 1;
    if (state)
        return c;
    if (keras_padding(k, l->config) == KERAS_VALID)
        c.auto_pad = GRAPH_PAD_EXPLICIT;
    keras_ints(k, l->config, "strides", l->class->arg, 1, INT32_MAX, 1,
               c.conv.stride);
    keras_ints(k, l->config, "dilation_rate", l->class->arg, 1, INT32_MAX, 1,
               c.conv.dilation);
    return c;
}

static int conv(struct keras_emit *k, int x, int weight, int bias,
                const struct graph_conv *c)
{
    const int in[3] = {x, weight, bias};
    int node;
    const int y =
        keras_node(k, GRAPH_CONV, "conv", in, bias >= 0 ? 3 : 2, &node);

    if (y >= 0)
        k->g->node[node].attr.conv = *c;
    return y;
}

/* Channels are dimension 1 of every step, as gates are of an LSTM's. */
static struct keras_value conv_steps(struct keras_emit *k,
                                     struct keras_layer *l, struct recurrent *r,
                                     struct keras_value x)
{
    static const int64_t time = 2;
    const struct graph_conv of_input = geometry(k, l, false);
    const struct graph_conv of_state = geometry(k, l, true);
    const bool sequences = flag(k, l, "return_sequences");
    const int w = keras_weight(k, l, 0, "weight", keras_conv_kernel);
    const int u = keras_weight(k, l, 1, "recurrent", keras_conv_kernel);
    const int b = l->n_variables > 2 ? keras_weight(k, l, 2, "bias", NULL) : -1;
    int *y = calloc((size_t)r->steps, sizeof *y), v;

    if (y == NULL)
        return keras_fail(k, INFER_EMEMORY, "no memory for the steps");
    for (int64_t i = 0; i < r->steps && k->status == 0; i++) {
        const int64_t t = flag(k, l, "go_backwards") ? r->steps - 1 - i : i;

        v = keras_slice(k, "step", x.value, 2, t, t + 1);
        v = keras_dims(k, GRAPH_SQUEEZE, "step", v, 1, &time);
        v = conv(k, v, w, b, &of_input);
        if (r->state[0] >= 0)
            v = binary(k, KERN_ADD, v, conv(k, r->state[0], u, -1, &of_state));
        step_gates(r, v, r->state);
        y[i] = !sequences ? r->state[0]
                          : keras_dims(k, GRAPH_UNSQUEEZE, "step", r->state[0],
                                       1, &time);
    }
    v = k->status < 0 ? k->status
        : sequences   ? keras_concat(k, "", y, (int)r->steps, 2)
                      : y[r->steps - 1];
    free(y);
    return (struct keras_value){v, x.rank - !sequences, true};
}

struct keras_value keras_conv_lstm(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct recurrent r = {
        .k = k, .config = l->config, .mask = -1, .state = {-1, -1}};
    struct keras_value x, y;
    int64_t dim[INFER_MAX_RANK];

    (void)n;
    if (in[0].rank != l->class->arg + 3)
        return keras_fail(k, INFER_EFORMAT,
                          "its input has %d dimensions, %d are due", in[0].rank,
                          l->class->arg + 3);
    if (!keras_channels_last(k, l->config))
        return keras_fail(k, INFER_EUNSUPPORTED, "channels_first");
    x = keras_swapped(k, in[0]);
    r.cell = CELL_LSTM;
    r.units = keras_int(k, l->config, "filters", 1, 1 << 24, 1);
    if (!refuse_options(k, l) || !keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    r.steps = dim[2];
    if (r.steps > GRAPH_MAX_INPUTS)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "%lld steps; up to %d are unrolled",
                          (long long)r.steps, GRAPH_MAX_INPUTS);
    y = conv_steps(k, l, &r, x);
    if (flag(k, l, "return_state"))
        for (int i = 0; i < 2; i++)
            k->more[k->n_more++] =
                (struct keras_value){r.state[i], x.rank - 1, true};
    return y;
}
