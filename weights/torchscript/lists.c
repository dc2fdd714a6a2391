/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the language on lists and dictionaries. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/builtin.h"

/* ---- indices ------------------------------------------------------- */

/* The place of an index in n items, or an error. */
static int place(struct ts_run *r, const struct ts_value *index, int n,
                 int *out)
{
    const int64_t i = index->i < 0 ? index->i + n : index->i;

    if (index->kind != TSV_INT)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "an index that depends on a free size or on data");
    if (i < 0 || i >= n)
        return ts_fail(r, INFER_EFORMAT, "index %lld of %d items",
                       (long long)index->i, n);
    *out = (int)i;
    return 0;
}

/* A bound of a slice of n items: 0 .. n, or -1 .. n - 1 where it goes back. */
static int bound(struct ts_run *r, const struct ts_value *v, bool back,
                 int otherwise, int n, int *out)
{
    const int least = back ? -1 : 0, most = back ? n - 1 : n;
    int64_t i;

    *out = otherwise;
    if (v->kind == TSV_NONE)
        return 0;
    if (v->kind != TSV_INT)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "a bound that depends on a free size or on data");
    i = v->i < 0 ? v->i + n : v->i;
    *out = i < least ? least : i > most ? most : (int)i;
    return 0;
}

int ts_do_get_item(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    int i, rc;

    if (n != 2 || !(ts_is_list(x) || x->kind == TSV_DICT))
        return 0;
    rc = x->kind == TSV_DICT ? ts_dict_find(r, x->list, &arg[1].value, &i)
                             : place(r, &arg[1].value, x->list->n, &i);
    if (rc == 0 && i < 0)
        rc = ts_fail(r, INFER_EFORMAT, "a dictionary has no such key");
    if (rc < 0)
        return rc;
    *out = x->list->item[i];
    return 1;
}

/* As Python slices: back from the last item where the step is negative. */
int ts_do_slice(struct ts_run *r, int n, const struct ts_arg *arg,
                struct ts_value *out)
{
    const struct ts_value none = ts_none(), *x = &arg[0].value;
    int items, begin, end, rc;
    int64_t step;
    bool back;

    if (n < 1 || n > 4 || !ts_is_list(x))
        return 0;
    items = x->list->n;
    step = n > 3 && arg[3].value.kind == TSV_INT ? arg[3].value.i : 1;
    if (step == 0)
        return ts_fail(r, INFER_EFORMAT, "a slice by steps of 0");
    back = step < 0;
    rc = bound(r, n > 1 ? &arg[1].value : &none, back, back ? items - 1 : 0,
               items, &begin);
    if (rc == 0)
        rc = bound(r, n > 2 ? &arg[2].value : &none, back, back ? -1 : items,
                   items, &end);
    if (rc == 0)
        rc = ts_new_list(r, x->kind, 0, out);
    /* Steps beyond the list end it. */
    step = step > items ? items : step < -items ? -items : step;
    for (int64_t i = begin; rc == 0 && (back ? i > end : i < end); i += step)
        rc = ts_append(r, out->list, &x->list->item[i]);
    return rc < 0 ? rc : 1;
}

/* ---- lists --------------------------------------------------------- */

int ts_do_append(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    if (n != 2 || !ts_is_list(&arg[0].value))
        return 0;
    *out = arg[0].value;
    return ts_append(r, out->list, &arg[1].value) < 0 ? r->err->code : 1;
}

int ts_do_extend(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    const int more =
        n == 2 && ts_is_list(&arg[1].value) ? arg[1].value.list->n : -1;

    if (more < 0 || !ts_is_list(&arg[0].value))
        return 0;
    *out = arg[0].value;
    for (int i = 0; i < more; i++)
        if (ts_append(r, out->list, &arg[1].value.list->item[i]) < 0)
            return r->err->code;
    return 1;
}

int ts_do_insert(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    struct ts_list *list =
        n == 3 && ts_is_list(&arg[0].value) ? arg[0].value.list : NULL;
    int at, rc;

    if (!list)
        return 0;
    rc = bound(r, &arg[1].value, false, 0, list->n, &at);
    if (rc == 0)
        rc = ts_append(r, list, &arg[2].value);
    if (rc == 0)
        rc = ts_step(r, (size_t)list->n);
    if (rc < 0)
        return rc;
    memmove(list->item + at + 1, list->item + at,
            (size_t)(list->n - 1 - at) * sizeof *list->item);
    list->item[at] = arg[2].value;
    *out = arg[0].value;
    return 1;
}

int ts_do_pop(struct ts_run *r, int n, const struct ts_arg *arg,
              struct ts_value *out)
{
    const struct ts_value last = ts_int(-1);
    struct ts_list *list;
    int at, rc;

    if (n < 1 || n > 2 || arg[0].value.kind != TSV_LIST)
        return 0;
    list = arg[0].value.list;
    rc = place(r, n == 2 ? &arg[1].value : &last, list->n, &at);
    if (rc == 0)
        rc = ts_step(r, (size_t)list->n);
    if (rc < 0)
        return rc;
    *out = list->item[at];
    memmove(list->item + at, list->item + at + 1,
            (size_t)(list->n - 1 - at) * sizeof *list->item);
    list->n--;
    return 1;
}

int ts_do_set_item(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    int i, rc;

    if (n != 3 || !(x->kind == TSV_LIST || x->kind == TSV_DICT))
        return 0;
    *out = *x;
    rc = x->kind == TSV_DICT ? ts_dict_find(r, x->list, &arg[1].value, &i)
                             : place(r, &arg[1].value, x->list->n, &i);
    if (rc < 0)
        return rc;
    if (i >= 0) {
        x->list->item[i] = arg[2].value;
        return 1;
    }
    rc = ts_append(r, x->list, &arg[1].value);
    if (rc == 0)
        rc = ts_append(r, x->list, &arg[2].value);
    return rc < 0 ? rc : 1;
}

/* A copy of a list, or of the keys (from 0) or values (from 1) of a
 * dictionary. */
static int every_second(struct ts_run *r, const struct ts_list *list, int from,
                        int step, struct ts_value *out)
{
    int rc = ts_new_list(r, TSV_LIST, 0, out);

    for (int i = from; i < list->n && rc == 0; i += step)
        rc = ts_append(r, out->list, &list->item[i]);
    return rc < 0 ? rc : 1;
}

int ts_do_copy_list(struct ts_run *r, int n, const struct ts_arg *arg,
                    struct ts_value *out)
{
    return n == 1 && ts_is_list(&arg[0].value)
               ? every_second(r, arg[0].value.list, 0, 1, out)
               : 0;
}

int ts_do_keys(struct ts_run *r, int n, const struct ts_arg *arg,
               struct ts_value *out)
{
    return n == 1 && arg[0].value.kind == TSV_DICT
               ? every_second(r, arg[0].value.list, 0, 2, out)
               : 0;
}

int ts_do_values(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    return n == 1 && arg[0].value.kind == TSV_DICT
               ? every_second(r, arg[0].value.list, 1, 2, out)
               : 0;
}

int ts_do_items(struct ts_run *r, int n, const struct ts_arg *arg,
                struct ts_value *out)
{
    const struct ts_list *dict;
    struct ts_value pair;
    int rc;

    if (n != 1 || arg[0].value.kind != TSV_DICT)
        return 0;
    dict = arg[0].value.list;
    rc = ts_new_list(r, TSV_LIST, 0, out);
    for (int i = 0; i + 1 < dict->n && rc == 0; i += 2) {
        rc = ts_new_list(r, TSV_TUPLE, 2, &pair);
        if (rc < 0)
            break;
        pair.list->item[0] = dict->item[i];
        pair.list->item[1] = dict->item[i + 1];
        rc = ts_append(r, out->list, &pair);
    }
    return rc < 0 ? rc : 1;
}

int ts_do_contains(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    const int step = x->kind == TSV_DICT ? 2 : 1;
    bool same = false;
    int rc = 0;

    if (n != 2 || !(ts_is_list(x) || x->kind == TSV_DICT))
        return 0;
    for (int i = 0; i < x->list->n && rc == 0 && !same; i += step)
        rc = ts_equal(r, &x->list->item[i], &arg[1].value, &same);
    *out = ts_bool(same);
    return rc < 0 ? rc : 1;
}

int ts_do_reverse(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    struct ts_list *list;

    if (n != 1 || arg[0].value.kind != TSV_LIST)
        return 0;
    list = arg[0].value.list;
    *out = arg[0].value;
    if (ts_step(r, (size_t)list->n) < 0)
        return r->err->code;
    for (int i = 0; i < list->n / 2; i++) {
        const struct ts_value v = list->item[i];

        list->item[i] = list->item[list->n - 1 - i];
        list->item[list->n - 1 - i] = v;
    }
    return 1;
}

int ts_do_length(struct ts_run *r, int n, const struct ts_arg *arg,
                 struct ts_value *out)
{
    const struct ts_value *x = &arg[0].value;
    struct ts_arg first[2] = {{.value = *x}, {.value = ts_int(0)}};

    if (n != 1)
        return 0;
    if (ts_is_list(x))
        *out = ts_int(x->list->n);
    else if (x->kind == TSV_DICT)
        *out = ts_int(x->list->n / 2);
    else if (x->kind == TSV_TEXT)
        *out = ts_int((int64_t)x->text.bytes);
    else if (x->kind == TSV_TENSOR)
        return ts_builtin(r, (struct pb_span){(unsigned char *)"size", 4}, 2,
                          first, out);
    else
        return 0;
    return 1;
}

/* Three integers that are known and small enough for sums of products. */
static bool are_steps(int n, const struct ts_arg *arg)
{
    for (int i = 0; i < n; i++)
        if (arg[i].value.kind != TSV_INT || arg[i].value.i > INT32_MAX ||
            arg[i].value.i < -INT32_MAX)
            return false;
    return n == 3;
}

/* How many numbers range(begin, end, step) has. */
int ts_do_range_length(struct ts_run *r, int n, const struct ts_arg *arg,
                       struct ts_value *out)
{
    int64_t begin, end, step;

    (void)r;
    if (!are_steps(n, arg) || arg[2].value.i == 0)
        return 0;
    step = arg[2].value.i;
    begin = step > 0 ? arg[0].value.i : arg[1].value.i;
    end = step > 0 ? arg[1].value.i : arg[0].value.i;
    step = step > 0 ? step : -step;
    *out = ts_int(end > begin ? (end - begin + step - 1) / step : 0);
    return 1;
}

/* The number at a place of such a range: place, begin, step. */
int ts_do_range_entry(struct ts_run *r, int n, const struct ts_arg *arg,
                      struct ts_value *out)
{
    (void)r;
    if (!are_steps(n, arg))
        return 0;
    *out = ts_int(arg[1].value.i + arg[0].value.i * arg[2].value.i);
    return 1;
}

/* Lists joined, and repeated. */
int ts_do_add_lists(struct ts_run *r, int n, const struct ts_arg *arg,
                    struct ts_value *out)
{
    int rc;

    if (n != 2 || !ts_is_list(&arg[0].value) || !ts_is_list(&arg[1].value))
        return 0;
    rc = ts_new_list(r, arg[0].value.kind, 0, out);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < arg[k].value.list->n && rc == 0; i++)
            rc = ts_append(r, out->list, &arg[k].value.list->item[i]);
    return rc < 0 ? rc : 1;
}

int ts_do_repeat_list(struct ts_run *r, int n, const struct ts_arg *arg,
                      struct ts_value *out)
{
    const int which = n == 2 && ts_is_list(&arg[0].value) ? 0 : 1;
    int rc;

    if (n != 2 || !ts_is_list(&arg[which].value) ||
        arg[1 - which].value.kind != TSV_INT)
        return 0;
    rc = ts_new_list(r, TSV_LIST, 0, out);
    for (int64_t k = 0; k < arg[1 - which].value.i && rc == 0; k++) {
        rc = ts_step(r, 1);
        for (int i = 0; i < arg[which].value.list->n && rc == 0; i++)
            rc = ts_append(r, out->list, &arg[which].value.list->item[i]);
    }
    return rc < 0 ? rc : 1;
}

/* The least or largest of a list of known numbers. */
static int extreme(struct ts_run *r, const char *name, int n,
                   const struct ts_arg *arg, struct ts_value *out)
{
    struct ts_arg pair[2] = {{.name = {NULL, 0}}};
    int rc = 0;

    if (n != 1 || !ts_is_list(&arg[0].value) || arg[0].value.list->n == 0)
        return 0;
    *out = arg[0].value.list->item[0];
    for (int i = 1; i < arg[0].value.list->n && rc >= 0; i++) {
        pair[0].value = *out;
        pair[1].value = arg[0].value.list->item[i];
        rc = ts_call_operator(
            r, (struct pb_span){(unsigned char *)name, strlen(name)}, 2, pair,
            0, NULL, out);
    }
    return rc < 0 ? rc : 1;
}

int ts_do_least(struct ts_run *r, int n, const struct ts_arg *arg,
                struct ts_value *out)
{
    return extreme(r, "ops.prim.min", n, arg, out);
}

int ts_do_largest(struct ts_run *r, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    return extreme(r, "ops.prim.max", n, arg, out);
}

int ts_do_sum_list(struct ts_run *r, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    struct ts_arg pair[2] = {{.name = {NULL, 0}}};
    int rc = 0;

    if (n != 1 || !ts_is_list(&arg[0].value))
        return 0;
    *out = ts_int(0);
    for (int i = 0; i < arg[0].value.list->n && rc >= 0; i++) {
        pair[0].value = *out;
        pair[1].value = arg[0].value.list->item[i];
        rc = ts_call_operator(r,
                              (struct pb_span){(unsigned char *)"torch.add", 9},
                              2, pair, 0, NULL, out);
    }
    return rc < 0 ? rc : 1;
}

/* Whether every item is true, or any. */
static int truths(struct ts_run *r, bool every, int n, const struct ts_arg *arg,
                  struct ts_value *out)
{
    bool truth = every;
    int rc = 0;

    if (n != 1 || !ts_is_list(&arg[0].value))
        return 0;
    for (int i = 0; i < arg[0].value.list->n && rc == 0 && truth == every; i++)
        rc = ts_truth(r, &arg[0].value.list->item[i], NULL, &truth);
    *out = ts_bool(truth);
    return rc < 0 ? rc : 1;
}

int ts_do_all(struct ts_run *r, int n, const struct ts_arg *arg,
              struct ts_value *out)
{
    return truths(r, true, n, arg, out);
}

int ts_do_any(struct ts_run *r, int n, const struct ts_arg *arg,
              struct ts_value *out)
{
    return truths(r, false, n, arg, out);
}
