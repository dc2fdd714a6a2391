/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load.h"

#include <math.h>

#include "libinfer/device/cpu_wait.h"

/* Part of the time from which a note is worth its line. */
#define MUCH 0.1

double load_waited(void)
{
    return cpu_wait_measure();
}

double load_note(const struct cli *cli, double waited, double seconds,
                 int threads)
{
    /* Threads besides those of a run, such as loaders, wait too. */
    const double part = seconds > 0 ? fmin(waited / (seconds * threads), 1) : 0;

    if (cli->verbosity >= 0 && part >= MUCH)
        cli_error(
            cli,
            "note: the threads waited for a core %.0f%% of the time: other "
            "work runs on this machine, and times vary; fewer --threads may "
            "be faster",
            100 * part);
    return part;
}
