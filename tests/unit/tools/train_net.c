/* SPDX-License-Identifier: Apache-2.0 */
/* Whole small networks: gradients against finite differences in double
 * precision, accumulation, frozen parameters, evaluation. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/table/accumulator.h"
#include "tests/unit/test.h"
#include "tools/train/data/random.h"
#include "tools/train/train.h"
#include "weights/arch/build.h"

#define BATCH 3
#define SIDE  6

static struct device cpu;

static int open_cpu(void **state)
{
    (void)state;
    return device_open("cpu", 1, NULL, NULL, &cpu);
}

static int close_cpu(void **state)
{
    (void)state;
    device_close(&cpu);
    return 0;
}

/* ---- networks ------------------------------------------------------ */

typedef int body_fn(struct arch_build *b, int x, int *channels);

/* A convolution, the body, the mean of all pixels, three scores. */
static struct graph *network(body_fn *body)
{
    struct arch_build b;
    struct graph *g = NULL;
    int channels = 4;
    int x;

    arch_build_begin(&b, "small", NULL);
    x = arch_image_input(&b, 2, SIDE, SIDE, NULL);
    x = arch_conv(&b, "first", x,
                  (struct arch_conv){
                      .in = 2, .out = 4, .kernel = 3, .pad = 1, .bias = true});
    x = body(&b, x, &channels);
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "scores", x, channels, 3);
    assert_int_equal(arch_build_end(&b, x, &g), 0);
    return g;
}

static int conv_norm(struct arch_build *b, const char *name, int x, int in,
                     int out, int stride)
{
    char bn[32];

    strcpy(bn, name);
    strcat(bn, "_bn");
    x = arch_conv(
        b, name, x,
        (struct arch_conv){
            .in = in, .out = out, .kernel = 3, .stride = stride, .pad = 1});
    return arch_batch_norm(b, bn, x, out);
}

/* Batch norm with activation and residual fused; x has two readers. */
static int residual(struct arch_build *b, int x, int *channels)
{
    int y = arch_relu(b, conv_norm(b, "a", x, 4, 4, 1));

    (void)channels;
    y = conv_norm(b, "b", y, 4, 4, 1);
    return arch_relu(b, arch_add(b, y, x));
}

/* A shortcut through every second pixel, whose backward pass adds to what the
 * other reader of x has made; channels in eights, so that ReLU goes back by
 * signs. */
static int projected(struct arch_build *b, int x, int *channels)
{
    const struct arch_conv c = {.in = 4, .out = 8, .kernel = 1, .stride = 2};
    int y = arch_relu(b, conv_norm(b, "a", x, 4, 8, 1));
    int z = arch_batch_norm(b, "c_bn", arch_conv(b, "c", x, c), 8);

    *channels = 8;
    return arch_relu(b, arch_add(b, conv_norm(b, "b", y, 8, 8, 2), z));
}

/* Both operands of the addition are batch norms: one is added plainly. */
static int two_norms(struct arch_build *b, int x, int *channels)
{
    int y = conv_norm(b, "a", x, 4, 6, 2);
    int z = conv_norm(b, "b", x, 4, 6, 2);

    *channels = 6;
    return arch_unary(b, arch_add(b, y, z), KERN_SIGMOID, 0, 0);
}

/* Option A's shortcut: every second pixel, channels of zeros. */
static int shortcut(struct arch_build *b, int x, int *channels)
{
    static const int pad[4] = {0, 1, 0, 0};
    struct graph_slice *s;
    int node, y = arch_node(b, GRAPH_SLICE, NULL, &x, 1, &node);

    s = &b->g->node[node].attr.slice;
    s->n_axes = 2;
    for (int i = 0; i < 2; i++) {
        s->axis[i] = 2 + i;
        s->end[i] = INT64_MAX;
        s->step[i] = 2;
    }
    y = arch_pad(b, y, pad, pad);
    *channels = 6;
    return arch_add(b, conv_norm(b, "a", x, 4, 6, 2), y);
}

static int pools(struct arch_build *b, int x, int *channels)
{
    int part[3];

    part[0] = arch_max_pool(b, x, 3, 1, 1, false);
    part[1] = arch_average_pool(
        b, arch_pad(b, x, (int[4]){0, 0, 1, 1}, (int[4]){0, 0, 1, 1}), 3, 1, 0);
    part[2] = arch_unary(b, x, KERN_TANH, 0, 0);
    *channels = 12;
    return arch_max_pool(b, arch_concat(b, part, 3), 2, 2, 0, false);
}

/* Squeeze and excitation: a factor a channel, broadcast over the pixels. */
static int excite(struct arch_build *b, int x, int *channels)
{
    const struct arch_conv one = {.in = 4, .out = 4, .kernel = 1, .bias = true};
    int s = arch_conv(b, "s", arch_global_average_pool(b, x), one);

    (void)channels;
    s = arch_unary(b, s, KERN_HARD_SIGMOID, 0.3f, 0.5f);
    x = arch_unary(b, x, KERN_SILU, 1, 0);
    x = arch_binary(b, KERN_MUL, x, s);
    return arch_binary(b, KERN_SUB, arch_unary(b, x, KERN_LEAKY_RELU, 0.1f, 0),
                       arch_unary(b, x, KERN_HARD_SWISH, 0, 0));
}

static int depthwise(struct arch_build *b, int x, int *channels)
{
    struct arch_conv c = {
        .in = 4, .out = 8, .kernel = 3, .pad = 1, .groups = 4};

    *channels = 8;
    x = arch_conv(b, "depthwise", x, c);
    x = arch_unary(b, arch_batch_norm(b, "bn", x, 8), KERN_CLIP, 0, 6);
    c.in = 8;
    c.groups = 2;
    c.stride = 2;
    return arch_conv(b, "grouped", x, c);
}

/* The picture flattened whole, dropout, a hidden layer. */
static int flattened(struct arch_build *b, int x, int *channels)
{
    const int64_t dim[4] = {0, 5, 1, 1};
    int node;

    x = arch_flatten(b, arch_max_pool(b, x, 2, 2, 0, false));
    x = arch_dropout(b, arch_relu(b, arch_dense(b, "fc", x, 36, 5)), 0.3f);
    x = arch_node(b, GRAPH_RESHAPE, NULL, &x, 1, &node);
    b->g->node[node].attr.dims.n = 4;
    memcpy(b->g->node[node].attr.dims.dim, dim, sizeof(dim));
    *channels = 5;
    return x;
}

static int normalised(struct arch_build *b, int x, int *channels)
{
    int node;

    (void)channels;
    x = arch_node(b, GRAPH_LRN, NULL, &x, 1, &node);
    b->g->node[node].attr.lrn = (struct kern_lrn){3, 0.5f, 0.75f, 1};
    return x;
}

/* Layers with parameters that are broadcast. */
static int scaled(struct arch_build *b, int x, int *channels)
{
    const int64_t picture[3] = {4, SIDE, SIDE}, four[1] = {4};
    const int64_t slopes[3] = {4, 1, 1};
    int in[3], node;

    (void)channels;
    in[0] = x;
    in[1] = arch_weight(b, "layer.weight", 3, picture);
    in[2] = arch_weight(b, "layer.bias", 3, picture);
    x = arch_node(b, GRAPH_LAYER_NORM, NULL, in, 3, &node);
    b->g->node[node].attr.norm =
        (struct kern_norm){.epsilon = 1e-3f, .axis = 1};
    in[0] = x;
    in[1] = arch_weight(b, "prelu.weight", 3, slopes);
    x = arch_node(b, GRAPH_PRELU, NULL, in, 2, &node);
    in[0] = x;
    in[1] = arch_weight(b, "group.weight", 1, four);
    in[2] = arch_weight(b, "group.bias", 1, four);
    x = arch_node(b, GRAPH_GROUP_NORM, NULL, in, 3, &node);
    b->g->node[node].attr.norm =
        (struct kern_norm){.epsilon = 1e-3f, .groups = 2};
    in[0] = x;
    in[1] = arch_weight(b, "scale.weight", 1, four);
    in[2] = arch_weight(b, "scale.bias", 1, four);
    return arch_node(b, GRAPH_SCALE_SHIFT, NULL, in, 3, &node);
}

/* ConvNeXt's block, whose norms read rows of a turned picture. */
static int turned_norms(struct arch_build *b, int x, int *channels)
{
    const struct arch_conv conv = {
        .in = 4, .out = 4, .kernel = 1, .bias = true};
    const int64_t four[1] = {4};
    int in[2], node;

    (void)channels;
    in[0] = arch_channel_norm(b, "norm", x, 4, 1e-3f);
    in[0] = arch_unary(b, arch_conv(b, "expand", in[0], conv), KERN_GELU, 0, 0);
    in[0] = arch_conv(b, "project", in[0], conv);
    in[1] = arch_weight(b, "layer_scale", 1, four);
    x = arch_add(b, x, arch_node(b, GRAPH_SCALE_SHIFT, NULL, in, 2, &node));
    return arch_channel_norm(b, "last", x, 4, 1e-3f);
}

/* Down by a pool, up by resizing and by a transposed convolution. */
static int upwards(struct arch_build *b, int x, int *channels)
{
    const int64_t window[4] = {4, 3, 2, 2}, three[1] = {3};
    struct graph_conv *conv;
    struct graph_resize *resize;
    int in[3], part[2], node, small = arch_max_pool(b, x, 2, 2, 0, false);

    part[0] = arch_node(b, GRAPH_RESIZE, NULL, &small, 1, &node);
    resize = &b->g->node[node].attr.resize;
    resize->resize =
        (struct kern_resize){.mode = KERN_BILINEAR, .scale = {1, 1, 2, 2}};
    in[0] = small;
    in[1] = arch_weight(b, "up.weight", 4, window);
    in[2] = arch_weight(b, "up.bias", 1, three);
    part[1] = arch_node(b, GRAPH_CONV_TRANSPOSE, NULL, in, 3, &node);
    conv = &b->g->node[node].attr.conv;
    conv->conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        conv->conv.stride[i] = 2;
        conv->conv.dilation[i] = 1;
    }
    *channels = 7;
    return arch_concat(b, part, 2);
}

/* Maxout: the largest of two pieces of a channel. */
static int maxout(struct arch_build *b, int x, int *channels)
{
    const int64_t split[5] = {0, 2, 2, SIDE, SIDE};
    struct graph_reduce *reduce;
    int node;

    x = arch_node(b, GRAPH_RESHAPE, NULL, &x, 1, &node);
    b->g->node[node].attr.dims.n = 5;
    memcpy(b->g->node[node].attr.dims.dim, split, sizeof(split));
    x = arch_node(b, GRAPH_REDUCE, NULL, &x, 1, &node);
    reduce = &b->g->node[node].attr.reduce;
    *reduce = (struct graph_reduce){
        .kind = KERN_REDUCE_MAX, .n_axes = 1, .axis = {2}};
    *channels = 2;
    return x;
}

/* A node with attributes that are integers in a row. */
static int with_dims(struct arch_build *b, enum graph_op op, int x, int n,
                     const int64_t *dim)
{
    int node;

    x = arch_node(b, op, NULL, &x, 1, &node);
    b->g->node[node].attr.dims.n = n;
    memcpy(b->g->node[node].attr.dims.dim, dim, (size_t)n * sizeof(*dim));
    return x;
}

/* Three parts of a picture's channels, of which nobody reads the second. */
static int split(struct arch_build *b, int x, int *channels)
{
    int out[3], node, y = arch_unary(b, x, KERN_TANH, 0, 0);
    struct graph_split *s;

    for (int i = 0; i < 3; i++)
        out[i] = graph_add_value(b->g, NULL);
    node = graph_add_node(b->g, GRAPH_SPLIT, NULL, &y, 1, out, 3);
    s = &b->g->node[node].attr.split;
    *s = (struct graph_split){.axis = -3, .n_sizes = 3, .size = {1, 1, 2}};
    y = arch_binary(b, KERN_MUL, y, out[0]);
    (void)channels;
    return arch_binary(b, KERN_ADD, y, arch_binary(b, KERN_MUL, out[0], x));
}

/* Turned round, repeated, broadcast; each value has a reader beside. */
static int moved(struct arch_build *b, int x, int *channels)
{
    const int64_t turn[4] = {0, 2, 1, 3}, repeats[4] = {1, 2, 1, 3};
    const int64_t whole[4] = {BATCH, 4, SIDE, SIDE};
    int part[3];

    part[0] = with_dims(b, GRAPH_TRANSPOSE, arch_relu(b, x), 4, turn);
    part[0] = with_dims(b, GRAPH_TRANSPOSE, part[0], 4, turn);
    part[1] = arch_max_pool(b, x, 2, 2, 0, false);
    part[1] = with_dims(b, GRAPH_TILE, part[1], 4, repeats);
    part[1] = arch_max_pool(
        b, arch_pad(b, part[1], (int[4]){0, 0, 3, 0}, (int[4]){0}), 3, 1, 0,
        false);
    part[1] = arch_global_average_pool(b, part[1]);
    part[1] = with_dims(b, GRAPH_EXPAND, part[1], 4,
                        (int64_t[4]){BATCH, 8, SIDE, SIDE});
    part[2] = arch_global_average_pool(b, x);
    part[2] = with_dims(b, GRAPH_EXPAND, part[2], 4, whole);
    *channels = 16;
    return arch_concat(b, part, 3);
}

/* Attention to channels, to pixels, and the logarithm of one. */
static int attention(struct arch_build *b, int x, int *channels)
{
    int y = arch_global_average_pool(b, x), z, node;

    (void)channels;
    y = arch_node(b, GRAPH_SOFTMAX, NULL, &y, 1, &node);
    b->g->node[node].attr.axis.axis = 1;
    z = arch_node(b, GRAPH_SOFTMAX, NULL, &x, 1, &node);
    b->g->node[node].attr.axis = (struct graph_axis){.axis = -1, .log = true};
    y = arch_binary(b, KERN_MUL, x, y);
    return arch_binary(b, KERN_ADD, arch_binary(b, KERN_MUL, y, z), x);
}

/* Softmax over all channels of all pixels, as it was before opset 13. */
static int flat_softmax(struct arch_build *b, int x, int *channels)
{
    const int64_t dim[4] = {0, 4, 3, 1};
    int node, y = arch_max_pool(b, x, 2, 2, 0, false);

    y = with_dims(b, GRAPH_RESHAPE,
                  arch_dense(b, "fc", arch_flatten(b, y), 36, 12), 4, dim);
    y = arch_node(b, GRAPH_SOFTMAX, NULL, &y, 1, &node);
    b->g->node[node].attr.axis =
        (struct graph_axis){.axis = 1, .flatten = true};
    *channels = 4;
    return y;
}

/* Quotients both ways round a broadcast, extremes. */
static int quotients(struct arch_build *b, int x, int *channels)
{
    int y = arch_unary(b, arch_global_average_pool(b, x), KERN_EXP, 0, 0);
    int z = arch_unary(b, x, KERN_SIGMOID, 0, 0);

    (void)channels;
    y = arch_binary(b, KERN_DIV, arch_binary(b, KERN_DIV, x, y),
                    arch_unary(b, z, KERN_LINEAR, 1, 0.5f));
    y = arch_binary(b, KERN_MAX, y, z);
    return arch_binary(b, KERN_MIN, x, y);
}

/* Twelve blocks with shortcuts: most of its activations can be dropped. */
static int tower(struct arch_build *b, int x, int *channels)
{
    char name[16];

    (void)channels;
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "block%d", i);
        x = arch_relu(b, arch_add(b, conv_norm(b, name, x, 4, 4, 1), x));
    }
    return arch_dropout(b, x, 0.2f);
}

/* ---- running ------------------------------------------------------- */

static struct net *make(body_fn *body, struct net_options *o)
{
    struct infer_error err = {0};
    struct net *n = NULL;

    o->device = &cpu;
    o->backend =
        o->backend == INFER_BACKEND_AUTO ? INFER_BACKEND_REF : o->backend;
    o->batch = BATCH;
    if (o->accumulate == 0)
        o->accumulate = 1;
    o->bn_momentum = 0.1f;
    if (net_new(network(body), o, &err, &n) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(init_random(n, INIT_PYTORCH, 1, NULL), 0);
    return n;
}

static void batch(double *x, int32_t *label, uint64_t number)
{
    struct random r = random_at(9, RANDOM_SHUFFLE, number);

    for (int i = 0; i < BATCH * 2 * SIDE * SIDE; i++)
        x[i] = (double)random_normal(&r);
    for (int i = 0; i < BATCH; i++)
        label[i] = (int32_t)random_below(&r, 3);
}

static void check_gradients(body_fn *body, float smoothing)
{
    struct net_options o = {
        .dtype = INFER_F64, .keep = true, .smoothing = smoothing};
    struct net *n = make(body, &o);
    double x[BATCH * 2 * SIDE * SIDE];
    int32_t label[BATCH];
    struct gradient_check found;
    struct infer_error err = {0};

    batch(x, label, 0);
    if (gradient_check(n, x, label, 12, 5, &err, &found) < 0)
        fail_msg("%s", err.text);
    assert_true(found.checked > 20);
    if (!(found.worst < 1e-4))
        fail_msg("%g at %s", found.worst, found.where);
    net_free(n);
}

static body_fn *const bodies[] = {
    residual,  two_norms,  shortcut,  pools,        excite,    depthwise,
    flattened, normalised, scaled,    upwards,      maxout,    projected,
    split,     moved,      attention, flat_softmax, quotients, turned_norms};

#define BODIES (COUNT(bodies))

TEST(gradients_are_right)
{
    for (size_t i = 0; i < BODIES; i++)
        check_gradients(bodies[i], i % 2 ? 0.1f : 0);
}

/* A check that cannot fail is none: a wrong gradient is found. */
TEST(a_wrong_gradient_is_found)
{
    struct net_options o = {.dtype = INFER_F64, .keep = true};
    struct net *n = make(residual, &o);
    double x[BATCH * 2 * SIDE * SIDE];
    int32_t label[BATCH];
    struct gradient_check found;

    /* Batch norms go back with another epsilon and no activation. */
    for (int i = 0; i < n->list[NET_LIST_TRAIN].steps.n; i++) {
        struct plan_step *op = n->list[NET_LIST_TRAIN].steps.at[i];

        if (op->stage == NET_DGRAD) {
            op->exec.problem.attr.norm.epsilon = 0.5f;
            op->exec.problem.epilogue.act.kind = KERN_IDENTITY;
        }
    }
    batch(x, label, 0);
    assert_int_equal(gradient_check(n, x, label, 4, 5, NULL, &found), 0);
    assert_true(found.worst > 1e-2);
    net_free(n);
}

/* Of the launches of a list, those that write signs or go back by them. */
static int by_signs(const struct net *n)
{
    const struct net_list *l = &n->list[NET_LIST_TRAIN];
    int count = 0;

    for (int i = 0; i < l->steps.n; i++)
        count += (l->steps.at[i]->exec.problem.op == KERN_BATCH_NORM_TRAIN &&
                  l->steps.at[i]->out[5].t.dtype == INFER_U8) ||
                 (l->steps.at[i]->exec.problem.op == KERN_BATCH_NORM_DGRAD &&
                  l->steps.at[i]->in[5].t.dtype == INFER_U8);
    return count;
}

/* Signs are kept where the rows of both ways know them and channels come in
 * eights; never for the sake of a slower row. */
TEST(signs_are_kept)
{
    struct net_options o = {.dtype = INFER_F32};
    struct net_options fast = {.backend = INFER_BACKEND_ONEDNN,
                               .dtype = INFER_F32};
    struct net *eights = make(projected, &o), *fours = make(residual, &o);
    struct net *cpu_rows = make(projected, &fast);

    /* Two and back, and the shortcut's by those of the addition. */
    assert_int_equal(by_signs(eights), 5);
    assert_int_equal(by_signs(fours), 0);
    assert_int_equal(by_signs(cpu_rows), 0);
    net_free(eights);
    net_free(fours);
    net_free(cpu_rows);
}

static void run_step(struct net *n, bool first, uint64_t number)
{
    double wide[BATCH * 2 * SIDE * SIDE];
    float x[BATCH * 2 * SIDE * SIDE];
    int32_t label[BATCH];

    batch(wide, label, number);
    for (int i = 0; i < BATCH * 2 * SIDE * SIDE; i++)
        x[i] = (float)wide[i];
    assert_int_equal(net_begin(n, NULL), 0);
    assert_int_equal(net_put_batch(n, x, label, NULL), 0);
    assert_int_equal(net_put_control(n, 0.1f, 1, 1, NULL), 0);
    assert_int_equal(net_train(n, first, NULL), 0);
    assert_int_equal(net_end(n, NULL), 0);
}

static float *read_flat(struct net *n, enum net_memory home)
{
    float *flat = malloc(net_flat_bytes(n, home));

    assert_non_null(flat);
    assert_int_equal(net_read_flat(n, home, flat, NULL), 0);
    return flat;
}

/* The fast rows of the CPU make the reference's gradients, but for roundings: a
 * sum of some hundred terms and a dozen layers on either side lose a few tens
 * of them where they add up and a few where they do not. */
TEST(fast_rows_agree)
{
    for (size_t k = 0; k < BODIES; k++) {
        struct net_options o = {.dtype = INFER_F32, .update = true};
        struct net_options fast = {.backend = INFER_BACKEND_ONEDNN,
                                   .dtype = INFER_F32,
                                   .update = true};
        struct net *one = make(bodies[k], &o), *two = make(bodies[k], &fast);
        const size_t count = net_flat_bytes(one, NET_GRADS) / sizeof(float);
        float *a, *b, largest = 0;

        run_step(one, true, k);
        run_step(two, true, k);
        a = read_flat(one, NET_GRADS);
        b = read_flat(two, NET_GRADS);
        for (size_t i = 0; i < count; i++)
            largest = fmaxf(largest, fabsf(a[i]));
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(a[i] - b[i]) <= 64 * FLT_EPSILON * largest))
                fail_msg("network %d: gradient %d is %g, expected %g", (int)k,
                         (int)i, (double)b[i], (double)a[i]);
        free(a);
        free(b);
        net_free(one);
        net_free(two);
    }
}

/* The bytes that a network which does not fit asks for. */
static uint64_t least_memory(body_fn *body, struct net_options o)
{
    struct infer_error err = {0};
    struct net *n = NULL;
    const char *text;

    o.device = &cpu;
    o.batch = BATCH;
    o.accumulate = 1;
    o.memory = 1;
    assert_int_equal(net_new(network(body), &o, &err, &n), INFER_EMEMORY);
    assert_null(n);
    text = strstr(err.text, "takes ");
    assert_non_null(text);
    return strtoull(text + strlen("takes "), NULL, 10);
}

/* Gradients and running statistics are the same bits however much is computed
 * twice.  Returns what the network needs without. */
static uint64_t check_memory(body_fn *body, const struct net_options *common,
                             uint64_t memory)
{
    static const enum net_memory same[] = {NET_GRADS, NET_WEIGHTS};
    struct net_options o = *common;
    struct net *whole, *fits;
    uint64_t bytes;

    o.memory = 0;
    whole = make(body, &o);
    bytes = net_bytes(whole);

    o.memory = memory;
    fits = make(body, &o);
    assert_true(net_bytes(fits) <= memory);
    assert_int_equal(fits->repeated_steps > 0 || fits->host_bytes > 0,
                     memory < bytes);
    for (int i = 0; i < 2; i++) { /* again, over what the first step left */
        run_step(whole, true, (uint64_t)i);
        run_step(fits, true, (uint64_t)i);
    }
    for (size_t i = 0; i < COUNT(same); i++) {
        float *a = read_flat(whole, same[i]), *b = read_flat(fits, same[i]);

        assert_memory_equal(a, b, net_flat_bytes(whole, same[i]));
        free(a);
        free(b);
    }
    net_free(whole);
    net_free(fits);
    return bytes;
}

TEST(dropped_activations_come_back)
{
    static const enum infer_backend backends[] = {INFER_BACKEND_REF,
                                                  INFER_BACKEND_ONEDNN};

    for (size_t i = 0; i < 2 * BODIES; i++) {
        struct net_options o = {
            .backend = backends[i % 2], .dtype = INFER_F32, .update = true};
        body_fn *body = bodies[i / 2];
        const uint64_t least = least_memory(body, o);
        const uint64_t most = check_memory(body, &o, least);

        check_memory(body, &o, (least + most) / 2);
        check_memory(body, &o, most);
    }
}

/* Copies to the host's memory and back change no bit either.  They are made
 * where computing twice is not enough, and fit the network into less. */
TEST(moved_activations_come_back)
{
    int moved = 0;

    for (size_t i = 0; i < 2 * BODIES; i++) {
        struct net_options o = {.backend = i % 2 ? INFER_BACKEND_ONEDNN
                                                 : INFER_BACKEND_REF,
                                .dtype = INFER_F32,
                                .update = true};
        body_fn *body = bodies[i / 2];
        const uint64_t dropped = least_memory(body, o);
        o.offload = true;
        const uint64_t least = least_memory(body, o);

        assert_true(least <= dropped);
        check_memory(body, &o, least);
        check_memory(body, &o, (least + dropped) / 2);
        o.memory = least;
        struct net *n = make(body, &o);
        assert_int_equal(n->host_bytes > 0, least < dropped);
        moved += n->host_bytes > 0;
        net_free(n);
        o.memory = dropped;
        n = make(body, &o);
        assert_int_equal(n->host_bytes, 0);
        net_free(n);
    }
    assert_true(moved > 0);
}

/* Activations of a deep network fit in less than half of their memory; below
 * the least memory none is made. */
TEST(deep_networks_fit)
{
    struct net_options o = {
        .backend = INFER_BACKEND_REF, .dtype = INFER_F32, .update = true};
    struct net *whole = make(tower, &o), *fits, *none = NULL;
    struct infer_error err = {0};

    o.memory = least_memory(tower, o);
    check_memory(tower, &o, o.memory);
    fits = make(tower, &o);
    assert_true(2 * fits->arena_bytes < whole->arena_bytes);
    o.memory--;
    assert_int_equal(net_new(network(tower), &o, &err, &none), INFER_EMEMORY);
    net_free(whole);
    net_free(fits);
}

/* Gradients through a multiplier in all passes; to be freed. */
static float *gradients_by(const char *multiplier, int *accumulated)
{
    struct net_options o = {
        .backend = INFER_BACKEND_ONEDNN, .dtype = INFER_F32, .update = true};
    struct multiplier *m;

    assert_int_equal(multiplier_open(multiplier, NULL, &m), 0);
    o.multiplier[NET_FPROP] = o.multiplier[NET_DGRAD] =
        o.multiplier[NET_WGRAD] = m;
    struct net *n = make(pools, &o);
    const struct plan_steps *s = &n->list[NET_LIST_TRAIN].steps;
    *accumulated = 0;
    for (int i = 0; i < s->n; i++) {
        const struct kern_problem *p = &s->at[i]->exec.problem;
        if (product_table_of(p))
            *accumulated |= accumulator_of(p) ? 1 : 2;
    }
    run_step(n, true, 0);
    float *flat = read_flat(n, NET_GRADS);
    net_free(n);
    multiplier_free(m);
    return flat;
}

/* Every product of the three passes has the accumulator, or none has. */
TEST(accumulators_are_taken)
{
    static const char *const names[] = {"mitchell-4", "mitchell-4,acc=fp32",
                                        "mitchell-4,acc=bf16",
                                        "mitchell-4,acc=loa-12"};
    float *flat[COUNT(names)];

    for (size_t i = 0; i < COUNT(names); i++) {
        int accumulated;
        flat[i] = gradients_by(names[i], &accumulated);
        assert_int_equal(accumulated, i ? 1 : 2);
        for (size_t k = 0; k < i && i > 1; k++) /* fp32 may round alike */
            assert_memory_not_equal(flat[i], flat[k], 64);
    }
    for (size_t i = 0; i < COUNT(names); i++)
        free(flat[i]);
}

/* Two batches accumulated are the mean of their gradients. */
TEST(gradients_accumulate)
{
    struct net_options o = {.dtype = INFER_F32, .update = true};
    struct net_options twice = {
        .dtype = INFER_F32, .update = true, .accumulate = 2};
    struct net *one = make(pools, &o), *two = make(pools, &twice);
    const size_t count = net_flat_bytes(one, NET_GRADS) / sizeof(float);
    float *a, *b, *sum;

    run_step(one, true, 0);
    a = read_flat(one, NET_GRADS);
    run_step(one, true, 1);
    b = read_flat(one, NET_GRADS);
    for (int i = 0; i < 2; i++) { /* the second round starts from zero */
        run_step(two, true, 0);
        run_step(two, false, 1);
    }
    sum = read_flat(two, NET_GRADS);
    for (size_t i = 0; i < count; i++) {
        const float mean = (a[i] + b[i]) / 2;

        assert_true(fabsf(sum[i] - mean) <= 1e-6f + 1e-5f * fabsf(mean));
    }
    free(a);
    free(b);
    free(sum);
    net_free(one);
    net_free(two);
}

static struct view weights_of(const struct net *n, const char *name)
{
    for (int i = 0; i < n->n_params; i++)
        if (strcmp(n->param[i].name, name) == 0)
            return net_param_view(n, i, NET_WEIGHTS);
    fail_msg("no parameter %s", name);
    return net_param_view(n, 0, NET_WEIGHTS);
}

/* One update moves what is trained and leaves what is frozen, running
 * statistics of frozen batch norms included. */
TEST(frozen_parameters_stay)
{
    static const struct {
        const char *name;
        bool moves;
    } expected[] = {{"first.weight", false},     {"a.weight", false},
                    {"a_bn.weight", false},      {"a_bn.running_mean", false},
                    {"b_bn.running_mean", true}, {"b.weight", true},
                    {"scores.bias", true}};
    struct net_options o = {.dtype = INFER_F32,
                            .update = true,
                            .freeze = "^(first|a)",
                            .rule = {.kind = KERN_UPDATE_SGD}};
    struct net *n = make(residual, &o);
    float before[1000], after[1000];

    for (size_t i = 0; i < COUNT(expected); i++) {
        const struct view v = weights_of(n, expected[i].name);
        const size_t bytes = (size_t)kern_tensor_count(&v.t) * sizeof(float);

        assert_int_equal(net_read_view(n, &v, before, NULL), 0);
        run_step(n, true, i);
        assert_int_equal(net_begin(n, NULL), 0);
        assert_int_equal(net_update(n, NULL), 0);
        assert_int_equal(net_end(n, NULL), 0);
        assert_int_equal(net_read_view(n, &v, after, NULL), 0);
        assert_int_equal(memcmp(before, after, bytes) != 0, expected[i].moves);
    }
    net_free(n);
}

/* Rows that only fill a batch count for nothing. */
TEST(filling_rows_do_not_count)
{
    struct net_options o = {.dtype = INFER_F32, .update = true};
    struct net *n = make(pools, &o);
    float x[BATCH * 2 * SIDE * SIDE] = {0};
    int32_t all[BATCH] = {1, 1, 1}, one[BATCH] = {1, -1, -1};
    struct net_metrics whole, part;

    assert_int_equal(net_begin(n, NULL), 0);
    assert_int_equal(net_put_batch(n, x, all, NULL), 0);
    assert_int_equal(net_eval(n, NULL), 0);
    assert_int_equal(net_read_metrics(n, NULL, &whole), 0);
    assert_int_equal(net_put_batch(n, x, one, NULL), 0);
    assert_int_equal(net_eval(n, NULL), 0);
    assert_int_equal(net_read_metrics(n, NULL, &part), 0);
    assert_int_equal(net_end(n, NULL), 0);
    assert_true(fabs(whole.loss - 3 * part.loss) < 1e-5);
    assert_int_equal(whole.hit, 3 * part.hit);
    net_free(n);
}

/* An operation without a backward pass is named. */
static int untrainable(struct arch_build *b, int x, int *channels)
{
    int node;

    (void)channels;
    return arch_node(b, GRAPH_DEPTH_TO_SPACE, "shuffle", &x, 1, &node);
}

TEST(what_cannot_be_trained_is_named)
{
    struct net_options o = {
        .dtype = INFER_F32, .device = &cpu, .batch = 2, .accumulate = 1};
    struct infer_error err = {0};
    struct net *n = NULL;
    struct graph *g = network(untrainable);

    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_DEPTH_TO_SPACE)
            g->node[i].attr.depth_space.block = 1;
    assert_int_equal(net_new(g, &o, &err, &n), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "shuffle"));
    assert_null(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(a_wrong_gradient_is_found),
        cmocka_unit_test(signs_are_kept),
        cmocka_unit_test(fast_rows_agree),
        cmocka_unit_test(accumulators_are_taken),
        cmocka_unit_test(dropped_activations_come_back),
        cmocka_unit_test(moved_activations_come_back),
        cmocka_unit_test(deep_networks_fit),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(frozen_parameters_stay),
        cmocka_unit_test(filling_rows_do_not_count),
        cmocka_unit_test(what_cannot_be_trained_is_named),
    };

    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
