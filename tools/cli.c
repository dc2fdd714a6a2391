/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, standard streams and progress of the command lines. */
#include "tools/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/text.h"

const char *const cli_tune_words[] = {"off", "on", "exhaustive", NULL};

enum cli_exit cli_exit_of(int rc)
{
    switch (rc) {
    case INFER_OK:
        return CLI_OK;
    case INFER_EARGUMENT:
        return CLI_USAGE;
    case INFER_EMISMATCH:
        return CLI_MISMATCH;
    case INFER_EDEVICE:
        return CLI_DEVICE;
    default:
        return CLI_BAD_MODEL;
    }
}

/* ---- messages ------------------------------------------------------ */

static void print_lines(const struct cli *cli, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        fprintf(stderr, "%s: %.*s\n", cli->tool, (int)length, text);
        text += length;
        if (*text == '\n')
            text++;
    }
}

void cli_error(const struct cli *cli, const char *fmt, ...)
{
    char raw[2048], text[4 * sizeof(raw) + 1];
    va_list args;

    cli_progress_end(cli);
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);
    text_escape_message(text, sizeof(text), fmt, raw);
    print_lines(cli, text);
}

int cli_bad_value(const struct cli *cli, const char *option, const char *value,
                  const char *wanted)
{
    cli_error(cli, "--%s takes %s, not '%s'", option, wanted, value);
    return -1;
}

enum cli_exit cli_fail(const struct cli *cli, const struct infer_error *err)
{
    cli_progress_end(cli);
    print_lines(cli, err->text[0] != '\0' ? err->text
                                          : infer_status_name(err->code));
    return cli_exit_of(err->code);
}

/* Writes newlines within names as \x0A where fmt makes at most one line.  Each
 * of them takes four characters instead of one. */
static void escape_newlines(const char *fmt, char *text)
{
    const size_t length = strlen(text), inner = strcspn(fmt, "\n");
    const bool ends = fmt[inner] == '\n';
    size_t n = 0, i;

    if (ends && fmt[inner + 1] != '\0')
        return; /* several lines are intended */
    for (i = 0; i < length; i++)
        n += text[i] == '\n' && !(ends && i + 1 == length);
    for (i = length; n > 0 && i-- > 0;) {
        const bool last = ends && i + 1 == length;

        if (text[i] == '\n' && !last) {
            n--;
            memcpy(text + i + 3 * n, "\\x0A", 4);
        } else {
            text[i + 3 * n] = text[i];
        }
    }
}

/* Whether a line of the result could not be made. */
static atomic_bool output_lost;

void cli_lose_output(void)
{
    atomic_store(&output_lost, true);
}

void cli_print(const char *fmt, ...)
{
    char *raw = NULL, *safe = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0) {
        raw = malloc((size_t)n + 1);
        safe = calloc(4 * (size_t)n + 1, 1);
    }
    if (raw == NULL || safe == NULL) {
        cli_lose_output();
    } else {
        va_start(args, fmt);
        vsnprintf(raw, (size_t)n + 1, fmt, args);
        va_end(args);
        text_escape(safe, 4 * (size_t)n + 1, raw);
        escape_newlines(fmt, safe);
        fputs(safe, stdout);
    }
    free(raw);
    free(safe);
}

void cli_verbose(const struct cli *cli, const char *fmt, ...)
{
    char raw[2048], text[4 * sizeof(raw) + 1];
    va_list args;

    if (cli->verbosity < 1)
        return;
    va_start(args, fmt);
    vsnprintf(raw, sizeof(raw), fmt, args);
    va_end(args);
    text_escape_message(text, sizeof(text), fmt, raw);
    fprintf(stderr, "%s\n", text);
}

/* ---- the standard streams ------------------------------------------ */

/* cJSON drops members that it cannot allocate without a word. */
static void *json_malloc(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL)
        cli_lose_output();
    return memory;
}

/* Standard output that was closed takes nothing: a write to it fails.  Messages
 * to a closed standard error go nowhere. */
static bool open_streams(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    return true;
}

int cli_main(const char *tool, int argc, char **argv,
             int (*body)(int argc, char **argv))
{
    cJSON_Hooks hooks = {.malloc_fn = json_malloc, .free_fn = free};
    int code;

    if (!open_streams())
        return CLI_DEVICE;
    cJSON_InitHooks(&hooks);
    code = body(argc, argv);
    if (code == CLI_OK && atomic_load(&output_lost)) {
        fprintf(stderr, "%s: out of memory: a part of the output is missing\n",
                tool);
        code = CLI_BAD_MODEL;
    }
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: standard output: %s\n", tool,
                errno ? strerror(errno)
                      : "the file could not be written in full");
        if (code == CLI_OK)
            code = CLI_BAD_MODEL;
    }
    return code;
}

/* ---- progress ------------------------------------------------------ */

#define BAR_WIDTH     30
#define BAR_INTERVAL  0.1 /* seconds between redraws on a terminal */
#define LINE_INTERVAL 5.0 /* seconds between lines elsewhere */

static double last_shown;
static bool bar_shown;

void cli_progress(const struct cli *cli, const char *what, uint64_t done,
                  uint64_t total)
{
    bool terminal = isatty(STDERR_FILENO);
    double now = cli_now();
    int filled;

    if (cli->verbosity < 0)
        return;
    if (last_shown == 0)
        last_shown = now; /* short work shows nothing */
    if (now - last_shown < (terminal ? BAR_INTERVAL : LINE_INTERVAL))
        return;
    last_shown = now;
    if (!terminal) {
        fprintf(stderr, "%s: %s %" PRIu64 "/%" PRIu64 "\n", cli->tool, what,
                done, total);
        return;
    }
    filled = total > 0 ? (int)(BAR_WIDTH * (double)done / (double)total) : 0;
    if (filled > BAR_WIDTH)
        filled = BAR_WIDTH;
    fprintf(stderr, "\r\033[K%-12s [%.*s%*s] %3.0f%%", what, filled,
            "##############################", BAR_WIDTH - filled, "",
            total > 0 ? 100.0 * (double)done / (double)total : 0.0);
    fflush(stderr);
    bar_shown = true;
}

void cli_progress_end(const struct cli *cli)
{
    (void)cli;
    if (bar_shown)
        fprintf(stderr, "\r\033[K");
    bar_shown = false;
    last_shown = 0;
}

/* ---- the rest ------------------------------------------------------ */

bool cli_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;

    return a != NULL && b != NULL && stat(a, &of_a) == 0 &&
           stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* Folder of a file; NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? strdup(".")
                         : strndup(path, (size_t)(slash - path) + 1);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

bool cli_same_target(const char *a, const char *b)
{
    char *of_a, *of_b;
    bool same;

    if (a == NULL || b == NULL)
        return false;
    if (cli_same_file(a, b))
        return true;
    of_a = folder_of(a);
    of_b = folder_of(b);
    same = strcmp(last_part(a), last_part(b)) == 0 && cli_same_file(of_a, of_b);
    free(of_a);
    free(of_b);
    return same;
}

double cli_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cli_random(uint64_t *state)
{
    uint64_t x = *state ? *state : 0x9e3779b97f4a7c15u;

    /* Vigna, "An experimental exploration of Marsaglia's xorshift
     * generators, scrambled", 2016: xorshift64*. */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    x *= 0x2545f4914f6cdd1du;
    return (double)(x >> 11) * 0x1p-52 - 1.0;
}
