/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of torch.NAME and ops.SPACE.NAME.
 *
 * The rows of weights/aten/ops.def hold for all overloads of an operator, and
 * tell them apart by the names of parameters.  A program of TorchScript gives
 * most arguments by position: those whose overloads differ get their names
 * here.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

#define MAX_ARGS    64
#define MAX_OUTPUTS 4096

struct call {
    struct pb_span op;
    struct ts_arg arg[MAX_ARGS];
    int n;
};

static struct pb_span word(const char *text)
{
    return (struct pb_span){(unsigned char *)text, strlen(text)};
}

/* The name with or without the underscore of operators that write. */
static bool is_op(struct pb_span name, const char *text)
{
    const size_t n = strlen(text);

    return (name.bytes == n || (name.bytes == n + 1 && name.data[n] == '_')) &&
           memcmp(name.data, text, n) == 0;
}

static bool starts(struct pb_span name, const char *text)
{
    return name.bytes >= strlen(text) &&
           memcmp(name.data, text, strlen(text)) == 0;
}

static bool is_one_of(struct pb_span name, const char *const *list)
{
    for (; *list; list++)
        if (is_op(name, *list))
            return true;
    return false;
}

/* Argument i by position, or NULL. */
static const struct ts_value *positional(const struct call *c, int i)
{
    return i < c->n && !c->arg[i].name.bytes ? &c->arg[i].value : NULL;
}

static bool is_kind(const struct call *c, int i, enum ts_kind kind)
{
    return positional(c, i) && positional(c, i)->kind == kind;
}

/* ---- overloads ----------------------------------------------------- */

/* to(x, dtype, ...), to(x, device, dtype, ...), to(x, other, ...). */
static void arrange_to(struct call *c)
{
    int at = 1;

    if (is_kind(c, at, TSV_TENSOR)) {
        c->op = word("type_as");
        c->n = 2;
        return;
    }
    if (is_kind(c, at, TSV_DEVICE) || is_kind(c, at, TSV_NONE))
        at++;
    if (is_kind(c, at, TSV_INT)) {
        c->arg[1].value = c->arg[at].value;
        c->arg[1].name = word("dtype");
        c->n = 2;
        return;
    }
    for (at = 1; at < c->n; at++)
        if (pb_span_is(c->arg[at].name, "dtype"))
            break;
    if (at < c->n)
        c->arg[1] = c->arg[at];
    c->n = at < c->n ? 2 : 1;
}

/* upsample_*(input, output_size, [align_corners,] scale_factors): the list of
 * factors.  The other form has a factor for each axis. */
static void arrange_upsample(struct call *c)
{
    const bool nearest =
        starts(c->op, "upsample_nearest") || starts(c->op, "_upsample_nearest");
    const int at = nearest ? 2 : 3;

    if (c->n == at + 1 && !is_kind(c, at, TSV_FLOAT))
        c->arg[at].name = word("scale_factors");
}

static int arrange(struct ts_run *r, struct call *c)
{
    static const char *const spread[] = {"std", "var", "std_mean", "var_mean",
                                         NULL};
    static const char *const cells[] = {"gru", "rnn_tanh", "rnn_relu", NULL};

    if (is_op(c->op, "to"))
        arrange_to(c);
    else if (starts(c->op, "upsample_") || starts(c->op, "_upsample_"))
        arrange_upsample(c);
    else if (is_op(c->op, "arange") && c->n > 0 && positional(c, 0) &&
             !positional(c, 1))
        c->arg[0].name = word("end");
    else if ((is_op(c->op, "max") || is_op(c->op, "min")) &&
             is_kind(c, 1, TSV_TENSOR))
        c->arg[1].name = word("other");
    else if (is_one_of(c->op, spread) && is_kind(c, 1, TSV_BOOL))
        c->arg[1].name = word("unbiased");
    else if (is_op(c->op, "scatter") && positional(c, 3) &&
             !is_kind(c, 3, TSV_TENSOR))
        c->arg[3].name = word("value");
    else if (is_op(c->op, "tensor_split") && positional(c, 1) &&
             ts_is_list(positional(c, 1)))
        c->arg[1].name = word("indices");
    else if ((is_op(c->op, "lstm") && is_kind(c, 1, TSV_TENSOR)) ||
             (is_one_of(c->op, cells) && is_kind(c, 2, TSV_TENSOR)))
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "packed sequences are not supported");
    else if (is_op(c->op, "view") && is_kind(c, 1, TSV_INT))
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "torch.view as another type is not supported");
    else if (is_op(c->op, "_softmax") || is_op(c->op, "_log_softmax"))
        c->n = c->n < 2 ? c->n : 2; /* half_to_float */
    return 0;
}

/* ---- outputs ------------------------------------------------------- */

/* Operators that give several tensors, always. */
static const struct {
    const char *name;
    int n;
} tuples[] = {{"sort", 2},
              {"topk", 2},
              {"std_mean", 2},
              {"var_mean", 2},
              {"adaptive_max_pool1d", 2},
              {"adaptive_max_pool2d", 2},
              {"adaptive_max_pool3d", 2},
              {"max_pool1d_with_indices", 2},
              {"max_pool2d_with_indices", 2},
              {"max_pool3d_with_indices", 2},
              {"fractional_max_pool2d", 2},
              {"fractional_max_pool3d", 2},
              {"_fused_rms_norm", 2},
              {"log_sigmoid_forward", 2},
              {"native_dropout", 2},
              {"native_batch_norm", 3},
              {"native_layer_norm", 3},
              {"native_group_norm", 3},
              {"_native_batch_norm_legit", 3},
              {"_native_batch_norm_legit_no_training", 3},
              {"rrelu_with_noise_functional", 2},
              {"embedding_bag", 4},
              {"_embedding_bag", 4},
              {"lstm", 3},
              {"lstm_cell", 2},
              {"gru", 2},
              {"rnn_tanh", 2},
              {"rnn_relu", 2},
              {"median", 2},
              {"kthvalue", 2},
              {"mode", 2},
              {"cummax", 2},
              {"cummin", 2},
              {"aminmax", 2},
              {"frexp", 2},
              {"slogdet", 2},
              {"_unique2", 3},
              {"unique_consecutive", 3},
              {"_weight_norm_interface", 2},
              {"_native_multi_head_attention", 2}};

/* How many tensors it gives as a tuple; 0: one tensor. */
static int tuple_of(const struct call *c)
{
    static const char *const with_dim[] = {"max", "min", "median", "nanmedian",
                                           NULL};

    if (is_one_of(c->op, with_dim)) {
        bool dim = is_kind(c, 1, TSV_INT);

        for (int i = 0; i < c->n; i++)
            dim |= pb_span_is(c->arg[i].name, "dim");
        return dim ? 2 : 0;
    }
    for (size_t i = 0; i < sizeof tuples / sizeof *tuples; i++)
        if (is_op(c->op, tuples[i].name))
            return tuples[i].n;
    return 0;
}

/* The argument of this name or place, or NULL. */
static const struct ts_value *argument(const struct call *c, const char *name,
                                       int i)
{
    for (int k = 0; k < c->n; k++)
        if (pb_span_is(c->arg[k].name, name))
            return &c->arg[k].value;
    return positional(c, i);
}

/* Entries of the dimension that is split; -1 where it is free. */
static int split_size(struct ts_run *r, const struct call *c, int at,
                      int64_t *out)
{
    const struct ts_value *dim = argument(c, "dim", at);
    const struct ts_value *x = argument(c, "self", 0);

    if (!x || (dim && dim->kind != TSV_INT))
        return ts_fail(r, INFER_EUNSUPPORTED, "a dimension that is computed");
    return ts_dim(r, x, dim ? dim->i : 0, out);
}

static int count_of(struct ts_run *r, const struct ts_value *v, int64_t *out)
{
    if (!v || v->kind != TSV_INT || v->i < 1)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "a number of parts that is computed");
    *out = v->i;
    return 0;
}

/* Parts of `size` entries: as many as there are, or `most`. */
static int parts(struct ts_run *r, int64_t entries, int64_t size, int64_t most,
                 int64_t *out)
{
    if (entries < 0 && most == 0)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "a split of a free size: how many parts there are "
                       "depends on it");
    *out = entries < 0 ? most : entries / size + (entries % size != 0);
    if (*out < 1)
        *out = 1;
    return 0;
}

/* How many tensors of a list it gives; -1: no list. */
static int list_of(struct ts_run *r, const struct call *c, int64_t *out)
{
    static const char *const splits[] = {
        "split",      "split_with_sizes", "unsafe_split",
        "split_copy", "hsplit",           "unsafe_split_with_sizes",
        "vsplit",     "dsplit",           "tensor_split",
        NULL};
    const struct ts_value *how = argument(c, "indices", 1);
    int64_t entries, n = 1;
    int rc;

    *out = -1;
    if (is_op(c->op, "meshgrid") || is_op(c->op, "broadcast_tensors")) {
        if (positional(c, 0) && ts_is_list(positional(c, 0)))
            *out = positional(c, 0)->list->n;
        return 0;
    }
    if (is_op(c->op, "unbind") || is_op(c->op, "unbind_copy")) {
        rc = split_size(r, c, 1, &entries);
        return rc < 0 ? rc : parts(r, entries, 1, 0, out);
    }
    if (is_op(c->op, "chunk") || is_op(c->op, "unsafe_chunk")) {
        if ((rc = split_size(r, c, 2, &entries)) < 0 ||
            (rc = count_of(r, how, &n)) < 0)
            return rc;
        return parts(r, entries,
                     (entries + n - 1) / n > 0 ? (entries + n - 1) / n : 1, n,
                     out);
    }
    if (!is_one_of(c->op, splits))
        return 0;
    if (how && ts_is_list(how)) {
        *out = how->list->n + (is_op(c->op, "tensor_split") ? 1 : 0);
        return 0;
    }
    if ((rc = split_size(r, c, 2, &entries)) < 0 ||
        (rc = count_of(r, how, &n)) < 0)
        return rc;
    if (is_op(c->op, "tensor_split")) {
        *out = n;
        return 0;
    }
    return parts(r, entries, n, 0, out);
}

/* ---- numbers ------------------------------------------------------- */

/* True where all arguments are numbers, and one is of the graph. */
static bool on_numbers(const struct call *c)
{
    bool computed = false;

    for (int i = 0; i < c->n; i++) {
        if (!ts_is_known(&c->arg[i].value) &&
            c->arg[i].value.kind != TSV_NUMBER)
            return false;
        computed |= c->arg[i].value.kind == TSV_NUMBER;
    }
    return computed;
}

/* Names of the language for operators on numbers. */
static struct pb_span number_op(struct pb_span op)
{
    return is_op(op, "div")         ? word("truediv")
           : is_op(op, "remainder") ? word("mod")
           : is_op(op, "min")       ? word("sym_min")
           : is_op(op, "max")       ? word("sym_max")
                                    : op;
}

/* ---- the call ------------------------------------------------------ */

/* A space of operators that PyTorch itself does not have. */
static int other_space(struct ts_run *r, struct pb_span name, struct call *c)
{
    static const char space[] = "ops.torchvision.";
    static const char *const names[] = {"deform_conv2d", "nms", "roi_align",
                                        NULL};

    if (starts(name, space)) {
        const size_t n = sizeof space - 1;

        c->op = (struct pb_span){name.data + n, name.bytes - n};
        if (is_one_of(c->op, names))
            return 0;
    }
    return ts_fail(r, INFER_EUNSUPPORTED, "%.*s is not supported",
                   PB_TEXT(name, 128));
}

static int open_call(struct ts_run *r, struct pb_span name, int n,
                     const struct ts_arg *arg, struct call *c)
{
    static const char *const spaces[] = {"torch.", "ops.aten.", "ops.prim."};
    size_t prefix = 0;

    if (n > MAX_ARGS)
        return ts_fail(r, INFER_EUNSUPPORTED, "%d arguments", n);
    c->n = n;
    if (n > 0)
        memcpy(c->arg, arg, (size_t)n * sizeof *arg);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces && !prefix; i++)
        if (starts(name, spaces[i]))
            prefix = strlen(spaces[i]);
    c->op = (struct pb_span){name.data + prefix, name.bytes - prefix};
    if (!prefix || memchr(c->op.data, '.', c->op.bytes))
        return other_space(r, name, c);
    return 0;
}

static int tell_list(struct ts_run *r, const struct call *c, int64_t count,
                     struct ts_value *out)
{
    int rc;

    if (count > MAX_OUTPUTS)
        return ts_fail(r, INFER_EUNSUPPORTED, "%lld parts", (long long)count);
    rc = ts_new_list(r, TSV_LIST, (int)count, out);
    return rc < 0 ? rc
                  : ts_tell(r, c->op, c->n, c->arg, (int)count, NULL,
                            out->list->item);
}

static int tell_tuple(struct ts_run *r, const struct call *c, int count,
                      int n_unread, const bool *unread, struct ts_value *out)
{
    const int rc = ts_new_list(r, TSV_TUPLE, count, out);

    return rc < 0 ? rc
                  : ts_tell(r, c->op, c->n, c->arg, count,
                            n_unread == count ? unread : NULL, out->list->item);
}

/* ops.prepacked.NAME(x, layer): the layers that optimize_for_mobile() packs for
 * XNNPACK.  A layer is a tuple: the arguments of the plain operator after x,
 * then the least and the largest output, or None. */
static int call_packed(struct ts_run *r, struct pb_span op, int n,
                       const struct ts_arg *arg, struct ts_value *out)
{
    static const struct {
        const char *name, *plain;
        int state;
    } rows[] = {{"conv2d_clamp_run", "torch.conv2d", 8},
                {"conv2d_transpose_clamp_run", "torch.conv_transpose2d", 9},
                {"linear_clamp_run", "torch.linear", 4}};
    const struct ts_list *layer;
    struct ts_arg a[16] = {{.value = ts_none()}};
    size_t i = 0;
    int rc, least;

    while (i < sizeof rows / sizeof *rows && !pb_span_is(op, rows[i].name))
        i++;
    if (i == sizeof rows / sizeof *rows || n != 2 ||
        arg[1].value.kind != TSV_TUPLE || arg[1].value.list->n != rows[i].state)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "ops.prepacked.%.*s is not supported", PB_TEXT(op, 64));
    layer = arg[1].value.list;
    least = rows[i].state - 2;
    a[0] = arg[0];
    for (int k = 0; k < least; k++)
        a[1 + k] = (struct ts_arg){.value = layer->item[k]};
    if (rows[i].state == 9) { /* conv_transpose2d takes the groups first */
        a[6].value = layer->item[6];
        a[7].value = layer->item[5];
    }
    rc = ts_call_operator(r, word(rows[i].plain), 1 + least, a, 0, NULL, out);
    if (rc < 0 || (layer->item[least].kind == TSV_NONE &&
                   layer->item[least + 1].kind == TSV_NONE))
        return rc;
    a[0] = (struct ts_arg){.value = *out};
    a[1] = (struct ts_arg){.value = layer->item[least]};
    a[2] = (struct ts_arg){.value = layer->item[least + 1]};
    return ts_call_operator(r, word("torch.clamp"), 3, a, 0, NULL, out);
}

int ts_call_operator(struct ts_run *r, struct pb_span name, int n,
                     const struct ts_arg *arg, int n_unread, const bool *unread,
                     struct ts_value *out)
{
    static const char packed[] = "ops.prepacked.";
    struct call c;
    int64_t count;
    int rc;

    if (starts(name, packed))
        return call_packed(r,
                           (struct pb_span){name.data + sizeof packed - 1,
                                            name.bytes - sizeof packed + 1},
                           n, arg, out);
    rc = open_call(r, name, n, arg, &c);
    if (rc < 0)
        return rc;
    rc = ts_arithmetic(r, c.op, n, arg, out);
    if (rc == 0)
        rc = ts_builtin(r, c.op, n, arg, out);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    if (on_numbers(&c)) {
        c.op = number_op(c.op);
        rc = ts_tell(r, c.op, c.n, c.arg, 1, NULL, out);
        return rc < 0 ? rc : ts_number(r, out, out);
    }
    if ((rc = arrange(r, &c)) < 0 || (rc = list_of(r, &c, &count)) < 0)
        return rc;
    if (count >= 0)
        return tell_list(r, &c, count, out);
    if (tuple_of(&c) > 0)
        return tell_tuple(r, &c, tuple_of(&c), n_unread, unread, out);
    return ts_tell(r, c.op, c.n, c.arg, 1, NULL, out);
}
