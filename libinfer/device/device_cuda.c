/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVIDIA GPU: plain device memory, one stream a session, pinned memory
 * through which arrays travel, runs recorded as graphs.
 *
 * All work goes to a stream of the session's own.  Where the caller gave a
 * stream, a run waits for what that stream held before, and what it is given
 * later waits for the run.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/cuda/cuda_rt.h"
#include "libinfer/device/device.h"

/* Copies in pinned memory start at multiples of this. */
#define STAGE_ALIGN 256

/* A result to be copied from pinned memory to the caller's at the end of the
 * run. */
struct arrival {
    void *dst;
    const unsigned char *src;
    size_t bytes;
};

struct device_state {
    cudaStream_t stream, caller; /* caller: NULL where none was given */
    cudaEvent_t order;           /* between the two streams */
    cudaStream_t side;           /* of branch(); NULL until it is needed */
    cudaEvent_t fork;
    const void *foreign;  /* see device_needs_fence() */
    unsigned char *stage; /* pinned */
    size_t stage_bytes, staged;
    struct arrival *arrival;
    int arrivals, arrivals_capacity;
    cudaEvent_t *marks;
    int n_marks;
    bool running;
    /* The cause, once the device is of no use any more. */
    struct infer_error broken;
};

struct device_graph {
    cudaGraphExec_t exec;
};

/* Makes the device current; refuses once it is broken. */
static int enter(const struct device *d, struct infer_error *err)
{
    if (d->state && d->state->broken.code != 0)
        return error_set(err, d->state->broken.code,
                         "the session is of no use since an earlier error: %s",
                         d->state->broken.text);
    CUDA_TRY(err, cudaSetDevice(d->kern.ordinal));
    return 0;
}

/* ---- memory -------------------------------------------------------- */

static int gpu_alloc(const struct device *d, size_t bytes,
                     struct infer_error *err, void **out)
{
    size_t available = 0, total = 0;
    void *memory = NULL;
    int rc = enter(d, err);

    if (rc < 0)
        return rc;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&available, &total);
        return error_set(err, INFER_EMEMORY,
                         "out of device memory: %zu bytes asked for, %zu of "
                         "%zu free",
                         bytes, available, total);
    }
    CUDA_TRY(err, code);
    *out = memory;
    return 0;
}

static void gpu_free(const struct device *d, void *memory)
{
    if (!memory)
        return;
    /* A failure cannot be handled here; the next call reports it.  An address
     * says which device it is of. */
    (void)cudaSetDevice(d->kern.ordinal);
    (void)cudaFree(memory);
    (void)cudaGetLastError();
}

static int gpu_reserve(const struct device *d, size_t bytes, int copies,
                       struct infer_error *err)
{
    struct device_state *s = d->state;
    size_t room;
    int rc = enter(d, err);

    if (rc < 0)
        return rc;
    if (!checked_mul((size_t)copies, STAGE_ALIGN, &room) ||
        !checked_add(room, bytes, &room))
        return error_set(err, INFER_EMEMORY, "inputs and outputs too large");
    if (room > s->stage_bytes) {
        void *stage = NULL, *old = s->stage;

        /* Gone, whatever cudaFreeHost() says: it also reports what launches
         * before it did wrong. */
        s->stage = NULL;
        s->stage_bytes = 0;
        if (old)
            CUDA_TRY(err, cudaFreeHost(old));
        CUDA_TRY(err, cudaMallocHost(&stage, room));
        s->stage = stage;
        s->stage_bytes = room;
    }
    if (copies > s->arrivals_capacity) {
        struct arrival *a =
            realloc(s->arrival, (size_t)copies * sizeof *s->arrival);

        if (!a)
            return error_set(err, INFER_EMEMORY, "out of memory");
        s->arrival = a;
        s->arrivals_capacity = copies;
    }
    return 0;
}

static int gpu_check_memory(const struct device *d, const void *memory,
                            struct infer_error *err)
{
    struct cudaPointerAttributes at;
    const int rc = enter(d, err);

    if (rc < 0)
        return rc;
    CUDA_TRY(err, cudaPointerGetAttributes(&at, memory));
    if (at.type == cudaMemoryTypeManaged)
        return 0;
    if (at.type != cudaMemoryTypeDevice)
        return error_set(err, INFER_EARGUMENT,
                         "the address is host memory, not of cuda:%d",
                         d->kern.ordinal);
    if (at.device != d->kern.ordinal)
        return error_set(err, INFER_EARGUMENT,
                         "the address is memory of cuda:%d, not of cuda:%d",
                         at.device, d->kern.ordinal);
    return 0;
}

/* ---- copies -------------------------------------------------------- */

/* The next piece of pinned memory; NULL where it is used up. */
static unsigned char *take_stage(struct device_state *s, size_t bytes)
{
    unsigned char *at = s->stage + s->staged;

    if (!s->stage || bytes > s->stage_bytes - s->staged)
        return NULL;
    const size_t rounded =
        (bytes + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    s->staged += rounded < s->stage_bytes - s->staged
                     ? rounded
                     : s->stage_bytes - s->staged;
    return at;
}

static bool in_stage(const struct device_state *s, const void *p)
{
    const uintptr_t at = (uintptr_t)p, start = (uintptr_t)s->stage;

    return s->stage && at >= start && at - start < s->stage_bytes;
}

static int gpu_stage(const struct device *d, size_t bytes,
                     struct infer_error *err, void **out)
{
    void *stage = d->state->running ? take_stage(d->state, bytes) : NULL;

    if (!stage)
        return error_set(err, INFER_EMEMORY,
                         "no pinned memory was reserved for %zu bytes", bytes);
    *out = stage;
    return 0;
}

static int gpu_alloc_host(const struct device *d, size_t bytes,
                          struct infer_error *err, void **out)
{
    void *memory = NULL;
    const int rc = enter(d, err);

    if (rc < 0)
        return rc;
    CUDA_TRY(err, cudaMallocHost(&memory, bytes));
    *out = memory;
    return 0;
}

static void gpu_free_host(const struct device *d, void *memory)
{
    (void)d;
    if (memory)
        (void)cudaFreeHost(memory);
    (void)cudaGetLastError();
}

static int gpu_copy_in_later(const struct device *d, void *dst, const void *src,
                             size_t bytes, struct infer_error *err)
{
    CUDA_TRY(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice,
                                  d->state->stream));
    return 0;
}

static int gpu_copy_beside(const struct device *d, void *dst, const void *src,
                           size_t bytes, void *stream, struct infer_error *err)
{
    (void)d;
    CUDA_TRY(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault,
                                  (cudaStream_t)stream));
    return 0;
}

static int gpu_copy_in(const struct device *d, void *dst, const void *src,
                       size_t bytes, struct infer_error *err)
{
    struct device_state *s = d->state;
    unsigned char *stage;
    int rc = enter(d, err);

    if (rc < 0 || bytes == 0)
        return rc;
    if (in_stage(s, src))
        stage = (unsigned char *)(uintptr_t)src;
    else
        stage = s->running ? take_stage(s, bytes) : NULL;
    if (stage) {
        if (stage != src)
            memcpy(stage, src, bytes);
        CUDA_TRY(err, cudaMemcpyAsync(dst, stage, bytes, cudaMemcpyHostToDevice,
                                      s->stream));
        return 0;
    }
    CUDA_TRY(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice,
                                  s->stream));
    CUDA_TRY(err, cudaStreamSynchronize(s->stream));
    return 0;
}

static int gpu_copy_out(const struct device *d, void *dst, const void *src,
                        size_t bytes, struct infer_error *err)
{
    struct device_state *s = d->state;
    unsigned char *stage = NULL;
    int rc = enter(d, err);

    if (rc < 0 || bytes == 0)
        return rc;
    if (s->running && s->arrivals < s->arrivals_capacity)
        stage = take_stage(s, bytes);
    if (stage) {
        CUDA_TRY(err, cudaMemcpyAsync(stage, src, bytes, cudaMemcpyDeviceToHost,
                                      s->stream));
        s->arrival[s->arrivals].dst = dst;
        s->arrival[s->arrivals].src = stage;
        s->arrival[s->arrivals].bytes = bytes;
        s->arrivals++;
        return 0;
    }
    CUDA_TRY(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost,
                                  s->stream));
    CUDA_TRY(err, cudaStreamSynchronize(s->stream));
    return 0;
}

static int gpu_copy_within(const struct device *d, void *dst, const void *src,
                           size_t bytes, struct infer_error *err)
{
    CUDA_TRY(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice,
                                  d->state->stream));
    return 0;
}

/* ---- runs ---------------------------------------------------------- */

/* Work given to `later` from now on waits for the work of `first` so far. */
static int wait_for(struct device_state *s, cudaStream_t first,
                    cudaStream_t later, struct infer_error *err)
{
    CUDA_TRY(err, cudaEventRecord(s->order, first));
    CUDA_TRY(err, cudaStreamWaitEvent(later, s->order, 0));
    return 0;
}

static int gpu_begin(const struct device *d, struct infer_error *err)
{
    struct device_state *s = d->state;
    int rc = enter(d, err);

    if (rc == 0 && s->caller)
        rc = wait_for(s, s->caller, s->stream, err);
    s->running = rc == 0;
    s->staged = 0;
    s->arrivals = 0;
    return rc;
}

static int gpu_end(const struct device *d, struct infer_error *err)
{
    struct device_state *s = d->state;
    int i, rc = 0;

    if (s->caller)
        rc = wait_for(s, s->stream, s->caller, err);
    if (rc < 0)
        return rc;
    CUDA_TRY(err, cudaStreamSynchronize(s->stream));
    for (i = 0; i < s->arrivals; i++)
        memcpy(s->arrival[i].dst, s->arrival[i].src, s->arrival[i].bytes);
    s->arrivals = 0;
    s->running = false;
    return 0;
}

static void gpu_give_up(const struct device *d, const struct infer_error *err)
{
    struct device_state *s = d->state;
    cudaError_t code;

    s->running = false;
    s->arrivals = 0;
    if (s->broken.code != 0)
        return;
    code = cudaStreamSynchronize(s->stream);
    (void)cudaGetLastError();
    if (!cuda_is_sticky(code))
        return;
    if (err && err->code != 0)
        memcpy(&s->broken, err, sizeof s->broken);
    else
        cuda_fail(&s->broken, code, "run", __FILE__, __LINE__);
}

/* ---- graphs -------------------------------------------------------- */

static int gpu_record_begin(const struct device *d, struct infer_error *err)
{
    d->state->foreign = NULL; /* what a recording follows changes */
    /* Other threads may go on allocating meanwhile. */
    CUDA_TRY(err, cudaStreamBeginCapture(d->state->stream,
                                         cudaStreamCaptureModeThreadLocal));
    return 0;
}

static int gpu_record_end(const struct device *d, struct infer_error *err,
                          struct device_graph **out)
{
    struct device_graph *g;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t code = cudaStreamEndCapture(d->state->stream, &graph);

    d->state->foreign = NULL; /* nothing was run */
    if (!out) {               /* a launch failed: the recording is dropped */
        if (graph)
            (void)cudaGraphDestroy(graph);
        (void)cudaGetLastError();
        return 0;
    }
    CUDA_TRY(err, code);
    code = cudaGraphInstantiate(&exec, graph, 0);
    (void)cudaGraphDestroy(graph);
    CUDA_TRY(err, code);
    g = calloc(1, sizeof *g);
    if (!g) {
        (void)cudaGraphExecDestroy(exec);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    g->exec = exec;
    *out = g;
    return 0;
}

static int gpu_replay(const struct device *d, struct device_graph *graph,
                      struct infer_error *err)
{
    d->state->foreign = NULL;
    CUDA_TRY(err, cudaGraphLaunch(graph->exec, d->state->stream));
    return 0;
}

static void gpu_graph_free(const struct device *d, struct device_graph *graph)
{
    if (!graph)
        return;
    (void)cudaSetDevice(d->kern.ordinal);
    (void)cudaGraphExecDestroy(graph->exec);
    (void)cudaGetLastError();
    free(graph);
}

/* ---- order --------------------------------------------------------- */

/* Kernels of this project let the next one start before they have ended, which
 * waits for them by itself (kernels/cuda/launch.cuh).  Not every kernel of a
 * library does: after our pooling a convolution of cuDNN 9.19 read a residual
 * before it was written (engine 4, on an H200).  Kernels of libraries are taken
 * to keep the order among themselves. */
static int gpu_order(const struct device *d, enum infer_backend backend,
                     void *stream, struct infer_error *err)
{
    struct device_state *s = d->state;
    int rc;

    if (!device_needs_fence(&s->foreign, backend, stream))
        return 0;
    rc = cuda_fence(stream, err);
    if (rc < 0)
        s->foreign = NULL;
    return rc;
}

/* ---- branches ------------------------------------------------------ */

/* The side stream fills the gaps of the first stream, which has the higher
 * priority. */
static int open_side(struct device_state *s, struct infer_error *err)
{
    int least = 0, greatest = 0;

    if (!s->fork)
        CUDA_TRY(err,
                 cudaEventCreateWithFlags(&s->fork, cudaEventDisableTiming));
    CUDA_TRY(err, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_TRY(err, cudaStreamCreateWithPriority(&s->side, cudaStreamNonBlocking,
                                               least));
    return 0;
}

static int gpu_branch(const struct device *d, struct infer_error *err,
                      void **stream)
{
    struct device_state *s = d->state;
    int rc = s->side ? 0 : open_side(s, err);

    if (rc < 0)
        return rc;
    s->foreign = NULL; /* one stream follows the other from here on */
    CUDA_TRY(err, cudaEventRecord(s->fork, s->stream));
    CUDA_TRY(err, cudaStreamWaitEvent(s->side, s->fork, 0));
    *stream = s->side;
    return 0;
}

static int gpu_rejoin(const struct device *d, struct infer_error *err)
{
    struct device_state *s = d->state;

    if (!s->side) /* branch() could not open it */
        return 0;
    s->foreign = NULL;
    CUDA_TRY(err, cudaEventRecord(s->fork, s->side));
    CUDA_TRY(err, cudaStreamWaitEvent(s->stream, s->fork, 0));
    return 0;
}

/* ---- time ---------------------------------------------------------- */

static int add_marks(struct device_state *s, int n, struct infer_error *err)
{
    cudaEvent_t *marks = realloc(s->marks, (size_t)n * sizeof *s->marks);

    if (!marks)
        return error_set(err, INFER_EMEMORY, "out of memory");
    s->marks = marks;
    while (s->n_marks < n) {
        CUDA_TRY(err, cudaEventCreate(&s->marks[s->n_marks]));
        s->n_marks++;
    }
    return 0;
}

static int gpu_mark(const struct device *d, int index, struct infer_error *err)
{
    struct device_state *s = d->state;

    if (index >= s->n_marks) {
        const int rc = add_marks(s, 2 * index + 64, err);

        if (rc < 0)
            return rc;
    }
    CUDA_TRY(err, cudaEventRecord(s->marks[index], s->stream));
    return 0;
}

static int gpu_elapsed(const struct device *d, int index,
                       struct infer_error *err, double *seconds)
{
    float milliseconds = 0;

    CUDA_TRY(err,
             cudaEventElapsedTime(&milliseconds, d->state->marks[index - 1],
                                  d->state->marks[index]));
    *seconds = (double)milliseconds * 1e-3;
    return 0;
}

/* ---- opening ------------------------------------------------------- */

/* "580.159.04": the driver's release, "" where the system does not say.  The
 * line is "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  ...". */
static void driver_release(char *out, size_t bytes)
{
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    char word[64];

    out[0] = '\0';
    while (f && out[0] == '\0' && fscanf(f, "%63s", word) == 1)
        if (word[strspn(word, "0123456789.")] == '\0' && strchr(word, '.'))
            snprintf(out, bytes, "%s", word);
    if (f)
        fclose(f);
}

static int gpu_describe(const struct device *d, struct infer_error *err,
                        char *text, size_t bytes)
{
    char name[80], release[32];
    int driver = 0, rc;

    rc = cuda_device_name(d->kern.ordinal, err, name, sizeof name);
    if (rc < 0)
        return rc;
    CUDA_TRY(err, cudaDriverGetVersion(&driver));
    driver_release(release, sizeof release);
    snprintf(text, bytes, "%s, driver %s%sCUDA %d.%d", name, release,
             release[0] ? " " : "", driver / 1000, driver % 1000 / 10);
    return 0;
}

static void gpu_identify(const struct device *d, char *name, size_t name_bytes,
                         char *runtime, size_t runtime_bytes)
{
    int driver = 0, version = 0;

    snprintf(name, name_bytes, "NVIDIA GPU");
    (void)cuda_device_name(d->kern.ordinal, NULL, name, name_bytes);
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&version);
    snprintf(runtime, runtime_bytes,
             "CUDA runtime %d.%d, driver for CUDA %d.%d", version / 1000,
             version % 1000 / 10, driver / 1000, driver % 1000 / 10);
}

static void gpu_close(struct device *d)
{
    struct device_state *s = d->state;
    int i;

    if (!s)
        return;
    (void)cudaSetDevice(d->kern.ordinal);
    for (i = 0; i < s->n_marks; i++)
        (void)cudaEventDestroy(s->marks[i]);
    if (s->order)
        (void)cudaEventDestroy(s->order);
    if (s->fork)
        (void)cudaEventDestroy(s->fork);
    if (s->side)
        (void)cudaStreamDestroy(s->side);
    if (s->stage)
        (void)cudaFreeHost(s->stage);
    if (s->stream)
        (void)cudaStreamDestroy(s->stream);
    (void)cudaGetLastError();
    free(s->marks);
    free(s->arrival);
    free(s);
    d->state = NULL;
}

static const struct device_ops device_cuda = {
    .name = "cuda",
    .host_memory = false,
    .alloc = gpu_alloc,
    .free = gpu_free,
    .copy_in = gpu_copy_in,
    .copy_out = gpu_copy_out,
    .copy_within = gpu_copy_within,
    .begin = gpu_begin,
    .end = gpu_end,
    .describe = gpu_describe,
    .identify = gpu_identify,
    .enter = enter,
    .check_memory = gpu_check_memory,
    .reserve = gpu_reserve,
    .stage = gpu_stage,
    .alloc_host = gpu_alloc_host,
    .free_host = gpu_free_host,
    .copy_in_later = gpu_copy_in_later,
    .copy_beside = gpu_copy_beside,
    .give_up = gpu_give_up,
    .record_begin = gpu_record_begin,
    .record_end = gpu_record_end,
    .replay = gpu_replay,
    .graph_free = gpu_graph_free,
    .order = gpu_order,
    .branch = gpu_branch,
    .rejoin = gpu_rejoin,
    .mark = gpu_mark,
    .elapsed = gpu_elapsed,
    .close = gpu_close,
};

static int open_state(struct device_state *s, void *stream,
                      struct infer_error *err)
{
    s->caller = (cudaStream_t)stream;
    CUDA_TRY(err, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    CUDA_TRY(err, cudaEventCreateWithFlags(&s->order, cudaEventDisableTiming));
    return 0;
}

static int attribute(int ordinal, enum cudaDeviceAttr which)
{
    int value = 0;

    if (cudaDeviceGetAttribute(&value, which, ordinal) == cudaSuccess)
        return value;
    (void)cudaGetLastError();
    return 0;
}

/* Clocks are told in kHz. */
static struct device_rates read_rates(const struct kern_device *d)
{
    return device_rates_of_gpu(
        d->sm, d->multiprocessors,
        1e3 * attribute(d->ordinal, cudaDevAttrClockRate),
        1e3 * attribute(d->ordinal, cudaDevAttrMemoryClockRate),
        attribute(d->ordinal, cudaDevAttrGlobalMemoryBusWidth));
}

int device_cuda_open(int ordinal, void *stream, struct infer_error *err,
                     struct device *out)
{
    struct device d;
    int rc;

    memset(&d, 0, sizeof d);
    d.ops = &device_cuda;
    rc = cuda_device_open(ordinal, err, &d.kern);
    if (rc < 0)
        return rc;
    d.state = calloc(1, sizeof *d.state);
    if (!d.state)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = open_state(d.state, stream, err);
    if (rc < 0) {
        gpu_close(&d);
        return rc;
    }
    d.stream = d.state->stream;
    d.rates = read_rates(&d.kern);
    *out = d;
    return 0;
}

bool device_cuda_line(int i, char *text, size_t bytes)
{
    struct infer_error err = {0};
    struct kern_device d;
    char name[256];
    int count = 0;

    if (i == 0) {
        snprintf(text, bytes, "CUDA: runtime %d.%d, code for %s",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
                 CUDA_ARCH_LIST);
        return true;
    }
    const int rc = cuda_device_count(&err, &count), gpu = i - 1;
    if (gpu > 0 && gpu >= count)
        return false;
    if (rc < 0)
        snprintf(text, bytes, "GPU: none usable: %s", err.text);
    else if (count == 0)
        snprintf(text, bytes, "GPU: none");
    else if (cuda_device_name(gpu, &err, name, sizeof name) < 0 ||
             cuda_device_open(gpu, &err, &d) < 0)
        snprintf(text, bytes, "GPU cuda:%d: not usable: %s", gpu, err.text);
    else
        snprintf(text, bytes,
                 "GPU cuda:%d: %s, compute capability %d.%d, %d "
                 "multiprocessors",
                 gpu, name, d.sm / 10, d.sm % 10, d.multiprocessors);
    return true;
}
