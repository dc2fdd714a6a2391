/* SPDX-License-Identifier: Apache-2.0 */
/* The zip reader: right archives, and every way in which one can lie. */
#include "kernels/base/text.h"
#include "tests/unit/weights/formats_help.h"
#include "weights/bytes.h"
#include "weights/zip.h"

static int open_bytes(const void *data, size_t bytes, struct infer_error *err,
                      struct zipfile *zip)
{
    struct blob *blob = help_blob(data, bytes);
    int rc = zipfile_open(blob, err, zip);

    blob_unref(blob);
    return rc;
}

/* Opens and reads everything; the first error is returned. */
static int try_all(const void *data, size_t bytes, struct infer_error *err)
{
    struct zipfile zip;
    size_t i;
    int rc = open_bytes(data, bytes, err, &zip);

    if (rc < 0)
        return rc;
    for (i = 0; rc == 0 && i < zip.count; i++) {
        struct zipfile_data member;

        rc = zipfile_read(&zip, i, err, &member);
        if (rc == 0)
            zipfile_data_clear(&member);
    }
    zipfile_close(&zip);
    return rc;
}

static void refused(struct zipmaker *z, const char *word)
{
    struct infer_error err;

    if (try_all(z->file.data, z->file.bytes, &err) >= 0)
        fail_msg("accepted, but '%s' was expected", word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
    zipmaker_clear(z);
}

static void accepted(struct zipmaker *z)
{
    struct infer_error err;

    if (try_all(z->file.data, z->file.bytes, &err) < 0)
        fail_msg("%s", err.text);
    zipmaker_clear(z);
}

/* One member that lies, between two honest ones. */
static void refused_entry(const struct zipmaker_entry *e, const char *word)
{
    struct zipmaker z = {0};

    zipmaker_add(&z, "first", "abc", 3);
    zipmaker_put(&z, e);
    zipmaker_end(&z);
    refused(&z, word);
}

static unsigned char text[5000];

static void make_archive(struct zipmaker *z)
{
    struct zipmaker_entry packed = {
        .name = "b/packed", .data = text, .bytes = sizeof text, .method = 8};
    struct zipmaker_entry stream = {.name = "b/stream",
                                    .data = text,
                                    .bytes = 301,
                                    .method = 8,
                                    .descriptor = 1};
    size_t i;

    for (i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)("abcdefg"[i % 7] + i / 1000);
    zipmaker_add(z, "a", "stored", 6);
    zipmaker_put(z, &packed);
    zipmaker_put(z, &stream);
    zipmaker_add(z, "empty", "", 0);
    zipmaker_end(z);
}

TEST(test_reads)
{
    struct zipfile_data member, again;
    struct zipmaker z = {0};
    struct infer_error err;
    struct zipfile zip;

    make_archive(&z);
    assert_int_equal(open_bytes(z.file.data, z.file.bytes, &err, &zip), 0);
    assert_int_equal(zip.count, 4);
    assert_int_equal(zipfile_find(&zip, "b/packed"), 1);
    assert_int_equal(zipfile_find(&zip, "missing"), -1);
    assert_int_equal(zipfile_find(&zip, ""), -1);
    assert_int_equal(zipfile_read(&zip, 0, &err, &member), 0);
    assert_int_equal(member.bytes, 6);
    assert_memory_equal(member.data, "stored", 6);
    assert_int_equal((uintptr_t)member.data % ZIPFILE_ALIGN, 0);
    assert_ptr_equal(member.blob, zip.blob);
    assert_int_equal(zipfile_read(&zip, 0, &err, &again), 0);
    assert_ptr_equal(again.data, member.data);
    assert_memory_equal(again.data, "stored", 6);
    zipfile_data_clear(&member);
    zipfile_data_clear(&again);
    assert_int_equal(zipfile_read(&zip, 1, &err, &member), 0);
    assert_int_equal(member.bytes, sizeof text);
    assert_memory_equal(member.data, text, sizeof text);
    zipfile_close(&zip); /* the member outlives the archive */
    assert_memory_equal(member.data, text, sizeof text);
    zipfile_data_clear(&member);
    zipmaker_clear(&z);
}

TEST(test_damage)
{
    struct zipmaker z = {0};
    struct infer_error err;
    unsigned char *copy;
    size_t i;

    make_archive(&z);
    for (i = 0; i < z.file.bytes; i++)
        assert_true(try_all(z.file.data, i, &err) < 0);
    copy = malloc(z.file.bytes + 1);
    assert_non_null(copy);
    memcpy(copy, z.file.data, z.file.bytes);
    copy[z.file.bytes] = 0;
    assert_true(try_all(copy, z.file.bytes + 1, &err) < 0); /* one byte more */
    for (i = 0; i < z.file.bytes * 8; i++) {
        copy[i / 8] ^= (unsigned char)(1u << i % 8);
        try_all(copy, z.file.bytes, &err);
        copy[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    free(copy);
    /* Junk before the archive moves every offset. */
    copy = malloc(z.file.bytes + 4);
    assert_non_null(copy);
    memcpy(copy, "junk", 4);
    memcpy(copy + 4, z.file.data, z.file.bytes);
    assert_true(try_all(copy, z.file.bytes + 4, &err) < 0);
    free(copy);
    zipmaker_clear(&z);
}

TEST(test_end_record)
{
    struct zipmaker z = {0};
    unsigned char *end;

    make_archive(&z);
    z.file.data[z.file.bytes - 2] = 5; /* comment of 5 bytes, not there */
    refused(&z, "no end record");
    make_archive(&z);
    z.file.data[z.file.bytes - 2] = 5;
    maker_text(&z.file, "hello");
    accepted(&z);
    make_archive(&z); /* an end record inside the comment of another */
    end = z.file.data + z.file.bytes - 22;
    end[20] = 22;
    maker_bytes(&z.file, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    refused(&z, "two end records");
    make_archive(&z);
    z.file.data[z.file.bytes - 14]++;
    z.file.data[z.file.bytes - 12]++;
    refused(&z, "do not fit");
    make_archive(&z);
    z.file.data[z.file.bytes - 14]--;
    refused(&z, "counts disagree");
    make_archive(&z);
    z.file.data[z.file.bytes - 14]--;
    z.file.data[z.file.bytes - 12]--;
    refused(&z, "follow the last");
    make_archive(&z);
    memset(z.file.data + z.file.bytes - 14, 0xff, 4);
    refused(&z, "do not fit");
    make_archive(&z);
    z.file.data[z.file.bytes - 18] = 1;
    refused(&z, "several disks");
    make_archive(&z);
    z.file.data[z.file.bytes - 6]++;
    refused(&z, "does not end where");
    make_archive(&z); /* a gap between the directory and its end record */
    maker_bytes(&z.file, z.file.data + z.file.bytes - 22, 22);
    memset(z.file.data + z.file.bytes - 44, 'x', 22);
    refused(&z, "does not end where");
    zipmaker_end(&z); /* no members at all: a valid archive */
    accepted(&z);
}

TEST(test_lies)
{
    struct zipmaker_entry e = {.name = "x", .data = "0123456789", .bytes = 10};
    struct zipmaker_entry lie;

    lie = e, lie.crc_plus = 1;
    refused_entry(&lie, "damaged");
    lie = e, lie.local_crc_plus = 1;
    refused_entry(&lie, "disagree about its CRC");
    lie = e, lie.local_bytes_plus = 1;
    refused_entry(&lie, "disagree about its size");
    lie = e, lie.local_method_plus = 8;
    refused_entry(&lie, "disagree about its method");
    lie = e, lie.local_name = "y";
    refused_entry(&lie, "disagree about its name");
    lie = e, lie.bytes_plus = 1;
    refused_entry(&lie, "two sizes");
    lie = e, lie.bytes_plus = lie.packed_plus = 1000;
    refused_entry(&lie, "do not fit");
    lie = e, lie.header_back = 3;
    refused_entry(&lie, "member 'x'");
    lie = e, lie.header_back = 4; /* its sizes as the lengths of the rest */
    refused_entry(&lie, "member 'x': no local header");
    lie = e, lie.header_back = 30 + 3 + 5; /* the first member's header */
    refused_entry(&lie, "name");
    lie = e, lie.flags = 1;
    refused_entry(&lie, "encrypted");
    lie = e, lie.flags = 0x20;
    refused_entry(&lie, "patch");
    lie = e, lie.method = 12;
    refused_entry(&lie, "method 12");
    lie = e, lie.version_by = 3 << 8, lie.attributes = 0120777u << 16;
    refused_entry(&lie, "symbolic link");
    lie = e, lie.name = "first";
    refused_entry(&lie, "two members");
    lie = e, lie.name = "folder/";
    refused_entry(&lie, "folder");
    lie = e, lie.extra = "\1\0\20\0", lie.extra_bytes = 4;
    refused_entry(&lie, "longer than the extra area");
}

/* Names that are dangerous somewhere. */
TEST(test_names)
{
    static const struct {
        const char *name;
        size_t bytes;
        const char *word;
    } bad[] = {{"../a", 4, "leads out"}, {"a/../b", 6, "leads out"},
               {"a/..", 4, "leads out"}, {"/a", 2, "absolute"},
               {"a\\b", 3, "backslash"}, {"C:/a", 4, "drive"},
               {"a\0b", 3, "NUL"},       {"\xff\xfe", 2, "UTF-8"},
               {"\xc0\xaf", 2, "UTF-8"}, {"\xed\xa0\x80", 3, "UTF-8"}};
    struct zipmaker z = {0};
    size_t i;

    for (i = 0; i < COUNT(bad); i++) {
        struct zipmaker_entry e = {.name = bad[i].name,
                                   .name_bytes = bad[i].bytes,
                                   .data = "a",
                                   .bytes = 1};

        refused_entry(&e, bad[i].word);
    }
    zipmaker_add(&z, "..a/b..", "a", 1);
    zipmaker_add(&z, "A", "a", 1);
    zipmaker_add(&z, "a", "b", 1); /* differs by case: another name */
    zipmaker_add(&z, "\xc3\xa4", "a", 1);
    zipmaker_add(&z, "x:0.npy", "a", 1); /* an array of TensorFlow */
    zipmaker_add(&z, "folder/", "", 0);
    zipmaker_end(&z);
    accepted(&z);
    zipmaker_add(&z, "a", "a", 1);
    z.central.data[28] = 0; /* a name of no length */
    z.central.bytes--;
    zipmaker_end(&z);
    refused(&z, "is empty");
}

TEST(test_descriptors)
{
    int kind;

    for (kind = 1; kind <= 3; kind++) {
        struct zipmaker_entry e = {.name = "s",
                                   .data = "stored stream",
                                   .bytes = 13,
                                   .descriptor = kind};
        struct zipmaker z = {0};

        zipmaker_put(&z, &e);
        e.name = "d";
        e.method = 8;
        zipmaker_put(&z, &e);
        zipmaker_end(&z);
        accepted(&z);
        zipmaker_put(&z, &e);
        zipmaker_end(&z);
        z.file.data[30 + 1 + 15 + 5]++; /* inside the descriptor */
        refused(&z, "descriptor");
    }
}

/* A right stream with a byte behind it, inside the same member. */
static void test_tail(void)
{
    uint32_t crc = (uint32_t)crc32(0, text, 1000);
    unsigned char *deflated, *local, *central;
    struct zipmaker z = {0};
    struct maker m = {0};
    size_t n = zipmaker_deflate(text, 1000, &deflated);

    deflated[n] = 0; /* zipmaker_deflate() leaves room for one more */
    zipmaker_add(&z, "x", deflated, n + 1);
    free(deflated);
    zipmaker_end(&z);
    local = z.file.data;
    central = z.file.data + z.file.bytes - 22 - 47;
    maker_int(&m, crc, 4);
    maker_int(&m, n + 1, 4);
    maker_int(&m, 1000, 4);
    local[8] = central[10] = 8;
    memcpy(local + 14, m.data, 12);
    memcpy(central + 16, m.data, 12);
    maker_clear(&m);
    refused(&z, "follow its deflate stream");
}

/* Deflate streams that are no good, or not what they declare. */
TEST(test_deflate)
{
    static const struct {
        const char *bits;
        size_t bytes;
    } streams[] = {
        {"\1\3\0\0\0abc", 8}, /* stored block: LEN against NLEN */
        {"\7", 1},            /* block type 3 */
        {"\5\340\201\0\0\0\0\0\20\140", 10}, /* bad code lengths */
        {"\0\0\0\377\377", 5},               /* no last block */
        {"\3\0x", 3},                        /* something behind the stream */
        {"\x63\x00\x00", 2},                 /* cut short */
        {"", 0},
        {"\x4b\x04\xf2\0", 4}, /* distance before the start */
    };
    size_t i;

    for (i = 0; i < COUNT(streams); i++) {
        struct zipmaker_entry e = {
            .name = "x", .data = streams[i].bits, .bytes = streams[i].bytes};
        struct zipmaker z = {0};
        struct infer_error err;

        zipmaker_put(&z, &e);
        zipmaker_end(&z);
        z.file.data[8] = 8; /* the method, here and in the directory */
        z.file.data[z.file.bytes - 22 - 47 + 10] = 8;
        assert_true(try_all(z.file.data, z.file.bytes, &err) < 0);
        zipmaker_clear(&z);
    }
    struct zipmaker_entry e = {
        .name = "x", .data = text, .bytes = 1000, .method = 8};
    test_tail();
    e.bytes_plus = (uint32_t)-1;
    refused_entry(&e, "more than the 999 bytes");
    e.bytes_plus = 1;
    refused_entry(&e, "inflates to 1000 bytes");
}

TEST(test_bombs)
{
    size_t bytes = (size_t)32 << 20;
    unsigned char *zeros = calloc(1, bytes);
    struct zipmaker_entry e = {.name = "0", .data = zeros, .method = 8};
    struct zipmaker z = {0};
    char name[8];
    int i;

    assert_non_null(zeros);
    e.bytes = 1000;
    e.bytes_plus = 2200000000u; /* far more than deflate can make */
    refused_entry(&e, "more than deflate can give");
    e.bytes = bytes;
    e.bytes_plus = 0;
    e.name = name;
    for (i = 0; i < 4; i++) { /* honest, but too much together */
        snprintf(name, sizeof name, "%d", i);
        zipmaker_put(&z, &e);
    }
    zipmaker_end(&z);
    refused(&z, "inflate to more than");
    zipmaker_put(&z, &e); /* one alone is a compressible member */
    zipmaker_end(&z);
    accepted(&z);
    free(zeros);
}

/* Two directory headers for one local header, and overlapping ones. */
TEST(test_overlap)
{
    struct zipmaker z = {0};
    struct zipmaker_entry inner = {.name = "inner", .data = "x", .bytes = 1};
    unsigned char quoted[64];

    zipmaker_put(&z, &inner); /* the bytes of a member, quoted in another */
    memcpy(quoted, z.file.data, z.file.bytes);
    size_t bytes = z.file.bytes;
    zipmaker_clear(&z);
    zipmaker_add(&z, "outer", quoted, bytes);
    inner.header_back = (int)bytes;
    size_t file = z.file.bytes;
    zipmaker_put(&z, &inner);
    z.file.bytes = file; /* only the quoted copy exists */
    zipmaker_end(&z);
    refused(&z, "overlap");
}

/* Saturated fields, whose values stand in the zip64 field. */
TEST(test_zip64)
{
    struct zipmaker z = {0};
    unsigned char *central;
    struct zipmaker_entry e = {.name = "x",
                               .data = "0123456789",
                               .bytes = 10,
                               .extra = "\1\0\20\0\12\0\0\0\0\0\0\0\12\0\0\0"
                                        "\0\0\0\0",
                               .extra_bytes = 20};

    zipmaker_put(&z, &e);
    central = z.central.data;
    memset(central + 20, 0xff, 8); /* both sizes */
    zipmaker_end(&z);
    accepted(&z);
    e.extra_bytes = 0; /* the field is missing */
    zipmaker_put(&z, &e);
    memset(z.central.data + 20, 0xff, 8);
    zipmaker_end(&z);
    refused(&z, "no zip64");
    e.extra = "\1\0\10\0\12\0\0\0\0\0\0\0"; /* one value for two sizes */
    e.extra_bytes = 12;
    zipmaker_put(&z, &e);
    memset(z.central.data + 20, 0xff, 8);
    zipmaker_end(&z);
    refused(&z, "too short");
    e.extra = "\1\0\0\0\1\0\0\0"; /* twice */
    e.extra_bytes = 8;
    zipmaker_put(&z, &e);
    zipmaker_end(&z);
    refused(&z, "two zip64");
    e.extra = "\1\0\20\0\0\0\0\0\0\0\0\200\0\0\0\0\0\0\0\200"; /* 2^63 */
    e.extra_bytes = 20;
    zipmaker_put(&z, &e);
    memset(z.central.data + 20, 0xff, 8);
    zipmaker_end(&z);
    refused(&z, "size");
}

/* One member, a zip64 end record of 56 bytes, its locator of 20, and an end
 * record of 22 whose counts, bytes and offset are full. */
static void make_zip64(struct zipmaker *z)
{
    unsigned char end[22];
    size_t start, record;

    zipmaker_add(z, "x", "abc", 3);
    start = z->file.bytes;
    zipmaker_end(z);
    memcpy(end, z->file.data + z->file.bytes - 22, 22);
    memset(end + 8, 0xff, 12);
    z->file.bytes -= 22;
    record = z->file.bytes;
    maker_int(&z->file, 0x06064b50, 4);
    maker_int(&z->file, 44, 8);
    maker_int(&z->file, 0, 4); /* versions */
    maker_int(&z->file, 0, 8); /* disks */
    maker_int(&z->file, 1, 8);
    maker_int(&z->file, 1, 8);
    maker_int(&z->file, z->central.bytes, 8);
    maker_int(&z->file, start, 8);
    maker_int(&z->file, 0x07064b50, 4);
    maker_int(&z->file, 0, 4);
    maker_int(&z->file, record, 8);
    maker_int(&z->file, 1, 4);
    maker_bytes(&z->file, end, 22);
}

/* The zip64 end record and its locator, a field changed in each. */
TEST(test_zip64_end)
{
    static const struct {
        unsigned from_end, bytes; /* of the field */
        uint64_t value;
        const char *word;
    } rows[] = {{98, 4, 0x06064b51, "is damaged"},
                {94, 8, 45, "is damaged"},
                {82, 4, 1, "several disks"},
                {78, 4, 1, "several disks"},
                {74, 8, 2, "zip64 end record disagree"},
                {66, 8, 2, "zip64 end record disagree"},
                {38, 4, 1, "several disks"},
                {26, 4, 2, "several disks"},
                {34, 8, 1 << 20, "locator"},
                {34, 8, UINT64_MAX - 20, "locator"},
                {18, 2, 1, "several disks"},
                {16, 2, 1, "several disks"},
                {14, 4, 0x00020002, "zip64 end record disagree"},
                {10, 4, 1, "zip64 end record disagree"},
                {6, 4, 1, "zip64 end record disagree"}};
    struct zipmaker z = {0};
    uint64_t record;

    make_zip64(&z);
    accepted(&z);
    for (size_t i = 0; i < COUNT(rows); i++) {
        make_zip64(&z);
        for (unsigned k = 0; k < rows[i].bytes; k++)
            z.file.data[z.file.bytes - rows[i].from_end + k] =
                (unsigned char)(rows[i].value >> (8 * k));
        refused(&z, rows[i].word);
    }
    /* The locator points to itself. */
    make_zip64(&z);
    record = z.file.bytes - 42;
    for (unsigned k = 0; k < 8; k++)
        z.file.data[z.file.bytes - 34 + k] = (unsigned char)(record >> (8 * k));
    refused(&z, "locator");
    /* Offset and bytes of the directory add up beyond 2^64. */
    make_zip64(&z);
    record = z.file.bytes - 98;
    memset(z.file.data + z.file.bytes - 58, 0xff, 8);
    for (unsigned k = 0; k < 8; k++)
        z.file.data[z.file.bytes - 50 + k] =
            (unsigned char)((record + 1) >> (8 * k));
    refused(&z, "does not end where");
    /* A member that lies on another disk. */
    zipmaker_add(&z, "x", "abc", 3);
    z.central.data[34] = 1;
    zipmaker_end(&z);
    refused(&z, "several disks");
}

TEST(test_utf8)
{
    assert_true(text_is_utf8("", 0));
    assert_true(text_is_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    assert_false(text_is_utf8("\x80", 1));
    assert_false(text_is_utf8("\xc3", 1));
    assert_false(text_is_utf8("\xc1\x81", 2));
    assert_false(text_is_utf8("\xe0\x80\x80", 3));
    assert_false(text_is_utf8("\xed\xbf\xbf", 3));
    assert_false(text_is_utf8("\xf4\x90\x80\x80", 4));
    assert_false(text_is_utf8("\xf0\x8f\xbf\xbf", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_end_record), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_deflate),    cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_overlap),    cmocka_unit_test(test_zip64),
        cmocka_unit_test(test_zip64_end),  cmocka_unit_test(test_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
