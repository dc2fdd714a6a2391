/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks as C: each is written, compiled as a shared object by the C compiler
 * that the environment names (CC, or cc), loaded, and run on random inputs; the
 * outputs are those of a session on the reference backend, bit for bit.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/folder.h"
#include "tests/unit/runtime/network.h"
#include "tools/emit/emit.h"

static const char *compiler(void)
{
    const char *cc = getenv("CC");

    return cc && cc[0] ? cc : "cc";
}

/* The symbol net_run of the file compiled as C99 without warnings. */
static void *load(void **library)
{
    static int turn;
    char object[160], command[640];
    void *address;

    snprintf(object, sizeof object, "%s/net%d.so", test_folder, turn++);
    snprintf(command, sizeof command,
             "%s -std=c99 -pedantic -Wall -Wextra -Werror -O1 -shared -fPIC "
             "-o %s %s/net.c -lm",
             compiler(), object, test_folder);
    if (system(command) != 0)
        fail_msg("%s", command);
    *library = dlopen(object, RTLD_NOW);
    if (!*library)
        fail_msg("%s", dlerror());
    address = dlsym(*library, "net_run");
    assert_non_null(address);
    return address;
}

/* Calls the function at an address that dlsym() gave. */
static void call(void *address, const float *in, float *out)
{
    void (*function)(const float *, float *);

    memcpy(&function, &address, sizeof function);
    function(in, out);
}

/* Emits a network of one input and one output, runs it twice, and compares;
 * takes the graph over; returns how many functions the file has. */
static int check_beside(const char *what, struct graph *g, int output,
                        bool keep)
{
    const struct graph_value *v = &g->value[g->input[0]];
    uint64_t state = 4101842887655102017u;
    struct infer_error err = {0};
    struct infer_array in, expected;
    struct infer_model *model;
    struct infer_session *session;
    struct emit_summary summary;
    int64_t dim[INFER_MAX_RANK];
    void *library, *address;
    float *found;

    for (int d = 0; d < v->rank; d++)
        dim[d] = v->dim[d] < 0 ? 1 : v->dim[d];
    assert_int_equal(graph_add_output(g, output), 0);
    in = array_of(&state, v->rank, dim);
    if (emit_c(g, in_folder("net.c"), &err, &summary) < 0)
        fail_msg("%s: %s", what, err.text);
    model = model_of(g);
    session = session_of(model, INFER_BACKEND_REF, keep);
    expected = run(session, &in, 1, 0);
    address = load(&library);
    found = malloc(expected.bytes);
    assert_non_null(found);
    for (int i = 0; i < 2; i++) {
        memset(found, 0x55, expected.bytes);
        call(address, in.data, found);
        if (memcmp(found, expected.data, expected.bytes) != 0)
            fail_msg("%s: other bits than the reference's", what);
    }
    dlclose(library);
    free(found);
    free(expected.data);
    free(in.data);
    infer_session_close(&session);
    infer_model_close(&model);
    return summary.functions;
}

static int check(const char *what, struct graph *g, int output)
{
    return check_beside(what, g, output, false);
}

static struct graph *start(int rank, const int64_t *dim, int *x)
{
    struct graph *g = graph_new();

    assert_non_null(g);
    *x = input(g, "x", rank, dim);
    return g;
}

/* ---- convolutions -------------------------------------------------- */

/* Window, stride, dilation, pads, groups and channels of one convolution. */
struct shape {
    int64_t c, k;
    int groups, window[2], stride[2], dilation[2], before[2], after[2];
};

static const struct shape shapes[] = {
    {3, 8, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {4, 70, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {5, 131, 1, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}},
    {8, 8, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {130, 130, 130, {3, 5}, {1, 1}, {1, 2}, {1, 4}, {1, 4}},
    {6, 12, 3, {3, 3}, {1, 2}, {2, 2}, {2, 2}, {2, 2}},
    {4, 12, 4, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 1, {5, 5}, {3, 3}, {1, 1}, {4, 4}, {4, 4}},
    {7, 9, 1, {1, 7}, {1, 1}, {1, 1}, {0, 3}, {0, 3}},
    {4, 6, 2, {1, 1}, {2, 2}, {1, 1}, {1, 0}, {0, 1}},
    {6, 12, 1, {3, 3}, {2, 1}, {2, 2}, {0, 0}, {0, 0}},
    {3, 5, 1, {2, 2}, {1, 1}, {1, 1}, {2, 3}, {2, 1}},
    {13, 13, 13, {5, 4}, {2, 1}, {1, 1}, {2, 1}, {2, 2}},
};

static int convolution(struct graph *g, uint64_t *state, const struct shape *s,
                       enum graph_op op, int x, int residual)
{
    const bool transposed = op == GRAPH_CONV_TRANSPOSE;
    const int64_t first = transposed ? s->c : s->k;
    const int64_t second = (transposed ? s->k : s->c) / s->groups;
    const int w =
        weights(g, state, DIMS(first, second, s->window[0], s->window[1]));
    const int in[4] = {x, w, weights(g, state, DIMS(s->k)), residual};
    int node, v = add(g, op, NULL, in, residual >= 0 ? 4 : 3, &node);
    struct kern_conv *conv = &g->node[node].attr.conv.conv;

    conv->groups = s->groups;
    for (int i = 0; i < 2; i++) {
        conv->stride[i] = s->stride[i];
        conv->dilation[i] = s->dilation[i];
        conv->pad_begin[i] = s->before[i];
        conv->pad_end[i] = s->after[i];
    }
    return v;
}

static void convolutions(void **unused)
{
    uint64_t state = 88172645463325252u;
    char what[64];

    (void)unused;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct graph *g;
        int x, y, node;

        snprintf(what, sizeof what, "convolution %zu", i);
        /* A batch of two, first on a picture, then with channels last. */
        g = start(DIMS(2, shapes[i].c, 9, 8), &x);
        y = add_unary(g, NULL, x, KERN_ABS);
        y = convolution(g, &state, &shapes[i], GRAPH_CONV, y, -1);
        g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_HARD_SWISH);
        check(what, g, y);
        snprintf(what, sizeof what, "transposed convolution %zu", i);
        g = start(DIMS(1, shapes[i].c, 6, 7), &x);
        y = convolution(g, &state, &shapes[i], GRAPH_CONV_TRANSPOSE, x, -1);
        y = add(g, GRAPH_SOFTMAX, NULL, IN(y), &node);
        g->node[node].attr.axis.axis = 1;
        check(what, g, y);
    }
}

/* Residuals before and after the activation, in the memory of the sum. */
static void residuals(void **unused)
{
    uint64_t state = 88172645463325252u;
    int x, y, z;

    (void)unused;
    for (int last = 0; last < 2; last++) {
        struct graph *g = start(DIMS(-1, 3, 12, 12), &x);

        y = add_conv(g, &state, "a", x, 3, 20, 3, 1, 1, -1);
        z = add_conv(g, &state, "b", y, 20, 20, 3, 1, 1, y);
        g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_SILU);
        g->node[g->n_nodes - 1].epilogue.residual_last = last;
        z = add_conv(g, &state, "c", z, 20, 20, 3, 1, 20, z);
        g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
        z = add_conv(g, &state, "d", z, 20, 20, 3, 1, 1, z);
        check(last ? "residual last" : "residual", g, z);
    }
}

/* ---- pools --------------------------------------------------------- */

static void pools(void **unused)
{
    static const struct {
        enum kern_pool_kind kind;
        bool counts, ceil;
        int window, stride, dilation, pad;
    } row[] = {
        {KERN_POOL_MAX, false, false, 2, 2, 1, 0},
        {KERN_POOL_MAX, false, true, 3, 2, 1, 1},
        {KERN_POOL_MAX, false, false, 3, 1, 2, 2},
        {KERN_POOL_AVERAGE, false, false, 3, 2, 1, 1},
        {KERN_POOL_AVERAGE, true, false, 3, 2, 1, 1},
        {KERN_POOL_AVERAGE, true, true, 3, 2, 1, 1},
        {KERN_POOL_AVERAGE, false, true, 4, 3, 1, 2},
    };
    int x, y, node;

    (void)unused;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct graph *g = start(DIMS(2, 70, 10, 9), &x);
        char what[32];

        y = add(g, GRAPH_POOL, NULL, IN(x), &node);
        struct graph_pool *pool = &g->node[node].attr.pool;
        pool->pool.kind = row[i].kind;
        pool->pool.count_include_pad = row[i].counts;
        pool->ceil_mode = row[i].ceil;
        for (int d = 0; d < 2; d++) {
            pool->pool.window[d] = row[i].window;
            pool->pool.stride[d] = row[i].stride;
            pool->pool.dilation[d] = row[i].dilation;
            pool->pool.pad_begin[d] = pool->pool.pad_end[d] = row[i].pad;
        }
        snprintf(what, sizeof what, "pool %zu", i);
        check(what, g, y);
    }
}

/* ---- single elements ----------------------------------------------- */

/* Every function of one argument, on values that it is defined for. */
static void functions(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < KERN_UNARY_COUNT; kind++) {
        char what[32];
        struct graph *g;
        int x, y;

        if (kind == KERN_NOT) /* takes BOOL */
            continue;
        g = start(DIMS(2, 5, 7), &x);

        y = add_unary(g, NULL, x, (enum kern_unary_kind)kind);
        snprintf(what, sizeof what, "function %d", kind);
        check(what, g, y);
    }
}

/* Functions of two arguments with each way to broadcast. */
static void pairs(void **unused)
{
    static const enum kern_binary_kind kinds[] = {KERN_ADD, KERN_SUB, KERN_MUL,
                                                  KERN_DIV, KERN_POW, KERN_MIN,
                                                  KERN_MAX, KERN_MOD};
    uint64_t state = 88172645463325252u;

    (void)unused;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char what[32];
        int x, y;
        struct graph *g = start(DIMS(2, 6, 5, 4), &x);

        y = add_conv(g, &state, NULL, x, 6, 6, 1, 1, 1, -1);
        y = add_binary(g, NULL, y, weights(g, &state, DIMS(6, 1, 1)), kinds[i]);
        y = add_binary(g, NULL, weights(g, &state, DIMS(4)), y, kinds[i]);
        y = add_binary(g, NULL, y, x, kinds[i]);
        snprintf(what, sizeof what, "pair %zu", i);
        check(what, g, y);
    }
}

/* ---- reductions, norms and moves ------------------------------------ */

/* Reductions of space, of channels and of everything, after a layer that writes
 * channels last. */
static void reductions(void **unused)
{
    static const int axis[][3] = {{2, 3, -1}, {1, -1, -1}, {0, 1, 3}};
    uint64_t state = 88172645463325252u;
    int x, y, node;

    (void)unused;
    for (int i = 0; i < 3 * KERN_REDUCE_KIND_COUNT; i++) {
        struct graph *g = start(DIMS(2, 3, 6, 5), &x);
        char what[32];

        y = add_conv(g, &state, NULL, x, 3, 70, 3, 1, 1, -1);
        y = add(g, GRAPH_REDUCE, NULL, IN(y), &node);
        g->node[node].attr.reduce.kind =
            (enum kern_reduce_kind)(i % KERN_REDUCE_KIND_COUNT);
        for (int k = 0; k < 3; k++)
            if (axis[i / KERN_REDUCE_KIND_COUNT][k] >= 0)
                g->node[node]
                    .attr.reduce.axis[g->node[node].attr.reduce.n_axes++] =
                    axis[i / KERN_REDUCE_KIND_COUNT][k];
        snprintf(what, sizeof what, "reduction %d", i);
        check(what, g, y);
    }
}

static void norms(void **unused)
{
    uint64_t state = 88172645463325252u;
    int x, y, node;

    (void)unused;
    struct graph *g = start(DIMS(2, 6, 4, 5), &x);
    y = add_conv(g, &state, NULL, x, 6, 6, 1, 1, 1, -1);
    y = add(g, GRAPH_GROUP_NORM, NULL,
            IN(y, weights(g, &state, DIMS(6)), weights(g, &state, DIMS(6))),
            &node);
    g->node[node].attr.norm.groups = 3;
    y = add(g, GRAPH_LAYER_NORM, NULL,
            IN(y, weights(g, &state, DIMS(5)), weights(g, &state, DIMS(5))),
            &node);
    g->node[node].attr.norm.axis = -1;
    y = add(g, GRAPH_LRN, NULL, IN(y), &node);
    g->node[node].attr.lrn =
        (struct kern_lrn){.size = 3, .alpha = 0.1f, .beta = 0.75f, .bias = 1};
    check("norms", g, y);
}

static void moves(void **unused)
{
    uint64_t state = 88172645463325252u;
    int x, y, node;

    (void)unused;
    for (int mode = 0; mode <= KERN_PAD_WRAP; mode++) {
        struct graph *g = start(DIMS(1, 3, 6, 5), &x);
        char what[32];

        y = add_conv(g, &state, NULL, x, 3, 9, 1, 1, 1, -1);
        y = add(g, GRAPH_PAD, NULL, IN(y), &node);
        struct kern_pad *pad = &g->node[node].attr.pad;
        pad->mode = (enum kern_pad_mode)mode;
        pad->value = 0.5f;
        pad->begin[2] = 2;
        pad->end[2] = -1;
        pad->begin[3] = 1;
        pad->end[3] = 3;
        y = add(g, GRAPH_RESIZE, NULL, IN(y), &node);
        struct graph_resize *resize = &g->node[node].attr.resize;
        resize->resize.mode = (enum kern_resize_mode)(mode % 3);
        resize->resize.cubic_a = -0.75f;
        resize->n_sizes = 4;
        resize->size[2] = 13;
        resize->size[3] = 4;
        y = add(g, GRAPH_MATMUL, NULL, IN(y, weights(g, &state, DIMS(4, 70))),
                NULL);
        snprintf(what, sizeof what, "padding %d", mode);
        check(what, g, y);
    }
}

/* ---- whole networks ------------------------------------------------ */

static void networks(void **unused)
{
    struct graph *g = small_network();
    const int output = g->output[0];

    (void)unused;
    g->n_outputs = 0;
    check("small network", g, output);
}

/* A block of MobileNet-v2: expansion, depthwise, projection, residual. */
static void blocks(void **unused)
{
    const struct kern_unary clip = {.kind = KERN_CLIP, .a = 0, .b = 6};
    uint64_t state = 88172645463325252u;
    int x, y, z, node;
    struct graph *g = start(DIMS(1, 3, 32, 32), &x);

    (void)unused;
    x = add_conv(g, &state, NULL, x, 3, 16, 3, 2, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = clip;
    for (int i = 0; i < 2; i++) {
        y = add_conv(g, &state, NULL, x, 16, 96, 1, 1, 1, -1);
        g->node[g->n_nodes - 1].epilogue.act = clip;
        z = add_conv(g, &state, NULL, y, 96, 96, 3, 1, 96, -1);
        g->node[g->n_nodes - 1].epilogue.act = clip;
        x = add_conv(g, &state, NULL, z, 96, 16, 1, 1, 1, x);
    }
    y = add(g, GRAPH_POOL, NULL, IN(x), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    y = add(g, GRAPH_FLATTEN, NULL, IN(y), NULL);
    check("inverted residuals", g, y);
}

/* Squeeze-and-excitation behind a depthwise convolution (MobileNet-v3), whose
 * gates are a plan's one step elsewhere. */
static void gates(void **unused)
{
    uint64_t state = 88172645463325252u;
    int x, s, node;
    struct graph *g = start(DIMS(1, 16, 12, 12), &x);

    (void)unused;
    x = add_conv(g, &state, NULL, x, 16, 16, 3, 1, 16, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    s = add(g, GRAPH_POOL, NULL, IN(x), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    s = add_conv(g, &state, NULL, s, 16, 8, 1, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    s = add_conv(g, &state, NULL, s, 8, 16, 1, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_HARD_SIGMOID);
    x = add_binary(g, NULL, x, s, KERN_MUL);
    /* Of a session that keeps all tensors: no step then computes several
     * nodes with values between them in double. */
    check_beside("squeeze-and-excitation", g, x, true);
}

/* Layers that differ in numbers alone are one function: a first convolution of
 * an odd number of lanes, six of which one has another activation, and two
 * dense layers. */
static void alike(void **unused)
{
    static const int64_t channels[] = {5, 8, 16, 24, 17, 64, 72};
    uint64_t state = 88172645463325252u;
    int x, functions;
    struct graph *g = start(DIMS(1, 5, 12, 10), &x);

    (void)unused;
    x = add_unary(g, NULL, x, KERN_ABS);
    for (int i = 0; i < 6; i++) {
        x = add_conv(g, &state, NULL, x, channels[i], channels[i + 1], 3, 1, 1,
                     -1);
        g->node[g->n_nodes - 1].epilogue.act =
            graph_unary(i == 3 ? KERN_HARD_SWISH : KERN_RELU);
    }
    x = add(g, GRAPH_FLATTEN, NULL, IN(x), NULL);
    functions = check("layers that are alike", g, x);
    if (functions > 6)
        fail_msg("%d functions", functions);
}

/* Sums as integers: a factor a channel, wide sums, one rounding. */
static void integers(void **unused)
{
    static const int32_t factors[2][6] = {
        {1526823164, 1 << 30, INT32_MAX, 1 << 30, 0, -5}, {-2, -4, 0, 3, 0, 1}};
    const int64_t dim[3] = {6, 1, 1};
    int x, y, z, node, at[2];

    (void)unused;
    for (int i = 0; i < 6; i++) {
        struct graph *g = start(DIMS(2, 6, 5, 4), &x);
        struct graph_requantize *a;

        for (int k = 0; k < 2; k++) {
            struct constant *c = constant_new(INFER_I32, 3, dim);

            memcpy(c->data, factors[k], sizeof factors[k]);
            at[k] = graph_add_constant(g, k == 0 ? "m" : "s", c);
        }
        y = add_unary(g, NULL, x, KERN_LINEAR);
        g->node[g->n_nodes - 1].attr.unary.a = 1000;
        z = add(g, GRAPH_REQUANTIZE, NULL, IN(y, at[0], at[1]), &node);
        a = &g->node[node].attr.requantize;
        a->to = INFER_I32;
        a->requantize.left = i % 2 ? 7 : 0;
        a->requantize.once = i > 1;
        z = add(g, GRAPH_REQUANTIZE, NULL, IN(y, at[0], at[1], z), &node);
        a = &g->node[node].attr.requantize;
        a->requantize.low = -900;
        a->requantize.once = i > 1 && i < 5;
        a->requantize.wide = i > 3;
        a->requantize.left = i > 3 ? 8 : 0;
        if (i == 5) { /* integers that floats take the place of */
            z = add(g, GRAPH_CAST, NULL, IN(z), &node);
            g->node[node].attr.cast.to = INFER_I32;
            z = add(g, GRAPH_REQUANTIZE, NULL, IN(z, at[0], at[1]), &node);
        }
        check("integers", g, z);
    }
}

/* ---- refusals ------------------------------------------------------ */

static void refused(void **unused)
{
    struct infer_error err = {0};
    struct graph *g = graph_new();
    int x, y;

    (void)unused;
    assert_non_null(g);
    x = input(g, "x", DIMS(1, 3, -1, 8));
    y = add_unary(g, "y", x, KERN_RELU);
    assert_int_equal(graph_add_output(g, y), 0);
    REFUSED(emit_c(g, in_folder("net.c"), &err, NULL), INFER_EUNSUPPORTED,
            "dimension 2 of input 'x' is open");
    REFUSED(emit_c(g, in_folder("net.cc"), &err, NULL), INFER_EARGUMENT,
            "ends in .c");
    graph_free(g);
    g = start(DIMS(1, 8), &x);
    y = add(g, GRAPH_CUMULATE, "running", IN(x), NULL);
    assert_int_equal(graph_add_output(g, y), 0);
    REFUSED(emit_c(g, in_folder("net.c"), &err, NULL), INFER_EUNSUPPORTED,
            "(cumulate): no form in C");
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions), cmocka_unit_test(residuals),
        cmocka_unit_test(pools),        cmocka_unit_test(functions),
        cmocka_unit_test(pairs),        cmocka_unit_test(networks),
        cmocka_unit_test(reductions),   cmocka_unit_test(norms),
        cmocka_unit_test(moves),        cmocka_unit_test(blocks),
        cmocka_unit_test(gates),        cmocka_unit_test(alike),
        cmocka_unit_test(integers),     cmocka_unit_test(refused),
    };
    char command[128];

    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1",
             compiler());
    if (system(command) != 0) {
        printf("no C compiler: nothing is compiled\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
