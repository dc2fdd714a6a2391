/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What checkkern does not ask of the fast CPU rows: that one prepared
 * convolution can be launched by several threads at once, that neither a
 * residual where the result goes nor the number of threads changes a bit, that
 * rows refuse what they are not made for, and which of two rows is chosen.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/kern.h"
#include "kernels/rows.h"
#include "libinfer/tune/rows.h"
#include "tests/unit/test.h"

#define LAUNCHES 4

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* 3x3 with stride 1 or 1x1 convolution, 20 -> 33 channels, 13 x 14 pixels. */
static struct kern_problem make_problem(int window, bool residual)
{
    const int64_t x[] = {2, 20, 13, 14}, y[] = {2, 33, 13, 14};
    const int64_t w[] = {33, 20, window, window}, bias[] = {33};
    struct kern_problem p;

    memset(&p, 0, sizeof p);
    p.op = KERN_CONV_FPROP;
    p.n_in = residual ? 4 : 3;
    p.n_out = 1;
    p.in[X] = kern_tensor_dense(INFER_F32, 4, x, KERN_NHWC);
    p.in[W] = kern_tensor_dense(INFER_F32, 4, w, KERN_NCHW);
    p.in[BIAS] = kern_tensor_dense(INFER_F32, 1, bias, KERN_NCHW);
    p.out[0] = kern_tensor_dense(INFER_F32, 4, y, KERN_NHWC);
    if (residual)
        p.in[RESIDUAL] = p.out[0];
    p.constant_in = 1u << W | 1u << BIAS;
    p.attr.conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        p.attr.conv.stride[i] = 1;
        p.attr.conv.dilation[i] = 1;
        p.attr.conv.pad_begin[i] = window / 2;
        p.attr.conv.pad_end[i] = window / 2;
    }
    p.epilogue.act.kind = KERN_RELU;
    return p;
}

/* 64-byte aligned, at least one line. */
static void *new_bytes(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

    assert_non_null(p);
    return p;
}

static float *new_reals(const struct kern_tensor *t, unsigned seed)
{
    const size_t n = (size_t)kern_tensor_count(t);
    float *f = new_bytes(n * sizeof *f);

    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        f[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return f;
}

/* A prepared row with its inputs. */
struct run {
    struct kern_problem p;
    struct kern_exec e;
    float *in[KERN_MAX_IN];
    void *packed;
    size_t bytes; /* of the result */
};

static void run_start(struct run *r, const char *name,
                      const struct kern_problem *p, int threads)
{
    const struct kern_device d = {.kind = KERN_CPU, .threads = threads};
    const struct kern_row *row = kern_row_find(name);
    struct infer_error err;

    memset(r, 0, sizeof *r);
    r->p = *p;
    assert_non_null(row);
    assert_int_equal(kern_row_supports(row, p, &d, &err), 0);
    assert_int_equal(kern_prepare(row, p, &d, &err, &r->e), 0);
    for (int i = 0; i < p->n_in; i++)
        r->in[i] = new_reals(&p->in[i], (unsigned)i + 7);
    if (r->e.packed[W]) {
        r->packed = new_bytes(r->e.packed[W]);
        assert_int_equal(row->fn->pack(&r->e, W, r->in[W], r->packed, &err), 0);
    }
    r->bytes = (size_t)kern_tensor_count(&p->out[0]) * sizeof(float);
}

static void run_end(struct run *r)
{
    kern_release(&r->e);
    for (int i = 0; i < KERN_MAX_IN; i++)
        free(r->in[i]);
    free(r->packed);
}

static void run_launch(struct run *r, const float *residual, float *y)
{
    struct kern_args args;
    struct infer_error err;

    memset(&args, 0, sizeof args);
    for (int i = 0; i < r->p.n_in; i++)
        args.in[i] = r->in[i];
    if (r->packed)
        args.in[W] = r->packed;
    if (residual)
        args.in[RESIDUAL] = residual;
    args.out[0] = y;
    args.workspace = new_bytes(r->e.workspace);
    assert_int_equal(r->e.row->fn->launch(&r->e, &args, &err), 0);
    free(args.workspace);
}

static const char *const conv_rows[] = {"conv2d_fprop_nhwc_f32_cpu_winograd",
                                        "conv2d_fprop_nhwc_f32_cpu_pointwise",
#ifdef HAVE_ONEDNN
                                        "conv_fprop_nhwc_f32_onednn"
#endif
};
static const int windows[] = {3, 1, 3};
enum { CONV_ROWS = sizeof conv_rows / sizeof conv_rows[0] };

/* ---- several launches at once -------------------------------------- */

struct launch {
    struct run *r;
    float *y;
};

static void *launch_thread(void *p)
{
    const struct launch *l = p;

    for (int i = 0; i < 20; i++)
        run_launch(l->r, NULL, l->y);
    return NULL;
}

TEST(several_launches)
{
    for (int k = 0; k < CONV_ROWS; k++) {
        const struct kern_problem p = make_problem(windows[k], false);
        struct launch launch[LAUNCHES];
        pthread_t thread[LAUNCHES];
        struct run r;

        run_start(&r, conv_rows[k], &p, 1);
        float *y = new_bytes(r.bytes);
        run_launch(&r, NULL, y);
        for (int i = 0; i < LAUNCHES; i++) {
            launch[i] = (struct launch){&r, new_bytes(r.bytes)};
            memset(launch[i].y, 0xff, r.bytes);
            assert_int_equal(
                pthread_create(&thread[i], NULL, launch_thread, &launch[i]), 0);
        }
        for (int i = 0; i < LAUNCHES; i++) {
            assert_int_equal(pthread_join(thread[i], NULL), 0);
            assert_memory_equal(launch[i].y, y, r.bytes);
            free(launch[i].y);
        }
        free(y);
        run_end(&r);
    }
}

/* ---- residual in place --------------------------------------------- */

/* True if the row is oneDNN's and refuses the problem.  Without AVX-512 its
 * kernels add no residual behind the activation; our own rows always do. */
static bool onednn_refuses(const char *name, const struct kern_problem *p)
{
    const struct kern_device d = {.kind = KERN_CPU, .threads = 2};
    const struct kern_row *row = kern_row_find(name);

    return row->backend == INFER_BACKEND_ONEDNN &&
           kern_row_supports(row, p, &d, NULL) == INFER_EUNSUPPORTED;
}

TEST(residual_in_place)
{
    for (int k = 0; k < CONV_ROWS; k++)
        for (int last = 0; last < 2; last++) {
            struct kern_problem p = make_problem(windows[k], true);
            struct run r;

            p.epilogue.residual_last = last;
            if (last && onednn_refuses(conv_rows[k], &p))
                continue;
            run_start(&r, conv_rows[k], &p, 2);
            float *apart = new_bytes(r.bytes), *over = new_bytes(r.bytes);
            run_launch(&r, r.in[RESIDUAL], apart);
            memcpy(over, r.in[RESIDUAL], r.bytes);
            run_launch(&r, over, over);
            assert_memory_equal(over, apart, r.bytes);
            assert_memory_not_equal(over, r.in[RESIDUAL], r.bytes);
            free(apart);
            free(over);
            run_end(&r);
        }
}

/* ---- threads ------------------------------------------------------- */

TEST(same_bits_on_any_threads)
{
    for (int k = 0; k < CONV_ROWS; k++) {
        struct kern_problem p = make_problem(windows[k], false);
        struct run one, three;

        /* Winograd's tile depends on the threads elsewhere. */
        p.deterministic = k == 0;
        run_start(&one, conv_rows[k], &p, 1);
        run_start(&three, conv_rows[k], &p, 3);
        float *a = new_bytes(one.bytes), *b = new_bytes(one.bytes);
        run_launch(&one, NULL, a);
        run_launch(&three, NULL, b);
        assert_memory_equal(a, b, one.bytes);
        free(a);
        free(b);
        run_end(&one);
        run_end(&three);
    }
}

/* ---- refusals ------------------------------------------------------ */

static void refuses(const char *name, const struct kern_problem *p)
{
    const struct kern_device d = {.kind = KERN_CPU, .threads = 1};
    struct infer_error err = {.text = ""};

    assert_int_equal(kern_row_supports(kern_row_find(name), p, &d, &err),
                     INFER_EUNSUPPORTED);
    assert_true(strlen(err.text) > 0);
}

TEST(refusals)
{
    struct kern_problem p = make_problem(3, false);

    p.constant_in = 0;
    for (int k = 0; k < CONV_ROWS; k++)
        refuses(conv_rows[k], &p);
    p = make_problem(3, false);
    refuses(conv_rows[1], &p);
#ifdef HAVE_ONEDNN
    /* oneDNN writes to no slice of a concatenation; the others do. */
    p.out[0].stride[3] = 40;
    p.out[0].stride[2] = 40 * 14;
    p.out[0].stride[0] = 40 * 14 * 13;
    refuses(conv_rows[2], &p);
#endif
    /* Winograd is for windows of 3x3 and enough channels. */
    p = make_problem(1, false);
    refuses(conv_rows[0], &p);
    p = make_problem(3, false);
    p.in[X] =
        kern_tensor_dense(INFER_F32, 4, (int64_t[]){2, 3, 13, 14}, KERN_NHWC);
    p.in[W] =
        kern_tensor_dense(INFER_F32, 4, (int64_t[]){33, 3, 3, 3}, KERN_NCHW);
    refuses(conv_rows[0], &p);
}

/* The gradient of a 3x3 layer of stride 1, 64 -> 64 channels, 32 x 32 pixels.
 * Rows without an estimate are chosen by their order: Winograd's must stand
 * before oneDNN's transposed convolution, which supports the problem, too. */
TEST(winograd_before_onednn)
{
    const int64_t image[] = {16, 64, 32, 32}, window[] = {64, 64, 3, 3};
    const struct device cpu = {.kern = {.kind = KERN_CPU, .threads = 1}};
    struct kern_problem p = {.op = KERN_CONV_DGRAD, .n_in = 2, .n_out = 1};
    const struct row_query q = {
        .problem = &p, .device = &cpu.kern, .aligned = true};
    const struct kern_row *winograd =
        kern_row_at(KERN_ROW_conv2d_dgrad_nhwc_f32_cpu_winograd);
    struct row_tiers tiers;

    p.in[X] = kern_tensor_dense(INFER_F32, 4, image, KERN_NHWC);
    p.in[W] = kern_tensor_dense(INFER_F32, 4, window, KERN_NCHW);
    p.out[0] = p.in[X];
    p.constant_in = 1u << W;
    p.attr.conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        p.attr.conv.stride[i] = p.attr.conv.dilation[i] = 1;
        p.attr.conv.pad_begin[i] = p.attr.conv.pad_end[i] = 1;
    }
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    row_tiers_choose(&cpu, INFER_BACKEND_AUTO, &tiers);
#ifdef HAVE_ONEDNN
    assert_true(row_takes(
        &q, kern_row_at(KERN_ROW_conv_transpose_fprop_nhwc_f32_onednn), NULL));
#endif
    assert_string_equal(row_best(&q, tiers.tier[0], NULL, NULL)->name,
                        winograd->name);
}

#ifdef HAVE_ONEDNN
/* What oneDNN's row leaves to another, that one takes. */
TEST(left_problems_are_taken)
{
    static const struct {
        int64_t groups, c, k, extent, window;
        int stride, dilation, pad;
    } cases[] = {
        {1, 512, 512, 8, 3, 1, 1, 1}, /* many weights for few pixels */
        {1, 512, 512, 8, 1, 1, 1, 0},
        {1, 512, 512, 224, 3, 32, 100, 1}, /* whose input is 80 MB */
        {1, 1024, 512, 300, 1, 60, 1, 1},
        {8, 32, 32, 20, 3, 1, 1, 1}, /* groups of few channels */
        {8, 64, 64, 900, 3, 1, 400, 1},
    };
    const struct device cpu = {.kern = {.kind = KERN_CPU, .threads = 2}};
    struct row_tiers tiers;

    row_tiers_choose(&cpu, INFER_BACKEND_AUTO, &tiers);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kern_problem p = make_problem(1, false);
        struct kern_conv *a = &p.attr.conv;
        const int64_t e = cases[i].extent;
        const int64_t r = cases[i].window, k = cases[i].k;
        const int64_t out =
            (e + 2 * cases[i].pad - 1 - (r - 1) * cases[i].dilation) /
                cases[i].stride +
            1;
        const struct row_query q = {
            .problem = &p, .device = &cpu.kern, .aligned = true};

        p.in[X] = kern_tensor_dense(
            INFER_F32, 4, (int64_t[]){1, cases[i].c, e, e}, KERN_NHWC);
        p.in[W] = kern_tensor_dense(
            INFER_F32, 4, (int64_t[]){k, cases[i].c / cases[i].groups, r, r},
            KERN_NCHW);
        p.in[BIAS] = kern_tensor_dense(INFER_F32, 1, &k, KERN_NCHW);
        p.out[0] = kern_tensor_dense(INFER_F32, 4, (int64_t[]){1, k, out, out},
                                     KERN_NHWC);
        a->groups = (int)cases[i].groups;
        for (int d = 0; d < 2; d++) {
            a->stride[d] = cases[i].stride;
            a->dilation[d] = cases[i].dilation;
            a->pad_begin[d] = a->pad_end[d] = cases[i].pad;
        }
        assert_int_equal(kern_problem_check(&p, NULL), 0);
        assert_non_null(row_best(&q, tiers.tier[0], NULL, NULL));
    }
}
#endif

TEST(version)
{
    const struct kern_library *l =
        kern_backend_of(INFER_BACKEND_ONEDNN)->library;

#ifdef HAVE_ONEDNN
    assert_string_equal(l->name, "oneDNN");
    assert_non_null(strstr(l->version(NULL), "oneDNN "));
#else
    assert_null(l->name);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_launches),
        cmocka_unit_test(residual_in_place),
        cmocka_unit_test(same_bits_on_any_threads),
        cmocka_unit_test(refusals),
        cmocka_unit_test(winograd_before_onednn),
#ifdef HAVE_ONEDNN
        cmocka_unit_test(left_problems_are_taken),
#endif
        cmocka_unit_test(version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
