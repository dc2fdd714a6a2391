/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of --quantize: comparison with the network in floats, and the
 * search for the layers that stay in floats. */
#ifndef TOOLS_WCONV_QUANTIZE_H
#define TOOLS_WCONV_QUANTIZE_H

#include "tools/probe.h"
#include "tools/wconv/wconv.h"

/* What is compared. */
struct quantize_subject {
    const struct graph *before, *after;
    const struct samples *samples;
    int most; /* samples that are used, spread evenly; 0: all */
    /* Layers whose outputs are compared, too: NULL for none. */
    const struct quantize_layer *layer;
    int n_layers;
};

/* Runs both networks over the samples.  layer_sqnr: dB of each layer's output,
 * NULL without layers. */
int quantize_measure(const struct quantize_subject *subject, struct cli *cli,
                     const char *what, struct wconv_verdict_quantized *out,
                     double *layer_sqnr, struct infer_error *err);

/* Points of a hundred that are lost: of right classes where they are known,
 * else of samples whose class stays the same. */
double quantize_drop(const struct wconv_verdict_quantized *v);

/* Leaves layers of the calibrated quantiser in floats until --min-sqnr and
 * --max-drop of the request hold on the samples; those first that alone add
 * most to the error of the network's outputs.  Sets out->alone.  EMISMATCH:
 * they hold with no layer quantised, or not at all. */
int quantize_search(struct quantizer *q, const struct graph *before,
                    const struct samples *samples,
                    const struct wconv_request *request, struct cli *cli,
                    struct wconv_quantized *out, struct infer_error *err);

#endif
