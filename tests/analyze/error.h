/* SPDX-License-Identifier: Apache-2.0 */
/* Included before every file that an analyser reads: error_set() is its code,
 * which analysers cannot see behind a variadic function, and then take failures
 * for successes. */
#include "kernels/base/error.h"

#ifdef __cplusplus
#error "for C alone"
#endif
#define error_set(err, code, ...)                                              \
    ((void)error_set((err), (code), __VA_ARGS__), (code))
