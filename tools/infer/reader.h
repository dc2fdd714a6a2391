/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures read ahead by threads, handed out in order. */
#ifndef TOOLS_INFER_READER_H
#define TOOLS_INFER_READER_H

#include "tools/infer/infer_tool.h"

/* A picture in the form of the network's first input. */
struct reader_picture {
    void *data; /* F32 C,H,W, or U8 H,W,C */
    size_t bytes;
    int64_t hw[2];
};

struct reader;

/* Starts `threads` > 0 threads that keep `ahead` pictures of the list ready, as
 * infer_model_preprocess() makes them, or infer_model_fit() where `pixels`.
 * max_pixels: as infer_image_load() takes it.
 * model and list must outlive the reader. */
int reader_start(const struct infer_model *model, const struct tool_list *list,
                 int threads, size_t ahead, bool pixels, uint64_t max_pixels,
                 struct infer_error *err, struct reader **out);
/* The next picture or its error.  Not to be called past the end of the list. */
int reader_peek(struct reader *r, struct infer_error *err,
                const struct reader_picture **out);
/* Releases the slot of that picture. */
void reader_drop(struct reader *r);
void reader_stop(struct reader *r); /* NULL is fine */

#endif
