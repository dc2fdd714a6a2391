/* SPDX-License-Identifier: Apache-2.0 */
/* The mutators of the fuzz targets: what they make is within the room given,
 * differs from its origin, and its lengths and checksums are right. */
#include "tests/fuzz/mutate/mutate.h"
#include "tests/unit/test.h"

typedef size_t mutator(uint8_t *data, size_t size, size_t max, unsigned seed);
static mutator mutate_header, mutate_png, mutate_protobuf, mutate_zip,
    mutate_sections;

#define LLVMFuzzerCustomMutator mutate_header
#include "tests/fuzz/mutate/header.c"
#undef LLVMFuzzerCustomMutator
#define LLVMFuzzerCustomMutator mutate_png
#include "tests/fuzz/mutate/png.c"
#undef LLVMFuzzerCustomMutator
#define LLVMFuzzerCustomMutator mutate_protobuf
#include "tests/fuzz/mutate/protobuf.c"
#undef LLVMFuzzerCustomMutator
#define LLVMFuzzerCustomMutator mutate_zip
#include "tests/fuzz/mutate/zip.c"
#undef LLVMFuzzerCustomMutator
#define LLVMFuzzerCustomMutator mutate_sections
#define SECTIONS                3
#include "tests/fuzz/mutate/sections.c"
#undef LLVMFuzzerCustomMutator

#define MUTANTS 2000
#define ROOM    4096

/* libFuzzer's, in the least: another byte, or one more. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static unsigned state = 7;

    if (size < max_size && mutate_random(&state) % 4 == 0)
        data[size++] = (uint8_t)mutate_random(&state);
    else if (size > 0)
        data[mutate_random(&state) % size] ^=
            (uint8_t)(1 + mutate_random(&state) % 255);
    return size;
}

/* Of MUTANTS of an input, each from the one before it, at least `least` per
 * cent are right and differ from the input. */
static void check(mutator *mutate, const void *seed, size_t size,
                  bool (*right)(const uint8_t *, size_t), int least)
{
    static uint8_t data[ROOM];
    int good = 0;

    assert_true(right(seed, size));
    for (unsigned i = 0; i < MUTANTS; i++) {
        size_t n = size;

        memcpy(data, seed, size);
        for (unsigned j = 0; j <= i % 4; j++)
            n = mutate(data, n, ROOM, 4 * i + j);
        assert_true(n <= ROOM);
        good += right(data, n) && (n != size || memcmp(data, seed, size) != 0);
    }
    if (good * 100 < MUTANTS * least)
        fail_msg("%d of %d mutants are right", good, MUTANTS);
}

/* ---- what is right ------------------------------------------------- */

static bool png_is_right(const uint8_t *data, size_t size)
{
    size_t at = 8;

    if (size < 8 || memcmp(data, signature, 8) != 0)
        return false;
    while (size - at >= 12) {
        const size_t bytes = big_endian(data + at);

        if (bytes > size - at - 12 ||
            big_endian(data + at + 8 + bytes) !=
                crc32(0, data + at + 4, (uInt)(bytes + 4)))
            return false;
        at += 12 + bytes;
    }
    return at == size;
}

static bool zip_is_right(const uint8_t *data, size_t size)
{
    struct member member[MAX_MEMBERS];
    const int n = zip_split(data, size, member);

    members_clear(member, n);
    return n >= 1;
}

static bool header_is_right(const uint8_t *data, size_t size)
{
    static uint8_t copy[ROOM];
    const long n = header_bytes(data, size);

    memcpy(copy, data, size);
    header_repair(copy, size);
    return n > 0 && memcmp(copy, data, size) == 0;
}

static bool message_is_right(const uint8_t *data, size_t size)
{
    struct field field[MAX_FIELDS];

    return message_split(data, size, field) > 0;
}

static bool sections_are_right(const uint8_t *data, size_t size)
{
    struct section s[SECTIONS];

    sections_split(data, size, SECTIONS, s);
    return s[0].bytes + s[1].bytes + s[2].bytes + 4 == size;
}

/* ---- tests --------------------------------------------------------- */

TEST(png)
{
    static const uint8_t rows[6] = {0, 1, 2, 0, 3, 4};
    const uint8_t head[13] = {0, 0, 0, 2, 0, 0, 0, 2, 8, 0, 0, 0, 0};
    uint8_t packed[64], file[256];
    uLongf bytes = sizeof packed;
    struct chunk chunk[3] = {{"IHDR", head, sizeof head, NULL},
                             {"IDAT", packed, 0, NULL},
                             {"IEND", head, 0, NULL}};

    assert_int_equal(compress(packed, &bytes, rows, sizeof rows), Z_OK);
    chunk[1].bytes = bytes;
    check(mutate_png, file, png_join(file, sizeof file, chunk, 3), png_is_right,
          80);
}

TEST(zip)
{
    struct zipmaker zip = {0};

    zipmaker_add(&zip, "a.npy", "some bytes", 10);
    zipmaker_add(&zip, "b.npy", "other bytes", 11);
    zipmaker_end(&zip);
    check(mutate_zip, zip.file.data, zip.file.bytes, zip_is_right, 50);
    zipmaker_clear(&zip);
}

TEST(header)
{
    static const char text[] = "{\"__metadata__\":{\"infer.header_crc32\":"
                               "\"00000000\"},\"a\":{\"shape\":[12,345]}}";
    uint8_t file[256];

    check(mutate_header, file,
          header_join(file, sizeof file, (const uint8_t *)text, sizeof text - 1,
                      (const uint8_t *)"data", 4),
          header_is_right, 70);
}

/* Field 1: a varint; field 7: a message of a text and another message. */
TEST(protobuf)
{
    static const uint8_t message[] = {0x08, 0x09, 0x3a, 0x0b, 0x0a,
                                      0x03, 'a',  'b',  'c',  0x12,
                                      0x04, 0x08, 0x05, 0x10, 0x07};

    check(mutate_protobuf, message, sizeof message, message_is_right, 60);
}

TEST(sections)
{
    static const uint8_t three[] = {2, 0, 'a', 'b', 1, 0, 'c', 'd', 'e', 'f'};

    check(mutate_sections, three, sizeof three, sections_are_right, 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png),      cmocka_unit_test(zip),
        cmocka_unit_test(header),   cmocka_unit_test(protobuf),
        cmocka_unit_test(sections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
