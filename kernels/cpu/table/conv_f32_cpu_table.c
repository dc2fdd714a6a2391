/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in F32 whose products come from a table: layer.h. */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/table/layer.h"
#include "kernels/table/product_slope.h"

static void store(const struct table_job *j, struct table_block *b)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *r = j->residual;
    const struct kern_tensor *bias =
        table_is_wgrad(j) ? NULL : kern_problem_in(p, TABLE_BIAS);
    const int channel =
        p->op == KERN_DENSE_FPROP ? y->rank - 1 : !table_is_wgrad(j);
    const float *shift = bias ? j->args->in[TABLE_BIAS] : NULL;
    const float *add = r ? j->args->in[kern_op_residual(p->op)] : NULL;
    float *out = j->args->out[0], more[TABLE_COLUMNS];

    for (int64_t i = 0; i < b->scalars; i++) {
        const int64_t k = b->group * j->scalars + b->first_scalar + i;
        float *total = b->total[i];
        for (int64_t c = 0; bias && c < b->columns; c++)
            total[c] += shift[k * bias->stride[0]];
        for (int64_t c = 0; r && c < b->columns; c++)
            more[c] = add[b->column[c].add + k * r->stride[channel]];
        cpu_epilogue(&p->epilogue, total, r ? more : NULL, b->columns);
        for (int64_t c = 0; c < b->columns; c++)
            out[b->column[c].out + k * y->stride[channel]] = total[c];
    }
}

/* The table with the second operand outermost, or that of derivatives. */
static void turn_table(struct table_job *j, uint32_t *to)
{
    const struct kern_tensor *t = product_table_of(j->p);
    const uint32_t *from = j->args->in[PRODUCT_TABLE_IN];

    for (int64_t b = 0; b < t->dim[1]; b++)
        for (int64_t a = 0; a < t->dim[0]; a++)
            *to++ = from[a * t->stride[0] + b * t->stride[1]];
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    struct table_job j = {.p = &e->problem, .args = args, .store = store};

    (void)err;
    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    j.bits = product_table_bits_of(product_table_of(&e->problem));
    table_describe(&j);
    if (accumulator_of(&e->problem))
        j.accumulator = args->in[accumulator_in(e->problem.op)];
    turn_table(&j, args->workspace);
    if (product_slope_of(&e->problem)) {
        j.slopes = args->workspace;
        j.gradient = product_slope_gradient(&e->problem);
    } else {
        j.table = args->workspace;
    }
    table_run(e, &j);
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const int64_t side = product_table_of(&e->problem)->dim[0];

    e->workspace = (size_t)(side * side) * sizeof(uint32_t);
    return cpu_prepare(e, d, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    for (int i = 0; i < p->n_in; i++)
        if (i != PRODUCT_TABLE_IN && kern_problem_in(p, i) &&
            &p->in[i] != product_factors_of(p) &&
            &p->in[i] != accumulator_of(p) && !cpu_is_f32(&p->in[i]))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32");
    if (!cpu_is_f32(&p->out[0]) || p->n_out > 1)
        return error_set(why, INFER_EUNSUPPORTED, "gives one output, F32");
    if (kern_tensor_count(&p->in[TABLE_X]) == 0 ||
        kern_tensor_count(&p->in[TABLE_W]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty inputs");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

KERN_FUNCTIONS(conv_f32_cpu_table) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
