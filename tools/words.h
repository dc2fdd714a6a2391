/* SPDX-License-Identifier: Apache-2.0 */
/* A line of words in a buffer of fixed size: what does not fit is left out. */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct words {
    char *out;
    size_t bytes, used; /* of out; used < bytes, the final NUL not counted */
};

static inline void words_add(struct words *w, const char *fmt, va_list args)
{
    const int n = vsnprintf(w->out + w->used, w->bytes - w->used, fmt, args);

    if (n > 0)
        w->used += (size_t)n;
    if (w->used >= w->bytes)
        w->used = w->bytes - 1;
}

#endif
