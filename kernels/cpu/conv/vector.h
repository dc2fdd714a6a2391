/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of convolution written with vectors of the widest kind that the
 * machine has, on channels-last tensors.
 *
 * The innermost function is a product of ROWS rows of V, each of C values, with
 * a panel of U, C rows of NB values, that keeps ROWS x NB sums in registers.
 * Panels lie one after the other: U is [panels][C][NB], with zeros after the
 * last output channel.
 */
#ifndef KERNELS_CPU_CONV_VECTOR_H
#define KERNELS_CPU_CONV_VECTOR_H

#include "kernels/cpu/conv/depthwise.h"
#include "kernels/cpu/conv/window.h"
#include "kernels/cpu/conv/winograd.h"

/* The epilogue: applied to sums before they are stored. */
struct vector_epilogue {
    const float *bias;       /* NULL or one per channel */
    struct kern_epilogue of; /* as the problem says */
    /* Bounds cover identity, ReLU and clip (bounded).  Any other function is
     * applied to finished rows (on_rows), or, where the residual is added
     * behind it, to each vector of sums before they are stored. */
    float low, high;
    bool bounded, on_rows;
};

/* Whether a convolution by these loops takes p's tensors and epilogue: 0, or
 * EUNSUPPORTED.  The row checks the window itself. */
int vector_conv_supports(const struct kern_problem *p, struct infer_error *why);
/* Whether conv_fprop_nhwc_f32_cpu_window takes p, wherever the result lies: 0,
 * or EUNSUPPORTED. */
int vector_window_supports(const struct kern_problem *p,
                           struct infer_error *why);
/* Whether conv_fprop_nhwc_f32_cpu_window takes p, several groups to a vector,
 * in less time than oneDNN. */
bool vector_conv_spreads(const struct kern_problem *p);
/* Whether p reads many weights for few pixels, which the loops of this folder
 * do in less time than oneDNN: they fetch weights ahead. */
bool vector_conv_streams(const struct kern_problem *p);
/* Fills all but bias. */
void vector_epilogue_fill(struct vector_epilogue *e,
                          const struct kern_epilogue *of);

/* Rows of a matrix, `step` floats apart. */
struct vector_rows {
    const float *x;
    float *y;
    const float *residual; /* or NULL */
    int64_t x_step, y_step, r_step;
};

struct vector_steps {
    int panel; /* NB */
    /* Winograd: see winograd.h.  Tile t of the convolution goes to row `at` of
     * V.  zeros: C floats. */
    void (*input)(const struct winograd *w, const float *x, const float *zeros,
                  int64_t t, int64_t at, float *v);
    /* Rows [0, rows) of plane xi, panels [from, to). */
    void (*product)(const struct winograd *w, const float *v, const float *u,
                    float *m, int64_t rows, int64_t xi, int64_t from,
                    int64_t to);
    void (*output)(const struct winograd *w, const struct winograd_data *data,
                   int64_t t, int64_t at, const float *m);
    /* y = epilogue(x u), outputs [from, to) x NB of `outputs`. */
    void (*rows)(const struct vector_rows *r, int64_t rows,
                 const struct vector_epilogue *e, const float *u,
                 int64_t channels, int64_t outputs, int64_t from, int64_t to);
    /* Convolution with any window: see window.h. */
    void (*window)(const struct window_run *r, int64_t pixels);
    void (*window_spread)(const struct window_run *r, int64_t pixels);
    void (*spread)(const struct window_spread *s);
    /* A row of a depthwise convolution: see depthwise.h. */
    void (*depthwise)(const struct depthwise_run *d);
};

/* NULL if the machine has neither AVX2 nor AVX-512. */
const struct vector_steps *vector_steps(void);
/* Whether the compiler builds single functions for wider instructions. */
#if defined(__x86_64__) && defined(__GNUC__)
#define VECTOR_LEVELS 1
#endif

extern const struct vector_steps vector_steps_avx512;
extern const struct vector_steps vector_steps_avx2;

#endif
