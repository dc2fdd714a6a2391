/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a length (8 bytes, little-endian), a header in JSON and data:
 * safetensors, model files and checkpoints.  The last two state a CRC-32 of
 * their header in it. */
#ifndef TESTS_FUZZ_MUTATE_HEADER_H
#define TESTS_FUZZ_MUTATE_HEADER_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* Bytes of the header, or -1 if the file is shorter than it says. */
static inline long header_bytes(const unsigned char *data, size_t size)
{
    uint64_t n = 0;

    for (int i = 0; i < 8 && size >= 8; i++)
        n |= (uint64_t)data[i] << 8 * i;
    return size < 8 || n > size - 8 ? -1 : (long)n;
}

/* Makes the stated CRC the right one, where one is stated. */
static inline void header_repair(unsigned char *data, size_t size)
{
    static const char key[] = "header_crc32\":\"";
    const long n = header_bytes(data, size);
    unsigned char *at;
    char hex[16];

    if (n < 0)
        return;
    at = memmem(data + 8, (size_t)n, key, sizeof key - 1);
    if (!at || (size_t)(data + 8 + n - at) < sizeof key + 8)
        return;
    at += sizeof key - 1;
    memcpy(at, "00000000", 8);
    snprintf(hex, sizeof hex, "%08lx", crc32(0, data + 8, (uInt)n));
    memcpy(at, hex, 8);
}

#endif
