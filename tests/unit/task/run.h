/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of a run written by hand, for the tests of tasks. */
#ifndef TESTS_UNIT_TASK_RUN_H
#define TESTS_UNIT_TASK_RUN_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libinfer/task/task.h"
#include "tests/unit/graph/data.h"

#define SIDE  64 /* of the network's input */
#define CELLS (64 + 16 + 4)

/* ---- outputs of a run ---------------------------------------------- */

struct run {
    struct infer_array array[12];
    struct task_outputs o;
};

static inline void run_begin(struct run *r)
{
    memset(r, 0, sizeof *r);
    r->o = (struct task_outputs){.array = r->array,
                                 .batch = 1,
                                 .width = SIDE,
                                 .height = SIDE,
                                 .channels = 3};
}

/* Adds an output of zeros and returns its values. */
static inline float *run_add(struct run *r, const char *name, int rank,
                             const int64_t *dim)
{
    struct infer_array *a = &r->array[r->o.count++];
    int64_t n = 1;

    *a = (struct infer_array){.name = name, .dtype = INFER_F32, .rank = rank};
    for (int i = 0; i < rank; i++)
        n *= a->dim[i] = dim[i];
    a->bytes = (size_t)n * sizeof(float);
    a->data = calloc((size_t)n, sizeof(float));
    assert_non_null(a->data);
    return a->data;
}

static inline void run_end(struct run *r)
{
    for (int i = 0; i < r->o.count; i++)
        free(r->array[i].data);
}

/* Recognises and decodes; the decoder must be the named one. */
static inline struct task_boxes decode(struct run *r, const char *name)
{
    const struct task_limits limits = {.score = -1, .iou = 0.45f};
    struct task task = task_recognise(&r->o), named;
    struct task_boxes boxes = {0};
    struct infer_error err;
    char word[32];

    snprintf(word, sizeof word, "detect:%s", name);
    assert_int_equal(task_parse(word, &err, &named), INFER_OK);
    assert_int_equal(task.kind, TASK_DETECT);
    assert_ptr_equal(task.decoder, named.decoder);
    assert_int_equal(task_detect(&task, &r->o, &limits, &err, &boxes), 0);
    return boxes;
}

static inline void check_box(const struct task_box *b, int label, double score,
                             double left, double top, double right,
                             double bottom)
{
    assert_int_equal(b->label, label);
    assert_float_equal(b->score, score, 1e-4);
    assert_float_equal(b->left, left, 1e-3);
    assert_float_equal(b->top, top, 1e-3);
    assert_float_equal(b->right, right, 1e-3);
    assert_float_equal(b->bottom, bottom, 1e-3);
}

static inline void put(float *to, int n, const double *values)
{
    for (int i = 0; i < n; i++)
        to[i] = (float)values[i];
}
#define PUT(to, ...)                                                           \
    put(to, (int)COUNT(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

#endif
