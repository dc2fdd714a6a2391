/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the emitted file: those of kernels/unary.def and
 * kernels/binary.def, whose expressions are written as they stand there, and
 * the words that they are made of. */
#include "tools/emit/emitter.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/scalar.h"

/* A word of an expression and what the file writes for it; text: the functions
 * that it needs, separated by empty lines, or NULL. */
struct word {
    const char *word, *name, *text;
};

/* A function of <math.h> in the precision of real. */
#define MATH(f)                                                                \
    "static inline real real_" f "(real x)\n"                                  \
    "{\n"                                                                      \
    "    return sizeof(real) < sizeof(double) ? (real)" f "f((float)x)\n"      \
    "                                         : (real)" f "(x);\n"             \
    "}\n"
#define MATH2(f)                                                               \
    "static inline real real_" f "(real a, real b)\n"                          \
    "{\n"                                                                      \
    "    return sizeof(real) < sizeof(double)\n"                               \
    "               ? (real)" f "f((float)a, (float)b)\n"                      \
    "               : (real)" f "(a, b);\n"                                    \
    "}\n"

#define MULTIPLY_I64                                                           \
    "static inline int64_t multiply_i64(int64_t a, int64_t b)\n"               \
    "{\n"                                                                      \
    "    return (int64_t)((uint64_t)a * (uint64_t)b);\n"                       \
    "}\n"

#define LOGISTIC                                                               \
    "static inline float quant_exp_minus(float x)\n"                           \
    "{\n"                                                                      \
    "    const float a = x > -60 ? x < 60 ? x : 60 : -60;\n"                   \
    "    const float t = fmaf(a, -1.44269502f, 12582912.0f);\n"                \
    "    const float n = t + -12582912.0f;\n"                                  \
    "    const float f = fmaf(a, -1.44269502f, -n);\n"                         \
    "    float p = 0x1.5c082ap-10f;\n"                                         \
    "    uint32_t bits, whole;\n"                                              \
    "    p = fmaf(p, f, 0x1.3d0c5p-7f);\n"                                     \
    "    p = fmaf(p, f, 0x1.c6b6e6p-5f);\n"                                    \
    "    p = fmaf(p, f, 0x1.ebf918p-3f);\n"                                    \
    "    p = fmaf(p, f, 0x1.62e428p-1f);\n"                                    \
    "    p = fmaf(p, f, 1.0f);\n"                                              \
    "    memcpy(&bits, &p, sizeof bits);\n"                                    \
    "    memcpy(&whole, &t, sizeof whole);\n"                                  \
    "    bits += whole << 23;\n"                                               \
    "    memcpy(&p, &bits, sizeof p);\n"                                       \
    "    return p;\n"                                                          \
    "}\n"                                                                      \
    "\n"                                                                       \
    "static inline float quant_logistic(float x)\n"                            \
    "{\n"                                                                      \
    "    const float d = 1.0f + quant_exp_minus(x);\n"                         \
    "    uint32_t bits;\n"                                                     \
    "    float r;\n"                                                           \
    "    memcpy(&bits, &d, sizeof bits);\n"                                    \
    "    bits = 0x7ef311c7u - bits;\n"                                         \
    "    memcpy(&r, &bits, sizeof r);\n"                                       \
    "    r = fmaf(r, fmaf(-d, r, 1.0f), r);\n"                                 \
    "    r = fmaf(r, fmaf(-d, r, 1.0f), r);\n"                                 \
    "    return fmaf(r, fmaf(-d, r, 1.0f), r);\n"                              \
    "}\n"

static const struct word words[] = {
    {"REAL", "(real)", NULL},
    {"REAL_ABS", "real_fabs", MATH("fabs")},
    {"REAL_CEIL", "real_ceil", MATH("ceil")},
    {"REAL_ERF", "real_erf", MATH("erf")},
    {"REAL_EXP", "real_exp", MATH("exp")},
    {"REAL_EXPM1", "real_expm1", MATH("expm1")},
    {"REAL_FLOOR", "real_floor", MATH("floor")},
    {"REAL_LOG", "real_log", MATH("log")},
    {"REAL_RINT", "real_nearbyint", MATH("nearbyint")},
    {"REAL_SQRT", "real_sqrt", MATH("sqrt")},
    {"REAL_TANH", "real_tanh", MATH("tanh")},
    {"REAL_SIN", "real_sin", MATH("sin")},
    {"REAL_COS", "real_cos", MATH("cos")},
    {"REAL_TAN", "real_tan", MATH("tan")},
    {"REAL_ASIN", "real_asin", MATH("asin")},
    {"REAL_ACOS", "real_acos", MATH("acos")},
    {"REAL_ATAN", "real_atan", MATH("atan")},
    {"REAL_SINH", "real_sinh", MATH("sinh")},
    {"REAL_COSH", "real_cosh", MATH("cosh")},
    {"REAL_ASINH", "real_asinh", MATH("asinh")},
    {"REAL_ACOSH", "real_acosh", MATH("acosh")},
    {"REAL_ATANH", "real_atanh", MATH("atanh")},
    {"REAL_POW", "real_pow", MATH2("pow")},
    {"REAL_FMOD", "real_fmod", MATH2("fmod")},
    {"REAL_LOG1P", "real_log1p", MATH("log1p")},
    {"REAL_SIGMOID", "logistic",
     MATH("exp") "\nstatic inline real logistic(real x)\n"
                 "{\n"
                 "    return 1 / (1 + real_exp(-x));\n"
                 "}\n"},
    {"REAL_SOFTPLUS", "log_one_plus_exp",
     MATH("exp") "\n" MATH(
         "log1p") "\nstatic inline real log_one_plus_exp(real x)\n"
                  "{\n"
                  "    return x > 0 ? x + real_log1p(real_exp(-x))\n"
                  "                 : real_log1p(real_exp(x));\n"
                  "}\n"},
    {"REAL_CLIP", "limit",
     "static inline real limit(real x, real low, real high)\n"
     "{\n"
     "    x = x < low ? low : x;\n"
     "    return x > high ? high : x;\n"
     "}\n"},
    {"REAL_MADD", "affine",
     "static inline real affine(real a, real x, real b)\n"
     "{\n"
     "    return a * x + b;\n"
     "}\n"},
    {"REAL_DIV_ADD", "divide_add",
     "static inline real divide_add(real x, real c, real b)\n"
     "{\n"
     "    return x / c + b;\n"
     "}\n"},
    {"REAL_ABOVE", "above",
     "static inline int above(real x, real a)\n"
     "{\n"
     "    return x > a || x != x;\n"
     "}\n"},
    {"gelu_tanh", "gelu_by_tanh",
     MATH("tanh") "\nstatic inline real gelu_by_tanh(real x)\n"
                  "{\n"
                  "    return (real)0.5 * x *\n"
                  "           (1 + real_tanh((real)0.79788456080286535588 *\n"
                  "                     (x + (real)0.044715 * x * x * x)));\n"
                  "}\n"},
    {"modulo", "modulo",
     MATH2("fmod") "\nstatic inline real modulo(real a, real b)\n"
                   "{\n"
                   "    const real r = real_fmod(a, b);\n"
                   "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
                   "}\n"},
    /* Of integers. */
    {"INT_ADD", "add_i64",
     "static inline int64_t add_i64(int64_t a, int64_t b)\n"
     "{\n"
     "    return (int64_t)((uint64_t)a + (uint64_t)b);\n"
     "}\n"},
    {"INT_SUBTRACT", "subtract_i64",
     "static inline int64_t subtract_i64(int64_t a, int64_t b)\n"
     "{\n"
     "    return (int64_t)((uint64_t)a - (uint64_t)b);\n"
     "}\n"},
    {"INT_MULTIPLY", "multiply_i64", MULTIPLY_I64},
    {"INT_NEG", "negate_i64",
     "static inline int64_t negate_i64(int64_t a)\n"
     "{\n"
     "    return (int64_t)(0 - (uint64_t)a);\n"
     "}\n"},
    {"divide_integers", "divide_i64",
     "static inline int64_t divide_i64(int64_t a, int64_t b)\n"
     "{\n"
     "    if (b == 0)\n"
     "        return 0;\n"
     "    if (b == -1)\n"
     "        return (int64_t)(0 - (uint64_t)a);\n"
     "    return a / b;\n"
     "}\n"},
    {"modulo_integers", "modulo_i64",
     "static inline int64_t modulo_i64(int64_t a, int64_t b)\n"
     "{\n"
     "    const int64_t r = b == 0 || b == -1 ? 0 : a % b;\n"
     "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
     "}\n"},
    {"shift_left", "shift_left",
     "static inline int64_t shift_left(int64_t a, int64_t b)\n"
     "{\n"
     "    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);\n"
     "}\n"},
    {"shift_right", "shift_right",
     "static inline int64_t shift_right(int64_t a, int64_t b)\n"
     "{\n"
     "    return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;\n"
     "}\n"},
    {"power_of_integers", "power_i64",
     MULTIPLY_I64 "static inline int64_t power_i64(int64_t a, int64_t b)\n"
                  "{\n"
                  "    int64_t r = 1;\n"
                  "    if (b < 0)\n"
                  "        return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;\n"
                  "    for (; b > 0; b >>= 1) {\n"
                  "        if (b & 1)\n"
                  "            r = multiply_i64(r, a);\n"
                  "        if (b > 1)\n"
                  "            a = multiply_i64(a, a);\n"
                  "    }\n"
                  "    return r;\n"
                  "}\n"},
    /* Used by emitters, not by expressions. */
    {"saturate", "saturate",
     "static inline real saturate(real v, real low, real high)\n"
     "{\n"
     "    return v != v ? 0 : v < low ? low : v > high ? high : v;\n"
     "}\n"},
    {"to_i64", "to_i64",
     "static inline int64_t to_i64(real v)\n"
     "{\n"
     "    if (v != v)\n"
     "        return 0;\n"
     "    if (v >= (real)9223372036854775808.0)\n"
     "        return INT64_MAX;\n"
     "    return v < -(real)9223372036854775808.0 ? INT64_MIN : (int64_t)v;\n"
     "}\n"},
    {"to_i32", "to_i32",
     "static inline int32_t to_i32(real v)\n"
     "{\n"
     "    if (!(v > -2147483648.0))\n"
     "        return v <= 0 ? INT32_MIN : 0;\n"
     "    return v < 2147483647.0 ? (int32_t)rint(v) : INT32_MAX;\n"
     "}\n"},
    /* kernels/quant/requantize.h */
    {"requantize", "requantize",
     "static inline int32_t requantize(int32_t x, int32_t multiplier,\n"
     "                                 int shift, int left, int once,\n"
     "                                 int32_t addend, int32_t low,\n"
     "                                 int32_t high)\n"
     "{\n"
     "    const int up = left + (!once && shift > 0 ? shift : 0);\n"
     "    const int down = shift > 0 ? 0 : -shift;\n"
     "    const int32_t mask = (int32_t)(((uint32_t)1 << down) - 1);\n"
     "    const int32_t wide =\n"
     "        up > 31 ? 0 : (int32_t)((uint32_t)x << up);\n"
     "    const int64_t product = (int64_t)wide * multiplier;\n"
     "    int32_t v;\n"
     "\n"
     "    if (once) {\n"
     "        v = (int32_t)((product + ((int64_t)1 << (30 - shift))) >>\n"
     "                      (31 - shift));\n"
     "    } else {\n"
     "        v = (int32_t)((product + ((int64_t)1 << 30)) >> 31);\n"
     "        v = (v >> down) + ((v & mask) > (mask >> 1) + (v < 0));\n"
     "    }\n"
     "    v = (int32_t)((uint32_t)v + (uint32_t)addend);\n"
     "    return v < low ? low : v > high ? high : v;\n"
     "}\n"},
    {"requantize_wide", "requantize_wide",
     "static inline int32_t requantize_wide(int32_t x, int left, int all,\n"
     "                                      int32_t addend,\n"
     "                                      int32_t multiplier, int shift,\n"
     "                                      int32_t low, int32_t high)\n"
     "{\n"
     "    const int s = shift > 14 ? 14 : shift;\n"
     "    const uint64_t sum = ((uint64_t)(int64_t)x << left) +\n"
     "                         (uint64_t)(int64_t)addend;\n"
     "    const uint64_t m = (uint64_t)(all ? multiplier\n"
     "                                      : multiplier >> 16);\n"
     "    const uint64_t half = (uint64_t)1 << ((all ? 30 : 14) - s);\n"
     "    const uint64_t part = ((sum & 0xffff) * m + half) >> 16;\n"
     "    const uint64_t product =\n"
     "        all ? (uint64_t)((int64_t)sum >> 16) * m + part\n"
     "            : sum * m + half;\n"
     "    const int32_t v = (int32_t)((int64_t)product >> (15 - s));\n"
     "\n"
     "    return v < low ? low : v > high ? high : v;\n"
     "}\n"},
    {"clamp_i64", "clamp_i64",
     "static inline int64_t clamp_i64(int64_t v, int64_t low, int64_t high)\n"
     "{\n"
     "    return v < low ? low : v > high ? high : v;\n"
     "}\n"},
    /* Halves to even, for |v| < 2^22. */
    {"to_nearest", "to_nearest",
     "static inline int32_t to_nearest(float v)\n"
     "{\n"
     "    const float up = v + 12582912.0f;\n"
     "    return (int32_t)(up - 12582912.0f);\n"
     "}\n"},
    /* Smooth activations of 8 bits, as kernels/quant/act.h has them. */
    {"quant_logistic", "quant_logistic", LOGISTIC},
    {"quant_curve", "quant_curve",
     "static inline float quant_curve(float v, float c0, float c1, float c2)\n"
     "{\n"
     "    const float w = v * v < 64 ? v * v : 64;\n"
     "    return v * fmaf(w, fmaf(w, c2, c1), c0);\n"
     "}\n"},
    {"quant_hard", "quant_hard",
     "static inline float quant_hard(float v)\n"
     "{\n"
     "    v = v > 0 ? v : 0;\n"
     "    return v < 1 ? v : 1;\n"
     "}\n"},
    {"wrap", "wrap",
     "static inline long wrap(long i, long n)\n"
     "{\n"
     "    const long r = i % n;\n"
     "    return r < 0 ? r + n : r;\n"
     "}\n"},
    {"reflect", "reflect",
     "static inline long reflect(long i, long n)\n"
     "{\n"
     "    const long m = n == 1 ? 1 : 2 * (n - 1);\n"
     "    const long r = i % m < 0 ? i % m + m : i % m;\n"
     "    return r < n ? r : m - r;\n"
     "}\n"},
    {"edge", "edge",
     "static inline long edge(long i, long n)\n"
     "{\n"
     "    return i < 0 ? 0 : i >= n ? n - 1 : i;\n"
     "}\n"},
};

/* Adds functions, separated by empty lines, that the file has not yet. */
static void add_text(struct emit *e, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n}\n");
        const size_t n = end ? (size_t)(end - text) + 3 : strlen(text);
        struct emit_text one = {0};

        emit_text_put(&one, text, n);
        if (!one.failed &&
            !(e->helpers.at && strstr(e->helpers.at, emit_text_of(&one))))
            emit_text_add(&e->helpers, "%s\n", one.at);
        e->failed = e->failed || one.failed;
        emit_text_clear(&one);
        text += n;
        while (*text == '\n')
            text++;
    }
}

/* The row of a word of n letters, or NULL. */
static const struct word *find(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strlen(words[i].word) == n && strncmp(words[i].word, word, n) == 0)
            return &words[i];
    return NULL;
}

void emit_function_text(struct emit *e, struct emit_text *text)
{
    e->failed = e->failed || text->failed;
    if (!text->failed)
        add_text(e, emit_text_of(text));
    emit_text_clear(text);
}

void emit_helper(struct emit *e, const char *name)
{
    const struct word *w = find(name, strlen(name));

    if (w && w->text)
        add_text(e, w->text);
}

/* A parameter of a function as C. */
static void add_number(struct emit_text *t, double v)
{
    if (isinf(v))
        emit_text_add(t, "%s(real)INFINITY", v < 0 ? "-" : "");
    else
        emit_text_add(t, "(real)%.17g", v);
}

/* Writes an expression of the tables: words by their names, and, unless f is
 * NULL, its parameters for a and b. */
static void translate(struct emit *e, const char *from,
                      const struct kern_unary *f, struct emit_text *out)
{
    while (*from) {
        size_t n = 0;

        while (isalnum((unsigned char)from[n]) || from[n] == '_')
            n++;
        if (n == 0) {
            emit_text_put(out, from++, 1);
            continue;
        }
        const struct word *w = find(from, n);
        if (w && w->text)
            add_text(e, w->text);
        if (w)
            emit_text_add(out, "%s", w->name);
        else if (f && n == 1 && (*from == 'a' || *from == 'b'))
            add_number(out, (double)(*from == 'a' ? f->a : f->b));
        else
            emit_text_put(out, from, n);
        from += n;
    }
}

/* ---- functions of one and two arguments ---------------------------- */

static const char *unary_expression(enum kern_unary_kind kind,
                                    const char **name)
{
    switch (kind) {
#define UNARY(kind, words, facts, value, derivative)                           \
    case kind:                                                                 \
        *name = #words;                                                        \
        return #value;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return NULL;
}

/* Adds "static inline real act_NAME_N(ARGUMENTS)" once; equal functions have
 * equal names.  *name: 48 bytes. */
static void add_function(struct emit *e, const char *type, const char *kind,
                         const char *word, const char *arguments,
                         const struct emit_text *value, char *name)
{
    struct emit_text text = {0};

    for (int i = 0;; i++) {
        if (i == 0)
            snprintf(name, 48, "%s_%.30s", kind, word);
        else
            snprintf(name, 48, "%s_%.30s_%d", kind, word, i);
        emit_text_clear(&text);
        emit_text_add(&text,
                      "static inline %s %s(%s)\n"
                      "{\n"
                      "    return %s;\n"
                      "}\n",
                      type, name, arguments, emit_text_of(value));
        char head[80];
        snprintf(head, sizeof(head), " %s(%s)\n{", name, arguments);
        if (!e->helpers.at || !strstr(e->helpers.at, head) ||
            strstr(e->helpers.at, emit_text_of(&text)))
            break;
    }
    e->failed = e->failed || text.failed || value->failed;
    add_text(e, emit_text_of(&text));
    emit_text_clear(&text);
}

int emit_unary_name(struct emit *e, const struct kern_unary *f,
                    struct infer_error *err, char name[48])
{
    struct emit_text value = {0};
    const char *word;
    const char *expression = unary_expression(f->kind, &word);

    name[0] = '\0';
    if (!expression)
        return error_set(err, INFER_EUNSUPPORTED, "function %d is unknown",
                         (int)f->kind);
    if (f->kind == KERN_IDENTITY)
        return 0;
    translate(e, expression, f, &value);
    add_function(e, "real", "act", word, "real x", &value, name);
    emit_text_clear(&value);
    return 0;
}

static const char *binary_expression(enum kern_binary_kind kind, bool integers,
                                     const char **name)
{
    switch (kind) {
#define BINARY(kind, word, value, integer)                                     \
    case kind:                                                                 \
        *name = #word;                                                         \
        return integers ? #integer : #value;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return NULL;
}

int emit_binary_name(struct emit *e, enum kern_binary_kind kind,
                     struct infer_error *err, char name[48])
{
    struct emit_text value = {0};
    const char *word = "";
    const char *expression = binary_expression(kind, false, &word);

    if (!expression || kern_binary_needs_integers(kind))
        return error_set(err, INFER_EUNSUPPORTED,
                         "function '%s' of two arguments", word);
    translate(e, expression, NULL, &value);
    add_function(e, "real", "op", word, "real a, real b", &value, name);
    emit_text_clear(&value);
    return 0;
}

/* ---- of integers --------------------------------------------------- */

static const char *unary_i64_expression(enum kern_unary_kind kind)
{
#define UNARY_INTEGER(of, value)                                               \
    if (kind == (of))                                                          \
        return #value;
#include "kernels/unary.def"
    return NULL;
}

/* A bound of a clip as 64 bits, rounded by the caller. */
static void add_bound(struct emit_text *t, double v)
{
    const int64_t bound = scalar_load_i64(INFER_F64, &v, 0);

    if (bound == INT64_MIN)
        emit_text_add(t, "INT64_MIN");
    else
        emit_text_add(t, "INT64_C(%" PRId64 ")", bound);
}

int emit_unary_i64_name(struct emit *e, const struct kern_unary *f,
                        struct infer_error *err, char name[48])
{
    const char *expression = unary_i64_expression(f->kind), *word = "";
    struct emit_text value = {0};

    (void)unary_expression(f->kind, &word);
    if (!expression)
        return error_set(err, INFER_EUNSUPPORTED, "'%s' of integers", word);
    if (f->kind == KERN_CLIP) {
        emit_helper(e, "clamp_i64");
        emit_text_add(&value, "clamp_i64(x, ");
        add_bound(&value, ceil((double)f->a));
        emit_text_add(&value, ", ");
        add_bound(&value, floor((double)f->b));
        emit_text_add(&value, ")");
    } else {
        translate(e, expression, NULL, &value);
    }
    add_function(e, "int64_t", "int", word, "int64_t x", &value, name);
    emit_text_clear(&value);
    return 0;
}

int emit_binary_i64_name(struct emit *e, enum kern_binary_kind kind,
                         struct infer_error *err, char name[48])
{
    struct emit_text value = {0};
    const char *word = "";
    const char *expression = binary_expression(kind, true, &word);

    if (!expression)
        return error_set(err, INFER_EUNSUPPORTED, "'%s' of integers", word);
    translate(e, expression, NULL, &value);
    add_function(e, "int64_t", "int", word, "int64_t a, int64_t b", &value,
                 name);
    emit_text_clear(&value);
    return 0;
}

/* ---- elements ------------------------------------------------------ */

/* Limits of integers narrower than 64 bits. */
static const struct {
    const char *low, *high;
} limits[INFER_DTYPE_COUNT] = {
    [INFER_I32] = {"INT32_MIN", "INT32_MAX"},
    [INFER_I16] = {"INT16_MIN", "INT16_MAX"},
    [INFER_I8] = {"INT8_MIN", "INT8_MAX"},
    [INFER_U32] = {"0", "UINT32_MAX"},
    [INFER_U16] = {"0", "UINT16_MAX"},
    [INFER_U8] = {"0", "UINT8_MAX"},
};

/* Room of an expression; several are used at a time. */
static char *expression_room(void)
{
    static char buffer[4][EMIT_EXPRESSION];
    static int turn;

    return buffer[turn++ % 4];
}

const char *emit_stored(struct emit *e, enum infer_dtype dtype,
                        const char *value)
{
    char *text = expression_room();

    if (dtype == INFER_F64 || dtype == INFER_F32) {
        snprintf(text, EMIT_EXPRESSION, "(%s)(%s)", emit_type(dtype), value);
    } else if (dtype == INFER_BOOL) {
        snprintf(text, EMIT_EXPRESSION, "(%s) != 0", value);
    } else if (dtype == INFER_I64) {
        emit_helper(e, "to_i64");
        snprintf(text, EMIT_EXPRESSION, "to_i64(%s)", value);
    } else {
        emit_helper(e, "saturate");
        snprintf(text, EMIT_EXPRESSION, "(%s)saturate(%s, %s, %s)",
                 emit_type(dtype), value, limits[dtype].low,
                 limits[dtype].high);
    }
    return text;
}

const char *emit_stored_i64(struct emit *e, enum infer_dtype dtype,
                            const char *value)
{
    char *text = expression_room();

    if (dtype == INFER_I64) {
        snprintf(text, EMIT_EXPRESSION, "%s", value);
    } else if (dtype == INFER_BOOL) {
        snprintf(text, EMIT_EXPRESSION, "(%s) != 0", value);
    } else if (dtype == INFER_F32 || dtype == INFER_F64) {
        snprintf(text, EMIT_EXPRESSION, "(%s)(double)(%s)", emit_type(dtype),
                 value);
    } else {
        emit_helper(e, "clamp_i64");
        snprintf(text, EMIT_EXPRESSION, "(%s)clamp_i64(%s, %s, %s)",
                 emit_type(dtype), value, limits[dtype].low,
                 limits[dtype].high);
    }
    return text;
}

const char *emit_wrapped_i64(enum infer_dtype dtype, const char *value)
{
    char *text = expression_room();

    if (dtype == INFER_BOOL)
        snprintf(text, EMIT_EXPRESSION, "(%s) != 0", value);
    else
        snprintf(text, EMIT_EXPRESSION, "(%s)(%s)", emit_type(dtype), value);
    return text;
}

int emit_epilogue(struct emit *e, const struct kern_problem *p,
                  const char *residual, const char *at, struct infer_error *err)
{
    const struct kern_epilogue *ep = &p->epilogue;
    char act[48], value[256];
    const int rc = emit_unary_name(e, &ep->act, err, act);
    /* The reference adds 0 for an absent residual, which makes -0 of a value 0;
     * sums that start from 0 are never -0. */
    const bool signed_zero = p->op == KERN_BINARY || p->op == KERN_BATCH_NORM ||
                             p->op == KERN_SCALE_SHIFT;

    if (rc < 0)
        return rc;
    if (residual[0] == '\0' && signed_zero)
        residual = "(real)0";
    if (residual[0] == '\0')
        snprintf(value, sizeof(value), act[0] ? "%s(v)" : "%sv", act);
    else if (ep->residual_last)
        snprintf(value, sizeof(value), act[0] ? "%s(v) + %s" : "%sv + %s", act,
                 residual);
    else
        snprintf(value, sizeof(value), act[0] ? "%s(v + %s)" : "%sv + %s", act,
                 residual);
    emit_line(e, "y[%s] = %s;", at, emit_stored(e, p->out[0].dtype, value));
    return 0;
}
