/* SPDX-License-Identifier: Apache-2.0 */
/* Names of status codes; names and sizes of data types. */
#include "kernels/base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[INFER_DTYPE_COUNT] = {
    [INFER_NONE] = {"none", 0},      [INFER_F64] = {"F64", 8},
    [INFER_F32] = {"F32", 4},        [INFER_F16] = {"F16", 2},
    [INFER_BF16] = {"BF16", 2},      [INFER_I64] = {"I64", 8},
    [INFER_I32] = {"I32", 4},        [INFER_I16] = {"I16", 2},
    [INFER_I8] = {"I8", 1},          [INFER_U64] = {"U64", 8},
    [INFER_U32] = {"U32", 4},        [INFER_U16] = {"U16", 2},
    [INFER_U8] = {"U8", 1},          [INFER_BOOL] = {"BOOL", 1},
    [INFER_F8E4M3] = {"F8_E4M3", 1},
};

const char *infer_status_name(int code)
{
    switch (code) {
    case INFER_OK:
        return "ok";
    case INFER_EARGUMENT:
        return "argument";
    case INFER_EUNSUPPORTED:
        return "unsupported";
    case INFER_EFORMAT:
        return "format";
    case INFER_EIO:
        return "input/output";
    case INFER_EMEMORY:
        return "memory";
    case INFER_EDEVICE:
        return "device";
    case INFER_EMISMATCH:
        return "mismatch";
    default:
        return "unknown";
    }
}

/* Callers may hand over any integer as an enum. */
static int known(enum infer_dtype dtype)
{
    return (int)dtype > INFER_NONE && (int)dtype < INFER_DTYPE_COUNT;
}

const char *infer_dtype_name(enum infer_dtype dtype)
{
    return dtypes[known(dtype) ? dtype : INFER_NONE].name;
}

size_t infer_dtype_size(enum infer_dtype dtype)
{
    return dtypes[known(dtype) ? dtype : INFER_NONE].bytes;
}

enum infer_dtype dtype_find(const char *name)
{
    int i;

    for (i = INFER_NONE + 1; i < INFER_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return (enum infer_dtype)i;
    return INFER_NONE;
}
