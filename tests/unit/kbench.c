/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: problems from words, statistics, the truth it holds kernels
 * against, and its reports. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/scalar.h"
#include "tools/kbench/kbench.h"
#include "tools/verify/verify.h"

/* ---- problems ------------------------------------------------------ */

static struct kern_problem problem_of(const char *text, const char *precision)
{
    struct kb_figures f;
    struct kern_problem p;
    struct infer_error err = {0};

    kb_figures_init(&f, KERN_CONV_FPROP);
    if (kb_figures_parse(text, &f, &err) < 0 ||
        kb_figures_problem(&f, kb_precision_find(precision), KERN_NHWC, &err,
                           &p) < 0)
        fail_msg("%s: %s", text, err.text);
    return p;
}

/* A printed line can be given back, and means the same. */
static void test_lines(void **state)
{
    static const char *const lines[] = {
        "conv_fprop mb32ic64ih56oc64oh56kh3ph1 nhwc F32",
        "conv_fprop mb1ic3ih224oc64oh112kh7sh2ph3 +bias +relu nhwc F32",
        "conv_fprop g32mb1ic32ih112oc32oh112kh3ph1 +bias +clip nhwc F32",
        "conv_fprop mb2ic8ih9iw17oc4oh9ow15kh3kw3ph1pw0 nhwc F32",
        "conv_fprop mb1ic8ih15oc4oh8kh3sh2dh3ph4 nhwc F32",
        "conv_fprop mb1ic4ih14oc8oh14kh1 +bias +residual +relu nhwc F32",
        "conv_fprop mb1ic4ih14oc8oh14kh1 +bias +silu +residual nhwc F32",
        "conv_fprop mb2ic8ih14oc8oh14kh1 +factors +bias nhwc F32",
        "pool_fprop mb2ic64ih112oh56kh3sh2ph1 max nhwc F32",
        "pool_fprop mb2ic64ih7oh1kh7 average nhwc F32",
        "conv_dgrad mb32ic64ih56oc128oh28kh3sh2ph1 nhwc F32",
        "conv_wgrad g8mb2ic8ih9oc16oh9kh3ph1 nhwc F32",
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        const struct kern_problem p = problem_of(lines[i], "fp32");
        kb_problem_text(&p, p.op == KERN_CONV_DGRAD ? KB_DGRAD : KB_FPROP, text,
                        sizeof(text));
        if (i != 3) /* pads of 0 are not printed */
            assert_string_equal(text, lines[i]);
        assert_int_equal(kern_problem_check(&p, NULL), 0);
    }
}

/* The types that a line names are those of the run, or it is refused. */
static void test_line_types(void **state)
{
    static const char line[] = "conv_wgrad mb2ic8ih9oc16oh9kh3ph1 nhwc F16:F32";
    struct kb_figures f;
    struct kern_problem p = problem_of(line, "fp16");
    struct infer_error err = {0};
    char text[256];

    (void)state;
    assert_int_equal(p.in[0].dtype, INFER_F16);
    assert_int_equal(p.out[0].dtype, INFER_F32);
    kb_problem_text(&p, KB_WGRAD, text, sizeof(text));
    assert_null(strstr(text, "F16 "));
    assert_non_null(strstr(text, "F16:F32"));
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_int_equal(kb_figures_parse(line, &f, &err), 0);
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "F16"));
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_int_equal(kb_figures_parse("mb1ic8ih9oc8kh3 F16:F33", &f, &err),
                     INFER_EARGUMENT);
}

static void test_figures(void **state)
{
    struct kern_problem p = problem_of("mb4ic16ih32oc8kh3ph1", "fp16");
    struct kb_figures f;
    struct infer_error err;

    (void)state;
    assert_int_equal(p.in[0].dtype, INFER_F16);
    assert_int_equal(p.out[0].dim[2], 32);
    assert_int_equal(p.attr.conv.pad_end[1], 1);
    /* TensorFlow's SAME: one row more at the end than in front. */
    p = problem_of("mb1ic3ih224oc32oh112kh3sh2", "fp32");
    assert_int_equal(p.attr.conv.pad_begin[0], 0);
    assert_int_equal(p.attr.conv.pad_end[0], 1);
    p = problem_of("mb1ic4ih8oc4kh3 +bias", "bf16");
    assert_int_equal(p.in[2].dtype, INFER_F32);
    assert_int_equal(p.constant_in, 6);
    p = problem_of("mb1ic4ih8oc4kh3", "tf32");
    assert_true(p.allow_tf32);
    /* Figures of the command line, and a window that does not fit. */
    kb_figures_init(&f, KERN_CONV_FPROP);
    assert_true(kb_figures_set(&f, "hw", 5));
    assert_true(kb_figures_set(&f, "rs", 7));
    assert_false(kb_figures_set(&f, "n", 0));
    assert_false(kb_figures_set(&f, "q", 1));
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
    assert_null(kb_precision_find("fp64"));
}

/* The ways back have the tensors of their way forwards in other places, and no
 * epilogue. */
static void test_directions(void **state)
{
    struct kern_problem p =
        problem_of("conv_dgrad mb4ic16ih32oc8oh16kh3sh2ph1 +relu", "fp16");
    const struct kb_request on_cpu = {.device = "cpu", .layout = KERN_NHWC};
    const struct kb_request on_gpu = {
        .device = "cuda:1", .layout = KERN_NHWC, .narrow_gradient = true};
    struct infer_error err = {0};
    struct kb_figures f;

    (void)state;
    assert_int_equal(p.op, KERN_CONV_DGRAD);
    assert_int_equal(p.n_in, 2);
    assert_int_equal(p.epilogue.act.kind, KERN_IDENTITY);
    assert_int_equal(p.in[0].dim[1], 8);
    assert_int_equal(p.in[0].dim[2], 16);
    assert_int_equal(p.in[1].dim[0], 8);
    assert_int_equal(p.out[0].dim[1], 16);
    assert_int_equal(p.out[0].dim[2], 32);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    const double flops = kern_problem_flops(&p);
    p = problem_of("conv_wgrad mb4ic16ih32oc8oh16kh3sh2ph1 +bias", "fp16");
    assert_int_equal(p.op, KERN_CONV_WGRAD);
    assert_int_equal(p.n_in, 2);
    assert_int_equal(p.in[1].dim[1], 8);
    assert_int_equal(p.out[0].dtype, INFER_F32);
    assert_int_equal(p.out[0].dim[1], 16);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    assert_float_equal(kern_problem_flops(&p), flops, 1e-6 * flops);
    /* On a GPU the gradient lies as training has it there. */
    kb_problem_lay_weights(&on_cpu, KB_WGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.out[0], KERN_NCHW));
    kb_problem_lay_weights(&on_gpu, KB_WGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.out[0], KERN_NHWC));
    assert_int_equal(p.out[0].dtype, INFER_F16);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    p = problem_of("conv_dgrad mb4ic16ih32oc8oh16kh3sh2ph1", "fp16");
    kb_problem_lay_weights(&on_cpu, KB_DGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.in[1], KERN_NCHW));
    assert_int_equal(p.constant_in, 1u << 1);
    kb_problem_lay_weights(&on_gpu, KB_DGRAD, &p);
    assert_true(kern_tensor_is_dense(&p.in[1], KERN_NHWC));
    assert_int_equal(p.constant_in, 0);
    assert_int_equal(kern_problem_check(&p, NULL), 0);
    /* Pooling has none here. */
    kb_figures_init(&f, KERN_POOL_FPROP);
    f.dir = KB_DGRAD;
    f.h = 8;
    assert_int_equal(
        kb_figures_problem(&f, kb_precision_find("fp32"), KERN_NHWC, &err, &p),
        INFER_EARGUMENT);
}

static void test_bad_lines(void **state)
{
    static const char *const lines[] = {
        "mb",
        "32",
        "mbx3",
        "mb1ic",
        "mb1zz3",
        "mb-1",
        "+nothing",
        "mb1 +",
        "mb99999999999999999999",
        "kh3 mb1ic0",
        "conv_fprop 3x",
        "g0mb1",
        "mb1ic4ih8oc4kh99999999",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct infer_error err = {0};
        struct kb_figures f;
        kb_figures_init(&f, KERN_CONV_FPROP);
        if (kb_figures_parse(lines[i], &f, &err) != INFER_EARGUMENT)
            fail_msg("'%s' was taken", lines[i]);
        assert_true(err.text[0] != '\0');
    }
}

static void expect_sweep(const char *text, const char *name, int count,
                         const int64_t *value)
{
    struct infer_error err = {0};
    struct kb_sweep s;

    if (kb_sweep_parse(text, &s, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(s.name, name);
    assert_int_equal(s.count, count);
    assert_memory_equal(s.value, value, (size_t)count * sizeof(*value));
}

static void test_sweeps(void **state)
{
    static const char *const bad[] = {
        "n",        "n=",    "=1",     "n=0:4",      "n=4:1",     "n=1:8:0",
        "n=1:8:x1", "z=1:4", "n=1,,2", "n=1:100000", "n=1:2:3:4", "n=a"};
    struct infer_error err;
    struct kb_sweep s;

    (void)state;
    expect_sweep("n=1,4,16", "n", 3, (int64_t[]){1, 4, 16});
    expect_sweep("k=1:64:x4", "k", 4, (int64_t[]){1, 4, 16, 64});
    expect_sweep("hw=7:9", "hw", 3, (int64_t[]){7, 8, 9});
    expect_sweep("c=8:31:8", "c", 3, (int64_t[]){8, 16, 24});
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (kb_sweep_parse(bad[i], &s, &err) != INFER_EARGUMENT)
            fail_msg("'%s' was taken", bad[i]);
}

/* ---- statistics ---------------------------------------------------- */

static void test_stats(void **state)
{
    double odd[] = {5, 1, 3, 2, 4}, even[] = {4, 1, 3, 2}, one[] = {7};
    struct kb_stats s = kb_stats_of(odd, 5);

    (void)state;
    assert_float_equal(s.min, 1, 0);
    assert_float_equal(s.median, 3, 0);
    assert_float_equal(s.p95, 4.8, 1e-12);
    assert_float_equal(s.spread, 2.0 / 3, 1e-12);
    assert_int_equal(s.rounds, 5);
    assert_float_equal(kb_stats_of(even, 4).median, 2.5, 0);
    s = kb_stats_of(one, 1);
    assert_float_equal(s.median, 7, 0);
    assert_float_equal(s.spread, 0, 0);
    assert_int_equal(kb_stats_of(NULL, 0).rounds, 0);
}

static const struct kern_row our_row = {
    .name = "conv_ours", .op = KERN_CONV_FPROP, .backend = INFER_BACKEND_CUDA};
static const struct kern_row rival_row = {.name = "conv_cudnn",
                                          .op = KERN_CONV_FPROP,
                                          .backend = INFER_BACKEND_CUDNN};

static void add_result(struct kb_case *c, const struct kern_row *row,
                       enum kb_state state, double seconds)
{
    struct kb_result *r = kb_case_add(c);

    assert_non_null(r);
    r->row = row;
    r->side = kb_side_of(row);
    r->state = state;
    r->time = kb_stats_of(&seconds, 1);
    r->launches = 1;
}

/* Two layers of a network and a problem without a rival. */
static void make_cases(struct kb_cases *cases)
{
    const struct kb_precision *fp32 = kb_precision_find("fp32");
    const struct kern_problem p =
        problem_of("mb1ic64ih56oc64oh56kh3ph1 +bias", "fp32");
    static const double ours[] = {2e-6, 8e-6, 1e-6};

    for (int i = 0; i < 3; i++) {
        struct kb_case *c = kb_cases_add(cases, &p, KB_FPROP, fp32);
        assert_non_null(c);
        snprintf(c->model, sizeof(c->model), "a<b&\"c\"");
        snprintf(c->name, sizeof(c->name), "layer\001 %d", i);
        c->count = i + 1;
        add_result(c, &our_row, KB_TIMED, ours[i]);
        if (i < 2)
            add_result(c, &rival_row, KB_TIMED, 4e-6);
        /* Neither counts, whatever the time. */
        add_result(c, &rival_row, KB_WRONG, 1e-9);
        add_result(c, &our_row, KB_FAILED, 1e-9);
        snprintf(c->result[c->n_results - 1].text, 64,
                 "no \"memory\", <sorry>");
        kb_case_judge(c);
    }
}

static void test_summary(void **state)
{
    struct kb_cases cases = {0};
    struct kb_summary s;

    (void)state;
    make_cases(&cases);
    assert_float_equal(cases.item[0].ratio, 2, 1e-12);
    assert_float_equal(cases.item[1].ratio, 0.5, 1e-12);
    assert_float_equal(cases.item[2].ratio, 0, 0);
    assert_int_equal(kb_summarise(&cases, &s), 0);
    assert_int_equal(s.n_groups, 1);
    assert_int_equal(s.all.compared, 2);
    assert_int_equal(s.all.ahead, 1);
    assert_float_equal(s.all.mean, 1, 1e-12);
    assert_float_equal(s.all.ours, 2e-6 + 2 * 8e-6, 1e-15);
    assert_float_equal(s.all.rival, 3 * 4e-6, 1e-15);
    assert_int_equal(s.n_below, 1);
    assert_int_equal(s.below[0], 1);
    kb_summary_free(&s);
    kb_cases_clear(&cases);
}

static void test_floor(void **state)
{
    struct kb_cases cases = {0};
    struct kb_peaks peaks = {.memory = {.value = 1e9},
                             .cache = {.value = 4e9},
                             .cache_bytes = 1 << 30};

    (void)state;
    make_cases(&cases);
    struct kb_case *c = &cases.item[0];
    peaks.flops[0].value = 1e15;
    kb_peaks_apply(&peaks, true, c);
    assert_true(c->by_bytes);
    assert_float_equal(c->floor, c->bytes / 1e9, 1e-12);
    kb_peaks_apply(&peaks, false, c);
    assert_float_equal(c->floor, c->bytes / 4e9, 1e-12);
    peaks.cache_bytes = 0;
    kb_peaks_apply(&peaks, false, c);
    assert_float_equal(c->floor, c->bytes / 1e9, 1e-12);
    peaks.flops[0].value = 1e9;
    kb_peaks_apply(&peaks, false, c);
    assert_false(c->by_bytes);
    assert_float_equal(c->floor, c->flops / 1e9, 1e-12);
    kb_cases_clear(&cases);
}

/* ---- truth --------------------------------------------------------- */

#define SEED 7

/* The whole output by the reference, in the problem's own storage. */
static void *whole_output(const struct kern_problem *p)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    struct kern_args args = {0};
    struct kb_values v;
    struct kern_exec e;
    struct infer_error err;

    assert_true(kb_values_new(&v, p, SEED));
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].dtype == INFER_NONE)
            continue;
        const size_t size = infer_dtype_size(p->in[i].dtype);
        const int64_t n = kern_tensor_count(&p->in[i]);
        char *data = malloc((size_t)n * size);
        for (int64_t k = 0; k < n; k++)
            memcpy(data + (size_t)k * size,
                   (char *)v.pool[i] + (size_t)(k % KB_PERIOD) * size, size);
        args.in[i] = data;
    }
    args.out[0] = malloc(kern_tensor_span(&p->out[0]));
    assert_int_equal(kern_prepare(truth_row(p->op), p, &cpu, &err, &e), 0);
    args.workspace = malloc(e.workspace + 1);
    assert_int_equal(e.row->launch(&e, &args, &err), 0);
    kern_release(&e);
    free(args.workspace);
    for (int i = 0; i < p->n_in; i++)
        free((void *)(uintptr_t)args.in[i]);
    kb_values_free(&v);
    return args.out[0];
}

/* The right output passes and a value changed anywhere in the sample fails;
 * least is what the sample must cover. */
static void expect_proof(const char *line, const char *precision, bool all)
{
    const struct kern_problem p = problem_of(line, precision);
    const enum infer_dtype dtype = p.out[0].dtype;
    const struct kern_exec exec = {.row = &our_row};
    struct infer_error err = {0};
    struct kb_proof proof;
    char text[384];
    double worst = 0;
    char *y = whole_output(&p);

    if (kb_proof_new(&p, SEED, &proof, &err) < 0)
        fail_msg("%s: %s", line, err.text);
    assert_true(proof.count > 0);
    assert_int_equal(proof.count == kern_tensor_count(&p.out[0]), all);
    if (!kb_proof_check(&proof, &p, &exec, y, &worst, text, sizeof(text)))
        fail_msg("%s: %s", line, text);
    assert_true(worst < 1);
    for (int64_t k = 0; k < proof.count; k += 1 + proof.count / 7) {
        const int64_t at = proof.offset[k];
        const double right = scalar_load(dtype, y, at);
        bool inside = false;
        for (int r = 0; r < proof.n_ranges; r++)
            inside = inside || (at >= proof.range[r][0] &&
                                at < proof.range[r][0] + proof.range[r][1]);
        assert_true(inside);
        scalar_store(dtype, y, at, right + 0.5);
        assert_false(
            kb_proof_check(&proof, &p, &exec, y, &worst, text, sizeof(text)));
        scalar_store(dtype, y, at, NAN);
        assert_false(
            kb_proof_check(&proof, &p, &exec, y, &worst, text, sizeof(text)));
        scalar_store(dtype, y, at, right);
    }
    assert_true(
        kb_proof_check(&proof, &p, &exec, y, &worst, text, sizeof(text)));
    kb_proof_free(&proof);
    free(y);
}

static void test_proof(void **state)
{
    (void)state;
    expect_proof("mb2ic8ih9oc12kh3ph1 +bias +residual +relu", "fp32", true);
    expect_proof("mb2ic8ih9oc12kh3ph1 +bias", "fp16", true);
    /* Pixels: strides, dilation, groups, pads that differ, a residual. */
    expect_proof("g2mb3ic48ih30iw33oc64oh15ow17kh3kw3sh2sw2dh1dw1ph2pw1 +bias "
                 "+relu +residual",
                 "fp32", false);
    expect_proof("mb2ic64ih28oc64oh28kh3ph1 +bias", "bf16", false);
    expect_proof("mb3ic64ih28oc64oh28kh3ph1 +factors +bias", "fp32", false);
    /* Ways back: patches with zeros between, of each remainder of the stride;
     * pairs of channels, within their groups. */
    expect_proof("conv_dgrad mb2ic8ih9oc12oh9kh3ph1", "fp32", true);
    expect_proof("conv_dgrad mb3ic64ih30iw33oc96oh15ow11kh3kw5sh2sw3ph1pw2",
                 "fp32", false);
    expect_proof("conv_dgrad g4mb4ic128ih28oc256oh28kh3dh1ph2", "bf16", false);
    expect_proof("conv_wgrad mb2ic4ih9oc6oh5kh3sh2ph1", "fp32", true);
    expect_proof("conv_wgrad mb4ic48ih28oc64oh14kh3sh2ph1", "fp16", false);
    expect_proof("conv_wgrad g32mb8ic64ih28oc96oh28kh5ph2", "fp32", false);
    /* Images: the first and the last. */
    expect_proof("pool_fprop mb9ic64ih56oh56kh7ph3 max", "fp32", false);
}

/* Kernels that go through a transform are held to its bound. */
static void test_proof_transform(void **state)
{
    const struct kern_problem p =
        problem_of("mb2ic64ih28oc64oh28kh3ph1", "fp32");
    const struct kern_row row = {
        .name = "conv2d_fprop_nchw_f32_cudnn_winograd_nonfused"};
    const struct kern_exec exec = {.row = &row};
    struct infer_error err = {0};
    struct kb_proof proof;
    char *y = whole_output(&p), text[384];
    double worst = 0;

    (void)state;
    assert_int_equal(kb_proof_new(&p, SEED, &proof, &err), 0);
    assert_non_null(proof.tol[KB_WINOGRAD]);
    assert_non_null(proof.tol[KB_FOURIER]);
    const double right = scalar_load(INFER_F32, y, proof.offset[0]);
    for (int off = 0; off < 2; off++) {
        scalar_store(INFER_F32, y, proof.offset[0],
                     right + (off ? 1.2 : 0.8) * proof.tol[KB_WINOGRAD][0]);
        assert_int_equal(
            kb_proof_check(&proof, &p, &exec, y, &worst, text, sizeof(text)),
            !off);
    }
    kb_proof_free(&proof);
    free(y);
}

/* The bench as a whole: every candidate is right and has a time. */
static void test_bench(void **state)
{
    const struct kern_problem p = problem_of("mb1ic8ih12oc8kh3ph1", "fp32");
    struct kb_cases cases = {0};
    struct kb_pool pool = {0};
    struct device cpu;
    struct infer_error err = {0};
    struct kb_proof proof;

    (void)state;
    assert_int_equal(device_open("cpu", 1, NULL, &err, &cpu), 0);
    struct kb_case *c =
        kb_cases_add(&cases, &p, KB_FPROP, kb_precision_find("fp32"));
    const struct kb_plan plan = {
        .device = &cpu,
        .pool = &pool,
        .backend = {[INFER_BACKEND_REF] = true, [INFER_BACKEND_ONEDNN] = true},
        .cache_bytes = 1 << 20,
        .cold = true,
        .rounds = 3,
        .time_limit = 1,
        .seed = SEED};
    assert_int_equal(kb_proof_new(&p, SEED, &proof, &err), 0);
    assert_int_equal(kb_bench(&plan, &proof, c, &err), 0);
    assert_true(c->n_results >= 1);
    assert_true(c->best[KB_REFERENCE] >= 0);
    for (int i = 0; i < c->n_results; i++) {
        const struct kb_result *r = &c->result[i];
        assert_true(r->state == KB_TIMED || r->state == KB_DROPPED);
        assert_true(r->time.median > 0 && r->time.min <= r->time.p95);
        assert_true(r->worst < 1);
    }
    /* Values of another seed are not what this proof expects. */
    struct kb_plan other = plan;
    other.seed = SEED + 1;
    struct kb_case *d =
        kb_cases_add(&cases, &p, KB_FPROP, kb_precision_find("fp32"));
    assert_int_equal(kb_bench(&other, &proof, d, &err), 0);
    for (int i = 0; i < d->n_results; i++)
        assert_int_equal(d->result[i].state, KB_WRONG);
    assert_int_equal(d->best[KB_REFERENCE], -1);
    kb_proof_free(&proof);
    kb_cases_clear(&cases);
    device_close(&cpu);
}

/* ---- reports ------------------------------------------------------- */

struct made {
    struct kb_cases cases;
    struct kb_summary summary;
    struct kb_peaks peaks;
    struct kb_machine machine;
    struct kb_request request;
    struct cli cli;
    struct kb_report report;
};

static void make_report(struct made *m)
{
    memset(m, 0, sizeof(*m));
    make_cases(&m->cases);
    m->peaks.flops[0].value = 1e14;
    m->peaks.memory.value = 1e12;
    snprintf(m->machine.device, sizeof(m->machine.device), "A <GPU> & more");
    snprintf(m->machine.date, sizeof(m->machine.date), "2026-11-21");
    m->machine.command = "kbench '--problem=\"x\" <&>'";
    m->request.n_precisions = 1;
    m->request.precision[0] = kb_precision_find("fp32");
    m->request.cli = &m->cli;
    for (int i = 0; i < m->cases.count; i++)
        kb_peaks_apply(&m->peaks, false, &m->cases.item[i]);
    assert_int_equal(kb_summarise(&m->cases, &m->summary), 0);
    m->report = (struct kb_report){&m->request, &m->cases,   &m->peaks,
                                   &m->machine, &m->summary, NULL};
}

static void free_report(struct made *m)
{
    kb_summary_free(&m->summary);
    kb_cases_clear(&m->cases);
}

static char *written(void (*write)(const struct kb_report *, FILE *),
                     const struct kb_report *r)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    assert_non_null(f);
    write(r, f);
    fclose(f);
    return text;
}

/* Follows the tags of a page: each is closed by its own name, attributes are
 * quoted, and nothing but known entities follows an ampersand.  Returns how
 * many elements there were. */
static int walk_page(const char *s)
{
    char open[64][16];
    int depth = 0, elements = 0;

    assert_int_equal(strncmp(s, "<!DOCTYPE html>\n", 16), 0);
    for (s += 16; *s; s++) {
        assert_true((unsigned char)*s >= 32 || *s == '\n');
        if (*s == '&')
            assert_true(strncmp(s, "&lt;", 4) == 0 ||
                        strncmp(s, "&gt;", 4) == 0 ||
                        strncmp(s, "&amp;", 5) == 0 ||
                        strncmp(s, "&quot;", 6) == 0 || s[1] == '#');
        if (*s != '<')
            continue;
        const bool closing = s[1] == '/';
        const char *name = s + 1 + closing;
        const size_t n = strcspn(name, " />\n");
        assert_true(n > 0 && n < sizeof(open[0]));
        int quotes = 0;
        for (s = name; *s != '>' || quotes % 2; s++) {
            if (*s == '\0' || (*s == '<' && quotes % 2 == 0))
                fail_msg("not a tag: %.60s", name - 1);
            quotes += *s == '"';
        }
        assert_int_equal(quotes % 2, 0);
        if (closing) {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strlen(open[depth]), n);
            assert_memory_equal(open[depth], name, n);
        } else if (s[-1] != '/') {
            assert_true(depth < 64);
            memcpy(open[depth], name, n);
            open[depth++][n] = '\0';
        }
        elements += !closing;
    }
    assert_int_equal(depth, 0);
    return elements;
}

static void test_html(void **state)
{
    static const char *const outside[] = {"http:",   "https:", " src=", "url(",
                                          "@import", "<link",  " href="};
    struct made m;

    (void)state;
    make_report(&m);
    char *page = written(kb_html, &m.report);
    assert_true(walk_page(page) > 50);
    for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++)
        assert_null(strstr(page, outside[i]));
    assert_non_null(strstr(page, "A &lt;GPU&gt; &amp; more"));
    assert_non_null(strstr(page, "2026-11-21"));
    assert_non_null(strstr(page, "kbench '--problem"));
    assert_null(strstr(page, "nan"));
    free(page);
    free_report(&m);
}

static void write_json(const struct kb_report *r, FILE *f)
{
    cJSON *json = kb_json(r);
    char *text = cJSON_Print(json);

    fputs(text, f);
    cJSON_free(text);
    cJSON_Delete(json);
}

/* A run against what it wrote itself, with times changed. */
static void test_compare(void **state)
{
    char path[] = "/tmp/kbench-test-XXXXXX";
    struct infer_error err = {0};
    struct kb_change change;
    struct made m;

    (void)state;
    make_report(&m);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    write_json(&m.report, f);
    assert_int_equal(fclose(f), 0);
    /* Problems that are the same line take the first of the file. */
    snprintf(m.cases.item[1].text, sizeof(m.cases.item[1].text), "another");
    assert_int_equal(kb_compare(path, true, &m.cases, &err), INFER_EFORMAT);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), 0);
    assert_float_equal(m.cases.item[0].before, 2e-6, 1e-12);
    assert_float_equal(m.cases.item[1].before, 0, 0);
    assert_float_equal(m.cases.item[2].before, 2e-6, 1e-12);
    m.cases.item[0].result[m.cases.item[0].best[KB_OURS]].time.median = 8e-6;
    assert_int_equal(kb_change_of(&m.cases, &change), 0);
    assert_int_equal(change.count, 2);
    assert_int_equal(change.n_moved, 2); /* 1/4 and 2 times as fast */
    assert_int_equal(change.n_slower, 1);
    assert_int_equal(change.moved[0], 0);
    assert_float_equal(change.mean, sqrt(0.5), 1e-9);
    m.report.change = &change;
    m.request.before = path;
    char *page = written(kb_html, &m.report);
    assert_true(walk_page(page) > 50);
    assert_non_null(strstr(page, "1 slower and 1 faster"));
    free(page);
    kb_change_free(&change);
    f = fopen(path, "w");
    fputs("{\"kbench\":true}", f);
    fclose(f);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), INFER_EFORMAT);
    unlink(path);
    assert_int_equal(kb_compare(path, false, &m.cases, &err), INFER_EIO);
    free_report(&m);
}

static void test_json(void **state)
{
    struct made m;

    (void)state;
    make_report(&m);
    char *text = written(write_json, &m.report);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    const cJSON *list = cJSON_GetObjectItem(json, "problems");
    assert_int_equal(cJSON_GetArraySize(list), 3);
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    assert_float_equal(cJSON_GetObjectItem(first, "ratio")->valuedouble, 2,
                       1e-9);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(first, "kernels")),
                     4);
    cJSON_Delete(json);
    free(text);
    free_report(&m);
}

/* Fields of one line, quotes understood. */
static int count_fields(const char **at)
{
    bool quoted = false;
    int n = 1;

    for (; **at && (**at != '\n' || quoted); (*at)++) {
        if (**at == '"')
            quoted = !quoted;
        n += **at == ',' && !quoted;
    }
    assert_false(quoted);
    *at += **at == '\n';
    return n;
}

static void test_csv(void **state)
{
    struct made m;
    int lines = 0;

    (void)state;
    make_report(&m);
    char *text = written(kb_csv, &m.report);
    const char *at = text;
    const int fields = count_fields(&at);
    assert_int_equal(fields, 24);
    for (; *at; lines++)
        assert_int_equal(count_fields(&at), fields);
    assert_int_equal(lines, 11);
    free(text);
    free_report(&m);
}

/* ---- models -------------------------------------------------------- */

/* Every layer of a built-in network, repeats counted, epilogues fused. */
static void test_layers(void **state)
{
    struct kb_request r = {.device = "cpu", .layout = KERN_NHWC, .extent = 224};
    struct kb_cases cases = {0};
    struct infer_error err = {0};
    bool residual = false;
    int layers = 0;

    (void)state;
    r.ops[KERN_CONV_FPROP] = true;
    if (kb_layers(&r, "resnet18", 8, KB_FPROP, kb_precision_find("fp16"),
                  &cases, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < cases.count; i++) {
        const struct kb_case *c = &cases.item[i];
        layers += c->count;
        assert_int_equal(c->p.in[0].dim[0], 8);
        assert_int_equal(c->p.in[0].dtype, INFER_F16);
        assert_int_equal(c->p.in[2].dtype, INFER_F32); /* folded batch norm */
        assert_int_equal(kern_problem_check(&c->p, NULL), 0);
        residual = residual || c->p.n_in == 4;
    }
    assert_int_equal(layers, 20);
    assert_int_equal(cases.count, 18);
    assert_true(residual);
    kb_cases_clear(&cases);
    if (kb_layers(&r, "resnet18", 8, KB_WGRAD, kb_precision_find("fp16"),
                  &cases, &err))
        fail_msg("%s", err.text);
    /* Without the epilogues some of them are the same. */
    assert_true(cases.count > 8 && cases.count < 18);
    for (int i = 0; i < cases.count; i++) {
        assert_int_equal(cases.item[i].p.op, KERN_CONV_WGRAD);
        assert_int_equal(kern_problem_check(&cases.item[i].p, NULL), 0);
    }
    kb_cases_clear(&cases);
    assert_int_equal(kb_layers(&r, "no-such-model", 1, KB_FPROP,
                               kb_precision_find("fp32"), &cases, &err) < 0,
                     1);
    assert_int_equal(cases.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_line_types),
        cmocka_unit_test(test_figures), cmocka_unit_test(test_directions),
        cmocka_unit_test(test_compare), cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_sweeps),  cmocka_unit_test(test_stats),
        cmocka_unit_test(test_summary), cmocka_unit_test(test_floor),
        cmocka_unit_test(test_proof),   cmocka_unit_test(test_proof_transform),
        cmocka_unit_test(test_bench),   cmocka_unit_test(test_html),
        cmocka_unit_test(test_json),    cmocka_unit_test(test_csv),
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
