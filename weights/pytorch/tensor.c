/* SPDX-License-Identifier: Apache-2.0 */
/* Storages and the tensors that view them. */
#include "weights/pytorch/torch.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/numpy/numpy.h"
#include "weights/pytorch/pickle_machine.h"

/* Copies of views may take this many bytes in addition to the file: a
 * stride of 0 makes a tensor of any size from one element. */
#define COPY_BASE ((uint64_t)48 << 20)

/* ---- storages ------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct torch_storage *x = a, *y = b;

    if (x->key_bytes != y->key_bytes)
        return x->key_bytes < y->key_bytes ? -1 : 1;
    return memcmp(x->key, y->key, x->key_bytes);
}

static bool is_untyped(uint32_t row)
{
    return strcmp(pickle_row_at(row)->name, PICKLE_ROW_UNTYPED_NAME) == 0;
}

/* Merges references to the same key, which must agree. */
static int merge(struct torch_source *source, struct infer_error *err)
{
    size_t i, n = 0;

    for (i = 0; i < source->storages; i++) {
        struct torch_storage *s = &source->storage[i];

        if (n == 0 || by_key(&source->storage[n - 1], s) != 0) {
            source->storage[n++] = *s;
            continue;
        }
        if (s->row != source->storage[n - 1].row ||
            s->count != source->storage[n - 1].count)
            return error_set(err, INFER_EFORMAT,
                             "storage '%.*s' is used with two types or sizes",
                             (int)(s->key_bytes < 64 ? s->key_bytes : 64),
                             (const char *)s->key);
    }
    source->storages = n;
    return 0;
}

int torch_source_init(struct torch_source *source, struct pickle *pickle,
                      uint64_t file_bytes, struct infer_error *err)
{
    size_t i, count = 0;
    int rc;

    for (i = 0; i < pickle->count; i++)
        count += pickle->node[i].kind == PICKLE_STORAGE;
    *source = (struct torch_source){.pickle = pickle, .file_bytes = file_bytes};
    source->storage = calloc(count + 1, sizeof *source->storage);
    if (!source->storage)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < pickle->count; i++) {
        const struct pickle_node *n = &pickle->node[i], *key;

        if (n->kind != PICKLE_STORAGE)
            continue;
        key = pickle_at(pickle, n->u.item[PICKLE_STORAGE_KEY]);
        source->storage[source->storages++] = (struct torch_storage){
            .key = key->u.bytes,
            .key_bytes = key->count,
            .row = n->row,
            .dtype = (enum infer_dtype)n->dtype,
            .untyped = is_untyped(n->row),
            .count =
                (uint64_t)pickle_at(pickle, n->u.item[PICKLE_STORAGE_COUNT])
                    ->u.integer};
    }
    qsort(source->storage, source->storages, sizeof *source->storage, by_key);
    rc = merge(source, err);
    if (rc < 0)
        torch_source_clear(source);
    return rc;
}

void torch_source_clear(struct torch_source *source)
{
    size_t i;

    for (i = 0; i < source->storages; i++)
        blob_unref(source->storage[i].blob);
    free(source->storage);
    *source = (struct torch_source){0};
}

struct torch_storage *torch_source_find(const struct torch_source *source,
                                        const unsigned char *key,
                                        uint32_t key_bytes)
{
    struct torch_storage wanted = {.key = key, .key_bytes = key_bytes};

    if (source->storages == 0)
        return NULL;
    return bsearch(&wanted, source->storage, source->storages, sizeof wanted,
                   by_key);
}

int torch_storage_bytes(const struct torch_storage *storage,
                        struct infer_error *err, size_t *out)
{
    size_t size = storage->untyped ? 1 : infer_dtype_size(storage->dtype);
    char name[128];

    if (size == 0) {
        pickle_row_name(storage->row, name, sizeof name);
        return error_set(err, INFER_EUNSUPPORTED,
                         "a storage is a %s, whose elements are not supported",
                         name);
    }
    if (!checked_mul((size_t)storage->count, size, out))
        return error_set(err, INFER_EFORMAT, "a storage declares %llu elements",
                         (unsigned long long)storage->count);
    return 0;
}

void torch_storage_settle(struct torch_storage *storage, bool swapped)
{
    if (!storage->untyped)
        numpy_settle(storage->dtype, swapped, storage->data, storage->bytes);
}

/* ---- views --------------------------------------------------------- */

struct view {
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK], stride[INFER_MAX_RANK];
    int64_t offset; /* elements from the start of the storage */
    int64_t limit;  /* elements that the view may reach */
    int64_t count;
};

/* A storage may itself be a part of another (legacy files). */
static int apply_storage_view(const struct pickle *p,
                              const struct pickle_node *storage,
                              const char *name, struct view *v,
                              struct infer_error *err)
{
    const struct pickle_node *part =
        pickle_at(p, storage->u.item[PICKLE_STORAGE_VIEW]);
    int64_t start, size;

    if (part->kind != PICKLE_TUPLE)
        return 0;
    start = pickle_at(p, part->u.item[1])->u.integer;
    size = pickle_at(p, part->u.item[2])->u.integer;
    if (!checked_range((uint64_t)start, (uint64_t)size, (uint64_t)v->limit) ||
        v->offset > size)
        return error_set(err, INFER_EFORMAT,
                         "tensor '%s': its storage is elements %lld + %lld of "
                         "one that has %lld",
                         name, (long long)start, (long long)size,
                         (long long)v->limit);
    v->offset += start;
    v->limit = start + size;
    return 0;
}

/* Largest element that the view touches; false where it does not fit. */
static bool last_element(const struct view *v, int64_t *out)
{
    int64_t last = v->offset, reach;
    int i;

    for (i = 0; i < v->rank; i++)
        if (!checked_mul_i64(v->dim[i] - 1, v->stride[i], &reach) ||
            !checked_add_i64(last, reach, &last))
            return false;
    *out = last;
    return true;
}

static int read_view(const struct torch_source *source, uint32_t node,
                     const struct torch_storage *storage, const char *name,
                     struct infer_error *err, struct view *v)
{
    const struct pickle *p = source->pickle;
    const struct pickle_node *n = pickle_at(p, node), *size, *stride;
    uint32_t row = n->row == PICKLE_NO_ROW ? storage->row : n->row;
    char type[128];
    int64_t last;
    int i, rc;

    v->dtype =
        n->row == PICKLE_NO_ROW ? storage->dtype : (enum infer_dtype)n->dtype;
    if (v->dtype == INFER_NONE ||
        (storage->untyped && n->row == PICKLE_NO_ROW)) {
        pickle_row_name(row, type, sizeof type);
        return error_set(err, INFER_EUNSUPPORTED,
                         "tensor '%s' has elements of %s (supported: float64, "
                         "float32, float16, bfloat16, integers, bool)",
                         name, type);
    }
    size = pickle_at(p, n->u.item[PICKLE_TENSOR_SIZE]);
    stride = pickle_at(p, n->u.item[PICKLE_TENSOR_STRIDE]);
    v->rank = (int)size->count;
    for (i = 0; i < v->rank; i++) {
        v->dim[i] = pickle_at(p, size->u.item[i])->u.integer;
        v->stride[i] = pickle_at(p, stride->u.item[i])->u.integer;
    }
    v->offset = pickle_at(p, n->u.item[PICKLE_TENSOR_OFFSET])->u.integer;
    v->limit = (int64_t)(storage->bytes / infer_dtype_size(v->dtype));
    rc = apply_storage_view(p, pickle_at(p, n->u.item[PICKLE_TENSOR_STORAGE]),
                            name, v, err);
    if (rc < 0)
        return rc;
    if (!checked_count(v->rank, v->dim, &v->count))
        return error_set(err, INFER_EFORMAT,
                         "tensor '%s' has a size beyond all memory", name);
    if (v->count == 0)
        return 0;
    if (!last_element(v, &last) || last >= v->limit)
        return error_set(err, INFER_EFORMAT,
                         "tensor '%s' reaches beyond its storage of %lld "
                         "elements",
                         name, (long long)v->limit);
    return 0;
}

static bool is_dense(const struct view *v)
{
    int64_t expected = 1;
    int i;

    for (i = v->rank; i-- > 0;) {
        if (v->dim[i] != 1 && v->stride[i] != expected)
            return false;
        expected *= v->dim[i]; /* at most count, which fits */
    }
    return true;
}

/* Copies the elements of a view in row-major order. */
static void gather(const struct view *v, const unsigned char *from,
                   unsigned char *to)
{
    size_t size = infer_dtype_size(v->dtype);
    int64_t index[INFER_MAX_RANK] = {0}, at = v->offset, i;
    int d;

    for (i = 0; i < v->count; i++) {
        memcpy(to, from + (size_t)at * size, size);
        to += size;
        for (d = v->rank; d-- > 0;) {
            at += v->stride[d];
            if (++index[d] < v->dim[d])
                break;
            at -= v->stride[d] * v->dim[d];
            index[d] = 0;
        }
    }
}

/* Counts bytes that are copied against the cap. */
static int charge_copy(struct torch_source *source, int64_t count, size_t size,
                       const char *name, struct infer_error *err)
{
    uint64_t cap = COPY_BASE + source->file_bytes;
    size_t bytes;

    if (!checked_mul((size_t)count, size, &bytes) ||
        bytes > cap - source->copied)
        return error_set(err, INFER_EMEMORY,
                         "tensor '%s': expanding its views takes more than "
                         "%llu bytes, the limit for a file of %llu",
                         name, (unsigned long long)cap,
                         (unsigned long long)source->file_bytes);
    source->copied += bytes;
    return 0;
}

static int no_memory(const char *name, struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory", name);
}

static int view_tensor(struct torch_source *source,
                       struct torch_storage *storage, const struct view *v,
                       const char *name, struct infer_error *err,
                       struct constant **out)
{
    size_t size = infer_dtype_size(v->dtype), start;
    struct constant *c;
    int rc;

    start = v->count > 0 ? (size_t)v->offset * size : 0;
    if (v->count > 0 && is_dense(v) && start >= storage->lent &&
        (uintptr_t)(storage->data + start) % size == 0) {
        c = constant_in_blob(v->dtype, v->rank, v->dim, storage->blob,
                             storage->data + start);
        if (!c)
            return no_memory(name, err);
        storage->lent = start + (size_t)v->count * size;
        *out = c;
        return 0;
    }
    rc = charge_copy(source, v->count, size, name, err);
    if (rc < 0)
        return rc;
    c = constant_new(v->dtype, v->rank, v->dim);
    if (!c)
        return no_memory(name, err);
    gather(v, storage->data, c->data);
    *out = c;
    return 0;
}

/* ---- numpy arrays -------------------------------------------------- */

static int array_tensor(struct torch_source *source, uint32_t node,
                        const char *name, struct infer_error *err,
                        struct constant **out)
{
    const struct pickle *p = source->pickle;
    const struct pickle_node *n = pickle_at(p, node), *shape, *type, *data;
    int64_t dim[INFER_MAX_RANK];
    enum infer_dtype dtype;
    struct constant *c, *transposed;
    uint32_t i;
    int rc;

    shape = pickle_at(p, n->u.item[PICKLE_ARRAY_SHAPE]);
    type = pickle_at(p, n->u.item[PICKLE_ARRAY_DTYPE]);
    data = pickle_at(p, n->u.item[PICKLE_ARRAY_DATA]);
    dtype = (enum infer_dtype)type->dtype;
    if (dtype == INFER_NONE || shape->count > INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED,
                         "array '%s' has an element type or rank (%u) that is "
                         "not supported",
                         name, shape->count);
    for (i = 0; i < shape->count; i++)
        dim[i] = pickle_at(p, shape->u.item[i])->u.integer;
    if (array_bytes(dtype, (int)shape->count, dim) != data->count)
        return error_set(err, INFER_EFORMAT,
                         "array '%s': its shape does not agree with its %u "
                         "bytes",
                         name, data->count);
    rc = charge_copy(source, data->count, 1, name, err);
    if (rc < 0)
        return rc;
    c = constant_new(dtype, (int)shape->count, dim);
    if (!c)
        return no_memory(name, err);
    if (data->count > 0)
        memcpy(c->data, data->u.bytes, data->count);
    numpy_settle(dtype, type->swapped, c->data, data->count);
    if (pickle_at(p, n->u.item[PICKLE_ARRAY_FORTRAN])->u.integer &&
        c->rank > 1) {
        transposed = numpy_from_fortran(c);
        constant_unref(c);
        if (!transposed)
            return no_memory(name, err);
        c = transposed;
    }
    *out = c;
    return 0;
}

int torch_tensor(struct torch_source *source, uint32_t node, const char *name,
                 struct infer_error *err, struct constant **out)
{
    const struct pickle *p = source->pickle;
    const struct pickle_node *n = pickle_at(p, node), *key;
    struct torch_storage *storage;
    struct view v;
    int rc;

    if (n->kind == PICKLE_ARRAY)
        return array_tensor(source, node, name, err, out);
    key = pickle_at(p, pickle_at(p, n->u.item[PICKLE_TENSOR_STORAGE])
                           ->u.item[PICKLE_STORAGE_KEY]);
    storage = torch_source_find(source, key->u.bytes, key->count);
    if (!storage)
        return error_set(err, INFER_EFORMAT, "tensor '%s' has no storage",
                         name);
    if (!storage->loaded) {
        rc = source->load(source, storage, err);
        if (rc < 0) {
            error_prefix(err, "tensor '%s'", name);
            return rc;
        }
        storage->loaded = true;
    }
    rc = read_view(source, node, storage, name, err, &v);
    if (rc < 0)
        return rc;
    return view_tensor(source, storage, &v, name, err, out);
}
