/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one step: chains that become one, whose results do not change,
 * and chains that stay as they are. */
#include "tests/unit/runtime/network.h"

#include <math.h>

#include "libinfer/session.h"

/* ---- networks ------------------------------------------------------ */

struct net {
    struct graph *g;
    uint64_t state;
    int x; /* input: 2 x 12 x 72 */
};

static struct net begin(uint64_t seed)
{
    struct net n = {graph_new(), seed, 0};

    assert_non_null(n.g);
    n.x = input(n.g, "x", DIMS(-1, 12, 72));
    return n;
}

static int reshape(struct net *n, int x, int rank, const int64_t *dim)
{
    int node, v = add(n->g, GRAPH_RESHAPE, NULL, IN(x), &node);

    n->g->node[node].attr.dims.n = rank;
    memcpy(n->g->node[node].attr.dims.dim, dim, (size_t)rank * sizeof dim[0]);
    return v;
}

static int transpose(struct net *n, int x, int rank, const int64_t *order)
{
    int node, v = add(n->g, GRAPH_TRANSPOSE, NULL, IN(x), &node);

    n->g->node[node].attr.dims.n = rank;
    memcpy(n->g->node[node].attr.dims.dim, order,
           (size_t)rank * sizeof order[0]);
    return v;
}

static int number(struct net *n, float value)
{
    struct constant *c = constant_new(INFER_F32, 0, NULL);

    assert_non_null(c);
    *(float *)(void *)c->data = value;
    return graph_add_constant(n->g, NULL, c);
}

/* Part i of three along the last dimension of x as heads: -1 x 3 x 12 x 8,
 * keys 3 x 8 x 12. */
static int heads(struct net *n, int i)
{
    int in[] = {n->x}, node, out[3], v;

    for (int k = 0; k < 3; k++)
        out[k] = graph_add_value(n->g, NULL);
    node = graph_add_node(n->g, GRAPH_SPLIT, NULL, in, 1, out, 3);
    assert_true(node >= 0);
    n->g->node[node].attr.split.axis = 2;
    v = reshape(n, out[i], DIMS(-1, 12, 3, 8));
    return i == 1 ? transpose(n, v, DIMS(0, 2, 3, 1))
                  : transpose(n, v, DIMS(0, 2, 1, 3));
}

static int multiply(struct net *n, int a, int b)
{
    return add(n->g, GRAPH_MATMUL, NULL, IN(a, b), NULL);
}

static int softmax(struct net *n, int x)
{
    int node, v = add(n->g, GRAPH_SOFTMAX, NULL, IN(x), &node);

    n->g->node[node].attr.axis.axis = -1;
    return v;
}

static int scores(struct net *n)
{
    return multiply(n, heads(n, 0), heads(n, 1));
}

/* The rest of the chain: the heads side by side again, and what follows. */
static void finish(struct net *n, int s, bool activation)
{
    int y = multiply(n, softmax(n, s), heads(n, 2));

    y = transpose(n, y, DIMS(0, 2, 1, 3));
    y = reshape(n, y, DIMS(-1, 12, 24));
    if (activation)
        y = add_unary(n->g, NULL, y, KERN_HARD_SWISH);
    graph_add_output(n->g, add_binary(n->g, "y", y, y, KERN_ADD));
}

/* ---- checking ------------------------------------------------------ */

/* Runs the network with its nodes as they are, which keeps all values, and with
 * chains as steps, of which there must be `fused`. */
static void check(struct net *n, int fused)
{
    struct infer_model *model = model_of(n->g);
    struct infer_array in = array_of(&n->state, DIMS(4, 12, 72)), y[2];
    struct infer_session *s[2];

    for (int i = 0; i < 2; i++) {
        s[i] = session_of(model, INFER_BACKEND_REF, i == 0);
        y[i] = run(s[i], &in, 1, 0);
        int steps = 0;
        for (int k = 0; k < s[i]->plan[0]->steps.n; k++)
            steps +=
                s[i]->plan[0]->steps.at[k]->exec.problem.op == KERN_ATTENTION;
        assert_int_equal(steps, i == 0 ? 0 : fused);
    }
    assert_close(&y[1], &y[0], 1e-6);
    for (int i = 0; i < 2; i++) {
        infer_session_close(&s[i]);
        free(y[i].data);
    }
    free((void *)in.data);
    infer_model_close(&model);
}

/* ---- chains that become steps -------------------------------------- */

TEST(test_plain)
{
    struct net n = begin(3);

    finish(&n, scores(&n), false);
    check(&n, 1);
}

/* The scale before or after the product, as factor or divisor; a bias; an
 * activation behind the moves. */
TEST(test_scale_and_bias)
{
    for (int i = 0; i < 4; i++) {
        struct net n = begin(5 + (uint64_t)i);
        int s;

        if (i < 2) {
            s = add_binary(n.g, NULL, scores(&n), number(&n, i ? 0.25f : 4),
                           i ? KERN_MUL : KERN_DIV);
        } else {
            int f[2] = {heads(&n, 0), heads(&n, 1)};

            f[i - 2] =
                add_binary(n.g, NULL, number(&n, 0.5f), f[i - 2], KERN_MUL);
            s = multiply(&n, f[0], f[1]);
        }
        if (i != 3)
            s = add_binary(n.g, NULL, s,
                           weights(n.g, &n.state, DIMS(1, 3, 12, 12)),
                           KERN_ADD);
        finish(&n, s, true);
        check(&n, 1);
    }
}

/* Windows: a bias of the heads, then one of the windows of a picture. */
TEST(test_windows)
{
    struct net n = begin(11);
    int s = add_binary(n.g, NULL, weights(n.g, &n.state, DIMS(3, 12, 12)),
                       scores(&n), KERN_ADD);

    s = reshape(&n, s, DIMS(-1, 2, 3, 12, 12));
    s = add_binary(n.g, NULL, s, weights(n.g, &n.state, DIMS(1, 2, 1, 12, 12)),
                   KERN_ADD);
    s = reshape(&n, s, DIMS(-1, 3, 12, 12));
    finish(&n, s, false);
    check(&n, 1);
}

/* Without heads, and keys as rows. */
TEST(test_one_head)
{
    struct net n = begin(13);
    int node, s = add(n.g, GRAPH_MATMUL, NULL, IN(n.x, n.x), &node);

    n.g->node[node].attr.matmul.transpose_b = true;
    n.g->node[node].attr.matmul.alpha = 0.125f;
    graph_add_output(n.g, multiply(&n, softmax(&n, s), n.x));
    check(&n, 1);
}

/* Two chains, one of which reads the other's result. */
TEST(test_two)
{
    struct net n = begin(17);
    const int x = multiply(&n, softmax(&n, scores(&n)), heads(&n, 2));
    const int y =
        multiply(&n, softmax(&n, multiply(&n, x, heads(&n, 1))), heads(&n, 2));

    graph_add_output(n.g, y);
    check(&n, 2);
}

/* ---- chains that stay ---------------------------------------------- */

/* Scores, weights, or both that others read; a softmax over queries; a bias
 * that is scaled; a bias of windows in front of one of all. */
TEST(test_left_alone)
{
    for (int i = 0; i < 5; i++) {
        struct net n = begin(19 + (uint64_t)i);
        int s = scores(&n), w;

        if (i == 0)
            graph_add_output(n.g, s);
        if (i == 3) {
            s = add_binary(n.g, NULL, s,
                           weights(n.g, &n.state, DIMS(3, 12, 12)), KERN_ADD);
            s = add_binary(n.g, NULL, s, number(&n, 0.5f), KERN_MUL);
        }
        if (i == 4) {
            s = reshape(&n, s, DIMS(-1, 2, 3, 12, 12));
            s = add_binary(n.g, NULL, s,
                           weights(n.g, &n.state, DIMS(2, 1, 12, 12)),
                           KERN_ADD);
            s = reshape(&n, s, DIMS(-1, 3, 12, 12));
            s = add_binary(n.g, NULL, s,
                           weights(n.g, &n.state, DIMS(4, 3, 12, 12)),
                           KERN_ADD);
        }
        w = softmax(&n, s);
        if (i == 1)
            graph_add_output(n.g, w);
        if (i == 2)
            n.g->node[n.g->n_nodes - 1].attr.axis.axis = 2;
        graph_add_output(n.g, multiply(&n, w, heads(&n, 2)));
        check(&n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_scale_and_bias),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_one_head),
        cmocka_unit_test(test_two),     cmocka_unit_test(test_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
