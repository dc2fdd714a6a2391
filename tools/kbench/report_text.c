/* SPDX-License-Identifier: Apache-2.0 */
/* On the terminal: a line for each problem, or a line for each kernel. */
#include <stdlib.h>
#include <string.h>

#include "tools/kbench/kbench.h"
#include "tools/terminal.h"

const char *kb_kernel_text(const struct kb_result *r, char *buf, size_t bytes)
{
    if (r->variant[0] != '\0')
        snprintf(buf, bytes, "%s [%s]", r->row->name, r->variant);
    else
        snprintf(buf, bytes, "%s", r->row->name);
    return buf;
}

/* "812 ns", "4.31 us", "1.20 ms": three digits. */
static const char *time_text(double seconds, char buf[24])
{
    const double us = seconds * 1e6;
    const double value = us >= 1e3 ? us / 1e3 : us >= 1 ? us : us * 1e3;

    snprintf(buf, 24, "%.*f %s",
             value < 10    ? 2
             : value < 100 ? 1
                           : 0,
             value,
             us >= 1e3 ? "ms"
             : us >= 1 ? "us"
                       : "ns");
    return buf;
}

/* Columns of the widest lines that are usual; on a narrower terminal kernels
 * and problems have lines of their own. */
#define WIDE 140

static bool is_narrow(void)
{
    const int columns = terminal_columns();

    return columns > 0 && columns < WIDE;
}

/* ---- head ---------------------------------------------------------- */

static void print_peak(const char *what, const struct kb_peak *p, double unit,
                       const char *suffix)
{
    if (p->value > 0)
        printf("peak %-7s %9.2f %s  (%s)\n", what, p->value / unit, suffix,
               p->how);
}

void kb_text_head(const struct kb_report *r)
{
    const struct kb_request *q = r->request;

    printf("%s; %s;%s%s\n", r->machine->device, r->machine->software,
           is_narrow() ? "\n" : " ", r->machine->date);
    for (int i = 0; i < q->n_precisions; i++)
        print_peak(q->precision[i]->name,
                   &r->peaks->flops[kb_precision_index(q->precision[i])], 1e12,
                   "TFLOP/s");
    print_peak("memory", &r->peaks->memory, 1e9, "GB/s");
    if (!q->cold)
        print_peak("cache", &r->peaks->cache, 1e9, "GB/s");
    char least[24];
    printf("shortest launch %s\n", time_text(r->peaks->launch, least));
}

/* ---- one case ------------------------------------------------------ */

static double percent_of_floor(const struct kb_case *c, double seconds)
{
    return 100 * kb_rate(c->floor, seconds);
}

static void print_kernel(const struct kb_case *c, const struct kb_result *r)
{
    char median[24], least[24], p95[24], name[160], bytes[32];

    kb_kernel_text(r, name, sizeof(name));
    if (r->state == KB_WRONG || r->state == KB_FAILED) {
        printf("  %-9s %s: %s\n", kb_state_names[r->state], name, r->text);
        return;
    }
    const int baseline = c->best[KB_BASELINE];
    const double t = r->time.median;
    if (is_narrow())
        printf("%c %s%s\n", "ob "[r->side], name,
               r -> state == KB_DROPPED ? " (dropped)" : "");
    printf("  %9s %9s %9s %8.2f %8.1f %6.1f %9s %6.2f ", time_text(t, median),
           time_text(r->time.min, least), time_text(r->time.p95, p95),
           kb_rate(c->flops, t) / 1e12, kb_rate(c->bytes, t) / 1e9,
           percent_of_floor(c, t),
           cli_bytes((double)r->workspace, bytes, sizeof(bytes)), r->worst);
    if (baseline >= 0)
        printf("%6.2f ", kb_rate(c->result[baseline].time.median, t));
    else
        printf("%6s ", "-");
    if (is_narrow())
        putchar('\n');
    else
        printf("%c %s%s\n", "ob "[r->side], name,
               r -> state == KB_DROPPED ? " (dropped)" : "");
}

static void print_kernels(const struct kb_case *c)
{
    int *order = kb_order(c);

    if (is_narrow())
        printf("kernel (o ours, b baseline)\n");
    printf("  %9s %9s %9s %8s %8s %6s %9s %6s %6s%s\n", "median", "min", "p95",
           "TFLOP/s", "GB/s", "%floor", "workspace", "error", "ratio",
           is_narrow() ? "" : "   kernel (o ours, b baseline)");
    for (int i = 0; order && i < c->n_results; i++)
        print_kernel(c, &c->result[order[i]]);
    free(order);
}

static void print_side(const struct kb_case *c, enum kb_side side)
{
    char time[24];

    if (c->best[side] < 0) {
        printf(" %9s %5s", "-", "");
        return;
    }
    const double t = c->result[c->best[side]].time.median;
    printf(" %9s %4.0f%%", time_text(t, time), percent_of_floor(c, t));
}

static void print_faults(const struct kb_case *c)
{
    char name[160];

    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].state == KB_WRONG)
            printf("  wrong: %s: %s\n",
                   kb_kernel_text(&c->result[i], name, sizeof(name)),
                   c->result[i].text);
}

/* The best kernel of the faster side. */
static const struct kb_result *winner(const struct kb_case *c)
{
    const int o = c->best[KB_OURS], b = c->best[KB_BASELINE];
    const int ref = c->best[KB_REFERENCE];

    if (o >= 0 && (b < 0 || c->ratio >= 1))
        return &c->result[o];
    return b >= 0 ? &c->result[b] : ref >= 0 ? &c->result[ref] : NULL;
}

void kb_text_case(const struct kb_report *r, const struct kb_case *c)
{
    const bool table = r->request->all || r->cases->count == 1;
    char floor[24], name[160];

    if (table) {
        printf("\n%s%s%s%s\n", c->model, c->model[0] ? " " : "", c->name,
               c->name[0] ? ":" : "");
        printf("%s\n  floor %s by %s, %.4g GFLOP, %.4g MB, %lld outputs "
               "verified\n",
               c->text, time_text(c->floor, floor),
               c->by_bytes ? "bytes" : "flops", c->flops / 1e9, c->bytes / 1e6,
               (long long)c->verified);
        print_kernels(c);
        return;
    }
    if (c->ratio > 0)
        printf("%6.2f", c->ratio);
    else
        printf("%6s", "-");
    print_side(c, KB_OURS);
    print_side(c, KB_BASELINE);
    const struct kb_result *w = winner(c);
    if (is_narrow())
        printf("\n       %s%s%s x%d\n       ", c->model, c->model[0] ? " " : "",
               c->text, c->count);
    else
        printf("  %s%s%s x%d  ", c->model, c->model[0] ? " " : "", c->text,
               c->count);
    printf("%s\n", w ? kb_kernel_text(w, name, sizeof(name)) : "no kernel");
    print_faults(c);
}

/* ---- summary ------------------------------------------------------- */

static void print_group(const struct kb_group *g, const char *what)
{
    char ours[24], baseline[24], floor[24];

    printf("%-28s %5d %7.3f %6.1f%% %9s %9s %9s\n", what, g->compared, g->mean,
           g->compared ? 100.0 * g->ahead / g->compared : 0,
           time_text(g->ours, ours), time_text(g->baseline, baseline),
           time_text(g->floor, floor));
}

void kb_text_summary(const struct kb_report *r)
{
    const struct kb_summary *s = r->summary;
    char what[128];

    if (s->all.compared == 0)
        return;
    printf(
        "\nratio: the baseline's best median / ours; above 1 ours is faster\n");
    printf("%-28s %5s %7s %7s %9s %9s %9s\n", "", "cases", "ratio", "ahead",
           "ours", "baseline", "floor");
    for (int i = 0; s->n_groups > 1 && i < s->n_groups; i++) {
        const struct kb_group *g = &s->group[i];
        snprintf(what, sizeof(what), "%s %s%s%s batch %lld",
                 g->model[0] ? g->model : "problems",
                 g->dir == KB_FPROP ? "" : kb_dir_names[g->dir],
                 g->dir == KB_FPROP ? "" : " ", g->precision->name,
                 (long long)g->batch);
        if (g->compared > 0)
            print_group(g, what);
    }
    print_group(&s->all, "all");
    for (int i = 0; i < s->n_below; i++) {
        const struct kb_case *c = &r->cases->item[s->below[i]];
        char name[160];
        printf("below 0.9: %.2f %s%s%s %s,%sbaseline %s\n", c->ratio, c->model,
               c->model[0] ? " " : "", c->name, c->text,
               is_narrow() ? "\n           " : " ",
               kb_kernel_text(&c->result[c->best[KB_BASELINE]], name,
                              sizeof(name)));
    }
}

/* Our best kernels against those of --compare-with. */
void kb_text_change(const struct kb_report *r)
{
    const struct kb_change *change = r->change;
    char before[24], now[24];

    if (!change)
        return;
    if (change->count == 0) {
        printf("\nagainst %s: no problem that both have kernels of ours for\n",
               r->request->before);
        return;
    }
    printf("\nagainst %s: %d problems that both have, %.3f times as fast; %d "
           "slower and %d faster by more than %.0f %%\n",
           r->request->before, change->count, change->mean, change->n_slower,
           change->n_moved - change->n_slower, 100 * KB_NOISE);
    for (int i = 0; i < change->n_moved; i++) {
        const struct kb_case *c = &r->cases->item[change->moved[i]];
        const double t = c->result[c->best[KB_OURS]].time.median;
        printf("%6.2f %9s was %9s  %s%s%s\n", c->before / t, time_text(t, now),
               time_text(c->before, before), c->model, c->model[0] ? " " : "",
               c->text);
    }
}
