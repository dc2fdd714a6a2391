/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows a table of operators in lines
 * (tests/unit/weights/<format>/operators.def) by lines that notice the removal
 * of a check.  Compiled with TEST, the file of the test, ROWS, its table, and
 * OPSET where a row begins with one (tests/analyze/grow.py).
 *
 * usage: PROGRAM SECONDS KILLED OUT SEED [LINES]
 *
 * LINES, a file, holds lines that are tried before changed ones; the answer to
 * one that kills no check is told.
 */
#define main test_main
#include TEST
#undef main

#include "tests/analyze/grow/trial.h"

#define LONGEST        250
#define TOKENS         40
#define CHARS_OF_TOKEN 128

struct tokens {
    char at[TOKENS][CHARS_OF_TOKEN];
    int n;
};

struct line {
    int opset;
    char text[640];
};

static struct line queue[20000];
static size_t queued;
static FILE *out;

/* The part of a message that a row quotes: what is behind the node's name. */
static const char *word_of(const char *said)
{
    const char *at = strstr(said, "): ");

    if (!at)
        at = strstr(said, "': ");
    return at && strlen(at) > 12 ? at + 3 : said;
}

static void run(void *subject, struct trial *t)
{
    const struct line *l = subject;
    char said[1024] = "";

#ifdef OPSET
    t->code = read_line(l->opset, l->text, said, sizeof said);
#else
    t->code = read_line(l->text, said, sizeof said);
#endif
    snprintf(t->said, sizeof t->said, "%s", said);
}

static bool differs(const struct trial *base, const struct trial *now)
{
    return base->code != now->code ||
           (base->code == 0 ? strcmp(base->said, now->said) != 0
                            : !strstr(now->said, word_of(base->said)));
}

static const char *name_of(int code)
{
    return code == INFER_EFORMAT        ? "INFER_EFORMAT"
           : code == INFER_EUNSUPPORTED ? "INFER_EUNSUPPORTED"
           : code == INFER_EARGUMENT    ? "INFER_EARGUMENT"
           : code == INFER_EMEMORY      ? "INFER_EMEMORY"
           : code == 0                  ? "0"
                                        : "INFER_EIO";
}

static void keep(const struct line *l, const struct trial *base)
{
    const char *word = base->code ? word_of(base->said) : base->said;

    fprintf(out, "ROW(");
#ifdef OPSET
    fprintf(out, "%d, ", l->opset);
#endif
    fprintf(out, "\"%s\", %s, \"%.*s\")\n", l->text, name_of(base->code),
            (int)strcspn(word, "\n\"\\"), word);
    fflush(out);
}

static bool split(const char *text, struct tokens *t)
{
    t->n = 0;
    while (*text) {
        const size_t n = strcspn(text, " ");

        if (n >= CHARS_OF_TOKEN || n == 0 || t->n == TOKENS)
            return false;
        snprintf(t->at[t->n++], CHARS_OF_TOKEN, "%.*s", (int)n, text);
        text += n + (text[n] == ' ');
    }
    return t->n > 0;
}

static bool join(const struct tokens *t, struct line *l)
{
    size_t n = 0;

    for (int i = 0; i < t->n && n < sizeof l->text; i++)
        n += (size_t)snprintf(l->text + n, sizeof l->text - n, "%s%s",
                              i ? " " : "", t->at[i]);
    return n < LONGEST;
}

/* Leaves out what the line does not need to kill these checks. */
static void shorten(struct line *l, struct trial *base, const int *check, int n)
{
    struct tokens t;

    if (!split(l->text, &t))
        return;
    for (int i = t.n - 1; i > 0; i--) {
        struct tokens less = t;
        struct line now = *l;
        struct trial end;

        memmove(less.at[i], less.at[i + 1],
                (size_t)(less.n - i - 1) * sizeof less.at[0]);
        less.n--;
        if (!join(&less, &now))
            continue;
        trial_run(-1, run, &now, &end);
        if (!end.done || !trial_all(check, n, &end, run, &now, differs))
            continue;
        t = less;
        *l = now;
        *base = end;
    }
}

static int try(struct line *l, bool grown)
{
    struct trial base;
    bool met = false;
    int killed, check[TRIAL_MET];

    trial_run(-1, run, l, &base);
    if (!base.done && !base.signal)
        return 0; /* no line of this kind */
    if (!trial_cheap(&base, base.code < 0, 0, l->text) || base.ms > 100 ||
        base.code == INFER_EMEMORY)
        return 0;
    for (int i = 0; i < base.n_met; i++)
        met |= !trial_ever[base.met[i]];
    killed = trial_kill(&base, run, l, differs, check);
    if (grown && killed > 0) {
        shorten(l, &base, check, killed);
        keep(l, &base);
    }
    if ((trial_new(base.seen) || killed > 0 || met) && grown &&
        queued < COUNT(queue))
        queue[queued++] = *l;
    return killed;
}

/* ---- changes ------------------------------------------------------- */

static bool is_number(const char *p)
{
    return *p >= '0' && *p <= '9';
}

/* Another number in the place of one of the token's. */
static void change_number(char *token)
{
    static const char *const likely[] = {"0",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "5",
                                         "-1",
                                         "-2",
                                         "-3",
                                         "7",
                                         "8",
                                         "9",
                                         "64",
                                         "65536",
                                         "1.5",
                                         "-5",
                                         "6",
                                         "12",
                                         "2147483647",
                                         "2147483648",
                                         "-9",
                                         "16",
                                         "10",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "0.0",
                                         "-1.0",
                                         "1000000",
                                         "4000000000",
                                         "3037000500",
                                         "24",
                                         "1e30",
                                         "'inf'",
                                         "9007199254740992"};
    char *start[16], copy[CHARS_OF_TOKEN];
    int n = 0;

    for (char *p = token; *p && n < 16;) {
        if (is_number(p)) {
            start[n++] = p;
            while (is_number(p) || *p == '.')
                p++;
        } else {
            p++;
        }
    }
    if (n == 0)
        return;
    char *p = start[trial_random((unsigned)n)], *end = p;
    if (p > token && p[-1] == '-')
        p--;
    while (*end == '-' || *end == '.' || is_number(end))
        end++;
    snprintf(copy, sizeof copy, "%.*s%s%s", (int)(p - token), token,
             likely[trial_random(COUNT(likely))], end);
    memcpy(token, copy, sizeof copy);
}

/* One entry more or less of a list. */
static void change_length(char *token)
{
    char *open = strpbrk(token, "([{"), *close = strpbrk(token, ")]}");
    char copy[CHARS_OF_TOKEN];

    if (!open || !close || close < open)
        return;
    if (trial_random(2) == 0) {
        const char *entry = trial_random(2) ? "1" : "2";
        snprintf(copy, sizeof copy, "%.*s%s%s%s", (int)(close - token), token,
                 close > open + 1 ? "," : "", entry, close);
    } else {
        char *comma = close;
        while (comma > open + 1 && comma[-1] != ',')
            comma--;
        if (comma > open + 1)
            comma--;
        snprintf(copy, sizeof copy, "%.*s%s", (int)(comma - token), token,
                 close);
    }
    memcpy(token, copy, sizeof copy);
}

/* Another kind of value. */
static void change_kind(char *token)
{
    static const char *const values[] = {
        "none",  "graph", "true",   "false",  "'x'",    "[]", "[1]",
        "[1,1]", "0.5",   "type:6", "type:5", "type:9", "3"};
    static const char letters[] = "xwnihbfqu";
    static const char opens[] = "([{", closes[] = ")]}";
    char *equal = strchr(token, '='), *open = strpbrk(token, "([{"),
         *close = strpbrk(token, ")]}");

    if (equal && trial_random(2) == 0) {
        snprintf(equal + 1, 20, "%s", values[trial_random(COUNT(values))]);
    } else if (open && close && open > token) {
        if (trial_random(2) == 0)
            open[-1] = letters[trial_random(sizeof letters - 1)];
        else {
            const unsigned k = trial_random(3);
            *open = opens[k];
            *close = closes[k];
        }
    }
}

static void change(struct tokens *t, const struct tokens *other)
{
    const int at = t->n > 1 ? 1 + (int)trial_random((unsigned)t->n - 1) : 0;
    const int from = (int)trial_random((unsigned)other->n);

    switch (trial_random(12)) {
    case 0:
        if (at > 0) {
            memmove(t->at[at], t->at[at + 1],
                    (size_t)(t->n - at - 1) * sizeof t->at[0]);
            t->n--;
        }
        break;
    case 1:
        if (t->n < TOKENS && from > 0 && at > 0) {
            memmove(t->at[at + 1], t->at[at],
                    (size_t)(t->n - at) * sizeof t->at[0]);
            memcpy(t->at[at], other->at[from], sizeof t->at[0]);
            t->n++;
        }
        break;
    case 2:
        if (at > 0 && from > 0)
            memcpy(t->at[at], other->at[from], sizeof t->at[0]);
        break;
    case 3:
        memcpy(t->at[0], other->at[0], sizeof t->at[0]);
        break;
    case 4:
        if (t->n < TOKENS && from > 0)
            memcpy(t->at[t->n++], other->at[from], sizeof t->at[0]);
        break;
    case 5:
        change_kind(t->at[at]);
        break;
    case 6:
    case 7:
        change_length(t->at[at]);
        break;
    default:
        change_number(t->at[at]);
        break;
    }
}

/* A changed line; false: none. */
static bool changed(const struct line *from, struct line *to)
{
    struct tokens t, other;

    /* Neighbours are about the same operator. */
    const size_t near = trial_random(2)
                            ? trial_random((unsigned)queued)
                            : (size_t)(from - queue) + trial_random(21);
    const size_t at = near < 10 ? 0 : near - 10;
    if (!split(from->text, &t) ||
        !split(queue[at < queued ? at : queued - 1].text, &other))
        return false;
    for (unsigned k = 1 + trial_random(3); k > 0; k--)
        change(&t, &other);
    to->opset = from->opset;
    if (trial_random(16) == 0)
        to->opset = 7 + (int)trial_random(16);
    return join(&t, to) && strcmp(from->text, to->text) != 0;
}

/* The checks that the lines of a file kill.  It is read at once: a process that
 * ends in the middle of it would move the place where the next one reads. */
static int try_file(const char *path)
{
    static struct line list[2000];
    FILE *f = path ? fopen(path, "r") : NULL;
    char text[sizeof list->text];
    size_t count = 0;
    int killed = 0;

    while (f && count < COUNT(list) && fgets(text, sizeof text, f)) {
        const char *at = text;

        text[strcspn(text, "\n")] = '\0';
#ifdef OPSET
        list[count].opset = (int)strtol(text, (char **)&at, 10);
        at += strspn(at, " ");
#endif
        if (*at)
            snprintf(list[count++].text, sizeof text, "%s", at);
    }
    if (f)
        fclose(f);
    for (size_t i = 0; i < count; i++) {
        const int n = try(&list[i], true);
        struct trial base;

        killed += n;
        if (n > 0)
            continue;
        trial_run(-1, run, &list[i], &base);
        printf("%s: %s%d %s\n", list[i].text, base.done ? "" : "no line, ",
               base.code, base.said);
    }
    return killed;
}

int main(int argc, char **argv)
{
    static const struct {
#ifdef OPSET
        int opset;
#endif
        const char *line;
        int code;
        const char *word;
    } rows[] = {
#define ROW(...) {__VA_ARGS__},
#include ROWS
    };
    const double seconds = atof(argv[1]);
    long runs = 0;
    int begun = 0, grown = 0, given;

    if (argc < 5)
        return 1;
    (void)test_main;
    trial_load(argv[2]);
    out = fopen(argv[3], "w");
    trial_state = (unsigned)atoi(argv[4]) * 2654435761u + 1;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct line *l = &queue[queued++];

        snprintf(l->text, sizeof l->text, "%s", rows[i].line);
#ifdef OPSET
        l->opset = rows[i].opset;
#endif
        begun += try(l, false);
    }
    given = try_file(argv[5]);
    const double from = trial_cpu();
    for (; trial_cpu() - from < seconds; runs++) {
        struct line l;

        if (changed(&queue[trial_random((unsigned)queued)], &l))
            grown += try(&l, true);
    }
    trial_save(argv[2]);
    printf(
        "%zu lines kill %d checks, given ones %d, %ld changed ones %d more\n",
        COUNT(rows), begun, given, runs, grown);
    return 0;
}
