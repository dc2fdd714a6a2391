/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: TFLite_Detection_PostProcess, the custom operator at the end
 * of SSD networks: boxes from offsets to anchors, the best class of each, and
 * non-maximum suppression over all classes together.
 *
 * Its options are a FlexBuffer: a map from names to numbers.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/tflite/tflite.h"

/* ---- the options --------------------------------------------------- */

/* Little-endian unsigned integer of 1, 2, 4 or 8 bytes inside the data. */
static bool read_uint(const unsigned char *data, size_t bytes, size_t at,
                      size_t width, uint64_t *out)
{
    if (at > bytes || width > bytes - at)
        return false;
    *out = 0;
    for (size_t i = 0; i < width; i++)
        *out |= (uint64_t)data[at + i] << 8 * i;
    return true;
}

/* The place that an offset at `at`, which points back, leads to. */
static bool follow_back(const unsigned char *data, size_t bytes, size_t at,
                        size_t width, size_t *out)
{
    uint64_t offset;

    if (!read_uint(data, bytes, at, width, &offset) || offset > at)
        return false;
    *out = at - (size_t)offset;
    return true;
}

/* Types of values that stand in a map itself. */
enum { FLEX_INT = 1, FLEX_UINT = 2, FLEX_FLOAT = 3, FLEX_MAP = 9 };
enum { FLEX_BOOL = 26 };

static bool read_number(const unsigned char *data, size_t bytes, size_t at,
                        size_t width, int type, double *out)
{
    uint64_t bits;
    uint32_t low;
    float single;

    if (!read_uint(data, bytes, at, width, &bits))
        return false;
    switch (type) {
    case FLEX_INT:
        *out =
            (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
        return true;
    case FLEX_UINT:
    case FLEX_BOOL:
        *out = (double)bits;
        return true;
    case FLEX_FLOAT:
        low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        *out = (double)single;
        if (width == 8)
            memcpy(out, &bits, sizeof *out);
        return width >= 4;
    default:
        return false;
    }
}

/* Where the values and keys of a map lie. */
struct flex_map {
    const unsigned char *data;
    size_t bytes, at, width, keys, key_width, count;
};

static bool open_map(const struct fb_vector *v, struct flex_map *m)
{
    uint64_t count, key_width;
    size_t root, width;

    *m = (struct flex_map){.data = fb_list_data(v), .bytes = v->count};
    if (v->count < 3)
        return false;
    width = m->data[v->count - 1];
    if (width > 8 || width + 2 > v->count ||
        m->data[v->count - 2] >> 2 != FLEX_MAP)
        return false;
    m->width = (size_t)1 << (m->data[v->count - 2] & 3);
    root = v->count - 2 - width;
    if (!follow_back(m->data, m->bytes, root, width, &m->at) ||
        m->at < 3 * m->width ||
        !follow_back(m->data, m->bytes, m->at - 3 * m->width, m->width,
                     &m->keys) ||
        !read_uint(m->data, m->bytes, m->at - 2 * m->width, m->width,
                   &key_width) ||
        !read_uint(m->data, m->bytes, m->at - m->width, m->width, &count))
        return false;
    m->key_width = (size_t)key_width;
    m->count = (size_t)count;
    return key_width >= 1 && key_width <= 8 && count <= 256;
}

/* The number of a name; false where the map does not have it. */
static bool find_number(const struct flex_map *m, const char *name, double *out)
{
    const size_t n = strlen(name) + 1;

    for (size_t i = 0; i < m->count; i++) {
        const size_t types = m->at + m->count * m->width + i;
        size_t key;

        if (!follow_back(m->data, m->bytes, m->keys + i * m->key_width,
                         m->key_width, &key) ||
            key > m->bytes || n > m->bytes - key ||
            memcmp(m->data + key, name, n) != 0)
            continue;
        return types < m->bytes &&
               read_number(m->data, m->bytes, m->at + i * m->width, m->width,
                           m->data[types] >> 2, out);
    }
    return false;
}

struct options {
    double detections, per_box, classes, iou, score, scale[4], regular;
};

static bool read_options(struct tflite_import *im, struct options *o)
{
    const struct {
        const char *name;
        double *to, low, high;
    } wanted[] = {{"max_detections", &o->detections, 1, 65536},
                  {"max_classes_per_detection", &o->per_box, 1, 65536},
                  {"num_classes", &o->classes, 1, 65536},
                  {"nms_iou_threshold", &o->iou, 0, 1},
                  {"nms_score_threshold", &o->score, -1e30, 1e30},
                  {"y_scale", &o->scale[0], 1e-30, 1e30},
                  {"x_scale", &o->scale[1], 1e-30, 1e30},
                  {"h_scale", &o->scale[2], 1e-30, 1e30},
                  {"w_scale", &o->scale[3], 1e-30, 1e30},
                  {"use_regular_nms", &o->regular, 0, 1}};
    struct flex_map m;

    *o = (struct options){.per_box = 1};
    if (!open_map(&im->op.custom_options, &m)) {
        tflite_fail(im, INFER_EFORMAT, "its options cannot be read");
        return false;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const bool found = find_number(&m, wanted[i].name, wanted[i].to);

        if ((!found && strcmp(wanted[i].name, "use_regular_nms") != 0) ||
            !(*wanted[i].to >= wanted[i].low &&
              *wanted[i].to <= wanted[i].high))
            tflite_fail(im, INFER_EFORMAT, "option %s is missing or wrong",
                        wanted[i].name);
    }
    if (im->status == 0 && o->regular != 0)
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "non-maximum suppression class by class "
                    "(use_regular_nms)");
    return im->status == 0;
}

/* ---- boxes --------------------------------------------------------- */

static int scaled(struct tflite_import *im, int x, double a)
{
    return tflite_unary(im, x, KERN_LINEAR, (float)a, 0);
}

/* Corners y,x,y,x (1,A,4) of offsets (1,A,4) to anchors y,x,h,w (A,4). */
static int decode(struct tflite_import *im, int offsets, int anchors,
                  const double *scale)
{
    int corner[4];

    for (int d = 0; d < 2; d++) {
        const int side = tflite_slice(im, anchors, 1, 2 + d, 3 + d);
        int middle, half;

        middle =
            scaled(im, tflite_slice(im, offsets, 2, d, d + 1), 1 / scale[d]);
        middle = tflite_binary(im, KERN_MUL, middle, side);
        middle = tflite_binary(im, KERN_ADD, middle,
                               tflite_slice(im, anchors, 1, d, d + 1));
        half = scaled(im, tflite_slice(im, offsets, 2, 2 + d, 3 + d),
                      1 / scale[2 + d]);
        half = tflite_plain_unary(im, half, KERN_EXP);
        half = scaled(im, tflite_binary(im, KERN_MUL, half, side), 0.5);
        corner[d] = tflite_binary(im, KERN_SUB, middle, half);
        corner[2 + d] = tflite_binary(im, KERN_ADD, middle, half);
    }
    return tflite_concat(im, corner, 4, 2);
}

/* Rows of x (1,A,..) by indices (K). */
static int rows(struct tflite_import *im, int x, int at)
{
    const int in[2] = {x, at};
    union graph_attr attr;

    tflite_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = 1;
    return tflite_emit(im, GRAPH_GATHER, &attr, in, 2);
}

/* ---- choice -------------------------------------------------------- */

/* The largest of each row (1,A,C), as 1,1,A. */
static int best_scores(struct tflite_import *im, int scores)
{
    static const int64_t axis = 1;
    union graph_attr attr;

    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_MAX;
    attr.reduce.n_axes = 1;
    attr.reduce.axis[0] = 2;
    return tflite_dims(im, GRAPH_UNSQUEEZE,
                       tflite_emit(im, GRAPH_REDUCE, &attr, &scores, 1), 1,
                       &axis);
}

/* Indices (K) of the boxes that are kept, 0 behind them, and in *valid (1,K,1)
 * 1 for each. */
static int kept(struct tflite_import *im, int boxes, int scores,
                const struct options *o, int *valid)
{
    const int64_t line = -1, column[3] = {1, -1, 1};
    int in[2] = {boxes, best_scores(im, scores)}, at;
    union graph_attr attr;

    tflite_defaults(GRAPH_NMS, &attr);
    attr.nms.most = (int)o->detections;
    attr.nms.iou = (float)o->iou;
    /* A score that is the threshold is high enough. */
    attr.nms.score = nextafterf((float)o->score, -FLT_MAX);
    at = tflite_emit(im, GRAPH_NMS, &attr, in, 2);
    at =
        tflite_dims(im, GRAPH_RESHAPE, tflite_slice(im, at, 1, 2, 3), 1, &line);
    at = tflite_cast(im, at, INFER_F32);
    *valid = tflite_binary(im, KERN_GREATER_EQUAL, at, tflite_scalar(im, 0));
    *valid = tflite_dims(im, GRAPH_RESHAPE, tflite_cast(im, *valid, INFER_F32),
                         3, column);
    return tflite_cast(im, tflite_unary(im, at, KERN_CLIP, 0, INFINITY),
                       INFER_I64);
}

/* The output with zeros up to n entries of dimension 1. */
static void give(struct tflite_import *im, int output, int x, int64_t n,
                 int rank, const int64_t *dim)
{
    union graph_attr attr;
    int64_t have;

    x = tflite_dims(im, GRAPH_RESHAPE, x, rank, dim);
    if (im->status < 0)
        return;
    have = tflite_value_type(im, x, 0)->dim[1];
    if (have < n) {
        tflite_defaults(GRAPH_PAD, &attr);
        attr.pad.end[1] = (int)(n - have);
        x = tflite_emit(im, GRAPH_PAD, &attr, &x, 1);
    }
    tflite_out(im, output, x, false);
}

/* Outputs: boxes (1,N,4), classes, scores (1,N) and how many there are (1). */
static void detections(struct tflite_import *im, const struct options *o,
                       int boxes, int scores)
{
    const int64_t line[2] = {1, -1}, quad[3] = {1, -1, 4}, one = 1;
    const int64_t k =
        (int64_t)(o->per_box < o->classes ? o->per_box : o->classes);
    const int64_t n = (int64_t)(o->detections * o->per_box);
    const int64_t times[3] = {1, 1, k};
    int valid, at = kept(im, boxes, scores, o, &valid), in[2], x;
    union graph_attr attr;

    boxes = tflite_binary(im, KERN_MUL, rows(im, boxes, at), valid);
    give(im, 0, tflite_dims(im, GRAPH_TILE, boxes, 3, times), n, 3, quad);
    in[0] = rows(im, scores, at);
    tflite_defaults(GRAPH_TOP_K, &attr);
    attr.top_k.k = (int)k;
    in[1] = tflite_emit(im, GRAPH_TOP_K, &attr, in, 1);
    tflite_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = 2;
    x = tflite_emit(im, GRAPH_GATHER_ELEMENTS, &attr, in, 2);
    give(im, 2, tflite_binary(im, KERN_MUL, x, valid), n, 2, line);
    x = tflite_cast(im, in[1], INFER_F32);
    give(im, 1, tflite_binary(im, KERN_MUL, x, valid), n, 2, line);
    tflite_defaults(GRAPH_REDUCE, &attr);
    attr.reduce.kind = KERN_REDUCE_SUM;
    x = tflite_emit(im, GRAPH_REDUCE, &attr, &valid, 1);
    x = scaled(im, tflite_dims(im, GRAPH_RESHAPE, x, 1, &one), (double)k);
    tflite_out(im, 3, x, false);
}

static void post_process(struct tflite_import *im, int param)
{
    struct graph_type boxes, scores, anchors;
    struct options o;
    int x;

    (void)param;
    if (!tflite_arity(im, 3, 3) || !read_options(im, &o))
        return;
    boxes = tflite_type(im, 0, 0);
    scores = tflite_type(im, 1, 0);
    anchors = tflite_type(im, 2, 0);
    if (im->probes > 1 && tflite_type(im, 0, 1).dim[0] != boxes.dim[0]) {
        tflite_fail(im, INFER_EUNSUPPORTED, "more than one picture");
        return;
    }
    if (im->op.n_out != 4 || boxes.rank != 3 || boxes.dim[0] != 1 ||
        boxes.dim[2] != 4 || scores.rank != 3 || scores.dim[0] != 1 ||
        scores.dim[1] != boxes.dim[1] || anchors.rank != 2 ||
        anchors.dim[0] != boxes.dim[1] || anchors.dim[1] != 4 ||
        scores.dim[2] < (int64_t)o.classes) {
        tflite_fail(im, INFER_EFORMAT,
                    "boxes, scores and anchors that do not fit");
        return;
    }
    /* What lies before the classes is the background. */
    x = tflite_in(im, 1, false);
    if (scores.dim[2] > (int64_t)o.classes)
        x = tflite_slice(im, x, 2, scores.dim[2] - (int64_t)o.classes,
                         scores.dim[2]);
    detections(
        im, &o,
        decode(im, tflite_in(im, 0, false), tflite_in(im, 2, false), o.scale),
        x);
}

/* ---- by name ------------------------------------------------------- */

void tflite_import_custom(struct tflite_import *im, int param)
{
    static const struct {
        const char *name;
        tflite_op_fn *import;
    } known[] = {
        {"TFLite_Detection_PostProcess", post_process},
        {"Convolution2DTransposeBias", tflite_import_transposed_bias},
    };
    const struct fb_vector *name = &im->op.custom;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (name->count == strlen(known[i].name) &&
            memcmp(fb_list_data(name), known[i].name, name->count) == 0) {
            known[i].import(im, param);
            return;
        }
    tflite_fail(im, INFER_EUNSUPPORTED, "the operator is not supported");
}
