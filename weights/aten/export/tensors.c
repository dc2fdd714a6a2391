/* SPDX-License-Identifier: Apache-2.0 */
/* The weights and constants of torch.export's archives: a member holds the
 * bytes of a storage, which one or several tensors view. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/aten/export/export.h"

/* ---- listing ------------------------------------------------------- */

static int compare_tensor(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct export_tensor *)tensor)->name);
}

int64_t export_find_tensor(const struct export_archive *a, const char *name)
{
    const struct export_tensor *t =
        a->tensors ? bsearch(name, a->tensor, a->tensors, sizeof *a->tensor,
                             compare_tensor)
                   : NULL;

    return t ? t - a->tensor : -1;
}

static int bad_tensor(const char *name, const char *what,
                      struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "tensor '%s': %s", name, what);
}

/* Sizes and strides, which are plain numbers here. */
static int read_numbers(const cJSON *list, int64_t *out)
{
    const cJSON *j;
    int n = 0;

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > INFER_MAX_RANK)
        return -1;
    cJSON_ArrayForEach(j, list) if (!json_int64(json_member(j, "as_int"), 0,
                                                (int64_t)1 << 53,
                                                &out[n++])) return -1;
    return n;
}

static int read_meta(const cJSON *meta, struct export_tensor *t,
                     struct infer_error *err)
{
    t->rank = read_numbers(json_member(meta, "sizes"), t->dim);
    if (t->rank < 0 ||
        read_numbers(json_member(meta, "strides"), t->stride) != t->rank ||
        !json_int64(json_member(json_member(meta, "storage_offset"), "as_int"),
                    0, (int64_t)1 << 53, &t->offset) ||
        !json_int64(json_member(meta, "dtype"), 0, 1000, &t->raw_dtype))
        return bad_tensor(t->name, "its shape is malformed", err);
    t->dtype = export_dtype(t->raw_dtype);
    return 0;
}

/* The member of a storage: ROOT data/weights/weight_0. */
static int find_member(const struct export_archive *a, const char *folder,
                       const char *path, struct export_tensor *t,
                       struct infer_error *err)
{
    char name[4096];
    const int n = snprintf(name, sizeof name, "%s%s%s", a->root, folder, path);
    const int64_t i =
        n > 0 && (size_t)n < sizeof name ? zipfile_find(&a->zip, name) : -1;

    if (i < 0)
        return error_set(err, INFER_EFORMAT,
                         "tensor '%s': the archive has no member '%s%s'",
                         t->name, folder, path);
    t->member = (size_t)i;
    return 0;
}

static int list_config(struct export_archive *a, const cJSON *config,
                       const char *folder, struct infer_error *err)
{
    const cJSON *list = json_member(config, "config"), *j;
    int rc = 0;

    if (!cJSON_IsObject(list))
        return error_set(err, INFER_EFORMAT, "%s: its list is malformed",
                         folder);
    cJSON_ArrayForEach(j, list)
    {
        struct export_tensor *t = &a->tensor[a->tensors];
        const char *path = json_string(j, "path_name");
        const cJSON *meta = json_member(j, "tensor_meta");

        *t = (struct export_tensor){.name = j->string};
        /* Objects of other classes: an error of who reads them. */
        if (!path || !cJSON_IsObject(meta) || json_bool(j, "use_pickle", false))
            continue;
        if ((rc = read_meta(meta, t, err)) < 0 ||
            (rc = find_member(a, folder, path, t, err)) < 0)
            return rc;
        a->tensors++;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct export_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Marks tensors whose member another one has too. */
static int mark_shared(struct export_archive *a, struct infer_error *err)
{
    unsigned char *seen = calloc(a->zip.count + 1, 1);

    if (!seen)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t i = 0; i < a->tensors; i++)
        if (seen[a->tensor[i].member] < 2)
            seen[a->tensor[i].member]++;
    for (size_t i = 0; i < a->tensors; i++)
        a->tensor[i].shared = seen[a->tensor[i].member] > 1;
    free(seen);
    return 0;
}

int export_list_tensors(struct export_archive *a, struct infer_error *err)
{
    static const char *const folders[2] = {"data/weights/", "data/constants/"};
    size_t count = 0;
    int rc = 0;

    for (int i = 0; i < 2; i++)
        count +=
            (size_t)cJSON_GetArraySize(json_member(a->config[i], "config"));
    if (count > WEIGHTS_MAX_TENSORS)
        return error_set(err, INFER_EFORMAT, "%zu tensors are too many", count);
    a->tensor = calloc(count + 1, sizeof *a->tensor);
    if (!a->tensor)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < 2 && rc == 0; i++)
        if (a->config[i])
            rc = list_config(a, a->config[i], folders[i], err);
    qsort(a->tensor, a->tensors, sizeof *a->tensor, by_name);
    for (size_t i = 1; i < a->tensors && rc == 0; i++)
        if (strcmp(a->tensor[i - 1].name, a->tensor[i].name) == 0)
            rc = bad_tensor(a->tensor[i].name, "there are two", err);
    return rc < 0 ? rc : mark_shared(a, err);
}

void export_clear_tensors(struct export_archive *a)
{
    free(a->tensor);
    a->tensor = NULL;
    a->tensors = 0;
}

/* ---- loading ------------------------------------------------------- */

static bool is_dense(const struct export_tensor *t)
{
    int64_t expected = 1;

    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->dim[d] != 1 && t->stride[d] != expected)
            return false;
        expected *= t->dim[d] > 0 ? t->dim[d] : 1;
    }
    return true;
}

/* Elements that the tensor's last one lies behind the storage's start. */
static bool reach(const struct export_tensor *t, uint64_t *out)
{
    size_t sum = (size_t)t->offset, step;

    for (int d = 0; d < t->rank; d++) {
        if (t->dim[d] == 0) {
            *out = 0;
            return true;
        }
        if (!checked_mul((size_t)(t->dim[d] - 1), (size_t)t->stride[d],
                         &step) ||
            !checked_add(sum, step, &sum))
            return false;
    }
    *out = (uint64_t)sum + 1;
    return true;
}

static void copy_strided(const struct export_tensor *t,
                         const unsigned char *from, struct constant *to)
{
    const size_t size = infer_dtype_size(t->dtype);
    int64_t index[INFER_MAX_RANK] = {0}, at = t->offset;
    const int64_t count = constant_count(to);

    for (int64_t i = 0; i < count; i++) {
        memcpy(to->data + (size_t)i * size, from + (size_t)at * size, size);
        for (int d = t->rank - 1; d >= 0; d--) {
            at += t->stride[d];
            if (++index[d] < t->dim[d])
                break;
            at -= t->stride[d] * t->dim[d];
            index[d] = 0;
        }
    }
}

static int view_or_copy(struct onnx_import *im, const struct export_tensor *t,
                        const struct zipfile_data *data, struct constant **out)
{
    const size_t size = infer_dtype_size(t->dtype);
    int64_t count;
    uint64_t need = 0;

    if (!checked_count(t->rank, t->dim, &count) || !reach(t, &need) ||
        need > data->bytes / size)
        return bad_tensor(t->name, "it reaches beyond its storage", im->err);
    if (!t->shared && is_dense(t)) {
        *out = constant_in_blob(t->dtype, t->rank, t->dim, data->blob,
                                data->data + (size_t)t->offset * size);
        return *out ? 0 : error_set(im->err, INFER_EMEMORY, "out of memory");
    }
    if (onnx_new_constant(im, t->dtype, t->rank, t->dim, out) < 0)
        return im->rc;
    copy_strided(t, data->data, *out);
    return 0;
}

int export_load_tensor(struct onnx_import *im, void *archive, size_t index,
                       struct constant **out)
{
    struct export_archive *a = archive;
    const struct export_tensor *t = &a->tensor[index];
    struct zipfile_data data;
    int rc;

    *out = NULL;
    if (t->dtype == INFER_NONE)
        return error_set(im->err, INFER_EUNSUPPORTED,
                         "tensor '%s' has PyTorch's type %lld, which is not "
                         "supported",
                         t->name, (long long)t->raw_dtype);
    rc = zipfile_read(&a->zip, t->member, im->err, &data);
    if (rc < 0) {
        error_prefix(im->err, "tensor '%s'", t->name);
        return rc;
    }
    rc = view_or_copy(im, t, &data, out);
    zipfile_data_clear(&data);
    for (size_t i = 0; rc == 0 && t->dtype == INFER_BOOL && i < (*out)->bytes;
         i++)
        (*out)->data[i] = (*out)->data[i] != 0;
    return rc;
}
