/* SPDX-License-Identifier: Apache-2.0 */
/* Darknet: layers without weights. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/darknet/darknet.h"

/* ---- pooling ------------------------------------------------------- */

/* The pad is that of both ends together; of an odd one the end has more. */
static int pool(struct darknet *d, int x, enum kern_pool_kind kind)
{
    static const char *const refused[] = {"maxpool_depth", "antialiasing",
                                          NULL};
    union graph_attr attr = layers_defaults(GRAPH_POOL);
    struct kern_pool *p = &attr.pool.pool;
    const int stride = darknet_int(d, "stride", 1, DARKNET_MAX_STEP, 1);
    const int size = darknet_int(d, "size", 1, DARKNET_MAX_STEP, stride);
    const int pad = darknet_int(d, "padding", 0, DARKNET_MAX_STEP, size - 1);
    int i;

    darknet_refuse_options(d, refused);
    p->kind = kind;
    p->stride[0] = darknet_int(d, "stride_y", 1, DARKNET_MAX_STEP, stride);
    p->stride[1] = darknet_int(d, "stride_x", 1, DARKNET_MAX_STEP, stride);
    for (i = 0; i < 2; i++) {
        p->window[i] = size;
        p->pad_begin[i] = pad / 2;
        p->pad_end[i] = pad - pad / 2;
    }
    x = darknet_picture(d, x);
    return layers_emit(&d->b, GRAPH_POOL, "", &attr, &x, 1);
}

int darknet_maxpool(struct darknet *d, int x)
{
    return pool(d, x, KERN_POOL_MAX);
}

int darknet_local_avgpool(struct darknet *d, int x)
{
    return pool(d, x, KERN_POOL_AVERAGE);
}

int darknet_avgpool(struct darknet *d, int x)
{
    union graph_attr attr = layers_defaults(GRAPH_POOL);

    attr.pool.pool.kind = KERN_POOL_AVERAGE;
    x = darknet_picture(d, x);
    return layers_emit(&d->b, GRAPH_POOL, "", &attr, &x, 1);
}

/* ---- joining ------------------------------------------------------- */

/* Part group_id of the channels, of `groups` parts. */
static int channel_part(struct darknet *d, int x, int groups, int id)
{
    const int64_t channels = layers_known(&d->b, x, 1);

    if (groups == 1 || d->b.status < 0)
        return x;
    if (channels % groups != 0 || id >= groups)
        return layers_fail(&d->b, INFER_EFORMAT,
                           "%lld channels have no part %d of %d",
                           (long long)channels, id, groups);
    return layers_slice(&d->b, "part", x, 1, channels / groups * id,
                        channels / groups * (id + 1), 1);
}

int darknet_route(struct darknet *d, int x)
{
    const int groups = darknet_int(d, "groups", 1, INT32_MAX, 1);
    const int id = darknet_int(d, "group_id", 0, INT32_MAX, 0);
    union graph_attr attr = layers_defaults(GRAPH_CONCAT);
    struct layers_text list = {NULL, 0}, item;
    int in[GRAPH_MAX_PARTS], n = 0;

    (void)x;
    darknet_option(d, "layers", &list);
    while (d->b.status == 0 && layers_text_cut(&list, ',', &item)) {
        item = layers_text_trim(item);
        if (item.bytes == 0)
            continue; /* a comma at the end */
        if (n == GRAPH_MAX_PARTS)
            return layers_fail(&d->b, INFER_EUNSUPPORTED, "more than %d inputs",
                               GRAPH_MAX_PARTS);
        in[n] = darknet_layer_value(d, item);
        in[n] = channel_part(d, in[n], groups, id);
        n++;
    }
    if (n == 0)
        layers_fail(&d->b, INFER_EFORMAT, "names no layers");
    if (n == 1 || d->b.status < 0)
        return d->b.status < 0 ? d->b.status : in[0];
    attr.axis.axis = 1;
    return layers_emit(&d->b, GRAPH_CONCAT, "", &attr, in, n);
}

/* Every stride-th element of both spatial dimensions. */
static int subsample(struct darknet *d, int x, int64_t stride)
{
    int axis;

    for (axis = 2; stride > 1 && axis < 4; axis++)
        x = layers_slice(&d->b, "sample", x, axis, 0, INT64_MAX, stride);
    return x;
}

/* Brings the other input of a shortcut to the shape of x: of its channels, as
 * many as both have; of a larger picture, one pixel a stride. */
static int shortcut_input(struct darknet *d, int x, int other)
{
    union graph_attr attr = layers_defaults(GRAPH_PAD);
    int64_t from[4], to[4];
    int i;

    if (layers_rank(&d->b, x) != 4 || layers_rank(&d->b, other) != 4)
        return other;
    for (i = 1; i < 4; i++) {
        from[i] = layers_dim(&d->b, other, i);
        to[i] = layers_dim(&d->b, x, i);
    }
    if (from[2] != to[2] || from[3] != to[3]) {
        const int64_t stride = to[3] > 0 ? from[3] / to[3] : 0;

        if (stride < 1 || to[2] < 1 || from[2] / to[2] != stride ||
            (from[2] + stride - 1) / stride != to[2] ||
            (from[3] + stride - 1) / stride != to[3])
            return layers_fail(&d->b, INFER_EUNSUPPORTED,
                               "a shortcut from %lldx%lld to %lldx%lld is not "
                               "supported",
                               (long long)from[2], (long long)from[3],
                               (long long)to[2], (long long)to[3]);
        other = subsample(d, other, stride);
    }
    if (from[1] > to[1])
        return layers_slice(&d->b, "part", other, 1, 0, to[1], 1);
    if (from[1] == to[1])
        return other;
    if (to[1] - from[1] > DARKNET_MAX_STEP)
        return layers_fail(&d->b, INFER_EUNSUPPORTED,
                           "a shortcut from %lld to %lld channels",
                           (long long)from[1], (long long)to[1]);
    attr.pad.end[1] = (int)(to[1] - from[1]);
    return layers_emit(&d->b, GRAPH_PAD, "channels", &attr, &other, 1);
}

/* x by a factor; 1 leaves it as it is. */
static int scaled(struct darknet *d, const char *role, int x, float factor)
{
    return factor < 1 || factor > 1
               ? layers_unary(&d->b, role, x, KERN_LINEAR, factor, 0)
               : x;
}

int darknet_shortcut(struct darknet *d, int x)
{
    static const char *const refused[] = {"weights_type",
                                          "weights_normalization", NULL};
    const float alpha = darknet_float(d, "alpha", 1);
    const float beta = darknet_float(d, "beta", 1);
    struct layers_text list = {NULL, 0}, item;
    int y = scaled(d, "alpha", x, alpha);

    darknet_refuse_options(d, refused);
    darknet_option(d, "from", &list);
    if (list.bytes == 0)
        return layers_fail(&d->b, INFER_EFORMAT, "names no layer");
    while (d->b.status == 0 && layers_text_cut(&list, ',', &item)) {
        int other = darknet_layer_value(d, layers_text_trim(item));

        other = shortcut_input(d, x, other);
        y = layers_binary(&d->b, "", KERN_ADD, y,
                          scaled(d, "beta", other, beta));
    }
    return darknet_activation(d, y, "linear");
}

/* The layer that "from" names, times x. */
static int product(struct darknet *d, int x)
{
    struct layers_text from = {NULL, 0};
    int y;

    darknet_option(d, "from", &from);
    y = darknet_layer_value(d, from);
    y = layers_binary(&d->b, "", KERN_MUL, y, darknet_picture(d, x));
    return darknet_activation(d, y, "linear");
}

int darknet_scale_channels(struct darknet *d, int x)
{
    static const char *const refused[] = {"scale_wh", NULL};

    darknet_refuse_options(d, refused);
    return product(d, x);
}

int darknet_sam(struct darknet *d, int x)
{
    return product(d, x);
}

/* ---- shapes -------------------------------------------------------- */

int darknet_upsample(struct darknet *d, int x)
{
    union graph_attr attr = layers_defaults(GRAPH_RESIZE);
    const int stride = darknet_int(d, "stride", 1, DARKNET_MAX_STEP, 2);
    const float factor = darknet_float(d, "scale", 1);

    attr.resize.resize.mode = KERN_NEAREST;
    attr.resize.resize.coord = KERN_ASYMMETRIC;
    attr.resize.resize.nearest = KERN_FLOOR_NEAREST;
    attr.resize.resize.scale[2] = attr.resize.resize.scale[3] = (float)stride;
    x = darknet_picture(d, x);
    x = layers_emit(&d->b, GRAPH_RESIZE, "", &attr, &x, 1);
    return scaled(d, "scale", x, factor);
}

/* Darknet takes the wrong shape for its input: C,H,W is read as if it were
 * C/s^2,H*s,W*s, whose blocks of s x s pixels go into channels, and that is
 * read as C*s^2,H/s,W/s.  In reverse, blocks of channels go into pixels. */
int darknet_reorg(struct darknet *d, int x)
{
    static const char *const refused[] = {"flatten", "extra", NULL};
    const int s = darknet_int(d, "stride", 1, DARKNET_MAX_STEP, 1);
    const bool reverse =
        darknet_int(d, "reverse", INT32_MIN, INT32_MAX, 0) != 0;
    const enum graph_op op =
        reverse ? GRAPH_DEPTH_TO_SPACE : GRAPH_SPACE_TO_DEPTH;
    union graph_attr attr = layers_defaults(op);
    int64_t c, h, w, dim[4] = {0};

    darknet_refuse_options(d, refused);
    x = darknet_picture(d, x);
    c = layers_known(&d->b, x, 1);
    h = layers_known(&d->b, x, 2);
    w = layers_known(&d->b, x, 3);
    if (d->b.status < 0)
        return d->b.status;
    if (s > 4096 || c > INT32_MAX || h > INT32_MAX || w > INT32_MAX ||
        c % (s * s) != 0 || (!reverse && (h % s || w % s)))
        return layers_fail(&d->b, INFER_EUNSUPPORTED,
                           "a stride of %d does not divide %lldx%lldx%lld", s,
                           (long long)c, (long long)h, (long long)w);
    attr.depth_space.block = s;
    if (reverse)
        return layers_emit(&d->b, op, "", &attr, &x, 1);
    dim[1] = c / (s * s);
    dim[2] = h * s;
    dim[3] = w * s;
    x = layers_dims(&d->b, GRAPH_RESHAPE, "wide", x, 4, dim);
    x = layers_emit(&d->b, op, "blocks", &attr, &x, 1);
    dim[1] = c * s * s;
    dim[2] = h / s;
    dim[3] = w / s;
    return layers_dims(&d->b, GRAPH_RESHAPE, "", x, 4, dim);
}

/* The middle of the picture, and 0 .. 1 to -1 .. 1. */
int darknet_crop(struct darknet *d, int x)
{
    static const char *const keys[] = {"crop_height", "crop_width"};
    const bool adjust =
        darknet_int(d, "noadjust", INT32_MIN, INT32_MAX, 0) == 0;
    int i;

    x = darknet_picture(d, x);
    for (i = 0; i < 2; i++) {
        const int64_t size = layers_known(&d->b, x, 2 + i);
        const int n = darknet_int(d, keys[i], 1, DARKNET_MAX_STEP, 1);

        if (d->b.status < 0)
            return d->b.status;
        if (n > size)
            return layers_fail(&d->b, INFER_EFORMAT,
                               "%s=%d of a picture of %lld", keys[i], n,
                               (long long)size);
        x = layers_slice(&d->b, "crop", x, 2 + i, (size - n) / 2,
                         (size - n) / 2 + n, 1);
    }
    return adjust ? layers_unary(&d->b, "adjust", x, KERN_LINEAR, 2, -1) : x;
}

/* ---- the rest ------------------------------------------------------ */

int darknet_dropout(struct darknet *d, int x)
{
    static const char *const refused[] = {"dropblock", NULL};
    union graph_attr attr = layers_defaults(GRAPH_DROPOUT);

    darknet_refuse_options(d, refused);
    attr.dropout.ratio = darknet_float(d, "probability", 0.5f);
    return layers_emit(&d->b, GRAPH_DROPOUT, "", &attr, &x, 1);
}

int darknet_softmax(struct darknet *d, int x)
{
    static const char *const refused[] = {"tree", "spatial", NULL};
    const int groups = darknet_int(d, "groups", 1, INT32_MAX, 1);
    const float temperature = darknet_float(d, "temperature", 1);
    union graph_attr attr = layers_defaults(GRAPH_SOFTMAX);
    int64_t n, dim[3] = {0, groups, -1};

    darknet_refuse_options(d, refused);
    if (!(temperature > 0))
        layers_fail(&d->b, INFER_EFORMAT, "temperature=%g",
                    (double)temperature);
    x = layers_flatten(&d->b, "flat", x);
    n = layers_known(&d->b, x, 1);
    x = scaled(d, "temperature", x, 1 / temperature);
    attr.axis.axis = groups > 1 ? 2 : 1;
    if (groups == 1 || d->b.status < 0)
        return layers_emit(&d->b, GRAPH_SOFTMAX, "", &attr, &x, 1);
    if (n % groups != 0)
        return layers_fail(&d->b, INFER_EFORMAT,
                           "%lld inputs do not divide into %d groups",
                           (long long)n, groups);
    x = layers_dims(&d->b, GRAPH_RESHAPE, "groups", x, 3, dim);
    x = layers_emit(&d->b, GRAPH_SOFTMAX, "", &attr, &x, 1);
    return layers_flatten(&d->b, "out", x);
}

/* The loss is for training. */
int darknet_cost(struct darknet *d, int x)
{
    if (weights_dict_strip(&d->import->dict, d->b.name, 0, "loss") < 0)
        return layers_no_room(&d->b);
    return x;
}

/* Takes the next number of a list "12, 18,  37": false at its end. */
static bool next_number(struct layers_text *list, struct layers_text *out)
{
    const char *p = list->data, *end = p + list->bytes;

    while (p < end && (*p == ',' || *p == ' ' || *p == '\t'))
        p++;
    out->data = p;
    while (p < end && *p != ',' && *p != ' ' && *p != '\t')
        p++;
    out->bytes = (size_t)(p - out->data);
    *list = (struct layers_text){p, (size_t)(end - p)};
    return out->bytes > 0;
}

/* Appends "SCALE*W,H,W,H" of a yolo section to the task: its anchors, pixels of
 * the network's input. */
static bool add_anchors(struct darknet *d)
{
    const float scale = darknet_float(d, "scale_x_y", 1);
    struct layers_text mask, anchors, number, all;
    char *at = d->task + strlen(d->task);
    const char *end = d->task + sizeof(d->task);

    if (!darknet_option(d, "anchors", &anchors))
        return false;
    if (!darknet_option(d, "mask", &mask))
        return false;
    at += snprintf(at, (size_t)(end - at), "%s%.9g*",
                   d->task[0] ? "/" : "detect:darknet:", scale);
    while (next_number(&mask, &number)) {
        int64_t which, i = 0;
        float side[2];

        if (!layers_text_int(number, 0, 1000, &which))
            return false;
        all = anchors;
        for (; next_number(&all, &number) && i < 2 * which + 2; i++)
            if (i >= 2 * which &&
                !layers_text_float(number, &side[i - 2 * which]))
                return false;
        if (i < 2 * which + 2 || at >= end)
            return false;
        at += snprintf(at, (size_t)(end - at), "%s%.9g,%.9g",
                       at[-1] == '*' ? "" : ",", side[0], side[1]);
    }
    return at < end && at[-1] != '*';
}

int darknet_head(struct darknet *d, int x)
{
    struct layers_text option;

    if (weights_dict_strip(&d->import->dict, d->b.name, 0,
                           "its input is an output; the model's task says how "
                           "boxes are decoded") < 0)
        return layers_no_room(&d->b);
    d->other_heads =
        d->other_heads || !layers_text_is(d->section->type, "yolo") ||
        darknet_option(d, "new_coords", &option) || !add_anchors(d);
    d->head[d->n_heads++] = x;
    return -1;
}
