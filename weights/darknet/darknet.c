/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Darknet: the format row, and the walk over the layers.
 *
 *   NAME.cfg       the network, text
 *   NAME.weights   0   major, minor, revision, 4 bytes each
 *                  12  pictures seen in training: 4 bytes before version 0.2,
 *                      then 8
 *                  ..  floats of the layers, in their order
 *
 * Either is given, and the other is read from beside it, by the same stem; or
 * the .weights with the .cfg as its architecture.  A network alone gives a
 * graph without data.
 *
 * The last layer is the output; with detection heads (yolo, region), it is
 * their inputs.  The graph's task holds the anchors of yolo heads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/darknet/darknet.h"

static const struct {
    const char *type;
    darknet_layer_fn *build;
} layers[] = {
#define DARKNET_LAYER(type, function) {#type, function},
#include "weights/darknet/layers.def"
#undef DARKNET_LAYER
};

static darknet_layer_fn *find_layer(struct layers_text type)
{
    size_t i;

    for (i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        if (layers_text_is(type, layers[i].type))
            return layers[i].build;
    return NULL;
}

/* ---- options ------------------------------------------------------- */

bool darknet_option(const struct darknet *d, const char *key,
                    struct layers_text *out)
{
    int i;

    for (i = 0; i < d->section->n_options; i++) {
        const struct darknet_option *o =
            &d->config.option[d->section->first + i];

        if (layers_text_is(o->key, key)) {
            *out = o->value;
            return true;
        }
    }
    return false;
}

int darknet_int(struct darknet *d, const char *key, int min, int max,
                int otherwise)
{
    struct layers_text t;
    int64_t v;

    if (!darknet_option(d, key, &t))
        return otherwise;
    if (!layers_text_int(t, min, max, &v)) {
        layers_fail(&d->b, INFER_EFORMAT,
                    "%s=%.*s is no whole number from %d to %d", key,
                    LAYERS_SHOW(t), min, max);
        return otherwise;
    }
    return (int)v;
}

float darknet_float(struct darknet *d, const char *key, float otherwise)
{
    struct layers_text t;
    float v;

    if (!darknet_option(d, key, &t))
        return otherwise;
    if (!layers_text_float(t, &v)) {
        layers_fail(&d->b, INFER_EFORMAT, "%s=%.*s is no number", key,
                    LAYERS_SHOW(t));
        return otherwise;
    }
    return v;
}

void darknet_refuse_options(struct darknet *d, const char *const *keys)
{
    struct layers_text t;

    for (; *keys != NULL; keys++)
        if (darknet_option(d, *keys, &t) && !layers_text_is(t, "0") &&
            !layers_text_is(t, "none"))
            layers_fail(&d->b, INFER_EUNSUPPORTED, "%s=%.*s is not supported",
                        *keys, LAYERS_SHOW(t));
}

int darknet_layer_value(struct darknet *d, struct layers_text number)
{
    int64_t i;

    if (d->b.status < 0)
        return d->b.status;
    if (!layers_text_int(number, -d->at, d->at - 1, &i))
        return layers_fail(&d->b, INFER_EFORMAT,
                           "'%.*s' names no layer before it",
                           LAYERS_SHOW(number));
    if (i < 0)
        i += d->at;
    if (d->value[i] < 0)
        return layers_fail(&d->b, INFER_EUNSUPPORTED,
                           "takes layer %lld, which is a detection head",
                           (long long)i);
    return d->value[i];
}

/* ---- weights ------------------------------------------------------- */

int darknet_weight(struct darknet *d, const char *suffix, int rank,
                   const int64_t *dim)
{
    const size_t bytes = array_bytes(INFER_F32, rank, dim);
    const unsigned char *data;

    if (d->b.status < 0)
        return d->b.status;
    if (bytes == SIZE_MAX)
        return layers_fail(&d->b, INFER_EFORMAT, "its %s is beyond all memory",
                           suffix);
    if (d->weights == NULL)
        return layers_unbound(&d->b, suffix, rank, dim);
    data = bytes_take(&d->cursor, bytes);
    if (data == NULL)
        return layers_fail(&d->b, INFER_EFORMAT,
                           "its %s needs %zu floats, the weights have %zu "
                           "left",
                           suffix, bytes / sizeof(float),
                           bytes_left(&d->cursor) / sizeof(float));
    return layers_constant(
        &d->b, suffix,
        layers_floats(d->weights, d->weights->data + (data - d->cursor.data),
                      rank, dim));
}

/* Versions as the numbers that a file may begin with. */
static bool read_header(struct bytes *cursor, uint32_t version[3])
{
    uint64_t seen;
    int i;

    for (i = 0; i < 3; i++)
        if (!bytes_u32(cursor, &version[i]))
            return false;
    /* Versions above 1000 mark transposed weights. */
    const bool wide = (uint64_t)version[0] * 10 + version[1] >= 2 &&
                      version[0] < 1000 && version[1] < 1000;
    return bytes_uint(cursor, wide ? 8 : 4, &seen);
}

static int open_weights(struct darknet *d, const struct weights_file *file)
{
    uint32_t version[3];

    if (file == NULL)
        return 0;
    d->weights = file->blob;
    d->cursor = bytes_over(file->blob->data, file->blob->bytes);
    if (!read_header(&d->cursor, version))
        return error_set(d->b.err, INFER_EFORMAT,
                         "the weights end within their header");
    d->transposed = version[0] > 1000 || version[1] > 1000;
    snprintf(d->import->detail, sizeof(d->import->detail),
             "weights of version %u.%u.%u", version[0], version[1], version[2]);
    return 0;
}

/* ---- the walk ------------------------------------------------------ */

static bool is_net(struct layers_text type)
{
    return layers_text_is(type, "net") || layers_text_is(type, "network");
}

static int check_types(const struct darknet *d)
{
    struct layers_refused refused = {0};
    int i;

    for (i = 1; i < d->config.n_sections; i++)
        if (find_layer(d->config.section[i].type) == NULL)
            layers_refuse(&refused, d->config.section[i].type);
    return layers_refused_report(&refused, d->b.err);
}

static int add_input(struct darknet *d)
{
    const struct layers_text data = {"data", 4};
    int64_t dim[4] = {-1, 0, 0, 0};

    d->section = &d->config.section[0];
    layers_begin(&d->b, d->section->type, data);
    dim[1] = darknet_int(d, "channels", 0, DARKNET_MAX_STEP, 0);
    dim[2] = darknet_int(d, "height", 0, DARKNET_MAX_STEP, 0);
    dim[3] = darknet_int(d, "width", 0, DARKNET_MAX_STEP, 0);
    if (dim[1] > 0 && dim[2] > 0 && dim[3] > 0)
        return layers_input(&d->b, data, 4, dim);
    dim[1] = darknet_int(d, "inputs", 0, INT32_MAX, 0);
    if (dim[1] == 0)
        return layers_fail(&d->b, INFER_EFORMAT,
                           "states neither height, width and channels nor "
                           "inputs");
    return layers_input(&d->b, data, 2, dim);
}

/* "conv" for "convolutional": names of layers are short. */
static void begin_layer(struct darknet *d)
{
    const struct layers_text type = d->section->type;
    char text[96];
    int n;

    n = snprintf(text, sizeof(text), "%.*s_%d",
                 layers_text_is(type, "convolutional") ? 4 : (int)type.bytes,
                 type.data, d->at);
    if (n >= (int)sizeof(text))
        n = (int)sizeof(text) - 1;
    layers_begin(&d->b, type, (struct layers_text){text, (size_t)n});
}

static int build_layers(struct darknet *d)
{
    static const struct layers_text none = {"", 0};
    int x = add_input(d), i;

    for (i = 1; i < d->config.n_sections && d->b.status == 0; i++) {
        d->section = &d->config.section[i];
        d->at = i - 1;
        begin_layer(d);
        /* A route names its inputs itself. */
        if (x < 0 && !layers_text_is(d->section->type, "route"))
            return layers_fail(&d->b, INFER_EUNSUPPORTED,
                               "takes the output of a detection head");
        x = find_layer(d->section->type)(d, x);
        d->value[d->at] = x;
    }
    layers_begin(&d->b, none, none);
    if (d->b.status == 0 && d->n_heads == 0)
        d->head[d->n_heads++] = x;
    for (i = 0; i < d->n_heads && d->b.status == 0; i++)
        layers_output(&d->b, d->head[i], none);
    if (d->b.status == 0 && d->task[0] && !d->other_heads &&
        (d->b.g->task = strdup(d->task)) == NULL)
        return layers_no_room(&d->b);
    return d->b.status;
}

static int build(struct darknet *d)
{
    const size_t n = (size_t)d->config.n_sections;
    int rc;

    if (!is_net(d->config.section[0].type))
        return error_set(d->b.err, INFER_EFORMAT,
                         "the first section is [%.*s], not [net]",
                         LAYERS_SHOW(d->config.section[0].type));
    if ((rc = check_types(d)) < 0)
        return rc;
    d->value = calloc(n, sizeof(*d->value));
    d->head = calloc(n, sizeof(*d->head));
    d->b.g = graph_new();
    if (d->value == NULL || d->head == NULL || d->b.g == NULL)
        return error_set(d->b.err, INFER_EMEMORY, "out of memory");
    if ((rc = build_layers(d)) < 0)
        return rc;
    if (d->weights != NULL && bytes_left(&d->cursor) > 0)
        return error_set(d->b.err, INFER_EFORMAT,
                         "the weights have %zu bytes more than the network "
                         "needs",
                         bytes_left(&d->cursor));
    return 0;
}

int darknet_read(const struct weights_file *config,
                 const struct weights_file *weights,
                 const struct weights_options *options, struct infer_error *err,
                 struct weights_import *out)
{
    struct darknet d = {.b = {.err = err, .options = options}, .import = out};
    int rc = darknet_config_parse(config->blob->data, config->blob->bytes, err,
                                  &d.config);

    if (rc == 0)
        rc = open_weights(&d, weights);
    if (rc == 0)
        rc = build(&d);
    if (rc == 0)
        out->graph = d.b.g;
    else
        graph_free(d.b.g);
    darknet_config_clear(&d.config);
    free(d.value);
    free(d.head);
    return rc;
}

/* ---- the format row ------------------------------------------------ */

/* Nothing marks the weights but small numbers at their beginning, and floats
 * that fill the rest. */
static bool is_weights(const struct blob *blob)
{
    struct bytes cursor = bytes_over(blob->data, blob->bytes);
    uint32_t version[3];

    return read_header(&cursor, version) && version[0] <= 1 &&
           version[1] >= 1 && version[1] <= 9 && version[2] <= 9 &&
           bytes_left(&cursor) > 0 && bytes_left(&cursor) % sizeof(float) == 0;
}

static bool is_text(const struct weights_file *file)
{
    return darknet_config_probe(file->blob->data, file->blob->bytes);
}

static int probe(const struct weights_file *file)
{
    return is_text(file) ? 90 : is_weights(file->blob) ? 15 : 0;
}

static int read_file(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    static const struct layers_pair pair = {".cfg", ".weights", darknet_read};

    return layers_read_pair(&pair, file, is_text(file), options, err, out);
}

const struct weights_format weights_format_darknet = {
    .name = "darknet",
    .description = "Darknet: .cfg and .weights",
    .probe = probe,
    .is_network = is_text,
    .read = read_file,
};
