/* SPDX-License-Identifier: Apache-2.0 */
/* The preprocessing that a conversion stores in the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/wconv/wconv.h"

void wconv_preprocess_init(struct wconv_preprocess *p)
{
    int i;

    memset(p, 0, sizeof(*p));
    p->stored.present = true;
    p->stored.policy = GRAPH_RESIZE_EXACT;
    p->stored.scale = 1;
    p->stored.fill = 114;
    for (i = 0; i < 4; i++)
        p->stored.std[i] = 1;
}

/* ---- option values ------------------------------------------------- */

/* One to four numbers; a single one stands for every channel. */
static int channel_values(const char *text, float *out, int *count)
{
    double v[4];
    int i, n = cli_doubles(text, v, 4);

    if (n < 1)
        return CLI_BAD;
    for (i = 0; i < 4; i++)
        out[i] = (float)v[i < n ? i : n - 1];
    *count = n;
    return 0;
}

int wconv_set_mean(struct cli *cli, const struct cli_option *o,
                   const char *value, void *user)
{
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;

    (void)cli, (void)o;
    return channel_values(value, p->stored.mean, &p->means);
}

int wconv_set_std(struct cli *cli, const struct cli_option *o,
                  const char *value, void *user)
{
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;

    (void)cli, (void)o;
    return channel_values(value, p->stored.std, &p->stds);
}

int wconv_set_preset(struct cli *cli, const struct cli_option *o,
                     const char *word, void *user)
{
    static const char *const words[] = {"imagenet", "caffe", "unit",
                                        "signed",   "raw",   NULL};
    static const float unit = 1.0f / 255;
    static const struct {
        float scale, mean[3], std[3];
        enum graph_color color;
        int resize, channels;
    } preset[] = {
        {unit,
         {0.485f, 0.456f, 0.406f},
         {0.229f, 0.224f, 0.225f},
         GRAPH_RGB,
         256,
         3},
        {1, {104, 117, 123}, {1, 1, 1}, GRAPH_BGR, 256, 3},
        {unit, {0, 0, 0}, {1, 1, 1}, GRAPH_RGB, 0, 1},
        {1 / 127.5f, {1, 1, 1}, {1, 1, 1}, GRAPH_RGB, 0, 1},
        {1, {0, 0, 0}, {1, 1, 1}, GRAPH_RGB, 0, 1},
    };
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;
    int i, which = cli_word(word, words);

    (void)cli, (void)o;
    if (which < 0)
        return CLI_BAD;
    p->stored.scale = preset[which].scale;
    for (i = 0; i < 3; i++) {
        p->stored.mean[i] = preset[which].mean[i];
        p->stored.std[i] = preset[which].std[i];
    }
    p->means = preset[which].channels;
    p->stds = preset[which].channels;
    p->stored.color = preset[which].color;
    p->stored.resize = preset[which].resize;
    p->stored.policy =
        p->stored.resize ? GRAPH_RESIZE_SHORTER : GRAPH_RESIZE_EXACT;
    p->resized = p->stored.resize != 0;
    return 0;
}

int wconv_set_resize(struct cli *cli, const struct cli_option *o,
                     const char *word, void *user)
{
    static const char *const words[] = {"exact", "shorter", "letterbox", "none",
                                        NULL};
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;
    const int which = cli_word(word, words);
    int64_t pixels = 0;

    (void)cli, (void)o;
    if (which < 0 && !cli_int(word, 1, 65536, &pixels))
        return CLI_BAD;
    p->resized = true;
    p->stored.policy =
        which >= 0 ? (enum graph_resize_policy)which : GRAPH_RESIZE_SHORTER;
    p->stored.resize = (int)pixels;
    return 0;
}

int wconv_set_crop(struct cli *cli, const struct cli_option *o,
                   const char *word, void *user)
{
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;
    int64_t dim[INFER_MAX_RANK];
    char *name = NULL;
    int rank = 0;
    bool good = cli_shape(word, &name, &rank, dim) && name == NULL &&
                (rank == 1 || rank == 2) && dim[0] > 0 && dim[rank - 1] > 0;

    (void)cli, (void)o;
    free(name);
    if (!good)
        return CLI_BAD;
    p->crop[0] = dim[0];
    p->crop[1] = dim[rank - 1];
    return 0;
}

/* ---- storing ------------------------------------------------------- */

/* Checks that there are one or as many values as channels. */
static int check_values(const char *what, int values,
                        const struct graph_value *x, struct infer_error *err)
{
    if (values <= 1 || x->rank != 4 || x->dim[1] < 0 || x->dim[1] == values)
        return INFER_OK;
    return error_set(err, INFER_EARGUMENT,
                     "the %s of preprocessing has %d values, but input '%s' "
                     "has %" PRId64 " channel%s",
                     what, values, x->name, x->dim[1],
                     x->dim[1] == 1 ? "" : "s");
}

/* Applies --crop: the centre of a picture resized by its shorter side, of the
 * size of the input. */
static int store_crop(struct wconv_preprocess *p, struct graph_value *x,
                      struct infer_error *err)
{
    int i;

    if (p->crop[0] == 0)
        return INFER_OK;
    if (!p->resized) {
        p->stored.policy = GRAPH_RESIZE_SHORTER;
        p->stored.resize = 0; /* as the crop */
    }
    if (p->stored.policy != GRAPH_RESIZE_SHORTER)
        return error_set(err, INFER_EARGUMENT,
                         "--crop goes with --resize=PIXELS or shorter");
    for (i = 0; x->rank == 4 && i < 2; i++) {
        if (x->dim[2 + i] < 0)
            x->dim[2 + i] = p->crop[i];
        if (x->dim[2 + i] != p->crop[i])
            return error_set(err, INFER_EARGUMENT,
                             "--crop=%" PRId64 "x%" PRId64 ", but input '%s' "
                             "is %" PRId64 "x%" PRId64,
                             p->crop[0], p->crop[1], x->name, x->dim[2],
                             x->dim[3]);
    }
    return INFER_OK;
}

int wconv_preprocess_store(struct wconv_preprocess *p, struct graph *g,
                           struct infer_error *err)
{
    struct graph_value *x;
    int rc;

    if (!p->given)
        return INFER_OK;
    if (g->n_inputs == 0)
        return error_set(err, INFER_EARGUMENT,
                         "preprocessing for a network without inputs");
    x = &g->value[g->input[0]];
    rc = check_values("mean", p->means, x, err);
    if (rc == INFER_OK)
        rc = check_values("standard deviation", p->stds, x, err);
    if (rc == INFER_OK)
        rc = store_crop(p, x, err);
    if (rc < 0)
        return rc;
    g->preprocess[0] = p->stored;
    if (x->rank == 4 && x->dim[1] == 1)
        g->preprocess[0].color = GRAPH_GRAY;
    return INFER_OK;
}

/* ---- in words ------------------------------------------------------ */

/* "0.485,0.456,0.406", or one number for equal ones; n of them. */
static void print_numbers(const char *what, const float *x, int n)
{
    bool equal = true;

    for (int i = 1; i < n; i++)
        equal = equal && x[i] == x[0];
    printf(", %s ", what);
    for (int i = 0; i < (equal ? 1 : n); i++)
        printf("%s%.6g", i ? "," : "", (double)x[i]);
}

static void print_stored(const struct graph_preprocess *p, int channels)
{
    static const char *const policies[] = {"exact size", "shorter side",
                                           "letterbox", "no resizing"};
    static const char *const colors[] = {"RGB", "BGR", "gray"};
    static const char *const filters[] = {"bilinear", "nearest", "bicubic"};
    const int n = channels > 4 ? 4 : channels;

    printf("%s", policies[p->policy]);
    if (p->policy == GRAPH_RESIZE_SHORTER && p->resize > 0)
        printf(" %d", p->resize);
    printf(" (%s), %s, scale %.6g", filters[p->filter], colors[p->color],
           (double)p->scale);
    print_numbers("mean", p->mean, n);
    print_numbers("std", p->std, n);
}

void wconv_print_pictures(const struct graph *g, const char *what,
                          const char *source)
{
    const struct graph_value *x = g->n_inputs ? &g->value[g->input[0]] : NULL;

    if (x == NULL || x->rank != 4 || (x->dim[1] != 1 && x->dim[1] != 3))
        return;
    cli_print("%s ", what);
    if (g->preprocess[0].present) {
        print_stored(&g->preprocess[0], (int)x->dim[1]);
        cli_print(" (%s)\n", source);
    } else {
        printf("%s of 0 to 1 assumed: nothing is stated\n",
               x->dim[1] == 1 ? "gray values" : "RGB");
    }
}
