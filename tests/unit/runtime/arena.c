/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: what lives at the same time lies apart, and little is wasted. */
#include "tests/unit/runtime/network.h"

#include "libinfer/memory/arena.h"

static void check_arena(const struct arena_item *item, int n, size_t total)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(item[i].offset % ARENA_ALIGN, 0);
        assert_true(item[i].offset + item[i].bytes <= total);
        for (int k = 0; k < i; k++) {
            bool together =
                item[i].first <= item[k].last && item[k].first <= item[i].last;
            bool apart = item[i].offset + item[i].bytes <= item[k].offset ||
                         item[k].offset + item[k].bytes <= item[i].offset;

            if (together && !apart)
                fail_msg("items %d and %d overlap", i, k);
        }
    }
}

static void test_random(void **unused)
{
    struct arena_item item[60];
    uint64_t state = 3;

    (void)unused;
    for (int round = 0; round < 200; round++) {
        int n = 1 + random_below(&state, 60);
        size_t total, alone, live, most = 0;

        for (int i = 0; i < n; i++) {
            item[i].bytes = (size_t)random_below(&state, 5000);
            item[i].first = random_below(&state, 40) - 1;
            item[i].last = item[i].first + random_below(&state, 10);
        }
        assert_int_equal(arena_place(item, n, 0, NULL, &alone), 0);
        check_arena(item, n, alone);
        assert_int_equal(arena_place(item, n, 1, NULL, &total), 0);
        check_arena(item, n, total);
        assert_true(total <= alone);
        for (int step = -1; step < 50; step++) {
            live = 0;
            for (int i = 0; i < n; i++)
                if (item[i].first <= step && step <= item[i].last)
                    live += (item[i].bytes + 63) / 64 * 64;
            most = live > most ? live : most;
        }
        assert_true(total >= most);
        assert_true(total <= 2 * most + 64);
    }
}

/* A chain needs two buffers, whatever its length. */
static void test_chain(void **unused)
{
    struct arena_item item[100];
    size_t total;

    (void)unused;
    for (int i = 0; i < 100; i++)
        item[i] = (struct arena_item){.bytes = 1000, .first = i, .last = i + 1};
    assert_int_equal(arena_place(item, 100, 1, NULL, &total), 0);
    assert_int_equal(total, 2 * 1024);
    check_arena(item, 100, total);
}

static void test_overflow(void **unused)
{
    struct arena_item item[2] = {{.bytes = SIZE_MAX - 100, .last = 1},
                                 {.bytes = SIZE_MAX / 2, .last = 1}};
    struct infer_error err;
    size_t total;

    (void)unused;
    assert_int_equal(arena_place(item, 2, 1, &err, &total), INFER_EMEMORY);
    item[0].bytes = SIZE_MAX;
    assert_int_equal(arena_place(item, 1, 1, &err, &total), INFER_EMEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
