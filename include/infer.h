/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libinfer: runs an optimised convolutional network on images or arrays.
 *
 * The order of use is: open a model, create a session on it, run the session
 * any number of times, close both.
 *
 *     struct infer_error err;
 *     struct infer_model *model;
 *     struct infer_session *session;
 *
 *     if (infer_model_open("net.infer", &err, &model) < 0 ||
 *         infer_session_create(model, NULL, &err, &session) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 *
 * Errors.  A function that can fail returns 0 or a negative INFER_E* code.  On
 * failure it fills *err, unless err is NULL.  Out-parameters come last and are
 * written on success only.
 *
 * Logging.  The library prints nothing and exits nowhere.  options.log of a
 * session is called with what it chooses and doubts; failures are in err.text.
 * Facts to log by choice: infer_doctor() for the machine, infer_session_layer()
 * for the kernels, infer_session_tuning() for the measurements,
 * options.progress while kernels are measured.
 *
 * Denormals (below 1.2e-38) count as zero in a run on a CPU.  The calling
 * thread has its own setting back afterwards; OpenMP's threads keep it.
 *
 * Threads.  Any number of threads may share a model.  A session serves one
 * thread at a time: create one session for each thread.  Functions without a
 * model or a session may be called by any thread at any time.  While other work
 * takes the cores of sessions on a CPU, the library has an idle thread of its
 * own, which makes GCC's OpenMP sleep sooner; not where OMP_WAIT_POLICY or
 * GOMP_SPINCOUNT is set.
 *
 * Arrays.  Shapes are logical: N,C,H,W (or N,C,L; N,C,D,H,W; N,C), whatever
 * layout the kernels use.  Arrays that cross this interface are dense and
 * row-major in that order; inputs in struct infer_tensor may have strides.
 *
 * API and ABI.  The soname of the library changes when a program that was
 * linked with an older release would break; within one soname functions and
 * enumerators are added and none is changed or removed.
 * - A struct of options begins with its size, which its _init() function sets.
 *   New fields are added at the end.  The library gives the default to each
 *   field that the caller's size does not cover, and refuses a field that it
 *   does not know unless that is 0.
 * - A struct that the library fills (infer_error, infer_array, infer_tensor,
 *   infer_image and infer_*_info) keeps its layout; new facts come with new
 *   functions.
 * - Opaque structs may change.  An int that names an enumerator may hold a
 * value that this header does not have: treat it as unknown.
 */
#ifndef INFER_H
#define INFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Largest number of dimensions of a tensor. */
#define INFER_MAX_RANK 8

/* ---- status -------------------------------------------------------- */

enum infer_status {
    INFER_OK = 0,
    INFER_EARGUMENT = -1,    /* the caller broke a rule of this header */
    INFER_EUNSUPPORTED = -2, /* valid, but not supported */
    INFER_EFORMAT = -3,      /* a file or graph is malformed */
    INFER_EIO = -4,          /* the operating system refused a read or write */
    INFER_EMEMORY = -5,      /* out of host or device memory, or over a limit */
    INFER_EDEVICE = -6,  /* a device or vendor library failed or is absent */
    INFER_EMISMATCH = -7 /* two results that must agree differ */
};

/* Error report.  The text needs no context: it names the file, the node or
 * tensor, what was found and what is supported.  Each fault has a line of its
 * own.  Newline is the only control character. */
struct infer_error {
    int code; /* one of enum infer_status */
    char text[4096];
};

/* Returns the short English name of a status code, e.g. "unsupported"; never
 * NULL. */
const char *infer_status_name(int code);

/* Returns the version of the library, "major.minor.patch". */
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
    /* 8 bits: sign, 4 of exponent, 3 of fraction; finite but for NaN (0x7f and
     * 0xff), largest 448, least 2^-9: e4m3fn of OCP, ONNX and PyTorch. */
    INFER_F8E4M3,
    INFER_DTYPE_COUNT
};

/* Returns the name that safetensors uses ("F32", "BF16", "F8_E4M3", ...), or
 * "none". */
const char *infer_dtype_name(enum infer_dtype dtype);

/* Returns the bytes of one element; 0 for INFER_NONE and unknown values. */
size_t infer_dtype_size(enum infer_dtype dtype);

/* ---- models -------------------------------------------------------- */

struct infer_model;

/* Describes one tensor.  The model owns the name. */
struct infer_tensor_info {
    const char *name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK]; /* -1: free until a run (batch) */
};

/* Returns the bytes of a dense array of that shape and type; 0 where a
 * dimension is free, the type is unknown, or the number does not fit. */
size_t infer_tensor_info_bytes(const struct infer_tensor_info *info);

/* Opens a model file that wconv wrote.  The weights stay in the file until a
 * session packs them: do not modify the file while the model is open.  It may
 * be renamed or deleted.
 * path: UTF-8 file name.  *out: close it with infer_model_close().
 * Errors: EIO, EFORMAT, EUNSUPPORTED (newer format version), EMEMORY. */
int infer_model_open(const char *path, struct infer_error *err,
                     struct infer_model **out);

/* Opens a model of the bytes of a model file.  They are not copied: they must
 * stay in place and unchanged until release(user) is called.  That is done
 * once, by the thread that closes the model or the last of its sessions; if
 * opening fails, before the return.  release NULL: the bytes outlive the model
 * and its sessions.  The bytes are checked as those of a file are.
 * Errors: EARGUMENT, EFORMAT, EUNSUPPORTED, EMEMORY. */
int infer_model_open_memory(const void *data, size_t bytes,
                            void (*release)(void *user), void *user,
                            struct infer_error *err, struct infer_model **out);

/* Closes a model and sets *model to NULL.  NULL and a pointer to NULL are
 * allowed.  Models and sessions may be closed in any order. */
void infer_model_close(struct infer_model **model);

/* Returns the name of the network, or "" if the file has none. */
const char *infer_model_name(const struct infer_model *model);

/* Inputs and outputs stand in the order of the file.  Error: EARGUMENT (index
 * outside 0 .. count-1). */
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

/* Values are not reused; new backends come before INFER_BACKEND_COUNT, which is
 * the only value that changes then. */
enum infer_backend {
    INFER_BACKEND_AUTO = 0, /* the fastest of this machine */
    INFER_BACKEND_REF,      /* naive loops, double accumulators */
    INFER_BACKEND_ONEDNN,   /* oneDNN and INFER_BACKEND_CPU, layer by layer */
    INFER_BACKEND_CUDA,     /* kernels of this project for GPUs */
    INFER_BACKEND_CUDNN,    /* cuDNN and cuBLAS */
    INFER_BACKEND_CPU,      /* kernels of this project for CPUs */
    INFER_BACKEND_COUNT
};

enum infer_precision {
    INFER_PRECISION_FP32 = 0, /* IEEE single precision throughout */
    INFER_PRECISION_TF32,
    INFER_PRECISION_FP16,
    INFER_PRECISION_BF16,
    /* Of a quantised model (wconv --quantize): each layer that is quicker on 8
     * bits runs so, the others in fp16 on a GPU and in fp32 on a CPU. */
    INFER_PRECISION_BEST
};

/* Levels of options.log.  More may come with higher values. */
enum infer_log {
    INFER_LOG_WARNING = 1, /* works, but not as asked for */
    INFER_LOG_INFO,        /* sessions and plans: device, memory, work */
    INFER_LOG_DEBUG        /* the kernel of every layer */
};

/* Options of a session.  infer_session_options_init() sets the defaults. */
struct infer_session_options {
    /* Bytes of this struct in the caller's header. */
    size_t size;
    /* "cpu" (default when NULL), "cuda" or "cuda:N". */
    const char *device;
    /* Default INFER_BACKEND_AUTO.  A named backend computes every convolution,
     * dense layer and matrix product, or the session is refused.  If it lacks
     * an operation that only moves, scales or compares elements, another
     * backend of the device computes that (ref on the CPU, cuda on a GPU);
     * infer_session_layer() names the kernel.  Rows of cuDNN that round the
     * bias to 16 bits serve layers for which cuDNN has no other row. */
    enum infer_backend backend;
    /* Default INFER_PRECISION_FP32.  fp16 and bf16 store weights and
     * activations in 16 bits and accumulate in 32 (the reference in 64).
     * Inputs and outputs keep the model's types.  A GPU supports all; the CPU
     * supports fp16 and bf16 with INFER_BACKEND_REF only, which shows the
     * effect of rounding on a network.
     * With best the first run with new shapes measures (infer_session_prepare()
     * takes it); later sessions choose alike from the tuning cache.  A model
     * without layers in 8 bits is EUNSUPPORTED, deterministic, tune 0,
     * keep_tensors and a multiplier beside it are EARGUMENT. */
    enum infer_precision precision;
    /* CPU threads of a run.  0 (default): all cores; on 8 cores and more one in
     * eight stays free. */
    int threads;
    /* 1: same bits on every run.  An image moreover gives the same bits alone
     * and in any batch, at any place in it, on any number of threads, if the
     * model leaves the batch open and its images are independent of each other.
     * On a CPU images then run one by one, if keep_tensors is 0.  On a GPU the
     * batch runs as a whole; layers for which no kernel sums alike in any batch
     * are excepted, and strided transposed convolutions are slow.  Default 0.
     */
    int deterministic;
    /* Choice of kernels.  1 (default) measures on a GPU the likely kernels of
     * each layer, then whole runs for a second; problems in the tuning cache
     * are not measured again.  Vendors' libraries are loaded and measured, for
     * 10 seconds at most, only for layers that no kernel of libinfer computes
     * or that it computes far below the GPU's peak rates.  2 measures every
     * kernel, on a CPU too, and whole runs for 30 seconds.  0 uses estimates.
     * deterministic implies 0. */
    int tune;
    int keep_tensors; /* 1: every intermediate tensor stays readable after a
                       * run; costs memory; default 0 */
    int profile;      /* 1: time every layer; default 0 */
    /* File of measured choices.  NULL (default): libinfer/tuning.json in
     * XDG_CACHE_HOME or ~/.cache.  "": no file.  An unusable file is ignored;
     * infer_session_tuning() tells why. */
    const char *tune_cache;
    /* A cudaStream_t of the device, or NULL (default).  A run starts after the
     * work that is in the stream, and later work in the stream starts after the
     * run.  The caller owns the stream, which must outlive the session. */
    void *stream;
    /* Called by the planning thread after each measured step: `done` of
     * `total`.  Default NULL. */
    void (*progress)(void *user, int done, int total);
    void *progress_user;
    /* Most bytes of a plan: activations, weights and workspace together.
     * Checked before anything of that size is allocated: EMEMORY.  On a CPU a
     * batch that takes more is run in micro-batches, the largest that fit
     * together with all outputs, if its images are independent; the error of
     * one that does not fit image by image states the bytes that would do.
     * Results are those of the whole batch; a library's kernel (oneDNN) may
     * round differently in another batch.  0 (default):
     * on a CPU three quarters of the memory that the process may use (of the
     * machine, its control group or RLIMIT_AS); on a GPU what the device
     * gives. */
    uint64_t max_memory;
    /* Most work of a run: operations (2 * multiply-adds), and 1 for each byte
     * that a layer reads or writes.  More is EMEMORY, before anything is
     * allocated.  0 (default): 1e14 on a CPU, no limit on a GPU. */
    double max_work;
    /* Multiplier of every convolution and dense layer: a file of a table, or
     * the name of a formula such as "mitchell-7" (doc/multipliers.md lists
     * both); ",acc=WORD" behind it says how products are added (fp32, bf16,
     * loa-K).  Biases and all other layers stay exact.  Tables of integers of 8
     * bits are for quantised networks, other tables of integers
     * EUNSUPPORTED.  "none": exact products.  Default NULL: the multiplier
     * that the model holds (wconv --multiplier), else exact products. */
    const char *multiplier;
    /* Layers that multiply exactly all the same: names of convolutions and
     * dense layers, separated by commas; * and ? match, "first" and "last" are
     * the first and the last.  A word that means no layer is EARGUMENT.
     * Default NULL: those that the model states with its multiplier, else none.
     */
    const char *multiplier_exact;
    /* Called with one line of UTF-8 without a newline, by the thread that calls
     * the library; level is one of enum infer_log.  It must not use the
     * session.  Default NULL. */
    void (*log)(void *user, int level, const char *text);
    void *log_user;
    /* Allocator of the session's host memory, in place of the C library's:
     * activations, packed weights, workspace, gathered outputs, tables of
     * multipliers, and what is needed to load and to measure.
     * alloc(user, bytes, align): bytes > 0 of memory, not cleared, at a
     * multiple of align (a power of two); NULL makes the call fail with
     * EMEMORY.  dealloc(user, memory) frees it; memory is never NULL.
     * Default NULL, both or neither.
     * Sessions share packed weights only if the three fields are equal.  All is
     * freed when the last such session is closed.  The functions are called by
     * the threads that use these sessions.
     * The C library still gives lists of layers, names, shapes and indices,
     * files of multipliers while they are read, and a copy of transposed
     * weights while they are packed.  Memory of a GPU, and what oneDNN, CUDA
     * and OpenMP allocate, is theirs. */
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*dealloc)(void *user, void *memory);
    void *alloc_user;
};

/* Fills *options with its size and the defaults stated above.  Bindings of
 * other languages call the sized function with the bytes of their own struct,
 * at least those of its size field. */
void infer_session_options_init_sized(struct infer_session_options *options,
                                      size_t size);
static inline void
infer_session_options_init(struct infer_session_options *options)
{
    infer_session_options_init_sized(options, sizeof *options);
}

struct infer_session;

/* Creates a session; options NULL: the defaults.  Kernels for a batch of one
 * are chosen now.  Errors: EARGUMENT, EUNSUPPORTED (no kernel for a node: the
 * text lists all such nodes; a field of a newer header is set), EDEVICE (the
 * device is absent), EMEMORY. */
int infer_session_create(struct infer_model *model,
                         const struct infer_session_options *options,
                         struct infer_error *err, struct infer_session **out);

/* Closes a session and sets *session to NULL.  NULL and a pointer to NULL are
 * allowed. */
void infer_session_close(struct infer_session **session);

/* A dense row-major array in host memory.  The caller sets all fields of an
 * input.  For an output of infer_session_run() the caller sets name (NULL: the
 * output at the same position), data, and bytes, the capacity of data; the
 * library sets dtype, rank, dim and bytes.  With data NULL the output is only
 * described, which tells the bytes needed. */
struct infer_array {
    const char *name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    void *data;
    size_t bytes;
};

/* Makes the plan for these input shapes, unless it exists: chooses kernels,
 * packs weights, lays out memory.  A later run with these shapes allocates
 * nothing (oneDNN allocates some bytes for each argument during a call).
 * in[i].data is not read.  Errors: EUNSUPPORTED, and those of a run. */
int infer_session_prepare(struct infer_session *session,
                          const struct infer_array *in, int n_in,
                          struct infer_error *err);

/* Runs the network once.  Inputs are matched by name, or by position if the
 * name is NULL.  Integer and 16-bit inputs are converted to the model's type.
 * The first dimension may be any batch size >= 1 if the model leaves it free.
 * A NaN stays NaN, except that activations of oneDNN and cuDNN may make it 0.
 * The CPU may run a large batch as micro-batches; arrays, layers and tensors
 * are reported for the whole batch.  Errors: EARGUMENT (names, shapes, output
 * buffers too small), EMEMORY, EDEVICE. */
int infer_session_run(struct infer_session *session,
                      const struct infer_array *in, int n_in,
                      struct infer_array *out, int n_out,
                      struct infer_error *err);

/* Where the elements of a tensor lie. */
enum infer_memory {
    INFER_MEMORY_HOST = 0,
    INFER_MEMORY_CUDA /* of a GPU; managed memory too */
};

/* A view of memory of the caller's or of a session's, on the host or a GPU. */
struct infer_tensor {
    const char *name; /* NULL: by position */
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    /* rank strides in elements, which may be 0 or negative; NULL: dense,
     * row-major. */
    const int64_t *stride;
    void *data;   /* the element with indices 0 */
    size_t bytes; /* from data on; with negative strides there is more below */
    enum infer_memory memory;
    int device; /* ordinal of the GPU; host memory: 0 */
};

/* Runs the network as infer_session_run() does, on memory of the host or of the
 * session's device.
 *
 * Inputs: dense host memory is treated as infer_session_run() treats it; on a
 * CPU it is used where it lies if its type is the model's.  With strides it is
 * gathered.  Memory of the session's GPU is used where it lies if its address
 * is a multiple of 64, else copied on the device; it must be dense and of the
 * model's type, and stay valid and unchanged until the run returns, or the last
 * infer_session_repeat() after it.  options.stream orders the run after the
 * work that writes the inputs.  A run whose GPU addresses differ from those of
 * the run before launches its kernels one by one: reuse input memory.
 *
 * Outputs: the caller sets name, data, bytes (capacity), memory and device; the
 * library sets dtype, rank, dim, bytes, and stride to NULL.  With data NULL the
 * output stays where it was computed: the library sets data, memory and device.
 * That memory is the session's, to be read only, and valid until the next call
 * with this session that runs, prepares or closes it.
 * After a failure *out is unchanged.
 * Errors: those of infer_session_run(); EUNSUPPORTED (strides or conversion on
 * a GPU, memory of a device that is not the session's). */
int infer_session_run_tensors(struct infer_session *session,
                              const struct infer_tensor *in, int n_in,
                              struct infer_tensor *out, int n_out,
                              struct infer_error *err);

/* Repeats the last run `runs` times, with the inputs that are on the device.
 * Writes the seconds of each repetition to seconds[0..runs-1]: the GPU's clock,
 * without copies between host and device.
 * Errors: EARGUMENT (there was no run), EUNSUPPORTED (not on a GPU),
 * EDEVICE. */
int infer_session_repeat(struct infer_session *session, int runs,
                         double *seconds, struct infer_error *err);

/* Describes output `index` of the latest plan.  Error: EARGUMENT (no plan, or
 * index outside 0 .. count-1). */
int infer_session_output(const struct infer_session *session, int index,
                         struct infer_tensor_info *out);

/* Copies a tensor of the graph, with its values of the last run, to out->data
 * (capacity out->bytes).  With out->data NULL the tensor is only described.
 * Error: EARGUMENT (no such tensor; no output and no constant, and
 * options.keep_tensors is 0).  infer_session_tensor_name() returns the names in
 * graph order, and NULL after the last. */
int infer_session_read(struct infer_session *session, const char *name,
                       struct infer_array *out, struct infer_error *err);
const char *infer_session_tensor_name(const struct infer_session *session,
                                      int index);

/* One step of the latest plan.  The session owns the strings. */
struct infer_layer_info {
    const char *name;    /* node name */
    const char *op;      /* operation, e.g. "conv" */
    const char *kernel;  /* name of the row of the kernel table */
    const char *variant; /* of the kernel: its tile, say; "" if it has one */
    double flops;        /* 2 * multiply-adds of one run */
    double bytes;        /* inputs read once plus outputs written once */
    double seconds;      /* mean over the runs so far; 0 unless profiling */
    struct infer_tensor_info output; /* first output of the node */
};
/* Steps stand in the order of execution.  The count is 0 if there is no plan.
 * Error: EARGUMENT (index outside 0 .. count-1). */
int infer_session_layer_count(const struct infer_session *session);
int infer_session_layer(const struct infer_session *session, int index,
                        struct infer_layer_info *out);

/* Bytes of memory of the latest plan. */
struct infer_memory_info {
    size_t activations;          /* the arena */
    size_t weights;              /* packed constants */
    size_t workspace;            /* scratch memory of one kernel at a time */
    size_t activations_unshared; /* the arena without reuse, for comparison */
};
/* Error: EARGUMENT (no plan). */
int infer_session_memory(const struct infer_session *session,
                         struct infer_memory_info *out);

/* How the kernels of a session's plans were chosen.  The session owns the
 * strings. */
struct infer_tuning_info {
    int measured; /* problems measured by this session */
    int cached;   /* problems found in the tuning cache */
    /* Problems with a kernel that is not the fastest alone, but makes the whole
     * run faster. */
    int exchanged;
    double seconds;    /* duration of the measurements */
    const char *cache; /* file name; "": no file */
    const char *note;  /* why the file was ignored; "": it was not */
};
/* Error: EARGUMENT (an argument is NULL). */
int infer_session_tuning(const struct infer_session *session,
                         struct infer_tuning_info *out);

/* ---- images -------------------------------------------------------- */

/* Interleaved 8-bit picture, dense rows, top row first. */
struct infer_image {
    int width, height;
    int channels; /* 1 gray, 3 RGB */
    uint8_t *pixels;
};

/* Decodes a PNG or JPEG file, recognised by content.  Alpha is dropped,
 * palettes and 16-bit samples become 8 bits, CMYK and YCCK become RGB, the EXIF
 * orientation is applied, that of a PNG file (chunk eXIf) too.
 * infer_image_free() releases the pixels. max_pixels: limit of width * height,
 * checked before any allocation; 0: 2^26. Width * height * scans of a JPEG may
 * reach 32 times that.  A picture that is refused takes at most twice its file
 * and 64 MiB at the peak; a progressive JPEG, 2 bytes for each coefficient of
 * the picture in addition. Errors: EIO, EFORMAT, EUNSUPPORTED, EMEMORY. */
int infer_image_load(const char *path, uint64_t max_pixels,
                     struct infer_error *err, struct infer_image *out);
int infer_image_decode(const void *data, size_t bytes, uint64_t max_pixels,
                       struct infer_error *err, struct infer_image *out);
void infer_image_free(struct infer_image *image);

/* Applies the preprocessing of input `index` (resize, crop, colour order, mean,
 * scale) to a picture.  Writes one image of the input's shape, C,H,W in fp32,
 * to `out` (capacity in bytes).  shape_hw: height and width if the input leaves
 * them free, else NULL.
 * Errors: EARGUMENT (buffer too small, the input is no image, the picture has
 * neither 1 nor 3 channels), EMEMORY (also: the resized picture has over 2^26
 * pixels). */
int infer_model_preprocess(const struct infer_model *model, int index,
                           const struct infer_image *image,
                           const int64_t *shape_hw, float *out, size_t bytes,
                           struct infer_error *err);

/* Applies only the steps that change the size of the picture (resize, crop,
 * letterbox).  Writes H,W,C bytes, one channel or RGB.  Arguments and errors
 * are those of infer_model_preprocess(). */
int infer_model_fit(const struct infer_model *model, int index,
                    const struct infer_image *image, const int64_t *shape_hw,
                    uint8_t *out, size_t bytes, struct infer_error *err);

/* Makes a second model.  Its input `index` takes the bytes that
 * infer_model_fit() writes for the first model: U8, N,H,W,C.  Colour order,
 * mean and scale are layers of the second model and run on the session's
 * device, so that a quarter of the bytes is copied to a GPU.  The results equal
 * those of the first model within rounding.  The two share the weights and may
 * be closed in any order. Errors: EARGUMENT (the input is no image),
 * EUNSUPPORTED (the input is an output as well), EMEMORY. */
int infer_model_take_pixels(const struct infer_model *model, int index,
                            struct infer_error *err, struct infer_model **out);

/* ---- scores -------------------------------------------------------- */

/* Writes the probabilities of entry `index` of the first dimension, an image of
 * a batch: exp(x - max) / sum over all its elements.  n: elements of the entry,
 * for which p has room.  A NaN makes all of them NaN.
 * Errors: EARGUMENT (no such entry, n is another number, no data). */
int infer_array_softmax(const struct infer_array *array, int64_t index,
                        double *p, int64_t n, struct infer_error *err);

/* Writes the places of the k largest elements of entry `index`, the largest
 * first, to place[0..k-1]; value (may be NULL) takes the elements.  Equal
 * elements keep their order, NaN comes last.  Returns how many there are: k, or
 * all elements where they are fewer.
 * Errors: EARGUMENT (no such entry, k < 0, no data). */
int infer_array_top_k(const struct infer_array *array, int64_t index, int k,
                      int64_t *place, double *value, struct infer_error *err);

/* ---- boxes --------------------------------------------------------- */

/* Non-maximum suppression: of two boxes of one class whose intersection over
 * union is above `iou`, the one with the lower score is dropped.
 * box: n rows of left, top, right, bottom, in any unit.  score: one per box.
 * label: the class of each box; NULL: all are of one class.  Boxes with a score
 * below `least`, or with a side that is not finite, are dropped.
 * keep: room for n indices; takes those of the boxes that stay, the best first.
 * Equal scores keep their order.  Returns how many stay.
 * Errors: EARGUMENT (n < 0, a NULL array, iou below 0), EMEMORY. */
int infer_nms(const float *box, const float *score, const int32_t *label, int n,
              float least, float iou, int *keep, struct infer_error *err);

/* ---- the machine --------------------------------------------------- */

/* Writes a report of devices, drivers, vendor libraries and backends to text,
 * one "name: text" line each, always terminated.  Returns the length of the
 * whole report, as snprintf() does. */
size_t infer_doctor(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
