/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers that stay in floats so that a network keeps its accuracy.
 *
 * Where the whole network in 8 bits misses what was asked for, each layer is
 * quantised alone, and the error that it adds at the network's outputs orders
 * the layers.  Errors of layers are nearly independent, so that their powers
 * add: leaving out the largest ones gains most.  How many of them is found by
 * bisection, each try being measured as a whole.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "tools/wconv/quantize.h"

/* Samples by which the layers are ordered. */
#define RANKING_SAMPLES 16

struct search {
    struct quantizer *q;
    const struct graph *before;
    const struct samples *samples;
    const struct wconv_request *request;
    struct cli *cli;
    struct wconv_quantized *out;
    int *order; /* layers that may be quantised, the largest error first */
    int n;
    struct infer_error *err;
};

static const char because[] = "its error is among the largest";

/* Quantises all layers but the first `kept` of the order, or only layer `one`
 * of it, and compares. */
static int try_layers(const struct search *s, int kept, int one, int most,
                      const char *what, struct wconv_verdict_quantized *v)
{
    struct graph *copy = graph_copy(s->before);
    struct quantize_subject subject = {.before = s->before,
                                       .after = copy,
                                       .samples = s->samples,
                                       .most = most};
    int rc;

    if (!copy)
        return error_set(s->err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < s->n; i++)
        quantizer_keep(s->q, s->order[i],
                       (one >= 0 ? i != one : i < kept) ? because : NULL);
    rc = quantizer_apply(s->q, copy, s->err);
    if (rc == INFER_OK)
        rc = quantize_measure(&subject, s->cli, what, v, NULL, s->err);
    graph_free(copy);
    return rc;
}

static bool holds(const struct wconv_request *r,
                  const struct wconv_verdict_quantized *v)
{
    return (r->min_sqnr < 0 || v->sqnr >= r->min_sqnr) &&
           (r->max_drop < 0 || quantize_drop(v) <= r->max_drop);
}

/* Sets out->alone of all layers and puts the order in place. */
static int rank_layers(struct search *s)
{
    double *alone = s->out->alone;
    struct wconv_verdict_quantized v;
    int rc = INFER_OK;

    for (int i = 0; rc == INFER_OK && i < s->n; i++) {
        rc = try_layers(s, 0, i, RANKING_SAMPLES, "rank", &v);
        if (rc == INFER_OK)
            alone[s->order[i]] = v.sqnr;
    }
    /* Insertion keeps the graph's order among equals. */
    for (int i = 1; rc == INFER_OK && i < s->n; i++) {
        const int layer = s->order[i];
        int k = i;

        /* Not a number comes first. */
        for (; k > 0 && !(alone[s->order[k - 1]] <= alone[layer]); k--)
            s->order[k] = s->order[k - 1];
        s->order[k] = layer;
    }
    return rc;
}

static int refuse(const struct search *s,
                  const struct wconv_verdict_quantized *v)
{
    char drop[64] = "";

    if (v->rows > 0)
        snprintf(drop, sizeof drop, ", %.2f points lost", quantize_drop(v));
    return error_set(s->err, INFER_EMISMATCH,
                     "%s: with at most one layer quantised the "
                     "signal-to-noise ratio of its outputs is %.1f dB%s: "
                     "--min-sqnr or --max-drop cannot be kept",
                     s->request->in, v->sqnr, drop);
}

/* The least number of layers in floats with which it holds. */
static int bisect(struct search *s)
{
    struct wconv_verdict_quantized v;
    int low = 0, high = s->n - 1; /* misses, holds */
    int rc = try_layers(s, high > 0 ? high : 0, -1, 0, "search", &v);

    if (rc == INFER_OK && !holds(s->request, &v))
        return refuse(s, &v);
    while (rc == INFER_OK && high - low > 1) {
        const int middle = low + (high - low) / 2;

        rc = try_layers(s, middle, -1, 0, "search", &v);
        if (rc == INFER_OK && holds(s->request, &v))
            high = middle;
        else
            low = middle;
    }
    for (int i = 0; i < s->n; i++)
        quantizer_keep(s->q, s->order[i], i < high ? because : NULL);
    return rc;
}

int quantize_search(struct quantizer *q, const struct graph *before,
                    const struct samples *samples,
                    const struct wconv_request *request, struct cli *cli,
                    struct wconv_quantized *out, struct infer_error *err)
{
    struct search s = {.q = q,
                       .before = before,
                       .samples = samples,
                       .request = request,
                       .cli = cli,
                       .out = out,
                       .err = err};
    struct wconv_verdict_quantized v;
    int rc;

    if (request->min_sqnr < 0 && request->max_drop < 0)
        return INFER_OK;
    s.order = calloc((size_t)out->n_layers + 1, sizeof *s.order);
    if (!s.order)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < out->n_layers; i++)
        if (!out->layer[i].why)
            s.order[s.n++] = i;
    rc = try_layers(&s, 0, -1, 0, "search", &v);
    if (rc == INFER_OK && request->max_drop >= 0 && v.rows == 0)
        rc = error_set(err, INFER_EARGUMENT,
                       "--max-drop: the first output is no row of classes");
    if (rc == INFER_OK && request->min_sqnr >= 0 && !v.measured)
        rc =
            error_set(err, INFER_EARGUMENT,
                      "--min-sqnr: no output of the network comes from floats");
    if (rc == INFER_OK && !holds(request, &v)) {
        rc = rank_layers(&s);
        if (rc == INFER_OK)
            rc = bisect(&s);
    }
    free(s.order);
    return rc;
}
