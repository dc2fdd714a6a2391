/* SPDX-License-Identifier: Apache-2.0 */
/* The preprocessing that a conversion stores in the model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/task/task.h"
#include "tools/preprocess.h"
#include "tools/wconv/wconv.h"

/* Of a word or a number that no option gave.  A scale is NaN then. */
#define NOT_GIVEN (-1)
#define FILL      114 /* of letterbox bars where no option says */

void wconv_preprocess_init(struct wconv_preprocess *p)
{
    int i;

    memset(p, 0, sizeof(*p));
    p->stored.present = true;
    p->stored.policy = (enum graph_resize_policy)NOT_GIVEN;
    p->stored.color = (enum graph_color)NOT_GIVEN;
    p->stored.filter = (enum graph_filter)NOT_GIVEN;
    p->stored.fill = FILL;
    p->fill = NOT_GIVEN;
    p->stored.scale = NAN;
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
    if (channel_values(value, p->stored.std, &p->stds) < 0)
        return CLI_BAD;
    for (int i = 0; i < 4; i++)
        if (p->stored.std[i] == 0)
            return CLI_BAD;
    return 0;
}

int wconv_set_preset(struct cli *cli, const struct cli_option *o,
                     const char *word, void *user)
{
    struct wconv_preprocess *p = &((struct wconv_request *)user)->preprocess;
    const int which = cli_word(word, preprocess_presets);

    (void)cli, (void)o;
    if (which < 0)
        return CLI_BAD;
    p->means = p->stds = preprocess_set_preset(which, &p->stored);
    p->resized = p->by_preset = p->stored.resize != 0;
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
    p->by_preset = false;
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
    const int channels = x->rank == 4 ? 1 : 0;

    if (values <= 1 || x->rank < 3 || x->rank > 4 || x->dim[channels] < 0 ||
        x->dim[channels] == values)
        return INFER_OK;
    return error_set(err, INFER_EARGUMENT,
                     "the %s of preprocessing has %d values, but input '%s' "
                     "has %" PRId64 " channel%s",
                     what, values, x->name, x->dim[channels],
                     x->dim[channels] == 1 ? "" : "s");
}

/* Applies --crop: the centre of a picture resized by its shorter side, of the
 * size of the input. */
static int store_crop(struct wconv_preprocess *p, struct graph_value *x,
                      struct infer_error *err)
{
    int64_t *hw;
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
    hw = x->rank < 3 || x->rank > 4 ? NULL : x->dim + x->rank - 2;
    for (i = 0; hw && i < 2; i++) {
        if (hw[i] < 0)
            hw[i] = p->crop[i];
        if (hw[i] != p->crop[i])
            return error_set(err, INFER_EARGUMENT,
                             "--crop=%" PRId64 "x%" PRId64 ", but input '%s' "
                             "is %" PRId64 "x%" PRId64,
                             p->crop[0], p->crop[1], x->name, hw[0], hw[1]);
    }
    return INFER_OK;
}

/* A picture that is smaller than its crop would have bars beside it. */
static int check_resize(const struct wconv_preprocess *p, const int64_t *dim,
                        struct infer_error *err)
{
    const int64_t side = dim[2] < dim[3] ? dim[2] : dim[3];

    if (!p->resized || p->stored.policy != GRAPH_RESIZE_SHORTER ||
        p->stored.resize <= 0 || p->stored.resize >= side)
        return INFER_OK;
    return error_set(err, INFER_EARGUMENT,
                     "--resize=%d: a shorter side below the input's %" PRId64
                     "x%" PRId64 " (--resize=exact, letterbox or %" PRId64
                     " and more fill it)",
                     p->stored.resize, dim[2], dim[3], side);
}

/* Whether mean and standard deviation are those of values of 0 to 1. */
static bool is_for_unit(const struct graph_preprocess *p)
{
    for (int i = 0; i < 4; i++)
        if (fabsf(p->mean[i]) > 1 || fabsf(p->std[i]) > 1)
            return false;
    return true;
}

/* What no option gave is as the file states it, or as it is assumed to be.
 * Scale, mean and standard deviation are one statement. */
static void complete(struct wconv_preprocess *p, const struct graph *g)
{
    const struct graph_preprocess *from = preprocess_of(g, 0);
    struct graph_preprocess *to = &p->stored;
    const bool unstated = isnan(to->scale);

    if (unstated && p->means == 0 && p->stds == 0) {
        to->scale = from->scale;
        memcpy(to->mean, from->mean, sizeof to->mean);
        memcpy(to->std, from->std, sizeof to->std);
    } else if (unstated) {
        to->scale = is_for_unit(to) ? 1.0f / 255 : 1;
    }
    if ((int)to->policy == NOT_GIVEN) {
        to->policy = from->policy;
        to->resize = from->resize;
        to->fill = from->fill;
    }
    if (p->fill >= 0)
        to->fill = (uint8_t)p->fill;
    if ((int)to->color == NOT_GIVEN)
        to->color = from->color;
    if ((int)to->filter == NOT_GIVEN)
        to->filter = from->filter;
}

int wconv_preprocess_store(struct wconv_preprocess *p, struct graph *g,
                           struct infer_error *err)
{
    struct graph_value *x;
    int64_t dim[4];
    int rc;

    if (!p->given)
        return INFER_OK;
    if (g->n_inputs == 0)
        return error_set(err, INFER_EARGUMENT,
                         "preprocessing for a network without inputs");
    x = &g->value[g->input[0]];
    complete(p, g);
    rc = check_values("mean", p->means, x, err);
    if (rc == INFER_OK)
        rc = check_values("standard deviation", p->stds, x, err);
    if (rc == INFER_OK)
        rc = store_crop(p, x, err);
    if (rc == INFER_OK && preprocess_dims(x->rank, x->dim, dim)) {
        if (p->by_preset)
            preprocess_fit_preset(dim, &p->stored);
        rc = check_resize(p, dim, err);
    }
    if (rc < 0)
        return rc;
    g->preprocess[0] = p->stored;
    if (x->rank == 4 && x->dim[1] == 1)
        g->preprocess[0].color = GRAPH_GRAY;
    return INFER_OK;
}

/* ---- in words ------------------------------------------------------ */

void wconv_print_pictures(const struct graph *g, const char *what,
                          const char *source)
{
    char text[256];

    if (preprocess_text(g, source, text, sizeof(text)))
        cli_print("%s %s\n", what, text);
}

void wconv_print_task(const struct graph *g, const char *what,
                      const char *source)
{
    char text[256];

    if (task_text(g, source, text, sizeof(text)))
        cli_print("%s %s\n", what, text);
}
