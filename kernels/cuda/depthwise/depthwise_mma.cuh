/* SPDX-License-Identifier: Apache-2.0 */
/* The computation of a depthwise tile by its warps, and the launch;
 * depthwise_tile.cuh describes the layout of the tile and the operands of an
 * mma. */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_MMA_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_MMA_CUH

#include "kernels/cuda/depthwise/depthwise_tile.cuh"

/* ---- instructions -------------------------------------------------- */

/* As ptx_ldmatrix_x4(), two matrices, lanes 0 to 15. */
static __device__ __forceinline__ void depthwise_ldmatrix_x2(uint32_t d[2],
                                                             uint32_t from)
{
#if PTX_SM80
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(from)
                 : "memory");
#endif
}

/* Loads a word of global memory here; the compiler would delay the load until
 * after the tile. */
static __device__ __forceinline__ uint32_t depthwise_load(const void *from)
{
    uint32_t word;

    asm volatile("ld.global.b32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    return word;
}

static __device__ __forceinline__ uint32_t depthwise_load_word(uint32_t from)
{
    uint32_t word;

    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}

static __device__ __forceinline__ void depthwise_store_word(uint32_t to,
                                                            uint32_t word)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

static __device__ __forceinline__ bool depthwise_any_nan(float a, float b)
{
    uint32_t any;

    asm("{ .reg .pred p; setp.nan.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(any)
        : "f"(a), "f"(b));
    return any;
}

/* Keeps a number in a register; the compiler would compute it again for each
 * row. */
template <typename N>
static __device__ __forceinline__ void depthwise_keep(N &n)
{
    asm volatile("" : "+r"(n));
}

/* d = a b + c for one 16x8 tile, of depth 16 and 8, laid out as for
 * ptx_mma(). */
#define DEPTHWISE_MMA(T, type)                                                 \
    static __device__ __forceinline__ void depthwise_mma(                      \
        T, float d[4], const uint32_t a[4], const uint32_t b[2],               \
        const float c[4])                                                      \
    {                                                                          \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "     \
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"        \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),           \
              "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));          \
    }                                                                          \
    static __device__ __forceinline__ void depthwise_mma_half(                 \
        T, float d[4], const uint32_t a[2], uint32_t b)                        \
    {                                                                          \
        asm("mma.sync.aligned.m16n8k8.row.col.f32." type "." type ".f32 "      \
            "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                     \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(b));                                   \
    }

#if PTX_SM80
DEPTHWISE_MMA(__half, "f16")
DEPTHWISE_MMA(__nv_bfloat16, "bf16")
#else
template <typename T>
static __device__ __forceinline__ void
depthwise_mma(T, float *, const uint32_t *, const uint32_t *, const float *)
{
}
template <typename T>
static __device__ __forceinline__ void
depthwise_mma_half(T, float *, const uint32_t *, uint32_t)
{
}
#endif

/* ---- a warp -------------------------------------------------------- */

template <int R, int STRIDE, int BLOCKS> struct depthwise_warp {
    enum { SLOTS = (R + STRIDE - 1) / STRIDE, RING = SLOTS + 1 };
    int k;                     /* of this lane's first channel */
    uint32_t pixel[BLOCKS];    /* row of a matrix that this lane names, below */
    uint32_t out[2 * BLOCKS];  /* its pixels in the row to be finished */
    uint32_t next[2 * BLOCKS]; /* from there to the next one; 0 for none */
    uint32_t w[R][R];          /* diagonals of the taps */
    float bias[4];
    float acc[RING][BLOCKS][4];
};

/* The image of a half and the column of its pixel i. */
static __device__ __forceinline__ int
depthwise_tile_pixel(const struct depthwise_tile &t, int half, int i,
                     int *column)
{
    *column = 8 * (half & ((1 << t.halves) - 1)) + i;
    return half >> t.halves;
}

/* Broadcast by one lane, so that the compiler knows it to be uniform. */
static __device__ __forceinline__ int depthwise_warp_number(void)
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
}

/* Constants of lane 4g + j, which has pixels g of each half, and channels 2j
 * and 2j + 1 of the warp's.  A lane without a pixel reads another one and
 * writes its result to a word of its own after the tile. */
template <typename T, int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void
depthwise_warp_begin(const struct depthwise_tile_args &a,
                     const struct depthwise_tile_place &at,
                     struct depthwise_warp<R, STRIDE, BLOCKS> &s)
{
    const int lane = threadIdx.x % 32, group = depthwise_warp_number();
    const int g = lane / 4, j = lane % 4;
    const uint32_t base = at.shared + group * 16;
    int column;

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int image =
            depthwise_tile_pixel(a.t, 2 * b + lane / 8 % 2, lane % 8, &column);
        s.pixel[b] = base +
                     (image < at.images ? image : 0) * a.t.high * a.t.line +
                     min(column, at.columns - 1) * a.t.pixel;
        if (lane >= 16)
            s.pixel[b] += (STRIDE == 1 ? 1 : a.t.odd) * a.t.pixel;
    }
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
        const int image = depthwise_tile_pixel(a.t, i, g, &column);
        const bool ok = image < at.images && column < at.columns;
        s.out[i] =
            ok ? base + image * a.t.high * a.t.line + column * a.t.pixel + 4 * j
               : at.shared + a.t.images * a.t.high * a.t.line +
                     DEPTHWISE_TILE_SPARE * group + 4 * lane;
        s.next[i] = ok ? a.t.line : 0;
    }
    s.k = min(at.k + 8 * group, a.g.k - 8) + 2 * j;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < R; c++)
            s.w[r][c] =
                depthwise_load((const T *)a.w + (r * R + c) * a.g.k + s.k);
    s.bias[0] = s.bias[1] = 0;
    if (a.out.bias) {
        s.bias[0] = __uint_as_float(depthwise_load(a.out.bias + s.k));
        s.bias[1] = __uint_as_float(depthwise_load(a.out.bias + s.k + 1));
    }
    s.bias[2] = s.bias[0];
    s.bias[3] = s.bias[1];
}

/* Loads the weights: the lane's element of the diagonals is that of channel g.
 * The values that every row needs stay in registers. */
template <int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void
depthwise_warp_keep(struct depthwise_warp<R, STRIDE, BLOCKS> &s)
{
    const int g = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
    const uint32_t mask = g / 2 != j ? 0 : g % 2 ? 0xffff0000u : 0xffffu;

#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < R; c++)
            s.w[r][c] &= mask;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
        depthwise_keep(s.pixel[i]);
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
        depthwise_keep(s.out[i]);
        depthwise_keep(s.next[i]);
    }
}

/* Output p is in slot p % RING; of outputs p .. p + SLOTS - 1, number i. */
template <int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ constexpr int depthwise_warp_slot(int p,
                                                                    int i)
{
    return (p + i) % depthwise_warp<R, STRIDE, BLOCKS>::RING;
}

/* Adds a row of the tile to the outputs it is part of: of number i from p on it
 * is row STRIDE (SLOTS - 1 - i) - BACK of the window.  The first row of one
 * begins with the bias. */
template <typename T, int R, int STRIDE, int BLOCKS, int BACK>
static __device__ __forceinline__ void
depthwise_warp_add(const struct depthwise_tile &t,
                   struct depthwise_warp<R, STRIDE, BLOCKS> &s, uint32_t row,
                   int p)
{
    enum { SLOTS = (R + STRIDE - 1) / STRIDE };
    const int step = (STRIDE == 1 ? 2 : 1) * t.pixel;

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        uint32_t x[4];
#pragma unroll
        for (int c = 0; c < R / 2; c++) {
            ptx_ldmatrix_x4(x, s.pixel[b] + row + c * step);
#pragma unroll
            for (int i = 0; i < SLOTS; i++) {
                const int r = STRIDE * (SLOTS - 1 - i) - BACK;
                float *const acc =
                    s.acc[depthwise_warp_slot<R, STRIDE, BLOCKS>(p, i)][b];
                if (r >= 0 && r < R)
                    depthwise_mma(T(), acc, x, s.w[r] + 2 * c,
                                  r == 0 && c == 0 ? s.bias : acc);
            }
        }
        depthwise_ldmatrix_x2(x, s.pixel[b] + row + R / 2 * step);
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            const int r = STRIDE * (SLOTS - 1 - i) - BACK;
            if (r >= 0 && r < R)
                depthwise_mma_half(
                    T(), s.acc[depthwise_warp_slot<R, STRIDE, BLOCKS>(p, i)][b],
                    x, s.w[r][R - 1]);
        }
    }
}

template <int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void
depthwise_warp_clear(struct depthwise_warp<R, STRIDE, BLOCKS> &s, int slot)
{
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s.acc[slot][b][i] = s.bias[i];
}

/* Recomputes the outputs of row p, product by product and without the
 * padding. */
template <typename T, int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void
depthwise_warp_repeat(const struct depthwise_tile_args &a,
                      const struct depthwise_tile_place &at,
                      const struct depthwise_warp<R, STRIDE, BLOCKS> &s, int p,
                      float (&v)[4 * BLOCKS])
{
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
        float sum[2] = {s.bias[0], s.bias[1]};
        int column;
        depthwise_tile_pixel(a.t, i, threadIdx.x % 32 / 4, &column);
        if (s.next[i] == 0)
            continue;
#pragma unroll 1
        for (int tap = 0; tap < R * R; tap++) {
            const int row = STRIDE * p + tap / R;
            const int w = at.w + STRIDE * column + tap % R;
            if (row < at.first || row >= at.last ||
                (unsigned)w >= (unsigned)a.g.w)
                continue;
            const uint32_t word = depthwise_load_word(
                s.out[i] + (row - p) * a.t.line +
                depthwise_tile_column<STRIDE>(a.t, tap % R));
            float x[2], f[2];
            vec<T, 2> pair;
            memcpy(&pair, &word, sizeof(pair));
            x[0] = to_float(pair.at[0]);
            x[1] = to_float(pair.at[1]);
            load_floats<T, 2>((const T *)a.w + tap * a.g.k + s.k, f);
            sum[0] = fmaf(x[0], f[0], sum[0]);
            sum[1] = fmaf(x[1], f[1], sum[1]);
        }
        v[2 * i] = sum[0];
        v[2 * i + 1] = sum[1];
    }
}

/* Finishes row p, which is in a slot, and writes it over row p of the tile. */
template <typename T, int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void depthwise_warp_finish(
    const struct depthwise_tile_args &a, const struct depthwise_tile_place &at,
    struct depthwise_warp<R, STRIDE, BLOCKS> &s, int slot, int p)
{
    float v[4 * BLOCKS];
    bool bad = false;

#pragma unroll
    for (int i = 0; i < 4 * BLOCKS; i++)
        v[i] = s.acc[slot][i / 4][i % 4];
#pragma unroll
    for (int i = 0; i < 4 * BLOCKS; i += 2)
        bad = bad || depthwise_any_nan(v[i], v[i + 1]);
    if (__any_sync(0xffffffffu, bad))
        depthwise_warp_repeat<T, R, STRIDE, BLOCKS>(a, at, s, p, v);
    __builtin_assume(a.out.epilogue.act.kind != KERN_GELU);
    unary_inline<4 * BLOCKS>(a.out.epilogue.act, v);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2 * BLOCKS; i++) {
        vec<T, 2> pair;
        uint32_t word;
        pair.at[0] = from_float<T>(v[2 * i]);
        pair.at[1] = from_float<T>(v[2 * i + 1]);
        memcpy(&word, &pair, sizeof(word));
        depthwise_store_word(s.out[i], word);
        s.out[i] += s.next[i];
    }
}

/* Adds rows STRIDE i - STRIDE + 1 ..  STRIDE i of the tile, which completes row
 * i - SLOTS + 1 of the outputs, and finishes the previous one while the tensor
 * cores are still busy: so there is one slot more than there are rows in
 * progress. turn: i % RING. */
template <typename T, int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void depthwise_warp_step(
    const struct depthwise_tile_args &a, const struct depthwise_tile_place &at,
    struct depthwise_warp<R, STRIDE, BLOCKS> &s, int i, int turn)
{
    enum { SLOTS = (R + STRIDE - 1) / STRIDE, RING = SLOTS + 1 };
    const int row = STRIDE * i;

    if (STRIDE == 2 && row - 1 >= at.first && row - 1 < at.last)
        depthwise_warp_add<T, R, STRIDE, BLOCKS, 1>(
            a.t, s, (row - 1) * a.t.line, turn + 2);
    if (row >= at.first && row < at.last)
        depthwise_warp_add<T, R, STRIDE, BLOCKS, 0>(a.t, s, row * a.t.line,
                                                    turn + 2);
    else
        depthwise_warp_clear(s, turn);
    if (i >= SLOTS)
        depthwise_warp_finish<T, R, STRIDE, BLOCKS>(a, at, s, (turn + 1) % RING,
                                                    i - SLOTS);
}

template <typename T, int R, int STRIDE, int BLOCKS>
static __device__ __forceinline__ void
depthwise_warp_run(const struct depthwise_tile_args &a,
                   const struct depthwise_tile_place &at,
                   struct depthwise_warp<R, STRIDE, BLOCKS> &s)
{
    enum { SLOTS = (R + STRIDE - 1) / STRIDE, RING = SLOTS + 1 };
    const int steps = at.rows + SLOTS;

#pragma unroll
    for (int i = 0; i < RING; i++)
        depthwise_warp_clear(s, i);
#pragma unroll 1
    for (int i = 0; i < steps; i += RING)
#pragma unroll
        for (int turn = 0; turn < RING; turn++)
            if (i + turn < steps)
                depthwise_warp_step<T, R, STRIDE, BLOCKS>(a, at, s, i + turn,
                                                          turn);
}

/* Blocks of a multiprocessor, whose 65,536 registers hold their weights and
 * sums, and 32 more a thread: large windows leave fewer. */
template <int R, int STRIDE, int BLOCKS>
static constexpr int depthwise_tile_resident(void)
{
    enum {
        SUMS = 4 * BLOCKS * ((R + STRIDE - 1) / STRIDE + 1),
        FIT = 65536 / (32 * DEPTHWISE_TILE_GROUPS) / (R * R + SUMS + 32),
        MOST = BLOCKS == 1 ? 4 : 2
    };
    return FIT < 1 ? 1 : FIT > MOST ? MOST : FIT;
}

template <typename T, int R, int STRIDE, int BLOCKS>
static __global__ void __launch_bounds__(
    32 * DEPTHWISE_TILE_GROUPS, depthwise_tile_resident<R, STRIDE, BLOCKS>())
    depthwise_tile_kernel(const __grid_constant__ struct depthwise_tile_args a)
{
    LAUNCH_SHARED(shared);
    const struct depthwise_tile_place at =
        depthwise_tile_place_of(a, R, STRIDE, ptx_shared(shared));

    struct depthwise_warp<R, STRIDE, BLOCKS> s;

    launch_wait();
    depthwise_warp_begin<T, R, STRIDE, BLOCKS>(a, at, s);
    depthwise_tile_fill<T, STRIDE>(a, at);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    __syncthreads();
    depthwise_warp_keep(s);
    if (at.k + 8 * depthwise_warp_number() < a.g.k)
        depthwise_warp_run<T, R, STRIDE, BLOCKS>(a, at, s);
    __syncthreads();
    depthwise_tile_drain<T>(a, at, shared);
}

/* ---- launching ----------------------------------------------------- */

template <typename T, int R, int STRIDE>
static int depthwise_tile_launch_stride(struct depthwise_tile_args *a,
                                        void *stream, struct infer_error *err)
{
    const struct depthwise_tile *t = &a->t;
    const dim3 grid((unsigned)(t->slices * t->across * t->down *
                               conv_ceil_div(a->g.n, t->images)));
    const dim3 threads(32 * (unsigned)t->groups);

    return t->blocks == 1
               ? launch_chained(depthwise_tile_kernel<T, R, STRIDE, 1>, grid,
                                threads, t->bytes, stream, *a, err)
               : launch_chained(depthwise_tile_kernel<T, R, STRIDE, 2>, grid,
                                threads, t->bytes, stream, *a, err);
}

template <typename T>
static int depthwise_tile_launch(struct depthwise_tile_args *a, void *stream,
                                 struct infer_error *err)
{
    a->slices.init((uint32_t)a->t.slices);
    a->across.init((uint32_t)a->t.across);
    a->down.init((uint32_t)a->t.down);
    a->groups.init((uint32_t)a->t.groups);
    a->wide.init((uint32_t)a->t.wide);
    a->columns.init((uint32_t)a->t.columns);
    const bool one = a->g.stride_w == 1;
    if (a->g.r == 3)
        return one ? depthwise_tile_launch_stride<T, 3, 1>(a, stream, err)
                   : depthwise_tile_launch_stride<T, 3, 2>(a, stream, err);
    if (a->g.r == 5)
        return one ? depthwise_tile_launch_stride<T, 5, 1>(a, stream, err)
                   : depthwise_tile_launch_stride<T, 5, 2>(a, stream, err);
    if (a->g.r == 7)
        return one ? depthwise_tile_launch_stride<T, 7, 1>(a, stream, err)
                   : depthwise_tile_launch_stride<T, 7, 2>(a, stream, err);
    return depthwise_tile_launch_stride<T, 9, 1>(a, stream, err);
}

#endif
