/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of problems share.  Each returns 0, or a negative code with
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

/* ---- problem_window.c ---------------------------------------------- */

int problem_check_conv_fprop(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_conv_transpose(const struct kern_problem *p,
                                 struct infer_error *why);
int problem_check_conv_wgrad(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_pool(const struct kern_problem *p, struct infer_error *why);
int problem_check_pool_dgrad(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_bn_stats(const struct kern_problem *p,
                           const struct kern_tensor *of,
                           struct infer_error *why);

/* ---- problem_plain.c: parts of several checks, then one an operation */

int problem_check_unary_kind(const struct kern_problem *p,
                             enum kern_unary_kind kind,
                             struct infer_error *why);
int problem_check_channels(const struct kern_problem *p,
                           struct infer_error *why);
int problem_check_channel_vectors(const struct kern_problem *p, int last,
                                  struct infer_error *why);
int problem_check_like_input(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_dense(const struct kern_problem *p, struct infer_error *why);
int problem_check_matmul(const struct kern_problem *p, struct infer_error *why);
int problem_check_batch_norm(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_scale_shift(const struct kern_problem *p,
                              struct infer_error *why);
int problem_check_group_norm(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_layer_norm(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_lrn(const struct kern_problem *p, struct infer_error *why);
int problem_check_unary(const struct kern_problem *p, struct infer_error *why);
int problem_check_prelu(const struct kern_problem *p, struct infer_error *why);
int problem_check_binary(const struct kern_problem *p, struct infer_error *why);
int problem_check_where(const struct kern_problem *p, struct infer_error *why);
int problem_check_softmax(const struct kern_problem *p,
                          struct infer_error *why);
int problem_check_reduce(const struct kern_problem *p, struct infer_error *why);
int problem_check_squeeze(const struct kern_problem *p,
                          struct infer_error *why);
int problem_check_arg_reduce(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_gather(const struct kern_problem *p, struct infer_error *why);
int problem_check_pad(const struct kern_problem *p, struct infer_error *why);
int problem_check_resize(const struct kern_problem *p, struct infer_error *why);

/* ---- problem_train.c: one an operation, for problem.c's table ------ */

int problem_check_batch_norm_train(const struct kern_problem *p,
                                   struct infer_error *why);
int problem_check_batch_norm_dgrad(const struct kern_problem *p,
                                   struct infer_error *why);
int problem_check_reduce_dgrad(const struct kern_problem *p,
                               struct infer_error *why);
int problem_check_unary_dgrad(const struct kern_problem *p,
                              struct infer_error *why);
int problem_check_lrn_dgrad(const struct kern_problem *p,
                            struct infer_error *why);
int problem_check_prelu_dgrad(const struct kern_problem *p,
                              struct infer_error *why);
/* Layer and group norm. */
int problem_check_norm_dgrad(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_resize_dgrad(const struct kern_problem *p,
                               struct infer_error *why);
int problem_check_dropout(const struct kern_problem *p,
                          struct infer_error *why);
int problem_check_cross_entropy(const struct kern_problem *p,
                                struct infer_error *why);
int problem_check_step(const struct kern_problem *p, struct infer_error *why);
int problem_check_update(const struct kern_problem *p, struct infer_error *why);

#endif
