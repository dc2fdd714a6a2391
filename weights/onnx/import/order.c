/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a file's nodes.  ONNX wants producers first; some writers do not
 * keep to that, and ONNX Runtime sorts.
 */
#include <stdlib.h>
#include <string.h>

#include "weights/onnx/onnx.h"

/* Graphs within graphs that are looked into. */
#define MAX_DEPTH 16

/* The nodes that node i reads from: need[first[i]] .. need[first[i + 1] - 1].
 */
struct needs {
    int *producer; /* of each value: a node, or -1 */
    size_t *first;
    uint32_t *need;
    size_t n, capacity;
};

static bool add_need(struct needs *needs, int node)
{
    if (needs->n == needs->capacity) {
        const size_t capacity = needs->capacity ? 2 * needs->capacity : 256;
        uint32_t *grown = realloc(needs->need, capacity * sizeof *grown);

        if (!grown)
            return false;
        needs->need = grown;
        needs->capacity = capacity;
    }
    needs->need[needs->n++] = (uint32_t)node;
    return true;
}

/* Calls for each name that a node reads, in graphs within it, too.  A malformed
 * node ends the walk: the importer says what is wrong with it. */
static bool read_names(struct onnx_import *im, struct pb_span node, int depth,
                       struct needs *needs)
{
    struct pb_reader r = onnx_reader(im->model, node);
    struct pb_field f;

    while (pb_next(&r, &f, NULL) > 0) {
        if (f.wire != PB_BYTES)
            continue;
        if (f.number == 1) { /* NodeProto.input */
            const int v = onnx_value_find(im, f.span);

            if (v >= 0 && needs->producer[v] >= 0 &&
                !add_need(needs, needs->producer[v]))
                return false;
        } else if (f.number == 5 && depth < MAX_DEPTH) { /* attribute */
            struct pb_reader a = onnx_reader(im->model, f.span);
            struct pb_field graph, inner;

            while (pb_next(&a, &graph, NULL) > 0) {
                struct pb_reader g;

                if (graph.number != 6 || graph.wire != PB_BYTES)
                    continue;
                g = onnx_reader(im->model, graph.span);
                while (pb_next(&g, &inner, NULL) > 0)
                    if (inner.number == 1 && inner.wire == PB_BYTES &&
                        !read_names(im, inner.span, depth + 1, needs))
                        return false;
            }
        }
    }
    return true;
}

/* Names of what nodes produce become values; producer[] says by which. */
static int find_producers(struct onnx_import *im, const struct onnx_list *list,
                          struct needs *needs)
{
    int v;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < list->count; i++) {
            struct pb_reader r = onnx_reader(im->model, list->item[i]);
            struct pb_field f;

            while (pb_next(&r, &f, NULL) > 0) {
                if (f.number != 2 || f.wire != PB_BYTES || f.span.bytes == 0)
                    continue;
                if (onnx_value_get(im, f.span, &v) < 0)
                    return im->rc;
                if (pass == 1 && needs->producer[v] < 0)
                    needs->producer[v] = (int)i;
            }
        }
        if (pass == 1)
            break;
        needs->producer =
            malloc(((size_t)im->n_values + 1) * sizeof *needs->producer);
        if (!needs->producer)
            return onnx_no_memory(im);
        for (v = 0; v < im->n_values; v++)
            needs->producer[v] = -1;
    }
    return 0;
}

/* Nodes in an order that has producers first, and else the file's: those that a
 * node needs are put before it, depth first. */
static bool sort(const struct needs *needs, size_t n, uint32_t *order)
{
    uint32_t *stack = malloc((n + 1) * sizeof *stack);
    size_t *at = malloc((n + 1) * sizeof *at), placed = 0;
    unsigned char *seen = calloc(n + 1, 1);
    const bool room = stack && at && seen;

    for (size_t i = 0; room && i < n; i++) {
        size_t depth = 0;

        if (seen[i])
            continue;
        seen[i] = 1;
        at[i] = needs->first[i];
        stack[depth++] = (uint32_t)i;
        while (depth > 0) {
            const uint32_t top = stack[depth - 1];

            if (at[top] == needs->first[top + 1]) {
                order[placed++] = top;
                depth--;
            } else {
                const uint32_t next = needs->need[at[top]++];

                if (!seen[next]) { /* a cycle is found by the importer */
                    seen[next] = 1;
                    at[next] = needs->first[next];
                    stack[depth++] = next;
                }
            }
        }
    }
    free(stack);
    free(at);
    free(seen);
    return room;
}

static int reorder(struct onnx_import *im, struct onnx_list *list,
                   const struct needs *needs)
{
    const size_t n = list->count;
    uint32_t *order = malloc((n + 1) * sizeof *order);
    struct pb_span *item = malloc((n + 1) * sizeof *item);
    const bool sorted = order && item && sort(needs, n, order);

    for (size_t i = 0; sorted && i < n; i++)
        item[i] = list->item[order[i]];
    if (sorted)
        memcpy(list->item, item, n * sizeof *item);
    free(order);
    free(item);
    return sorted ? 0 : onnx_no_memory(im);
}

int onnx_order_nodes(struct onnx_import *im, struct onnx_list *list)
{
    struct needs needs = {NULL, NULL, NULL, 0, 0};
    bool ordered = true;

    if (find_producers(im, list, &needs) < 0)
        goto done;
    needs.first = malloc((list->count + 1) * sizeof *needs.first);
    if (!needs.first) {
        onnx_no_memory(im);
        goto done;
    }
    for (size_t i = 0; i < list->count; i++) {
        needs.first[i] = needs.n;
        if (!read_names(im, list->item[i], 0, &needs)) {
            onnx_no_memory(im);
            goto done;
        }
        for (size_t k = needs.first[i]; k < needs.n; k++)
            ordered = ordered && needs.need[k] < i;
    }
    needs.first[list->count] = needs.n;
    if (!ordered)
        reorder(im, list, &needs);
done:
    free(needs.producer);
    free(needs.first);
    free(needs.need);
    return im->rc;
}
