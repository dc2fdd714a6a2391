/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding of shape glue: nodes whose inputs are small and known are computed
 * here, at every probe, and leave no trace in the graph.
 */
#include <string.h>

#include "weights/onnx/fold/fold.h"
#include "weights/onnx/small.h"

/* ---- Shape and Size ------------------------------------------------ */

/* The dimensions start .. end-1 of a shape, or their number of elements. */
static int shape_at(struct onnx_import *im, int probe, bool size,
                    struct onnx_small **out)
{
    int64_t start = 0, end = INFER_MAX_RANK, count = 1;
    struct graph_type t;
    int k, rc;

    if (onnx_input_type(im, 0, probe, &t) < 0)
        return im->rc;
    if (size) {
        rc = onnx_small_new(im, INFER_I64, 0, NULL, out);
        if (rc > 0 && !checked_count(t.rank, t.dim, &(*out)->i[0]))
            rc = onnx_fail(im, INFER_EFORMAT, "the size overflows");
        return rc;
    }
    onnx_int(im, "start", INT64_MIN, INT64_MAX, &start);
    if (onnx_int(im, "end", INT64_MIN, INT64_MAX, &end) < 0)
        return im->rc;
    rc = op_slice_resolve(start, end, 1, t.rank, &start, &count, im->err);
    if (rc == 0)
        rc = onnx_small_new(im, INFER_I64, 1, &count, out);
    for (k = 0; rc > 0 && k < (int)count; k++)
        (*out)->i[k] = t.dim[start + k];
    return rc;
}

static int fold_shape(struct onnx_import *im, bool size)
{
    const struct onnx_small **small;
    struct onnx_small *s = NULL;
    int p, rc;

    if (onnx_arity(im, 1, 1) < 0)
        return im->rc;
    small = onnx_alloc(&im->keep, sizeof(*small) * ONNX_PROBES);
    if (!small)
        return onnx_no_memory(im);
    for (p = 0; p < im->probes; p++) {
        rc = shape_at(im, p, size, &s);
        if (rc <= 0) /* 0: the limit on small tensors */
            return rc;
        small[p] = s;
    }
    return onnx_set_small(im, 0, small) < 0 ? im->rc : 1;
}

/* ---- the node ------------------------------------------------------ */

/* True if an input is computed by the graph.  Checked first, so that the other
 * inputs are not loaded. */
static bool reads_graph(const struct onnx_import *im)
{
    int i;

    for (i = 0; i < im->node->n_in; i++)
        if (onnx_has_input(im, i) && !onnx_input_is_known(im, i))
            return true;
    return false;
}

/* True where every input that is there is small and known, and at least one
 * is. */
static int gather_inputs(struct onnx_import *im,
                         const struct onnx_small *const **in, bool *known)
{
    int i;

    *known = onnx_has_input(im, 0) && !reads_graph(im);
    for (i = 0; i < im->node->n_in && *known; i++) {
        onnx_input_small(im, i, &in[i]);
        *known = in[i] || !onnx_has_input(im, i);
    }
    return im->rc;
}

/* Inputs that are the same tensor at all probes give the same result. */
static bool all_fixed(const struct onnx_import *im,
                      const struct onnx_small *const *const *in)
{
    int i, p;

    for (i = 0; i < im->node->n_in; i++)
        for (p = 1; in[i] && p < im->probes; p++)
            if (in[i][p] != in[i][0])
                return false;
    return true;
}

static int fold_at_probes(struct onnx_import *im, const struct fold_rule *rule,
                          const struct onnx_small *const *const *in,
                          const struct onnx_small **small)
{
    const struct onnx_small **at;
    bool fixed = all_fixed(im, in);
    struct fold f;
    int i, p, rc;

    at = onnx_alloc(&im->scratch, (size_t)im->node->n_in * sizeof(*at));
    if (!at)
        return onnx_no_memory(im);
    f.im = im;
    f.in = at;
    f.n_in = im->node->n_in;
    f.param = rule->param;
    for (p = 0; p < im->probes; p++) {
        struct onnx_small *s = NULL;

        if (p > 0 && fixed) {
            small[p] = small[0];
            continue;
        }
        f.probe = p;
        for (i = 0; i < im->node->n_in; i++)
            at[i] = in[i] ? in[i][p] : NULL;
        rc = rule->fold(&f, &s);
        if (rc <= 0)
            return rc;
        small[p] = s;
    }
    return 1;
}

int onnx_fold_node(struct onnx_import *im)
{
    const struct onnx_small *const **in;
    const struct onnx_small **small;
    const struct fold_rule *rule;
    bool known;
    int rc;

    if (strcmp(im->node->op, "Shape") == 0)
        return fold_shape(im, false);
    if (strcmp(im->node->op, "Size") == 0)
        return fold_shape(im, true);
    rule = fold_rule_find(im->node->op);
    if (!rule || im->node->n_out != 1 || onnx_reads_counted(im))
        return 0;
    in = onnx_alloc(&im->scratch, (size_t)im->node->n_in * sizeof(*in));
    small = onnx_alloc(&im->keep, sizeof(*small) * ONNX_PROBES);
    if (!in || !small)
        return onnx_no_memory(im);
    if (gather_inputs(im, in, &known) < 0 || !known)
        return im->rc;
    rc = fold_at_probes(im, rule, in, small);
    if (rc <= 0)
        return rc;
    if (onnx_small_is_free(im, (const struct onnx_small *const *)small) &&
        strcmp(im->node->op, "Range") != 0) {
        /* Data of a free size, which the graph can make of its inputs. */
        bool expands;

        if (onnx_small_expands(im, (const struct onnx_small *const *)small,
                               &expands) < 0 ||
            !expands)
            return im->rc;
    }
    return onnx_set_small(im, 0, small) < 0 ? im->rc : 1;
}

/* ---- where an element goes ----------------------------------------- */

/* A small tensor of 0 that is 1 at one element; NULL where it has no such
 * element. */
static struct onnx_small *marked(struct onnx_import *im,
                                 const struct onnx_small *a, int64_t element)
{
    struct onnx_small *s = onnx_alloc(&im->scratch, sizeof *s);
    const size_t n = (size_t)a->count;

    if (!s || element >= a->count)
        return NULL;
    *s = *a;
    s->i = a->i ? onnx_alloc(&im->scratch, (n + 1) * sizeof *s->i) : NULL;
    s->d = a->i ? NULL : onnx_alloc(&im->scratch, (n + 1) * sizeof *s->d);
    if (!s->i && !s->d)
        return NULL;
    for (int64_t k = 0; k < a->count; k++)
        if (s->i)
            s->i[k] = k == element;
        else
            s->d[k] = k == element;
    return s;
}

/* The one element that is not 0: -1 where all are, -2 where several are. */
static int find_mark(const struct onnx_small *s)
{
    int at = -1;

    for (int64_t k = 0; k < s->count; k++)
        if (s->i ? s->i[k] != 0 : s->d[k] != 0)
            at = at == -1 && k < INT32_MAX ? (int)k : -2;
    return at;
}

/* Whether the current node moves the elements of input i. */
static bool moves(const struct onnx_import *im, int i)
{
    static const char *const movers[] = {"Cast",     "Flatten",   "Gather",
                                         "Identity", "Reshape",   "Slice",
                                         "Squeeze",  "Transpose", "Unsqueeze"};

    if (strcmp(im->node->op, "Concat") == 0)
        return true;
    if (strcmp(im->node->op, "Where") == 0)
        return i > 0;
    for (size_t k = 0; k < sizeof movers / sizeof movers[0]; k++)
        if (strcmp(im->node->op, movers[k]) == 0)
            return i == 0;
    return false;
}

int onnx_fold_place(struct onnx_import *im, int from, int64_t element)
{
    const struct fold_rule *rule = fold_rule_find(im->node->op);
    const int n = im->node->n_in;
    const struct onnx_small *const **in;
    const struct onnx_small **at;
    struct fold f = {.im = im, .n_in = n};
    bool known;
    int place = -2;

    in = onnx_alloc(&im->scratch, (size_t)n * sizeof(*in));
    at = onnx_alloc(&im->scratch, (size_t)n * sizeof(*at));
    if (!in || !at) {
        onnx_no_memory(im);
        return -2;
    }
    if (!rule || !moves(im, from) || gather_inputs(im, in, &known) < 0 ||
        !known)
        return -2;
    f.in = at;
    f.param = rule->param;
    for (f.probe = 0; f.probe < im->probes; f.probe++) {
        struct onnx_small *s = NULL;
        int here;

        for (int i = 0; i < n; i++) {
            at[i] = in[i] ? in[i][f.probe] : NULL;
            if (at[i] && moves(im, i))
                at[i] = marked(im, at[i], i == from ? element : -1);
            if (in[i] && !at[i])
                return -2;
        }
        if (rule->fold(&f, &s) <= 0 || s->dtype == INFER_BOOL)
            return -2;
        here = find_mark(s);
        if (f.probe > 0 && here != place)
            return -2;
        place = here;
    }
    return place;
}
