/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The minimum cut, by the shortest augmenting paths of one level graph after
 * another (E. A. Dinic, Soviet Math. Dokl. 11, 1970).
 *
 * A layer on the source's side computes in 8 bits.  Its edge to the sink is its
 * time in 8 bits, that from the source its time in floats.  Two nodes a tensor:
 * `some` is on the source's side if a reader is, and its edge to the maker is
 * the quantisation; `all` is there only if every reader is, and the maker's
 * edge to it is the dequantisation.
 */
#include "libinfer/plan/best/cut.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* Seconds become whole picoseconds: sums are exact, and the search ends. */
#define UNIT    1e12
#define LARGEST 1e5 /* seconds; more is taken for that */
#define FOREVER INT64_C(0x2000000000000000)

struct edge {
    int to, next;
    int64_t room;
};

/* Edges 2 i and 2 i + 1 are each other's reverse. */
struct network {
    struct edge *edge;
    int *first, *level, *at, *path, *queue; /* by node */
    int n_nodes, n_edges;
};

enum { SOURCE, SINK, FIRST_LAYER };

static int64_t units(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return (int64_t)((seconds < LARGEST ? seconds : LARGEST) * UNIT + 0.5);
}

static void connect(struct network *n, int from, int to, int64_t room)
{
    n->edge[n->n_edges] = (struct edge){to, n->first[from], room};
    n->first[from] = n->n_edges++;
    n->edge[n->n_edges] = (struct edge){from, n->first[to], 0};
    n->first[to] = n->n_edges++;
}

static void add_tensor(struct network *n, const struct cut *c,
                       const struct cut_tensor *t, int some, int all)
{
    const int maker = t->maker < 0 ? SINK : FIRST_LAYER + t->maker;

    connect(n, some, maker, units(t->quantise));
    if (maker != SINK)
        connect(n, maker, t->floats_read ? SINK : all, units(t->dequantise));
    for (int i = 0; i < t->n_reader; i++) {
        const int reader = FIRST_LAYER + c->reader[t->reader + i];

        connect(n, reader, some, FOREVER);
        connect(n, all, reader, FOREVER);
    }
}

static int build(struct network *n, const struct cut *c,
                 struct infer_error *err)
{
    size_t edges = 2 * (size_t)c->n + 2 * (size_t)c->n_tensors;
    size_t nodes;

    *n = (struct network){.n_nodes = FIRST_LAYER + c->n + 2 * c->n_tensors};
    nodes = (size_t)n->n_nodes;
    for (int i = 0; i < c->n_tensors; i++)
        edges += 2 * (size_t)c->tensor[i].n_reader;
    n->edge = calloc(2 * edges + 1, sizeof *n->edge);
    n->first = calloc(5 * nodes, sizeof *n->first);
    if (!n->edge || !n->first)
        return error_set(err, INFER_EMEMORY, "types: out of memory");
    n->level = n->first + nodes;
    n->at = n->level + nodes;
    n->path = n->at + nodes;
    n->queue = n->path + nodes;
    for (size_t i = 0; i < nodes; i++)
        n->first[i] = -1;
    for (int i = 0; i < c->n; i++) {
        connect(n, SOURCE, FIRST_LAYER + i, units(c->floats[i]));
        connect(n, FIRST_LAYER + i, SINK, units(c->bytes[i]));
    }
    for (int i = 0; i < c->n_tensors; i++)
        add_tensor(n, c, &c->tensor[i], FIRST_LAYER + c->n + 2 * i,
                   FIRST_LAYER + c->n + 2 * i + 1);
    return INFER_OK;
}

/* Distances from the source along edges with room; whether the sink has one. */
static bool find_levels(struct network *n)
{
    int head = 0, tail = 0;

    for (int i = 0; i < n->n_nodes; i++)
        n->level[i] = -1;
    n->level[SOURCE] = 0;
    n->queue[tail++] = SOURCE;
    while (head < tail) {
        const int from = n->queue[head++];

        for (int e = n->first[from]; e >= 0; e = n->edge[e].next)
            if (n->edge[e].room > 0 && n->level[n->edge[e].to] < 0) {
                n->level[n->edge[e].to] = n->level[from] + 1;
                n->queue[tail++] = n->edge[e].to;
            }
    }
    return n->level[SINK] >= 0;
}

/* Fills the path, `length` edges from the source to the sink. */
static void augment(struct network *n, int length)
{
    int64_t room = FOREVER;

    for (int i = 0; i < length; i++)
        if (n->edge[n->path[i]].room < room)
            room = n->edge[n->path[i]].room;
    for (int i = 0; i < length; i++) {
        n->edge[n->path[i]].room -= room;
        n->edge[n->path[i] ^ 1].room += room;
    }
}

/* All paths of one level graph, depth first. */
static void fill_levels(struct network *n)
{
    int node = SOURCE, length = 0;

    memcpy(n->at, n->first, (size_t)n->n_nodes * sizeof *n->at);
    for (;;) {
        int e;

        if (node == SINK) {
            augment(n, length);
            node = SOURCE;
            length = 0;
        }
        for (e = n->at[node]; e >= 0; e = n->edge[e].next)
            if (n->edge[e].room > 0 &&
                n->level[n->edge[e].to] == n->level[node] + 1)
                break;
        n->at[node] = e;
        if (e >= 0) {
            n->path[length++] = e;
            node = n->edge[e].to;
        } else if (length > 0) { /* a dead end: nothing leads there again */
            n->level[node] = -1;
            node = n->edge[n->path[--length] ^ 1].to;
        } else {
            return;
        }
    }
}

int cut_choose(const struct cut *c, struct infer_error *err, bool *bytes)
{
    struct network n;
    int rc = build(&n, c, err);

    if (rc == INFER_OK) {
        while (find_levels(&n))
            fill_levels(&n);
        for (int i = 0; i < c->n; i++)
            bytes[i] = n.level[FIRST_LAYER + i] >= 0;
    }
    free(n.edge);
    free(n.first);
    return rc;
}

double cut_seconds(const struct cut *c, const bool *bytes)
{
    double sum = 0;

    for (int i = 0; i < c->n; i++)
        sum += bytes[i] ? c->bytes[i] : c->floats[i];
    for (int i = 0; i < c->n_tensors; i++) {
        const struct cut_tensor *t = &c->tensor[i];
        bool to_bytes = false, to_floats = t->floats_read;

        for (int k = 0; k < t->n_reader; k++) {
            const bool b = bytes[c->reader[t->reader + k]];

            to_bytes |= b;
            to_floats |= !b;
        }
        if (t->maker >= 0 && bytes[t->maker])
            sum += to_floats ? t->dequantise : 0;
        else
            sum += to_bytes ? t->quantise : 0;
    }
    return sum;
}
