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
 * A gradient of inputs is the same with dy for x, the filters turned over and K
 * for C.  In a gradient of weights dy is the filter, cut into tiles of 4x4
 * whose results, as large as the window, are summed over tiles and images: F(3
 * x 3, 4 x 4) has the same points and h, a function of p + r alone, of which
 * the largest is taken for every element of dy.
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
        {"conv2d_dgrad_nchw_f32_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_dgrad_nchw_f16_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_wgrad_nchw_f32_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_wgrad_nchw_f16_cudnn_winograd_nonfused", BOUND_WINOGRAD},
        {"conv2d_dgrad_nchw_f32_cudnn_fft", BOUND_FOURIER},
        {"conv2d_dgrad_nchw_f32_cudnn_fft_tiling", BOUND_FOURIER},
        {"conv2d_dgrad_nchw_f16_cudnn_fft", BOUND_FOURIER},
        {"conv2d_dgrad_nchw_f16_cudnn_fft_tiling", BOUND_FOURIER},
        {"conv2d_wgrad_nchw_f32_cudnn_fft", BOUND_FOURIER},
        {"conv2d_wgrad_nchw_f32_cudnn_fft_tiling", BOUND_FOURIER},
        {"conv2d_wgrad_nchw_f16_cudnn_fft", BOUND_FOURIER},
        {"conv2d_wgrad_nchw_f16_cudnn_fft_tiling", BOUND_FOURIER},
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

/* Of what stands for the activations; zeros are mostly pads. */
static double root_mean_square(const struct reference *t)
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

static int64_t plane_of(const struct kern_tensor *t)
{
    int64_t n = 1;

    for (int i = 2; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

/* Sum of f^2 h h over plane `at` of the filters; h: NULL where it is 1. */
static double gain_of_plane(const struct reference *t, const double *h,
                            int64_t at)
{
    const struct kern_tensor *f = &t->p.in[1];
    const int64_t taps = plane_of(f), width = f->dim[f->rank - 1];
    double sum = 0;

    for (int64_t i = 0; i < taps; i++) {
        const double v = scalar_load(f->dtype, t->in[1], at * taps + i);
        sum += v * v * (h ? h[i / width] * h[i % width] : 1);
    }
    return sum;
}

/* The filters of one channel of the output, or of dw: planes of in[1], `step`
 * apart. */
struct filters {
    int64_t first, count, step;
};

static struct filters filters_of(const struct kern_problem *p, int64_t channel)
{
    const struct kern_tensor *f = &p->in[1];
    const int64_t in_group = f->dim[0] / p->attr.conv.groups;

    if (p->op == KERN_CONV_WGRAD) /* dy's channel of every image */
        return (struct filters){channel, f->dim[0], f->dim[1]};
    if (p->op == KERN_CONV_DGRAD)
        return (struct filters){channel / f->dim[1] * in_group * f->dim[1] +
                                    channel % f->dim[1],
                                in_group, f->dim[1]};
    return (struct filters){channel * f->dim[1], f->dim[1], 1};
}

/* What the transformed tiles of one output are summed over. */
static double terms(const struct kern_problem *p, bool winograd)
{
    const struct kern_tensor *f = &p->in[1];
    double n = (double)filters_of(p, 0).count;

    if (p->op == KERN_CONV_WGRAD && winograd)
        n *= (double)((f->dim[2] + 3) / 4) * (double)((f->dim[3] + 3) / 4);
    return n;
}

static double gain_of_channel(const struct reference *t, const double *h,
                              int64_t channel)
{
    const struct filters f = filters_of(&t->p, channel);
    double sum = 0;

    for (int64_t i = 0; i < f.count; i++)
        sum += gain_of_plane(t, h, f.first + i * f.step);
    return sqrt(sum);
}

void bound_transform(const struct reference *t, enum bound_way way, double u,
                     double *tol)
{
    const bool winograd = way == BOUND_WINOGRAD;
    const bool wgrad = t->p.op == KERN_CONV_WGRAD;
    const bool turned = t->p.op == KERN_CONV_DGRAD;
    const double h[3] = {winograd_gain(turned ? 2 : 0), winograd_gain(1),
                         winograd_gain(turned ? 0 : 2)};
    const double largest = winograd && wgrad ? winograd_gain(0) : 1;
    const struct kern_tensor *y = &t->p.out[0];
    const double steps =
        terms(&t->p, winograd) + (winograd ? WINOGRAD_STEPS : FOURIER_STEPS);
    const double loss = 8 * u * sqrt(steps / 3) * root_mean_square(t) * largest;
    const int64_t plane = plane_of(y), planes = y->dim[0] * y->dim[1];

    for (int64_t i = 0; i < planes; i++) {
        const int64_t channel = wgrad ? i / y->dim[1] : i % y->dim[1];
        const double most =
            loss * gain_of_channel(t, winograd && !wgrad ? h : NULL, channel);
        for (int64_t k = 0; k < plane; k++)
            tol[i * plane + k] = most;
    }
}
