/* SPDX-License-Identifier: Apache-2.0 */
/* A family of tiles: one row of the kernel table, whose variants are its tiles.
 * The list of tiles stands once, in the family's file; the variants are those
 * that take the problem, the lowest estimate first. */
#ifndef KERNELS_CUDA_CONV_TILES_H
#define KERNELS_CUDA_CONV_TILES_H

#include "kernels/kern.h"

#define CONV_MAX_TILES 16

/* As the functions of a row (kern.h), for one tile.  Its prepare() finds in
 * e->variant one of the tile's own variants, may name it in e->variant_name,
 * and leaves a state that begins with a struct conv_tiled. */
struct conv_tile {
    const char *name;
    int percent; /* of the device's peak that the tile reaches */
    int (*supports)(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why);
    /* Microseconds; NULL in families without estimates. */
    double (*estimate)(const struct kern_problem *p,
                       const struct kern_device *d, int percent);
    /* Optional.  Orders the tiles of a family, the lowest first; NULL: the
     * estimate does. */
    double (*rank)(const struct kern_problem *p, const struct kern_device *d,
                   int percent);
    /* Sizes of a cluster, say; NULL if the tile has but one variant. */
    int (*variants)(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err);
    int (*prepare)(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err);
    int (*pack)(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err);
    int (*launch)(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err);
};

struct conv_family {
    const struct conv_tile *tile;
    int n;
};

/* The first member of each tile's state. */
struct conv_tiled {
    const struct conv_tile *tile;
    int line; /* elements of packed weights that a row of the filter takes; 0:
               * the layout of conv_pack_rows() */
    int channels; /* that a position of the filter takes there; 0: those of a
                   * group, or in wgmma rows the pitch divided by positions */
};

/* The tiles that take a problem, the lowest rank first; of equal ones the first
 * of the list. */
struct conv_ranking {
    struct {
        const struct conv_tile *tile;
        double rank, us;
        int first, count; /* its variants, of the family's */
    } at[CONV_MAX_TILES];
    int n, variants;
};

/* 0, or INFER_EUNSUPPORTED with the last tile's reason. */
int conv_rank(const struct conv_family *f, const struct kern_problem *p,
              const struct kern_device *d, struct infer_error *why,
              struct conv_ranking *out);

/* The functions of the family's row. */
int conv_family_supports(const struct conv_family *f,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why);
double conv_family_estimate(const struct conv_family *f,
                            const struct kern_problem *p,
                            const struct kern_device *d, int variant);
int conv_family_variants(const struct conv_family *f,
                         const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *err);
int conv_family_prepare(const struct conv_family *f, struct kern_exec *e,
                        const struct kern_device *d, struct infer_error *err);
int conv_family_pack(const struct kern_exec *e, int i, const void *src,
                     void *dst, struct infer_error *err);
int conv_family_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err);

/* The families of fprop on tensor cores; each file holds its list. */
extern const struct conv_family conv2d_fprop_nhwc_f16_cuda_igemm_sm80_tiles;
extern const struct conv_family conv2d_fprop_nhwc_bf16_cuda_igemm_sm80_tiles;
extern const struct conv_family conv2d_fprop_nhwc_tf32_cuda_igemm_sm80_tiles;
extern const struct conv_family
    conv2d_fprop_nhwc_f32_cuda_igemm_tf32x3_sm80_tiles;
extern const struct conv_family conv2d_fprop_nhwc_f16_cuda_wgmma_sm90_tiles;
extern const struct conv_family conv2d_fprop_nhwc_bf16_cuda_wgmma_sm90_tiles;
extern const struct conv_family conv2d_fprop_nhwc_tf32_cuda_wgmma_sm90_tiles;
extern const struct conv_family
    conv2d_fprop_nhwc_f16_cuda_stem_wgmma_sm90_tiles;
extern const struct conv_family
    conv2d_fprop_nhwc_bf16_cuda_stem_wgmma_sm90_tiles;

#endif
