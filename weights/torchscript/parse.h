/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of TorchScript's parser share. */
#ifndef WEIGHTS_TORCHSCRIPT_PARSE_H
#define WEIGHTS_TORCHSCRIPT_PARSE_H

#include "weights/torchscript/syntax.h"

/* A variable of the function that is being parsed. */
struct ts_name {
    struct pb_span text;
    int slot;
    unsigned function; /* 1 + its number; others are of functions before it */
};

/* Kids of the node that is being parsed, and of those around it. */
struct ts_kids {
    struct ts_node **item;
    size_t n, capacity;
};

struct ts_parser {
    struct ts_lexer lexer;
    struct ts_file *file;
    struct onnx_arena *arena;
    struct infer_error *err;
    struct ts_kids kids;
    size_t *nodes;
    int depth;
    /* Variables: a hash table; and how often each slot is read. */
    struct ts_name *name;
    size_t names, used;
    int *reads, slots, slots_capacity;
    unsigned functions;
    bool inside; /* a function */
};

/* All return 0 or a negative error; nodes are the arena's. */

/* ---- tokens, nodes and variables (parse.c) ------------------------- */

/* EFORMAT with file and line. */
int ts_parse_bad(struct ts_parser *p, const char *what);
int ts_parse_no_memory(struct ts_parser *p);
bool ts_at_sign(const struct ts_parser *p, int sign);
bool ts_at_word(const struct ts_parser *p, const char *word);
/* Goes on to the next token, or fails with `what`. */
int ts_want_sign(struct ts_parser *p, int sign, const char *what);
int ts_want_token(struct ts_parser *p, enum ts_token token, const char *what);
int ts_want_word(struct ts_parser *p, struct pb_span *out);

int ts_count_node(struct ts_parser *p);
int ts_new_node(struct ts_parser *p, enum ts_syntax kind, struct ts_node **out);
/* Adds a kid to those from `base` on, which stands for p->kids.n at the start
 * of their node. */
int ts_push_kid(struct ts_parser *p, size_t base, struct ts_node *kid);
/* Gives a node the kids from `base` on, unless an error came before. */
int ts_take_kids(struct ts_parser *p, size_t base, int rc,
                 struct ts_node *node);
int ts_with_kids(struct ts_parser *p, struct ts_node *node, int n,
                 struct ts_node *const *kid);
/* One level deeper. */
int ts_enter(struct ts_parser *p);
/* The slot of a name in the current function. */
int ts_slot_of(struct ts_parser *p, struct pb_span text, int *out);

/* ---- expressions (expression.c) ------------------------------------ */

int ts_parse_expression(struct ts_parser *p, struct ts_node **out);
/* A name, a literal, brackets, or the negative of one. */
int ts_parse_primary(struct ts_parser *p, struct ts_node **out);

/* ---- statements (statement.c) -------------------------------------- */

int ts_end_line(struct ts_parser *p);
int ts_parse_statement(struct ts_parser *p, struct ts_node **out);
/* ":" and statements that stand deeper. */
int ts_parse_block(struct ts_parser *p, struct ts_node **out);

/* ---- functions and classes (declare.c) ----------------------------- */

/* Puts the function in front of the list. */
int ts_parse_function(struct ts_parser *p, struct ts_function **list);
/* Puts the class in front of the file's. */
int ts_parse_class(struct ts_parser *p);

#endif
