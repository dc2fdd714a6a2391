/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with any window, stride, dilation and groups, 1-D and 2-D; the
 * inner loops are those of window.h.
 *
 * Work is divided into bands: some rows of an image's output, of one unit of
 * channels.  The input that a band needs is copied, with its padding, into
 * scratch memory that stays in the L2 cache, unless it is read where it lies.
 * A unit is one of:
 *   dense   a group: each value of a pixel times the vectors of a panel of
 *           outputs.  U is [group][panel][R S C][2 vectors].
 *   spread  two groups or more, as many as a vector has room for: vector c of a
 *           pixel holds in lane i the channel c of output i's group, and is
 *           multiplied lane by lane (a depthwise layer has one such vector).
 *           U is [unit][R S C][vector].  Each value of the copy is read R S
 *           times: bands are narrow, so that the copy stays in the L1 cache.
 * A dense band goes through U part by part, each of which stays in the L1
 * cache for all pixels of the band; sums wait in scratch memory.
 *
 * Neither bands nor threads change the order of a sum (window.h).
 */
#include "config.h"

#include "kernels/cpu/conv/axis.h"
#include "kernels/cpu/conv/vector.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Pixels of a dense band, and bytes of the copied input of a spread one. */
#define BAND_PIXELS 96
#define BAND_BYTES  (40 << 10)
/* Cost of a vector of the copy, of a product and of a vector of weights for
 * the pixels of a tile, in half cycles. */
#define SPREAD_COST 3
#define TILE_PIXELS 12
/* Rows of U in a part: 24 KiB with AVX-512. */
#define PART_ROWS 192
/* Bytes that the scratch memory of a thread may take. */
#define MOST_SCRATCH ((size_t)64 << 20)

struct state {
    const struct vector_steps *steps;
    int threads;
    bool spread, direct; /* direct: no copy */
    bool residual;
    struct axis a[2];
    int64_t images, x_image, y_image, r_image;
    int64_t c, k;    /* channels and outputs of a group */
    int64_t outputs; /* of all groups */
    /* Units; channels and outputs of one, and panels. */
    int64_t units, unit_in, unit_out, panels, panel;
    int64_t depth; /* rows of U a panel */
    int64_t pixel, pitch;
    /* A band is rows x cols of the output's pixels; there are bands x strips
     * of a unit and image. */
    int64_t rows, bands, cols, strips;
    int segments;
    struct window_segment *segment;
    int64_t scratch, sums; /* floats */
    int32_t *lane;
};

/* ---- which problems ------------------------------------------------ */

static bool is_inside(const struct axis *a)
{
    return a->pad == 0 && axis_extent(a, a->out) <= a->in;
}

static void fill_units(const struct kern_problem *p, struct state *s)
{
    const int64_t groups = p->attr.conv.groups, lanes = s->panel / 2;

    s->c = p->in[W].dim[1];
    s->k = p->out[0].dim[1] / groups;
    s->outputs = p->out[0].dim[1];
    const int64_t each = lanes / (s->c > s->k ? s->c : s->k);

    s->spread = groups > 1 && each > 1;
    if (s->spread) {
        s->units = (groups + each - 1) / each;
        s->unit_in = each * s->c;
        s->unit_out = each * s->k;
        s->panels = 1;
        s->panel = lanes;
        s->pixel = s->c * lanes;
    } else {
        s->units = groups;
        s->unit_in = s->c;
        s->unit_out = s->k;
        s->panels = (s->k + s->panel - 1) / s->panel;
        s->pixel = s->c;
    }
}

/* Half cycles that rows x cols outputs of a spread unit take per output. */
static double spread_cost(const struct state *s, int64_t rows, int64_t cols)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const double copied =
        (double)axis_extent(h, rows) * (double)axis_extent(w, cols);
    const double tiles = (double)((cols + TILE_PIXELS - 1) / TILE_PIXELS);

    return SPREAD_COST * copied / (double)(rows * cols) +
           (double)(h->window * w->window) * (1 + tiles / (double)cols);
}

/* The band of a spread unit that costs least; one output if none fits. */
static void choose_spread(struct state *s)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    double least = 0;

    s->rows = s->cols = 1;
    for (int64_t n = 1, cols = 0; n <= w->out && cols != 1; n++) {
        const int64_t before = cols;

        cols = (w->out + n - 1) / n;
        const int64_t fit = BAND_BYTES / (int64_t)sizeof(float) / s->pixel /
                            axis_extent(w, cols);
        const int64_t more = fit - (h->window - 1) * h->dilation - 1;

        if (cols == before || more < 0)
            continue;
        int64_t rows = more / h->stride + 1;
        rows = rows < h->out ? rows : h->out;
        const double cost = spread_cost(s, rows, cols);

        if (least == 0 || cost < least) {
            least = cost;
            s->rows = rows;
            s->cols = cols;
        }
    }
}

/* Fails where sizes overflow or a band does not fit the scratch memory. */
static bool fill_bands(struct state *s)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const bool whole = !s->spread && s->units == 1;
    size_t bytes, row;

    s->depth = h->window * w->window * s->c;
    s->direct = whole && is_inside(h) && is_inside(w);
    s->rows = BAND_PIXELS / w->out > 1 ? BAND_PIXELS / w->out : 1;
    s->cols = w->out;
    if (s->spread)
        choose_spread(s);
    if (s->direct) {
        s->pitch = h->x_step;
        s->pixel = w->x_step;
    } else if (!checked_mul((size_t)axis_extent(w, s->cols), (size_t)s->pixel,
                            &row) ||
               row > MOST_SCRATCH / sizeof(float)) {
        return false;
    } else {
        s->pitch = (int64_t)row;
    }
    s->rows = s->rows < h->out ? s->rows : h->out;
    s->bands = (h->out + s->rows - 1) / s->rows;
    s->rows = (h->out + s->bands - 1) / s->bands;
    s->strips = (w->out + s->cols - 1) / s->cols;
    s->sums = s->spread ? 0 : s->rows * w->out * s->panel;
    s->scratch = 0;
    if (s->direct)
        return true;
    if (!checked_mul((size_t)s->pitch, (size_t)axis_extent(h, s->rows),
                     &bytes) ||
        bytes > MOST_SCRATCH / sizeof(float))
        return false;
    s->scratch = (int64_t)(bytes + 15) / 16 * 16;
    return true;
}

static bool fill(const struct kern_problem *p, int threads, struct state *s)
{
    *s = (struct state){.steps = vector_steps(), .threads = threads};
    s->panel = s->steps->panel;
    s->images = p->in[X].dim[0];
    s->x_image = p->in[X].stride[0];
    s->y_image = p->out[0].stride[0];
    s->residual = kern_problem_in(p, RESIDUAL) != NULL;
    if (s->residual)
        s->r_image = p->in[RESIDUAL].stride[0];
    axis_fill(p, 0, &s->a[0]);
    axis_fill(p, 1, &s->a[1]);
    fill_units(p, s);
    return fill_bands(s);
}

int vector_window_supports(const struct kern_problem *p,
                           struct infer_error *why)
{
    const int rc = vector_conv_supports(p, why);
    struct state s;

    if (rc < 0)
        return rc;
    if (p->in[X].rank != 3 && p->in[X].rank != 4)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one or two spatial dimensions");
    if (kern_tensor_count(&p->out[0]) == 0 || kern_tensor_count(&p->in[X]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty tensors");
    if (!fill(p, 1, &s))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes rows that fit its scratch memory");
    return 0;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
#ifdef HAVE_ONEDNN
    /* A place in a concatenation: oneDNN's row with a copy behind it is faster
     * for most layers. */
    if (!kern_tensor_is_dense(&p->out[0], KERN_NHWC) && !vector_conv_spreads(p))
        return error_set(why, INFER_EUNSUPPORTED, "makes dense results");
#endif
    return vector_window_supports(p, why);
}

/* ---- preparation --------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Contiguous runs of the window: its rows, or its pixels where they do not
 * touch; of at most PART_ROWS rows of U. */
static void list_segments(struct state *s)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const bool joined = w->dilation == 1 && (s->spread || s->pixel == s->c);
    const int64_t runs = joined ? 1 : w->window;
    const int64_t length = joined ? w->window * s->c : s->c;
    const int64_t lanes = s->spread ? s->panel : 1;

    s->segments = 0;
    for (int64_t r = 0; r < h->window; r++)
        for (int64_t t = 0; t < runs; t++)
            for (int64_t i = 0; i < length; i += PART_ROWS)
                s->segment[s->segments++] = (struct window_segment){
                    r * h->dilation * s->pitch + t * w->dilation * s->pixel +
                        i * lanes,
                    smaller(length - i, PART_ROWS)};
}

static void list_lanes(struct state *s)
{
    for (int64_t c = 0; c < s->c; c++)
        for (int64_t i = 0; i < s->unit_out; i++)
            s->lane[c * s->panel + i] = (int32_t)(i / s->k * s->c + c);
}

static void release(struct kern_exec *e)
{
    struct state *s = e->state;

    if (s) {
        free(s->segment);
        free(s->lane);
    }
    free(s);
    e->state = NULL;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = malloc(sizeof *s);
    size_t all, bytes;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    (void)fill(&e->problem, d->threads, s); /* supports() has looked */
    all = (size_t)s->a[0].window * (size_t)s->a[1].window *
          (size_t)(s->c / PART_ROWS + 1);
    s->segment = calloc(all, sizeof *s->segment);
    if (s->spread && s->c * s->k > 1)
        s->lane = calloc((size_t)(s->c * s->panel), sizeof *s->lane);
    e->state = s;
    if (!s->segment || (s->spread && s->c * s->k > 1 && !s->lane) ||
        !checked_mul((size_t)(s->scratch + s->sums) * sizeof(float),
                     (size_t)s->threads, &e->workspace) ||
        !checked_mul((size_t)(s->units * s->panels), (size_t)s->depth,
                     &bytes) ||
        !checked_mul(bytes, (size_t)s->panel * sizeof(float), &e->packed[W])) {
        release(e);
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    }
    list_segments(s);
    if (s->lane)
        list_lanes(s);
    return 0;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const int64_t taps = s->a[0].window * s->a[1].window;
    const float *w = src;
    float *u = dst;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    memset(u, 0, e->packed[W]);
    for (int64_t k = 0; k < s->outputs; k++) {
        const int64_t unit = k / s->unit_out, at = k % s->unit_out;
        float *to = u +
                    (unit * s->panels + at / s->panel) * s->depth * s->panel +
                    at % s->panel;

        for (int64_t c = 0; c < s->c; c++)
            for (int64_t t = 0; t < taps; t++)
                to[(t * s->c + c) * s->panel] = w[(k * s->c + c) * taps + t];
    }
    return 0;
}

/* ---- launch -------------------------------------------------------- */

/* What a thread works on: a band of a unit, panels [from, to). */
struct item {
    int64_t image, unit, first, rows; /* output rows */
    int64_t left, cols;               /* and columns */
    int64_t from, to;
};

/* Input positions of a band's row: `lead` outside, `n` inside from `first` on,
 * the others outside. */
struct span {
    int64_t lead, first, n, all;
};

static struct span find_span(const struct axis *w, const struct item *i)
{
    const int64_t at = i->left * w->stride - w->pad;
    struct span p = {.all = axis_extent(w, i->cols)};

    p.lead = at < 0 ? smaller(-at, p.all) : 0;
    p.first = at < 0 ? 0 : at;
    p.n = w->in > p.first ? smaller(w->in - p.first, p.all - p.lead) : 0;
    return p;
}

/* An input row of a band, with what lies outside as zeros. channels: of the
 * unit. */
static void copy_row(const struct state *s, const struct span *p,
                     const float *x, int64_t channels, float *to)
{
    const int64_t step = s->a[1].x_step, after = p->all - p->lead - p->n;
    const struct window_spread row = {.x = x + p->first * step,
                                      .x_step = step,
                                      .pixels = p->n,
                                      .channels = channels,
                                      .vectors = (int)s->c,
                                      .lane = s->lane,
                                      .to = to + p->lead * s->pixel};

    memset(to, 0, (size_t)(p->lead * s->pixel) * sizeof *to);
    memset(to + (p->lead + p->n) * s->pixel, 0,
           (size_t)(after * s->pixel) * sizeof *to);
    if (s->spread) {
        s->steps->spread(&row);
        return;
    }
    if (step == s->pixel) {
        memcpy(row.to, row.x, (size_t)(p->n * step) * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < p->n; i++)
        memcpy(row.to + i * s->pixel, row.x + i * step,
               (size_t)s->pixel * sizeof *to);
}

/* The input rows of a band, padding included. */
static void copy_band(const struct state *s, const struct item *i,
                      const float *x, float *to)
{
    const struct axis *h = &s->a[0];
    const int64_t n = axis_extent(h, i->rows),
                  top = i->first * h->stride - h->pad;
    const int64_t from = i->unit * s->unit_in;
    const int64_t all = s->outputs / s->k * s->c;
    const int64_t channels = smaller(all - from, s->unit_in);
    const struct span p = find_span(&s->a[1], i);

    x += i->image * s->x_image + from;
    for (int64_t r = 0; r < n; r++, to += s->pitch)
        if (top + r < 0 || top + r >= h->in)
            memset(to, 0, (size_t)(p.all * s->pixel) * sizeof *to);
        else
            copy_row(s, &p, x + (top + r) * h->x_step, channels, to);
}

/* One panel of a band. x: the band's first input row. */
static void run_panel(const struct state *s, const struct item *i,
                      struct window_run *run, const float *x,
                      const struct kern_args *args, int64_t panel, float *sums)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const float *u = args->in[W];
    const int64_t first = i->unit * s->unit_out + panel * s->panel;
    const int64_t there = smaller(s->outputs, (i->unit + 1) * s->unit_out);

    u += (i->unit * s->panels + panel) * s->depth * s->panel;
    run->x_step = w->stride * s->pixel;
    run->k = first;
    run->n = smaller(there - first, s->panel);
    for (int at = 0; at < s->segments;) {
        int64_t rows = 0;
        int end = at;

        while (end < s->segments &&
               (s->spread || rows == 0 ||
                rows + s->segment[end].length <= PART_ROWS))
            rows += s->segment[end++].length;
        run->u = u;
        run->segment = s->segment + at;
        run->segments = end - at;
        run->first = at == 0;
        run->last = end == s->segments;
        /* The part behind this one, in equal shares of the band's rows. */
        run->next = (const char *)(u + rows * s->panel);
        run->share = smaller(rows * s->panel, PART_ROWS * s->panel) *
                     (int64_t)sizeof *u / i->rows;
        for (int64_t r = 0; r < i->rows; r++) {
            const int64_t y = i->image * s->y_image +
                              (i->first + r) * h->y_step + i->left * w->y_step +
                              first;

            run->x = x + r * h->stride * s->pitch;
            run->sums = sums;
            if (!run->first || !run->last)
                run->sums += r * i->cols * s->panel;
            run->y = (float *)args->out[0] + y;
            if (s->residual)
                run->residual =
                    (const float *)args->in[RESIDUAL] + i->image * s->r_image +
                    (i->first + r) * h->r_step + i->left * w->r_step + first;
            if (s->spread)
                s->steps->window_spread(run, i->cols);
            else
                s->steps->window(run, i->cols);
            run->next += run->share;
        }
        u += rows * s->panel;
        at = end;
    }
}

/* The activation of finished sums, where it is none of limits. */
static void activate(const struct state *s, const struct item *i,
                     const struct vector_epilogue *e, float *y)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const int64_t unit = i->unit * s->unit_out;
    const int64_t from = unit + i->from * s->panel;
    const int64_t to = smaller(smaller(unit + s->unit_out, s->outputs),
                               unit + i->to * s->panel);

    y += i->image * s->y_image + from;
    for (int64_t r = i->first; r < i->first + i->rows; r++)
        for (int64_t q = i->left; q < i->left + i->cols; q++) {
            float *at = y + r * h->y_step + q * w->y_step;

            cpu_act(&e->of.act, at, at, to - from);
        }
}

static void run_item(const struct state *s, const struct item *i,
                     const struct vector_epilogue *e,
                     const struct kern_args *args, float *scratch)
{
    struct window_run run = {
        .y_step = s->a[1].y_step, .r_step = s->a[1].r_step, .epilogue = e};
    const float *x = s->direct
                         ? (const float *)args->in[X] + i->image * s->x_image +
                               i->first * s->a[0].stride * s->pitch
                         : scratch;

    for (int64_t p = i->from; p < i->to; p++)
        run_panel(s, i, &run, x, args, p, scratch + s->scratch);
    if (e->on_rows)
        activate(s, i, e, args->out[0]);
}

/* Band b of all.  A pixel of several units is read once from memory: where a
 * unit's weights are few, units follow one another before bands do. */
static struct item find_item(const struct state *s, int64_t b)
{
    const int64_t each = s->bands * s->strips;
    const int64_t unit = s->spread ? b % s->units : b / each % s->units;
    const int64_t band = s->spread ? b / s->units % each : b % each;
    struct item i = {.image = b / each / s->units,
                     .unit = unit,
                     .first = band / s->strips * s->rows,
                     .left = band % s->strips * s->cols};

    i.rows = smaller(s->rows, s->a[0].out - i.first);
    i.cols = smaller(s->cols, s->a[1].out - i.left);
    return i;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    const int64_t bands = s->images * s->units * s->bands * s->strips;
    /* Few bands: each is divided among threads by panels. */
    const int64_t wanted = bands >= 4 * s->threads ? 1 : s->threads;
    const int64_t parts = smaller(wanted, s->panels);
    const int count =
        cpu_threads(s->threads, kern_tensor_count(&p->out[0]) * s->depth / 16);
    struct vector_epilogue epilogue;

    (void)err;
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = kern_problem_in(p, BIAS) ? args->in[BIAS] : NULL;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (int t = 0; t < count; t++) {
        float *scratch = (float *)args->workspace + t * (s->scratch + s->sums);
        int64_t from, to, copied = -1;

        cpu_share(bands * parts, t, count, &from, &to);
        for (; from < to; from++) {
            const int64_t b = from / parts;
            struct item i = find_item(s, b);

            cpu_share(s->panels, (int)(from % parts), (int)parts, &i.from,
                      &i.to);
            if (!s->direct && copied != b && i.rows > 0)
                copy_band(s, &i, args->in[X], scratch);
            copied = b;
            if (i.rows > 0)
                run_item(s, &i, &epilogue, args, scratch);
        }
    }
    return 0;
}

KERN_FUNCTIONS(conv_fprop_nhwc_f32_cpu_window) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = release,
};
