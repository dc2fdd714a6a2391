/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention through the product of vector.h, any strides.
 *
 * A thread takes one head at a time, or a part of its queries.  It packs the
 * keys and the values once into panels of NB, then goes through the queries
 * block by block: scores, their softmax without the division, the product with
 * the values, the division.  The scores of a block stay in the L2 cache.
 *
 * Every sum is of one query and in the order of its depth or of the keys: bits
 * depend neither on blocks nor on threads.
 */
#include "config.h"

#include "kernels/cpu/conv/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

enum { Q = KERN_ATTENTION_Q, K = KERN_ATTENTION_K, V = KERN_ATTENTION_V };
#define BIASES 2

/* Queries of a block: whole tiles of the product with AVX2 and AVX-512. */
#define BLOCK 48

/* A bias along heads (all dimensions before M and N), queries and keys. */
struct bias {
    bool present;
    int64_t lead[KERN_MAX_RANK], m, n;
};

struct state {
    const struct vector_steps *steps;
    int threads;
    int64_t heads, queries, keys, depth, width;
    int64_t panel, key_panels, value_panels;
    int lead; /* dimensions that make the heads */
    int64_t dim[KERN_MAX_RANK];
    int64_t stride[4][KERN_MAX_RANK]; /* of q, k, v, y along them */
    struct bias bias[BIASES];
    /* Floats of a thread's memory: packed keys, packed values, a block of
     * queries, of scores, of results. */
    size_t k, v, q, scores, y, all;
};

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i) && !cpu_is_f32(&p->in[i]))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32");
    if (!cpu_is_f32(&p->out[0]) || !cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED,
                         "makes F32, and lacks this activation");
    for (int i = Q; i <= V; i++)
        if (kern_tensor_count(&p->in[i]) == 0)
            return error_set(why, INFER_EUNSUPPORTED, "takes no empty tensors");
    return 0;
}

/* ---- preparation --------------------------------------------------- */

/* The heads: all dimensions but those of queries or keys and of depth. */
static void fill_heads(const struct kern_problem *p, struct state *s)
{
    const struct kern_tensor *t[] = {&p->in[Q], &p->in[K], &p->in[V],
                                     &p->out[0]};
    const int r = p->in[Q].rank;

    s->heads = 1;
    for (int d = 0; d < r - 1; d++) {
        if (d == r - 3)
            continue;
        for (int i = 0; i < 4; i++)
            s->stride[i][s->lead] = t[i]->stride[d];
        s->dim[s->lead++] = t[0]->dim[d];
        s->heads *= t[0]->dim[d];
    }
}

/* A bias broadcasts to ..., H, M, N from its last dimension on. */
static void fill_bias(const struct kern_tensor *t, struct state *s,
                      struct bias *b)
{
    *b = (struct bias){.present = t != NULL};
    if (!t)
        return;
    for (int i = 1; i <= t->rank && i <= s->lead + 2; i++) {
        const int d = t->rank - i;
        const int64_t stride = t->dim[d] > 1 ? t->stride[d] : 0;

        if (i == 1)
            b->n = stride;
        else if (i == 2)
            b->m = stride;
        else
            b->lead[s->lead + 2 - i] = stride;
    }
}

static bool add_size(int64_t a, int64_t b, size_t *part, size_t *all)
{
    /* Whole cache lines. */
    if (!checked_mul((size_t)a, (size_t)b, part) || *part > SIZE_MAX / 64 - 16)
        return false;
    *part = (*part + 15) / 16 * 16;
    return checked_add(*all, *part, all);
}

static bool fill(const struct kern_problem *p, int threads, struct state *s)
{
    const int r = p->in[Q].rank;

    *s = (struct state){.steps = vector_steps(), .threads = threads};
    s->queries = p->in[Q].dim[r - 3];
    s->keys = p->in[K].dim[r - 3];
    s->depth = p->in[Q].dim[r - 1];
    s->width = p->in[V].dim[r - 1];
    s->panel = s->steps->panel;
    s->key_panels = (s->keys + s->panel - 1) / s->panel;
    s->value_panels = (s->width + s->panel - 1) / s->panel;
    fill_heads(p, s);
    for (int i = 0; i < BIASES; i++)
        fill_bias(kern_problem_in(p, KERN_ATTENTION_BIAS + i), s, &s->bias[i]);
    return add_size(s->key_panels * s->panel, s->depth, &s->k, &s->all) &&
           add_size(s->value_panels * s->panel, s->keys, &s->v, &s->all) &&
           add_size(BLOCK, s->depth, &s->q, &s->all) &&
           add_size(BLOCK, s->keys, &s->scores, &s->all) &&
           add_size(BLOCK, s->width, &s->y, &s->all);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = malloc(sizeof *s);
    size_t bytes;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    if (!fill(&e->problem, d->threads, s) ||
        !checked_mul(s->all, (size_t)s->threads, &bytes) ||
        !checked_mul(bytes, sizeof(float), &e->workspace)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

/* ---- launch -------------------------------------------------------- */

/* Packs a matrix of rows x cols, strides in floats, as [panel][rows][NB]. */
CPU_CLONES static void pack_panels(const float *x, int64_t row, int64_t col,
                                   int64_t rows, int64_t cols, int64_t panel,
                                   float *u)
{
    for (int64_t first = 0; first < cols; first += panel) {
        const int64_t n = cols - first < panel ? cols - first : panel;

        for (int64_t r = 0; r < rows; r++, u += panel) {
            const float *from = x + r * row + first * col;

            if (col == 1)
                memcpy(u, from, (size_t)n * sizeof *u);
            else
                for (int64_t i = 0; i < n; i++)
                    u[i] = from[i * col];
            for (int64_t i = n; i < panel; i++)
                u[i] = 0;
        }
    }
}

CPU_CLONES static float largest(const float *x, int64_t n)
{
    float top = x[0];

#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

CPU_CLONES static void add_strided(const float *x, int64_t stride, float *y,
                                   int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i * stride];
}

CPU_CLONES static void scale_row(const float *x, float factor, float *y,
                                 int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
}

/* Elements of a line of the cache that rows next to each other share. */
#define LINE 16

/* y = x times a factor, rows x cols, strides in floats.  Some columns of all
 * rows at a time: where columns are far apart (attention over channels), rows
 * are neighbours in a line of the cache, which is read or written once. */
CPU_CLONES static void copy_scaled(const float *x, int64_t x_row, int64_t x_col,
                                   float factor, float *y, int64_t y_row,
                                   int64_t y_col, int64_t rows, int64_t cols)
{
    const int64_t step = x_col == 1 && y_col == 1 ? cols : LINE;

    for (int64_t first = 0; first < cols; first += step) {
        const int64_t n = cols - first < step ? cols - first : step;

        for (int64_t r = 0; r < rows; r++) {
            const float *from = x + r * x_row + first * x_col;
            float *to = y + r * y_row + first * y_col;

            if (x_col == 1 && y_col == 1)
                scale_row(from, factor, to, n);
            else
                for (int64_t i = 0; i < n; i++)
                    to[i * y_col] = from[i * x_col] * factor;
        }
    }
}

/* A head: where its tensors begin. */
struct head {
    const float *q, *k, *v, *bias[BIASES];
    float *y;
};

static struct head find_head(const struct state *s,
                             const struct kern_args *args, int64_t index)
{
    struct head h = {.q = args->in[Q],
                     .k = args->in[K],
                     .v = args->in[V],
                     .y = args->out[0]};

    for (int i = 0; i < BIASES; i++)
        h.bias[i] =
            s->bias[i].present ? args->in[KERN_ATTENTION_BIAS + i] : NULL;
    for (int d = s->lead - 1; d >= 0; d--) {
        const int64_t at = index % s->dim[d];

        index /= s->dim[d];
        h.q += at * s->stride[0][d];
        h.k += at * s->stride[1][d];
        h.v += at * s->stride[2][d];
        h.y += at * s->stride[3][d];
        for (int i = 0; i < BIASES; i++)
            if (h.bias[i])
                h.bias[i] += at * s->bias[i].lead[d];
    }
    return h;
}

/* The sum without an epilogue. */
static const struct vector_epilogue plain = {
    .low = -INFINITY, .high = INFINITY, .bounded = true};

/* Queries [first, first + n) of a head, whose keys and values are packed. */
static void run_block(const struct state *s, const struct kern_problem *p,
                      const struct head *h, int64_t first, int64_t n,
                      float *memory)
{
    const int r = p->in[Q].rank;
    const int64_t row = p->in[Q].stride[r - 3], col = p->in[Q].stride[r - 1];
    const int64_t y_row = p->out[0].stride[r - 3];
    const int64_t y_col = p->out[0].stride[r - 1];
    float *k = memory, *v = k + s->k, *q = v + s->v;
    float *scores = q + s->q, *y = scores + s->scores;
    const struct vector_rows product = {
        .x = q, .x_step = s->depth, .y = scores, .y_step = s->keys};
    const struct vector_rows result = {
        .x = scores, .x_step = s->keys, .y = y, .y_step = s->width};
    float sum[BLOCK];

    copy_scaled(h->q + first * row, row, col, p->attr.attention.scale, q,
                s->depth, 1, n, s->depth);
    s->steps->rows(&product, n, &plain, k, s->depth, s->keys, 0, s->key_panels);
    for (int64_t i = 0; i < n; i++) {
        float *at = scores + i * s->keys;

        for (int b = 0; b < BIASES; b++)
            if (h->bias[b])
                add_strided(h->bias[b] + (first + i) * s->bias[b].m,
                            s->bias[b].n, at, s->keys);
        sum[i] = cpu_exp_sum(at, largest(at, s->keys), at, s->keys);
    }
    s->steps->rows(&result, n, &plain, v, s->keys, s->width, 0,
                   s->value_panels);
    for (int64_t i = 0; i < n; i++) {
        float *from = y + i * s->width;

        scale_row(from, 1.0f / sum[i], from, s->width);
        cpu_act(&p->epilogue.act, from, from, s->width);
    }
    copy_scaled(y, s->width, 1, 1.0f, h->y + first * y_row, y_row, y_col, n,
                s->width);
}

/* Part `part` of `parts` of a head's blocks. */
static void run_head(const struct state *s, const struct kern_problem *p,
                     const struct head *h, int part, int parts, float *memory)
{
    const int r = p->in[Q].rank;
    const int64_t blocks = (s->queries + BLOCK - 1) / BLOCK;
    int64_t from, to;

    cpu_share(blocks, part, parts, &from, &to);
    if (from == to)
        return;
    pack_panels(h->k, p->in[K].stride[r - 1], p->in[K].stride[r - 3], s->depth,
                s->keys, s->panel, memory);
    pack_panels(h->v, p->in[V].stride[r - 3], p->in[V].stride[r - 1], s->keys,
                s->width, s->panel, memory + s->k);
    for (; from < to; from++) {
        const int64_t first = from * BLOCK, rest = s->queries - first;

        run_block(s, p, h, first, rest < BLOCK ? rest : BLOCK, memory);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    /* Few heads: the queries of each are divided among threads. */
    const int parts = s->heads >= 4 * s->threads ? 1 : s->threads;
    const int count = cpu_threads(s->threads, s->heads * s->queries * s->keys *
                                                  (s->depth + s->width) / 16);

    (void)err;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (int t = 0; t < count; t++) {
        float *memory = (float *)args->workspace + (size_t)t * s->all;
        int64_t from, to;

        cpu_share(s->heads * parts, t, count, &from, &to);
        for (; from < to; from++) {
            const struct head h = find_head(s, args, from / parts);

            run_head(s, &e->problem, &h, (int)(from % parts), parts, memory);
        }
    }
    return 0;
}

KERN_FUNCTIONS(attention_f32_cpu_blocks) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
