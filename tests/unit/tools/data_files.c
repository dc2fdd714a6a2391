/* SPDX-License-Identifier: Apache-2.0 */
/* Files of data sets: gzip of several members, cut off, and far larger than it
 * says, within the budget of what is refused. */
#include "tests/unit/folder.h"
#include "tests/unit/runtime/budget.h"
#include "tools/train/data/data.h"

/* A member of a gzip file: head and then `zeros` zeros. */
static void put_member(const char *name, const char *mode, const void *head,
                       unsigned bytes, size_t zeros)
{
    static const unsigned char none[65536];
    gzFile f = gzopen(in_folder(name), mode);

    assert_non_null(f);
    if (bytes > 0)
        assert_int_equal(gzwrite(f, head, bytes), bytes);
    for (; zeros > 0; zeros -= zeros < sizeof(none) ? zeros : sizeof(none))
        assert_true(
            gzwrite(f, none,
                    (unsigned)(zeros < sizeof(none) ? zeros : sizeof(none))) >
            0);
    assert_int_equal(gzclose(f), Z_OK);
}

static int read_idx(const char *name, struct infer_error *err)
{
    const struct data_wish wish = {.channels = 1, .height = 2, .width = 2};
    struct data_set set;
    int rc = data_open(name, DATA_TRAIN, &wish, err, &set);

    if (rc == 0)
        data_close(&set);
    return rc;
}

#define IMAGES "train-images-idx3-ubyte.gz"
#define LABELS "train-labels-idx1-ubyte.gz"

TEST(test_idx)
{
    /* 16 pictures of 4096 x 4096: 256 MiB. */
    static const unsigned char many[16] = {0, 0, 8,    3, 0, 0, 0,    16,
                                           0, 0, 0x10, 0, 0, 0, 0x10, 0};
    static const unsigned char two[16] = {0, 0, 8, 3, 0, 0, 0, 2,
                                          0, 0, 0, 2, 0, 0, 0, 2};
    static const unsigned char labels[10] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    static const unsigned char sixteen[24] = {0, 0, 8, 1, 0, 0, 0, 16};
    struct budget_result r;

    put_member(LABELS, "wb9", labels, 10, 0);
    put_member(IMAGES, "wb9", two, 16, 8);
    r = budget_measure(read_idx, test_folder);
    assert_int_equal(r.rc, 0);
    /* The same in two members, and with bytes behind them. */
    put_member(IMAGES, "wb9", two, 16, 3);
    put_member(IMAGES, "ab9", NULL, 0, 5);
    r = budget_measure(read_idx, test_folder);
    assert_int_equal(r.rc, 0);
    /* 256 MiB of pictures whose labels are of another set, or cut off. */
    put_member(IMAGES, "wb9", many, 16, (size_t)256 << 20);
    r = budget_measure(read_idx, test_folder);
    r.file = 0;
    assert_int_equal(r.rc, INFER_EFORMAT);
    assert_non_null(strstr(r.err.text, "not of one set"));
    assert_true(budget_holds(&r));
    put_member(LABELS, "wb9", sixteen, 23, 0);
    r = budget_measure(read_idx, test_folder);
    r.file = 0;
    assert_int_equal(r.rc, INFER_EFORMAT);
    assert_non_null(strstr(r.err.text, "cut off"));
    assert_true(budget_holds(&r));
    put_member(LABELS, "wb9", sixteen, 24, 0);
    /* One byte of 256 MiB is missing. */
    put_member(IMAGES, "wb9", many, 16, ((size_t)256 << 20) - 1);
    r = budget_measure(read_idx, test_folder);
    r.file = 0;
    print_message("256 MiB less 1: %.1f MiB, %s\n", (double)r.peak / 1048576,
                  r.err.text);
    assert_int_equal(r.rc, INFER_EFORMAT);
    assert_true(budget_holds(&r));
    /* One byte more, and the end of the file is missing. */
    put_member(IMAGES, "wb9", many, 16, ((size_t)256 << 20) + 1);
    r = budget_measure(read_idx, test_folder);
    assert_int_equal(r.rc, INFER_EFORMAT);
    assert_true(budget_holds(&r));
    assert_int_equal(truncate(in_folder(IMAGES), 1000), 0);
    r = budget_measure(read_idx, test_folder);
    assert_int_equal(r.rc, INFER_EFORMAT);
    assert_non_null(strstr(r.err.text, "cut off"));
    assert_true(budget_holds(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idx)};

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
