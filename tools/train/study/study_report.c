/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a study: CSV, a table, and an SVG picture with a dot for each run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/train/study/study.h"

/* Sizes of the picture in pixels. */
#define WIDTH  800
#define LEFT   300
#define RIGHT  780
#define LINE_H 18
#define TOP    50

/* Runs of one network, multiplier and direction: its seeds. */
struct group {
    const struct study_run *first;
    int seeds, diverged; /* seeds that have an accuracy, and that have none */
    double mean, low, high, seconds; /* accuracies; mean seconds of a run */
};

static bool is_same(const struct study_run *a, const struct study_run *b)
{
    return a->network == b->network && a->direction == b->direction &&
           strcmp(a->multiplier, b->multiplier) == 0;
}

/* The group of run i; false if an earlier run is of it, or none is done. */
static bool group_of(const struct study *s, int i, struct group *g)
{
    double sum = 0, seconds = 0;

    *g =
        (struct group){.first = &s->run[i], .low = INFINITY, .high = -INFINITY};
    for (int k = 0; k < s->runs; k++) {
        const struct study_run *r = &s->run[k];
        if (!is_same(r, g->first))
            continue;
        if (k < i)
            return false;
        if (!r->done)
            continue;
        if (r->diverged) {
            g->diverged++;
            continue;
        }
        g->seeds++;
        sum += r->accuracy;
        seconds += r->seconds;
        g->low = fmin(g->low, r->accuracy);
        g->high = fmax(g->high, r->accuracy);
    }
    if (g->seeds > 0) {
        g->mean = sum / g->seeds;
        g->seconds = seconds / g->seeds;
    }
    return g->seeds + g->diverged > 0;
}

/* ---- text ---------------------------------------------------------- */

/* A field of CSV; quotes are doubled. */
static void put_field(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_csv(FILE *f, const struct study *s)
{
    fputs("network,multiplier,direction,seed,accuracy,loss,seconds\n", f);
    for (int i = 0; i < s->runs; i++) {
        const struct study_run *r = &s->run[i];
        if (!r->done)
            continue;
        put_field(f, r->network_label);
        fputc(',', f);
        put_field(f, r->multiplier_label);
        fprintf(f, ",%s,%lld,", study_directions[r->direction],
                (long long)r->seed);
        if (r->diverged)
            fprintf(f, "diverged,,%.4g\n", r->seconds);
        else
            fprintf(f, "%.6g,%.6g,%.4g\n", r->accuracy, r->loss, r->seconds);
    }
}

static void print_table(const struct study *s)
{
    struct group g;

    cli_print("| network | multiplier | direction | seeds | accuracy, %% | "
              "least to most | seconds |\n|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < s->runs; i++) {
        if (!group_of(s, i, &g))
            continue;
        cli_print("| %s | %s | %s | %d ", g.first->network_label,
                  g.first->multiplier_label,
                  study_directions[g.first->direction], g.seeds);
        if (g.diverged > 0)
            cli_print("(%d diverged) ", g.diverged);
        if (g.seeds > 0)
            cli_print("| %.2f | %.2f to %.2f | %.1f |\n", 100 * g.mean,
                      100 * g.low, 100 * g.high, g.seconds);
        else
            cli_print("| | | |\n");
    }
}

/* ---- the picture --------------------------------------------------- */

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(f, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
}

static double x_of(double accuracy, double low)
{
    return LEFT + (RIGHT - LEFT) * (accuracy - low) / (1 - low);
}

/* The least accuracy, down to a whole tenth, and the lines of the picture. */
static double left_end(const struct study *s, int *lines)
{
    double low = 0.9;
    struct group g;

    *lines = 0;
    for (int i = 0; i < s->runs; i++)
        if (group_of(s, i, &g) && g.seeds > 0) {
            low = fmin(low, floor(g.low * 10) / 10);
            (*lines)++;
        }
    return low;
}

static void put_axis(FILE *f, double low, int height)
{
    for (int i = 0; i <= 5; i++) {
        const double v = low + (1 - low) * i / 5, x = x_of(v, low);
        fprintf(f,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
                "stroke=\"#ddd\"/>\n<text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.4g</text>\n",
                x, x, TOP - 10, height - 20, x, height - 4, 100 * v);
    }
}

static void put_line(FILE *f, const struct study *s, const struct group *g,
                     double low, int y)
{
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 10,
            y + 4);
    put_text(f, g->first->network_label);
    fputc(' ', f);
    put_text(f, g->first->multiplier_label);
    fprintf(f,
            " %s</text>\n<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" "
            "stroke=\"#0072b2\" stroke-width=\"2\"/>\n",
            study_directions[g->first->direction], x_of(g->low, low),
            x_of(g->high, low), y, y);
    for (int i = 0; i < s->runs; i++)
        if (s->run[i].done && !s->run[i].diverged &&
            is_same(&s->run[i], g->first))
            fprintf(f,
                    "<circle cx=\"%.1f\" cy=\"%d\" r=\"4\" fill=\"#0072b2\" "
                    "fill-opacity=\"0.5\"/>\n",
                    x_of(s->run[i].accuracy, low), y);
}

static void put_svg(FILE *f, const struct study *s)
{
    int lines, y = TOP;
    const double low = left_end(s, &lines);
    const int height = TOP + LINE_H * lines + 30;
    struct group g;

    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\">test accuracy, %%: a dot "
            "a seed</text>\n",
            WIDTH, height, LEFT);
    put_axis(f, low, height);
    for (int i = 0; i < s->runs; i++)
        if (group_of(s, i, &g) && g.seeds > 0) {
            put_line(f, s, &g, low, y);
            y += LINE_H;
        }
    fputs("</svg>\n", f);
}

/* ---- files --------------------------------------------------------- */

static int write_with(void (*put)(FILE *f, const struct study *s),
                      const struct study *s, const char *folder,
                      const char *name, struct infer_error *err)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    int rc;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!f)
        return error_set(err, INFER_EMEMORY, "out of memory");
    put(f, s);
    if (fclose(f) != 0) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    } else {
        const struct file_part part = {text, bytes};
        rc = file_replace(path, &part, 1, true, err);
    }
    free(text);
    return rc;
}

int study_report(const struct study *s, const char *folder, bool table,
                 struct infer_error *err)
{
    int rc = write_with(put_csv, s, folder, "study.csv", err);

    if (rc == 0)
        rc = write_with(put_svg, s, folder, "study.svg", err);
    if (rc == 0 && table)
        print_table(s);
    return rc;
}
