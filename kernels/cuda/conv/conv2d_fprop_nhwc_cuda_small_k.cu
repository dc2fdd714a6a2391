/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution to very few channels (up to 4) with a small filter: matrix tiles
 * would be nearly empty, and latency sets the pace.
 *
 * One thread computes one pixel, all its K outputs; neighbours in a warp take
 * neighbouring pixels, so that a load of V channels is coalesced if C is V, and
 * the L1 cache serves the overlap of windows.  All loads of a 3x3 window are in
 * flight before the first is used.
 *
 * Shared memory: the weights, float [r][s][c][K], MOST * 4 bytes; a warp reads
 * one address at a time.
 */
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/pixel.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"

#define SMALL_K_THREADS 128
#define SMALL_K_MOST    2048 /* weights, padded to K */

struct small_k_args {
    struct conv_geometry g;
    const void *x;
    const float *w; /* packed, [depth][K] */
    struct output_args out;
};

/* ---- the kernel ---------------------------------------------------- */

/* Adds V channels of one filter position; w points at their weights. */
template <int V, int K>
static __device__ __forceinline__ void
small_k_add(const float (&x)[V], const float *w, float (&acc)[K])
{
    constexpr int L = V * K % 4 == 0 ? 4 : 1; /* weights an access */
    float f[V * K];

#pragma unroll
    for (int i = 0; i < V * K; i += L)
        load_floats<float, L>(w + i, f + i);
#pragma unroll
    for (int v = 0; v < V; v++)
#pragma unroll
        for (int k = 0; k < K; k++)
            acc[k] = fmaf(x[v], f[v * K + k], acc[k]);
}

/* V channels, c on, of the window at p: R x S filter positions, or those of the
 * geometry if R is 0. */
template <typename T, int V, int K, int R>
static __device__ __forceinline__ void
small_k_taps(const struct small_k_args &a, const struct conv_pixel &p,
             const float *w, int c, float (&acc)[K])
{
    const struct conv_geometry &g = a.g;
    const int rows = R ? R : g.r, columns = R ? R : g.s;
    constexpr int AHEAD = R ? R * R : 1;
    float x[AHEAD][V];

#pragma unroll(R ? R : 1)
    for (int r = 0; r < rows; r++)
#pragma unroll(R ? R : 1)
        for (int s = 0; s < columns; s++) {
            const struct conv_depth d = {r, s, c};
            float(&to)[V] = x[R ? r * R + s : 0];
#pragma unroll
            for (int v = 0; v < V; v++)
                to[v] = 0;
            if (conv_inside(g, p.h, p.w, d))
                load_floats<T, V>(
                    (const T *)a.x + p.offset + conv_tap_offset(g, d), to);
            if (!R)
                small_k_add<V, K>(to, w + ((r * g.s + s) * g.c + c) * K, acc);
        }
    if (R)
#pragma unroll
        for (int i = 0; i < R * R; i++)
            small_k_add<V, K>(x[i], w + (i * g.c + c) * K, acc);
}

template <typename T, int V, int K, int R>
static __global__ void __launch_bounds__(SMALL_K_THREADS)
    small_k_kernel(const __grid_constant__ struct small_k_args a)
{
    __shared__ __align__(16) float w[SMALL_K_MOST];
    const int m = (int)blockIdx.x * SMALL_K_THREADS + (int)threadIdx.x;
    const struct conv_pixel p = conv_pixel_at(a.g, m, 0);
    float acc[K] = {};

    for (int i = threadIdx.x; i < a.g.depth * K; i += SMALL_K_THREADS)
        w[i] = a.w[i];
    __syncthreads();
    launch_wait();
    if (m >= a.g.m)
        return;
    for (int c = 0; c < a.g.c; c += V)
        small_k_taps<T, V, K, R>(a, p, w, c, acc);
    if (a.g.k == K)
        output_vector<T, K>(a.out, m, 0, acc);
    else
        output_scalars<T, K>(a.out, m, 0, a.g.k, acc);
}

/* ---- the host's side ----------------------------------------------- */

/* Outputs of a thread: a vector, of which 3 use 4. */
static int small_k_outputs(const struct conv_geometry *g)
{
    return g->k <= 2 ? g->k : 4;
}

static int small_k_read(const struct kern_problem *p,
                        const struct kern_device *, int,
                        struct conv_geometry *state, struct infer_error *why)
{
    const struct conv_geometry &g = *state;
    int rc = conv_geometry_read(p, state, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (g.groups != 1 || g.k > 4 || g.m == 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group to up to 4 channels, found %d to %d",
                         g.groups, g.k);
    if ((int64_t)g.depth * small_k_outputs(&g) > SMALL_K_MOST)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d weights, found %d", SMALL_K_MOST,
                         g.depth * small_k_outputs(&g));
    return 0;
}

/* Microseconds on an H200: the latency of dependent loads, or the bytes. */
static double small_k_estimate(const struct kern_problem *p,
                               const struct kern_device *d)
{
    struct conv_geometry g;

    if (conv_geometry_read(p, &g, NULL) < 0)
        return 1e30;
    const double threads = 1024.0 * conv_multiprocessors(d);
    const double rounds = g.m > threads ? g.m / threads : 1;
    const double bytes = kern_problem_bytes(p) / 2e6;
    const double taps = 0.03 * g.depth * rounds;

    return 2 + (taps > bytes ? taps : bytes);
}

static void small_k_declare(struct kern_exec *e, const struct conv_geometry *g)
{
    e->packed[CONV_W] =
        (size_t)g->depth * (size_t)small_k_outputs(g) * sizeof(float);
}

static const auto small_k_supports =
    state_supports<struct conv_geometry, small_k_read>;
static const auto small_k_prepare =
    state_prepare<struct conv_geometry, small_k_read, small_k_declare>;

static int small_k_pack(const struct kern_exec *e, int i, const void *src,
                        void *dst, struct infer_error *err)
{
    const struct conv_geometry *g = (const struct conv_geometry *)e->state;

    (void)err;
    conv_pack_columns(g, e->problem.in[i].dtype, src, g->depth,
                      small_k_outputs(g), (float *)dst);
    return 0;
}

template <typename T, int V, int K>
static int small_k_start(const struct small_k_args *a, void *stream,
                         struct infer_error *err)
{
    const bool square = a->g.r == 3 && a->g.s == 3;

    return launch_chained(square ? small_k_kernel<T, V, K, 3>
                                 : small_k_kernel<T, V, K, 0>,
                          dim3(conv_ceil_div(a->g.m, SMALL_K_THREADS)),
                          dim3(SMALL_K_THREADS), 0, stream, *a, err);
}

template <typename T, int V>
static int small_k_start_width(const struct small_k_args *a, void *stream,
                               struct infer_error *err)
{
    const int outputs = small_k_outputs(&a->g);

    return outputs == 1   ? small_k_start<T, V, 1>(a, stream, err)
           : outputs == 2 ? small_k_start<T, V, 2>(a, stream, err)
                          : small_k_start<T, V, 4>(a, stream, err);
}

template <typename T>
static int small_k_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct conv_geometry *g = (const struct conv_geometry *)e->state;
    struct small_k_args a;

    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = (const float *)args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    return g->c % 4 == 0 ? small_k_start_width<T, 4>(&a, args->stream, err)
                         : small_k_start_width<T, 1>(&a, args->stream, err);
}

STATE_ROW(conv2d_fprop_nhwc_f32_cuda_small_k, small_k, float, NULL)
STATE_ROW(conv2d_fprop_nhwc_f16_cuda_small_k, small_k, __half, NULL)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_small_k, small_k, __nv_bfloat16, NULL)
