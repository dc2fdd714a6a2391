/* SPDX-License-Identifier: Apache-2.0 */
/* Class labels of a text file, for wconv and infer. */
#include "tools/labels.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/cli.h"
#include "weights/weights.h"

#define MAX_BYTES  ((uint64_t)16 << 20)
#define MAX_LABELS 100000

void labels_clear(struct labels *labels)
{
    while (labels->count > 0)
        free(labels->text[--labels->count]);
    free(labels->text);
    labels->text = NULL;
}

static bool is_text(const char *text, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' && !strchr("\t\r\n", text[i]))
            return false;
    return memchr(text, 0, bytes) == NULL && text_is_utf8(text, bytes);
}

/* Skips the WordNet id of "n01440764 tench, Tinca tinca". */
static size_t synset_length(const char *line, size_t length)
{
    size_t i;

    if (length < 10 || line[0] != 'n' || line[9] != ' ')
        return 0;
    for (i = 1; i <= 8; i++)
        if (!isdigit((unsigned char)line[i]))
            return 0;
    return 10;
}

/* Length of the line at `at`, which ends at LF or the end of the file; *next is
 * the start of the next line. */
static size_t line_length(const char *text, size_t bytes, size_t at,
                          size_t *next)
{
    const char *end = memchr(text + at, '\n', bytes - at);
    size_t length = end ? (size_t)(end - text) - at : bytes - at;

    *next = at + length + 1;
    if (length > 0 && text[at + length - 1] == '\r')
        length--;
    return length;
}

static int split(const char *text, size_t bytes, struct infer_error *err,
                 struct labels *out)
{
    bool blank = true;
    size_t at, next, skip, length, lines = 0;

    for (at = 0; at < bytes; at = next) {
        line_length(text, bytes, at, &next);
        lines++;
    }
    if (lines > MAX_LABELS)
        return error_set(err, INFER_EFORMAT, "%zu labels (at most %d)", lines,
                         MAX_LABELS);
    out->text = calloc(lines + 1, sizeof *out->text);
    for (at = 0; out->text && at < bytes; at = next) {
        length = line_length(text, bytes, at, &next);
        skip = synset_length(text + at, length);
        out->text[out->count] = strndup(text + at + skip, length - skip);
        if (!out->text[out->count])
            break;
        out->count++;
        blank = blank && length == 0;
    }
    if (!out->text || at < bytes)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return blank ? error_set(err, INFER_EFORMAT, "the file holds no labels")
                 : INFER_OK;
}

int labels_read(const char *path, struct infer_error *err, struct labels *out)
{
    static const char mark[] = "\xef\xbb\xbf"; /* byte order mark, UTF-8 */
    struct labels labels = {NULL, 0};
    struct weights_file file;
    const char *text;
    size_t bytes;
    int rc = weights_file_read(path, MAX_BYTES, err, &file);

    if (rc < 0)
        return rc;
    text = (const char *)file.blob->data;
    bytes = file.blob->bytes;
    if (!is_text(text, bytes)) {
        rc = error_set(err, INFER_EFORMAT, "labels are not UTF-8 text");
    } else {
        const size_t skip =
            bytes >= 3 && memcmp(text, mark, 3) == 0 ? (size_t)3 : 0;

        rc = split(text + skip, bytes - skip, err, &labels);
    }
    weights_file_close(&file);
    if (rc < 0) {
        labels_clear(&labels);
        error_prefix(err, "%s", path);
        return rc;
    }
    *out = labels;
    return INFER_OK;
}

/* ---- names --------------------------------------------------------- */

/* Letters without regard to case, "_" for " ". */
static bool same_word(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const char x = a[i] == '_' ? ' ' : a[i];
        const char y = b[i] == '_' ? ' ' : b[i];

        if (strncasecmp(&x, &y, 1) != 0)
            return false;
    }
    return a[length] == '\0';
}

/* The whole label, or one of its synonyms between commas. */
static bool is_label(const char *name, const char *label)
{
    const size_t length = strlen(name);

    for (const char *word = label; word != NULL;) {
        const char *comma = strchr(word, ',');
        const size_t n = comma ? (size_t)(comma - word) : strlen(word);

        if (n == length && same_word(name, word, n))
            return true;
        word = comma ? comma + 1 + strspn(comma + 1, " ") : NULL;
    }
    return strlen(label) == length && same_word(name, label, length);
}

int64_t labels_class(const char *name,
                     const char *(*label)(const void *user, int i),
                     const void *user, int n)
{
    int64_t number;

    for (int i = 0; i < n; i++)
        if (strcmp(label(user, i), name) == 0)
            return i;
    for (int i = 0; i < n; i++)
        if (is_label(name, label(user, i)))
            return i;
    return cli_int(name, 0, INT32_MAX, &number) ? number : -1;
}
