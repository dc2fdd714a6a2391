/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of wconv. */
#ifndef TOOLS_WCONV_WCONV_H
#define TOOLS_WCONV_WCONV_H

#include "tools/cli.h"
#include "tools/emit/emit.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/quantize/equalize.h"
#include "weights/quantize/quantize.h"
#include "weights/weights.h"

/* Preprocessing from the options. */
struct wconv_preprocess {
    bool given; /* an option of preprocessing was given */
    struct graph_preprocess stored;
    int means, stds; /* numbers of values; 0: option not given */
    bool resized;    /* --resize, or a preset that has it */
    bool by_preset;  /* the latter */
    int64_t crop[2]; /* height and width; 0: not given */
    int fill;        /* --fill; negative: not given */
};

/* --list-passes and so on. */
enum wconv_list {
    WCONV_NO_LIST,
    WCONV_LIST_PASSES,
    WCONV_LIST_OPS,
    WCONV_LIST_ARCHS,
    WCONV_LIST_FORMATS
};

/* The request of the command line. */
struct wconv_request {
    const char *in, *out;
    const char *emit_c; /* C file to write; NULL: none */
    struct weights_options weights;
    struct weights_input_shape shape[16];
    struct weights_input_type type[16];
    struct weights_input_value value[16];
    struct pass_options passes;
    enum wconv_list list;     /* prints this list and ends */
    double bn_eps;            /* of every batch norm; < 0: as it is */
    const char *disabled[64]; /* NULL-terminated; words of disabled_text */
    char *disabled_text;
    enum infer_dtype dtype; /* of stored weights; INFER_NONE: as they are */
    struct wconv_preprocess preprocess;
    const char *labels;
    const char *task; /* NULL: told by the outputs */
    const char *name;
    bool verify;
    const char *verify_reference; /* .npz, or NULL: against the graph as read */
    bool verify_on_reference;     /* both sides run on the reference */
    bool tolerance;               /* one of these was given */
    double atol, rtol;
    int quantize;          /* 0: no, 1: int8, 2: fp8 */
    const char *calibrate; /* samples; NULL: not given */
    int calib;             /* enum quantize_method */
    bool calib_given;
    const char *keep_float; /* layers that stay; NULL: none */
    double agreement;       /* least per cent of equal top classes */
    const char *evaluate;   /* samples to judge by; NULL: those of calibrate */
    double min_sqnr;        /* least dB of the outputs; < 0: any */
    double max_drop;        /* most points of accuracy lost; < 0: any */
    bool equalize;          /* channels between layers, first */
    const char *multiplier; /* to store; "none"; NULL: as the file has it */
    const char *multiplier_exact; /* layers that do without; NULL: none */
};

/* Main programs of the subcommands: argv[0] is the subcommand's word. */
int wconv_convert(int argc, char **argv);
int wconv_inspect(int argc, char **argv);
int wconv_diff(int argc, char **argv);
/* Prints one list. */
void wconv_print_list(enum wconv_list which, bool as_json);

/* ---- preprocess.c -------------------------------------------------- */

void wconv_preprocess_init(struct wconv_preprocess *p);
/* Setters of options (struct cli_option) of struct wconv_request. */
int wconv_set_preset(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user);
int wconv_set_mean(struct cli *cli, const struct cli_option *o,
                   const char *value, void *user);
int wconv_set_std(struct cli *cli, const struct cli_option *o,
                  const char *value, void *user);
int wconv_set_resize(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user);
int wconv_set_crop(struct cli *cli, const struct cli_option *o,
                   const char *value, void *user);
/* Stores the preprocessing of the first input.  EARGUMENT if the number of
 * values is not that of the channels or the crop not the size of the input; a
 * free extent becomes that of the crop. */
int wconv_preprocess_store(struct wconv_preprocess *p, struct graph *g,
                           struct infer_error *err);

/* ---- multiplier.c -------------------------------------------------- */

/* Stores --multiplier and --multiplier-exact in the graph. */
int wconv_store_multiplier(const struct wconv_request *request, struct graph *g,
                           struct infer_error *err);
/* "mbm-7: floating point of 7 mantissa bits, CRC-32 0865c209; exact: first";
 * of integers their bits.  Returns buf; false: the graph has no multiplier, or
 * its table cannot be read. */
bool wconv_multiplier_words(const struct graph *g, char *buf, size_t bytes);

/* Prints a line that begins with `what`: what the first input expects of
 * pictures and, in brackets, who says so, or that 0 to 1 is assumed.  Nothing
 * where that input is no picture (N,C,H,W with 1 or 3 channels). */
void wconv_print_pictures(const struct graph *g, const char *what,
                          const char *source);
/* The same of what its outputs are. */
void wconv_print_task(const struct graph *g, const char *what,
                      const char *source);

/* Compares the outputs of two graphs on random inputs, or of one graph with the
 * recorded arrays of an .npz (inputs and outputs by name). */
struct wconv_verdict {
    double max_abs, max_rel;  /* largest |a-b|, and that over max |b| */
    char worst[128];          /* output and values of the largest difference */
    int64_t elements, finite; /* of all outputs; finite ones */
};
int wconv_verify(const struct graph *converted, const struct graph *original,
                 const struct wconv_request *request, struct cli *cli,
                 struct infer_error *err, struct wconv_verdict *out);

/* ---- quantize.c ---------------------------------------------------- */

/* A quantised network beside the one in floats. */
struct wconv_verdict_quantized {
    /* dB of the network's outputs, of the worst of them; before a softmax that
     * makes it, and behind integers of the floats that they come from. */
    double sqnr;
    bool measured;   /* false: no output comes from floats */
    int agree, rows; /* images with the same top class, of how many */
    /* Right top classes in floats and quantised, of how many. */
    int right[2], labelled;
};

/* What --quantize did and what it costs. */
struct wconv_quantized {
    struct quantizer *quantizer;
    struct equalizer *equalizer; /* NULL: not equalised */
    enum infer_dtype dtype;      /* INFER_I8 or INFER_F8E4M3 */
    /* The float network, which holds the layers' names, and that before its
     * channels were equalised, or NULL. */
    struct graph *before, *unequalised;
    const struct quantize_layer *layer;
    double *sqnr; /* dB at the output of each layer */
    /* dB of the outputs with this layer alone quantised; NaN: not measured */
    double *alone;
    int n_layers, samples;
    const struct equalize_pair *pair;
    int n_pairs;
    struct wconv_verdict_quantized verdict;
    char note[256]; /* of the samples; "": nothing to say */
};
/* Quantises the graph, whose passes have run, with the samples of the request.
 * EMISMATCH: with --verify, the top class differs too often; --min-sqnr or
 * --max-drop cannot be kept.  The caller clears *out, which starts zeroed, in
 * any case. */
int wconv_quantize(struct graph *g, const struct wconv_request *request,
                   struct cli *cli, struct wconv_quantized *out,
                   struct infer_error *err);
void wconv_quantized_clear(struct wconv_quantized *q);
void wconv_print_quantized(const struct cli *cli,
                           const struct wconv_quantized *q);
void wconv_quantized_json(cJSON *json, const struct wconv_quantized *q);

/* ---- report.c ------------------------------------------------------ */

/* The report of a conversion, as text or JSON on standard output. */
struct wconv_summary {
    const struct weights_import *import;
    const struct graph *graph;
    const struct pass_report *passes;
    int nodes_before;
    uint64_t bytes_before, bytes_after;
    size_t weight_bytes_after;
    const struct wconv_verdict *verdict;     /* NULL: not verified */
    const struct wconv_quantized *quantized; /* NULL: not quantised */
    const struct emit_summary *emitted;      /* NULL: no C file */
    double seconds;
};
void wconv_report(const struct cli *cli, const struct wconv_request *request,
                  const struct wconv_summary *summary);

/* ---- inputs.c ------------------------------------------------------ */

/* Values of --input-shape, --input-type and --input-value; names and numbers
 * are the request's. */
int wconv_add_shape(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user);
int wconv_add_type(struct cli *cli, const struct cli_option *o,
                   const char *value, void *user);
int wconv_add_value(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user);
void wconv_clear_inputs(struct wconv_request *r);
/* Applies the shapes, checks the types and that each value was used.  script:
 * the file is TorchScript. */
int wconv_set_inputs(struct graph *g, const struct wconv_request *r,
                     bool script, struct infer_error *err);

/* A node without its operation and name: shapes of its weights, attributes that
 * are not the defaults, what is fused into it.  Returns buf. */
const char *wconv_node_words(const struct graph *g, const struct graph_node *n,
                             char *buf, size_t bytes);
/* Bytes of all constants of a graph. */
size_t wconv_weight_bytes(const struct graph *g);
/* "1x3x224x224"; a dimension that is free until a run is N (the first, which is
 * the batch) or "?".  Returns buf. */
const char *wconv_format_shape(int rank, const int64_t *dim, char *buf,
                               size_t bytes);

#endif
