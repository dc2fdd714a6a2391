/* SPDX-License-Identifier: Apache-2.0 */
/* Caffe: the layers of SSD detectors. */
#include <math.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"

#define MAX_SIZES  64
#define MAX_RATIOS (2 * MAX_SIZES + 1)

struct prior_box {
    float min[MAX_SIZES], max[MAX_SIZES], ratio[MAX_RATIOS], variance[4];
    int n_min, n_max, n_ratios;
    int64_t layer[2], image[2]; /* rows, columns */
    float step[2], offset;
    bool clip;
};

/* 1, and every ratio and its inverse that is not there yet. */
static void add_ratio(struct prior_box *p, float ratio)
{
    int i;

    for (i = 0; i < p->n_ratios; i++)
        if (fabsf(p->ratio[i] - ratio) < 1e-6f)
            return;
    p->ratio[p->n_ratios++] = ratio;
}

static void read_ratios(struct caffe *c, struct prior_box *p)
{
    const bool flip = caffe_bool(c, c->param, "flip", true);
    float stated[MAX_SIZES];
    const int n = caffe_floats(c, c->param, "aspect_ratio", MAX_SIZES, stated);
    int i;

    add_ratio(p, 1);
    for (i = 0; i < n; i++) {
        const float r = stated[i];
        int before = p->n_ratios;

        if (!(r > 0)) {
            layers_fail(&c->b, INFER_EFORMAT, "aspect_ratio %g", (double)r);
            return;
        }
        add_ratio(p, r);
        if (flip && p->n_ratios > before)
            p->ratio[p->n_ratios++] = 1 / r;
    }
}

static void read_sizes(struct caffe *c, struct prior_box *p,
                       const struct caffe_ends *ends)
{
    static const char *const image[] = {"img_h", "img_w"};
    static const char *const step[] = {"step_h", "step_w"};
    const int64_t size =
        caffe_int(c, c->param, "img_size", 0, CAFFE_MAX_STEP, 0);
    const float both = caffe_float(c, c->param, "step", 0);
    int i;

    for (i = 0; i < 2; i++) {
        p->layer[i] = layers_known(&c->b, ends->in[0], 2 + i);
        p->image[i] = caffe_int(c, c->param, image[i], 0, CAFFE_MAX_STEP, size);
        if (p->image[i] == 0)
            p->image[i] = layers_known(&c->b, ends->in[1], 2 + i);
        p->step[i] = caffe_float(c, c->param, step[i], both);
        if (c->b.status == 0 && !(p->step[i] > 0))
            p->step[i] = (float)p->image[i] / (float)p->layer[i];
    }
}

static void read_prior_box(struct caffe *c, struct prior_box *p,
                           const struct caffe_ends *ends)
{
    int n, i;

    p->n_min = caffe_floats(c, c->param, "min_size", MAX_SIZES, p->min);
    p->n_max = caffe_floats(c, c->param, "max_size", MAX_SIZES, p->max);
    p->variance[0] = 0.1f;
    n = caffe_floats(c, c->param, "variance", 4, p->variance);
    for (i = 1; n < 2 && i < 4; i++)
        p->variance[i] = p->variance[0];
    p->offset = caffe_float(c, c->param, "offset", 0.5f);
    p->clip = caffe_bool(c, c->param, "clip", false);
    read_ratios(c, p);
    read_sizes(c, p, ends);
    if (c->b.status == 0 &&
        (p->n_min < 1 || (p->n_max > 0 && p->n_max != p->n_min) || n == 2 ||
         n == 3))
        layers_fail(&c->b, INFER_EFORMAT,
                    "%d min_size, %d max_size, %d variance", p->n_min, p->n_max,
                    n);
}

static float *put_box(const struct prior_box *p, float *out, float x, float y,
                      float w, float h)
{
    const float image[2] = {(float)p->image[1], (float)p->image[0]};
    const float corner[4] = {(x - w / 2) / image[0], (y - h / 2) / image[1],
                             (x + w / 2) / image[0], (y + h / 2) / image[1]};
    int i;

    for (i = 0; i < 4; i++)
        out[i] = p->clip ? fminf(fmaxf(corner[i], 0), 1) : corner[i];
    return out + 4;
}

/* The boxes at one pixel of the layer. */
static float *put_boxes(const struct prior_box *p, float *out, int row, int col)
{
    const float x = ((float)col + p->offset) * p->step[1];
    const float y = ((float)row + p->offset) * p->step[0];
    int s, r;

    for (s = 0; s < p->n_min; s++) {
        const float min = truncf(p->min[s]); /* Caffe's are integers */

        out = put_box(p, out, x, y, min, min);
        if (p->n_max > 0) {
            const float mean = sqrtf(min * truncf(p->max[s]));

            out = put_box(p, out, x, y, mean, mean);
        }
        for (r = 1; r < p->n_ratios; r++) {
            const float root = sqrtf(p->ratio[r]);

            out = put_box(p, out, x, y, min * root, min / root);
        }
    }
    return out;
}

/* Boxes and their variances: a constant, 1 x 2 x 4 numbers a box. */
void caffe_prior_box(struct caffe *c, struct caffe_ends *ends, int arg)
{
    struct prior_box p = {.n_min = 0};
    int64_t dim[3] = {1, 2, 0}, counts[3];
    struct constant *made;
    float *out;
    int row, col, i;

    (void)arg;
    read_prior_box(c, &p, ends);
    if (c->b.status < 0)
        return;
    counts[0] = p.layer[0];
    counts[1] = p.layer[1];
    counts[2] = 4 * ((int64_t)p.n_min * p.n_ratios + p.n_max);
    if (!checked_count(3, counts, &dim[2]))
        dim[2] = INT64_MAX; /* layers_new() refuses it */
    made = layers_new(&c->b, INFER_F32, 3, dim);
    if (made == NULL)
        return;
    out = (float *)(void *)made->data;
    for (row = 0; row < p.layer[0]; row++)
        for (col = 0; col < p.layer[1]; col++)
            out = put_boxes(&p, out, row, col);
    for (i = 0; i < dim[2]; i++)
        out[i] = p.variance[i % 4];
    ends->out[0] = layers_constant(&c->b, "boxes", made);
}

/* Which boxes are kept is decided by whoever reads the outputs: locations,
 * confidences and prior boxes. */
void caffe_detection(struct caffe *c, struct caffe_ends *ends, int arg)
{
    int i = -1;

    (void)ends;
    (void)arg;
    while ((i = caffe_find(&c->text, c->layer, "bottom", i)) >= 0)
        c->top[layers_map_find(&c->blobs, c->text.field[i].value)].used = false;
    if (weights_dict_strip(&c->import->dict, c->b.name, 0,
                           "its inputs are outputs; decode the boxes "
                           "yourself") < 0)
        layers_no_room(&c->b);
}
