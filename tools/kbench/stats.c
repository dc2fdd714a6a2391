/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers: times, who is fastest, floors, sums over networks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kbench/kbench.h"

/* Layers under this ratio are named one by one. */
#define BEHIND 0.9

/* Words of the JSON and CSV reports, which earlier runs have written. */
const char *const kb_side_names[KB_SIDES] = {"ours", "baseline", "reference"};
const char *const kb_state_names[] = {"timed", "wrong", "failed", "dropped"};

enum kb_side kb_side_of(const struct kern_row *row)
{
    static const enum kb_side side[INFER_BACKEND_COUNT] = {
        [INFER_BACKEND_REF] = KB_REFERENCE,
        [INFER_BACKEND_CUDA] = KB_OURS,
        [INFER_BACKEND_CPU] = KB_OURS,
        [INFER_BACKEND_ONEDNN] = KB_BASELINE,
        [INFER_BACKEND_CUDNN] = KB_BASELINE};

    return side[row->backend];
}

/* ---- times --------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Between the two nearest ranks. */
static double quantile(const double *sorted, int n, double q)
{
    const double at = q * (n - 1);
    const int low = (int)at;
    const int high = low + 1 < n ? low + 1 : low;

    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

struct kb_stats kb_stats_of(double *times, int n)
{
    struct kb_stats s = {0};

    if (n < 1)
        return s;
    qsort(times, (size_t)n, sizeof(*times), compare_doubles);
    s.min = times[0];
    s.median = quantile(times, n, 0.5);
    s.p95 = quantile(times, n, 0.95);
    if (s.median > 0)
        s.spread =
            (quantile(times, n, 0.75) - quantile(times, n, 0.25)) / s.median;
    s.rounds = n;
    return s;
}

double kb_rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

/* ---- one case ------------------------------------------------------ */

void kb_case_judge(struct kb_case *c)
{
    for (int i = 0; i < KB_SIDES; i++)
        c->best[i] = -1;
    for (int i = 0; i < c->n_results; i++) {
        const struct kb_result *r = &c->result[i];
        int *best = &c->best[r->side];
        if (r->state != KB_TIMED && r->state != KB_DROPPED)
            continue;
        if (*best < 0 || r->time.median < c->result[*best].time.median)
            *best = i;
    }
    const int ours = c->best[KB_OURS], baseline = c->best[KB_BASELINE];
    c->ratio = ours >= 0 && baseline >= 0 ? c->result[baseline].time.median /
                                                c->result[ours].time.median
                                          : 0;
}

void kb_peaks_apply(const struct kb_peaks *peaks, bool cold, struct kb_case *c)
{
    const double flops = peaks->flops[kb_precision_index(c->precision)].value;
    const bool cached = !cold && peaks->cache.value > 0 &&
                        c->bytes <= (double)peaks->cache_bytes;
    const double bytes = cached ? peaks->cache.value : peaks->memory.value;
    const double by_flops = flops > 0 ? c->flops / flops : 0;
    const double by_bytes = bytes > 0 ? c->bytes / bytes : 0;

    c->by_bytes = by_bytes >= by_flops;
    c->floor = c->by_bytes ? by_bytes : by_flops;
}

static int rank_of(const struct kb_result *r)
{
    return r->state == KB_TIMED || r->state == KB_DROPPED ? 0 : 1;
}

int *kb_order(const struct kb_case *c)
{
    int *order = malloc(((size_t)c->n_results + 1) * sizeof(*order));

    for (int i = 0; order && i < c->n_results; i++) {
        const struct kb_result *r = &c->result[i];
        int at = i;
        while (at > 0) {
            const struct kb_result *q = &c->result[order[at - 1]];
            if (rank_of(q) < rank_of(r) ||
                (rank_of(q) == rank_of(r) && q->time.median <= r->time.median))
                break;
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return order;
}

/* ---- networks ------------------------------------------------------ */

static bool same_group(const struct kb_group *g, const struct kb_case *c)
{
    return g->batch == c->batch && g->precision == c->precision &&
           g->dir == c->dir && strcmp(g->model, c->model) == 0;
}

static void add_case(struct kb_group *g, const struct kb_case *c)
{
    if (c->ratio <= 0)
        return;
    g->compared++;
    g->ahead += c->ratio >= 1;
    g->layers += c->count;
    g->mean += log(c->ratio); /* becomes a mean at the end */
    g->ours += c->count * c->result[c->best[KB_OURS]].time.median;
    g->baseline += c->count * c->result[c->best[KB_BASELINE]].time.median;
    g->floor += c->count * c->floor;
}

static void finish_group(struct kb_group *g)
{
    g->mean = g->compared > 0 ? exp(g->mean / g->compared) : 0;
}

static void sort_below(const struct kb_cases *cases, struct kb_summary *s)
{
    for (int i = 1; i < s->n_below; i++) {
        const int moved = s->below[i];
        int at = i;
        while (at > 0 &&
               cases->item[s->below[at - 1]].ratio > cases->item[moved].ratio) {
            s->below[at] = s->below[at - 1];
            at--;
        }
        s->below[at] = moved;
    }
}

int kb_summarise(const struct kb_cases *cases, struct kb_summary *out)
{
    const size_t n = (size_t)cases->count + 1;

    memset(out, 0, sizeof(*out));
    out->group = calloc(n, sizeof(*out->group));
    out->below = calloc(n, sizeof(*out->below));
    if (!out->group || !out->below) {
        kb_summary_free(out);
        return INFER_EMEMORY;
    }
    for (int i = 0; i < cases->count; i++) {
        const struct kb_case *c = &cases->item[i];
        int g = 0;
        while (g < out->n_groups && !same_group(&out->group[g], c))
            g++;
        if (g == out->n_groups) {
            out->group[g].model = c->model;
            out->group[g].batch = c->batch;
            out->group[g].dir = c->dir;
            out->group[g].precision = c->precision;
            out->n_groups++;
        }
        add_case(&out->group[g], c);
        add_case(&out->all, c);
        if (c->ratio > 0 && c->ratio < BEHIND)
            out->below[out->n_below++] = i;
    }
    for (int g = 0; g < out->n_groups; g++)
        finish_group(&out->group[g]);
    finish_group(&out->all);
    sort_below(cases, out);
    return 0;
}

void kb_summary_free(struct kb_summary *s)
{
    free(s->group);
    free(s->below);
    memset(s, 0, sizeof(*s));
}
