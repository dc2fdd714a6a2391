/* SPDX-License-Identifier: Apache-2.0 */
/* The devices and libraries of this machine and this build, for people and for
 * bug reports. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/memory_size.h"
#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/image/image.h"
#include "libinfer/tune/tune_cache.h"

/* A report that counts on where the buffer ends. */
struct report {
    char *text;
    size_t room, length;
};

static void say(struct report *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct report *r, const char *fmt, ...)
{
    bool fits = r->length < r->room;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(fits ? r->text + r->length : NULL,
                  fits ? r->room - r->length : 0, fmt, args);
    va_end(args);
    if (n > 0)
        r->length += (size_t)n;
}

static void say_processor(struct report *r)
{
    char name[64];

    say(r, "processor: %s\n", device_cpu_name(name, sizeof name));
}

static void say_simd(struct report *r)
{
#if defined(__x86_64__) || defined(__i386__)
    static const char none[] = " none beyond the baseline";
    size_t before;

    __builtin_cpu_init();
    say(r, "simd:");
    before = r->length;
#define SAY(feature)                                                           \
    if (__builtin_cpu_supports(feature))                                       \
    say(r, " %s", feature)
    SAY("sse4.2");
    SAY("avx");
    SAY("fma");
    SAY("avx2");
    SAY("avx512f");
    SAY("avx512bw");
    SAY("avx512vl");
    SAY("avx512vnni");
    SAY("avx512bf16");
#undef SAY
    say(r, "%s\n", r->length == before ? none : "");
#else
    say(r, "simd: unknown\n");
#endif
}

static void say_kernels(struct report *r)
{
    int count[INFER_BACKEND_COUNT] = {0};
    size_t i;

    for (i = 0; i < kern_row_count(); i++)
        count[kern_row_at(i)->backend]++;
    for (i = INFER_BACKEND_AUTO + 1; i < INFER_BACKEND_COUNT; i++)
        if (count[i] > 0)
            say(r, "backend %s: %d kernels\n", device_backend_names[i],
                count[i]);
        else
            say(r, "backend %s: not built\n", device_backend_names[i]);
}

static void say_cuda(struct report *r)
{
#ifdef HAVE_CUDA
    char line[512];

    for (int i = 0; device_cuda_line(i, line, sizeof line); i++)
        say(r, "%s\n", line);
#else
    say(r, "CUDA: not built\n");
#endif
}

/* The libraries of a backend, or why they are not there. */
static void say_libraries(struct report *r, enum infer_backend backend,
                          const char *name)
{
    const struct kern_library *l = kern_backend_of(backend)->library;

    if (!l->name)
        say(r, "%s: not built\n", name);
    for (; l->name; l++) {
        struct infer_error why = {0};
        const char *version = l->version(&why);

        say(r, "%s: %s\n", l->name, version ? version : why.text);
    }
}

/* Threads of a run by default, and the variables of OpenMP that change how they
 * wait and where they run. */
static void say_threads(struct report *r)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY",
                                        "OMP_PROC_BIND", "OMP_PLACES",
                                        "GOMP_SPINCOUNT"};

    say(r, "threads: %d by default", device_cpu_threads());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);

        if (value)
            say(r, ", %s=%.80s", names[i], value);
    }
    say(r, "\n");
}

static void say_memory(struct report *r)
{
    const double gib = (double)memory_size() / (double)(1 << 30);

    say(r, "memory: %.1f GiB for this process, plans up to %.1f GiB\n", gib,
        0.75 * gib);
}

static void say_tuning(struct report *r)
{
    char *path = tune_cache_usual_path();

    say(r, "tuning cache: %s\n",
        path ? path : "none (neither XDG_CACHE_HOME nor HOME is set)");
    free(path);
}

size_t infer_doctor(char *text, size_t bytes)
{
    struct report r = {text, text ? bytes : 0, 0};

    if (r.room > 0)
        text[0] = '\0';
    say(&r, "libinfer: %s\n", infer_version());
    say_processor(&r);
    say_simd(&r);
    say(&r, "cores: %d usable by this process\n", device_cpu_cores());
    say_threads(&r);
    say_memory(&r);
    say(&r, "default device: cpu\n");
    say_libraries(&r, INFER_BACKEND_ONEDNN, "oneDNN");
    say_kernels(&r);
    say_cuda(&r);
    say_libraries(&r, INFER_BACKEND_CUDNN, "cuDNN");
    say(&r, "PNG: libpng %s\n", image_png_version());
    say(&r, "JPEG: %s\n", image_jpeg_version());
    say_tuning(&r);
    return r.length;
}
