/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that tensors share.
 *
 * Operators such as relu_() write into their input.  A storage is the memory of
 * one tensor and of its views; every write raises its version.  A value knows
 * the version that it shows: who reads it later by the same name reads what was
 * written into it.  A write into a part of a tensor, which a slice made, writes
 * a new tensor around it.  Other views of the storage keep an old version, and
 * who reads one is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

struct aten_alias {
    int storage;        /* 1 + index; 0: not seen yet, memory of its own */
    unsigned version;   /* of the storage, when this value was made */
    struct pb_span now; /* what was written into it; empty: itself */
    /* Of a view: the node that made it, and of what. */
    const struct aten_node *maker;
    struct pb_span base;
    bool read;              /* by a node or an output of the program */
    struct pb_span assumed; /* see assumed.c */
};

void aten_alias_clear(struct aten_context *c)
{
    free(c->alias);
    free(c->version);
    c->alias = NULL;
    c->version = NULL;
    c->aliases = c->storages = c->storages_capacity = 0;
}

/* The record of a value; NULL where there is no memory. */
static struct aten_alias *record(struct onnx_import *im, struct pb_span name)
{
    struct aten_context *c = aten_of(im);
    struct aten_alias *larger;
    int v, wanted;

    if (onnx_value_get(im, name, &v) < 0)
        return NULL;
    if (v >= c->aliases) {
        wanted = v < 512 ? 1024 : 2 * v;
        larger = realloc(c->alias, (size_t)wanted * sizeof *larger);
        if (!larger) {
            onnx_no_memory(im);
            return NULL;
        }
        memset(larger + c->aliases, 0,
               (size_t)(wanted - c->aliases) * sizeof *larger);
        c->alias = larger;
        c->aliases = wanted;
    }
    return &c->alias[v];
}

int aten_alias_mark(struct onnx_import *im, struct pb_span name)
{
    struct aten_alias *a = name.bytes ? record(im, name) : NULL;

    if (a)
        a->read = true;
    return im->rc;
}

bool aten_is_read(struct onnx_import *im, struct pb_span name)
{
    const struct aten_alias *a = record(im, name);

    return a && a->read;
}

struct pb_span *aten_assumed(struct onnx_import *im, struct pb_span name)
{
    struct aten_alias *a = record(im, name);

    return a ? &a->assumed : NULL;
}

/* A new storage: its index + 1, or 0. */
static int new_storage(struct onnx_import *im)
{
    struct aten_context *c = aten_of(im);
    unsigned *larger;
    int wanted;

    if (c->storages == c->storages_capacity) {
        wanted = c->storages ? 2 * c->storages : 256;
        larger = realloc(c->version, (size_t)wanted * sizeof *larger);
        if (!larger) {
            onnx_no_memory(im);
            return 0;
        }
        c->version = larger;
        c->storages_capacity = wanted;
    }
    c->version[c->storages] = 0;
    return ++c->storages;
}

/* The record of a value that has a storage. */
static struct aten_alias *owner(struct onnx_import *im, struct pb_span name)
{
    struct aten_alias *a = record(im, name);

    if (a && a->storage == 0)
        a->storage = new_storage(im);
    return a && a->storage ? a : NULL;
}

/* The record that a name leads to, by what was written into it and into that;
 * later walks from the same name are short. */
static struct aten_alias *newest(struct onnx_import *im, struct pb_span *name)
{
    struct aten_alias *a = record(im, *name);
    const struct pb_span from = *name;

    while (a && a->now.bytes) {
        *name = a->now;
        a = record(im, *name);
    }
    if (a && from.data != name->data)
        record(im, from)->now = *name;
    return a;
}

int aten_alias_read(struct onnx_import *im, struct pb_span name,
                    struct pb_span *out)
{
    const struct aten_alias *a;

    *out = name;
    a = newest(im, out);
    if (a && a->storage && aten_of(im)->version[a->storage - 1] != a->version)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "'%.*s' was changed in place through a view of it",
                         PB_TEXT(name, 128));
    return im->rc;
}

int aten_alias_view(struct onnx_import *im, struct pb_span out,
                    struct pb_span in)
{
    struct aten_context *c = aten_of(im);
    struct aten_alias *a;
    int storage;

    if (im->rc < 0 || in.bytes == 0 || !newest(im, &in))
        return im->rc;
    a = owner(im, in);
    if (!a)
        return im->rc;
    storage = a->storage;
    a = record(im, out);
    if (a)
        *a = (struct aten_alias){.storage = storage,
                                 .version = c->version[storage - 1],
                                 .maker = c->node,
                                 .base = in,
                                 .read = a->read,
                                 .assumed = a->assumed};
    return im->rc;
}

/* `out` is what was written into `in`, and shows the storage's version. */
static bool replace(struct onnx_import *im, struct pb_span in,
                    struct pb_span out)
{
    struct aten_alias *a = record(im, in), *b, copy;

    if (!a)
        return false;
    a->now = out;
    copy = *a;
    b = record(im, out);
    if (!b)
        return false;
    *b = (struct aten_alias){.storage = copy.storage,
                             .version = aten_of(im)->version[copy.storage - 1],
                             .maker = copy.maker,
                             .base = copy.base,
                             .read = b->read,
                             .assumed = copy.assumed};
    return true;
}

int aten_alias_write(struct onnx_import *im, struct pb_span out,
                     struct pb_span in)
{
    struct aten_context *c = aten_of(im);
    struct aten_alias *a;
    unsigned before;
    int storage;

    if (im->rc < 0 || in.bytes == 0 || !newest(im, &in))
        return im->rc;
    a = owner(im, in);
    if (!a)
        return im->rc;
    storage = a->storage;
    before = c->version[storage - 1]++;
    while (replace(im, in, out)) {
        const struct aten_alias view = *record(im, in);

        in = view.base;
        if (!view.maker || !newest(im, &in) ||
            record(im, in)->version != before)
            break;
        out = aten_around(im, view.maker, in, out);
        if (out.bytes == 0)
            break;
    }
    return im->rc;
}

int aten_alias_fail(struct onnx_import *im, struct pb_span in)
{
    struct aten_context *c = aten_of(im);
    struct aten_alias *a;
    int v, storage = 0;

    while (in.bytes && newest(im, &in)) {
        a = owner(im, in);
        if (!a || onnx_value_get(im, in, &v) < 0)
            break;
        if (!storage)
            c->version[a->storage - 1]++;
        storage = a->storage;
        a->version = c->version[storage - 1]; /* refused by its state */
        im->value[v].state = ONNX_FAILED;
        in = a->maker ? a->base : aten_no_input();
    }
    return im->rc;
}
