/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libinfer: run an optimised convolutional network on images or arrays.
 *
 * The order of use is: open a model, create a session on it, run the session
 * as often as you like, close both.
 *
 *     struct infer_error err;
 *     struct infer_model *model;
 *     struct infer_session *session;
 *
 *     if (infer_model_open("net.infer", &err, &model) < 0 ||
 *         infer_session_create(model, NULL, &err, &session) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 *
 * Rules that hold for every function here:
 *
 * - Functions that can fail return 0 or a negative INFER_E* code, and then
 *   fill *err unless it is NULL.  They never print, exit or abort.
 * - Out-parameters come last and are written only on success.
 * - A model may be shared by any number of threads.  A session may be used by
 *   one thread at a time; create one session for each thread.
 * - Shapes are logical N,C,H,W (or N,C,L; N,C,D,H,W; N,C) whatever layout the
 *   kernels use inside.  Arrays that cross this interface are dense and
 *   row-major in that order.
 */
#ifndef INFER_H
#define INFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Highest number of dimensions of any tensor. */
#define INFER_MAX_RANK 8

/* ---- status -------------------------------------------------------- */

enum infer_status {
    INFER_OK = 0,
    INFER_EARGUMENT = -1,    /* the caller broke a rule of this header */
    INFER_EUNSUPPORTED = -2, /* valid, but outside what is implemented */
    INFER_EFORMAT = -3,      /* a file or graph is malformed */
    INFER_EIO = -4,          /* the operating system refused a read or write */
    INFER_EMEMORY = -5,      /* out of host or device memory, or over a cap */
    INFER_EDEVICE = -6,  /* a device or vendor library failed or is absent */
    INFER_EMISMATCH = -7 /* two results that must agree do not */
};

/* Error report.  The text is complete in itself: it names the file, the node
 * or tensor, what was found and what is supported.  It holds no control
 * characters other than newline, and several faults stand on several lines. */
struct infer_error {
    int code; /* one of enum infer_status */
    char text[4096];
};

/* Short English name of a status code, e.g. "unsupported".  Never NULL. */
const char *infer_status_name(int code);

/* Version of the library as "major.minor.patch". */
const char *infer_version(void);

/* ---- data types ---------------------------------------------------- */

enum infer_dtype {
    INFER_NONE = 0, /* absent */
    INFER_F64,
    INFER_F32,
    INFER_F16,  /* IEEE binary16 */
    INFER_BF16, /* upper half of binary32 */
    INFER_I64,
    INFER_I32,
    INFER_I16,
    INFER_I8,
    INFER_U64,
    INFER_U32,
    INFER_U16,
    INFER_U8,
    INFER_BOOL, /* one byte, 0 or 1 */
    INFER_DTYPE_COUNT
};

/* Name as safetensors writes it ("F32", "BF16", ...), or "none". */
const char *infer_dtype_name(enum infer_dtype dtype);

/* Bytes of one element; 0 for INFER_NONE and unknown values. */
size_t infer_dtype_size(enum infer_dtype dtype);

/* ---- models -------------------------------------------------------- */

struct infer_model;

/* What is known of one tensor.  The strings belong to the model. */
struct infer_tensor_info {
    const char *name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK]; /* -1 where it is free until a run (batch) */
};

/* Opens a model file that wconv wrote.  The weights stay in the file until a
 * session packs them, so the file must not be modified while the model is
 * open; it may be renamed or deleted.
 * path: UTF-8 file name.  *out: to be closed with infer_model_close().
 * Errors: EIO, EFORMAT, EUNSUPPORTED (newer format version), EMEMORY. */
int infer_model_open(const char *path, struct infer_error *err,
                     struct infer_model **out);

/* Closes a model and sets *model to NULL.  NULL and pointers to NULL are
 * fine.  Sessions keep what they need: the order of closing is free. */
void infer_model_close(struct infer_model **model);

/* Name of the network, or "" where the file has none. */
const char *infer_model_name(const struct infer_model *model);

/* Inputs and outputs in the order of the file.  The index must be below the
 * count, else EARGUMENT. */
int infer_model_input_count(const struct infer_model *model);
int infer_model_output_count(const struct infer_model *model);
int infer_model_input(const struct infer_model *model, int index,
                      struct infer_tensor_info *out);
int infer_model_output(const struct infer_model *model, int index,
                       struct infer_tensor_info *out);

/* Class labels stored in the model; infer_model_label() returns NULL for an
 * index outside 0 .. count-1. */
int infer_model_label_count(const struct infer_model *model);
const char *infer_model_label(const struct infer_model *model, int index);

/* ---- sessions ------------------------------------------------------ */

enum infer_backend {
    INFER_BACKEND_AUTO = 0, /* the fastest that is here */
    INFER_BACKEND_REF,      /* naive loops, double accumulators */
    INFER_BACKEND_ONEDNN,
    INFER_BACKEND_CUDA,  /* kernels of this project */
    INFER_BACKEND_CUDNN, /* cuDNN and cuBLAS */
    INFER_BACKEND_COUNT
};

enum infer_precision {
    INFER_PRECISION_FP32 = 0, /* IEEE single precision throughout */
    INFER_PRECISION_TF32,
    INFER_PRECISION_FP16,
    INFER_PRECISION_BF16
};

struct infer_session_options {
    /* "cpu" (default when NULL), "cuda" or "cuda:N". */
    const char *device;
    /* Default INFER_BACKEND_AUTO.  A backend named here computes every
     * convolution, dense layer and matrix product, or the session is refused;
     * what only moves, scales or compares elements may come from another
     * backend of the device where it lacks it (ref on the CPU, cuda on a GPU),
     * as infer_session_layer() shows.  cuDNN's rows that round the bias to 16
     * bits are taken where it has no other for a layer. */
    enum infer_backend backend;
    /* Default INFER_PRECISION_FP32.  fp16 and bf16 keep weights and activations
     * in 16 bits and sum in 32 (the reference in 64); inputs and outputs keep
     * the model's types.  They are for GPUs, and on the CPU for the reference
     * (INFER_BACKEND_REF), which shows what rounding does to a network. */
    enum infer_precision precision;
    /* CPU threads of a run; 0 (default): all cores, but one in eight, which is
     * left to others, where there are eight and more. */
    int threads;
    int deterministic; /* 1: same bits on every run; default 0 */
    /* Kernel choice on a GPU: 1 (default) measures the likely kernels of each
     * layer, vendors' for 10 seconds, then short runs as a whole for 3 seconds,
     * but for what the tuning cache knows; 2 measures every kernel, on a CPU
     * too, and runs for 30 seconds; 0 goes by estimates.  deterministic
     * implies 0. */
    int tune;
    int keep_tensors; /* 1: every intermediate tensor stays readable after a
                       * run; costs memory; default 0 */
    int profile;      /* 1: time every layer; default 0 */
    /* File of measured choices.  NULL (default): libinfer/tuning.json below
     * XDG_CACHE_HOME or ~/.cache; "": none is read or written.  A file that
     * cannot be used is ignored, as infer_session_tuning() says. */
    const char *tune_cache;
    /* A cudaStream_t of the device, or NULL (default).  Runs wait for the work
     * that the stream holds when they begin, and its later work waits for
     * them.  The stream stays the caller's and must outlive the session. */
    void *stream;
    /* Called between the steps of a plan whose kernels are measured, by the
     * thread that plans: `done` of `total`.  NULL (default): not. */
    void (*progress)(void *user, int done, int total);
    void *progress_user;
};

/* Fills *options with the defaults stated above. */
void infer_session_options_init(struct infer_session_options *options);

struct infer_session;

/* Creates a session; options NULL: the defaults.  Kernels for a batch of one
 * are chosen now.  Errors: EARGUMENT, EUNSUPPORTED (no kernel for a node; all
 * are listed), EDEVICE (the device asked for is not here), EMEMORY. */
int infer_session_create(struct infer_model *model,
                         const struct infer_session_options *options,
                         struct infer_error *err, struct infer_session **out);

/* Closes a session and sets *session to NULL; one that is NULL is fine. */
void infer_session_close(struct infer_session **session);

/* A dense row-major array in host memory.  For an input, all fields are the
 * caller's.  For an output of infer_session_run(), the caller gives name (or
 * NULL for the output of the same position) and data with its capacity in
 * bytes; dtype, rank, dim and bytes are filled.  An output whose data is NULL
 * is only described: use it to learn the bytes needed. */
struct infer_array {
    const char *name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    void *data;
    size_t bytes;
};

/* Plans for these input shapes, if no earlier call or run did: chooses
 * kernels, packs weights, lays out memory.  A later run with these shapes
 * allocates nothing (oneDNN keeps some bytes an argument during a call).
 * in[i].data is not read.  Errors: EUNSUPPORTED, and those of a run. */
int infer_session_prepare(struct infer_session *session,
                          const struct infer_array *in, int n_in,
                          struct infer_error *err);

/* Runs the network once.  Inputs are matched by name, or by position where the
 * name is NULL; integer and 16-bit inputs are converted to the model's type.
 * The first dimension may be any batch size >= 1 where the model leaves it
 * free.  A NaN stays one, but activations of oneDNN and cuDNN may make it 0.
 * On the CPU a large batch may be run a few images at a time; arrays, layers
 * and tensors are told of as for the whole. Errors: EARGUMENT (names, shapes,
 * too small output buffers), EMEMORY, EDEVICE. */
int infer_session_run(struct infer_session *session,
                      const struct infer_array *in, int n_in,
                      struct infer_array *out, int n_out,
                      struct infer_error *err);

/* Repeats the computation of the last run on the inputs it left on the device,
 * `runs` times in a row, and writes the seconds of each to seconds[0..runs-1]:
 * by the GPU's clock, without the arrays' way to the device and back.
 * Errors: EARGUMENT (there was no run), EUNSUPPORTED (not on a GPU),
 * EDEVICE. */
int infer_session_repeat(struct infer_session *session, int runs,
                         double *seconds, struct infer_error *err);

/* Describes output `index` of the latest plan; EARGUMENT where none is. */
int infer_session_output(const struct infer_session *session, int index,
                         struct infer_tensor_info *out);

/* Copies any tensor of the graph, as the last run left it, into out->data
 * (capacity out->bytes), or only describes it where out->data is NULL.
 * Without options.keep_tensors only outputs and constants can be read, else
 * EARGUMENT.  infer_session_tensor_name() lists the names in graph order and
 * returns NULL past the end. */
int infer_session_read(struct infer_session *session, const char *name,
                       struct infer_array *out, struct infer_error *err);
const char *infer_session_tensor_name(const struct infer_session *session,
                                      int index);

/* One step of the latest plan, in order.  The strings are the session's. */
struct infer_layer_info {
    const char *name;   /* node name */
    const char *op;     /* operation, e.g. "conv" */
    const char *kernel; /* name of the row of the kernel table */
    double flops;       /* 2 * multiply-adds of one run */
    double bytes;       /* inputs read once plus outputs written once */
    double seconds;     /* mean over the runs so far; 0 unless profiling */
    struct infer_tensor_info output; /* its first output */
};
/* The count is 0 where there is no plan; EARGUMENT for an index outside 0 ..
 * count-1. */
int infer_session_layer_count(const struct infer_session *session);
int infer_session_layer(const struct infer_session *session, int index,
                        struct infer_layer_info *out);

/* Bytes that are held for the latest plan; EARGUMENT where there is none. */
struct infer_memory_info {
    size_t activations;          /* the arena */
    size_t weights;              /* packed constants */
    size_t workspace;            /* scratch memory of one kernel at a time */
    size_t activations_unshared; /* the arena without reuse, for comparison */
};
int infer_session_memory(const struct infer_session *session,
                         struct infer_memory_info *out);

/* How the kernels of a session's plans were chosen.  The strings are the
 * session's. */
struct infer_tuning_info {
    int measured; /* problems measured by this session */
    int cached;   /* problems found in the tuning cache */
    /* Problems whose kernel is not the fastest by itself, but with which a
     * whole run is quicker. */
    int exchanged;
    double seconds;    /* that measuring took */
    const char *cache; /* file name, "" for none */
    const char *note;  /* what is wrong with the file, "" for nothing */
};
/* EARGUMENT where one of them is NULL. */
int infer_session_tuning(const struct infer_session *session,
                         struct infer_tuning_info *out);

/* ---- images -------------------------------------------------------- */

/* Interleaved 8-bit picture, dense rows, top row first. */
struct infer_image {
    int width, height;
    int channels; /* 1 gray, 3 RGB */
    uint8_t *pixels;
};

/* Decodes a PNG or JPEG (by content).  Alpha is dropped, palettes and 16-bit
 * samples are reduced to 8 bits, CMYK and YCCK become RGB; the EXIF
 * orientation is applied.  infer_image_free() releases the pixels.
 * max_pixels bounds width * height before anything is allocated; 0 means
 * 2^28.
 * Errors: EIO, EFORMAT, EUNSUPPORTED, EMEMORY. */
int infer_image_load(const char *path, uint64_t max_pixels,
                     struct infer_error *err, struct infer_image *out);
int infer_image_decode(const void *data, size_t bytes, uint64_t max_pixels,
                       struct infer_error *err, struct infer_image *out);
void infer_image_free(struct infer_image *image);

/* Applies the preprocessing stored for input `index` (resize, crop, colour
 * order, mean, scale) to a picture and writes one C,H,W plane set of that
 * input's shape in fp32 to `out` (capacity in bytes).  width and height are
 * those of the input where it has fixed ones; else pass the wanted size in
 * *shape_hw (height, width), NULL otherwise.
 * Errors: EARGUMENT (small buffer, input is no image, the picture has neither 1
 * nor 3 channels), EMEMORY (also: the resized picture has over 2^28 pixels). */
int infer_model_preprocess(const struct infer_model *model, int index,
                           const struct infer_image *image,
                           const int64_t *shape_hw, float *out, size_t bytes,
                           struct infer_error *err);

/* Only what changes the picture's size (resize, crop, letterbox): writes H,W,C
 * bytes, one channel or RGB.  Else as infer_model_preprocess(). */
int infer_model_fit(const struct infer_model *model, int index,
                    const struct infer_image *image, const int64_t *shape_hw,
                    uint8_t *out, size_t bytes, struct infer_error *err);

/* Makes a second model, whose input `index` takes what infer_model_fit() writes
 * for that of the first: U8, N,H,W,C.  Colour order, mean and scale are layers
 * of it, which run on the session's device: a picture takes a quarter of the
 * bytes on its way to a GPU.  The results are those of the first model but for
 * rounding.  The weights are shared; the two may be closed in any order.
 * Errors: EARGUMENT (input is no image), EUNSUPPORTED (the input is an output
 * as well), EMEMORY. */
int infer_model_take_pixels(const struct infer_model *model, int index,
                            struct infer_error *err, struct infer_model **out);

/* ---- what this machine offers -------------------------------------- */

/* Writes a report of devices, drivers, vendor libraries and backends, one
 * "name: text" line each, into text (always terminated).  Returns the length
 * that the whole report needs, as snprintf() does. */
size_t infer_doctor(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
