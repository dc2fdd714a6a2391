/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about tensors that the importer answers, and tensors of numbers. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/torchscript/builtin.h"

/* ---- tensors ------------------------------------------------------- */

int ts_do_rank_of(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    int rank, rc;

    if (n != 1 || !ts_is_value(&arg[0].value))
        return 0;
    rc = ts_rank(r, &arg[0].value, &rank);
    *out = ts_int(rank);
    return rc < 0 ? rc : 1;
}

/* One size: known, or a value of the graph. */
static int size_at(struct ts_run *r, const struct ts_value *x, int64_t d,
                   struct ts_value *out)
{
    const struct ts_value in[2] = {*x, ts_int(d)};
    int64_t size;
    int rc = ts_dim(r, x, d, &size);

    if (rc < 0)
        return rc;
    *out = ts_int(size);
    if (size >= 0)
        return 0;
    rc = ts_tell1(r, "sym_size", 2, in, out);
    return rc < 0 ? rc : ts_number(r, out, out);
}

int ts_do_size_of(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    int rank, rc;

    if (n < 1 || n > 2 || !ts_is_value(x))
        return 0;
    if (n == 2) {
        if (arg[1].value.kind != TSV_INT)
            return ts_fail(r, INFER_EUNSUPPORTED,
                           "the size of a dimension that is computed");
        rc = size_at(r, x, arg[1].value.i, out);
        return rc < 0 ? rc : 1;
    }
    rc = ts_rank(r, x, &rank);
    if (rc == 0)
        rc = ts_new_list(r, TSV_LIST, rank, out);
    for (int d = 0; rc == 0 && d < rank; d++)
        rc = size_at(r, x, d, &out->list->item[d]);
    return rc < 0 ? rc : 1;
}

int ts_do_count_of(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    int rc;

    if (n != 1 || !ts_is_value(&arg[0].value))
        return 0;
    rc = ts_tell1(r, "sym_numel", 1, &arg[0].value, out);
    if (rc == 0)
        rc = ts_number(r, out, out);
    return rc < 0 ? rc : 1;
}

int ts_do_type_of(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    struct pb_span input = {NULL, 0};
    enum infer_dtype dtype = INFER_NONE;
    int rc;

    if (n != 1 || !ts_is_value(&arg[0].value))
        return 0;
    rc = ts_dtype(r, &arg[0].value, &dtype);
    if (rc == 0)
        rc = ts_assumed(r, &arg[0].value, &input);
    *out = ts_int(ts_type_number(dtype));
    out->assumed = input.bytes > 0;
    out->text = input;
    return rc < 0 ? rc : 1;
}

int ts_do_is_floating(struct ts_run *r, int n, const struct ts_arg *arg,
                      struct ts_value *out)
{
    struct pb_span input = {NULL, 0};
    enum infer_dtype dtype = INFER_NONE;
    int rc;

    if (n != 1 || !ts_is_value(&arg[0].value))
        return 0;
    rc = ts_dtype(r, &arg[0].value, &dtype);
    if (rc == 0)
        rc = ts_assumed(r, &arg[0].value, &input);
    *out = ts_bool(aten_is_float(dtype));
    out->assumed = input.bytes > 0;
    out->text = input;
    return rc < 0 ? rc : 1;
}

/* A tensor of one element from a number. */
int ts_do_from_number(struct ts_run *r, int n, const struct ts_arg *arg,
                      struct ts_value *out)
{
    int rc;

    if (n != 1)
        return 0;
    if (ts_is_value(&arg[0].value)) {
        *out = arg[0].value;
        out->kind = TSV_TENSOR;
        return 1;
    }
    rc = ts_tell1(r, "scalar_tensor", 1, &arg[0].value, out);
    return rc < 0 ? rc : 1;
}

int ts_do_item_of(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    const int rc = n == 1 ? ts_number(r, &arg[0].value, out) : 0;

    return rc < 0 ? rc : n == 1;
}

/* int(), float() and bool() of what the graph computes. */
static int cast(struct ts_run *r, const struct ts_arg *arg, int64_t type,
                struct ts_value *out)
{
    struct ts_arg list[2] = {
        arg[0], {.name = {(unsigned char *)"dtype", 5}, .value = ts_int(type)}};
    struct pb_span op = {(unsigned char *)"_to_copy", 8};
    enum infer_dtype own;
    int rc;

    if (!ts_is_value(&arg[0].value))
        return 0;
    rc = ts_dtype(r, &arg[0].value, &own);
    if (rc == 0 && own == ts_type_of(type))
        rc = ts_number(r, &arg[0].value, out);
    else if (rc == 0 && (rc = ts_tell(r, op, 2, list, 1, NULL, out)) == 0)
        rc = ts_number(r, out, out);
    return rc < 0 ? rc : 1;
}

int ts_do_to_int(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    return n == 1 ? cast(r, arg, 4, out) : 0;
}

int ts_do_to_float(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    return n == 1 ? cast(r, arg, 6, out) : 0;
}

int ts_do_to_bool(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    bool truth = false, known = true;

    if (n != 1)
        return 0;
    if (x->assumed)
        return ts_type_unknown(r, x->text);
    if (!ts_is_known(x) && !ts_is_value(x))
        return ts_do_length(r, n, arg, out) == 1
                   ? (*out = ts_bool(out->i != 0), 1)
                   : 0;
    if (ts_truth(r, x, &known, &truth) < 0)
        return r->failed ? r->result : r->err->code;
    *out = ts_bool(truth);
    if (!known) {
        *out = *x;
        out->kind = TSV_NUMBER;
    }
    return 1;
}

/* floor() and ceil() of a number of the graph are integers. */
static int to_whole(struct ts_run *r, const char *op, const struct ts_arg *arg,
                    struct ts_value *out)
{
    struct ts_arg whole = {.name = {NULL, 0}};
    int rc;

    if (arg[0].value.kind != TSV_NUMBER)
        return 0;
    rc = ts_tell1(r, op, 1, &arg[0].value, &whole.value);
    return rc < 0 ? rc : cast(r, &whole, 4, out);
}

int ts_do_floor_of(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    return n == 1 ? to_whole(r, "floor", arg, out) : 0;
}

int ts_do_ceil_of(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    return n == 1 ? to_whole(r, "ceil", arg, out) : 0;
}

/* ---- tensors of numbers -------------------------------------------- */

/* The shape of nested lists: their rank, or -1. */
static int list_shape(const struct ts_value *v, int64_t *dim)
{
    int rank = 0;

    while (ts_is_list(v) && rank < INFER_MAX_RANK) {
        dim[rank++] = v->list->n;
        if (v->list->n == 0)
            return rank;
        v = &v->list->item[0];
    }
    return ts_is_list(v) ? -1 : rank;
}

/* Writes the numbers of nested lists; false where they are of another shape or
 * are not known. */
static bool store(const struct ts_value *v, int depth, int rank,
                  const int64_t *dim, double **to, bool *real)
{
    if (depth == rank) {
        *real |= v->kind == TSV_FLOAT;
        *(*to)++ = ts_is_known(v) ? ts_real(v) : 0;
        return ts_is_known(v);
    }
    if (!ts_is_list(v) || v->list->n != dim[depth])
        return false;
    for (int i = 0; i < v->list->n; i++)
        if (!store(&v->list->item[i], depth + 1, rank, dim, to, real))
            return false;
    return true;
}

/* A constant of the numbers in nested lists.  1: done; 0: they are computed. */
static int constant_of(struct ts_run *r, const struct ts_value *v,
                       enum infer_dtype dtype, struct ts_value *out)
{
    int64_t dim[INFER_MAX_RANK], count = 1;
    const int rank = list_shape(v, dim);
    double *number, *to;
    struct constant *c;
    bool real = false;

    for (int d = 0; d < rank; d++)
        count = count > TS_MAX_ITEMS ? count : count * dim[d];
    if (rank < 0 || count > TS_MAX_ITEMS)
        return ts_fail(r, INFER_EUNSUPPORTED, "a list that is no tensor");
    if (ts_step(r, (size_t)count) < 0)
        return r->err->code;
    number = to = onnx_alloc(r->arena, (size_t)(count + 1) * sizeof *number);
    if (!number)
        return ts_no_memory(r);
    if (!store(v, 0, rank, dim, &to, &real))
        return 0;
    if (dtype == INFER_NONE)
        dtype = real || count == 0 ? INFER_F32 : INFER_I64;
    c = constant_new(dtype, rank, dim);
    for (int64_t i = 0; c && i < count; i++)
        scalar_store(dtype, c->data, i, number[i]);
    *out = (struct ts_value){.kind = TSV_TENSOR};
    out->text = onnx_step_constant(r->im, c);
    if (r->im->rc < 0) {
        r->im->rc = 0;
        return ts_no_memory(r);
    }
    return 1;
}

/* The same, within `depth` lists: a list may hold itself. */
static int tensor_of(struct ts_run *r, int n, const struct ts_arg *arg,
                     int depth, struct ts_value *out)
{
    struct ts_value parts;
    struct ts_arg scalar[2] = {arg[0]};
    enum infer_dtype dtype = INFER_NONE;
    const struct ts_value *v = &arg[0].value;
    int used = 1, rc;

    if (n < 1)
        return 0;
    for (int i = 1; i < n; i++)
        if (pb_span_is(arg[i].name, "dtype") && arg[i].value.kind == TSV_INT) {
            if (used == 2) /* a second one */
                return 0;
            scalar[used++] = arg[i];
            dtype = ts_type_of(arg[i].value.i);
        }
    if (ts_is_known(v) || ts_is_value(v))
        rc = ts_tell(r, (struct pb_span){(unsigned char *)"scalar_tensor", 13},
                     used, scalar, 1, NULL, out);
    else if (!ts_is_list(v))
        return 0;
    else if (!r->im)
        return ts_fail(r, INFER_EUNSUPPORTED, "no tensors of numbers here");
    else if (depth >= INFER_MAX_RANK)
        return ts_fail(r, INFER_EUNSUPPORTED, "a list that is no tensor");
    else if ((rc = constant_of(r, v, dtype, out)) == 0) {
        rc = ts_new_list(r, TSV_LIST, v->list->n, &parts);
        for (int i = 0; i < v->list->n && rc == 0; i++) {
            scalar[0].value = v->list->item[i];
            rc = tensor_of(r, used, scalar, depth + 1, &parts.list->item[i]);
            rc = rc < 0 ? rc : 0;
        }
        if (rc == 0)
            rc = ts_tell1(r, "stack", 1, &parts, out);
    }
    return rc < 0 ? rc : 1;
}

/* tensor(numbers, dtype=...) */
int ts_do_tensor(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    return tensor_of(r, n, arg, 0, out);
}
