/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution as its emitters see it. */
#ifndef TOOLS_EMIT_CONV_H
#define TOOLS_EMIT_CONV_H

#include "tools/emit/emitter.h"

/* A convolution's shape with three spatial dimensions; those that the problem
 * lacks have extent 1 and stride 0. */
struct conv {
    const struct kern_problem *p;
    struct kern_tensor x, w, y, r, scale;
    bool has_bias, has_residual, has_scale;
    bool integers; /* of 8 bits, with scales */
    int64_t in[3], out[3], window[3], step[3], dilation[3], pad[3], pad_end[3];
    int64_t xs[3], ws[3], ys[3], rs[3];
    int64_t groups, c, k; /* input and output channels of a group */
    int64_t w_group, w_c, w_k;
    bool depthwise; /* one input and one output channel a group */
    int array;      /* that of the weights, or -1 */
    bool by_table;  /* weights and bias are no pointers (conv_layer.c) */
    bool copied;    /* each pixel's window is copied first */
};

/* Reads x, y and r of a step and the shape, without declaring anything. */
void emit_conv_look(const struct plan_step *s, struct conv *v);
/* Declares the weights, or, by table, adds their array. */
int emit_conv_weights(struct emit *e, const struct plan_step *s, struct conv *v,
                      bool transposed, struct infer_error *err);
/* Loops over images and output pixels. */
void emit_conv_open_pixels(struct emit *e, const struct conv *v);
void emit_conv_close_pixels(struct emit *e, const struct conv *v);
/* "n * 64 + p * 8 + ": the offset of a pixel. */
void emit_conv_pixel(const struct conv *v, const struct kern_tensor *t,
                     const int64_t *stride, char text[256]);
/* The loop over a spatial dimension of the output: "o", "p" or "q". */
const char *emit_conv_index(int d);
/* Whether some tap along dimension d falls outside the input. */
bool emit_conv_has_edge(const struct conv *v, int d);

/* Writes a convolution of floats by a table (layer.c): 0; 1 if it is none of
 * those, with nothing declared. */
int emit_conv_layer(struct emit *e, const struct plan_step *s,
                    struct infer_error *err);

#endif
