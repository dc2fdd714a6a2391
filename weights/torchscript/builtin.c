/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the language's functions, and those on None and truth. */
#include "weights/torchscript/builtin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* ---- None, truth, equality ----------------------------------------- */

/* 1 where both are None or objects that are the same. */
int ts_do_is_same(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    const struct ts_value *a = &arg[0].value, *b = &arg[1].value;

    if (n != 2)
        return 0;
    if (a->kind == TSV_NONE || b->kind == TSV_NONE)
        *out = ts_bool(a->kind == b->kind);
    else if (a->kind == TSV_BOOL && b->kind == TSV_BOOL)
        *out = ts_bool(a->i == b->i);
    else if (a->kind == TSV_OBJECT && b->kind == TSV_OBJECT)
        *out = ts_bool(a->object == b->object);
    else if (ts_is_value(a) && ts_is_value(b))
        *out = ts_bool(a->text.data == b->text.data);
    else
        return ts_fail(r, INFER_EUNSUPPORTED, "'is' of two such values");
    return 1;
}

int ts_do_is_other(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    const int rc = ts_do_is_same(r, n, arg, out);

    if (rc == 1)
        *out = ts_bool(!out->i);
    return rc;
}

int ts_do_negate(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    bool truth = false;

    if (n != 1)
        return 0;
    if (arg[0].value.assumed) {
        *out = arg[0].value;
        out->i = !out->i;
        return 1;
    }
    if (ts_truth(r, &arg[0].value, NULL, &truth) < 0)
        return r->failed ? r->result : r->err->code;
    *out = ts_bool(!truth);
    return 1;
}

/* eq and ne of what are no numbers. */
int ts_do_equal(struct ts_run *r, int n, const struct ts_arg *arg,
                struct ts_value *out)
{
    bool same;
    int rc;

    if (n != 2 || ts_is_value(&arg[0].value) || ts_is_value(&arg[1].value))
        return 0;
    rc = ts_equal(r, &arg[0].value, &arg[1].value, &same);
    *out = ts_bool(same);
    return rc < 0 ? rc : 1;
}

int ts_do_unequal(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    const int rc = ts_do_equal(r, n, arg, out);

    if (rc == 1)
        *out = ts_bool(!out->i);
    return rc;
}

int ts_do_pass(struct ts_run *r, int n, const struct ts_arg *arg,
               struct ts_value *out)
{
    (void)r;
    *out = n > 0 ? arg[0].value : ts_none();
    return 1;
}

int ts_do_nothing(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    (void)r;
    (void)n;
    (void)arg;
    *out = ts_none();
    return 1;
}

int ts_do_no(struct ts_run *r, int n, const struct ts_arg *arg,
             struct ts_value *out)
{
    (void)r;
    (void)n;
    (void)arg;
    *out = ts_bool(false);
    return 1;
}

int ts_do_device(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    (void)r;
    (void)n;
    (void)arg;
    *out = (struct ts_value){.kind = TSV_DEVICE};
    return 1;
}

/* All tensors are the CPU's. */
int ts_do_type_of_device(struct ts_run *r, int n, const struct ts_arg *arg,
                         struct ts_value *out)
{
    (void)r;
    if (n != 1 || arg[0].value.kind != TSV_DEVICE)
        return 0;
    *out = (struct ts_value){.kind = TSV_TEXT,
                             .text = {(unsigned char *)"cpu", 3}};
    return 1;
}

/* A text that the program makes, for a key of a dictionary. */
struct text {
    char at[256];
    size_t n;
    bool known;
};

static void add_text(struct text *t, const char *from, size_t n)
{
    t->known &= t->n + n <= sizeof t->at;
    if (t->known)
        memcpy(t->at + t->n, from, n);
    t->n += n;
}

static void add_value(struct text *t, const struct ts_value *v)
{
    char digits[24];

    if (v->kind == TSV_INT)
        add_text(
            t, digits,
            (size_t)snprintf(digits, sizeof digits, "%lld", (long long)v->i));
    else if (v->kind == TSV_TEXT && v->text.bytes < sizeof t->at)
        add_text(t, (const char *)v->text.data, v->text.bytes);
    else
        t->known = false;
}

/* The text; where it is not known, a value that nothing can be done with but to
 * print it. */
static int give_text(struct ts_run *r, const struct text *t,
                     struct ts_value *out)
{
    *out = (struct ts_value){.kind = TSV_OTHER};
    if (!t->known)
        return 1;
    out->kind = TSV_TEXT;
    return ts_join(r, (struct pb_span){NULL, 0}, "",
                   (struct pb_span){(unsigned char *)t->at, t->n},
                   &out->text) < 0
               ? r->err->code
               : 1;
}

/* Places of the form `mark` (two characters) take the arguments in order. */
static int fill_text(struct ts_run *r, const char *mark, int n,
                     const struct ts_arg *arg, struct ts_value *out)
{
    const struct pb_span form =
        n > 0 ? arg[0].value.text : (struct pb_span){NULL, 0};
    struct text t = {.known = n > 0 && arg[0].value.kind == TSV_TEXT};
    int next = 1;

    for (size_t i = 0; i < form.bytes && t.known; i++) {
        const char c = (char)form.data[i];
        const char d = i + 1 < form.bytes ? (char)form.data[i + 1] : 0;

        if (c == mark[0] && (d == mark[1] || (c == '%' && d == 's'))) {
            t.known = next < n;
            if (t.known)
                add_value(&t, &arg[next++].value);
            i++;
        } else {
            t.known = c != mark[0];
            add_text(&t, &c, t.known);
        }
    }
    return give_text(r, &t, out);
}

int ts_do_percent(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    return fill_text(r, "%d", n, arg, out);
}

int ts_do_format(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    return fill_text(r, "{}", n, arg, out);
}

int ts_do_some_text(struct ts_run *r, int n, const struct ts_arg *arg,
                    struct ts_value *out)
{
    struct text t = {.known = n == 1};

    if (n == 1)
        add_value(&t, &arg[0].value);
    return give_text(r, &t, out);
}

int ts_do_unwrap(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    if (n != 1)
        return 0;
    if (arg[0].value.kind == TSV_NONE)
        return ts_fail(r, INFER_EFORMAT, "None where a value is needed");
    *out = arg[0].value;
    return 1;
}

int ts_do_raise_it(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    (void)out;
    return ts_fail(
        r, INFER_EUNSUPPORTED, "the program raises '%.*s'",
        PB_TEXT(n > 0 ? arg[0].value.text : (struct pb_span){0}, 200));
}

/* ---- the table ----------------------------------------------------- */

/* Sorted by name. */
static const struct row {
    const char *name;
    ts_function_of *function;
} rows[] = {
    {"Bool", ts_do_to_bool},
    {"Float", ts_do_to_float},
    {"FloatImplicit", ts_do_item_of},
    {"Int", ts_do_to_int},
    {"IntImplicit", ts_do_item_of},
    {"NumToTensor", ts_do_from_number},
    {"RaiseException", ts_do_raise_it},
    {"ScalarImplicit", ts_do_item_of},
    {"__contains__", ts_do_contains},
    {"__derive_index", ts_do_range_entry},
    {"__getitem__", ts_do_get_item},
    {"__is__", ts_do_is_same},
    {"__isnot__", ts_do_is_other},
    {"__not__", ts_do_negate},
    {"__range_length", ts_do_range_length},
    {"_set_item", ts_do_set_item},
    {"_unwrap_optional", ts_do_unwrap},
    {"add", ts_do_add_lists},
    {"add_", ts_do_extend},
    {"all", ts_do_all},
    {"any", ts_do_any},
    {"append", ts_do_append},
    {"as_tensor", ts_do_tensor},
    {"bool", ts_do_to_bool},
    {"ceil", ts_do_ceil_of},
    {"copy", ts_do_copy_list},
    {"cpu", ts_do_pass},
    {"cuda", ts_do_pass},
    {"data", ts_do_pass},
    {"detach_", ts_do_pass},
    {"device", ts_do_device},
    {"dim", ts_do_rank_of},
    {"dtype", ts_do_type_of},
    {"eq", ts_do_equal},
    {"extend", ts_do_extend},
    {"float", ts_do_to_float},
    {"floor", ts_do_floor_of},
    {"format", ts_do_format},
    {"insert", ts_do_insert},
    {"int", ts_do_to_int},
    {"is_autocast_enabled", ts_do_no},
    {"is_complex", ts_do_no},
    {"is_cuda", ts_do_no},
    {"is_floating_point", ts_do_is_floating},
    {"is_grad_enabled", ts_do_no},
    {"is_mkldnn", ts_do_no},
    {"is_nested", ts_do_no},
    {"is_quantized", ts_do_no},
    {"is_scripting", ts_do_no},
    {"is_sparse", ts_do_no},
    {"item", ts_do_item_of},
    {"items", ts_do_items},
    {"keys", ts_do_keys},
    {"layout", ts_do_device},
    {"len", ts_do_length},
    {"list", ts_do_copy_list},
    {"manual_seed", ts_do_nothing},
    {"max", ts_do_largest},
    {"min", ts_do_least},
    {"mul", ts_do_repeat_list},
    {"ndimension", ts_do_rank_of},
    {"ne", ts_do_unequal},
    {"numel", ts_do_count_of},
    {"percentFormat", ts_do_percent},
    {"pop", ts_do_pop},
    {"requires_grad", ts_do_no},
    {"requires_grad_", ts_do_pass},
    {"reverse", ts_do_reverse},
    {"select", ts_do_get_item},
    {"shape", ts_do_size_of},
    {"size", ts_do_size_of},
    {"slice", ts_do_slice},
    {"str", ts_do_some_text},
    {"sum", ts_do_sum_list},
    {"tensor", ts_do_tensor},
    {"type", ts_do_type_of_device},
    {"unchecked_unwrap_optional", ts_do_pass},
    {"values", ts_do_values},
    {"warn", ts_do_nothing},
};

int ts_builtin(struct ts_run *r, struct pb_span name, int n,
               const struct ts_arg *arg, struct ts_value *out)
{
    const struct row *row = bsearch(&name, rows, sizeof rows / sizeof *rows,
                                    sizeof *rows, pb_span_order);

    return row ? row->function(r, n, arg, out) : 0;
}
