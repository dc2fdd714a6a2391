/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how processes exchange arrays. */
#include "config.h"

#include "tools/train/group/exchange.h"

#include "kernels/base/error.h"

#ifndef HAVE_NCCL

int exchange_check(const struct group *g, struct infer_error *err)
{
    (void)g;
    return error_set(err, INFER_EDEVICE,
                     "this build trains on one GPU at a time: several need "
                     "CUDA and NCCL's header (configure --with-nccl)");
}

int exchange_open(struct group *g, const struct device *d,
                  struct infer_error *err, struct exchange **out)
{
    (void)d;
    (void)out;
    return exchange_check(g, err);
}

#endif

void exchange_close(struct exchange *x)
{
    if (x)
        x->ops->close(x);
}
