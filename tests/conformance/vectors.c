/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trained weights of others on one recorded input each, against outputs that
 * were computed independently (TEST_DATA/weights/reference_outputs.json).
 *
 * Each model runs as read and optimised on the reference backend, and optimised
 * on the fastest one: within 1e-4 of the largest output.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"
#include "kernels/scalar.h"
#include "libinfer/json.h"
#include "tests/conformance/model.h"
#include "weights/weights.h"

#define RELATIVE 1e-4

static const struct {
    const char *model, *input; /* below weights/ */
} cases[] = {
    {"keras-mlperf-tiny/vww_96.h5", "reference-inputs/vww_96-input.npy"},
    {"keras-mini-xception/fer2013_mini_XCEPTION.102-0.66.hdf5",
     "reference-inputs/fer2013_mini_XCEPTION.102-0.66-input.npy"},
    {"keras-mini-xception/gender_mini_XCEPTION.21-0.95.hdf5",
     "reference-inputs/gender_mini_XCEPTION.21-0.95-input.npy"},
    {"onnx-winml/SqueezeNet_fp16.onnx",
     "reference-inputs/SqueezeNet-onnx-tutorials-cat-input-f16.npy"},
    {"onnx-winml/SqueezeNet_fp16.onnx",
     "reference-inputs/SqueezeNet-winml-hummingbird-input-f16.npy"},
};

static const char *folder;

/* ---- what is expected ---------------------------------------------- */

/* Places of the output and their values. */
struct expected {
    int n, index[64];
    double value[64];
};

static void expect(struct expected *e, int index, double value)
{
    if (e->n < 64) {
        e->index[e->n] = index;
        e->value[e->n++] = value;
    }
}

/* Either the whole first row, or the five most likely classes of the result
 * whose input this is. */
static void find_expected(const cJSON *record, const char *input,
                          struct expected *e)
{
    const cJSON *row =
        cJSON_GetArrayItem(json_member(record, "outputs_first10"), 0);
    const cJSON *value, *result;

    e->n = 0;
    cJSON_ArrayForEach(value, row) expect(e, e->n, value->valuedouble);
    cJSON_ArrayForEach(result, json_member(record, "results"))
    {
        const char *path = json_string(result, "input");

        if (path == NULL || strstr(path, input) == NULL)
            continue;
        cJSON_ArrayForEach(value, json_member(result, "top5"))
            expect(e, cJSON_GetArrayItem(value, 0)->valueint,
                   cJSON_GetArrayItem(value, 2)->valuedouble);
    }
}

/* ---- running ------------------------------------------------------- */

/* The difference from what is expected, relative to the largest; infinite on
 * failure. */
static double run(struct infer_model *model, enum infer_backend backend,
                  const struct constant *x, const struct expected *e,
                  struct infer_error *err)
{
    struct infer_array in = {0}, out = {0};
    struct infer_session_options options;
    struct infer_session *session = NULL;
    double largest = 0, worst = 0;
    int status, i;

    infer_session_options_init(&options);
    options.backend = backend;
    in.dtype = x->dtype;
    in.rank = x->rank;
    memcpy(in.dim, x->dim, sizeof(in.dim));
    in.data = x->data;
    in.bytes = x->bytes;
    status = infer_session_create(model, &options, err, &session);
    if (status == INFER_OK)
        status = infer_session_run(session, &in, 1, &out, 1, err);
    out.data = calloc(1, out.bytes + 1);
    if (status == INFER_OK && out.data != NULL)
        status = infer_session_run(session, &in, 1, &out, 1, err);
    for (i = 0; i < e->n && status == INFER_OK; i++) {
        double y = scalar_load(out.dtype, out.data, e->index[i]);

        largest = fmax(largest, fabs(e->value[i]));
        worst = isnan(y) ? INFINITY : fmax(worst, fabs(y - e->value[i]));
    }
    free(out.data);
    infer_session_close(&session);
    return status == INFER_OK && largest > 0 ? worst / largest : INFINITY;
}

/* The only tensor of a .npy file as the network takes it: a graph is N,C,H,W,
 * the recorded inputs of Keras are N,H,W,C. */
static struct constant *read_input(const char *file, bool channels_last,
                                   struct infer_error *err)
{
    static const int order[4] = {0, 3, 1, 2};
    struct weights_import import;
    struct constant *x = NULL;
    struct weights_options options;
    char path[4096];

    snprintf(path, sizeof(path), "%s/weights/%s", folder, file);
    weights_options_init(&options);
    weights_import_init(&import);
    if (weights_read(path, &options, err, &import) == INFER_OK &&
        import.dict.count == 1 && import.dict.entry[0].value->rank == 4)
        x = channels_last
                ? constant_transpose(import.dict.entry[0].value, order)
                : constant_ref(import.dict.entry[0].value);
    weights_import_clear(&import);
    return x;
}

static bool check(size_t i, const cJSON *models)
{
    const char *name = cases[i].model;
    struct infer_model *plain = NULL, *lean = NULL;
    double worst[3] = {INFINITY, INFINITY, INFINITY};
    struct infer_error err = {0};
    struct graph *g = NULL, *copy;
    struct constant *x;
    struct expected e;
    bool good;

    find_expected(json_member(models, name), cases[i].input, &e);
    x = read_input(cases[i].input, strncmp(name, "keras", 5) == 0, &err);
    if (e.n > 0 && x != NULL &&
        model_read(folder, name, NULL, &g, &err) == INFER_OK &&
        model_optimise(g, &lean, &err) == INFER_OK) {
        copy = graph_copy(g);
        if (copy != NULL &&
            infer_model_from_graph(copy, &err, &plain) == INFER_OK)
            worst[0] = run(plain, INFER_BACKEND_REF, x, &e, &err);
        worst[1] = run(lean, INFER_BACKEND_REF, x, &e, &err);
        worst[2] = run(lean, INFER_BACKEND_AUTO, x, &e, &err);
    }
    good = worst[0] <= RELATIVE && worst[1] <= RELATIVE && worst[2] <= RELATIVE;
    printf("%-6s %s: %d values, %.1e as read, %.1e reference, %.1e fastest\n",
           good ? "ok" : "FAILED", name, e.n, worst[0], worst[1], worst[2]);
    if (err.code != 0)
        printf("       %s\n", err.text);
    infer_model_close(&plain);
    infer_model_close(&lean);
    graph_free(g);
    constant_unref(x);
    return good;
}

int main(void)
{
    size_t i, failed = 0, n = sizeof(cases) / sizeof(cases[0]);
    cJSON *records;

    folder = getenv("TEST_DATA");
    if (folder == NULL || folder[0] == '\0') {
        printf("skipped: TEST_DATA is not set\n");
        return 77;
    }
    records = model_records(folder);
    if (records == NULL) {
        printf("FAILED reference_outputs.json cannot be read\n");
        return 1;
    }
    for (i = 0; i < n; i++)
        failed += !check(i, json_member(records, "models"));
    cJSON_Delete(records);
    printf("%zu inputs, %zu failed\n", n, failed);
    return failed > 0;
}
