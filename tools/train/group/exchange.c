/* SPDX-License-Identifier: Apache-2.0 */
/* Whether and through what processes can exchange arrays. */
#include "config.h"

#include "tools/train/group/exchange.h"

#include "kernels/base/error.h"
#ifdef HAVE_NCCL
#include "kernels/cuda/cuda_rt.h"
#endif

#ifdef HAVE_NCCL

int exchange_check(const struct group *g, struct infer_error *err)
{
    int count = 0;
    int rc = cuda_device_count(err, &count);

    if (rc == 0 && count < g->local_size)
        rc = error_set(err, INFER_EDEVICE,
                       "%d GPUs were asked for, but this machine has %d",
                       g->local_size, count);
    return rc < 0 ? rc : exchange_nccl_check(err);
}

int exchange_open(struct group *g, const struct device *d,
                  struct infer_error *err, struct exchange **out)
{
    return exchange_nccl_open(g, d, err, out);
}

#else

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
