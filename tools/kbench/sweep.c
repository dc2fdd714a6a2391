/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps, and all problems of a request. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "tools/kbench/kbench.h"

/* ---- one sweep ----------------------------------------------------- */

static bool add_value(struct kb_sweep *s, int64_t value)
{
    if (s->count == KB_SWEEP_VALUES)
        return false;
    s->value[s->count++] = value;
    return true;
}

/* A:B, A:B:STEP, A:B:xFACTOR */
static bool parse_range(const char *text, struct kb_sweep *s)
{
    char *end;
    const long long first = strtoll(text, &end, 10);
    bool times = false;

    if (end == text || *end != ':')
        return false;
    text = end + 1;
    const long long last = strtoll(text, &end, 10);
    long long step = 1;
    if (end == text || (*end != '\0' && *end != ':'))
        return false;
    if (*end == ':') {
        text = end + 1;
        times = *text == 'x' || *text == '*';
        text += times;
        step = strtoll(text, &end, 10);
        if (end == text || *end != '\0')
            return false;
    }
    if (first < 1 || last < first || step < 1 + times)
        return false;
    for (long long v = first; v <= last; v = times ? v * step : v + step)
        if (!add_value(s, v))
            return false;
    return true;
}

static bool parse_list(const char *text, struct kb_sweep *s)
{
    for (;;) {
        char *end;
        const long long v = strtoll(text, &end, 10);
        if (end == text || v < 1 || !add_value(s, v))
            return false;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
}

int kb_sweep_parse(const char *text, struct kb_sweep *out,
                   struct infer_error *err)
{
    const size_t n = strcspn(text, "=");
    struct kb_figures probe;

    memset(out, 0, sizeof(*out));
    kb_figures_init(&probe, KERN_CONV_FPROP);
    if (text[n] == '=' && n > 0 && n < sizeof(out->name)) {
        memcpy(out->name, text, n);
        text += n + 1;
        if (!kb_figures_set(&probe, out->name, 1))
            return error_set(err, INFER_EARGUMENT,
                             "--sweep: no figure '%s' (n, c, h, w, hw, k, ck, "
                             "r, s, rs, g, stride, dilation, pad)",
                             out->name);
        if (strchr(text, ':') ? parse_range(text, out) : parse_list(text, out))
            return 0;
    }
    return error_set(
        err, INFER_EARGUMENT,
        "--sweep takes NAME=FROM:TO[:STEP|:xFACTOR] or NAME=A,B,... "
        "with at most %d values, not '%s'",
        KB_SWEEP_VALUES, text);
}

/* ---- cases --------------------------------------------------------- */

struct kb_case *kb_cases_add(struct kb_cases *list,
                             const struct kern_problem *p, enum kb_dir dir,
                             const struct kb_precision *precision)
{
    void *item = array_reserve(list->item, list->count, &list->capacity,
                               sizeof(*list->item));

    if (!item)
        return NULL;
    list->item = item;
    struct kb_case *c = &list->item[list->count++];
    memset(c, 0, sizeof(*c));
    c->p = *p;
    c->dir = dir;
    c->precision = precision;
    c->batch = p->in[0].rank > 0 ? p->in[0].dim[0] : 1;
    c->count = 1;
    c->flops = kern_problem_flops(p);
    c->bytes = kern_problem_bytes(p);
    kb_problem_text(p, dir, c->text, sizeof(c->text));
    for (int i = 0; i < KB_SIDES; i++)
        c->best[i] = -1;
    return c;
}

void kb_cases_clear(struct kb_cases *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->item[i].result);
    free(list->item);
    memset(list, 0, sizeof(*list));
}

struct kb_result *kb_case_add(struct kb_case *c)
{
    struct kb_result *result =
        realloc(c->result, ((size_t)c->n_results + 1) * sizeof(*result));

    if (!result)
        return NULL;
    c->result = result;
    memset(&result[c->n_results], 0, sizeof(*result));
    return &result[c->n_results++];
}

/* ---- collecting ---------------------------------------------------- */

int kb_cases_add_figures(const struct kb_request *r, const struct kb_figures *f,
                         const struct kb_precision *precision,
                         struct kb_cases *out, struct infer_error *err)
{
    struct kern_problem p;
    const int rc = kb_figures_problem(f, precision, r->layout, err, &p);

    if (rc < 0)
        return rc;
    kb_problem_lay_weights(r, f->dir, &p);
    return kb_cases_add(out, &p, f->dir, precision)
               ? 0
               : error_set(err, INFER_EMEMORY, "out of memory");
}

/* All combinations of the sweeps from number `at` on. */
static int add_sweeps(const struct kb_request *r, int at, struct kb_figures f,
                      const struct kb_precision *precision,
                      struct kb_cases *out, struct infer_error *err)
{
    int rc = 0;

    if (at == r->n_sweeps)
        return kb_cases_add_figures(r, &f, precision, out, err);
    for (int i = 0; rc == 0 && i < r->sweep[at].count; i++) {
        const int64_t v = r->sweep[at].value[i];
        if (!kb_figures_set(&f, r->sweep[at].name, v))
            return error_set(err, INFER_EARGUMENT,
                             "--sweep: %s=%lld is out of range",
                             r->sweep[at].name, (long long)v);
        rc = add_sweeps(r, at + 1, f, precision, out, err);
    }
    return rc;
}

static int collect_figures(const struct kb_request *r, enum kb_dir dir,
                           const struct kb_precision *precision,
                           struct kb_cases *out, struct infer_error *err)
{
    struct kb_figures start = r->figures;
    int rc = 0;

    start.dir = dir;
    /* With --problem, other figures change only what its text leaves open. */
    if ((r->any_figure && r->n_problems == 0) || r->n_sweeps > 0)
        rc = add_sweeps(r, 0, start, precision, out, err);
    for (int i = 0; rc == 0 && i < r->n_problems; i++) {
        struct kb_figures f = start;
        rc = kb_figures_parse(r->problem[i], &f, err);
        if (rc == 0)
            rc = kb_cases_add_figures(r, &f, precision, out, err);
    }
    return rc;
}

static int collect_models(const struct kb_request *r, enum kb_dir dir,
                          const struct kb_precision *precision,
                          struct kb_cases *out, struct infer_error *err)
{
    int rc = 0;

    for (int m = 0; rc == 0 && m < r->n_models; m++)
        for (int b = 0; rc == 0 && b < r->n_batches; b++)
            rc = kb_layers(r, r->model[m], r->batch[b], dir, precision, out,
                           err);
    return rc;
}

static int collect_populations(const struct kb_request *r, enum kb_dir dir,
                               const struct kb_precision *precision,
                               struct kb_cases *out, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < r->n_populations; i++)
        rc = kb_population(r, r->population[i], dir, precision, out, err);
    return rc;
}

int kb_collect(const struct kb_request *r, struct kb_cases *out,
               struct infer_error *err)
{
    int rc = 0;

    for (int k = 0; rc == 0 && k < r->n_precisions; k++)
        for (int d = 0; rc == 0 && d < KB_DIRS; d++) {
            if (!r->dir[d])
                continue;
            rc = collect_figures(r, (enum kb_dir)d, r->precision[k], out, err);
            if (rc == 0)
                rc = collect_models(r, (enum kb_dir)d, r->precision[k], out,
                                    err);
            if (rc == 0)
                rc = collect_populations(r, (enum kb_dir)d, r->precision[k],
                                         out, err);
        }
    if (rc == 0 && out->count == 0)
        rc = error_set(err, INFER_EARGUMENT,
                       "no problem given: use figures (-n -c -H -k -R ...), "
                       "--problem, --sweep, --model or a file of problems");
    return rc;
}
