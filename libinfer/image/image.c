/* SPDX-License-Identifier: Apache-2.0 */
/* Opening pictures: the choice of a decoder, and orientation. */
#include "libinfer/image/image.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/graph/constant.h"
#include "libinfer/image/image_head.h"

#define DEFAULT_MAX_PIXELS ((uint64_t)1 << 26)

/* Scans that a picture of max_pixels may have; smaller ones may have more.
 * libjpeg's own script for progressive pictures has 10. */
#define SCANS_AT_MOST 32

/* Pixels that a picture may take beyond the bytes of its file before its data
 * is known to be sound; the rest of 64 MiB is for decoder and process. */
#define UNTRIED_BYTES ((uint64_t)40 << 20)

/* A compressed picture larger than this is no picture for a network. */
#define MAX_FILE_BYTES ((uint64_t)1 << 30)

int image_check_budget(const char *format, const struct image_head *head,
                       uint64_t max_pixels, struct infer_error *err)
{
    const uint64_t pixels = (uint64_t)head->width * head->height;

    if (pixels > max_pixels)
        return error_set(err, INFER_EMEMORY,
                         "%s: %lu x %lu pixels, more than the %llu allowed "
                         "(max-pixels)",
                         format, (unsigned long)head->width,
                         (unsigned long)head->height,
                         (unsigned long long)max_pixels);
    if ((double)pixels * head->scans > SCANS_AT_MOST * (double)max_pixels)
        return error_set(err, INFER_EMEMORY,
                         "%s: %d scans of %lu x %lu pixels, more than %d "
                         "times the %llu pixels allowed",
                         format, head->scans, (unsigned long)head->width,
                         (unsigned long)head->height, SCANS_AT_MOST,
                         (unsigned long long)max_pixels);
    return INFER_OK;
}

bool image_needs_trial(const struct image_head *head, size_t file_bytes)
{
    return (uint64_t)head->width * head->height * (uint64_t)head->channels >
           file_bytes + UNTRIED_BYTES;
}

int image_new(int width, int height, int channels, struct infer_error *err,
              struct infer_image *out)
{
    size_t bytes;

    if (width < 1 || height < 1)
        return error_set(err, INFER_EARGUMENT,
                         "a picture of %d x %d pixels cannot be made", width,
                         height);
    if (!checked_mul((size_t)width, (size_t)height, &bytes) ||
        !checked_mul(bytes, (size_t)channels, &bytes))
        return error_set(err, INFER_EMEMORY, "%d x %d pixels are too many",
                         width, height);
    out->pixels = calloc(bytes, 1);
    if (out->pixels == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory for %zu bytes",
                         bytes);
    out->width = width;
    out->height = height;
    out->channels = channels;
    return INFER_OK;
}

void infer_image_free(struct infer_image *image)
{
    if (image == NULL)
        return;
    free(image->pixels);
    memset(image, 0, sizeof(*image));
}

/* ---- orientation --------------------------------------------------- */

/* Where the pixel (x, y) of the upright picture lies in the stored one:
 * TIFF 6.0, tag 274.  5 to 8 exchange width and height. */
static size_t stored_pixel(const struct infer_image *in, int orientation, int x,
                           int y)
{
    int w = in->width, h = in->height, sx = x, sy = y;

    switch (orientation) {
    case 2:
        sx = w - 1 - x;
        break;
    case 3:
        sx = w - 1 - x;
        sy = h - 1 - y;
        break;
    case 4:
        sy = h - 1 - y;
        break;
    case 5:
        sx = y;
        sy = x;
        break;
    case 6:
        sx = y;
        sy = h - 1 - x;
        break;
    case 7:
        sx = w - 1 - y;
        sy = h - 1 - x;
        break;
    case 8:
        sx = w - 1 - y;
        sy = x;
        break;
    default:
        break;
    }
    return ((size_t)sy * (size_t)w + (size_t)sx) * (size_t)in->channels;
}

static int turn_upright(struct infer_image *image, int orientation,
                        struct infer_error *err)
{
    bool swap = orientation >= 5;
    struct infer_image up;
    uint8_t *to;
    int x, y, rc;

    if (orientation < 2 || orientation > 8)
        return INFER_OK;
    rc = image_new(swap ? image->height : image->width,
                   swap ? image->width : image->height, image->channels, err,
                   &up);
    if (rc < 0)
        return rc;
    to = up.pixels;
    for (y = 0; y < up.height; y++)
        for (x = 0; x < up.width; x++) {
            memcpy(to, image->pixels + stored_pixel(image, orientation, x, y),
                   (size_t)up.channels);
            to += up.channels;
        }
    infer_image_free(image);
    *image = up;
    return INFER_OK;
}

/* ---- decoding ------------------------------------------------------ */

static bool is_png(const unsigned char *data, size_t bytes)
{
    return bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0;
}

int infer_image_decode(const void *data, size_t bytes, uint64_t max_pixels,
                       struct infer_error *err, struct infer_image *out)
{
    const unsigned char *head = data;
    struct infer_image image = {0};
    int orientation = 1, rc;

    if ((data == NULL && bytes > 0) || out == NULL)
        return error_set(err, INFER_EARGUMENT, "no picture or no room given");
    if (max_pixels == 0)
        max_pixels = DEFAULT_MAX_PIXELS;
    if (is_png(head, bytes))
        rc = image_decode_png(data, bytes, max_pixels, err, &image,
                              &orientation);
    else if (bytes >= 3 && memcmp(head, "\xff\xd8\xff", 3) == 0)
        rc = image_decode_jpeg(data, bytes, max_pixels, err, &image,
                               &orientation);
    else
        return error_set(err, bytes == 0 ? INFER_EFORMAT : INFER_EUNSUPPORTED,
                         bytes == 0 ? "the file is empty"
                                    : "neither PNG nor JPEG");
    if (rc == INFER_OK)
        rc = turn_upright(&image, orientation, err);
    if (rc < 0)
        infer_image_free(&image);
    else
        *out = image;
    return rc;
}

int infer_image_load(const char *path, uint64_t max_pixels,
                     struct infer_error *err, struct infer_image *out)
{
    void *data;
    size_t bytes;
    int rc;

    if (path == NULL || out == NULL)
        return error_set(err, INFER_EARGUMENT, "no file name or no room given");
    rc = file_read_all(path, MAX_FILE_BYTES, err, &data, &bytes);
    if (rc < 0)
        return rc;
    rc = infer_image_decode(data, bytes, max_pixels, err, out);
    if (rc < 0)
        error_prefix(err, "%s", path);
    free(data);
    return rc;
}

int image_load_indices(const char *path, uint64_t max_pixels,
                       struct infer_error *err, struct infer_image *out)
{
    void *data;
    size_t bytes;
    int rc = file_read_all(path, MAX_FILE_BYTES, err, &data, &bytes);

    if (rc < 0)
        return rc;
    if (max_pixels == 0)
        max_pixels = DEFAULT_MAX_PIXELS;
    rc = is_png(data, bytes)
             ? image_decode_png_indices(data, bytes, max_pixels, err, out)
             : error_set(err, INFER_EUNSUPPORTED, "a mask is a PNG file");
    if (rc < 0)
        error_prefix(err, "%s", path);
    free(data);
    return rc;
}
