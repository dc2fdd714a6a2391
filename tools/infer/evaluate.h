/* SPDX-License-Identifier: Apache-2.0 */
/* --evaluate: pictures whose class is known, and how many the network finds. */
#ifndef TOOLS_INFER_EVALUATE_H
#define TOOLS_INFER_EVALUATE_H

#include "tools/infer/infer_tool.h"

/* One picture: its class, the class that was shown for it (-1: it was not
 * read), and how many classes had a higher score than its own. */
struct judged {
    int64_t truth, shown, rank;
};

struct evaluation {
    struct judged *of; /* one per picture of the list */
    size_t count;
    int64_t classes; /* of the network; 0: not known yet */
    int numbered;    /* folders that were numbered in their order; 0: named */
};

/* Makes run->evaluation and the list of its pictures from the request's
 * evaluate: a folder with a folder for each class (or with "test" or "val",
 * which has them), or a file with a picture and its class on each line.  A
 * class is a label of the model, one of its synonyms, or a number.  EARGUMENT,
 * EFORMAT, EIO. */
int evaluate_list(struct tool_run *run, struct tool_list *list,
                  struct infer_error *err);
/* Takes line `number` of the list `path`; it may write to the line. */
typedef int evaluate_line(struct tool_run *run, char *line, const char *path,
                          unsigned number, struct tool_list *list,
                          struct infer_error *err);
/* Calls take() for every line of a text file that is not blank, without its
 * end. EIO, EFORMAT. */
int evaluate_lines(struct tool_run *run, const char *path, evaluate_line *take,
                   struct tool_list *list, struct infer_error *err);
/* Takes the scores of picture `index`, row `row` of an output.  EARGUMENT if
 * the network has not the classes of the pictures. */
int evaluate_picture(struct tool_run *run, const struct infer_array *out,
                     int64_t row, size_t index, struct infer_error *err);
/* Prints accuracies, classes and confusions, or sets run->result. */
int evaluate_report(struct tool_run *run, struct infer_error *err);
void evaluate_free(struct evaluation *e); /* NULL is fine */

#endif
