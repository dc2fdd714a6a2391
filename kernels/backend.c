/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends. */
#include "config.h"

#include "kernels/backend.h"

#include <pthread.h>
#include <stdio.h>

static const struct kern_backend on_cpu = {.device = KERN_CPU};
static const struct kern_backend on_gpu = {.device = KERN_CUDA};

/* kernels/onednn/version.c, kernels/cudnn/library.c */
extern const struct kern_backend kern_backend_onednn, kern_backend_cudnn;

static const struct kern_backend *const backends[INFER_BACKEND_COUNT] = {
    [INFER_BACKEND_AUTO] = &on_cpu,
    [INFER_BACKEND_REF] = &on_cpu,
    [INFER_BACKEND_CPU] = &on_cpu,
    [INFER_BACKEND_CUDA] = &on_gpu,
#ifdef HAVE_ONEDNN
    [INFER_BACKEND_ONEDNN] = &kern_backend_onednn,
#else
    [INFER_BACKEND_ONEDNN] = &on_cpu,
#endif
#ifdef HAVE_CUDNN
    [INFER_BACKEND_CUDNN] = &kern_backend_cudnn,
#else
    [INFER_BACKEND_CUDNN] = &on_gpu,
#endif
};

const struct kern_backend *kern_backend_of(enum infer_backend backend)
{
    return backends[backend];
}

static char library_text[INFER_BACKEND_COUNT][160];

static void name_libraries(const struct kern_library *l, char *text,
                           size_t bytes)
{
    size_t used = 0;

    for (; l->name && used < bytes; l++) {
        const char *version = l->version(NULL);

        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s",
                                 used > 0 ? ", " : "", version ? "" : "no ",
                                 version ? version : l->name);
    }
}

const char *kern_backend_libraries(enum infer_backend backend)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char *text = library_text[backend];

    pthread_mutex_lock(&lock);
    if (text[0] == '\0')
        name_libraries(backends[backend]->library, text,
                       sizeof library_text[0]);
    pthread_mutex_unlock(&lock);
    return text;
}
