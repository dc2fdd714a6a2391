/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a row whose variants are the tiles of a list (tiles.h). */
#ifndef KERNELS_CUDA_CONV_FAMILY_CUH
#define KERNELS_CUDA_CONV_FAMILY_CUH

extern "C" {
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/tiles.h"
#include "kernels/cuda/cuda_rt.h"
}

template <const struct conv_family *F>
static int family_supports(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *why)
{
    return conv_family_supports(F, p, d, why);
}

template <const struct conv_family *F>
static double family_estimate(const struct kern_problem *p,
                              const struct kern_device *d)
{
    return conv_family_estimate(F, p, d, 0);
}

template <const struct conv_family *F>
static int family_variants(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *err)
{
    return conv_family_variants(F, p, d, err);
}

template <const struct conv_family *F>
static double family_estimate_variant(const struct kern_problem *p,
                                      const struct kern_device *d, int variant)
{
    return conv_family_estimate(F, p, d, variant);
}

template <const struct conv_family *F>
static int family_prepare(struct kern_exec *e, const struct kern_device *d,
                          struct infer_error *err)
{
    return conv_family_prepare(F, e, d, err);
}

#define CONV_FAMILY_TILES(symbol, ...)                                         \
    extern "C" const struct conv_family symbol##_tiles;                        \
    const struct conv_family symbol##_tiles = {                                \
        __VA_ARGS__, sizeof(__VA_ARGS__) / sizeof(struct conv_tile)};

#define CONV_FAMILY_ROW(symbol, estimate_row, estimate_tile)                   \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = family_supports<&symbol##_tiles>,                          \
        .estimate = estimate_row,                                              \
        .variants = family_variants<&symbol##_tiles>,                          \
        .estimate_variant = estimate_tile,                                     \
        .prepare = family_prepare<&symbol##_tiles>,                            \
        .pack = conv_family_pack,                                              \
        .launch = conv_family_launch,                                          \
        .release = cuda_state_release,                                         \
    };

/* The row `symbol` of a list of tiles.  The tuner measures those whose estimate
 * is near the best. */
#define CONV_FAMILY(symbol, ...)                                               \
    CONV_FAMILY_TILES(symbol, __VA_ARGS__)                                     \
    CONV_FAMILY_ROW(symbol, family_estimate<&symbol##_tiles>,                  \
                    family_estimate_variant<&symbol##_tiles>)

/* Of few tiles, all of which the tuner measures. */
#define CONV_FAMILY_OF_FEW(symbol, ...)                                        \
    CONV_FAMILY_TILES(symbol, __VA_ARGS__)                                     \
    CONV_FAMILY_ROW(symbol, family_estimate<&symbol##_tiles>, NULL)

#endif
