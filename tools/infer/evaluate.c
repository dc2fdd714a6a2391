/* SPDX-License-Identifier: Apache-2.0 */
/* --evaluate: top-1, top-5 and which classes are taken for which. */
#include "tools/infer/evaluate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"

/* Classes that the table of all pairs has at most: it fits 80 columns. */
#define MATRIX 12
/* Lines of the other tables; all with -v. */
#define SHOWN 20

void evaluate_free(struct evaluation *e)
{
    if (e != NULL)
        free(e->of);
    free(e);
}

/* ---- taking -------------------------------------------------------- */

static int check_classes(struct evaluation *e, int64_t classes,
                         struct infer_error *err)
{
    e->classes = classes;
    if (e->numbered > 0 && e->numbered != classes)
        return error_set(err, INFER_EARGUMENT,
                         "--evaluate: %d folders for %" PRId64
                         " classes, and none is named as a label",
                         e->numbered, classes);
    for (size_t i = 0; i < e->count; i++)
        if (e->of[i].truth >= classes)
            return error_set(err, INFER_EARGUMENT,
                             "--evaluate: class %" PRId64
                             ", but the network has %" PRId64,
                             e->of[i].truth, classes);
    return INFER_OK;
}

int evaluate_picture(struct tool_run *run, const struct infer_array *out,
                     int64_t row, size_t index, struct infer_error *err)
{
    struct evaluation *e = run->evaluation;
    struct judged *j = &e->of[index];
    const int64_t n = array_count(out) / out->dim[0];
    double best, own;

    if (e->classes == 0 && check_classes(e, n, err) < 0)
        return INFER_EARGUMENT;
    best = own = scalar_load(out->dtype, out->data, row * n + j->truth);
    j->shown = j->truth;
    j->rank = 0;
    for (int64_t i = 0; i < n; i++) {
        const double score = scalar_load(out->dtype, out->data, row * n + i);
        /* Of equal scores the first is shown. */
        const bool ahead = !(score <= own) || (score == own && i < j->truth);

        j->rank += ahead;
        if (ahead && (!(score <= best) || (score == best && i < j->shown))) {
            best = score;
            j->shown = i;
        }
    }
    return INFER_OK;
}

/* ---- counting ------------------------------------------------------ */

struct pair {
    int64_t truth, shown, count;
};

struct totals {
    int64_t pictures, first, five;
    struct pair *pair; /* all that occur, by truth and then by count */
    size_t pairs;
};

static int by_classes(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->truth != y->truth)
        return x->truth < y->truth ? -1 : 1;
    return x->shown == y->shown ? 0 : x->shown < y->shown ? -1 : 1;
}

static int by_count(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->truth != y->truth || x->count == y->count)
        return by_classes(a, b);
    return x->count > y->count ? -1 : 1;
}

static int count_all(const struct evaluation *e, struct infer_error *err,
                     struct totals *t)
{
    size_t n = 0;

    memset(t, 0, sizeof *t);
    t->pair = calloc(e->count + 1, sizeof *t->pair);
    if (t->pair == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t i = 0; i < e->count; i++) {
        const struct judged *j = &e->of[i];

        if (j->shown < 0)
            continue;
        t->pictures++;
        t->first += j->rank < 1;
        t->five += j->rank < 5;
        t->pair[n++] = (struct pair){j->truth, j->shown, 1};
    }
    qsort(t->pair, n, sizeof *t->pair, by_classes);
    for (size_t i = 0; i < n; i++) {
        struct pair *last = &t->pair[t->pairs - (t->pairs > 0)];

        if (t->pairs > 0 && by_classes(last, &t->pair[i]) == 0)
            last->count++;
        else
            t->pair[t->pairs++] = t->pair[i];
    }
    qsort(t->pair, t->pairs, sizeof *t->pair, by_count);
    return INFER_OK;
}

/* One class among the pairs: [begin, end), its pictures, and those found. */
struct class_total {
    size_t begin, end;
    int64_t pictures, found;
};

static struct class_total class_at(const struct totals *t, size_t begin)
{
    struct class_total c = {.begin = begin, .end = begin};

    while (c.end < t->pairs && t->pair[c.end].truth == t->pair[begin].truth) {
        const struct pair *p = &t->pair[c.end++];

        c.pictures += p->count;
        c.found += p->truth == p->shown ? p->count : 0;
    }
    return c;
}

/* ---- printing ------------------------------------------------------ */

static double per_cent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* "12 dog", cut to fit. */
static void class_text(const struct tool_run *run, int64_t class, int room,
                       char *out, size_t bytes)
{
    const char *label = tool_label(run, class);

    snprintf(out, bytes, "%" PRId64 "%s%.*s", class, label ? " " : "", room,
             label ? label : "");
}

static int64_t count_of(const struct totals *t, int64_t truth, int64_t shown)
{
    for (size_t i = 0; i < t->pairs; i++)
        if (t->pair[i].truth == truth && t->pair[i].shown == shown)
            return t->pair[i].count;
    return 0;
}

/* Rows are true classes, columns the classes that were shown. */
static void print_matrix(const struct tool_run *run, const struct totals *t)
{
    const int64_t n = run->evaluation->classes;
    char name[64];

    cli_print("\n%-16s", "true \\ shown");
    for (int64_t k = 0; k < n; k++)
        cli_print("%5" PRId64, k);
    cli_print("\n");
    for (int64_t i = 0; i < n; i++) {
        class_text(run, i, 12, name, sizeof name);
        cli_print("%-16s", name);
        for (int64_t k = 0; k < n; k++) {
            const int64_t count = count_of(t, i, k);

            if (count > 0)
                cli_print("%5" PRId64, count);
            else
                cli_print("%5s", ".");
        }
        cli_print("\n");
    }
}

/* A class and what it is most often taken for. */
static void print_class(const struct tool_run *run, const struct totals *t,
                        const struct class_total *c)
{
    char name[128];
    int shown = 0;

    class_text(run, t->pair[c->begin].truth, 28, name, sizeof name);
    cli_print("%-34s%8" PRId64 "%8.1f%%", name, c->pictures,
              per_cent(c->found, c->pictures));
    for (size_t i = c->begin; i < c->end && shown < 2; i++) {
        const struct pair *p = &t->pair[i];

        if (p->truth == p->shown)
            continue;
        class_text(run, p->shown, 12, name, sizeof name);
        cli_print("%s%s (%" PRId64 ")", shown++ ? ", " : "  ", name, p->count);
    }
    cli_print("\n");
}

static int by_accuracy(const void *a, const void *b)
{
    const struct class_total *x = a, *y = b;
    const double p = per_cent(x->found, x->pictures);
    const double q = per_cent(y->found, y->pictures);

    if (p < q || p > q)
        return p < q ? -1 : 1;
    return x->begin < y->begin ? -1 : 1;
}

/* Every class, those found least often first. */
static int print_classes(const struct tool_run *run, const struct totals *t,
                         struct infer_error *err)
{
    struct class_total *c = calloc(t->pairs + 1, sizeof *c);
    size_t n = 0, i;

    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < t->pairs; i = c[n++].end)
        c[n] = class_at(t, i);
    qsort(c, n, sizeof *c, by_accuracy);
    cli_print("\n%-34s%8s%9s  most often shown instead\n", "class", "pictures",
              "top-1");
    for (i = 0; i < n && (i < SHOWN || run->cli->verbosity > 0); i++)
        print_class(run, t, &c[i]);
    if (i < n)
        cli_print("... and %zu classes more (-v shows all)\n", n - i);
    free(c);
    return INFER_OK;
}

static int print_text(const struct tool_run *run, const struct totals *t,
                      struct infer_error *err)
{
    const int64_t classes = run->evaluation->classes;

    cli_print("%" PRId64 " pictures, %" PRId64 " classes\n", t->pictures,
              classes);
    cli_print("top-1  %6.2f%%  %" PRId64 "\n", per_cent(t->first, t->pictures),
              t->first);
    if (classes > 5)
        cli_print("top-5  %6.2f%%  %" PRId64 "\n",
                  per_cent(t->five, t->pictures), t->five);
    if (t->pictures == 0)
        return INFER_OK;
    if (classes <= MATRIX)
        print_matrix(run, t);
    return print_classes(run, t, err);
}

static void add_label(const struct tool_run *run, cJSON *to, const char *key,
                      int64_t class)
{
    const char *text = tool_label(run, class);

    if (text != NULL)
        cJSON_AddStringToObject(to, key, text);
}

static void add_confusions(const struct tool_run *run, const struct totals *t,
                           const struct class_total *c, cJSON *list)
{
    for (size_t i = c->begin; i < c->end; i++) {
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "class", (double)t->pair[i].shown);
        add_label(run, item, "label", t->pair[i].shown);
        cJSON_AddNumberToObject(item, "pictures", (double)t->pair[i].count);
        json_append(list, item);
    }
}

static cJSON *evaluation_json(const struct tool_run *run,
                              const struct totals *t)
{
    cJSON *json = cJSON_CreateObject(), *list;
    const double n = t->pictures > 0 ? (double)t->pictures : 1;

    cJSON_AddNumberToObject(json, "pictures", (double)t->pictures);
    cJSON_AddNumberToObject(json, "classes", (double)run->evaluation->classes);
    cJSON_AddNumberToObject(json, "top1", (double)t->first / n);
    cJSON_AddNumberToObject(json, "top5", (double)t->five / n);
    list = cJSON_AddArrayToObject(json, "by_class");
    for (size_t i = 0; i < t->pairs;) {
        const struct class_total c = class_at(t, i);
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "class", (double)t->pair[i].truth);
        add_label(run, item, "label", t->pair[i].truth);
        cJSON_AddNumberToObject(item, "pictures", (double)c.pictures);
        cJSON_AddNumberToObject(item, "found", (double)c.found);
        add_confusions(run, t, &c, cJSON_AddArrayToObject(item, "shown"));
        json_append(list, item);
        i = c.end;
    }
    return json;
}

int evaluate_report(struct tool_run *run, struct infer_error *err)
{
    struct totals t;
    int rc = count_all(run->evaluation, err, &t);

    if (rc < 0)
        return rc;
    if (run->result != NULL) {
        cJSON_Delete(run->result);
        run->result = evaluation_json(run, &t);
        run->result_name = NULL;
    } else {
        rc = print_text(run, &t, err);
    }
    free(t.pair);
    return rc;
}
