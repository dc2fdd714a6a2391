/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that mpirun has started: this program starts itself under it, three
 * times.  Skipped where mpirun is not there.  tests/conformance/train_hosts.sh
 * starts it on two hosts, with two processes each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "tools/train/group/group.h"

#define RANKS 3

/* A way to be started, and what the processes then are. */
struct course {
    const char *name;
    int size, local_size;
    bool fails; /* process 1 does */
};

static const struct course courses[] = {
    {"pass", RANKS, RANKS, false},
    {"fail", RANKS, RANKS, true},
    {"hosts", 4, 2, false},
    {"hosts-fail", 4, 2, true},
};

/* What process 0 has reaches all; every place is taken once, the first host's
 * places first. */
static int work(struct group *g, void *user)
{
    const struct course *c = user;
    int value = g->rank == 0 ? 1234 : 0;
    char token[GROUP_SHARE] = "";

    if (g->size != c->size || g->local_size != c->local_size ||
        g->local != g->rank % c->local_size || !g->mpi)
        return 3;
    if (g->rank == 0)
        strcpy(token, "an id");
    if (group_share(g, &value, sizeof(value), NULL) < 0 || value != 1234 ||
        group_share(g, token, sizeof(token), NULL) < 0 ||
        strcmp(token, "an id") != 0)
        return 4;
    /* The others of a process that fails wait for it in vain. */
    if (c->fails && g->rank != 1)
        for (;;)
            pause();
    return c->fails ? 9 : 0;
}

static int fail(const struct infer_error *err, void *user)
{
    (void)user;
    fprintf(stderr, "%s\n", err->text);
    return 5;
}

/* The exit status of this program under mpirun; 127: there is none. */
static int under_mpirun(const char *self, const char *how)
{
    int status;
    const pid_t pid = fork();

    if (pid == 0) {
        execlp("mpirun", "mpirun", "--oversubscribe", "--allow-run-as-root",
               "-np", "3", self, how, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static int take_part(const char *name)
{
    for (size_t i = 0; i < sizeof(courses) / sizeof(courses[0]); i++)
        if (strcmp(courses[i].name, name) == 0)
            return group_run(1, work, (void *)&courses[i], fail);
    return 6;
}

int main(int argc, char **argv)
{
    int code;

    if (argc > 1)
        return take_part(argv[1]);
    code = under_mpirun(argv[0], "pass");
    if (code == 127) {
        printf("skipped: no mpirun\n");
        return 77;
    }
    if (code != 0) {
        printf("FAILED: exit status %d\n", code);
        return 1;
    }
    code = under_mpirun(argv[0], "fail");
    if (code != 9) {
        printf("FAILED: exit status %d, not 9\n", code);
        return 1;
    }
    printf("%d processes met, and ended with the one that failed\n", RANKS);
    return 0;
}
