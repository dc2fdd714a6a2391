/* SPDX-License-Identifier: Apache-2.0 */
/* wconv inspect FILE: contents of a model, weight or architecture file. */
#include "tools/wconv/wconv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph_json.h"
#include "tools/wconv/page.h"

static const char usage[] =
    "usage: wconv inspect FILE|ARCHITECTURE [options]\n"
    "\n"
    "Shows a model file, a file of trained weights in any format, or a\n"
    "built-in architecture.  With --json: the graph, which is also the form\n"
    "of an architecture file.\n";

struct inspect_request {
    bool layers, weights, dot;
    const char *html, *profile; /* files; NULL: not given */
    const char *from;
};

#define TO(member) CLI_FIELD(struct inspect_request, member)

static const struct cli_option options[] = {
    {"layers", 0, CLI_FLAG, NULL, "list the nodes", TO(layers)},
    {"weights", 0, CLI_FLAG, NULL, "list the tensors", TO(weights)},
    {"dot", 0, CLI_FLAG, NULL, "the graph for Graphviz", TO(dot)},
    {"html", 0, CLI_TEXT, "FILE",
     "one page: graph, what the passes change, histograms of weights",
     TO(html)},
    {"profile", 0, CLI_TEXT, "FILE",
     "with --html: times of layers, from infer --profile=FILE", TO(profile)},
    {"from", 0, CLI_TEXT, "FORMAT", "format of the file (auto)", TO(from)},
    {NULL}};

static void print_value(const char *what, const struct graph_value *v)
{
    char shape[128];

    cli_print("%-8s %s  %s  %s\n", what, v->name, infer_dtype_name(v->dtype),
              wconv_format_shape(v->rank, v->dim, shape, sizeof(shape)));
}

static void print_layers(const struct graph *g)
{
    char shape[128], words[512];
    int i;

    for (i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];
        const struct graph_value *y = &g->value[n->out[0]];

        cli_print("%4d  %-16s %-40s %s", i, graph_op_info(n->op)->name, n->name,
                  wconv_format_shape(y->rank, y->dim, shape, sizeof(shape)));
        cli_print("  %s\n", wconv_node_words(g, n, words, sizeof(words)));
    }
}

/* Prints a quoted string for Graphviz. */
static void print_quoted(const char *text)
{
    putchar('"');
    while (*text != '\0') {
        const size_t plain = strcspn(text, "\"\\");

        cli_print("%.*s", (int)plain, text);
        text += plain;
        if (*text != '\0')
            printf("\\%c", *text++);
    }
    putchar('"');
}

/* An input or an output of the network: an ellipse with its name and shape. */
static void print_end(const struct graph *g, int value, const char *letter,
                      const char *more)
{
    const struct graph_value *v = &g->value[value];
    char shape[128], text[512];

    printf("  %s%d [shape=ellipse, label=", letter, value);
    snprintf(text, sizeof(text), "%.300s %s", v->name,
             wconv_format_shape(v->rank, v->dim, shape, sizeof(shape)));
    print_quoted(text);
    printf("%s];\n", more);
}

static void print_output(const struct graph *g, int i)
{
    const int value = g->output[i], from = g->value[value].producer;

    print_end(g, value, "o", ", style=bold");
    printf("  %s%d -> o%d;\n", from >= 0 ? "n" : "v", from >= 0 ? from : value,
           value);
}

static void print_dot(const struct graph *g)
{
    char shape[128], words[512];
    int i, j;

    printf("digraph {\n  node [shape=box];\n");
    for (i = 0; i < g->n_inputs; i++)
        print_end(g, g->input[i], "v", "");
    for (i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];

        printf("  n%d [label=", i);
        snprintf(words, sizeof(words), "%s ", graph_op_info(n->op)->name);
        wconv_node_words(g, n, words + strlen(words),
                         sizeof(words) - strlen(words));
        if (words[strlen(words) - 1] == ' ')
            words[strlen(words) - 1] = '\0';
        print_quoted(words);
        printf(", tooltip=");
        print_quoted(n->name);
        printf("];\n");
        for (j = 0; j < n->n_in; j++) {
            const struct graph_value *v =
                n->in[j] < 0 ? NULL : &g->value[n->in[j]];

            if (v == NULL || v->data != NULL)
                continue;
            wconv_format_shape(v->rank, v->dim, shape, sizeof(shape));
            if (v->producer >= 0)
                printf("  n%d -> n%d [label=\"%s\"];\n", v->producer, i, shape);
            else
                printf("  v%d -> n%d [label=\"%s\"];\n", n->in[j], i, shape);
        }
    }
    for (i = 0; i < g->n_outputs; i++)
        print_output(g, i);
    printf("}\n");
}

static void print_tensor(const char *name, enum infer_dtype dtype, int rank,
                         const int64_t *dim, size_t bytes)
{
    char shape[128];

    cli_print("%-48s %-5s %-20s %zu\n", name, infer_dtype_name(dtype),
              wconv_format_shape(rank, dim, shape, sizeof(shape)), bytes);
}

static void print_weights(const struct weights_network *s)
{
    const struct weights_dict *d = &s->import.dict;
    size_t i;
    int v;

    for (v = 0; s->graph != NULL && v < s->graph->n_values; v++) {
        const struct constant *c = s->graph->value[v].data;

        if (c != NULL)
            print_tensor(s->graph->value[v].name, c->dtype, c->rank, c->dim,
                         c->bytes);
    }
    for (i = 0; i < d->count; i++)
        print_tensor(d->entry[i].name, d->entry[i].value->dtype,
                     d->entry[i].value->rank, d->entry[i].value->dim,
                     d->entry[i].value->bytes);
    for (i = 0; i < d->stripped_count; i++)
        cli_print("%-48s %s, %zu bytes\n", d->stripped[i].name,
                  d->stripped[i].why, d->stripped[i].bytes);
}

static void print_summary(const struct weights_network *s)
{
    const struct graph *g = s->graph;
    size_t weights = 0, tensors = s->import.dict.count, i;
    const struct arch_row *row;
    struct infer_error err;
    char text[32], words[320];
    int v;

    cli_print("%-8s %s%s%s\n", "format",
              s->import.format != NULL ? s->import.format
              : s->bytes > 0           ? "model file"
                                       : "architecture",
              s->import.detail[0] ? ", " : "", s->import.detail);
    for (i = 0; i < s->import.dict.count; i++)
        weights += s->import.dict.entry[i].value->bytes;
    if (g != NULL) {
        if (g->name != NULL && g->name[0] != '\0')
            cli_print("%-8s %s\n", "name", g->name);
        for (v = 0; v < g->n_inputs; v++)
            print_value("input", &g->value[g->input[v]]);
        for (v = 0; v < g->n_outputs; v++)
            print_value("output", &g->value[g->output[v]]);
        wconv_print_pictures(g, "pictures",
                             s->import.format != NULL ? "file"
                             : s->bytes > 0           ? "model file"
                                                      : "architecture");
        printf("%-8s %d\n", "nodes", g->n_nodes);
        for (v = 0; v < g->n_values; v++)
            tensors += g->value[v].data != NULL;
        weights += wconv_weight_bytes(g);
        wconv_print_task(g, "task    ", "file");
        if (g->n_labels > 0)
            printf("%-8s %d\n", "labels", g->n_labels);
        if (wconv_multiplier_words(g, words, sizeof(words)))
            cli_print("%s %s\n", "multiplier", words);
    }
    printf("%-8s %zu tensors, %s\n", "weights", tensors,
           cli_bytes((double)weights, text, sizeof(text)));
    if (g == NULL && arch_recognise(&s->import.dict, &err, &row) == INFER_OK)
        printf("%-8s %s: %s\n", "fits", row->name, row->description);
}

/* JSON of bare weights. */
static cJSON *dict_json(const struct weights_dict *d)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *list = cJSON_AddObjectToObject(json, "weights");
    size_t i;
    int k;

    for (i = 0; i < d->count; i++) {
        const struct constant *c = d->entry[i].value;
        cJSON *item = cJSON_AddObjectToObject(list, d->entry[i].name);
        cJSON *shape;

        cJSON_AddStringToObject(item, "dtype", infer_dtype_name(c->dtype));
        shape = cJSON_AddArrayToObject(item, "shape");
        for (k = 0; k < c->rank; k++)
            json_append(shape, cJSON_CreateNumber((double)c->dim[k]));
    }
    return json;
}

static int show(const struct cli *cli, const struct inspect_request *r,
                struct weights_network *s, struct infer_error *err)
{
    int rc = INFER_OK;

    if (s->graph != NULL) {
        rc = graph_compact(s->graph, err);
        if (rc == INFER_OK)
            rc = graph_infer_shapes(s->graph, NULL, err);
        if (rc < 0) {
            error_prefix(err, "%s", s->path);
            return rc;
        }
    }
    if (cli->json) {
        cJSON *json = s->graph != NULL ? graph_to_architecture(s->graph)
                                       : dict_json(&s->import.dict);

        if (json == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        cli_print_json(json, false);
        return INFER_OK;
    }
    if ((r->dot || r->layers || r->html != NULL) && s->graph == NULL)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s: bare weights have no layers", s->path);
    if (r->html != NULL)
        return wconv_page(s, r->profile, r->html, err);
    if (r->dot)
        print_dot(s->graph);
    if (!r->dot)
        print_summary(s);
    if (r->layers)
        print_layers(s->graph);
    if (r->weights)
        print_weights(s);
    return INFER_OK;
}

int wconv_inspect(int argc, char **argv)
{
    struct cli cli = {.tool = "wconv", .usage = usage, .option = options};
    struct inspect_request r = {0};
    struct weights_options weights;
    struct weights_network s = {0};
    struct infer_error err = {0};
    int count, rc;

    weights_options_init(&weights);
    rc = cli_parse(&cli, argc, argv, &r, &count);
    if (rc != 0)
        return rc > 0 ? CLI_OK : CLI_USAGE;
    if (count != 1) {
        cli_error(&cli, "inspect takes one file (see --help)");
        return CLI_USAGE;
    }
    if (cli.json + r.dot + (r.layers || r.weights) + (r.html != NULL) > 1) {
        cli_error(&cli, "--json, --dot, --html, and --layers with --weights "
                        "are forms of the answer: name one");
        return CLI_USAGE;
    }
    if (r.profile != NULL && r.html == NULL) {
        cli_error(&cli, "--profile goes with --html");
        return CLI_USAGE;
    }
    if (cli_same_file(r.html, argv[0]) || cli_same_file(r.html, r.profile)) {
        cli_error(&cli, "%s: this file is read: name another with --html",
                  r.html);
        return CLI_USAGE;
    }
    weights.from = r.from;
    rc = weights_network_open(argv[0], &weights, &err, &s);
    if (rc == INFER_OK)
        rc = show(&cli, &r, &s, &err);
    weights_network_close(&s);
    return rc < 0 ? (int)cli_fail(&cli, &err) : CLI_OK;
}
