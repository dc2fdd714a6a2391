/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts and pads whose amounts depend on free sizes: a tensor is brought to the
 * size of another one.
 *
 * Entry i of the result is entry begin + i of the tensor along the axis.  The
 * result's size is that of a tensor of the graph; begin is computed at run time
 * from the sizes of tensors, of which each is told apart by its probes.
 */
#include <math.h>
#include <string.h>

#include "weights/onnx/composed/compose.h"
#include "weights/onnx/import.h"

/* Sizes that are tried as the terms of an offset, and the largest constant that
 * is added to one. */
#define MAX_TERMS  48
#define MAX_ADDEND 16

typedef int64_t probes[ONNX_PROBES];

struct term {
    probes size;
    int value, dim;
};

static bool is_fixed(const struct onnx_import *im, const int64_t *n)
{
    for (int p = 1; p < im->probes; p++)
        if (n[p] != n[0])
            return false;
    return true;
}

static bool equal(const struct onnx_import *im, const int64_t *a,
                  const int64_t *b)
{
    return memcmp(a, b, (size_t)im->probes * sizeof *a) == 0;
}

static int64_t half(int64_t n, bool up)
{
    n += up ? 1 : 0;
    return n >= 0 ? n / 2 : -((1 - n) / 2); /* rounded down */
}

/* ---- sizes at run time --------------------------------------------- */

/* The sizes of the graph that are free, each once, of dimensions from `first`.
 */
static int list_terms(const struct onnx_import *im, int first,
                      struct term *term)
{
    int n = 0;

    for (int v = 0; v < im->g->n_values && n < MAX_TERMS; v++) {
        if (im->g->value[v].data || !im->g->value[v].name)
            continue;
        for (int d = first; d < im->type[v][0].rank && n < MAX_TERMS; d++) {
            struct term t = {.value = v, .dim = d};
            bool seen = false;

            for (int p = 0; p < im->probes; p++)
                t.size[p] = im->type[v][p].dim[d];
            for (int i = 0; i < n && !seen; i++)
                seen = equal(im, term[i].size, t.size);
            if (!seen && !is_fixed(im, t.size))
                term[n++] = t;
        }
    }
    return n;
}

/* `one` repeated as often as a tensor has entries: a value of rank 1. */
static int repeat(struct onnx_import *im, int one, const int64_t *size)
{
    int64_t want[ONNX_PROBES][INFER_MAX_RANK] = {{0}};
    int value = -1;

    for (int p = 0; p < im->probes; p++)
        want[p][0] = size[p];
    onnx_emit_expand(im, one, want, 1, -1, &value);
    return value;
}

static int ones(struct onnx_import *im, const int64_t *size)
{
    const int64_t dim[1] = {1};
    float *data;
    const int one = compose_floats(im, 1, dim, &data);

    if (one < 0)
        return -1;
    data[0] = 1;
    return repeat(im, one, size);
}

/* The size of a term as F32 of one element. */
static int size_of(struct onnx_import *im, const struct term *t)
{
    return compose_reduce(im, KERN_REDUCE_SUM, ones(im, t->size), 0);
}

int compose_size(struct onnx_import *im, int value, int d)
{
    struct term t = {.value = value, .dim = d};

    if (im->rc < 0)
        return -1;
    for (int p = 0; p < im->probes; p++)
        t.size[p] = im->type[value][p].dim[d];
    return size_of(im, &t);
}

static int difference(struct onnx_import *im, const struct term *a,
                      const struct term *b)
{
    return compose_binary(im, KERN_SUB, size_of(im, a), size_of(im, b));
}

/* Half of the difference, rounded down or up. */
static int half_difference(struct onnx_import *im, const struct term *a,
                           const struct term *b, bool up)
{
    return compose_unary(im, up ? KERN_CEIL : KERN_FLOOR,
                         compose_linear(im, 0.5, 0, difference(im, a, b)));
}

/* Two terms of which the number is the difference, or half of it. */
static int from_pair(struct onnx_import *im, const int64_t *n,
                     const struct term *term, int n_terms)
{
    for (int i = 0; i < n_terms; i++)
        for (int k = 0; k < n_terms; k++) {
            bool whole = true, down = true, up = true;

            for (int p = 0; p < im->probes; p++) {
                const int64_t d = term[i].size[p] - term[k].size[p];

                whole = whole && d == n[p];
                down = down && half(d, false) == n[p];
                up = up && half(d, true) == n[p];
            }
            if (whole)
                return difference(im, &term[i], &term[k]);
            if (down || up)
                return half_difference(im, &term[i], &term[k], !down);
        }
    onnx_fail(im, INFER_EUNSUPPORTED,
              "an offset that is no difference of sizes; --input-shape fixes "
              "free sizes");
    return -1;
}

/* A number that is known at each probe as F32 of one element. */
static int number(struct onnx_import *im, const int64_t *n)
{
    struct term term[MAX_TERMS];
    int n_terms;

    if (im->rc < 0)
        return -1;
    if (is_fixed(im, n))
        return compose_number(im, INFER_F32, (double)n[0]);
    n_terms = list_terms(im, 1, term);
    for (int i = 0; i < n_terms; i++) {
        const int64_t more = n[0] - term[i].size[0];
        bool same = more >= -MAX_ADDEND && more <= MAX_ADDEND;

        for (int p = 1; p < im->probes; p++)
            same = same && n[p] - term[i].size[p] == more;
        if (same)
            return compose_linear(im, 1, (double)more, size_of(im, &term[i]));
    }
    return from_pair(im, n, term, n_terms);
}

/* ---- sizes that no tensor has ---------------------------------------- */

/* The largest number that a size is divided by. */
#define MAX_DIVISOR 128

/* A size made of that of a term: (size + add) / divisor, rounded down, times.
 */
struct made {
    struct term term;
    int64_t add, divisor, times;
};

/* Whether any of the sizes is no multiple of the divisor: else rounding up and
 * down are one. */
static bool tells_apart(const struct onnx_import *im, const struct made *m)
{
    bool any = m->divisor == 1;

    for (int p = 0; p < im->probes; p++)
        any = any || m->term.size[p] % m->divisor != 0;
    return any;
}

static bool makes(const struct onnx_import *im, const int64_t *size,
                  const struct made *m)
{
    for (int p = 0; p < im->probes; p++)
        if (m->term.size[p] + m->add < m->divisor ||
            (m->term.size[p] + m->add) / m->divisor * m->times != size[p])
            return false;
    return true;
}

/* A multiple, which no size makes another number. */
static bool find_multiple(const struct onnx_import *im, const int64_t *size,
                          struct made *m)
{
    struct term term[MAX_TERMS];
    /* Even sizes lie in a progression, as the batches do that are tried. */
    const int n = list_terms(im, im->odd_sizes ? 0 : 1, term);

    for (int64_t k = 2; k <= MAX_DIVISOR; k++)
        for (int i = 0; i < n; i++) {
            *m = (struct made){.term = term[i], .divisor = 1, .times = k};
            if (makes(im, size, m))
                return true;
        }
    return false;
}

/* A way that find_made() tries: rounded up (even) or down, to a multiple or in
 * units of the divisor. */
static struct made made_in(const struct term *term, int64_t divisor, int way)
{
    return (struct made){.term = *term,
                         .add = way % 2 ? 0 : divisor - 1,
                         .divisor = divisor,
                         .times = way < 2 ? divisor : 1};
}

/* Rounded up or down to a multiple, the same in units of the divisor, or with a
 * number added: what a rounded number is only odd sizes tell.  Where two of the
 * former fit, as multiples of 2 and of 4 may after strides, nothing tells which
 * is meant: neither is taken. */
static bool find_made(const struct onnx_import *im, const int64_t *size,
                      const struct term *term, int n_terms, struct made *m)
{
    int fits = 0;

    for (int64_t k = 2; k <= MAX_DIVISOR; k++)
        for (int i = 0; i < n_terms; i++)
            for (int way = 0; way < 4; way++) {
                const struct made one = made_in(&term[i], k, way);

                if (!tells_apart(im, &one) || !makes(im, size, &one))
                    continue;
                *m = one;
                fits++;
            }
    if (fits > 0)
        return fits == 1;
    for (int64_t k = -MAX_ADDEND; k <= MAX_ADDEND; k++)
        for (int i = 0; i < n_terms; i++) {
            *m = (struct made){
                .term = term[i], .add = k, .divisor = 1, .times = 1};
            if (makes(im, size, m))
                return true;
        }
    return false;
}

/* Windows of `divisor` entries side by side, of which each gives one. */
static int divide(struct onnx_import *im, int x, int64_t divisor)
{
    union graph_attr attr;

    if (im->rc < 0 || divisor == 1)
        return x;
    onnx_defaults(GRAPH_POOL, &attr);
    attr.pool.pool.kind = KERN_POOL_MAX;
    attr.pool.pool.window[0] = attr.pool.pool.stride[0] = (int)divisor;
    onnx_emit(im, GRAPH_POOL, &attr, &x, 1, -1, &x);
    return x;
}

int onnx_make_size(struct onnx_import *im, const int64_t *size)
{
    struct term term[MAX_TERMS];
    int64_t repeats[3] = {1, 1, 1};
    struct made m;
    int x;

    if (im->rc < 0 ||
        (!find_multiple(im, size, &m) &&
         (!im->odd_sizes ||
          !find_made(im, size, term, list_terms(im, 1, term), &m))))
        return -1;
    x = compose_reshape(im, ones(im, m.term.size), 3,
                        (const int64_t[]){1, 1, -1});
    if (m.add > 0)
        x = compose_pad(im, x, 2, 0, (int)m.add, 1);
    else if (m.add < 0)
        x = compose_slice(im, x, 2, -m.add, OP_MAX_COUNT, 1);
    x = divide(im, x, m.divisor);
    repeats[2] = m.times;
    if (m.times > 1)
        onnx_emit_dims(im, GRAPH_TILE, x, 3, repeats, -1, &x);
    return im->rc < 0 ? -1 : x;
}

/* ---- numbers of sizes as data -------------------------------------- */

/* Such tensors have at most this many numbers. */
#define MAX_NUMBERS 16

/* What a number is of a size at every probe: times (size + add), or times
 * / (size + add). */
struct formula {
    struct term term;
    double times, add;
    bool inverse;
};

static double of_size(const struct formula *f, int64_t size)
{
    const double n = (double)size + f->add;

    return f->inverse ? 1 / n : n;
}

/* Integers are computed in single precision: exactly up to a size of 65536. */
#define MAX_FACTOR 256
#define MAX_EXACT  (1 << 24)
/* Of a small size two numbers make nearly everything. */
#define LEAST_WITH_ADDEND 32

/* Floats may be off by their rounding. */
static bool fits(const struct onnx_import *im, const double *n, bool integers,
                 struct formula *f)
{
    const double first = of_size(f, f->term.size[0]);

    if (first == 0 || !isfinite(first))
        return false;
    f->times = n[0] / first;
    /* Of even sizes alone a half could be one that is rounded. */
    if (!f->inverse && (integers || !im->odd_sizes) &&
        f->times != floor(f->times))
        return false;
    if (integers && fabs(f->times) > MAX_FACTOR)
        return false;
    for (int p = 0; p < im->probes; p++) {
        const double got = f->times * of_size(f, f->term.size[p]);

        if (integers || !isfinite(got) || !isfinite(n[p])
                ? got != n[p]
                : fabs(got - n[p]) > 2e-7 * fabs(n[p]))
            return false;
    }
    return true;
}

/* Quotients of sizes may be as small as the batches that are tried. */
static bool is_batch(const struct onnx_import *im, const int64_t *size)
{
    for (int p = 0; p < im->probes; p++)
        if (size[p] != onnx_probe_size(im, p, 0))
            return false;
    return true;
}

static int64_t largest(const struct onnx_import *im, const int64_t *size)
{
    int64_t n = size[0];

    for (int p = 1; p < im->probes; p++)
        n = size[p] > n ? size[p] : n;
    return n;
}

static bool find_formula(const struct onnx_import *im, const double *n,
                         bool integers, const struct term *term, int n_terms,
                         struct formula *f)
{
    /* The plainest first: nothing, 0.5, -0.5, 1, ... is added. */
    for (int k = 0; k <= 4 * MAX_ADDEND; k++)
        for (int i = 0; i < n_terms; i++)
            for (int inverse = 0; inverse <= (integers ? 0 : 1); inverse++) {
                *f = (struct formula){.term = term[i],
                                      .add = (k + 1) / 2 * (k % 2 ? 0.5 : -0.5),
                                      .inverse = inverse};
                if (is_batch(im, term[i].size) ||
                    (k > 0 && largest(im, term[i].size) < LEAST_WITH_ADDEND))
                    continue;
                if (fits(im, n, integers, f))
                    return true;
            }
    return false;
}

/* Element k at each probe. */
static bool elements(const struct onnx_import *im,
                     const struct onnx_small *const *small, int64_t k,
                     double *n)
{
    bool fixed = true;

    for (int p = 0; p < im->probes; p++) {
        n[p] = small[p]->i ? (double)small[p]->i[k] : small[p]->d[k];
        fixed = fixed && n[p] == n[0];
    }
    return fixed;
}

int onnx_numbers_of_sizes(struct onnx_import *im,
                          const struct onnx_small *const *small, int *value)
{
    const enum infer_dtype dtype = small[0]->dtype;
    const bool integers = small[0]->i != NULL;
    struct formula f[MAX_NUMBERS];
    struct term term[MAX_TERMS];
    double n[MAX_NUMBERS][ONNX_PROBES];
    int part[MAX_NUMBERS], n_terms;
    bool fixed[MAX_NUMBERS];

    *value = -1;
    if (onnx_small_is_free(im, small) || small[0]->count > MAX_NUMBERS ||
        small[0]->count < 1 || dtype == INFER_BOOL)
        return im->rc;
    n_terms = list_terms(im, 1, term);
    for (int64_t k = 0; k < small[0]->count; k++) {
        fixed[k] = elements(im, small, k, n[k]);
        if (integers && fabs(n[k][0]) > MAX_EXACT)
            return im->rc;
        if (!fixed[k] &&
            !find_formula(im, n[k], integers, term, n_terms, &f[k]))
            return im->rc;
    }
    for (int64_t k = 0; k < small[0]->count; k++) {
        part[k] =
            fixed[k] ? compose_number(im, INFER_F32, n[k][0])
                     : compose_linear(im, 1, f[k].add, size_of(im, &f[k].term));
        if (!fixed[k] && f[k].inverse)
            part[k] = compose_binary(im, KERN_DIV,
                                     compose_number(im, INFER_F32, f[k].times),
                                     part[k]);
        else if (!fixed[k])
            part[k] = compose_linear(im, f[k].times, 0, part[k]);
        part[k] = compose_reshape(im, part[k], 1, (const int64_t[]){1});
    }
    *value = compose_concat(im, (int)small[0]->count, part, 0);
    *value = compose_cast(
        im, dtype, compose_reshape(im, *value, small[0]->rank, small[0]->dim));
    return im->rc;
}

/* ---- positions ----------------------------------------------------- */

/* begin, begin + 1, ...: as many as a tensor has entries, as F32. */
static int positions(struct onnx_import *im, const int64_t *size,
                     const int64_t *begin)
{
    union graph_attr attr;
    int x = ones(im, size);

    if (im->rc < 0)
        return -1;
    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &x, 1, -1, &x);
    return is_fixed(im, begin) && begin[0] == 0
               ? x
               : compose_binary(im, KERN_ADD, x, number(im, begin));
}

static int gather(struct onnx_import *im, int x, int at, int axis)
{
    return compose_gather(im, x, compose_cast(im, INFER_I64, at), axis);
}

int onnx_cut_to(struct onnx_import *im, int x, int axis, const int64_t *begin,
                const int64_t *size)
{
    return gather(im, x, positions(im, size, begin), axis);
}

int onnx_pad_to(struct onnx_import *im, int x, int axis, const int64_t *before,
                const int64_t *size, enum kern_pad_mode mode, float value)
{
    int64_t line[INFER_MAX_RANK];
    probes begin, last;
    int at, inside, end;

    if (im->rc < 0)
        return -1;
    for (int p = 0; p < im->probes; p++) {
        begin[p] = -before[p];
        last[p] = im->type[x][p].dim[axis] - 1;
    }
    at = positions(im, size, begin);
    end = number(im, last);
    if (mode == KERN_PAD_REFLECT) {
        at = compose_unary(im, KERN_ABS, at);
        at = compose_binary(
            im, KERN_SUB, end,
            compose_unary(im, KERN_ABS, compose_binary(im, KERN_SUB, end, at)));
        return gather(im, x, at, axis);
    }
    inside = compose_binary(
        im, KERN_MIN,
        compose_binary(im, KERN_MAX, at, compose_number(im, INFER_F32, 0)),
        end);
    x = gather(im, x, inside, axis);
    if (mode == KERN_PAD_EDGE || im->rc < 0)
        return x;
    if (mode != KERN_PAD_CONSTANT) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "pads of this mode that depend on a free dimension");
        return -1;
    }
    for (int d = 0; d < compose_rank(im, x); d++)
        line[d] = d == axis ? -1 : 1;
    return compose_where(
        im,
        compose_reshape(im, compose_binary(im, KERN_EQUAL, at, inside),
                        compose_rank(im, x), line),
        x, compose_number(im, compose_dtype(im, x), (double)value));
}
