/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunks of a PNG file, walked before libpng sees it.
 *
 * libpng allocates a chunk by the length that the chunk declares; 42 bytes took
 * 2 GiB.  Here every length is held against the bytes of the file first.
 * Layout: 8 bytes of signature, then chunks of length (4 bytes, big-endian),
 * type (4), data (length), CRC-32 (4).  Source: W3C PNG, third edition, 5.3
 * and 11.3.4.5 (eXIf).
 */
#include "libinfer/image/image_head.h"

#include <string.h>

#include "kernels/base/error.h"

#define SIGNATURE_BYTES 8
#define CHUNK_FRAME     12 /* length, type, CRC */
#define IHDR_BYTES      13
#define MAX_LENGTH      0x7fffffffu

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

/* The type as text: bytes that are no letters become '?'. */
static void type_text(const unsigned char *type, char text[5])
{
    int i;

    for (i = 0; i < 4; i++)
        text[i] = (type[i] >= 'A' && type[i] <= 'Z') ||
                          (type[i] >= 'a' && type[i] <= 'z')
                      ? (char)type[i]
                      : '?';
    text[4] = '\0';
}

size_t png_chunk_bytes(const unsigned char *data, size_t bytes, size_t at)
{
    uint32_t length;

    if (at > bytes || bytes - at < CHUNK_FRAME)
        return 0;
    length = read_u32(data + at);
    if (length > MAX_LENGTH || length > bytes - at - CHUNK_FRAME)
        return 0;
    return (size_t)length + CHUNK_FRAME;
}

bool png_chunk_is_ancillary(const unsigned char *chunk)
{
    return (chunk[4] & 0x20) != 0;
}

int png_read_head(const unsigned char *data, size_t bytes,
                  struct infer_error *err, struct image_head *out)
{
    size_t at = SIGNATURE_BYTES;
    char type[5];

    memset(out, 0, sizeof(*out));
    if (bytes < SIGNATURE_BYTES + CHUNK_FRAME + IHDR_BYTES ||
        memcmp(data + SIGNATURE_BYTES + 4, "IHDR", 4) != 0 ||
        read_u32(data + SIGNATURE_BYTES) != IHDR_BYTES)
        return error_set(err, INFER_EFORMAT,
                         "PNG: the file does not begin with a chunk IHDR of 13 "
                         "bytes");
    out->width = read_u32(data + at + 8);
    out->height = read_u32(data + at + 12);
    /* Bit 1 of the colour type: colour; a palette (3) is colour too. */
    out->channels = data[at + 17] & 2 ? 3 : 1;
    out->scans = 1;
    out->orientation = 1;
    for (;;) {
        const size_t chunk = png_chunk_bytes(data, bytes, at);

        if (bytes - at < CHUNK_FRAME)
            return error_set(err, INFER_EFORMAT,
                             "PNG: the file ends too early: no chunk IEND in "
                             "%zu bytes",
                             bytes);
        type_text(data + at + 4, type);
        if (chunk == 0)
            return error_set(err, INFER_EFORMAT,
                             "PNG: chunk %s at byte %zu declares %lu bytes, "
                             "the file ends too early: %zu are left",
                             type, at, (unsigned long)read_u32(data + at),
                             bytes - at - CHUNK_FRAME);
        if (memcmp(type, "IEND", 4) == 0)
            return INFER_OK;
        if (memcmp(type, "eXIf", 4) == 0)
            out->orientation =
                exif_orientation(data + at + 8, chunk - CHUNK_FRAME);
        at += chunk;
    }
}
