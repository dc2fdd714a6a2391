/* SPDX-License-Identifier: Apache-2.0 */
/* infer_detect.h: the boxes of libinfer/task for programs. */
#include "include/infer_detect.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/model/model.h"
#include "libinfer/options.h"
#include "libinfer/task/task.h"

static const struct infer_detect_options defaults = {
    .size = sizeof defaults, .score = -1, .iou = 0.45f, .batch = 1};

void infer_detect_options_init_sized(struct infer_detect_options *options,
                                     size_t size)
{
    options_init(options, size, &defaults, sizeof defaults);
}

static int read_options(const struct infer_detect_options *given,
                        struct infer_error *err,
                        struct infer_detect_options *out)
{
    int rc;

    *out = defaults;
    if (!given)
        return INFER_OK;
    rc =
        options_copy(given, "infer_detect_options_init", sizeof *out, err, out);
    if (rc < 0)
        return rc;
    if (!(out->iou >= 0 && out->iou <= 1) || !(out->score <= 1) ||
        out->batch < 1 || out->entry < 0 || out->entry >= out->batch)
        return error_set(err, INFER_EARGUMENT,
                         "options: score %g, iou %g, picture %lld of %lld",
                         (double)out->score, (double)out->iou,
                         (long long)out->entry, (long long)out->batch);
    return INFER_OK;
}

/* Sizes of the network's input in *o. */
static int find_input(const struct graph *g,
                      const struct infer_detect_options *options,
                      struct infer_error *err, struct task_outputs *o)
{
    const struct graph_value *x = g->n_inputs ? &g->value[g->input[0]] : NULL;
    int64_t dim[4];

    if (!x || !preprocess_dims(x->rank, x->dim, dim))
        return error_set(err, INFER_EARGUMENT,
                         "the first input is no picture (N,1 or 3,H,W)");
    for (int i = 0; i < 2; i++) {
        if (dim[2 + i] <= 0 && options->shape_hw)
            dim[2 + i] = options->shape_hw[i];
        if (dim[2 + i] <= 0 || dim[2 + i] > INT32_MAX)
            return error_set(
                err, INFER_EARGUMENT,
                "input '%s' leaves its size free: options.shape_hw "
                "gives it",
                x->name);
    }
    o->channels = dim[1];
    o->height = dim[2];
    o->width = dim[3];
    return INFER_OK;
}

/* Copies of the outputs with the model's names. */
static int name_outputs(const struct infer_model *model,
                        const struct infer_array *out, int n,
                        struct infer_error *err, struct infer_array **named)
{
    const int expected = infer_model_output_count(model);

    if (n != expected || !out)
        return error_set(err, INFER_EARGUMENT,
                         "%d outputs are given, the model has %d", out ? n : 0,
                         expected);
    *named = malloc((size_t)n * sizeof **named + 1);
    if (!*named)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        struct infer_array *a = &(*named)[i];
        struct infer_tensor_info info;

        *a = out[i];
        infer_model_output(model, i, &info);
        a->name = info.name;
        if (!a->data || a->rank < 0 || a->rank > INFER_MAX_RANK ||
            infer_dtype_size(a->dtype) == 0 ||
            array_bytes(a->dtype, a->rank, a->dim) > a->bytes)
            return error_set(err, INFER_EARGUMENT,
                             "output '%s' has no data, or less than its shape "
                             "says",
                             info.name);
    }
    return INFER_OK;
}

static int find_task(const struct graph *g,
                     const struct infer_detect_options *options,
                     const struct task_outputs *o, struct infer_error *err,
                     struct task *task)
{
    const char *word = options->task ? options->task : g->task;
    int rc = INFER_OK;

    if (word)
        rc = task_parse(word, err, task);
    else
        *task = task_recognise(o);
    if (rc == INFER_OK && task->kind != TASK_DETECT)
        return error_set(err, INFER_EARGUMENT,
                         "the outputs are taken for the task %s (options.task "
                         "\"detect\" or \"detect:NAME\" says that they are "
                         "boxes)",
                         task_words[task->kind]);
    return rc == INFER_OK ? task_find_decoder(o, task, err) : rc;
}

/* Boxes and points in one piece of memory. */
static int give_boxes(const struct task_boxes *from, struct infer_error *err,
                      struct infer_boxes *out)
{
    size_t points = 0;
    float *at;

    for (int i = 0; i < from->count; i++)
        points += (size_t)from->box[i].n_points;
    out->box = malloc((size_t)from->count * sizeof *out->box +
                      points * 3 * sizeof(float) + 1);
    if (!out->box)
        return error_set(err, INFER_EMEMORY, "out of memory");
    out->count = from->count;
    at = (float *)(void *)(out->box + out->count);
    for (int i = 0; i < from->count; i++) {
        const struct task_box *b = &from->box[i];
        const size_t n = 3 * (size_t)b->n_points;

        out->box[i] = (struct infer_box){.left = b->left,
                                         .top = b->top,
                                         .right = b->right,
                                         .bottom = b->bottom,
                                         .score = b->score,
                                         .label = b->label,
                                         .oriented = b->oriented,
                                         .n_points = b->n_points,
                                         .point = n ? at : NULL};
        memcpy(out->box[i].corner, b->corner, sizeof out->box[i].corner);
        memcpy(at, b->point, n * sizeof *at);
        for (size_t k = 2; k < n && !b->point_scores; k += 3)
            at[k] = 1;
        at += n;
    }
    return INFER_OK;
}

static int detect(const struct infer_model *model,
                  const struct infer_image *picture,
                  const struct infer_detect_options *options,
                  struct task_outputs *o, struct infer_error *err,
                  struct infer_boxes *boxes)
{
    const struct graph *g = model_graph(model);
    const struct task_limits limits = {options->score, options->iou};
    struct task_boxes found = {0};
    struct task task;
    int rc = find_input(g, options, err, o);

    if (rc == INFER_OK)
        rc = find_task(g, options, o, err, &task);
    if (rc == INFER_OK)
        rc = task_detect(&task, o, &limits, err, &found);
    if (rc == INFER_OK) {
        const struct preprocess_window window = preprocess_window_of(
            preprocess_of(g, 0), picture, (int)o->width, (int)o->height);

        task_place(&window, picture, &found);
        rc = give_boxes(&found, err, boxes);
    }
    free(found.box);
    return rc;
}

int infer_detect(const struct infer_model *model, const struct infer_array *out,
                 int n_out, const struct infer_image *picture,
                 const struct infer_detect_options *options,
                 struct infer_error *err, struct infer_boxes *boxes)
{
    struct infer_detect_options o;
    struct infer_array *named = NULL;
    int rc;

    if (!boxes)
        return error_set(err, INFER_EARGUMENT, "boxes is NULL");
    *boxes = (struct infer_boxes){0};
    if (!model || !picture || picture->width < 1 || picture->height < 1)
        return error_set(err, INFER_EARGUMENT, "no model or no picture given");
    rc = read_options(options, err, &o);
    if (rc == INFER_OK)
        rc = name_outputs(model, out, n_out, err, &named);
    if (rc == INFER_OK) {
        struct task_outputs outputs = {
            .array = named, .count = n_out, .batch = o.batch, .entry = o.entry};

        rc = detect(model, picture, &o, &outputs, err, boxes);
    }
    free(named);
    return rc;
}

void infer_boxes_free(struct infer_boxes *boxes)
{
    if (!boxes)
        return;
    free(boxes->box);
    *boxes = (struct infer_boxes){0};
}
