/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it needs before it. */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A rank and its dimensions: DIMS(1, 3, 8, 8). */
#define DIMS(...)                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])     \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
/* Values and their number: IN(x, w, -1). */
#define IN(...)                                                                \
    (int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* A case that takes no state: TEST(name) { ... } */
#define TEST(name) static void name(void **unused_ __attribute__((unused)))

#endif
