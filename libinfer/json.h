/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from strangers: cJSON behind a strict check.  Used for model files,
 * architecture files, safetensors headers and Keras configurations. */
#ifndef LIBINFER_JSON_H
#define LIBINFER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "libinfer/infer.h"

#define JSON_MAX_DEPTH 64

/* Parses exactly one JSON text (RFC 8259) of `bytes` bytes; white space round
 * it is allowed, anything else after it is not.  Refused: depth above
 * JSON_MAX_DEPTH, duplicate keys, invalid UTF-8, lone surrogates, \u0000,
 * numbers outside the grammar or the range of double, NaN and Infinity.  With
 * allow_nan, the tokens NaN, Infinity and -Infinity, which Python's json
 * writes, read as null.  The time is linear in bytes.  EFORMAT names the byte
 * offset.  *out: cJSON_Delete(). */
int json_parse(const char *text, size_t bytes, bool allow_nan,
               struct infer_error *err, cJSON **out);

/* Members of an object; NULL or false where absent or of another type. */
const cJSON *json_member(const cJSON *object, const char *key);
const char *json_string(const cJSON *object, const char *key);
bool json_bool(const cJSON *object, const char *key, bool otherwise);
/* True where item is a number that is an exact integer in [min, max]. */
bool json_int64(const cJSON *item, int64_t min, int64_t max, int64_t *out);
double json_double(const cJSON *object, const char *key, double otherwise);

#endif
