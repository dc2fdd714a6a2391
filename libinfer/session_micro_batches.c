/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-batches.
 *
 * On a CPU a large batch evicts every activation from the caches, so that each
 * layer waits for memory.  The activations of a few images stay in the caches,
 * but every micro-batch reads the weights again.  A batch is therefore split if
 * an image moves more bytes of activations than of weights, and if the graph is
 * batch-separable (graph_separable()).
 *
 * A batch whose plan takes more than max_memory is split too, into the largest
 * micro-batches that fit.
 *
 * With `deterministic` each image is a micro-batch: whatever a plan chooses by
 * the batch, and whatever depends on an image's place in it, is then the same
 * for an image alone and in any batch.
 *
 * One plan serves all micro-batches.  If they do not divide the batch evenly,
 * the last one begins inside the one before it and computes a few images again.
 *
 * The outputs of all micro-batches are gathered in memory of the session, where
 * infer_session_read() finds them.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/session.h"

/* The usual size of a core's second-level cache. */
#define CACHE_BYTES (1 << 20)

static void micro_batches_free(struct micro_batches *p)
{
    if (!p)
        return;
    graph_free(p->whole);
    free(p->offset);
    free(p);
}

void micro_batches_drop(struct infer_session *s, int index)
{
    micro_batches_free(s->micro[index]);
    s->micro[index] = s->micro[--s->n_micro];
}

void micro_batches_close(struct infer_session *s)
{
    int i;

    for (i = 0; i < s->n_micro; i++)
        micro_batches_free(s->micro[i]);
    free(s->micro);
    if (s->device.ops)
        s->device.ops->free(&s->device, s->gathered);
}

struct micro_batches *micro_batches_find(const struct infer_session *s)
{
    int i;

    for (i = 0; i < s->n_micro; i++)
        if (session_has_shapes(s, s->micro[i]->whole))
            return s->micro[i];
    return NULL;
}

/* ---- whether and how ----------------------------------------------- */

/* The batch that all inputs have and the model leaves open; 0 for none. */
static int64_t batch_of(const struct infer_session *s)
{
    const struct graph *g = model_graph(s->model);
    int i;

    for (i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->rank < 1 || v->dim[0] >= 0 ||
            s->shape[i].dim[0] != s->shape[0].dim[0])
            return 0;
    }
    return g->n_inputs > 0 ? s->shape[0].dim[0] : 0;
}

static void set_batch(struct infer_session *s, int64_t images)
{
    int i;

    for (i = 0; i < model_graph(s->model)->n_inputs; i++)
        s->shape[i].dim[0] = images;
}

static double weight_bytes(const struct graph *g)
{
    double sum = 0;
    int i;

    for (i = 0; i < g->n_values; i++)
        if (g->value[i].data)
            sum += (double)constant_count(g->value[i].data) *
                   (double)infer_dtype_size(INFER_F32);
    return sum;
}

/* Images of a micro-batch, or 0 if the batch is better run whole: for each
 * thread as many as its cache holds, at least one, so that few images are
 * computed twice. */
static int64_t images_of(const struct infer_session *s, const struct plan *one,
                         int64_t batch)
{
    const int64_t threads = s->device.kern.threads;
    const int64_t arena = one->arena_bytes > 0 ? (int64_t)one->arena_bytes : 1;
    const int64_t each = CACHE_BYTES / arena > 1 ? CACHE_BYTES / arena : 1;
    const int64_t most = threads * each;
    int64_t images;

    if (batch <= most || (double)one->unshared_bytes <= weight_bytes(one->g))
        return 0;
    for (images = most; images > 0 && images >= most / 2; images--)
        if ((images - batch % images) % images <= batch / 8)
            return images;
    return 0;
}

/* ---- making -------------------------------------------------------- */

/* Where each output of the whole batch is gathered. */
static int lay_outputs(struct micro_batches *p, struct infer_error *err)
{
    const struct graph *g = p->whole;
    int i;

    p->offset = calloc((size_t)g->n_outputs + 1, sizeof *p->offset);
    if (!p->offset)
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    for (i = 0; i < g->n_outputs; i++) {
        size_t bytes = kern_tensor_span(&p->plan->output[i].t);

        p->offset[i] = p->bytes;
        /* Rounded up to a cache line. */
        if (!checked_mul(bytes, (size_t)p->batch, &bytes) ||
            !checked_add(p->bytes, (bytes / (size_t)p->images + 63) / 64 * 64,
                         &p->bytes))
            return error_set(err, INFER_EMEMORY, "outputs too large");
    }
    return 0;
}

static int keep(struct infer_session *s, struct micro_batches *p,
                struct infer_error *err)
{
    struct micro_batches **list = realloc(
        s->micro, ((size_t)s->n_micro + 1) * sizeof(struct micro_batches *));

    if (!list)
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    s->micro = list;
    s->micro[s->n_micro++] = p;
    return 0;
}

/* session->shape holds the batch's shapes. *out stays NULL if the graph is not
 * batch-separable. */
static int make(struct infer_session *s, struct plan *part, int64_t batch,
                int64_t images, struct infer_error *err,
                struct micro_batches **out)
{
    struct micro_batches *p = calloc(1, sizeof *p);
    struct graph *whole = graph_copy(model_graph(s->model));
    int rc = 0;

    if (!p || !whole) {
        free(p);
        graph_free(whole);
        return error_set(err, INFER_EMEMORY, "session: out of memory");
    }
    p->whole = whole;
    p->plan = part;
    p->batch = batch;
    p->images = images;
    /* Sizes that do not fit are left to the plan of the whole to explain. */
    if (graph_infer_shapes(whole, s->shape, NULL) < 0 ||
        graph_separable(whole, part->g) <= 0) {
        micro_batches_free(p);
        return 0;
    }
    rc = lay_outputs(p, err);
    if (rc == 0)
        rc = keep(s, p, err);
    if (rc < 0)
        micro_batches_free(p);
    else
        *out = p;
    return rc;
}

int micro_batches_make(struct infer_session *s, struct infer_error *err,
                       struct micro_batches **out)
{
    const int64_t batch = batch_of(s);
    struct plan *one = NULL, *part = NULL;
    int64_t images = 0;
    int rc;

    if (!s->device.ops->host_memory || s->config.keep_tensors || batch < 2)
        return 0;
    set_batch(s, 1);
    rc = session_plan(s, NULL, &one);
    if (rc == 0 && s->config.deterministic) {
        images = 1;
        part = one;
    } else if (rc == 0) {
        images = images_of(s, one, batch);
    }
    if (images > 0 && !part) {
        set_batch(s, images);
        rc = session_plan(s, NULL, &part);
    }
    set_batch(s, batch);
    /* If a micro-batch cannot be planned, the plan of the whole succeeds or
     * explains. */
    if (rc < 0 || images == 0)
        return 0;
    return make(s, part, batch, images, err, out);
}

/* ---- within max_memory --------------------------------------------- */

/* A plan of that many images, prepared where max_memory allows it: else
 * EMEMORY, *out being the plan or, where it takes too much before that already,
 * NULL. */
static int plan_images(struct infer_session *s, int64_t images,
                       struct plan **out)
{
    const uint64_t most = s->config.max_memory;
    struct plan *part = NULL;
    int rc;

    /* Of one image the least memory that would do becomes known, which is that
     * of prepared kernels. */
    s->config.max_memory = images == 1 ? 0 : most;
    set_batch(s, images);
    rc = session_plan(s, NULL, &part);
    s->config.max_memory = most;
    *out = part;
    if (rc < 0 || part->prepared)
        return rc;
    return session_prepare_plan(s, part, NULL);
}

/* The micro-batches of that many images, if they and the outputs of the whole
 * batch fit into max_memory.  EMEMORY: they do not; *bytes: what they take, 0
 * where it is not known. */
static int fit_images(struct infer_session *s, int64_t batch, int64_t images,
                      size_t *bytes, struct micro_batches **out)
{
    struct micro_batches *p = NULL;
    struct plan *part;
    int rc = plan_images(s, images, &part);

    *bytes = 0;
    set_batch(s, batch);
    if (!part)
        return rc;
    if (rc == 0 || rc == INFER_EMEMORY) {
        const int made = make(s, part, batch, images, NULL, &p);
        if (made < 0)
            rc = made;
        else if (!p)
            rc = INFER_EUNSUPPORTED; /* not batch-separable */
    }
    if (p &&
        (!plan_memory(part, bytes) || !checked_add(*bytes, p->bytes, bytes) ||
         *bytes > s->config.max_memory))
        rc = INFER_EMEMORY;
    if (!part->prepared)
        session_drop_plan(s, part); /* p too */
    else if (rc < 0 && p)
        micro_batches_drop(s, s->n_micro - 1);
    else
        *out = p;
    return rc;
}

/* The largest micro-batches that fit, those of one image being `one`.  What two
 * images take more is the step of the first guess. */
static struct micro_batches *largest(struct infer_session *s, int64_t batch,
                                     size_t least, struct micro_batches *one)
{
    struct micro_batches *p = NULL;
    int64_t images = 2;
    size_t bytes;

    if (batch < 3 || fit_images(s, batch, images, &bytes, &p) < 0)
        return one;
    if (bytes > least)
        images += (int64_t)((s->config.max_memory - bytes) / (bytes - least));
    if (images >= batch)
        images = batch - 1;
    for (struct micro_batches *more = NULL; images > 2;
         images -= (images + 7) / 8)
        if (fit_images(s, batch, images, &bytes, &more) == 0)
            return more;
    return p;
}

int micro_batches_fit(struct infer_session *s, struct infer_error *err,
                      struct micro_batches **out)
{
    const double most = s->config.max_work;
    const int64_t batch = batch_of(s);
    struct micro_batches *one = NULL, *p;
    size_t least;

    if (!s->device.ops->host_memory || s->config.keep_tensors ||
        s->config.max_memory == 0 || batch < 2)
        return INFER_EMEMORY;
    const int rc = fit_images(s, batch, 1, &least, &one);
    if (rc == INFER_EMEMORY && least > s->config.max_memory)
        return error_set(err, rc,
                         "a batch of %lld takes %zu bytes even image by image, "
                         "%llu are allowed (max_memory)",
                         (long long)batch, least,
                         (unsigned long long)s->config.max_memory);
    /* The whole batch is one run. */
    if (rc < 0 || (most > 0 && plan_work(one->plan) * (double)batch > most))
        return INFER_EMEMORY;
    p = largest(s, batch, least, one);
    /* Those of fewer images stay plans of the session without a batch. */
    for (int i = s->n_micro; i-- > 0;)
        if (s->micro[i] != p && s->micro[i]->batch == batch &&
            session_has_shapes(s, s->micro[i]->whole))
            micro_batches_drop(s, i);
    error_clear(err);
    *out = p;
    return 0;
}

/* ---- running ------------------------------------------------------- */

int64_t micro_batches_next(const struct micro_batches *p, int64_t first)
{
    if (first + p->images >= p->batch)
        return p->batch;
    return first + 2 * p->images > p->batch ? p->batch - p->images
                                            : first + p->images;
}

void micro_batches_gather(struct infer_session *s, int64_t first)
{
    const struct micro_batches *p = s->whole;
    int i;

    for (i = 0; i < p->plan->g->n_outputs; i++) {
        const struct view *v = &p->plan->output[i];
        const size_t bytes = kern_tensor_span(&v->t);

        if (bytes > 0)
            memcpy((unsigned char *)s->gathered + p->offset[i] +
                       bytes / (size_t)p->images * (size_t)first,
                   plan_locate(p->plan, v), bytes);
    }
}
