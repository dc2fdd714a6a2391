/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command line: parsing, --help, what a wrong one is told. */
#include "tools/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 96

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
        else if (o->kind == CLI_TEXT)
            wanted = "the name of a file or folder";
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

/* True where --help shows that the value is a file or a folder. */
static bool is_path(const struct cli_option *o)
{
    return strncmp(o->value, "FILE", 4) == 0 ||
           strncmp(o->value, "DIR", 3) == 0 ||
           strncmp(o->value, "FOLDER", 6) == 0;
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
        if (value != NULL && *value == '\0' && !o->empty && is_path(o))
            return CLI_BAD;
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
