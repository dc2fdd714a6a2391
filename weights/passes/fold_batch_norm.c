/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold-batch-norm: at inference batch normalisation is a scale and a shift a
 * channel, a = scale / sqrt(var + epsilon) and b = shift - mean * a.
 *
 * It goes into the convolution, transposed convolution or dense layer before
 * it where that layer's output has no other reader; else into the one after it
 * where that is exact (zero pads); else it becomes a scale_shift node, which
 * has two arrays instead of four.
 */
#include "weights/passes/pass.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/scalar.h"

/* Inputs 1 to 4 are constants of C elements; scale and shift may be
 * absent. */
static bool has_statistics(const struct pass *p, const struct graph_node *n,
                           int64_t *channels)
{
    const struct constant *var = pass_constant(p, n, 4);

    if (!var)
        return false;
    *channels = constant_count(var);
    for (int i = 1; i <= 3; i++) {
        const struct constant *c = pass_constant(p, n, i);

        if (!c && (i == 3 || pass_input(n, i) >= 0))
            return false;
        if (c && constant_count(c) != *channels)
            return false;
    }
    return *channels > 0;
}

static double element(const struct constant *c, int64_t i, double otherwise)
{
    return c ? scalar_load(c->dtype, c->data, i) : otherwise;
}

/* False where the statistics give no finite result: the node then stays and
 * the network computes what it always did. */
static bool scale_and_shift(const struct pass *p, const struct graph_node *n,
                            int64_t channels, double *a, double *b)
{
    const struct constant *scale = pass_constant(p, n, 1);
    const struct constant *shift = pass_constant(p, n, 2);
    const struct constant *mean = pass_constant(p, n, 3);
    const struct constant *var = pass_constant(p, n, 4);

    for (int64_t c = 0; c < channels; c++) {
        double v = element(var, c, 1) + (double)n->attr.norm.epsilon;

        a[c] = element(scale, c, 1) / sqrt(v);
        b[c] = element(shift, c, 0) - element(mean, c, 0) * a[c];
        if (!isfinite(a[c]) || !isfinite(b[c]))
            return false;
    }
    return true;
}

/* Weight bytes that the four arrays take. */
static int64_t statistics_bytes(const struct pass *p,
                                const struct graph_node *n)
{
    int64_t bytes = 0;

    for (int i = 1; i <= 4; i++) {
        const struct constant *c = pass_constant(p, n, i);

        if (c)
            bytes += (int64_t)c->bytes;
    }
    return bytes;
}

static int fold_before(struct pass *p, int node, int64_t channels,
                       const double *a, const double *b)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    int before = g->value[n->in[0]].producer;
    int64_t bytes = statistics_bytes(p, n);
    int axis, rc;

    if (before < 0 || pass_reader(p, n->in[0]) != node ||
        pass_residual(n) >= 0 ||
        pass_output_channels(p, before, &axis) != channels || axis != 1)
        return 0;
    /* The bias is new weight where the layer had none. */
    if (pass_input(&g->node[before], 2) < 0)
        bytes -= (int64_t)infer_dtype_size(g->value[n->in[4]].dtype) * channels;
    rc = pass_scale_outputs(p, before, channels, a, b);
    if (rc <= 0)
        return rc;
    pass_note(p, bytes, "%s into %s", g->node[node].name, g->node[before].name);
    g->node[before].epilogue = g->node[node].epilogue;
    pass_absorb(p, before, node);
    return 1;
}

static int fold_after(struct pass *p, int node, int64_t channels,
                      const double *a, const double *b)
{
    struct graph *g = p->g;
    struct graph_node *n = &g->node[node];
    int after = pass_reader(p, n->out[0]);
    int64_t bytes = statistics_bytes(p, n);
    int rc;

    if (after < 0 || !pass_plain(n) || g->node[after].in[0] != n->out[0])
        return 0;
    /* Dense takes its channels from the last dimension. */
    if (g->node[after].op == GRAPH_DENSE && g->value[n->in[0]].rank != 2)
        return 0;
    rc = pass_scale_inputs(p, after, channels, a, b);
    if (rc <= 0)
        return rc;
    rc = pass_set_input(p, after, 0, g->node[node].in[0]);
    if (rc < 0)
        return rc;
    pass_note(p, bytes, "%s into %s after it", g->node[node].name,
              g->node[after].name);
    pass_kill(p, node);
    return 1;
}

static int to_scale_shift(struct pass *p, int node, int64_t channels,
                          const double *a, const double *b)
{
    struct graph *g = p->g;
    enum infer_dtype dtype = g->value[g->node[node].in[4]].dtype;
    struct kern_epilogue epilogue = g->node[node].epilogue;
    int64_t bytes = statistics_bytes(p, &g->node[node]);
    int residual = pass_residual(&g->node[node]);
    int in[4] = {g->node[node].in[0], -1, -1, residual};
    int rc;

    if (!pass_fits(dtype, channels, a) || !pass_fits(dtype, channels, b))
        return 0;
    in[1] =
        pass_add_vector(p, g->node[node].name, ".scale", dtype, channels, a);
    if (in[1] < 0)
        return in[1];
    in[2] =
        pass_add_vector(p, g->node[node].name, ".shift", dtype, channels, b);
    if (in[2] < 0)
        return in[2];
    rc = pass_become(p, node, GRAPH_SCALE_SHIFT, in, residual >= 0 ? 4 : 3);
    if (rc < 0)
        return rc;
    g->node[node].epilogue = epilogue;
    pass_note(p, bytes - 2 * (int64_t)infer_dtype_size(dtype) * channels,
              "%s becomes scale and shift", g->node[node].name);
    return 1;
}

static int fold(struct pass *p, int node, int64_t channels, double *a,
                double *b)
{
    int rc;

    if (!scale_and_shift(p, &p->g->node[node], channels, a, b))
        return 0;
    rc = fold_before(p, node, channels, a, b);
    if (rc == 0)
        rc = fold_after(p, node, channels, a, b);
    if (rc == 0)
        rc = to_scale_shift(p, node, channels, a, b);
    return rc;
}

int pass_fold_batch_norm(struct pass *p, int node)
{
    int64_t channels;
    double *ab;
    int rc;

    if (p->g->node[node].op != GRAPH_BATCH_NORM ||
        !has_statistics(p, &p->g->node[node], &channels))
        return 0;
    ab = malloc((size_t)channels * 2 * sizeof(*ab));
    if (!ab)
        return pass_no_memory(p);
    rc = fold(p, node, channels, ab, ab + channels);
    free(ab);
    return rc;
}
