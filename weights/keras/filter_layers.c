/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keras: resizing by filters that TensorFlow computes in a way of its own:
 * bicubic, whose weights come from a table of 1,024 positions a pixel, and
 * Lanczos.  Each axis of a fixed size is a product with a constant matrix.
 */
#include <string.h>

#include "kernels/base/json.h"
#include "weights/filters/filter.h"
#include "weights/keras/keras.h"

/* in x out, or out x in. */
static int matrix(struct keras_emit *k, const char *suffix, struct filter f,
                  int64_t in, int64_t out, bool transposed)
{
    const int64_t dim[2] = {transposed ? out : in, transposed ? in : out};
    struct constant *c = constant_new(INFER_F32, 2, dim);

    f.scale = (double)out / (double)in;
    if (c && !filter_fill(&f, in, out, transposed, (float *)(void *)c->data)) {
        constant_unref(c);
        c = NULL;
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
    const struct filter f = {
        .kind = strcmp(word, "lanczos3") == 0   ? FILTER_LANCZOS3
                : strcmp(word, "lanczos5") == 0 ? FILTER_LANCZOS5
                                                : FILTER_CUBIC_TABLE,
        .antialias = json_bool(l->config, "antialias", false)};
    int64_t dim[INFER_MAX_RANK], out[2];
    int in[2];

    if (f.kind == FILTER_CUBIC_TABLE && strcmp(word, "bicubic") != 0)
        return keras_fail(k, INFER_EUNSUPPORTED, "interpolation '%s'", word);
    if (k->old_resize)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "interpolation '%s' before TensorFlow 2", word);
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    for (int i = 0; i < 2; i++) {
        const bool large =
            dim[2 + i] > FILTER_MAX_MATRIX || size[i] > FILTER_MAX_MATRIX;

        out[i] = times && !large ? dim[2 + i] * size[i] : size[i];
        if (large || out[i] > FILTER_MAX_MATRIX ||
            out[i] * dim[2 + i] > FILTER_MAX_MATRIX)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "%lld pixels from %lld by '%s'",
                              (long long)out[i], (long long)dim[2 + i], word);
    }
    in[0] = x.value;
    in[1] = matrix(k, "columns", f, dim[3], out[1], false);
    in[1] = keras_node(k, GRAPH_MATMUL, "columns", in, 2, NULL);
    in[0] = matrix(k, "rows", f, dim[2], out[0], true);
    x.value = keras_node(k, GRAPH_MATMUL, "", in, 2, NULL);
    return x;
}
