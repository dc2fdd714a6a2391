/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the CUDA rows on the host: errors, devices, common limits.
 * element.cuh is the device's part.
 *
 * Tensors lie dense, channels last or row-major, unless a row is flagged
 * KERN_STRIDED.  pack() runs on the CPU into host memory; the runtime uploads
 * the result.  Launchers neither allocate nor synchronise: they end in
 * `return CUDA_LAUNCHED(err);`.
 */
#ifndef KERNELS_CUDA_CUDA_RT_H
#define KERNELS_CUDA_CUDA_RT_H

#include "config.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/base/error.h"
#include "kernels/kern.h"
#include "kernels/problem.h"

/* ---- errors -------------------------------------------------------- */

/* Records a failed call: INFER_EMEMORY where memory ran out, else
 * INFER_EDEVICE, with the runtime's own text, the expression and its place. */
int cuda_fail(struct infer_error *err, cudaError_t code, const char *expression,
              const char *file, int line);
/* True for errors after which the context is of no use any more. */
bool cuda_is_sticky(cudaError_t code);
/* The verdict on the launches since the last call. */
int cuda_launched(struct infer_error *err, const char *file, int line);

/* Returns from the calling function where a call of the runtime fails. */
#define CUDA_TRY(err, call)                                                    \
    do {                                                                       \
        const cudaError_t code_ = (call);                                      \
        if (code_ != cudaSuccess)                                              \
            return cuda_fail(err, code_, #call, __FILE__, __LINE__);           \
    } while (0)

/* The value of a launcher. */
#define CUDA_LAUNCHED(err) cuda_launched(err, __FILE__, __LINE__)

/* ---- devices ------------------------------------------------------- */

/* Devices of this machine, 0 where there is a driver and none.  EDEVICE, with
 * the reason, where there is no driver or it is too old for this build. */
int cuda_device_count(struct infer_error *err, int *out);
/* Fills *out; EDEVICE where there is no such device or this build has no code
 * for it.  Makes it the current device of the calling thread. */
int cuda_device_open(int ordinal, struct infer_error *err,
                     struct kern_device *out);
/* "NVIDIA H200" and so on, cut to the room given. */
int cuda_device_name(int ordinal, struct infer_error *err, char *name,
                     size_t bytes);

/* True if kernels on the current device may be chained (launch.cuh). */
bool cuda_can_chain(void);

/* True if this build has code that runs on the current device. */
bool cuda_has_code(void);

/* Launches a kernel on the caller's current device, with as much dynamic shared
 * memory as it is asked for; may be called by several threads. */
int cuda_launch(const cudaLaunchConfig_t *config, const void *kernel,
                void **args, struct infer_error *err);

/* The next launch starts when all launches before it have ended
 * (kernels/cuda/fence.cu).  Nothing where kernels are not chained. */
int cuda_fence(void *stream, struct infer_error *err);

/* ---- shared by rows ------------------------------------------------ */

/* release() of rows whose state is one block of malloc(). */
void cuda_state_release(struct kern_exec *e);

static inline cudaStream_t cuda_stream(const struct kern_args *args)
{
    return (cudaStream_t)args->stream;
}

/* Types of activations: F32, F16, BF16. */
static inline bool cuda_is_real(enum infer_dtype t)
{
    return t == INFER_F32 || t == INFER_F16 || t == INFER_BF16;
}

/* Per-channel vectors (bias, scale, slope): F32, dense. */
static inline bool cuda_is_vector(const struct kern_tensor *t)
{
    return t->dtype == INFER_F32 && kern_tensor_is_dense(t, KERN_NCHW);
}

/* Blocks of `threads` that cover n elements. */
static inline unsigned cuda_blocks(int64_t n, int threads)
{
    return (unsigned)((n + threads - 1) / threads);
}

#ifdef __cplusplus
}
#endif

#endif
