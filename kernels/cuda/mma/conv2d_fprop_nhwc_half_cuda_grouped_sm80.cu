/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of many groups through mma.sync: any window, stride, dilation
 * and padding whose patch fits in shared memory, 1 to 128 channels a group.
 *
 * A warp computes 16 output channels of a tile of 16 MT output pixels. The
 * input channels of these outputs are those of the groups that they belong to:
 * with 4 channels a group the same 16, with 32 the 32 of one group.  For each
 * filter position a warp multiplies pixels x channels with the channels x 16
 * outputs of that matrix, in steps of 16 channels (m16n8k16); the matrix is 0
 * where input and output are of different groups.  For 4 channels a group that
 * is four times the products that are needed, and still fewer than memory has
 * time for.
 *
 * A block takes a tile of pixels of one image and a slice of neighbouring
 * outputs, 16 a warp.  It copies the input pixels of the tile, with the
 * channels of the slice, to shared memory once; an ldmatrix phase reads eight
 * pixels, which lie an odd number of 16-byte units apart.  Blocks that run at
 * the same time share a slice, whose weights stay in L1.
 *
 * Weights are packed in the order of the instruction's operand: for each 16
 * outputs, filter position and step, lane l = 4 g + t has 16 bytes, channels
 * 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of column g of two tiles of 8 columns.
 * Column n of tile j is output n / 2 * 4 + 2 j + n % 2, so that a lane ends
 * with four neighbouring outputs.
 *
 * Zeros of the matrix times an infinity are NaN in outputs of other groups, and
 * so are zeros outside the image times an infinite weight.  Outputs that are
 * NaN are therefore computed again, one product after the other.
 */
#include <stdio.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

/* Outputs of a warp, and channels of a step. */
#define GROUPED_N 16

#define GROUPED_MAX_WARPS    8
#define GROUPED_MAX_CHANNELS 128         /* of a group, in and out */
#define GROUPED_SHARED       (96 * 1024) /* bytes of a patch at most */

struct grouped_shape {
    struct conv_geometry g;
    int mt;               /* tiles of 16 pixels */
    int high, wide;       /* output pixels of a tile */
    int patch_h, patch_w; /* input pixels of a tile */
    int range;            /* channels of a patch, a multiple of 8 */
    int pitch;            /* bytes of a pixel of a patch */
    int warps;            /* of a block */
    int columns;          /* warps' outputs in all */
    int steps;            /* of 16 channels, at each filter position */
    struct fast_div tiles_h, tiles_w, by_patch_w, by_vectors, by_wide;
};

struct grouped_args {
    struct grouped_shape s;
    const void *x;
    const uint4 *w;
    struct output_args out;
};

/* The first input channel of outputs 16 column and up, rounded down to 16
 * bytes. */
static __host__ __device__ __forceinline__ int
grouped_first(const struct conv_geometry &g, int column)
{
    return column * GROUPED_N / g.kg * g.cg / 8 * 8;
}

/* The place of the weight of output k and input channel c, which is of its
 * group, in the packed weights of a filter position. */
static __host__ __device__ __forceinline__ size_t
grouped_place(const struct grouped_shape &s, int tap, int k, int c)
{
    const int column = k / GROUPED_N, n = k % GROUPED_N;
    const int at = c - grouped_first(s.g, column);
    const int step = at / 16, half = at % 16 / 8, t = at % 8 / 2;
    const int lane = (n / 4 * 2 + n % 2) * 4 + t;
    const size_t operand =
        ((size_t)column * s.g.r * s.g.s + tap) * s.steps + step;

    return (operand * 32 + lane) * 8 + n % 4 / 2 * 4 + half * 2 + at % 2;
}

/* ---- the kernel ---------------------------------------------------- */

/* Starts the copy of the pixels of a tile; those outside the image, and
 * channels beyond the last, are zeros. */
template <typename T>
static __device__ __forceinline__ void
grouped_copy(const struct grouped_args &a, int image, int h0, int w0, int first,
             unsigned char *to)
{
    const struct grouped_shape &s = a.s;
    const struct conv_geometry &g = s.g;
    const int vectors = s.patch_h * s.patch_w * (s.range / 8);
    const T *from = (const T *)a.x + (size_t)image * g.h * g.w * g.x_pitch;

#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        uint32_t v, column;
        const uint32_t pixel = s.by_vectors.divmod((uint32_t)i, &v);
        const int h = h0 + (int)s.by_patch_w.divmod(pixel, &column);
        const int w = w0 + (int)column, c = first + (int)v * 8;
        const bool inside = (unsigned)h < (unsigned)g.h &&
                            (unsigned)w < (unsigned)g.w && c < g.c;

        ptx_cp_async<16>(ptx_shared(to) + pixel * s.pitch + v * 16,
                         inside ? from + (size_t)(h * g.w + w) * g.x_pitch + c
                                : from,
                         inside);
    }
}

template <typename T, int MT>
static __device__ __forceinline__ void
grouped_multiply(const struct grouped_args &a, uint32_t patch, int column,
                 float (&acc)[MT][2][4])
{
    const struct grouped_shape &s = a.s;
    const struct conv_geometry &g = s.g;
    const int lane = threadIdx.x % 32;
    const int count = g.r * g.s * s.steps;
    const int next_row =
        (g.dilation_h * s.patch_w - g.s * g.dilation_w) * s.pitch;
    const uint4 *w = a.w + (size_t)column * count * 32 + lane;
    uint32_t from[MT];
    uint4 next = __ldg(w);
    int step = 0, tap = 0;

    patch += lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < MT; i++) {
        const int m = min(i * 16 + lane % 16, s.high * s.wide - 1);
        uint32_t q;
        const int p = (int)s.by_wide.divmod((uint32_t)m, &q);

        from[i] = patch +
                  (p * g.stride_h * s.patch_w + (int)q * g.stride_w) * s.pitch;
    }
    for (int n = 0; n < count; n++) {
        const uint32_t b[2][2] = {{next.x, next.y}, {next.z, next.w}};

        if (n + 1 < count)
            next = __ldg(w + (size_t)(n + 1) * 32);
#pragma unroll
        for (int i = 0; i < MT; i++) {
            uint32_t fa[4];
            ptx_ldmatrix_x4(fa, from[i] + step * 32);
            ptx_mma(T(), acc[i][0], fa, b[0]);
            ptx_mma(T(), acc[i][1], fa, b[1]);
        }
        if (++step < s.steps)
            continue;
        step = 0;
        int by = g.dilation_w * s.pitch;
        if (++tap == g.s) {
            tap = 0;
            by += next_row;
        }
#pragma unroll
        for (int i = 0; i < MT; i++)
            from[i] += by;
    }
}

/* One output, product after product. */
template <typename T>
static __device__ __noinline__ float
grouped_exact(const struct grouped_args &a, int image, int p, int q, int k)
{
    const struct conv_geometry &g = a.s.g;
    const T *w = (const T *)a.w;
    const int first = k / g.kg * g.cg;
    float sum = 0;

    for (int tap = 0; tap < g.r * g.s; tap++) {
        const int h = p * g.stride_h - g.pad_top + tap / g.s * g.dilation_h;
        const int x = q * g.stride_w - g.pad_left + tap % g.s * g.dilation_w;
        if ((unsigned)h >= (unsigned)g.h || (unsigned)x >= (unsigned)g.w)
            continue;
        const T *from = (const T *)a.x +
                        (((size_t)image * g.h + h) * g.w + x) * g.x_pitch +
                        first;
        for (int c = 0; c < g.cg; c++)
            sum += to_float(from[c]) *
                   to_float(w[grouped_place(a.s, tap, k, first + c)]);
    }
    return sum;
}

/* Finishes outputs k .. k + 3 of pixel m of the tile. */
template <typename T>
static __device__ __forceinline__ void
grouped_store(const struct grouped_args &a, int image, int p0, int q0, int m,
              int k, const float (&bias)[4], float (&v)[4])
{
    const struct conv_geometry &g = a.s.g;
    uint32_t column;
    const int p = p0 + (int)a.s.by_wide.divmod((uint32_t)m, &column);
    const int q = q0 + (int)column;
    const int pixel = (image * g.p + p) * g.q + q;
    float r[4];

    if (m >= a.s.high * a.s.wide || p >= g.p || q >= g.q)
        return;
    if (isnan(v[0] + v[1] + v[2] + v[3])) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (isnan(v[i]))
                v[i] = grouped_exact<T>(a, image, p, q, k + i);
    }
    if (a.out.residual)
        output_load_residual<T, 4>(a.out, pixel, k, r);
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] += bias[i];
    output_with_residual<T, 4>(a.out, pixel, k, v, r);
}

template <typename T, int MT>
static __global__ void __launch_bounds__(GROUPED_MAX_WARPS * 32)
    grouped_kernel(const __grid_constant__ struct grouped_args a)
{
    LAUNCH_SHARED(patch);
    const struct grouped_shape &s = a.s;
    const int slice = blockIdx.y * s.warps;
    const int column = slice + threadIdx.x / 32;
    const int first = grouped_first(s.g, slice);
    uint32_t row, col;
    float acc[MT][2][4] = {};

    const uint32_t rows = s.tiles_w.divmod(blockIdx.x, &col);
    const int image = (int)s.tiles_h.divmod(rows, &row);
    const int p0 = (int)row * s.high, q0 = (int)col * s.wide;

    launch_wait();
    grouped_copy<T>(a, image, p0 * s.g.stride_h - s.g.pad_top,
                    q0 * s.g.stride_w - s.g.pad_left, first, patch);
    ptx_cp_async_commit();
    ptx_cp_async_wait<0>();
    __syncthreads();
    if (column >= s.columns)
        return; /* the whole warp */
    grouped_multiply<T, MT>(
        a, ptx_shared(patch) + (grouped_first(s.g, column) - first) * 2, column,
        acc);
    const int lane = threadIdx.x % 32;
    const int k = column * GROUPED_N + lane % 4 * 4;
    float bias[4] = {};
    if (k >= s.g.k)
        return;
    if (a.out.bias)
        load_floats<float, 4>(a.out.bias + k, bias);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float v[4] = {acc[i][0][2 * half], acc[i][0][2 * half + 1],
                          acc[i][1][2 * half], acc[i][1][2 * half + 1]};
            grouped_store<T>(a, image, p0, q0, i * 16 + lane / 4 + half * 8, k,
                             bias, v);
        }
}

/* ---- the host's side ----------------------------------------------- */

/* Last input channel, plus one, of outputs below 16 (column + 1). */
static int grouped_end(const struct conv_geometry &g, int column)
{
    const int last = (column + 1) * GROUPED_N;

    return ((last < g.k ? last : g.k) - 1) / g.kg * g.cg + g.cg;
}

/* The slice that copies the fewest channels: with `warps` outputs of 16 in
 * each, all of them together. */
static void grouped_slice(struct grouped_shape *s)
{
    const struct conv_geometry &g = s->g;
    int64_t least = INT64_MAX;

    s->columns = conv_ceil_div(g.k, GROUPED_N);
    s->steps = 1;
    for (int j = 0; j < s->columns; j++) {
        const int wide = grouped_end(g, j) - grouped_first(g, j);
        if (s->steps < conv_ceil_div(wide, 16))
            s->steps = conv_ceil_div(wide, 16);
    }
    for (int warps = 1; warps <= GROUPED_MAX_WARPS; warps++) {
        const int slices = conv_ceil_div(s->columns, warps);
        int range = 0;

        for (int j = 0; j < s->columns; j++) {
            const int wide = grouped_first(g, j) + s->steps * 16 -
                             grouped_first(g, j / warps * warps);
            range = wide > range ? wide : range;
        }
        /* Few warps hide less; one more channel costs less than one warp. */
        const int64_t cost = (int64_t)slices * (range + 16);
        if (cost < least && range <= 2 * GROUPED_MAX_CHANNELS) {
            least = cost;
            s->warps = warps;
            s->range = range;
        }
    }
    s->pitch = s->range * 2 + (s->range / 8 % 2 ? 0 : 16);
}

/* Input pixels of `outputs` output pixels in a row or column. */
static int grouped_reach(int outputs, int stride, int window, int dilation)
{
    return (outputs - 1) * stride + (window - 1) * dilation + 1;
}

/* The tile of at most 16 mt pixels that takes the least work, counted in
 * pixels; 0 if no patch fits. */
static int64_t grouped_tile(struct grouped_shape *s, int mt)
{
    const struct conv_geometry &g = s->g;
    int64_t least = 0;

    for (int wide = 1; wide <= 16 * mt && wide <= g.q; wide++) {
        int high = 16 * mt / wide;
        high = high < g.p ? high : g.p;
        const int ph = grouped_reach(high, g.stride_h, g.r, g.dilation_h);
        const int pw = grouped_reach(wide, g.stride_w, g.s, g.dilation_w);
        const int64_t tiles =
            (int64_t)conv_ceil_div(g.p, high) * conv_ceil_div(g.q, wide);
        const int64_t cost =
            tiles * (16 * mt * s->steps + (int64_t)ph * pw / 2);

        if ((int64_t)ph * pw * s->pitch > GROUPED_SHARED ||
            (least > 0 && cost >= least))
            continue;
        least = cost;
        s->mt = mt;
        s->high = high;
        s->wide = wide;
        s->patch_h = ph;
        s->patch_w = pw;
    }
    return least;
}

static int64_t grouped_blocks(const struct grouped_shape *s)
{
    return (int64_t)s->g.n * conv_ceil_div(s->g.p, s->high) *
           conv_ceil_div(s->g.q, s->wide) * conv_ceil_div(s->columns, s->warps);
}

/* Large tiles where there are blocks enough for every multiprocessor; variant 1
 * takes half of them. */
static bool grouped_tiles(struct grouped_shape *s, const struct kern_device *d,
                          int variant)
{
    const int64_t enough = 2 * (int64_t)conv_multiprocessors(d);
    bool found = false;

    for (int mt = 1; mt <= 8; mt *= 2) {
        struct grouped_shape larger = *s;
        const int64_t cost = grouped_tile(&larger, mt);

        if (cost == 0)
            continue;
        if (found && grouped_blocks(&larger) < enough)
            break;
        struct grouped_shape now = *s;
        if (found && grouped_tile(&now, s->mt) < cost)
            continue;
        *s = larger;
        found = true;
    }
    if (!found || (variant == 1 && s->mt == 1))
        return false;
    if (variant == 1)
        grouped_tile(s, s->mt / 2);
    s->tiles_h.init((uint32_t)conv_ceil_div(s->g.p, s->high));
    s->tiles_w.init((uint32_t)conv_ceil_div(s->g.q, s->wide));
    s->by_patch_w.init((uint32_t)s->patch_w);
    s->by_vectors.init((uint32_t)s->range / 8);
    s->by_wide.init((uint32_t)s->wide);
    return true;
}

static int grouped_read(const struct kern_problem *p,
                        const struct kern_device *d, int variant,
                        struct grouped_shape *s, struct infer_error *why)
{
    const struct conv_geometry &g = s->g;
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (g.groups < 2 || g.cg > GROUPED_MAX_CHANNELS ||
        g.kg > GROUPED_MAX_CHANNELS || g.m == 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes two groups and more of at most %d channels, "
                         "found %d of %d to %d",
                         GROUPED_MAX_CHANNELS, g.groups, g.cg, g.kg);
    if (g.c % 8 || g.k % 8 || g.x_pitch % 8 || g.y_pitch % 8 || g.r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels in eights, found %d to %d", g.c, g.k);
    grouped_slice(s);
    if (!grouped_tiles(s, d, variant))
        return error_set(why, INFER_EUNSUPPORTED,
                         "windows of %d x %d with dilation %d x %d reach too "
                         "far",
                         g.r, g.s, g.dilation_h, g.dilation_w);
    if (conv_ceil_div(s->columns, s->warps) > 65535 ||
        grouped_blocks(s) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED, "too many blocks");
    return 0;
}

/* Bytes and products, at what was measured on an H100. */
static double grouped_estimate(const struct kern_problem *p,
                               const struct kern_device *d)
{
    struct grouped_shape s = {};
    struct infer_error why;

    if (grouped_read(p, d, 0, &s, &why) < 0)
        return 1e9;
    const double pixels = (double)grouped_blocks(&s) * 16 * s.mt;
    const double products =
        pixels * s.warps * GROUPED_N * 16 * s.steps * s.g.r * s.g.s;
    const double work = products / 0.65e6 / conv_multiprocessors(d);

    return 3 + cost_overlapped(work, cost_conv_bytes(p, &s.g) / 1.6e6, 0.3);
}

static void grouped_declare(struct kern_exec *e, const struct grouped_shape *s)
{
    e->packed[CONV_W] = (size_t)s->columns * (size_t)(s->g.r * s->g.s) *
                        (size_t)s->steps * 32 * sizeof(uint4);
    snprintf(e->variant_name, sizeof(e->variant_name), "%dx%d", s->high,
             s->wide);
}

static int grouped_variants(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *err)
{
    struct grouped_shape s = {};
    const int rc = grouped_read(p, d, 0, &s, err);

    return rc < 0 ? rc : s.mt > 1 ? 2 : 1;
}

static const auto grouped_supports =
    state_supports<struct grouped_shape, grouped_read>;
static const auto grouped_prepare =
    state_prepare<struct grouped_shape, grouped_read, grouped_declare>;

static int grouped_pack(const struct kern_exec *e, int i, const void *src,
                        void *dst, struct infer_error *err)
{
    const struct grouped_shape *s = (const struct grouped_shape *)e->state;
    const struct conv_geometry &g = s->g;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const enum infer_dtype to = e->problem.in[CONV_X].dtype;
    const int taps = g.r * g.s;

    (void)err;
    memset(dst, 0, e->packed[CONV_W]);
    for (int k = 0; k < g.k; k++)
        for (int c = 0; c < g.cg; c++)
            for (int tap = 0; tap < taps; tap++)
                scalar_store(
                    to, dst,
                    (int64_t)grouped_place(*s, tap, k, k / g.kg * g.cg + c),
                    scalar_load(from, src,
                                ((int64_t)k * g.cg + c) * taps + tap));
    return 0;
}

template <typename T>
static int grouped_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct grouped_shape *s = (const struct grouped_shape *)e->state;
    void (*const kernel)(const struct grouped_args) =
        s->mt == 1   ? grouped_kernel<T, 1>
        : s->mt == 2 ? grouped_kernel<T, 2>
        : s->mt == 4 ? grouped_kernel<T, 4>
                     : grouped_kernel<T, 8>;
    struct grouped_args a;

    a.s = *s;
    a.x = args->in[CONV_X];
    a.w = (const uint4 *)args->in[CONV_W];
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    return launch_chained(
        kernel,
        dim3((unsigned)s->g.n * s->tiles_h.divisor * s->tiles_w.divisor,
             (unsigned)conv_ceil_div(s->columns, s->warps)),
        dim3((unsigned)s->warps * 32),
        (size_t)s->patch_h * s->patch_w * s->pitch, args->stream, a, err);
}

STATE_ROW(conv2d_fprop_nhwc_f16_cuda_grouped_sm80, grouped, __half,
          grouped_variants)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_grouped_sm80, grouped, __nv_bfloat16,
          grouped_variants)
