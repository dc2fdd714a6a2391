/* SPDX-License-Identifier: Apache-2.0 */
/* wconv diff A B: which nodes and tensors differ, and by how much. */
#include "tools/wconv/wconv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"
#include "kernels/scalar.h"

static const struct cli_option options[] = {{NULL, 0, CLI_FLAG, NULL, NULL, 0}};

static const char usage[] =
    "usage: wconv diff A B\n"
    "\n"
    "Compares two models or weight files by the names of their nodes and\n"
    "tensors.  Exit status 0: equal; 3: they differ.\n";

static int no_option(struct cli *cli, int id, const char *value, void *user)
{
    (void)cli;
    (void)id;
    (void)value;
    (void)user;
    return 0;
}

/* Tensors of a subject, by position: those of the graph, then bare ones. */
static size_t tensor_count(const struct wconv_subject *s)
{
    return s->import.dict.count +
           (s->graph != NULL ? (size_t)s->graph->n_values : 0);
}

static const char *tensor_at(const struct wconv_subject *s, size_t i,
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

static struct constant *tensor_find(const struct wconv_subject *s,
                                    const char *name)
{
    int v = s->graph != NULL ? graph_find_value(s->graph, name) : -1;

    if (v >= 0 && s->graph->value[v].data != NULL)
        return s->graph->value[v].data;
    return weights_dict_find(&s->import.dict, name);
}

/* The elements of a constant as doubles; to be freed. */
static double *load_doubles(const struct constant *c, struct infer_error *err)
{
    size_t i, n = (size_t)constant_count(c);
    void *raw = malloc(c->bytes > 0 ? c->bytes : 1);
    double *out = calloc(n > 0 ? n : 1, sizeof(*out));

    if (raw == NULL || out == NULL) {
        error_set(err, INFER_EMEMORY, "out of memory");
    } else if (constant_load(c, raw, err) == INFER_OK) {
        for (i = 0; i < n; i++)
            out[i] = scalar_load(c->dtype, raw, (int64_t)i);
        free(raw);
        return out;
    }
    free(raw);
    free(out);
    return NULL;
}

/* 1 where two tensors differ (and says how), 0 where not, or an error. */
static int compare_tensor(const char *name, const struct constant *a,
                          const struct constant *b, struct infer_error *err)
{
    char sa[128], sb[128];
    double *x, *y, worst = 0, scale = 0;
    int64_t i, n, different = 0;

    if (a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->dim, b->dim, sizeof(*a->dim) * (size_t)a->rank) != 0) {
        cli_print("! %s: %s %s against %s %s\n", name,
                  infer_dtype_name(a->dtype),
                  wconv_format_shape(a->rank, a->dim, sa, sizeof(sa)),
                  infer_dtype_name(b->dtype),
                  wconv_format_shape(b->rank, b->dim, sb, sizeof(sb)));
        return 1;
    }
    x = load_doubles(a, err);
    y = x != NULL ? load_doubles(b, err) : NULL;
    n = constant_count(a);
    for (i = 0; y != NULL && i < n; i++) {
        double d = fabs(x[i] - y[i]);

        if (isnan(x[i]) && isnan(y[i]))
            continue;
        different += !(d == 0);
        if (!(d <= worst))
            worst = d;
        if (fabs(y[i]) > scale)
            scale = fabs(y[i]);
    }
    free(x);
    free(y);
    if (y == NULL)
        return err->code;
    if (different > 0)
        cli_print("! %s: %lld of %lld differ, at most by %.3g (largest value "
                  "%.3g)\n",
                  name, (long long)different, (long long)n, worst, scale);
    return different > 0;
}

static int compare_tensors(const struct wconv_subject *a,
                           const struct wconv_subject *b,
                           struct infer_error *err)
{
    int differences = 0, status;
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
        status = compare_tensor(name, c, other, err);
        if (status < 0)
            return status;
        differences += status;
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

/* A node as JSON text, or NULL: what is compared of it. */
static char *node_text(const cJSON *graph, const char *name)
{
    const cJSON *node;

    cJSON_ArrayForEach(node, cJSON_GetObjectItemCaseSensitive(graph, "nodes"))
    {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(node, "name");

        if (cJSON_IsString(n) && strcmp(n->valuestring, name) == 0)
            return cJSON_PrintUnformatted(node);
    }
    return NULL;
}

static int compare_nodes(const struct graph *a, const struct graph *b)
{
    cJSON *ja = graph_to_json(a), *jb = graph_to_json(b);
    int i, differences = 0;

    for (i = 0; i < a->n_nodes; i++) {
        const char *name = a->node[i].name;
        char *x = node_text(ja, name), *y = node_text(jb, name);

        if (y == NULL)
            cli_print("- node %s\n", name);
        else if (x != NULL && strcmp(x, y) != 0)
            cli_print("! node %s\n    %s\n    %s\n", name, x, y);
        differences += x == NULL || y == NULL || strcmp(x, y) != 0;
        cJSON_free(x);
        cJSON_free(y);
    }
    for (i = 0; i < b->n_nodes; i++)
        if (graph_find_node(a, b->node[i].name) < 0) {
            cli_print("+ node %s\n", b->node[i].name);
            differences++;
        }
    cJSON_Delete(ja);
    cJSON_Delete(jb);
    return differences;
}

int wconv_diff(int argc, char **argv)
{
    struct cli cli = {.tool = "wconv", .usage = usage, .option = options};
    struct weights_options weights;
    struct wconv_subject a = {0}, b = {0};
    struct infer_error err = {0};
    int count, status, differences = 0;

    weights_options_init(&weights);
    status = cli_parse(&cli, argc, argv, no_option, NULL, &count);
    if (status != 0)
        return status > 0 ? CLI_OK : CLI_USAGE;
    if (count != 2) {
        cli_error(&cli, "diff takes two files (see --help)");
        return CLI_USAGE;
    }
    status = wconv_subject_open(argv[0], &weights, &err, &a);
    if (status == INFER_OK)
        status = wconv_subject_open(argv[1], &weights, &err, &b);
    if (status == INFER_OK) {
        if (a.graph != NULL && b.graph != NULL)
            differences = compare_nodes(a.graph, b.graph);
        status = compare_tensors(&a, &b, &err);
    }
    wconv_subject_close(&a);
    wconv_subject_close(&b);
    if (status < 0)
        return cli_fail(&cli, &err);
    return differences + status > 0 ? CLI_MISMATCH : CLI_OK;
}
