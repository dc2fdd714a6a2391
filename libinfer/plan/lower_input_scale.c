/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of a convolution's input (kernels/input_scale.h).
 *
 * Where a product of an image with one number an image and channel is read by a
 * convolution alone, as behind squeeze-and-excite, its node is lowered to the
 * image as it is, and the factors are kept beside it.  The convolution takes
 * them along if its backend has a row that does; otherwise it makes the product
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

/* Which input is the image, the other being N, C and ones; -1 where the node is
 * no such product. */
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

/* Elements from which a GPU's convolutions gain: below, the product comes from
 * the L2 cache while its neighbours start and end, and factors would make the
 * convolution wait longer (EfficientNet-B0 on an H200).  On a CPU only the
 * reference knows factors, whose bits stay those of the nodes one by one. */
#define GPU_LEAST (INT64_C(1) << 21)

static bool is_worth_it(const struct lower *l, const struct view *image)
{
    return !l->plan->config->device->ops->host_memory &&
           kern_tensor_count(&image->t) >= GPU_LEAST;
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
    v->factors = *lower_in(l, 1 - image);
    l->plan->buffers.at[v->factors.buffer].pending++;
    return true;
}

/* Whether the backend that comes first takes the convolution with them; its
 * bias will be there in single precision, as plan_emit() makes it. */
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
    e->in[INPUT_SCALE_IN] = v->factors;
    e->p.n_in = INPUT_SCALE_IN + 1;
    if (!may || !takes(l, e)) {
        memset(&e->in[INPUT_SCALE_IN], 0, sizeof e->in[INPUT_SCALE_IN]);
        e->p.n_in = n_in;
        rc = make_product(l, &e->in[0]);
    }
    l->plan->buffers.at[v->factors.buffer].pending--;
    return rc;
}
