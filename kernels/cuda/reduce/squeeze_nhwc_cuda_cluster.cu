/* SPDX-License-Identifier: Apache-2.0 */
/* Squeeze and excitation in one launch: how an image is shared out among the
 * blocks of a cluster, and the rows.  The kernel: squeeze.cuh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/reduce/squeeze.cuh"
#include "kernels/cuda/wgmma/wgmma_finish.cuh"

extern "C" {
#include "kernels/base/checked.h"
#include "kernels/cuda/conv/conv.h"
}

#define LEAST_THREADS 128
/* Blocks of a cluster that every GPU with clusters can run. */
#define MOST_BLOCKS 8
/* Weights in shared memory, at most: two blocks then fit a multiprocessor of
 * compute capability 9.0, whose 228 KiB they share with 20 KiB of sums each. */
#define MOST_STAGED (80 * 1024)
/* Bytes of an image that are worth a block. */
#define LEAST_BYTES 2048

enum { X, W, W2, BIAS, BIAS2 };

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

/* Splits channels if the weights are large compared with the image, else
 * pixels: every block reads the weights of its channel range. */
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
    int threads = SQUEEZE_MOST_THREADS;

    s->lanes = 1;
    if (vectors < SQUEEZE_MOST_THREADS) {
        s->lanes = SQUEEZE_MOST_THREADS / vectors;
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

    *s = {};
    *(struct image_shape *)s = image_shape_of(p);
    s->hidden = (int)p->in[W].dim[0];
    s->k = (int)p->out[0].dim[1];
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

/* Estimate of the best number of blocks of a cluster.  Clusters start one every
 * 30 ns on the whole GPU, so the grid has half as many blocks as the GPU has
 * multiprocessors, or as many if most of the work is weights.  Each block has
 * at least LEAST_BYTES of the image; large weights take two blocks an image. */
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

/* Variant `variant` of the problem: variant 0 is the estimated best, then come
 * all other sizes of clusters, each with one image or several.  Returns their
 * number, at most variant + 1. */
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
    a.bias = input_f32(&e->problem, args, BIAS);
    a.bias2 = input_f32(&e->problem, args, BIAS2);
    a.y = args->out[0];
    a.act = e->problem.attr.squeeze_excite.act;
    a.act2 = e->problem.epilogue.act;
    if (image_vector(&e->problem.in[X]) > 1)
        return run_width<T, 16 / (int)sizeof(T)>(a, args->stream, err);
    return run_width<T, 1>(a, args->stream, err);
}

CUDA_LAUNCH(launch, run, e)

KERN_FUNCTIONS(squeeze_nhwc_cuda_cluster) = {
    .supports = supports,
    .estimate = estimate,
    .variants = variants,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cuda_state_release,
};
