/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of any data type: conversion, load and store.
 * Half precision follows IEEE 754-2008 binary16; bfloat16 is the upper half of
 * binary32.  Conversions from wider types round to nearest, ties to even. */
#ifndef KERNELS_BASE_SCALAR_H
#define KERNELS_BASE_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

float scalar_from_f16(uint16_t bits);
uint16_t scalar_to_f16(float value);
float scalar_from_bf16(uint16_t bits);
uint16_t scalar_to_bf16(float value);
/* e4m3fn (include/infer.h).  Values beyond 448, infinity too, become 448 of
 * their sign; NaN stays NaN. */
extern const float scalar_f8e4m3[256]; /* the value of each code */
uint8_t scalar_to_f8e4m3(float value);

/* Element i of a dense array.  Integers wider than 53 bits lose low bits as
 * double; use the _i64 forms for them.  Stores of values outside an integer
 * type's range saturate; NaN stores 0 in integers. */
double scalar_load(enum infer_dtype dtype, const void *base, int64_t i);
void scalar_store(enum infer_dtype dtype, void *base, int64_t i, double value);
int64_t scalar_load_i64(enum infer_dtype dtype, const void *base, int64_t i);
void scalar_store_i64(enum infer_dtype dtype, void *base, int64_t i,
                      int64_t value);

bool scalar_is_integer(enum infer_dtype dtype); /* BOOL included */
bool scalar_is_float(enum infer_dtype dtype);

/* Converts n elements between dense arrays that do not overlap. */
void scalar_convert(enum infer_dtype from, const void *src, enum infer_dtype to,
                    void *dst, size_t n);

#endif
