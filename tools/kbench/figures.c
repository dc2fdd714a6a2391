/* SPDX-License-Identifier: Apache-2.0 */
/* Problems from text: benchdnn's letters, options, sweeps. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "kernels/input_scale.h"
#include "libinfer/graph/graph.h"
#include "tools/kbench/kbench.h"

/* Far above the figures of real networks; products stay in range. */
#define MAX_FIGURE (1 << 24)

static const struct kb_precision precisions[] = {
    {"fp32", INFER_F32, false},
    {"tf32", INFER_F32, true},
    {"fp16", INFER_F16, false},
    {"bf16", INFER_BF16, false},
};

const struct kb_precision *kb_precision_find(const char *name)
{
    for (size_t i = 0; i < sizeof(precisions) / sizeof(*precisions); i++)
        if (strcmp(precisions[i].name, name) == 0)
            return &precisions[i];
    return NULL;
}

int kb_precision_index(const struct kb_precision *precision)
{
    return (int)(precision - precisions);
}

void kb_figures_init(struct kb_figures *f, enum kern_op op)
{
    *f = (struct kb_figures){.op = op, .pad_bottom = -1, .pad_right = -1};
}

/* ---- one figure ---------------------------------------------------- */

static bool in_range(int64_t value, int64_t least)
{
    return value >= least && value <= MAX_FIGURE;
}

static bool set_size(int64_t *field, int64_t value)
{
    *field = value;
    return in_range(value, 1);
}

static bool set_step(int *field, int64_t value, int64_t least)
{
    *field = (int)value;
    return in_range(value, least);
}

static bool set_pads(struct kb_figures *f, int64_t value)
{
    return set_step(&f->pad_top, value, 0) &&
           set_step(&f->pad_left, value, 0) &&
           set_step(&f->pad_bottom, value, 0) &&
           set_step(&f->pad_right, value, 0);
}

bool kb_figures_set(struct kb_figures *f, const char *name, int64_t value)
{
    const struct {
        const char *name;
        int64_t *field;
    } sizes[] = {{"n", &f->n}, {"c", &f->c}, {"h", &f->h}, {"w", &f->w},
                 {"k", &f->k}, {"r", &f->r}, {"s", &f->s}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (strcmp(name, sizes[i].name) == 0)
            return set_size(sizes[i].field, value);
    if (strcmp(name, "hw") == 0)
        return set_size(&f->h, value) && set_size(&f->w, value);
    if (strcmp(name, "rs") == 0)
        return set_size(&f->r, value) && set_size(&f->s, value);
    if (strcmp(name, "ck") == 0)
        return set_size(&f->c, value) && set_size(&f->k, value);
    if (strcmp(name, "g") == 0)
        return set_step(&f->groups, value, 1);
    if (strcmp(name, "stride") == 0)
        return set_step(&f->stride_h, value, 1) &&
               set_step(&f->stride_w, value, 1);
    if (strcmp(name, "dilation") == 0)
        return set_step(&f->dilation_h, value, 1) &&
               set_step(&f->dilation_w, value, 1);
    if (strcmp(name, "pad") == 0)
        return set_pads(f, value);
    return false;
}

/* ---- benchdnn's letters -------------------------------------------- */

/* benchdnn counts dilations from 0. */
static bool set_letters(struct kb_figures *f, const char *letters,
                        int64_t value)
{
    const struct {
        const char *letters;
        int64_t *field;
    } sizes[] = {{"mb", &f->n}, {"ic", &f->c}, {"ih", &f->h},
                 {"iw", &f->w}, {"oc", &f->k}, {"oh", &f->p},
                 {"ow", &f->q}, {"kh", &f->r}, {"kw", &f->s}};
    const struct {
        const char *letters;
        int *field;
        int least, add;
    } steps[] = {{"g", &f->groups, 1, 0},      {"sh", &f->stride_h, 1, 0},
                 {"sw", &f->stride_w, 1, 0},   {"dh", &f->dilation_h, 0, 1},
                 {"dw", &f->dilation_w, 0, 1}, {"ph", &f->pad_top, 0, 0},
                 {"pw", &f->pad_left, 0, 0}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (strcmp(letters, sizes[i].letters) == 0)
            return set_size(sizes[i].field, value);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        if (strcmp(letters, steps[i].letters) == 0) {
            if (!set_step(steps[i].field, value, steps[i].least))
                return false;
            *steps[i].field += steps[i].add;
            return true;
        }
    return false;
}

static int parse_letters(const char *word, struct kb_figures *f,
                         struct infer_error *err)
{
    /* Pads at the end follow from the output size of the text. */
    f->p = f->q = 0;
    f->pad_left = -1;
    while (*word != '\0') {
        char letters[4] = "", *end;
        size_t n = 0;

        while (isalpha((unsigned char)word[n]) && n < sizeof(letters) - 1) {
            letters[n] = word[n];
            n++;
        }
        const long long value =
            isdigit((unsigned char)word[n]) ? strtoll(word + n, &end, 10) : -1;
        if (n == 0 || value < 0 || !set_letters(f, letters, value))
            return error_set(err, INFER_EARGUMENT,
                             "problem: cannot read '%s' (expected letters of "
                             "benchdnn, as in mb1ic64ih56oc64oh56kh3ph1)",
                             word);
        word = end;
    }
    if (f->pad_left < 0)
        f->pad_left = f->pad_top;
    return 0;
}

/* ---- what stands behind -------------------------------------------- */

static int parse_epilogue(const char *word, struct kb_figures *f,
                          struct infer_error *err)
{
    if (strcmp(word, "bias") == 0) {
        f->bias = true;
        return 0;
    }
    if (strcmp(word, "factors") == 0) {
        f->factors = true;
        return 0;
    }
    if (strcmp(word, "residual") == 0) {
        f->residual = true;
        f->residual_last = f->act.kind != KERN_IDENTITY;
        return 0;
    }
    const int kind = cli_word(word, kern_unary_names);
    if (kind < 0)
        return error_set(err, INFER_EARGUMENT,
                         "problem: no epilogue '%s' (bias, residual, factors "
                         "or an activation such as relu)",
                         word);
    f->act = graph_unary((enum kern_unary_kind)kind);
    return 0;
}

/* "nhwc", "F16", "F16:F32", "nhwc:nchw": the end of a printed line. --layout
 * and --dtype set layout and type; a different type is refused. */
static bool parse_end(const char *word, struct kb_figures *f)
{
    static const char *const known[] = {"F32",  "F16",   "BF16",    "nhwc",
                                        "nchw", "dense", "strided", NULL};
    static const enum infer_dtype dtypes[] = {INFER_F32, INFER_F16, INFER_BF16};
    const size_t n = strcspn(word, ":");
    char first[16];

    if (n >= sizeof(first))
        return false;
    memcpy(first, word, n);
    first[n] = '\0';
    const int which = cli_word(first, known);
    if (which < 0 || (word[n] && cli_word(word + n + 1, known) < 0))
        return false;
    if (which < 3)
        f->dtype = dtypes[which];
    return true;
}

static int parse_word(const char *word, struct kb_figures *f,
                      struct infer_error *err)
{
    static const char *const ops[] = {
        "conv_fprop",  "conv_dgrad",           "conv_wgrad", "pool_fprop",
        "dense_fprop", "conv_transpose_fprop", NULL};
    static const enum kern_op op_of[] = {
        KERN_CONV_FPROP, KERN_CONV_FPROP,  KERN_CONV_FPROP,
        KERN_POOL_FPROP, KERN_DENSE_FPROP, KERN_CONV_TRANSPOSE_FPROP};
    const int op = cli_word(word, ops);

    if (op >= 0) {
        f->op = op_of[op];
        if (op == KB_DGRAD || op == KB_WGRAD)
            f->dir = (enum kb_dir)op;
        return 0;
    }
    if (*word == '+')
        return parse_epilogue(word + 1, f, err);
    if (text_begins(word, "average")) {
        f->average = true;
        return 0;
    }
    if (strcmp(word, "max") == 0 || parse_end(word, f))
        return 0;
    return parse_letters(word, f, err);
}

int kb_figures_parse(const char *text, struct kb_figures *f,
                     struct infer_error *err)
{
    char word[128];

    if (text[strspn(text, " ")] == '\0')
        return error_set(err, INFER_EARGUMENT, "problem: it is empty");
    for (;;) {
        text += strspn(text, " ");
        const size_t n = strcspn(text, " ");
        if (n == 0)
            return 0;
        if (n >= sizeof(word))
            return error_set(err, INFER_EARGUMENT,
                             "problem: '%.40s...' is "
                             "too long",
                             text);
        memcpy(word, text, n);
        word[n] = '\0';
        const int rc = parse_word(word, f, err);
        if (rc < 0)
            return rc;
        text += n;
    }
}

/* ---- the whole problem --------------------------------------------- */

#define OR(value, otherwise) ((value) ? (value) : (otherwise))

static void complete(struct kb_figures *f)
{
    f->n = OR(f->n, 1);
    f->c = OR(f->c, 1);
    f->h = OR(f->h, 1);
    f->w = OR(f->w, f->h);
    f->k = f->op == KERN_POOL_FPROP ? f->c : OR(f->k, 1);
    f->r = OR(f->r, 1);
    f->s = OR(f->s, f->r);
    f->groups = OR(f->groups, 1);
    f->stride_h = OR(f->stride_h, 1);
    f->stride_w = OR(f->stride_w, f->stride_h);
    f->dilation_h = OR(f->dilation_h, 1);
    f->dilation_w = OR(f->dilation_w, f->dilation_h);
    /* A line omits W if all its figures equal those of H. */
    if (f->p && !f->q && f->w == f->h && f->s == f->r)
        f->q = f->p;
}

/* The output's extent, or the padding at the end that gives it. */
static int settle(int64_t in, int64_t window, int stride, int dilation,
                  int begin, int *end, int64_t *out, struct infer_error *err)
{
    const int64_t reach = dilation * (window - 1) + 1;

    if (*out > 0) {
        const int64_t pad = (*out - 1) * stride + reach - in - begin;

        if (pad < INT_MIN || pad > INT_MAX)
            return error_set(err, INFER_EARGUMENT,
                             "problem: an output of %lld needs a pad of %lld",
                             (long long)*out, (long long)pad);
        *end = (int)pad;
    } else {
        if (*end < 0)
            *end = begin;
        const int64_t room = in + begin + *end - reach;
        if (room < 0)
            return error_set(err, INFER_EARGUMENT,
                             "problem: a window of %lld does not fit in %lld "
                             "with pads %d and %d",
                             (long long)reach, (long long)in, begin, *end);
        *out = room / stride + 1;
    }
    /* Rows that no window reaches count as cropped, not as padding. */
    if (*end < 0 && -*end < stride)
        *end = 0;
    return 0;
}

/* The same for a transposed convolution, whose window spreads each input. */
static int settle_transposed(int64_t in, int64_t window, int stride,
                             int dilation, int begin, int *end, int64_t *out,
                             struct infer_error *err)
{
    const int64_t whole = (in - 1) * stride + dilation * (window - 1) + 1;

    if (*out > 0) {
        const int64_t pad = whole - begin - *out;

        /* Outputs behind the last window's end take nothing. */
        *end = pad < 0 ? 0 : (int)pad;
        return 0;
    }
    if (*end < 0)
        *end = begin;
    *out = whole - begin - *end;
    return *out > 0 ? 0
                    : error_set(err, INFER_EARGUMENT,
                                "problem: pads %d and %d leave no output",
                                begin, *end);
}

static int settle_both(struct kb_figures *f, struct infer_error *err)
{
    int (*const one)(int64_t, int64_t, int, int, int, int *, int64_t *,
                     struct infer_error *) =
        f->op == KERN_CONV_TRANSPOSE_FPROP ? settle_transposed : settle;
    const int rc = one(f->h, f->r, f->stride_h, f->dilation_h, f->pad_top,
                       &f->pad_bottom, &f->p, err);

    return rc < 0 ? rc
                  : one(f->w, f->s, f->stride_w, f->dilation_w, f->pad_left,
                        &f->pad_right, &f->q, err);
}

static void add_epilogue(const struct kb_figures *f,
                         const struct kb_precision *precision,
                         enum kern_layout layout, struct kern_problem *p)
{
    const struct kern_tensor *y = &p->out[0];
    const bool half = precision->dtype != INFER_F32;

    p->epilogue.act = f->act;
    p->epilogue.residual_last = f->residual && f->residual_last;
    if (f->op == KERN_POOL_FPROP)
        return;
    p->constant_in = 1u << 1;
    if (f->bias) {
        p->in[2] = kern_tensor_dense(half ? INFER_F32 : precision->dtype, 1,
                                     &f->k, KERN_NCHW);
        p->constant_in |= 1u << 2;
        p->n_in = 3;
    }
    if (f->residual) {
        p->in[3] = kern_tensor_dense(y->dtype, y->rank, y->dim, layout);
        p->n_in = 4;
    }
    if (f->factors && f->op == KERN_CONV_FPROP) {
        const int64_t dim[] = {f->n, f->c, 1, 1};
        p->in[INPUT_SCALE_IN] =
            kern_tensor_dense(precision->dtype, 4, dim, KERN_NCHW);
        p->n_in = INPUT_SCALE_IN + 1;
    }
}

static void make_windows(const struct kb_figures *f,
                         const struct kb_precision *precision,
                         enum kern_layout layout, struct kern_problem *p)
{
    const int64_t x[] = {f->n, f->c, f->h, f->w};
    const bool transposed = f->op == KERN_CONV_TRANSPOSE_FPROP;
    const int64_t w[] = {transposed ? f->c : f->k,
                         (transposed ? f->k : f->c) / f->groups, f->r, f->s};
    const int64_t y[] = {f->n, f->k, f->p, f->q};
    /* The two attributes have different layouts: filled by name. */
    if (f->op != KERN_POOL_FPROP) {
        p->attr.conv =
            (struct kern_conv){.groups = f->groups,
                               .stride = {f->stride_h, f->stride_w},
                               .dilation = {f->dilation_h, f->dilation_w},
                               .pad_begin = {f->pad_top, f->pad_left},
                               .pad_end = {f->pad_bottom, f->pad_right}};
        p->in[1] = kern_tensor_dense(precision->dtype, 4, w, KERN_NCHW);
        p->n_in = 2;
    } else {
        p->attr.pool = (struct kern_pool){
            .kind = f->average ? KERN_POOL_AVERAGE : KERN_POOL_MAX,
            .window = {(int)f->r, (int)f->s},
            .stride = {f->stride_h, f->stride_w},
            .dilation = {f->dilation_h, f->dilation_w},
            .pad_begin = {f->pad_top, f->pad_left},
            .pad_end = {f->pad_bottom, f->pad_right}};
        p->n_in = 1;
    }
    p->in[0] = kern_tensor_dense(precision->dtype, 4, x, layout);
    p->out[0] = kern_tensor_dense(precision->dtype, 4, y, layout);
}

static void make_dense(const struct kb_figures *f,
                       const struct kb_precision *precision,
                       struct kern_problem *p)
{
    const int64_t x[] = {f->n, f->c}, w[] = {f->k, f->c}, y[] = {f->n, f->k};

    p->in[0] = kern_tensor_dense(precision->dtype, 2, x, KERN_NCHW);
    p->in[1] = kern_tensor_dense(precision->dtype, 2, w, KERN_NCHW);
    p->out[0] = kern_tensor_dense(precision->dtype, 2, y, KERN_NCHW);
    p->n_in = 2;
}

/* Figures that only windows have. */
static bool has_window(const struct kb_figures *f)
{
    return f->r > 1 || f->s > 1 || f->stride_h > 1 || f->stride_w > 1 ||
           f->dilation_h > 1 || f->dilation_w > 1 || f->pad_top > 0 ||
           f->pad_left > 0 || f->groups > 1;
}

int kb_figures_problem(const struct kb_figures *given,
                       const struct kb_precision *precision,
                       enum kern_layout layout, struct infer_error *err,
                       struct kern_problem *out)
{
    struct kb_figures f = *given;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    if (f.dtype != INFER_NONE && f.dtype != precision->dtype)
        return error_set(err, INFER_EARGUMENT,
                         "problem: its line says %s, --dtype %s",
                         infer_dtype_name(f.dtype), precision->name);
    complete(&f);
    out->op = f.op;
    out->n_out = 1;
    out->allow_tf32 = precision->allow_tf32;
    if (f.op == KERN_DENSE_FPROP && has_window(given))
        return error_set(err, INFER_EARGUMENT,
                         "problem: a dense layer has no window, stride, pads "
                         "or groups: this is a convolution (conv)");
    if (f.op == KERN_DENSE_FPROP) {
        make_dense(&f, precision, out);
    } else {
        rc = settle_both(&f, err);
        if (rc < 0)
            return rc;
        make_windows(&f, precision, layout, out);
    }
    add_epilogue(&f, precision, layout, out);
    if (f.dir != KB_FPROP && f.op != KERN_CONV_FPROP)
        return error_set(err, INFER_EARGUMENT,
                         "problem: only convolutions have a %s here",
                         kb_dir_names[f.dir]);
    kb_problem_backward(out, f.dir);
    if (kern_problem_check(out, err) < 0) {
        error_prefix(err, "problem");
        err->code =
            INFER_EARGUMENT; /* an error of the command line, not of a model */
        return err->code;
    }
    return 0;
}
