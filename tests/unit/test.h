/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it needs before it. */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A case that takes no state: TEST(name) { ... } */
#define TEST(name) static void name(void **unused_ __attribute__((unused)))

#endif
