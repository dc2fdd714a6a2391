/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far convolutions by Winograd's and by Fourier's transform may be from the
 * reference on real data.
 *
 * A transform mixes a tile, so what is lost in one element of it reaches all:
 * the magnitudes of an output's own terms, which bound other kernels, say
 * little, least at a corner where few terms are.  What may be lost is derived
 * from the transforms instead.
 *
 * Winograd's F(m x m, 3 x 3) computes Y = A [sum over c of (G w G') . (B x B')]
 * A'.  Every step loses at most u, relative to what it yields.  Rigorously the
 * result loses at most the number of steps times u times the same formula on
 * magnitudes (Barabasz, Anderson, Soodhalter, Gregg: Error analysis and
 * improving the accuracy of Winograd convolution for deep neural networks,
 * 2018).  No result comes near that, since losses are of either sign.  Where
 * they and the activations are independent and of mean 0, as the values of
 * data.c are, variances add up instead, and each matrix takes the squares of
 * its elements.  A loss of at most u has the variance u^2 / 3; with T steps on
 * the way through the transforms and C in the sum over the channels, the
 * output at (p, q) of its tile loses, rms,
 *
 *   u sqrt((C + T) / 3) rms(x) sqrt(sum over c, r, s of w[c,r,s]^2 h[p,r]
 *   h[q,s]),  h[p,r] = sum over i of A[p,i]^2 G[i,r]^2 |B[i]|^2
 *
 * with |B[i]| the norm of a row.  The bound is 8 times that, with the largest
 * h[p,r] of any p, since an output may have any place in its tile.
 *
 * The matrices are those of F(4x4, 3x3) with the points 0, 1, -1, 1/2, -1/2 and
 * infinity, which are those of Lavin and Gray (Fast algorithms for
 * convolutional neural networks, 2016: 2 and -2 instead of the halves) seen
 * from the other end: h is at most 79.4, 10.8 and 4.6.  That cuDNN has these,
 * and not theirs, shows in what it loses by tap and by place in a tile
 * (tests/results/checkkern-cudnn.md).
 *
 * Fourier's transform keeps norms, so that h is 1; it loses u in every step of
 * every stage (Higham: Accuracy and stability of numerical algorithms, 2002,
 * chapter 24).
 *
 * Both hold for the rows that bound_way() names: cuDNN's classic algorithms,
 * bare convolutions that keep transformed values in single precision, those of
 * F16 too.
 */
#include <math.h>
#include <string.h>

#include "tools/verify/verify.h"

enum bound_way bound_way(const struct kern_row *row)
{
    static const struct {
        const char *row;
        enum bound_way way;
    } table[] = {
        {"conv2d_fprop_nchw_f32_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_fprop_nchw_f16_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_fprop_nchw_f32_cudnn_fft", BOUND_FOURIER},
        {"conv2d_fprop_nchw_f32_cudnn_fft_tiling", BOUND_FOURIER},
        {"conv2d_fprop_nchw_f16_cudnn_fft", BOUND_FOURIER},
        {"conv2d_fprop_nchw_f16_cudnn_fft_tiling", BOUND_FOURIER},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(row->name, table[i].row) == 0)
            return table[i].way;
    return BOUND_SUMS;
}

/* ---- Winograd ------------------------------------------------------ */

/* Of each row, B takes 3 sums, or 2 and a product by 5; G 2 sums and 3
 * products; A 4 sums; the rest are powers of two.  Each matrix works twice, and
 * there is the product of the tiles. */
#define WINOGRAD_STEPS (2 * (3 + 5 + 4) + 1)

/* The largest h[p,r] of any p. */
static double winograd_gain(int r)
{
    static const double b[6][6] = {{1, 0, -5, 0, 4, 0},  {0, 1, 1, -4, -4, 0},
                                   {0, 1, -1, -4, 4, 0}, {0, 1, 2, -1, -2, 0},
                                   {0, 1, -2, -1, 2, 0}, {0, 1, 0, -5, 0, 4}};
    static const double g[6][3] = {
        {1, 0, 0},
        {-1. / 6, -1. / 6, -1. / 6},
        {-1. / 6, 1. / 6, -1. / 6},
        {1. / 6, 1. / 12, 1. / 24},
        {1. / 6, -1. / 12, 1. / 24},
        {0, 0, 1. / 4},
    };
    static const double a[4][6] = {{1, 1, -1, 8, -8, 0},
                                   {0, 1, 1, 4, 4, 0},
                                   {0, 1, -1, 2, -2, 0},
                                   {0, 1, 1, 1, 1, 1}};
    double most = 0;

    for (int p = 0; p < 4; p++) {
        double h = 0;
        for (int i = 0; i < 6; i++) {
            double row = 0;
            for (int j = 0; j < 6; j++)
                row += b[i][j] * b[i][j];
            h += a[p][i] * a[p][i] * g[i][r] * g[i][r] * row;
        }
        most = fmax(most, h);
    }
    return most;
}

/* ---- Fourier ------------------------------------------------------- */

/* Planes are at most 256 x 256: 2 x 8 stages, each of which makes a part of a
 * complex number by two products and two sums; three transforms, and a complex
 * product. */
#define FOURIER_STEPS (3 * 16 * 4 + 3)

/* ---- both ---------------------------------------------------------- */

/* Of the activations; zeros are mostly pads. */
static double root_mean_square(const struct truth *t)
{
    const struct kern_tensor *x = &t->p.in[0];
    double sum = 0, n = 0;

    for (int64_t i = 0; i < kern_tensor_count(x); i++) {
        const double v = scalar_load(x->dtype, t->in[0], i);
        sum += v * v;
        n += v != 0;
    }
    return n > 0 ? sqrt(sum / n) : 0;
}

/* sqrt(sum of w^2 h h) of filter k; h: NULL where it is 1. */
static double gain_of_filter(const struct truth *t, const double *h, int64_t k)
{
    const struct kern_tensor *w = &t->p.in[1];
    const int64_t taps = w->dim[2] * w->dim[3], n = w->dim[1] * taps;
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const double v = scalar_load(w->dtype, t->in[1], k * n + i);
        const double gain = h ? h[i % taps / w->dim[3]] * h[i % w->dim[3]] : 1;
        sum += v * v * gain;
    }
    return sqrt(sum);
}

void bound_transform(const struct truth *t, enum bound_way way, double u,
                     double *tol)
{
    const bool winograd = way == BOUND_WINOGRAD;
    const double h[3] = {winograd_gain(0), winograd_gain(1), winograd_gain(2)};
    const struct kern_tensor *y = &t->p.out[0];
    const double steps =
        (double)t->p.in[1].dim[1] + (winograd ? WINOGRAD_STEPS : FOURIER_STEPS);
    const double loss = 8 * u * sqrt(steps / 3) * root_mean_square(t);
    const int64_t plane = y->dim[2] * y->dim[3];

    for (int64_t k = 0; k < y->dim[1]; k++) {
        const double most = loss * gain_of_filter(t, winograd ? h : NULL, k);
        for (int64_t n = 0; n < y->dim[0]; n++)
            for (int64_t i = 0; i < plane; i++)
                tol[(n * y->dim[1] + k) * plane + i] = most;
    }
}
