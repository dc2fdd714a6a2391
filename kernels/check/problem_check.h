/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of problems.  Each returns 0, or a negative code with
 * the text in why. */
#ifndef KERNELS_CHECK_PROBLEM_CHECK_H
#define KERNELS_CHECK_PROBLEM_CHECK_H

#include "kernels/base/error.h"
#include "kernels/problem.h"

/* Refuses: the text is prefixed with the operation's name. */
#define REFUSE(p, why, ...)                                                    \
    problem_refuse(p, why, error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__))

/* Limit on strides, dilations, windows and pads, so that products of two of
 * them with an extent stay far from the end of 64 bits. */
#define MAX_STEP (1 << 24)

/* ---- problem.c: parts of several checks ---------------------------- */

int problem_refuse(const struct kern_problem *p, struct infer_error *why,
                   int code);
int problem_expect_shape(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int rank,
                         const int64_t *dim, struct infer_error *why);
int problem_expect_like(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t,
                        const struct kern_tensor *as, struct infer_error *why);
/* Inputs from .. to, where they are there, are vectors of `count` elements:
 * bias, scale, shift. */
int problem_expect_vectors(const struct kern_problem *p, int from, int to,
                           const char *what, int64_t count,
                           struct infer_error *why);

/* kernels/table/problem_table.c: the table of products or derivatives, where it
 * is there. */
int problem_check_product_table(const struct kern_problem *p,
                                struct infer_error *why);

/* kernels/quant/problem_quant.c: of a layer on integers of 8 bits. */
int problem_check_quant(const struct kern_problem *p, struct infer_error *why);

/* ---- one an operation, for the table of kernels/ops.def -------------- */

typedef int problem_check_fn(const struct kern_problem *p,
                             struct infer_error *why);

/* problem_window.c */
problem_check_fn problem_check_conv_fprop, problem_check_conv_transpose;
problem_check_fn problem_check_conv_wgrad;
problem_check_fn problem_check_pool, problem_check_pool_dgrad;
int problem_check_bn_stats(const struct kern_problem *p,
                           const struct kern_tensor *of,
                           struct infer_error *why);

/* problem_plain.c: parts of several checks, then the operations */
int problem_check_unary_kind(const struct kern_problem *p,
                             enum kern_unary_kind kind,
                             struct infer_error *why);
int problem_check_axis(const struct kern_problem *p, int axis,
                       struct infer_error *why);
int problem_check_same_dtype(const struct kern_problem *p, int i,
                             struct infer_error *why);
problem_check_fn problem_check_channels;
int problem_check_channel_vectors(const struct kern_problem *p, int last,
                                  struct infer_error *why);
problem_check_fn problem_check_like_input;
problem_check_fn problem_check_dense, problem_check_matmul;
problem_check_fn problem_check_batch_norm, problem_check_scale_shift;
problem_check_fn problem_check_group_norm, problem_check_layer_norm;
problem_check_fn problem_check_lrn, problem_check_unary, problem_check_prelu;
problem_check_fn problem_check_binary, problem_check_where;
problem_check_fn problem_check_softmax, problem_check_reduce;
problem_check_fn problem_check_squeeze, problem_check_arg_reduce;
problem_check_fn problem_check_gather, problem_check_pad, problem_check_resize;

/* problem_index.c */
problem_check_fn problem_check_gather_elements, problem_check_scatter_elements;
problem_check_fn problem_check_attention; /* problem_attention.c */
problem_check_fn problem_check_requantize;
problem_check_fn problem_check_cumulate, problem_check_top_k, problem_check_nms;

problem_check_fn problem_check_recurrent; /* kernels/recurrent */

problem_check_fn problem_check_chain; /* kernels/chain/chain.c */

/* problem_train.c; norm_dgrad: layer and group norm */
problem_check_fn problem_check_batch_norm_train, problem_check_batch_norm_dgrad;
problem_check_fn problem_check_reduce_dgrad, problem_check_unary_dgrad;
problem_check_fn problem_check_lrn_dgrad, problem_check_prelu_dgrad;
problem_check_fn problem_check_norm_dgrad, problem_check_resize_dgrad;
problem_check_fn problem_check_dropout, problem_check_cross_entropy;
problem_check_fn problem_check_step, problem_check_update;

#endif
