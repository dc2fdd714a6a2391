/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkkern: every row of the kernel table against the reference.
 *
 * A problem is made from a row, a seed and a number, so that one command
 * replays it.  Rows of the reference itself are held against the reference on
 * dense single or double precision: that proves their strides, conversions,
 * guard zones and workspace (tests/unit/kernels/ref.c proves their arithmetic).
 */
#ifndef TESTS_CHECKKERN_CHECKKERN_H
#define TESTS_CHECKKERN_CHECKKERN_H

#include "libinfer/device/device.h"
#include "libinfer/multiplier/multiplier.h"
#include "tools/verify/verify.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* ---- problems ------------------------------------------------------ */

/* Problems 0 .. count-1 of an operation are a fixed list, the rest random. */
int problem_fixed_count(enum kern_op op);

/* What replays a problem. */
struct problem_id {
    uint64_t seed;
    int number;
    int draw;               /* a number may be drawn again; from 0 */
    enum infer_dtype dtype; /* of activations; INFER_NONE: the row's, or any */
};
void problem_make(const struct kern_row *row, const struct problem_id *id,
                  struct kern_problem *out);
/* A random problem is drawn this often until the row takes it. */
#define PROBLEM_DRAWS 512
/* Whether a drawn problem is small enough; another is drawn otherwise.  Most
 * are small, so that there can be many. */
bool problem_is_small(const struct problem_id *id,
                      const struct kern_problem *p);

/* A tensor of the given shape, its strides drawn from what the row may take;
 * a writable one never overlaps itself. */
struct maker {
    struct rng rng;
    const struct kern_row *row;
    enum infer_dtype dtype; /* of activations */
    enum kern_layout layout;
    bool changing; /* the weights change from launch to launch */
    struct kern_problem *p;
};
struct dims {
    int rank;
    int64_t dim[KERN_MAX_RANK];
};
struct kern_tensor make_tensor(struct maker *m, enum infer_dtype dtype,
                               int rank, const int64_t *dim, bool writable);
/* Channels of a wider tensor, as the parts of a concatenation are: dense but
 * for the distance from pixel to pixel. */
struct kern_tensor make_slice(struct maker *m, enum infer_dtype dtype, int rank,
                              const int64_t *dim);
struct kern_tensor make_weights(struct maker *m, int rank, const int64_t *dim);
/* Weights that are not factors of a product: bias, scale, statistics. */
struct kern_tensor make_vectors(struct maker *m, int rank, const int64_t *dim);
/* Problem k's shape: from a fixed list first, then random. */
struct dims make_dims(struct maker *m, int k, int min_rank);
struct kern_tensor make_in(struct maker *m, const struct dims *s);
struct kern_tensor make_out(struct maker *m, const struct dims *s);
/* A vector beside activations, and the type that those have. */
struct kern_tensor make_vector(struct maker *m, int64_t n);
enum infer_dtype vector_dtype(const struct maker *m);
/* And that of bn_stats. */
enum infer_dtype bn_stats_dtype(const struct maker *m);
struct kern_unary make_activation(struct rng *r);
void make_window_problem(struct maker *m, int k);
/* Operations of inference but those with windows. */
void make_plain_problem(struct maker *m, int k);
int dense_fixed_count(void);
/* Forward problems from which the backward ones of the same name are made. */
void make_layer_norm(struct maker *m, int k);
void make_group_norm(struct maker *m, int k);
void make_prelu(struct maker *m, int k);
void make_resize(struct maker *m, int k);
/* Operations of training but those with windows. */
void make_train_problem(struct maker *m, int k);
/* Two convolutions as one (chain.c). */
void make_chain(struct maker *m, int k);
int chain_fixed_count(void);
void make_epilogue(struct maker *m);
/* Makes a problem of floats one on integers of 8 bits. */
void make_quantised(struct maker *m);
/* Adds a table of products: always for rows that want one, now and then for
 * those of the reference. */
void make_product_table(struct maker *m);
int window_fixed_count(enum kern_op op);

/* ---- buffers ------------------------------------------------------- */

/* Memory of a tensor between guard zones, all of it poisoned with NaN. */
struct guarded {
    struct kern_tensor tensor;
    unsigned char *block;  /* guard and lead, span, guard */
    unsigned char *copy;   /* what the block should still hold */
    size_t bytes;          /* of the block */
    size_t front;          /* of them before the span */
    unsigned char *origin; /* element with all indices 0 */
    /* Where kernels see it: the block itself, or its twin on a device. */
    const struct device *device;
    unsigned char *twin;
};
/* The span starts `lead` bytes behind a multiple of 64 (of 256 on a device),
 * so that a kernel can count on no more than it is promised. */
bool guarded_new(struct guarded *g, const struct kern_tensor *t, size_t lead);
/* Plain bytes: workspace and packed weights. */
bool guarded_bytes(struct guarded *g, size_t bytes, size_t lead);
void guarded_free(struct guarded *g);
/* Gives the block a twin on a device (not one of host memory); then copies all
 * of it there and back, guards included. */
bool guarded_mirror(struct guarded *g, const struct device *d,
                    struct infer_error *err);
/* From now on every twin is an allocation of its own, so that
 * compute-sanitizer sees its ends. */
void guarded_separate(void);
/* Gives back what guarded_mirror() keeps for the thread's next problem. */
void guarded_pool_close(void);
/* Between ops->begin() and ops->end(). */
bool guarded_send(struct guarded *g, struct infer_error *err);
bool guarded_fetch(struct guarded *g, struct infer_error *err);
/* The same for bytes that nobody but the kernel reads: where allocations are
 * separate they stay on the device, so that initcheck sees what the kernel
 * reads before it has written it. */
bool guarded_send_scratch(struct guarded *g, struct infer_error *err);
bool guarded_fetch_scratch(struct guarded *g, struct infer_error *err);
/* origin, as kernels see it. */
void *guarded_at(const struct guarded *g);
void guarded_poison(struct guarded *g, int byte);
/* Dense row-major array to and from the tensor. */
void guarded_scatter(struct guarded *g, const void *dense);
void guarded_gather(const struct guarded *g, void *dense);
/* Remembers the block; then: is every byte as remembered? */
void guarded_remember(struct guarded *g);
bool guarded_unchanged(const struct guarded *g);
/* The same of so many bytes from the tensor's first. */
bool guarded_bytes_unchanged(const struct guarded *g, size_t bytes);
/* Are all bytes but those of the tensor's elements still the poison? */
bool guarded_intact(struct guarded *g, int byte);
bool guarded_bytes_intact(const struct guarded *g, size_t bytes, int byte);

/* ---- checking ------------------------------------------------------ */

enum verdict { VERDICT_OK, VERDICT_REFUSED, VERDICT_FAILED };

struct check {
    const struct kern_row *row;
    const struct kern_device *device;
    const struct device *gpu; /* NULL where kernels take host memory */
    struct problem_id id;
    double worst; /* largest difference / tolerance so far */
    int exact;    /* passes on integers so far, */
    int infinite; /* and on integers with infinities among them */
    int single;   /* and on single terms */
    bool verbose;
};
enum verdict check_problem(struct check *c, const struct kern_problem *p);

/* ---- one multiplier ------------------------------------------------ */

/* All problems have this multiplier from now on (a name or a file), and those
 * rows alone that take tables are checked. */
bool multiplier_use(const char *name, struct infer_error *err);
void multiplier_done(void);
bool multiplier_in_use(void);
/* Gives a problem that has products the multiplier; false if it has none. */
bool multiplier_give(const struct kern_row *row, struct kern_problem *p);
/* Fills the table and the factors. */
void multiplier_fill_tables(const struct kern_problem *p, void *const *dense);
/* Leaves the sums of products alone; false if the problem cannot be had. */
bool multiplier_single(struct kern_problem *p);
/* Operands of which each output has one product at most.  anywhere: exponents
 * from end to end.  False: out of memory. */
bool multiplier_fill_single(const struct kern_problem *p, struct rng *rng,
                            bool anywhere, void *const *dense);
/* Every bit of F32 outputs; false with the first wrong one in text. */
bool multiplier_compare(const struct reference *t, const void *result,
                        char text[VERIFY_TEXT]);

#endif
