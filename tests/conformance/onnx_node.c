/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ONNX project's own operator tests, through the reader and the session.
 *
 * Every folder of TEST_DATA/onnx-tests is one case: a model of (mostly) one
 * node, inputs and the outputs that it must give.  A case passes, is refused
 * with a reason, or fails.  Operators of the reader's table must pass; what it
 * does not read must be refused, not miscomputed.
 *
 *     onnx_node [--markdown] [--all] [NAME...]
 *
 * --markdown prints the tables for tests/results/onnx-node-tests.md; --all
 * lists the cases that passed too; NAMEs select cases.
 *
 * The tests feed everything as an input, also what a converter must know
 * beforehand (target shapes, axes, pads).  Where the reader says that such an
 * input must be constant, the case runs again with the inputs but the first,
 * and at last with all of them, as initializers; the table says so.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/scalar.h"
#include "libinfer/model/model.h"
#include "tests/conformance/tensor.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/onnx/onnx.h"
#include "weights/passes.h"
#include "weights/weights.h"

#define MAX_ARRAYS   64
#define REPORT_BYTES 512

extern const struct weights_format weights_format_onnx;

/* ---- expected refusals --------------------------------------------- */

/* Cases of operators that are read, in a form that is not: why. */
static const struct {
    const char *name, *why;
} refusals[] = {
    {"test_training_dropout_default", "random results"},
    {"test_training_dropout_default_mask", "random results"},
    {"test_equal_string", "strings"},
    {"test_reduce_max_empty_set", "empty tensors"},
    {"test_reduce_min_empty_set", "empty tensors"},
};

/* Doubles are computed in single precision; the numbers of these cases (up to
 * 1e223) have no single-precision counterpart. */
static const char *const beyond_float[] = {
    "test_operator_add_broadcast",
    "test_operator_add_size1_right_broadcast",
    "test_operator_add_size1_singleton_broadcast",
};

static bool may_be_refused(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (strcmp(refusals[i].name, name) == 0)
            return true;
    return false;
}

static bool is_beyond_float(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(beyond_float) / sizeof(beyond_float[0]); i++)
        if (strcmp(beyond_float[i], name) == 0)
            return true;
    return false;
}

/* ---- results ------------------------------------------------------- */

enum outcome { PASSED, REFUSED, BEYOND, FAILED, OUTCOMES };

struct result {
    char *set, *name;
    char ops[128]; /* operators, joined by a space */
    bool known;    /* all of them are in the reader's table */
    enum outcome outcome;
    int bound; /* inputs that became initializers: 0, 1 (but the first), 2 */
    char text[REPORT_BYTES];
};

static struct result *results;
static size_t n_results;

static void *need(void *p)
{
    if (!p) {
        fprintf(stderr, "onnx_node: out of memory\n");
        exit(99);
    }
    return p;
}

static struct result *add_result(const char *set, const char *name)
{
    struct result *r;

    results = need(realloc(results, (n_results + 1) * sizeof(*results)));
    r = &results[n_results++];
    memset(r, 0, sizeof(*r));
    r->set = need(strdup(set));
    r->name = need(strdup(name));
    return r;
}

/* ---- tensors ------------------------------------------------------- */

/* 1e-3 of the value and 1e-7 are what the project's own runner allows
 * (onnx.backend.test.runner). */
static bool close_enough(double got, double want, bool exact)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (exact || isinf(want) || isinf(got))
        return got == want;
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

static bool same_shape(const struct infer_array *got,
                       const struct constant *want)
{
    int d;

    if (got->rank != want->rank)
        return false;
    for (d = 0; d < want->rank; d++)
        if (got->dim[d] != want->dim[d])
            return false;
    return true;
}

/* True for a result with room for the most rows that there can be, whose last
 * rows are -1: the number of boxes depends on the data. */
static bool is_filled_up(const struct infer_array *got,
                         const struct constant *want)
{
    const int64_t *data = got->data;

    if (got->dtype != INFER_I64 || got->rank != 2 || want->rank != 2 ||
        got->dim[1] != want->dim[1] || got->dim[0] < want->dim[0])
        return false;
    for (int64_t i = constant_count(want); i < got->dim[0] * got->dim[1]; i++)
        if (data[i] != -1)
            return false;
    return true;
}

/* Floats may come in another width than the test states; integers may not. */
static bool compare(const struct infer_array *got, const struct constant *want,
                    int index, char *text)
{
    bool exact = scalar_is_integer(want->dtype);
    int64_t i, n = constant_count(want);

    if (!same_shape(got, want) && !is_filled_up(got, want)) {
        snprintf(text, REPORT_BYTES, "output %d has another shape", index);
        return false;
    }
    if (exact ? got->dtype != want->dtype : !scalar_is_float(got->dtype)) {
        snprintf(text, REPORT_BYTES, "output %d is %s, expected %s", index,
                 infer_dtype_name(got->dtype), infer_dtype_name(want->dtype));
        return false;
    }
    for (i = 0; i < n; i++) {
        double a = scalar_load(got->dtype, got->data, i);
        double b = scalar_load(want->dtype, want->data, i);

        if (!close_enough(a, b, exact)) {
            snprintf(text, REPORT_BYTES,
                     "output %d, element %lld: %.9g, expected %.9g", index,
                     (long long)i, a, b);
            return false;
        }
    }
    return true;
}

/* ---- one model ----------------------------------------------------- */

struct test_case {
    struct pb_message model;
    /* Names of the graph's inputs in the order of the file. */
    char *input_name[MAX_ARRAYS];
    int n_inputs;
    struct constant *in[MAX_ARRAYS], *out[MAX_ARRAYS];
    struct pb_message raw[MAX_ARRAYS]; /* of in[] */
    int n_in, n_out;
};

/* Names of operators and inputs. */
static void describe(struct test_case *t, struct result *r)
{
    struct onnx_arena arena = {NULL};
    struct onnx_value_info info;
    struct infer_error err = {0};
    struct onnx_model m;
    struct onnx_node node;
    struct pb_message copy = {0};
    struct blob *blob;
    size_t i;

    pb_raw(&copy, t->model.data, t->model.size);
    blob = need(blob_new(copy.data, copy.size));
    r->known = true;
    if (onnx_model_open(blob, NULL, &err, &m) == 0) {
        for (i = 0; i < m.graph.node.count; i++) {
            if (onnx_node_parse(&m, m.graph.node.item[i], &arena, &err, &node) <
                0)
                break;
            if (*node.domain || !onnx_op_find(node.op))
                r->known = false;
            if (!strstr(r->ops, node.op) &&
                strlen(r->ops) + strlen(node.op) + 2 < sizeof(r->ops)) {
                strcat(r->ops, *r->ops ? " " : "");
                strcat(r->ops, node.op);
            }
        }
        for (i = 0; i < m.graph.input.count && t->n_inputs < MAX_ARRAYS; i++)
            if (onnx_value_info_parse(&m, m.graph.input.item[i], &err, &info) ==
                0)
                t->input_name[t->n_inputs++] =
                    need(strndup((char *)info.name.data, info.name.bytes));
        onnx_model_close(&m);
    }
    onnx_arena_clear(&arena);
    blob_unref(blob);
}

/* The model with inputs from `first` on as initializers: a second graph
 * message, which protobuf merges into the first. */
static struct pb_message bind_inputs(const struct test_case *t, int first)
{
    struct pb_message b = {0};
    int i;

    pb_raw(&b, t->model.data, t->model.size);
    for (i = first; i < t->n_in && i < t->n_inputs; i++) {
        struct pb_message tensor = {0}, graph = {0};

        pb_raw(&tensor, t->raw[i].data, t->raw[i].size);
        pb_bytes(&tensor, 8, t->input_name[i], strlen(t->input_name[i]));
        pb_bytes(&graph, 5, tensor.data, tensor.size);
        pb_bytes(&b, 7, graph.data, graph.size);
        free(tensor.data);
        free(graph.data);
    }
    return b;
}

static int import(const struct test_case *t, const char *path, int bound,
                  struct infer_error *err, struct graph **out)
{
    struct pb_message b = bind_inputs(t, bound == 0   ? MAX_ARRAYS
                                         : bound == 1 ? 1
                                                      : 0);
    struct weights_options options;
    struct weights_import imported;
    struct weights_file file;
    int status;

    file.path = path;
    file.blob = need(blob_new(b.data, b.size));
    weights_options_init(&options);
    weights_import_init(&imported);
    status = weights_format_onnx.read(&file, &options, err, &imported);
    if (status == 0) {
        *out = imported.graph;
        imported.graph = NULL;
    }
    weights_import_clear(&imported);
    blob_unref(file.blob);
    return status;
}

/* The test's array for input i of the model: by name, else by position. */
static const struct constant *input_for(const struct test_case *t,
                                        const char *name, int position)
{
    int i;

    for (i = 0; i < t->n_inputs && i < t->n_in; i++)
        if (strcmp(t->input_name[i], name) == 0)
            return t->in[i];
    return position < t->n_in ? t->in[position] : NULL;
}

static int run_session(struct infer_session *session, struct infer_model *model,
                       const struct test_case *t, struct infer_error *err,
                       char *text, bool *ok)
{
    struct infer_array in[MAX_ARRAYS], out[MAX_ARRAYS];
    int n_in = infer_model_input_count(model), i, status;
    int n_out = infer_model_output_count(model);

    memset(in, 0, sizeof(in));
    memset(out, 0, sizeof(out));
    *ok = false;
    if (n_in > MAX_ARRAYS || n_out > MAX_ARRAYS || n_out < t->n_out) {
        snprintf(text, REPORT_BYTES, "the model has %d outputs, the test %d",
                 n_out, t->n_out);
        return 0;
    }
    for (i = 0; i < n_in; i++) {
        struct infer_tensor_info info;
        const struct constant *c;

        infer_model_input(model, i, &info);
        c = input_for(t, info.name, i);
        if (!c) {
            snprintf(text, REPORT_BYTES, "no data for input '%s'", info.name);
            return 0;
        }
        in[i].name = info.name;
        in[i].dtype = c->dtype;
        in[i].rank = c->rank;
        memcpy(in[i].dim, c->dim, sizeof(in[i].dim));
        in[i].data = c->data;
        in[i].bytes = c->bytes;
    }
    status = tensor_run(session, in, n_in, out, n_out, err);
    *ok = status == 0;
    for (i = 0; i < t->n_out && *ok; i++)
        *ok = compare(&out[i], t->out[i], i, text);
    for (i = 0; i < n_out; i++)
        free(out[i].data);
    return status;
}

/* Takes the graph over. */
static int run_graph(struct graph *g, enum infer_backend backend,
                     const struct test_case *t, struct infer_error *err,
                     char *text, bool *ok)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    int status = model_from_graph(g, err, &model);

    *ok = false;
    infer_session_options_init(&options);
    options.backend = backend;
    if (status == 0)
        status = infer_session_create(model, &options, err, &session);
    if (status == 0)
        status = run_session(session, model, t, err, text, ok);
    infer_session_close(&session);
    infer_model_close(&model);
    return status;
}

/* On the reference, on the fastest backend, and after the passes. */
static const struct {
    const char *name;
    enum infer_backend backend;
    bool passes;
} modes[] = {
    {"ref", INFER_BACKEND_REF, false},
    {"auto", INFER_BACKEND_AUTO, false},
    {"auto after passes", INFER_BACKEND_AUTO, true},
};

static int optimise(struct graph *g, struct infer_error *err)
{
    struct pass_options options;
    struct pass_report report;
    int status;

    pass_options_init(&options);
    pass_report_init(&report);
    status = weights_run_passes(g, &options, &report, err);
    pass_report_clear(&report);
    return status;
}

/* 1: refused by the reader. */
static int run_modes(const struct test_case *t, const char *path, int bound,
                     size_t first_mode, struct result *r)
{
    struct infer_error err;
    struct graph *g;
    size_t i;
    bool ok;
    int status;

    for (i = first_mode; i < sizeof(modes) / sizeof(modes[0]); i++) {
        memset(&err, 0, sizeof(err));
        status = import(t, path, bound, &err, &g);
        if (status < 0) {
            r->outcome = status == INFER_EUNSUPPORTED ? REFUSED : FAILED;
            snprintf(r->text, sizeof(r->text), "%s", err.text);
            return 1;
        }
        if (modes[i].passes && optimise(g, &err) < 0) {
            graph_free(g);
            r->outcome = FAILED;
            snprintf(r->text, sizeof(r->text), "passes: %.480s", err.text);
            return 0;
        }
        memset(r->text, 0, sizeof(r->text));
        status = run_graph(g, modes[i].backend, t, &err, r->text, &ok);
        if (status < 0 || !ok) {
            char what[REPORT_BYTES];

            snprintf(what, sizeof(what), "%s", status < 0 ? err.text : r->text);
            r->outcome = FAILED;
            snprintf(r->text, sizeof(r->text), "%s: %.480s", modes[i].name,
                     what);
            return 0;
        }
    }
    r->outcome = PASSED;
    return 0;
}

static void run_case(const struct test_case *t, const char *path,
                     size_t first_mode, struct result *r)
{
    for (r->bound = 0; r->bound <= 2; r->bound++)
        if (!run_modes(t, path, r->bound, first_mode, r) ||
            r->outcome == FAILED)
            return;
    r->bound = 0;
}

static void clear_case(struct test_case *t)
{
    int i;

    for (i = 0; i < t->n_inputs; i++)
        free(t->input_name[i]);
    for (i = 0; i < t->n_in; i++) {
        constant_unref(t->in[i]);
        free(t->raw[i].data);
    }
    for (i = 0; i < t->n_out; i++)
        constant_unref(t->out[i]);
    free(t->model.data);
}

/* ---- folders ------------------------------------------------------- */

/* input_*.pb and output_*.pb of one data set; false where there is none. */
static bool read_data_set(struct test_case *t, const char *folder, int k)
{
    char path[4096];

    for (t->n_in = 0; t->n_in < MAX_ARRAYS; t->n_in++) {
        snprintf(path, sizeof(path), "%s/test_data_set_%d/input_%d.pb", folder,
                 k, t->n_in);
        t->in[t->n_in] = tensor_file(path, &t->raw[t->n_in]);
        if (!t->in[t->n_in])
            break;
    }
    for (t->n_out = 0; t->n_out < MAX_ARRAYS; t->n_out++) {
        snprintf(path, sizeof(path), "%s/test_data_set_%d/output_%d.pb", folder,
                 k, t->n_out);
        t->out[t->n_out] = tensor_file(path, NULL);
        if (!t->out[t->n_out])
            break;
    }
    return t->n_out > 0;
}

static void run_folder(const char *set, const char *folder, const char *name)
{
    struct result *r = add_result(set, name);
    struct test_case t;
    char path[4096];
    int k;

    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    for (k = 0;; k++) {
        bool more;

        memset(&t, 0, sizeof(t));
        more = read_data_set(&t, folder, k);
        if (k > 0 && !more) {
            clear_case(&t);
            return;
        }
        if (!tensor_file_bytes(path, &t.model)) {
            r->outcome = FAILED;
            snprintf(r->text, sizeof(r->text), "no model.onnx");
        } else {
            r->ops[0] = 0;
            describe(&t, r);
            run_case(&t, path, 0, r);
        }
        if (!more && r->outcome == PASSED) {
            r->outcome = FAILED;
            snprintf(r->text, sizeof(r->text), "no output data");
        }
        clear_case(&t);
        if (r->outcome != PASSED)
            return;
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool selected(const char *name, char **names, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n == 0;
}

static void run_set(const char *root, const char *set, char **names, int n)
{
    struct dirent **entry;
    char path[4096];
    int i, count;

    snprintf(path, sizeof(path), "%s/onnx-tests/%s", root, set);
    count = scandir(path, &entry, NULL, by_name);
    for (i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/onnx-tests/%s/%s", root, set,
                 entry[i]->d_name);
        if (strncmp(entry[i]->d_name, "test_", 5) == 0 &&
            selected(entry[i]->d_name, names, n))
            run_folder(set, path, entry[i]->d_name);
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
}

/* ---- whole architectures ------------------------------------------- */

/* The input of a light model: arange(n) / n in its shape, batch 1. */
static bool ramp_input(struct test_case *t, const char *path)
{
    struct infer_error err = {0};
    const struct graph_value *v;
    int64_t dim[INFER_MAX_RANK], i, n;
    struct graph *g;
    int d;

    if (import(t, path, 0, &err, &g) < 0)
        return false;
    v = &g->value[g->input[0]];
    for (d = 0; d < v->rank; d++)
        dim[d] = v->dim[d] < 0 ? 1 : v->dim[d];
    t->in[0] = need(constant_new(INFER_F32, v->rank, dim));
    t->n_in = 1;
    n = constant_count(t->in[0]);
    for (i = 0; i < n; i++)
        scalar_store(INFER_F32, t->in[0]->data, i, (double)i / (double)n);
    graph_free(g);
    return true;
}

static void run_light(const char *root, const char *file)
{
    char path[4096], output[4096];
    struct test_case t;
    struct result *r;
    size_t stem = strlen(file) - strlen(".onnx");

    memset(&t, 0, sizeof(t));
    snprintf(path, sizeof(path), "%s/onnx-tests/light/%s", root, file);
    snprintf(output, sizeof(output), "%s/onnx-tests/light/%.*s_output_0.pb",
             root, (int)stem, file);
    r = add_result("light", file);
    r->outcome = FAILED;
    t.out[0] = tensor_file(output, NULL);
    t.n_out = t.out[0] ? 1 : 0;
    if (t.n_out == 0 || !tensor_file_bytes(path, &t.model)) {
        snprintf(r->text, sizeof(r->text), "files are missing");
    } else {
        describe(&t, r);
        while (t.n_inputs > 0) /* initializers are listed too: go by position */
            free(t.input_name[--t.n_inputs]);
        /* The reference would take minutes on these. */
        if (ramp_input(&t, path))
            run_case(&t, path, 1, r);
    }
    clear_case(&t);
}

static void run_all_light(const char *root, char **names, int n)
{
    struct dirent **entry;
    char path[4096];
    int i, count;

    snprintf(path, sizeof(path), "%s/onnx-tests/light", root);
    count = scandir(path, &entry, NULL, by_name);
    for (i = 0; i < count; i++) {
        size_t length = strlen(entry[i]->d_name);

        if (length > 5 && strcmp(entry[i]->d_name + length - 5, ".onnx") == 0 &&
            selected(entry[i]->d_name, names, n))
            run_light(root, entry[i]->d_name);
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
}

/* ---- report -------------------------------------------------------- */

static const char *const outcome_names[] = {"passed", "refused", "beyond fp32",
                                            "FAILED"};
static const char *const bound_names[] = {"", "all inputs but the first",
                                          "all inputs"};

/* Prints one line of a table cell: no bars, no line breaks. */
static void print_cell(const char *text)
{
    for (; *text; text++)
        putchar(*text == '|' ? '/' : *text == '\n' ? ';' : *text);
}

struct tally {
    char name[64];
    int count[OUTCOMES];
};

/* Adds a result to the tally of one operator. */
static void tally_op(struct tally **list, size_t *n, const char *op,
                     enum outcome outcome)
{
    size_t i;

    for (i = 0; i < *n; i++)
        if (strcmp((*list)[i].name, op) == 0)
            break;
    if (i == *n) {
        *list = need(realloc(*list, (*n + 1) * sizeof(**list)));
        memset(&(*list)[i], 0, sizeof(**list));
        snprintf((*list)[i].name, sizeof((*list)[i].name), "%s", op);
        ++*n;
    }
    (*list)[i].count[outcome]++;
}

static int by_op(const void *a, const void *b)
{
    return strcmp(((const struct tally *)a)->name,
                  ((const struct tally *)b)->name);
}

static void print_tallies(bool markdown)
{
    struct tally *list = NULL;
    size_t i, n = 0;

    for (i = 0; i < n_results; i++) {
        char ops[sizeof(results[i].ops)], *op, *rest = NULL;

        memcpy(ops, results[i].ops, sizeof(ops));
        for (op = strtok_r(ops, " ", &rest); op;
             op = strtok_r(NULL, " ", &rest))
            tally_op(&list, &n, op, results[i].outcome);
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), by_op);
    if (markdown)
        printf(
            "\n## By operator\n\n| operator | passed | refused | beyond fp32 "
            "| failed |\n|---|---|---|---|---|\n");
    else
        printf("\n%-26s %7s %7s %7s %7s\n", "operator", "passed", "refused",
               "beyond", "FAILED");
    for (i = 0; i < n; i++)
        printf(markdown ? "| %s | %d | %d | %d | %d |\n"
                        : "%-26s %7d %7d %7d %7d\n",
               list[i].name, list[i].count[PASSED], list[i].count[REFUSED],
               list[i].count[BEYOND], list[i].count[FAILED]);
    free(list);
}

static void print_results(bool markdown, bool all)
{
    size_t i;

    if (markdown)
        printf("\n## Cases\n\n| case | result | constant | reason |\n"
               "|---|---|---|---|\n");
    for (i = 0; i < n_results; i++) {
        const struct result *r = &results[i];

        if (!all && r->outcome == PASSED)
            continue;
        printf(markdown ? "| %s/%s | %s | %s | " : "%s/%s: %s %s%s", r->set,
               r->name, outcome_names[r->outcome], bound_names[r->bound],
               r->text[0] && !markdown ? ": " : "");
        print_cell(r->text);
        printf(markdown ? " |\n" : "\n");
    }
}

/* A case is as it should be where it passed, or was refused for an operator
 * or a form that is not read. */
static int judge(bool markdown)
{
    int count[OUTCOMES] = {0}, bad = 0;
    size_t i;

    for (i = 0; i < n_results; i++) {
        struct result *r = &results[i];

        if (is_beyond_float(r->name) && r->outcome == FAILED &&
            strstr(r->text, "inf, expected"))
            r->outcome = BEYOND;
        count[r->outcome]++;
        if (r->outcome == FAILED ||
            (r->outcome == REFUSED && r->known && !may_be_refused(r->name))) {
            bad++;
            fprintf(stderr, "onnx_node: %s/%s: %s: %s\n", r->set, r->name,
                    outcome_names[r->outcome], r->text);
        }
        if (r->outcome == PASSED && may_be_refused(r->name)) {
            bad++;
            fprintf(stderr, "onnx_node: %s passes: take it off the list\n",
                    r->name);
        }
    }
    printf(markdown ? "\n%d cases passed, %d were refused, %d are beyond the "
                      "range of fp32, %d failed.\n"
                    : "\n%d passed, %d refused, %d beyond fp32, %d FAILED\n",
           count[PASSED], count[REFUSED], count[BEYOND], count[FAILED]);
    return bad;
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"node", "simple", "pytorch-converted",
                                       "pytorch-operator"};
    const char *root = getenv("TEST_DATA");
    bool markdown = false, all = false;
    int at = 1, bad;
    size_t i;

    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--markdown") == 0)
            markdown = all = true;
        else if (strcmp(argv[at], "--all") == 0)
            all = true;
        else
            return 1;
    }
    if (!root) {
        printf("onnx_node: TEST_DATA is not set\n");
        return 77;
    }
    for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        run_set(root, sets[i], argv + at, argc - at);
    run_all_light(root, argv + at, argc - at);
    if (markdown)
        printf("# ONNX's operator tests\n\nWritten by `onnx_node --markdown`: "
               "each case on the reference backend, on the\nfastest one, and "
               "there again after the passes; rtol 1e-3, atol 1e-7; integers "
               "exactly.\nThe column \"constant\" says which inputs of the "
               "test were made initializers because\nthe operator needs them "
               "when it is converted.\n");
    bad = judge(markdown);
    print_tallies(markdown);
    print_results(markdown, all);
    for (i = 0; i < n_results; i++) {
        free(results[i].set);
        free(results[i].name);
    }
    if (n_results == 0) {
        printf("onnx_node: no cases found\n");
        bad = 1;
    }
    free(results);
    return bad ? 1 : 0;
}
