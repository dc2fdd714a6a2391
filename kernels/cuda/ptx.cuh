/* SPDX-License-Identifier: Apache-2.0 */
/* Single instructions of sm_80 that CUDA C does not name.  On older targets
 * they compile to nothing: rows that use them state min_sm 80. */
#ifndef KERNELS_CUDA_PTX_CUH
#define KERNELS_CUDA_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define PTX_SM80     1
#define PTX_ASM(...) asm volatile(__VA_ARGS__)
#else
#define PTX_SM80 0
#define PTX_ASM(...)
#endif

static __device__ __forceinline__ uint32_t ptx_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes of memory as four registers. */
static __device__ __forceinline__ void ptx_load_words(const void *from,
                                                      uint32_t (&to)[4])
{
    const uint4 v = *(const uint4 *)from;

    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

/* Copies BYTES (4, 8 or 16) from global to shared memory; where !valid, writes
 * zeros and does not read. */
template <int BYTES>
static __device__ __forceinline__ void
ptx_cp_async(uint32_t to, const void *from, bool valid)
{
#if PTX_SM80
    const int bytes = valid ? BYTES : 0;

    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                     "l"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                     "l"(from), "n"(BYTES), "r"(bytes)
                     : "memory");
#endif
}

/* Copies BYTES (4, 8 or 16) through L1, for other threads of the multiprocessor
 * that read them too. */
template <int BYTES>
static __device__ __forceinline__ void ptx_cp_async_cached(uint32_t to,
                                                           const void *from)
{
    PTX_ASM("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
            "n"(BYTES)
            : "memory");
}

static __device__ __forceinline__ void ptx_cp_async_commit(void)
{
    PTX_ASM("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most PENDING groups of this thread are in flight. */
template <int PENDING>
static __device__ __forceinline__ void ptx_cp_async_wait(void)
{
    PTX_ASM("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Four 8x8 matrices of 16-bit elements; lanes 8i .. 8i+7 give the addresses of
 * the rows of matrix i.  Lane l receives elements 2(l%4), 2(l%4)+1 of row
 * l/4 of each. */
static __device__ __forceinline__ void ptx_ldmatrix_x4(uint32_t d[4],
                                                       uint32_t from)
{
    PTX_ASM("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
            : "r"(from)
            : "memory");
}

/* The same of each matrix transposed: lane l receives elements l/4 of rows
 * 2(l%4) and the next. */
static __device__ __forceinline__ void ptx_ldmatrix_x4_trans(uint32_t d[4],
                                                             uint32_t from)
{
    PTX_ASM("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
            "{%0,%1,%2,%3}, [%4];"
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
            : "r"(from)
            : "memory");
}

/* d += a b for one 16x8 tile, 32 bytes deep, of the type of the first argument:
 * float is TF32.  Lane l = 4g + t holds d[0..1] = (g, 2t..2t+1) and d[2..3] =
 * (g + 8, 2t..2t+1). */
#if PTX_SM80
#define PTX_MMA(T, shape, type)                                                \
    static __device__ __forceinline__ void ptx_mma(                            \
        T, float d[4], const uint32_t a[4], const uint32_t b[2])               \
    {                                                                          \
        asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 "    \
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"            \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),           \
              "r"(b[1]));                                                      \
    }
PTX_MMA(__half, "m16n8k16", "f16")
PTX_MMA(__nv_bfloat16, "m16n8k16", "bf16")
PTX_MMA(float, "m16n8k8", "tf32")
#else
template <typename T>
static __device__ __forceinline__ void ptx_mma(T, float *, const uint32_t *,
                                               const uint32_t *)
{
}
#endif

#endif
