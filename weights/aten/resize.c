/* SPDX-License-Identifier: Apache-2.0 */
/* Pads, other sizes of pictures, and samples of them. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* ---- pads ---------------------------------------------------------- */

/* Without the entries that negative pads cut off. */
static struct pb_span cut_off(struct onnx_import *im, struct pb_span x,
                              int rank, int axes, const int64_t *given)
{
    for (int i = 0; i < 2 * axes; i++)
        if (given[i] == INT64_MIN)
            onnx_fail(im, INFER_EFORMAT, "a padding of %lld",
                      (long long)given[i]);
    for (int i = 0; i < axes && im->rc == 0; i++)
        if (given[2 * i] < 0 || given[2 * i + 1] < 0)
            x = aten_cut(im, x, rank - 1 - i,
                         given[2 * i] < 0 ? -given[2 * i] : 0,
                         given[2 * i + 1] < 0 ? given[2 * i + 1] : INT64_MAX);
    return x;
}

/* Whether a list has a number that depends on free sizes. */
static bool is_computed(struct onnx_import *im, const char *name)
{
    const struct aten_arg *a = aten_find(im, name);
    const struct onnx_small *const *small;
    struct pb_span now;

    for (int i = 0; a && a->kind == ATEN_LIST && i < a->n; i++)
        if (a->item[i].kind == ATEN_VALUE &&
            aten_alias_read(im, a->item[i].text, &now) == 0 &&
            onnx_named_small(im, now, &small) == 0 && small &&
            (!onnx_small_is_fixed(im, small) ||
             im->value[onnx_value_find(im, now)].sized))
            return true;
    return false;
}

/* Pads that depend on free sizes, of which none is negative. */
static int pad_freely(struct onnx_import *im, const char *mode, double value)
{
    const struct aten_arg *given = aten_find(im, aten_row(im)->onnx);
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x), n = given->n / 2;
    struct aten_arg item[2 * INFER_MAX_RANK];
    struct aten_attrs a = {.n = 0}, axis = {.n = 0};
    struct pb_span part[2 * INFER_MAX_RANK];

    if (im->rc < 0 || given->n % 2 || n > rank)
        return onnx_fail(im, INFER_EFORMAT, "%d paddings of rank %d", given->n,
                         rank);
    for (int i = 0; i < 2 * rank; i++) {
        const int back = rank - 1 - i % rank;

        item[i] = (struct aten_arg){.kind = ATEN_INT};
        if (back < n)
            item[i] = given->item[2 * back + i / rank];
        part[i] = aten_entry(im, "pad", &item[i]);
    }
    aten_set_int(&axis, "axis", 0);
    aten_set_word(&a, "mode", mode);
    return ATEN_LAST(im, "Pad", &a, x,
                     aten_step(im, "Concat", &axis, 2 * rank, part),
                     aten_scalar(im, aten_type_of(im, x), value));
}

/* Negative pads cut off from what the others made; where pixels come from the
 * other end, they cut off first.
 * PyTorch lists the last dimension first, with both ends side by side. */
static int pad(struct onnx_import *im, const char *mode, double value)
{
    const bool wraps = strcmp(mode, "wrap") == 0;
    struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    int64_t given[2 * INFER_MAX_RANK], both[2 * INFER_MAX_RANK];
    struct aten_attrs a = {.n = 0};
    int n;

    if (is_computed(im, aten_row(im)->onnx))
        return pad_freely(im, mode, value);
    n = aten_ints(im, aten_row(im)->onnx, 2 * INFER_MAX_RANK, given);
    if (im->rc < 0 || n < 0 || n % 2 || n / 2 > rank)
        return onnx_fail(im, INFER_EFORMAT, "%d paddings of rank %d", n, rank);
    memset(both, 0, sizeof both);
    for (int i = 0; i < n / 2; i++) {
        const int64_t size = aten_dim(im, x, rank - 1 - i);

        if (size >= 0 &&
            (double)size + (double)given[2 * i] + (double)given[2 * i + 1] < 0)
            return onnx_fail(
                im, INFER_EFORMAT,
                "paddings of %lld and %lld for a dimension of %lld",
                (long long)given[2 * i], (long long)given[2 * i + 1],
                (long long)size);
        both[rank - 1 - i] = given[2 * i] > 0 ? given[2 * i] : 0;
        both[2 * rank - 1 - i] = given[2 * i + 1] > 0 ? given[2 * i + 1] : 0;
    }
    aten_set_word(&a, "mode", mode);
    if (wraps)
        x = cut_off(im, x, rank, n / 2, given);
    x = ATEN_STEP(im, "Pad", &a, x, aten_list(im, 2 * rank, both),
                  aten_scalar(im, aten_type_of(im, x), value));
    return aten_same(im, 0, wraps ? x : cut_off(im, x, rank, n / 2, given));
}

int aten_pad(struct onnx_import *im)
{
    const struct pb_span mode = aten_text(im, "mode");
    static const char *const words[][2] = {{"constant", "constant"},
                                           {"reflect", "reflect"},
                                           {"replicate", "edge"},
                                           {"circular", "wrap"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mode.bytes == 0 || pb_span_is(mode, words[i][0]))
            return pad(im, words[i][1], aten_number(im, "value", 0));
    return onnx_fail(im, INFER_EUNSUPPORTED, "padding '%.*s'",
                     PB_TEXT(mode, 64));
}

/* param: constant, reflect, edge; the last two have two numbers for each of the
 * dimensions that their names count. */
int aten_pad_mode(struct onnx_import *im)
{
    static const char *const modes[] = {"constant", "reflect", "edge"};
    const char *const name = aten_row(im)->name;
    const struct aten_arg *given = aten_find(im, aten_row(im)->onnx);

    if (aten_row(im)->param && given && given->kind == ATEN_LIST &&
        given->n != 2 * (name[strlen(name) - 2] - '0'))
        return onnx_fail(im, INFER_EFORMAT, "%d paddings of %s", given->n,
                         name);
    return pad(im, modes[aten_row(im)->param], aten_number(im, "value", 0));
}

/* ---- sizes of pictures --------------------------------------------- */

/* Bits of param. */
enum {
    LINEAR = 1,
    CUBIC = 2,
    EXACT = 4, /* nearest, of the pixels' middles */
    ANTIALIAS = 8,
    SPACE = 16 /* times the axes of space */
};

static void set_mode(struct onnx_import *im, struct aten_attrs *a, int param)
{
    const bool corners = aten_flag(im, "align_corners", false);

    if (param & CUBIC)
        aten_set_float(a, "cubic_coeff_a", param & ANTIALIAS ? -0.5 : -0.75);
    if (param & ANTIALIAS)
        aten_set_int(a, "antialias", 1);
    if (param & ANTIALIAS)
        aten_set_int(a, "exclude_outside", 1);
    aten_set_word(a, "mode",
                  param & LINEAR  ? "linear"
                  : param & CUBIC ? "cubic"
                                  : "nearest");
    if (!(param & (LINEAR | CUBIC)))
        aten_set_word(a, "nearest_mode",
                      param & EXACT ? "round_prefer_ceil" : "floor");
    aten_set_word(a, "coordinate_transformation_mode",
                  corners                            ? "align_corners"
                  : param & (LINEAR | CUBIC | EXACT) ? "half_pixel"
                                                     : "asymmetric");
}

/* floor(size factor) of each axis of space, from an index of x's shape on. */
static struct pb_span scaled(struct onnx_import *im, struct pb_span x,
                             int space, const double *factor)
{
    int64_t size[3], dim = space;
    struct pb_span y;
    struct constant *c;
    bool known = true;

    for (int i = 0; i < space; i++) {
        size[i] = aten_dim(im, x, 2 + i);
        known &= size[i] >= 0;
        if (!(factor[i] > 0 && factor[i] <= 1 << 20)) {
            onnx_fail(im, INFER_EFORMAT, "a factor of %g", factor[i]);
            return aten_no_input();
        }
        if (size[i] > INT32_MAX)
            known = false;
        else
            size[i] = (int64_t)floor((double)size[i] * factor[i]);
    }
    if (known)
        return aten_list(im, space, size);
    if (im->rc < 0 || onnx_new_constant(im, INFER_F64, 1, &dim, &c) < 0)
        return aten_no_input();
    for (int i = 0; i < space; i++)
        ((double *)c->data)[i] = factor[i];
    y = aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0, 2, 2 + space);
    y = ATEN_STEP(im, "Mul", NULL, aten_cast(im, y, INFER_F64),
                  onnx_step_constant(im, c));
    return aten_cast(im, ATEN_STEP(im, "Floor", NULL, y), INFER_I64);
}

/* Factors of the axes of space, if all are given: how many. */
static int factors(struct onnx_import *im, int space, double *out)
{
    static const char *const names[3][3] = {
        {"scales"},
        {"scales_h", "scales_w"},
        {"scales_d", "scales_h", "scales_w"}};
    int n = 0;

    if (aten_has(im, "scale_factors"))
        return aten_floats(im, "scale_factors", space, out);
    for (int i = 0; i < space; i++)
        if (aten_has(im, names[space - 1][i]))
            out[n++] = aten_number(im, names[space - 1][i], 1);
    return n;
}

/* False where sizes are given that the factors do not lead to. */
static bool factors_fit(struct onnx_import *im, struct pb_span x, int space,
                        const double *factor)
{
    int64_t want[3];

    if (!aten_has(im, "output_size"))
        return true;
    aten_each(im, "output_size", space, 1, want);
    for (int i = 0; i < space && im->rc == 0; i++) {
        const int64_t size = aten_dim(im, x, 2 + i);

        if (size > 0 && floor((double)size * factor[i]) != (double)want[i])
            return false;
    }
    return true;
}

int aten_upsample(struct onnx_import *im)
{
    const int param = aten_row(im)->param, space = param / SPACE;
    const struct pb_span x =
        aten_tensor(im, aten_has(im, "input") ? "input" : "self");
    const struct pb_span none = aten_no_input();
    const bool corners = aten_flag(im, "align_corners", false);
    struct aten_attrs a = {.n = 0}, first = {.n = 0};
    double factor[3];
    bool given;
    int64_t dim = space + 2;
    struct constant *c;
    struct pb_span part[2];

    set_mode(im, &a, param);
    if (im->rc == 0 && aten_rank(im, x) != space + 2)
        return onnx_fail(im, INFER_EUNSUPPORTED, "an input of rank %d",
                         aten_rank(im, x));
    if (param & ANTIALIAS && corners)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "align_corners with antialiasing");
    given = factors(im, space, factor) == space;
    /* With corners on corners factors say how large the result is, and its
     * size alone where its pixels lie. */
    if (given && !corners) {
        if (!factors_fit(im, x, space, factor))
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "factors other than those of the sizes");
        if (onnx_new_constant(im, INFER_F32, 1, &dim, &c) < 0)
            return im->rc;
        for (int i = 0; i < space + 2; i++)
            ((float *)c->data)[i] = i < 2 ? 1 : (float)factor[i - 2];
        return ATEN_LAST(im, "Resize", &a, x, none, onnx_step_constant(im, c));
    }
    part[0] = aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0, 0, 2);
    part[1] = given && !aten_has(im, "output_size")
                  ? scaled(im, x, space, factor)
                  : aten_sizes(im, "output_size", 0, 0);
    aten_set_int(&first, "axis", 0);
    return ATEN_LAST(im, "Resize", &a, x, none, none,
                     aten_step(im, "Concat", &first, 2, part));
}

/* ---- samples ------------------------------------------------------- */

int aten_grid_sample(struct onnx_import *im)
{
    static const char *const modes[] = {"linear", "nearest", "cubic"};
    static const char *const pads[] = {"zeros", "border", "reflection"};
    const int64_t mode = aten_int(im, "interpolation_mode", 0);
    const int64_t outside = aten_int(im, "padding_mode", 0);
    struct aten_attrs a = {.n = 0};

    if (mode < 0 || mode > 2 || outside < 0 || outside > 2)
        return onnx_fail(im, INFER_EFORMAT, "modes %lld and %lld",
                         (long long)mode, (long long)outside);
    aten_set_word(&a, "mode", modes[mode]);
    aten_set_word(&a, "padding_mode", pads[outside]);
    aten_set_int(&a, "align_corners", aten_flag(im, "align_corners", false));
    return ATEN_LAST(im, "GridSample", &a, aten_tensor(im, "input"),
                     aten_tensor(im, "grid"));
}
