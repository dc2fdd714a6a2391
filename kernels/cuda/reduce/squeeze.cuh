/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Squeeze and excitation but for its product, in one launch: the mean over an
 * image, a dense layer to few values, one back to many.
 *
 * A cluster of `across` times `along` blocks owns an image at a time: block i
 * sums channels of range i % across over the pixels of range i / across.  The
 * first layer is linear, so each block multiplies its sums by its columns of
 * the weights, and what the blocks exchange is their parts of those few
 * results: each writes its own into the shared memory of all, and all add them
 * in the same order.  Then each block computes its share of the second layer.
 *
 * Sums: thread t takes vector t % vectors (of V channels, 16 bytes where
 * aligned) of pixels t / vectors, t / vectors + lanes, ...; the lanes meet in
 * shared memory.  Layers: `team` lanes of a warp share a row of the weights,
 * vector by vector, and meet by shuffles.  The weights are packed into rows of
 * whole vectors; where a block's share of both is small they are fetched into
 * shared memory before the kernel in front has ended.
 *
 * Shared memory, in floats: sums[max(threads, vectors) * V], joined[threads],
 * mean[channels of a block], hidden[values of the first layer],
 * parts[2][blocks][values], each rounded up to 4; then the weights.  parts has
 * two halves, used in turn by a cluster's images: nobody writes one again
 * before all have met for the other.
 */
#ifndef KERNELS_CUDA_REDUCE_SQUEEZE_CUH
#define KERNELS_CUDA_REDUCE_SQUEEZE_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce/whole_image.cuh"
#include "kernels/cuda/types.cuh"

#define SQUEEZE_MOST_THREADS 512

struct squeeze_shape : image_shape {
    int hidden, k;
    int across, along, images; /* images: of a cluster, in turn */
    /* Of a block, at most: channels (whole vectors of weights), pixels,
     * outputs. */
    int channels, per_pixels, outputs;
    int pitch, pitch2; /* elements of a row of packed weights */
    int lanes, team, team2;
    int threads;
    bool staged;
};

/* Offsets into shared memory in bytes. */
struct squeeze_shared {
    int joined, mean, hidden, parts, w, w2, bytes;
};

struct squeeze_args {
    struct squeeze_shape s;
    struct squeeze_shared at;
    const void *x, *w, *w2;
    const float *bias, *bias2; /* or NULL */
    void *y;
    struct kern_unary act, act2;
};

/* ---- the mean ------------------------------------------------------ */

/* sums[lane][width]: those of every lane's pixels.  x: the block's first
 * channel of its first pixel. */
template <typename T, int V>
static __device__ __forceinline__ void sum_pixels(const struct squeeze_args &a,
                                                  const T *x, int pixels,
                                                  int width, float *sums)
{
    const int vectors = width / V, lanes = a.s.lanes;
    const int lane =
        vectors < (int)blockDim.x ? threadIdx.x / max(vectors, 1) : 0;

    if (lane >= lanes)
        return;
    for (int v = threadIdx.x - lane * vectors; v < vectors; v += blockDim.x) {
        float acc[V] = {0};

        image_join_pixels<T, V>(false, x + lane * a.s.x_pixel + v * V,
                                a.s.x_pixel, pixels - lane, lanes, acc);
#pragma unroll
        for (int j = 0; j < V; j++)
            sums[lane * width + v * V + j] = acc[j];
    }
}

/* mean[channels]: those of the block, over its pixels, of which the image has
 * a.s.pixels; 0 beyond width. */
static __device__ __forceinline__ void join_lanes(const struct squeeze_args &a,
                                                  int width, const float *sums,
                                                  float *joined, float *mean)
{
    const int threads = blockDim.x, lanes = a.s.lanes;
    const int parts =
        width > 0 && width < threads ? min(lanes, threads / width) : 1;
    const int part = parts > 1 ? threadIdx.x / width : 0;
    float *const to = parts > 1 ? joined : mean;
    const float scale = parts > 1 ? 1 : a.s.pixels;

    if (part < parts)
        for (int c = threadIdx.x - part * width; c < width; c += threads) {
            float v = 0;
#pragma unroll 4
            for (int l = part; l < lanes; l += parts)
                v += sums[l * width + c];
            to[part * width + c] = v / scale;
        }
    __syncthreads();
    if (parts > 1)
        for (int c = threadIdx.x; c < width; c += threads) {
            float v = joined[c];
#pragma unroll 4
            for (int p = 1; p < parts; p++)
                v += joined[p * width + c];
            mean[c] = v / a.s.pixels;
        }
    for (int c = width + threadIdx.x; c < a.s.channels; c += threads)
        mean[c] = 0;
}

/* ---- the layers ---------------------------------------------------- */

/* The product of a row of weights and x, both of whole vectors: the same in all
 * `team` lanes that share it. */
template <typename T>
static __device__ __forceinline__ float
row_product(const T *w, const float *x, int width, int team, bool valid)
{
    const int V = 16 / (int)sizeof(T);
    float v = 0;

    if (valid)
#pragma unroll 2
        for (int i = threadIdx.x % team * V; i < width; i += team * V) {
            const vec<T, V> factor = load_vec<T, V>(w + i);
#pragma unroll
            for (int j = 0; j < V; j++)
                v = fmaf(to_float(factor.at[j]), x[i + j], v);
        }
    for (int step = 1; step < team; step *= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

static __device__ __forceinline__ void store_peer(float *at, int rank, float v)
{
#if HOPPER
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(
                     cluster_map_shared(ptx_shared(at), rank)),
                 "f"(v)
                 : "memory");
#else
    (void)rank;
    *at = v;
#endif
}

/* This block's parts of the first layer, into all blocks' part[hidden]. */
template <typename T>
static __device__ __forceinline__ void
send_parts(const struct squeeze_args &a, const T *w, int pitch, int width,
           const float *mean, int blocks, float *part)
{
    const int team = a.s.team, teams = blockDim.x / team;

    for (int first = 0; first < a.s.hidden; first += teams) {
        const int r = first + threadIdx.x / team;
        const bool valid = r < a.s.hidden;
        const float v = row_product<T>(w + (int64_t)(valid ? r : 0) * pitch,
                                       mean, width, team, valid);
        for (int to = threadIdx.x % team; valid && to < blocks; to += team)
            if (blocks > 1)
                store_peer(part + r, to, v);
            else
                part[r] = v;
    }
}

/* hidden[pitch2], 0 beyond its values. */
static __device__ __forceinline__ void join_parts(const struct squeeze_args &a,
                                                  const float *part, int blocks,
                                                  float *hidden)
{
    for (int r = threadIdx.x; r < a.s.pitch2; r += blockDim.x) {
        float v = 0;

        if (r < a.s.hidden) {
            for (int i = 0; i < blocks; i++)
                v += part[i * a.s.hidden + r];
            v = unary_any(a.act, a.bias ? v + a.bias[r] : v);
        }
        hidden[r] = v;
    }
}

/* Outputs k0 .. of the second layer, `count` of them; w: row k0. */
template <typename T>
static __device__ __forceinline__ void finish(const struct squeeze_args &a,
                                              const T *w, const float *hidden,
                                              int k0, int count, T *y)
{
    const int team = a.s.team2, teams = blockDim.x / team;

    for (int first = 0; first < count; first += teams) {
        const int i = first + threadIdx.x / team;
        const bool valid = i < count;
        const float v =
            row_product<T>(w + (int64_t)(valid ? i : 0) * a.s.pitch2, hidden,
                           a.s.pitch2, team, valid);
        if (valid && threadIdx.x % team == 0)
            y[k0 + i] = from_float<T>(
                unary_any(a.act2, a.bias2 ? v + a.bias2[k0 + i] : v));
    }
}

/* ---- the kernel ---------------------------------------------------- */

/* Starts copying `rows` rows of `width` elements, whole vectors. */
template <typename T>
static __device__ __forceinline__ void
fetch_rows(T *to, int to_pitch, const T *from, int pitch, int rows, int width)
{
    const int V = 16 / (int)sizeof(T), vectors = width / V;

    for (int i = threadIdx.x; i < rows * vectors; i += blockDim.x) {
        const int row = i / vectors, v = i % vectors * V;
        ptx_cp_async<16>(ptx_shared(to + row * to_pitch + v),
                         from + (int64_t)row * pitch + v, true);
    }
}

/* All threads of the cluster's blocks meet; what they wrote to shared memory is
 * seen. */
static __device__ __forceinline__ void meet(int blocks)
{
    if (blocks > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        __syncthreads();
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(SQUEEZE_MOST_THREADS, 2)
    squeeze_kernel(const __grid_constant__ struct squeeze_args a)
{
    LAUNCH_SHARED(shared);
    const int WV = 16 / (int)sizeof(T);
    float *const sums = (float *)shared;
    float *const joined = (float *)(shared + a.at.joined);
    float *const mean = (float *)(shared + a.at.mean);
    float *const hidden = (float *)(shared + a.at.hidden);
    const int blocks = a.s.across * a.s.along;
    const int rank = blockIdx.x % blocks;
    const int c0 = rank % a.s.across * a.s.channels;
    const int width = max(min(a.s.c - c0, a.s.channels), 0);
    const int padded = (width + WV - 1) / WV * WV;
    const int p0 = rank / a.s.across * a.s.per_pixels;
    const int pixels = max(min(a.s.pixels - p0, a.s.per_pixels), 0);
    const int k0 = rank * a.s.outputs;
    const int count = max(min(a.s.k - k0, a.s.outputs), 0);
    const T *w = (const T *)a.w + c0;
    const T *w2 = (const T *)a.w2 + (int64_t)k0 * a.s.pitch2;
    int pitch = a.s.pitch;

    if (blocks > 1)
        cluster_arrive();
    if (a.s.staged) {
        T *const own = (T *)(shared + a.at.w), *own2 = (T *)(shared + a.at.w2);
        fetch_rows<T>(own, a.s.channels, w, pitch, a.s.hidden, padded);
        fetch_rows<T>(own2, a.s.pitch2, w2, a.s.pitch2, count, a.s.pitch2);
        ptx_cp_async_commit();
        w = own;
        w2 = own2;
        pitch = a.s.channels;
    }
    launch_wait();
    const int first = blockIdx.x / blocks * a.s.images;
    const int last = min(first + a.s.images, a.s.n);
    for (int n = first; n < last; n++) {
        float *const parts = (float *)(shared + a.at.parts) +
                             (n - first) % 2 * blocks * a.s.hidden;

        sum_pixels<T, V>(
            a, (const T *)a.x + n * a.s.x_image + p0 * a.s.x_pixel + c0, pixels,
            width, sums);
        __syncthreads();
        join_lanes(a, width, sums, joined, mean);
        if (a.s.staged)
            ptx_cp_async_wait<0>();
        __syncthreads();
        /* All blocks run by now, so that they can be written to. */
        if (blocks > 1 && n == first)
            cluster_wait();
        send_parts<T>(a, w, pitch, padded, mean, blocks,
                      parts + rank * a.s.hidden);
        meet(blocks);
        join_parts(a, parts, blocks, hidden);
        __syncthreads();
        finish<T>(a, w2, hidden, k0, count, (T *)a.y + n * a.s.y_image);
    }
}

#endif
