/* SPDX-License-Identifier: Apache-2.0 */
/* Constants as kernels want them: packed once for all plans that agree. */
#include "tests/unit/runtime/network.h"

#include "libinfer/device/device.h"
#include "libinfer/model/packed.h"

/* Packs by adding the problem's flag `deterministic` to every byte, so that
 * two problems may or may not come to the same bytes. */
static int pack_bytes(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    (void)err;
    for (size_t k = 0; k < e->packed[i]; k++)
        ((unsigned char *)dst)[k] =
            (unsigned char)(((const unsigned char *)src)[k] +
                            e->problem.deterministic);
    return 0;
}

static void test_packed_shared(void **unused)
{
    const struct kern_functions fn = {.pack = pack_bytes};
    const struct kern_row row = {.name = "packer", .fn = &fn};
    const int64_t dim[1] = {16};
    struct packed_cache *cache = packed_cache_new(2);
    struct constant *c = constant_new(INFER_F32, 1, dim);
    struct packed *plain, *wide, *a, *b, *again, *other;
    struct kern_exec e;
    struct device d;

    (void)unused;
    assert_int_equal(device_open("cpu", 1, NULL, NULL, &d), 0);
    memset(&e, 0, sizeof e);
    e.row = &row;
    e.problem.in[1] = kern_tensor_dense(INFER_F32, 1, dim, KERN_NCHW);
    e.problem.in[0] = kern_tensor_dense(INFER_F32, 1, dim, KERN_NCHW);
    e.packed[1] = 64;
    /* Another batch, the same bytes: one entry. */
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &a), 0);
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &again), 0);
    assert_ptr_equal(a, again);
    e.problem.in[0].dim[0] = 2;
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &b), 0);
    assert_ptr_equal(a, b);
    /* Other bytes: another. */
    e.problem.deterministic = true;
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &other), 0);
    assert_ptr_not_equal(a, other);
    assert_int_equal(((const char *)packed_data(other))[63], 1);
    assert_int_equal(packed_bytes(a), 64);
    /* Memory that is there is used where it is; another type is not. */
    assert_int_equal(packed_plain(cache, 1, c, INFER_F32, &d, NULL, &plain), 0);
    assert_ptr_equal(packed_data(plain), c->data);
    assert_int_equal(packed_plain(cache, 1, c, INFER_F64, &d, NULL, &wide), 0);
    assert_int_equal(packed_bytes(wide), 128);
    /* The entry keeps the constant whose memory it uses. */
    ((float *)(void *)c->data)[15] = 3.5f;
    constant_unref(c);
    assert_true(((const float *)packed_data(plain))[15] == 3.5f);
    packed_unref(cache, a);
    packed_unref(cache, again);
    packed_unref(cache, b);
    packed_unref(cache, other);
    packed_unref(cache, plain);
    packed_unref(cache, wide);
    packed_unref(cache, NULL);
    packed_cache_free(cache);
    device_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
