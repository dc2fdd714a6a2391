/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of options that begin with their size (include/infer.h), from callers
 * that were built with an older or a newer release. */
#ifndef LIBINFER_OPTIONS_H
#define LIBINFER_OPTIONS_H

#include <string.h>

#include "kernels/base/error.h"

/* Fills a struct of `size` bytes at options from the known bytes of the
 * defaults, and sets its size; not where that has no room. */
static inline void options_init(void *options, size_t size,
                                const void *defaults, size_t known)
{
    if (size < sizeof size)
        return;
    memset(options, 0, size);
    memcpy(options, defaults, size < known ? size : known);
    memcpy(options, &size, sizeof size);
}

/* Copies what `given`, not NULL, covers over the defaults in *out, a struct of
 * the known bytes.  EARGUMENT: its size is none; init: who sets it.
 * EUNSUPPORTED: a byte that is not known here is not 0. */
static inline int options_copy(const void *given, const char *init,
                               size_t known, struct infer_error *err, void *out)
{
    const unsigned char *byte = given;
    size_t size;

    memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return error_set(err, INFER_EARGUMENT,
                         "options: size %zu; %s() sets it", size, init);
    for (size_t i = known; i < size; i++)
        if (byte[i] != 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "options: byte %zu is set, and version %s has "
                             "%zu bytes of options",
                             i, infer_version(), known);
    memcpy(out, given, size < known ? size : known);
    return 0;
}

#endif
