/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one run: one for each GPU.
 *
 * On one host the program starts them itself and watches over them: when one
 * fails, the others, which may be waiting for it, are ended.  Over several
 * hosts mpirun does both.
 */
#ifndef TOOLS_TRAIN_GROUP_GROUP_H
#define TOOLS_TRAIN_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"

#define GROUP_MAX 64 /* processes that one program starts */

struct group_shared;

struct group {
    int rank, size;        /* of all processes */
    int local, local_size; /* of those on this host */
    bool mpi;
    struct group_shared *shared; /* memory of forked processes */
    int shares;                  /* calls of group_share() so far */
};

/* Returns the exit status of its process. */
typedef int group_work(struct group *g, void *user);

/* Calls work() in `size` processes of this host, or in this one where size is
 * 1; under mpirun in the processes that it has started, and size must be 1.
 * Returns the exit status: 0, or that of the process that failed first.  For
 * what goes wrong here, fail() is told why and returns the status. */
int group_run(int size, group_work *work, void *user,
              int (*fail)(const struct infer_error *err, void *user));

/* True for the first process that asks, so that a failure is printed once: it
 * prints it, then calls group_told().  The others wait for that, a second at
 * most, as the end of one process ends the rest. */
bool group_may_tell(const struct group *g);
void group_told(const struct group *g);

/* Copies the bytes of process 0, GROUP_SHARE at most, to all others. */
#define GROUP_SHARE 256
int group_share(struct group *g, void *data, size_t bytes,
                struct infer_error *err);

/* group_mpi.c, in builds with MPI. */
int group_mpi_run(group_work *work, void *user);
int group_mpi_share(void *data, size_t bytes, struct infer_error *err);

#endif
