/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy .npy files, as NEP 1 and numpy.lib.format define them. */
#include "tools/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "tools/cli.h"
#include "weights/weights.h"

/* NumPy has no bfloat16 and no floats of 8 bits: they are written as float32.
 */
static const char *const descr[INFER_DTYPE_COUNT] = {
    [INFER_F64] = "<f8",  [INFER_F32] = "<f4",   [INFER_F16] = "<f2",
    [INFER_BF16] = "<f4", [INFER_I64] = "<i8",   [INFER_I32] = "<i4",
    [INFER_I16] = "<i2",  [INFER_I8] = "|i1",    [INFER_U64] = "<u8",
    [INFER_U32] = "<u4",  [INFER_U16] = "<u2",   [INFER_U8] = "|u1",
    [INFER_BOOL] = "|b1", [INFER_F8E4M3] = "<f4"};

/* The header, padded so that the data starts at a multiple of 64. */
static size_t format_header(const struct infer_array *a, unsigned char *out,
                            size_t room)
{
    char *text = (char *)out + 10;
    size_t used;
    int i;

    memcpy(out, "\x93NUMPY\x01\x00", 8);
    used = (size_t)snprintf(text, room - 10,
                            "{'descr': '%s', 'fortran_order': False, "
                            "'shape': (",
                            descr[a->dtype]);
    for (i = 0; i < a->rank; i++)
        used += (size_t)snprintf(text + used, room - 10 - used, "%" PRId64 ",",
                                 a->dim[i]);
    used += (size_t)snprintf(text + used, room - 10 - used, "), }");
    while ((10 + used + 1) % 64 != 0)
        text[used++] = ' ';
    text[used++] = '\n';
    out[8] = (unsigned char)(used & 0xff);
    out[9] = (unsigned char)(used >> 8);
    return 10 + used;
}

int npy_write(const char *path, const struct infer_array *array,
              struct infer_error *err)
{
    unsigned char header[512];
    struct file_part part[2] = {
        {header, format_header(array, header, sizeof(header))},
        {array->data, array->bytes}};
    float *wide = NULL;
    int rc;

    if (array->dtype == INFER_BF16 || array->dtype == INFER_F8E4M3) {
        const size_t n = array->bytes / infer_dtype_size(array->dtype);

        wide = malloc(n > 0 ? n * sizeof(*wide) : 1);
        if (wide == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        scalar_convert(array->dtype, array->data, INFER_F32, wide, n);
        part[1] = (struct file_part){wide, n * sizeof(*wide)};
    }
    rc = cli_write_file(path, part, 2, err);
    free(wide);
    return rc;
}

int npy_read(const char *path, const char *member, struct infer_array *array,
             struct infer_error *err)
{
    struct weights_import import;
    const struct constant *c = NULL;
    int rc;

    weights_import_init(&import);
    rc = weights_read_arrays(path, err, &import);
    if (rc < 0)
        goto done;
    if (import.dict.count == 1)
        c = import.dict.entry[0].value;
    else
        c = weights_dict_find(&import.dict, member);
    if (c == NULL) {
        rc = error_set(err, INFER_EARGUMENT,
                       "%s: holds %zu arrays, none of them is '%s'", path,
                       import.dict.count, member);
        goto done;
    }
    memset(array, 0, sizeof(*array));
    array->dtype = c->dtype;
    array->rank = c->rank;
    memcpy(array->dim, c->dim, sizeof(array->dim));
    array->bytes = c->bytes;
    array->data = malloc(c->bytes > 0 ? c->bytes : 1);
    if (array->data == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        rc = constant_load(c, array->data, err);
done:
    weights_import_clear(&import);
    return rc;
}
