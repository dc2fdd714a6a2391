/* SPDX-License-Identifier: Apache-2.0 */
/* Files and JSON that the tools write.  Names of files and tensors
 * come from anywhere, and JSON is UTF-8: what is not is written as \xNN, as
 * messages write it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/cli.h"

/* Copy of the text in which each byte that is not UTF-8 becomes "\\xNN", JSON
 * for \xNN; to be freed. */
static char *make_utf8(const char *text)
{
    size_t left = strlen(text), used = 0, n;
    char *out = malloc(5 * left + 1);
    uint32_t code;

    for (; out != NULL && left > 0; text += n, left -= n) {
        n = text_utf8(text, left, &code);
        if (n == 0) {
            used += (size_t)sprintf(out + used, "\\\\x%02X",
                                    (unsigned)(unsigned char)*text);
            n = 1;
        } else {
            memcpy(out + used, text, n);
            used += n;
        }
    }
    if (out != NULL)
        out[used] = '\0';
    return out;
}

char *cli_json_text(const cJSON *json, bool compact)
{
    char *raw = compact ? cJSON_PrintUnformatted(json) : cJSON_Print(json);
    char *text = NULL;

    if (raw != NULL)
        text = text_is_utf8(raw, strlen(raw)) ? strdup(raw) : make_utf8(raw);
    cJSON_free(raw);
    return text;
}

/* Escapes '<', so that no text of the JSON ends its element. */
void cli_put_page(FILE *f, const char *const *line, size_t lines,
                  const cJSON *json)
{
    char *text = cli_json_text(json, true);

    if (text == NULL)
        cli_lose_output();
    for (size_t i = 0; i < lines; i++) {
        if (strcmp(line[i], "@REPORT@\n") != 0) {
            fputs(line[i], f);
            continue;
        }
        for (const char *at = text; at && *at; at++)
            if (*at == '<')
                fputs("\\u003c", f);
            else
                fputc(*at, f);
        fputc('\n', f);
    }
    free(text);
}

/* ---- files --------------------------------------------------------- */

static bool write_stream(int fd, const struct file_part *part, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        const unsigned char *from = part[i].data;
        size_t left = part[i].bytes;

        while (left > 0) {
            const ssize_t done = write(fd, from, left);

            if (done < 0 && errno == EINTR)
                continue;
            if (done < 0)
                return false;
            from += done;
            left -= (size_t)done;
        }
    }
    return true;
}

/* Descriptor of the standard stream that the path names (/dev/stdout), or
 * -1. */
static int stream_of(const struct stat *st)
{
    struct stat of;
    int fd;

    for (fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &of) == 0 && of.st_dev == st->st_dev &&
            of.st_ino == st->st_ino)
            return fd;
    return -1;
}

int cli_write_file(const char *path, const struct file_part *part, int n,
                   struct infer_error *err)
{
    struct stat st;
    bool good;
    int fd;

    if (stat(path, &st) < 0)
        return file_replace(path, part, n, false, err);
    fd = stream_of(&st);
    if (fd < 0 && S_ISREG(st.st_mode))
        return file_replace(path, part, n, false, err);
    fflush(stdout);
    fd = fd < 0 ? open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC) : dup(fd);
    good = fd >= 0 && write_stream(fd, part, n);
    if (!good)
        error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good ? INFER_OK : INFER_EIO;
}

int cli_try_file(const char *path, struct infer_error *err)
{
    struct file_writer w;
    struct stat st;
    int rc;

    if (path == NULL || strcmp(path, "-") == 0)
        return INFER_OK;
    if (stat(path, &st) == 0 && (stream_of(&st) >= 0 || !S_ISREG(st.st_mode)))
        return S_ISDIR(st.st_mode)
                   ? error_set(err, INFER_EIO, "%s: %s", path, strerror(EISDIR))
                   : INFER_OK;
    rc = file_writer_open(path, err, &w);
    if (rc == INFER_OK)
        file_writer_abort(&w);
    return rc;
}

int cli_write_json(const char *path, cJSON *json, bool compact,
                   struct infer_error *err)
{
    char *text = cli_json_text(json, compact);
    int rc;

    cJSON_Delete(json);
    if (text == NULL)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    rc = cli_write_file(
        path, (const struct file_part[]){{text, strlen(text)}, {"\n", 1}}, 2,
        err);
    free(text);
    return rc;
}

void cli_print_json(cJSON *json, bool compact)
{
    char *text = cli_json_text(json, compact);

    if (text != NULL)
        puts(text);
    else
        cli_lose_output();
    free(text);
    cJSON_Delete(json);
}
