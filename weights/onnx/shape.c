/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that only move or rename elements. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

static int out_of_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* ---- Reshape ------------------------------------------------------- */

/* The target shape at every probe, with 0 and -1 resolved. */
struct target {
    int rank;
    int64_t dim[ONNX_PROBES][INFER_MAX_RANK];
    bool copies[INFER_MAX_RANK]; /* the input's size at that place */
};

/* True where the batch is free and dimension 0 of input 0 varies with it. */
static int leads_with_batch(struct onnx_import *im, bool *out,
                            struct infer_error *err)
{
    struct graph_type a, b;
    int rc = onnx_input_type(im, 0, 0, &a, err);

    if (rc == 0)
        rc = onnx_input_type(im, 0, im->probes - 1, &b, err);
    *out = rc == 0 && a.rank > 0 && a.dim[0] != b.dim[0];
    return rc;
}

static int resolve_target(struct onnx_import *im, int p, bool allow_zero,
                          const int64_t *want, struct target *t,
                          struct infer_error *err)
{
    int64_t *dim = t->dim[p], known = 1, total;
    struct graph_type in;
    int i, open = -1, rc = onnx_input_type(im, 0, p, &in, err);

    if (rc < 0)
        return rc;
    for (i = 0; i < t->rank; i++) {
        bool copy = t->copies[i] || (want[i] == 0 && !allow_zero);

        if (allow_zero && want[i] == 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "allowzero with a target size of 0");
        if (copy && i >= in.rank)
            return error_set(err, INFER_EFORMAT,
                             "entry %d copies a dimension that the input does "
                             "not have",
                             i);
        dim[i] = copy ? in.dim[i] : want[i];
        t->copies[i] |= copy;
        if (dim[i] == -1 && open < 0)
            open = i;
        else if (dim[i] < 0)
            return error_set(err, INFER_EFORMAT, "entry %d is %lld%s", i,
                             (long long)dim[i],
                             dim[i] == -1 ? ", a second open size" : "");
        else if (!checked_mul_i64(known, dim[i], &known))
            return error_set(err, INFER_EFORMAT, "the target overflows");
    }
    if (!checked_count(in.rank, in.dim, &total))
        return error_set(err, INFER_EFORMAT, "the input overflows");
    if (open >= 0 ? known == 0 || total % known != 0 : known != total)
        return error_set(err, INFER_EFORMAT,
                         "%lld elements do not fit the target (%lld)",
                         (long long)total, (long long)known);
    if (open >= 0)
        dim[open] = total / known;
    return 0;
}

/* The target as the graph states it: a size that does not vary stays, one that
 * follows the input's at the same place becomes 0, another one the rest. */
static int state_target(struct onnx_import *im, const struct target *t,
                        int64_t *out, struct infer_error *err)
{
    struct graph_type in;
    bool open = false;
    int i, p, rc;

    for (i = 0; i < t->rank; i++) {
        bool fixed = true, copies = true;

        for (p = 0; p < im->probes; p++) {
            rc = onnx_input_type(im, 0, p, &in, err);
            if (rc < 0)
                return rc;
            fixed &= t->dim[p][i] == t->dim[0][i];
            copies &= i < in.rank && t->dim[p][i] == in.dim[i];
        }
        if (fixed && t->dim[0][i] > 0) {
            out[i] = t->dim[0][i];
        } else if (copies) {
            out[i] = 0;
        } else if (!fixed && !open) {
            out[i] = -1;
            open = true;
        } else {
            return error_set(err, INFER_EUNSUPPORTED,
                             fixed ? "a target size of 0"
                                   : "two target sizes depend on the batch");
        }
    }
    return 0;
}

/* Emits the reshape, or applies it to a constant. */
static int apply_target(struct onnx_import *im, const struct target *t,
                        struct infer_error *err)
{
    int64_t dim[INFER_MAX_RANK] = {0};
    struct constant *c;
    int in, rc = onnx_input_constant(im, 0, &c, err);

    if (rc < 0)
        return rc;
    if (c) { /* same count at every probe, so the same shape */
        c = constant_reshape(c, t->rank, t->dim[0]);
        if (!c)
            return out_of_memory(err);
        return onnx_set_constant(im, 0, c, err);
    }
    rc = state_target(im, t, dim, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_dims(im, GRAPH_RESHAPE, in, t->rank, dim, 0, NULL, err);
}

/* Entries of the target at probe p: an attribute before opset 5. */
static int wanted(struct onnx_import *im, int p, int64_t *want, int *n,
                  struct infer_error *err)
{
    const struct onnx_small *const *s;
    int k, rc;

    *n = -1;
    if (im->opset < 5) {
        rc = onnx_ints(im, "shape", INFER_MAX_RANK, want, n, err);
        if (rc == 0 && *n < 0)
            rc = error_set(err, INFER_EFORMAT, "no target shape");
        return rc;
    }
    rc = onnx_input_small(im, 1, &s, err);
    if (rc < 0)
        return rc;
    if (!s)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the target shape must not depend on data");
    if (!s[p]->i || s[p]->rank > 1 || s[p]->count > INFER_MAX_RANK)
        return error_set(err, INFER_EFORMAT,
                         "the target shape is no list of at most %d integers",
                         INFER_MAX_RANK);
    for (k = 0; k < (int)s[p]->count; k++)
        want[k] = s[p]->i[k];
    *n = k;
    return 0;
}

int onnx_import_reshape(struct onnx_import *im, int param,
                        struct infer_error *err)
{
    int64_t want[INFER_MAX_RANK] = {0};
    bool allow_zero = false, batch = false;
    struct target t;
    int p, n, rc;

    (void)param;
    memset(&t, 0, sizeof(t));
    rc = onnx_arity(im, im->opset < 5 ? 1 : 2, im->opset < 5 ? 1 : 2, err);
    if (rc == 0)
        rc = onnx_flag(im, "allowzero", &allow_zero, err);
    if (rc == 0)
        rc = leads_with_batch(im, &batch, err);
    for (p = 0; p < im->probes && rc == 0; p++) {
        rc = wanted(im, p, want, &n, err);
        if (rc < 0)
            break;
        if (p > 0 && n != t.rank)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the rank depends on the batch");
        t.rank = n;
        /* The file says 1 where it means its batch. */
        if (im->freed_batch && batch && n > 0 && want[0] == 1)
            t.copies[0] = true;
        rc = resolve_target(im, p, allow_zero, want, &t, err);
    }
    if (rc < 0)
        return rc;
    return apply_target(im, &t, err);
}

/* ---- Squeeze and Unsqueeze ----------------------------------------- */

static int normalise_axes(int64_t *axis, int n, int rank,
                          struct infer_error *err)
{
    uint32_t seen = 0;
    int i, k = 0;

    for (i = 0; i < n; i++) {
        int64_t a = axis[i] < 0 ? axis[i] + rank : axis[i];

        if (a < 0 || a >= rank || seen >> a & 1)
            return error_set(err, INFER_EFORMAT,
                             "axis %lld is repeated or outside rank %d",
                             (long long)axis[i], rank);
        seen |= UINT32_C(1) << a;
    }
    for (i = 0; i < rank; i++)
        if (seen >> i & 1)
            axis[k++] = i;
    return 0;
}

/* All dimensions that are 1 whatever the batch. */
static int ones(struct onnx_import *im, int64_t *axis, int *n,
                struct infer_error *err)
{
    struct graph_type t;
    int d, p, rc, rank = INFER_MAX_RANK;

    *n = 0;
    for (d = 0; d < rank; d++) {
        bool one = true;

        for (p = 0; p < im->probes; p++) {
            rc = onnx_input_type(im, 0, p, &t, err);
            if (rc < 0)
                return rc;
            rank = t.rank;
            one &= d < rank && t.dim[d] == 1;
        }
        if (one)
            axis[(*n)++] = d;
    }
    return 0;
}

/* A constant without, or with more, dimensions of size 1. */
static int reshape_ones(struct onnx_import *im, struct constant *c,
                        bool squeeze, const int64_t *axis, int n,
                        struct infer_error *err)
{
    int rank = squeeze ? c->rank : c->rank + n, out = 0, from = 0, d;
    int64_t dim[INFER_MAX_RANK];

    for (d = 0; d < rank; d++) {
        bool listed = n > 0 && axis[0] == d;

        if (listed) {
            axis++;
            n--;
        }
        if (squeeze && listed && c->dim[d] != 1)
            return error_set(err, INFER_EFORMAT, "dimension %d is %lld", d,
                             (long long)c->dim[d]);
        if (squeeze && !listed)
            dim[out++] = c->dim[d];
        if (!squeeze)
            dim[out++] = listed ? 1 : c->dim[from++];
    }
    c = constant_reshape(c, out, dim);
    if (!c)
        return out_of_memory(err);
    return onnx_set_constant(im, 0, c, err);
}

int onnx_import_ones(struct onnx_import *im, int op, struct infer_error *err)
{
    bool squeeze = op == GRAPH_SQUEEZE;
    int64_t axis[INFER_MAX_RANK];
    struct graph_type t;
    struct constant *c;
    int in, n = -1, rc = onnx_arity(im, 1, 2, err);

    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_axes(im, "axes", 1, 13, axis, &n, err);
    if (rc == 0 && n < 0 && squeeze)
        rc = ones(im, axis, &n, err);
    if (rc < 0)
        return rc;
    if (n < 0 || (!squeeze && t.rank + n > INFER_MAX_RANK))
        return error_set(err, INFER_EFORMAT,
                         n < 0 ? "no axes" : "too many dimensions");
    rc = normalise_axes(axis, n, squeeze ? t.rank : t.rank + n, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 0, &c, err);
    if (rc < 0)
        return rc;
    if (c)
        return reshape_ones(im, c, squeeze, axis, n, err);
    rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    if (n == 0) /* for the graph, no axes would mean all */
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL, err);
    return onnx_emit_dims(im, (enum graph_op)op, in, n, axis, 0, NULL, err);
}

/* ---- Flatten, Transpose, Identity ---------------------------------- */

static int flatten_constant(struct onnx_import *im, struct constant *c,
                            int axis, struct infer_error *err)
{
    int64_t dim[2] = {1, 1};
    int d;

    for (d = 0; d < c->rank; d++)
        dim[d < axis ? 0 : 1] *= c->dim[d];
    c = constant_reshape(c, 2, dim);
    if (!c)
        return out_of_memory(err);
    return onnx_set_constant(im, 0, c, err);
}

int onnx_import_flatten(struct onnx_import *im, int param,
                        struct infer_error *err)
{
    union graph_attr attr;
    struct graph_type t;
    struct constant *c;
    int64_t axis = 1;
    int in, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_int(im, "axis", -t.rank, t.rank, &axis, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 0, &c, err);
    if (rc < 0)
        return rc;
    if (axis < 0)
        axis += t.rank;
    if (c)
        return flatten_constant(im, c, (int)axis, err);
    rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    onnx_defaults(GRAPH_FLATTEN, &attr);
    attr.axis.axis = (int)axis;
    return onnx_emit(im, GRAPH_FLATTEN, &attr, &in, 1, 0, NULL, err);
}

int onnx_import_transpose(struct onnx_import *im, int param,
                          struct infer_error *err)
{
    int64_t perm[INFER_MAX_RANK];
    int order[INFER_MAX_RANK], in, d, n = -1;
    struct graph_type t;
    struct constant *c;
    uint32_t seen = 0;
    int rc = onnx_arity(im, 1, 1, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_ints(im, "perm", INFER_MAX_RANK, perm, &n, err);
    if (rc == 0)
        rc = onnx_input_constant(im, 0, &c, err);
    if (rc < 0)
        return rc;
    if (n >= 0 && n != t.rank)
        return error_set(err, INFER_EFORMAT,
                         "perm has %d entries for a tensor of rank %d", n,
                         t.rank);
    for (d = 0; d < t.rank; d++) {
        if (n < 0)
            perm[d] = t.rank - 1 - d;
        if (perm[d] < 0 || perm[d] >= t.rank || seen >> perm[d] & 1)
            return error_set(err, INFER_EFORMAT, "perm is no permutation");
        seen |= UINT32_C(1) << perm[d];
        order[d] = (int)perm[d];
    }
    if (c) {
        c = constant_transpose(c, order);
        if (!c)
            return out_of_memory(err);
        return onnx_set_constant(im, 0, c, err);
    }
    rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, in, t.rank, perm, 0, NULL, err);
}

int onnx_import_identity(struct onnx_import *im, int param,
                         struct infer_error *err)
{
    struct constant *c;
    int in, rc = onnx_arity(im, 1, 1, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_constant(im, 0, &c, err);
    if (rc == 0 && c)
        return onnx_set_constant(im, 0, constant_ref(c), err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL, err);
}

/* ---- Dropout ------------------------------------------------------- */

/* The mask of a dropout that drops nothing: all true. */
static int dropout_mask(struct onnx_import *im, const struct graph_type *t,
                        struct infer_error *err)
{
    struct constant *c;
    int rc;

    if (!onnx_has_output(im, 1))
        return 0;
    if (im->probes > 1)
        return onnx_drop_outputs(im, 1, err);
    rc = onnx_new_constant(im, INFER_BOOL, t->rank, t->dim, err, &c);
    if (rc < 0)
        return rc;
    memset(c->data, 1, c->bytes);
    return onnx_set_constant(im, 1, c, err);
}

int onnx_import_dropout(struct onnx_import *im, int param,
                        struct infer_error *err)
{
    float ratio = 0.5f, training = 0.0f;
    struct graph_type t;
    int in, rc = onnx_arity(im, 1, im->opset >= 12 ? 3 : 1, err);

    (void)param;
    onnx_ignore(im, "seed");
    onnx_ignore(im, "is_test");
    if (rc == 0)
        rc = onnx_float(im, "ratio", &ratio, err);
    if (rc == 0 && im->opset >= 12)
        rc = onnx_input_float(im, 2, "training_mode", &training, err);
    if (rc == 0 && training != 0.0f)
        rc = onnx_input_float(im, 1, "ratio", &ratio, err);
    if (rc == 0 && training != 0.0f && ratio != 0.0f)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "training_mode: results would be random");
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc == 0)
        rc = onnx_emit(im, GRAPH_DROPOUT, NULL, &in, 1, 0, NULL, err);
    if (rc < 0)
        return rc;
    return dropout_mask(im, &t, err);
}

/* ---- Gather -------------------------------------------------------- */

/* Constant indices, checked, with negative ones counted from the end. */
static int constant_indices(struct onnx_import *im, const struct constant *c,
                            int64_t size, int *value, struct infer_error *err)
{
    struct constant *r;
    int64_t k, n = constant_count(c);
    int rc;

    for (k = 0; k < n; k++) {
        int64_t i = scalar_load_i64(c->dtype, c->data, k);

        if (i < -size || i >= size)
            return error_set(err, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)i, (long long)size);
    }
    rc = onnx_new_constant(im, INFER_I64, c->rank, c->dim, err, &r);
    if (rc < 0)
        return rc;
    for (k = 0; k < n; k++) {
        int64_t i = scalar_load_i64(c->dtype, c->data, k);

        scalar_store_i64(INFER_I64, r->data, k, i < 0 ? i + size : i);
    }
    return onnx_add_constant(im, r, value, err);
}

/* True where the indices are 0, 1, 2, ... through the whole of a vector, at
 * every probe: as torch.export writes some reshapes.  *t is then the shape. */
static int counts_up(struct onnx_import *im, struct target *t, bool *out,
                     struct infer_error *err)
{
    const struct onnx_small *const *s;
    struct graph_type type;
    int64_t k;
    int p, rc = onnx_input_small(im, 1, &s, err);

    *out = false;
    if (rc < 0 || !s)
        return rc;
    for (p = 0; p < im->probes; p++) {
        rc = onnx_input_type(im, 0, p, &type, err);
        if (rc < 0)
            return rc;
        if (!s[p]->i || type.rank != 1 || type.dim[0] != s[p]->count ||
            s[p]->rank != s[0]->rank)
            return 0;
        for (k = 0; k < s[p]->count; k++)
            if (s[p]->i[k] != k)
                return 0;
        memcpy(t->dim[p], s[p]->dim, sizeof(t->dim[p]));
    }
    t->rank = s[0]->rank;
    *out = true;
    return 0;
}

int onnx_import_gather(struct onnx_import *im, int param,
                       struct infer_error *err)
{
    struct graph_type first, last;
    union graph_attr attr;
    struct constant *c;
    struct target t;
    int64_t axis = 0;
    bool is_reshape = false;
    int in[2], at, rc = onnx_arity(im, 2, 2, err);

    (void)param;
    memset(&t, 0, sizeof(t));
    onnx_defaults(GRAPH_GATHER, &attr);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &first, err);
    if (rc == 0)
        rc = onnx_input_type(im, 0, im->probes - 1, &last, err);
    if (rc == 0)
        rc = op_axis((int)axis, first.rank, &at, err);
    if (rc == 0)
        rc = counts_up(im, &t, &is_reshape, err);
    if (rc < 0)
        return rc;
    if (is_reshape)
        return apply_target(im, &t, err);
    rc = onnx_input(im, 0, &in[0], err);
    if (rc == 0)
        rc = onnx_input_constant(im, 1, &c, err);
    if (rc < 0)
        return rc;
    if (c && scalar_is_integer(c->dtype) && first.dim[at] == last.dim[at])
        rc = constant_indices(im, c, first.dim[at], &in[1], err);
    else
        rc = onnx_input(im, 1, &in[1], err);
    if (rc < 0)
        return rc;
    attr.axis.axis = at;
    return onnx_emit(im, GRAPH_GATHER, &attr, in, 2, 0, NULL, err);
}

/* ---- Expand and Tile ----------------------------------------------- */

/* One target size: where it follows the input it is stated as 1. */
static int expand_size(struct onnx_import *im,
                       const struct onnx_small *const *s, int i, int64_t *out,
                       struct infer_error *err)
{
    bool fixed = true, own = true;
    struct graph_type t;
    int p, at, rc;

    for (p = 0; p < im->probes; p++) {
        rc = onnx_input_type(im, 0, p, &t, err);
        if (rc < 0)
            return rc;
        at = i - ((int)s[p]->count - t.rank);
        fixed &= s[p]->i[i] == s[0]->i[i];
        own &= at >= 0 && t.dim[at] == s[p]->i[i];
        if (s[p]->i[i] < 0 || s[p]->i[i] > INT64_MAX / 2)
            return error_set(err, INFER_EFORMAT, "size %lld",
                             (long long)s[p]->i[i]);
    }
    if (!fixed && !own)
        return error_set(err, INFER_EUNSUPPORTED,
                         "an expansion to the size of the batch");
    *out = own ? 1 : s[0]->i[i];
    return 0;
}

int onnx_import_expand(struct onnx_import *im, int param,
                       struct infer_error *err)
{
    const struct onnx_small *const *s;
    int64_t dim[INFER_MAX_RANK];
    int in, p, i, n, rc = onnx_arity(im, 2, 2, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_small(im, 1, &s, err);
    if (rc < 0)
        return rc;
    if (!s)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the shape must not depend on data");
    for (p = 0; p < im->probes; p++)
        if (!s[p]->i || s[p]->rank > 1 || s[p]->count > INFER_MAX_RANK ||
            s[p]->count != s[0]->count)
            return error_set(err, INFER_EFORMAT,
                             "the shape is no list of at most %d integers",
                             INFER_MAX_RANK);
    n = (int)s[0]->count;
    for (i = 0; i < n && rc == 0; i++)
        rc = expand_size(im, s, i, &dim[i], err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_dims(im, GRAPH_EXPAND, in, n, dim, 0, NULL, err);
}

/* Repeats: one for each dimension; before opset 6 a number and an axis. */
int onnx_import_tile(struct onnx_import *im, int param, struct infer_error *err)
{
    int64_t repeat[INFER_MAX_RANK], dim[INFER_MAX_RANK];
    struct graph_type t;
    int in, i, n = -1, n_axis = -1;
    int rc = onnx_arity(im, im->opset < 6 ? 3 : 2, im->opset < 6 ? 3 : 2, err);

    (void)param;
    if (rc == 0)
        rc = onnx_input_type(im, 0, 0, &t, err);
    if (rc == 0)
        rc = onnx_input_ints(im, 1, "repeats", INFER_MAX_RANK, repeat, &n, err);
    if (rc < 0)
        return rc;
    if (im->opset < 6) {
        rc = onnx_input_ints(im, 2, "axis", 1, dim, &n_axis, err);
        if (rc < 0)
            return rc;
        if (n != 1 || n_axis != 1 || dim[0] < 0 || dim[0] >= t.rank)
            return error_set(err, INFER_EFORMAT, "malformed tiles or axis");
        n_axis = (int)dim[0];
        for (i = 0; i < t.rank; i++)
            dim[i] = i == n_axis ? repeat[0] : 1;
        n = t.rank;
    } else {
        memcpy(dim, repeat, sizeof(dim));
    }
    if (n != t.rank)
        return error_set(err, INFER_EFORMAT,
                         "%d repeats for a tensor of rank %d", n, t.rank);
    rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_dims(im, GRAPH_TILE, in, n, dim, 0, NULL, err);
}
