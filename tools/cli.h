/* SPDX-License-Identifier: Apache-2.0 */
/* What the command lines of all tools share: options from a table, values with
 * units, messages, progress, exit codes. */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "include/infer.h"
#include "kernels/base/file_write.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 1,
    CLI_BAD_MODEL = 2, /* bad or unsupported input */
    CLI_MISMATCH = 3,  /* verification failed */
    CLI_DEVICE = 4     /* device or library */
};

/* Exit code of a library status. */
enum cli_exit cli_exit_of(int status);

struct cli;

/* What an option's value is, and what cli_parse() does with it. */
enum cli_kind {
    CLI_FLAG,   /* no value: stores `store`, or 1 where that is 0 */
    CLI_TEXT,   /* stores the text; NULL where an optional value is absent; a
                 * file or folder ("FILE...", "DIR...") has a name */
    CLI_INT,    /* a whole number from min to max */
    CLI_REAL,   /* a number or fraction from min to max; NaN is refused */
    CLI_AMOUNT, /* a number or fraction from 0 */
    CLI_BYTES,  /* at least min: 4096, 500M, 1.5G; K, M, G, T of 1024 */
    CLI_TIME,   /* seconds: 200ms, 3s, 1m, 0.5 */
    CLI_WORD,   /* stores the index among `words` */
    CLI_WORDS,  /* for each word of a list sets the bool at its index among
                 * `words`, which is at least min */
    CLI_SET,    /* calls set() */
    CLI_EACH    /* calls set() for each word of a comma-separated list */
};

/* Result of set() for an unacceptable value: cli_parse() prints "--name takes
 * WANTED, not 'value'". */
#define CLI_BAD (-2)

/* One option, bound to the field that it fills.  Values are always written
 * --name=VALUE or --name VALUE; an option with optional value takes it only
 * after '='.  The field is a bool or int (CLI_FLAG), const char * (CLI_TEXT),
 * uint8_t, int or int64_t (CLI_INT), int64_t (CLI_BYTES), float or double
 * (CLI_REAL), double (CLI_AMOUNT, CLI_TIME), int or an enumeration (CLI_WORD).
 */
struct cli_option {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* 0: none */
    enum cli_kind kind;
    const char *value;   /* how --help shows the value: "FILE"; NULL: none */
    const char *help;    /* one line */
    size_t offset, size; /* of the field; size 0: none */
    size_t given;        /* offset of a bool that becomes true; 0: none */
    double min, max;
    int store;
    bool optional; /* the value may be absent */
    bool empty;    /* CLI_TEXT of a file or folder: "" means none */
    const char *const *words;
    const char *wanted; /* for messages; NULL: from the kind and its limits */
    /* Returns 0, 1 to end the program, CLI_BAD, or -1 after printing. */
    int (*set)(struct cli *cli, const struct cli_option *o, const char *value,
               void *user);
};

/* offset and size of a member. */
#define CLI_FIELD(type, member)                                                \
    .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Body of every main(): runs body and returns its exit code.  Closed standard
 * streams are opened to /dev/null, so that no output file takes their number.
 * A failed write to standard output is an error, also where it was closed, and
 * so is a line or a member of a JSON document that there was no memory for. */
int cli_main(const char *tool, int argc, char **argv,
             int (*body)(int argc, char **argv));

/* State that every tool has. */
struct cli {
    const char *tool;  /* "wconv" */
    const char *usage; /* text above the options in --help */
    const struct cli_option *option;
    int verbosity; /* -1 quiet, 0, 1 verbose */
    bool json;
    uint64_t seed;
};

/* Parses argv[1..] into `user`, the struct of the table's fields: options may
 * stand anywhere before "--".  The options that all tools have (-h -v -q
 * --version --json --seed) are added to the table.  Positional arguments are
 * moved to the front of argv; *count is their number.  Returns 0 to go on, 1
 * when --help or --version was printed, -1 after a usage error was printed. */
int cli_parse(struct cli *cli, int argc, char **argv, void *user, int *count);

/* "tool: text" on standard error, safe for a terminal. */
void cli_error(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "--option takes WANTED, not 'value'"; returns -1. */
int cli_bad_value(const struct cli *cli, const char *option, const char *value,
                  const char *wanted);
/* Prints each line of err->text after "tool: "; returns the exit code. */
enum cli_exit cli_fail(const struct cli *cli, const struct infer_error *err);
/* printf() for text with names from files: writes control characters and
 * malformed UTF-8 as \xNN. */
void cli_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Makes cli_main() fail: a part of the output is lost. */
void cli_lose_output(void);
/* A line on standard error, only with -v, safe for a terminal. */
void cli_verbose(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Values.  Each returns false, and prints nothing, for a malformed value. */
bool cli_int(const char *text, int64_t min, int64_t max, int64_t *out);
bool cli_double(const char *text, double *out); /* also fractions: 1/255 */
/* Bytes, see CLI_BYTES. */
bool cli_size(const char *text, int64_t *out);
bool cli_seconds(const char *text, double *out); /* 200ms, 3s, 1m, 0.5 */
/* Comma-separated numbers; returns how many, or -1. */
int cli_doubles(const char *text, double *out, int capacity);
/* "name:1x3x224x224", "[1,3,224,224]", "name:[1,3,...]" or no name.  *name is
 * NULL or to be freed. */
bool cli_shape(const char *text, char **name, int *rank, int64_t *dim);
/* Index of text among NULL-terminated words, or -1. */
int cli_word(const char *text, const char *const *words);
/* The word nearest to text (edit distance at most a third), or NULL. */
const char *cli_nearest(const char *text, const char *const *words);

/* Values of --tune, in the order of enum tune_mode. */
extern const char *const cli_tune_words[];

/* Human-readable bytes: "97.5 MiB".  Returns buf. */
const char *cli_bytes(double bytes, char *buf, size_t size);

/* A progress bar on a terminal (standard error), a line every few seconds
 * elsewhere, nothing with -q.  done and total count the same unit; total may be
 * 0. */
void cli_progress(const struct cli *cli, const char *what, uint64_t done,
                  uint64_t total);
/* Removes the bar. */
void cli_progress_end(const struct cli *cli);

/* JSON text, indented or compact, always valid UTF-8; to be freed.  NULL when
 * out of memory. */
char *cli_json_text(const cJSON *json, bool compact);
/* Writes the lines of a page, with the JSON in place of the line "@REPORT@". */
void cli_put_page(FILE *f, const char *const *line, size_t lines,
                  const cJSON *json);
/* Writes n parts to a file, atomically if it is a regular file; pipes and
 * devices are written in place. */
int cli_write_file(const char *path, const struct file_part *part, int n,
                   struct infer_error *err);
/* Checks that the path can be written, without writing.  NULL and "-" can. */
int cli_try_file(const char *path, struct infer_error *err);
/* Both delete the document: to standard output, and to a file. */
void cli_print_json(cJSON *json, bool compact);
int cli_write_json(const char *path, cJSON *json, bool compact,
                   struct infer_error *err);

/* True if both paths exist and name the same file; NULL names none. */
bool cli_same_file(const char *a, const char *b);
/* The same for output files, which need not exist yet. */
bool cli_same_target(const char *a, const char *b);

/* Monotonic clock in seconds. */
double cli_now(void);

/* xorshift64* numbers, uniform in [-1, 1). */
double cli_random(uint64_t *state);

#endif
