/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures read ahead by threads, handed out in order. */
#ifndef TOOLS_INFER_READER_H
#define TOOLS_INFER_READER_H

#include "tools/infer/infer_tool.h"

/* A picture in the form of the network's first input, and its source: its size
 * and, if they are kept, its pixels. */
struct reader_picture {
    void *data; /* F32 C,H,W, or U8 H,W,C */
    size_t bytes;
    int64_t hw[2];
    struct infer_image source;
};

/* Decodes one picture; the path "-" is standard input.  The error names it.
 * max_pixels is that of infer_image_load(). */
int reader_load(const char *path, uint64_t max_pixels, struct infer_error *err,
                struct infer_image *out);

struct reader;

struct reader_options {
    int threads;  /* > 0 */
    size_t ahead; /* pictures kept ready */
    bool pixels;  /* as infer_model_fit(), not infer_model_preprocess() */
    bool keep;    /* keep the pixels of the sources */
    uint64_t max_pixels; /* as infer_image_load() takes it */
};

/* Starts threads that read the pictures of the list.  The path "-" is standard
 * input.  model and list must outlive the reader. */
int reader_start(const struct infer_model *model, const struct tool_list *list,
                 const struct reader_options *options, struct infer_error *err,
                 struct reader **out);
/* The next picture or its error.  Not to be called past the end of the list.
 * The caller may take the pixels of its source and leave NULL. */
int reader_peek(struct reader *r, struct infer_error *err,
                struct reader_picture **out);
/* Releases the slot of that picture. */
void reader_drop(struct reader *r);
void reader_stop(struct reader *r); /* NULL is fine */

#endif
