/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: statistics, and the reports that are written of them. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "tests/unit/tools/kbench_problem.h"

/* ---- statistics ---------------------------------------------------- */

TEST(test_stats)
{
    double odd[] = {5, 1, 3, 2, 4}, even[] = {4, 1, 3, 2}, one[] = {7};
    struct kb_stats s = kb_stats_of(odd, 5);

    assert_float_equal(s.min, 1, 0);
    assert_float_equal(s.median, 3, 0);
    assert_float_equal(s.p95, 4.8, 1e-12);
    assert_float_equal(s.spread, 2.0 / 3, 1e-12);
    assert_int_equal(s.rounds, 5);
    assert_float_equal(kb_stats_of(even, 4).median, 2.5, 0);
    s = kb_stats_of(one, 1);
    assert_float_equal(s.median, 7, 0);
    assert_float_equal(s.spread, 0, 0);
    assert_int_equal(kb_stats_of(NULL, 0).rounds, 0);
}

static const struct kern_row our_row = {
    .name = "conv_ours", .op = KERN_CONV_FPROP, .backend = INFER_BACKEND_CUDA};
static const struct kern_row baseline_row = {.name = "conv_cudnn",
                                             .op = KERN_CONV_FPROP,
                                             .backend = INFER_BACKEND_CUDNN};

static void add_result(struct kb_case *c, const struct kern_row *row,
                       enum kb_state state, double seconds)
{
    struct kb_result *r = kb_case_add(c);

    assert_non_null(r);
    r->row = row;
    r->side = kb_side_of(row);
    r->state = state;
    r->time = kb_stats_of(&seconds, 1);
    r->launches = 1;
}

/* Two layers of a network and a problem without a baseline. */
static void make_cases(struct kb_cases *cases)
{
    const struct kb_precision *fp32 = kb_precision_find("fp32");
    const struct kern_problem p =
        problem_of("mb1ic64ih56oc64oh56kh3ph1 +bias", "fp32");
    static const double ours[] = {2e-6, 8e-6, 1e-6};

    for (int i = 0; i < 3; i++) {
        struct kb_case *c = kb_cases_add(cases, &p, KB_FPROP, fp32);
        assert_non_null(c);
        snprintf(c->model, sizeof(c->model), "a<b&\"c\"");
        snprintf(c->name, sizeof(c->name), "layer\001 %d", i);
        c->count = i + 1;
        add_result(c, &our_row, KB_TIMED, ours[i]);
        if (i < 2)
            add_result(c, &baseline_row, KB_TIMED, 4e-6);
        /* Neither counts, whatever the time. */
        add_result(c, &baseline_row, KB_WRONG, 1e-9);
        add_result(c, &our_row, KB_FAILED, 1e-9);
        snprintf(c->result[c->n_results - 1].text, 64,
                 "no \"memory\", <sorry>");
        kb_case_judge(c);
    }
}

TEST(test_summary)
{
    struct kb_cases cases = {0};
    struct kb_summary s;

    make_cases(&cases);
    assert_float_equal(cases.item[0].ratio, 2, 1e-12);
    assert_float_equal(cases.item[1].ratio, 0.5, 1e-12);
    assert_float_equal(cases.item[2].ratio, 0, 0);
    assert_int_equal(kb_summarise(&cases, &s), 0);
    assert_int_equal(s.n_groups, 1);
    assert_int_equal(s.all.compared, 2);
    assert_int_equal(s.all.ahead, 1);
    assert_float_equal(s.all.mean, 1, 1e-12);
    assert_float_equal(s.all.ours, 2e-6 + 2 * 8e-6, 1e-15);
    assert_float_equal(s.all.baseline, 3 * 4e-6, 1e-15);
    assert_int_equal(s.n_below, 1);
    assert_int_equal(s.below[0], 1);
    kb_summary_free(&s);
    kb_cases_clear(&cases);
}

TEST(test_floor)
{
    struct kb_cases cases = {0};
    struct kb_peaks peaks = {.memory = {.value = 1e9},
                             .cache = {.value = 4e9},
                             .cache_bytes = 1 << 30};

    make_cases(&cases);
    struct kb_case *c = &cases.item[0];
    peaks.flops[0].value = 1e15;
    kb_peaks_apply(&peaks, true, c);
    assert_true(c->by_bytes);
    assert_float_equal(c->floor, c->bytes / 1e9, 1e-12);
    kb_peaks_apply(&peaks, false, c);
    assert_float_equal(c->floor, c->bytes / 4e9, 1e-12);
    peaks.cache_bytes = 0;
    kb_peaks_apply(&peaks, false, c);
    assert_float_equal(c->floor, c->bytes / 1e9, 1e-12);
    peaks.flops[0].value = 1e9;
    kb_peaks_apply(&peaks, false, c);
    assert_false(c->by_bytes);
    assert_float_equal(c->floor, c->flops / 1e9, 1e-12);
    kb_cases_clear(&cases);
}

/* ---- reports ------------------------------------------------------- */

struct made {
    struct kb_cases cases;
    struct kb_summary summary;
    struct kb_peaks peaks;
    struct kb_machine machine;
    struct kb_request request;
    struct cli cli;
    struct kb_report report;
};

static void make_report(struct made *m)
{
    memset(m, 0, sizeof(*m));
    make_cases(&m->cases);
    m->peaks.flops[0].value = 1e14;
    m->peaks.memory.value = 1e12;
    snprintf(m->machine.device, sizeof(m->machine.device),
             "A <GPU> & more</script>");
    snprintf(m->machine.date, sizeof(m->machine.date), "2026-11-21");
    m->machine.command = "kbench '--problem=\"x\" <&>'";
    m->request.n_precisions = 1;
    m->request.precision[0] = kb_precision_find("fp32");
    m->request.cli = &m->cli;
    for (int i = 0; i < m->cases.count; i++)
        kb_peaks_apply(&m->peaks, false, &m->cases.item[i]);
    assert_int_equal(kb_summarise(&m->cases, &m->summary), 0);
    m->report = (struct kb_report){&m->request, &m->cases,   &m->peaks,
                                   &m->machine, &m->summary, NULL};
}

static void free_report(struct made *m)
{
    kb_summary_free(&m->summary);
    kb_cases_clear(&m->cases);
}

static char *written(void (*write)(const struct kb_report *, FILE *),
                     const struct kb_report *r)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    assert_non_null(f);
    write(r, f);
    fclose(f);
    return text;
}

/* The JSON in the page, parsed.  Nothing of it may look like markup. */
static cJSON *report_in(const char *page)
{
    static const char begin[] =
        "<script type=\"application/json\" id=\"report\">\n";
    const char *from = strstr(page, begin);

    assert_int_equal(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    assert_non_null(from);
    from += sizeof(begin) - 1;
    const char *end = strchr(from, '<');
    assert_non_null(end);
    assert_int_equal(strncmp(end, "</script>\n", 10), 0);
    for (const char *s = from; s < end - 1; s++)
        assert_true((unsigned char)*s >= 32);
    const size_t n = strlen(page);
    assert_true(n > 8 && strcmp(page + n - 8, "</html>\n") == 0);
    assert_null(strstr(page, "@REPORT@"));
    cJSON *json = cJSON_ParseWithLength(from, (size_t)(end - from));
    assert_non_null(json);
    return json;
}

TEST(test_html)
{
    static const char *const outside[] = {"http:",   "https:", " src=", "url(",
                                          "@import", "<link",  " href="};
    struct made m;

    make_report(&m);
    char *page = written(kb_html, &m.report);
    cJSON *json = report_in(page), *same = kb_json(&m.report);
    assert_true(cJSON_Compare(json, same, true));
    assert_string_equal(cJSON_GetObjectItem(json, "device")->valuestring,
                        "A <GPU> & more</script>");
    for (size_t i = 0; i < COUNT(outside); i++)
        assert_null(strstr(page, outside[i]));
    cJSON_Delete(same);
    cJSON_Delete(json);
    free(page);
    free_report(&m);
}

static void write_json(const struct kb_report *r, FILE *f)
{
    cJSON *json = kb_json(r);
    char *text = cJSON_Print(json);

    fputs(text, f);
    cJSON_free(text);
    cJSON_Delete(json);
}

/* A run against what it wrote itself, with times changed. */
TEST(test_compare)
{
    char path[] = "/tmp/kbench-test-XXXXXX";
    struct infer_error err = {0};
    struct kb_change change;
    struct made m;

    make_report(&m);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    write_json(&m.report, f);
    assert_int_equal(fclose(f), 0);
    /* Problems that are the same line take the first of the file. */
    snprintf(m.cases.item[1].text, sizeof(m.cases.item[1].text), "another");
    assert_int_equal(kb_compare(path, true, &m.cases, &err), INFER_EFORMAT);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), 0);
    assert_float_equal(m.cases.item[0].before, 2e-6, 1e-12);
    assert_float_equal(m.cases.item[1].before, 0, 0);
    assert_float_equal(m.cases.item[2].before, 2e-6, 1e-12);
    m.cases.item[0].result[m.cases.item[0].best[KB_OURS]].time.median = 8e-6;
    assert_int_equal(kb_change_of(&m.cases, &change), 0);
    assert_int_equal(change.count, 2);
    assert_int_equal(change.n_moved, 2); /* 1/4 and 2 times as fast */
    assert_int_equal(change.n_slower, 1);
    assert_int_equal(change.moved[0], 0);
    assert_float_equal(change.mean, sqrt(0.5), 1e-9);
    m.report.change = &change;
    m.request.before = path;
    char *page = written(kb_html, &m.report);
    cJSON *json = report_in(page);
    assert_string_equal(cJSON_GetObjectItem(json, "compared_with")->valuestring,
                        path);
    const cJSON *first =
        cJSON_GetArrayItem(cJSON_GetObjectItem(json, "problems"), 0);
    assert_float_equal(cJSON_GetObjectItem(first, "before_us")->valuedouble, 2,
                       1e-9);
    cJSON_Delete(json);
    free(page);
    kb_change_free(&change);
    f = fopen(path, "w");
    fputs("{\"kbench\":true}", f);
    fclose(f);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), INFER_EFORMAT);
    unlink(path);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), INFER_EIO);
    free_report(&m);
}

TEST(test_json)
{
    struct made m;

    make_report(&m);
    char *text = written(write_json, &m.report);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    const cJSON *list = cJSON_GetObjectItem(json, "problems");
    assert_int_equal(cJSON_GetArraySize(list), 3);
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    assert_float_equal(cJSON_GetObjectItem(first, "ratio")->valuedouble, 2,
                       1e-9);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "kernels")),
                     4);
    cJSON_Delete(json);
    free(text);
    free_report(&m);
}

/* Fields of one line, quotes understood. */
static int count_fields(const char **at)
{
    bool quoted = false;
    int n = 1;

    for (; **at && (**at != '\n' || quoted); (*at)++) {
        if (**at == '"')
            quoted = !quoted;
        n += **at == ',' && !quoted;
    }
    assert_false(quoted);
    *at += **at == '\n';
    return n;
}

TEST(test_csv)
{
    struct made m;
    int lines = 0;

    make_report(&m);
    char *text = written(kb_csv, &m.report);
    const char *at = text;
    const int fields = count_fields(&at);
    assert_int_equal(fields, 24);
    for (; *at; lines++)
        assert_int_equal(count_fields(&at), fields);
    assert_int_equal(lines, 11);
    free(text);
    free_report(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats),   cmocka_unit_test(test_summary),
        cmocka_unit_test(test_floor),   cmocka_unit_test(test_html),
        cmocka_unit_test(test_compare), cmocka_unit_test(test_json),
        cmocka_unit_test(test_csv),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
