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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/wgmma_finish.cuh"
#include "kernels/cuda/whole_image.cuh"

extern "C" {
#include "kernels/checked.h"
#include "kernels/cuda/conv.h"
}

#define MOST_THREADS  512
#define LEAST_THREADS 128
/* Blocks of a cluster that every GPU with clusters can run. */
#define MOST_BLOCKS 8
/* Weights in shared memory, at most: two blocks then fit a multiprocessor of
 * compute capability 9.0, whose 228 KiB they share with 20 KiB of sums each. */
#define MOST_STAGED (80 * 1024)
/* Bytes of an image that are worth a block. */
#define LEAST_BYTES 2048

enum { X, W, W2, BIAS, BIAS2 };

struct squeeze_shape {
    int n, c, pixels, hidden, k;
    int64_t x_image, x_pixel, y_image; /* strides */
    int across, along, images;         /* images: of a cluster, in turn */
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
                     hopper_peer(ptx_shared(at), rank)),
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
        hopper_cluster_arrive();
        hopper_cluster_wait();
    } else {
        __syncthreads();
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(MOST_THREADS, 2)
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
        hopper_cluster_arrive();
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
            hopper_cluster_wait();
        send_parts<T>(a, w, pitch, padded, mean, blocks,
                      parts + rank * a.s.hidden);
        meet(blocks);
        join_parts(a, parts, blocks, hidden);
        __syncthreads();
        finish<T>(a, w2, hidden, k0, count, (T *)a.y + n * a.s.y_image);
    }
}

/* ---- plans --------------------------------------------------------- */

/* Lanes that share a row of so many vectors, where `rows` rows are to find a
 * place among the threads. */
static int team_of(int threads, int vectors, int rows)
{
    int team = 1;

    while (team < 32 && team < vectors &&
           (int64_t)rows * 2 * team <= (int64_t)threads)
        team *= 2;
    return team;
}

/* Channels are split where the weights count beside the image, or else pixels:
 * of each channel range, every block reads the weights. */
static void split_image(int blocks, int elements, struct squeeze_shape *s)
{
    const int vectors = conv_ceil_div(s->c, elements);

    s->across = 1;
    if (32 * (int64_t)s->hidden < s->pixels)
        s->along = blocks;
    else {
        while (2 * s->across <= blocks && vectors >= 8 * s->across)
            s->across *= 2;
        s->along = blocks / s->across;
    }
    if (s->along > s->pixels)
        s->along = s->pixels;
    s->channels = conv_ceil_div(vectors, s->across) * elements;
    s->per_pixels = conv_ceil_div(s->pixels, s->along);
    s->outputs = conv_ceil_div(s->k, s->across * s->along);
}

/* Threads of a block: lanes times vectors, as near to the most as goes. */
static void choose_threads(int v, struct squeeze_shape *s)
{
    const int vectors = conv_ceil_div(s->channels, v);
    int threads = MOST_THREADS;

    s->lanes = 1;
    if (vectors < MOST_THREADS) {
        s->lanes = MOST_THREADS / vectors;
        if (s->lanes > s->per_pixels)
            s->lanes = s->per_pixels;
        threads = conv_round_up(s->lanes * vectors, 32);
        if (threads < LEAST_THREADS)
            threads = LEAST_THREADS;
    }
    s->threads = threads;
}

/* Bytes of `count` floats, rounded up to 16, from *bytes on; false where they
 * are too many. */
static bool place(int64_t count, int *at, int64_t *bytes)
{
    *at = (int)*bytes;
    *bytes += (count * 4 + 15) / 16 * 16;
    return *bytes <= INT32_MAX / 2;
}

/* False where even without weights it is beyond what 31 bits count. */
static bool lay_shared(int v, int size, const struct kern_device *d,
                       struct squeeze_shape *s, struct squeeze_shared *at)
{
    const int64_t wide = conv_round_up(s->channels, v);
    const int64_t first = (int64_t)s->hidden * s->channels * size;
    const int64_t second = (int64_t)s->outputs * s->pitch2 * size;
    const int blocks = s->across * s->along;
    int64_t bytes = 0, floats = (int64_t)s->threads * v;
    int sums;

    if (floats < wide)
        floats = wide;
    if (!place(floats, &sums, &bytes) ||
        !place(s->threads, &at->joined, &bytes) ||
        !place(s->channels, &at->mean, &bytes) ||
        !place(s->pitch2, &at->hidden, &bytes) ||
        !place(2 * (int64_t)blocks * s->hidden, &at->parts, &bytes))
        return false;
    s->staged = d->sm >= 80 && first + second <= MOST_STAGED;
    at->w = at->w2 = at->bytes = (int)bytes;
    if (s->staged) {
        at->w2 += (int)first;
        at->bytes += (int)(first + second);
    }
    return true;
}

/* Bytes of shared memory that a block may have. */
static int64_t shared_limit(const struct kern_device *d)
{
    return d->shared_per_block_optin ? (int64_t)d->shared_per_block_optin
                                     : 48 * 1024;
}

/* Fills in all for clusters of `blocks`; false where that is no good. */
static bool plan_for(const struct kern_problem *p, const struct kern_device *d,
                     int blocks, int images, struct squeeze_shape *s,
                     struct squeeze_shared *at)
{
    const struct kern_tensor *x = &p->in[X];
    const int size = (int)infer_dtype_size(x->dtype), elements = 16 / size;
    const int v = image_vector(x);
    int64_t pixels = 1;

    memset(s, 0, sizeof(*s));
    for (int i = 2; i < x->rank; i++)
        pixels *= x->dim[i];
    s->n = (int)x->dim[0];
    s->c = (int)x->dim[1];
    s->pixels = (int)pixels;
    s->hidden = (int)p->in[W].dim[0];
    s->k = (int)p->out[0].dim[1];
    s->x_image = x->stride[0];
    s->x_pixel = image_pixel_step(x);
    s->y_image = p->out[0].stride[0];
    s->images = images;
    s->pitch = conv_round_up(s->c, elements);
    s->pitch2 = conv_round_up(s->hidden, elements);
    split_image(blocks, elements, s);
    if (s->across * s->along != blocks)
        return false;
    choose_threads(v, s);
    s->team = team_of(s->threads, s->channels / elements, s->hidden);
    s->team2 = team_of(s->threads, s->pitch2 / elements, s->outputs);
    return lay_shared(v, size, d, s, at) && at->bytes <= shared_limit(d);
}

static double weight_bytes(const struct kern_problem *p)
{
    return ((double)kern_tensor_count(&p->in[W]) +
            (double)kern_tensor_count(&p->in[W2])) *
           (double)infer_dtype_size(p->in[W].dtype);
}

/* Blocks of a cluster as they are thought best: those of clusters start 30 ns
 * apart over the whole GPU, so half as many as it has multiprocessors, or as
 * many where much of their work is weights; each with some of the image; two an
 * image rather than one where the weights count. */
static int best_blocks(const struct kern_problem *p,
                       const struct kern_device *d)
{
    const int64_t n = p->in[X].dim[0];
    const double bytes = (double)kern_tensor_count(&p->in[X]) / (double)n *
                         (double)infer_dtype_size(p->in[X].dtype);
    const double weights = weight_bytes(p);
    const int sms = conv_multiprocessors(d);
    const int most = weights > MOST_STAGED ? sms : sms / 2;
    int blocks = MOST_BLOCKS;

    while (blocks > 1 &&
           (n * blocks > most || bytes < (double)blocks * LEAST_BYTES))
        blocks /= 2;
    if (blocks == 1 && n <= sms && weights > MOST_STAGED / 2)
        blocks = 2;
    return wgmma_check_device(d, NULL) < 0 ? 1 : blocks;
}

#define CHOICES 12

/* Variant `variant` of the problem's, the one thought best first: it, then all
 * other sizes of clusters, each with one image or several.  Returns how many
 * there are, at most variant + 1. */
static int choose(const struct kern_problem *p, const struct kern_device *d,
                  int variant, struct squeeze_shape *s,
                  struct squeeze_shared *at)
{
    const bool clusters = wgmma_check_device(d, NULL) == 0;
    const int best = best_blocks(p, d);
    int n = 0;

    for (int i = -1; i < CHOICES && n <= variant; i++) {
        const int blocks = i < 0 ? best : MOST_BLOCKS >> i % 4;
        const int images = i < 0 ? 1 : 1 << i / 4;

        if (i >= 0 &&
            ((blocks == best && images == 1) || (blocks > 1 && !clusters)))
            continue;
        /* Several only where all multiprocessors have some still. */
        if (images > 1 && p->in[X].dim[0] * blocks <
                              (int64_t)images * conv_multiprocessors(d))
            continue;
        if (plan_for(p, d, blocks, images, s, at))
            n++;
    }
    return n;
}

static int plan_variant(const struct kern_problem *p,
                        const struct kern_device *d, int variant,
                        struct squeeze_shape *s, struct squeeze_shared *at,
                        struct infer_error *why)
{
    if (choose(p, d, variant, s, at) <= variant)
        return error_set(why, INFER_EUNSUPPORTED,
                         variant > 0 ? "squeeze: has no variant %d"
                                     : "squeeze: needs too much shared memory",
                         variant);
    return 0;
}

static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    struct squeeze_shape s;
    struct squeeze_shared at;

    (void)err;
    return choose(p, d, CHOICES, &s, &at);
}

/* ---- limits -------------------------------------------------------- */

static int check_weights(const struct kern_problem *p, struct infer_error *why)
{
    for (int i = W; i <= W2; i++) {
        const struct kern_tensor *w = &p->in[i];

        if (!(p->constant_in & 1u << i))
            return error_set(why, INFER_EUNSUPPORTED,
                             "squeeze: weights are not constant");
        if (!kern_tensor_is_dense(w, KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED,
                             "squeeze: weights are not dense row-major");
        if (kern_tensor_count(w) == 0 || w->dim[0] > 1 << 20 ||
            w->dim[1] > 1 << 20 || kern_tensor_count(w) > INT32_MAX / 16)
            return error_set(why, INFER_EUNSUPPORTED,
                             "squeeze: no weights, or too many");
    }
    for (int i = BIAS; i <= BIAS2; i++)
        if (kern_problem_in(p, i) && !cuda_is_vector(&p->in[i]))
            return error_set(why, INFER_EUNSUPPORTED,
                             "squeeze: input %d is not dense F32", i);
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    struct squeeze_shape s;
    struct squeeze_shared at;
    int r = check_types(p, BIAS, BIAS2, why);

    if (r == 0)
        r = check_weights(p, why);
    if (r < 0)
        return r;
    if ((x->dim[1] > 1 && x->stride[1] != 1) ||
        (y->dim[1] > 1 && y->stride[1] != 1) || image_pixel_step(x) <= 0 ||
        x->stride[0] < 0 || y->stride[0] < 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "squeeze: channels do not lie last");
    if (kern_tensor_count(x) == 0 || kern_tensor_count(x) > INT32_MAX ||
        x->dim[0] > 1 << 24 || x->dim[1] > 1 << 20)
        return error_set(why, INFER_EUNSUPPORTED,
                         "squeeze: no pixels, or too many");
    return plan_variant(p, d, 0, &s, &at, why);
}

/* As measured on an H200: a launch; the bytes at 2.5 TB/s; every image's own
 * reading of the weights, all together at 4 TB/s, and that of one at what a few
 * multiprocessors get. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    const double weights = weight_bytes(p);

    (void)d;
    return 4 + kern_problem_bytes(p) / 2.5e6 +
           (double)p->in[X].dim[0] * weights / 4e6 + weights / 0.2e6;
}

/* ---- running ------------------------------------------------------- */

struct squeeze_state {
    struct squeeze_shape s;
    struct squeeze_shared at;
};

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const size_t size = infer_dtype_size(e->problem.in[X].dtype);
    struct squeeze_state *s = (struct squeeze_state *)malloc(sizeof(*s));
    const int r =
        s ? plan_variant(&e->problem, d, e->variant, &s->s, &s->at, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (r < 0) {
        free(s);
        return r;
    }
    e->state = s;
    snprintf(e->variant_name, sizeof(e->variant_name), "cluster%dx%d images%d",
             s->s.across, s->s.along, s->s.images);
    e->packed[W] = (size_t)s->s.hidden * (size_t)s->s.pitch * size;
    e->packed[W2] = (size_t)s->s.k * (size_t)s->s.pitch2 * size;
    return 0;
}

/* Rows of whole vectors, filled up with 0; all of them have one type. */
static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct squeeze_state *s = (const struct squeeze_state *)e->state;
    const struct kern_tensor *w = &e->problem.in[i];
    const size_t size = infer_dtype_size(w->dtype);
    const size_t row = (size_t)w->dim[1] * size;
    const size_t pitch = (size_t)(i == W ? s->s.pitch : s->s.pitch2) * size;

    (void)err;
    memset(dst, 0, e->packed[i]);
    for (size_t k = 0; k < (size_t)w->dim[0]; k++)
        memcpy((unsigned char *)dst + k * pitch,
               (const unsigned char *)src + k * row, row);
    return 0;
}

template <typename T, int V>
static int run_width(const struct squeeze_args &a, void *stream,
                     struct infer_error *err)
{
    const int blocks = a.s.across * a.s.along;
    const int grid = conv_ceil_div(a.s.n, a.s.images) * blocks;

    if (blocks == 1)
        return launch_chained(squeeze_kernel<T, V>, dim3(grid),
                              dim3(a.s.threads), (size_t)a.at.bytes, stream, a,
                              err);
    return launch_clusters(squeeze_kernel<T, V>, grid, blocks,
                           (unsigned)a.s.threads, (size_t)a.at.bytes, stream, a,
                           err);
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct squeeze_state *s = (const struct squeeze_state *)e->state;
    struct squeeze_args a;

    a.s = s->s;
    a.at = s->at;
    a.x = args->in[X];
    a.w = args->in[W];
    a.w2 = args->in[W2];
    a.bias = kern_problem_in(&e->problem, BIAS) ? (const float *)args->in[BIAS]
                                                : NULL;
    a.bias2 = kern_problem_in(&e->problem, BIAS2)
                  ? (const float *)args->in[BIAS2]
                  : NULL;
    a.y = args->out[0];
    a.act = e->problem.attr.squeeze.act;
    a.act2 = e->problem.epilogue.act;
    if (image_vector(&e->problem.in[X]) > 1)
        return run_width<T, 16 / (int)sizeof(T)>(a, args->stream, err);
    return run_width<T, 1>(a, args->stream, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[X].dtype, run, e, args, err);
}

#define SQUEEZE_ROW(symbol, type)                                              \
    const struct kern_row symbol = {                                           \
        .name = #symbol,                                                       \
        .op = KERN_SQUEEZE,                                                    \
        .backend = INFER_BACKEND_CUDA,                                         \
        .layout = KERN_NHWC,                                                   \
        .dtype = type,                                                         \
        .acc = INFER_F32,                                                      \
        .min_sm = 75,                                                          \
        .supports = supports,                                                  \
        .estimate = estimate,                                                  \
        .variants = variants,                                                  \
        .prepare = prepare,                                                    \
        .pack = pack,                                                          \
        .launch = launch,                                                      \
        .release = cuda_state_release,                                         \
    };

SQUEEZE_ROW(squeeze_nhwc_f32_cuda_cluster, INFER_F32)
SQUEEZE_ROW(squeeze_nhwc_f16_cuda_cluster, INFER_F16)
SQUEEZE_ROW(squeeze_nhwc_bf16_cuda_cluster, INFER_BF16)
