/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward passes of the reference, in double precision.  With a fixed
 * random g, L(x) = <g, fprop(x)>; what a dgrad row makes of dy = g has to be
 * the slope of L in every element, by central differences, and for linear
 * operations <g, fprop(v)> = <dgrad(g), v> for any v.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/unary.h"
#include "kernels/base/philox.h"
#include "kernels/reference.h"
#include "tests/unit/test.h"

#define MAX   1024 /* elements of any tensor here */
#define STEP  1e-5
#define LIMIT 1e-6 /* of max(1, |slope|) */

/* A problem and its data, all in double but for labels and random state. */
struct run {
    struct kern_problem p;
    double in[KERN_MAX_IN][MAX], out[KERN_MAX_OUT][MAX];
    const void *other[KERN_MAX_IN]; /* data of another type */
};

static uint64_t state = 1;

static double real(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state * 0x1p-63;
}

static struct run *new_run(enum kern_op op)
{
    struct run *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    r->p.op = op;
    return r;
}

static void input(struct run *r, int i, int rank, const int64_t *dim)
{
    r->p.in[i] = kern_tensor_dense(INFER_F64, rank, dim, KERN_NCHW);
    r->p.n_in = r->p.n_in > i ? r->p.n_in : i + 1;
    assert_true(kern_tensor_count(&r->p.in[i]) <= MAX);
    for (int64_t j = 0; j < kern_tensor_count(&r->p.in[i]); j++)
        r->in[i][j] = real();
}

static void output(struct run *r, int o, int rank, const int64_t *dim)
{
    r->p.out[o] = kern_tensor_dense(INFER_F64, rank, dim, KERN_NCHW);
    r->p.n_out = r->p.n_out > o ? r->p.n_out : o + 1;
    assert_true(kern_tensor_count(&r->p.out[o]) <= MAX);
}

static void special(struct run *r, int i, enum infer_dtype dtype,
                    const void *data, int64_t n)
{
    r->p.in[i] = kern_tensor_dense(dtype, 1, &n, KERN_NCHW);
    r->p.n_in = r->p.n_in > i ? r->p.n_in : i + 1;
    r->other[i] = data;
}

static void launch(struct run *r)
{
    struct kern_args args = {0};
    struct infer_error err = {0};

    for (int i = 0; i < KERN_MAX_IN; i++)
        args.in[i] = r->other[i] ? r->other[i] : r->in[i];
    for (int i = 0; i < KERN_MAX_OUT; i++)
        args.out[i] = r->out[i];
    if (kern_reference_run(&r->p, &args, &err) < 0)
        fail_msg("%s", err.text);
}

static double dot(const struct kern_tensor *t, const double *a, const double *b)
{
    double sum = 0;

    for (int64_t i = 0; i < kern_tensor_count(t); i++)
        sum += a[i] * b[i];
    return sum;
}

/* <g, output 0> of a forward pass. */
static double loss(struct run *f, const double *g)
{
    launch(f);
    return dot(&f->p.out[0], f->out[0], g);
}

static void expect(const char *what, int64_t at, double found, double expected)
{
    if (!(fabs(found - expected) <= LIMIT * fmax(1, fabs(expected))))
        fail_msg("%s: element %d is %.12g, expected %.12g", what, (int)at,
                 found, expected);
}

/* The slope of L in every element of input i of f is `gradient`. */
static void expect_slope(struct run *f, int i, const double *g,
                         const double *gradient)
{
    for (int64_t j = 0; j < kern_tensor_count(&f->p.in[i]); j++) {
        const double x = f->in[i][j];
        f->in[i][j] = x + STEP;
        const double above = loss(f, g);
        f->in[i][j] = x - STEP;
        const double below = loss(f, g);
        f->in[i][j] = x;
        expect(kern_op_name(f->p.op), j, gradient[j],
               (above - below) / (2 * STEP));
    }
}

/* Input i of b becomes the data of a tensor of the same shape. */
static void copy(struct run *b, int i, const struct kern_tensor *t,
                 const double *data)
{
    b->p.in[i] = *t;
    b->p.n_in = b->p.n_in > i ? b->p.n_in : i + 1;
    memcpy(b->in[i], data, (size_t)kern_tensor_count(t) * sizeof(*data));
}

static void like(struct run *b, int o, const struct kern_tensor *t)
{
    output(b, o, t->rank, t->dim);
}

/* ---- convolution --------------------------------------------------- */

struct conv_case {
    int64_t x[5], w[5], y[5];
    int rank;
    struct kern_conv attr;
};

static const struct conv_case convs[] = {
    {{2, 3, 5, 4},
     {4, 3, 3, 2},
     {2, 4, 2, 3},
     4,
     {1, {2, 1}, {1, 1}, {1, 0}, {0, 0}}},
    {{1, 4, 6, 5},
     {6, 2, 2, 3},
     {1, 6, 3, 3},
     4,
     {2, {2, 2}, {2, 1}, {1, 2}, {1, 0}}},
    {{2, 3, 4, 4},
     {6, 1, 3, 3},
     {2, 6, 4, 4},
     4,
     {3, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {{3, 5, 1, 1},
     {4, 5, 1, 1},
     {3, 4, 1, 1},
     4,
     {1, {1, 1}, {1, 1}, {0, 0}, {0, 0}}}, /* a dense layer */
    {{1, 2, 9}, {3, 2, 3}, {1, 3, 4}, 3, {1, {2}, {2}, {1}, {1}}},
    {{1, 2, 3, 4, 3},
     {2, 1, 2, 2, 2},
     {1, 2, 2, 2, 3},
     5,
     {2, {1, 2, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 1}}},
};

static void check_conv(const struct conv_case *c)
{
    struct run *f = new_run(KERN_CONV_FPROP), *x = new_run(KERN_CONV_DGRAD);
    struct run *w = new_run(KERN_CONV_WGRAD);
    double g[MAX];

    f->p.attr.conv = x->p.attr.conv = w->p.attr.conv = c->attr;
    input(f, 0, c->rank, c->x);
    input(f, 1, c->rank, c->w);
    output(f, 0, c->rank, c->y);
    for (int i = 0; i < MAX; i++)
        g[i] = real();
    copy(x, 0, &f->p.out[0], g);
    copy(x, 1, &f->p.in[1], f->in[1]);
    like(x, 0, &f->p.in[0]);
    copy(w, 0, &f->p.in[0], f->in[0]);
    copy(w, 1, &f->p.out[0], g);
    like(w, 0, &f->p.in[1]);
    launch(x);
    launch(w);
    const double y = loss(f, g);
    expect("<dy, y> and <dx, x>", 0, dot(&f->p.in[0], f->in[0], x->out[0]), y);
    expect("<dy, y> and <dw, w>", 0, dot(&f->p.in[1], f->in[1], w->out[0]), y);
    expect_slope(f, 0, g, x->out[0]);
    expect_slope(f, 1, g, w->out[0]);
    free(f);
    free(x);
    free(w);
}

TEST(test_conv)
{
    for (size_t i = 0; i < COUNT(convs); i++)
        check_conv(&convs[i]);
}

/* An existing gradient is added to, in place. */
TEST(test_accumulate)
{
    struct run *w = new_run(KERN_CONV_WGRAD);
    const struct conv_case *c = &convs[0];
    double once[MAX];

    w->p.attr.conv = c->attr;
    input(w, 0, c->rank, c->x);
    input(w, 1, c->rank, c->y);
    output(w, 0, c->rank, c->w);
    launch(w);
    memcpy(once, w->out[0], sizeof(once));
    w->p.in[2] = w->p.out[0];
    w->p.n_in = 3;
    w->other[2] = w->out[0];
    launch(w);
    for (int64_t i = 0; i < kern_tensor_count(&w->p.out[0]); i++)
        expect("twice", i, w->out[0][i], 2 * once[i]);
    free(w);
}

/* What a dgrad takes beside dy: the input and the output of the forward pass.
 */
enum { DY, DY_AND_X, DY_AND_Y };

/* Checks dx of b, with a random dy, against the slope of f.  Frees both. */
static void check_dgrad(struct run *f, struct run *b, int takes)
{
    double g[MAX];

    for (int i = 0; i < MAX; i++)
        g[i] = real();
    launch(f);
    copy(b, 0, &f->p.out[0], g);
    if (takes == DY_AND_X)
        copy(b, 1, &f->p.in[0], f->in[0]);
    if (takes == DY_AND_Y)
        copy(b, 2, &f->p.out[0], f->out[0]);
    like(b, 0, &f->p.in[0]);
    launch(b);
    expect_slope(f, 0, g, b->out[0]);
    free(f);
    free(b);
}

/* ---- pooling, reductions ------------------------------------------- */

static void check_pool(enum kern_pool_kind kind, bool include_pad, int64_t q)
{
    const struct kern_pool attr = {.kind = kind,
                                   .count_include_pad = include_pad,
                                   .window = {3, 2},
                                   .stride = {2, 2},
                                   .dilation = {1, 2},
                                   .pad_begin = {1, 0},
                                   .pad_end = {0, 1}};
    struct run *f = new_run(KERN_POOL_FPROP), *b = new_run(KERN_POOL_DGRAD);

    f->p.attr.pool = b->p.attr.pool = attr;
    input(f, 0, DIMS(2, 2, 6, 6));
    output(f, 0, DIMS(2, 2, 3, q));
    check_dgrad(f, b, kind == KERN_POOL_MAX ? DY_AND_X : DY);
}

TEST(test_pool)
{
    check_pool(KERN_POOL_MAX, false, 3);
    check_pool(KERN_POOL_AVERAGE, false, 3);
    check_pool(KERN_POOL_AVERAGE, true, 3);
}

/* The first of equal elements takes the whole gradient. */
TEST(test_pool_ties)
{
    struct run *b = new_run(KERN_POOL_DGRAD);

    b->p.attr.pool = (struct kern_pool){.kind = KERN_POOL_MAX,
                                        .window = {2, 2},
                                        .stride = {2, 2},
                                        .dilation = {1, 1}};
    input(b, 0, DIMS(1, 1, 1, 1));
    input(b, 1, DIMS(1, 1, 2, 2));
    output(b, 0, DIMS(1, 1, 2, 2));
    for (int i = 0; i < 4; i++)
        b->in[1][i] = i == 0 ? -1 : 5;
    b->in[0][0] = 7;
    launch(b);
    for (int i = 0; i < 4; i++)
        expect("tie", i, b->out[0][i], i == 1 ? 7 : 0);
    free(b);
}

TEST(test_reduce)
{
    static const enum kern_reduce_kind kinds[] = {
        KERN_REDUCE_MEAN, KERN_REDUCE_SUM, KERN_REDUCE_MAX,
        KERN_REDUCE_MIN,  KERN_REDUCE_L1,  KERN_REDUCE_L2};

    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct run *f = new_run(KERN_REDUCE), *b = new_run(KERN_REDUCE_DGRAD);
        f->p.attr.reduce.kind = b->p.attr.reduce.kind = kinds[k];
        f->p.attr.reduce.axes = b->p.attr.reduce.axes = 5;
        input(f, 0, DIMS(3, 2, 4, 2));
        output(f, 0, DIMS(1, 2, 1, 2));
        check_dgrad(f, b, k > 1 ? DY_AND_X : DY);
    }
}

/* ---- functions ----------------------------------------------------- */

/* Values away from every corner of the functions, and where all are defined. */
static double argument(enum kern_unary_kind kind, int i)
{
    const double x = 0.13 + 0.371 * i;

    switch (kern_unary_info(kind)->domain) {
    case KERN_POSITIVE:
        return x;
    case KERN_UNIT:
        return (i % 2 ? x : -x) / 5;
    case KERN_ABOVE_ONE:
        return 1 + x;
    case KERN_REALS:
    case KERN_NONZERO:
        break;
    }
    return i % 2 ? x : -x;
}

static void check_unary(enum kern_unary_kind kind, bool by_y)
{
    const struct kern_unary attr = {kind, kind == KERN_CLIP ? -1 : 0.7f, 0.45f};
    struct run *f, *b;

    if (by_y && !kern_unary_grad_from_output(&attr))
        return;
    f = new_run(KERN_UNARY);
    b = new_run(KERN_UNARY_DGRAD);
    f->p.attr.unary = b->p.attr.unary = attr;
    input(f, 0, DIMS(12));
    output(f, 0, DIMS(12));
    for (int i = 0; i < 12; i++)
        f->in[0][i] = argument(kind, i);
    check_dgrad(f, b, by_y ? DY_AND_Y : DY_AND_X);
}

TEST(test_unary)
{
    for (int kind = 0; kind < KERN_UNARY_COUNT; kind++) {
        check_unary((enum kern_unary_kind)kind, false);
        check_unary((enum kern_unary_kind)kind, true);
    }
}

TEST(test_lrn)
{
    struct run *f = new_run(KERN_LRN), *b = new_run(KERN_LRN_DGRAD);

    f->p.attr.lrn = b->p.attr.lrn =
        (struct kern_lrn){.size = 4, .alpha = 0.8f, .beta = 0.75f, .bias = 1};
    input(f, 0, DIMS(2, 7, 3));
    output(f, 0, DIMS(2, 7, 3));
    check_dgrad(f, b, DY_AND_X);
}

/* ---- PReLU, layer and group norm, resizing ------------------------- */

/* Sums d, of the shape of x, over all dimensions of which the operand (aligned
 * at the last) has one element or none. */
static void sum_to(const struct kern_tensor *x, const double *d,
                   const struct kern_tensor *operand, double *sum)
{
    const int lead = x->rank - operand->rank;

    memset(sum, 0, MAX * sizeof(*sum));
    for (int64_t i = 0; i < kern_tensor_count(x); i++) {
        int64_t rest = i, at = 0;
        for (int k = x->rank - 1; k >= 0; k--) {
            const int64_t index = rest % x->dim[k];
            rest /= x->dim[k];
            if (k >= lead && operand->dim[k - lead] > 1)
                at += index * operand->stride[k - lead];
        }
        sum[at] += d[i];
    }
}

/* f takes x and an operand.  The dgrad gives one gradient per element of x for
 * the operand too; sum_to() reduces them to the shape of *operand, which
 * broadcasts to x. */
static void check_pair(struct run *f, struct run *b,
                       const struct kern_tensor *operand)
{
    double g[MAX], sum[MAX];

    for (int i = 0; i < MAX; i++)
        g[i] = real();
    copy(b, 0, &f->p.out[0], g);
    copy(b, 1, &f->p.in[0], f->in[0]);
    if (operand)
        copy(b, 2, &f->p.in[1], f->in[1]);
    like(b, 0, &f->p.in[0]);
    like(b, 1, &f->p.in[0]);
    launch(b);
    expect_slope(f, 0, g, b->out[0]);
    if (operand) {
        sum_to(&f->p.in[0], b->out[1], operand, sum);
        expect_slope(f, 1, g, sum);
    }
    /* An existing gradient is added to. */
    memcpy(sum, b->out[0], sizeof(sum));
    copy(b, 3, &b->p.out[0], g);
    launch(b);
    for (int64_t i = 0; i < kern_tensor_count(&b->p.out[0]); i++)
        expect("sum", i, b->out[0][i], sum[i] + g[i]);
    free(f);
    free(b);
}

TEST(test_prelu)
{
    struct run *f = new_run(KERN_PRELU), *b = new_run(KERN_PRELU_DGRAD);

    input(f, 0, DIMS(2, 3, 2, 4));
    input(f, 1, DIMS(3, 1, 1));
    output(f, 0, DIMS(2, 3, 2, 4));
    check_pair(f, b, &f->p.in[1]);
}

static void check_layer_norm(bool rms, bool scale)
{
    struct run *f = new_run(KERN_LAYER_NORM);
    struct run *b = new_run(KERN_LAYER_NORM_DGRAD);

    f->p.attr.norm = b->p.attr.norm =
        (struct kern_norm){.epsilon = 1e-3f, .axis = 2, .rms = rms};
    input(f, 0, DIMS(2, 3, 4, 5));
    if (scale)
        input(f, 1, DIMS(4, 5));
    output(f, 0, DIMS(2, 3, 4, 5));
    check_pair(f, b, scale ? &f->p.in[1] : NULL);
}

static void check_group_norm(int groups, bool scale)
{
    const int64_t dim[4] = {1, 6, 1, 1};
    const struct kern_tensor channels =
        kern_tensor_dense(INFER_F64, 4, dim, KERN_NCHW);
    struct run *f = new_run(KERN_GROUP_NORM);
    struct run *b = new_run(KERN_GROUP_NORM_DGRAD);

    f->p.attr.norm = b->p.attr.norm =
        (struct kern_norm){.epsilon = 1e-3f, .groups = groups};
    input(f, 0, DIMS(2, 6, 2, 3));
    if (scale)
        input(f, 1, DIMS(6));
    output(f, 0, DIMS(2, 6, 2, 3));
    check_pair(f, b, scale ? &channels : NULL);
}

TEST(test_norms)
{
    for (int i = 0; i < 4; i++)
        check_layer_norm(i & 1, i & 2);
    check_group_norm(1, true);
    check_group_norm(3, true);
    check_group_norm(3, false);
    check_group_norm(6, true); /* instance norm */
}

static void check_resize(enum kern_resize_mode mode,
                         enum kern_resize_coord coord, bool antialias,
                         int64_t height, int64_t width)
{
    struct run *f = new_run(KERN_RESIZE), *b = new_run(KERN_RESIZE_DGRAD);
    struct kern_resize *a = &f->p.attr.resize;
    double g[MAX];

    *a = (struct kern_resize){
        .mode = mode,
        .coord = coord,
        .nearest = KERN_FLOOR_NEAREST,
        .cubic_a = -0.75f,
        .antialias = antialias,
        .scale = {1, 1, (float)height / 4.0f, (float)width / 5.0f}};
    b->p.attr.resize = *a;
    input(f, 0, DIMS(2, 2, 4, 5));
    output(f, 0, DIMS(2, 2, height, width));
    for (int i = 0; i < MAX; i++)
        g[i] = real();
    copy(b, 0, &f->p.out[0], g);
    like(b, 0, &f->p.in[0]);
    launch(b);
    expect("<dy, y> and <dx, x>", 0, dot(&f->p.in[0], f->in[0], b->out[0]),
           loss(f, g));
    expect_slope(f, 0, g, b->out[0]);
    free(f);
    free(b);
}

TEST(test_resize)
{
    check_resize(KERN_NEAREST, KERN_ASYMMETRIC, false, 8, 10);
    check_resize(KERN_BILINEAR, KERN_HALF_PIXEL, false, 8, 7);
    check_resize(KERN_BILINEAR, KERN_ALIGN_CORNERS, false, 7, 9);
    check_resize(KERN_BILINEAR, KERN_HALF_PIXEL, true, 2, 3);
    check_resize(KERN_BICUBIC, KERN_HALF_PIXEL, false, 6, 10);
}

/* ---- batch norm ---------------------------------------------------- */

/* by_sign: the dgrad takes a bit mask of y > 0 instead of y. */
static void check_batch_norm(struct kern_unary act, bool by_sign)
{
    struct run *f = new_run(KERN_BATCH_NORM_TRAIN);
    struct run *b = new_run(KERN_BATCH_NORM_DGRAD);
    const struct kern_norm attr = {.epsilon = 1e-3f, .momentum = 0.1f};
    double g[MAX];

    f->p.attr.norm = b->p.attr.norm = attr;
    f->p.epilogue.act = b->p.epilogue.act = act;
    input(f, 0, DIMS(3, 16, 2, 3));
    for (int i = 1; i <= 2; i++)
        input(f, i, DIMS(16));
    input(f, 5, DIMS(3, 16, 2, 3));
    output(f, 0, DIMS(3, 16, 2, 3));
    output(f, 1, DIMS(16));
    output(f, 2, DIMS(16));
    if (by_sign) {
        output(f, 5, DIMS(3, 2, 2, 3));
        f->p.out[5].dtype = INFER_U8;
    }
    for (int i = 0; i < MAX; i++)
        g[i] = real();
    launch(f);
    copy(b, 0, &f->p.out[0], g);
    copy(b, 1, &f->p.in[0], f->in[0]);
    copy(b, 2, &f->p.in[1], f->in[1]);
    copy(b, 3, &f->p.out[1], f->out[1]);
    copy(b, 4, &f->p.out[2], f->out[2]);
    copy(b, 5, &f->p.out[0], f->out[0]);
    if (by_sign) {
        b->p.in[5] = f->p.out[5];
        b->other[5] = f->out[5];
    }
    like(b, 0, &f->p.in[0]);
    like(b, 1, &f->p.in[1]);
    like(b, 2, &f->p.in[1]);
    like(b, 3, &f->p.in[0]);
    launch(b);
    expect_slope(f, 0, g, b->out[0]);
    expect_slope(f, 1, g, b->out[1]);
    expect_slope(f, 2, g, b->out[2]);
    expect_slope(f, 5, g, b->out[3]);
    free(f);
    free(b);
}

TEST(test_batch_norm)
{
    check_batch_norm((struct kern_unary){KERN_IDENTITY, 0, 0}, false);
    check_batch_norm((struct kern_unary){KERN_RELU, 0, 0}, false);
    check_batch_norm((struct kern_unary){KERN_RELU, 0, 0}, true);
    check_batch_norm((struct kern_unary){KERN_LEAKY_RELU, 0.1f, 0}, false);
    check_batch_norm((struct kern_unary){KERN_SIGMOID, 0, 0}, false);
}

/* Running statistics: momentum, and n - 1 below the variance. */
TEST(test_running)
{
    struct run *f = new_run(KERN_BATCH_NORM_TRAIN);

    f->p.attr.norm.momentum = 0.25f;
    input(f, 0, DIMS(4, 1));
    for (int i = 1; i <= 4; i++)
        input(f, i, DIMS(1));
    output(f, 0, DIMS(4, 1));
    for (int i = 1; i <= 4; i++)
        output(f, i, DIMS(1));
    for (int i = 0; i < 4; i++)
        f->in[0][i] = i; /* mean 1.5, variance 1.25, estimated 5/3 */
    f->in[3][0] = 2;
    f->in[4][0] = 1;
    launch(f);
    expect("mean", 0, f->out[1][0], 1.5);
    expect("inverse deviation", 0, f->out[2][0], 1 / sqrt(1.25));
    expect("running mean", 0, f->out[3][0], 2 + 0.25 * (1.5 - 2));
    expect("running variance", 0, f->out[4][0], 1 + 0.25 * (5.0 / 3 - 1));
    free(f);
}

/* ---- loss ---------------------------------------------------------- */

TEST(test_cross_entropy)
{
    static const int32_t label[4] = {2, 0, -1, 4};
    struct run *f = new_run(KERN_CROSS_ENTROPY);
    double gradient[MAX], ones[MAX];

    f->p.attr.cross_entropy.smoothing = 0.1f;
    f->p.attr.cross_entropy.scale = 1;
    input(f, 0, DIMS(4, 5));
    special(f, 1, INFER_I32, label, 4);
    output(f, 0, DIMS(4));
    output(f, 1, DIMS(4, 5));
    output(f, 2, DIMS(4));
    f->in[0][2] = 9; /* picture 0 is right, picture 1 is not */
    f->in[0][8] = 9;
    launch(f);
    memcpy(gradient, f->out[1], sizeof(gradient));
    for (int i = 0; i < MAX; i++)
        ones[i] = 1;
    expect("hit", 0, f->out[2][0], 1);
    expect("hit", 1, f->out[2][1], 0);
    expect("a row that fills up", 0, f->out[0][2], 0);
    expect_slope(f, 0, ones, gradient);
    free(f);
}

/* ---- dropout ------------------------------------------------------- */

/* Known answers of Random123. */
TEST(test_philox)
{
    static const uint32_t zero[4] = {0, 0, 0, 0};
    static const uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t of_zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                        0x9b00dbd8};
    static const uint32_t of_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                        0x6d5451fd};

    const struct philox_words a = philox(zero, 0);
    const struct philox_words b = philox(ones, ~(uint64_t)0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(a.word[i], of_zero[i]);
        assert_int_equal(b.word[i], of_ones[i]);
    }
}

/* The same mask in any layout and another one for every offset; what is kept
 * grows so that the mean stays. */
TEST(test_dropout)
{
    uint64_t random[2] = {42, 7};
    struct run *a = new_run(KERN_DROPOUT);
    double first[MAX];
    int kept = 0, moved = 0;

    a->p.attr.dropout.ratio = 0.25f;
    input(a, 0, DIMS(4, 16, 4, 4));
    output(a, 0, DIMS(4, 16, 4, 4));
    special(a, 1, INFER_U64, random, 2);
    for (int i = 0; i < MAX; i++)
        a->in[0][i] = 3;
    launch(a);
    memcpy(first, a->out[0], sizeof(first));
    for (int i = 0; i < MAX; i++) {
        kept += first[i] != 0;
        expect("kept or not", i, first[i], first[i] != 0 ? 4 : 0);
    }
    assert_in_range(kept, MAX * 70 / 100, MAX * 80 / 100);
    a->p.out[0] = kern_tensor_dense(INFER_F64, DIMS(4, 16, 4, 4), KERN_NHWC);
    launch(a);
    for (int n = 0; n < 4; n++)
        for (int c = 0; c < 16; c++)
            for (int i = 0; i < 16; i++)
                expect("layout", i, a->out[0][(n * 16 + i) * 16 + c],
                       first[(n * 16 + c) * 16 + i]);
    a->p.out[0] = a->p.in[0];
    random[1]++;
    launch(a);
    for (int i = 0; i < MAX; i++)
        moved += a->out[0][i] != first[i];
    assert_in_range(moved, MAX / 5, MAX / 2);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),    cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_pool),    cmocka_unit_test(test_pool_ties),
        cmocka_unit_test(test_reduce),  cmocka_unit_test(test_unary),
        cmocka_unit_test(test_lrn),     cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_running), cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_philox),  cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_prelu),   cmocka_unit_test(test_norms),
        cmocka_unit_test(test_resize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
