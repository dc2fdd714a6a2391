/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in architectures against PyTorch: state_dicts, inputs and outputs
 * that tests/make/torch_models.py wrote into the folder TORCH_MODELS.  Each is
 * read, bound, taken through all passes and run; the outputs agree to 1e-4 of
 * the largest one.  INFER_TEST_BACKEND=ref runs the reference backend.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libinfer/model/model.h"
#include "tests/unit/test.h"
#include "weights/arch.h"
#include "weights/passes.h"

#define TOLERANCE 1e-4

static struct graph *convert(const struct arch_row *row, const char *path)
{
    struct weights_options options;
    struct weights_import import;
    struct pass_report report;
    struct infer_error err;
    struct graph *g = NULL;

    weights_options_init(&options);
    weights_import_init(&import);
    pass_report_init(&report);
    err.text[0] = 0;
    if (weights_read(path, &options, &err, &import) < 0 ||
        arch_open(row->name, &import.dict, &err, &g) < 0 ||
        weights_bind(g, &import.dict, NULL, &err) < 0)
        fail_msg("%s", err.text);
    weights_import_clear(&import);
    if (weights_run_passes(g, NULL, &report, &err) < 0)
        fail_msg("%s", err.text);
    pass_report_clear(&report);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_BATCH_NORM)
            fail_msg("%s: %s was left", row->name, g->node[i].name);
    return g;
}

static struct infer_array as_array(const struct constant *c)
{
    struct infer_array a;

    memset(&a, 0, sizeof(a));
    a.dtype = c->dtype;
    a.rank = c->rank;
    memcpy(a.dim, c->dim, sizeof(a.dim));
    a.data = c->data;
    a.bytes = c->bytes;
    return a;
}

static void run(struct graph *g, const struct constant *in, float *out,
                size_t bytes)
{
    const char *backend = getenv("INFER_TEST_BACKEND");
    struct infer_session_options options;
    struct infer_array x = as_array(in), y;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_error err;

    infer_session_options_init(&options);
    if (backend && strcmp(backend, "ref") == 0)
        options.backend = INFER_BACKEND_REF;
    memset(&y, 0, sizeof(y));
    y.data = out;
    y.bytes = bytes;
    err.text[0] = 0;
    if (model_from_graph(g, &err, &model) < 0 ||
        infer_session_create(model, &options, &err, &session) < 0 ||
        infer_session_run(session, &x, 1, &y, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(y.bytes, bytes);
    infer_session_close(&session);
    infer_model_close(&model);
}

static void compare(const char *name, const struct constant *want,
                    const float *have)
{
    const float *w = (const float *)(const void *)want->data;
    double largest = 0, worst = 0;

    for (int64_t i = 0; i < constant_count(want); i++) {
        largest = fmax(largest, fabs((double)w[i]));
        worst = fmax(worst, fabs((double)w[i] - (double)have[i]));
        assert_true(isfinite(have[i]));
    }
    print_message("%-20s largest difference %.2g of %.3g\n", name, worst,
                  largest);
    assert_true(worst <= TOLERANCE * largest);
}

static int test_one(const char *folder, const struct arch_row *row)
{
    char path[4096], io_path[4096];
    struct weights_options options;
    struct weights_import io;
    struct infer_error err;
    struct constant *in, *want;
    float *have;

    snprintf(path, sizeof(path), "%s/%s.pth", folder, row->name);
    snprintf(io_path, sizeof(io_path), "%s/%s-io.safetensors", folder,
             row->name);
    if (access(path, R_OK) != 0)
        return 0;
    weights_options_init(&options);
    weights_import_init(&io);
    if (weights_read(io_path, &options, &err, &io) < 0)
        fail_msg("%s", err.text);
    in = weights_dict_find(&io.dict, "input");
    want = weights_dict_find(&io.dict, "output");
    assert_non_null(in);
    assert_non_null(want);
    have = calloc(1, want->bytes);
    assert_non_null(have);
    run(convert(row, path), in, have, want->bytes);
    compare(row->name, want, have);
    free(have);
    weights_import_clear(&io);
    return 1;
}

TEST(all_that_are_there)
{
    const char *folder = getenv("TORCH_MODELS");
    int tested = 0;

    for (size_t i = 0; i < arch_count(); i++)
        tested += test_one(folder, arch_at(i));
    assert_true(tested > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_are_there),
    };

    if (!getenv("TORCH_MODELS")) {
        printf("TORCH_MODELS is not set: see tests/make/torch_models.py\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
