/* SPDX-License-Identifier: Apache-2.0 */
/* wconv diff A B: differences between two networks. */
#include "tools/wconv/wconv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/difference.h"

static const struct cli_option options[] = {{NULL}};

static const char usage[] =
    "usage: wconv diff A B\n"
    "\n"
    "Compares two models or weight files: nodes and tensors by their names,\n"
    "inputs with their preprocessing, outputs, task, labels.  Exit status 0:\n"
    "equal; 3: they differ.\n";

/* Tensors of a network by position: first those of the graph, then the bare
 * ones. */
static size_t tensor_count(const struct weights_network *s)
{
    return s->import.dict.count +
           (s->graph != NULL ? (size_t)s->graph->n_values : 0);
}

static const char *tensor_at(const struct weights_network *s, size_t i,
                             struct constant **out)
{
    size_t values = s->graph != NULL ? (size_t)s->graph->n_values : 0;

    *out = NULL;
    if (i < values) {
        *out = s->graph->value[i].data;
        return s->graph->value[i].name;
    }
    *out = s->import.dict.entry[i - values].value;
    return s->import.dict.entry[i - values].name;
}

static struct constant *tensor_find(const struct weights_network *s,
                                    const char *name)
{
    int v = s->graph != NULL ? graph_find_value(s->graph, name) : -1;

    if (v >= 0 && s->graph->value[v].data != NULL)
        return s->graph->value[v].data;
    return weights_dict_find(&s->import.dict, name);
}

/* The bytes of a constant; to be freed. */
static void *load_bytes(const struct constant *c, struct infer_error *err)
{
    void *raw = malloc(c->bytes > 0 ? c->bytes : 1);

    if (raw == NULL)
        error_set(err, INFER_EMEMORY, "out of memory");
    else if (constant_load(c, raw, err) == INFER_OK)
        return raw;
    free(raw);
    return NULL;
}

/* 1 if two tensors differ (reported), 0 if not, or an error. */
static int compare_tensor(const char *name, const struct constant *a,
                          const struct constant *b, struct infer_error *err)
{
    const int64_t n = constant_count(a);
    char sa[128], sb[128];
    struct difference d = {0};
    void *x, *y;

    if (a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->dim, b->dim, sizeof(*a->dim) * (size_t)a->rank) != 0) {
        cli_print("! %s: %s %s against %s %s\n", name,
                  infer_dtype_name(a->dtype),
                  wconv_format_shape(a->rank, a->dim, sa, sizeof(sa)),
                  infer_dtype_name(b->dtype),
                  wconv_format_shape(b->rank, b->dim, sb, sizeof(sb)));
        return 1;
    }
    x = load_bytes(a, err);
    y = x != NULL ? load_bytes(b, err) : NULL;
    if (y != NULL)
        difference_of(a->dtype, x, b->dtype, y, n, &d);
    free(x);
    free(y);
    if (y == NULL)
        return err->code;
    if (d.count > 0)
        cli_print("! %s: %lld of %lld differ, at most by %.3g (largest value "
                  "%.3g)\n",
                  name, (long long)d.count, (long long)n, d.max_abs, d.scale);
    return d.count > 0;
}

static int compare_tensors(const struct weights_network *a,
                           const struct weights_network *b,
                           struct infer_error *err)
{
    int differences = 0, rc;
    struct constant *c, *other;
    const char *name;
    size_t i;

    for (i = 0; i < tensor_count(a); i++) {
        name = tensor_at(a, i, &c);
        if (c == NULL)
            continue;
        other = tensor_find(b, name);
        if (other == NULL) {
            cli_print("- tensor %s\n", name);
            differences++;
            continue;
        }
        rc = compare_tensor(name, c, other, err);
        if (rc < 0)
            return rc;
        differences += rc;
    }
    for (i = 0; i < tensor_count(b); i++) {
        name = tensor_at(b, i, &c);
        if (c != NULL && tensor_find(a, name) == NULL) {
            cli_print("+ tensor %s\n", name);
            differences++;
        }
    }
    return differences;
}

/* JSON of each node, in graph order, for the comparison.  To be freed; NULL
 * when out of memory. */
static const cJSON **list_nodes(const struct graph *g, const cJSON *json)
{
    const cJSON **list = calloc((size_t)g->n_nodes + 1, sizeof(const cJSON *));
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(json, "nodes");
    const cJSON *node = nodes != NULL ? nodes->child : NULL;
    int i;

    for (i = 0; list != NULL && i < g->n_nodes && node != NULL; i++)
        if (g->node[i].op != GRAPH_NONE) {
            list[i] = node;
            node = node->next;
        }
    return list;
}

static int compare_node(const char *name, const cJSON *a, const cJSON *b)
{
    char *x = cJSON_PrintUnformatted(a), *y = cJSON_PrintUnformatted(b);
    const int differs = x == NULL || y == NULL || strcmp(x, y) != 0;

    if (differs)
        cli_print("! node %s\n    %s\n    %s\n", name, x != NULL ? x : "",
                  y != NULL ? y : "");
    cJSON_free(x);
    cJSON_free(y);
    return differs;
}

static int compare_nodes(const struct graph *a, const struct graph *b,
                         const cJSON *ja, const cJSON *jb,
                         struct infer_error *err)
{
    const cJSON **in_a = list_nodes(a, ja), **in_b = list_nodes(b, jb);
    int i, other, differences = 0;

    if (in_a == NULL || in_b == NULL)
        differences = error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; differences >= 0 && i < a->n_nodes; i++) {
        other = graph_find_node(b, a->node[i].name);
        if (other >= 0) {
            differences += compare_node(a->node[i].name, in_a[i], in_b[other]);
        } else {
            cli_print("- node %s\n", a->node[i].name);
            differences++;
        }
    }
    for (i = 0; differences >= 0 && i < b->n_nodes; i++)
        if (graph_find_node(a, b->node[i].name) < 0) {
            cli_print("+ node %s\n", b->node[i].name);
            differences++;
        }
    free(in_a);
    free(in_b);
    return differences;
}

/* Compares the interface: inputs with their preprocessing, outputs, task,
 * labels. */
static int compare_ends(const cJSON *ja, const cJSON *jb)
{
    static const char *const parts[] = {"inputs", "outputs", "task", "labels"};
    int differences = 0;
    size_t i;

    for (i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        const cJSON *a = cJSON_GetObjectItemCaseSensitive(ja, parts[i]);
        const cJSON *b = cJSON_GetObjectItemCaseSensitive(jb, parts[i]);
        char *x = a != NULL ? cJSON_PrintUnformatted(a) : NULL;
        char *y = b != NULL ? cJSON_PrintUnformatted(b) : NULL;

        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) {
            cli_print("! %s\n    %.200s\n    %.200s\n", parts[i],
                      x != NULL ? x : "none", y != NULL ? y : "none");
            differences++;
        }
        cJSON_free(x);
        cJSON_free(y);
    }
    return differences;
}

/* Compares the multipliers of two model files. */
static int compare_multipliers(const struct graph *a, const struct graph *b)
{
    char x[320] = "none", y[320] = "none";

    wconv_multiplier_words(a, x, sizeof(x));
    wconv_multiplier_words(b, y, sizeof(y));
    if (strcmp(x, y) == 0)
        return 0;
    cli_print("! multiplier\n    %.200s\n    %.200s\n", x, y);
    return 1;
}

static int compare_graphs(const struct graph *a, const struct graph *b,
                          struct infer_error *err)
{
    cJSON *ja = graph_to_json(a), *jb = graph_to_json(b);
    int differences;

    if (ja == NULL || jb == NULL)
        differences = error_set(err, INFER_EMEMORY, "out of memory");
    else
        differences = compare_nodes(a, b, ja, jb, err);
    if (differences >= 0)
        differences += compare_ends(ja, jb) + compare_multipliers(a, b);
    cJSON_Delete(ja);
    cJSON_Delete(jb);
    return differences;
}

int wconv_diff(int argc, char **argv)
{
    struct cli cli = {.tool = "wconv", .usage = usage, .option = options};
    struct weights_options weights;
    struct weights_network a = {0}, b = {0};
    struct infer_error err = {0};
    int count, rc, differences = 0;

    weights_options_init(&weights);
    rc = cli_parse(&cli, argc, argv, NULL, &count);
    if (rc != 0)
        return rc > 0 ? CLI_OK : CLI_USAGE;
    if (cli.json) {
        cli_error(&cli, "diff writes no JSON: its exit status says whether "
                        "the two differ");
        return CLI_USAGE;
    }
    if (count != 2) {
        cli_error(&cli, "diff takes two files (see --help)");
        return CLI_USAGE;
    }
    rc = weights_network_open(argv[0], &weights, &err, &a);
    if (rc == INFER_OK)
        rc = weights_network_open(argv[1], &weights, &err, &b);
    if (rc == INFER_OK && a.graph != NULL && b.graph != NULL)
        rc = differences = compare_graphs(a.graph, b.graph, &err);
    if (rc >= 0)
        rc = compare_tensors(&a, &b, &err);
    weights_network_close(&a);
    weights_network_close(&b);
    if (rc < 0)
        return cli_fail(&cli, &err);
    return differences + rc > 0 ? CLI_MISMATCH : CLI_OK;
}
