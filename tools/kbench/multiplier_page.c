/* SPDX-License-Identifier: Apache-2.0 */
/* A page of multipliers: figures, and errors as a map of colours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/kbench/multiplier_report.h"

#define CELLS 64  /* of a map's side, at most */
#define SIDE  512 /* pixels */

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

/* The error of a pair as a share of the exact product, of integers of the
 * largest exact product. */
static double error_of(const struct multiplier *m, int a, int b)
{
    const double exact = multiplier_operand(m, a) * multiplier_operand(m, b);
    const double error = multiplier_product(m, a, b) - exact;
    const double most =
        m->is_signed ? ldexp(1, 2 * m->bits - 2) : ldexp(1, 2 * m->bits);

    return error / (m->kind == MULTIPLIER_FLOAT ? exact : most);
}

/* Row or column of the map: operands in the order of their values. */
static int operand_at(const struct multiplier *m, int place)
{
    const int half = 1 << (m->bits - 1);

    return m->is_signed ? place ^ half : place;
}

/* The largest error, with its sign, of a cell's pairs. */
static double cell_error(const struct multiplier *m, int each, int row,
                         int column)
{
    double worst = 0;

    for (int i = 0; i < each; i++)
        for (int k = 0; k < each; k++) {
            const double e = error_of(m, operand_at(m, row * each + i),
                                      operand_at(m, column * each + k));
            if (fabs(e) > fabs(worst))
                worst = e;
        }
    return worst;
}

/* White where exact; blue below the exact product, red above. */
static void put_color(FILE *f, double share)
{
    const double s = sqrt(fmin(1, fabs(share)));
    const int pale = (int)(255 - 215 * s), strong = (int)(255 - 40 * s);

    fprintf(f, "#%02x%02x%02x", share > 0 ? strong : pale, pale,
            share > 0 ? pale : strong);
}

static void put_map(FILE *f, const struct multiplier *m)
{
    const int side = 1 << m->bits, cells = side < CELLS ? side : CELLS;
    const int each = side / cells;
    const double size = (double)SIDE / cells;
    const int low = operand_at(m, 0), high = operand_at(m, side - 1);
    double worst = 0;

    for (int r = 0; r < cells; r++)
        for (int c = 0; c < cells; c++)
            worst = fmax(worst, fabs(cell_error(m, each, r, c)));
    fprintf(f,
            "<svg viewBox=\"-70 -10 %d %d\" role=\"img\" "
            "aria-label=\"errors of all pairs of operands\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\" "
            "stroke=\"#888\"/>\n",
            SIDE + 80, SIDE + 60, SIDE, SIDE);
    for (int r = 0; worst > 0 && r < cells; r++)
        for (int c = 0; c < cells; c++) {
            const double e = cell_error(m, each, r, c);
            if (e == 0)
                continue;
            fprintf(f,
                    "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" "
                    "height=\"%.6g\" fill=\"",
                    c * size, r * size, size, size);
            put_color(f, e / worst);
            fprintf(f, "\"/>\n");
        }
    fprintf(f,
            "<text x=\"-8\" y=\"12\" text-anchor=\"end\">%.4g</text>"
            "<text x=\"-8\" y=\"%d\" text-anchor=\"end\">%.4g</text>"
            "<text x=\"0\" y=\"%d\">%.4g</text>"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n"
            "</svg>\n<p>Rows: the first operand. Columns: the second. The "
            "largest error of each cell's pairs, as a share of the %s: white "
            "0, the darkest blue -%.4g %%, the darkest red +%.4g %%.</p>\n",
            multiplier_operand(m, low), SIDE, multiplier_operand(m, high),
            SIDE + 20, multiplier_operand(m, low), SIDE, SIDE + 20,
            multiplier_operand(m, high),
            m->kind == MULTIPLIER_FLOAT ? "exact product"
                                        : "largest exact product",
            100 * worst, 100 * worst);
}

static void put_figure(FILE *f, const char *name, const char *format,
                       double value)
{
    fprintf(f, "<tr><th>%s</th><td>", name);
    fprintf(f, format, value);
    fprintf(f, "</td></tr>\n");
}

void kb_multiplier_begin(FILE *f)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<title>Multipliers</title>\n<style>body{font:16px sans-serif;"
          "max-width:50em;margin:1em auto;padding:0 1em}th{text-align:left;"
          "padding-right:2em}svg{max-width:100%}</style></head><body>\n"
          "<h1>Multipliers</h1>\n",
          f);
}

void kb_multiplier_put(FILE *f, const struct multiplier *m,
                       const struct multiplier_errors *e, const char *model)
{
    fprintf(f, "<h2>");
    put_text(f, m->name);
    fprintf(f, "</h2>\n<p>%s of %d bits (%s), CRC-32 %08x. ",
            m->kind == MULTIPLIER_FLOAT ? "Floating point, a mantissa"
            : m->is_signed              ? "Signed integers"
                                        : "Unsigned integers",
            m->bits, m->form, m->crc);
    if (model) {
        fprintf(f, "Pairs count as often as their operands in ");
        put_text(f, model);
        fprintf(f, ".</p>\n<table>\n");
    } else {
        fprintf(f, "Every pair of operands counts once.</p>\n<table>\n");
    }
    put_figure(f, "wrong products, %", "%.6g", 100 * e->rate);
    put_figure(f, "mean error (bias)", "%.6g", e->mean);
    put_figure(f, "relative bias, %", "%.6g", 100 * e->relative_bias);
    put_figure(f, "mean absolute error", "%.6g", e->mean_absolute);
    put_figure(f, "mean relative error, %", "%.6g", 100 * e->mean_relative);
    put_figure(f, "worst error", "%.6g", e->worst);
    put_figure(f, "worst relative error, %", "%.6g", 100 * e->worst_relative);
    fprintf(f, "</table>\n");
    put_map(f, m);
}

void kb_multiplier_end(FILE *f)
{
    fputs("</body></html>\n", f);
}
