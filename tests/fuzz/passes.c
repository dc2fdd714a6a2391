/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: an ONNX model goes through the passes, and both graphs run on
 * the reference.  What ran before must run behind, to the same numbers; what
 * wconv would write must be read again. */
#include <math.h>
#include <stdio.h>

#include "libinfer/graph/model_file.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/network.h"
#include "weights/passes.h"

#define MAX_ELEMENTS 2e5

extern const struct weights_format weights_format_onnx;

static void stop(const char *what, const struct infer_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    abort();
}

static bool is_small(const struct graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        double n = 1;

        for (int j = 0; j < g->value[i].rank; j++)
            n *= g->value[i].dim[j] < 0 ? 5 : (double)g->value[i].dim[j];
        if (!(n < MAX_ELEMENTS))
            return false;
    }
    return true;
}

/* Sums in another order differ by their rounding, which grows with what they
 * cancel: 1 % of the largest value is a wrong pass. */
static void compare(const struct infer_array *a, const struct infer_array *b)
{
    const float *x = a->data, *y = b->data;
    double largest = 0, difference = 0;

    if (a->dtype != b->dtype || a->bytes != b->bytes)
        abort();
    if (a->dtype != INFER_F32)
        return;
    for (size_t i = 0; i < a->bytes / 4; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            return;
        largest = fmax(largest, fabs((double)x[i]));
        difference = fmax(difference, fabs((double)x[i] - (double)y[i]));
    }
    if (largest < 1e20 && difference > 1e-3 && difference > 0.01 * largest) {
        fprintf(stderr, "outputs differ by %g of %g\n", difference, largest);
        abort();
    }
}

static void write_and_read(struct graph *g)
{
    struct graph *again = NULL;
    struct infer_error err;
    char path[128];

    folder_open();
    if (model_file_write(g, folder_file("m", path), NULL, &err) == 0) {
        if (model_file_read(path, &err, &again) < 0)
            stop("a written model is refused", &err);
        graph_free(again);
        folder_remove("m");
    }
    folder_close();
}

/* Takes over both. */
static void run_both(struct graph *before, struct graph *after)
{
    struct network_result a, b;
    struct infer_error err;
    const int rc = network_run(before, false, &a, &err);
    const int rc_after = network_run(after, false, &b, &err);

    if (rc == 0 && rc_after < 0 && rc_after != INFER_EMEMORY)
        stop("the passes made a graph that does not run", &err);
    if (rc == 0 && rc_after == 0 && a.count != b.count)
        abort();
    for (int i = 0; rc == 0 && rc_after == 0 && i < a.count; i++)
        compare(&a.out[i], &b.out[i]);
    network_clear(&a);
    network_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weights_file file = {"fuzz/none", fuzz_blob(data, size)};
    struct weights_options options;
    struct weights_import import;
    struct pass_options passes;
    struct pass_report report;
    struct infer_error err;
    struct graph *before = NULL;

    if (!file.blob)
        return 0;
    weights_options_init(&options);
    weights_import_init(&import);
    pass_options_init(&passes);
    pass_report_init(&report);
    if (weights_format_onnx.read(&file, &options, &err, &import) == 0 &&
        graph_compact(import.graph, &err) == 0 &&
        graph_infer_shapes(import.graph, NULL, &err) == 0 &&
        is_small(import.graph) && (before = graph_copy(import.graph)) != NULL &&
        weights_run_passes(import.graph, &passes, &report, &err) == 0) {
        if (graph_validate(import.graph, &err) < 0)
            stop("the passes made an invalid graph", &err);
        write_and_read(import.graph);
        run_both(before, import.graph);
        before = import.graph = NULL;
    }
    graph_free(before);
    pass_report_clear(&report);
    weights_import_clear(&import);
    weights_file_close(&file);
    return 0;
}
