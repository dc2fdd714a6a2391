/* SPDX-License-Identifier: Apache-2.0 */
/* The element that an index names along one axis: gather and gather_elements
 * differ only in how they walk over x and the indices. */
#ifndef KERNELS_CUDA_MOVE_GATHER_CUH
#define KERNELS_CUDA_MOVE_GATHER_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

/* x and the indices as tensors of the output's dimensions.  x stands still
 * along those that the indices name. */
struct gather_args {
    struct cuda_strided<3> walk; /* x, indices, y */
    const void *x, *index;
    void *y;
    enum infer_dtype type;  /* of the indices */
    int64_t extent, stride; /* of x along the axis */
};

/* Negative indices count from the end.  An index outside the axis takes the
 * nearest element: a kernel cannot refuse, and reads nothing beyond x. */
template <typename U>
static __device__ __forceinline__ void
gather_element(const struct gather_args &a, const int64_t *at)
{
    int64_t named = load_i64(a.type, a.index, at[1]);
    named += named < 0 ? a.extent : 0;
    named = named < 0 ? 0 : named < a.extent ? named : a.extent - 1;
    ((U *)a.y)[at[2]] = ((const U *)a.x)[at[0] + named * a.stride];
}

/* x and the indices with the strides of `from` and `names`. */
static inline int gather_launch(const struct kern_exec *e,
                                const struct kern_tensor *from,
                                const struct kern_tensor *names,
                                const struct kern_args *args,
                                struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.gather.axis;
    const struct kern_tensor *const t[3] = {from, names, &p->out[0]};
    struct gather_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.x = args->in[0];
    a.index = args->in[1];
    a.y = args->out[0];
    a.type = p->in[1].dtype;
    a.extent = p->in[0].dim[axis];
    a.stride = p->in[0].stride[axis];
    return by_size(p->out[0].dtype, [&](auto u) {
        return walk_launch<gather_element<decltype(u)>>(a, args, err);
    });
}

#endif
