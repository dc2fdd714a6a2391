/* SPDX-License-Identifier: Apache-2.0 */
/* What an unknown operation of an architecture file may have been meant for. */
#include "libinfer/graph/op_hint.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"
#include "kernels/names.h"
#include "libinfer/graph/graph.h"

/* Names of other frameworks, in small letters without "_". */
static const struct {
    const char *name, *op, *attr;
} aliases[] = {
    {"maxpool", "pool", "{\"kind\": \"max\", ...}"},
    {"maxpool2d", "pool", "{\"kind\": \"max\", ...}"},
    {"avgpool", "pool", "{\"kind\": \"average\", ...}"},
    {"avgpool2d", "pool", "{\"kind\": \"average\", ...}"},
    {"averagepool", "pool", "{\"kind\": \"average\", ...}"},
    {"globalaveragepool", "reduce", "{\"kind\": \"mean\", \"axes\": [2, 3]}"},
    {"conv2d", "conv", NULL},
    {"convolution", "conv", NULL},
    {"deconv", "conv_transpose", NULL},
    {"convtranspose2d", "conv_transpose", NULL},
    {"linear", "dense", NULL},
    {"fc", "dense", NULL},
    {"gemm", "dense", NULL},
    {"fullyconnected", "dense", NULL},
    {"innerproduct", "dense", NULL},
    {"bn", "batch_norm", NULL},
    {"batchnorm2d", "batch_norm", NULL},
    {"batchnormalization", "batch_norm", NULL},
    {"upsample", "resize", NULL},
    {"cat", "concat", NULL},
};

/* Small letters without "_". */
static void plain(const char *name, char *out, size_t bytes)
{
    size_t n = 0;

    for (; *name != '\0' && n + 1 < bytes; name++)
        if (*name >= 'A' && *name <= 'Z')
            out[n++] = (char)(*name - 'A' + 'a');
        else if (*name != '_')
            out[n++] = *name;
    out[n] = '\0';
}

/* The word of a list that is the name but for capitals and "_", or NULL. */
static const char *word_of(const char *const *words, const char *name)
{
    char word[64];

    for (; *words != NULL; words++) {
        plain(*words, word, sizeof word);
        if (strcmp(word, name) == 0)
            return *words;
    }
    return NULL;
}

static const char *nearest(const char *name)
{
    size_t least = strlen(name) / 3 + 1;
    const char *best = NULL;

    for (int i = GRAPH_NONE + 1; i < GRAPH_OP_COUNT; i++) {
        const char *known = graph_op_info((enum graph_op)i)->name;
        const size_t distance = text_distance(name, known);

        if (distance < least) {
            least = distance;
            best = known;
        }
    }
    return best;
}

const char *graph_op_hint(const char *name, char *out, size_t bytes)
{
    char word[64];
    const char *kind, *near;

    out[0] = '\0';
    plain(name, word, sizeof word);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, word) == 0) {
            snprintf(out, bytes, " (it is \"op\": \"%s\"%s%s)", aliases[i].op,
                     aliases[i].attr ? " with \"attr\": " : "",
                     aliases[i].attr ? aliases[i].attr : "");
            return out;
        }
    if ((kind = word_of(kern_unary_names, word)) != NULL)
        snprintf(out, bytes,
                 " (it is \"op\": \"unary\" with \"attr\": {\"kind\": "
                 "\"%s\"})",
                 kind);
    else if ((kind = word_of(kern_binary_names, word)) != NULL)
        snprintf(out, bytes,
                 " (it is \"op\": \"binary\" with \"attr\": {\"kind\": "
                 "\"%s\"})",
                 kind);
    else if ((near = nearest(name)) != NULL)
        snprintf(out, bytes, " (did you mean '%s'?)", near);
    return out;
}
