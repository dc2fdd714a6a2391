/* SPDX-License-Identifier: Apache-2.0 */
#include "libinfer/task/draw.h"

#include <math.h>
#include <stdlib.h>
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

static struct draw_place place_text(const struct infer_image *image,
                                    const char *text, int x, int y, int size)
{
    const int step = (FONT_WIDTH + 1) * size;
    const int width = (int)strlen(text) * step + size;

    if (x + width > image->width)
        x = image->width - width;
    x = x < 0 ? 0 : x;
    y = y < 0 ? 0 : y;
    return (struct draw_place){x, y, x + width, y + (FONT_HEIGHT + 2) * size};
}

/* A line of text on a ground of the given colour, within the picture. */
static void draw_text(struct infer_image *image, const char *text, int x, int y,
                      int size, const uint8_t ground[3])
{
    static const uint8_t black[3], white[3] = {255, 255, 255};
    const struct draw_place p = place_text(image, text, x, y, size);
    const int step = (FONT_WIDTH + 1) * size;
    const int light = 3 * ground[0] + 6 * ground[1] + ground[2];

    fill(image, p.left, p.top, p.right, p.bottom, ground);
    for (int i = 0; text[i]; i++)
        draw_character(image, text[i], p.left + size + i * step, p.top + size,
                       size, light > 1280 ? black : white);
}

static int to_pixel(float x, int side)
{
    return x > 0 ? (x < (float)side ? (int)x : side - 1) : 0;
}

/* A straight line of squares `width` pixels wide. */
static void draw_line(struct infer_image *image, const float from[2],
                      const float to[2], int width, const uint8_t rgb[3])
{
    const int x0 = to_pixel(from[0], image->width);
    const int y0 = to_pixel(from[1], image->height);
    const int x1 = to_pixel(to[0], image->width);
    const int y1 = to_pixel(to[1], image->height);
    const int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);

    for (int i = 0; i <= steps; i++) {
        const double part = steps ? (double)i / steps : 0;
        const int x = x0 + (int)lround(part * (x1 - x0)) - width / 2;
        const int y = y0 + (int)lround(part * (y1 - y0)) - width / 2;

        fill(image, x, y, x + width, y + width, rgb);
    }
}

/* Least score of a point that is drawn. */
#define SEEN 0.5f

static bool is_seen(const struct task_box *b, int k)
{
    return !b->point_scores || b->point[k][2] >= SEEN;
}

/* Points, and between those of a person the limbs. */
static void draw_points(struct infer_image *image, const struct task_box *b,
                        int line, const uint8_t rgb[3])
{
    /* COCO: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles;
     * the left one first. */
    static const uint8_t limb[][2] = {
        {15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11}, {6, 12},
        {5, 6},   {5, 7},   {6, 8},   {7, 9},   {8, 10},  {1, 2},  {0, 1},
        {0, 2},   {1, 3},   {2, 4},   {3, 5},   {4, 6}};

    for (int k = 0; k < b->n_points; k++) {
        const int x = to_pixel(b->point[k][0], image->width);
        const int y = to_pixel(b->point[k][1], image->height);

        if (is_seen(b, k))
            fill(image, x - line, y - line, x + line + 1, y + line + 1, rgb);
    }
    if (b->n_points != 17)
        return;
    for (size_t i = 0; i < sizeof limb / sizeof *limb; i++)
        if (is_seen(b, limb[i][0]) && is_seen(b, limb[i][1]))
            draw_line(image, b->point[limb[i][0]], b->point[limb[i][1]], line,
                      rgb);
}

void draw_landmarks(struct infer_image *image, float (*point)[3], int count)
{
    const int side =
        image->width > image->height ? image->width : image->height;
    const int line = side / 400 + 1;
    uint8_t rgb[3];

    draw_colour(0, rgb);
    for (int k = 0; k < count; k++) {
        const int x = to_pixel(point[k][0], image->width);
        const int y = to_pixel(point[k][1], image->height);

        if (point[k][2] >= SEEN)
            fill(image, x - line, y - line, x + line + 1, y + line + 1, rgb);
    }
}

static void draw_sides(struct infer_image *image, const struct task_box *b,
                       int line, const uint8_t rgb[3])
{
    const int left = to_pixel(b->left, image->width);
    const int right = to_pixel(b->right, image->width) + 1;
    const int top = to_pixel(b->top, image->height);
    const int bottom = to_pixel(b->bottom, image->height) + 1;

    for (int k = 0; b->oriented && k < 4; k++)
        draw_line(image, b->corner[k], b->corner[(k + 1) % 4], line, rgb);
    if (b->oriented)
        return;
    fill(image, left, top, right, top + line, rgb);
    fill(image, left, bottom - line, right, bottom, rgb);
    fill(image, left, top, left + line, bottom, rgb);
    fill(image, right - line, top, right, bottom, rgb);
}

/* Pixels of a dot of the font. */
static int dot_of(const struct infer_image *image)
{
    return (image->width > image->height ? image->width : image->height) / 500 +
           1;
}

/* The upper end of a box's text. */
static int text_top(const struct infer_image *image, const struct task_box *b,
                    int row)
{
    return to_pixel(b->top, image->height) +
           (row - 1) * (FONT_HEIGHT + 2) * dot_of(image);
}

struct draw_place draw_place_of(const struct infer_image *image,
                                const struct task_box *b, const char *text,
                                int row)
{
    return place_text(image, text, to_pixel(b->left, image->width),
                      text_top(image, b, row), dot_of(image));
}

void draw_box_row(struct infer_image *image, const struct task_box *b,
                  const char *text, int row)
{
    const int side =
        image->width > image->height ? image->width : image->height;
    const int line = side / 400 + 1;
    uint8_t rgb[3];

    draw_colour(b->label, rgb);
    draw_sides(image, b, line, rgb);
    draw_points(image, b, line, rgb);
    draw_text(image, text, to_pixel(b->left, image->width),
              text_top(image, b, row), dot_of(image), rgb);
}

void draw_box(struct infer_image *image, const struct task_box *b,
              const char *text)
{
    draw_box_row(image, b, text, 0);
}

void draw_legend(struct infer_image *image, int row, int label,
                 const char *text)
{
    const int size = dot_of(image);
    uint8_t rgb[3];

    draw_colour(label, rgb);
    draw_text(image, text, 0, row * (FONT_HEIGHT + 2) * size, size, rgb);
}

/* Half the colour, half the picture. */
static void blend(uint8_t *pixel, const uint8_t rgb[3])
{
    for (int c = 0; c < 3; c++)
        pixel[c] = (uint8_t)((pixel[c] + rgb[c]) / 2);
}

void draw_mask(struct infer_image *image, const uint8_t *mask, int label)
{
    const size_t n = (size_t)image->width * (size_t)image->height;
    uint8_t rgb[3];

    draw_colour(label, rgb);
    for (size_t i = 0; i < n; i++)
        if (mask[i])
            blend(image->pixels + 3 * i, rgb);
}

void draw_labels(struct infer_image *image, const int *label, int clear)
{
    const size_t n = (size_t)image->width * (size_t)image->height;

    for (size_t i = 0; i < n; i++) {
        uint8_t rgb[3];

        if (label[i] < 0 || label[i] == clear)
            continue;
        draw_colour(label[i], rgb);
        blend(image->pixels + 3 * i, rgb);
    }
}
