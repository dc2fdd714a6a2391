/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expansions to free sizes: a class token for each picture of a batch, masks of
 * the size of a feature map.
 *
 * A size that differs between the probes is that of a dimension of some tensor
 * of the graph, which has it at every probe.
 */
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

int onnx_emit_expand(struct onnx_import *im, int in,
                     int64_t (*want)[INFER_MAX_RANK], int n, int out,
                     int *value)
{
    bool marked[INFER_MAX_RANK] = {false}, any = false;
    int64_t dim[INFER_MAX_RANK] = {0};
    union graph_attr attr;
    int both[2] = {in, -1};

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
    for (int v = 0; any && both[1] < 0 && v < im->g->n_values; v++)
        if (!im->g->value[v].data && im->g->value[v].name &&
            has_all(im, v, want, marked, n, dim))
            both[1] = v;
    if (any && both[1] < 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "an expansion to a free size that is that of no "
                         "tensor; --input-shape fixes free sizes");
    onnx_defaults(GRAPH_EXPAND, &attr);
    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, sizeof(dim));
    return onnx_emit(im, GRAPH_EXPAND, &attr, both, any ? 2 : 1, out, value);
}

/* ---- small tensors of free sizes ----------------------------------- */

/* Element `from` of a small tensor at one probe, in the base: its index without
 * the dimensions that vary. */
static int64_t base_index(const struct onnx_small *s, const bool *varies,
                          const int64_t *base, int64_t from)
{
    int64_t index[INFER_MAX_RANK] = {0}, at = 0;

    for (int d = s->rank - 1; d >= 0; d--) {
        index[d] = from % s->dim[d];
        from /= s->dim[d];
    }
    for (int d = 0; d < s->rank; d++)
        at = at * base[d] + (varies[d] ? 0 : index[d]);
    return at;
}

static bool same_element(const struct onnx_small *a, int64_t i,
                         const struct onnx_small *b, int64_t j)
{
    return a->i ? a->i[i] == b->i[j]
                : memcmp(&a->d[i], &b->d[j], sizeof(a->d[i])) == 0;
}

/* True where the elements at every probe are those of the base, repeated along
 * the dimensions that vary; the base is made of the first probe's. */
static bool repeats(struct onnx_import *im,
                    const struct onnx_small *const *small, const bool *varies,
                    struct onnx_small *base)
{
    unsigned char *seen;

    seen = onnx_alloc(&im->scratch, (size_t)base->count + 1);
    if (!seen)
        return onnx_no_memory(im), false;
    memset(seen, 0, (size_t)base->count + 1);
    for (int p = 0; p < im->probes; p++)
        for (int64_t k = 0; k < small[p]->count; k++) {
            const int64_t at = base_index(small[p], varies, base->dim, k);

            if (!seen[at] && base->i)
                base->i[at] = small[p]->i[k];
            else if (!seen[at])
                base->d[at] = small[p]->d[k];
            seen[at] = 1;
            if (!same_element(base, at, small[p], k))
                return false;
        }
    return true;
}

int onnx_expand_small(struct onnx_import *im,
                      const struct onnx_small *const *small, int *value)
{
    int64_t want[ONNX_PROBES][INFER_MAX_RANK], dim[INFER_MAX_RANK];
    bool varies[INFER_MAX_RANK] = {false};
    struct onnx_small *base;
    const int emitted = im->emitted;
    int rc;

    *value = -1;
    for (int p = 0; p < im->probes; p++) {
        if (small[p]->rank != small[0]->rank ||
            small[p]->dtype != small[0]->dtype || small[p]->count == 0)
            return 0;
        for (int d = 0; d < small[p]->rank; d++) {
            want[p][d] = small[p]->dim[d];
            varies[d] = varies[d] || want[p][d] != want[0][d];
        }
    }
    for (int d = 0; d < small[0]->rank; d++)
        dim[d] = varies[d] ? 1 : small[0]->dim[d];
    rc = onnx_small_new(im, small[0]->dtype, small[0]->rank, dim, &base);
    if (rc <= 0 || !repeats(im, small, varies, base))
        return im->rc;
    onnx_add_constant(im, onnx_small_to_constant(base), value);
    im->emitted++; /* the name of the ONNX node is not for this one */
    onnx_emit_expand(im, *value, want, base->rank, -1, value);
    im->emitted = emitted;
    return im->rc;
}
