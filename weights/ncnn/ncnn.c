/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncnn: the format row, and the walk over the layers.
 *
 *   NAME.param   the network, text
 *   NAME.bin     the weights
 *
 * Either is given, and the other is read from beside it, by the same stem; or
 * the .bin with the .param as its architecture.  A network alone gives a graph
 * without data.  Blobs that no layer reads are the outputs.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

struct row {
    const char *type;
    int min_in, max_in;
    ncnn_layer_fn *build;
    int arg;
};

static const struct row rows[] = {
#define NCNN_LAYER(type, min_in, max_in, function, arg)                        \
    {#type, min_in, max_in, function, arg},
#include "weights/ncnn/layers.def"
#undef NCNN_LAYER
};

static const struct row *find_row(struct layers_text type)
{
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (layers_text_is(type, rows[i].type))
            return &rows[i];
    return NULL;
}

/* ---- blobs --------------------------------------------------------- */

static void set_top(struct ncnn *n, struct layers_text name, int value)
{
    struct ncnn_top *array;
    int *at;

    if (n->b.status < 0)
        return;
    at = layers_map_at(&n->blobs, name);
    array = array_reserve(n->top, n->n_tops, &n->tops_capacity, sizeof(*array));
    if (array != NULL)
        n->top = array;
    if (at == NULL || array == NULL) {
        layers_no_room(&n->b);
    } else if (*at >= 0) {
        layers_fail(&n->b, INFER_EFORMAT, "a second blob is named '%.*s'",
                    LAYERS_SHOW(name));
    } else {
        *at = n->n_tops;
        n->top[n->n_tops++] = (struct ncnn_top){name, value, false};
    }
}

static int bottom(struct ncnn *n, struct layers_text name)
{
    const int at = layers_map_find(&n->blobs, name);

    if (at < 0)
        return layers_fail(&n->b, INFER_EFORMAT,
                           "takes '%.*s', which no layer before it makes",
                           LAYERS_SHOW(name));
    n->top[at].used = true;
    return n->top[at].value;
}

/* Which boxes are kept is decided by whoever reads the outputs. */
void ncnn_detection(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    struct layers_text list = n->layer->in, name;

    (void)ends;
    (void)arg;
    while (ncnn_word(&list, &name))
        n->top[layers_map_find(&n->blobs, name)].used = false;
    if (weights_dict_strip(&n->import->dict, n->b.name, 0,
                           "its inputs are outputs; decode the boxes "
                           "yourself") < 0)
        layers_no_room(&n->b);
}

/* ---- inputs -------------------------------------------------------- */

/* The channels of a convolution's input; 0 where they cannot be told. */
static int64_t channels_of(struct ncnn *n, const struct ncnn_layer_text *l)
{
    const struct ncnn_layer_text *before = n->layer;
    int64_t k, size, window, each = 0;

    n->layer = l;
    k = ncnn_int(n, 0, 1, INT32_MAX, 1);
    size = ncnn_int(n, 6, 0, INT32_MAX, 0);
    window = ncnn_int(n, 1, 1, NCNN_MAX_STEP, 1);
    window *= ncnn_int(n, 11, 1, NCNN_MAX_STEP, (int)window);
    n->layer = before;
    return checked_mul_i64(k, window, &each) && size % each == 0 ? size / each
                                                                 : 0;
}

/* Of a convolution that reads the blob, among the next layers. */
static int64_t input_channels(struct ncnn *n, struct layers_text blob)
{
    const int first = (int)(n->layer - n->param.layer);
    int i;

    for (i = first; i < n->param.count && i < first + 64; i++) {
        const struct ncnn_layer_text *l = &n->param.layer[i];

        if (l->n_in != 1 || l->in.bytes != blob.bytes ||
            memcmp(l->in.data, blob.data, blob.bytes) != 0)
            continue;
        if (layers_text_is(l->type, "Convolution"))
            return channels_of(n, l);
    }
    return 0;
}

/* A picture of free size where the file states none. */
void ncnn_input(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int ids[] = {2, 1, 0};
    int64_t dim[4] = {-1, -1, -1, -1};
    struct layers_text list = n->layer->out, name = {"", 0};
    int i, rank = 1;

    (void)arg;
    for (i = 0; i < 3; i++) {
        const int size = ncnn_int(n, ids[i], NCNN_NONE, INT32_MAX, 0);

        if (size > 0)
            dim[rank++] = size;
    }
    if (ends->n_out != 1 || !ncnn_word(&list, &name)) {
        layers_fail(&n->b, INFER_EFORMAT, "it has %d outputs", ends->n_out);
        return;
    }
    if (rank == 1) {
        rank = 4;
        dim[1] = input_channels(n, name);
        if (dim[1] < 1)
            dim[1] = -1;
    }
    ends->out[0] = layers_input(&n->b, name, rank, dim);
}

/* ---- the walk ------------------------------------------------------ */

static int survey(const struct ncnn *n)
{
    struct layers_refused refused = {0};
    int i;

    for (i = 0; i < n->param.count; i++)
        if (find_row(n->param.layer[i].type) == NULL)
            layers_refuse(&refused, n->param.layer[i].type);
    return layers_refused_report(&refused, n->b.err);
}

static void build_layer(struct ncnn *n)
{
    const struct ncnn_layer_text *l = n->layer;
    const struct row *row = find_row(l->type);
    struct layers_text list = l->in, name;
    struct ncnn_ends ends = {.n_in = 0, .n_out = l->n_out};
    int i;

    layers_begin(&n->b, l->type, l->name);
    if (l->n_in < row->min_in || (row->max_in >= 0 && l->n_in > row->max_in))
        layers_fail(&n->b, INFER_EFORMAT, "it has %d inputs", l->n_in);
    while (n->b.status == 0 && ncnn_word(&list, &name))
        ends.in[ends.n_in++] = bottom(n, name);
    for (i = 0; i < GRAPH_MAX_PARTS; i++)
        ends.out[i] = -1;
    if (n->b.status == 0)
        row->build(n, &ends, row->arg);
    list = l->out;
    for (i = 0; n->b.status == 0 && ncnn_word(&list, &name); i++)
        if (ends.out[i] >= 0)
            set_top(n, name, ends.out[i]);
}

static int build(struct ncnn *n)
{
    static const struct layers_text none = {"", 0};
    int i, outputs = 0, rc = survey(n);

    if (rc < 0)
        return rc;
    for (i = 0; i < n->param.count && n->b.status == 0; i++) {
        n->layer = &n->param.layer[i];
        build_layer(n);
    }
    layers_begin(&n->b, none, none);
    for (i = 0; i < n->n_tops && n->b.status == 0; i++)
        if (!n->top[i].used) {
            layers_output(&n->b, n->top[i].value, n->top[i].name);
            outputs++;
        }
    if (n->b.status == 0 && outputs == 0)
        layers_fail(&n->b, INFER_EFORMAT, "the network has no output");
    if (n->b.status == 0 && n->weights != NULL && bytes_left(&n->cursor) > 0)
        layers_fail(&n->b, INFER_EFORMAT,
                    "the weights have %zu bytes more than the network needs",
                    bytes_left(&n->cursor));
    return n->b.status;
}

int ncnn_read(const struct weights_file *net,
              const struct weights_file *weights,
              const struct weights_options *options, struct infer_error *err,
              struct weights_import *out)
{
    struct ncnn n = {.b = {.err = err, .options = options}, .import = out};
    int rc = ncnn_param_parse(net->blob->data, net->blob->bytes, err, &n.param);

    if (rc == 0 && weights != NULL) {
        n.weights = weights->blob;
        n.cursor = bytes_over(weights->blob->data, weights->blob->bytes);
    }
    if (rc == 0) {
        n.b.g = graph_new();
        rc = n.b.g != NULL ? build(&n)
                           : error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc == 0)
        out->graph = n.b.g;
    else
        graph_free(n.b.g);
    ncnn_param_clear(&n.param);
    layers_map_clear(&n.blobs);
    free(n.top);
    return rc;
}

/* ---- the format row ------------------------------------------------ */

static bool is_text(const struct weights_file *file)
{
    return ncnn_param_probe(file->blob->data, file->blob->bytes);
}

/* The first layer with weights is mostly a convolution, whose weights state how
 * they are stored. */
static int probe(const struct weights_file *file)
{
    struct bytes cursor = bytes_over(file->blob->data, file->blob->bytes);
    uint32_t tag;

    if (is_text(file))
        return 95;
    if (!bytes_u32(&cursor, &tag) || file->blob->bytes % 4 != 0)
        return 0;
    return tag == UINT32_C(0x01306B47) || tag == UINT32_C(0x0002C056) ? 30 : 0;
}

static int read_file(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    static const struct layers_pair pair = {".param", ".bin", ncnn_read};

    return layers_read_pair(&pair, file, is_text(file), options, err, out);
}

const struct weights_format weights_format_ncnn = {
    .name = "ncnn",
    .description = "ncnn: .param and .bin",
    .probe = probe,
    .is_network = is_text,
    .read = read_file,
};
