/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures that a command line names: files, folders, lists. */
#ifndef TOOLS_PICTURE_LIST_H
#define TOOLS_PICTURE_LIST_H

#include <stddef.h>

#include "include/infer.h"

struct tool_list {
    char **path;
    size_t count, capacity;
};
/* Adds a picture, all pictures of a folder (recursively, sorted), or those of a
 * text file with one path a line ("@" and its name, or its name alone where its
 * first line names a file).  "-" is added as it is: standard input. */
int tool_list_add(struct tool_list *list, const char *path,
                  struct infer_error *err);
/* Adds one path as it is. */
int tool_list_append(struct tool_list *list, const char *path,
                     struct infer_error *err);
void tool_list_clear(struct tool_list *list);

#endif
