/* SPDX-License-Identifier: Apache-2.0 */
/* Depths, embeddings and landmarks of pictures. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/image/image.h"
#include "libinfer/task/draw.h"
#include "tools/infer/infer_tool.h"

/* ---- depth --------------------------------------------------------- */

struct range {
    float least, most;
    double mean;
};

static struct range range_of(const float *value, int64_t n)
{
    struct range r = {INFINITY, -INFINITY, 0};
    int64_t seen = 0;

    for (int64_t i = 0; i < n; i++) {
        if (isnan(value[i]))
            continue;
        r.least = fminf(r.least, value[i]);
        r.most = fmaxf(r.most, value[i]);
        r.mean += (double)value[i];
        seen++;
    }
    r.mean /= (double)(seen > 0 ? seen : 1);
    return r;
}

/* The least value black, the largest white; black what was not seen. */
static int write_depth(struct tool_run *run, const struct tool_shown *shown,
                       const float *value, const struct range *r,
                       struct infer_error *err)
{
    const int width = shown->source->width, height = shown->source->height;
    const float span = r->most - r->least;
    struct infer_image image;
    int rc = image_new(width, height, 1, err, &image);

    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < (int64_t)width * height; i++)
        image.pixels[i] =
            span > 0 && value[i] >= r->least
                ? (uint8_t)lrintf(255 * ((value[i] - r->least) / span))
                : 0;
    rc = tool_write_picture(run, shown->path, &image, err);
    infer_image_free(&image);
    return rc;
}

int tool_show_depth(struct tool_run *run, const struct task_outputs *o,
                    const struct preprocess_window *window,
                    const struct tool_shown *shown, struct infer_error *err)
{
    const int width = shown->source->width, height = shown->source->height;
    const int64_t n = (int64_t)width * height;
    float *value = malloc((size_t)n * sizeof *value);
    struct range r;
    cJSON *json, *unused;
    int rc;

    if (value == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = task_depth(o, window, width, height, value, err);
    if (rc == INFER_OK) {
        r = range_of(value, n);
        json = tool_begin(run, shown, NULL, &unused);
        if (json != NULL) {
            cJSON_AddNumberToObject(json, "least", r.least);
            cJSON_AddNumberToObject(json, "mean", r.mean);
            cJSON_AddNumberToObject(json, "most", r.most);
        } else {
            cli_print("  %g to %g, mean %g\n", (double)r.least, (double)r.most,
                      r.mean);
        }
        if (run->request->output != NULL)
            rc = write_depth(run, shown, value, &r, err);
    }
    free(value);
    return rc;
}

/* ---- embeddings ---------------------------------------------------- */

static double product(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

int tool_show_embedding(struct tool_run *run, const struct task_outputs *o,
                        const struct tool_shown *shown, struct infer_error *err)
{
    const float *first = run->first_embedding;
    float *value;
    int64_t n;
    double norm, cosine = NAN;
    cJSON *json, *items;
    const int rc = task_embedding(o, err, &value, &n);

    if (rc < 0)
        return rc;
    norm = sqrt(product(value, value, n));
    if (first != NULL)
        cosine =
            product(first, value, n) / (norm * sqrt(product(first, first, n)));
    json = tool_begin(run, shown, "embedding", &items);
    for (int64_t i = 0; json != NULL && i < n; i++)
        json_append(items, cJSON_CreateNumber(value[i]));
    if (json != NULL && isfinite(cosine))
        cJSON_AddNumberToObject(json, "cosine", cosine);
    if (json == NULL)
        cli_print("  %" PRId64 " values, norm %.6g", n, norm);
    if (json == NULL && isfinite(cosine))
        cli_print(", cosine with the first picture %.4f", cosine);
    if (json == NULL)
        cli_print("\n");
    if (first == NULL)
        run->first_embedding = value;
    else
        free(value);
    return INFER_OK;
}

/* ---- landmarks ----------------------------------------------------- */

static void list_landmarks(const struct tool_run *run,
                           const struct tool_shown *shown,
                           const struct task_landmarks *l)
{
    cJSON *items;
    const cJSON *json = tool_begin(run, shown, "points", &items);

    for (int k = 0; k < l->count; k++) {
        const float *p = l->point[k];

        if (json != NULL)
            json_append(items, cJSON_CreateFloatArray(p, l->scores ? 3 : 2));
        else if (l->scores)
            cli_print("  %5d  (%.1f, %.1f)  %.4g\n", k, p[0], p[1], p[2]);
        else
            cli_print("  %5d  (%.1f, %.1f)\n", k, p[0], p[1]);
    }
}

int tool_show_landmarks(struct tool_run *run, const struct task_outputs *o,
                        const struct preprocess_window *window,
                        const struct tool_shown *shown, struct infer_error *err)
{
    struct task_landmarks l;
    struct infer_image image;
    int rc = task_landmarks(&run->task, o, window, err, &l);

    if (rc < 0)
        return rc;
    list_landmarks(run, shown, &l);
    if (run->request->output != NULL) {
        rc = image_convert(shown->source, 3, err, &image);
        if (rc == INFER_OK) {
            draw_landmarks(&image, l.point, l.count);
            rc = tool_write_picture(run, shown->path, &image, err);
            infer_image_free(&image);
        }
    }
    free(l.point);
    return rc;
}
