/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expected outputs and tolerances of a problem.
 *
 * The reference would take minutes on the layers of a large batch.  Large
 * problems are therefore sampled: a smaller problem has the same outputs.
 *   convolution, dense   some pixels with all their channels, each from the
 *                        patch of the input that it sees: corners first
 *   transposed (dgrad)   the same, of an input with zeros between its elements
 *                        instead of a stride
 *   wgrad                some pairs of an input and an output channel, each a
 *                        group of its own
 *   everything else      the first and the last image
 * checkkern compares every element, on problems small enough for that.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/input_scale.h"
#include "tools/kbench/kbench.h"
#include "tools/verify/verify.h"

/* FLOP of the reference for one problem: about 50 ms. */
#define BUDGET 2e7

#define MIN_POINTS 4
#define MAX_POINTS 64

/* ---- values -------------------------------------------------------- */

bool kb_values_new(struct kb_values *v, const struct kern_problem *p,
                   uint64_t seed)
{
    struct rng rng = {seed};

    memset(v, 0, sizeof(*v));
    for (int i = 0; i < p->n_in; i++) {
        if (!kern_problem_in(p, i))
            continue;
        v->pool[i] = malloc(KB_PERIOD * infer_dtype_size(p->in[i].dtype));
        if (!v->pool[i])
            return false;
        data_fill(p, i, PASS_REAL, &rng, KB_PERIOD, v->pool[i]);
    }
    return true;
}

void kb_values_free(struct kb_values *v)
{
    for (int i = 0; i < KERN_MAX_IN; i++)
        free(v->pool[i]);
    memset(v, 0, sizeof(*v));
}

/* ---- samples ------------------------------------------------------- */

enum sample { SAMPLE_ALL, SAMPLE_PIXELS, SAMPLE_PAIRS, SAMPLE_IMAGES };

/* Pixels of an output (image and position), or pairs of a filter and a channel
 * of its group. */
struct points {
    int n;
    int64_t at[MAX_POINTS][1 + KERN_MAX_SPATIAL];
};

static double cost_of(const struct kern_problem *p)
{
    const double terms = problem_terms(p);

    return 2 * terms * (double)kern_tensor_count(&p->out[0]);
}

static enum sample choose_sample(const struct kern_problem *p)
{
    if (cost_of(p) <= BUDGET)
        return SAMPLE_ALL;
    if (p->op == KERN_CONV_FPROP || p->op == KERN_DENSE_FPROP ||
        p->op == KERN_CONV_TRANSPOSE_FPROP)
        return SAMPLE_PIXELS;
    if (p->op == KERN_CONV_WGRAD)
        return SAMPLE_PAIRS;
    return p->out[0].rank > 1 && p->out[0].dim[0] > 2 ? SAMPLE_IMAGES
                                                      : SAMPLE_ALL;
}

/* Extents of the output positions that may be sampled: pixels of a convolution,
 * rows of a product, pairs of channels of a wgrad. */
static int position_extents(const struct kern_problem *p,
                            int64_t dim[KERN_MAX_RANK])
{
    const struct kern_tensor *y = &p->out[0];
    int n = 0;

    if (p->op == KERN_CONV_WGRAD) {
        dim[n++] = y->dim[0];
        dim[n++] = y->dim[1];
        return n;
    }
    if (p->op == KERN_DENSE_FPROP) {
        for (int i = 0; i + 1 < y->rank; i++)
            dim[n++] = y->dim[i];
        return n;
    }
    dim[n++] = y->dim[0];
    for (int i = 2; i < y->rank; i++)
        dim[n++] = y->dim[i];
    return n;
}

/* Elements of the output at one position: its channels, or a window. */
static double elements_of_point(const struct kern_problem *p)
{
    const struct kern_tensor *y = &p->out[0];
    double n = 1;

    if (p->op != KERN_CONV_WGRAD)
        return (double)y->dim[p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1];
    for (int i = 2; i < y->rank; i++)
        n *= (double)y->dim[i];
    return n;
}

/* Opposite corners of the whole output first, then random positions. */
static void choose_points(const struct kern_problem *p, uint64_t seed,
                          struct points *out)
{
    const double one = 2 * problem_terms(p) * elements_of_point(p);
    struct rng rng = {seed ^ 0x70697865u};
    int64_t dim[KERN_MAX_RANK];
    const int rank = position_extents(p, dim);
    const double fit = BUDGET / one;

    out->n = fit < MIN_POINTS   ? MIN_POINTS
             : fit > MAX_POINTS ? MAX_POINTS
                                : (int)fit;
    for (int k = 0; k < out->n; k++)
        for (int i = 0; i < rank; i++) {
            const bool last = k < 4 && (i == 0 ? k & 1 : (k ^ (k >> 1)) & 1);
            out->at[k][i] = k >= 4 ? rng_range(&rng, 0, dim[i] - 1)
                            : last ? dim[i] - 1
                                   : 0;
        }
}

/* ---- the smaller problem ------------------------------------------- */

/* Where element `index` of tensor i (or the output, i < 0) of the smaller
 * problem lies in the whole one; false in the padding. */
struct mapping {
    const struct kern_problem *whole;
    enum sample sample;
    const struct points *points;
};

static int64_t offset_of(const struct kern_tensor *t, const int64_t *index)
{
    int64_t offset = 0;

    for (int d = 0; d < t->rank; d++)
        offset += index[d] * t->stride[d];
    return offset;
}

/* Extent of the patch of the input that an output sees. */
static int64_t reach_of(const struct kern_problem *p, int i)
{
    return p->attr.conv.dilation[i] * (p->in[1].dim[i + 2] - 1) + 1;
}

/* First input index of the patch of an output position.  Of a transposed
 * convolution: in the input with stride - 1 zeros between its elements. */
static int64_t patch_start(const struct kern_problem *p, int i, int64_t at)
{
    const struct kern_conv *a = &p->attr.conv;

    return p->op == KERN_CONV_TRANSPOSE_FPROP
               ? at + a->pad_begin[i] - (reach_of(p, i) - 1)
               : at * a->stride[i] - a->pad_begin[i];
}

static bool map_patch(const struct mapping *m, const int64_t *index,
                      int64_t *whole)
{
    const struct kern_tensor *x = &m->whole->in[0];
    const int64_t *at = m->points->at[index[0]];

    whole[0] = at[0];
    whole[1] = index[1];
    for (int i = 0; i + 2 < x->rank; i++) {
        const int64_t step = m->whole->op == KERN_CONV_TRANSPOSE_FPROP
                                 ? m->whole->attr.conv.stride[i]
                                 : 1;
        const int64_t from = patch_start(m->whole, i, at[1 + i]) + index[i + 2];
        if (from < 0 || from % step != 0 || from / step >= x->dim[i + 2])
            return false;
        whole[i + 2] = from / step;
    }
    return true;
}

/* Tensor i of a weight's gradient (the output: i < 0): channel index[1] of x
 * and dy, and filter index[0] of dw, are those of a pair. */
static void map_pair(const struct mapping *m, int i, const int64_t *index,
                     int64_t *whole)
{
    const struct kern_problem *p = m->whole;
    const int64_t filters = p->out[0].dim[0] / p->attr.conv.groups;
    const int64_t *at = m->points->at[index[i < 0 ? 0 : 1]];

    if (i < 0) {
        whole[0] = at[0];
        whole[1] = at[1];
    } else {
        whole[1] = i == 0 ? at[0] / filters * p->out[0].dim[1] + at[1] : at[0];
    }
}

/* Index in the whole tensor of an element of the small one. */
static bool map_index(const struct mapping *m, int i, const int64_t *index,
                      int64_t *whole)
{
    const struct kern_tensor *t = i < 0 ? &m->whole->out[0] : &m->whole->in[i];
    const bool activation = i <= 0 || i == kern_op_residual(m->whole->op);

    memcpy(whole, index, (size_t)t->rank * sizeof(*whole));
    if (m->sample == SAMPLE_PAIRS) {
        map_pair(m, i, index, whole);
        return true;
    }
    if (m->sample == SAMPLE_IMAGES) {
        if (t->rank == m->whole->out[0].rank && index[0] == 1 &&
            t->dim[0] == m->whole->out[0].dim[0])
            whole[0] = t->dim[0] - 1;
        return true;
    }
    if (m->sample == SAMPLE_PIXELS && i == INPUT_SCALE_IN) {
        whole[0] = m->points->at[index[0]][0];
        return true;
    }
    if (m->sample == SAMPLE_ALL || !activation)
        return true;
    const int64_t *at = m->points->at[index[0]];
    if (m->whole->op == KERN_DENSE_FPROP) { /* small: point, channel */
        memcpy(whole, at, (size_t)(t->rank - 1) * sizeof(*whole));
        whole[t->rank - 1] = index[1];
        return true;
    }
    if (i == 0)
        return map_patch(m, index, whole);
    whole[0] = at[0];
    for (int d = 2; d < t->rank; d++)
        whole[d] = at[d - 1];
    return true;
}

static void shrink_images(struct kern_problem *p)
{
    const int64_t images = p->out[0].dim[0];
    const int rank = p->out[0].rank;

    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].rank == rank && p->in[i].dim[0] == images)
            p->in[i].dim[0] = 2;
    p->out[0].dim[0] = 2;
}

static void shrink_pixels(struct kern_problem *p, int points)
{
    struct kern_conv *a = &p->attr.conv;
    const int residual = kern_op_residual(p->op);
    struct kern_tensor *flat[3] = {&p->in[0], &p->out[0], NULL};

    if (residual >= 0 && kern_problem_in(p, residual))
        flat[2] = &p->in[residual];
    if (input_scale_of(p))
        p->in[INPUT_SCALE_IN].dim[0] = points;
    for (int i = 0; i < 3 && flat[i]; i++) {
        struct kern_tensor *t = flat[i];
        if (p->op == KERN_DENSE_FPROP) {
            t->dim[1] = t->dim[t->rank - 1];
            t->rank = 2;
        }
        t->dim[0] = points;
        for (int d = 2; d < t->rank; d++)
            t->dim[d] = i == 0 ? reach_of(p, d - 2) : 1;
    }
    if (p->op == KERN_DENSE_FPROP)
        return;
    for (int d = 0; d < KERN_MAX_SPATIAL; d++) {
        a->stride[d] = 1;
        a->pad_begin[d] = a->pad_end[d] =
            p->op == KERN_CONV_TRANSPOSE_FPROP && d + 2 < p->out[0].rank
                ? (int)reach_of(p, d) - 1
                : 0;
    }
}

static void shrink_pairs(struct kern_problem *p, int pairs)
{
    p->attr.conv.groups = pairs;
    p->in[0].dim[1] = p->in[1].dim[1] = p->out[0].dim[0] = pairs;
    p->out[0].dim[1] = 1;
}

/* ---- filling ------------------------------------------------------- */

/* The next index of a dense walk. */
static void step_index(const struct kern_tensor *t, int64_t *index)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        if (++index[d] < t->dim[d])
            return;
        index[d] = 0;
    }
}

static bool fill_input(const struct mapping *m, const struct kb_values *v,
                       int i, struct reference *t)
{
    const struct kern_tensor *whole = &m->whole->in[i];
    const size_t size = infer_dtype_size(whole->dtype);
    const int64_t n = kern_tensor_count(&t->p.in[i]);
    int64_t index[KERN_MAX_RANK] = {0}, at[KERN_MAX_RANK];
    char *dense = calloc((size_t)n + 1, size);

    if (!dense)
        return false;
    for (int64_t e = 0; e < n; e++, step_index(&t->p.in[i], index))
        if (map_index(m, i, index, at))
            memcpy(dense + (size_t)e * size,
                   (const char *)v->pool[i] +
                       (size_t)(offset_of(whole, at) % KB_PERIOD) * size,
                   size);
    reference_set(t, i, whole->dtype, dense);
    free(dense);
    return true;
}

/* Ranges of the output's storage that hold the sample: runs of neighbouring
 * elements where channels lie together, else all of it. */
static bool fill_ranges(const struct mapping *m,
                        struct kb_verification *verification)
{
    const struct kern_tensor *y = &m->whole->out[0];
    int64_t index[KERN_MAX_RANK] = {0}, at[KERN_MAX_RANK];
    const int64_t whole = kern_tensor_count(y);
    const int64_t images = m->sample == SAMPLE_IMAGES ? 2 : 1;
    const int last = m->whole->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    const bool pixels = m->sample == SAMPLE_PIXELS && y->stride[last] == 1;

    verification->n_ranges = pixels ? m->points->n : (int)images;
    verification->range =
        calloc((size_t)verification->n_ranges, sizeof(*verification->range));
    verification->offset =
        malloc(((size_t)verification->count + 1) * sizeof(int64_t));
    if (!verification->range || !verification->offset)
        return false;
    for (int64_t e = 0; e < verification->count; e++) {
        (void)map_index(m, -1, index, at);
        verification->offset[e] = offset_of(y, at);
        step_index(&verification->out, index);
    }
    for (int r = 0; r < verification->n_ranges; r++) {
        const int64_t part = verification->count / verification->n_ranges;
        if (pixels || m->sample == SAMPLE_IMAGES) {
            verification->range[r][0] = verification->offset[r * part];
            verification->range[r][1] = part;
        } else {
            verification->range[r][1] = whole;
        }
    }
    return true;
}

/* Index of a kernel's tolerances. */
static int bound_of(const struct kern_exec *e)
{
    switch (bound_way(e->row)) {
    case BOUND_WINOGRAD:
        return KB_WINOGRAD;
    case BOUND_FOURIER:
        return KB_FOURIER;
    case BOUND_SUMS:
        break;
    }
    return (e->flags & KERN_TF32 ? KB_ROUNDS_TF32 : 0) |
           (e->flags & KERN_ROUNDS_BIAS ? KB_ROUNDS_BIAS : 0);
}

/* True if a kernel of this kind may support the problem. */
static bool is_possible(const struct kern_problem *p, int kind)
{
    const bool half = p->out[0].dtype != INFER_F32;
    const bool wgrad = p->op == KERN_CONV_WGRAD;
    const bool convolution =
        wgrad || p->op == KERN_CONV_FPROP || p->op == KERN_CONV_DGRAD;
    const struct kern_tensor *w = wgrad ? &p->out[0] : &p->in[1];
    const bool bare = convolution && p->out[0].rank == 4 &&
                      !kern_problem_in(p, 2) && !kern_problem_in(p, 3) &&
                      p->epilogue.act.kind == KERN_IDENTITY;

    if (kind == KB_WINOGRAD)
        return bare && w->dim[2] == 3 && w->dim[3] == 3;
    if (kind == KB_FOURIER)
        return bare;
    return (p->allow_tf32 || !(kind & KB_ROUNDS_TF32)) &&
           ((half && p->constant_in & 4u) || !(kind & KB_ROUNDS_BIAS));
}

/* Tolerances for an accumulator in single precision. */
static bool fill_bound(const struct reference *t, const struct kern_problem *p,
                       int kind, double *tol, struct infer_error *err)
{
    const struct kern_row row = {.name = "any", .acc = INFER_F32};
    const struct kern_exec e = {
        .row = &row,
        .problem = *p,
        .flags = (kind & KB_ROUNDS_TF32 ? KERN_TF32 : 0) |
                 (kind & KB_ROUNDS_BIAS ? KERN_ROUNDS_BIAS : 0)};

    if (kind < KB_WINOGRAD)
        return bound_fill(t, 0, &e, tol, err);
    bound_transform(t, kind == KB_WINOGRAD ? BOUND_WINOGRAD : BOUND_FOURIER,
                    bound_unit(row.acc), tol);
    return true;
}

static bool fill_bounds(const struct reference *t, const struct kern_problem *p,
                        struct kb_verification *verification,
                        struct infer_error *err)
{
    for (int kind = 0; kind < KB_BOUNDS; kind++) {
        if (!is_possible(p, kind))
            continue;
        verification->tol[kind] =
            malloc(((size_t)verification->count + 1) * sizeof(double));
        if (!verification->tol[kind]) {
            error_set(err, INFER_EMEMORY, "out of memory");
            return false;
        }
        if (!fill_bound(t, p, kind, verification->tol[kind], err))
            return false;
    }
    return true;
}

int kb_verification_new(const struct kern_problem *p, uint64_t seed,
                        struct kb_verification *out, struct infer_error *err)
{
    struct points points = {0};
    const struct mapping m = {p, choose_sample(p), &points};
    struct kern_problem small = *p;
    struct kb_values values;
    struct reference t = {0};

    memset(out, 0, sizeof(*out));
    error_set(err, INFER_EMEMORY, "out of memory");
    if (m.sample == SAMPLE_IMAGES)
        shrink_images(&small);
    if (m.sample == SAMPLE_PIXELS || m.sample == SAMPLE_PAIRS)
        choose_points(p, seed, &points);
    if (m.sample == SAMPLE_PIXELS)
        shrink_pixels(&small, points.n);
    if (m.sample == SAMPLE_PAIRS)
        shrink_pairs(&small, points.n);
    bool ok = kb_values_new(&values, p, seed) && reference_new(&t, &small);
    for (int i = 0; ok && i < p->n_in; i++)
        ok = !kern_problem_in(p, i) || fill_input(&m, &values, i, &t);
    if (ok) {
        out->out = t.p.out[0];
        out->count = kern_tensor_count(&out->out);
        ok = fill_ranges(&m, out) && reference_run(&t, err) &&
             fill_bounds(&t, p, out, err);
    }
    if (ok) {
        out->expected = t.out[0];
        t.out[0] = NULL;
        error_clear(err);
    } else {
        kb_verification_free(out);
    }
    reference_free(&t);
    kb_values_free(&values);
    return ok ? 0 : err->code;
}

void kb_verification_free(struct kb_verification *verification)
{
    free(verification->expected);
    for (int kind = 0; kind < KB_BOUNDS; kind++)
        free(verification->tol[kind]);
    free(verification->range);
    free(verification->offset);
    memset(verification, 0, sizeof(*verification));
}

/* ---- checking ------------------------------------------------------ */

bool kb_verification_check(const struct kb_verification *verification,
                           const struct kern_problem *p,
                           const struct kern_exec *e, const void *y,
                           double *worst, char *text, size_t bytes)
{
    const enum infer_dtype dtype = p->out[0].dtype;
    const size_t size = infer_dtype_size(dtype);
    const int kind = bound_of(e);
    const double *tol = verification->tol[kind] ? verification->tol[kind]
                                                : verification->tol[0];
    struct reference t = {.out = {verification->expected}};
    char why[VERIFY_TEXT] = "out of memory";
    char *dense = malloc((size_t)verification->count * size + 1);
    bool ok = dense != NULL;

    t.p.out[0] = verification->out;
    for (int64_t i = 0; ok && i < verification->count; i++)
        memcpy(dense + (size_t)i * size,
               (const char *)y + (size_t)verification->offset[i] * size, size);
    ok = ok && verify_compare(&t, 0, dtype, dense, PASS_REAL, tol, worst, why);
    free(dense);
    if (!ok)
        snprintf(text, bytes, "%s", why);
    return ok;
}
