/* SPDX-License-Identifier: Apache-2.0 */
/* A small fixed font: ASCII, 5 x 7 dots. */
#ifndef LIBINFER_TASK_FONT_H
#define LIBINFER_TASK_FONT_H

#include <stdint.h>

#define FONT_WIDTH  5
#define FONT_HEIGHT 7

/* The rows of a character, top first; bit 4 is the left dot.  Bytes that are
 * not printable ASCII look as "?". */
const uint8_t *font_character(char c);

#endif
