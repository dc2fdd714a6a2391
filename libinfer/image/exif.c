/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXIF: the orientation of a picture.
 *
 * The block is a TIFF file: byte order ("II" or "MM"), 42, and the offset of
 * the first directory, whose entries have 12 bytes: tag, type, count, value.
 * Source: CIPA DC-008 (EXIF 2.32), 4.5.2 and 4.6.2; TIFF 6.0, section 2.
 */
#include "libinfer/image/image_head.h"

#include <string.h>

#define ORIENTATION 274 /* tag */
#define ENTRY_BYTES 12

static unsigned read_u16(const unsigned char *p, bool big)
{
    return big ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static unsigned long read_u32(const unsigned char *p, bool big)
{
    return big ? (unsigned long)read_u16(p, big) << 16 | read_u16(p + 2, big)
               : (unsigned long)read_u16(p + 2, big) << 16 | read_u16(p, big);
}

int exif_orientation(const unsigned char *p, size_t n)
{
    unsigned long offset;
    unsigned count, i;
    bool big;

    if (n < 8)
        return 1;
    big = p[0] == 'M';
    offset = read_u32(p + 4, big);
    if (read_u16(p + 2, big) != 42 || offset > n - 2)
        return 1;
    count = read_u16(p + offset, big);
    for (i = 0; i < count; i++) {
        const size_t entry = (size_t)offset + 2 + (size_t)i * ENTRY_BYTES;
        unsigned value;

        if (entry + ENTRY_BYTES > n)
            return 1;
        if (read_u16(p + entry, big) != ORIENTATION)
            continue;
        value = read_u16(p + entry + 8, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
