/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of TorchScript's source: expressions. */
#include "weights/torchscript/parse.h"

/* Expressions up to a closing bracket; a comma may stand before it. */
static int parse_items(struct ts_parser *p, int close, size_t base)
{
    struct ts_node *item;
    int rc;

    while (!ts_at_sign(p, close)) {
        rc = ts_parse_expression(p, &item);
        if (rc == 0)
            rc = ts_push_kid(p, base, item);
        if (rc == 0 && !ts_at_sign(p, close))
            rc = ts_want_sign(p, ',', "a comma or a bracket is missing");
        if (rc < 0)
            return rc;
    }
    return ts_next(&p->lexer);
}

static int parse_pairs(struct ts_parser *p, size_t base)
{
    struct ts_node *key = NULL, *value = NULL;
    int rc;

    while (!ts_at_sign(p, '}')) {
        if ((rc = ts_parse_expression(p, &key)) < 0 ||
            (rc = ts_want_sign(p, ':', "a ':' is missing")) < 0 ||
            (rc = ts_parse_expression(p, &value)) < 0 ||
            (rc = ts_push_kid(p, base, key)) < 0 ||
            (rc = ts_push_kid(p, base, value)) < 0)
            return rc;
        if (!ts_at_sign(p, '}') &&
            (rc = ts_want_sign(p, ',', "a comma or a brace is missing")) < 0)
            return rc;
    }
    return ts_next(&p->lexer);
}

static int parse_list(struct ts_parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    int rc = ts_new_node(p, TS_LIST, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0)
        rc = parse_items(p, ']', base);
    return ts_take_kids(p, base, rc, *out);
}

static int parse_dict(struct ts_parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    int rc = ts_new_node(p, TS_DICT, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0)
        rc = parse_pairs(p, base);
    return ts_take_kids(p, base, rc, *out);
}

/* (x) is x; (x, ) and () are tuples. */
static int parse_round(struct ts_parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    struct ts_node *first;
    int rc = ts_new_node(p, TS_TUPLE, out);

    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc == 0 && !ts_at_sign(p, ')')) {
        rc = ts_parse_expression(p, &first);
        if (rc == 0 && ts_at_sign(p, ')')) {
            *out = first;
            return ts_next(&p->lexer);
        }
        if (rc == 0)
            rc = ts_push_kid(p, base, first);
        if (rc == 0)
            rc = ts_want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = parse_items(p, ')', base);
    return ts_take_kids(p, base, rc, *out);
}

static bool is_root(struct pb_span word)
{
    return pb_span_is(word, "torch") || pb_span_is(word, "ops") ||
           pb_span_is(word, "CONSTANTS") || pb_span_is(word, "__torch__");
}

/* a.b.c behind one of the four roots: the text of the file itself. */
static int parse_qualified(struct ts_parser *p, struct ts_node *node)
{
    struct pb_span word;
    int rc = 0;

    node->kind = TS_QUALIFIED;
    while (rc == 0 && ts_at_sign(p, '.')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_want_word(p, &word);
        if (rc == 0)
            node->text.bytes =
                (size_t)(word.data - node->text.data) + word.bytes;
    }
    for (size_t i = 0; i < node->text.bytes; i++)
        if (node->text.data[i] <= ' ')
            return ts_parse_bad(p, "a name has blanks in it");
    return rc;
}

static int parse_word(struct ts_parser *p, struct ts_node **out)
{
    static const struct {
        const char *word;
        enum ts_syntax kind;
    } words[] = {{"True", TS_TRUE}, {"False", TS_FALSE}, {"None", TS_NONE}};
    const struct pb_span word = p->lexer.text;
    int rc = ts_new_node(p, TS_NAME, out);

    if (rc < 0)
        return rc;
    (*out)->text = word;
    rc = ts_next(&p->lexer);
    if (rc == 0 && is_root(word) && ts_at_sign(p, '.'))
        return parse_qualified(p, *out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (pb_span_is(word, words[i].word))
            (*out)->kind = words[i].kind;
    if (rc == 0 && p->inside && (*out)->kind == TS_NAME) {
        rc = ts_slot_of(p, word, &(*out)->slot);
        if (rc == 0)
            p->reads[(*out)->slot]++;
    }
    return rc;
}

static int parse_literal(struct ts_parser *p, struct ts_node **out)
{
    const enum ts_token token = p->lexer.token;
    int rc = ts_new_node(p,
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

int ts_parse_primary(struct ts_parser *p, struct ts_node **out)
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
    if (ts_at_sign(p, '('))
        return parse_round(p, out);
    if (ts_at_sign(p, '['))
        return parse_list(p, out);
    if (ts_at_sign(p, '{'))
        return parse_dict(p, out);
    if (!ts_at_sign(p, '-'))
        return ts_parse_bad(p, "an expression is missing");
    if ((rc = ts_new_node(p, TS_NEGATIVE, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 || (rc = ts_enter(p)) < 0 ||
        (rc = ts_parse_primary(p, &kid)) < 0)
        return rc;
    p->depth--;
    return ts_with_kids(p, *out, 1, &kid);
}

/* An argument: an expression, or NAME=expression. */
static int parse_argument(struct ts_parser *p, struct ts_node **out)
{
    struct ts_node *name, *value;
    int rc = ts_parse_expression(p, out);

    if (rc < 0 || !ts_at_sign(p, '='))
        return rc;
    name = *out;
    if (name->kind != TS_NAME)
        return ts_parse_bad(p, "an argument's name is malformed");
    if (name->slot >= 0)
        p->reads[name->slot]--;
    if ((rc = ts_new_node(p, TS_KEYWORD, out)) < 0)
        return rc;
    (*out)->text = name->text;
    if ((rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_expression(p, &value)) < 0)
        return rc;
    return ts_with_kids(p, *out, 1, &value);
}

static int parse_call(struct ts_parser *p, struct ts_node **x)
{
    const size_t base = p->kids.n;
    struct ts_node *call, *arg;
    int rc = ts_new_node(p, TS_CALL, &call);

    if (rc < 0)
        return rc;
    rc = ts_push_kid(p, base, *x);
    if (rc == 0)
        rc = ts_next(&p->lexer);
    while (rc == 0 && !ts_at_sign(p, ')')) {
        rc = parse_argument(p, &arg);
        if (rc == 0)
            rc = ts_push_kid(p, base, arg);
        if (rc == 0 && !ts_at_sign(p, ')'))
            rc = ts_want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    *x = call;
    return ts_take_kids(p, base, rc, call);
}

/* x[i], x[a, b] of types, x[a:b]. */
static int parse_index(struct ts_parser *p, struct ts_node **x)
{
    struct ts_node *kid[3] = {*x, NULL, NULL}, *node, *rest;
    int rc, n = 2;

    if ((rc = ts_new_node(p, TS_INDEX, &node)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0)
        return rc;
    if (!ts_at_sign(p, ':'))
        rc = ts_parse_expression(p, &kid[1]);
    if (rc == 0 && ts_at_sign(p, ':')) {
        node->kind = TS_SLICE;
        n = 3;
        rc = ts_next(&p->lexer);
        if (rc == 0 && !ts_at_sign(p, ']'))
            rc = ts_parse_expression(p, &kid[2]);
    } else if (rc == 0 && ts_at_sign(p, ',')) {
        const size_t base = p->kids.n;

        rc = ts_new_node(p, TS_TUPLE, &rest);
        if (rc < 0)
            return rc;
        rc = ts_push_kid(p, base, kid[1]);
        while (rc == 0 && ts_at_sign(p, ',')) {
            rc = ts_next(&p->lexer);
            if (rc == 0 && !ts_at_sign(p, ']'))
                rc = ts_parse_expression(p, &kid[1]);
            if (rc == 0 && p->kids.item[p->kids.n - 1] != kid[1])
                rc = ts_push_kid(p, base, kid[1]);
        }
        rc = ts_take_kids(p, base, rc, rest);
        kid[1] = rest;
    }
    if (rc == 0)
        rc = ts_want_sign(p, ']', "a ']' is missing");
    *x = node;
    return rc < 0 ? rc : ts_with_kids(p, node, n, kid);
}

static int parse_attr(struct ts_parser *p, struct ts_node **x)
{
    struct ts_node *node;
    int rc;

    if ((rc = ts_new_node(p, TS_ATTR, &node)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_want_word(p, &node->text)) < 0 ||
        (rc = ts_with_kids(p, node, 1, x)) < 0)
        return rc;
    *x = node;
    return 0;
}

/* Calls, attributes and indices behind each other count as nesting: trees are
 * as deep as they are many. */
int ts_parse_expression(struct ts_parser *p, struct ts_node **out)
{
    const int depth = p->depth;
    int rc = ts_enter(p);

    if (rc == 0)
        rc = ts_parse_primary(p, out);
    while (rc == 0) {
        if (ts_at_sign(p, '('))
            rc = parse_call(p, out);
        else if (ts_at_sign(p, '['))
            rc = parse_index(p, out);
        else if (ts_at_sign(p, '.'))
            rc = parse_attr(p, out);
        else
            break;
        if (rc == 0)
            rc = ts_enter(p);
    }
    p->depth = depth;
    return rc;
}
