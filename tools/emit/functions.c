/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the emitted file, their pointers, and constant arrays. */
#include "tools/emit/emitter.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"

static emit_fn *const emitters[KERN_OP_COUNT] = {
#define EMITTER(op, function) [op] = (function),
#include "tools/emit/emitters.def"
};

const char *emit_type(enum infer_dtype dtype)
{
    static const char *const types[INFER_DTYPE_COUNT] = {
        [INFER_F64] = "double",   [INFER_F32] = "float",
        [INFER_I64] = "int64_t",  [INFER_I32] = "int32_t",
        [INFER_I16] = "int16_t",  [INFER_I8] = "int8_t",
        [INFER_U32] = "uint32_t", [INFER_U16] = "uint16_t",
        [INFER_U8] = "uint8_t",   [INFER_BOOL] = "uint8_t",
    };

    return types[dtype];
}

static const char *type_of(enum infer_dtype dtype, struct infer_error *err)
{
    const char *type = emit_type(dtype);

    if (!type)
        error_set(err, INFER_EUNSUPPORTED, "a tensor of %s",
                  infer_dtype_name(dtype));
    return type;
}

/* ---- arrays -------------------------------------------------------- */

int emit_array(struct emit *e, enum infer_dtype dtype, const void *data,
               size_t bytes, struct infer_error *err)
{
    struct emit_array *a;
    void *at;

    for (int i = 0; i < e->n_arrays; i++) {
        a = &e->array[i];
        if (a->dtype == dtype && a->bytes == bytes &&
            memcmp(a->data, data, bytes) == 0)
            return i;
    }
    at = array_reserve(e->array, e->n_arrays, &e->array_capacity,
                       sizeof(*e->array));
    if (at)
        e->array = at;
    void *copy = at ? malloc(bytes > 0 ? bytes : 1) : NULL;
    if (!copy)
        return error_set(err, INFER_EMEMORY, "out of memory");
    memcpy(copy, data, bytes);
    a = &e->array[e->n_arrays];
    *a = (struct emit_array){.dtype = dtype, .bytes = bytes, .data = copy};
    snprintf(a->name, sizeof(a->name), "c%d", e->n_arrays);
    return e->n_arrays++;
}

/* The shortest decimal that reads back as the same number. */
static void add_real(struct emit_text *out, double v, bool single)
{
    char text[40];

    if (isnan(v)) {
        emit_text_add(out, "NAN");
        return;
    }
    if (isinf(v)) {
        emit_text_add(out, "%sINFINITY", v < 0 ? "-" : "");
        return;
    }
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        strcat(text, ".");
    emit_text_add(out, single ? "%sf" : "%s", text);
}

static void add_element(struct emit_text *out, const struct emit_array *a,
                        int64_t i)
{
    if (scalar_is_float(a->dtype)) {
        add_real(out, scalar_load(a->dtype, a->data, i), a->dtype == INFER_F32);
        return;
    }
    const int64_t v = scalar_load_i64(a->dtype, a->data, i);
    if (v == INT64_MIN)
        emit_text_add(out, "INT64_MIN");
    else if (v > INT32_MAX || v <= INT32_MIN)
        emit_text_add(out, "INT64_C(%" PRId64 ")", v);
    else
        emit_text_add(out, "%" PRId64, v);
}

void emit_arrays(const struct emit *e, struct emit_text *out)
{
    for (int i = 0; i < e->n_arrays; i++) {
        const struct emit_array *a = &e->array[i];
        const int64_t n = (int64_t)(a->bytes / infer_dtype_size(a->dtype));

        if (!a->used)
            continue;
        emit_text_add(out, "static const %s %s[%" PRId64, emit_type(a->dtype),
                      a->name, n);
        if (a->spare > 0)
            emit_text_add(out, " + SPARE(%" PRId64 ")", a->spare);
        emit_text_add(out, "] = {");
        for (int64_t k = 0; k < n; k++) {
            emit_text_add(out, "%s", k % 8 == 0 ? "\n    " : " ");
            add_element(out, a, k);
            if (k + 1 < n)
                emit_text_add(out, ",");
        }
        emit_text_add(out, "};\n\n");
    }
}

/* ---- pointers ------------------------------------------------------ */

bool emit_is_constant(const struct emit *e, const struct view *v)
{
    const int memory = e->plan->buffers.at[v->buffer].memory;

    return memory == PLAN_CONSTANT || memory == PLAN_KEPT;
}

int64_t emit_arena_offset(const struct emit *e, const struct view *v)
{
    const size_t before = e->plan->buffers.at[v->buffer].offset;

    return v->offset + (int64_t)(before / infer_dtype_size(v->t.dtype));
}

void emit_address(struct emit *e, const struct view *v, char text[128])
{
    static const char *const member[INFER_DTYPE_COUNT] = {
        [INFER_F64] = "f64", [INFER_F32] = "f32", [INFER_I64] = "i64",
        [INFER_I32] = "i32", [INFER_I16] = "i16", [INFER_I8] = "i8",
        [INFER_U32] = "u32", [INFER_U16] = "u16", [INFER_U8] = "u8",
        [INFER_BOOL] = "u8",
    };
    int64_t at = v->offset;
    char base[EMIT_NAME + 8];

    e->used[v->buffer] = true;
    if (e->pointer[v->buffer][0]) {
        snprintf(base, sizeof(base), "%s", e->pointer[v->buffer]);
    } else {
        e->arena_types |= 1u
                          << (v->t.dtype == INFER_BOOL ? INFER_U8 : v->t.dtype);
        snprintf(base, sizeof(base), "arena.%s", member[v->t.dtype]);
        at = emit_arena_offset(e, v);
    }
    if (at == 0)
        snprintf(text, 128, "%s", base);
    else
        snprintf(text, 128, "%s + %" PRId64, base, at);
}

/* Adds a parameter and the argument of this call. */
static void add_pointer(struct emit *e, const char *type, const char *name,
                        bool constant, const char *address)
{
    const char *comma = e->params.n > 0 ? ", " : "";

    emit_text_add(&e->params, "%s%s%s *%s", comma, constant ? "const " : "",
                  type, name);
    emit_text_add(&e->args, "%s%s", comma, address);
}

int emit_constant(struct emit *e, const struct view *v, struct infer_error *err,
                  struct kern_tensor *t)
{
    const void *base = plan_locate(e->plan, v);

    *t = v->t;
    for (int i = 0; i < t->rank; i++)
        if (t->stride[i] == 0)
            t->dim[i] = 1;
    const size_t count = (size_t)kern_tensor_count(t);
    void *data;
    size_t bytes;
    int rc;

    if (!base)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a constant that is not in memory");
    if (!checked_mul(count, infer_dtype_size(t->dtype), &bytes) ||
        !(data = malloc(bytes > 0 ? bytes : 1)))
        return error_set(err, INFER_EMEMORY, "out of memory");
    view_gather(t, base, t->dtype, data);
    rc = emit_array(e, t->dtype, data, bytes, err);
    free(data);
    if (rc < 0)
        return rc;
    *t = kern_tensor_dense(t->dtype, t->rank, t->dim, KERN_NCHW);
    return rc;
}

int emit_input_view(struct emit *e, const struct view *v, const char *name,
                    struct infer_error *err, struct kern_tensor *t)
{
    char address[128];
    const char *type = type_of(v->t.dtype, err);

    *t = v->t;
    if (!type)
        return INFER_EUNSUPPORTED;
    if (emit_is_constant(e, v)) {
        const int a = emit_constant(e, v, err, t);
        if (a < 0)
            return a;
        add_pointer(e, type, name, true, e->array[a].name);
        e->last_array = a;
        e->array[a].used = true;
        return 0;
    }
    emit_address(e, v, address);
    add_pointer(e, type, name, true, address);
    e->last_array = -1;
    return 0;
}

struct view emit_view(const struct plan_step *s, int i)
{
    struct view v = s->in[i];

    v.t = s->exec.problem.in[i];
    return v;
}

int emit_input(struct emit *e, const struct plan_step *s, int i,
               const char *name, const struct kern_tensor *like,
               struct infer_error *err, struct kern_tensor *t)
{
    const struct view whole = emit_view(s, i), *v = &whole;
    int64_t order[KERN_MAX_RANK];
    struct kern_tensor stored;
    struct view moved;
    int rc;

    if (!like || like->rank != v->t.rank || !emit_is_constant(e, v))
        return emit_input_view(e, v, name, err, t);
    /* The dimensions from the largest stride of `like` to the smallest. */
    for (int d = 0; d < v->t.rank; d++) {
        int k = d;
        for (; k > 0 && like->stride[order[k - 1]] < like->stride[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    moved = view_permute(v, order);
    rc = emit_input_view(e, &moved, name, err, &stored);
    *t = stored;
    for (int d = 0; d < v->t.rank; d++) {
        t->dim[order[d]] = stored.dim[d];
        t->stride[order[d]] = stored.stride[d];
    }
    return rc;
}

struct view emit_output_view(const struct plan_step *s)
{
    struct view v = s->out[0];

    v.t = s->exec.problem.out[0];
    return v;
}

int emit_output(struct emit *e, const struct plan_step *s,
                struct infer_error *err)
{
    const struct view whole = emit_output_view(s), *v = &whole;
    const char *type = type_of(v->t.dtype, err);
    char address[128];

    if (!type)
        return INFER_EUNSUPPORTED;
    emit_address(e, v, address);
    add_pointer(e, type, "y", false, address);
    return 0;
}

int emit_table(struct emit *e, const char *name, enum infer_dtype dtype,
               const void *data, int64_t count, struct infer_error *err)
{
    const int rc = emit_array(e, dtype, data,
                              (size_t)count * infer_dtype_size(dtype), err);

    if (rc < 0)
        return rc;
    e->array[rc].used = true;
    add_pointer(e, emit_type(dtype), name, true, e->array[rc].name);
    return 0;
}

/* ---- functions ----------------------------------------------------- */

/* The function with this text, or a new one; its index, or EMEMORY. */
static int find_function(struct emit *e, const struct plan_step *s,
                         struct emit_text *text, struct infer_error *err)
{
    const enum kern_op op = s->exec.problem.op;
    char words[160];
    void *at;

    for (int i = 0; i < e->n_functions; i++)
        if (strcmp(e->function[i].text, text->at) == 0)
            return i;
    at = array_reserve(e->function, e->n_functions, &e->function_capacity,
                       sizeof(*e->function));
    if (!at)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->function = at;
    struct emit_function *f = &e->function[e->n_functions];
    snprintf(f->name, sizeof(f->name), "%s_%d", kern_op_name(op),
             ++e->counter[op]);
    kern_problem_format(&s->exec.problem, words, sizeof(words));
    f->words = strdup(words);
    f->like = -1;
    f->cold = e->cold;
    f->more = NULL;
    f->text = text->at;
    memset(text, 0, sizeof(*text));
    return f->words ? e->n_functions++
                    : error_set(err, INFER_EMEMORY, "out of memory");
}

/* A node's name inside a comment. */
static void add_comment(struct emit_text *t, const char *name)
{
    if (*name == '\0')
        return;
    emit_text_add(t, " /* ");
    for (int n = 0; *name && n < 100; name++, n++)
        emit_text_put(
            t, *name < ' ' || *name > '~' || *name == '*' ? "_" : name, 1);
    emit_text_add(t, " */");
}

static int add_call(struct emit *e, int function, const char *node,
                    struct infer_error *err)
{
    void *at =
        array_reserve(e->call, e->n_calls, &e->call_capacity, sizeof(*e->call));

    if (!at)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->call = at;
    struct emit_call *c = &e->call[e->n_calls++];
    c->function = function;
    c->args = strdup(emit_text_of(&e->args));
    c->node = strdup(node);
    return c->args && c->node ? 0
                              : error_set(err, INFER_EMEMORY, "out of memory");
}

static int finish(struct emit *e, const struct plan_step *s,
                  struct infer_error *err)
{
    struct emit_text text = {0};
    int f;

    emit_text_add(&text, "(%s)\n{\n%s}\n", emit_text_of(&e->params),
                  emit_text_of(&e->body));
    if (text.failed || e->body.failed || e->params.failed || e->args.failed ||
        e->failed) {
        emit_text_clear(&text);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    f = find_function(e, s, &text, err);
    emit_text_clear(&text);
    if (f < 0)
        return f;
    return add_call(e, f, plan_step_name(e->plan, s), err);
}

void emit_functions(const struct emit *e, struct emit_text *out)
{
    for (int i = 0; i < e->n_functions; i++) {
        const struct emit_function *f = &e->function[i];
        int same = 0;

        if (f->like >= 0 && f->like != i)
            continue;
        for (int k = i + 1; k < e->n_functions; k++)
            same += e->function[k].like == i;
        emit_text_add(out, "/* %s", f->words);
        if (same > 0)
            emit_text_add(out, ", and %d like it", same);
        emit_text_add(out, " */\n%s static void %s", f->cold ? "COLD" : "HOT",
                      f->name);
        emit_text_put(out, f->text, strlen(f->text));
        emit_text_add(out, "\n");
    }
}

void emit_calls(const struct emit *e, struct emit_text *out)
{
    for (int i = 0; i < e->n_calls; i++) {
        const struct emit_call *c = &e->call[i];
        const struct emit_function *f = &e->function[c->function];

        emit_text_add(out, "    %s(",
                      f->like >= 0 ? e->function[f->like].name : f->name);
        emit_text_put(out, c->args, strlen(c->args));
        if (f->more)
            emit_text_put(out, f->more, strlen(f->more));
        emit_text_add(out, ");");
        add_comment(out, c->node);
        emit_text_add(out, "\n");
    }
}

static void reset(struct emit *e)
{
    e->body.n = e->params.n = e->args.n = 0;
    if (e->body.at)
        e->body.at[0] = '\0';
    if (e->params.at)
        e->params.at[0] = '\0';
    if (e->args.at)
        e->args.at[0] = '\0';
    e->depth = 1;
    e->cold = false;
}

int emit_step(struct emit *e, const struct plan_step *s,
              struct infer_error *err)
{
    const struct kern_problem *p = &s->exec.problem;
    int rc;

    reset(e);
    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    if (!emitters[p->op])
        rc = error_set(err, INFER_EUNSUPPORTED, "no form in C");
    else
        rc = emitters[p->op](e, s, err);
    if (rc == 0)
        rc = finish(e, s, err);
    if (rc < 0)
        error_prefix(err, "node '%s' (%s)", plan_step_name(e->plan, s),
                     kern_op_name(p->op));
    return rc;
}

void emit_clear(struct emit *e)
{
    for (int i = 0; i < e->n_functions; i++) {
        free(e->function[i].text);
        free(e->function[i].words);
        free(e->function[i].more);
    }
    for (int i = 0; i < e->n_calls; i++) {
        free(e->call[i].args);
        free(e->call[i].node);
    }
    free(e->call);
    for (int i = 0; i < e->n_arrays; i++)
        free(e->array[i].data);
    free(e->table);
    free(e->function);
    free(e->array);
    free(e->pointer);
    free(e->used);
    emit_text_clear(&e->body);
    emit_text_clear(&e->params);
    emit_text_clear(&e->args);
    emit_text_clear(&e->helpers);
    emit_text_clear(&e->run);
}
