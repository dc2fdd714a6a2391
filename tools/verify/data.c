/* SPDX-License-Identifier: Apache-2.0 */
/* What the inputs hold: small integers for exact comparison, or reals that
 * the data type can hold. */
#include <math.h>

#include "kernels/chain/chain.h"
#include "kernels/op.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"
#include "kernels/quant/act.h"
#include "kernels/quant/quant.h"
#include "tools/verify/verify.h"

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t rng_range(struct rng *r, int64_t low, int64_t high)
{
    const uint64_t n = (uint64_t)(high - low) + 1;

    return low + (int64_t)(rng_next(r) % n);
}

bool rng_chance(struct rng *r, int percent)
{
    return rng_range(r, 0, 99) < percent;
}

double rng_real(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-52 - 1;
}

/* ---- terms --------------------------------------------------------- */

static double product(const int64_t *dim, int from, int to)
{
    double n = 1;

    for (int i = from; i < to; i++)
        n *= (double)dim[i];
    return n;
}

static double largest(const struct kern_tensor *t)
{
    double n = 1;

    for (int i = 0; i < t->rank; i++)
        if ((double)t->dim[i] > n)
            n = (double)t->dim[i];
    return n;
}

double problem_terms(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    double n = 1;

    switch (p->op) {
    case KERN_CONV_FPROP:
    case KERN_DENSE_FPROP:
        return product(w->dim, 1, w->rank);
    case KERN_CONV_TRANSPOSE_FPROP:
        return product(w->dim, 2, w->rank) * (double)w->dim[0] /
               p->attr.conv.groups;
    case KERN_CONV_WGRAD:
        return product(w->dim, 0, w->rank) / (double)w->dim[1];
    case KERN_MATMUL:
        return x->rank > 1 && p->attr.matmul.transpose_a
                   ? (double)x->dim[x->rank - 2]
                   : (double)x->dim[x->rank - 1];
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
        for (int i = 0; i < x->rank - 2; i++)
            n *= p->attr.pool.window[i];
        return n;
    case KERN_LAYER_NORM:
    case KERN_LAYER_NORM_DGRAD:
        return product(x->dim, p->attr.norm.axis, x->rank);
    case KERN_GROUP_NORM:
    case KERN_GROUP_NORM_DGRAD:
        return product(x->dim, 1, x->rank) / p->attr.norm.groups;
    case KERN_LRN:
    case KERN_LRN_DGRAD:
        return p->attr.lrn.size;
    case KERN_SOFTMAX:
        return (double)x->dim[p->attr.softmax.axis];
    case KERN_CUMULATE:
        return (double)x->dim[p->attr.cumulate.axis];
    case KERN_SCATTER_ELEMENTS: /* all updates may go to one element */
        return 1 + (double)w->dim[p->attr.scatter.axis];
    case KERN_REDUCE:
        for (int i = 0; i < x->rank; i++)
            if (p->attr.reduce.axes >> i & 1)
                n *= (double)x->dim[i];
        return n;
    case KERN_SQUEEZE_EXCITE:
        return product(x->dim, 1, x->rank) + (double)w->dim[0];
    case KERN_CHAIN: /* of the second convolution */
        return (double)p->in[CHAIN_W2].dim[1];
    case KERN_REDUCE_DGRAD: /* a norm is a sum over all that it covers */
        return p->attr.reduce.kind == KERN_REDUCE_L2
                   ? product(p->out[0].dim, 0, p->out[0].rank) /
                             product(x->dim, 0, x->rank) +
                         4
                   : 4;
    case KERN_RESIZE:
    case KERN_RESIZE_DGRAD:
        return largest(x) > largest(&p->out[0]) ? largest(x)
                                                : largest(&p->out[0]);
    case KERN_ATTENTION: /* the sum over the keys */
        return (double)p->in[KERN_ATTENTION_K].dim[x->rank - 3];
    case KERN_RECURRENT:
        return (double)w->dim[1];
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
    case KERN_UNARY:
    case KERN_PRELU:
    case KERN_BINARY:
    case KERN_REQUANTIZE:
    case KERN_WHERE:
    case KERN_ARG_REDUCE:
    case KERN_GATHER:
    case KERN_GATHER_ELEMENTS:
    case KERN_TOP_K:
    case KERN_NMS:
    case KERN_PAD:
    case KERN_COPY:
    case KERN_BATCH_NORM_TRAIN:
    case KERN_BATCH_NORM_DGRAD:
    case KERN_UNARY_DGRAD:
    case KERN_PRELU_DGRAD:
    case KERN_DROPOUT:
    case KERN_CROSS_ENTROPY:
    case KERN_STEP:
    case KERN_UPDATE:
    case KERN_OP_COUNT:
        break;
    }
    return 4; /* a product, a sum, a residual and room */
}

/* ---- exactness ----------------------------------------------------- */

/* Powers of two and small integers: products with them are exact. */
static bool is_plain(float v)
{
    return v == 0 || (fabsf(v) <= 64 && v * 8 == floorf(v * 8));
}

static bool has_plain_params(const struct kern_unary *f)
{
    const int n = kern_unary_info(f->kind)->params;

    return (n < 1 || is_plain(f->a)) && (n < 2 || is_plain(f->b));
}

static bool unary_is_exact(const struct kern_unary *f)
{
    return kern_unary_info(f->kind)->exact && has_plain_params(f);
}

/* True if the derivative at an integer is a small number. */
static bool derivative_is_exact(const struct kern_unary *f)
{
    const struct kern_unary_info *info = kern_unary_info(f->kind);

    return (info->exact || info->exact_derivative) && has_plain_params(f);
}

static bool binary_is_exact(const struct kern_problem *p)
{
    return scalar_is_integer(p->in[0].dtype) ||
           (p->attr.binary.kind != KERN_POW && p->attr.binary.kind != KERN_DIV);
}

/* Where a mean is a multiple of 1 / pixels, a power of 2, and the largest sum
 * on small integers (exact_value()) still has fewer such units than single
 * precision has; the functions take up to three binary places each. */
static bool squeeze_is_exact(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];
    const double pixels = product(x->dim, 2, x->rank);
    const double hidden = 2 * 3 * (double)x->dim[1] + 3;
    int exponent;

    return unary_is_exact(&p->attr.squeeze_excite.act) &&
           frexp(pixels, &exponent) == 0.5 &&
           64 * pixels * (2 * hidden * (double)p->in[1].dim[0] + 3) <= 0x1p24;
}

/* Where the type of the activations holds every middle value on small integers
 * (exact_value()); other functions may take more binary places. */
static bool chain_is_exact(const struct kern_problem *p)
{
    const struct kern_tensor *w = &p->in[CHAIN_W];
    const enum kern_unary_kind act = p->attr.chain.act.kind;
    const double most = 2 * 3 * product(w->dim, 1, w->rank) + 3;
    const enum infer_dtype dtype = p->in[CHAIN_X].dtype;

    return (act == KERN_IDENTITY || act == KERN_RELU) &&
           most <= (dtype == INFER_BF16  ? 0x1p8
                    : dtype == INFER_F16 ? 0x1p11
                                         : 0x1p24);
}

bool data_is_exact(const struct kern_problem *p)
{
    if (!unary_is_exact(&p->epilogue.act) || kern_op_info(p->op)->inexact)
        return false;
    switch (p->op) {
    case KERN_DROPOUT: /* 1 / (1 - ratio) is a power of 2 */
        return p->attr.dropout.ratio == 0 || p->attr.dropout.ratio == 0.5f ||
               p->attr.dropout.ratio == 0.75f;
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
        return p->attr.pool.kind == KERN_POOL_MAX;
    case KERN_UNARY_DGRAD:
        return derivative_is_exact(&p->attr.unary);
    case KERN_REDUCE_DGRAD:
        return p->attr.reduce.kind != KERN_REDUCE_MEAN &&
               p->attr.reduce.kind != KERN_REDUCE_L2;
    case KERN_UNARY:
        return unary_is_exact(&p->attr.unary);
    case KERN_BINARY:
        return binary_is_exact(p);
    case KERN_MATMUL:
        return is_plain(p->attr.matmul.alpha);
    case KERN_REDUCE:
        return scalar_is_integer(p->in[0].dtype) ||
               (p->attr.reduce.kind != KERN_REDUCE_MEAN &&
                p->attr.reduce.kind != KERN_REDUCE_L2);
    case KERN_CHAIN:
        return chain_is_exact(p);
    case KERN_SQUEEZE_EXCITE:
        return squeeze_is_exact(p);
    case KERN_RESIZE:
    case KERN_RESIZE_DGRAD:
        return p->attr.resize.mode == KERN_NEAREST;
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_CONV_WGRAD:
    case KERN_DENSE_FPROP:
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
    case KERN_PRELU:
    case KERN_PRELU_DGRAD:
    case KERN_REQUANTIZE:
    case KERN_WHERE:
    case KERN_ARG_REDUCE:
    case KERN_GATHER:
    case KERN_GATHER_ELEMENTS:
    case KERN_SCATTER_ELEMENTS:
    case KERN_CUMULATE:
    case KERN_TOP_K:
    case KERN_NMS:
    case KERN_PAD:
    case KERN_COPY:
        return true;
    case KERN_LAYER_NORM: /* inexact in kernels/ops.def, as the others here */
    case KERN_GROUP_NORM:
    case KERN_LRN:
    case KERN_SOFTMAX:
    case KERN_ATTENTION:
    case KERN_RECURRENT:
    case KERN_BATCH_NORM_TRAIN:
    case KERN_BATCH_NORM_DGRAD:
    case KERN_LAYER_NORM_DGRAD:
    case KERN_GROUP_NORM_DGRAD:
    case KERN_LRN_DGRAD:
    case KERN_CROSS_ENTROPY:
    case KERN_STEP:
    case KERN_UPDATE:
    case KERN_OP_COUNT:
        break;
    }
    return false;
}

bool data_output_is_exact(const struct kern_problem *p, int o)
{
    /* An accumulator's sums of integers need not be integers: what comes
     * behind a bias rounds. */
    if (accumulator_of(p) && (kern_problem_in(p, kern_op_residual(p->op)) ||
                              p->epilogue.act.kind != KERN_IDENTITY))
        return false;
    return data_is_exact(p) && !(p->op == KERN_CONV_FPROP && o == 1);
}

/* ---- values -------------------------------------------------------- */

/* Long sums with 16-bit results are thinned out, so that most of them stay
 * below 2048 (fp16) and 256 (bf16), where integers are exact. */
static double sparse(const struct kern_problem *p, struct rng *rng, double v)
{
    const double n = problem_terms(p);
    const bool narrow =
        p->out[0].dtype == INFER_F16 || p->out[0].dtype == INFER_BF16;

    if (!narrow || n <= 64)
        return v;
    return rng_chance(rng, (int)(6400 / n) + 1) ? v : 0;
}

static bool is_product(enum kern_op op)
{
    return op == KERN_CONV_WGRAD ||
           (kern_op_info(op)->product && op != KERN_SQUEEZE_EXCITE);
}

/* True if the operation divides by input i. */
static bool divides_by(const struct kern_problem *p, int i)
{
    return p->op == KERN_BINARY && i == 1 &&
           (p->attr.binary.kind == KERN_DIV || p->attr.binary.kind == KERN_MOD);
}

static bool is_power(const struct kern_problem *p)
{
    return p->op == KERN_BINARY && p->attr.binary.kind == KERN_POW;
}

/* True for products of many elements. */
static bool is_reduce_product(const struct kern_problem *p)
{
    return (p->op == KERN_REDUCE && p->attr.reduce.kind == KERN_REDUCE_PROD) ||
           (p->op == KERN_CUMULATE && p->attr.cumulate.product) ||
           (p->op == KERN_SCATTER_ELEMENTS &&
            p->attr.scatter.kind == KERN_SCATTER_MUL);
}

static double exact_value(const struct kern_problem *p, int i, struct rng *rng)
{
    if (is_product(p->op) && p->op != KERN_CHAIN && i == 1)
        return sparse(p, rng, (double)rng_range(rng, -2, 2));
    if (p->op == KERN_CHAIN && i == CHAIN_W2)
        return sparse(p, rng, (double)rng_range(rng, -2, 2));
    if ((p->op == KERN_SQUEEZE_EXCITE || p->op == KERN_CHAIN) &&
        (i == 1 || i == 2))
        return (double)rng_range(rng, -2, 2);
    /* var + epsilon is 1 or 4; epsilon a power of 2 */
    if (p->op == KERN_BATCH_NORM && i == 4)
        return (rng_chance(rng, 50) ? 1 : 4) - (double)p->attr.norm.epsilon;
    if (divides_by(p, i))
        return (double)(rng_range(rng, 1, 4) * (rng_chance(rng, 50) ? 1 : -1));
    if (is_power(p) && i == 1)
        return (double)rng_range(rng, 0, 3);
    if (is_reduce_product(p))
        return rng_chance(rng, 50) ? 1 : -1;
    return (double)rng_range(rng, -3, 3);
}

/* Away from zero, either sign. */
static double away(struct rng *rng)
{
    const double v = rng_real(rng);

    return v < 0 ? -0.5 + v : 0.5 + v;
}

static double unary_value(const struct kern_problem *p, struct rng *rng)
{
    switch (kern_unary_info(p->attr.unary.kind)->domain) {
    case KERN_POSITIVE:
        return fabs(away(rng)) * 4;
    case KERN_NONZERO:
        return away(rng);
    case KERN_UNIT:
        return rng_real(rng) * 0.9;
    case KERN_ABOVE_ONE:
        return 1 + fabs(away(rng)) * 4;
    case KERN_REALS:
        break;
    }
    return rng_real(rng) * 6;
}

static double real_value(const struct kern_problem *p, int i, struct rng *rng)
{
    if (p->op == KERN_UNARY ||
        (p->op == KERN_UNARY_DGRAD && (i == 1 || i == 2)))
        return unary_value(p, rng);
    if (p->op == KERN_BATCH_NORM && i == 4)
        return fabs(away(rng));
    /* Such that a step does not enlarge the errors of those before it. */
    if (p->op == KERN_RECURRENT && i == RECURRENT_W)
        return rng_real(rng) / (2 * problem_terms(p));
    if (p->op == KERN_RECURRENT && i == RECURRENT_PEEPHOLE)
        return rng_real(rng) / 4;
    if (p->op == KERN_SOFTMAX || p->op == KERN_CROSS_ENTROPY)
        return rng_real(rng) * 8;
    if (is_power(p))
        return i == 0 ? fabs(away(rng)) : rng_real(rng) * 2;
    if (is_reduce_product(p) || divides_by(p, i))
        return away(rng);
    return rng_real(rng);
}

/* The axis that input 1 names elements along, -1 for none. */
static int index_axis(const struct kern_problem *p)
{
    if (p->op == KERN_SCATTER_ELEMENTS)
        return p->attr.scatter.axis;
    return p->op == KERN_GATHER || p->op == KERN_GATHER_ELEMENTS
               ? p->attr.gather.axis
               : -1;
}

/* Integers of any type: within what it holds; sums stay inside 32 bits. */
static int64_t integer_value(const struct kern_problem *p, int i,
                             enum pass pass, struct rng *rng)
{
    const int axis = index_axis(p);

    if (p->op == KERN_RECURRENT) /* lengths */
        return rng_range(rng, 0, p->in[0].dim[1] + 1);
    if (axis >= 0 && i == 1) {
        const int64_t n = p->in[0].dim[axis];
        return rng_range(rng, -n, n - 1);
    }
    if (p->op == KERN_BINARY || pass != PASS_REAL || is_reduce_product(p))
        return (int64_t)exact_value(p, i, rng);
    if (quant_of(p))
        return p->in[i].dtype == INFER_U8 ? rng_range(rng, 0, 255)
                                          : rng_range(rng, -128, 127);
    return rng_range(rng, -100, 100);
}

/* What lies at a limit or is no factor, and of floats no integer. */
static double requantize_limit(int i, bool floats, struct rng *rng)
{
    static const double values[][6] = {
        {INT32_MIN, INT32_MAX, -1, 1, 0, 1 << 30},
        {INT32_MIN, INT32_MAX, -1, 1, 0, 1 << 30},
        {INT32_MIN, INT32_MAX, -32, 31, -31, 30},
        {INT32_MIN, INT32_MAX, -1, 1, 0, 1 << 30},
    };
    static const float reals[] = {NAN,      INFINITY, -INFINITY, 0x1p31f,
                                  -0x1p31f, 0.5f,     1.5f,      -2.5f};
    const int n = (int)(sizeof reals / sizeof *reals);

    if (i == 0 && floats)
        return (double)reals[rng_range(rng, 0, n - 1)];
    return values[i][rng_range(rng, 0, 5)];
}

/* Sums, factors of all sizes with most near 2^-8, addends. */
static double requantize_value(const struct kern_problem *p, int i,
                               struct rng *rng)
{
    const bool floats = p->in[0].dtype != INFER_I32;
    const int64_t most = !floats                                ? INT32_MAX
                         : infer_dtype_size(p->in[0].dtype) < 4 ? 256
                                                                : 1 << 24;

    if (rng_chance(rng, 4))
        return requantize_limit(i, floats, rng);
    switch (i) {
    case 0:
        return (double)(rng_chance(rng, 80)
                            ? rng_range(rng, -most / 256, most / 256)
                            : rng_range(rng, -most, most));
    case 1:
        return (double)rng_range(rng, rng_chance(rng, 95) ? 1 << 30 : 0,
                                 INT32_MAX);
    case 2:
        return (double)(rng_chance(rng, 70) ? rng_range(rng, -12, 0)
                                            : rng_range(rng, -31, 30));
    default:
        return (double)rng_range(rng, -1000, 1000);
    }
}

bool data_takes_infinite(const struct kern_problem *p)
{
    return (is_product(p->op) || p->op == KERN_POOL_FPROP) &&
           scalar_is_float(p->in[0].dtype);
}

/* Puts one or two infinities of either sign, or NaN, among the activations. */
static void add_infinities(enum infer_dtype dtype, struct rng *rng,
                           int64_t count, void *dense)
{
    const int64_t n = count > 0 ? rng_range(rng, 1, 2) : 0;

    for (int64_t i = 0; i < n; i++)
        scalar_store(dtype, dense, rng_range(rng, 0, count - 1),
                     rng_chance(rng, 20)   ? NAN
                     : rng_chance(rng, 50) ? INFINITY
                                           : -INFINITY);
}

/* True of the bias of a layer on integers with a smooth activation, whose
 * output of 8 bits is the same number in every row, whatever it is given. */
static bool may_be_infinite(const struct kern_problem *p, int i)
{
    return i == 2 && is_product(p->op) && quant_of(p) &&
           scalar_is_integer(p->in[0].dtype) &&
           scalar_is_integer(p->out[0].dtype) &&
           quant_is_smooth(p->epilogue.act.kind);
}

void data_fill(const struct kern_problem *p, int i, enum pass pass,
               struct rng *rng, int64_t count, void *dense)
{
    const enum infer_dtype dtype = p->in[i].dtype;

    if (p->op == KERN_REQUANTIZE) {
        for (int64_t at = 0; at < count; at++)
            scalar_store(dtype, dense, at, requantize_value(p, i, rng));
        return;
    }
    if (i == PRODUCT_TABLE_IN && product_table_of(p) && quant_of(p)) {
        /* Rows may have a way for errors of 16 bits. */
        const bool wide = rng_chance(rng, 50);
        for (int64_t at = 0; at < count; at++)
            scalar_store(dtype, dense, at,
                         wide && rng_chance(rng, 2)
                             ? (double)rng_range(rng, -262144, 262144)
                             : (double)rng_range(rng, -300, 300));
        return;
    }
    if (i == PRODUCT_TABLE_IN && product_slope_of(p)) {
        for (int64_t at = 0; at < count; at++)
            scalar_store(dtype, dense, at,
                         pass == PASS_REAL ? 2 * rng_real(rng)
                         : pass == PASS_INFINITE && rng_chance(rng, 2)
                             ? (double)INFINITY
                             : (double)rng_range(rng, -2, 2));
        return;
    }
    if (i == PRODUCT_TABLE_IN && product_table_of(p)) {
        data_fill_table(pass, rng, count, dense);
        return;
    }
    if (&p->in[i] == accumulator_of(p)) {
        ((int32_t *)dense)[0] =
            (int32_t)rng_range(rng, 0, ACCUMULATOR_KINDS - 1);
        ((int32_t *)dense)[1] =
            rng_chance(rng, 10)
                ? 0
                : (int32_t)rng_range(rng, 0, ACCUMULATOR_MAX_LOWER);
        return;
    }

    for (int64_t at = 0; at < count; at++) {
        double v;
        if (i == QUANT_IN && quant_of(p)) /* scales */
            scalar_store(dtype, dense, at,
                         (double)rng_range(rng, 1, 64) /
                             (scalar_is_float(p->in[0].dtype) ? 64 : 4096));
        else if (data_train(p, i, at, rng, &v))
            scalar_store(dtype, dense, at, v);
        else if (dtype == INFER_BOOL || (p->op == KERN_WHERE && i == 0))
            scalar_store_i64(dtype, dense, at, rng_range(rng, 0, 1));
        else if (scalar_is_integer(dtype))
            scalar_store_i64(dtype, dense, at, integer_value(p, i, pass, rng));
        else
            scalar_store(dtype, dense, at,
                         pass == PASS_REAL ? real_value(p, i, rng)
                                           : exact_value(p, i, rng));
    }
    if ((pass == PASS_INFINITE && i == 0) ||
        (may_be_infinite(p, i) && rng_chance(rng, 50)))
        add_infinities(dtype, rng, count, dense);
}
