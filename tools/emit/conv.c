/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and their transposes.  Output channels are innermost: a pixel's
 * sums of up to 64 of them are a local array, to which each input element adds
 * its products.  Weights are stored as groups, window, input channel, output
 * channel, so that this loop walks contiguous memory.
 */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/input_scale.h"
#include "kernels/quant/quant.h"
#include "tools/emit/conv.h"

static const char *const out_index[] = {"o", "p", "q"};
static const char *const tap_index[] = {"t", "r", "s"};
static const char *const in_index[] = {"d", "h", "v"};

/* ---- reading the problem ------------------------------------------- */

static void read_space(struct conv *v)
{
    const struct kern_conv *a = &v->p->attr.conv;
    const int spatial = v->x.rank - 2;

    for (int d = 0; d < 3; d++) {
        const int i = d - (3 - spatial);
        const bool there = i >= 0;

        v->in[d] = there ? v->x.dim[i + 2] : 1;
        v->out[d] = there ? v->y.dim[i + 2] : 1;
        v->window[d] = there ? v->p->in[1].dim[i + 2] : 1;
        v->step[d] = there ? a->stride[i] : 1;
        v->dilation[d] = there ? a->dilation[i] : 1;
        v->pad[d] = there ? a->pad_begin[i] : 0;
        v->xs[d] = there ? v->x.stride[i + 2] : 0;
        v->ys[d] = there ? v->y.stride[i + 2] : 0;
        v->rs[d] = there && v->has_residual ? v->r.stride[i + 2] : 0;
    }
}

void emit_conv_look(const struct plan_step *s, struct conv *v)
{
    const struct kern_problem *p = &s->exec.problem;

    *v = (struct conv){.p = p,
                       .x = emit_view(s, 0).t,
                       .y = p->out[0],
                       .groups = p->attr.conv.groups,
                       .has_bias = kern_problem_in(p, 2) != NULL,
                       .has_residual = kern_problem_in(p, 3) != NULL,
                       .has_scale = input_scale_of(p) != NULL,
                       .integers = quant_of(p) != NULL};
    if (v->has_residual)
        v->r = emit_view(s, 3).t;
    v->c = v->x.dim[1] / v->groups;
    v->k = v->y.dim[1] / v->groups;
    read_space(v);
}

/* Declares the weights: stored group, window, input channel, output channel,
 * or, transposed, group, input channel, window, output channel.  A dimension
 * of the problem that has groups and channels is split. */
int emit_conv_weights(struct emit *e, const struct plan_step *s, struct conv *v,
                      bool transposed, struct infer_error *err)
{
    const int spatial = v->x.rank - 2;
    const struct view weights = emit_view(s, 1);
    struct view w = view_split(&weights, 0, v->groups);
    int64_t order[KERN_MAX_RANK];
    struct kern_tensor t;
    int n = 0;

    /* The split view: group, output (transposed: input), input (output),
     * window. */
    if (!v->depthwise)
        order[n++] = 0;
    if (transposed)
        order[n++] = 1;
    for (int i = 0; i < spatial; i++)
        order[n++] = 3 + i;
    if (v->depthwise)
        order[n++] = 0;
    order[n++] = 2;
    if (!transposed)
        order[n++] = 1;
    if (w.t.rank > KERN_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED, "weights of %d dimensions",
                         w.t.rank);
    w = view_permute(&w, order);
    const int rc = v->by_table ? emit_constant(e, &w, err, &t)
                               : emit_input_view(e, &w, "w", err, &t);
    if (rc < 0)
        return rc;
    v->array = v->by_table ? rc : e->last_array;
    const int first = transposed ? 2 : v->depthwise ? 0 : 1;
    v->w_group = t.stride[v->depthwise ? spatial : 0];
    v->w_c = transposed ? t.stride[1] : t.stride[n - 2];
    v->w_k = t.stride[n - 1];
    for (int d = 0; d < 3; d++) {
        const int i = d - (3 - spatial);
        v->ws[d] = i >= 0 ? t.stride[first + i] : 0;
    }
    return 0;
}

/* Declares all pointers and reads the problem. */
static int declare(struct emit *e, const struct plan_step *s, bool transposed,
                   struct infer_error *err, struct conv *v)
{
    const struct kern_problem *p = &s->exec.problem;
    struct kern_tensor bias;
    int rc;

    emit_conv_look(s, v);
    if (product_table_of(p))
        return error_set(err, INFER_EUNSUPPORTED, "a table of products");
    rc = emit_input(e, s, 0, "x", NULL, err, &v->x);
    if (rc < 0)
        return rc;
    v->depthwise = !transposed && v->c == 1 && v->k == 1 && v->groups > 1;
    rc = emit_conv_weights(e, s, v, transposed, err);
    if (rc == 0 && v->has_bias)
        rc = emit_input(e, s, 2, "b", NULL, err, &bias);
    if (rc == 0 && v->integers)
        rc = emit_multipliers(e, s, err);
    if (rc == 0 && v->has_residual)
        rc = emit_input(e, s, 3, "z", &v->y, err, &v->r);
    if (rc == 0 && v->has_scale)
        rc = emit_input(e, s, INPUT_SCALE_IN, "g", NULL, err, &v->scale);
    if (rc == 0)
        rc = emit_output(e, s, err);
    if (rc == 0 && v->has_bias && bias.stride[0] != 1 && v->k * v->groups > 1)
        rc = error_set(err, INFER_EUNSUPPORTED, "a bias with a stride");
    read_space(v);
    return rc;
}

/* ---- writing ------------------------------------------------------- */

const char *emit_conv_index(int d)
{
    return out_index[d];
}

/* Around a body that opens lanes. */
void emit_conv_open_pixels(struct emit *e, const struct conv *v)
{
    if (v->y.dim[0] > 1)
        emit_for(e, "n", v->y.dim[0]);
    for (int d = 0; d < 3; d++)
        if (v->out[d] > 1)
            emit_for(e, out_index[d], v->out[d]);
}

void emit_conv_close_pixels(struct emit *e, const struct conv *v)
{
    for (int d = 0; d < 3; d++)
        if (v->out[d] > 1)
            emit_close(e);
    if (v->y.dim[0] > 1)
        emit_close(e);
}

/* "n * 64 + p * 8 + ": the offset of a pixel. */
void emit_conv_pixel(const struct conv *v, const struct kern_tensor *t,
                     const int64_t *stride, char text[256])
{
    int used = 0;

    text[0] = '\0';
    if (v->y.dim[0] > 1)
        used += snprintf(text, 256, "%s", emit_offset("n", t->stride[0]));
    for (int d = 0; d < 3; d++)
        if (v->out[d] > 1)
            used += snprintf(text + used, 256 - (size_t)used, "%s",
                             emit_offset(out_index[d], stride[d]));
}

/* Stores the sums of the lanes; group: "" or the offset of the group's first
 * output channel as C. */
static int store(struct emit *e, const struct conv *v, struct infer_error *err)
{
    const bool many = v->groups > 1 && !v->depthwise;
    char channel[64], at[512], from[512], pixel[256], residual[600] = "";
    int rc;

    if (many)
        snprintf(channel, sizeof(channel), "(j * %" PRId64 " + %s)", v->k,
                 e->lane);
    else
        snprintf(channel, sizeof(channel), "%s", e->lane);
    emit_conv_pixel(v, &v->y, v->ys, pixel);
    if (!v->integers && v->y.stride[1] == 1 && emit_stores_lanes(v->p) &&
        (!v->has_residual || v->r.stride[1] == 1)) {
        snprintf(channel, sizeof(channel), "%s%s0",
                 many ? emit_offset("j", v->k) : "", emit_lane_block(e));
        snprintf(at, sizeof(at), "%s%s", pixel, channel);
        if (v->has_residual) {
            emit_conv_pixel(v, &v->r, v->rs, pixel);
            snprintf(from, sizeof(from), "%s%s", pixel, channel);
        }
        return emit_store_lanes(e, v->p, at, channel,
                                v->has_residual ? from : NULL, err);
    }
    snprintf(at, sizeof(at), "%s%s0", pixel,
             emit_offset(channel, v->y.stride[1]));
    if (v->has_residual) {
        emit_conv_pixel(v, &v->r, v->rs, pixel);
        snprintf(from, sizeof(from), "%s%s0", pixel,
                 emit_offset(channel, v->r.stride[1]));
        snprintf(residual, sizeof(residual), "z[%s]", from);
    }
    emit_each_lane(e);
    if (v->integers) {
        rc = emit_quantised(e, v->p, channel, residual, at, err);
        emit_close(e);
        return rc;
    }
    if (v->has_bias)
        emit_line(e, "const real v = sum[k] + b[%s];", channel);
    else
        emit_line(e, "const real v = sum[k];");
    rc = emit_epilogue(e, v->p, residual, at, err);
    emit_close(e);
    return rc;
}

/* Whether some tap along dimension d falls outside the input. */
bool emit_conv_has_edge(const struct conv *v, int d)
{
    const int64_t last = (v->out[d] - 1) * v->step[d] +
                         (v->window[d] - 1) * v->dilation[d] - v->pad[d];

    return v->pad[d] > 0 || last >= v->in[d];
}

/* Whether a dimension of the window is a loop. */
static bool has_taps(const struct conv *v, int d)
{
    return v->window[d] > 1 || emit_conv_has_edge(v, d);
}

/* Opens the loops over the first dimensions of the window. */
static void open_taps(struct emit *e, const struct conv *v, int dimensions)
{
    for (int d = 0; d < dimensions; d++) {
        if (has_taps(v, d))
            emit_for(e, tap_index[d], v->window[d]);
        if (v->in[d] > 1 || emit_conv_has_edge(v, d))
            emit_line(e, "const long %s = %s;", in_index[d],
                      emit_position(out_index[d], v->out[d], v->step[d],
                                    tap_index[d], v->window[d], v->dilation[d],
                                    v->pad[d]));
        if (!emit_conv_has_edge(v, d))
            continue;
        emit_line(e, "if (%s < 0 || %s >= %" PRId64 ")", in_index[d],
                  in_index[d], v->in[d]);
        emit_line(e, "    continue;");
    }
}

static void close_taps(struct emit *e, const struct conv *v, int dimensions)
{
    for (int d = 0; d < dimensions; d++)
        if (has_taps(v, d))
            emit_close(e);
}

/* "h * 64 + v * 8 + ": offsets by dimension `from` and those before `to`. */
static void space_offset(const char *const *index, const int64_t *stride,
                         const int64_t *extent, int to, char text[256])
{
    int used = 0;

    text[0] = '\0';
    for (int d = 0; d < to; d++)
        if (extent[d] > 1)
            used += snprintf(text + used, 256 - (size_t)used, "%s",
                             emit_offset(index[d], stride[d]));
}

/* The pointers i and f of the first product of a tap, or of a row's run. */
static void declare_products(struct emit *e, const struct conv *v, int to,
                             const char *x_more, const char *w_more)
{
    const bool many = v->groups > 1 && !v->depthwise;
    char x[256], w[256], image[64] = "", lane[64] = "", group[64] = "";

    space_offset(in_index, v->xs, v->in, to, x);
    space_offset(tap_index, v->ws, v->window, to, w);
    if (v->y.dim[0] > 1)
        snprintf(image, sizeof(image), "%s", emit_offset("n", v->x.stride[0]));
    if (many)
        snprintf(group, sizeof(group), "%s",
                 emit_offset("j", v->c * v->x.stride[1]));
    emit_line(e, "const %s *i = x + (%s%s%s%s0);", emit_type(v->x.dtype), image,
              group, x, x_more);
    if (many)
        snprintf(group, sizeof(group), "%s", emit_offset("j", v->w_group));
    if (e->lane[0] == '(' && !v->depthwise)
        snprintf(lane, sizeof(lane), "%s", emit_offset("k0", v->w_k));
    emit_line(e, "const %s *f = w + (%s%s%s%s0);", emit_type(v->p->in[1].dtype),
              group, w, w_more, lane);
}

/* Whether the taps of a window's row and their channels lie side by side, in x
 * and in the weights. */
static bool has_runs(const struct conv *v)
{
    return v->groups == 1 && !v->has_scale && v->window[2] > 1 &&
           v->dilation[2] == 1 && (v->x.stride[1] == 1 || v->c == 1) &&
           v->xs[2] == v->c && v->ws[2] == v->c * v->w_c;
}

/* Adds a row of the window in one run. */
static void add_run(struct emit *e, const struct conv *v)
{
    struct emit_products products = {.n = v->window[2] * v->c,
                                     .integers = v->integers,
                                     .zero = v->p->quant.x_zero,
                                     .x = v->x.dtype,
                                     .w = v->p->in[1].dtype,
                                     .array = v->array,
                                     .x_step = 1,
                                     .f_step = v->w_c,
                                     .k_step = v->w_k};
    char x[96], w[96] = "", count[96];

    emit_line(e, "const long v = %s;",
              emit_position("q", v->out[2], v->step[2], "", 1, 1, v->pad[2]));
    if (!emit_conv_has_edge(v, 2)) {
        declare_products(e, v, 2, emit_offset("v", v->c), "");
        emit_products(e, &products);
        return;
    }
    emit_line(e, "const long s0 = v < 0 ? -v : 0;");
    emit_line(e,
              "const long s1 = v + %" PRId64 " > %" PRId64 " ? %" PRId64
              " - v : %" PRId64 ";",
              v->window[2], v->in[2], v->in[2], v->window[2]);
    snprintf(x, sizeof(x), "%s", emit_offset("(v + s0)", v->c));
    snprintf(w, sizeof(w), "%s", emit_offset("s0", v->ws[2]));
    declare_products(e, v, 2, x, w);
    snprintf(count, sizeof(count), "(s1 - s0) * %" PRId64, v->c);
    products.count = count;
    products.n = v->c;
    emit_products(e, &products);
}

/* Adds one tap of a depthwise convolution: each lane its own channel. */
static void add_lanes(struct emit *e, const struct conv *v)
{
    char x[64], w[64];

    const bool dense = v->x.stride[1] == 1 && v->w_group == 1;

    snprintf(x, sizeof(x), "%s", emit_offset(e->lane, v->x.stride[1]));
    snprintf(w, sizeof(w), "%s", emit_offset(e->lane, v->w_group));
    if (dense && !v->has_scale) {
        const char *block = emit_lane_block(e);
        const struct emit_products products = {.integers = v->integers,
                                               .zero = v->p->quant.x_zero,
                                               .x = v->x.dtype,
                                               .w = v->p->in[1].dtype};

        declare_products(e, v, 3, block, block);
        emit_lane_products(e, &products);
        return;
    }
    declare_products(e, v, 3, "", "");
    emit_lane_loop(e);
    if (v->has_scale) {
        char scale[64];
        snprintf(scale, sizeof(scale), "%s%s",
                 v->y.dim[0] > 1 ? emit_offset("n", v->scale.stride[0]) : "",
                 emit_offset(e->lane, v->scale.stride[1]));
        emit_line(e, "const real a = (real)f[%s0] * g[%s0];", w, scale);
        emit_line(e, "sum[k] += a * i[%s0];", x);
    } else if (v->integers) {
        emit_line(e, "sum[k] += (i[%s0]%s) * f[%s0];", x,
                  emit_less_zero(v->p->quant.x_zero), w);
    } else {
        emit_line(e, "sum[k] += (real)i[%s0] * f[%s0];", x, w);
    }
    emit_close(e);
}

/* Adds the products of one tap with an input scale, whose product with the
 * weight is rounded first. */
static void add_scaled(struct emit *e, const struct conv *v)
{
    const bool many = v->groups > 1;
    char scale[160];

    declare_products(e, v, 3, "", "");
    snprintf(scale, sizeof(scale), "%s%s%s0",
             v->y.dim[0] > 1 ? emit_offset("n", v->scale.stride[0]) : "",
             many ? emit_offset("j", v->c * v->scale.stride[1]) : "",
             emit_offset("c", v->scale.stride[1]));
    emit_for(e, "c", v->c);
    emit_line(e, "const real a = i[%s0], u = g[%s];",
              emit_offset("c", v->x.stride[1]), scale);
    emit_lane_loop(e);
    emit_line(e, "sum[k] += f[%s%s0] * u * a;", emit_offset("c", v->w_c),
              emit_offset("k", v->w_k));
    emit_close(e);
    emit_close(e);
}

static void add_tap(struct emit *e, const struct conv *v)
{
    const struct emit_products products = {.n = v->c,
                                           .integers = v->integers,
                                           .zero = v->p->quant.x_zero,
                                           .x = v->x.dtype,
                                           .w = v->p->in[1].dtype,
                                           .array = v->array,
                                           .x_step = v->x.stride[1],
                                           .f_step = v->w_c,
                                           .k_step = v->w_k};

    if (v->depthwise) {
        add_lanes(e, v);
    } else if (v->has_scale) {
        add_scaled(e, v);
    } else {
        declare_products(e, v, 3, "", "");
        emit_products(e, &products);
    }
}

int emit_conv(struct emit *e, const struct plan_step *s,
              struct infer_error *err)
{
    struct conv v;
    int rc = emit_conv_layer(e, s, err);

    if (rc <= 0)
        return rc;
    rc = declare(e, s, false, err, &v);
    if (rc < 0)
        return rc;
    const bool runs = has_runs(&v);
    const bool many = v.groups > 1 && !v.depthwise;
    emit_conv_open_pixels(e, &v);
    if (many)
        emit_for(e, "j", v.groups);
    emit_lanes_open(e, v.depthwise ? v.groups : v.k,
                    v.integers ? "int32_t" : "real", "0");
    open_taps(e, &v, runs ? 2 : 3);
    if (runs)
        add_run(e, &v);
    else
        add_tap(e, &v);
    close_taps(e, &v, runs ? 2 : 3);
    rc = store(e, &v, err);
    emit_lanes_close(e);
    if (many)
        emit_close(e);
    emit_conv_close_pixels(e, &v);
    return rc;
}

/* ---- transposed ---------------------------------------------------- */

/* Opens the loops over the window: `continue` where tap r of output o meets no
 * input. */
static void open_reaches(struct emit *e, const struct conv *v)
{
    for (int d = 0; d < 3; d++) {
        const char *h = in_index[d];

        if (v->window[d] == 1 && v->out[d] == 1 && v->pad[d] == 0)
            continue;
        emit_for(e, tap_index[d], v->window[d]);
        emit_line(e, "const long %s%s = %s;", h, h,
                  emit_position(out_index[d], v->out[d], 1, tap_index[d],
                                v->window[d], -v->dilation[d], -v->pad[d]));
        if (v->step[d] > 1)
            emit_line(e, "const long %s = %s%s / %" PRId64 ";", h, h, h,
                      v->step[d]);
        else
            emit_line(e, "const long %s = %s%s;", h, h, h);
        if (v->step[d] > 1)
            emit_line(e,
                      "if (%s%s < 0 || %s%s %% %" PRId64
                      " != 0 || %s >= %" PRId64 ")",
                      h, h, h, h, v->step[d], h, v->in[d]);
        else
            emit_line(e, "if (%s < 0 || %s >= %" PRId64 ")", h, h, v->in[d]);
        emit_line(e, "    continue;");
    }
}

static void close_reaches(struct emit *e, const struct conv *v)
{
    for (int d = 0; d < 3; d++)
        if (v->window[d] > 1 || v->out[d] > 1 || v->pad[d] != 0)
            emit_close(e);
}

int emit_conv_transpose(struct emit *e, const struct plan_step *s,
                        struct infer_error *err)
{
    struct conv v;
    char x[96], w[96];
    int rc = declare(e, s, true, err, &v);

    if (rc < 0)
        return rc;
    const struct emit_products products = {
        .n = 1, .k_step = v.w_k, .array = -1};
    emit_conv_open_pixels(e, &v);
    if (v.groups > 1)
        emit_for(e, "j", v.groups);
    emit_lanes_open(e, v.k, "real", "0");
    emit_for(e, "c", v.c);
    open_reaches(e, &v);
    snprintf(x, sizeof(x), "%s", emit_offset("c", v.x.stride[1]));
    snprintf(w, sizeof(w), "%s", emit_offset("c", v.w_c));
    declare_products(e, &v, 3, x, w);
    emit_products(e, &products);
    close_reaches(e, &v);
    emit_close(e);
    rc = store(e, &v, err);
    emit_lanes_close(e);
    if (v.groups > 1)
        emit_close(e);
    emit_conv_close_pixels(e, &v);
    return rc;
}
