/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes, maps of classes and pictures that a network makes of a picture. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "libinfer/image/image.h"
#include "libinfer/model/model.h"
#include "libinfer/task/draw.h"
#include "tools/infer/infer_tool.h"

struct task_outputs tool_outputs(const struct tool_run *run,
                                 const struct arrays *out, const int64_t *hw,
                                 int64_t batch, int64_t entry)
{
    struct infer_tensor_info input;

    infer_model_input(run->model, 0, &input);
    return (struct task_outputs){
        .array = out->item,
        .count = out->count,
        .batch = batch,
        .entry = entry,
        .width = hw[1],
        .height = hw[0],
        .channels = input.dim[input.rank - 3],
    };
}

int tool_find_task(struct tool_run *run, const struct arrays *out,
                   const int64_t *hw, int64_t batch, struct infer_error *err)
{
    const struct task_outputs o = tool_outputs(run, out, hw, batch, 0);
    const char *word =
        run->request->task ? run->request->task : model_graph(run->model)->task;
    int rc = INFER_OK;

    if (run->task_known)
        return rc;
    if (word == NULL)
        run->task = task_recognise(&o);
    else if ((rc = task_parse(word, err, &run->task)) < 0)
        return rc;
    if (run->task.kind == TASK_DETECT)
        rc = task_find_decoder(&o, &run->task, err);
    if (run->task.kind == TASK_CLASSIFY &&
        (out->item[0].rank == 0 || out->item[0].dim[0] != batch))
        rc = error_set(err, INFER_EARGUMENT,
                       "output '%s' has no row for each picture: use "
                       "--load-inputs",
                       out->item[0].name);
    if (rc == INFER_OK &&
        (run->task.kind == TASK_CLASSIFY || run->task.kind == TASK_EMBEDDING) &&
        run->request->output != NULL)
        rc = error_set(err, INFER_EARGUMENT,
                       "--output: the outputs are taken for %s and not "
                       "drawn (--task=TASK says what they are)",
                       run->task.kind == TASK_CLASSIFY ? "scores of classes"
                                                       : "an embedding");
    if (rc == INFER_OK && run->task.kind != TASK_CLASSIFY &&
        run->evaluation != NULL)
        rc = error_set(err, INFER_EARGUMENT,
                       "--evaluate of folders is for classes, not for the task "
                       "%s",
                       task_words[run->task.kind]);
    if (rc == INFER_OK && run->task.kind > TASK_DETECT &&
        run->task.kind != TASK_IMAGE && run->request->try_presets)
        rc = error_set(err, INFER_EARGUMENT,
                       "--try-presets is for classes, boxes and pictures, not "
                       "for the task %s",
                       task_words[run->task.kind]);
    if (rc == INFER_OK && run->task.kind != TASK_DETECT && run->coco != NULL)
        rc = error_set(err, INFER_EARGUMENT,
                       "--evaluate: annotations are for boxes, not for the "
                       "task %s (--task=detect says that the outputs are "
                       "boxes)",
                       task_words[run->task.kind]);
    if (rc == INFER_OK && run->task.kind != TASK_SEGMENT && run->iou != NULL)
        rc = error_set(err, INFER_EARGUMENT,
                       "--evaluate: masks are for maps of classes, not for the "
                       "task %s (--task=segment says that the output is one)",
                       task_words[run->task.kind]);
    run->task_known = rc == INFER_OK;
    return rc;
}

/* ---- files --------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int tool_make_folder(const char *path, struct infer_error *err)
{
    if (is_folder(path) || mkdir(path, 0777) == 0)
        return INFER_OK;
    if (errno == EEXIST)
        return error_set(err, INFER_EIO,
                         "%s is a file: results go into a folder, one picture "
                         "into a name that ends in .png",
                         path);
    return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
}

int tool_open_output(const struct tool_request *r, size_t count,
                     struct infer_error *err)
{
    if (is_folder(r->output))
        return INFER_OK;
    const char *slash = strrchr(r->output, '/');
    const char *name = slash ? slash + 1 : r->output;
    const bool word = strchr(name, '.') == NULL && strcmp(name, "-") != 0;

    if (count > 1 || word) {
        if (text_ends(r->output, ".png"))
            return error_set(err, INFER_EARGUMENT,
                             "%s: %zu pictures go into a folder", r->output,
                             count);
        return tool_make_folder(r->output, err);
    }
    if (!text_ends(r->output, ".png"))
        return error_set(err, INFER_EARGUMENT,
                         "%s: pictures are written as .png, or into a folder",
                         r->output);
    return cli_try_file(r->output, err);
}

static bool was_written(const struct tool_run *run, const char *path)
{
    for (size_t i = 0; i < run->n_written; i++)
        if (strcmp(run->written[i], path) == 0)
            return true;
    return false;
}

/* The file of a picture, which "-" names "stdin": FILE, or NAME.png in the
 * folder, NAME-2.png for another picture of that name. */
static int output_path(struct tool_run *run, const char *source, char *path,
                       size_t bytes, struct infer_error *err)
{
    const char *output = run->request->output;
    const char *slash = strrchr(source, '/');
    const char *name = strcmp(source, "-") == 0 ? "stdin"
                       : slash                  ? slash + 1
                                                : source;
    const char *dot = strrchr(name, '.');
    const int length =
        dot && dot != name ? (int)(dot - name) : (int)strlen(name);
    char **more;

    if (!is_folder(output)) {
        snprintf(path, bytes, "%s", output);
    } else {
        snprintf(path, bytes, "%s/%.*s.png", output, length, name);
        for (int i = 2; was_written(run, path); i++)
            snprintf(path, bytes, "%s/%.*s-%d.png", output, length, name, i);
    }
    if (cli_same_file(path, source))
        return error_set(err, INFER_EARGUMENT,
                         "%s: --output would replace the picture itself",
                         source);
    more = realloc(run->written, (run->n_written + 1) * sizeof *more);
    if (more == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    run->written = more;
    more[run->n_written] = strdup(path);
    if (more[run->n_written] == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    run->n_written++;
    return INFER_OK;
}

int tool_write_picture(struct tool_run *run, const char *source,
                       const struct infer_image *image, struct infer_error *err)
{
    char path[4096];
    int rc = output_path(run, source, path, sizeof path, err);

    if (rc == INFER_OK)
        rc = image_write_png(image, path, err);
    if (rc == INFER_OK)
        cli_verbose(run->cli, "%s: %s", source, path);
    return rc;
}

/* ---- what is said of all ------------------------------------------- */

cJSON *tool_begin(const struct tool_run *run, const struct tool_shown *shown,
                  const char *list, cJSON **items)
{
    cJSON *json;

    *items = NULL;
    if (run->result == NULL) {
        cli_print("%s\n", shown->path);
        return NULL;
    }
    json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "image", shown->path);
    cJSON_AddNumberToObject(json, "width", shown->source->width);
    cJSON_AddNumberToObject(json, "height", shown->source->height);
    if (list != NULL)
        *items = cJSON_AddArrayToObject(json, list);
    cJSON_AddItemToArray(run->result, json);
    return json;
}

static void add_class(cJSON *item, const struct tool_run *run, int label)
{
    const char *text = tool_label(run, label);

    cJSON_AddNumberToObject(item, "class", label);
    if (text != NULL)
        cJSON_AddStringToObject(item, "label", text);
}

/* ---- boxes --------------------------------------------------------- */

/* A list of n rows of `count` numbers, `step` floats apart. */
static cJSON *rows_json(const float *at, int n, int step, int count)
{
    cJSON *list = cJSON_CreateArray();

    for (int k = 0; k < n; k++)
        json_append(list, cJSON_CreateFloatArray(at + k * step, count));
    return list;
}

/* COCO's uncompressed run lengths, column by column: a run of 0 first. */
static cJSON *mask_json(const uint8_t *mask, int width, int height)
{
    const int size[2] = {height, width};
    cJSON *json = cJSON_CreateObject();
    cJSON *counts = cJSON_CreateArray();
    uint8_t value = 0;
    int64_t run = 0;

    for (int x = 0; x < width; x++)
        for (int y = 0; y < height; y++, run++)
            if (mask[(size_t)y * (size_t)width + (size_t)x] != value) {
                json_append(counts, cJSON_CreateNumber((double)run));
                value = !value;
                run = 0;
            }
    json_append(counts, cJSON_CreateNumber((double)run));
    cJSON_AddItemToObject(json, "size", cJSON_CreateIntArray(size, 2));
    cJSON_AddItemToObject(json, "counts", counts);
    return json;
}

static void add_box(cJSON *items, const struct tool_run *run,
                    const struct task_box *b, cJSON *mask)
{
    cJSON *item = cJSON_CreateObject();

    add_class(item, run, b->label);
    cJSON_AddNumberToObject(item, "score", b->score);
    cJSON_AddNumberToObject(item, "left", b->left);
    cJSON_AddNumberToObject(item, "top", b->top);
    cJSON_AddNumberToObject(item, "right", b->right);
    cJSON_AddNumberToObject(item, "bottom", b->bottom);
    if (b->oriented)
        cJSON_AddItemToObject(item, "corners",
                              rows_json(b->corner[0], 4, 2, 2));
    if (b->n_points > 0)
        cJSON_AddItemToObject(
            item, "points",
            rows_json(b->point[0], b->n_points, 3, b->point_scores ? 3 : 2));
    if (mask != NULL)
        cJSON_AddItemToObject(item, "mask", mask);
    json_append(items, item);
}

static void print_box(const struct tool_run *run, const struct task_box *b)
{
    const char *text = tool_label(run, b->label);

    cli_print("  %6.2f%%  %5d  %s%s(%.0f, %.0f) to (%.0f, %.0f)\n",
              100.0 * b->score, b->label, text ? text : "", text ? "  " : "",
              b->left, b->top, b->right, b->bottom);
}

/* What is written of boxes. */
struct drawing {
    struct infer_image image; /* pixels NULL: none is written */
    uint8_t *mask;            /* of one box; NULL: boxes have none */
    bool numbers;             /* classes without a label show their number */
};

static int drawing_begin(const struct tool_run *run,
                         const struct tool_shown *shown,
                         const struct task_boxes *boxes, struct drawing *d,
                         struct infer_error *err)
{
    const struct infer_image *p = shown->source;
    int rc = INFER_OK;

    *d = (struct drawing){.mask = NULL};
    for (int i = 0; i < boxes->count; i++)
        d->numbers = d->numbers || boxes->box[i].label > 0;
    if (run->request->output != NULL)
        rc = image_convert(p, 3, err, &d->image);
    if (rc == INFER_OK && boxes->count > 0 && boxes->box[0].n_coefs > 0 &&
        (run->request->output != NULL || run->result != NULL)) {
        d->mask = malloc((size_t)p->width * (size_t)p->height);
        if (d->mask == NULL)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    return rc;
}

static void drawing_end(struct drawing *d)
{
    infer_image_free(&d->image);
    free(d->mask);
}

/* The text of a box: label or number, and score. */
static void text_of(const struct tool_run *run, const struct drawing *d,
                    const struct task_box *b, char *text, size_t bytes)
{
    const char *label = tool_label(run, b->label);
    char number[16];

    snprintf(number, sizeof number, "%d", b->label);
    snprintf(text, bytes, "%.60s%s%.0f%%",
             label        ? label
             : d->numbers ? number
                          : "",
             label || d->numbers ? " " : "", 100.0 * b->score);
}

/* Rows that a text may move down to keep clear of those of better boxes. */
#define ROWS 4

static bool meets(const struct draw_place *p, const struct draw_place *other,
                  int n)
{
    for (int i = 0; i < n; i++)
        if (p->left < other[i].right && other[i].left < p->right &&
            p->top < other[i].bottom && other[i].top < p->bottom)
            return true;
    return false;
}

/* Draws all boxes, the best on top, each with its text in the first row that is
 * free; the row above the box where none is. */
static int draw_boxes(const struct tool_run *run, struct drawing *d,
                      const struct task_boxes *boxes, struct infer_error *err)
{
    const size_t n = (size_t)boxes->count + 1;
    struct draw_place *place = malloc(n * sizeof *place);
    int *row = calloc(n, sizeof *row);
    char text[96];

    if (place == NULL || row == NULL) {
        free(place);
        free(row);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (int i = 0; i < boxes->count; i++) {
        text_of(run, d, &boxes->box[i], text, sizeof text);
        for (row[i] = 0; row[i] < ROWS; row[i]++) {
            place[i] = draw_place_of(&d->image, &boxes->box[i], text, row[i]);
            if (!meets(&place[i], place, i))
                break;
        }
        if (row[i] == ROWS)
            row[i] = 0;
    }
    for (int i = boxes->count - 1; i >= 0; i--) {
        text_of(run, d, &boxes->box[i], text, sizeof text);
        draw_box_row(&d->image, &boxes->box[i], text, row[i]);
    }
    free(place);
    free(row);
    return INFER_OK;
}

int tool_find_boxes(const struct tool_run *run, const struct arrays *out,
                    const struct tool_shown *shown,
                    const struct task_limits *limits, struct infer_error *err,
                    struct task_boxes *boxes)
{
    const struct task_outputs o =
        tool_outputs(run, out, shown->hw, shown->batch, shown->entry);
    const struct preprocess_window window =
        preprocess_window_of(preprocess_of(model_graph(run->model), 0),
                             shown->source, (int)o.width, (int)o.height);
    const int rc = task_detect(&run->task, &o, limits, err, boxes);

    if (rc == INFER_OK)
        task_place(&window, shown->source, boxes);
    return rc;
}

/* Adds the boxes to the result or prints them, and mixes their masks into the
 * drawing. */
static int list_boxes(const struct tool_run *run, const struct arrays *out,
                      const struct tool_shown *shown,
                      const struct task_boxes *boxes, cJSON *items,
                      struct drawing *d, struct infer_error *err)
{
    const struct task_outputs o =
        tool_outputs(run, out, shown->hw, shown->batch, shown->entry);
    const struct infer_image *p = shown->source;
    const struct preprocess_window window =
        preprocess_window_of(preprocess_of(model_graph(run->model), 0), p,
                             (int)o.width, (int)o.height);
    int rc = INFER_OK;

    for (int i = 0; rc == INFER_OK && i < boxes->count; i++) {
        const struct task_box *b = &boxes->box[i];

        if (d->mask != NULL)
            rc = task_mask(&o, b, &window, p->width, p->height, d->mask, err);
        if (rc < 0)
            break;
        if (d->mask != NULL && d->image.pixels != NULL)
            draw_mask(&d->image, d->mask, b->label);
        if (items != NULL)
            add_box(items, run, b,
                    d->mask ? mask_json(d->mask, p->width, p->height) : NULL);
        else
            print_box(run, b);
    }
    return rc;
}

static int show_boxes(struct tool_run *run, const struct arrays *out,
                      const struct tool_shown *shown, struct infer_error *err)
{
    struct task_boxes boxes = {0};
    struct drawing d;
    cJSON *items;
    int rc =
        tool_find_boxes(run, out, shown, &run->request->limits, err, &boxes);

    if (rc < 0)
        return rc;
    run->judged++;
    run->doubtful += boxes.count == 0;
    rc = drawing_begin(run, shown, &boxes, &d, err);
    tool_begin(run, shown, "boxes", &items);
    if (rc == INFER_OK)
        rc = list_boxes(run, out, shown, &boxes, items, &d, err);
    if (rc == INFER_OK && boxes.count == 0 && items == NULL)
        cli_print("  no boxes (--score=X sets their least score)\n");
    if (rc == INFER_OK && d.image.pixels)
        rc = draw_boxes(run, &d, &boxes, err);
    if (rc == INFER_OK && d.image.pixels)
        rc = tool_write_picture(run, shown->path, &d.image, err);
    drawing_end(&d);
    free(boxes.box);
    return rc;
}

/* ---- maps of classes ----------------------------------------------- */

struct share {
    int label;
    int64_t pixels;
};

static int by_pixels(const void *a, const void *b)
{
    const struct share *x = a, *y = b;

    if (x->pixels != y->pixels)
        return x->pixels > y->pixels ? -1 : 1;
    return x->label - y->label;
}

static void show_shares(const struct tool_run *run,
                        const struct tool_shown *shown, struct share *share,
                        int classes, int64_t pixels)
{
    cJSON *items;

    qsort(share, (size_t)classes, sizeof *share, by_pixels);
    tool_begin(run, shown, "classes", &items);
    for (int i = 0; i < classes && i < run->request->top; i++) {
        const double part = (double)share[i].pixels / (double)pixels;
        const char *text = tool_label(run, share[i].label);

        if (share[i].pixels == 0)
            break;
        if (items != NULL) {
            cJSON *item = cJSON_CreateObject();

            add_class(item, run, share[i].label);
            cJSON_AddNumberToObject(item, "share", part);
            json_append(items, item);
        } else {
            cli_print("  %6.2f%%  %5d  %s\n", 100 * part, share[i].label,
                      text ? text : "");
        }
    }
}

/* Class 0 is left as it is where it is the background, or nameless. */
static int clear_class(const struct tool_run *run)
{
    const char *first = tool_label(run, 0);

    return !first || strstr(first, "background") || strcmp(first, "_") == 0
               ? 0
               : -1;
}

/* The classes that the mask shows, largest first: --topk of them, and no more
 * than fit. */
static void draw_shares(const struct tool_run *run, struct infer_image *image,
                        const struct share *share, int classes, int64_t pixels,
                        int clear)
{
    int row = 0;

    for (int i = 0; i < classes && row < run->request->top; i++) {
        const char *label = tool_label(run, share[i].label);
        char number[16], text[96];

        if (share[i].pixels == 0)
            break;
        if (share[i].label == clear)
            continue;
        snprintf(number, sizeof number, "%d", share[i].label);
        snprintf(text, sizeof text, "%.60s %.0f%%", label ? label : number,
                 100.0 * (double)share[i].pixels / (double)pixels);
        draw_legend(image, row++, share[i].label, text);
    }
}

static int show_labels(struct tool_run *run, const struct tool_shown *shown,
                       const int *label, int classes, struct infer_error *err)
{
    const int64_t pixels =
        (int64_t)shown->source->width * shown->source->height;
    const int clear = clear_class(run);
    struct share *share = calloc((size_t)classes, sizeof *share);
    struct infer_image image;
    int rc = INFER_OK;

    if (share == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < classes; i++)
        share[i].label = i;
    for (int64_t i = 0; i < pixels; i++)
        if (label[i] >= 0)
            share[label[i]].pixels++;
    show_shares(run, shown, share, classes, pixels);
    if (run->request->output != NULL)
        rc = image_convert(shown->source, 3, err, &image);
    if (rc == INFER_OK && run->request->output != NULL) {
        draw_labels(&image, label, clear);
        draw_shares(run, &image, share, classes, pixels, clear);
        rc = tool_write_picture(run, shown->path, &image, err);
        infer_image_free(&image);
    }
    free(share);
    return rc;
}

static int show_map(struct tool_run *run, const struct task_outputs *o,
                    const struct preprocess_window *window,
                    const struct tool_shown *shown, struct infer_error *err)
{
    const int width = shown->source->width, height = shown->source->height;
    int classes = 0, rc;
    int *label = malloc((size_t)width * (size_t)height * sizeof *label);

    if (label == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = task_segment(o, window, width, height, label, &classes, err);
    if (rc == INFER_OK)
        rc = show_labels(run, shown, label, classes, err);
    free(label);
    return rc;
}

/* ---- pictures ------------------------------------------------------ */

int tool_show_made(struct tool_run *run, const struct tool_shown *shown,
                   const struct infer_image *image, struct infer_error *err)
{
    cJSON *unused, *json = tool_begin(run, shown, NULL, &unused);
    int rc = tool_write_picture(run, shown->path, image, err);

    if (rc == INFER_OK && json == NULL)
        cli_print("  %d x %d  %s\n", image->width, image->height,
                  run->written[run->n_written - 1]);
    else if (rc == INFER_OK)
        cJSON_AddStringToObject(json, "output",
                                run->written[run->n_written - 1]);
    return rc;
}

double tool_share_at_limits(const struct infer_image *image)
{
    const size_t n =
        (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += image->pixels[i] == 0 || image->pixels[i] == 255;
    return n > 0 ? (double)count / (double)n : 0;
}

/* Share of values at the limits from which a picture is odd. */
#define MUCH_AT_LIMITS 0.5

void tool_note_doubtful(const struct tool_run *run)
{
    if (run->judged == 0 || run->doubtful < run->judged ||
        run->cli->verbosity < 0 ||
        model_graph(run->model)->preprocess[0].present)
        return;
    cli_error(run->cli,
              "note: %s, and the file states no preprocessing, so that 0 to 1 "
              "is assumed: --try-presets compares some",
              run->task.kind == TASK_DETECT
                  ? "there are no boxes"
                  : "most values of the picture are at their limits");
}

static int show_picture(struct tool_run *run, const struct task_outputs *o,
                        const struct graph_preprocess *p,
                        const struct tool_shown *shown, struct infer_error *err)
{
    struct infer_image image;
    cJSON *unused;
    int rc;

    if (run->request->output == NULL) {
        if (tool_begin(run, shown, NULL, &unused) == NULL)
            cli_print("  a picture: -o FILE.png or -o FOLDER writes it\n");
        return INFER_OK;
    }
    rc = task_image(o, p, shown->source, err, &image);
    if (rc < 0)
        return rc;
    run->judged++;
    run->doubtful += tool_share_at_limits(&image) > MUCH_AT_LIMITS &&
                     tool_share_at_limits(shown->source) <= MUCH_AT_LIMITS;
    rc = tool_show_made(run, shown, &image, err);
    infer_image_free(&image);
    return rc;
}

int tool_show(struct tool_run *run, const struct arrays *out,
              const struct tool_shown *shown, struct infer_error *err)
{
    const struct graph_preprocess *p =
        preprocess_of(model_graph(run->model), 0);
    const struct task_outputs o =
        tool_outputs(run, out, shown->hw, shown->batch, shown->entry);
    const struct preprocess_window window =
        preprocess_window_of(p, shown->source, (int)o.width, (int)o.height);
    int rc = INFER_OK;

    switch (run->task.kind) {
    case TASK_CLASSIFY:
        rc = tool_show_classes(run, &out->item[0], shown->entry, shown->path,
                               err);
        break;
    case TASK_DETECT:
        rc = show_boxes(run, out, shown, err);
        break;
    case TASK_SEGMENT:
        rc = show_map(run, &o, &window, shown, err);
        break;
    case TASK_IMAGE:
        rc = show_picture(run, &o, p, shown, err);
        break;
    case TASK_DEPTH:
        rc = tool_show_depth(run, &o, &window, shown, err);
        break;
    case TASK_EMBEDDING:
        rc = tool_show_embedding(run, &o, shown, err);
        break;
    case TASK_LANDMARKS:
        rc = tool_show_landmarks(run, &o, &window, shown, err);
        break;
    }
    if (rc < 0)
        error_prefix(err, "%s", shown->path);
    return rc;
}
