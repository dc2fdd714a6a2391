/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare weights of others with the architecture files of tests/arch: each file
 * is read, bound, taken through all passes and run.
 *
 *   reference   the first ten outputs agree with weights/reference_outputs.json
 *   twin        the same network as ONNX, read and run here, gives the same
 *   neither     the outputs have the shapes that the network should give
 *
 * Where the folder TORCH_MODELS has NAME-io.safetensors (an input and outputs
 * by name, from any other implementation), those are compared too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "kernels/base/json.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"
#include "weights/arch.h"
#include "weights/passes.h"

#define TOLERANCE 1e-4
#define FIRST     10 /* pictures with reference outputs */

enum data { NONE, MNIST, CIFAR };

static const struct row {
    const char *arch, *file;
    const char *reference; /* entry of reference_outputs.json */
    const char *twin;      /* ONNX file */
    enum data data;
    int64_t dim[4]; /* of the first output, where nothing is compared */
    bool scores;    /* the twin decodes its boxes: only scores are alike */
} rows[] = {
    {.arch = "mnist-cnn-burn",
     .file = "mnist-cnn-burn/mnist.pt",
     .reference = "mnist-cnn-burn/mnist.pt",
     .data = MNIST},
    {.arch = "mnist-cnn-burn",
     .file = "mnist-cnn-burn/mnist.safetensors",
     .reference = "mnist-cnn-burn/mnist.safetensors",
     .data = MNIST},
    {.arch = "mnist-cnn-jq",
     .file = "mnist-cnn-jq/mnist_cnn.safetensors",
     .reference = "mnist-cnn-jq/mnist_cnn.safetensors",
     .data = MNIST},
    {.arch = "resnet20-cifar",
     .file = "cifar10-resnet-akamaster/resnet20-12fca82f.th",
     .reference = "cifar10-resnet-akamaster/resnet20-12fca82f.th",
     .data = CIFAR},
    {.arch = "resnet20-atreides",
     .file = "cifar10-nets-atreides/resnet_neo_v1_5e4_20.pth",
     .reference = "cifar10-nets-atreides/resnet_neo_v1_5e4_20.pth",
     .data = CIFAR},
    {.arch = "plainnet20-atreides",
     .file = "cifar10-nets-atreides/plainnet_neo_v1_5e4_20.pth",
     .reference = "cifar10-nets-atreides/plainnet_neo_v1_5e4_20.pth",
     .data = CIFAR},
    {.arch = "base-cnn-atreides",
     .file = "cifar10-nets-atreides/base_cnn_exp0.5_sgd_lr01_e75_stepLR.pth",
     .reference =
         "cifar10-nets-atreides/base_cnn_exp0.5_sgd_lr01_e75_stepLR.pth",
     .data = CIFAR},
    {.arch = "cifar_base_kw",
     .file = "cifar10-oval21/cifar_base_kw.pth",
     .reference = "cifar10-oval21/cifar_base_kw.onnx",
     .twin = "cifar10-oval21/cifar_base_kw.onnx",
     .data = CIFAR},
    {.arch = "resnet_2b",
     .file = "cifar10-resnet-vnncomp/resnet2b-model_best.pth",
     .reference = "cifar10-resnet-vnncomp/resnet_2b.onnx",
     .twin = "cifar10-resnet-vnncomp/resnet_2b.onnx",
     .data = CIFAR},
    {.arch = "ultraface-slim-320",
     .file = "ultraface/version-slim-320.pth",
     .twin = "ultraface/version-slim-320_simplified.onnx"},
    {.arch = "ultraface-rfb-320",
     .file = "ultraface/version-RFB-320.pth",
     .twin = "ultraface/version-RFB-320.onnx",
     .scores = true},
    /* Another training than the ONNX file beside it. */
    {.arch = "cifar10-cnn-winml",
     .file = "cifar10-cnn-winml/myFirstModel.pth",
     .dim = {1, 10}},
    {.arch = "mtcnn-pnet",
     .file = "mtcnn-facenet-pytorch/pnet.pt",
     .dim = {1, 4, 19, 27}},
    {.arch = "mtcnn-rnet",
     .file = "mtcnn-facenet-pytorch/rnet.pt",
     .dim = {1, 4}},
    {.arch = "waifu2x-vgg7",
     .file = "npz-waifu2x-chainer/vgg7-anime_style_noise0_rgb.npz",
     .dim = {1, 3, 34, 50}},
    {.arch = "waifu2x-resnet10",
     .file = "npz-waifu2x-chainer/resnet10-anime_style_noise1_y.npz",
     .dim = {1, 1, 22, 38}},
    {.arch = "keras-squeezenet-notop",
     .file = "keras-squeezenet/"
             "squeezenet_weights_tf_dim_ordering_tf_kernels_notop.h5",
     .dim = {1, 512, 13, 13}},
    {.arch = "blazeface",
     .file = "blazeface/blazeface.pth",
     .dim = {1, 896, 16}},
    {.arch = "retinaface-mobilenet0.25",
     .file = "retinaface-landmark/mobilenet0.25_Final.pth",
     .dim = {1, 12600, 4}},
};

/* ---- files --------------------------------------------------------- */

static const char *data_path(const char *name)
{
    static char path[4][4096];
    static int next;
    char *p = path[next++ % 4];

    snprintf(p, 4096, "%s/%s", getenv("TEST_DATA"), name);
    return p;
}

static const char *weights_path(const char *name)
{
    char below[512];

    snprintf(below, sizeof(below), "weights/%s", name);
    return data_path(below);
}

static const char *arch_path(const char *name)
{
    static char path[4096];
    const char *source = getenv("srcdir");

    if (arch_find(name))
        return name;
    snprintf(path, sizeof(path), "%s/tests/arch/%s.json", source ? source : ".",
             name);
    return path;
}

/* The first ten pictures as bytes: planes of MNIST (gunzipped) or CIFAR. */
static void read_pictures(enum data data, unsigned char *out, size_t bytes)
{
    const bool mnist = data == MNIST;
    size_t record = bytes / FIRST;
    gzFile file;

    /* zlib reads files that are not compressed as they are. */
    file = gzopen(data_path(mnist ? "mnist/t10k-images-idx3-ubyte.gz"
                                  : "cifar10/test_batch_first1000.bin"),
                  "rb");
    assert_non_null(file);
    if (mnist)
        assert_int_equal(gzseek(file, 16, SEEK_SET), 16);
    for (int i = 0; i < FIRST; i++) {
        if (!mnist)
            gzgetc(file);
        assert_int_equal(
            gzread(file, out + (size_t)i * record, (unsigned)record),
            (int)record);
    }
    gzclose(file);
}

static cJSON *read_references(void)
{
    struct weights_file file;
    struct infer_error err;
    cJSON *json;

    assert_int_equal(weights_file_read(weights_path("reference_outputs.json"),
                                       0, &err, &file),
                     0);
    assert_int_equal(json_parse((const char *)file.blob->data, file.blob->bytes,
                                false, &err, &json),
                     0);
    weights_file_close(&file);
    return json;
}

/* ---- networks ------------------------------------------------------ */

/* Reads a file, with an architecture where it has none of its own. */
static struct graph *convert(const char *path, const char *arch)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    struct graph *g = NULL;

    weights_options_init(&options);
    weights_import_init(&import);
    err.text[0] = 0;
    if (weights_read(path, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    if (arch) {
        if (arch_open(arch, &import.dict, &err, &g) < 0 ||
            weights_bind(g, &import.dict, NULL, &err) < 0)
            fail_msg("%s: %s", path, err.text);
    } else {
        g = import.graph;
        import.graph = NULL;
    }
    weights_import_clear(&import);
    assert_non_null(g);
    if (weights_run_passes(g, NULL, NULL, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    return g;
}

struct network {
    struct infer_model *model;
    struct infer_session *session;
};

/* The large networks run on the fast backend: the reference would take most
 * of the time of all tests. */
static void open_network(struct graph *g, bool reference, struct network *net)
{
    struct infer_session_options options;
    struct infer_error err;

    memset(net, 0, sizeof(*net));
    infer_session_options_init(&options);
    if (reference)
        options.backend = INFER_BACKEND_REF;
    if (model_from_graph(g, &err, &net->model) < 0 ||
        infer_session_create(net->model, &options, &err, &net->session) < 0)
        fail_msg("%s", err.text);
}

static void close_network(struct network *net)
{
    infer_session_close(&net->session);
    infer_model_close(&net->model);
}

/* One output, by name or (NULL) the first; freed by the caller. */
static struct infer_array run(struct network *net, const struct infer_array *in,
                              const char *name)
{
    struct infer_array out = {.name = name, .bytes = sizeof(float)};
    struct infer_tensor_info info;
    struct infer_error err;
    int i = 0;

    if (infer_session_prepare(net->session, in, 1, &err) < 0)
        fail_msg("%s", err.text);
    do
        assert_int_equal(infer_session_output(net->session, i++, &info), 0);
    while (name && strcmp(info.name, name) != 0);
    for (int d = 0; d < info.rank; d++)
        out.bytes *= (size_t)info.dim[d];
    out.data = calloc(1, out.bytes + 1);
    assert_non_null(out.data);
    if (infer_session_run(net->session, in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.dtype, INFER_F32);
    return out;
}

static struct infer_array new_input(const struct network *net, int64_t batch)
{
    struct infer_tensor_info info;
    struct infer_array in;
    size_t count = 1;

    assert_int_equal(infer_model_input(net->model, 0, &info), 0);
    memset(&in, 0, sizeof(in));
    in.dtype = INFER_F32;
    in.rank = info.rank;
    for (int i = 0; i < info.rank; i++) {
        /* Free sizes: an oblong that shows exchanged dimensions. */
        in.dim[i] = info.dim[i] >= 0 ? info.dim[i]
                    : i == 0         ? batch
                    : i == 2         ? 48
                                     : 64;
        count *= (size_t)in.dim[i];
    }
    in.bytes = count * sizeof(float);
    in.data = malloc(in.bytes);
    assert_non_null(in.data);
    return in;
}

static void compare(const char *what, const float *have, const float *want,
                    size_t count)
{
    double largest = 0, worst = 0;

    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(have[i]));
        largest = fmax(largest, fabs((double)want[i]));
        worst = fmax(worst, fabs((double)want[i] - (double)have[i]));
    }
    print_message("%-26s %-10s largest difference %.2g of %.3g\n", "", what,
                  worst, largest);
    assert_true(worst <= TOLERANCE * largest);
}

/* ---- the three kinds of test --------------------------------------- */

static void fill_pictures(struct network *net, enum data data,
                          struct infer_array *in)
{
    const struct graph *g = model_graph(net->model);
    const struct graph_preprocess *p = &g->preprocess[0];
    size_t count = in->bytes / sizeof(float);
    size_t plane = (size_t)(in->dim[2] * in->dim[3]);
    unsigned char *bytes = malloc(count);
    float *x = in->data;

    assert_non_null(bytes);
    read_pictures(data, bytes, count);
    for (size_t i = 0; i < count; i++) {
        size_t channel = i / plane % (size_t)in->dim[1];

        x[i] =
            ((float)bytes[i] * p->scale - p->mean[channel]) / p->std[channel];
    }
    free(bytes);
}

static void against_reference(struct network *net, const struct row *row,
                              const cJSON *references)
{
    const cJSON *entry =
        json_member(json_member(references, "models"), row->reference);
    const cJSON *list = json_member(entry, "outputs_first10");
    struct infer_array in = new_input(net, FIRST), out;
    float want[FIRST * 10];

    assert_int_equal(cJSON_GetArraySize(list), FIRST);
    for (int i = 0; i < FIRST * 10; i++)
        want[i] =
            (float)cJSON_GetArrayItem(cJSON_GetArrayItem(list, i / 10), i % 10)
                ->valuedouble;
    fill_pictures(net, row->data, &in);
    out = run(net, &in, NULL);
    assert_int_equal(out.bytes, sizeof(want));
    compare("reference", out.data, want, FIRST * 10);
    free(out.data);
    free(in.data);
}

static void fill_waves(struct infer_array *in)
{
    float *x = in->data;

    for (size_t i = 0; i < in->bytes / sizeof(float); i++)
        x[i] = sinf((float)i * 0.37f) * cosf((float)i * 0.011f);
}

static void against_twin(struct network *net, const struct row *row)
{
    struct graph *g = convert(weights_path(row->twin), NULL);
    int n_outputs = g->n_outputs;
    struct network twin;
    struct infer_array in, have, want;

    open_network(g, row->reference != NULL, &twin);
    /* The twin's batch may be fixed. */
    in = new_input(&twin, 1);
    fill_waves(&in);
    for (int i = 0; i < n_outputs; i++) {
        struct infer_tensor_info info;

        assert_int_equal(infer_model_output(twin.model, i, &info), 0);
        if (row->scores && strcmp(info.name, "scores") != 0)
            continue;
        want = run(&twin, &in, info.name);
        have = run(net, &in, n_outputs == 1 ? NULL : info.name);
        assert_int_equal(have.bytes, want.bytes);
        compare("twin", have.data, want.data, want.bytes / sizeof(float));
        free(have.data);
        free(want.data);
    }
    free(in.data);
    close_network(&twin);
}

static void shape_alone(struct network *net, const struct row *row)
{
    struct infer_array in = new_input(net, 1), out;

    fill_waves(&in);
    out = run(net, &in, NULL);
    for (int i = 0; i < out.rank; i++)
        assert_int_equal(out.dim[i], row->dim[i]);
    for (size_t i = 0; i < out.bytes / sizeof(float); i++)
        assert_true(isfinite(((float *)out.data)[i]));
    free(out.data);
    free(in.data);
}

static void against_others(struct network *net, const struct row *row)
{
    const char *folder = getenv("TORCH_MODELS");
    struct weights_options options;
    struct weights_import io;
    struct infer_error err;
    const struct constant *x;
    struct infer_array in;
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s-io.safetensors", folder ? folder : "",
             row->arch);
    if (!folder || access(path, R_OK) != 0)
        return;
    weights_options_init(&options);
    weights_import_init(&io);
    assert_int_equal(weights_read(path, &options, &err, &io), 0);
    x = weights_dict_find(&io.dict, "input");
    assert_non_null(x);
    memset(&in, 0, sizeof(in));
    in.dtype = x->dtype;
    in.rank = x->rank;
    memcpy(in.dim, x->dim, sizeof(in.dim));
    in.data = x->data;
    in.bytes = x->bytes;
    for (size_t i = 0; i < io.dict.count; i++) {
        const struct constant *want = io.dict.entry[i].value;
        struct infer_array have;

        if (want == x)
            continue;
        have = run(net, &in, io.dict.entry[i].name);
        assert_int_equal(have.bytes, want->bytes);
        compare("others", have.data, (const float *)(const void *)want->data,
                want->bytes / sizeof(float));
        free(have.data);
    }
    weights_import_clear(&io);
}

TEST(every_row)
{
    cJSON *references = read_references();

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct network net;

        print_message("%-26s %s\n", row->arch, row->file);
        open_network(convert(weights_path(row->file), arch_path(row->arch)),
                     row->reference != NULL, &net);
        if (row->reference)
            against_reference(&net, row, references);
        if (row->twin)
            against_twin(&net, row);
        if (!row->reference && !row->twin)
            shape_alone(&net, row);
        against_others(&net, row);
        close_network(&net);
    }
    cJSON_Delete(references);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
    };

    if (!getenv("TEST_DATA")) {
        printf("TEST_DATA is not set\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
