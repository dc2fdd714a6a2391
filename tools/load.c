/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load.h"

#include <dirent.h>
#include <stdio.h>

/* Part of the time from which a note is worth its line. */
#define MUCH 0.1

/* Nanoseconds on a core, nanoseconds without one (schedstat of Linux). */
static double waited_of(const char *thread)
{
    char path[64];
    double run = 0, wait = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
    f = fopen(path, "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%lf %lf", &run, &wait) != 2)
        wait = 0;
    fclose(f);
    return 1e-9 * wait;
}

double load_waited(void)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    double sum = 0;

    if (threads == NULL)
        return 0;
    while ((entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            sum += waited_of(entry->d_name);
    closedir(threads);
    return sum;
}

void load_note(const struct cli *cli, double waited, double seconds,
               int threads)
{
    const double part = waited / (seconds * threads);

    if (cli->verbosity >= 0 && seconds > 0 && part >= MUCH)
        cli_error(
            cli,
            "note: the threads waited for a core %.0f%% of the time: other "
            "work runs on this machine; OMP_WAIT_POLICY=passive or fewer "
            "--threads may be faster then",
            100 * part);
}
