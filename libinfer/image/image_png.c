/* SPDX-License-Identifier: Apache-2.0 */
/* PNG through libpng.  Everything becomes 8-bit gray or RGB; alpha is dropped,
 * not blended.  libpng gets the chunks that make the picture; it never sees
 * text, colour profiles and the other ancillary ones. */
#include "libinfer/image/image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "kernels/base/error.h"
#include "libinfer/image/image_head.h"

#define SIGNATURE_BYTES 8

/* What becomes of the rows: they are only checked, or kept as a picture, or as
 * the numbers that a mask holds. */
enum purpose { TRIAL, PICTURE, INDICES };

struct reader {
    enum purpose purpose;
    const unsigned char *data;
    size_t bytes, at;
    size_t end; /* of the chunk that is being read */
    struct infer_error *err;
    jmp_buf jump;
    /* Filled before the jump can be taken; freed after it. */
    struct infer_image image;
};

const char *image_png_version(void)
{
    return png_get_libpng_ver(NULL);
}

/* Moves to the next chunk that is not ancillary, which png_read_head() has
 * walked. */
static void next_chunk(struct reader *r)
{
    size_t chunk = png_chunk_bytes(r->data, r->bytes, r->at);

    while (chunk > 0 && png_chunk_is_ancillary(r->data + r->at)) {
        r->at += chunk;
        chunk = png_chunk_bytes(r->data, r->bytes, r->at);
    }
    r->end = r->at + chunk;
}

/* libpng never reads across the end of a chunk. */
static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    struct reader *r = png_get_io_ptr(png);

    if (r->at == r->end)
        next_chunk(r);
    if (n > r->end - r->at)
        png_error(png, "the file ends too early");
    memcpy(to, r->data + r->at, n);
    r->at += n;
}

static void on_error(png_structp png, png_const_charp text)
{
    struct reader *r = png_get_error_ptr(png);

    error_set(r->err, INFER_EFORMAT, "PNG: %s (near byte %zu)", text, r->at);
    longjmp(r->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

/* Transformations to 8-bit gray or RGB without alpha. */
static void set_transforms(png_structp png, png_infop info)
{
    png_byte color = png_get_color_type(png, info);

    if (png_get_bit_depth(png, info) == 16)
        png_set_scale_16(png);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (color == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_alpha(png);
}

/* Indices into the palette, or gray samples, one per byte. */
static int set_indices(struct reader *r, png_structp png, png_infop info)
{
    const png_byte color = png_get_color_type(png, info);

    if ((color != PNG_COLOR_TYPE_PALETTE && color != PNG_COLOR_TYPE_GRAY) ||
        png_get_bit_depth(png, info) > 8)
        return error_set(r->err, INFER_EUNSUPPORTED,
                         "PNG: a mask has a palette or gray values of up to 8 "
                         "bits");
    png_set_packing(png);
    return INFER_OK;
}

/* Decodes every row and keeps none. */
static int try_rows(png_structp png, png_infop info)
{
    int passes = png_set_interlace_handling(png);
    png_uint_32 y;

    png_read_update_info(png, info);
    for (; passes > 0; passes--)
        for (y = 0; y < png_get_image_height(png, info); y++)
            png_read_row(png, NULL, NULL);
    return INFER_OK;
}

static int keep_rows(struct reader *r, png_structp png, png_infop info)
{
    const png_uint_32 width = png_get_image_width(png, info);
    const png_uint_32 height = png_get_image_height(png, info);
    const int passes = png_set_interlace_handling(png);
    size_t row_bytes;
    int channels, rc = INFER_OK;

    if (r->purpose == INDICES)
        rc = set_indices(r, png, info);
    else
        set_transforms(png, info);
    if (rc < 0)
        return rc;
    png_read_update_info(png, info);
    channels = png_get_channels(png, info);
    row_bytes = png_get_rowbytes(png, info);
    if ((channels != 1 && channels != 3) ||
        row_bytes != (size_t)width * (size_t)channels)
        return error_set(r->err, INFER_EUNSUPPORTED,
                         "PNG: %d channels after conversion", channels);
    rc = image_new((int)width, (int)height, channels, r->err, &r->image);
    if (rc < 0)
        return rc;
    /* As png_read_image(), which wants an array of pointers: eight bytes a row
     * are more than a row may have. */
    for (int pass = 0; pass < passes; pass++)
        for (png_uint_32 y = 0; y < height; y++)
            png_read_row(png, r->image.pixels + y * row_bytes, NULL);
    return INFER_OK;
}

/* Runs under the jump buffer of r. */
static int read_picture(struct reader *r, png_structp png, png_infop info)
{
    int rc;

    /* image_check_budget() has checked the sizes. */
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
    png_set_read_fn(png, r, read_bytes);
    png_read_info(png, info);
    rc = r->purpose == TRIAL ? try_rows(png, info) : keep_rows(r, png, info);
    if (rc == INFER_OK)
        png_read_end(png, NULL);
    return rc;
}

/* TRIAL: *out stays as it is. */
static int decode(const unsigned char *data, size_t bytes, enum purpose purpose,
                  struct infer_error *err, struct infer_image *out)
{
    struct reader r = {
        .purpose = purpose, .data = data, .bytes = bytes, .err = err};
    png_structp png;
    png_infop info = NULL;
    int rc;

    r.end = SIGNATURE_BYTES;
    png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    if (png != NULL)
        info = png_create_info_struct(png);
    if (info == NULL) {
        png_destroy_read_struct(&png, NULL, NULL);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (setjmp(r.jump) == 0)
        rc = read_picture(&r, png, info);
    else
        rc = INFER_EFORMAT; /* on_error() has set the error */
    png_destroy_read_struct(&png, &info, NULL);
    if (rc < 0)
        infer_image_free(&r.image);
    else if (purpose != TRIAL)
        *out = r.image;
    return rc;
}

static int decode_as(const unsigned char *data, size_t bytes,
                     uint64_t max_pixels, enum purpose purpose,
                     struct infer_error *err, struct image_head *head,
                     struct infer_image *out)
{
    int rc = png_read_head(data, bytes, err, head);

    if (rc == INFER_OK)
        rc = image_check_budget("PNG", head, max_pixels, err);
    if (rc == INFER_OK && image_needs_trial(head, bytes))
        rc = decode(data, bytes, TRIAL, err, out);
    if (rc == INFER_OK)
        rc = decode(data, bytes, purpose, err, out);
    return rc;
}

int image_decode_png(const unsigned char *data, size_t bytes,
                     uint64_t max_pixels, struct infer_error *err,
                     struct infer_image *out, int *orientation)
{
    struct image_head head;
    const int rc = decode_as(data, bytes, max_pixels, PICTURE, err, &head, out);

    *orientation = head.orientation;
    return rc;
}

int image_decode_png_indices(const unsigned char *data, size_t bytes,
                             uint64_t max_pixels, struct infer_error *err,
                             struct infer_image *out)
{
    struct image_head head;

    return decode_as(data, bytes, max_pixels, INDICES, err, &head, out);
}
