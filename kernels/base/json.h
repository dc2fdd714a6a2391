/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from untrusted files: cJSON after a strict check.  Used for model files,
 * architecture files, safetensors headers and Keras configurations. */
#ifndef KERNELS_BASE_JSON_H
#define KERNELS_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "include/infer.h"

#define JSON_MAX_DEPTH 64
/* A value costs some 100 bytes in memory, but may be 2 bytes of text: a tree
 * may take as many bytes as its text and this. */
#define JSON_FREE_BYTES ((size_t)24 << 20)
#define JSON_MAX_NUMBER 63 /* characters; cJSON's own limit */

/* Parses exactly one JSON text (RFC 8259) of `bytes` bytes; white space round
 * it is allowed, anything else after it is not, nor is a byte order mark
 * before it.  Refused: depth above JSON_MAX_DEPTH, a tree of more bytes than
 * the limit above, duplicate keys, invalid UTF-8, lone surrogates, \u0000,
 * numbers outside the grammar or the range of double or longer than
 * JSON_MAX_NUMBER, NaN and Infinity.  With allow_nan, the tokens NaN, Infinity
 * and -Infinity, which Python's json writes, read as null.  The time is linear
 * in bytes. EFORMAT names the byte offset (of a duplicate key, the key). *out:
 * cJSON_Delete(). */
int json_parse(const char *text, size_t bytes, bool allow_nan,
               struct infer_error *err, cJSON **out);
/* As json_parse(), of a text in a file of `room` bytes, which are the limit of
 * the tree where they are more than the text has. */
int json_parse_within(const char *text, size_t bytes, size_t room,
                      bool allow_nan, struct infer_error *err, cJSON **out);

/* Members of an object; NULL or false where absent or of another type. */
const cJSON *json_member(const cJSON *object, const char *key);
const char *json_string(const cJSON *object, const char *key);
bool json_bool(const cJSON *object, const char *key, bool otherwise);
/* True where item is a number that is an exact integer in [min, max], and at
 * most 2^53 in size: beyond that a double no longer tells integers apart. */
bool json_int64(const cJSON *item, int64_t min, int64_t max, int64_t *out);
double json_double(const cJSON *object, const char *key, double otherwise);

/* Both give item to an object or array, which may be NULL where there was no
 * memory for it.  They take item over also on failure, when it is deleted. */
bool json_put(cJSON *object, const char *key, cJSON *item);
bool json_append(cJSON *array, cJSON *item);

/* Whether the bytes are UTF-8 (RFC 3629) without a NUL. */
bool json_is_utf8(const char *text, size_t bytes);

#endif
