/* SPDX-License-Identifier: Apache-2.0 */
/* Writes PNG files through libpng. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "libinfer/image/image.h"

struct writer {
    unsigned char *data;
    size_t bytes, capacity;
    const char *path;
    struct infer_error *err;
    int rc;
    jmp_buf jump;
};

static void on_error(png_structp png, png_const_charp text)
{
    struct writer *w = png_get_error_ptr(png);

    if (w->rc == INFER_OK)
        w->rc = error_set(w->err, INFER_EMEMORY, "%s: PNG: %s", w->path, text);
    longjmp(w->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void write_bytes(png_structp png, png_bytep from, size_t n)
{
    struct writer *w = png_get_io_ptr(png);

    if (n > w->capacity - w->bytes) {
        const size_t capacity = 2 * w->capacity + n;
        unsigned char *more = capacity < n ? NULL : realloc(w->data, capacity);

        if (!more)
            png_error(png, "out of memory");
        w->data = more;
        w->capacity = capacity;
    }
    memcpy(w->data + w->bytes, from, n);
    w->bytes += n;
}

static void flush(png_structp png)
{
    (void)png;
}

/* Separate, so that no local variable lives across the jump. */
static void encode(struct writer *w, png_structp png, png_infop info,
                   const struct infer_image *image)
{
    const size_t row = (size_t)image->width * (size_t)image->channels;

    if (setjmp(w->jump))
        return;
    png_set_write_fn(png, w, write_bytes, flush);
    png_set_IHDR(
        png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
        image->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
        PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
        PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + (size_t)y * row);
    png_write_end(png, NULL);
}

int image_write_png(const struct infer_image *image, const char *path,
                    struct infer_error *err)
{
    struct writer w = {.path = path, .err = err};
    struct file_part part;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w,
                                              on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;

    if (!info)
        w.rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        encode(&w, png, info, image);
    png_destroy_write_struct(&png, &info);
    part = (struct file_part){w.data, w.bytes};
    if (w.rc == INFER_OK)
        w.rc = file_replace(path, &part, 1, true, err);
    free(w.data);
    return w.rc;
}
