/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in and out of a session. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/problem.h"
#include "libinfer/memory/arena.h"
#include "libinfer/session.h"

/* What a model expects: "?x3x224x224", ? where a dimension is free; rank -1:
 * anything. */
static const char *format_expected(int rank, const int64_t *dim, char *buf,
                                   size_t bytes)
{
    size_t at = 0;
    int i;

    snprintf(buf, bytes, "%s",
             rank == 0  ? "a single number"
             : rank < 0 ? "any of up to 8 dimensions"
                        : "");
    for (i = 0; i < rank && i < INFER_MAX_RANK && at < bytes; i++) {
        int n = dim[i] < 0
                    ? snprintf(buf + at, bytes - at, "%s?", i > 0 ? "x" : "")
                    : snprintf(buf + at, bytes - at, "%s%lld", i > 0 ? "x" : "",
                               (long long)dim[i]);

        at += (size_t)n;
    }
    return buf;
}

/* ---- inputs -------------------------------------------------------- */

/* An array of the host as a tensor. */
static struct infer_tensor view_of(const struct infer_array *a)
{
    struct infer_tensor t = {.name = a->name,
                             .dtype = a->dtype,
                             .rank = a->rank,
                             .data = a->data,
                             .bytes = a->bytes};

    memcpy(t.dim, a->dim, sizeof t.dim);
    return t;
}

static struct infer_tensor given_at(const struct session_given *given, int i)
{
    return given->array ? view_of(&given->array[i]) : given->tensor[i];
}

static bool shape_fits(const struct graph_value *v,
                       const struct infer_tensor *a)
{
    int i;

    if (v->rank < 0)
        return a->rank >= 0 && a->rank <= INFER_MAX_RANK;
    if (a->rank != v->rank)
        return false;
    for (i = 0; i < a->rank; i++)
        if (v->dim[i] < 0 ? a->dim[i] < 1 : a->dim[i] != v->dim[i])
            return false;
    return true;
}

static struct kern_tensor kern_view(const struct infer_tensor *a)
{
    struct kern_tensor t =
        kern_tensor_dense(a->dtype, a->rank, a->dim, KERN_NCHW);

    if (a->stride)
        memcpy(t.stride, a->stride, (size_t)a->rank * sizeof t.stride[0]);
    return t;
}

/* Bytes from the element with indices 0 to one past the highest, and that the
 * bytes below it can be counted too. */
static bool reach_of(const struct infer_tensor *a, int64_t count, size_t *bytes)
{
    const int64_t size = (int64_t)infer_dtype_size(a->dtype);
    int64_t above = 1, below = 0, step;
    int i;

    if (!a->stride || count == 0)
        return checked_mul((size_t)count, (size_t)size, bytes);
    for (i = 0; i < a->rank; i++) {
        int64_t *const side = a->stride[i] < 0 ? &below : &above;

        if (!checked_mul_i64(a->dim[i] - 1, a->stride[i], &step) ||
            step == INT64_MIN ||
            !checked_add_i64(*side, step < 0 ? -step : step, side))
            return false;
    }
    return checked_mul_i64(below, size, &below) &&
           checked_mul_i64(above, size, &above) &&
           checked_mul((size_t)above, 1, bytes);
}

static int check_input(const struct graph_value *v,
                       const struct infer_tensor *a, bool data,
                       struct infer_error *err)
{
    char found[KERN_SHAPE_TEXT], expected[KERN_SHAPE_TEXT];
    size_t size = infer_dtype_size(a->dtype), bytes;
    int64_t count;
    bool empty = false;

    for (int k = 0; k < a->rank && k < INFER_MAX_RANK; k++)
        empty = empty || a->dim[k] == 0;
    if (!shape_fits(v, a))
        return error_set(
            err, INFER_EARGUMENT, "input '%s': shape %s%s, expected %s",
            v->name,
            a->rank < 0 || a->rank > INFER_MAX_RANK
                ? "of impossible rank"
                : kern_shape_text(a->rank, a->dim, found),
            empty ? " (empty)" : "",
            format_expected(v->rank, v->dim, expected, sizeof expected));
    if (size == 0)
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': %d is no type of elements", v->name,
                         (int)a->dtype);
    if (!checked_count(a->rank, a->dim, &count) ||
        !checked_mul((size_t)count, size, &bytes) ||
        !reach_of(a, count, &bytes))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': shape %s is impossible: its bytes "
                         "cannot be counted",
                         v->name, kern_shape_text(a->rank, a->dim, found));
    if (scalar_is_integer(v->dtype) && !scalar_is_integer(a->dtype))
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': type %s, expected %s or another integer",
                         v->name, infer_dtype_name(a->dtype),
                         infer_dtype_name(v->dtype));
    if (!data)
        return 0;
    if (!a->data && count > 0)
        return error_set(err, INFER_EARGUMENT, "input '%s': no data", v->name);
    if (a->bytes < bytes)
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': %zu bytes of data, expected %zu for %s "
                         "of %s",
                         v->name, a->bytes, bytes,
                         kern_shape_text(a->rank, a->dim, found),
                         infer_dtype_name(a->dtype));
    return 0;
}

/* Whether the session's device can use memory of this kind, at this place. */
static int check_memory(const struct infer_session *s, const char *what,
                        const char *name, const struct infer_tensor *a,
                        struct infer_error *err)
{
    const struct device *d = &s->device;

    if (a->memory == INFER_MEMORY_HOST)
        return 0;
    if (a->memory != INFER_MEMORY_CUDA)
        return error_set(err, INFER_EARGUMENT,
                         "%s '%s': %d is no kind of memory", what, name,
                         (int)a->memory);
    if (!d->ops->check_memory || a->device != d->kern.ordinal)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s '%s': memory of cuda:%d, and the session's "
                         "device is %s",
                         what, name, a->device,
                         d->ops->check_memory ? "another GPU" : d->ops->name);
    const int rc = a->data ? d->ops->check_memory(d, a->data, err) : 0;
    if (rc < 0)
        error_prefix(err, "%s '%s'", what, name);
    return rc;
}

/* Memory of the device is used as it is: no kernel converts or gathers. */
static int check_device_input(const struct infer_session *s,
                              const struct graph_value *v,
                              const struct infer_tensor *a,
                              struct infer_error *err)
{
    const int rc = check_memory(s, "input", v->name, a, err);
    struct kern_tensor t;

    if (rc < 0 || a->memory == INFER_MEMORY_HOST)
        return rc;
    t = kern_view(a);
    if (!kern_tensor_is_dense(&t, KERN_NCHW))
        return error_set(err, INFER_EUNSUPPORTED,
                         "input '%s': memory of a GPU must be dense and "
                         "row-major",
                         v->name);
    if (a->dtype != v->dtype)
        return error_set(err, INFER_EUNSUPPORTED,
                         "input '%s': type %s in memory of a GPU, expected %s",
                         v->name, infer_dtype_name(a->dtype),
                         infer_dtype_name(v->dtype));
    return 0;
}

/* Index of the input with this name, or -1. */
static int input_named(const struct graph *g, const char *name)
{
    int i;

    for (i = 0; i < g->n_inputs; i++)
        if (strcmp(g->value[g->input[i]].name, name) == 0)
            return i;
    return -1;
}

int session_match_inputs(struct infer_session *s,
                         const struct session_given *in, bool data,
                         struct infer_error *err)
{
    const struct graph *g = model_graph(s->model);
    int i, k, rc;

    if (in->count != g->n_inputs)
        return error_set(err, INFER_EARGUMENT,
                         "%d inputs given, the model has %d", in->count,
                         g->n_inputs);
    if (in->count > 0 && !in->array && !in->tensor)
        return error_set(err, INFER_EARGUMENT, "inputs: NULL given");
    for (i = 0; i < in->count; i++)
        s->matched[i] = false;
    for (i = 0; i < in->count; i++) {
        const struct infer_tensor a = given_at(in, i);

        k = a.name ? input_named(g, a.name) : i;
        if (k < 0)
            return error_set(err, INFER_EARGUMENT,
                             "input '%s': the model has no such input", a.name);
        if (s->matched[k])
            return error_set(err, INFER_EARGUMENT, "input '%s': given twice",
                             g->value[g->input[k]].name);
        rc = check_input(&g->value[g->input[k]], &a, data, err);
        if (rc == 0)
            rc = check_device_input(s, &g->value[g->input[k]], &a, err);
        if (rc < 0)
            return rc;
        s->in[k] = a;
        s->matched[k] = true;
        s->shape[k].rank = a.rank;
        memcpy(s->shape[k].dim, a.dim, sizeof a.dim);
    }
    return 0;
}

/* Writes an input, dense and of type `want`, to the arena. */
static int stage_input(const struct infer_session *s,
                       const struct infer_tensor *a, const void *data,
                       const struct kern_tensor *t, enum infer_dtype want,
                       void *staged, size_t bytes, struct infer_error *err)
{
    const struct device *d = &s->device;
    void *to = staged;
    int rc;

    if (a->memory == INFER_MEMORY_CUDA)
        return d->ops->copy_within(d, staged, data, bytes, err);
    if (a->dtype == want && kern_tensor_is_dense(t, KERN_NCHW))
        return d->ops->copy_in(d, staged, data, bytes, err);
    rc = d->ops->stage ? d->ops->stage(d, bytes, err, &to) : 0;
    if (rc < 0)
        return rc;
    view_gather(t, data, want, to);
    return to == staged ? 0 : d->ops->copy_in(d, staged, to, bytes, err);
}

/* Whether kernels can read the input where it lies. */
static bool lies_well(const struct infer_session *s,
                      const struct infer_tensor *a, const void *data,
                      const struct kern_tensor *t, enum infer_dtype want)
{
    if (s->config.keep_tensors || a->dtype != want ||
        !kern_tensor_is_dense(t, KERN_NCHW))
        return false;
    if (a->memory == INFER_MEMORY_CUDA)
        return (uintptr_t)data % ARENA_ALIGN == 0;
    return s->device.ops->host_memory &&
           (uintptr_t)data % infer_dtype_size(want) == 0;
}

/* Points the steps at the inputs.  What was recorded with others is
 * forgotten. */
static void patch_inputs(struct infer_session *s, struct plan *plan)
{
    bool moved = false;
    int i;

    for (i = 0; i < plan->n_patches; i++) {
        const struct plan_patch *p = &plan->patch[i];
        const void *at = s->base[p->input] + p->bytes;

        moved = moved || *p->slot != at;
        *p->slot = at;
    }
    if (moved)
        plan_forget_recording(plan);
}

int session_take_inputs(struct infer_session *s, int64_t first,
                        struct infer_error *err)
{
    struct plan *plan = s->current;
    int i, rc;

    for (i = 0; i < plan->g->n_inputs; i++) {
        const struct plan_buffer *b = &plan->buffers.at[plan->input_buffer[i]];
        const struct infer_tensor *a = &s->in[i];
        const enum infer_dtype want =
            plan_input_dtype(plan, plan->g->value[plan->g->input[i]].dtype);
        struct kern_tensor t = kern_view(a);
        const unsigned char *data = a->data;
        unsigned char *staged = (unsigned char *)s->arena + b->offset;

        s->base[i] = staged;
        if (b->bytes == 0)
            continue;
        if (s->whole) {
            data += first * t.stride[0] * (int64_t)infer_dtype_size(a->dtype);
            t.dim[0] = s->whole->images;
        }
        if (lies_well(s, a, data, &t, want)) {
            s->base[i] = data;
            continue;
        }
        rc = stage_input(s, a, data, &t, want, staged, b->bytes, err);
        if (rc < 0)
            return rc;
    }
    patch_inputs(s, plan);
    return 0;
}

/* ---- outputs ------------------------------------------------------- */

static int output_named(const struct graph *g, const char *name)
{
    int i;

    for (i = 0; i < g->n_outputs; i++)
        if (strcmp(g->value[g->output[i]].name, name) == 0)
            return i;
    return -1;
}

size_t session_output_bytes(const struct plan *plan,
                            const struct micro_batches *whole, int i)
{
    const struct kern_tensor *t = &plan->output[i].t;
    const size_t bytes =
        (size_t)kern_tensor_count(t) * infer_dtype_size(t->dtype);

    /* lay_outputs() of session_micro_batches.c checked the product. */
    return whole ? bytes / (size_t)whole->images * (size_t)whole->batch : bytes;
}

void *session_output_data(const struct infer_session *s,
                          const struct plan *plan,
                          const struct micro_batches *whole, int i)
{
    return whole ? (unsigned char *)s->gathered + whole->offset[i]
                 : plan_locate(plan, &plan->output[i]);
}

int session_match_outputs(struct infer_session *s,
                          const struct session_given *out,
                          struct infer_error *err)
{
    const struct plan *plan = s->current;
    const struct graph *g = plan->g;
    int i, k, rc;

    if (out->count < 0 || out->count > g->n_outputs)
        return error_set(err, INFER_EARGUMENT,
                         "%d outputs asked for, the model has %d", out->count,
                         g->n_outputs);
    if (out->count > 0 && !out->array && !out->tensor)
        return error_set(err, INFER_EARGUMENT, "outputs: NULL given");
    for (i = 0; i < out->count; i++) {
        size_t bytes;

        s->out[i] = given_at(out, i);
        k = s->out[i].name ? output_named(g, s->out[i].name) : i;
        if (k < 0)
            return error_set(err, INFER_EARGUMENT,
                             "output '%s': the model has no such output",
                             s->out[i].name);
        s->out_index[i] = k;
        bytes = session_output_bytes(plan, s->whole, k);
        if (s->out[i].data && s->out[i].bytes < bytes)
            return error_set(err, INFER_EARGUMENT,
                             "output '%s': room for %zu bytes, %zu needed",
                             g->value[g->output[k]].name, s->out[i].bytes,
                             bytes);
        rc = s->out[i].data
                 ? check_memory(s, "output", g->value[g->output[k]].name,
                                &s->out[i], err)
                 : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int copy_output(const struct infer_session *s,
                       const struct infer_tensor *to, const void *from,
                       size_t bytes, struct infer_error *err)
{
    const struct device *d = &s->device;

    return to->memory == INFER_MEMORY_CUDA
               ? d->ops->copy_within(d, to->data, from, bytes, err)
               : d->ops->copy_out(d, to->data, from, bytes, err);
}

int session_give_outputs(struct infer_session *s, int n_out, bool lend,
                         struct infer_error *err)
{
    const struct plan *plan = s->current;
    int i, rc;

    for (i = 0; i < n_out; i++) {
        const int k = s->out_index[i];
        const struct kern_tensor *t = &plan->output[k].t;
        const size_t bytes = session_output_bytes(plan, s->whole, k);
        struct infer_tensor *out = &s->out[i];
        void *from = session_output_data(s, plan, s->whole, k);

        if (out->data && bytes > 0) {
            rc = copy_output(s, out, from, bytes, err);
            if (rc < 0)
                return rc;
        } else if (!out->data && lend) {
            out->data = from;
            out->memory = s->device.ops->host_memory ? INFER_MEMORY_HOST
                                                     : INFER_MEMORY_CUDA;
            out->device =
                s->device.ops->host_memory ? 0 : s->device.kern.ordinal;
        }
        out->dtype = t->dtype;
        out->rank = t->rank;
        out->stride = NULL;
        memset(out->dim, 0, sizeof out->dim);
        memcpy(out->dim, t->dim, (size_t)t->rank * sizeof t->dim[0]);
        if (s->whole)
            out->dim[0] = s->whole->batch;
        out->bytes = bytes;
    }
    return 0;
}
