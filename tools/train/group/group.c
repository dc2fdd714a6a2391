/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and watches the processes of a run on one host. */
#include "config.h"

#include "tools/train/group/group.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/error.h"

/* ---- shared memory ------------------------------------------------- */

struct group_shared {
    atomic_int telling; /* a process prints the reason of the failure */
    atomic_int told;    /* it has been printed */
    atomic_int written; /* calls of group_share() answered so far */
    atomic_int taken;   /* of all processes */
    unsigned char data[GROUP_SHARE];
};

bool group_may_tell(const struct group *g)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    if (!g->shared || atomic_exchange(&g->shared->telling, 1) == 0)
        return true;
    for (int i = 0; i < 1000 && !atomic_load(&g->shared->told); i++)
        nanosleep(&millisecond, NULL);
    return false;
}

void group_told(const struct group *g)
{
    if (g->shared)
        atomic_store(&g->shared->told, 1);
}

static void wait_until(atomic_int *counter, int value)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};

    /* If the other process has failed, the parent ends this one. */
    while (atomic_load(counter) < value)
        nanosleep(&millisecond, NULL);
}

int group_share(struct group *g, void *data, size_t bytes,
                struct infer_error *err)
{
    struct group_shared *s = g->shared;

    if (bytes > GROUP_SHARE)
        return error_set(err, INFER_EARGUMENT,
                         "%zu bytes are too many to share", bytes);
#ifdef HAVE_MPI
    if (g->mpi)
        return group_mpi_share(data, bytes, err);
#endif
    if (!s)
        return 0; /* a single process */
    if (g->rank == 0) {
        wait_until(&s->taken, g->shares * (g->size - 1));
        memcpy(s->data, data, bytes);
        atomic_fetch_add(&s->written, 1);
    } else {
        wait_until(&s->written, g->shares + 1);
        memcpy(data, s->data, bytes);
        atomic_fetch_add(&s->taken, 1);
    }
    g->shares++;
    return 0;
}

/* ---- processes ----------------------------------------------------- */

static pid_t child[GROUP_MAX];
static volatile sig_atomic_t children;

/* A terminal sends a signal to every process; one sent to this process only is
 * passed on. */
static void hand_on(int number, siginfo_t *info, void *context)
{
    const int before = errno;

    (void)context;
    if (info->si_code <= 0)
        for (int i = 0; i < children; i++)
            if (child[i] > 0)
                (void)kill(child[i], number);
    errno = before;
}

static void end_all(void)
{
    for (int i = 0; i < children; i++)
        if (child[i] > 0)
            (void)kill(child[i], SIGKILL);
}

/* Exit status of an ended process, as the shell reports it. */
static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits for all; the first failure ends the rest. */
static int watch(int size, int *killed_by, int *which)
{
    int first = 0;

    for (int left = size; left > 0;) {
        int status;
        const pid_t pid = waitpid(-1, &status, 0);

        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        for (int i = 0; i < size; i++) {
            if (child[i] != pid)
                continue;
            child[i] = 0;
            left--;
            if (first == 0 && status_of(status) != 0) {
                first = status_of(status);
                *killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
                *which = i;
                end_all();
            }
        }
    }
    return first;
}

static void become_member(struct group *g, pid_t parent, group_work *work,
                          void *user)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};

    sigemptyset(&plain.sa_mask);
    sigaction(SIGINT, &plain, NULL);
    sigaction(SIGTERM, &plain, NULL);
    /* The children end with the parent. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    const int code = work(g, user);

    fflush(NULL);
    if (code != 0)
        _exit(code); /* even with work on the GPU */
    exit(code);
}

/* Starts one process a GPU, before any driver is initialised: drivers do not
 * survive fork(). */
static int start(struct group *g, group_work *work, void *user,
                 struct infer_error *err)
{
    const pid_t self = getpid();

    fflush(NULL);
    for (int i = 0; i < g->size; i++) {
        const pid_t pid = fork();

        if (pid < 0) {
            end_all();
            return error_set(err, INFER_EMEMORY,
                             "cannot start process %d of %d: %s", i + 1,
                             g->size, strerror(errno));
        }
        g->rank = g->local = i;
        if (pid == 0)
            become_member(g, self, work, user);
        child[i] = pid;
        children = i + 1;
    }
    return 0;
}

static int run_here(struct group *g, group_work *work, void *user,
                    struct infer_error *err, int *code)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction before[2];
    int killed_by = 0, which = 0, rc;

    act.sa_sigaction = hand_on;
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, &before[0]);
    sigaction(SIGTERM, &act, &before[1]);
    children = 0;
    rc = start(g, work, user, err);
    *code = watch(children, &killed_by, &which);
    children = 0;
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    if (rc == 0 && killed_by)
        rc = error_set(err, INFER_EDEVICE,
                       "the process of GPU %d was ended by signal %d (%s)",
                       which, killed_by, strsignal(killed_by));
    return rc;
}

/* True if mpirun has started this process as one of several. */
static bool under_mpirun(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "MV2_COMM_WORLD_SIZE"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value && atoi(value) > 1)
            return true;
    }
    return false;
}

static int run_under_mpi(int size, group_work *work, void *user,
                         struct infer_error *err, int *code)
{
    if (size > 1)
        return error_set(err, INFER_EARGUMENT,
                         "mpirun starts a process for each GPU: leave --gpus "
                         "out");
#ifdef HAVE_MPI
    *code = group_mpi_run(work, user);
    return 0;
#else
    (void)work;
    (void)user;
    (void)code;
    return error_set(err, INFER_EUNSUPPORTED,
                     "started by mpirun, but this build has no MPI (configure "
                     "--with-mpi)");
#endif
}

int group_run(int size, group_work *work, void *user,
              int (*fail)(const struct infer_error *err, void *user))
{
    struct group g = {.size = size, .local_size = size};
    struct infer_error err = {0};
    int code = 0, rc;

    if (under_mpirun()) {
        rc = run_under_mpi(size, work, user, &err, &code);
        return rc < 0 ? fail(&err, user) : code;
    }
    if (size == 1)
        return work(&g, user);
    g.shared = mmap(NULL, sizeof(*g.shared), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g.shared == MAP_FAILED) {
        error_set(&err, INFER_EMEMORY, "no shared memory: %s", strerror(errno));
        return fail(&err, user);
    }
    rc = run_here(&g, work, user, &err, &code);
    if (rc < 0)
        code = fail(&err, user);
    (void)munmap(g.shared, sizeof(*g.shared));
    return code;
}
