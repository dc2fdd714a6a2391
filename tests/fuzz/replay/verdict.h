/* SPDX-License-Identifier: Apache-2.0 */
/* How the inputs of replay.c end (verdict.c). */
#ifndef TESTS_FUZZ_VERDICT_H
#define TESTS_FUZZ_VERDICT_H

#include <stdbool.h>

/* Takes the settings from the environment; false if a file cannot be opened. */
bool verdict_open(void);
/* Round each input; in_pack: of a pack or a mutant of one, whose ends are
 * recorded. */
void verdict_begin(void);
void verdict_end(bool in_pack);
/* 1 if an input ended in another way than recorded. */
int verdict_close(void);

#endif
