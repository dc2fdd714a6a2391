/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine, and primitives bound to the arguments of a row.
 *
 * oneDNN hands data to a primitive in memory objects, which a launch may not
 * allocate and which two launches of one primitive at once may not share.  So
 * a primitive keeps a list of argument sets, each with its memory objects; a
 * launch takes one and puts it back.  The list grows only when more threads
 * than ever before launch the same primitive at once.
 *
 * What remains is oneDNN's own: dnnl_primitive_execute() copies the arguments
 * into a hash table, some 60 bytes each, which it frees before it returns
 * (2.6.3; no attribute prevents it).  Scratchpads are the user's, so nothing
 * that grows with the tensors is allocated in a run.
 *
 * The memory objects are flat arrays of bytes.  oneDNN takes layouts from the
 * primitive and from a memory object only the address; an object that had the
 * blocked layout of packed weights would write zeros into their padding each
 * time that its address is set, though the weights are constant and shared.
 */
#include "config.h"

#include "kernels/onednn/primitive.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"

static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;
static dnnl_stream_t stream; /* on a CPU it has no state: threads share it */

/* A start that failed, for want of memory, is tried again. */
dnnl_engine_t onednn_engine(struct infer_error *err)
{
    dnnl_status_t status = dnnl_success;

    pthread_mutex_lock(&start_mutex);
    if (!engine)
        status = onednn_engine_create(&engine, dnnl_cpu, 0);
    if (status == dnnl_success && !stream)
        status =
            onednn_stream_create(&stream, engine, dnnl_stream_default_flags);
    pthread_mutex_unlock(&start_mutex);
    if (onednn_status(status, "dnnl_engine_create", err) < 0)
        return NULL;
    return engine;
}

int onednn_status(dnnl_status_t status, const char *call,
                  struct infer_error *err)
{
    switch ((int)status) {
    case dnnl_success:
        return 0;
    case dnnl_out_of_memory:
        return error_set(err, INFER_EMEMORY, "oneDNN: %s: out of memory", call);
    case dnnl_unimplemented:
    case dnnl_invalid_arguments:
        return error_set(err, INFER_EUNSUPPORTED,
                         "oneDNN: %s: no implementation for this problem",
                         call);
    default:
        return error_set(err, INFER_EDEVICE, "oneDNN: %s: status %d", call,
                         (int)status);
    }
}

int onednn_refuse(struct infer_error *why, const char *reason)
{
    return error_set(why, INFER_EUNSUPPORTED, "%s", reason);
}

/* ---- tensors ------------------------------------------------------- */

/* Plain channels-last and channels-second tags by rank. */
static dnnl_format_tag_t dense_tag(int rank, enum kern_layout layout)
{
    static const dnnl_format_tag_t nchw[] = {dnnl_format_tag_undef,
                                             dnnl_a,
                                             dnnl_ab,
                                             dnnl_abc,
                                             dnnl_abcd,
                                             dnnl_abcde,
                                             dnnl_abcdef};
    static const dnnl_format_tag_t nhwc[] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_acb, dnnl_acdb, dnnl_acdeb,
        dnnl_format_tag_undef};

    return (layout == KERN_NCHW ? nchw : nhwc)[rank];
}

static bool describe_dims(const struct kern_tensor *t, dnnl_dims_t dims)
{
    int i;

    if (t->dtype != INFER_F32 || t->rank < 1 || t->rank > 6)
        return false;
    for (i = 0; i < t->rank; i++) {
        if (t->dim[i] < 1)
            return false;
        dims[i] = t->dim[i];
    }
    return true;
}

bool onednn_describe(const struct kern_tensor *t, dnnl_memory_desc_t *out)
{
    enum kern_layout layout = KERN_NHWC;
    dnnl_dims_t dims, strides;
    int i;

    if (!describe_dims(t, dims))
        return false;
    /* Named layouts first: implementations recognise those, whatever the
     * strides of dimensions of size 1. */
    for (i = 0; i < 2; i++, layout = KERN_NCHW) {
        dnnl_format_tag_t tag = dense_tag(t->rank, layout);

        if (tag != dnnl_format_tag_undef && kern_tensor_is_dense(t, layout))
            return dnnl_memory_desc_init_by_tag(out, t->rank, dims, dnnl_f32,
                                                tag) == dnnl_success;
    }
    for (i = 0; i < t->rank; i++) {
        if (t->stride[i] < 1)
            return false;
        strides[i] = t->stride[i];
    }
    return dnnl_memory_desc_init_by_strides(out, t->rank, dims, dnnl_f32,
                                            strides) == dnnl_success;
}

bool onednn_describe_any(const struct kern_tensor *t, dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims;

    return describe_dims(t, dims) &&
           dnnl_memory_desc_init_by_tag(out, t->rank, dims, dnnl_f32,
                                        dnnl_format_tag_any) == dnnl_success;
}

/* ---- epilogues ----------------------------------------------------- */

/* The activations that oneDNN has, and how many of a and b it takes. */
static const struct {
    enum kern_unary_kind kind;
    dnnl_alg_kind_t alg;
    int params;
} activations[] = {
    {KERN_RELU, dnnl_eltwise_relu, 0},
    {KERN_LEAKY_RELU, dnnl_eltwise_relu, 1},
    {KERN_CLIP, dnnl_eltwise_clip, 2},
    {KERN_SIGMOID, dnnl_eltwise_logistic, 0},
    {KERN_TANH, dnnl_eltwise_tanh, 0},
    {KERN_SILU, dnnl_eltwise_swish, 1},
    {KERN_HARD_SWISH, dnnl_eltwise_hardswish, 0},
    {KERN_ELU, dnnl_eltwise_elu, 1},
    {KERN_SOFTPLUS, dnnl_eltwise_soft_relu, 0},
    {KERN_MISH, dnnl_eltwise_mish, 0},
    {KERN_GELU, dnnl_eltwise_gelu_erf, 0},
    {KERN_GELU_TANH, dnnl_eltwise_gelu_tanh, 0},
    {KERN_LINEAR, dnnl_eltwise_linear, 2},
};

static int append(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float a, float b,
                  struct infer_error *err)
{
    return onednn_status(onednn_post_ops_append_eltwise(ops, 1.0f, alg, a, b),
                         "dnnl_post_ops_append_eltwise", err);
}

/* Appends an activation.  EUNSUPPORTED for functions that oneDNN lacks. */
static int append_act(dnnl_post_ops_t ops, const struct kern_unary *act,
                      struct infer_error *err)
{
    if (act->kind == KERN_IDENTITY)
        return 0;
    if (act->kind == KERN_HARD_SIGMOID) {
        const int rc = append(ops, dnnl_eltwise_linear, act->a, act->b, err);

        return rc < 0 ? rc : append(ops, dnnl_eltwise_clip, 0.0f, 1.0f, err);
    }
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (activations[i].kind == act->kind)
            return append(ops, activations[i].alg,
                          activations[i].params > 0 ? act->a : 0.0f,
                          activations[i].params > 1 ? act->b : 0.0f, err);
    return onednn_refuse(err, "oneDNN does not have this activation");
}

static int append_epilogue(dnnl_post_ops_t ops, const struct kern_problem *p,
                           bool residual, struct infer_error *err)
{
    const bool last = p->epilogue.residual_last;
    int r = 0;

    if (residual && !last)
        r = onednn_status(onednn_post_ops_append_sum(ops, 1.0f),
                          "dnnl_post_ops_append_sum", err);
    if (r == 0)
        r = append_act(ops, &p->epilogue.act, err);
    if (r == 0 && residual && last)
        r = onednn_status(onednn_post_ops_append_sum(ops, 1.0f),
                          "dnnl_post_ops_append_sum", err);
    return r;
}

int onednn_attributes(const struct kern_problem *p, bool residual, float scale,
                      struct infer_error *err, dnnl_primitive_attr_t *attr)
{
    dnnl_primitive_attr_t a = NULL;
    dnnl_post_ops_t ops = NULL;
    int r;

    r = onednn_status(onednn_primitive_attr_create(&a),
                      "dnnl_primitive_attr_create", err);
    if (r == 0)
        r = onednn_status(onednn_post_ops_create(&ops), "dnnl_post_ops_create",
                          err);
    if (r == 0)
        r = append_epilogue(ops, p, residual, err);
    if (r == 0)
        r = onednn_status(onednn_primitive_attr_set_post_ops(a, ops),
                          "dnnl_primitive_attr_set_post_ops", err);
    if (r == 0 && scale != 1.0f)
        r = onednn_status(
            onednn_primitive_attr_set_output_scales(a, 1, 0, &scale),
            "dnnl_primitive_attr_set_output_scales", err);
    if (r == 0)
        r = onednn_status(onednn_primitive_attr_set_scratchpad_mode(
                              a, dnnl_scratchpad_mode_user),
                          "dnnl_primitive_attr_set_scratchpad_mode", err);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (r < 0) {
        if (a)
            dnnl_primitive_attr_destroy(a);
        return r;
    }
    *attr = a;
    return 0;
}

/* ---- choosing an implementation ------------------------------------ */

/* oneDNN takes the number of threads from OpenMP's setting of the calling
 * thread, both when it plans and when it runs.  The setting belongs to the
 * application: use_threads() returns what was there, to be put back. */
static int use_threads(int threads)
{
    int before = omp_get_max_threads();

    if (before != threads)
        omp_set_num_threads(threads);
    return before;
}

int onednn_choose(const void *op_desc, const_dnnl_primitive_attr_t attr,
                  int threads, struct infer_error *err,
                  dnnl_primitive_desc_t *pd)
{
    dnnl_engine_t eng = onednn_engine(err);
    dnnl_primitive_desc_t desc;
    const char *name = NULL;
    int r, before;

    if (!eng)
        return err ? err->code : INFER_EDEVICE;
    before = use_threads(threads);
    r = onednn_status(onednn_primitive_desc_create(&desc, op_desc, attr, eng),
                      "dnnl_primitive_desc_create", err);
    use_threads(before);
    if (r < 0)
        return r;
    r = onednn_status(
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name),
        "dnnl_primitive_desc_query", err);
    if (r == 0 && (!name || strncmp(name, "ref", 3) == 0 ||
                   strncmp(name, "simple", 6) == 0 || strstr(name, "+ref") ||
                   strstr(name, ":ref")))
        r = error_set(err, INFER_EUNSUPPORTED,
                      "oneDNN has only its slow reference for this problem");
    if (r < 0) {
        dnnl_primitive_desc_destroy(desc);
        return r;
    }
    *pd = desc;
    return 0;
}

/* ---- bound primitives ---------------------------------------------- */

struct argument_set {
    struct argument_set *next;
    dnnl_exec_arg_t arg[ONEDNN_MAX_ARG];
    const void *address[ONEDNN_MAX_ARG];
    void *bias; /* x->bias copied to where it is aligned */
};

struct onednn_primitive {
    dnnl_primitive_t handle;
    int threads;
    int count;
    int arg[ONEDNN_MAX_ARG];
    int source[ONEDNN_MAX_ARG];
    size_t bytes[ONEDNN_MAX_ARG];
    int packed_in; /* the input that pack() turns from given into packed */
    int bias;      /* the argument that has to be aligned; -1: none */
    dnnl_memory_desc_t given, packed;
    atomic_flag lock; /* held for a few instructions, over `idle` only */
    struct argument_set *idle;
};

static void set_destroy(struct argument_set *set, int count)
{
    int i;

    for (i = 0; i < count; i++)
        if (set->arg[i].memory)
            dnnl_memory_destroy(set->arg[i].memory);
    free(set->bias);
    free(set);
}

static int set_create(const struct onednn_primitive *x, struct infer_error *err,
                      struct argument_set **out)
{
    struct argument_set *set = calloc(1, sizeof *set);
    int i, r = 0;

    if (set && x->bias >= 0)
        set->bias = aligned_alloc(64, (x->bytes[x->bias] + 63) / 64 * 64);
    if (!set || (x->bias >= 0 && !set->bias)) {
        free(set);
        return error_set(err, INFER_EMEMORY, "oneDNN arguments: out of memory");
    }
    for (i = 0; i < x->count && r == 0; i++) {
        dnnl_dims_t dims = {(dnnl_dim_t)x->bytes[i]};
        dnnl_memory_desc_t md;

        set->arg[i].arg = x->arg[i];
        r = onednn_status(
            dnnl_memory_desc_init_by_tag(&md, 1, dims, dnnl_u8, dnnl_a),
            "dnnl_memory_desc_init_by_tag", err);
        if (r == 0)
            r = onednn_status(onednn_memory_create(&set->arg[i].memory, &md,
                                                   engine, DNNL_MEMORY_NONE),
                              "dnnl_memory_create", err);
    }
    if (r < 0) {
        set_destroy(set, x->count);
        return r;
    }
    *out = set;
    return 0;
}

static void lock(struct onednn_primitive *x)
{
    while (atomic_flag_test_and_set_explicit(&x->lock, memory_order_acquire))
        ;
}

static void unlock(struct onednn_primitive *x)
{
    atomic_flag_clear_explicit(&x->lock, memory_order_release);
}

static int set_take(struct onednn_primitive *x, struct infer_error *err,
                    struct argument_set **out)
{
    struct argument_set *set;

    lock(x);
    set = x->idle;
    if (set)
        x->idle = set->next;
    unlock(x);
    if (!set)
        return set_create(x, err, out);
    *out = set;
    return 0;
}

static void set_give(struct onednn_primitive *x, struct argument_set *set)
{
    lock(x);
    set->next = x->idle;
    x->idle = set;
    unlock(x);
}

int onednn_create(dnnl_primitive_desc_t pd, int threads,
                  struct infer_error *err, struct onednn_primitive **out)
{
    struct onednn_primitive *x = calloc(1, sizeof *x);
    int r, before;

    if (!x)
        return error_set(err, INFER_EMEMORY, "oneDNN primitive: out of memory");
    atomic_flag_clear(&x->lock);
    x->threads = threads;
    x->bias = -1;
    before = use_threads(threads);
    r = onednn_status(onednn_primitive_create(&x->handle, pd),
                      "dnnl_primitive_create", err);
    use_threads(before);
    if (r < 0) {
        free(x);
        return r;
    }
    *out = x;
    return 0;
}

#define ALIGN 16 /* see onednn_wants_alignment() */

bool onednn_wants_alignment(void)
{
    return dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_sse41;
}

bool onednn_is_aligned(const void *address)
{
    return (uintptr_t)address % ALIGN == 0;
}

void onednn_bind(struct onednn_primitive *x, int arg, int source,
                 const dnnl_memory_desc_t *md)
{
    x->arg[x->count] = arg;
    x->source[x->count] = source;
    x->bytes[x->count] = dnnl_memory_desc_get_size(md);
    if (arg == DNNL_ARG_BIAS && onednn_wants_alignment())
        x->bias = x->count;
    x->count++;
}

size_t onednn_bind_packed(struct onednn_primitive *x, int arg, int in,
                          const dnnl_memory_desc_t *given,
                          const dnnl_memory_desc_t *packed)
{
    onednn_bind(x, arg, ONEDNN_IN(in), packed);
    x->packed_in = in;
    x->given = *given;
    x->packed = *packed;
    return dnnl_memory_desc_get_size(packed);
}

size_t onednn_bind_scratchpad(struct onednn_primitive *x,
                              dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;

    if (bytes > 0)
        onednn_bind(x, DNNL_ARG_SCRATCHPAD, ONEDNN_WORKSPACE, md);
    return bytes;
}

int onednn_finish(struct onednn_primitive *x, struct infer_error *err)
{
    return set_create(x, err, &x->idle);
}

static const void *address_of(int source, const struct kern_args *args)
{
    if (source == ONEDNN_WORKSPACE)
        return args->workspace;
    if (source >= ONEDNN_OUT(0))
        return args->out[source - ONEDNN_OUT(0)];
    return args->in[source];
}

int onednn_threads(const struct onednn_primitive *x)
{
    return x->threads;
}

int onednn_run(struct onednn_primitive *x, const struct kern_args *args,
               struct infer_error *err)
{
    struct argument_set *set;
    dnnl_status_t status = dnnl_success;
    int i, r, before;

    r = set_take(x, err, &set);
    if (r < 0)
        return r;
    for (i = 0; i < x->count && status == dnnl_success; i++) {
        const void *address = address_of(x->source[i], args);

        if (i == x->bias && !onednn_is_aligned(address))
            address = memcpy(set->bias, address, x->bytes[i]);
        if (address == set->address[i])
            continue;
        status =
            onednn_memory_set_data_handle(set->arg[i].memory, (void *)address);
        set->address[i] = status == dnnl_success ? address : NULL;
    }
    before = use_threads(x->threads);
    if (status == dnnl_success)
        status =
            onednn_primitive_execute(x->handle, stream, x->count, set->arg);
    use_threads(before);
    set_give(x, set);
    return onednn_status(status, "dnnl_primitive_execute", err);
}

void onednn_destroy(struct onednn_primitive *x)
{
    if (!x)
        return;
    while (x->idle) {
        struct argument_set *set = x->idle;

        x->idle = set->next;
        set_destroy(set, x->count);
    }
    if (x->handle)
        dnnl_primitive_destroy(x->handle);
    free(x);
}

int onednn_launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return onednn_run(e->state, args, err);
}

void onednn_release(struct kern_exec *e)
{
    onednn_destroy(e->state);
    e->state = NULL;
}

/* ---- packing ------------------------------------------------------- */

/* Runs the reorder from src to dst. */
static dnnl_status_t reorder(dnnl_primitive_t handle, dnnl_engine_t eng,
                             const dnnl_memory_desc_t *from, const void *src,
                             const dnnl_memory_desc_t *to, void *dst)
{
    dnnl_exec_arg_t arg[2] = {{DNNL_ARG_FROM, NULL}, {DNNL_ARG_TO, NULL}};
    dnnl_status_t s;

    s = onednn_memory_create(&arg[0].memory, from, eng, (void *)src);
    if (s == dnnl_success)
        s = onednn_memory_create(&arg[1].memory, to, eng, dst);
    if (s == dnnl_success)
        s = onednn_primitive_execute(handle, stream, 2, arg);
    if (arg[1].memory)
        dnnl_memory_destroy(arg[1].memory);
    if (arg[0].memory)
        dnnl_memory_destroy(arg[0].memory);
    return s;
}

int onednn_pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct onednn_primitive *x = e->state;
    dnnl_engine_t eng = onednn_engine(err);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t handle = NULL;
    dnnl_status_t s;
    int before;

    if (!eng)
        return err ? err->code : INFER_EDEVICE;
    if (i != x->packed_in)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    before = use_threads(x->threads);
    s = onednn_reorder_primitive_desc_create(&pd, &x->given, &x->packed, eng,
                                             NULL);
    if (s == dnnl_success)
        s = onednn_primitive_create(&handle, pd);
    if (s == dnnl_success)
        s = reorder(handle, eng, &x->given, src, &x->packed, dst);
    use_threads(before);
    if (handle)
        dnnl_primitive_destroy(handle);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return onednn_status(s, "reorder of weights", err);
}
