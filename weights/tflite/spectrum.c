/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: RFFT2D of single rows, of which COMPLEX_ABS is taken, as in
 * spectrograms.  There are no complex numbers in the graph: a complex tensor
 * has its absolute values, and only operators that move elements, and
 * COMPLEX_ABS, may read it (tflite_in() sees to that).
 */
#include <math.h>

#include "weights/tflite/tflite.h"

#define PI 3.14159265358979323846

/* Longest row: two matrices of half its square are made. */
#define MAX_ROW 4096

/* Rows k of the transform of n numbers: cos or -sin of 2 pi k i / n. */
static int basis(struct tflite_import *im, int64_t n, bool sine)
{
    const int64_t dim[2] = {n / 2 + 1, n};
    struct constant *c = tflite_constant_new(im, INFER_F32, 2, dim);
    float *data = c ? (float *)(void *)c->data : NULL;

    for (int64_t k = 0; data && k < dim[0]; k++)
        for (int64_t i = 0; i < n; i++) {
            const double angle = 2 * PI * (double)(k * i % n) / (double)n;

            data[k * n + i] = (float)(sine ? -sin(angle) : cos(angle));
        }
    return tflite_add_constant(im, -1, c);
}

static int part(struct tflite_import *im, int x, int64_t n, bool sine)
{
    const int in[2] = {x, basis(im, n, sine)};
    const int y = tflite_emit(im, GRAPH_DENSE, NULL, in, 2);

    return tflite_binary(im, KERN_MUL, y, y);
}

void tflite_import_rfft(struct tflite_import *im, int param)
{
    const int rank = tflite_rank(im, 0);
    int64_t length[2] = {0, 0};
    struct graph_type t;
    int x;

    (void)param;
    if (!tflite_arity(im, 2, 2) ||
        tflite_ints(im, 1, "the length of the transform", 2, length) < 0)
        return;
    t = tflite_type(im, 0, 0);
    if (rank < 2 || length[0] != 1 || t.dim[rank - 2] != 1 ||
        length[1] != t.dim[rank - 1] || length[1] < 2 || length[1] % 2 != 0 ||
        length[1] > MAX_ROW) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a transform of %lldx%lld numbers of %lldx%lld",
                    (long long)length[0], (long long)length[1],
                    (long long)(rank > 1 ? t.dim[rank - 2] : 0),
                    (long long)(rank > 0 ? t.dim[rank - 1] : 0));
        return;
    }
    x = tflite_in(im, 0, false);
    x = tflite_binary(im, KERN_ADD, part(im, x, length[1], false),
                      part(im, x, length[1], true));
    tflite_out(im, 0, tflite_plain_unary(im, x, KERN_SQRT), false);
}

void tflite_import_complex_abs(struct tflite_import *im, int param)
{
    const bool swapped = tflite_is_swapped(im, 0);

    (void)param;
    if (tflite_arity(im, 1, 1))
        tflite_out(im, 0, tflite_in(im, 0, swapped), swapped);
}
