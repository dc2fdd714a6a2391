/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of torch.export, which is JSON, as a program. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/export/export.h"

#define OPERATORS "torch.ops.aten."
#define VISION    "torch.ops.torchvision."
#define PYTHON    "_operator."

struct reading {
    const struct export_archive *archive;
    struct aten_program *program;
    struct infer_error *err;
};

static int malformed(struct reading *r, const char *what)
{
    return error_set(r->err, INFER_EFORMAT, "models/model.json: %s", what);
}

static int no_memory(struct reading *r)
{
    return error_set(r->err, INFER_EMEMORY, "out of memory");
}

static struct pb_span span_of(const char *text)
{
    return (struct pb_span){(unsigned char *)text, text ? strlen(text) : 0};
}

static void *room(struct reading *r, size_t count, size_t bytes)
{
    return onnx_alloc(&r->program->arena, (count + 1) * bytes);
}

/* ---- numbers and types --------------------------------------------- */

enum infer_dtype export_dtype(int64_t type)
{
    static const unsigned char types[] = {
        [1] = INFER_U8,    [2] = INFER_I8,   [3] = INFER_I16,
        [4] = INFER_I32,   [5] = INFER_I64,  [6] = INFER_F16,
        [7] = INFER_F32,   [8] = INFER_F64,  [12] = INFER_BOOL,
        [13] = INFER_BF16, [28] = INFER_U16, [29] = INFER_F8E4M3};

    return type > 0 && type < (int64_t)sizeof types
               ? (enum infer_dtype)types[type]
               : INFER_NONE;
}

/* The largest integer that JSON's doubles hold stands for "no limit". */
static bool integer(const cJSON *j, int64_t *out)
{
    const int64_t most = (int64_t)1 << 53;

    if (json_int64(j, -most, most, out))
        return true;
    if (!cJSON_IsNumber(j) || fabs(j->valuedouble) < 9.2e18)
        return false;
    *out = j->valuedouble > 0 ? INT64_MAX : INT64_MIN;
    return true;
}

/* Infinities and NaN are words. */
static bool real(const cJSON *j, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {
        {"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};

    if (cJSON_IsNumber(j)) {
        *out = j->valuedouble;
        return true;
    }
    for (size_t i = 0; cJSON_IsString(j) && i < 3; i++)
        if (strcmp(j->valuestring, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    return false;
}

/* ---- arguments ----------------------------------------------------- */

/* The one member of a union: {"as_int": 3}. */
static const cJSON *choice(const cJSON *j)
{
    return cJSON_IsObject(j) && j->child && !j->child->next ? j->child : NULL;
}

static int read_argument(struct reading *r, const cJSON *j, int depth,
                         struct aten_arg *out);

/* An item of a list: of the kind that the list's name says, or a union. */
static int read_item(struct reading *r, const cJSON *j, const char *list,
                     int depth, struct aten_arg *out)
{
    if (cJSON_IsObject(j) && choice(j) && !json_string(j, "name"))
        return read_argument(r, j, depth, out);
    if (json_string(j, "name")) {
        out->kind = ATEN_VALUE;
        out->text = span_of(json_string(j, "name"));
        return 0;
    }
    if (cJSON_IsBool(j)) {
        out->kind = ATEN_BOOL;
        out->i = cJSON_IsTrue(j);
        return 0;
    }
    if (strcmp(list, "as_floats") != 0 && integer(j, &out->i)) {
        out->kind = ATEN_INT;
        return 0;
    }
    if (strcmp(list, "as_strings") != 0 && real(j, &out->f)) {
        out->kind = ATEN_FLOAT;
        return 0;
    }
    if (cJSON_IsString(j)) {
        out->kind = ATEN_TEXT;
        out->text = span_of(j->valuestring);
        return 0;
    }
    return malformed(r, "an item of a list is of an unknown kind");
}

static int read_list(struct reading *r, const cJSON *j, int depth,
                     struct aten_arg *out)
{
    const int n = cJSON_GetArraySize(j);
    const cJSON *item;
    int i = 0, rc = 0;

    if (n > ATEN_MAX_ARGS || depth >= ATEN_MAX_DEPTH)
        return malformed(r, "a list is too long or too deep");
    out->kind = ATEN_LIST;
    out->item = room(r, (size_t)n, sizeof *out->item);
    if (!out->item)
        return no_memory(r);
    out->n = n;
    cJSON_ArrayForEach(item, j)
    {
        rc = read_item(r, item, j->string ? j->string : "", depth + 1,
                       &out->item[i++]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* Unions around another one: a size that may be a name. */
static const char *const wrappers[] = {
    "as_sym_int", "as_sym_float", "as_sym_bool", "as_optional_tensor", NULL};
static const char *const without_use[] = {"as_none", "as_memory_format",
                                          "as_layout", "as_device", NULL};

static int read_argument(struct reading *r, const cJSON *j, int depth,
                         struct aten_arg *out)
{
    const cJSON *c = choice(j);

    if (!c || depth > ATEN_MAX_DEPTH)
        return malformed(r, "an argument is malformed");
    if (is_one_of(c->string, without_use)) {
        out->kind = ATEN_NONE;
    } else if (is_one_of(c->string, wrappers)) {
        return read_argument(r, c, depth + 1, out);
    } else if (cJSON_IsArray(c)) {
        return read_list(r, c, depth, out);
    } else if (strcmp(c->string, "as_tensor") == 0 && json_string(c, "name")) {
        out->kind = ATEN_VALUE;
        out->text = span_of(json_string(c, "name"));
    } else if (strcmp(c->string, "as_name") == 0 && cJSON_IsString(c)) {
        out->kind = ATEN_VALUE;
        out->text = span_of(c->valuestring);
    } else if (strcmp(c->string, "as_int") == 0 && integer(c, &out->i)) {
        out->kind = ATEN_INT;
    } else if (strcmp(c->string, "as_bool") == 0 && cJSON_IsBool(c)) {
        out->kind = ATEN_BOOL;
        out->i = cJSON_IsTrue(c);
    } else if (strcmp(c->string, "as_float") == 0 && real(c, &out->f)) {
        out->kind = ATEN_FLOAT;
    } else if (strcmp(c->string, "as_string") == 0 && cJSON_IsString(c)) {
        out->kind = ATEN_TEXT;
        out->text = span_of(c->valuestring);
    } else if (strcmp(c->string, "as_scalar_type") == 0 &&
               integer(c, &out->i)) {
        out->kind = ATEN_TYPE;
        out->i = export_dtype(out->i);
    } else {
        out->kind = ATEN_OTHER;
    }
    return 0;
}

/* ---- nodes --------------------------------------------------------- */

/* "torch.ops.aten.add.Tensor" -> add; other names stay whole. */
static struct pb_span operator_of(const char *target)
{
    const size_t aten = strlen(OPERATORS), python = strlen(PYTHON);
    const char *name = target;

    if (strncmp(name, "torch.sym_", 10) == 0)
        return span_of(name + 6);
    if (strncmp(name, PYTHON, python) == 0)
        return span_of(name + python);
    if (strncmp(name, VISION, strlen(VISION)) == 0)
        name += strlen(VISION);
    else if (strncmp(name, OPERATORS, aten) == 0)
        name += aten;
    else
        return span_of(name);
    return (struct pb_span){(unsigned char *)name, strcspn(name, ".")};
}

static int read_inputs(struct reading *r, const cJSON *inputs, bool named,
                       struct aten_node *out)
{
    const int n = cJSON_GetArraySize(inputs);
    const cJSON *j;
    int rc = 0;

    if (!cJSON_IsArray(inputs) || n > ATEN_MAX_ARGS)
        return malformed(r, "a node's inputs are malformed");
    out->arg = room(r, (size_t)n, sizeof *out->arg);
    if (!out->arg)
        return no_memory(r);
    cJSON_ArrayForEach(j, inputs)
    {
        struct aten_arg *a = &out->arg[out->n_args++];

        rc = read_argument(r, json_member(j, "arg"), 0, a);
        if (rc < 0)
            return rc;
        /* Python's operators have parameters of other names. */
        if (named)
            a->name = span_of(json_string(j, "name"));
    }
    return 0;
}

/* Names of values that an output of a node is: one, or those of a list. */
static int read_outputs(struct reading *r, const cJSON *outputs,
                        struct aten_node *out)
{
    const cJSON *j;
    size_t count = 0;
    int n = 0, rc;

    cJSON_ArrayForEach(j, outputs) count +=
        1 + (size_t)(choice(j) ? cJSON_GetArraySize(choice(j)) : 0);
    if (count > 2 * ATEN_MAX_ARGS)
        return malformed(r, "a node has too many outputs");
    out->out = room(r, count, sizeof *out->out);
    if (!out->out)
        return no_memory(r);
    cJSON_ArrayForEach(j, outputs)
    {
        struct aten_arg a = {.kind = ATEN_NONE};

        rc = read_argument(r, j, 0, &a);
        if (rc < 0)
            return rc;
        for (int i = 0; a.kind == ATEN_LIST && i < a.n; i++)
            out->out[n++] = a.item[i].text;
        if (a.kind != ATEN_LIST)
            out->out[n++] = a.text;
    }
    out->n_out = n;
    return 0;
}

static int read_nodes(struct reading *r, const cJSON *nodes)
{
    const int n = cJSON_GetArraySize(nodes);
    struct aten_program *p = r->program;
    const cJSON *j;
    int rc;

    if (!cJSON_IsArray(nodes) || n > GRAPH_MAX_NODES)
        return malformed(r, "the list of nodes is missing or too long");
    p->node = room(r, (size_t)n, sizeof *p->node);
    if (!p->node)
        return no_memory(r);
    cJSON_ArrayForEach(j, nodes)
    {
        struct aten_node *node = &p->node[p->n_nodes++];
        const char *target = json_string(j, "target");

        if (!target)
            return malformed(r, "a node has no target");
        node->op = operator_of(target);
        rc = read_inputs(r, json_member(j, "inputs"),
                         strncmp(target, "torch.ops.", 10) == 0, node);
        if (rc == 0)
            rc = read_outputs(r, json_member(j, "outputs"), node);
        if (rc < 0) {
            error_prefix(r->err, "node %d (%s)", p->n_nodes - 1, target);
            return rc;
        }
    }
    return 0;
}

/* ---- inputs -------------------------------------------------------- */

/* Sizes, -1 where they are symbols or computed from some. */
static int read_sizes(struct reading *r, const cJSON *sizes,
                      struct aten_input *in)
{
    const int n = cJSON_GetArraySize(sizes);
    const cJSON *j;

    if (!cJSON_IsArray(sizes) || n > INFER_MAX_RANK)
        return malformed(r, "a tensor's sizes are missing or too many");
    in->rank = 0;
    cJSON_ArrayForEach(j, sizes)
    {
        const cJSON *c = choice(j);

        if (!c)
            return malformed(r, "a size is malformed");
        in->dim[in->rank] = -1;
        if (strcmp(c->string, "as_int") == 0 &&
            !json_int64(c, 0, (int64_t)1 << 53, &in->dim[in->rank]))
            return malformed(r, "a size is no size");
        if (json_string(c, "expr_str"))
            in->symbol[in->rank] = span_of(json_string(c, "expr_str"));
        in->rank++;
    }
    return 0;
}

static int add_input(struct reading *r, const cJSON *graph, const char *name)
{
    const cJSON *meta = json_member(json_member(graph, "tensor_values"), name);
    struct aten_program *p = r->program;
    struct aten_input *in = &p->input[p->n_inputs++];
    int64_t type;
    int rc;

    if (!meta || !json_int64(json_member(meta, "dtype"), 0, 1000, &type))
        return malformed(r, "an input has no type");
    in->name = span_of(name);
    in->dtype = export_dtype(type);
    if (in->dtype == INFER_NONE)
        return error_set(r->err, INFER_EUNSUPPORTED,
                         "input '%s' has PyTorch's type %lld, which is not "
                         "supported",
                         name, (long long)type);
    rc = read_sizes(r, json_member(meta, "sizes"), in);
    if (rc < 0)
        error_prefix(r->err, "input '%s'", name);
    return rc;
}

static int add_constant(struct reading *r, const cJSON *spec, const char *key)
{
    const char *name = json_string(json_member(spec, "arg"), "name");
    const char *tensor = json_string(spec, key);
    struct aten_program *p = r->program;
    int64_t index;

    if (!name || !tensor)
        return malformed(r, "a parameter has no name");
    index = export_find_tensor(r->archive, tensor);
    if (index < 0) /* an error of who reads it */
        return 0;
    p->constant[p->n_constants].name = span_of(name);
    p->constant[p->n_constants++].index = (size_t)index;
    return 0;
}

static int read_input_spec(struct reading *r, const cJSON *graph,
                           const cJSON *spec)
{
    const cJSON *c = choice(spec), *arg;

    if (!c)
        return malformed(r, "an input is malformed");
    if (strcmp(c->string, "parameter") == 0)
        return add_constant(r, c, "parameter_name");
    if (strcmp(c->string, "buffer") == 0)
        return add_constant(r, c, "buffer_name");
    if (strcmp(c->string, "tensor_constant") == 0)
        return add_constant(r, c, "tensor_constant_name");
    if (strcmp(c->string, "user_input") != 0)
        return 0;
    arg = json_member(json_member(c, "arg"), "as_tensor");
    return json_string(arg, "name")
               ? add_input(r, graph, json_string(arg, "name"))
               : 0;
}

static int read_input_specs(struct reading *r, const cJSON *graph,
                            const cJSON *specs)
{
    const size_t n = (size_t)cJSON_GetArraySize(specs);
    struct aten_program *p = r->program;
    const cJSON *j;
    int rc = 0;

    if (!cJSON_IsArray(specs) || n > ONNX_MAX_TENSORS)
        return malformed(r, "the list of inputs is missing or too long");
    p->input = room(r, n, sizeof *p->input);
    p->constant = room(r, n, sizeof *p->constant);
    if (!p->input || !p->constant)
        return no_memory(r);
    cJSON_ArrayForEach(j, specs) if ((rc = read_input_spec(r, graph, j)) <
                                     0) return rc;
    return 0;
}

/* ---- outputs ------------------------------------------------------- */

static int read_output_specs(struct reading *r, const cJSON *specs)
{
    const size_t n = (size_t)cJSON_GetArraySize(specs);
    struct aten_program *p = r->program;
    const cJSON *j;

    if (!cJSON_IsArray(specs) || n > ONNX_MAX_OUTPUTS)
        return malformed(r, "the list of outputs is missing or too long");
    p->output = room(r, n, sizeof *p->output);
    if (!p->output)
        return no_memory(r);
    cJSON_ArrayForEach(j, specs)
    {
        const cJSON *arg = json_member(json_member(j, "user_output"), "arg");
        const char *name = json_string(json_member(arg, "as_tensor"), "name");

        if (name)
            p->output[p->n_outputs++] = span_of(name);
    }
    return p->n_outputs ? 0 : malformed(r, "the program has no output");
}

int export_read_graph(const struct export_archive *a, struct infer_error *err,
                      struct aten_program *out)
{
    struct reading r = {.archive = a, .program = out, .err = err};
    const cJSON *module = json_member(a->graph, "graph_module");
    const cJSON *graph = json_member(module, "graph");
    const cJSON *signature = json_member(module, "signature");
    int rc;

    if (!graph || !signature)
        return malformed(&r, "it holds no graph_module");
    rc = read_input_specs(&r, graph, json_member(signature, "input_specs"));
    if (rc == 0)
        rc = read_nodes(&r, json_member(graph, "nodes"));
    if (rc == 0)
        rc = read_output_specs(&r, json_member(signature, "output_specs"));
    return rc;
}
