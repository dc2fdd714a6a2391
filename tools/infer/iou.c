/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every pixel of a picture has a class in its mask and one in the network's
 * map. The intersection over union of a class is the number of pixels that both
 * call so, over the number that either does; mIoU is the mean over the classes
 * that occur.
 */
#include "tools/infer/iou.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "libinfer/image/image.h"
#include "libinfer/model/model.h"
#include "tools/infer/evaluate.h"

/* Values of a mask, and the one that is in no class. */
#define CLASSES 256
#define IGNORED 255
/* Lines of the table; all with -v. */
#define SHOWN 20

/* Pixels of one class: in the masks, in the maps, in both. */
struct class_pixels {
    int label;
    int64_t truth, shown, both;
};

struct iou {
    struct tool_list masks; /* one per picture */
    struct class_pixels class[CLASSES];
    int64_t pictures, pixels, right;
    int64_t unseen; /* pixels that preprocessing cuts off */
};

void iou_free(struct iou *iou)
{
    if (iou != NULL)
        tool_list_clear(&iou->masks);
    free(iou);
}

/* ---- pictures and masks -------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_folders(const char *path)
{
    char images[4096], masks[4096];

    return (size_t)snprintf(images, sizeof images, "%s/images", path) <
               sizeof images &&
           (size_t)snprintf(masks, sizeof masks, "%s/masks", path) <
               sizeof masks &&
           is_folder(images) && is_folder(masks);
}

/* The mask's file behind the last space of a line; NULL: there is none. */
static char *mask_of(char *line)
{
    char *space = strrchr(line, ' ');

    return space != NULL && space != line && text_ends(space, ".png")
               ? space + 1
               : NULL;
}

bool iou_is_source(const char *path)
{
    char line[4096];
    FILE *f;
    bool yes;

    if (path == NULL || is_folder(path))
        return path != NULL && has_folders(path);
    f = fopen(path[0] == '@' ? path + 1 : path, "rb");
    if (f == NULL)
        return false;
    yes = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    if (yes)
        line[strcspn(line, "\r\n")] = '\0';
    return yes && mask_of(line) != NULL;
}

static int add_line(struct tool_run *run, char *line, const char *path,
                    unsigned number, struct tool_list *list,
                    struct infer_error *err)
{
    const char *mask = mask_of(line);
    int rc;

    if (mask == NULL)
        return error_set(err, INFER_EFORMAT,
                         "%s, line %u: not a picture and its mask (.png)", path,
                         number);
    rc = tool_list_append(&run->iou->masks, mask, err);
    line[mask - line - 1] = '\0';
    return rc < 0 ? rc : tool_list_append(list, line, err);
}

/* The pictures below FOLDER/images; FOLDER/masks has the same names with .png.
 */
static int add_folder(struct tool_run *run, const char *folder,
                      struct tool_list *list, struct infer_error *err)
{
    char path[4096];
    size_t below;
    int rc;

    snprintf(path, sizeof path, "%s/images", folder);
    below = strlen(path) + 1;
    rc = tool_list_add(list, path, err);
    for (size_t i = 0; rc == INFER_OK && i < list->count; i++) {
        const char *name = list->path[i] + below;
        const char *dot = strrchr(name, '.');

        if ((size_t)snprintf(path, sizeof path, "%s/masks/%.*s.png", folder,
                             dot ? (int)(dot - name) : (int)strlen(name),
                             name) >= sizeof path)
            rc = error_set(err, INFER_EARGUMENT, "%s: the path is too long",
                           list->path[i]);
        else
            rc = tool_list_append(&run->iou->masks, path, err);
    }
    return rc;
}

int iou_open(struct tool_run *run, struct tool_list *list,
             struct infer_error *err)
{
    const char *path = run->request->evaluate;
    int rc;

    run->iou = calloc(1, sizeof *run->iou);
    if (run->iou == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < CLASSES; i++)
        run->iou->class[i].label = i;
    rc = is_folder(path) ? add_folder(run, path, list, err)
                         : evaluate_lines(run, path[0] == '@' ? path + 1 : path,
                                          add_line, list, err);
    if (rc == INFER_OK && list->count == 0)
        rc = error_set(err, INFER_EFORMAT, "%s: no pictures there", path);
    return rc;
}

/* ---- counting ------------------------------------------------------ */

static void count(struct iou *iou, const uint8_t *mask, const int *label,
                  int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++) {
        if (mask[i] == IGNORED)
            continue;
        if (label[i] < 0) {
            iou->unseen++;
            continue;
        }
        iou->pixels++;
        iou->class[mask[i]].truth++;
        if (label[i] < CLASSES)
            iou->class[label[i]].shown++;
        if (label[i] == mask[i]) {
            iou->class[mask[i]].both++;
            iou->right++;
        }
    }
}

int iou_picture(struct tool_run *run, const struct arrays *out,
                const struct tool_shown *shown, size_t index,
                struct infer_error *err)
{
    const struct infer_image *p = shown->source;
    const struct task_outputs o =
        tool_outputs(run, out, shown->hw, shown->batch, shown->entry);
    const struct preprocess_window window =
        preprocess_window_of(preprocess_of(model_graph(run->model), 0), p,
                             (int)o.width, (int)o.height);
    const int64_t pixels = (int64_t)p->width * p->height;
    const char *path = run->iou->masks.path[index];
    struct infer_image mask;
    int *label, classes = 0;
    int rc = image_load_indices(path, (uint64_t)run->request->max_pixels, err,
                                &mask);

    if (rc < 0)
        return rc;
    label = malloc((size_t)pixels * sizeof *label);
    if (label == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else if (mask.width != p->width || mask.height != p->height)
        rc = error_set(err, INFER_EFORMAT,
                       "%s: %d x %d pixels for a picture of %d x %d", path,
                       mask.width, mask.height, p->width, p->height);
    if (rc == INFER_OK)
        rc = task_segment(&o, &window, p->width, p->height, label, &classes,
                          err);
    if (rc == INFER_OK) {
        count(run->iou, mask.pixels, label, pixels);
        run->iou->pictures++;
    }
    free(label);
    infer_image_free(&mask);
    return rc;
}

/* ---- the report ---------------------------------------------------- */

static double part(int64_t of, int64_t all)
{
    return all > 0 ? (double)of / (double)all : 0;
}

static int64_t either(const struct class_pixels *c)
{
    return c->truth + c->shown - c->both;
}

static double iou_of(const struct class_pixels *c)
{
    return part(c->both, either(c));
}

/* Classes that occur first, the worst of them before the others. */
static int by_iou(const void *a, const void *b)
{
    const struct class_pixels *x = a, *y = b;
    const bool more = either(x) > 0, less = either(y) > 0;

    if (more != less)
        return more ? -1 : 1;
    if (iou_of(x) < iou_of(y) || iou_of(x) > iou_of(y))
        return iou_of(x) < iou_of(y) ? -1 : 1;
    return x->label - y->label;
}

static void print_text(const struct tool_run *run, int classes, double mean)
{
    const struct iou *iou = run->iou;
    int i;

    cli_print("%" PRId64 " pictures, %d classes, %" PRId64 " pixels\n",
              iou->pictures, classes, iou->pixels);
    if (iou->unseen > 0)
        cli_print("%" PRId64 " pixels more are cut off before the network and "
                  "not counted\n",
                  iou->unseen);
    cli_print("mIoU            %6.2f%%\n", 100 * mean);
    cli_print("pixel accuracy  %6.2f%%\n", 100 * part(iou->right, iou->pixels));
    cli_print("\n%-34s%9s%14s%14s\n", "class", "IoU", "in the masks",
              "in the maps");
    for (i = 0; i < classes && (i < SHOWN || run->cli->verbosity > 0); i++) {
        const struct class_pixels *c = &iou->class[i];
        const char *label = tool_label(run, c->label);

        cli_print("%5d %-28.28s%8.2f%%%14" PRId64 "%14" PRId64 "\n", c->label,
                  label ? label : "", 100 * iou_of(c), c->truth, c->shown);
    }
    if (i < classes)
        cli_print("... and %d classes more (-v shows all)\n", classes - i);
}

static cJSON *report_json(const struct tool_run *run, int classes, double mean)
{
    const struct iou *iou = run->iou;
    cJSON *json = cJSON_CreateObject(), *list;

    cJSON_AddNumberToObject(json, "pictures", (double)iou->pictures);
    cJSON_AddNumberToObject(json, "pixels", (double)iou->pixels);
    cJSON_AddNumberToObject(json, "unseen", (double)iou->unseen);
    cJSON_AddNumberToObject(json, "miou", mean);
    cJSON_AddNumberToObject(json, "pixel_accuracy",
                            part(iou->right, iou->pixels));
    list = cJSON_AddArrayToObject(json, "by_class");
    for (int i = 0; i < classes; i++) {
        const struct class_pixels *c = &iou->class[i];
        const char *label = tool_label(run, c->label);
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "class", c->label);
        if (label != NULL)
            cJSON_AddStringToObject(item, "label", label);
        cJSON_AddNumberToObject(item, "iou", iou_of(c));
        cJSON_AddNumberToObject(item, "truth", (double)c->truth);
        cJSON_AddNumberToObject(item, "shown", (double)c->shown);
        cJSON_AddNumberToObject(item, "both", (double)c->both);
        json_append(list, item);
    }
    return json;
}

void iou_report(struct tool_run *run)
{
    struct iou *iou = run->iou;
    double sum = 0;
    int classes = 0;

    qsort(iou->class, CLASSES, sizeof *iou->class, by_iou);
    while (classes < CLASSES && either(&iou->class[classes]) > 0)
        sum += iou_of(&iou->class[classes++]);
    if (run->result == NULL) {
        print_text(run, classes, classes ? sum / classes : 0);
        return;
    }
    cJSON_Delete(run->result);
    run->result = report_json(run, classes, classes ? sum / classes : 0);
    run->result_name = NULL;
}
