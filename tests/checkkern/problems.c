/* SPDX-License-Identifier: Apache-2.0 */
/* A problem from a row, a seed and a number, and what all operations make
 * theirs of; window.c, plain.c and train.c have the operations. */
#include <math.h>
#include <string.h>

#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"
#include "kernels/quant/quant.h"
#include "tests/checkkern/checkkern.h"

/* ---- tensors ------------------------------------------------------- */

/* Any order of dimensions, gaps, reversed and (inputs) broadcast ones. */
static struct kern_tensor make_odd(struct maker *m, enum infer_dtype dtype,
                                   int rank, const int64_t *dim, bool writable)
{
    struct kern_tensor t = {.dtype = dtype, .rank = rank};
    int order[KERN_MAX_RANK];
    int64_t stride = 1;

    for (int i = 0; i < rank; i++) {
        const int j = (int)rng_range(&m->rng, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < rank; i++) {
        const int d = order[i];
        t.dim[d] = dim[d];
        t.stride[d] = rng_chance(&m->rng, 20) ? -stride : stride;
        if (!writable && rng_chance(&m->rng, 10))
            t.stride[d] = 0;
        stride *= dim[d] + (rng_chance(&m->rng, 30) ? 1 : 0);
    }
    return t;
}

struct kern_tensor make_slice(struct maker *m, enum infer_dtype dtype, int rank,
                              const int64_t *dim)
{
    struct kern_tensor t = kern_tensor_dense(dtype, rank, dim, m->layout);
    const int channel = m->layout == KERN_NHWC && rank > 2 ? 1 : rank - 1;
    int64_t stride = 0;

    if (rank < 2)
        return t;
    stride = dim[channel] + (rng_chance(&m->rng, 70) ? 8 : 1) *
                                (int64_t)rng_range(&m->rng, 1, 3);
    t.stride[channel] = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (i == channel)
            continue;
        t.stride[i] = stride;
        stride *= dim[i];
    }
    return t;
}

struct kern_tensor make_tensor(struct maker *m, enum infer_dtype dtype,
                               int rank, const int64_t *dim, bool writable)
{
    const bool strided = m->row->flags & KERN_STRIDED;
    enum kern_layout layout = m->layout;

    /* Rows of fixed strides see others now and then: supports() decides. */
    if (rng_chance(&m->rng, strided ? 40 : 5))
        return make_odd(m, dtype, rank, dim, writable);
    if (rng_chance(&m->rng, 15))
        return make_slice(m, dtype, rank, dim);
    if (rng_chance(&m->rng, strided ? 40 : 10))
        layout = layout == KERN_NCHW ? KERN_NHWC : KERN_NCHW;
    return kern_tensor_dense(dtype, rank, dim, layout);
}

/* Vectors beside activations of 16 bits are F32 on a GPU. */
enum infer_dtype vector_dtype(const struct maker *m)
{
    const bool gpu = m->row->backend == INFER_BACKEND_CUDA ||
                     m->row->backend == INFER_BACKEND_CUDNN;

    return gpu && (m->dtype == INFER_F16 || m->dtype == INFER_BF16) ? INFER_F32
                                                                    : m->dtype;
}

enum infer_dtype bn_stats_dtype(const struct maker *m)
{
    return m->dtype == INFER_F64 ? INFER_F64 : INFER_F32;
}

/* Weights lie row-major as files hold them, whatever the activations do; in
 * training they may lie as the activations do. */
struct kern_tensor make_weights(struct maker *m, int rank, const int64_t *dim)
{
    if (m->changing)
        return kern_tensor_dense(m->dtype, rank, dim,
                                 rng_chance(&m->rng, 50) ? KERN_NCHW
                                                         : KERN_NHWC);
    if (rng_chance(&m->rng, m->row->flags & KERN_STRIDED ? 50 : 10))
        return make_tensor(m, m->dtype, rank, dim, false);
    return kern_tensor_dense(m->dtype, rank, dim, KERN_NCHW);
}

struct kern_tensor make_vectors(struct maker *m, int rank, const int64_t *dim)
{
    struct kern_tensor t = make_weights(m, rank, dim);

    t.dtype = vector_dtype(m);
    return t;
}

struct kern_tensor make_vector(struct maker *m, int64_t n)
{
    return make_vectors(m, 1, &n);
}

/* ---- epilogues ----------------------------------------------------- */

struct kern_unary make_activation(struct rng *r)
{
    static const struct kern_unary some[] = {
        {KERN_IDENTITY, 0, 0},
        {KERN_IDENTITY, 0, 0},
        {KERN_RELU, 0, 0},
        {KERN_RELU, 0, 0},
        {KERN_CLIP, 0, 6},
        {KERN_LEAKY_RELU, 0.25f, 0},
        {KERN_LEAKY_RELU, 0.1f, 0},
        {KERN_SIGMOID, 0, 0},
        {KERN_TANH, 0, 0},
        {KERN_SILU, 1, 0},
        {KERN_HARD_SIGMOID, 0.2f, 0.5f},
        {KERN_HARD_SWISH, 0, 0},
        {KERN_ELU, 1, 0},
        {KERN_GELU, 0, 0},
        {KERN_GELU_TANH, 0, 0},
        {KERN_MISH, 0, 0},
        {KERN_LINEAR, 0.5f, 2},
        {KERN_SOFTPLUS, 0, 0},
    };

    return some[rng_range(r, 0, COUNT(some) - 1)];
}

static bool knows_bias(enum kern_op op)
{
    return op == KERN_CONV_FPROP || op == KERN_CONV_TRANSPOSE_FPROP ||
           op == KERN_DENSE_FPROP;
}

/* The output must be there: the residual has its shape. */
void make_epilogue(struct maker *m)
{
    struct kern_problem *p = m->p;
    const struct kern_tensor *y = &p->out[0];
    const int residual = kern_op_residual(p->op);
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;

    p->epilogue.act = make_activation(&m->rng);
    if (knows_bias(p->op) && rng_chance(&m->rng, 60)) {
        p->in[2] = make_vector(m, y->dim[channel]);
        p->n_in = 3;
    }
    if (residual >= 0 && rng_chance(&m->rng, 40)) {
        p->in[residual] = make_tensor(m, m->dtype, y->rank, y->dim, false);
        p->n_in = residual + 1;
        p->epilogue.residual_last = rng_chance(&m->rng, 30);
    }
}

/* A scale of a byte's tensor, and a zero point within its type. */
static void make_scale(struct maker *m, enum infer_dtype dtype, float *scale,
                       int *zero)
{
    *scale = 0;
    *zero = 0;
    if (!quant_is_byte(dtype))
        return;
    *scale = (float)rng_range(&m->rng, 1, 4000) / 8192;
    if (dtype == INFER_F8E4M3)
        return;
    if (rng_chance(&m->rng, 60))
        *zero = (int)rng_range(&m->rng, 0, 255) - (dtype == INFER_I8 ? 128 : 0);
}

/* This type of integers, or what stands for it beside F8E4M3. */
static enum infer_dtype byte_of(const struct maker *m, enum infer_dtype integer)
{
    return m->dtype == INFER_F8E4M3 ? INFER_F8E4M3 : integer;
}

/* The type of an output or a residual of a layer on bytes; of 16 bits on a GPU
 * alone. */
static enum infer_dtype byte_or_float(struct maker *m)
{
    static const enum infer_dtype some[] = {INFER_I8, INFER_U8, INFER_U8,
                                            INFER_F32};
    enum infer_dtype type = some[rng_range(&m->rng, 0, COUNT(some) - 1)];

    if (type != INFER_F32)
        type = byte_of(m, type);
    if (type != INFER_F32 || m->row->backend != INFER_BACKEND_CUDA ||
        rng_chance(&m->rng, 40))
        return type;
    return rng_chance(&m->rng, 60) ? INFER_F16 : INFER_BF16;
}

void make_quantised(struct maker *m)
{
    struct kern_problem *p = m->p;
    struct kern_tensor *r = p->n_in > 3 ? &p->in[3] : NULL;
    struct kern_quant *q = &p->quant;

    memset(&p->in[4], 0, (KERN_MAX_IN - 4) * sizeof(p->in[0]));
    p->in[1].dtype = quant_weights_of(p->in[0].dtype);
    p->in[2].dtype = p->in[2].dtype == INFER_NONE ? INFER_NONE : INFER_F32;
    p->out[0].dtype = byte_or_float(m);
    p->n_out = 1;
    if (r && r->dtype != INFER_NONE)
        r->dtype = rng_chance(&m->rng, 50) ? p->out[0].dtype : byte_or_float(m);
    p->in[QUANT_IN] =
        kern_tensor_dense(INFER_F32, 1, &p->in[1].dim[0], KERN_NCHW);
    if (rng_chance(&m->rng, 30))
        p->in[QUANT_IN].stride[0] = 0;
    p->n_in = QUANT_IN + 1;
    make_scale(m, p->in[0].dtype, &q->x_scale, &q->x_zero);
    make_scale(m, p->out[0].dtype, &q->y_scale, &q->y_zero);
    /* Sums that fill the type, not only its ends. */
    q->y_scale *= 2 * q->x_scale * sqrtf((float)problem_terms(p));
    make_scale(m, r ? r->dtype : INFER_NONE, &q->residual_scale,
               &q->residual_zero);
}

/* Errors of a multiplier, for rows that know them. */
static void make_errors(struct maker *m)
{
    const bool always = m->row->backend != INFER_BACKEND_REF;
    const int64_t dim[2] = {256, 256};
    struct kern_tensor *t = &m->p->in[PRODUCT_TABLE_IN];

    if (!(m->row->flags & KERN_PRODUCT_TABLE) || m->dtype == INFER_F8E4M3 ||
        !rng_chance(&m->rng, always ? 97 : 25))
        return;
    *t = kern_tensor_dense(INFER_I32, 2, dim, KERN_NCHW);
    if (rng_chance(&m->rng, 50)) {
        t->stride[0] = 1;
        t->stride[1] = 256;
    }
    m->p->n_in = PRODUCT_TABLE_IN + 1;
}

/* Whether the problem becomes one of bytes: always for rows of these alone. */
static bool is_quantised(struct maker *m)
{
    return (m->row->flags & KERN_QUANT) && quant_is_byte(m->dtype) &&
           (m->p->op == KERN_CONV_FPROP || m->p->op == KERN_DENSE_FPROP);
}

/* A copy, pool, function of two arguments, or scale and shift on bytes with
 * scales; rows for
 * integers alone meet few others. */
static void make_scaled(struct maker *m)
{
    const bool often = m->row->backend != INFER_BACKEND_REF;
    struct kern_problem *p = m->p;
    struct kern_quant *q = &p->quant;

    if (!(m->row->flags & KERN_QUANT) || !rng_chance(&m->rng, often ? 85 : 20))
        return;
    p->out[0].dtype = byte_or_float(m);
    if (m->row->dtype == INFER_NONE)
        p->in[0].dtype = byte_or_float(m);
    if (p->op == KERN_POOL_FPROP && !quant_is_byte(p->in[0].dtype))
        p->in[0].dtype = byte_of(m, INFER_I8);
    if (p->op == KERN_COPY && p->in[0].dtype == INFER_F32 &&
        p->out[0].dtype == INFER_F32)
        p->out[0].dtype = byte_of(m, INFER_U8);
    make_scale(m, p->in[0].dtype, &q->x_scale, &q->x_zero);
    make_scale(m, p->out[0].dtype, &q->y_scale, &q->y_zero);
    if (p->op == KERN_SCALE_SHIFT) {
        for (int i = 1; i <= 2; i++)
            if (p->in[i].dtype != INFER_NONE)
                p->in[i].dtype = INFER_F32;
        if (p->in[0].dtype == INFER_F32 && p->out[0].dtype == INFER_F32)
            p->out[0].dtype = byte_of(m, INFER_I8);
        make_scale(m, p->out[0].dtype, &q->y_scale, &q->y_zero);
        p->n_in = 3;
        memset(&p->in[3], 0, sizeof(p->in[3]));
        return;
    }
    if (p->op != KERN_BINARY)
        return;
    p->in[1].dtype =
        quant_is_byte(p->in[0].dtype) ? byte_or_float(m) : byte_of(m, INFER_I8);
    p->n_in = 2;
    make_scale(m, p->in[1].dtype, &q->residual_scale, &q->residual_zero);
    if (p->attr.binary.kind > KERN_MUL && rng_chance(&m->rng, often ? 90 : 20))
        p->attr.binary.kind = KERN_MUL;
}

/* Makes the table one of derivatives, with their point. */
static void make_slopes(struct maker *m)
{
    struct kern_problem *p = m->p;
    const bool first = p->op == KERN_CONV_WGRAD && rng_chance(&m->rng, 40);
    const int at = first ? PRODUCT_POINT_FIRST_IN : PRODUCT_POINT_IN;

    p->in[PRODUCT_TABLE_IN].dtype = INFER_F32;
    p->in[at] = make_tensor(m, INFER_F32, p->out[0].rank, p->out[0].dim, false);
    if (p->n_in <= at)
        p->n_in = at + 1;
}

/* Gives the products factors: one for each operand's index (one-hot), or any
 * number. */
static void make_factors(struct maker *m, int bits)
{
    struct kern_problem *p = m->p;
    const int at = product_factors_in(p->op);
    const bool one_hot = bits <= 4 && rng_chance(&m->rng, 50);
    const int64_t dim[3] = {2, INT64_C(1) << bits,
                            one_hot ? INT64_C(1) << bits
                            : rng_chance(&m->rng, 30)
                                ? 1
                                : rng_range(&m->rng, 2, PRODUCT_FACTORS_MOST)};

    p->in[at] = kern_tensor_dense(INFER_BF16, 3, dim, KERN_NCHW);
    if (p->n_in <= at)
        p->n_in = at + 1;
}

/* Gives the products an accumulator.  Of two such problems in three only the
 * sums are stored, which rows must give bit by bit. */
static void make_accumulator(struct maker *m)
{
    struct kern_problem *p = m->p;
    const int at = accumulator_in(p->op), residual = kern_op_residual(p->op);
    const int64_t dim[1] = {2};

    p->in[at] = kern_tensor_dense(INFER_I32, 1, dim, KERN_NCHW);
    if (p->n_in <= at)
        p->n_in = at + 1;
    if (rng_chance(&m->rng, 33))
        return;
    memset(&p->in[residual], 0, sizeof p->in[residual]);
    if (p->op != KERN_CONV_WGRAD)
        memset(&p->in[2], 0, sizeof p->in[2]);
    memset(&p->epilogue, 0, sizeof p->epilogue);
}

void make_product_table(struct maker *m)
{
    const bool often = m->row->backend != INFER_BACKEND_REF;
    struct kern_problem *p = m->p;

    if (!(m->row->flags & KERN_PRODUCT_TABLE) ||
        !rng_chance(&m->rng, often ? 97 : 25) || m->dtype == INFER_F64 ||
        kern_problem_in(p, 4))
        return;
    const int bits =
        (int)rng_range(&m->rng, 1, rng_chance(&m->rng, 85) ? 7 : 9);
    const int64_t dim[2] = {INT64_C(1) << bits, INT64_C(1) << bits};
    p->in[PRODUCT_TABLE_IN] = kern_tensor_dense(INFER_U32, 2, dim, KERN_NCHW);
    if (rng_chance(&m->rng, often ? 95 : 50)) { /* rows are contiguous */
        p->in[PRODUCT_TABLE_IN].stride[0] = 1;
        p->in[PRODUCT_TABLE_IN].stride[1] = dim[0];
    }
    p->n_in = PRODUCT_TABLE_IN + 1;
    if (rng_chance(&m->rng, often ? 50 : 20)) {
        make_factors(m, bits);
        return;
    }
    if (rng_chance(&m->rng, 30)) {
        make_accumulator(m);
        return;
    }
    if (p->op != KERN_DENSE_FPROP && rng_chance(&m->rng, 40))
        make_slopes(m);
}

/* ---- shapes -------------------------------------------------------- */

/* Every operation but windows and products meets these first. */
static const struct dims fixed_dims[] = {
    {4, {1, 1, 1, 1}},  {4, {2, 3, 4, 5}},    {4, {1, 64, 7, 7}},
    {4, {1, 33, 5, 9}}, {4, {3, 16, 8, 8}},   {2, {4, 10}},
    {3, {2, 8, 33}},    {5, {1, 6, 3, 4, 5}}, {4, {1, 64, 56, 56}},
};

struct dims make_dims(struct maker *m, int k, int min_rank)
{
    struct dims s = {0};

    if (k < COUNT(fixed_dims))
        return fixed_dims[k];
    s.rank = (int)rng_range(&m->rng, min_rank, 5);
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = rng_range(&m->rng, 1, s.rank > 3 ? 7 : 17);
    if (s.rank > 1 && rng_chance(&m->rng, 30))
        s.dim[1] = rng_range(&m->rng, 16, 40);
    if (s.rank < 4 && rng_chance(&m->rng, 5)) /* more than a block of threads */
        s.dim[rng_range(&m->rng, 0, s.rank - 1)] =
            rng_range(&m->rng, 300, s.rank > 1 ? 1500 : 9000);
    return s;
}

struct kern_tensor make_in(struct maker *m, const struct dims *s)
{
    return make_tensor(m, m->dtype, s->rank, s->dim, false);
}

struct kern_tensor make_out(struct maker *m, const struct dims *s)
{
    return make_tensor(m, m->dtype, s->rank, s->dim, true);
}

/* ---- all ----------------------------------------------------------- */

static enum infer_dtype pick_dtype(struct maker *m, enum kern_op op)
{
    static const enum infer_dtype some[] = {INFER_F32, INFER_F16, INFER_BF16,
                                            INFER_F64};

    if (m->dtype != INFER_NONE)
        return m->dtype;
    if ((m->row->flags & KERN_QUANT) && rng_chance(&m->rng, 20))
        return rng_chance(&m->rng, 50) ? INFER_I8 : INFER_U8;
    if (rng_chance(&m->rng, 50))
        return INFER_F32;
    switch (op) {
    case KERN_POOL_FPROP:
    case KERN_UNARY:
    case KERN_BINARY:
    case KERN_WHERE:
    case KERN_REDUCE:
    case KERN_ARG_REDUCE:
    case KERN_GATHER:
    case KERN_GATHER_ELEMENTS:
    case KERN_SCATTER_ELEMENTS:
    case KERN_CUMULATE:
    case KERN_TOP_K:
    case KERN_PAD:
    case KERN_COPY:
        if (rng_chance(&m->rng, 40))
            return (enum infer_dtype)rng_range(&m->rng, INFER_I64, INFER_U8);
        break;
    default:
        break;
    }
    return some[rng_range(&m->rng, 0, COUNT(some) - 1)];
}

static void make_operation(struct maker *m, int k)
{
    switch (m->p->op) {
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_CONV_WGRAD:
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
        make_window_problem(m, k);
        break;
    default:
        if (m->p->op < KERN_CONV_WGRAD)
            make_plain_problem(m, k);
        else
            make_train_problem(m, k);
        break;
    }
}

/* Most attributes begin with an integer of consequence; not those that begin
 * with a real number or a truth value. */
static void spoil_attribute(struct kern_problem *p, struct rng *r)
{
    int value;

    switch (p->op) {
    case KERN_MATMUL:
    case KERN_ATTENTION:
    case KERN_NMS:
    case KERN_BATCH_NORM:
    case KERN_SCALE_SHIFT:
    case KERN_LAYER_NORM:
    case KERN_GROUP_NORM:
    case KERN_SQUEEZE_EXCITE: /* a function, of which not all have a bounded
                                 slope */
    case KERN_BATCH_NORM_TRAIN:
    case KERN_BATCH_NORM_DGRAD:
    case KERN_LAYER_NORM_DGRAD:
    case KERN_GROUP_NORM_DGRAD:
    case KERN_DROPOUT:
    case KERN_CROSS_ENTROPY:
    case KERN_STEP:
        return;
    default:
        memcpy(&value, &p->attr, sizeof(value));
        value += (int)rng_range(r, -2, 2);
        memcpy(&p->attr, &value, sizeof(value));
    }
}

/* Spoils one number: supports() has to refuse, or the row to be right. */
static void spoil(struct kern_problem *p, struct rng *r)
{
    struct kern_tensor *t =
        rng_chance(r, 50) ? &p->out[0] : &p->in[rng_range(r, 0, p->n_in - 1)];

    switch (rng_range(r, 0, 2)) {
    case 0:
        if (t->rank > 0)
            t->dim[rng_range(r, 0, t->rank - 1)] += rng_range(r, -1, 1);
        break;
    case 1:
        t->rank += (int)rng_range(r, -1, 1);
        break;
    default:
        spoil_attribute(p, r);
        break;
    }
}

int problem_fixed_count(enum kern_op op)
{
    switch (op) {
    case KERN_CONV_FPROP:
    case KERN_CONV_TRANSPOSE_FPROP:
    case KERN_CONV_WGRAD:
    case KERN_POOL_FPROP:
    case KERN_POOL_DGRAD:
        return window_fixed_count(op);
    case KERN_DENSE_FPROP:
        return dense_fixed_count();
    case KERN_CHAIN:
        return chain_fixed_count();
    case KERN_UNARY:
    case KERN_UNARY_DGRAD:
        return KERN_UNARY_COUNT;
    case KERN_BINARY:
        return KERN_BINARY_COUNT;
    default:
        return COUNT(fixed_dims);
    }
}

/* One problem of 16 may be large, and those for which a row cannot be had
 * otherwise.  Of plain operations the values to fill and compare are the work,
 * which their bytes measure. */
bool problem_is_small(const struct problem_id *id, const struct kern_problem *p)
{
    if (id->number % 16 == 0 || id->draw >= PROBLEM_DRAWS / 2)
        return kern_problem_flops(p) <= 2e7;
    return kern_problem_flops(p) <= 1.5e6 && kern_problem_bytes(p) <= 1e6;
}

void problem_make(const struct kern_row *row, const struct problem_id *id,
                  struct kern_problem *out)
{
    const int k = id->number;
    const bool fixed = k < problem_fixed_count(row->op);
    struct maker m = {.row = row,
                      .dtype =
                          row->dtype != INFER_NONE ? row->dtype : id->dtype,
                      .layout = row->layout,
                      .p = out};

    memset(out, 0, sizeof(*out));
    out->op = row->op;
    out->n_out = 1;
    m.rng.state = id->seed ^ ((uint64_t)row->op << 48) ^
                  ((uint64_t)k * 0xd1342543de82ef95u) ^
                  ((uint64_t)id->draw * 0xaf251af3b0f025b5u) ^
                  ((uint64_t)id->dtype << 40);
    m.dtype = pick_dtype(&m, row->op);
    make_operation(&m, k);
    if (is_quantised(&m)) {
        make_quantised(&m);
        make_errors(&m);
    } else if (m.p->op == KERN_COPY || m.p->op == KERN_POOL_FPROP ||
               m.p->op == KERN_BINARY || m.p->op == KERN_SCALE_SHIFT)
        make_scaled(&m);
    else if (kern_op_takes_table(out->op) && scalar_is_float(m.dtype))
        make_product_table(&m);
    /* Weights are known when planning, most of the time. */
    if (out->op < KERN_CONV_WGRAD && !m.changing &&
        (fixed || rng_chance(&m.rng, 80)))
        out->constant_in =
            out->op == KERN_SQUEEZE_EXCITE || out->op == KERN_CHAIN ? 6u
            : kern_op_residual(out->op) == 3                        ? 6u
                                                                    : 2u;
    out->deterministic = rng_chance(&m.rng, 20);
    out->allow_tf32 = (row->flags & KERN_TF32) != 0;
    if (!fixed && out->n_in > 0 && rng_chance(&m.rng, 10))
        spoil(out, &m.rng);
}
