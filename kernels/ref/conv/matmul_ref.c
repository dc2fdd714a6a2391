/* SPDX-License-Identifier: Apache-2.0 */
/* Batched matrix product as numpy.matmul: y = alpha a b. */
#include "kernels/matmul.h"
#include "kernels/ref/ref.h"

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_matmul *attr = &p->attr.matmul;
    struct kern_tensor a = matmul_operand(&p->in[0], attr->transpose_a, true);
    struct kern_tensor b = matmul_operand(&p->in[1], attr->transpose_b, false);
    const struct kern_tensor y = matmul_output(p);
    const int64_t a_size = (int64_t)infer_dtype_size(a.dtype);
    const int64_t b_size = (int64_t)infer_dtype_size(b.dtype);
    const int64_t inner = a.dim[a.rank - 1];
    struct ref_walk walk;

    (void)err;
    /* Along the inner dimension both stand still while outputs are walked. */
    a.dim[a.rank - 1] = 1;
    b.dim[b.rank - 2] = 1;
    ref_walk_start(&walk, y.rank, y.dim);
    ref_walk_add(&walk, &a);
    ref_walk_add(&walk, &b);
    ref_walk_add(&walk, &y);
    for (; !walk.done; ref_walk_next(&walk)) {
        const double dot = ref_dot(
            a.dtype, (const char *)args->in[0] + walk.offset[0] * a_size,
            a.stride[a.rank - 1], b.dtype,
            (const char *)args->in[1] + walk.offset[1] * b_size,
            b.stride[b.rank - 2], inner);
        ref_store(y.dtype, args->out[0], walk.offset[2],
                  (double)attr->alpha * dot);
    }
    return 0;
}

KERN_FUNCTIONS(matmul_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
