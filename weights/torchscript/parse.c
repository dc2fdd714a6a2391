/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of TorchScript's source: recursive descent, one token ahead.  Here
 * are its nodes and variables, and files as a whole. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "weights/torchscript/parse.h"

int ts_parse_bad(struct ts_parser *p, const char *what)
{
    return ts_bad(&p->lexer, what);
}

int ts_parse_no_memory(struct ts_parser *p)
{
    if (p->arena->full)
        return ts_parse_bad(p, "the program is too long for its file");
    return error_set(p->err, INFER_EMEMORY, "out of memory");
}

bool ts_at_sign(const struct ts_parser *p, int sign)
{
    return p->lexer.token == TS_SIGN && p->lexer.sign == sign;
}

bool ts_at_word(const struct ts_parser *p, const char *word)
{
    return p->lexer.token == TS_WORD && pb_span_is(p->lexer.text, word);
}

int ts_want_sign(struct ts_parser *p, int sign, const char *what)
{
    return ts_at_sign(p, sign) ? ts_next(&p->lexer) : ts_parse_bad(p, what);
}

int ts_want_token(struct ts_parser *p, enum ts_token token, const char *what)
{
    return p->lexer.token == token ? ts_next(&p->lexer) : ts_parse_bad(p, what);
}

int ts_want_word(struct ts_parser *p, struct pb_span *out)
{
    *out = p->lexer.text;
    return ts_want_token(p, TS_WORD, "a name is missing");
}

/* ---- nodes --------------------------------------------------------- */

int ts_count_node(struct ts_parser *p)
{
    return ++*p->nodes > TS_MAX_NODES
               ? ts_parse_bad(p, "the program is too long")
               : 0;
}

int ts_new_node(struct ts_parser *p, enum ts_syntax kind, struct ts_node **out)
{
    if (ts_count_node(p) < 0)
        return p->err->code;
    *out = onnx_alloc(p->arena, sizeof **out);
    if (!*out)
        return ts_parse_no_memory(p);
    (*out)->kind = kind;
    (*out)->line = p->lexer.line;
    (*out)->slot = -1;
    return 0;
}

int ts_push_kid(struct ts_parser *p, size_t base, struct ts_node *kid)
{
    struct ts_kids *k = &p->kids;
    struct ts_node **larger;
    size_t wanted;

    if (k->n - base >= TS_MAX_KIDS)
        return ts_parse_bad(p, "a list is too long");
    if (k->n == k->capacity) {
        wanted = k->capacity ? 2 * k->capacity : 256;
        larger = realloc(k->item, wanted * sizeof *larger);
        if (!larger)
            return ts_parse_no_memory(p);
        k->item = larger;
        k->capacity = wanted;
    }
    k->item[k->n++] = kid;
    return 0;
}

/* Gives a node the kids from `base` on, unless an error came before. */
int ts_take_kids(struct ts_parser *p, size_t base, int rc, struct ts_node *node)
{
    const size_t n = p->kids.n - base;

    p->kids.n = base;
    if (rc < 0 || n == 0)
        return rc;
    node->kid = onnx_alloc(p->arena, n * sizeof *node->kid);
    if (!node->kid)
        return ts_parse_no_memory(p);
    memcpy(node->kid, p->kids.item + base, n * sizeof *node->kid);
    node->n = (int)n;
    return 0;
}

int ts_with_kids(struct ts_parser *p, struct ts_node *node, int n,
                 struct ts_node *const *kid)
{
    const size_t base = p->kids.n;
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = ts_push_kid(p, base, kid[i]);
    return ts_take_kids(p, base, rc, node);
}

int ts_enter(struct ts_parser *p)
{
    return ++p->depth > TS_MAX_NESTING ? ts_parse_bad(p, "nested too deep") : 0;
}

/* ---- variables ----------------------------------------------------- */

static struct ts_name *find_name(struct ts_parser *p, struct pb_span text)
{
    size_t i = (size_t)hash_bytes(text.data, text.bytes) & (p->names - 1);

    while (p->name[i].function == p->functions &&
           (p->name[i].text.bytes != text.bytes ||
            memcmp(p->name[i].text.data, text.data, text.bytes) != 0))
        i = (i + 1) & (p->names - 1);
    return &p->name[i];
}

/* Room for one more name: the table stays at most half full. */
static int grow_names(struct ts_parser *p)
{
    struct ts_name *old = p->name;
    const size_t n = p->names;

    if (2 * (p->used + 1) <= n)
        return 0;
    p->name = calloc(n ? 2 * n : 256, sizeof *p->name);
    if (!p->name) {
        p->name = old;
        return ts_parse_no_memory(p);
    }
    p->names = n ? 2 * n : 256;
    for (size_t i = 0; i < n; i++)
        if (old[i].function == p->functions)
            *find_name(p, old[i].text) = old[i];
    free(old);
    return 0;
}

static int new_slot(struct ts_parser *p, int *out)
{
    const int wanted = p->slots_capacity ? 2 * p->slots_capacity : 256;
    int *larger;

    if (p->slots == TS_MAX_SLOTS)
        return ts_parse_bad(p, "a function has too many variables");
    if (p->slots == p->slots_capacity) {
        larger = realloc(p->reads, (size_t)wanted * sizeof *larger);
        if (!larger)
            return ts_parse_no_memory(p);
        p->reads = larger;
        p->slots_capacity = wanted;
    }
    p->reads[p->slots] = 0;
    *out = p->slots++;
    return 0;
}

/* The slot of a name in the current function. */
int ts_slot_of(struct ts_parser *p, struct pb_span text, int *out)
{
    struct ts_name *name;
    int rc = grow_names(p);

    if (rc < 0)
        return rc;
    name = find_name(p, text);
    if (name->function != p->functions) {
        rc = new_slot(p, out);
        if (rc < 0)
            return rc;
        p->used++;
        *name = (struct ts_name){text, *out, p->functions};
    }
    *out = name->slot;
    return 0;
}

/* ---- files --------------------------------------------------------- */

static int parse_file(struct ts_parser *p)
{
    struct ts_node *x;
    int rc = 0;

    while (rc == 0 && p->lexer.token != TS_END) {
        if (ts_at_word(p, "class"))
            rc = ts_parse_class(p);
        else if (ts_at_word(p, "def"))
            rc = ts_parse_function(p, &p->file->function);
        else
            rc = ts_parse_statement(p, &x); /* op_version_set = 1 */
    }
    return rc;
}

int ts_parse(struct ts_file *file, const unsigned char *data, size_t bytes,
             struct onnx_arena *arena, size_t *nodes, struct infer_error *err)
{
    struct ts_parser p = {.file = file, .arena = arena, .err = err};
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
