/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: norms by statistics of the input. */
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

/* Scale and shift of the layer at hand, where it has any; how many inputs the
 * norm has with them. */
static int read_affine(struct ncnn *n, bool affine, int64_t count, int *in)
{
    if (!affine)
        return 1;
    in[1] = ncnn_weight(n, "scale", false, 1, &count);
    in[2] = ncnn_weight(n, "shift", false, 1, &count);
    return 3;
}

/* Over the last dimension, or the last two, by the number of scales. */
void ncnn_layer_norm(struct ncnn *n, struct ncnn_ends *ends, int rms)
{
    const int rank = layers_rank(&n->b, ends->in[0]);
    const int64_t stated = ncnn_int(n, 0, 0, INT32_MAX, 0);
    const bool affine = ncnn_int(n, 2, 0, 1, 1) != 0;
    union graph_attr attr = layers_defaults(GRAPH_LAYER_NORM);
    int in[3] = {ends->in[0], -1, -1}, n_in = 1;
    int64_t row;

    if (n->b.status < 0)
        return;
    row = layers_known(&n->b, in[0], rank - 1);
    attr.norm.epsilon = ncnn_float(n, 1, 0.001f);
    attr.norm.axis = rank - 1;
    attr.norm.rms = rms != 0;
    if (n->b.status == 0 && stated != row && rank > 3 &&
        layers_known(&n->b, in[0], rank - 2) * row == stated) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a norm over rows and columns is not supported");
        return;
    }
    if (n->b.status == 0 && stated != row) {
        layers_fail(&n->b, INFER_EFORMAT, "%lld scales for rows of %lld",
                    (long long)stated, (long long)row);
        return;
    }
    if (rms && affine) {
        in[1] = ncnn_weight(n, "scale", false, 1, &row);
        n_in = 2;
    } else if (!rms) {
        n_in = read_affine(n, affine, row, in);
    }
    ends->out[0] = layers_emit(&n->b, GRAPH_LAYER_NORM, "", &attr, in, n_in);
}

/* arg: each channel is a group of its own, and the parameters differ. */
void ncnn_group_norm(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const bool instance = arg != 0;
    const int64_t c = layers_known(&n->b, ends->in[0], 1);
    const bool affine = ncnn_int(n, instance ? 2 : 3, 0, 1, 1) != 0;
    const int64_t groups = instance ? c : ncnn_int(n, 0, 1, INT32_MAX, 1);
    union graph_attr attr = layers_defaults(GRAPH_GROUP_NORM);
    int in[3] = {ends->in[0], -1, -1};

    if (n->b.status < 0)
        return;
    if (c < 1 || c > INT32_MAX || c % groups != 0 ||
        (affine && ncnn_int(n, instance ? 0 : 1, 0, INT32_MAX, 0) != c)) {
        layers_fail(&n->b, INFER_EFORMAT, "%lld channels in %lld groups",
                    (long long)c, (long long)groups);
        return;
    }
    attr.norm.groups = (int)groups;
    attr.norm.epsilon = ncnn_float(n, instance ? 1 : 2, 0.001f);
    ends->out[0] = layers_emit(&n->b, GRAPH_GROUP_NORM, "", &attr, in,
                               read_affine(n, affine, c, in));
}
