/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessing of pictures by name and in words. */
#include "tools/preprocess.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "libinfer/image/preprocess.h"
#include "tools/words.h"

/* ---- presets ------------------------------------------------------- */

#define UNIT (1.0f / 255)

const char *const preprocess_presets[] = {
    "imagenet", "caffe", "unit", "signed", "raw", "raw-bgr", NULL};

static const struct {
    float scale, mean[3], std[3];
    enum graph_color color;
    int resize, channels;
} preset[] = {
    {UNIT,
     {0.485f, 0.456f, 0.406f},
     {0.229f, 0.224f, 0.225f},
     GRAPH_RGB,
     256,
     3},
    {1, {104, 117, 123}, {1, 1, 1}, GRAPH_BGR, 256, 3},
    {UNIT, {0, 0, 0}, {1, 1, 1}, GRAPH_RGB, 0, 1},
    {1 / 127.5f, {1, 1, 1}, {1, 1, 1}, GRAPH_RGB, 0, 1},
    {1, {0, 0, 0}, {1, 1, 1}, GRAPH_RGB, 0, 1},
    {1, {0, 0, 0}, {1, 1, 1}, GRAPH_BGR, 0, 3},
};

int preprocess_set_preset(int which, struct graph_preprocess *p)
{
    p->scale = preset[which].scale;
    for (int i = 0; i < 3; i++) {
        p->mean[i] = preset[which].mean[i];
        p->std[i] = preset[which].std[i];
    }
    p->color = preset[which].color;
    p->resize = preset[which].resize;
    p->policy = p->resize ? GRAPH_RESIZE_SHORTER : GRAPH_RESIZE_EXACT;
    return preset[which].channels;
}

void preprocess_fit_preset(const int64_t *dim, struct graph_preprocess *p)
{
    const int64_t side = dim[2] < dim[3] ? dim[2] : dim[3];

    if (p->policy == GRAPH_RESIZE_SHORTER && p->resize > 0 && side > 0 &&
        side <= 65536)
        p->resize = (int)((p->resize * side + 112) / 224);
}

/* ---- in words ------------------------------------------------------ */

static void add(struct words *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct words *w, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    words_add(w, fmt, args);
    va_end(args);
}

/* ", mean 0.485,0.456,0.406", or one number for equal ones; n of them.  Nothing
 * where all are `usual`. */
static void add_numbers(struct words *w, const char *what, const float *x,
                        int n, float usual)
{
    bool equal = true;

    for (int i = 1; i < n; i++)
        equal = equal && x[i] == x[0];
    if (equal && x[0] == usual)
        return;
    add(w, ", %s ", what);
    for (int i = 0; i < (equal ? 1 : n); i++)
        add(w, "%s%.6g", i ? "," : "", (double)x[i]);
}

/* "1/255", or "0.5": what is shorter. */
static void add_scale(struct words *w, float scale)
{
    const double whole = round(2 / (double)scale) / 2;

    if (scale < 1 && fabs(whole * (double)scale - 1) < 1e-6)
        add(w, ", scale 1/%.6g", whole);
    else
        add(w, ", scale %.6g", (double)scale);
}

static void add_stored(struct words *w, const struct graph_preprocess *p,
                       const int64_t dim[4])
{
    static const char *const policies[] = {"exact size", "shorter side",
                                           "letterbox", "no resizing"};
    static const char *const colors[] = {"RGB", "BGR", "gray"};
    static const char *const filters[] = {"bilinear", "nearest", "bicubic"};
    const int n = (int)dim[1];

    add(w, "%s", policies[p->policy]);
    if (p->policy == GRAPH_RESIZE_SHORTER && p->resize > 0)
        add(w, " %d", p->resize);
    add(w, " (%s)", filters[p->filter]);
    if (p->policy == GRAPH_RESIZE_SHORTER && dim[2] > 0 && dim[3] > 0)
        add(w, ", centre crop %" PRId64 "x%" PRId64, dim[2], dim[3]);
    add(w, ", %s", colors[p->color]);
    add_scale(w, p->scale);
    add_numbers(w, "mean", p->mean, n, 0);
    add_numbers(w, "std", p->std, n, 1);
}

bool preprocess_text(const struct graph *g, const char *source, char *out,
                     size_t bytes)
{
    const struct graph_value *x = g->n_inputs ? &g->value[g->input[0]] : NULL;
    struct words w = {.out = out, .bytes = bytes};
    int64_t dim[4];

    if (x == NULL || !preprocess_dims(x->rank, x->dim, dim))
        return false;
    if (g->preprocess[0].present) {
        add_stored(&w, &g->preprocess[0], dim);
        add(&w, " (%s)", source);
    } else {
        add(&w, "%s, scale 1/255 (assumed: the file does not say)",
            dim[1] == 1 ? "gray" : "RGB");
    }
    return true;
}
