/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all problems, and those that lag behind. */
#include <math.h>
#include <stdlib.h>

#include "tools/kbench/kbench.h"

static void put_text_cell(FILE *f, const char *class, const char *text)
{
    fprintf(f, "<td class=\"%s\" data-v=\"", class);
    kb_html_text(f, text);
    fputs("\">", f);
    kb_html_text(f, text);
    fputs("</td>", f);
}

/* Absent values sort below all others. */
static void put_number_cell(FILE *f, double value, const char *format)
{
    fprintf(f, "<td data-v=\"%.6g\">", value > 0 ? value : -1);
    if (value > 0)
        fprintf(f, format, value);
    else
        fputs("&#8211;", f);
    fputs("</td>", f);
}

static void put_ratio_cell(FILE *f, double ratio)
{
    if (ratio <= 0) {
        put_number_cell(f, 0, "");
        return;
    }
    fprintf(f,
            "<td data-v=\"%.6g\">%.2f<span class=\"track-l\"><span "
            "class=\"bar\" style=\"width:%.0fpx;background:var(--%s)\"></span>"
            "</span></td>",
            ratio, ratio, fmin(60, 26 * ratio), ratio >= 1 ? "ours" : "rival");
}

static void put_side(FILE *f, const struct kb_case *c, enum kb_side side)
{
    const int best = c->best[side];
    const double t = best < 0 ? 0 : c->result[best].time.median;
    char name[160] = "";

    put_number_cell(f, t * 1e6, "%.2f");
    put_number_cell(f, 100 * kb_rate(c->floor, t), "%.0f");
    if (best >= 0)
        kb_kernel_text(&c->result[best], name, sizeof(name));
    put_text_cell(f, "k l", name);
}

static void put_case(FILE *f, const struct kb_case *c)
{
    fputs("<tr>", f);
    put_text_cell(f, "l", c->model);
    put_number_cell(f, (double)c->batch, "%.0f");
    put_text_cell(f, "l", c->precision->name);
    put_text_cell(f, "l", c->text);
    put_number_cell(f, c->count, "%.0f");
    put_ratio_cell(f, c->ratio);
    put_number_cell(f, c->floor * 1e6, "%.2f");
    put_side(f, c, KB_OURS);
    put_side(f, c, KB_RIVAL);
    fputs("</tr>\n", f);
}

static void put_table(const struct kb_report *r, FILE *f)
{
    static const struct {
        const char *name, *kind, *class;
    } columns[] = {{"network", "t", "l"},       {"batch", "n", ""},
                   {"precision", "t", "l"},     {"problem", "t", "l"},
                   {"layers", "n", ""},         {"ratio", "n", ""},
                   {"floor, us", "n", ""},      {"ours, us", "n", ""},
                   {"% of floor", "n", ""},     {"our kernel", "t", "l"},
                   {"rival, us", "n", ""},      {"% of floor", "n", ""},
                   {"rival's kernel", "t", "l"}};

    fputs("<div class=\"card wide\"><table><thead><tr>", f);
    for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
        fprintf(f, "<th class=\"%s\" data-s=\"%s\">%s</th>", columns[i].class,
                columns[i].kind, columns[i].name);
    fputs("</tr></thead><tbody>\n", f);
    for (int i = 0; i < r->cases->count; i++)
        put_case(f, &r->cases->item[i]);
    fputs("</tbody></table></div>\n", f);
}

static void put_behind(const struct kb_report *r, FILE *f)
{
    const struct kb_summary *s = r->summary;

    if (s->all.compared == 0)
        return;
    fputs("<h2>Where the rival is ahead by more than a tenth</h2>\n", f);
    if (s->n_below == 0) {
        fputs("<p>Nowhere.</p>\n", f);
        return;
    }
    fputs("<div class=\"card wide\"><table><thead><tr><th class=\"l\">network"
          "</th><th>batch</th><th class=\"l\">layer</th><th class=\"l\">"
          "problem</th><th>ratio</th><th class=\"l\">rival's kernel</th></tr>"
          "</thead><tbody>\n",
          f);
    for (int i = 0; i < s->n_below; i++) {
        const struct kb_case *c = &r->cases->item[s->below[i]];
        char name[160];
        fputs("<tr>", f);
        put_text_cell(f, "l", c->model);
        put_number_cell(f, (double)c->batch, "%.0f");
        put_text_cell(f, "l", c->name);
        put_text_cell(f, "l", c->text);
        put_ratio_cell(f, c->ratio);
        put_text_cell(
            f, "k l",
            kb_kernel_text(&c->result[c->best[KB_RIVAL]], name, sizeof(name)));
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

/* ---- since an earlier run ------------------------------------------ */

static void put_moved(FILE *f, const struct kb_case *c)
{
    const double t = c->result[c->best[KB_OURS]].time.median;

    fputs("<tr>", f);
    put_text_cell(f, "l", c->model);
    put_number_cell(f, (double)c->batch, "%.0f");
    put_text_cell(f, "l", c->text);
    put_ratio_cell(f, c->before / t);
    put_number_cell(f, t * 1e6, "%.2f");
    put_number_cell(f, c->before * 1e6, "%.2f");
    fputs("</tr>\n", f);
}

void kb_html_change(const struct kb_report *r, FILE *f)
{
    const struct kb_change *change = r->change;

    if (!change || change->count == 0)
        return;
    fputs("<h2>Against ", f);
    kb_html_text(f, r->request->before);
    fprintf(f,
            "</h2>\n<p>Our best kernel of each of the %d problems that both "
            "runs have: <b>%.3f times as fast as then</b>; %d slower and %d "
            "faster by more than %.0f%%.</p>\n",
            change->count, change->mean, change->n_slower,
            change->n_moved - change->n_slower, 100 * KB_NOISE);
    if (change->n_moved == 0)
        return;
    fputs("<div class=\"card wide\"><table><thead><tr><th class=\"l\">network"
          "</th><th>batch</th><th class=\"l\">problem</th><th>times as fast"
          "</th><th>now, us</th><th>then, us</th></tr></thead><tbody>\n",
          f);
    for (int i = 0; i < change->n_moved; i++)
        put_moved(f, &r->cases->item[change->moved[i]]);
    fputs("</tbody></table></div>\n", f);
}

/* Every kernel, where there are few problems. */
#define FEW_CASES 24

static void put_kernels(const struct kb_report *r, const struct kb_case *c,
                        FILE *f)
{
    double most = 0;
    char name[160];
    int *order = kb_order(c);

    (void)r;
    for (int i = 0; i < c->n_results; i++)
        most = fmax(most, kb_rate(1, c->result[i].time.median));
    fputs("<div class=\"card wide\"><h3 style=\"padding:14px 18px 0\">", f);
    kb_html_text(f, c->text);
    fputs("</h3><table><tbody>\n", f);
    for (int i = 0; order && i < c->n_results; i++) {
        const struct kb_result *k = &c->result[order[i]];
        fputs("<tr>", f);
        put_text_cell(f, "k l", kb_kernel_text(k, name, sizeof(name)));
        if (k->time.rounds == 0) {
            put_text_cell(f, "l", k->text[0] ? k->text : "not timed");
        } else {
            fprintf(f,
                    "<td class=\"l\" style=\"width:50%%\" data-v=\"0\"><span "
                    "class=\"bar\" style=\"margin:0 8px 0 0;width:%.1f%%;"
                    "background:var(--%s)\"></span>%.2f us, %.0f%% of the "
                    "floor</td>",
                    50 * kb_rate(1, k->time.median) / most,
                    k->side == KB_OURS    ? "ours"
                    : k->side == KB_RIVAL ? "rival"
                                          : "muted",
                    k->time.median * 1e6,
                    100 * kb_rate(c->floor, k->time.median));
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    free(order);
}

void kb_html_table(const struct kb_report *r, FILE *f)
{
    put_behind(r, f);
    fputs("<h2>All problems</h2>\n<p>Select a heading to sort.</p>\n", f);
    put_table(r, f);
    if (r->cases->count > FEW_CASES)
        return;
    fputs("<h2>Every kernel</h2>\n<p>Longer is faster.</p>\n", f);
    for (int i = 0; i < r->cases->count; i++)
        put_kernels(r, &r->cases->item[i], f);
}
