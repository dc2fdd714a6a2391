/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of chains: two convolutions as one operation. */
#include <string.h>

#include "kernels/chain/chain.h"
#include "tests/checkkern/checkkern.h"

/* A chain in two dimensions. */
struct chain_case {
    int n, c, h, w, m, k, groups; /* m: middle channels */
    int r, stride, pad[4];        /* top, left, bottom, right */
};

static const struct chain_case cases[] = {
    /* MobileNet-v2: the first block, a strided one, the last. */
    {1, 32, 112, 112, 32, 16, 32, 3, 1, {1, 1, 1, 1}},
    {1, 96, 112, 112, 96, 24, 96, 3, 2, {1, 1, 1, 1}},
    {2, 144, 56, 56, 144, 24, 144, 3, 1, {1, 1, 1, 1}},
    {3, 192, 28, 28, 192, 64, 192, 3, 2, {1, 1, 1, 1}},
    {2, 576, 14, 14, 576, 96, 576, 3, 1, {1, 1, 1, 1}},
    {5, 960, 7, 7, 960, 320, 960, 3, 1, {1, 1, 1, 1}},
    {1, 240, 28, 28, 240, 40, 240, 5, 1, {2, 2, 2, 2}},
    {2, 72, 30, 31, 72, 40, 72, 5, 2, {2, 2, 2, 2}},
    /* Around tiles: half of 16 channels, outputs in no eights, pads on one
     * side, rows that are cut. */
    {1, 8, 5, 7, 8, 8, 8, 3, 1, {1, 1, 1, 1}},
    {2, 24, 9, 11, 24, 13, 24, 3, 1, {1, 1, 1, 1}},
    {3, 40, 12, 14, 40, 33, 40, 3, 2, {0, 0, 1, 1}},
    {2, 56, 10, 9, 56, 100, 56, 5, 2, {1, 2, 2, 1}},
    {1, 16, 3, 131, 16, 160, 16, 3, 1, {1, 1, 1, 1}},
    {7, 32, 4, 3, 32, 200, 32, 5, 1, {4, 3, 4, 4}},
    {30, 16, 2, 2, 16, 24, 16, 3, 1, {1, 1, 1, 1}},
    /* Residual bottlenecks, and a 1x1 before a 1x1. */
    {1, 16, 14, 14, 16, 64, 1, 3, 1, {1, 1, 1, 1}},
    {2, 12, 9, 9, 24, 40, 2, 3, 2, {1, 1, 1, 1}},
    {2, 24, 7, 8, 40, 16, 1, 1, 1, {0, 0, 0, 0}},
    {2, 64, 12, 13, 64, 256, 1, 3, 1, {1, 1, 1, 1}},
    {1, 128, 21, 20, 128, 192, 1, 3, 2, {1, 1, 1, 1}},
    {3, 72, 9, 10, 88, 136, 1, 3, 1, {1, 1, 1, 1}},
    /* More than two tiles of 128 pixels for each of 132 multiprocessors. */
    {1, 8, 190, 190, 16, 72, 1, 3, 1, {1, 1, 1, 1}},
    {1, 8, 190, 190, 72, 72, 1, 1, 1, {0, 0, 0, 0}},
};

int chain_fixed_count(void)
{
    return COUNT(cases);
}

static void random_channels(struct chain_case *s, struct rng *r)
{
    const bool many = rng_chance(r, 20);

    s->c = 8 * (int)rng_range(r, 1, many ? 40 : 14);
    s->m = s->groups = s->c;
    if (rng_chance(r, 40)) { /* one group */
        s->groups = 1;
        s->m = 8 * (int)rng_range(r, 1, 17);
    } else if (rng_chance(r, 20)) { /* what few rows take */
        s->groups = (int)rng_range(r, 1, 3);
        s->c = s->groups * (int)rng_range(r, 1, 9);
        s->m = s->groups * (int)rng_range(r, 1, 9);
    }
    s->k = rng_chance(r, 60)   ? 8 * (int)rng_range(r, 1, 8)
           : rng_chance(r, 50) ? (int)rng_range(r, 1, 60)
                               : 8 * (int)rng_range(r, 12, 41);
}

static void random_case(struct chain_case *s, struct rng *r)
{
    const bool wide = rng_chance(r, 10), tiny = rng_chance(r, 20);
    int extent[2];

    memset(s, 0, sizeof *s);
    random_channels(s, r);
    s->n = (int)rng_range(r, 1, tiny ? 12 : 3);
    s->r = rng_chance(r, 75) ? 3 : rng_chance(r, 80) ? 5 : 1;
    s->stride = rng_chance(r, 60) ? 1 : 2;
    for (int i = 0; i < 4; i++)
        s->pad[i] = rng_chance(r, 80) ? s->r / 2 : (int)rng_range(r, 0, s->r);
    for (int i = 0; i < 2; i++) {
        extent[i] = (int)rng_range(r, 1, tiny ? 5 : 17);
        if (extent[i] + s->pad[i] + s->pad[i + 2] < s->r)
            extent[i] = s->r;
    }
    s->h = extent[0];
    s->w = wide ? extent[1] + 100 : extent[1];
}

void make_chain(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    struct kern_conv *a = &p->attr.chain.conv;
    struct chain_case s;

    if (k < COUNT(cases))
        s = cases[k];
    else
        random_case(&s, &m->rng);
    const int high = (s.h + s.pad[0] + s.pad[2] - s.r) / s.stride + 1;
    const int wide = (s.w + s.pad[1] + s.pad[3] - s.r) / s.stride + 1;
    const struct dims x = {4, {s.n, s.c, s.h, s.w}};
    const struct dims y = {4, {s.n, s.k, high, wide}};
    const int64_t w[4] = {s.m, s.c / s.groups, s.r, s.r};
    const int64_t w2[4] = {s.k, s.m, 1, 1};

    a->groups = s.groups;
    for (int i = 0; i < 2; i++) {
        a->stride[i] = s.stride;
        a->dilation[i] = 1;
        a->pad_begin[i] = s.pad[i];
        a->pad_end[i] = s.pad[i + 2];
    }
    p->n_in = CHAIN_BIAS2 + 1;
    p->in[CHAIN_X] = make_in(m, &x);
    p->in[CHAIN_W] = make_weights(m, 4, w);
    p->in[CHAIN_W2] = make_weights(m, 4, w2);
    if (rng_chance(&m->rng, 80))
        p->in[CHAIN_BIAS] = make_vector(m, s.m);
    if (rng_chance(&m->rng, 80))
        p->in[CHAIN_BIAS2] = make_vector(m, s.k);
    p->out[0] = make_out(m, &y);
    p->attr.chain.act = make_activation(&m->rng);
    make_epilogue(m);
    if (k < COUNT(cases)) { /* what networks have */
        p->attr.chain.act = (struct kern_unary){k % 2 ? KERN_CLIP : KERN_RELU,
                                                0, k % 2 ? 6.0f : 0};
        p->epilogue.act = (struct kern_unary){KERN_IDENTITY, 0, 0};
    }
}
