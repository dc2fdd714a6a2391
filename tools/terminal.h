/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool knows of the person in front of it: signals and the width of the
 * terminal. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

/* From now on the first SIGINT or SIGTERM is only noted, the second ends the
 * process. */
void terminal_catch_interrupts(void);
/* The noted signal, or 0. */
int terminal_interrupt(void);
/* Exit status of a program that a signal ended, as a shell reports it; 0 where
 * none was noted. */
int terminal_interrupt_code(void);

/* Columns of standard output: COLUMNS, else those of the terminal; 0 where it
 * is none (a file, a pipe). */
int terminal_columns(void);

#endif
