/* SPDX-License-Identifier: Apache-2.0 */
/* Multipliers that tools take: those of multiplier_open(), and C functions. */
#ifndef TOOLS_MULTIPLIER_SOURCE_H
#define TOOLS_MULTIPLIER_SOURCE_H

#include "libinfer/multiplier/multiplier.h"

/* As multiplier_open(); a file of the name "*.c" with the word
 * multiplier_product is compiled by cc (or by the program that CC names) to a
 * program that prints the table (doc/multipliers.md).  EIO: the compiler or the
 * program cannot be run or fails; EFORMAT: what it prints is no table. */
int tool_open_multiplier(const char *text, struct infer_error *err,
                         struct multiplier **out);

#endif
