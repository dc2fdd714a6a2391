/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of the passes and their report; see passes.h. */
#include "weights/passes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* Times round the table.  A real network needs three or four; the bound keeps
 * a file made for it from costing more.  Stopping early is always right: each
 * pass leaves a graph with the same function. */
#define MAX_ROUNDS 12

static const struct pass_row rows[] = {
#define PASS(function, name, level, description)                               \
    {name, description, level, function, NULL, false},
#define PASS_GRAPH(function, name, level, description)                         \
    {name, description, level, NULL, function, false},
#define PASS_LAST(function, name, level, description)                          \
    {name, description, level, NULL, function, true},
#include "weights/passes.def"
#undef PASS
#undef PASS_GRAPH
#undef PASS_LAST
};

size_t pass_count(void)
{
    return sizeof(rows) / sizeof(rows[0]);
}

const struct pass_row *pass_at(size_t i)
{
    return i < pass_count() ? &rows[i] : NULL;
}

const struct pass_row *pass_find(const char *name)
{
    for (size_t i = 0; i < pass_count(); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* ---- report -------------------------------------------------------- */

void pass_report_init(struct pass_report *report)
{
    memset(report, 0, sizeof(*report));
}

void pass_report_clear(struct pass_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        free(report->event[i].text);
    free(report->event);
    pass_report_init(report);
}

void pass_report_add(struct pass_report *report, const char *pass,
                     int64_t bytes, const char *fmt, ...)
{
    char text[512];
    char *copy;
    va_list ap;

    if (!report)
        return;
    if (report->count == report->capacity) {
        size_t capacity = report->capacity ? report->capacity * 2 : 64;
        struct pass_event *event =
            realloc(report->event, capacity * sizeof(*event));

        if (!event)
            return;
        report->event = event;
        report->capacity = capacity;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    copy = strdup(text);
    if (!copy)
        return;
    report->event[report->count].pass = pass;
    report->event[report->count].text = copy;
    report->event[report->count].bytes = bytes;
    report->count++;
}

/* ---- driver -------------------------------------------------------- */

void pass_options_init(struct pass_options *options)
{
    memset(options, 0, sizeof(*options));
    options->level = 2;
}

static bool enabled(const struct pass_row *row,
                    const struct pass_options *options)
{
    if (row->level > options->level)
        return false;
    if ((options->keep_bn || options->keep_training) &&
        strcmp(row->name, "fold-batch-norm") == 0)
        return false;
    if (options->keep_training && strcmp(row->name, "remove-dropout") == 0)
        return false;
    for (size_t i = 0; options->disabled && options->disabled[i]; i++)
        if (strcmp(options->disabled[i], row->name) == 0)
            return false;
    return true;
}

static int check_disabled(const struct pass_options *options,
                          struct infer_error *err)
{
    for (size_t i = 0; options->disabled && options->disabled[i]; i++)
        if (!pass_find(options->disabled[i]))
            return error_set(err, INFER_EARGUMENT, "there is no pass '%s'",
                             options->disabled[i]);
    return 0;
}

/* Brings the graph to the state that passes start from. */
static int normalise(struct graph *g, struct infer_error *err)
{
    int rc;

    rc = graph_remove_dead(g);
    if (rc < 0)
        return error_set(err, rc, "out of memory");
    rc = graph_compact(g, err);
    if (rc < 0)
        return rc;
    return graph_infer_shapes(g, NULL, err);
}

/* The rows of the rounds, or those that come last.  1 where one of them changed
 * the graph. */
static int run_rows(struct graph *g, const struct pass_options *options,
                    bool last, struct pass_report *report,
                    struct infer_error *err)
{
    int rc = 0, changed = 0;

    for (size_t i = 0; rc >= 0 && i < pass_count(); i++) {
        if (rows[i].last != last || !enabled(&rows[i], options))
            continue;
        rc = pass_run(&rows[i], g, report, err);
        if (rc <= 0)
            continue;
        changed = 1;
        rc = normalise(g, err);
        if (rc < 0)
            error_prefix(err, "after pass %s", rows[i].name);
    }
    return rc < 0 ? rc : changed;
}

int weights_run_passes(struct graph *g, const struct pass_options *options,
                       struct pass_report *report, struct infer_error *err)
{
    struct pass_options defaults;
    int rc, changed = 1;

    pass_options_init(&defaults);
    if (!options)
        options = &defaults;
    rc = check_disabled(options, err);
    if (rc < 0)
        return rc;
    rc = graph_compact(g, err);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    for (int round = 0; rc >= 0 && changed > 0 && round < MAX_ROUNDS; round++)
        rc = changed = run_rows(g, options, false, report, err);
    if (rc >= 0)
        rc = run_rows(g, options, true, report, err);
    return rc < 0 ? rc : 0;
}
