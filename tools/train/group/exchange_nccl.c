/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange between GPUs through NCCL, which is loaded when first asked for.
 *
 * What is reduced goes through a stream of its own, so that gradients travel
 * while earlier layers still compute theirs; two events tie it to the stream of
 * the launches.  Both streams may be captured as one CUDA graph: the second one
 * joins the capture by waiting for an event of the first, and leaves it in
 * join().
 */
#include "config.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_rt.h"
#include "tools/train/group/exchange.h"

#define NCCL_FUNCTIONS(X)                                                      \
    X(ncclGetErrorString)                                                      \
    X(ncclGetUniqueId)                                                         \
    X(ncclCommInitRank)                                                        \
    X(ncclCommDestroy)                                                         \
    X(ncclAllReduce)                                                           \
    X(ncclBroadcast)

#define MEMBER(name) __typeof__(name) *name;
static struct {
    NCCL_FUNCTIONS(MEMBER)
} nccl;
#undef MEMBER

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct infer_error nccl_why; /* code 0: loaded */

static void take(void *library, const char *name, void *to)
{
    void *address = dlsym(library, name);

    if (address)
        memcpy(to, &address, sizeof(address));
    else
        error_set(&nccl_why, INFER_EDEVICE, "NCCL has no function %s", name);
}

/* The library stays loaded: it has threads of its own. */
static void load(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();

    if (!library) {
        error_set(&nccl_why, INFER_EDEVICE,
                  "training on several GPUs needs NCCL, which is not found: "
                  "%s",
                  reason ? reason : "libnccl.so.2");
        return;
    }
#define TAKE(name) take(library, #name, &nccl.name);
    NCCL_FUNCTIONS(TAKE)
#undef TAKE
}

static int load_nccl(struct infer_error *err)
{
    pthread_once(&once, load);
    return nccl_why.code == 0
               ? 0
               : error_set(err, nccl_why.code, "%s", nccl_why.text);
}

static int nccl_fail(struct infer_error *err, ncclResult_t code,
                     const char *expression, int line)
{
    return error_set(err, INFER_EDEVICE, "NCCL: %s (%s, %s:%d)",
                     nccl.ncclGetErrorString(code), expression, __FILE__, line);
}

/* Returns from the calling function where a call of NCCL fails. */
#define NCCL_TRY(err, call)                                                    \
    do {                                                                       \
        const ncclResult_t code_ = nccl.call;                                  \
        if (code_ != ncclSuccess)                                              \
            return nccl_fail(err, code_, #call, __LINE__);                     \
    } while (0)

/* ---- exchanging ---------------------------------------------------- */

struct ring {
    struct exchange base;
    ncclComm_t comm;
    cudaStream_t main, side;
    cudaEvent_t ready, done;
    int ordinal;
};

/* Makes the side stream wait for the main one. */
static int follow(struct ring *r, struct infer_error *err)
{
    CUDA_TRY(err, cudaEventRecord(r->ready, r->main));
    CUDA_TRY(err, cudaStreamWaitEvent(r->side, r->ready, 0));
    return 0;
}

static int ring_reduce(struct exchange *x, void *data, int64_t count,
                       enum infer_dtype dtype, bool mean,
                       struct infer_error *err)
{
    struct ring *r = (struct ring *)x;
    const int rc = follow(r, err);

    if (rc < 0)
        return rc;
    if (dtype != INFER_F32)
        return error_set(err, INFER_EUNSUPPORTED,
                         "GPUs exchange single precision only");
    NCCL_TRY(err, ncclAllReduce(data, data, (size_t)count, ncclFloat32,
                                mean ? ncclAvg : ncclSum, r->comm, r->side));
    return 0;
}

static int ring_join(struct exchange *x, struct infer_error *err)
{
    struct ring *r = (struct ring *)x;

    CUDA_TRY(err, cudaEventRecord(r->done, r->side));
    CUDA_TRY(err, cudaStreamWaitEvent(r->main, r->done, 0));
    return 0;
}

static int ring_share(struct exchange *x, void *data, size_t bytes,
                      struct infer_error *err)
{
    struct ring *r = (struct ring *)x;

    NCCL_TRY(err,
             ncclBroadcast(data, data, bytes, ncclInt8, 0, r->comm, r->main));
    CUDA_TRY(err, cudaStreamSynchronize(r->main));
    return 0;
}

static void ring_close(struct exchange *x)
{
    struct ring *r = (struct ring *)x;

    (void)cudaSetDevice(r->ordinal);
    if (r->comm)
        (void)nccl.ncclCommDestroy(r->comm);
    if (r->ready)
        (void)cudaEventDestroy(r->ready);
    if (r->done)
        (void)cudaEventDestroy(r->done);
    if (r->side)
        (void)cudaStreamDestroy(r->side);
    (void)cudaGetLastError();
    free(r);
}

static const struct exchange_ops ring_ops = {
    .reduce = ring_reduce,
    .join = ring_join,
    .share = ring_share,
    .close = ring_close,
};

/* High priority, so that transfers start before competing launches. */
static int open_streams(struct ring *r, struct infer_error *err)
{
    int lowest = 0, highest = 0;

    CUDA_TRY(err, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_TRY(err, cudaStreamCreateWithPriority(&r->side, cudaStreamNonBlocking,
                                               highest));
    CUDA_TRY(err, cudaEventCreateWithFlags(&r->ready, cudaEventDisableTiming));
    CUDA_TRY(err, cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming));
    return 0;
}

/* Barrier of all processes. */
static int connect(struct ring *r, struct group *g, struct infer_error *err)
{
    ncclUniqueId id;
    int rc;

    memset(&id, 0, sizeof(id));
    if (g->rank == 0)
        NCCL_TRY(err, ncclGetUniqueId(&id));
    rc = group_share(g, &id, sizeof(id), err);
    if (rc < 0)
        return rc;
    NCCL_TRY(err, ncclCommInitRank(&r->comm, g->size, id, g->rank));
    return 0;
}

int exchange_check(const struct group *g, struct infer_error *err)
{
    int count = 0;
    int rc = cuda_device_count(err, &count);

    if (rc == 0 && count < g->local_size)
        rc = error_set(err, INFER_EDEVICE,
                       "%d GPUs were asked for, but this machine has %d",
                       g->local_size, count);
    return rc < 0 ? rc : load_nccl(err);
}

int exchange_open(struct group *g, const struct device *d,
                  struct infer_error *err, struct exchange **out)
{
    int rc = load_nccl(err);
    struct ring *r;

    if (rc == 0)
        rc = d->ops->enter(d, err);
    if (rc < 0)
        return rc;
    r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, INFER_EMEMORY, "out of memory");
    r->base.ops = &ring_ops;
    r->base.rank = g->rank;
    r->base.size = g->size;
    r->main = (cudaStream_t)d->stream;
    r->ordinal = d->kern.ordinal;
    rc = open_streams(r, err);
    if (rc == 0)
        rc = connect(r, g, err);
    if (rc < 0) {
        ring_close(&r->base);
        return rc;
    }
    *out = &r->base;
    return 0;
}
