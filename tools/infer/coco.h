/* SPDX-License-Identifier: Apache-2.0 */
/* --evaluate=FILE.json: a detector against COCO's annotations, and its boxes as
 * COCO's results. */
#ifndef TOOLS_INFER_COCO_H
#define TOOLS_INFER_COCO_H

#include "tools/infer/infer_tool.h"

/* True where the path of --evaluate names annotations. */
bool coco_is_file(const char *path);
/* Makes run->coco from the annotations and adds their pictures to the list, in
 * the order of their ids.  They lie in `folder`; NULL: beside the annotations.
 * EFORMAT, EIO, EMEMORY. */
int coco_open(struct tool_run *run, const char *folder, struct tool_list *list,
              struct infer_error *err);
/* Takes the boxes of picture `index` of the list. */
int coco_picture(struct tool_run *run, const struct arrays *out,
                 const struct tool_shown *shown, size_t index,
                 struct infer_error *err);
/* Prints precision and recall, or sets run->result; writes --coco. */
int coco_report(struct tool_run *run, struct infer_error *err);
void coco_free(struct coco *coco); /* NULL is fine */

#endif
