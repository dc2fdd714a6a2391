/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of TorchScript's source: statements and blocks. */
#include "kernels/base/error.h"
#include "weights/torchscript/parse.h"

int ts_end_line(struct ts_parser *p)
{
    return ts_want_token(p, TS_NEWLINE, "more than one statement in a line");
}

/* Makes what was read as an expression the target of an assignment. */
static int to_target(struct ts_parser *p, struct ts_node *x)
{
    if (x->kind == TS_NAME && x->slot >= 0)
        p->reads[x->slot]--;
    else if (x->kind != TS_ATTR && (x->kind != TS_NAME || p->inside))
        return ts_parse_bad(p, "the target of an assignment is malformed");
    return 0;
}

/* x, y behind an equals sign: a tuple that starts with *x. */
static int parse_values(struct ts_parser *p, struct ts_node **x)
{
    const size_t base = p->kids.n;
    struct ts_node *tuple = NULL, *next;
    int rc = ts_new_node(p, TS_TUPLE, &tuple);

    if (rc == 0)
        rc = ts_push_kid(p, base, *x);
    while (rc == 0 && ts_at_sign(p, ',')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &next);
        if (rc == 0)
            rc = ts_push_kid(p, base, next);
    }
    *x = tuple;
    return ts_take_kids(p, base, rc, tuple);
}

/* a, b, = x; a, b = x, y; a = x; a : T = x; x alone. */
static int parse_simple(struct ts_parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    enum ts_syntax kind = TS_EVALUATE;
    struct ts_node *node, *x;
    int rc = ts_new_node(p, kind, &node);

    *out = node;
    if (rc < 0)
        return rc;
    do {
        if (p->kids.n > base)
            rc = ts_next(&p->lexer);
        /* Behind a comma the targets may be over; there must be one. */
        if (rc == 0 && p->kids.n > base && ts_at_sign(p, '='))
            break;
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        if (rc == 0)
            rc = ts_push_kid(p, base, x);
        if (rc == 0 && ts_at_sign(p, ','))
            kind = TS_UNPACK;
    } while (rc == 0 && ts_at_sign(p, ','));
    if (rc == 0 && ts_at_sign(p, ':')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x); /* a type */
    }
    if (rc == 0 && ts_at_sign(p, '=')) {
        for (size_t i = base; i < p->kids.n && rc == 0; i++)
            rc = to_target(p, p->kids.item[i]);
        if (rc == 0)
            rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        if (rc == 0 && kind != TS_UNPACK)
            kind = TS_ASSIGN;
        if (rc == 0 && ts_at_sign(p, ','))
            rc = parse_values(p, &x);
        if (rc == 0)
            rc = ts_push_kid(p, base, x);
    } else if (rc == 0 && kind == TS_UNPACK) {
        rc = ts_parse_bad(p, "an expression that is no statement");
    }
    node->kind = kind;
    rc = ts_take_kids(p, base, rc, node);
    return rc < 0 ? rc : ts_end_line(p);
}

static int parse_if(struct ts_parser *p, struct ts_node **out)
{
    struct ts_node *kid[3] = {NULL, NULL, NULL};
    int rc;

    if ((rc = ts_new_node(p, TS_IF, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_expression(p, &kid[0])) < 0 ||
        (rc = ts_parse_block(p, &kid[1])) < 0)
        return rc;
    if (ts_at_word(p, "else") && ((rc = ts_next(&p->lexer)) < 0 ||
                                  (rc = ts_parse_block(p, &kid[2])) < 0))
        return rc;
    return ts_with_kids(p, *out, 3, kid);
}

/* while CONDITION, and with MANAGER, one that gives no name: an expression and
 * a block. */
static int parse_headed(struct ts_parser *p, enum ts_syntax kind,
                        struct ts_node **out)
{
    struct ts_node *kid[2];
    int rc;

    if ((rc = ts_new_node(p, kind, out)) < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_expression(p, &kid[0])) < 0 ||
        (rc = ts_parse_block(p, &kid[1])) < 0)
        return rc;
    return ts_with_kids(p, *out, 2, kid);
}

/* for NAME in range(N): */
static int parse_for(struct ts_parser *p, struct ts_node **out)
{
    struct ts_node *kid[3], *range;
    int rc;

    if ((rc = ts_new_node(p, TS_FOR, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_primary(p, &kid[0])) < 0)
        return rc;
    if (!ts_at_word(p, "in"))
        return ts_parse_bad(p, "'in' is missing");
    if ((rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_expression(p, &range)) < 0)
        return rc;
    if (range->kind != TS_CALL || range->n != 2 ||
        !pb_span_is(range->kid[0]->text, "range"))
        return ts_parse_bad(p, "a loop over something other than range()");
    kid[1] = range->kid[1];
    if ((rc = ts_parse_block(p, &kid[2])) < 0)
        return rc;
    return ts_with_kids(p, *out, 3, kid);
}

static int parse_return(struct ts_parser *p, struct ts_node **out)
{
    struct ts_node *x;
    int rc;

    if ((rc = ts_new_node(p, TS_RETURN, out)) < 0 ||
        (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_parse_expression(p, &x)) < 0 ||
        (rc = ts_with_kids(p, *out, 1, &x)) < 0)
        return rc;
    return ts_end_line(p);
}

int ts_parse_statement(struct ts_parser *p, struct ts_node **out)
{
    static const char *const others[] = {"def",    "raise",  "lambda",
                                         "import", "class",  "try",
                                         "del",    "assert", NULL};
    int rc;

    if (ts_at_word(p, "if"))
        return parse_if(p, out);
    if (ts_at_word(p, "for"))
        return parse_for(p, out);
    if (ts_at_word(p, "while"))
        return parse_headed(p, TS_WHILE, out);
    if (ts_at_word(p, "with"))
        return parse_headed(p, TS_WITH, out);
    if (ts_at_word(p, "return"))
        return parse_return(p, out);
    if (ts_at_word(p, "pass")) {
        rc = ts_new_node(p, TS_PASS, out);
        if (rc == 0)
            rc = ts_next(&p->lexer);
        return rc < 0 ? rc : ts_end_line(p);
    }
    for (int i = 0; others[i]; i++)
        if (ts_at_word(p, others[i]))
            return error_set(p->err, INFER_EUNSUPPORTED,
                             "%s:%u: '%s' is not supported", p->file->path,
                             p->lexer.line, others[i]);
    return parse_simple(p, out);
}

/* ":" and statements that stand deeper. */
int ts_parse_block(struct ts_parser *p, struct ts_node **out)
{
    const size_t base = p->kids.n;
    struct ts_node *statement;
    int rc;

    if ((rc = ts_new_node(p, TS_BLOCK, out)) < 0 || (rc = ts_enter(p)) < 0 ||
        (rc = ts_want_sign(p, ':', "a ':' is missing")) < 0 ||
        (rc = ts_want_token(p, TS_NEWLINE, "a line ends too late")) < 0 ||
        (rc = ts_want_token(p, TS_INDENT, "a block is missing")) < 0)
        return rc;
    while (rc == 0 && p->lexer.token != TS_DEDENT) {
        rc = ts_parse_statement(p, &statement);
        if (rc == 0)
            rc = ts_push_kid(p, base, statement);
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    p->depth--;
    return ts_take_kids(p, base, rc, *out);
}
