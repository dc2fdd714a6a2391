/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: layers that need to know the size of their input: adaptive pooling and
 * crops at the centre. */
#include "weights/keras/keras.h"

/* Layers of a model that may ask: each time every node is looked at. */
#define MAX_ASKED 256
/* Windows along one axis. */
#define MAX_WINDOWS 1024

bool keras_infer_sizes(struct keras_emit *k)
{
    if (k->status == 0 && ++k->n_asked > MAX_ASKED)
        keras_fail(k, INFER_EUNSUPPORTED,
                   "more than %d layers that depend on their input's size",
                   MAX_ASKED);
    if (k->status < 0)
        return false;
    if (graph_infer_shapes(k->g, NULL, k->err) < 0) {
        k->status = k->err->code;
        return false;
    }
    return true;
}

bool keras_sizes(struct keras_emit *k, struct keras_value x, int from,
                 int64_t *dim)
{
    if (from < 0)
        keras_fail(k, INFER_EFORMAT, "a number has no axes");
    if (!keras_infer_sizes(k))
        return false;
    for (int i = from; i < x.rank; i++) {
        dim[i] = k->g->value[x.value].dim[i];
        if (dim[i] < 1) {
            keras_fail(k, INFER_EUNSUPPORTED,
                       "the size of its input is free: state it with "
                       "--input-shape");
            return false;
        }
    }
    return true;
}

int keras_slice(struct keras_emit *k, const char *role, int x, int axis,
                int64_t begin, int64_t end)
{
    int node;
    const int y = keras_node(k, GRAPH_SLICE, role, &x, 1, &node);

    if (y >= 0)
        k->g->node[node].attr.slice = (struct graph_slice){.n_axes = 1,
                                                           .axis = {axis},
                                                           .begin = {begin},
                                                           .end = {end},
                                                           .step = {1}};
    return y;
}

/* ---- adaptive pooling ----------------------------------------------- */

/* Window i of n over size elements begins at floor(i size / n) and ends at
 * ceil((i + 1) size / n). */
static int one_window(struct keras_emit *k, int x, int axis, int64_t size,
                      int i, int n, enum kern_reduce_kind kind)
{
    int node;

    x = keras_slice(k, "window", x, axis, i * size / n,
                    ((i + 1) * size + n - 1) / n);
    x = keras_node(k, GRAPH_REDUCE, "reduce", &x, 1, &node);
    if (x >= 0)
        k->g->node[node].attr.reduce = (struct graph_reduce){
            .kind = kind, .keep_dims = true, .n_axes = 1, .axis = {axis}};
    return x;
}

static int along_axis(struct keras_emit *k, int x, int axis, int64_t size,
                      int n, enum kern_reduce_kind kind)
{
    int part[MAX_WINDOWS], node;

    if (size == n || k->status < 0)
        return x;
    for (int i = 0; i < n && k->status == 0; i++)
        part[i] = one_window(k, x, axis, size, i, n, kind);
    x = keras_node(k, GRAPH_CONCAT, "windows", part, n, &node);
    if (x >= 0)
        k->g->node[node].attr.axis.axis = axis;
    return x;
}

/* One axis after the other: every window is a box, so that the mean of means is
 * the mean. */
static struct keras_value adaptive_pool(struct keras_emit *k,
                                        const struct keras_layer *l,
                                        struct keras_value x,
                                        enum kern_reduce_kind kind)
{
    const int rank = l->class->arg;
    int size[3] = {0};
    int64_t dim[INFER_MAX_RANK];

    x = keras_spatial_input(k, l, x);
    keras_ints(k, l->config, "output_size", rank, 1, MAX_WINDOWS, 0, size);
    const int first = x.swapped || !keras_channels_last(k, l->config) ? 2 : 1;
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    for (int i = 0; i < rank; i++) {
        if (size[i] == 0)
            return keras_fail(k, INFER_EFORMAT, "output_size is missing");
        x.value =
            along_axis(k, x.value, first + i, dim[first + i], size[i], kind);
    }
    return x;
}

struct keras_value keras_adaptive_average_pool(struct keras_emit *k,
                                               struct keras_layer *l,
                                               const struct keras_value *in,
                                               int n)
{
    (void)n;
    return adaptive_pool(k, l, in[0], KERN_REDUCE_MEAN);
}

struct keras_value keras_adaptive_max_pool(struct keras_emit *k,
                                           struct keras_layer *l,
                                           const struct keras_value *in, int n)
{
    (void)n;
    return adaptive_pool(k, l, in[0], KERN_REDUCE_MAX);
}

/* ---- crops ---------------------------------------------------------- */

struct keras_value keras_center_crop(struct keras_emit *k,
                                     struct keras_layer *l,
                                     const struct keras_value *in, int n)
{
    struct keras_value x = keras_spatial_input(k, l, in[0]);
    const int size[2] = {keras_int(k, l->config, "height", 1, INT32_MAX, 1),
                         keras_int(k, l->config, "width", 1, INT32_MAX, 1)};
    int64_t dim[INFER_MAX_RANK] = {0};

    (void)n;
    const int first = x.swapped || !keras_channels_last(k, l->config) ? 2 : 1;
    if (!keras_sizes(k, x, 1, dim))
        return keras_failed(k);
    for (int i = 0; i < 2; i++) {
        const int64_t rest = dim[first + i] - size[i];

        if (rest < 0)
            return keras_fail(k, INFER_EUNSUPPORTED,
                              "its input of %lld pixels is smaller than %d",
                              (long long)dim[first + i], size[i]);
        x.value = keras_slice(k, i == 0 ? "rows" : "", x.value, first + i,
                              rest / 2, rest / 2 + size[i]);
    }
    return x;
}
