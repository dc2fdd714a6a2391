/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, their gradients and dense layers whose products come from a
 * table (PRODUCT_TABLE_IN, kernels/problem.h): of 1 to 3 dimensions, any
 * groups, strides and layouts, 1 to 11 mantissa bits.
 *
 * A launch first looks at operands and table (survey.cuh): the table may be in
 * memory that is filled after planning, so that nothing is known of it before.
 * The kernel (tile.cuh) then multiplies with the engine that the table allows
 * (engine.cuh): the exact product cut to some bits, the sum of bit patterns, or
 * reads from a table in shared memory.
 *
 * Layers of one group with many outputs are prepared in the workspace and
 * multiplied by packed.cuh, or by pairs.cuh if the products are sums; tile.cuh
 * then has what is left: other layers, and operands that are not plain.
 *
 * Gradients by derivatives (slope.cuh) and sums by an accumulator
 * (accumulate.cuh) need no facts.
 *
 * The workspace holds the facts, then the sums of splits or of the
 * accumulator's parts, or what packed_plan.cuh puts there.
 */
#include "kernels/cuda/table/accumulate_plan.cuh"
#include "kernels/cuda/table/packed_plan.cuh"
#include "kernels/cuda/table/slope.cuh"
#include "kernels/cuda/table/survey.cuh"
#include "kernels/cuda/table/tile.cuh"
#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"

/* Bytes before the sums of splits in the workspace. */
#define FACTS CONV_TABLE_FACTS

/* How a problem is cut into tasks. */
struct schedule {
    int shape;   /* of shapes[] */
    size_t room; /* bytes of shared memory for the table */
    int column_blocks, scalar_blocks, splits, split_terms, blocks;
    int multiprocessors;
    struct packed_plan packed, pairs;
    struct accumulate_plan accumulate;
};

typedef void tile_function(const struct tile_args);
typedef void slope_function(const struct slope_args);

struct shape {
    int columns, scalars, terms;
    size_t shared; /* without the table */
    tile_function *kernel;
    /* With the table in shared memory, or not. */
    slope_function *slopes, *large_slopes;
};

#define SHAPE(WARPS, SCALARS, TERMS)                                           \
    {                                                                          \
        tile_shape<WARPS, SCALARS, TERMS>::columns,                            \
            tile_shape<WARPS, SCALARS, TERMS>::scalars, TERMS,                 \
            sizeof(struct tile_shared<tile_shape<WARPS, SCALARS, TERMS>>),     \
            tile_kernel<WARPS, SCALARS, TERMS>,                                \
            slope_kernel<true, WARPS, SCALARS, TERMS>,                         \
            slope_kernel<false, WARPS, SCALARS, TERMS>                         \
    }

/* The most scalars of a tile first. */
static const struct shape shapes[] = {SHAPE(1, 8, 16), SHAPE(4, 8, 4),
                                      SHAPE(8, 1, 4)};

#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* The smallest tile that holds the scalars of a group. */
static int shape_of(const struct table_geometry *g)
{
    int i = 0;

    while (i + 1 < SHAPES && g->scalars <= shapes[i + 1].scalars)
        i++;
    return i;
}

/* Shared memory for the table: entries of 4 bytes up to 6 bits, of 2 bytes for
 * 7, or as much as the device has.  Larger tables would leave one block a
 * multiprocessor, and their rows are of 512 bytes and more, which lanes read
 * with conflicts.  One of derivatives is there whole (4 bytes an entry) if it
 * fits. */
static size_t table_room(const struct kern_device *d, const struct shape *s,
                         int m, bool whole)
{
    const size_t all =
        d->shared_per_block_optin ? d->shared_per_block_optin : 64 * 1024;
    const size_t wanted =
        m > 7 ? 0
              : (size_t)product_table_entries(m) * (m > 6 && !whole ? 2 : 4);

    if (whole)
        return s->shared + wanted <= all ? wanted : 0;
    return s->shared + wanted <= all ? wanted : all - s->shared;
}

/* Blocks that run at a time. */
static int block_slots(const struct kern_device *d, size_t shared)
{
    const size_t all = d->shared_per_block_optin + 1024;
    const int each = (int)(all / (shared + 1024));

    return (each < 1   ? 1
            : each > 2 ? 2
                       : each) *
           (d->multiprocessors < 1 ? 1 : d->multiprocessors);
}

static int blocks_of(int64_t n, int each)
{
    return (int)((n + each - 1) / each);
}

/* Splits the terms so that the last round of blocks is as full as possible, by
 * the time of a round; a split costs about as much as two chunks.  At most
 * 16,384 terms are added one by one. */
static void split(struct schedule *s, int64_t tiles, int terms, int chunk,
                  int slots)
{
    const int chunks = blocks_of(terms, chunk);
    double best = 0;

    s->splits = 1;
    s->split_terms = chunks * chunk;
    for (int n = blocks_of(terms, 16384); n <= 64 * 1024 && n <= chunks; n++) {
        const int each = blocks_of(chunks, n), used = blocks_of(chunks, each);
        const int64_t rounds = (tiles * used + slots - 1) / slots;
        const double time = (double)rounds * (each + 2);
        if (used == n && (best == 0 || time < 0.97 * best)) {
            best = time;
            s->splits = n;
            s->split_terms = each * chunk;
        }
        if (tiles * n > 4 * (int64_t)slots && best != 0)
            break;
    }
}

static void plan(const struct table_geometry *g, const struct kern_problem *p,
                 const struct kern_device *d, struct schedule *s)
{
    const bool whole = product_slope_of(p) != NULL;
    const int m = product_table_bits_of(product_table_of(p));

    s->shape = shape_of(g);
    const struct shape *shape = &shapes[s->shape];
    s->room = table_room(d, shape, m, whole);
    const int slots = block_slots(d, shape->shared + s->room);

    s->column_blocks = blocks_of(g->columns(), shape->columns);
    s->scalar_blocks = blocks_of(g->scalars, shape->scalars);
    const int64_t tiles =
        (int64_t)g->groups * s->column_blocks * s->scalar_blocks;
    split(s, tiles, g->terms(), shape->terms, slots);
    s->blocks = (int)(tiles * s->splits < slots ? tiles * s->splits : slots);
}

/* True if the step from term to term is the shorter one in memory. */
static bool along_terms(int64_t term_step, int64_t across_step)
{
    return llabs(term_step) <= llabs(across_step);
}

/* Strides from one channel, or where there is but one from one pixel, to the
 * next. */
static int64_t inner_step(int channels, const int *stride)
{
    return channels > 1 ? stride[1] : stride[4];
}

static void fill(const struct kern_exec *e, const struct kern_args *args,
                 const struct schedule *s, struct tile_args *a)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t = product_table_of(p);
    const struct kern_tensor *bias =
        p->op == KERN_CONV_WGRAD ? NULL : kern_problem_in(p, 2);
    const int residual = kern_op_residual(p->op);
    const struct table_geometry *g = &a->g;

    a->x = (const uint32_t *)args->in[0];
    a->w = (const uint32_t *)args->in[1];
    a->table = (const uint32_t *)args->in[PRODUCT_TABLE_IN];
    a->facts = (const struct table_facts *)args->workspace;
    a->row = t->stride[0];
    a->column = t->stride[1];
    a->m = product_table_bits_of(t);
    a->room = s->room;
    const int64_t tap = inner_step(g->channels, g->x_stride);
    const int64_t pixel = (int64_t)g->x_stride[4] * g->step[2];
    a->x_along_terms =
        g->wgrad ? along_terms(pixel, tap) : along_terms(tap, pixel);
    a->w_along_terms =
        along_terms(g->wgrad          ? g->p_stride[4]
                    : g->channels > 1 ? g->w_stride[g->tap_channel()]
                                      : g->w_stride[4],
                    g->w_scalar_stride());
    a->column_blocks = s->column_blocks;
    a->scalar_blocks = s->scalar_blocks;
    a->splits = s->splits;
    a->split_terms = s->split_terms;
    a->tasks =
        (int64_t)g->groups * s->splits * s->column_blocks * s->scalar_blocks;
    a->parts = s->splits > 1
                   ? (float *)((unsigned char *)args->workspace + FACTS)
                   : NULL;
    a->bias_type = bias ? bias->dtype : INFER_NONE;
    a->bias_step = bias ? bias->stride[0] : 0;
    a->bias = args->in[2];
    a->residual = kern_problem_in(p, residual) != NULL;
    a->r = a->residual ? (const float *)args->in[residual] : NULL;
    a->epilogue = p->epilogue;
    a->y = (float *)args->out[0];
}

/* Adds the splits' sums: one thread an output. */
static __global__ void __launch_bounds__(TILE_THREADS)
    tile_join(const __grid_constant__ struct tile_args a)
{
    const struct table_geometry &g = a.g;
    const int64_t columns = g.columns();
    const int64_t count = (int64_t)g.groups * g.scalars * columns;

    launch_wait();
    if (tile_is_spared(a))
        return;
    for (int64_t i = blockIdx.x * (int64_t)TILE_THREADS + threadIdx.x;
         i < count; i += (int64_t)gridDim.x * TILE_THREADS) {
        const int k = (int)(i / columns);
        const struct tile_column place =
            tile_column_of(a, k / g.scalars, (int)(i % columns));
        float sum = 0;
        if (!place.valid)
            continue;
        for (int s = 0; s < a.splits; s++)
            sum += a.parts[s * count + i];
        tile_finish(a, place.out, place.add, k, sum);
    }
}

/* Adds the splits' sums, where there are several. */
static int launch_join(const struct schedule *s, const struct tile_args *a,
                       void *stream, struct infer_error *err)
{
    if (s->splits == 1)
        return 0;
    return launch_chained(
        tile_join,
        dim3(cuda_grid((int64_t)a->g.groups * a->g.scalars * a->g.columns(),
                       TILE_THREADS)),
        dim3(TILE_THREADS), 0, stream, *a, err);
}

static int launch_slopes(const struct kern_exec *e,
                         const struct kern_args *args,
                         const struct tile_args *tile, struct infer_error *err)
{
    const struct schedule *s = (const struct schedule *)e->state;
    const struct shape *shape = &shapes[s->shape];
    const int point = product_point_in(&e->problem);
    struct slope_args a = {};

    a.tile = *tile;
    a.point = (const uint32_t *)args->in[point];
    table_strides(&e->problem.in[point], false, a.point_stride);
    a.w_is_gradient = product_slope_gradient(&e->problem) == 1;
    slope_function *kernel = s->room > 0 ? shape->slopes : shape->large_slopes;
    const int rc =
        launch_chained(kernel, dim3((unsigned)s->blocks), dim3(TILE_THREADS),
                       shape->shared + s->room, args->stream, a, err);
    return rc < 0 ? rc : launch_join(s, tile, args->stream, err);
}

static int launch_accumulated(const struct kern_exec *e,
                              const struct kern_args *args,
                              struct tile_args *tile, struct infer_error *err)
{
    const struct schedule *s = (const struct schedule *)e->state;

    tile->parts = s->accumulate.parts > 0
                      ? (float *)((unsigned char *)args->workspace + FACTS)
                      : NULL;
    return accumulate_launch(&s->accumulate, tile,
                             args->in[accumulator_in(e->problem.op)],
                             args->stream, err);
}

static int launch_unless(const struct kern_exec *e,
                         const struct kern_args *args,
                         const struct factor_facts *unless,
                         struct infer_error *err)
{
    const struct schedule *s = (const struct schedule *)e->state;
    struct tile_args a = {};
    int rc;

    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    table_fill(&a.g, &e->problem);
    fill(e, args, s, &a);
    if (product_slope_of(&e->problem))
        return launch_slopes(e, args, &a, err);
    if (accumulator_of(&e->problem))
        return launch_accumulated(e, args, &a, err);
    a.unless = unless;
    rc = survey_launch(&e->problem, args, (struct table_facts *)args->workspace,
                       unless, err);
    a.rough_alone = s->packed.used && !unless;
    if (rc == 0 && a.rough_alone)
        rc = packed_launch(&e->problem, args, &s->packed, s->pairs.used,
                           s->multiprocessors, err);
    if (rc == 0 && a.rough_alone && s->pairs.used)
        rc = packed_launch(&e->problem, args, &s->pairs, true,
                           s->multiprocessors, err);
    if (rc == 0)
        rc = launch_chained(shapes[s->shape].kernel, dim3((unsigned)s->blocks),
                            dim3(TILE_THREADS),
                            shapes[s->shape].shared + s->room, args->stream, a,
                            err);
    return rc < 0 ? rc : launch_join(s, &a, args->stream, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return launch_unless(e, args, NULL, err);
}

int conv_table_launch_unless_plain(const struct kern_exec *e,
                                   const struct kern_args *args,
                                   const struct factor_facts *facts,
                                   struct infer_error *err)
{
    return launch_unless(e, args, facts, err);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct table_geometry g = {};
    struct schedule *s = (struct schedule *)calloc(1, sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->state = s;
    e->workspace = FACTS;
    if (kern_tensor_count(&e->problem.out[0]) == 0)
        return 0;
    table_fill(&g, &e->problem);
    if (accumulator_of(&e->problem)) {
        accumulate_plan_for(
            &g, product_table_bits_of(product_table_of(&e->problem)), d,
            &s->accumulate);
        e->workspace += accumulate_bytes(&g, &s->accumulate);
        return 0;
    }
    plan(&g, &e->problem, d, s);
    if (s->splits > 1)
        e->workspace += (size_t)s->splits * g.groups * g.scalars * g.columns() *
                        sizeof(float);
    s->multiprocessors = conv_multiprocessors(d);
    if (product_slope_of(&e->problem))
        return 0;
    const int m = product_table_bits_of(product_table_of(&e->problem));
    packed_plan_for(&e->problem, d, m, FACTS, false, &s->packed);
    if (s->packed.used) {
        packed_plan_for(&e->problem, d, m, FACTS, true, &s->pairs);
        const size_t one = s->packed.bytes, other = s->pairs.bytes;
        const size_t bytes = s->pairs.used && other > one ? other : one;
        if (e->workspace < bytes)
            e->workspace = bytes;
    }
    return 0;
}

/* ---- limits -------------------------------------------------------- */

/* Offsets are of 32 bits. */
static bool is_near(const struct kern_tensor *t)
{
    double reach = 1;

    for (int i = 0; i < t->rank; i++)
        reach += (double)(t->dim[i] - 1) * fabs((double)t->stride[i]);
    return reach < 2147483648.0;
}

static int check_sizes(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *spatial =
        p->op == KERN_CONV_WGRAD ? &p->out[0] : &p->in[1];
    const struct kern_tensor *y =
        p->op == KERN_CONV_WGRAD ? &p->in[1] : &p->out[0];
    const struct kern_conv *c = &p->attr.conv;
    double pixels = (double)kern_tensor_count(y);

    if (p->op == KERN_DENSE_FPROP)
        return 0;
    for (int i = 0; i < y->rank - 2; i++) {
        const double reach =
            ((double)p->in[0].dim[i + 2] + (double)y->dim[i + 2]) *
                c->stride[i] +
            c->pad_begin[i] + c->pad_end[i] +
            (double)spatial->dim[i + 2] * c->dilation[i];
        if (reach > 1e9)
            return error_set(why, INFER_EUNSUPPORTED,
                             "the window reaches beyond 10^9 positions");
        if (p->op == KERN_CONV_TRANSPOSE_FPROP)
            pixels *= ceil((double)y->dim[i + 2] / c->stride[i]) *
                      c->stride[i] / (double)y->dim[i + 2];
    }
    if (pixels >= 2147483648.0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "2^31 outputs or more are not supported");
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const bool wgrad = p->op == KERN_CONV_WGRAD;

    (void)d;
    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    for (int i = 0; i < p->n_in; i++) {
        const struct kern_tensor *t = kern_problem_in(p, i);
        const bool bias = i == 2 && !wgrad;
        if (t && i != PRODUCT_TABLE_IN && t != product_factors_of(p) &&
            t != accumulator_of(p) && t->dtype != INFER_F32 &&
            !(bias && cuda_is_real(t->dtype)))
            return error_set(why, INFER_EUNSUPPORTED, "takes F32");
        if (t && !is_near(t))
            return error_set(why, INFER_EUNSUPPORTED,
                             "an input reaches over 2^31 elements or more");
    }
    if (p->out[0].dtype != INFER_F32 || p->n_out > 1)
        return error_set(why, INFER_EUNSUPPORTED, "gives one output, F32");
    if (!is_near(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "the output reaches over 2^31 elements or more");
    if (kern_tensor_count(&p->in[0]) == 0 || kern_tensor_count(&p->in[1]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty inputs");
    if (p->op == KERN_DENSE_FPROP && p->in[0].rank > 5)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 5 dimensions at most, found %d", p->in[0].rank);
    return check_sizes(p, why);
}

KERN_FUNCTIONS(conv_f32_cuda_table) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cuda_state_release,
};
