/* SPDX-License-Identifier: Apache-2.0 */
/* The one file in C++: it catches what oneDNN throws; see guard.h. */
#include "kernels/onednn/guard.h"

#include <cstdlib>
#include <new>

#include <sys/mman.h>

/* Bytes that must be free before oneDNN makes an object: on the heap, less than
 * what malloc() maps by itself; and of addresses, for the code that it
 * generates (4 MiB, in steps of 256 KiB a kernel). */
static const size_t heap_room = 120 << 10, code_room = 4 << 20;

static bool has_room() noexcept
{
    void *code = mmap(nullptr, code_room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (code == MAP_FAILED)
        return false;
    munmap(code, code_room);
    /* Volatile: the optimiser may leave out a pair of malloc() and free(). */
    void *volatile memory = std::malloc(heap_room);
    const bool there = memory != nullptr;

    std::free(memory);
    return there;
}

template <typename Call> static dnnl_status_t guarded(Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return dnnl_out_of_memory;
    } catch (...) {
        return dnnl_runtime_error;
    }
}

/* A call that makes objects. */
template <typename Call> static dnnl_status_t made(Call call) noexcept
{
    return has_room() ? guarded(call) : dnnl_out_of_memory;
}

dnnl_status_t onednn_engine_create(dnnl_engine_t *out, dnnl_engine_kind_t kind,
                                   size_t index)
{
    return made([&] { return dnnl_engine_create(out, kind, index); });
}

dnnl_status_t onednn_stream_create(dnnl_stream_t *out, dnnl_engine_t engine,
                                   unsigned flags)
{
    return made([&] { return dnnl_stream_create(out, engine, flags); });
}

dnnl_status_t onednn_memory_create(dnnl_memory_t *out,
                                   const dnnl_memory_desc_t *desc,
                                   dnnl_engine_t engine, void *data)
{
    return made([&] { return dnnl_memory_create(out, desc, engine, data); });
}

dnnl_status_t onednn_memory_set_data_handle(dnnl_memory_t memory, void *data)
{
    return guarded([&] { return dnnl_memory_set_data_handle(memory, data); });
}

dnnl_status_t onednn_post_ops_create(dnnl_post_ops_t *out)
{
    return made([&] { return dnnl_post_ops_create(out); });
}

dnnl_status_t onednn_post_ops_append_sum(dnnl_post_ops_t ops, float scale)
{
    return guarded([&] { return dnnl_post_ops_append_sum(ops, scale); });
}

dnnl_status_t onednn_post_ops_append_eltwise(dnnl_post_ops_t ops, float scale,
                                             dnnl_alg_kind_t kind, float alpha,
                                             float beta)
{
    return guarded([&] {
        return dnnl_post_ops_append_eltwise(ops, scale, kind, alpha, beta);
    });
}

dnnl_status_t onednn_primitive_attr_create(dnnl_primitive_attr_t *out)
{
    return made([&] { return dnnl_primitive_attr_create(out); });
}

dnnl_status_t onednn_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
                                                 const_dnnl_post_ops_t post_ops)
{
    return guarded(
        [&] { return dnnl_primitive_attr_set_post_ops(attr, post_ops); });
}

dnnl_status_t onednn_primitive_attr_set_output_scales(
    dnnl_primitive_attr_t attr, dnnl_dim_t count, int mask, const float *scale)
{
    return guarded([&] {
        return dnnl_primitive_attr_set_output_scales(attr, count, mask, scale);
    });
}

dnnl_status_t
onednn_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t attr,
                                          dnnl_scratchpad_mode_t mode)
{
    return guarded(
        [&] { return dnnl_primitive_attr_set_scratchpad_mode(attr, mode); });
}

dnnl_status_t onednn_primitive_desc_create(dnnl_primitive_desc_t *out,
                                           const void *op_desc,
                                           const_dnnl_primitive_attr_t attr,
                                           dnnl_engine_t engine)
{
    return made([&] {
        return dnnl_primitive_desc_create(out, op_desc, attr, engine, nullptr);
    });
}

dnnl_status_t onednn_reorder_primitive_desc_create(
    dnnl_primitive_desc_t *out, const dnnl_memory_desc_t *from,
    const dnnl_memory_desc_t *to, dnnl_engine_t engine,
    const_dnnl_primitive_attr_t attr)
{
    return made([&] {
        return dnnl_reorder_primitive_desc_create(out, from, engine, to, engine,
                                                  attr);
    });
}

dnnl_status_t onednn_primitive_create(dnnl_primitive_t *out,
                                      const_dnnl_primitive_desc_t desc)
{
    return made([&] { return dnnl_primitive_create(out, desc); });
}

dnnl_status_t onednn_primitive_execute(const_dnnl_primitive_t primitive,
                                       dnnl_stream_t stream, int count,
                                       const dnnl_exec_arg_t *arg)
{
    return guarded(
        [&] { return dnnl_primitive_execute(primitive, stream, count, arg); });
}

dnnl_status_t onednn_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                           dnnl_dim_t k, float alpha, const float *a,
                           dnnl_dim_t lda, const float *b, dnnl_dim_t ldb,
                           float beta, float *c, dnnl_dim_t ldc)
{
    return guarded([&] {
        return dnnl_sgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
                          c, ldc);
    });
}
