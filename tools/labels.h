/* SPDX-License-Identifier: Apache-2.0 */
/* Class labels of a text file. */
#ifndef TOOLS_LABELS_H
#define TOOLS_LABELS_H

#include "include/infer.h"

struct labels {
    char **text;
    int count;
};

/* Reads one label per line, UTF-8; "n01440764 tench, ..." loses its WordNet id.
 * A file without a label is EFORMAT, like one that is no text. */
int labels_read(const char *path, struct infer_error *err, struct labels *out);
void labels_clear(struct labels *labels);

/* The class that a name stands for: of n labels that label(user, i) gives the
 * one that is the name, before the first that is it but for case and "_" for
 * " ", or that has it as a synonym between commas ("tench, Tinca"); else the
 * number that the name is.  -1: none. */
int64_t labels_class(const char *name,
                     const char *(*label)(const void *user, int i),
                     const void *user, int n);

#endif
