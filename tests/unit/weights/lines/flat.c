/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole TensorFlow Lite files on one line each, field by field: what is
 * accepted, with the shapes of the outputs, and what is refused in which words.
 *
 *     0:3 1|{3:19}| 2|{0|{0[1,4] 3'x'}{0[1,4] 3'y'}| 1[0] 2[1] 3|{1[0] 2[1]}|}|
 * 4|{}|
 *
 * are the fields of the table Model: 0:3 an integer of 4 bytes, 0:3b of one,
 * 3'text', 2(0.5) floats, 3L[1,2] integers of 8 bytes, 0[1,4] of 4 bytes,
 * 5<0a1b> bytes in base 16, 2{...} a table, 4|{...}{...}| a list of tables.
 * 300*{...} in a list is that table 300 times, [300*1] the integer 300 times,
 * <300*00> the byte.
 */
#define FLAT_BYTES (1 << 20)

#include "tests/unit/weights/lines/tokens.h"
#include "tests/unit/weights/tflite/model.h"

#define MOST_FIELDS 16
#define MOST_TIMES  200000

static struct flat file;

/* "300*": how often what follows is repeated; 1 where that is not there. */
static size_t take_times(const char **p)
{
    const size_t digits = strspn(*p, "0123456789");
    size_t times = 1;

    if (digits > 0 && (*p)[digits] == '*') {
        times = strtoul(*p, NULL, 10);
        *p += digits + 1;
    }
    assert_true(times > 0 && times <= MOST_TIMES);
    return times;
}

/* How many tables a list has; *p is behind its first bar. */
static size_t count_tables(const char *p)
{
    size_t n = 0;

    for (int depth = 0; *p != '|' || depth > 0; p++) {
        assert_true(*p != '\0');
        if (depth == 0)
            n += take_times(&p) * (*p == '{');
        depth += (*p == '{') - (*p == '}');
    }
    assert_true(n <= MOST_TIMES);
    return n;
}

static size_t put_table(const char **p);

static size_t put_tables(const char **p)
{
    static const unsigned char none[4 * MOST_TIMES];
    const size_t at = flat_vector(&file, none, count_tables(*p), 4);
    size_t k = 0;

    while (**p != '|') {
        const size_t times = take_times(p);
        size_t table;

        assert_true(*(*p)++ == '{');
        table = put_table(p);
        for (size_t i = 0; i < times; i++, k++)
            flat_link(&file, at + 4 + 4 * k, table);
        *p += strspn(*p, " ");
    }
    (*p)++;
    return at;
}

/* Numbers of `size` bytes up to the closing bracket; bytes in base 16. */
static size_t put_numbers(const char **p, char kind)
{
    static unsigned char data[8 * MOST_TIMES];
    const size_t size = kind == 'L' ? 8 : kind == '<' ? 1 : 4;
    size_t n = 0;

    *p += kind == 'L';
    while (!strchr("])>", **p)) {
        const size_t times = take_times(p);
        unsigned base_16 = 0;
        char *end = (char *)(uintptr_t)*p;
        int64_t value = 0;

        if (kind == '<') {
            assert_int_equal(sscanf(*p, "%2x", &base_16), 1);
            value = base_16;
            end += 2;
        } else if (kind == '(') {
            const float real = strtof(*p, &end);
            memcpy(&value, &real, sizeof real);
        } else {
            value = strtoll(*p, &end, 10);
        }
        assert_true(end > *p && n + times <= MOST_TIMES);
        for (size_t i = 0; i < times; i++)
            memcpy(data + size * n++, &value, size);
        *p = end + (*end == ',');
    }
    (*p)++;
    return flat_vector(&file, data, n, size);
}

static size_t put_string(const char **p)
{
    const size_t n = strcspn(*p, "'");
    const size_t at = flat_vector(&file, *p, n, 1);

    *p += n + 1;
    return at;
}

/* Behind the value of a field, without writing it. */
static const char *skip_value(const char *p)
{
    static const char opens[] = "{|[(<'", closes[] = "}|])>'";
    int depth = 0;

    p += *p == 'L';
    const char *kind = strchr(opens, *p);
    assert_true(*p && kind);
    const char close = closes[kind - opens];
    for (p++; *p != close || depth > 0; p++) {
        assert_true(*p != '\0');
        depth += (*p == '{') - (*p == '}');
    }
    return p + 1;
}

/* The value of a field that an offset leads to. */
static size_t put_value(const char **p)
{
    const char kind = *(*p)++;

    switch (kind) {
    case '{':
        return put_table(p);
    case '|':
        return put_tables(p);
    case '\'':
        return put_string(p);
    default:
        return put_numbers(p, kind);
    }
}

/* The fields up to a closing brace or the end: the table comes first, then what
 * its offsets lead to. */
static size_t put_table(const char **p)
{
    struct flat_field field[MOST_FIELDS];
    const char *value[MOST_FIELDS];
    size_t at;
    int n = 0;

    for (*p += strspn(*p, " "); **p && **p != '}'; *p += strspn(*p, " ")) {
        char *end;

        assert_true(n < MOST_FIELDS);
        field[n] = (struct flat_field){(int)strtol(*p, &end, 10), 4, 0};
        assert_true(end > *p && field[n].id < MOST_FIELDS);
        value[n] = NULL;
        if (*end == ':') {
            field[n].value = (uint64_t)strtoll(end + 1, &end, 10);
            field[n].size = *end == 'b' ? 1 : 4;
            *p = end + (*end == 'b');
        } else {
            value[n] = end;
            *p = skip_value(end);
        }
        n++;
    }
    *p += **p == '}';
    at = flat_table(&file, field, n);
    for (int i = 0; i < n; i++)
        if (value[i]) {
            const size_t to = put_value(&value[i]);
            flat_link(&file, flat_field_at(&file, at, field[i].id), to);
        }
    return at;
}

static int read_line(const char *line, char *said, size_t room)
{
    struct infer_error err = {0};
    struct graph *g = NULL;
    int rc;

    memset(&file, 0, sizeof file);
    flat_put(&file, 4, 0x334c4654, 4); /* "TFL3" */
    flat_link(&file, 0, put_table(&line));
    assert_true(*line == '\0');
    rc = read_bytes(file.data, file.bytes, NULL, &err, &g);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, &err);
    if (rc == 0)
        shapes_of(g, said, room);
    else
        snprintf(said, room, "%s", err.text);
    graph_free(g);
    return rc;
}

#define TABLE "tests/unit/weights/lines/flat.def"
#include "tests/unit/weights/importer/table.h"
