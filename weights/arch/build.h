/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the graphs of the built-in architectures.
 *
 * A builder function adds one layer and returns the index of its output, or a
 * negative number: then the builder has failed, and every later call does
 * nothing and returns that number too, so that only arch_build_end() has to be
 * checked.  Weights are values without data, named as the framework names
 * them: layer "layer1.0.conv1" has "layer1.0.conv1.weight" and so on.
 */
#ifndef WEIGHTS_ARCH_BUILD_H
#define WEIGHTS_ARCH_BUILD_H

#include "libinfer/graph/graph.h"
#include "weights/arch.h"

struct arch_build {
    struct graph *g;
    struct infer_error *err;
    int status;
    float bn_epsilon; /* of arch_batch_norm(); PyTorch's 1e-5 at first */
};

/* Starts a graph called name. */
void arch_build_begin(struct arch_build *b, const char *name,
                      struct infer_error *err);
/* Hands the graph over with value `output` as its only output, or frees it. */
int arch_build_end(struct arch_build *b, int output, struct graph **out);

/* The input picture "input": N free, C,H,W as given, with the preprocessing
 * that goes with the published weights. */
int arch_image_input(struct arch_build *b, int channels, int height, int width,
                     const struct graph_preprocess *preprocess);
/* ImageNet as torchvision reads it: shorter side `resize`, centre crop, RGB,
 * usual mean and deviation. */
struct graph_preprocess arch_imagenet(int resize);
/* Exact size, RGB, pixel / 255, then these means and deviations (3 each). */
struct graph_preprocess arch_rgb(const float *mean, const float *std);
struct graph_preprocess arch_gray(float mean, float std);

/* The name "a.b" in a buffer of its own; long names are cut (the builder
 * fails on the clash that follows). */
struct arch_name {
    char text[96];
};
struct arch_name arch_join(const char *prefix, const char *name);
/* "prefix.i" */
struct arch_name arch_item(const char *prefix, int i);

/* Attributes of a convolution; kernel and pad are those of both
 * dimensions.  0 means 1 for groups and stride. */
struct arch_conv {
    int in, out; /* channels */
    int kernel, stride, pad, groups;
    bool bias;
};
int arch_conv(struct arch_build *b, const char *name, int x,
              struct arch_conv c);
int arch_batch_norm(struct arch_build *b, const char *name, int x,
                    int channels);
int arch_dense(struct arch_build *b, const char *name, int x, int in, int out);
int arch_unary(struct arch_build *b, int x, enum kern_unary_kind kind, float a,
               float c);
int arch_relu(struct arch_build *b, int x);
int arch_binary(struct arch_build *b, enum kern_binary_kind kind, int x, int y);
int arch_add(struct arch_build *b, int x, int y);
int arch_concat(struct arch_build *b, const int *x, int n);
int arch_max_pool(struct arch_build *b, int x, int window, int stride, int pad,
                  bool ceil_mode);
int arch_average_pool(struct arch_build *b, int x, int window, int stride);
/* Mean of each plane; N,C,1,1. */
int arch_global_average_pool(struct arch_build *b, int x);
int arch_flatten(struct arch_build *b, int x);
int arch_dropout(struct arch_build *b, int x, float ratio);
int arch_pad(struct arch_build *b, int x, const int begin[4], const int end[4]);
/* A weight without data. */
int arch_weight(struct arch_build *b, const char *name, int rank,
                const int64_t *dim);
/* A constant with data. */
int arch_constant(struct arch_build *b, const char *name, int64_t n,
                  const float *x);
/* Any node with one output; fill the attributes through b->g->node. */
int arch_node(struct arch_build *b, enum graph_op op, const char *name,
              const int *in, int n_in, int *node);

#endif
