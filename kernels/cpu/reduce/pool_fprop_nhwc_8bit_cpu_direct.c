/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maximum and average pooling of I8 and U8, channels last: of integers as they
 * are, and with scales (kernels/quant/quant.h).
 *
 * A part of an output pixel's channels stays in the L1 cache while the pixels
 * of its window are folded in.  An I8 is moved by 128, which keeps the order.
 * Threads divide the rows of output pixels, or the channels where rows are few.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/bytes.h"
#include "kernels/cpu/reduce/pool_axis.h"

/* Most elements of a window, whose sum fits 32 bits. */
#define MAX_AREA 4000000
/* Channels of a part. */
#define PART 256

struct pool {
    const struct kern_problem *p;
    struct pool_axis axis[KERN_MAX_SPATIAL];
    struct bytes_scale y;
    float low, high; /* the activation */
    /* The maximum needs no arithmetic: the scales are the same. */
    bool plain;
    uint8_t flip;
};

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_pool *a = &p->attr.pool;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    double area = 1;
    float low, high;

    (void)d;
    for (int i = 0; i < x->rank - 2 && i < KERN_MAX_SPATIAL; i++) {
        area *= (double)a->window[i];
        if (a->pad_begin[i] < 0 || a->pad_end[i] < 0)
            return error_set(why, INFER_EUNSUPPORTED, "takes pads from 0 up");
    }
    if (area > MAX_AREA)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows of at most %d elements", MAX_AREA);
    if (!cpu_channels_inner(x) || !cpu_channels_inner(y))
        return error_set(why, INFER_EUNSUPPORTED, "takes channels last");
    if (!cpu_act_bounds(&p->epilogue.act, &low, &high))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    if (!bytes_known(y))
        return error_set(why, INFER_EUNSUPPORTED, "gives I8, U8 and F32");
    if (!quant_is_scaled(p) &&
        (a->kind != KERN_POOL_MAX || p->epilogue.act.kind != KERN_IDENTITY ||
         x->dtype != y->dtype))
        return error_set(why, INFER_EUNSUPPORTED,
                         "gives the maximum of integers without scales");
    return 0;
}

/* ---- channels ------------------------------------------------------ */

/* Pixels of a window: three axes of `taps`, `step` bytes apart. */
struct run {
    const uint8_t *x;
    int64_t taps[3], step[3];
    uint8_t flip;
};

/* Channels of one at a time: they stay in registers. */
#define VECTOR 64

CPU_CLONES static void fold_max(const struct run *r, uint8_t *top, int64_t n)
{
    for (int64_t c = 0; c < n; c += VECTOR) {
        const int64_t m = n - c < VECTOR ? n - c : VECTOR;
        uint8_t t[VECTOR] = {0};

        for (int64_t d = 0; d < r->taps[0]; d++)
            for (int64_t h = 0; h < r->taps[1]; h++)
                for (int64_t w = 0; w < r->taps[2]; w++) {
                    const uint8_t *x = r->x + d * r->step[0] + h * r->step[1] +
                                       w * r->step[2] + c;

                    if (m == VECTOR) {
#pragma omp simd
                        for (int i = 0; i < VECTOR; i++) {
                            const uint8_t v = x[i] ^ r->flip;

                            t[i] = v > t[i] ? v : t[i];
                        }
                        continue;
                    }
#pragma omp simd
                    for (int64_t i = 0; i < m; i++) {
                        const uint8_t v = x[i] ^ r->flip;

                        t[i] = v > t[i] ? v : t[i];
                    }
                }
        memcpy(top + c, t, (size_t)m);
    }
}

CPU_CLONES static void fold_sum(const struct run *r, int32_t *restrict sum,
                                int64_t n)
{
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t d = 0; d < r->taps[0]; d++)
        for (int64_t h = 0; h < r->taps[1]; h++)
            for (int64_t w = 0; w < r->taps[2]; w++) {
                const uint8_t *x =
                    r->x + d * r->step[0] + h * r->step[1] + w * r->step[2];
#pragma omp simd
                for (int64_t c = 0; c < n; c++)
                    sum[c] += x[c] ^ r->flip;
            }
}

CPU_CLONES static void flip_bytes(const uint8_t *restrict x, uint8_t flip,
                                  uint8_t *restrict y, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        y[c] = x[c] ^ flip;
}

/* Values of sums from which `zero` is taken first. */
CPU_CLONES static void scale_sums(const int32_t *restrict sum, int32_t zero,
                                  float scale, float low, float high,
                                  float *restrict v, int64_t n)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        float f = (float)(sum[c] - zero) * scale;

        f = f < low ? low : f;
        v[c] = f > high ? high : f;
    }
}

/* The pixels of a window. */
struct window {
    int64_t from[3], to[3], counted[3], inside;
};

static struct window window_of(const struct pool *p, const int64_t o[3])
{
    struct window w = {.inside = 1};

    for (int i = 0; i < 3; i++) {
        pool_taps(&p->axis[i], o[i], &w.from[i], &w.to[i], &w.counted[i]);
        w.inside *= w.to[i] - w.from[i];
    }
    return w;
}

/* The window's pixels inside the input, whose image and channels are x. */
static struct run run_of(const struct pool *p, const struct window *w,
                         const int64_t o[3], const uint8_t *x)
{
    const struct pool_axis *a = p->axis;
    struct run r = {.x = x, .flip = p->flip};

    for (int i = 0; i < 3; i++) {
        r.x += (o[i] * a[i].stride - a[i].begin + w->from[i] * a[i].dilation) *
               a[i].x_stride;
        r.taps[i] = w->to[i] - w->from[i];
        r.step[i] = a[i].dilation * a[i].x_stride;
    }
    return r;
}

/* At most PART channels of one output pixel. */
static void pool_part(const struct pool *p, const int64_t o[3],
                      const uint8_t *x, void *y, int64_t n)
{
    const struct kern_quant *q = &p->p->quant;
    const struct kern_pool *attr = &p->p->attr.pool;
    const struct window w = window_of(p, o);
    const struct run r = run_of(p, &w, o, x);
    const int64_t counted = attr->count_include_pad
                                ? w.counted[0] * w.counted[1] * w.counted[2]
                                : w.inside;
    const bool max = attr->kind == KERN_POOL_MAX;
    const int32_t zero = (int32_t)q->x_zero + p->flip;
    const float scale =
        max || counted == 0 ? q->x_scale : q->x_scale / (float)counted;
    uint8_t top[PART];
    int32_t sum[PART];
    float v[PART];

    if (max)
        fold_max(&r, top, n);
    else
        fold_sum(&r, sum, n);
    if (max && w.inside == 0) /* the value 0 */
        memset(top, (int)zero, (size_t)n);
    if (p->plain) {
        flip_bytes(top, p->flip, y, n);
        return;
    }
    for (int64_t c = 0; max && c < n; c++)
        sum[c] = top[c];
    scale_sums(sum, max ? zero : (int32_t)(zero * w.inside), scale, p->low,
               p->high, v, n);
    bytes_store(&p->y, v, y, 1, n);
}

/* ---- launch -------------------------------------------------------- */

/* Parts [from, to) of the channels of one row of output pixels. */
static void pool_row(const struct pool *p, const struct kern_args *args,
                     int64_t row, int64_t from, int64_t to)
{
    const struct kern_tensor *x = &p->p->in[0], *y = &p->p->out[0];
    const struct pool_axis *a = p->axis;
    const int64_t image = row / (a[1].out * a[0].out);
    int64_t o[3] = {row / a[1].out % a[0].out, row % a[1].out, 0};

    for (; o[2] < a[2].out; o[2]++)
        for (int64_t c = from * PART; c < to * PART && c < x->dim[1]; c += PART)
            pool_part(
                p, o, (const uint8_t *)args->in[0] + image * x->stride[0] + c,
                bytes_at(args->out[0], y->dtype,
                         image * y->stride[0] + o[0] * a[0].y_stride +
                             o[1] * a[1].y_stride + o[2] * a[2].y_stride + c),
                x->dim[1] - c < PART ? x->dim[1] - c : PART);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_quant *q = &p->quant;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    struct pool pool = {.p = p,
                        .y = {y->dtype, q->y_scale, q->y_zero},
                        .flip = x->dtype == INFER_I8 ? 0x80 : 0};
    const struct pool_axis *a = pool.axis;
    int64_t rows, parts, split, taps;
    int count;

    (void)err;
    if (kern_tensor_count(y) == 0)
        return 0;
    pool.plain = p->attr.pool.kind == KERN_POOL_MAX &&
                 p->epilogue.act.kind == KERN_IDENTITY &&
                 x->dtype == y->dtype && q->x_scale == q->y_scale &&
                 q->x_zero == q->y_zero;
    (void)cpu_act_bounds(&p->epilogue.act, &pool.low, &pool.high);
    pool_axes(pool.axis, x, y, &p->attr.pool);
    rows = x->dim[0] * a[0].out * a[1].out;
    parts = (x->dim[1] + PART - 1) / PART;
    taps = a[0].window * a[1].window * a[2].window;
    count = cpu_threads(cpu_threads_of(e), kern_tensor_count(y) * taps / 16);
    split = rows < count && parts > 1 ? parts : 1;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < rows * split; i++) {
        const int64_t each = parts / split;

        pool_row(&pool, args, i / split, i % split * each,
                 (i % split + 1) * each);
    }
    return 0;
}

KERN_FUNCTIONS(pool_fprop_nhwc_8bit_cpu_direct) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
