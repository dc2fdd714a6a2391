/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that multiply through a table, and their gradients by it or by its
 * derivatives, against sums over all pairs of operands: the order of operands,
 * groups, padding, and the edges of IEEE 754. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern.h"
#include "kernels/table/product_slope.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/test.h"

#define BITS   2
#define SIDE   (1 << BITS)
#define MOST   2048 /* elements of a tensor */
#define TRIALS 40

/* ---- geometry ------------------------------------------------------ */

/* A convolution of x by w to y; its transpose is one of y by w to x. */
struct shape {
    int n, c, k, in, window, stride, dilation, begin, end, groups;
    bool dense;
};

static const struct shape shapes[] = {
    {.n = 2,
     .c = 3,
     .k = 4,
     .in = 5,
     .window = 3,
     .stride = 1,
     .dilation = 1,
     .begin = 1,
     .end = 1,
     .groups = 1},
    {.n = 1,
     .c = 4,
     .k = 6,
     .in = 6,
     .window = 3,
     .stride = 2,
     .dilation = 1,
     .begin = 1,
     .end = 2,
     .groups = 2},
    {.n = 2,
     .c = 5,
     .k = 5,
     .in = 6,
     .window = 3,
     .stride = 1,
     .dilation = 2,
     .begin = 2,
     .end = 1,
     .groups = 5},
    {.n = 1,
     .c = 3,
     .k = 6,
     .in = 7,
     .window = 2,
     .stride = 2,
     .dilation = 1,
     .begin = 0,
     .end = 1,
     .groups = 3},
    {.n = 3,
     .c = 9,
     .k = 7,
     .in = 1,
     .window = 1,
     .stride = 1,
     .dilation = 1,
     .groups = 1,
     .dense = true},
};

static int out_of(const struct shape *s)
{
    return (s->in + s->begin + s->end - s->dilation * (s->window - 1) - 1) /
               s->stride +
           1;
}

/* The tensors: x, w, y. */
enum { X, W, Y, TENSORS };

static struct kern_tensor tensor_of(const struct shape *s, int which)
{
    const int out = out_of(s);
    const int64_t dim[TENSORS][4] = {
        {s->n, s->c, s->in, s->in},
        {s->k, s->c / s->groups, s->window, s->window},
        {s->n, s->k, out, out}};

    return kern_tensor_dense(INFER_F32, s->dense ? 2 : 4, dim[which],
                             KERN_NCHW);
}

typedef void pair_function(void *context, int64_t x, int64_t w, int64_t y);

/* Calls f for every x and w that meet, and the y they are summed to. */
static void each_pair(const struct shape *s, pair_function *f, void *context)
{
    const int out = out_of(s), cg = s->c / s->groups, kg = s->k / s->groups;
    const int pixels = out * out, taps = s->window * s->window;

    for (int64_t y = 0; y < (int64_t)s->n * s->k * pixels; y++)
        for (int i = 0; i < cg * taps; i++) {
            const int k = (int)(y / pixels % s->k);
            const int c = k / kg * cg + i / taps;
            const int r = i / s->window % s->window, q = i % s->window;
            const int h =
                (int)(y / out % out) * s->stride - s->begin + r * s->dilation;
            const int v =
                (int)(y % out) * s->stride - s->begin + q * s->dilation;
            if (h < 0 || h >= s->in || v < 0 || v >= s->in)
                continue;
            const int64_t n = y / pixels / s->k;
            f(context, ((n * s->c + c) * s->in + h) * s->in + v,
              (int64_t)k * cg * taps + i, y);
        }
}

/* ---- a case -------------------------------------------------------- */

/* One of the sums of a layer: which tensors are in[0], in[1] and the output.
 * Of derivatives, the operand at the output's place is the point, and in[]
 * `gradient` the gradient. */
struct sum {
    enum kern_op op;
    int first, second, out;
    int point; /* in[] of the point */
    int gradient;
};

static const struct sum products[] = {
    {KERN_CONV_FPROP, X, W, Y, 0, 0},
    {KERN_CONV_TRANSPOSE_FPROP, Y, W, X, 0, 0},
    {KERN_CONV_WGRAD, X, Y, W, 0, 0},
    {KERN_DENSE_FPROP, X, W, Y, 0, 0}};
/* Gradients of a convolution, then of a transposed one. */
static const struct sum slopes[] = {
    {KERN_CONV_TRANSPOSE_FPROP, Y, W, X, PRODUCT_POINT_IN, 0},
    {KERN_CONV_WGRAD, X, Y, W, PRODUCT_POINT_IN, 1},
    {KERN_CONV_FPROP, X, W, Y, PRODUCT_POINT_IN, 0},
    {KERN_CONV_WGRAD, X, Y, W, PRODUCT_POINT_FIRST_IN, 0}};

struct trial {
    const struct shape *shape;
    const struct sum *sum;
    uint32_t table[SIDE * SIDE];
    float slope[SIDE * SIDE];
    float data[TENSORS][MOST]; /* the output's place: the point */
    double want[MOST];
};

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void add_pair(void *context, int64_t x, int64_t w, int64_t y)
{
    struct trial *t = context;
    const int64_t at[TENSORS] = {x, w, y};
    const struct sum *s = t->sum;
    const float a = t->data[s->first][at[s->first]];
    const float b = t->data[s->second][at[s->second]];
    double *sum = &t->want[at[s->out]];

    if (!s->point) {
        *sum += (double)product_table_product(t->table, BITS, a, b);
        return;
    }
    const float g = s->gradient ? b : a, q = s->gradient ? a : b;
    const float o = t->data[s->out][at[s->out]];
    const uint32_t i = product_table_index(BITS, bits_of(o)) << BITS |
                       product_table_index(BITS, bits_of(q));
    *sum += (double)(g * product_slope(t->slope[i], bits_of(q)));
}

static struct kern_problem problem_of(const struct trial *t)
{
    const int64_t side[2] = {SIDE, SIDE};
    const struct shape *s = t->shape;
    struct kern_problem p = {
        .op = t->sum->op, .n_in = PRODUCT_TABLE_IN + 1, .n_out = 1};

    p.attr.conv.groups = s->groups;
    for (int i = 0; i < 2; i++) {
        p.attr.conv.stride[i] = s->stride;
        p.attr.conv.dilation[i] = s->dilation;
        p.attr.conv.pad_begin[i] = s->begin;
        p.attr.conv.pad_end[i] = s->end;
    }
    p.in[0] = tensor_of(s, t->sum->first);
    p.in[1] = tensor_of(s, t->sum->second);
    p.out[0] = tensor_of(s, t->sum->out);
    p.in[PRODUCT_TABLE_IN] = kern_tensor_dense(
        t->sum->point ? INFER_F32 : INFER_U32, 2, side, KERN_NCHW);
    if (t->sum->point) {
        p.in[t->sum->point] = p.out[0];
        p.n_in = KERN_MAX_IN;
    }
    return p;
}

/* Whether a row takes the problem; its output is the expected one then. */
static bool check_row(const struct kern_row *row, struct trial *t)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    const struct kern_problem p = problem_of(t);
    struct infer_error err = {0};
    struct kern_exec e;
    float out[MOST];

    if (row->op != p.op || kern_row_supports(row, &p, &cpu, NULL) < 0)
        return false;
    assert_int_equal(kern_prepare(row, &p, &cpu, &err, &e), 0);
    void *workspace = aligned_alloc(64, (e.workspace + 127) / 64 * 64);
    struct kern_args args = {
        .in = {t->data[t->sum->first], t->data[t->sum->second]},
        .out = {out},
        .workspace = workspace};
    args.in[PRODUCT_TABLE_IN] =
        t->sum->point ? (const void *)t->slope : t->table;
    if (t->sum->point)
        args.in[t->sum->point] = t->data[t->sum->out];
    assert_int_equal(row->fn->launch(&e, &args, &err), 0);
    kern_release(&e);
    free(workspace);
    for (int64_t i = 0; i < kern_tensor_count(&p.out[0]); i++) {
        const float want = (float)t->want[i];
        if (isnan(want) ? !isnan(out[i]) : bits_of(out[i]) != bits_of(want))
            fail_msg("%s, shape %d: output %lld is %a, not %a", row->name,
                     (int)(t->shape - shapes), (long long)i, (double)out[i],
                     (double)want);
    }
    return true;
}

/* ---- data ---------------------------------------------------------- */

static uint64_t state = 5;

static uint32_t next_random(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Significands of 3 bits, exponents 1 and 2: any product with the largest
 * numbers overflows, and sums are exact. */
static float plain(void)
{
    const float v = (float)(8 + next_random(8)) / 4;

    return (next_random(2) ? -v : v) * (next_random(2) ? 2 : 1);
}

/* One of the first `count` edges. */
static float edge(uint32_t count)
{
    static const float edges[] = {0.0f,       -0.0f,      INFINITY,
                                  -INFINITY,  NAN,        0x1p-149f,
                                  -0x1p-127f, 0x1.8p127f, -0x1p127f};

    assert_true(count <= COUNT(edges));
    return edges[next_random(count)];
}

/* How many edges a tensor may hold: products of derivatives are of single
 * precision, neither flushed nor limited, so that sums with the least and the
 * largest gradients would depend on their order. */
static uint32_t edges_of(const struct sum *s, int tensor)
{
    if (!s->point)
        return 9;
    return tensor == (s->gradient ? s->second : s->first) ? 5 : 7;
}

/* Numbers whose products lie on both sides of the least normal one. */
static float small(void)
{
    return ldexpf((float)(4 + next_random(4)), -66 + (int)next_random(3));
}

/* Of one sign, now and then so large that a derivative overflows. */
static float steep(void)
{
    return next_random(4) ? fabsf(plain()) : 0x1.8p127f;
}

enum kind { PLAIN, EDGES, UNDERFLOW, STEEP };

static void fill(struct trial *t, enum kind kind)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        t->table[i] = next_random(16) << 20; /* carry and 3 bits */
        t->slope[i] = (float)next_random(9) / 4 - 1;
        if (kind == STEEP)
            t->slope[i] = next_random(8) ? 2 : INFINITY;
    }
    for (int i = 0; i < TENSORS; i++) {
        for (int k = 0; k < MOST; k++)
            t->data[i][k] = kind == UNDERFLOW ? small()
                            : kind == STEEP   ? steep()
                                              : plain();
        const struct kern_tensor shape = tensor_of(t->shape, i);
        for (int k = 0; kind == EDGES && k < 2; k++)
            t->data[i][next_random((uint32_t)kern_tensor_count(&shape))] =
                edge(edges_of(t->sum, i));
    }
    memset(t->want, 0, sizeof t->want);
}

/* Both rows of each sum, over all shapes that its operation takes. */
static void check(const struct sum *sums, int count, enum kind kind)
{
    struct trial *t = malloc(sizeof *t);

    assert_non_null(t);
    for (int i = 0; i < TRIALS * count * (int)COUNT(shapes); i++) {
        t->sum = &sums[i % count];
        t->shape = &shapes[i / count % (int)COUNT(shapes)];
        if (t->shape->dense != (t->sum->op == KERN_DENSE_FPROP))
            continue;
        int rows = 0;
        fill(t, kind);
        each_pair(t->shape, add_pair, t);
        for (size_t r = 0; r < kern_row_count(); r++)
            rows += check_row(kern_row_at(r), t);
        assert_int_equal(rows, 2); /* the reference and the CPU's */
    }
    free(t);
}

TEST(test_products)
{
    check(products, COUNT(products), PLAIN);
}

TEST(test_product_edges)
{
    check(products, COUNT(products), EDGES);
}

TEST(test_product_underflow)
{
    check(products, COUNT(products), UNDERFLOW);
}

TEST(test_slopes)
{
    check(slopes, COUNT(slopes), PLAIN);
}

TEST(test_slope_edges)
{
    check(slopes, COUNT(slopes), EDGES);
}

/* Padding has no product, which would be that of zero and infinity. */
TEST(test_steep_slopes)
{
    check(slopes, COUNT(slopes), STEEP);
}

/* ---- derivatives of tables ----------------------------------------- */

static struct multiplier *named(const char *name)
{
    struct infer_error err = {0};
    struct multiplier *m = NULL;

    if (multiplier_named(name, &err, &m) < 0)
        fail_msg("%s: %s", name, err.text);
    return m;
}

static float *slopes_of(const struct multiplier *m, bool local, bool second)
{
    struct infer_error err = {0};
    float *slope = NULL;

    if (multiplier_slopes(m, local, second, &err, &slope) < 0)
        fail_msg("%s", err.text);
    return slope;
}

/* The derivative of an exact product is the other operand, at every operand,
 * by both ways, over the ends of a binade too. */
TEST(test_exact_slopes)
{
    static const char *const names[] = {"exact-1", "exact-4", "exact-7",
                                        "exact-9"};

    for (size_t i = 0; i < COUNT(names); i++)
        for (int way = 0; way < 4; way++) {
            struct multiplier *m = named(names[i]);
            float *slope = slopes_of(m, way & 1, way & 2);
            for (size_t k = 0; k < multiplier_entries(m); k++) {
                const double q =
                    multiplier_operand(m, (int)(k & ((1u << m->bits) - 1)));
                assert_true(fabs((double)slope[k] - q) < 1e-6);
            }
            free(slope);
            multiplier_free(m);
        }
}

/* Mitchell's product is 1 + x + y up to x + y = 1 and twice x + y beyond. */
TEST(test_mitchell_slopes)
{
    struct multiplier *m = named("mitchell-7");
    float *near = slopes_of(m, true, false), *all = slopes_of(m, false, false);

    for (int o = 8; o < 120; o++)
        for (int q = 0; q < 128; q++) {
            const int kink = o + q - 128;
            if (kink < -8 || kink > 8)
                assert_true(
                    fabs((double)near[o << 7 | q] - (kink < 0 ? 1 : 2)) < 1e-6);
            assert_true(all[o << 7 | q] == all[q]);
        }
    /* The products of the binade below o = 1 have the other slope. */
    assert_true(near[64] > 1.0f && near[64] < 2.0f);
    assert_true(fabs((double)all[1] - 1) < 1e-6 && all[1] < all[64] &&
                all[64] < all[127] && all[127] > 1.99f);
    free(near);
    free(all);
    multiplier_free(m);
}

/* With respect to the second operand the table is read by columns. */
TEST(test_second_operand)
{
    struct multiplier *m = named("mbm-4"), *turned = named("mbm-4");

    for (int i = 0; i < 256; i++)
        m->table[i] = (int32_t)(next_random(16) << 20);
    for (int i = 0; i < 256; i++)
        turned->table[(i & 15) << 4 | i >> 4] = m->table[i];
    for (int local = 0; local < 2; local++) {
        float *a = slopes_of(m, local, true);
        float *b = slopes_of(turned, local, false);
        float *other = slopes_of(m, local, false);
        assert_memory_equal(a, b, 256 * sizeof *a);
        assert_memory_not_equal(a, other, 256 * sizeof *a);
        free(a);
        free(b);
        free(other);
    }
    multiplier_free(m);
    multiplier_free(turned);
}

/* ---- refusals ------------------------------------------------------ */

static void refused(struct kern_problem p, const char *text)
{
    struct infer_error why = {0};

    assert_int_equal(kern_problem_check(&p, &why), INFER_EUNSUPPORTED);
    assert_non_null(strstr(why.text, text));
}

TEST(test_wrong_points)
{
    struct trial t = {.shape = &shapes[0], .sum = &slopes[0]};
    struct kern_problem p = problem_of(&t), q = p;

    assert_int_equal(kern_problem_check(&p, NULL), 0);
    q.in[PRODUCT_POINT_IN].dtype = INFER_NONE;
    refused(q, "needs the operand");
    q = p;
    q.in[PRODUCT_POINT_IN].dtype = INFER_BF16;
    refused(q, "needs the operand");
    q = p;
    q.in[PRODUCT_POINT_IN].dim[1]++;
    refused(q, "has shape");
    q = p;
    q.in[PRODUCT_TABLE_IN].dtype = INFER_U32;
    refused(q, "needs a table of derivatives");
    q.in[PRODUCT_TABLE_IN].dtype = INFER_NONE;
    refused(q, "needs a table of derivatives");
    t.sum = &slopes[1];
    q = problem_of(&t);
    q.in[PRODUCT_POINT_FIRST_IN] = q.in[PRODUCT_POINT_IN];
    refused(q, "needs a table of derivatives");
    t.shape = &shapes[4];
    t.sum = &products[3];
    q = problem_of(&t);
    q.in[PRODUCT_TABLE_IN].dtype = INFER_F32;
    refused(q, "takes no table of derivatives");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_product_edges),
        cmocka_unit_test(test_product_underflow),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_slope_edges),
        cmocka_unit_test(test_steep_slopes),
        cmocka_unit_test(test_exact_slopes),
        cmocka_unit_test(test_mitchell_slopes),
        cmocka_unit_test(test_second_operand),
        cmocka_unit_test(test_wrong_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
