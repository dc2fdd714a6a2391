/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of implicit GEMM rows on integers of 8 bits.  mma/igemm.cuh
 * describes the kernel, quant/end.cuh its end. */
#ifndef KERNELS_CUDA_MMA_IGEMM_8BIT_CUH
#define KERNELS_CUDA_MMA_IGEMM_8BIT_CUH

#include "kernels/cuda/mma/igemm_rows.cuh"

/* As igemm_conv_tiles; a k-tile of as many bytes holds twice the channels. */
template <typename M>
static const struct conv_tile igemm_8bit_conv_tiles[] = {
    IGEMM_TILE("128x128", 100, igemm_config<igemm_128x128<M>>),
    IGEMM_TILE("128x64", 85, igemm_config<igemm_128x64<M>>),
    IGEMM_TILE("64x64", 70, igemm_config<igemm_64x64<M>>),
    IGEMM_TILE("64x32", 50, igemm_config<igemm_64x32<M>>),
    IGEMM_TILE("64x32_deep", 50, igemm_config<igemm_64x32_deep<M>, IGEMM_DEEP>),
    IGEMM_TILE("64x64_splitk", 70, igemm_config<igemm_64x64<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x32_splitk", 50, igemm_config<igemm_64x32<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x64_gather", 50,
               igemm_config<igemm_64x64_short<M>, IGEMM_GATHER>),
    IGEMM_TILE("128x64_padded", 85,
               igemm_config<igemm_128x64<M>, IGEMM_PADDED>),
};

template <typename M>
static const struct conv_tile igemm_8bit_dense_tiles[] = {
    IGEMM_TILE("128x128", 100, igemm_config<igemm_128x128<M>>),
    IGEMM_TILE("64x64", 70, igemm_config<igemm_64x64<M>>),
    IGEMM_TILE("64x32_deep", 50, igemm_config<igemm_64x32_deep<M>, IGEMM_DEEP>),
    IGEMM_TILE("64x32_splitk", 50, igemm_config<igemm_64x32<M>, IGEMM_SPLIT_K>),
    IGEMM_TILE("64x64_gather", 60,
               igemm_config<igemm_64x64_short<M>, IGEMM_GATHER>),
};

#endif
