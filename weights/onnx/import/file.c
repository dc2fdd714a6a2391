/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files: the format row. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/import.h"

/* ---- versions ------------------------------------------------------ */

/* Of the operators that those of other domains are told in, in a model that
 * imports no version of ONNX's own. */
#define FUNCTION_OPSET 17

static int check_versions(struct onnx_import *im)
{
    const struct onnx_model *m = im->model;

    if (m->ir_version < 1 || m->ir_version > ONNX_MAX_IR)
        return onnx_fail(im,
                         m->ir_version < 1 ? INFER_EFORMAT : INFER_EUNSUPPORTED,
                         "ONNX IR version %lld; 1 to %d are read",
                         (long long)m->ir_version, ONNX_MAX_IR);
    im->opset = m->opset;
    if (m->opset == 0) /* versions are older than opset_import; or no node
                          is one of ONNX's, which check_plain() sees to */
        im->opset = m->ir_version < 3 ? 1 : FUNCTION_OPSET;
    if (im->opset > ONNX_MAX_OPSET)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "ONNX opset %lld; 1 to %d are read",
                         (long long)im->opset, ONNX_MAX_OPSET);
    return 0;
}

/* ---- the graph as a source ----------------------------------------- */

static int add_constants(struct onnx_import *im, const struct onnx_list *list,
                         const struct onnx_list *names, bool is_sparse)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct pb_span name = names->item[i];
        int v;

        if (name.bytes == 0)
            onnx_fail(im, INFER_EFORMAT, "initializer %zu has no name", i);
        if (im->rc < 0 || onnx_value_get(im, name, &v) < 0)
            return im->rc;
        if (im->value[v].state != ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "two initializers are named '%.*s'",
                             PB_TEXT(name, 128));
        im->value[v].state = ONNX_LAZY;
        im->value[v].tensor = list->item[i];
        im->value[v].is_sparse = is_sparse;
    }
    return 0;
}

static int file_constants(struct onnx_import *im)
{
    const struct onnx_graph *g = &im->model->graph;

    if (add_constants(im, &g->initializer, &g->initializer_name, false) < 0)
        return im->rc;
    return add_constants(im, &g->sparse, &g->sparse_name, true);
}

static int file_load(struct onnx_import *im, struct pb_span tensor,
                     struct constant **out)
{
    struct constant *c;
    int rc = onnx_tensor_load(im->model, tensor, im->err, &c);

    if (rc == 0)
        *out = constant_ref(c);
    return rc;
}

static int file_input(struct onnx_import *im, size_t i,
                      struct onnx_value_info *out)
{
    const struct onnx_list *list = &im->model->graph.input;
    int rc;

    if (i == list->count)
        return 0;
    rc = onnx_value_info_parse(im->model, list->item[i], im->err, out);
    return rc < 0 ? rc : 1;
}

static int file_output(struct onnx_import *im, size_t i, struct pb_span *out)
{
    const struct onnx_list *list = &im->model->graph.output;
    struct onnx_value_info info;
    int rc;

    if (i == list->count)
        return 0;
    rc = onnx_value_info_parse(im->model, list->item[i], im->err, &info);
    *out = info.name;
    return rc < 0 ? rc : 1;
}

static int file_nodes(struct onnx_import *im)
{
    int result = 0, rc;

    if (onnx_order_nodes(im, &im->model->graph.node) < 0)
        return im->rc;
    rc = onnx_import_list(im, &im->model->graph.node, &result);
    return rc < 0 && rc != INFER_EMEMORY && result < 0 ? result
           : rc < 0                                    ? rc
                                                       : result;
}

/* ---- the whole ----------------------------------------------------- */

static int import_model(struct onnx_model *m,
                        const struct weights_options *options,
                        struct infer_error *err, struct graph **out)
{
    static const struct onnx_source file = {
        .constants = file_constants,
        .input = file_input,
        .nodes = file_nodes,
        .output = file_output,
        .load = file_load,
    };
    struct onnx_import settings;

    memset(&settings, 0, sizeof(settings));
    settings.source = &file;
    settings.model = m;
    settings.options = options;
    settings.err = err;
    return check_versions(&settings) < 0
               ? settings.rc
               : onnx_import_either(&settings, m->graph.name, out);
}

/* Sizes that an input leaves open and the network has one number for
 * (few_sizes.c): "64x64", "" where there are none. */
static void fixed_sizes(const struct onnx_value_info *info,
                        const struct graph *g, char *text, size_t bytes)
{
    char name[128];
    size_t used = 0;
    int value;

    *text = '\0';
    snprintf(name, sizeof name, "%.*s", PB_TEXT(info->name, 120));
    value = graph_find_value(g, name);
    for (int d = 1; value >= 0 && d < info->rank && used < bytes; d++)
        if (info->dim[d] < 0 && d < g->value[value].rank &&
            g->value[value].dim[d] >= 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld",
                                     used > 0 ? "x" : "",
                                     (long long)g->value[value].dim[d]);
}

/* Says of which inputs one size alone is taken though the file leaves it open.
 */
static int say_fixed(const struct onnx_model *m,
                     const struct weights_options *options,
                     const struct graph *g, struct infer_error *err,
                     char *detail, size_t bytes)
{
    const struct onnx_list *list = &m->graph.input;

    for (size_t i = 0; i < list->count && options->input_count == 0; i++) {
        const size_t used = strlen(detail);
        struct onnx_value_info info;
        char sizes[48];
        const int rc = onnx_value_info_parse(m, list->item[i], err, &info);

        if (rc < 0)
            return rc;
        fixed_sizes(&info, g, sizes, sizeof sizes);
        if (*sizes)
            snprintf(detail + used, bytes - used, ", %.*s takes %s alone",
                     PB_TEXT(info.name, 24), sizes);
    }
    return 0;
}

static int read_onnx(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    struct infer_error local;
    struct onnx_model m;
    int rc;

    if (!err)
        err = &local;
    rc = onnx_model_open(file->blob, file->path, err, &m);
    if (rc < 0)
        return rc;
    rc = import_model(&m, options, err, &out->graph);
    if (rc == 0) {
        rc = onnx_metadata_apply(&m, out->graph, err);
        snprintf(out->detail, sizeof(out->detail),
                 "opset %lld, IR version %lld, %.*s%s%.*s",
                 (long long)(m.opset ? m.opset : 1), (long long)m.ir_version,
                 PB_TEXT(m.producer, 40),
                 m.producer_version.bytes > 0 ? " " : "",
                 PB_TEXT(m.producer_version, 24));
        if (rc == 0)
            rc = say_fixed(&m, options, out->graph, err, out->detail,
                           sizeof(out->detail));
        out->bytes = file->blob->bytes + m.external_bytes;
    }
    onnx_model_close(&m);
    return rc;
}

/* ---- recognition --------------------------------------------------- */

/* A protobuf message whose first fields are those of a ModelProto: an IR
 * version first, as every writer puts it, or any known field with the right
 * wire type. */
static int probe_onnx(const struct weights_file *file)
{
    struct pb_reader r;
    struct pb_field f;
    int known = 0, n;

    pb_open(&r, file->blob->data, file->blob->bytes);
    for (n = 0; n < 16; n++) {
        int rc = pb_next(&r, &f, NULL);

        if (rc < 0)
            return known > 1 ? 40 : 0; /* cut off: this reader says where */
        if (rc == 0)
            break;
        if ((f.number == 1 && f.wire == PB_VARINT && f.value >= 1 &&
             f.value <= 1000) ||
            (f.number == 7 && f.wire == PB_BYTES))
            known += 2;
        else if (f.number == 8 && f.wire == PB_BYTES)
            known++;
        else if (f.number == 0 || f.number > 30)
            return 0;
    }
    return known >= 4 ? 90 : known >= 2 ? 50 : 0;
}

const struct weights_format weights_format_onnx = {
    .name = "onnx",
    .description = "ONNX model, opset 1 to 28",
    .probe = probe_onnx,
    .read = read_onnx,
};
