/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the input of a 1x1 convolution with stride 1, dense layers
 * among them, as one matrix product that reads the weights as they lie:
 *     dx (pixels x C) = dy (pixels x K) * w (K x C)
 * oneDNN's sgemm multiplies; it may allocate memory for packing.
 */
#include "config.h"

#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/primitive.h"

#include "kernels/problem.h"

/* in[] of a transposed convolution */
enum { DY, W, BIAS, RESIDUAL };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_conv *a = &p->attr.conv;
    int i;

    (void)d;
    if (p->in[DY].rank != 4 || a->groups != 1)
        return onednn_refuse(why, "takes 2 spatial dimensions and one group");
    for (i = 0; i < 2; i++)
        if (p->in[W].dim[2 + i] != 1 || a->stride[i] != 1 ||
            a->pad_begin[i] != 0 ||
            p->in[DY].dim[2 + i] != p->out[0].dim[2 + i])
            return onednn_refuse(why, "takes 1x1 windows with stride 1 and no "
                                      "pads");
    if (kern_problem_in(p, BIAS) || p->epilogue.act.kind != KERN_IDENTITY)
        return onednn_refuse(why, "knows no bias and no activation");
    if (!cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !cpu_is_dense(&p->out[0], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC))
        return onednn_refuse(why, "takes dense channels-last F32 activations");
    if (!cpu_is_dense(&p->in[W], KERN_NCHW))
        return onednn_refuse(why, "takes dense F32 weights");
    if (kern_tensor_count(&p->in[DY]) == 0 || kern_tensor_count(&p->in[W]) == 0)
        return onednn_refuse(why, "takes no empty tensors");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool add = kern_problem_in(p, RESIDUAL) != NULL;
    const int64_t k = p->in[W].dim[0], c = p->in[W].dim[1];
    const int64_t pixels = kern_tensor_count(&p->in[DY]) / k;
    const int threads = cpu_threads_of(e), before = omp_get_max_threads();
    int r;

    if (add && args->in[RESIDUAL] != args->out[0])
        cpu_copy(args->in[RESIDUAL], args->out[0],
                 kern_tensor_count(&p->out[0]), threads);
    /* The setting belongs to the application: it is put back. */
    omp_set_num_threads(threads);
    r = onednn_status(onednn_sgemm('N', 'N', pixels, c, k, 1.0f, args->in[DY],
                                   k, args->in[W], c, add ? 1.0f : 0.0f,
                                   args->out[0], c),
                      "dnnl_sgemm", err);
    omp_set_num_threads(before);
    return r;
}

KERN_FUNCTIONS(conv2d_dgrad_nhwc_f32_onednn_gemm) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
