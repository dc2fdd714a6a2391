/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation of a trained network to 8 bits after training.
 *
 * Convolutions and dense layers with constant weights become layers in 8 bits.
 * To integers: their weights I8, symmetric, one scale an output channel; their
 * biases I32 in units of input scale times weight scale; each tensor that such
 * a layer reads I8, or U8 where the graph says that it is not negative, with
 * one scale and zero point 0.  To F8E4M3: weights with one scale an output
 * channel, and tensors with one scale, such that the largest becomes 448;
 * biases stay floats.  The graph says so by nodes quantize and dequantize,
 * which any backend computes in floats; kernels for 8 bits take a layer between
 * such nodes as one step.
 *
 * Order of calls: quantizer_open(); for each sample, quantizer_observe() of
 * every watched value; quantizer_next(); while that returns 1, all samples
 * again; quantizer_apply().
 */
#ifndef WEIGHTS_QUANTIZE_QUANTIZE_H
#define WEIGHTS_QUANTIZE_QUANTIZE_H

#include "libinfer/graph/graph.h"

/* How the range of a tensor is chosen from what the samples hold. */
enum quantize_method {
    QUANTIZE_MAX,        /* the largest magnitude */
    QUANTIZE_PERCENTILE, /* covers 99.99 % of the elements */
    QUANTIZE_MSE, /* least mean squared error of the quantised elements */
    /* Least Kullback-Leibler divergence of the quantised distribution from that
     * of the elements (S. Migacz, 8-bit Inference with TensorRT, GTC 2017). */
    QUANTIZE_ENTROPY
};

struct quantize_options {
    enum infer_dtype dtype; /* INFER_I8 or INFER_F8E4M3 */
    enum quantize_method method;
    bool bias_correction; /* true: takes the weights' mean error off the bias */
    /* Patterns (fnmatch) of layers that stay in floats, separated by commas;
     * NULL: none. */
    const char *keep_float;
};
void quantize_options_init(struct quantize_options *options);

/* A convolution, dense layer, transposed convolution or matrix product. */
struct quantize_layer {
    const char *name;
    const char *why;        /* it stays in floats; NULL: it is quantised */
    int x, y;               /* values of the graph that was opened */
    double low, high;       /* range of x over all samples */
    double limit;           /* largest magnitude that its quantised form has */
    enum infer_dtype dtype; /* of its input: I8, U8 or F8E4M3 */
    double weight_sqnr;     /* dB of the weights; of a quantised layer alone */
};

struct quantizer;
/* Finds the layers.  The graph must have its passes behind it, its weights in
 * memory, and live until quantizer_close().  EARGUMENT: a pattern meets no
 * layer. */
int quantizer_open(const struct graph *g,
                   const struct quantize_options *options,
                   struct infer_error *err, struct quantizer **out);
void quantizer_close(struct quantizer *q); /* NULL is fine */

/* The values to observe: indices into g->value. */
int quantizer_watched(const struct quantizer *q, const int **values);
/* Takes watched value number i of one sample: dense F32 with these dimensions,
 * the batch first.  EFORMAT: an element is no finite number. */
int quantizer_observe(struct quantizer *q, int i, const float *data, int rank,
                      const int64_t *dim, struct infer_error *err);
/* Ends a round over the samples: 1: another is needed; 0: none. */
int quantizer_next(struct quantizer *q);

/* Chooses whether layer i (of quantizer_layers()) stays in floats: the reason,
 * which lives as long as q, or NULL to quantise it.  A layer that cannot be
 * quantised, or was named in keep_float, keeps its own reason. */
void quantizer_keep(struct quantizer *q, int i, const char *why);

/* Quantises g, which must be the graph that was opened or a copy of it.  Leaves
 * it compact and valid.  May be called again, for another copy and after other
 * choices of quantizer_keep(). EUNSUPPORTED: no layer can be quantised. */
int quantizer_apply(struct quantizer *q, struct graph *g,
                    struct infer_error *err);

/* The layers in the graph's order; the text lives as long as q. */
int quantizer_layers(const struct quantizer *q,
                     const struct quantize_layer **layers);

#endif
