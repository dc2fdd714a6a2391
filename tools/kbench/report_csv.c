/* SPDX-License-Identifier: Apache-2.0 */
/* A line a kernel and problem, for spreadsheets. */
#include <string.h>

#include "tools/kbench/kbench.h"

/* Quoted if necessary (RFC 4180). */
static void put_text(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_result(FILE *f, const struct kb_case *c,
                       const struct kb_result *r)
{
    const double t = r->time.median;
    const int baseline = c->best[KB_BASELINE];

    put_text(f, c->model);
    fputc(',', f);
    put_text(f, c->name);
    fprintf(f, ",%lld,%s,%s,%d,", (long long)c->batch, kb_dir_names[c->dir],
            c->precision->name, c->count);
    put_text(f, c->text);
    fprintf(f, ",%s,%s,", kb_side_names[r->side], r->row->name);
    put_text(f, r->variant);
    fprintf(f, ",%s,%.4g,%.4g,%.4g,%.3g,%d,%d,%.4g,%.4g,%.4g,%zu,%.3g,%.4g,",
            kb_state_names[r->state], r->time.median * 1e6, r->time.min * 1e6,
            r->time.p95 * 1e6, r->time.spread, r->time.rounds, r->launches,
            kb_rate(c->flops, t) / 1e12, kb_rate(c->bytes, t) / 1e9,
            100 * kb_rate(c->floor, t), r->workspace, r->worst,
            baseline >= 0 ? kb_rate(c->result[baseline].time.median, t) : 0);
    put_text(f, r->text);
    fputc('\n', f);
}

void kb_csv(const struct kb_report *r, FILE *f)
{
    fputs("model,layer,batch,direction,precision,count,problem,side,kernel,"
          "variant,state,median_us,min_us,p95_us,spread,rounds,launches,tflops,"
          "gbs,"
          "floor_percent,workspace,error,ratio,note\n",
          f);
    for (int i = 0; i < r->cases->count; i++)
        for (int k = 0; k < r->cases->item[i].n_results; k++)
            put_result(f, &r->cases->item[i], &r->cases->item[i].result[k]);
}
