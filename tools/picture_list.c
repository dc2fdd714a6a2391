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

static int grow(struct tool_list *list)
{
    const size_t capacity = list->capacity ? 2 * list->capacity : 64;
    char **path = realloc(list->path, capacity * sizeof(*path));
    char **origin;

    if (path == NULL)
        return -1;
    list->path = path;
    origin = realloc(list->origin, capacity * sizeof(*origin));
    if (origin == NULL)
        return -1;
    list->origin = origin;
    list->capacity = capacity;
    return 0;
}

int tool_list_append(struct tool_list *list, const char *path,
                     struct infer_error *err)
{
    if (list->count == list->capacity && grow(list) < 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    list->path[list->count] = strdup(path);
    list->origin[list->count] = NULL;
    if (list->path[list->count] == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    list->count++;
    return INFER_OK;
}

void tool_list_clear(struct tool_list *list)
{
    while (list->count > 0) {
        list->count--;
        free(list->path[list->count]);
        free(list->origin[list->count]);
    }
    free(list->path);
    free(list->origin);
    free(list->left_out_text);
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

/* The name of a format of pictures or pages that is not read, or NULL.
 * *is_picture is set with it. */
static const char *foreign_format(const struct head *h, bool *is_picture)
{
    static const struct {
        size_t at;
        const char *bytes, *name;
        bool is_picture;
    } known[] = {
        {0, "GIF8", "a GIF picture", true},
        {0, "BM", "a BMP picture", true},
        {8, "WEBP", "a WebP picture", true},
        {4, "ftyphe", "a HEIC picture", true},
        {4, "ftypmif1", "a HEIC picture", true},
        {4, "ftypavi", "an AVIF picture", true},
        {4, "ftyp", "a film or picture (ISO media)", false},
        {0, "II*", "a TIFF picture", true},
        {0, "MM", "a TIFF picture", true},
        {0, "\xff\x0a", "a JPEG XL picture", true},
        {4, "JXL ", "a JPEG XL picture", true},
        {4, "jP  ", "a JPEG 2000 picture", true},
        {0, "8BPS", "a Photoshop picture", true},
        {0, "P4\n", "a PNM picture", true},
        {0, "P5\n", "a PNM picture", true},
        {0, "P6\n", "a PNM picture", true},
        {0, "<!DOCTYPE", "an HTML page", false},
        {0, "<html", "an HTML page", false},
        {0, "<!doctype", "an HTML page", false},
        {0, "<svg", "an SVG picture", false},
        {0, "%PDF", "a PDF document", false},
        {0, "PK\x03\x04", "a zip archive", false},
        {0, "\x1f\x8b", "a gzip archive", false},
        {0, "\x89HDF", "an HDF5 file", false},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (memcmp(h->byte + known[i].at, known[i].bytes,
                   strlen(known[i].bytes)) == 0) {
            *is_picture = known[i].is_picture;
            return known[i].name;
        }
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

/* Adds a line of a list.  One that names no file stays in the list with its
 * place, for the reader to report. */
static int add_line(struct tool_list *list, const char *line, const char *path,
                    unsigned number, struct infer_error *err)
{
    int rc = tool_list_append(list, line, err);
    struct stat st;

    if (rc == INFER_OK && stat(line, &st) < 0 &&
        asprintf(&list->origin[list->count - 1], "%s, line %u", path, number) <
            0) {
        list->origin[list->count - 1] = NULL;
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    return rc;
}

/* Adds the pictures of a list, one path per line.  A file that was not called a
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
        rc = add_line(list, line + skip, path, number, err);
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
    bool is_picture;
    const char *name = foreign_format(h, &is_picture);

    if (name != NULL || is_picture_name(path))
        return error_set(err, INFER_EFORMAT, "%s: %s%sneither PNG nor JPEG",
                         path, name != NULL ? name : "", name ? ", " : "");
    return add_lines(list, f, path, false, err);
}

/* A file in a folder that is neither PNG nor JPEG: passed over, and counted if
 * it is a picture of another format.  One whose name alone promises a picture
 * stays in the list, so that the reader reports it. */
static int leave_out(struct tool_list *list, const struct head *h,
                     const char *path, struct infer_error *err)
{
    bool is_picture = false;
    const char *name = foreign_format(h, &is_picture);

    if (!is_picture)
        return is_picture_name(path) ? tool_list_append(list, path, err)
                                     : INFER_OK;
    if (list->left_out++ == 0 &&
        asprintf(&list->left_out_text, "%s: %s", path, name) < 0)
        list->left_out_text = NULL;
    return INFER_OK;
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
    if (S_ISFIFO(st.st_mode))
        return tool_list_append(list, path, err);
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
    else if (inside_folder)
        rc = leave_out(list, &head, path, err);
    else
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
