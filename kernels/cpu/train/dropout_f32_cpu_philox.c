/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout of a dense tensor: four elements that follow each other in the
 * logical order share the words of one call of the generator.  They lie side by
 * side in a row-major tensor, and a pixel apart in a channels-last one.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/base/error.h"
#include "kernels/base/philox.h"

static bool lies(const struct kern_problem *p, enum kern_layout layout)
{
    return kern_tensor_is_dense(&p->in[0], layout) &&
           kern_tensor_is_dense(&p->out[0], layout);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_f32(&p->in[0]) || !cpu_is_f32(&p->out[0]) ||
        (!lies(p, KERN_NCHW) && !lies(p, KERN_NHWC)) ||
        !kern_tensor_is_dense(&p->in[1], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense F32 tensors of one layout");
    return 0;
}

struct mask {
    uint64_t seed, offset;
    uint32_t stream, threshold;
    float factor;
    /* Element i = (n C + c) P + q of the logical order lies at
     * n C P + q * step + c * plane. */
    int64_t channels, pixels, step, plane;
};

static int64_t place(const struct mask *m, int64_t i)
{
    const int64_t q = i % m->pixels, c = i / m->pixels % m->channels;
    const int64_t n = i / m->pixels / m->channels;

    return n * m->channels * m->pixels + q * m->step + c * m->plane;
}

/* Elements [from, to) of the logical order; from is a multiple of 4. */
static void drop(const struct mask *m, const float *x, float *y, int64_t from,
                 int64_t to)
{
    for (int64_t i = from; i < to; i += 4) {
        const struct philox_words w =
            philox_dropout(m->seed, m->offset, m->stream, i);
        const int64_t n = to - i < 4 ? to - i : 4;

        for (int64_t k = 0; k < n; k++) {
            const int64_t at = m->plane == m->pixels ? i + k : place(m, i + k);

            y[at] = w.word[k] >= m->threshold ? x[at] * m->factor : 0.0f;
        }
    }
}

static struct mask mask_of(const struct kern_problem *p, const uint64_t *random)
{
    const struct kern_dropout *a = &p->attr.dropout;
    const struct kern_tensor *x = &p->in[0];
    struct mask m = {.seed = random[0],
                     .offset = random[1],
                     .stream = a->stream,
                     .threshold = philox_threshold(a->ratio),
                     .factor = (float)(1 / (1 - (double)a->ratio)),
                     .channels = 1,
                     .pixels = kern_tensor_count(x),
                     .step = 1};

    m.plane = m.pixels;
    if (lies(p, KERN_NCHW))
        return m;
    m.channels = x->dim[1];
    m.pixels /= x->dim[0] * x->dim[1];
    m.step = m.channels;
    m.plane = 1;
    return m;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t n = kern_tensor_count(&p->in[0]);
    const int count = cpu_threads(cpu_threads_of(e), 4 * n);
    int i;

    (void)err;
    if (n == 0)
        return 0;
    const struct mask m = mask_of(p, args->in[1]);
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share((n + 3) / 4, i, count, &from, &to);
        drop(&m, args->in[0], args->out[0], 4 * from, 4 * to < n ? 4 * to : n);
    }
    return 0;
}

KERN_FUNCTIONS(dropout_f32_cpu_philox) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
