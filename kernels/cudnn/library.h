/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN and cuBLASLt as tables of functions, loaded when first asked for, so
 * that a program needs neither to start; their errors; their handles.
 *
 * Handles.  A cuDNN handle has memory of its own on the device, so no two
 * streams may share one.  A lane is a handle that belongs to one stream, or
 * waits for one.  A launch borrows the lane of its stream; prepare() sees to
 * it that one waits, so that launches need make none.
 */
#ifndef KERNELS_CUDNN_LIBRARY_H
#define KERNELS_CUDNN_LIBRARY_H

#include "config.h"

#include <cublasLt.h>
#include <cudnn.h>

#include "kernels/base/error.h"
#include "kernels/kern.h"

/* Every function that is used of either library. */
#define CUDNN_FUNCTIONS(X)                                                     \
    X(cudnnGetVersion)                                                         \
    X(cudnnGetErrorString)                                                     \
    X(cudnnGetLastErrorString)                                                 \
    X(cudnnCreate)                                                             \
    X(cudnnDestroy)                                                            \
    X(cudnnSetStream)                                                          \
    X(cudnnBackendCreateDescriptor)                                            \
    X(cudnnBackendDestroyDescriptor)                                           \
    X(cudnnBackendFinalize)                                                    \
    X(cudnnBackendSetAttribute)                                                \
    X(cudnnBackendGetAttribute)                                                \
    X(cudnnBackendExecute)                                                     \
    X(cudnnCreateTensorDescriptor)                                             \
    X(cudnnDestroyTensorDescriptor)                                            \
    X(cudnnSetTensor4dDescriptorEx)                                            \
    X(cudnnCreateFilterDescriptor)                                             \
    X(cudnnDestroyFilterDescriptor)                                            \
    X(cudnnSetFilter4dDescriptor)                                              \
    X(cudnnCreateConvolutionDescriptor)                                        \
    X(cudnnDestroyConvolutionDescriptor)                                       \
    X(cudnnSetConvolution2dDescriptor)                                         \
    X(cudnnSetConvolutionGroupCount)                                           \
    X(cudnnSetConvolutionMathType)                                             \
    X(cudnnGetConvolutionForwardWorkspaceSize)                                 \
    X(cudnnConvolutionForward)                                                 \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                            \
    X(cudnnConvolutionBackwardData)                                            \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                          \
    X(cudnnConvolutionBackwardFilter)                                          \
    X(cudnnSoftmaxForward)

#define CUBLAS_FUNCTIONS(X)                                                    \
    X(cublasLtGetVersion)                                                      \
    X(cublasLtGetStatusString)                                                 \
    X(cublasLtCreate)                                                          \
    X(cublasLtMatmul)                                                          \
    X(cublasLtMatmulDescCreate)                                                \
    X(cublasLtMatmulDescDestroy)                                               \
    X(cublasLtMatmulDescSetAttribute)                                          \
    X(cublasLtMatrixLayoutCreate)                                              \
    X(cublasLtMatrixLayoutDestroy)                                             \
    X(cublasLtMatrixLayoutSetAttribute)                                        \
    X(cublasLtMatmulPreferenceCreate)                                          \
    X(cublasLtMatmulPreferenceDestroy)                                         \
    X(cublasLtMatmulPreferenceSetAttribute)                                    \
    X(cublasLtMatmulAlgoGetHeuristic)                                          \
    X(cublasLtMatmulAlgoConfigGetAttribute)

#define LIBRARY_MEMBER(name) __typeof__(name) *name;
struct cudnn_library {
    CUDNN_FUNCTIONS(LIBRARY_MEMBER)
};
struct cublas_library {
    CUBLAS_FUNCTIONS(LIBRARY_MEMBER)
};
#undef LIBRARY_MEMBER

/* The libraries, loaded by the first call; NULL, with INFER_EDEVICE and the
 * reason, where they are not there.  By any thread. */
const struct cudnn_library *cudnn_library(struct infer_error *why);
const struct cublas_library *cublas_library(struct infer_error *why);
/* How often sessions have asked for the backend. */
unsigned cudnn_openings(void);

/* ---- errors -------------------------------------------------------- */

/* Records a failed call with the library's own text: EUNSUPPORTED where it
 * says that it does not support this, EMEMORY, or else EDEVICE. */
int cudnn_fail(struct infer_error *err, const struct cudnn_library *lib,
               cudnnStatus_t status, const char *expression, const char *file,
               int line);
int cublas_fail(struct infer_error *err, const struct cublas_library *lib,
                cublasStatus_t status, const char *expression, const char *file,
                int line);

/* Evaluate to 0 or to the code of the error that they record. */
#define CUDNN_CALL(err, lib, call)                                             \
    cudnn_check(err, lib, (lib)->call, #call, __FILE__, __LINE__)
#define CUBLAS_CALL(err, lib, call)                                            \
    cublas_check(err, lib, (lib)->call, #call, __FILE__, __LINE__)

static inline int cudnn_check(struct infer_error *err,
                              const struct cudnn_library *lib,
                              cudnnStatus_t status, const char *expression,
                              const char *file, int line)
{
    return status == CUDNN_STATUS_SUCCESS
               ? 0
               : cudnn_fail(err, lib, status, expression, file, line);
}

static inline int cublas_check(struct infer_error *err,
                               const struct cublas_library *lib,
                               cublasStatus_t status, const char *expression,
                               const char *file, int line)
{
    return status == CUBLAS_STATUS_SUCCESS
               ? 0
               : cublas_fail(err, lib, status, expression, file, line);
}

/* Why a problem is refused: any error of a library becomes EUNSUPPORTED with
 * its text, since supports() knows no other. */
int cudnn_refuse(struct infer_error *why, int code);

/* ---- handles ------------------------------------------------------- */

struct cudnn_lane;

/* Borrows the lane of a stream, until cudnn_leave(); other threads that want
 * the same one wait.  *out: its handle, set to the stream. */
int cudnn_enter(int ordinal, void *stream, struct infer_error *err,
                struct cudnn_lane **lane, cudnnHandle_t *out);
/* The lane of a device for queries; nothing is launched on it. */
int cudnn_enter_planning(int ordinal, struct infer_error *err,
                         struct cudnn_lane **lane, cudnnHandle_t *out);
void cudnn_leave(struct cudnn_lane *lane);

/* From prepare() to release(): a lane waits for the next stream.  When the
 * last one of a device is released, its lanes belong to no stream any more. */
int cudnn_hold(int ordinal, struct infer_error *err);
void cudnn_unhold(int ordinal);

/* The cuBLASLt handle of a device, which all streams may share. */
int cublas_handle(int ordinal, struct infer_error *err, cublasLtHandle_t *out);

/* ---- what rows share ----------------------------------------------- */

/* Lets a test reorder `count` engines of `size` bytes. */
void cudnn_order_engines(void *engine, size_t size, int count);

/* Which of y = conv(x, w)'s tensors is computed from the other two: y, x's
 * gradient (what a transposed convolution is too) or w's. */
enum cudnn_direction { CUDNN_FPROP, CUDNN_DGRAD, CUDNN_WGRAD };
enum cudnn_direction cudnn_direction_of(const struct kern_problem *p);
/* The convolution one of whose gradients p is; p itself where it is none. */
void cudnn_as_convolution(const struct kern_problem *p,
                          struct kern_problem *conv);
/* in[] of a gradient of weights. */
enum { CUDNN_WGRAD_X, CUDNN_WGRAD_DY, CUDNN_WGRAD_RESIDUAL };

/* cuDNN's name of a type of activations (F32, F16, BF16). */
cudnnDataType_t cudnn_dtype(enum infer_dtype dtype);

#endif
