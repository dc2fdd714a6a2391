/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expansions to free sizes: a class token for each picture of a batch, masks of
 * the size of a feature map.
 *
 * A size that differs between the probes is that of a dimension of some tensor
 * of the graph, which has it at every probe.
 */
#include <math.h>
#include <string.h>

#include "weights/onnx/onnx.h"

/* The dimension of a value of the graph that has these sizes, -1 for none. */
static int dimension_of(const struct onnx_import *im, int value,
                        int64_t (*want)[INFER_MAX_RANK], int i)
{
    for (int d = 0; d < im->type[value][0].rank; d++) {
        bool same = true;

        for (int p = 0; p < im->probes; p++)
            same = same && im->type[value][p].dim[d] == want[p][i];
        if (same)
            return d;
    }
    return -1;
}

/* True where the value has every size that is marked; dim[] then names them. */
static bool has_all(const struct onnx_import *im, int value,
                    int64_t (*want)[INFER_MAX_RANK], const bool *marked, int n,
                    int64_t *dim)
{
    for (int i = 0; i < n; i++) {
        const int d = marked[i] ? dimension_of(im, value, want, i) : 0;

        if (d < 0)
            return false;
        if (marked[i])
            dim[i] = GRAPH_EXPAND_LIKE(d);
    }
    return true;
}

int onnx_size_like(const struct onnx_import *im,
                   int64_t (*want)[INFER_MAX_RANK], const bool *marked, int n,
                   int64_t *dim)
{
    for (int v = 0; v < im->g->n_values; v++)
        if (!im->g->value[v].data && im->g->value[v].name &&
            has_all(im, v, want, marked, n, dim))
            return v;
    return -1;
}

int onnx_size_like_one(struct onnx_import *im, int64_t (*want)[INFER_MAX_RANK],
                       int i, int n, int64_t *dim)
{
    bool marked[INFER_MAX_RANK] = {false};
    int64_t size[ONNX_PROBES];
    int like;

    marked[i] = true;
    like = onnx_size_like(im, want, marked, n, dim);
    if (like >= 0 || im->rc < 0)
        return like;
    for (int p = 0; p < im->probes; p++)
        size[p] = want[p][i];
    like = onnx_make_size(im, size);
    if (like >= 0)
        dim[i] = GRAPH_EXPAND_LIKE(im->type[like][0].rank - 1);
    return like;
}

/* One GRAPH_EXPAND, like `like` unless that is -1. */
static int expand(struct onnx_import *im, int in, int like, int n,
                  const int64_t *dim, int out, int *value)
{
    const int both[2] = {in, like};
    union graph_attr attr;

    onnx_defaults(GRAPH_EXPAND, &attr);
    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, (size_t)n * sizeof *dim);
    return onnx_emit(im, GRAPH_EXPAND, &attr, both, like >= 0 ? 2 : 1, out,
                     value);
}

int onnx_repeat_like(struct onnx_import *im, int one, int like, int d,
                     int *value)
{
    const int64_t dim[1] = {GRAPH_EXPAND_LIKE(d)};

    return expand(im, one, like, 1, dim, -1, value);
}

/* Sizes that no tensor has all of, one after the other. */
static int expand_in_turn(struct onnx_import *im, int in,
                          int64_t (*want)[INFER_MAX_RANK], const bool *marked,
                          int n, const int64_t *dim, int out, int *value)
{
    int64_t one[INFER_MAX_RANK] = {0};

    for (int i = 0; i < n && im->rc == 0; i++) {
        int like;

        for (int d = 0; d < n; d++)
            one[d] = 1;
        if (!marked[i])
            continue;
        like = onnx_size_like_one(im, want, i, n, one);
        if (like < 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "an expansion to a free size that is that of no "
                             "tensor; --input-shape fixes free sizes");
        expand(im, in, like, n, one, -1, &in);
    }
    for (int d = 0; d < n; d++)
        one[d] = marked[d] ? 1 : dim[d];
    return expand(im, in, -1, n, one, out, value);
}

int onnx_emit_expand(struct onnx_import *im, int in,
                     int64_t (*want)[INFER_MAX_RANK], int n, int out,
                     int *value)
{
    bool marked[INFER_MAX_RANK] = {false}, any = false;
    int64_t dim[INFER_MAX_RANK] = {0};
    int like = -1;

    if (im->rc < 0)
        return im->rc;
    for (int i = 0; i < n; i++) {
        const int at = i - (n - im->type[in][0].rank);
        bool fixed = true, own = true;

        for (int p = 0; p < im->probes; p++) {
            fixed = fixed && want[p][i] == want[0][i];
            own = own && at >= 0 && im->type[in][p].dim[at] == want[p][i];
            if (want[p][i] < 0 || want[p][i] > INT64_MAX / 2)
                return onnx_fail(im, INFER_EFORMAT, "size %lld",
                                 (long long)want[p][i]);
        }
        dim[i] = own ? 1 : want[0][i];
        marked[i] = !fixed && !own;
        any = any || marked[i];
    }
    if (any)
        like = onnx_size_like(im, want, marked, n, dim);
    if (any && like < 0)
        return expand_in_turn(im, in, want, marked, n, dim, out, value);
    return expand(im, in, like, n, dim, out, value);
}

/* ---- small tensors of free sizes ----------------------------------- */

/* What a small tensor of free sizes is: base, repeated along the dimensions
 * that vary, plus step[d] times the index along each of those. */
struct steps {
    bool varies[INFER_MAX_RANK];
    struct onnx_small *base;
    double step[INFER_MAX_RANK];
};

static double element(const struct onnx_small *s, int64_t i)
{
    return s->i ? (double)s->i[i] : s->d[i];
}

/* Floats may be off by their rounding. */
static bool same_element(const struct onnx_small *s, int64_t i, double want)
{
    const double got = element(s, i);

    if (s->i)
        return got == want;
    if (!isfinite(got) || !isfinite(want))
        return got == want || (isnan(got) && isnan(want));
    return fabs(got - want) <= 1e-7 * fmax(fabs(got), fabs(want));
}

/* Index of element `from` of a small tensor, dimension by dimension; the
 * result is that of the base's element. */
static int64_t base_index(const struct onnx_small *s, const struct steps *t,
                          int64_t from, int64_t *index)
{
    int64_t at = 0;

    for (int d = s->rank - 1; d >= 0; d--) {
        index[d] = from % s->dim[d];
        from /= s->dim[d];
    }
    for (int d = 0; d < s->rank; d++)
        at = at * t->base->dim[d] + (t->varies[d] ? 0 : index[d]);
    return at;
}

/* Base and steps from the elements next to the origin of the last probe, whose
 * sizes are the largest. */
static void find_steps(const struct onnx_small *s, struct steps *t)
{
    int64_t index[INFER_MAX_RANK] = {0}, stride = 1;

    for (int64_t k = s->count - 1; k >= 0; k--) {
        const int64_t at = base_index(s, t, k, index);
        bool origin = true;

        for (int d = 0; d < s->rank; d++)
            origin = origin && (!t->varies[d] || index[d] == 0);
        if (origin && t->base->i)
            t->base->i[at] = s->i[k];
        else if (origin)
            t->base->d[at] = s->d[k];
    }
    for (int d = s->rank - 1; d >= 0; d--) {
        if (t->varies[d] && s->dim[d] > 1)
            t->step[d] = element(s, stride) - element(s, 0);
        stride *= s->dim[d];
    }
}

/* True where the elements of every probe are what *t says. */
static bool holds(const struct onnx_import *im,
                  const struct onnx_small *const *small, const struct steps *t)
{
    int64_t index[INFER_MAX_RANK] = {0};

    for (int p = 0; p < im->probes; p++)
        for (int64_t k = 0; k < small[p]->count; k++) {
            double want = element(t->base, base_index(small[p], t, k, index));

            for (int d = 0; d < small[p]->rank; d++)
                if (t->step[d] != 0)
                    want += t->step[d] * (double)index[d];
            if (!same_element(small[p], k, want))
                return false;
        }
    return true;
}

/* Adds step times the index along dimension d to *value. */
static int add_steps(struct onnx_import *im, int64_t (*want)[INFER_MAX_RANK],
                     const struct onnx_small *base, int d, double step,
                     int *value)
{
    int64_t line[ONNX_PROBES][INFER_MAX_RANK], one[INFER_MAX_RANK] = {0};
    union graph_attr attr;
    struct onnx_small *s;
    int x, rc;

    for (int i = 0; i < base->rank; i++) {
        one[i] = 1;
        for (int p = 0; p < im->probes; p++)
            line[p][i] = i == d ? want[p][i] : 1;
    }
    rc = onnx_small_new(im, base->dtype, base->rank, one, &s);
    if (rc <= 0)
        return rc < 0 ? rc : onnx_no_memory(im);
    if (s->i)
        s->i[0] = (int64_t)step;
    else
        s->d[0] = step;
    onnx_add_constant(im, onnx_small_to_constant(s), &x);
    onnx_emit_expand(im, x, line, base->rank, -1, &x);
    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.axis = d;
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &x, 1, -1, &x);
    return onnx_emit_binary(im, KERN_ADD, *value, x, -1, value);
}

/* Fills *t; *found says whether the tensors are of that kind. */
static int read_steps(struct onnx_import *im,
                      const struct onnx_small *const *small, struct steps *t,
                      bool *found)
{
    int64_t dim[INFER_MAX_RANK];
    int rc;

    memset(t, 0, sizeof *t);
    *found = false;
    for (int p = 0; p < im->probes; p++) {
        if (small[p]->rank != small[0]->rank ||
            small[p]->dtype != small[0]->dtype || small[p]->count == 0)
            return 0;
        for (int d = 0; d < small[p]->rank; d++)
            t->varies[d] = t->varies[d] || small[p]->dim[d] != small[0]->dim[d];
    }
    for (int d = 0; d < small[0]->rank; d++)
        dim[d] = t->varies[d] ? 1 : small[0]->dim[d];
    rc = onnx_small_new(im, small[0]->dtype, small[0]->rank, dim, &t->base);
    if (rc <= 0)
        return im->rc;
    find_steps(small[im->probes - 1], t);
    *found = holds(im, small, t);
    return 0;
}

bool onnx_small_is_free(const struct onnx_import *im,
                        const struct onnx_small *const *small)
{
    for (int p = 1; p < im->probes; p++) {
        if (small[p]->rank != small[0]->rank)
            return true;
        for (int d = 0; d < small[p]->rank; d++)
            if (small[p]->dim[d] != small[0]->dim[d])
                return true;
    }
    return false;
}

int onnx_small_expands(struct onnx_import *im,
                       const struct onnx_small *const *small, bool *out)
{
    struct steps t;

    return read_steps(im, small, &t, out);
}

int onnx_expand_small(struct onnx_import *im,
                      const struct onnx_small *const *small, int *value)
{
    int64_t want[ONNX_PROBES][INFER_MAX_RANK];
    const int emitted = im->emitted;
    struct steps t;
    bool found;

    *value = -1;
    if (read_steps(im, small, &t, &found) < 0 || !found)
        return im->rc;
    for (int p = 0; p < im->probes; p++)
        memcpy(want[p], small[p]->dim, sizeof want[p]);
    onnx_add_constant(im, onnx_small_to_constant(t.base), value);
    im->emitted++; /* the name of the ONNX node is not for this one */
    onnx_emit_expand(im, *value, want, t.base->rank, -1, value);
    for (int d = 0; d < t.base->rank && im->rc == 0; d++)
        if (t.step[d] != 0)
            add_steps(im, want, t.base, d, t.step[d], value);
    im->emitted = emitted;
    return im->rc;
}
