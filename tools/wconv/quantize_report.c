/* SPDX-License-Identifier: Apache-2.0 */
/* The report of --quantize: which layers, their ranges, and the accuracy. */
#include <math.h>
#include <stdio.h>

#include "kernels/base/json.h"
#include "tools/wconv/quantize.h"

static const char *word_of(const struct wconv_quantized *q)
{
    return q->dtype == INFER_I8 ? "int8" : "fp8";
}

static int count_quantized(const struct wconv_quantized *q)
{
    int n = 0;

    for (int i = 0; i < q->n_layers; i++)
        n += q->layer[i].why == NULL;
    return n;
}

static void print_layer(const struct cli *cli, const struct wconv_quantized *q,
                        int i)
{
    const struct quantize_layer *l = &q->layer[i];
    char alone[48] = "";

    if (isfinite(q->alone[i]))
        snprintf(alone, sizeof alone, ", network %.1f dB with it alone",
                 q->alone[i]);
    if (l->why != NULL)
        cli_print("    %-34s stays float: %s%s\n", l->name, l->why, alone);
    else if (cli->verbosity > 0)
        cli_print("    %-34s input %s %.4g to %.4g (limit %.4g), weights "
                  "%.1f dB, output %.1f dB%s\n",
                  l->name, infer_dtype_name(l->dtype), l->low, l->high,
                  l->limit, l->weight_sqnr, q->sqnr[i], alone);
}

static void print_pairs(const struct cli *cli, const struct wconv_quantized *q)
{
    double widest = 0;

    if (q->n_pairs == 0)
        return;
    for (int i = 0; i < q->n_pairs; i++)
        widest = fmax(widest, q->pair[i].spread_before);
    printf("  %-22s %4d  tensor%s between layers, channels up to %.3g times "
           "apart\n",
           "equalised", q->n_pairs, q->n_pairs == 1 ? "" : "s", widest);
    for (int i = 0; i < q->n_pairs && cli->verbosity > 0; i++)
        cli_print("    %-34s before %s: channels %.3g times apart, then "
                  "%.3g%s\n",
                  q->pair[i].first, q->pair[i].second, q->pair[i].spread_before,
                  q->pair[i].spread_after,
                  q->pair[i].clipped ? " (upper limit kept)" : "");
}

void wconv_print_quantized(const struct cli *cli,
                           const struct wconv_quantized *q)
{
    const struct wconv_verdict_quantized *v = &q->verdict;

    if (q->note[0])
        printf("  note: %s\n", q->note);
    print_pairs(cli, q);
    printf("  %-22s %4d  of %d layers to %s, %d sample%s\n", "quantised",
           count_quantized(q), q->n_layers, word_of(q), q->samples,
           q->samples == 1 ? "" : "s");
    for (int i = 0; i < q->n_layers; i++)
        print_layer(cli, q, i);
    printf("  %-22s       ", "accuracy");
    if (v->measured)
        printf("output SQNR %.1f dB", v->sqnr);
    else
        printf("no output comes from floats");
    if (v->rows > 0)
        printf("; top class equal in %d of %d (%.1f %%)", v->agree, v->rows,
               100.0 * v->agree / v->rows);
    if (v->labelled > 0)
        printf("; right in %d before, %d after (%+.2f points)", v->right[0],
               v->right[1], -quantize_drop(v));
    putchar('\n');
}

/* JSON has no infinity: a layer without an error has no such number. */
static void add_finite(cJSON *item, const char *name, double v)
{
    if (isfinite(v))
        cJSON_AddNumberToObject(item, name, v);
}

static void add_layer(cJSON *list, const struct wconv_quantized *q, int i)
{
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
    add_finite(item, "alone_sqnr_db", q->alone[i]);
    json_append(list, item);
}

static void add_pairs(cJSON *top, const struct wconv_quantized *q)
{
    cJSON *list = cJSON_AddArrayToObject(top, "equalised");

    for (int i = 0; i < q->n_pairs; i++) {
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "first", q->pair[i].first);
        cJSON_AddStringToObject(item, "second", q->pair[i].second);
        cJSON_AddBoolToObject(item, "upper_limit", q->pair[i].clipped);
        add_finite(item, "spread_before", q->pair[i].spread_before);
        add_finite(item, "spread_after", q->pair[i].spread_after);
        json_append(list, item);
    }
}

void wconv_quantized_json(cJSON *json, const struct wconv_quantized *q)
{
    const struct wconv_verdict_quantized *v = &q->verdict;
    cJSON *top = cJSON_AddObjectToObject(json, "quantised"), *list;

    cJSON_AddStringToObject(top, "type", word_of(q));
    cJSON_AddNumberToObject(top, "samples", q->samples);
    cJSON_AddNumberToObject(top, "layers_quantised", count_quantized(q));
    if (v->measured)
        add_finite(top, "output_sqnr_db", v->sqnr);
    if (q->note[0])
        cJSON_AddStringToObject(top, "note", q->note);
    if (v->rows > 0) {
        cJSON_AddNumberToObject(top, "top_class_equal", v->agree);
        cJSON_AddNumberToObject(top, "top_class_rows", v->rows);
    }
    if (v->labelled > 0) {
        cJSON_AddNumberToObject(top, "labelled", v->labelled);
        cJSON_AddNumberToObject(top, "right_before", v->right[0]);
        cJSON_AddNumberToObject(top, "right_after", v->right[1]);
    }
    if (q->n_pairs > 0)
        add_pairs(top, q);
    list = cJSON_AddArrayToObject(top, "layers");
    for (int i = 0; i < q->n_layers; i++)
        add_layer(list, q, i);
}
