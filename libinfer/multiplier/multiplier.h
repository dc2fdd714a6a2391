/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipliers that need not be exact: tables of their products, from files or
 * from formulas.
 *
 *     formulas.def, formulas.c   built-in formulas, a row each
 *     read.c, lists.c, axm.c     files, recognised by their content
 *     significands.c             integers as significands
 *     slopes.c                   derivatives of products
 *     accumulator.c              how products are added
 *     store.c                    in model files
 *     measure.c                  errors of a table
 */
#ifndef LIBINFER_MULTIPLIER_MULTIPLIER_H
#define LIBINFER_MULTIPLIER_MULTIPLIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/graph.h"

enum multiplier_kind {
    /* Numbers with 8 exponent bits and `bits` mantissa bits, 1 to 11.  Entries
     * are those of kernels/base/product_table.h. */
    MULTIPLIER_FLOAT,
    /* Integers of `bits` bits, 2 to 8.  Entries are products; operands are
     * their low bits, so that -1 of 8 bits is 255. */
    MULTIPLIER_INTEGER
};

#define MULTIPLIER_NAME 64

struct multiplier {
    enum multiplier_kind kind;
    int bits;
    bool is_signed; /* of integers */
    char name[MULTIPLIER_NAME];
    const char *form;       /* what it was read from, in words */
    uint32_t crc;           /* CRC-32 of the table as .axm holds it */
    bool accumulated;       /* products are added by the accumulator */
    int32_t accumulator[2]; /* as kernels/table/accumulator.h has it */
    /* 4^bits entries; that of a (first operand) and b is table[a << bits | b].
     */
    int32_t *table;
};

/* Entries of the table. */
size_t multiplier_entries(const struct multiplier *m);
/* A table of zeros; NULL when out of memory. */
struct multiplier *multiplier_new(enum multiplier_kind kind, int bits);
void multiplier_free(struct multiplier *m); /* NULL is fine */
/* Sets the name: letters, digits, '.', '-' and '_' of the text, '_' for what
 * else is there. */
void multiplier_set_name(struct multiplier *m, const char *text, size_t bytes);
/* Sets the CRC after the table was filled. */
void multiplier_seal(struct multiplier *m);

/* The operand values of an index: of integers the value, of floating point the
 * significand, 1 <= v < 2. */
double multiplier_operand(const struct multiplier *m, int index);
/* Product by the table, of floating point that of the significands. */
double multiplier_product(const struct multiplier *m, int a, int b);

/* EUNSUPPORTED for integers, whose operands would have to be quantised. */
int multiplier_check_float(const struct multiplier *m, struct infer_error *err);
/* The table of a floating-point multiplier as kernels read it fastest: that of
 * a and b is (*out)[b << bits | a].  *out: to be freed.  EUNSUPPORTED for
 * integers, EMEMORY. */
int multiplier_by_columns(const struct multiplier *m, struct infer_error *err,
                          uint32_t **out);

/* The factors of a floating-point multiplier's products as
 * kernels/table/product_factors.h has them, [2][2^m][r] of BF16.  Returns r, 0
 * where none were found; *out: to be freed.  EUNSUPPORTED for integers,
 * EMEMORY. */
int multiplier_factors(const struct multiplier *m, struct infer_error *err,
                       uint16_t **out);

/* Derivatives of the product of significands as kernels/table/product_slope.h
 * has them, with respect to the first or the second operand: that at o, the
 * other operand being q, is (*out)[o << bits | q].  local: the slope of the
 * least-squares line through the products of the operands near o; else through
 * those of all operands, which is the same for every o.  *out: to be freed.
 * EUNSUPPORTED for integers, EMEMORY. */
int multiplier_slopes(const struct multiplier *m, bool local, bool second,
                      struct infer_error *err, float **out);

/* The errors of a multiplier of integers of 8 bits, as kernels/quant/quant.h
 * has them: that of x's code i and w's code k is (*out)[k << 8 | i].  A signed
 * table takes x from its least value on as -128 to 127, an unsigned one x as 0
 * to 255 and w + 128.  *out: to be freed.  EUNSUPPORTED for other tables,
 * EMEMORY. */
int multiplier_errors_by_columns(const struct multiplier *m,
                                 struct infer_error *err, int32_t **out);

/* A multiplier of floating point whose significands a table of integers
 * multiplies: of one bit less than its operands, sign not counted.  Products
 * outside [1, 4) count as the nearest in it.  EUNSUPPORTED: not a table of
 * integers, or of too few bits; EMEMORY. */
int multiplier_of_significands(const struct multiplier *from,
                               struct infer_error *err,
                               struct multiplier **out);

/* Splits "MULTIPLIER,acc=WORD" where it ends so.  *name: the multiplier, to be
 * freed.  1: it has an accumulator, which is filled in; 0: it has none;
 * EARGUMENT with all words in the text for an unknown one, EMEMORY. */
int multiplier_split(const char *text, struct infer_error *err, char **name,
                     int32_t accumulator[2]);
/* Parses a WORD: fp32, bf16 or loa-K. */
int multiplier_read_accumulator(const char *word, struct infer_error *err,
                                int32_t accumulator[2]);
/* The word of an accumulator.  Returns buf. */
#define MULTIPLIER_ACCUMULATOR 16
const char *multiplier_accumulator_word(const int32_t accumulator[2],
                                        char buf[MULTIPLIER_ACCUMULATOR]);
/* Gives a multiplier an accumulator.  EUNSUPPORTED: its sums are integers. */
int multiplier_accumulate(struct multiplier *m, const int32_t accumulator[2],
                          struct infer_error *err);

/* A formula by its name ("mitchell-7"), else a file, or a file's integers as
 * significands ("significands:FILE").  A file of a formula's name needs a
 * folder before it ("./mitchell-7").  Either may end with ",acc=WORD".
 * EARGUMENT: neither; EIO, EFORMAT, EMEMORY.  *out: multiplier_free(). */
int multiplier_open(const char *text, struct infer_error *err,
                    struct multiplier **out);
/* A formula.  EARGUMENT with all formulas in the text if there is none of the
 * name or a parameter is out of its range. */
int multiplier_named(const char *name, struct infer_error *err,
                     struct multiplier **out);
/* One line a formula, i from 0; NULL after the last. */
const char *multiplier_formula(int i, const char **help);
/* A file's content.  path: for its name and messages. */
int multiplier_read(const char *path, const void *data, size_t bytes,
                    struct infer_error *err, struct multiplier **out);

/* Writes our own form (axm.c states its layout). */
int multiplier_write(const struct multiplier *m, const char *path,
                     struct infer_error *err);

/* EFORMAT: an entry of the table is no product; the message begins with name.
 */
int multiplier_check_entries(const struct multiplier *m, const char *name,
                             struct infer_error *err);
/* Gives the graph the multiplier, and layers that multiply exactly all the same
 * (layers.h; NULL: none).  EARGUMENT: a word means no layer; EMEMORY. */
int multiplier_store(const struct multiplier *m, const char *exact,
                     struct graph *g, struct infer_error *err);
/* The graph's multiplier; *out is NULL if it has none.  EIO, EMEMORY; EFORMAT,
 * also for an entry that is no product. */
int multiplier_stored(const struct graph *g, struct infer_error *err,
                      struct multiplier **out);

/* Errors over all pairs of operands.  Those of floating point are of the
 * product of two significands, in [1, 4). */
struct multiplier_errors {
    double rate;          /* share of pairs with a wrong product */
    double mean;          /* bias: mean of table - exact */
    double mean_absolute; /* mean of |table - exact| */
    double worst;         /* table - exact of the largest size ... */
    int worst_a, worst_b; /* ... and where: the first such indices */
    /* |table - exact| / |exact| where exact is not 0 */
    double mean_relative, worst_relative;
    double relative_bias; /* mean of (table - exact) / |exact| */
    bool commutative;
};
/* first, second: how often a pair with each operand counts, not all of them 0;
 * NULL: once each. */
void multiplier_measure(const struct multiplier *m, const double *first,
                        const double *second, struct multiplier_errors *out);

/* ---- the forms of files -------------------------------------------- */

/* Whether all bytes are text. */
bool multiplier_is_text(const unsigned char *data, size_t bytes);
/* Lists of numbers: a C array, or rows of a text file. */
int multiplier_read_list(const char *path, const unsigned char *data,
                         size_t bytes, struct infer_error *err,
                         struct multiplier **out);
bool multiplier_is_axm(const unsigned char *data, size_t bytes);
int multiplier_read_axm(const char *path, const unsigned char *data,
                        size_t bytes, struct infer_error *err,
                        struct multiplier **out);
/* Fills an integer table from 4^bits numbers in rows of the first operand,
 * whose order the file does not state: that order and signedness of which the
 * products are nearest to exact ones.  EFORMAT: a number is no product. */
int multiplier_orient(struct multiplier *m, const int64_t *number,
                      const char *path, struct infer_error *err);

#endif
