/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: finds them, runs them in batches, prints their classes. */
#include "tools/infer/reader.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/device/device.h"

/* Limit of nested folders. */
#define MAX_DEPTH 16
/* Pictures read ahead. */
#define MAX_AHEAD 512

/* ---- finding ------------------------------------------------------- */

static int list_append(struct tool_list *list, const char *path,
                       struct infer_error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **more = realloc(list->path, capacity * sizeof(*more));

        if (more == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        list->path = more;
        list->capacity = capacity;
    }
    list->path[list->count] = strdup(path);
    if (list->path[list->count] == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    list->count++;
    return INFER_OK;
}

void tool_list_clear(struct tool_list *list)
{
    while (list->count > 0)
        free(list->path[--list->count]);
    free(list->path);
    memset(list, 0, sizeof(*list));
}

/* True if the file begins as PNG or JPEG. */
static bool is_picture(FILE *f)
{
    unsigned char head[4] = {0};
    size_t got = fread(head, 1, sizeof(head), f);

    rewind(f);
    return (got == 4 && memcmp(head, "\x89PNG", 4) == 0) ||
           (got >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0);
}

/* Reads the next line without its newline: its length, -1 at the end of the
 * file, -2 if it cannot be a path. */
static int read_line(FILE *f, char *line, int room)
{
    int length = 0, c;

    while ((c = getc(f)) != EOF && c != '\n') {
        if (length + 1 == room || (c < 0x20 && c != '\r'))
            return -2;
        line[length++] = (char)c;
    }
    if (c == EOF && length == 0)
        return -1;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    return strchr(line, '\r') ? -2 : length;
}

static int add_lines(struct tool_list *list, FILE *f, const char *path,
                     struct infer_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, UTF-8 */
    char line[4096];
    unsigned number = 0;
    int length, rc = INFER_OK;

    while (rc == INFER_OK &&
           (length = read_line(f, line, (int)sizeof(line))) != -1) {
        const int skip =
            number++ == 0 && length >= 3 && memcmp(line, mark, 3) == 0 ? 3 : 0;

        if (length == -2)
            return error_set(err, INFER_EFORMAT,
                             "%s: neither a PNG or JPEG picture nor a "
                             "list of pictures (line %u)",
                             path, number);
        if (length > skip)
            rc = list_append(list, line + skip, err);
    }
    return rc;
}

static int add_path(struct tool_list *list, const char *path, int depth,
                    bool inside_folder, struct infer_error *err);

static int add_folder(struct tool_list *list, const char *path, int depth,
                      struct infer_error *err)
{
    struct dirent **names;
    int i, rc = INFER_OK, n;

    if (depth == MAX_DEPTH)
        return error_set(err, INFER_EIO, "%s: folders nest deeper than %d",
                         path, MAX_DEPTH);
    n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    for (i = 0; i < n; i++) {
        char inner[4096];

        snprintf(inner, sizeof(inner), "%s/%s", path, names[i]->d_name);
        if (rc == INFER_OK && names[i]->d_name[0] != '.')
            rc = add_path(list, inner, depth + 1, true, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* A path that stat() refuses.  In a folder it stays in the list, so that the
 * reader reports it with the other unreadable pictures. */
static int unreadable(struct tool_list *list, const char *path,
                      bool inside_folder, struct infer_error *err)
{
    if (inside_folder)
        return list_append(list, path, err);
    return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
}

static int add_path(struct tool_list *list, const char *path, int depth,
                    bool inside_folder, struct infer_error *err)
{
    struct stat st;
    FILE *f;
    int rc = INFER_OK;

    if (stat(path, &st) < 0)
        return unreadable(list, path, inside_folder, err);
    if (S_ISDIR(st.st_mode))
        return add_folder(list, path, depth, err);
    if (!S_ISREG(st.st_mode) && inside_folder)
        return INFER_OK;
    if (!S_ISREG(st.st_mode))
        return error_set(err, INFER_EIO, "%s: not a regular file", path);
    if (st.st_size == 0 && !inside_folder)
        return error_set(err, INFER_EFORMAT, "%s: the file is empty", path);
    f = fopen(path, "rb");
    if (f == NULL)
        return unreadable(list, path, inside_folder, err);
    if (is_picture(f))
        rc = list_append(list, path, err);
    else if (!inside_folder) /* other files of a folder are passed over */
        rc = add_lines(list, f, path, err);
    fclose(f);
    return rc;
}

int tool_list_add(struct tool_list *list, const char *path,
                  struct infer_error *err)
{
    return add_path(list, path, 0, false, err);
}

/* ---- running ------------------------------------------------------- */

/* Buffers of one batch. */
struct batch {
    struct infer_array in;
    struct arrays out;
    size_t image_bytes;
    size_t *picture; /* list index of each of the n pictures */
    int64_t n;
};

/* Reads the pictures of a list in order. */
struct course {
    const struct tool_list *list;
    struct reader *reader;
    size_t next;   /* index of the next picture */
    size_t unread; /* unreadable pictures so far */
};

static int batch_reserve(struct tool_run *run,
                         const struct infer_tensor_info *info,
                         const int64_t *hw, int64_t n, struct batch *b,
                         struct infer_error *err)
{
    const int64_t planes[4] = {n, info->dim[1], hw[0], hw[1]};
    const int64_t pixels[4] = {n, hw[0], hw[1], info->dim[1]};
    const int64_t *dim = run->pixels ? pixels : planes;
    const double start = cli_now();
    int rc;

    if (b->in.data != NULL && memcmp(dim, b->in.dim, sizeof(planes)) == 0)
        return INFER_OK;
    free(b->in.data);
    arrays_clear(&b->out);
    memset(&b->in, 0, sizeof(b->in));
    b->in.name = info->name;
    b->in.dtype = run->pixels ? INFER_U8 : INFER_F32;
    b->in.rank = 4;
    memcpy(b->in.dim, dim, sizeof(planes));
    rc = array_alloc("input", info->name, &b->in, err);
    if (rc < 0)
        return rc;
    b->image_bytes = b->in.bytes / (size_t)n;
    rc = infer_session_prepare(run->session, &b->in, 1, err);
    run->plan_seconds += cli_now() - start;
    if (rc == INFER_OK)
        rc = tool_make_outputs(run->session, run->model, &b->out, err);
    if (rc == INFER_OK &&
        (b->out.item[0].rank == 0 || b->out.item[0].dim[0] != n))
        rc = error_set(err, INFER_EARGUMENT,
                       "output '%s' has no row for each picture: use "
                       "--load-inputs",
                       b->out.item[0].name);
    return rc;
}

static const char *label_of(const struct tool_run *run, int64_t class)
{
    if (run->labels.count > 0)
        return class < run->labels.count ? run->labels.text[class] : NULL;
    return infer_model_label(run->model, (int)class);
}

/* Probabilities of one row: the row itself after a softmax or sigmoid, else its
 * softmax. */
static void to_probabilities(double *p, int64_t n)
{
    double sum = 0, max = -INFINITY;
    bool probabilities = true;
    int64_t i;

    for (i = 0; i < n; i++) {
        sum += p[i];
        max = fmax(max, p[i]);
        probabilities = probabilities && p[i] >= 0 && p[i] <= 1;
    }
    if (probabilities && fabs(sum - 1) < 1e-2)
        return;
    for (i = 0, sum = 0; i < n; i++)
        sum += p[i] = exp(p[i] - max);
    for (i = 0; i < n; i++)
        p[i] /= sum;
}

/* Indices of the k largest values, best first; ties keep their order. */
static int best_classes(const double *p, int64_t n, int k, int64_t *best)
{
    int64_t i;
    int have = 0, j;

    for (i = 0; i < n; i++) {
        if (have == k && !(p[i] > p[best[k - 1]]))
            continue;
        if (have < k)
            have++;
        for (j = have - 1; j > 0 && p[i] > p[best[j - 1]]; j--)
            best[j] = best[j - 1];
        best[j] = i;
    }
    return have;
}

static void print_classes(const struct tool_run *run, const char *path,
                          const double *scores, const double *p,
                          const int64_t *best, int k)
{
    int j;

    cli_print("%s\n", path);
    for (j = 0; j < k; j++) {
        const char *label = label_of(run, best[j]);

        cli_print("  %6.2f%%  %5" PRId64 "  %s%s(%.4g)\n", 100 * p[best[j]],
                  best[j], label != NULL ? label : "",
                  label != NULL ? "  " : "", scores[best[j]]);
    }
}

static void add_json(const struct tool_run *run, cJSON *list, const char *path,
                     const double *scores, const double *p, const int64_t *best,
                     int k)
{
    cJSON *item = cJSON_CreateObject(), *classes;
    int j;

    cJSON_AddStringToObject(item, "image", path);
    classes = cJSON_AddArrayToObject(item, "top");
    for (j = 0; j < k; j++) {
        const char *label = label_of(run, best[j]);
        cJSON *c = cJSON_CreateObject();

        cJSON_AddNumberToObject(c, "class", (double)best[j]);
        if (label != NULL)
            cJSON_AddStringToObject(c, "label", label);
        cJSON_AddNumberToObject(c, "score", scores[best[j]]);
        cJSON_AddNumberToObject(c, "probability", p[best[j]]);
        cJSON_AddItemToArray(classes, c);
    }
    cJSON_AddItemToArray(list, item);
}

/* Prints the best classes of row `row` of the first output. */
static int print_row(const struct tool_run *run, const struct infer_array *out,
                     int64_t row, const char *path, struct infer_error *err)
{
    int64_t i, n = array_count(out) / out->dim[0];
    int k = run->request->top < n ? run->request->top : (int)n;
    double *scores = malloc((size_t)n * 2 * sizeof(*scores));
    int64_t *best = malloc((size_t)(k > 0 ? k : 1) * sizeof(*best));
    int rc = INFER_OK;

    if (scores == NULL || best == NULL) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    } else {
        double *p = scores + n;

        for (i = 0; i < n; i++)
            p[i] = scores[i] = scalar_load(out->dtype, out->data, row * n + i);
        to_probabilities(p, n);
        k = best_classes(scores, n, k, best);
        if (run->result != NULL)
            add_json(run, run->result, path, scores, p, best, k);
        else
            print_classes(run, path, scores, p, best, k);
    }
    free(scores);
    free(best);
    return rc;
}

/* Notes on standard error: an unequal number of labels, or an output that does
 * not look like class scores. */
static void note_output(const struct tool_run *run,
                        const struct infer_array *out)
{
    const int64_t classes = array_count(out) / out->dim[0];
    const int labels = run->labels.count > 0
                           ? run->labels.count
                           : infer_model_label_count(run->model);
    int i, wide = 0;

    if (labels > 0 && labels != classes && run->cli->verbosity >= 0)
        cli_error(run->cli, "note: %d labels for %" PRId64 " classes", labels,
                  classes);
    for (i = 1; i < out->rank; i++)
        wide += out->dim[i] > 1;
    if (wide > 1 && run->request->dump_layers == NULL &&
        run->cli->verbosity >= 0)
        cli_error(run->cli,
                  "note: output '%s' has %d dimensions and is shown as %" PRId64
                  " classes: --load-inputs and --export-output give it whole",
                  out->name, out->rank, classes);
}

static int run_batch(struct tool_run *run, struct batch *b,
                     const struct tool_list *list, struct infer_error *err)
{
    int64_t i;
    int rc = infer_session_run(run->session, &b->in, 1, b->out.item,
                               b->out.count, err);

    for (i = 0; rc == INFER_OK && i < b->n; i++)
        rc = print_row(run, &b->out.item[0], i, list->path[b->picture[i]], err);
    return rc;
}

static int check_input(const struct infer_model *model,
                       struct infer_tensor_info *info, struct infer_error *err)
{
    if (infer_model_input_count(model) != 1)
        return error_set(err, INFER_EARGUMENT,
                         "the network has %d inputs, not one picture: use "
                         "--load-inputs",
                         infer_model_input_count(model));
    infer_model_input(model, 0, info);
    if (info->rank != 4 || (info->dim[1] != 1 && info->dim[1] != 3))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' is no picture (N,1 or 3,H,W): use "
                         "--load-inputs",
                         info->name);
    if (scalar_is_integer(info->dtype))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s' takes %s, not the values of "
                         "preprocessed pictures: use --load-inputs",
                         info->name, infer_dtype_name(info->dtype));
    return INFER_OK;
}

static bool on_cpu(const struct tool_request *r)
{
    return r->session.device == NULL || strcmp(r->session.device, "cpu") == 0;
}

int tool_pictures_open(struct tool_run *run, struct infer_error *err)
{
    const struct tool_request *r = run->request;
    struct infer_tensor_info info;
    int rc = check_input(run->model, &info, err);

    if (rc == INFER_OK && !on_cpu(r) && info.dtype == INFER_F32)
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

/* The next readable picture; NULL at the end of the list.  An unreadable one is
 * reported at once, unless it is the only picture: then the run fails with its
 * error. */
static int next_picture(struct tool_run *run, struct course *c,
                        struct infer_error *err,
                        const struct reader_picture **out)
{
    *out = NULL;
    while (c->next < c->list->count) {
        const int rc = reader_peek(c->reader, err, out);

        if (rc == INFER_OK)
            return rc;
        if (c->list->count == 1)
            return rc;
        cli_fail(run->cli, err);
        c->unread++;
        reader_drop(c->reader);
        c->next++;
    }
    return INFER_OK;
}

/* Fills a batch with pictures of one size, `limit` at most. */
static int fill_batch(struct tool_run *run,
                      const struct infer_tensor_info *info, struct course *c,
                      int64_t limit, struct batch *b, struct infer_error *err)
{
    int64_t hw[2] = {0, 0};

    for (b->n = 0; b->n < limit; b->n++) {
        const struct reader_picture *picture;
        int rc = next_picture(run, c, err, &picture);

        if (rc < 0 || picture == NULL)
            return rc;
        if (b->n > 0 && memcmp(picture->hw, hw, sizeof(hw)) != 0)
            return INFER_OK; /* another size starts another batch */
        memcpy(hw, picture->hw, sizeof(hw));
        rc = batch_reserve(run, info, hw, limit, b, err);
        if (rc < 0)
            return rc;
        memcpy((char *)b->in.data + (size_t)b->n * b->image_bytes,
               picture->data, picture->bytes);
        b->picture[b->n] = c->next++;
        reader_drop(c->reader);
    }
    return INFER_OK;
}

/* Runs all batches of the list. */
static int run_course(struct tool_run *run,
                      const struct infer_tensor_info *info, struct course *c,
                      int64_t limit, struct infer_error *err)
{
    struct batch b = {0};
    bool checked = false;
    int rc = INFER_OK;

    b.picture = calloc((size_t)limit, sizeof(*b.picture));
    if (b.picture == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    while (rc == INFER_OK && c->next < c->list->count) {
        rc = fill_batch(run, info, c, limit, &b, err);
        if (rc == INFER_OK && b.n > 0 && !checked)
            note_output(run, &b.out.item[0]);
        checked = checked || b.n > 0;
        if (rc == INFER_OK && b.n > 0)
            rc = run_batch(run, &b, c->list, err);
        cli_progress(run->cli, "classify", c->next, c->list->count);
    }
    cli_progress_end(run->cli);
    free(b.in.data);
    free(b.picture);
    arrays_clear(&b.out);
    return rc;
}

int tool_classify(struct tool_run *run, const struct tool_list *list,
                  struct infer_error *err)
{
    struct infer_tensor_info info;
    struct course c = {.list = list};
    int64_t limit = run->request->batch > 0 ? run->request->batch : 1;
    int rc = check_input(run->model, &info, err);

    if (rc < 0)
        return rc;
    if (info.dim[0] > 0)
        limit = info.dim[0];
    else if (limit > (int64_t)list->count)
        limit = (int64_t)list->count;
    if (run->cli->json) {
        run->result = cJSON_CreateArray();
        run->result_name = "pictures";
    }
    rc = reader_start(run->model, list, reader_threads(run->request),
                      limit < MAX_AHEAD ? (size_t)limit : MAX_AHEAD,
                      run->pixels != NULL, (uint64_t)run->request->max_pixels,
                      err, &c.reader);
    if (rc == INFER_OK)
        rc = run_course(run, &info, &c, limit, err);
    reader_stop(c.reader);
    if (rc == INFER_OK && c.unread > 0)
        rc = error_set(err, INFER_EFORMAT,
                       "%zu of %zu pictures could not be read", c.unread,
                       list->count);
    return rc;
}
