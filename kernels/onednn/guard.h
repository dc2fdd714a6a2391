/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of oneDNN that allocate, safe to call from C.
 *
 * oneDNN is C++ behind a C interface, and std::bad_alloc crosses it (2.6.3): in
 * a C program that ends the process.  Each function here calls its namesake
 * dnnl_... and returns dnnl_out_of_memory where that throws std::bad_alloc,
 * dnnl_runtime_error for any other exception.
 *
 * oneDNN also writes to objects without a look at whether posix_memalign() gave
 * their memory (2.6.3,
 * c_compatible::operator new).  Functions that make
 * objects therefore allocate 120 KiB and map 4 MiB first, and return
 * dnnl_out_of_memory if there are none.  Not covered: memory that another
 * thread takes between the two, and what oneDNN throws on a thread of OpenMP.
 */
#ifndef KERNELS_ONEDNN_GUARD_H
#define KERNELS_ONEDNN_GUARD_H

#include <dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

dnnl_status_t onednn_engine_create(dnnl_engine_t *out, dnnl_engine_kind_t kind,
                                   size_t index);
dnnl_status_t onednn_stream_create(dnnl_stream_t *out, dnnl_engine_t engine,
                                   unsigned flags);
dnnl_status_t onednn_memory_create(dnnl_memory_t *out,
                                   const dnnl_memory_desc_t *desc,
                                   dnnl_engine_t engine, void *data);
dnnl_status_t onednn_memory_set_data_handle(dnnl_memory_t memory, void *data);
dnnl_status_t onednn_post_ops_create(dnnl_post_ops_t *out);
dnnl_status_t onednn_post_ops_append_sum(dnnl_post_ops_t ops, float scale);
dnnl_status_t onednn_post_ops_append_eltwise(dnnl_post_ops_t ops, float scale,
                                             dnnl_alg_kind_t kind, float alpha,
                                             float beta);
dnnl_status_t onednn_primitive_attr_create(dnnl_primitive_attr_t *out);
dnnl_status_t
onednn_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
                                   const_dnnl_post_ops_t post_ops);
dnnl_status_t onednn_primitive_attr_set_output_scales(
    dnnl_primitive_attr_t attr, dnnl_dim_t count, int mask, const float *scale);
dnnl_status_t
onednn_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t attr,
                                          dnnl_scratchpad_mode_t mode);
dnnl_status_t onednn_primitive_desc_create(dnnl_primitive_desc_t *out,
                                           const void *op_desc,
                                           const_dnnl_primitive_attr_t attr,
                                           dnnl_engine_t engine);
dnnl_status_t onednn_reorder_primitive_desc_create(
    dnnl_primitive_desc_t *out, const dnnl_memory_desc_t *from,
    const dnnl_memory_desc_t *to, dnnl_engine_t engine,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t onednn_primitive_create(dnnl_primitive_t *out,
                                      const_dnnl_primitive_desc_t desc);
dnnl_status_t onednn_primitive_execute(const_dnnl_primitive_t primitive,
                                       dnnl_stream_t stream, int count,
                                       const dnnl_exec_arg_t *arg);
dnnl_status_t onednn_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                           dnnl_dim_t k, float alpha, const float *a,
                           dnnl_dim_t lda, const float *b, dnnl_dim_t ldb,
                           float beta, float *c, dnnl_dim_t ldc);

#ifdef __cplusplus
}
#endif

#endif
