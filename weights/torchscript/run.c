/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions and executes statements of a TorchScript program. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

static struct pb_span word(const char *text)
{
    return (struct pb_span){(unsigned char *)text, strlen(text)};
}

/* ---- calls --------------------------------------------------------- */

static int evaluate_args(struct ts_run *r, struct ts_frame *f,
                         const struct ts_node *call, struct ts_arg **out)
{
    struct ts_arg *arg = onnx_alloc(r->arena, (size_t)call->n * sizeof *arg);
    int rc = 0;

    if (!arg)
        return ts_no_memory(r);
    for (int i = 1; i < call->n && rc == 0; i++) {
        const struct ts_node *x = call->kid[i];

        if (x->kind == TS_KEYWORD) {
            arg[i - 1].name = x->text;
            x = x->kid[0];
        }
        rc = ts_evaluate(r, f, x, &arg[i - 1].value);
    }
    *out = arg;
    return rc;
}

static bool is_number_type(const struct ts_node *type)
{
    return type->kind == TS_NAME &&
           (pb_span_is(type->text, "int") || pb_span_is(type->text, "float") ||
            pb_span_is(type->text, "number") || pb_span_is(type->text, "bool"));
}

/* Whether a value is of a type as the program writes it. */
static bool is_of(const struct ts_value *v, const struct ts_node *type)
{
    static const struct {
        const char *name;
        enum ts_kind kind;
    } kinds[] = {
        {"Tensor", TSV_TENSOR}, {"int", TSV_INT},     {"float", TSV_FLOAT},
        {"bool", TSV_BOOL},     {"str", TSV_TEXT},    {"NoneType", TSV_NONE},
        {"List", TSV_LIST},     {"Dict", TSV_DICT},   {"Tuple", TSV_TUPLE},
        {"list", TSV_LIST},     {"tuple", TSV_TUPLE}, {"dict", TSV_DICT}};
    const struct pb_span name =
        type->kind == TS_INDEX ? type->kid[0]->text : type->text;

    if (type->kind == TS_TUPLE) {
        for (int i = 0; i < type->n; i++)
            if (type->kid[i]->kind != TS_TUPLE && is_of(v, type->kid[i]))
                return true;
        return false;
    }
    if (type->kind == TS_NONE)
        return v->kind == TSV_NONE;
    if (pb_span_is(name, "Optional") && type->kind == TS_INDEX)
        return v->kind == TSV_NONE ||
               (type->kid[1]->kind == TS_NAME && is_of(v, type->kid[1]));
    if (v->kind == TSV_OBJECT)
        return v->object->class.bytes == name.bytes &&
               memcmp(v->object->class.data, name.data, name.bytes) == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (pb_span_is(name, kinds[i].name))
            return v->kind == kinds[i].kind;
    return false;
}

/* Forms of the language whose first argument is a type, or that are no
 * functions.  1: it is one of them. */
static int special(struct ts_run *r, struct ts_frame *f,
                   const struct ts_node *call, struct ts_value *out)
{
    const struct pb_span name = call->kid[0]->text;
    enum infer_dtype dtype;
    struct ts_value x;
    int rc;

    if (pb_span_is(name, "uninitialized")) {
        *out = (struct ts_value){.kind = TSV_OTHER};
        return 1;
    }
    if (call->n == 3 &&
        (pb_span_is(name, "annotate") || pb_span_is(name, "unchecked_cast"))) {
        rc = ts_evaluate(r, f, call->kid[2], out);
        if (rc == 0 && is_number_type(call->kid[1]) && ts_is_value(out))
            rc = ts_number(r, out, out);
        return rc < 0 ? rc : 1;
    }
    if (call->n == 3 && pb_span_is(name, "isinstance")) {
        rc = ts_evaluate(r, f, call->kid[1], &x);
        if (rc == 0 && x.kind == TSV_NUMBER &&
            (rc = ts_dtype(r, &x, &dtype)) == 0)
            x.kind = aten_is_float(dtype)  ? TSV_FLOAT
                     : dtype == INFER_BOOL ? TSV_BOOL
                                           : TSV_INT;
        *out = ts_bool(rc == 0 && is_of(&x, call->kid[2]));
        return rc < 0 ? rc : 1;
    }
    if (call->n == 3 && pb_span_is(name, "getattr") &&
        call->kid[2]->kind == TS_STRING) {
        rc = ts_evaluate(r, f, call->kid[1], &x);
        if (rc == 0)
            rc = ts_get_attr(r, &x, call->kid[2]->text, out);
        return rc < 0 ? rc : 1;
    }
    if (pb_span_is(name, "print")) {
        *out = ts_none();
        return 1;
    }
    return 0;
}

static int call_by_name(struct ts_run *r, struct ts_frame *f,
                        const struct ts_node *call, struct ts_value *out)
{
    const struct ts_node *callee = call->kid[0];
    const struct ts_value *v =
        f && callee->slot >= 0 ? &f->slot[callee->slot] : NULL;
    struct ts_arg *arg;
    int rc;

    if (v && v->kind != TSV_UNSET && v->kind != TSV_NAMED)
        return ts_fail(r, INFER_EUNSUPPORTED, "a call of '%.*s'",
                       PB_TEXT(callee->text, 64));
    if (!v || v->kind == TSV_UNSET) {
        rc = special(r, f, call, out);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    rc = evaluate_args(r, f, call, &arg);
    if (rc < 0)
        return rc;
    if (v && v->kind == TSV_NAMED)
        return ts_call_named(r, v->text, call->n - 1, arg, out);
    rc = ts_arithmetic(r, callee->text, call->n - 1, arg, out);
    if (rc == 0)
        rc = ts_builtin(r, callee->text, call->n - 1, arg, out);
    return rc < 0   ? rc
           : rc > 0 ? 0
                    : ts_fail(r, INFER_EUNSUPPORTED,
                              "function '%.*s' is not supported",
                              PB_TEXT(callee->text, 64));
}

static bool starts(struct pb_span name, const char *text)
{
    return name.bytes >= strlen(text) &&
           memcmp(name.data, text, strlen(text)) == 0;
}

static bool ends(struct pb_span name, const char *text)
{
    const size_t n = strlen(text);

    return name.bytes >= n && memcmp(name.data + name.bytes - n, text, n) == 0;
}

/* unread: of the outputs, if the result is taken apart at once. */
static int call(struct ts_run *r, struct ts_frame *f,
                const struct ts_node *call, int n_unread, const bool *unread,
                struct ts_value *out)
{
    const struct ts_node *callee = call->kid[0];
    const unsigned line = r->line;
    struct ts_value object;
    struct ts_arg *arg;
    int rc;

    if (callee->kind == TS_NAME)
        return call_by_name(r, f, call, out);
    if (callee->kind == TS_QUALIFIED) {
        rc = evaluate_args(r, f, call, &arg);
        if (rc < 0)
            return rc;
        r->line = line;
        return starts(callee->text, "__torch__")
                   ? ts_call_named(r, callee->text, call->n - 1, arg, out)
                   : ts_call_operator(r, callee->text, call->n - 1, arg,
                                      n_unread, unread, out);
    }
    if (callee->kind != TS_ATTR)
        return ts_fail(r, INFER_EUNSUPPORTED, "a call of what is no name");
    if ((rc = ts_evaluate(r, f, callee->kid[0], &object)) < 0 ||
        (rc = evaluate_args(r, f, call, &arg)) < 0)
        return rc;
    r->line = line;
    return ts_call_method(r, &object, callee->text, call->n - 1, arg, out);
}

/* ---- expressions --------------------------------------------------- */

static int evaluate_list(struct ts_run *r, struct ts_frame *f,
                         const struct ts_node *n, enum ts_kind kind,
                         struct ts_value *out)
{
    int rc = ts_new_list(r, kind, n->n, out);

    for (int i = 0; i < n->n && rc == 0; i++)
        rc = ts_evaluate(r, f, n->kid[i], &out->list->item[i]);
    return rc;
}

static int evaluate_name(struct ts_run *r, const struct ts_frame *f,
                         const struct ts_node *n, struct ts_value *out)
{
    if (f && n->slot >= 0 && f->slot[n->slot].kind != TSV_UNSET) {
        *out = f->slot[n->slot];
        return 0;
    }
    if (pb_span_is(n->text, "inf") || pb_span_is(n->text, "nan")) {
        *out = ts_float(pb_span_is(n->text, "inf") ? (double)INFINITY
                                                   : (double)NAN);
        return 0;
    }
    return ts_fail(r, INFER_EFORMAT, "nothing is named '%.*s'",
                   PB_TEXT(n->text, 64));
}

/* The value of CLASS.NAME where the class is an enumeration. */
static int enumerator(struct ts_run *r, struct pb_span name,
                      struct ts_value *out)
{
    const struct ts_class *c = NULL;
    const struct ts_field *f;
    size_t dot = name.bytes;
    int rc;

    while (dot > 0 && name.data[dot - 1] != '.')
        dot--;
    if (dot == 0)
        return 0;
    rc = ts_find_class(r, (struct pb_span){name.data, dot - 1}, &c);
    if (rc < 0 || !c || !pb_span_is(c->base, "Enum"))
        return rc;
    for (f = c->field; f && rc == 0; f = f->next)
        if (f->value && f->name.bytes == name.bytes - dot &&
            memcmp(f->name.data, name.data + dot, f->name.bytes) == 0)
            return ts_evaluate(r, NULL, f->value, out);
        else
            rc = ts_compare(r, 1);
    return rc < 0 ? rc
                  : ts_fail(r, INFER_EFORMAT, "no enumerator is named '%.*s'",
                            PB_TEXT(name, 128));
}

static int evaluate_qualified(struct ts_run *r, const struct ts_node *n,
                              struct ts_value *out)
{
    static const char constants[] = "CONSTANTS.";
    const size_t prefix = sizeof constants - 1;

    if (starts(n->text, constants))
        return ts_constant(
            r, (struct pb_span){n->text.data + prefix, n->text.bytes - prefix},
            out);
    *out = (struct ts_value){.kind = TSV_NAMED, .text = n->text};
    return starts(n->text, "__torch__.") ? enumerator(r, n->text, out) : 0;
}

static int evaluate_negative(struct ts_run *r, struct ts_frame *f,
                             const struct ts_node *n, struct ts_value *out)
{
    struct ts_arg x = {.name = {NULL, 0}};
    int rc = ts_evaluate(r, f, n->kid[0], &x.value);

    if (rc < 0)
        return rc;
    rc = ts_arithmetic(r, word("neg"), 1, &x, out);
    return rc < 0   ? rc
           : rc > 0 ? 0
                    : ts_fail(r, INFER_EFORMAT, "the negative of no number");
}

/* x[i] and x[a:b] of lists. */
static int evaluate_part(struct ts_run *r, struct ts_frame *f,
                         const struct ts_node *n, struct ts_value *out)
{
    struct ts_arg arg[3] = {
        {.value = ts_none()}, {.value = ts_none()}, {.value = ts_none()}};
    int rc = 0;

    for (int i = 0; i < n->n && rc == 0; i++)
        if (n->kid[i])
            rc = ts_evaluate(r, f, n->kid[i], &arg[i].value);
    if (rc < 0)
        return rc;
    rc =
        ts_builtin(r, n->kind == TS_INDEX ? word("__getitem__") : word("slice"),
                   n->n, arg, out);
    return rc < 0 ? rc
           : rc > 0
               ? 0
               : ts_fail(r, INFER_EUNSUPPORTED, "an index of what is no list");
}

static int evaluate_attr(struct ts_run *r, struct ts_frame *f,
                         const struct ts_node *n, struct ts_value *out)
{
    struct ts_value object;
    int rc = ts_evaluate(r, f, n->kid[0], &object);

    return rc < 0 ? rc : ts_get_attr(r, &object, n->text, out);
}

static int evaluate(struct ts_run *r, struct ts_frame *f,
                    const struct ts_node *n, struct ts_value *out)
{
    switch (n->kind) {
    case TS_NAME:
        return evaluate_name(r, f, n, out);
    case TS_QUALIFIED:
        return evaluate_qualified(r, n, out);
    case TS_INTEGER:
        *out = ts_int(n->i);
        return 0;
    case TS_REAL:
        *out = ts_float(n->f);
        return 0;
    case TS_STRING:
        *out = (struct ts_value){.kind = TSV_TEXT, .text = n->text};
        return 0;
    case TS_TRUE:
    case TS_FALSE:
        *out = ts_bool(n->kind == TS_TRUE);
        return 0;
    case TS_NONE:
        *out = ts_none();
        return 0;
    case TS_LIST:
        return evaluate_list(r, f, n, TSV_LIST, out);
    case TS_TUPLE:
        return evaluate_list(r, f, n, TSV_TUPLE, out);
    case TS_DICT:
        return evaluate_list(r, f, n, TSV_DICT, out);
    case TS_CALL:
        return call(r, f, n, 0, NULL, out);
    case TS_ATTR:
        return evaluate_attr(r, f, n, out);
    case TS_INDEX:
    case TS_SLICE:
        return evaluate_part(r, f, n, out);
    case TS_NEGATIVE:
        return evaluate_negative(r, f, n, out);
    case TS_KEYWORD:
    case TS_BLOCK:
    case TS_EVALUATE:
    case TS_ASSIGN:
    case TS_UNPACK:
    case TS_RETURN:
    case TS_IF:
    case TS_FOR:
    case TS_WHILE:
    case TS_WITH:
    case TS_PASS:
        break;
    }
    return ts_fail(r, INFER_EFORMAT, "a statement where a value is needed");
}

int ts_evaluate(struct ts_run *r, struct ts_frame *f, const struct ts_node *n,
                struct ts_value *out)
{
    int rc = ts_step(r, 1);

    *out = ts_none();
    if (rc < 0)
        return rc;
    if (++r->depth > TS_MAX_DEPTH)
        return ts_fail(r, INFER_EUNSUPPORTED, "nested too deep");
    r->line = n->line;
    rc = evaluate(r, f, n, out);
    r->depth--;
    return rc;
}

/* ---- statements ---------------------------------------------------- */

static int assign(struct ts_run *r, struct ts_frame *f,
                  const struct ts_node *target, const struct ts_value *value)
{
    struct ts_value object;
    int rc;

    if (target->kind == TS_NAME && target->slot >= 0) {
        f->slot[target->slot] = *value;
        return 0;
    }
    if (target->kind != TS_ATTR)
        return ts_fail(r, INFER_EUNSUPPORTED, "an assignment to no name");
    rc = ts_evaluate(r, f, target->kid[0], &object);
    return rc < 0 ? rc : ts_set_attr(r, &object, target->text, value);
}

/* a, b, = x */
static int unpack(struct ts_run *r, struct ts_frame *f, const struct ts_node *n)
{
    const struct ts_node *from = n->kid[n->n - 1];
    const int targets = n->n - 1;
    struct ts_value value;
    bool *unread = onnx_alloc(r->arena, (size_t)n->n);
    int rc = ts_step(r, 1);

    if (!unread)
        return ts_no_memory(r);
    for (int i = 0; i < targets; i++)
        unread[i] = n->kid[i]->kind == TS_NAME && n->kid[i]->slot >= 0 &&
                    !f->function->read[n->kid[i]->slot];
    r->line = n->line;
    if (rc == 0)
        rc = from->kind == TS_CALL ? call(r, f, from, targets, unread, &value)
                                   : ts_evaluate(r, f, from, &value);
    if (rc < 0)
        return rc;
    if (!ts_is_list(&value))
        return ts_fail(r, INFER_EFORMAT, "what is no list is taken apart");
    if (value.list->n != targets)
        return ts_fail(r, INFER_EFORMAT, "a list of %d for %d names",
                       value.list->n, targets);
    for (int i = 0; i < targets && rc == 0; i++)
        rc = assign(r, f, n->kid[i], &value.list->item[i]);
    return rc;
}

/* True where a branch ends by an error of the program. */
static bool raises(const struct ts_node *block)
{
    for (int i = 0; block && i < block->n; i++) {
        const struct ts_node *s = block->kid[i];

        if (s->kind == TS_EVALUATE && s->kid[0]->kind == TS_CALL &&
            pb_span_is(s->kid[0]->kid[0]->text, "ops.prim.RaiseException"))
            return true;
    }
    return false;
}

/* A condition that is not known decides nothing where the program would end
 * with an error in one of the branches: the other one is taken. */
static int run_if(struct ts_run *r, struct ts_frame *f, const struct ts_node *n)
{
    const bool first = raises(n->kid[1]), second = raises(n->kid[2]);
    bool truth = false, known = true;
    struct ts_value c;
    int rc = ts_evaluate(r, f, n->kid[0], &c);

    if (rc == 0)
        rc = ts_truth(r, &c, first != second ? &known : NULL, &truth);
    if (rc < 0)
        return rc;
    if (!known)
        truth = second;
    return truth       ? ts_execute(r, f, n->kid[1])
           : n->kid[2] ? ts_execute(r, f, n->kid[2])
                       : 0;
}

static int run_for(struct ts_run *r, struct ts_frame *f,
                   const struct ts_node *n)
{
    struct ts_value turns, i;
    int rc = ts_evaluate(r, f, n->kid[1], &turns);

    if (rc < 0)
        return rc;
    if (turns.kind != TSV_INT)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "a loop whose turns depend on a free size or on data");
    for (int64_t k = 0; k < turns.i && rc == 0 && !f->returned; k++) {
        i = ts_int(k);
        rc = ts_step(r, 1);
        if (rc == 0)
            rc = assign(r, f, n->kid[0], &i);
        if (rc == 0)
            rc = ts_execute(r, f, n->kid[2]);
    }
    return rc;
}

static int run_while(struct ts_run *r, struct ts_frame *f,
                     const struct ts_node *n)
{
    struct ts_value c;
    bool truth = true;
    int rc = 0;

    while (rc == 0 && !f->returned) {
        rc = ts_step(r, 1);
        if (rc == 0)
            rc = ts_evaluate(r, f, n->kid[0], &c);
        if (rc == 0)
            rc = ts_truth(r, &c, NULL, &truth);
        if (rc < 0 || !truth)
            break;
        rc = ts_execute(r, f, n->kid[1]);
    }
    return rc;
}

/* What a context manager changes: nothing of results, or the type of all that
 * is computed. */
static int enter(struct ts_run *r, const struct ts_value *context)
{
    static const char *const silent[] = {
        "torch.autograd.grad_mode.no_grad",
        "torch.autograd.grad_mode.enable_grad",
        "torch.autograd.grad_mode.inference_mode",
        "torch.autograd.grad_mode.set_grad_enabled",
        "torch.autograd.profiler.record_function"};
    struct pb_span class;
    struct ts_value enabled;

    if (context->kind != TSV_OBJECT)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "'with' of a value that is no object");
    class = context->object->class;
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        if (ends(class, silent[i]))
            return 0;
    if (ends(class, ".autocast") &&
        ts_get_attr(r, context, word("_enabled"), &enabled) == 0 &&
        enabled.kind == TSV_BOOL && !enabled.i)
        return 0;
    return ts_fail(r, INFER_EUNSUPPORTED, "'with' of '%.*s' is not supported",
                   PB_TEXT(class, 128));
}

static int run_with(struct ts_run *r, struct ts_frame *f,
                    const struct ts_node *n)
{
    struct ts_value context;
    int rc = ts_evaluate(r, f, n->kid[0], &context);

    if (rc == 0)
        rc = enter(r, &context);
    return rc < 0 ? rc : ts_execute(r, f, n->kid[1]);
}

static int run_statement(struct ts_run *r, struct ts_frame *f,
                         const struct ts_node *n)
{
    struct ts_value value;
    int rc;

    r->line = n->line;
    switch (n->kind) {
    case TS_EVALUATE:
        return ts_evaluate(r, f, n->kid[0], &value);
    case TS_ASSIGN:
        rc = ts_evaluate(r, f, n->kid[1], &value);
        return rc < 0 ? rc : assign(r, f, n->kid[0], &value);
    case TS_UNPACK:
        return unpack(r, f, n);
    case TS_RETURN:
        rc = ts_evaluate(r, f, n->kid[0], &f->result);
        f->returned = true;
        return rc;
    case TS_IF:
        return run_if(r, f, n);
    case TS_FOR:
        return run_for(r, f, n);
    case TS_WHILE:
        return run_while(r, f, n);
    case TS_WITH:
        return run_with(r, f, n);
    case TS_BLOCK:
        return ts_execute(r, f, n);
    case TS_PASS:
        return 0;
    case TS_NAME:
    case TS_QUALIFIED:
    case TS_INTEGER:
    case TS_REAL:
    case TS_STRING:
    case TS_TRUE:
    case TS_FALSE:
    case TS_NONE:
    case TS_LIST:
    case TS_TUPLE:
    case TS_DICT:
    case TS_CALL:
    case TS_KEYWORD:
    case TS_ATTR:
    case TS_INDEX:
    case TS_SLICE:
    case TS_NEGATIVE:
        break;
    }
    return ts_fail(r, INFER_EFORMAT, "an expression that is no statement");
}

int ts_execute(struct ts_run *r, struct ts_frame *f, const struct ts_node *n)
{
    int rc = ts_step(r, 1);

    if (rc < 0)
        return rc;
    if (++r->depth > TS_MAX_DEPTH)
        return ts_fail(r, INFER_EUNSUPPORTED, "nested too deep");
    for (int i = 0; i < n->n && rc == 0 && !f->returned; i++)
        rc = run_statement(r, f, n->kid[i]);
    r->depth--;
    return rc;
}
