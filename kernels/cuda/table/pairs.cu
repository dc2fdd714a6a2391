/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of pairs.cuh. */
#include "kernels/cuda/table/pairs.cuh"

packed_function *pairs_function(int lane)
{
    return lane == 8 ? pairs_kernel<8> : pairs_kernel<4>;
}
