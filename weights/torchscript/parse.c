/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of TorchScript's source: recursive descent, one token ahead. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/syntax.h"

/* A variable of the function that is being parsed. */
struct name {
    struct pb_span text;
    int slot;
    unsigned function; /* 1 + its number; others are of functions before it */
};

/* Kids of the node that is being parsed, and of those around it. */
struct kids {
    struct ts_node **item;
    size_t n, capacity;
};

struct parser {
    struct ts_lexer lexer;
    struct ts_file *file;
    struct onnx_arena *arena;
    struct infer_error *err;
    struct kids kids;
    size_t *nodes;
    int depth;
    /* Variables: a hash table; and how often each slot is read. */
    struct name *name;
    size_t names, used;
    int *reads, slots, slots_capacity;
    unsigned functions;
    bool inside; /* a function */
};

static int parse_expression(struct parser *p, struct ts_node **out);
static int parse_block(struct parser *p, struct ts_node **out);

static int bad(struct parser *p, const char *what)
{
    return ts_bad(&p->lexer, what);
}

static int no_memory(struct parser *p)
{
    return error_set(p->err, INFER_EMEMORY, "out of memory");
}

static bool at_sign(const struct parser *p, int sign)
{
    return p->lexer.token == TS_SIGN && p->lexer.sign == sign;
}

static bool at_word(const struct parser *p, const char *word)
{
    return p->lexer.token == TS_WORD && pb_span_is(p->lexer.text, word);
}

static int want_sign(struct parser *p, int sign, const char *what)
{
    return at_sign(p, sign) ? ts_next(&p->lexer) : bad(p, what);
}

static int want_token(struct parser *p, enum ts_token token, const char *what)
{
    return p->lexer.token == token ? ts_next(&p->lexer) : bad(p, what);
}

static int want_word(struct parser *p, struct pb_span *out)
{
    *out = p->lexer.text;
    return want_token(p, TS_WORD, "a name is missing");
}

/* ---- nodes --------------------------------------------------------- */

static int count_node(struct parser *p)
{
    return ++*p->nodes > TS_MAX_NODES ? bad(p, "the program is too long") : 0;
}

static int new_node(struct parser *p, enum ts_syntax kind, struct ts_node **out)
{
    if (count_node(p) < 0)
        return p->err->code;
    *out = onnx_alloc(p->arena, sizeof **out);
    if (!*out)
        return no_memory(p);
    (*out)->kind = kind;
    (*out)->line = p->lexer.line;
    (*out)->slot = -1;
    return 0;
}

static int push(struct parser *p, size_t base, struct ts_node *kid)
{
    struct kids *k = &p->kids;
    struct ts_node **larger;
    size_t wanted;

    if (k->n - base >= TS_MAX_KIDS)
        return bad(p, "a list is too long");
    if (k->n == k->capacity) {
        wanted = k->capacity ? 2 * k->capacity : 256;
        larger = realloc(k->item, wanted * sizeof *larger);
        if (!larger)
            return no_memory(p);
        k->item = larger;
        k->capacity = wanted;
    }
    k->item[k->n++] = kid;
    return 0;
}

/* Gives a node the kids from `base` on, unless an error came before. */
static int take(struct parser *p, size_t base, int rc, struct ts_node *node)
{
    const size_t n = p->kids.n - base;

    p->kids.n = base;
    if (rc < 0 || n == 0)
        return rc;
    node->kid = onnx_alloc(p->arena, n * sizeof *node->kid);
    if (!node->kid)
        return no_memory(p);
    memcpy(node->kid, p->kids.item + base, n * sizeof *node->kid);
    node->n = (int)n;
    return 0;
}

static int with_kids(struct parser *p, struct ts_node *node, int n,
                     struct ts_node *const *kid)
{
    const size_t base = p->kids.n;
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = push(p, base, kid[i]);
    return take(p, base, rc, node);
}

static int enter(struct parser *p)
{
    return ++p->depth > TS_MAX_NESTING ? bad(p, "nested too deep") : 0;
}

/* ---- variables ----------------------------------------------------- */

static uint32_t hash(struct pb_span s)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < s.bytes; i++)
        h = (h ^ s.data[i]) * 16777619u;
    return h;
}

static struct name *find_name(struct parser *p, struct pb_span text)
{
    size_t i = hash(text) & (p->names - 1);

    while (p->name[i].function == p->functions &&
           (p->name[i].text.bytes != text.bytes ||
            memcmp(p->name[i].text.data, text.data, text.bytes) != 0))
        i = (i + 1) & (p->names - 1);
    return &p->name[i];
}

/* Room for one more name: the table stays at most half full. */
static int grow_names(struct parser *p)
{
    struct name *old = p->name;
    const size_t n = p->names;

    if (2 * (p->used + 1) <= n)
        return 0;
    p->name = calloc(n ? 2 * n : 256, sizeof *p->name);
    if (!p->name) {
        p->name = old;
        return no_memory(p);
    }
    p->names = n ? 2 * n : 256;
    for (size_t i = 0; i < n; i++)
        if (old[i].function == p->functions)
            *find_name(p, old[i].text) = old[i];
    free(old);
    return 0;
}

static int new_slot(struct parser *p, int *out)
{
    const int wanted = p->slots_capacity ? 2 * p->slots_capacity : 256;
    int *larger;

    if (p->slots == TS_MAX_SLOTS)
        return bad(p, "a function has too many variables");
    if (p->slots == p->slots_capacity) {
        larger = realloc(p->reads, (size_t)wanted * sizeof *larger);
        if (!larger)
            return no_memory(p);
        p->reads = larger;
        p->slots_capacity = wanted;
    }
    p->reads[p->slots] = 0;
    *out = p->slots++;
    return 0;
}

/* The slot of a name in the current function. */
static int slot_of(struct parser *p, struct pb_span text, int *out)
{
    struct name *name;
    int rc = grow_names(p);

    if (rc < 0)
        return rc;
    name = find_name(p, text);
    if (name->function != p->functions) {
        rc = new_slot(p, out);
        if (rc < 0)
            return rc;
        p->used++;
        *name = (struct name){text, *out, p->functions};
    }
    *out = name->slot;
    return 0;
}

/* ---- expressions --------------------------------------------------- */

/* Expressions up to a closing bracket; a comma may stand before it. */
static int parse_items(struct parser *p, int close, size_t base)
{
    struct ts_node *item;
    int rc;

    while (!at_sign(p, close)) {
        rc = parse_expression(p, &item);
        if (rc == 0)
            rc = push(p, base, item);
        if (rc == 0 && !at_sign(p, close))
            rc = want_sign(p, ',', "a comma or a bracket is missing");
        if (rc < 0)
            return rc;
    }
    return ts_next(&p->lexer);
}

static int parse_pairs(struct parser *p, size_t base)
{
    struct ts_node *key, *value;
    int rc;

    while (!at_sign(p, '}')) {
        if ((rc = parse_expression(p, &key)) < 0 ||
            (rc = want_sign(p, ':', "a ':' is missing")) < 0 ||
            (rc = parse_expression(p, &value)) < 0 ||
            (rc = push(p, base, key)) < 0 || (rc = push(p, base, value)) < 0)
            return rc;
        if (!at_sign(p, '}') &&
            (rc = want_sign(p, ',', "a comma or a brace is missing")) < 0)
            return rc;
    }
    return ts_next(&p->lexer);
}

static int parse_list(struct parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    int rc = new_node(p, TS_LIST, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0)
        rc = parse_items(p, ']', base);
    return take(p, base, rc, *out);
}

static int parse_dict(struct parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    int rc = new_node(p, TS_DICT, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0)
        rc = parse_pairs(p, base);
    return take(p, base, rc, *out);
}

/* (x) is x; (x, ) and () are tuples. */
static int parse_round(struct parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    struct ts_node *first;
    int rc = new_node(p, TS_TUPLE, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0 && !at_sign(p, ')')) {
        rc = parse_expression(p, &first);
        if (rc == 0 && at_sign(p, ')')) {
            *out = first;
            return ts_next(&p->lexer);
        }
        if (rc == 0)
            rc = push(p, base, first);
        if (rc == 0)
            rc = want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = parse_items(p, ')', base);
    return take(p, base, rc, *out);
}

static bool is_root(struct pb_span word)
{
    return pb_span_is(word, "torch") || pb_span_is(word, "ops") ||
           pb_span_is(word, "CONSTANTS") || pb_span_is(word, "__torch__");
}

/* a.b.c behind one of the four roots: the text of the file itself. */
static int parse_qualified(struct parser *p, struct ts_node *node)
{
    struct pb_span word;
    int rc = 0;

    node->kind = TS_QUALIFIED;
    while (rc == 0 && at_sign(p, '.')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = want_word(p, &word);
        if (rc == 0)
            node->text.bytes =
                (size_t)(word.data - node->text.data) + word.bytes;
    }
    for (size_t i = 0; i < node->text.bytes; i++)
        if (node->text.data[i] <= ' ')
            return bad(p, "a name has blanks in it");
    return rc;
}

static int parse_word(struct parser *p, struct ts_node **out)
{
    static const struct {
        const char *word;
        enum ts_syntax kind;
    } words[] = {{"True", TS_TRUE}, {"False", TS_FALSE}, {"None", TS_NONE}};
    const struct pb_span word = p->lexer.text;
    int rc = new_node(p, TS_NAME, out);

    if (rc < 0)
        return rc;
    (*out)->text = word;
    rc = ts_next(&p->lexer);
    if (rc == 0 && is_root(word) && at_sign(p, '.'))
        return parse_qualified(p, *out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (pb_span_is(word, words[i].word))
            (*out)->kind = words[i].kind;
    if (rc == 0 && p->inside && (*out)->kind == TS_NAME) {
        rc = slot_of(p, word, &(*out)->slot);
        if (rc == 0)
            p->reads[(*out)->slot]++;
    }
    return rc;
}

static int parse_literal(struct parser *p, struct ts_node **out)
{
    const enum ts_token token = p->lexer.token;
    int rc = new_node(p,
                      token == TS_INT     ? TS_INTEGER
                      : token == TS_FLOAT ? TS_REAL
                                          : TS_STRING,
                      out);

    if (rc < 0)
        return rc;
    (*out)->i = p->lexer.i;
    (*out)->f = p->lexer.f;
    if (token == TS_TEXT)
        (*out)->text = p->lexer.text;
    return ts_next(&p->lexer);
}

static int parse_primary(struct parser *p, struct ts_node **out)
{
    struct ts_node *kid;
    int rc;

    switch (p->lexer.token) {
    case TS_WORD:
        return parse_word(p, out);
    case TS_INT:
    case TS_FLOAT:
    case TS_TEXT:
        return parse_literal(p, out);
    case TS_END:
    case TS_NEWLINE:
    case TS_INDENT:
    case TS_DEDENT:
    case TS_SIGN:
        break;
    }
    if (at_sign(p, '('))
        return parse_round(p, out);
    if (at_sign(p, '['))
        return parse_list(p, out);
    if (at_sign(p, '{'))
        return parse_dict(p, out);
    if (!at_sign(p, '-'))
        return bad(p, "an expression is missing");
    if ((rc = new_node(p, TS_NEGATIVE, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 || (rc = enter(p)) < 0 ||
        (rc = parse_primary(p, &kid)) < 0)
        return rc;
    p->depth--;
    return with_kids(p, *out, 1, &kid);
}

/* An argument: an expression, or NAME=expression. */
static int parse_argument(struct parser *p, struct ts_node **out)
{
    struct ts_node *name, *value;
    int rc = parse_expression(p, out);

    if (rc < 0 || !at_sign(p, '='))
        return rc;
    name = *out;
    if (name->kind != TS_NAME)
        return bad(p, "an argument's name is malformed");
    if (name->slot >= 0)
        p->reads[name->slot]--;
    if ((rc = new_node(p, TS_KEYWORD, out)) < 0)
        return rc;
    (*out)->text = name->text;
    if ((rc = ts_next(&p->lexer)) < 0 || (rc = parse_expression(p, &value)) < 0)
        return rc;
    return with_kids(p, *out, 1, &value);
}

static int parse_call(struct parser *p, struct ts_node **x)
{
    const size_t base = p->kids.n;
    struct ts_node *call, *arg;
    int rc = new_node(p, TS_CALL, &call);

    if (rc < 0)
        return rc;
    rc = push(p, base, *x);
    if (rc == 0)
        rc = ts_next(&p->lexer);
    while (rc == 0 && !at_sign(p, ')')) {
        rc = parse_argument(p, &arg);
        if (rc == 0)
            rc = push(p, base, arg);
        if (rc == 0 && !at_sign(p, ')'))
            rc = want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    *x = call;
    return take(p, base, rc, call);
}

/* x[i], x[a, b] of types, x[a:b]. */
static int parse_index(struct parser *p, struct ts_node **x)
{
    struct ts_node *kid[3] = {*x, NULL, NULL}, *node, *rest;
    int rc, n = 2;

    if ((rc = new_node(p, TS_INDEX, &node)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0)
        return rc;
    if (!at_sign(p, ':'))
        rc = parse_expression(p, &kid[1]);
    if (rc == 0 && at_sign(p, ':')) {
        node->kind = TS_SLICE;
        n = 3;
        rc = ts_next(&p->lexer);
        if (rc == 0 && !at_sign(p, ']'))
            rc = parse_expression(p, &kid[2]);
    } else if (rc == 0 && at_sign(p, ',')) {
        const size_t base = p->kids.n;

        rc = new_node(p, TS_TUPLE, &rest);
        if (rc < 0)
            return rc;
        rc = push(p, base, kid[1]);
        while (rc == 0 && at_sign(p, ',')) {
            rc = ts_next(&p->lexer);
            if (rc == 0 && !at_sign(p, ']'))
                rc = parse_expression(p, &kid[1]);
            if (rc == 0 && p->kids.item[p->kids.n - 1] != kid[1])
                rc = push(p, base, kid[1]);
        }
        rc = take(p, base, rc, rest);
        kid[1] = rest;
    }
    if (rc == 0)
        rc = want_sign(p, ']', "a ']' is missing");
    *x = node;
    return rc < 0 ? rc : with_kids(p, node, n, kid);
}

static int parse_attr(struct parser *p, struct ts_node **x)
{
    struct ts_node *node;
    int rc;

    if ((rc = new_node(p, TS_ATTR, &node)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 || (rc = want_word(p, &node->text)) < 0 ||
        (rc = with_kids(p, node, 1, x)) < 0)
        return rc;
    *x = node;
    return 0;
}

/* Calls, attributes and indices behind each other count as nesting: trees are
 * as deep as they are many. */
static int parse_expression(struct parser *p, struct ts_node **out)
{
    const int depth = p->depth;
    int rc = enter(p);

    if (rc == 0)
        rc = parse_primary(p, out);
    while (rc == 0) {
        if (at_sign(p, '('))
            rc = parse_call(p, out);
        else if (at_sign(p, '['))
            rc = parse_index(p, out);
        else if (at_sign(p, '.'))
            rc = parse_attr(p, out);
        else
            break;
        if (rc == 0)
            rc = enter(p);
    }
    p->depth = depth;
    return rc;
}

/* ---- statements ---------------------------------------------------- */

static int end_line(struct parser *p)
{
    return want_token(p, TS_NEWLINE, "more than one statement in a line");
}

/* Makes what was read as an expression the target of an assignment. */
static int to_target(struct parser *p, struct ts_node *x)
{
    if (x->kind == TS_NAME && x->slot >= 0)
        p->reads[x->slot]--;
    else if (x->kind != TS_ATTR)
        return bad(p, "the target of an assignment is malformed");
    return 0;
}

/* x, y behind an equals sign: a tuple that starts with *x. */
static int parse_values(struct parser *p, struct ts_node **x)
{
    const size_t base = p->kids.n;
    struct ts_node *tuple = NULL, *next;
    int rc = new_node(p, TS_TUPLE, &tuple);

    if (rc == 0)
        rc = push(p, base, *x);
    while (rc == 0 && at_sign(p, ',')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &next);
        if (rc == 0)
            rc = push(p, base, next);
    }
    *x = tuple;
    return take(p, base, rc, tuple);
}

/* a, b, = x; a, b = x, y; a = x; a : T = x; x alone. */
static int parse_simple(struct parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    enum ts_syntax kind = TS_EVALUATE;
    struct ts_node *node, *x;
    int rc = new_node(p, kind, &node);

    *out = node;
    if (rc < 0)
        return rc;
    do {
        if (p->kids.n > base)
            rc = ts_next(&p->lexer);
        if (rc == 0 && at_sign(p, '='))
            break;
        if (rc == 0)
            rc = parse_expression(p, &x);
        if (rc == 0)
            rc = push(p, base, x);
        if (rc == 0 && at_sign(p, ','))
            kind = TS_UNPACK;
    } while (rc == 0 && at_sign(p, ','));
    if (rc == 0 && at_sign(p, ':')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x); /* a type */
    }
    if (rc == 0 && at_sign(p, '=')) {
        for (size_t i = base; i < p->kids.n && rc == 0; i++)
            rc = to_target(p, p->kids.item[i]);
        if (rc == 0)
            rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        if (rc == 0 && kind != TS_UNPACK)
            kind = TS_ASSIGN;
        if (rc == 0 && at_sign(p, ','))
            rc = parse_values(p, &x);
        if (rc == 0)
            rc = push(p, base, x);
    } else if (rc == 0 && kind == TS_UNPACK) {
        rc = bad(p, "an expression that is no statement");
    }
    node->kind = kind;
    rc = take(p, base, rc, node);
    return rc < 0 ? rc : end_line(p);
}

static int parse_if(struct parser *p, struct ts_node **out)
{
    struct ts_node *kid[3] = {NULL, NULL, NULL};
    int rc;

    if ((rc = new_node(p, TS_IF, out)) < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = parse_expression(p, &kid[0])) < 0 ||
        (rc = parse_block(p, &kid[1])) < 0)
        return rc;
    if (at_word(p, "else") &&
        ((rc = ts_next(&p->lexer)) < 0 || (rc = parse_block(p, &kid[2])) < 0))
        return rc;
    return with_kids(p, *out, 3, kid);
}

static int parse_while(struct parser *p, struct ts_node **out)
{
    struct ts_node *kid[2];
    int rc;

    if ((rc = new_node(p, TS_WHILE, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 ||
        (rc = parse_expression(p, &kid[0])) < 0 ||
        (rc = parse_block(p, &kid[1])) < 0)
        return rc;
    return with_kids(p, *out, 2, kid);
}

/* for NAME in range(N): */
static int parse_for(struct parser *p, struct ts_node **out)
{
    struct ts_node *kid[3], *range;
    int rc;

    if ((rc = new_node(p, TS_FOR, out)) < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = parse_primary(p, &kid[0])) < 0)
        return rc;
    if (!at_word(p, "in"))
        return bad(p, "'in' is missing");
    if ((rc = ts_next(&p->lexer)) < 0 || (rc = parse_expression(p, &range)) < 0)
        return rc;
    if (range->kind != TS_CALL || range->n != 2 ||
        !pb_span_is(range->kid[0]->text, "range"))
        return bad(p, "a loop over something other than range()");
    kid[1] = range->kid[1];
    if ((rc = parse_block(p, &kid[2])) < 0)
        return rc;
    return with_kids(p, *out, 3, kid);
}

static int parse_return(struct parser *p, struct ts_node **out)
{
    struct ts_node *x;
    int rc;

    if ((rc = new_node(p, TS_RETURN, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 || (rc = parse_expression(p, &x)) < 0 ||
        (rc = with_kids(p, *out, 1, &x)) < 0)
        return rc;
    return end_line(p);
}

static int parse_statement(struct parser *p, struct ts_node **out)
{
    static const char *const others[] = {"with",   "def",   "raise", "lambda",
                                         "import", "class", "try",   "del",
                                         "assert", NULL};
    int rc;

    if (at_word(p, "if"))
        return parse_if(p, out);
    if (at_word(p, "for"))
        return parse_for(p, out);
    if (at_word(p, "while"))
        return parse_while(p, out);
    if (at_word(p, "return"))
        return parse_return(p, out);
    if (at_word(p, "pass")) {
        rc = new_node(p, TS_PASS, out);
        if (rc == 0)
            rc = ts_next(&p->lexer);
        return rc < 0 ? rc : end_line(p);
    }
    for (int i = 0; others[i]; i++)
        if (at_word(p, others[i]))
            return error_set(p->err, INFER_EUNSUPPORTED,
                             "%s:%u: '%s' is not supported", p->file->path,
                             p->lexer.line, others[i]);
    return parse_simple(p, out);
}

/* ":" and statements that stand deeper. */
static int parse_block(struct parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    struct ts_node *statement;
    int rc;

    if ((rc = new_node(p, TS_BLOCK, out)) < 0 || (rc = enter(p)) < 0 ||
        (rc = want_sign(p, ':', "a ':' is missing")) < 0 ||
        (rc = want_token(p, TS_NEWLINE, "a line ends too late")) < 0 ||
        (rc = want_token(p, TS_INDENT, "a block is missing")) < 0)
        return rc;
    while (rc == 0 && p->lexer.token != TS_DEDENT) {
        rc = parse_statement(p, &statement);
        if (rc == 0)
            rc = push(p, base, statement);
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    p->depth--;
    return take(p, base, rc, *out);
}

/* ---- functions and classes ----------------------------------------- */

static int parse_param(struct parser *p, struct ts_param *out)
{
    struct ts_node *x = NULL;
    int rc = want_word(p, &out->name);

    if (rc == 0)
        rc = slot_of(p, out->name, &out->slot);
    if (rc == 0 && at_sign(p, ':')) {
        p->inside = false; /* names of types are no variables */
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        out->type = x;
        p->inside = true;
    }
    if (rc == 0 && at_sign(p, '=')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        out->otherwise = x;
    }
    return rc;
}

#define MAX_PARAMS 256

static int parse_params(struct parser *p, struct ts_function *f)
{
    struct ts_param param[MAX_PARAMS];
    int rc = want_sign(p, '(', "a '(' is missing");

    while (rc == 0 && !at_sign(p, ')')) {
        if (f->n_params == MAX_PARAMS)
            return bad(p, "a function has too many parameters");
        param[f->n_params] = (struct ts_param){.slot = 0};
        rc = parse_param(p, &param[f->n_params++]);
        if (rc == 0 && !at_sign(p, ')'))
            rc = want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc < 0)
        return rc;
    f->param = onnx_alloc(p->arena, sizeof *param * (size_t)(f->n_params + 1));
    if (!f->param)
        return no_memory(p);
    memcpy(f->param, param, sizeof *param * (size_t)f->n_params);
    return 0;
}

static int parse_function(struct parser *p, struct ts_function **list)
{
    struct ts_function *f = onnx_alloc(p->arena, sizeof *f);
    struct ts_node *x = NULL;
    int rc = count_node(p);

    if (!f)
        return no_memory(p);
    f->file = p->file;
    f->line = p->lexer.line;
    p->functions++;
    p->slots = 0;
    p->used = 0;
    p->inside = true;
    if (rc < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = want_word(p, &f->name)) < 0 || (rc = parse_params(p, f)) < 0)
        return rc;
    if (at_sign(p, '>')) {
        p->inside = false;
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        p->inside = true;
    }
    if (rc == 0)
        rc = parse_block(p, &x);
    p->inside = false;
    if (rc < 0)
        return rc;
    f->body = x;
    f->slots = p->slots;
    f->read = onnx_alloc(p->arena, (size_t)p->slots + 1);
    if (!f->read)
        return no_memory(p);
    for (int i = 0; i < p->slots; i++)
        f->read[i] = p->reads[i] > 0;
    f->next = *list;
    *list = f;
    return 0;
}

/* NAME : TYPE, NAME : TYPE = VALUE, NAME = VALUE, NAME["0"] = VALUE. */
static int parse_field(struct parser *p, struct ts_class *c)
{
    struct ts_field *f = onnx_alloc(p->arena, sizeof *f);
    struct ts_node *x = NULL;
    int rc = count_node(p);

    if (!f)
        return no_memory(p);
    if (rc == 0)
        rc = parse_expression(p, &x);
    if (rc < 0)
        return rc;
    f->name = x->text;
    if (at_sign(p, ':')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        f->type = x;
    }
    if (rc == 0 && at_sign(p, '=')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = parse_expression(p, &x);
        f->value = x;
    }
    if (rc < 0)
        return rc;
    if (c->last_field)
        c->last_field->next = f;
    else
        c->field = f;
    c->last_field = f;
    return end_line(p);
}

static int parse_member(struct parser *p, struct ts_class *c)
{
    int rc;

    if (at_word(p, "def"))
        return parse_function(p, &c->function);
    if (!at_word(p, "pass"))
        return parse_field(p, c);
    rc = ts_next(&p->lexer);
    return rc < 0 ? rc : end_line(p);
}

static int parse_class(struct parser *p)
{
    struct ts_class *c = onnx_alloc(p->arena, sizeof *c);
    int rc = count_node(p);

    if (!c)
        return no_memory(p);
    if (rc < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = want_word(p, &c->name)) < 0)
        return rc;
    if (at_sign(p, '(') &&
        ((rc = ts_next(&p->lexer)) < 0 || (rc = want_word(p, &c->base)) < 0 ||
         (rc = want_sign(p, ')', "a ')' is missing")) < 0))
        return rc;
    if ((rc = want_sign(p, ':', "a ':' is missing")) < 0 ||
        (rc = want_token(p, TS_NEWLINE, "a line ends too late")) < 0)
        return rc;
    c->next = p->file->class;
    p->file->class = c;
    if (p->lexer.token != TS_INDENT)
        return 0; /* a class without a body */
    rc = ts_next(&p->lexer);
    while (rc == 0 && p->lexer.token != TS_DEDENT)
        rc = parse_member(p, c);
    return rc < 0 ? rc : ts_next(&p->lexer);
}

static int parse_file(struct parser *p)
{
    struct ts_node *x;
    int rc = 0;

    while (rc == 0 && p->lexer.token != TS_END) {
        if (at_word(p, "class"))
            rc = parse_class(p);
        else if (at_word(p, "def"))
            rc = parse_function(p, &p->file->function);
        else
            rc = parse_statement(p, &x); /* op_version_set = 1 */
    }
    return rc;
}

int ts_parse(struct ts_file *file, const unsigned char *data, size_t bytes,
             struct onnx_arena *arena, size_t *nodes, struct infer_error *err)
{
    struct parser p = {.file = file, .arena = arena, .err = err};
    int rc;

    p.lexer.file = file;
    p.lexer.arena = arena;
    p.lexer.err = err;
    p.nodes = nodes;
    rc = ts_lexer_open(&p.lexer, data, bytes);
    if (rc == 0)
        rc = parse_file(&p);
    free(p.kids.item);
    free(p.name);
    free(p.reads);
    return rc;
}
