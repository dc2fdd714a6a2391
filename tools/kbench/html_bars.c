/* SPDX-License-Identifier: Apache-2.0 */
/* Charts of ratios: networks by batch, whole networks, layer by layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kbench/kbench.h"

void kb_html_group(FILE *f, const struct kb_group *g)
{
    kb_html_text(f, g->model[0] ? g->model : "problems");
    if (g->dir != KB_FPROP)
        fprintf(f, ", %s", kb_dir_names[g->dir]);
}

/* "4.31 us" */
static const char *time_text(double seconds, char buf[24])
{
    const double us = seconds * 1e6;

    snprintf(buf, 24, us >= 1e3 ? "%.3g ms" : "%.3g us",
             us >= 1e3 ? us / 1e3 : us);
    return buf;
}

/* ---- networks by batch --------------------------------------------- */

/* Groups with the same network, direction and precision stand in one row. */
static bool same_row(const struct kb_group *a, const struct kb_group *b)
{
    return a->precision == b->precision && a->dir == b->dir &&
           strcmp(a->model, b->model) == 0;
}

static int find_batches(const struct kb_summary *s, int64_t batch[64])
{
    int n = 0;

    for (int i = 0; i < s->n_groups; i++) {
        int at = 0;
        while (at < n && batch[at] != s->group[i].batch)
            at++;
        if (at == n && n < 64)
            batch[n++] = s->group[i].batch;
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && batch[k - 1] > batch[k]; k--) {
            const int64_t swap = batch[k];
            batch[k] = batch[k - 1];
            batch[k - 1] = swap;
        }
    return n;
}

/* Blue where ours is ahead, orange where it is behind; full colour at a factor
 * of two. */
static void put_cell(FILE *f, const struct kb_group *g)
{
    const double depth = fmin(1, fabs(log2(g->mean)));

    fprintf(f,
            "<td style=\"background:color-mix(in srgb,var(--%s) %.0f%%,"
            "var(--card))\">%.2f<span>%d of %d ahead</span></td>",
            g->mean >= 1 ? "ours" : "rival", 12 + 50 * depth, g->mean, g->ahead,
            g->compared);
}

static void put_row(FILE *f, const struct kb_summary *s, int first,
                    const int64_t *batch, int batches)
{
    fputs("<tr><td class=\"l\">", f);
    kb_html_group(f, &s->group[first]);
    fprintf(f, " <span>%s</span></td>", s->group[first].precision->name);
    for (int b = 0; b < batches; b++) {
        const struct kb_group *found = NULL;
        for (int i = first; i < s->n_groups; i++)
            if (same_row(&s->group[i], &s->group[first]) &&
                s->group[i].batch == batch[b])
                found = &s->group[i];
        if (found && found->compared > 0)
            put_cell(f, found);
        else
            fputs("<td></td>", f);
    }
    fputs("</tr>\n", f);
}

void kb_html_matrix(const struct kb_report *r, FILE *f)
{
    const struct kb_summary *s = r->summary;
    int64_t batch[64];
    const int batches = find_batches(s, batch);

    if (s->all.compared == 0 || s->n_groups < 2)
        return;
    fputs("<h2>Networks by batch</h2>\n<p>Geometric mean over the distinct "
          "layers of the rival's best time over ours: <b>above 1 ours is "
          "faster</b>.</p>\n<div class=\"card\"><table class=\"matrix\">"
          "<thead><tr><th class=\"l\"></th>",
          f);
    for (int b = 0; b < batches; b++)
        fprintf(f, "<th>batch %lld</th>", (long long)batch[b]);
    fputs("</tr></thead><tbody>\n", f);
    for (int i = 0; i < s->n_groups; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen = seen || same_row(&s->group[k], &s->group[i]);
        if (!seen)
            put_row(f, s, i, batch, batches);
    }
    fputs("</tbody></table></div>\n", f);
}

/* ---- whole networks ------------------------------------------------ */

#define TOTAL_LEFT  190
#define TOTAL_WIDTH 560
#define TOTAL_STEP  30

/* The track ends at `most` times the rival's time. */
static void put_total(FILE *f, const struct kb_group *g, int at, double most)
{
    const double unit = TOTAL_WIDTH / most, ours = g->ours / g->rival;
    const double y = at * TOTAL_STEP + 24;
    char a[24], b[24], c[24];

    fputs("<g class=\"hit\"><title>", f);
    kb_html_group(f, g);
    fprintf(f, ", batch %lld: ours %s, rival %s, floor %s</title>",
            (long long)g->batch, time_text(g->ours, a), time_text(g->rival, b),
            time_text(g->floor, c));
    fprintf(f,
            "<text class=\"strong\" x=\"%d\" y=\"%g\" "
            "text-anchor=\"end\">",
            TOTAL_LEFT - 12, y + 12);
    kb_html_group(f, g);
    fprintf(f, ", batch %lld</text>", (long long)g->batch);
    fprintf(f,
            "<rect class=\"r\" opacity=\".3\" x=\"%d\" y=\"%g\" width=\"%.1f\" "
            "height=\"16\" rx=\"3\"/>",
            TOTAL_LEFT, y, unit);
    fprintf(f,
            "<rect class=\"%s\" x=\"%d\" y=\"%g\" width=\"%.1f\" height=\"8\" "
            "rx=\"2\"/>",
            "o", TOTAL_LEFT, y + 4, fmin(ours, most) * unit);
    fprintf(f,
            "<rect class=\"tick\" x=\"%.1f\" y=\"%g\" width=\"2.5\" "
            "height=\"20\"/>",
            TOTAL_LEFT + fmin(g->floor / g->rival, most) * unit, y - 2);
    fprintf(f, "<text x=\"%d\" y=\"%g\">%s against %s",
            TOTAL_LEFT + TOTAL_WIDTH + 14, y + 12, a, b);
    if (ours > most) /* the bar is cut off */
        fprintf(f, ": %.0f%%", 100 * ours);
    fputs("</text></g>\n", f);
}

void kb_html_totals(const struct kb_report *r, FILE *f)
{
    const struct kb_summary *s = r->summary;
    double most = 1;
    int n = 0, at = 0;

    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].compared > 0 && s->group[i].model[0]) {
            most = fmax(most, s->group[i].ours / s->group[i].rival);
            n++;
        }
    if (n == 0)
        return;
    most = fmin(most, 3);
    fputs("<h2>All layers of a network</h2>\n<p>The best kernel of each layer, "
          "added up with how often the layer occurs, as a share of the rival's "
          "time.</p>\n<div class=\"card\"><div class=\"key\">"
          "<span><i style=\"background:var(--ours)\"></i>ours</span>"
          "<span><i style=\"background:var(--rival);opacity:.4\"></i>rival "
          "(100%)</span><span><i style=\"background:var(--floor);width:4px\">"
          "</i>floor: what the device allows</span></div>\n",
          f);
    fprintf(f,
            "<div class=\"chart\"><svg viewBox=\"0 0 960 %d\" role=\"img\" "
            "aria-label=\"Time of all layers\">\n",
            n * TOTAL_STEP + 30);
    for (double x = 0; x <= most + 1e-9; x += 0.25) {
        const double at_x = TOTAL_LEFT + x / most * TOTAL_WIDTH;
        fprintf(f,
                "<line class=\"gl\" x1=\"%.1f\" y1=\"16\" x2=\"%.1f\" "
                "y2=\"%d\"/><text x=\"%.1f\" y=\"10\" "
                "text-anchor=\"middle\">%.0f%%</text>\n",
                at_x, at_x, n * TOTAL_STEP + 22, at_x, 100 * x);
    }
    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].compared > 0 && s->group[i].model[0])
            put_total(f, &s->group[i], at++, most);
    fputs("</svg></div></div>\n", f);
}

/* ---- layer by layer ------------------------------------------------ */

#define PANEL_WIDTH  460.0
#define PANEL_HEIGHT 150.0
#define PANEL_LEFT   34.0

static bool in_group(const struct kb_case *c, const struct kb_group *g)
{
    return c->ratio > 0 && c->batch == g->batch && c->dir == g->dir &&
           c->precision == g->precision && strcmp(c->model, g->model) == 0;
}

static double height_of(double ratio, double octaves)
{
    const double v = log2(ratio) / octaves;

    return (v > 1 ? 1 : v < -1 ? -1 : v) * (PANEL_HEIGHT / 2 - 8);
}

static void put_bar(FILE *f, const struct kb_case *c, double x, double width,
                    double octaves)
{
    const double h = height_of(c->ratio, octaves), middle = PANEL_HEIGHT / 2;
    const double size = fmax(1, fabs(h));
    char a[24], b[24];

    fprintf(f, "<g class=\"hit\"><title>%.2f  ", c->ratio);
    kb_html_text(f, c->name);
    fputs("\n", f);
    kb_html_text(f, c->text);
    fprintf(f, "\nours %s: ",
            time_text(c->result[c->best[KB_OURS]].time.median, a));
    char name[160];
    kb_html_text(
        f, kb_kernel_text(&c->result[c->best[KB_OURS]], name, sizeof(name)));
    fprintf(f, "\nrival %s: ",
            time_text(c->result[c->best[KB_RIVAL]].time.median, b));
    kb_html_text(
        f, kb_kernel_text(&c->result[c->best[KB_RIVAL]], name, sizeof(name)));
    fprintf(f,
            "</title><rect x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%g\" "
            "fill=\"transparent\"/>"
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
            "height=\"%.1f\" rx=\"1.5\"/></g>\n",
            x, width, PANEL_HEIGHT, h >= 0 ? "o" : "r", x + width * 0.1,
            h >= 0 ? middle - size : middle, width * 0.8, size);
}

static void put_panel(FILE *f, const struct kb_report *r,
                      const struct kb_group *g, int octaves)
{
    const double step =
        fmin(26, (PANEL_WIDTH - PANEL_LEFT) / (g->compared ? g->compared : 1));
    double x = PANEL_LEFT;

    fputs("<div class=\"card\"><h3>", f);
    kb_html_group(f, g);
    fprintf(f, ", batch %lld<span>%s, mean %.2f</span></h3>\n",
            (long long)g->batch, g->precision->name, g->mean);
    fprintf(f, "<svg viewBox=\"0 0 %g %g\" role=\"img\">\n", PANEL_WIDTH,
            PANEL_HEIGHT);
    for (int o = -octaves; o <= octaves; o++) {
        const double y = PANEL_HEIGHT / 2 - height_of(exp2(o), octaves);
        fprintf(f,
                "<line class=\"%s\" x1=\"%g\" y1=\"%.1f\" x2=\"%g\" "
                "y2=\"%.1f\"/><text x=\"%g\" y=\"%.1f\" "
                "text-anchor=\"end\">%s%g&#215;</text>\n",
                o ? "gl" : "axis", PANEL_LEFT, y, PANEL_WIDTH, y,
                PANEL_LEFT - 6, y + 4, o < 0 ? "1/" : "", exp2(abs(o)));
    }
    for (int i = 0; i < r->cases->count; i++)
        if (in_group(&r->cases->item[i], g)) {
            put_bar(f, &r->cases->item[i], x, step, octaves);
            x += step;
        }
    fputs("</svg></div>\n", f);
}

void kb_html_ratios(const struct kb_report *r, FILE *f)
{
    const struct kb_summary *s = r->summary;
    double most = 1;

    if (s->all.compared == 0)
        return;
    for (int i = 0; i < r->cases->count; i++)
        if (r->cases->item[i].ratio > 0)
            most = fmax(most, fabs(log2(r->cases->item[i].ratio)));
    fputs("<h2>Layer by layer</h2>\n<p>Each bar is one distinct problem in the "
          "order of the network. <b>Up: ours is faster</b> by that factor; "
          "down: the rival is. Point at a bar for the kernels.</p>\n"
          "<div class=\"key\"><span><i style=\"background:var(--ours)\"></i>"
          "ours faster</span><span><i style=\"background:var(--rival)\"></i>"
          "rival faster</span></div>\n<div class=\"grid\">\n",
          f);
    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].compared > 0)
            put_panel(f, r, &s->group[i], most > 3 ? 4 : (int)ceil(most));
    fputs("</div>\n", f);
}
