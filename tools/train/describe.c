/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a run as JSON, for its checkpoints: what wconv would otherwise
 * be told by --arch and --labels. */
#include "tools/train/network.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/train/train.h"

/* A class's name; bytes that are no UTF-8 are escaped, since JSON is. */
static char *label_of(const char *name)
{
    const size_t length = strlen(name), bytes = 4 * length + 1;
    char *text;

    if (text_is_utf8(name, length))
        return strdup(name);
    text = malloc(bytes);
    if (text)
        text_escape(text, bytes, name);
    return text;
}

int train_set_labels(struct graph *g, const char *const *name, int count,
                     struct infer_error *err)
{
    char **label = calloc((size_t)count, sizeof(*label));

    if (!label)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < g->n_labels; i++)
        free(g->label[i]);
    free(g->label);
    g->label = label;
    for (g->n_labels = 0; g->n_labels < count; g->n_labels++) {
        label[g->n_labels] = label_of(name[g->n_labels]);
        if (!label[g->n_labels])
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    return 0;
}

/* Prints a graph that nobody else needs. */
static int print(struct graph *g, struct infer_error *err, char **out)
{
    cJSON *json;
    int rc = graph_remove_dead(g);

    if (rc < 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = graph_compact(g, err);
    if (rc < 0)
        return rc;
    json = graph_to_json(g);
    *out = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return *out ? 0 : error_set(err, INFER_EMEMORY, "out of memory");
}

int train_graph_text(const struct graph *g, struct infer_error *err, char **out)
{
    struct graph *copy = graph_copy(g);
    const int rc = copy ? print(copy, err, out)
                        : error_set(err, INFER_EMEMORY, "out of memory");

    graph_free(copy);
    return rc;
}

void train_text_free(char *text)
{
    cJSON_free(text);
}

int train_describe(struct train_run *r, const struct graph *g,
                   struct infer_error *err)
{
    const struct data_set *set = &r->train;
    struct graph *copy = graph_copy(g);
    int rc = copy ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    train_text_free(r->graph);
    r->graph = NULL;
    /* The names of the folders replace those of the network. */
    if (rc == 0 && set->class_name)
        rc = train_set_labels(copy, (const char *const *)set->class_name,
                              set->classes, err);
    if (rc == 0)
        rc = print(copy, err, &r->graph);
    graph_free(copy);
    return rc;
}
