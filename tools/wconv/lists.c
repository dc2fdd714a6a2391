/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that wconv prints. */
#include "tools/wconv/wconv.h"

#include <stdio.h>
#include <string.h>

#include "libinfer/graph_fields.h"

#define COLUMNS 78

/* "=1"; of a list the value of each entry.  Lists of any length have none. */
static void print_default(const struct graph_field *f,
                          const union graph_attr *defaults)
{
    const char *at = (const char *)defaults + f->offset;
    float real;
    bool flag;
    int whole;

    switch (f->type) {
    case GRAPH_FIELD_BOOL:
        memcpy(&flag, at, sizeof(flag));
        printf("=%s", flag ? "true" : "false");
        break;
    case GRAPH_FIELD_INT:
    case GRAPH_FIELD_INTS:
    case GRAPH_FIELD_PADS:
        memcpy(&whole, at, sizeof(whole));
        printf("=%d", whole);
        break;
    case GRAPH_FIELD_FLOAT:
        memcpy(&real, at, sizeof(real));
        printf("=%g", (double)real);
        break;
    case GRAPH_FIELD_ENUM:
        memcpy(&whole, at, sizeof(whole));
        printf("=%s", f->names[whole]);
        break;
    default:
        break;
    }
}

/* The values that a field may have, in lines of their own. */
static void print_words(const struct graph_field *f)
{
    size_t column;
    int i;

    if (f->type != GRAPH_FIELD_ENUM)
        return;
    column = (size_t)printf("    %s:", f->name);
    for (i = 0; f->names[i] != NULL; i++) {
        if (column + 1 + strlen(f->names[i]) > COLUMNS)
            column = (size_t)printf("\n       ") - 1;
        column += (size_t)printf(" %s", f->names[i]);
    }
    putchar('\n');
}

static void print_op(enum graph_op op)
{
    const struct graph_op_info *info = graph_op_info(op);
    union graph_attr none = {0}, defaults;
    const struct graph_field *f;

    graph_fields_defaults(op, &none, &defaults);
    printf("%s: %s%s%s\n", info->name, info->inputs,
           info->residual ? " [residual]" : "",
           info->activation ? "; act" : "");
    if (info->field == NULL)
        return;
    printf("   ");
    for (f = info->field; f->name != NULL; f++) {
        printf(" %s", f->name);
        print_default(f, &defaults);
    }
    putchar('\n');
    for (f = info->field; f->name != NULL; f++)
        print_words(f);
}

void wconv_list_ops(void)
{
    int op;

    for (op = GRAPH_NONE + 1; op < GRAPH_OP_COUNT; op++)
        print_op((enum graph_op)op);
}

void wconv_list_passes(void)
{
    size_t i;

    for (i = 0; i < pass_count(); i++)
        printf("%-22s -O%d  %s\n", pass_at(i)->name, pass_at(i)->level,
               pass_at(i)->description);
}

void wconv_list_archs(void)
{
    size_t i;

    for (i = 0; i < arch_count(); i++)
        printf("%-18s %s\n", arch_at(i)->name, arch_at(i)->description);
}

void wconv_list_formats(void)
{
    size_t i;

    for (i = 0; i < weights_format_count(); i++)
        printf("%-12s %s\n", weights_format_at(i)->name,
               weights_format_at(i)->description);
}
