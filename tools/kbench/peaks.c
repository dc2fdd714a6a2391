/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device can do at best, measured like everything else: the fastest
 * kernel of any backend on a large matrix product in each precision, and on a
 * copy of a block far larger than the cache and of one well inside it.  A CPU
 * has a loop of multiply-adds and a copy by all threads besides (peaks_cpu.c).
 */
#include <string.h>

#include "kernels/base/error.h"
#include "tools/kbench/kbench.h"

#define GPU_COLUMNS 4096
#define GPU_ROWS    8192
#define GPU_DEPTH   4096
#define CPU_ROWS    1024
#define ROUNDS      5

/* Bytes copied past the cache; on a GPU each of two blocks. */
#define GPU_COPY ((size_t)512 << 20)
#define CPU_COPY ((size_t)96 << 20)

static bool is_gpu(const struct kb_plan *plan)
{
    return plan->device->kern.kind == KERN_CUDA;
}

/* Time (seconds) and name of the fastest kernel; 0 if none runs. */
static int fastest(const struct kb_plan *given, const struct kern_problem *p,
                   const struct kb_precision *precision,
                   struct infer_error *err, double *seconds, char *name,
                   size_t bytes)
{
    struct kb_plan plan = *given;
    struct kb_cases one = {0};
    struct kb_verification verification;

    *seconds = 0;
    plan.kernels = NULL;
    plan.rounds = ROUNDS;
    plan.cold = false;
    for (int i = 0; i < INFER_BACKEND_COUNT; i++)
        plan.backend[i] = i != INFER_BACKEND_REF;
    struct kb_case *c = kb_cases_add(&one, p, KB_FPROP, precision);
    if (!c)
        return error_set(err, INFER_EMEMORY, "out of memory");
    int rc = kb_verification_new(p, plan.seed, &verification, err);
    if (rc == 0) {
        rc = kb_bench(&plan, &verification, c, err);
        kb_verification_free(&verification);
    }
    for (int s = 0; s < KB_SIDES; s++) {
        const int best = c->best[s];
        if (best < 0)
            continue;
        const double t = c->result[best].time.min;
        if (*seconds == 0 || t < *seconds) {
            *seconds = t;
            kb_kernel_text(&c->result[best], name, bytes);
        }
    }
    kb_cases_clear(&one);
    return rc;
}

static int measure_flops(const struct kb_plan *plan,
                         const struct kb_precision *precision,
                         struct kb_peak *out, struct infer_error *err)
{
    const int64_t rows = is_gpu(plan) ? GPU_ROWS : CPU_ROWS;
    const int64_t columns = is_gpu(plan) ? GPU_COLUMNS : CPU_ROWS;
    const int64_t depth = is_gpu(plan) ? GPU_DEPTH : CPU_ROWS;
    struct kb_figures f;
    struct kern_problem p;
    double seconds;
    char name[128];

    kb_figures_init(&f, KERN_DENSE_FPROP);
    f.n = rows;
    f.k = columns;
    f.c = depth;
    int rc = kb_figures_problem(&f, precision, KERN_NHWC, err, &p);
    if (rc == 0)
        rc = fastest(plan, &p, precision, err, &seconds, name, sizeof(name));
    if (rc == 0 && seconds > 0) {
        out->value = kern_problem_flops(&p) / seconds;
        snprintf(out->how, sizeof(out->how), "%s, %lldx%lldx%lld", name,
                 (long long)rows, (long long)columns, (long long)depth);
    }
    if (rc == 0 && !is_gpu(plan)) {
        const double loop = kb_cpu_flops(plan->device->kern.threads);
        if (loop > out->value) {
            out->value = loop;
            snprintf(out->how, sizeof(out->how),
                     "a loop of multiply-adds, threads: %d",
                     plan->device->kern.threads);
        }
    }
    return rc;
}

/* Copies from a block of `bytes` to another. */
static int measure_copy(const struct kb_plan *plan, size_t bytes,
                        struct kb_peak *out, struct infer_error *err)
{
    /* Images, so that a sample of them can be verified. */
    const int64_t dim[] = {64, (int64_t)(bytes / 64 / sizeof(float))};
    struct kern_problem p = {.op = KERN_COPY, .n_in = 1, .n_out = 1};
    double seconds;
    char name[128];

    p.in[0] = p.out[0] = kern_tensor_dense(INFER_F32, 2, dim, KERN_NCHW);
    const int rc = fastest(plan, &p, kb_precision_find("fp32"), err, &seconds,
                           name, sizeof(name));
    if (rc == 0 && seconds > 0) {
        out->value = kern_problem_bytes(&p) / seconds;
        snprintf(out->how, sizeof(out->how),
                 "%s, %zu MiB to another block, read and written", name,
                 bytes >> 20);
    }
    if (rc == 0 && !is_gpu(plan)) {
        const double copied = kb_cpu_copy(plan->device->kern.threads, bytes);
        if (copied > out->value) {
            out->value = copied;
            snprintf(out->how, sizeof(out->how),
                     "memcpy, threads: %d, %zu KiB, read and written",
                     plan->device->kern.threads, bytes >> 10);
        }
    }
    return rc;
}

/* Shortest time of a launch in a series: a copy of a few numbers. */
static int measure_launch(const struct kb_plan *plan, double *out,
                          struct infer_error *err)
{
    const int64_t dim[] = {4, 16};
    struct kern_problem p = {.op = KERN_COPY, .n_in = 1, .n_out = 1};
    char name[128];

    p.in[0] = p.out[0] = kern_tensor_dense(INFER_F32, 2, dim, KERN_NCHW);
    return fastest(plan, &p, kb_precision_find("fp32"), err, out, name,
                   sizeof(name));
}

int kb_peaks_measure(const struct kb_plan *plan,
                     const struct kb_precision *const *precision, int n,
                     struct kb_peaks *out, struct infer_error *err)
{
    const size_t large = is_gpu(plan) ? GPU_COPY : CPU_COPY;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    out->cache_bytes = plan->cache_bytes / 2;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = measure_flops(plan, precision[i],
                           &out->flops[kb_precision_index(precision[i])], err);
    if (rc == 0)
        rc = measure_copy(
            plan, large > 4 * plan->cache_bytes ? large : 4 * plan->cache_bytes,
            &out->memory, err);
    if (rc == 0)
        rc = measure_launch(plan, &out->launch, err);
    if (rc == 0 && plan->cache_bytes >= (size_t)1 << 20)
        rc = measure_copy(plan, plan->cache_bytes / 4, &out->cache, err);
    return rc;
}
