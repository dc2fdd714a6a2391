/* SPDX-License-Identifier: Apache-2.0 */
/* The minimum cut against every choice there is. */
#include "tests/unit/runtime/network.h"

#include "libinfer/plan/best/cut.h"

#define MOST 9

struct random_cut {
    struct cut cut;
    double floats[MOST], bytes[MOST];
    struct cut_tensor tensor[2 * MOST];
    int reader[2 * MOST * MOST];
};

/* Whole picoseconds, so that sums are exact. */
static double seconds(uint64_t *state, int most)
{
    return 1e-12 * (double)random_below(state, most);
}

static void draw(uint64_t *state, struct random_cut *r)
{
    int at = 0;

    memset(r, 0, sizeof *r);
    r->cut = (struct cut){.n = 1 + random_below(state, MOST),
                          .floats = r->floats,
                          .bytes = r->bytes,
                          .n_tensors = random_below(state, 2 * MOST),
                          .tensor = r->tensor,
                          .reader = r->reader};
    for (int i = 0; i < r->cut.n; i++) {
        r->floats[i] = seconds(state, 1000);
        r->bytes[i] = seconds(state, 1000);
    }
    for (int i = 0; i < r->cut.n_tensors; i++) {
        struct cut_tensor *t = &r->tensor[i];

        t->maker = random_below(state, r->cut.n + 1) - 1;
        t->floats_read = random_below(state, 4) == 0;
        t->quantise = seconds(state, 400);
        t->dequantise = seconds(state, 400);
        t->reader = at;
        for (int k = 0; k < r->cut.n; k++)
            if (random_below(state, 3) == 0)
                r->reader[at++] = k;
        t->n_reader = at - t->reader;
    }
}

/* The least seconds of all choices, and the fewest layers in 8 bits of those
 * that take them. */
static double least(const struct cut *c, int *fewest)
{
    double best = 1;

    for (unsigned set = 0; set < 1u << c->n; set++) {
        bool bytes[MOST];
        int n = 0;
        double now;

        for (int i = 0; i < c->n; i++)
            n += bytes[i] = (set >> i & 1) != 0;
        now = cut_seconds(c, bytes);
        if (now < best - 5e-13 || (now < best + 5e-13 && n < *fewest)) {
            best = now;
            *fewest = n;
        }
    }
    return best;
}

static void test_every_choice(void **unused)
{
    uint64_t state = 88172645463325252u;
    int mixed = 0;

    (void)unused;
    for (int i = 0; i < 400; i++) {
        struct infer_error err = {0};
        struct random_cut r;
        bool bytes[MOST];
        int fewest = 0, n = 0;

        draw(&state, &r);
        const double best = least(&r.cut, &fewest);
        assert_int_equal(cut_choose(&r.cut, &err, bytes), 0);
        const double got = cut_seconds(&r.cut, bytes);
        for (int k = 0; k < r.cut.n; k++)
            n += bytes[k];
        if (got > best + 5e-13 || n != fewest)
            fail_msg("draw %d: %g ps of %d, expected %g of %d", i, 1e12 * got,
                     n, 1e12 * best, fewest);
        mixed += n > 0 && n < r.cut.n;
    }
    assert_true(mixed > 100);
}

/* A chain of three whose middle is slower in 8 bits: it goes to floats if its
 * two conversions cost less than that. */
static void test_chain(void **unused)
{
    const double floats[3] = {10e-6, 10e-6, 10e-6};
    const double bytes[3] = {4e-6, 16e-6, 4e-6};
    const int reader[3] = {0, 1, 2};
    struct cut_tensor t[3] = {
        {.maker = -1, .reader = 0, .n_reader = 1, .quantise = 1e-6},
        {.maker = 0, .reader = 1, .n_reader = 1},
        {.maker = 1, .reader = 2, .n_reader = 1}};
    const struct cut c = {.n = 3,
                          .floats = floats,
                          .bytes = bytes,
                          .n_tensors = 3,
                          .tensor = t,
                          .reader = reader};
    bool on[3];

    (void)unused;
    for (int dear = 0; dear < 2; dear++) {
        t[1].quantise = t[2].quantise = dear ? 4e-6 : 2e-6;
        t[1].dequantise = t[2].dequantise = dear ? 4e-6 : 2e-6;
        assert_int_equal(cut_choose(&c, NULL, on), 0);
        assert_true(on[0]);
        assert_int_equal(on[1], dear);
        assert_true(on[2]);
        assert_float_equal(cut_seconds(&c, on), dear ? 25e-6 : 23e-6, 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_choice),
        cmocka_unit_test(test_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
