/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libinfer and DLPack: tensors of other libraries (PyTorch, NumPy, CuPy, JAX)
 * as struct infer_tensor and back, without a copy.
 *
 * The structs below have the layout of DLTensor, DLManagedTensor and
 * DLManagedTensorVersioned of DLPack 1.x (github.com/dmlc/dlpack,
 * include/dlpack/dlpack.h), under names that do not clash with that header:
 * cast the pointers.
 *
 *     struct infer_tensor x;
 *     infer_tensor_from_dlpack((const struct infer_dlpack_tensor *)
 *                              &managed->dl_tensor, &err, &x);
 */
#ifndef INFER_DLPACK_H
#define INFER_DLPACK_H

#include "infer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of device_type; others are refused. */
enum infer_dlpack_device {
    INFER_DLPACK_CPU = 1,
    INFER_DLPACK_CUDA = 2,
    INFER_DLPACK_CUDA_HOST = 3,    /* pinned: host memory */
    INFER_DLPACK_CUDA_MANAGED = 13 /* GPU memory */
};

/* DLTensor */
struct infer_dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10
                         * float8_e4m3fn */
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense, row-major */
    uint64_t byte_offset;
};

/* DLManagedTensor: before version 1 */
struct infer_dlpack_managed {
    struct infer_dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct infer_dlpack_managed *self);
};

/* DLManagedTensorVersioned */
struct infer_dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct infer_dlpack_versioned *self);
    uint64_t flags;
    struct infer_dlpack_tensor tensor;
};

/* Bits of flags. */
#define INFER_DLPACK_READ_ONLY UINT64_C(1)
#define INFER_DLPACK_IS_COPIED UINT64_C(2)

/* Describes a DLPack tensor; nothing is copied.  out->stride points into it, so
 * that the DLPack tensor must stay alive while *out is used.  out->name is
 * NULL.  The caller keeps the duty to call the deleter.
 * Errors: EARGUMENT (more than INFER_MAX_RANK dimensions, negative sizes, an
 * extent that cannot be counted), EUNSUPPORTED (a device or a type without a
 * value in infer.h). */
int infer_tensor_from_dlpack(const struct infer_dlpack_tensor *dl,
                             struct infer_error *err, struct infer_tensor *out);

/* Makes a DLPack tensor of a view; nothing is copied.  Its deleter calls
 * release(user) once, in any thread; release may be NULL.  If this function
 * fails it calls release before it returns.  flags: INFER_DLPACK_*.  The second
 * function makes the older struct, which cannot say that memory is read-only.
 * Errors: EARGUMENT (no such type, rank or memory), EMEMORY. */
int infer_tensor_to_dlpack(const struct infer_tensor *tensor, uint64_t flags,
                           void (*release)(void *user), void *user,
                           struct infer_error *err,
                           struct infer_dlpack_versioned **out);
int infer_tensor_to_dlpack_old(const struct infer_tensor *tensor,
                               void (*release)(void *user), void *user,
                               struct infer_error *err,
                               struct infer_dlpack_managed **out);

#ifdef __cplusplus
}
#endif

#endif
