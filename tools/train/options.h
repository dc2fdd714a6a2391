/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `train`. */
#ifndef TOOLS_TRAIN_OPTIONS_H
#define TOOLS_TRAIN_OPTIONS_H

#include "tools/train/train.h"

/* Fields of struct train_request. */
extern const struct cli_option train_options[];
extern const char train_usage[];

void train_request_init(struct train_request *q);
/* Sets defaults that depend on other options and checks combinations; prints
 * every fault.  0 or -1. */
int train_request_finish(const struct cli *cli, struct train_request *q);

#endif
