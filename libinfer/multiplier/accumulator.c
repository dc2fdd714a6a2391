/* SPDX-License-Identifier: Apache-2.0 */
/* Accumulators of products as options name them: "mitchell-7,acc=loa-8". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/table/accumulator.h"
#include "libinfer/multiplier/multiplier.h"

static const char mark[] = ",acc=";

/* K of "loa-K", or -1. */
static int lower_of(const char *word)
{
    int k = 0;

    if (strncmp(word, "loa-", 4) != 0 || word[4] == '\0' || strlen(word) > 6 ||
        (word[4] == '0' && word[5] != '\0'))
        return -1;
    for (word += 4; *word; word++) {
        if (*word < '0' || *word > '9')
            return -1;
        k = k * 10 + (*word - '0');
    }
    return k > ACCUMULATOR_MAX_LOWER ? -1 : k;
}

int multiplier_read_accumulator(const char *word, struct infer_error *err,
                                int32_t accumulator[2])
{
    const int lower = lower_of(word);

    accumulator[1] = 0;
    if (strcmp(word, "fp32") == 0) {
        accumulator[0] = ACCUMULATOR_FP32;
    } else if (strcmp(word, "bf16") == 0) {
        accumulator[0] = ACCUMULATOR_BF16;
    } else if (lower >= 0) {
        accumulator[0] = ACCUMULATOR_LOA;
        accumulator[1] = lower;
    } else {
        return error_set(
            err, INFER_EARGUMENT,
            "there is no accumulator '%.60s' (fp32, bf16, loa-K, K "
            "from 0 to %d)",
            word, ACCUMULATOR_MAX_LOWER);
    }
    return 0;
}

const char *multiplier_accumulator_word(const int32_t accumulator[2],
                                        char buf[MULTIPLIER_ACCUMULATOR])
{
    if (accumulator[0] == ACCUMULATOR_LOA)
        snprintf(buf, MULTIPLIER_ACCUMULATOR, "loa-%d", (int)accumulator[1]);
    else
        snprintf(buf, MULTIPLIER_ACCUMULATOR, "%s",
                 accumulator[0] == ACCUMULATOR_BF16 ? "bf16" : "fp32");
    return buf;
}

int multiplier_split(const char *text, struct infer_error *err, char **name,
                     int32_t accumulator[2])
{
    const char *at = NULL;

    for (const char *p = text; (p = strstr(p, mark)) != NULL; p++)
        at = p;
    *name = at ? strndup(text, (size_t)(at - text)) : strdup(text);
    if (!*name)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (!at)
        return 0;
    const int rc =
        multiplier_read_accumulator(at + sizeof mark - 1, err, accumulator);
    if (rc < 0) {
        free(*name);
        *name = NULL;
    }
    return rc < 0 ? rc : 1;
}

int multiplier_accumulate(struct multiplier *m, const int32_t accumulator[2],
                          struct infer_error *err)
{
    if (m->kind == MULTIPLIER_INTEGER)
        return error_set(
            err, INFER_EUNSUPPORTED,
            "multiplier '%s': sums of integers are exact, and take "
            "no accumulator",
            m->name);
    m->accumulated = true;
    memcpy(m->accumulator, accumulator, sizeof m->accumulator);
    return 0;
}
