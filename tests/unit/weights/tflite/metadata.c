/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: what a file says of pictures and classes in its metadata. */
#include "tests/unit/weights/tflite/model.h"

#include <math.h>

#include "tests/zipmaker.h"

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
        cmocka_unit_test(test_normalization),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_damaged_metadata),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
