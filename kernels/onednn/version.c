/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the backend beside its rows, also where there is none: the
 * name of the oneDNN that is linked, its threads, narrower vectors. */
#include "config.h"

#include "kernels/onednn/onednn.h"

#include <stddef.h>

#ifdef HAVE_ONEDNN

#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/onednn/pages.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char text[96];

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    switch (isa) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx512_mic:
    case dnnl_cpu_isa_avx512_mic_4ops:
        return "avx512_mic";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return "generic";
    }
}

static void fill(void)
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(text, sizeof text, "oneDNN %d.%d.%d (%s)", v->major, v->minor,
             v->patch, isa_name(dnnl_get_effective_cpu_isa()));
}

const char *kern_onednn_version(void)
{
    pthread_once(&once, fill);
    return text;
}

void kern_onednn_each(int threads, int64_t n,
                      void (*fn)(void *context, int64_t i), void *context)
{
    cpu_each(threads, n, fn, context);
}

void kern_onednn_settle(void)
{
    onednn_drop_pages();
}

bool kern_onednn_limit(const char *isa)
{
    const bool avx2 = strcmp(isa, "avx2") == 0;

    if (!avx2 && strcmp(isa, "sse41") != 0)
        return false;
    cpu_limit = avx2 ? CPU_AVX2 : CPU_SSE41;
    return dnnl_set_max_cpu_isa(avx2 ? dnnl_cpu_isa_avx2
                                     : dnnl_cpu_isa_sse41) == dnnl_success;
}

#else

const char *kern_onednn_version(void)
{
    return NULL;
}

void kern_onednn_each(int threads, int64_t n,
                      void (*fn)(void *context, int64_t i), void *context)
{
    int64_t i;

    (void)threads;
    for (i = 0; i < n; i++)
        fn(context, i);
}

void kern_onednn_settle(void)
{
}

bool kern_onednn_limit(const char *isa)
{
    (void)isa;
    return false;
}

#endif
