/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators of products: their adders against models of their own (gates of
 * a ripple-carry adder; rounding in double precision), layers against sums in
 * the stated order, their words, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern.h"
#include "kernels/table/accumulator.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/test.h"

static uint64_t state = 11;

static uint32_t next_random(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* Any bits, the exponent from `least` on, one of `count`. */
static float number(uint32_t least, uint32_t count)
{
    const uint32_t fraction = next_random(1 << 23);

    return float_of_bits(next_random(2) << 31 |
                         (least + next_random(count)) << 23 | fraction);
}

/* ---- models -------------------------------------------------------- */

static double flushed(double v)
{
    return fabs(v) < 0x1p-126 ? 0 : v;
}

static float to_bf16(float v)
{
    int e;
    const double m = frexp((double)v, &e);

    return isfinite(v) ? (float)ldexp(rint(m * 256) / 256, e) : v;
}

/* Gates of 24 bits: the lowest k are ors. */
static float loa(float a, float b, int k)
{
    const float large = fabsf(a) >= fabsf(b) ? a : b;
    const float small = fabsf(a) >= fabsf(b) ? b : a;
    const bool differ = signbit(a) != signbit(b);
    const int ulp = ilogbf(large) - 23;
    const uint32_t x = (uint32_t)ldexp(fabs((double)large), -ulp);
    const uint32_t cut = (uint32_t)trunc(ldexp(fabs((double)small), -ulp));
    uint32_t sum = 0, carry = differ && k == 0;

    if (cut == 0)
        return large;
    for (int i = 0; i < 24; i++) {
        const uint32_t p = x >> i & 1, q = (cut >> i & 1) ^ (uint32_t)differ;
        if (i < k) {
            sum |= (p | q) << i;
            carry = p & q; /* that of the last one counts */
            continue;
        }
        sum |= (p ^ q ^ carry) << i;
        carry = p + q + carry > 1;
    }
    if (differ && !carry)
        return 0;
    if (!differ && carry)
        sum = (sum | 1u << 24) & ~1u;
    const double size = ldexp(sum, ulp);
    return (float)copysign(flushed(size >= 0x1p128 ? (double)INFINITY : size),
                           (double)large);
}

static float model(int kind, int k, float sum, float term)
{
    if (flushed((double)term) == 0)
        return sum;
    if (sum == 0)
        return kind == ACCUMULATOR_BF16 ? to_bf16(term) : term;
    if (kind == ACCUMULATOR_LOA && isfinite(sum) && isfinite(term))
        return loa(sum, term, k);
    const float v = (float)flushed((double)(sum + term));
    return kind == ACCUMULATOR_BF16 ? to_bf16(v) : v;
}

static bool same(float a, float b)
{
    return isnan(a) ? isnan(b) : a == b;
}

static void expect_sum(int kind, int k, float a, float b)
{
    const float want = model(kind, k, a, b);
    const float found =
        float_of_bits(accumulator_add(kind, k, float_bits(a), float_bits(b)));

    if (!same(want, found))
        fail_msg("kind %d-%d: %a + %a is %a, not %a", kind, k, (double)a,
                 (double)b, (double)found, (double)want);
}

TEST(test_adders)
{
    for (int kind = 0; kind < ACCUMULATOR_KINDS; kind++)
        for (int i = 0; i < 40000; i++) {
            const int k = (int)next_random(ACCUMULATOR_MAX_LOWER + 1);
            const uint32_t least = 1 + next_random(250);
            const uint32_t count =
                1 + next_random(255 - least < 30 ? 255 - least : 30);
            float a = number(least, count);
            if (kind == ACCUMULATOR_BF16)
                a = to_bf16(a);
            expect_sum(kind, k, a, number(least, count));
            expect_sum(kind, k, a, -a);
        }
}

TEST(test_edges)
{
    static const float edges[] = {0.0f,      -0.0f,     INFINITY,
                                  -INFINITY, NAN,       0x1p-149f,
                                  0x1p-126f, -0x1p127f, 0x1.fffffep127f};

    for (int kind = 0; kind < ACCUMULATOR_KINDS; kind++)
        for (size_t i = 0; i < COUNT(edges); i++)
            for (size_t j = 0; j < COUNT(edges); j++)
                if (fabsf(edges[i]) != 0x1p-149f)
                    expect_sum(kind, 8, edges[i], edges[j]);
}

/* ---- layers -------------------------------------------------------- */

/* A convolution of x by w to y; its transpose is one of y by w to x. */
struct shape {
    int n, c, k, in, window, stride, dilation, pad, groups;
};

static const struct shape shapes[] = {
    {2, 6, 4, 7, 3, 2, 1, 1, 2},
    {1, 25, 40, 6, 3, 1, 2, 2, 1},
    {3, 5, 5, 5, 2, 1, 1, 0, 5},
    {1, 470, 2, 3, 3, 1, 1, 1, 1}, /* sums of several runs */
    {2, 2, 1, 50, 1, 1, 1, 0, 1},
    {1, 2, 460, 3, 3, 1, 1, 1, 1},
    {3, 4200, 3, 1, 1, 1, 1, 0, 1}, /* a dense layer too */
};

enum { X, W, Y, TENSORS };

static int out_of(const struct shape *s)
{
    return (s->in + 2 * s->pad - s->dilation * (s->window - 1) - 1) /
               s->stride +
           1;
}

static struct kern_tensor tensor_of(const struct shape *s, int which, int rank)
{
    const int out = out_of(s);
    const int64_t dim[TENSORS][4] = {
        {s->n, s->c, s->in, s->in},
        {s->k, s->c / s->groups, s->window, s->window},
        {s->n, s->k, out, out}};

    return kern_tensor_dense(INFER_F32, rank, dim[which], KERN_NCHW);
}

/* Three levels of a sum. */
struct sum {
    float chunk, run, total;
    int terms;
};

#define BITS 3
#define SIDE (1 << BITS)

struct trial {
    const struct shape *shape;
    int32_t accumulator[2];
    uint32_t table[SIDE * SIDE];
    float *data[TENSORS];
};

static float add(const struct trial *t, float a, float b)
{
    return model(t->accumulator[0], t->accumulator[1], a, b);
}

static void take(const struct trial *t, struct sum *s, float product)
{
    s->chunk = add(t, s->chunk, product);
    if (++s->terms % 64 == 0) {
        s->run = add(t, s->run, s->chunk);
        s->chunk = 0;
    }
    if (s->terms % 4096 == 0) {
        s->total = add(t, s->total, s->run);
        s->run = 0;
    }
}

static float total(const struct trial *t, const struct sum *s)
{
    return add(t, s->total, add(t, s->run, s->chunk));
}

/* The product at (n, k, p, q) and tap (c, r, s), c in its group; 0 outside. */
static float product(const struct trial *t, int op, const int *pixel,
                     const int *tap)
{
    const struct shape *s = t->shape;
    const int out = out_of(s), n = pixel[0], k = pixel[1];
    const int c = k / (s->k / s->groups) * (s->c / s->groups) + tap[0];
    const int h = pixel[2] * s->stride - s->pad + tap[1] * s->dilation;
    const int v = pixel[3] * s->stride - s->pad + tap[2] * s->dilation;

    if (h < 0 || h >= s->in || v < 0 || v >= s->in)
        return 0;
    const float x = t->data[X][((n * s->c + c) * s->in + h) * s->in + v];
    const float w =
        t->data[W][((k * (s->c / s->groups) + tap[0]) * s->window + tap[1]) *
                       s->window +
                   tap[2]];
    const float y =
        t->data[Y][((n * s->k + k) * out + pixel[2]) * out + pixel[3]];
    return op == KERN_CONV_FPROP ? product_table_product(t->table, BITS, x, w)
           : op == KERN_CONV_WGRAD
               ? product_table_product(t->table, BITS, x, y)
               : product_table_product(t->table, BITS, y, w);
}

static float forward(const struct trial *t, int i)
{
    const struct shape *s = t->shape;
    const int out = out_of(s);
    const int pixel[4] = {i / out / out / s->k, i / out / out % s->k,
                          i / out % out, i % out};
    struct sum sum = {0};

    for (int r = 0; r < s->window; r++)
        for (int q = 0; q < s->window; q++)
            for (int c = 0; c < s->c / s->groups; c++)
                take(t, &sum,
                     product(t, KERN_CONV_FPROP, pixel, (int[]){c, r, q}));
    return total(t, &sum);
}

/* Where along one axis an output lies that reads input i by tap r; -1: none. */
static int reader(const struct shape *s, int i, int r)
{
    const int at = i + s->pad - r * s->dilation;

    return at < 0 || at % s->stride || at / s->stride >= out_of(s)
               ? -1
               : at / s->stride;
}

static float to_input(const struct trial *t, int i)
{
    const struct shape *s = t->shape;
    const int h = i / s->in % s->in, v = i % s->in;
    const int c = i / s->in / s->in % s->c, n = i / s->in / s->in / s->c;
    const int per = s->k / s->groups, group = c / (s->c / s->groups);
    struct sum sum = {0};

    for (int r = 0; r < s->window; r++)
        for (int q = 0; q < s->window; q++)
            for (int k = 0; k < per; k++) {
                const int pixel[4] = {n, group * per + k, reader(s, h, r),
                                      reader(s, v, q)};
                const int tap[3] = {c % (s->c / s->groups), r, q};
                take(t, &sum,
                     pixel[2] < 0 || pixel[3] < 0
                         ? 0
                         : product(t, KERN_CONV_TRANSPOSE_FPROP, pixel, tap));
            }
    return total(t, &sum);
}

static float to_weight(const struct trial *t, int i)
{
    const struct shape *s = t->shape;
    const int area = s->window * s->window, cg = s->c / s->groups;
    const int tap[3] = {i / area % cg, i / s->window % s->window,
                        i % s->window};
    struct sum sum = {0};

    for (int n = 0; n < s->n; n++)
        for (int p = 0; p < out_of(s); p++)
            for (int q = 0; q < out_of(s); q++)
                take(t, &sum,
                     product(t, KERN_CONV_WGRAD,
                             (int[]){n, i / area / cg, p, q}, tap));
    return total(t, &sum);
}

/* The sums of a layer: which tensors are in[0], in[1] and the output. */
static const struct {
    enum kern_op op;
    int first, second, out;
    float (*want)(const struct trial *, int);
} sums[] = {{KERN_CONV_FPROP, X, W, Y, forward},
            {KERN_CONV_TRANSPOSE_FPROP, Y, W, X, to_input},
            {KERN_CONV_WGRAD, X, Y, W, to_weight},
            {KERN_DENSE_FPROP, X, W, Y, forward}};

static struct kern_problem problem_of(const struct trial *t, int i)
{
    const struct shape *s = t->shape;
    const int64_t side[2] = {SIDE, SIDE}, two[1] = {2};
    const int rank = sums[i].op == KERN_DENSE_FPROP ? 2 : 4;
    const int at = accumulator_in(sums[i].op);
    struct kern_problem p = {
        .op = sums[i].op,
        .n_in = at < PRODUCT_TABLE_IN ? PRODUCT_TABLE_IN + 1 : at + 1,
        .n_out = 1};

    p.attr.conv.groups = s->groups;
    for (int d = 0; d < 2; d++) {
        p.attr.conv.stride[d] = s->stride;
        p.attr.conv.dilation[d] = s->dilation;
        p.attr.conv.pad_begin[d] = p.attr.conv.pad_end[d] = s->pad;
    }
    p.in[0] = tensor_of(s, sums[i].first, rank);
    p.in[1] = tensor_of(s, sums[i].second, rank);
    p.out[0] = tensor_of(s, sums[i].out, rank);
    p.in[PRODUCT_TABLE_IN] = kern_tensor_dense(INFER_U32, 2, side, KERN_NCHW);
    p.in[at] = kern_tensor_dense(INFER_I32, 1, two, KERN_NCHW);
    return p;
}

/* Whether a row takes the problem; its output is the expected one then. */
static bool check_row(const struct kern_row *row, const struct trial *t, int i,
                      const float *want)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    const struct kern_problem p = problem_of(t, i);
    const int64_t count = kern_tensor_count(&p.out[0]);
    struct infer_error err = {0};
    struct kern_exec e;

    if (row->op != p.op || kern_row_supports(row, &p, &cpu, NULL) < 0)
        return false;
    assert_int_equal(kern_prepare(row, &p, &cpu, &err, &e), 0);
    void *workspace = aligned_alloc(64, (e.workspace + 127) / 64 * 64);
    float *out = calloc((size_t)count, sizeof *out);
    struct kern_args args = {
        .in = {t->data[sums[i].first], t->data[sums[i].second]},
        .out = {out},
        .workspace = workspace};
    args.in[PRODUCT_TABLE_IN] = t->table;
    args.in[accumulator_in(p.op)] = t->accumulator;
    assert_int_equal(row->fn->launch(&e, &args, &err), 0);
    kern_release(&e);
    free(workspace);
    for (int64_t k = 0; k < count; k++)
        if (!same(want[k], out[k]))
            fail_msg("%s, shape %d: output %lld is %a, not %a", row->name,
                     (int)(t->shape - shapes), (long long)k, (double)out[k],
                     (double)want[k]);
    free(out);
    return true;
}

static void check_sums(struct trial *t, int i)
{
    const struct kern_problem p = problem_of(t, i);
    const int64_t count = kern_tensor_count(&p.out[0]);
    float *want = calloc((size_t)count, sizeof *want);
    int rows = 0;

    for (int64_t k = 0; k < count; k++)
        want[k] = sums[i].want(t, (int)k);
    for (size_t r = 0; r < kern_row_count(); r++)
        rows += check_row(kern_row_at(r), t, i, want);
    assert_int_equal(rows, 2); /* the reference and the CPU's */
    free(want);
}

TEST(test_layers)
{
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int kind = 0; kind < ACCUMULATOR_KINDS; kind++) {
            struct trial t = {
                .shape = &shapes[s],
                .accumulator = {kind, kind == ACCUMULATOR_LOA ? 9 : 0}};
            for (int i = 0; i < SIDE * SIDE; i++)
                t.table[i] = next_random(1 << 24);
            for (int i = 0; i < TENSORS; i++) {
                const struct kern_tensor shape = tensor_of(t.shape, i, 4);
                const int64_t count = kern_tensor_count(&shape);
                t.data[i] = calloc((size_t)count, sizeof(float));
                for (int64_t k = 0; k < count; k++)
                    t.data[i][k] = number(120, 12);
                if (s < 3) /* and edges */
                    t.data[i][next_random((uint32_t)count)] =
                        next_random(2) ? INFINITY : -0.0f;
            }
            for (int i = 0; i < (int)COUNT(sums); i++)
                if (sums[i].op != KERN_DENSE_FPROP || t.shape->in == 1)
                    check_sums(&t, i);
            for (int i = 0; i < TENSORS; i++)
                free(t.data[i]);
        }
}

/* ---- words --------------------------------------------------------- */

TEST(test_words)
{
    static const char *const good[] = {"fp32", "bf16", "loa-0", "loa-9",
                                       "loa-23"};
    static const char *const bad[] = {"",       "fp16",   "loa",   "loa-",
                                      "loa-24", "loa-08", "loa-x", "loa-1000"};

    for (size_t i = 0; i < COUNT(good); i++) {
        char text[64], word[MULTIPLIER_ACCUMULATOR];
        struct multiplier *m;
        snprintf(text, sizeof text, "drum-4,acc=%s", good[i]);
        assert_int_equal(multiplier_open(text, NULL, &m), 0);
        assert_true(m->accumulated);
        assert_string_equal(m->name, "drum-4");
        assert_string_equal(multiplier_accumulator_word(m->accumulator, word),
                            good[i]);
        multiplier_free(m);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct infer_error err = {0};
        char text[64];
        struct multiplier *m;
        snprintf(text, sizeof text, "drum-4,acc=%s", bad[i]);
        assert_int_equal(multiplier_open(text, &err, &m), INFER_EARGUMENT);
        assert_non_null(strstr(err.text, "loa-K, K from 0 to 23"));
    }
}

TEST(test_integers_refused)
{
    struct multiplier *m = multiplier_new(MULTIPLIER_INTEGER, 8);
    const int32_t bf16[2] = {ACCUMULATOR_BF16, 0};

    assert_int_equal(multiplier_accumulate(m, bf16, NULL), INFER_EUNSUPPORTED);
    multiplier_free(m);
}

static void refused(const struct kern_problem *p, const char *text)
{
    struct infer_error why = {0};

    assert_int_equal(kern_problem_check(p, &why), INFER_EUNSUPPORTED);
    if (!strstr(why.text, text))
        fail_msg("%s", why.text);
}

TEST(test_wrong_problems)
{
    const struct trial t = {.shape = &shapes[0]};
    struct kern_problem p = problem_of(&t, 0), q = p;
    const int at = accumulator_in(p.op);

    assert_int_equal(kern_problem_check(&p, NULL), 0);
    q.in[at].dim[0] = 3;
    refused(&q, "an accumulator is not dense, of 2 numbers");
    q = p;
    q.in[PRODUCT_TABLE_IN].dtype = INFER_NONE;
    refused(&q, "needs a table");
    q = p;
    q.in[PRODUCT_TABLE_IN].stride[1] = -1;
    refused(&q, "negative strides");
}

/* Sums of integers are exact: a table of them takes no accumulator, and nothing
 * is left to free. */
TEST(test_file_of_integers)
{
    static const char path[] = "accumulated-integers.txt";
    struct infer_error err = {0};
    struct multiplier *m;
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < 256; i++)
        fprintf(f, "%d%c", i / 16 * (i % 16), i % 16 == 15 ? '\n' : ' ');
    assert_int_equal(fclose(f), 0);
    assert_int_equal(multiplier_open(path, &err, &m), 0);
    multiplier_free(m);
    assert_int_equal(
        multiplier_open("accumulated-integers.txt,acc=bf16", &err, &m),
        INFER_EUNSUPPORTED);
    assert_null(m);
    assert_int_equal(remove(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adders),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_integers_refused),
        cmocka_unit_test(test_file_of_integers),
        cmocka_unit_test(test_wrong_problems),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
