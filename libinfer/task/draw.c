/* SPDX-License-Identifier: Apache-2.0 */
#include "libinfer/task/draw.h"

#include <math.h>
#include <string.h>

#include "libinfer/task/font.h"

/* Steps of the hue: the golden ratio of the circle keeps classes apart. */
#define GOLDEN 0.6180339887498949

void draw_colour(int label, uint8_t rgb[3])
{
    const double hue = fmod((label + 1) * GOLDEN, 1) * 6;

    for (int c = 0; c < 3; c++) {
        /* The distance of the hue from red, green and blue, on a circle of 6.
         */
        double d = fabs(fmod(hue - 2 * c + 9, 6) - 3);

        d = fmin(fmax(2 - d, 0), 1);
        rgb[c] = (uint8_t)(55 + 200 * d);
    }
}

static void fill(struct infer_image *image, int left, int top, int right,
                 int bottom, const uint8_t rgb[3])
{
    left = left < 0 ? 0 : left;
    top = top < 0 ? 0 : top;
    right = right > image->width ? image->width : right;
    bottom = bottom > image->height ? image->height : bottom;
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            memcpy(image->pixels +
                       3 * ((size_t)y * (size_t)image->width + (size_t)x),
                   rgb, 3);
}

/* One character with its left upper corner at x, y; `size` pixels a dot. */
static void draw_character(struct infer_image *image, char c, int x, int y,
                           int size, const uint8_t rgb[3])
{
    const uint8_t *rows = font_character(c);

    for (int row = 0; row < FONT_HEIGHT; row++)
        for (int column = 0; column < FONT_WIDTH; column++)
            if (rows[row] >> (FONT_WIDTH - 1 - column) & 1)
                fill(image, x + column * size, y + row * size,
                     x + (column + 1) * size, y + (row + 1) * size, rgb);
}

/* A line of text on a ground of the given colour, within the picture. */
static void draw_text(struct infer_image *image, const char *text, int x, int y,
                      int size, const uint8_t ground[3])
{
    static const uint8_t black[3], white[3] = {255, 255, 255};
    const int step = (FONT_WIDTH + 1) * size;
    const int width = (int)strlen(text) * step + size;
    const int light = 3 * ground[0] + 6 * ground[1] + ground[2];

    if (x + width > image->width)
        x = image->width - width;
    x = x < 0 ? 0 : x;
    y = y < 0 ? 0 : y;
    fill(image, x, y, x + width, y + (FONT_HEIGHT + 2) * size, ground);
    for (int i = 0; text[i]; i++)
        draw_character(image, text[i], x + size + i * step, y + size, size,
                       light > 1280 ? black : white);
}

static int to_pixel(float x, int side)
{
    return x > 0 ? (x < (float)side ? (int)x : side - 1) : 0;
}

void draw_box(struct infer_image *image, const struct task_box *b,
              const char *text)
{
    const int side =
        image->width > image->height ? image->width : image->height;
    const int line = side / 400 + 1, size = side / 500 + 1;
    const int left = to_pixel(b->left, image->width);
    const int right = to_pixel(b->right, image->width) + 1;
    const int top = to_pixel(b->top, image->height);
    const int bottom = to_pixel(b->bottom, image->height) + 1;
    uint8_t rgb[3];

    draw_colour(b->label, rgb);
    fill(image, left, top, right, top + line, rgb);
    fill(image, left, bottom - line, right, bottom, rgb);
    fill(image, left, top, left + line, bottom, rgb);
    fill(image, right - line, top, right, bottom, rgb);
    for (int k = 0; k < b->n_points; k++) {
        const int x = to_pixel(b->point[k][0], image->width);
        const int y = to_pixel(b->point[k][1], image->height);

        fill(image, x - line, y - line, x + line + 1, y + line + 1, rgb);
    }
    draw_text(image, text, left, top - (FONT_HEIGHT + 2) * size, size, rgb);
}

void draw_labels(struct infer_image *image, const int *label, int clear)
{
    const size_t n = (size_t)image->width * (size_t)image->height;

    for (size_t i = 0; i < n; i++) {
        uint8_t rgb[3];

        if (label[i] < 0 || label[i] == clear)
            continue;
        draw_colour(label[i], rgb);
        for (int c = 0; c < 3; c++)
            image->pixels[3 * i + (size_t)c] =
                (uint8_t)((image->pixels[3 * i + (size_t)c] + rgb[c]) / 2);
    }
}
