/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of wconv, made as JSON (--json) and printed as text from that. */
#include "tools/wconv/wconv.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/json.h"
#include "libinfer/graph/graph_fields.h"

#define COLUMNS 78

/* ---- what there is ------------------------------------------------- */

/* Default value of a field; of a list, that of each entry.  NULL for lists of
 * any length. */
static cJSON *default_of(const struct graph_field *f,
                         const union graph_attr *defaults)
{
    const char *at = (const char *)defaults + f->offset;
    float real;
    bool flag;
    int whole;

    switch (f->type) {
    case GRAPH_FIELD_BOOL:
        memcpy(&flag, at, sizeof(flag));
        return cJSON_CreateBool(flag);
    case GRAPH_FIELD_INT:
    case GRAPH_FIELD_INTS:
    case GRAPH_FIELD_PADS:
        memcpy(&whole, at, sizeof(whole));
        return cJSON_CreateNumber(whole);
    case GRAPH_FIELD_FLOAT:
        memcpy(&real, at, sizeof(real));
        return graph_float_to_json(real);
    case GRAPH_FIELD_ENUM:
        memcpy(&whole, at, sizeof(whole));
        return cJSON_CreateString(f->names[whole]);
    case GRAPH_FIELD_INT64S:
    case GRAPH_FIELD_INTN:
    case GRAPH_FIELD_FLOATS:
    case GRAPH_FIELD_SIZES:
        break;
    }
    return NULL;
}

static cJSON *attribute(const struct graph_field *f,
                        const union graph_attr *defaults)
{
    cJSON *json = cJSON_CreateObject(), *item = default_of(f, defaults);
    int i;

    cJSON_AddStringToObject(json, "name", f->name);
    if (item != NULL)
        json_put(json, "default", item);
    if (f->type == GRAPH_FIELD_ENUM) {
        item = cJSON_AddArrayToObject(json, "values");
        for (i = 0; f->names[i] != NULL; i++)
            json_append(item, cJSON_CreateString(f->names[i]));
    }
    return json;
}

static cJSON *operation(size_t i)
{
    const enum graph_op op = (enum graph_op)(GRAPH_NONE + 1 + i);
    const struct graph_op_info *info = graph_op_info(op);
    union graph_attr none = {0}, defaults;
    const struct graph_field *f = info->field;
    cJSON *json = cJSON_CreateObject(), *list;

    graph_fields_defaults(op, &none, &defaults);
    cJSON_AddStringToObject(json, "name", info->name);
    cJSON_AddStringToObject(json, "inputs", info->inputs);
    cJSON_AddBoolToObject(json, "residual", info->residual);
    cJSON_AddBoolToObject(json, "activation", info->activation);
    list = cJSON_AddArrayToObject(json, "attributes");
    for (; f != NULL && f->name != NULL; f++)
        json_append(list, attribute(f, &defaults));
    return json;
}

static cJSON *named(const char *name, const char *description)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "name", name);
    cJSON_AddStringToObject(json, "description", description);
    return json;
}

static cJSON *pass(size_t i)
{
    cJSON *json = named(pass_at(i)->name, pass_at(i)->description);

    cJSON_AddNumberToObject(json, "level", pass_at(i)->level);
    return json;
}

static cJSON *arch(size_t i)
{
    return named(arch_at(i)->name, arch_at(i)->description);
}

static cJSON *format(size_t i)
{
    return named(weights_format_at(i)->name, weights_format_at(i)->description);
}

/* ---- as text ------------------------------------------------------- */

static const char *word(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(json_member(json, key));

    return text != NULL ? text : "";
}

static bool flag(const cJSON *json, const char *key)
{
    return cJSON_IsTrue(json_member(json, key));
}

/* "=1" */
static void print_default(const cJSON *item)
{
    char *text = item != NULL && !cJSON_IsString(item)
                     ? cJSON_PrintUnformatted(item)
                     : NULL;

    if (item != NULL)
        printf("=%s", text != NULL ? text : cJSON_GetStringValue(item));
    cJSON_free(text);
}

/* Prints the values of an enumeration, on lines of their own. */
static void print_values(const cJSON *json)
{
    const cJSON *values = json_member(json, "values"), *value;
    size_t column;

    if (values == NULL)
        return;
    column = (size_t)printf("    %s:", word(json, "name"));
    cJSON_ArrayForEach(value, values)
    {
        if (column + 1 + strlen(value->valuestring) > COLUMNS)
            column = (size_t)printf("\n       ") - 1;
        column += (size_t)printf(" %s", value->valuestring);
    }
    putchar('\n');
}

static void print_operation(const cJSON *json)
{
    const cJSON *list = json_member(json, "attributes"), *item;

    printf("%s: %s%s%s\n", word(json, "name"), word(json, "inputs"),
           flag(json, "residual") ? " [residual]" : "",
           flag(json, "activation") ? "; act" : "");
    if (cJSON_GetArraySize(list) == 0)
        return;
    printf("   ");
    cJSON_ArrayForEach(item, list)
    {
        printf(" %s", word(item, "name"));
        print_default(json_member(item, "default"));
    }
    putchar('\n');
    cJSON_ArrayForEach(item, list)
    {
        print_values(item);
    }
}

static void print_pass(const cJSON *json)
{
    printf("%-22s -O%g  %s\n", word(json, "name"),
           cJSON_GetNumberValue(json_member(json, "level")),
           word(json, "description"));
}

static void print_arch(const cJSON *json)
{
    printf("%-18s %s\n", word(json, "name"), word(json, "description"));
}

static void print_format(const cJSON *json)
{
    printf("%-12s %s\n", word(json, "name"), word(json, "description"));
}

static size_t operation_count(void)
{
    return GRAPH_OP_COUNT - GRAPH_NONE - 1;
}

/* ---- all lists ----------------------------------------------------- */

static const struct {
    size_t (*count)(void);
    cJSON *(*item)(size_t i);
    void (*print)(const cJSON *json);
} lists[] = {
    [WCONV_LIST_FORMATS] = {weights_format_count, format, print_format},
    [WCONV_LIST_ARCHS] = {arch_count, arch, print_arch},
    [WCONV_LIST_OPS] = {operation_count, operation, print_operation},
    [WCONV_LIST_PASSES] = {pass_count, pass, print_pass},
};

void wconv_print_list(enum wconv_list which, bool as_json)
{
    cJSON *all = cJSON_CreateArray();
    const cJSON *item;
    size_t i;

    for (i = 0; i < lists[which].count(); i++)
        json_append(all, lists[which].item(i));
    if (as_json) {
        cli_print_json(all, false);
        return;
    }
    cJSON_ArrayForEach(item, all)
    {
        lists[which].print(item);
    }
    cJSON_Delete(all);
}
