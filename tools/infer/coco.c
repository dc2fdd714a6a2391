/* SPDX-License-Identifier: Apache-2.0 */
/* A detector against COCO's annotations. */
#include "tools/infer/coco.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "tools/infer/coco_file.h"

/* The curve of precision over recall needs boxes of low scores too. */
#define LEAST_SCORE 0.001f
/* Categories shown; all with -v. */
#define SHOWN 20

struct coco {
    struct coco_file file;
    int *category; /* of each label; NULL: class i is category i */
    int labels;
    struct ap_found *found;
    size_t n_found, capacity;
    size_t strange;  /* boxes of classes without a category */
    size_t pictures; /* that were read */
};

void coco_free(struct coco *c)
{
    if (c != NULL) {
        coco_file_clear(&c->file);
        free(c->category);
        free(c->found);
    }
    free(c);
}

bool coco_is_file(const char *path)
{
    return path != NULL && text_ends(path, ".json");
}

/* ---- opening ------------------------------------------------------- */

/* True where the path stays below its folder. */
static bool stays_inside(const char *path)
{
    for (const char *p = path; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return false;
    }
    return path[0] != '/' && path[0] != '\0';
}

static int add_pictures(const struct tool_run *run, const char *folder,
                        int length, struct tool_list *list,
                        struct infer_error *err)
{
    const struct coco *c = run->coco;
    char path[4096];

    for (size_t i = 0; i < c->file.images.count; i++) {
        const char *name = c->file.images.item[i].name;
        int rc;

        if (!stays_inside(name) ||
            (size_t)snprintf(path, sizeof path, "%.*s%s%s", length, folder,
                             length > 0 ? "/" : "", name) >= sizeof path)
            return error_set(err, INFER_EFORMAT,
                             "%s: file_name '%s' is no path below a folder",
                             run->request->evaluate, name);
        rc = tool_list_append(list, path, err);
        if (rc < 0)
            return rc;
    }
    return INFER_OK;
}

static int category_named(const struct coco_entries *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (strcasecmp(e->item[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Labels name categories, unless there is one for each category and most agree
 * in their order: lists of COCO's classes differ in a few names. */
static int map_labels(const struct tool_run *run, struct coco *c,
                      struct infer_error *err)
{
    const struct coco_entries *e = &c->file.categories;
    int named = 0, in_order = 0;

    c->labels = tool_label_count(run);
    if (c->labels == 0)
        return INFER_OK;
    c->category = calloc((size_t)c->labels, sizeof *c->category);
    if (c->category == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < c->labels; i++) {
        const char *label = tool_label(run, i);

        c->category[i] = label ? category_named(e, label) : -1;
        named += c->category[i] >= 0;
        in_order += c->category[i] == i;
    }
    if (named == 0 || ((size_t)c->labels == e->count && 2 * in_order > named)) {
        free(c->category);
        c->category = NULL;
    }
    return INFER_OK;
}

int coco_open(struct tool_run *run, const char *folder, struct tool_list *list,
              struct infer_error *err)
{
    const char *path = run->request->evaluate, *slash = strrchr(path, '/');
    struct coco *c = run->coco = calloc(1, sizeof *c);
    int rc;

    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = coco_file_read(path, err, &c->file);
    if (rc == INFER_OK && folder != NULL)
        rc = add_pictures(run, folder, (int)strlen(folder), list, err);
    else if (rc == INFER_OK)
        rc =
            add_pictures(run, path, slash ? (int)(slash - path) : 0, list, err);
    return rc < 0 ? rc : map_labels(run, c, err);
}

/* ---- taking -------------------------------------------------------- */

static int category_of(const struct coco *c, int label)
{
    if (c->category != NULL)
        return label < c->labels ? c->category[label] : -1;
    return (size_t)label < c->file.categories.count ? label : -1;
}

static int reserve(struct coco *c, size_t more, struct infer_error *err)
{
    const size_t wanted = c->n_found + more;
    struct ap_found *grown;

    if (wanted <= c->capacity)
        return INFER_OK;
    grown = realloc(c->found, 2 * wanted * sizeof *grown);
    if (grown == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    c->found = grown;
    c->capacity = 2 * wanted;
    return INFER_OK;
}

int coco_picture(struct tool_run *run, const struct arrays *out,
                 const struct tool_shown *shown, size_t index,
                 struct infer_error *err)
{
    struct coco *c = run->coco;
    struct task_limits limits = run->request->limits;
    struct task_boxes boxes = {0};
    int rc;

    if (limits.score < 0)
        limits.score = LEAST_SCORE;
    rc = tool_find_boxes(run, out, shown, &limits, err, &boxes);
    if (rc == INFER_OK)
        rc = reserve(c, (size_t)boxes.count, err);
    for (int i = 0; rc == INFER_OK && i < boxes.count; i++) {
        const struct task_box *b = &boxes.box[i];
        const int category = category_of(c, b->label);

        if (category < 0) {
            c->strange++;
            continue;
        }
        c->found[c->n_found++] = (struct ap_found){
            .image = (int)index,
            .category = category,
            .box = {b->left, b->top, (double)b->right - b->left,
                    (double)b->bottom - b->top},
            .score = b->score,
        };
    }
    c->pictures += rc == INFER_OK;
    free(boxes.box);
    return rc;
}

/* ---- results ------------------------------------------------------- */

static int write_results(const struct coco *c, const char *path,
                         struct infer_error *err)
{
    struct file_part part = {0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    bool failed = f == NULL;
    int rc;

    for (size_t i = 0; !failed && i < c->n_found; i++) {
        const struct ap_found *b = &c->found[i];

        failed = fprintf(f,
                         "%s{\"image_id\":%" PRId64 ",\"category_id\":%" PRId64
                         ",\"bbox\":[%.17g,%.17g,%.17g,%.17g],\"score\":%.17g}",
                         i > 0 ? ",\n" : "[", c->file.images.item[b->image].id,
                         c->file.categories.item[b->category].id, b->box[0],
                         b->box[1], b->box[2], b->box[3], b->score) < 0;
    }
    if (!failed)
        failed = fputs(c->n_found > 0 ? "]\n" : "[]\n", f) < 0;
    if (f != NULL && fclose(f) != 0)
        failed = true;
    part.data = text;
    part.bytes = bytes;
    rc = failed ? error_set(err, INFER_EMEMORY, "out of memory")
                : cli_write_file(path, &part, 1, err);
    free(text);
    return rc;
}

/* ---- printing ------------------------------------------------------ */

struct line {
    const char *key, *text;
    double value;
};

#define LINES 12

static void fill_lines(const struct ap_result *r, struct line line[LINES])
{
    const struct line all[LINES] = {
        {"ap", "AP     IoU 0.50:0.95", r->ap[AP_ALL]},
        {"ap50", "AP50   IoU 0.50", r->ap50},
        {"ap75", "AP75   IoU 0.75", r->ap75},
        {"ap_small", "AP     small (area up to 32 x 32)", r->ap[AP_SMALL]},
        {"ap_medium", "AP     medium (up to 96 x 96)", r->ap[AP_MEDIUM]},
        {"ap_large", "AP     large", r->ap[AP_LARGE]},
        {"ar1", "AR@1   one box a picture and category", r->ar[0]},
        {"ar10", "AR@10", r->ar[1]},
        {"ar100", "AR@100", r->ar[2]},
        {"ar_small", "AR@100 small", r->ar_size[AP_SMALL]},
        {"ar_medium", "AR@100 medium", r->ar_size[AP_MEDIUM]},
        {"ar_large", "AR@100 large", r->ar_size[AP_LARGE]},
    };

    memcpy(line, all, sizeof all);
}

struct category_line {
    size_t index, objects;
    double ap;
};

static int by_precision(const void *a, const void *b)
{
    const struct category_line *x = a, *y = b;

    if (x->ap < y->ap || x->ap > y->ap)
        return x->ap < y->ap ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Categories with objects, those found worst first. */
static void print_text(const struct tool_run *run, const struct line *line,
                       const struct category_line *of, size_t n)
{
    const struct coco *c = run->coco;
    size_t shown = 0, left = 0;

    cli_print("%zu pictures, %zu objects, %zu boxes\n", c->pictures,
              c->file.n_truth, c->n_found);
    for (int i = 0; i < LINES; i++) {
        if (line[i].value < 0)
            cli_print("%-40s      -\n", line[i].text);
        else
            cli_print("%-40s%6.2f%%\n", line[i].text, 100 * line[i].value);
    }
    cli_print("\n%-40s%7s%9s\n", "category", "AP", "objects");
    for (size_t i = 0; i < n; i++) {
        if (of[i].ap < 0)
            continue;
        if (shown == SHOWN && run->cli->verbosity <= 0) {
            left++;
            continue;
        }
        cli_print("%-40.38s%6.2f%%%9zu\n",
                  c->file.categories.item[of[i].index].name, 100 * of[i].ap,
                  of[i].objects);
        shown++;
    }
    if (left > 0)
        cli_print("... and %zu categories more (-v shows all)\n", left);
}

static void add_value(cJSON *json, const char *key, double value)
{
    if (value < 0)
        cJSON_AddNullToObject(json, key);
    else
        cJSON_AddNumberToObject(json, key, value);
}

static cJSON *result_json(const struct coco *c, const struct line *line,
                          const struct category_line *of, size_t n)
{
    cJSON *json = cJSON_CreateObject(), *list;

    cJSON_AddNumberToObject(json, "pictures", (double)c->pictures);
    cJSON_AddNumberToObject(json, "objects", (double)c->file.n_truth);
    cJSON_AddNumberToObject(json, "boxes", (double)c->n_found);
    for (int i = 0; i < LINES; i++)
        add_value(json, line[i].key, line[i].value);
    list = cJSON_AddArrayToObject(json, "by_category");
    for (size_t i = 0; i < n; i++) {
        const struct coco_entry *e = &c->file.categories.item[of[i].index];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "id", (double)e->id);
        cJSON_AddStringToObject(item, "name", e->name);
        cJSON_AddNumberToObject(item, "objects", (double)of[i].objects);
        add_value(item, "ap", of[i].ap);
        json_append(list, item);
    }
    return json;
}

static void print_result(struct tool_run *run, const struct ap_result *r,
                         const double *ap, struct category_line *of)
{
    const struct coco *c = run->coco;
    const size_t n = c->file.categories.count;
    struct line line[LINES];

    fill_lines(r, line);
    for (size_t i = 0; i < n; i++)
        of[i] = (struct category_line){.index = i, .ap = ap[i]};
    for (size_t i = 0; i < c->file.n_truth; i++)
        of[c->file.truth[i].category].objects++;
    qsort(of, n, sizeof *of, by_precision);
    if (run->result != NULL) {
        cJSON_Delete(run->result);
        run->result = result_json(c, line, of, n);
        run->result_name = NULL;
    } else {
        print_text(run, line, of, n);
    }
    if (c->strange > 0 && run->cli->verbosity >= 0)
        cli_error(run->cli,
                  "note: %zu boxes are of classes that are no category of the "
                  "annotations (--labels names the classes)",
                  c->strange);
}

int coco_report(struct tool_run *run, struct infer_error *err)
{
    struct coco *c = run->coco;
    const size_t n = c->file.categories.count;
    double *ap = calloc(n, sizeof *ap);
    struct category_line *of = calloc(n, sizeof *of);
    struct ap_result r;
    int rc = ap == NULL || of == NULL
                 ? error_set(err, INFER_EMEMORY, "out of memory")
                 : average_precision(c->file.truth, c->file.n_truth, c->found,
                                     c->n_found, (int)n, err, &r, ap);

    if (rc == INFER_OK)
        print_result(run, &r, ap, of);
    if (rc == INFER_OK && run->request->coco != NULL)
        rc = write_results(c, run->request->coco, err);
    free(ap);
    free(of);
    return rc;
}
