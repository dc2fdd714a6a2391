/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and packed weights of the CUDA rows on integers of 8 bits. */
#include "kernels/cuda/quant/quant_pack.h"

#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/quant/act.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

static bool is_stored(enum infer_dtype type)
{
    return quant_is_byte(type) || type == INFER_F32 || type == INFER_F16 ||
           type == INFER_BF16;
}

static bool has_lines(enum kern_unary_kind kind)
{
    return kind == KERN_IDENTITY || kind == KERN_RELU ||
           kind == KERN_LEAKY_RELU || kind == KERN_CLIP;
}

int quant_check(const struct kern_problem *p, bool smooth,
                struct infer_error *why)
{
    const struct kern_tensor *scale = quant_of(p);
    const struct kern_tensor *r = kern_problem_in(p, CONV_RESIDUAL);
    const int64_t step = scale ? scale->stride[0] : 0;

    if (!scale)
        return REFUSE(why, "takes integers of 8 bits with their scales");
    if (!(p->constant_in & 1u << CONV_W) ||
        !kern_tensor_is_dense(&p->in[CONV_W], KERN_NCHW))
        return REFUSE(why, "takes constant dense weights");
    if (step != 0 && step != 1 && scale->dim[0] > 1)
        return REFUSE(why, "takes scales that lie side by side");
    if (!is_stored(p->out[0].dtype) || (r && !is_stored(r->dtype)))
        return REFUSE(why, "takes and gives I8, U8, F32, F16 and BF16");
    if (!has_lines(p->epilogue.act.kind) &&
        !(smooth && quant_is_smooth(p->epilogue.act.kind)))
        return REFUSE(why, "lacks this activation");
    return 0;
}

void quant_pack_tail(const struct kern_problem *p, const int8_t *w, int k,
                     int64_t terms, size_t bytes, void *packed)
{
    unsigned char *to = packed;
    int32_t *offset = (int32_t *)(void *)(to + quant_offset_at(bytes));

    for (int i = 0; i < k; i++, w += terms) {
        int32_t sum = 0;

        for (int64_t t = 0; t < terms; t++)
            sum += w[t];
        offset[i] = sum * p->quant.x_zero;
    }
    memset(to + quant_blank_at(bytes, k), p->quant.x_zero & 255, 16);
}
