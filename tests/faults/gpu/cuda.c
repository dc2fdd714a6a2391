/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime of standin.h: every function that the project calls, and
 * what nvcc's objects register.  A function that is missing here would come
 * from the real runtime, and linking fails with duplicate definitions. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/gpu/standin.h"

#define MAX_KERNELS  65536
#define MAX_RECORDED 4096

/* ---- errors -------------------------------------------------------- */

static cudaError_t last;

static cudaError_t fail(void)
{
    last = standin.fault == STANDIN_MEMORY_OUT ? cudaErrorMemoryAllocation
           : standin.fault == STANDIN_STICKY   ? cudaErrorIllegalAddress
                                               : cudaErrorUnknown;
    return last;
}

#define MAY_FAIL()                                                             \
    do {                                                                       \
        if (standin_fails(__func__))                                           \
            return fail();                                                     \
    } while (0)

/* A launch that fails may also be told of by this one. */
cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;

    if (standin_fails(__func__))
        code = fail();
    if (code != cudaErrorIllegalAddress)
        last = cudaSuccess;
    return code;
}

const char *cudaGetErrorName(cudaError_t code)
{
    return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : code == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress"
                                             : "cudaErrorUnknown";
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorMemoryAllocation ? "out of memory"
                                             : "the stand-in was asked to fail";
}

/* ---- devices ------------------------------------------------------- */

static int current;

cudaError_t cudaDriverGetVersion(int *version)
{
    MAY_FAIL();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    MAY_FAIL();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    MAY_FAIL();
    *count = standin.devices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    MAY_FAIL();
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    MAY_FAIL();
    current = device;
    return cudaSuccess;
}

/* An H200. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr name,
                                   int device)
{
    (void)device;
    MAY_FAIL();
    switch ((int)name) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 132;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 232448;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 50 << 20;
        break;
    default:
        *value = 1;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void)device;
    MAY_FAIL();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "stand-in");
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                  const void *kernel)
{
    (void)kernel;
    MAY_FAIL();
    memset(attributes, 0, sizeof *attributes);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute name, int value)
{
    (void)kernel;
    (void)name;
    (void)value;
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    MAY_FAIL();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* ---- memory -------------------------------------------------------- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    MAY_FAIL();
    *out = standin_make(STANDIN_MEMORY, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (memory)
        standin_drop(STANDIN_MEMORY, memory);
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    MAY_FAIL();
    *out = standin_make(STANDIN_PINNED, bytes);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (memory)
        standin_drop(STANDIN_PINNED, memory);
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    MAY_FAIL();
    *available = (size_t)1 << 30;
    *total = (size_t)1 << 37;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
                                     const void *memory)
{
    MAY_FAIL();
    memset(out, 0, sizeof *out);
    out->device = current;
    out->type = standin_has(STANDIN_MEMORY, memory)
                    ? cudaMemoryTypeDevice
                    : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

/* ---- work ---------------------------------------------------------- */

struct recording {
    uint64_t work[MAX_RECORDED];
    int n;
};

static struct recording *recording; /* of the one capture that is open */
static cudaStream_t captured;

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

void standin_work(const void *what, size_t bytes)
{
    const uint64_t work = mix(0xcbf29ce484222325u, what, bytes);

    if (!recording)
        standin.trace = mix(standin.trace, &work, sizeof work);
    else if (recording->n < MAX_RECORDED)
        recording->work[recording->n++] = work;
    else
        abort();
}

static void copy(void *dst, const void *src, size_t bytes,
                 enum cudaMemcpyKind kind)
{
    unsigned char *to = dst;
    uint64_t h = standin.trace;

    if (kind == cudaMemcpyHostToDevice)
        standin_work(src, bytes);
    else if (kind != cudaMemcpyDeviceToHost)
        standin_work(&bytes, sizeof bytes);
    if (kind == cudaMemcpyDeviceToHost && !recording)
        for (size_t i = 0; i < bytes; i++) {
            /* Small numbers as floats: the upper byte is 0x3f. */
            to[i] = i % 4 == 3 ? 0x3f : (unsigned char)(h >> i % 8 * 7);
            h = h * 0x9e3779b97f4a7c15u + 1;
        }
    else if (kind != cudaMemcpyDeviceToHost)
        memcpy(dst, src, bytes);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes,
                       enum cudaMemcpyKind kind)
{
    MAY_FAIL();
    copy(dst, src, bytes, kind);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    MAY_FAIL();
    if (kind == cudaMemcpyDefault)
        standin_order_copy(stream, dst, src, bytes);
    else
        standin_order_work(stream);
    copy(dst, src, bytes, kind);
    return cudaSuccess;
}

static struct kernel {
    const void *host;
    const char *name;
} kernels[MAX_KERNELS];
static int n_kernels;

static cudaError_t launch(const void *kernel, dim3 grid, dim3 block)
{
    const dim3 size[2] = {grid, block};
    const char *name = NULL;

    for (int i = 0; i < n_kernels && !name; i++)
        if (kernels[i].host == kernel)
            name = kernels[i].name;
    if (!name)
        return last = cudaErrorInvalidDeviceFunction;
    if (!strstr(name, "fence_kernel")) {
        standin_work(name, strlen(name));
        standin_work(size, sizeof size);
    }
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *kernel, void **args)
{
    (void)args;
    MAY_FAIL();
    standin_order_work(config->stream);
    return launch(kernel, config->gridDim, config->blockDim);
}

/* ---- streams and events -------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    MAY_FAIL();
    *out = standin_make(STANDIN_STREAM, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags,
                                         int priority)
{
    (void)flags;
    (void)priority;
    MAY_FAIL();
    *out = standin_make(STANDIN_STREAM, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    standin_drop(STANDIN_STREAM, stream);
    MAY_FAIL();
    return cudaSuccess;
}

static void check(enum standin_kind kind, const void *object)
{
    standin.misuses += !standin_has(kind, object);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    check(STANDIN_STREAM, stream);
    MAY_FAIL();
    if (recording && stream == captured)
        return last = cudaErrorStreamCaptureUnsupported;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    (void)flags;
    check(STANDIN_STREAM, stream);
    check(STANDIN_EVENT, event);
    MAY_FAIL();
    standin_order_wait(stream, event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    MAY_FAIL();
    *out = standin_make(STANDIN_EVENT, 1);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    MAY_FAIL();
    *out = standin_make(STANDIN_EVENT, 1);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    standin_drop(STANDIN_EVENT, event);
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    check(STANDIN_STREAM, stream);
    check(STANDIN_EVENT, event);
    MAY_FAIL();
    standin_order_record(event, stream);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    check(STANDIN_EVENT, from);
    check(STANDIN_EVENT, to);
    MAY_FAIL();
    *ms = 0.25f;
    return cudaSuccess;
}

/* ---- graphs -------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    (void)mode;
    check(STANDIN_STREAM, stream);
    MAY_FAIL();
    if (recording)
        return last = cudaErrorIllegalState;
    recording = standin_make(STANDIN_GRAPH, sizeof *recording);
    captured = stream;
    standin_order_begin(stream);
    return cudaSuccess;
}

/* A failure ends the capture as well. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    struct recording *ended = recording;

    check(STANDIN_STREAM, stream);
    *out = NULL;
    if (!ended || stream != captured)
        return last = cudaErrorIllegalState;
    recording = NULL;
    if (standin_fails(__func__)) {
        standin_drop(STANDIN_GRAPH, ended);
        return fail();
    }
    if (!standin_order_joined(stream)) {
        standin_drop(STANDIN_GRAPH, ended);
        return last = cudaErrorStreamCaptureUnjoined;
    }
    *out = (cudaGraph_t)(void *)ended;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags)
{
    struct recording *exec;

    (void)flags;
    check(STANDIN_GRAPH, graph);
    MAY_FAIL();
    exec = standin_make(STANDIN_GRAPH, sizeof *exec);
    memcpy(exec, graph, sizeof *exec);
    *out = (cudaGraphExec_t)(void *)exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    standin_drop(STANDIN_GRAPH, graph);
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    standin_drop(STANDIN_GRAPH, exec);
    MAY_FAIL();
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    const struct recording *r = (const struct recording *)(const void *)exec;

    check(STANDIN_GRAPH, exec);
    check(STANDIN_STREAM, stream);
    MAY_FAIL();
    for (int i = 0; i < r->n; i++)
        standin.trace = mix(standin.trace, &r->work[i], sizeof r->work[i]);
    return cudaSuccess;
}

/* ---- the driver ---------------------------------------------------- */

static CUresult encode_tiled(CUtensorMap *map, CUtensorMapDataType type,
                             cuuint32_t rank, void *base,
                             const cuuint64_t *size, const cuuint64_t *stride,
                             const cuuint32_t *box, const cuuint32_t *step,
                             CUtensorMapInterleave i, CUtensorMapSwizzle s,
                             CUtensorMapL2promotion p,
                             CUtensorMapFloatOOBfill f)
{
    (void)type, (void)rank, (void)base, (void)size, (void)stride;
    (void)box, (void)step, (void)i, (void)s, (void)p, (void)f;
    if (standin_fails("cuTensorMapEncodeTiled"))
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}

static CUresult encode_im2col(CUtensorMap *map, CUtensorMapDataType type,
                              cuuint32_t rank, void *base,
                              const cuuint64_t *size, const cuuint64_t *stride,
                              const int *lower, const int *upper,
                              cuuint32_t channels, cuuint32_t pixels,
                              const cuuint32_t *step, CUtensorMapInterleave i,
                              CUtensorMapSwizzle s, CUtensorMapL2promotion p,
                              CUtensorMapFloatOOBfill f)
{
    (void)type, (void)rank, (void)base, (void)size, (void)stride, (void)lower;
    (void)upper, (void)channels, (void)pixels, (void)step;
    (void)i, (void)s, (void)p, (void)f;
    if (standin_fails("cuTensorMapEncodeIm2col"))
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *found)
{
    __typeof__(encode_tiled) *const tiled = encode_tiled;
    __typeof__(encode_im2col) *const im2col = encode_im2col;

    (void)version;
    (void)flags;
    MAY_FAIL();
    *found = cudaDriverEntryPointSuccess;
    if (strcmp(name, "cuTensorMapEncodeTiled") == 0)
        memcpy(out, &tiled, sizeof *out);
    else if (strcmp(name, "cuTensorMapEncodeIm2col") == 0)
        memcpy(out, &im2col, sizeof *out);
    else
        *found = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

/* ---- what objects of nvcc register --------------------------------- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, void *a, void *b,
                            void *c, void *d, int *e);
void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int ext, size_t size, int constant,
                       int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream);
cudaError_t __cudaGetKernel(void *out, const void *entry);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, void *a, void *b,
                            void *c, void *d, int *e)
{
    (void)handle, (void)device, (void)limit;
    (void)a, (void)b, (void)c, (void)d, (void)e;
    if (n_kernels == MAX_KERNELS)
        abort();
    kernels[n_kernels++] = (struct kernel){host, name};
}

void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int ext, size_t size, int constant,
                       int global)
{
    (void)handle, (void)host, (void)device, (void)name;
    (void)ext, (void)size, (void)constant, (void)global;
}

/* Launches with <<< >>>: the configuration, then the kernel's stub. */
static struct {
    dim3 grid, block;
    void *stream;
} configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     void *stream)
{
    (void)shared;
    configuration.grid = grid;
    configuration.block = block;
    configuration.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = 0;
    *(void **)stream = configuration.stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(void *out, const void *entry)
{
    *(const void **)out = entry;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream)
{
    (void)args, (void)shared;
    MAY_FAIL();
    standin_order_work(stream);
    return launch(kernel, grid, block);
}

/* The same before CUDA 13. */
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                             void **args, size_t shared, cudaStream_t stream)
{
    (void)args, (void)shared;
    MAY_FAIL();
    standin_order_work(stream);
    return launch(kernel, grid, block);
}
