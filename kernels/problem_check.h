/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of problems share: problem.c and problem_train.c.  Each
 * returns 0, or a negative code with the text in why. */
#ifndef KERNELS_PROBLEM_CHECK_H
#define KERNELS_PROBLEM_CHECK_H

#include "kernels/error.h"
#include "kernels/problem.h"

/* Refuses: the text is prefixed with the operation's name. */
#define REFUSE(p, why, ...)                                                    \
    problem_refuse(p, why, error_set(why, -2, __VA_ARGS__))

/* ---- problem.c: parts of several checks ---------------------------- */

int problem_refuse(const struct kern_problem *p, struct infer_error *why,
                   int code);
int problem_check_channel_vectors(const struct kern_problem *p, int last,
                                  struct infer_error *why);
int problem_check_moments(const struct kern_problem *p,
                          const struct kern_tensor *of,
                          struct infer_error *why);
int problem_check_channels(const struct kern_problem *p,
                           struct infer_error *why);
int problem_check_like_input(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_group_norm(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_layer_norm(const struct kern_problem *p,
                             struct infer_error *why);
int problem_check_lrn(const struct kern_problem *p, struct infer_error *why);
int problem_check_prelu(const struct kern_problem *p, struct infer_error *why);
int problem_check_resize(const struct kern_problem *p, struct infer_error *why);
int problem_check_reduce(const struct kern_problem *p, struct infer_error *why);
int problem_check_unary(const struct kern_problem *p, struct infer_error *why);
int problem_expect_like(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t,
                        const struct kern_tensor *as, struct infer_error *why);
int problem_expect_shape(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int rank,
                         const int64_t *dim, struct infer_error *why);

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
