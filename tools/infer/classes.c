/* SPDX-License-Identifier: Apache-2.0 */
/* The best classes of a picture. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"
#include "tools/infer/infer_tool.h"

const char *tool_label(const struct tool_run *run, int64_t class)
{
    if (run->labels.count > 0)
        return class < run->labels.count ? run->labels.text[class] : NULL;
    return infer_model_label(run->model, (int)class);
}

int tool_label_count(const struct tool_run *run)
{
    return run->labels.count > 0 ? run->labels.count
                                 : infer_model_label_count(run->model);
}

static struct infer_array row_of(double *p, int64_t n)
{
    return (struct infer_array){.dtype = INFER_F64,
                                .rank = 2,
                                .dim = {1, n},
                                .data = p,
                                .bytes = (size_t)n * sizeof *p};
}

/* Probabilities of one row: the row itself after a softmax or sigmoid, else its
 * softmax. */
static void to_probabilities(double *p, int64_t n)
{
    double sum = 0;
    bool probabilities = true;
    int64_t i;

    for (i = 0; i < n; i++) {
        sum += p[i];
        probabilities = probabilities && p[i] >= 0 && p[i] <= 1;
    }
    if (probabilities && fabs(sum - 1) < 1e-2)
        return;
    const struct infer_array row = row_of(p, n);

    (void)infer_array_softmax(&row, 0, p, n, NULL);
}

void tool_probabilities(const struct infer_array *out, int64_t row, double *p)
{
    const int64_t n = array_count(out) / out->dim[0];

    for (int64_t i = 0; i < n; i++)
        p[i] = scalar_load(out->dtype, out->data, row * n + i);
    to_probabilities(p, n);
}

static void print_classes(const struct tool_run *run, const char *path,
                          const double *scores, const double *p,
                          const int64_t *best, int k)
{
    int j;

    cli_print("%s\n", path);
    for (j = 0; j < k; j++) {
        const char *label = tool_label(run, best[j]);

        cli_print("  %6.2f%%  %5" PRId64 "  %s%s(%.4g)\n", 100 * p[best[j]],
                  best[j], label != NULL ? label : "",
                  label != NULL ? "  " : "", scores[best[j]]);
    }
}

static void add_json(const struct tool_run *run, cJSON *list, const char *path,
                     const double *scores, const double *p, const int64_t *best,
                     int k)
{
    cJSON *item = cJSON_CreateObject(), *classes;
    int j;

    cJSON_AddStringToObject(item, "image", path);
    classes = cJSON_AddArrayToObject(item, "top");
    for (j = 0; j < k; j++) {
        const char *label = tool_label(run, best[j]);
        cJSON *c = cJSON_CreateObject();

        cJSON_AddNumberToObject(c, "class", (double)best[j]);
        if (label != NULL)
            cJSON_AddStringToObject(c, "label", label);
        cJSON_AddNumberToObject(c, "score", scores[best[j]]);
        cJSON_AddNumberToObject(c, "probability", p[best[j]]);
        json_append(classes, c);
    }
    json_append(list, item);
}

/* Counts the class that a picture is shown as; without memory there is no note.
 */
static void count_shown(struct tool_run *run, int64_t class, int64_t classes)
{
    if (run->shown_as == NULL) {
        run->shown_as = calloc((size_t)classes, sizeof *run->shown_as);
        run->classes = classes;
    }
    if (run->shown_as == NULL || class < 0 || class >= run->classes)
        return;
    run->shown_as[class]++;
    run->shown++;
}

/* Fewer pictures are of one class often enough. */
#define SAME_PICTURES 5
/* From this many classes on, three quarters of the pictures in one are odd. */
#define MANY_CLASSES 100

void tool_note_same(const struct tool_run *run)
{
    const char *label;
    int64_t most = 0;

    if (run->shown < SAME_PICTURES || run->cli->verbosity < 0)
        return;
    for (int64_t i = 1; i < run->classes; i++)
        if (run->shown_as[i] > run->shown_as[most])
            most = i;
    if (run->shown_as[most] < run->shown &&
        (run->classes < MANY_CLASSES ||
         4 * run->shown_as[most] < 3 * run->shown))
        return;
    label = tool_label(run, most);
    cli_error(run->cli,
              "note: %zu of %zu pictures are shown as class %" PRId64
              "%s%s; if they are not, the preprocessing may be wrong: "
              "--try-presets compares some",
              run->shown_as[most], run->shown, most, label ? " " : "",
              label ? label : "");
}

/* Prints the best classes of row `row` of the first output. */
int tool_show_classes(struct tool_run *run, const struct infer_array *out,
                      int64_t row, const char *path, struct infer_error *err)
{
    int64_t i, n = array_count(out) / out->dim[0];
    int k = run->request->top < n ? run->request->top : (int)n;
    double *scores = malloc((size_t)n * 2 * sizeof(*scores));
    int64_t *best = malloc((size_t)(k > 0 ? k : 1) * sizeof(*best));
    int rc = INFER_OK;

    if (scores == NULL || best == NULL) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    } else {
        double *p = scores + n;

        for (i = 0; i < n; i++)
            p[i] = scores[i] = scalar_load(out->dtype, out->data, row * n + i);
        to_probabilities(p, n);
        const struct infer_array all = row_of(scores, n);
        k = infer_array_top_k(&all, 0, k, best, NULL, NULL);
        count_shown(run, k > 0 ? best[0] : -1, n);
        if (run->result != NULL)
            add_json(run, run->result, path, scores, p, best, k);
        else
            print_classes(run, path, scores, p, best, k);
    }
    free(scores);
    free(best);
    return rc;
}

/* Notes on standard error: an unequal number of labels, or an output that does
 * not look like class scores. */
void tool_note_classes(const struct tool_run *run,
                       const struct infer_array *out)
{
    const int64_t classes = array_count(out) / out->dim[0];
    const int labels = tool_label_count(run);
    int i, wide = 0;

    if (labels > 0 && labels != classes && run->cli->verbosity >= 0)
        cli_error(run->cli, "note: %d labels for %" PRId64 " classes", labels,
                  classes);
    for (i = 1; i < out->rank; i++)
        wide += out->dim[i] > 1;
    if (wide > 1 && run->request->dump_layers == NULL &&
        run->cli->verbosity >= 0)
        cli_error(run->cli,
                  "note: output '%s' has %d dimensions and is shown as %" PRId64
                  " classes: --load-inputs and --export-output give it whole",
                  out->name, out->rank, classes);
}
