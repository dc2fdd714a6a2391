/* SPDX-License-Identifier: Apache-2.0 */
/* --calibrate: samples from pictures or arrays. */
#include "tools/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/model/model.h"
#include "tools/array.h"
#include "tools/picture_list.h"
#include "weights/weights.h"

/* Samples without ":N". */
#define DEFAULT_SAMPLES 128
#define MOST_SAMPLES    100000

void samples_clear(struct samples *s)
{
    for (int i = 0; i < s->n * s->n_inputs; i++)
        free(s->in[i].data);
    free(s->in);
    free(s->class);
    memset(s, 0, sizeof *s);
}

static int allocate(struct samples *s, int n, int n_inputs,
                    struct infer_error *err)
{
    s->in = calloc((size_t)n * (size_t)n_inputs + 1, sizeof *s->in);
    if (s->in == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    s->n = n;
    s->n_inputs = n_inputs;
    return INFER_OK;
}

/* Sample i of n, of `count` that there are. */
static int64_t pick(int i, int n, int64_t count)
{
    return count / n * i + count % n * i / n;
}

/* ---- pictures ------------------------------------------------------ */

/* Preprocesses one picture as the network's input. */
static int read_picture(const struct infer_model *model, const char *path,
                        struct infer_array *a, struct infer_error *err)
{
    struct infer_tensor_info info;
    struct infer_image image;
    int64_t dim[4] = {0}, *hw = dim + 2;
    int rc = infer_image_load(path, 0, err, &image);

    if (rc < 0)
        return rc;
    infer_model_input(model, 0, &info);
    (void)preprocess_dims(info.rank, info.dim, dim);
    dim[0] = 1;
    hw[0] = hw[0] > 0 ? hw[0] : image.height;
    hw[1] = hw[1] > 0 ? hw[1] : image.width;
    *a = (struct infer_array){.dtype = INFER_F32, .rank = info.rank};
    memcpy(a->dim, dim + 4 - info.rank, (size_t)info.rank * sizeof *dim);
    rc = array_alloc("input", info.name, a, err);
    if (rc == INFER_OK)
        rc = infer_model_preprocess(model, 0, &image, hw, a->data, a->bytes,
                                    err);
    infer_image_free(&image);
    return rc;
}

static int check_picture_input(const struct graph *g, const char *source,
                               struct infer_error *err)
{
    const struct graph_value *v = &g->value[g->input[0]];
    int64_t dim[4];

    if (g->n_inputs == 1 && preprocess_dims(v->rank, v->dim, dim) &&
        dim[0] <= 1)
        return INFER_OK;
    return error_set(err, INFER_EUNSUPPORTED,
                     "%s: the network takes no single picture: calibrate with "
                     "an .npz of arrays",
                     source);
}

/* Classes of the samples that are taken of the list. */
static int take_classes(const struct graph *g, const struct tool_list *list,
                        struct infer_error *err, struct samples *out)
{
    int64_t *all = calloc(list->count + 1, sizeof *all);
    bool found = false;
    int rc = all ? samples_classes_of(g, list, err, all, &found, out->note,
                                      sizeof out->note)
                 : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc == INFER_OK && found) {
        for (int i = 0; i < out->n; i++)
            all[i] = all[pick(i, out->n, (int64_t)list->count)];
        out->class = all;
        out->rows = 1;
        return INFER_OK;
    }
    free(all);
    return rc;
}

static int read_pictures(const char *path, int most, const struct graph *g,
                         struct infer_error *err, struct samples *out)
{
    struct tool_list list = {0};
    struct infer_model *model = NULL;
    struct graph *copy;
    int n, rc = check_picture_input(g, path, err);

    if (rc < 0)
        return rc;
    rc = tool_list_add(&list, path, err);
    if (rc == INFER_OK && list.count == 0)
        rc = error_set(err, INFER_EARGUMENT, "%s: holds no PNG or JPEG picture",
                       path);
    copy = rc == INFER_OK ? graph_copy(g) : NULL;
    if (rc == INFER_OK && copy == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == INFER_OK)
        rc = model_from_graph(copy, err, &model);
    n = list.count < (size_t)most ? (int)list.count : most;
    if (rc == INFER_OK)
        rc = allocate(out, n, 1, err);
    if (rc == INFER_OK)
        rc = take_classes(g, &list, err, out);
    for (int i = 0; rc == INFER_OK && i < n; i++)
        rc = read_picture(model, list.path[pick(i, n, (int64_t)list.count)],
                          &out->in[i], err);
    infer_model_close(&model);
    tool_list_clear(&list);
    return rc;
}

/* ---- arrays -------------------------------------------------------- */

/* The name of the array of classes. */
#define LABELS "labels"

/* The array for an input: of its name, or the only one for the only input. */
static const struct constant *find_array(const struct graph *g, int input,
                                         const struct weights_dict *dict)
{
    const struct constant *c =
        weights_dict_find(dict, g->value[g->input[input]].name);
    const struct constant *labels = weights_dict_find(dict, LABELS);
    const size_t others = dict->count - (labels != NULL);

    for (size_t i = 0;
         c == NULL && g->n_inputs == 1 && others == 1 && i < dict->count; i++)
        if (dict->entry[i].value != labels)
            c = dict->entry[i].value;
    return c;
}

/* True of an array of one number that is the same in each sample. */
static bool is_number(const struct graph_value *v, const struct constant *c)
{
    return c != NULL && v->rank == 0 && c->rank == 0;
}

/* How many batches the array holds for input v, or an error.  An input that is
 * one number takes an array with one a batch. */
static int64_t count_batches(const struct graph_value *v,
                             const struct constant *c, struct infer_error *err)
{
    const int64_t batch = v->rank > 0 && v->dim[0] > 0 ? v->dim[0] : 1;

    if (c == NULL)
        return error_set(err, INFER_EARGUMENT, "no array for input '%s'",
                         v->name);
    if (is_number(v, c))
        return 1;
    if (c->rank != (v->rank > 0 ? v->rank : 1))
        return error_set(err, INFER_EARGUMENT,
                         "the array for input '%s' has %d dimensions, the "
                         "input %d",
                         v->name, c->rank, v->rank > 0 ? v->rank : 1);
    for (int d = 1; d < v->rank; d++)
        if (v->dim[d] >= 0 && v->dim[d] != c->dim[d])
            return error_set(err, INFER_EARGUMENT,
                             "the array for input '%s' has %lld entries along "
                             "dimension %d, the input %lld",
                             v->name, (long long)c->dim[d], d,
                             (long long)v->dim[d]);
    if (c->dim[0] < batch)
        return error_set(err, INFER_EARGUMENT,
                         "the array for input '%s' holds no sample", v->name);
    return c->dim[0] / batch;
}

/* Batch number `at` of the array, in the input's type. */
static int take_batch(const struct graph_value *v, const struct constant *c,
                      int64_t at, struct infer_array *a,
                      struct infer_error *err)
{
    int64_t first;
    int rc;

    *a = (struct infer_array){.rank = v->rank};
    a->dtype = scalar_is_integer(v->dtype) ? v->dtype : INFER_F32;
    memcpy(a->dim, c->dim, sizeof a->dim);
    if (v->rank > 0)
        a->dim[0] = v->dim[0] > 0 ? v->dim[0] : 1;
    rc = array_alloc("input", v->name, a, err);
    if (rc < 0)
        return rc;
    first = is_number(v, c) ? 0 : at * array_count(a);
    for (int64_t i = 0; i < array_count(a); i++)
        if (scalar_is_integer(a->dtype))
            scalar_store_i64(a->dtype, a->data, i,
                             scalar_load_i64(c->dtype, c->data, first + i));
        else
            scalar_store(a->dtype, a->data, i,
                         scalar_load(c->dtype, c->data, first + i));
    return INFER_OK;
}

/* Classes of the n samples of `count` in the file, if it has them. */
static int take_labels(const struct graph *g, const struct weights_dict *dict,
                       int64_t count, struct infer_error *err,
                       struct samples *out)
{
    const struct graph_value *v = &g->value[g->input[0]];
    const struct constant *c = weights_dict_find(dict, LABELS);
    const int64_t rows = v->rank > 0 && v->dim[0] > 0 ? v->dim[0] : 1;

    if (c == NULL || find_array(g, 0, dict) == c)
        return INFER_OK;
    if (!scalar_is_integer(c->dtype) || constant_count(c) < count * rows)
        return error_set(err, INFER_EARGUMENT,
                         "array '" LABELS "': %lld %s for %lld images "
                         "(expected: one integer each)",
                         (long long)constant_count(c),
                         infer_dtype_name(c->dtype), (long long)(count * rows));
    out->class = calloc((size_t)(out->n * rows) + 1, sizeof *out->class);
    if (out->class == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    out->rows = (int)rows;
    for (int s = 0; s < out->n; s++)
        for (int64_t r = 0; r < rows; r++)
            out->class[s * rows + r] = scalar_load_i64(
                c->dtype, c->data, pick(s, out->n, count) * rows + r);
    return INFER_OK;
}

static int take_arrays(const struct graph *g, const struct weights_dict *dict,
                       int most, struct infer_error *err, struct samples *out)
{
    bool numbers = false; /* count is that of a number */
    int64_t count = 0;
    int rc = INFER_OK, n;

    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        const struct constant *c = find_array(g, i, dict);
        const int64_t found = count_batches(v, c, err);

        if (found < 0)
            return (int)found;
        if (is_number(v, c) && count > 0)
            continue;
        if (count > 0 && found != count && !numbers)
            return error_set(err, INFER_EARGUMENT,
                             "arrays for %lld and %lld samples",
                             (long long)count, (long long)found);
        numbers = is_number(v, c);
        count = found;
    }
    n = count < most ? (int)count : most;
    rc = allocate(out, n, g->n_inputs, err);
    if (rc == INFER_OK)
        rc = take_labels(g, dict, count, err, out);
    for (int s = 0; s < n; s++)
        for (int i = 0; rc == INFER_OK && i < g->n_inputs; i++)
            rc = take_batch(&g->value[g->input[i]], find_array(g, i, dict),
                            pick(s, n, count), &out->in[s * g->n_inputs + i],
                            err);
    return rc;
}

static int read_arrays(const char *path, int most, const struct graph *g,
                       struct infer_error *err, struct samples *out)
{
    struct weights_import import;
    int rc;

    weights_import_init(&import);
    rc = weights_read_arrays(path, err, &import);
    if (rc < 0)
        return rc;
    rc = take_arrays(g, &import.dict, most, err, out);
    if (rc < 0)
        error_prefix(err, "%s", path);
    weights_import_clear(&import);
    return rc;
}

/* ---- sources ------------------------------------------------------- */

/* Splits ":N" off; a file whose own name ends so is taken as it is. */
static int split_source(const char *source, char *path, size_t room, int *most,
                        struct infer_error *err)
{
    const char *colon = strrchr(source, ':');
    struct stat st;
    char *end;
    long n;

    *most = DEFAULT_SAMPLES;
    if (snprintf(path, room, "%s", source) >= (int)room)
        return error_set(err, INFER_EARGUMENT, "--calibrate: too long a path");
    if (colon == NULL || stat(source, &st) == 0)
        return INFER_OK;
    n = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0')
        return INFER_OK;
    if (n < 1 || n > MOST_SAMPLES)
        return error_set(err, INFER_EARGUMENT,
                         "--calibrate: %s samples (supported: 1 to %d)",
                         colon + 1, MOST_SAMPLES);
    path[colon - source] = '\0';
    *most = (int)n;
    return INFER_OK;
}

static bool is_zip(const char *path)
{
    unsigned char head[4] = {0};
    FILE *f = fopen(path, "rb");
    bool found = f != NULL && fread(head, 1, 4, f) == 4 &&
                 memcmp(head, "PK\x03\x04", 4) == 0;

    if (f != NULL)
        fclose(f);
    return found;
}

int samples_read(const char *source, const struct graph *g,
                 struct infer_error *err, struct samples *out)
{
    char path[4096];
    struct stat st;
    int most, rc = split_source(source, path, sizeof path, &most, err);

    memset(out, 0, sizeof *out);
    if (rc < 0)
        return rc;
    if (stat(path, &st) < 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    rc = S_ISREG(st.st_mode) && is_zip(path)
             ? read_arrays(path, most, g, err, out)
             : read_pictures(path, most, g, err, out);
    if (rc < 0)
        samples_clear(out);
    return rc;
}
