/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: operators whose inputs are all known are computed while the
 * file is imported, at each probe: what becomes of shapes.
 *
 * There is no arithmetic here.  The operator is imported into a graph of its
 * own, whose inputs are constants, and that graph runs on the reference
 * backend.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "weights/evaluate.h"
#include "weights/tflite/tflite.h"

/* Elements of all inputs; larger tensors go into the graph, where the passes
 * find them. */
#define MAX_ELEMENTS 4096
#define MAX_OUTPUTS  64
#define MAX_INPUTS   64
/* Each costs a session: networks have dozens. */
#define MAX_FOLDS 1024
/* Of each (evaluate.h). */
#define MAX_WORK 1e7
#define MAX_LIVE ((uint64_t)16 << 20)

/* Operators that know of constants, or need none; those of variables, and those
 * that take networks. */
static bool by_itself(int code)
{
    return code == 6 || code == 114 || code == 77 || code == 96 ||
           code == 110 || code == 119 || code == 124 || code == 145 ||
           (code >= 142 && code <= 144) || code == 129 || code == 27 ||
           code == 118 || code == 206;
}

static bool can_fold(struct tflite_import *im)
{
    int64_t count = 0;

    if (!im->row->import || by_itself(im->op.code) || im->op.n_in < 1 ||
        im->op.n_in > MAX_INPUTS || im->op.n_out > MAX_OUTPUTS ||
        im->folds >= MAX_FOLDS)
        return false;
    for (int i = 0; i < im->op.n_in; i++) {
        if (!tflite_has(im, i))
            continue;
        const struct constant *c = tflite_known(im, i, 0);
        if (!c)
            return false;
        count += constant_count(c);
    }
    for (int o = 0; o < im->op.n_out; o++) {
        const struct tflite_tensor t = tflite_output_tensor(im, o);
        if (tflite_is_quantised(&t))
            return false;
    }
    return im->status == 0 && count <= MAX_ELEMENTS;
}

static bool inputs_fixed(struct tflite_import *im)
{
    for (int i = 0; i < im->op.n_in; i++)
        if (tflite_has(im, i) && !tflite_fixed(im, i))
            return false;
    return true;
}

/* Runs the graph, which it takes over, and reads its outputs in order. */
static bool run(struct graph *g, struct constant **out, int n)
{
    static const struct weights_limits most = {MAX_LIVE, MAX_WORK};
    bool all = weights_run_constants(g, &most, n, out, NULL) == 0;

    for (int i = 0; i < n && all; i++)
        all = out[i] != NULL;
    return all;
}

/* ---- a graph of its own -------------------------------------------- */

/* What the import sets aside meanwhile. */
struct aside {
    struct graph *g;
    struct graph_type (*type)[TFLITE_PROBES];
    int types_capacity, probes, first_node;
    bool freed_batch;
    size_t constant_bytes;
    struct tflite_value in[MAX_INPUTS], out[MAX_OUTPUTS];
};

/* Inputs become what they are at one probe. */
static void set_aside(struct tflite_import *im, int probe, struct aside *a)
{
    a->g = im->g;
    a->type = im->type;
    a->types_capacity = im->types_capacity;
    a->probes = im->probes;
    a->first_node = im->first_node;
    a->freed_batch = im->freed_batch;
    a->constant_bytes = im->constant_bytes;
    im->g = graph_new();
    im->type = NULL;
    im->types_capacity = 0;
    im->probes = 1;
    im->first_node = 0;
    im->freed_batch = false;
    im->folding = true;
    for (int o = 0; o < im->op.n_out; o++)
        a->out[o] = im->value[tflite_output_index(im, o)];
    for (int i = 0; i < im->op.n_in; i++)
        if (tflite_has(im, i))
            a->in[i] = im->value[tflite_input_index(im, i)];
    for (int i = 0; i < im->op.n_in; i++) {
        if (!tflite_has(im, i))
            continue;
        struct tflite_value *v = &im->value[tflite_input_index(im, i)];
        v->plain = v->swapped = v->weight = -1;
        for (int p = 0; p < TFLITE_PROBES; p++)
            v->known[p] = a->in[i].known[probe];
    }
    if (!im->g)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
}

static void put_back(struct tflite_import *im, const struct aside *a)
{
    for (int i = 0; i < im->op.n_in; i++)
        if (tflite_has(im, i))
            im->value[tflite_input_index(im, i)] = a->in[i];
    for (int o = 0; o < im->op.n_out; o++) {
        struct tflite_value *v = &im->value[tflite_output_index(im, o)];

        /* What became known meanwhile. */
        for (int p = 0; p < TFLITE_PROBES; p++)
            if (v->known[p] != a->out[o].known[p])
                constant_unref(v->known[p]);
        *v = a->out[o];
    }
    free(im->type);
    im->g = a->g;
    im->type = a->type;
    im->types_capacity = a->types_capacity;
    im->probes = a->probes;
    im->first_node = a->first_node;
    im->freed_batch = a->freed_batch;
    im->constant_bytes = a->constant_bytes;
    im->folding = false;
}

/* Outputs of the graph in the file's order; an input that is passed on becomes
 * a value of its own. */
static void add_outputs(struct tflite_import *im)
{
    for (int o = 0; o < im->op.n_out && im->status == 0; o++) {
        int v = tflite_tensor_value(im, tflite_output_index(im, o), false);
        if (v >= 0 && im->g->value[v].producer < 0)
            v = tflite_plain_unary(im, v, KERN_IDENTITY);
        if (v >= 0 && graph_add_output(im->g, v) < 0)
            tflite_fail(im, INFER_EMEMORY, "out of memory");
    }
}

/* Whether what the graph's nodes make is within what constants may take. */
static bool is_small(struct tflite_import *im)
{
    size_t sum = 0;

    for (int v = 0; v < im->g->n_values; v++) {
        const struct graph_type *t = tflite_value_type(im, v, 0);
        const size_t bytes = array_bytes(t->dtype, t->rank, t->dim);

        if (im->g->value[v].producer < 0)
            continue;
        if (bytes > im->max_constant_bytes - im->constant_bytes - sum)
            return false;
        sum += bytes;
    }
    return true;
}

/* 1: out[] is filled; 0: it does not run; -1: refused. */
static int compute(struct tflite_import *im, int probe, struct constant **out)
{
    struct graph *g;
    struct aside a;
    bool small;

    set_aside(im, probe, &a);
    if (im->status == 0)
        im->row->import(im, im->row->param);
    add_outputs(im);
    small = im->status == 0 && is_small(im);
    g = im->g;
    put_back(im, &a);
    if (im->status < 0) {
        graph_free(g);
        return -1;
    }
    if (!small) {
        graph_free(g);
        return 0;
    }
    return run(g, out, im->op.n_out) ? 1 : 0;
}

int tflite_fold(struct tflite_import *im)
{
    struct constant *out[TFLITE_PROBES][MAX_OUTPUTS] = {{NULL}};
    struct constant *known[TFLITE_PROBES];
    bool once;
    int rc = 1;

    if (!can_fold(im))
        return im->status < 0 ? -1 : 0;
    /* Each output fills a tensor of its own that nothing has filled. */
    for (int o = 0; o < im->op.n_out; o++)
        for (int k = 0; k <= o; k++)
            if (im->value[tflite_output_index(im, k)].state != TFLITE_UNKNOWN ||
                (k < o &&
                 tflite_output_index(im, k) == tflite_output_index(im, o)))
                return tflite_fail(im, INFER_EFORMAT,
                                   "its output is produced twice");
    im->folds++;
    once = inputs_fixed(im);
    for (int p = 0; p < TFLITE_PROBES && rc > 0; p++) {
        if (p == 0 || (p < im->probes && !once)) {
            rc = compute(im, p, out[p]);
            continue;
        }
        for (int o = 0; o < im->op.n_out; o++)
            out[p][o] = constant_ref(out[0][o]);
    }
    for (int o = 0; o < im->op.n_out; o++) {
        for (int p = 0; p < TFLITE_PROBES; p++)
            known[p] = out[p][o];
        if (rc > 0)
            tflite_out_known(im, o, known);
        else
            for (int p = 0; p < TFLITE_PROBES; p++)
                constant_unref(known[p]);
    }
    return im->status < 0 ? -1 : rc;
}
