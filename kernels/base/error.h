/* SPDX-License-Identifier: Apache-2.0 */
/* Filling struct infer_error.  All functions accept err == NULL. */
#ifndef KERNELS_BASE_ERROR_H
#define KERNELS_BASE_ERROR_H

#include "include/infer.h"

#if defined(__GNUC__)
#define ERROR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ERROR_PRINTF(fmt, args)
#endif

/* Sets code and text and returns code, for `return error_set(...)`.  Control
 * characters, invalid UTF-8 and bidirectional controls in the result (names
 * come from untrusted files) are written as \xNN. */
int error_set(struct infer_error *err, int code, const char *fmt, ...)
    ERROR_PRINTF(3, 4);

/* Adds one more line to a report: the first call sets code, later ones keep
 * it.  Lines that no longer fit are counted as "... and N more".  A report
 * starts with error_clear().  Returns code. */
int error_add(struct infer_error *err, int code, const char *fmt, ...)
    ERROR_PRINTF(3, 4);

/* Puts "prefix: " before every line of a text that is set already. */
void error_prefix(struct infer_error *err, const char *fmt, ...)
    ERROR_PRINTF(2, 3);

void error_clear(struct infer_error *err);

#endif
