/* SPDX-License-Identifier: Apache-2.0 */
/* Runs pictures in batches and shows what the network says of each. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/device/device.h"
#include "libinfer/model/model.h"
#include "tools/infer/batch.h"
#include "tools/infer/coco.h"
#include "tools/infer/evaluate.h"
#include "tools/infer/iou.h"
#include "tools/infer/reader.h"
#include "tools/preprocess.h"

/* Pictures read ahead. */
#define MAX_AHEAD 512

/* A batch and its pictures. */
struct filled {
    struct batch buffers;
    size_t *picture;            /* list index of each of the n pictures */
    struct infer_image *source; /* each of them as it was read */
    int64_t n;
};

/* Reads the pictures of a list in order. */
struct course {
    const struct tool_list *list;
    struct reader *reader;
    size_t next;   /* index of the next picture */
    size_t unread; /* unreadable pictures so far */
};

/* Frees the pictures of the batch as they were read. */
static void drop_sources(struct filled *b)
{
    for (int64_t i = 0; i < b->n; i++)
        infer_image_free(&b->source[i]);
}

static int run_batch(struct tool_run *run, struct filled *b,
                     const struct tool_list *list, struct infer_error *err)
{
    const struct infer_array *in = &b->buffers.in;
    struct arrays *out = &b->buffers.out;
    const int64_t *hw = in->dim + in->rank - (run->pixels ? 3 : 2);
    int64_t i;
    int rc = infer_session_run(run->session, in, 1, out->item, out->count, err);

    for (i = 0; rc == INFER_OK && i < b->n; i++) {
        const struct tool_shown shown = {list->path[b->picture[i]],
                                         &b->source[i], hw,
                                         tool_pictures_in(in), i};

        if (run->coco != NULL)
            rc = coco_picture(run, out, &shown, b->picture[i], err);
        else if (run->iou != NULL)
            rc = iou_picture(run, out, &shown, b->picture[i], err);
        else if (run->evaluation != NULL)
            rc = evaluate_picture(run, &out->item[0], i, b->picture[i], err);
        else
            rc = run->task.kind == TASK_CLASSIFY
                     ? tool_show_classes(run, &out->item[0], i, shown.path, err)
                     : tool_show(run, out, &shown, err);
    }
    return rc;
}

int64_t tool_batch_limit(const struct tool_run *run,
                         const struct infer_tensor_info *info)
{
    return info->dim[0] > 0          ? info->dim[0]
           : run->request->batch > 0 ? run->request->batch
                                     : 1;
}

int tool_check_input(const struct infer_model *model,
                     struct infer_tensor_info *info, struct infer_error *err)
{
    int64_t dim[4];

    if (infer_model_input_count(model) != 1)
        return error_set(err, INFER_EARGUMENT,
                         "the network has %d inputs, not one picture: use "
                         "--load-inputs",
                         infer_model_input_count(model));
    infer_model_input(model, 0, info);
    const int rank = info->rank;

    if (!preprocess_dims(rank, info->dim, dim))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' is no picture (N,1 or 3,H,W): use "
                         "--load-inputs",
                         info->name);
    info->rank = 4;
    memcpy(info->dim, dim, sizeof dim);
    if (scalar_is_integer(info->dtype))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' takes %s, not the values of "
                         "preprocessed pictures: use --load-inputs",
                         info->name, infer_dtype_name(info->dtype));
    return INFER_OK;
}

/* 4, or 3 where the input is one picture without a batch. */
static int input_rank(const struct infer_model *model)
{
    struct infer_tensor_info info;

    infer_model_input(model, 0, &info);
    return info.rank;
}

void tool_picture_array(const struct infer_model *model, const int64_t *dim,
                        struct infer_array *out)
{
    const int rank = input_rank(model);

    out->rank = rank;
    memset(out->dim, 0, sizeof out->dim);
    memcpy(out->dim, dim + 4 - rank, (size_t)rank * sizeof *dim);
}

int64_t tool_pictures_in(const struct infer_array *in)
{
    return in->rank == 4 ? in->dim[0] : 1;
}

static bool on_cpu(const struct tool_request *r)
{
    return r->session.device == NULL || strcmp(r->session.device, "cpu") == 0;
}

int tool_pictures_open(struct tool_run *run, struct infer_error *err)
{
    const struct tool_request *r = run->request;
    struct infer_tensor_info info;
    char text[256];
    int rc = tool_check_input(run->model, &info, err);

    if (rc == INFER_OK && preprocess_text(model_graph(run->model), "model file",
                                          text, sizeof(text)))
        cli_verbose(run->cli, "pictures: %s", text);

    /* A picture without a batch is prepared on the CPU. */
    if (rc == INFER_OK && !on_cpu(r) && info.dtype == INFER_F32 &&
        input_rank(run->model) == 4)
        rc = infer_model_take_pixels(run->model, 0, err, &run->pixels);
    return rc < 0 ? rc
                  : infer_session_create(run->pixels ? run->pixels : run->model,
                                         &r->session, err, &run->session);
}

/* Reader threads: one if the CPU also runs the network; with a GPU --threads,
 * or all cores, 16 at most. */
static int reader_threads(const struct tool_request *r)
{
    const int cores = device_cpu_cores();

    if (on_cpu(r))
        return 1;
    if (r->session.threads > 0)
        return r->session.threads;
    return cores > 16 ? 16 : cores;
}

/* Unreadable pictures whose errors are shown. */
#define MOST_REPORTED 10

/* The next readable picture; NULL at the end of the list.  An unreadable one is
 * reported at once, the first ten of them, unless it is the only picture: then
 * the run fails with its error. */
static int next_picture(struct tool_run *run, struct course *c,
                        struct infer_error *err, struct reader_picture **out)
{
    *out = NULL;
    while (c->next < c->list->count) {
        const int rc = reader_peek(c->reader, err, out);

        if (rc == INFER_OK)
            return rc;
        if (c->list->origin[c->next] != NULL)
            error_prefix(err, "%s", c->list->origin[c->next]);
        if (c->list->count == 1)
            return rc;
        if (c->unread++ < MOST_REPORTED)
            cli_fail(run->cli, err);
        reader_drop(c->reader);
        c->next++;
    }
    return INFER_OK;
}

/* Fills a batch with pictures of one size, `limit` at most. */
static int fill_batch(struct tool_run *run,
                      const struct infer_tensor_info *info, struct course *c,
                      int64_t limit, struct filled *b, struct infer_error *err)
{
    int64_t hw[2] = {0, 0};

    for (b->n = 0; b->n < limit; b->n++) {
        struct reader_picture *picture;
        int rc = next_picture(run, c, err, &picture);

        if (rc < 0 || picture == NULL)
            return rc;
        if (b->n > 0 && memcmp(picture->hw, hw, sizeof(hw)) != 0)
            return INFER_OK; /* another size starts another batch */
        memcpy(hw, picture->hw, sizeof(hw));
        rc = batch_reserve(run, info, hw, limit, &b->buffers, err);
        if (rc < 0)
            return rc;
        memcpy((char *)b->buffers.in.data +
                   (size_t)b->n * b->buffers.image_bytes,
               picture->data, picture->bytes);
        b->picture[b->n] = c->next++;
        b->source[b->n] = picture->source;
        picture->source.pixels = NULL;
        reader_drop(c->reader);
    }
    return INFER_OK;
}

/* Runs all batches of the list. */
static int run_course(struct tool_run *run,
                      const struct infer_tensor_info *info, struct course *c,
                      int64_t limit, struct infer_error *err)
{
    struct filled b = {0};
    bool checked = false;
    int rc = INFER_OK;

    b.picture = calloc((size_t)limit, sizeof(*b.picture));
    b.source = calloc((size_t)limit, sizeof(*b.source));
    if (b.picture == NULL || b.source == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    while (rc == INFER_OK && c->next < c->list->count) {
        rc = fill_batch(run, info, c, limit, &b, err);
        if (rc == INFER_OK && b.n > 0 && !checked &&
            run->task.kind == TASK_CLASSIFY)
            tool_note_classes(run, &b.buffers.out.item[0]);
        checked = checked || b.n > 0;
        if (rc == INFER_OK && b.n > 0)
            rc = run_batch(run, &b, c->list, err);
        drop_sources(&b);
        cli_progress(run->cli, task_words[run->task.kind], c->next,
                     c->list->count);
    }
    cli_progress_end(run->cli);
    batch_clear(&b.buffers);
    free(b.picture);
    free(b.source);
    return rc;
}

int tool_run_pictures(struct tool_run *run, const struct tool_list *list,
                      struct infer_error *err)
{
    struct infer_tensor_info info;
    struct course c = {.list = list};
    int64_t limit;
    int rc = tool_check_input(run->model, &info, err);

    if (rc < 0)
        return rc;
    limit = tool_batch_limit(run, &info);
    if (info.dim[0] < 1 && limit > (int64_t)list->count)
        limit = (int64_t)list->count;
    const struct reader_options options = {
        .threads = reader_threads(run->request),
        .ahead = limit < MAX_AHEAD ? (size_t)limit : MAX_AHEAD,
        .pixels = run->pixels != NULL,
        .keep = run->request->output != NULL,
        .max_pixels = (uint64_t)run->request->max_pixels,
    };
    if (run->cli->json) {
        run->result = cJSON_CreateArray();
        run->result_name = "pictures";
    }
    rc = reader_start(run->model, list, &options, err, &c.reader);
    if (rc == INFER_OK)
        rc = run_course(run, &info, &c, limit, err);
    reader_stop(c.reader);
    if (rc == INFER_OK && run->evaluation != NULL)
        rc = evaluate_report(run, err);
    if (rc == INFER_OK && run->coco != NULL)
        rc = coco_report(run, err);
    if (rc == INFER_OK && run->iou != NULL)
        iou_report(run);
    if (rc == INFER_OK)
        tool_note_same(run);
    if (rc == INFER_OK)
        tool_note_doubtful(run);
    if (rc == INFER_OK && c.unread > 0)
        rc = error_set(err, INFER_EFORMAT,
                       "%zu of %zu pictures could not be read", c.unread,
                       list->count);
    return rc;
}
