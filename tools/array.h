/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that go into runs and come out of them, for wconv and infer. */
#ifndef TOOLS_ARRAY_H
#define TOOLS_ARRAY_H

#include "include/infer.h"

/* Inputs or outputs of one network, at most. */
#define ARRAYS_MAX 64

/* Inputs or outputs of one run; their data belongs to it. */
struct arrays {
    struct infer_array item[ARRAYS_MAX];
    int count;
};
void arrays_clear(struct arrays *a);

/* Elements of an array whose size is known to be possible. */
int64_t array_count(const struct infer_array *a);
/* SIZE_MAX where there are not so many addresses. */
size_t array_bytes(enum infer_dtype dtype, int rank, const int64_t *dim);
/* Room for an array whose dtype, rank and dim are set; `what` ("input") and
 * name are for the error.  Half of the machine's memory is the limit: the
 * network works on as much again, and the system promises more than it has. */
int array_alloc(const char *what, const char *name, struct infer_array *a,
                struct infer_error *err);
/* Fills an array of F32 with numbers in [-1, 1), one of integers with 0 to 7.
 * *seed moves on. */
void array_fill(struct infer_array *a, uint64_t *seed);

#endif
