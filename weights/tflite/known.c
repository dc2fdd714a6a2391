/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: numbers that are known while importing, whatever the
 * elements of tensors are: shapes and what is computed from them. */
#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* ---- SHAPE and RANK ------------------------------------------------ */

/* What they compute is known, whatever the tensor's elements are. */
void tflite_import_shape(struct tflite_import *im, int of_rank)
{
    struct constant *known[TFLITE_PROBES] = {NULL};
    struct tflite_tensor out;
    enum infer_dtype to;

    if (!tflite_arity(im, 1, 1))
        return;
    out = tflite_output_tensor(im, 0);
    to = out.type == TFLITE_INT64 ? INFER_I64 : INFER_I32;
    for (int p = 0; p < TFLITE_PROBES; p++) {
        const struct graph_type t = tflite_type(im, 0, p < im->probes ? p : 0);
        const int64_t n = t.rank;
        known[p] = tflite_constant_new(im, to, of_rank ? 0 : 1, &n);
        if (!known[p])
            break;
        for (int d = 0; d < t.rank && !of_rank; d++)
            scalar_store_i64(to, known[p]->data, d, t.dim[d]);
        if (of_rank)
            scalar_store_i64(to, known[p]->data, 0, t.rank);
    }
    tflite_out_known(im, 0, known);
}

/* ---- RANGE and BROADCAST_ARGS -------------------------------------- */

/* Inputs 0 .. n - 1 at a probe; false where one is computed at run time. */
static bool all_known(struct tflite_import *im, int n, int probe,
                      const struct constant **in)
{
    for (int i = 0; i < n && im->status == 0; i++) {
        in[i] = tflite_known(im, i, probe < im->probes ? probe : 0);
        if (!in[i])
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "input %d must be constant, but is computed at run "
                        "time",
                        i);
    }
    return im->status == 0;
}

/* The numbers from in[0] to below in[1] in steps of in[2]. */
static struct constant *range(struct tflite_import *im,
                              const struct constant *const in[3])
{
    const enum infer_dtype type = in[0]->dtype;
    double v[3];
    struct constant *c;
    int64_t count;

    for (int i = 0; i < 3; i++) {
        if (constant_count(in[i]) != 1 || in[i]->dtype != type) {
            tflite_fail(im, INFER_EFORMAT,
                        "start, limit and delta must be numbers of one type");
            return NULL;
        }
        v[i] = scalar_load(type, in[i]->data, 0);
    }
    if (!checked_steps(v[0], v[1], v[2], &count)) {
        tflite_fail(im, INFER_EFORMAT, "steps of %g from %g to %g", v[2], v[0],
                    v[1]);
        return NULL;
    }
    c = tflite_constant_new(im, type, 1, &count);
    for (int64_t k = 0; c && k < count; k++)
        scalar_store(type, c->data, k, v[0] + (double)k * v[2]);
    return c;
}

/* The shape that two shapes are broadcast to. */
static struct constant *broadcast(struct tflite_import *im,
                                  const struct constant *const in[2])
{
    const int64_t n[2] = {constant_count(in[0]), constant_count(in[1])};
    const int64_t rank = n[0] > n[1] ? n[0] : n[1];
    const enum infer_dtype type = in[0]->dtype;
    struct constant *c;

    if (!scalar_is_integer(type) || in[1]->dtype != type ||
        rank > INFER_MAX_RANK) {
        tflite_fail(im, INFER_EFORMAT,
                    "two shapes must be integers of one "
                    "type");
        return NULL;
    }
    c = tflite_constant_new(im, type, 1, &rank);
    for (int64_t d = 0; c && d < rank; d++) {
        int64_t size[2];

        for (int i = 0; i < 2; i++)
            size[i] = d < rank - n[i] ? 1
                                      : scalar_load_i64(type, in[i]->data,
                                                        d - (rank - n[i]));
        if (size[0] != size[1] && size[0] != 1 && size[1] != 1)
            tflite_fail(im, INFER_EFORMAT, "sizes %lld and %lld do not fit",
                        (long long)size[0], (long long)size[1]);
        scalar_store_i64(type, c->data, d, size[size[0] == 1]);
    }
    return c;
}

void tflite_import_known(struct tflite_import *im, int is_range)
{
    const int n = is_range ? 3 : 2;
    struct constant *known[TFLITE_PROBES] = {NULL};
    const struct constant *first[3], *in[3];
    bool same;

    if (!tflite_arity(im, n, n))
        return;
    for (int p = 0; p < TFLITE_PROBES && all_known(im, n, p, in); p++) {
        same = p > 0;
        for (int i = 0; i < n; i++) {
            same = same && in[i] == first[i];
            first[i] = p == 0 ? in[i] : first[i];
        }
        known[p] = same       ? constant_ref(known[0])
                   : is_range ? range(im, in)
                              : broadcast(im, in);
    }
    tflite_out_known(im, 0, known);
}
