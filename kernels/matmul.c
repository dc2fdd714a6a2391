/* SPDX-License-Identifier: Apache-2.0 */
/* How numpy.matmul reads its tensors. */
#include "kernels/matmul.h"

struct kern_tensor matmul_operand(const struct kern_tensor *t, bool transpose,
                                  bool left)
{
    struct kern_tensor m = *t;

    if (t->rank == 1) {
        m.rank = 2;
        m.dim[left ? 1 : 0] = t->dim[0];
        m.stride[left ? 1 : 0] = t->stride[0];
        m.dim[left ? 0 : 1] = 1;
        m.stride[left ? 0 : 1] = 0;
    } else if (transpose) {
        const int r = t->rank - 2;
        m.dim[r] = t->dim[r + 1];
        m.stride[r] = t->stride[r + 1];
        m.dim[r + 1] = t->dim[r];
        m.stride[r + 1] = t->stride[r];
    }
    return m;
}

struct kern_tensor matmul_output(const struct kern_problem *p)
{
    struct kern_tensor y = p->out[0];

    if (p->in[1].rank == 1) {
        y.dim[y.rank] = 1;
        y.stride[y.rank++] = 0;
    }
    if (p->in[0].rank == 1) {
        const int last = y.rank - 1;
        y.dim[last + 1] = y.dim[last];
        y.stride[last + 1] = y.stride[last];
        y.dim[last] = 1;
        y.stride[last] = 0;
        y.rank++;
    }
    return y;
}
