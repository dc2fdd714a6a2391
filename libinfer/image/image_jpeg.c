/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG through libjpeg-turbo, with its default (accurate) inverse transform
 * and fancy upsampling, as Pillow decodes.  Damaged entropy data is an error,
 * not a gray area; bytes between segments that should not be there are not. */
#include "libinfer/image/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "kernels/base/error.h"
#include "libinfer/image/image_head.h"

struct reader {
    struct jpeg_error_mgr manager; /* first: libjpeg hands it back */
    struct infer_error *err;
    jmp_buf jump;
    struct infer_image image;
    unsigned char *line; /* one row of CMYK, or of a trial */
};

#define TEXT_OF(x)   #x
#define TEXT_FROM(x) TEXT_OF(x)

const char *image_jpeg_version(void)
{
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " TEXT_FROM(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " TEXT_FROM(JPEG_LIB_VERSION);
#endif
}

static void fail(j_common_ptr cinfo, const char *text)
{
    struct reader *r = (struct reader *)cinfo->err;

    error_set(r->err, INFER_EFORMAT, "JPEG: %s", text);
    longjmp(r->jump, 1);
}

static void on_error(j_common_ptr cinfo)
{
    char text[JMSG_LENGTH_MAX];

    cinfo->err->format_message(cinfo, text);
    fail(cinfo, text);
}

/* Warnings that mean lost picture data are errors. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0 && (cinfo->err->msg_code == JWRN_HIT_MARKER ||
                      cinfo->err->msg_code == JWRN_JPEG_EOF ||
                      cinfo->err->msg_code == JWRN_HUFF_BAD_CODE ||
                      cinfo->err->msg_code == JWRN_ARITH_BAD_CODE))
        on_error(cinfo);
}

/* ---- pixels -------------------------------------------------------- */

/* CMYK (YCCK comes as CMYK) to RGB, naively; Adobe stores it inverted. */
static void cmyk_to_rgb(const unsigned char *from, unsigned char *to,
                        unsigned width, bool inverted)
{
    unsigned x;
    int c;

    for (x = 0; x < width; x++, from += 4, to += 3)
        for (c = 0; c < 3; c++) {
            unsigned ink = inverted ? from[c] : 255u - from[c];
            unsigned key = inverted ? from[3] : 255u - from[3];

            to[c] = (unsigned char)((ink * key + 127) / 255);
        }
}

static void choose_output(struct jpeg_decompress_struct *d)
{
    switch (d->jpeg_color_space) {
    case JCS_GRAYSCALE:
        d->out_color_space = JCS_GRAYSCALE;
        break;
    case JCS_CMYK:
    case JCS_YCCK:
        d->out_color_space = JCS_CMYK;
        break;
    default:
        d->out_color_space = JCS_RGB;
        break;
    }
}

/* Decodes the file and keeps nothing: an eighth of each side, so that little
 * but the entropy decoder works. */
static int try_lines(struct reader *r, struct jpeg_decompress_struct *d)
{
    JSAMPROW row;

    d->scale_num = 1;
    d->scale_denom = 8;
    d->do_fancy_upsampling = FALSE;
    jpeg_start_decompress(d);
    r->line =
        malloc((size_t)d->output_width * (size_t)(d->output_components + 1));
    if (r->line == NULL)
        return error_set(r->err, INFER_EMEMORY, "out of memory");
    row = r->line;
    while (d->output_scanline < d->output_height)
        jpeg_read_scanlines(d, &row, 1);
    return INFER_OK;
}

static int keep_lines(struct reader *r, struct jpeg_decompress_struct *d)
{
    const bool cmyk = d->out_color_space == JCS_CMYK;
    int rc;

    jpeg_start_decompress(d);
    rc = image_new((int)d->output_width, (int)d->output_height,
                   d->out_color_space == JCS_GRAYSCALE ? 1 : 3, r->err,
                   &r->image);
    if (rc == INFER_OK && cmyk) {
        r->line = malloc((size_t)d->output_width * 4);
        if (r->line == NULL)
            rc = error_set(r->err, INFER_EMEMORY, "out of memory");
    }
    if (rc < 0)
        return rc;
    while (d->output_scanline < d->output_height) {
        size_t pitch = (size_t)d->output_width * (size_t)r->image.channels;
        unsigned char *to = r->image.pixels + d->output_scanline * pitch;
        JSAMPROW row = cmyk ? r->line : to;

        if (jpeg_read_scanlines(d, &row, 1) == 1 && cmyk)
            cmyk_to_rgb(r->line, to, d->output_width, d->saw_Adobe_marker);
    }
    return INFER_OK;
}

/* Runs under the jump buffer of r. */
static int read_picture(struct reader *r, struct jpeg_decompress_struct *d,
                        const struct image_head *head, bool trial)
{
    int rc;

    jpeg_read_header(d, TRUE);
    if (d->image_width != head->width || d->image_height != head->height)
        return error_set(r->err, INFER_EFORMAT, "JPEG: two frames");
    choose_output(d);
    rc = trial ? try_lines(r, d) : keep_lines(r, d);
    if (rc == INFER_OK)
        jpeg_finish_decompress(d);
    return rc;
}

/* trial: *out stays as it is. */
static int decode(const unsigned char *data, size_t bytes,
                  const struct image_head *head, bool trial,
                  struct infer_error *err, struct infer_image *out)
{
    struct jpeg_decompress_struct d;
    struct reader r = {.err = err};
    int rc;

    d.err = jpeg_std_error(&r.manager);
    r.manager.error_exit = on_error;
    r.manager.emit_message = on_message;
    if (setjmp(r.jump) == 0) {
        jpeg_create_decompress(&d);
        jpeg_mem_src(&d, data, (unsigned long)bytes);
        rc = read_picture(&r, &d, head, trial);
    } else {
        rc = INFER_EFORMAT; /* fail() has set the error */
    }
    jpeg_destroy_decompress(&d);
    free(r.line);
    if (rc < 0)
        infer_image_free(&r.image);
    else if (!trial)
        *out = r.image;
    return rc;
}

int image_decode_jpeg(const unsigned char *data, size_t bytes,
                      uint64_t max_pixels, struct infer_error *err,
                      struct infer_image *out, int *orientation)
{
    struct image_head head;
    int rc = jpeg_read_head(data, bytes, err, &head);

    if (rc == INFER_OK)
        rc = image_check_budget("JPEG", &head, max_pixels, err);
    /* With several scans all entropy decoding comes before the first pixel. */
    if (rc == INFER_OK && !head.buffered && image_needs_trial(&head, bytes))
        rc = decode(data, bytes, &head, true, err, out);
    if (rc == INFER_OK)
        rc = decode(data, bytes, &head, false, err, out);
    *orientation = head.orientation;
    return rc;
}
