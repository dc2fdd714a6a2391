/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a session: defaults, and structs of older and newer callers. */
#include "libinfer/options.h"
#include "libinfer/session.h"

static const struct infer_session_options defaults = {
    .size = sizeof defaults,
    .backend = INFER_BACKEND_AUTO,
    .precision = INFER_PRECISION_FP32,
    .tune = 1,
};

void infer_session_options_init_sized(struct infer_session_options *options,
                                      size_t size)
{
    options_init(options, size, &defaults, sizeof defaults);
}

int session_options_read(const struct infer_session_options *given,
                         struct infer_error *err,
                         struct infer_session_options *out)
{
    *out = defaults;
    return given ? options_copy(given, "infer_session_options_init",
                                sizeof *out, err, out)
                 : 0;
}
