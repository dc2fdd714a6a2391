/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products without tensor cores: dense layers and batched matmul.
 *
 * simt: y[b][m][n] = act(alpha sum_k a[b][m][k] w[b][k][n] + bias[n] + r).
 * A block of 256 threads makes 64 x 64 outputs, each thread 4 x 4 of them 16
 * apart, in steps of 16 along k.  Shared memory: two tiles of 16 x 68 floats,
 * 8.5 KiB; rows of 68 keep 16-byte alignment and spread the banks.  blockIdx:
 * tiles along n, along m, batch.
 *
 * gemv: for up to 8 rows.  One warp an output column: lanes take 16 bytes of
 * its weights in turn and keep a sum for each row.  No shared memory.
 */
#include "kernels/cuda/dense/gemm.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/warp.cuh"

#define THREADS   256
#define TILE      64
#define STEP      16
#define PITCH     (TILE + 4)
#define GEMV_ROWS 8

/* ---- simt ---------------------------------------------------------- */

/* Fills tile[k][i] with 16 x 64 elements, the faster index of memory with the
 * neighbouring threads; what lies outside is 0. */
template <typename T>
static __device__ __forceinline__ void
load_tile(float (&tile)[STEP][PITCH], const T *p, int64_t i0, int64_t n,
          int64_t step_i, int64_t k0, int64_t k_end, int64_t step_k)
{
    const bool along_k = step_k == 1;

#pragma unroll
    for (int j = 0; j < TILE * STEP / THREADS; j++) {
        const int e = threadIdx.x + j * THREADS;
        const int k = along_k ? e % STEP : e / TILE;
        const int i = along_k ? e / STEP : e % TILE;
        float v = 0;

        if (i0 + i < n && k0 + k < k_end)
            v = to_float(p[(i0 + i) * step_i + (k0 + k) * step_k]);
        tile[k][i] = v;
    }
}

template <typename T>
static __device__ __forceinline__ void
finish(const struct gemm_args &g, float acc, int64_t m, int64_t n, int64_t base)
{
    float r = 0;

    acc *= g.alpha;
    if (g.bias_type != INFER_NONE)
        acc += load_as<T>(g.bias_type, g.bias, n * g.bias_step);
    if (g.residual)
        r = to_float(((const T *)g.r)[m * g.r_m + n * g.r_n]);
    ((T *)g.y)[base + m * g.y_m + n * g.y_n] =
        from_float<T>(apply_epilogue(g.epilogue, acc, r));
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    simt_kernel(const __grid_constant__ struct gemm_args g)
{
    __shared__ __align__(16) float a[STEP][PITCH];
    __shared__ __align__(16) float b[STEP][PITCH];
    const int64_t n0 = blockIdx.x * (int64_t)TILE;
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;

    for (int64_t z = blockIdx.z; z < g.batch.count; z += gridDim.z) {
        int64_t at[3];
        g.batch.offsets(z, at);
        for (int64_t m0 = blockIdx.y * (int64_t)TILE; m0 < g.m;
             m0 += gridDim.y * (int64_t)TILE) {
            float acc[4][4] = {};

            for (int64_t k0 = 0; k0 < g.k; k0 += STEP) {
                load_tile<T>(a, (const T *)g.a + at[0], m0, g.m, g.a_m, k0, g.k,
                             g.a_k);
                load_tile<T>(b, (const T *)g.b + at[1], n0, g.n, g.b_n, k0, g.k,
                             g.b_k);
                __syncthreads();
#pragma unroll
                for (int k = 0; k < STEP; k++) {
                    float x[4], w[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        x[i] = a[k][row + 16 * i];
                        w[i] = b[k][column + 16 * i];
                    }
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            acc[i][j] = fmaf(x[i], w[j], acc[i][j]);
                }
                __syncthreads();
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const int64_t m = m0 + row + 16 * i;
                    const int64_t n = n0 + column + 16 * j;
                    if (m < g.m && n < g.n)
                        finish<T>(g, acc[i][j], m, n, at[2]);
                }
        }
    }
}

template <typename T>
static int run_simt(const struct gemm_args *g, const struct kern_args *args,
                    struct infer_error *err)
{
    const int64_t tiles_m = (g->m + TILE - 1) / TILE;
    const dim3 grid(
        cuda_blocks(g->n, TILE), (unsigned)(tiles_m < 65535 ? tiles_m : 65535),
        (unsigned)(g->batch.count < 65535 ? g->batch.count : 65535));

    if (g->m == 0 || g->n == 0 || g->batch.count == 0)
        return 0;
    simt_kernel<T><<<grid, THREADS, 0, cuda_stream(args)>>>(*g);
    return CUDA_LAUNCHED(err);
}

/* ---- gemv ---------------------------------------------------------- */

/* V elements at a time; x has ROWS rows at most, all in one pass over w.  Lane
 * m finishes row m. */
template <typename T, int V, int ROWS>
static __global__ void __launch_bounds__(THREADS)
    gemv_kernel(const __grid_constant__ struct gemm_args g)
{
    const int lane = threadIdx.x % 32;
    const int64_t n = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    float acc[ROWS] = {}, mine = 0;

    launch_wait();
    if (n >= g.n) /* the whole warp */
        return;
    const T *w = (const T *)g.b + n * g.b_n;
    for (int64_t k = lane * V; k < g.k; k += 32 * V) {
        const vec<T, V> f = load_vec<T, V>(w + k);
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            if (m >= g.m)
                break;
            const vec<T, V> x = load_vec<T, V>((const T *)g.a + m * g.a_m + k);
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[m] = fmaf(to_float(x.at[j]), to_float(f.at[j]), acc[m]);
        }
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
        acc[m] = warp_sum(acc[m]);
        if (lane == m)
            mine = acc[m];
    }
    if (lane < ROWS && lane < g.m)
        finish<T>(g, mine, lane, n, 0);
}

template <typename T, int V>
static int start_gemv(const struct gemm_args *g, const struct kern_args *args,
                      struct infer_error *err)
{
    return launch_chained(g->m == 1 ? gemv_kernel<T, V, 1>
                                    : gemv_kernel<T, V, GEMV_ROWS>,
                          dim3(cuda_blocks(g->n, THREADS / 32)), dim3(THREADS),
                          0, args->stream, *g, err);
}

template <typename T>
static int run_gemv(const struct gemm_args *g, const struct kern_args *args,
                    struct infer_error *err)
{
    const int wide = 16 / sizeof(T);

    if (g->m == 0 || g->n == 0)
        return 0;
    if (g->k % wide == 0 && g->b_n % wide == 0 &&
        (g->m == 1 || g->a_m % wide == 0) && (uintptr_t)g->a % 16 == 0 &&
        (uintptr_t)g->b % 16 == 0)
        return start_gemv<T, wide>(g, args, err);
    return start_gemv<T, 1>(g, args, err);
}

/* ---- dense --------------------------------------------------------- */

/* All dimensions but the last as one of `rows` with one stride; false where
 * the strides do not allow it. */
static bool flatten(const struct kern_tensor *t, int64_t *rows, int64_t *stride)
{
    *rows = 1;
    *stride = 0;
    for (int d = t->rank - 2; d >= 0; d--) {
        if (t->dim[d] == 1)
            continue;
        if (*rows > 1 && t->stride[d] != *stride * *rows)
            return false;
        if (*rows == 1)
            *stride = t->stride[d];
        *rows *= t->dim[d];
    }
    return true;
}

static int supports_dense(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, 3);
    int64_t rows, stride;

    (void)d;
    if (!flatten(&p->in[0], &rows, &stride) ||
        !flatten(&p->out[0], &rows, &stride) ||
        (r && !flatten(r, &rows, &stride)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "dense_fprop: rows that lie at several strides are "
                         "not supported");
    return check_types(p, 2, 2, why);
}

static void fill_dense(struct gemm_args *g, const struct kern_problem *p,
                       const struct kern_args *args)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const struct kern_tensor *r = kern_problem_in(p, 3);
    const struct kern_tensor *const none[3] = {NULL, NULL, NULL};

    g->batch.init(0, NULL, none);
    flatten(x, &g->m, &g->a_m);
    flatten(y, &g->m, &g->y_m);
    g->n = w->dim[0];
    g->k = w->dim[1];
    g->a_k = x->stride[x->rank - 1];
    g->b_n = w->stride[0];
    g->b_k = w->stride[1];
    g->y_n = y->stride[y->rank - 1];
    if (r) {
        flatten(r, &g->m, &g->r_m);
        g->r_n = r->stride[r->rank - 1];
    }
    g->bias_type = bias ? bias->dtype : INFER_NONE;
    g->bias_step = bias ? bias->stride[0] : 0;
    g->residual = r != NULL;
    g->alpha = 1;
    g->epilogue = p->epilogue;
    g->a = args->in[0];
    g->b = args->in[1];
    g->bias = args->in[2];
    g->r = args->in[3];
    g->y = args->out[0];
}

static int launch_dense(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    struct gemm_args g = {};

    fill_dense(&g, &e->problem, args);
    return CUDA_DISPATCH(e->problem.in[0].dtype, run_simt, &g, args, err);
}

static int supports_gemv(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    int64_t rows, stride;
    const int rc = supports_dense(p, d, why);

    if (rc < 0)
        return rc;
    flatten(x, &rows, &stride);
    if (rows > GEMV_ROWS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "dense_fprop: %lld rows, supported up to %d",
                         (long long)rows, GEMV_ROWS);
    if ((x->dim[x->rank - 1] > 1 && x->stride[x->rank - 1] != 1) ||
        (w->dim[1] > 1 && w->stride[1] != 1))
        return error_set(why, INFER_EUNSUPPORTED,
                         "dense_fprop: rows must be dense");
    return 0;
}

static int launch_gemv(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    struct gemm_args g = {};

    fill_dense(&g, &e->problem, args);
    return CUDA_DISPATCH(e->problem.in[0].dtype, run_gemv, &g, args, err);
}

/* The longest of a warp's steps along k, each longer with every row, the bytes
 * and the products. */
static double gemv_microseconds(int64_t rows, int64_t k, int64_t n,
                                enum infer_dtype dtype)
{
    const double size = (double)infer_dtype_size(dtype);
    const double weights = (double)(k * n);
    const int64_t wide = 16 / (int64_t)size;
    const int64_t lanes = k % wide == 0 ? 32 * wide : 32;
    const double steps = (double)((k + lanes - 1) / lanes);
    const double bytes = weights * size / 3.5e6;
    const double along = steps * (rows == 1 ? 0.27 : 0.27 + 0.15 * rows);
    const double products = rows == 1 ? 0 : 2 * rows * weights / 6e6;
    const double most = bytes > products ? bytes : products;

    return 1.6 + (along > most ? along : most);
}

static double estimate_gemv(const struct kern_problem *p,
                            const struct kern_device *d)
{
    const struct kern_tensor *w = &p->in[1];
    int64_t rows, stride;

    (void)d;
    (void)flatten(&p->in[0], &rows, &stride);
    return gemv_microseconds(rows, w->dim[1], w->dim[0], w->dtype);
}

/* A tile takes 0.16 us an element of its depth, and all tiles reach 5 TFLOP/s
 * at best. */
static double estimate_dense(const struct kern_problem *p,
                             const struct kern_device *d)
{
    (void)d;
    return 5 + 0.16 * (double)p->in[1].dim[1] + kern_problem_flops(p) / 5e6;
}

KERN_FUNCTIONS(dense_fprop_cuda_gemv) = {
    .supports = supports_gemv,
    .estimate = estimate_gemv,
    .launch = launch_gemv,
};

KERN_FUNCTIONS(dense_fprop_cuda_simt) = {
    .supports = supports_dense,
    .estimate = estimate_dense,
    .launch = launch_dense,
};

/* ---- convolution of one pixel -------------------------------------- */

/* A 1x1 convolution over images of one pixel is a dense layer;
 * squeeze-and-excite has two of them between its pooling and its product. */
static int supports_pixel(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];

    (void)d;
    for (int i = 2; i < x->rank; i++)
        if (x->dim[i] != 1 || w->dim[i] != 1 || y->dim[i] != 1)
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes images and windows of one pixel");
    if (p->attr.conv.groups != 1 || x->dim[0] > GEMV_ROWS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group and up to %d images, found %d and "
                         "%lld",
                         GEMV_ROWS, p->attr.conv.groups, (long long)x->dim[0]);
    if ((x->dim[1] > 1 && x->stride[1] != 1) ||
        (w->dim[1] > 1 && w->stride[1] != 1))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels that lie side by side");
    return check_types(p, 2, 2, why);
}

static double estimate_pixel(const struct kern_problem *p,
                             const struct kern_device *d)
{
    const struct kern_tensor *w = &p->in[1];

    (void)d;
    return gemv_microseconds(p->in[0].dim[0], w->dim[1], w->dim[0], w->dtype);
}

/* The same tensors without their dimensions of one pixel. */
static int launch_pixel(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    struct kern_problem p = e->problem;
    struct gemm_args g = {};

    for (int i = 0; i < p.n_in; i++)
        if (p.in[i].rank > 2)
            p.in[i].rank = 2;
    p.out[0].rank = 2;
    fill_dense(&g, &p, args);
    return CUDA_DISPATCH(p.in[0].dtype, run_gemv, &g, args, err);
}

KERN_FUNCTIONS(conv_fprop_cuda_gemv) = {
    .supports = supports_pixel,
    .estimate = estimate_pixel,
    .launch = launch_pixel,
};

/* ---- matmul -------------------------------------------------------- */

static int supports_matmul(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    return check_types(p, 2, 1, why);
}

static int launch_matmul(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct gemm_args g = gemm_of_matmul(&e->problem, args);

    return CUDA_DISPATCH(e->problem.in[0].dtype, run_simt, &g, args, err);
}

KERN_FUNCTIONS(matmul_cuda_simt) = {
    .supports = supports_matmul,
    .launch = launch_matmul,
};
