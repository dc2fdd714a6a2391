/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: sparse constants and DENSIFY.
 *
 * A sparse tensor is a tree of dimensions, its own and those of blocks, in the
 * order of a traversal.  At a dense dimension each node has all children; at a
 * sparse one (CSR) node i has those whose indices lie between segments i and
 * i + 1.  The leaves are the elements that the buffer holds.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

enum { TRAVERSAL, BLOCK_MAP, DIMENSIONS };
enum { FORMAT, SIZE, SEGMENTS_TYPE, SEGMENTS, INDICES_TYPE, INDICES };
enum { MAX_LEVELS = 2 * INFER_MAX_RANK };

/* Whole numbers of 32, 16 or 8 bits. */
struct numbers {
    struct fb_vector v;
    int bytes;
};

struct level {
    bool sparse;
    int64_t size;
    int axis, block; /* of the tensor; which block it divides, or -1 */
    struct numbers segments, indices;
};

struct tree {
    struct tflite_import *im;
    struct level level[MAX_LEVELS];
    int levels, rank;
    int64_t block[INFER_MAX_RANK]; /* sizes of blocks along each axis */
    int64_t dim[INFER_MAX_RANK];
};

static int damaged(struct tflite_import *im, const char *what)
{
    return tflite_fail(im, INFER_EFORMAT, "a sparse constant: %s", what);
}

static int64_t number(const struct numbers *n, size_t i)
{
    const unsigned char *p = fb_list_data(&n->v) + i * (size_t)n->bytes;
    uint32_t v = 0;

    for (int k = 0; k < n->bytes; k++)
        v |= (uint32_t)p[k] << 8 * k;
    return n->bytes == 4 ? (int64_t)(int32_t)v : (int64_t)v;
}

/* Tables of 1: int32, 2: uint16, 3: uint8. */
static bool read_numbers(struct tflite_import *im, const struct fb_table *t,
                         int type_id, struct numbers *out)
{
    static const int sizes[] = {0, 4, 2, 1};
    const int type = fb_u8(t, type_id, 0);
    struct fb_table list;

    if (type < 1 || type > 3)
        return damaged(im, "a list of indices of an unknown type") == 0;
    list = fb_sub(t, type_id + 1);
    out->bytes = sizes[type];
    out->v = fb_list(&list, 0, (size_t)out->bytes);
    return true;
}

static bool read_level(struct tree *t, const struct fb_table *from,
                       struct level *l)
{
    const int format = fb_u8(from, FORMAT, 0);

    l->sparse = format == 1;
    l->size = fb_i32(from, SIZE, 0);
    if (format > 1)
        return damaged(t->im, "an unknown format of a dimension") == 0;
    return !l->sparse ||
           (read_numbers(t->im, from, SEGMENTS_TYPE, &l->segments) &&
            read_numbers(t->im, from, INDICES_TYPE, &l->indices));
}

/* Sizes of the blocks and of what they leave of each axis. */
static bool read_tree(struct tree *t, const struct fb_table *from)
{
    const struct fb_vector order = fb_list(from, TRAVERSAL, 4);
    const struct fb_vector map = fb_list(from, BLOCK_MAP, 4);
    const struct fb_vector dims = fb_list(from, DIMENSIONS, 4);
    unsigned seen = 0;

    t->levels = t->rank + (int)(map.count <= INFER_MAX_RANK ? map.count : 0);
    if (map.count > (size_t)t->rank || order.count != (size_t)t->levels ||
        dims.count != order.count)
        return damaged(t->im, "as many levels as dimensions are due") == 0;
    for (int i = 0; i < t->rank; i++)
        t->block[i] = 1;
    for (int i = 0; i < t->levels; i++) {
        const struct fb_table d = fb_list_table(&dims, (size_t)i);
        const int at = fb_list_i32(&order, (size_t)i);
        struct level *l = &t->level[i];

        if (at < 0 || at >= t->levels || (seen >> at & 1))
            return damaged(t->im, "levels out of order") == 0;
        seen |= 1u << at;
        if (!read_level(t, &d, l))
            return false;
        l->block = at < t->rank ? -1 : at - t->rank;
        l->axis = at < t->rank ? at : fb_list_i32(&map, (size_t)(at - t->rank));
        if (l->axis < 0 || l->axis >= t->rank ||
            (l->block >= 0 && (l->size < 1 || t->block[l->axis] != 1)))
            return damaged(t->im, "a block of no dimension") == 0;
        if (l->block >= 0)
            t->block[l->axis] = l->size;
    }
    for (int i = 0; i < t->levels; i++) {
        struct level *l = &t->level[i];

        if (t->dim[l->axis] % t->block[l->axis] != 0)
            return damaged(t->im, "blocks that do not divide a size") == 0;
        if (l->block < 0 && !l->sparse &&
            l->size != t->dim[l->axis] / t->block[l->axis])
            return damaged(t->im, "a level of another size") == 0;
        if (l->block < 0)
            l->size = t->dim[l->axis] / t->block[l->axis];
    }
    return !t->im->m->file.damaged ||
           damaged(t->im, "an offset leads out of the file") == 0;
}

/* Where node `node` of level i - 1 has its children: numbers of nodes of level
 * i. */
static bool children(const struct tree *t, int i, int64_t node, int64_t *begin,
                     int64_t *end)
{
    const struct level *l = &t->level[i];

    if (!l->sparse) {
        *begin = node * l->size;
        *end = *begin + l->size;
        return true;
    }
    if (node + 1 >= (int64_t)l->segments.v.count)
        return damaged(t->im, "segments end early") == 0;
    *begin = number(&l->segments, (size_t)node);
    *end = number(&l->segments, (size_t)node + 1);
    if (*begin < 0 || *end < *begin || *end > (int64_t)l->indices.v.count ||
        *end - *begin > l->size)
        return damaged(t->im, "segments out of order") == 0;
    return true;
}

/* Fills the elements of the buffer in; level by level, without recursion. */
static bool fill(const struct tree *t, const unsigned char *data, size_t bytes,
                 size_t size, struct constant *to)
{
    int64_t next[MAX_LEVELS], end[MAX_LEVELS], at[MAX_LEVELS] = {0};
    size_t used = 0;
    int i = 0;

    if (!children(t, 0, 0, &next[0], &end[0]))
        return false;
    while (i >= 0) {
        const struct level *l = &t->level[i];
        const int64_t node = next[i];

        if (node == end[i]) {
            i--;
            continue;
        }
        next[i]++;
        at[i] = l->sparse ? number(&l->indices, (size_t)node) : node % l->size;
        if (at[i] < 0 || at[i] >= l->size)
            return damaged(t->im, "an index out of range") == 0;
        if (i + 1 < t->levels) {
            i++;
            if (!children(t, i, node, &next[i], &end[i]))
                return false;
            continue;
        }
        int64_t index[INFER_MAX_RANK] = {0}, flat = 0;

        for (int k = 0; k < t->levels; k++)
            index[t->level[k].axis] +=
                at[k] *
                (t->level[k].block < 0 ? t->block[t->level[k].axis] : 1);
        for (int d = 0; d < t->rank; d++)
            flat = flat * t->dim[d] + index[d];
        if (used + size > bytes)
            return damaged(t->im, "its elements end early") == 0;
        memcpy(to->data + (size_t)flat * size, data + used, size);
        used += size;
    }
    return used == bytes || damaged(t->im, "elements are left over") == 0;
}

struct constant *tflite_sparse(struct tflite_import *im,
                               const struct tflite_tensor *tensor,
                               enum infer_dtype dtype,
                               const unsigned char *data, size_t bytes)
{
    struct constant *to;
    struct tree *t;
    bool good;

    if (tensor->rank < 1) {
        damaged(im, "a number");
        return NULL;
    }
    to = tflite_constant_new(im, dtype, tensor->rank, tensor->dim);
    t = to ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        if (to)
            tflite_fail(im, INFER_EMEMORY, "out of memory");
        constant_unref(to);
        return NULL;
    }
    t->im = im;
    t->rank = tensor->rank;
    memcpy(t->dim, tensor->dim, sizeof t->dim);
    if (to->bytes > 0)
        memset(to->data, 0, to->bytes);
    good =
        read_tree(t, &tensor->sparsity) &&
        (to->bytes == 0 || fill(t, data, bytes, infer_dtype_size(dtype), to));
    free(t);
    if (good)
        return to;
    constant_unref(to);
    return NULL;
}

/* The constant was made dense when it was loaded. */
void tflite_import_densify(struct tflite_import *im, int param)
{
    struct constant *known[TFLITE_PROBES];

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    if (!tflite_known(im, 0, 0)) {
        tflite_fail(im, INFER_EUNSUPPORTED, "a sparse tensor that is computed");
        return;
    }
    for (int p = 0; p < TFLITE_PROBES; p++)
        known[p] =
            constant_ref((struct constant *)(uintptr_t)tflite_known(im, 0, p));
    tflite_out_known(im, 0, known);
}
