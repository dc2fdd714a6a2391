/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations and attention. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* n numbers, all the same, as a tensor of a shape. */
static struct pb_span filled(struct onnx_import *im, int rank,
                             const int64_t *dim, double value)
{
    return ATEN_STEP(im, "Expand", NULL, aten_scalar(im, INFER_F32, value),
                     aten_list(im, rank, dim));
}

/* A weight or bias, or what stands for it where there is none. */
static struct pb_span or_filled(struct onnx_import *im, const char *name,
                                int rank, const int64_t *dim, double value)
{
    return aten_has(im, name) ? aten_tensor(im, name)
                              : filled(im, rank, dim, value);
}

/* By the statistics of the input itself: over all dimensions but the channels.
 * InstanceNorm comes as this, its batch and channels as channels, and so does
 * the standardisation of weights. */
int aten_own_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    const int rank = aten_rank(im, x);
    int64_t axis[INFER_MAX_RANK], shape[INFER_MAX_RANK];
    struct pb_span centred, y, list;
    int n = 0;

    for (int d = 0; d < rank; d++) {
        shape[d] = d == 1 ? -1 : 1;
        if (d != 1)
            axis[n++] = d;
    }
    list = aten_list(im, n, axis);
    y = ATEN_STEP(im, "ReduceMean", NULL, x, list);
    centred = ATEN_STEP(im, "Sub", NULL, x, y);
    y = ATEN_STEP(im, "Mul", NULL, centred, centred);
    y = ATEN_STEP(im, "ReduceMean", NULL, y, list);
    y = ATEN_STEP(
        im, "Add", NULL, y,
        aten_scalar(im, aten_type_of(im, x), aten_number(im, "eps", 1e-5)));
    y = ATEN_STEP(im, "Div", NULL, centred, ATEN_STEP(im, "Sqrt", NULL, y));
    list = aten_list(im, rank, shape);
    if (aten_has(im, "weight"))
        y = ATEN_STEP(
            im, "Mul", NULL, y,
            ATEN_STEP(im, "Reshape", NULL, aten_tensor(im, "weight"), list));
    if (aten_has(im, "bias"))
        y = ATEN_STEP(
            im, "Add", NULL, y,
            ATEN_STEP(im, "Reshape", NULL, aten_tensor(im, "bias"), list));
    return aten_same(im, 0, y);
}

int aten_batch_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    const int64_t channels = aten_dim(im, x, 1);
    struct aten_attrs a = {.n = 0};

    if (aten_flag(im, "training", false) && !aten_has(im, "running_mean"))
        return aten_own_norm(im);
    if (aten_flag(im, "training", false))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the program was exported in training mode: call "
                         "eval() before the export");
    if (im->rc < 0 || channels < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld channels",
                         (long long)channels);
    aten_set_float(&a, "epsilon", aten_number(im, "eps", 1e-5));
    return ATEN_LAST(im, "BatchNormalization", &a, x,
                     or_filled(im, "weight", 1, &channels, 1),
                     or_filled(im, "bias", 1, &channels, 0),
                     aten_tensor(im, "running_mean"),
                     aten_tensor(im, "running_var"));
}

int aten_layer_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    int64_t shape[INFER_MAX_RANK];
    const int n = aten_ints(im, "normalized_shape", INFER_MAX_RANK, shape);
    struct aten_attrs a = {.n = 0};

    if (n < 1)
        return onnx_fail(im, INFER_EFORMAT, "a layer_norm of no dimension");
    aten_set_int(&a, "axis", -n);
    aten_set_float(&a, "epsilon", aten_number(im, "eps", 1e-5));
    return ATEN_LAST(im, "LayerNormalization", &a, x,
                     or_filled(im, "weight", n, shape, 1),
                     aten_optional(im, "bias"));
}

/* x / sqrt(mean(x x) + eps), by a weight. */
int aten_rms_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    int64_t shape[INFER_MAX_RANK], axis[INFER_MAX_RANK];
    const int n = aten_ints(im, "normalized_shape", INFER_MAX_RANK, shape);
    /* The default is the least step of fp32 from 1. */
    const double eps = aten_number(im, "eps", 1.1920928955078125e-07);
    struct pb_span y;

    if (n < 1)
        return onnx_fail(im, INFER_EFORMAT, "an rms_norm of no dimension");
    for (int i = 0; i < n; i++)
        axis[i] = i - n;
    y = ATEN_STEP(im, "Mul", NULL, x, x);
    y = ATEN_STEP(im, "ReduceMean", NULL, y, aten_list(im, n, axis));
    y = ATEN_STEP(im, "Add", NULL, y,
                  aten_scalar(im, aten_type_of(im, x), eps));
    y = ATEN_STEP(im, "Sqrt", NULL, y);
    if (!aten_has(im, "weight"))
        return ATEN_LAST(im, "Div", NULL, x, y);
    y = ATEN_STEP(im, "Div", NULL, x, y);
    return ATEN_LAST(im, "Mul", NULL, y, aten_tensor(im, "weight"));
}

/* num_groups, or "group" in the lowered form. */
int aten_group_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    const int64_t channels = aten_dim(im, x, 1);
    struct aten_attrs a = {.n = 0};

    if (im->rc < 0 || channels < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld channels",
                         (long long)channels);
    aten_set_int(&a, "num_groups", aten_int(im, aten_row(im)->onnx, 1));
    aten_set_float(&a, "epsilon", aten_number(im, "eps", 1e-5));
    return ATEN_LAST(im, "GroupNormalization", &a, x,
                     or_filled(im, "weight", 1, &channels, 1),
                     or_filled(im, "bias", 1, &channels, 0));
}

int aten_instance_norm(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "input");
    const int64_t channels = aten_dim(im, x, 1);
    struct aten_attrs a = {.n = 0};

    if (!aten_flag(im, "use_input_stats", true))
        return aten_batch_norm(im);
    if (im->rc < 0 || channels < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld channels",
                         (long long)channels);
    aten_set_float(&a, "epsilon", aten_number(im, "eps", 1e-5));
    return ATEN_LAST(im, "InstanceNormalization", &a, x,
                     or_filled(im, "weight", 1, &channels, 1),
                     or_filled(im, "bias", 1, &channels, 0));
}
