/* SPDX-License-Identifier: Apache-2.0 */
/* Describes machine and time of a measurement. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "kernels/backend.h"
#include "libinfer/device/device.h"
#include "tools/kbench/kbench.h"

/* Adds the libraries of a backend that are found here. */
static void add_libraries(enum infer_backend backend, struct kb_machine *out)
{
    for (const struct kern_library *l = kern_backend_of(backend)->library;
         l->name; l++) {
        const size_t used = strlen(out->software);
        const char *version = l->version(NULL);
        if (version)
            snprintf(out->software + used, sizeof(out->software) - used, ", %s",
                     version);
    }
}

static void device_text(const struct device *d, struct kb_machine *out)
{
    char cpu[96];
    const int cores = device_cpu_cores();

    device_cpu_name(cpu, sizeof(cpu));
    snprintf(out->host, sizeof(out->host), "%s, %d core%s", cpu, cores,
             cores == 1 ? "" : "s");
    if (d->ops->identify) {
        char name[96], runtime[64];
        d->ops->identify(d, name, sizeof(name), runtime, sizeof(runtime));
        snprintf(out->device, sizeof(out->device),
                 "%s, %d multiprocessors, compute capability %d.%d", name,
                 d->kern.multiprocessors, d->kern.sm / 10, d->kern.sm % 10);
        snprintf(out->software, sizeof(out->software), "libinfer %s, %s",
                 infer_version(), runtime);
        add_libraries(INFER_BACKEND_CUDNN, out);
        return;
    }
    snprintf(out->device, sizeof(out->device), "%s, %d thread%s", cpu,
             d->kern.threads, d->kern.threads == 1 ? "" : "s");
    snprintf(out->software, sizeof(out->software), "libinfer %s",
             infer_version());
    add_libraries(INFER_BACKEND_ONEDNN, out);
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
