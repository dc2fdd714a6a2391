/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of pictures from the folders that they lie in. */
#include <stdlib.h>
#include <string.h>

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

bool samples_classes_of(const struct graph *g, const struct tool_list *list,
                        int64_t *class)
{
    struct folder *f = calloc(list->count + 1, sizeof *f);
    const int64_t classes = count_classes(g);
    size_t n = list->count, known = 0;
    bool found;

    for (size_t i = 0; f != NULL && i < list->count; i++)
        f[i] = folder_of(list->path[i]);
    n = f != NULL ? make_unique(f, n) : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t c = class_of(g, &f[i]);

        known += c >= 0 && c < classes;
    }
    found = n >= 2 && (known == n || (known == 0 && (int64_t)n == classes));
    for (size_t i = 0; found && i < list->count; i++) {
        const struct folder own = folder_of(list->path[i]);
        const struct folder *at = bsearch(&own, f, n, sizeof *f, by_name);

        class[i] = known > 0 ? class_of(g, &own) : at - f;
    }
    free(f);
    return found;
}
