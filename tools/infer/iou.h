/* SPDX-License-Identifier: Apache-2.0 */
/* --evaluate of maps of classes: intersection over union with masks. */
#ifndef TOOLS_INFER_IOU_H
#define TOOLS_INFER_IOU_H

#include "tools/infer/infer_tool.h"

/* True where --evaluate names masks: a folder with the folders "images" and
 * "masks", or a list whose first line ends with a .png file behind a picture.
 */
bool iou_is_source(const char *path);
/* Makes run->iou and the list of its pictures.  EFORMAT, EIO, EMEMORY. */
int iou_open(struct tool_run *run, struct tool_list *list,
             struct infer_error *err);
/* Compares the map of picture `index` of the list with its mask. */
int iou_picture(struct tool_run *run, const struct arrays *out,
                const struct tool_shown *shown, size_t index,
                struct infer_error *err);
/* Prints the figures, or sets run->result. */
void iou_report(struct tool_run *run);
void iou_free(struct iou *iou); /* NULL is fine */

#endif
