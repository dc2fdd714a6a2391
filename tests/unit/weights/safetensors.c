/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files and their indexes. */
#include "config.h"

#include "tests/unit/weights/formats_help.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct weights_format weights_format_safetensors;
#define ST (&weights_format_safetensors)

static void make_file(struct maker *m, const char *header, const void *data,
                      size_t bytes)
{
    maker_int(m, strlen(header), 8);
    maker_text(m, header);
    maker_bytes(m, data, bytes);
}

static void refused(const char *header, size_t bytes, const char *word)
{
    static const unsigned char data[64];
    struct maker m = {0};

    make_file(&m, header, data, bytes);
    help_refused(ST, m.data, m.bytes, word);
    maker_clear(&m);
}

static void accepted(const char *header, const void *data, size_t bytes,
                     struct weights_import *import)
{
    struct infer_error err;
    struct maker m = {0};
    int rc;

    make_file(&m, header, data, bytes);
    rc = help_read(ST, m.data, m.bytes, &err, import);
    maker_clear(&m);
    if (rc < 0)
        fail_msg("%s: %s", header, err.text);
}

static const float values[6] = {0, 1, 2, 3, 4, 5};
static const int64_t shape23[] = {2, 3};

TEST(test_reads)
{
    static const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
        " { \"a\" : { \"data_offsets\" : [ 0 , 24 ] , \"shape\" : [ 2 , 3 ] , "
        "\"dtype\" : \"F32\" } , \"__metadata__\" : { \"x\" : \"y\" } }   ",
        "{\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,"
        "24]},\"__metadata__\":{}}",
    };
    struct weights_import import;
    const struct constant *c;
    size_t i;

    for (i = 0; i < COUNT(headers); i++) {
        accepted(headers[i], values, sizeof values, &import);
        c = help_tensor(&import, "a", 2, shape23);
        assert_int_equal(c->dtype, INFER_F32);
        assert_memory_equal(c->data, values, sizeof values);
        weights_import_clear(&import);
    }
    accepted("{}", NULL, 0, &import);
    assert_int_equal(import.dict.count, 0);
    weights_import_clear(&import);
}

/* Elements that do not start at a multiple of their size. */
TEST(test_alignment)
{
    unsigned char data[3 + 8 + 4] = {1, 2, 3};
    struct weights_import import;
    const struct constant *c;
    double d = 1.25;
    float f = 2.5f;

    memcpy(data + 3, &d, 8);
    memcpy(data + 11, &f, 4);
    accepted("{\"b\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
             "\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[3,11]},"
             "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[11,15]}"
             "}",
             data, sizeof data, &import);
    c = weights_dict_find(&import.dict, "d");
    assert_int_equal((uintptr_t)c->data % 8, 0);
    assert_true(scalar_load(c->dtype, c->data, 0) == 1.25);
    c = weights_dict_find(&import.dict, "f");
    assert_true(scalar_load(c->dtype, c->data, 0) == 2.5);
    c = weights_dict_find(&import.dict, "b");
    assert_memory_equal(c->data, "\1\1\1", 3);
    weights_import_clear(&import);
    /* Tensors without elements may stand anywhere on a border. */
    accepted("{\"z\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[4,4]"
             "},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
             data, 4, &import);
    assert_int_equal(import.dict.count, 2);
    weights_import_clear(&import);
}

#define ENTRY(dtype, shape, offsets)                                           \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape                             \
    ",\"data_offsets\":" offsets "}}"

TEST(test_entries)
{
    static const char *const malformed[] = {
        ENTRY("\"F32\"", "[-1]", "[0,4]"),
        ENTRY("\"F32\"", "[1.0]", "[0,4]"),
        ENTRY("\"F32\"", "[1.5]", "[0,4]"),
        ENTRY("\"F32\"", "[1e0]", "[0,4]"),
        ENTRY("\"F32\"", "[01]", "[0,4]"),
        ENTRY("\"F32\"", "[0x1]", "[0,4]"),
        ENTRY("\"F32\"", "[\"1\"]", "[0,4]"),
        ENTRY("\"F32\"", "[null]", "[0,4]"),
        ENTRY("\"F32\"", "[NaN]", "[0,4]"),
        ENTRY("\"F32\"", "[18446744073709551616]", "[0,4]"),
        ENTRY("\"F32\"", "[18446744073709551615]", "[0,4]"),
        ENTRY("\"F32\"", "[1,]", "[0,4]"),
        ENTRY("\"F32\"", "[[1]]", "[0,4]"),
        ENTRY("\"F32\"", "1", "[0,4]"),
        ENTRY("\"F32\"", "{}", "[0,4]"),
        ENTRY("\"F32\"", "[1]", "[4]"),
        ENTRY("\"F32\"", "[1]", "[0,4,8]"),
        ENTRY("\"F32\"", "[1]", "[-0,4]"),
        ENTRY("\"F32\"", "[1]", "[0,Infinity]"),
        ENTRY("\"F32\"", "[1]", "[0,1e400]"),
        ENTRY("4", "[1]", "[0,4]"),
        ENTRY("null", "[1]", "[0,4]"),
        ENTRY("\"F32", "[1]", "[0,4]"),
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
        "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{}}",
        "{\"a\":[]}",
        "{\"a\":null}",
        "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_"
        "offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets"
        "\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
        "\"x\":0}}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{},\"__metadata__\":{}}",
        "{\"a\\u0000\":{}}",
        "{\"\\ud800\":{}}",
        "{\"\\ud800\\u0041\":{}}",
        "{\"\\udc00\":{}}",
        "{\"\\x41\":{}}",
        "{\"\\u00g0\":{}}",
        "{\"a\nb\":{}}",
        "{\"a\"}",
        "{\"a\":",
        "{\"a",
        "{,}",
        "{} x",
        "{}{}",
        "[]",
        "  ",
        "// {}",
        "{a:{}}",
    };
    size_t i;

    for (i = 0; i < COUNT(malformed); i++)
        refused(malformed[i], 4, "header, byte");
    refused("{\"\xff\":{}}", 4, "UTF-8");
    refused("{\"\xc0\xaf\":{}}", 4, "UTF-8");
    refused("{\"\xed\xa0\x80\":{}}", 4, "UTF-8");
    refused("\xef\xbb\xbf{}", 4, "header, byte"); /* byte order mark */
    refused(ENTRY("\"f32\"", "[1]", "[0,4]"), 4, "dtype 'f32'");
    refused(ENTRY("\"F33\"", "[1]", "[0,4]"), 4, "dtype 'F33'");
    refused(ENTRY("\"F8_E5M2\"", "[4]", "[0,4]"), 4, "dtype 'F8_E5M2'");
    refused(ENTRY("\"F4\"", "[8]", "[0,4]"), 4, "dtype 'F4'");
    refused(ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "rank 9");
    refused(ENTRY("\"F32\"", "[4194305,4194305,211106198978564]", "[0,4]"), 4,
            "beyond all memory");
    refused(ENTRY("\"F32\"", "[4611686018427387905]", "[0,4]"), 4,
            "beyond all memory");
    refused(ENTRY("\"F32\"", "[2]", "[0,4]"), 4, "needs 8 bytes");
    refused(ENTRY("\"F32\"", "[1]", "[4,0]"), 4, "data_offsets are 4 to 0");
    refused(ENTRY("\"F32\"", "[1]", "[0,4]"), 3, "buffer has 3");
    refused(ENTRY("\"F32\"", "[1]", "[0,4]"), 5, "buffer has 5");
    refused(ENTRY("\"F32\"", "[1]", "[1,5]"), 5, "starts at byte 1");
    refused(
        ENTRY("\"F32\"", "[1]", "[18446744073709551612,18446744073709551616]"),
        4, "header, byte");
}

#define TWO(a0, a1, b0, b1)                                                    \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #a0 "," #a1    \
    "]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" #b0 "," #b1  \
    "]}}"

TEST(test_tiling)
{
    struct weights_import import;

    accepted(TWO(4, 8, 0, 4), "abcdefgh", 8, &import);
    assert_memory_equal(weights_dict_find(&import.dict, "a")->data, "efgh", 4);
    assert_string_equal(import.dict.entry[0].name, "a"); /* file's order */
    weights_import_clear(&import);
    refused(TWO(0, 4, 3, 7), 7, "starts at byte 3");
    refused(TWO(0, 4, 5, 9), 9, "starts at byte 5");
    refused(TWO(0, 4, 0, 4), 4, "starts at byte 0");
    refused(TWO(0, 4, 4, 8), 9, "buffer has 9");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
            8, "two tensors are named 'a'");
    refused("{\"a\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[0,8]},"
            "\"b\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[8,8]}}",
            8, "'b'"); /* both are named */
}

TEST(test_length)
{
    struct maker m = {0};

    make_file(&m, ENTRY("\"F32\"", "[1]", "[0,4]"), values, 4);
    help_truncate(ST, m.data, m.bytes);
    help_flip(ST, m.data, m.bytes);
    memset(m.data, 0xff, 8); /* 8 + n wraps */
    help_refused(ST, m.data, m.bytes, "at most 100000000");
    memset(m.data, 0, 8);
    help_refused(ST, m.data, m.bytes, "does not fit");
    m.data[0] = 1;
    help_refused(ST, m.data, m.bytes, "does not fit");
    maker_clear(&m);
}

/* Nesting and sheer numbers. */
TEST(test_large)
{
    size_t depth = 100000, i, count = 100000;
    struct maker m = {0};
    struct weights_import import;
    struct infer_error err;
    char entry[128];

    maker_int(&m, 2 * depth, 8);
    for (i = 0; i < depth; i++)
        maker_text(&m, "{\"a\":");
    help_refused(ST, m.data, 8 + 2 * depth, "header");
    m.bytes = 0;
    maker_int(&m, 0, 8);
    for (i = 0; i < count; i++) {
        snprintf(entry, sizeof entry,
                 "%c\"t%zu\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":["
                 "%zu,%zu]}",
                 i ? ',' : '{', i, i, i + 1);
        maker_text(&m, entry);
    }
    maker_text(&m, "}");
    for (i = 0; i < 8; i++)
        m.data[i] = (unsigned char)((m.bytes - 8) >> (8 * i));
    for (i = 0; i < count; i++)
        maker_int(&m, i % 251, 1);
    if (help_read(ST, m.data, m.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, count);
    assert_int_equal(weights_dict_find(&import.dict, "t99999")->data[0],
                     99999 % 251);
    weights_import_clear(&import);
    maker_clear(&m);
}

/* A name is compared with those of every architecture, piece by piece. */
TEST(test_long_names)
{
    static const char rest[] = "\":{\"dtype\":\"U8\",\"shape\":[],"
                               "\"data_offsets\":[0,1]}}";

    for (size_t n = WEIGHTS_MAX_NAME; n <= WEIGHTS_MAX_NAME + 1; n++) {
        const size_t header = 2 + n + sizeof rest - 1;
        struct maker m = {0};
        struct weights_import import;
        struct infer_error err;

        maker_int(&m, header, 8);
        maker_text(&m, "{\"");
        for (size_t i = 0; i < n; i++)
            maker_text(&m, i % 2 ? "." : "a");
        maker_text(&m, rest);
        maker_int(&m, 7, 1);
        if (n == WEIGHTS_MAX_NAME) {
            assert_int_equal(help_read(ST, m.data, m.bytes, &err, &import), 0);
            assert_int_equal(import.dict.count, 1);
            weights_import_clear(&import);
        } else {
            help_refused(ST, m.data, m.bytes, "more than 4096 bytes");
        }
        maker_clear(&m);
    }
}

/* ---- shards -------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const void *data,
                       size_t bytes)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

static int read_index(const char *folder, const char *index,
                      struct infer_error *err, struct weights_import *import)
{
    char path[512];

    write_file(folder, "m.safetensors.index.json", index, strlen(index));
    snprintf(path, sizeof path, "%s/m.safetensors.index.json", folder);
    return weights_read(path, NULL, err, import);
}

static void index_refused(const char *folder, const char *index,
                          const char *word)
{
    struct weights_import import;
    struct infer_error err;

    if (read_index(folder, index, &err, &import) >= 0)
        fail_msg("accepted, but '%s' was expected", word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[1024];

    while (dir && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

TEST(test_shards)
{
    char folder[] = "/tmp/shards-XXXXXX", soft[64], hard[64], other[64];
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};

    assert_non_null(mkdtemp(folder));
    make_file(&m, ENTRY("\"F32\"", "[2,3]", "[0,24]"), values, 24);
    write_file(folder, "1.safetensors", m.data, m.bytes);
    m.data[8 + 2] = 'b';
    write_file(folder, "2.safetensors", m.data, m.bytes);
    maker_clear(&m);
    if (read_index(folder,
                   "{\"metadata\":{\"total_size\":48},\"weight_map\":{\"b\":"
                   "\"2.safetensors\",\"a\":\"1.safetensors\"}}",
                   &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, 2);
    help_tensor(&import, "b", 2, shape23);
    weights_import_clear(&import);
    index_refused(folder, "{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
                  "no plain file name");
    index_refused(folder, "{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
                  "no plain file name");
    index_refused(folder, "{\"weight_map\":{\"a\":\"..\"}}",
                  "no plain file name");
    index_refused(folder, "{\"weight_map\":{\"a\":\"\"}}",
                  "no plain file name");
    index_refused(folder, "{\"weight_map\":{\"a\":\"3.safetensors\"}}",
                  "3.safetensors");
    index_refused(folder, "{\"weight_map\":{\"a\":1}}", "names no file");
    index_refused(folder, "{\"weight_map\":[]}", "no weight_map");
    index_refused(folder, "{\"weight_map\":{\"b\":\"1.safetensors\"}}",
                  "in none of its shards");
    index_refused(folder,
                  "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"m."
                  "safetensors.index.json\"}}",
                  "m.safetensors.index.json");
    write_file(folder, "2.safetensors", "x", 1);
    index_refused(folder,
                  "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2."
                  "safetensors\"}}",
                  "shard '2.safetensors'");
    write_file(folder, "2.safetensors", "7767517\n1 1\nInput x 0 1 x\n", 26);
    index_refused(folder,
                  "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2."
                  "safetensors\"}}",
                  "of format ncnn; shards are");
    snprintf(soft, sizeof soft, "%s/l.safetensors", folder);
    assert_int_equal(symlink("1.safetensors", soft), 0);
    index_refused(folder, "{\"weight_map\":{\"a\":\"l.safetensors\"}}",
                  "through a link");
    snprintf(other, sizeof other, "%s/1.safetensors", folder);
    snprintf(hard, sizeof hard, "%s/h.safetensors", folder);
    assert_int_equal(link(other, hard), 0);
    index_refused(folder, "{\"weight_map\":{\"a\":\"h.safetensors\"}}",
                  "hard link");
    remove_folder(folder);
}

/* ---- files --------------------------------------------------------- */

/* Sums computed once with the safetensors package. */
static void check_sum(const struct weights_import *import, const char *name,
                      double expected)
{
    const struct constant *c = weights_dict_find(&import->dict, name);
    double sum = 0;
    int64_t i;

    assert_non_null(c);
    for (i = 0; i < constant_count(c); i++)
        sum += scalar_load(c->dtype, c->data, i);
    assert_true(fabs(sum - expected) < 1e-9);
}

TEST(test_published)
{
    static const struct {
        const char *name;
        int ok;
    } files[] = {
        {"bad-header-non-utf8", 0},
        {"bad-header-not-json", 0},
        {"bad-header-too-large", 0},
        {"bad-header-too-small-empty-file", 0},
        {"bad-overflow-shape", 0},
        {"bad-trailing-bytes", 0},
        {"ok-deserialization-i32", 1},
        {"ok-empty", 1},
        {"ok-scalar-shape", 1},
        {"ok-serialization-f32", 1},
        {"ok-serialization-fp4", 0}, /* named as unsupported */
        {"ok-whitespace-leading-padded", 1},
        {"ok-zero-sized-tensor", 1},
    };
    char path[512], name[128];
    struct weights_import import;
    struct infer_error err;
    size_t i;

    for (i = 0; i < COUNT(files); i++) {
        snprintf(name, sizeof name, "safetensors-format-tests/%s.safetensors",
                 files[i].name);
        help_data(path, sizeof path, name);
        int rc = weights_read(path, NULL, &err, &import);

        if ((rc == 0) != files[i].ok)
            fail_msg("%s: %d %s", name, rc, rc ? err.text : "");
        if (strstr(name, "f32") && rc == 0) {
            const int64_t dim[] = {1, 2, 3};
            const struct constant *c = help_tensor(&import, "attn.0", 3, dim);

            assert_memory_equal(c->data, values, sizeof values);
        }
        if (strstr(name, "i32") && rc == 0) {
            static const int32_t zeros[4];
            const int64_t dim[] = {2, 2};
            const struct constant *c = help_tensor(&import, "test", 2, dim);

            assert_int_equal(c->dtype, INFER_I32);
            assert_memory_equal(c->data, zeros, sizeof zeros);
        }
        if (rc == 0)
            weights_import_clear(&import);
    }
    help_data(path, sizeof path,
              "torch-format-tests/safetensors-tests/tests/multi_layer/"
              "multi_layer.safetensors");
    if (weights_read(path, NULL, &err, &import) < 0)
        fail_msg("%s", err.text);
    check_sum(&import, "conv1.weight", 0.452049087791238);
    check_sum(&import, "norm1.running_var", 3.6108431220054626);
    check_sum(&import, "fc1.bias", -0.11218494921922684);
    check_sum(&import, "fc1.weight", -3.8182605504989624);
    weights_import_clear(&import);
    help_data(path, sizeof path, "weights/mnist-cnn-burn/mnist.safetensors");
    if (weights_read(path, NULL, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, 20);
    assert_string_equal(import.format, "safetensors");
    weights_import_clear(&import);
}

/* ---- weights that describe their network --------------------------- */

#define DENSE_GRAPH                                                            \
    "{\\\"infer\\\":1,\\\"name\\\":\\\"n\\\",\\\"inputs\\\":[{\\\"name\\\":"   \
    "\\\"x\\\","                                                               \
    "\\\"dtype\\\":\\\"F32\\\",\\\"shape\\\":[-1,2]}],\\\"nodes\\\":[{"        \
    "\\\"name\\\":\\\""                                                        \
    "d\\\",\\\"op\\\":\\\"dense\\\",\\\"in\\\":[\\\"x\\\",\\\"a\\\"],"         \
    "\\\"out\\\":[\\\""                                                        \
    "y\\\"]}],\\\"outputs\\\":[\\\"y\\\"],\\\"labels\\\":[\\\"cat\\\","        \
    "\\\"dog\\\",\\\""                                                         \
    "hen\\\"],\\\"weights\\\":{\\\"a\\\":{\\\"dtype\\\":\\\"F32\\\","          \
    "\\\"shape\\\":[" SHAPE "]}}}"
#define DESCRIBED(graph)                                                       \
    "{\"__metadata__\":{\"format\":\"pt\",\"infer.graph\":\"" graph "\"},"     \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"       \
    "\"train.state\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,"   \
    "28]}}"

TEST(test_described)
{
    static const unsigned char data[28];
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};

#define SHAPE "3,2"
    make_file(&m, DESCRIBED(DENSE_GRAPH), data, sizeof data);
    assert_int_equal(help_read(ST, m.data, m.bytes, &err, &import), 0);
    assert_non_null(import.graph);
    assert_int_equal(import.graph->n_labels, 3);
    assert_int_equal(import.graph->n_nodes, 1);
    assert_non_null(
        import.graph->value[graph_find_value(import.graph, "a")].data);
    assert_int_equal(import.dict.count, 0);
    assert_int_equal(import.dict.stripped_count, 1); /* train.state */
    weights_import_clear(&import);
    /* An architecture of the caller's, or the tensors alone. */
    for (int i = 0; i < 2; i++) {
        struct weights_file file = {.path = "memory"};
        unsigned char *copy = malloc(m.bytes);

        weights_options_init(&options);
        options.bare = i == 0;
        options.arch = i == 0 ? NULL : "resnet18";
        assert_non_null(copy);
        memcpy(copy, m.data, m.bytes);
        file.blob = blob_new(copy, m.bytes);
        weights_import_init(&import);
        assert_int_equal(ST->read(&file, &options, &err, &import), 0);
        assert_null(import.graph);
        assert_int_equal(import.dict.count, 2);
        weights_import_clear(&import);
        blob_unref(file.blob);
    }
    help_truncate(ST, m.data, m.bytes);
    help_flip(ST, m.data, m.bytes);
    maker_clear(&m);
    refused(DESCRIBED("[}"), 28, "infer.graph");
    refused(DESCRIBED("{}"), 28, "infer.graph");
    refused(
        "{\"__metadata__\":{\"infer.graph\":\"{}\",\"infer.graph\":\"{}\"}}", 0,
        "a second infer.graph");
#undef SHAPE
#define SHAPE "3,4"
    refused(DESCRIBED(DENSE_GRAPH), 28, "infer.graph");
#undef SHAPE
}

/* The header is looked for within the bytes that there are. */
TEST(test_spaces)
{
    for (size_t n = 0; n < 80; n++) {
        struct weights_file file = {"spaces", NULL};
        unsigned char spaces[80];

        memset(spaces, ' ', sizeof spaces);
        file.blob = help_blob(spaces, n);
        assert_int_equal(ST->probe(&file), 0);
        weights_file_close(&file);
    }
}

/* What weights_read() does before and around the readers. */
TEST(test_file_kinds)
{
    char folder[] = "/tmp/kinds-XXXXXX", path[128];
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};

    assert_non_null(mkdtemp(folder));
    assert_int_equal(weights_read(folder, NULL, &err, &import), INFER_EIO);
    assert_non_null(strstr(err.text, "a folder"));
    assert_int_equal(weights_read("/dev/zero", NULL, &err, &import), INFER_EIO);
    assert_int_equal(weights_read("/nonexistent", NULL, &err, &import),
                     INFER_EIO);
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(weights_read(path, NULL, &err, &import), INFER_EIO);
    assert_non_null(strstr(err.text, "FIFO"));
    snprintf(path, sizeof path, "%s/f", folder);
    write_file(folder, "f", "", 0);
    assert_int_equal(weights_read(path, NULL, &err, &import), INFER_EFORMAT);
    write_file(folder, "f", "hello, world", 12);
    assert_int_equal(weights_read(path, NULL, &err, &import),
                     INFER_EUNSUPPORTED);
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    /* Sparse, where the file system takes it. */
    if (truncate(path, (off_t)1 << 43) == 0)
        assert_int_equal(weights_read(path, NULL, &err, &import),
                         INFER_EMEMORY);
    make_file(&m, ENTRY("\"F32\"", "[2,3]", "[0,24]"), values, 24);
    write_file(folder, "f", m.data, m.bytes);
    maker_clear(&m);
    weights_options_init(&options);
    options.from = "npz";
    assert_int_equal(weights_read(path, &options, &err, &import),
                     INFER_EFORMAT);
    assert_non_null(strstr(err.text, "looks like safetensors"));
    options.from = "nonsense";
    assert_int_equal(weights_read(path, &options, &err, &import),
                     INFER_EARGUMENT);
    options.from = "auto";
    assert_int_equal(weights_read(path, &options, &err, &import), 0);
    assert_true(import.bytes > 24);
    weights_import_clear(&import);
    options.from = "safetensors";
    assert_int_equal(weights_read(path, &options, &err, &import), 0);
    weights_import_clear(&import);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),      cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_entries),    cmocka_unit_test(test_tiling),
        cmocka_unit_test(test_length),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_long_names), cmocka_unit_test(test_shards),
        cmocka_unit_test(test_spaces),     cmocka_unit_test(test_file_kinds),
        cmocka_unit_test(test_published),  cmocka_unit_test(test_described),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
