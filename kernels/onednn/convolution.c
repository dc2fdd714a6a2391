/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and windows of convolutions in oneDNN's terms. */
#include "config.h"

#include "kernels/onednn/convolution.h"

bool onednn_describe_weights(const struct kern_tensor *weights, int64_t groups,
                             dnnl_memory_desc_t *given, dnnl_memory_desc_t *any)
{
    struct kern_tensor w = *weights;
    int i;

    if (!kern_tensor_is_dense(&w, KERN_NCHW) || groups < 1 ||
        w.dim[0] % groups != 0)
        return false;
    if (groups > 1) {
        for (i = w.rank; i > 0; i--)
            w.dim[i] = w.dim[i - 1];
        w.rank++;
        w.dim[0] = groups;
        w.dim[1] /= groups;
    }
    w = kern_tensor_dense(w.dtype, w.rank, w.dim, KERN_NCHW);
    return onednn_describe(&w, given) && onednn_describe_any(&w, any);
}

void onednn_describe_window(const struct kern_conv *a, int spatial,
                            struct onednn_window *out)
{
    int i;

    for (i = 0; i < spatial; i++) {
        out->stride[i] = a->stride[i];
        out->dilation[i] = a->dilation[i] - 1;
        out->begin[i] = a->pad_begin[i];
        out->end[i] = a->pad_end[i];
    }
}
