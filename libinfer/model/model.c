/* SPDX-License-Identifier: Apache-2.0 */
/* Models: a validated graph, and the packed constants its sessions share. */
#include "libinfer/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/model/packed.h"

struct infer_model {
    int refs; /* atomic */
    struct graph *graph;
    struct packed_cache *packed;
};

int model_from_graph(struct graph *g, struct infer_error *err,
                     struct infer_model **out)
{
    struct infer_model *model = NULL;
    int rc;

    if (!g || !out) {
        graph_free(g);
        return error_set(err, INFER_EARGUMENT, "model: no graph given");
    }
    rc = graph_compact(g, err);
    if (rc == 0)
        rc = graph_validate(g, err);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    if (rc < 0)
        goto fail;
    rc = INFER_EMEMORY;
    model = calloc(1, sizeof *model);
    if (model)
        model->packed = packed_cache_new(g->n_values);
    if (!model || !model->packed) {
        error_set(err, rc, "model: out of memory");
        goto fail;
    }
    model->refs = 1;
    model->graph = g;
    *out = model;
    return 0;
fail:
    free(model);
    graph_free(g);
    return rc;
}

int infer_model_open(const char *path, struct infer_error *err,
                     struct infer_model **out)
{
    struct graph *g;
    int rc;

    if (!path || !out)
        return error_set(err, INFER_EARGUMENT, "model: no %s given",
                         path ? "place for it" : "file name");
    rc = model_file_read(path, err, &g);
    if (rc < 0)
        return rc;
    rc = model_from_graph(g, err, out);
    if (rc < 0)
        error_prefix(err, "%s", path);
    return rc;
}

int infer_model_open_memory(const void *data, size_t bytes,
                            void (*release)(void *user), void *user,
                            struct infer_error *err, struct infer_model **out)
{
    struct graph *g;
    int rc;

    if (!data || !out) {
        if (release)
            release(user);
        return error_set(err, INFER_EARGUMENT, "model: no %s given",
                         data ? "place for it" : "bytes");
    }
    rc = model_file_read_memory(data, bytes, release, user, err, &g);
    if (rc < 0)
        return rc;
    rc = model_from_graph(g, err, out);
    if (rc < 0)
        error_prefix(err, "%s", MODEL_IN_MEMORY);
    return rc;
}

struct infer_model *model_ref(struct infer_model *model)
{
    __atomic_add_fetch(&model->refs, 1, __ATOMIC_RELAXED);
    return model;
}

void infer_model_close(struct infer_model **model)
{
    struct infer_model *m;

    if (!model || !*model)
        return;
    m = *model;
    *model = NULL;
    if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    packed_cache_free(m->packed);
    graph_free(m->graph);
    free(m);
}

const struct graph *model_graph(const struct infer_model *model)
{
    return model->graph;
}

struct packed_cache *model_packed(struct infer_model *model)
{
    return model->packed;
}

const char *infer_model_name(const struct infer_model *model)
{
    return model && model->graph->name ? model->graph->name : "";
}

int infer_model_input_count(const struct infer_model *model)
{
    return model ? model->graph->n_inputs : 0;
}

int infer_model_output_count(const struct infer_model *model)
{
    return model ? model->graph->n_outputs : 0;
}

static int describe(const struct graph *g, int value,
                    struct infer_tensor_info *out)
{
    const struct graph_value *v = &g->value[value];
    int i;

    memset(out, 0, sizeof *out);
    out->name = v->name;
    out->dtype = v->dtype;
    out->rank = v->rank;
    for (i = 0; i < v->rank; i++)
        out->dim[i] = v->dim[i];
    return 0;
}

int infer_model_input(const struct infer_model *model, int index,
                      struct infer_tensor_info *out)
{
    if (!model || !out || index < 0 || index >= model->graph->n_inputs)
        return INFER_EARGUMENT;
    return describe(model->graph, model->graph->input[index], out);
}

int infer_model_output(const struct infer_model *model, int index,
                       struct infer_tensor_info *out)
{
    if (!model || !out || index < 0 || index >= model->graph->n_outputs)
        return INFER_EARGUMENT;
    return describe(model->graph, model->graph->output[index], out);
}

int infer_model_label_count(const struct infer_model *model)
{
    return model ? model->graph->n_labels : 0;
}

const char *infer_model_label(const struct infer_model *model, int index)
{
    if (!model || index < 0 || index >= model->graph->n_labels)
        return NULL;
    return model->graph->label[index];
}
