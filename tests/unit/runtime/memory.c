/* SPDX-License-Identifier: Apache-2.0 */
/* Files of very many small things: whether they are read or refused, the
 * process takes at most twice the file and 64 MiB.  Each file is written by
 * one child and read by another, so that the peak of the second is that of
 * reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "libinfer/graph/model_file.h"
#include "tests/unit/folder.h"
#include "tests/unit/test.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/weights.h"

#ifndef __has_feature /* gcc defines a macro instead */
#define __has_feature(name) 0
#endif

#define ALLOWED_BASE ((uint64_t)64 << 20)

/* ---- files --------------------------------------------------------- */

static void out(FILE *f, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, f) != bytes)
        exit(98);
}

static void repeat(FILE *f, const char *text, long times)
{
    while (times-- > 0)
        fputs(text, f);
}

static void out_le64(FILE *f, uint64_t value)
{
    unsigned char b[8];
    int i;

    for (i = 0; i < 8; i++)
        b[i] = (unsigned char)(value >> (8 * i));
    out(f, b, 8);
}

/* A model of opset 13 with this graph, which is taken over. */
static void out_model(FILE *f, struct pb_message *graph)
{
    struct pb_message m = {0}, version = {0};

    pb_int(&m, 1, 8);
    pb_int(&version, 2, 13);
    pb_nested(&m, 8, &version);
    pb_nested(&m, 7, graph);
    out(f, m.data, m.size);
    pb_free(&m);
}

/* The graph's input x, a vector. */
static void add_input(struct pb_message *g)
{
    struct pb_message info = {0}, type = {0}, tensor = {0}, shape = {0};
    struct pb_message dim = {0};

    pb_int(&dim, 1, 4096);
    pb_nested(&shape, 1, &dim);
    pb_int(&tensor, 1, 1);
    pb_nested(&tensor, 2, &shape);
    pb_nested(&type, 1, &tensor);
    pb_text(&info, 1, "x");
    pb_nested(&info, 2, &type);
    pb_nested(g, 11, &info);
}

static void add_output(struct pb_message *g, const char *name)
{
    struct pb_message info = {0};

    pb_text(&info, 1, name);
    pb_nested(g, 12, &info);
}

/* A chain of n nodes. */
static void onnx_chain(FILE *f, long n)
{
    struct pb_message g = {0};
    char in[16] = "x", name[16];
    long i;

    add_input(&g);
    for (i = 0; i < n; i++) {
        struct pb_message node = {0};

        snprintf(name, sizeof(name), "%lx", i);
        pb_text(&node, 1, in);
        pb_text(&node, 2, name);
        pb_text(&node, 4, "Abs");
        pb_nested(&g, 1, &node);
        memcpy(in, name, sizeof(in));
    }
    add_output(&g, in);
    out_model(f, &g);
}

/* Nodes of many outputs each. */
static void onnx_splits(FILE *f, long n)
{
    struct pb_message g = {0};
    char name[16];
    long i, k;

    add_input(&g);
    for (i = 0; i < n; i++) {
        struct pb_message node = {0};

        pb_text(&node, 1, "x");
        for (k = 0; k < 4096; k++) {
            snprintf(name, sizeof(name), "%lx", i * 4096 + k);
            pb_text(&node, 2, name);
        }
        pb_text(&node, 4, "Split");
        pb_nested(&g, 1, &node);
    }
    add_output(&g, "0");
    out_model(f, &g);
}

static void onnx_initializers(FILE *f, long n)
{
    struct pb_message g = {0};
    char name[16];
    long i;

    add_input(&g);
    for (i = 0; i < n; i++) {
        struct pb_message t = {0};

        snprintf(name, sizeof(name), "%lx", i);
        pb_text(&t, 8, name);
        pb_nested(&g, 5, &t);
    }
    add_output(&g, "x");
    out_model(f, &g);
}

/* One node with 64 lists of n numbers, a byte each. */
static void onnx_numbers(FILE *f, long n)
{
    struct pb_message g = {0}, node = {0};
    char name[16], *ones = malloc((size_t)n);
    int i;

    if (ones == NULL)
        exit(98);
    memset(ones, 1, (size_t)n);
    add_input(&g);
    pb_text(&node, 1, "x");
    pb_text(&node, 2, "y");
    pb_text(&node, 4, "Abs");
    for (i = 0; i < 64; i++) {
        struct pb_message a = {0};

        snprintf(name, sizeof(name), "a%d", i);
        pb_text(&a, 1, name);
        pb_bytes(&a, 8, ones, (size_t)n);
        pb_nested(&node, 5, &a);
    }
    free(ones);
    pb_nested(&g, 1, &node);
    add_output(&g, "y");
    out_model(f, &g);
}

/* Empty tensors; the header alone. */
static void safetensors(FILE *f, long n)
{
    long at, i;

    out_le64(f, 0);
    fputc('{', f);
    for (i = 0; i < n; i++)
        fprintf(f,
                "%s\"%lx\":{\"dtype\":\"U8\",\"shape\":[0],"
                "\"data_offsets\":[0,0]}",
                i ? "," : "", i);
    fputc('}', f);
    at = ftell(f);
    rewind(f);
    out_le64(f, (uint64_t)at - 8);
}

/* The index of shards that are not there. */
static void safetensors_index(FILE *f, long n)
{
    long i;

    fputs("{\"weight_map\":{\"\":\"a\"", f);
    for (i = 0; i < n; i++)
        fprintf(f, ",\"%lx\":\"%lx\"", i, i % 10000);
    fputs("}}", f);
}

static const char arch_head[] = "{\"infer\":1,\"inputs\":[{\"name\":\"x\","
                                "\"dtype\":\"F32\",\"shape\":[4]}],"
                                "\"nodes\":[";

/* An architecture, with quotes as they stand in a file or inside a string. */
static void chain_text(FILE *f, long n, const char *quote)
{
    const char *at;
    long i;

    for (at = arch_head; *at; at++)
        if (*at == '"')
            fputs(quote, f);
        else
            fputc(*at, f);
    for (i = 0; i < n; i++) {
        char in[16] = "x";

        if (i > 0)
            snprintf(in, sizeof(in), "%lx", i - 1);
        fprintf(f,
                "%s{%sname%s:%s%lx%s,%sop%s:%sunary%s,%sin%s:[%s%s%s],"
                "%sout%s:[%s%lx%s]}",
                i ? "," : "", quote, quote, quote, i, quote, quote, quote,
                quote, quote, quote, quote, quote, in, quote, quote, quote,
                quote, i, quote);
    }
    fprintf(f, "],%soutputs%s:[%s%lx%s]}", quote, quote, quote, n - 1, quote);
}

static void arch_chain(FILE *f, long n)
{
    chain_text(f, n, "\"");
}

/* Weights that no node reads. */
static void arch_weights(FILE *f, long n)
{
    long i;

    fputs(arch_head, f);
    fputs("],\"weights\":{", f);
    for (i = 0; i < n; i++)
        fprintf(f, "%s\"%lx\":{}", i ? "," : "", i);
    fputs("},\"outputs\":[\"x\"]}", f);
}

static void json_zeros(FILE *f, long n)
{
    fputs("{\"infer\":[0", f);
    repeat(f, ",0", n);
    fputs("]}", f);
}

static void json_strings(FILE *f, long n)
{
    fputs("{\"infer\":[\"\"", f);
    repeat(f, ",\"\"", n);
    fputs("]}", f);
}

/* Writes the digits of the header's CRC behind its mark, and the length. */
static void seal(FILE *f, long digits)
{
    long end = ftell(f);
    size_t bytes = (size_t)end - 8;
    unsigned char *text = malloc(bytes);

    if (text == NULL || fflush(f) != 0 || fseek(f, 8, SEEK_SET) != 0 ||
        fread(text, 1, bytes, f) != bytes)
        exit(98);
    fseek(f, digits, SEEK_SET);
    fprintf(f, "%08lx", crc32(0, text, (uInt)bytes));
    rewind(f);
    out_le64(f, bytes);
    free(text);
}

static long model_head(FILE *f)
{
    long digits;

    out_le64(f, 0);
    fputs("{\"__metadata__\":{\"infer.version\":\"1\","
          "\"infer.header_crc32\":\"",
          f);
    digits = ftell(f);
    fputs("00000000\",\"infer.crc32\":\"{}\",\"infer.graph\":\"", f);
    return digits;
}

static void model_chain(FILE *f, long n)
{
    long digits = model_head(f);

    chain_text(f, n, "\\\"");
    fputs("\"}}", f);
    seal(f, digits);
}

/* Many nodes, and as many empty tensors that are none of theirs. */
static void model_tensors(FILE *f, long n)
{
    long digits = model_head(f), i;

    chain_text(f, 20000, "\\\"");
    fputs("\"}", f);
    for (i = 0; i < n; i++)
        fprintf(f,
                ",\"t%lx\":{\"dtype\":\"U8\",\"shape\":[0],"
                "\"data_offsets\":[0,0]}",
                i);
    fputc('}', f);
    seal(f, digits);
}

/* ---- reading ------------------------------------------------------- */

typedef int reader_fn(struct infer_error *err);

static int read_weights(struct infer_error *err)
{
    struct weights_options options;
    struct weights_import import;
    int status;

    weights_options_init(&options);
    weights_import_init(&import);
    status = weights_read(in_folder("file"), &options, err, &import);
    if (status == INFER_OK)
        weights_import_clear(&import);
    return status;
}

static int read_model(struct infer_error *err)
{
    struct infer_model *model = NULL;
    int status = infer_model_open(in_folder("file"), err, &model);

    infer_model_close(&model);
    return status;
}

static int read_arch(struct infer_error *err)
{
    struct graph *g = NULL;
    int status = model_file_read_arch(in_folder("file"), err, &g);

    if (status == INFER_OK)
        graph_free(g);
    return status;
}

static pid_t start(void)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    return child;
}

static void write_file(void (*write)(FILE *f, long n), long n)
{
    pid_t child = start();
    int status;

    if (child == 0) {
        FILE *f = fopen(in_folder("file"), "w+b");

        if (f == NULL)
            _exit(98);
        write(f, n);
        _exit(fclose(f) == 0 ? 0 : 98);
    }
    assert_true(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

/* Bytes that the process which reads the file takes at its peak; words: of the
 * refusal, NULL where it is to be read. */
static uint64_t peak_of(reader_fn *read, const char *words)
{
    pid_t child = start();
    struct rusage usage;
    int status;

    if (child == 0) {
        struct infer_error err = {0};
        int rc = read(&err);

        if (words == NULL ? rc < 0 : strstr(err.text, words) == NULL) {
            fprintf(stderr, "%d: %s\n", rc, err.text);
            _exit(1);
        }
        _exit(0);
    }
    assert_true(wait4(child, &status, 0, &usage) == child);
    assert_int_equal(status, 0);
    return (uint64_t)usage.ru_maxrss << 10;
}

TEST(test_peaks)
{
    static const struct {
        const char *name;
        void (*write)(FILE *f, long n);
        long n;
        reader_fn *read;
        const char *words;
    } row[] = {
        {"ONNX, chain", onnx_chain, 32768, read_weights, NULL},
        {"ONNX, longer chain", onnx_chain, 1000000, read_weights,
         "more than 32768 nodes"},
        {"ONNX, outputs", onnx_splits, 23, read_weights, NULL},
        {"ONNX, more outputs", onnx_splits, 32, read_weights, "limit of 98304"},
        {"ONNX, many more outputs", onnx_splits, 256, read_weights,
         "more than 262144"},
        {"ONNX, initializers", onnx_initializers, 262143, read_weights, NULL},
        {"ONNX, more initializers", onnx_initializers, 1000000, read_weights,
         "more than 262144"},
        {"ONNX, numbers", onnx_numbers, 1000000, read_weights,
         "more than 1048576 entries"},
        {"safetensors", safetensors, 131072, read_weights, NULL},
        {"safetensors, more", safetensors, 1000000, read_weights,
         "more than 131072 tensors"},
        {"safetensors, index", safetensors_index, 100000, read_weights, ""},
        {"safetensors, larger index", safetensors_index, 3000000, read_weights,
         "more values"},
        {"architecture, chain", arch_chain, 20000, read_arch, NULL},
        {"architecture, longer chain", arch_chain, 40000, read_arch, "more"},
        {"architecture, long chain", arch_chain, 1000000, read_arch, "more"},
        {"architecture, weights", arch_weights, 98000, read_arch, NULL},
        {"architecture, more weights", arch_weights, 1000000, read_arch,
         "more"},
        {"JSON, numbers", json_zeros, 10000000, read_arch, "more values"},
        {"JSON, strings", json_strings, 10000000, read_arch, "more values"},
        {"model, chain", model_chain, 20000, read_model, NULL},
        {"model, longer chain", model_chain, 1000000, read_model, "more"},
        {"model, tensors", model_tensors, 20000, read_model, "no weight"},
        {"model, more tensors", model_tensors, 1000000, read_model, "more"},
    };
    bool within = true;
    size_t i;

    for (i = 0; i < COUNT(row); i++) {
        struct stat st;
        uint64_t allowed, peak;

        write_file(row[i].write, row[i].n);
        assert_int_equal(stat(in_folder("file"), &st), 0);
        allowed = 2 * (uint64_t)st.st_size + ALLOWED_BASE;
        peak = peak_of(row[i].read, row[i].words);
        print_message("%-28s file %6.1f MiB, peak %6.1f of %6.1f MiB\n",
                      row[i].name, (double)st.st_size / 1048576,
                      (double)peak / 1048576, (double)allowed / 1048576);
        within = within && peak <= allowed;
    }
    assert_true(within);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peaks)};

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
    fprintf(stderr, "the sanitizer's own memory hides what is measured\n");
    return 77;
#endif
    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
