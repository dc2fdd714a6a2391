/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short forms for operators that are several nodes of the graph.
 *
 * Each adds a node and gives its value, or -1 once the ONNX node has an error:
 * then nothing more is added.  So a function composes all of its result, and
 * returns im->rc in the end.  Values that are given to these forms are values
 * of the graph.
 */
#ifndef WEIGHTS_ONNX_COMPOSED_COMPOSE_H
#define WEIGHTS_ONNX_COMPOSED_COMPOSE_H

#include "weights/onnx/onnx.h"

/* ---- inputs and shapes --------------------------------------------- */

/* Input i, or -1 where it is absent. */
int compose_input(struct onnx_import *im, int i);
int compose_rank(const struct onnx_import *im, int value);
enum infer_dtype compose_dtype(const struct onnx_import *im, int value);
/* Dimension d, counted from the end where negative, which has to be the same at
 * every probe: else EUNSUPPORTED, and 1. */
int64_t compose_dim(struct onnx_import *im, int value, int d);
/* The same, but -1 without an error where it differs. */
int64_t compose_free_dim(struct onnx_import *im, int value, int d);
/* Dimension d, which differs between the probes, as F32 of one element. */
int compose_size(struct onnx_import *im, int value, int d);
/* EFORMAT unless the rank is min .. max. */
int compose_need_rank(struct onnx_import *im, int value, int min, int max);
/* Attribute 'axis' as a dimension of the value. */
int compose_axis(struct onnx_import *im, int value, int otherwise);

/* ---- constants ----------------------------------------------------- */

/* A scalar. */
int compose_number(struct onnx_import *im, enum infer_dtype dtype, double v);
/* The same of an integer, of the full range. */
int compose_integer(struct onnx_import *im, enum infer_dtype dtype, int64_t v);
/* A constant of any shape, of F32 or I64, filled by the caller. */
int compose_floats(struct onnx_import *im, int rank, const int64_t *dim,
                   float **data);
int compose_i64(struct onnx_import *im, int rank, const int64_t *dim,
                int64_t **data);
/* n integers v. */
int compose_equal(struct onnx_import *im, int64_t n, int64_t v);
/* 0, 1, 2, ... along dimension `axis` of a shape of ones. */
int compose_count(struct onnx_import *im, int64_t n, int rank, int axis);
/* The same, as many as dimension d of a value, which may be free. */
int compose_count_of(struct onnx_import *im, int value, int d, int rank,
                     int axis);
/* Dimension d of a value, which may be free, as I64 of one element. */
int compose_entries(struct onnx_import *im, int value, int d);
/* As many equal integers as that, of rank 1. */
int compose_filled(struct onnx_import *im, int64_t fill, int value, int d);

/* ---- nodes --------------------------------------------------------- */

int compose_unary(struct onnx_import *im, enum kern_unary_kind kind, int x);
/* a x + b */
int compose_linear(struct onnx_import *im, double a, double b, int x);
int compose_clip(struct onnx_import *im, double low, double high, int x);
int compose_binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                   int b);
int compose_where(struct onnx_import *im, int condition, int a, int b);
int compose_cast(struct onnx_import *im, enum infer_dtype to, int x);
/* As GRAPH_RESHAPE: 0 copies a size from its place, one -1 takes the rest. */
int compose_reshape(struct onnx_import *im, int x, int n, const int64_t *dim);
int compose_transpose(struct onnx_import *im, int x, int n,
                      const int64_t *order);
/* The dimensions a and b change places. */
int compose_swap(struct onnx_import *im, int x, int a, int b);
/* As GRAPH_EXPAND: 1 keeps a size. */
int compose_expand(struct onnx_import *im, int x, int n, const int64_t *dim);
int compose_unsqueeze(struct onnx_import *im, int x, int axis);
int compose_squeeze(struct onnx_import *im, int x, int axis);
int compose_slice(struct onnx_import *im, int x, int axis, int64_t begin,
                  int64_t end, int64_t step);
int compose_concat(struct onnx_import *im, int n, const int *x, int axis);
int compose_pad(struct onnx_import *im, int x, int axis, int before, int after,
                float value);
int compose_gather(struct onnx_import *im, int x, int index, int axis);
int compose_gather_elements(struct onnx_import *im, int x, int index, int axis);
int compose_scatter(struct onnx_import *im, int x, int index, int update,
                    int axis, enum kern_scatter_kind kind);
/* Dimensions that are reduced keep size 1. */
int compose_reduce(struct onnx_import *im, enum kern_reduce_kind kind, int x,
                   int axis);
int compose_softmax(struct onnx_import *im, int x, int axis);
int compose_matmul(struct onnx_import *im, int a, int b, bool transpose_b,
                   float alpha);
/* N,S,H D to N,H,S,D, and back. */
int compose_split_heads(struct onnx_import *im, int x, int64_t heads);
int compose_join_heads(struct onnx_import *im, int x);
/* The low bits of integers of 64 bits, as a number of a type. */
int compose_wrap(struct onnx_import *im, int wide, int bits, bool is_signed,
                 enum infer_dtype to);
/* Rounded to what a type of floats in narrow.h holds, as the node's attributes
 * say. */
int compose_narrow_float(struct onnx_import *im, int x, int type);
/* N,C,.. from N,..,C, and back. */
int compose_channels_first(struct onnx_import *im, int x);
int compose_channels_last(struct onnx_import *im, int x);
/* x - zero as F32; zero -1: 0.  Sizes are joined as by compose_binary(). */
int compose_centred(struct onnx_import *im, int x, int zero);
/* (x - zero) scale as F32; zero -1: 0.  A vector of scales lies along the
 * axis. */
int compose_dequantize(struct onnx_import *im, int x, int scale, int zero,
                       int axis);
/* x / scale to the nearest integer, plus zero, as integers of a type. */
int compose_quantize(struct onnx_import *im, int x, int scale, int zero,
                     enum infer_dtype to);
/* x to integers from 0 to 255 by a scale and a zero point of its own, such that
 * 0 is exact: *scale and *zero, the latter as F32. */
int compose_quantize_dynamically(struct onnx_import *im, int x, int *scale,
                                 int *zero);
/* Output i of the ONNX node is this value. */
int compose_output(struct onnx_import *im, int i, int value);

#endif
