/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop over boxes in place of which all boxes are computed at once.
 *
 * What a body looks like (match.c) proves nothing.  So the body is imported on
 * constants first, for a few boxes, and its results, which are folded, are
 * compared with those of the same boxes by compute.c.  A loop whose results
 * differ is left to be unrolled.
 */
#include <math.h>
#include <string.h>

#include "weights/onnx/counted/counted.h"
#include "weights/onnx/regions/regions.h"

#define TRIALS 4
/* Of the largest element. */
#define TOLERANCE 1e-4

struct trial {
    const struct onnx_graph *body;
    struct pb_span condition; /* true */
    const struct region_loop *loop;
    struct constant *in[REGION_INPUTS];
    int value[REGION_INPUTS]; /* these constants in the graph */
    int64_t height, width;    /* of masks */
};

/* ---- inputs -------------------------------------------------------- */

static void fill(struct constant *c, unsigned seed)
{
    float *data = (float *)(void *)c->data;

    for (int64_t i = 0; i < constant_count(c); i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
}

/* One box: its part of the maps, of their shape. */
static int make_maps(struct onnx_import *im, struct trial *t, int k)
{
    struct graph_type type;
    struct constant *c;

    if (onnx_named_type(im, t->loop->input[REGION_MAPS], 0, &type) < 0)
        return im->rc;
    type.dim[0] = 1;
    if (onnx_new_constant(im, INFER_F32, type.rank, type.dim, &c) < 0)
        return im->rc;
    fill(c, 77u + (unsigned)k);
    t->in[REGION_MAPS] = c;
    return 0;
}

/* Boxes inside of a picture, over its edges, and of one pixel. */
static int make_box(struct onnx_import *im, struct trial *t, int k)
{
    const int64_t h = t->height, w = t->width, dim[2] = {1, 4};
    const int64_t box[TRIALS][4] = {{1, 2, 8, 6},
                                    {-3, -2, 5, 9},
                                    {w - 5, h - 4, w + 2, h + 3},
                                    {w / 2, h / 2, w / 2, h / 2}};
    struct constant *c;

    if (onnx_new_constant(im, INFER_I64, 2, dim, &c) < 0)
        return im->rc;
    memcpy(c->data, box[k], sizeof box[k]);
    t->in[REGION_BOXES] = c;
    return 0;
}

static int make_numbers(struct onnx_import *im, struct trial *t, int k)
{
    static const float number[TRIALS][REGION_INPUTS - REGION_ROWS] = {
        {7, 11, 6.625f, 10.25f, 3.25f, -1.5f},
        {61, 5, 60.5f, 4.75f, 0, 17.25f},
        {1, 1, 1, 1, 40.5f, 2.125f},
        {9, 70, 8.25f, 69.5f, -2.75f, 0.5f}};
    const int64_t one = 1;

    for (int i = REGION_ROWS; i < REGION_INPUTS && im->rc == 0; i++)
        if (onnx_new_constant(im, INFER_F32, 1, &one, &t->in[i]) == 0)
            memcpy(t->in[i]->data, &number[k][i - REGION_ROWS], sizeof(float));
    return im->rc;
}

/* ---- results ------------------------------------------------------- */

static struct constant *evaluate(struct onnx_import *im, int value)
{
    struct onnx_value v = {.state = ONNX_GRAPH, .graph = value};

    if (im->rc == 0 && value >= 0)
        onnx_value_evaluate(im, &v);
    return v.constant;
}

/* A new reference to what a tensor is, NULL where it is not known. */
static struct constant *result_of(struct onnx_import *im, struct pb_span name)
{
    const int v = onnx_value_find(im, name);
    int g;

    if (v < 0 || im->rc < 0 || onnx_value_graph(im, v, &g) < 0)
        return NULL;
    if (onnx_fill(im, im->g->value[g].data) < 0)
        return NULL;
    if (im->g->value[g].data)
        return constant_ref(im->g->value[g].data);
    return evaluate(im, g);
}

/* The tensors outside are these constants while the body is imported for box
 * 0. */
static int run_body(struct onnx_import *im, const struct trial *t,
                    struct constant **out)
{
    const int states = im->node->n_in - 2;
    const int64_t zero = 0;
    struct onnx_value kept[REGION_INPUTS];
    struct pb_span arg[4], result[3];
    int v[REGION_INPUTS];

    arg[0] = onnx_step_ints(im, 0, 1, &zero);
    arg[1] = t->condition;
    for (int i = 0; i < states; i++)
        arg[2 + i] = im->node->in[2 + i];
    if (im->rc < 0)
        return im->rc;
    for (int i = 0; i < t->loop->inputs; i++) {
        v[i] = onnx_value_find(im, t->loop->input[i]);
        kept[i] = im->value[v[i]];
        im->value[v[i]] =
            (struct onnx_value){.name = kept[i].name,
                                .state = ONNX_GRAPH,
                                .graph = t->value[i],
                                .constant = constant_ref(t->in[i])};
    }
    onnx_import_body(im, t->body, arg, 2 + states, result, 1 + states);
    for (int i = t->loop->inputs - 1; i >= 0; i--) {
        constant_unref(im->value[v[i]].constant);
        im->value[v[i]] = kept[i];
    }
    for (int i = 0; i < states && im->rc == 0 && !im->skip; i++)
        out[i] = result_of(im, result[1 + i]);
    return im->rc;
}

/* The same by compute.c. */
static int run_all(struct onnx_import *im, const struct region_loop *l,
                   const int *in, int64_t height, int64_t width, int out[2])
{
    out[1] = -1;
    out[0] = l->kind == REGION_MASKS ? region_masks(im, in, height, width)
                                     : region_keypoints(im, in, &out[1]);
    return im->rc;
}

static bool equal(const struct constant *a, const struct constant *b)
{
    const float *x, *y;
    double top = 1;

    if (!a || !b || a->dtype != INFER_F32 || b->dtype != INFER_F32 ||
        a->rank != b->rank ||
        memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) != 0)
        return false;
    x = (const float *)(const void *)a->data;
    y = (const float *)(const void *)b->data;
    for (int64_t i = 0; i < constant_count(a); i++)
        top = fmax(top, fabs((double)x[i]));
    for (int64_t i = 0; i < constant_count(a); i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= TOLERANCE * top))
            return false;
    return true;
}

/* ---- trials -------------------------------------------------------- */

static int try_one(struct onnx_import *im, struct trial *t, int k, bool *same)
{
    const bool masks = t->loop->kind == REGION_MASKS;
    struct constant *want[2] = {NULL, NULL}, *got[2] = {NULL, NULL};
    int out[2];

    memset(t->in, 0, sizeof t->in);
    make_maps(im, t, k);
    if (masks)
        make_box(im, t, k);
    else
        make_numbers(im, t, k);
    for (int i = 0; i < t->loop->inputs && im->rc == 0; i++)
        onnx_add_constant(im, constant_ref(t->in[i]), &t->value[i]);
    if (im->rc == 0)
        run_body(im, t, want);
    *same = false;
    if (im->rc == 0 && want[0] &&
        (masks ? want[0]->rank == 3 : want[1] != NULL)) {
        if (masks) {
            t->height = want[0]->dim[1];
            t->width = want[0]->dim[2];
        }
        run_all(im, t->loop, t->value, t->height, t->width, out);
        for (int i = 0; i < (masks ? 1 : 2) && im->rc == 0; i++)
            got[i] = evaluate(im, out[i]);
        *same = equal(want[0], got[0]) && (masks || equal(want[1], got[1]));
    }
    for (int i = 0; i < 2; i++) {
        constant_unref(want[i]);
        constant_unref(got[i]);
    }
    for (int i = 0; i < REGION_INPUTS; i++)
        constant_unref(t->in[i]);
    return im->rc;
}

/* Whether the inputs are such tensors, of `most` entries each. */
static bool fits(struct onnx_import *im, const struct region_loop *l,
                 int64_t most)
{
    for (int i = 0; i < l->inputs && im->rc == 0; i++) {
        const bool boxes = l->kind == REGION_MASKS && i == REGION_BOXES;
        const int v = onnx_value_find(im, l->input[i]);
        const int rank = i == REGION_MAPS ? 4 : boxes ? 2 : 1;
        struct graph_type t;

        if (v < 0)
            return false;
        t = onnx_type_named(im, l->input[i], 0);
        if ((im->value[v].count > 0 && im->value[v].axis != 0) ||
            t.rank != rank || t.dim[0] != most || (boxes && t.dim[1] != 4) ||
            (rank == 4 && l->kind == REGION_MASKS && t.dim[1] != 1) ||
            t.dtype != (boxes ? INFER_I64 : INFER_F32) || im->probes != 1)
            return false;
    }
    return im->rc == 0;
}

static bool begins_empty(struct onnx_import *im)
{
    for (int i = 2; i < im->node->n_in; i++) {
        const struct graph_type t = onnx_type_of_input(im, i, 0);

        if (t.rank < 1 || t.dim[0] != 0)
            return false;
    }
    return true;
}

int onnx_import_region_loop(struct onnx_import *im,
                            const struct onnx_graph *body,
                            struct pb_span condition, int64_t most)
{
    struct region_loop l;
    struct trial t = {.body = body, .condition = condition, .loop = &l};
    const int trips = onnx_value_find(im, im->node->in[0]);
    int in[REGION_INPUTS], out[2], count;
    bool same = true;

    if (region_match(im, body, &l) < 0)
        return im->rc;
    if (l.kind == REGION_NONE || most < 1 || !begins_empty(im) ||
        !fits(im, &l, most))
        return im->rc;
    for (int k = 0; k < TRIALS && same; k++)
        if (try_one(im, &t, k, &same) < 0)
            return im->rc;
    if (!same || im->skip)
        return im->rc;
    for (int i = 0; i < l.inputs; i++) {
        const int v = onnx_value_find(im, l.input[i]);

        onnx_value_graph(im, v, &in[i]);
    }
    if (im->rc < 0 || run_all(im, &l, in, t.height, t.width, out) < 0)
        return im->rc;
    count = im->value[onnx_value_find(im, l.input[REGION_MAPS])].count;
    if (count == 0 && trips >= 0 && im->value[trips].sized)
        count = im->value[trips].sized->count + 1;
    for (int i = 0; i < im->node->n_out && i < im->node->n_in - 2; i++) {
        if (!onnx_has_output(im, i))
            continue;
        compose_output(im, i, out[i]);
        if (count > 0)
            onnx_set_counted(im, i, 0, count - 1);
    }
    return im->rc < 0 ? im->rc : 1;
}
