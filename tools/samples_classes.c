/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of pictures from the folders that they lie in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/labels.h"
#include "tools/samples.h"

/* The name of the folder that a picture lies in. */
struct folder {
    const char *name;
    size_t length;
};

static struct folder folder_of(const char *path)
{
    const char *end = strrchr(path, '/');
    const char *start = end;

    if (end == NULL)
        return (struct folder){path, 0};
    while (start > path && start[-1] != '/')
        start--;
    return (struct folder){start, (size_t)(end - start)};
}

static int by_name(const void *a, const void *b)
{
    const struct folder *x = a, *y = b;
    const size_t least = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->name, y->name, least);

    return order != 0               ? order
           : x->length == y->length ? 0
           : x->length < y->length  ? -1
                                    : 1;
}

/* Sorts the folders and drops repetitions; returns how many are left. */
static size_t make_unique(struct folder *f, size_t n)
{
    size_t kept = 0;

    qsort(f, n, sizeof *f, by_name);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || by_name(&f[kept - 1], &f[i]) != 0)
            f[kept++] = f[i];
    return kept;
}

static const char *label_at(const void *user, int i)
{
    const struct graph *g = user;

    return g->label[i];
}

static int64_t class_of(const struct graph *g, const struct folder *f)
{
    char name[256];

    if (f->length == 0 || f->length >= sizeof name)
        return -1;
    memcpy(name, f->name, f->length);
    name[f->length] = '\0';
    return labels_class(name, label_at, g, g->n_labels);
}

/* Classes of the network: those of its first output, -1 where it has none. */
static int64_t count_classes(const struct graph *g)
{
    const struct graph_value *v = &g->value[g->output[0]];

    return v->rank == 2 ? v->dim[1] : -1;
}

/* What is to be said of the folder f, the first of n that names no class. */
static void note_folder(const struct folder *f, size_t known, size_t n,
                        bool found, char *note, size_t bytes)
{
    const int length = f->length < 60 ? (int)f->length : 60;

    snprintf(note, bytes,
             found
                 ? "%zu of %zu folders name no class of the network ('%.*s'): "
                   "their pictures are not judged"
                 : "%zu of %zu folders name no class of the network ('%.*s'): "
                   "right answers are not counted",
             n - known, n, length, f->name);
}

int samples_classes_of(const struct graph *g, const struct tool_list *list,
                       struct infer_error *err, int64_t *class, bool *found,
                       char *note, size_t note_bytes)
{
    struct folder *f = calloc(list->count + 1, sizeof *f);
    const struct folder *unknown = NULL;
    const int64_t classes = count_classes(g);
    size_t n, known = 0;

    if (f == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (size_t i = 0; i < list->count; i++)
        f[i] = folder_of(list->path[i]);
    n = make_unique(f, list->count);
    for (size_t i = 0; i < n; i++) {
        const int64_t c = class_of(g, &f[i]);

        if (c >= 0 && c < classes)
            known++;
        else if (unknown == NULL)
            unknown = &f[i];
    }
    *found = n >= 2 && (known > 0 ? 2 * known >= n : (int64_t)n == classes);
    if (n >= 2 && unknown != NULL && (known > 0 || (!*found && classes > 0)))
        note_folder(unknown, known, n, *found, note, note_bytes);
    for (size_t i = 0; *found && i < list->count; i++) {
        const struct folder own = folder_of(list->path[i]);
        const struct folder *at = bsearch(&own, f, n, sizeof *f, by_name);

        class[i] = known > 0 ? class_of(g, &own) : at - f;
        if (class[i] < 0 || class[i] >= classes)
            class[i] = SAMPLES_NO_CLASS;
    }
    free(f);
    return INFER_OK;
}
