/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline: rate over intensity, and how near the best kernels come. */
#include <math.h>

#include "tools/kbench/kbench.h"

#define WIDTH  960.0
#define HEIGHT 430.0
#define LEFT   56.0
#define RIGHT  24.0
#define TOP    12.0
#define BOTTOM 42.0

/* Ends of the axes, powers of ten. */
struct axes {
    double x0, x1, y0, y1;
};

static double x_of(const struct axes *a, double intensity)
{
    return LEFT + (log10(intensity) - a->x0) / (a->x1 - a->x0) *
                      (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axes *a, double rate)
{
    return HEIGHT - BOTTOM -
           (log10(rate) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool shown(const struct kb_case *c, const struct kb_precision *p)
{
    return c->precision == p && c->flops > 0 && c->bytes > 0 &&
           (c->best[KB_OURS] >= 0 || c->best[KB_RIVAL] >= 0);
}

static double rate_of(const struct kb_case *c, enum kb_side side)
{
    return c->best[side] < 0
               ? 0
               : kb_rate(c->flops, c->result[c->best[side]].time.median);
}

/* False where there is nothing to show. */
static bool find_axes(const struct kb_report *r, const struct kb_precision *p,
                      struct axes *a)
{
    const double peak = r->peaks->flops[kb_precision_index(p)].value;
    bool any = false;

    *a = (struct axes){1e9, -1e9, 1e9, peak > 0 ? log10(peak) : -1e9};
    for (int i = 0; i < r->cases->count; i++) {
        const struct kb_case *c = &r->cases->item[i];
        if (!shown(c, p))
            continue;
        a->x0 = fmin(a->x0, log10(c->flops / c->bytes));
        a->x1 = fmax(a->x1, log10(c->flops / c->bytes));
        for (int s = KB_OURS; s <= KB_RIVAL; s++)
            if (rate_of(c, (enum kb_side)s) > 0) {
                a->y0 = fmin(a->y0, log10(rate_of(c, (enum kb_side)s)));
                a->y1 = fmax(a->y1, log10(rate_of(c, (enum kb_side)s)));
                any = true;
            }
    }
    a->x0 = floor(a->x0);
    a->x1 = fmax(ceil(a->x1), a->x0 + 1);
    a->y0 = floor(a->y0);
    a->y1 = fmax(ceil(a->y1 + 0.05), a->y0 + 1);
    return any;
}

/* "10 G", "1 T": FLOP/s in powers of ten. */
static void put_rate(FILE *f, double power)
{
    const double value = pow(10, power);

    if (value >= 1e12)
        fprintf(f, "%g T", value / 1e12);
    else
        fprintf(f, "%g G", value / 1e9);
}

static void put_grid(FILE *f, const struct axes *a)
{
    for (double x = a->x0; x <= a->x1 + 1e-9; x++) {
        const double at = x_of(a, pow(10, x));
        fprintf(f,
                "<line class=\"gl\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" "
                "y2=\"%g\"/><text x=\"%.1f\" y=\"%g\" "
                "text-anchor=\"middle\">%g</text>\n",
                at, TOP, at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 16,
                pow(10, x));
    }
    for (double y = a->y0; y <= a->y1 + 1e-9; y++) {
        const double at = y_of(a, pow(10, y));
        fprintf(f,
                "<line class=\"gl\" x1=\"%g\" y1=\"%.1f\" x2=\"%g\" "
                "y2=\"%.1f\"/><text x=\"%g\" y=\"%.1f\" "
                "text-anchor=\"end\">",
                LEFT, at, WIDTH - RIGHT, at, LEFT - 8, at + 4);
        put_rate(f, y);
        fputs("</text>\n", f);
    }
    fprintf(f,
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">FLOP a byte that "
            "must move</text><text x=\"%g\" y=\"%g\">FLOP/s</text>\n",
            WIDTH - RIGHT, HEIGHT - 6, LEFT + 6, TOP + 12);
}

/* From the left edge up the slope of a bandwidth, then along the peak. */
static void put_roof(FILE *f, const struct axes *a, double bandwidth,
                     double peak, const char *class)
{
    const double left = pow(10, a->x0), right = pow(10, a->x1);
    const double least = pow(10, a->y0);
    const double start = fmax(left, least / bandwidth);
    const double ridge = peak / bandwidth;

    if (bandwidth <= 0 || peak <= 0 || start >= right)
        return;
    fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1f", class, x_of(a, start),
            y_of(a, fmin(start * bandwidth, peak)));
    if (ridge > start && ridge < right)
        fprintf(f, "L%.1f %.1f", x_of(a, ridge), y_of(a, peak));
    fprintf(f, "L%.1f %.1f\"/>\n", x_of(a, right),
            y_of(a, fmin(right * bandwidth, peak)));
}

static void put_point(FILE *f, const struct axes *a, const struct kb_case *c)
{
    const double x = x_of(a, c->flops / c->bytes);
    const double ours = rate_of(c, KB_OURS), rival = rate_of(c, KB_RIVAL);
    const struct {
        double rate;
        const char *class, *name;
    } dots[] = {{rival, "ring", "rival"}, {ours, "o", "ours"}};

    if (ours > 0 && rival > 0)
        fprintf(f,
                "<line class=\"tie\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                "y2=\"%.1f\"/>",
                x, y_of(a, ours), x, y_of(a, rival));
    for (int i = 0; i < 2; i++) {
        if (dots[i].rate <= 0)
            continue;
        fprintf(f,
                "<circle class=\"%s hit\" cx=\"%.1f\" cy=\"%.1f\" "
                "r=\"3.4\"><title>%s %.3g TFLOP/s, floor at %.3g\n",
                dots[i].class, x, y_of(a, dots[i].rate), dots[i].name,
                dots[i].rate / 1e12, kb_rate(c->flops, c->floor) / 1e12);
        kb_html_text(f, c->model);
        fputs(" ", f);
        kb_html_text(f, c->text);
        fputs("</title></circle>\n", f);
    }
}

static void put_chart(const struct kb_report *r, const struct kb_precision *p,
                      const struct axes *a, FILE *f)
{
    const double peak = r->peaks->flops[kb_precision_index(p)].value;

    fprintf(f,
            "<div class=\"card\"><h3>%s<span>peak %.4g TFLOP/s, memory %.4g "
            "GB/s%s</span></h3><div class=\"key\"><span><i style=\"background:"
            "var(--ours);border-radius:50%%\"></i>our best</span><span><i "
            "style=\"border:2px solid var(--rival);border-radius:50%%\"></i>"
            "rival's best</span></div>\n"
            "<div class=\"chart\"><svg viewBox=\"0 0 %g %g\" role=\"img\" "
            "aria-label=\"Roofline\">\n",
            p->name, peak / 1e12, r->peaks->memory.value / 1e9,
            r->peaks->cache.value > 0 && !r->request->cold
                ? ", dashed: from the cache"
                : "",
            WIDTH, HEIGHT);
    put_grid(f, a);
    if (!r->request->cold)
        put_roof(f, a, r->peaks->cache.value, peak, "roof2");
    put_roof(f, a, r->peaks->memory.value, peak, "roof");
    for (int i = 0; i < r->cases->count; i++)
        if (shown(&r->cases->item[i], p))
            put_point(f, a, &r->cases->item[i]);
    fputs("</svg></div></div>\n", f);
}

void kb_html_roofline(const struct kb_report *r, FILE *f)
{
    bool head = false;

    for (int i = 0; i < r->request->n_precisions; i++) {
        struct axes a;
        if (!find_axes(r, r->request->precision[i], &a))
            continue;
        if (!head)
            fputs("<h2>Distance from the floor</h2>\n<p>Either the arithmetic "
                  "or the bytes that must move set the pace: no kernel that "
                  "does all of a problem's arithmetic can be above the line. "
                  "Winograd's does less. Both limits were measured in this "
                  "run.</p>\n",
                  f);
        head = true;
        put_chart(r, r->request->precision[i], &a, f);
    }
}
