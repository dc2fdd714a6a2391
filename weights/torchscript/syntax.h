/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of TorchScript's archives (code/ *.py) as trees.
 *
 * PyTorch prints programs in a small part of Python: classes with methods,
 * functions, assignments, if, for over a range, while, with, return;
 * expressions are names, literals, calls, attributes, indices and slices. There
 * are no operators but the minus of numbers.  Everything else is refused with
 * file and line.
 *
 * Untrusted: nesting, nodes and sizes are bounded (TS_MAX_*); nothing is
 * executed by the parser.
 */
#ifndef WEIGHTS_TORCHSCRIPT_SYNTAX_H
#define WEIGHTS_TORCHSCRIPT_SYNTAX_H

#include "weights/onnx/proto.h"

/* Of one file. */
#define TS_MAX_SOURCE ((size_t)32 << 20)
/* Of all files together: nodes of trees, functions and classes. */
#define TS_MAX_NODES (1 << 20)
/* Of expressions and blocks within each other. */
#define TS_MAX_NESTING 128
/* Kids of one node, names of one function. */
#define TS_MAX_KIDS  65536
#define TS_MAX_SLOTS 65536

enum ts_syntax {
    /* expressions */
    TS_NAME,      /* text; slot of the function's variable */
    TS_QUALIFIED, /* text: a.b.c of torch, ops, CONSTANTS or __torch__ */
    TS_INTEGER,   /* i */
    TS_REAL,      /* f */
    TS_STRING,    /* text, without its escapes */
    TS_TRUE,
    TS_FALSE,
    TS_NONE,
    TS_LIST,
    TS_TUPLE,
    TS_DICT,    /* kids: key, value, key, value ... */
    TS_CALL,    /* kids: callee, arguments */
    TS_KEYWORD, /* an argument by name: text, kid 0 */
    TS_ATTR,    /* kid 0, text */
    TS_INDEX,   /* kid 0, kid 1 */
    TS_SLICE,   /* kid 0, begin, end; either may be NULL */
    TS_NEGATIVE,
    /* statements */
    TS_BLOCK,
    TS_EVALUATE, /* kid 0 */
    TS_ASSIGN,   /* kids: targets, value; TS_UNPACK: the same, taken apart */
    TS_UNPACK,
    TS_RETURN, /* kid 0 */
    TS_IF,     /* condition, block, block; the last may be NULL */
    TS_FOR,    /* variable, number of turns, block */
    TS_WHILE,  /* condition, block */
    TS_WITH,   /* context manager, block */
    TS_PASS
};

struct ts_node {
    enum ts_syntax kind;
    unsigned line;
    int slot, n;
    struct ts_node **kid;
    struct pb_span text;
    int64_t i;
    double f;
};

struct ts_param {
    struct pb_span name;
    const struct ts_node *type;      /* NULL: not stated */
    const struct ts_node *otherwise; /* NULL: must be given */
    int slot;
};

struct ts_file;

struct ts_function {
    const struct ts_file *file;
    struct ts_function *next;
    struct pb_span name;
    struct ts_param *param;
    int n_params;
    const struct ts_node *body;
    int slots;           /* variables, parameters among them */
    unsigned char *read; /* by slot: whether anything reads the variable */
    unsigned line;
};

/* A constant or a field of a class. */
struct ts_field {
    struct ts_field *next;
    struct pb_span name;
    const struct ts_node *type;  /* may be NULL */
    const struct ts_node *value; /* may be NULL */
};

struct ts_class {
    struct ts_class *next;
    struct pb_span name, base; /* base: of the parentheses, or empty */
    struct ts_function *function;
    struct ts_field *field, *last_field;
};

struct ts_file {
    char *path; /* code/__torch__/... */
    struct ts_function *function;
    struct ts_class *class;
};

/* ---- tokens (lex.c) ------------------------------------------------ */

enum ts_token {
    TS_END,
    TS_NEWLINE,
    TS_INDENT,
    TS_DEDENT,
    TS_WORD,
    TS_INT,
    TS_FLOAT,
    TS_TEXT,
    TS_SIGN /* one of ()[]{},:.=-  or -> as '>' */
};

struct ts_lexer {
    const struct ts_file *file;
    struct onnx_arena *arena;
    struct infer_error *err;
    const unsigned char *at, *end;
    unsigned line;
    int brackets, indents, pending;
    int indent[TS_MAX_NESTING + 1];
    bool line_start;
    /* The current token. */
    enum ts_token token;
    int sign;
    struct pb_span text;
    int64_t i;
    double f;
};

int ts_lexer_open(struct ts_lexer *l, const unsigned char *data, size_t bytes);
/* Goes to the next token. */
int ts_next(struct ts_lexer *l);
/* EFORMAT "FILE:LINE: what". */
int ts_bad(struct ts_lexer *l, const char *what);

/* ---- the parser (parse.c) ------------------------------------------ */

/* Fills file->function and file->class, in the arena; the source must stay.
 * *nodes counts what all files together hold. */
int ts_parse(struct ts_file *file, const unsigned char *data, size_t bytes,
             struct onnx_arena *arena, size_t *nodes, struct infer_error *err);

#endif
