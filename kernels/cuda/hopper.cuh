/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hopper's own instructions (sm_90a): mbarrier, TMA, wgmma, clusters.  On other
 * targets they compile to nothing, so that a build for several GPUs holds one
 * source; the rows that use them state min_sm 90.
 */
#ifndef KERNELS_CUDA_HOPPER_CUH
#define KERNELS_CUDA_HOPPER_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/ptx.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER          1
#define HOPPER_ASM(...) asm volatile(__VA_ARGS__)
#else
#define HOPPER 0
#define HOPPER_ASM(...)
#endif

/* ---- barriers in shared memory ------------------------------------- */

static __device__ __forceinline__ void mbarrier_init(uint32_t barrier,
                                                     int arrivals)
{
    HOPPER_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

/* Makes initialised barriers visible to TMA. */
static __device__ __forceinline__ void fence_mbarrier_init(void)
{
    HOPPER_ASM("fence.mbarrier_init.release.cluster;" ::: "memory");
    HOPPER_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void mbarrier_arrive(uint32_t barrier)
{
    HOPPER_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

/* Arrives; the phase ends only when `bytes` more have been loaded. */
static __device__ __forceinline__ void
mbarrier_arrive_expect_tx(uint32_t barrier, int bytes)
{
    HOPPER_ASM(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
        "r"(bytes)
        : "memory");
}

/* Waits for the end of the phase of the given parity. */
static __device__ __forceinline__ void mbarrier_wait(uint32_t barrier,
                                                     uint32_t parity)
{
#if HOPPER
    uint32_t done = 0;

    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#endif
}

/* ---- registers ----------------------------------------------------- */

/* Registers of a thread from now on, a multiple of 8, for all warps of a
 * warpgroup. The CTA as a whole keeps those that it was launched with. */
template <int COUNT> static __device__ __forceinline__ void setmaxnreg_dec(void)
{
    HOPPER_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ __forceinline__ void setmaxnreg_inc(void)
{
    HOPPER_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* ---- TMA ----------------------------------------------------------- */

/* A box of a two-dimensional tensor: element c of row r is its corner. */
static __device__ __forceinline__ void
tma_load_2d(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c, int r)
{
    HOPPER_ASM(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(c), "r"(r)
        : "memory");
}

/* The same of a three-dimensional tensor; its outermost index is i. */
static __device__ __forceinline__ void tma_load_3d(uint32_t to,
                                                   const CUtensorMap *map,
                                                   uint32_t barrier, int c,
                                                   int r, int i)
{
    HOPPER_ASM("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
               ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
               "[%2];" ::"r"(to),
               "l"(map), "r"(barrier), "r"(c), "r"(r), "r"(i)
               : "memory");
}

/* `bytes` as they lie, a multiple of 16. */
static __device__ __forceinline__ void
tma_load_bulk(uint32_t to, const void *from, uint32_t barrier, int bytes)
{
    HOPPER_ASM("cp.async.bulk.shared::cluster.global"
               ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/* A column of an image's windows: channels c on, of the pixels at the offset
 * (s, r) from the window that starts at (w, h) of image n, and from those that
 * follow it. */
static __device__ __forceinline__ void
tma_load_im2col(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c,
                int w, int h, int n, int s, int r)
{
    HOPPER_ASM("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
               ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
               "[%2], {%7, %8};" ::"r"(to),
               "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n),
               "h"((uint16_t)s), "h"((uint16_t)r)
               : "memory");
}

/* Writes a box of 64 columns back; what lies outside the tensor is dropped.
 * The copy belongs to the group that tma_store_commit_group() ends. */
static __device__ __forceinline__ void tma_store_2d(const CUtensorMap *map,
                                                    uint32_t from, int c, int r)
{
    HOPPER_ASM("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
               "[%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(c), "r"(r)
               : "memory");
}

static __device__ __forceinline__ void
tma_store_3d(const CUtensorMap *map, uint32_t from, int c, int r, int i)
{
    HOPPER_ASM("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
               "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(c), "r"(r), "r"(i)
               : "memory");
}

static __device__ __forceinline__ void tma_store_commit_group(void)
{
    HOPPER_ASM("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until shared memory is still read for at most PENDING of this thread's
 * groups. */
template <int PENDING>
static __device__ __forceinline__ void tma_store_wait_group(void)
{
    HOPPER_ASM("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Makes this thread's stores to shared memory visible to TMA after the next
 * barrier. */
static __device__ __forceinline__ void fence_proxy_async(void)
{
    HOPPER_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Brings the descriptor of a tensor into its cache. */
static __device__ __forceinline__ void
tma_prefetch_descriptor(const CUtensorMap *map)
{
    HOPPER_ASM("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* ---- shared memory ------------------------------------------------- */

/* The inverse of ptx_ldmatrix_x4(). */
static __device__ __forceinline__ void stmatrix_x4(uint32_t to,
                                                   const uint32_t (&d)[4])
{
    HOPPER_ASM("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
               "{%1, %2, %3, %4};" ::"r"(to),
               "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3])
               : "memory");
}

static __device__ __forceinline__ void ld_shared_v2(uint32_t from, float *x,
                                                    float *y)
{
    *x = *y = 0;
    HOPPER_ASM("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(*x), "=f"(*y)
               : "r"(from)
               : "memory");
}

static __device__ __forceinline__ void st_shared_v2(uint32_t to, float x,
                                                    float y)
{
    HOPPER_ASM("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y)
               : "memory");
}

/* ---- warpgroups and clusters --------------------------------------- */

/* The warpgroup of this thread, in a form that the compiler knows to be the
 * same throughout a warp. */
static __device__ __forceinline__ int warpgroup_index(void)
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
}

/* A named barrier of `threads` threads of the CTA; 0 is __syncthreads()'s. */
static __device__ __forceinline__ void named_barrier_sync(int barrier,
                                                          int threads)
{
    HOPPER_ASM("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* Arrives at a named barrier without waiting. */
static __device__ __forceinline__ void named_barrier_arrive(int barrier,
                                                            int threads)
{
    HOPPER_ASM("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

static __device__ __forceinline__ int cluster_rank(void)
{
    int rank = 0;

    HOPPER_ASM("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ __forceinline__ int cluster_size(void)
{
    int size = 1;

    HOPPER_ASM("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

/* Barrier of all threads of the cluster: stores to shared memory before the
 * first are visible after the second. */
static __device__ __forceinline__ void cluster_arrive(void)
{
    HOPPER_ASM("barrier.cluster.arrive.release;" ::: "memory");
}

static __device__ __forceinline__ void cluster_wait(void)
{
    HOPPER_ASM("barrier.cluster.wait.acquire;" ::: "memory");
}

/* The address in CTA `rank` of the cluster that corresponds to one of this
 * CTA's shared memory. */
static __device__ __forceinline__ uint32_t cluster_map_shared(uint32_t address,
                                                              int rank)
{
    uint32_t there = address;

    HOPPER_ASM("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there)
               : "r"(address), "r"(rank));
    return there;
}

/* Copies shared memory to another CTA of the cluster, where `to` and `barrier`
 * lie; everything in multiples of 16 bytes. The instruction is strictly remote
 * (PTX): memcheck reports a copy to the CTA itself. The source must stay until
 * the copy is done, which only that barrier tells. */
static __device__ __forceinline__ void cluster_copy(uint32_t to, uint32_t from,
                                                    int bytes, uint32_t barrier)
{
    HOPPER_ASM("cp.async.bulk.shared::cluster.shared::cta"
               ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/* ---- wgmma --------------------------------------------------------- */

/* Descriptor of a K-major operand in shared memory: rows of 128 bytes (64
 * halves of depth) in the 128-byte swizzle, groups of 8 rows 1024 bytes apart,
 * aligned to 1024 bytes. The next 16 depths are 32 bytes further on. */
static __device__ __forceinline__ uint64_t smem_desc_k_major(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Descriptor of an MN-major operand: 64 depths of rows of 128 bytes (64 halves
 * of columns) in the 128-byte swizzle, groups of 8 depths 1024 bytes apart; the
 * next 64 columns are a box of 8192 bytes further on, the next 16 depths 2048
 * bytes. */
static __device__ __forceinline__ uint64_t smem_desc_mn_major(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(8192 >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

static __device__ __forceinline__ void wgmma_arrive(void)
{
    HOPPER_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Register fence: the operand x is complete here, before wgmma_arrive(). The
 * compiler might otherwise compute it between products and wait for them. */
static __device__ __forceinline__ void register_fence(uint32_t &x)
{
    asm volatile("" : "+r"(x)::"memory");
}

static __device__ __forceinline__ void wgmma_commit_group(void)
{
    HOPPER_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING groups are in flight. */
template <int PENDING>
static __device__ __forceinline__ void wgmma_wait_group(void)
{
    HOPPER_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* d = a b + (add ? d : 0) for a 64 x N tile, 32 bytes deep.  Warp w of the
 * four, lane 4g + t holds in d[4j .. 4j+3] the elements (16 w + g, 8 j + 2 t
 * .. + 1) and (16 w + g + 8, the same). */
/* clang-format off */
#define WGMMA_R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_R16(i)                                                          \
    WGMMA_R4(i), WGMMA_R4(i + 4), WGMMA_R4(i + 8), WGMMA_R4(i + 12)
#define WGMMA_R32(i) WGMMA_R16(i), WGMMA_R16(i + 16)
#define WGMMA_R64(i) WGMMA_R32(i), WGMMA_R32(i + 32)
#define WGMMA_R96(i) WGMMA_R64(i), WGMMA_R32(i + 64)
#define WGMMA_R128(i) WGMMA_R64(i), WGMMA_R64(i + 64)

#define WGMMA_D16 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, " \
    "%12, %13, %14, %15"
#define WGMMA_D32 \
    WGMMA_D16 ", " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
    "%26, %27, %28, %29, %30, %31"
#define WGMMA_D64 \
    WGMMA_D32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
    "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63"
#define WGMMA_D96 \
    WGMMA_D64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, " \
    "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
    "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, " \
    "%94, %95"
#define WGMMA_D128 \
    WGMMA_D96 ", " \
    "%96, %97, %98, %99, %100, %101, %102, " \
    "%103, %104, %105, %106, %107, %108, %109, %110, " \
    "%111, %112, %113, %114, %115, %116, %117, %118, " \
    "%119, %120, %121, %122, %123, %124, %125, %126, " \
    "%127"

/* n columns in n / 2 registers; ia, ib and ip number the operands that follow
 * the registers. */
#define WGMMA_MMA_SS(shape, regs, ia, ib, ip, type, ends)                    \
    HOPPER_ASM("{\n.reg .pred p;\n"                                          \
                 "setp.ne.b32 p, %" #ip ", 0;\n"                               \
                 "wgmma.mma_async.sync.aligned." #shape ".f32." type "." type   \
                 " {" WGMMA_D##regs "}, %" #ia ", %" #ib ", p, 1, 1" ends      \
                 ";\n}"                                                        \
                 : WGMMA_R##regs(0)                                           \
                 : "l"(a), "l"(b), "r"(add ? 1 : 0))

/* a in four registers: lane 4g + t holds word t of rows g and g + 8 of its
 * warp's 16, then word t + 4 of both. */
#define WGMMA_MMA_RS(shape, regs, i0, i1, i2, i3, ib, ip, type, e) \
    HOPPER_ASM("{\n.reg .pred p;\n"                                          \
                 "setp.ne.b32 p, %" #ip ", 0;\n"                               \
                 "wgmma.mma_async.sync.aligned." #shape ".f32." type "." type   \
                 " {" WGMMA_D##regs "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 \
                 "}, %" #ib ", p, 1, 1" e ";\n}"                               \
                 : WGMMA_R##regs(0)                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),         \
                   "r"(add ? 1 : 0))
/* clang-format on */

#define WGMMA_MMAS_TF32(n, regs, i0, i1, i2, i3, i4, i5)                       \
    static __device__ __forceinline__ void wgmma_mma(                          \
        float, float(&d)[regs], uint64_t a, uint64_t b, bool add)              \
    {                                                                          \
        WGMMA_MMA_SS(m64n##n##k8, regs, i0, i1, i2, "tf32", "");               \
    }                                                                          \
    static __device__ __forceinline__ void wgmma_mma_rs(                       \
        float, float(&d)[regs], const uint32_t(&a)[4], uint64_t b, bool add)   \
    {                                                                          \
        WGMMA_MMA_RS(m64n##n##k8, regs, i0, i1, i2, i3, i4, i5, "tf32", "");   \
    }
/* order: of a and of b, 0 if K-major, 1 if MN-major. */
#define WGMMA_MMAS_OF(name, order, n, regs, ia, ib, ip)                        \
    static __device__ __forceinline__ void name(                               \
        __half, float(&d)[regs], uint64_t a, uint64_t b, bool add)             \
    {                                                                          \
        WGMMA_MMA_SS(m64n##n##k16, regs, ia, ib, ip, "f16", order);            \
    }                                                                          \
    static __device__ __forceinline__ void name(                               \
        __nv_bfloat16, float(&d)[regs], uint64_t a, uint64_t b, bool add)      \
    {                                                                          \
        WGMMA_MMA_SS(m64n##n##k16, regs, ia, ib, ip, "bf16", order);           \
    }
#define WGMMA_MMAS(...) WGMMA_MMAS_OF(wgmma_mma, ", 0, 0", __VA_ARGS__)
#define WGMMA_MMAS_MN_MAJOR(...)                                               \
    WGMMA_MMAS_OF(wgmma_mma_b_mn_major, ", 0, 1", __VA_ARGS__)                 \
    WGMMA_MMAS_OF(wgmma_mma_ab_mn_major, ", 1, 1", __VA_ARGS__)
#define WGMMA_MMAS_RS(n, regs, i0, i1, i2, i3, i4, i5)                         \
    static __device__ __forceinline__ void wgmma_mma_rs(                       \
        __half, float(&d)[regs], const uint32_t(&a)[4], uint64_t b, bool add)  \
    {                                                                          \
        WGMMA_MMA_RS(m64n##n##k16, regs, i0, i1, i2, i3, i4, i5, "f16",        \
                     ", 0");                                                   \
    }                                                                          \
    static __device__ __forceinline__ void wgmma_mma_rs(                       \
        __nv_bfloat16, float(&d)[regs], const uint32_t(&a)[4], uint64_t b,     \
        bool add)                                                              \
    {                                                                          \
        WGMMA_MMA_RS(m64n##n##k16, regs, i0, i1, i2, i3, i4, i5, "bf16",       \
                     ", 0");                                                   \
    }
WGMMA_MMAS_RS(32, 16, 16, 17, 18, 19, 20, 21)
WGMMA_MMAS_RS(64, 32, 32, 33, 34, 35, 36, 37)
WGMMA_MMAS_RS(128, 64, 64, 65, 66, 67, 68, 69)
WGMMA_MMAS(32, 16, 16, 17, 18)
WGMMA_MMAS(64, 32, 32, 33, 34)
WGMMA_MMAS(128, 64, 64, 65, 66)
WGMMA_MMAS(192, 96, 96, 97, 98)
WGMMA_MMAS(256, 128, 128, 129, 130)
WGMMA_MMAS_MN_MAJOR(64, 32, 32, 33, 34)
WGMMA_MMAS_MN_MAJOR(128, 64, 64, 65, 66)
WGMMA_MMAS_MN_MAJOR(256, 128, 128, 129, 130)
WGMMA_MMAS_TF32(32, 16, 16, 17, 18, 19, 20, 21)
WGMMA_MMAS_TF32(64, 32, 32, 33, 34, 35, 36, 37)
WGMMA_MMAS_TF32(128, 64, 64, 65, 66, 67, 68, 69)
WGMMA_MMAS_TF32(192, 96, 96, 97, 98, 99, 100, 101)
WGMMA_MMAS_TF32(256, 128, 128, 129, 130, 131, 132, 133)
#endif
