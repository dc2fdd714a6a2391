/* SPDX-License-Identifier: Apache-2.0 */
/* PNG through libpng.  Everything becomes 8-bit gray or RGB; alpha is dropped,
 * not blended.  Compressed text and colour profiles are never inflated. */
#include "libinfer/image/image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "kernels/base/error.h"

/* Bytes of ancillary chunks that libpng may hold, each and as a number. */
#define MAX_CHUNK_BYTES 1000000
#define MAX_CHUNKS      256

struct reader {
    const unsigned char *data;
    size_t bytes, at;
    struct infer_error *err;
    jmp_buf jump;
    /* Filled before the jump can be taken; freed after it. */
    struct infer_image image;
    png_bytep *rows;
};

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    struct reader *r = png_get_io_ptr(png);

    if (n > r->bytes - r->at)
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

static void set_limits(png_structp png, uint64_t max_pixels)
{
    /* Chunks that only cost memory: profiles and text. */
    static const png_byte skipped[] = "iCCP\0zTXt\0iTXt\0tEXt\0eXIf\0sPLT";
    png_uint_32 side = max_pixels > PNG_UINT_31_MAX ? PNG_UINT_31_MAX
                                                    : (png_uint_32)max_pixels;

    png_set_user_limits(png, side, side);
    png_set_chunk_cache_max(png, MAX_CHUNKS);
    png_set_chunk_malloc_max(png, MAX_CHUNK_BYTES);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, skipped, 6);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
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
    png_set_interlace_handling(png);
}

/* Runs under the jump buffer of r. */
static int read_picture(struct reader *r, png_structp png, png_infop info,
                        uint64_t max_pixels)
{
    png_uint_32 width, height, y;
    size_t row_bytes;
    int channels, rc;

    set_limits(png, max_pixels);
    png_set_read_fn(png, r, read_bytes);
    png_read_info(png, info);
    width = png_get_image_width(png, info);
    height = png_get_image_height(png, info);
    if ((uint64_t)width * height > max_pixels)
        return error_set(r->err, INFER_EMEMORY,
                         "PNG: %u x %u pixels, more than the %llu allowed",
                         width, height, (unsigned long long)max_pixels);
    set_transforms(png, info);
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
    r->rows = malloc(height * sizeof(*r->rows));
    if (r->rows == NULL)
        return error_set(r->err, INFER_EMEMORY, "out of memory");
    for (y = 0; y < height; y++)
        r->rows[y] = r->image.pixels + y * row_bytes;
    png_read_image(png, r->rows);
    png_read_end(png, NULL);
    return INFER_OK;
}

int image_decode_png(const unsigned char *data, size_t bytes,
                     uint64_t max_pixels, struct infer_error *err,
                     struct infer_image *out)
{
    struct reader r = {.data = data, .bytes = bytes, .err = err};
    png_structp png;
    png_infop info = NULL;
    int rc;

    png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    if (png != NULL)
        info = png_create_info_struct(png);
    if (info == NULL) {
        png_destroy_read_struct(&png, NULL, NULL);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (setjmp(r.jump) == 0)
        rc = read_picture(&r, png, info, max_pixels);
    else
        rc = INFER_EFORMAT; /* on_error() has set the error */
    png_destroy_read_struct(&png, &info, NULL);
    free(r.rows);
    if (rc < 0)
        infer_image_free(&r.image);
    else
        *out = r.image;
    return rc;
}
