/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose variants are tiles. */
#include "kernels/cuda/conv/tiles.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"

int conv_rank(const struct conv_family *f, const struct kern_problem *p,
              const struct kern_device *d, struct infer_error *why,
              struct conv_ranking *out)
{
    out->n = out->variants = 0;
    for (int i = 0; i < f->n; i++) {
        const struct conv_tile *tile = &f->tile[i];

        if (tile->supports(p, d, why) < 0)
            continue;
        const double us =
            tile->estimate ? tile->estimate(p, d, tile->percent) : 0;
        const double rank = tile->rank ? tile->rank(p, d, tile->percent) : us;
        int at = out->n++;
        for (; at > 0 && out->at[at - 1].rank > rank; at--)
            out->at[at] = out->at[at - 1];
        out->at[at].tile = tile;
        out->at[at].rank = rank;
        out->at[at].us = us;
        out->at[at].count = tile->variants ? tile->variants(p, d, why) : 1;
    }
    for (int i = 0; i < out->n; i++) {
        out->at[i].first = out->variants;
        out->variants += out->at[i].count;
    }
    return out->n > 0 ? 0 : INFER_EUNSUPPORTED;
}

int conv_family_supports(const struct conv_family *f,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    int rc = INFER_EUNSUPPORTED;

    for (int i = 0; i < f->n && rc < 0; i++)
        rc = f->tile[i].supports(p, d, why);
    return rc;
}

/* The tile of a variant, and which of the tile's own variants it is. */
static const struct conv_tile *tile_of(const struct conv_ranking *r,
                                       int variant, int *own, double *us)
{
    for (int i = 0; i < r->n; i++)
        if (variant < r->at[i].first + r->at[i].count) {
            *own = variant - r->at[i].first;
            *us = r->at[i].us;
            return r->at[i].tile;
        }
    return NULL;
}

double conv_family_estimate(const struct conv_family *f,
                            const struct kern_problem *p,
                            const struct kern_device *d, int variant)
{
    struct conv_ranking r;
    double us = 1e30;
    int own;

    if (conv_rank(f, p, d, NULL, &r) == 0)
        (void)tile_of(&r, variant, &own, &us);
    return us;
}

int conv_family_variants(const struct conv_family *f,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *err)
{
    struct conv_ranking r;
    const int rc = conv_rank(f, p, d, err, &r);

    return rc < 0 ? rc : r.variants;
}

int conv_family_prepare(const struct conv_family *f, struct kern_exec *e,
                        const struct kern_device *d, struct infer_error *err)
{
    const int variant = e->variant;
    char own_name[KERN_VARIANT_NAME];
    struct conv_ranking r;
    double us;
    int own, rc = conv_rank(f, &e->problem, d, err, &r);
    const struct conv_tile *tile =
        rc < 0 ? NULL : tile_of(&r, variant, &own, &us);

    if (rc < 0)
        return rc;
    if (!tile)
        return error_set(err, INFER_EUNSUPPORTED, "%s has no variant %d",
                         e->row->name, variant);
    e->variant = own;
    rc = tile->prepare(e, d, err);
    e->variant = variant;
    if (rc < 0)
        return rc;
    ((struct conv_tiled *)e->state)->tile = tile;
    memcpy(own_name, e->variant_name, sizeof own_name);
    snprintf(e->variant_name, sizeof e->variant_name, "%.31s%s%.31s",
             tile->name, own_name[0] ? " " : "", own_name);
    return 0;
}

int conv_family_pack(const struct kern_exec *e, int i, const void *src,
                     void *dst, struct infer_error *err)
{
    return ((const struct conv_tiled *)e->state)
        ->tile->pack(e, i, src, dst, err);
}

int conv_family_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    return ((const struct conv_tiled *)e->state)->tile->launch(e, args, err);
}
