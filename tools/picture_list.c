/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures that a command line names: files, folders, lists. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/picture_list.h"

/* Limit of nested folders. */
#define MAX_DEPTH 16

int tool_list_append(struct tool_list *list, const char *path,
                     struct infer_error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **more = realloc(list->path, capacity * sizeof(*more));

        if (more == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        list->path = more;
        list->capacity = capacity;
    }
    list->path[list->count] = strdup(path);
    if (list->path[list->count] == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    list->count++;
    return INFER_OK;
}

void tool_list_clear(struct tool_list *list)
{
    while (list->count > 0)
        free(list->path[--list->count]);
    free(list->path);
    memset(list, 0, sizeof(*list));
}

/* ---- content ------------------------------------------------------- */

/* What a file begins with. */
struct head {
    unsigned char byte[16];
    size_t count;
};

static struct head read_head(FILE *f)
{
    struct head h = {{0}, 0};

    h.count = fread(h.byte, 1, sizeof(h.byte), f);
    rewind(f);
    return h;
}

static bool is_picture(const struct head *h)
{
    return memcmp(h->byte, "\x89PNG", 4) == 0 ||
           memcmp(h->byte, "\xff\xd8\xff", 3) == 0;
}

/* The name of a format of pictures or pages that is not read, or NULL. */
static const char *foreign_format(const struct head *h)
{
    static const struct {
        size_t at;
        const char *bytes, *name;
    } known[] = {
        {0, "GIF8", "a GIF picture"},
        {0, "BM", "a BMP picture"},
        {8, "WEBP", "a WebP picture"},
        {4, "ftyp", "a HEIC or AVIF picture"},
        {0, "II*", "a TIFF picture"},
        {0, "MM", "a TIFF picture"},
        {0, "<!DOCTYPE", "an HTML page"},
        {0, "<html", "an HTML page"},
        {0, "<!doctype", "an HTML page"},
        {0, "<svg", "an SVG picture"},
        {0, "%PDF", "a PDF document"},
        {0, "PK\x03\x04", "a zip archive"},
        {0, "\x1f\x8b", "a gzip archive"},
        {0, "\x89HDF", "an HDF5 file"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (memcmp(h->byte + known[i].at, known[i].bytes,
                   strlen(known[i].bytes)) == 0)
            return known[i].name;
    return NULL;
}

/* True if the name promises a picture: such a file is no list. */
static bool is_picture_name(const char *path)
{
    static const char *const ends[] = {".png",  ".jpg",  ".jpeg", ".gif",
                                       ".bmp",  ".webp", ".heic", ".avif",
                                       ".tiff", ".tif",  NULL};
    const char *dot = strrchr(path, '.');

    for (int i = 0; dot != NULL && ends[i] != NULL; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return true;
    return false;
}

/* ---- lists --------------------------------------------------------- */

/* Reads the next line without its newline: its length, -1 at the end of the
 * file, -2 if it cannot be a path. */
static int read_line(FILE *f, char *line, int room)
{
    int length = 0, c;

    while ((c = getc(f)) != EOF && c != '\n') {
        if (length + 1 == room || (c < 0x20 && c != '\r'))
            return -2;
        line[length++] = (char)c;
    }
    if (c == EOF && length == 0)
        return -1;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    return strchr(line, '\r') ? -2 : length;
}

static int not_a_list(const char *path, unsigned line, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT,
                     "%s: neither a PNG or JPEG picture nor a list of pictures "
                     "(line %u)",
                     path, line);
}

/* Adds the pictures of a list, one path a line.  A file that was not called a
 * list (@FILE) is one only if its first line names a file.  Later lines are
 * left to the reader, which reports them with other unreadable pictures. */
static int add_lines(struct tool_list *list, FILE *f, const char *path,
                     bool called, struct infer_error *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, UTF-8 */
    char line[4096];
    unsigned number = 0;
    int length, rc = INFER_OK;

    while (rc == INFER_OK &&
           (length = read_line(f, line, (int)sizeof(line))) != -1) {
        const int skip =
            number++ == 0 && length >= 3 && memcmp(line, mark, 3) == 0 ? 3 : 0;
        struct stat st;

        if (length == -2)
            return not_a_list(path, number, err);
        if (length <= skip)
            continue;
        if (!called && stat(line + skip, &st) < 0)
            return not_a_list(path, number, err);
        called = true;
        rc = tool_list_append(list, line + skip, err);
    }
    return rc;
}

static int add_list(struct tool_list *list, const char *path,
                    struct infer_error *err)
{
    FILE *f = fopen(path, "rb");
    int rc;

    if (f == NULL)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    rc = add_lines(list, f, path, true, err);
    fclose(f);
    return rc;
}

/* ---- paths --------------------------------------------------------- */

static int add_path(struct tool_list *list, const char *path, int depth,
                    bool inside_folder, struct infer_error *err);

static int add_folder(struct tool_list *list, const char *path, int depth,
                      struct infer_error *err)
{
    struct dirent **names;
    int i, rc = INFER_OK, n;

    if (depth == MAX_DEPTH)
        return error_set(err, INFER_EIO, "%s: folders nest deeper than %d",
                         path, MAX_DEPTH);
    n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    for (i = 0; i < n; i++) {
        char inner[4096];

        snprintf(inner, sizeof(inner), "%s/%s", path, names[i]->d_name);
        if (rc == INFER_OK && names[i]->d_name[0] != '.')
            rc = add_path(list, inner, depth + 1, true, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* A path that stat() refuses.  In a folder it stays in the list, so that the
 * reader reports it with the other unreadable pictures. */
static int unreadable(struct tool_list *list, const char *path,
                      bool inside_folder, struct infer_error *err)
{
    if (inside_folder)
        return tool_list_append(list, path, err);
    return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
}

/* A file that is no picture: a list, or named for what it is. */
static int add_other(struct tool_list *list, FILE *f, const struct head *h,
                     const char *path, struct infer_error *err)
{
    const char *name = foreign_format(h);

    if (name != NULL || is_picture_name(path))
        return error_set(err, INFER_EFORMAT, "%s: %s%sneither PNG nor JPEG",
                         path, name != NULL ? name : "", name ? ", " : "");
    return add_lines(list, f, path, false, err);
}

static int add_path(struct tool_list *list, const char *path, int depth,
                    bool inside_folder, struct infer_error *err)
{
    struct head head;
    struct stat st;
    FILE *f;
    int rc = INFER_OK;

    if (stat(path, &st) < 0)
        return unreadable(list, path, inside_folder, err);
    if (S_ISDIR(st.st_mode))
        return add_folder(list, path, depth, err);
    if (!S_ISREG(st.st_mode) && inside_folder)
        return INFER_OK;
    if (!S_ISREG(st.st_mode))
        return error_set(err, INFER_EIO, "%s: not a regular file", path);
    if (st.st_size == 0 && !inside_folder)
        return error_set(err, INFER_EFORMAT, "%s: the file is empty", path);
    f = fopen(path, "rb");
    if (f == NULL)
        return unreadable(list, path, inside_folder, err);
    head = read_head(f);
    if (is_picture(&head))
        rc = tool_list_append(list, path, err);
    else if (!inside_folder) /* other files of a folder are passed over */
        rc = add_other(list, f, &head, path, err);
    fclose(f);
    return rc;
}

int tool_list_add(struct tool_list *list, const char *path,
                  struct infer_error *err)
{
    struct stat st;

    if (strcmp(path, "-") == 0)
        return tool_list_append(list, path, err);
    if (path[0] == '@' && path[1] != '\0' && stat(path, &st) < 0)
        return add_list(list, path + 1, err);
    return add_path(list, path, 0, false, err);
}
