/* SPDX-License-Identifier: Apache-2.0 */
/* --quantize: ranges from samples, 8 bits into the graph, and what that costs
 * in accuracy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"
#include "tools/array.h"
#include "tools/probe.h"
#include "tools/samples.h"
#include "tools/wconv/wconv.h"

/* ---- calibration --------------------------------------------------- */

static int observe(struct quantizer *q, struct probe *p, int sample,
                   struct infer_error *err)
{
    int rc = INFER_OK;

    for (int i = 0; rc == INFER_OK && i < p->n; i++) {
        const struct infer_array *a = &p->out[p->place[i]];

        if (a->dtype != INFER_F32)
            return error_set(err, INFER_EUNSUPPORTED,
                             "--quantize: a layer reads %s, not F32",
                             infer_dtype_name(a->dtype));
        rc = quantizer_observe(q, i, a->data, a->rank, a->dim, err);
    }
    if (rc < 0)
        error_prefix(err, "sample %d", sample + 1);
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
        for (int i = 0; rc == INFER_OK && i < s->n; i++) {
            cli_progress(cli, "calibrate", i, s->n);
            rc = probe_run(&p, s, i, err);
            if (rc == INFER_OK)
                rc = observe(q, &p, i, err);
        }
    while (rc == INFER_OK && quantizer_next(q));
    probe_close(&p);
    return rc;
}

/* ---- what it costs ------------------------------------------------- */

static double decibels(double signal, double noise)
{
    return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

static void add_noise(const struct infer_array *a, const struct infer_array *b,
                      double *signal, double *noise)
{
    for (int64_t i = 0; i < array_count(a); i++) {
        const double x = scalar_load(a->dtype, a->data, i);
        const double d = x - scalar_load(b->dtype, b->data, i);

        *signal += x * x;
        *noise += d * d;
    }
}

/* Index of the largest element of each row of a matrix. */
static int count_agreement(const struct infer_array *a,
                           const struct infer_array *b, int *rows)
{
    const int64_t columns = a->dim[1];
    int equal = 0;

    for (int64_t r = 0; r < a->dim[0]; r++) {
        int64_t best[2] = {0, 0};

        for (int64_t c = 1; c < columns; c++) {
            const int64_t at = r * columns;

            if (scalar_load(a->dtype, a->data, at + c) >
                scalar_load(a->dtype, a->data, at + best[0]))
                best[0] = c;
            if (scalar_load(b->dtype, b->data, at + c) >
                scalar_load(b->dtype, b->data, at + best[1]))
                best[1] = c;
        }
        equal += best[0] == best[1];
        ++*rows;
    }
    return equal;
}

static bool is_classes(const struct infer_array *a)
{
    return a->rank == 2 && a->dim[1] > 1;
}

/* Adds one sample's outputs and layers. */
static void compare(struct wconv_quantized *out, const struct probe *a,
                    const struct probe *b, double (*noise)[2])
{
    for (int i = 0; i < a->n; i++)
        add_noise(&a->out[a->place[i]], &b->out[b->place[i]], &noise[i][0],
                  &noise[i][1]);
    add_noise(&a->out[0], &b->out[0], &noise[a->n][0], &noise[a->n][1]);
    if (is_classes(&a->out[0]))
        out->agree += count_agreement(&a->out[0], &b->out[0], &out->rows);
}

/* Runs both networks over the samples: the ratio of signal to noise at the
 * output of each layer and of the network, and the top class. */
static int measure(const struct graph *before, const struct graph *after,
                   const struct samples *s, struct cli *cli,
                   struct wconv_quantized *out, struct infer_error *err)
{
    const size_t n = (size_t)out->n_layers;
    int *left = calloc(n + 1, sizeof *left),
        *right = calloc(n + 1, sizeof(int));
    double(*noise)[2] = calloc(n + 1, sizeof *noise);
    struct probe a = {0}, b = {0};
    int rc = left && right && noise && out->sqnr
                 ? INFER_OK
                 : error_set(err, INFER_EMEMORY, "out of memory");

    for (size_t i = 0; rc == INFER_OK && i < n; i++) {
        left[i] = out->layer[i].y;
        right[i] = graph_find_value(after, before->value[left[i]].name);
        if (right[i] < 0)
            rc = error_set(err, INFER_EARGUMENT, "layer '%s' is gone",
                           out->layer[i].name);
    }
    if (rc == INFER_OK)
        rc = probe_open(before, left, (int)n, err, &a);
    if (rc == INFER_OK)
        rc = probe_open(after, right, (int)n, err, &b);
    for (int i = 0; rc == INFER_OK && i < s->n; i++) {
        cli_progress(cli, "compare", i, s->n);
        rc = probe_run(&a, s, i, err);
        if (rc == INFER_OK)
            rc = probe_run(&b, s, i, err);
        if (rc == INFER_OK)
            compare(out, &a, &b, noise);
    }
    for (size_t i = 0; rc == INFER_OK && i < n; i++)
        out->sqnr[i] = decibels(noise[i][0], noise[i][1]);
    if (rc == INFER_OK)
        out->output_sqnr = decibels(noise[n][0], noise[n][1]);
    probe_close(&a);
    probe_close(&b);
    free(left);
    free(right);
    free(noise);
    return rc;
}

static int judge(const struct wconv_request *r,
                 const struct wconv_quantized *out, struct infer_error *err)
{
    if (r->verify && out->rows > 0 &&
        out->agree * 100.0 < r->agreement * out->rows)
        return error_set(err, INFER_EMISMATCH,
                         "%s: verification failed: the top class is that of "
                         "the float network in %d of %d samples, less than %g "
                         "%% (--agreement)",
                         r->in, out->agree, out->rows, r->agreement);
    if (r->verify && isnan(out->output_sqnr))
        return error_set(err, INFER_EMISMATCH,
                         "%s: verification failed: the quantised network gives "
                         "no finite numbers",
                         r->in);
    return INFER_OK;
}

int wconv_quantize(struct graph *g, const struct wconv_request *r,
                   struct cli *cli, struct wconv_quantized *out,
                   struct infer_error *err)
{
    struct quantize_options options;
    struct samples s = {0};
    struct graph *before = NULL;
    int rc = graph_compact(g, err);

    quantize_options_init(&options);
    options.dtype = r->quantize == 2 ? INFER_F8E4M3 : INFER_I8;
    options.method = (enum quantize_method)r->calib;
    options.keep_float = r->keep_float;
    if (rc == INFER_OK && (before = graph_copy(g)) == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == INFER_OK)
        rc = samples_read(r->calibrate, g, err, &s);
    if (rc == INFER_OK)
        rc = quantizer_open(before, &options, err, &out->quantizer);
    if (rc == INFER_OK)
        rc = calibrate(before, &s, cli, out->quantizer, err);
    if (rc == INFER_OK)
        rc = quantizer_apply(out->quantizer, g, err);
    if (rc == INFER_OK) {
        out->dtype = options.dtype;
        out->samples = s.n;
        out->n_layers = quantizer_layers(out->quantizer, &out->layer);
        out->sqnr = calloc((size_t)out->n_layers + 1, sizeof *out->sqnr);
        rc = measure(before, g, &s, cli, out, err);
    }
    if (rc == INFER_OK)
        rc = judge(r, out, err);
    samples_clear(&s);
    out->before = before;
    return rc;
}

void wconv_quantized_clear(struct wconv_quantized *q)
{
    quantizer_close(q->quantizer);
    graph_free(q->before);
    free(q->sqnr);
    memset(q, 0, sizeof *q);
}

/* ---- report -------------------------------------------------------- */

static int count_quantized(const struct wconv_quantized *q)
{
    int n = 0;

    for (int i = 0; i < q->n_layers; i++)
        n += q->layer[i].why == NULL;
    return n;
}

void wconv_print_quantized(const struct cli *cli,
                           const struct wconv_quantized *q)
{
    printf("  %-22s %4d  of %d layers to %s, %d sample%s\n", "quantised",
           count_quantized(q), q->n_layers,
           q->dtype == INFER_I8 ? "int8" : "fp8", q->samples,
           q->samples == 1 ? "" : "s");
    for (int i = 0; i < q->n_layers; i++) {
        const struct quantize_layer *l = &q->layer[i];

        if (l->why != NULL)
            cli_print("    %-34s stays float: %s\n", l->name, l->why);
        else if (cli->verbosity > 0)
            cli_print("    %-34s input %s %.4g to %.4g (limit %.4g), weights "
                      "%.1f dB, output %.1f dB\n",
                      l->name, infer_dtype_name(l->dtype), l->low, l->high,
                      l->limit, l->weight_sqnr, q->sqnr[i]);
    }
    printf("  %-22s       output %.1f dB over its error", "accuracy",
           q->output_sqnr);
    if (q->rows > 0)
        printf("; top class equal in %d of %d (%.1f %%)", q->agree, q->rows,
               100.0 * q->agree / q->rows);
    putchar('\n');
}

/* JSON has no infinity: a layer without an error has no such number. */
static void add_finite(cJSON *item, const char *name, double v)
{
    if (isfinite(v))
        cJSON_AddNumberToObject(item, name, v);
}

void wconv_quantized_json(cJSON *json, const struct wconv_quantized *q)
{
    cJSON *top = cJSON_AddObjectToObject(json, "quantised"), *list;

    cJSON_AddStringToObject(top, "type", q->dtype == INFER_I8 ? "int8" : "fp8");
    cJSON_AddNumberToObject(top, "samples", q->samples);
    cJSON_AddNumberToObject(top, "layers_quantised", count_quantized(q));
    add_finite(top, "output_sqnr_db", q->output_sqnr);
    if (q->rows > 0) {
        cJSON_AddNumberToObject(top, "top_class_equal", q->agree);
        cJSON_AddNumberToObject(top, "top_class_rows", q->rows);
    }
    list = cJSON_AddArrayToObject(top, "layers");
    for (int i = 0; i < q->n_layers; i++) {
        const struct quantize_layer *l = &q->layer[i];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "name", l->name);
        if (l->why != NULL) {
            cJSON_AddStringToObject(item, "float", l->why);
        } else {
            cJSON_AddStringToObject(item, "input", infer_dtype_name(l->dtype));
            cJSON_AddNumberToObject(item, "low", l->low);
            cJSON_AddNumberToObject(item, "high", l->high);
            cJSON_AddNumberToObject(item, "limit", l->limit);
            add_finite(item, "weight_sqnr_db", l->weight_sqnr);
        }
        add_finite(item, "output_sqnr_db", q->sqnr[i]);
        json_append(list, item);
    }
}
