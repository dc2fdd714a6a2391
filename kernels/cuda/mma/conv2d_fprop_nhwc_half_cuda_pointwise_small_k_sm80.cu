/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1x1 convolution of 32 or 64 channels to 8, 16 or 32: so little arithmetic
 * that memory traffic sets the pace, and so few outputs that larger tiles are
 * half empty.
 *
 * A warp takes 32 pixels, two tiles of 16, and all outputs, by mma.sync from
 * registers alone.  The order of channels in the depth does not matter as long
 * as x and w agree, so lane 4 g + t loads 16 bytes, channels 8 t .. 8 t + 7 of
 * 32, of pixels g and g + 8, which are its parts of two steps of 16: halves 0
 * .. 3 of the first, 4 .. 7 of the second.  Likewise for the outputs: column n
 * of tile j is channel n / 2 * 2 TILES + 2 j + n % 2, so that a lane ends with
 * 2 TILES neighbouring channels.  No shared memory.
 *
 * With an input scale (kernels/input_scale.h) a lane multiplies its values of x
 * with the scale of the same channels, and blocks go from the last pixels to
 * the first: the global pooling that computes the scale has read the last
 * images last, and they are still in L2.
 */
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/scale.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

#define SMALL_K_THREADS 128
#define SMALL_K_PIXELS  (SMALL_K_THREADS / 32 * 32) /* of a block */

struct small_k_args {
    struct conv_geometry g;
    const void *x, *w; /* w: rows of c, one an output */
    struct output_args out;
    const void *input_scale; /* rows of c, one an image; NULL for none */
    struct fast_div pixels;  /* of an image */
};

/* ---- the kernel ---------------------------------------------------- */

/* Multiplies the channels of pixel m, from t * 8 on in each block of 32, with
 * their scale. */
template <typename T, int BLOCKS>
static __device__ __forceinline__ void
small_k_scale(const struct small_k_args &a, int m, int i, int t,
              uint32_t (&x)[BLOCKS][4][4])
{
    const T *from = (const T *)a.input_scale +
                    (size_t)a.pixels.div((uint32_t)m) * a.g.c + t * 8;

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        uint32_t factor[4];
        ptx_load_words(from + b * 32, factor);
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[b][i][j] = scale_pair(T(), x[b][i][j], factor[j]);
    }
}

/* Adds 32 channels of 16 pixels; x and x8: those of pixels g and g + 8. */
template <typename T, int TILES>
static __device__ __forceinline__ void
small_k_multiply(const uint32_t (&x)[4], const uint32_t (&x8)[4],
                 const uint32_t (&w)[TILES][4], float (&acc)[TILES][4])
{
#pragma unroll
    for (int step = 0; step < 2; step++) {
        const uint32_t a[4] = {x[2 * step], x8[2 * step], x[2 * step + 1],
                               x8[2 * step + 1]};
#pragma unroll
        for (int j = 0; j < TILES; j++)
            ptx_mma(T(), acc[j], a, w[j] + 2 * step);
    }
}

/* Finishes pixels m and m + 8. */
template <typename T, int TILES>
static __device__ __forceinline__ void
small_k_store(const struct small_k_args &a, int m, int t,
              const float (&acc)[TILES][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float v[2 * TILES];
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            v[2 * j] = acc[j][2 * half];
            v[2 * j + 1] = acc[j][2 * half + 1];
        }
        if (m + 8 * half < a.g.m)
            output_vector<T, 2 * TILES>(a.out, m + 8 * half, t * 2 * TILES, v);
    }
}

/* BLOCKS: of 32 channels; TILES: of 8 outputs; INPUT_SCALE: x has a scale. */
template <typename T, int BLOCKS, int TILES, bool INPUT_SCALE>
static __global__ void __launch_bounds__(SMALL_K_THREADS)
    small_k_kernel(const __grid_constant__ struct small_k_args a)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int block = INPUT_SCALE ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int m0 = block * SMALL_K_PIXELS + threadIdx.x / 32 * 32;
    const T *const w = (const T *)a.w + t * 8, *const x =
                                                   (const T *)a.x + t * 8;
    uint32_t f[BLOCKS][TILES][4], v[BLOCKS][4][4];
    float acc[2][TILES][4] = {};

#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int j = 0; j < TILES; j++)
            ptx_load_words(w + (g / 2 * 2 * TILES + 2 * j + g % 2) * a.g.c +
                               b * 32,
                           f[b][j]);
    launch_wait();
    if (m0 >= a.g.m)
        return; /* the whole warp */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int m = min(m0 + g + 8 * i, a.g.m - 1);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            ptx_load_words(x + (size_t)m * a.g.x_pitch + b * 32, v[b][i]);
    }
    if (INPUT_SCALE) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            small_k_scale<T, BLOCKS>(a, min(m0 + g + 8 * i, a.g.m - 1), i, t,
                                     v);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            small_k_multiply<T, TILES>(v[b][2 * i], v[b][2 * i + 1], f[b],
                                       acc[i]);
        }
        small_k_store<T, TILES>(a, m0 + 16 * i + g, t, acc[i]);
    }
}

/* ---- the host's side ----------------------------------------------- */

static int small_k_read(const struct kern_problem *p,
                        const struct kern_device *, int,
                        struct conv_geometry *state, struct infer_error *why)
{
    const struct conv_geometry &g = *state;
    int rc = conv_geometry_read_pitched(p, state, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (g.r != 1 || g.s != 1 || g.stride_h != 1 || g.stride_w != 1 ||
        g.p != g.h || g.q != g.w || g.pad_top || g.pad_left || g.groups != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1x1 windows without strides and pads, and one "
                         "group");
    if ((g.c != 32 && g.c != 64) || (g.k != 8 && g.k != 16 && g.k != 32))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 32 or 64 channels to 8, 16 or 32, found %d to "
                         "%d",
                         g.c, g.k);
    if (g.m == 0 || g.x_pitch % 8 || g.y_pitch % 8 || g.r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of 8 elements apart, "
                         "found %d, %d and %d",
                         g.x_pitch, g.y_pitch, g.r_pitch);
    if (input_scale_of(p) &&
        !kern_tensor_is_dense(input_scale_of(p), KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "takes dense input_scale");
    return 0;
}

/* The bytes, at what was measured on an H200. */
static double small_k_estimate(const struct kern_problem *p,
                               const struct kern_device *d)
{
    (void)d;
    return 2 + kern_problem_bytes(p) / 4.2e6;
}

static void small_k_declare(struct kern_exec *e, const struct conv_geometry *g)
{
    e->packed[CONV_W] = (size_t)g->k * (size_t)g->c *
                        infer_dtype_size(e->problem.in[CONV_X].dtype);
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
    conv_pack_rows(g, e->problem.in[i].dtype, src, e->problem.in[CONV_X].dtype,
                   CONV_ROUND_TYPE, g->c, g->c, dst);
    return 0;
}

typedef void (*small_k_function)(const struct small_k_args);

template <typename T, int BLOCKS, bool INPUT_SCALE>
static small_k_function small_k_for(int k)
{
    return k == 8    ? small_k_kernel<T, BLOCKS, 1, INPUT_SCALE>
           : k == 16 ? small_k_kernel<T, BLOCKS, 2, INPUT_SCALE>
                     : small_k_kernel<T, BLOCKS, 4, INPUT_SCALE>;
}

template <typename T>
static small_k_function small_k_of(const struct conv_geometry *g,
                                   bool input_scale)
{
    if (g->c == 32)
        return input_scale ? small_k_for<T, 1, true>(g->k)
                           : small_k_for<T, 1, false>(g->k);
    return input_scale ? small_k_for<T, 2, true>(g->k)
                       : small_k_for<T, 2, false>(g->k);
}

template <typename T>
static int small_k_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct conv_geometry *g = (const struct conv_geometry *)e->state;
    struct small_k_args a;

    a.g = *g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    a.input_scale =
        input_scale_of(&e->problem) ? args->in[INPUT_SCALE_IN] : NULL;
    a.pixels.init((uint32_t)(g->p * g->q));
    return launch_chained(small_k_of<T>(g, a.input_scale != NULL),
                          dim3(conv_ceil_div(g->m, SMALL_K_PIXELS)),
                          dim3(SMALL_K_THREADS), 0, args->stream, a, err);
}

STATE_ROW(conv2d_fprop_nhwc_f16_cuda_pointwise_small_k_sm80, small_k, __half,
          NULL)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_pointwise_small_k_sm80, small_k,
          __nv_bfloat16, NULL)
