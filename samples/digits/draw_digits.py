# SPDX-License-Identifier: Apache-2.0
"""Draws the sample pictures of the quickstart: ten digits as pen strokes,
white on black, 112 x 112 pixels.

usage: draw_digits.py OUT_DIR   (needs pillow)"""
import math
import os
import sys

from PIL import Image, ImageDraw

SIZE, ACROSS, SCALE = 112, 11, 4  # pixels, pen width, supersampling


def arc(cx, cy, rx, ry, start, end):
    """Points of an ellipse from start to end degrees, clockwise from east."""
    n = 40
    return [(cx + rx * math.cos(math.radians(start + (end - start) * i / n)),
             cy + ry * math.sin(math.radians(start + (end - start) * i / n)))
            for i in range(n + 1)]


# Strokes in a unit square, y down.
DIGITS = [
    [arc(.5, .5, .22, .3, -90, 270)],
    [[(.4, .3), (.53, .2), (.53, .8)]],
    [arc(.5, .36, .2, .17, 190, 380) + [(.32, .78), (.72, .78)]],
    [arc(.48, .35, .19, .15, 200, 450), arc(.48, .65, .22, .16, 270, 510)],
    [[(.58, .8), (.58, .2), (.28, .6), (.74, .6)]],
    [[(.68, .22), (.38, .22), (.36, .47)] + arc(.48, .61, .2, .18, 225, 500)],
    [[(.62, .2)] + arc(.5, .62, .2, .18, 190, 200)[:1] +
     arc(.5, .62, .19, .18, 180, 540)],
    [[(.3, .23), (.7, .23), (.45, .8)]],
    [arc(.5, .35, .16, .15, 90, 450), arc(.5, .65, .2, .16, -90, 270)],
    [arc(.5, .37, .18, .17, 0, 360) + [(.68, .37), (.6, .8)]],
]


def draw(strokes):
    side = SIZE * SCALE
    image = Image.new('L', (side, side))
    pen = ImageDraw.Draw(image)
    r = ACROSS * SCALE / 2
    for stroke in strokes:
        points = [(x * side, y * side) for x, y in stroke]
        pen.line(points, 255, int(2 * r))
        for x, y in points:
            pen.ellipse((x - r, y - r, x + r, y + r), 255)
    return image.resize((SIZE, SIZE), Image.LANCZOS)


for digit, strokes in enumerate(DIGITS):
    draw(strokes).save(os.path.join(sys.argv[1], f'{digit}.png'),
                       optimize=True)
