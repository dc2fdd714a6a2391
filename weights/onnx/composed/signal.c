/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX DFT, STFT, the windows and MelWeightMatrix.
 *
 * A transform of a fixed length is a product with a constant matrix; one of
 * frames that move over a signal is a convolution with it.  Angles are reduced
 * before the cosine, and the matrix is computed in double precision.
 */
#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

#define TWO_PI 6.283185307179586476925286766559

struct transform {
    int64_t n;    /* its length */
    int64_t in;   /* entries that are read: n, or n / 2 + 1 */
    int64_t out;  /* and written */
    int parts_in; /* 1: real; 2: real and imaginary part */
    int parts_out;
    bool inverse, onesided;
};

static int prepare(struct onnx_import *im, struct transform *t, int64_t n)
{
    /* The matrix has 4 n^2 entries at most. */
    if (im->rc == 0 && (n < 1 || n > 8192))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a Fourier transform of length %lld; 1 to 8192 are "
                         "supported",
                         (long long)n);
    t->n = n;
    t->in = t->onesided && t->inverse ? n / 2 + 1 : n;
    t->out = t->onesided && !t->inverse ? n / 2 + 1 : n;
    t->parts_out = t->onesided && t->inverse ? 1 : 2;
    if (im->rc == 0 && t->onesided && t->inverse != (t->parts_in == 2))
        return onnx_fail(im, INFER_EFORMAT,
                         t->inverse ? "a onesided inverse of real values"
                                    : "a onesided transform of complex values");
    return im->rc;
}

/* What part `from` of entry i adds to part `to` of entry k. */
static double factor(const struct transform *t, int64_t i, int from, int64_t k,
                     int to)
{
    const double angle = TWO_PI * (double)(i * k % t->n) / (double)t->n;
    const double c = cos(angle), s = t->inverse ? sin(angle) : -sin(angle);
    double f = from == to ? c : to == 1 ? s : -s;

    if (t->inverse)
        f /= (double)t->n;
    /* The other half of the spectrum is the same, conjugate. */
    if (t->onesided && t->inverse && i > 0 && 2 * i != t->n)
        f *= 2;
    return f;
}

/* ---- DFT ----------------------------------------------------------- */

/* Rows: what is read, entry by entry; columns: what is written. */
static int matrix(struct onnx_import *im, const struct transform *t)
{
    const int64_t dim[2] = {t->in * t->parts_in, t->out * t->parts_out};
    float *data;
    const int value = compose_floats(im, 2, dim, &data);

    for (int64_t r = 0; value >= 0 && r < dim[0]; r++)
        for (int64_t c = 0; c < dim[1]; c++)
            *data++ = (float)factor(t, r / t->parts_in, (int)(r % t->parts_in),
                                    c / t->parts_out, (int)(c % t->parts_out));
    return value;
}

/* The axis as `n` entries: zeros behind them, or the first ones. */
static int fit(struct onnx_import *im, int x, int axis, int64_t n)
{
    const int64_t has = compose_dim(im, x, axis);

    if (im->rc < 0 || has == n)
        return x;
    return has > n ? compose_slice(im, x, axis, 0, n, 1)
                   : compose_pad(im, x, axis, 0, (int)(n - has), 0);
}

/* An input of one integer; absent: *out is left alone. */
static void read_integer(struct onnx_import *im, int i, const char *what,
                         int64_t *out)
{
    int n = -1;

    if (onnx_has_input(im, i))
        onnx_input_ints(im, i, what, 1, out, &n);
}

int onnx_import_dft(struct onnx_import *im)
{
    struct transform t = {.n = 0};
    int64_t n = 0, stated = im->opset >= 20 ? -2 : 1, dim[INFER_MAX_RANK] = {0};
    int x, axis = 0, rank;

    onnx_arity(im, 1, 3);
    onnx_flag(im, "inverse", &t.inverse);
    onnx_flag(im, "onesided", &t.onesided);
    onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &stated);
    read_integer(im, 2, "the axis", &stated);
    x = compose_input(im, 0);
    rank = compose_rank(im, x);
    t.parts_in = (int)compose_dim(im, x, -1);
    if (im->rc == 0)
        im->rc = op_axis((int)stated, rank, &axis, im->err);
    if (im->rc == 0 &&
        (rank < 2 || axis == rank - 1 || t.parts_in < 1 || t.parts_in > 2))
        return onnx_fail(im, INFER_EFORMAT,
                         "a transform along axis %d of %d, of entries of %d "
                         "parts",
                         axis, rank, t.parts_in);
    x = compose_swap(im, x, axis, rank - 2);
    n = compose_dim(im, x, rank - 2);
    if (t.inverse && t.onesided)
        n = 2 * (n - 1);
    read_integer(im, 1, "the length", &n);
    if (prepare(im, &t, n) < 0)
        return im->rc;
    x = fit(im, x, rank - 2, t.in);
    dim[rank - 2] = t.in * t.parts_in;
    x = compose_reshape(im, x, rank - 1, dim);
    x = compose_matmul(im, x, matrix(im, &t), false, 1);
    dim[rank - 2] = t.out;
    dim[rank - 1] = t.parts_out;
    x = compose_reshape(im, x, rank, dim);
    return compose_output(im, 0, compose_swap(im, x, axis, rank - 2));
}

/* ---- STFT ---------------------------------------------------------- */

/* The matrix as filters out,parts,n, each entry times the window's. */
static int filters(struct onnx_import *im, const struct transform *t,
                   const struct constant *window)
{
    const int64_t dim[3] = {t->out * 2, t->parts_in, t->n};
    float *data;
    const int value = compose_floats(im, 3, dim, &data);

    for (int64_t c = 0; value >= 0 && c < dim[0]; c++)
        for (int p = 0; p < t->parts_in; p++)
            for (int64_t i = 0; i < t->n; i++)
                *data++ = (float)(factor(t, i, p, c / 2, (int)(c % 2)) *
                                  (window ? scalar_load(window->dtype,
                                                        window->data, i)
                                          : 1));
    return value;
}

int onnx_import_stft(struct onnx_import *im)
{
    struct transform t = {.onesided = true};
    struct constant *window = NULL;
    union graph_attr attr;
    int64_t step = 0, n = 0, dim[4] = {0, 0, 0, 2};
    int in[2], y;

    onnx_arity(im, 2, 4);
    onnx_flag(im, "onesided", &t.onesided);
    in[0] = compose_input(im, 0);
    if (compose_rank(im, in[0]) == 2)
        in[0] = compose_unsqueeze(im, in[0], 2);
    compose_need_rank(im, in[0], 3, 3);
    read_integer(im, 1, "the step", &step);
    if (onnx_has_input(im, 2) && onnx_input_constant(im, 2, &window) == 0 &&
        !window)
        return onnx_fail(im, INFER_EUNSUPPORTED, "the window must be constant");
    if (im->rc < 0)
        return im->rc;
    n = window ? constant_count(window) : 0;
    read_integer(im, 3, "the length of a frame", &n);
    if (n == 0)
        n = compose_dim(im, in[0], 1);
    t.parts_in = (int)compose_dim(im, in[0], 2);
    if (im->rc == 0 &&
        (step < 1 || step > INT32_MAX || t.parts_in < 1 || t.parts_in > 2 ||
         (window && constant_count(window) != n)))
        return onnx_fail(im, INFER_EFORMAT,
                         "frames of %lld every %lld entries of %d parts do not "
                         "fit the signal and the window",
                         (long long)n, (long long)step, t.parts_in);
    if (t.parts_in == 2)
        t.onesided = false;
    if (prepare(im, &t, n) < 0)
        return im->rc;
    onnx_defaults(GRAPH_CONV, &attr);
    attr.conv.conv.stride[0] = (int)step;
    in[0] = compose_swap(im, in[0], 1, 2);
    in[1] = filters(im, &t, window);
    onnx_emit(im, GRAPH_CONV, &attr, in, 2, -1, &y);
    dim[2] = t.out;
    return compose_output(
        im, 0, compose_reshape(im, compose_swap(im, y, 1, 2), 4, dim));
}

/* ---- constants ----------------------------------------------------- */

/* HannWindow, HammingWindow, BlackmanWindow: a + b cos + c cos of twice. */
int onnx_import_window(struct onnx_import *im)
{
    static const double terms[3][3] = {
        {0.5, -0.5, 0}, {25.0 / 46, -21.0 / 46, 0}, {0.42, -0.5, 0.08}};
    const double *a = terms[im->param];
    int64_t n = 0, type = 1;
    bool periodic = true;
    struct constant *c;

    onnx_arity(im, 1, 1);
    onnx_flag(im, "periodic", &periodic);
    onnx_int(im, "output_datatype", 1, INT32_MAX, &type);
    read_integer(im, 0, "the size", &n);
    if (im->rc == 0 && (n < 1 || onnx_dtype(type) == INFER_NONE))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a window of %lld entries of "
                         "type %s",
                         (long long)n, onnx_type_name(type));
    if (onnx_new_constant(im, onnx_dtype(type), 1, &n, &c) < 0)
        return im->rc;
    for (int64_t i = 0; i < n; i++) {
        const double angle =
            TWO_PI * (double)i / (double)(periodic || n == 1 ? n : n - 1);

        scalar_store(c->dtype, c->data, i,
                     a[0] + a[1] * cos(angle) + a[2] * cos(2 * angle));
    }
    return onnx_set_constant(im, 0, c);
}

static double to_mel(double hertz)
{
    return 2595 * log1p(hertz / 700) / log(10);
}

static void store_weight(struct constant *c, int64_t bin, int64_t filter,
                         double value)
{
    if (bin >= 0 && bin < c->dim[0])
        scalar_store(c->dtype, c->data, bin * c->dim[1] + filter, value);
}

/* A filter that rises from bin b[0] to b[1] and falls to b[2]. */
static void triangle(struct constant *c, int64_t filter, const int64_t *b)
{
    const int64_t last = c->dim[0];

    if (b[0] == b[1])
        store_weight(c, b[1], filter, 1);
    for (int64_t i = b[0]; i < b[1] && i < last; i++)
        store_weight(c, i, filter, (double)(i - b[0]) / (double)(b[1] - b[0]));
    store_weight(c, b[1], filter, 1);
    for (int64_t i = b[1]; i < b[2] && i < last; i++)
        store_weight(c, i, filter, (double)(b[2] - i) / (double)(b[2] - b[1]));
}

/* Triangles between frequencies that are equally far apart in mel; edges are
 * rounded down to bins of the spectrum. */
int onnx_import_mel_weights(struct onnx_import *im)
{
    int64_t n[3] = {0}, type = 1, dim[2];
    float edge[2] = {0};
    double low, step;
    struct constant *c;

    onnx_arity(im, 5, 5);
    onnx_int(im, "output_datatype", 1, INT32_MAX, &type);
    for (int i = 0; i < 3; i++)
        read_integer(im, i, "a size", &n[i]);
    onnx_input_float(im, 3, "the lower edge", &edge[0]);
    onnx_input_float(im, 4, "the upper edge", &edge[1]);
    if (im->rc == 0 && (n[0] < 1 || n[1] < 1 || n[2] < 1 || n[1] > INT32_MAX ||
                        !(edge[0] >= 0) || !(edge[1] <= 1e9f) ||
                        onnx_dtype(type) == INFER_NONE))
        return onnx_fail(im, INFER_EFORMAT, "sizes or edges out of range");
    dim[0] = n[1] / 2 + 1;
    dim[1] = n[0];
    if (onnx_new_constant(im, onnx_dtype(type), 2, dim, &c) < 0)
        return im->rc;
    low = to_mel((double)edge[0]);
    step = (to_mel((double)edge[1]) - low) / (double)(n[0] + 2);
    for (int64_t k = 0; k < n[0]; k++) {
        int64_t bin[3];

        for (int e = 0; e < 3; e++)
            bin[e] = (int64_t)floor(
                (double)(n[1] + 1) *
                (700 * expm1((low + step * (double)(k + e)) / 2595 * log(10))) /
                (double)n[2]);
        triangle(c, k, bin);
    }
    return onnx_set_constant(im, 0, c);
}
