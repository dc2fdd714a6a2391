/* SPDX-License-Identifier: Apache-2.0 */
/* --evaluate: which class each picture is of, from the folder it lies in or
 * from a list. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "tools/infer/evaluate.h"
#include "tools/labels.h"

/* ---- names --------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *label_at(const void *user, int i)
{
    return tool_label(user, i);
}

static int64_t class_of(const struct tool_run *run, const char *name)
{
    return labels_class(name, label_at, run, tool_label_count(run));
}

/* ---- folders ------------------------------------------------------- */

static int is_class(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int grow(struct evaluation *e, size_t count, int64_t class,
                struct infer_error *err)
{
    struct judged *more = realloc(e->of, (count + 1) * sizeof *more);

    if (more == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    e->of = more;
    for (; e->count < count; e->count++)
        e->of[e->count] = (struct judged){.truth = class, .shown = -1};
    return INFER_OK;
}

/* Adds the pictures of one class. */
static int add_class(struct tool_run *run, const char *folder, const char *name,
                     int64_t class, struct tool_list *list,
                     struct infer_error *err)
{
    char path[4096];
    int rc;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >=
        sizeof path)
        return error_set(err, INFER_EARGUMENT, "%s: the path is too long",
                         folder);
    if (!is_folder(path))
        return INFER_OK;
    rc = tool_list_add(list, path, err);
    return rc < 0 ? rc : grow(run->evaluation, list->count, class, err);
}

/* Number of folders among the names, and how many name a class. */
static int count_known(const struct tool_run *run, const char *folder,
                       struct dirent **names, int n, int *known)
{
    int folders = 0;

    *known = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (!is_folder(path))
            continue;
        folders++;
        *known += class_of(run, names[i]->d_name) >= 0;
    }
    return folders;
}

/* Classes are known by their folders' names, or, where no name is one, are
 * numbered in the order of the names. */
static int add_classes(struct tool_run *run, const char *folder,
                       struct dirent **names, int n, struct tool_list *list,
                       struct infer_error *err)
{
    int known, number = 0, rc = INFER_OK;
    const int folders = count_known(run, folder, names, n, &known);

    if (folders == 0)
        return error_set(err, INFER_EFORMAT,
                         "%s: no folders of pictures, one for each class",
                         folder);
    run->evaluation->numbered = known == 0 ? folders : 0;
    for (int i = 0; rc == INFER_OK && i < n; i++) {
        const char *name = names[i]->d_name;
        char path[4096];
        int64_t class = class_of(run, name);

        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (!is_folder(path))
            continue;
        if (known == 0)
            class = number++;
        else if (class < 0)
            rc = error_set(err, INFER_EARGUMENT,
                           "%s: folder '%s' is no label of the model, as %d "
                           "other folders are, and no number",
                           folder, name, known);
        if (rc == INFER_OK)
            rc = add_class(run, folder, name, class, list, err);
    }
    return rc;
}

static int add_folder(struct tool_run *run, const char *folder,
                      struct tool_list *list, struct infer_error *err)
{
    static const char *const parts[] = {"test", "val", NULL};
    struct dirent **names;
    char inner[4096];
    int n, rc;

    /* As train finds its test pictures. */
    for (int i = 0; parts[i] != NULL; i++)
        if ((size_t)snprintf(inner, sizeof inner, "%s/%s", folder, parts[i]) <
                sizeof inner &&
            is_folder(inner)) {
            folder = inner;
            break;
        }
    n = scandir(folder, &names, is_class, alphasort);
    if (n < 0)
        return error_set(err, INFER_EIO, "%s: %s", folder, strerror(errno));
    rc = add_classes(run, folder, names, n, list, err);
    while (n > 0)
        free(names[--n]);
    free(names);
    return rc;
}

/* ---- lists --------------------------------------------------------- */

/* "path class", one per line. */
static int add_line(struct tool_run *run, char *line, const char *path,
                    unsigned number, struct tool_list *list,
                    struct infer_error *err)
{
    char *space = strrchr(line, ' ');
    int64_t class;
    int rc;

    if (space == NULL || space == line || space[1] == '\0')
        return error_set(err, INFER_EFORMAT,
                         "%s, line %u: not a picture and its class", path,
                         number);
    class = class_of(run, space + 1);
    *space = '\0';
    if (class < 0)
        return error_set(err, INFER_EFORMAT,
                         "%s, line %u: '%s' is no label of the model and no "
                         "number",
                         path, number, space + 1);
    rc = tool_list_append(list, line, err);
    return rc < 0 ? rc : grow(run->evaluation, list->count, class, err);
}

int evaluate_lines(struct tool_run *run, const char *path, evaluate_line *take,
                   struct tool_list *list, struct infer_error *err)
{
    FILE *f = fopen(path, "rb");
    char line[4096];
    unsigned number = 0;
    int rc = INFER_OK;

    if (f == NULL)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    while (rc == INFER_OK && fgets(line, sizeof line, f) != NULL) {
        size_t length = strlen(line);

        number++;
        if (length + 1 == sizeof line || line[length - 1] != '\n') {
            if (!feof(f)) {
                rc = error_set(err, INFER_EFORMAT,
                               "%s, line %u: longer than a path, or no text",
                               path, number);
                break;
            }
            line[length++] = '\n';
        }
        for (length--; length > 0 && strchr("\r \t", line[length - 1]);)
            length--;
        line[length] = '\0';
        if (length > 0)
            rc = take(run, line, path, number, list, err);
    }
    fclose(f);
    return rc;
}

int evaluate_list(struct tool_run *run, struct tool_list *list,
                  struct infer_error *err)
{
    const char *path = run->request->evaluate;
    int rc;

    run->evaluation = calloc(1, sizeof *run->evaluation);
    if (run->evaluation == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = is_folder(path) ? add_folder(run, path, list, err)
                         : evaluate_lines(run, path[0] == '@' ? path + 1 : path,
                                          add_line, list, err);
    if (rc == INFER_OK && list->count == 0)
        rc = error_set(err, INFER_EFORMAT, "%s: no pictures there", path);
    return rc;
}
