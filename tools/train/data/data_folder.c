/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of pictures by class: CLASS/any/name.png or .jpg.  Classes are
 * numbered in the order of their names. */
#include "tools/train/data/data.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "libinfer/image/preprocess.h"

#define MAX_DEPTH   8
#define MAX_CLASSES 100000
/* Decoded pictures are kept in memory if all of them fit into this. */
#define KEEP_BYTES ((size_t)2 << 30)

struct names {
    char **name;
    size_t count, capacity;
};

static int names_add(struct names *list, const char *folder, const char *name,
                     struct infer_error *err)
{
    char *path = folder ? data_join(folder, name) : strdup(name);

    if (path && list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 256;
        char **more = realloc(list->name, capacity * sizeof(*more));

        if (more) {
            list->name = more;
            list->capacity = capacity;
        } else {
            free(path);
            path = NULL;
        }
    }
    if (!path)
        return error_set(err, INFER_EMEMORY, "out of memory");
    list->name[list->count++] = path;
    return 0;
}

static void names_clear(struct names *list)
{
    while (list->count > 0)
        free(list->name[--list->count]);
    free(list->name);
    memset(list, 0, sizeof(*list));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_sort(struct names *list)
{
    if (list->count > 1)
        qsort(list->name, list->count, sizeof(list->name[0]), by_name);
}

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
            strcasecmp(dot, ".jpeg") == 0);
}

static int open_folder(const char *folder, struct infer_error *err, DIR **out)
{
    *out = opendir(folder);
    return *out ? 0
                : error_set(err, INFER_EIO, "%s: %s", folder, strerror(errno));
}

/* Adds the pictures below a folder. */
static int find_pictures(const char *folder, int depth, struct names *out,
                         struct infer_error *err)
{
    const struct dirent *entry;
    DIR *dir;
    int rc;

    if (depth > MAX_DEPTH)
        return error_set(err, INFER_EFORMAT,
                         "%s: folders are nested more than %d deep (a link to "
                         "one of them?)",
                         folder, MAX_DEPTH);
    rc = open_folder(folder, err, &dir);
    if (rc < 0)
        return rc;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        char *path;

        if (entry->d_name[0] == '.')
            continue;
        path = data_join(folder, entry->d_name);
        if (!path)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
        else if (is_folder(path))
            rc = find_pictures(path, depth + 1, out, err);
        else if (is_picture(entry->d_name))
            rc = names_add(out, NULL, path, err);
        free(path);
    }
    closedir(dir);
    return rc;
}

/* Subfolders, sorted by name. */
static int find_classes(const char *folder, struct names *out,
                        struct infer_error *err)
{
    const struct dirent *entry;
    DIR *dir;
    int rc = open_folder(folder, err, &dir);

    if (rc < 0)
        return rc;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        char *path = data_join(folder, entry->d_name);

        if (!path)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
        else if (entry->d_name[0] != '.' && is_folder(path))
            rc = names_add(out, NULL, entry->d_name, err);
        free(path);
    }
    closedir(dir);
    if (rc == 0 && out->count > MAX_CLASSES)
        rc = error_set(err, INFER_EFORMAT, "%s: %zu folders (at most %d)",
                       folder, out->count, MAX_CLASSES);
    names_sort(out);
    return rc;
}

/* Adds the pictures of one class, sorted by name. */
static int add_class(struct data_set *set, const char *folder, int label,
                     struct infer_error *err)
{
    struct names list = {0};
    int rc = find_pictures(folder, 0, &list, err);
    size_t all = (size_t)set->count + list.count;
    char **file;
    int32_t *labels;

    names_sort(&list);
    if (rc == 0 && list.count == 0)
        rc = error_set(err, INFER_EFORMAT,
                       "%s: a class without pictures (.png, .jpg)", folder);
    if (rc < 0) {
        names_clear(&list);
        return rc;
    }
    file = realloc(set->file, all * sizeof(*file));
    if (file)
        set->file = file;
    labels = realloc(set->label, all * sizeof(*labels));
    if (labels)
        set->label = labels;
    if (!file || !labels) {
        names_clear(&list);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (size_t i = 0; i < list.count; i++) {
        set->label[set->count] = label;
        set->file[set->count++] = list.name[i];
    }
    free(list.name);
    return 0;
}

static int make_room(struct data_set *set, struct infer_error *err)
{
    const size_t each = data_bytes(set);

    set->keep = (size_t)set->count <= KEEP_BYTES / each;
    if (!set->keep)
        return 1;
    set->decoded = calloc((size_t)set->count + 1, sizeof(*set->decoded));
    set->pixels = malloc((size_t)set->count * each + 1);
    if (!set->decoded || !set->pixels)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", set->path);
    return 1;
}

static int open_classes(const char *folder, const struct data_wish *wish,
                        struct infer_error *err, struct data_set *out)
{
    struct names classes = {0};
    int rc = find_classes(folder, &classes, err);

    if (rc < 0 || classes.count == 0) {
        names_clear(&classes);
        return rc;
    }
    out->channels = wish->channels;
    out->height = wish->height;
    out->width = wish->width;
    out->preprocess = wish->preprocess;
    out->max_pixels = wish->max_pixels;
    out->classes = (int)classes.count;
    for (size_t i = 0; rc == 0 && i < classes.count; i++) {
        char *path = data_join(folder, classes.name[i]);

        rc = path ? add_class(out, path, (int)i, err)
                  : error_set(err, INFER_EMEMORY, "out of memory");
        free(path);
    }
    out->class_name = classes.name; /* all of them, after an error too */
    return rc < 0 ? rc : make_room(out, err);
}

/* A folder with the name of the part must hold classes. */
static int open_part(const char *folder, const struct data_wish *wish,
                     struct infer_error *err, struct data_set *out)
{
    const int rc = open_classes(folder, wish, err, out);

    return rc != 0 ? rc
                   : error_set(err, INFER_EFORMAT,
                               "%s: holds no folders: pictures belong into "
                               "one for each class",
                               folder);
}

int data_open_folder(const char *path, enum data_part part,
                     const struct data_wish *wish, struct infer_error *err,
                     struct data_set *out)
{
    static const char *const names[2][3] = {{"train", "training", NULL},
                                            {"test", "val", "validation"}};

    if (!is_folder(path))
        return 0;
    for (int i = 0; i < 3; i++) {
        char *folder;
        int rc;

        if (!names[part][i])
            continue;
        folder = data_join(path, names[part][i]);
        rc =
            folder && is_folder(folder) ? open_part(folder, wish, err, out) : 0;
        free(folder);
        if (rc != 0)
            return rc;
    }
    if (part == DATA_TEST)
        return 0;
    /* The folder of the other part is no class. */
    for (int i = 0; i < 3; i++) {
        char *other = names[!part][i] ? data_join(path, names[!part][i]) : NULL;
        const bool there = other && is_folder(other);

        free(other);
        if (there)
            return 0;
    }
    return open_classes(path, wish, err, out);
}

/* ---- pictures ------------------------------------------------------ */

/* Interleaved pixels to planes. */
static void to_planes(const struct data_set *set, const uint8_t *pixels,
                      uint8_t *out)
{
    const size_t count = (size_t)set->height * (size_t)set->width;
    const int channels = set->channels;

    for (int c = 0; c < channels; c++) {
        const uint8_t *from =
            pixels + preprocess_source(&set->preprocess, c, channels);

        for (size_t i = 0; i < count; i++)
            *out++ = from[i * (size_t)channels];
    }
}

int data_decode(const struct data_set *set, const char *file, uint8_t *out,
                struct infer_error *err)
{
    uint8_t *pixels = malloc(data_bytes(set));
    struct infer_image image = {0};
    int rc;

    if (!pixels)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", file);
    rc = infer_image_load(file, set->max_pixels, err,
                          &image); /* names the file */
    if (rc == 0) {
        rc = preprocess_fit(&set->preprocess, &image, set->channels, set->width,
                            set->height, pixels, err);
        if (rc < 0)
            error_prefix(err, "%s", file);
    }
    if (rc == 0)
        to_planes(set, pixels, out);
    infer_image_free(&image);
    free(pixels);
    return rc;
}
