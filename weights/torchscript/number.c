/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the language on numbers that are known. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

/* ---- two numbers --------------------------------------------------- */

static bool both_int(const struct ts_value *a, const struct ts_value *b)
{
    return a->kind != TSV_FLOAT && b->kind != TSV_FLOAT;
}

static int overflow(struct ts_run *r)
{
    return ts_fail(r, INFER_EUNSUPPORTED, "an integer beyond 64 bits");
}

static int add(struct ts_run *r, const struct ts_value *a,
               const struct ts_value *b, struct ts_value *out)
{
    *out = both_int(a, b) ? ts_int(0) : ts_float(ts_real(a) + ts_real(b));
    return both_int(a, b) && __builtin_add_overflow(a->i, b->i, &out->i)
               ? overflow(r)
               : 0;
}

static int sub(struct ts_run *r, const struct ts_value *a,
               const struct ts_value *b, struct ts_value *out)
{
    *out = both_int(a, b) ? ts_int(0) : ts_float(ts_real(a) - ts_real(b));
    return both_int(a, b) && __builtin_sub_overflow(a->i, b->i, &out->i)
               ? overflow(r)
               : 0;
}

static int mul(struct ts_run *r, const struct ts_value *a,
               const struct ts_value *b, struct ts_value *out)
{
    *out = both_int(a, b) ? ts_int(0) : ts_float(ts_real(a) * ts_real(b));
    return both_int(a, b) && __builtin_mul_overflow(a->i, b->i, &out->i)
               ? overflow(r)
               : 0;
}

static int zero(struct ts_run *r)
{
    return ts_fail(r, INFER_EFORMAT, "a division by zero");
}

static int divide(struct ts_run *r, const struct ts_value *a,
                  const struct ts_value *b, struct ts_value *out)
{
    *out = ts_float(ts_real(a) / ts_real(b));
    return ts_real(b) < 0 || ts_real(b) > 0 ? 0 : zero(r);
}

/* As Python does: rounded down, and the remainder has b's sign. */
static int floordiv(struct ts_run *r, const struct ts_value *a,
                    const struct ts_value *b, struct ts_value *out)
{
    *out = ts_float(floor(ts_real(a) / ts_real(b)));
    if (!both_int(a, b))
        return ts_real(b) < 0 || ts_real(b) > 0 ? 0 : zero(r);
    if (b->i == 0)
        return zero(r);
    if (b->i == -1) {
        const struct ts_value none = ts_int(0);

        return sub(r, &none, a, out);
    }
    *out = ts_int(a->i / b->i - (a->i % b->i != 0 && (a->i < 0) != (b->i < 0)));
    return 0;
}

static int modulo(struct ts_run *r, const struct ts_value *a,
                  const struct ts_value *b, struct ts_value *out)
{
    double f;

    if (!both_int(a, b)) {
        f = fmod(ts_real(a), ts_real(b));
        if ((f < 0 || f > 0) && (f < 0) != (ts_real(b) < 0))
            f += ts_real(b);
        *out = ts_float(f);
        return ts_real(b) < 0 || ts_real(b) > 0 ? 0 : zero(r);
    }
    if (b->i == 0)
        return zero(r);
    *out = ts_int(b->i == -1 ? 0 : a->i % b->i);
    if (out->i != 0 && (out->i < 0) != (b->i < 0))
        out->i += b->i;
    return 0;
}

/* Integers to a power that is no negative integer are integers where the
 * program says so; else PyTorch gives a float. */
static int power(struct ts_run *r, const struct ts_value *a,
                 const struct ts_value *b, struct ts_value *out)
{
    const double f = pow(ts_real(a), ts_real(b));

    *out = ts_float(f);
    if (both_int(a, b) && b->i >= 0) {
        if (!(fabs(f) < 9e15))
            return overflow(r);
        *out = ts_int((int64_t)f);
    }
    return 0;
}

/* What is computed from a type that the file does not state. */
static int computed(const struct ts_value *a, const struct ts_value *b,
                    struct ts_value *out)
{
    out->assumed = a->assumed || b->assumed;
    out->text = a->assumed ? a->text : b->text;
    return 1;
}

static int compare(struct pb_span name, const struct ts_value *a,
                   const struct ts_value *b, struct ts_value *out)
{
    const double x = ts_real(a), y = ts_real(b);
    const bool ints = both_int(a, b);
    const int order = ints ? (a->i > b->i) - (a->i < b->i) : (x > y) - (x < y);
    const bool nan = !ints && (isnan(x) || isnan(y));

    *out = ts_bool(pb_span_is(name, "eq")   ? !nan && order == 0
                   : pb_span_is(name, "ne") ? nan || order != 0
                   : pb_span_is(name, "lt") ? !nan && order < 0
                   : pb_span_is(name, "le") ? !nan && order <= 0
                   : pb_span_is(name, "gt") ? !nan && order > 0
                                            : !nan && order >= 0);
    return computed(a, b, out);
}

static int bits(struct pb_span name, const struct ts_value *a,
                const struct ts_value *b, struct ts_value *out)
{
    const int64_t v = pb_span_is(name, "__and__")  ? a->i & b->i
                      : pb_span_is(name, "__or__") ? a->i | b->i
                                                   : a->i ^ b->i;

    *out = a->kind == TSV_BOOL && b->kind == TSV_BOOL ? ts_bool(v != 0)
                                                      : ts_int(v);
    return computed(a, b, out);
}

static bool is_one_of(struct pb_span name, const char *const *list)
{
    for (; *list; list++)
        if (pb_span_is(name, *list))
            return true;
    return false;
}

static int two(struct ts_run *r, struct pb_span name, const struct ts_value *a,
               const struct ts_value *b, struct ts_value *out)
{
    static const struct {
        const char *name;
        int (*function)(struct ts_run *r, const struct ts_value *a,
                        const struct ts_value *b, struct ts_value *out);
    } rows[] = {{"add", add},           {"sub", sub},
                {"mul", mul},           {"div", divide},
                {"floordiv", floordiv}, {"floor_divide", floordiv},
                {"remainder", modulo},  {"pow", power}};
    static const char *const comparisons[] = {"eq", "ne", "lt", "le",
                                              "gt", "ge", NULL};
    static const char *const logic[] = {"__and__", "__or__", "__xor__", NULL};
    int rc;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pb_span_is(name, rows[i].name)) {
            rc = rows[i].function(r, a, b, out);
            return rc < 0 ? rc : computed(a, b, out);
        }
    if (is_one_of(name, comparisons))
        return compare(name, a, b, out);
    if (is_one_of(name, logic) && both_int(a, b))
        return bits(name, a, b, out);
    if (pb_span_is(name, "min") || pb_span_is(name, "max")) {
        const bool less = ts_real(a) < ts_real(b);

        *out = less == pb_span_is(name, "min") ? *a : *b;
        if (!both_int(a, b))
            *out = ts_float(ts_real(out));
        return 1;
    }
    return 0;
}

/* ---- one number ---------------------------------------------------- */

/* Rounded to an integer, which must fit. */
static int rounded(struct ts_run *r, double f, struct ts_value *out)
{
    if (!(fabs(f) < 9.2e18))
        return overflow(r);
    *out = ts_int((int64_t)f);
    return 1;
}

static int one(struct ts_run *r, struct pb_span name, const struct ts_value *a,
               struct ts_value *out)
{
    static const struct {
        const char *name;
        double (*function)(double);
    } rows[] = {{"sqrt", sqrt}, {"exp", exp},   {"log", log},   {"sin", sin},
                {"cos", cos},   {"tan", tan},   {"tanh", tanh}, {"log2", log2},
                {"atan", atan}, {"fabs", fabs}, {"round", rint}};
    const struct ts_value none = ts_int(0);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pb_span_is(name, rows[i].name)) {
            *out = ts_float(rows[i].function(ts_real(a)));
            return 1;
        }
    if (pb_span_is(name, "neg")) {
        const int rc = a->kind == TSV_FLOAT ? 0 : sub(r, &none, a, out);

        if (a->kind == TSV_FLOAT)
            *out = ts_float(-a->f);
        return rc < 0 ? rc : 1;
    }
    if (pb_span_is(name, "abs")) {
        if (a->kind == TSV_FLOAT)
            *out = ts_float(fabs(a->f));
        else if (a->i < 0)
            return sub(r, &none, a, out) < 0 ? r->err->code : 1;
        else
            *out = ts_int(a->i);
        return 1;
    }
    if (pb_span_is(name, "floor") || pb_span_is(name, "ceil")) {
        if (a->kind == TSV_FLOAT)
            return rounded(
                r, pb_span_is(name, "floor") ? floor(a->f) : ceil(a->f), out);
        *out = *a;
        return 1;
    }
    if (pb_span_is(name, "int") || pb_span_is(name, "Int")) {
        if (a->kind == TSV_FLOAT)
            return rounded(r, trunc(a->f), out);
        *out = ts_int(a->i);
        return 1;
    }
    if (pb_span_is(name, "float") || pb_span_is(name, "Float")) {
        *out = ts_float(ts_real(a));
        return 1;
    }
    return 0;
}

int ts_arithmetic(struct ts_run *r, struct pb_span name, int n,
                  const struct ts_arg *arg, struct ts_value *out)
{
    for (int i = 0; i < n; i++)
        if (!ts_is_known(&arg[i].value) || arg[i].name.bytes)
            return 0;
    return n == 1   ? one(r, name, &arg[0].value, out)
           : n == 2 ? two(r, name, &arg[0].value, &arg[1].value, out)
                    : 0;
}
