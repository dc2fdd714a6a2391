/* SPDX-License-Identifier: Apache-2.0 */
/* The HDF5 reader: values against h5py, refusals by name, damaged files.
 *
 * The seeds of tests/data are always read and damaged.  TEST_DATA adds the
 * published malformed files and real ones; HDF5_FILES names a folder that
 * tests/make/hdf5_files.py filled. */
#include "tests/unit/graph/data.h"

#include <math.h>
#include <stdbool.h>
#include <time.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "tests/unit/weights/hdf5_walk.h"

#define SEEDS SOURCE_DIR "/tests/data/"

/* ---- files --------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- lines of expected values -------------------------------------- */

/* Each line is "FILE PATH KIND TYPE (SHAPE) SUM", or "... strings N SUM". */
struct lines {
    char **line;
    size_t count;
    bool *used;
};

static struct lines read_lines(const char *path)
{
    struct lines l = {NULL, 0, NULL};
    struct data_bytes b = data_read(path);
    size_t capacity = 0;
    char *save = NULL;

    for (char *p = strtok_r((char *)b.data, "\n", &save); p != NULL;
         p = strtok_r(NULL, "\n", &save)) {
        if (*p == '#')
            continue;
        if (l.count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            l.line = realloc(l.line, capacity * sizeof *l.line);
            assert_non_null(l.line);
        }
        l.line[l.count++] = strdup(p);
    }
    l.used = calloc(l.count + 1, sizeof *l.used);
    free(b.data);
    return l;
}

static void free_lines(struct lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->line[i]);
    free(l->line);
    free(l->used);
}

struct check {
    const char *file;
    struct lines *expected;
    bool datasets_only;
    int wrong;
};

/* The words before the sum must be the same, the sum nearly. */
static bool matches(const char *got, const char *expected)
{
    const char *a = strrchr(got, ' '), *b = strrchr(expected, ' ');

    if (a - got != b - expected || strncmp(got, expected, (size_t)(a - got)))
        return false;
    const double x = atof(a), y = atof(b);
    return fabs(x - y) <= 1e-6 * fmax(1, fabs(y)) || (x != x && y != y);
}

static void compare_line(struct check *c, const char *got)
{
    const size_t key =
        (size_t)(strstr(got, " dataset ") ? strstr(got, " dataset ") - got
                                          : strstr(got, " attribute ") - got);

    for (size_t i = 0; i < c->expected->count; i++) {
        const char *e = c->expected->line[i];
        if (strncmp(e, got, key) != 0 || e[key] != ' ')
            continue;
        c->expected->used[i] = true;
        if (!matches(got, e)) {
            print_error("got      %s\nexpected %s\n", got, e);
            c->wrong++;
        }
        return;
    }
    print_error("not expected: %s\n", got);
    c->wrong++;
}

static void seen(struct walk *w, const char *kind,
                 const struct constant *numbers,
                 const struct hdf5_strings *strings)
{
    struct check *c = w->user;
    char line[8192];
    size_t n;

    if (c->datasets_only && (strcmp(kind, "attribute") == 0 ||
                             strncmp(w->path, "/optimizer", 10) == 0))
        return;
    n = (size_t)snprintf(line, 5000, "%s %s %s ", c->file, w->path, kind);
    if (numbers != NULL) {
        double sum = 0;
        n += (size_t)snprintf(line + n, 100, "%s (",
                              infer_dtype_name(numbers->dtype));
        for (int i = 0; i < numbers->rank; i++)
            n += (size_t)snprintf(line + n, 100, "%s%lld", i ? "," : "",
                                  (long long)numbers->dim[i]);
        for (int64_t i = 0; i < constant_count(numbers); i++)
            sum += scalar_load(numbers->dtype, numbers->data, i) *
                   (double)(1 + i % 7);
        snprintf(line + n, 100, ") %.9g", sum);
    } else {
        size_t sum = 0;
        for (size_t i = 0; i < strings->count; i++)
            for (size_t k = 0; k < strings->bytes[i]; k++)
                sum += (unsigned char)strings->text[i][k] * (1 + k % 7);
        snprintf(line + n, 200, "strings %zu %zu", strings->count, sum);
    }
    compare_line(c, line);
}

static void check_file(const char *path, struct lines *expected,
                       bool datasets_only)
{
    struct check c = {base_name(path), expected, datasets_only, 0};
    struct walk w = {.seen = seen, .user = &c};
    struct infer_error err = {0};
    struct data_bytes b = data_read(path);
    const int rc = walk_bytes(b.data, b.bytes, &w, &err);

    free(b.data);
    if (rc < 0)
        fail_msg("%s: %s", path, err.text);
    if (c.wrong)
        fail_msg("%s: %d lines differ", path, c.wrong);
}

/* Every expected line of these files was seen, but what only h5py can read. */
static void check_all_used(const struct lines *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (!l->used[i] && strstr(l->line[i], "/lzf ") == NULL &&
            strstr(l->line[i], "/scaled ") == NULL)
            fail_msg("not read: %s", l->line[i]);
}

TEST(test_seeds)
{
    struct lines l = read_lines(SEEDS "seeds.txt");

    check_file(SEEDS "seed_earliest.h5", &l, true);
    check_file(SEEDS "seed_latest.h5", &l, true);
    check_all_used(&l);
    free_lines(&l);
}

TEST(test_real_files)
{
    static const char *const files[] = {
        "weights/keras-mini-xception/fer2013_mini_XCEPTION.102-0.66.hdf5",
        "weights/keras-mini-xception/gender_mini_XCEPTION.21-0.95.hdf5",
        "weights/keras-mlperf-tiny/pretrainedResnet.h5",
        "weights/keras-mnist-cnn/mnist_cnn.h5",
        ("weights/keras-squeezenet/"
         "squeezenet_weights_tf_dim_ordering_tf_kernels_notop.h5"),
        "hdf5-malformed/h5py-valid/compound-dtype-complex.h5",
        "hdf5-malformed/h5py-valid/vlen_string_dset.h5",
        "hdf5-malformed/libmysofa/tester.sofa",
        "hdf5-malformed/libmysofa/tester2.sofa"};
    char path[COUNT(files)][4096];

    for (size_t i = 0; i < COUNT(files); i++)
        REQUIRE_DATA(files[i], path[i]); /* skips: nothing is held yet */
    struct lines l = read_lines(SOURCE_DIR "/tests/expected/hdf5.txt");
    for (size_t i = 0; i < COUNT(files); i++)
        check_file(path[i], &l, true);
    check_all_used(&l);
    free_lines(&l);
}

TEST(test_made_files)
{
    const char *folder = getenv("HDF5_FILES");
    struct dirent **names;
    char path[4096];

    if (folder == NULL) {
        print_message("skipped: HDF5_FILES is not set "
                      "(tests/make/hdf5_files.py)\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    struct lines l = read_lines(path);
    const int n = scandir(folder, &names, NULL, alphasort);
    int files = 0;
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (dot != NULL && strcmp(dot, ".h5") == 0) {
            check_file(path, &l, false);
            files++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(files > 15);
    check_all_used(&l);
    free_lines(&l);
}

/* ---- refusals ------------------------------------------------------ */

static struct hdf5_file *open_file(const char *path, struct infer_error *err)
{
    struct data_bytes b = data_read(path);
    struct blob *blob = blob_new(b.data, b.bytes);
    struct hdf5_file *f = NULL;

    assert_non_null(blob);
    if (hdf5_open(blob, b.data, b.bytes, err, &f) < 0)
        f = NULL;
    blob_unref(blob);
    return f;
}

/* Reads one dataset by its path. */
static int read_dataset(struct hdf5_file *f, const char *path,
                        struct infer_error *err)
{
    struct constant *c = NULL;
    struct hdf5_dataset d;
    uint64_t address;
    int rc = hdf5_find(f, hdf5_root(f), path, err, &address);

    if (rc == 1)
        rc = hdf5_dataset_open(f, address, err, &d);
    else if (rc == 0)
        return error_set(err, INFER_EARGUMENT, "absent");
    if (rc == 0)
        rc = hdf5_dataset_numbers(f, &d, err, &c);
    constant_unref(c);
    return rc;
}

TEST(test_refusals)
{
    static const struct {
        const char *path;
        int code;
        const char *word;
    } cases[] = {{"soft", INFER_EUNSUPPORTED, "soft link"},
                 {"external", INFER_EUNSUPPORTED, "external link"},
                 {"compound", INFER_EUNSUPPORTED, "compound"},
                 {"vlen", INFER_EUNSUPPORTED, "variable-length"},
                 {"reference", INFER_EUNSUPPORTED, "reference"},
                 {"opaque", INFER_EUNSUPPORTED, "opaque"},
                 {"lzf", INFER_EUNSUPPORTED, "lzf"},
                 {"scale", INFER_EUNSUPPORTED, "scale-offset"},
                 {"bomb", INFER_EMEMORY, "limit"},
                 {"large", INFER_EMEMORY, "limit"},
                 {"rank9", INFER_EUNSUPPORTED, "rank 9"},
                 {"files", INFER_EUNSUPPORTED, "external files"},
                 {"virtual", INFER_EUNSUPPORTED, "virtual dataset"},
                 {"absent", INFER_EARGUMENT, "absent"},
                 {"../x", INFER_EFORMAT, "'..'"},
                 {"./x", INFER_EFORMAT, "'.'"},
                 {"/zeros", INFER_EFORMAT, "empty name"},
                 {"zeros", 0, ""},
                 {"zeros", INFER_EMEMORY, "after 33554432"}};
    struct infer_error err = {0};
    struct hdf5_file *f = open_file(SEEDS "refused.h5", &err);

    assert_non_null(f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        err.text[0] = '\0';
        const int rc = read_dataset(f, cases[i].path, &err);
        if (rc != cases[i].code || strstr(err.text, cases[i].word) == NULL)
            fail_msg("%s: %d, '%s'", cases[i].path, rc, err.text);
    }
    hdf5_close(f);
}

/* ---- damage -------------------------------------------------------- */

static int walk_quietly(const void *data, size_t bytes)
{
    struct infer_error err = {0};
    struct walk w = {0};
    const int rc = walk_bytes(data, bytes, &w, &err);

    if (rc < 0 && err.text[0] == '\0')
        fail_msg("refused with %d and without a word", rc);
    return rc;
}

TEST(test_truncated)
{
    static const char *const seeds[] = {"seed_earliest.h5", "seed_latest.h5"};

    for (size_t s = 0; s < 2; s++) {
        char path[4096];
        snprintf(path, sizeof path, SEEDS "%s", seeds[s]);
        struct data_bytes b = data_read(path);
        assert_int_equal(walk_quietly(b.data, b.bytes), 0);
        /* The superblock states the length: any shorter file is refused. */
        for (size_t n = 0; n < b.bytes; n += n < 2048 ? 1 : 7)
            if (walk_quietly(b.data, n) >= 0)
                fail_msg("%s cut to %zu bytes was read", seeds[s], n);
        free(b.data);
    }
}

TEST(test_flipped)
{
    static const char *const seeds[] = {"seed_earliest.h5", "seed_latest.h5"};

    for (size_t s = 0; s < 2; s++) {
        char path[4096];
        int refused = 0;
        snprintf(path, sizeof path, SEEDS "%s", seeds[s]);
        struct data_bytes b = data_read(path);
        for (size_t bit = 0; bit < b.bytes * 8; bit += bit < 32768 ? 1 : 13) {
            b.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            refused += walk_quietly(b.data, b.bytes) < 0;
            b.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_true(refused > 500);
        free(b.data);
    }
}

/* Overwrites bytes at an offset from the n-th place of a word. */
static struct data_bytes patched(const char *path, const char *word, int nth,
                                 size_t offset, const void *bytes, size_t count)
{
    struct data_bytes b = data_read(path);
    const size_t n = strlen(word);

    for (size_t i = 0; i + n + offset + count <= b.bytes; i++) {
        if (memcmp(b.data + i, word, n) != 0 || nth-- > 0)
            continue;
        memcpy(b.data + i + offset, bytes, count);
        return b;
    }
    fail_msg("no '%s' in %s", word, path);
    return b;
}

/* Faults that a plain reader follows into a loop or out of the file. */
TEST(test_faults)
{
    static const struct {
        const char *word;
        int nth;
        size_t offset;
        const char *bytes;
        size_t count;
        int code;
    } cases[] = {
        {"\x89HDF", 0, 8, "\x04", 1, INFER_EUNSUPPORTED},
        {"\x89HDF", 0, 8, "\xff", 1, INFER_EUNSUPPORTED},
        {"\x89HDF", 0, 13, "\x03", 1, INFER_EFORMAT},
        {"\x89HDF", 0, 13, "\x10", 1, INFER_EUNSUPPORTED},
        {"\x89HDF", 0, 14, "\x00", 1, INFER_EFORMAT},
        {"\x89HDF", 0, 24, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8,
         INFER_EFORMAT}, /* base address */
        {"\x89HDF", 0, 40, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8,
         INFER_EFORMAT},                              /* end */
        {"\x89HDF", 0, 64, "\x00", 1, INFER_EFORMAT}, /* root in superblock */
        {"TREE", 0, 5, "\x01", 1, INFER_EFORMAT},     /* level */
        {"TREE", 0, 5, "\xff", 1, INFER_EFORMAT},
        {"TREE", 0, 6, "\xff\x00", 2, INFER_EFORMAT}, /* entries */
        {"TREE", 0, 4, "\x01", 1, INFER_EFORMAT},     /* type */
        {"SNOD", 0, 6, "\xff\xff", 2, INFER_EFORMAT}, /* symbols */
        {"HEAP", 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, INFER_EFORMAT},
        {"HEAP", 0, 24, "\xff\xff\xff\xff\xff\xff\xff\x0f", 8, INFER_EFORMAT},
        {"HEAP", 0, 8, "\x01\x00", 2, INFER_EFORMAT}, /* segment size */
        {"GCOL", 0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, INFER_EFORMAT},
        {"GCOL", 0, 8, "\x08\x00\x00\x00", 4, INFER_EFORMAT},
        {"GCOL", 0, 16, "\x77", 1, INFER_EFORMAT}, /* object index */
        /* Element sizes of a shuffle: none, and more than the chunk, which
         * shuffles nothing (and once took a while to do so). */
        {"shuffle", 0, 8, "\x00\x00\x00\x00", 4, INFER_EFORMAT},
        {"shuffle", 0, 8, "\xff\xff\xff\xff", 4, 0},
        {"GCOL", 0, 24, "\xff\xff", 2, INFER_EFORMAT} /* object size */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct data_bytes b =
            patched(SEEDS "seed_earliest.h5", cases[i].word, cases[i].nth,
                    cases[i].offset, cases[i].bytes, cases[i].count);
        const int rc = walk_quietly(b.data, b.bytes);
        if (rc != cases[i].code)
            fail_msg("case %zu (%s+%zu): %d", i, cases[i].word + 1,
                     cases[i].offset, rc);
        free(b.data);
    }
}

/* A B-tree whose only child is itself, one level after the other. */
TEST(test_tree_cycle)
{
    struct data_bytes b =
        patched(SEEDS "seed_earliest.h5", "TREE", 0, 5, "\x01", 1);
    unsigned char *tree = NULL;

    for (size_t i = 0; i + 4 < b.bytes && tree == NULL; i++)
        if (memcmp(b.data + i, "TREE", 4) == 0)
            tree = b.data + i;
    const uint64_t at = (uint64_t)(tree - b.data);
    for (int i = 0; i < 8; i++)
        tree[24 + 8 + i] = (unsigned char)(at >> 8 * i); /* child 0 */
    assert_int_equal(walk_quietly(b.data, b.bytes), INFER_EFORMAT);
    free(b.data);
}

TEST(test_not_hdf5)
{
    unsigned char zeros[4096] = {0};

    assert_int_equal(walk_quietly(zeros, 0), INFER_EFORMAT);
    assert_int_equal(walk_quietly(zeros, sizeof zeros), INFER_EFORMAT);
    assert_false(hdf5_probe(zeros, sizeof zeros));
    memcpy(zeros + 512, "\x89HDF\r\n\x1a\n", 8);
    assert_true(hdf5_probe(zeros, sizeof zeros));
    assert_int_equal(walk_quietly(zeros, sizeof zeros), INFER_EFORMAT);
    /* At no other place. */
    assert_false(hdf5_probe(zeros + 8, sizeof zeros - 8));
}

/* ---- published malformed files ------------------------------------- */

struct malformed {
    int files, refused, unsupported;
};

static void one_malformed(const char *path, void *user)
{
    struct malformed *m = user;
    struct infer_error err = {0};
    struct data_bytes b = data_read(path);
    struct walk w = {0};
    const clock_t before = clock();
    const int rc = walk_bytes(b.data, b.bytes, &w, &err);
    const double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;

    m->files++;
    m->refused += rc < 0;
    m->unsupported += rc == 0 && w.unsupported > 0;
    /* Four seconds, because sanitizers and other work slow it down. */
    if (seconds > 4)
        fail_msg("%s took %.1f s", path, seconds);
    free(b.data);
}

/* All were made to crash or hang a reader.  Where the fault lies in what this
 * reader never looks at (times, free lists, references, compound types), the
 * rest is read; a change of these numbers wants a reason. */
TEST(test_published)
{
    struct malformed m = {0};
    char path[4096];

    REQUIRE_DATA("hdf5-malformed/cvefiles", path);
    walk_files(path, one_malformed, &m);
    print_message("%d files: %d refused, %d with parts refused\n", m.files,
                  m.refused, m.unsupported);
    assert_int_equal(m.files, 91);
    assert_int_equal(m.refused, 62);
    assert_int_equal(m.unsupported, 26);
}

static void one_fuzzed(const char *path, void *user)
{
    if (strstr(path, "fail-issue") == NULL)
        return;
    struct data_bytes b = data_read(path);
    *(int *)user += walk_quietly(b.data, b.bytes) == INFER_EFORMAT;
    free(b.data);
}

TEST(test_fuzzed)
{
    char path[4096];
    int refused = 0;

    REQUIRE_DATA("hdf5-malformed/libmysofa", path);
    walk_files(path, one_fuzzed, &refused);
    assert_int_equal(refused, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),      cmocka_unit_test(test_real_files),
        cmocka_unit_test(test_made_files), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_faults),     cmocka_unit_test(test_tree_cycle),
        cmocka_unit_test(test_not_hdf5),   cmocka_unit_test(test_published),
        cmocka_unit_test(test_fuzzed)};

    return cmocka_run_group_tests_name("hdf5", tests, NULL, NULL);
}
