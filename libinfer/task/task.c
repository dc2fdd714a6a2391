/* SPDX-License-Identifier: Apache-2.0 */
/* Words of tasks, and the task that outputs speak for. */
#include "libinfer/task/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/task/decoder.h"

const char *const task_words[] = {"classify", "detect",    "segment",   "image",
                                  "depth",    "embedding", "landmarks", NULL};

/* Least side of an output that is taken for a map or a picture. */
#define LEAST_SIDE 8

int task_parse(const char *word, struct infer_error *err, struct task *out)
{
    static const char detect[] = "detect:";
    char known[512];

    for (int i = 0; task_words[i]; i++)
        if (strcmp(word, task_words[i]) == 0) {
            *out = (struct task){.kind = (enum task_kind)i};
            return INFER_OK;
        }
    if (strncmp(word, detect, sizeof detect - 1) == 0) {
        const char *name = word + sizeof detect - 1;
        const size_t length = strcspn(name, ":");

        *out = (struct task){TASK_DETECT, decoder_find(name, length),
                             name[length] ? name + length + 1 : NULL};
        if (out->decoder)
            return INFER_OK;
    }
    if (strcmp(word, "landmarks:2") == 0 || strcmp(word, "landmarks:3") == 0) {
        *out = (struct task){.kind = TASK_LANDMARKS,
                             .detail = word + sizeof "landmarks:" - 1};
        return INFER_OK;
    }
    decoder_names(known, sizeof known);
    return error_set(err, INFER_EARGUMENT,
                     "'%.64s' is not a task: classify, segment, image, depth, "
                     "embedding, landmarks, landmarks:3, detect, or detect: "
                     "with one of %s",
                     word, known);
}

bool task_entry(const struct task_outputs *o, int i, int rank,
                struct task_entry *out)
{
    const struct infer_array *a = &o->array[i];
    const int lead = a->rank - rank;
    int64_t count = 1;

    if (lead < 0 || lead > 1 || (lead == 0 && o->batch != 1) ||
        (lead == 1 && a->dim[0] != o->batch))
        return false;
    out->array = a;
    out->rank = rank;
    for (int d = 0; d < rank; d++) {
        out->dim[d] = a->dim[lead + d];
        count *= out->dim[d];
    }
    out->first = lead ? o->entry * count : 0;
    return true;
}

/* A map coarser than this fraction of the input's side is no map of pixels. */
#define COARSEST 8

/* An output of the shape of a picture: N,C,H,W with H and W the same multiple
 * or fraction of the input's.  Outputs beside it have the same H and W: others
 * are the grids of a detector. */
static bool is_plane(const struct task_outputs *o, struct task_entry *e)
{
    for (int i = 1; i < o->count; i++) {
        struct task_entry other;

        if (!task_entry(o, 0, 3, e) || !task_entry(o, i, 3, &other) ||
            other.dim[1] != e->dim[1] || other.dim[2] != e->dim[2])
            return false;
    }
    return o->array[0].rank == 4 && task_entry(o, 0, 3, e) &&
           e->dim[1] * COARSEST >= o->height && e->dim[1] >= LEAST_SIDE &&
           e->dim[2] >= LEAST_SIDE && o->height > 0 && o->width > 0 &&
           e->dim[1] * o->width == e->dim[2] * o->height;
}

struct task task_recognise(const struct task_outputs *o)
{
    struct task task = {.kind = TASK_CLASSIFY};
    struct task_entry e;

    if (o->count < 1)
        return task;
    /* Maps of one size may be heat, sides and offsets. */
    task.decoder = o->count > 2 ? decoder_of(o) : NULL;
    if (task.decoder) {
        task.kind = TASK_DETECT;
        return task;
    }
    if (is_plane(o, &e)) {
        const bool shrunk = e.dim[1] < o->height;

        if (!shrunk && (e.dim[0] == o->channels || e.dim[0] == 3))
            task.kind = TASK_IMAGE;
        else if (e.dim[0] > 1 || scalar_is_integer(e.array->dtype))
            task.kind = TASK_SEGMENT;
        else
            task.kind = TASK_IMAGE;
        return task;
    }
    /* Whole numbers H,W. */
    if (scalar_is_integer(o->array[0].dtype) && task_entry(o, 0, 2, &e) &&
        e.dim[0] >= LEAST_SIDE && e.dim[0] * o->width == e.dim[1] * o->height) {
        task.kind = TASK_SEGMENT;
        return task;
    }
    task.decoder = decoder_of(o);
    if (task.decoder)
        task.kind = TASK_DETECT;
    return task;
}

/* The outputs of one picture by their shapes alone.  False where a shape is not
 * known. */
static bool outputs_of(const struct graph *g, struct infer_array *array,
                       struct task_outputs *o)
{
    const struct graph_value *x = g->n_inputs ? &g->value[g->input[0]] : NULL;
    int64_t in[4];

    if (x == NULL || !preprocess_dims(x->rank, x->dim, in) || in[2] <= 0 ||
        in[3] <= 0)
        return false;
    for (int i = 0; i < g->n_outputs; i++) {
        const struct graph_value *y = &g->value[g->output[i]];

        array[i] = (struct infer_array){
            .name = y->name, .dtype = y->dtype, .rank = y->rank};
        for (int k = 0; k < y->rank; k++) {
            array[i].dim[k] = k == 0 && y->dim[0] < 0 ? 1 : y->dim[k];
            if (array[i].dim[k] < 0)
                return false;
        }
    }
    *o = (struct task_outputs){.array = array,
                               .count = g->n_outputs,
                               .batch = 1,
                               .width = in[3],
                               .height = in[2],
                               .channels = in[1]};
    return o->count > 0;
}

/* True of outputs that may be scores of classes: one axis of a picture's entry
 * has more than one element. */
static bool is_vector(const struct infer_array *a)
{
    int axes = 0;

    for (int i = a->rank > 1 ? 1 : 0; i < a->rank; i++)
        axes += a->dim[i] > 1;
    return axes <= 1;
}

bool task_text(const struct graph *g, const char *source, char *text,
               size_t bytes)
{
    struct infer_array *array;
    struct task_outputs o;
    struct task task;
    bool known;

    if (g->task != NULL) {
        /* Without the detail: anchors may be long. */
        const char *colon = strchr(g->task, ':');
        const size_t length =
            colon ? (size_t)(colon - g->task) + 1 + strcspn(colon + 1, ":")
                  : strlen(g->task);

        snprintf(text, bytes, "%.*s (%s)", (int)length, g->task, source);
        return true;
    }
    array = calloc((size_t)g->n_outputs + 1, sizeof *array);
    known = array != NULL && outputs_of(g, array, &o);
    if (known) {
        task = task_recognise(&o);
        if (task.kind == TASK_CLASSIFY && !is_vector(&array[0]))
            snprintf(text, bytes,
                     "not recognised: output '%.64s' is no list of scores "
                     "(--task=TASK says what it is)",
                     array[0].name ? array[0].name : "");
        else
            snprintf(text, bytes, "%s%s%s (by the outputs)",
                     task_words[task.kind], task.decoder ? ":" : "",
                     task.decoder ? task.decoder->name : "");
    }
    free(array);
    return known;
}

int task_find_decoder(const struct task_outputs *o, struct task *task,
                      struct infer_error *err)
{
    char known[512];

    if (task->decoder)
        return INFER_OK;
    task->decoder = decoder_of(o);
    if (task->decoder)
        return INFER_OK;
    decoder_names(known, sizeof known);
    return error_set(err, INFER_EUNSUPPORTED,
                     "no decoder knows these outputs as boxes (output '%s' is "
                     "the first of %d): name one as detect:NAME, NAME one of "
                     "%s",
                     o->array[0].name ? o->array[0].name : "", o->count, known);
}
