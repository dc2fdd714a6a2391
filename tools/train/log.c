/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV file of a run. */
#include "tools/train/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"

static const char head[] = "step,epoch,rate,loss,accuracy,val_loss,"
                           "val_accuracy,images_per_second,seconds\n";

void log_init(struct log *log, const char *csv, const char *svg)
{
    memset(log, 0, sizeof(*log));
    log->csv = csv;
    log->svg = svg;
}

void log_clear(struct log *log)
{
    free(log->row);
    memset(log, 0, sizeof(*log));
}

int log_add(struct log *log, const struct log_row *row, struct infer_error *err)
{
    if (!log->csv && !log->svg)
        return 0;
    if (log->count == log->capacity) {
        const size_t capacity = log->capacity ? 2 * log->capacity : 256;
        struct log_row *more = realloc(log->row, capacity * sizeof(*more));

        if (!more)
            return error_set(err, INFER_EMEMORY, "out of memory");
        log->row = more;
        log->capacity = capacity;
    }
    log->row[log->count++] = *row;
    return 0;
}

/* ---- lines --------------------------------------------------------- */

/* A figure that was not measured is an empty field. */
static int put(char *to, size_t room, double value)
{
    return isnan(value) ? snprintf(to, room, ",")
                        : snprintf(to, room, ",%.7g", value);
}

#define LINE 256

static int format(const struct log_row *r, char line[LINE])
{
    const double v[] = {r->epoch,
                        r->rate,
                        r->loss,
                        r->accuracy,
                        r->val_loss,
                        r->val_accuracy,
                        r->images_per_second,
                        r->seconds};
    int n = snprintf(line, LINE, "%lld", (long long)r->step);

    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
        n += put(line + n, LINE - (size_t)n, v[i]);
    n += snprintf(line + n, LINE - (size_t)n, "\n");
    return n;
}

static const char *field(const char *text, double *out)
{
    char *end;

    if (*text != ',')
        return NULL;
    text++;
    *out = NAN;
    if (*text == ',' || *text == '\n' || *text == '\0')
        return text;
    *out = strtod(text, &end);
    return end == text ? NULL : end;
}

static int parse(const char *line, struct log_row *r)
{
    double *const v[] = {&r->epoch,
                         &r->rate,
                         &r->loss,
                         &r->accuracy,
                         &r->val_loss,
                         &r->val_accuracy,
                         &r->images_per_second,
                         &r->seconds};
    char *end;
    const char *at;

    r->step = strtoll(line, &end, 10);
    at = end == line ? NULL : end;
    for (size_t i = 0; at && i < sizeof(v) / sizeof(v[0]); i++)
        at = field(at, v[i]);
    return at && (*at == '\n' || *at == '\0');
}

int log_resume(struct log *log, int64_t step, struct infer_error *err)
{
    char line[LINE];
    struct log_row row;
    FILE *f = log->csv ? fopen(log->csv, "r") : NULL;
    int rc = 0;

    if (!f)
        return 0;
    while (rc == 0 && fgets(line, sizeof(line), f))
        if (parse(line, &row) && row.step <= step)
            rc = log_add(log, &row, err);
    fclose(f);
    return rc;
}

/* ---- files --------------------------------------------------------- */

static int write_csv(const struct log *log, struct infer_error *err)
{
    const size_t room = sizeof(head) + log->count * LINE;
    char *text = malloc(room);
    struct file_part part = {text, sizeof(head) - 1};
    int rc;

    if (!text)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(text, head, sizeof(head));
    for (size_t i = 0; i < log->count; i++)
        part.bytes += (size_t)format(&log->row[i], text + part.bytes);
    rc = file_replace(log->csv, &part, 1, true, err);
    free(text);
    return rc;
}

int log_write(const struct log *log, struct infer_error *err)
{
    int rc = log->csv ? write_csv(log, err) : 0;
    struct file_part part;
    char *svg;

    if (rc < 0 || !log->svg)
        return rc;
    svg = plot_svg(log->title ? log->title : "", log->row, log->count,
                   &part.bytes);
    if (!svg)
        return error_set(err, INFER_EMEMORY, "out of memory");
    part.data = svg;
    rc = file_replace(log->svg, &part, 1, true, err);
    free(svg);
    return rc;
}
