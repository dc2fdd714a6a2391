/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and accuracy over the steps as an SVG picture: two panels, the loss on
 * a logarithmic scale, ticks at round numbers, validation as points. */
#include "tools/train/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes in pixels: the picture and its panels. */
#define WIDTH   800
#define HEIGHT  600
#define LEFT    70
#define PANEL_W 700
#define PANEL_H 210
#define TICKS   6 /* on an axis, about */

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

/* ---- text ---------------------------------------------------------- */

/* Text from outside: no character that means something in XML. */
static void put_text(struct text *t, const char *text)
{
    for (; *text != '\0'; text++)
        if (strchr("<>&\"'", *text))
            put(t, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            put(t, "%c", *text);
}

/* ---- figures ------------------------------------------------------- */

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
    return 100 * row->accuracy;
}

static double val_accuracy(const struct log_row *row)
{
    return 100 * row->val_accuracy;
}

/* The latest value of a figure; NAN: it has none. */
static double latest(const struct log_row *row, size_t count, figure_fn *figure)
{
    while (count-- > 0)
        if (isfinite(figure(&row[count])))
            return figure(&row[count]);
    return NAN;
}

/* ---- axes ---------------------------------------------------------- */

struct panel {
    const struct log_row *row;
    size_t count;
    const char *title;
    bool decades;     /* values are logarithms */
    double top;       /* pixels */
    double low, high; /* values at the bottom and the top */
    double steps;     /* at the right */
};

/* 1, 2 or 5 times a power of ten: the distance of about TICKS round numbers
 * over a range. */
static double round_step(double range)
{
    const double least = range / TICKS;
    const double power = pow(10, floor(log10(least)));
    const double ratio = least / power;

    return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

static double x_of(const struct panel *p, double step)
{
    return LEFT + PANEL_W * step / p->steps;
}

static double y_of(const struct panel *p, double value)
{
    return p->top + PANEL_H * (p->high - value) / (p->high - p->low);
}

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

/* Moves both ends to round numbers. */
static void round_ends(struct panel *p)
{
    double step;

    if (!(p->low <= p->high)) /* no value at all */
        p->low = p->high = 0;
    if (!(p->high - p->low > 1e-9)) {
        p->low -= p->decades ? 0.3 : 1;
        p->high += p->decades ? 0.3 : 1;
    }
    if (p->decades)
        return;
    step = round_step(p->high - p->low);
    p->low = fmax(0, step * floor(p->low / step));
    p->high = fmin(100, step * ceil(p->high / step));
}

static void tick(struct text *t, const struct panel *p, double value,
                 double shown)
{
    const double y = y_of(p, value);

    put(t,
        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" "
        "stroke=\"#ddd\"/>\n<text x=\"%d\" y=\"%.1f\" "
        "text-anchor=\"end\">%.12g</text>\n",
        LEFT, LEFT + PANEL_W, y, y, LEFT - 6, y + 4, shown);
}

/* 1, 2 and 5 times powers of ten; all digits below one decade, powers alone
 * over more than three, and every n-th where they are many. */
static void log_ticks(struct text *t, const struct panel *p)
{
    static const double parts[] = {1, 2, 5, 3, 4, 6, 7, 8, 9};
    const double range = p->high - p->low;
    const int n = range > 3 ? 1 : range > 1 ? 3 : 9;
    const int each = 1 + (int)(range / 10);

    for (int e = (int)floor(p->low); e <= (int)ceil(p->high); e++)
        for (int i = 0; i < n; i++) {
            const double value = e + log10(parts[i]);

            if (value >= p->low - 1e-9 && value <= p->high + 1e-9 &&
                e % each == 0)
                tick(t, p, value, parts[i] * pow(10, e));
        }
}

static void round_ticks(struct text *t, const struct panel *p)
{
    const double step = round_step(p->high - p->low);

    for (double i = ceil(p->low / step - 1e-9) + 0.0;
         i * step <= p->high + 1e-9; i++)
        tick(t, p, i * step, i * step);
}

/* Steps below the panel, with the epochs in brackets at the right end. */
static void step_ticks(struct text *t, const struct panel *p)
{
    const double step = fmax(1, round_step(p->steps));
    const double epochs = p->count > 0 ? p->row[p->count - 1].epoch : 0;

    for (double at = 0; at <= p->steps + 1e-9; at += step)
        put(t,
            "<text x=\"%.1f\" y=\"%.0f\" "
            "text-anchor=\"middle\">%.0f</text>\n",
            x_of(p, at), p->top + PANEL_H + 16, at);
    put(t,
        "<text x=\"%d\" y=\"%.0f\" text-anchor=\"middle\">steps (%.0f "
        "steps: %.3g epoch%s)</text>\n",
        LEFT + PANEL_W / 2, p->top + PANEL_H + 32, p->steps, epochs,
        epochs == 1 ? "" : "s");
}

/* ---- curves -------------------------------------------------------- */

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
            put(t, "%.1f,%.1f ", x_of(p, (double)p->row[i].step), y_of(p, v));
    }
    put(t, "\"/>\n");
}

/* A line needs two points: each has a circle, so that one alone is seen. */
static void points(struct text *t, const struct panel *p, figure_fn *figure,
                   const char *color)
{
    for (size_t i = 0; i < p->count; i++) {
        const double v = figure(&p->row[i]);

        if (isfinite(v))
            put(t,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" "
                "fill=\"%s\"/>\n",
                x_of(p, (double)p->row[i].step), y_of(p, v), color);
    }
}

/* "training 0.0123" in its colour. */
static void legend(struct text *t, const struct panel *p, int x,
                   const char *what, const char *color, double value)
{
    put(t, "<text x=\"%d\" y=\"%.0f\" fill=\"%s\" text-anchor=\"end\">%s ", x,
        p->top - 8, color, what);
    if (!isfinite(value))
        put(t, "none");
    else if (p->decades)
        put(t, "%.4g", pow(10, value));
    else
        put(t, "%.2f %%", value);
    put(t, "</text>\n");
}

#define BLUE "#2060c0"
#define RED  "#c03030"

static void draw_panel(struct text *t, struct panel *p, figure_fn *a,
                       figure_fn *b)
{
    p->low = INFINITY;
    p->high = -INFINITY;
    widen(p, a);
    widen(p, b);
    round_ends(p);
    put(t,
        "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" "
        "fill=\"none\" stroke=\"#999\"/>\n<text x=\"%d\" "
        "y=\"%.0f\" font-weight=\"bold\">%s</text>\n",
        LEFT, p->top, PANEL_W, PANEL_H, LEFT, p->top - 8, p->title);
    legend(t, p, LEFT + PANEL_W - 170, "training", BLUE,
           latest(p->row, p->count, a));
    legend(t, p, LEFT + PANEL_W, "validation", RED,
           latest(p->row, p->count, b));
    if (p->decades)
        log_ticks(t, p);
    else
        round_ticks(t, p);
    step_ticks(t, p);
    curve(t, p, a, BLUE);
    curve(t, p, b, RED);
    points(t, p, b, RED);
}

char *plot_svg(const char *title, const struct log_row *row, size_t count,
               size_t *bytes)
{
    struct text t = {0};
    struct panel p = {.row = row, .count = count, .steps = 1};

    for (size_t i = 0; i < count; i++)
        if ((double)row[i].step > p.steps)
            p.steps = (double)row[i].step;
    put(&t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
        "height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"%d\" y=\"20\" font-size=\"14\">",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_text(&t, title);
    put(&t, "</text>\n");
    p.title = "loss (logarithmic)";
    p.decades = true;
    p.top = 54;
    draw_panel(&t, &p, loss, val_loss);
    p.title = "accuracy, %";
    p.decades = false;
    p.top = 336;
    draw_panel(&t, &p, accuracy, val_accuracy);
    put(&t, "</svg>\n");
    if (t.failed) {
        free(t.data);
        return NULL;
    }
    *bytes = t.bytes;
    return t.data;
}
