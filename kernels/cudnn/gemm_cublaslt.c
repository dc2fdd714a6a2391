/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers and batched matrix products through cuBLASLt.
 *
 * cuBLAS knows column-major matrices, so it is asked for the transpose of the
 * row-major result: y^T[n, m] = op(b)[n, k] op(a)[k, m].  A dense layer is such
 * a product with its weights as b; the residual is cuBLAS's C, and bias and
 * ReLU its epilogue.  Each algorithm that the heuristics
 * offer is a variant.
 */
#include "kernels/cudnn/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "kernels/problem.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

/* How many algorithms the heuristics are asked for. */
#define MAX_ALGORITHMS 16
/* Split-K partial sums may take this much; more never paid on these sizes. */
#define MAX_WORKSPACE ((uint64_t)32 << 20)
/* Alignment of buffers, if their row strides allow it. */
#define ALIGNMENT 16
/* Alignment of the workspace that cuBLASLt wants; a row's may have less. */
#define WORKSPACE_ALIGN 256

enum { GEMM_A, GEMM_B, GEMM_BIAS, GEMM_RESIDUAL };

struct shape {
    int64_t m, n, k, batch;
    int64_t step_a, step_b, step_y; /* from one product to the next */
    bool transpose_a, transpose_b;
    enum infer_dtype b; /* type of b when it is read */
    float alpha;
};

/* Descriptors of one product: the state of a row, or made for a question. */
struct gemm {
    struct shape s;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t b, a, y;
    cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
    int n_found;
    int ordinal;
};

/* ---- shapes -------------------------------------------------------- */

/* In 16 bits some algorithms round the product before they add to it, so that
 * only bare products are taken; the graphs of cuDNN compute the others. */
static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, GEMM_BIAS);
    const struct kern_tensor *r = kern_problem_in(p, GEMM_RESIDUAL);
    const enum kern_unary_kind act = p->epilogue.act.kind;

    if (p->out[0].dtype != INFER_F32 && (bias || r || act != KERN_IDENTITY))
        return REFUSE(why, "cuBLAS rounds products to 16 bits before it adds a "
                           "bias or residual");
    if (act != KERN_IDENTITY && act != KERN_RELU)
        return REFUSE(why, "cuBLAS has no such activation");
    if (r && p->epilogue.residual_last && act != KERN_IDENTITY)
        return REFUSE(why, "cuBLAS adds a residual before the activation");
    if (r &&
        (r->dtype != p->out[0].dtype || !kern_tensor_is_dense(r, KERN_NCHW)))
        return REFUSE(why, "residual is not dense of the output's type");
    if (bias &&
        (bias->dtype != INFER_F32 || !kern_tensor_is_dense(bias, KERN_NCHW)))
        return REFUSE(why, "bias is not dense F32");
    return 0;
}

static int read_dense(const struct kern_problem *p, struct shape *s,
                      struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[GEMM_A], *w = &p->in[GEMM_B];
    const bool constant = p->constant_in & 1u << GEMM_B;

    *s = (struct shape){.m = 1,
                        .n = w->dim[0],
                        .k = w->dim[1],
                        .batch = 1,
                        .transpose_b = true,
                        .b = x->dtype,
                        .alpha = 1};
    for (int i = 0; i + 1 < x->rank; i++)
        s->m *= x->dim[i];
    if (w->dtype != x->dtype && !(constant && w->dtype == INFER_F32))
        return REFUSE(why, "weights are %s and the input %s",
                      infer_dtype_name(w->dtype), infer_dtype_name(x->dtype));
    return check_epilogue(p, why);
}

/* A batch of matrices at one stride, which is 0 if all are the same. */
static bool read_batch(const struct kern_tensor *t, int64_t batch,
                       int64_t *step)
{
    const int64_t count = kern_tensor_count(t);
    const int64_t matrix = t->dim[t->rank - 2] * t->dim[t->rank - 1];

    *step = count == matrix ? 0 : matrix;
    return count == matrix || count == matrix * batch;
}

static int read_matmul(const struct kern_problem *p, struct shape *s,
                       struct infer_error *why)
{
    const struct kern_tensor *a = &p->in[0], *b = &p->in[1], *y = &p->out[0];

    if (a->rank < 2 || b->rank < 2 || y->rank < 2)
        return REFUSE(why, "matmul of vectors is not supported");
    if (b->dtype != a->dtype)
        return REFUSE(why, "factors are %s and %s", infer_dtype_name(a->dtype),
                      infer_dtype_name(b->dtype));
    *s = (struct shape){.m = y->dim[y->rank - 2],
                        .n = y->dim[y->rank - 1],
                        .k = p->attr.matmul.transpose_a ? a->dim[a->rank - 2]
                                                        : a->dim[a->rank - 1],
                        .transpose_a = p->attr.matmul.transpose_a,
                        .transpose_b = p->attr.matmul.transpose_b,
                        .b = b->dtype,
                        .alpha = p->attr.matmul.alpha};
    if (s->m == 0 || s->n == 0 || kern_tensor_count(y) == 0)
        return REFUSE(why, "matrices are empty");
    s->batch = kern_tensor_count(y) / (s->m * s->n);
    s->step_y = s->m * s->n;
    /* Batches that are broadcast in part lie at several strides. */
    if (!read_batch(a, s->batch, &s->step_a) ||
        !read_batch(b, s->batch, &s->step_b))
        return REFUSE(why, "batches are broadcast in part");
    return 0;
}

static int read_shape(const struct kern_problem *p, struct shape *s,
                      struct infer_error *why)
{
    const int rc =
        p->op == KERN_MATMUL ? read_matmul(p, s, why) : read_dense(p, s, why);

    if (rc < 0)
        return rc;
    if (!kern_tensor_is_dense(&p->in[0], KERN_NCHW) ||
        !kern_tensor_is_dense(&p->in[1], KERN_NCHW) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NCHW))
        return REFUSE(why, "matrices do not lie dense, row-major");
    if (p->out[0].dtype != p->in[0].dtype)
        return REFUSE(why, "input is %s and output %s",
                      infer_dtype_name(p->in[0].dtype),
                      infer_dtype_name(p->out[0].dtype));
    if (s->m < 1 || s->n < 1 || s->k < 1)
        return REFUSE(why, "matrices are empty");
    if (s->m > INT32_MAX || s->n > INT32_MAX || s->k > INT32_MAX ||
        s->batch > INT32_MAX)
        return REFUSE(why, "matrices have more than 2^31 rows or columns");
    return 0;
}

/* ---- descriptors --------------------------------------------------- */

static cudaDataType_t blas_type(enum infer_dtype t)
{
    return t == INFER_F16    ? CUDA_R_16F
           : t == INFER_BF16 ? CUDA_R_16BF
                             : CUDA_R_32F;
}

static void gemm_free(const struct cublas_library *lib, struct gemm *g)
{
    if (g->a)
        lib->cublasLtMatrixLayoutDestroy(g->a);
    if (g->b)
        lib->cublasLtMatrixLayoutDestroy(g->b);
    if (g->y)
        lib->cublasLtMatrixLayoutDestroy(g->y);
    if (g->op)
        lib->cublasLtMatmulDescDestroy(g->op);
}

static int make_layout(const struct cublas_library *lib, enum infer_dtype dtype,
                       int64_t rows, int64_t columns, const struct shape *s,
                       int64_t step, struct infer_error *err,
                       cublasLtMatrixLayout_t *out)
{
    const int32_t batch = (int32_t)s->batch;
    int rc = CUBLAS_CALL(err, lib,
                         cublasLtMatrixLayoutCreate(out, blas_type(dtype),
                                                    (uint64_t)rows,
                                                    (uint64_t)columns, rows));

    if (rc == 0)
        rc = CUBLAS_CALL(err, lib,
                         cublasLtMatrixLayoutSetAttribute(
                             *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                             sizeof(batch)));
    if (rc == 0)
        rc = CUBLAS_CALL(err, lib,
                         cublasLtMatrixLayoutSetAttribute(
                             *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                             &step, sizeof(step)));
    return rc;
}

static int make_layouts(const struct cublas_library *lib,
                        const struct kern_problem *p, struct gemm *g,
                        struct infer_error *err)
{
    const struct shape *s = &g->s;
    const enum infer_dtype t = p->in[0].dtype;
    int rc =
        make_layout(lib, s->b, s->transpose_b ? s->k : s->n,
                    s->transpose_b ? s->n : s->k, s, s->step_b, err, &g->b);

    if (rc == 0)
        rc =
            make_layout(lib, t, s->transpose_a ? s->m : s->k,
                        s->transpose_a ? s->k : s->m, s, s->step_a, err, &g->a);
    if (rc == 0)
        rc = make_layout(lib, t, s->n, s->m, s, s->step_y, err, &g->y);
    return rc;
}

static int set(const struct cublas_library *lib, cublasLtMatmulDesc_t op,
               cublasLtMatmulDescAttributes_t name, const void *value,
               size_t bytes, struct infer_error *err)
{
    return CUBLAS_CALL(err, lib,
                       cublasLtMatmulDescSetAttribute(op, name, value, bytes));
}

static cublasLtEpilogue_t epilogue_of(const struct kern_problem *p)
{
    const bool bias = p->op != KERN_MATMUL && kern_problem_in(p, GEMM_BIAS);

    if (p->epilogue.act.kind == KERN_RELU)
        return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static int make_op(const struct cublas_library *lib,
                   const struct kern_problem *p, bool tf32, struct gemm *g,
                   struct infer_error *err)
{
    const cublasOperation_t n = CUBLAS_OP_N, t = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = epilogue_of(p);
    int rc = CUBLAS_CALL(
        err, lib,
        cublasLtMatmulDescCreate(
            &g->op, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
            CUDA_R_32F));

    if (rc == 0)
        rc = set(lib, g->op, CUBLASLT_MATMUL_DESC_TRANSA,
                 g->s.transpose_b ? &t : &n, sizeof(t), err);
    if (rc == 0)
        rc = set(lib, g->op, CUBLASLT_MATMUL_DESC_TRANSB,
                 g->s.transpose_a ? &t : &n, sizeof(t), err);
    if (rc == 0)
        rc = set(lib, g->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                 sizeof(epilogue), err);
    return rc;
}

/* ---- algorithms ---------------------------------------------------- */

static int prefer(const struct cublas_library *lib,
                  cublasLtMatmulPreference_t q, struct infer_error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = MAX_WORKSPACE;
    const uint32_t alignment = ALIGNMENT;
    /* Partial sums stay in single precision. */
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int rc = CUBLAS_CALL(
        err, lib,
        cublasLtMatmulPreferenceSetAttribute(
            q, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)));

    if (rc == 0)
        rc = CUBLAS_CALL(err, lib,
                         cublasLtMatmulPreferenceSetAttribute(
                             q, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                             &schemes, sizeof(schemes)));
    for (size_t i = 0; rc == 0 && i < sizeof(aligned) / sizeof(aligned[0]); i++)
        rc = CUBLAS_CALL(err, lib,
                         cublasLtMatmulPreferenceSetAttribute(
                             q, aligned[i], &alignment, sizeof(alignment)));
    return rc;
}

static int find(const struct cublas_library *lib, cublasLtHandle_t handle,
                struct gemm *g, struct infer_error *err)
{
    cublasLtMatmulPreference_t q = NULL;
    int rc = CUBLAS_CALL(err, lib, cublasLtMatmulPreferenceCreate(&q));

    if (rc < 0)
        return rc;
    rc = prefer(lib, q, err);
    if (rc == 0)
        rc = CUBLAS_CALL(err, lib,
                         cublasLtMatmulAlgoGetHeuristic(
                             handle, g->op, g->b, g->a, g->y, g->y, q,
                             MAX_ALGORITHMS, g->found, &g->n_found));
    lib->cublasLtMatmulPreferenceDestroy(q);
    if (rc == 0 && g->n_found == 0)
        rc = REFUSE(err, "cuBLAS: no algorithm computes this");
    if (rc == 0)
        cudnn_order_engines(g->found, sizeof(g->found[0]), g->n_found);
    return rc;
}

/* A problem with all that is known of it; to be freed where that succeeds. */
static int gemm_new(const struct kern_problem *p, bool tf32, int ordinal,
                    struct infer_error *err, struct gemm *out)
{
    const struct cublas_library *lib = cublas_library(err);
    cublasLtHandle_t handle;
    struct gemm g;
    int rc;

    if (!lib)
        return INFER_EDEVICE;
    memset(&g, 0, sizeof(g));
    g.ordinal = ordinal;
    rc = read_shape(p, &g.s, err);
    if (rc == 0)
        rc = cublas_handle(ordinal, err, &handle);
    if (rc == 0)
        rc = make_layouts(lib, p, &g, err);
    if (rc == 0)
        rc = make_op(lib, p, tf32, &g, err);
    if (rc == 0)
        rc = find(lib, handle, &g, err);
    if (rc < 0)
        gemm_free(lib, &g);
    else
        *out = g;
    return rc;
}

static int detail(const struct cublas_library *lib,
                  const cublasLtMatmulAlgo_t *algo,
                  cublasLtMatmulAlgoConfigAttributes_t name)
{
    uint32_t value = 0;
    size_t written = 0;

    if (lib->cublasLtMatmulAlgoConfigGetAttribute(algo, name, &value,
                                                  sizeof(value), &written) !=
        CUBLAS_STATUS_SUCCESS)
        return -1;
    return (int)value;
}

/* ---- rows ---------------------------------------------------------- */

static int supports_with(const struct kern_problem *p,
                         const struct kern_device *d, bool tf32,
                         struct infer_error *why)
{
    struct gemm g;
    const int rc = gemm_new(p, tf32, d->ordinal, why, &g);

    if (rc == 0)
        gemm_free(cublas_library(NULL), &g);
    return cudnn_refuse(why, rc);
}

static int variants_with(const struct kern_problem *p,
                         const struct kern_device *d, bool tf32,
                         struct infer_error *err)
{
    struct gemm g;
    const int rc = gemm_new(p, tf32, d->ordinal, err, &g);

    if (rc < 0)
        return rc;
    gemm_free(cublas_library(NULL), &g);
    return g.n_found;
}

static void release(struct kern_exec *e)
{
    struct gemm *g = e->state;

    if (!g)
        return;
    gemm_free(cublas_library(NULL), g);
    free(g);
    e->state = NULL;
}

static void fill(struct kern_exec *e, const struct gemm *g)
{
    const struct cublas_library *lib = cublas_library(NULL);
    const struct kern_problem *p = &e->problem;
    const cublasLtMatmulAlgo_t *algo = &g->found[e->variant].algo;

    e->workspace = g->found[e->variant].workspaceSize;
    if (e->workspace > 0)
        e->workspace += WORKSPACE_ALIGN;
    snprintf(e->variant_name, sizeof(e->variant_name),
             "algo%d tile%d stages%d splitk%d",
             detail(lib, algo, CUBLASLT_ALGO_CONFIG_ID),
             detail(lib, algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
             detail(lib, algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
             detail(lib, algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
    if (p->op == KERN_MATMUL)
        return;
    if (p->in[GEMM_B].dtype != g->s.b)
        e->packed[GEMM_B] =
            (size_t)g->s.n * (size_t)g->s.k * infer_dtype_size(g->s.b);
}

static int prepare_with(struct kern_exec *e, const struct kern_device *d,
                        bool tf32, struct infer_error *err)
{
    struct gemm *g = calloc(1, sizeof(*g));
    int rc;

    if (!g)
        return error_set(err, INFER_EMEMORY, "cuBLAS: out of memory");
    rc = gemm_new(&e->problem, tf32, d->ordinal, err, g);
    if (rc < 0) {
        free(g);
        return rc;
    }
    e->state = g;
    if (e->variant >= g->n_found) {
        release(e);
        return REFUSE(err, "cuBLAS: no variant %d", e->variant);
    }
    fill(e, g);
    return 0;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    (void)err;
    scalar_convert(e->problem.in[i].dtype, src, e->problem.out[0].dtype, dst,
                   (size_t)kern_tensor_count(&e->problem.in[i]));
    return 0;
}

static void *align(void *workspace)
{
    unsigned char *at = workspace;

    return at + (WORKSPACE_ALIGN - (uintptr_t)at % WORKSPACE_ALIGN) %
                    WORKSPACE_ALIGN;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct cublas_library *lib = cublas_library(err);
    const struct kern_problem *p = &e->problem;
    const struct gemm *g = e->state;
    const bool dense = p->op != KERN_MATMUL;
    const void *residual = dense && kern_problem_in(p, GEMM_RESIDUAL)
                               ? args->in[GEMM_RESIDUAL]
                               : NULL;
    const float zero = 0, one = 1;
    /* The place of the bias is an attribute: a copy keeps g constant. */
    cublasLtMatmulDescOpaque_t op = *g->op;
    const size_t bytes = g->found[e->variant].workspaceSize;
    void *workspace = bytes > 0 ? align(args->workspace) : NULL;
    cublasLtHandle_t handle;
    int rc = cublas_handle(g->ordinal, err, &handle);

    if (rc == 0 && dense && kern_problem_in(p, GEMM_BIAS))
        rc = set(lib, &op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                 &args->in[GEMM_BIAS], sizeof(args->in[GEMM_BIAS]), err);
    if (rc < 0)
        return rc;
    return CUBLAS_CALL(
        err, lib,
        cublasLtMatmul(handle, &op, &g->s.alpha, args->in[1], g->b, args->in[0],
                       g->a, residual ? &one : &zero,
                       residual ? residual : args->out[0], g->y, args->out[0],
                       g->y, &g->found[e->variant].algo, workspace, bytes,
                       (cudaStream_t)args->stream));
}

#define GEMM_ROW(name, tf32)                                                   \
    static int supports_##name(const struct kern_problem *p,                   \
                               const struct kern_device *d,                    \
                               struct infer_error *why)                        \
    {                                                                          \
        return supports_with(p, d, tf32, why);                                 \
    }                                                                          \
    static int variants_##name(const struct kern_problem *p,                   \
                               const struct kern_device *d,                    \
                               struct infer_error *err)                        \
    {                                                                          \
        return variants_with(p, d, tf32, err);                                 \
    }                                                                          \
    static int prepare_##name(struct kern_exec *e,                             \
                              const struct kern_device *d,                     \
                              struct infer_error *err)                         \
    {                                                                          \
        return prepare_with(e, d, tf32, err);                                  \
    }                                                                          \
    KERN_FUNCTIONS(name) = {                                                   \
        .supports = supports_##name,                                           \
        .variants = variants_##name,                                           \
        .prepare = prepare_##name,                                             \
        .pack = pack,                                                          \
        .launch = launch,                                                      \
        .release = release,                                                    \
    };
GEMM_ROW(gemm_cublaslt, false)
GEMM_ROW(gemm_tf32_cublaslt, true)
