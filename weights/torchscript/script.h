/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of TorchScript: the archive, and a machine that runs forward() on
 * values of the importer.
 *
 * The machine computes what is known while the program is read: integers,
 * lists, conditions, attributes of modules, loops.  Every operator on tensors
 * is told to the importer (weights/aten/aten.h) in the order of the program.
 * An integer that depends on a free size of an input is a value of the
 * importer, too.  It executes no code of the file: functions of the program are
 * walked within limits on steps and depth.
 */
#ifndef WEIGHTS_TORCHSCRIPT_SCRIPT_H
#define WEIGHTS_TORCHSCRIPT_SCRIPT_H

#include "weights/aten/aten.h"
#include "weights/pytorch/torch.h"
#include "weights/torchscript/syntax.h"
#include "weights/zip.h"

/* Expressions and statements that one run may evaluate. */
#define TS_MAX_STEPS (1 << 20)
/* Bytes of text, trees and values, beside those of the file. */
#define TS_MAX_BYTES ((size_t)44 << 20)
/* Calls, blocks and expressions within each other. */
#define TS_MAX_DEPTH 1000
/* Operators that one run may tell. */
#define TS_MAX_TOLD (1 << 16)
/* Operators of a program are fewer than this many and one for each KiB of the
 * file: one takes 1.8 KiB until the graph is made. */
#define TS_SMALL_TOLD 24576
/* Items of a list, arguments of a call. */
#define TS_MAX_ITEMS 65536

/* ---- the archive (archive.c) --------------------------------------- */

/* The two pickles, and the folders of their storages. */
enum { TS_DATA, TS_CONSTANTS, TS_PICKLES };

struct ts_archive {
    struct zipfile zip;
    char *folder; /* with its slash */
    bool swapped;
    struct zipfile_data text[TS_PICKLES];
    struct pickle pickle[TS_PICKLES];
    struct torch_source source[TS_PICKLES];
    bool there[TS_PICKLES];
    struct zipfile_data *code; /* by member: what was read */
    struct ts_file **file;     /* by member: what was parsed */
    struct onnx_arena arena;
    size_t nodes; /* of all trees */
    size_t room;  /* bytes that text, trees and a run may still take */
};

/* True where the archive holds a program. */
bool ts_archive_probe(const struct zipfile *zip);
/* Takes its own reference to blob.  EFORMAT, EUNSUPPORTED, EMEMORY. */
int ts_archive_open(struct blob *blob, struct infer_error *err,
                    struct ts_archive *out);
void ts_archive_close(struct ts_archive *a);
/* The bytes of FOLDER/name, counted against the archive's room; data is NULL
 * where there is none. */
int ts_archive_read(struct ts_archive *a, const char *name,
                    struct infer_error *err, struct zipfile_data *out);
/* Makes tensors loadable again after the constants of an attempt are gone. */
void ts_archive_rewind(struct ts_archive *a);
/* The file of module "__torch__.a.b", parsed on its first use.  *out is NULL
 * where there is none. */
int ts_archive_module(struct ts_archive *a, struct pb_span module,
                      struct infer_error *err, const struct ts_file **out);

/* ---- values -------------------------------------------------------- */

enum ts_kind {
    TSV_UNSET,
    TSV_NONE,
    TSV_BOOL,
    TSV_INT,
    TSV_FLOAT,
    TSV_TEXT,
    TSV_TENSOR, /* text: its name */
    TSV_NUMBER, /* the same of a number that the graph computes */
    TSV_LIST,
    TSV_TUPLE,
    TSV_DICT, /* items: key, value, key, value ... */
    TSV_OBJECT,
    TSV_NAMED,  /* a function or class: text, its qualified name */
    TSV_DEVICE, /* also layouts and memory formats: nothing depends on them */
    TSV_OTHER   /* refused where it is used */
};

struct ts_list;
struct ts_object;

struct ts_value {
    enum ts_kind kind;
    bool assumed; /* INT: a type that the file does not state, BOOL: what
                   * follows from one; text: the input */
    int64_t i;    /* BOOL, INT */
    double f;     /* FLOAT */
    struct pb_span text;
    struct ts_list *list; /* LIST, TUPLE, DICT: shared by all who have it */
    struct ts_object *object;
    /* TENSOR of the archive: 1 + node, and of which pickle. */
    uint32_t node;
    int pickle;
};

struct ts_list {
    struct ts_value *item;
    int n, capacity;
};

struct ts_attr {
    struct ts_attr *next;
    struct pb_span name;
    struct ts_value value;
};

/* An object of a module or another class. */
struct ts_object {
    struct pb_span class; /* qualified */
    struct pb_span path;  /* names of attributes from the root, with dots */
    uint32_t node;        /* 1 + its node in data.pkl; 0: made by the program */
    struct ts_attr *attr; /* what was read or set */
};

struct ts_arg {
    struct pb_span name; /* empty: by position */
    struct ts_value value;
};

/* ---- the machine --------------------------------------------------- */

/* Of the input that is followed until its shape is known (guess.c). */
struct ts_guess {
    struct pb_span now; /* the tensor that has its shape */
    struct aten_input *input;
    bool known, other_type; /* `now` may have another type than the input */
};

struct ts_run {
    struct ts_archive *archive;
    struct onnx_import *im; /* NULL: nothing is imported, see guess.c */
    struct infer_error *err;
    struct onnx_arena *arena; /* as long as the run */
    struct aten_program *program;
    struct ts_guess *guess;
    const struct ts_file *file; /* of what is being run, for messages */
    unsigned line;
    size_t steps, compared;
    int depth, told;
    unsigned names;
    int result;  /* code of the first node that was refused */
    bool failed; /* the run ended because it needs what such a node gives */
    struct ts_object **object; /* by node of data.pkl */
    struct pb_span *tensor[TS_PICKLES];
};

int ts_run_open(struct ts_run *r, struct ts_archive *archive);
void ts_run_close(struct ts_run *r);

/* "FILE:LINE: ...", returns code. */
int ts_fail(struct ts_run *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int ts_no_memory(struct ts_run *r);
/* Counts n steps. */
int ts_step(struct ts_run *r, size_t n);
/* Counts n names that a search in a list compared: 64 are a step. */
int ts_compare(struct ts_run *r, size_t n);

/* What the program's forward() takes: fills program->input; other arguments
 * take their defaults. */
int ts_list_inputs(struct ts_run *r);
/* Runs forward() and sets the program's outputs. */
int ts_run_forward(struct ts_run *r);

/* ---- values (value.c) ---------------------------------------------- */

static inline struct ts_value ts_none(void)
{
    return (struct ts_value){.kind = TSV_NONE};
}
static inline struct ts_value ts_int(int64_t i)
{
    return (struct ts_value){.kind = TSV_INT, .i = i};
}
static inline struct ts_value ts_float(double f)
{
    return (struct ts_value){.kind = TSV_FLOAT, .f = f};
}
static inline struct ts_value ts_bool(bool b)
{
    return (struct ts_value){.kind = TSV_BOOL, .i = b};
}
static inline bool ts_is_list(const struct ts_value *v)
{
    return v->kind == TSV_LIST || v->kind == TSV_TUPLE;
}
/* A number that is known. */
static inline bool ts_is_known(const struct ts_value *v)
{
    return v->kind == TSV_INT || v->kind == TSV_FLOAT || v->kind == TSV_BOOL;
}
static inline bool ts_is_value(const struct ts_value *v)
{
    return v->kind == TSV_TENSOR || v->kind == TSV_NUMBER;
}
static inline double ts_real(const struct ts_value *v)
{
    return v->kind == TSV_FLOAT ? v->f : (double)v->i;
}

/* The text a.b in the arena. */
int ts_join(struct ts_run *r, struct pb_span a, const char *between,
            struct pb_span b, struct pb_span *out);
int ts_new_list(struct ts_run *r, enum ts_kind kind, int n,
                struct ts_value *out);
int ts_append(struct ts_run *r, struct ts_list *list,
              const struct ts_value *value);
/* True where two values are equal; EUNSUPPORTED where that is not known. */
int ts_equal(struct ts_run *r, const struct ts_value *a,
             const struct ts_value *b, bool *out);
/* The place of a key's value in a dictionary, or -1. */
int ts_dict_find(struct ts_run *r, const struct ts_list *dict,
                 const struct ts_value *key, int *out);
/* The value of a node of a pickle; path: its name. */
int ts_from_pickle(struct ts_run *r, int which, uint32_t node,
                   struct pb_span path, struct ts_value *out);
int ts_get_attr(struct ts_run *r, const struct ts_value *object,
                struct pb_span name, struct ts_value *out);
int ts_set_attr(struct ts_run *r, const struct ts_value *object,
                struct pb_span name, const struct ts_value *value);
/* CONSTANTS.cN */
int ts_constant(struct ts_run *r, struct pb_span name, struct ts_value *out);

/* ---- the graph (tell.c) -------------------------------------------- */

/* An operator on these arguments.  unread: by output, may be NULL. */
int ts_tell(struct ts_run *r, struct pb_span op, int n,
            const struct ts_arg *arg, int n_out, const bool *unread,
            struct ts_value *out);
/* One with positional arguments and one output. */
int ts_tell1(struct ts_run *r, const char *op, int n,
             const struct ts_value *arg, struct ts_value *out);
/* The number that a tensor of one element holds: known, or of the graph. */
int ts_number(struct ts_run *r, const struct ts_value *tensor,
              struct ts_value *out);
/* Makes a computed number a known one where it is. */
int ts_settle(struct ts_run *r, struct ts_value *v);
/* Whether a value is true; EUNSUPPORTED where that depends on data or on a free
 * size, unless known is not NULL. */
int ts_truth(struct ts_run *r, const struct ts_value *v, bool *known,
             bool *out);
int ts_rank(struct ts_run *r, const struct ts_value *tensor, int *out);
/* Dimension d, negative from the end: -1 where it is free. */
int ts_dim(struct ts_run *r, const struct ts_value *tensor, int64_t d,
           int64_t *out);
int ts_dtype(struct ts_run *r, const struct ts_value *tensor,
             enum infer_dtype *out);
/* The name of the input that the tensor's type follows from, where the file
 * does not state that; else empty. */
int ts_assumed(struct ts_run *r, const struct ts_value *tensor,
               struct pb_span *out);
/* Refuses a decision by the type of such an input. */
int ts_type_unknown(struct ts_run *r, struct pb_span input);
/* PyTorch's number of a type, and back (INFER_NONE for others). */
int64_t ts_type_number(enum infer_dtype dtype);
enum infer_dtype ts_type_of(int64_t number);

/* ---- functions of the language (builtin.c, number.c) --------------- */

/* 1: done; 0: it is another one, an operator on tensors. */
int ts_builtin(struct ts_run *r, struct pb_span name, int n,
               const struct ts_arg *arg, struct ts_value *out);
/* The same for arithmetic on numbers that are known. */
int ts_arithmetic(struct ts_run *r, struct pb_span name, int n,
                  const struct ts_arg *arg, struct ts_value *out);

/* ---- calls (call.c, operator.c) ------------------------------------ */

/* A function of the program on its arguments, self among them. */
int ts_call(struct ts_run *r, const struct ts_function *f, int n,
            const struct ts_arg *arg, struct ts_value *out);
/* A function or class by its qualified name. */
int ts_call_named(struct ts_run *r, struct pb_span name, int n,
                  const struct ts_arg *arg, struct ts_value *out);
int ts_call_method(struct ts_run *r, const struct ts_value *object,
                   struct pb_span name, int n, const struct ts_arg *arg,
                   struct ts_value *out);
/* torch.NAME and ops.SPACE.NAME.  unread: which of the outputs nobody reads,
 * n_unread of them; 0: not known. */
int ts_call_operator(struct ts_run *r, struct pb_span name, int n,
                     const struct ts_arg *arg, int n_unread, const bool *unread,
                     struct ts_value *out);
/* *class is NULL where there is none. */
int ts_find_class(struct ts_run *r, struct pb_span name,
                  const struct ts_class **class);
/* A function of a class; *out is NULL where there is none. */
int ts_find_method(struct ts_run *r, const struct ts_class *c,
                   struct pb_span name, const struct ts_function **out);

/* ---- expressions and statements (run.c) ---------------------------- */

struct ts_frame {
    const struct ts_function *function;
    struct ts_value *slot;
    struct ts_value result;
    bool returned;
};

int ts_evaluate(struct ts_run *r, struct ts_frame *f, const struct ts_node *n,
                struct ts_value *out);
/* Statements of a block. */
int ts_execute(struct ts_run *r, struct ts_frame *f, const struct ts_node *n);

/* ---- what a trace recorded (traced.c) ------------------------------ */

/* Types and sizes of the tensors that forward() was traced with, where the
 * archive has them: stores them in the program's inputs. */
int ts_read_traced(struct ts_archive *a, struct aten_program *program,
                   struct infer_error *err);

/* ---- shapes of inputs (guess.c) ------------------------------------ */

/* The sizes of a tensor of the archive: its rank, or -1. */
int ts_stored_sizes(const struct ts_run *r, const struct ts_value *v,
                    int64_t *dim);
/* Where an input goes into a convolution or a dense layer: its rank and
 * channels, other sizes free.  Inputs of rank -1 stay unknown. */
int ts_guess_inputs(struct ts_archive *archive, struct aten_program *program);
/* Called for each operator of such a run. */
void ts_guess_step(struct ts_run *r, struct pb_span op, int n,
                   const struct ts_arg *arg, const struct ts_value *out);

#endif
