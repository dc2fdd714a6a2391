/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of integers below 8 bits and of floats of 8 bits and below.
 *
 * They hold quantised weights.  Nothing computes in these types here: integers
 * are kept as I8 or U8, floats as F32, with the values that they stand for.
 * FLOAT8E4M3FN is INFER_F8E4M3, and here for its layout alone.
 */
#ifndef WEIGHTS_NARROW_H
#define WEIGHTS_NARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libinfer/graph/constant.h"

/* The numbers that ONNX gives these types (TensorProto.DataType). */
enum narrow_type {
    NARROW_FLOAT8E4M3FN = 17,
    NARROW_FLOAT8E4M3FNUZ,
    NARROW_FLOAT8E5M2,
    NARROW_FLOAT8E5M2FNUZ,
    NARROW_UINT4,
    NARROW_INT4,
    NARROW_FLOAT4E2M1,
    NARROW_FLOAT8E8M0,
    NARROW_UINT2,
    NARROW_INT2
};

/* What elements of a data type are kept as; INFER_NONE where it is none of
 * these types. */
enum infer_dtype narrow_dtype(int64_t data_type);
/* Bytes that `count` elements are packed in, the first in the lowest bits. */
size_t narrow_bytes(int64_t data_type, int64_t count);
/* A constant of the shape with the values of what is packed; NULL: no memory.
 */
struct constant *narrow_unpack(int64_t data_type, int rank, const int64_t *dim,
                               const unsigned char *packed);

/* What a type can hold.  Floats: 1.f times a power of two from `least` to
 * `most` with `mantissa` bits of f, steps of the least power below it. */
struct narrow_limits {
    bool integer, is_signed; /* is_signed: of integers */
    int bits;
    int mantissa, least, most;
    double largest;
    bool infinity, nan; /* has codes for them */
};
/* data_type is one of these types. */
struct narrow_limits narrow_limits(int64_t data_type);

#endif
