/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on views: strides, memory lent by a session, memory of a GPU, DLPack. */
#include "include/infer_dlpack.h"
#include "libinfer/device/device.h"
#include "tests/unit/runtime/network.h"

static struct infer_tensor tensor_of(const struct infer_array *a)
{
    struct infer_tensor t = {
        .dtype = a->dtype, .rank = a->rank, .data = a->data, .bytes = a->bytes};

    memcpy(t.dim, a->dim, sizeof t.dim);
    return t;
}

/* The same images as N,H,W,C, to be read through strides. */
static float *channels_last(const struct infer_array *a, int64_t *stride)
{
    const int64_t n = a->dim[0], c = a->dim[1], h = a->dim[2], w = a->dim[3];
    float *to = malloc(a->bytes);
    const float *from = a->data;

    assert_non_null(to);
    for (int64_t i = 0; i < n * c; i++)
        for (int64_t p = 0; p < h * w; p++)
            to[(i / c * h * w + p) * c + i % c] = from[i * h * w + p];
    stride[0] = h * w * c;
    stride[1] = 1;
    stride[2] = w * c;
    stride[3] = c;
    return to;
}

/* Strides give the same bits, in one run and in micro-batches, whose parts
 * begin inside the view; the output is lent. */
static void check_strides(int64_t batch, enum infer_backend backend)
{
    uint64_t state = 11;
    struct infer_array x = array_of(&state, DIMS(batch, 3, 16, 16)), want;
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, backend, false);
    struct infer_tensor in = tensor_of(&x), out = {0};
    struct infer_error err = {0};
    int64_t stride[4];

    want = run(s, &x, 1, 0);
    in.data = channels_last(&x, stride);
    in.stride = stride;
    if (infer_session_run_tensors(s, &in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.memory, INFER_MEMORY_HOST);
    assert_null(out.stride);
    assert_int_equal(out.rank, 2);
    assert_int_equal(out.dim[0], batch);
    assert_int_equal(out.bytes, want.bytes);
    assert_ptr_not_equal(out.data, want.data);
    assert_memory_equal(out.data, want.data, want.bytes);
    free(in.data);
    free(x.data);
    free(want.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

TEST(test_strides)
{
    check_strides(1, INFER_BACKEND_REF);
    check_strides(3, INFER_BACKEND_AUTO);
    check_strides(300, INFER_BACKEND_AUTO);
}

/* Rows in reverse, and one image for all of a batch. */
TEST(test_negative_and_zero)
{
    uint64_t state = 12;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), all, want;
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_tensor in = tensor_of(&x), out = {0};
    struct infer_error err = {0};
    const int64_t stride[] = {0, 256, -16, 1};
    float *pixels = x.data;

    all = array_of(&state, DIMS(2, 3, 16, 16));
    for (int i = 0; i < 2 * 3 * 256; i++)
        ((float *)all.data)[i] =
            pixels[i / 256 % 3 * 256 + (15 - i / 16 % 16) * 16 + i % 16];
    want = run(s, &all, 1, 0);
    in.dim[0] = 2;
    in.stride = stride;
    in.data = pixels + (size_t)15 * 16;
    in.bytes = x.bytes - (size_t)15 * 16 * sizeof(float);
    if (infer_session_run_tensors(s, &in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_memory_equal(out.data, want.data, want.bytes);
    free(all.data);
    free(want.data);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

TEST(test_caller_memory)
{
    uint64_t state = 13;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), want;
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_tensor in = tensor_of(&x), out = {0}, before;
    struct infer_error err = {0};
    float y[10];

    want = run(s, &x, 1, 0);
    in.name = "x";
    out.name = "probability";
    out.data = y;
    out.bytes = sizeof y - 1;
    before = out;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "room for 39 bytes, 40 needed");
    assert_memory_equal(&out, &before, sizeof out);
    out.bytes = sizeof y;
    assert_int_equal(infer_session_run_tensors(s, &in, 1, &out, 1, &err), 0);
    assert_ptr_equal(out.data, y);
    assert_memory_equal(y, want.data, sizeof y);
    free(want.data);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

TEST(test_refused)
{
    uint64_t state = 14;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16));
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_tensor in = tensor_of(&x), out = {0};
    int64_t stride[4] = {768, 256, 16, 2};
    struct infer_error err = {0};

    in.stride = stride; /* one element too far */
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "3072 bytes of data, expected 3132");
    stride[3] = INT64_MAX / 4;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "cannot be counted");
    stride[3] = INT64_MIN;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "cannot be counted");
    in.stride = NULL;
    in.memory = INFER_MEMORY_CUDA;
    in.device = 1;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EUNSUPPORTED,
            "'x': memory of cuda:1, and the session's "
            "device is cpu");
    in.memory = (enum infer_memory)7;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "7 is no kind of memory");
    in.memory = INFER_MEMORY_HOST;
    out.data = x.data;
    out.bytes = x.bytes;
    out.memory = INFER_MEMORY_CUDA;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EUNSUPPORTED, "output 'probability': memory of cuda:0");
    REFUSED(infer_session_run_tensors(NULL, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "no session");
    REFUSED(infer_session_run_tensors(s, NULL, 1, &out, 1, &err),
            INFER_EARGUMENT, "inputs: NULL given");
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- DLPack -------------------------------------------------------- */

static void count_release(void *user)
{
    ++*(int *)user;
}

/* Every type, there and back. */
TEST(test_dlpack_types)
{
    for (int type = INFER_F64; type < INFER_DTYPE_COUNT; type++) {
        struct infer_tensor t = {.dtype = (enum infer_dtype)type,
                                 .rank = 2,
                                 .dim = {3, 5},
                                 .data = &t,
                                 .memory = INFER_MEMORY_CUDA,
                                 .device = 2},
                            back;
        struct infer_dlpack_versioned *dl = NULL;
        struct infer_error err = {0};
        int released = 0;

        assert_int_equal(infer_tensor_to_dlpack(&t, INFER_DLPACK_READ_ONLY,
                                                count_release, &released, &err,
                                                &dl),
                         0);
        assert_int_equal(dl->major, 1);
        assert_int_equal(dl->flags, INFER_DLPACK_READ_ONLY);
        assert_int_equal(dl->tensor.device_type, INFER_DLPACK_CUDA);
        assert_int_equal(dl->tensor.device_id, 2);
        assert_int_equal(dl->tensor.strides[0], 5);
        assert_int_equal(infer_tensor_from_dlpack(&dl->tensor, &err, &back), 0);
        assert_int_equal(back.dtype, type);
        assert_ptr_equal(back.data, &t);
        assert_int_equal(back.device, 2);
        assert_int_equal(back.bytes,
                         15 * infer_dtype_size((enum infer_dtype)type));
        assert_int_equal(released, 0);
        dl->deleter(dl);
        assert_int_equal(released, 1);
    }
}

TEST(test_dlpack_refused)
{
    int64_t shape[] = {2, INT64_MAX}, stride[] = {1, 1};
    struct infer_dlpack_tensor dl = {.data = shape,
                                     .device_type = INFER_DLPACK_CPU,
                                     .ndim = 2,
                                     .code = 2,
                                     .bits = 32,
                                     .lanes = 1,
                                     .shape = shape};
    struct infer_dlpack_managed *out = NULL;
    struct infer_tensor t = {.dtype = INFER_F32, .rank = 9};
    struct infer_error err = {0};
    int released = 0;

    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EARGUMENT,
            "cannot be counted");
    shape[1] = -1;
    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EARGUMENT,
            "cannot be counted");
    shape[1] = 3;
    dl.strides = stride;
    stride[0] = INT64_MAX;
    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EARGUMENT,
            "cannot be counted");
    stride[0] = 0;
    dl.byte_offset = 8;
    assert_int_equal(infer_tensor_from_dlpack(&dl, &err, &t), 0);
    assert_ptr_equal(t.data, &shape[1]);
    assert_int_equal(t.bytes, 12); /* one row for both */
    dl.lanes = 4;
    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EUNSUPPORTED,
            "4 lanes");
    dl.lanes = 1;
    dl.device_type = 10;
    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EUNSUPPORTED,
            "device type 10");
    dl.ndim = 9;
    REFUSED(infer_tensor_from_dlpack(&dl, &err, &t), INFER_EARGUMENT,
            "9 dimensions");
    t.rank = 9;
    REFUSED(
        infer_tensor_to_dlpack_old(&t, count_release, &released, &err, &out),
        INFER_EARGUMENT, "impossible");
    assert_int_equal(released, 1);
}

/* From an array of another library through a session into another array. */
TEST(test_dlpack_run)
{
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), want;
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_tensor view = tensor_of(&x), in, out = {0};
    struct infer_dlpack_managed *dl = NULL;
    struct infer_error err = {0};
    int released = 0;

    want = run(s, &x, 1, 0);
    assert_int_equal(infer_tensor_to_dlpack_old(&view, NULL, NULL, &err, &dl),
                     0);
    assert_int_equal(infer_tensor_from_dlpack(&dl->tensor, &err, &in), 0);
    assert_ptr_equal(in.data, x.data);
    assert_int_equal(infer_session_run_tensors(s, &in, 1, &out, 1, &err), 0);
    dl->deleter(dl);
    assert_int_equal(
        infer_tensor_to_dlpack_old(&out, count_release, &released, &err, &dl),
        0);
    assert_ptr_equal(dl->tensor.data, out.data);
    assert_memory_equal(dl->tensor.data, want.data, want.bytes);
    dl->deleter(dl);
    assert_int_equal(released, 1);
    free(want.data);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- memory of a GPU ----------------------------------------------- */

/* One run with the input at this address; the output lent or to memory of the
 * GPU. */
static void run_on_gpu(struct infer_session *s, const struct device *d,
                       struct infer_tensor in, unsigned char *data,
                       void *output, const struct infer_array *want)
{
    struct infer_tensor out = {
        .data = output, .bytes = want->bytes, .memory = INFER_MEMORY_CUDA};
    struct infer_array got = *want;
    struct infer_error err = {0};

    in.memory = INFER_MEMORY_CUDA;
    in.data = data;
    if (infer_session_run_tensors(s, &in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.memory, INFER_MEMORY_CUDA);
    if (output)
        assert_ptr_equal(out.data, output);
    got.data = malloc(out.bytes);
    assert_int_equal(d->ops->copy_out(d, got.data, out.data, out.bytes, &err),
                     0);
    assert_close(&got, want, 1e-4);
    free(got.data);
}

/* Launched, recorded and replayed with one address, then another, then one that
 * kernels cannot use where it is. */
TEST(test_gpu)
{
    const size_t place[] = {0, 0, 0, 0, 4096, 4096, 4096, 0, 4, 0};
    uint64_t state = 16;
    struct infer_array x[2], want[2];
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_session_options o;
    struct infer_error err = {0};
    struct device d;
    void *memory = NULL, *output = NULL;

    if (device_open("cuda", 0, NULL, &err, &d) < 0) {
        infer_session_close(&s);
        infer_model_close(&model);
        if (getenv("INFER_REQUIRE_GPU"))
            fail_msg("%s", err.text);
        skip();
    }
    for (int i = 0; i < 2; i++) {
        x[i] = array_of(&state, DIMS(1, 3, 16, 16));
        want[i] = run(s, &x[i], 1, 0);
    }
    infer_session_close(&s);
    infer_session_options_init(&o);
    o.device = "cuda";
    o.tune = 0;
    assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
    assert_int_equal(d.ops->alloc(&d, 8192, &err, &memory), 0);
    assert_int_equal(d.ops->alloc(&d, want[0].bytes, &err, &output), 0);
    for (size_t i = 0; i < COUNT(place); i++) {
        unsigned char *at = (unsigned char *)memory + place[i];
        const int k = (int)(i % 2);

        assert_int_equal(d.ops->copy_in(&d, at, x[k].data, x[k].bytes, &err),
                         0);
        run_on_gpu(s, &d, tensor_of(&x[k]), at, i % 3 ? output : NULL,
                   &want[k]);
    }
    struct infer_tensor in = tensor_of(&x[0]), out = {0};
    const int64_t stride[] = {768, 1, 48, 3};

    in.memory = INFER_MEMORY_CUDA;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EARGUMENT, "host memory");
    in.data = memory;
    in.stride = stride;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EUNSUPPORTED, "dense");
    in.stride = NULL;
    in.dtype = INFER_F16;
    REFUSED(infer_session_run_tensors(s, &in, 1, &out, 1, &err),
            INFER_EUNSUPPORTED, "expected F32");
    d.ops->free(&d, memory);
    d.ops->free(&d, output);
    device_close(&d);
    for (int i = 0; i < 2; i++) {
        free(x[i].data);
        free(want[i].data);
    }
    infer_session_close(&s);
    infer_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_negative_and_zero),
        cmocka_unit_test(test_caller_memory),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dlpack_types),
        cmocka_unit_test(test_dlpack_refused),
        cmocka_unit_test(test_dlpack_run),
        cmocka_unit_test(test_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
