/* SPDX-License-Identifier: Apache-2.0 */
/* The text arguments of pickle protocol 0. */
#ifndef WEIGHTS_PYTORCH_PICKLE_TEXT_H
#define WEIGHTS_PYTORCH_PICKLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0: *out is the value; 1: well formed but beyond int64; -1: malformed. */
int pickle_text_int(const unsigned char *text, size_t bytes, int64_t *out);
bool pickle_text_float(const unsigned char *text, size_t bytes, double *out);

/* 'quoted' with Python's escapes, to bytes; out has room for `bytes`. */
bool pickle_text_string(const unsigned char *text, size_t bytes,
                        unsigned char *out, size_t *out_bytes);
/* raw-unicode-escape (latin-1, \uXXXX, \UXXXXXXXX) to UTF-8; out has room for
 * 2 * bytes. */
bool pickle_text_unicode(const unsigned char *text, size_t bytes,
                         unsigned char *out, size_t *out_bytes);

/* UTF-8 form of a code point; returns its length, or 0 for surrogates and
 * values beyond U+10FFFF. */
size_t pickle_text_utf8(uint32_t c, unsigned char *out);

#endif
