/* SPDX-License-Identifier: Apache-2.0 */
/* Approximate multipliers: products at the edges of IEEE 754, formulas against
 * what they state, each form of file, damaged files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/scalar.h"
#include "kernels/problem.h"
#include "kernels/base/product_table.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/graph/data.h"
#include "tests/unit/test.h"

static struct multiplier *named(const char *name)
{
    struct infer_error err = {0};
    struct multiplier *m = NULL;

    if (multiplier_open(name, &err, &m) < 0)
        fail_msg("%s: %s", name, err.text);
    return m;
}

static const uint32_t *entries_of(const struct multiplier *m)
{
    return (const uint32_t *)m->table;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- products ------------------------------------------------------ */

static void expect_product(const struct multiplier *m, float x, float y,
                           float want)
{
    const float got = product_table_product(entries_of(m), m->bits, x, y);

    if (bits_of(got) != bits_of(want))
        fail_msg("%s: %a x %a = %a, expected %a", m->name, (double)x, (double)y,
                 (double)got, (double)want);
}

TEST(test_edges)
{
    struct multiplier *m = named("exact-7");
    const float least = 0x1p-126f, most = 0x1.fep127f, tiny = 0x1p-149f;

    expect_product(m, 0.0f, 3.0f, 0.0f);
    expect_product(m, -0.0f, 3.0f, -0.0f);
    expect_product(m, -0.0f, -3.0f, 0.0f);
    /* Subnormal operands are zero of their sign. */
    expect_product(m, tiny, 0x1p127f, 0.0f);
    expect_product(m, -0x1.fcp-127f, 0x1p127f, -0.0f);
    /* The least normal product, and the one below it. */
    expect_product(m, least, 1.0f, least);
    expect_product(m, -least, 1.5f, -0x1.8p-126f);
    expect_product(m, 0x1.8p-126f, 0.5f, 0.0f);
    expect_product(m, -0x1.fep-126f, 0.5f, -0.0f);
    /* A carry lifts a product over the limit. */
    expect_product(m, 0x1.8p-127f * 2, 0x1.8p-1f, 0x1.2p-126f);
    expect_product(m, least, least, 0.0f);
    expect_product(m, most, 1.0f, most);
    expect_product(m, most, 2.0f, INFINITY);
    expect_product(m, -most, 2.0f, -INFINITY);
    expect_product(m, 0x1.8p127f, 0x1.8p0f, INFINITY); /* by the carry */
    expect_product(m, most, most, INFINITY);
    expect_product(m, INFINITY, -2.0f, -INFINITY);
    expect_product(m, -INFINITY, -INFINITY, INFINITY);
    const uint32_t nan = PRODUCT_TABLE_NAN;
    const uint32_t *t = entries_of(m);
    assert_int_equal(product_table_bits(t, 7, bits_of(INFINITY), 0), nan);
    assert_int_equal(product_table_bits(t, 7, 1, bits_of(-INFINITY)), nan);
    assert_int_equal(product_table_bits(t, 7, 0x7f800001, bits_of(1)), nan);
    assert_int_equal(product_table_bits(t, 7, bits_of(1), 0xffc00000), nan);
    assert_int_equal(product_table_bits(t, 7, 0x7fc00000, 0), nan);
    multiplier_free(m);
}

/* The fields of x that the product uses. */
static float cut(float x, int m)
{
    const uint32_t bits = bits_of(x) & ~((UINT32_C(1) << (23 - m)) - 1);
    float y;

    memcpy(&y, &bits, sizeof y);
    return y;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* A number of normal size with any mantissa and sign. */
static float random_number(uint64_t *state)
{
    const float sign = next_random(state) & 1 ? -1.0f : 1.0f;
    const float fraction = (float)(next_random(state) >> 9) * 0x1p-23f;

    return sign * ldexpf(1 + fraction, (int)(next_random(state) % 64) - 32);
}

/* exact-M is the product in single precision wherever that is exact, and
 * rounded-7 the product of bf16 numbers rounded to bf16. */
TEST(test_exact)
{
    char name[32];
    uint64_t state = 1;

    for (int bits = 1; bits <= PRODUCT_TABLE_MAX_BITS; bits++) {
        snprintf(name, sizeof name, "exact-%d", bits);
        struct multiplier *m = named(name);
        for (int i = 0; i < 20000; i++) {
            const float x = random_number(&state), y = random_number(&state);
            expect_product(m, x, y, cut(x, bits) * cut(y, bits));
        }
        multiplier_free(m);
    }
    struct multiplier *m = named("rounded-7");
    for (int i = 0; i < 100000; i++) {
        const float x = cut(random_number(&state), 7);
        const float y = cut(random_number(&state), 7);
        expect_product(m, x, y, scalar_from_bf16(scalar_to_bf16(x * y)));
    }
    multiplier_free(m);
}

/* ---- formulas ------------------------------------------------------ */

static double mitchell(double x, double y, double correction)
{
    const double sum = x + y;
    const double v = sum < 1 ? 1 + sum + correction : 2 * sum + correction;

    return v < 4 ? v : v - correction;
}

/* DRUM on the significand of m bits: K leading bits, the last one set. */
static double drum(double x, int k)
{
    const double unit = ldexp(1, 1 - k);
    const double kept = floor(x / unit);

    return (fmod(kept, 2) == 0 ? kept + 1 : kept) * unit;
}

TEST(test_formulas)
{
    static const char *const names[] = {"mitchell-7", "mitchell-3", "mbm-7",
                                        "mbm-5",      "drum-4",     "drum-6"};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct multiplier *m = named(names[i]);
        const int count = 1 << m->bits;
        for (int a = 0; a < count; a++)
            for (int b = 0; b < count; b++) {
                const double x = (double)a / count, y = (double)b / count;
                double want = mitchell(x, y, i < 2 ? 0 : 5.0 / 64);
                if (i >= 4)
                    want = drum(1 + x, i == 4 ? 4 : 6) *
                           drum(1 + y, i == 4 ? 4 : 6);
                if (multiplier_product(m, a, b) != want)
                    fail_msg("%s: %d x %d is %.17g, not %.17g", names[i], a, b,
                             multiplier_product(m, a, b), want);
            }
        multiplier_free(m);
    }
}

/* Two ways of leaving bits out: of the partial products and of the result. */
TEST(test_cut_formulas)
{
    struct multiplier *m = named("broken-array-3-2");

    /* 15 x 15 without columns 0 (1 product) and 1 (2 products): 225 - 1 - 4. */
    assert_true(multiplier_product(m, 7, 7) == 220.0 / 64);
    assert_true(multiplier_product(m, 0, 7) == (120.0) / 64);
    multiplier_free(m);
    m = named("accurate-3-4");
    /* 225 / 64 = 3.515625, in steps of 2/16; 81 / 64 in steps of 1/16. */
    assert_true(multiplier_product(m, 7, 7) == 3.5);
    assert_true(multiplier_product(m, 1, 1) == 1.25);
    multiplier_free(m);
    m = named("truncated-3");
    assert_true(multiplier_product(m, 7, 7) == 3.5);
    assert_true(multiplier_product(m, 1, 1) == 1.25);
    multiplier_free(m);
    m = named("rounded-3");
    assert_true(multiplier_product(m, 7, 7) == 3.5);
    assert_true(multiplier_product(m, 5, 5) == 2.75); /* 2.640625 */
    assert_true(multiplier_product(m, 1, 2) == 1.375);
    multiplier_free(m);
}

TEST(test_names)
{
    static const char *const wrong[] = {"mitchell-0",
                                        "mitchell-12",
                                        "mitchell-",
                                        "mitchell-7-1",
                                        "drum-2",
                                        "drum-12",
                                        "accurate-3",
                                        "accurate-3-8",
                                        "exact-7x",
                                        "broken-array-7-",
                                        "exact-07",
                                        "mbm",
                                        "exact-",
                                        "broken-array-3-7",
                                        "mitchell--1",
                                        "",
                                        "exact-999999999999"};
    const char *help;

    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct infer_error err = {0};
        struct multiplier *m = NULL;
        if (multiplier_named(wrong[i], &err, &m) != INFER_EARGUMENT)
            fail_msg("'%s' was accepted", wrong[i]);
        assert_null(m);
        assert_true(err.text[0]);
    }
    for (int i = 0; multiplier_formula(i, &help); i++)
        assert_true(help[0]);
    assert_null(multiplier_formula(-1, &help));
}

/* ---- files --------------------------------------------------------- */

static int read_bytes(const char *path, const void *data, size_t bytes,
                      struct multiplier **out)
{
    struct infer_error err = {0};
    /* Of its own size, so that a sanitizer sees what is read beyond it. */
    void *copy = malloc(bytes ? bytes : 1);

    assert_non_null(copy);
    memcpy(copy, data, bytes);
    *out = NULL;
    const int rc = multiplier_read(path, copy, bytes, &err, out);
    assert_true(rc == 0 || (*out == NULL && err.text[0]));
    free(copy);
    return rc;
}

TEST(test_approxtrain)
{
    unsigned char table[64];
    struct multiplier *m, *exact = named("truncated-3");

    for (int aligned = 0; aligned < 2; aligned++) {
        for (int i = 0; i < 64; i++)
            table[i] = (unsigned char)(exact->table[i] >> 23 << 7 |
                                       (exact->table[i] & 0x7fffff) >>
                                           (aligned ? 16 : 20));
        assert_int_equal(read_bytes("a/mine_3.bin", table, 64, &m), 0);
        assert_int_equal(m->kind, MULTIPLIER_FLOAT);
        assert_int_equal(m->bits, 3);
        assert_string_equal(m->name, "mine_3");
        assert_memory_equal(m->table, exact->table, sizeof(int32_t) * 64);
        multiplier_free(m);
    }
    /* The name and the size disagree. */
    assert_int_equal(read_bytes("mine_4.bin", table, 64, &m), INFER_EFORMAT);
    assert_int_equal(read_bytes("mine_3.bin", table, 63, &m), INFER_EFORMAT);
    assert_int_equal(read_bytes("mine", table, 64, &m), 0);
    multiplier_free(m);
    multiplier_free(exact);
}

/* The operand at a place of the order. */
static int operand_of(int from, int place)
{
    if (from == -128)
        return place - 128;
    return from == 1 && place >= 128 ? place - 256 : place;
}

/* A text of products in an order of the operands. */
static char *text_of(int from, int count, const char *before,
                     const char *format, const char *after, size_t *bytes)
{
    const size_t room = 65536 * 32 + 256;
    char *text = malloc(room);

    assert_non_null(text);
    *bytes = (size_t)snprintf(text, room, "%s", before);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            const int x = operand_of(from, a), y = operand_of(from, b);
            *bytes += (size_t)snprintf(text + *bytes, room - *bytes, format,
                                       (double)x * y);
        }
    *bytes += (size_t)snprintf(text + *bytes, room - *bytes, "%s", after);
    return text;
}

/* The exact products of operands in the three orders, in the ways that C files,
 * ApproxTorch and numpy write numbers. */
TEST(test_lists)
{
    static const struct {
        int from; /* 0: unsigned, 1: low bytes, -128: the lowest first */
        int count;
        const char *before, *format, *after;
    } row[] = {
        {0, 256, "", "%.0f ", "\n"},
        {1, 256, "#include <stdint.h>\nconst int16_t lut[256][256] = {{",
         "%.0f, ", "}};\n"},
        {-128, 256, "# exact\n", "%.0f\n", ""},
        {-128, 256, "", "%.18e ", ""},
        {0, 16, "/* 4 bits */", "%.1f,", "// end"},
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        struct multiplier_errors e;
        struct multiplier *m;
        size_t bytes;
        char *text = text_of(row[i].from, row[i].count, row[i].before,
                             row[i].format, row[i].after, &bytes);
        assert_int_equal(read_bytes("list", text, bytes, &m), 0);
        multiplier_measure(m, NULL, NULL, &e);
        assert_int_equal(m->bits, row[i].count == 256 ? 8 : 4);
        assert_int_equal(m->is_signed, row[i].from != 0);
        assert_true(e.rate == 0 && e.worst == 0 && e.commutative);
        multiplier_free(m);
        free(text);
    }
}

TEST(test_wrong_lists)
{
    static const char *const wrong[] = {"",
                                        " ",
                                        "1 2 3",
                                        "1,2,x",
                                        "0x",
                                        "1.5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
                                        "99999999999999999999 1 1",
                                        "1e",
                                        "1e999999999999",
                                        "- 1",
                                        "/* 1 2",
                                        "70000 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
                                        "=",
                                        "1e400",
                                        ".",
                                        "{\"axm\":1}",
                                        "{\"axm\":1}\n"};
    struct multiplier *m;

    for (size_t i = 0; i < COUNT(wrong); i++)
        if (read_bytes("wrong", wrong[i], strlen(wrong[i]), &m) !=
            INFER_EFORMAT)
            fail_msg("'%s' was accepted", wrong[i]);
}

/* Writes, and returns the file's bytes. */
static struct data_bytes written(const struct multiplier *m)
{
    char path[] = "multiplier-XXXXXX";
    struct infer_error err = {0};
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    if (multiplier_write(m, path, &err) < 0)
        fail_msg("%s", err.text);
    const struct data_bytes b = data_read(path);
    remove(path);
    return b;
}

TEST(test_axm)
{
    static const char *const names[] = {"mbm-5", "exact-1", "drum-9"};

    for (size_t i = 0; i < COUNT(names); i++) {
        struct multiplier *m = named(names[i]), *again;
        struct data_bytes b = written(m);
        assert_int_equal(read_bytes("x.axm", b.data, b.bytes, &again), 0);
        assert_string_equal(again->name, names[i]);
        assert_int_equal(again->bits, m->bits);
        assert_int_equal(again->crc, m->crc);
        assert_memory_equal(again->table, m->table, 4 * multiplier_entries(m));
        multiplier_free(again);
        /* A wrong bit of the table, and any shorter file. */
        b.data[b.bytes - 3] ^= 1;
        assert_int_equal(read_bytes("x.axm", b.data, b.bytes, &again),
                         INFER_EFORMAT);
        b.data[b.bytes - 3] ^= 1;
        for (size_t n = 0; n < b.bytes; n += n < 300 ? 1 : b.bytes / 50)
            assert_true(read_bytes("x.axm", b.data, n, &again) < 0);
        free(b.data);
        multiplier_free(m);
    }
}

/* Damage anywhere never does worse than an error. */
TEST(test_damage)
{
    struct multiplier *m = named("mitchell-2"), *again;
    struct data_bytes b = written(m);
    uint64_t state = 7;

    for (int i = 0; i < 20000; i++) {
        unsigned char copy[1024];
        assert_true(b.bytes <= sizeof copy);
        memcpy(copy, b.data, b.bytes);
        for (uint32_t k = next_random(&state) % 4 + 1; k > 0; k--)
            copy[next_random(&state) % b.bytes] =
                (unsigned char)next_random(&state);
        if (read_bytes("x", copy, b.bytes, &again) == 0)
            multiplier_free(again);
    }
    free(b.data);
    multiplier_free(m);
}

/* Tables of others, against figures that were computed when they were taken. */
TEST(test_published)
{
    static const struct {
        const char *path;
        bool is_signed, commutative;
        int wrong;
        double mean, mean_absolute, worst;
    } row[] = {
        {"tfapprox/mul8u_1JFF.bin", false, true, 0, 0, 0, 0},
        {"tfapprox/mul8u_125K.bin", false, false, 11264, -0.3125, 0.625, 6},
        {"tfapprox/mul8u_KEM.bin", false, true, 49152, -0.3515625, 3.0390625,
         11},
        {"adapt/mul8s_acc.h", true, true, 0, 0, 0, 0},
        {"adapt/mul8s_1L2H.h", true, true, 49022, -94.5, 116.208984375, 32384},
    };
    char path[512], name[64];

    REQUIRE_DATA("multipliers/tfapprox/mul8u_1JFF.bin", path);
    for (size_t i = 0; i < COUNT(row); i++) {
        struct multiplier_errors e;
        snprintf(name, sizeof name, "multipliers/%s", row[i].path);
        REQUIRE_DATA(name, path);
        struct multiplier *m = named(path);
        multiplier_measure(m, NULL, NULL, &e);
        assert_int_equal(m->is_signed, row[i].is_signed);
        assert_int_equal(e.commutative, row[i].commutative);
        assert_int_equal((int)(e.rate * 65536), row[i].wrong);
        assert_true(e.mean == row[i].mean);
        assert_true(e.mean_absolute == row[i].mean_absolute);
        assert_true(fabs(e.worst) == row[i].worst);
        multiplier_free(m);
    }
}

/* ---- rows ---------------------------------------------------------- */

/* A problem of one product: all tensors have one element. */
static struct kern_problem one_product(enum kern_op op)
{
    static const int64_t one[4] = {1, 1, 1, 1};
    const int rank = op == KERN_DENSE_FPROP ? 2 : 4;
    const int64_t side[2] = {8, 8};
    struct kern_problem p = {
        .op = op, .n_in = PRODUCT_TABLE_IN + 1, .n_out = 1};

    p.attr.conv.groups = 1;
    for (int i = 0; i < 2; i++)
        p.attr.conv.stride[i] = p.attr.conv.dilation[i] = 1;
    p.in[0] = kern_tensor_dense(INFER_F32, rank, one, KERN_NCHW);
    p.in[1] = p.out[0] = p.in[0];
    p.in[PRODUCT_TABLE_IN] = kern_tensor_dense(INFER_U32, 2, side, KERN_NCHW);
    return p;
}

/* Runs a row on one product, or returns false where it refuses. */
static bool run_row(const struct kern_row *row, const struct kern_problem *p,
                    const void *table, float x, float y, float *out)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    struct infer_error err = {0};
    struct kern_exec e;

    if (kern_row_supports(row, p, &cpu, NULL) < 0)
        return false;
    assert_int_equal(kern_prepare(row, p, &cpu, &err, &e), 0);
    void *workspace = aligned_alloc(64, (e.workspace + 127) / 64 * 64);
    const struct kern_args args = {.in = {&x, &y, [PRODUCT_TABLE_IN] = table},
                                   .out = {out},
                                   .workspace = workspace};
    assert_int_equal(row->fn->launch(&e, &args, &err), 0);
    kern_release(&e);
    free(workspace);
    return true;
}

/* Every row multiplies in[0] by in[1] in this order, to the bit; a row that
 * knows no table refuses. */
TEST(test_rows)
{
    static const enum kern_op ops[] = {KERN_CONV_FPROP,
                                       KERN_CONV_TRANSPOSE_FPROP,
                                       KERN_CONV_WGRAD, KERN_DENSE_FPROP};
    uint64_t state = 3;
    uint32_t table[64];

    for (size_t i = 0; i < 64; i++)
        table[i] = next_random(&state) >> 8;
    for (size_t o = 0; o < COUNT(ops); o++) {
        const struct kern_problem p = one_product(ops[o]);
        int rows = 0;
        for (size_t r = 0; r < kern_row_count(); r++) {
            const struct kern_row *row = kern_row_at(r);
            if (row->op != ops[o])
                continue;
            for (int i = 0; i < 200; i++) {
                const float x = i == 0 ? INFINITY : random_number(&state);
                const float y = i == 1 ? -0.0f : random_number(&state);
                const float want = product_table_product(table, 3, x, y);
                float got = NAN;
                if (!run_row(row, &p, table, x, y, &got))
                    break;
                assert_true(row->flags & KERN_PRODUCT_TABLE);
                rows += i == 0;
                if (got != want)
                    fail_msg("%s: %a x %a = %a, not %a", row->name, (double)x,
                             (double)y, (double)got, (double)want);
            }
        }
        assert_int_equal(rows, 2); /* the reference and the CPU's */
    }
}

/* Tables that no problem may have. */
TEST(test_wrong_tables)
{
    struct kern_problem p = one_product(KERN_CONV_FPROP);
    struct kern_tensor *t = &p.in[PRODUCT_TABLE_IN];

    assert_int_equal(kern_problem_check(&p, NULL), 0);
    t->dim[0] = 4;
    assert_true(kern_problem_check(&p, NULL) < 0);
    t->dim[0] = t->dim[1] = 6;
    assert_true(kern_problem_check(&p, NULL) < 0);
    t->dim[0] = t->dim[1] = 1;
    assert_true(kern_problem_check(&p, NULL) < 0);
    t->dim[0] = t->dim[1] = 4096;
    assert_true(kern_problem_check(&p, NULL) < 0);
    t->dim[0] = t->dim[1] = 8;
    t->dtype = INFER_I32;
    assert_true(kern_problem_check(&p, NULL) < 0);
    t->dtype = INFER_U32;
    p.in[0].dtype = INFER_F64;
    assert_true(kern_problem_check(&p, NULL) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_cut_formulas),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_approxtrain),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_axm),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_wrong_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
