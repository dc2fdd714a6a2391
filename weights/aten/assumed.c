/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types that a file does not state.
 *
 * A program of TorchScript gives its inputs no types.  Such an input is taken
 * for one of floats, which makes no difference to operators that treat
 * integers and truth values as numbers.  For others it does: a mask of floats
 * is added, one of truth values chooses; a truth value as an index is a mask.
 * A value whose type follows from that of such an input has the input's name,
 * and those operators refuse it.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* Operators whose result is of floats, whatever they read, or of other numbers
 * that the operators below treat alike: no truth values, no indices. */
static bool makes_floats(const struct aten_op *op, const struct aten_node *n)
{
    static onnx_op_fn *const floats[] = {
        aten_attention, aten_conv,     aten_cumsum,     aten_exp_log,
        aten_gelu,      aten_linear,   aten_log_base,   aten_matmul,
        aten_own_norm,  aten_rsqrt,    aten_silu,       aten_softmax,
        aten_softplus,  aten_variance, aten_vector_norm};

    /* A number beside a tensor: the result has the tensor's type. */
    static onnx_op_fn *const keeps[] = {aten_full_like, aten_masked_fill,
                                        aten_new_full, aten_pad, aten_pad_mode};
    bool number = true;

    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
        number &= op->import != keeps[i];
    for (int i = 0; i < n->n_args; i++)
        if ((n->arg[i].kind == ATEN_FLOAT && number) ||
            n->arg[i].kind == ATEN_TYPE)
            return true;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (op->import == floats[i])
            return true;
    if (op->import == aten_unary)
        return op->param;
    if (op->import == aten_reduce)
        return op->onnx && strcmp(op->onnx, "ReduceMax") != 0 &&
               strcmp(op->onnx, "ReduceMin") != 0;
    if (op->import == aten_add)
        return op->onnx && strcmp(op->onnx, "Sub") == 0;
    if (op->import != aten_div || op->param)
        return false;
    for (int i = 0; i < n->n_args; i++)
        if (n->arg[i].kind == ATEN_TEXT) /* rounded */
            return false;
    return true;
}

/* The first input among the arguments; *floats where one is known to be of
 * floats, whose type the result then has. */
static int look(struct onnx_import *im, const struct aten_arg *a, int n,
                struct pb_span *input, bool *floats)
{
    struct pb_span now;

    for (int i = 0; i < n && im->rc == 0; i++) {
        if (a[i].kind == ATEN_LIST) {
            look(im, a[i].item, a[i].n, input, floats);
        } else if (a[i].kind == ATEN_VALUE &&
                   aten_alias_read(im, a[i].text, &now) == 0) {
            const struct pb_span *from = aten_assumed(im, now);

            if (from && from->bytes)
                *input = input->bytes ? *input : *from;
            else if (im->rc == 0)
                *floats |= aten_rank(im, now) > 0 &&
                           aten_is_float(aten_type_of(im, now));
        }
    }
    return im->rc;
}

struct pb_span aten_assumed_of(struct onnx_import *im,
                               const struct aten_node *n)
{
    struct pb_span input = aten_no_input();
    bool floats = false;

    if (!aten_of(im)->assumes || makes_floats(aten_row(im), n) ||
        look(im, n->arg, n->n_args, &input, &floats) < 0 || floats)
        return aten_no_input();
    return input;
}

int aten_spread_assumed(struct onnx_import *im, const struct aten_node *n,
                        struct pb_span input)
{
    for (int i = 0; i < n->n_out && im->rc == 0; i++) {
        struct pb_span *to =
            n->out[i].bytes ? aten_assumed(im, n->out[i]) : NULL;

        if (to && aten_is_float(aten_type_of(im, n->out[i])))
            *to = input;
    }
    return im->rc;
}

int aten_need_type(struct onnx_import *im, struct pb_span x, const char *what)
{
    const struct pb_span *from =
        im->rc == 0 && x.bytes ? aten_assumed(im, x) : NULL;

    if (from && from->bytes)
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "%s depends on the type of input '%.*s', which the file does "
                  "not state: --input-type=%.*s:BOOL (or I64, F32) does, and "
                  "so do files of torch.export (.pt2) and ONNX",
                  what, PB_TEXT(*from, 64), PB_TEXT(*from, 64));
    return im->rc;
}
