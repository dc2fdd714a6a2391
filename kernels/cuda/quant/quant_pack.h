/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and packed weights of the CUDA rows on integers of 8 bits
 * (kernels/quant/quant.h). */
#ifndef KERNELS_CUDA_QUANT_QUANT_PACK_H
#define KERNELS_CUDA_QUANT_QUANT_PACK_H

#include "kernels/cuda/conv/conv.h"
#include "kernels/quant/quant.h"

/* What holds for every such row beside the geometry: constant dense weights,
 * scales, dense or one for all, and an activation of straight lines or, if the
 * row has them, one of kernels/quant/act.h.  0, or INFER_EUNSUPPORTED. */
int quant_check(const struct kern_problem *p, bool smooth,
                struct infer_error *why);

/* Packed weights of `bytes` bytes are followed by an offset of 4 bytes for each
 * of the k outputs, and by 16 bytes of the zero point; each part begins at a
 * multiple of 16 bytes. */
static inline size_t quant_offset_at(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static inline size_t quant_blank_at(size_t bytes, int k)
{
    return quant_offset_at(quant_offset_at(bytes) + (size_t)k * 4);
}

static inline size_t quant_packed_bytes(size_t bytes, int k)
{
    return quant_blank_at(bytes, k) + 16;
}

/* Writes what follows packed weights: w is the row-major weights, k rows of
 * `terms` each. */
void quant_pack_tail(const struct kern_problem *p, const int8_t *w, int k,
                     int64_t terms, size_t bytes, void *packed);

#endif
