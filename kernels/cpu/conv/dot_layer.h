/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows for integers of 8 bits share: which problems they take, the
 * geometry of a layer, the places of its pixels and the end of its sums. */
#ifndef KERNELS_CPU_CONV_DOT_LAYER_H
#define KERNELS_CPU_CONV_DOT_LAYER_H

#include "kernels/cpu/conv/dot.h"
#include "kernels/cpu/cpu.h"
#include "kernels/quant/quant.h"

enum { DOT_X, DOT_W, DOT_BIAS, DOT_RESIDUAL }; /* in[] of a layer */

/* Extents and strides along depth, height, width; those that the problem lacks
 * are 1 and 0.  A dense layer is a window of one. */
struct dot_layer {
    int64_t in[3], out[3], window[3], step[3], dilation[3], pad[3];
    int64_t x[3], y[3], r[3]; /* strides */
    int64_t x_image, y_image, r_image;
    int64_t pixels;            /* of all images */
    int64_t channels, outputs; /* of one group */
    int64_t groups, taps, terms, quads;
};

/* 0, or EUNSUPPORTED with what a row of bytes does not take. */
int dot_conv_supports(const struct kern_problem *p, struct infer_error *why);
int dot_dense_supports(const struct kern_problem *p, struct infer_error *why);

void dot_layer_read(const struct kern_problem *p, struct dot_layer *g);

/* True if each channel has a window and an output of its own. */
static inline bool dot_is_depthwise(const struct dot_layer *g)
{
    return g->groups > 1 && g->channels == 1 && g->outputs == 1;
}

/* True if a window reaches beyond the image's height or width. */
static inline bool dot_is_padded(const struct dot_layer *g)
{
    for (int d = 1; d < 3; d++)
        if (g->pad[d] != 0 || (g->out[d] - 1) * g->step[d] +
                                      (g->window[d] - 1) * g->dilation[d] >=
                                  g->in[d])
            return true;
    return false;
}

/* What bytes of x are xored by to become U8, and the U8 that stands for 0. */
static inline uint8_t dot_flip(const struct kern_problem *p)
{
    return p->in[DOT_X].dtype == INFER_I8 ? 0x80 : 0;
}
static inline int dot_zero(const struct kern_problem *p)
{
    return p->quant.x_zero + dot_flip(p);
}

/* Floats of a vector of all outputs, as dot_layer_vectors() fills it. */
int64_t dot_layer_vector(const struct dot_layer *g);
/* Scales and bias of all channels, and zeros behind them. */
void dot_layer_vectors(const struct dot_layer *g, const struct kern_problem *p,
                       const struct kern_args *args, float *scale, float *bias);
/* The end of the layer but its scale and bias. */
void dot_layer_finish(const struct kern_problem *p,
                      const struct kern_args *args, struct dot_finish *f);

/* ---- pixels -------------------------------------------------------- */

/* Index of an output pixel along the image and the three axes. */
struct dot_at {
    int64_t n, d[3];
};

static inline struct dot_at dot_pixel_at(const struct dot_layer *g, int64_t i)
{
    struct dot_at a;

    for (int d = 2; d >= 0; d--) {
        a.d[d] = i % g->out[d];
        i /= g->out[d];
    }
    a.n = i;
    return a;
}

static inline void dot_next_pixel(const struct dot_layer *g, struct dot_at *a)
{
    for (int d = 2; d >= 0; d--) {
        if (++a->d[d] < g->out[d])
            return;
        a->d[d] = 0;
    }
    a->n++;
}

static inline int64_t dot_place(int64_t image, const int64_t stride[3],
                                const struct dot_at *a)
{
    return a->n * image + a->d[0] * stride[0] + a->d[1] * stride[1] +
           a->d[2] * stride[2];
}

/* Of places base, base + by, ... taps lo .. hi - 1 of `count` lie in [0, n). */
static inline void dot_inside(int64_t base, int64_t by, int64_t n,
                              int64_t count, int64_t *lo, int64_t *hi)
{
    *lo = base >= 0 ? 0 : by == 1 ? -base : (-base + by - 1) / by;
    *hi = n - base <= 0 ? 0 : by == 1 ? n - base : (n - base - 1) / by + 1;
    if (*hi > count)
        *hi = count;
    if (*lo > *hi)
        *lo = *hi;
}

#endif
