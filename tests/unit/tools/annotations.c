/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's annotations: what is read of them, the words of what is refused, and
 * the memory that refused files take. */
#include "tests/unit/folder.h"
#include "tests/unit/runtime/budget.h"
#include "tools/infer/coco_file.h"

static void write_text(const char *text, size_t bytes)
{
    FILE *f = fopen(in_folder("a.json"), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static int read_text(const char *text, struct infer_error *err,
                     struct coco_file *f)
{
    write_text(text, strlen(text));
    return coco_file_read(in_folder("a.json"), err, f);
}

static int read_file(const char *path, struct infer_error *err)
{
    struct coco_file f;
    const int rc = coco_file_read(path, err, &f);

    coco_file_clear(&f);
    return rc;
}

#define IMAGES                                                                 \
    "\"images\":[{\"id\":9,\"file_name\":\"b\"},{\"id\":-2,\"file_name\":"     \
    "\"a\"}]"
#define CATEGORIES "\"categories\":[{\"name\":\"c\",\"id\":1}]"
#define TRUTH(members)                                                         \
    "{" IMAGES "," CATEGORIES ",\"annotations\":[{" members "}]}"
#define IDS "\"image_id\":9,\"category_id\":1"

/* Lists in any order, members that nobody reads, white space, escapes. */
TEST(test_read)
{
    struct infer_error err;
    struct coco_file f;

    assert_int_equal(
        read_text("\n { \"info\" : {\"a\":[\"]}\\\"\"]} ,\"x\":null,"
                  "\"annotations\" : [ {\"bbox\":[1,2,3,4.5]," IDS "} , "
                  "{\"bbox\":[0,0,1,1],\"image_id\":-2,\"category_id\":1,"
                  "\"iscrowd\":1,\"area\":0.5},"
                  "{\"bbox\":[0,0,1,1],\"image_id\":3,\"category_id\":1},"
                  "{\"bbox\":[0,0,1,1],\"image_id\":9,\"category_id\":2}],"
                  "\"n\":-1e3," CATEGORIES " , " IMAGES " } \n",
                  &err, &f),
        0);
    assert_int_equal(f.images.count, 2);
    assert_string_equal(f.images.item[0].name, "a");
    assert_string_equal(f.images.item[1].name, "b");
    /* Those of an image or a category that is not listed are left out. */
    assert_int_equal(f.n_truth, 2);
    assert_int_equal(f.truth[0].image, 1);
    assert_true(f.truth[0].area == 13.5 && !f.truth[0].crowd);
    assert_int_equal(f.truth[1].image, 0);
    assert_true(f.truth[1].area == 0.5 && f.truth[1].crowd);
    coco_file_clear(&f);
}

TEST(test_refused)
{
    static const struct {
        const char *text, *words;
    } row[] = {
        {"", "no JSON object"},
        {"[1]", "no JSON object"},
        {"{1:2}", "no JSON object"},
        {"{\"a", "no JSON object"},
        {"{\"a\\", "no JSON object"},
        {"{\"a\" 1}", "no ':' behind a key"},
        {"{\"a\":[1", "a value has no end"},
        {"{\"a\":[\"", "a value has no end"},
        {"{\"a\":,}", "a value has no end"},
        {"{\"a\":}", "a value has no end"},
        {"{\"a\":1 2}", "no comma behind a value"},
        {"{\"a\":1}x", "text behind the JSON object"},
        {"{}", "no list \"images\""},
        {"{\"images\":{}}", "no list \"images\""},
        {"{\"images\":[],\"images\":[]}", "stands there twice"},
        {"{\"images\":[[1", "the list has no end"},
        {"{\"images\":[", "the list has no end"},
        {"{\"images\":[1]}", "\"images\", element 0: no whole number 'id'"},
        {"{\"images\":[{\"id\":1}]}", "no 'file_name'"},
        {"{\"images\":[{\"id\":.5,\"file_name\":\"a\"}]}", "element 0: JSON"},
        {"{\"images\":[{\"id\":1e17,\"file_name\":\"a\"}]}", "'id'"},
        {"{" IMAGES ",\"categories\":[{\"id\":1,\"name\":\"a\"},1]}",
         "\"categories\", element 1"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"a\"}{}]}",
         "no comma behind element 0"},
        {"{\"images\":[]," CATEGORIES ",\"annotations\":[]}", "0 images"},
        {"{" IMAGES ",\"categories\":[],\"annotations\":[]}", "0 categories"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"a\"},{\"id\":1,"
         "\"file_name\":\"b\"}]," CATEGORIES ",\"annotations\":[]}",
         "two of the images have id 1"},
        {TRUTH(IDS), "'bbox' is not"},
        {TRUTH("\"bbox\":[1,2,3]," IDS), "'bbox' is not"},
        {TRUTH("\"bbox\":[1,2,3,4,5]," IDS), "'bbox' is not"},
        {TRUTH("\"bbox\":[1,2,3,NaN]," IDS), "'bbox' is not"},
        {TRUTH("\"bbox\":[1,2,3,4],\"image_id\":9"), "no whole number"},
        {TRUTH("\"bbox\":[1,2,3,4],\"image_id\":9,\"category_id\":\"1\""),
         "no whole number"},
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        struct infer_error err;
        struct coco_file f;

        assert_int_equal(read_text(row[i].text, &err, &f), INFER_EFORMAT);
        if (!strstr(err.text, row[i].words))
            fail_msg("%s: %s", row[i].text, err.text);
        coco_file_clear(&f);
    }
}

/* A NUL, behind which nothing would be read. */
TEST(test_nul)
{
    static const char text[] = "{" IMAGES "," CATEGORIES ",\"annotations\":[]}";
    struct infer_error err;

    write_text(text, sizeof(text));
    assert_int_equal(read_file(in_folder("a.json"), &err), INFER_EFORMAT);
    assert_int_equal(read_file(in_folder("none.json"), &err), INFER_EIO);
}

/* ---- memory -------------------------------------------------------- */

/* Writes head, n times the element with commas between, and tail. */
static void write_many(const char *head, const char *element, size_t n,
                       const char *tail)
{
    FILE *f = fopen(in_folder("many.json"), "wb");

    assert_non_null(f);
    fputs(head, f);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? "," : "", f);
        fputs(element, f);
    }
    fputs(tail, f);
    assert_int_equal(fclose(f), 0);
}

TEST(test_memory)
{
    static const struct {
        const char *head, *element, *tail, *words;
        size_t n;
    } row[] = {
        {"{\"images\":[", "{\"id\":1,\"file_name\":\"\"}", "]}",
         "more elements than the limit", 2000000},
        {"{\"annotations\":[",
         "{\"bbox\":[1,1,1,1],\"image_id\":1,\"category_id\":1}", "]}",
         "more elements than the limit", 2000000},
        {"{\"annotations\":[{\"a\":[", "1", "]}]}",
         "more values than the limit", 5000000},
        {"{\"a\":[", "[]", "]}", "no list \"images\"", 5000000},
    };

    if (!BUDGET_MEASURED)
        skip();
    for (size_t i = 0; i < COUNT(row); i++) {
        struct budget_result r;

        write_many(row[i].head, row[i].element, row[i].n, row[i].tail);
        r = budget_measure(read_file, in_folder("many.json"));
        print_message("| %zu of %s | %llu bytes | %.1f MiB |\n", row[i].n,
                      row[i].element, (unsigned long long)r.file,
                      (double)r.peak / 1048576);
        assert_int_equal(r.rc, INFER_EFORMAT);
        assert_non_null(strstr(r.err.text, row[i].words));
        assert_true(budget_holds(&r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
