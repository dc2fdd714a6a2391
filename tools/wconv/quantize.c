/* SPDX-License-Identifier: Apache-2.0 */
/* --quantize: ranges from samples, 8 bits into the graph, and what that costs
 * in accuracy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/wconv/quantize.h"

/* Equalisation computes the same function but for roundings of F32. */
#define SAME_DB 60

/* ---- calibration --------------------------------------------------- */

typedef int take_fn(void *user, int i, const float *data, int rank,
                    const int64_t *dim, struct infer_error *err);

static int take_range(void *user, int i, const float *data, int rank,
                      const int64_t *dim, struct infer_error *err)
{
    return quantizer_observe(user, i, data, rank, dim, err);
}

static int take_channels(void *user, int i, const float *data, int rank,
                         const int64_t *dim, struct infer_error *err)
{
    return equalizer_observe(user, i, data, rank, dim, err);
}

/* Shows the values of all samples, once, to `take`. */
static int observe(struct probe *p, const struct samples *s, struct cli *cli,
                   const char *what, take_fn *take, void *user,
                   struct infer_error *err)
{
    int rc = INFER_OK;

    for (int k = 0; rc == INFER_OK && k < s->n; k++) {
        cli_progress(cli, what, (uint64_t)k, (uint64_t)s->n);
        rc = probe_run(p, s, k, err);
        for (int i = 0; rc == INFER_OK && i < p->n; i++) {
            const struct infer_array *a = &p->out[p->place[i]];

            rc = a->dtype == INFER_F32
                     ? take(user, i, a->data, a->rank, a->dim, err)
                     : error_set(err, INFER_EUNSUPPORTED,
                                 "--quantize: a layer reads %s, not F32",
                                 infer_dtype_name(a->dtype));
        }
        if (rc < 0)
            error_prefix(err, "sample %d", k + 1);
    }
    return rc;
}

static int calibrate(const struct graph *g, const struct samples *s,
                     struct cli *cli, struct quantizer *q,
                     struct infer_error *err)
{
    const int *value;
    const int n = quantizer_watched(q, &value);
    struct probe p;
    int rc = probe_open(g, value, n, err, &p);

    do
        rc = rc < 0 ? rc : observe(&p, s, cli, "calibrate", take_range, q, err);
    while (rc == INFER_OK && quantizer_next(q));
    probe_close(&p);
    return rc;
}

/* ---- equalisation -------------------------------------------------- */

/* Equalises g; out->unequalised becomes the graph before. */
static int equalize(struct graph *g, const struct samples *s, struct cli *cli,
                    struct wconv_quantized *out, struct infer_error *err)
{
    struct quantize_subject subject = {.after = g, .samples = s, .most = 8};
    struct wconv_verdict_quantized v;
    struct probe p = {0};
    const int *value;
    int n, rc;

    out->unequalised = graph_copy(g);
    if (!out->unequalised)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = equalizer_open(out->unequalised, err, &out->equalizer);
    if (rc < 0)
        return rc;
    n = equalizer_watched(out->equalizer, &value);
    if (n == 0)
        return INFER_OK;
    rc = probe_open(out->unequalised, value, n, err, &p);
    if (rc == INFER_OK)
        rc =
            observe(&p, s, cli, "equalise", take_channels, out->equalizer, err);
    probe_close(&p);
    if (rc == INFER_OK)
        rc = equalizer_apply(out->equalizer, g, err);
    if (rc < 0)
        return rc;
    out->n_pairs = equalizer_pairs(out->equalizer, &out->pair);
    subject.before = out->unequalised;
    rc = quantize_measure(&subject, cli, "equalise", &v, NULL, err);
    if (rc == INFER_OK && !(v.sqnr >= SAME_DB))
        rc = error_set(err, INFER_EMISMATCH,
                       "--equalize: the equalised network's outputs are only "
                       "%.1f dB over their difference from the network's",
                       v.sqnr);
    return rc;
}

/* ---- all ----------------------------------------------------------- */

static int judge(const struct wconv_request *r,
                 const struct wconv_quantized *out, struct infer_error *err)
{
    const struct wconv_verdict_quantized *v = &out->verdict;

    if (r->verify && v->rows > 0 && v->agree * 100.0 < r->agreement * v->rows)
        return error_set(err, INFER_EMISMATCH,
                         "%s: verification failed: the top class is that of "
                         "the float network in %d of %d samples, less than %g "
                         "%% (--agreement)",
                         r->in, v->agree, v->rows, r->agreement);
    if (r->verify && isnan(v->sqnr))
        return error_set(err, INFER_EMISMATCH,
                         "%s: verification failed: the quantised network gives "
                         "no finite numbers",
                         r->in);
    return INFER_OK;
}

/* Calibrates, chooses the layers, quantises g, and compares. */
static int quantize(struct graph *g, const struct samples *calibration,
                    const struct samples *judged, const struct wconv_request *r,
                    struct cli *cli, struct wconv_quantized *out,
                    struct infer_error *err)
{
    struct quantizer *q = out->quantizer;
    struct quantize_subject subject = {out->before, g, judged, 0, NULL, 0};
    int rc = calibrate(out->before, calibration, cli, q, err);

    if (rc < 0)
        return rc;
    out->samples = calibration->n;
    out->n_layers = quantizer_layers(q, &out->layer);
    out->sqnr = calloc((size_t)out->n_layers + 1, sizeof *out->sqnr);
    out->alone = calloc((size_t)out->n_layers + 1, sizeof *out->alone);
    if (!out->sqnr || !out->alone)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < out->n_layers; i++)
        out->alone[i] = NAN;
    rc = quantize_search(q, out->before, judged, r, cli, out, err);
    if (rc == INFER_OK)
        rc = quantizer_apply(q, g, err);
    subject.layer = out->layer;
    subject.n_layers = out->n_layers;
    if (rc == INFER_OK)
        rc = quantize_measure(&subject, cli, "compare", &out->verdict,
                              out->sqnr, err);
    return rc < 0 ? rc : judge(r, out, err);
}

int wconv_quantize(struct graph *g, const struct wconv_request *r,
                   struct cli *cli, struct wconv_quantized *out,
                   struct infer_error *err)
{
    struct quantize_options options;
    struct samples calibration = {0}, judged = {0};
    int rc = graph_compact(g, err);

    quantize_options_init(&options);
    options.dtype = r->quantize == 2 ? INFER_F8E4M3 : INFER_I8;
    options.method = (enum quantize_method)r->calib;
    options.keep_float = r->keep_float;
    out->dtype = options.dtype;
    if (rc == INFER_OK)
        rc = samples_read(r->calibrate, g, err, &calibration);
    if (rc == INFER_OK && r->evaluate)
        rc = samples_read(r->evaluate, g, err, &judged);
    memcpy(out->note, r->evaluate ? judged.note : calibration.note,
           sizeof out->note);
    if (rc == INFER_OK && r->equalize)
        rc = equalize(g, &calibration, cli, out, err);
    if (rc == INFER_OK && (out->before = graph_copy(g)) == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == INFER_OK)
        rc = quantizer_open(out->before, &options, err, &out->quantizer);
    if (rc == INFER_OK)
        rc = quantize(g, &calibration, r->evaluate ? &judged : &calibration, r,
                      cli, out, err);
    samples_clear(&calibration);
    samples_clear(&judged);
    return rc;
}

void wconv_quantized_clear(struct wconv_quantized *q)
{
    quantizer_close(q->quantizer);
    equalizer_close(q->equalizer);
    graph_free(q->before);
    graph_free(q->unequalised);
    free(q->sqnr);
    free(q->alone);
    memset(q, 0, sizeof *q);
}
