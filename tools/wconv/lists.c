/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that wconv prints, and class labels that it reads. */
#include "tools/wconv/wconv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"

#define MAX_LABELS      100000
#define MAX_LABEL_BYTES 1024

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

/* "n01440764 tench, Tinca tinca" is a WordNet id and its words. */
static const char *without_synset(const char *line)
{
    int i;

    if (line[0] != 'n')
        return line;
    for (i = 1; i <= 8; i++)
        if (!isdigit((unsigned char)line[i]))
            return line;
    return line[9] == ' ' ? line + 10 : line;
}

int wconv_read_labels(const char *path, struct graph *g,
                      struct infer_error *err)
{
    FILE *f = fopen(path, "r");
    char line[MAX_LABEL_BYTES];
    char **label = NULL;
    int n = 0, capacity = 0, status = INFER_OK;

    if (f == NULL)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (n == capacity) {
            char **more;

            capacity = capacity ? 2 * capacity : 64;
            more = n < MAX_LABELS
                       ? realloc(label, (size_t)capacity * sizeof(*label))
                       : NULL;
            if (more == NULL) {
                status = error_set(err, INFER_EMEMORY,
                                   "%s: more than %d labels", path, n);
                break;
            }
            label = more;
        }
        label[n] = strdup(without_synset(line));
        if (label[n] == NULL) {
            status = error_set(err, INFER_EMEMORY, "out of memory");
            break;
        }
        n++;
    }
    if (status == INFER_OK && ferror(f))
        status = error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    fclose(f);
    if (status == INFER_OK) {
        while (g->n_labels > 0)
            free(g->label[--g->n_labels]);
        free(g->label);
        g->label = label;
        g->n_labels = n;
        return INFER_OK;
    }
    while (n > 0)
        free(label[--n]);
    free(label);
    return status;
}
