/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of JSON that leave it JSON, for the mutators of files that hold it.
 */
#ifndef TESTS_FUZZ_MUTATE_JSON_H
#define TESTS_FUZZ_MUTATE_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Whether the bytes begin as an object or an array does. */
int json_begins(const uint8_t *data, size_t size);
/* Changes one value in place: another number, kind or string, a copy of
 * another value of the text, twice, or not there.  The new size, at most room;
 * 0 where the text has no value to change.  state is not 0. */
size_t json_change(uint8_t *data, size_t size, size_t room, unsigned *state);

#endif
