/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose texts differ in integers alone become one, which takes the
 * integers that differ as arguments.  Numbers that differ together are one
 * argument.  Sizes of arrays, parts of other numbers and the bounds of loops
 * for vectors (EACH_LANE) are part of the text.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "tools/emit/emitter.h"

/* Arguments that a call may have more: beyond the first six or so they go
 * through memory. */
#define MOST_ARGUMENTS 12
/* Estimated bytes of code: of a line of C, and of passing and using an
 * argument. */
#define LINE_BYTES     14
#define ARGUMENT_BYTES 8

/* An integer of a text. */
struct number {
    size_t at, n; /* where, and how many digits */
    int argument; /* its number, or -1: equal in all functions */
};

/* A text with its numbers. */
struct parts {
    const char *text;
    struct number *number;
    int n, capacity;
    int lines;
};

/* ---- taking apart -------------------------------------------------- */

/* Length of what begins with a digit: a number of any kind. */
static size_t number_length(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || s[n] == '.' ||
           ((s[n] == '+' || s[n] == '-') && n > 0 &&
            (s[n - 1] == 'e' || s[n - 1] == 'E')))
        n++;
    return n;
}

static bool all_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return n < 10;
}

/* Whether the number at text[at] is the size of an array: "float sum[8]",
 * behind which there is no operator but "=". */
static bool is_size(const char *text, size_t at, size_t n)
{
    size_t from = at;

    if (at == 0 || text[at - 1] != '[' || text[at + n] != ']')
        return false;
    while (from > 0 && text[from - 1] != '\n' && text[from - 1] != ';')
        from--;
    for (; from < at; from++)
        if (strchr("=(+*", text[from]))
            return false;
    return true;
}

/* Whether a number stays as it is. */
static bool is_fixed(const char *text, size_t at, size_t n, bool vector)
{
    return vector || !all_digits(text + at, n) || is_size(text, at, n) ||
           (at > 0 && (text[at - 1] == '.' ||
                       (at > 2 && memcmp(text + at - 3, "_C(", 3) == 0)));
}

static int add_number(struct parts *p, size_t at, size_t n)
{
    void *more =
        array_reserve(p->number, p->n, &p->capacity, sizeof(*p->number));

    if (!more)
        return INFER_EMEMORY;
    p->number = more;
    p->number[p->n++] = (struct number){.at = at, .n = n, .argument = -1};
    return 0;
}

/* Finds the numbers of a function's body. */
static int take_apart(const char *text, struct parts *p)
{
    const char *body = strchr(text, '{');
    bool vector = false, vector_line = false;

    *p = (struct parts){.text = text};
    for (size_t i = body ? (size_t)(body - text) : strlen(text); text[i];) {
        if (text[i] == '\n') {
            p->lines++;
            vector_line = vector;
            vector = false;
            i++;
        } else if (isalpha((unsigned char)text[i]) || text[i] == '_') {
            const size_t from = i;
            while (isalnum((unsigned char)text[i]) || text[i] == '_')
                i++;
            vector =
                vector || (i - from == strlen("EACH_LANE") &&
                           memcmp(text + from, "EACH_LANE", i - from) == 0);
        } else if (isdigit((unsigned char)text[i])) {
            const size_t n = number_length(text + i);
            if (!is_fixed(text, i, n, vector_line) && add_number(p, i, n) < 0)
                return INFER_EMEMORY;
            i += n;
        } else {
            i++;
        }
    }
    return 0;
}

/* Whether two texts are equal but for their numbers. */
static bool are_alike(const struct parts *a, const struct parts *b)
{
    size_t i = 0, k = 0;

    if (a->n != b->n)
        return false;
    for (int n = 0; n < a->n; n++) {
        const struct number *x = &a->number[n], *y = &b->number[n];
        if (x->at - i != y->at - k ||
            memcmp(a->text + i, b->text + k, x->at - i) != 0)
            return false;
        i = x->at + x->n;
        k = y->at + y->n;
    }
    return strcmp(a->text + i, b->text + k) == 0;
}

static bool equal_numbers(const struct parts *a, int i, const struct parts *b,
                          int k)
{
    const struct number *x = &a->number[i], *y = &b->number[k];

    return x->n == y->n && memcmp(a->text + x->at, b->text + y->at, x->n) == 0;
}

/* ---- putting together ---------------------------------------------- */

/* A set of functions that are alike; the first is the leader. */
struct set {
    struct parts *parts; /* of all functions */
    int *member, n;
};

/* Gives numbers that differ within the set an argument each, or one for those
 * that are equal in every member; returns how many. */
static int number_arguments(const struct set *s)
{
    struct parts *first = &s->parts[s->member[0]];
    int arguments = 0;

    for (int i = 0; i < first->n; i++) {
        bool differs = false;

        for (int m = 1; m < s->n && !differs; m++)
            differs = !equal_numbers(first, i, &s->parts[s->member[m]], i);
        if (!differs)
            continue;
        for (int k = 0; k < i && first->number[i].argument < 0; k++) {
            bool same = first->number[k].argument >= 0;
            for (int m = 0; m < s->n && same; m++)
                same = equal_numbers(&s->parts[s->member[m]], i,
                                     &s->parts[s->member[m]], k);
            if (same)
                first->number[i].argument = first->number[k].argument;
        }
        if (first->number[i].argument < 0)
            first->number[i].argument = arguments++;
    }
    return arguments;
}

/* The leader's text with arguments in place of numbers. */
static void write_leader(const struct parts *p, int arguments,
                         struct emit_text *out)
{
    const char *end = strchr(p->text, ')');
    size_t at = (size_t)(end - p->text);

    emit_text_put(out, p->text, at);
    for (int a = 0; a < arguments; a++)
        emit_text_add(out, ", long arg%d", a);
    for (int i = 0; i < p->n; i++) {
        const struct number *x = &p->number[i];
        if (x->argument < 0)
            continue;
        emit_text_put(out, p->text + at, x->at - at);
        emit_text_add(out, "arg%d", x->argument);
        at = x->at + x->n;
    }
    emit_text_put(out, p->text + at, strlen(p->text + at));
}

/* The arguments of a member's calls. */
static void write_arguments(const struct parts *leader, const struct parts *p,
                            int arguments, struct emit_text *out)
{
    for (int a = 0; a < arguments; a++)
        for (int i = 0; i < leader->n; i++)
            if (leader->number[i].argument == a) {
                emit_text_add(out, ", ");
                emit_text_put(out, p->text + p->number[i].at, p->number[i].n);
                break;
            }
}

/* Makes a set one function, if that is smaller. */
static int merge_set(struct emit *e, const struct set *s,
                     struct infer_error *err)
{
    struct parts *leader = &s->parts[s->member[0]];
    const int arguments = number_arguments(s);
    struct emit_text text = {0};
    bool failed = false;
    int calls = 0;

    for (int i = 0; i < e->n_calls; i++)
        for (int m = 0; m < s->n; m++)
            calls += e->call[i].function == s->member[m];
    if (arguments > MOST_ARGUMENTS ||
        (s->n - 1) * leader->lines * LINE_BYTES <
            (calls + 1) * arguments * ARGUMENT_BYTES)
        return 0;
    for (int m = 0; m < s->n; m++) {
        struct emit_text more = {0};
        struct emit_function *f = &e->function[s->member[m]];

        write_arguments(leader, &s->parts[s->member[m]], arguments, &more);
        f->like = s->member[0];
        f->more = more.at;
        failed = failed || more.failed;
    }
    write_leader(leader, arguments, &text);
    free(e->function[s->member[0]].text);
    e->function[s->member[0]].text = text.at;
    if (failed || text.failed)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return 0;
}

int emit_merge(struct emit *e, struct infer_error *err)
{
    const size_t n = (size_t)e->n_functions + 1;
    struct set s = {.parts = calloc(n, sizeof(*s.parts)),
                    .member = calloc(n, sizeof(*s.member))};
    bool *done = calloc(n, sizeof(*done));
    int rc = s.parts && s.member && done ? 0 : INFER_EMEMORY;

    for (int i = 0; rc == 0 && i < e->n_functions; i++)
        rc = take_apart(e->function[i].text, &s.parts[i]);
    if (rc < 0)
        error_set(err, rc, "out of memory");
    for (int i = 0; rc == 0 && i < e->n_functions; i++) {
        if (done[i])
            continue;
        s.n = 0;
        for (int k = i; k < e->n_functions; k++)
            if (!done[k] && are_alike(&s.parts[i], &s.parts[k])) {
                s.member[s.n++] = k;
                done[k] = true;
            }
        if (s.n > 1)
            rc = merge_set(e, &s, err);
    }
    for (int i = 0; s.parts && i < e->n_functions; i++)
        free(s.parts[i].number);
    free(s.parts);
    free(s.member);
    free(done);
    return rc;
}
