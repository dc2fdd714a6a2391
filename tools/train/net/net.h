/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network in training: a graph lowered to lists of steps.
 *
 * net_new() walks the graph once forward and once backward and chooses a row of
 * the kernel table for every problem.  It makes three lists: train (forward
 * pass, loss, backward pass), update, and eval (forward pass with running
 * statistics, loss).  All memory is placed then; a step allocates nothing.
 *
 * Parameters lie in one flat array; gradients, the optimiser's moments and
 * averages in others, in the same order: trained with weight decay, trained
 * without, frozen, running statistics.  An update is one launch a range, and
 * several devices exchange one array.
 */
#ifndef TOOLS_TRAIN_NET_NET_H
#define TOOLS_TRAIN_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/graph/graph.h"
#include "libinfer/multiplier/multiplier.h"
#include "libinfer/plan/problem.h"
#include "libinfer/plan/program.h"
#include "tools/train/group/exchange.h"

/* ---- memory -------------------------------------------------------- */

/* The memory that a buffer is part of. TRAIN and EVAL share one arena: their
 * lists never run at once. */
enum net_memory {
    NET_TRAIN,
    NET_EVAL,
    NET_FIXED, /* batch, metrics, step state, constants */
    NET_WEIGHTS,
    NET_GRADS,
    NET_M,
    NET_V,
    NET_AVERAGE,
    NET_HALF, /* weights in 16 bits */
    NET_MEMORIES
};

/* ---- parameters ---------------------------------------------------- */

enum net_role { NET_DECAY, NET_PLAIN, NET_FROZEN, NET_RUNNING, NET_ROLES };

enum net_init {
    NET_INIT_CONV, /* the scheme of the run */
    NET_INIT_DENSE,
    NET_INIT_BIAS,
    NET_INIT_ONE,
    NET_INIT_ZERO,
    NET_INIT_SLOPE /* of PReLU: 0.25 */
};

struct net_param {
    char *name; /* of the graph's value */
    int value;
    int rank;
    int64_t dim[KERN_MAX_RANK];
    int64_t offset, count; /* elements of the flat arrays */
    enum net_role role;
    enum net_init init;
    int64_t fan_in, fan_out;
    bool written; /* some launch has set its gradient */
    bool side;    /* its gradient is computed on the side stream */
};

/* ---- launches ------------------------------------------------------ */

enum net_stage {
    NET_FPROP,
    NET_LOSS,
    NET_DGRAD,
    NET_WGRAD,
    NET_EXCHANGE,
    NET_STEP,
    NET_RECOMPUTE, /* steps of NET_FPROP, in the backward pass */
    NET_STAGES
};
extern const char *const net_stage_names[];

/* What gradients through an approximate multiplier are computed by. */
enum net_gradient {
    NET_BY_PRODUCTS,       /* its own */
    NET_BY_EXACT_PRODUCTS, /* straight through */
    NET_BY_SLOPES,         /* a regression's (kernels/table/product_slope.h) */
    NET_BY_DERIVATIVES
};

/* What a step exchanges with the other processes of the run, or with the
 * host's memory; such a step launches no kernel. */
enum net_transfer {
    NET_NO_TRANSFER,
    NET_SUM,  /* starts adding up in[0] */
    NET_MEAN, /* starts averaging in[0] */
    NET_JOIN, /* waits for what was started */
    /* With the host's memory instead: net_again.h. */
    NET_OUT,  /* starts copying in[0] there */
    NET_IN,   /* starts copying it back */
    NET_AWAIT /* waits for all copies */
};

enum net_list_name {
    NET_LIST_TRAIN,
    NET_LIST_UPDATE,
    NET_LIST_EVAL,
    NET_LIST_CLEAR, /* gradients to 0, where batches accumulate */
    NET_LIST_HALF,  /* weights that came from the host to 16 bits */
    NET_LISTS
};

struct net_list {
    struct plan_steps steps;
    struct device_graph *recorded;
    uint64_t runs;
};

/* ---- the network --------------------------------------------------- */

struct net_options {
    const struct device *device;
    struct exchange *exchange;  /* with other processes; NULL: alone */
    enum infer_backend backend; /* AUTO: the fastest of the device */
    struct tuner *tuner;        /* chooses rows; NULL: the fixed rule */
    enum infer_dtype dtype;     /* of activations: F32, F16, BF16, F64 */
    bool deterministic, allow_tf32;
    int64_t batch;  /* of this process */
    int accumulate; /* batches a step, at least 1 */
    bool update;    /* false: gradients only */
    bool sync_norm; /* batch norms see the batch of all processes */
    bool decay_all; /* weight decay on biases and batch norm as well */
    bool keep;      /* no memory is shared: every value stays readable */
    /* Bytes that the network may take on the device: weights, gradients, state
     * of the optimiser, activations, workspace.  Activations that do not fit
     * are computed twice, with the same bits.  0: no limit. */
    uint64_t memory;
    bool offload; /* if that is not enough, they lie in the host's memory */
    const char *freeze; /* extended regular expression, or NULL */
    float bn_momentum;
    float smoothing;
    struct kern_update rule; /* decay included */
    bool momentum, second;   /* the rule keeps m, v */
    bool average;
    struct kern_step step;
    /* Of the convolutions and dense layers in NET_FPROP, NET_DGRAD and
     * NET_WGRAD: of floating point, NULL for exact products.  Read while the
     * network is made. */
    const struct multiplier *multiplier[NET_STAGES];
    enum net_gradient gradient[NET_STAGES]; /* what the multiplier gives */
    const char *multiplier_exact; /* layers that do without; NULL: none */
};

/* Read-back of one batch, over all processes. */
struct net_metrics {
    double loss; /* sum over the batch */
    int64_t hit; /* of them right */
    bool stop;   /* some process was told net_put_stop() */
};

struct net_value {
    struct view view[2]; /* as the train and eval lists see it */
    struct view grad;    /* dtype NONE: none yet */
    /* ReLU bit mask: grad is 0 where a bit is 0; dtype NONE: none. */
    struct view grad_mask;
    struct view bn_stats; /* kernels/bn_stats.h; dtype NONE: none */
    bool needs_grad;
    int param; /* index, or -1 */
};

/* Nodes that are one launch: a head, then an addition and an activation that
 * its epilogue computes. */
struct net_chain {
    int head, add, act; /* nodes; -1: none */
    int residual;       /* value; -1 */
};

struct net {
    struct net_options options;
    /* While the network is made: the first error, and its code.  After it
     * nothing is added. */
    struct infer_error *err;
    int rc;
    struct row_tiers tiers; /* of options.backend */
    struct graph *g;
    struct net_value *value;
    struct net_chain *chain; /* of the node that ends it */
    bool *absorbed;          /* node is in a chain that ends elsewhere */
    struct net_param *param;
    int n_params;
    int64_t role_begin[NET_ROLES + 1]; /* elements of the flat arrays */
    struct plan_buffers buffers;       /* memory: enum net_memory */
    int flat[NET_MEMORIES]; /* buffers of the flat arrays; -1: none */
    struct net_list list[NET_LISTS];
    struct device_graph *step; /* of net_step() */
    uint64_t step_runs;
    unsigned char *base[NET_MEMORIES];
    size_t arena_bytes, fixed_bytes, workspace_bytes, packed_bytes;
    int repeated_steps;    /* steps of the forward pass that run twice */
    double repeated_share; /* of its work */
    unsigned char *host;   /* of moved activations; pinned on a GPU */
    size_t host_bytes;
    size_t side_bytes; /* largest workspace of steps on the side stream */
    void *arena, *workspace, *side_workspace;
    unsigned char *packed; /* weights of the step that runs, as its row wants
                            * them: the largest of all steps */
    /* Of batch norms in training, by node. variance: of the whole batch.
     * relu_mask: bit mask of y, dtype NONE if the backward pass reads y itself.
     */
    struct view *mean, *deviation, *variance, *relu_mask;
    uint32_t *stream;     /* of dropouts, by node */
    struct view averages; /* eval's 16-bit copy of the averages */
    int dropouts;
    int logits; /* value */
    /* In NET_FIXED; rate and random are one copy, loss and hit too. */
    struct view input, label, random, rate, loss, hit, stop, state, norm, zero;
    int control, metrics; /* buffers */
    int64_t classes;
    void *host_metrics;
    struct view products[NET_STAGES]; /* tables of the multipliers */
    /* And their factors, if they have any, or their accumulators. */
    struct view factors[NET_STAGES];
    bool *exact_layers; /* of each node: whether it does without them */
};

/* Whether activations are in 16 bits. */
static inline bool net_is_half(const struct net *n)
{
    return n->options.dtype == INFER_F16 || n->options.dtype == INFER_BF16;
}

/* The type of masters, losses and statistics. */
static inline enum infer_dtype net_wide(const struct net *n)
{
    return n->options.dtype == INFER_F64 ? INFER_F64 : INFER_F32;
}

/* Takes over the graph (freed on failure too), whose first input is the batch
 * and whose only output are scores, or their softmax, which is left out.
 * EUNSUPPORTED lists every node that cannot be trained. */
int net_new(struct graph *g, const struct net_options *options,
            struct infer_error *err, struct net **out);
void net_free(struct net *n); /* NULL is fine */

/* The batch: dense N,C,H,W pictures with channels last, F32 (F64 for a network
 * of doubles), and one label per picture; -1 marks a row that only fills up. */
int net_put_batch(struct net *n, const void *x, const int32_t *label,
                  struct infer_error *err);
/* The same with x in memory of the device's alloc_host(), which stays as it is
 * until the metrics are read. */
int net_put_readable(struct net *n, const void *x, const int32_t *label,
                     struct infer_error *err);
/* What changes every batch: the learning rate, and the place of dropout's
 * random numbers. */
int net_put_control(struct net *n, float rate, uint64_t seed, uint64_t place,
                    struct infer_error *err);
/* This process's wish to stop; all processes learn it with the metrics of the
 * next batch. Does nothing for a single process. */
int net_put_stop(struct net *n, bool stop, struct infer_error *err);
/* Forward, loss and gradients; first: of the step (gradients start at 0). */
int net_train(struct net *n, bool first, struct infer_error *err);
int net_update(struct net *n, struct infer_error *err);
/* net_train() and net_update() for a step of one batch, recorded as one graph
 * on a device that records. Gradients that are not finite leave the weights
 * unchanged. */
int net_step(struct net *n, struct infer_error *err);
/* The first step of the training list that reads a parameter. */
int net_first_use(const struct net *n, int param);
/* Runs forward pass and loss of the training list from step `from` on. from is
 * 0, or the results of the steps before it are kept (net_options.keep). */
int net_train_loss(struct net *n, int from, struct infer_error *err);
/* Forward and loss as in inference, with averaged weights where the network
 * keeps averages. */
int net_eval(struct net *n, struct infer_error *err);
int net_read_metrics(struct net *n, struct infer_error *err,
                     struct net_metrics *out);
/* KERN_STEP_SIZE numbers. */
int net_read_state(struct net *n, float *out, struct infer_error *err);
int net_write_state(struct net *n, const float *in, struct infer_error *err);
/* Everything between begin and end is one run of the device. */
int net_begin(struct net *n, struct infer_error *err);
int net_end(struct net *n, struct infer_error *err);

/* Copies a whole flat array to or from the host, where every parameter is
 * row-major; elements have the array's type. */
size_t net_flat_bytes(const struct net *n,
                      enum net_memory memory); /* 0: absent */
int net_read_flat(struct net *n, enum net_memory memory, void *out,
                  struct infer_error *err);
int net_write_flat(struct net *n, enum net_memory memory, const void *in,
                   struct infer_error *err);
/* Converts weights that came from the host to 16 bits. */
int net_refresh_half(struct net *n, struct infer_error *err);
/* Sends weights, moments, averages, state and *step of process 0 to all others.
 */
int net_share(struct net *n, int64_t *step, struct infer_error *err);
/* Reads any view of the network, dense row-major. */
int net_read_view(struct net *n, const struct view *v, void *out,
                  struct infer_error *err);

/* Runs a list launch by launch and adds the times to net_op.seconds. */
int net_time(struct net *n, enum net_list_name list, struct infer_error *err);
/* Seconds of each of `count` whole steps on the current batch, in a row,
 * recorded on a device that records. */
int net_time_steps(struct net *n, int count, double *seconds,
                   struct infer_error *err);

/* ---- making a network ---------------------------------------------- */

/* Functions that add to a network return nothing: the first that fails leaves
 * its error in n->err and its code in n->rc, and the later ones do nothing.
 * What they return then has the right shape and no memory. */

/* Where the next function leaves its error. */
static inline struct infer_error *net_err(const struct net *n)
{
    return n->rc == 0 ? n->err : NULL;
}

/* Keeps the code of a function that was given net_err(). */
static inline void net_check(struct net *n, int rc)
{
    if (n->rc == 0 && rc < 0)
        n->rc = rc;
}

#define net_fail(n, ...) net_check(n, error_set(net_err(n), __VA_ARGS__))

/* The list, the stage and the node of a launch; node -1: none. */
struct net_where {
    int list; /* enum net_list_name */
    enum net_stage stage;
    int node;
};

struct net_launch {
    struct kern_problem p; /* op, attr, epilogue; tensors come from the views */
    struct view in[KERN_MAX_IN], out[KERN_MAX_OUT];
    struct net_where where;
    bool side; /* on the side stream: no step of the list reads the result */
};

/* net_launch.c */
struct net_launch net_begin_launch(struct net_where where, enum kern_op op);
/* Chooses a row and appends the step. */
void net_launch(struct net *n, struct net_launch *e);
/* The row without measuring, or NULL; views need no buffers yet. */
const struct kern_row *net_row(const struct net *n, struct net_launch *e);
/* Measured seconds of the row that net_launch() takes; 0 without a tuner. */
double net_seconds(struct net *n, struct net_launch *e);
/* A step that exchanges an array with the other processes; array: of dtype NONE
 * for NET_JOIN.  NULL after an error. */
struct plan_step *net_transfer_step(struct net *n, enum net_transfer kind,
                                    int node, const struct view *array);
/* Appends one. */
void net_launch_transfer(struct net *n, int list, enum net_transfer kind,
                         int node, const struct view *array);
int net_buffer(struct net *n, enum net_memory memory, size_t bytes);
/* A dense tensor in a buffer of its own. */
struct view net_tensor(struct net *n, enum net_memory memory,
                       enum infer_dtype dtype, int rank, const int64_t *dim,
                       enum kern_layout layout);
/* A dense tensor of one dimension and the same. */
struct view net_vector(struct net *n, enum net_memory memory,
                       enum infer_dtype dtype, int64_t count);
/* Elements from .. to-1 of a flat array; dtype NONE if the network lacks it. */
struct view net_range(const struct net *n, enum net_memory memory,
                      enum infer_dtype dtype, int64_t from, int64_t to);
/* v with other dims; fails with the text where strides cannot express them. */
struct view net_reshape(struct net *n, const struct graph_node *node,
                        const struct view *v, int rank, const int64_t *dim,
                        const char *otherwise);
/* Pictures lie with channels last. */
#define NET_LAYOUT KERN_NHWC
void net_copy(struct net *n, struct net_where where, const struct view *from,
              const struct view *to);
void net_fill_zero(struct net *n, struct net_where where,
                   const struct view *to);
/* out = a op b, out = f(a); out may be a. */
void net_binary(struct net *n, struct net_where where,
                enum kern_binary_kind kind, const struct view *a,
                const struct view *b, const struct view *out);
void net_unary(struct net *n, struct net_where where, struct kern_unary f,
               const struct view *a, const struct view *out);
/* out = the sum of x over the axes, one bit each; with add, out += the sum. */
void net_sum(struct net *n, struct net_where where, const struct view *x,
             uint32_t axes, const struct view *out, bool add);

/* net_params.c */
void net_find_params(struct net *n);
/* The layout of convolutions' weights: channels last on a GPU, whose kernels
 * read them so; masters, gradients and moments alike. */
enum kern_layout net_param_layout(const struct net *n);
struct view net_param_view(const struct net *n, int param,
                           enum net_memory memory);
bool net_is_trained(const struct net *n, int param); /* -1: false */

/* net_chain.c */
void net_find_chains(struct net *n);

/* net_operand.c */
/* The view that a node reads for a graph value: a value, or a parameter in the
 * masters' type, or with `matrix` in the activations'. dtype NONE if absent. */
struct view net_operand(const struct net *n, int list, int value, bool matrix);
/* Gives constants of the graph their views. */
void net_constants(struct net *n);
/* Gives the tables of the multipliers their views; those of
 * multiplier_by_columns() and multiplier_slopes() as problems read them. */
void net_products(struct net *n);
/* Input i of a gradient becomes the point of its derivatives
 * (kernels/table/product_slope.h), where the layer's gradient has such. */
void net_set_point(const struct net *n, struct net_launch *e, int i,
                   const struct view *point);
/* v, whose last dimension is the columns, as rows, columns, 1, 1. A dense layer
 * is a 1x1 convolution of one pixel with net_pixel_conv()'s attributes. */
struct view net_as_pixels(struct net *n, const struct graph_node *node,
                          const struct view *v);
struct kern_conv net_pixel_conv(void);
/* v with the dims of t, a tensor of the problem of a node. */
struct view net_problem_view(struct net *n, const struct graph_node *node,
                             const struct kern_tensor *t, const struct view *v);
/* Splits each repeated dimension of a tiled tensor into repeats and size, and
 * of its source into 1 and size. */
void net_tile_views(struct net *n, const struct graph_node *node,
                    struct view *tiled, struct view *one);
/* True if scale and shift are frozen: the batch norm's statistics are frozen
 * too. */
bool net_norm_is_frozen(const struct net *n, const struct graph_node *node);

/* net_forward.c */
void net_forward(struct net *n, int list);
/* net_backward_layers.c */
/* The gradient of a chain's batch norm, without its outputs; by_mask: through
 * the activation by y's bit mask. */
struct net_launch net_batch_norm_dgrad(const struct net *n,
                                       const struct net_chain *chain,
                                       const struct view *y,
                                       const struct view *dy, bool by_mask);
/* net_backward.c */
void net_backward(struct net *n);
bool net_has_backward(const struct graph_node *node);

/* net_bn_stats.c: lets a convolution write partial statistics of its output
 * where that saves time. */
void net_add_bn_stats(struct net *n, int value, struct net_launch *e);

/* net_order.c: the ends of chains in the order of the backward pass; the caller
 * frees *out. Returns their number. */
int net_bwd_order(struct net *n, int **out);

/* net_grad.c: accumulation of gradients. */
/* The view that a launch writes a value's gradient to; *add: the view holds a
 * part already, and the launch must add to it. */
struct view net_grad_slot(struct net *n, int value, bool *add);
/* Adds g, of the value's dims, to its gradient. With net_grad_give() g's memory
 * may become the gradient itself. */
void net_grad_add(struct net *n, int node, int value, const struct view *g);
void net_grad_give(struct net *n, int node, int value, const struct view *g);
/* to = g, or with add to += g; to: a part of a gradient. */
void net_grad_put(struct net *n, int node, const struct view *to,
                  const struct view *g, bool add);
/* The gradient of a parameter; add as above. */
struct view net_grad_param(struct net *n, int param, bool *add);
/* A fresh tensor like another, dense. */
struct view net_like(struct net *n, const struct view *v);

/* net_loss.c */
void net_loss(struct net *n, int list);
void net_make_update(struct net *n);
/* net_exchange.c: does nothing for a single process. */
int net_ranks(const struct net *n);
/* Inserts the exchanges into all lists. */
void net_add_exchange(struct net *n);
/* Runs one operation with a transfer. */
int net_transfer(struct net *n, const struct plan_step *op,
                 struct infer_error *err);
/* net_sync_norm.c */
bool net_syncs_norms(const struct net *n);
/* Adds a batch norm in training by the statistics of all processes; e: all but
 * outputs 1 to 4 set; it is modified. */
void net_sync_norm(struct net *n, struct net_launch *e);
/* The same for its gradient. */
void net_sync_norm_bwd(struct net *n, const struct net_launch *e);
/* net_fit.c: keeps the network within net_options.memory.  EMEMORY says what
 * memory would do. */
void net_fit(struct net *n);
/* net_memory.c */
/* Where packed input i of a step lies in net->packed; KERN_MAX_IN: their end.
 */
size_t net_packed_at(const struct plan_step *step, int i);
/* Bytes on the device. */
size_t net_bytes(const struct net *n);
void net_place(struct net *n);
void *net_at(const struct net *n, const struct view *v);

#endif
