/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in 8 bits whose products come from a table: layer.h. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/cpu/conv/dot_layer.h"
#include "kernels/cpu/table/layer.h"
#include "kernels/quant/act.h"

/* A residual of integers or floats, added to v. */
static float add_residual(const struct table_job *j, int64_t at, float v)
{
    const struct kern_quant *q = &j->p->quant;
    const void *r = j->args->in[kern_op_residual(j->p->op)];
    const enum infer_dtype dtype = j->residual->dtype;

    if (dtype == INFER_F32)
        return v + ((const float *)r)[at];
    const int code =
        dtype == INFER_I8 ? ((const int8_t *)r)[at] : ((const uint8_t *)r)[at];
    return fmaf((float)(code - q->residual_zero), q->residual_scale, v);
}

/* Stores v as a float or an integer. */
static void store_one(const struct table_job *j, int64_t at, float v)
{
    const enum infer_dtype dtype = j->p->out[0].dtype;
    float low, high;

    if (dtype == INFER_F32) {
        ((float *)j->args->out[0])[at] = v;
        return;
    }
    quant_limits(dtype, j->p->quant.y_zero, &low, &high);
    v = fminf(fmaxf(v * (1 / j->p->quant.y_scale), low), high);
    /* I8 and U8 have the same low bits. */
    ((uint8_t *)j->args->out[0])[at] =
        (uint8_t)((int)nearbyintf(v) + j->p->quant.y_zero);
}

/* The end of a layer on integers. */
static void store_codes(const struct table_job *j, struct table_block *b)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *y = &p->out[0], *r = j->residual;
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    const float *bias =
        kern_problem_in(p, TABLE_BIAS) ? j->args->in[TABLE_BIAS] : NULL;
    const float *scale = j->args->in[QUANT_IN];
    const bool last = p->epilogue.residual_last;
    float low, high;

    (void)cpu_act_bounds(&p->epilogue.act, &low, &high);
    for (int64_t i = 0; i < b->scalars; i++) {
        const int64_t k = b->group * j->scalars + b->first_scalar + i;
        const float factor =
            p->quant.x_scale * scale[k * p->in[QUANT_IN].stride[0]];
        for (int64_t c = 0; c < b->columns; c++) {
            const int64_t at =
                r ? b->column[c].add + k * r->stride[channel] : 0;
            float v =
                fmaf((float)b->whole[i][c], factor, bias ? bias[k] : 0.0f);
            if (r && !last)
                v = add_residual(j, at, v);
            v = quant_is_smooth(p->epilogue.act.kind)
                    ? quant_act(&p->epilogue.act, v)
                    : fminf(fmaxf(v, low), high);
            if (r && last)
                v = add_residual(j, at, v);
            store_one(j, b->column[c].out + k * y->stride[channel], v);
        }
    }
}

/* Products of codes: rows of a weight, [TABLE_CODE_ROW] each. */
static void make_codes(struct table_job *j)
{
    const struct kern_problem *p = j->p;
    const struct kern_tensor *t = product_table_of(p);
    const int32_t *error = j->args->in[PRODUCT_TABLE_IN];
    const int zero =
        p->quant.x_zero + (p->in[TABLE_X].dtype == INFER_I8 ? 128 : 0);

    memset(j->codes, 0, sizeof(int32_t) * 256 * TABLE_CODE_ROW);
    for (int k = 0; k < 256; k++)
        for (int i = 0; i < 256; i++)
            j->codes[k * TABLE_CODE_ROW + i] =
                (i - zero) * (k - 128) +
                error[i * t->stride[0] + k * t->stride[1]];
}

static int launch_codes(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    struct table_job j = {.p = &e->problem,
                          .args = args,
                          .codes = args->workspace,
                          .store = store_codes};

    (void)err;
    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    table_describe(&j);
    make_codes(&j);
    table_run(e, &j);
    return 0;
}

static int prepare_codes(struct kern_exec *e, const struct kern_device *d,
                         struct infer_error *err)
{
    e->workspace = sizeof(int32_t) * 256 * TABLE_CODE_ROW;
    return cpu_prepare(e, d, err);
}

static int supports_codes(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    if (kern_tensor_count(&p->in[TABLE_X]) == 0 ||
        kern_tensor_count(&p->in[TABLE_W]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty inputs");
    return p->op == KERN_DENSE_FPROP ? dot_dense_supports(p, why)
                                     : dot_conv_supports(p, why);
}

KERN_FUNCTIONS(conv_8bit_cpu_table) = {
    .supports = supports_codes,
    .prepare = prepare_codes,
    .launch = launch_codes,
    .release = cpu_release,
};
