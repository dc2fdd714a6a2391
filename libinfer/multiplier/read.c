/* SPDX-License-Identifier: Apache-2.0 */
/* Files of multipliers: how each form is recognised, and the binary ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/graph/constant.h"
#include "kernels/table/product_factors.h"
#include "libinfer/multiplier/multiplier.h"

/* The largest file: 4^11 entries of 4 bytes and a header. */
#define MAX_BYTES ((uint64_t)17 << 20)

#define TFAPPROX_BYTES 131072

/* ---- tables -------------------------------------------------------- */

size_t multiplier_entries(const struct multiplier *m)
{
    return (size_t)1 << (2 * m->bits);
}

struct multiplier *multiplier_new(enum multiplier_kind kind, int bits)
{
    struct multiplier *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->kind = kind;
    m->bits = bits;
    m->table = calloc(multiplier_entries(m), sizeof *m->table);
    if (!m->table) {
        free(m);
        return NULL;
    }
    return m;
}

void multiplier_free(struct multiplier *m)
{
    if (m)
        free(m->table);
    free(m);
}

void multiplier_seal(struct multiplier *m)
{
    uLong crc = crc32(0, NULL, 0);

    for (size_t i = 0; i < multiplier_entries(m); i++) {
        const uint32_t v = (uint32_t)m->table[i];
        const Bytef little[4] = {(Bytef)v, (Bytef)(v >> 8), (Bytef)(v >> 16),
                                 (Bytef)(v >> 24)};
        crc = crc32(crc, little, sizeof little);
    }
    m->crc = (uint32_t)crc;
}

int multiplier_check_float(const struct multiplier *m, struct infer_error *err)
{
    if (m->kind == MULTIPLIER_FLOAT)
        return 0;
    return error_set(
        err, INFER_EUNSUPPORTED,
        "multiplier '%s' multiplies integers of %d bits, and "
        "training does not quantise its operands: 'significands:FILE' "
        "multiplies significands by it",
        m->name, m->bits);
}

int multiplier_by_columns(const struct multiplier *m, struct infer_error *err,
                          uint32_t **out)
{
    const size_t side = (size_t)1 << m->bits;
    const int rc = multiplier_check_float(m, err);

    if (rc < 0)
        return rc;
    *out = malloc(4 * multiplier_entries(m));
    if (!*out)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t a = 0; a < side; a++)
        for (size_t b = 0; b < side; b++)
            (*out)[b << m->bits | a] = (uint32_t)m->table[a << m->bits | b];
    return 0;
}

int multiplier_factors(const struct multiplier *m, struct infer_error *err,
                       uint16_t **out)
{
    const int rc = multiplier_check_float(m, err);
    int rank;

    if (rc < 0)
        return rc;
    *out = malloc((2 * sizeof **out * PRODUCT_FACTORS_MOST) << m->bits);
    rank = *out ? product_factors_find((const uint32_t *)m->table,
                                       INT64_C(1) << m->bits, 1, m->bits, *out)
                : INFER_EMEMORY;
    return rank < 0 ? error_set(err, rank, "out of memory") : rank;
}

int multiplier_errors_by_columns(const struct multiplier *m,
                                 struct infer_error *err, int32_t **out)
{
    const int shift = m->is_signed ? 128 : 0;

    if (m->kind != MULTIPLIER_INTEGER || m->bits != 8)
        return error_set(err, INFER_EUNSUPPORTED,
                         "multiplier '%s' multiplies integers of %d bits: "
                         "layers on integers take 8",
                         m->name, m->bits);
    *out = malloc(4 * multiplier_entries(m));
    if (!*out)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < 256; i++)
        for (int k = 0; k < 256; k++) {
            const int a = i - shift, b = k - shift;
            (*out)[k << 8 | i] = m->table[(a & 255) << 8 | (b & 255)] - a * b;
        }
    return 0;
}

void multiplier_set_name(struct multiplier *m, const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes && i < MULTIPLIER_NAME - 1; i++)
        m->name[i] = (text[i] >= '0' && text[i] <= '9') ||
                             (text[i] >= 'A' && text[i] <= 'Z') ||
                             (text[i] >= 'a' && text[i] <= 'z') ||
                             text[i] == '.' || text[i] == '-'
                         ? text[i]
                         : '_';
    m->name[i] = '\0';
}

/* The file's name without folders and ending. */
static void name_after(struct multiplier *m, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');

    multiplier_set_name(
        m, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* ---- orders of integer operands ------------------------------------ */

/* An order in which a file lists operands, and how its products are read. */
struct order {
    bool is_signed;
    bool from_lowest; /* -128 first; else 0 first, as unsigned bytes count */
};

/* The low bits of the operand that stands at a place. */
static size_t operand_at(const struct order *o, int bits, size_t place)
{
    return o->from_lowest ? place ^ (size_t)1 << (bits - 1) : place;
}

/* A number as a product of this order: half of the 16-bit numbers are negative
 * where operands are signed. */
static int64_t as_product(const struct order *o, int64_t number)
{
    return o->is_signed && number >= 32768 ? number - 65536 : number;
}

/* Sum of the distances from exact products. */
static double distance(const struct multiplier *m, const int64_t *number,
                       const struct order *o)
{
    struct multiplier shape = *m;
    const size_t count = (size_t)1 << m->bits;
    double sum = 0;

    shape.is_signed = o->is_signed;
    for (size_t i = 0; i < count; i++) {
        const double a =
            multiplier_operand(&shape, (int)operand_at(o, m->bits, i));
        for (size_t k = 0; k < count; k++)
            sum += fabs(
                (double)as_product(o, number[i << m->bits | k]) -
                a * multiplier_operand(&shape, (int)operand_at(o, m->bits, k)));
    }
    return sum;
}

int multiplier_orient(struct multiplier *m, const int64_t *number,
                      const char *path, struct infer_error *err)
{
    static const struct order orders[] = {
        {false, false}, {true, false}, {true, true}};
    const size_t count = (size_t)1 << m->bits;
    const struct order *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < count * count; i++)
        if (number[i] < -65536 || number[i] > 65535)
            return error_set(err, INFER_EFORMAT,
                             "%s: number %zu is %lld, which is no product of "
                             "two numbers of %d bits",
                             path, i, (long long)number[i], m->bits);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const double d = distance(m, number, &orders[i]);
        if (d < least) {
            least = d;
            best = &orders[i];
        }
    }
    m->is_signed = best->is_signed;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            m->table[operand_at(best, m->bits, i) << m->bits |
                     operand_at(best, m->bits, k)] =
                (int32_t)as_product(best, number[i << m->bits | k]);
    return 0;
}

/* ---- binary files -------------------------------------------------- */

/* TFApprox: 256 x 256 numbers of 16 bits, least byte first. */
static int read_tfapprox(const char *path, const unsigned char *data,
                         struct infer_error *err, struct multiplier **out)
{
    struct multiplier *m = multiplier_new(MULTIPLIER_INTEGER, 8);
    int64_t *number = malloc(TFAPPROX_BYTES / 2 * sizeof *number);
    int rc;

    if (!m || !number) {
        rc = error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    } else {
        for (size_t i = 0; i < TFAPPROX_BYTES / 2; i++)
            number[i] = data[2 * i] | data[2 * i + 1] << 8;
        rc = multiplier_orient(m, number, path, err);
    }
    free(number);
    if (rc < 0) {
        multiplier_free(m);
        return rc;
    }
    m->form = "TFApprox";
    *out = m;
    return 0;
}

/* m of a table of 4^m bytes, or 0. */
static int bits_of(size_t bytes)
{
    for (int m = 1; m <= PRODUCT_TABLE_MAX_BITS; m++)
        if (bytes == (size_t)1 << (2 * m))
            return m;
    return 0;
}

/* m as the name states it, "NAME_m.bin"; 0 where it does not. */
static int stated_bits(const char *path)
{
    const char *mark = strrchr(path, '_');
    int m = 0;

    if (!mark || strchr(mark, '/'))
        return 0;
    for (mark++; *mark >= '0' && *mark <= '9' && m < 1000; mark++)
        m = m * 10 + (*mark - '0');
    return strcmp(mark, ".bin") == 0 ? m : 0;
}

/* ApproxTrain: bit 7 of a byte is the carry.  The low 7 bits are the fraction
 * at its full width, or, of tables below 7 bits, its m bits aligned at the
 * right: then all of them are below 2^m. */
static int read_approxtrain(const char *path, const unsigned char *data,
                            size_t bytes, struct infer_error *err,
                            struct multiplier **out)
{
    const int bits = bits_of(bytes), stated = stated_bits(path);
    bool right = bits < 7;

    if (stated != 0 && stated != bits)
        return error_set(err, INFER_EFORMAT,
                         "%s: its name says %d mantissa bits, which are %.0f "
                         "bytes, but it has %zu",
                         path, stated, pow(4, stated), bytes);
    for (size_t i = 0; i < bytes; i++)
        if ((data[i] & 0x7f) >> (bits < 7 ? bits : 7))
            right = false;
    struct multiplier *m = multiplier_new(MULTIPLIER_FLOAT, bits);
    if (!m)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < bytes; i++)
        m->table[i] = (data[i] >> 7) << 23 | (data[i] & 0x7f)
                                                 << (right ? 23 - bits : 16);
    m->form = "ApproxTrain";
    *out = m;
    return 0;
}

/* ---- entry --------------------------------------------------------- */

static int read_any(const char *path, const unsigned char *data, size_t bytes,
                    struct infer_error *err, struct multiplier **out)
{
    if (multiplier_is_axm(data, bytes))
        return multiplier_read_axm(path, data, bytes, err, out);
    if (multiplier_is_text(data, bytes))
        return multiplier_read_list(path, data, bytes, err, out);
    if (bytes == TFAPPROX_BYTES)
        return read_tfapprox(path, data, err, out);
    if (bits_of(bytes))
        return read_approxtrain(path, data, bytes, err, out);
    return error_set(err, INFER_EFORMAT,
                     "%s: no table of a multiplier: its %zu bytes are no text, "
                     "and neither 131072 (TFApprox) nor 4^m (ApproxTrain, "
                     "m from 1 to 11)",
                     path, bytes);
}

int multiplier_read(const char *path, const void *data, size_t bytes,
                    struct infer_error *err, struct multiplier **out)
{
    struct multiplier *m;
    const int rc = read_any(path, data, bytes, err, &m);

    if (rc < 0)
        return rc;
    if (!m->name[0])
        name_after(m, path);
    multiplier_seal(m);
    *out = m;
    return 0;
}

/* The file behind "significands:". */
static int open_significands(const char *path, struct infer_error *err,
                             struct multiplier **out)
{
    struct multiplier *integers;
    void *data;
    size_t bytes;
    int rc = file_read_all(path, MAX_BYTES, err, &data, &bytes);

    if (rc < 0)
        return rc;
    rc = multiplier_read(path, data, bytes, err, &integers);
    free(data);
    if (rc < 0)
        return rc;
    rc = multiplier_of_significands(integers, err, out);
    multiplier_free(integers);
    return rc;
}

/* A multiplier without an accumulator. */
static int open_products(const char *text, struct infer_error *err,
                         struct multiplier **out)
{
    static const char significands[] = "significands:";
    struct infer_error io, unknown;
    const char *help;
    void *data;
    size_t bytes;

    if (strncmp(text, significands, sizeof significands - 1) == 0)
        return open_significands(text + sizeof significands - 1, err, out);
    for (int i = 0; multiplier_formula(i, &help); i++) {
        const char *name = multiplier_formula(i, &help);
        const size_t word = strcspn(name, "MK");
        if (strncmp(text, name, word) == 0 && text[word] >= '0' &&
            text[word] <= '9')
            return multiplier_named(text, err, out);
    }
    int rc = file_read_all(text, MAX_BYTES, &io, &data, &bytes);
    if (rc < 0) {
        (void)multiplier_named(text, &unknown, out);
        return error_set(err, rc, "%s; %s", io.text, unknown.text);
    }
    rc = multiplier_read(text, data, bytes, err, out);
    free(data);
    return rc;
}

int multiplier_open(const char *text, struct infer_error *err,
                    struct multiplier **out)
{
    int32_t accumulator[2];
    char *name;
    const int accumulated = multiplier_split(text, err, &name, accumulator);

    if (accumulated < 0)
        return accumulated;
    int rc = open_products(name, err, out);
    free(name);
    if (rc == 0 && accumulated) {
        rc = multiplier_accumulate(*out, accumulator, err);
        if (rc < 0) {
            multiplier_free(*out);
            *out = NULL;
        }
    }
    return rc;
}
