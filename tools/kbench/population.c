/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A population: a file of problems with weights, and samples of it.
 *
 * A line is a weight and a problem in benchdnn's letters without its batch,
 * "12 conv_fprop ic64ih56oc64oh56kh3ph1 +bias +relu"; a line that begins with #
 * is a comment.  The weight says how often the problem occurs, such as in how
 * many networks.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "tools/kbench/kbench.h"

/* A problem of a sample moves at most as many bytes: others are drawn at a
 * smaller batch. */
#define MOST_BYTES ((double)((int64_t)4 << 30))

struct member {
    struct kb_figures figures;
    double weight; /* 0: drawn already, or of another operation */
};

struct population {
    struct member *at;
    int n, capacity;
};

static int parse_line(const char *line, const struct kb_figures *start,
                      struct member *out, struct infer_error *err)
{
    char *end;
    const long long weight = strtoll(line, &end, 10);

    if (end == line || weight < 1 || !isspace((unsigned char)*end))
        return error_set(err, INFER_EARGUMENT,
                         "a line is a weight from 1 and a problem, as in '12 "
                         "conv_fprop ic64ih56oc64oh56kh3ph1'");
    out->figures = *start;
    out->weight = (double)weight;
    return kb_figures_parse(end, &out->figures, err);
}

static int add_line(struct population *all, const char *line,
                    const struct kb_figures *start, struct infer_error *err)
{
    void *at = array_reserve(all->at, all->n, &all->capacity, sizeof(*all->at));

    if (!at)
        return error_set(err, INFER_EMEMORY, "out of memory");
    all->at = at;
    const int rc = parse_line(line, start, &all->at[all->n], err);
    all->n += rc == 0;
    return rc;
}

static int read_lines(FILE *f, const struct kb_figures *start,
                      struct population *all, struct infer_error *err)
{
    char line[512];
    int rc = 0;

    for (int at = 1; rc == 0 && fgets(line, sizeof(line), f); at++) {
        const size_t n = strcspn(line, "\n");

        if (n == sizeof(line) - 1)
            rc = error_set(err, INFER_EARGUMENT, "the line is too long");
        line[n] = '\0';
        if (rc == 0 && line[0] != '#' && line[strspn(line, " \t")] != '\0')
            rc = add_line(all, line, start, err);
        if (rc < 0)
            error_prefix(err, "line %d", at);
    }
    if (rc == 0 && ferror(f))
        rc = error_set(err, INFER_EIO, "%s", strerror(errno));
    return rc;
}

static int read_file(const char *path, const struct kb_figures *start,
                     struct population *all, struct infer_error *err)
{
    FILE *f = fopen(path, "re");

    if (!f)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    const int rc = read_lines(f, start, all, err);
    fclose(f);
    if (rc < 0)
        error_prefix(err, "%s", path);
    return rc;
}

/* ---- a sample ------------------------------------------------------ */

/* Random numbers in [0, 1) that follow from the seed alone. */
struct draws {
    uint64_t seed;
    uint32_t next;
};

static double draw(struct draws *d)
{
    const uint32_t counter[4] = {d->next++, 0, 0, 0};

    return philox(counter, d->seed).word[0] / 4294967296.0;
}

/* The member that was drawn; it is not drawn again. */
static struct member *draw_member(struct population *all, struct draws *d)
{
    struct member *last = NULL;
    double sum = 0;

    for (int i = 0; i < all->n; i++)
        sum += all->at[i].weight;
    double left = draw(d) * sum;
    for (int i = 0; i < all->n; i++) {
        struct member *m = &all->at[i];
        if (m->weight <= 0)
            continue;
        last = m;
        left -= m->weight;
        if (left < 0)
            break;
    }
    return last;
}

/* Adds the member at this batch, or at the first smaller one of the list at
 * which it keeps to MOST_BYTES. */
static int add_member(const struct kb_request *r, const struct kb_figures *of,
                      int batch, const struct kb_precision *precision,
                      struct kb_cases *out, struct infer_error *err)
{
    struct kb_figures f = *of;
    struct kern_problem p;

    for (;;) {
        f.n = r->batch[batch];
        const int rc = kb_figures_problem(&f, precision, r->layout, err, &p);
        if (rc < 0)
            return rc;
        if (batch == 0 || kern_problem_bytes(&p) <= MOST_BYTES)
            break;
        batch--;
    }
    return kb_cases_add_figures(r, &f, precision, out, err);
}

static int add_sample(const struct kb_request *r, struct population *all,
                      const struct kb_precision *precision,
                      struct kb_cases *out, struct infer_error *err)
{
    struct draws d = {.seed = r->cli->seed};
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < r->sample; i++) {
        struct member *m = draw_member(all, &d);
        if (!m)
            break;
        m->weight = 0;
        rc = add_member(r, &m->figures, (int)(draw(&d) * r->n_batches),
                        precision, out, err);
    }
    return rc;
}

static int add_all(const struct kb_request *r, const struct population *all,
                   const struct kb_precision *precision, struct kb_cases *out,
                   struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; i < all->n; i++)
        for (int b = 0; rc == 0 && b < r->n_batches; b++)
            if (all->at[i].weight > 0)
                rc = add_member(r, &all->at[i].figures, b, precision, out, err);
    return rc;
}

int kb_population(const struct kb_request *r, const char *path, enum kb_dir dir,
                  const struct kb_precision *precision, struct kb_cases *out,
                  struct infer_error *err)
{
    struct kb_figures start = r->figures;
    struct population all = {0};

    start.dir = dir;
    int rc = read_file(path, &start, &all, err);
    for (int i = 0; i < all.n; i++) {
        const enum kern_op op = all.at[i].figures.op;
        if (!r->ops[op] || (dir != KB_FPROP && op != KERN_CONV_FPROP))
            all.at[i].weight = 0;
    }
    if (rc == 0)
        rc = r->sample > 0 ? add_sample(r, &all, precision, out, err)
                           : add_all(r, &all, precision, out, err);
    free(all.at);
    return rc;
}
