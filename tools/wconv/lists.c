/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that wconv prints. */
#include "tools/wconv/wconv.h"

#include <stdio.h>

void wconv_list_ops(void)
{
    int op;

    for (op = GRAPH_NONE + 1; op < GRAPH_OP_COUNT; op++) {
        const struct graph_op_info *info = graph_op_info((enum graph_op)op);
        const struct graph_field *f;

        printf("%-16s", info->name);
        for (f = info->field; f != NULL && f->name != NULL; f++)
            printf(" %s", f->name);
        if (info->activation)
            printf(" +act");
        if (info->residual)
            printf(" +residual");
        putchar('\n');
    }
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
