/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the problems of training: batch norm's two directions, gradients,
 * losses and updates; problem.c checks the others. */
#include "kernels/check/problem_check.h"

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

/* Where F32 is expected, F64 is as good: the tests' reference keeps it. */
static int expect_dtype(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t, enum infer_dtype dtype,
                        struct infer_error *why)
{
    if (!t || t->dtype == dtype ||
        (dtype == INFER_F32 && t->dtype == INFER_F64))
        return 0;
    return REFUSE(p, why, "%s is %s, expected %s", what,
                  infer_dtype_name(t->dtype), infer_dtype_name(dtype));
}

/* Optional tensor of the given type and shape [n]. */
static int expect_flat(const struct kern_problem *p, const char *what,
                       const struct kern_tensor *t, enum infer_dtype dtype,
                       int64_t n, struct infer_error *why)
{
    const int r = expect_dtype(p, what, t, dtype, why);

    return r < 0 ? r : problem_expect_shape(p, what, t, 1, &n, why);
}

/* All but one input and one output, -1 for none. */
static int check_float_but(const struct kern_problem *p, int in, int out,
                           struct infer_error *why)
{
    for (int i = 0; i < p->n_in; i++)
        if (i != in && kern_problem_in(p, i) &&
            !scalar_is_float(p->in[i].dtype))
            return REFUSE(p, why, "input %d is %s, expected floating point", i,
                          infer_dtype_name(p->in[i].dtype));
    for (int i = 0; i < p->n_out; i++)
        if (i != out && kern_problem_out(p, i) &&
            !scalar_is_float(p->out[i].dtype))
            return REFUSE(p, why, "output %d is %s, expected floating point", i,
                          infer_dtype_name(p->out[i].dtype));
    return 0;
}

static int check_float(const struct kern_problem *p, struct infer_error *why)
{
    return check_float_but(p, -1, -1, why);
}

/* The pairs of inputs and outputs that are there together or not at all. */
static int check_pair(const struct kern_problem *p, const char *what, int in,
                      int out, struct infer_error *why)
{
    if (!kern_problem_in(p, in) != !kern_problem_out(p, out))
        return REFUSE(p, why, "%s is in one of input %d and output %d", what,
                      in, out);
    return 0;
}

/* The signs of a tensor, a bit an element; absent is fine. */
static int check_signs(const struct kern_problem *p,
                       const struct kern_tensor *signs,
                       const struct kern_tensor *of, struct infer_error *why)
{
    struct kern_tensor t = *of;

    if (signs && (signs->dtype != INFER_U8 || of->dim[1] % 8 != 0))
        return REFUSE(p, why,
                      "signs are %s for %lld channels, expected U8 and a "
                      "multiple of 8",
                      infer_dtype_name(signs->dtype), (long long)of->dim[1]);
    t.dim[1] /= 8;
    return problem_expect_like(p, "signs", signs, &t, why);
}

int problem_check_batch_norm_train(const struct kern_problem *p,
                                   struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0];
    int r = problem_check_channel_vectors(p, 4, why);

    for (int i = 1; i <= 4 && r == 0; i++)
        r = problem_expect_shape(p, "statistics", kern_problem_out(p, i), 1,
                                 &x->dim[1], why);
    for (int i = 3; i <= 4 && r == 0; i++)
        r = check_pair(p, "running statistics", i, i, why);
    if (r == 0 && !kern_problem_in(p, 3) != !kern_problem_in(p, 4))
        return REFUSE(p, why, "running mean without variance, or the reverse");
    if (r == 0 && kern_tensor_count(x) == 0)
        return REFUSE(p, why, "has no elements to take statistics of");
    if (r == 0 && p->epilogue.residual_last)
        return REFUSE(p, why, "adds its residual before the activation only");
    if (r == 0)
        r = problem_check_bn_stats(p, x, why);
    if (r == 0)
        r = check_signs(p, kern_problem_out(p, 5), x, why);
    return r < 0 ? r : check_float_but(p, -1, 5, why);
}

int problem_check_batch_norm_dgrad(const struct kern_problem *p,
                                   struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[1];
    const struct kern_tensor *y = kern_problem_in(p, 5);
    const bool signs = y && y->dtype == INFER_U8;
    int r = problem_check_channels(p, why); /* dx is like dy */

    if (r == 0)
        r = problem_expect_like(p, "x", x, &p->in[0], why);
    for (int i = 2; i <= 7 && r == 0; i++)
        if (i != 5)
            r = problem_expect_shape(p, "channel vector", kern_problem_in(p, i),
                                     1, &x->dim[1], why);
    for (int i = 1; i <= 2 && r == 0; i++)
        r = problem_expect_shape(p, "gradient", &p->out[i], 1, &x->dim[1], why);
    if (r == 0)
        r = problem_expect_like(p, "dresidual", kern_problem_out(p, 3), x, why);
    if (r == 0)
        r = signs ? check_signs(p, y, x, why)
                  : problem_expect_like(p, "y", y, x, why);
    if (r == 0 && p->epilogue.act.kind != KERN_IDENTITY &&
        (!y || !kern_unary_grad_from_output(&p->epilogue.act)))
        return REFUSE(p, why,
                      "needs y and an activation whose derivative is "
                      "known from it");
    if (r == 0 && signs && p->epilogue.act.kind != KERN_RELU)
        return REFUSE(p, why, "signs are enough for ReLU alone");
    if (r == 0 && kern_tensor_count(x) == 0)
        return REFUSE(p, why, "has no elements");
    return r < 0 ? r : check_float_but(p, signs ? 5 : -1, -1, why);
}

int problem_check_reduce_dgrad(const struct kern_problem *p,
                               struct infer_error *why)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const bool needs_x = kind != KERN_REDUCE_MEAN && kind != KERN_REDUCE_SUM;
    struct kern_problem fprop = *p;

    if (kind == KERN_REDUCE_PROD)
        return REFUSE(p, why, "a product has no gradient here");
    if (!kern_problem_in(p, 1) != !needs_x)
        return REFUSE(p, why,
                      "x is needed for MAX, MIN, L1, L2 and nowhere "
                      "else");
    fprop.in[0] = p->out[0];
    fprop.out[0] = p->in[0];
    int r = problem_check_reduce(&fprop, why);
    if (r == 0)
        r = problem_expect_like(p, "x", kern_problem_in(p, 1), &p->out[0], why);
    return r < 0 ? r : check_float(p, why);
}

int problem_check_unary_dgrad(const struct kern_problem *p,
                              struct infer_error *why)
{
    const struct kern_tensor *x = kern_problem_in(p, 1);
    const struct kern_tensor *y = kern_problem_in(p, 2);
    int r = problem_check_unary(p, why);

    if (r == 0)
        r = problem_expect_like(p, "x", x, &p->in[0], why);
    if (r == 0)
        r = problem_expect_like(p, "y", y, &p->in[0], why);
    if (r == 0 && !x == !y)
        return REFUSE(p, why, "needs one of x and y");
    if (r == 0 && !x && !kern_unary_grad_from_output(&p->attr.unary))
        return REFUSE(p, why, "the derivative is not known from y");
    return r < 0 ? r : check_float(p, why);
}

int problem_check_lrn_dgrad(const struct kern_problem *p,
                            struct infer_error *why)
{
    int r = problem_check_lrn(p, why);

    if (r == 0)
        r = problem_expect_like(p, "x", &p->in[1], &p->in[0], why);
    return r < 0 ? r : check_float(p, why);
}

int problem_check_prelu_dgrad(const struct kern_problem *p,
                              struct infer_error *why)
{
    struct kern_problem fprop = *p;
    int r = problem_expect_like(p, "x", &p->in[1], &p->in[0], why);

    fprop.n_in = 2;
    fprop.in[1] = p->in[2];
    if (r == 0)
        r = problem_check_prelu(&fprop, why);
    if (r == 0)
        r = problem_expect_like(p, "dslope", kern_problem_out(p, 1), &p->in[0],
                                why);
    return r < 0 ? r : check_float(p, why);
}

int problem_check_norm_dgrad(const struct kern_problem *p,
                             struct infer_error *why)
{
    struct kern_problem fprop = *p;
    int r = problem_expect_like(p, "x", &p->in[1], &p->in[0], why);

    fprop.n_in = 2;
    fprop.in[1] = p->in[2];
    if (p->n_in < 3)
        fprop.in[1].dtype = INFER_NONE;
    if (r == 0)
        r = p->op == KERN_LAYER_NORM_DGRAD
                ? problem_check_layer_norm(&fprop, why)
                : problem_check_group_norm(&fprop, why);
    if (r == 0)
        r = problem_expect_like(p, "dscale", kern_problem_out(p, 1), &p->in[0],
                                why);
    return r < 0 ? r : check_float(p, why);
}

int problem_check_resize_dgrad(const struct kern_problem *p,
                               struct infer_error *why)
{
    struct kern_problem fprop = *p;

    fprop.in[0] = p->out[0];
    fprop.out[0] = p->in[0];
    const int r = problem_check_resize(&fprop, why);
    return r < 0 ? r : check_float(p, why);
}

int problem_check_dropout(const struct kern_problem *p, struct infer_error *why)
{
    int r = problem_check_like_input(p, why);

    if (r == 0)
        r = expect_flat(p, "random", &p->in[1], INFER_U64, 2, why);
    /* Written so that NaN fails. */
    if (r == 0 && !(p->attr.dropout.ratio >= 0 && p->attr.dropout.ratio < 1))
        return REFUSE(p, why, "ratio %g is not in [0, 1)",
                      (double)p->attr.dropout.ratio);
    if (r == 0 && kern_tensor_count(&p->in[0]) >= (int64_t)1 << 34)
        return REFUSE(p, why, "has 2^34 elements or more");
    if (r == 0 &&
        (!scalar_is_float(p->in[0].dtype) || !scalar_is_float(p->out[0].dtype)))
        return REFUSE(p, why, "takes floating point");
    return r;
}

int problem_check_cross_entropy(const struct kern_problem *p,
                                struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *label = &p->in[1];
    const struct kern_cross_entropy *a = &p->attr.cross_entropy;

    if (x->rank != 2 || x->dim[1] < 1 || !scalar_is_float(x->dtype))
        return REFUSE(p, why, "logits are not N,C in floating point");
    if (label->dtype != INFER_I32 && label->dtype != INFER_I64)
        return REFUSE(p, why, "labels are %s, expected I32 or I64",
                      infer_dtype_name(label->dtype));
    if (!(a->smoothing >= 0 && a->smoothing <= 1))
        return REFUSE(p, why, "smoothing %g is not in [0, 1]",
                      (double)a->smoothing);
    int r = expect_flat(p, "labels", label, label->dtype, x->dim[0], why);
    if (r == 0)
        r = expect_flat(p, "step", kern_problem_in(p, 2), INFER_F32,
                        KERN_STEP_SIZE, why);
    if (r == 0)
        r = expect_flat(p, "loss", &p->out[0], INFER_F32, x->dim[0], why);
    if (r == 0)
        r = problem_expect_like(p, "dlogits", kern_problem_out(p, 1), x, why);
    if (r == 0 && kern_problem_out(p, 1) && !scalar_is_float(p->out[1].dtype))
        return REFUSE(p, why, "dlogits are not floating point");
    if (r == 0)
        r = expect_flat(p, "hit", kern_problem_out(p, 2), INFER_F32, x->dim[0],
                        why);
    return r;
}

int problem_check_step(const struct kern_problem *p, struct infer_error *why)
{
    int r = expect_flat(p, "norm", &p->in[0], INFER_F32, 1, why);

    if (r == 0)
        r = expect_flat(p, "step", &p->in[1], INFER_F32, KERN_STEP_SIZE, why);
    if (r == 0)
        r = expect_flat(p, "step", &p->out[0], INFER_F32, KERN_STEP_SIZE, why);
    if (r == 0)
        r = check_pair(p, "random", 2, 1, why);
    if (r == 0)
        r = expect_flat(p, "random", kern_problem_in(p, 2), INFER_U64, 2, why);
    if (r == 0)
        r = expect_flat(p, "random", kern_problem_out(p, 1), INFER_U64, 2, why);
    return r;
}

/* The moments that a kind of update moves: m where it has a momentum. */
static int check_bn_stats(const struct kern_problem *p, struct infer_error *why)
{
    const enum kern_update_kind kind = p->attr.update.kind;
    const bool adam = kind == KERN_UPDATE_ADAM || kind == KERN_UPDATE_ADAMW;
    const bool m = kern_problem_in(p, 4), v = kern_problem_in(p, 5);

    if (v != (adam || kind == KERN_UPDATE_RMSPROP) || (adam && !m) ||
        (kind == KERN_UPDATE_NONE && m))
        return REFUSE(p, why, "has other moments than its kind moves");
    if (adam && !kern_problem_in(p, 3))
        return REFUSE(p, why, "needs step for its corrections");
    if (kind != KERN_UPDATE_NONE &&
        (!kern_problem_in(p, 1) || !kern_problem_in(p, 2)))
        return REFUSE(p, why, "needs dw and rate");
    return 0;
}

int problem_check_update(const struct kern_problem *p, struct infer_error *why)
{
    static const char *const names[] = {"w", "dw", "rate",   "step",
                                        "m", "v",  "average"};
    const struct kern_tensor *copy = kern_problem_out(p, KERN_UPDATE_COPY);
    const int64_t n = kern_tensor_count(&p->in[0]);
    int r = 0;

    if ((int)p->attr.update.kind < 0 ||
        p->attr.update.kind >= KERN_UPDATE_KIND_COUNT)
        return REFUSE(p, why, "unknown kind %d", (int)p->attr.update.kind);
    for (int i = 0; i < p->n_in && r == 0; i++) {
        const struct kern_tensor *t = kern_problem_in(p, i);
        const bool any = t && i == 1 && scalar_is_float(t->dtype);
        const int64_t size = i == 2 ? 1 : i == 3 ? KERN_STEP_SIZE : n;
        r = expect_flat(p, names[i], t, any ? t->dtype : INFER_F32, size, why);
    }
    for (int i = 0; i < KERN_UPDATE_COPY && r == 0; i++)
        r = expect_flat(p, i == 0 ? "w" : names[i + 3], kern_problem_out(p, i),
                        INFER_F32, n, why);
    for (int i = 1; i < KERN_UPDATE_COPY && r == 0; i++)
        r = check_pair(p, names[i + 3], i + 3, i, why);
    if (r == 0 && copy && !scalar_is_float(copy->dtype))
        return REFUSE(p, why, "copy is %s, expected floating point",
                      infer_dtype_name(copy->dtype));
    if (r == 0)
        r = problem_expect_shape(p, "copy", copy, 1, &n, why);
    return r < 0 ? r : check_bn_stats(p, why);
}
