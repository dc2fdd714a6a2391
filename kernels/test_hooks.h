/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests change about the kernels.
 *
 * The library refers to the table by a weak symbol and does not define it: in
 * libinfer and in the tools its address is NULL, and they contain nothing but
 * the comparison.  A test program that needs a hook defines
 *     struct kern_test_hooks kern_test_hooks;
 * and sets members before it uses any row.  A member that is 0 changes nothing.
 */
#ifndef KERNELS_TEST_HOOKS_H
#define KERNELS_TEST_HOOKS_H

#include <stddef.h>

struct kern_test_hooks {
    /* The CPU rows run as on a machine whose widest vectors are these.  Clones
     * that the loader chooses follow the machine all the same: they are one
     * source compiled several times. */
    enum {
        TEST_ISA_ALL,
        TEST_ISA_SSE41,
        TEST_ISA_AVX2,
        TEST_ISA_AVX512 /* without tiles (AMX) */
    } isa;
    /* Reorders the engines of cuDNN or algorithms of cuBLASLt for a problem
     * that the calling thread asks about for the first time: `count` elements
     * of `size` bytes, the one to be tried first in front. */
    void (*order_engines)(void *engine, size_t size, int count);
    /* A finalized cudnnBackendDescriptor_t of a device: plans are made for this
     * device and not for the one of the machine. */
    void *cudnn_device;
};

#if defined(__GNUC__)
extern struct kern_test_hooks kern_test_hooks
    __attribute__((weak, visibility("hidden")));
#define KERN_TEST_HOOK(member) (&kern_test_hooks ? kern_test_hooks.member : 0)
#else
#define KERN_TEST_HOOK(member) 0
#endif

#endif
