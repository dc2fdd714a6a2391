/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the network of a run. */
#include "tools/train/network.h"

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/train/checkpoint.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

/* Reads a network without folding or fusing. */
static int simplify(struct graph *g, struct infer_error *err)
{
    static const char *const off[] = {"fold-scale", "fuse-activation",
                                      "fuse-residual", "remove-identity", NULL};
    struct pass_options options;
    struct pass_report report;
    int rc = graph_compact(g, err);

    if (rc == 0)
        rc = graph_validate(g, err);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    if (rc < 0)
        return rc;
    pass_options_init(&options);
    pass_report_init(&report);
    options.keep_training = true;
    options.disabled = off;
    rc = weights_run_passes(g, &options, &report, err);
    pass_report_clear(&report);
    return rc;
}

int train_read_network(const char *path, const char *arch,
                       struct infer_error *err, struct graph **out)
{
    struct weights_options options;
    struct weights_import import;
    struct graph *g = NULL;
    int rc;

    weights_options_init(&options);
    options.partial = true; /* the caller reports what is left out */
    options.bare = arch != NULL;
    options.unroll = true;
    rc = weights_read(path, &options, err, &import);
    if (rc < 0)
        return rc;
    if (import.graph) {
        g = import.graph;
        import.graph = NULL;
        rc = simplify(g, err);
    } else if (!arch) {
        rc = error_set(err, INFER_EARGUMENT,
                       "holds bare weights: name their network with --arch");
    } else {
        rc = arch_open(arch, &import.dict, err, &g);
        if (rc == 0)
            rc = weights_bind(g, &import.dict, &options, err);
    }
    weights_import_clear(&import);
    if (rc < 0) {
        graph_free(g);
        error_prefix(err, "%s", path);
        return rc;
    }
    *out = g;
    return 0;
}

int train_resumed_network(const char *path, struct infer_error *err,
                          struct graph **out)
{
    int rc = checkpoint_graph(path, err, out);

    if (rc == 0 && !*out)
        rc = error_set(err, INFER_EARGUMENT,
                       "does not describe its network: name it with --arch");
    /* An error of opening the file names it already. */
    if (rc < 0 && !text_begins(err->text, path))
        error_prefix(err, "%s", path);
    return rc;
}

int train_open_network(const char *arch, int classes, const char *weights,
                       struct infer_error *err, struct graph **out)
{
    const struct arch_row *row = arch ? arch_find(arch) : NULL;

    if (row)
        return row->build(row, classes, err, out);
    return arch ? arch_open(arch, NULL, err, out)
                : train_read_network(weights, NULL, err, out);
}
