/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over a JSON text, without recursion, that accepts exactly RFC 8259
 * within the limits of json.h. */
#include "kernels/base/json_scan.h"

#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"

struct scan {
    const unsigned char *start, *at, *end;
    bool allow_nan;
    size_t cost; /* bytes of the tree so far */
    size_t most; /* that cost may be */
    size_t not_finite;
    struct infer_error *err;
};

static int fail(const struct scan *s, const char *what)
{
    return error_set(s->err, INFER_EFORMAT, "JSON, byte %zu: %s",
                     (size_t)(s->at - s->start), what);
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' ||
                              *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

/* ---- strings ------------------------------------------------------- */

/* Four hexadecimal digits at `at`, or -1. */
static int hex4(const struct scan *s, const unsigned char *at)
{
    int code = 0, i;

    if (s->end - at < 4)
        return -1;
    for (i = 0; i < 4; i++) {
        int c = at[i];

        if (c >= '0' && c <= '9')
            c -= '0';
        else if (c >= 'a' && c <= 'f')
            c -= 'a' - 10;
        else if (c >= 'A' && c <= 'F')
            c -= 'A' - 10;
        else
            return -1;
        code = code << 4 | c;
    }
    return code;
}

/* After a backslash and 'u': one code unit, or a pair of surrogates. */
static int scan_unicode(struct scan *s)
{
    int code = hex4(s, s->at);

    if (code < 0)
        return fail(s, "\\u needs four hexadecimal digits");
    if (code == 0)
        return fail(s, "\\u0000 in a string");
    if (code >= 0xdc00 && code <= 0xdfff)
        return fail(s, "lone surrogate");
    if (code >= 0xd800 && code <= 0xdbff) {
        int low = -1;

        if (s->end - s->at >= 10 && s->at[4] == '\\' && s->at[5] == 'u')
            low = hex4(s, s->at + 6);
        if (low < 0xdc00 || low > 0xdfff)
            return fail(s, "lone surrogate");
        s->at += 6;
    }
    s->at += 4;
    return INFER_OK;
}

static int scan_escape(struct scan *s)
{
    s->at++;
    if (s->at == s->end)
        return fail(s, "unterminated string");
    if (*s->at == 'u') {
        s->at++;
        return scan_unicode(s);
    }
    if (*s->at == 0 || strchr("\"\\/bfnrt", *s->at) == NULL)
        return fail(s, "unknown escape");
    s->at++;
    return INFER_OK;
}

/* Bytes of cJSON's struct, and of what finding duplicate keys needs. */
#define VALUE_COST 96
/* Of a string: a block of memory with its header and rounding. */
#define STRING_COST(length) ((length) + 24)

static int scan_string(struct scan *s)
{
    const unsigned char *start = ++s->at;

    while (s->at < s->end) {
        uint32_t code;
        size_t n;

        if (*s->at == '"') {
            s->cost += STRING_COST((size_t)(s->at - start));
            s->at++;
            return INFER_OK;
        }
        if (*s->at == '\\') {
            int rc = scan_escape(s);

            if (rc < 0)
                return rc;
            continue;
        }
        if (*s->at < 0x20)
            return fail(s, "control character in a string");
        n = text_utf8(s->at, (size_t)(s->end - s->at), &code);
        if (n == 0)
            return fail(s, "invalid UTF-8");
        s->at += n;
    }
    return fail(s, "unterminated string");
}

/* ---- scalars ------------------------------------------------------- */

static bool scan_digits(struct scan *s)
{
    const unsigned char *from = s->at;

    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > from;
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static int scan_number(struct scan *s)
{
    const unsigned char *from = s->at, *digits;

    if (*s->at == '-')
        s->at++;
    digits = s->at;
    if (!scan_digits(s))
        return fail(s, "a number needs digits");
    if (*digits == '0' && s->at - digits > 1)
        return fail(s, "a number with a leading zero");
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!scan_digits(s))
            return fail(s, "a number needs digits behind its point");
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (!scan_digits(s))
            return fail(s, "a number needs digits in its exponent");
    }
    if (s->at - from > JSON_MAX_NUMBER)
        return fail(s, "a number of more than 63 characters");
    return INFER_OK;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

static int scan_scalar(struct scan *s)
{
    if (*s->at == '"')
        return scan_string(s);
    if (scan_word(s, "true") || scan_word(s, "false") || scan_word(s, "null"))
        return INFER_OK;
    if (s->allow_nan && (scan_word(s, "NaN") || scan_word(s, "Infinity") ||
                         scan_word(s, "-Infinity"))) {
        s->not_finite++;
        return INFER_OK;
    }
    if (*s->at == '-' || (*s->at >= '0' && *s->at <= '9'))
        return scan_number(s);
    return fail(s, "a value is expected");
}

/* ---- structure ----------------------------------------------------- */

/* A member's key and colon. */
static int scan_key(struct scan *s)
{
    int rc;

    skip_space(s);
    if (s->at == s->end || *s->at != '"')
        return fail(s, "a key is expected");
    rc = scan_string(s);
    if (rc < 0)
        return rc;
    skip_space(s);
    if (s->at == s->end || *s->at != ':')
        return fail(s, "':' is expected");
    s->at++;
    return INFER_OK;
}

/* After a value at depth `depth`: closes what ends here and stops before the
 * next value.  stack[i] is the bracket that closes level i. */
static int scan_after(struct scan *s, const char *stack, int *depth)
{
    while (*depth > 0) {
        skip_space(s);
        if (s->at == s->end)
            return fail(s, "the text ends too early");
        if (*s->at == (unsigned char)stack[*depth - 1]) {
            s->at++;
            (*depth)--;
        } else if (*s->at == ',') {
            s->at++;
            return stack[*depth - 1] == '}' ? scan_key(s) : INFER_OK;
        } else {
            return fail(s, "',' or the closing bracket is expected");
        }
    }
    return INFER_OK;
}

/* One value, or the opening of one; *depth grows where it opens. */
static int scan_value(struct scan *s, char *stack, int *depth, bool *opened)
{
    *opened = false;
    skip_space(s);
    if (s->at == s->end)
        return fail(s, "the text ends too early");
    s->cost += VALUE_COST;
    if (s->cost > s->most)
        return fail(s, "more values than the limit: in memory they would take "
                       "24 MiB more than the text or its file");
    if (*s->at != '[' && *s->at != '{')
        return scan_scalar(s);
    if (*depth == JSON_MAX_DEPTH)
        return fail(s, "nested deeper than the limit of 64");
    stack[(*depth)++] = *s->at == '[' ? ']' : '}';
    s->at++;
    skip_space(s);
    if (s->at < s->end && *s->at == (unsigned char)stack[*depth - 1])
        return INFER_OK; /* empty: scan_after() closes it */
    *opened = true;
    return stack[*depth - 1] == '}' ? scan_key(s) : INFER_OK;
}

int json_scan(const char *text, size_t bytes, size_t room, bool allow_nan,
              size_t *not_finite, struct infer_error *err)
{
    struct scan s = {
        .start = (const unsigned char *)text,
        .at = (const unsigned char *)text,
        .end = (const unsigned char *)text + bytes,
        .most = JSON_FREE_BYTES + (room > bytes ? room : bytes),
        .allow_nan = allow_nan,
        .err = err,
    };
    char stack[JSON_MAX_DEPTH];
    int depth = 0, rc;
    bool opened;

    do {
        rc = scan_value(&s, stack, &depth, &opened);
        if (rc == INFER_OK && !opened)
            rc = scan_after(&s, stack, &depth);
    } while (rc == INFER_OK && depth > 0);
    if (rc < 0)
        return rc;
    skip_space(&s);
    if (s.at < s.end)
        return fail(&s, "something follows the value");
    *not_finite = s.not_finite;
    return INFER_OK;
}
