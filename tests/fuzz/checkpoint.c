/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a checkpoint, the CRC of its header repaired, for a network of
 * one layer.  A refused file must leave the network as it was. */
#include "tools/train/checkpoint.h"

#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/header.h"
#include "tools/train/init.h"
#include "weights/arch/build.h"

static struct device cpu;
static struct net *net;

static void make_network(void)
{
    const struct net_options options = {
        .device = &cpu,
        .backend = INFER_BACKEND_REF,
        .dtype = INFER_F32,
        .batch = 1,
        .accumulate = 1,
        .update = true,
        .momentum = true,
        .rule = {.kind = KERN_UPDATE_SGD, .beta1 = 0.9f}};
    struct arch_build b;
    struct infer_error err = {0};
    struct graph *g = NULL;
    int x;

    arch_build_begin(&b, "net", NULL);
    x = arch_flatten(&b, arch_image_input(&b, 1, 2, 2, NULL));
    x = arch_dense(&b, "fc", x, 4, 2);
    if (arch_build_end(&b, x, &g) < 0 ||
        device_open("cpu", 1, NULL, &err, &cpu) < 0 ||
        net_new(g, &options, &err, &net) < 0 ||
        init_random(net, INIT_PYTORCH, 1, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static int judge(const struct checkpoint_info *info, void *user,
                 struct infer_error *err)
{
    (void)user, (void)err;
    if (info->step < 0 || info->batch < 0)
        abort();
    return 0;
}

static void read_weights(float *to)
{
    struct infer_error err;

    if (net_read_flat(net, NET_WEIGHTS, to, &err) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size + 1);
    struct checkpoint_info info;
    struct infer_error err;
    char path[128], *kernels = NULL;
    float *before, *after;
    size_t bytes;

    if (net == NULL)
        make_network();
    bytes = net_flat_bytes(net, NET_WEIGHTS);
    before = malloc(bytes);
    after = malloc(bytes);
    if (!copy || !before || !after)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    header_repair(copy, size);
    folder_open();
    folder_put("c", copy, size);
    folder_file("c", path);
    read_weights(before);
    if (fuzz_tell(checkpoint_read(path, net, judge, NULL, &err, &info), &err,
                  0) < 0) {
        read_weights(after);
        if (memcmp(before, after, bytes) != 0)
            abort();
    }
    if (checkpoint_kernels(path, &err, &kernels) == 0)
        free(kernels);
    folder_remove("c");
    folder_close();
    free(copy);
    free(before);
    free(after);
    return 0;
}
