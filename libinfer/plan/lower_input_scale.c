/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scale of a convolution's input (kernels/input_scale.h).
 *
 * A product of an image with one number an image and channel, whose only reader
 * is a convolution, as after squeeze-and-excitation, is deferred: its node is
 * lowered to the image, and the scale is kept with the value.  The convolution
 * fuses the scale if its tier has a row that does, else the product is computed
 * first.
 */
#include <string.h>

#include "kernels/input_scale.h"
#include "libinfer/plan/lower.h"
#include "libinfer/plan/plan_choice.h"

static bool same_dims(const struct view *v, int rank, const int64_t *dim)
{
    return v->t.rank == rank &&
           memcmp(v->t.dim, dim, (size_t)rank * sizeof dim[0]) == 0;
}

/* The node's only reader is a convolution of this value. */
static bool feeds_conv(const struct lower *l)
{
    const int reader = lower_only_reader(l, l->node->out[0]);

    return reader >= 0 && l->plan->g->node[reader].op == GRAPH_CONV;
}

/* The index of the image among the inputs, the other being N, C and ones; -1 if
 * the node is no such product. */
static int image_of(const struct lower *l)
{
    const struct graph_value *out = lower_out(l, 0);
    const struct view *in[2] = {lower_in(l, 0), lower_in(l, 1)};
    int64_t ones[KERN_MAX_RANK];
    int i;

    if (l->node->attr.binary.kind != KERN_MUL || l->node->n_in != 2 ||
        l->node->epilogue.act.kind != KERN_IDENTITY || out->rank < 3 ||
        in[0]->t.dtype != in[1]->t.dtype)
        return -1;
    for (i = 0; i < out->rank; i++)
        ones[i] = i < 2 ? out->dim[i] : 1;
    for (i = 0; i < 2; i++)
        if (same_dims(in[i], out->rank, out->dim) &&
            same_dims(in[1 - i], out->rank, ones))
            return i;
    return -1;
}

/* Smallest image (elements) that a GPU gains from fusing: a smaller product
 * comes from the L2 cache while its neighbours start and end, and the scale
 * delays the convolution (EfficientNet-B0 on an H200). On a CPU only the
 * reference fuses, and its bits must be those of separate nodes. */
#define GPU_LEAST (1 << 21)

static bool is_worth_it(const struct lower *l, const struct view *image)
{
    return !l->plan->config->device->ops->host_memory &&
           plan_count(l->plan, &image->t) >= GPU_LEAST;
}

bool lower_defer_scale(const struct lower *l)
{
    const int image = image_of(l);
    struct plan_value *v = &l->plan->value[l->node->out[0]];

    if (image < 0 || l->plan->config->keep_tensors ||
        !is_worth_it(l, lower_in(l, image)) || !feeds_conv(l))
        return false;
    lower_set(l, 0, lower_in(l, image));
    v->has_input_scale = true;
    v->input_scale = *lower_in(l, 1 - image);
    l->plan->buffers.at[v->input_scale.buffer].pending++;
    return true;
}

/* True if the first tier takes the convolution with the scale. Its vectors
 * count as single precision, as plan_emit() makes them. */
static bool takes(const struct lower *l, const struct plan_emit *e)
{
    struct plan_emit wide;
    struct plan_choice c;
    int i;

    memcpy(&wide, e, sizeof wide);
    for (i = 0; i < wide.p.n_in; i++)
        if (kern_op_is_vector(wide.p.op, i) && wide.in[i].t.dtype != INFER_NONE)
            wide.in[i].t.dtype = INFER_F32;
    return plan_find(l->plan, &wide, l->plan->config->tiers.tier[0], false,
                     NULL, &c);
}

/* The product as a step of its own. */
static int make_product(const struct lower *l, struct view *out)
{
    const int node = l->plan->g->value[l->node->in[0]].producer;
    const struct lower product = {l->plan, &l->plan->g->node[node], node,
                                  l->err};
    struct plan_emit e;
    const int rc = lower_begin(&product, &e);

    return rc < 0 ? rc : plan_emit(l->plan, node, &e, l->err, out);
}

int lower_fuse_input_scale(const struct lower *l, bool may, struct plan_emit *e)
{
    const struct plan_value *v = &l->plan->value[l->node->in[0]];
    const int n_in = e->p.n_in;
    int rc = 0;

    if (!v->has_input_scale)
        return 0;
    e->in[INPUT_SCALE_IN] = v->input_scale;
    e->p.n_in = INPUT_SCALE_IN + 1;
    if (!may || !takes(l, e)) {
        memset(&e->in[INPUT_SCALE_IN], 0, sizeof e->in[INPUT_SCALE_IN]);
        e->p.n_in = n_in;
        rc = make_product(l, &e->in[0]);
    }
    l->plan->buffers.at[v->input_scale.buffer].pending--;
    return rc;
}
