/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution problems as products of matrices, and their packed weights. */
#include "kernels/cuda/conv.h"

#include <math.h>
#include <string.h>

#include "kernels/checked.h"
#include "kernels/error.h"
#include "kernels/problem.h"
#include "kernels/scalar.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

/* ---- limits -------------------------------------------------------- */

/* Largest number of elements, offsets of padding included: 32-bit signed
 * indices reach every one. */
#define MAX_COUNT INT32_MAX

static int check_activation(const struct kern_problem *p,
                            const struct kern_tensor *t, const char *what,
                            struct infer_error *why)
{
    if (t->dtype != p->in[CONV_X].dtype)
        return REFUSE(why, "%s is %s and the input %s", what,
                      infer_dtype_name(t->dtype),
                      infer_dtype_name(p->in[CONV_X].dtype));
    if (kern_tensor_count(t) > MAX_COUNT)
        return REFUSE(why, "%s has more than 2^31 elements", what);
    return 0;
}

static int check_dense(const struct kern_problem *p,
                       const struct kern_tensor *t, const char *what,
                       struct infer_error *why)
{
    /* Rows of a dense layer are row-major, whatever their rank. */
    if (!kern_tensor_is_dense(t, p->op == KERN_DENSE_FPROP ? KERN_NCHW
                                                           : KERN_NHWC))
        return REFUSE(why, "%s does not lie dense with its channels last",
                      what);
    return 0;
}

/* All but how the output lies. */
static int check_tensors(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, CONV_BIAS);
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    int r = check_activation(p, &p->in[CONV_X], "input", why);

    if (r == 0)
        r = check_dense(p, &p->in[CONV_X], "input", why);
    if (r == 0)
        r = check_activation(p, &p->out[0], "output", why);
    if (r == 0 && residual)
        r = check_activation(p, residual, "residual", why);
    if (r == 0 && residual)
        r = check_dense(p, residual, "residual", why);
    if (r == 0 && bias &&
        (bias->dtype != INFER_F32 || !kern_tensor_is_dense(bias, KERN_NCHW)))
        return REFUSE(why, "bias is not dense F32");
    if (r == 0 && kern_tensor_count(&p->in[CONV_W]) > MAX_COUNT)
        return REFUSE(why, "weights have more than 2^31 elements");
    return r;
}

/* Elements from one output pixel to the next, all at equal distances and the
 * channels of each together.  Dimension c holds the channels. */
static int read_pitch(const struct kern_tensor *t, int c, int *out,
                      struct infer_error *why)
{
    int64_t inner = 1, pitch = 0;

    for (int i = t->rank - 1; i >= 0; i--) {
        if (i == c || t->dim[i] == 1)
            continue;
        if (pitch == 0)
            pitch = t->stride[i] / inner;
        if (t->stride[i] != pitch * inner)
            return REFUSE(why, "output's pixels lie at unequal distances");
        inner *= t->dim[i];
    }
    pitch = pitch ? pitch : t->dim[c];
    if (pitch < t->dim[c] || pitch * inner > MAX_COUNT ||
        (t->dim[c] > 1 && t->stride[c] != 1))
        return REFUSE(why, "output's channels do not lie together");
    *out = (int)pitch;
    return 0;
}

/* ---- geometry ------------------------------------------------------ */

static void read_dense(const struct kern_problem *p, struct conv_geometry *g)
{
    const struct kern_tensor *x = &p->in[CONV_X], *w = &p->in[CONV_W];

    g->n = 1;
    for (int i = 0; i + 1 < x->rank; i++)
        g->n *= (int)x->dim[i];
    g->c = (int)w->dim[1];
    g->k = (int)w->dim[0];
    g->h = g->w = g->p = g->q = g->r = g->s = 1;
    g->stride_h = g->stride_w = g->dilation_h = g->dilation_w = 1;
    g->groups = 1;
}

/* Pixels that the padded input of one axis spans, out of range or not. */
static bool padded_extent(int64_t extent, int begin, int end, int64_t *out)
{
    const int64_t a = begin < 0 ? -(int64_t)begin : begin;
    const int64_t b = end < 0 ? -(int64_t)end : end;

    *out = extent + a + b;
    return *out <= MAX_COUNT / 2;
}

static int read_conv(const struct kern_problem *p, struct conv_geometry *g,
                     struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[CONV_X], *w = &p->in[CONV_W];
    const struct kern_conv *a = &p->attr.conv;
    const int last = x->rank - 3; /* index of W among the spatial axes */
    int64_t span[4] = {x->dim[0], x->dim[1], 1, 1}, total;

    if (x->rank != 3 && x->rank != 4)
        return REFUSE(why, "takes 1 or 2 spatial dimensions, found %d",
                      x->rank - 2);
    for (int i = 0; i <= last; i++)
        if (!padded_extent(x->dim[i + 2], a->pad_begin[i], a->pad_end[i],
                           &span[2 + i]))
            return REFUSE(why, "pads are too large");
    if (!checked_count(4, span, &total) || total > MAX_COUNT)
        return REFUSE(why, "padded input has more than 2^31 elements");
    g->n = (int)x->dim[0];
    g->c = (int)x->dim[1];
    g->k = (int)p->out[0].dim[1];
    g->h = last ? (int)x->dim[2] : 1;
    g->w = (int)x->dim[2 + last];
    g->p = last ? (int)p->out[0].dim[2] : 1;
    g->q = (int)p->out[0].dim[2 + last];
    g->r = last ? (int)w->dim[2] : 1;
    g->s = (int)w->dim[2 + last];
    g->stride_h = last ? a->stride[0] : 1;
    g->stride_w = a->stride[last];
    g->dilation_h = last ? a->dilation[0] : 1;
    g->dilation_w = a->dilation[last];
    g->pad_top = last ? a->pad_begin[0] : 0;
    g->pad_left = a->pad_begin[last];
    g->groups = a->groups;
    return 0;
}

static int read_geometry(const struct kern_problem *p, struct conv_geometry *g,
                         struct infer_error *why)
{
    int r = check_tensors(p, why);

    if (r < 0)
        return r;
    memset(g, 0, sizeof(*g));
    if (p->op == KERN_DENSE_FPROP)
        read_dense(p, g);
    else
        r = read_conv(p, g, why);
    if (r < 0)
        return r;
    if (g->c < 1 || g->k < 1 || g->r < 1 || g->s < 1)
        return REFUSE(why, "has no channels or an empty window");
    if (g->groups > 65535)
        return REFUSE(why, "has %d groups, supported up to 65535", g->groups);
    g->cg = g->c / g->groups;
    g->kg = g->k / g->groups;
    g->m = g->n * g->p * g->q;
    /* Packed rows are padded: leave room for that too. */
    int64_t depth = (int64_t)g->r * g->s;
    if (depth > MAX_COUNT || depth * (g->cg + 64) > MAX_COUNT / 2 ||
        (depth * (g->cg + 64) + 64) * (g->k + 64) > (int64_t)1 << 40)
        return REFUSE(why, "window has more than 2^30 elements");
    g->depth = (int)depth * g->cg;
    return 0;
}

int conv_geometry_read(const struct kern_problem *p, struct conv_geometry *g,
                       struct infer_error *why)
{
    const int r = check_dense(p, &p->out[0], "output", why);

    return r < 0 ? r : read_geometry(p, g, why);
}

int conv_geometry_read_pitch(const struct kern_problem *p,
                             struct conv_geometry *g, int *pitch,
                             struct infer_error *why)
{
    const struct kern_tensor *y = &p->out[0];
    const int r =
        read_pitch(y, p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1, pitch, why);

    return r < 0 ? r : read_geometry(p, g, why);
}

int conv_weights_packable(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];

    if (!(p->constant_in & 1u << CONV_W))
        return REFUSE(why, "weights are not constant");
    if (!kern_tensor_is_dense(w, KERN_NCHW))
        return REFUSE(why, "weights are not dense row-major");
    if (w->dtype != INFER_F32 && w->dtype != p->in[CONV_X].dtype)
        return REFUSE(why, "weights are %s, supported F32 and %s",
                      infer_dtype_name(w->dtype),
                      infer_dtype_name(p->in[CONV_X].dtype));
    return 0;
}

/* ---- packing ------------------------------------------------------- */

/* To the nearest TF32 (10 bits behind the point), ties away from zero. */
static float round_tf32(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & 0xffffe000;
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

/* Where w[k][c][r][s] lies, with rs = r * S + s. */
static int64_t weight_at(const struct conv_geometry *g, int k, int c, int rs)
{
    return ((int64_t)k * g->cg + c) * g->r * g->s + rs;
}

void conv_pack_rows(const struct conv_geometry *g, enum infer_dtype from,
                    const void *src, enum infer_dtype to, enum conv_round round,
                    int channels, int pitch, void *dst)
{
    memset(dst, 0, (size_t)g->k * (size_t)pitch * infer_dtype_size(to));
    for (int k = 0; k < g->k; k++)
        for (int rs = 0; rs < g->r * g->s; rs++)
            for (int c = 0; c < g->cg; c++) {
                double v = scalar_load(from, src, weight_at(g, k, c, rs));
                if (round == CONV_ROUND_TF32)
                    v = (double)round_tf32((float)v);
                scalar_store(to, dst,
                             (int64_t)k * pitch + (int64_t)rs * channels + c,
                             v);
            }
}

void conv_split_tf32(int64_t count, float *w)
{
    for (int64_t i = 0; i < count; i++) {
        const float big = isfinite(w[i]) ? round_tf32(w[i]) : 0;

        w[count + i] = round_tf32(w[i] - big);
        w[i] = big;
    }
}

void conv_pack_columns(const struct conv_geometry *g, enum infer_dtype from,
                       const void *src, int depth_pad, int kg_pad, float *dst)
{
    memset(dst, 0,
           (size_t)g->groups * (size_t)depth_pad * (size_t)kg_pad *
               sizeof(*dst));
    for (int k = 0; k < g->k; k++) {
        float *column =
            dst + (int64_t)(k / g->kg) * depth_pad * kg_pad + k % g->kg;
        for (int rs = 0; rs < g->r * g->s; rs++)
            for (int c = 0; c < g->cg; c++)
                column[((int64_t)rs * g->cg + c) * kg_pad] =
                    (float)scalar_load(from, src, weight_at(g, k, c, rs));
    }
}

void conv_pack_taps(const struct conv_geometry *g, enum infer_dtype from,
                    const void *src, enum infer_dtype to, void *dst)
{
    for (int rs = 0; rs < g->r * g->s; rs++)
        for (int k = 0; k < g->k; k++)
            scalar_store(to, dst, (int64_t)rs * g->k + k,
                         scalar_load(from, src, weight_at(g, k, 0, rs)));
}
