/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of floats by a table (layer.c): dense ones and depthwise ones.
 * Where what a row of the window reads does not lie side by side (the planes of
 * a network's input, dilation), it is first copied side by side for each pixel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/emit/conv.h"

/* Most elements of a window that are copied, on the stack. */
#define MOST_COPIED 1024

/* Whether each output along dimension d has a tap inside the input. */
static bool always_meets(const struct conv *v, int d)
{
    return v->pad[d] < v->window[d] &&
           v->in[d] > (v->out[d] - 1) * v->step[d] - v->pad[d];
}

/* Reads the problem; whether it is one. */
static bool fits(const struct emit *e, const struct plan_step *s,
                 struct conv *v)
{
    const struct view x = emit_view(s, 0);

    if (!emit_layer_fits(e, s))
        return false;
    emit_conv_look(s, v);
    v->by_table = true;
    v->depthwise = v->c == 1 && v->k == 1 && v->groups > 1;
    if (v->x.rank > 4 || (v->groups > 1 && !v->depthwise) ||
        (v->depthwise && !emit_layer_may_overread(e, &x)))
        return false;
    const int64_t channels = v->c * v->groups;
    for (int d = 1; d < 3; d++)
        if (emit_conv_has_edge(v, d) &&
            (!always_meets(v, d) || v->dilation[d] > 1))
            return false;
    v->copied =
        !((v->x.stride[1] == 1 || channels == 1) &&
          (v->window[2] == 1 || (v->dilation[2] == 1 && v->xs[2] == channels)));
    return (v->y.stride[1] == 1 || v->y.dim[1] == 1) &&
           (!v->copied || (!v->depthwise &&
                           v->window[1] * v->window[2] * v->c <= MOST_COPIED));
}

/* How many taps of dimension d meet the input, the first of them, and the
 * offset of that in x; as expressions of C. */
struct taps {
    char count[64], first[16], x[64];
};

static void declare_taps(struct emit *e, const struct conv *v, int d,
                         struct taps *t)
{
    const char *h = d == 1 ? "h" : "v", *r = d == 1 ? "r" : "s";
    const bool edge = emit_conv_has_edge(v, d);
    const bool ends =
        (v->out[d] - 1) * v->step[d] - v->pad[d] + v->window[d] > v->in[d];

    *t = (struct taps){.first = "0"};
    snprintf(t->count, sizeof(t->count), "%" PRId64, v->window[d]);
    if (v->out[d] > 1 || edge)
        emit_line(e, "const long %s = %s;", h,
                  emit_position(emit_conv_index(d), v->out[d], v->step[d], "",
                                1, 1, v->pad[d]));
    if (edge && v->pad[d] > 0) {
        emit_line(e, "const long %s0 = %s < 0 ? -%s : 0;", r, h, h);
        snprintf(t->first, sizeof(t->first), "%s0", r);
        snprintf(t->count, sizeof(t->count), "%" PRId64 " - %s0", v->window[d],
                 r);
    }
    if (edge && ends) {
        emit_line(e,
                  "const long %s1 = %s > %" PRId64 " ? %" PRId64
                  " - %s : %" PRId64 ";",
                  r, h, v->in[d] - v->window[d], v->in[d], h, v->window[d]);
        snprintf(t->count, sizeof(t->count), "%s1%s%s", r,
                 v->pad[d] > 0 ? " - " : "", v->pad[d] > 0 ? t->first : "");
    }
    if (v->out[d] > 1 || edge) {
        char at[32];
        snprintf(at, sizeof(at), t->first[0] == '0' ? "%s" : "(%s + %s0)", h,
                 r);
        snprintf(t->x, sizeof(t->x), "%s", emit_offset(at, v->xs[d]));
    }
}

/* Copies what the pixel reads: rows of the window, pixels, channels. */
static void copy_window(struct emit *e, const struct conv *v,
                        const struct taps *rows, const struct taps *columns,
                        const char *image)
{
    const int64_t row = v->window[2] * v->c;

    emit_line(e, "float window[%" PRId64 "];", v->window[1] * row);
    emit_open(e, "for (long r = 0; r < %s; r++)", rows->count);
    emit_open(e, "for (long s = 0; s < %s; s++)", columns->count);
    emit_for(e, "c", v->c);
    emit_line(e, "window[r * %" PRId64 " + s * %" PRId64 " + c] =", row, v->c);
    emit_line(e, "    x[%s%s%sr * %" PRId64 " + s * %" PRId64 " + %s0];", image,
              rows->x, columns->x, v->xs[1] * v->dilation[1],
              v->xs[2] * v->dilation[2], emit_offset("c", v->x.stride[1]));
    emit_close(e);
    emit_close(e);
    emit_close(e);
}

/* Writes the call for a pixel. */
static void add_pixel(struct emit *e, const struct conv *v)
{
    char x[256], y[256], w[128] = "", n[96], image[64] = "";
    struct taps rows, columns;

    declare_taps(e, v, 1, &rows);
    declare_taps(e, v, 2, &columns);
    if (v->y.dim[0] > 1)
        snprintf(image, sizeof(image), "%s", emit_offset("n", v->x.stride[0]));
    if (v->copied)
        copy_window(e, v, &rows, &columns, image);
    emit_conv_pixel(v, &v->y, v->ys, y);
    snprintf(y + strlen(y), sizeof(y) - strlen(y), "0");
    snprintf(x, sizeof(x), "%s%s%s0", image, rows.x, columns.x);
    if (rows.first[0] != '0')
        snprintf(w, sizeof(w), "%s", emit_offset(rows.first, v->ws[1]));
    if (columns.first[0] != '0')
        snprintf(w + strlen(w), sizeof(w) - strlen(w), "%s",
                 emit_offset(columns.first, v->ws[2]));
    snprintf(w + strlen(w), sizeof(w) - strlen(w), "0");
    if (emit_conv_has_edge(v, 2))
        snprintf(n, sizeof(n), v->c > 1 ? "(%s) * %" PRId64 : "%s",
                 columns.count, v->c);
    else
        snprintf(n, sizeof(n), "%" PRId64, v->window[2] * v->c);
    emit_layer_pixel(e, y, v->copied ? "window" : "x", v->copied ? "0" : x, w,
                     rows.count, n);
}

int emit_conv_layer(struct emit *e, const struct plan_step *s,
                    struct infer_error *err)
{
    const struct view bias = emit_view(s, 2);
    struct kern_tensor t;
    struct conv v;
    int rc;

    if (!fits(e, s, &v))
        return 1;
    rc = emit_conv_weights(e, s, &v, false, err);
    if (rc < 0)
        return rc;
    rc = emit_constant(e, &bias, err, &t);
    if (rc < 0)
        return rc;
    const struct emit_layer l = {.w = v.array,
                                 .b = rc,
                                 .lanes = v.y.dim[1],
                                 .x_row = v.copied ? v.window[2] * v.c
                                                   : v.xs[1] * v.dilation[1],
                                 .w_row = v.ws[1],
                                 .depthwise = v.depthwise};
    rc = emit_layer_declare(e, s, &l, err);
    if (rc == 0)
        rc = emit_input(e, s, 0, "x", NULL, err, &v.x);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc < 0)
        return rc;
    emit_conv_open_pixels(e, &v);
    add_pixel(e, &v);
    emit_conv_close_pixels(e, &v);
    return 0;
}
