/* SPDX-License-Identifier: Apache-2.0 */
/* Losses, which stand in exports of training code. */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* The mean (1), the sum (2) or each (0), as argument `reduction` says. */
static int give_reduced(struct onnx_import *im, struct pb_span y)
{
    static const char *const reduce[] = {NULL, "ReduceMean", "ReduceSum"};
    const int64_t how = aten_int(im, "reduction", 1);
    struct aten_attrs a = {.n = 0};

    if (how < 0 || how > 2)
        return onnx_fail(im, INFER_EFORMAT, "reduction %lld", (long long)how);
    aten_set_int(&a, "keepdims", 0);
    return how == 0 ? aten_same(im, 0, y) : ATEN_LAST(im, reduce[how], &a, y);
}

/* By the row's param: 1 absolute differences, 2 their squares. */
int aten_loss(struct onnx_import *im)
{
    struct pb_span in[2], y;

    aten_operands(im, "self", "target", in);
    y = aten_step(im, "Sub", NULL, 2, in);
    y = aten_row(im)->param == 2 ? ATEN_STEP(im, "Mul", NULL, y, y)
                                 : ATEN_STEP(im, "Abs", NULL, y);
    return give_reduced(im, y);
}

/* m (d - m / 2) with d = |a - b| and m = min(d, width); smooth_l1_loss (param
 * 1) divides by the width. */
int aten_huber_loss(struct onnx_import *im)
{
    const double width = aten_number(im, aten_row(im)->onnx, 1);
    struct pb_span in[2], d, m, y;
    enum infer_dtype type;

    aten_operands(im, "self", "target", in);
    type = aten_type_of(im, in[0]);
    d = ATEN_STEP(im, "Abs", NULL, aten_step(im, "Sub", NULL, 2, in));
    if (im->rc < 0 || !(width > 0))
        return width == 0 && aten_row(im)->param == 1
                   ? give_reduced(im, d)
                   : onnx_fail(im, INFER_EFORMAT, "a width of %g", width);
    m = ATEN_STEP(im, "Min", NULL, d, aten_scalar(im, type, width));
    y = ATEN_STEP(im, "Mul", NULL, m,
                  ATEN_STEP(im, "Sub", NULL, d, aten_mul(im, m, 0.5)));
    return give_reduced(im,
                        aten_row(im)->param ? aten_mul(im, y, 1 / width) : y);
}

/* log(1 + exp(-x y)) */
int aten_soft_margin_loss(struct onnx_import *im)
{
    struct pb_span in[2];

    aten_operands(im, "self", "target", in);
    return give_reduced(
        im, ATEN_STEP(
                im, "Softplus", NULL,
                ATEN_STEP(im, "Neg", NULL, aten_step(im, "Mul", NULL, 2, in))));
}

/* By classes: the operator of ONNX that the row names. */
int aten_class_loss(struct onnx_import *im)
{
    static const char *const words[] = {"none", "mean", "sum"};
    const int64_t how = aten_int(im, "reduction", 1);
    struct aten_attrs a = {.n = 0};

    if (im->rc < 0 || how < 0 || how > 2)
        return onnx_fail(im, INFER_EFORMAT, "reduction %lld", (long long)how);
    if (aten_number(im, "label_smoothing", 0) != 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "smoothed labels");
    if (aten_is_float(aten_type_of(im, aten_tensor(im, "target"))))
        return onnx_fail(im, INFER_EUNSUPPORTED, "probabilities as labels");
    aten_set_word(&a, "reduction", words[how]);
    aten_set_int(&a, "ignore_index", aten_int(im, "ignore_index", -100));
    return ATEN_LAST(im, aten_row(im)->onnx, &a, aten_tensor(im, "self"),
                     aten_tensor(im, "target"), aten_optional(im, "weight"));
}
