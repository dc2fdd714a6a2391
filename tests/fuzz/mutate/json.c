/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a JSON text: where each begins and ends, and what may stand in its
 * place.  A byte that no token begins with, NUL among them, is passed over, so
 * that two texts with a NUL between them are one list of values. */
#include "tests/fuzz/mutate/json.h"

#include <stdbool.h>
#include <string.h>

#include "tests/fuzz/mutate/mutate.h"

#define MAX_VALUES 4096
#define MAX_DEPTH  64

struct value {
    size_t at, end;
};

struct values {
    struct value item[MAX_VALUES];
    int n;
    int open[MAX_DEPTH]; /* those that are not closed yet */
    int depth;
};

int json_begins(const uint8_t *data, size_t size)
{
    size_t i = 0;

    while (i < size && (data[i] == ' ' || data[i] == '\n'))
        i++;
    return i < size && (data[i] == '{' || data[i] == '[');
}

static size_t string_end(const uint8_t *data, size_t size, size_t at)
{
    for (at++; at < size && data[at] != '"'; at++)
        at += data[at] == '\\';
    return at < size ? at + 1 : size;
}

static size_t word_end(const uint8_t *data, size_t size, size_t at)
{
    while (at < size && data[at] != '\0' && !strchr(" \n\t,:]}[{\"", data[at]))
        at++;
    return at;
}

static int add(struct values *v, size_t at, size_t end)
{
    v->item[v->n] = (struct value){at, end};
    return v->n++;
}

static void find_values(const uint8_t *data, size_t size, struct values *v)
{
    size_t at = 0;

    v->n = v->depth = 0;
    while (at < size && v->n < MAX_VALUES) {
        const uint8_t c = data[at];
        size_t end = at + 1;

        if (c == '{' || c == '[') {
            if (v->depth == MAX_DEPTH)
                return;
            v->open[v->depth++] = add(v, at, size);
        } else if (c == '}' || c == ']') {
            if (v->depth > 0)
                v->item[v->open[--v->depth]].end = end;
        } else if (c == '"') {
            end = string_end(data, size, at);
            add(v, at, end);
        } else if (c != '\0' && !strchr(" \n\t\r,:", c)) {
            end = word_end(data, size, at);
            add(v, at, end);
        }
        at = end;
    }
}

/* Puts bytes in the place of [at, end). */
static size_t put(uint8_t *data, size_t size, size_t room,
                  const struct value *place, const void *bytes, size_t n)
{
    const size_t rest = size - place->end;

    if (n > room || place->at > room - n || rest > room - n - place->at)
        return size;
    memmove(data + place->at + n, data + place->end, rest);
    if (n > 0)
        memcpy(data + place->at, bytes, n);
    return place->at + n + rest;
}

static const char *some_word(unsigned *state)
{
    static const char *const words[] = {
        "0",     "1",          "-1",          "2",
        "3",     "255",        "65536",       "2147483647",
        "1e300", "2147483648", "4294967296",  "9007199254740992",
        "0.5",   "-1e300",     "1e-320",      "-9223372036854775808",
        "null",  "true",       "false",       "\"\"",
        "[]",    "{}",         "[[1]]",       "\"../a\"",
        "7",     "9",          "\"\\u0041\"", "\"a\""};

    return words[mutate_random(state) % (sizeof words / sizeof words[0])];
}

/* A value in the place of `to`, or before it with a comma. */
static size_t copy_value(uint8_t *data, size_t size, size_t room,
                         const struct value *from, struct value to, bool before)
{
    const size_t n = from->end - from->at;
    uint8_t *copy = malloc(n + 1);

    if (!copy)
        return size;
    memcpy(copy, data + from->at, n);
    copy[n] = ',';
    if (before)
        to.end = to.at;
    size = put(data, size, room, &to, copy, n + before);
    free(copy);
    return size;
}

/* Takes a value out, its key, and a comma beside them. */
static size_t drop(uint8_t *data, size_t size, struct value v)
{
    if (v.at > 1 && data[v.at - 1] == ':' && data[v.at - 2] == '"')
        for (v.at -= 2; v.at > 0 && data[v.at - 1] != '"'; v.at--)
            ;
    if (v.at > 0 && data[v.at - 1] == '"')
        v.at--;
    if (v.end < size && data[v.end] == ',')
        v.end++;
    else if (v.at > 0 && data[v.at - 1] == ',')
        v.at--;
    return put(data, size, size, &v, NULL, 0);
}

static size_t change_string(uint8_t *data, size_t size, size_t room,
                            struct value v)
{
    size_t n;
    uint8_t *copy;

    v.at++;
    v.end -= v.end > v.at;
    n = v.end - v.at;
    copy = mutate_copy(data + v.at, &n, 16);
    if (copy)
        size = put(data, size, room, &v, copy, n);
    free(copy);
    return size;
}

size_t json_change(uint8_t *data, size_t size, size_t room, unsigned *state)
{
    struct values *v = malloc(sizeof *v);
    struct value one, other;
    unsigned way;
    const char *word;

    if (v)
        find_values(data, size, v);
    if (!v || v->n == 0) {
        free(v);
        return 0;
    }
    one = v->item[mutate_random(state) % (unsigned)v->n];
    other = v->item[mutate_random(state) % (unsigned)v->n];
    free(v);
    way = mutate_random(state) % 8;
    if (way == 0)
        return drop(data, size, one);
    if (way == 1)
        return copy_value(data, size, room, &one, one, true);
    if (way == 2)
        return copy_value(data, size, room, &other, one, false);
    if (way == 3 && data[one.at] == '"')
        return change_string(data, size, room, one);
    word = some_word(state);
    /* Wholes are rarely replaced: what is in them is the greater part. */
    if (data[one.at] == '{' || data[one.at] == '[')
        one = other;
    return put(data, size, room, &one, word, strlen(word));
}
