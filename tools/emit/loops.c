/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, loops and blocks of accumulators. */
#include "tools/emit/emitter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Accumulators of a block: a few vectors of any processor, and 512 bytes of
 * stack in double. */
#define MOST_LANES 64
/* Blocks narrower than this are worse than a last block that is not full. */
#define FEWEST_LANES 24
/* Products that are best added in one pass over the accumulators. */
#define PRODUCTS 4

/* ---- lines --------------------------------------------------------- */

/* Takes out " + 0" before a bracket, a parenthesis or the end. */
static void tidy(char *text)
{
    char *at = text;

    while ((at = strstr(at, " + 0")) != NULL) {
        if (strchr("]);", at[4]) != NULL)
            memmove(at, at + 4, strlen(at + 4) + 1);
        else
            at++;
    }
}

static void add_line(struct emit *e, const char *format, va_list args,
                     const char *end)
{
    char text[1024];
    const int n = vsnprintf(text, sizeof(text), format, args);

    if (n < 0 || (size_t)n >= sizeof(text)) {
        e->failed = true;
        return;
    }
    tidy(text);
    emit_text_add(&e->body, "%*s%s%s\n", 4 * e->depth, "", text, end);
}

void emit_line(struct emit *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(e, format, args, "");
    va_end(args);
}

void emit_open(struct emit *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(e, format, args, " {");
    va_end(args);
    e->depth++;
}

void emit_close(struct emit *e)
{
    e->depth--;
    emit_line(e, "}");
}

void emit_for(struct emit *e, const char *index, int64_t n)
{
    emit_open(e, "for (long %s = 0; %s < %" PRId64 "; %s++)", index, index, n,
              index);
}

const char *emit_offset(const char *index, int64_t stride)
{
    static char buffer[8][96];
    static int turn;
    char *text = buffer[turn++ % 8];

    if (stride == 0)
        text[0] = '\0';
    else if (stride == 1)
        snprintf(text, sizeof(buffer[0]), "%s + ", index);
    else
        snprintf(text, sizeof(buffer[0]), "%s * %" PRId64 " + ", index, stride);
    return text;
}

const char *emit_position(const char *o, int64_t outputs, int64_t step,
                          const char *tap, int64_t taps, int64_t dilation,
                          int64_t pad)
{
    static char buffer[4][160];
    static int turn;
    char *text = buffer[turn++ % 4];
    const size_t room = sizeof(buffer[0]);
    const char *a = outputs > 1 ? emit_offset(o, step) : "";
    const char *b = taps > 1 ? emit_offset(tap, dilation) : "";

    if (pad == 0)
        snprintf(text, room, "%s%s0", a, b);
    else
        snprintf(text, room, "%s%s%" PRId64, a, b, -pad);
    /* "p + -1" reads better as "p - 1". */
    char *minus = strstr(text, "+ -");
    if (minus) {
        minus[0] = '-';
        memmove(minus + 2, minus + 3, strlen(minus + 3) + 1);
    }
    return text;
}

/* ---- nests --------------------------------------------------------- */

void emit_nest_start(struct emit_nest *nest, int rank, const int64_t *dim)
{
    memset(nest, 0, sizeof(*nest));
    nest->rank = rank;
    memcpy(nest->dim, dim, (size_t)rank * sizeof(*dim));
}

int emit_nest_add(struct emit_nest *nest, const struct kern_tensor *t)
{
    const int shift = nest->rank - t->rank;

    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1)
            nest->stride[nest->n][i + shift] = t->stride[i];
    return nest->n++;
}

int emit_nest_add_vector(struct emit_nest *nest, int axis, int64_t stride)
{
    nest->stride[nest->n][axis] = stride;
    return nest->n++;
}

static void swap_loops(struct emit_nest *nest, int a, int b)
{
    const int64_t dim = nest->dim[a];

    nest->dim[a] = nest->dim[b];
    nest->dim[b] = dim;
    for (int i = 0; i < nest->n; i++) {
        const int64_t stride = nest->stride[i][a];
        nest->stride[i][a] = nest->stride[i][b];
        nest->stride[i][b] = stride;
    }
}

void emit_nest_sort(struct emit_nest *nest, int lead)
{
    for (int i = 1; i < nest->rank; i++)
        for (int k = i; k > 0 && llabs(nest->stride[lead][k - 1]) <
                                     llabs(nest->stride[lead][k]);
             k--)
            swap_loops(nest, k - 1, k);
}

static void drop_loop(struct emit_nest *nest, int d)
{
    while (d + 1 < nest->rank) {
        swap_loops(nest, d, d + 1);
        d++;
    }
    nest->rank--;
}

/* Drops loops of one turn, and merges neighbours that every tensor walks as
 * one. */
static void merge(struct emit_nest *nest)
{
    for (int d = nest->rank - 1; d >= 0; d--)
        if (nest->dim[d] == 1)
            drop_loop(nest, d);
    for (int d = nest->rank - 2; d >= 0; d--) {
        bool one = true;

        for (int i = 0; i < nest->n && one; i++)
            one =
                nest->stride[i][d] == nest->stride[i][d + 1] * nest->dim[d + 1];
        if (!one)
            continue;
        nest->dim[d + 1] *= nest->dim[d];
        drop_loop(nest, d);
    }
}

void emit_nest_open(struct emit *e, struct emit_nest *nest, char prefix)
{
    merge(nest);
    for (int i = 0; i < nest->n; i++) {
        char *at = nest->at[i];
        size_t used = 0;

        at[0] = '\0';
        for (int d = 0; d < nest->rank; d++) {
            const int64_t s = nest->stride[i][d];
            const char *plus = used > 0 ? " + " : "";

            if (s == 0)
                continue;
            if (s == 1)
                snprintf(at + used, sizeof(nest->at[i]) - used, "%s%c%d", plus,
                         prefix, d);
            else
                snprintf(at + used, sizeof(nest->at[i]) - used,
                         "%s%c%d * %" PRId64, plus, prefix, d, s);
            used += strlen(at + used);
        }
        if (used == 0)
            snprintf(at, sizeof(nest->at[i]), "0");
    }
    for (int d = 0; d < nest->rank; d++) {
        const char index[] = {prefix, (char)('0' + d), '\0'};
        emit_for(e, index, nest->dim[d]);
    }
    nest->opened = nest->rank;
}

void emit_nest_close(struct emit *e, struct emit_nest *nest)
{
    while (nest->opened > 0) {
        emit_close(e);
        nest->opened--;
    }
}

/* ---- lanes --------------------------------------------------------- */

int64_t emit_block(int64_t n)
{
    if (n <= MOST_LANES)
        return n;
    for (int64_t b = MOST_LANES; b >= FEWEST_LANES; b--)
        if (n % b == 0)
            return b;
    return MOST_LANES;
}

void emit_lanes_open(struct emit *e, int64_t n, const char *type,
                     const char *start)
{
    const int64_t block = emit_block(n);

    snprintf(e->lanes, sizeof(e->lanes), "%" PRId64, block);
    e->lane = block < n ? "(k0 + k)" : "k";
    e->lanes_looped = block < n;
    if (e->lanes_looped)
        emit_open(e, "for (long k0 = 0; k0 < %" PRId64 "; k0 += %" PRId64 ")",
                  n, block);
    if (n % block != 0) {
        emit_line(e,
                  "const long lanes = %" PRId64 " - k0 < %" PRId64 " ? %" PRId64
                  " - k0 : %" PRId64 ";",
                  n, block, n, block);
        snprintf(e->lanes, sizeof(e->lanes), "lanes");
    }
    if (!type)
        return;
    if (strcmp(start, "0") == 0) {
        emit_line(e, "%s sum[%" PRId64 "] = {0};", type, block);
        return;
    }
    emit_line(e, "%s sum[%" PRId64 "];", type, block);
    emit_lane_loop(e);
    emit_line(e, "sum[k] = %s;", start);
    emit_close(e);
}

void emit_lane_loop(struct emit *e)
{
    emit_line(e, "EACH_LANE");
    emit_open(e, "for (long k = 0; k < %s; k++)", e->lanes);
}

void emit_lanes_close(struct emit *e)
{
    if (e->lanes_looped)
        emit_close(e);
    e->lane = NULL;
}

/* ---- sums of products ---------------------------------------------- */

/* "f[k * 2 + 64]": the weight of one product and lane. */
static void add_products(struct emit *e, const struct emit_products *p, int n)
{
    char line[512];
    size_t used = 0;

    for (int i = 0; i < n; i++)
        if (p->integers)
            emit_line(e, "const int32_t a%d = i[%" PRId64 "]%s;", i,
                      i * p->x_step, emit_less_zero(p->zero));
        else
            emit_line(e, "const real a%d = i[%" PRId64 "];", i, i * p->x_step);
    emit_lane_loop(e);
    for (int i = 0; i < n; i++) {
        char at[64];

        if (i == 0)
            snprintf(at, sizeof(at), "k * %" PRId64, p->k_step);
        else
            snprintf(at, sizeof(at), "k * %" PRId64 " + %" PRId64, p->k_step,
                     i * p->f_step);
        if (p->k_step == 1) {
            if (i == 0)
                snprintf(at, sizeof(at), "k");
            else
                snprintf(at, sizeof(at), "k + %" PRId64, i * p->f_step);
        }
        used += (size_t)snprintf(line + used, sizeof(line) - used,
                                 " + a%d * f[%s]", i, at);
    }
    emit_line(e, "sum[k] = sum[k]%s;", line);
    emit_close(e);
}

/* Moves to the next products. */
static void advance(struct emit *e, const struct emit_products *p, int n)
{
    emit_line(e, "i += %" PRId64 ";", n * p->x_step);
    emit_line(e, "f += %" PRId64 ";", n * p->f_step);
}

/* How many products a pass adds, of a number that is a multiple of n: without a
 * rest if possible, which spares a second loop. */
static int pass_of(int64_t n)
{
    static const int sizes[] = {PRODUCTS, 3, 5};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (n % sizes[i] == 0)
            return sizes[i];
    return PRODUCTS;
}

void emit_products(struct emit *e, const struct emit_products *p)
{
    const int pass = pass_of(p->n), rest = (int)(p->n % pass);

    if (p->count) {
        emit_line(e, "long c = %s;", p->count);
        emit_open(e, "for (; c >= %d; c -= %d)", pass, pass);
        add_products(e, p, pass);
        advance(e, p, pass);
        emit_close(e);
        if (rest == 0)
            return;
        emit_open(e, "for (; c > 0; c--)");
        add_products(e, p, 1);
        advance(e, p, 1);
        emit_close(e);
        return;
    }
    if (p->n >= pass) {
        emit_for(e, "c", p->n / pass);
        add_products(e, p, pass);
        advance(e, p, pass);
        emit_close(e);
    }
    if (rest > 0)
        add_products(e, p, rest);
}
