/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TensorFlow Lite reader on one operator each: what is accepted, with the
 * shapes of its outputs in the graph's order of axes, and what is refused in
 * which words.  A line is the operator, its inputs, "->", its outputs as the
 * file states them, and its options:
 *
 *     f(1,4,4,2)   a float tensor given at run time; i: int32, b: bool,
 *                  q: int8 with the scale 0.5, u: uint8, h: int16 likewise;
 *                  v: a variable of floats
 *     f{3,2}       a constant: floats 0.5; q, u: 1
 *     [1,2]        a constant list of int32; [3]. a scalar; [1,2]# rows of two
 *     -            an input that is left out
 *     0=3          field 0 of the options: 4 bytes; 0.5: a float; 0:1=3: 1 byte
 *     0=[1,2]      a list of int32
 */
#include "tests/unit/weights/importer/line.h"
#include "tests/unit/weights/tflite/model.h"

static int code_of(const char *name)
{
    static const struct {
        int code;
        const char *name;
    } rows[] = {
#define TFLITE_OP(code, name, function, param)   {code, name},
#define TFLITE_MOVE(code, name, function, param) {code, name},
#define TFLITE_NO(code, name)                    {code, name},
#include "weights/tflite/ops.def"
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].code;
    return 999;
}

static int type_of(char letter)
{
    return letter == 'i'   ? TFLITE_INT32
           : letter == 'b' ? TFLITE_BOOL
           : letter == 'q' ? TFLITE_INT8
           : letter == 'u' ? TFLITE_UINT8
           : letter == 'h' ? TFLITE_INT16
                           : TFLITE_FLOAT32;
}

static float halves[4096];
static unsigned char ones[4096];

/* A tensor of the model; the text behind it. */
static const char *read_tensor(const char *p, struct model *m, int *out)
{
    static int32_t lists[8][MOST];
    static char names[MODEL_TENSORS][4];
    const int t = m->n_tensors;
    struct list v;

    snprintf(names[t], sizeof names[t], "t%d", t);
    if (*p == '-') {
        *out = -1;
        return p + 1;
    }
    if (*p == '[') {
        int32_t *list = lists[t % 8];
        p = read_list(p + 1, &v);
        for (int i = 0; i < v.n; i++)
            list[i] = (int32_t)v.integer[i];
        if (*p == '#')
            *out = model_ints(m, names[t], DIMS(v.n / 2, 2), list);
        else
            *out = model_ints(m, names[t], *p == '.' ? 0 : 1,
                              (const int64_t[]){v.n}, list);
        return p + (*p == '.' || *p == '#');
    }
    const int type = type_of(*p);
    const bool constant = p[1] == '{';
    const bool whole =
        type == TFLITE_INT8 || type == TFLITE_UINT8 || type == TFLITE_INT16;
    const bool variable = *p == 'v';
    p = read_list(p + 2, &v);
    *out = model_add(m, names[t], type, v.n, v.integer,
                     !constant ? NULL
                     : whole   ? (const void *)ones
                               : halves);
    if (whole) {
        m->tensor[t].n_scales = 1;
        m->tensor[t].scale[0] = 0.5f;
    }
    m->tensor[t].variable = variable;
    if (!constant)
        return p;
    assert_true(m->tensor[t].bytes <= (whole ? sizeof ones : sizeof halves));
    return p;
}

static const char *read_option(const char *p, struct model_op *o)
{
    char *end;
    const int id = (int)strtol(p, &end, 10);
    int size = 4;

    if (*end == ':')
        size = (int)strtol(end + 1, &end, 10);
    assert_true(*end == '=');
    if (end[1] == '[') {
        struct list v;
        p = read_list(end + 2, &v);
        o->list_id = id;
        o->n_list = v.n;
        for (int i = 0; i < v.n; i++)
            o->list[i] = (int32_t)v.integer[i];
        model_option(o, id, 4, 0);
        return p;
    }
    p = end + 1;
    const float real = strtof(p, &end);
    if (memchr(p, '.', (size_t)(end - p)))
        model_option(o, id, 4, float_bits(real));
    else
        model_option(o, id, size, (uint64_t)strtoll(p, NULL, 10));
    return end;
}

static void model_line(const char *line, struct model *m)
{
    char name[CHARS];
    const char *p = read_up_to(line, " ", name);
    int in[24], n_in = 0, t;
    struct model_op *o;

    *m = (struct model){.n_ops = 0};
    while (*p == ' ' && strncmp(p, " ->", 3) != 0) {
        assert_true(n_in < (int)COUNT(in));
        p = read_tensor(p + 1, m, &t);
        in[n_in++] = t;
        if (t >= 0 && !m->tensor[t].data && !m->tensor[t].variable)
            m->input[m->n_inputs++] = t;
    }
    o = model_op(m, code_of(name), in, n_in, 0);
    o->n_out = 0;
    p += *p ? 3 : 0;
    while (*p == ' ') {
        if (p[1] >= '0' && p[1] <= '9') {
            p = read_option(p + 1, o);
            continue;
        }
        assert_true(o->n_out < (int)COUNT(o->out));
        p = read_tensor(p + 1, m, &t);
        o->out[o->n_out++] = t;
        m->output[m->n_outputs++] = t;
    }
    assert_true(*p == '\0');
}

/* The status of a line; `said`: the shapes or the refusal. */
static int read_line(const char *line, char *said, size_t room)
{
    static struct flat f;
    static struct model m;
    struct infer_error err = {0};
    struct graph *g = NULL;
    int rc;

    for (size_t i = 0; i < COUNT(halves); i++)
        halves[i] = 0.5f;
    memset(ones, 1, sizeof ones);
    model_line(line, &m);
    model_write(&m, &f);
    rc = read_bytes(f.data, f.bytes, NULL, &err, &g);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, &err);
    if (rc == 0)
        rc = graph_validate(g, &err);
    if (rc == 0)
        shapes_of(g, said, room);
    else
        snprintf(said, room, "%s", err.text);
    graph_free(g);
    return rc;
}

#define TABLE "tests/unit/weights/tflite/operators.def"
#include "tests/unit/weights/importer/table.h"
