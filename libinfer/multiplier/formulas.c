/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of built-in formulas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/multiplier/multiplier.h"

/* Fraction bits of a product in fixed point. */
#define FIXED 32
#define ONE   (UINT64_C(1) << FIXED)

/* What a formula knows besides its operands. */
struct setting {
    int m;             /* mantissa bits */
    int first, second; /* parameters */
};

/* ---- products ------------------------------------------------------ */

static uint64_t exact(const struct setting *s, uint64_t a, uint64_t b)
{
    return a * b << (FIXED - 2 * s->m);
}

/* Weight of the last of `bits` fraction bits once a product is normalised. */
static uint64_t last_bit(uint64_t product, int bits)
{
    return UINT64_C(1) << (FIXED - bits + (product >= 2 * ONE));
}

static uint64_t rounded(const struct setting *s, uint64_t a, uint64_t b)
{
    const uint64_t v = exact(s, a, b), unit = last_bit(v, s->m);
    const uint64_t down = v & ~(unit - 1), rest = v - down;

    if (rest > unit / 2 || (rest == unit / 2 && (down & unit)))
        return down + unit;
    return down;
}

static uint64_t truncated(const struct setting *s, uint64_t a, uint64_t b)
{
    const uint64_t v = exact(s, a, b);

    return v & ~(last_bit(v, s->m) - 1);
}

static uint64_t accurate(const struct setting *s, uint64_t a, uint64_t b)
{
    const uint64_t v = exact(s, a, b);

    return v & ~(last_bit(v, s->second) - 1);
}

/* (1 + x) (1 + y) is about 1 + x + y below 2, else 2 (x + y). */
static uint64_t mitchell(const struct setting *s, uint64_t a, uint64_t b)
{
    const uint64_t sum = (a + b - (UINT64_C(2) << s->m)) << (FIXED - s->m);

    return sum < ONE ? ONE + sum : 2 * sum;
}

/* The correction is halved where x + y is 1 or more, and left out where it
 * would make the product 4 or more. */
static uint64_t mbm(const struct setting *s, uint64_t a, uint64_t b)
{
    const uint64_t correction = ONE / 64 * 5, v = mitchell(s, a, b);

    return v + correction < 4 * ONE ? v + correction : v;
}

/* Of the m + 1 bits the first K stay; the last of these becomes 1. */
static uint64_t drum(const struct setting *s, uint64_t a, uint64_t b)
{
    const int cut = s->m + 1 - s->first;

    return exact(s, (a >> cut | 1) << cut, (b >> cut | 1) << cut);
}

static uint64_t broken_array(const struct setting *s, uint64_t a, uint64_t b)
{
    uint64_t sum = 0;

    for (int i = 0; i <= s->m; i++) {
        const int dropped = s->second > i ? s->second - i : 0;
        if (a >> i & 1)
            sum += b >> dropped << dropped << i;
    }
    return sum << (FIXED - 2 * s->m);
}

/* ---- the table of formulas ----------------------------------------- */

#define NONE (-1)

struct formula {
    const char *word, *parameters;
    int first_min, first_max;
    int (*second_max)(int m); /* negative: there is no second parameter */
    int (*mantissa)(int p);
    uint64_t (*product)(const struct setting *s, uint64_t a, uint64_t b);
    const char *help;
};

#define FORMULA(word, parameters, first_min, first_max, second, mantissa,      \
                product, help)                                                 \
    static int product##_second(int m)                                         \
    {                                                                          \
        (void)m;                                                               \
        return second;                                                         \
    }                                                                          \
    static int product##_mantissa(int p)                                       \
    {                                                                          \
        return mantissa;                                                       \
    }
#include "libinfer/multiplier/formulas.def"

static const struct formula formulas[] = {
#define FORMULA(word, parameters, first_min, first_max, second, mantissa,      \
                product, help)                                                 \
    {word "-",         word "-" parameters, first_min, first_max,              \
     product##_second, product##_mantissa,  product,   help},
#include "libinfer/multiplier/formulas.def"
};

#define COUNT (sizeof formulas / sizeof formulas[0])

const char *multiplier_formula(int i, const char **help)
{
    if (i < 0 || (size_t)i >= COUNT)
        return NULL;
    *help = formulas[i].help;
    return formulas[i].parameters;
}

/* A number without sign or leading zeros, and where the text goes on. */
static bool take_number(const char **text, int *out)
{
    const char *p = *text;
    int n = 0;

    if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9' && n < 1000; p++)
        n = n * 10 + (*p - '0');
    *text = p;
    *out = n;
    return true;
}

/* The parameters after the word; an error names their ranges. */
static int take_parameters(const struct formula *f, const char *name,
                           struct infer_error *err, struct setting *out)
{
    const char *p = name + strlen(f->word);

    if (!take_number(&p, &out->first) || out->first < f->first_min ||
        out->first > f->first_max)
        return error_set(err, INFER_EARGUMENT,
                         "multiplier '%s': %s takes %c from %d to %d", name,
                         f->parameters, f->parameters[strlen(f->word)],
                         f->first_min, f->first_max);
    out->m = f->mantissa(out->first);
    const int most = f->second_max(out->m);
    if (most >= 0 &&
        (*p++ != '-' || !take_number(&p, &out->second) || out->second > most))
        return error_set(err, INFER_EARGUMENT,
                         "multiplier '%s': %s takes %c from 0 to %d here", name,
                         f->parameters, f->parameters[strlen(f->word) + 2],
                         most);
    if (*p)
        return error_set(err, INFER_EARGUMENT,
                         "multiplier '%s': '%s' follows its parameters (%s)",
                         name, p, f->parameters);
    return 0;
}

static const struct formula *find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strncmp(name, formulas[i].word, strlen(formulas[i].word)) == 0)
            return &formulas[i];
    return NULL;
}

/* The entry of a product: its fraction and carry. */
static int32_t entry_of(uint64_t product)
{
    if (product < 2 * ONE)
        return (int32_t)((product - ONE) >> (FIXED - 23));
    return (int32_t)((UINT64_C(1) << 23) +
                     ((product - 2 * ONE) >> (FIXED - 22)));
}

int multiplier_named(const char *name, struct infer_error *err,
                     struct multiplier **out)
{
    const struct formula *f = find(name);
    struct setting s = {0};
    char all[512] = "";

    if (!f) {
        for (size_t i = 0; i < COUNT; i++)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                     i ? ", " : "", formulas[i].parameters);
        return error_set(err, INFER_EARGUMENT,
                         "there is no multiplier '%s' (%s)", name, all);
    }
    const int rc = take_parameters(f, name, err, &s);
    if (rc < 0)
        return rc;
    struct multiplier *m = multiplier_new(MULTIPLIER_FLOAT, s.m);
    if (!m)
        return error_set(err, INFER_EMEMORY, "out of memory");
    const uint64_t one = UINT64_C(1) << s.m;
    for (uint64_t a = 0; a < one; a++)
        for (uint64_t b = 0; b < one; b++)
            m->table[a << s.m | b] = entry_of(f->product(&s, one + a, one + b));
    snprintf(m->name, sizeof m->name, "%s", name);
    m->form = "formula";
    multiplier_seal(m);
    *out = m;
    return 0;
}
