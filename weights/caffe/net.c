/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: the inputs of a network, the walk over its layers, its outputs. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

static const struct caffe_layer layers[] = {
#define CAFFE_LAYER(type, old, param, min_in, max_in, function, arg)           \
    {#type, #old, #param, min_in, max_in, function, arg},
#include "weights/caffe/layers.def"
#undef CAFFE_LAYER
};

const struct caffe_layer *caffe_layer_find(struct layers_text type)
{
    size_t i;

    for (i = 0; type.bytes > 0 && i < sizeof(layers) / sizeof(*layers); i++)
        if (layers_text_is(type, layers[i].type) ||
            layers_text_is(type, layers[i].old))
            return &layers[i];
    return NULL;
}

/* A field's text, or an empty one. */
static struct layers_text text_of(const struct caffe *c, int message,
                                  const char *name)
{
    const int i = caffe_find(&c->text, message, name, -1);

    return i < 0 ? (struct layers_text){"", 0} : c->text.field[i].value;
}

/* ---- weights ------------------------------------------------------- */

/* The blob's data at an address that floats may have.  The head is part of the
 * file that was read and is not read again. */
static unsigned char *aligned(struct caffe_blob *blob)
{
    const size_t over = (uintptr_t)blob->data % sizeof(float);

    if (over > 0 && over <= (size_t)(blob->data - blob->head)) {
        memmove(blob->data - over, blob->data, blob->bytes);
        blob->data -= over;
    }
    return blob->data;
}

struct constant *caffe_weight_data(struct caffe *c, int i, const char *suffix,
                                   int rank, const int64_t *dim)
{
    const struct caffe_layer_blobs *stored;
    struct caffe_blob *blob;
    struct constant *made;
    int64_t count;

    if (c->b.status < 0 || c->weights == NULL)
        return NULL;
    stored = c->stored >= 0 ? &c->weights->layer[c->stored] : NULL;
    if (stored == NULL || i >= stored->count) {
        layers_fail(&c->b, INFER_EFORMAT,
                    "its %s is not among the weights (%d blobs)", suffix,
                    stored != NULL ? stored->count : 0);
        return NULL;
    }
    blob = &c->weights->blob[stored->first + i];
    if (blob->data == NULL || !checked_count(rank, dim, &count) ||
        (uint64_t)count != blob->bytes / sizeof(float)) {
        layers_fail(&c->b, INFER_EFORMAT,
                    "its %s has %zu elements, %lld are due", suffix,
                    blob->bytes / sizeof(float),
                    (long long)(checked_count(rank, dim, &count) ? count : -1));
        return NULL;
    }
    made = layers_floats(c->weights->file, aligned(blob), rank, dim);
    blob->data = NULL; /* no two views of the same bytes */
    if (made == NULL)
        layers_no_room(&c->b);
    return made;
}

int caffe_weight(struct caffe *c, int i, const char *suffix, int rank,
                 const int64_t *dim)
{
    struct constant *data;

    if (c->weights == NULL)
        return layers_unbound(&c->b, suffix, rank, dim);
    data = caffe_weight_data(c, i, suffix, rank, dim);
    return c->b.status < 0 ? c->b.status : layers_constant(&c->b, suffix, data);
}

/* ---- tops ---------------------------------------------------------- */

/* The blob of a name gets a new value. */
static void set_top(struct caffe *c, struct layers_text name, int value)
{
    struct caffe_top *array;
    int *at;

    if (c->b.status < 0)
        return;
    at = layers_map_at(&c->blobs, name);
    array = array_reserve(c->top, c->n_tops, &c->tops_capacity, sizeof(*array));
    if (array != NULL)
        c->top = array;
    if (at == NULL || array == NULL) {
        layers_no_room(&c->b);
        return;
    }
    /* A top that is written again, in place, is no output. */
    if (*at >= 0)
        c->top[*at].used = true;
    *at = c->n_tops;
    c->top[c->n_tops++] = (struct caffe_top){name, value, false};
}

static int bottom(struct caffe *c, struct layers_text name)
{
    const int at = layers_map_find(&c->blobs, name);

    if (at < 0)
        return layers_fail(&c->b, INFER_EFORMAT,
                           "takes '%.*s', which no layer before it makes",
                           LAYERS_SHOW(name));
    c->top[at].used = true;
    return c->top[at].value;
}

/* ---- inputs -------------------------------------------------------- */

static void add_input(struct caffe *c, struct layers_text name, int rank,
                      const int64_t *dim)
{
    int v;

    if (rank < 1) {
        layers_fail(&c->b, INFER_EFORMAT,
                    "input '%.*s' has no shape: the network for use states "
                    "one, the one for training does not",
                    LAYERS_SHOW(name));
        return;
    }
    v = layers_input(&c->b, name, rank, dim);
    if (v >= 0)
        set_top(c, name, v);
}

/* input: "data" with four input_dim, or with input_shape { dim: ... }. */
static void add_inputs(struct caffe *c)
{
    int64_t dim[4 * INFER_MAX_RANK], *next = dim;
    int shape = -1, name = -1, left, rank;

    left = caffe_ints(c, 0, "input_dim", 1, INT32_MAX, 4 * INFER_MAX_RANK, dim);
    while (c->b.status == 0 &&
           (name = caffe_find(&c->text, 0, "input", name)) >= 0) {
        int64_t own[INFER_MAX_RANK];

        shape = caffe_find(&c->text, 0, "input_shape", shape);
        rank = shape >= 0 ? caffe_ints(c, shape, "dim", 1, INT32_MAX,
                                       INFER_MAX_RANK, own)
                          : 0;
        if (rank == 0 && left >= 4) {
            memcpy(own, next, 4 * sizeof(*own));
            next += 4;
            left -= 4;
            rank = 4;
        }
        add_input(c, c->text.field[name].value, rank, own);
    }
}

/* layer { type: "Input" top: "data" input_param { shape { dim: ... } } } */
static void add_input_layer(struct caffe *c)
{
    const int param = caffe_find(&c->text, c->layer, "input_param", -1);
    int64_t dim[INFER_MAX_RANK];
    int top = -1, shape = -1, latest = -1, rank = 0;

    while (c->b.status == 0 &&
           (top = caffe_find(&c->text, c->layer, "top", top)) >= 0) {
        if (latest >= 0 || shape < 0) {
            latest = caffe_find(&c->text, param, "shape", shape);
            shape = latest >= 0 ? latest : shape;
        }
        if (latest >= 0) /* one shape may stand for all tops */
            rank =
                caffe_ints(c, shape, "dim", 1, INT32_MAX, INFER_MAX_RANK, dim);
        add_input(c, c->text.field[top].value, rank, dim);
    }
}

/* ---- layers -------------------------------------------------------- */

/* Whether a rule (include, exclude) is for using the network. */
static bool is_for_test(const struct caffe *c, int rule)
{
    const struct layers_text phase = text_of(c, rule, "phase");

    return phase.bytes == 0 || layers_text_is(phase, "TEST") ||
           layers_text_is(phase, "1");
}

static bool is_included(const struct caffe *c, int layer)
{
    int include = caffe_find(&c->text, layer, "include", -1);
    int exclude = caffe_find(&c->text, layer, "exclude", -1);

    if (include < 0) {
        for (; exclude >= 0;
             exclude = caffe_find(&c->text, layer, "exclude", exclude))
            if (is_for_test(c, exclude))
                return false;
        return true;
    }
    for (; include >= 0;
         include = caffe_find(&c->text, layer, "include", include))
        if (is_for_test(c, include))
            return true;
    return false;
}

static bool is_input(struct layers_text type)
{
    return layers_text_is(type, "Input");
}

static void check_ends(struct caffe *c, const struct caffe_ends *ends,
                       int n_tops)
{
    const struct caffe_layer *row = c->row;

    if (ends->n_in < row->min_in ||
        (row->max_in >= 0 && ends->n_in > row->max_in))
        layers_fail(&c->b, INFER_EFORMAT, "it has %d bottoms", ends->n_in);
    else if (n_tops == 0 && row->build != caffe_silence &&
             row->build != caffe_detection)
        layers_fail(&c->b, INFER_EFORMAT, "it has no top");
    else if (n_tops > GRAPH_MAX_PARTS)
        layers_fail(&c->b, INFER_EUNSUPPORTED, "it has more than %d tops",
                    GRAPH_MAX_PARTS);
}

static void read_ends(struct caffe *c, struct caffe_ends *ends)
{
    int i = -1;

    while (c->b.status == 0 &&
           (i = caffe_find(&c->text, c->layer, "bottom", i)) >= 0) {
        if (ends->n_in == GRAPH_MAX_PARTS) {
            layers_fail(&c->b, INFER_EUNSUPPORTED,
                        "it has more than %d bottoms", GRAPH_MAX_PARTS);
            return;
        }
        ends->in[ends->n_in++] = bottom(c, c->text.field[i].value);
    }
    for (i = -1; (i = caffe_find(&c->text, c->layer, "top", i)) >= 0;)
        ends->n_out++;
    check_ends(c, ends, ends->n_out);
}

static void build_layer(struct caffe *c)
{
    const struct layers_text name = text_of(c, c->layer, "name");
    struct caffe_ends ends = {.n_in = 0};
    int top = -1, i;

    c->row = caffe_layer_find(text_of(c, c->layer, "type"));
    if (c->row == NULL)
        return; /* the survey has refused it */
    layers_begin(
        &c->b, (struct layers_text){c->row->type, strlen(c->row->type)}, name);
    c->param = c->row->param[0]
                   ? caffe_find(&c->text, c->layer, c->row->param, -1)
                   : -1;
    c->stored = c->weights ? layers_map_find(&c->weights->by_name, name) : -1;
    read_ends(c, &ends);
    for (i = 0; i < ends.n_out && i < GRAPH_MAX_PARTS; i++)
        ends.out[i] = -1;
    if (c->b.status == 0)
        c->row->build(c, &ends, c->row->arg);
    for (i = 0; c->b.status == 0 && i < ends.n_out; i++) {
        top = caffe_find(&c->text, c->layer, "top", top);
        if (ends.out[i] >= 0)
            set_top(c, c->text.field[top].value, ends.out[i]);
    }
}

/* "layer" or, in old files, "layers". */
static const char *layers_word(const struct caffe *c)
{
    return caffe_find(&c->text, 0, "layer", -1) >= 0 ? "layer" : "layers";
}

/* Lists every type that is not supported. */
static int survey(const struct caffe *c)
{
    const char *word = layers_word(c);
    struct layers_refused refused = {0};
    int i = -1, n = 0;

    while ((i = caffe_find(&c->text, 0, word, i)) >= 0) {
        const struct layers_text type = text_of(c, i, "type");

        n++;
        if (is_included(c, i) && !is_input(type) &&
            caffe_layer_find(type) == NULL)
            layers_refuse(&refused, type.bytes > 0
                                        ? type
                                        : (struct layers_text){"(none)", 6});
    }
    if (n == 0)
        return error_set(c->b.err, INFER_EFORMAT, "the network has no layers");
    return layers_refused_report(&refused, c->b.err);
}

static int build(struct caffe *c)
{
    static const struct layers_text none = {"", 0};
    const char *word = layers_word(c);
    int i = -1, outputs = 0, rc = survey(c);

    if (rc < 0)
        return rc;
    add_inputs(c);
    while (c->b.status == 0 && (i = caffe_find(&c->text, 0, word, i)) >= 0) {
        c->layer = i;
        if (!is_included(c, i))
            continue;
        if (is_input(text_of(c, i, "type")))
            add_input_layer(c);
        else
            build_layer(c);
        layers_begin(&c->b, none, none);
    }
    for (i = 0; i < c->n_tops && c->b.status == 0; i++) {
        if (c->top[i].used)
            continue;
        layers_output(&c->b, c->top[i].value, c->top[i].name);
        outputs++;
    }
    if (c->b.status == 0 && outputs == 0)
        layers_fail(&c->b, INFER_EFORMAT, "the network has no output");
    return c->b.status;
}

int caffe_read(const struct weights_file *net,
               const struct weights_file *weights,
               const struct weights_options *options, struct infer_error *err,
               struct weights_import *out)
{
    struct caffe c = {.b = {.err = err, .options = options}, .import = out};
    struct caffe_weights stored = {0};
    int rc = caffe_text_parse(net->blob->data, net->blob->bytes, err, &c.text);

    if (rc == 0 && weights != NULL)
        rc = caffe_weights_read(weights->blob, err, &stored);
    if (rc == 0) {
        c.weights = weights != NULL ? &stored : NULL;
        c.b.g = graph_new();
        rc = c.b.g != NULL ? build(&c)
                           : error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc == 0)
        out->graph = c.b.g;
    else
        graph_free(c.b.g);
    caffe_text_clear(&c.text);
    caffe_weights_clear(&stored);
    layers_map_clear(&c.blobs);
    free(c.top);
    return rc;
}
