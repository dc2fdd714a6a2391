/* SPDX-License-Identifier: Apache-2.0 */
/* Signals and the width of the terminal. */
#include "tools/terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t noted;

static void note(int number)
{
    noted = number;
}

void terminal_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note,
                               .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int terminal_interrupt(void)
{
    return (int)noted;
}

int terminal_interrupt_code(void)
{
    return noted ? 128 + (int)noted : 0;
}

int terminal_columns(void)
{
    const char *text = getenv("COLUMNS");
    const long given = text ? strtol(text, NULL, 10) : 0;
    struct winsize size;

    if (given > 0 && given < 10000)
        return (int)given;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        return 0;
    return size.ws_col;
}
