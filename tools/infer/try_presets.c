/* SPDX-License-Identifier: Apache-2.0 */
/* --try-presets: pictures through every preset of preprocessing, since a wrong
 * one gives wrong results without an error. */
#include <inttypes.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "libinfer/model/model.h"
#include "tools/infer/infer_tool.h"
#include "tools/infer/reader.h"
#include "tools/preprocess.h"

/* A preset, and a picture through the network with it. */
struct trial {
    const char *name;
    const struct infer_model *model; /* whose preprocessing it is */
    const struct infer_image *image;
};

static void print_name(const struct trial *t)
{
    cli_print("  %-10s ", t->name);
}

/* The best class. */
static int show_class(const struct tool_run *run, const struct trial *t,
                      const struct infer_array *y, struct infer_error *err)
{
    const int64_t n = array_count(y) / y->dim[0];
    double *p = malloc((size_t)n * sizeof *p);
    const char *label;
    int64_t best = 0;

    if (p == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    tool_probabilities(y, 0, p);
    for (int64_t i = 1; i < n; i++)
        if (p[i] > p[best])
            best = i;
    label = tool_label(run, best);
    print_name(t);
    cli_print("%6.2f%%  %5" PRId64 "  %s\n", 100 * p[best], best,
              label ? label : "");
    free(p);
    return INFER_OK;
}

/* How many boxes, and the best. */
static int show_boxes(const struct tool_run *run, const struct trial *t,
                      const struct task_outputs *o, struct infer_error *err)
{
    struct task_boxes boxes = {0};
    const int rc =
        task_detect(&run->task, o, &run->request->limits, err, &boxes);

    if (rc < 0)
        return rc;
    print_name(t);
    cli_print("%5d box%s", boxes.count, boxes.count == 1 ? "" : "es");
    if (boxes.count > 0) {
        const char *label = tool_label(run, boxes.box[0].label);

        cli_print(", best %.2f%%  %d%s%s", 100 * (double)boxes.box[0].score,
                  boxes.box[0].label, label ? "  " : "", label ? label : "");
    }
    cli_print("\n");
    free(boxes.box);
    return INFER_OK;
}

/* How much of the picture that is made is cut off at black and white. */
static int show_made(const struct trial *t, const struct task_outputs *o,
                     struct infer_error *err)
{
    struct infer_image image;
    const int rc = task_image(o, preprocess_of(model_graph(t->model), 0),
                              t->image, err, &image);

    if (rc < 0)
        return rc;
    print_name(t);
    cli_print("%6.2f%% of the values are 0 or 255\n",
              100 * tool_share_at_limits(&image));
    infer_image_free(&image);
    return INFER_OK;
}

static int run_one(struct tool_run *run, const struct trial *t,
                   struct infer_array *in, struct infer_error *err)
{
    struct arrays outputs = {0};
    const int64_t *hw = in->dim + in->rank - 2;
    const int64_t batch = tool_pictures_in(in);
    int rc = infer_session_prepare(run->session, in, 1, err);

    if (rc == INFER_OK)
        rc = tool_make_outputs(run->session, run->model, &outputs, err);
    if (rc == INFER_OK)
        rc = tool_find_task(run, &outputs, hw, batch, err);
    if (rc == INFER_OK)
        rc = infer_session_run(run->session, in, 1, outputs.item, outputs.count,
                               err);
    if (rc == INFER_OK) {
        const struct task_outputs o = tool_outputs(run, &outputs, hw, batch, 0);

        rc = run->task.kind == TASK_DETECT ? show_boxes(run, t, &o, err)
             : run->task.kind == TASK_IMAGE
                 ? show_made(t, &o, err)
                 : show_class(run, t, &outputs.item[0], err);
    }
    arrays_clear(&outputs);
    return rc;
}

/* The input for one picture as `model` prepares it.  A fixed batch is filled
 * with zeros. */
static int make_input(const struct infer_model *model,
                      const struct infer_image *image, struct infer_error *err,
                      struct infer_array *in)
{
    struct infer_tensor_info info;
    int64_t dim[4];
    int rc = tool_check_input(model, &info, err);

    if (rc < 0)
        return rc;
    dim[0] = info.dim[0] > 0 ? info.dim[0] : 1;
    dim[1] = info.dim[1];
    preprocess_open_size(preprocess_of(model_graph(model), 0), image, &dim[2],
                         &dim[3]);
    for (int i = 2; i < 4; i++)
        if (info.dim[i] > 0)
            dim[i] = info.dim[i];
    *in = (struct infer_array){.name = info.name, .dtype = INFER_F32};
    tool_picture_array(model, dim, in);
    rc = array_alloc("input", info.name, in, err);
    if (rc == INFER_OK)
        rc = infer_model_preprocess(model, 0, image, dim + 2, in->data,
                                    in->bytes / (size_t)dim[0], err);
    return rc;
}

static int try_one(struct tool_run *run, const struct trial *t,
                   struct infer_error *err)
{
    struct infer_array in = {0};
    int rc = make_input(t->model, t->image, err, &in);

    if (rc == INFER_OK)
        rc = run_one(run, t, &in, err);
    free(in.data);
    return rc;
}

/* The model with another preprocessing. */
static int preset_model(const struct infer_model *model, int which,
                        struct infer_error *err, struct infer_model **out)
{
    struct graph *g = graph_copy(model_graph(model));
    const struct graph_value *x;
    struct graph_preprocess *p;
    int64_t dim[4];

    *out = NULL;
    if (g == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    x = &g->value[g->input[0]];
    p = &g->preprocess[0];
    if (!p->present)
        *p = *preprocess_of(g, 0);
    p->present = true;
    preprocess_dims(x->rank, x->dim, dim);
    if (preprocess_set_preset(which, p) > dim[1]) {
        graph_free(g);
        return INFER_OK; /* a preset of colours for a gray input */
    }
    preprocess_fit_preset(dim, p);
    if (dim[1] == 1)
        p->color = GRAPH_GRAY;
    return model_from_graph(g, err, out);
}

static int try_all(struct tool_run *run, const char *path,
                   struct infer_error *err)
{
    struct infer_image image = {0};
    struct trial t = {"as stored", run->model, &image};
    int rc = reader_load(path, (uint64_t)run->request->max_pixels, err, &image);

    if (rc < 0)
        return rc;
    cli_print("%s\n", path);
    rc = try_one(run, &t, err);
    for (int k = 0; rc == INFER_OK && preprocess_presets[k] != NULL; k++) {
        struct infer_model *model;

        rc = preset_model(run->model, k, err, &model);
        t.name = preprocess_presets[k];
        t.model = model;
        if (rc == INFER_OK && model != NULL)
            rc = try_one(run, &t, err);
        infer_model_close(&model);
    }
    infer_image_free(&image);
    return rc;
}

int tool_try_presets(struct tool_run *run, const struct tool_list *list,
                     struct infer_error *err)
{
    struct infer_tensor_info info;
    char text[256];
    int rc = tool_check_input(run->model, &info, err);

    if (rc == INFER_OK && preprocess_text(model_graph(run->model), "model file",
                                          text, sizeof text))
        cli_print("as stored: %s\n", text);
    for (size_t i = 0; rc == INFER_OK && i < list->count; i++)
        rc = try_all(run, list->path[i], err);
    if (rc == INFER_OK && run->cli->verbosity >= 0)
        cli_print("wconv MODEL -o MODEL --preset=NAME stores the right one\n");
    return rc;
}
