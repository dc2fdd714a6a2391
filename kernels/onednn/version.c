/* SPDX-License-Identifier: Apache-2.0 */
/* The oneDNN that is linked: its version and its vector instructions. */
#include "config.h"

#include <dnnl.h>
#include <pthread.h>
#include <stdio.h>

#include "kernels/backend.h"
#include "kernels/onednn/pages.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char text[96];

static const char *isa_name(dnnl_cpu_isa_t isa)
{
    switch ((int)isa) {
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

/* "oneDNN 2.6.3 (avx512_core)": the widest vectors that it uses here. */
static const char *version(struct infer_error *why)
{
    (void)why;
    pthread_once(&once, fill);
    return text;
}

extern const struct kern_backend kern_backend_onednn;
const struct kern_backend kern_backend_onednn = {
    .device = KERN_CPU,
    .library = {{"oneDNN", version}},
    .settle = onednn_drop_pages,
};
