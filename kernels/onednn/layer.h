/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the rows of convolutions and dense layers: y = act(x w + bias +
 * residual) with constant weights, which oneDNN packs once, through whatever
 * operation the row describes.
 */
#ifndef KERNELS_ONEDNN_LAYER_H
#define KERNELS_ONEDNN_LAYER_H

#include "kernels/onednn/primitive.h"

/* in[] of these problems. */
enum {
    ONEDNN_LAYER_X,
    ONEDNN_LAYER_W,
    ONEDNN_LAYER_BIAS,
    ONEDNN_LAYER_RESIDUAL
};

struct onednn_layer {
    dnnl_primitive_desc_t pd;
    dnnl_memory_desc_t weights; /* as the problem gives them */
    bool has_bias, has_residual;
};

/* A row's own part: sets weights, has_bias and has_residual, describes the
 * operation and ends with onednn_layer_choose().  EUNSUPPORTED says why not. */
typedef int onednn_layer_make(const struct kern_problem *p, int threads,
                              struct onednn_layer *layer,
                              struct infer_error *err);

/* Describes the bias where there is one; false where it is none of oneDNN's. */
bool onednn_layer_bias(const struct kern_problem *p, struct onednn_layer *layer,
                       dnnl_memory_desc_t *bias);
/* Makes the primitive's description with p's epilogue; residual: it is added
 * by the primitive.  Sets layer->pd. */
int onednn_layer_choose(const struct kern_problem *p, const void *op_desc,
                        bool residual, int threads, struct onednn_layer *layer,
                        struct infer_error *err);

/* supports(), prepare() and launch() of such a row. */
int onednn_layer_supports(onednn_layer_make *make, const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why);
int onednn_layer_prepare(onednn_layer_make *make, struct kern_exec *e,
                         const struct kern_device *d, struct infer_error *err);
/* Runs the primitive, which finds the residual where the result goes. */
int onednn_layer_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err);

#endif
