/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation in one launch, for tensors that fit into the registers of
 * the device: a block keeps its share from the sums to the result, and all
 * blocks meet once in between.
 *
 * A block of 512 threads has 512 K vectors that lie side by side; thread t has
 * vectors t, t + 512, ... of them, which are of the same V channels, since C /
 * V divides 32.  Sums go across the lanes of a warp, then across the 16 warps
 * through 16 x 2 C floats of shared memory (32 KiB at most), then as
 * parts[block][2][C] to the workspace; after the grid barrier every block adds
 * up all parts, in a fixed order.  They are 8192 numbers at most, which keeps
 * that short.
 */
#ifndef KERNELS_CUDA_NORM_BATCH_NORM_RESIDENT_CUH
#define KERNELS_CUDA_NORM_BATCH_NORM_RESIDENT_CUH

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/norm/batch_norm.cuh"
#include "kernels/cuda/norm/grid_barrier.cuh"

enum {
    RESIDENT_THREADS = 512,
    RESIDENT_WARPS = RESIDENT_THREADS / 32,
    RESIDENT_SUMS = 8192,   /* of all blocks */
    RESIDENT_CHANNELS = 256 /* two sums each: one a thread */
};

/* Vectors a thread and blocks for a problem; vectors 0 where it does not fit.
 */
struct resident_shape {
    int vectors, blocks;
};

static inline struct resident_shape
resident_shape_of(const struct kern_tensor *x, int most_vectors,
                  const struct kern_device *d)
{
    const int multiprocessors = norm_multiprocessors(d);
    const int v = 16 / (int)infer_dtype_size(x->dtype);
    const int64_t c = x->dim[1], all = kern_tensor_count(x) / v;
    struct resident_shape s = {0, 0};
    int64_t most;

    if (c < 1 || c > RESIDENT_CHANNELS || c % v || 32 % (c / v) || all < 1)
        return s;
    most = RESIDENT_SUMS / (2 * c);
    most = most < multiprocessors ? most : multiprocessors;
    for (int k = 1; k <= most_vectors; k *= 2) {
        const int64_t blocks = (all + (int64_t)k * RESIDENT_THREADS - 1) /
                               ((int64_t)k * RESIDENT_THREADS);
        if (blocks <= most) {
            s.vectors = k;
            s.blocks = (int)blocks;
            break;
        }
    }
    return s;
}

/* This block's sums of all channels to its part. */
template <int V>
static __device__ __forceinline__ void
resident_put(int channels, float (&sum)[2][V], float *joined, float *part)
{
    const int per_pixel = channels / V, lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < V; j++)
            for (int step = 16; step >= per_pixel; step /= 2)
                sum[i][j] += __shfl_xor_sync(~0u, sum[i][j], step);
    if (lane < per_pixel)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < V; j++)
                joined[(warp * 2 + i) * channels + lane * V + j] = sum[i][j];
    __syncthreads();
    if (threadIdx.x < 2 * channels) {
        float all = 0;
#pragma unroll
        for (int w = 0; w < RESIDENT_WARPS; w++)
            all += joined[w * 2 * channels + threadIdx.x];
        part[threadIdx.x] = all;
    }
}

/* Both sums of all channels over all blocks: joined[2][C]. */
static __device__ __forceinline__ void
resident_join(int channels, const float *parts, float *joined)
{
    const int width = 2 * channels, rows = RESIDENT_THREADS / width;
    const int column = threadIdx.x % width, row = threadIdx.x / width;
    float sum = 0;

#pragma unroll 8
    for (int i = row; i < (int)gridDim.x && row < rows; i += rows)
        sum += grid_barrier_load(parts + (size_t)i * width + column);
    joined[threadIdx.x] = sum;
    __syncthreads();
    if (row == 0)
        for (int i = 1; i < rows; i++)
            sum += joined[i * width + column];
    __syncthreads();
    if (row == 0)
        joined[column] = sum;
    __syncthreads();
}

/* ---- rows ---------------------------------------------------------- */

/* Of a prepared problem. */
struct resident_state {
    int multiprocessors;
    struct resident_shape shape; /* vectors 0: by sums */
    unsigned barriers, launches;
};

/* variants() and prepare() of a row, by how its problems fit: variant 0: by
 * sums, LINES values a channel in the workspace; 1: resident, where they fit.
 */
typedef struct resident_shape resident_fit(const struct kern_problem *p,
                                           const struct kern_device *d);

template <resident_fit fit>
static int resident_variants(const struct kern_problem *p,
                             const struct kern_device *d,
                             struct infer_error *err)
{
    (void)err;
    return fit(p, d).vectors ? 2 : 1;
}

template <resident_fit fit, int LINES>
static int resident_prepare(struct kern_exec *e, const struct kern_device *d,
                            struct infer_error *err)
{
    const struct resident_shape shape = fit(&e->problem, d);
    struct resident_state *s = (struct resident_state *)calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    if (e->variant > (shape.vectors > 0)) {
        free(s);
        return error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                         e->row->name, e->variant);
    }
    e->workspace =
        norm_workspace(&e->problem.in[0]) +
        (size_t)LINES * (size_t)e->problem.in[0].dim[1] * sizeof(float);
    s->multiprocessors = norm_multiprocessors(d);
    if (e->variant > 0) {
        s->shape = shape;
        s->barriers = grid_barrier_group();
    }
    snprintf(e->variant_name, sizeof(e->variant_name), "%s",
             e->variant > 0 ? "resident" : "sums");
    e->state = s;
    return 0;
}

#endif
