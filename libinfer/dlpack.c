/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors as views and back (include/infer_dlpack.h). */
#include "include/infer_dlpack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/kern.h"

/* DLDataTypeCode */
enum {
    CODE_INT,
    CODE_UINT,
    CODE_FLOAT,
    CODE_BFLOAT = 4,
    CODE_BOOL = 6,
    CODE_FLOAT8_E4M3FN = 10 /* of version 1.1 */
};

static const struct {
    enum infer_dtype dtype;
    uint8_t code, bits;
} types[] = {
    {INFER_F64, CODE_FLOAT, 64}, {INFER_F32, CODE_FLOAT, 32},
    {INFER_F16, CODE_FLOAT, 16}, {INFER_BF16, CODE_BFLOAT, 16},
    {INFER_I64, CODE_INT, 64},   {INFER_I32, CODE_INT, 32},
    {INFER_I16, CODE_INT, 16},   {INFER_I8, CODE_INT, 8},
    {INFER_U64, CODE_UINT, 64},  {INFER_U32, CODE_UINT, 32},
    {INFER_U16, CODE_UINT, 16},  {INFER_U8, CODE_UINT, 8},
    {INFER_BOOL, CODE_BOOL, 8},  {INFER_F8E4M3, CODE_FLOAT8_E4M3FN, 8},
};

#define N_TYPES (sizeof types / sizeof types[0])

/* ---- in ------------------------------------------------------------ */

static int read_device(const struct infer_dlpack_tensor *dl,
                       struct infer_error *err, struct infer_tensor *out)
{
    switch (dl->device_type) {
    case INFER_DLPACK_CPU:
    case INFER_DLPACK_CUDA_HOST:
        out->memory = INFER_MEMORY_HOST;
        return 0;
    case INFER_DLPACK_CUDA:
    case INFER_DLPACK_CUDA_MANAGED:
        out->memory = INFER_MEMORY_CUDA;
        out->device = dl->device_id;
        return 0;
    }
    return error_set(err, INFER_EUNSUPPORTED,
                     "DLPack: device type %d, expected a CPU (1, 3) or an "
                     "NVIDIA GPU (2, 13)",
                     (int)dl->device_type);
}

static int read_type(const struct infer_dlpack_tensor *dl,
                     struct infer_error *err, struct infer_tensor *out)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (dl->lanes == 1 && types[i].code == dl->code &&
            types[i].bits == dl->bits) {
            out->dtype = types[i].dtype;
            return 0;
        }
    return error_set(err, INFER_EUNSUPPORTED,
                     "DLPack: elements of code %d, %d bits and %d lanes are "
                     "not supported",
                     dl->code, dl->bits, dl->lanes);
}

/* Bytes from the first element to one past the highest. */
static bool count_bytes(const struct infer_dlpack_tensor *dl, size_t size,
                        size_t *bytes)
{
    int64_t count, above = 1, step;

    if (!checked_count(dl->ndim, dl->shape, &count))
        return false;
    if (!dl->strides || count == 0)
        return checked_mul((size_t)count, size, bytes);
    for (int i = 0; i < dl->ndim; i++)
        if (dl->strides[i] > 0 &&
            (!checked_mul_i64(dl->shape[i] - 1, dl->strides[i], &step) ||
             !checked_add_i64(above, step, &above)))
            return false;
    return checked_mul((size_t)above, size, bytes);
}

int infer_tensor_from_dlpack(const struct infer_dlpack_tensor *dl,
                             struct infer_error *err, struct infer_tensor *out)
{
    struct infer_tensor t = {.name = NULL};
    int rc;

    if (!dl || !out)
        return error_set(err, INFER_EARGUMENT, "DLPack: no tensor given");
    if (dl->ndim < 0 || dl->ndim > INFER_MAX_RANK || (dl->ndim && !dl->shape))
        return error_set(err, INFER_EARGUMENT,
                         "DLPack: %d dimensions, expected 0 to %d with their "
                         "sizes",
                         (int)dl->ndim, INFER_MAX_RANK);
    rc = read_device(dl, err, &t);
    if (rc == 0)
        rc = read_type(dl, err, &t);
    if (rc < 0)
        return rc;
    if (!count_bytes(dl, infer_dtype_size(t.dtype), &t.bytes))
        return error_set(err, INFER_EARGUMENT,
                         "DLPack: the tensor's bytes cannot be counted");
    t.rank = dl->ndim;
    if (t.rank > 0)
        memcpy(t.dim, dl->shape, (size_t)t.rank * sizeof t.dim[0]);
    t.stride = dl->strides;
    if (dl->data)
        t.data = (unsigned char *)dl->data + dl->byte_offset;
    *out = t;
    return 0;
}

/* ---- out ----------------------------------------------------------- */

/* What an exported tensor points to. */
struct exported {
    union {
        struct infer_dlpack_versioned versioned;
        struct infer_dlpack_managed managed;
    } as;
    int64_t shape[INFER_MAX_RANK], stride[INFER_MAX_RANK];
    void (*release)(void *user);
    void *user;
};

static void free_exported(struct exported *e)
{
    if (e->release)
        e->release(e->user);
    free(e);
}

static void delete_versioned(struct infer_dlpack_versioned *self)
{
    free_exported(self->context);
}

static void delete_managed(struct infer_dlpack_managed *self)
{
    free_exported(self->context);
}

static int check_view(const struct infer_tensor *t, struct infer_error *err)
{
    if (!t || t->rank < 0 || t->rank > INFER_MAX_RANK ||
        infer_dtype_size(t->dtype) == 0 ||
        (t->memory != INFER_MEMORY_HOST && t->memory != INFER_MEMORY_CUDA) ||
        array_bytes(t->dtype, t->rank, t->dim) == SIZE_MAX)
        return error_set(err, INFER_EARGUMENT,
                         "DLPack: the tensor's type, shape or memory is "
                         "impossible");
    return 0;
}

static void fill(const struct infer_tensor *t, struct exported *e,
                 struct infer_dlpack_tensor *dl)
{
    struct kern_tensor dense;

    memset(dl, 0, sizeof *dl);
    dense = kern_tensor_dense(t->dtype, t->rank, t->dim, KERN_NCHW);
    for (int i = 0; i < t->rank; i++) {
        e->shape[i] = t->dim[i];
        e->stride[i] = t->stride ? t->stride[i] : dense.stride[i];
    }
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].dtype == t->dtype) {
            dl->code = types[i].code;
            dl->bits = types[i].bits;
        }
    dl->data = t->data;
    dl->device_type =
        t->memory == INFER_MEMORY_CUDA ? INFER_DLPACK_CUDA : INFER_DLPACK_CPU;
    dl->device_id = t->memory == INFER_MEMORY_CUDA ? t->device : 0;
    dl->ndim = t->rank;
    dl->lanes = 1;
    dl->shape = e->shape;
    dl->strides = e->stride;
}

static int export_view(const struct infer_tensor *t,
                       void (*release)(void *user), void *user, bool place,
                       struct infer_error *err, struct exported **out)
{
    struct exported *e = NULL;
    int rc = check_view(t, err);

    if (rc == 0 && !place)
        rc = error_set(err, INFER_EARGUMENT, "DLPack: no place for the tensor");
    if (rc == 0 && (e = calloc(1, sizeof *e)) == NULL)
        rc = error_set(err, INFER_EMEMORY, "DLPack: out of memory");
    if (rc < 0) {
        if (release)
            release(user);
        return rc;
    }
    e->release = release;
    e->user = user;
    *out = e;
    return 0;
}

int infer_tensor_to_dlpack(const struct infer_tensor *tensor, uint64_t flags,
                           void (*release)(void *user), void *user,
                           struct infer_error *err,
                           struct infer_dlpack_versioned **out)
{
    struct exported *e;
    const int rc = export_view(tensor, release, user, out != NULL, err, &e);

    if (rc < 0)
        return rc;
    fill(tensor, e, &e->as.versioned.tensor);
    e->as.versioned.major = 1;
    e->as.versioned.context = e;
    e->as.versioned.deleter = delete_versioned;
    e->as.versioned.flags = flags;
    *out = &e->as.versioned;
    return 0;
}

int infer_tensor_to_dlpack_old(const struct infer_tensor *tensor,
                               void (*release)(void *user), void *user,
                               struct infer_error *err,
                               struct infer_dlpack_managed **out)
{
    struct exported *e;
    const int rc = export_view(tensor, release, user, out != NULL, err, &e);

    if (rc < 0)
        return rc;
    fill(tensor, e, &e->as.managed.tensor);
    e->as.managed.context = e;
    e->as.managed.deleter = delete_managed;
    *out = &e->as.managed;
    return 0;
}
