/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How inputs end, beside how they ended when that was recorded: a removed check
 * lets an input through, or another check says another word.
 *
 * FUZZ_VERDICTS=FILE compares, FUZZ_RECORD=FILE writes: one line an input, its
 * kind and the hash of what the reader said, without digits and temporary
 * folders.  What was not supported ("u") may end in any way: it may be
 * supported some day.  The words count with FUZZ_WORDS=1 alone.
 */
#include "tests/fuzz/replay/verdict.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define SHOWN 20

static FILE *recorded, *record;
static bool words;
static long count, differ;

/* Of the input that runs. */
static char kind;
static uint64_t hash;
static char last[200];

static void mix(uint64_t *h, unsigned char c)
{
    *h = (*h ^ c) * UINT64_C(1099511628211);
}

void fuzz_verdict(int rc, const struct infer_error *err, unsigned sum)
{
    const char *text = rc < 0 ? err->text : "";

    if (rc == INFER_EUNSUPPORTED || rc == INFER_EMEMORY)
        kind = 'u';
    else if (kind == 'o' && rc < 0)
        kind = 'e';
    mix(&hash, (unsigned char)(rc < 0 ? -rc : 0));
    for (int i = 0; i < 4 && rc >= 0; i++)
        mix(&hash, (unsigned char)(sum >> 8 * i));
    for (const char *c = text; *c; c++) {
        /* A folder of another name each time. */
        const size_t shown = strncmp(c, "/tmp/", 5) == 0       ? 5
                             : strncmp(c, "/dev/shm/", 9) == 0 ? 9
                                                               : 0;
        if (shown > 0)
            c += shown + strcspn(c + shown, "/ :'");
        if (!*c)
            break;
        if (!isdigit((unsigned char)*c))
            mix(&hash, (unsigned char)*c);
    }
    snprintf(last, sizeof last, "%.*s", (int)sizeof last - 1, text);
}

void verdict_begin(void)
{
    kind = 'o';
    hash = UINT64_C(14695981039346656037);
    last[0] = '\0';
}

bool verdict_open(void)
{
    const char *name = getenv("FUZZ_VERDICTS"), *to = getenv("FUZZ_RECORD");

    words = getenv("FUZZ_WORDS") != NULL;
    if (name && !(recorded = fopen(name, "r")))
        fprintf(stderr, "%s: cannot be read\n", name);
    if (to && !(record = fopen(to, "w")))
        fprintf(stderr, "%s: cannot be written\n", to);
    return (!name || recorded) && (!to || record);
}

/* The input's end beside the recorded one. */
static void compare(void)
{
    char line[32], now[32];

    snprintf(now, sizeof now, "%c%04x\n", kind,
             (unsigned)(hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) & 0xffff);
    if (record)
        fputs(now, record);
    if (!recorded)
        return;
    if (!fgets(line, sizeof line, recorded))
        strcpy(line, "none\n");
    if (line[0] == 'u' || strcmp(line, now) == 0 ||
        (!words && (line[0] == kind || (line[0] == 'e' && kind == 'u'))))
        return;
    if (differ++ < SHOWN)
        fprintf(stderr, "input %ld: was %.5s, is %.5s: %s\n", count, line, now,
                last[0] ? last : "accepted");
}

void verdict_end(bool in_pack)
{
    if (in_pack)
        compare();
    count += in_pack;
}

int verdict_close(void)
{
    char line[32];

    if (record)
        fclose(record);
    if (recorded && fgets(line, sizeof line, recorded)) {
        fprintf(stderr, "more verdicts are recorded than inputs run\n");
        differ++;
    }
    if (recorded)
        fclose(recorded);
    if (differ > 0)
        fprintf(stderr,
                "%ld inputs end in another way than recorded; if that is "
                "meant: make update-verdicts\n",
                differ);
    return differ > 0;
}
