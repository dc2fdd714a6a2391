/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against central differences in double precision. */
#include "tools/train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/train/data/random.h"

/* Step of the central difference.  Small enough to cross few corners of ReLU or
 * max, large enough that a loss near 2, known to 2e-16, gives 1e-9 accuracy.
 * Smaller gradients are compared relative to FLOOR. */
#define STEP  1e-6
#define FLOOR 1e-5

struct checker {
    struct net *n;
    double *weight, *grad; /* flat, on the host */
    const void *x;
    const int32_t *label;
    uint64_t seed;
    int from; /* launch */
    struct infer_error *err;
};

/* Mean loss of the batch with the host's weights; with gradients, or by a
 * forward pass from launch c->from on. */
static int loss_of(struct checker *c, bool gradients, double *out)
{
    struct net_metrics m;
    int rc = net_write_flat(c->n, NET_WEIGHTS, c->weight, c->err);

    if (rc == 0)
        rc = net_begin(c->n, c->err);
    if (rc == 0)
        rc = net_put_batch(c->n, c->x, c->label, c->err);
    if (rc == 0)
        rc = net_put_control(c->n, 0, c->seed, 0, c->err);
    if (rc == 0)
        rc = gradients ? net_train(c->n, true, c->err)
                       : net_train_loss(c->n, c->from, c->err);
    if (rc == 0)
        rc = net_read_metrics(c->n, c->err, &m);
    if (rc == 0)
        rc = net_end(c->n, c->err);
    if (rc == 0)
        *out = m.loss / (double)c->n->options.batch;
    return rc;
}

/* Relative error of one element with one step. */
static int error_of(struct checker *c, int64_t at, double step, double *out)
{
    const double w = c->weight[at], g = c->grad[at];
    double up = 0, down = 0, numeric, size;
    int rc;

    c->weight[at] = w + step;
    rc = loss_of(c, false, &up);
    c->weight[at] = w - step;
    if (rc == 0)
        rc = loss_of(c, false, &down);
    c->weight[at] = w;
    numeric = (up - down) / (2 * step);
    size = fmax(fmax(fabs(g), fabs(numeric)), FLOOR);
    *out = fabs(g - numeric) / size;
    /* A NaN is the largest error there is. */
    if (isnan(*out))
        *out = INFINITY;
    return rc;
}

/* A corner within the step spoils the quotient, but rarely also that of a step
 * a tenth as long; a wrong gradient fails with both. */
static int check_element(struct checker *c, int param, int64_t element,
                         struct gradient_check *out)
{
    const struct net_param *p = &c->n->param[param];
    double error = 0, again = 0;
    int rc = error_of(c, p->offset + element, STEP, &error);

    if (rc == 0 && error > 1e-5) {
        rc = error_of(c, p->offset + element, STEP / 10, &again);
        error = fmin(error, again);
    }
    if (rc < 0)
        return rc;
    out->checked++;
    if (error > out->worst || out->checked == 1) {
        out->worst = error;
        snprintf(out->where, sizeof(out->where), "%s, element %lld", p->name,
                 (long long)element);
    }
    return 0;
}

/* Checks random elements of one parameter. */
static int check_param(struct checker *c, int param, int each,
                       struct gradient_check *out)
{
    const struct net_param *p = &c->n->param[param];
    struct random r = random_at(c->seed, RANDOM_SHUFFLE, (uint64_t)param);
    int rc = 0;

    for (int k = 0; rc == 0 && k < each && k < p->count; k++)
        rc = check_element(c, param,
                           p->count <= each
                               ? k
                               : (int64_t)random_below(&r, (uint64_t)p->count),
                           out);
    return rc;
}

/* Parameters in reverse order of the forward pass: launches before the first
 * reader of a parameter need not run again. */
static int check_all(struct checker *c, int each, struct gradient_check *out)
{
    double loss;
    int rc = loss_of(c, true, &loss);

    if (rc == 0)
        rc = net_read_flat(c->n, NET_GRADS, c->grad, c->err);
    for (int at = c->n->list[NET_LIST_TRAIN].steps.n - 1; at >= 0; at--)
        for (int i = 0; rc == 0 && i < c->n->n_params; i++) {
            if (!net_is_trained(c->n, i) || net_first_use(c->n, i) != at)
                continue;
            c->from = c->n->options.keep ? at : 0;
            rc = check_param(c, i, each, out);
        }
    return rc;
}

int gradient_check(struct net *n, const void *x, const int32_t *label, int each,
                   uint64_t seed, struct infer_error *err,
                   struct gradient_check *out)
{
    struct checker c = {.n = n,
                        .x = x,
                        .label = label,
                        .seed = seed,
                        .err = err,
                        .weight = malloc(net_flat_bytes(n, NET_WEIGHTS)),
                        .grad = malloc(net_flat_bytes(n, NET_GRADS))};
    int rc = 0;

    memset(out, 0, sizeof(*out));
    if (!c.weight || !c.grad)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        rc = net_read_flat(n, NET_WEIGHTS, c.weight, err);
    if (rc == 0)
        rc = check_all(&c, each, out);
    if (rc == 0)
        rc = net_write_flat(n, NET_WEIGHTS, c.weight, err);
    free(c.weight);
    free(c.grad);
    return rc;
}
