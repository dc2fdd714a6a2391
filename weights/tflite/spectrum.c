/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: RFFT2D of single rows, as in spectrograms.  There are no
 * complex numbers in the graph: a complex tensor has the one part that its
 * readers ask for, behind operators that move elements (tflite_in() sees to
 * that): absolute values, real parts or imaginary ones.
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

    return tflite_emit(im, GRAPH_DENSE, NULL, in, 2);
}

static int square(struct tflite_import *im, int x)
{
    return tflite_binary(im, KERN_MUL, x, x);
}

/* What an operator takes of complex numbers. */
static int wanted(const struct tflite_op *row)
{
    if (!row || !row->import)
        return 0;
    return row->import == tflite_import_complex_part ? row->param
           : row->import == tflite_import_cast       ? TFLITE_REAL
                                                     : 0;
}

/* Tells each complex tensor what its readers take, from the last operator to
 * the first. */
static void find_parts(struct tflite_import *im)
{
    struct tflite_operator op;

    for (size_t i = im->m->operators.count; i-- > 0;) {
        const struct tflite_op *row;
        unsigned part = 0;

        if (tflite_model_operator(im->m, (int)i, NULL, &op) < 0)
            continue;
        row = tflite_op_find(op.code);
        for (int o = 0; row && row->moves && o < op.n_out; o++) {
            const int t = fb_list_i32(&op.out, (size_t)o);

            part |= t >= 0 && t < im->n_values ? im->value[t].parts : 0;
        }
        part |= (unsigned)wanted(row);
        for (int k = 0; k < op.n_in; k++) {
            const int t = fb_list_i32(&op.in, (size_t)k);

            if (t >= 0 && t < im->n_values)
                im->value[t].parts |= (unsigned char)part;
        }
    }
    im->parts_found = true;
}

bool tflite_may_read_complex(struct tflite_import *im, int tensor)
{
    const int part = wanted(im->row);

    if (im->row->moves || (part && part == im->value[tensor].parts))
        return true;
    tflite_fail(im, INFER_EUNSUPPORTED,
                part ? "complex numbers of which several parts are read"
                     : "complex numbers, of which absolute values, real and "
                       "imaginary parts alone are computed");
    return false;
}

void tflite_import_rfft(struct tflite_import *im, int param)
{
    const int rank = tflite_rank(im, 0), out = tflite_output_index(im, 0);
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
    if (!im->parts_found)
        find_parts(im);
    x = tflite_in(im, 0, false);
    if (im->value[out].parts == TFLITE_REAL ||
        im->value[out].parts == TFLITE_IMAGINARY) {
        x = part(im, x, length[1], im->value[out].parts == TFLITE_IMAGINARY);
    } else {
        x = tflite_binary(im, KERN_ADD,
                          square(im, part(im, x, length[1], false)),
                          square(im, part(im, x, length[1], true)));
        x = tflite_plain_unary(im, x, KERN_SQRT);
    }
    tflite_out(im, 0, x, false);
}

void tflite_import_complex_part(struct tflite_import *im, int param)
{
    const bool swapped = tflite_is_swapped(im, 0);

    (void)param;
    if (tflite_arity(im, 1, 1))
        tflite_out(im, 0, tflite_in(im, 0, swapped), swapped);
}
