/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 8 bits on tensor cores through mma.sync: integers from sm_80 on,
 * F8E4M3 from sm_89 on. */
#ifndef KERNELS_CUDA_QUANT_MMA_CUH
#define KERNELS_CUDA_QUANT_MMA_CUH

#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/ptx.cuh"

/* d += a b for one 16x8 tile, 32 deep, as ptx_mma() of floats: a of the type of
 * the first argument, b of I8.  The fragments lie as those of 16-bit types do,
 * two of theirs being four bytes. */
#if PTX_SM80
#define QUANT_MMA(T, type)                                                     \
    static __device__ __forceinline__ void ptx_mma(                            \
        T, int d[4], const uint32_t a[4], const uint32_t b[2])                 \
    {                                                                          \
        asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 "           \
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"            \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),           \
              "r"(b[1]));                                                      \
    }
QUANT_MMA(uint8_t, "u8")
QUANT_MMA(int8_t, "s8")
#undef QUANT_MMA
#else /* no row runs there */
template <typename T>
static __device__ __forceinline__ void ptx_mma(T, int *, const uint32_t *,
                                               const uint32_t *)
{
}
#endif

#if __CUDA_ARCH__ >= 890
static __device__ __forceinline__ void
ptx_mma(float8, float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else /* no row runs there */
static __device__ __forceinline__ void
ptx_mma(float8, float *, const uint32_t *, const uint32_t *)
{
}
#endif

/* d + the products of four bytes of x, of the type of the first argument, with
 * four of I8. */
static __device__ __forceinline__ int quant_dot4(uint8_t, uint32_t x,
                                                 uint32_t w, int d)
{
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(d) : "r"(x), "r"(w));
    return d;
}

static __device__ __forceinline__ int quant_dot4(int8_t, uint32_t x, uint32_t w,
                                                 int d)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(d) : "r"(x), "r"(w));
    return d;
}

#endif
