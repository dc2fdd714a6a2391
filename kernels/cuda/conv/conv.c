/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution problems as products of matrices, and their packed weights. */
#include "kernels/cuda/conv/conv.h"

#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/problem.h"
#include "kernels/quant/quant.h"

#define REFUSE(why, ...) error_set(why, INFER_EUNSUPPORTED, __VA_ARGS__)

/* ---- limits -------------------------------------------------------- */

/* Largest number of elements, offsets of padding included: 32-bit signed
 * indices reach every one. */
#define MAX_COUNT INT32_MAX

/* Elements from one pixel (row, in a dense layer) to the next if they are
 * evenly spaced and their channels contiguous, else 0. */
static int64_t pitch_of(const struct kern_problem *p,
                        const struct kern_tensor *t)
{
    const bool rows = p->op == KERN_DENSE_FPROP; /* row-major at any rank */
    const int channel = rows ? t->rank - 1 : 1;
    int64_t pitch = 0, pixels = 1;

    if (t->dim[channel] > 1 && t->stride[channel] != 1)
        return 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (i == channel || t->dim[i] == 1)
            continue;
        if (pitch == 0)
            pitch = t->stride[i];
        if (t->stride[i] != pitch * pixels)
            return 0;
        pixels *= t->dim[i];
    }
    if (pixels == 1)
        return t->dim[channel];
    return pitch >= t->dim[channel] && pitch * pixels <= MAX_COUNT ? pitch : 0;
}

static int check_activation(const struct kern_problem *p,
                            const struct kern_tensor *t, const char *what,
                            bool pitched, struct infer_error *why)
{
    if (t->dtype != p->in[CONV_X].dtype && !quant_of(p))
        return REFUSE(why, "%s is %s and the input %s", what,
                      infer_dtype_name(t->dtype),
                      infer_dtype_name(p->in[CONV_X].dtype));
    if (kern_tensor_count(t) > MAX_COUNT)
        return REFUSE(why, "%s has more than 2^31 elements", what);
    /* Rows of a dense layer are row-major, whatever their rank. */
    if (!kern_tensor_is_dense(t, p->op == KERN_DENSE_FPROP ? KERN_NCHW
                                                           : KERN_NHWC) &&
        !(pitched && pitch_of(p, t) > 0))
        return REFUSE(why, "%s does not lie dense with its channels last",
                      what);
    return 0;
}

static int check_tensors(const struct kern_problem *p, bool pitched,
                         struct infer_error *why)
{
    const struct kern_tensor *bias = kern_problem_in(p, CONV_BIAS);
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    int rc = check_activation(p, &p->in[CONV_X], "input", pitched, why);

    if (rc == 0)
        rc = check_activation(p, &p->out[0], "output", pitched, why);
    if (rc == 0 && residual)
        rc = check_activation(p, residual, "residual", pitched, why);
    if (rc == 0 && bias &&
        (bias->dtype != INFER_F32 || !kern_tensor_is_dense(bias, KERN_NCHW)))
        return REFUSE(why, "bias is not dense F32");
    if (rc == 0 && kern_tensor_count(&p->in[CONV_W]) > MAX_COUNT)
        return REFUSE(why, "weights have more than 2^31 elements");
    return rc;
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

/* Pixels of all images with their leading padding, and as much after. */
static int64_t padded_pixels(const struct conv_geometry *g)
{
    const int64_t top = g->pad_top < 0 ? -(int64_t)g->pad_top : g->pad_top;
    const int64_t left = g->pad_left < 0 ? -(int64_t)g->pad_left : g->pad_left;

    return g->n * (g->h + 2 * top) * (g->w + 2 * left);
}

static void read_pitches(const struct kern_problem *p, struct conv_geometry *g)
{
    const struct kern_tensor *residual = kern_problem_in(p, CONV_RESIDUAL);
    const int64_t x = pitch_of(p, &p->in[CONV_X]);
    const int64_t y = pitch_of(p, &p->out[0]);
    const int64_t r = residual ? pitch_of(p, residual) : 0;

    /* 0: a tensor without elements, of whatever strides. */
    g->x_pitch = x > 0 ? (int)x : g->c;
    g->y_pitch = y > 0 ? (int)y : g->k;
    g->r_pitch = r > 0 ? (int)r : g->k;
}

static int read_any(const struct kern_problem *p, bool pitched,
                    struct conv_geometry *g, struct infer_error *why)
{
    int rc = check_tensors(p, pitched, why);

    if (rc < 0)
        return rc;
    memset(g, 0, sizeof(*g));
    if (p->op == KERN_DENSE_FPROP)
        read_dense(p, g);
    else
        rc = read_conv(p, g, why);
    if (rc < 0)
        return rc;
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
    read_pitches(p, g);
    /* Offsets of padding pixels count as well. */
    if (p->op == KERN_CONV_FPROP && padded_pixels(g) > MAX_COUNT / g->x_pitch)
        return REFUSE(why, "padded input has more than 2^31 elements");
    return 0;
}

int conv_geometry_read(const struct kern_problem *p, struct conv_geometry *g,
                       struct infer_error *why)
{
    return read_any(p, false, g, why);
}

int conv_geometry_read_pitched(const struct kern_problem *p,
                               struct conv_geometry *g, struct infer_error *why)
{
    return read_any(p, true, g, why);
}

int conv_geometry_read_dgrad(const struct kern_problem *p,
                             struct conv_geometry *g, struct infer_error *why)
{
    const struct kern_tensor *dy = &p->in[CONV_X], *w = &p->in[CONV_W];
    struct kern_problem inner = *p;
    struct kern_conv *c = &inner.attr.conv;
    int64_t dim[KERN_MAX_RANK];

    if (dy->rank != 3 && dy->rank != 4)
        return REFUSE(why, "takes 1 or 2 spatial dimensions, found %d",
                      dy->rank - 2);
    if (w->dtype != dy->dtype || !kern_tensor_is_dense(w, KERN_NHWC))
        return REFUSE(why, "takes weights of the input's type, inputs "
                           "innermost");
    memcpy(dim, w->dim, sizeof(dim));
    dim[0] = p->out[0].dim[1];
    dim[1] = dy->dim[1] / c->groups;
    inner.op = KERN_CONV_FPROP;
    inner.in[CONV_W] = kern_tensor_dense(w->dtype, w->rank, dim, KERN_NHWC);
    for (int i = 0; i < dy->rank - 2; i++) {
        const int64_t reach = c->dilation[i] * (w->dim[i + 2] - 1);
        const int64_t begin = reach - c->pad_begin[i];
        const int64_t end =
            p->out[0].dim[i + 2] - dy->dim[i + 2] - begin + reach;
        if (c->stride[i] != 1)
            return REFUSE(why, "takes strides of 1");
        if (w->dim[i + 2] < 1 || begin < -MAX_COUNT / 4 ||
            begin > MAX_COUNT / 4 || end < -MAX_COUNT / 4 ||
            end > MAX_COUNT / 4)
            return REFUSE(why, "pads are too large");
        c->pad_begin[i] = (int)begin;
        c->pad_end[i] = (int)end;
    }
    return read_any(&inner, true, g, why);
}

int conv_weights_packable(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];

    if (!(p->constant_in & 1u << CONV_W))
        return REFUSE(why, "weights are not constant");
    if (!kern_tensor_is_dense(w, KERN_NCHW))
        return REFUSE(why, "weights are not dense row-major");
    if (w->dtype != INFER_F32 && w->dtype != p->in[CONV_X].dtype &&
        !quant_of(p))
        return REFUSE(why, "weights are %s, supported F32 and %s",
                      infer_dtype_name(w->dtype),
                      infer_dtype_name(p->in[CONV_X].dtype));
    return 0;
}

/* ---- packing ------------------------------------------------------- */

/* To the nearest TF32 (10 bits of fraction), ties away from zero. */
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

/* One output channel w[c][rs] to row[rs][c], elements of 1, 2 or 4 bytes. */
static void transpose_8(int cg, int rs, int channels, const uint8_t *w,
                        uint8_t *row)
{
    for (int i = 0; i < rs; i++)
        for (int c = 0; c < cg; c++)
            row[(size_t)i * (size_t)channels + (size_t)c] =
                w[(size_t)c * (size_t)rs + (size_t)i];
}

static void transpose_16(int cg, int rs, int channels, const uint16_t *w,
                         uint16_t *row)
{
    for (int i = 0; i < rs; i++)
        for (int c = 0; c < cg; c++)
            row[(size_t)i * (size_t)channels + (size_t)c] =
                w[(size_t)c * (size_t)rs + (size_t)i];
}

static void transpose_32(int cg, int rs, int channels, const float *w,
                         float *row, bool tf32)
{
    for (int i = 0; i < rs; i++)
        for (int c = 0; c < cg; c++) {
            const float v = w[(size_t)c * (size_t)rs + (size_t)i];

            row[(size_t)i * (size_t)channels + (size_t)c] =
                tf32 ? round_tf32(v) : v;
        }
}

static void transpose_any(const struct conv_geometry *g, enum infer_dtype from,
                          const void *src, enum infer_dtype to,
                          enum conv_round round, int channels, int k, void *row)
{
    for (int rs = 0; rs < g->r * g->s; rs++)
        for (int c = 0; c < g->cg; c++) {
            double v = scalar_load(from, src, weight_at(g, k, c, rs));
            if (round == CONV_ROUND_TF32)
                v = (double)round_tf32((float)v);
            scalar_store(to, row, (int64_t)rs * channels + c, v);
        }
}

void conv_pack_rows(const struct conv_geometry *g, enum infer_dtype from,
                    const void *src, enum infer_dtype to, enum conv_round round,
                    int channels, int pitch, void *dst)
{
    const size_t size = infer_dtype_size(to);
    const bool tf32 = round == CONV_ROUND_TF32;

    memset(dst, 0, (size_t)g->k * (size_t)pitch * size);
    for (int k = 0; k < g->k; k++) {
        unsigned char *row =
            (unsigned char *)dst + (size_t)k * (size_t)pitch * size;
        const unsigned char *w =
            (const unsigned char *)src +
            (size_t)weight_at(g, k, 0, 0) * infer_dtype_size(from);

        if (from != to || (size > 2 && to != INFER_F32))
            transpose_any(g, from, src, to, round, channels, k, row);
        else if (g->r * g->s == 1 && !tf32)
            memcpy(row, w, (size_t)g->cg * size);
        else if (size == 1)
            transpose_8(g->cg, g->r * g->s, channels, w, row);
        else if (size == 2)
            transpose_16(g->cg, g->r * g->s, channels, (const uint16_t *)w,
                         (uint16_t *)row);
        else
            transpose_32(g->cg, g->r * g->s, channels, (const float *)w,
                         (float *)row, tf32);
    }
}

/* The big part of a weight, as in tf32_split() (tf32.cuh): finite, so that the
 * small part is NaN only if the weight is. */
static float big_tf32(float value)
{
    const float big = round_tf32(value);
    uint32_t bits;

    if (isfinite(big))
        return big;
    if (!isfinite(value))
        return copysignf(1, value);
    memcpy(&bits, &value, sizeof(bits));
    bits &= 0xffffe000;
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

void conv_split_tf32(int64_t count, float *w)
{
    for (int64_t i = 0; i < count; i++) {
        const float big = big_tf32(w[i]);

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
