/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Non-maximum suppression.
 *
 * choose_kernel(): a block of 256 threads an image and class.  It takes the
 * best box that is left, as often as boxes are wanted: each thread searches its
 * share of the boxes, a tree in shared memory (3 KiB) joins the results, and
 * each thread then takes out those of its boxes that overlap the chosen one.
 * The workspace holds a flag a box, and the chosen boxes of each class.
 * pack_kernel(): one block that puts the classes' boxes behind each other.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 256

struct nms_args {
    const void *boxes, *scores;
    int64_t *y;
    enum infer_dtype box_type, score_type;
    int64_t box_stride[3], score_stride[3], y_stride[2];
    int64_t rows; /* of y */
    int n, classes, images, most;
    bool center;
    double iou, score;
    int32_t *count, *chosen; /* [images classes], [images classes][most] */
    uint8_t *out;            /* [images classes][n]: not to be chosen */
};

/* Corners y,x,y,x in ascending order. */
static __device__ void corners_of(const struct nms_args &a, int64_t first,
                                  int i, double *c)
{
    double v[4];

    for (int k = 0; k < 4; k++)
        v[k] = load_any(a.box_type, a.boxes,
                        first + i * a.box_stride[1] + k * a.box_stride[2]);
    if (a.center) { /* x, y, width, height */
        c[0] = v[1] - v[3] / 2;
        c[1] = v[0] - v[2] / 2;
        c[2] = v[1] + v[3] / 2;
        c[3] = v[0] + v[2] / 2;
        return;
    }
    for (int k = 0; k < 2; k++) {
        c[k] = v[k] < v[k + 2] ? v[k] : v[k + 2];
        c[k + 2] = v[k] < v[k + 2] ? v[k + 2] : v[k];
    }
}

static __device__ double extent(double from, double to)
{
    return to > from ? to - from : 0;
}

static __device__ bool overlap(const struct nms_args &a, const double *p,
                               const double *q)
{
    /* Products are rounded before they are summed, as the reference does. */
    const double both =
        __dmul_rn(extent(p[0] > q[0] ? p[0] : q[0], p[2] < q[2] ? p[2] : q[2]),
                  extent(p[1] > q[1] ? p[1] : q[1], p[3] < q[3] ? p[3] : q[3]));
    const double all =
        __dadd_rn(__dadd_rn(__dmul_rn(extent(p[0], p[2]), extent(p[1], p[3])),
                            __dmul_rn(extent(q[0], q[2]), extent(q[1], q[3]))),
                  -both);
    return both > 0 && both > __dmul_rn(a.iou, all);
}

/* The best box that is left, -1 for none, to all threads. */
static __device__ int best_left(const struct nms_args &a, int64_t first,
                                const uint8_t *out, double *score, int *index)
{
    const int t = (int)threadIdx.x;
    double best = 0;
    int at = -1;

    for (int i = t; i < a.n; i += THREADS) {
        if (out[i])
            continue;
        const double s =
            load_any(a.score_type, a.scores, first + i * a.score_stride[2]);
        if (at < 0 || s > best) {
            best = s;
            at = i;
        }
    }
    score[t] = best;
    index[t] = at;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        const int other = t < half ? index[t + half] : -1;

        if (other >= 0 && (index[t] < 0 || score[t + half] > score[t] ||
                           (score[t + half] == score[t] && other < index[t]))) {
            score[t] = score[t + half];
            index[t] = other;
        }
        __syncthreads();
    }
    at = index[0];
    __syncthreads();
    return at;
}

static __global__ void __launch_bounds__(THREADS)
    choose_kernel(const __grid_constant__ struct nms_args a)
{
    __shared__ double score[THREADS];
    __shared__ int index[THREADS];

    for (int c = (int)blockIdx.x; c < a.images * a.classes;
         c += (int)gridDim.x) {
        const int image = c / a.classes;
        const int64_t boxes = image * a.box_stride[0];
        const int64_t scores =
            image * a.score_stride[0] + c % a.classes * a.score_stride[1];
        uint8_t *const out = a.out + (int64_t)c * a.n;
        int kept = 0;

        for (int i = (int)threadIdx.x; i < a.n; i += THREADS)
            out[i] = !(load_any(a.score_type, a.scores,
                                scores + i * a.score_stride[2]) > a.score);
        for (; kept < a.most; kept++) {
            double p[4], q[4];
            const int best = best_left(a, scores, out, score, index);

            if (best < 0)
                break;
            if (threadIdx.x == 0)
                a.chosen[(int64_t)c * a.most + kept] = best;
            corners_of(a, boxes, best, p);
            for (int i = (int)threadIdx.x; i < a.n; i += THREADS) {
                if (out[i])
                    continue;
                corners_of(a, boxes, i, q);
                out[i] = i == best || overlap(a, p, q);
            }
        }
        if (threadIdx.x == 0)
            a.count[c] = kept;
    }
}

static __device__ void store_row(const struct nms_args &a, int64_t row,
                                 int64_t image, int64_t label, int64_t box)
{
    int64_t *const y = a.y + row * a.y_stride[0];

    y[0] = image;
    y[a.y_stride[1]] = label;
    y[2 * a.y_stride[1]] = box;
}

static __global__ void __launch_bounds__(THREADS)
    pack_kernel(const __grid_constant__ struct nms_args a)
{
    int64_t row = 0;

    for (int c = 0; c < a.images * a.classes; c++) {
        const int n = a.count[c];

        for (int i = (int)threadIdx.x; i < n; i += THREADS)
            store_row(a, row + i, c / a.classes, c % a.classes,
                      a.chosen[(int64_t)c * a.most + i]);
        row += n;
    }
    for (int64_t i = row + threadIdx.x; i < a.rows; i += THREADS)
        store_row(a, i, -1, -1, -1);
}

/* Bytes of the workspace, whose parts are counts, chosen boxes and flags. */
static int64_t workspace_of(const struct kern_problem *p)
{
    const int64_t all = p->in[1].dim[0] * p->in[1].dim[1];

    return (all + p->out[0].dim[0]) * (int64_t)sizeof(int32_t) +
           all * p->in[1].dim[2];
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (workspace_of(p) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "nms: more than 2 GiB of workspace");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)d;
    (void)err;
    e->workspace = (size_t)workspace_of(&e->problem);
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *boxes = &p->in[0], *scores = &p->in[1];
    const int64_t all = scores->dim[0] * scores->dim[1];
    struct nms_args a = {};

    a.rows = p->out[0].dim[0];
    if (a.rows == 0)
        return 0;
    for (int d = 0; d < 3; d++) {
        a.box_stride[d] = boxes->stride[d];
        a.score_stride[d] = scores->stride[d];
    }
    a.y_stride[0] = p->out[0].stride[0];
    a.y_stride[1] = p->out[0].stride[1];
    a.boxes = args->in[0];
    a.scores = args->in[1];
    a.y = (int64_t *)args->out[0];
    a.box_type = boxes->dtype;
    a.score_type = scores->dtype;
    a.n = (int)scores->dim[2];
    a.classes = (int)scores->dim[1];
    a.images = (int)scores->dim[0];
    a.most = (int)(a.rows / all);
    a.center = p->attr.nms.center;
    a.iou = (double)p->attr.nms.iou;
    a.score = (double)p->attr.nms.score;
    a.count = (int32_t *)args->workspace;
    a.chosen = a.count + all;
    a.out = (uint8_t *)(a.chosen + a.rows);
    const int rc = launch_kernel(choose_kernel, cuda_grid(all, 1), THREADS, 0,
                                 args->stream, a, err);
    return rc < 0 ? rc
                  : launch_kernel(pack_kernel, 1, THREADS, 0, args->stream, a,
                                  err);
}

KERN_FUNCTIONS(nms_cuda_block) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
};
