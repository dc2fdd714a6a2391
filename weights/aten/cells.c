/* SPDX-License-Identifier: Apache-2.0 */
/* lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell: one step of a layer, and
 * embedding_bag, which sums rows of a table. */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* ---- cells --------------------------------------------------------- */

static struct pb_span sum_of(struct onnx_import *im, struct pb_span a,
                             struct pb_span b)
{
    return ATEN_STEP(im, "Add", NULL, a, b);
}

static struct pb_span product(struct onnx_import *im, struct pb_span a,
                              struct pb_span b)
{
    return ATEN_STEP(im, "Mul", NULL, a, b);
}

/* x w^T + b, of parameters of these names. */
static struct pb_span gates_of(struct onnx_import *im, struct pb_span x,
                               const char *weight, const char *bias)
{
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && aten_rank(im, x) != 2)
        onnx_fail(im, INFER_EUNSUPPORTED, "a step of rank %d",
                  aten_rank(im, x));
    aten_set_int(&a, "transB", 1);
    return ATEN_STEP(im, "Gemm", &a, x, aten_tensor(im, weight),
                     aten_optional(im, bias));
}

/* Gate i of N,gates hidden. */
static struct pb_span gate(struct onnx_import *im, struct pb_span x, int i,
                           int64_t hidden)
{
    return aten_cut(im, x, 1, i * hidden, (i + 1) * hidden);
}

/* The state's width; the gates are that many parts of it. */
static int64_t width_of(struct onnx_import *im, struct pb_span gates, int parts)
{
    const int64_t size = aten_dim(im, gates, 1);

    if (im->rc == 0 && (size < 1 || size % parts != 0))
        onnx_fail(im, INFER_EFORMAT, "%lld gates in %d parts", (long long)size,
                  parts);
    return size / parts;
}

/* i, f, g, o: c' = f c + i g, h' = o tanh(c'). */
int aten_lstm_cell(struct onnx_import *im)
{
    struct pb_span state[2] = {aten_no_input(), aten_no_input()}, part[4], x, c;
    int64_t hidden;

    if (im->rc == 0 && aten_tensors(im, "hx", 2, state) != 2)
        return onnx_fail(im, INFER_EFORMAT, "a state without its two parts");
    x = sum_of(im, gates_of(im, aten_tensor(im, "input"), "w_ih", "b_ih"),
               gates_of(im, state[0], "w_hh", "b_hh"));
    hidden = width_of(im, x, 4);
    for (int i = 0; i < 4; i++)
        part[i] = ATEN_STEP(im, i == 2 ? "Tanh" : "Sigmoid", NULL,
                            gate(im, x, i, hidden));
    c = sum_of(im, product(im, part[1], state[1]),
               product(im, part[0], part[2]));
    ATEN_LAST(im, "Mul", NULL, part[3], ATEN_STEP(im, "Tanh", NULL, c));
    return aten_same(im, 1, c);
}

/* r, z, n: n = tanh(x_n + r h_n), h' = n + z (h - n). */
int aten_gru_cell(struct onnx_import *im)
{
    const struct pb_span h = aten_tensor(im, "hx");
    const struct pb_span x =
        gates_of(im, aten_tensor(im, "input"), "w_ih", "b_ih");
    const struct pb_span y = gates_of(im, h, "w_hh", "b_hh");
    const int64_t hidden = width_of(im, x, 3);
    struct pb_span part[2], n;

    for (int i = 0; i < 2; i++)
        part[i] = ATEN_STEP(
            im, "Sigmoid", NULL,
            sum_of(im, gate(im, x, i, hidden), gate(im, y, i, hidden)));
    n = ATEN_STEP(im, "Tanh", NULL,
                  sum_of(im, gate(im, x, 2, hidden),
                         product(im, part[0], gate(im, y, 2, hidden))));
    return ATEN_LAST(im, "Add", NULL, n,
                     product(im, part[1], ATEN_STEP(im, "Sub", NULL, h, n)));
}

int aten_rnn_cell(struct onnx_import *im)
{
    return ATEN_LAST(
        im, aten_row(im)->onnx, NULL,
        sum_of(im, gates_of(im, aten_tensor(im, "input"), "w_ih", "b_ih"),
               gates_of(im, aten_tensor(im, "hx"), "w_hh", "b_hh")));
}

/* ---- bags ---------------------------------------------------------- */

/* The one size of all bags, which begin at 0, n, 2 n, ... of the indices at
 * every probe; 0 where the file tells none. */
static int64_t bag_size(struct onnx_import *im, struct pb_span indices,
                        struct pb_span offsets, bool end)
{
    const struct onnx_small *const *small = onnx_small_named(im, offsets);
    int64_t n = 0;

    if (!small)
        return 0;
    for (int p = 0; p < im->probes; p++) {
        const int64_t *at = small[p]->i;
        const int64_t bags = (int64_t)small[p]->count - end;
        const struct graph_type t = onnx_type_named(im, indices, p);

        if (!at || bags < 1 || t.rank != 1 || t.dim[0] % bags != 0 ||
            (p > 0 && t.dim[0] / bags != n))
            return 0;
        n = t.dim[0] / bags;
        for (int64_t i = 0; i < bags + end; i++)
            if (at[i] != i * n)
                return 0;
    }
    return n;
}

/* 0 sum, 1 mean, 2 max of the rows that each bag names.  padding_idx -1 is
 * the table's last row in embedding_bag (param 1), and none in the others. */
int aten_embedding_bag(struct onnx_import *im)
{
    static const char *const reduce[] = {"ReduceSum", "ReduceMean",
                                         "ReduceMax"};
    const int64_t mode = aten_int(im, "mode", 0);
    const struct pb_span table = aten_tensor(im, "weight");
    const struct pb_span indices = aten_tensor(im, "indices");
    const struct pb_span factors = aten_optional(im, "per_sample_weights");
    const int64_t n = bag_size(im, indices, aten_tensor(im, "offsets"),
                               aten_flag(im, "include_last_offset", false));
    struct aten_attrs a = {.n = 0};
    struct pb_span y;

    if (im->rc < 0)
        return im->rc;
    if (mode < 0 || mode > 2 || n < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "bags of different sizes, or of sizes that the file "
                         "does not state");
    if (aten_row(im)->param ? aten_has(im, "padding_idx")
                            : aten_int(im, "padding_idx", -1) != -1)
        return onnx_fail(im, INFER_EUNSUPPORTED, "bags with padding");
    y = ATEN_STEP(im, "Gather", NULL, table, indices);
    if (factors.bytes)
        y = product(
            im, y,
            ATEN_STEP(im, "Unsqueeze", NULL, factors, aten_list1(im, 1)));
    y = ATEN_STEP(im, "Reshape", NULL, y,
                  aten_list(im, 3, (int64_t[]){-1, n, aten_dim(im, table, 1)}));
    aten_set_int(&a, "keepdims", 0);
    return ATEN_LAST(im, reduce[mode], &a, y, aten_list1(im, 1));
}
