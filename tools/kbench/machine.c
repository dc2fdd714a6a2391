/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when a measurement was taken. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#ifdef HAVE_CUDA
#include "kernels/cuda/cuda_rt.h"
#endif
#ifdef HAVE_CUDNN
#include "kernels/cudnn/cudnn_api.h"
#endif
#ifdef HAVE_ONEDNN
#include "kernels/onednn/onednn.h"
#endif
#include "libinfer/device/device.h"
#include "tools/kbench/kbench.h"

#ifdef HAVE_CUDA
/* The libraries of the rivals, where they are here. */
static void add_vendor(struct kb_machine *out)
{
#ifdef HAVE_CUDNN
    const char *const text[] = {kern_cudnn_version(NULL),
                                kern_cublas_version(NULL)};

    for (int i = 0; i < 2; i++) {
        const size_t used = strlen(out->software);
        if (text[i])
            snprintf(out->software + used, sizeof(out->software) - used, ", %s",
                     text[i]);
    }
#else
    (void)out;
#endif
}
#endif

static void device_text(const struct device *d, struct kb_machine *out)
{
    char cpu[96];
    const int cores = device_cpu_cores();

    device_cpu_name(cpu, sizeof(cpu));
    snprintf(out->host, sizeof(out->host), "%s, %d core%s", cpu, cores,
             cores == 1 ? "" : "s");
    snprintf(out->device, sizeof(out->device), "%s, %d thread%s", cpu,
             d->kern.threads, d->kern.threads == 1 ? "" : "s");
    snprintf(out->software, sizeof(out->software), "libinfer %s",
             infer_version());
#ifdef HAVE_ONEDNN
    snprintf(out->software, sizeof(out->software), "libinfer %s, %s",
             infer_version(), kern_onednn_version());
#endif
#ifdef HAVE_CUDA
    if (d->kern.kind == KERN_CUDA) {
        char name[96] = "NVIDIA GPU";
        int driver = 0, runtime = 0;

        (void)cuda_device_name(d->kern.ordinal, NULL, name, sizeof(name));
        (void)cudaDriverGetVersion(&driver);
        (void)cudaRuntimeGetVersion(&runtime);
        snprintf(out->device, sizeof(out->device),
                 "%s, %d multiprocessors, compute capability %d.%d", name,
                 d->kern.multiprocessors, d->kern.sm / 10, d->kern.sm % 10);
        snprintf(out->software, sizeof(out->software),
                 "libinfer %s, CUDA runtime %d.%d, driver for CUDA %d.%d",
                 infer_version(), runtime / 1000, runtime % 1000 / 10,
                 driver / 1000, driver % 1000 / 10);
        add_vendor(out);
    }
#endif
}

/* The command line, words with spaces in quotes. */
char *kb_command(int argc, char **argv)
{
    size_t bytes = 1, used = 0;

    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 3;
    char *text = malloc(bytes);
    for (int i = 0; text && i < argc; i++) {
        const char *word = argv[i];
        const char *slash = i == 0 ? strrchr(word, '/') : NULL;
        const char *quote = strpbrk(word, " *[]?") ? "'" : "";
        if (slash)
            word = slash + 1;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s",
                                 i ? " " : "", quote, word, quote);
    }
    return text;
}

void kb_machine_describe(const struct device *d, const char *command,
                         struct kb_machine *out)
{
    struct utsname u;
    struct tm tm;
    const time_t now = time(NULL);

    memset(out, 0, sizeof(*out));
    device_text(d, out);
    if (uname(&u) == 0)
        snprintf(out->system, sizeof(out->system), "%.60s %.60s", u.sysname,
                 u.machine);
    if (gmtime_r(&now, &tm))
        strftime(out->date, sizeof(out->date), "%Y-%m-%d %H:%M UTC", &tm);
    out->command = command;
}
