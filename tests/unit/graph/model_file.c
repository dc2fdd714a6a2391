/* SPDX-License-Identifier: Apache-2.0 */
/* Model files: there and back, and every way to damage one. */
#include "tests/unit/graph/data.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "kernels/base/scalar.h"
#include "libinfer/graph/model_file.h"
#include "tests/unit/graph/seed.h"

static char folder[] = "/tmp/model_file_test_XXXXXX";
static char path[64], other[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/m.infer", folder);
    snprintf(other, sizeof(other), "%s/o.infer", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

/* Names of the folder that are neither path nor other. */
static int strangers(void)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;

    while ((e = readdir(d)) != NULL)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
             strcmp(e->d_name, "m.infer") != 0 &&
             strcmp(e->d_name, "o.infer") != 0;
    closedir(d);
    return n;
}

/* A dense layer with weights of odd sizes: 5 inputs, 3 outputs. */
static struct graph *small_graph(void)
{
    const int64_t x_dim[2] = {-1, 5}, w_dim[2] = {3, 5}, b_dim[1] = {3};
    struct constant *w = constant_new(INFER_F32, 2, w_dim);
    struct constant *b = constant_new(INFER_F16, 1, b_dim);
    struct graph *g = graph_new();
    int in[3], y, i;

    for (i = 0; i < 15; i++)
        ((float *)(void *)w->data)[i] = (float)i * 0.5f - 3;
    for (i = 0; i < 3; i++)
        ((uint16_t *)(void *)b->data)[i] = (uint16_t)(0x3c00 + i);
    in[0] = graph_add_input(g, "x", INFER_F32, 2, x_dim);
    in[2] = graph_add_constant(g, "bias", b);
    in[1] = graph_add_constant(g, "weight \"\xc3\xa9\\", w);
    y = graph_add_value(g, "y");
    graph_add_node(g, GRAPH_DENSE, "fc", in, 3, &y, 1);
    graph_add_output(g, y);
    return g;
}

static void write_file(const char *to, const void *data, size_t bytes)
{
    FILE *f;

    /* Cutting a file short and filling it again makes some file systems write
     * it to the disk at once. */
    unlink(to);
    f = fopen(to, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

/* Reads the model and every byte of its weights, as a session would. */
static int read_all(const char *from, struct infer_error *err)
{
    struct graph *g;
    int status = model_file_read(from, err, &g), i;

    if (status < 0)
        return status;
    for (i = 0; i < g->n_values && status == 0; i++) {
        struct constant *c = g->value[i].data;
        void *buffer;

        if (c == NULL)
            continue;
        buffer = malloc(c->bytes + 1);
        status = constant_load(c, buffer, err);
        free(buffer);
    }
    graph_free(g);
    return status;
}

static void write_small(const char *to)
{
    struct graph *g = small_graph();
    struct infer_error err;

    if (model_file_write(g, to, NULL, &err) < 0)
        fail_msg("%s", err.text);
    graph_free(g);
}

/* ---- there and back ------------------------------------------------ */

TEST(test_round_trip)
{
    struct graph *g = small_graph(), *back;
    struct infer_error err;
    uint64_t written;
    const struct constant *c;
    struct stat st;
    uint16_t half[15];
    float w[15];
    int v, i;

    assert_int_equal(model_file_write(g, path, &written, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal((uint64_t)st.st_size, written);
    assert_int_equal(strangers(), 0);
    assert_int_equal(model_file_read(path, &err, &back), 0);
    v = graph_find_value(back, "weight \"\xc3\xa9\\");
    assert_true(v >= 0);
    c = back->value[v].data;
    assert_null(c->data);
    /* 60 bytes of weights before 6 of bias: neither is a multiple of 64. */
    assert_int_equal(c->offset % 64, 0);
    assert_int_equal(constant_load(c, w, &err), 0);
    for (i = 0; i < 15; i++)
        assert_true(w[i] == (float)i * 0.5f - 3);
    assert_int_equal(constant_load_as(c, INFER_F16, half, &err), 0);
    for (i = 0; i < 15; i++)
        assert_true(scalar_load(INFER_F16, half, i) == i * 0.5 - 3);
    v = graph_find_value(back, "y");
    assert_int_equal(back->value[v].rank, 2);
    assert_int_equal(back->value[v].dim[0], -1);
    assert_int_equal(back->value[v].dim[1], 3);
    /* Deleting the file leaves the open model alone. */
    unlink(path);
    assert_int_equal(constant_load(c, w, &err), 0);
    graph_free(back);
    graph_free(g);
}

/* A constant of several pieces, converted as it is read; and damaged. */
TEST(test_load_as)
{
    enum { N = 20011 };
    const int64_t dim[] = {N};
    float *w = malloc(N * sizeof *w);
    uint16_t *half = malloc(N * sizeof *half), *all = malloc(N * sizeof *all);
    struct file_source *source;
    struct infer_error err;
    struct constant *c;
    int i;

    for (i = 0; i < N; i++)
        w[i] = (float)(i % 1999) * 0.25f - 100;
    scalar_convert(INFER_F32, w, INFER_BF16, all, N);
    write_file(path, w, N * sizeof *w);
    source = file_source_open(path, &err);
    assert_non_null(source);
    for (i = 0; i < 2; i++) {
        c = constant_in_file(
            INFER_F32, 1, dim, source, 0,
            (uint32_t)crc32(0, (const unsigned char *)w, N * sizeof *w) +
                (uint32_t)i);
        assert_int_equal(constant_load_as(c, INFER_BF16, half, &err),
                         i == 0 ? 0 : INFER_EFORMAT);
        assert_memory_equal(half, all, N * sizeof *half);
        constant_unref(c);
    }
    file_source_unref(source);
    free(w);
    free(half);
    free(all);
}

/* A model that was read is written again without its bytes being in memory,
 * onto itself too, and comes out the same. */
TEST(test_rewrite)
{
    struct graph *g;
    struct infer_error err;
    struct data_bytes a, b;

    write_small(path);
    a = data_read(path);
    assert_int_equal(model_file_read(path, &err, &g), 0);
    assert_int_equal(model_file_write(g, other, NULL, &err), 0);
    b = data_read(other);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.data, b.data, a.bytes);
    free(b.data);
    assert_int_equal(model_file_write(g, path, NULL, &err), 0);
    b = data_read(path);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.data, b.data, a.bytes);
    graph_free(g);
    free(a.data);
    free(b.data);
}

TEST(test_no_weights)
{
    struct graph *g = graph_new();
    int64_t dim[2] = {-1, 4};
    int x = graph_add_input(g, "x", INFER_F32, 2, dim);
    int y = graph_add_value(g, "y");
    struct infer_error err;

    graph_add_node(g, GRAPH_SOFTMAX, "s", &x, 1, &y, 1);
    graph_add_output(g, y);
    assert_int_equal(model_file_write(g, path, NULL, &err), 0);
    assert_int_equal(read_all(path, &err), 0);
    graph_free(g);
}

/* ---- refusals of the writer ---------------------------------------- */

/* A chain of n activations. */
static struct graph *chain(int n)
{
    struct graph *g = graph_new();
    int64_t dim[2] = {-1, 4};
    int x = graph_add_input(g, "x", INFER_F32, 2, dim);

    for (int i = 0; i < n; i++) {
        char name[16];
        int y;

        snprintf(name, sizeof(name), "y%d", i);
        y = graph_add_value(g, name);
        graph_add_node(g, GRAPH_SOFTMAX, name, &x, 1, &y, 1);
        x = y;
    }
    graph_add_output(g, x);
    return g;
}

/* Whatever is written can be read: the reader's limits hold for the writer. */
TEST(test_reader_limits)
{
    static const int nodes[] = {16000, 32768};
    struct infer_error err;

    for (int i = 0; i < 2; i++) {
        struct graph *g = chain(nodes[i]);

        unlink(path);
        if (i == 0) {
            assert_int_equal(model_file_write(g, path, NULL, &err), 0);
            assert_int_equal(read_all(path, &err), 0);
        } else {
            assert_int_equal(model_file_write(g, path, NULL, &err),
                             INFER_EFORMAT);
            assert_non_null(strstr(err.text, "no model file can hold"));
            assert_non_null(strstr(err.text, "limit"));
            assert_int_not_equal(access(path, F_OK), 0);
        }
        graph_free(g);
    }
}

TEST(test_write_refused)
{
    struct graph *g = small_graph();
    struct infer_error err;
    char bad[128];

    unlink(path);
    snprintf(bad, sizeof(bad), "%s/none/m.infer", folder);
    assert_int_equal(model_file_write(g, bad, NULL, &err), INFER_EIO);
    assert_non_null(strstr(err.text, bad));
    assert_int_equal(model_file_write(g, folder, NULL, &err), INFER_EIO);
    assert_int_equal(model_file_write(g, "/dev/null", NULL, &err), INFER_EIO);
    assert_int_equal(strangers(), 0);

    graph_rename_value(g, graph_find_value(g, "bias"), "__metadata__");
    assert_int_equal(model_file_write(g, path, NULL, &err), INFER_EUNSUPPORTED);
    graph_rename_value(g, graph_find_value(g, "__metadata__"), "bias");
    g->node[0].in[2] = graph_add_value(g, "unbound");
    assert_int_equal(model_file_write(g, path, NULL, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "'unbound' has no data"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(strangers(), 0);
    graph_free(g);
}

/* A full disk (a limit on file sizes stands for it) leaves the old file. */
TEST(test_write_fails_midway)
{
    struct graph *g = small_graph();
    const int64_t big[2] = {3, 100000};
    struct rlimit old, limit;
    struct infer_error err;
    struct data_bytes a, b;
    int v = graph_add_constant(g, "big", constant_new(INFER_F32, 2, big));
    int status;

    write_small(path);
    a = data_read(path);
    g->value[g->input[0]].dim[1] = 100000;
    g->node[0].in[1] = v;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    status = model_file_write(g, path, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, INFER_EIO);
    assert_int_equal(strangers(), 0);
    b = data_read(path);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.data, b.data, a.bytes);
    assert_int_equal(model_file_write(g, path, NULL, &err), 0);
    graph_free(g);
    free(a.data);
    free(b.data);
}

/* Weights that changed in their file since it was opened are not written. */
TEST(test_write_damaged_source)
{
    struct graph *g;
    struct infer_error err;
    struct data_bytes file;
    FILE *f;

    write_small(path);
    unlink(other);
    file = data_read(path);
    assert_int_equal(model_file_read(path, &err, &g), 0);
    f = fopen(path, "r+b");
    fseek(f, -1, SEEK_END);
    fputc(file.data[file.bytes - 1] ^ 1, f);
    fclose(f);
    assert_int_equal(model_file_write(g, other, NULL, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "CRC"));
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(strangers(), 0);
    graph_free(g);
    free(file.data);
}

/* ---- damage -------------------------------------------------------- */

TEST(test_truncated)
{
    struct infer_error err;
    struct data_bytes file;
    size_t i;

    write_small(path);
    file = data_read(path);
    for (i = 0; i < file.bytes; i++) {
        write_file(other, file.data, i);
        if (read_all(other, &err) == 0)
            fail_msg("accepted when cut at byte %zu of %zu", i, file.bytes);
        assert_non_null(strstr(err.text, other));
    }
    /* And one byte too many. */
    file.data[file.bytes] = 0;
    write_file(other, file.data, file.bytes + 1);
    assert_int_equal(read_all(other, &err), INFER_EFORMAT);
    free(file.data);
}

/* Reads path with byte i replaced, which must be refused. */
static void expect_damage(int fd, size_t i, unsigned char was,
                          unsigned char value)
{
    struct infer_error err;

    assert_int_equal(pwrite(fd, &value, 1, (off_t)i), 1);
    if (read_all(path, &err) == 0)
        fail_msg("accepted with byte %zu set to %#x", i, (unsigned)value);
    assert_int_equal(pwrite(fd, &was, 1, (off_t)i), 1);
}

TEST(test_every_bit)
{
    struct infer_error err;
    struct data_bytes file;
    size_t i;
    int fd, bit;

    write_small(path);
    file = data_read(path);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (i = 0; i < file.bytes; i++)
        for (bit = 0; bit < 8; bit++)
            expect_damage(fd, i, file.data[i],
                          file.data[i] ^ (unsigned char)(1 << bit));
    close(fd);
    free(file.data);
    assert_int_equal(read_all(path, &err), 0);
}

TEST(test_every_byte)
{
    static const unsigned char values[] = {0x00, 0xff, ' ', '"'};
    struct data_bytes file;
    size_t i, k;
    int fd;

    write_small(path);
    file = data_read(path);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (i = 0; i < file.bytes; i++)
        for (k = 0; k < sizeof(values); k++)
            if (file.data[i] != values[k])
                expect_damage(fd, i, file.data[i], values[k]);
    close(fd);
    free(file.data);
}

/* ---- hostile content under a right CRC ----------------------------- */

/* Writes a file from a header text (its CRC digits 00000000) and so many
 * bytes of data, putting the right CRC in. */
static void write_signed(const char *header, size_t data_bytes)
{
    static const char mark[] = "\"infer.header_crc32\":\"00000000";
    size_t length = strlen(header), i;
    unsigned char *file = calloc(8 + length + data_bytes, 1);
    char *at, digits[9];

    for (i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(file + 8, header, length);
    snprintf(digits, sizeof(digits), "%08lx",
             crc32(0, (const Bytef *)header, (uInt)length));
    at = strstr(header, mark);
    if (at != NULL)
        memcpy(file + 8 + (at - header) + sizeof(mark) - 1 - 8, digits, 8);
    write_file(other, file, 8 + length + data_bytes);
    free(file);
}

#define META(graph, crcs)                                                      \
    "{\"__metadata__\":{\"infer.version\":\"1\","                              \
    "\"infer.header_crc32\":\"00000000\",\"infer.graph\":\"" graph "\","       \
    "\"infer.crc32\":\"" crcs "\"}"
#define GRAPH                                                                  \
    "{\\\"infer\\\":1,\\\"inputs\\\":[{\\\"name\\\":\\\"x\\\","                \
    "\\\"dtype\\\":\\\"F32\\\",\\\"shape\\\":[2]}],\\\"nodes\\\":[{"           \
    "\\\"name\\\":\\\"n\\\",\\\"op\\\":\\\"binary\\\",\\\"in\\\":["            \
    "\\\"x\\\",\\\"w\\\"],\\\"out\\\":[\\\"y\\\"]}],"                          \
    "\\\"outputs\\\":[\\\"y\\\"]}"
#define W(entry) ",\"w\":" entry "}"
#define CRC      "{\\\"w\\\":1696784233}" /* of 8 zero bytes */
#define GOOD     "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static const struct {
    const char *header;
    size_t data;
    const char *says; /* NULL: valid */
} signed_files[] = {
    {META(GRAPH, CRC) W(GOOD), 8, NULL},
    {META(GRAPH, CRC) W(GOOD) " \t\n", 8, NULL},
    {META(GRAPH, CRC) W(GOOD), 9, "make up 8 bytes, the file has 9"},
    {META(GRAPH, CRC) W(GOOD), 7,
     "cut short: the tensors make up 8 bytes, 7 are there"},
    {" " META(GRAPH, CRC) W(GOOD), 8, "does not start with '{'"},
    {META(GRAPH, CRC) W(GOOD) "{}", 8, "something follows"},
    {META(GRAPH, CRC) W("3"), 8, "not an object"},
    {META(GRAPH, CRC) W("{\"dtype\":\"F32\",\"shape\":[2]}"), 8,
     "not an object with dtype, shape"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}"),
     8, "not an object with dtype, shape"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}"),
     8, "dtype 'f32' is not known"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}"),
     8, "shape is not a list"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}"),
     8, "do not make 8 bytes"},
    {META(GRAPH, CRC) W("{\"dtype\":\"F32\",\"shape\":[4194305,4194305,"
                        "211106198978564],\"data_offsets\":[0,8]}"),
     8, "do not make 8 bytes"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}"),
     12, "overlap or hole"},
    {META(GRAPH, CRC) W(GOOD ","
                             "\"w\":" GOOD),
     8, "stands twice"},
    {META(GRAPH, CRC) W(GOOD ",\"v\":{\"dtype\":\"F32\",\"shape\":[2],"
                             "\"data_offsets\":[7,15]}"),
     15, "overlap or hole"},
    {META(GRAPH, CRC) W(GOOD ",\"v\":{\"dtype\":\"F32\",\"shape\":[2],"
                             "\"data_offsets\":[8,16]}"),
     16, "'v' is no weight"},
    {META(GRAPH, CRC) ",\"x\":" GOOD "}", 8, "'x' is no weight"},
    {META(GRAPH, CRC) ",\"y\":" GOOD "}", 8, "'y' is no weight"},
    {META(GRAPH, CRC) "}", 0, "weight 'w' has no data"},
    {META(GRAPH, "{}") W(GOOD), 8, "'w' has no CRC-32"},
    {META(GRAPH, "[]") W(GOOD), 8, "not an object"},
    {META(GRAPH, "{\\\"w\\\":-1}") W(GOOD), 8, "no number of 32 bits"},
    {META(GRAPH, "{\\\"v\\\":1}") W(GOOD), 8, "no such tensor"},
    {META(GRAPH, "{\\\"w\\\":1}") W(GOOD), 8, "do not match their CRC-32"},
    {META(GRAPH, "{") W(GOOD), 8, "infer.crc32"},
    {META("{}", CRC) W(GOOD), 8, "'infer' (the version)"},
    {META("[[[[", CRC) W(GOOD), 8, "infer.graph"},
    {"{\"w\":" GOOD "}", 8, "no model"},
    {"{\"__metadata__\":{\"infer.version\":\"2\"},\"w\":" GOOD "}", 8, "newer"},
    {"{\"__metadata__\":{\"infer.version\":\"0\"},\"w\":" GOOD "}", 8,
     "is no number"},
    {"{\"__metadata__\":{\"infer.version\":\"1x\"},\"w\":" GOOD "}", 8,
     "is no number"},
    {"{\"__metadata__\":{\"infer.version\":1},\"w\":" GOOD "}", 8, "no model"},
    {"{\"__metadata__\":{\"infer.version\":\"1\"},\"w\":" GOOD "}", 8,
     "no 'infer.header_crc32'"},
    {META(GRAPH, CRC) W("{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],"
                        "\"data_offsets\":[0,8]}"),
     8, "shape is not a list"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-1,7]}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.5]}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC)
         W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{\"a\":0,"
           "\"b\":8}}"),
     8, "data_offsets are not"},
    {META(GRAPH, CRC "\",\"infer.multiplier\":\"{\\\"name\\\":\\\"a\\\","
                     "\\\"kind\\\":\\\"float\\\",\\\"bits\\\":1}") W(GOOD),
     8, "the table of multiplier 'a' is missing"},
    {META(GRAPH, CRC "\",\"infer.multiplier\":\"{}") W(GOOD), 8,
     "\"name\" is no text"},
    /* Another place with the words of the checksum. */
    {"{\"w\":{\"infer.header_crc32\":\"11111111\"},\"__metadata__\":{"
     "\"infer.version\":\"1\",\"infer.header_crc32\":\"00000000\"}}",
     0, "no 'infer.header_crc32'"},
    {"{\"__metadata__\":{\"infer.version\":\"1\","
     "\"infer.header_crc32\":\"000000000\"}}",
     0, "no 'infer.header_crc32'"},
    {"{\"__metadata__\":{\"infer.version\":\"1\","
     "\"infer.header_crc32\":\"00000000\",\"format\":\"pt\"}}",
     0, "'format' is not known"},
    {"{\"__metadata__\":{\"infer.version\":\"1\","
     "\"infer.header_crc32\":\"00000000\",\"infer.graph\":7}}",
     0, "'infer.graph' is not a string"},
    {"{\"__metadata__\":{\"infer.version\":\"1\","
     "\"infer.header_crc32\":\"00000000\"}}",
     0, "no 'infer.graph'"},
};

TEST(test_signed)
{
    struct infer_error err;
    size_t i;

    for (i = 0; i < COUNT(signed_files); i++) {
        int status;

        write_signed(signed_files[i].header, signed_files[i].data);
        status = read_all(other, &err);
        if (signed_files[i].says == NULL
                ? status < 0
                : status == 0 || strstr(err.text, signed_files[i].says) == NULL)
            fail_msg("case %zu, %s: %s", i, signed_files[i].header,
                     status == 0 ? "accepted" : err.text);
    }
}

/* Random changes of the header with the CRC put right again: whatever comes
 * of them, nothing worse than a refusal. */
TEST(test_signed_random)
{
    static const char header[] = META(GRAPH, CRC) W(GOOD);
    static const char letters[] = "0123456789{}[]\",:\\-.eEtrufalsnwxyF \xc3";
    const char *digits = strstr(header, "00000000");
    struct infer_error err;
    int i, k, accepted = 0;

    seed_start();
    for (i = 0; i < 20000; i++) {
        char text[sizeof(header)];

        memcpy(text, header, sizeof(header));
        for (k = rand() % 3; k >= 0; k--) {
            size_t at = (size_t)rand() % (sizeof(header) - 1);

            /* Not the CRC itself. */
            if (at + 1 < (size_t)(digits - header) ||
                at > (size_t)(digits - header) + 8)
                text[at] = letters[(size_t)rand() % (sizeof(letters) - 1)];
        }
        write_signed(text, 8);
        accepted += read_all(other, &err) == 0;
    }
    assert_true(accepted < 20000);
}

TEST(test_no_file)
{
    struct infer_error err;
    struct graph *g;
    unsigned char length[16] = {0xff, 0xff, 0xff, 0xff, 0xff,
                                0xff, 0xff, 0xff, '{',  '}'};

    unlink(other);
    assert_int_equal(model_file_read(other, &err, &g), INFER_EIO);
    assert_int_equal(model_file_read(folder, &err, &g), INFER_EIO);
    assert_int_equal(model_file_read("/dev/zero", &err, &g), INFER_EIO);
    assert_int_equal(model_file_read_arch(folder, &err, &g), INFER_EIO);
    write_file(other, length, 10);
    assert_int_equal(model_file_read(other, &err, &g), INFER_EFORMAT);
    length[7] = 0x7f;
    write_file(other, length, 10);
    assert_int_equal(model_file_read(other, &err, &g), INFER_EFORMAT);
    assert_int_equal(model_file_read(other, NULL, &g), INFER_EFORMAT);
}

/* ---- architecture files -------------------------------------------- */

TEST(test_arch)
{
    static const char text[] =
        "{\"infer\":1,\"name\":\"net\",\"inputs\":[{\"name\":\"x\","
        "\"dtype\":\"F32\",\"shape\":[-1,3,8,8]}],\"nodes\":["
        "{\"name\":\"fc\",\"op\":\"flatten\",\"in\":[\"z\"],\"out\":[\"y\"]},"
        "{\"name\":\"c\",\"op\":\"conv\",\"in\":[\"x\",\"w\"],"
        "\"out\":[\"z\"]}],\"outputs\":[\"y\"],"
        "\"weights\":{\"w\":{\"shape\":[4,3,3,3]}}}\n";
    struct infer_error err;
    struct graph *g;

    write_file(other, text, sizeof(text) - 1);
    assert_int_equal(model_file_read_arch(other, &err, &g), 0);
    assert_string_equal(g->node[0].name, "c");
    assert_int_equal(g->value[graph_find_value(g, "y")].dim[1], 4 * 6 * 6);
    graph_free(g);
    write_file(other, text, sizeof(text) - 3);
    assert_int_equal(model_file_read_arch(other, &err, &g), INFER_EFORMAT);
    assert_non_null(strstr(err.text, other));
    write_file(other, "", 0);
    assert_int_equal(model_file_read_arch(other, &err, &g), INFER_EFORMAT);
}

/* Two stages of copies: the names, a value a copy, and the tensor that a copy
 * begins with. */
static const char repeats[] =
    "{'infer':1,'name':'net','inputs':[{'name':'in','dtype':'F32',"
    "'shape':[-1,3,8,8]}],'nodes':["
    "{'repeat':2,'as':'s','from':1,'x':'in','each':{'blocks':[1,2],"
    "'stride':[1,2],'from':[3,4],'to':[4,6]},'nodes':["
    "{'name':'s{s}.conv','op':'conv','in':['{x}','s{s}.w'],'out':['s{s}'],"
    "'attr':{'stride':'{stride}','pad':[1,1,1,1]}},"
    "{'repeat':'{blocks}','as':'i','x':'s{s}','nodes':["
    "{'name':'s{s}.{i+10}','op':'unary','in':['{x}'],'out':['s{s}.{i}'],"
    "'attr':{'kind':'relu'}}]}],"
    "'weights':{'s{s}.w':{'shape':['{to}','{from}',3,3]}}},"
    "{'name':'last','op':'flatten','in':['s2.1'],'out':['y']}],"
    "'outputs':['y']}";

/* The text with " for ' is written to `other` and read as an architecture. */
static int read_arch_text(const char *text, struct infer_error *err,
                          struct graph **out)
{
    char *copy = strdup(text);
    size_t n = strlen(text);
    int rc;

    assert_non_null(copy);
    for (size_t i = 0; i < n; i++)
        if (copy[i] == '\'')
            copy[i] = '"';
    write_file(other, copy, n);
    free(copy);
    rc = model_file_read_arch(other, err, out);
    return rc;
}

TEST(test_arch_repeat)
{
    struct infer_error err;
    struct graph *g;
    int i;

    if (read_arch_text(repeats, &err, &g) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(g->n_nodes, 6);
    i = g->value[graph_find_value(g, "s2.0")].producer;
    assert_string_equal(g->node[i].name, "s2.10");
    assert_string_equal(g->value[g->node[i].in[0]].name, "s2");
    i = g->value[graph_find_value(g, "s2.1")].producer;
    assert_string_equal(g->value[g->node[i].in[0]].name, "s2.0");
    i = g->value[graph_find_value(g, "s2")].producer;
    assert_string_equal(g->value[g->node[i].in[0]].name, "s1.0");
    assert_int_equal(g->node[i].attr.conv.conv.stride[1], 2);
    assert_int_equal(g->value[graph_find_value(g, "y")].dim[1], 6 * 4 * 4);
    graph_free(g);
}

TEST(test_arch_repeat_faults)
{
    static const struct {
        const char *from, *to, *message;
    } change[] = {
        {"'repeat':2", "'repeat':-1", "'repeat'"},
        {"'repeat':2", "'repeat':1e9", "'repeat'"},
        {"'repeat':2", "'repeat':[]", "'repeat'"},
        {"'stride':[1,2]", "'stride':[1,2,3]", "'stride'"},
        {"'stride':[1,2]", "'stride':7", "'stride'"},
        {"'as':'s'", "'sa':'s'", "'sa'"},
        {"'{x}','s{s}.w'", "'{x}','{q}.w'", "'{q}.w'"},
        {"'{x}','s{s}.w'", "'{x}','{s.w'", "'{s.w'"},
        {"'{x}','s{s}.w'", "'{x+1}','s{s}.w'", "'{x+1}'"},
        {"'blocks':[1,2]", "'blocks':['a',2]", "'repeat'"},
        {"'blocks':[1,2]", "'blocks':[1,32768]", "more nodes"},
        {"'from':1", "'from':1.5", "'from'"},
    };
    char text[2048];
    struct infer_error err;
    struct graph *g;

    for (size_t i = 0; i < COUNT(change); i++) {
        const char *at = strstr(repeats, change[i].from);

        assert_non_null(at);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - repeats), repeats,
                 change[i].to, at + strlen(change[i].from));
        if (read_arch_text(text, &err, &g) != INFER_EFORMAT)
            fail_msg("%s was read", change[i].to);
        if (!strstr(err.text, change[i].message))
            fail_msg("%s: %s", change[i].to, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_load_as),
        cmocka_unit_test(test_rewrite),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_reader_limits),
        cmocka_unit_test(test_write_refused),
        cmocka_unit_test(test_write_fails_midway),
        cmocka_unit_test(test_write_damaged_source),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_signed),
        cmocka_unit_test(test_signed_random),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_arch),
        cmocka_unit_test(test_arch_repeat),
        cmocka_unit_test(test_arch_repeat_faults),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
