/* SPDX-License-Identifier: Apache-2.0 */
/* Integer tables written as text: a C array (AdaPT) or rows of numbers
 * (ApproxTorch, numpy.savetxt). */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/multiplier.h"

/* 4^8 numbers and one, which tells of too many. */
#define MAX_NUMBERS (65536 + 1)

struct scan {
    const char *path;
    const unsigned char *at, *end;
    int64_t *number;
    size_t count;
    struct infer_error *err;
};

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

bool multiplier_is_text(const unsigned char *data, size_t bytes)
{
    if (bytes == 0)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!is_space(data[i]) && (data[i] < ' ' || data[i] > '~'))
            return false;
    return true;
}

static int fault(const struct scan *s, const char *what)
{
    const size_t left = (size_t)(s->end - s->at);
    int n = 0;

    while (n < 16 && (size_t)n < left && s->at[n] >= ' ')
        n++;
    return error_set(s->err, INFER_EFORMAT, "%s: %s after %zu numbers: '%.*s'",
                     s->path, what, s->count, n, (const char *)s->at);
}

/* Skips what stands between numbers: spaces, separators, and comments of C and
 * of numpy. */
static void skip_between(struct scan *s)
{
    while (s->at < s->end) {
        const size_t left = (size_t)(s->end - s->at);
        if (is_space(*s->at) || strchr(",;{}[]()", *s->at)) {
            s->at++;
        } else if (left >= 2 && memcmp(s->at, "/*", 2) == 0) {
            s->at += 2;
            while (s->at < s->end &&
                   (s->end - s->at < 2 || memcmp(s->at, "*/", 2) != 0))
                s->at++;
            s->at = s->end - s->at < 2 ? s->end : s->at + 2;
        } else if (*s->at == '#' ||
                   (left >= 2 && memcmp(s->at, "//", 2) == 0)) {
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        } else {
            return;
        }
    }
}

/* Digits up to 18 places, and how many places the point moved by. */
static bool take_digits(struct scan *s, int64_t *value, int *point, bool *any)
{
    bool after = false;
    int places = 0;

    *value = 0;
    *point = 0;
    *any = false;
    for (; s->at < s->end; s->at++) {
        if (*s->at == '.' && !after) {
            after = true;
            continue;
        }
        if (!is_digit(*s->at))
            break;
        *any = true;
        /* Zeros at the end of a fraction (numpy writes 18) say nothing. */
        if (places < 18) {
            *value = *value * 10 + (*s->at - '0');
            places += *value != 0;
            *point -= after;
        } else if (*s->at != '0' || !after) {
            return false;
        }
    }
    return true;
}

/* e+04 */
static bool take_exponent(struct scan *s, int *point)
{
    int e = 0;
    bool minus = false;

    if (s->at == s->end || (*s->at != 'e' && *s->at != 'E'))
        return true;
    s->at++;
    if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
        minus = *s->at++ == '-';
    if (s->at == s->end || !is_digit(*s->at))
        return false;
    for (; s->at < s->end && is_digit(*s->at) && e < 1000; s->at++)
        e = e * 10 + (*s->at - '0');
    *point += minus ? -e : e;
    return true;
}

/* A whole number: -12, 16384.0, 1.638400000000000000e+04. */
static int take_number(struct scan *s)
{
    const unsigned char *begin = s->at;
    bool minus = false, any;
    int64_t value;
    int point;

    if (*s->at == '-' || *s->at == '+')
        minus = *s->at++ == '-';
    bool ok =
        take_digits(s, &value, &point, &any) && any && take_exponent(s, &point);
    for (; ok && point < 0 && value != 0; point++) {
        ok = value % 10 == 0;
        value /= 10;
    }
    for (; ok && point > 0 && value != 0; point--) {
        ok = value < INT64_C(1) << 40;
        value *= 10;
    }
    /* A number ends where something else than a word begins. */
    if (ok && s->at < s->end && !is_space(*s->at) &&
        !strchr(",;{}[]()/#", *s->at))
        ok = false;
    if (!ok) {
        s->at = begin;
        return fault(s, "no whole number");
    }
    if (s->count == MAX_NUMBERS)
        return fault(s, "more than 65536 numbers");
    s->number[s->count++] = minus ? -value : value;
    return 0;
}

/* A C file's array begins after its first '='; what is before it are types and
 * sizes. */
static bool skip_declaration(struct scan *s)
{
    const unsigned char *p = memchr(s->at, '=', (size_t)(s->end - s->at));

    if (p)
        s->at = p + 1;
    return p != NULL;
}

static int scan_all(struct scan *s)
{
    int rc = 0;

    for (skip_between(s); rc == 0 && s->at < s->end; skip_between(s))
        rc = take_number(s);
    return rc;
}

/* Bits of a table of that many numbers, or 0. */
static int bits_of(size_t count)
{
    for (int bits = 2; bits <= 8; bits++)
        if (count == (size_t)1 << (2 * bits))
            return bits;
    return 0;
}

int multiplier_read_list(const char *path, const unsigned char *data,
                         size_t bytes, struct infer_error *err,
                         struct multiplier **out)
{
    struct scan s = {path, data, data + bytes, NULL, 0, err};
    struct multiplier *m = NULL;
    int rc = 0;

    s.number = malloc(MAX_NUMBERS * sizeof *s.number);
    if (!s.number)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    const bool c = skip_declaration(&s);
    rc = scan_all(&s);
    if (rc == 0 && !bits_of(s.count))
        rc = error_set(err, INFER_EFORMAT,
                       "%s: a table of %zu numbers (supported: 4^n for n from "
                       "2 to 8 bits, 65536 for 8)",
                       path, s.count);
    if (rc == 0 && !(m = multiplier_new(MULTIPLIER_INTEGER, bits_of(s.count))))
        rc = error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    if (rc == 0)
        rc = multiplier_orient(m, s.number, path, err);
    free(s.number);
    if (rc < 0) {
        multiplier_free(m);
        return rc;
    }
    m->form = c ? "C array" : "text";
    *out = m;
    return 0;
}
