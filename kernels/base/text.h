/* SPDX-License-Identifier: Apache-2.0 */
/* Text from untrusted files: checks of UTF-8, control characters, and how names
 * begin and end. */
#ifndef KERNELS_BASE_TEXT_H
#define KERNELS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed UTF-8 sequence (RFC 3629) at s, of which `left`
 * bytes are there, and its code point; 0 where it is malformed, overlong or a
 * surrogate.  NUL counts as a character. */
size_t text_utf8(const void *s, size_t left, uint32_t *code);
bool text_is_utf8(const void *text, size_t bytes);

/* Copies text, with what a terminal must not see (control characters but
 * newline, malformed UTF-8, marks that reorder text) as \xNN.  Returns the
 * bytes written, the final NUL not counted; stops before a piece that does not
 * fit.  The result is at most four times as long. */
size_t text_escape(char *out, size_t room, const char *text);
/* The same for a message of this format.  Its lines are those of the format, or
 * of a report that is handed on whole ("%s"): a newline in the name of a file
 * or of a tensor becomes \x0A. */
size_t text_escape_message(char *out, size_t room, const char *format,
                           const char *text);

bool text_begins(const char *text, const char *with);
bool text_ends(const char *text, const char *with);
/* Of text that need not end with NUL. */
bool text_part_ends(const char *text, size_t bytes, const char *with);

/* Levenshtein distance of the first 63 bytes of two words: for "did you
 * mean". */
size_t text_distance(const char *a, const char *b);

#endif
