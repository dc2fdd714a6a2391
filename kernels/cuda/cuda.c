/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's errors in the words of this project, and its devices. */
#include "kernels/cuda/cuda_rt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors -------------------------------------------------------- */

int cuda_fail(struct infer_error *err, cudaError_t code, const char *expression,
              const char *file, int line)
{
    const int status =
        code == cudaErrorMemoryAllocation ? INFER_EMEMORY : INFER_EDEVICE;

    /* Takes an error that is not sticky off the thread, so that the next
     * launch is not blamed for it. */
    (void)cudaGetLastError();
    return error_set(err, status, "CUDA: %s: %s (%s, %s:%d)",
                     cudaGetErrorName(code), cudaGetErrorString(code),
                     expression, file, line);
}

bool cuda_is_sticky(cudaError_t code)
{
    switch ((int)code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorDevicesUnavailable:
        return true;
    default:
        return false;
    }
}

int cuda_launched(struct infer_error *err, const char *file, int line)
{
    const cudaError_t code = cudaGetLastError();

    if (code == cudaSuccess)
        return 0;
    return cuda_fail(err, code, "kernel launch", file, line);
}

/* ---- devices ------------------------------------------------------- */

/* The version "13.0" of 13000. */
static int major_of(int version)
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

int cuda_device_count(struct infer_error *err, int *out)
{
    int driver = 0, count = 0;
    const cudaError_t version = cudaDriverGetVersion(&driver);

    if (version != cudaSuccess || driver == 0)
        return error_set(err, INFER_EDEVICE,
                         "CUDA: no NVIDIA driver on this machine");
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaErrorInsufficientDriver)
        return error_set(err, INFER_EDEVICE,
                         "CUDA: the driver knows CUDA %d.%d, this build needs "
                         "%d.%d or newer",
                         major_of(driver), minor_of(driver),
                         major_of(CUDART_VERSION), minor_of(CUDART_VERSION));
    if (code == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        *out = 0;
        return 0;
    }
    if (code != cudaSuccess)
        return cuda_fail(err, code, "cudaGetDeviceCount", __FILE__, __LINE__);
    *out = count;
    return 0;
}

static int attribute(int ordinal, enum cudaDeviceAttr which,
                     struct infer_error *err, int *out)
{
    CUDA_TRY(err, cudaDeviceGetAttribute(out, which, ordinal));
    return 0;
}

static int query(int ordinal, struct infer_error *err, struct kern_device *d)
{
    int major = 0, minor = 0, shared = 0, l2 = 0;
    int rc = attribute(ordinal, cudaDevAttrComputeCapabilityMajor, err, &major);

    if (rc == 0)
        rc = attribute(ordinal, cudaDevAttrComputeCapabilityMinor, err, &minor);
    if (rc == 0)
        rc = attribute(ordinal, cudaDevAttrMultiProcessorCount, err,
                       &d->multiprocessors);
    if (rc == 0)
        rc = attribute(ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin, err,
                       &shared);
    if (rc == 0)
        rc = attribute(ordinal, cudaDevAttrL2CacheSize, err, &l2);
    d->sm = 10 * major + minor;
    d->shared_per_block_optin = (size_t)shared;
    d->l2_bytes = (size_t)l2;
    return rc;
}

/* Compute capability 9.0 and up.  Asked at every launch, so answered from
 * memory: 0 not known yet, 1 no, 2 yes. */
bool cuda_can_chain(void)
{
    static int known[64];
    int ordinal = 0, major = 0, answer;

    if (cudaGetDevice(&ordinal) != cudaSuccess || ordinal < 0 || ordinal >= 64)
        return false;
    answer = __atomic_load_n(&known[ordinal], __ATOMIC_RELAXED);
    if (answer == 0) {
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                   ordinal) != cudaSuccess)
            return false;
        answer = major >= 9 ? 2 : 1;
        __atomic_store_n(&known[ordinal], answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

/* ---- launching ----------------------------------------------------- */

/* Dynamic shared memory that every kernel may have; for more it has to ask. */
#define GRANTED (48u * 1024)

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* What a kernel may have is the process's, not the launch's: another thread
 * that asks for less before this one has launched would take it away. */
int cuda_launch(const cudaLaunchConfig_t *config, const void *kernel,
                void **args, struct infer_error *err)
{
    const size_t shared = config->dynamicSmemBytes;
    cudaError_t code = cudaSuccess;

    if (shared > GRANTED) {
        pthread_mutex_lock(&asking);
        code = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    }
    if (code == cudaSuccess)
        code = cudaLaunchKernelExC(config, kernel, args);
    if (shared > GRANTED)
        pthread_mutex_unlock(&asking);
    if (code != cudaSuccess)
        return cuda_fail(err, code, "a launch", __FILE__, __LINE__);
    return CUDA_LAUNCHED(err);
}

int cuda_device_open(int ordinal, struct infer_error *err,
                     struct kern_device *out)
{
    struct kern_device d;
    int count, rc = cuda_device_count(err, &count);

    if (rc < 0)
        return rc;
    if (count == 0)
        return error_set(err, INFER_EDEVICE,
                         "CUDA: no NVIDIA GPU on this machine");
    if (ordinal < 0 || ordinal >= count)
        return error_set(err, INFER_EDEVICE,
                         "CUDA: no device %d, there are 0 to %d", ordinal,
                         count - 1);
    memset(&d, 0, sizeof d);
    d.kind = KERN_CUDA;
    d.ordinal = ordinal;
    d.threads = 1;
    CUDA_TRY(err, cudaSetDevice(ordinal));
    rc = query(ordinal, err, &d);
    if (rc < 0)
        return rc;
    if (!cuda_has_code())
        return error_set(err, INFER_EDEVICE,
                         "CUDA: device %d has compute capability %d.%d, this "
                         "build has code for %s",
                         ordinal, d.sm / 10, d.sm % 10, CUDA_ARCH_LIST);
    *out = d;
    return 0;
}

int cuda_device_name(int ordinal, struct infer_error *err, char *name,
                     size_t bytes)
{
    struct cudaDeviceProp p;

    CUDA_TRY(err, cudaGetDeviceProperties(&p, ordinal));
    snprintf(name, bytes, "%s", p.name);
    return 0;
}

void cuda_state_release(struct kern_exec *e)
{
    free(e->state);
}
