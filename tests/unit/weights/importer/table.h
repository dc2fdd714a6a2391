/* SPDX-License-Identifier: Apache-2.0 */
/* The whole test program of a table of lines.  A file that defines
 *     static int read_line(const char *line, char *said, size_t room);
 * and TABLE, the name of its .def file, includes this one at its end.  (Not
 * guarded: it is no header of declarations.) */
#include "tests/unit/weights/importer/memory_wrap.h"

static const struct line_row rows[] = {
#define ROW(line, code, word) {(line), (code), (word)},
#include TABLE
#undef ROW
};

TEST(test_lines)
{
    check_lines(rows, COUNT(rows), read_line);
}

static int read_row(size_t i, char *said, size_t room)
{
    return read_line(rows[i].line, said, room);
}

TEST(test_lines_without_memory)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        check_without_memory(i, read_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
