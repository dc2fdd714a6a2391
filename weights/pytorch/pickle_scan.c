/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes of pickles, and the pass that refuses dangerous streams before
 * anything is built. */
#include "weights/pytorch/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

/* A line of text may be as long as the text it holds, but a number may not. */
#define MAX_NUMBER_TEXT 4096
/* How far a memo index may be ahead of the number of entries. */
#define MEMO_SLACK 65536
/* Unknown names that are reported one by one. */
#define MAX_NAMES 32

enum argument {
    ARG_UNKNOWN = 0,
    ARG_FORBIDDEN,
    ARG_NONE,
    ARG_1,       /* unsigned, 1 byte */
    ARG_2,       /* 2 bytes */
    ARG_4,       /* 4 bytes */
    ARG_8,       /* 8 bytes */
    ARG_LINE,    /* text up to a newline */
    ARG_NUMBER,  /* the same, short */
    ARG_LINES,   /* two lines */
    ARG_BYTES_1, /* counted bytes, count of 1, 4, 8 bytes */
    ARG_BYTES_4,
    ARG_BYTES_8,
    ARG_BYTES_I /* count of 4 bytes, signed */
};

static const unsigned char arguments[256] = {
    [OP_MARK] = ARG_NONE,
    [OP_STOP] = ARG_NONE,
    [OP_POP] = ARG_NONE,
    [OP_POP_MARK] = ARG_NONE,
    [OP_DUP] = ARG_NONE,
    [OP_FLOAT] = ARG_NUMBER,
    [OP_INT] = ARG_NUMBER,
    [OP_BININT] = ARG_4,
    [OP_BININT1] = ARG_1,
    [OP_LONG] = ARG_NUMBER,
    [OP_BININT2] = ARG_2,
    [OP_NONE] = ARG_NONE,
    [OP_PERSID] = ARG_FORBIDDEN,
    [OP_BINPERSID] = ARG_NONE,
    [OP_REDUCE] = ARG_NONE,
    [OP_STRING] = ARG_LINE,
    [OP_BINSTRING] = ARG_BYTES_I,
    [OP_SHORT_BINSTRING] = ARG_BYTES_1,
    [OP_UNICODE] = ARG_LINE,
    [OP_BINUNICODE] = ARG_BYTES_4,
    [OP_APPEND] = ARG_NONE,
    [OP_BUILD] = ARG_NONE,
    [OP_GLOBAL] = ARG_LINES,
    [OP_DICT] = ARG_NONE,
    [OP_EMPTY_DICT] = ARG_NONE,
    [OP_APPENDS] = ARG_NONE,
    [OP_GET] = ARG_NUMBER,
    [OP_BINGET] = ARG_1,
    [OP_INST] = ARG_FORBIDDEN,
    [OP_LONG_BINGET] = ARG_4,
    [OP_LIST] = ARG_NONE,
    [OP_EMPTY_LIST] = ARG_NONE,
    [OP_OBJ] = ARG_FORBIDDEN,
    [OP_PUT] = ARG_NUMBER,
    [OP_BINPUT] = ARG_1,
    [OP_LONG_BINPUT] = ARG_4,
    [OP_SETITEM] = ARG_NONE,
    [OP_TUPLE] = ARG_NONE,
    [OP_EMPTY_TUPLE] = ARG_NONE,
    [OP_SETITEMS] = ARG_NONE,
    [OP_BINFLOAT] = ARG_8,
    [OP_BINBYTES] = ARG_BYTES_4,
    [OP_SHORT_BINBYTES] = ARG_BYTES_1,
    [OP_PROTO] = ARG_1,
    [OP_NEWOBJ] = ARG_NONE,
    [OP_EXT1] = ARG_FORBIDDEN,
    [OP_EXT2] = ARG_FORBIDDEN,
    [OP_EXT4] = ARG_FORBIDDEN,
    [OP_TUPLE1] = ARG_NONE,
    [OP_TUPLE2] = ARG_NONE,
    [OP_TUPLE3] = ARG_NONE,
    [OP_NEWTRUE] = ARG_NONE,
    [OP_NEWFALSE] = ARG_NONE,
    [OP_LONG1] = ARG_BYTES_1,
    [OP_LONG4] = ARG_BYTES_I,
    [OP_SHORT_BINUNICODE] = ARG_BYTES_1,
    [OP_BINUNICODE8] = ARG_BYTES_8,
    [OP_BINBYTES8] = ARG_BYTES_8,
    [OP_EMPTY_SET] = ARG_NONE,
    [OP_ADDITEMS] = ARG_NONE,
    [OP_FROZENSET] = ARG_NONE,
    [OP_NEWOBJ_EX] = ARG_FORBIDDEN,
    [OP_STACK_GLOBAL] = ARG_NONE,
    [OP_MEMOIZE] = ARG_NONE,
    [OP_FRAME] = ARG_8,
    [OP_BYTEARRAY8] = ARG_BYTES_8,
    [OP_NEXT_BUFFER] = ARG_FORBIDDEN,
    [OP_READONLY_BUFFER] = ARG_FORBIDDEN,
};

static bool take_line(struct bytes *in, const unsigned char **line,
                      size_t *bytes)
{
    const unsigned char *p = in->data + in->at, *end;

    end = bytes_left(in) ? memchr(p, '\n', bytes_left(in)) : NULL;
    if (!end)
        return false;
    *line = p;
    *bytes = (size_t)(end - p);
    in->at += *bytes + 1;
    return true;
}

/* Takes a count of `size` bytes and the bytes that it counts. */
static bool take_counted(struct bytes *in, unsigned size, bool is_signed,
                         struct pickle_op *op)
{
    uint64_t n;

    if (!bytes_uint(in, size, &n) || (is_signed && n > INT32_MAX) ||
        n > UINT32_MAX)
        return false;
    op->arg = bytes_take(in, n);
    op->bytes = (size_t)n;
    return op->arg != NULL;
}

static bool take_argument(struct bytes *in, enum argument kind,
                          struct pickle_op *op)
{
    switch (kind) {
    case ARG_NONE:
        return true;
    case ARG_1:
        return bytes_uint(in, 1, &op->number);
    case ARG_2:
        return bytes_uint(in, 2, &op->number);
    case ARG_4:
        return bytes_uint(in, 4, &op->number);
    case ARG_8:
        return bytes_uint(in, 8, &op->number);
    case ARG_LINE:
        return take_line(in, &op->arg, &op->bytes) && op->bytes <= UINT32_MAX;
    case ARG_NUMBER:
        return take_line(in, &op->arg, &op->bytes) &&
               op->bytes <= MAX_NUMBER_TEXT;
    case ARG_LINES:
        return take_line(in, &op->arg, &op->bytes) &&
               take_line(in, &op->arg2, &op->bytes2);
    case ARG_BYTES_1:
        return take_counted(in, 1, false, op);
    case ARG_BYTES_4:
        return take_counted(in, 4, false, op);
    case ARG_BYTES_8:
        return take_counted(in, 8, false, op);
    case ARG_BYTES_I:
        return take_counted(in, 4, true, op);
    default:
        return false;
    }
}

int pickle_next_op(struct bytes *in, struct infer_error *err,
                   struct pickle_op *op)
{
    enum argument kind;

    *op = (struct pickle_op){.at = in->at};
    if (!bytes_u8(in, &op->code))
        return error_set(err, INFER_EFORMAT,
                         "pickle: no STOP before its end at byte %zu", op->at);
    kind = arguments[op->code];
    if (kind == ARG_UNKNOWN)
        return error_set(err, INFER_EFORMAT,
                         "pickle: unknown opcode 0x%02x at byte %zu", op->code,
                         op->at);
    if (kind == ARG_FORBIDDEN)
        return error_set(err, INFER_EUNSUPPORTED,
                         "pickle: opcode 0x%02x at byte %zu makes objects of "
                         "arbitrary classes or refers to data elsewhere; no "
                         "weights need it",
                         op->code, op->at);
    if (!take_argument(in, kind, op))
        return error_set(err, INFER_EFORMAT,
                         "pickle: the argument of opcode 0x%02x at byte %zu "
                         "is cut short or too long",
                         op->code, op->at);
    return 0;
}

/* ---- memo ---------------------------------------------------------- */

int pickle_memo_put(struct pickle_memo *memo, uint64_t index, uint64_t value)
{
    size_t capacity;
    uint64_t *slot;

    if (index > memo->count + MEMO_SLACK)
        return INFER_EFORMAT;
    if (index >= memo->capacity) {
        capacity = (size_t)index + (size_t)index / 2 + 64;
        slot = realloc(memo->slot, capacity * sizeof *slot);
        if (!slot)
            return INFER_EMEMORY;
        memset(slot + memo->capacity, 0,
               (capacity - memo->capacity) * sizeof *slot);
        memo->slot = slot;
        memo->capacity = capacity;
    }
    if (memo->slot[index] == 0)
        memo->count++;
    memo->slot[index] = value;
    return 0;
}

uint64_t pickle_memo_get(const struct pickle_memo *memo, uint64_t index)
{
    return index < memo->capacity ? memo->slot[index] : 0;
}

bool pickle_memo_index(const struct pickle_op *op, uint64_t *out)
{
    uint64_t n = 0;
    size_t i;

    if (op->code != OP_PUT && op->code != OP_GET) {
        *out = op->number;
        return true;
    }
    if (op->bytes == 0 || op->bytes > 10)
        return false;
    for (i = 0; i < op->bytes; i++) {
        if (op->arg[i] < '0' || op->arg[i] > '9')
            return false;
        n = n * 10 + (op->arg[i] - '0');
    }
    *out = n;
    return true;
}

/* ---- the pass ------------------------------------------------------ */

/* Marks what is on the stack, or in the memo, and is no literal string. */
#define NO_STRING UINT64_MAX

struct scan {
    const unsigned char *data;
    size_t bytes;
    struct bytes in;
    size_t frame_end; /* 0: no frame is open */
    int protocol;
    /* The two topmost literal strings, as 1 + offset of their opcode: the
     * arguments of STACK_GLOBAL.  top[0] is the upper one. */
    uint64_t top[2];
    struct pickle_memo memo;
    /* Names that are not on the list: all are reported, each once. */
    const unsigned char *unknown[MAX_NAMES][2];
    size_t unknown_bytes[MAX_NAMES][2];
    size_t unknown_count;
    bool network;              /* a name is a layer's class */
    struct infer_error report; /* of the names */
};

static void refuse_name(struct scan *s, const unsigned char *module,
                        size_t module_bytes, const unsigned char *name,
                        size_t name_bytes)
{
    size_t i;

    for (i = 0; i < s->unknown_count; i++)
        if (s->unknown_bytes[i][0] == module_bytes &&
            s->unknown_bytes[i][1] == name_bytes &&
            memcmp(s->unknown[i][0], module, module_bytes) == 0 &&
            memcmp(s->unknown[i][1], name, name_bytes) == 0)
            return;
    if (s->unknown_count == MAX_NAMES)
        return;
    i = s->unknown_count++;
    s->unknown[i][0] = module;
    s->unknown[i][1] = name;
    s->unknown_bytes[i][0] = module_bytes;
    s->unknown_bytes[i][1] = name_bytes;
    error_add(&s->report, INFER_EUNSUPPORTED,
              "pickle: it loads %.*s.%.*s, which is neither a tensor nor plain "
              "data",
              (int)(module_bytes < 200 ? module_bytes : 200), module,
              (int)(name_bytes < 200 ? name_bytes : 200), name);
}

static void check_name(struct scan *s, const unsigned char *module,
                       size_t module_bytes, const unsigned char *name,
                       size_t name_bytes)
{
    s->network |= pickle_is_layer(module, module_bytes);
    if (pickle_row_find(module, module_bytes, name, name_bytes) < 0)
        refuse_name(s, module, module_bytes, name, name_bytes);
}

/* The names of STACK_GLOBAL must be literals, as every pickler writes them;
 * names that a stream computes are an attack. */
static int check_stack_global(struct scan *s, const struct pickle_op *op,
                              struct infer_error *err)
{
    struct pickle_op part[2];
    int i, rc;

    for (i = 0; i < 2; i++) {
        struct bytes in = bytes_over(s->data, s->bytes);

        if (s->top[i] == 0 || s->top[i] == NO_STRING)
            return error_set(err, INFER_EUNSUPPORTED,
                             "pickle: the name loaded at byte %zu is not "
                             "written as text",
                             op->at);
        in.at = (size_t)(s->top[i] - 1);
        rc = pickle_next_op(&in, err, &part[i]);
        if (rc < 0)
            return rc;
    }
    check_name(s, part[1].arg, part[1].bytes, part[0].arg, part[0].bytes);
    return 0;
}

static void push(struct scan *s, uint64_t what)
{
    s->top[1] = s->top[0];
    s->top[0] = what;
}

static int memo_error(const struct pickle_op *op, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "pickle: bad memo index at byte %zu",
                     op->at);
}

static int scan_memo(struct scan *s, const struct pickle_op *op,
                     struct infer_error *err)
{
    uint64_t index = s->memo.count, value;

    if (op->code != OP_MEMOIZE && !pickle_memo_index(op, &index))
        return memo_error(op, err);
    if (op->code == OP_GET || op->code == OP_BINGET ||
        op->code == OP_LONG_BINGET) {
        value = pickle_memo_get(&s->memo, index);
        if (value == 0)
            return memo_error(op, err);
        push(s, value);
        return 0;
    }
    value = s->top[0] ? s->top[0] : NO_STRING;
    const int rc = pickle_memo_put(&s->memo, index, value);
    if (rc == INFER_EMEMORY)
        return error_set(err, rc, "pickle: no memory for its memo");
    return rc < 0 ? memo_error(op, err) : 0;
}

static int scan_frame(struct scan *s, const struct pickle_op *op,
                      struct infer_error *err)
{
    if (s->frame_end)
        return error_set(err, INFER_EFORMAT,
                         "pickle: a frame inside a frame, at byte %zu", op->at);
    if (op->number > bytes_left(&s->in))
        return error_set(err, INFER_EFORMAT,
                         "pickle: the frame at byte %zu is longer than the "
                         "pickle",
                         op->at);
    s->frame_end = s->in.at + (size_t)op->number;
    return 0;
}

/* A frame ends between two opcodes. */
static int leave_frame(struct scan *s, struct infer_error *err)
{
    if (s->frame_end && s->in.at > s->frame_end)
        return error_set(err, INFER_EFORMAT,
                         "pickle: the frame that ends at byte %zu cuts an "
                         "opcode in two",
                         s->frame_end);
    if (s->frame_end == s->in.at)
        s->frame_end = 0;
    return 0;
}

static int scan_proto(struct scan *s, const struct pickle_op *op,
                      struct infer_error *err)
{
    if (op->at != 0)
        return error_set(err, INFER_EFORMAT,
                         "pickle: a second header at byte %zu", op->at);
    if (op->number > 5)
        return error_set(err, INFER_EUNSUPPORTED,
                         "pickle: protocol %llu is not supported (supported: "
                         "0 to 5)",
                         (unsigned long long)op->number);
    s->protocol = (int)op->number;
    return 0;
}

static int scan_op(struct scan *s, const struct pickle_op *op,
                   struct infer_error *err)
{
    int rc = 0;

    switch (op->code) {
    case OP_PROTO:
        return scan_proto(s, op, err);
    case OP_FRAME:
        return scan_frame(s, op, err);
    case OP_PUT:
    case OP_BINPUT:
    case OP_LONG_BINPUT:
    case OP_MEMOIZE:
    case OP_GET:
    case OP_BINGET:
    case OP_LONG_BINGET:
        return scan_memo(s, op, err);
    case OP_BINUNICODE:
    case OP_SHORT_BINUNICODE:
    case OP_BINUNICODE8:
        push(s, op->at + 1);
        return 0;
    case OP_GLOBAL:
        check_name(s, op->arg, op->bytes, op->arg2, op->bytes2);
        break;
    case OP_STACK_GLOBAL:
        rc = check_stack_global(s, op, err);
        break;
    default:
        break;
    }
    s->top[0] = s->top[1] = 0;
    return rc;
}

static int scan_all(struct scan *s, struct infer_error *err)
{
    struct pickle_op op;
    int rc;

    do {
        if ((rc = leave_frame(s, err)) < 0 ||
            (rc = pickle_next_op(&s->in, err, &op)) < 0 ||
            (rc = scan_op(s, &op, err)) < 0)
            return rc;
    } while (op.code != OP_STOP);
    return leave_frame(s, err);
}

int pickle_scan(const unsigned char *data, size_t bytes,
                struct infer_error *err, struct pickle *out)
{
    struct scan s = {.data = data, .bytes = bytes};
    int rc;

    error_clear(&s.report);
    s.in = bytes_over(data, bytes);
    rc = scan_all(&s, err);
    free(s.memo.slot);
    /* Names say more than the damage that may follow them. */
    if (s.unknown_count > 0 && !s.network) {
        error_add(&s.report, INFER_EUNSUPPORTED,
                  "a file of weights holds tensors only: save the network's "
                  "state_dict(), not its Python objects");
        if (err)
            *err = s.report;
        return INFER_EUNSUPPORTED;
    }
    if (rc < 0)
        return rc;
    out->protocol = s.protocol;
    out->used = s.in.at;
    out->network = s.network;
    return 0;
}
