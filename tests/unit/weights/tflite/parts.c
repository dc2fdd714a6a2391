/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: loops over time steps, and what a file says of pictures and
 * classes in its metadata. */
#include "tests/unit/weights/tflite/model.h"

#include <math.h>

#include "tests/zipmaker.h"

enum { GATHER = 36, ADD = 0, LESS = 58, WHILE = 119, CONCATENATION = 2 };

/* ---- loops --------------------------------------------------------- */

#define STEPS 3

struct loop {
    struct model outer, condition, body;
};

/* y = sum of x[t] over `bound` steps; x is STEPS,2.  The condition asks for the
 * counter, or for the sum. */
static void make_loop(struct loop *l, const int32_t *bound,
                      const int32_t *increment, bool of_data)
{
    static const int32_t zero = 0;
    static const float none[2] = {0, 0}, limit = 5;
    struct model_op *o;
    int i, s, x, b, n, t;

    memset(l, 0, sizeof *l);
    x = model_float(&l->outer, "x", DIMS(STEPS, 2), NULL);
    i = model_ints(&l->outer, "first", DIMS(1), &zero);
    s = model_float(&l->outer, "none", DIMS(1, 2), none);
    n = model_ints(&l->outer, "count", DIMS(1), NULL);
    t = model_float(&l->outer, "y", DIMS(1, 2), NULL);
    b = model_float(&l->outer, "same", DIMS(STEPS, 2), NULL);
    o = model_op(&l->outer, WHILE, IN(i, s, x), n);
    o->out[1] = t;
    o->out[2] = b;
    o->n_out = 3;
    model_option(o, 0, 4, 1);
    model_option(o, 1, 4, 2);
    model_io(&l->outer, x, t);
    l->outer.inner[0] = &l->condition;
    l->outer.inner[1] = &l->body;

    i = model_ints(&l->condition, "i", DIMS(1), NULL);
    s = model_float(&l->condition, "s", DIMS(1, 2), NULL);
    x = model_float(&l->condition, "x", DIMS(STEPS, 2), NULL);
    b = of_data ? model_float(&l->condition, "limit", DIMS(1), &limit)
                : model_ints(&l->condition, "bound", DIMS(1), bound);
    n = model_add(&l->condition, "more", TFLITE_BOOL, DIMS(1), NULL);
    model_op(&l->condition, LESS, IN(of_data ? s : i, b), n);
    memcpy(l->condition.input, (int[]){i, s, x}, 3 * sizeof(int));
    l->condition.n_inputs = 3;
    l->condition.output[l->condition.n_outputs++] = n;

    i = model_ints(&l->body, "i", DIMS(1), NULL);
    s = model_float(&l->body, "s", DIMS(1, 2), NULL);
    x = model_float(&l->body, "x", DIMS(STEPS, 2), NULL);
    b = model_ints(&l->body, "one", DIMS(1), increment);
    n = model_ints(&l->body, "next", DIMS(1), NULL);
    t = model_float(&l->body, "item", DIMS(1, 2), NULL);
    model_option(model_op(&l->body, GATHER, IN(x, i), t), 0, 4, 0);
    model_op(&l->body, ADD, IN(i, b), n);
    memcpy(l->body.input, (int[]){i, s, x}, 3 * sizeof(int));
    l->body.n_inputs = 3;
    memcpy(l->body.output,
           (int[]){n, model_float(&l->body, "sum", DIMS(1, 2), NULL), x},
           3 * sizeof(int));
    l->body.n_outputs = 3;
    model_op(&l->body, ADD, IN(s, t), l->body.output[1]);
}

TEST(test_loop)
{
    static const float x[2 * STEPS] = {1, 2, 30, 40, 500, 600};
    static const int32_t bound = STEPS, one = 1;
    static struct loop l;
    float y[2] = {0};
    struct graph *g;

    make_loop(&l, &bound, &one, false);
    g = must_read(&l.outer);
    assert_string_equal(g->value[g->output[0]].name, "y");
    run_model(g, x, DIMS(STEPS, 2), y, 2);
    assert_true(y[0] == 531 && y[1] == 642);
}

TEST(test_loops_refused)
{
    static const int32_t bound = STEPS, one = 1, none = 0;
    static struct loop l;

    make_loop(&l, &bound, &one, true);
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "depends on data");
    make_loop(&l, &bound, &none, false);
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "WHILE");
    make_loop(&l, &bound, &one, false);
    l.outer.op[0].option[1].value = 7; /* a body that is not there */
    must_refuse(&l.outer, INFER_EFORMAT, "network 7 of 3");
    l.outer.op[0].option[1].value = 0; /* the whole as its own body */
    must_refuse(&l.outer, INFER_EFORMAT, "inputs for a loop");
    make_loop(&l, &bound, &one, false);
    l.body.n_outputs = 2;
    must_refuse(&l.outer, INFER_EFORMAT, "2 outputs of a loop of 3");
    make_loop(&l, &bound, &one, false);
    l.body.output[0] = l.body.output[1]; /* the counter becomes a float */
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "changes its type");
}

/* Row `at` of x is replaced; places beyond the ends are moved inside. */
static void check_update(int32_t at, int row)
{
    static const float x[2 * STEPS] = {1, 2, 3, 4, 5, 6}, u[2] = {70, 80};
    const int32_t start[2] = {at, 0};
    struct model m = {.n_ops = 0};
    float y[2 * STEPS];
    int v[4];

    v[0] = model_float(&m, "x", DIMS(STEPS, 2), NULL);
    v[1] = model_float(&m, "u", DIMS(1, 2), u);
    v[2] = model_ints(&m, "start", DIMS(2), start);
    v[3] = model_float(&m, "y", DIMS(STEPS, 2), NULL);
    model_op(&m, 151, IN(v[0], v[1], v[2]), v[3]);
    model_io(&m, v[0], v[3]);
    run_model(must_read(&m), x, DIMS(STEPS, 2), y, 2 * STEPS);
    for (int i = 0; i < 2 * STEPS; i++)
        assert_true(y[i] == (i / 2 == row ? u[i % 2] : x[i]));
}

TEST(test_update_slice)
{
    check_update(0, 0);
    check_update(1, 1);
    check_update(2, 2);
    check_update(9, 2);
    check_update(-4, 0);
}

/* Any outcome is fine but a crash, a leak, or an error without words. */
TEST(test_damaged_loop)
{
    static const int32_t bound = STEPS, one = 1;
    static struct loop l;
    static struct flat f;

    make_loop(&l, &bound, &one, false);
    model_write(&l.outer, &f);
    for (size_t i = 0; i < 8 * f.bytes; i += 13) {
        struct infer_error err = {0};
        struct graph *g = NULL;

        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
        if (read_bytes(f.data, f.bytes, NULL, &err, &g) < 0)
            assert_true(err.text[0] != 0);
        else if (graph_infer_shapes(g, NULL, &err) < 0 ||
                 graph_validate(g, &err) < 0)
            fail_msg("a graph that does not hold together: %s", err.text);
        graph_free(g);
        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
}

/* ---- metadata ------------------------------------------------------ */

static size_t text(struct flat *f, const char *word)
{
    return flat_vector(f, word, strlen(word), 1);
}

/* One output with a file of labels, one input that is a picture. */
static void make_metadata(struct flat *f, const float *mean, const float *std,
                          int n, const char *labels)
{
    const struct flat_field root[] = {{3, 4, 0}};
    const struct flat_field graph[] = {{2, 4, 0}, {3, 4, 0}};
    const struct flat_field input[] = {{3, 4, 0}, {4, 4, 0}};
    const struct flat_field content[] = {{0, 1, 2}, {1, 4, 0}};
    const struct flat_field image[] = {{0, 1, 1}};
    const struct flat_field unit[] = {{0, 1, 1}, {1, 4, 0}};
    const struct flat_field normal[] = {{0, 4, 0}, {1, 4, 0}};
    const struct flat_field output[] = {{6, 4, 0}};
    const struct flat_field file[] = {{0, 4, 0}, {2, 1, 2}};
    size_t at, sub, in, list, part;

    memset(f->data, 0, f->bytes);
    f->bytes = 0;
    flat_put(f, 4, 0x3130304d, 4); /* "M001" */
    at = flat_table(f, root, 1);
    flat_link(f, 0, at);
    list = write_offsets(f, at, 3, 1);
    sub = flat_table(f, graph, 2);
    flat_link(f, list, sub);
    list = write_offsets(f, sub, 2, 1);
    in = flat_table(f, input, 2);
    flat_link(f, list, in);
    part = flat_table(f, content, 2);
    flat_link(f, flat_field_at(f, in, 3), part);
    flat_link(f, flat_field_at(f, part, 1), flat_table(f, image, 1));
    list = write_offsets(f, in, 4, 1);
    part = flat_table(f, unit, 2);
    flat_link(f, list, part);
    at = flat_table(f, normal, 2);
    flat_link(f, flat_field_at(f, part, 1), at);
    flat_link(f, flat_field_at(f, at, 0), flat_vector(f, mean, (size_t)n, 4));
    flat_link(f, flat_field_at(f, at, 1), flat_vector(f, std, (size_t)n, 4));
    list = write_offsets(f, sub, 3, 1);
    at = flat_table(f, output, 1);
    flat_link(f, list, at);
    list = write_offsets(f, at, 6, 1);
    part = flat_table(f, file, 2);
    flat_link(f, list, part);
    flat_link(f, flat_field_at(f, part, 0), text(f, labels));
}

static struct flat meta, whole;

/* A network with this metadata and, behind it, an archive whose offsets count
 * from the start of the file or from its own. */
static struct graph *read_with(const char *member, const char *content,
                               bool own_offsets)
{
    struct infer_error err = {0};
    struct model m = {.n_ops = 0};
    struct graph *g = NULL;
    int x, y;

    x = model_float(&m, "x", DIMS(1, 4, 4, 3), NULL);
    y = model_float(&m, "y", DIMS(1, 4, 4, 3), NULL);
    model_op(&m, 101, IN(x), y); /* ABS */
    model_io(&m, x, y);
    m.metadata = meta.data;
    m.metadata_bytes = meta.bytes;
    model_write(&m, &whole);
    if (member) {
        struct zipmaker z = {0};
        const size_t begin = whole.bytes;

        if (!own_offsets)
            maker_bytes(&z.file, whole.data, whole.bytes);
        zipmaker_add(&z, member, content, strlen(content));
        zipmaker_end(&z);
        assert_true(begin + z.file.bytes <= sizeof whole.data);
        memcpy(whole.data + (own_offsets ? begin : 0), z.file.data,
               z.file.bytes);
        whole.bytes = (own_offsets ? begin : 0) + z.file.bytes;
        zipmaker_clear(&z);
    }
    if (read_bytes(whole.data, whole.bytes, NULL, &err, &g) < 0)
        fail_msg("%s", err.text);
    return g;
}

TEST(test_normalization)
{
    static const float mean[3] = {123, 117, 104}, std[3] = {58, 57, 56};
    static const float half = 127.5f, zero = 0, bad = NAN;
    struct graph *g;

    make_metadata(&meta, mean, std, 3, "labels.txt");
    g = read_with(NULL, NULL, false);
    assert_true(g->preprocess[0].present);
    assert_int_equal(g->preprocess[0].color, GRAPH_RGB);
    assert_true(g->preprocess[0].scale == 1);
    for (int i = 0; i < 3; i++)
        assert_true(g->preprocess[0].mean[i] == mean[i] &&
                    g->preprocess[0].std[i] == std[i]);
    assert_int_equal(g->n_labels, 0);
    graph_free(g);
    make_metadata(&meta, &half, &half, 1, "labels.txt");
    g = read_with(NULL, NULL, false);
    assert_true(g->preprocess[0].mean[2] == half &&
                g->preprocess[0].std[2] == half);
    graph_free(g);
    /* What divides by zero, is no number or fits no channels says nothing. */
    make_metadata(&meta, &half, &zero, 1, "labels.txt");
    g = read_with(NULL, NULL, false);
    assert_false(g->preprocess[0].present);
    graph_free(g);
    make_metadata(&meta, &bad, &half, 1, "labels.txt");
    g = read_with(NULL, NULL, false);
    assert_false(g->preprocess[0].present);
    graph_free(g);
    make_metadata(&meta, mean, std, 2, "labels.txt");
    g = read_with(NULL, NULL, false);
    assert_false(g->preprocess[0].present);
    graph_free(g);
}

TEST(test_labels)
{
    static const float half = 127.5f;
    struct graph *g;

    make_metadata(&meta, &half, &half, 1, "labels.txt");
    for (int own = 0; own < 2; own++) {
        g = read_with("labels.txt", "cat\r\ndog\n\nbird", own != 0);
        assert_int_equal(g->n_labels, 4);
        assert_string_equal(g->label[0], "cat");
        assert_string_equal(g->label[1], "dog");
        assert_string_equal(g->label[2], "");
        assert_string_equal(g->label[3], "bird");
        graph_free(g);
    }
    /* Another member; bytes that are no text. */
    g = read_with("words.txt", "cat\n", false);
    assert_int_equal(g->n_labels, 0);
    graph_free(g);
    g = read_with("labels.txt", "cat\n\xff\n", true);
    assert_int_equal(g->n_labels, 0);
    graph_free(g);
}

/* Damage of the metadata never costs the network, and never more than that. */
TEST(test_damaged_metadata)
{
    static const float half = 127.5f;

    make_metadata(&meta, &half, &half, 1, "labels.txt");
    for (size_t i = 0; i < meta.bytes; i++)
        for (int k = 0; k < 2; k++) {
            const unsigned char old = meta.data[i];

            meta.data[i] = k ? 0xff : (unsigned char)(old ^ 1u << i % 8);
            graph_free(read_with("labels.txt", "cat\ndog\n", true));
            meta.data[i] = old;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loops_refused),
        cmocka_unit_test(test_update_slice),
        cmocka_unit_test(test_damaged_loop),
        cmocka_unit_test(test_normalization),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_damaged_metadata),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
