/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures that a command line names: files, folders, lists. */
#ifndef TOOLS_PICTURE_LIST_H
#define TOOLS_PICTURE_LIST_H

#include <stddef.h>

#include "include/infer.h"

struct tool_list {
    char **path;
    char **origin; /* "FILE, line N" of a line that names no file, or NULL */
    size_t count, capacity;
    /* Pictures of folders in formats that are not read. */
    size_t left_out;
    char *left_out_text; /* the first: "PATH: a WebP picture" */
};
/* Adds a picture, all pictures of a folder (recursively, sorted), or those of a
 * text file with one path per line ("@" and its name, or its name alone where
 * its first line names a file).  "-" (standard input) and pipes are added as
 * they are. */
int tool_list_add(struct tool_list *list, const char *path,
                  struct infer_error *err);
/* Adds one path as it is. */
int tool_list_append(struct tool_list *list, const char *path,
                     struct infer_error *err);
void tool_list_clear(struct tool_list *list);

#endif
