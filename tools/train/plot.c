/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and accuracy over the steps as an SVG picture: two panels, the loss on
 * a logarithmic scale. */
#include "tools/train/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Sizes in pixels: the picture and its panels. */
#define WIDTH   800
#define HEIGHT  600
#define LEFT    70
#define PANEL_W 700
#define PANEL_H 220

struct text {
    char *data;
    size_t bytes, capacity;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t,
                                                      const char *fmt, ...)
{
    char line[512];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (n < 0 || t->failed)
        return;
    if (t->bytes + (size_t)n + 1 > t->capacity) {
        const size_t capacity = 2 * t->capacity + 4096;
        char *more = realloc(t->data, capacity);

        t->failed = more == NULL;
        if (!more)
            return;
        t->data = more;
        t->capacity = capacity;
    }
    for (int i = 0; i <= n; i++)
        t->data[t->bytes + (size_t)i] = line[i];
    t->bytes += (size_t)n;
}

/* A column of the log. */
typedef double figure_fn(const struct log_row *row);

static double loss(const struct log_row *row)
{
    return row->loss > 0 ? log10(row->loss) : NAN;
}

static double val_loss(const struct log_row *row)
{
    return row->val_loss > 0 ? log10(row->val_loss) : NAN;
}

static double accuracy(const struct log_row *row)
{
    return row->accuracy;
}

static double val_accuracy(const struct log_row *row)
{
    return row->val_accuracy;
}

struct panel {
    const struct log_row *row;
    size_t count;
    double top;       /* pixels */
    double low, high; /* values at the bottom and the top */
    double steps;
};

static void widen(struct panel *p, figure_fn *figure)
{
    for (size_t i = 0; i < p->count; i++) {
        const double v = figure(&p->row[i]);

        if (!isfinite(v))
            continue;
        p->low = v < p->low ? v : p->low;
        p->high = v > p->high ? v : p->high;
    }
}

static void curve(struct text *t, const struct panel *p, figure_fn *figure,
                  const char *color)
{
    put(t,
        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
        "points=\"",
        color);
    for (size_t i = 0; i < p->count; i++) {
        const double v = figure(&p->row[i]);

        if (isfinite(v))
            put(t, "%.1f,%.1f ",
                LEFT + PANEL_W * (double)p->row[i].step / p->steps,
                p->top + PANEL_H * (p->high - v) / (p->high - p->low));
    }
    put(t, "\"/>\n");
}

static void frame(struct text *t, const struct panel *p, const char *title,
                  bool decades)
{
    put(t,
        "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" "
        "fill=\"none\" stroke=\"#999\"/>\n<text x=\"%d\" y=\"%.0f\">%s, "
        "training (blue) and validation (red)</text>\n",
        LEFT, p->top, PANEL_W, PANEL_H, LEFT, p->top - 8, title);
    for (int i = 0; i <= 4; i++) {
        const double v = p->low + (p->high - p->low) * i / 4;
        const double y = p->top + PANEL_H * (1 - i / 4.0);

        put(t,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
            "stroke=\"#ddd\"/>\n<text x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%.3g</text>\n",
            LEFT, LEFT + PANEL_W, y, y, LEFT - 6, y + 4,
            decades ? pow(10, v) : v);
    }
    for (int i = 0; i <= 4; i++)
        put(t, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"middle\">%.0f</text>\n",
            LEFT + PANEL_W * i / 4, p->top + PANEL_H + 18, p->steps * i / 4);
}

static void panel(struct text *t, struct panel *p, const char *title,
                  bool decades, figure_fn *a, figure_fn *b)
{
    p->low = INFINITY;
    p->high = -INFINITY;
    widen(p, a);
    widen(p, b);
    if (!(p->low < p->high)) { /* one point at most */
        p->low = isfinite(p->low) ? p->low - 0.5 : 0;
        p->high = p->low + 1;
    }
    frame(t, p, title, decades);
    curve(t, p, a, "#2060c0");
    curve(t, p, b, "#c03030");
}

char *plot_svg(const struct log_row *row, size_t count, size_t *bytes)
{
    struct text t = {0};
    struct panel p = {.row = row, .count = count, .steps = 1};

    for (size_t i = 0; i < count; i++)
        if ((double)row[i].step > p.steps)
            p.steps = (double)row[i].step;
    put(&t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
        "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        WIDTH, HEIGHT);
    p.top = 40;
    panel(&t, &p, "loss", true, loss, val_loss);
    p.top = 330;
    panel(&t, &p, "accuracy", false, accuracy, val_accuracy);
    put(&t, "</svg>\n");
    if (t.failed) {
        free(t.data);
        return NULL;
    }
    *bytes = t.bytes;
    return t.data;
}
