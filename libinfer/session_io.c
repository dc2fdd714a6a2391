/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in and out of a session. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/problem.h"
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

static bool shape_fits(const struct graph_value *v, const struct infer_array *a)
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

static int check_input(const struct graph_value *v, const struct infer_array *a,
                       bool data, struct infer_error *err)
{
    char found[KERN_SHAPE_TEXT], expected[KERN_SHAPE_TEXT];
    size_t size = infer_dtype_size(a->dtype), bytes;
    int64_t count;

    if (!shape_fits(v, a))
        return error_set(
            err, INFER_EARGUMENT, "input '%s': shape %s, expected %s", v->name,
            a->rank < 0 || a->rank > INFER_MAX_RANK
                ? "of impossible rank"
                : kern_shape_text(a->rank, a->dim, found),
            format_expected(v->rank, v->dim, expected, sizeof expected));
    if (size == 0)
        return error_set(err, INFER_EARGUMENT,
                         "input '%s': %d is no type of elements", v->name,
                         (int)a->dtype);
    if (!checked_count(a->rank, a->dim, &count) ||
        !checked_mul((size_t)count, size, &bytes))
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

/* Index of the input with this name, or -1. */
static int input_named(const struct graph *g, const char *name)
{
    int i;

    for (i = 0; i < g->n_inputs; i++)
        if (strcmp(g->value[g->input[i]].name, name) == 0)
            return i;
    return -1;
}

int session_match_inputs(struct infer_session *s, const struct infer_array *in,
                         int n_in, bool data, struct infer_error *err)
{
    const struct graph *g = model_graph(s->model);
    int i, k, rc;

    if (n_in != g->n_inputs)
        return error_set(err, INFER_EARGUMENT,
                         "%d inputs given, the model has %d", n_in,
                         g->n_inputs);
    if (n_in > 0 && !in)
        return error_set(err, INFER_EARGUMENT, "inputs: NULL given");
    for (i = 0; i < n_in; i++)
        s->in[i] = NULL;
    for (i = 0; i < n_in; i++) {
        k = in[i].name ? input_named(g, in[i].name) : i;
        if (k < 0)
            return error_set(err, INFER_EARGUMENT,
                             "input '%s': the model has no such input",
                             in[i].name);
        if (s->in[k])
            return error_set(err, INFER_EARGUMENT, "input '%s': given twice",
                             g->value[g->input[k]].name);
        rc = check_input(&g->value[g->input[k]], &in[i], data, err);
        if (rc < 0)
            return rc;
        s->in[k] = &in[i];
        s->shape[k].rank = in[i].rank;
        memcpy(s->shape[k].dim, in[i].dim, sizeof in[i].dim);
    }
    return 0;
}

int session_take_inputs(struct infer_session *s, int64_t first,
                        struct infer_error *err)
{
    const struct plan *plan = s->current;
    const struct device *d = &s->device;
    int i, rc;

    for (i = 0; i < plan->g->n_inputs; i++) {
        const struct plan_buffer *b = &plan->buffers.at[plan->input_buffer[i]];
        const struct infer_array *a = s->in[i];
        const enum infer_dtype want =
            plan_input_dtype(plan, plan->g->value[plan->g->input[i]].dtype);
        const size_t size = infer_dtype_size(want);
        const unsigned char *data = a->data;
        unsigned char *staged = (unsigned char *)s->arena + b->offset;

        s->base[i] = staged;
        if (b->bytes == 0)
            continue;
        if (first > 0)
            data += b->bytes / size / (size_t)s->whole->images * (size_t)first *
                    infer_dtype_size(a->dtype);
        if (a->dtype != want) {
            void *to = staged;

            rc = d->ops->stage ? d->ops->stage(d, b->bytes, err, &to) : 0;
            if (rc < 0)
                return rc;
            scalar_convert(a->dtype, data, want, to, b->bytes / size);
            rc = to == staged ? 0
                              : d->ops->copy_in(d, staged, to, b->bytes, err);
            if (rc < 0)
                return rc;
        } else if (d->ops->host_memory && !s->config.keep_tensors &&
                   (uintptr_t)data % size == 0) {
            s->base[i] = data;
        } else {
            rc = d->ops->copy_in(d, staged, data, b->bytes, err);
            if (rc < 0)
                return rc;
        }
    }
    for (i = 0; i < plan->n_patches; i++)
        *plan->patch[i].slot =
            s->base[plan->patch[i].input] + plan->patch[i].bytes;
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

int session_match_outputs(struct infer_session *s, struct infer_array *out,
                          int n_out, struct infer_error *err)
{
    const struct plan *plan = s->current;
    const struct graph *g = plan->g;
    int i, k;

    if (n_out < 0 || n_out > g->n_outputs)
        return error_set(err, INFER_EARGUMENT,
                         "%d outputs asked for, the model has %d", n_out,
                         g->n_outputs);
    if (n_out > 0 && !out)
        return error_set(err, INFER_EARGUMENT, "outputs: NULL given");
    for (i = 0; i < n_out; i++) {
        size_t bytes;

        k = out[i].name ? output_named(g, out[i].name) : i;
        if (k < 0)
            return error_set(err, INFER_EARGUMENT,
                             "output '%s': the model has no such output",
                             out[i].name);
        s->out_index[i] = k;
        bytes = session_output_bytes(plan, s->whole, k);
        if (out[i].data && out[i].bytes < bytes)
            return error_set(err, INFER_EARGUMENT,
                             "output '%s': room for %zu bytes, %zu needed",
                             g->value[g->output[k]].name, out[i].bytes, bytes);
    }
    return 0;
}

int session_give_outputs(struct infer_session *s, struct infer_array *out,
                         int n_out, struct infer_error *err)
{
    const struct plan *plan = s->current;
    int i, rc;

    for (i = 0; i < n_out; i++) {
        const int k = s->out_index[i];
        const struct kern_tensor *t = &plan->output[k].t;
        const size_t bytes = session_output_bytes(plan, s->whole, k);

        if (out[i].data && bytes > 0) {
            rc = s->device.ops->copy_out(
                &s->device, out[i].data,
                session_output_data(s, plan, s->whole, k), bytes, err);
            if (rc < 0)
                return rc;
        }
        out[i].dtype = t->dtype;
        out[i].rank = t->rank;
        memset(out[i].dim, 0, sizeof out[i].dim);
        memcpy(out[i].dim, t->dim, (size_t)t->rank * sizeof t->dim[0]);
        if (s->whole)
            out[i].dim[0] = s->whole->batch;
        out[i].bytes = bytes;
    }
    return 0;
}
