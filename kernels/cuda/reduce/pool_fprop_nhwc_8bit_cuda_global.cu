/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean over each channel's image on 8 bits with scales
 * (kernels/quant/quant.h), channels last.
 *
 * A block owns up to 32 words, four channels each, of an image: thread t takes
 * word t % lanes of pixels t / lanes, t / lanes + groups, ...  Sums of integers
 * are of 16 bits, two in a word, for 256 pixels, then of 32 bits; those of
 * F8E4M3 are in single precision.  The groups meet in shared memory, halving
 * their number each time: 16 bytes a thread.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant/scaled.cuh"
#include "kernels/cuda/reduce/whole_image.cuh"
#include "kernels/cuda/types.cuh"

#define MOST_LANES   32
#define MOST_THREADS 1024
/* Sums of 16 bits hold so many bytes. */
#define SHORT_SUMS 256

struct quant_mean_args {
    struct image_shape s;
    int lanes, groups; /* powers of two */
    uint32_t flip;     /* 0x80808080 of I8 */
    int x_zero;        /* of all pixels together, after that */
    float scale;       /* of a sum */
    struct scaled_type to;
    struct kern_unary act;
    const void *x;
    void *y;
};

/* Sums of every groups-th pixel from x on, of four channels of integers. */
static __device__ __forceinline__ void
sum_pixels(const struct quant_mean_args &a, const uint8_t *x, int left,
           int (&sum)[4])
{
    const int64_t step = a.groups * a.s.x_pixel;

    while (left > 0) {
        uint32_t even = 0, odd = 0; /* bytes 0 and 2, 1 and 3 */
        const int most = min(left, SHORT_SUMS * a.groups);
        const int count = (most + a.groups - 1) / a.groups;

#pragma unroll 8
        for (int i = 0; i < count; i++, x += step) {
            const uint32_t word = *(const uint32_t *)x ^ a.flip;
            even += word & 0x00ff00ff;
            odd += word >> 8 & 0x00ff00ff;
        }
        sum[0] += (int)(even & 0xffff);
        sum[1] += (int)(odd & 0xffff);
        sum[2] += (int)(even >> 16);
        sum[3] += (int)(odd >> 16);
        left -= count * a.groups;
    }
}

/* The same of F8E4M3. */
static __device__ __forceinline__ void
sum_pixels(const struct quant_mean_args &a, const uint8_t *x, int left,
           float (&sum)[4])
{
    const int64_t step = a.groups * a.s.x_pixel;

#pragma unroll 4
    for (; left > 0; left -= a.groups, x += step) {
        float v[4];
        float8_values(*(const uint32_t *)x, v);
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[j] = __fadd_rn(sum[j], v[j]);
    }
}

static __device__ __forceinline__ float
value_of(const struct quant_mean_args &a, int sum)
{
    return __fmul_rn((float)(sum - a.x_zero), a.scale);
}

static __device__ __forceinline__ float
value_of(const struct quant_mean_args &a, float sum)
{
    return __fmul_rn(sum, a.scale);
}

template <typename S>
static __global__ void __launch_bounds__(MOST_THREADS)
    quant_mean(const __grid_constant__ struct quant_mean_args a)
{
    __shared__ vec<S, 4> shared[MOST_THREADS];
    const int lane = threadIdx.x % a.lanes, group = threadIdx.x / a.lanes;
    const int c = (blockIdx.x * a.lanes + lane) * 4, n = blockIdx.y;
    vec<S, 4> own;

#pragma unroll
    for (int j = 0; j < 4; j++)
        own.at[j] = 0;
    launch_wait();
    if (c < a.s.c)
        sum_pixels(
            a, (const uint8_t *)a.x + n * a.s.x_image + group * a.s.x_pixel + c,
            a.s.pixels - group, own.at);
    for (int half = a.groups / 2; half > 0; half /= 2) {
        if (group >= half && group < 2 * half)
            shared[threadIdx.x] = own;
        __syncthreads();
        if (group < half) {
            const vec<S, 4> other = shared[threadIdx.x + half * a.lanes];
#pragma unroll
            for (int j = 0; j < 4; j++)
                own.at[j] += other.at[j];
        }
    }
    if (group > 0 || c >= a.s.c)
        return;
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        v[j] = value_of(a, own.at[j]);
    unary_piecewise_linear<4>(a.act, v);
    scaled_store<4>(a.to, a.y, n * a.s.y_image + c, v);
}

/* ---- the host's side ----------------------------------------------- */

/* Sums fit 32 bits. */
#define MOST_PIXELS (1 << 23)

static bool is_whole(const struct kern_problem *p)
{
    const struct kern_pool *a = &p->attr.pool;

    for (int i = 0; i < p->in[0].rank - 2; i++)
        if (a->window[i] != p->in[0].dim[i + 2] || a->pad_begin[i] != 0 ||
            a->pad_end[i] != 0 || p->out[0].dim[i + 2] != 1 ||
            (a->window[i] > 1 && a->dilation[i] != 1))
            return false;
    return a->kind == KERN_POOL_AVERAGE;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];

    (void)d;
    if (!quant_is_scaled(p) || !scaled_is_known(y) ||
        !scaled_act_is_known(&p->epilogue.act) || !is_whole(p))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes means over images of 8 bits with scales");
    if (x->stride[1] != 1 || y->stride[1] != 1 || x->dim[1] % 4 != 0 ||
        image_pixel_step(x) <= 0 || image_pixel_step(x) % 4 != 0 ||
        x->stride[0] < 0 || x->stride[0] % 4 != 0 || y->stride[0] < 0 ||
        y->stride[0] % 4 != 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in 4s, which lie last");
    if (kern_tensor_count(x) == 0 || kern_tensor_count(x) > INT32_MAX ||
        kern_tensor_count(x) / x->dim[0] / x->dim[1] > MOST_PIXELS ||
        x->dim[0] > 65535)
        return error_set(why, INFER_EUNSUPPORTED, "has no pixels, or too many");
    return 0;
}

/* Lanes for the channels, groups for as many pixels as there are. */
static void choose_threads(struct quant_mean_args *a)
{
    const int most = a->s.pixels >= 512 ? MOST_THREADS : 256;

    a->lanes = MOST_LANES;
    while (a->lanes > 1 && (a->lanes / 2) * 4 >= a->s.c)
        a->lanes /= 2;
    a->groups = most / a->lanes;
    while (a->groups > 1 && a->groups > a->s.pixels)
        a->groups /= 2;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool sign = p->in[0].dtype == INFER_I8;
    struct quant_mean_args a = {};

    a.s = image_shape_of(p);
    choose_threads(&a);
    a.flip = sign ? 0x80808080u : 0;
    a.x_zero = (p->quant.x_zero + (sign ? 128 : 0)) * a.s.pixels;
    a.scale = p->quant.x_scale / (float)a.s.pixels;
    a.to = scaled_type_of(p->out[0].dtype, p->quant.y_scale, p->quant.y_zero);
    a.act = p->epilogue.act;
    a.x = args->in[0];
    a.y = args->out[0];
    const dim3 grid((unsigned)((a.s.c + a.lanes * 4 - 1) / (a.lanes * 4)),
                    (unsigned)a.s.n);
    const dim3 block((unsigned)(a.lanes * a.groups));
    return p->in[0].dtype == INFER_F8E4M3
               ? launch_chained(quant_mean<float>, grid, block, 0, args->stream,
                                a, err)
               : launch_chained(quant_mean<int>, grid, block, 0, args->stream,
                                a, err);
}

/* Few blocks wait for memory, many for its bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    (void)d;
    return 3 + kern_problem_bytes(p) / 2e6;
}

KERN_FUNCTIONS(pool_fprop_nhwc_8bit_cuda_global) = {
    .supports = supports,
    .estimate = estimate,
    .launch = launch,
};
