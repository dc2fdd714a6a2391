/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a session: defaults, and structs of older and newer callers. */
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/session.h"

static const struct infer_session_options defaults = {
    .size = sizeof defaults,
    .backend = INFER_BACKEND_AUTO,
    .precision = INFER_PRECISION_FP32,
    .tune = 1,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void infer_session_options_init_sized(struct infer_session_options *options,
                                      size_t size)
{
    if (size < sizeof options->size)
        return;
    memset(options, 0, size);
    memcpy(options, &defaults, smaller(size, sizeof defaults));
    options->size = size;
}

int session_options_read(const struct infer_session_options *given,
                         struct infer_error *err,
                         struct infer_session_options *out)
{
    *out = defaults;
    if (!given)
        return 0;
    if (given->size < sizeof given->size)
        return error_set(err, INFER_EARGUMENT,
                         "options: size %zu; infer_session_options_init() "
                         "sets it",
                         given->size);
    const unsigned char *byte = (const unsigned char *)given;
    for (size_t i = sizeof *out; i < given->size; i++)
        if (byte[i] != 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "options: byte %zu is set, and version %s has "
                             "%zu bytes of options",
                             i, infer_version(), sizeof *out);
    memcpy(out, given, smaller(given->size, sizeof *out));
    return 0;
}
