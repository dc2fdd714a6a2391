/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that are operation graphs: a recipe says how a problem becomes a graph,
 * and everything else is the same for all of them.
 *
 * Where no engine computes the whole of a problem, two subgraphs
 * may compute it: the operation alone into single precision at the start of the
 * workspace, then bias, residual and activation from there.
 *
 * Only making a plan shows whether cuDNN takes a problem.  That is slow, so the
 * answer is kept for the prepare() that follows.
 */
#ifndef KERNELS_CUDNN_SOLVE_H
#define KERNELS_CUDNN_SOLVE_H

#include "kernels/cudnn/graph.h"

enum cudnn_subgraph { CUDNN_WHOLE, CUDNN_FIRST, CUDNN_SECOND };

struct cudnn_recipe {
    /* Limits that are ours and not cuDNN's.  0 or EUNSUPPORTED. */
    int (*check)(const struct kern_problem *p, struct infer_error *why);
    /* Adds the operations of a subgraph; failures are remembered in g. */
    void (*build)(const struct kern_problem *p, enum cudnn_subgraph which,
                  struct cudnn_graph *g);
    /* Bytes of the first subgraph's result; 0 if the recipe has no second
     * one. */
    size_t (*scratch)(const struct kern_problem *p);
    bool products;    /* multiplies activations by weights, */
    bool tf32;        /* which may be rounded to TF32 */
    bool rounds_bias; /* reads the bias in the type of the output */
};

int cudnn_recipe_supports(const struct cudnn_recipe *r,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why);
int cudnn_recipe_variants(const struct cudnn_recipe *r,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err);
/* Fills e->state, e->workspace, e->variant_name and e->flags. */
int cudnn_recipe_prepare(const struct cudnn_recipe *r, struct kern_exec *e,
                         const struct kern_device *d, struct infer_error *err);
int cudnn_recipe_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err);
void cudnn_recipe_release(struct kern_exec *e);

/* Adds residual, bias and activation after v, which is the operation's result
 * of that shape; the last of them writes CUDNN_OUT in p's type, and a copy
 * does where there is none.  bias and residual: indices in p->in, -1 for none.
 */
void cudnn_add_epilogue(struct cudnn_graph *g, const struct kern_problem *p,
                        const struct cudnn_shape *shape, int bias, int residual,
                        cudnnBackendDescriptor_t v);
/* True if the problem has a residual, a bias or an activation. */
bool cudnn_has_epilogue(const struct kern_problem *p, int bias, int residual);

#endif
