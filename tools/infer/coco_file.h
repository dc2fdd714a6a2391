/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's annotations of instances: images, categories and their boxes. */
#ifndef TOOLS_INFER_COCO_FILE_H
#define TOOLS_INFER_COCO_FILE_H

#include <stdint.h>

#include "tools/infer/average_precision.h"

#define COCO_FREE_BYTES ((size_t)32 << 20)

/* An image or a category. */
struct coco_entry {
    int64_t id;
    char *name;
};

struct coco_entries {
    struct coco_entry *item; /* by id */
    size_t count;
};

struct coco_file {
    struct coco_entries images, categories;
    struct ap_truth *truth;
    int64_t (*ids)[2]; /* image and category of each, while it is read */
    size_t n_truth;
    size_t room; /* bytes that it may still take, while it is read */
};

/* Reads a file of annotations.  Those of images and categories that the file
 * does not list are left out, as pycocotools does.  An element is parsed by
 * itself: memory is that of the text and of the result, which may take as many
 * bytes as the text and COCO_FREE_BYTES.  EFORMAT, EIO, EMEMORY;
 * coco_file_clear() also after an error. */
int coco_file_read(const char *path, struct infer_error *err,
                   struct coco_file *out);
void coco_file_clear(struct coco_file *f);

#endif
