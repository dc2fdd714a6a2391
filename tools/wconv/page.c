/* SPDX-License-Identifier: Apache-2.0 */
/* wconv inspect --html: one page, complete in itself: page.html with the JSON
 * of the network in it. */
#include "tools/wconv/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"
#include "libinfer/graph/constant.h"
#include "libinfer/task/task.h"
#include "tools/preprocess.h"
#include "tools/wconv/wconv.h"

/* Lines of page.html, made by the build. */
static const char *const lines[] = {
#include "tools/wconv/page.inc"
};

/* Bars of a histogram. */
#define BINS 40
/* Largest --profile file that is read. */
#define MAX_PROFILE ((uint64_t)64 << 20)

/* ---- values -------------------------------------------------------- */

static void add_shape(cJSON *to, int rank, const int64_t *dim)
{
    char shape[128];

    cJSON_AddStringToObject(
        to, "shape", wconv_format_shape(rank, dim, shape, sizeof(shape)));
}

static cJSON *ends_json(const struct graph *g, const int *value, int n)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < n; i++) {
        const struct graph_value *v = &g->value[value[i]];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "id", value[i]);
        cJSON_AddStringToObject(item, "name", v->name);
        cJSON_AddStringToObject(item, "dtype", infer_dtype_name(v->dtype));
        add_shape(item, v->rank, v->dim);
        json_append(list, item);
    }
    return list;
}

/* ---- nodes --------------------------------------------------------- */

/* Time of the steps that belong to a node, and the kernel of the longest. */
static void add_time(cJSON *item, const cJSON *profile, const char *name)
{
    const cJSON *layer, *longest = NULL;
    double sum = 0;

    cJSON_ArrayForEach(layer, profile)
    {
        const char *of = json_string(layer, "name");
        const double ms = json_double(layer, "ms", 0);

        if (of == NULL || strcmp(of, name) != 0 || !(ms >= 0))
            continue;
        sum += ms;
        if (longest == NULL || ms > json_double(longest, "ms", 0))
            longest = layer;
    }
    if (longest == NULL)
        return;
    cJSON_AddNumberToObject(item, "ms", sum);
    if (json_string(longest, "kernel") != NULL)
        cJSON_AddStringToObject(item, "kernel", json_string(longest, "kernel"));
}

static cJSON *node_json(const struct graph *g, const struct graph_node *n,
                        const cJSON *profile)
{
    cJSON *item = cJSON_CreateObject();
    cJSON *in = cJSON_AddArrayToObject(item, "in");
    cJSON *out = cJSON_AddArrayToObject(item, "out");
    const struct graph_value *y = &g->value[n->out[0]];
    char words[512];
    double bytes = 0;

    cJSON_AddStringToObject(item, "op", graph_op_info(n->op)->name);
    cJSON_AddStringToObject(item, "name", n->name);
    cJSON_AddStringToObject(item, "words",
                            wconv_node_words(g, n, words, sizeof(words)));
    add_shape(item, y->rank, y->dim);
    for (int i = 0; i < n->n_in; i++) {
        const struct constant *c =
            n->in[i] < 0 ? NULL : g->value[n->in[i]].data;

        if (c != NULL)
            bytes += (double)c->bytes;
        else if (n->in[i] >= 0)
            json_append(in, cJSON_CreateNumber(n->in[i]));
    }
    for (int i = 0; i < n->n_out; i++)
        json_append(out, cJSON_CreateNumber(n->out[i]));
    cJSON_AddNumberToObject(item, "bytes", bytes);
    add_time(item, profile, n->name);
    return item;
}

static cJSON *graph_page(const struct graph *g, const char *what,
                         const cJSON *profile)
{
    cJSON *json = cJSON_CreateObject(), *nodes;

    cJSON_AddStringToObject(json, "what", what);
    json_put(json, "inputs", ends_json(g, g->input, g->n_inputs));
    json_put(json, "outputs", ends_json(g, g->output, g->n_outputs));
    nodes = cJSON_AddArrayToObject(json, "nodes");
    for (int i = 0; i < g->n_nodes; i++)
        json_append(nodes, node_json(g, &g->node[i], profile));
    return json;
}

/* ---- weights ------------------------------------------------------- */

struct figures {
    double min, max, sum, squares;
    int64_t count, finite, zeros;
    int64_t bin[BINS];
};

static void measure(const struct constant *c, struct figures *f)
{
    *f = (struct figures){.min = INFINITY, .max = -INFINITY};
    f->count = constant_count(c);
    for (int64_t i = 0; i < f->count; i++) {
        const double x = scalar_load(c->dtype, c->data, i);

        if (!isfinite(x))
            continue;
        f->finite++;
        f->zeros += x == 0;
        f->min = fmin(f->min, x);
        f->max = fmax(f->max, x);
        f->sum += x;
        f->squares += x * x;
    }
    for (int64_t i = 0; i < f->count; i++) {
        const double x = scalar_load(c->dtype, c->data, i);
        const double at = (x - f->min) / (f->max - f->min) * BINS;

        if (isfinite(x))
            f->bin[!(at >= 0) ? 0 : at < BINS ? (int)at : BINS - 1]++;
    }
}

static cJSON *weight_json(const char *name, const struct constant *c)
{
    cJSON *item = cJSON_CreateObject(), *bins;
    struct figures f;

    measure(c, &f);
    const double n = f.finite > 0 ? (double)f.finite : 1;
    const double mean = f.sum / n;
    const bool any = f.finite > 0;

    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddStringToObject(item, "dtype", infer_dtype_name(c->dtype));
    add_shape(item, c->rank, c->dim);
    cJSON_AddNumberToObject(item, "bytes", (double)c->bytes);
    cJSON_AddNumberToObject(item, "count", (double)f.count);
    cJSON_AddNumberToObject(item, "zeros", (double)f.zeros);
    cJSON_AddNumberToObject(item, "odd", (double)(f.count - f.finite));
    cJSON_AddNumberToObject(item, "min", any ? f.min : 0);
    cJSON_AddNumberToObject(item, "max", any ? f.max : 0);
    cJSON_AddNumberToObject(item, "mean", mean);
    cJSON_AddNumberToObject(item, "deviation",
                            sqrt(fmax(0, f.squares / n - mean * mean)));
    bins = cJSON_AddArrayToObject(item, "bins");
    for (int i = 0; i < BINS; i++)
        json_append(bins, cJSON_CreateNumber((double)f.bin[i]));
    return item;
}

static int add_weights(cJSON *to, const struct graph *g,
                       struct infer_error *err)
{
    cJSON *list = cJSON_AddArrayToObject(to, "weights");
    int rc = INFER_OK;

    for (int i = 0; rc == INFER_OK && i < g->n_values; i++) {
        struct constant *c = NULL;

        if (g->value[i].data == NULL)
            continue;
        rc = constant_in_memory(g->value[i].data, NULL, err, &c);
        if (rc == INFER_OK)
            json_append(list, weight_json(g->value[i].name, c));
        constant_unref(c);
    }
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

/* The layers of what infer --profile wrote: a list, or an object with one. */
static int read_profile(const char *path, struct infer_error *err, cJSON **file,
                        const cJSON **layers)
{
    int rc;

    *file = NULL;
    *layers = NULL;
    if (path == NULL)
        return INFER_OK;
    rc = file_read_json(path, MAX_PROFILE, err, file);
    if (rc < 0)
        return rc;
    *layers = cJSON_IsArray(*file) ? *file : json_member(*file, "layers");
    if (!cJSON_IsArray(*layers))
        rc = error_set(err, INFER_EFORMAT,
                       "%s: holds no layers, as infer --profile=FILE writes "
                       "them",
                       path);
    return rc;
}

/* True if every weight is there: passes compute with them. */
static bool has_weights(const struct graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i].n_in; k++) {
            const int value = g->node[i].in[k];
            bool given = value < 0 || g->value[value].producer >= 0 ||
                         g->value[value].data != NULL;

            for (int j = 0; !given && j < g->n_inputs; j++)
                given = g->input[j] == value;
            if (!given)
                return false;
        }
    return true;
}

/* The graph as wconv would write it, and what each pass changed. */
static int add_passes(cJSON *page, cJSON *graphs, const struct graph *g,
                      const cJSON *profile, struct infer_error *err)
{
    struct graph *after = graph_copy(g);
    struct pass_options options;
    struct pass_report report;
    cJSON *list = cJSON_AddArrayToObject(page, "passes");
    int rc;

    if (after == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    pass_options_init(&options);
    pass_report_init(&report);
    rc = weights_run_passes(after, &options, &report, err);
    for (size_t i = 0; rc == INFER_OK && i < report.count; i++) {
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "pass", report.event[i].pass);
        cJSON_AddStringToObject(item, "text", report.event[i].text);
        json_append(list, item);
    }
    if (rc == INFER_OK)
        json_append(graphs, graph_page(after, "After the passes", profile));
    pass_report_clear(&report);
    graph_free(after);
    return rc;
}

static void add_facts(cJSON *page, const struct weights_network *s)
{
    const struct graph *g = s->graph;
    char text[256];

    cJSON_AddStringToObject(page, "file", s->path);
    cJSON_AddNumberToObject(page, "bytes", (double)s->bytes);
    snprintf(text, sizeof(text), "%s%s%s",
             s->import.format != NULL ? s->import.format
             : s->bytes > 0           ? "model file"
                                      : "architecture",
             s->import.detail[0] ? ", " : "", s->import.detail);
    cJSON_AddStringToObject(page, "format", text);
    if (g->name != NULL)
        cJSON_AddStringToObject(page, "name", g->name);
    if (task_text(g, "the file", text, sizeof(text)))
        cJSON_AddStringToObject(page, "task", text);
    if (g->n_labels > 0)
        cJSON_AddNumberToObject(page, "labels", g->n_labels);
    if (wconv_multiplier_words(g, text, sizeof(text)))
        cJSON_AddStringToObject(page, "multiplier", text);
    if (preprocess_text(g, "the file", text, sizeof(text)))
        cJSON_AddStringToObject(page, "pictures", text);
}

static int write_page(const cJSON *page, const char *path,
                      struct infer_error *err)
{
    struct file_part part = {NULL, 0};
    char *text = NULL;
    FILE *f = open_memstream(&text, &part.bytes);
    int rc;

    if (f == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    cli_put_page(f, lines, sizeof(lines) / sizeof(*lines), page);
    rc = ferror(f) ? INFER_EMEMORY : INFER_OK;
    if (fclose(f) != 0 || rc < 0) {
        free(text);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    part.data = text;
    rc = cli_write_file(path, &part, 1, err);
    free(text);
    return rc;
}

int wconv_page(const struct weights_network *s, const char *profile_file,
               const char *path, struct infer_error *err)
{
    cJSON *page = cJSON_CreateObject(), *profile = NULL, *graphs;
    const cJSON *layers;
    const bool model = s->import.format == NULL;
    int rc = read_profile(profile_file, err, &profile, &layers);

    if (rc == INFER_OK) {
        add_facts(page, s);
        graphs = cJSON_AddArrayToObject(page, "graphs");
        json_append(graphs, graph_page(s->graph, "As read", layers));
        rc = add_weights(page, s->graph, err);
        if (rc == INFER_OK && !model && has_weights(s->graph))
            rc = add_passes(page, graphs, s->graph, layers, err);
    }
    if (rc == INFER_OK)
        rc = write_page(page, path, err);
    cJSON_Delete(profile);
    cJSON_Delete(page);
    return rc;
}
