/* SPDX-License-Identifier: Apache-2.0 */
/* What rules.c gives to fold.c: an operator on small tensors. */
#ifndef WEIGHTS_ONNX_FOLD_FOLD_H
#define WEIGHTS_ONNX_FOLD_FOLD_H

#include "weights/onnx/onnx.h"

/* One node at one probe.  in[i] is NULL where the input is absent. */
struct fold {
    struct onnx_import *im;
    const struct onnx_small *const *in;
    int n_in;
    int probe;
    int param; /* of the operator's rule */
};

struct fold_rule {
    const char *op;
    /* Results as in small.h. */
    int (*fold)(const struct fold *f, struct onnx_small **out);
    int param;
};

/* NULL where the operator has no rule. */
const struct fold_rule *fold_rule_find(const char *op);

#endif
