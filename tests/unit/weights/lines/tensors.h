/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of bare tensors makes of a file, as text. */
#ifndef TESTS_UNIT_WEIGHTS_LINES_TENSORS_H
#define TESTS_UNIT_WEIGHTS_LINES_TENSORS_H

#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/lines/tokens.h"

/* "a F32 2,3; b I64": names, types and shapes. */
static inline void tensors_of(const struct weights_dict *d, char *said,
                              size_t room)
{
    size_t n = 0;

    said[0] = '\0';
    for (size_t i = 0; i < d->count && n < room; i++) {
        const struct constant *c = d->entry[i].value;

        n += (size_t)snprintf(said + n, room - n, "%s%s %s", i ? "; " : "",
                              d->entry[i].name, infer_dtype_name(c->dtype));
        for (int k = 0; k < c->rank && n < room; k++)
            n += (size_t)snprintf(said + n, room - n, "%s%lld", k ? "," : " ",
                                  (long long)c->dim[k]);
    }
}

/* The tensors, or the refusal. */
static inline int read_tensors(const struct weights_format *format,
                               const void *data, size_t bytes, char *said,
                               size_t room)
{
    struct weights_import import;
    struct infer_error err;
    const int rc = help_read(format, data, bytes, &err, &import);

    if (rc == 0)
        tensors_of(&import.dict, said, room);
    else
        snprintf(said, room, "%s", err.text);
    weights_import_clear(&import);
    return rc;
}

#endif
