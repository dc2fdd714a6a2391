/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch files of both containers: published ones, and hostile ones made
 * here. */
#include "config.h"

#include "tests/unit/formats_help.h"

#include <dirent.h>
#include <math.h>

#include "libinfer/json.h"

extern const struct weights_format weights_format_pytorch;
#define PT (&weights_format_pytorch)

/* ---- making pickles ------------------------------------------------ */

static void put_text(struct maker *m, const char *text)
{
    maker_text(m, "X");
    maker_int(m, strlen(text), 4);
    maker_text(m, text);
}

static void put_int(struct maker *m, int64_t value)
{
    maker_int(m, 0x8a, 1);
    maker_int(m, 8, 1);
    maker_int(m, (uint64_t)value, 8);
}

/* A tensor as torch.save() writes it. */
struct spec {
    const char *class; /* "FloatStorage" */
    const char *key;
    int64_t count, offset;
    int rank, strides; /* strides: how many; rank unless it lies */
    int64_t size[4], stride[4];
    const char *view; /* of the storage: opcodes of the sixth item */
};

static void put_tensor(struct maker *m, const struct spec *s)
{
    int i;

    maker_text(m, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(m, "storage");
    maker_text(m, "ctorch\n");
    maker_text(m, s->class);
    maker_text(m, "\n");
    put_text(m, s->key);
    put_text(m, "cpu");
    put_int(m, s->count);
    if (s->view)
        maker_text(m, s->view);
    maker_text(m, "tQ");
    put_int(m, s->offset);
    maker_text(m, "(");
    for (i = 0; i < s->rank; i++)
        put_int(m, s->size[i]);
    maker_text(m, "t(");
    for (i = 0; i < s->strides; i++)
        put_int(m, s->stride[i]);
    maker_text(m, "t\x89"
                  "ccollections\nOrderedDict\n)RtR");
}

/* {"w": tensor} */
static void put_dict(struct maker *m, const struct spec *s)
{
    maker_text(m, "\x80\2}");
    put_text(m, "w");
    put_tensor(m, s);
    maker_text(m, "s.");
}

static const float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static const struct spec honest = {"FloatStorage", "0",    12,  0, 2, 2,
                                   {3, 4},         {4, 1}, NULL};

/* An archive round one pickle; record is data/0. */
static void make_zip(struct zipmaker *z, const struct maker *pickle,
                     const void *record, size_t bytes)
{
    zipmaker_add(z, "net/data.pkl", pickle->data, pickle->bytes);
    zipmaker_add(z, "net/byteorder", "little", 6);
    zipmaker_add(z, "net/data/0", record, bytes);
    zipmaker_add(z, "net/version", "3\n", 2);
    zipmaker_add(z, "net/.data/serialization_id", "0123", 4);
    zipmaker_end(z);
}

static void spec_refused(const struct spec *s, const char *word)
{
    struct zipmaker z = {0};
    struct maker m = {0};

    put_dict(&m, s);
    make_zip(&z, &m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, word);
    zipmaker_clear(&z);
    maker_clear(&m);
}

static void spec_read(const struct spec *s, const void *record, size_t bytes,
                      struct weights_import *import)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    struct infer_error err;
    int rc;

    put_dict(&m, s);
    make_zip(&z, &m, record, bytes);
    rc = help_read(PT, z.file.data, z.file.bytes, &err, import);
    zipmaker_clear(&z);
    maker_clear(&m);
    if (rc < 0)
        fail_msg("%s", err.text);
}

/* ---- tensors ------------------------------------------------------- */

static void test_views(void **state)
{
    static const float turned[12] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
    struct weights_import import;
    const struct constant *c;
    struct spec s = honest;

    (void)state;
    spec_read(&s, values, sizeof values, &import);
    c = help_tensor(&import, "w", 2, s.size);
    assert_memory_equal(c->data, values, sizeof values);
    assert_non_null(c->blob); /* no copy */
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 0, 2, 2, {4, 3}, {1, 4}, NULL};
    spec_read(&s, values, sizeof values, &import); /* transposed */
    c = help_tensor(&import, "w", 2, s.size);
    assert_memory_equal(c->data, turned, sizeof turned);
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 5, 1, 1, {3}, {1}, NULL};
    spec_read(&s, values, sizeof values, &import);
    c = help_tensor(&import, "w", 1, s.size);
    assert_memory_equal(c->data, values + 5, 12);
    weights_import_clear(&import);
    s = (struct spec){"FloatStorage", "0", 12, 2, 2, 2, {2, 3}, {0, 3}, NULL};
    spec_read(&s, values, sizeof values, &import); /* expanded and strided */
    c = help_tensor(&import, "w", 2, s.size);
    assert_true(scalar_load(c->dtype, c->data, 2) == 8);
    assert_true(scalar_load(c->dtype, c->data, 3) == 2);
    weights_import_clear(&import);
    s = (struct spec){"BoolStorage", "0", 3, 0, 1, 1, {3}, {1}, NULL};
    spec_read(&s, "\0\1\4", 3, &import);
    c = help_tensor(&import, "w", 1, s.size);
    assert_memory_equal(c->data, "\0\1\1", 3);
    weights_import_clear(&import);
}

static void test_bad_tensors(void **state)
{
    struct spec s;

    (void)state;
    s = honest, s.offset = 1;
    spec_refused(&s, "reaches beyond");
    s = honest, s.offset = INT64_MAX;
    spec_refused(&s, "reaches beyond");
    s = honest, s.offset = -1;
    spec_refused(&s, "arguments");
    s = honest, s.size[0] = 4;
    spec_refused(&s, "reaches beyond");
    s = honest, s.size[0] = -3;
    spec_refused(&s, "arguments");
    s = honest, s.stride[0] = -4;
    spec_refused(&s, "arguments");
    s = honest, s.stride[0] = INT64_MAX;
    spec_refused(&s, "reaches beyond");
    s = honest, s.strides = 1;
    spec_refused(&s, "2 sizes and 1 strides");
    s = honest, s.count = 11;
    spec_refused(&s, "48 bytes, but its storage needs 44");
    s = honest, s.count = 13;
    spec_refused(&s, "48 bytes, but its storage needs 52");
    s = honest, s.count = -12;
    spec_refused(&s, "a storage");
    s = honest, s.count = 0x400000000000000c; /* times 4 is 48 again */
    spec_refused(&s, "elements");
    s = honest, s.key = "1";
    spec_refused(&s, "no record 'data/1'");
    s = honest, s.key = "../0";
    spec_refused(&s, "no record");
    s = honest, s.class = "ComplexFloatStorage";
    spec_refused(&s, "torch.ComplexFloatStorage");
    s = honest, s.class = "QInt8Storage", s.count = 48;
    spec_refused(&s, "torch.QInt8Storage");
    s = honest, s.class = "UntypedStorage", s.count = 48;
    spec_refused(&s, "elements of torch.UntypedStorage");
    s = honest, s.class = "NoStorage";
    spec_refused(&s, "torch.NoStorage");
    /* One element, seen 2^40 times. */
    s = honest, s.size[0] = s.size[1] = 1 << 20, s.stride[0] = s.stride[1] = 0;
    spec_refused(&s, "the limit for a file");
    s = honest, s.size[0] = s.size[1] = INT64_MAX,
    s.stride[0] = s.stride[1] = 0;
    spec_refused(&s, "beyond all memory");
}

/* The same storage under two types. */
static void test_shared_storage(void **state)
{
    struct spec a = honest, b = honest;
    struct weights_import import;
    const struct constant *x, *y;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};

    (void)state;
    b.class = "IntStorage";
    maker_text(&m, "\x80\2}");
    put_text(&m, "a");
    put_tensor(&m, &a);
    maker_text(&m, "s");
    put_text(&m, "b");
    put_tensor(&m, &b);
    maker_text(&m, "s.");
    make_zip(&z, &m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, "two types or sizes");
    zipmaker_clear(&z);
    m.bytes = 0;
    b = a;
    maker_text(&m, "\x80\2}");
    put_text(&m, "a");
    put_tensor(&m, &a);
    maker_text(&m, "s");
    put_text(&m, "b");
    put_tensor(&m, &b);
    maker_text(&m, "s.");
    make_zip(&z, &m, values, sizeof values);
    if (help_read(PT, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    x = help_tensor(&import, "a", 2, a.size);
    y = help_tensor(&import, "b", 2, a.size);
    assert_ptr_not_equal(x->data, y->data); /* edits must not meet */
    assert_memory_equal(y->data, values, sizeof values);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* ---- values round the tensors -------------------------------------- */

static void pickle_refused(struct maker *m, const char *word)
{
    struct zipmaker z = {0};

    make_zip(&z, m, values, sizeof values);
    help_refused(PT, z.file.data, z.file.bytes, word);
    zipmaker_clear(&z);
    m->bytes = 0;
}

static void test_structure(void **state)
{
    struct weights_import import;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};
    int i;

    (void)state;
    maker_text(&m, "\x80\2}."); /* no tensor at all */
    pickle_refused(&m, "no tensor");
    maker_text(&m, "\x80\2K\1.");
    pickle_refused(&m, "no tensor");
    maker_text(&m, "\x80\2}]");
    put_tensor(&m, &honest);
    maker_text(&m, "s."); /* a list for a key */
    pickle_refused(&m, "neither text nor");
    put_dict(&m, &honest);
    maker_text(&m, "x");
    pickle_refused(&m, "follow its end");
    maker_text(&m, "\x80\2}X");
    maker_int(&m, 2, 4);
    maker_bytes(&m, "a\0", 2);
    put_tensor(&m, &honest);
    maker_text(&m, "s.");
    pickle_refused(&m, "NUL");
    maker_text(&m, "\x80\2}");
    for (i = 0; i < 2; i++) {
        put_text(&m, "w");
        put_tensor(&m, &honest);
        maker_text(&m, "s");
    }
    maker_text(&m, ".");
    pickle_refused(&m, "two tensors are named 'w'");
    maker_text(&m, "\x80\2}q");
    maker_int(&m, 0, 1);
    put_text(&m, "self");
    maker_text(&m, "h");
    maker_int(&m, 0, 1);
    maker_text(&m, "s");
    put_text(&m, "w");
    put_tensor(&m, &honest);
    maker_text(&m, "s."); /* a dictionary inside itself */
    pickle_refused(&m, "nested");
    /* 100 levels, each holding the one below twice. */
    maker_text(&m, "\x80\2]");
    put_tensor(&m, &honest);
    maker_text(&m, "aq");
    maker_int(&m, 0, 1);
    for (i = 0; i < 40; i++) {
        maker_text(&m, "0](h");
        maker_int(&m, (uint64_t)i, 1);
        maker_text(&m, "h");
        maker_int(&m, (uint64_t)i, 1);
        maker_text(&m, "eq");
        maker_int(&m, (uint64_t)i + 1, 1);
    }
    maker_text(&m, ".");
    pickle_refused(&m, "over and over");
    /* A checkpoint; every name has the prefix of a wrapper. */
    maker_text(&m, "\x80\2}");
    put_text(&m, "epoch");
    maker_text(&m, "K\5s");
    put_text(&m, "optimizer");
    maker_text(&m, "}");
    put_text(&m, "momentum");
    put_tensor(&m, &honest);
    maker_text(&m, "ss");
    put_text(&m, "state_dict");
    maker_text(&m, "}");
    put_text(&m, "module.conv.weight");
    put_tensor(&m, &honest);
    maker_text(&m, "ss.");
    make_zip(&z, &m, values, sizeof values);
    if (help_read(PT, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import.dict.count, 1);
    help_tensor(&import, "conv.weight", 2, honest.size);
    assert_int_equal(import.dict.stripped_count, 2);
    assert_string_equal(import.dict.stripped[1].name, "optimizer");
    assert_string_equal(import.dict.stripped[1].why, "optimiser state");
    assert_int_equal(import.dict.stripped[1].bytes, 48);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    maker_clear(&m);
}

/* ---- the archive --------------------------------------------------- */

static void archive_refused(struct zipmaker *z, const char *word)
{
    zipmaker_end(z);
    help_refused(PT, z->file.data, z->file.bytes, word);
    zipmaker_clear(z);
}

static void test_archive(void **state)
{
    struct zipmaker z = {0};
    struct maker m = {0};
    struct zipmaker_entry e;

    (void)state;
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
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/constants.pkl", "\x80\2).", 4);
    archive_refused(&z, "TorchScript");
    zipmaker_add(&z, "net/data.pkl", m.data, m.bytes);
    zipmaker_add(&z, "net/code/__torch__.py", "x", 1);
    archive_refused(&z, "TorchScript");
    zipmaker_add(&z, "net/models/model_config.json", "{}", 2);
    zipmaker_add(&z, "net/archive_format", "pt2", 3);
    archive_refused(&z, "torch.export; save the network's state_dict()");
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
static void test_odd_records(void **state)
{
    unsigned char big[sizeof values];
    struct weights_import import;
    const struct constant *c;
    struct zipmaker z = {0};
    struct infer_error err;
    struct maker m = {0};
    size_t i;

    (void)state;
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

static void test_zip_damage(void **state)
{
    struct zipmaker z = {0};
    struct maker m = {0};

    (void)state;
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

static void test_legacy(void **state)
{
    struct weights_import import;
    struct legacy l = good_legacy;
    struct spec s = honest;
    const struct constant *c;
    struct infer_error err;
    struct maker m = {0};

    (void)state;
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

static void test_bad_legacy(void **state)
{
    struct legacy l;

    (void)state;
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
    /* A tar archive, whose reader in PyTorch was exploitable. */
    static unsigned char tar[1024];
    memcpy(tar, "pickle", 6);
    memcpy(tar + 257, "ustar", 5);
    help_refused(PT, tar, sizeof tar, "tar");
}

/* ---- published files ----------------------------------------------- */

static int same_dtype(const char *torch, enum infer_dtype dtype)
{
    static const struct {
        const char *name;
        enum infer_dtype dtype;
    } known[] = {{"float64", INFER_F64}, {"float32", INFER_F32},
                 {"float16", INFER_F16}, {"bfloat16", INFER_BF16},
                 {"int64", INFER_I64},   {"int32", INFER_I32},
                 {"int16", INFER_I16},   {"int8", INFER_I8},
                 {"uint8", INFER_U8},    {"bool", INFER_BOOL}};
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, torch) == 0)
            return known[i].dtype == dtype;
    return 0;
}

static int is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * (fabs(a) + fabs(b)) + 1e-38;
}

static void compare_values(const cJSON *item, const struct constant *c)
{
    const cJSON *list = json_member(item, "values"), *value;
    double sum = 0;
    int64_t i = 0;

    if (!list)
        list = json_member(item, "first8");
    assert_non_null(list);
    cJSON_ArrayForEach(value, list)
    {
        double want =
            cJSON_IsBool(value) ? cJSON_IsTrue(value) : value->valuedouble;

        assert_true(i < constant_count(c));
        assert_true(is_near(scalar_load(c->dtype, c->data, i), want));
        i++;
    }
    if (json_member(item, "values"))
        assert_int_equal(i, constant_count(c));
    for (i = 0; i < constant_count(c); i++)
        sum += scalar_load(c->dtype, c->data, i);
    if (json_member(item, "sum"))
        assert_true(fabs(sum - json_double(item, "sum", 0)) < 1e-4);
}

/* Returns how many tensors of the file were found as they are expected. */
static size_t compare_file(const cJSON *file, const char *path)
{
    static const char prefix[] = "model_state_dict.";
    struct weights_import import;
    struct infer_error err;
    const cJSON *item;
    size_t found = 0;

    if (weights_read(path, NULL, &err, &import) < 0) {
        if (!json_member(file, "error"))
            fail_msg("%s", err.text);
        return 1;
    }
    assert_null(json_member(file, "error"));
    cJSON_ArrayForEach(item, file)
    {
        const char *name = json_string(item, "name");
        const cJSON *shape = json_member(item, "shape");
        int64_t dim[INFER_MAX_RANK];
        const struct constant *c;
        int rank, i;

        /* Numbers, and the optimiser, are no weights. */
        if (!shape || strncmp(name, "optimizer", 9) == 0)
            continue;
        if (strncmp(name, prefix, sizeof prefix - 1) == 0)
            name += sizeof prefix - 1;
        rank = cJSON_GetArraySize(shape);
        for (i = 0; i < rank; i++)
            dim[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        c = help_tensor(&import, name, rank, dim);
        assert_true(same_dtype(json_string(item, "dtype"), c->dtype));
        compare_values(item, c);
        found++;
    }
    assert_int_equal(found, import.dict.count);
    weights_import_clear(&import);
    return found;
}

static void test_published(void **state)
{
    struct infer_error err;
    unsigned char *text;
    cJSON *expected;
    const cJSON *file;
    char path[1024];
    size_t bytes, tensors = 0, files = 0;

    (void)state;
    help_data(path, sizeof path, "torch-format-tests/expected.json");
    text = help_file(path, &bytes);
    if (json_parse((char *)text, bytes, true, &err, &expected) < 0)
        fail_msg("%s", err.text);
    cJSON_ArrayForEach(file, expected)
    {
        char name[512];

        snprintf(name, sizeof name, "torch-format-tests/%s", file->string);
        help_data(path, sizeof path, name);
        tensors += compare_file(file, path);
        files++;
    }
    assert_int_equal(files, 36);
    assert_true(tensors > 80);
    cJSON_Delete(expected);
    free(text);
}

/* Sums computed once with PyTorch itself. */
static void test_weights(void **state)
{
    static const struct {
        const char *file, *name;
        size_t count;
        double sum;
    } files[] = {
        {"blazeface/blazeface.pth", "backbone1.0.weight", 74, -3.74746965},
        {"cifar10-cnn-winml/myFirstModel.pth", "conv1.weight", 30, -1.63819036},
        {"cifar10-nets-atreides/base_cnn_exp0.5_sgd_lr01_e75_stepLR.pth",
         "conv1.weight", 32, -5.79248667},
        {"cifar10-nets-atreides/plainnet_neo_v1_5e4_20.pth", "conv0.weight",
         135, 0.519093047},
        {"cifar10-nets-atreides/resnet_neo_v1_5e4_20.pth", "conv0.weight", 135,
         -0.0852422395},
        {"cifar10-oval21/cifar_base_kw.pth", "0.weight", 8, 4.08573789},
        {"cifar10-resnet-akamaster/resnet20-12fca82f.th", "conv1.weight", 97,
         1.3100982},
        {"cifar10-resnet-vnncomp/resnet2b-model_best.pth", "conv1.weight", 16,
         0.88654252},
        {"lpips/v0.1-alex.pth", "lin0.model.1.weight", 5, 2.34953231},
        {"lpips/v0.1-squeeze.pth", "lin0.model.1.weight", 7, 5.69010078},
        {"mnist-cnn-burn/mnist.pt", "conv1.weight", 20, -0.282617211},
        {"mtcnn-facenet-pytorch/pnet.pt", "conv1.weight", 13, 2.34876704},
        {"mtcnn-facenet-pytorch/rnet.pt", "conv1.weight", 16, 0.235486531},
        {"retinaface-landmark/mobilenet0.25_Final.pth",
         "body.stage1.0.0.weight", 300, 3.45035034},
        {"ultraface/version-RFB-320.pth", "base_net.0.0.weight", 244,
         1.68209065},
        {"ultraface/version-slim-320.pth", "base_net.0.0.weight", 184,
         -0.964021444},
    };
    struct weights_import import;
    struct infer_error err;
    char path[1024], name[512];
    size_t i;
    int64_t j;

    (void)state;
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        const struct constant *c;
        double sum = 0;

        snprintf(name, sizeof name, "weights/%s", files[i].file);
        help_data(path, sizeof path, name);
        if (weights_read(path, NULL, &err, &import) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(import.format, "pytorch");
        assert_int_equal(import.dict.count, files[i].count);
        c = weights_dict_find(&import.dict, files[i].name);
        assert_non_null(c);
        for (j = 0; j < constant_count(c); j++)
            sum += scalar_load(c->dtype, c->data, j);
        assert_true(fabs(sum - files[i].sum) < 1e-6);
        weights_import_clear(&import);
    }
}

/* The few files of the collection that do no harm. */
static int is_benign(const char *name)
{
    return strcmp(name, "new_pytorch_model.bin") == 0 ||
           strcmp(name, "pytorch_model.bin") == 0 ||
           strcmp(name, "int_array.npy") == 0 ||
           strcmp(name, "int_arrays_compressed.npz") == 0;
}

static void test_malicious(void **state)
{
    static const char *const folders[] = {
        "pickle-malicious-DO-NOT-UNPICKLE/data",
        "pickle-malicious-DO-NOT-UNPICKLE/data2"};
    struct weights_import import;
    char folder[512], path[1024];
    struct infer_error err;
    struct dirent *entry;
    size_t f, files = 0;
    DIR *dir;

    (void)state;
    for (f = 0; f < 2; f++) {
        help_data(folder, sizeof folder, folders[f]);
        dir = opendir(folder);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
            int rc, forced;

            if (entry->d_name[0] == '.')
                continue;
            files++;
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            rc = weights_read(path, NULL, &err, &import);
            if ((rc == 0) != is_benign(entry->d_name))
                fail_msg("%s: %d", path, rc);
            if (rc == 0)
                weights_import_clear(&import);
            /* And as a pickle, whatever it looks like. */
            size_t bytes;
            unsigned char *data = help_file(path, &bytes);
            forced = help_status(PT, data, bytes);
            free(data);
            assert_true(forced < 0 || is_benign(entry->d_name));
        }
        closedir(dir);
    }
    assert_int_equal(files, 73);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_shared_storage),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_odd_records),
        cmocka_unit_test(test_zip_damage),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_bad_legacy),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_malicious),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
