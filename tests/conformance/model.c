/* SPDX-License-Identifier: Apache-2.0 */
/* Weight files of TEST_DATA as graphs, as model files and as models. */
#include "tests/conformance/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "libinfer/graph/model_file.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

int model_read(const char *folder, const char *file, const char *arch_name,
               struct graph **out, struct infer_error *err)
{
    struct weights_options options;
    struct weights_import import;
    char path[4096], arch[4096];
    int status;

    *out = NULL;
    snprintf(path, sizeof(path), "%s/weights/%s", folder, file);
    weights_options_init(&options);
    weights_import_init(&import);
    status = weights_read(path, &options, err, &import);
    if (status == INFER_OK && import.graph == NULL && arch_name != NULL) {
        snprintf(arch, sizeof(arch), "%s", arch_name);
        if (strstr(arch_name, ".json") != NULL)
            snprintf(arch, sizeof(arch), "%s/tests/arch/%s", SOURCE_DIR,
                     arch_name);
        status = arch_open(arch, &import.dict, err, &import.graph);
        if (status == INFER_OK)
            status = weights_bind(import.graph, &import.dict, NULL, err);
    }
    if (status == INFER_OK && import.graph != NULL) {
        *out = import.graph;
        import.graph = NULL;
        status = graph_compact(*out, err);
        if (status == INFER_OK)
            status = graph_validate(*out, err);
        if (status == INFER_OK)
            status = graph_infer_shapes(*out, NULL, err);
        if (status < 0) {
            graph_free(*out);
            *out = NULL;
        }
    }
    weights_import_clear(&import);
    return status;
}

int model_optimise(const struct graph *g, struct infer_model **out,
                   struct infer_error *err)
{
    char path[] = "conformance-XXXXXX";
    struct pass_options options;
    struct pass_report report;
    struct graph *copy = graph_copy(g);
    int status, fd = mkstemp(path);

    if (fd < 0 || copy == NULL) {
        graph_free(copy);
        return error_set(err, INFER_EIO, "no temporary file");
    }
    close(fd);
    pass_options_init(&options);
    pass_report_init(&report);
    status = weights_run_passes(copy, &options, &report, err);
    if (status == INFER_OK)
        status = model_file_write(copy, path, NULL, err);
    if (status == INFER_OK)
        status = infer_model_open(path, err, out);
    unlink(path);
    pass_report_clear(&report);
    graph_free(copy);
    return status;
}

const struct infer_session_options *model_reference(void)
{
    static struct infer_session_options options;

    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    return &options;
}

const struct infer_session_options *
model_rounding(const struct infer_session_options *asked)
{
    static struct infer_session_options options;

    options = *model_reference();
    options.precision = asked->precision == INFER_PRECISION_TF32
                            ? INFER_PRECISION_FP16
                            : asked->precision;
    return &options;
}

cJSON *model_records(const char *folder)
{
    char path[4096];
    char *text = calloc(1, 1 << 20);
    cJSON *json = NULL;
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/weights/reference_outputs.json", folder);
    f = fopen(path, "rb");
    if (f != NULL) {
        n = fread(text, 1, 1 << 20, f);
        fclose(f);
    }
    if (json_parse(text, n, false, NULL, &json) < 0)
        json = NULL;
    free(text);
    return json;
}

/* ---- what is allowed ----------------------------------------------- */

bool model_on_gpu(const struct infer_session_options *asked)
{
    return asked->device != NULL && text_begins(asked->device, "cuda");
}

/* Of halves the unit roundoff of the factors, 2^-11 for TF32 and halves and
 * 2^-8 for bfloat16, times 8: errors of the layers add up like random steps.
 * Some networks make more of them; how much, the reference says that rounds
 * likewise.  A GPU sums in another order, so that some results round the other
 * way: it departs by another sample of the same size, hence twice that, up to 8
 * times the plain bound, beyond which nothing would be shown. */
double model_bound(const struct infer_session_options *asked, double rounded)
{
    static const double bound[] = {CONFORMANCE_RELATIVE, 8 * 0x1p-11,
                                   8 * 0x1p-11, 8 * 0x1p-8};
    const double least = bound[asked->precision];

    if (asked->precision == INFER_PRECISION_FP32 || !isfinite(rounded))
        return least;
    return fmax(least, fmin(2 * rounded, 8 * least));
}

void model_name_others(const struct infer_session *session,
                       enum infer_backend asked, char *out, size_t bytes)
{
    int steps[KERN_OP_COUNT] = {0};
    struct infer_layer_info layer;
    size_t used = 0;
    int i;

    out[0] = '\0';
    if (asked == INFER_BACKEND_AUTO)
        return;
    for (i = 0; i < infer_session_layer_count(session); i++) {
        const struct kern_row *row = NULL;

        if (infer_session_layer(session, i, &layer) == INFER_OK)
            row = kern_row_find(layer.kernel);
        if (row != NULL && row->backend != asked)
            steps[row->op]++;
    }
    for (i = 0; i < KERN_OP_COUNT && used < bytes; i++)
        if (steps[i] > 0)
            used += (size_t)snprintf(out + used, bytes - used, " %s %d",
                                     kern_op_name((enum kern_op)i), steps[i]);
}
