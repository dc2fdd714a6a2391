/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: layers that apply a layer: TimeDistributed, SpectralNormalization. */
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/keras/keras.h"

/* Steps are pictures of the layer inside: N,T,... becomes N T,... and back. */
struct keras_value keras_time_distributed(struct keras_emit *k,
                                          struct keras_layer *l,
                                          const struct keras_value *in, int n)
{
    struct keras_value x = keras_plain(k, in[0]);
    int64_t dim[INFER_MAX_RANK], steps;

    (void)n;
    if (x.rank < 3)
        return keras_fail(k, INFER_EFORMAT, "an input of %d dimensions",
                          x.rank);
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    steps = dim[1];
    dim[1] = -1;
    x.value =
        keras_dims(k, GRAPH_RESHAPE, "steps", x.value, x.rank - 1, dim + 1);
    x.rank--;
    x = keras_plain(k, keras_emit_inner(k, &l->inner[0], &x, 1));
    if (k->status == 0 && x.rank >= INFER_MAX_RANK)
        return keras_fail(k, INFER_EUNSUPPORTED, "%d dimensions", x.rank + 1);
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    memmove(dim + 2, dim + 1, (size_t)(x.rank - 1) * sizeof *dim);
    dim[0] = -1;
    dim[1] = steps;
    x.rank++;
    x.value = keras_dims(k, GRAPH_RESHAPE, "", x.value, x.rank, dim);
    return x;
}

/* Divides the kernel by its norm while it is trained; the file has the result.
 */
int keras_spectral_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "vector_u", false);
    return k->status;
}

struct keras_value keras_spectral(struct keras_emit *k, struct keras_layer *l,
                                  const struct keras_value *in, int n)
{
    return keras_emit_inner(k, &l->inner[0], in, n);
}
