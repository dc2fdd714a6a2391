/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a kernel's result is held against the reference: input values, what is
 * true of a problem, and how far from it a row may be.  checkkern and kbench
 * share it, so that what one accepts the other does too.
 */
#ifndef TOOLS_VERIFY_VERIFY_H
#define TOOLS_VERIFY_VERIFY_H

#include "kernels/base/scalar.h"
#include "kernels/kern.h"
#include "kernels/problem.h"
#include "kernels/unary.h"

/* ---- random numbers (splitmix64) ----------------------------------- */

struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
/* low .. high, both included. */
int64_t rng_range(struct rng *r, int64_t low, int64_t high);
bool rng_chance(struct rng *r, int percent);
/* -1 .. 1 */
double rng_real(struct rng *r);

/* ---- data ---------------------------------------------------------- */

enum pass {
    PASS_EXACT, /* small integers: every order of summation agrees */
    PASS_REAL,
    PASS_INFINITE, /* integers, and among the activations infinities */
    PASSES
};

/* What one output is summed from: C * R * S of a convolution, the size of a
 * window, of a reduced block and so on. */
double problem_terms(const struct kern_problem *p);
/* Whether rows must agree bit by bit on small integers. */
bool data_is_exact(const struct kern_problem *p);
/* And whether they must in output o: moments are quotients. */
bool data_output_is_exact(const struct kern_problem *p, int o);
/* Whether infinities and NaN among its activations mean something: sums of
 * products and maxima, where what none of them reaches must stay as it was.
 * Weights stay finite: infinity times infinity is no number where a product is
 * made of three in TF32. */
bool data_takes_infinite(const struct kern_problem *p);
/* Fills a dense row-major array of count values as input i may hold them. */
void data_fill(const struct kern_problem *p, int i, enum pass pass,
               struct rng *rng, int64_t count, void *dense);

/* A table of products and its factors (kernels/table/product_factors.h), of a
 * problem that has them; both row-major. */
void data_fill_factors(const struct kern_problem *p, enum pass pass,
                       struct rng *rng, uint32_t *entry, uint16_t *factors);
/* A table of products of `count` entries, row-major (data_table.c). */
void data_fill_table(enum pass pass, struct rng *rng, int64_t count,
                     uint32_t *entry);
/* Element `at` of input i of an operation of training (data_train.c); false
 * where it is as any other's. */
bool data_train(const struct kern_problem *p, int i, int64_t at,
                struct rng *rng, double *out);

/* ---- reference results --------------------------------------------- */

/* The reference's view of a problem: dense, and of a type that holds every
 * value; outputs in double. */
struct reference {
    struct kern_problem p;
    void *in[KERN_MAX_IN];
    void *out[KERN_MAX_OUT]; /* F64, or the problem's own integer type */
};
/* Room for the problem's inputs and outputs.  False: out of memory; to be freed
 * even then. */
bool reference_new(struct reference *t, const struct kern_problem *p);
void reference_free(struct reference *t);
/* Takes input i from a dense row-major array of the given type. */
void reference_set(struct reference *t, int i, enum infer_dtype dtype,
                   const void *dense);
/* Runs the reference; out must be there.  False with the reason in *err. */
bool reference_run(const struct reference *t, struct infer_error *err);
/* Output o where it is stated of another output of the same run, which may be
 * on either side of a threshold: the signs of batch norm's y.  It then becomes
 * what it must be beside result[0] (row-major, of the given type). */
void reference_follow(struct reference *t, int o, enum infer_dtype dtype,
                      const void *result);

/* ---- bounds -------------------------------------------------------- */

/* tol[i] for each element of output o of a problem with real data, but for the
 * rounding of the result: what the accumulator may have lost, and the factors
 * of rows that round them to TF32.  False: out of memory. */
bool bound_fill(const struct reference *t, int o, const struct kern_exec *e,
                double *tol, struct infer_error *err);
/* The same for the operations of training that are no plain sums
 * (bound_train.c); false where an operation is none of them. */
bool bound_train(const struct reference *t, int o, double u, double *tol);
/* Mean and inverse deviation of a block of n elements of input i, of which a
 * layer or group norm makes one.  Returns the condition number of the variance.
 */
double bound_block(const struct reference *t, int i, int64_t at, int64_t n,
                   double *mean, double *inverse);
/* And of squeeze and excitation (bound_squeeze_excite.c).  False: out of
 * memory. */
bool bound_squeeze(const struct reference *t, double u, double *tol);
/* And of chains (bound_chain.c). */
bool bound_chain(const struct reference *t, const struct kern_exec *e,
                 double *tol, struct infer_error *err);
/* And of attention on values of a type (bound_attention.c).  False: out of
 * memory. */
bool bound_attention(const struct reference *t, enum infer_dtype values,
                     double u, double *tol);
/* What it may lose itself where its argument is at most x in magnitude and its
 * value y. */
double bound_function(const struct kern_unary *f, double x, double y, double u);
/* How a row computes what it sums (bound_transform.c): term by term, or by a
 * transform of tiles, with a bound of its own. */
enum bound_way { BOUND_SUMS, BOUND_WINOGRAD, BOUND_FOURIER };
enum bound_way bound_way(const struct kern_row *row);
/* bound_fill() for a bare convolution or one of its gradients in one of the
 * latter two ways, Winograd's two-dimensional with a window of 3x3; u:
 * bound_unit() of the accumulator. */
void bound_transform(const struct reference *t, enum bound_way way, double u,
                     double *tol);
/* Those of the moments of a convolution whose outputs, of type `stored`, have
 * the bounds y_tol (bound_bn_stats.c). */
void bound_bn_stats(const struct reference *t, enum infer_dtype stored,
                    double u, const double *y_tol, double *tol);
/* Half a unit in the last place of a type, relative; and the absolute one
 * where results underflow. */
double bound_unit(enum infer_dtype dtype);
double bound_tiny(enum infer_dtype dtype);

/* ---- comparing ----------------------------------------------------- */

#define VERIFY_TEXT 384

/* Holds a dense row-major result of the given type against t->out[o].  tol: of
 * bound_fill(), not read in the exact pass.  Raises *worst to the largest
 * difference / tolerance.  False with the first element that is off in text:
 * where, the values, the tolerance.  NaN is never right but where the
 * reference has it. */
bool verify_compare(const struct reference *t, int o, enum infer_dtype dtype,
                    const void *result, enum pass pass, const double *tol,
                    double *worst, char text[VERIFY_TEXT]);

#endif
