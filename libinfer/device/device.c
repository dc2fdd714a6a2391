/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by name. */
#include "config.h"

#include "libinfer/device/device.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/denormals.h"
#include "kernels/base/error.h"
#include "libinfer/device/cpu_wait.h"

/* Above so many threads loading is bound by memory bandwidth. */
#define CPU_LOADERS 8
/* Each thread holds one constant in host memory, within plan_prepare()'s
 * bound. */
#define GPU_LOADERS 8

static int at_most(int n, int limit)
{
    return n < limit ? n : limit;
}

/* N of "cuda" (0) or "cuda:N"; -1 where that is no number. */
static int ordinal_of(const char *name)
{
    char *end;
    long n;

    if (name[4] == '\0')
        return 0;
    if (name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    n = strtol(name + 5, &end, 10);
    return errno == 0 && *end == '\0' && n <= INT_MAX ? (int)n : -1;
}

/* OpenMP's threads begin now: without memory for them the process ends
 * (libgomp), which is better at the start than in a run. */
static void begin_threads(int threads)
{
    const uint64_t word = denormals_word();

    kern_cpu_all(threads, denormals_flush);
    denormals_restore(word);
}

#ifdef HAVE_CUDA
static void begin(void)
{
}
#endif

static int open_cuda(const char *name, int threads, void *stream,
                     struct infer_error *err, struct device *out)
{
    const int ordinal = ordinal_of(name);

    if (ordinal < 0)
        return error_set(err, INFER_EARGUMENT,
                         "device '%s': expected cuda or cuda:N", name);
#ifdef HAVE_CUDA
    int rc = device_cuda_open(ordinal, stream, err, out);

    if (rc < 0) {
        error_prefix(err, "device %s", name);
        return rc;
    }
    out->loaders =
        at_most(threads > 0 ? threads : device_cpu_threads(), GPU_LOADERS);
    kern_cpu_all(out->loaders, begin);
    return 0;
#else
    (void)threads;
    (void)stream;
    (void)out;
    return error_set(err, INFER_EDEVICE,
                     "device %s: this build has no CUDA support", name);
#endif
}

int device_open(const char *name, int threads, void *stream,
                struct infer_error *err, struct device *out)
{
    if (threads < 0)
        return error_set(err, INFER_EARGUMENT,
                         "threads: %d, expected 0 (most cores) or more",
                         threads);
    if (name && strncmp(name, "cuda", 4) == 0 &&
        (name[4] == '\0' || name[4] == ':'))
        return open_cuda(name, threads, stream, err, out);
    if (name && strcmp(name, "cpu") != 0)
        return error_set(err, INFER_EARGUMENT,
                         "device '%s': unknown (supported: cpu, cuda, cuda:N)",
                         name);
    if (stream)
        return error_set(err, INFER_EARGUMENT,
                         "stream: given, but device cpu has none");
    memset(out, 0, sizeof *out);
    out->ops = &device_cpu;
    out->kern.kind = KERN_CPU;
    out->kern.threads = threads > 0 ? threads : device_cpu_threads();
    out->loaders = at_most(out->kern.threads, CPU_LOADERS);
    begin_threads(out->kern.threads);
    if (out->kern.threads > 1)
        cpu_wait_open();
    return 0;
}

void device_close(struct device *d)
{
    if (d->ops && d->ops->close)
        d->ops->close(d);
    memset(d, 0, sizeof *d);
}

int device_launch(const struct device *d, const struct kern_exec *exec,
                  const struct kern_args *args, struct infer_error *err)
{
    const struct kern_row *row = exec->row;
    int rc = 0;

    if (d->ops->host_memory && d->kern.threads > 1)
        cpu_wait_look(d->kern.threads);
    if (d->ops->order)
        rc = d->ops->order(d, row->backend, args->stream, err);
    return rc < 0 ? rc : row->fn->launch(exec, args, err);
}

int device_record_end(const struct device *d, int rc, struct infer_error *err,
                      struct device_graph **out)
{
    if (rc == 0)
        return d->ops->record_end(d, err, out);
    (void)d->ops->record_end(d, NULL, NULL);
    return rc;
}

bool device_needs_fence(const void **foreign, enum infer_backend backend,
                        const void *stream)
{
    const bool library = backend == INFER_BACKEND_CUDNN;
    const bool known = *foreign == stream;

    if (library)
        *foreign = stream;
    else if (known)
        *foreign = NULL;
    return library && !known;
}

/* ---- backends ------------------------------------------------------ */

const char *const device_backend_names[INFER_BACKEND_COUNT + 1] = {
    "auto", "ref", "onednn", "cuda", "cudnn", "cpu", NULL};
const char *const device_precision_names[] = {"fp32", "tf32", "fp16",
                                              "bf16", "best", NULL};

bool device_has_rows(enum infer_backend backend)
{
    for (size_t i = 0; i < kern_row_count(); i++)
        if (kern_row_at(i)->backend == backend)
            return true;
    return false;
}

int device_check_backend(const struct device *d, enum infer_backend backend,
                         struct infer_error *err)
{
    const bool gpu = d->kern.kind == KERN_CUDA;
    const struct kern_backend *b;

    if ((int)backend < 0 || backend >= INFER_BACKEND_COUNT)
        return error_set(err, INFER_EARGUMENT, "backend %d: unknown",
                         (int)backend);
    if (backend == INFER_BACKEND_AUTO)
        return 0;
    b = kern_backend_of(backend);
    if (b->device != d->kern.kind)
        return error_set(err, INFER_EDEVICE,
                         "backend %s: not usable on device %s, only on %s",
                         device_backend_names[backend], gpu ? "cuda" : "cpu",
                         gpu ? "cpu" : "cuda");
    if (!device_has_rows(backend))
        return error_set(err, INFER_EDEVICE,
                         "backend %s: not part of this build",
                         device_backend_names[backend]);
    if (b->open && b->open(err) < 0) {
        error_prefix(err, "backend %s", device_backend_names[backend]);
        return INFER_EDEVICE;
    }
    return 0;
}
