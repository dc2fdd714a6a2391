/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN's operation graphs in C: tensors, operations, the engines that can run
 * a graph, and plans, which are engines made ready.
 *
 * A graph is built by calls that remember the first failure, so that only the
 * last one, cudnn_graph_finish(), has to be asked.
 */
#ifndef KERNELS_CUDNN_GRAPH_H
#define KERNELS_CUDNN_GRAPH_H

#include "kernels/cudnn/library.h"

/* Numbers of tensors, which are bound to memory when a plan runs.  From
 * CUDNN_VIRTUAL on they exist inside the graph only. */
enum {
    CUDNN_IN = 1, /* + i */
    CUDNN_OUT = 16,
    CUDNN_SCRATCH, /* the start of the workspace */
    CUDNN_VALUE,   /* + i: a number of the graph itself */
    CUDNN_VIRTUAL = 32
};

#define CUDNN_MAX_OPS     8
#define CUDNN_MAX_RANK    5
#define CUDNN_MAX_TENSORS 8
#define CUDNN_MAX_VALUES  3

/* A tensor as cuDNN sees it: N,C,spatial. */
struct cudnn_shape {
    cudnnDataType_t dtype;
    int rank;
    int64_t dim[CUDNN_MAX_RANK], stride[CUDNN_MAX_RANK];
};

/* Dense, channels last. */
struct cudnn_shape cudnn_shape_nhwc(cudnnDataType_t dtype, int rank,
                                    const int64_t *dim);

/* An engine with its settings, as the heuristics offer it. */
struct cudnn_engine {
    cudnnBackendDescriptor_t config;
    char name[KERN_VARIANT_NAME];
    unsigned flags; /* KERN_NONDETERMINISTIC, KERN_INEXACT, KERN_TF32 */
};

/* For what plans are made: the device of a handle, or one that is only
 * described (then nothing can be launched). */
struct cudnn_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
};

/* Opaque outside graph.c but for the engines. */
struct cudnn_graph {
    const struct cudnn_library *lib;
    struct infer_error *err; /* of the calls that build */
    int rc;                  /* their first failure */
    bool ieee;               /* F32 factors of products are not rounded */
    /* Properties for which engines are known to be wrong: see is_faulty(). */
    enum cudnn_direction direction;
    bool small_window; /* too small for Fourier's transform */
    bool uneven_pads;  /* at both ends of an axis */
    bool ragged;       /* channels of a group that are no multiple of 8 */
    bool narrow;       /* factors of 16 bits */
    bool few_terms;    /* too few for the error of Winograd's transform */
    bool adds;         /* a residual to rows of BF16 */
    bool rounds_bias;  /* the bias is read in the type of the output */
    cudnnBackendDescriptor_t *own;
    int n_own, own_capacity;
    cudnnBackendDescriptor_t op[CUDNN_MAX_OPS];
    int n_ops;
    cudnnBackendDescriptor_t operations;
    int64_t uid[CUDNN_MAX_TENSORS]; /* of the tensors that are not virtual */
    int n_uids;
    int64_t next_virtual;
    float value[CUDNN_MAX_VALUES];
    int n_values;
    struct cudnn_engine *engine;
    int n_engines;
};

void cudnn_graph_init(struct cudnn_graph *g, const struct cudnn_library *lib,
                      bool ieee, struct infer_error *err);
void cudnn_graph_free(struct cudnn_graph *g);

/* Each returns NULL after a failure. */
cudnnBackendDescriptor_t cudnn_graph_tensor(struct cudnn_graph *g,
                                            const struct cudnn_shape *shape,
                                            int64_t uid);
/* A virtual tensor in single precision. */
cudnnBackendDescriptor_t cudnn_graph_virtual(struct cudnn_graph *g,
                                             const struct cudnn_shape *shape);

/* Spatial attributes of a convolution or a window, outermost first. */
struct cudnn_window {
    int rank;
    int64_t size[3], stride[3], dilation[3], pre[3], post[3];
};

/* Of y = conv(x, w), with the gradient for what is computed. */
void cudnn_graph_conv(struct cudnn_graph *g, const struct cudnn_window *win,
                      enum cudnn_direction direction,
                      cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                      cudnnBackendDescriptor_t y);
void cudnn_graph_pool(struct cudnn_graph *g, const struct cudnn_window *win,
                      const struct kern_pool *pool, cudnnBackendDescriptor_t x,
                      cudnnBackendDescriptor_t y);
void cudnn_graph_add(struct cudnn_graph *g, cudnnBackendDescriptor_t a,
                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y);
/* Whether cuDNN has a function. */
bool cudnn_graph_knows(enum kern_unary_kind kind);
/* y = act(x), all of that shape; a function that cuDNN has. */
void cudnn_graph_unary(struct cudnn_graph *g, const struct kern_unary *act,
                       const struct cudnn_shape *shape,
                       cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);

/* Ends building and asks the heuristics (mode A, then the fallback) for
 * engines.  0, or a code: EUNSUPPORTED where there is none. */
int cudnn_graph_finish(struct cudnn_graph *g, const struct cudnn_target *target,
                       bool deterministic);

struct cudnn_plan {
    cudnnBackendDescriptor_t plan;
    size_t workspace;
};

/* Makes engine i ready, which may compile a kernel. */
int cudnn_plan_new(const struct cudnn_graph *g, int i,
                   const struct cudnn_target *target, struct infer_error *err,
                   struct cudnn_plan *out);
void cudnn_plan_free(const struct cudnn_library *lib, struct cudnn_plan *plan);

/* Enqueues; pointer[i] belongs to g->uid[i]. */
int cudnn_plan_run(const struct cudnn_graph *g, const struct cudnn_plan *plan,
                   cudnnHandle_t handle, void *const *pointer, void *workspace,
                   struct infer_error *err);

#endif
