/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN planning for an H200 that is only described, behind cmocka.h. */
#ifndef TESTS_UNIT_KERNELS_CUDNN_PRETEND_H
#define TESTS_UNIT_KERNELS_CUDNN_PRETEND_H

#include <string.h>

#include "kernels/cudnn/library.h"
#include "kernels/test_hooks.h"
#include "tests/engine_order.h"
#include "tests/unit/test.h"

struct kern_test_hooks kern_test_hooks = {.order_engines = order_engines};

/* An H200, as cuDNN describes it. */
static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":6,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150109880320,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,"
    "\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\"}";

/* From now on plans are made for the H200. */
static int describe_h200(const struct cudnn_library *lib,
                         struct infer_error *err)
{
#if CUDNN_VERSION >= 90800
    cudnnBackendDescriptor_t d = NULL;
    int rc;

    rc = CUDNN_CALL(
        err, lib,
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib,
                        cudnnBackendSetAttribute(
                            d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                            CUDNN_TYPE_CHAR, (int64_t)sizeof h200, h200));
    if (rc == 0)
        rc = CUDNN_CALL(err, lib, cudnnBackendFinalize(d));
    kern_test_hooks.cudnn_device = d;
    return rc;
#else
    (void)lib;
    return error_set(err, INFER_EUNSUPPORTED,
                     "cuDNN: describing devices needs the headers of 9.8");
#endif
}

/* The set-up of a group of tests. */
static int cudnn_set_up(void **state)
{
    struct infer_error why = {0};
    const struct cudnn_library *lib = cudnn_library(&why);

    (void)state;
    if (!lib) {
        assert_non_null(strstr(why.text, "cuDNN"));
        print_message("skipped: %s\n", why.text);
        return 0;
    }
    if (describe_h200(lib, &why) < 0)
        fail_msg("%s", why.text);
    return 0;
}

/* cmocka has no skipping of a whole group from its setup. */
#define SKIP_WITHOUT_CUDNN()                                                   \
    do {                                                                       \
        if (!cudnn_library(NULL))                                              \
            skip();                                                            \
    } while (0)

#endif
