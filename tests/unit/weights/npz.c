/* SPDX-License-Identifier: Apache-2.0 */
/* .npy and .npz files. */
#include "tests/unit/weights/formats_help.h"

#include <math.h>

extern const struct weights_format weights_format_npz;
#define NPZ (&weights_format_npz)

/* A .npy of any version with this header text. */
static void make_npy(struct maker *m, int version, const char *header,
                     const void *data, size_t bytes)
{
    maker_bytes(m, "\x93NUMPY", 6);
    maker_int(m, (uint64_t)version, 1);
    maker_int(m, 0, 1);
    maker_int(m, strlen(header), version == 1 ? 2 : 4);
    maker_text(m, header);
    maker_bytes(m, data, bytes);
}

static void refused(const char *header, const void *data, size_t bytes,
                    const char *word)
{
    struct maker m = {0};

    make_npy(&m, 1, header, data, bytes);
    help_refused(NPZ, m.data, m.bytes, word);
    maker_clear(&m);
}

/* Reads a .npy; the caller clears import. */
static const struct constant *read_npy(int version, const char *header,
                                       const void *data, size_t bytes,
                                       struct weights_import *import)
{
    struct infer_error err;
    struct maker m = {0};
    int rc;

    make_npy(&m, version, header, data, bytes);
    rc = help_read(NPZ, m.data, m.bytes, &err, import);
    maker_clear(&m);
    if (rc < 0)
        fail_msg("%s", err.text);
    assert_int_equal(import->dict.count, 1);
    return import->dict.entry[0].value;
}

static const float values[6] = {0, 1, 2, 3, 4, 5};

TEST(test_versions)
{
    struct weights_import import;
    const struct constant *c;
    int version;

    for (version = 1; version <= 3; version++) {
        c = read_npy(version,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, "
                     "3), }     \n",
                     values, sizeof values, &import);
        assert_int_equal(c->dtype, INFER_F32);
        assert_int_equal(c->rank, 2);
        assert_int_equal(c->dim[1], 3);
        assert_memory_equal(c->data, values, sizeof values);
        weights_import_clear(&import);
    }
    /* Other spacing, order and quotes; no newline; Python 2's L. */
    c = read_npy(1,
                 "{\"shape\":(2L,3L),\"fortran_order\":False,\"descr\":'<f4'}",
                 values, sizeof values, &import);
    assert_int_equal(c->dim[0], 2);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'<f4','fortran_order':True,'shape':()}", values,
                 4, &import);
    assert_int_equal(c->rank, 0);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'<f4','fortran_order':True,'shape':(6,)}", values,
                 sizeof values, &import);
    assert_memory_equal(c->data, values, sizeof values);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'<f4','fortran_order':False,'shape':(0,5)}",
                 values, 0, &import);
    assert_int_equal(constant_count(c), 0);
    weights_import_clear(&import);
}

TEST(test_orders)
{
    static const unsigned char big[6] = {0, 1, 1, 0, 0xff, 0xfe};
    static const int32_t columns[6] = {1, 4, 2, 5, 3, 6}; /* 123 / 456 */
    static const unsigned char flags[3] = {0, 1, 7};
    struct weights_import import;
    const struct constant *c;
    int i;

    c = read_npy(1, "{'descr':'>i2','fortran_order':False,'shape':(3,)}", big,
                 6, &import);
    assert_int_equal(scalar_load_i64(c->dtype, c->data, 0), 1);
    assert_int_equal(scalar_load_i64(c->dtype, c->data, 1), 256);
    assert_int_equal(scalar_load_i64(c->dtype, c->data, 2), -2);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'<i4','fortran_order':True,'shape':(2,3)}",
                 columns, sizeof columns, &import);
    assert_int_equal(c->dim[0], 2);
    assert_int_equal(c->dim[1], 3);
    for (i = 0; i < 6; i++)
        assert_int_equal(scalar_load_i64(c->dtype, c->data, i), i + 1);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'|b1','fortran_order':False,'shape':(3,)}", flags,
                 3, &import);
    assert_memory_equal(c->data, "\0\1\1", 3);
    weights_import_clear(&import);
    c = read_npy(1, "{'descr':'=u8','fortran_order':False,'shape':()}",
                 "\xff\xff\xff\xff\xff\xff\xff\xff", 8, &import);
    assert_int_equal(c->dtype, INFER_U64);
    weights_import_clear(&import);
}

TEST(test_header)
{
    static const char *const malformed[] = {
        "",
        "[]",
        "{}",
        "{'descr':'<f4','fortran_order':False}",
        "{'descr':'<f4','shape':(6,)}",
        "{'fortran_order':False,'shape':(6,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(6,),'x':1}",
        "{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':(6,)}",
        "{'\\x64escr':'<f4','fortran_order':False,'shape':(6,)}",
        "{'descr':'<f4','fortran_order':0,'shape':(6,)}",
        "{'descr':'<f4','fortran_order':false,'shape':(6,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(6)}",
        "{'descr':'<f4','fortran_order':False,'shape':6}",
        "{'descr':'<f4','fortran_order':False,'shape':[6]}",
        "{'descr':'<f4','fortran_order':False,'shape':(-6,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(6.0,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(06,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(0x6,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(2*3,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(1<<99,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(,6)}",
        "{'descr':'<f4','fortran_order':False,'shape':(2 3)}",
        "{'descr':'<f4','fortran_order':False,'shape':(6,)}}",
        "{'descr':'<f4','fortran_order':False,'shape':(6,)} x",
        "{'descr':'<f4','fortran_order':False,'shape':(6,)",
        "{'descr':__import__('os'),'fortran_order':False,'shape':(6,)}",
        "{'descr':f'<f4','fortran_order':False,'shape':(6,)}",
        "{'descr':None,'fortran_order':False,'shape':(6,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,"
        ")}",
        "{'descr':'<f4','fortran_order':False,'shape':(4194305,4194305,"
        "211106198978564)}",
    };
    size_t i;

    for (i = 0; i < COUNT(malformed); i++)
        refused(malformed[i], values, sizeof values, ".npy header");
    refused("{'descr':'<f4','fortran_order':False,'shape':(65536,65536)}",
            values, 0, "declared");
    refused("{'descr':'<f8','fortran_order':False,'shape':(2305843009213693952"
            ",)}",
            values, 0, "declared");
    refused("{'descr':'<f4','fortran_order':False,'shape':(5,)}", values,
            sizeof values, "declared");
    refused("{'descr':'<f4','fortran_order':False,'shape':(7,)}", values,
            sizeof values, "declared");
    refused("{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1)}",
            values, 4, "dimensions");
}

TEST(test_types)
{
    static const char *const types[] = {
        "'|O'",  "'|O8'", "'|S4'",          "'<U1'",        "'<M8'", "'|V4'",
        "'<c8'", "'<f3'", "'<f16'",         "'f'",          "''",    "'<<f4'",
        "'(2)'", "'<i0'", "[('a', '<f4')]", "('<f4', (2,))"};
    char header[128];
    size_t i;

    for (i = 0; i < COUNT(types); i++) {
        snprintf(header, sizeof header,
                 "{'descr':%s,'fortran_order':False,'shape':(1,)}", types[i]);
        refused(header, values, 4, "not supported");
    }
}

TEST(test_frame)
{
    static const char header[] =
        "{'descr':'<f4','fortran_order':False,'shape':(6,)}";
    static char long_header[20000];
    struct maker m = {0};

    make_npy(&m, 4, header, values, sizeof values);
    help_refused(NPZ, m.data, m.bytes, "version 4.0");
    m.data[6] = 0;
    help_refused(NPZ, m.data, m.bytes, "version 0.0");
    m.data[6] = 2;
    m.data[7] = 1;
    help_refused(NPZ, m.data, m.bytes, "version 2.1");
    m.data[7] = 0;
    memset(m.data + 8, 0xff, 4);
    help_refused(NPZ, m.data, m.bytes, "does not fit");
    maker_clear(&m);
    memset(long_header, ' ', sizeof long_header - 1);
    memcpy(long_header, header, sizeof header - 1);
    refused(long_header, values, sizeof values, "at most 10000");
    long_header[9000] = 0;
    make_npy(&m, 1, long_header, values, sizeof values);
    assert_int_equal(help_status(NPZ, m.data, m.bytes), 0);
    maker_clear(&m);
    /* Non-ASCII is fine nowhere but in strings, and must be UTF-8 in 3. */
    make_npy(&m, 3, "{'descr':'<f4','fortran_order':False,'shape':(6,)}\xff",
             values, sizeof values);
    help_refused(NPZ, m.data, m.bytes, "UTF-8");
    maker_clear(&m);
    make_npy(&m, 1, header, values, sizeof values);
    help_truncate(NPZ, m.data, m.bytes);
    help_flip(NPZ, m.data, m.bytes);
    maker_clear(&m);
}

TEST(test_archives)
{
    static const int64_t shape[] = {6};
    static const char header[] =
        "{'descr':'<f4','fortran_order':False,'shape':(6,)}";
    struct zipmaker z = {0};
    struct weights_import import;
    struct infer_error err;
    struct maker m = {0};
    const struct constant *c;

    make_npy(&m, 1, header, values, sizeof values);
    struct zipmaker_entry packed = {
        .name = "layer/b.npy", .data = m.data, .bytes = m.bytes, .method = 8};
    zipmaker_add(&z, "a.npy", m.data, m.bytes);
    zipmaker_put(&z, &packed);
    zipmaker_end(&z);
    if (help_read(NPZ, z.file.data, z.file.bytes, &err, &import) < 0)
        fail_msg("%s", err.text);
    c = help_tensor(&import, "a", 1, shape);
    assert_memory_equal(c->data, values, sizeof values);
    c = help_tensor(&import, "layer/b", 1, shape);
    assert_memory_equal(c->data, values, sizeof values);
    weights_import_clear(&import);
    help_truncate(NPZ, z.file.data, z.file.bytes);
    help_flip(NPZ, z.file.data, z.file.bytes);
    zipmaker_clear(&z);
    zipmaker_add(&z, "a.npy", m.data, m.bytes);
    zipmaker_add(&z, "evil.pkl", "x", 1);
    zipmaker_end(&z);
    help_refused(NPZ, z.file.data, z.file.bytes, "no .npy");
    zipmaker_clear(&z);
    zipmaker_add(&z, "a.npy", m.data, m.bytes);
    zipmaker_add(&z, "a.npy", m.data, m.bytes);
    zipmaker_end(&z);
    help_refused(NPZ, z.file.data, z.file.bytes, "two members");
    zipmaker_clear(&z);
    zipmaker_add(&z, "../a.npy", m.data, m.bytes);
    zipmaker_end(&z);
    help_refused(NPZ, z.file.data, z.file.bytes, "leads out");
    zipmaker_clear(&z);
    zipmaker_add(&z, "a.npy", "PK", 2);
    zipmaker_end(&z);
    help_refused(NPZ, z.file.data, z.file.bytes, "array 'a.npy'");
    zipmaker_clear(&z);
    zipmaker_end(&z);
    help_refused(NPZ, z.file.data, z.file.bytes, "no array");
    zipmaker_clear(&z);
    maker_clear(&m);
}

static double sum_of(const struct weights_import *import)
{
    double sum = 0;
    size_t k;
    int64_t i;

    for (k = 0; k < import->dict.count; k++) {
        const struct constant *c = import->dict.entry[k].value;

        for (i = 0; i < constant_count(c); i++)
            sum += scalar_load(c->dtype, c->data, i);
    }
    return sum;
}

TEST(test_published)
{
    static const struct {
        const char *name;
        size_t count; /* 0: to be refused */
        double sum;   /* of all elements of all arrays, as NumPy adds them */
    } files[] = {
        {"npy-format-tests/onnx-tutorials-image.npz", 1, 72.36863201903179},
        {"npy-format-tests/py2-np0-objarr.npy", 0, 0},
        {"npy-format-tests/py2-objarr.npz", 0, 0},
        {"npy-format-tests/py3-objarr.npy", 0, 0},
        {"pickle-malicious-DO-NOT-UNPICKLE/data2/dns_exfiltration.npy", 0, 0},
        {"pickle-malicious-DO-NOT-UNPICKLE/data2/object_arrays.npz", 0, 0},
        {"pickle-malicious-DO-NOT-UNPICKLE/data2/int_array.npy", 1, 10},
        {"pickle-malicious-DO-NOT-UNPICKLE/data2/int_arrays_compressed.npz", 2,
         15},
        {"weights/npz-waifu2x-chainer/vgg7-anime_style_noise0_rgb.npz", 14,
         -1854.8556414594982},
        {"weights/npz-waifu2x-chainer/resnet10-anime_style_noise1_y.npz", 26,
         -2435.5909963151885},
        {"weights/blazeface/anchors.npy", 1, 2688},
    };
    struct weights_import import;
    struct infer_error err;
    char path[512];
    size_t i;

    for (i = 0; i < COUNT(files); i++) {
        help_data(path, sizeof path, files[i].name);
        int rc = weights_read(path, NULL, &err, &import);

        assert_int_equal(rc == 0, files[i].count > 0);
        if (rc < 0) {
            assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
            continue;
        }
        assert_string_equal(import.format, "npz");
        assert_int_equal(import.dict.count, files[i].count);
        if (fabs(sum_of(&import) - files[i].sum) > 1e-9)
            fail_msg("%s: the sum is %.17g", path, sum_of(&import));
        weights_import_clear(&import);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),  cmocka_unit_test(test_orders),
        cmocka_unit_test(test_header),    cmocka_unit_test(test_types),
        cmocka_unit_test(test_frame),     cmocka_unit_test(test_archives),
        cmocka_unit_test(test_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
