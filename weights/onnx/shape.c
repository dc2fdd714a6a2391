/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that only move or rename elements. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

/* ---- Reshape ------------------------------------------------------- */

/* The target shape at every probe, with 0 and -1 resolved. */
struct target {
    int rank;
    int64_t dim[ONNX_PROBES][INFER_MAX_RANK];
    bool copies[INFER_MAX_RANK]; /* the input's size at that place */
};

/* True where the batch is free and dimension 0 of input 0 varies with it. */
static int leads_with_batch(struct onnx_import *im, bool *out)
{
    struct graph_type a, b;

    onnx_input_type(im, 0, 0, &a);
    onnx_input_type(im, 0, im->probes - 1, &b);
    *out = im->rc == 0 && a.rank > 0 && a.dim[0] != b.dim[0];
    return im->rc;
}

static int resolve_target(struct onnx_import *im, int p, bool allow_zero,
                          const int64_t *want, struct target *t)
{
    int64_t *dim = t->dim[p], known = 1, total;
    struct graph_type in;
    int i, open = -1;

    if (onnx_input_type(im, 0, p, &in) < 0)
        return im->rc;
    for (i = 0; i < t->rank; i++) {
        bool copy = t->copies[i] || (want[i] == 0 && !allow_zero);

        if (allow_zero && want[i] == 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "allowzero with a target size of 0");
        if (copy && i >= in.rank)
            return onnx_fail(im, INFER_EFORMAT,
                             "entry %d copies a dimension that the input does "
                             "not have",
                             i);
        dim[i] = copy ? in.dim[i] : want[i];
        t->copies[i] |= copy;
        if (dim[i] == -1 && open < 0)
            open = i;
        else if (dim[i] < 0)
            return onnx_fail(im, INFER_EFORMAT, "entry %d is %lld%s", i,
                             (long long)dim[i],
                             dim[i] == -1 ? ", a second open size" : "");
        else if (!checked_mul_i64(known, dim[i], &known))
            return onnx_fail(im, INFER_EFORMAT, "the target overflows");
    }
    if (!checked_count(in.rank, in.dim, &total))
        return onnx_fail(im, INFER_EFORMAT, "the input overflows");
    if (open >= 0 ? known == 0 || total % known != 0 : known != total)
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld elements do not fit the target (%lld)",
                         (long long)total, (long long)known);
    if (open >= 0)
        dim[open] = total / known;
    return 0;
}

/* The first size that is marked. */
static int other(const bool *marked, int n)
{
    int i = 0;

    while (i < n - 1 && !marked[i])
        i++;
    return i;
}

/* Sizes that are marked: one is the rest, and one tensor has the others.  That
 * tensor, -1 where only one is marked. */
static int other_sizes(struct onnx_import *im, struct target *t, bool *marked,
                       int64_t *out)
{
    int n = 0, like;

    for (int i = 0; i < t->rank; i++)
        n += marked[i];
    for (int i = t->rank - 1; i >= 0; i--) {
        if (!marked[i])
            continue;
        marked[i] = false;
        out[i] = -1;
        like = n > 1 ? onnx_size_like(im, t->dim, marked, t->rank, out) : -1;
        if (n == 2 && like < 0)
            like = onnx_size_like_one(im, t->dim, other(marked, t->rank),
                                      t->rank, out);
        if (n == 1 || like >= 0)
            return like;
        marked[i] = true;
    }
    if (n > 0)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "several target sizes depend on free sizes of the inputs, "
                  "and no tensor has them");
    return -1;
}

/* The target as the graph states it: a size that does not vary stays, one that
 * follows the input's at the same place becomes 0, others are the rest or those
 * of the tensor *like. */
static int state_target(struct onnx_import *im, struct target *t, int64_t *out,
                        int *like)
{
    bool marked[INFER_MAX_RANK] = {false};
    struct graph_type in;
    int i, p;

    for (i = 0; i < t->rank; i++) {
        bool fixed = true, copies = true;

        for (p = 0; p < im->probes; p++) {
            if (onnx_input_type(im, 0, p, &in) < 0)
                return im->rc;
            fixed &= t->dim[p][i] == t->dim[0][i];
            copies &= i < in.rank && t->dim[p][i] == in.dim[i];
        }
        if (fixed && t->dim[0][i] > 0) {
            out[i] = t->dim[0][i];
        } else if (copies) {
            out[i] = 0;
        } else if (!fixed) {
            marked[i] = true;
        } else {
            return onnx_fail(im, INFER_EUNSUPPORTED, "a target size of 0");
        }
    }
    *like = other_sizes(im, t, marked, out);
    return im->rc;
}

/* Emits the reshape, or applies it to a constant. */
static int apply_target(struct onnx_import *im, struct target *t)
{
    union graph_attr attr;
    int64_t dim[INFER_MAX_RANK] = {0};
    struct constant *c;
    int in[2];

    onnx_input_constant(im, 0, &c);
    if (c) /* same count at every probe, so the same shape */
        return onnx_set_constant(im, 0,
                                 constant_reshape(c, t->rank, t->dim[0]));
    state_target(im, t, dim, &in[1]);
    onnx_input(im, 0, &in[0]);
    onnx_defaults(GRAPH_RESHAPE, &attr);
    attr.dims.n = t->rank;
    memcpy(attr.dims.dim, dim, (size_t)t->rank * sizeof *dim);
    return onnx_emit(im, GRAPH_RESHAPE, &attr, in,
                     im->rc == 0 && in[1] >= 0 ? 2 : 1, 0, NULL);
}

/* Entries of the target at probe p: an attribute before opset 5. */
static int wanted(struct onnx_import *im, int p, int64_t *want, int *n)
{
    *n = -1;
    if (im->opset >= 5)
        return onnx_input_list(im, 1, p, "the target shape", want, n);
    onnx_ints(im, "shape", INFER_MAX_RANK, want, n);
    return *n < 0 ? onnx_fail(im, INFER_EFORMAT, "no target shape") : im->rc;
}

int onnx_import_reshape(struct onnx_import *im)
{
    int64_t want[INFER_MAX_RANK] = {0};
    bool allow_zero = false, batch = false;
    struct target t;
    int p, n;

    memset(&t, 0, sizeof(t));
    onnx_arity(im, im->opset < 5 ? 1 : 2, im->opset < 5 ? 1 : 2);
    onnx_flag(im, "allowzero", &allow_zero);
    leads_with_batch(im, &batch);
    for (p = 0; p < im->probes && im->rc == 0; p++) {
        if (wanted(im, p, want, &n) < 0)
            break;
        if (p > 0 && n != t.rank)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the rank depends on the batch");
        t.rank = n;
        /* The file says 1 where it means its batch. */
        if (im->freed_batch && batch && n > 0 && want[0] == 1)
            t.copies[0] = true;
        resolve_target(im, p, allow_zero, want, &t);
    }
    return apply_target(im, &t);
}

/* ---- Squeeze and Unsqueeze ----------------------------------------- */

static int normalise_axes(struct onnx_import *im, int64_t *axis, int n,
                          int rank)
{
    uint32_t seen = 0;
    int i, k = 0;

    for (i = 0; i < n; i++) {
        int64_t a = axis[i] < 0 ? axis[i] + rank : axis[i];

        if (a < 0 || a >= rank || seen >> a & 1)
            return onnx_fail(im, INFER_EFORMAT,
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
static int ones(struct onnx_import *im, int64_t *axis, int *n)
{
    struct graph_type t;
    int d, p, rank = INFER_MAX_RANK;

    *n = 0;
    for (d = 0; d < rank; d++) {
        bool one = true, stated = false;

        for (p = 0; p < im->probes; p++) {
            if (onnx_input_type(im, 0, p, &t) < 0)
                return im->rc;
            rank = t.rank;
            one &= d < rank && t.dim[d] == 1;
            stated |= p == 0 && one;
        }
        if (one)
            axis[(*n)++] = d;
        im->drops_batch |= stated && !one && d == 0;
        if (!one && im->freed_batch && stated) /* probe 0 has a batch of 1 */
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a batch of 1 is left out with all sizes of 1");
    }
    return 0;
}

/* A constant without, or with more, dimensions of size 1. */
static int reshape_ones(struct onnx_import *im, struct constant *c,
                        bool squeeze, const int64_t *axis, int n)
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
            return onnx_fail(im, INFER_EFORMAT, "dimension %d is %lld", d,
                             (long long)c->dim[d]);
        if (squeeze && !listed)
            dim[out++] = c->dim[d];
        if (!squeeze)
            dim[out++] = listed ? 1 : c->dim[from++];
    }
    return onnx_set_constant(im, 0, constant_reshape(c, out, dim));
}

int onnx_import_ones(struct onnx_import *im)
{
    const int op = im->param;
    bool squeeze = op == GRAPH_SQUEEZE;
    int64_t axis[INFER_MAX_RANK];
    struct graph_type t;
    struct constant *c;
    int in, n = -1;

    onnx_arity(im, 1, 2);
    onnx_input_type(im, 0, 0, &t);
    onnx_axes(im, "axes", 1, 13, axis, &n);
    if (n < 0 && squeeze)
        ones(im, axis, &n);
    if (im->rc < 0)
        return im->rc;
    if (n < 0 || (!squeeze && t.rank + n > INFER_MAX_RANK))
        return onnx_fail(im, INFER_EFORMAT,
                         n < 0 ? "no axes" : "too many dimensions");
    normalise_axes(im, axis, n, squeeze ? t.rank : t.rank + n);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    if (c)
        return reshape_ones(im, c, squeeze, axis, n);
    onnx_input(im, 0, &in);
    if (n == 0) /* for the graph, no axes would mean all */
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL);
    return onnx_emit_dims(im, (enum graph_op)op, in, n, axis, 0, NULL);
}

/* ---- Flatten, Transpose, Identity ---------------------------------- */

static int flatten_constant(struct onnx_import *im, struct constant *c,
                            int axis)
{
    int64_t dim[2] = {1, 1};
    int d;

    for (d = 0; d < c->rank; d++)
        dim[d < axis ? 0 : 1] *= c->dim[d];
    return onnx_set_constant(im, 0, constant_reshape(c, 2, dim));
}

int onnx_import_flatten(struct onnx_import *im)
{
    union graph_attr attr;
    struct graph_type t;
    struct constant *c;
    int64_t axis = 1;

    onnx_arity(im, 1, 1);
    onnx_input_type(im, 0, 0, &t);
    onnx_int(im, "axis", -t.rank, t.rank, &axis);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    if (axis < 0)
        axis += t.rank;
    if (c)
        return flatten_constant(im, c, (int)axis);
    onnx_defaults(GRAPH_FLATTEN, &attr);
    attr.axis.axis = (int)axis;
    return onnx_emit_node(im, GRAPH_FLATTEN, &attr, 1);
}

int onnx_import_transpose(struct onnx_import *im)
{
    int64_t perm[INFER_MAX_RANK];
    int order[INFER_MAX_RANK], in, d, n = -1;
    struct graph_type t;
    struct constant *c;
    uint32_t seen = 0;

    onnx_arity(im, 1, 1);
    onnx_input_type(im, 0, 0, &t);
    onnx_ints(im, "perm", INFER_MAX_RANK, perm, &n);
    if (onnx_input_constant(im, 0, &c) < 0)
        return im->rc;
    if (n >= 0 && n != t.rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "perm has %d entries for a tensor of rank %d", n,
                         t.rank);
    for (d = 0; d < t.rank; d++) {
        if (n < 0)
            perm[d] = t.rank - 1 - d;
        if (perm[d] < 0 || perm[d] >= t.rank || seen >> perm[d] & 1)
            return onnx_fail(im, INFER_EFORMAT, "perm is no permutation");
        seen |= UINT32_C(1) << perm[d];
        order[d] = (int)perm[d];
    }
    if (c)
        return onnx_set_constant(im, 0, constant_transpose(c, order));
    onnx_input(im, 0, &in);
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, in, t.rank, perm, 0, NULL);
}

int onnx_import_identity(struct onnx_import *im)
{
    struct constant *c;
    int in;

    onnx_arity(im, 1, 1);
    onnx_input_constant(im, 0, &c);
    if (c)
        return onnx_set_constant(im, 0, constant_ref(c));
    onnx_input(im, 0, &in);
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, in, 0, NULL);
}

/* ---- Dropout ------------------------------------------------------- */

/* The mask of a dropout that drops nothing: all true. */
static int dropout_mask(struct onnx_import *im, const struct graph_type *t)
{
    struct constant *c;

    if (!onnx_has_output(im, 1))
        return 0;
    if (im->probes > 1)
        return onnx_drop_outputs(im, 1);
    if (onnx_new_fill(im, INFER_BOOL, t->rank, t->dim, "\1", &c) < 0)
        return im->rc;
    return onnx_set_constant(im, 1, c);
}

int onnx_import_dropout(struct onnx_import *im)
{
    float ratio = 0.5f, training = 0.0f;
    struct graph_type t;

    onnx_arity(im, 1, im->opset >= 12 ? 3 : 1);
    onnx_ignore(im, "seed");
    onnx_ignore(im, "is_test");
    onnx_float(im, "ratio", &ratio);
    if (im->opset >= 12)
        onnx_input_float(im, 2, "training_mode", &training);
    if (training != 0.0f)
        onnx_input_float(im, 1, "ratio", &ratio);
    if (training != 0.0f && ratio != 0.0f)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "training_mode: results would be random");
    onnx_input_type(im, 0, 0, &t);
    onnx_emit_node(im, GRAPH_DROPOUT, NULL, 1);
    return dropout_mask(im, &t);
}

/* ---- Gather -------------------------------------------------------- */

/* Constant indices, checked, with negative ones counted from the end. */
static int constant_indices(struct onnx_import *im, const struct constant *c,
                            int64_t size, int *value)
{
    struct constant *r;
    int64_t k, n = constant_count(c);

    for (k = 0; k < n; k++) {
        int64_t i = scalar_load_i64(c->dtype, c->data, k);

        if (i < -size || i >= size)
            return onnx_fail(im, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)i, (long long)size);
    }
    if (onnx_new_constant(im, INFER_I64, c->rank, c->dim, &r) < 0)
        return im->rc;
    for (k = 0; k < n; k++) {
        int64_t i = scalar_load_i64(c->dtype, c->data, k);

        scalar_store_i64(INFER_I64, r->data, k, i < 0 ? i + size : i);
    }
    return onnx_add_constant(im, r, value);
}

/* True where the indices are 0, 1, 2, ... through the whole of a vector, at
 * every probe: as torch.export writes some reshapes.  *t is then the shape. */
static int counts_up(struct onnx_import *im, struct target *t, bool *out)
{
    const struct onnx_small *const *s;
    struct graph_type type;
    int64_t k;
    int p;

    *out = false;
    if (onnx_input_small(im, 1, &s) < 0 || !s)
        return im->rc;
    for (p = 0; p < im->probes; p++) {
        if (onnx_input_type(im, 0, p, &type) < 0)
            return im->rc;
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

int onnx_import_gather(struct onnx_import *im)
{
    struct graph_type first, last;
    union graph_attr attr;
    struct constant *c;
    struct target t;
    bool is_reshape = false;
    int in[2], axis, at = 0;

    onnx_arity(im, 2, 2);
    memset(&t, 0, sizeof(t));
    onnx_defaults(GRAPH_GATHER, &attr);
    axis = onnx_axis(im, 0);
    onnx_input_type(im, 0, 0, &first);
    if (onnx_input_type(im, 0, im->probes - 1, &last) == 0)
        im->rc = op_axis(axis, first.rank, &at, im->err);
    counts_up(im, &t, &is_reshape);
    if (im->rc < 0)
        return im->rc;
    if (is_reshape)
        return apply_target(im, &t);
    onnx_input(im, 0, &in[0]);
    if (onnx_input_constant(im, 1, &c) < 0)
        return im->rc;
    if (c && scalar_is_integer(c->dtype) && first.dim[at] == last.dim[at])
        constant_indices(im, c, first.dim[at], &in[1]);
    else
        onnx_input(im, 1, &in[1]);
    attr.axis.axis = at;
    return onnx_emit(im, GRAPH_GATHER, &attr, in, 2, 0, NULL);
}

/* ---- Expand and Tile ----------------------------------------------- */

int onnx_import_expand(struct onnx_import *im)
{
    int64_t want[ONNX_PROBES][INFER_MAX_RANK];
    int in, n = 0;

    onnx_arity(im, 2, 2);
    onnx_input_lists(im, 1, "the shape", want, &n);
    onnx_input(im, 0, &in);
    return onnx_emit_expand(im, in, want, n, 0, NULL);
}

/* Repeats that follow a free size expand a dimension of one element, which is
 * the same; *done is set where that is all that they do. */
static int tile_free(struct onnx_import *im, bool *done)
{
    int64_t repeat[ONNX_PROBES][INFER_MAX_RANK];
    int64_t want[ONNX_PROBES][INFER_MAX_RANK];
    const struct onnx_small *const *small;
    bool single = true;
    int in, n = -1;

    *done = false;
    if (onnx_input_small(im, 1, &small) < 0 || !small ||
        onnx_small_is_fixed(im, small))
        return im->rc;
    onnx_input_lists(im, 1, "repeats", repeat, &n);
    if (onnx_input(im, 0, &in) < 0 || n != im->type[in][0].rank)
        return im->rc;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < im->probes; p++) {
            const int64_t d = im->type[in][p].dim[i];

            single = single && (d == 1 || repeat[p][i] == 1);
            want[p][i] = d == 1 ? repeat[p][i] : d;
        }
    *done = single;
    return single ? onnx_emit_expand(im, in, want, n, 0, NULL) : im->rc;
}

/* Repeats: one for each dimension; before opset 6 a number and an axis. */
int onnx_import_tile(struct onnx_import *im)
{
    int64_t repeat[INFER_MAX_RANK], dim[INFER_MAX_RANK];
    struct graph_type t;
    int in, i, n = -1, n_axis = -1;
    bool done = false;

    onnx_arity(im, im->opset < 6 ? 3 : 2, im->opset < 6 ? 3 : 2);
    onnx_input_type(im, 0, 0, &t);
    if (im->opset >= 6 && (tile_free(im, &done) < 0 || done))
        return im->rc;
    if (onnx_input_ints(im, 1, "repeats", INFER_MAX_RANK, repeat, &n) < 0)
        return im->rc;
    if (im->opset < 6) {
        if (onnx_input_ints(im, 2, "axis", 1, dim, &n_axis) < 0)
            return im->rc;
        if (n != 1 || n_axis != 1 || dim[0] < 0 || dim[0] >= t.rank)
            return onnx_fail(im, INFER_EFORMAT, "malformed tiles or axis");
        n_axis = (int)dim[0];
        for (i = 0; i < t.rank; i++)
            dim[i] = i == n_axis ? repeat[0] : 1;
        n = t.rank;
    } else {
        memcpy(dim, repeat, sizeof(dim));
    }
    if (n != t.rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "%d repeats for a tensor of rank %d", n, t.rank);
    onnx_input(im, 0, &in);
    return onnx_emit_dims(im, GRAPH_TILE, in, n, dim, 0, NULL);
}
