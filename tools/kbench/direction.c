/* SPDX-License-Identifier: Apache-2.0 */
/* Backward problems of a convolution: dgrad and wgrad. */
#include <string.h>

#include "kernels/base/text.h"
#include "tools/kbench/kbench.h"

const char *const kb_dir_names[] = {"fprop", "dgrad", "wgrad", NULL};

void kb_problem_backward(struct kern_problem *p, enum kb_dir dir)
{
    const struct kern_tensor x = p->in[0], w = p->in[1], y = p->out[0];

    if (dir == KB_FPROP)
        return;
    memset(p->in + 2, 0, sizeof(p->in) - 2 * sizeof(p->in[0]));
    memset(&p->epilogue, 0, sizeof(p->epilogue));
    p->n_in = 2;
    if (dir == KB_DGRAD) {
        p->op = KERN_CONV_DGRAD;
        p->in[0] = y;
        p->out[0] = x;
        p->constant_in = 1u << 1;
    } else {
        p->op = KERN_CONV_WGRAD;
        p->in[1] = y;
        p->out[0] = kern_tensor_dense(INFER_F32, w.rank, w.dim, KERN_NCHW);
        p->constant_in = 0;
    }
}

void kb_problem_lay_weights(const struct kb_request *r, enum kb_dir dir,
                            struct kern_problem *p)
{
    const bool gpu = text_begins(r->device, "cuda");
    const struct kern_tensor w = p->in[1], dw = p->out[0];

    if (dir == KB_WGRAD)
        p->out[0] =
            kern_tensor_dense(r->narrow_gradient ? p->in[0].dtype : INFER_F32,
                              dw.rank, dw.dim, gpu ? r->layout : KERN_NCHW);
    if (dir == KB_DGRAD && gpu) {
        p->in[1] = kern_tensor_dense(w.dtype, w.rank, w.dim, r->layout);
        p->constant_in = 0;
    }
}

const char *kb_problem_text(const struct kern_problem *p, enum kb_dir dir,
                            char *buf, size_t bytes)
{
    static const char fprop[] = "conv_fprop", dgrad[] = "conv_dgrad";
    struct kern_problem forward = *p;

    if (dir == KB_DGRAD) {
        forward.op = KERN_CONV_FPROP;
        forward.in[0] = p->out[0];
        forward.out[0] = p->in[0];
    }
    kern_problem_format(&forward, buf, bytes);
    if (dir == KB_DGRAD && text_begins(buf, fprop))
        memcpy(buf, dgrad, strlen(dgrad));
    return buf;
}
