/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two arguments that broadcast to each other, with a residual and
 * an activation behind them: pointwise.cuh has the index map.  Comparisons
 * give BOOL; integers go one by one. */
#include "kernels/cuda/integer.cuh"
#include "kernels/cuda/pointwise/pointwise.cuh"

#define THREADS 256

#define REAL_FMOD    fmodf
#define REAL_POW     powf
#define INT_ADD      integer_add
#define INT_SUBTRACT integer_subtract
#define INT_MULTIPLY integer_multiply
#include "kernels/binary_forms.h"

/* Called, so that code that takes any kind stays small. */
static __device__ __noinline__ float binary_rare(enum kern_binary_kind kind,
                                                 float a, float b)
{
    switch (kind) {
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        return value;
#define BINARY_INLINE(kind, name, value, integer)                              \
    case kind:                                                                 \
        break;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return 0;
}

static __device__ __forceinline__ float apply_binary(enum kern_binary_kind kind,
                                                     float a, float b)
{
    switch (kind) {
#define BINARY_INLINE(kind, name, value, integer)                              \
    case kind:                                                                 \
        return value;
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        break;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return binary_rare(kind, a, b);
}

struct binary : pointwise_function<3> {
    static __device__ __forceinline__ float apply(const struct pointwise<3> &a,
                                                  const float *x)
    {
        return apply_epilogue(a.epilogue, apply_binary(a.f.binary, x[0], x[1]),
                              x[2]);
    }
};

/* ---- channel scale ------------------------------------------------- */

/*
 * y[n,p,c] = act(x[n,p,c] * z[n,c]), channels last: the scale step of squeeze
 * and excitation.  A block of 256 threads takes DEPTH * 256 consecutive vectors
 * of 16 bytes of one image, each thread every 256th of them, so that its loads
 * are in flight together.  Blocks go from the last image to the first: the
 * previous kernel has left the last image in the L2 cache, and the next kernel
 * begins with the first.  WHOLE: a vector lies within a pixel.  Else x and y
 * have no gaps between pixels, and each element looks up its own channel.
 */
struct scale_args {
    const void *x, *z;
    void *y;
    int64_t x_image, x_pixel, z_image, z_channel, y_image,
        y_pixel;            /* strides */
    uint32_t count;         /* vectors an image */
    struct fast_div across; /* vectors a pixel, or elements where not WHOLE */
    struct kern_unary act;
};

/* The factors of the vector at element `e` of an image without gaps. */
template <typename T, int V>
static __device__ __forceinline__ vec<T, V>
gather_factors(const struct scale_args &a, const T *z, uint32_t e)
{
    vec<T, V> f;
    uint32_t c;

    (void)a.across.divmod(e, &c);
#pragma unroll
    for (int j = 0; j < V; j++) {
        f.at[j] = z[c * a.z_channel];
        c = c + 1 == a.across.divisor ? 0 : c + 1;
    }
    return f;
}

template <typename T, int V>
static __device__ __forceinline__ vec<T, V>
scale_vector(const struct kern_unary &act, vec<T, V> x, const vec<T, V> &z)
{
#pragma unroll
    for (int j = 0; j < V; j++)
        x.at[j] = from_float<T>(
            apply_unary(act, to_float(x.at[j]) * to_float(z.at[j])));
    return x;
}

template <typename T, int DEPTH, bool WHOLE>
static __global__ void __launch_bounds__(THREADS)
    scale_kernel(const __grid_constant__ struct scale_args a)
{
    enum { V = 16 / (int)sizeof(T) };
    const int n = (int)(gridDim.y - 1 - blockIdx.y);
    const uint32_t first =
        (gridDim.x - 1 - blockIdx.x) * (DEPTH * THREADS) + threadIdx.x;
    const T *const x = (const T *)a.x + n * a.x_image;
    const T *const z = (const T *)a.z + n * a.z_image;
    T *const y = (T *)a.y + n * a.y_image;
    vec<T, V> v[DEPTH], f[DEPTH];
    int64_t to[DEPTH];

    launch_wait();
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        /* Beyond the last vector the last is read again. */
        const uint32_t at = min(first + i * THREADS, a.count - 1);
        uint32_t k;

        if (WHOLE) {
            const uint32_t pixel = a.across.divmod(at, &k);
            v[i] = load_vec<T, V>(x + pixel * a.x_pixel + k * V);
            f[i] = load_vec<T, V>(z + k * V);
            to[i] = pixel * a.y_pixel + k * V;
        } else {
            to[i] = (int64_t)at * V;
            v[i] = load_vec<T, V>(x + to[i]);
            f[i] = gather_factors<T, V>(a, z, at * V);
        }
    }
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        if (first + i * THREADS < a.count)
            store_vec<T, V>(y + to[i], scale_vector<T, V>(a.act, v[i], f[i]));
}

/* Reads the walk of x, z, residual and y, in vectors of v elements: images (if
 * more than one), pixels, channels.  False if the walk has another form, or
 * neither kernel takes it. */
template <typename T>
static bool read_scale(const struct pointwise<3> *a, int v,
                       struct scale_args *g, bool *whole)
{
    const struct cuda_strided<4> *w = &a->walk;
    const int c = w->rank - 1, p = c - 1, wide = 16 / (int)sizeof(T);

    if (w->rank < 2 || w->rank > 3 || a->f.binary != KERN_MUL ||
        a->type[0] != dtype_of<T>::value || a->type[0] != a->type[1] ||
        a->type[2] != INFER_NONE || !unary_is_common(a->epilogue.act.kind) ||
        w->dim[p] > INT32_MAX / 2 / v / w->dim[c] ||
        (w->rank == 3 && w->dim[0] > 65535))
        return false;
    const int z = w->stride[1][p] == 0 ? 1 : 0, x = 1 - z;
    const int64_t across = w->dim[c] * v, image = w->dim[p] * across;
    if (w->stride[z][p] != 0 || w->stride[x][c] != v || w->stride[3][c] != v ||
        w->stride[z][c] % v != 0)
        return false;
    g->x = a->in[x];
    g->z = a->in[z];
    g->y = a->out;
    g->x_image = w->rank == 3 ? w->stride[x][0] : 0;
    g->z_image = w->rank == 3 ? w->stride[z][0] : 0;
    g->y_image = w->rank == 3 ? w->stride[3][0] : 0;
    g->x_pixel = w->stride[x][p];
    g->y_pixel = w->stride[3][p];
    g->z_channel = w->stride[z][c] / v;
    g->act = a->epilogue.act;
    *whole = v == wide && g->z_channel == 1;
    g->count = (uint32_t)(image / wide);
    g->across.init((uint32_t)(*whole ? w->dim[c] : across));
    return *whole ||
           (g->x_pixel == across && g->y_pixel == across && image % wide == 0 &&
            g->x_image % wide == 0 && g->y_image % wide == 0 &&
            (uintptr_t)g->x % 16 == 0 && (uintptr_t)g->y % 16 == 0);
}

/* Least number of vectors of the tensor for which a thread takes four. */
#define SCALE_MANY (1 << 19)

template <typename T>
static int run_scale(const struct pointwise<3> *a, const struct scale_args *g,
                     bool whole, void *stream, struct infer_error *err)
{
    const int64_t images = a->walk.rank == 3 ? a->walk.dim[0] : 1;
    const bool many = g->count * images >= SCALE_MANY;
    const dim3 grid(cuda_blocks(g->count, (many ? 4 : 1) * THREADS),
                    (unsigned)images);

    return launch_chained(
        many ? (whole ? scale_kernel<T, 4, true> : scale_kernel<T, 4, false>)
             : (whole ? scale_kernel<T, 1, true> : scale_kernel<T, 1, false>),
        grid, THREADS, 0, stream, *g, err);
}

/* ---- everything else ----------------------------------------------- */

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct pointwise<3> a = {
    };
    struct scale_args g;
    bool whole;

    pointwise_init<binary>(&a, p, args, 1, 0);
    a.f.binary = p->attr.binary.kind;
    if (p->out[0].dtype == INFER_BOOL)
        return pointwise_run<binary, T, uint8_t>(&a, args, err);
    const int v = pointwise_vectors<binary, T, T>(&a);
    if (read_scale<T>(&a, v, &g, &whole))
        return run_scale<T>(&a, &g, whole, args->stream, err);
    return pointwise_start<binary, T, T>(&a, v, args, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct kern_problem same = *p;

    (void)d;
    if (p->out[0].dtype == INFER_BOOL)
        same.out[0].dtype = p->in[0].dtype;
    return check_types(&same, 1, 0, why);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(binary_cuda_vec) = {
    .supports = supports,
    .launch = launch,
};

/* ---- integers ------------------------------------------------------ */

struct integer_args {
    struct cuda_strided<3> walk;
    const void *x, *z;
    void *y;
    enum infer_dtype x_type, z_type, y_type;
    enum kern_binary_kind kind;
};

static __device__ int64_t apply_i64(enum kern_binary_kind kind, int64_t a,
                                    int64_t b)
{
    switch (kind) {
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        return integer;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return 0;
}

static __device__ __forceinline__ void
integer_element(const struct integer_args &a, const int64_t *at)
{
    store_wrapped(a.y_type, a.y, at[2],
                  apply_i64(a.kind, load_i64(a.x_type, a.x, at[0]),
                            load_i64(a.z_type, a.z, at[1])));
}

static int supports_integer(const struct kern_problem *p,
                            const struct kern_device *d,
                            struct infer_error *why)
{
    (void)d;
    if (!is_integer(p->in[0].dtype) || !is_integer(p->in[1].dtype) ||
        !is_integer(p->out[0].dtype) || p->in[0].dtype == INFER_U64 ||
        p->in[1].dtype == INFER_U64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "binary: %s and %s to %s, supported are integers but "
                         "U64",
                         infer_dtype_name(p->in[0].dtype),
                         infer_dtype_name(p->in[1].dtype),
                         infer_dtype_name(p->out[0].dtype));
    if (kern_problem_in(p, 2) || p->epilogue.act.kind != KERN_IDENTITY)
        return error_set(why, INFER_EUNSUPPORTED,
                         "binary: nothing may follow a function of integers");
    return 0;
}

static int launch_integer(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[3] = {&p->in[0], &p->in[1], &p->out[0]};
    struct integer_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.x = args->in[0];
    a.z = args->in[1];
    a.y = args->out[0];
    a.x_type = p->in[0].dtype;
    a.z_type = p->in[1].dtype;
    a.y_type = p->out[0].dtype;
    a.kind = p->attr.binary.kind;
    return walk_launch<integer_element>(a, args, err);
}

KERN_FUNCTIONS(binary_cuda_integer) = {
    .supports = supports_integer,
    .launch = launch_integer,
};
