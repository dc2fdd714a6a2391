/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python pickles, as far as weights and networks need them.
 *
 * A pickle is a program for a stack machine that can call any function of any
 * Python module.  This machine calls nothing: it knows a fixed list of names
 * (pickle_global.c) and what each of them would have built, and refuses every
 * stream that holds another name, before it builds anything.  What it builds
 * are nodes: plain values, containers, tensors that refer to storages by key.
 *
 * A stream that holds a class of torch.nn, or of TorchScript, is a whole
 * network.  In it names that
 * are not on the list are classes: one that is made without arguments and
 * filled from a dictionary is an object with these attributes.  One that would
 * be called is refused as before.
 *
 * Nodes live in one array until pickle_clear(); they refer to each other by
 * index, so that cycles and deep nesting need no care when they are freed.
 * Memory is bounded by PICKLE_BUDGET_*.
 */
#ifndef WEIGHTS_PYTORCH_PICKLE_H
#define WEIGHTS_PYTORCH_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

/* Memory that one pickle may cost: base + factor * its bytes.  The state_dict
 * of 200,000 scalars, the worst that was met, needs 5.3 times its bytes. */
#define PICKLE_BUDGET_BASE   ((size_t)16 << 20)
#define PICKLE_BUDGET_FACTOR 8

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_BIGINT, /* beyond 64 bits; bytes little-endian, or text */
    PICKLE_FLOAT,
    PICKLE_STR,   /* UTF-8 */
    PICKLE_BYTES, /* bytes, bytearray, and Python 2 strings that are no UTF-8 */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* item: key, value, key, value, ... in order of insertion */
    PICKLE_SET,
    PICKLE_GLOBAL, /* a name of the list, not called */
    PICKLE_CLASS,  /* "module.name" of a network's class, not called */
    PICKLE_OBJECT, /* of a class, and its attributes where it has any */
    PICKLE_OPAQUE, /* a harmless object whose content is of no use here */
    PICKLE_STORAGE,
    PICKLE_TENSOR,
    PICKLE_NUMPY_DTYPE,
    PICKLE_ARRAY /* a numpy array */
};

struct pickle_node {
    uint8_t kind;    /* enum pickle_kind */
    uint8_t dtype;   /* storages, numpy: enum infer_dtype, or INFER_NONE */
    uint8_t swapped; /* numpy: stored big-endian */
    uint8_t unused;
    uint32_t row;      /* of the list of names: globals, storages */
    uint32_t count;    /* bytes or items */
    uint32_t capacity; /* items; 0 where they are not to be freed */
    union {
        int64_t integer; /* BOOL, INT */
        double number;
        const unsigned char *bytes;
        uint32_t *item; /* indices of nodes */
    } u;
};

/* Places in a node's items. */
enum {
    PICKLE_STORAGE_KEY = 0, /* STR */
    PICKLE_STORAGE_COUNT,   /* INT: elements, or bytes where untyped */
    PICKLE_STORAGE_VIEW,    /* NONE, or TUPLE (key STR, offset, size) */
    PICKLE_STORAGE_ITEMS
};
enum {
    PICKLE_TENSOR_STORAGE = 0, /* STORAGE */
    PICKLE_TENSOR_OFFSET,      /* INT, in elements */
    PICKLE_TENSOR_SIZE,        /* TUPLE of INT >= 0 */
    PICKLE_TENSOR_STRIDE,      /* TUPLE of as many INT */
    PICKLE_TENSOR_ITEMS
};
/* A tensor's own dtype overrides that of an untyped storage: its node's dtype
 * is INFER_NONE where the storage decides; row then names the type of the
 * tensor where it is not supported, or is PICKLE_NO_ROW. */
#define PICKLE_NO_ROW UINT32_MAX
enum {
    PICKLE_ARRAY_SHAPE = 0, /* TUPLE of INT */
    PICKLE_ARRAY_DTYPE,     /* NUMPY_DTYPE */
    PICKLE_ARRAY_FORTRAN,   /* BOOL */
    PICKLE_ARRAY_DATA,      /* BYTES or STR */
    PICKLE_ARRAY_ITEMS      /* an array without items has no usable content */
};

/* Begins the name of a class of TorchScript, whose attributes are its tensors
 * and its modules. */
#define PICKLE_SCRIPT "__torch__."
enum {
    PICKLE_OBJECT_CLASS = 0, /* CLASS */
    /* DICT of attributes by name, a TUPLE of classes of C++; may be missing */
    PICKLE_OBJECT_STATE,
    PICKLE_OBJECT_ITEMS
};

struct pickle_block;

struct pickle {
    struct pickle_node *node;
    size_t count, capacity;
    uint32_t root;
    size_t used; /* bytes up to and with STOP */
    int protocol;
    bool network; /* it holds classes of networks: names may be classes */
    struct pickle_block *block; /* memory of tuples and decoded strings */
    size_t charged, budget;
};

/* Reads one pickle from the start of data, which must stay as long as the
 * result: strings point into it.  Errors name the byte offset.  EFORMAT;
 * EUNSUPPORTED where names that are not on the list occur (all are named),
 * unless it is a whole network;
 * EMEMORY. */
int pickle_read(const unsigned char *data, size_t bytes,
                struct infer_error *err, struct pickle *out);
void pickle_clear(struct pickle *p);

static inline const struct pickle_node *pickle_at(const struct pickle *p,
                                                  uint32_t i)
{
    return &p->node[i];
}

/* True where the node is a string with exactly these characters. */
bool pickle_is(const struct pickle_node *node, const char *text);
/* Index of the value of a string key, or -1. */
int64_t pickle_find(const struct pickle *p, const struct pickle_node *dict,
                    const char *key);
/* "module.name" of a row of the list. */
void pickle_row_name(uint32_t row, char *text, size_t bytes);

#endif
