/* SPDX-License-Identifier: Apache-2.0 */
/* Both containers of PyTorch files, whole and damaged. */
#include "config.h"

#include "tests/unit/weights/pickle_writer.h"

/* ---- the archive --------------------------------------------------- */

static void archive_refused(struct zipmaker *z, const char *word)
{
    zipmaker_end(z);
    help_refused(PT, z->file.data, z->file.bytes, word);
    zipmaker_clear(z);
}

TEST(test_archive)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    struct zipmaker_entry e;

    put_dict(&m, &honest);
    zipmaker_add(&z, "net/x", "", 0);
    archive_refused(&z, "no FOLDER/data.pkl");
    zipmaker_add(&z, "data.pkl", m.data, m.bytes);
    archive_refused(&z, "no FOLDER/data.pkl");
    zipmaker_add(&z, "a/b/data.pkl", m.data, m.bytes);
    archive_refused(&z, "no FOLDER/data.pkl");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "ten/data.pkl", m.data, m.bytes);
    archive_refused(&z, "two members are a data.pkl");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "ten/data/0", values, sizeof values);
    archive_refused(&z, "outside the folder");
    zipmaker_add(&z, "net/models/model_config.json", "{}", 2);
    zipmaker_add(&z, "net/archive_format", "pt2", 3);
    archive_refused(&z, "which the format pt2 reads");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/byteorder", "middle", 6);
    archive_refused(&z, "byte order");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/version", "three", 5);
    archive_refused(&z, "no number");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/version", "99999999999", 11);
    archive_refused(&z, "not supported");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/version", "\0", 1);
    archive_refused(&z, "malformed");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    archive_refused(&z, "no record 'data/0'");
    e = (struct zipmaker_entry){.name = "net/data/0",
                                .data = values,
                                .bytes = sizeof values,
                                .crc_plus = 1};
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_put(&z, &e);
    archive_refused(&z, "CRC");
    maker_clear(&m);
}

/* Deflated records and big-endian ones are read all the same. */
TEST(test_odd_records)
{
    unsigned char big[sizeof values];
    struct weights_import import;
    const struct constant *c;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};
    size_t i;

    for (i = 0; i < sizeof values; i++)
        big[i] = ((const unsigned char *)values)[i / 4 * 4 + 3 - i % 4];
    put_dict(&m, &honest);
    struct zipmaker_entry e = {
        .name = "net/data/0", .data = big, .bytes = sizeof big, .method = 8};
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/byteorder", "big", 3);
    zipmaker_put(&z, &e);
    zipmaker_end(&z);
    if (help_read(PT, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    c = help_tensor(&import, "w", 2, honest.size);
    assert_memory_equal(c->data, values, sizeof values);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    maker_clear(&m);
}

TEST(test_zip_damage)
{
    struct zipmaker z = {0};
    struct maker m = {0};

    put_dict(&m, &honest);
    make_zip(&z, &m, values, sizeof values);
    help_truncate(PT, z.file.data, z.file.bytes);
    help_flip(PT, z.file.data, z.file.bytes);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* ---- legacy files -------------------------------------------------- */

struct legacy {
    const char *magic, *protocol;
    const struct spec *spec;
    int64_t count; /* as the storage says */
    size_t bytes;  /* of the storage */
    const char *end;
};

static const struct legacy good_legacy = {
    "\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19",
    "M\xe9\3",
    &honest,
    12,
    sizeof values,
    ""};

/* One pickle of these opcodes. */
static void put_literal(struct maker *m, const char *text, size_t bytes)
{
    maker_text(m, "\x80\2");
    maker_bytes(m, text, bytes);
    maker_text(m, ".");
}

static const char good_system[] =
    "}(X\15\0\0\0little_endian\x88X\12\0\0\0type_sizes}(X\5\0\0\0shortK\2X\3"
    "\0\0\0intK\4X\4\0\0\0longK\4uu";
static const char big_system[] = "}X\15\0\0\0little_endian\x89s";
static const char odd_system[] =
    "}(X\15\0\0\0little_endian\x88X\12\0\0\0type_sizes}X\5\0\0\0shortK\4su";
static const char no_system[] = "]";
static const char one_key[] = "]X\1\0\0\0000a";
static const char two_keys[] = "](X\1\0\0\0000X\1\0\0\0001e";
static const char same_keys[] = "](X\1\0\0\0000X\1\0\0\0000e";
static const char other_key[] = "]X\1\0\0\0001a";
static const char number_key[] = "]K\0a";
static const char tuple_keys[] = "X\1\0\0\0000\x85";

#define LITERAL(x) (x), sizeof(x) - 1

static void make_legacy(struct maker *m, const struct legacy *l,
                        const char *system, size_t system_bytes,
                        const char *keys, size_t keys_bytes)
{
    put_literal(m, l->magic, strlen(l->magic));
    put_literal(m, l->protocol, strlen(l->protocol));
    put_literal(m, system, system_bytes);
    put_dict(m, l->spec);
    put_literal(m, keys, keys_bytes);
    maker_int(m, (uint64_t)l->count, 8);
    maker_bytes(m, values, l->bytes);
    maker_text(m, l->end);
}

static void legacy_refused(const struct legacy *l, const char *system,
                           size_t system_bytes, const char *keys,
                           size_t keys_bytes, const char *word)
{
    struct maker m = {0};

    make_legacy(&m, l, system, system_bytes, keys, keys_bytes);
    help_refused(PT, m.data, m.bytes, word);
    maker_clear(&m);
}

#define SYSTEM LITERAL(good_system)
#define KEYS   LITERAL(one_key)

TEST(test_legacy)
{
    struct weights_import import;
    struct legacy l = good_legacy;
    struct spec s = honest;
    const struct constant *c;
    struct infer_error err;
    struct maker m = {0};

    make_legacy(&m, &l, SYSTEM, KEYS);
    if (help_read(PT, m.data, m.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    c = help_tensor(&import, "w", 2, honest.size);
    assert_memory_equal(c->data, values, sizeof values);
    assert_int_equal((uintptr_t)c->data % 4, 0);
    weights_import_clear(&import);
    help_truncate(PT, m.data, m.bytes);
    help_flip(PT, m.data, m.bytes);
    maker_clear(&m);
    /* A tensor in a part of its storage: elements 4 to 9. */
    s = (struct spec){"FloatStorage",      "0", 12, 1, 1, 1, {5}, {1},
                      "(X\1\1\1\1vK\4K\6t"};
    l.spec = &s;
    make_legacy(&m, &l, SYSTEM, KEYS);
    /* The count of that string has ones to survive strlen(): mend it. */
    unsigned char *at = memmem(m.data, m.bytes, "\1\1\1\1v", 5);
    assert_non_null(at);
    memcpy(at, "\1\0\0\0v", 5);
    if (help_read(PT, m.data, m.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    c = help_tensor(&import, "w", 1, s.size);
    assert_memory_equal(c->data, values + 5, 20);
    weights_import_clear(&import);
    at = memmem(m.data, m.bytes, "vK\4K\6", 5);
    at[2] = 7; /* elements 7 to 12 of 12 */
    help_refused(PT, m.data, m.bytes, "7 + 6");
    at[2] = 4;
    at[4] = 5; /* five elements, of which the tensor wants 1 to 5 */
    help_refused(PT, m.data, m.bytes, "reaches beyond");
    maker_clear(&m);
    s.offset = INT64_MAX; /* and the start of the part on top */
    make_legacy(&m, &l, SYSTEM, KEYS);
    at = memmem(m.data, m.bytes, "\1\1\1\1v", 5);
    assert_non_null(at);
    memcpy(at, "\1\0\0\0v", 5);
    help_refused(PT, m.data, m.bytes, "elements 4 + 6");
    maker_clear(&m);
}

TEST(test_bad_legacy)
{
    struct legacy l;

    l = good_legacy, l.protocol = "M\xea\3";
    legacy_refused(&l, SYSTEM, KEYS, "legacy protocol 1002");
    l = good_legacy;
    legacy_refused(&l, LITERAL(big_system), KEYS, "big-endian");
    legacy_refused(&l, LITERAL(odd_system), KEYS, "short and int");
    legacy_refused(&l, LITERAL(no_system), KEYS, "malformed");
    legacy_refused(&l, SYSTEM, LITERAL(two_keys), "2 storages are listed");
    legacy_refused(&l, SYSTEM, LITERAL(same_keys), "2 storages are listed");
    legacy_refused(&l, SYSTEM, LITERAL(other_key), "belongs to no tensor");
    legacy_refused(&l, SYSTEM, LITERAL(number_key), "belongs to no tensor");
    legacy_refused(&l, SYSTEM, LITERAL(tuple_keys), "malformed");
    l.count = -12;
    legacy_refused(&l, SYSTEM, KEYS, "it holds -12 elements");
    l.count = (int64_t)1 << 62;
    legacy_refused(&l, SYSTEM, KEYS, "but its tensors say 12");
    l.count = 11;
    legacy_refused(&l, SYSTEM, KEYS, "but its tensors say 12");
    l = good_legacy, l.bytes = 47;
    legacy_refused(&l, SYSTEM, KEYS, "ends before its 48 bytes");
    l = good_legacy, l.end = "x";
    legacy_refused(&l, SYSTEM, KEYS, "follow the last storage");
    /* Two storages in use, of which one is listed twice. */
    struct spec second = honest;
    struct maker m = {0};
    second.key = "1";
    put_literal(&m, good_legacy.magic, strlen(good_legacy.magic));
    put_literal(&m, good_legacy.protocol, strlen(good_legacy.protocol));
    put_literal(&m, SYSTEM);
    maker_text(&m, "\x80\2}");
    put_text(&m, "w");
    put_tensor(&m, &honest);
    maker_text(&m, "s");
    put_text(&m, "v");
    put_tensor(&m, &second);
    maker_text(&m, "s.");
    put_literal(&m, LITERAL(same_keys));
    for (int i = 0; i < 2; i++) {
        maker_int(&m, 12, 8);
        maker_bytes(&m, values, sizeof values);
    }
    help_refused(PT, m.data, m.bytes, "listed twice");
    maker_clear(&m);
    /* A tar archive, whose reader in PyTorch was exploitable. */
    static unsigned char tar[1024];
    memcpy(tar, "pickle", 6);
    memcpy(tar + 257, "ustar", 5);
    help_refused(PT, tar, sizeof tar, "tar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archive),    cmocka_unit_test(test_odd_records),
        cmocka_unit_test(test_zip_damage), cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_bad_legacy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
