/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps (TMA descriptors). */
#include "kernels/cuda/wgmma/tensor_map.h"

#include "kernels/cuda/cuda_rt.h"
#include "kernels/cuda/wgmma/tensor_map_groups.h"

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t,
                                 void *, const cuuint64_t *, const cuuint64_t *,
                                 const cuuint32_t *, const cuuint32_t *,
                                 CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill);
typedef CUresult (*encode_im2col)(CUtensorMap *, CUtensorMapDataType,
                                  cuuint32_t, void *, const cuuint64_t *,
                                  const cuuint64_t *, const int *, const int *,
                                  cuuint32_t, cuuint32_t, const cuuint32_t *,
                                  CUtensorMapInterleave, CUtensorMapSwizzle,
                                  CUtensorMapL2promotion,
                                  CUtensorMapFloatOOBfill);

/* Version of the driver's interface that brought these functions. */
#define DRIVER_VERSION 12000

/* Bytes of a row of a box. */
#define ROW 128

/* The runtime keeps a table, so that asking again is cheap. */
static int find(const char *name, void *out, struct infer_error *err)
{
    enum cudaDriverEntryPointQueryResult found;

    CUDA_TRY(err, cudaGetDriverEntryPointByVersion(name, (void **)out,
                                                   DRIVER_VERSION,
                                                   cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
        return error_set(err, INFER_EDEVICE, "the driver has no %s", name);
    return 0;
}

static CUtensorMapDataType element(enum tensor_map_type type)
{
    switch (type) {
    case TENSOR_MAP_F16:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TENSOR_MAP_BF16:
        return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TENSOR_MAP_F32:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case TENSOR_MAP_BYTES:
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case TENSOR_MAP_TF32:
        break;
    }
    return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
}

static cuuint64_t bytes_of(enum tensor_map_type type)
{
    if (type == TENSOR_MAP_BYTES)
        return 1;
    return type == TENSOR_MAP_F16 || type == TENSOR_MAP_BF16 ? 2 : 4;
}

static int result(CUresult code, const char *what, struct infer_error *err)
{
    if (code == CUDA_SUCCESS)
        return 0;
    return error_set(err, INFER_EDEVICE, "%s: the driver's error %d", what,
                     (int)code);
}

/* A tiled map of `rank` dimensions, at most 3. */
static int encode_boxes(CUtensorMap *out, CUtensorMapDataType type, int rank,
                        const void *base, const cuuint64_t *size,
                        const cuuint64_t *stride, const cuuint32_t *box,
                        CUtensorMapSwizzle swizzle, struct infer_error *err)
{
    const cuuint32_t step[3] = {1, 1, 1};
    encode_tiled encode;
    const int rc = find("cuTensorMapEncodeTiled", &encode, err);

    if (rc < 0)
        return rc;
    return result(encode(out, type, (cuuint32_t)rank, (void *)(uintptr_t)base,
                         size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                  "cuTensorMapEncodeTiled", err);
}

int tensor_map_matrix(CUtensorMap *out, enum tensor_map_type type,
                      const void *base, int rows, int columns, int64_t pitch,
                      int box_rows, struct infer_error *err)
{
    const cuuint64_t bytes = bytes_of(type);
    const cuuint64_t size[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    const cuuint64_t stride[1] = {(cuuint64_t)pitch * bytes};
    const cuuint32_t box[2] = {(cuuint32_t)(ROW / bytes), (cuuint32_t)box_rows};

    return encode_boxes(out, element(type), 2, base, size, stride, box,
                        CU_TENSOR_MAP_SWIZZLE_128B, err);
}

int tensor_map_patches(CUtensorMap *out, const void *base,
                       const struct conv_geometry *g, int words, int rows,
                       struct infer_error *err)
{
    const cuuint64_t line = (cuuint64_t)g->w * (cuuint64_t)g->c;
    const cuuint64_t size[3] = {line / 2, (cuuint64_t)g->h, (cuuint64_t)g->n};
    const cuuint64_t stride[2] = {line * 2, line * 2 * size[1]};
    const cuuint32_t box[3] = {(cuuint32_t)words, (cuuint32_t)rows, 1};

    return encode_boxes(out, CU_TENSOR_MAP_DATA_TYPE_UINT32, 3, base, size,
                        stride, box, CU_TENSOR_MAP_SWIZZLE_NONE, err);
}

int tensor_map_output_rows(CUtensorMap *out, enum tensor_map_type type,
                           const void *base, const struct conv_geometry *g,
                           int pitch, int pixels, struct infer_error *err)
{
    const cuuint64_t bytes = bytes_of(type);
    const cuuint64_t size[3] = {(cuuint64_t)g->k, (cuuint64_t)g->q,
                                (cuuint64_t)g->n * (cuuint64_t)g->p};
    const cuuint64_t stride[2] = {(cuuint64_t)pitch * bytes,
                                  (cuuint64_t)pitch * bytes * size[1]};
    const cuuint32_t box[3] = {(cuuint32_t)(ROW / bytes), (cuuint32_t)pixels,
                               1};

    return encode_boxes(out, element(type), 3, base, size, stride, box,
                        CU_TENSOR_MAP_SWIZZLE_128B, err);
}

int tensor_map_taps(CUtensorMap *out, enum tensor_map_type type,
                    const void *base, int k, int taps, int c,
                    struct infer_error *err)
{
    const cuuint64_t bytes = bytes_of(type);
    const cuuint64_t size[3] = {(cuuint64_t)c, (cuuint64_t)taps, (cuuint64_t)k};
    const cuuint64_t stride[2] = {size[0] * bytes, size[0] * size[1] * bytes};
    const cuuint32_t box[3] = {(cuuint32_t)(ROW / bytes), 1, 64};

    return encode_boxes(out, element(type), 3, base, size, stride, box,
                        CU_TENSOR_MAP_SWIZZLE_128B, err);
}

bool tensor_map_needs_im2col(const struct conv_geometry *g)
{
    return g->r != 1 || g->s != 1 || g->stride_h != 1 || g->stride_w != 1 ||
           g->p != g->h || g->q != g->w || g->pad_top || g->pad_left;
}

/* Distance from the last pixel of an axis to the base of its last window. */
static int64_t upper_corner(int extent, int outputs, int stride, int pad)
{
    return (int64_t)(outputs - 1) * stride + 1 - extent - (int64_t)pad;
}

/* What a map holds of one axis: corners from -corner to corner - 1, offsets in
 * the window up to `offset`.  Strides are up to 8. */
struct axis_limits {
    int corner, offset;
};

/* Of maps of four dimensions and of five. */
static const struct axis_limits four = {128, 255}, five = {16, 31};

static bool axis_fits(const struct axis_limits *most, int extent, int outputs,
                      int window, int stride, int dilation, int pad)
{
    const int64_t upper = upper_corner(extent, outputs, stride, pad);

    return (int64_t)(window - 1) * dilation <= most->offset && stride <= 8 &&
           pad > -most->corner && pad <= most->corner &&
           upper >= -most->corner && upper < most->corner;
}

static int check_axes(const struct conv_geometry *g,
                      const struct axis_limits *most, struct infer_error *why)
{
    if (axis_fits(most, g->h, g->p, g->r, g->stride_h, g->dilation_h,
                  g->pad_top) &&
        axis_fits(most, g->w, g->q, g->s, g->stride_w, g->dilation_w,
                  g->pad_left))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "window, stride or pads are too large for TMA");
}

int tensor_map_check_im2col(const struct conv_geometry *g,
                            struct infer_error *why)
{
    return check_axes(g, &four, why);
}

int tensor_map_check_groups(const struct conv_geometry *g,
                            struct infer_error *why)
{
    return check_axes(g, &five, why);
}

/* An im2col map of four or five dimensions. */
static int encode_windows(CUtensorMap *out, enum tensor_map_type type, int rank,
                          const void *base, const cuuint64_t *size,
                          const cuuint64_t *stride,
                          const struct conv_geometry *g, int pixels,
                          struct infer_error *err)
{
    const int lower[3] = {-g->pad_left, -g->pad_top, 0};
    const int upper[3] = {
        (int)upper_corner(g->w, g->q, g->stride_w, g->pad_left),
        (int)upper_corner(g->h, g->p, g->stride_h, g->pad_top), 0};
    const cuuint32_t step[5] = {1, (cuuint32_t)g->stride_w,
                                (cuuint32_t)g->stride_h, 1, 1};
    encode_im2col encode;
    const int rc = find("cuTensorMapEncodeIm2col", &encode, err);

    if (rc < 0)
        return rc;
    return result(
        encode(out, element(type), (cuuint32_t)rank, (void *)(uintptr_t)base,
               size, stride, lower, upper, (cuuint32_t)(ROW / bytes_of(type)),
               (cuuint32_t)pixels, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeIm2col", err);
}

/* Dimensions are C, W, H, N; corners W, H. The base pixel of a window runs from
 * the lower corner to the upper one, which lies far enough past the image's
 * last pixel for an axis to have as many windows as outputs. */
int tensor_map_im2col(CUtensorMap *out, enum tensor_map_type type,
                      const void *base, const struct conv_geometry *g,
                      int pixels, struct infer_error *err)
{
    const cuuint64_t size[4] = {(cuuint64_t)g->c, (cuuint64_t)g->w,
                                (cuuint64_t)g->h, (cuuint64_t)g->n};
    const cuuint64_t pixel = (cuuint64_t)g->x_pitch * bytes_of(type);
    const cuuint64_t stride[3] = {pixel, pixel * size[1],
                                  pixel * size[1] * size[2]};

    return encode_windows(out, type, 4, base, size, stride, g, pixels, err);
}

/* N is a spatial dimension without windows here, so that pixels run on from
 * image to image, and groups are what N is elsewhere. */
int tensor_map_im2col_groups(CUtensorMap *out, enum tensor_map_type type,
                             const void *base, const struct conv_geometry *g,
                             int pixels, struct infer_error *err)
{
    const cuuint64_t size[5] = {(cuuint64_t)g->cg, (cuuint64_t)g->w,
                                (cuuint64_t)g->h, (cuuint64_t)g->n,
                                (cuuint64_t)g->groups};
    const cuuint64_t pixel = (cuuint64_t)g->x_pitch * bytes_of(type);
    const cuuint64_t stride[4] = {pixel, pixel * size[1],
                                  pixel * size[1] * size[2],
                                  size[0] * bytes_of(type)};

    return encode_windows(out, type, 5, base, size, stride, g, pixels, err);
}

int tensor_map_output_groups(CUtensorMap *out, enum tensor_map_type type,
                             const void *base, const struct conv_geometry *g,
                             int64_t pitch, int pixels, struct infer_error *err)
{
    const cuuint64_t bytes = bytes_of(type);
    const cuuint64_t size[3] = {(cuuint64_t)g->kg, (cuuint64_t)g->groups,
                                (cuuint64_t)g->m};
    const cuuint64_t stride[2] = {size[0] * bytes, (cuuint64_t)pitch * bytes};
    const cuuint32_t box[3] = {(cuuint32_t)(ROW / bytes), 1,
                               (cuuint32_t)pixels};

    return encode_boxes(out, element(type), 3, base, size, stride, box,
                        CU_TENSOR_MAP_SWIZZLE_128B, err);
}
