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

#endif
