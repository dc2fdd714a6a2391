/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of TorchScript's source: functions and classes. */
#include <string.h>

#include "weights/torchscript/parse.h"

static int parse_param(struct ts_parser *p, struct ts_param *out)
{
    struct ts_node *x = NULL;
    int rc = ts_want_word(p, &out->name);

    if (rc == 0)
        rc = ts_slot_of(p, out->name, &out->slot);
    if (rc == 0 && ts_at_sign(p, ':')) {
        p->inside = false; /* names of types are no variables */
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        out->type = x;
        p->inside = true;
    }
    if (rc == 0 && ts_at_sign(p, '=')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        out->otherwise = x;
    }
    return rc;
}

#define MAX_PARAMS 256

static int parse_params(struct ts_parser *p, struct ts_function *f)
{
    struct ts_param param[MAX_PARAMS];
    int rc = ts_want_sign(p, '(', "a '(' is missing");

    while (rc == 0 && !ts_at_sign(p, ')')) {
        if (f->n_params == MAX_PARAMS)
            return ts_parse_bad(p, "a function has too many parameters");
        param[f->n_params] = (struct ts_param){.slot = 0};
        rc = parse_param(p, &param[f->n_params++]);
        if (rc == 0 && !ts_at_sign(p, ')'))
            rc = ts_want_sign(p, ',', "a comma or a bracket is missing");
    }
    if (rc == 0)
        rc = ts_next(&p->lexer);
    if (rc < 0)
        return rc;
    f->param = onnx_alloc(p->arena, sizeof *param * (size_t)(f->n_params + 1));
    if (!f->param)
        return ts_parse_no_memory(p);
    memcpy(f->param, param, sizeof *param * (size_t)f->n_params);
    return 0;
}

int ts_parse_function(struct ts_parser *p, struct ts_function **list)
{
    struct ts_function *f = onnx_alloc(p->arena, sizeof *f);
    struct ts_node *x = NULL;
    int rc = ts_count_node(p);

    if (!f)
        return ts_parse_no_memory(p);
    f->file = p->file;
    f->line = p->lexer.line;
    p->functions++;
    p->slots = 0;
    p->used = 0;
    p->inside = true;
    if (rc < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_want_word(p, &f->name)) < 0 || (rc = parse_params(p, f)) < 0)
        return rc;
    if (ts_at_sign(p, '>')) {
        p->inside = false;
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        p->inside = true;
    }
    if (rc == 0)
        rc = ts_parse_block(p, &x);
    p->inside = false;
    if (rc < 0)
        return rc;
    f->body = x;
    f->slots = p->slots;
    f->read = onnx_alloc(p->arena, (size_t)p->slots + 1);
    if (!f->read)
        return ts_parse_no_memory(p);
    for (int i = 0; i < p->slots; i++)
        f->read[i] = p->reads[i] > 0;
    f->next = *list;
    *list = f;
    return 0;
}

/* NAME : TYPE, NAME : TYPE = VALUE, NAME = VALUE, NAME["0"] = VALUE. */
static int parse_field(struct ts_parser *p, struct ts_class *c)
{
    struct ts_field *f = onnx_alloc(p->arena, sizeof *f);
    struct ts_node *x = NULL;
    int rc = ts_count_node(p);

    if (!f)
        return ts_parse_no_memory(p);
    if (rc == 0)
        rc = ts_parse_expression(p, &x);
    if (rc < 0)
        return rc;
    f->name = x->text;
    if (ts_at_sign(p, ':')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        f->type = x;
    }
    if (rc == 0 && ts_at_sign(p, '=')) {
        rc = ts_next(&p->lexer);
        if (rc == 0)
            rc = ts_parse_expression(p, &x);
        f->value = x;
    }
    if (rc < 0)
        return rc;
    if (c->last_field)
        c->last_field->next = f;
    else
        c->field = f;
    c->last_field = f;
    return ts_end_line(p);
}

static int parse_member(struct ts_parser *p, struct ts_class *c)
{
    int rc;

    if (ts_at_word(p, "def"))
        return ts_parse_function(p, &c->function);
    if (!ts_at_word(p, "pass"))
        return parse_field(p, c);
    rc = ts_next(&p->lexer);
    return rc < 0 ? rc : ts_end_line(p);
}

int ts_parse_class(struct ts_parser *p)
{
    struct ts_class *c = onnx_alloc(p->arena, sizeof *c);
    int rc = ts_count_node(p);

    if (!c)
        return ts_parse_no_memory(p);
    if (rc < 0 || (rc = ts_next(&p->lexer)) < 0 ||
        (rc = ts_want_word(p, &c->name)) < 0)
        return rc;
    if (ts_at_sign(p, '(') &&
        ((rc = ts_next(&p->lexer)) < 0 ||
         (rc = ts_want_word(p, &c->base)) < 0 ||
         (rc = ts_want_sign(p, ')', "a ')' is missing")) < 0))
        return rc;
    if ((rc = ts_want_sign(p, ':', "a ':' is missing")) < 0 ||
        (rc = ts_want_token(p, TS_NEWLINE, "a line ends too late")) < 0)
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
