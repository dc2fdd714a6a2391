/* SPDX-License-Identifier: Apache-2.0 */
/* From a weight file to a model, as wconv does it. */
#include "tests/conformance/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/error.h"
#include "libinfer/model_file.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

int build_graph(const char *folder, const char *path, const char *arch,
                struct graph **out, struct infer_error *err)
{
    struct weights_options options;
    struct weights_import import;
    char file[4096], network[4096];
    int status;

    *out = NULL;
    snprintf(file, sizeof(file), "%s/weights/%s", folder, path);
    weights_options_init(&options);
    weights_import_init(&import);
    status = weights_read(file, &options, err, &import);
    if (status == INFER_OK && import.graph == NULL && arch != NULL) {
        snprintf(network, sizeof(network), "%s%s",
                 strstr(arch, ".json") != NULL ? SOURCE_DIR "/tests/arch/" : "",
                 arch);
        status = arch_open(network, &import.dict, err, &import.graph);
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

int build_model(const struct graph *g, struct infer_model **out,
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
