/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host code shared by the CUDA rows of convolution and dense layers: the
 * problem as one matrix product, its limits, and packing of weights.
 *
 * y[m, k] = sum over d of x[m, d] * w[k, d], where m counts the output pixels
 * (n, p, q), k the output channels and d = (r, s, c) the window, channels
 * innermost.  A dense layer is a convolution with a 1x1 window over an image
 * of one pixel.
 */
#ifndef KERNELS_CUDA_CONV_CONV_H
#define KERNELS_CUDA_CONV_CONV_H

#include "kernels/kern.h"

/* in[] of a convolution and of a dense layer. */
enum { CONV_X, CONV_W, CONV_BIAS, CONV_RESIDUAL };

/* Passed to kernels by value.  All products of extents fit 31 bits, offsets of
 * padding pixels included. */
struct conv_geometry {
    int n, h, w, c; /* input */
    int p, q, k;    /* output */
    int r, s;       /* window */
    int stride_h, stride_w;
    int dilation_h, dilation_w;
    int pad_top, pad_left;
    int groups, cg, kg;   /* channels of one group */
    int x_pitch;          /* elements from pixel to pixel; c where x is dense */
    int y_pitch, r_pitch; /* of the output and of the residual, likewise */
    int m;                /* n * p * q */
    int depth;            /* r * s * cg */
};

/* Reads the geometry of a conv_fprop (1-D or 2-D) or dense_fprop problem and
 * checks what holds for every CUDA row of these operations: dense channels-last
 * activations of one type, F32 bias, sizes within 31 bits.  0, or
 * INFER_EUNSUPPORTED with the reason in *why. */
int conv_geometry_read(const struct kern_problem *p, struct conv_geometry *g,
                       struct infer_error *why);
/* The same, but activations may be channels of wider tensors: slices of a
 * concatenation, whose pixels lie further apart than their channels. */
int conv_geometry_read_pitched(const struct kern_problem *p,
                               struct conv_geometry *g,
                               struct infer_error *why);

/* Reads a conv_dgrad problem of stride 1 as the convolution that it is: of dy,
 * with the flipped window and the roles of K and C exchanged.  c and k of the
 * geometry are channels of dy and of dx.  The weights are of dy's type and lie
 * dense as [k][r][s][c]. */
int conv_geometry_read_dgrad(const struct kern_problem *p,
                             struct conv_geometry *g, struct infer_error *why);

/* The weights are constant, dense row-major and floating point, so that pack()
 * can take them.  0, or INFER_EUNSUPPORTED. */
int conv_weights_packable(const struct kern_problem *p,
                          struct infer_error *why);

/* How to write a packed weight. */
enum conv_round {
    CONV_ROUND_TYPE, /* to the type alone */
    CONV_ROUND_TF32  /* to the nearest TF32, kept in an F32 */
};

/* Packs row-major w[k][c][r][s] into rows of `pitch` elements, one a k, in the
 * order (r, s, c) with c padded to `channels` (>= cg); padding is 0. */
void conv_pack_rows(const struct conv_geometry *g, enum infer_dtype from,
                    const void *src, enum infer_dtype to, enum conv_round round,
                    int channels, int pitch, void *dst);

/* Splits `count` weights into big parts, in place, and small parts after all of
 * them, both rounded to TF32.  A weight that is not finite becomes the small
 * part; its big part is 1 with its sign. */
void conv_split_tf32(int64_t count, float *w);

/* Packs into F32 [group][depth_pad][kg_pad]: one row a (r, s, c). */
void conv_pack_columns(const struct conv_geometry *g, enum infer_dtype from,
                       const void *src, int depth_pad, int kg_pad, float *dst);

/* Packs depthwise weights (cg == 1) into [r][s][k]. */
void conv_pack_taps(const struct conv_geometry *g, enum infer_dtype from,
                    const void *src, enum infer_dtype to, void *dst);

/* Rounds up to a multiple of `to` > 0. */
static inline int conv_round_up(int n, int to)
{
    return (n + to - 1) / to * to;
}

static inline int conv_ceil_div(int n, int by)
{
    return (n + by - 1) / by;
}

/* Multiprocessors of the device; those of a moderate GPU if it does not say. */
static inline int conv_multiprocessors(const struct kern_device *d)
{
    return d->multiprocessors > 0 ? d->multiprocessors : 64;
}

#endif
