/* SPDX-License-Identifier: Apache-2.0 */
/* One page, well-formed and complete in itself: nothing is fetched. */
#include <string.h>

#include "kernels/base/text.h"
#include "tools/kbench/kbench.h"

void kb_html_text(FILE *f, const char *text)
{
    size_t left = strlen(text), n;
    uint32_t code;

    for (; left > 0; text += n, left -= n) {
        n = text_utf8(text, left, &code);
        if (n == 0) {
            /* A file's name may be anything; the page is UTF-8. */
            fprintf(f, "\\x%02X", (unsigned)(unsigned char)*text);
            n = 1;
            continue;
        }
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            /* Control characters are not allowed in XML. */
            if (code < 32 && code != '\n')
                fputc(' ', f);
            else
                fwrite(text, 1, n, f);
        }
    }
}

/* ---- figures on top ------------------------------------------------ */

static void put_tile(FILE *f, const char *figure, const char *what)
{
    fputs("<div class=\"tile\"><div>", f);
    kb_html_text(f, figure);
    fputs("</div><span>", f);
    kb_html_text(f, what);
    fputs("</span></div>\n", f);
}

static void put_tiles(const struct kb_report *r, FILE *f)
{
    const struct kb_group *all = &r->summary->all;
    char figure[64], what[128];

    fputs("<div class=\"tiles\">\n", f);
    if (all->compared > 0) {
        snprintf(figure, sizeof(figure), "%.2f\xc3\x97", all->mean);
        put_tile(f, figure, "our best over the rival's best, geometric mean");
        snprintf(figure, sizeof(figure), "%.0f%%",
                 100.0 * all->ahead / all->compared);
        snprintf(what, sizeof(what), "ahead on %d of %d problems", all->ahead,
                 all->compared);
        put_tile(f, figure, what);
        snprintf(figure, sizeof(figure), "%d", r->summary->n_below);
        put_tile(f, figure, "problems below 0.9");
    }
    for (int i = 0; i < r->request->n_precisions; i++) {
        const struct kb_precision *p = r->request->precision[i];
        snprintf(figure, sizeof(figure), "%.4g",
                 r->peaks->flops[kb_precision_index(p)].value / 1e12);
        snprintf(what, sizeof(what), "TFLOP/s, measured peak in %s", p->name);
        put_tile(f, figure, what);
    }
    snprintf(figure, sizeof(figure), "%.4g", r->peaks->memory.value / 1e9);
    put_tile(f, figure, "GB/s, measured copy (read and written)");
    fputs("</div>\n", f);
}

/* ---- foot ---------------------------------------------------------- */

static void put_entry(FILE *f, const char *term, const char *text)
{
    fputs("<dt>", f);
    kb_html_text(f, term);
    fputs("</dt><dd>", f);
    kb_html_text(f, text);
    fputs("</dd>\n", f);
}

static void put_foot(const struct kb_report *r, FILE *f)
{
    const struct kb_machine *m = r->machine;
    char text[256];

    fputs("<footer><h2>How this was measured</h2>\n<p>Every kernel was held "
          "against the reference before it was timed; a kernel that is wrong "
          "has no time. Rivals compute the same problem: precision, layout, "
          "epilogue, and all the workspace they ask for. Kernels of a problem "
          "took turns; the time is the median of the rounds, each a series of "
          "launches between two events (on a CPU: on the monotonic clock). "
          "Inputs are random.</p>\n",
          f);
    fputs(r->request->cold
              ? "<p>Launches rotate through copies of all data, twice the "
                "cache in all where the number of copies allows.</p>\n"
              : "<p>All launches use the same data: what fits in the cache "
                "stays there, as the output of the layer before would. The "
                "floor of a problem that fits is taken from the bandwidth "
                "measured inside the cache.</p>\n",
          f);
    fputs("<dl>\n", f);
    put_entry(f, "Device", m->device);
    put_entry(f, "Host", m->host);
    put_entry(f, "System", m->system);
    put_entry(f, "Software", m->software);
    put_entry(f, "Date", m->date);
    for (int i = 0; i < r->request->n_precisions; i++) {
        const struct kb_precision *p = r->request->precision[i];
        const struct kb_peak *peak = &r->peaks->flops[kb_precision_index(p)];
        snprintf(text, sizeof(text), "Peak, %s", p->name);
        put_entry(f, text, peak->how);
    }
    put_entry(f, "Bandwidth", r->peaks->memory.how);
    if (r->peaks->cache.value > 0) {
        snprintf(text, sizeof(text), "%.4g GB/s: %.120s",
                 r->peaks->cache.value / 1e9, r->peaks->cache.how);
        put_entry(f, "In the cache", text);
    }
    snprintf(text, sizeof(text),
             "%.3g us: what a copy of 64 numbers takes in a series. The floor "
             "leaves it out, so the smallest problems are far from theirs",
             r->peaks->launch * 1e6);
    put_entry(f, "Shortest launch", text);
    fputs("</dl>\n<code>", f);
    kb_html_text(f, m->command);
    fputs("</code></footer>\n", f);
}

/* ---- the page ------------------------------------------------------ */

void kb_html(const struct kb_report *r, FILE *f)
{
    const struct kb_machine *m = r->machine;

    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
          "<meta name=\"viewport\" content=\"width=device-width,"
          "initial-scale=1\"/><title>kbench: ",
          f);
    kb_html_text(f, m->device);
    fprintf(f, "</title><style>\n%s</style></head>\n<body><header><h1>",
            kb_html_style);
    fputs("Kernels beside their rivals</h1>\n<p>", f);
    kb_html_text(f, m->device);
    fputs(" &#183; ", f);
    kb_html_text(f, m->date);
    fprintf(f, " &#183; %d problems</p>\n", r->cases->count);
    put_tiles(r, f);
    fputs("</header><main>\n", f);
    kb_html_matrix(r, f);
    kb_html_totals(r, f);
    kb_html_ratios(r, f);
    kb_html_roofline(r, f);
    kb_html_change(r, f);
    kb_html_table(r, f);
    fputs("</main>\n", f);
    put_foot(r, f);
    fprintf(f, "<script>\n%s</script></body></html>\n", kb_html_script);
}
