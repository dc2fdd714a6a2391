/* SPDX-License-Identifier: Apache-2.0 */
/* The places of pixels and taps, and the tasks that a layer is cut into. */
#include "config.h"

#include <string.h>

#include "kernels/base/product_table.h"
#include "kernels/cpu/table/layer.h"
#include "kernels/table/product_slope.h"

/* ---- places -------------------------------------------------------- */

/* Pixel i of y, of dx or of dy, or row i of a dense layer's input. */
static struct table_place pixel_at(const struct table_job *j, int64_t i)
{
    const struct kern_problem *p = j->p;
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[TABLE_X], *y = j->pixel,
                             *r = j->residual;
    const struct kern_tensor *o = table_is_wgrad(j) ? NULL : j->point;
    const bool dense = p->op == KERN_DENSE_FPROP;
    struct table_place at = {0};

    for (int d = y->rank - (dense ? 2 : 1); d >= 0; d--) {
        const int64_t index = i % y->dim[d];
        if (!dense && d == 1)
            continue;
        i /= y->dim[d];
        at.out += index * y->stride[d];
        at.add += r ? index * r->stride[d] : 0;
        at.point += o ? index * o->stride[d] : 0;
        if (d == 0 || dense)
            at.base += index * x->stride[d];
        else if (p->op == KERN_CONV_TRANSPOSE_FPROP)
            at.at[d - 2] = index + c->pad_begin[d - 2];
        else
            at.at[d - 2] = index * c->stride[d - 2] - c->pad_begin[d - 2];
    }
    at.scalar = at.out;
    return at;
}

/* Channels of a tap, where they are its innermost part. */
static int64_t inner_channels(const struct table_job *j)
{
    const struct kern_tensor *w =
        table_is_wgrad(j) ? &j->p->out[0] : &j->p->in[TABLE_W];

    return j->p->op == KERN_CONV_TRANSPOSE_FPROP ? w->dim[0] / j->groups
                                                 : w->dim[1];
}

/* Tap i of a group: its channels, each with all of its window; with an
 * accumulator the window, each place with all channels. */
static struct table_place tap_at(const struct table_job *j, int64_t group,
                                 int64_t i)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *w =
        table_is_wgrad(j) ? &p->out[0] : &p->in[TABLE_W];
    const struct kern_tensor *x = &p->in[TABLE_X], *r = j->residual;
    const struct kern_tensor *o = table_is_wgrad(j) ? j->point : NULL;
    const bool transposed = p->op == KERN_CONV_TRANSPOSE_FPROP;
    const int channel = transposed ? 0 : 1;
    const int64_t inner = j->accumulator ? inner_channels(j) : 1;
    const int64_t within = i % inner;
    struct table_place at = {0};

    i /= inner;
    for (int d = w->rank - 1; d >= 2; d--) {
        const int64_t index = i % w->dim[d];
        i /= w->dim[d];
        at.at[d - 2] = index * p->attr.conv.dilation[d - 2];
        at.out += index * w->stride[d];
        at.add += r ? index * r->stride[d] : 0;
        at.point += o ? index * o->stride[d] : 0;
    }
    if (j->accumulator)
        i = within;
    at.out += i * w->stride[channel];
    at.add += r ? i * r->stride[channel] : 0;
    at.point += o ? i * o->stride[channel] : 0;
    if (p->op == KERN_DENSE_FPROP) {
        at.base = i * x->stride[x->rank - 1];
    } else {
        const int64_t channels = x->dim[1] / j->groups;
        at.base = (group * channels + i) * x->stride[1];
        if (transposed)
            at.out += group * channels * w->stride[0];
    }
    at.scalar = at.out;
    return at;
}

/* Whether a pixel and a tap meet inside in[0]; *offset: where. */
CPU_INLINE bool is_inside(const struct table_job *j,
                          const struct table_place *pixel,
                          const struct table_place *tap, int64_t *offset)
{
    const struct kern_tensor *x = &j->p->in[TABLE_X];
    const struct kern_conv *c = &j->p->attr.conv;
    const bool transposed = j->p->op == KERN_CONV_TRANSPOSE_FPROP;

    *offset = pixel->base + tap->base;
    for (int d = 0; d < j->spatial; d++) {
        int64_t i = pixel->at[d] + tap->at[d];
        if (transposed) {
            i = pixel->at[d] - tap->at[d];
            if (i < 0)
                return false;
            if (c->stride[d] > 1) { /* divisions are slow */
                if (i % c->stride[d])
                    return false;
                i /= c->stride[d];
            }
        }
        if (i < 0 || i >= x->dim[d + 2])
            return false;
        *offset += i * x->stride[d + 2];
    }
    return true;
}

/* ---- tasks --------------------------------------------------------- */

/* Element i of an input: a float's bits, or an integer's code. */
CPU_INLINE uint32_t element(enum infer_dtype dtype, const void *base, int64_t i)
{
    if (dtype == INFER_U8)
        return ((const uint8_t *)base)[i];
    if (dtype == INFER_I8)
        return ((const uint8_t *)base)[i] ^ 0x80u;
    return ((const uint32_t *)base)[i];
}

static struct table_place place_at(const struct table_job *j, int64_t group,
                                   bool pixel, int64_t i)
{
    return pixel ? pixel_at(j, i) : tap_at(j, group, i);
}

/* Collects `terms` lines and scalars from term `first` on. */
static void collect(const struct table_job *j, struct table_block *b,
                    int64_t first, int64_t terms)
{
    const void *x = j->args->in[TABLE_X], *w = j->args->in[TABLE_W];
    const enum infer_dtype x_type = j->p->in[TABLE_X].dtype;
    const enum infer_dtype w_type = j->p->in[TABLE_W].dtype;
    const uint32_t outside = j->codes ? TABLE_OUTSIDE : 0;
    const struct kern_tensor *v = &j->p->in[TABLE_W];
    const bool wgrad = table_is_wgrad(j);
    const int64_t step =
        v->stride[wgrad || j->p->op == KERN_CONV_TRANSPOSE_FPROP];
    /* Channels of the second operand that belong to other groups. */
    const int64_t before =
        j->p->op == KERN_CONV_TRANSPOSE_FPROP ? 0 : b->group * j->scalars;

    for (int64_t t = 0; t < terms; t++) {
        const struct table_place *term = &b->term[t];
        b->term[t] = place_at(j, b->group, wgrad, first + t);
        b->odd[t] = false;
        b->inside[t] = 0;
        for (int64_t k = 0; k < TABLE_COLUMNS; k++) {
            const struct table_place *column = &b->column[k];
            int64_t at;
            const bool inside =
                k < b->columns &&
                is_inside(j, wgrad ? term : column, wgrad ? column : term, &at);
            b->line[t][k] = inside ? element(x_type, x, at) : outside;
            b->inside[t] |= (uint64_t)inside << k;
            b->odd[t] = b->odd[t] || (b->line[t][k] & PRODUCT_TABLE_EXPONENT) ==
                                         PRODUCT_TABLE_EXPONENT;
        }
        for (int64_t i = 0; i < b->scalars; i++)
            b->scalar[i][t] =
                element(w_type, w,
                        term->scalar + (before + b->first_scalar + i) * step);
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void task(void *context, int64_t i)
{
    const struct table_job *j = context;
    struct table_block b;

    b.first_scalar = i % j->scalar_blocks * TABLE_SCALARS;
    i /= j->scalar_blocks;
    b.first_column = i % j->column_blocks * TABLE_COLUMNS;
    b.group = i / j->column_blocks;
    b.scalars = least(TABLE_SCALARS, j->scalars - b.first_scalar);
    b.columns = least(TABLE_COLUMNS, j->columns - b.first_column);
    if (j->codes)
        memset(b.whole, 0, sizeof b.whole);
    else
        memset(b.total, 0, sizeof b.total);
    if (j->accumulator)
        memset(b.run, 0, sizeof b.run);
    for (int64_t k = 0; k < b.columns; k++)
        b.column[k] =
            place_at(j, b.group, !table_is_wgrad(j), b.first_column + k);
    for (int64_t t = 0; t < j->terms; t += TABLE_TERMS) {
        const int64_t terms = least(TABLE_TERMS, j->terms - t);
        collect(j, &b, t, terms);
        table_add(j, &b, t, terms);
    }
    j->store(j, &b);
}

/* ---- the whole ----------------------------------------------------- */

static int64_t product(const struct kern_tensor *t, int from)
{
    int64_t n = 1;

    for (int i = from; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

void table_describe(struct table_job *j)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *w = &p->in[TABLE_W];
    const bool dense = p->op == KERN_DENSE_FPROP, wgrad = table_is_wgrad(j);
    const int residual = kern_op_residual(p->op);

    j->residual = kern_problem_in(p, residual);
    j->point = product_slope_of(p) ? &p->in[product_point_in(p)] : NULL;
    j->pixel = wgrad ? &p->in[TABLE_DY] : y;
    j->groups = dense ? 1 : p->attr.conv.groups;
    j->spatial = dense ? 0 : y->rank - 2;
    const int64_t channels = j->pixel->dim[dense ? y->rank - 1 : 1];
    j->scalars = channels / j->groups;
    j->pixels = kern_tensor_count(j->pixel) / channels;
    j->taps = p->op == KERN_CONV_TRANSPOSE_FPROP
                  ? w->dim[0] / j->groups * product(w, 2)
                  : product(wgrad ? y : w, 1);
    j->columns = wgrad ? j->taps : j->pixels;
    j->terms = wgrad ? j->pixels : j->taps;
    j->column_blocks = (j->columns + TABLE_COLUMNS - 1) / TABLE_COLUMNS;
    j->scalar_blocks = (j->scalars + TABLE_SCALARS - 1) / TABLE_SCALARS;
}

void table_run(const struct kern_exec *e, struct table_job *j)
{
    kern_cpu_each(cpu_threads_of(e),
                  j->groups * j->column_blocks * j->scalar_blocks, task, j);
}
