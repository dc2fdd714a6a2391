/* SPDX-License-Identifier: Apache-2.0 */
/* wconv --input-shape, --input-type and --input-value: what the command line
 * says of the network's inputs. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "tools/wconv/wconv.h"

int wconv_add_shape(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct wconv_request *r = user;
    struct weights_input_shape *s = &r->shape[r->weights.input_count];
    char *name;

    if (r->weights.input_count == (int)(sizeof(r->shape) / sizeof(*r->shape)))
        return cli_bad_value(cli, o->name, value, "at most 16 shapes");
    if (!cli_shape(value, &name, &s->rank, s->dim))
        return CLI_BAD;
    s->name = name;
    r->weights.input_shape = r->shape;
    r->weights.input_count++;
    return 0;
}

int wconv_add_type(struct cli *cli, const struct cli_option *o,
                   const char *value, void *user)
{
    struct wconv_request *r = user;
    struct weights_input_type *t = &r->type[r->weights.input_type_count];
    const char *const colon = strrchr(value, ':');

    if (r->weights.input_type_count ==
        (int)(sizeof(r->type) / sizeof(*r->type)))
        return cli_bad_value(cli, o->name, value, "at most 16 types");
    t->dtype = dtype_find(colon != NULL ? colon + 1 : value);
    if (t->dtype == INFER_NONE || colon == value)
        return CLI_BAD;
    t->name = NULL;
    if (colon != NULL) {
        t->name = strndup(value, (size_t)(colon - value));
        if (t->name == NULL) {
            cli_error(cli, "out of memory");
            return -1;
        }
    }
    r->weights.input_type = r->type;
    r->weights.input_type_count++;
    return 0;
}

/* Numbers of one input. */
#define MAX_NUMBERS 4096

/* The numbers of a text: how many, or -1 where it is malformed. */
static int read_numbers(const char *text, double **out)
{
    double *number = malloc(MAX_NUMBERS * sizeof *number);
    int n = 0;
    char *end;

    *out = number;
    for (;;) {
        if (number == NULL || n == MAX_NUMBERS)
            return -1;
        number[n] = strtod(text, &end);
        if (end == text)
            return -1;
        n++;
        if (*end == '\0')
            return n;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
}

int wconv_add_value(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct wconv_request *r = user;
    struct weights_input_value *v = &r->value[r->weights.input_value_count];
    const char *const colon = strrchr(value, ':');
    double *number;

    for (int i = 0; i < r->weights.input_value_count; i++)
        if (colon != NULL &&
            strlen(r->value[i].name) == (size_t)(colon - value) &&
            strncmp(r->value[i].name, value, (size_t)(colon - value)) == 0)
            return cli_bad_value(cli, o->name, value,
                                 "the value of an input only once");
    if (r->weights.input_value_count ==
        (int)(sizeof(r->value) / sizeof(*r->value)))
        return cli_bad_value(cli, o->name, value, "at most 16 values");
    if (colon == NULL || colon == value)
        return CLI_BAD;
    v->count = read_numbers(colon + 1, &number);
    v->value = number;
    v->name = strndup(value, (size_t)(colon - value));
    v->used = false;
    /* Counted before it is checked, so that it is freed. */
    r->weights.input_value = r->value;
    r->weights.input_value_count++;
    if (number == NULL || v->name == NULL) {
        cli_error(cli, "out of memory");
        return -1;
    }
    return v->count < 0 ? CLI_BAD : 0;
}

void wconv_clear_inputs(struct wconv_request *r)
{
    for (int i = 0; i < r->weights.input_count; i++)
        free((char *)r->shape[i].name);
    for (int i = 0; i < r->weights.input_type_count; i++)
        free((char *)r->type[i].name);
    for (int i = 0; i < r->weights.input_value_count; i++) {
        free((char *)r->value[i].name);
        free((double *)r->value[i].value);
    }
}

/* Input of this name, or at this position where it is NULL; NULL: none. */
static struct graph_value *find_input(struct graph *g, const char *name,
                                      int position)
{
    for (int j = 0; j < g->n_inputs; j++)
        if (name != NULL ? strcmp(g->value[g->input[j]].name, name) == 0
                         : j == position)
            return &g->value[g->input[j]];
    return NULL;
}

/* Applies --input-shape. */
static int set_shapes(struct graph *g, const struct wconv_request *r,
                      struct infer_error *err)
{
    for (int i = 0; i < r->weights.input_count; i++) {
        const struct weights_input_shape *s = &r->shape[i];
        struct graph_value *v = find_input(g, s->name, i);

        if (v == NULL)
            return error_set(err, INFER_EARGUMENT,
                             "--input-shape: the network has no input '%s'",
                             s->name != NULL ? s->name : "of this position");
        if (v->rank >= 0 && v->rank != s->rank)
            return error_set(err, INFER_EARGUMENT,
                             "--input-shape: input '%s' has %d dimensions, "
                             "not %d",
                             v->name, v->rank, s->rank);
        v->rank = s->rank;
        memcpy(v->dim, s->dim, sizeof(v->dim));
    }
    return INFER_OK;
}

/* Refuses a second type of an input that has one. */
static int check_once(struct graph *g, const struct wconv_request *r, int i,
                      struct infer_error *err)
{
    const struct weights_input_type *t = r->type;
    const struct graph_value *v = find_input(g, t[i].name, i);

    for (int j = 0; j < i; j++)
        if (find_input(g, t[j].name, j) == v && t[j].dtype != t[i].dtype)
            return error_set(err, INFER_EARGUMENT,
                             "--input-type: input '%s' is given two types, %s "
                             "and %s",
                             v->name, infer_dtype_name(t[j].dtype),
                             infer_dtype_name(t[i].dtype));
    return INFER_OK;
}

/* Whether the types of --input-type are those of the graph: only a file that
 * states none takes them.  A program of TorchScript computes in F32 for any
 * type of floats, and may ask for it. */
static int check_types(struct graph *g, const struct wconv_request *r,
                       bool script, struct infer_error *err)
{
    for (int i = 0; i < r->weights.input_type_count; i++) {
        const struct weights_input_type *t = &r->type[i];
        const struct graph_value *v = find_input(g, t->name, i);

        if (v == NULL)
            return error_set(err, INFER_EARGUMENT,
                             "--input-type: the network has no input '%s'",
                             t->name != NULL ? t->name : "of this position");
        if (check_once(g, r, i, err) < 0)
            return INFER_EARGUMENT;
        if (v->dtype != t->dtype &&
            !(script && scalar_is_float(t->dtype) && v->dtype == INFER_F32))
            return error_set(
                err, INFER_EARGUMENT,
                "--input-type: input '%s' is read as %s by the file", v->name,
                infer_dtype_name(v->dtype));
    }
    return INFER_OK;
}

/* Only readers that import operators take values. */
static int check_values(struct graph *g, const struct wconv_request *r,
                        struct infer_error *err)
{
    for (int i = 0; i < r->weights.input_value_count; i++) {
        const struct weights_input_value *v = &r->value[i];

        if (!v->used)
            return error_set(
                err, INFER_EARGUMENT,
                find_input(g, v->name, -1) != NULL
                    ? "--input-value: input '%s' of a file of this "
                      "format cannot be fixed"
                    : "--input-value: the network has no input "
                      "'%s'",
                v->name);
    }
    return INFER_OK;
}

int wconv_set_inputs(struct graph *g, const struct wconv_request *r,
                     bool script, struct infer_error *err)
{
    int rc = set_shapes(g, r, err);

    if (rc == INFER_OK)
        rc = check_types(g, r, script, err);
    return rc < 0 ? rc : check_values(g, r, err);
}
