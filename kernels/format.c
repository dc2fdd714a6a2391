/* SPDX-License-Identifier: Apache-2.0 */
/* Problems as one line for people.  Window operations use the letters of
 * oneDNN's benchdnn, so that a line can be tried there: dilations are counted
 * from 0, W is left out where it equals H, and padding at the end follows from
 * the output's size. */
#include <stdarg.h>
#include <stdio.h>

#include "kernels/chain/chain.h"
#include "kernels/input_scale.h"
#include "kernels/kern.h"
#include "kernels/bn_stats.h"
#include "kernels/names.h"
#include "kernels/problem.h"
#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"

/* A buffer that is filled from the front and cut off at its end. */
struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t,
                                                      const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const int n = vsnprintf(t->at, t->left, fmt, ap);
    va_end(ap);
    if (n < 0 || t->left == 0)
        return;
    const size_t used = (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

const char *kern_shape_text(int rank, const int64_t *dim,
                            char buf[KERN_SHAPE_TEXT])
{
    struct text t = {buf, KERN_SHAPE_TEXT};

    if (rank <= 0)
        put(&t, "scalar");
    for (int i = 0; i < rank && i < KERN_MAX_RANK; i++)
        put(&t, "%s%lld", i ? "x" : "", (long long)dim[i]);
    return buf;
}

const char *const kern_unary_names[] = {
#define UNARY(kind, name, facts, value, derivative) [kind] = #name,
#include "kernels/unary.def"
    [KERN_UNARY_COUNT] = NULL,
};
const char *const kern_binary_names[] = {
#define BINARY(kind, name, value, integer) [kind] = #name,
#include "kernels/binary.def"
    [KERN_BINARY_COUNT] = NULL,
};
const char *const kern_cell_names[] = {"rnn", "gru", "lstm", NULL};

const char *const kern_scatter_names[] = {
    [KERN_SCATTER_SET] = "set", [KERN_SCATTER_ADD] = "add",
    [KERN_SCATTER_MUL] = "mul", [KERN_SCATTER_MIN] = "min",
    [KERN_SCATTER_MAX] = "max", [KERN_SCATTER_MAX + 1] = NULL};
const char *const kern_reduce_names[] = {
    [KERN_REDUCE_MEAN] = "mean", [KERN_REDUCE_SUM] = "sum",
    [KERN_REDUCE_MAX] = "max",   [KERN_REDUCE_MIN] = "min",
    [KERN_REDUCE_PROD] = "prod", [KERN_REDUCE_L1] = "l1",
    [KERN_REDUCE_L2] = "l2",     [KERN_REDUCE_KIND_COUNT] = NULL,
};

static const char *const update_names[KERN_UPDATE_KIND_COUNT] = {
    [KERN_UPDATE_NONE] = "none",       [KERN_UPDATE_SGD] = "sgd",
    [KERN_UPDATE_RMSPROP] = "rmsprop", [KERN_UPDATE_ADAM] = "adam",
    [KERN_UPDATE_ADAMW] = "adamw",
};

#define NAME_OF(table, kind)                                                   \
    ((size_t)(kind) < sizeof(table) / sizeof((table)[0]) &&                    \
             (table)[kind] != NULL                                             \
         ? (table)[kind]                                                       \
         : "?")

/* Figures of each spatial dimension of a window operation, in the order of the
 * text. */
enum figure { IN, OUT, KERNEL, STRIDE, DILATION, PAD, FIGURES };

struct windows {
    int spatial;
    long long value[FIGURES][KERN_MAX_SPATIAL];
};

static bool is_pool(const struct kern_problem *p)
{
    return p->op == KERN_POOL_FPROP || p->op == KERN_POOL_DGRAD;
}

/* The forward problem of a gradient: its figures are shown. */
static struct kern_problem forward_of(const struct kern_problem *p)
{
    struct kern_problem f = *p;

    if (p->op == KERN_CONV_WGRAD) {
        f.in[1] = p->out[0];
        f.out[0] = p->in[1];
    } else if (p->op == KERN_POOL_DGRAD) {
        f.in[0] = p->out[0];
        f.out[0] = p->in[0];
    }
    return f;
}

static void measure_windows(struct windows *w, const struct kern_problem *p)
{
    const bool pool = is_pool(p);
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_pool *a = &p->attr.pool;

    w->spatial = p->in[0].rank - 2;
    for (int i = 0; i < w->spatial; i++) {
        w->value[IN][i] = p->in[0].dim[i + 2];
        w->value[OUT][i] = p->out[0].dim[i + 2];
        w->value[KERNEL][i] = pool ? a->window[i] : p->in[1].dim[i + 2];
        w->value[STRIDE][i] = pool ? a->stride[i] : c->stride[i];
        w->value[DILATION][i] = (pool ? a->dilation[i] : c->dilation[i]) - 1;
        w->value[PAD][i] = pool ? a->pad_begin[i] : c->pad_begin[i];
    }
}

/* How many dimensions are shown: not W where all its figures are H's. */
static int shown_windows(const struct windows *w)
{
    for (int f = 0; f < FIGURES && w->spatial > 1; f++)
        if (w->value[f][w->spatial - 1] != w->value[f][w->spatial - 2])
            return w->spatial;
    return w->spatial > 1 ? w->spatial - 1 : w->spatial;
}

/* One figure of each dimension, where it is not the usual value. */
static void put_figure(struct text *t, const struct windows *w, enum figure f,
                       long long usual)
{
    for (int i = 0; i < shown_windows(w); i++)
        if (w->value[f][i] != usual)
            put(t, "%c%c%lld", "ioksdp"[f], "dhw"[3 - w->spatial + i],
                w -> value[f][i]);
}

static void put_windows(struct text *t, const struct kern_problem *p)
{
    struct windows w = {0};

    measure_windows(&w, p);
    put_figure(t, &w, IN, -1);
    if (!is_pool(p))
        put(t, "oc%lld", (long long)p->out[0].dim[1]);
    put_figure(t, &w, OUT, -1);
    put_figure(t, &w, KERNEL, -1);
    put_figure(t, &w, STRIDE, 1);
    put_figure(t, &w, DILATION, 0);
    put_figure(t, &w, PAD, 0);
}

static bool is_window_problem(const struct kern_problem *p)
{
    const bool conv = p->op == KERN_CONV_FPROP || p->op == KERN_CONV_WGRAD ||
                      p->op == KERN_CONV_TRANSPOSE_FPROP;

    if (!conv && !is_pool(p))
        return false;
    return p->in[0].rank > 2 && p->in[0].rank <= 2 + KERN_MAX_SPATIAL &&
           p->out[0].rank == p->in[0].rank &&
           (!conv || p->in[1].rank == p->in[0].rank);
}

static void put_shapes(struct text *t, const struct kern_problem *p)
{
    char buf[KERN_SHAPE_TEXT];

    for (int i = 0; i < p->n_in && i < KERN_MAX_IN; i++)
        if (p->in[i].dtype != INFER_NONE)
            put(t, "%s%s", i ? "," : "",
                kern_shape_text(p->in[i].rank, p->in[i].dim, buf));
    for (int i = 0; i < p->n_out && i < KERN_MAX_OUT; i++)
        if (p->out[i].dtype != INFER_NONE)
            put(t, "%s%s", i ? "," : ":",
                kern_shape_text(p->out[i].rank, p->out[i].dim, buf));
}

static void put_recurrent(struct text *t, const struct kern_recurrent *a)
{
    static const char *const facts[] = {" reverse", " reset_after",
                                        " input_forget", " with_cell"};
    const bool has[] = {a->reverse, a->reset_after, a->input_forget,
                        a->with_cell};

    put(t, " %s", NAME_OF(kern_cell_names, a->cell));
    for (int i = 0; i < 3; i++)
        put(t, " %s", NAME_OF(kern_unary_names, a->act[i]));
    for (int i = 0; i < 4; i++)
        put(t, "%s", has[i] ? facts[i] : "");
    if (a->clip > 0)
        put(t, " clip%g", (double)a->clip);
}

static void put_attributes(struct text *t, const struct kern_problem *p)
{
    switch (p->op) {
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
        put(t, " %s",
            p->attr.pool.kind == KERN_POOL_MAX
                ? "max"
                : (p->attr.pool.count_include_pad ? "average_include_pad"
                                                  : "average"));
        break;
    case KERN_UNARY:
    case KERN_UNARY_DGRAD:
        put(t, " %s", NAME_OF(kern_unary_names, p->attr.unary.kind));
        break;
    case KERN_BINARY:
        put(t, " %s", NAME_OF(kern_binary_names, p->attr.binary.kind));
        break;
    case KERN_REDUCE:
    case KERN_REDUCE_DGRAD:
        put(t, " %s axes0x%x", NAME_OF(kern_reduce_names, p->attr.reduce.kind),
            (unsigned)p->attr.reduce.axes);
        break;
    case KERN_SOFTMAX:
        put(t, " axis%d%s", p->attr.softmax.axis,
            p->attr.softmax.log ? " log" : "");
        break;
    case KERN_SQUEEZE_EXCITE:
        put(t, "%s +%s", kern_problem_in(p, 3) ? " +bias" : "",
            NAME_OF(kern_unary_names, p->attr.squeeze_excite.act.kind));
        if (kern_problem_in(p, 4))
            put(t, " +bias2");
        break;
    case KERN_CHAIN:
        put(t, "%s +%s", kern_problem_in(p, CHAIN_BIAS) ? " +bias" : "",
            NAME_OF(kern_unary_names, p->attr.chain.act.kind));
        if (kern_problem_in(p, CHAIN_BIAS2))
            put(t, " +bias2");
        break;
    case KERN_ARG_REDUCE:
        put(t, " axis%d %s", p->attr.arg_reduce.axis,
            p->attr.arg_reduce.min ? "min" : "max");
        break;
    case KERN_GATHER:
    case KERN_GATHER_ELEMENTS:
        put(t, " axis%d", p->attr.gather.axis);
        break;
    case KERN_SCATTER_ELEMENTS:
        put(t, " axis%d %s", p->attr.scatter.axis,
            NAME_OF(kern_scatter_names, p->attr.scatter.kind));
        break;
    case KERN_CUMULATE:
        put(t, " axis%d%s%s%s", p->attr.cumulate.axis,
            p->attr.cumulate.product ? " prod" : " sum",
            p->attr.cumulate.exclusive ? " exclusive" : "",
            p->attr.cumulate.reverse ? " reverse" : "");
        break;
    case KERN_TOP_K:
        put(t, " axis%d %s", p->attr.top_k.axis,
            p->attr.top_k.smallest ? "smallest" : "largest");
        break;
    case KERN_REQUANTIZE:
        put(t, " left%d low%d high%d%s%s", p->attr.requantize.left,
            p->attr.requantize.low, p->attr.requantize.high,
            p->attr.requantize.once ? " once" : "",
            p->attr.requantize.wide ? " wide" : "");
        break;
    case KERN_NMS:
        put(t, " iou%g score%g%s", (double)p->attr.nms.iou,
            (double)p->attr.nms.score, p->attr.nms.center ? " center" : "");
        break;
    case KERN_RECURRENT:
        put_recurrent(t, &p->attr.recurrent);
        break;
    case KERN_LAYER_NORM:
    case KERN_LAYER_NORM_DGRAD:
        put(t, " axis%d%s", p->attr.norm.axis, p->attr.norm.rms ? " rms" : "");
        break;
    case KERN_GROUP_NORM:
    case KERN_GROUP_NORM_DGRAD:
        put(t, " groups%d", p->attr.norm.groups);
        break;
    case KERN_LRN:
    case KERN_LRN_DGRAD:
        put(t, " size%d", p->attr.lrn.size);
        break;
    case KERN_ATTENTION:
        put(t, " scale%g", (double)p->attr.attention.scale);
        break;
    case KERN_MATMUL:
        put(t, "%s%s", p->attr.matmul.transpose_a ? " ta" : "",
            p->attr.matmul.transpose_b ? " tb" : "");
        break;
    case KERN_DROPOUT:
        put(t, " ratio%g", (double)p->attr.dropout.ratio);
        break;
    case KERN_UPDATE:
        put(t, " %s%s", NAME_OF(update_names, p->attr.update.kind),
            p->attr.update.nesterov ? " nesterov" : "");
        break;
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_DENSE_FPROP:
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
    case KERN_PRELU:
    case KERN_WHERE:
    case KERN_PAD:
    case KERN_RESIZE:
    case KERN_COPY:
    case KERN_CONV_WGRAD:
    case KERN_BATCH_NORM_TRAIN:
    case KERN_BATCH_NORM_DGRAD:
    case KERN_PRELU_DGRAD:
    case KERN_RESIZE_DGRAD:
    case KERN_CROSS_ENTROPY:
    case KERN_STEP:
    case KERN_OP_COUNT:
        break;
    }
}

static void put_epilogue(struct text *t, const struct kern_problem *p)
{
    const int r = kern_op_residual(p->op);
    const bool bias = p->op == KERN_CONV_FPROP ||
                      p->op == KERN_CONV_TRANSPOSE_FPROP ||
                      p->op == KERN_DENSE_FPROP;
    const bool residual = r >= 0 && kern_problem_in(p, r);
    const bool act = p->epilogue.act.kind != KERN_IDENTITY;

    if (input_scale_of(p))
        put(t, " +factors");
    if (bias && kern_problem_in(p, 2))
        put(t, " +bias");
    if (residual && !p->epilogue.residual_last)
        put(t, " +residual");
    if (act)
        put(t, " +%s", NAME_OF(kern_unary_names, p->epilogue.act.kind));
    if (residual && p->epilogue.residual_last)
        put(t, " +residual");
    if (bn_stats_of(p))
        put(t, " +bn_stats");
    if (product_table_of(p))
        put(t, product_slope_of(p) ? " +slopes%lld" : " +table%lld",
            (long long)product_table_of(p)->dim[0]);
    if (accumulator_of(p))
        put(t, " +accumulator");
}

static const char *layout_name(const struct kern_tensor *t)
{
    if (kern_tensor_is_dense(t, KERN_NCHW))
        return t->rank < 3 ? "dense" : "nchw";
    return kern_tensor_is_dense(t, KERN_NHWC) ? "nhwc" : "strided";
}

/* One layout that holds for both, where there is one: tensors with one channel
 * or one pixel lie in either. */
static bool share_layout(const struct kern_problem *p, enum kern_layout layout)
{
    return kern_tensor_is_dense(&p->in[0], layout) &&
           kern_tensor_is_dense(&p->out[0], layout);
}

const char *kern_problem_format(const struct kern_problem *p, char *buf,
                                size_t bytes)
{
    struct text t = {buf, bytes};
    const char *in = layout_name(&p->in[0]);
    const char *out = layout_name(&p->out[0]);

    if (in != out && share_layout(p, KERN_NCHW))
        in = out = "nchw";
    if (in != out && share_layout(p, KERN_NHWC))
        in = out = "nhwc";
    if (bytes)
        buf[0] = '\0';
    put(&t, "%s ", kern_op_name(p->op));
    if (is_window_problem(p)) {
        const struct kern_problem f = forward_of(p);
        if (!is_pool(p) && p->attr.conv.groups != 1)
            put(&t, "g%d", p->attr.conv.groups);
        put(&t, "mb%lldic%lld", (long long)f.in[0].dim[0],
            (long long)f.in[0].dim[1]);
        put_windows(&t, &f);
    } else {
        put_shapes(&t, p);
    }
    put_attributes(&t, p);
    put_epilogue(&t, p);
    if (in == out)
        put(&t, " %s", in);
    else
        put(&t, " %s:%s", in, out);
    put(&t, " %s", infer_dtype_name(p->in[0].dtype));
    if (p->out[0].dtype != p->in[0].dtype)
        put(&t, ":%s", infer_dtype_name(p->out[0].dtype));
    return buf;
}
