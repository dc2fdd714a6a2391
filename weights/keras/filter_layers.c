/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keras: resizing by filters that TensorFlow computes in a way of its own:
 * bicubic, whose weights come from a table of 1,024 positions a pixel, and
 * Lanczos.  Each axis of a fixed size is a product with a constant matrix.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

#define POSITIONS  1024
#define PI         3.14159265358979323846
#define MAX_MATRIX (1 << 24) /* elements */

struct filter {
    int radius; /* Lanczos; 0: bicubic */
    bool antialias;
};

/* Keys' cubic with a = -1/2 at a distance below 2. */
static double cubic(double x)
{
    return x < 1   ? (1.5 * x - 2.5) * x * x + 1
           : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2
                   : 0;
}

static double lanczos(double x, int radius)
{
    x = fabs(x);
    if (x > radius)
        return 0;
    return x <= 1e-3 ? 1
                     : radius * sin(PI * x) * sin(PI * x / radius) /
                           (PI * PI * x * x);
}

/* Weights of the inputs for output i; those outside do not count. */
static void cubic_row(int64_t i, int64_t in, int64_t out, double *w)
{
    const float at = ((float)i + 0.5f) * ((float)in / (float)out) - 0.5f;
    const int64_t first = (int64_t)floorf(at);
    const double part =
        (double)lrintf((at - (float)first) * POSITIONS) / POSITIONS;

    for (int64_t j = -1; j <= 2; j++)
        if (first + j >= 0 && first + j < in)
            w[first + j] = cubic(fabs((double)j - part));
}

static void lanczos_row(int64_t i, int64_t in, int64_t out,
                        const struct filter *f, double *w)
{
    const double step = (double)in / (double)out;
    const double wide = f->antialias && step > 1 ? step : 1;
    const double at = ((double)i + 0.5) * step;
    const double reach = f->radius * wide;

    for (int64_t j = (int64_t)ceil(at - reach - 0.5);
         j <= (int64_t)floor(at + reach - 0.5); j++)
        if (j >= 0 && j < in)
            w[j] = lanczos(((double)j + 0.5 - at) / wide, f->radius);
}

/* in x out, or out x in. */
static int matrix(struct keras_emit *k, const char *suffix, int64_t in,
                  int64_t out, bool turned, const struct filter *f)
{
    const int64_t dim[2] = {turned ? out : in, turned ? in : out};
    struct constant *c = constant_new(INFER_F32, 2, dim);
    float *data = c ? (float *)(void *)c->data : NULL;

    for (int64_t i = 0; data && i < out; i++) {
        double sum = 0, *w = calloc((size_t)in, sizeof *w);

        if (!w) {
            constant_unref(c);
            c = NULL;
            break;
        }
        if (f->radius == 0)
            cubic_row(i, in, out, w);
        else
            lanczos_row(i, in, out, f, w);
        for (int64_t j = 0; j < in; j++)
            sum += w[j];
        for (int64_t j = 0; j < in; j++)
            data[turned ? i * in + j : j * out + i] =
                (float)(sum != 0 ? w[j] / sum : 0);
        free(w);
    }
    return keras_constant(k, suffix, c);
}

bool keras_is_filter(const struct keras_layer *l)
{
    const char *word = json_string(l->config, "interpolation");

    return word != NULL && (strncmp(word, "lanczos", 7) == 0 ||
                            (strcmp(word, "bicubic") == 0 &&
                             !json_bool(l->config, "antialias", false)));
}

/* size: of the result, or how many times the input's. */
struct keras_value keras_filter(struct keras_emit *k,
                                const struct keras_layer *l,
                                struct keras_value x, const int *size,
                                bool times)
{
    const char *word = json_string(l->config, "interpolation");
    const struct filter f = {strcmp(word, "lanczos3") == 0   ? 3
                             : strcmp(word, "lanczos5") == 0 ? 5
                                                             : 0,
                             json_bool(l->config, "antialias", false)};
    int64_t dim[INFER_MAX_RANK], out[2];
    int in[2];

    if (f.radius == 0 && strcmp(word, "bicubic") != 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "interpolation '%s'", word);
    if (k->old_resize)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "interpolation '%s' before TensorFlow 2", word);
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    for (int i = 0; i < 2; i++) {
        const bool large = dim[2 + i] > MAX_MATRIX || size[i] > MAX_MATRIX;

        out[i] = times && !large ? dim[2 + i] * size[i] : size[i];
        if (large || out[i] > MAX_MATRIX || out[i] * dim[2 + i] > MAX_MATRIX)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "%lld pixels from %lld by '%s'",
                              (long long)out[i], (long long)dim[2 + i], word);
    }
    in[0] = x.value;
    in[1] = matrix(k, "columns", dim[3], out[1], false, &f);
    in[1] = keras_node(k, GRAPH_MATMUL, "columns", in, 2, NULL);
    in[0] = matrix(k, "rows", dim[2], out[0], true, &f);
    x.value = keras_node(k, GRAPH_MATMUL, "", in, 2, NULL);
    return x;
}
