/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: products of matrices, and attention. */
#include <math.h>

#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

static int product(struct ncnn *n, const char *role, int a, int b,
                   bool transpose_b, float alpha)
{
    union graph_attr attr = layers_defaults(GRAPH_MATMUL);
    const int in[2] = {a, b};

    attr.matmul.transpose_b = transpose_b;
    attr.matmul.alpha = alpha;
    return layers_emit(&n->b, GRAPH_MATMUL, role, &attr, in, 2);
}

void ncnn_matmul(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int a = layers_rank(&n->b, ends->in[0]);
    const int b = layers_rank(&n->b, ends->in[1]);

    (void)arg;
    if (n->b.status == 0 && (a < 3 || a != b))
        layers_fail(&n->b, INFER_EUNSUPPORTED, "inputs of %d and %d dimensions",
                    a - 1, b - 1);
    ends->out[0] = product(n, "", ends->in[0], ends->in[1],
                           ncnn_int(n, 0, 0, 1, 0) != 0, 1);
}

/* ---- Gemm ---------------------------------------------------------- */

/* A matrix of the file, of rows x columns, as the weight of a dense layer. */
static int dense_weight(struct ncnn *n, const char *suffix, bool transpose,
                        int64_t rows, int64_t columns)
{
    static const int swap[] = {1, 0};
    const int64_t dim[2] = {rows, columns}, other[2] = {columns, rows};
    struct constant *data, *made;

    if (!transpose)
        return ncnn_weight(n, suffix, true, 2, dim);
    if (n->weights == NULL)
        return layers_unbound(&n->b, suffix, 2, other);
    data = ncnn_data(n, suffix, true, 2, dim);
    if (data == NULL)
        return n->b.status;
    made = constant_transpose(data, swap);
    constant_unref(data);
    return layers_constant(&n->b, suffix, made);
}

/* The constant C, as it broadcasts to M,N; -1 where there is none. */
static int constant_addend(struct ncnn *n, int64_t columns)
{
    const int64_t rows = ncnn_int(n, 7, 0, INT32_MAX, 0);
    const int kind = ncnn_int(n, 10, -1, 4, 0);
    int64_t dim[2] = {1, 1};

    if (ncnn_int(n, 6, 0, 1, 0) == 0 || kind == -1)
        return -1;
    if (kind == 1 || kind == 2 || kind == 3)
        dim[0] = rows;
    if (kind == 3 || kind == 4)
        dim[1] = columns;
    if (dim[0] < 1) {
        layers_fail(&n->b, INFER_EFORMAT, "an addend of no rows");
        return -1;
    }
    return ncnn_weight(n, "addend", true, 2, dim);
}

/* alpha A B + beta C, where B is the file's. */
void ncnn_gemm(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int options[] = {2, 4, 11, 12, 13, 14, 18};
    const int64_t k = ncnn_int(n, 9, 0, INT32_MAX, 0);
    const int64_t outputs = ncnn_int(n, 8, 0, INT32_MAX, 0);
    const float alpha = ncnn_float(n, 0, 1), beta = ncnn_float(n, 1, 1);
    const bool transposed = ncnn_int(n, 3, 0, 1, 0) != 0;
    int in[2] = {ends->in[0], -1}, y, c;

    (void)arg;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (ncnn_int(n, options[i], 0, INT32_MAX, 0) != 0) {
            layers_fail(&n->b, INFER_EUNSUPPORTED,
                        "parameter %d is not supported", options[i]);
            return;
        }
    if (ncnn_int(n, 5, 0, 1, 0) == 0 || outputs < 1 || k < 1 ||
        layers_rank(&n->b, in[0]) != 3) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a product of computed matrices, or of %d dimensions",
                    layers_rank(&n->b, in[0]) - 1);
        return;
    }
    in[1] = dense_weight(n, "weight", !transposed, transposed ? outputs : k,
                         transposed ? k : outputs);
    y = layers_emit(&n->b, GRAPH_DENSE, "", NULL, in, 2);
    if (alpha < 1 || alpha > 1)
        y = layers_unary(&n->b, "alpha", y, KERN_LINEAR, alpha, 0);
    c = ends->n_in == 2 ? ncnn_spread(n, ends->in[1], y)
                        : constant_addend(n, outputs);
    if (c >= 0 && (beta < 1 || beta > 1))
        c = layers_unary(&n->b, "beta", c, KERN_LINEAR, beta, 0);
    ends->out[0] = c < 0 ? y : layers_binary(&n->b, "sum", KERN_ADD, y, c);
}

/* ---- attention ----------------------------------------------------- */

static const struct {
    const char *weight, *bias, *heads, *role;
} parts[] = {{"q.weight", "q.bias", "q.heads", "q"},
             {"k.weight", "k.bias", "k.heads", "k"},
             {"v.weight", "v.bias", "v.heads", "v"},
             {"out.weight", "out.bias", "out.heads", "out"}};

/* Dense layer i: its weights come next in the file. */
static int project(struct ncnn *n, int i, int x, int64_t outputs,
                   int64_t inputs)
{
    const int64_t shape[2] = {outputs, inputs};
    int in[3] = {x, -1, -1};

    in[1] = ncnn_weight(n, parts[i].weight, true, 2, shape);
    in[2] = ncnn_weight(n, parts[i].bias, false, 1, &outputs);
    return layers_emit(&n->b, GRAPH_DENSE, parts[i].role, NULL, in, 3);
}

/* N,S,H D to N,H,S,D */
static int split(struct ncnn *n, int i, int x, int64_t heads)
{
    static const int64_t order[4] = {0, 2, 1, 3};
    const int64_t dim[4] = {0, 0, heads, -1};

    x = layers_dims(&n->b, GRAPH_RESHAPE, parts[i].heads, x, 4, dim);
    return layers_dims(&n->b, GRAPH_TRANSPOSE, parts[i].heads, x, 4, order);
}

/* A mask that is a matrix serves all heads. */
static int mask_of(struct ncnn *n, int mask)
{
    const int64_t axis = 1;

    return layers_rank(&n->b, mask) == 3
               ? layers_dims(&n->b, GRAPH_UNSQUEEZE, "mask", mask, 1, &axis)
               : mask;
}

void ncnn_attention(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int64_t back[4] = {0, 2, 1, 3}, flat[3] = {0, 0, -1};
    const int64_t embed = ncnn_int(n, 0, 1, INT32_MAX, 1);
    const int64_t heads = ncnn_int(n, 1, 1, INT32_MAX, 1);
    const int64_t size = ncnn_int(n, 2, 0, INT32_MAX, 0);
    const int64_t width[3] = {size / embed,
                              ncnn_int(n, 3, 1, INT32_MAX, (int)embed),
                              ncnn_int(n, 4, 1, INT32_MAX, (int)embed)};
    const bool masked = ncnn_int(n, 5, 0, 1, 0) != 0;
    const int64_t share = embed / heads;
    const float scale = ncnn_float(n, 6, (float)(1 / sqrt((double)share)));
    const int given = ends->n_in - (masked ? 1 : 0);
    union graph_attr attr = layers_defaults(GRAPH_SOFTMAX);
    int x[3], y;

    (void)arg;
    if (n->b.status < 0)
        return;
    if (embed % heads != 0 || size % embed != 0 || given < 1 || given > 3 ||
        ncnn_int(n, 7, 0, 1, 0) != 0 || ncnn_int(n, 18, 0, INT32_MAX, 0) != 0) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "%lld values in %lld heads, %d inputs, a cache of keys, or "
                    "integers",
                    (long long)embed, (long long)heads, given);
        return;
    }
    for (int i = 0; i < 3; i++) {
        x[i] = ends->in[i < given ? i : given - 1];
        if (layers_rank(&n->b, x[i]) != 3) {
            layers_fail(&n->b, INFER_EUNSUPPORTED, "an input of %d dimensions",
                        layers_rank(&n->b, x[i]) - 1);
            return;
        }
        x[i] = split(n, i, project(n, i, x[i], embed, width[i]), heads);
    }
    y = product(n, "scores", x[0], x[1], true, scale);
    if (masked)
        y = layers_binary(&n->b, "masked", KERN_ADD, y,
                          mask_of(n, ends->in[ends->n_in - 1]));
    attr.axis.axis = 3;
    y = layers_emit(&n->b, GRAPH_SOFTMAX, "softmax", &attr, &y, 1);
    y = product(n, "values", y, x[2], false, 1);
    y = layers_dims(&n->b, GRAPH_TRANSPOSE, "joined", y, 4, back);
    y = layers_dims(&n->b, GRAPH_RESHAPE, "joined", y, 3, flat);
    ends->out[0] = project(n, 3, y, width[0], embed);
}
