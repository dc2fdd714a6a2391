/* SPDX-License-Identifier: Apache-2.0 */
/* Loading cuDNN and cuBLASLt, their errors in the words of this project, and
 * the handles of each device. */
#include "kernels/cudnn/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/test_hooks.h"

/* The oldest cuDNN whose graph interface the rows are written for. */
#define CUDNN_OLDEST 90000

/* ---- loading ------------------------------------------------------- */

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in the table */
};

#define SYMBOL(name_) {#name_, offsetof(struct cudnn_library, name_)},
static const struct symbol cudnn_symbols[] = {CUDNN_FUNCTIONS(SYMBOL)};
#undef SYMBOL
#define SYMBOL(name_) {#name_, offsetof(struct cublas_library, name_)},
static const struct symbol cublas_symbols[] = {CUBLAS_FUNCTIONS(SYMBOL)};
#undef SYMBOL

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cudnn_library cudnn;
static struct cublas_library cublas;
static struct infer_error cudnn_why, cublas_why; /* code 0: loaded */
static char cudnn_text[64], cublas_text[64];

/* The libraries stay loaded: their threads and handles may outlive any row. */
static void load(const char *const *names, const char *what,
                 const struct symbol *symbol, size_t n, void *table,
                 struct infer_error *why)
{
    void *library = NULL;
    const char *first = NULL;

    for (int i = 0; names[i] && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library && !first) {
            const char *reason = dlerror();
            first = reason ? reason : names[i];
            error_set(why, INFER_EDEVICE, "%s is not found: %s", what, first);
        }
    }
    if (!library)
        return;
    error_clear(why);
    for (size_t i = 0; i < n; i++) {
        void *address = dlsym(library, symbol[i].name);
        if (!address) {
            error_set(why, INFER_EDEVICE, "%s has no function %s", what,
                      symbol[i].name);
            return;
        }
        memcpy((char *)table + symbol[i].offset, &address, sizeof(address));
    }
}

static void load_all(void)
{
    static const char *const dnn[] = {"libcudnn.so.9", NULL};
    static const char *const blas[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                       NULL};

    load(dnn, "cuDNN", cudnn_symbols,
         sizeof(cudnn_symbols) / sizeof(cudnn_symbols[0]), &cudnn, &cudnn_why);
    load(blas, "cuBLAS", cublas_symbols,
         sizeof(cublas_symbols) / sizeof(cublas_symbols[0]), &cublas,
         &cublas_why);
    if (cudnn_why.code == 0) {
        const size_t v = cudnn.cudnnGetVersion();
        snprintf(cudnn_text, sizeof(cudnn_text), "cuDNN %zu.%zu.%zu", v / 10000,
                 v / 100 % 100, v % 100);
        if (v < CUDNN_OLDEST)
            error_set(&cudnn_why, INFER_EDEVICE, "%s is too old: 9.0 is needed",
                      cudnn_text);
    }
    if (cublas_why.code == 0) {
        const size_t v = cublas.cublasLtGetVersion();
        snprintf(cublas_text, sizeof(cublas_text), "cuBLAS %zu.%zu.%zu",
                 v / 10000, v / 100 % 100, v % 100);
    }
}

const struct cudnn_library *cudnn_library(struct infer_error *why)
{
    pthread_once(&once, load_all);
    if (cudnn_why.code == 0)
        return &cudnn;
    error_set(why, cudnn_why.code, "%s", cudnn_why.text);
    return NULL;
}

const struct cublas_library *cublas_library(struct infer_error *why)
{
    pthread_once(&once, load_all);
    if (cublas_why.code == 0)
        return &cublas;
    error_set(why, cublas_why.code, "%s", cublas_why.text);
    return NULL;
}

static unsigned openings;

static int open_cudnn(struct infer_error *why)
{
    __atomic_add_fetch(&openings, 1, __ATOMIC_RELAXED);
    return cudnn_library(why) ? 0 : INFER_EDEVICE;
}

unsigned cudnn_openings(void)
{
    return __atomic_load_n(&openings, __ATOMIC_RELAXED);
}

static const char *cudnn_version(struct infer_error *why)
{
    return cudnn_library(why) ? cudnn_text : NULL;
}

static const char *cublas_version(struct infer_error *why)
{
    return cublas_library(why) ? cublas_text : NULL;
}

extern const struct kern_backend kern_backend_cudnn;
const struct kern_backend kern_backend_cudnn = {
    .device = KERN_CUDA,
    .library = {{"cuDNN", cudnn_version}, {"cuBLAS", cublas_version}},
    .open = open_cudnn,
};

void cudnn_order_engines(void *engine, size_t size, int count)
{
    void (*const order)(void *, size_t, int) = KERN_TEST_HOOK(order_engines);

    if (order)
        order(engine, size, count);
}

/* ---- errors -------------------------------------------------------- */

/* cuDNN numbers its reasons by thousands: 3xxx is "not supported". */
static int cudnn_code(cudnnStatus_t status)
{
    if ((int)status / 1000 == 3)
        return INFER_EUNSUPPORTED;
    return status == CUDNN_STATUS_ALLOC_FAILED ? INFER_EMEMORY : INFER_EDEVICE;
}

int cudnn_fail(struct infer_error *err, const struct cudnn_library *lib,
               cudnnStatus_t status, const char *expression, const char *file,
               int line)
{
    char detail[512] = "";

    lib->cudnnGetLastErrorString(detail, sizeof(detail));
    for (char *c = detail; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return error_set(err, cudnn_code(status), "cuDNN: %s: %s (%s, %s:%d)",
                     lib->cudnnGetErrorString(status), detail, expression, file,
                     line);
}

int cublas_fail(struct infer_error *err, const struct cublas_library *lib,
                cublasStatus_t status, const char *expression, const char *file,
                int line)
{
    const int code = status == CUBLAS_STATUS_NOT_SUPPORTED  ? INFER_EUNSUPPORTED
                     : status == CUBLAS_STATUS_ALLOC_FAILED ? INFER_EMEMORY
                                                            : INFER_EDEVICE;

    return error_set(err, code, "cuBLAS: %s (%s, %s:%d)",
                     lib->cublasLtGetStatusString(status), expression, file,
                     line);
}

int cudnn_refuse(struct infer_error *why, int code)
{
    if (code == 0)
        return 0;
    if (why)
        why->code = INFER_EUNSUPPORTED;
    return INFER_EUNSUPPORTED;
}

/* ---- handles ------------------------------------------------------- */

struct cudnn_lane {
    struct cudnn_lane *next;
    int ordinal;
    enum { LANE_SPARE, LANE_STREAM, LANE_PLANNING } use;
    void *stream; /* of LANE_STREAM */
    cudnnHandle_t handle;
    pthread_mutex_t busy;
};

struct holds {
    struct holds *next;
    int ordinal, count;
};

/* Guards both lists; lanes have their own mutex. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cudnn_lane *lanes;
static struct holds *holds;

static int set_device(int ordinal, struct infer_error *err)
{
    const cudaError_t code = cudaSetDevice(ordinal);

    return code == cudaSuccess
               ? 0
               : error_set(err, INFER_EDEVICE, "CUDA: %s (cudaSetDevice(%d))",
                           cudaGetErrorString(code), ordinal);
}

/* Makes a lane; the list is locked. */
static struct cudnn_lane *lane_new(const struct cudnn_library *lib, int ordinal,
                                   struct infer_error *err)
{
    struct cudnn_lane *lane = calloc(1, sizeof(*lane));

    if (!lane) {
        error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
        return NULL;
    }
    if (set_device(ordinal, err) < 0 ||
        CUDNN_CALL(err, lib, cudnnCreate(&lane->handle)) < 0) {
        free(lane);
        return NULL;
    }
    pthread_mutex_init(&lane->busy, NULL);
    lane->ordinal = ordinal;
    lane->next = lanes;
    lanes = lane;
    return lane;
}

static struct cudnn_lane *find_lane(int ordinal, int use, const void *stream)
{
    for (struct cudnn_lane *l = lanes; l; l = l->next)
        if (l->ordinal == ordinal && (int)l->use == use &&
            (use != LANE_STREAM || l->stream == stream))
            return l;
    return NULL;
}

/* A spare lane for a use, or a new one; the list is locked. */
static struct cudnn_lane *claim(const struct cudnn_library *lib, int ordinal,
                                int use, void *stream, struct infer_error *err)
{
    struct cudnn_lane *lane = find_lane(ordinal, LANE_SPARE, NULL);

    if (!lane)
        lane = lane_new(lib, ordinal, err);
    if (lane && use == LANE_STREAM &&
        CUDNN_CALL(err, lib,
                   cudnnSetStream(lane->handle, (cudaStream_t)stream)) < 0)
        return NULL;
    if (lane) {
        lane->use = use;
        lane->stream = stream;
    }
    return lane;
}

static int enter(int ordinal, int use, void *stream, struct infer_error *err,
                 struct cudnn_lane **out, cudnnHandle_t *handle)
{
    const struct cudnn_library *lib = cudnn_library(err);
    struct infer_error why = {0};
    struct cudnn_lane *lane;

    if (!lib)
        return INFER_EDEVICE;
    pthread_mutex_lock(&lock);
    lane = find_lane(ordinal, use, stream);
    if (!lane)
        lane = claim(lib, ordinal, use, stream, &why);
    pthread_mutex_unlock(&lock);
    if (!lane)
        return error_set(err, why.code, "%s", why.text);
    pthread_mutex_lock(&lane->busy);
    *out = lane;
    *handle = lane->handle;
    return 0;
}

int cudnn_enter(int ordinal, void *stream, struct infer_error *err,
                struct cudnn_lane **lane, cudnnHandle_t *out)
{
    return enter(ordinal, LANE_STREAM, stream, err, lane, out);
}

int cudnn_enter_planning(int ordinal, struct infer_error *err,
                         struct cudnn_lane **lane, cudnnHandle_t *out)
{
    return enter(ordinal, LANE_PLANNING, NULL, err, lane, out);
}

void cudnn_leave(struct cudnn_lane *lane)
{
    pthread_mutex_unlock(&lane->busy);
}

static struct holds *find_holds(int ordinal)
{
    struct holds *h = holds;

    while (h && h->ordinal != ordinal)
        h = h->next;
    if (h)
        return h;
    h = calloc(1, sizeof(*h));
    if (h) {
        h->ordinal = ordinal;
        h->next = holds;
        holds = h;
    }
    return h;
}

int cudnn_hold(int ordinal, struct infer_error *err)
{
    const struct cudnn_library *lib = cudnn_library(err);
    struct holds *h;
    int rc = INFER_EMEMORY;

    if (!lib)
        return INFER_EDEVICE;
    pthread_mutex_lock(&lock);
    h = find_holds(ordinal);
    if (!h)
        error_set(err, INFER_EMEMORY, "cuDNN: out of memory");
    else if (find_lane(ordinal, LANE_SPARE, NULL) ||
             lane_new(lib, ordinal, err)) {
        h->count++;
        rc = 0;
    } else if (err) {
        rc = err->code;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void cudnn_unhold(int ordinal)
{
    struct holds *h;

    pthread_mutex_lock(&lock);
    h = find_holds(ordinal);
    if (h && --h->count == 0)
        for (struct cudnn_lane *l = lanes; l; l = l->next)
            if (l->ordinal == ordinal && l->use == LANE_STREAM)
                l->use = LANE_SPARE;
    pthread_mutex_unlock(&lock);
}

struct blas {
    struct blas *next;
    int ordinal;
    cublasLtHandle_t handle;
};
static struct blas *blas_handles;

static struct blas *blas_new(const struct cublas_library *lib, int ordinal,
                             struct infer_error *err)
{
    struct blas *b = calloc(1, sizeof(*b));

    if (!b) {
        error_set(err, INFER_EMEMORY, "cuBLAS: out of memory");
        return NULL;
    }
    if (set_device(ordinal, err) < 0 ||
        CUBLAS_CALL(err, lib, cublasLtCreate(&b->handle)) < 0) {
        free(b);
        return NULL;
    }
    b->ordinal = ordinal;
    b->next = blas_handles;
    blas_handles = b;
    return b;
}

int cublas_handle(int ordinal, struct infer_error *err, cublasLtHandle_t *out)
{
    const struct cublas_library *lib = cublas_library(err);
    struct infer_error why = {0};
    struct blas *b;

    if (!lib)
        return INFER_EDEVICE;
    pthread_mutex_lock(&lock);
    b = blas_handles;
    while (b && b->ordinal != ordinal)
        b = b->next;
    if (!b)
        b = blas_new(lib, ordinal, &why);
    pthread_mutex_unlock(&lock);
    if (!b)
        return error_set(err, why.code, "%s", why.text);
    *out = b->handle;
    return 0;
}

/* ---- what rows share ----------------------------------------------- */

cudnnDataType_t cudnn_dtype(enum infer_dtype dtype)
{
    if (dtype == INFER_F16)
        return CUDNN_DATA_HALF;
    return dtype == INFER_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

enum cudnn_direction cudnn_direction_of(const struct kern_problem *p)
{
    return p->op == KERN_CONV_DGRAD   ? CUDNN_DGRAD
           : p->op == KERN_CONV_WGRAD ? CUDNN_WGRAD
                                      : CUDNN_FPROP;
}

void cudnn_as_convolution(const struct kern_problem *p,
                          struct kern_problem *conv)
{
    const enum cudnn_direction direction = cudnn_direction_of(p);

    memcpy(conv, p, sizeof(*conv));
    if (direction == CUDNN_FPROP)
        return;
    conv->op = KERN_CONV_FPROP;
    conv->n_in = 2;
    if (direction == CUDNN_DGRAD) {
        conv->in[0] = p->out[0];
        conv->out[0] = p->in[0];
    } else {
        conv->in[1] = p->out[0];
        conv->out[0] = p->in[CUDNN_WGRAD_DY];
    }
}
