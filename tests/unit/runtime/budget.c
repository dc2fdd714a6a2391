/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile files: what is refused takes at most twice the file and 64 MiB at the
 * peak, and no file ends the process.  Each is read by a process of its own.
 * Files are made here, and every file of TEST_DATA's suites is read. */
#include "tests/unit/folder.h"
#include "tests/unit/runtime/budget.h"

#include "tests/unit/graph/data.h"
#include "tests/unit/weights/onnx_model.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/weights.h"

/* ---- readers ------------------------------------------------------- */

static int read_picture(const char *name, struct infer_error *err)
{
    struct infer_image image;
    const int rc = infer_image_load(name, 0, err, &image);

    if (rc == 0)
        infer_image_free(&image);
    return rc;
}

static int read_weights(const char *name, struct infer_error *err)
{
    struct weights_options options;
    struct weights_import import;
    int rc;

    weights_options_init(&options);
    weights_import_init(&import);
    rc = weights_read(name, &options, err, &import);
    if (rc == 0)
        weights_import_clear(&import);
    return rc;
}

/* ---- pictures ------------------------------------------------------ */

/* 45 bytes, 2 GiB: an ancillary chunk that declares 2^31-1 bytes. */
static void png_chunk(FILE *f)
{
    budget_png_head(f, 1, 8, 0);
    budget_put(f, "\x7f\xff\xff\xffpCALxxxx", 12);
}

/* The same length on a chunk that makes the picture. */
static void png_palette(FILE *f)
{
    budget_png_head(f, 1, 8, 0);
    budget_put(f, "\x7f\xff\xff\xffPLTExxxx", 12);
}

static void png_2e28(FILE *f)
{
    budget_png_head(f, 16384, 1, 3);
    budget_png_rows(f, 16384, 0);
}

/* As many pixels as are allowed, of which the last byte is missing. */
static void png_2e26_cut(FILE *f)
{
    budget_png_head(f, 8192, 1, 3);
    budget_png_rows(f, 8192, 1);
}

static void jpeg_no_dc(FILE *f)
{
    budget_jpeg(f, 8192, false, 30);
}

static void jpeg_2e28(FILE *f)
{
    budget_jpeg(f, 16384, true, 6);
}

static void jpeg_scans(FILE *f)
{
    budget_jpeg(f, 64, true, 98);
}

static void jpeg_kept(FILE *f)
{
    budget_put(f, "\xff\xd8", 2);
    for (int i = 0; i < 1 << 20; i++)
        budget_put(f, "\xff\xe1\0\2", 4);
    budget_put(f, "\xff\xd9", 2);
}

static void jpeg_work(FILE *f)
{
    budget_jpeg(f, 8192, true, 97);
}

/* ---- and those that are read --------------------------------------- */

static void jpeg_sound(FILE *f)
{
    budget_jpeg(f, 64, true, 97);
}

static void png_sound(FILE *f)
{
    budget_png_head(f, 64, 1, 3);
    budget_put(f, "\0\0\0\0tEXt\x1c\xde\xf8\x9b", 12); /* wrong CRC */
    budget_png_rows(f, 64, 0);
}

static void png_large(FILE *f)
{
    budget_png_head(f, 8192, 1, 3);
    budget_png_rows(f, 8192, 0);
}

/* ---- weights ------------------------------------------------------- */

/* One number stands for 2^27, 512 MiB, where a few integers are due. */
static void graph_of_one_number(FILE *f)
{
    static const int64_t shape[2] = {4, 2}, many[1] = {1 << 27};
    static const float one = 1;
    struct pb_message graph = {0}, node;

    def_placeholder(&graph, "x", 2, shape);
    def_floats(&graph, "order", 1, many, &one, 1);
    node = def_node("y", "Transpose", "x", "order");
    pb_nested(&graph, 1, &node);
    budget_put(f, graph.data, graph.size);
    pb_free(&graph);
}

/* A network whose weights are made by its nodes, refused at the last one: 600
 * MiB of equal elements that layers read, 512 MiB of one element expanded and
 * used as places, 16,000 copies of a tensor of 16 MiB. */
static void put_network(FILE *f, struct pb_message *graph)
{
    struct pb_message m;

    graph_input(graph, "x", DIMS(-1, 4096));
    graph_output(graph, "y");
    graph_node(graph, "Unknown", "last", "y", NULL);
    m = model_of(graph, 13);
    budget_put(f, m.data, m.size);
    pb_free(&m);
}

static void weights_of_nodes(FILE *f)
{
    struct pb_message graph = {0};
    char from[16] = "x", to[16], w[16];

    graph_ints(&graph, "s", DIMS(2), INTS(4096, 4096));
    for (int i = 0; i < 9; i++) {
        struct pb_message value = {0};

        attr_tensor(&value, "value",
                    tensor_raw("", 1, DIMS(1), FLOATS(0.5f), sizeof(float)));
        snprintf(w, sizeof w, "w%d", i);
        snprintf(to, sizeof to, i < 8 ? "t%d" : "last", i);
        graph_node(&graph, "ConstantOfShape", "s", w, &value);
        snprintf(w, sizeof w, "%s w%d", from, i);
        graph_node(&graph, i & 1 ? "MatMul" : "Gemm", w, to, NULL);
        snprintf(from, sizeof from, "%s", to);
    }
    put_network(f, &graph);
}

static void places_of_nodes(FILE *f)
{
    struct pb_message graph = {0};

    graph_ints(&graph, "s", DIMS(1), INTS(1 << 26));
    graph_ints(&graph, "one", DIMS(1), INTS(3));
    graph_node(&graph, "Expand", "one s", "places", NULL);
    graph_node(&graph, "Gather", "x places", "last", NULL);
    put_network(f, &graph);
}

static void chain_of_nodes(FILE *f)
{
    struct pb_message graph = {0};
    char from[16] = "t", to[16];

    graph_ints(&graph, "s", DIMS(1), INTS(1 << 22));
    graph_floats(&graph, "one", DIMS(1), FLOATS(3));
    graph_node(&graph, "Expand", "one s", from, NULL);
    for (int i = 0; i < 16000; i++) {
        snprintf(to, sizeof to, "t%d", i);
        graph_node(&graph, "Neg", from, to, NULL);
        snprintf(from, sizeof from, "%s", to);
    }
    graph_node(&graph, "NonZero", from, "last", NULL);
    put_network(f, &graph);
}

TEST(test_files)
{
    static const struct {
        const char *name;
        budget_reader *read_file;
        void (*make)(FILE *f);
        const char *words; /* of the refusal; NULL: it is read */
    } row[] = {
        {"PNG, chunk of 2 GiB", read_picture, png_chunk,
         "pCAL at byte 33 declares"},
        {"PNG, palette of 2 GiB", read_picture, png_palette,
         "PLTE at byte 33 declares"},
        {"PNG, 2^28 pixels", read_picture, png_2e28,
         "more than the 67108864 allowed"},
        {"PNG, 2^26 pixels, cut", read_picture, png_2e26_cut, "PNG: "},
        {"JPEG, no DC scan", read_picture, jpeg_no_dc,
         "component 1 of 3 has no DC scan"},
        {"JPEG, 2^28 pixels", read_picture, jpeg_2e28,
         "more than the 67108864 allowed"},
        {"JPEG, 2^20 segments 0xe1", read_picture, jpeg_kept, "JPEG: "},
        {"JPEG, 101 scans", read_picture, jpeg_scans, "more than 100 scans"},
        {"JPEG, 100 scans of 2^26", read_picture, jpeg_work,
         "100 scans of 8192 x 8192"},
        {"JPEG, 100 scans of 2^12", read_picture, jpeg_sound, NULL},
        {"PNG, bad text chunk", read_picture, png_sound, NULL},
        {"PNG, 2^26 pixels", read_picture, png_large, NULL},
        {"graph, 2^27 of a number", read_weights, graph_of_one_number,
         "has more than 8 entries"},
        {"ONNX, 600 MiB of weights", read_weights, weights_of_nodes,
         "operator Unknown is not supported"},
        {"ONNX, 512 MiB of places", read_weights, places_of_nodes,
         "operator Unknown is not supported"},
        {"ONNX, 250 GiB of copies", read_weights, chain_of_nodes,
         "operator Unknown is not supported"},
    };
    bool good = true;
    size_t i;

    for (i = 0; i < COUNT(row); i++) {
        FILE *f = fopen(in_folder("file"), "wb");
        struct budget_result r;

        assert_non_null(f);
        row[i].make(f);
        assert_int_equal(fclose(f), 0);
        r = budget_measure(row[i].read_file, in_folder("file"));
        print_message("| %-24s | %9llu | %7.1f | %s |\n", row[i].name,
                      (unsigned long long)r.file, (double)r.peak / 1048576,
                      r.rc == 0 ? "read" : "refused");
        if (!budget_holds(&r) ||
            (row[i].words ? strstr(r.err.text, row[i].words) == NULL
                          : r.rc != 0)) {
            print_message("^ %d %d: %s\n", r.signal, r.rc, r.err.text);
            good = false;
        }
    }
    assert_true(good);
}

/* ---- the suites ---------------------------------------------------- */

struct suite {
    budget_reader *read_file;
    int read, refused, over;
    uint64_t peak; /* the highest of a refused file */
    char worst[256];
};

/* Larger files are what the other tests read. */
#define MAX_FILE ((off_t)32 << 20)

static void visit(const char *name, void *user)
{
    struct suite *s = user;
    struct budget_result r;
    struct stat st;

    if (stat(name, &st) < 0 || st.st_size > MAX_FILE)
        return;
    r = budget_measure(s->read_file, name);
    s->read += r.rc == 0;
    s->refused += r.rc != 0;
    if (r.rc != 0 && r.peak > s->peak) {
        s->peak = r.peak;
        snprintf(s->worst, sizeof(s->worst), "%s", name);
    }
    if (!budget_holds(&r)) {
        s->over++;
        print_message("%s: signal %d, %.1f MiB for %llu bytes: %s\n", name,
                      r.signal, (double)r.peak / 1048576,
                      (unsigned long long)r.file, r.err.text);
    }
}

static int walk(const char *name, budget_reader *read_file)
{
    struct suite s = {.read_file = read_file};
    const char *last;
    char top[2048];

    if (data_path(name, top, sizeof(top)) == NULL) {
        print_message("left out: TEST_DATA has no %s\n", name);
        return 0;
    }
    walk_files(top, visit, &s);
    last = strrchr(s.worst, '/');
    print_message("| %-34s | %4d read | %4d refused | %6.1f MiB | %s |\n", name,
                  s.read, s.refused, (double)s.peak / 1048576,
                  last ? last + 1 : "");
    return s.over;
}

TEST(test_suites)
{
    static const struct {
        const char *name;
        budget_reader *read_file;
    } suite[] = {
        {"png-tests", read_picture},
        {"jpeg-tests", read_picture},
        {"photos", read_picture},
        {"hdf5-malformed", read_weights},
        {"keras-format-tests", read_weights},
        {"npy-format-tests", read_weights},
        {"onnx-tests", read_weights},
        {"pickle-malicious-DO-NOT-UNPICKLE", read_weights},
        {"safetensors-format-tests", read_weights},
        {"torch-format-tests", read_weights},
        {"weights-formats", read_weights},
        /* And every reader on the files of the others. */
        {"png-tests", read_weights},
        {"jpeg-tests", read_weights},
        {"hdf5-malformed", read_picture},
    };
    int over = 0;
    size_t i;

    for (i = 0; i < COUNT(suite); i++)
        over += walk(suite[i].name, suite[i].read_file);
    assert_int_equal(over, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_suites),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
