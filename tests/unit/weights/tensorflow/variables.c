/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a SavedModel's variables (variables/variables.index), whole,
 * damaged, and with entries that are refused. */
#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

/* A table of one block with the header and one entry. */
static void add_entry(struct pb_message *m, const char *key,
                      struct pb_message *value)
{
    pb_varint(m, 0);
    pb_varint(m, strlen(key));
    pb_varint(m, value->size);
    pb_raw(m, key, strlen(key));
    pb_raw(m, value->data, value->size);
    pb_free(value);
}

static void end_block(struct pb_message *m)
{
    const unsigned char end[] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};

    pb_raw(m, end, sizeof end); /* one restart, no compression, no checksum */
}

/* Field `field` of the header beside the number of files. */
static struct pb_message make_index(unsigned field, struct pb_message entry)
{
    const unsigned char magic[] = {0x57, 0xfb, 0x80, 0x8b,
                                   0x24, 0x75, 0x47, 0xdb};
    struct pb_message m = {0}, value = {0}, place = {0};
    size_t index;

    pb_int(&value, 1, 1);
    if (field > 0)
        pb_int(&value, field, 1);
    add_entry(&m, "", &value);
    add_entry(&m, "kernel", &entry);
    index = m.size + 8;
    end_block(&m);
    pb_varint(&place, 0);
    pb_varint(&place, index);
    index = m.size;
    add_entry(&m, "l", &place);
    const size_t bytes = m.size + 8 - index;
    end_block(&m);
    pb_varint(&place, 0);
    pb_varint(&place, 0);
    pb_varint(&place, index);
    pb_varint(&place, bytes);
    while (place.size < 40)
        pb_raw(&place, "", 1);
    pb_raw(&m, place.data, place.size);
    pb_raw(&m, magic, sizeof magic);
    pb_free(&place);
    return m;
}

static int parse_index(const struct pb_message *m, size_t bytes,
                       struct tf_bundle *b, struct infer_error *err)
{
    unsigned char *copy = malloc(bytes + 1);

    memcpy(copy, m->data, bytes);
    return tf_bundle_parse(blob_new(copy, bytes), "none", err, b);
}

TEST(test_variables_index)
{
    const struct pb_span kernel = {(unsigned char *)"kernel", 6};
    struct pb_message value = {0}, m;
    struct pb_span entry;
    struct tf_bundle b;

    pb_int(&value, 1, TF_FLOAT);
    pb_int(&value, 5, 4);
    m = make_index(0, value);
    assert_int_equal(parse_index(&m, m.size, &b, NULL), 0);
    assert_int_equal(b.n_entries, 2);
    assert_true(tf_bundle_find(&b, kernel, &entry));
    assert_true(tf_bundle_has(&b, entry));
    assert_int_equal(entry.bytes, 4);
    tf_bundle_close(&b);
    for (size_t i = 0; i < m.size; i++)
        assert_true(parse_index(&m, i, &b, NULL) < 0);
    for (size_t i = 0; i < m.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.data[i] ^= (unsigned char)(1u << bit);
            if (parse_index(&m, m.size, &b, NULL) == 0)
                tf_bundle_close(&b);
            m.data[i] ^= (unsigned char)(1u << bit);
        }
    pb_free(&m);
}

/* An entry of this type, shape, file and size; a field beyond them where it is
 * not 0. */
TEST(test_refused_entries)
{
    const int64_t large = (int64_t)1 << 32;
    const struct {
        unsigned header;
        int64_t type, dim[2], unknown, shard, bytes;
        unsigned more;
        int code;
        const char *words;
    } rows[] = {
        {2, TF_FLOAT, {2, 3}, 0, 0, 24, 0, INFER_EUNSUPPORTED, "big-endian"},
        {0, TF_FLOAT, {2, 3}, 0, 0, 24, 7, INFER_EUNSUPPORTED, "in slices"},
        {0, 7, {2, 3}, 0, 0, 24, 0, INFER_EUNSUPPORTED, "type 7"},
        {0, TF_FLOAT, {1, 1}, 1, 0, 4, 0, INFER_EFORMAT, "its 4 bytes"},
        {0, TF_FLOAT, {2, 3}, 0, 0, 20, 0, INFER_EFORMAT, "its 20 bytes"},
        {0, TF_FLOAT, {large, large}, 0, 0, 4, 0, INFER_EFORMAT, "its 4 bytes"},
        {0,
         TF_FLOAT,
         {large / 2, large / 2},
         0,
         0,
         0,
         0,
         INFER_EFORMAT,
         "its 0 bytes"},
        {0, TF_FLOAT, {2, 3}, 0, 1, 24, 0, INFER_EFORMAT, "data file 1 of 1"},
        {0, TF_FLOAT, {2, 3}, 0, 0, 24, 0, INFER_EIO, "No such file"},
    };
    const struct pb_span kernel = {(unsigned char *)"kernel", 6};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pb_message entry = {0}, shape = {0}, dim = {0}, m;
        struct infer_error err = {0};
        struct constant *c = NULL;
        struct pb_span span;
        struct tf_bundle b;
        int rc;

        pb_int(&entry, 1, rows[i].type);
        for (int d = 0; d < 2; d++) {
            pb_int(&dim, 1, rows[i].dim[d]);
            pb_nested(&shape, 2, &dim);
        }
        pb_int(&shape, 3, rows[i].unknown);
        pb_nested(&entry, 2, &shape);
        pb_int(&entry, 3, rows[i].shard);
        pb_int(&entry, 5, rows[i].bytes);
        if (rows[i].more)
            pb_nested(&entry, rows[i].more, &shape);
        m = make_index(rows[i].header, entry);
        rc = parse_index(&m, m.size, &b, &err);
        if (rc == 0) {
            assert_true(tf_bundle_find(&b, kernel, &span));
            rc = tf_bundle_load(&b, span, &err, &c);
            assert_null(c);
            tf_bundle_close(&b);
        }
        if (rc != rows[i].code || !strstr(err.text, rows[i].words))
            fail_msg("%zu: %d, '%s'", i, rc, err.text);
        pb_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_index),
        cmocka_unit_test(test_refused_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
