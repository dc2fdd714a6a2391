/* SPDX-License-Identifier: Apache-2.0 */
/* Several files of one result: all are replaced, or none. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

#include "kernels/base/file_write.h"
#include "tests/unit/folder.h"

enum { FILES = 3 };
static const char *const names[FILES] = {"a", "b", "c"};

static void open_all(struct file_writer w[FILES])
{
    struct infer_error err;

    for (int i = 0; i < FILES; i++) {
        assert_int_equal(file_writer_open(in_folder(names[i]), &err, &w[i]), 0);
        assert_int_equal(file_writer_put(&w[i], 0, "new", 3, &err), 0);
    }
}

/* The text of a file, "" if there is none. */
static const char *text_of(const char *name)
{
    static char text[16];
    FILE *f = fopen(in_folder(name), "r");

    memset(text, 0, sizeof(text));
    if (f) {
        assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
        fclose(f);
    }
    return text;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Only the given number of names is in the folder: no temporary file. */
static void expect_names(int wanted)
{
    char command[128];

    snprintf(command, sizeof(command), "[ $(ls %s | wc -l) = %d ]", test_folder,
             wanted);
    assert_int_equal(system(command), 0);
}

static void remove_all(void)
{
    for (int i = 0; i < FILES; i++) {
        unlink(in_folder(names[i]));
        rmdir(in_folder(names[i]));
    }
}

TEST(all_are_replaced)
{
    struct file_writer w[FILES];
    struct infer_error err;

    put("b", "old");
    open_all(w);
    assert_int_equal(file_writers_commit(w, FILES, true, &err), 0);
    for (int i = 0; i < FILES; i++)
        assert_string_equal(text_of(names[i]), "new");
    expect_names(FILES);
    remove_all();
}

/* The last rename fails, because a folder came in between: what was renamed
 * before goes back, and what was not there is not there. */
TEST(none_is_replaced)
{
    struct file_writer w[FILES];
    struct infer_error err;

    put("a", "old");
    open_all(w);
    assert_int_equal(mkdir(in_folder("c"), 0700), 0);
    assert_int_equal(file_writers_commit(w, FILES, true, &err), INFER_EIO);
    assert_non_null(strstr(err.text, "cannot rename"));
    assert_string_equal(text_of("a"), "old");
    assert_string_equal(text_of("b"), "");
    expect_names(2);
    remove_all();
}

/* The folder is gone before the files have names. */
TEST(no_folder)
{
    struct file_writer w;
    struct infer_error err;
    const char *folder = in_folder("f");

    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(file_writer_open(in_folder("f/a"), &err, &w), 0);
    rmdir(in_folder("f"));
    if (w.temporary != NULL) /* no O_TMPFILE here: the folder is not empty */
        file_writer_abort(&w);
    else
        assert_int_equal(file_writer_commit(&w, &err), INFER_EIO);
    rmdir(in_folder("f"));
    expect_names(0);
}

TEST(names_that_are_refused)
{
    struct file_writer w;
    struct infer_error err;

    assert_int_equal(file_writer_open("", &err, &w), INFER_EARGUMENT);
    assert_int_equal(file_writer_open("/dev/null", &err, &w), INFER_EIO);
    assert_int_equal(file_writer_open(in_folder("none/a"), &err, &w),
                     INFER_EIO);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_equal(file_writer_open(in_folder("loop"), &err, &w), INFER_EIO);
    unlink(in_folder("loop"));
}

/* A link stays, and what it names is replaced; permissions stay. */
TEST(links_are_followed)
{
    struct file_part part = {"new", 3};
    struct infer_error err;
    struct stat st;

    put("a", "old");
    assert_int_equal(chmod(in_folder("a"), 0640), 0);
    assert_int_equal(symlink("a", in_folder("b")), 0);
    assert_int_equal(file_replace(in_folder("b"), &part, 1, true, &err), 0);
    assert_string_equal(text_of("a"), "new");
    assert_int_equal(lstat(in_folder("b"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(in_folder("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    expect_names(2);
    remove_all();
}

/* Temporary files of dead processes go after a minute, others stay. */
TEST(stale_files)
{
    static const char *const stale[] = {"a.999999999.0.tmp",
                                        "a.999999999.1.tmp"};
    struct file_part part = {"new", 3};
    struct infer_error err;
    char command[160];

    put(stale[0], "x");
    put(stale[1], "x");
    snprintf(command, sizeof(command), "touch -d '2 minutes ago' %s",
             in_folder(stale[0]));
    assert_int_equal(system(command), 0);
    assert_int_equal(file_replace(in_folder("a"), &part, 1, false, &err), 0);
    assert_string_equal(text_of(stale[0]), "");
    assert_string_equal(text_of(stale[1]), "x");
    unlink(in_folder(stale[1]));
    remove_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_replaced),
        cmocka_unit_test(none_is_replaced),
        cmocka_unit_test(no_folder),
        cmocka_unit_test(names_that_are_refused),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(stale_files),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
