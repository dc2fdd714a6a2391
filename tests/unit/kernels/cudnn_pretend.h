/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN planning for an H200 that is only described, behind cmocka.h. */
#ifndef TESTS_UNIT_KERNELS_CUDNN_PRETEND_H
#define TESTS_UNIT_KERNELS_CUDNN_PRETEND_H

#include <string.h>

#include "kernels/cudnn/cudnn_api.h"
#include "kernels/cudnn/solve.h"

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

/* The set-up of a group of tests. */
static int cudnn_set_up(void **state)
{
    struct infer_error why = {0};

    (void)state;
    if (kern_cudnn_open(&why) < 0) {
        assert_non_null(strstr(why.text, "cuDNN"));
        print_message("skipped: %s\n", why.text);
        return 0;
    }
    if (cudnn_pretend(h200, &why) < 0)
        fail_msg("%s", why.text);
    return 0;
}

/* cmocka has no skipping of a whole group from its setup. */
#define SKIP_WITHOUT_CUDNN()                                                   \
    do {                                                                       \
        if (!kern_cudnn_version(NULL))                                         \
            skip();                                                            \
    } while (0)

#endif
