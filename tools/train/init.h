/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of the parameters. */
#ifndef TOOLS_TRAIN_INIT_H
#define TOOLS_TRAIN_INIT_H

#include "tools/train/net/net.h"

enum init_scheme {
    INIT_AUTO,    /* KAIMING where there is batch norm, else PYTORCH */
    INIT_PYTORCH, /* uniform within 1 / sqrt(fan in), biases too */
    INIT_KAIMING, /* convolutions normal, deviation sqrt(2 / fan out), as
                   * torchvision's ResNet; dense layers as PYTORCH */
    INIT_XAVIER   /* uniform within sqrt(6 / (fan in + fan out)), biases 0 */
};
extern const char *const init_names[]; /* NULL-terminated, in that order */

/* Sets all parameters by seed and scheme. */
int init_random(struct net *n, enum init_scheme scheme, uint64_t seed,
                struct infer_error *err);

/* Number of parameters that a file gave, and why others were left. */
struct init_report {
    int taken, left;
    char first[128]; /* first one left, and the reason */
};
/* Copies parameters of equal name and shape from another network.  EFORMAT if
 * no weight of a convolution or dense layer is among them. */
int init_from_graph(struct net *n, const struct graph *from,
                    struct infer_error *err, struct init_report *report);

#endif
