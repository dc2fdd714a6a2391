/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: inputs of a network that are like those that it will meet. */
#ifndef TOOLS_SAMPLES_H
#define TOOLS_SAMPLES_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"
#include "tools/picture_list.h"

struct samples {
    struct infer_array *in; /* n_inputs of each sample, one after the other */
    int n, n_inputs;
    /* The class of each image, `rows` a sample; NULL: not known. */
    int64_t *class;
    int rows;
    char note[256]; /* of folders that name no class; "": nothing to say */
};

/* The class of a picture whose folder names none. */
#define SAMPLES_NO_CLASS INT64_MIN

/* Classes of the pictures of a folder, each from the name of the folder that it
 * lies in: a label of the network, a number, or, where none is one of these and
 * there are as many folders as classes, its place among them.  Sets class[i] of
 * picture i where *found: at least half of the folders name a class, or all go
 * by their places.  note says which one names none.  EMEMORY. */
int samples_classes_of(const struct graph *g, const struct tool_list *list,
                       struct infer_error *err, int64_t *class, bool *found,
                       char *note, size_t note_bytes);

/* Reads samples for graph g from `source`: a folder of pictures, a picture or a
 * list of pictures, which get the preprocessing of the network's only input; or
 * an .npz with an array for each input, as many samples as its first dimension
 * holds batches.  ":N" behind it: at most N of them (128), spread evenly.
 * Free dimensions of the arrays come from the file; a free batch is 1.  An
 * array "labels" of the .npz, one integer an image, holds their classes.
 * EARGUMENT, EIO, EFORMAT; EUNSUPPORTED: pictures for a network without one
 * input of pictures. */
int samples_read(const char *source, const struct graph *g,
                 struct infer_error *err, struct samples *out);
void samples_clear(struct samples *s);

#endif
