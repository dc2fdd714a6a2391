/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of convolutions and dense layers on integers of 8 bits
 * (kernels/quant/quant.h), for the widest instructions that the machine has.
 *
 * The product takes rows of U8 values and panels of I8 weights: four terms side
 * by side make a quad, and a panel is [quads][outputs of a panel][4].  An I8
 * input is moved by 128 first, and the constant part that the zero point adds
 * to every sum, padding included, is taken off at the end (`offset`).
 */
#ifndef KERNELS_CPU_CONV_DOT_H
#define KERNELS_CPU_CONV_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"

/* Most outputs of a panel: vectors read so many behind the last channel. */
#define DOT_MAX_PANEL 32

/* The end of a layer: what becomes of the sum of channel k. */
struct dot_finish {
    void *y;
    const void *residual;          /* or NULL */
    enum infer_dtype y_type, type; /* type: of the residual */
    const float *scale, *bias;     /* of each channel, and DOT_MAX_PANEL more */
    float act_low, act_high;       /* the activation */
    float inverse, low, high;      /* of an integer y: 1 / scale, limits */
    int zero;
    float r_scale;
    int r_zero;
    bool residual_last;
};

/* Rows of the product, `step` bytes apart. */
struct dot_rows {
    const uint8_t *x;
    int64_t step, rows, quads;
    const int64_t *y_at, *r_at; /* of each row: its first channel's place */
    const int8_t *w;            /* one panel */
    const int32_t *offset;      /* of the panel's outputs */
    int64_t k, n;               /* first channel; channels of the panel */
};

/* One output pixel of a depthwise layer. */
struct dot_pixel {
    const void *x; /* pixel of tap 0, which may lie outside */
    bool is_signed;
    int x_zero;
    int64_t channels;
    const int32_t *w;   /* [taps][channels rounded up to DOT_MAX_PANEL] */
    const int64_t *tap; /* offsets of the taps inside, and their numbers */
    const int *number;
    int taps;
    int64_t y_at, r_at;
};

struct dot_steps {
    int panel; /* outputs of a panel */
    void (*rows)(const struct dot_rows *r, const struct dot_finish *f);
    void (*pixel)(const struct dot_pixel *p, const struct dot_finish *f);
};

/* Those of this machine. */
const struct dot_steps *dot_steps(void);

extern const struct dot_steps dot_steps_avx512, dot_steps_avx2;

#endif
