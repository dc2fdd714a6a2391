/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, cross-entropy and their gradient: one warp a row of logits, lanes
 * along the classes.  The row is read three times: for its maximum, for the
 * sum of exponentials, for the gradient; it stays in cache.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/warp.cuh"

#define THREADS 128
#define WARPS   (THREADS / 32)

struct loss_args {
    int64_t rows, classes;
    int64_t x_row, x_step, dx_row, dx_step;
    int64_t label_step, loss_step, hit_step, state_step;
    bool wide_labels;
    float smoothing, scale;
    const void *x, *label;
    const float *state; /* NULL: no loss scale */
    float *loss, *hit;  /* hit NULL: not wanted */
    void *dx;           /* NULL: not wanted */
};

/* -(sum of target * log softmax) and whether the label's logit leads. */
template <typename T>
static __device__ __forceinline__ void finish_row(const struct loss_args &a,
                                                  const T *x, int64_t row,
                                                  int64_t label, float log_sum)
{
    const int lane = threadIdx.x % 32;
    const float own = to_float(x[label * a.x_step]);
    float rest = 0;
    bool leads = true;

    for (int64_t c = lane; c < a.classes; c += 32) {
        const float v = to_float(x[c * a.x_step]);
        rest += log_sum - v;
        leads = leads && (c == label || (c < label ? v < own : v <= own));
    }
    rest = warp_sum(rest);
    leads = __all_sync(~0u, leads);
    if (lane != 0)
        return;
    a.loss[row * a.loss_step] =
        (1 - a.smoothing) * (log_sum - own) +
        (a.smoothing > 0 ? a.smoothing / (float)a.classes * rest : 0);
    if (a.hit)
        a.hit[row * a.hit_step] = leads;
}

template <typename T>
static __device__ __forceinline__ void
store_gradient(const struct loss_args &a, const T *x, int64_t row,
               int64_t label, float log_sum)
{
    const float spread = a.smoothing / (float)a.classes;
    const float scale =
        a.scale *
        (a.state ? a.state[KERN_STEP_LOSS_SCALE * a.state_step] : 1.0f);
    T *dx = (T *)a.dx + row * a.dx_row;

    for (int64_t c = threadIdx.x % 32; c < a.classes; c += 32) {
        const float target = spread + (c == label ? 1 - a.smoothing : 0);
        const float y = expf(to_float(x[c * a.x_step]) - log_sum);
        dx[c * a.dx_step] = from_float<T>(label < 0 ? 0 : scale * (y - target));
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    loss_kernel(const __grid_constant__ struct loss_args a)
{
    const int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    float top = -INFINITY, sum = 0;

    launch_wait();
    if (row >= a.rows)
        return;
    const T *x = (const T *)a.x + row * a.x_row;
    int64_t label = a.wide_labels
                        ? ((const int64_t *)a.label)[row * a.label_step]
                        : ((const int32_t *)a.label)[row * a.label_step];
    if (label < 0 || label >= a.classes)
        label = -1;
    for (int64_t c = lane; c < a.classes; c += 32)
        top = fmaxf(top, to_float(x[c * a.x_step]));
    top = warp_max(top);
    for (int64_t c = lane; c < a.classes; c += 32)
        sum += expf(to_float(x[c * a.x_step]) - top);
    const float log_sum = top + logf(warp_sum(sum));
    if (label >= 0) {
        finish_row<T>(a, x, row, label, log_sum);
    } else if (lane == 0) {
        a.loss[row * a.loss_step] = 0;
        if (a.hit)
            a.hit[row * a.hit_step] = 0;
    }
    if (a.dx)
        store_gradient<T>(a, x, row, label, log_sum);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct loss_args a = {};

    a.rows = p->in[0].dim[0];
    a.classes = p->in[0].dim[1];
    a.x_row = p->in[0].stride[0];
    a.x_step = p->in[0].stride[1];
    a.dx_row = p->out[1].stride[0];
    a.dx_step = p->out[1].stride[1];
    a.label_step = p->in[1].stride[0];
    a.loss_step = p->out[0].stride[0];
    a.hit_step = p->out[2].stride[0];
    a.state_step = p->in[2].stride[0];
    a.wide_labels = p->in[1].dtype == INFER_I64;
    a.smoothing = p->attr.cross_entropy.smoothing;
    a.scale = p->attr.cross_entropy.scale;
    a.x = args->in[0];
    a.label = args->in[1];
    a.state = input_f32(p, args, 2);
    a.loss = (float *)args->out[0];
    a.dx = kern_problem_out(p, 1) ? args->out[1] : NULL;
    a.hit = output_f32(p, args, 2);
    if (a.rows == 0)
        return 0;
    return launch_chained(loss_kernel<T>, cuda_blocks(a.rows, WARPS), THREADS,
                          0, args->stream, a, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *dx = kern_problem_out(p, 1);
    const struct kern_tensor *state = kern_problem_in(p, 2);

    (void)d;
    if (!cuda_is_real(p->in[0].dtype) || (dx && dx->dtype != p->in[0].dtype) ||
        p->out[0].dtype != INFER_F32 ||
        (kern_problem_out(p, 2) && p->out[2].dtype != INFER_F32) ||
        (state && state->dtype != INFER_F32))
        return error_set(why, INFER_EUNSUPPORTED,
                         "cross_entropy: takes logits and dlogits of F32, F16 "
                         "or BF16, all else F32");
    if (p->in[0].dim[0] > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "cross_entropy: 2^31 rows or more");
    return 0;
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(cross_entropy_cuda_warp) = {
    .supports = supports,
    .launch = launch,
};
