/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a study: each a process of this program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "tools/train/study/study.h"

#define MAX_OUTPUT (1 << 16) /* bytes */

extern char **environ;

static void path_of(const struct study_run *r, const char *folder,
                    const char *ending, char *path, size_t room)
{
    snprintf(path, room, "%s/%s%s", folder, r->name, ending);
}

/* ---- the file of a run --------------------------------------------- */

/* The content of a small file, or NULL. */
static cJSON *read_json(const char *path)
{
    char *text = malloc(MAX_OUTPUT);
    FILE *f = fopen(path, "rb");
    const size_t n = f && text ? fread(text, 1, MAX_OUTPUT, f) : 0;
    struct infer_error ignored = {0};
    cJSON *json = NULL;

    if (n > 0 && n < MAX_OUTPUT &&
        json_parse(text, n, false, &ignored, &json) < 0)
        json = NULL;
    if (f)
        fclose(f);
    free(text);
    return json;
}

/* Takes the figures of a run that has ended.  False: there are none. */
static bool take(struct study_run *r, const cJSON *json)
{
    r->accuracy = json_double(json, "val_accuracy", -1);
    r->loss = json_double(json, "val_loss", 0);
    r->seconds = json_double(json, "seconds", 0);
    r->diverged = json_bool(json, "diverged", false);
    r->done = r->accuracy >= 0 || r->diverged;
    return r->done;
}

/* What the folder has of a run: *begun if the same command was started. */
static void look(struct study_run *r, const char *folder, bool *begun)
{
    char path[4096];
    cJSON *json;

    path_of(r, folder, ".json", path, sizeof path);
    json = read_json(path);
    *begun =
        json && cJSON_Compare(json_member(json, "command"), r->command, true);
    if (*begun)
        take(r, json);
    cJSON_Delete(json);
}

/* Writes the file of a run; of one that is not done, the command alone. */
static int keep(const struct study_run *r, const char *folder,
                struct infer_error *err)
{
    cJSON *json = cJSON_CreateObject();
    char path[4096];

    path_of(r, folder, ".json", path, sizeof path);
    cJSON_AddItemToObject(json, "command", cJSON_Duplicate(r->command, true));
    if (r->diverged) {
        cJSON_AddTrueToObject(json, "diverged");
    } else if (r->done) {
        cJSON_AddNumberToObject(json, "val_accuracy", r->accuracy);
        cJSON_AddNumberToObject(json, "val_loss", r->loss);
    }
    if (r->done)
        cJSON_AddNumberToObject(json, "seconds", r->seconds);
    return cli_write_json(path, json, false, err);
}

/* ---- processes ----------------------------------------------------- */

/* Reads all that fits of a pipe, and the rest to its end. */
static size_t drain(int fd, char *text)
{
    char more[4096];
    size_t n = 0;

    for (;;) {
        const bool room = n < MAX_OUTPUT;
        const ssize_t got = read(fd, room ? text + n : more,
                                 room ? MAX_OUTPUT - n : sizeof more);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return n;
        n += room ? (size_t)got : 0;
    }
}

static int start(char *const *argument, int out[2], struct infer_error *err,
                 pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int rc;

    if (pipe2(out, O_CLOEXEC) < 0)
        return error_set(err, INFER_EIO, "pipe: %s", strerror(errno));
    rc = posix_spawn_file_actions_init(&actions);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        if (rc == 0)
            rc = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argument,
                             environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(out[1]);
    if (rc == 0)
        return 0;
    close(out[0]);
    return error_set(err, INFER_EIO, "train: %s", strerror(rc));
}

/* Runs train; *code: its exit code; text: its standard output, *bytes. */
static int run_process(char *const *argument, char *text, size_t *bytes,
                       struct infer_error *err, int *code)
{
    int out[2], status = 0;
    pid_t pid;
    const int rc = start(argument, out, err, &pid);

    if (rc < 0)
        return rc;
    *bytes = drain(out[0], text);
    close(out[0]);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(err, INFER_EIO, "train: %s", strerror(errno));
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}

enum how { FRESH, RESUMED, JUDGED };

static char *word(const char *text)
{
    return (char *)(uintptr_t)text; /* posix_spawn() changes nothing */
}

/* The arguments of a run: its command and where it writes, or to judge the
 * weights that it has written.  NULL: out of memory; free() frees the list. */
static char **arguments_of(const struct study_run *r, const char *weights,
                           const char *from, enum how how)
{
    const int n = cJSON_GetArraySize(r->command);
    char **a = calloc((size_t)n + 8, sizeof *a);
    const cJSON *item;
    int k = 0;

    if (!a)
        return NULL;
    a[k++] = word("train");
    cJSON_ArrayForEach(item, r->command)
    {
        a[k++] = item->valuestring;
    }
    a[k++] = word("--json");
    a[k++] = word("-q");
    if (how == JUDGED) {
        a[k++] = word("--evaluate");
        a[k++] = word(from);
    } else if (r->direction != STUDY_INFERENCE) {
        a[k++] = word("-o");
        a[k++] = word(weights);
    }
    if (how == RESUMED)
        a[k++] = word("--resume");
    return a;
}

/* Runs the command and takes the figures that it prints. */
static int run_command(struct study_run *r, const char *weights, enum how how,
                       struct infer_error *err, int *code)
{
    char *text = malloc(MAX_OUTPUT), from[4200];
    cJSON *json = NULL;
    size_t bytes = 0;

    snprintf(from, sizeof from, "--init-from=%s", weights);
    char **argument = arguments_of(r, weights, from, how);
    int rc = text && argument ? run_process(argument, text, &bytes, err, code)
                              : error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0 && *code == CLI_OK) {
        rc = json_parse(text, bytes, false, err, &json);
        if (rc == 0 && !take(r, json))
            rc = error_set(err, INFER_EFORMAT,
                           "no accuracy: the data has no test pictures");
        cJSON_Delete(json);
    }
    free(argument);
    free(text);
    return rc;
}

static int make_run(struct study_run *r, const char *folder, bool begun,
                    struct infer_error *err, int *code)
{
    char weights[4096];
    struct stat st;
    const double begin = cli_now();

    path_of(r, folder, ".safetensors", weights, sizeof weights);
    /* --resume and --init-from exclude each other. */
    const bool resume =
        begun && r->direction < STUDY_FINE_TUNE && stat(weights, &st) == 0;
    int rc = keep(r, folder, err);
    if (rc == 0)
        rc = run_command(r, weights, resume ? RESUMED : FRESH, err, code);
    /* A checkpoint of the last step is not judged again when resumed. */
    if (rc == 0 && *code == CLI_OK && resume)
        rc = run_command(r, weights, JUDGED, err, code);
    /* The exit code of training that does not converge. */
    r->diverged = rc == 0 && *code == CLI_MISMATCH &&
                  r->direction != STUDY_EXACT && r->direction < STUDY_FINE_TUNE;
    if (r->diverged)
        *code = CLI_OK;
    r->done = rc == 0 && *code == CLI_OK;
    r->seconds = cli_now() - begin;
    return r->done ? keep(r, folder, err) : rc;
}

int study_make(const struct cli *cli, struct study *s, const char *folder,
               struct infer_error *err, int *code)
{
    int rc = 0;

    *code = 0;
    for (int i = 0; rc == 0 && *code == 0 && i < s->runs; i++) {
        struct study_run *r = &s->run[i];
        bool begun;
        look(r, folder, &begun);
        if (r->done)
            continue;
        if (cli->verbosity >= 0)
            cli_error(cli, "run %d of %d: %s", i + 1, s->runs, r->name);
        rc = make_run(r, folder, begun, err, code);
        if (rc < 0)
            error_prefix(err, "%s", r->name);
        if (rc == 0 && *code == 0)
            rc = study_report(s, folder, false, err);
    }
    return rc;
}

int study_main(const struct cli *cli, const char *path, const char *folder)
{
    struct infer_error err = {0};
    struct study s = {0};
    int code = 0;
    int rc = study_read(path, folder, &err, &s);

    if (rc == 0 && mkdir(folder, 0777) < 0 && errno != EEXIST)
        rc = error_set(&err, INFER_EIO, "%s: %s", folder, strerror(errno));
    if (rc == 0)
        rc = study_make(cli, &s, folder, &err, &code);
    if (rc == 0 && code == 0)
        rc = study_report(&s, folder, true, &err);
    study_clear(&s);
    return rc < 0 ? (int)cli_fail(cli, &err) : code;
}
