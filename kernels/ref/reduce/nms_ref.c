/* SPDX-License-Identifier: Apache-2.0 */
/* Non-maximum suppression: of the boxes of a class, best first, those that
 * overlap no better one.  The workspace holds the order of the boxes. */
#include "kernels/ref/ref.h"

/* The boxes and scores of one image and class. */
struct boxes {
    const struct kern_problem *p;
    const struct kern_args *args;
    int64_t box, score; /* offsets of the first ones */
};

static double score_of(const struct boxes *b, int32_t i)
{
    const struct kern_tensor *t = &b->p->in[1];

    return ref_load(t->dtype, b->args->in[1], b->score + i * t->stride[2]);
}

/* Corners y,x,y,x in ascending order. */
static void corners_of(const struct boxes *b, int32_t i, double *c)
{
    const struct kern_tensor *t = &b->p->in[0];
    double v[4];

    for (int k = 0; k < 4; k++)
        v[k] = ref_load(t->dtype, b->args->in[0],
                        b->box + i * t->stride[1] + k * t->stride[2]);
    if (b->p->attr.nms.center) { /* x, y, width, height */
        c[0] = v[1] - v[3] / 2;
        c[1] = v[0] - v[2] / 2;
        c[2] = v[1] + v[3] / 2;
        c[3] = v[0] + v[2] / 2;
        return;
    }
    for (int k = 0; k < 2; k++) {
        c[k] = v[k] < v[k + 2] ? v[k] : v[k + 2];
        c[k + 2] = v[k] < v[k + 2] ? v[k + 2] : v[k];
    }
}

static double extent(double from, double to)
{
    return to > from ? to - from : 0;
}

static bool overlap(const struct boxes *b, int32_t i, int32_t j)
{
    double p[4], q[4];

    corners_of(b, i, p);
    corners_of(b, j, q);
    const double both =
        extent(p[0] > q[0] ? p[0] : q[0], p[2] < q[2] ? p[2] : q[2]) *
        extent(p[1] > q[1] ? p[1] : q[1], p[3] < q[3] ? p[3] : q[3]);
    const double all = extent(p[0], p[2]) * extent(p[1], p[3]) +
                       extent(q[0], q[2]) * extent(q[1], q[3]) - both;
    return both > 0 && both > (double)b->p->attr.nms.iou * all;
}

/* True where box i comes before box j. */
static bool before(const struct boxes *b, int32_t i, int32_t j)
{
    const double p = score_of(b, i), q = score_of(b, j);

    return p > q || (p == q && i < j);
}

/* Moves the root of a heap, whose root is its last in order, into place. */
static void sift(const struct boxes *b, int32_t *heap, int64_t at, int64_t n)
{
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        const int32_t top = heap[at];

        if (child + 1 < n && before(b, heap[child], heap[child + 1]))
            child++;
        if (!before(b, top, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = top;
        at = child;
    }
}

static void sort(const struct boxes *b, int32_t *list, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift(b, list, i, n);
    for (int64_t i = n; i-- > 1;) {
        const int32_t last = list[0];

        list[0] = list[i];
        list[i] = last;
        sift(b, list, 0, i);
    }
}

/* Leaves the chosen boxes in front of the list and gives their number. */
static int64_t choose(const struct boxes *b, int32_t *list, int64_t n,
                      int64_t most)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n && kept < most; i++) {
        bool free_of = true;

        for (int64_t k = 0; k < kept && free_of; k++)
            free_of = !overlap(b, list[k], list[i]);
        if (free_of)
            list[kept++] = list[i];
    }
    return kept;
}

static void store_row(const struct kern_problem *p, const struct kern_args *a,
                      int64_t row, int64_t image, int64_t class, int64_t box)
{
    const int64_t v[3] = {image, class, box};

    for (int k = 0; k < 3; k++)
        scalar_store_i64(INFER_I64, a->out[0],
                         row * p->out[0].stride[0] + k * p->out[0].stride[1],
                         v[k]);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)d;
    (void)err;
    e->workspace = (size_t)e->problem.in[0].dim[1] * sizeof(int32_t);
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *scores = &p->in[1];
    const int64_t classes = scores->dim[0] * scores->dim[1];
    const int64_t most = classes ? p->out[0].dim[0] / classes : 0;
    int64_t row = 0;

    (void)err;
    for (int64_t c = 0; c < classes; c++) {
        const int64_t image = c / scores->dim[1], class = c % scores->dim[1];
        const struct boxes b = {p, args, image * p->in[0].stride[0],
                                image * scores->stride[0] +
                                    class * scores->stride[1]};
        int32_t *list = args->workspace;
        int64_t n = 0;

        for (int32_t i = 0; i < (int32_t)scores->dim[2]; i++)
            if (score_of(&b, i) > (double)p->attr.nms.score)
                list[n++] = i;
        sort(&b, list, n);
        n = choose(&b, list, n, most);
        for (int64_t i = 0; i < n; i++)
            store_row(p, args, row++, image, class, list[i]);
    }
    for (; row < p->out[0].dim[0]; row++)
        store_row(p, args, row, -1, -1, -1);
    return 0;
}

KERN_FUNCTIONS(nms_ref) = {
    .supports = ref_supports_all,
    .prepare = prepare,
    .launch = launch,
};
