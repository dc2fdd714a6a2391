/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Einsum, as products of matrices.
 *
 * An operand is a value and the label of each dimension.  Labels are letters;
 * the dimensions of "..." get labels of their own, counted from the last.
 * Operands are joined from left to right: labels that neither the result nor a
 * later operand has are summed, those that both have are batches, the others
 * are rows and columns.
 */
#include <string.h>

#include "weights/onnx/composed/compose.h"

/* Labels of the dimensions of "...", the last one first. */
#define DOTS 1

struct operand {
    int value, rank;
    unsigned char label[INFER_MAX_RANK + 1];
};

struct equation {
    struct operand *in;
    int n;
    struct operand out; /* without a value */
};

static int find(const struct operand *o, unsigned char label)
{
    for (int d = 0; d < o->rank; d++)
        if (o->label[d] == label)
            return d;
    return -1;
}

/* ---- the equation -------------------------------------------------- */

/* Appends a label, as far as there is room. */
static void append(struct onnx_import *im, struct operand *o,
                   unsigned char label)
{
    if (o->rank >= INFER_MAX_RANK)
        onnx_fail(im, INFER_EUNSUPPORTED, "more than %d labels",
                  INFER_MAX_RANK);
    else
        o->label[o->rank++] = label;
}

/* The labels of one term; `dots` is how many dimensions "..." stands for. */
static void read_term(struct onnx_import *im, const char *text, size_t n,
                      int dots, struct operand *o)
{
    o->rank = 0;
    for (size_t i = 0; i < n && im->rc == 0; i++) {
        const char c = text[i];

        if (c == ' ')
            continue;
        if (c == '.') {
            if (i + 2 >= n || text[i + 1] != '.' || text[i + 2] != '.')
                onnx_fail(im, INFER_EFORMAT, "a single dot in the equation");
            for (int d = dots; d > 0; d--)
                append(im, o, (unsigned char)(DOTS + d - 1));
            i += 2;
        } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
            append(im, o, (unsigned char)c);
        } else {
            onnx_fail(im, INFER_EFORMAT, "'%c' in the equation",
                      c >= 32 && c < 127 ? c : '?');
        }
    }
}

/* Letters of a term, and whether it has dots. */
static int letters_of(const char *text, size_t n, bool *dots)
{
    int letters = 0;

    *dots = false;
    for (size_t i = 0; i < n; i++) {
        *dots = *dots || text[i] == '.';
        letters += text[i] != '.' && text[i] != ' ';
    }
    return letters;
}

/* Without "->", the result has every label that appears once, in the order of
 * the alphabet, behind the dots. */
static void implicit_output(struct onnx_import *im, struct equation *e,
                            int dots)
{
    for (int d = dots; d > 0; d--)
        append(im, &e->out, (unsigned char)(DOTS + d - 1));
    for (int c = 'A'; c <= 'z'; c++) {
        int times = 0;

        for (int i = 0; i < e->n; i++)
            for (int d = 0; d < e->in[i].rank; d++)
                times += e->in[i].label[d] == c;
        if (times == 1)
            append(im, &e->out, (unsigned char)c);
    }
}

/* Length of a term that begins at text[0]: up to a comma or "->". */
static size_t term_length(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && text[i] != ',' && text[i] != '-')
        i++;
    return i;
}

static int read_equation(struct onnx_import *im, struct equation *e)
{
    const struct onnx_attr *a = onnx_attr(im, "equation");
    const char *text;
    int most = 0;
    size_t at = 0, n;

    if (!a || a->type != ONNX_ATTR_STRING)
        return onnx_fail(im, INFER_EFORMAT, "no equation");
    text = a->s.data ? (const char *)a->s.data : "";
    n = a->s.bytes;
    for (int i = 0; i < e->n && im->rc == 0; i++) {
        const size_t length = term_length(text + at, n - at);
        struct operand *o = &e->in[i];
        bool dots;
        int letters = letters_of(text + at, length, &dots);

        o->value = compose_input(im, i);
        letters = dots ? compose_rank(im, o->value) - letters : 0;
        if (letters < 0 || letters > INFER_MAX_RANK)
            onnx_fail(im, INFER_EFORMAT, "term %d has too many labels", i);
        read_term(im, text + at, length, letters, o);
        if (im->rc == 0 && o->rank != compose_rank(im, o->value))
            onnx_fail(im, INFER_EFORMAT,
                      "term %d has %d labels for %d "
                      "dimensions",
                      i, o->rank, compose_rank(im, o->value));
        most = letters > most ? letters : most;
        at += length;
        if (i + 1 < e->n && (at >= n || text[at++] != ','))
            onnx_fail(im, INFER_EFORMAT, "fewer terms than inputs");
    }
    if (im->rc == 0 && at == n)
        implicit_output(im, e, most);
    else if (im->rc == 0 && (at + 1 >= n || text[at + 1] != '>'))
        onnx_fail(im, INFER_EFORMAT, "more terms than inputs");
    else if (im->rc == 0)
        read_term(im, text + at + 2, n - at - 2, most, &e->out);
    return im->rc;
}

/* Labels of the result appear once, and in a term. */
static int check_output(struct onnx_import *im, const struct equation *e)
{
    for (int d = 0; d < e->out.rank && im->rc == 0; d++) {
        bool there = find(&e->out, e->out.label[d]) == d;
        bool known = false;

        for (int i = 0; i < e->n; i++)
            known = known || find(&e->in[i], e->out.label[d]) >= 0;
        if (!there || !known)
            onnx_fail(im, INFER_EFORMAT,
                      "label %d of the result is no label of one input", d);
    }
    return im->rc;
}

/* ---- one operand --------------------------------------------------- */

static void remove_label(struct operand *o, int d)
{
    memmove(o->label + d, o->label + d + 1, (size_t)(o->rank - d - 1));
    o->rank--;
}

static void sum_over(struct onnx_import *im, struct operand *o, int d)
{
    o->value = compose_squeeze(
        im, compose_reduce(im, KERN_REDUCE_SUM, o->value, d), d);
    remove_label(o, d);
}

/* A label that stands twice keeps the elements where both indices agree: the
 * others become 0, and one of the dimensions is summed. */
static void take_diagonal(struct onnx_import *im, struct operand *o, int a,
                          int b)
{
    const int64_t n = compose_dim(im, o->value, a);
    const int rank = compose_rank(im, o->value);
    const int same =
        compose_binary(im, KERN_EQUAL, compose_count(im, n, rank, a),
                       compose_count(im, n, rank, b));

    if (compose_dim(im, o->value, b) != n)
        onnx_fail(im, INFER_EFORMAT, "a diagonal of %lldx%lld elements",
                  (long long)n, (long long)compose_dim(im, o->value, b));
    o->value = compose_where(
        im, same, o->value, compose_number(im, compose_dtype(im, o->value), 0));
    sum_over(im, o, b);
}

static void take_diagonals(struct onnx_import *im, struct operand *o)
{
    for (int b = o->rank - 1; b > 0 && im->rc == 0; b--) {
        const int a = find(o, o->label[b]);

        if (a < b)
            take_diagonal(im, o, a, b);
    }
}

/* The dimensions in the order of `like`; labels that it lacks come last, those
 * that o lacks are left out. */
static void arrange(struct onnx_import *im, struct operand *o,
                    const unsigned char *like, int n)
{
    int64_t order[INFER_MAX_RANK];
    struct operand to = {.rank = 0};
    bool moved = false;

    for (int i = 0; i < n; i++)
        if (find(o, like[i]) >= 0)
            to.label[to.rank++] = like[i];
    for (int d = 0; d < o->rank; d++)
        if (find(&to, o->label[d]) < 0)
            to.label[to.rank++] = o->label[d];
    for (int d = 0; d < to.rank; d++) {
        order[d] = find(o, to.label[d]);
        moved = moved || order[d] != d;
    }
    to.value =
        moved ? compose_transpose(im, o->value, o->rank, order) : o->value;
    *o = to;
}

/* ---- two operands -------------------------------------------------- */

/* True where the result or an operand from `from` on has the label. */
static bool is_needed(const struct equation *e, int from, unsigned char label)
{
    if (find(&e->out, label) >= 0)
        return true;
    for (int i = from; i < e->n; i++)
        if (find(&e->in[i], label) >= 0)
            return true;
    return false;
}

/* The labels of a that are in b or not, and needed later or not. */
static int pick(const struct equation *e, int next, const struct operand *a,
                const struct operand *b, bool in_b, bool needed,
                unsigned char *out)
{
    int n = 0;

    for (int d = 0; d < a->rank; d++)
        if ((find(b, a->label[d]) >= 0) == in_b &&
            is_needed(e, next, a->label[d]) == needed)
            out[n++] = a->label[d];
    return n;
}

/* The last `n` dimensions as one; batches before them stay. */
static int merge(struct onnx_import *im, int value, int batches, int n, int m)
{
    int64_t dim[INFER_MAX_RANK] = {0}, size[2] = {1, 1};

    for (int i = 0; i < n + m; i++) {
        int64_t *s = &size[i >= n];
        const int64_t d = compose_free_dim(im, value, batches + i);

        *s = d < 0 || *s < 0 ? -1 : *s * d;
    }
    dim[batches] = size[0];
    dim[batches + 1] = size[1];
    if (size[0] < 0 && size[1] < 0)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "two free sizes in one product; --input-shape fixes them");
    return n == 1 && m == 1 ? value
                            : compose_reshape(im, value, batches + 2, dim);
}

/* Sizes of a value's dimensions, for a reshape: at most one is -1. */
static void sizes_of(struct onnx_import *im, const struct operand *o,
                     const unsigned char *label, int n, int64_t *dim)
{
    for (int i = 0; i < n; i++)
        dim[i] = compose_free_dim(im, o->value, find(o, label[i]));
}

static void join(struct onnx_import *im, const struct equation *e, int next,
                 struct operand *a, struct operand *b)
{
    unsigned char batch[INFER_MAX_RANK], rows[INFER_MAX_RANK];
    unsigned char columns[INFER_MAX_RANK], inner[INFER_MAX_RANK];
    unsigned char order[2 * INFER_MAX_RANK];
    int64_t dim[2 * INFER_MAX_RANK] = {0};
    int n_batch, n_rows, n_columns, n_inner, rank;

    for (int d = a->rank - 1; d >= 0; d--)
        if (find(b, a->label[d]) < 0 && !is_needed(e, next, a->label[d]))
            sum_over(im, a, d);
    for (int d = b->rank - 1; d >= 0; d--)
        if (find(a, b->label[d]) < 0 && !is_needed(e, next, b->label[d]))
            sum_over(im, b, d);
    n_batch = pick(e, next, a, b, true, true, batch);
    n_inner = pick(e, next, a, b, true, false, inner);
    n_rows = pick(e, next, a, b, false, true, rows);
    n_columns = pick(e, next, b, a, false, true, columns);
    rank = n_batch + n_rows + n_columns;
    if (im->rc == 0 && (rank > INFER_MAX_RANK || n_batch + 2 > INFER_MAX_RANK))
        onnx_fail(im, INFER_EUNSUPPORTED, "a product of more than %d labels",
                  INFER_MAX_RANK);
    if (im->rc < 0)
        return;
    memcpy(order, batch, (size_t)n_batch);
    memcpy(order + n_batch, rows, (size_t)n_rows);
    memcpy(order + n_batch + n_rows, inner, (size_t)n_inner);
    arrange(im, a, order, n_batch + n_rows + n_inner);
    memcpy(order + n_batch, columns, (size_t)n_columns);
    memcpy(order + n_batch + n_columns, inner, (size_t)n_inner);
    arrange(im, b, order, n_batch + n_columns + n_inner);
    sizes_of(im, a, rows, n_rows, dim + n_batch);
    sizes_of(im, b, columns, n_columns, dim + n_batch + n_rows);
    a->value = compose_matmul(im, merge(im, a->value, n_batch, n_rows, n_inner),
                              merge(im, b->value, n_batch, n_columns, n_inner),
                              true, 1);
    if (n_rows != 1 || n_columns != 1)
        a->value = compose_reshape(im, a->value, rank, dim);
    memcpy(a->label + n_batch, rows, (size_t)n_rows);
    memcpy(a->label + n_batch + n_rows, columns, (size_t)n_columns);
    a->rank = rank;
}

/* ---- the operator -------------------------------------------------- */

int onnx_import_einsum(struct onnx_import *im)
{
    struct equation e = {.n = im->node->n_in};

    onnx_arity(im, 1, -1);
    e.in = onnx_alloc(&im->scratch, (size_t)e.n * sizeof(*e.in));
    if (!e.in)
        return onnx_no_memory(im);
    for (int i = 0; i < e.n; i++)
        if (!onnx_has_input(im, i))
            return onnx_fail(im, INFER_EFORMAT, "input %d is missing", i);
    if (read_equation(im, &e) < 0 || check_output(im, &e) < 0)
        return im->rc;
    for (int i = 0; i < e.n; i++)
        take_diagonals(im, &e.in[i]);
    for (int i = 1; i < e.n && im->rc == 0; i++)
        join(im, &e, i + 1, &e.in[0], &e.in[i]);
    for (int d = e.in[0].rank - 1; d >= 0 && im->rc == 0; d--)
        if (find(&e.out, e.in[0].label[d]) < 0)
            sum_over(im, &e.in[0], d);
    arrange(im, &e.in[0], e.out.label, e.out.rank);
    return compose_output(im, 0, e.in[0].value);
}
