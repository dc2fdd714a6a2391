/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the rows built on oneDNN: the engine, tensors as memory
 * descriptors, epilogues as post-operations, and a primitive that is bound to
 * the arguments of a row.
 */
#ifndef KERNELS_ONEDNN_PRIMITIVE_H
#define KERNELS_ONEDNN_PRIMITIVE_H

#include <dnnl.h>

#include "kernels/kern.h"
#include "kernels/onednn/guard.h"

#define ONEDNN_MAX_ARG 8

/* Where an argument of a primitive comes from at launch. */
#define ONEDNN_IN(i)     (i)
#define ONEDNN_OUT(i)    (16 + (i))
#define ONEDNN_WORKSPACE 32

/* A primitive with its bindings: the state of most rows.  Opaque. */
struct onednn_primitive;

/* The engine of this process; NULL, with err filled, where oneDNN fails. */
dnnl_engine_t onednn_engine(struct infer_error *err);

/* Turns a status into an error that names the call.  0 for success. */
int onednn_status(dnnl_status_t status, const char *call,
                  struct infer_error *err);

/* Describes t as it lies.  False where oneDNN has no such type or strides
 * (zero and negative ones, rank above 6, empty tensors). */
bool onednn_describe(const struct kern_tensor *t, dnnl_memory_desc_t *out);
/* The same shape and type, with the layout left to the primitive. */
bool onednn_describe_any(const struct kern_tensor *t, dnnl_memory_desc_t *out);

/* Builds attributes with p's epilogue, user scratchpad and a scale of the
 * result.  A residual is added to what the destination holds, the only way
 * that oneDNN's fast convolutions know.  Destroy with
 * dnnl_primitive_attr_destroy(). */
int onednn_attributes(const struct kern_problem *p, bool residual, float scale,
                      struct infer_error *err, dnnl_primitive_attr_t *attr);

/* Chooses oneDNN's first implementation of the operation for that many
 * threads.  EUNSUPPORTED where there is none, or only the reference ("ref",
 * "simple"). */
int onednn_choose(const void *op_desc, const_dnnl_primitive_attr_t attr,
                  int threads, struct infer_error *err,
                  dnnl_primitive_desc_t *pd);

/* Creates the primitive of pd, to run on `threads` threads. */
int onednn_create(dnnl_primitive_desc_t pd, int threads,
                  struct infer_error *err, struct onednn_primitive **out);
/* Binds argument arg of the primitive to a source (ONEDNN_IN and so on). */
void onednn_bind(struct onednn_primitive *x, int arg, int source,
                 const dnnl_memory_desc_t *md);
/* Binds constant input `in`, which onednn_pack() turns from `given` into what
 * the primitive wants, and returns the bytes of the latter.  One a primitive.
 */
size_t onednn_bind_packed(struct onednn_primitive *x, int arg, int in,
                          const dnnl_memory_desc_t *given,
                          const dnnl_memory_desc_t *packed);
/* Binds the scratchpad to the workspace and returns its bytes. */
size_t onednn_bind_scratchpad(struct onednn_primitive *x,
                              dnnl_primitive_desc_t pd);
/* Ends binding: allocates what the first launch needs. */
int onednn_finish(struct onednn_primitive *x, struct infer_error *err);
/* Threads that the primitive runs on. */
int onednn_threads(const struct onednn_primitive *x);
int onednn_run(struct onednn_primitive *x, const struct kern_args *args,
               struct infer_error *err);
void onednn_destroy(struct onednn_primitive *x);

/* Whether biases and outputs have to be so: oneDNN 2.6.3 for SSE4.1 adds what
 * is there by instructions that want 16 bytes of alignment, where a tensor has
 * that of its type.  Biases are seen to by onednn_run(). */
bool onednn_wants_alignment(void);
bool onednn_is_aligned(const void *address);

/* Row functions for rows whose state is one struct onednn_primitive. */
int onednn_launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err);
int onednn_pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err);
void onednn_release(struct kern_exec *e);

/* Why a problem is refused: fills *why and returns INFER_EUNSUPPORTED. */
int onednn_refuse(struct infer_error *why, const char *reason);

#endif
