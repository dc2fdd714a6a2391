/* SPDX-License-Identifier: Apache-2.0 */
/* The stack machine of pickles: stack, marks and memo. */
#include "weights/pytorch/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "weights/pytorch/pickle_machine.h"
#include "weights/pytorch/pickle_text.h"

#define SMALL_INTS 64 /* 0 to 63: most sizes, strides and offsets */

struct machine {
    struct pickle *p;
    struct bytes in;
    struct infer_error *err;
    uint32_t *stack;
    size_t top, stack_capacity;
    uint32_t *mark; /* heights of the stack */
    size_t marks, mark_capacity;
    struct pickle_memo memo; /* 1 + index of a node */
    /* Values that are the same wherever they occur. */
    uint32_t none, yes, no, empty;
    uint32_t small[SMALL_INTS]; /* 0: not made yet */
};

/* ---- stack --------------------------------------------------------- */

static int out_of_memory(struct machine *m)
{
    return error_set(m->err, INFER_EMEMORY,
                     "pickle: what it builds takes more than the %zu bytes "
                     "allowed for its size, or memory is out",
                     m->p->budget);
}

static int bad(struct machine *m, const struct pickle_op *op, const char *what)
{
    return error_set(m->err, INFER_EFORMAT, "pickle: byte %zu: %s", op->at,
                     what);
}

static int push(struct machine *m, uint32_t node)
{
    if (!pickle_grow(m->p, &m->stack, &m->stack_capacity, m->top))
        return out_of_memory(m);
    m->stack[m->top++] = node;
    return 0;
}

/* Items above the last mark. */
static size_t above_mark(const struct machine *m)
{
    return m->top - (m->marks ? m->mark[m->marks - 1] : 0);
}

static int need(struct machine *m, const struct pickle_op *op, size_t count)
{
    if (above_mark(m) < count)
        return bad(m, op, "the stack holds too few values");
    return 0;
}

static int push_mark(struct machine *m)
{
    if (!pickle_grow(m->p, &m->mark, &m->mark_capacity, m->marks))
        return out_of_memory(m);
    m->mark[m->marks++] = (uint32_t)m->top;
    return 0;
}

/* Takes everything above the last mark, and the mark: the items stay in
 * m->stack[m->top ...] until the next push. */
static int pop_mark(struct machine *m, const struct pickle_op *op,
                    size_t *count)
{
    if (m->marks == 0)
        return bad(m, op, "no mark on the stack");
    *count = above_mark(m);
    m->top -= *count;
    m->marks--;
    return 0;
}

static int push_new(struct machine *m, enum pickle_kind kind, uint32_t *out)
{
    if (!pickle_new(m->p, kind, out))
        return out_of_memory(m);
    return push(m, *out);
}

/* ---- scalars ------------------------------------------------------- */

static int push_int(struct machine *m, int64_t value)
{
    bool small = value >= 0 && value < SMALL_INTS;
    uint32_t node = 0;
    int rc;

    if (small && m->small[value])
        return push(m, m->small[value]);
    rc = push_new(m, PICKLE_INT, &node);
    if (rc == 0) {
        m->p->node[node].u.integer = value;
        if (small)
            m->small[value] = node;
    }
    return rc;
}

static int push_float(struct machine *m, double value)
{
    uint32_t node = 0;
    int rc = push_new(m, PICKLE_FLOAT, &node);

    if (rc == 0)
        m->p->node[node].u.number = value;
    return rc;
}

static int push_bytes(struct machine *m, enum pickle_kind kind,
                      const unsigned char *bytes, size_t count)
{
    uint32_t node = 0;
    int rc = push_new(m, kind, &node);

    if (rc == 0) {
        m->p->node[node].u.bytes = bytes;
        m->p->node[node].count = (uint32_t)count;
    }
    return rc;
}

/* LONG1 and LONG4: two's complement, little-endian, of any length. */
static int push_long(struct machine *m, const struct pickle_op *op)
{
    uint64_t value = 0;
    size_t i;

    if (op->bytes > 8)
        return push_bytes(m, PICKLE_BIGINT, op->arg, op->bytes);
    if (op->bytes > 0 && op->arg[op->bytes - 1] & 0x80)
        value = UINT64_MAX;
    for (i = op->bytes; i-- > 0;)
        value = value << 8 | op->arg[i];
    return push_int(m, (int64_t)value);
}

/* INT and LONG: decimal text; "00" and "01" of INT are False and True. */
static int push_text_int(struct machine *m, const struct pickle_op *op)
{
    size_t bytes = op->bytes;
    int64_t value;

    if (op->code == OP_INT && bytes == 2 && op->arg[0] == '0' &&
        (op->arg[1] == '0' || op->arg[1] == '1'))
        return push(m, op->arg[1] == '1' ? m->yes : m->no);
    if (op->code == OP_LONG && bytes > 0 && op->arg[bytes - 1] == 'L')
        bytes--;
    switch (pickle_text_int(op->arg, bytes, &value)) {
    case 0:
        return push_int(m, value);
    case 1:
        return push_bytes(m, PICKLE_BIGINT, op->arg, bytes);
    default:
        return bad(m, op, "a malformed decimal integer");
    }
}

static int push_text_float(struct machine *m, const struct pickle_op *op)
{
    double value;

    if (!pickle_text_float(op->arg, op->bytes, &value))
        return bad(m, op, "a malformed decimal number");
    return push_float(m, value);
}

static int push_binfloat(struct machine *m, const struct pickle_op *op)
{
    uint64_t bits = __builtin_bswap64(op->number); /* big-endian in the file */
    double value;

    memcpy(&value, &bits, sizeof value);
    return push_float(m, value);
}

static int push_unicode(struct machine *m, const struct pickle_op *op)
{
    if (!text_is_utf8(op->arg, op->bytes))
        return bad(m, op, "a string that is not UTF-8");
    return push_bytes(m, PICKLE_STR, op->arg, op->bytes);
}

/* Strings of Python 2 are bytes; those that are text are taken as text. */
static int push_old_string(struct machine *m, const struct pickle_op *op)
{
    bool text = text_is_utf8(op->arg, op->bytes);

    return push_bytes(m, text ? PICKLE_STR : PICKLE_BYTES, op->arg, op->bytes);
}

/* STRING and UNICODE of protocol 0: text with escapes. */
static int push_escaped(struct machine *m, const struct pickle_op *op)
{
    unsigned char *text = pickle_alloc(m->p, 2 * op->bytes + 1);
    size_t bytes;
    bool ok;

    if (!text)
        return out_of_memory(m);
    ok = op->code == OP_UNICODE
             ? pickle_text_unicode(op->arg, op->bytes, text, &bytes)
             : pickle_text_string(op->arg, op->bytes, text, &bytes);
    if (!ok)
        return bad(m, op, "a malformed string");
    return push_bytes(m, text_is_utf8(text, bytes) ? PICKLE_STR : PICKLE_BYTES,
                      text, bytes);
}

/* ---- containers ---------------------------------------------------- */

static int push_tuple(struct machine *m, size_t count)
{
    uint32_t node = 0;

    if (count == 0)
        return push(m, m->empty);
    if (!pickle_new(m->p, PICKLE_TUPLE, &node) ||
        !pickle_set_items(m->p, node, m->stack + m->top, count))
        return out_of_memory(m);
    return push(m, node);
}

static int push_marked(struct machine *m, const struct pickle_op *op)
{
    enum pickle_kind kind = op->code == OP_DICT        ? PICKLE_DICT
                            : op->code == OP_FROZENSET ? PICKLE_SET
                                                       : PICKLE_LIST;
    size_t count = 0, i, start;
    uint32_t node = 0;
    int rc = pop_mark(m, op, &count);

    if (rc < 0)
        return rc;
    if (op->code == OP_TUPLE)
        return push_tuple(m, count);
    if (kind == PICKLE_DICT && count % 2)
        return bad(m, op, "a key without a value");
    start = m->top;
    if (!pickle_new(m->p, kind, &node))
        return out_of_memory(m);
    for (i = 0; i < count; i++)
        if (!pickle_append(m->p, node, m->stack[start + i]))
            return out_of_memory(m);
    return push(m, node);
}

/* Adds `count` values from the top of the stack to the container below. */
static int add_items(struct machine *m, const struct pickle_op *op,
                     enum pickle_kind kind, size_t count)
{
    uint32_t target;
    size_t i;

    if (need(m, op, 1) < 0)
        return INFER_EFORMAT;
    target = m->stack[m->top - 1];
    if (m->p->node[target].kind != kind)
        return bad(m, op, "items are added to what cannot hold them");
    for (i = 0; i < count; i++)
        if (!pickle_append(m->p, target, m->stack[m->top + i]))
            return out_of_memory(m);
    return 0;
}

static int add_fixed(struct machine *m, const struct pickle_op *op,
                     enum pickle_kind kind, size_t count)
{
    int rc = need(m, op, count + 1);

    if (rc < 0)
        return rc;
    m->top -= count;
    return add_items(m, op, kind, count);
}

static int add_marked(struct machine *m, const struct pickle_op *op,
                      enum pickle_kind kind)
{
    size_t count = 0;
    int rc = pop_mark(m, op, &count);

    if (rc < 0)
        return rc;
    if (kind == PICKLE_DICT && count % 2)
        return bad(m, op, "a key without a value");
    return add_items(m, op, kind, count);
}

static int pop(struct machine *m, const struct pickle_op *op)
{
    if (above_mark(m) > 0) {
        m->top--;
        return 0;
    }
    if (m->marks == 0)
        return bad(m, op, "the stack is empty");
    m->marks--;
    return 0;
}

/* ---- memo ---------------------------------------------------------- */

static int put(struct machine *m, const struct pickle_op *op)
{
    uint64_t index = m->memo.count;
    size_t before = m->memo.capacity;
    int rc = need(m, op, 1);

    if (rc < 0)
        return rc;
    if (op->code != OP_MEMOIZE && !pickle_memo_index(op, &index))
        return bad(m, op, "a bad memo index");
    rc = pickle_memo_put(&m->memo, index, (uint64_t)m->stack[m->top - 1] + 1);
    if (rc < 0)
        return rc == INFER_EMEMORY ? out_of_memory(m)
                                   : bad(m, op, "a bad memo index");
    if (!pickle_charge(m->p, (m->memo.capacity - before) * sizeof(uint64_t)))
        return out_of_memory(m);
    return 0;
}

static int get(struct machine *m, const struct pickle_op *op)
{
    uint64_t index, value = 0;

    if (pickle_memo_index(op, &index))
        value = pickle_memo_get(&m->memo, index);
    if (value == 0)
        return bad(m, op, "a memo index that was never set");
    return push(m, (uint32_t)(value - 1));
}

/* ---- names and calls ----------------------------------------------- */

static int push_class(struct machine *m, const struct pickle_op *op,
                      const unsigned char *module, size_t module_bytes,
                      const unsigned char *name, size_t name_bytes)
{
    uint32_t node = 0;
    int rc =
        pickle_new_class(m->p, module, module_bytes, name, name_bytes, &node);

    if (rc == INFER_EFORMAT)
        return bad(m, op, "the name of a class is not UTF-8");
    return rc < 0 ? out_of_memory(m) : push(m, node);
}

static int push_global(struct machine *m, const struct pickle_op *op,
                       const unsigned char *module, size_t module_bytes,
                       const unsigned char *name, size_t name_bytes)
{
    int64_t row = pickle_row_find(module, module_bytes, name, name_bytes);
    uint32_t node = 0;
    int rc;

    if (row < 0 && m->p->network)
        return push_class(m, op, module, module_bytes, name, name_bytes);
    if (row < 0)
        return bad(m, op, "a name that is not on the list");
    rc = push_new(m, PICKLE_GLOBAL, &node);
    if (rc == 0) {
        m->p->node[node].row = (uint32_t)row;
        m->p->node[node].dtype = (uint8_t)pickle_row_at((uint32_t)row)->dtype;
    }
    return rc;
}

static int stack_global(struct machine *m, const struct pickle_op *op)
{
    const struct pickle_node *module, *name;
    int rc = need(m, op, 2);

    if (rc < 0)
        return rc;
    m->top -= 2;
    module = pickle_at(m->p, m->stack[m->top]);
    name = pickle_at(m->p, m->stack[m->top + 1]);
    if (module->kind != PICKLE_STR || name->kind != PICKLE_STR)
        return bad(m, op, "the name to load is not text");
    return push_global(m, op, module->u.bytes, module->count, name->u.bytes,
                       name->count);
}

static int call(struct machine *m, const struct pickle_op *op)
{
    uint32_t result = m->none;
    int rc = need(m, op, op->code == OP_BINPERSID ? 1 : 2);

    if (rc < 0)
        return rc;
    if (op->code == OP_BINPERSID) {
        m->top -= 1;
        rc = pickle_persistent(m->p, m->stack[m->top], m->err, &result);
    } else {
        uint32_t first = m->stack[m->top - 2], second = m->stack[m->top - 1];

        m->top -= 2;
        result = first;
        rc = op->code == OP_REDUCE
                 ? pickle_reduce(m->p, first, second, m->err, &result)
             : op->code == OP_NEWOBJ
                 ? pickle_newobj(m->p, first, second, m->err, &result)
                 : pickle_build(m->p, first, second, m->err);
    }
    if (rc == INFER_EMEMORY)
        return out_of_memory(m);
    if (rc < 0) {
        error_prefix(m->err, "pickle: byte %zu", op->at);
        return rc;
    }
    return push(m, result);
}

/* ---- one opcode ---------------------------------------------------- */

static int run_value(struct machine *m, const struct pickle_op *op)
{
    switch (op->code) {
    case OP_NONE:
        return push(m, m->none);
    case OP_NEWTRUE:
        return push(m, m->yes);
    case OP_NEWFALSE:
        return push(m, m->no);
    case OP_BININT:
        return push_int(m, (int32_t)(uint32_t)op->number);
    case OP_BININT1:
    case OP_BININT2:
        return push_int(m, (int64_t)op->number);
    case OP_INT:
    case OP_LONG:
        return push_text_int(m, op);
    case OP_LONG1:
    case OP_LONG4:
        return push_long(m, op);
    case OP_FLOAT:
        return push_text_float(m, op);
    case OP_BINFLOAT:
        return push_binfloat(m, op);
    case OP_BINUNICODE:
    case OP_SHORT_BINUNICODE:
    case OP_BINUNICODE8:
        return push_unicode(m, op);
    case OP_BINSTRING:
    case OP_SHORT_BINSTRING:
        return push_old_string(m, op);
    case OP_STRING:
    case OP_UNICODE:
        return push_escaped(m, op);
    default: /* BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8 */
        return push_bytes(m, PICKLE_BYTES, op->arg, op->bytes);
    }
}

static int run_tuple(struct machine *m, const struct pickle_op *op)
{
    size_t count =
        op->code == OP_EMPTY_TUPLE ? 0 : (size_t)(op->code - OP_TUPLE1) + 1;
    int rc = need(m, op, count);

    if (rc < 0)
        return rc;
    m->top -= count;
    return push_tuple(m, count);
}

static int run_op(struct machine *m, const struct pickle_op *op)
{
    uint32_t node = 0;
    size_t count = 0;

    switch (op->code) {
    case OP_PROTO:
    case OP_FRAME:
    case OP_STOP:
        return 0;
    case OP_MARK:
        return push_mark(m);
    case OP_POP:
        return pop(m, op);
    case OP_POP_MARK:
        return pop_mark(m, op, &count);
    case OP_DUP:
        return need(m, op, 1) < 0 ? INFER_EFORMAT
                                  : push(m, m->stack[m->top - 1]);
    case OP_EMPTY_LIST:
        return push_new(m, PICKLE_LIST, &node);
    case OP_EMPTY_DICT:
        return push_new(m, PICKLE_DICT, &node);
    case OP_EMPTY_SET:
        return push_new(m, PICKLE_SET, &node);
    case OP_EMPTY_TUPLE:
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        return run_tuple(m, op);
    case OP_TUPLE:
    case OP_LIST:
    case OP_DICT:
    case OP_FROZENSET:
        return push_marked(m, op);
    case OP_APPEND:
        return add_fixed(m, op, PICKLE_LIST, 1);
    case OP_APPENDS:
        return add_marked(m, op, PICKLE_LIST);
    case OP_SETITEM:
        return add_fixed(m, op, PICKLE_DICT, 2);
    case OP_SETITEMS:
        return add_marked(m, op, PICKLE_DICT);
    case OP_ADDITEMS:
        return add_marked(m, op, PICKLE_SET);
    case OP_PUT:
    case OP_BINPUT:
    case OP_LONG_BINPUT:
    case OP_MEMOIZE:
        return put(m, op);
    case OP_GET:
    case OP_BINGET:
    case OP_LONG_BINGET:
        return get(m, op);
    case OP_GLOBAL:
        return push_global(m, op, op->arg, op->bytes, op->arg2, op->bytes2);
    case OP_STACK_GLOBAL:
        return stack_global(m, op);
    case OP_REDUCE:
    case OP_NEWOBJ:
    case OP_BUILD:
    case OP_BINPERSID:
        return call(m, op);
    default:
        return run_value(m, op);
    }
}

static int start(struct machine *m)
{
    struct pickle *p = m->p;

    if (!pickle_new(p, PICKLE_NONE, &m->none) ||
        !pickle_new(p, PICKLE_BOOL, &m->yes) ||
        !pickle_new(p, PICKLE_BOOL, &m->no) ||
        !pickle_new(p, PICKLE_TUPLE, &m->empty))
        return out_of_memory(m);
    p->node[m->yes].u.integer = 1;
    return 0;
}

static int run(struct machine *m)
{
    struct pickle_op op;
    int rc = start(m);

    if (rc < 0)
        return rc;
    do {
        if ((rc = pickle_next_op(&m->in, m->err, &op)) < 0 ||
            (rc = run_op(m, &op)) < 0)
            return rc;
    } while (op.code != OP_STOP);
    if (m->top != 1 || m->marks != 0)
        return bad(m, &op, "it stops with other than one value");
    m->p->root = m->stack[0];
    return 0;
}

int pickle_read(const unsigned char *data, size_t bytes,
                struct infer_error *err, struct pickle *out)
{
    struct pickle p = {0};
    struct machine m = {.p = &p, .err = err};
    size_t extra;
    int rc = pickle_scan(data, bytes, err, &p);

    if (rc < 0)
        return rc;
    p.budget = SIZE_MAX / 2;
    if (checked_mul(p.used, PICKLE_BUDGET_FACTOR, &extra) &&
        extra < p.budget - PICKLE_BUDGET_BASE)
        p.budget = extra + PICKLE_BUDGET_BASE;
    m.in = bytes_over(data, p.used);
    rc = run(&m);
    free(m.stack);
    free(m.mark);
    free(m.memo.slot);
    if (rc < 0) {
        pickle_clear(&p);
        return rc;
    }
    *out = p;
    return 0;
}
