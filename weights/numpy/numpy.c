/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's element types and array orders. */
#include "weights/numpy/numpy.h"

#include <string.h>

#include "weights/bytes.h"

static enum infer_dtype dtype_of(char kind, char size)
{
    static const struct {
        char kind, size;
        enum infer_dtype dtype;
    } known[] = {
        {'f', '8', INFER_F64}, {'f', '4', INFER_F32}, {'f', '2', INFER_F16},
        {'i', '8', INFER_I64}, {'i', '4', INFER_I32}, {'i', '2', INFER_I16},
        {'i', '1', INFER_I8},  {'u', '8', INFER_U64}, {'u', '4', INFER_U32},
        {'u', '2', INFER_U16}, {'u', '1', INFER_U8},  {'b', '1', INFER_BOOL},
    };
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].kind == kind && known[i].size == size)
            return known[i].dtype;
    return INFER_NONE;
}

bool numpy_dtype(const unsigned char *text, size_t bytes,
                 enum infer_dtype *dtype, bool *swapped)
{
    bool big = bytes > 0 && text[0] == '>';
    enum infer_dtype found = INFER_NONE;

    if (bytes > 0 && text[0] != 0 && strchr("<>|=", text[0])) {
        text++;
        bytes--;
    }
    if (bytes == 2)
        found = dtype_of((char)text[0], (char)text[1]);
    else if (bytes == 1 && text[0] == '?')
        found = INFER_BOOL;
    if (found == INFER_NONE)
        return false;
    *dtype = found;
    *swapped = big && infer_dtype_size(found) > 1;
    return true;
}

void numpy_settle(enum infer_dtype dtype, bool swapped, unsigned char *data,
                  size_t bytes)
{
    size_t size = infer_dtype_size(dtype), i;

    if (swapped)
        bytes_swap(data, bytes / size, size);
    if (dtype == INFER_BOOL)
        for (i = 0; i < bytes; i++)
            data[i] = data[i] != 0;
}

struct constant *numpy_from_fortran(const struct constant *c)
{
    struct constant reversed = *c;
    int order[INFER_MAX_RANK], i;

    /* The same bytes, seen in row-major order, are the transposed array. */
    for (i = 0; i < c->rank; i++) {
        reversed.dim[i] = c->dim[c->rank - 1 - i];
        order[i] = c->rank - 1 - i;
    }
    return constant_transpose(&reversed, order);
}
