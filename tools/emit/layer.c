/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of floats by a table.  Where all outputs of a pixel lie side by side
 * in weights, bias and result, and all that a window's row reads lies side by
 * side in the input, one function of the file computes the pixels of every such
 * layer.  It keeps the sums of four vectors of outputs in registers, and finds
 * what is the same for all pixels of a layer in a constant table.  The last
 * vector of a pixel may read into the next weights, or into the spare elements
 * behind the last; what that adds to sums is not stored.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "kernels/input_scale.h"
#include "kernels/quant/quant.h"
#include "tools/emit/emitter.h"

/* The index of the residual among the inputs. */
#define RESIDUAL 3
/* Elements of the four widest vectors. */
#define WIDEST 32

/* ---- what fits ----------------------------------------------------- */

static bool is_caller(const struct emit *e, const struct view *v)
{
    return e->pointer[v->buffer][0] != '\0';
}

/* Whether the residual lies as y does, so that the distance of an element of
 * one to that of the other is a number. */
static bool lies_alike(const struct emit *e, const struct plan_step *s)
{
    const struct view y = emit_output_view(s), z = emit_view(s, RESIDUAL);

    if (emit_is_constant(e, &z) || is_caller(e, &z) || is_caller(e, &y) ||
        z.t.dtype != y.t.dtype || z.t.rank != y.t.rank)
        return false;
    for (int d = 0; d < y.t.rank; d++)
        if (z.t.dim[d] != y.t.dim[d] ||
            (y.t.dim[d] > 1 && z.t.stride[d] != y.t.stride[d]))
            return false;
    return true;
}

bool emit_layer_fits(const struct emit *e, const struct plan_step *s)
{
    const struct kern_problem *p = &s->exec.problem;

    if (quant_of(p) || product_table_of(p) || input_scale_of(p) ||
        !kern_problem_in(p, 2) || p->out[0].dtype != INFER_F32)
        return false;
    for (int i = 0; i < 3; i++) {
        const struct view v = emit_view(s, i);
        if (v.t.dtype != INFER_F32 || emit_is_constant(e, &v) != (i > 0))
            return false;
    }
    const struct view b = emit_view(s, 2);
    return (b.t.stride[0] == 1 || b.t.dim[0] == 1) &&
           (!kern_problem_in(p, RESIDUAL) || lies_alike(e, s));
}

bool emit_layer_may_overread(const struct emit *e, const struct view *x)
{
    return !is_caller(e, x);
}

/* ---- the table ----------------------------------------------------- */

/* The function that makes sums act(sum + bias + residual), which it adds to the
 * file; with a constant number of turns, so that compilers make it vectors. */
static int add_finish(struct emit *e, const struct kern_problem *p,
                      struct infer_error *err, char name[2 * EMIT_NAME])
{
    const bool z = kern_problem_in(p, RESIDUAL) != NULL;
    const bool last = z && p->epilogue.residual_last;
    struct emit_text f = {0};
    char act[48];
    const int rc = emit_unary_name(e, &p->epilogue.act, err, act);

    if (rc < 0)
        return rc;
    snprintf(name, (size_t)2 * EMIT_NAME, "finish%s%s%s", act[0] ? "_" : "",
             act,
             !z     ? ""
             : last ? "_then_add"
                    : "_sum");
    emit_text_add(&f,
                  "SHARED static void %s(real *restrict sum, const float *b, "
                  "const float *z)\n{\n%s"
                  "    for (int k = 0; k < 4 * LANES; k++)\n"
                  "        sum[k] = %s(sum[k] + b[k]%s)%s;\n}\n",
                  name, z ? "" : "    (void)z;\n", act,
                  z && !last ? " + z[k]" : "", last ? " + z[k]" : "");
    emit_function_text(e, &f);
    return 0;
}

static void write_types(const struct emit *e, struct emit_text *f)
{
    emit_text_add(
        f,
        "/* Vectors of LANES elements; load() reads one. */\n"
        "#if VECTOR > 4\n"
        "typedef float floats __attribute__((vector_size(LANES * "
        "sizeof(float)), aligned(sizeof(float)), may_alias));\n"
        "typedef real reals __attribute__((vector_size(LANES * "
        "sizeof(real)), aligned(sizeof(real)), may_alias));\n"
        "static inline reals load(const float *p)\n{\n"
        "    return __builtin_convertvector(*(const floats *)p, reals);\n"
        "}\n"
        "#else\n"
        "typedef real reals;\n"
        "static inline reals load(const float *p)\n{\n"
        "    return *p;\n}\n"
        "#endif\n\n"
        "/* A layer: bias and behind it weights, what finishes its sums, "
        "outputs of a\n * pixel, elements between rows of the input and of "
        "the window%s%s. */\n"
        "struct layer {\n"
        "    const float *b;\n"
        "    void (*finish)(real *restrict, const float *, const float *);\n"
        "    int32_t lanes, x_row, w_row%s%s;\n"
        "};\n\n",
        e->residuals ? ",\n * from y to the residual" : "",
        e->layers[0] && e->layers[1] ? "; each output has its channel" : "",
        e->residuals ? ", z" : "",
        e->layers[0] && e->layers[1] ? ", depthwise" : "");
}

/* The products of one input, or of one pixel of a depthwise layer. */
static void add_products(struct emit_text *f, bool depthwise)
{
    emit_text_add(f,
                  "            const float *f = w%s;\n"
                  "            long c = 0;\n"
                  "            do {\n%s",
                  depthwise ? ", *g = i" : "",
                  depthwise ? "" : "                const real u = i[c];\n");
    for (int a = 0; a < 4; a++) {
        char more[24] = "";

        if (a > 0)
            snprintf(more, sizeof(more), a > 1 ? " + %d * LANES" : " + LANES",
                     a);
        emit_text_add(f, "                a%d += ", a);
        if (depthwise)
            emit_text_add(f, "load(g%s)", more);
        else
            emit_text_add(f, "u");
        emit_text_add(f, " * load(f%s);\n", more);
    }
    emit_text_add(f,
                  "                f += l->lanes;\n%s"
                  "            } while (++c < n);\n",
                  depthwise ? "                g += l->lanes;\n" : "");
}

void emit_layer_function(const struct emit *e, struct emit_text *f)
{
    const bool both = e->layers[0] && e->layers[1];

    if (!e->layers[0] && !e->layers[1])
        return;
    write_types(e, f);
    emit_text_add(
        f,
        "/* One pixel: rows of the window that meet the input, from x and "
        "weight `at`, of n\n * inputs%s. */\n"
        "SHARED static void pixel(const struct layer *l, float *y, const "
        "float *x, long at, long rows, long n)\n{\n"
        "    for (long k = 0; k < l->lanes; k += 4 * LANES) {\n"
        "        reals a0 = {0}, a1 = a0, a2 = a0, a3 = a0;\n"
        "        const float *i = %s, *w = l->b + l->lanes + at + k;\n"
        "        long r = rows;\n"
        "        do {\n",
        e->layers[1] ? ", or of n pixels of a depthwise layer" : "",
        both           ? "l->depthwise ? x + k : x"
        : e->layers[1] ? "x + k"
                       : "x");
    if (both)
        emit_text_add(f, "            if (l->depthwise) {\n");
    if (e->layers[1])
        add_products(f, true);
    if (both)
        emit_text_add(f, "            } else {\n");
    if (e->layers[0])
        add_products(f, false);
    if (both)
        emit_text_add(f, "            }\n");
    emit_text_add(f,
                  "            i += l->x_row;\n"
                  "            w += l->w_row;\n"
                  "        } while (--r > 0);\n"
                  "        reals sum[4] = {a0, a1, a2, a3};\n"
                  "        real *v = (real *)sum;\n"
                  "        l->finish(v, l->b + k, y + k%s);\n"
                  "        for (long j = k; j < k + 4 * LANES && j < "
                  "l->lanes; j++)\n"
                  "            y[j] = (float)*v++;\n"
                  "    }\n}\n\n",
                  e->residuals ? " + l->z" : "");
}

/* The array of a layer's bias and, behind it, its weights. */
static int join(struct emit *e, const struct emit_layer *l,
                struct infer_error *err)
{
    const struct emit_array w = e->array[l->w], b = e->array[l->b];
    char *both = malloc(b.bytes + w.bytes);

    if (!both)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(both, b.data, b.bytes);
    memcpy(both + b.bytes, w.data, w.bytes);
    const int a = emit_array(e, INFER_F32, both, b.bytes + w.bytes, err);
    free(both);
    if (a >= 0)
        e->array[a].used = true;
    /* Whole vectors have no need of spare elements; of one lane it is largest.
     */
    if (a >= 0 && l->lanes % WIDEST != 0)
        e->array[a].spare = e->array[a].spare == 0 ? l->lanes : 1;
    return a;
}

static bool are_equal(const struct emit_table *a, const struct emit_table *b)
{
    return a->array == b->array && strcmp(a->finish, b->finish) == 0 &&
           a->lanes == b->lanes && a->x_row == b->x_row &&
           a->w_row == b->w_row && a->z == b->z && a->depthwise == b->depthwise;
}

/* The number of a table, which it adds if there is none like it. */
static int add_table(struct emit *e, const struct emit_table *t,
                     struct infer_error *err)
{
    void *at;

    for (int i = 0; i < e->n_tables; i++)
        if (are_equal(&e->table[i], t))
            return i;
    at = array_reserve(e->table, e->n_tables, &e->table_capacity,
                       sizeof(*e->table));
    if (!at)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->table = at;
    e->table[e->n_tables] = *t;
    return e->n_tables++;
}

int emit_layer_declare(struct emit *e, const struct plan_step *s,
                       const struct emit_layer *l, struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct view y = emit_output_view(s), z = emit_view(s, RESIDUAL);
    struct emit_table t = {.lanes = l->lanes,
                           .x_row = l->x_row,
                           .w_row = l->w_row,
                           .depthwise = l->depthwise};
    int rc = add_finish(e, p, err, t.finish);

    if (rc == 0 && kern_problem_in(p, RESIDUAL)) {
        t.z = emit_arena_offset(e, &z) - emit_arena_offset(e, &y);
        e->residuals = true;
    }
    if (rc == 0)
        rc = t.array = join(e, l, err);
    if (rc >= 0)
        rc = add_table(e, &t, err);
    if (rc < 0)
        return rc;
    e->layers[l->depthwise] = true;
    e->arena_spare =
        e->arena_spare || l->depthwise || kern_problem_in(p, RESIDUAL);
    emit_text_add(&e->params, "%sconst struct layer *l",
                  e->params.n > 0 ? ", " : "");
    emit_text_add(&e->args, "%s&l%d", e->args.n > 0 ? ", " : "", rc);
    e->cold = true;
    return 0;
}

void emit_layer_tables(const struct emit *e, struct emit_text *out)
{
    for (int i = 0; i < e->n_tables; i++) {
        const struct emit_table *t = &e->table[i];

        emit_text_add(out,
                      "static const struct layer l%d = {%s, %s, %" PRId64
                      ", %" PRId64 ", %" PRId64,
                      i, e->array[t->array].name, t->finish, t->lanes, t->x_row,
                      t->w_row);
        if (e->residuals)
            emit_text_add(out, ", %" PRId64, t->z);
        if (e->layers[0] && e->layers[1])
            emit_text_add(out, ", %d", t->depthwise);
        emit_text_add(out, "};\n");
    }
    if (e->n_tables > 0)
        emit_text_add(out, "\n");
}

void emit_layer_pixel(struct emit *e, const char *y, const char *x_name,
                      const char *x, const char *w, const char *rows,
                      const char *n)
{
    emit_line(e, "pixel(l, y + (%s), %s + (%s), %s, %s, %s);", y, x_name, x, w,
              rows, n);
}
