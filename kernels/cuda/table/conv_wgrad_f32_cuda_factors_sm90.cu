/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of weights whose products have factors
 * (kernels/table/product_factors.h), on tensor cores: operands are expanded to
 * r planes of BF16 each (expand.cuh), which are r times as many images, and a
 * row for exact BF16 gradients sums over all of them: that of wgmma, or, for
 * groups and few channels, one of mma.
 *
 * It writes dw to the workspace; the last kernel, a thread an element, adds
 * what is to be added and stores, unless operands are not plain: then the
 * kernels of the table have computed dw (conditional.h).
 *
 * The workspace holds the facts, the expanded operands, dw, and the workspaces
 * of the two rows.
 */
#include "kernels/cuda/table/expand.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"
#include "kernels/rows.h"

/* Bytes of the facts in the workspace. */
#define FACTS 256

struct wgrad_state {
    struct kern_exec table; /* the row that computes other operands */
    struct kern_exec exact; /* that of BF16 */
    struct expand_shape shape[2];
    size_t dy_at, dw_at, exact_at, table_at; /* in the workspace */
};

/* ---- storing ------------------------------------------------------- */

struct store_args {
    const struct factor_facts *facts;
    struct cuda_strided<3> walk; /* sums, what is added, dw */
    const float *sums, *more;
    float *dw;
};

static __global__ void __launch_bounds__(EXPAND_THREADS)
    store_kernel(const __grid_constant__ struct store_args a)
{
    launch_wait();
    if (!factor_facts_are_plain(*a.facts))
        return;
    for (int64_t i = blockIdx.x * (int64_t)EXPAND_THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * EXPAND_THREADS) {
        int64_t at[3];
        a.walk.offsets(i, at);
        a.dw[at[2]] = a.sums[at[0]] + (a.more ? a.more[at[1]] : 0);
    }
}

/* ---- planning ------------------------------------------------------ */

static void read_operand(const struct kern_tensor *t, struct expand_shape *s)
{
    const int order[4] = {0, 2, 3, 1};

    for (int i = 0; i < 3; i++) {
        s->dim[i] = t->dim[order[i]];
        s->stride[i] = t->stride[order[i]];
    }
    s->channels = s->width = t->dim[1];
    s->stride[3] = t->stride[1];
}

/* The problem of BF16. */
static void read_exact(const struct kern_problem *p, struct kern_problem *exact)
{
    const int64_t r = product_factors_of(p)->dim[2];

    memset(exact, 0, sizeof *exact);
    exact->op = p->op;
    exact->attr = p->attr;
    exact->n_in = 2;
    exact->n_out = 1;
    exact->deterministic = p->deterministic;
    for (int i = 0; i < 2; i++) {
        int64_t dim[4] = {p->in[i].dim[0] * r, p->in[i].dim[1], p->in[i].dim[2],
                          p->in[i].dim[3]};
        exact->in[i] = kern_tensor_dense(INFER_BF16, 4, dim, KERN_NHWC);
    }
    exact->out[0] = kern_tensor_dense(INFER_F32, 4, p->out[0].dim, KERN_NHWC);
}

/* The first row that takes it; NULL: none. */
static const struct kern_row *exact_row(const struct kern_problem *exact,
                                        const struct kern_device *d,
                                        struct infer_error *why)
{
    static const int rows[] = {
        KERN_ROW_conv2d_wgrad_nhwc_bf16_cuda_wgmma_sm90,
        KERN_ROW_conv2d_wgrad_nhwc_bf16_cuda_grouped_patch_sm80,
        KERN_ROW_conv2d_wgrad_nhwc_bf16_cuda_mma_sm80,
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (kern_row_supports(kern_row_at(rows[i]), exact, d, why) == 0)
            return kern_row_at(rows[i]);
    return NULL;
}

static const struct kern_row *table_row(void)
{
    return kern_row_at(KERN_ROW_conv_wgrad_f32_cuda_table);
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *more = kern_problem_in(p, 2);

    if (!product_factors_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes factors of products");
    if (p->in[0].dtype != INFER_F32 || p->in[1].dtype != INFER_F32 ||
        p->out[0].dtype != INFER_F32 || (more && more->dtype != INFER_F32))
        return error_set(why, INFER_EUNSUPPORTED, "takes and gives F32");
    if (p->in[0].rank != 4 || p->in[0].dim[1] % 8 || p->in[1].dim[1] % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in 8s and 2 spatial dimensions");
    for (int i = 0; i < 2; i++) {
        double count = (double)product_factors_of(p)->dim[2];
        for (int d = 0; d < 4; d++)
            count *= (double)p->in[i].dim[d];
        if (count >= 2147483648.0 || count < 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "an expanded operand has no elements, or 2^31");
    }
    return 0;
}

/* The problem of BF16 and the row that computes it. */
static int read(const struct kern_problem *p, const struct kern_device *d,
                struct kern_problem *exact, const struct kern_row **row,
                struct infer_error *why)
{
    int rc = check(p, why);

    if (rc == 0)
        rc = wgmma_check_device(d, why);
    if (rc < 0)
        return rc;
    read_exact(p, exact);
    *row = exact_row(exact, d, why);
    return *row ? kern_row_supports(table_row(), p, d, why)
                : INFER_EUNSUPPORTED;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_row *row;
    struct kern_problem exact;

    return read(p, d, &exact, &row, why);
}

/* ---- preparing ----------------------------------------------------- */

static void release(struct kern_exec *e)
{
    struct wgrad_state *s = (struct wgrad_state *)e->state;

    if (s) {
        kern_release(&s->exact);
        kern_release(&s->table);
    }
    free(s);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Bytes of an expanded operand. */
static size_t expanded(const struct kern_problem *p,
                       const struct expand_shape *s)
{
    return aligned(2 * (size_t)expand_elements(s) *
                   (size_t)product_factors_of(p)->dim[2]);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct wgrad_state *s = (struct wgrad_state *)calloc(1, sizeof *s);
    const struct kern_row *row = NULL;
    struct kern_problem exact;
    int rc = s ? read(p, d, &exact, &row, err)
               : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (rc == 0)
        rc = kern_prepare_variant(row, &exact, d, 0, err, &s->exact);
    if (rc == 0) {
        rc = kern_prepare_variant(table_row(), p, d, 0, err, &s->table);
        if (rc < 0)
            kern_release(&s->exact);
    }
    if (rc < 0) {
        free(s);
        return rc;
    }
    for (int i = 0; i < 2; i++)
        read_operand(&p->in[i], &s->shape[i]);
    s->dy_at = FACTS + expanded(p, &s->shape[0]);
    s->dw_at = s->dy_at + expanded(p, &s->shape[1]);
    s->exact_at = s->dw_at + aligned(4 * (size_t)kern_tensor_count(&p->out[0]));
    s->table_at = s->exact_at + aligned(s->exact.workspace);
    e->state = s;
    e->workspace = s->table_at + s->table.workspace;
    return 0;
}

/* ---- launching ----------------------------------------------------- */

static int store(const struct kern_exec *e, const struct kern_args *args,
                 struct infer_error *err)
{
    const struct wgrad_state *s = (const struct wgrad_state *)e->state;
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *more = kern_problem_in(p, 2);
    const struct kern_tensor *t[3] = {&s->exact.problem.out[0],
                                      more ? more : &p->out[0], &p->out[0]};
    char *base = (char *)args->workspace;
    struct store_args a = {};

    a.facts = (const struct factor_facts *)base;
    a.walk.init(4, p->out[0].dim, t);
    a.sums = (const float *)(base + s->dw_at);
    a.more = more ? (const float *)args->in[2] : NULL;
    a.dw = (float *)args->out[0];
    return launch_chained(store_kernel,
                          dim3(cuda_grid(a.walk.count, EXPAND_THREADS)),
                          dim3(EXPAND_THREADS), 0, args->stream, a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct wgrad_state *s = (const struct wgrad_state *)e->state;
    char *base = (char *)args->workspace;
    struct factor_facts *facts = (struct factor_facts *)base;
    void *const at[2] = {base + FACTS, base + s->dy_at};
    struct kern_args exact = {}, table = *args;
    int rc = expand_launch(&e->problem, args, s->shape, at, true, facts,
                           base + s->table_at, err);

    exact.in[0] = at[0];
    exact.in[1] = at[1];
    exact.out[0] = base + s->dw_at;
    exact.workspace = base + s->exact_at;
    exact.stream = args->stream;
    if (rc == 0)
        rc = s->exact.row->fn->launch(&s->exact, &exact, err);
    table.workspace = base + s->table_at;
    if (rc == 0)
        rc = conv_table_launch_unless_plain(&s->table, &table, facts, err);
    return rc < 0 ? rc : store(e, args, err);
}

KERN_FUNCTIONS(conv_wgrad_f32_cuda_factors) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
