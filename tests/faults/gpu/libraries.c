/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN, cuBLASLt and NCCL of standin.h.  The project loads them when they are
 * first asked for: the test is linked with --wrap=dlopen and --wrap=dlsym, so
 * that these are found.
 *
 * cuDNN offers two engines for every graph, cuBLASLt two algorithms for every
 * product.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/faults/gpu/standin.h"

#ifdef HAVE_CUDNN
#include "kernels/cudnn/library.h"
#endif
#ifdef HAVE_NCCL
#include <nccl.h>
#endif

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);

struct function {
    const char *name;
    void (*address)(void);
};

#define FUNCTION(name) {#name, (void (*)(void))stand_##name},

/* Most arguments do not matter here. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A call of a library: what comes before the fault, which counts misuses or
 * drops a handle, and what a call that does not fail does. */
#define CALL(status, good, bad, name, arguments, before, ...)                  \
    static status stand_##name arguments                                       \
    {                                                                          \
        before;                                                                \
        if (standin_fails(__func__))                                           \
            return bad;                                                        \
        __VA_ARGS__;                                                           \
        return good;                                                           \
    }
#define MISUSED(kind, handle)                                                  \
    standin.misuses += !standin_has(STANDIN_##kind, handle)
#define DROPPED(kind, handle) standin_drop(STANDIN_##kind, handle)
#define MADE(kind)            *out = standin_make(STANDIN_##kind, 1)
#define NOTHING               (void)0

/* Work of that name in the order of its stream. */
static void work(const char *name)
{
    standin_work(name, strlen(name) + 1);
}

#ifdef HAVE_CUDNN

/* ---- cuDNN --------------------------------------------------------- */

#define CUDNN(...)                                                             \
    CALL(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnn_code(), __VA_ARGS__)

static cudnnStatus_t cudnn_code(void)
{
    return standin.fault == STANDIN_MEMORY_OUT ? CUDNN_STATUS_ALLOC_FAILED
                                               : CUDNN_STATUS_INTERNAL_ERROR;
}

struct descriptor {
    cudnnBackendDescriptorType_t type;
    int engine;
};

static size_t stand_cudnnGetVersion(void)
{
    return 90800;
}

static const char *stand_cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_ALLOC_FAILED ? "ALLOC_FAILED"
                                               : "INTERNAL_ERROR";
}

static void stand_cudnnGetLastErrorString(char *text, size_t bytes)
{
    snprintf(text, bytes, "the stand-in was asked to fail");
}

static cudnnBackendDescriptor_t
new_descriptor(cudnnBackendDescriptorType_t type)
{
    struct descriptor *d = standin_make(STANDIN_DESCRIPTOR, sizeof *d);

    d->type = type;
    return d;
}

/* Descriptors among the values of an attribute that are none. */
static int misused_values(cudnnBackendAttributeType_t type, int64_t count,
                          const void *value)
{
    const cudnnBackendDescriptor_t *d = value;
    int misuses = 0;

    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        misuses += !standin_has(STANDIN_DESCRIPTOR, d[i]);
    return misuses;
}

static void get_attribute(const struct descriptor *d,
                          cudnnBackendAttributeName_t name, int64_t room,
                          int64_t *count, void *out)
{
    cudnnBackendDescriptor_t *const made = out;

    *count = 0;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *count = 2;
        for (int i = 0; i < 2 && i < room; i++)
            ((struct descriptor *)made[i])->engine = 3 + i;
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        *count = 1;
        ((struct descriptor *)made[0])->engine = d->engine;
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        *count = 1;
        *(int64_t *)out = d->engine;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *count = 1;
        *(int64_t *)out = 1024;
    }
}

/* clang-format off */
CUDNN(cudnnCreate, (cudnnHandle_t *out), NOTHING, MADE(HANDLE))
CUDNN(cudnnDestroy, (cudnnHandle_t handle), DROPPED(HANDLE, handle), NOTHING)
CUDNN(cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream), NOTHING,
      NOTHING)
CUDNN(cudnnBackendCreateDescriptor,
      (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out),
      NOTHING, *out = new_descriptor(type))
CUDNN(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t d),
      DROPPED(DESCRIPTOR, d), NOTHING)
CUDNN(cudnnBackendFinalize, (cudnnBackendDescriptor_t d),
      MISUSED(DESCRIPTOR, d), NOTHING)
CUDNN(cudnnBackendSetAttribute,
      (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
       cudnnBackendAttributeType_t type, int64_t count, const void *value),
      MISUSED(DESCRIPTOR, d) + misused_values(type, count, value), NOTHING)
CUDNN(cudnnBackendGetAttribute,
      (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
       cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
       void *out),
      MISUSED(DESCRIPTOR, d), get_attribute(d, name, room, count, out))
CUDNN(cudnnBackendExecute,
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
       cudnnBackendDescriptor_t pack),
      MISUSED(HANDLE, handle) + !standin_has(STANDIN_DESCRIPTOR, plan) +
          !standin_has(STANDIN_DESCRIPTOR, pack),
      work("cudnnBackendExecute"))
CUDNN(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t *out), NOTHING,
      MADE(DESCRIPTOR))
CUDNN(cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t d),
      DROPPED(DESCRIPTOR, d), NOTHING)
CUDNN(cudnnSetTensor4dDescriptorEx,
      (cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h,
       int w, int n_stride, int c_stride, int h_stride, int w_stride),
      MISUSED(DESCRIPTOR, d), NOTHING)
CUDNN(cudnnSoftmaxForward,
      (cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
       cudnnSoftmaxMode_t mode, const void *alpha,
       const cudnnTensorDescriptor_t from, const void *x, const void *beta,
       const cudnnTensorDescriptor_t to, void *y),
      MISUSED(HANDLE, handle) + !standin_has(STANDIN_DESCRIPTOR, from),
      work("cudnnSoftmaxForward"))
/* clang-format on */

/* Of kbench's baselines alone: the runtime calls none of them. */
static void unused(void)
{
}

#define UNUSED(name) {#name, unused},

static const struct function cudnn_functions[] = {
    /* clang-format off */
    FUNCTION(cudnnGetVersion)
    FUNCTION(cudnnGetErrorString)
    FUNCTION(cudnnGetLastErrorString)
    FUNCTION(cudnnCreate)
    FUNCTION(cudnnDestroy)
    FUNCTION(cudnnSetStream)
    FUNCTION(cudnnBackendCreateDescriptor)
    FUNCTION(cudnnBackendDestroyDescriptor)
    FUNCTION(cudnnBackendFinalize)
    FUNCTION(cudnnBackendSetAttribute)
    FUNCTION(cudnnBackendGetAttribute)
    FUNCTION(cudnnBackendExecute)
    FUNCTION(cudnnCreateTensorDescriptor)
    FUNCTION(cudnnDestroyTensorDescriptor)
    FUNCTION(cudnnSetTensor4dDescriptorEx)
    FUNCTION(cudnnSoftmaxForward)
    UNUSED(cudnnCreateFilterDescriptor)
    UNUSED(cudnnDestroyFilterDescriptor)
    UNUSED(cudnnSetFilter4dDescriptor)
    UNUSED(cudnnCreateConvolutionDescriptor)
    UNUSED(cudnnDestroyConvolutionDescriptor)
    UNUSED(cudnnSetConvolution2dDescriptor)
    UNUSED(cudnnSetConvolutionGroupCount)
    UNUSED(cudnnSetConvolutionMathType)
    UNUSED(cudnnGetConvolutionForwardWorkspaceSize)
    UNUSED(cudnnConvolutionForward)
    UNUSED(cudnnGetConvolutionBackwardDataWorkspaceSize)
    UNUSED(cudnnConvolutionBackwardData)
    UNUSED(cudnnGetConvolutionBackwardFilterWorkspaceSize)
    UNUSED(cudnnConvolutionBackwardFilter)
    /* clang-format on */
    {NULL, NULL}};

/* ---- cuBLASLt ------------------------------------------------------ */

#define BLAS(...)                                                              \
    CALL(cublasStatus_t, CUBLAS_STATUS_SUCCESS, blas_code(), __VA_ARGS__)

static cublasStatus_t blas_code(void)
{
    return standin.fault == STANDIN_MEMORY_OUT ? CUBLAS_STATUS_ALLOC_FAILED
                                               : CUBLAS_STATUS_INTERNAL_ERROR;
}

static size_t stand_cublasLtGetVersion(void)
{
    return 130000;
}

static const char *stand_cublasLtGetStatusString(cublasStatus_t status)
{
    return "the stand-in was asked to fail";
}

/* clang-format off */
BLAS(cublasLtCreate, (cublasLtHandle_t *out), NOTHING, MADE(HANDLE))
BLAS(cublasLtMatmulDescCreate,
     (cublasLtMatmulDesc_t *out, cublasComputeType_t type,
      cudaDataType_t scale),
     NOTHING, MADE(DESCRIPTOR))
BLAS(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t d),
     DROPPED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatmulDescSetAttribute,
     (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
      const void *value, size_t bytes),
     MISUSED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatrixLayoutCreate,
     (cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
      uint64_t columns, int64_t ld),
     NOTHING, MADE(DESCRIPTOR))
BLAS(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t d),
     DROPPED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatrixLayoutSetAttribute,
     (cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t name,
      const void *value, size_t bytes),
     MISUSED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *out),
     NOTHING, MADE(DESCRIPTOR))
BLAS(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t d),
     DROPPED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatmulPreferenceSetAttribute,
     (cublasLtMatmulPreference_t d,
      cublasLtMatmulPreferenceAttributes_t name, const void *value,
      size_t bytes),
     MISUSED(DESCRIPTOR, d), NOTHING)
BLAS(cublasLtMatmulAlgoGetHeuristic,
     (cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
      cublasLtMatmulPreference_t preference, int room,
      cublasLtMatmulHeuristicResult_t *out, int *found),
     MISUSED(HANDLE, handle) + !standin_has(STANDIN_DESCRIPTOR, op) +
         !standin_has(STANDIN_DESCRIPTOR, preference),
     *found = room < 2 ? room : 2,
     memset(out, 0, (size_t)*found * sizeof *out))
BLAS(cublasLtMatmulAlgoConfigGetAttribute,
     (const cublasLtMatmulAlgo_t *algo,
      cublasLtMatmulAlgoConfigAttributes_t name, void *value, size_t bytes,
      size_t *written),
     NOTHING, memset(value, 0, bytes), *written = bytes)
BLAS(cublasLtMatmul,
     (cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void *alpha,
      const void *a, cublasLtMatrixLayout_t la, const void *b,
      cublasLtMatrixLayout_t lb, const void *beta, const void *c,
      cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
      const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
      cudaStream_t stream),
     MISUSED(HANDLE, handle) + !standin_has(STANDIN_DESCRIPTOR, op),
     work("cublasLtMatmul"))
/* clang-format on */

static const struct function blas_functions[] = {
    /* clang-format off */
    FUNCTION(cublasLtGetVersion)
    FUNCTION(cublasLtGetStatusString)
    FUNCTION(cublasLtCreate)
    FUNCTION(cublasLtMatmul)
    FUNCTION(cublasLtMatmulDescCreate)
    FUNCTION(cublasLtMatmulDescDestroy)
    FUNCTION(cublasLtMatmulDescSetAttribute)
    FUNCTION(cublasLtMatrixLayoutCreate)
    FUNCTION(cublasLtMatrixLayoutDestroy)
    FUNCTION(cublasLtMatrixLayoutSetAttribute)
    FUNCTION(cublasLtMatmulPreferenceCreate)
    FUNCTION(cublasLtMatmulPreferenceDestroy)
    FUNCTION(cublasLtMatmulPreferenceSetAttribute)
    FUNCTION(cublasLtMatmulAlgoGetHeuristic)
    FUNCTION(cublasLtMatmulAlgoConfigGetAttribute)
    /* clang-format on */
    {NULL, NULL}};

#endif

#ifdef HAVE_NCCL

/* ---- NCCL ---------------------------------------------------------- */

#define NCCL(...) CALL(ncclResult_t, ncclSuccess, ncclSystemError, __VA_ARGS__)

static const char *stand_ncclGetErrorString(ncclResult_t code)
{
    return "the stand-in was asked to fail";
}

/* clang-format off */
NCCL(ncclGetUniqueId, (ncclUniqueId *out), NOTHING,
     memset(out, 0, sizeof *out))
NCCL(ncclCommInitRank, (ncclComm_t *out, int size, ncclUniqueId id, int rank),
     NOTHING, MADE(COMMUNICATOR))
NCCL(ncclCommDestroy, (ncclComm_t c), DROPPED(COMMUNICATOR, c), NOTHING)
NCCL(ncclAllReduce,
     (const void *from, void *to, size_t count, ncclDataType_t type,
      ncclRedOp_t op, ncclComm_t c, cudaStream_t stream),
     MISUSED(COMMUNICATOR, c) + !standin_has(STANDIN_STREAM, stream),
     standin_work(&count, sizeof count))
NCCL(ncclBroadcast,
     (const void *from, void *to, size_t count, ncclDataType_t type, int root,
      ncclComm_t c, cudaStream_t stream),
     MISUSED(COMMUNICATOR, c) + !standin_has(STANDIN_STREAM, stream),
     standin_work(&count, sizeof count))
/* clang-format on */

static const struct function nccl_functions[] = {
    /* clang-format off */
    FUNCTION(ncclGetErrorString)
    FUNCTION(ncclGetUniqueId)
    FUNCTION(ncclCommInitRank)
    FUNCTION(ncclCommDestroy)
    FUNCTION(ncclAllReduce)
    FUNCTION(ncclBroadcast)
    /* clang-format on */
    {NULL, NULL}};

#endif

/* ---- loading ------------------------------------------------------- */

static const struct library {
    const char *name;
    const struct function *functions;
} libraries[] = {
#ifdef HAVE_CUDNN
    {"libcudnn.so", cudnn_functions},
    {"libcublasLt.so", blas_functions},
#endif
#ifdef HAVE_NCCL
    {"libnccl.so", nccl_functions},
#endif
    {NULL, NULL}};

void *__wrap_dlopen(const char *name, int flags)
{
    for (const struct library *l = libraries; name && l->name; l++)
        if (strncmp(name, l->name, strlen(l->name)) == 0)
            return (void *)(uintptr_t)l;
    return __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *library, const char *name)
{
    for (const struct library *l = libraries; l->name; l++) {
        if (library != l)
            continue;
        for (const struct function *f = l->functions; f->name; f++) {
            void *address;

            if (strcmp(f->name, name) != 0)
                continue;
            memcpy(&address, &f->address, sizeof address);
            return address;
        }
        return NULL;
    }
    return __real_dlsym(library, name);
}
