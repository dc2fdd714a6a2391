/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loop reads, told by the way from its Resize and its divisions back to
 * the tensors outside.  This is a guess, which loop.c tries on numbers.
 */
#include <string.h>

#include "weights/onnx/regions/regions.h"

#define MAX_NODES 512
#define MAX_STEPS 64

struct body {
    struct onnx_node node[MAX_NODES];
    int n;
    struct pb_span iteration;
};

static bool same(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static bool is(const struct onnx_node *n, const char *op)
{
    return strcmp(n->op, op) == 0;
}

/* The node that makes a tensor, NULL for one from outside. */
static const struct onnx_node *maker(const struct body *b, struct pb_span name)
{
    for (int i = 0; i < b->n && name.bytes > 0; i++)
        for (int k = 0; k < b->node[i].n_out; k++)
            if (same(b->node[i].out[k], name))
                return &b->node[i];
    return NULL;
}

static bool picks_iteration(const struct body *b, const struct onnx_node *n)
{
    const struct onnx_node *m;
    struct pb_span at;

    if (!is(n, "Gather") || n->n_in != 2)
        return false;
    at = n->in[1];
    for (int step = 0; step < MAX_STEPS; step++) {
        m = maker(b, at);
        if (!m || m->n_in < 1 ||
            !(is(m, "Cast") || is(m, "Identity") || is(m, "Unsqueeze")))
            break;
        at = m->in[0];
    }
    return same(at, b->iteration) && !maker(b, n->in[0]);
}

/* The tensor outside, whose entry of this iteration reaches `name` through
 * operators that move elements or cast them; empty where it is not so. */
static struct pb_span origin(const struct body *b, struct pb_span name)
{
    static const char *const moves[] = {"Cast",    "Identity", "Unsqueeze",
                                        "Squeeze", "Slice",    "Gather",
                                        "Expand",  "Reshape"};

    for (int step = 0; step < MAX_STEPS; step++) {
        const struct onnx_node *n = maker(b, name);
        bool passes = false;

        if (!n || n->n_in < 1)
            break;
        if (picks_iteration(b, n))
            return n->in[0];
        for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++)
            passes = passes || is(n, moves[i]);
        if (!passes)
            break;
        name = n->in[0];
    }
    return (struct pb_span){NULL, 0};
}

static const struct onnx_node *only(const struct body *b, const char *op)
{
    const struct onnx_node *found = NULL;

    for (int i = 0; i < b->n; i++) {
        if (!is(&b->node[i], op))
            continue;
        if (found)
            return NULL;
        found = &b->node[i];
    }
    return found;
}

/* The last two of the numbers that are joined to a list of sizes. */
static void last_two(const struct body *b, struct pb_span list,
                     struct pb_span out[2])
{
    for (int step = 0; step < MAX_STEPS; step++) {
        const struct onnx_node *n = maker(b, list);

        if (!n || n->n_in < 1)
            return;
        if (is(n, "Concat")) {
            const struct onnx_node *last = maker(b, n->in[n->n_in - 1]);

            for (int k = 0;
                 k < MAX_STEPS && last && is(last, "Cast") && last->n_in == 1;
                 k++)
                last = maker(b, last->in[0]);
            if (last && is(last, "Concat"))
                n = last;
            if (n->n_in >= 2) {
                out[0] = origin(b, n->in[n->n_in - 2]);
                out[1] = origin(b, n->in[n->n_in - 1]);
            }
            return;
        }
        if (!is(n, "Cast") && !is(n, "Identity"))
            return;
        list = n->in[0];
    }
}

static enum region_kind match_masks(const struct body *b,
                                    const struct onnx_node *resize,
                                    struct region_loop *out)
{
    out->inputs = 2;
    out->input[REGION_MAPS] = origin(b, resize->in[0]);
    for (int i = 0; i < b->n; i++) {
        const struct onnx_node *n = &b->node[i];

        if (!picks_iteration(b, n) || same(n->in[0], out->input[REGION_MAPS]))
            continue;
        if (out->input[REGION_BOXES].bytes > 0 &&
            !same(n->in[0], out->input[REGION_BOXES]))
            return REGION_NONE;
        out->input[REGION_BOXES] = n->in[0];
    }
    return REGION_MASKS;
}

static enum region_kind match_keypoints(const struct body *b,
                                        const struct onnx_node *resize,
                                        struct region_loop *out)
{
    struct pb_span size[2] = {{NULL, 0}, {NULL, 0}};
    int others = 0;

    out->inputs = REGION_INPUTS;
    out->input[REGION_MAPS] = origin(b, resize->in[0]);
    last_two(b, resize->in[3], size);
    out->input[REGION_ROWS] = size[0];
    out->input[REGION_COLUMNS] = size[1];
    for (int i = 0; i < b->n; i++) {
        const struct onnx_node *n = &b->node[i];

        if (!is(n, "Div") || n->n_in != 2)
            continue;
        for (int k = 0; k < 2; k++)
            if (size[k].bytes > 0 && same(origin(b, n->in[1]), size[k]))
                out->input[REGION_HEIGHT + k] = origin(b, n->in[0]);
    }
    for (int i = 0; i < b->n; i++) {
        const struct onnx_node *n = &b->node[i];
        bool known = !picks_iteration(b, n);

        for (int k = 0; k < REGION_X; k++)
            known = known || same(n->in[0], out->input[k]);
        if (known)
            continue;
        if (others == 2)
            return REGION_NONE;
        out->input[REGION_X + others++] = n->in[0];
    }
    return REGION_KEYPOINTS;
}

static int parse(struct onnx_import *im, const struct onnx_graph *body,
                 struct body *b)
{
    struct infer_error err;
    struct onnx_value_info info;

    if (!im->model || im->scope || body->input.count < 3 ||
        body->node.count > MAX_NODES ||
        onnx_value_info_parse(im->model, body->input.item[0], &err, &info) < 0)
        return INFER_EUNSUPPORTED;
    b->iteration = info.name;
    for (b->n = 0; b->n < (int)body->node.count; b->n++) {
        const int rc = onnx_node_parse(im->model, body->node.item[b->n],
                                       &im->scratch, &err, &b->node[b->n]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int region_match(struct onnx_import *im, const struct onnx_graph *body,
                 struct region_loop *out)
{
    struct body *b = onnx_alloc(&im->scratch, sizeof *b);
    const struct onnx_node *resize;
    enum region_kind kind = REGION_NONE;
    int rc;

    memset(out, 0, sizeof *out);
    if (!b)
        return onnx_no_memory(im);
    rc = parse(im, body, b);
    if (rc == INFER_EMEMORY)
        return onnx_no_memory(im);
    resize = rc < 0 ? NULL : only(b, "Resize");
    if (!resize || resize->n_in < 4)
        return 0;
    if (body->input.count == 3 && body->output.count == 2 && !only(b, "ArgMax"))
        kind = match_masks(b, resize, out);
    else if (body->input.count == 4 && body->output.count == 3 &&
             only(b, "ArgMax"))
        kind = match_keypoints(b, resize, out);
    for (int i = 0; i < out->inputs; i++)
        if (out->input[i].bytes == 0)
            kind = REGION_NONE;
    out->kind = kind;
    return 0;
}
