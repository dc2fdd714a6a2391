/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equalisation of channels before quantisation.
 *
 * A tensor has one scale for all of its channels: where these differ much,
 * those of small values keep few of its 256 numbers.  Between two layers with
 * nothing but an activation f with f(t x) = t f(x) for t > 0, channel c can be
 * multiplied by t: row c of the first layer's weights and its bias by t, the
 * weights of the second that read c by 1/t.  The network computes the same
 * function.  As weights have a scale for each output channel, t is chosen so
 * that
 *
 * - before a depthwise layer, each channel reaches the range of the tensor:
 * such a layer reads one channel a row, so that its weights lose nothing;
 * - else, t = sqrt(w / x) up to a common factor, x being the channel's largest
 *   magnitude and w the largest weight that reads it, so that both ranges are
 *   equally uneven (M. Nagel et al., Data-Free Quantization Through Weight
 *   Equalization and Bias Correction, ICCV 2019, with measured x).
 *
 * ReLU6 is no such activation: a channel is then only made larger, and only as
 * far as the largest value of the samples stays EQUALIZE_ROOM below the upper
 * limit.  On the samples the function is the same; values beyond EQUALIZE_ROOM
 * times the largest of the samples are cut earlier than before.
 *
 * Order of calls: equalizer_open(); equalizer_observe() of every watched value
 * for each sample; equalizer_apply().
 */
#ifndef WEIGHTS_QUANTIZE_EQUALIZE_H
#define WEIGHTS_QUANTIZE_EQUALIZE_H

#include "libinfer/graph/graph.h"

/* Times the largest value of the samples that fits the tensor's limits. */
#define EQUALIZE_ROOM 1.25

/* A tensor between two layers. */
struct equalize_pair {
    const char *first, *second; /* names of the layers */
    bool clipped;               /* its activation has an upper limit */
    /* Largest over smallest magnitude of its channels, those that are always 0
     * left out; after: 0 where nothing was changed. */
    double spread_before, spread_after;
};

struct equalizer;
/* Finds the pairs.  The graph must have its passes behind it, its weights in
 * memory, and live until equalizer_close(). */
int equalizer_open(const struct graph *g, struct infer_error *err,
                   struct equalizer **out);
void equalizer_close(struct equalizer *e); /* NULL is fine */
/* The values to observe: indices into g->value. */
int equalizer_watched(const struct equalizer *e, const int **values);
/* Takes watched value number i of one sample, as quantizer_observe(). */
int equalizer_observe(struct equalizer *e, int i, const float *data, int rank,
                      const int64_t *dim, struct infer_error *err);
/* Changes the weights and biases of g, which must be the graph that was opened
 * or a copy of it. */
int equalizer_apply(struct equalizer *e, struct graph *g,
                    struct infer_error *err);
/* The pairs in the graph's order. */
int equalizer_pairs(const struct equalizer *e,
                    const struct equalize_pair **pairs);

#endif
