/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 8 bits by wgmma (sm_90a). */
#ifndef KERNELS_CUDA_QUANT_WGMMA_PRODUCTS_CUH
#define KERNELS_CUDA_QUANT_WGMMA_PRODUCTS_CUH

#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/hopper.cuh"

/* d = a b + (add ? d : 0) for a 64 x N tile, 32 deep, as wgmma_mma() of floats:
 * a of the type of the first argument, b of I8, both K-major. */
/* clang-format off */
#define QUANT_R4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define QUANT_R16(i)                                                          \
    QUANT_R4(i), QUANT_R4(i + 4), QUANT_R4(i + 8), QUANT_R4(i + 12)
#define QUANT_R32(i) QUANT_R16(i), QUANT_R16(i + 16)
#define QUANT_R64(i) QUANT_R32(i), QUANT_R32(i + 32)
#define QUANT_R128(i) QUANT_R64(i), QUANT_R64(i + 64)

/* n columns in n / 2 registers; ia, ib and ip number the operands that follow
 * the registers. */
#define QUANT_WGMMA_OF(T, type, n, regs, ia, ib, ip)                           \
    static __device__ __forceinline__ void wgmma_mma(                          \
        T, int(&d)[regs], uint64_t a, uint64_t b, bool add)                    \
    {                                                                          \
        HOPPER_ASM("{\n.reg .pred p;\n"                                        \
                   "setp.ne.b32 p, %" #ip ", 0;\n"                             \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." type      \
                   ".s8 {" WGMMA_D##regs "}, %" #ia ", %" #ib ", p;\n}"        \
                   : QUANT_R##regs(0)                                          \
                   : "l"(a), "l"(b), "r"(add ? 1 : 0));                        \
    }
/* clang-format on */
#define QUANT_WGMMA(...)                                                       \
    QUANT_WGMMA_OF(uint8_t, "u8", __VA_ARGS__)                                 \
    QUANT_WGMMA_OF(int8_t, "s8", __VA_ARGS__)

QUANT_WGMMA(32, 16, 16, 17, 18)
QUANT_WGMMA(64, 32, 32, 33, 34)
QUANT_WGMMA(128, 64, 64, 65, 66)
QUANT_WGMMA(256, 128, 128, 129, 130)

/* The same of F8E4M3, by sums in single precision. */
/* clang-format off */
#define FLOAT8_WGMMA(n, regs, ia, ib, ip)                                      \
    static __device__ __forceinline__ void wgmma_mma(                          \
        float8, float(&d)[regs], uint64_t a, uint64_t b, bool add)             \
    {                                                                          \
        HOPPER_ASM("{\n.reg .pred p;\n"                                        \
                   "setp.ne.b32 p, %" #ip ", 0;\n"                             \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3"       \
                   ".e4m3 {" WGMMA_D##regs "}, %" #ia ", %" #ib                \
                   ", p, 1, 1;\n}"                                             \
                   : WGMMA_R##regs(0)                                          \
                   : "l"(a), "l"(b), "r"(add ? 1 : 0));                        \
    }
/* clang-format on */
FLOAT8_WGMMA(32, 16, 16, 17, 18)
FLOAT8_WGMMA(64, 32, 32, 33, 34)
FLOAT8_WGMMA(128, 64, 64, 65, 66)
FLOAT8_WGMMA(192, 96, 96, 97, 98)
FLOAT8_WGMMA(256, 128, 128, 129, 130)
#undef FLOAT8_WGMMA

#endif
