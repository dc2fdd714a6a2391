/* SPDX-License-Identifier: Apache-2.0 */
/* Flip, crop (He et al., 2015: 4 pixels of padding), cutout (DeVries and
 * Taylor, 2017), and small affine maps. */
#include "tools/train/data/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

/* ---- words --------------------------------------------------------- */

/* Reads up to three numbers, each after a colon, none negative or NaN: their
 * number, or -1. */
static int take_numbers(const char *text, double v[3])
{
    int given = 0;

    while (*text == ':' && given < 3) {
        char *end;

        v[given] = strtod(text + 1, &end);
        if (end == text + 1 || !(v[given] >= 0))
            return -1;
        given++;
        text = end;
    }
    return *text == '\0' ? given : -1;
}

static bool is_side(double v)
{
    return v < 1000 && v == floor(v);
}

/* A word and its numbers. */
static bool take_word(const char *word, size_t length, struct augment *out)
{
    double v[3] = {0, 0, 0};
    char text[64];
    int n, given;

    if (length >= sizeof(text))
        return false;
    memcpy(text, word, length);
    text[length] = '\0';
    n = (int)strcspn(text, ":");
    given = take_numbers(text + n, v);
    if (given < 0)
        return false;
    text[n] = '\0';
    if (strcmp(text, "flip") == 0 && given == 0) {
        out->flip = true;
    } else if (strcmp(text, "crop") == 0 && given <= 1 && is_side(v[0])) {
        out->crop = given ? (int)v[0] : 4;
    } else if (strcmp(text, "cutout") == 0 && given <= 1 && is_side(v[0])) {
        out->cutout = given ? (int)v[0] : 8;
    } else if (strcmp(text, "affine") == 0 && v[0] <= 360 && v[1] < 1 &&
               v[2] <= 1) {
        out->affine = true;
        out->turn = given > 0 ? v[0] : 15;
        out->scale = given > 1 ? v[1] : 0.2;
        out->shift = given > 2 ? v[2] : 0.1;
    } else {
        return false;
    }
    return true;
}

bool augment_parse(const char *text, struct augment *out, const char **bad)
{
    memset(out, 0, sizeof(*out));
    if (strcmp(text, "none") == 0)
        return true;
    for (;;) {
        const size_t length = strcspn(text, ",");

        if (!take_word(text, length, out)) {
            *bad = text;
            return false;
        }
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* ---- pictures ------------------------------------------------------ */

size_t augment_scratch(int channels, int height, int width)
{
    return (size_t)channels * (size_t)height * (size_t)width;
}

static void flip(uint8_t *planes, int rows, int width)
{
    for (int y = 0; y < rows; y++) {
        uint8_t *row = planes + (size_t)y * (size_t)width;

        for (int x = 0; x < width / 2; x++) {
            const uint8_t t = row[x];

            row[x] = row[width - 1 - x];
            row[width - 1 - x] = t;
        }
    }
}

/* Shifts the picture by (dx, dy), filling with zero. */
static void move(uint8_t *planes, int channels, int height, int width, int dx,
                 int dy, uint8_t *scratch)
{
    const size_t bytes = augment_scratch(channels, height, width);

    memcpy(scratch, planes, bytes);
    memset(planes, 0, bytes);
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < height; y++) {
            const int sy = y + dy;
            const int from = dx < 0 ? -dx : 0;
            const int to = dx > 0 ? width - dx : width;

            if (sy < 0 || sy >= height || to <= from)
                continue;
            memcpy(
                planes +
                    ((size_t)c * (size_t)height + (size_t)y) * (size_t)width +
                    from,
                scratch +
                    ((size_t)c * (size_t)height + (size_t)sy) * (size_t)width +
                    from + dx,
                (size_t)(to - from));
        }
}

/* Clears a square with a random centre, cropped to the picture. */
static void cutout(struct random *r, uint8_t *planes, int channels, int height,
                   int width, int side)
{
    const int cy = (int)random_below(r, (uint64_t)height);
    const int cx = (int)random_below(r, (uint64_t)width);
    const int top = cy - side / 2 < 0 ? 0 : cy - side / 2;
    const int left = cx - side / 2 < 0 ? 0 : cx - side / 2;
    const int bottom =
        cy - side / 2 + side > height ? height : cy - side / 2 + side;
    const int right =
        cx - side / 2 + side > width ? width : cx - side / 2 + side;

    for (int c = 0; c < channels; c++)
        for (int y = top; y < bottom; y++)
            memset(planes +
                       ((size_t)c * (size_t)height + (size_t)y) *
                           (size_t)width +
                       left,
                   0, (size_t)(right - left));
}

/* Bilinear sample of a plane; zero outside. */
static uint8_t sample(const uint8_t *plane, int height, int width, double y,
                      double x)
{
    const int y0 = (int)floor(y), x0 = (int)floor(x);
    double sum = 0.5;

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            const int sy = y0 + i, sx = x0 + k;
            const double wy = i ? y - y0 : 1 - (y - y0);
            const double wx = k ? x - x0 : 1 - (x - x0);

            if (sy >= 0 && sy < height && sx >= 0 && sx < width)
                sum += wy * wx * plane[sy * width + sx];
        }
    return (uint8_t)sum;
}

/* Uniform in -most .. most. */
static double either_way(struct random *r, double most)
{
    return (2 * (double)random_unit(r) - 1) * most;
}

static void affine(const struct augment *a, struct random *r, uint8_t *planes,
                   int channels, int height, int width, uint8_t *scratch)
{
    const double turn = either_way(r, a->turn) * PI / 180;
    const double size = 1 / (1 + either_way(r, a->scale));
    const double dy = either_way(r, a->shift) * height;
    const double dx = either_way(r, a->shift) * width;
    const double cosine = size * cos(turn), sine = size * sin(turn);
    const double my = (height - 1) / 2.0, mx = (width - 1) / 2.0;

    memcpy(scratch, planes, augment_scratch(channels, height, width));
    for (int c = 0; c < channels; c++) {
        const uint8_t *plane =
            scratch + (size_t)c * (size_t)height * (size_t)width;

        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                *planes++ =
                    sample(plane, height, width,
                           my + sine * (x - mx) + cosine * (y - my) + dy,
                           mx + cosine * (x - mx) - sine * (y - my) + dx);
    }
}

void augment_apply(const struct augment *a, struct random *r, uint8_t *planes,
                   int channels, int height, int width, uint8_t *scratch)
{
    if (a->affine)
        affine(a, r, planes, channels, height, width, scratch);
    if (a->crop > 0) {
        const uint64_t places = 2 * (uint64_t)a->crop + 1;
        const int dx = (int)random_below(r, places) - a->crop;
        const int dy = (int)random_below(r, places) - a->crop;

        move(planes, channels, height, width, dx, dy, scratch);
    }
    if (a->flip && (random_u32(r) & 1))
        flip(planes, channels * height, width);
    if (a->cutout > 0)
        cutout(r, planes, channels, height, width, a->cutout);
}
