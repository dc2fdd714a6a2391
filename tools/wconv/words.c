/* SPDX-License-Identifier: Apache-2.0 */
/* A node in a few words: "64x3x7x7 stride=2 pad=3 +relu". */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/names.h"
#include "libinfer/graph/graph_fields.h"
#include "tools/words.h"
#include "tools/wconv/wconv.h"

static void add(struct words *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct words *w, const char *fmt, ...)
{
    va_list args;

    if (w->used > 0 && w->used + 1 < w->bytes)
        w->out[w->used++] = ' ';
    va_start(args, fmt);
    words_add(w, fmt, args);
    va_end(args);
}

/* One number for equal ones. */
static const cJSON *shortest(const cJSON *value)
{
    const cJSON *first = cJSON_IsArray(value) ? value->child : NULL, *item;

    for (item = first; item != NULL; item = item->next)
        if (!cJSON_IsNumber(item) || !cJSON_Compare(item, first, true))
            return value;
    return first != NULL ? first : value;
}

static void add_attribute(struct words *w, const cJSON *item)
{
    const cJSON *value = shortest(item);
    char *text;

    if (cJSON_IsString(value)) {
        add(w, "%s=%s", item->string, value->valuestring);
        return;
    }
    if (cJSON_IsTrue(value)) {
        add(w, "%s", item->string);
        return;
    }
    text = cJSON_PrintUnformatted(value);
    if (text == NULL)
        cli_lose_output();
    else
        add(w, "%s=%.80s", item->string, text);
    cJSON_free(text);
}

static void add_attributes(struct words *w, const struct graph *g,
                           const struct graph_node *n)
{
    const int rank =
        n->n_in > 0 && n->in[0] >= 0 ? g->value[n->in[0]].rank : -1;
    cJSON *object = cJSON_CreateObject();
    const cJSON *item;
    union graph_attr defaults;

    graph_fields_defaults(n->op, &n->attr, &defaults);
    if (n->op == GRAPH_UNARY)
        add(w, "%s", kern_unary_names[n->attr.unary.kind]);
    if (object == NULL ||
        !graph_fields_write(graph_op_info(n->op)->field, &n->attr, &defaults,
                            rank, object))
        cli_lose_output();
    for (item = object ? object->child : NULL; item; item = item->next)
        add_attribute(w, item);
    cJSON_Delete(object);
}

const char *wconv_node_words(const struct graph *g, const struct graph_node *n,
                             char *buf, size_t bytes)
{
    const struct graph_op_info *info = graph_op_info(n->op);
    struct words w = {.out = buf, .bytes = bytes};
    char shape[128];

    buf[0] = '\0';
    for (int i = 0; i < n->n_in; i++) {
        const struct graph_value *v = n->in[i] < 0 ? NULL : &g->value[n->in[i]];

        if (v != NULL && v->producer < 0 && v->rank > 1 &&
            (v->data != NULL || i > 0))
            add(&w, "%s",
                wconv_format_shape(v->rank, v->dim, shape, sizeof(shape)));
    }
    add_attributes(&w, g, n);
    if (info->residual && n->n_in > info->max_in && n->in[info->max_in] >= 0)
        add(&w, "+residual");
    if (n->epilogue.act.kind != KERN_IDENTITY)
        add(&w, "+%s", kern_unary_names[n->epilogue.act.kind]);
    return buf;
}
