/* SPDX-License-Identifier: Apache-2.0 */
/* A run allocates nothing.  A program of its own, since every allocation of the
 * process counts: the threads of another test may end after the test, and a
 * thread of OpenMP loads libgcc when it ends. */
#include "libinfer/device/cpu_wait.h"
#include "tests/unit/memory/allocations.h"
#include "tests/unit/runtime/network.h"

/* Runs measure now and then how long threads wait for a core. */
static void test_measurement(void **unused)
{
#ifdef COUNT_ALLOCATIONS
    const int before = allocations;

    (void)unused;
    for (int i = 0; i < 3; i++)
        assert_true(cpu_wait_measure() >= 0);
    assert_int_equal(allocations, before);
#else
    (void)unused;
    skip();
#endif
}

/* ---- runs ---------------------------------------------------------- */

/* On the reference: what oneDNN allocates inside a call is its own. */
static void test_no_allocation(void **unused)
{
#ifdef COUNT_ALLOCATIONS
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array half = array_of(&state, DIMS(2, 3, 16, 16)), y;
    int before;

    y = run(s, &x, 1, 0);
    before = allocations;
    for (int i = 0; i < 3; i++)
        assert_int_equal(infer_session_run(s, &x, 1, &y, 1, NULL), 0);
    assert_int_equal(allocations, before);
    half.dtype = INFER_F16;
    memset(half.data, 0, half.bytes);
    assert_int_equal(infer_session_run(s, &half, 1, &y, 1, NULL), 0);
    assert_int_equal(allocations, before);
    free(half.data);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
    (void)unused;
#else
    (void)unused;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measurement),
        cmocka_unit_test(test_no_allocation),
    };

    /* The wait of idle threads is given, so that no team of threads begins
     * where other work takes the cores: the C library allocates for new
     * threads. */
    setenv("OMP_WAIT_POLICY", "passive", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
