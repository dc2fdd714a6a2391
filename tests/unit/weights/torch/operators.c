/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of torch.export's programs on one call of an operator each: what
 * is accepted, with the shapes of its outputs, and what is refused in which
 * words.  A line is the operator and its arguments, by name:
 *
 *     self=x(2,-1)    a float tensor given at run time, -1: free; i: int64,
 *                     b: bool, h: half
 *     weight=w{3,4}   a stored float tensor, all 0.5; n{2}: int64, all 1
 *     dim=1  p=0.5  train=true  mode='same'  dtype=type:5  min=none
 *     size=[2,-1]  scales=[2.0,2.0]  tensors=<x(2),y(2)>
 *     other=graph     what no operator of this kind takes
 *
 * "3:chunk self=..." has three outputs.
 */
#include "config.h"

#include "tests/unit/weights/formats_help.h"
#include "tests/unit/weights/importer/line.h"
#include "weights/aten/aten.h"

extern const struct weights_format weights_format_export;

#define MOST_OUTPUTS 8

struct text {
    char at[8192];
    size_t n;
};

/* The parts of a program's JSON. */
struct program {
    struct text arguments, meta, inputs, weights, outputs, results;
    int tensors;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t,
                                                      const char *format, ...)
{
    va_list a;
    int n;

    va_start(a, format);
    n = vsnprintf(t->at + t->n, sizeof t->at - t->n, format, a);
    va_end(a);
    assert_true(n >= 0 && (size_t)n < sizeof t->at - t->n);
    t->n += (size_t)n;
}

static const char *comma(const struct text *t)
{
    return t->n > 0 ? "," : "";
}

static void put_meta(struct text *t, int type, const struct list *dim)
{
    uint64_t stride = 1; /* wraps where a line overflows */

    for (int i = 1; i < dim->n; i++)
        stride *= (uint64_t)dim->integer[i];
    put(t, "{\"dtype\":%d,\"sizes\":[", type);
    for (int i = 0; i < dim->n; i++)
        if (dim->integer[i] < 0)
            put(t, "%s{\"as_expr\":{\"expr_str\":\"s%d\"}}", i ? "," : "", i);
        else
            put(t, "%s{\"as_int\":%lld}", i ? "," : "",
                (long long)dim->integer[i]);
    put(t, "],\"strides\":[");
    for (int i = 0; i < dim->n; i++) {
        put(t, "%s{\"as_int\":%lld}", i ? "," : "", (long long)stride);
        if (i + 1 < dim->n && dim->integer[i + 1] > 0)
            stride /= (uint64_t)dim->integer[i + 1];
    }
    put(t, "],\"storage_offset\":{\"as_int\":0}}");
}

/* PyTorch's number of the type that a tensor's letter says. */
static int type_of(char letter)
{
    return letter == 'i' || letter == 'n' ? 5
           : letter == 'b'                ? 12
           : letter == 'h'                ? 6
                                          : 7;
}

/* Adds the tensor described at p and writes its name. */
static const char *read_tensor(const char *p, struct program *g, char *name)
{
    const int type = type_of(*p);
    const bool stored = p[1] == '{';
    struct list dim;

    assert_true(stored || p[1] == '(');
    sprintf(name, "t%d", g->tensors++);
    p = read_list(p + 2, &dim);
    if (stored) {
        put(&g->inputs,
            "%s{\"parameter\":{\"arg\":{\"name\":\"%s\"},\"parameter_name\":"
            "\"%s\"}}",
            comma(&g->inputs), name, name);
        put(&g->weights,
            "%s\"%s\":{\"path_name\":\"weight_%d\",\"use_pickle\":false,"
            "\"tensor_meta\":",
            comma(&g->weights), name, type == 7 ? 0 : 1);
        put_meta(&g->weights, type, &dim);
        put(&g->weights, "}");
        return p;
    }
    put(&g->inputs,
        "%s{\"user_input\":{\"arg\":{\"as_tensor\":{\"name\":\"%s\"}}}}",
        comma(&g->inputs), name);
    put(&g->meta, "%s\"%s\":", comma(&g->meta), name);
    put_meta(&g->meta, type, &dim);
    return p;
}

static const char *read_tensors(const char *p, struct program *g,
                                struct text *t)
{
    char name[16];

    put(t, "{\"as_tensors\":[");
    for (int i = 0; *p != '>'; i++) {
        p = read_tensor(p + (*p == ','), g, name);
        put(t, "%s{\"name\":\"%s\"}", i ? "," : "", name);
    }
    put(t, "]}");
    return p + 1;
}

static const char *read_numbers(const char *p, struct text *t)
{
    struct list v;
    const char *end;

    if (strncmp(p, "true", 4) == 0 || strncmp(p, "false", 5) == 0) {
        end = strchr(p, ']');
        assert_non_null(end);
        put(t, "{\"as_bools\":[%.*s]}", (int)(end - p), p);
        return end + 1;
    }
    end = read_list(p, &v);
    put(t, "{\"%s\":[%.*s]}", v.is_real ? "as_floats" : "as_ints",
        (int)(end - p - 1), p);
    return end;
}

static const char *read_value(const char *p, struct program *g, struct text *t)
{
    char word[CHARS];
    const char *end;

    if (*p == '\'') {
        p = read_word(p + 1, word);
        put(t, "{\"as_string\":\"%s\"}", word);
        return p;
    }
    if (*p == '[')
        return read_numbers(p + 1, t);
    if (*p == '<')
        return read_tensors(p + 1, g, t);
    if (p[0] && strchr("({", p[1]) && p[1]) {
        p = read_tensor(p, g, word);
        put(t, "{\"as_tensor\":{\"name\":\"%s\"}}", word);
        return p;
    }
    end = read_up_to(p, " ", word);
    if (strcmp(word, "none") == 0)
        put(t, "{\"as_none\":true}");
    else if (strcmp(word, "graph") == 0)
        put(t, "{\"as_graph\":{}}");
    else if (strncmp(word, "type:", 5) == 0)
        put(t, "{\"as_scalar_type\":%s}", word + 5);
    else if (word[0] == 't' || word[0] == 'f')
        put(t, "{\"as_bool\":%s}", word);
    else if (strpbrk(word, ".I"))
        put(t,
            strchr(word, 'I') ? "{\"as_float\":\"%s\"}" : "{\"as_float\":%s}",
            word);
    else
        put(t, "{\"as_int\":%s}", word);
    return end;
}

static void put_outputs(struct program *g, int n)
{
    for (int i = 0; i < n; i++) {
        put(&g->outputs, "%s{\"as_tensor\":{\"name\":\"y%d\"}}",
            comma(&g->outputs), i);
        put(&g->results,
            "%s{\"user_output\":{\"arg\":{\"as_tensor\":{\"name\":\"y%d\"}}}}",
            comma(&g->results), i);
    }
}

/* The archive of a line. */
static void make_archive(const char *line, struct zipmaker *z)
{
    static struct program g;
    static float halves[1024];
    static int64_t ones[256];
    static char json[60000];
    char op[CHARS], name[CHARS];
    const char *p = line;
    int outputs = 1;

    memset(&g, 0, sizeof g);
    for (size_t i = 0; i < COUNT(halves); i++)
        halves[i] = 0.5f;
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = 1;
    if (p[1] == ':') {
        outputs = *p - '0';
        p += 2;
    }
    p = read_name(p, op);
    while (*p) {
        p = read_name(p, name);
        assert_true(*p == '=');
        put(&g.arguments, "%s{\"name\":\"%s\",\"arg\":", comma(&g.arguments),
            name);
        p = read_value(p + 1, &g, &g.arguments);
        put(&g.arguments, "}");
    }
    put_outputs(&g, outputs);
    snprintf(json, sizeof json,
             "{\"graph_module\":{\"graph\":{\"nodes\":[{\"target\":\"torch.ops."
             "aten.%s.default\",\"inputs\":[%s],\"outputs\":[%s],\"metadata\":{"
             "}}],\"tensor_values\":{%s}},\"signature\":{\"input_specs\":[%s],"
             "\"output_specs\":[%s]}},\"torch_version\":\"2.9\"}",
             op, g.arguments.at, g.outputs.at, g.meta.at, g.inputs.at,
             g.results.at);
    zipmaker_add(z, "n/archive_format", "pt2", 3);
    zipmaker_add(z, "n/models/model.json", json, strlen(json));
    snprintf(json, sizeof json, "{\"config\":{%s}}", g.weights.at);
    zipmaker_add(z, "n/data/weights/model_weights_config.json", json,
                 strlen(json));
    zipmaker_add(z, "n/data/weights/weight_0", halves, sizeof halves);
    zipmaker_add(z, "n/data/weights/weight_1", ones, sizeof ones);
    zipmaker_end(z);
}

/* The status of a line; `said`: the shapes or the refusal. */
static int read_line(const char *line, char *said, size_t room)
{
    struct weights_import import;
    struct zipmaker z = {0};
    struct infer_error err = {0};
    int rc;

    make_archive(line, &z);
    rc = help_read(&weights_format_export, z.file.data, z.file.bytes, &err,
                   &import);
    if (rc == 0)
        rc = graph_infer_shapes(import.graph, NULL, &err);
    if (rc == 0)
        shapes_of(import.graph, said, room);
    else
        snprintf(said, room, "%s", err.text);
    weights_import_clear(&import);
    zipmaker_clear(&z);
    return rc;
}

#define TABLE "tests/unit/weights/torch/operators.def"
#include "tests/unit/weights/importer/table.h"
