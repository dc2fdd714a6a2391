/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batched products of two matrices of 16-bit types, neither of them constant,
 * through mma.sync, as attention has them: many small ones, transposed or in
 * parts of larger tensors.
 *
 * A block of 128 threads makes 64 x 64 outputs of one product in steps of 32
 * along k; each of its four warps 32 x 32.  While a step is computed, the next
 * one is loaded into registers: 8 elements at a time where they lie side by
 * side, along k or across it, and begin at 16 bytes, else one by one.  A matrix
 * whose rows lie along k is kept [row][k] in shared memory, 64 rows of 40
 * halves, one whose rows lie across it [k][row], 32 rows of 72 halves: eight
 * rows of an ldmatrix phase then lie in different banks.  10 KiB of shared
 * memory.  blockIdx: tiles along n, along m, batch.
 */
#include "kernels/cuda/dense/gemm.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 128

enum {
    TILE = 64,
    STEP = 32,
    MT = 2,
    NT = 4,
    PITCH_K = STEP + 8,
    PITCH_ROWS = TILE + 8,
    HELD = TILE * PITCH_K /* elements of a tile in shared memory */
};

static_assert(STEP * PITCH_ROWS <= HELD, "both orders fit");

/* An operand: rows of a, columns of b. */
template <typename T> struct operand {
    const T *at;
    int64_t rows, depth, step_row, step_k;
    bool along_k; /* the order in memory, and in shared memory */
};

/* A thread's part of a tile, loaded V elements at a time. */
template <typename T, int V> struct held {
    enum { N = TILE * STEP / THREADS / V };
    vec<T, V> at[N];
};

/* Where vector i of this thread stands in the tile. */
template <int V>
static __device__ __forceinline__ void place_of(int i, bool along_k, int *row,
                                                int *k)
{
    const int e = threadIdx.x + i * THREADS;

    *row = along_k ? e / (STEP / V) : e % (TILE / V) * V;
    *k = along_k ? e % (STEP / V) * V : e / (TILE / V);
}

/* Elements beyond the matrix are 0; a vector lies within or beyond it. */
template <typename T, int V>
static __device__ __forceinline__ void
load_tile(const operand<T> &o, int64_t row0, int64_t k0, held<T, V> &h)
{
#pragma unroll
    for (int i = 0; i < held<T, V>::N; i++) {
        int row, k;

        place_of<V>(i, o.along_k, &row, &k);
        h.at[i] = vec<T, V>();
        if (row0 + row < o.rows && k0 + k < o.depth)
            h.at[i] = load_vec<T, V>(o.at + (row0 + row) * o.step_row +
                                     (k0 + k) * o.step_k);
    }
}

template <typename T, int V>
static __device__ __forceinline__ void
store_tile(const operand<T> &o, const held<T, V> &h, T *shared)
{
#pragma unroll
    for (int i = 0; i < held<T, V>::N; i++) {
        int row, k;

        place_of<V>(i, o.along_k, &row, &k);
        store_vec<T, V>(
            shared + (o.along_k ? row * PITCH_K + k : k * PITCH_ROWS + row),
            h.at[i]);
    }
}

/* The 16 x 16 elements at (row, k), as four matrices of 8 x 8: rows 0 and 8 of
 * k 0, then of k 8.  With PAIRS_K k 0 and 8 of row 0, then of row 8. */
template <typename T, bool PAIRS_K>
static __device__ __forceinline__ void
load_fragment(const T *shared, bool along_k, int row, int k, uint32_t (&d)[4])
{
    const int lane = threadIdx.x % 32, matrix = lane / 8, in = lane % 8;
    const int right = PAIRS_K ? matrix % 2 : matrix / 2;
    const int down = PAIRS_K ? matrix / 2 : matrix % 2;

    if (along_k)
        ptx_ldmatrix_x4(d, ptx_shared(shared + (row + 8 * down + in) * PITCH_K +
                                      k + 8 * right));
    else
        ptx_ldmatrix_x4_trans(d, ptx_shared(shared +
                                            (k + 8 * right + in) * PITCH_ROWS +
                                            row + 8 * down));
}

template <typename T>
static __device__ __forceinline__ void
multiply_step(const T *a, bool a_along_k, const T *b, bool b_along_k, int m,
              int n, float (&acc)[MT][NT][4])
{
#pragma unroll
    for (int k = 0; k < STEP; k += 16) {
        uint32_t x[MT][4], w[NT / 2][4];

#pragma unroll
        for (int i = 0; i < MT; i++)
            load_fragment<T, false>(a, a_along_k, m + 16 * i, k, x[i]);
#pragma unroll
        for (int j = 0; j < NT / 2; j++)
            load_fragment<T, true>(b, b_along_k, n + 16 * j, k, w[j]);
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                ptx_mma(T(), acc[i][j], x[i], w[j / 2] + j % 2 * 2);
    }
}

/* Columns n and n + 1 of row m: lane 4 g + t of a tile has columns 2 t and 2 t
 * + 1 of rows g and g + 8. */
template <typename T>
static __device__ __forceinline__ void store_sums(const struct gemm_args &g,
                                                  T *y, int64_t m0, int64_t n0,
                                                  const float (&acc)[MT][NT][4])
{
    const int group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;

#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const int64_t m = m0 + 16 * i + group + v / 2 * 8;
                const int64_t n = n0 + 8 * j + pair + v % 2;

                if (m < g.m && n < g.n)
                    y[m * g.y_m + n * g.y_n] = from_float<T>(
                        apply_epilogue(g.epilogue, g.alpha * acc[i][j][v], 0));
            }
}

template <typename T, int VA, int VB>
static __global__ void __launch_bounds__(THREADS)
    mma_kernel(const __grid_constant__ struct gemm_args g)
{
    __shared__ __align__(16) T a_tile[HELD];
    __shared__ __align__(16) T b_tile[HELD];
    const int64_t m0 = blockIdx.y * (int64_t)TILE;
    const int64_t n0 = blockIdx.x * (int64_t)TILE;
    const int warp = threadIdx.x / 32, m = warp / 2 * 32, n = warp % 2 * 32;

    launch_wait();
    for (int64_t z = blockIdx.z; z < g.batch.count; z += gridDim.z) {
        int64_t at[3];
        float acc[MT][NT][4] = {};
        held<T, VA> x;
        held<T, VB> w;

        g.batch.offsets(z, at);
        const operand<T> a = {
            (const T *)g.a + at[0], g.m, g.k, g.a_m, g.a_k, g.a_k == 1};
        const operand<T> b = {
            (const T *)g.b + at[1], g.n, g.k, g.b_n, g.b_k, g.b_k == 1};
        load_tile<T, VA>(a, m0, 0, x);
        load_tile<T, VB>(b, n0, 0, w);
        for (int64_t k = 0; k < g.k; k += STEP) {
            store_tile<T, VA>(a, x, a_tile);
            store_tile<T, VB>(b, w, b_tile);
            __syncthreads();
            if (k + STEP < g.k) {
                load_tile<T, VA>(a, m0, k + STEP, x);
                load_tile<T, VB>(b, n0, k + STEP, w);
            }
            multiply_step<T>(a_tile, a.along_k, b_tile, b.along_k, m, n, acc);
            __syncthreads();
        }
        store_sums<T>(g, (T *)g.y + at[2], m0 + m, n0 + n, acc);
    }
}

/* ---- launching ----------------------------------------------------- */

/* True if 8 elements of an operand can be moved as one.  The other dimension
 * and the batch keep the alignment. */
static bool in_eights(const struct gemm_args *g, int operand, const void *base,
                      int64_t rows, int64_t step_row, int64_t step_k)
{
    const bool along_k = step_k == 1;
    const int64_t inner = along_k ? g->k : rows;
    const int64_t outer = along_k ? step_row : step_k;

    if ((!along_k && step_row != 1) || inner % 8 != 0 || outer % 8 != 0 ||
        (uintptr_t)base % 16 != 0)
        return false;
    for (int d = 0; d < g->batch.rank; d++)
        if (g->batch.stride[operand][d] % 8 != 0)
            return false;
    return true;
}

template <typename T>
static int run(const struct gemm_args *g, const struct kern_args *args,
               struct infer_error *err)
{
    const bool a = in_eights(g, 0, g->a, g->m, g->a_m, g->a_k);
    const bool b = in_eights(g, 1, g->b, g->n, g->b_n, g->b_k);
    const dim3 grid(
        cuda_blocks(g->n, TILE), cuda_blocks(g->m, TILE),
        (unsigned)(g->batch.count < 65535 ? g->batch.count : 65535));

    if (g->m == 0 || g->n == 0 || g->batch.count == 0)
        return 0;
    return launch_chained(a && b ? mma_kernel<T, 8, 8>
                          : a    ? mma_kernel<T, 8, 1>
                          : b    ? mma_kernel<T, 1, 8>
                                 : mma_kernel<T, 1, 1>,
                          grid, dim3(THREADS), 0, args->stream, *g, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct gemm_args g = gemm_of_matmul(&e->problem, args);

    return e->problem.in[0].dtype == INFER_F16
               ? run<__half>(&g, args, err)
               : run<__nv_bfloat16>(&g, args, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor y = matmul_output(p);

    (void)d;
    if (y.dim[y.rank - 2] > 65535 * (int64_t)TILE)
        return error_set(why, INFER_EUNSUPPORTED,
                         "matmul: %lld rows, supported up to %d",
                         (long long)y.dim[y.rank - 2], 65535 * TILE);
    return check_types(p, 2, 1, why);
}

KERN_FUNCTIONS(matmul_half_cuda_mma_sm80) = {
    .supports = supports,
    .launch = launch,
};
