/* SPDX-License-Identifier: Apache-2.0 */
/* Options, messages, values and progress of the command lines. */
#include "tools/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/text.h"

#define MAX_OPTIONS 96

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
    text_escape(text, sizeof(text), raw);
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
    text_escape(text, sizeof(text), raw);
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

/* ---- parsing ------------------------------------------------------- */

static void print_help(const struct cli *cli);

static int show_help(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    (void)o, (void)value, (void)user;
    print_help(cli);
    return 1;
}

static int show_version(struct cli *cli, const struct cli_option *o,
                        const char *value, void *user)
{
    (void)o, (void)value, (void)user;
    printf("%s (libinfer) %s\n", cli->tool, infer_version());
    return 1;
}

static int set_seed(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    int64_t seed;

    (void)o, (void)user;
    if (!cli_int(value, 0, INT64_MAX, &seed))
        return CLI_BAD;
    cli->seed = (uint64_t)seed;
    return 0;
}

/* The options of every tool: fields of struct cli. */
static const struct cli_option common[] = {
    {"help", 'h', CLI_SET, NULL, "show this text", .set = show_help},
    {"version", 0, CLI_SET, NULL, "show the version", .set = show_version},
    {"verbose", 'v', CLI_FLAG, NULL, "say more",
     CLI_FIELD(struct cli, verbosity)},
    {"quiet", 'q', CLI_FLAG, NULL, "say only what goes wrong",
     CLI_FIELD(struct cli, verbosity), .store = -1},
    {"json", 0, CLI_FLAG, NULL, "results as JSON", CLI_FIELD(struct cli, json)},
    {"seed", 0, CLI_SET, "N", "seed of random inputs (1)",
     .wanted = "a number from 0", .set = set_seed},
};
#define COMMON (sizeof(common) / sizeof(*common))

/* Columns of --help: the options', and all. */
#define HELP_LEFT  32
#define HELP_WIDTH 79

/* The words of a text from column HELP_LEFT on, in as many lines as it takes.
 */
static void print_words(const char *text)
{
    int column = HELP_LEFT;

    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");

        if (column > HELP_LEFT && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", HELP_LEFT, "");
            column = HELP_LEFT;
        }
        column += printf("%s%.*s", column > HELP_LEFT ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const struct cli_option *o)
{
    char left[64];
    int column;
    const char *before = o->optional ? "[=" : "=";
    const char *after = o->optional ? "]" : "";

    snprintf(left, sizeof(left), "%c%c%s --%s%s%s%s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
             o->value ? before : "", o->value ? o->value : "",
             o->value ? after : "");
    column = printf("  %s ", left);
    if (column > HELP_LEFT) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", HELP_LEFT - column, "");
    print_words(o->help);
}

/* An option of the tool hides a common option of the same name. */
static bool has_option(const struct cli *cli, const char *name)
{
    const struct cli_option *o;

    for (o = cli->option; o->name != NULL; o++)
        if (strcmp(o->name, name) == 0)
            return true;
    return false;
}

static void print_help(const struct cli *cli)
{
    const struct cli_option *o;
    size_t i;

    fputs(cli->usage, stdout);
    printf("\nOptions:\n");
    for (o = cli->option; o->name != NULL; o++)
        print_option(o);
    for (i = 0; i < COMMON; i++)
        if (!has_option(cli, common[i].name))
            print_option(&common[i]);
}

/* The option table for getopt_long(). */
struct getopt_table {
    const struct cli_option *all[MAX_OPTIONS];
    struct option longs[MAX_OPTIONS + 1];
    char shorts[2 * MAX_OPTIONS + 2];
    const char *names[MAX_OPTIONS + 1];
    int count;
};

static void table_add(struct getopt_table *t, const struct cli_option *o)
{
    size_t used = strlen(t->shorts);

    if (t->count == MAX_OPTIONS)
        return;
    t->all[t->count] = o;
    t->names[t->count] = o->name;
    t->longs[t->count] =
        (struct option){o->name,
                        o->value == NULL ? no_argument
                                         : (o->optional ? optional_argument
                                                        : required_argument),
                        NULL, 256 + t->count};
    if (o->letter) {
        t->shorts[used++] = o->letter;
        if (o->value != NULL && !o->optional)
            t->shorts[used++] = ':';
        t->shorts[used] = '\0';
    }
    t->count++;
}

static void table_fill(struct getopt_table *t, const struct cli *cli)
{
    const struct cli_option *o;
    size_t i;

    memset(t, 0, sizeof(*t));
    t->shorts[0] = ':'; /* tell a missing value from an unknown option */
    for (o = cli->option; o->name != NULL; o++)
        table_add(t, o);
    for (i = 0; i < COMMON; i++)
        if (!has_option(cli, common[i].name))
            table_add(t, &common[i]);
}

static const struct cli_option *table_find(const struct getopt_table *t,
                                           int code)
{
    int i;

    if (code >= 256)
        return t->all[code - 256];
    for (i = 0; i < t->count; i++)
        if (t->all[i]->letter == code)
            return t->all[i];
    return NULL;
}

static int unknown_option(const struct cli *cli, const struct getopt_table *t,
                          const char *word)
{
    const char *nearest = NULL;
    char name[64];

    if (word[0] == '-' && word[1] == '-') {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="),
                 word + 2);
        nearest = cli_nearest(name, t->names);
    }
    if (nearest != NULL)
        cli_error(cli, "unknown option '%s', did you mean '--%s'?", word,
                  nearest);
    else
        cli_error(cli, "unknown option '%s' (see --help)", word);
    return -1;
}

/* "auto, ref or cuda".  Returns buf. */
static const char *list_words(const char *const *words, char *buf, size_t size)
{
    size_t used = 0;
    int i;

    for (i = 0; words[i] != NULL && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : words[i + 1] == NULL ? " or "
                                                        : ", ",
                                 words[i]);
    return buf;
}

static int bad_value(const struct cli *cli, const struct cli_option *o,
                     const char *value)
{
    const char *wanted = o->wanted;
    char text[256] = "";

    if (wanted == NULL) {
        wanted = text;
        if (o->kind == CLI_WORD)
            list_words(o->words, text, sizeof(text));
        else if (o->kind == CLI_INT)
            snprintf(text, sizeof(text), "a number from %lld to %lld",
                     (long long)o->min, (long long)o->max);
        else if (o->kind == CLI_REAL)
            snprintf(text, sizeof(text), "a number from %g to %g", o->min,
                     o->max);
        else if (o->kind == CLI_AMOUNT)
            wanted = "a number from 0";
        else if (o->kind == CLI_BYTES)
            wanted = "bytes such as 1073741824, 500M or 1.5G";
        else
            wanted = "a time such as 2s";
    }
    return cli_bad_value(cli, o->name, value, wanted);
}

static void store_int(void *field, size_t size, int64_t value)
{
    const int whole = (int)value;
    const uint8_t byte = (uint8_t)value;

    if (size == sizeof(value))
        memcpy(field, &value, size);
    else if (size == sizeof(whole))
        memcpy(field, &whole, size);
    else
        memcpy(field, &byte, size);
}

static void store_real(void *field, size_t size, double value)
{
    const float single = (float)value;

    if (size == sizeof(value))
        memcpy(field, &value, size);
    else
        memcpy(field, &single, size);
}

static int set_word(const struct cli_option *o, const char *word, void *user)
{
    const int i = cli_word(word, o->words);

    if (i < (int)o->min)
        return CLI_BAD;
    ((bool *)((char *)user + o->offset))[i] = true;
    return 0;
}

static int each_word(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    char word[64];
    int rc;

    for (;;) {
        const size_t n = strcspn(value, ",");

        if (n == 0 || n >= sizeof(word))
            return bad_value(cli, o, value);
        memcpy(word, value, n);
        word[n] = '\0';
        rc = o->kind == CLI_WORDS ? set_word(o, word, user)
                                  : o->set(cli, o, word, user);
        if (rc != 0)
            return rc == CLI_BAD ? bad_value(cli, o, word) : rc;
        if (value[n] == '\0')
            return 0;
        value += n + 1;
    }
}

/* Stores the value in the option's field of *base: 0, or as set(). */
static int store_value(struct cli *cli, const struct cli_option *o,
                       const char *value, void *base)
{
    void *field = (char *)base + o->offset;
    int64_t whole = 0;
    double real = 0;

    switch (o->kind) {
    case CLI_FLAG:
        store_int(field, o->size, o->store != 0 ? o->store : 1);
        return 0;
    case CLI_TEXT:
        memcpy(field, &value, sizeof(value));
        return 0;
    case CLI_INT:
        if (!cli_int(value, (int64_t)o->min, (int64_t)o->max, &whole))
            return CLI_BAD;
        store_int(field, o->size, whole);
        return 0;
    case CLI_REAL: /* written so that NaN fails */
        if (!cli_double(value, &real) || !(real >= o->min && real <= o->max))
            return CLI_BAD;
        store_real(field, o->size, real);
        return 0;
    case CLI_AMOUNT:
        if (!cli_double(value, &real) || real < 0)
            return CLI_BAD;
        store_real(field, o->size, real);
        return 0;
    case CLI_BYTES:
        if (!cli_size(value, &whole) || (double)whole < o->min)
            return CLI_BAD;
        store_int(field, o->size, whole);
        return 0;
    case CLI_TIME:
        if (!cli_seconds(value, &real))
            return CLI_BAD;
        store_real(field, o->size, real);
        return 0;
    case CLI_WORD:
        whole = cli_word(value, o->words);
        if (whole < 0)
            return CLI_BAD;
        store_int(field, o->size, whole);
        return 0;
    case CLI_SET:
        return o->set(cli, o, value, base);
    case CLI_WORDS:
    case CLI_EACH:
        return each_word(cli, o, value, base);
    }
    return -1;
}

static int take_option(struct cli *cli, const struct cli_option *o,
                       const char *value, void *user)
{
    const bool shared = o >= common && o < common + COMMON;
    const int rc = store_value(cli, o, value, shared ? cli : user);
    const bool given = true;

    if (rc == CLI_BAD)
        return bad_value(cli, o, value);
    if (o->given != 0)
        memcpy((char *)user + o->given, &given, sizeof(given));
    return rc;
}

int cli_parse(struct cli *cli, int argc, char **argv, void *user, int *count)
{
    struct getopt_table table;
    int code, i, rc;

    cli->seed = 1;
    table_fill(&table, cli);
    opterr = 0;
    optind = 0; /* a tool may parse again after a subcommand */
    while ((code = getopt_long(argc, argv, table.shorts, table.longs, NULL)) !=
           -1) {
        if (code == ':') {
            cli_error(cli, "option '%s' needs a value", argv[optind - 1]);
            return -1;
        }
        if (code == '?' && optopt >= 256) {
            cli_error(cli, "option '%s' takes no value", argv[optind - 1]);
            return -1;
        }
        if (code == '?') {
            char letter[3] = {'-', (char)optopt, '\0'};

            return unknown_option(cli, &table,
                                  optopt ? letter : argv[optind - 1]);
        }
        rc = take_option(cli, table_find(&table, code), optarg, user);
        if (rc != 0)
            return rc;
    }
    *count = argc - optind;
    for (i = 0; i < *count; i++)
        argv[i] = argv[optind + i];
    return 0;
}

/* ---- values -------------------------------------------------------- */

bool cli_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* True for "M" and "MiB" where unit is "M". */
static bool unit_is(const char *text, const char *unit)
{
    const size_t length = strlen(unit);

    return strncmp(text, unit, length) == 0 &&
           (text[length] == '\0' ||
            (length > 0 && strcmp(text + length, "iB") == 0));
}

bool cli_size(const char *text, int64_t *out)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;
    double value = strtod(text, &end);

    if (cli_int(text, 0, INT64_MAX, out))
        return true;
    if (end == text || !(value >= 0))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++, value *= 1024)
        if (unit_is(end, units[i]) && value < 9e18) {
            *out = (int64_t)value;
            return true;
        }
    return false;
}

bool cli_double(const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text)
        return false;
    if (*end == '/') {
        const char *below = end + 1;
        double divisor = strtod(below, &end);

        if (end == below || divisor == 0)
            return false;
        value /= divisor;
    }
    if (*end != '\0' || !isfinite(value))
        return false;
    *out = value;
    return true;
}

bool cli_seconds(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"", 1}, {"m", 60}};
    char *end;
    double value = strtod(text, &end);
    size_t i;

    if (end == text || !isfinite(value) || value < 0)
        return false;
    for (i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *out = value * units[i].seconds;
            return isfinite(*out);
        }
    return false;
}

int cli_doubles(const char *text, double *out, int capacity)
{
    char word[64];
    int n = 0;

    for (;;) {
        size_t length = strcspn(text, ",");

        if (n == capacity || length >= sizeof(word))
            return -1;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!cli_double(word, &out[n++]))
            return -1;
        if (text[length] == '\0')
            return n;
        text += length + 1;
    }
}

bool cli_shape(const char *text, char **name, int *rank, int64_t *dim)
{
    const char *colon = strrchr(text, ':');
    const char *s = colon != NULL ? colon + 1 : text;
    bool bracket = *s == '[';
    int n = 0;

    *name = NULL;
    if (bracket)
        s++;
    for (;;) {
        char *end;
        long long value;

        errno = 0;
        value = strtoll(s, &end, 10);
        if (end == s || errno != 0 || n == INFER_MAX_RANK || value == 0 ||
            value < -1)
            return false;
        dim[n++] = value;
        s = end;
        if (*s != (bracket ? ',' : 'x'))
            break;
        s++;
    }
    if (bracket && *s++ != ']')
        return false;
    if (*s != '\0')
        return false;
    *rank = n;
    if (colon != NULL && colon > text) {
        *name = strndup(text, (size_t)(colon - text));
        return *name != NULL;
    }
    return true;
}

int cli_word(const char *text, const char *const *words)
{
    int i;

    for (i = 0; words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return -1;
}

const char *cli_nearest(const char *text, const char *const *words)
{
    size_t limit = strlen(text) / 3 + 1, best = limit + 1;
    const char *nearest = NULL;
    int i;

    for (i = 0; words[i] != NULL; i++) {
        size_t distance = text_distance(text, words[i]);

        if (distance < best) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

const char *cli_bytes(double bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;

    while (bytes >= 1024 && i < 4) {
        bytes /= 1024;
        i++;
    }
    snprintf(buf, size, i == 0 ? "%.0f %s" : "%.1f %s", bytes, units[i]);
    return buf;
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
