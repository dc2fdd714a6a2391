/* SPDX-License-Identifier: Apache-2.0 */
/* The preprocessing that a conversion stores in the model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/task/task.h"
#include "tools/preprocess.h"
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
