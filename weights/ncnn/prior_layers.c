/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: the boxes of SSD, a constant for each size of a picture. */
#include <math.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

#define MAX_SIZES 64

struct prior {
    float min[MAX_SIZES], max[MAX_SIZES], ratio[MAX_SIZES];
    int n_min, n_max, n_ratios;
    int64_t layer[2]; /* columns, rows */
    double image[2], step[2];
    double offset;
    bool flip, clip, centre;
};

static float clipped(const struct prior *p, double x)
{
    return (float)(p->clip ? fmin(fmax(x, 0), 1) : x);
}

static float *put_box(const struct prior *p, float *out, const double *centre,
                      double w, double h)
{
    out[0] = clipped(p, (centre[0] - w / 2) / p->image[0]);
    out[1] = clipped(p, (centre[1] - h / 2) / p->image[1]);
    out[2] = clipped(p, (centre[0] + w / 2) / p->image[0]);
    out[3] = clipped(p, (centre[1] + h / 2) / p->image[1]);
    return out + 4;
}

/* The boxes at one pixel of the layer. */
static float *put_boxes(const struct prior *p, float *out, const double *centre)
{
    for (int k = 0; k < p->n_min; k++) {
        const double min = (double)p->min[k];

        out = put_box(p, out, centre, min, min);
        if (p->n_max > 0) {
            const double both = sqrt(min * (double)p->max[k]);

            out = put_box(p, out, centre, both, both);
        }
        for (int r = 0; r < p->n_ratios; r++) {
            const double root = sqrt((double)p->ratio[r]);

            out = put_box(p, out, centre, min * root, min / root);
            if (p->flip)
                out = put_box(p, out, centre, min / root, min * root);
        }
    }
    return out;
}

static void read_prior(struct ncnn *n, const struct ncnn_ends *ends,
                       struct prior *p)
{
    const bool up = ncnn_int(n, 14, 0, 1, 0) != 0;

    p->n_min = ncnn_floats(n, 0, MAX_SIZES, p->min);
    p->n_max = ncnn_floats(n, 1, MAX_SIZES, p->max);
    p->n_ratios = ncnn_floats(n, 2, MAX_SIZES, p->ratio);
    p->flip = ncnn_int(n, 7, 0, 1, 1) != 0;
    p->clip = ncnn_int(n, 8, 0, 1, 0) != 0;
    p->offset = (double)ncnn_float(n, 13, 0);
    p->centre = ncnn_int(n, 15, 0, 1, 0) != 0;
    for (int i = 0; i < 2; i++) {
        const int size = ncnn_int(n, 9 + i, NCNN_NONE, INT32_MAX, 0);
        const float step = ncnn_float(n, 11 + i, NCNN_NONE);

        p->layer[i] = layers_known(&n->b, ends->in[0], 3 - i);
        if (size == NCNN_NONE && ends->n_in == 2)
            p->image[i] = (double)layers_known(&n->b, ends->in[1], 3 - i);
        else
            p->image[i] = size;
        p->step[i] = (double)step;
        if (step <= NCNN_NONE && n->b.status == 0) {
            p->step[i] = p->image[i] / (double)p->layer[i];
            if (up)
                p->step[i] = ceil(p->step[i]);
        }
    }
    if (n->b.status == 0 &&
        (p->n_min < 1 || (p->n_max > 0 && p->n_max != p->n_min) ||
         !(p->image[0] > 0) || !(p->image[1] > 0)))
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "boxes by %d and %d sizes, or of a picture without size",
                    p->n_min, p->n_max);
}

/* Boxes and their variances: a constant, 2 x 4 numbers a box. */
void ncnn_prior_box(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    float variance[4];
    struct prior p = {.n_min = 0};
    int64_t dim[3] = {1, 2, 0}, counts[3];
    struct constant *made;
    float *out;

    (void)arg;
    if (layers_rank(&n->b, ends->in[0]) != 4) {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "an input that is no picture");
        return;
    }
    for (int i = 0; i < 4; i++)
        variance[i] = ncnn_float(n, 3 + i, i < 2 ? 0.1f : 0.2f);
    read_prior(n, ends, &p);
    if (n->b.status < 0)
        return;
    counts[0] = p.layer[0];
    counts[1] = p.layer[1];
    counts[2] =
        4 * ((int64_t)p.n_min * (1 + p.n_ratios * (p.flip ? 2 : 1)) + p.n_max);
    if (!checked_count(3, counts, &dim[2]))
        dim[2] = INT64_MAX; /* layers_new() refuses it */
    made = layers_new(&n->b, INFER_F32, 3, dim);
    if (made == NULL)
        return;
    out = (float *)(void *)made->data;
    for (int64_t row = 0; row < p.layer[1]; row++)
        for (int64_t col = 0; col < p.layer[0]; col++) {
            const int64_t at[2] = {col, row};
            double centre[2];

            for (int i = 0; i < 2; i++)
                centre[i] = p.offset * (p.step[i] - (p.centre ? 1 : 0)) +
                            (double)at[i] * p.step[i];
            out = put_boxes(&p, out, centre);
        }
    for (int64_t i = 0; i < dim[2]; i++)
        out[i] = variance[i % 4];
    ends->out[0] = layers_constant(&n->b, "boxes", made);
}
