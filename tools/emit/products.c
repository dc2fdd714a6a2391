/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of products.  Where weights of neighbouring lanes lie side by side, one
 * function of the file adds the products of all layers of the same types: some
 * inputs a pass over the sums, whose loop is vectors.  The last vector of a row
 * may reach into the next row, or into the spare elements behind the last one;
 * what it adds to sums that no lane has is not used.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/emit/emitter.h"

/* Products that are best added in one pass over the accumulators: with vectors,
 * and without, where shorter code counts for more. */
#define PRODUCTS     4
#define FEW_PRODUCTS 2

/* ---- written where they are needed --------------------------------- */

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

static void add_inline(struct emit *e, const struct emit_products *p)
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

/* ---- shared -------------------------------------------------------- */

/* The types of sums, inputs and weights that a function adds. */
struct types {
    const char *sum, *x, *w;
    bool integers;
};

static struct types types_of(const struct emit_products *p)
{
    return (struct types){.sum = p->integers ? "int32_t" : "real",
                          .x = emit_type(p->x),
                          .w = emit_type(p->w),
                          .integers = p->integers};
}

/* "add_products", or with the types where they are not float. */
static void name_function(const struct types *t, const char *what,
                          char name[EMIT_NAME])
{
    if (strcmp(t->x, "float") == 0 && strcmp(t->w, "float") == 0)
        snprintf(name, EMIT_NAME, "add_%s", what);
    else
        snprintf(name, EMIT_NAME, "add_%s_%s_%s", what, t->x, t->w);
}

/* One pass of n products over the lanes. */
static void add_pass(struct emit_text *f, const struct types *t, int n)
{
    emit_text_add(f, "        const %s", t->sum);
    for (int a = 0; a < n; a++) {
        emit_text_add(f, "%s a%d = i[", a > 0 ? "," : "", a);
        if (a > 1)
            emit_text_add(f, "%d * ", a);
        emit_text_add(f, "%s]%s", a > 0 ? "i_step" : "0",
                      t->integers ? " - zero" : "");
    }
    emit_text_add(f, ";\n"
                     "        for (long k = 0; k < lanes; k += LANES)\n"
                     "            for (long j = 0; j < LANES; j++)\n"
                     "                sum[k + j] = sum[k + j]");
    for (int a = 0; a < n; a++) {
        emit_text_add(f, " + a%d * f[k + j", a);
        if (a > 1)
            emit_text_add(f, " + %d * f_step", a);
        else if (a == 1)
            emit_text_add(f, " + f_step");
        emit_text_add(f, "]");
    }
    emit_text_add(
        f, ";\n        i += %d * i_step;\n        f += %d * f_step;\n", n, n);
}

/* Adds the function of these types to the file. */
static void add_function(struct emit *e, const struct types *t,
                         const char *name)
{
    struct emit_text f = {0};

    emit_text_add(
        &f,
        "SHARED static void %s(%s *restrict sum, long lanes, const %s *i, "
        "long i_step, const %s *f, long f_step, long n%s)\n{\n",
        name, t->sum, t->x, t->w, t->integers ? ", int zero" : "");
    emit_text_add(&f, "#if VECTOR > 4\n    for (; n >= %d; n -= %d) {\n",
                  PRODUCTS, PRODUCTS);
    add_pass(&f, t, PRODUCTS);
    emit_text_add(&f, "    }\n#else\n    for (; n >= %d; n -= %d) {\n",
                  FEW_PRODUCTS, FEW_PRODUCTS);
    add_pass(&f, t, FEW_PRODUCTS);
    emit_text_add(&f, "    }\n#endif\n    for (; n > 0; n--) {\n");
    add_pass(&f, t, 1);
    emit_text_add(&f, "    }\n}\n");
    emit_function_text(e, &f);
}

/* Whether the function can add these: a vector reads beyond the lanes, so
 * the weights must be an array of the file that has spare elements. */
static bool is_shared(const struct emit *e, const struct emit_products *p)
{
    return p->k_step == 1 && p->array >= 0 && p->array < e->n_arrays &&
           (p->n > 1 || p->count);
}

void emit_products(struct emit *e, const struct emit_products *p)
{
    const struct types t = types_of(p);
    char name[EMIT_NAME], count[32];

    if (!is_shared(e, p)) {
        add_inline(e, p);
        return;
    }
    e->array[p->array].spare = 1;
    name_function(&t, "products", name);
    add_function(e, &t, name);
    snprintf(count, sizeof(count), "%" PRId64, p->n);
    if (p->integers)
        emit_line(e, "%s(sum, %s, i, %" PRId64 ", f, %" PRId64 ", %s, %d);",
                  name, e->lanes, p->x_step, p->f_step,
                  p->count ? p->count : count, p->zero);
    else
        emit_line(e, "%s(sum, %s, i, %" PRId64 ", f, %" PRId64 ", %s);", name,
                  e->lanes, p->x_step, p->f_step, p->count ? p->count : count);
}

/* ---- one input channel a lane -------------------------------------- */

void emit_lane_products(struct emit *e, const struct emit_products *p)
{
    const struct types t = types_of(p);
    struct emit_text f = {0};
    char name[EMIT_NAME];

    name_function(&t, "lanes", name);
    emit_text_add(
        &f,
        "SHARED static void %s(%s *restrict sum, long lanes, const %s *i, "
        "const %s *f%s)\n{\n"
        "    long k = 0;\n"
        "    for (; k + LANES <= lanes; k += LANES)\n"
        "        for (long j = 0; j < LANES; j++)\n"
        "            sum[k + j] += %si[k + j]%s * f[k + j];\n"
        "    for (; k < lanes; k++)\n"
        "        sum[k] += %si[k]%s * f[k];\n}\n",
        name, t.sum, t.x, t.w, t.integers ? ", int zero" : "",
        t.integers ? "(" : "(real)", t.integers ? " - zero)" : "",
        t.integers ? "(" : "(real)", t.integers ? " - zero)" : "");
    emit_function_text(e, &f);
    if (p->integers)
        emit_line(e, "%s(sum, %s, i, f, %d);", name, e->lanes, p->zero);
    else
        emit_line(e, "%s(sum, %s, i, f);", name, e->lanes);
}

/* ---- finishing sums ------------------------------------------------ */

bool emit_stores_lanes(const struct kern_problem *p)
{
    const struct kern_tensor *b = kern_problem_in(p, 2);
    const struct kern_tensor *z = kern_problem_in(p, 3);

    return b && b->dtype == INFER_F32 && p->out[0].dtype == INFER_F32 &&
           (!z || z->dtype == INFER_F32);
}

int emit_store_lanes(struct emit *e, const struct kern_problem *p,
                     const char *y, const char *b, const char *z,
                     struct infer_error *err)
{
    const bool last = p->epilogue.residual_last;
    char act[48], name[2 * EMIT_NAME];
    struct emit_text f = {0};
    const int rc = emit_unary_name(e, &p->epilogue.act, err, act);

    if (rc < 0)
        return rc;
    snprintf(name, sizeof(name), "store%s%s%s", act[0] ? "_" : "", act,
             !z     ? ""
             : last ? "_then_add"
                    : "_sum");
    const char *before = z && !last ? " + z[k]" : "";
    const char *after = z && last ? " + z[k]" : "";
    emit_text_add(&f,
                  "SHARED static void %s(float *y, const real *sum, const "
                  "float *b, long lanes%s)\n{\n"
                  "    long k = 0;\n",
                  name, z ? ", const float *z" : "");
    /* A function of vectors: what z and y share is read before it is written.
     */
    if (act[0])
        emit_text_add(&f,
                      "    for (; k + LANES <= lanes; k += LANES) {\n"
                      "        real v[LANES];\n"
                      "        for (long j = 0; j < LANES; j++, k++)\n"
                      "            v[j] = %s(sum[k] + b[k]%s)%s;\n"
                      "        k -= LANES;\n"
                      "        for (long j = 0; j < LANES; j++)\n"
                      "            y[k + j] = (float)v[j];\n    }\n",
                      act, before, after);
    emit_text_add(&f,
                  "    for (; k < lanes; k++)\n"
                  "        y[k] = (float)(%s(sum[k] + b[k]%s)%s);\n}\n",
                  act, before, after);
    emit_function_text(e, &f);
    emit_line(e, "%s(y + (%s), sum, b + (%s), %s%s%s%s);", name, y, b, e->lanes,
              z ? ", z + (" : "", z ? z : "", z ? ")" : "");
    return 0;
}

/* ---- starting sums ------------------------------------------------- */

void emit_clear_sums(struct emit *e, const char *type)
{
    const bool real = strcmp(type, "real") == 0;
    const char *name = real ? "clear" : "clear_integers";
    struct emit_text f = {0};

    emit_text_add(&f,
                  "SHARED static void %s(%s *sum, long lanes)\n{\n"
                  "    for (long k = 0; k < lanes; k += LANES)\n"
                  "        for (long j = 0; j < LANES; j++)\n"
                  "            sum[k + j] = 0;\n}\n",
                  name, type);
    emit_function_text(e, &f);
    emit_line(e, "%s(sum, %s);", name, e->lanes);
}
