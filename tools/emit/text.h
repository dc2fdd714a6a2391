/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows. */
#ifndef TOOLS_EMIT_TEXT_H
#define TOOLS_EMIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Starts zeroed. */
struct emit_text {
    char *at; /* ends with NUL once something was added */
    size_t n, capacity;
    bool failed; /* out of memory: what was added since is lost */
};

void emit_text_add(struct emit_text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void emit_text_put(struct emit_text *t, const char *text, size_t bytes);
void emit_text_clear(struct emit_text *t);
/* "" while nothing was added. */
const char *emit_text_of(const struct emit_text *t);

#endif
