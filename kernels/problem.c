/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a problem is well-formed: shapes, types and attributes that fit
 * together.  Every row relies on it, so no kernel has to doubt a shape.  Here
 * is what holds for every operation; each one's own check: problem_window.c,
 * problem_plain.c, problem_train.c. */
#include "kernels/problem_check.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

int problem_refuse(const struct kern_problem *p, struct infer_error *why,
                   int code)
{
    error_prefix(why, "%s", kern_op_name(p->op));
    return code;
}

/* ---- one tensor ---------------------------------------------------- */

/* True where every element lies within 2^62 bytes of the first. */
static bool reach_fits(const struct kern_tensor *t)
{
    int64_t reach = 1, bytes;

    for (int i = 0; i < t->rank; i++) {
        int64_t part;
        if (t->dim[i] == 0)
            return true;
        if (t->stride[i] == INT64_MIN)
            return false;
        const int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
        if (!checked_mul_i64(t->dim[i] - 1, step, &part) ||
            !checked_add_i64(reach, part, &reach))
            return false;
    }
    return checked_mul_i64(reach, (int64_t)infer_dtype_size(t->dtype),
                           &bytes) &&
           bytes <= INT64_MAX / 2;
}

static int check_tensor(const struct kern_problem *p, const char *what, int i,
                        const struct kern_tensor *t, struct infer_error *why)
{
    int64_t count;

    if (infer_dtype_size(t->dtype) == 0)
        return REFUSE(p, why, "%s %d has no data type", what, i);
    if (t->rank < 0 || t->rank > KERN_MAX_RANK)
        return REFUSE(p, why, "%s %d has rank %d, supported 0 to %d", what, i,
                      t->rank, KERN_MAX_RANK);
    if (!checked_count(t->rank, t->dim, &count) || !reach_fits(t)) {
        char text[KERN_SHAPE_TEXT];
        return REFUSE(p, why, "%s %d has an impossible size %s", what, i,
                      kern_shape_text(t->rank, t->dim, text));
    }
    return 0;
}

/* True where no two elements lie in the same place: with the dimensions in the
 * order of their strides, each steps over all that the smaller ones reach.
 * Every view of a dense tensor (slice, permutation, split) does. */
static bool is_injective(const struct kern_tensor *t)
{
    int order[KERN_MAX_RANK], n = 0;
    int64_t reach = 0;

    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0)
            return true;
        if (t->dim[i] == 1)
            continue;
        int at = n++;
        while (at > 0 &&
               llabs(t->stride[order[at - 1]]) > llabs(t->stride[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < n; i++) {
        const int64_t step = llabs(t->stride[order[i]]);
        if (step <= reach)
            return false;
        reach += (t->dim[order[i]] - 1) * step;
    }
    return true;
}

static int check_outputs(const struct kern_problem *p, int min_out, int max_out,
                         struct infer_error *why)
{
    if (p->n_out < min_out || p->n_out > max_out)
        return REFUSE(p, why, "has %d outputs, expected %d to %d", p->n_out,
                      min_out, max_out);
    for (int i = 0; i < p->n_out; i++) {
        if (p->out[i].dtype == INFER_NONE && i >= min_out)
            continue;
        const int r = check_tensor(p, "output", i, &p->out[i], why);
        if (r < 0)
            return r;
        if (!is_injective(&p->out[i]))
            return REFUSE(p, why, "elements of output %d share their place", i);
    }
    return 0;
}

static int check_inputs(const struct kern_problem *p, int min_in, int max_in,
                        struct infer_error *why)
{
    if (p->n_in < min_in || p->n_in > max_in)
        return REFUSE(p, why, "has %d inputs, expected %d to %d", p->n_in,
                      min_in, max_in);
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].dtype == INFER_NONE && i >= min_in)
            continue;
        const int r = check_tensor(p, "input", i, &p->in[i], why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- shapes -------------------------------------------------------- */

static bool same_shape(const struct kern_tensor *t, int rank,
                       const int64_t *dim)
{
    if (t->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (t->dim[i] != dim[i])
            return false;
    return true;
}

int problem_expect_shape(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int rank,
                         const int64_t *dim, struct infer_error *why)
{
    char found[KERN_SHAPE_TEXT], expected[KERN_SHAPE_TEXT];

    if (!t || same_shape(t, rank, dim))
        return 0;
    return REFUSE(p, why, "%s has shape %s, expected %s", what,
                  kern_shape_text(t->rank, t->dim, found),
                  kern_shape_text(rank, dim, expected));
}

int problem_expect_like(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t,
                        const struct kern_tensor *as, struct infer_error *why)
{
    return problem_expect_shape(p, what, t, as->rank, as->dim, why);
}

/* Optional vectors of `count` elements: bias, scale, shift. */
int problem_expect_vectors(const struct kern_problem *p, int from, int to,
                           const char *what, int64_t count,
                           struct infer_error *why)
{
    for (int i = from; i <= to; i++) {
        const int r = problem_expect_shape(p, what, kern_problem_in(p, i), 1,
                                           &count, why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- all operations ------------------------------------------------ */

/* min_in inputs must be there, max_in may; so with outputs. */
static const struct op_rule {
    int min_in, max_in;
    bool act; /* knows an activation behind it */
    int (*check)(const struct kern_problem *p, struct infer_error *why);
    int min_out, max_out;
} rules[KERN_OP_COUNT] = {
    [KERN_CONV_FPROP] = {2, 5, true, problem_check_conv_fprop, 1, 2},
    [KERN_CONV_TRANSPOSE_FPROP] = {2, 4, true, problem_check_conv_transpose, 1,
                                   1},
    [KERN_DENSE_FPROP] = {2, 4, true, problem_check_dense, 1, 1},
    [KERN_MATMUL] = {2, 2, false, problem_check_matmul, 1, 1},
    [KERN_POOL_FPROP] = {1, 1, true, problem_check_pool, 1, 1},
    [KERN_BATCH_NORM] = {5, 6, true, NULL, 1, 1},
    [KERN_SCALE_SHIFT] = {1, 4, true, NULL, 1, 1},
    [KERN_LAYER_NORM] = {1, 3, false, problem_check_layer_norm, 1, 1},
    [KERN_GROUP_NORM] = {1, 3, false, problem_check_group_norm, 1, 1},
    [KERN_LRN] = {1, 1, false, problem_check_lrn, 1, 1},
    [KERN_UNARY] = {1, 1, false, problem_check_unary, 1, 1},
    [KERN_PRELU] = {2, 2, false, problem_check_prelu, 1, 1},
    [KERN_BINARY] = {2, 3, true, problem_check_binary, 1, 1},
    [KERN_WHERE] = {3, 3, false, problem_check_where, 1, 1},
    [KERN_SOFTMAX] = {1, 1, false, problem_check_softmax, 1, 1},
    [KERN_REDUCE] = {1, 2, false, problem_check_reduce, 1, 1},
    [KERN_SQUEEZE_EXCITE] = {3, 5, true, problem_check_squeeze, 1, 1},
    [KERN_ARG_REDUCE] = {1, 1, false, problem_check_arg_reduce, 1, 1},
    [KERN_GATHER] = {2, 2, false, problem_check_gather, 1, 1},
    [KERN_PAD] = {1, 1, false, problem_check_pad, 1, 1},
    [KERN_RESIZE] = {1, 1, false, problem_check_resize, 1, 1},
    [KERN_COPY] = {1, 1, false, problem_check_like_input, 1, 1},
    [KERN_CONV_WGRAD] = {2, 3, false, problem_check_conv_wgrad, 1, 1},
    [KERN_BATCH_NORM_TRAIN] = {3, 7, true, problem_check_batch_norm_train, 3,
                               6},
    [KERN_BATCH_NORM_DGRAD] = {5, 8, true, problem_check_batch_norm_dgrad, 3,
                               4},
    [KERN_POOL_DGRAD] = {1, 3, false, problem_check_pool_dgrad, 1, 1},
    [KERN_REDUCE_DGRAD] = {1, 3, false, problem_check_reduce_dgrad, 1, 1},
    [KERN_UNARY_DGRAD] = {1, 4, false, problem_check_unary_dgrad, 1, 1},
    [KERN_LRN_DGRAD] = {2, 3, false, problem_check_lrn_dgrad, 1, 1},
    [KERN_PRELU_DGRAD] = {3, 4, false, problem_check_prelu_dgrad, 1, 2},
    [KERN_LAYER_NORM_DGRAD] = {2, 4, false, problem_check_norm_dgrad, 1, 2},
    [KERN_GROUP_NORM_DGRAD] = {2, 4, false, problem_check_norm_dgrad, 1, 2},
    [KERN_RESIZE_DGRAD] = {1, 2, false, problem_check_resize_dgrad, 1, 1},
    [KERN_DROPOUT] = {2, 2, false, problem_check_dropout, 1, 1},
    [KERN_CROSS_ENTROPY] = {2, 3, false, problem_check_cross_entropy, 1, 3},
    [KERN_STEP] = {2, 3, false, problem_check_step, 1, 2},
    [KERN_UPDATE] = {1, 7, false, problem_check_update, 1, 5},
};

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const int r = kern_op_residual(p->op);
    const int bad = problem_check_unary_kind(p, p->epilogue.act.kind, why);

    if (bad < 0)
        return bad;
    if (p->epilogue.act.kind != KERN_IDENTITY && !rules[p->op].act)
        return REFUSE(p, why, "knows no activation behind it");
    return r < 0 ? 0
                 : problem_expect_like(p, "residual", kern_problem_in(p, r),
                                       &p->out[0], why);
}

int kern_problem_check(const struct kern_problem *p, struct infer_error *why)
{
    if ((int)p->op < 0 || p->op >= KERN_OP_COUNT)
        return error_set(why, INFER_EUNSUPPORTED, "unknown operation %d",
                         (int)p->op);
    const struct op_rule *rule = &rules[p->op];
    int r = check_inputs(p, rule->min_in, rule->max_in, why);
    if (r == 0)
        r = check_outputs(p, rule->min_out, rule->max_out, why);
    if (r < 0)
        return r;
    if (rule->check)
        r = rule->check(p, why);
    else
        r = problem_check_channel_vectors(p, p->op == KERN_BATCH_NORM ? 4 : 2,
                                          why);
    return r < 0 ? r : check_epilogue(p, why);
}
