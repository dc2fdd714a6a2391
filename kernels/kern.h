/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernels: problems, rows and how a row is run.
 *
 * A kernel is one row of kernels.def.  The planner, the tests and the
 * benchmarks read the same rows.  A row's supports() is the only statement of
 * its limits: where it returns 0, prepare() and launch() succeed but for lack
 * of memory or a device fault.
 *
 * A problem is complete: it holds the shape, type and strides of every tensor
 * and every attribute, and no data.  Tensors are logical N,C,spatial...;
 * strides (in elements) say how they lie.  This header knows no graph.
 */
#ifndef KERN_H
#define KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERN_MAX_RANK INFER_MAX_RANK
#define KERN_MAX_IN   8
#define KERN_MAX_OUT  6

/* ---- operations ---------------------------------------------------- */

/* kernels/ops.def lists every operation with its inputs, outputs and facts. */
enum kern_op {
#define KERN_OP(op, name, ...) op,
#include "kernels/ops.def"
    KERN_OP_COUNT
};

/* dx[n,c,i] = sum of dy[n,k,p] * w[k,c,r] over all that fprop made of x[n,c,i]
 * is what a transposed convolution of dy with the same weights computes: the
 * input is dy, the output dx, and x's extent is the output's.  So the two are
 * one operation; and the dgrad of a transposed convolution is conv_fprop, its
 * wgrad conv_wgrad with dy for x and x for dy.
 *
 * A dense layer's backwards are those of a convolution with a 1x1 window over
 * one pixel: x as rows,C,1,1, y as rows,K,1,1, w as K,C,1,1. */
#define KERN_CONV_DGRAD KERN_CONV_TRANSPOSE_FPROP

/* "conv_fprop" and so on. */
const char *kern_op_name(enum kern_op op);

/* ---- tensors ------------------------------------------------------- */

/* dtype INFER_NONE marks an optional input that is absent.  A stride may be 0
 * (broadcast) or negative (reversed view): the pointer given at launch is that
 * of the element with all indices 0.  On a GPU it is a multiple of 16 bytes but
 * for rows flagged KERN_STRIDED. */
struct kern_tensor {
    enum infer_dtype dtype;
    int rank;
    int64_t dim[KERN_MAX_RANK];
    int64_t stride[KERN_MAX_RANK];
};

/* Physical order of a dense tensor of rank 3 and more: channels second
 * (row-major N,C,...) or channels last.  The two coincide below rank 3. */
enum kern_layout { KERN_NCHW, KERN_NHWC };

/* Describes a dense tensor.  dim has rank entries. */
struct kern_tensor kern_tensor_dense(enum infer_dtype dtype, int rank,
                                     const int64_t *dim,
                                     enum kern_layout layout);
/* True where the strides are exactly those of kern_tensor_dense() (strides of
 * dimensions of size 1 do not matter). */
bool kern_tensor_is_dense(const struct kern_tensor *t, enum kern_layout layout);
/* Number of elements (1 for rank 0). */
int64_t kern_tensor_count(const struct kern_tensor *t);
/* Bytes from the lowest to one past the highest element addressed. */
size_t kern_tensor_span(const struct kern_tensor *t);

/* ---- attributes ---------------------------------------------------- */

/* Spatial attributes hold D,H,W right-aligned to the spatial rank in the
 * first entries: a 2-D problem uses [0] for H and [1] for W. */
#define KERN_MAX_SPATIAL 3

/* y[n,k,p] = sum_{c,r} x[n, c, p*stride + r*dilation - pad_begin] * w[k,c,r].
 * x: N,C,spatial; w: K,C/groups,window; y: N,K,spatial.
 * Transposed: w is C,K/groups,window and the roles of x and y are exchanged;
 * the output extent is that of y in the problem.
 * wgrad: dw[k,c,r] = sum_{n,p} x[n, c, p*stride + r*dilation - pad_begin] *
 * dy[n,k,p].  The bias's gradient is KERN_REDUCE, the sum of dy over all
 * dimensions but 1.  fprop's out[1] and in[4]: kernels/bn_stats.h,
 * input_scale.h; integers: quant.h. */
struct kern_conv {
    int groups;
    int stride[KERN_MAX_SPATIAL];
    int dilation[KERN_MAX_SPATIAL];
    int pad_begin[KERN_MAX_SPATIAL];
    int pad_end[KERN_MAX_SPATIAL];
};

enum kern_pool_kind { KERN_POOL_MAX, KERN_POOL_AVERAGE };

/* Padding never wins a maximum and counts in an average only with
 * count_include_pad; the overhang that ceil mode adds never counts.  A window
 * that holds no element at all gives 0.
 * dgrad: in[1] is there for a maximum only.  Of equal elements the first in
 * row-major order takes the window's gradient; a NaN takes it from all before
 * it. */
struct kern_pool {
    enum kern_pool_kind kind;
    bool count_include_pad;
    int window[KERN_MAX_SPATIAL];
    int stride[KERN_MAX_SPATIAL];
    int dilation[KERN_MAX_SPATIAL];
    int pad_begin[KERN_MAX_SPATIAL];
    int pad_end[KERN_MAX_SPATIAL];
};

/* y = (x - mean) / sqrt(var + epsilon) * scale + shift, along dimension 1 for
 * batch norm; over dimensions axis.. for layer norm (scale and shift have the
 * shape of those); over C/groups channels and space for group norm (groups ==
 * C is instance norm).  rms: no mean is taken off (RMS norm).
 *
 * Batch norm in training takes mean and variance (that of all n elements, / n)
 * from x itself and gives out mean and 1 / sqrt(var + epsilon) for the way
 * back.  Running statistics are those of in[3], in[4] moved towards the
 * batch's: running + momentum * (batch - running), the variance as / (n - 1);
 * both there or both absent, in and out, and at launch out may be in's memory.
 * y = act(... + residual); residual_last is refused.  in[6]: bn_stats.h.
 *
 * Its dgrad undoes the same activation first: dz = dy * act'(z), known from y
 * (kern_unary_grad_from_output()) or, ReLU's, from y's signs: U8 of C / 8
 * channels, bit j of (n,i,p) being y(n, 8i + j, p) > 0; 8 divides C.  dresidual
 * is dz.  in[6] and in[7] are added to dscale and dshift and may be their
 * memory; one of dx and dresidual may be dy's. The dgrads of layer and group
 * norm take their statistics from x once more. Their dscale has x's shape: dy
 * (x - mean) / sqrt(var + epsilon), each element for itself, which KERN_REDUCE
 * then sums. */
struct kern_norm {
    float epsilon;
    float momentum; /* of running statistics, in training alone */
    int axis;
    int groups;
    bool rms;
};

/* y = x / (bias + alpha / size * sum of squares over size channels)^beta.
 * The window reaches floor((size-1)/2) channels down and ceil up (ONNX). */
struct kern_lrn {
    int size;
    float alpha, beta, bias;
};

/* Element-wise functions of one argument: kernels/unary.def defines each, its
 * parameters a and b, and its derivative. */
enum kern_unary_kind {
#define UNARY(kind, name, facts, value, derivative) kind,
#include "kernels/unary.def"
    KERN_UNARY_COUNT
};
struct kern_unary {
    enum kern_unary_kind kind;
    float a, b;
};
/* dgrad: dx = dy * f'(x).  in[1] is x, in[2] is y = f(x); one of them, y only
 * where the derivative is known from it. */
bool kern_unary_grad_from_output(const struct kern_unary *f);

/* Element-wise functions of two arguments: kernels/binary.def defines each. */
enum kern_binary_kind {
#define BINARY(kind, name, value, integer) kind,
#include "kernels/binary.def"
    KERN_BINARY_COUNT
};
struct kern_binary {
    enum kern_binary_kind kind;
};
/* True for kinds that take integers alone. */
static inline bool kern_binary_needs_integers(enum kern_binary_kind kind)
{
    return kind >= KERN_BIT_AND && kind <= KERN_SHIFT_RIGHT;
}

/* PReLU has no attributes: y = x < 0 ? slope x : x.  Its dgrad's dslope has
 * x's shape: x < 0 ? dy x : 0, which KERN_REDUCE sums where the slope was
 * broadcast. */

struct kern_softmax {
    int axis; /* 0 .. rank-1 */
    bool log;
};

enum kern_reduce_kind {
    KERN_REDUCE_MEAN,
    KERN_REDUCE_SUM,
    KERN_REDUCE_MAX,
    KERN_REDUCE_MIN,
    KERN_REDUCE_PROD,
    KERN_REDUCE_L1,
    KERN_REDUCE_L2,
    KERN_REDUCE_KIND_COUNT
};
/* Reduced dimensions keep size 1 in the problem's output tensor.
 * dgrad: in[1] is there for MAX, MIN, L1 and L2 only; PROD is refused.  Of
 * equal elements the first in row-major order takes the gradient of a maximum
 * or minimum.  Global pooling is MEAN over space; maxout is MAX over dimension
 * 2 of x seen as N,K,pieces,spatial. */
struct kern_reduce {
    enum kern_reduce_kind kind;
    uint32_t axes; /* bit i: dimension i is reduced */
};

/* Squeeze and excitation (Hu et al., 2018) without the product behind it:
 *   m[n,c] = mean over space of x[n,c,...]
 *   h[n,r] = act(sum_c w[r,c] m[n,c] + bias[r])
 *   y[n,k] = epilogue's act(sum_r w2[k,r] h[n,r] + bias2[k])
 * x: N,C,spatial; w: R,C; w2: K,R; y: N,K,1,... of x's rank. */
struct kern_squeeze_excite {
    struct kern_unary act; /* between the layers */
};

/* Two convolutions in one, the second of which has a window of one pixel:
 * kernels/chain/chain.h. */
struct kern_chain {
    struct kern_conv conv; /* the first one's */
    struct kern_unary act; /* between the two */
};

/* y = x 2^left multiplier 2^(shift - 31), rounded to an integer, plus the
 * addend, cut to low .. high.  x holds integers of 32 bits (reals are rounded
 * to them), the multiplier 0 .. 2^31 - 1, the shift -31 .. 30.  Of two
 * roundings the first is that of the product's upper half, halves up, the
 * second that of the shift to the right, halves away from zero, as in gemmlowp;
 * a shift to the left comes first and wraps, as the addition does.  Once:
 * halves up.  Wide: x 2^left + addend, below 2^47, is what is multiplied, by
 * the upper 15 bits of the multiplier, or by all where once, halves up; the
 * shift is at most 14. kernels/quant/requantize.h computes it. */
struct kern_requantize {
    int left; /* 0 .. 31 */
    int low, high;
    bool once, wide;
};

/* The axis keeps size 1 in the problem's output tensor, which is I64. */
struct kern_arg_reduce {
    int axis;
    bool min;         /* arg min instead of arg max */
    bool select_last; /* of equal elements, the last index */
};

/* gather_elements: x, indices and y have one rank, y the shape of the indices;
 * y[..i..] = x[..index[..i..]..] along the axis, and its other dimensions are
 * at most those of x. */
struct kern_gather {
    int axis; /* out = x with dimension axis replaced by indices' dims */
};

enum kern_scatter_kind {
    KERN_SCATTER_SET, /* of two updates of one element, the later one */
    KERN_SCATTER_ADD,
    KERN_SCATTER_MUL,
    KERN_SCATTER_MIN,
    KERN_SCATTER_MAX
};
/* y = x, and then for each index in row-major order y[..index[..i..]..] and
 * update[..i..] become one.  Updates have the shape of the indices, whose
 * dimensions but that of the axis are at most those of x.  Negative indices
 * count from the end. */
struct kern_scatter {
    int axis;
    enum kern_scatter_kind kind;
};

/* y[i] = the sum or product of x[0 .. i] along the axis, or of x[0 .. i - 1]
 * (0 or 1 for the first); from the other end with reverse. */
struct kern_cumulate {
    int axis;
    bool exclusive, reverse, product;
};

/* Indices along the axis of the largest or smallest elements, best first; of
 * equal elements the lower index is first, NaN counts as the largest.  The
 * output is I64; its extent along the axis says how many. */
struct kern_top_k {
    int axis;
    bool smallest;
};

enum kern_cell {
    KERN_CELL_RNN,
    KERN_CELL_GRU,
    KERN_CELL_LSTM,
    KERN_CELL_COUNT
};
/* One direction of a recurrent layer, after the products with its inputs.
 * x: N,S,G H: of each step those products, biases added; w: G H,H; gates in
 * ONNX's order (RNN i; GRU z, r, h; LSTM i, o, f, c).  With f, g, o = act[0],
 * act[1], act[2], u = w h and sums cut to -clip .. clip (0: not) before f and
 * g: RNN   h = g(x + u) GRU   z, r = f(x + u);  h = (1 - z) g(x + w (r h)) + z
 * h, or with reset_after g(x + r (u + bias)) LSTM  i, f = f(x + u + p c);  c =
 * f c + i g(x + u);  h = f(x + u + p c) o(c), where p are the peepholes (3,H:
 * i, o, f; the output's reads the new c), and with input_forget f = 1 - i h and
 * c are 0 at first unless given, N,H.  y: N,S,H, h after each step, or N,S,2H
 * with_cell: h, then c.  Steps go from the last to the first with reverse.  A
 * step at or beyond length[n], integers of N, leaves the state. */
struct kern_recurrent {
    enum kern_cell cell;
    bool reverse;
    bool reset_after;  /* GRU */
    bool input_forget; /* LSTM */
    bool with_cell;    /* LSTM */
    float clip;
    enum kern_unary_kind act[3]; /* without parameters */
};

/* Non-maximum suppression.  boxes: N,B,4, two opposite corners y,x,y,x, or with
 * `center` the middle x,y, width and height; scores: N,C,B; y: N C K,3 I64.
 * For each image and class, at most K boxes are chosen whose score is above
 * `score`, best first (of equal scores the lower index), each of which overlaps
 * none that was chosen before by more than `iou`, intersection over union.
 * Rows n,c,b in this order; those behind the last are -1. */
struct kern_nms {
    bool center;
    float iou, score;
};

enum kern_pad_mode {
    KERN_PAD_CONSTANT,
    KERN_PAD_REFLECT, /* edge not repeated */
    KERN_PAD_EDGE,
    KERN_PAD_WRAP
};
/* Negative amounts crop. */
struct kern_pad {
    enum kern_pad_mode mode;
    int begin[KERN_MAX_RANK], end[KERN_MAX_RANK];
    float value;
};

enum kern_resize_mode { KERN_NEAREST, KERN_BILINEAR, KERN_BICUBIC };
enum kern_resize_coord {
    KERN_HALF_PIXEL,
    KERN_PYTORCH_HALF_PIXEL, /* half_pixel, 0 where the output has size 1 */
    KERN_ALIGN_CORNERS,
    KERN_ASYMMETRIC,
    KERN_HALF_PIXEL_SYMMETRIC
};
enum kern_nearest_mode {
    KERN_ROUND_PREFER_FLOOR,
    KERN_ROUND_PREFER_CEIL,
    KERN_FLOOR_NEAREST,
    KERN_CEIL_NEAREST
};
/* Resizes every dimension whose scale is not 1 (ONNX Resize). */
struct kern_resize {
    enum kern_resize_mode mode; /* bilinear: linear in each dimension */
    enum kern_resize_coord coord;
    enum kern_nearest_mode nearest;
    float cubic_a;        /* -0.75 or -0.5 */
    bool exclude_outside; /* cubic: weights outside are 0, renormalised */
    bool antialias;
    float scale[KERN_MAX_RANK]; /* output / input as the model states it */
};

/* Dense has no attributes: y = x W^T + bias over the last dimension; w: K,C. */

/* Batched product over the last two dimensions, batches broadcast. */
struct kern_matmul {
    bool transpose_a, transpose_b;
    float alpha;
};

/* Scaled dot-product attention (Vaswani et al., 2017), one product a head:
 * y = softmax(scale q k^T + bias + bias) v, the softmax over the keys.
 * q: ..., M, H, D; k: ..., N, H, D; v: ..., N, H, E; y: ..., M, H, E, and each
 * bias broadcasts to ..., H, M, N.  The dimensions before M and N are equal. */
struct kern_attention {
    float scale;
};

/* Inputs of attention. */
enum {
    KERN_ATTENTION_Q,
    KERN_ATTENTION_K,
    KERN_ATTENTION_V,
    KERN_ATTENTION_BIAS, /* and the one behind it */
    KERN_ATTENTION_INPUTS = KERN_ATTENTION_BIAS + 2
};

/* ---- attributes of training ---------------------------------------- */

/* y = keep ? x / (1 - ratio) : 0.  The same numbers on every device: element i,
 * counted row-major over the logical shape, takes word i % 4 of Philox4x32-10
 * (Salmon et al., 2011) with key `seed` and counter words i / 4, stream, low
 * and high half of `offset`, and is kept where word >= ratio * 2^32.
 * random: U64[2], seed and offset, in device memory, so that KERN_STEP can move
 * on without the host.  Run on dy with the same random it is its own dgrad. */
struct kern_dropout {
    float ratio;     /* 0 .. 1, below 1 */
    uint32_t stream; /* one a layer */
};

/* logits: N,C; labels: I32 or I64 [N].  Targets are 1 - smoothing at the label
 * plus smoothing / C everywhere.
 *   loss [N] F32 = -sum over c of target * log softmax(logits), not scaled
 *   dlogits = scale * step's loss scale (1 where absent) * (softmax - target)
 *   hit [N] F32 = 1 where all logits before the label's are below it and none
 *                 behind it above, else 0
 * A label outside 0 .. C-1 gives 0 in all three: rows that only fill a batch.
 */
struct kern_cross_entropy {
    float smoothing; /* 0 .. 1 */
    float scale;     /* 1 / batch, say */
};

/* State of a training run in device memory, F32[KERN_STEP_SIZE], which
 * KERN_STEP moves on and the others read.  It starts with zeros but for the
 * loss scale. */
enum kern_step_field {
    KERN_STEP_COUNT,       /* updates made, skipped ones left out */
    KERN_STEP_LOSS_SCALE,  /* of the next cross_entropy; 1 for none */
    KERN_STEP_FACTOR,      /* what update multiplies gradients by; 0: skips */
    KERN_STEP_GOOD,        /* steps since the loss scale last changed */
    KERN_STEP_SKIPPED,     /* steps whose gradients were not finite */
    KERN_STEP_CORRECTION1, /* 1 - beta1^count */
    KERN_STEP_CORRECTION2, /* 1 - beta2^count */
    KERN_STEP_NORM,        /* of the gradients, loss scale taken out */
    KERN_STEP_SIZE
};

/* norm: F32[1], that of all scaled gradients (KERN_REDUCE L2 over the flat
 * range).  Finite: count + 1, factor = min(1, clip / norm) / loss scale, and
 * the loss scale times growth after `interval` such steps in a row.  Else:
 * factor 0, skipped + 1, loss scale times backoff.  random's offset moves on by
 * 1 in either case.  Outputs may be the memory of their inputs. */
struct kern_step {
    float clip;            /* largest norm; 0: any */
    float beta1, beta2;    /* for the corrections; 0 where not needed */
    float growth, backoff; /* 2 and 0.5; growth 1 for a fixed scale */
    float max_scale;       /* the loss scale grows up to this; 0: no limit.
                            * It never shrinks below 1. */
    int interval;          /* 2000; 0: never grows */
};

enum kern_update_kind {
    KERN_UPDATE_NONE, /* w stays: only the average moves */
    KERN_UPDATE_SGD,
    KERN_UPDATE_RMSPROP,
    KERN_UPDATE_ADAM,
    KERN_UPDATE_ADAMW,
    KERN_UPDATE_KIND_COUNT
};
/* All tensors are flat, [n]; w, m, v and average F32, dw F32 or 16 bits, rate
 * F32[1], step F32[KERN_STEP_SIZE].  As PyTorch defines them, with
 * g = dw * step's factor (1 where absent), plus decay * w but in AdamW:
 *   SGD      m = momentum * m + g (g itself without m)
 *            w -= rate * (nesterov ? g + momentum * m : m)
 *   RMSprop  v = beta2 * v + (1 - beta2) * g^2;  d = g / (sqrt v + epsilon)
 *            m = momentum * m + d (d itself without m);  w -= rate * m
 *   Adam     m = beta1 * m + (1 - beta1) * g;  v as RMSprop's
 *            w -= rate * (m / c1) / (sqrt(v / c2) + epsilon)
 *   AdamW    w -= rate * decay * w first, then Adam
 * where c1 and c2 are step's corrections, and average = average_decay * average
 * + (1 - average_decay) * w with the new w.  momentum and beta1 are one field.
 * A factor of 0 leaves everything as it was: out = in.  Outputs may be the
 * memory of their inputs.  m out where m is in, and so on; the 16-bit copy (F16
 * or BF16, what the forward pass reads) where it is wanted. */
struct kern_update {
    enum kern_update_kind kind;
    bool nesterov;
    float beta1, beta2; /* beta1: momentum, for SGD and RMSprop */
    float epsilon, decay, average_decay;
};

/* out[] of an update. */
enum {
    KERN_UPDATE_W,
    KERN_UPDATE_M,
    KERN_UPDATE_V,
    KERN_UPDATE_AVERAGE,
    KERN_UPDATE_COPY
};

union kern_attr {
    struct kern_conv conv;
    struct kern_pool pool;
    struct kern_norm norm;
    struct kern_lrn lrn;
    struct kern_unary unary;
    struct kern_binary binary;
    struct kern_requantize requantize;
    struct kern_softmax softmax;
    struct kern_reduce reduce;
    struct kern_squeeze_excite squeeze_excite;
    struct kern_chain chain;
    struct kern_arg_reduce arg_reduce;
    struct kern_gather gather;
    struct kern_scatter scatter;
    struct kern_cumulate cumulate;
    struct kern_top_k top_k;
    struct kern_nms nms;
    struct kern_recurrent recurrent;
    struct kern_pad pad;
    struct kern_resize resize;
    struct kern_matmul matmul;
    struct kern_attention attention;
    struct kern_dropout dropout;
    struct kern_cross_entropy cross_entropy;
    struct kern_step step;
    struct kern_update update;
};

/* What is applied to a result before it is stored.
 * y = act(acc + bias + residual), or act(acc + bias) + residual where
 * residual_last.  The residual has y's shape; at launch it may be y's own
 * buffer where their strides are equal, which spares rows that add in place a
 * copy.  Operations that know it: conv, chain, conv_transpose, dense,
 * batch_norm, batch_norm in training, scale_shift, binary, pool, squeeze and
 * attention (act only), and those with +dx or +dw (residual only). */
struct kern_epilogue {
    struct kern_unary act; /* KERN_IDENTITY for none */
    bool residual_last;
};

/* Scales and zero points of a layer on integers of 8 bits (quant.h): a value is
 * scale times (integer - zero point).  0 of what is not there. */
struct kern_quant {
    float x_scale, y_scale, residual_scale;
    int x_zero, y_zero, residual_zero;
};

/* ---- problems ------------------------------------------------------ */

struct kern_problem {
    enum kern_op op;
    int n_in, n_out;
    struct kern_tensor in[KERN_MAX_IN];
    struct kern_tensor out[KERN_MAX_OUT];
    uint32_t constant_in; /* bit i: in[i] is known when planning */
    union kern_attr attr;
    struct kern_epilogue epilogue;
    struct kern_quant quant;
    bool deterministic;
    bool allow_tf32; /* products of F32 may be rounded to TF32 */
};

/* Checks that the shapes, types and attributes of a problem fit together: what
 * holds for every kernel, whatever its own limits.  The sizes of all tensors
 * are known not to overflow afterwards.  0, or INFER_EUNSUPPORTED with the
 * reason in *why (may be NULL). */
int kern_problem_check(const struct kern_problem *p, struct infer_error *why);
/* Multiply-adds times two; 0 where the notion does not fit. */
double kern_problem_flops(const struct kern_problem *p);
/* Every input read once plus every output written once. */
double kern_problem_bytes(const struct kern_problem *p);
/* One line for people: "conv_fprop mb1ic64ih56oc64oh56kh3ph1 nhwc F32".
 * Returns buf. */
const char *kern_problem_format(const struct kern_problem *p, char *buf,
                                size_t bytes);

/* ---- devices ------------------------------------------------------- */

enum kern_device_kind { KERN_CPU, KERN_CUDA };

struct kern_device {
    enum kern_device_kind kind;
    int ordinal;
    int sm;              /* compute capability times ten; 0 on a CPU */
    int threads;         /* CPU threads a launch may use, >= 1 */
    int multiprocessors; /* 0 on a CPU, as are all that follow */
    size_t shared_per_block_optin; /* bytes, with the opt-in attribute */
    size_t l2_bytes;
};

/* ---- rows ---------------------------------------------------------- */

enum {
    KERN_NONDETERMINISTIC = 1u << 0, /* two runs may differ in rounding */
    KERN_STRIDED = 1u << 1,          /* takes any strides, out included */
    KERN_INEXACT = 1u << 2,  /* not exact on small integers (Winograd, FFT) */
    KERN_TF32 = 1u << 3,     /* rounds F32 factors to TF32: allow_tf32 only */
    KERN_BASELINE = 1u << 4, /* for comparison: plans of inference take it
                              * where no other row can be taken */
    KERN_ROUNDS_BIAS = 1u << 5,   /* the bias, to the type of the output */
    KERN_BN_STATS = 1u << 6,      /* knows partial statistics (bn_stats.h) */
    KERN_INPUT_SCALE = 1u << 7,   /* knows a scale of its input
                                   * (input_scale.h) */
    KERN_QUANT = 1u << 8,         /* for 8 bits with scales (quant.h) */
    KERN_PRODUCT_TABLE = 1u << 9, /* multiplies with a table of products
                                   * (problem.h), if it is there */
    KERN_SHORT_SUMS = 1u << 10    /* parts of KERN_SHORT_TERMS products at most
                                   * are summed in fewer bits than acc has */
};

#define KERN_SHORT_TERMS 128

struct kern_row;

#define KERN_VARIANT_NAME 64

/* A prepared problem: everything that can be done before data exists. */
struct kern_exec {
    const struct kern_row *row;
    struct kern_problem problem;
    int variant;      /* as asked of kern_prepare_variant() */
    unsigned flags;   /* the row's, and what prepare() adds for a variant */
    void *state;      /* the row's own; NULL where it needs none */
    size_t workspace; /* bytes that launch() needs; 64-byte aligned */
    /* What the variant is, for people and to know it again ("" where a row has
     * but one): "eng47 k2=1", say. */
    char variant_name[KERN_VARIANT_NAME];
    /* Where not 0, launch() wants constant input i repacked by pack(): that
     * many bytes, 64-byte aligned. */
    size_t packed[KERN_MAX_IN];
};

struct kern_args {
    const void *in[KERN_MAX_IN]; /* NULL where absent; packed where asked */
    void *out[KERN_MAX_OUT];
    void *workspace;
    void *stream; /* cudaStream_t, NULL on a CPU */
};

/* What a kernel does.  One may serve several rows. */
struct kern_functions {
    /* 0, or INFER_EUNSUPPORTED with the reason in *why (may be NULL). */
    int (*supports)(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why);
    /* Optional.  Rough microseconds for a problem that the row supports, to
     * choose among rows of one backend without measuring: the lowest wins,
     * rows without come in the order of the table. */
    double (*estimate)(const struct kern_problem *p,
                       const struct kern_device *d);
    /* Optional.  Ways in which the row can compute a problem that it supports
     * (engines of a vendor's library, say), the one it holds for the best
     * first: at least 1, or a negative code.  One problem has the same
     * variants in the same order as long as device and libraries stay. */
    int (*variants)(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err);
    /* Optional, of rows whose variants are many (tiles).  As estimate(), of one
     * variant; that of variant 0 is estimate()'s. */
    double (*estimate_variant)(const struct kern_problem *p,
                               const struct kern_device *d, int variant);
    /* Optional.  Fills e->state, e->workspace, e->packed and, in rows with
     * variants, e->variant_name; adds to e->flags.  Another variant than 0 may
     * turn out to be EUNSUPPORTED. */
    int (*prepare)(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err);
    /* Repacks constant input i from the layout of the problem.  Runs on the
     * CPU for every backend: src and dst are host memory.  Equal weights become
     * equal bytes, so that plans can share them: a CPU's row writes all of dst,
     * a GPU's finds zeros there and may leave them. */
    int (*pack)(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err);
    /* Runs.  Never allocates, never synchronises.  Thread-safe for one e
     * as long as workspace and outputs differ.  An output may be the memory
     * of an input of the same strides and element size if kernels/ops.def
     * says so (.in_place), and of the residual everywhere. */
    int (*launch)(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err);
    /* Optional.  Releases e->state. */
    void (*release)(struct kern_exec *e);
};

/* Begins the definition of the functions that a line of kernels.def names.  The
 * declaration gives them C's linkage in CUDA files, so that no file of kernels
 * includes the table: a new row does not compile the others again. */
#ifdef __cplusplus
#define KERN_FUNCTIONS(name)                                                   \
    extern "C" const struct kern_functions name;                               \
    const struct kern_functions name
#else
#define KERN_FUNCTIONS(name)                                                   \
    extern const struct kern_functions name;                                   \
    const struct kern_functions name
#endif

/* What a kernel is: one line of kernels.def. */
struct kern_row {
    const char *name;
    enum kern_op op;
    enum infer_backend backend;
    enum kern_layout layout; /* of activations; what KERN_STRIDED prefers */
    enum infer_dtype dtype;  /* of activations; INFER_NONE: any */
    enum infer_dtype acc;    /* accumulator */
    int min_sm;              /* 0 on a CPU */
    unsigned flags;
    const struct kern_functions *fn;
};

/* Lets a program that compares kernels use further rows, which follow those of
 * kernels.def.  Called at most once, before anything else uses the table. */
void kern_rows_add(const struct kern_row *row, size_t n);
/* All rows of this build, in the order of kernels.def. */
size_t kern_row_count(void);
const struct kern_row *kern_row_at(size_t i);
/* NULL where no row has the name. */
const struct kern_row *kern_row_find(const char *name);

/* Runs row->fn->supports() after the checks that hold for all rows (op,
 * kern_problem_check(), backend present on the device, dtype, minimum SM,
 * deterministic, TF32). */
int kern_row_supports(const struct kern_row *row, const struct kern_problem *p,
                      const struct kern_device *d, struct infer_error *why);

/* How many variants a row has for a problem that it supports: 1 where it has
 * no choice.  Negative on failure.  To be measured from 0 to count - 1; those
 * whose preparation says EUNSUPPORTED are passed over. */
int kern_variants(const struct kern_row *row, const struct kern_problem *p,
                  const struct kern_device *d, struct infer_error *err);

/* prepare/release through the row; kern_release() accepts a zeroed exec.
 * kern_prepare() takes variant 0. */
int kern_prepare(const struct kern_row *row, const struct kern_problem *p,
                 const struct kern_device *d, struct infer_error *err,
                 struct kern_exec *out);
/* EUNSUPPORTED where the row has no such variant. */
int kern_prepare_variant(const struct kern_row *row,
                         const struct kern_problem *p,
                         const struct kern_device *d, int variant,
                         struct infer_error *err, struct kern_exec *out);
void kern_release(struct kern_exec *e);

#ifdef __cplusplus
}
#endif

#endif
