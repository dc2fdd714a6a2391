/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a run as JSON, for its checkpoints: what wconv would otherwise
 * be told by --arch and --labels. */
#include "tools/train/train.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"

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

/* The names of the folders replace those of the network. */
static int set_labels(struct graph *g, const struct data_set *set,
                      struct infer_error *err)
{
    char **label;

    if (!set->class_name)
        return 0;
    label = calloc((size_t)set->classes, sizeof(*label));
    if (!label)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < g->n_labels; i++)
        free(g->label[i]);
    free(g->label);
    g->label = label;
    for (g->n_labels = 0; g->n_labels < set->classes; g->n_labels++) {
        label[g->n_labels] = label_of(set->class_name[g->n_labels]);
        if (!label[g->n_labels])
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    return 0;
}

int train_describe(struct train_run *r, const struct graph *g,
                   struct infer_error *err)
{
    struct graph *copy = graph_copy(g);
    cJSON *json = NULL;
    int rc = copy ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc == 0 && graph_remove_dead(copy) < 0)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = graph_compact(copy, err);
    if (rc == 0)
        rc = set_labels(copy, &r->train, err);
    if (rc == 0) {
        json = graph_to_json(copy);
        cJSON_free(r->graph);
        r->graph = json ? cJSON_PrintUnformatted(json) : NULL;
        if (!r->graph)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    cJSON_Delete(json);
    graph_free(copy);
    return rc;
}
