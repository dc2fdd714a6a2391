/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of inputs, which the file does not state.
 *
 * The program is run without an importer, until it needs a size.  An input that
 * goes into a convolution has its rank and the channels of its weights; batch,
 * height and width are free.  One that chooses entries is of integers, one that
 * says which is of truth values.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

/* Steps of the runs for all inputs. */
#define GUESS_STEPS ((size_t)8 * TS_MAX_STEPS)
/* Steps of one run, looked at where it tells an operator. */
#define MAX_STEPS (1 << 16)

/* The operator without the underscore of those that write. */
static bool is_op(struct pb_span name, const char *text)
{
    const size_t n = strlen(text);

    return (name.bytes == n || (name.bytes == n + 1 && name.data[n] == '_')) &&
           memcmp(name.data, text, n) == 0;
}

/* Operators whose result has the rank and the channels of the first input. */
static bool keeps_channels(struct pb_span op)
{
    static const char *const names[] = {"add",
                                        "sub",
                                        "mul",
                                        "div",
                                        "to",
                                        "contiguous",
                                        "clone",
                                        "detach",
                                        "relu",
                                        "batch_norm",
                                        "instance_norm",
                                        "clamp",
                                        "pad",
                                        "max_pool2d",
                                        "avg_pool2d",
                                        "constant_pad_nd",
                                        "dropout",
                                        "alias",
                                        "silu",
                                        "upsample_nearest2d",
                                        "group_norm",
                                        "reflection_pad2d"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_op(op, names[i]))
            return true;
    return false;
}

int ts_stored_sizes(const struct ts_run *r, const struct ts_value *v,
                    int64_t *dim)
{
    const struct pickle *p = &r->archive->pickle[v->pickle];
    const struct pickle_node *size;

    if (v->kind != TSV_TENSOR || v->node == 0)
        return -1;
    size = pickle_at(p, pickle_at(p, v->node - 1)->u.item[PICKLE_TENSOR_SIZE]);
    if (size->count > INFER_MAX_RANK)
        return -1;
    for (uint32_t i = 0; i < size->count; i++)
        dim[i] = pickle_at(p, size->u.item[i])->u.integer;
    return (int)size->count;
}

static void take_channels(struct ts_run *r, int n, const struct ts_arg *arg,
                          int groups_at, bool transposed)
{
    struct aten_input *in = r->guess->input;
    int64_t dim[INFER_MAX_RANK], groups = 1;
    const int rank = n > 1 ? ts_stored_sizes(r, &arg[1].value, dim) : -1;

    if (n > groups_at && arg[groups_at].value.kind == TSV_INT)
        groups = arg[groups_at].value.i;
    if (rank < 3 || rank > 5 || groups < 1 || groups > 1 << 20 || dim[1] < 1 ||
        dim[1] > 1 << 20 || dim[0] < 1 || dim[0] > 1 << 20)
        return;
    in->rank = rank;
    for (int i = 0; i < rank; i++)
        in->dim[i] = -1;
    in->dim[1] = transposed ? dim[0] : dim[1] * groups;
}

/* Whether argument i of the operator is of integers: indices and labels. */
static bool is_index(struct pb_span op, int i)
{
    static const struct {
        const char *op;
        int at;
    } places[] = {
        {"embedding", 1},      {"embedding_bag", 1}, {"embedding_bag", 2},
        {"gather", 2},         {"scatter", 2},       {"scatter_add", 2},
        {"scatter_reduce", 2}, {"index_select", 2},  {"index_fill", 2},
        {"index_add", 2},      {"index_copy", 2},    {"take", 1},
        {"take_along_dim", 1}, {"one_hot", 0},       {"nll_loss_nd", 1}};

    for (size_t k = 0; k < sizeof places / sizeof *places; k++)
        if (places[k].at == i && is_op(op, places[k].op))
            return true;
    return false;
}

/* Whether it is of truth values: PyTorch takes no others there. */
static bool is_truth(struct pb_span op, int i)
{
    return (i == 0 && is_op(op, "where")) ||
           (i == 1 && is_op(op, "masked_fill"));
}

/* Operators of which the first argument is of floats. */
static bool wants_floats(struct pb_span op)
{
    static const char *const names[] = {"conv1d",
                                        "conv2d",
                                        "conv3d",
                                        "_convolution",
                                        "linear",
                                        "batch_norm",
                                        "group_norm",
                                        "instance_norm",
                                        "layer_norm",
                                        "softmax",
                                        "log_softmax",
                                        "gelu",
                                        "silu",
                                        "conv_transpose1d",
                                        "conv_transpose2d",
                                        "conv_transpose3d",
                                        "avg_pool2d",
                                        "adaptive_avg_pool2d"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_op(op, names[i]))
            return true;
    return false;
}

/* Of those that keep channels: whether the result may have another type. */
static bool may_convert(struct pb_span op)
{
    return is_op(op, "add") || is_op(op, "sub") || is_op(op, "mul") ||
           is_op(op, "div") || is_op(op, "to");
}

static void take_type(struct ts_guess *g, enum infer_dtype dtype)
{
    if (g->input->assumed)
        g->input->dtype = dtype;
    g->input->assumed = false;
    g->known = true;
}

void ts_guess_step(struct ts_run *r, struct pb_span op, int n,
                   const struct ts_arg *arg, const struct ts_value *out)
{
    struct ts_guess *g = r->guess;
    const struct ts_value *x = n > 0 ? &arg[0].value : NULL;
    const bool reads = x && ts_is_value(x) && x->text.data == g->now.data;

    for (int i = 0; i < n && i < 3; i++)
        if (ts_is_value(&arg[i].value) &&
            arg[i].value.text.data == g->now.data) {
            if (is_index(op, i))
                take_type(g, INFER_I64);
            else if (is_truth(op, i))
                take_type(g, INFER_BOOL);
        }
    if (r->steps > MAX_STEPS)
        g->known = true;
    if (!reads)
        return;
    if (wants_floats(op) && !g->other_type)
        g->input->assumed = false;
    g->other_type |= may_convert(op);
    if (keeps_channels(op)) {
        g->now = out[0].text;
        return;
    }
    if (is_op(op, "conv1d") || is_op(op, "conv2d") || is_op(op, "conv3d"))
        take_channels(r, n, arg, 6, false);
    else if (is_op(op, "_convolution"))
        take_channels(r, n, arg, 8,
                      n > 6 && arg[6].value.kind == TSV_BOOL && arg[6].value.i);
    g->known = g->input->rank > 0;
}

int ts_guess_inputs(struct ts_archive *archive, struct aten_program *program)
{
    size_t steps = 0;
    int rc = 0;

    /* Each input is a run: all together may take GUESS_STEPS. */
    for (int i = 0;
         i < program->n_inputs && rc != INFER_EMEMORY && steps < GUESS_STEPS;
         i++) {
        struct ts_guess guess = {.now = program->input[i].name,
                                 .input = &program->input[i]};
        struct onnx_arena arena = {NULL};
        struct aten_program copy = *program;
        struct infer_error err;
        struct ts_run run = {
            .program = &copy, .guess = &guess, .err = &err, .arena = &arena};

        error_clear(&err);
        rc = ts_run_open(&run, archive);
        if (rc == 0)
            rc = ts_run_forward(&run);
        steps += run.steps;
        ts_run_close(&run);
        onnx_arena_clear(&arena);
    }
    return rc == INFER_EMEMORY ? rc : 0;
}
