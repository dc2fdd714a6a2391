/* SPDX-License-Identifier: Apache-2.0 */
/* Whether other work takes the cores away. */
#ifndef TOOLS_LOAD_H
#define TOOLS_LOAD_H

#include "tools/cli.h"

/* Seconds that the threads of this process, those that live, have been ready to
 * run but had no core.  0 where the system does not say. */
double load_waited(void);
/* A note where the threads waited for a tenth of their time or more.  waited:
 * the difference of two load_waited(), `seconds` apart.  Returns the share. */
double load_note(const struct cli *cli, double waited, double seconds,
                 int threads);

#endif
