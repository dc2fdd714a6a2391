/* SPDX-License-Identifier: Apache-2.0 */
/* Report of a conversion: what was read, folded, fused, removed and stripped,
 * and the bytes before and after. */
#include "tools/wconv/wconv.h"
#include "kernels/base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Names listed after a count, fewer where they do not fit the line; all with
 * -v. */
#define SHOWN 3
#define WIDTH 100

/* Prints a line for each pass that changed something: a count and examples. */
static void print_passes(const struct cli *cli, const struct pass_report *r)
{
    size_t p, i;

    for (p = 0; p < pass_count(); p++) {
        const char *name = pass_at(p)->name;
        size_t n = 0, used = 30;
        bool whole = true;

        for (i = 0; i < r->count; i++)
            n += strcmp(r->event[i].pass, name) == 0;
        if (n == 0)
            continue;
        printf("  %-22s %4zu  ", name, n);
        for (i = 0, n = 0; i < r->count; i++) {
            if (strcmp(r->event[i].pass, name) != 0)
                continue;
            used += 2 + strlen(r->event[i].text);
            if (n == 0 || cli->verbosity > 0 ||
                (whole && n < SHOWN && used <= WIDTH))
                cli_print("%s%s", n ? ", " : "", r->event[i].text);
            else
                whole = false;
            n++;
        }
        printf("%s\n", whole ? "" : ", ...");
    }
}

static void print_stripped(const struct cli *cli,
                           const struct weights_dict *dict)
{
    size_t i, total = 0, used = 40;
    char text[32];

    if (dict->stripped_count == 0)
        return;
    for (i = 0; i < dict->stripped_count; i++)
        total += dict->stripped[i].bytes;
    printf("  %-22s %4zu  %s:", "stripped", dict->stripped_count,
           cli_bytes((double)total, text, sizeof(text)));
    for (i = 0; i < dict->stripped_count; i++) {
        used +=
            5 + strlen(dict->stripped[i].name) + strlen(dict->stripped[i].why);
        if (i > 0 && (i == SHOWN || used > WIDTH) && cli->verbosity <= 0) {
            printf(", ...");
            break;
        }
        cli_print("%s %s (%s)", i ? "," : "", dict->stripped[i].name,
                  dict->stripped[i].why);
    }
    putchar('\n');
}

static void print_emitted(const struct wconv_request *r,
                          const struct wconv_summary *s)
{
    char arena[32], weights[32];

    cli_print(
        "%s: %d calls of %d functions, %s of constants, arena of %s\n",
        r->emit_c, s->emitted->steps, s->emitted->functions,
        cli_bytes((double)s->emitted->weight_bytes, weights, sizeof(weights)),
        cli_bytes((double)s->emitted->arena_bytes, arena, sizeof(arena)));
}

static void print_text(const struct cli *cli, const struct wconv_request *r,
                       const struct wconv_summary *s)
{
    char before[32], after[32], weights[32];

    cli_print("%s: %s%s%s\n", r->in,
              s->import->format != NULL ? s->import->format : "model file",
              s->import->detail[0] ? ", " : "", s->import->detail);
    print_passes(cli, s->passes);
    print_stripped(cli, &s->import->dict);
    wconv_print_pictures(s->graph, "  pictures              ",
                         r->preprocess.given         ? "options"
                         : s->import->format == NULL ? "model file"
                         : s->import->dict.count > 0 ? "architecture"
                                                     : "file");
    wconv_print_task(s->graph, "  task                  ",
                     r->task != NULL ? "options" : "file");
    if (s->verdict != NULL)
        printf("  %-22s       max difference %.2g (%.2g of the largest "
               "output)\n",
               "verified", s->verdict->max_abs, s->verdict->max_rel);
    if (s->quantized != NULL)
        wconv_print_quantized(cli, s->quantized);
    if (s->emitted != NULL)
        print_emitted(r, s);
    if (r->out == NULL)
        return;
    cli_print(
        "%s: %d nodes (from %d), %s of weights; %s -> %s, %.2f s\n", r->out,
        s->graph->n_nodes, s->nodes_before,
        cli_bytes((double)s->weight_bytes_after, weights, sizeof(weights)),
        cli_bytes((double)s->bytes_before, before, sizeof(before)),
        cli_bytes((double)s->bytes_after, after, sizeof(after)), s->seconds);
}

static void print_json(const struct wconv_request *r,
                       const struct wconv_summary *s)
{
    cJSON *json = cJSON_CreateObject(), *list, *item;
    size_t i;

    cJSON_AddStringToObject(json, "input", r->in);
    if (r->out != NULL)
        cJSON_AddStringToObject(json, "output", r->out);
    cJSON_AddStringToObject(json, "format",
                            s->import->format ? s->import->format : "infer");
    cJSON_AddStringToObject(json, "detail", s->import->detail);
    cJSON_AddNumberToObject(json, "bytes_before", (double)s->bytes_before);
    cJSON_AddNumberToObject(json, "bytes_after", (double)s->bytes_after);
    cJSON_AddNumberToObject(json, "weight_bytes",
                            (double)s->weight_bytes_after);
    cJSON_AddNumberToObject(json, "nodes_before", s->nodes_before);
    cJSON_AddNumberToObject(json, "nodes_after", s->graph->n_nodes);
    cJSON_AddNumberToObject(json, "seconds", s->seconds);
    if (s->verdict != NULL) {
        item = cJSON_AddObjectToObject(json, "verified");
        cJSON_AddNumberToObject(item, "max_abs", s->verdict->max_abs);
        cJSON_AddNumberToObject(item, "max_rel", s->verdict->max_rel);
    }
    if (s->quantized != NULL)
        wconv_quantized_json(json, s->quantized);
    if (s->emitted != NULL) {
        item = cJSON_AddObjectToObject(json, "emitted");
        cJSON_AddStringToObject(item, "file", r->emit_c);
        cJSON_AddNumberToObject(item, "steps", s->emitted->steps);
        cJSON_AddNumberToObject(item, "functions", s->emitted->functions);
        cJSON_AddNumberToObject(item, "arena_bytes",
                                (double)s->emitted->arena_bytes);
        cJSON_AddNumberToObject(item, "constant_bytes",
                                (double)s->emitted->weight_bytes);
    }
    list = cJSON_AddArrayToObject(json, "passes");
    for (i = 0; i < s->passes->count; i++) {
        item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "pass", s->passes->event[i].pass);
        cJSON_AddStringToObject(item, "text", s->passes->event[i].text);
        cJSON_AddNumberToObject(item, "bytes",
                                (double)s->passes->event[i].bytes);
        json_append(list, item);
    }
    list = cJSON_AddArrayToObject(json, "stripped");
    for (i = 0; i < s->import->dict.stripped_count; i++) {
        const struct weights_stripped *t = &s->import->dict.stripped[i];

        item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", t->name);
        cJSON_AddNumberToObject(item, "bytes", (double)t->bytes);
        cJSON_AddStringToObject(item, "why", t->why);
        json_append(list, item);
    }
    cli_print_json(json, false);
}

void wconv_report(const struct cli *cli, const struct wconv_request *request,
                  const struct wconv_summary *summary)
{
    cli_progress_end(cli);
    if (cli->json)
        print_json(request, summary);
    else if (cli->verbosity >= 0)
        print_text(cli, request, summary);
}

size_t wconv_weight_bytes(const struct graph *g)
{
    size_t total = 0;
    int i;

    for (i = 0; i < g->n_values; i++)
        if (g->value[i].data != NULL)
            total += g->value[i].data->bytes;
    return total;
}

const char *wconv_format_shape(int rank, const int64_t *dim, char *buf,
                               size_t bytes)
{
    size_t used = 0;
    int i;

    snprintf(buf, bytes, rank < 0 ? "?" : rank == 0 ? "scalar" : "");
    for (i = 0; i < rank && used + 24 < bytes; i++) {
        if (dim[i] < 0)
            used += (size_t)snprintf(buf + used, bytes - used, "%s",
                                     i ? "x?" : "N");
        else
            used += (size_t)snprintf(buf + used, bytes - used, "%s%" PRId64,
                                     i ? "x" : "", dim[i]);
    }
    return buf;
}
