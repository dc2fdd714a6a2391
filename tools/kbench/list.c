/* SPDX-License-Identifier: Apache-2.0 */
/* --list-kernels: the rows of the kernel table. */
#include <fnmatch.h>
#include <stdio.h>

#include "kernels/rows.h"
#include "libinfer/device/device.h"
#include "tools/kbench/kbench.h"

static void print_flags(const struct kern_row *row)
{
    static const struct {
        unsigned flag;
        const char *word;
    } words[] = {{KERN_BASELINE, "baseline"},
                 {KERN_INEXACT, "inexact"},
                 {KERN_INVARIANT, "invariant"},
                 {KERN_NONDETERMINISTIC, "nondeterministic"},
                 {KERN_TF32, "tf32"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (row->flags & words[i].flag)
            printf(" %s", words[i].word);
}

static bool is_asked(const struct kb_request *r, const struct kern_row *row)
{
    bool any = false;

    for (int b = 0; b < INFER_BACKEND_COUNT; b++)
        any = any || r->backend[b];
    return (!any || r->backend[row->backend]) &&
           (!r->kernels || fnmatch(r->kernels, row->name, 0) == 0);
}

int kb_list_kernels(const struct kb_request *r)
{
    int listed = 0;

    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);

        if (!is_asked(r, row))
            continue;
        if (listed++ == 0)
            printf("%-50s %-7s %-5s %s\n", "kernel", "backend", "type",
                   "operation, least SM, flags");
        printf("%-50s %-7s %-5s %s", row->name,
               device_backend_names[row->backend],
               row->dtype == INFER_NONE ? "any" : infer_dtype_name(row->dtype),
               kern_op_name(row->op));
        if (row->min_sm > 0)
            printf(" sm_%d", row->min_sm);
        print_flags(row);
        putchar('\n');
    }
    return listed;
}
