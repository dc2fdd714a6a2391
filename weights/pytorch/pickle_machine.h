/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the pickle machine share. */
#ifndef WEIGHTS_PYTORCH_PICKLE_MACHINE_H
#define WEIGHTS_PYTORCH_PICKLE_MACHINE_H

#include "weights/bytes.h"
#include "weights/pytorch/pickle.h"

/* Opcodes, by their names in Python's pickletools. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_POP_MARK = '1',
    OP_DUP = '2',
    OP_FLOAT = 'F',
    OP_INT = 'I',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_LONG = 'L',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_PERSID = 'P',
    OP_BINPERSID = 'Q',
    OP_REDUCE = 'R',
    OP_STRING = 'S',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_UNICODE = 'V',
    OP_BINUNICODE = 'X',
    OP_APPEND = 'a',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_DICT = 'd',
    OP_EMPTY_DICT = '}',
    OP_APPENDS = 'e',
    OP_GET = 'g',
    OP_BINGET = 'h',
    OP_INST = 'i',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_EMPTY_LIST = ']',
    OP_OBJ = 'o',
    OP_PUT = 'p',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_EMPTY_TUPLE = ')',
    OP_SETITEMS = 'u',
    OP_BINFLOAT = 'G',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_PROTO = 0x80,
    OP_NEWOBJ = 0x81,
    OP_EXT1 = 0x82,
    OP_EXT2 = 0x83,
    OP_EXT4 = 0x84,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_LONG4 = 0x8b,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d,
    OP_BINBYTES8 = 0x8e,
    OP_EMPTY_SET = 0x8f,
    OP_ADDITEMS = 0x90,
    OP_FROZENSET = 0x91,
    OP_NEWOBJ_EX = 0x92,
    OP_STACK_GLOBAL = 0x93,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_BYTEARRAY8 = 0x96,
    OP_NEXT_BUFFER = 0x97,
    OP_READONLY_BUFFER = 0x98
};

/* One opcode with its argument. */
struct pickle_op {
    unsigned char code;
    size_t at;                /* offset of the opcode */
    uint64_t number;          /* fixed-size argument */
    const unsigned char *arg; /* counted bytes, or a line without its end */
    size_t bytes;
    const unsigned char *arg2; /* second line of GLOBAL */
    size_t bytes2;
};

/* Fetches the next opcode; refuses unknown and forbidden ones. */
int pickle_next_op(struct bytes *in, struct infer_error *err,
                   struct pickle_op *op);
/* The first pass: walks to STOP, checking opcodes, arguments, frames and the
 * names that would be imported.  Builds nothing: sets protocol, used and
 * network of *out. */
int pickle_scan(const unsigned char *data, size_t bytes,
                struct infer_error *err, struct pickle *out);

/* The memo: a table from small integers.  Picklers number from 0 upwards, so
 * that an index far beyond the number of entries is refused. */
struct pickle_memo {
    uint64_t *slot; /* 0: not set */
    size_t capacity;
    size_t count; /* slots that are set */
};
/* EFORMAT where the index is too large, or EMEMORY. */
int pickle_memo_put(struct pickle_memo *memo, uint64_t index, uint64_t value);
uint64_t pickle_memo_get(const struct pickle_memo *memo, uint64_t index);
/* Index argument of the PUT and GET opcodes, in text or binary. */
bool pickle_memo_index(const struct pickle_op *op, uint64_t *out);

/* ---- the list of names --------------------------------------------- */

enum pickle_call {
    CALL_NEVER,        /* may be referred to, e.g. as a default factory */
    CALL_OPAQUE,       /* gives an opaque object */
    CALL_DICT,         /* OrderedDict, defaultdict, Counter */
    CALL_SET,          /* set, frozenset */
    CALL_LIST,         /* list of a list */
    CALL_TUPLE,        /* torch.Size, tuple */
    CALL_BYTES,        /* bytes, bytearray */
    CALL_ENCODE,       /* _codecs.encode(text, 'latin1') */
    CALL_RECONSTRUCT,  /* copyreg._reconstructor */
    CALL_TENSOR,       /* torch._utils._rebuild_tensor and _v2 */
    CALL_TENSOR_TYPED, /* _rebuild_tensor_v3, with a dtype */
    CALL_PARAMETER,    /* torch._utils._rebuild_parameter... */
    CALL_FROM_TYPE,    /* torch._tensor._rebuild_from_type_v2 */
    CALL_TAGGED,       /* torch.jit._pickle.restore_type_tag(value, type) */
    CALL_STORAGE,      /* a storage class: only in persistent ids */
    CALL_DTYPE,        /* torch.float32 and so on: never called */
    CALL_NUMPY_DTYPE,
    CALL_NUMPY_SCALAR,
    CALL_NUMPY_ARRAY,  /* numpy.core.multiarray._reconstruct */
    CALL_NUMPY_BUFFER, /* numpy.core.numeric._frombuffer */
    CALL_NUMPY_CLASS   /* numpy.ndarray: argument of _reconstruct */
};

struct pickle_row {
    const char *module, *name;
    enum pickle_call call;
    enum infer_dtype dtype; /* storages and dtypes; INFER_NONE: unsupported */
};

#define PICKLE_ROW_UNTYPED_NAME "UntypedStorage"

/* Row of a name, or -1. */
int64_t pickle_row_find(const unsigned char *module, size_t module_bytes,
                        const unsigned char *name, size_t name_bytes);
const struct pickle_row *pickle_row_at(uint32_t row);
/* True for the modules that define torch.nn's layers, and TorchScript's. */
bool pickle_is_layer(const unsigned char *module, size_t bytes);

/* ---- nodes --------------------------------------------------------- */

/* All return false where memory or the budget is out. */
bool pickle_charge(struct pickle *p, size_t bytes);
/* Grows an array of items to at least one more than count. */
bool pickle_grow(struct pickle *p, uint32_t **item, size_t *capacity,
                 size_t count);
bool pickle_new(struct pickle *p, enum pickle_kind kind, uint32_t *out);
/* Memory that lives as long as the pickle. */
void *pickle_alloc(struct pickle *p, size_t bytes);
/* Gives a node a fixed array of items. */
bool pickle_set_items(struct pickle *p, uint32_t node, const uint32_t *item,
                      size_t count);
/* Appends to a LIST, DICT or SET. */
bool pickle_append(struct pickle *p, uint32_t node, uint32_t item);

/* The CLASS of a name.  EMEMORY; EFORMAT where it is no plain text. */
int pickle_new_class(struct pickle *p, const unsigned char *module,
                     size_t module_bytes, const unsigned char *name,
                     size_t name_bytes, uint32_t *out);

/* ---- calls --------------------------------------------------------- */

/* What REDUCE, NEWOBJ, BUILD and BINPERSID would have made; 0, or an error
 * without offset. */
int pickle_reduce(struct pickle *p, uint32_t callable, uint32_t args,
                  struct infer_error *err, uint32_t *out);
int pickle_newobj(struct pickle *p, uint32_t class, uint32_t args,
                  struct infer_error *err, uint32_t *out);
int pickle_build(struct pickle *p, uint32_t object, uint32_t state,
                 struct infer_error *err);
int pickle_persistent(struct pickle *p, uint32_t id, struct infer_error *err,
                      uint32_t *out);

#endif
