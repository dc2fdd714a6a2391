/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in PyTorch files, and the values round them: right ones and hostile
 * ones, made here. */
#include "config.h"

#include <unistd.h>

#include "tests/unit/weights/pickle_writer.h"

static void spec_refused(const struct spec *s, const char *word)
{
    struct zipmaker z = {0};
    struct maker m = {0};

    put_dict(&m, s);
    make_zip(&z, &m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, word);
    zipmaker_clear(&z);
    maker_clear(&m);
}

static void spec_read(const struct spec *s, const void *record, size_t bytes,
                      struct weights_import *import)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    struct infer_error err;
    int rc;

    put_dict(&m, s);
    make_zip(&z, &m, record, bytes);
    rc = help_read(PT, z.file.data, z.file.bytes, &err, import);
    zipmaker_clear(&z);
    maker_clear(&m);
    if (rc < 0)
        fail_msg("%s", err.text);
}

/* ---- tensors ------------------------------------------------------- */

TEST(test_views)
{
    static const float turned[12] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    struct weights_import import;
    const struct constant *c;
    struct spec s = honest;

    spec_read(&s, values, sizeof values, &import);
    c = help_tensor(&import, "w", 2, s.size);
    assert_memory_equal(c->data, values, sizeof values);
    assert_non_null(c->blob); /* no copy */
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 0, 2, 2, {4, 3}, {1, 4}, NULL};
    spec_read(&s, values, sizeof values, &import); /* transposed */
    c = help_tensor(&import, "w", 2, s.size);
    assert_memory_equal(c->data, turned, sizeof turned);
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 5, 1, 1, {3}, {1}, NULL};
    spec_read(&s, values, sizeof values, &import);
    c = help_tensor(&import, "w", 1, s.size);
    assert_memory_equal(c->data, values + 5, 12);
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 2, 2, 2, {2, 3}, {0, 3}, NULL};
    spec_read(&s, values, sizeof values, &import); /* expanded and strided */
    c = help_tensor(&import, "w", 2, s.size);
    assert_true(scalar_load(c->dtype, c->data, 2) == 8);
    assert_true(scalar_load(c->dtype, c->data, 3) == 2);
    weights_import_clear(&import);
    s = (struct spec){"BoolStorage", "0", 3, 0, 1, 1, {3}, {1}, NULL};
    spec_read(&s, "\0\1\4", 3, &import);
    c = help_tensor(&import, "w", 1, s.size);
    assert_memory_equal(c->data, "\0\1\1", 3);
    weights_import_clear(&import);
}

TEST(test_bad_tensors)
{
    struct spec s;

    s = honest, s.offset = 1;
    spec_refused(&s, "reaches beyond");
    s = honest, s.offset = INT64_MAX;
    spec_refused(&s, "reaches beyond");
    s = honest, s.offset = -1;
    spec_refused(&s, "arguments");
    s = honest, s.size[0] = 4;
    spec_refused(&s, "reaches beyond");
    s = honest, s.size[0] = -3;
    spec_refused(&s, "arguments");
    s = honest, s.stride[0] = -4;
    spec_refused(&s, "arguments");
    s = honest, s.stride[0] = INT64_MAX;
    spec_refused(&s, "reaches beyond");
    s = honest, s.strides = 1;
    spec_refused(&s, "2 sizes and 1 strides");
    s = honest, s.count = 11;
    spec_refused(&s, "48 bytes, but its storage needs 44");
    s = honest, s.count = 13;
    spec_refused(&s, "48 bytes, but its storage needs 52");
    s = honest, s.count = -12;
    spec_refused(&s, "a storage");
    s = honest, s.count = 0x400000000000000c; /* times 4 is 48 again */
    spec_refused(&s, "elements");
    s = honest, s.key = "1";
    spec_refused(&s, "no record 'data/1'");
    s = honest, s.key = "../0";
    spec_refused(&s, "no record");
    s = honest, s.class = "ComplexFloatStorage";
    spec_refused(&s, "torch.ComplexFloatStorage");
    s = honest, s.class = "QInt8Storage", s.count = 48;
    spec_refused(&s, "torch.QInt8Storage");
    s = honest, s.class = "UntypedStorage", s.count = 48;
    spec_refused(&s, "elements of torch.UntypedStorage");
    s = honest, s.class = "NoStorage";
    spec_refused(&s, "torch.NoStorage");
    /* One element, seen 2^40 times. */
    s = honest, s.size[0] = s.size[1] = 1 << 20, s.stride[0] = s.stride[1] = 0;
    spec_refused(&s, "the limit for a file");
    s = honest, s.size[0] = s.size[1] = INT64_MAX,
    s.stride[0] = s.stride[1] = 0;
    spec_refused(&s, "beyond all memory");
}

/* The same storage under two types. */
TEST(test_shared_storage)
{
    struct spec a = honest, b = honest;
    struct weights_import import;
    const struct constant *x, *y;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};

    b.class = "IntStorage";
    maker_text(&m, "\x80\2}");
    put_text(&m, "a");
    put_tensor(&m, &a);
    maker_text(&m, "s");
    put_text(&m, "b");
    put_tensor(&m, &b);
    maker_text(&m, "s.");
    make_zip(&z, &m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, "two types or sizes");
    zipmaker_clear(&z);
    m.bytes = 0;
    b = a;
    maker_text(&m, "\x80\2}");
    put_text(&m, "a");
    put_tensor(&m, &a);
    maker_text(&m, "s");
    put_text(&m, "b");
    put_tensor(&m, &b);
    maker_text(&m, "s.");
    make_zip(&z, &m, values, sizeof values);
    if (help_read(PT, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    x = help_tensor(&import, "a", 2, a.size);
    y = help_tensor(&import, "b", 2, a.size);
    assert_ptr_not_equal(x->data, y->data); /* edits must not meet */
    assert_memory_equal(y->data, values, sizeof values);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* ---- values round the tensors -------------------------------------- */

static void pickle_refused(struct maker *m, const char *word)
{
    struct zipmaker z = {0};

    make_zip(&z, m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, word);
    zipmaker_clear(&z);
    m->bytes = 0;
}

TEST(test_structure)
{
    struct weights_import import;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};
    int i;

    maker_text(&m, "\x80\2}."); /* no tensor at all */
    pickle_refused(&m, "no tensor");
    maker_text(&m, "\x80\2K\1.");
    pickle_refused(&m, "no tensor");
    maker_text(&m, "\x80\2}]");
    put_tensor(&m, &honest);
    maker_text(&m, "s."); /* a list for a key */
    pickle_refused(&m, "neither text nor");
    put_dict(&m, &honest);
    maker_text(&m, "x");
    pickle_refused(&m, "follow its end");
    maker_text(&m, "\x80\2}X");
    maker_int(&m, 2, 4);
    maker_bytes(&m, "a\0", 2);
    put_tensor(&m, &honest);
    maker_text(&m, "s.");
    pickle_refused(&m, "NUL");
    maker_text(&m, "\x80\2}");
    for (i = 0; i < 2; i++) {
        put_text(&m, "w");
        put_tensor(&m, &honest);
        maker_text(&m, "s");
    }
    maker_text(&m, ".");
    pickle_refused(&m, "two tensors are named 'w'");
    maker_text(&m, "\x80\2}q");
    maker_int(&m, 0, 1);
    put_text(&m, "self");
    maker_text(&m, "h");
    maker_int(&m, 0, 1);
    maker_text(&m, "s");
    put_text(&m, "w");
    put_tensor(&m, &honest);
    maker_text(&m, "s."); /* a dictionary inside itself */
    pickle_refused(&m, "nested");
    /* 100 levels, each holding the one below twice. */
    maker_text(&m, "\x80\2]");
    put_tensor(&m, &honest);
    maker_text(&m, "aq");
    maker_int(&m, 0, 1);
    for (i = 0; i < 40; i++) {
        maker_text(&m, "0](h");
        maker_int(&m, (uint64_t)i, 1);
        maker_text(&m, "h");
        maker_int(&m, (uint64_t)i, 1);
        maker_text(&m, "eq");
        maker_int(&m, (uint64_t)i + 1, 1);
    }
    maker_text(&m, ".");
    pickle_refused(&m, "over and over");
    /* A checkpoint; every name has the prefix of a wrapper. */
    maker_text(&m, "\x80\2}");
    put_text(&m, "epoch");
    maker_text(&m, "K\5s");
    put_text(&m, "optimizer");
    maker_text(&m, "}");
    put_text(&m, "momentum");
    put_tensor(&m, &honest);
    maker_text(&m, "ss");
    put_text(&m, "state_dict");
    maker_text(&m, "}");
    put_text(&m, "module.conv.weight");
    put_tensor(&m, &honest);
    maker_text(&m, "ss.");
    make_zip(&z, &m, values, sizeof values);
    if (help_read(PT, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, 1);
    help_tensor(&import, "conv.weight", 2, honest.size);
    assert_int_equal(import.dict.stripped_count, 2);
    assert_string_equal(import.dict.stripped[1].name, "optimizer");
    assert_string_equal(import.dict.stripped[1].why, "optimiser state");
    assert_int_equal(import.dict.stripped[1].bytes, 48);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* ---- shards -------------------------------------------------------- */

static void write_shard(const char *folder, const char *file, const char *name)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    char path[64];

    maker_text(&m, "\x80\2}");
    put_text(&m, name);
    put_tensor(&m, &honest);
    maker_text(&m, "s.");
    make_zip(&z, &m, values, sizeof values);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(z.file.data, 1, z.file.bytes, f), z.file.bytes);
    fclose(f);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* Two files and their index, as save_pretrained() of transformers writes it. */
TEST(test_shards)
{
    static const char index[] = "{\"metadata\":{\"total_size\":96},"
                                "\"weight_map\":{\"a\":\"1.bin\",\"b\":"
                                "\"2.bin\"}}";
    static const char *const files[] = {"1.bin", "2.bin", "m.bin.index.json"};
    char folder[] = "/tmp/shards-XXXXXX", path[64];
    struct weights_import import;
    struct infer_error err;

    assert_non_null(mkdtemp(folder));
    write_shard(folder, "1.bin", "a");
    write_shard(folder, "2.bin", "b");
    snprintf(path, sizeof path, "%s/m.bin.index.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(index, f) >= 0);
    fclose(f);
    if (weights_read(path, NULL, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, 2);
    help_tensor(&import, "a", 2, honest.size);
    help_tensor(&import, "b", 2, honest.size);
    weights_import_clear(&import);
    write_shard(folder, "2.bin", "c");
    assert_int_equal(weights_read(path, NULL, &err, &import), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "'b' of the index is in none"));
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_shared_storage),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
