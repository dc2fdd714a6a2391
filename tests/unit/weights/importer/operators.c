/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ONNX reader on one operator each, or a few: what is accepted, with the
 * shape of the output, and what is refused in which words.  A line is the
 * operator, its inputs and its attributes:
 *
 *     x(1,3,-1,8)  a float input of the network; -1: free; i(...): int64
 *     w{2,3,3,3}   a float weight, all 0.5
 *     n[1,2]       an int64 constant; n[]: an empty one
 *     -            an input left out
 *     axis=1  alpha=0.5  pads=[1,1]  mode='x'  scales=[0.5,1.0]
 *
 * Behind " ; " comes another operator: the outputs are v1, v2, ..., y, and an
 * input without brackets is an output, or an input, from before.
 */
#include "tests/unit/weights/importer/line.h"
#include "tests/unit/weights/importer/memory_wrap.h"
#include "tests/unit/weights/onnx_model.h"

static const char *read_attribute(const char *p, const char *name,
                                  struct pb_message *a)
{
    struct list v;

    if (*p == '\'') {
        char word[CHARS];

        p = read_word(p + 1, word);
        attr_text(a, name, word);
        return p;
    }
    if (*p == '[') {
        p = read_list(p + 1, &v);
        if (v.is_real)
            attr_floats(a, name, v.n, v.real);
        else
            attr_ints(a, name, v.n, v.integer);
        return p;
    }
    char *end;
    const float real = strtof(p, &end);

    assert_true(end > p);
    if (memchr(p, '.', (size_t)(end - p)))
        attr_float(a, name, real);
    else
        attr_int(a, name, strtoll(p, NULL, 10));
    return end;
}

static const char *read_input(const char *p, const char *name,
                              struct pb_message *g)
{
    const char kind = *p;
    float data[256];
    struct list v;

    p = read_list(p + 1, &v);
    if (kind == '(') {
        graph_info(g, 11, name, name[0] == 'i' ? ONNX_INT64 : ONNX_FLOAT, v.n,
                   v.integer);
    } else if (kind == '[') {
        graph_ints(g, name, 1, (const int64_t[]){v.n}, v.integer);
    } else {
        assert_true(count_of(v.n, v.integer) <= COUNT(data));
        for (size_t i = 0; i < COUNT(data); i++)
            data[i] = 0.5f;
        graph_floats(g, name, v.n, v.integer, data);
    }
    return p;
}

/* One node up to a ";" or the end, with the output `out`; the text behind it.
 */
static const char *put_node(const char *p, const char *out,
                            struct pb_message *g)
{
    struct pb_message a = EMPTY;
    char op[CHARS], in[128] = "", name[CHARS];

    for (p = read_name(p, op); *p;) {
        p = read_name(p, name);
        if (strcmp(name, ";") == 0)
            break;
        if (*p == '=') {
            p = read_attribute(p + 1, name, &a);
            continue;
        }
        snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s",
                 in[0] ? " " : "", name);
        if (strchr("([{", *p) && *p)
            p = read_input(p, name, g);
    }
    graph_node(g, op, in, out, &a);
    return p;
}

static struct pb_message model_line(const char *line, int opset)
{
    struct pb_message g = EMPTY;
    char out[CHARS];

    graph_output(&g, "y");
    for (int n = 1; *line; n++) {
        snprintf(out, sizeof out, "v%d", n);
        line = put_node(line, strstr(line, " ; ") ? out : "y", &g);
    }
    return model_of(&g, opset);
}

/* The status of a line; `said`: the shapes or the refusal. */
static int read_line(int opset, const char *line, char *said, size_t room)
{
    struct pb_message m = model_line(line, opset);
    struct infer_error err;
    struct graph *g = NULL;
    int rc = read_at(NULL, &m, NULL, &err, &g);

    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, &err);
    if (rc == 0)
        shapes_of(g, said, room);
    else
        snprintf(said, room, "%s", err.text);
    graph_free(g);
    pb_free(&m);
    return rc;
}

static const struct {
    int opset;
    const char *line;
    int code;
    const char *word;
} rows[] = {
#define ROW(opset, line, code, word) {(opset), (line), (code), (word)},
#include "tests/unit/weights/importer/operators.def"
#undef ROW
};

static int read_row(size_t i, char *said, size_t room)
{
    return read_line(rows[i].opset, rows[i].line, said, room);
}

TEST(test_operators)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        char said[1024];
        const int rc = read_row(i, said, sizeof said);

        if (rc != rows[i].code || (rc == 0 ? strcmp(said, rows[i].word) != 0
                                           : !strstr(said, rows[i].word)))
            fail_msg("opset %d, %s: %d, '%s'", rows[i].opset, rows[i].line, rc,
                     said);
    }
}

TEST(test_operators_without_memory)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        check_without_memory(i, read_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_operators_without_memory)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
