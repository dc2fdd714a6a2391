/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose variants are tiles. */
#include "kernels/cuda/conv/tiles.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/rows.h"

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

static bool is_named(const struct conv_tile *tile, const char *part)
{
    return strstr(tile->name, part) != NULL;
}

static bool holds_named(const struct conv_ranking *r, const char *part)
{
    for (int i = 0; i < r->n; i++)
        if (is_named(r->at[i].tile, part))
            return true;
    return false;
}

/* True if the ends of the tiles may give an output other bits: SiLU and GELU
 * share a reciprocal between two neighbours (activation.cuh), which tiles pair
 * alike only where channels are whole vectors. */
static bool ends_differ(const struct conv_family *f,
                        const struct kern_problem *p)
{
    const enum kern_unary_kind act = p->epilogue.act.kind;
    const struct kern_tensor *y = &p->out[0];
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;

    return f->n > 1 && (act == KERN_SILU || act == KERN_GELU) &&
           y->dim[channel] % 8 != 0;
}

/* True for a tile of other sums than the family's plain ones (KERN_OTHER_SUMS);
 * own: the name of the tile's own variant.  The depth is cut into parts, as
 * many as fill the device, by tiles of split-K and by clusters.  Of channels
 * that the other tiles pad, a gather adds other terms in one instruction. Sums
 * of integers are exact in any order. */
static bool has_other_sums(const struct conv_ranking *r,
                           const struct kern_row *row,
                           const struct conv_tile *tile, const char *own)
{
    if (row->acc == INFER_I32)
        return false;
    return is_named(tile, "splitk") || is_named(tile, "cluster") ||
           strncmp(own, "cluster", 7) == 0 ||
           (is_named(tile, "gather") && holds_named(r, "padded"));
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
    if (has_other_sums(&r, e->row, tile, own_name) ||
        ends_differ(f, &e->problem))
        e->flags |= KERN_OTHER_SUMS;
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
