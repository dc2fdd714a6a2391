/* SPDX-License-Identifier: Apache-2.0 */
/* Peak rates of a CPU: multiply-adds in registers, and copies. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/clones.h"
#include "libinfer/device/cpu_wait.h"
#include "tools/kbench/kbench.h"

/* Independent sums that keep two multiply-add units of latency 4 busy, with
 * room to spare; each is a vector of 16 numbers, one register of AVX-512. */
#define SUMS   12
#define WIDTH  16
#define STEPS  100000
#define ROUNDS 7

typedef float vector __attribute__((vector_size(WIDTH * sizeof(float))));

/* STEPS * SUMS * WIDTH multiply-adds.  The values stay near 1. */
CPU_CLONES static void multiply_add(float *out)
{
    vector sum[SUMS], a, b;

    for (int i = 0; i < WIDTH; i++) {
        a[i] = 0.999f + out[0] * 1e-9f;
        b[i] = 0.001f;
    }
#pragma GCC unroll 12
    for (int k = 0; k < SUMS; k++)
        sum[k] = a + (float)k;
    /* Unrolled, the sums stay in registers. */
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++)
            sum[k] = sum[k] * a + b;
#pragma GCC unroll 12
    for (int k = 1; k < SUMS; k++)
        sum[0] += sum[k];
    out[0] = sum[0][0] + sum[0][WIDTH - 1];
}

double kb_cpu_flops(int threads)
{
    const double each = 2.0 * STEPS * SUMS * WIDTH;
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        cpu_wait_look(threads);
        const double start = cli_now();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int t = 0; t < threads; t++) {
            float out = (float)t;
            multiply_add(&out);
            /* Uses the result, so that the compiler keeps the loop. */
            const volatile float used = out;
            (void)used;
        }
        const double rate = each * threads / (cli_now() - start);
        if (rate > best)
            best = rate;
    }
    return best;
}

double kb_cpu_copy(int threads, size_t bytes)
{
    const size_t part = bytes / (size_t)threads;
    const int repeat = bytes < (size_t)8 << 20 ? 16 : 1;
    char *from = malloc(bytes), *to = malloc(bytes);
    double best = 0;

    if (from && to) {
        memset(from, 1, bytes);
        memset(to, 2, bytes);
    }
    for (int round = 0; from && to && round < ROUNDS; round++) {
        cpu_wait_look(threads);
        const double start = cli_now();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int t = 0; t < threads; t++)
            for (int i = 0; i < repeat; i++)
                memcpy(to + (size_t)t * part, from + (size_t)t * part, part);
        const double rate =
            2.0 * (double)part * threads * repeat / (cli_now() - start);
        if (rate > best)
            best = rate;
    }
    free(from);
    free(to);
    return best;
}
