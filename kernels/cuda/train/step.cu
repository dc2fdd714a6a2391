/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a training step, by one thread; and a step of an optimiser, one
 * thread V weights, 4 where the ranges are aligned to 16 bytes. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

/* ---- the state ----------------------------------------------------- */

struct step_args {
    struct kern_step attr;
    const float *norm, *from;
    float *to;
    int64_t from_step, to_step, random_step, next_step;
    const uint64_t *random; /* NULL: none */
    uint64_t *next;
};

/* As move_on() of the reference: in double, it is one thread. */
static __device__ void move_on(const struct kern_step &a, double norm,
                               double *s)
{
    const double scale = s[KERN_STEP_LOSS_SCALE];

    s[KERN_STEP_NORM] = norm / scale;
    if (!isfinite(norm)) {
        s[KERN_STEP_FACTOR] = 0;
        s[KERN_STEP_GOOD] = 0;
        s[KERN_STEP_SKIPPED]++;
        s[KERN_STEP_LOSS_SCALE] = fmax(1.0, scale * (double)a.backoff);
        return;
    }
    s[KERN_STEP_COUNT]++;
    s[KERN_STEP_GOOD]++;
    s[KERN_STEP_FACTOR] = 1 / scale;
    if (a.clip > 0 && s[KERN_STEP_NORM] > (double)a.clip)
        s[KERN_STEP_FACTOR] *= (double)a.clip / s[KERN_STEP_NORM];
    s[KERN_STEP_CORRECTION1] = 1 - pow((double)a.beta1, s[KERN_STEP_COUNT]);
    s[KERN_STEP_CORRECTION2] = 1 - pow((double)a.beta2, s[KERN_STEP_COUNT]);
    if (a.interval > 0 && s[KERN_STEP_GOOD] >= a.interval) {
        const double grown = scale * (double)a.growth;
        s[KERN_STEP_LOSS_SCALE] =
            a.max_scale > 0 ? fmin(grown, (double)a.max_scale) : grown;
        s[KERN_STEP_GOOD] = 0;
    }
}

static __global__ void step_kernel(const __grid_constant__ struct step_args a)
{
    double state[KERN_STEP_SIZE];

    launch_wait();
    for (int i = 0; i < KERN_STEP_SIZE; i++)
        state[i] = a.from[i * a.from_step];
    move_on(a.attr, a.norm[0], state);
    for (int i = 0; i < KERN_STEP_SIZE; i++)
        a.to[i * a.to_step] = (float)state[i];
    if (a.random) {
        const uint64_t seed = a.random[0], offset = a.random[a.random_step];
        a.next[0] = seed;
        a.next[a.next_step] = offset + 1;
    }
}

static bool is_single(const struct kern_tensor *t)
{
    return !t || t->dtype == INFER_F32;
}

static int supports_step(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    if (is_single(&p->in[0]) && is_single(&p->in[1]) && is_single(&p->out[0]))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED, "step: takes F32");
}

static int launch_step(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct step_args a = {};

    a.attr = p->attr.step;
    a.norm = (const float *)args->in[0];
    a.from = (const float *)args->in[1];
    a.to = (float *)args->out[0];
    a.from_step = p->in[1].stride[0];
    a.to_step = p->out[0].stride[0];
    if (kern_problem_in(p, 2)) {
        a.random = (const uint64_t *)args->in[2];
        a.random_step = p->in[2].stride[0];
        a.next = (uint64_t *)args->out[1];
        a.next_step = p->out[1].stride[0];
    }
    return launch_chained(step_kernel, 1, 1, 0, args->stream, a, err);
}

KERN_FUNCTIONS(step_f32_cuda_thread) = {
    .supports = supports_step,
    .launch = launch_step,
};

/* ---- updates ------------------------------------------------------- */

struct update_args {
    struct kern_update attr;
    enum infer_dtype g_type, copy_type; /* INFER_NONE: absent */
    int64_t n;                          /* vectors, then the rest one by one */
    const float *w, *m, *v, *average, *rate, *state;
    const void *g;
    float *w_out, *m_out, *v_out, *average_out;
    void *copy;
};

/* One weight and what belongs to it. */
struct weight {
    float w, g, m, v, average;
};

static __device__ __forceinline__ float
momentum(const struct kern_update &a, struct weight *x, bool has, float d)
{
    if (!has)
        return d;
    x->m = fmaf(a.beta1, x->m, d);
    return a.nesterov ? fmaf(a.beta1, x->m, d) : x->m;
}

static __device__ __forceinline__ void update(const struct update_args &a,
                                              struct weight *x, float rate,
                                              float c1, float c2)
{
    const struct kern_update &f = a.attr;

    if (f.kind == KERN_UPDATE_NONE)
        return;
    if (f.kind == KERN_UPDATE_ADAMW)
        x->w -= rate * f.decay * x->w;
    else
        x->g = fmaf(f.decay, x->w, x->g);
    if (a.v)
        x->v = f.beta2 * x->v + (1 - f.beta2) * x->g * x->g;
    if (f.kind == KERN_UPDATE_SGD) {
        x->w -= rate * momentum(f, x, a.m, x->g);
    } else if (f.kind == KERN_UPDATE_RMSPROP) {
        x->w -= rate * momentum(f, x, a.m, x->g / (sqrtf(x->v) + f.epsilon));
    } else {
        x->m = f.beta1 * x->m + (1 - f.beta1) * x->g;
        x->w -= rate * (x->m / c1) / (sqrtf(x->v / c2) + f.epsilon);
    }
}

/* p NULL: absent. */
template <typename T, int V>
static __device__ __forceinline__ void load(const T *p, int64_t i, float *v)
{
    if (p)
        load_floats<T, V>(p + i, v);
}

template <typename T, int V>
static __device__ __forceinline__ void store(T *p, int64_t i, const float *v)
{
    if (p)
        store_floats<T, V>(p + i, v);
}

template <int V>
static __global__ void __launch_bounds__(THREADS)
    update_kernel(const __grid_constant__ struct update_args a)
{
    const int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * V;

    launch_wait();
    const float factor = a.state ? a.state[KERN_STEP_FACTOR] : 1.0f;
    const float c1 = a.state ? a.state[KERN_STEP_CORRECTION1] : 1.0f;
    const float c2 = a.state ? a.state[KERN_STEP_CORRECTION2] : 1.0f;
    const float rate = a.rate ? a.rate[0] : 0;
    float w[V], g[V] = {}, m[V] = {}, v[V] = {}, average[V] = {};

    if (i >= a.n)
        return;
    load<float, V>(a.w, i, w);
    load<float, V>(a.m, i, m);
    load<float, V>(a.v, i, v);
    load<float, V>(a.average, i, average);
    if (a.g_type == INFER_F32)
        load<float, V>((const float *)a.g, i, g);
    else if (a.g_type == INFER_F16)
        load_floats<__half, V>((const __half *)a.g + i, g);
    else if (a.g_type == INFER_BF16)
        load_floats<__nv_bfloat16, V>((const __nv_bfloat16 *)a.g + i, g);
    if (factor != 0) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            struct weight x = {w[j], g[j] * factor, m[j], v[j], average[j]};
            update(a, &x, rate, c1, c2);
            w[j] = x.w;
            m[j] = x.m;
            v[j] = x.v;
            average[j] = a.attr.average_decay * x.average +
                         (1 - a.attr.average_decay) * x.w;
        }
    }
    store<float, V>(a.w_out, i, w);
    store<float, V>(a.m_out, i, m);
    store<float, V>(a.v_out, i, v);
    store<float, V>(a.average_out, i, average);
    if (a.copy_type == INFER_F16)
        store_floats<__half, V>((__half *)a.copy + i, w);
    else if (a.copy_type == INFER_BF16)
        store_floats<__nv_bfloat16, V>((__nv_bfloat16 *)a.copy + i, w);
}

static int supports_update(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *why)
{
    bool ok = !kern_problem_in(p, 1) || cuda_is_real(p->in[1].dtype);

    (void)d;
    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i))
            ok = ok && (i == 1 || is_single(&p->in[i])) &&
                 kern_tensor_is_dense(&p->in[i], KERN_NCHW);
    for (int i = 0; i < p->n_out; i++)
        if (kern_problem_out(p, i))
            ok = ok &&
                 (i == KERN_UPDATE_COPY ? cuda_is_real(p->out[i].dtype) &&
                                              p->out[i].dtype != INFER_F32
                                        : is_single(&p->out[i])) &&
                 kern_tensor_is_dense(&p->out[i], KERN_NCHW);
    if (ok)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "update: takes dense F32, dw in F32, F16 or BF16, and a "
                     "copy in F16 or BF16");
}

/* True if all ranges can be moved four at a time. */
static bool aligned(const struct kern_problem *p, const struct kern_args *args)
{
    bool ok = p->in[0].dim[0] % 4 == 0;

    for (int i = 0; i < p->n_in; i++)
        if (i != 2 && i != 3 && kern_problem_in(p, i))
            ok = ok && (uintptr_t)args->in[i] % 16 == 0;
    for (int i = 0; i < p->n_out; i++)
        if (kern_problem_out(p, i))
            ok = ok && (uintptr_t)args->out[i] % 16 == 0;
    return ok;
}

static int launch_update(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct update_args a = {};

    a.attr = p->attr.update;
    a.n = p->in[0].dim[0];
    a.g_type = kern_problem_in(p, 1) ? p->in[1].dtype : INFER_NONE;
    a.copy_type = kern_problem_out(p, KERN_UPDATE_COPY)
                      ? p->out[KERN_UPDATE_COPY].dtype
                      : INFER_NONE;
    a.w = input_f32(p, args, 0);
    a.g = args->in[1];
    a.rate = input_f32(p, args, 2);
    a.state = input_f32(p, args, 3);
    a.m = input_f32(p, args, 4);
    a.v = input_f32(p, args, 5);
    a.average = input_f32(p, args, 6);
    a.w_out = output_f32(p, args, KERN_UPDATE_W);
    a.m_out = output_f32(p, args, KERN_UPDATE_M);
    a.v_out = output_f32(p, args, KERN_UPDATE_V);
    a.average_out = output_f32(p, args, KERN_UPDATE_AVERAGE);
    a.copy = args->out[KERN_UPDATE_COPY];
    if (a.n == 0)
        return 0;
    const bool four = aligned(p, args);
    return launch_chained(four ? update_kernel<4> : update_kernel<1>,
                          cuda_blocks(four ? a.n / 4 : a.n, THREADS), THREADS,
                          0, args->stream, a, err);
}

KERN_FUNCTIONS(update_f32_cuda_vec) = {
    .supports = supports_update,
    .launch = launch_update,
};
