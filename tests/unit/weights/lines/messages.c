/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole ONNX and TensorFlow files on one line each, field by field: what is
 * accepted, with the shapes of the outputs, and what is refused in which words.
 *
 *     onnx 7{ 1{1'x' 2'y' 4'Relu'} $x $y } $o
 *     graph 1{1'y' 2'Relu' 3'x'} $x
 *
 * are fields of the message ModelProto or GraphDef: 2:13 an integer, 2'text',
 * 3=0.5 a float of 4 bytes, 1{...} a message, 4[1,2] packed integers, 9<0a1b>
 * bytes in base 16.  300*1{...} is the field 300 times, # in its texts the
 * number of the repeat; '300*a' is a text of 300 letters.  $x: an input of 1x4
 * floats, $y: the output, $o: opset
 * 13.  `saved`: a SavedModel.
 */
#include "tests/unit/weights/lines/tokens.h"
#include "tests/unit/weights/onnx_model.h"
#include "tests/unit/weights/tensorflow/graphdef_reader.h"

static const char *put_fields(struct pb_message *m, const char *p, int repeat);

/* What $x and the like stand for in a file of this format. */
static const char *short_of(char letter, bool onnx)
{
    if (!onnx) {
        assert_true(letter == 'x');
        return "1{1'x' 2'Placeholder' 5{1'dtype' 2{6:1}} "
               "5{1'shape' 2{7{2{1:1} 2{1:4}}}}}";
    }
    switch (letter) {
    case 'x':
        return "11{1'x' 2{1{1:1 2{1{1:1} 1{1:4}}}}}";
    case 'i':
        return "11{1'i' 2{1{1:7 2{1{1:1} 1{1:4}}}}}";
    case 'y':
        return "12{1'y'}";
    default:
        assert_true(letter == 'o');
        return "1:8 8{2:13}";
    }
}

static bool onnx;

static const char *put_packed(struct pb_message *m, unsigned number,
                              const char *p)
{
    struct pb_message list = {0};

    while (*p && *p != ']') {
        char *end;

        pb_varint(&list, (uint64_t)strtoll(p, &end, 10));
        assert_true(end > p);
        p = end + (*end == ',');
    }
    pb_nested(m, number, &list);
    return p;
}

static const char *put_hex(struct pb_message *m, unsigned number, const char *p)
{
    struct pb_message bytes = {0};
    unsigned value;

    while (*p && *p != '>' && sscanf(p, "%2x", &value) == 1) {
        pb_raw(&bytes, &(unsigned char){(unsigned char)value}, 1);
        p += 2;
    }
    pb_nested(m, number, &bytes);
    return p;
}

static const char *put_text_field(struct pb_message *m, unsigned number,
                                  const char *p, int repeat)
{
    struct pb_message text = {0};
    const size_t times = strspn(p, "0123456789");

    if (times > 0 && p[times] == '*') { /* '70000*a' */
        for (long i = strtol(p, NULL, 10); i > 0; i--)
            pb_raw(&text, p + times + 1, 1);
        p += times + 2;
    }
    for (; *p && *p != '\''; p++) {
        char digits[12];

        if (*p != '#') {
            pb_raw(&text, p, 1);
            continue;
        }
        snprintf(digits, sizeof digits, "%d", repeat);
        pb_raw(&text, digits, strlen(digits));
    }
    pb_nested(m, number, &text);
    return p;
}

/* The value of a field; what is behind it. */
static const char *put_value(struct pb_message *m, unsigned number,
                             const char *p, int repeat)
{
    struct pb_message inner = {0};
    char *end;

    switch (*p++) {
    case ':':
        pb_int(m, number, strtoll(p, &end, 10));
        assert_true(end > p);
        return end;
    case '=':
        pb_float(m, number, strtof(p, &end));
        assert_true(end > p);
        return end;
    case '{':
        p = put_fields(&inner, p, repeat);
        pb_nested(m, number, &inner);
        break;
    case '[':
        p = put_packed(m, number, p);
        break;
    case '<':
        p = put_hex(m, number, p);
        break;
    case '\'':
        p = put_text_field(m, number, p, repeat);
        break;
    default:
        fail_msg("a field without a value");
    }
    assert_true(*p != '\0');
    return p + 1;
}

/* Fields up to a closing brace or the end. */
static const char *put_fields(struct pb_message *m, const char *p, int repeat)
{
    for (p += strspn(p, " "); *p && *p != '}'; p += strspn(p, " ")) {
        char *end;
        unsigned long number, times = 1;
        const char *from = p;

        if (*p == '$') {
            put_fields(m, short_of(p[1], onnx), repeat);
            p += 2;
            continue;
        }
        number = strtoul(p, &end, 10);
        assert_true(end > p);
        if (*end == '*') {
            times = number;
            from = end + 1;
            number = strtoul(from, &end, 10);
        }
        assert_true(times > 0 && times <= 200000 && number < 1 << 20);
        for (unsigned long i = 0; i < times; i++)
            p = put_value(m, (unsigned)number, end,
                          times > 1 ? (int)i : repeat);
    }
    return p;
}

static int read_onnx(const struct pb_message *m, char *said, size_t room)
{
    struct infer_error err = {0};
    struct graph *g = NULL;
    int rc = read_at("model.onnx", m, NULL, &err, &g);

    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, &err);
    if (rc == 0)
        shapes_of(g, said, room);
    else
        snprintf(said, room, "%s", err.text);
    graph_free(g);
    return rc;
}

static int read_graph(const struct pb_message *m, char *said, size_t room)
{
    struct infer_error err;
    struct graph *g;
    const int rc = def_read(m->data, m->size, &g, &err);

    if (rc == 0)
        shapes_of(g, said, room);
    else
        snprintf(said, room, "%s", err.text);
    graph_free(g);
    return rc;
}

static int read_line(const char *line, char *said, size_t room)
{
    struct pb_message m = {0};
    int rc;

    onnx = strncmp(line, "onnx ", 5) == 0;
    assert_true(onnx || strncmp(line, "graph ", 6) == 0 ||
                strncmp(line, "saved ", 6) == 0);
    line = put_fields(&m, line + (onnx ? 5 : 6), 0);
    assert_true(*line == '\0');
    if (!m.data)
        pb_raw(&m, "", 0);
    rc = onnx ? read_onnx(&m, said, room) : read_graph(&m, said, room);
    pb_free(&m);
    return rc;
}

#define TABLE "tests/unit/weights/lines/messages.def"
#include "tests/unit/weights/importer/table.h"
