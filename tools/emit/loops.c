/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, loops and blocks of accumulators. */
#include "tools/emit/emitter.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks narrower than this are worse than a last block that is not full. */
#define FEWEST_LANES 24
/* Blocks are best of so many, the lanes of the widest vectors. */
#define WHOLE 8

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
    if (n <= EMIT_LANES)
        return n;
    for (int64_t b = EMIT_LANES; b >= FEWEST_LANES; b -= WHOLE)
        if (n % b == 0)
            return b;
    for (int64_t b = EMIT_LANES; b >= FEWEST_LANES; b--)
        if (n % b == 0)
            return b;
    return EMIT_LANES;
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
        emit_line(e, "%s sum[%d];", type, EMIT_LANES);
        emit_clear_sums(e, type);
        return;
    }
    emit_line(e, "%s sum[%d];", type, EMIT_LANES);
    emit_lane_loop(e);
    emit_line(e, "sum[k] = %s;", start);
    emit_close(e);
}

const char *emit_lane_block(const struct emit *e)
{
    return e->lane[0] == '(' ? "k0 + " : "";
}

void emit_lane_loop(struct emit *e)
{
    emit_line(e, "EACH_LANE");
    emit_open(e, "for (long k = 0; k < %s; k++)", e->lanes);
}

void emit_each_lane(struct emit *e)
{
    emit_open(e, "for (long k = 0; k < %s; k++)", e->lanes);
}

void emit_lanes_close(struct emit *e)
{
    if (e->lanes_looped)
        emit_close(e);
    e->lane = NULL;
}
