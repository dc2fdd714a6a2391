/* SPDX-License-Identifier: Apache-2.0 */
/* Log of a run: a CSV file and a chart. */
#ifndef TOOLS_TRAIN_LOG_H
#define TOOLS_TRAIN_LOG_H

#include <stdint.h>
#include <stddef.h>

#include "include/infer.h"

/* One row.  Figures that were not measured are NaN. */
struct log_row {
    int64_t step;
    double epoch, rate, loss, accuracy; /* accuracy 0 .. 1 */
    double val_loss, val_accuracy;
    double images_per_second, seconds;
};

struct log {
    const char *csv, *svg; /* NULL: not wanted */
    const char *title;     /* of the chart */
    struct log_row *row;
    size_t count, capacity;
};

void log_init(struct log *log, const char *csv, const char *svg);
void log_clear(struct log *log);
/* Reads the rows up to a step from the CSV file of an interrupted run, if there
 * is one; malformed lines are left out. */
int log_resume(struct log *log, int64_t step, struct infer_error *err);
int log_add(struct log *log, const struct log_row *row,
            struct infer_error *err);
/* Rewrites both files atomically. */
int log_write(const struct log *log, struct infer_error *err);

/* plot.c: the SVG text, malloc()ed; NULL when out of memory. */
char *plot_svg(const char *title, const struct log_row *row, size_t count,
               size_t *bytes);

#endif
