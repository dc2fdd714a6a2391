/* SPDX-License-Identifier: Apache-2.0 */
/* The whole test program of a table of lines.  A file that defines
 *     static int read_line(const char *line, char *said, size_t room);
 * and TABLE, the name of its .def file, includes this one at its end.  (Not
 * guarded: it is no header of declarations.) */
TEST(test_lines)
{
    static const struct line_row rows[] = {
#define ROW(line, code, word) {(line), (code), (word)},
#include TABLE
#undef ROW
    };

    check_lines(rows, COUNT(rows), read_line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
