/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of few channels and their dgrad with weights that change,
 * read in their own layout (k, r, s, c): nothing is packed. halo.cuh has the
 * tiles.
 *
 * dgrad is the same sum over dy with its halo and the flipped filter: dx[h, w,
 * c] = sum over (r, s, k) of dy[h + r - 1, w + s - 1, k] * w[k, 2 - r, 2 - s,
 * c].  That of stride 2 is the same with zeros between the pixels of dy, which
 * are not read: three products of four are wasted, but with few channels the
 * copies take longer.
 *
 * Blocks: tiles in x, of which a block takes every gridDim.x-th, so that it
 * reads the weights once; BN outputs in y.  Four warps share the M pixels, each
 * takes all BN outputs in m16n8k16 instructions, depth of 16 an instruction.
 *
 * Shared memory.  Weights: fprop BN rows of 9 C, dgrad C rows of 9 BN, each 16
 * bytes longer, which makes an odd number of 16-byte units (ldmatrix without
 * conflicts; transposed for dgrad).  Then the tile with its halo, and later in
 * its place the M x (BN + 8) sums.  At most (C = 64, BN = 32) 37,376 + 19,584
 * bytes.
 */
#include "kernels/cuda/mma/halo.cuh"

#define THREADS 128

struct halo_args {
    struct halo_shape s;
    int outputs; /* channels of the result */
    const void *x, *w;
    struct output_args out;
};

template <int M, int C, int BN, bool DGRAD> struct halo_plan {
    enum {
        ROW = (DGRAD ? 9 * BN : 9 * C) * 2 + 16, /* bytes of weights */
        WEIGHTS = (DGRAD ? C : BN) * ROW,
        PATCH = halo_patch<M, C>(),
        SUMS = M * (BN + 8) * 4,
        SHARED = WEIGHTS + (PATCH > SUMS ? PATCH : SUMS),
        MT = M / 64, /* m16 tiles of a warp */
        NT = BN / 8
    };
};

/* ---- weights ------------------------------------------------------- */

/* fprop: rows n0 .. n0 + BN - 1 whole. */
template <typename T, int C, int BN, int ROW, bool NARROW>
static __device__ __forceinline__ void copy_rows(const struct halo_args &a,
                                                 int n0, unsigned char *to)
{
    if constexpr (NARROW) {
        for (int i = threadIdx.x; i < BN * 9; i += THREADS)
            halo_fill_pixel<T, C>(to + i / 9 * ROW + i % 9 * 2 * C,
                                  (const T *)a.w +
                                      ((size_t)n0 * 9 + i) * a.s.channels,
                                  a.s.channels, true);
    } else {
        enum { VECTORS = 9 * C / 8 };
        for (int i = threadIdx.x; i < BN * VECTORS; i += THREADS)
            ptx_cp_async_cached<16>(
                ptx_shared(to) + i / VECTORS * ROW + i % VECTORS * 16,
                (const T *)a.w + (size_t)n0 * 9 * C + (size_t)i * 8);
    }
}

/* dgrad: of all rows and taps, columns n0 .. n0 + BN - 1. */
template <typename T, int C, int BN, int ROW>
static __device__ __forceinline__ void copy_columns(const struct halo_args &a,
                                                    int n0, unsigned char *to)
{
    enum { VECTORS = BN / 8 };
    for (int i = threadIdx.x; i < C * 9 * VECTORS; i += THREADS) {
        const int v = i % VECTORS, tap = i / VECTORS % 9, k = i / VECTORS / 9;
        ptx_cp_async_cached<16>(
            ptx_shared(to) + k * ROW + tap * 2 * BN + v * 16,
            (const T *)a.w + ((size_t)k * 9 + tap) * a.outputs + n0 + v * 8);
    }
}

/* Lane l addresses row l % 8 of matrix l / 8.  Of weights the matrices are
 * (outputs 0-7, depths 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15). */
template <int BN, int ROW, bool DGRAD>
static __device__ __forceinline__ int weights_lane(void)
{
    const int lane = threadIdx.x % 32;
    const int depth = lane / 8 % 2 * 8, output = lane / 16 * 8;

    return DGRAD ? (depth + lane % 8) * ROW + output * 2
                 : (output + lane % 8) * ROW + depth * 2;
}

/* ---- the kernel ---------------------------------------------------- */

template <typename MODE, int M, int C, int BN, bool DGRAD>
static __device__ __forceinline__ void
multiply(const struct halo_shape &s, uint32_t weights, uint32_t patch,
         float (&acc)[M / 64][BN / 8][4])
{
    typedef halo_plan<M, C, BN, DGRAD> P;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = ((1 << s.log) + 2) * halo_pitch<C>();
    const uint32_t from_w = weights + weights_lane<BN, P::ROW, DGRAD>();
    uint32_t from_x[P::MT];

#pragma unroll
    for (int i = 0; i < P::MT; i++)
        from_x[i] = patch + lane / 16 * 16 +
                    halo_at<C>(s, warp * (M / 4) + i * 16 + lane % 16);
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int step = 0; step < 3 * C / 16; step++) {
            const int tap = step / (C / 16), depth = step % (C / 16) * 16;
            const int rs = DGRAD ? 8 - (r * 3 + tap) : r * 3 + tap;
            uint32_t fa[P::MT][4], fb[P::NT][2];
#pragma unroll
            for (int i = 0; i < P::MT; i++)
                ptx_ldmatrix_x4(fa[i], from_x[i] + r * row +
                                           tap * halo_pitch<C>() + depth * 2);
#pragma unroll
            for (int j = 0; j < P::NT; j += 2) {
                uint32_t four[4];
                if (DGRAD)
                    ptx_ldmatrix_x4_trans(four, from_w + depth * P::ROW +
                                                    (rs * BN + j * 8) * 2);
                else
                    ptx_ldmatrix_x4(four, from_w + j * 8 * P::ROW +
                                              (rs * C + depth) * 2);
                fb[j][0] = four[0];
                fb[j][1] = four[1];
                fb[j + 1][0] = four[2];
                fb[j + 1][1] = four[3];
            }
#pragma unroll
            for (int i = 0; i < P::MT; i++)
#pragma unroll
                for (int j = 0; j < P::NT; j++)
                    ptx_mma(typename MODE::type(), acc[i][j], fa[i], fb[j]);
        }
}

/* Sums of the tile through shared memory, eight channels of a pixel at a
 * time. */
template <typename T, int M, int BN>
static __device__ __forceinline__ void
finish(const struct halo_args &a, const struct halo_tile &t, int n0,
       const float (&acc)[M / 64][BN / 8][4], float *sums)
{
    enum { PITCH = BN + 8, PER_ROW = BN / 8 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < M / 64; i++)
#pragma unroll
        for (int j = 0; j < BN / 8; j++) {
            float *to = sums + (warp * (M / 4) + i * 16 + lane / 4) * PITCH +
                        j * 8 + lane % 4 * 2;
            *(float2 *)to = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)(to + 8 * PITCH) =
                make_float2(acc[i][j][2], acc[i][j][3]);
        }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < M * PER_ROW; i += THREADS) {
        const int m = i / PER_ROW, column = i % PER_ROW * 8;
        const int h = t.h + (m >> a.s.log);
        const int w = t.w + (m & ((1 << a.s.log) - 1));
        float v[8];
        load_floats<float, 4>(sums + m * PITCH + column, v);
        load_floats<float, 4>(sums + m * PITCH + column + 4, v + 4);
        if (h < a.s.h && w < a.s.w)
            output_vector<T, 8>(a.out, (t.image * a.s.h + h) * a.s.w + w,
                                n0 + column, v);
    }
}

template <typename MODE, int M, int C, int BN, bool DGRAD, bool NARROW>
static __global__ void __launch_bounds__(THREADS)
    halo_kernel(const __grid_constant__ struct halo_args a)
{
    typedef halo_plan<M, C, BN, DGRAD> P;
    typedef typename MODE::type T;
    LAUNCH_SHARED(shared);
    unsigned char *patch = shared + P::WEIGHTS;
    const int n0 = (int)blockIdx.y * BN;

    /* The weights are written by a kernel of the stream too: the update. */
    launch_wait();
    if (DGRAD)
        copy_columns<T, C, BN, P::ROW>(a, n0, shared);
    else
        copy_rows<T, C, BN, P::ROW, NARROW>(a, n0, shared);
    for (int i = blockIdx.x; i < a.s.tiles; i += gridDim.x) {
        const struct halo_tile t = halo_tile_at(a.s, i);
        float acc[P::MT][P::NT][4] = {};

        __syncthreads(); /* the sums before have been read */
        halo_copy<T, C, THREADS, NARROW>(a.s, t, a.x, patch);
        ptx_cp_async_commit();
        ptx_cp_async_wait<0>();
        __syncthreads();
        multiply<MODE, M, C, BN, DGRAD>(a.s, ptx_shared(shared),
                                        ptx_shared(patch), acc);
        __syncthreads(); /* the patch has been read */
        finish<T, M, BN>(a, t, n0, acc, (float *)patch);
    }
}

/* ---- limits -------------------------------------------------------- */

struct halo_state {
    struct halo_shape s;
    int depth, outputs, bn, blocks;
};

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int, struct halo_state *s,
                        struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];
    const bool dgrad = p->op == KERN_CONV_DGRAD;
    const int rc =
        halo_read(p, &p->in[CONV_X], &p->out[0], w, dgrad ? 2 : 1, &s->s, why);
    const struct kern_tensor *bias = kern_problem_in(p, CONV_BIAS);
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);

    if (rc < 0)
        return rc;
    if (p->constant_in & 1u << CONV_W)
        return error_set(why, INFER_EUNSUPPORTED,
                         "weights are constant: others pack them once");
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes weights of the input's type, inputs "
                         "innermost");
    if ((bias && !cuda_is_vector(bias)) ||
        (residual && (residual->dtype != p->in[CONV_X].dtype ||
                      !kern_tensor_is_dense(residual, KERN_NHWC))))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes a bias in F32, a residual like the output");
    s->outputs = (int)p->out[0].dim[1];
    s->depth = halo_depth(s->s.channels);
    if (!s->depth || s->outputs % 16 || (dgrad && s->s.channels % 16))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to 16, 32 or 64 channels, results in 16s; "
                         "found %d to %d",
                         s->s.channels, s->outputs);
    halo_tiles(&s->s, s->depth == 64 ? 64 : 128);
    s->bn = s->outputs % 32 ? 16 : 32;
    /* Blocks that a multiprocessor holds at once. */
    const int64_t most = (int64_t)conv_multiprocessors(d) *
                         (s->depth == 64 ? 4 : 8) / (s->outputs / s->bn);
    s->blocks = (int)(s->s.tiles < most ? s->s.tiles : most > 1 ? most : 1);
    return 0;
}

/* Microseconds: mma.sync at a third of its rate, or the bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct halo_state s = {};

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double bytes = kern_problem_bytes(p) / 2.5e6;
    const double products =
        kern_problem_flops(p) * s.s.step * s.s.step * s.depth / s.s.channels;
    const double work = products / 1.5e6 / conv_multiprocessors(d);
    return 3 + (bytes > work ? bytes : work);
}

/* Nothing is packed. */
static void declare(struct kern_exec *, const struct halo_state *)
{
}

/* ---- launching ----------------------------------------------------- */

template <typename MODE, int M, int C, int BN, bool DGRAD, bool NARROW>
static int run(const struct halo_state *s, const struct halo_args *a,
               void *stream, struct infer_error *err)
{
    return launch_chained(halo_kernel<MODE, M, C, BN, DGRAD, NARROW>,
                          dim3(s->blocks, s->outputs / BN), dim3(THREADS),
                          halo_plan<M, C, BN, DGRAD>::SHARED, stream, *a, err);
}

template <typename MODE, int BN, bool DGRAD>
static int run_depth(const struct halo_state *s, const struct halo_args *a,
                     void *stream, struct infer_error *err)
{
    if (s->depth == 64)
        return run<MODE, 64, 64, BN, DGRAD, false>(s, a, stream, err);
    if (s->depth == 32)
        return run<MODE, 128, 32, BN, DGRAD, false>(s, a, stream, err);
    if constexpr (!DGRAD)
        if (s->s.channels != 16)
            return run<MODE, 128, 16, BN, DGRAD, true>(s, a, stream, err);
    return run<MODE, 128, 16, BN, DGRAD, false>(s, a, stream, err);
}

template <typename MODE, bool DGRAD>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct halo_state *s = (const struct halo_state *)e->state;
    struct halo_args a = {};

    a.s = s->s;
    a.outputs = s->outputs;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, s->outputs);
    return s->bn == 32 ? run_depth<MODE, 32, DGRAD>(s, &a, args->stream, err)
                       : run_depth<MODE, 16, DGRAD>(s, &a, args->stream, err);
}

#define HALO_ROW(symbol, m, dgrad)                                             \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = state_supports<struct halo_state, read_problem>,           \
        .estimate = estimate,                                                  \
        .prepare = state_prepare<struct halo_state, read_problem, declare>,    \
        .launch = launch<m, dgrad>,                                            \
        .release = cuda_state_release,                                         \
    };

HALO_ROW(conv2d_fprop_nhwc_f16_cuda_halo_sm80, struct igemm_f16, false)
HALO_ROW(conv2d_fprop_nhwc_bf16_cuda_halo_sm80, struct igemm_bf16, false)
HALO_ROW(conv2d_dgrad_nhwc_f16_cuda_halo_sm80, struct igemm_f16, true)
HALO_ROW(conv2d_dgrad_nhwc_bf16_cuda_halo_sm80, struct igemm_bf16, true)
