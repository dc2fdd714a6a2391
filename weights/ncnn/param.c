/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncnn's NAME.param:
 *
 *     7767517
 *     75 83                                  layers and blobs
 *     Convolution conv1 1 1 data conv1 0=32 1=3
 *     type, name, counts of inputs and outputs, their names, parameters
 *
 * A parameter is ID=number, or -23300-ID=count,number,number,...
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

#define MAGIC "7767517"

bool ncnn_word(struct layers_text *list, struct layers_text *word)
{
    size_t n = 0;

    *list = layers_text_trim(*list);
    while (n < list->bytes && list->data[n] != ' ' && list->data[n] != '\t')
        n++;
    *word = (struct layers_text){list->data, n};
    list->data += n;
    list->bytes -= n;
    return n > 0;
}

/* Takes `count` words off; false where there are fewer. */
static bool take_words(struct layers_text *line, int count,
                       struct layers_text *out)
{
    struct layers_text word;
    int i;

    *line = layers_text_trim(*line);
    *out = *line;
    for (i = 0; i < count; i++)
        if (!ncnn_word(line, &word))
            return false;
    out->bytes = (size_t)(line->data - out->data);
    return true;
}

static bool take_int(struct layers_text *line, int max, int *out)
{
    struct layers_text word;
    int64_t v;

    if (!ncnn_word(line, &word) || !layers_text_int(word, 0, max, &v))
        return false;
    *out = (int)v;
    return true;
}

static bool parse_layer(struct layers_text line, struct ncnn_layer_text *l)
{
    if (!ncnn_word(&line, &l->type) || !ncnn_word(&line, &l->name) ||
        !take_int(&line, GRAPH_MAX_PARTS, &l->n_in) ||
        !take_int(&line, GRAPH_MAX_PARTS, &l->n_out) ||
        !take_words(&line, l->n_in, &l->in) ||
        !take_words(&line, l->n_out, &l->out))
        return false;
    l->params = layers_text_trim(line);
    return true;
}

static int add_layer(struct ncnn_param *p, const struct ncnn_layer_text *l,
                     struct infer_error *err)
{
    struct ncnn_layer_text *array;

    if (p->count == GRAPH_MAX_NODES)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d layers",
                         GRAPH_MAX_NODES);
    array = array_reserve(p->layer, p->count, &p->capacity, sizeof(*array));
    if (array == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    p->layer = array;
    p->layer[p->count++] = *l;
    return 0;
}

int ncnn_param_parse(const void *text, size_t bytes, struct infer_error *err,
                     struct ncnn_param *out)
{
    struct layers_text rest = {text, bytes}, line;
    int layers = 0, blobs = 0, number = 2, rc = 0;

    memset(out, 0, sizeof(*out));
    if (!layers_text_cut(&rest, '\n', &line) ||
        !layers_text_is(layers_text_trim(line), MAGIC))
        return error_set(err, INFER_EFORMAT, "the first line is not " MAGIC);
    if (!layers_text_cut(&rest, '\n', &line) ||
        !take_int(&line, INT32_MAX, &layers) ||
        !take_int(&line, INT32_MAX, &blobs))
        return error_set(err, INFER_EFORMAT,
                         "line 2: the counts of layers and blobs are due");
    while (rc == 0 && layers_text_cut(&rest, '\n', &line)) {
        struct ncnn_layer_text layer;

        number++;
        line = layers_text_trim(line);
        if (line.bytes == 0 || line.data[0] == '#')
            continue;
        rc = parse_layer(line, &layer)
                 ? add_layer(out, &layer, err)
                 : error_set(err, INFER_EFORMAT,
                             "line %d: '%.*s' is no layer with its inputs and "
                             "outputs",
                             number, LAYERS_SHOW(line));
    }
    if (rc == 0 && out->count != layers)
        rc = error_set(err, INFER_EFORMAT, "%d layers, line 2 says %d",
                       out->count, layers);
    if (rc < 0)
        ncnn_param_clear(out);
    return rc;
}

void ncnn_param_clear(struct ncnn_param *param)
{
    free(param->layer);
    memset(param, 0, sizeof(*param));
}

bool ncnn_param_probe(const void *text, size_t bytes)
{
    struct layers_text rest = {text, bytes < 64 ? bytes : 64}, line;

    return layers_text_cut(&rest, '\n', &line) && rest.bytes > 0 &&
           layers_text_is(layers_text_trim(line), MAGIC);
}

/* ---- parameters ---------------------------------------------------- */

/* The text of a parameter; false where it is absent. */
static bool find(const struct ncnn *n, int64_t id, struct layers_text *out)
{
    struct layers_text rest = n->layer->params, word, key;
    int64_t v;

    while (ncnn_word(&rest, &word)) {
        *out = word;
        if (layers_text_cut(out, '=', &key) &&
            layers_text_int(key, INT32_MIN, INT32_MAX, &v) && v == id)
            return true;
    }
    return false;
}

static int bad_param(struct ncnn *n, int id, struct layers_text t)
{
    return layers_fail(&n->b, INFER_EFORMAT,
                       "parameter %d: '%.*s' is no number of its kind, or "
                       "outside its range",
                       id, LAYERS_SHOW(t));
}

int ncnn_int(struct ncnn *n, int id, int64_t min, int64_t max, int otherwise)
{
    struct layers_text t;
    int64_t v;

    if (!find(n, id, &t))
        return otherwise;
    if (layers_text_int(t, min, max, &v))
        return (int)v;
    bad_param(n, id, t);
    return otherwise;
}

float ncnn_float(struct ncnn *n, int id, float otherwise)
{
    struct layers_text t;
    float v;

    if (!find(n, id, &t))
        return otherwise;
    if (layers_text_float(t, &v))
        return v;
    bad_param(n, id, t);
    return otherwise;
}

/* The items of an array, after its count; how many there are. */
static int open_array(struct ncnn *n, int id, int max_count,
                      struct layers_text *items)
{
    struct layers_text word;
    int64_t count;

    if (!find(n, INT64_C(-23300) - id, items))
        return 0;
    if (!layers_text_cut(items, ',', &word) ||
        !layers_text_int(word, 0, max_count, &count))
        return bad_param(n, id, *items);
    return (int)count;
}

int ncnn_ints(struct ncnn *n, int id, int max_count, int64_t *out)
{
    struct layers_text items, word;
    const int count = open_array(n, id, max_count, &items);
    int i;

    for (i = 0; i < count; i++)
        if (!layers_text_cut(&items, ',', &word) ||
            !layers_text_int(word, INT32_MIN, INT32_MAX, &out[i]))
            return bad_param(n, id, items);
    return count;
}

int ncnn_floats(struct ncnn *n, int id, int max_count, float *out)
{
    struct layers_text items, word;
    const int count = open_array(n, id, max_count, &items);
    int i;

    for (i = 0; i < count; i++)
        if (!layers_text_cut(&items, ',', &word) ||
            !layers_text_float(word, &out[i]))
            return bad_param(n, id, items);
    return count;
}

int ncnn_axis(struct ncnn *n, int64_t axis, int rank)
{
    if (axis < 0)
        axis += rank - 1;
    if (axis < 0 || axis > rank - 2) {
        layers_fail(&n->b, INFER_EFORMAT, "axis %lld of %d dimensions",
                    (long long)axis, rank - 1);
        return 1;
    }
    return (int)axis + 1;
}
