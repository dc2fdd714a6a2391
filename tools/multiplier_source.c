/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipliers given as C functions.  The file is compiled together with a
 * main() that prints the product of every pair of operands; the program runs as
 * a process of its own, so that the function is never part of this one.  Files
 * lie in a new folder of TMPDIR, or of /tmp, and are removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "kernels/base/product_table.h"
#include "libinfer/graph/constant.h"
#include "tools/multiplier_source.h"

#define MAX_SOURCE ((uint64_t)1 << 20)
#define MAX_TABLE  ((uint64_t)256 << 20) /* bytes of text */
#define LIMIT      "60"                  /* seconds of the program's CPU time */

extern char **environ;

static const char generator[] =
    "#include <stdio.h>\n"
    "#include <string.h>\n"
    "extern const char multiplier_kind[];\n"
    "extern const int multiplier_bits;\n"
    "extern double multiplier_product(double, double);\n"
    "static double operand(int i)\n"
    "{\n"
    "    const int n = 1 << multiplier_bits;\n"
    "    if (strcmp(multiplier_kind, \"float\") == 0)\n"
    "        return 1 + (double)i / n;\n"
    "    return strcmp(multiplier_kind, \"signed\") == 0 && i >= n / 2\n"
    "               ? i - n : i;\n"
    "}\n"
    "int main(void)\n"
    "{\n"
    "    const int most = strcmp(multiplier_kind, \"float\") == 0 ? 11 : 8;\n"
    "    printf(\"%s %d\\n\", multiplier_kind, multiplier_bits);\n"
    "    if (multiplier_bits < 1 || multiplier_bits > most)\n"
    "        return 0;\n"
    "    for (int a = 0; a < 1 << multiplier_bits; a++)\n"
    "        for (int b = 0; b < 1 << multiplier_bits; b++)\n"
    "            printf(\"%.17g\\n\",\n"
    "                   multiplier_product(operand(a), operand(b)));\n"
    "    return ferror(stdout) || fflush(stdout);\n"
    "}\n";

/* ---- processes ----------------------------------------------------- */

static char *word(const char *text)
{
    return (char *)(uintptr_t)text; /* posix_spawn() changes nothing */
}

/* Runs a program, its standard output going to a file, or where ours goes.
 * what: for messages. */
static int run(const char *what, char *const *argument, const char *output,
               struct infer_error *err)
{
    posix_spawn_file_actions_t actions;
    int status = 0;
    pid_t pid;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc == 0 && output)
        rc = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output,
                                              O_WRONLY | O_CREAT | O_TRUNC,
                                              0600);
    if (rc == 0) {
        rc = posix_spawnp(&pid, argument[0], &actions, NULL, argument, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (rc != 0)
        return error_set(err, INFER_EIO, "%s: %s: %s", what, argument[0],
                         strerror(rc));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(err, INFER_EIO, "%s: %s", what, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status))
        return error_set(err, INFER_EIO, "%s: %s ends with status %d", what,
                         argument[0], WEXITSTATUS(status));
    return error_set(err, INFER_EIO, "%s: %s ends by signal %d", what,
                     argument[0], WTERMSIG(status));
}

/* ---- what the program prints --------------------------------------- */

/* The next number of a text; false if there is none. */
static bool next_number(const char **text, double *out)
{
    char *end;

    *out = strtod(*text, &end);
    if (end == *text)
        return false;
    *text = end;
    return true;
}

/* An entry of a product; false if it is no product. */
static bool entry_of(const struct multiplier *m, double v, int32_t *out)
{
    if (m->kind == MULTIPLIER_INTEGER) {
        if (!(fabs(v) <= 65536) || v != floor(v))
            return false;
        *out = (int32_t)v;
        return true;
    }
    if (!(v >= 1 && v < 4))
        return false;
    const double fraction = v < 2 ? v - 1 : v / 2 - 1;
    *out = (int32_t)((v < 2 ? 0 : UINT32_C(1) << 23) |
                     (uint32_t)(fraction * (1 << 23)));
    return true;
}

static int read_entries(const char *path, const char *text,
                        struct multiplier *m, struct infer_error *err)
{
    const size_t side = (size_t)1 << m->bits;
    double v;

    for (size_t i = 0; i < multiplier_entries(m); i++) {
        const int a = (int)(i / side), b = (int)(i % side);
        if (!next_number(&text, &v))
            return error_set(
                err, INFER_EFORMAT, "%s: the product of %g and %g is missing",
                path, multiplier_operand(m, a), multiplier_operand(m, b));
        if (!entry_of(m, v, &m->table[i]))
            return error_set(
                err, INFER_EFORMAT,
                "%s: multiplier_product(%g, %g) is %g: products "
                "are %s",
                path, multiplier_operand(m, a), multiplier_operand(m, b), v,
                m->kind == MULTIPLIER_FLOAT ? "from 1 to below 4"
                                            : "whole numbers up to 65536");
    }
    return 0;
}

static int read_table(const char *path, const char *text,
                      struct infer_error *err, struct multiplier **out)
{
    char kind[16];
    int bits, used = 0;

    if (sscanf(text, "%15s %d%n", kind, &bits, &used) != 2 || used == 0)
        return error_set(err, INFER_EFORMAT, "%s: printed no table", path);
    const bool is_float = strcmp(kind, "float") == 0;
    const bool is_signed = strcmp(kind, "signed") == 0;
    if (!is_float && !is_signed && strcmp(kind, "unsigned") != 0)
        return error_set(err, INFER_EFORMAT,
                         "%s: multiplier_kind is '%s': there are float, "
                         "signed and unsigned",
                         path, kind);
    if (bits < (is_float ? 1 : 2) ||
        bits > (is_float ? PRODUCT_TABLE_MAX_BITS : 8))
        return error_set(err, INFER_EFORMAT,
                         "%s: multiplier_bits is %d: %s has %s", path, bits,
                         kind, is_float ? "1 to 11" : "2 to 8");
    struct multiplier *m =
        multiplier_new(is_float ? MULTIPLIER_FLOAT : MULTIPLIER_INTEGER, bits);
    if (!m)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    m->is_signed = is_signed;
    const int rc = read_entries(path, text + used, m, err);
    if (rc < 0) {
        multiplier_free(m);
        return rc;
    }
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    multiplier_set_name(m, base, strlen(base) - strlen(".c"));
    m->form = "C function";
    multiplier_seal(m);
    *out = m;
    return 0;
}

/* ---- compiling ----------------------------------------------------- */

struct files {
    char folder[256], source[300], program[300], table[300];
};

static int begin_files(const char *path, struct files *f,
                       struct infer_error *err)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(f->folder, sizeof f->folder, "%.200s/multiplier-XXXXXX",
             tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(f->folder))
        return error_set(err, INFER_EIO, "%s: %s: %s", path, f->folder,
                         strerror(errno));
    snprintf(f->source, sizeof f->source, "%s/main.c", f->folder);
    snprintf(f->program, sizeof f->program, "%s/generate", f->folder);
    snprintf(f->table, sizeof f->table, "%s/table", f->folder);
    return 0;
}

static void end_files(const struct files *f)
{
    unlink(f->source);
    unlink(f->program);
    unlink(f->table);
    rmdir(f->folder);
}

static int write_generator(const char *path, const struct files *f,
                           struct infer_error *err)
{
    FILE *to = fopen(f->source, "w");
    const bool written = to && fputs(generator, to) >= 0;

    if ((to && fclose(to) != 0) || !written)
        return error_set(err, INFER_EIO, "%s: %s: %s", path, f->source,
                         strerror(errno));
    return 0;
}

/* Compiles the file and runs the program. */
static int generate(const char *path, const struct files *f,
                    struct infer_error *err)
{
    const char *named = getenv("CC");
    /* "./-x.c" is no option. */
    char *const compile[] = {word(named && *named ? named : "cc"),
                             word("-O1"),
                             word("-o"),
                             word(f->program),
                             word(f->source),
                             word(path),
                             word("-lm"),
                             NULL};
    char *const print[] = {word("sh"), word("-c"),
                           word("ulimit -t " LIMIT "; exec \"$0\""),
                           word(f->program), NULL};
    int rc = write_generator(path, f, err);

    if (rc == 0)
        rc = run(path, compile, NULL, err);
    if (rc == 0)
        rc = run(path, print, f->table, err);
    return rc;
}

static int compile(const char *path, struct infer_error *err,
                   struct multiplier **out)
{
    struct files f;
    size_t bytes;
    void *text;
    int rc = begin_files(path, &f, err);

    if (rc < 0)
        return rc;
    rc = generate(path, &f, err);
    if (rc == 0)
        rc = file_read_all(f.table, MAX_TABLE, err, &text, &bytes);
    end_files(&f);
    if (rc < 0)
        return rc;
    char *ended = realloc(text, bytes + 1);
    if (!ended) {
        free(text);
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    }
    ended[bytes] = '\0';
    rc = read_table(path, ended, err, out);
    free(ended);
    return rc;
}

/* Whether a file is one of C that defines the function. */
static bool is_source(const char *path)
{
    static const char function[] = "multiplier_product";
    const size_t n = strlen(path);
    struct infer_error ignored;
    bool found = false;
    size_t bytes;
    void *data;

    if (n < 3 || strcmp(path + n - 2, ".c") != 0 || path[0] == '-' ||
        file_read_all(path, MAX_SOURCE, &ignored, &data, &bytes) < 0)
        return false;
    for (size_t i = 0; i + sizeof function <= bytes && !found; i++)
        found = memcmp((char *)data + i, function, sizeof function - 1) == 0;
    free(data);
    return found;
}

int tool_open_multiplier(const char *text, struct infer_error *err,
                         struct multiplier **out)
{
    int32_t accumulator[2];
    char *path;
    const int accumulated = multiplier_split(text, err, &path, accumulator);
    int rc = accumulated;

    if (rc >= 0 && is_source(path)) {
        rc = compile(path, err, out);
        if (rc == 0 && accumulated) {
            rc = multiplier_accumulate(*out, accumulator, err);
            if (rc < 0) {
                multiplier_free(*out);
                *out = NULL;
            }
        }
    } else if (rc >= 0) {
        rc = multiplier_open(text, err, out);
    }
    if (accumulated >= 0)
        free(path);
    return rc;
}
