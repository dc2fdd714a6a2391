/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of wconv. */
#ifndef TOOLS_WCONV_H
#define TOOLS_WCONV_H

#include "tools/cli.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

/* Everything one conversion was asked for. */
struct wconv_request {
    const char *in, *out;
    struct weights_options weights;
    struct weights_input_shape shape[16];
    struct pass_options passes;
    const char *disabled[64]; /* NULL-terminated; words of disabled_text */
    char *disabled_text;
    enum infer_dtype dtype; /* of stored weights; INFER_NONE: as they are */
    /* Stored preprocessing; set says whether any of it was asked for. */
    bool preprocess_set;
    struct graph_preprocess preprocess;
    const char *labels;
    const char *name;
    bool verify;
    const char *verify_reference; /* .npz, or NULL: against the graph as read */
    double atol, rtol;
};

/* Something that can be inspected or compared: a model file, a network in any
 * format, bare weights, or a built-in architecture. */
struct wconv_subject {
    const char *path;
    struct graph *graph;          /* NULL for bare weights */
    struct weights_import import; /* zeroed where not read by weights_read */
    uint64_t bytes;               /* of the files */
};
int wconv_subject_open(const char *path, const struct weights_options *options,
                       struct infer_error *err, struct wconv_subject *out);
void wconv_subject_close(struct wconv_subject *subject);

/* Main programs of the subcommands: argv[0] is the subcommand's word. */
int wconv_convert(int argc, char **argv);
int wconv_inspect(int argc, char **argv);
int wconv_diff(int argc, char **argv);
/* --list-ops, --list-passes, --list-archs, --list-formats. */
void wconv_list_ops(void);
void wconv_list_passes(void);
void wconv_list_archs(void);
void wconv_list_formats(void);

/* Labels of a text file, one a line ("n01440764 tench, ..." loses its synset)
 * into the graph. */
int wconv_read_labels(const char *path, struct graph *g,
                      struct infer_error *err);

/* Compares what two graphs compute on random inputs, or one graph with the
 * recorded arrays of an .npz (inputs and outputs by name). */
struct wconv_verdict {
    double max_abs, max_rel; /* largest |a-b|, and that over max |b| */
    char worst[128];         /* output and position of the largest difference */
    double seconds;
};
int wconv_verify(const struct graph *converted, const struct graph *original,
                 const struct wconv_request *request, struct cli *cli,
                 struct infer_error *err, struct wconv_verdict *out);

/* What the conversion did, as text on standard output, or as JSON. */
struct wconv_summary {
    const struct weights_import *import;
    const struct graph *graph;
    const struct pass_report *passes;
    int nodes_before;
    uint64_t bytes_before, bytes_after;
    size_t weight_bytes_after;
    const struct wconv_verdict *verdict; /* NULL: not verified */
    double seconds;
};
void wconv_report(const struct cli *cli, const struct wconv_request *request,
                  const struct wconv_summary *summary);

/* Bytes of all constants of a graph. */
size_t wconv_weight_bytes(const struct graph *g);
/* "1x3x224x224"; a free dimension is N (the first) or ?.  Returns buf. */
const char *wconv_format_shape(int rank, const int64_t *dim, char *buf,
                               size_t bytes);

#endif
