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

#ifdef HAVE_CUDNN

/* ---- cuDNN --------------------------------------------------------- */

static cudnnStatus_t cudnn_code(void)
{
    return standin.fault == STANDIN_MEMORY_OUT ? CUDNN_STATUS_ALLOC_FAILED
                                               : CUDNN_STATUS_INTERNAL_ERROR;
}

#define CUDNN_MAY_FAIL()                                                       \
    do {                                                                       \
        if (standin_fails(__func__))                                           \
            return cudnn_code();                                               \
    } while (0)

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

static cudnnStatus_t stand_cudnnCreate(cudnnHandle_t *out)
{
    CUDNN_MAY_FAIL();
    *out = standin_make(STANDIN_HANDLE, 1);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnDestroy(cudnnHandle_t handle)
{
    standin_drop(STANDIN_HANDLE, handle);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnSetStream(cudnnHandle_t handle,
                                          cudaStream_t stream)
{
    (void)handle;
    (void)stream;
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
stand_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                   cudnnBackendDescriptor_t *out)
{
    struct descriptor *d;

    CUDNN_MAY_FAIL();
    d = standin_make(STANDIN_DESCRIPTOR, sizeof *d);
    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
stand_cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    standin_drop(STANDIN_DESCRIPTOR, d);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    (void)name;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        standin.misuses += !standin_has(
            STANDIN_DESCRIPTOR, ((const cudnnBackendDescriptor_t *)value)[i]);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnBackendGetAttribute(
    cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *out)
{
    const struct descriptor *d = of;
    cudnnBackendDescriptor_t *const made = out;

    (void)type;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    CUDNN_MAY_FAIL();
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
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnBackendExecute(cudnnHandle_t handle,
                                               cudnnBackendDescriptor_t plan,
                                               cudnnBackendDescriptor_t pack)
{
    static const char name[] = "cudnnBackendExecute";

    standin.misuses += !standin_has(STANDIN_HANDLE, handle) +
                       !standin_has(STANDIN_DESCRIPTOR, plan) +
                       !standin_has(STANDIN_DESCRIPTOR, pack);
    CUDNN_MAY_FAIL();
    standin_work(name, sizeof name);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
stand_cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out)
{
    CUDNN_MAY_FAIL();
    *out = standin_make(STANDIN_DESCRIPTOR, 1);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t
stand_cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d)
{
    standin_drop(STANDIN_DESCRIPTOR, d);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnSetTensor4dDescriptorEx(
    cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h, int w,
    int n_stride, int c_stride, int h_stride, int w_stride)
{
    (void)type, (void)n, (void)c, (void)h, (void)w;
    (void)n_stride, (void)c_stride, (void)h_stride, (void)w_stride;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    CUDNN_MAY_FAIL();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t stand_cudnnSoftmaxForward(
    cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode,
    const void *alpha, const cudnnTensorDescriptor_t from, const void *x,
    const void *beta, const cudnnTensorDescriptor_t to, void *y)
{
    static const char name[] = "cudnnSoftmaxForward";

    (void)algo, (void)mode, (void)alpha, (void)x, (void)beta, (void)to, (void)y;
    standin.misuses += !standin_has(STANDIN_HANDLE, handle) +
                       !standin_has(STANDIN_DESCRIPTOR, from);
    CUDNN_MAY_FAIL();
    standin_work(name, sizeof name);
    return CUDNN_STATUS_SUCCESS;
}

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

#define BLAS_MAY_FAIL()                                                        \
    do {                                                                       \
        if (standin_fails(__func__))                                           \
            return standin.fault == STANDIN_MEMORY_OUT                         \
                       ? CUBLAS_STATUS_ALLOC_FAILED                            \
                       : CUBLAS_STATUS_INTERNAL_ERROR;                         \
    } while (0)

static size_t stand_cublasLtGetVersion(void)
{
    return 130000;
}

static const char *stand_cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "the stand-in was asked to fail";
}

static cublasStatus_t stand_cublasLtCreate(cublasLtHandle_t *out)
{
    BLAS_MAY_FAIL();
    *out = standin_make(STANDIN_HANDLE, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                                     cublasComputeType_t type,
                                                     cudaDataType_t scale)
{
    (void)type;
    (void)scale;
    BLAS_MAY_FAIL();
    *out = standin_make(STANDIN_DESCRIPTOR, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    standin_drop(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                     cublasLtMatmulDescAttributes_t name,
                                     const void *value, size_t bytes)
{
    (void)name, (void)value, (void)bytes;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                 uint64_t rows, uint64_t columns, int64_t ld)
{
    (void)type, (void)rows, (void)columns, (void)ld;
    BLAS_MAY_FAIL();
    *out = standin_make(STANDIN_DESCRIPTOR, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d)
{
    standin_drop(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t d,
                                       cublasLtMatrixLayoutAttribute_t name,
                                       const void *value, size_t bytes)
{
    (void)name, (void)value, (void)bytes;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    BLAS_MAY_FAIL();
    *out = standin_make(STANDIN_DESCRIPTOR, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
stand_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d)
{
    standin_drop(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t d, cublasLtMatmulPreferenceAttributes_t name,
    const void *value, size_t bytes)
{
    (void)name, (void)value, (void)bytes;
    standin.misuses += !standin_has(STANDIN_DESCRIPTOR, d);
    BLAS_MAY_FAIL();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int room,
    cublasLtMatmulHeuristicResult_t *out, int *found)
{
    (void)a, (void)b, (void)c, (void)d;
    standin.misuses += !standin_has(STANDIN_HANDLE, handle) +
                       !standin_has(STANDIN_DESCRIPTOR, op) +
                       !standin_has(STANDIN_DESCRIPTOR, preference);
    BLAS_MAY_FAIL();
    *found = room < 2 ? room : 2;
    memset(out, 0, (size_t)*found * sizeof *out);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t name,
    void *value, size_t bytes, size_t *written)
{
    (void)algo;
    (void)name;
    BLAS_MAY_FAIL();
    memset(value, 0, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t stand_cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void *alpha,
    const void *a, cublasLtMatrixLayout_t la, const void *b,
    cublasLtMatrixLayout_t lb, const void *beta, const void *c,
    cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
    const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
    cudaStream_t stream)
{
    static const char name[] = "cublasLtMatmul";

    (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c;
    (void)lc, (void)d, (void)ld, (void)algo, (void)workspace, (void)bytes;
    (void)stream;
    standin.misuses += !standin_has(STANDIN_HANDLE, handle) +
                       !standin_has(STANDIN_DESCRIPTOR, op);
    BLAS_MAY_FAIL();
    standin_work(name, sizeof name);
    return CUBLAS_STATUS_SUCCESS;
}

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

#define NCCL_MAY_FAIL()                                                        \
    do {                                                                       \
        if (standin_fails(__func__))                                           \
            return ncclSystemError;                                            \
    } while (0)

static const char *stand_ncclGetErrorString(ncclResult_t code)
{
    (void)code;
    return "the stand-in was asked to fail";
}

static ncclResult_t stand_ncclGetUniqueId(ncclUniqueId *out)
{
    NCCL_MAY_FAIL();
    memset(out, 0, sizeof *out);
    return ncclSuccess;
}

static ncclResult_t stand_ncclCommInitRank(ncclComm_t *out, int size,
                                           ncclUniqueId id, int rank)
{
    (void)size, (void)id, (void)rank;
    NCCL_MAY_FAIL();
    *out = standin_make(STANDIN_COMMUNICATOR, 1);
    return ncclSuccess;
}

static ncclResult_t stand_ncclCommDestroy(ncclComm_t c)
{
    standin_drop(STANDIN_COMMUNICATOR, c);
    NCCL_MAY_FAIL();
    return ncclSuccess;
}

static ncclResult_t stand_ncclAllReduce(const void *from, void *to,
                                        size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t c,
                                        cudaStream_t stream)
{
    (void)from, (void)to, (void)type, (void)op;
    standin.misuses += !standin_has(STANDIN_COMMUNICATOR, c) +
                       !standin_has(STANDIN_STREAM, stream);
    NCCL_MAY_FAIL();
    standin_work(&count, sizeof count);
    return ncclSuccess;
}

static ncclResult_t stand_ncclBroadcast(const void *from, void *to,
                                        size_t count, ncclDataType_t type,
                                        int root, ncclComm_t c,
                                        cudaStream_t stream)
{
    (void)from, (void)to, (void)type, (void)root;
    standin.misuses += !standin_has(STANDIN_COMMUNICATOR, c) +
                       !standin_has(STANDIN_STREAM, stream);
    NCCL_MAY_FAIL();
    standin_work(&count, sizeof count);
    return ncclSuccess;
}

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
