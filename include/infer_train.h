/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training of classifiers: a network, an optimiser, batches of the caller's,
 * checkpoints.  The command train(1) is the same code behind files and options.
 *
 *     struct infer_train_options options;
 *     struct infer_trainer *trainer = NULL;
 *     struct infer_error err;
 *
 *     infer_train_options_init(&options);
 *     options.batch = 32;
 *     if (infer_trainer_create("lenet5", &options, &err, &trainer) < 0 ||
 *         infer_trainer_run(trainer, 500, fill, user, &err, NULL) < 0 ||
 *         infer_trainer_save(trainer, "lenet5.safetensors", &err) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 *     infer_trainer_close(&trainer);
 *
 * wconv(1) reads the checkpoint without options, and so does train --init-from.
 *
 * The library is static and holds libinfer as well: link it instead of
 * libinfer,
 *
 *     cc program.c $(pkg-config --cflags --libs libinfer_train)
 *
 * Errors, threads and struct sizes: as in infer.h.  A trainer serves one thread
 * at a time.  The interface is new: until version 1.0 it may change with a
 * minor version.
 */
#ifndef INFER_TRAIN_H
#define INFER_TRAIN_H

#include "infer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct infer_trainer;

/* Formulas are PyTorch's. */
enum infer_optimizer {
    INFER_OPTIMIZER_SGD = 0,  /* momentum 0: plain */
    INFER_OPTIMIZER_NESTEROV, /* SGD with Nesterov's momentum */
    INFER_OPTIMIZER_RMSPROP,
    INFER_OPTIMIZER_ADAM,
    INFER_OPTIMIZER_ADAMW,
    INFER_OPTIMIZER_COUNT
};

/* Options of a trainer.  infer_train_options_init() sets the defaults. */
struct infer_train_options {
    size_t size; /* bytes of this struct in the caller's header */
    /* "cpu" (default when NULL), "cuda" or "cuda:N". */
    const char *device;
    int threads; /* CPU threads; default 0: all cores */
    /* Type of activations; weights, moments and sums are 32 bits.  Default
     * INFER_PRECISION_FP32; fp16 and bf16 need a GPU or the reference.  fp16
     * scales the loss by itself. */
    enum infer_precision precision;
    int deterministic; /* 1: same bits on every run; default 0 */
    int64_t batch;     /* pictures per step; default 64 */
    int classes;       /* of a built-in network; default 0: its usual number */
    /* File of first weights, of any form that wconv reads: a checkpoint, a
     * .pth, an ONNX file.  Parameters that it lacks start at random, but one
     * weight must fit.  Default NULL: random weights. */
    const char *weights;
    enum infer_optimizer optimizer; /* default INFER_OPTIMIZER_SGD */
    double rate;     /* learning rate; default 0: 0.05 for SGD, else 0.001 */
    double momentum; /* SGD, Nesterov, RMSprop; beta1 of Adam; default -1:
                      * 0.9, RMSprop 0 */
    double beta2;    /* default -1: 0.999, RMSprop 0.99 */
    double epsilon;  /* default 1e-8 */
    double weight_decay; /* not of biases and batch norm; default 0 */
    double clip;         /* largest norm of the gradients; default 0: any */
    double smoothing;    /* of the labels, 0 to 1; default 0 */
    uint64_t seed;       /* of first weights and dropout; default 0 */
    /* Most bytes of the network on its device, weights included.  Where it
     * takes more, activations are computed twice, and on a GPU moved to the
     * host's memory; results keep their bits.  EMEMORY says the least that is
     * possible.  Default 0: any. */
    uint64_t memory;
};

/* Fills *options with its size and the defaults stated above.  Bindings of
 * other languages call the sized function. */
void infer_train_options_init_sized(struct infer_train_options *options,
                                    size_t size);
static inline void infer_train_options_init(struct infer_train_options *options)
{
    infer_train_options_init_sized(options, sizeof *options);
}

/* Creates a trainer.
 * arch: a built-in architecture ("resnet18"; `train --list-archs` names them),
 *   an architecture file, or NULL: that of options.weights.
 * options: NULL means the defaults.
 * *out: close it with infer_trainer_close().
 * Errors: EARGUMENT, EIO, EFORMAT, EUNSUPPORTED (a layer without a gradient),
 *   EMEMORY, EDEVICE. */
int infer_trainer_create(const char *arch,
                         const struct infer_train_options *options,
                         struct infer_error *err, struct infer_trainer **out);

/* Frees a trainer and sets *trainer to NULL.  NULL and a pointer to NULL are
 * allowed. */
void infer_trainer_close(struct infer_trainer **trainer);

/* The batch: dim[0..3] = N,C,H,W of the pictures, and the number of classes. */
void infer_trainer_shape(const struct infer_trainer *trainer, int64_t dim[4],
                         int *classes);

/* What steps or an evaluation gave. */
struct infer_train_result {
    int64_t steps;    /* batches */
    int64_t pictures; /* in them */
    int64_t right;    /* of them, whose best class is the label */
    double loss;      /* cross entropy, mean over the pictures */
};

/* One step of the optimiser on a batch in host memory.
 * pictures: float, dense N,C,H,W, as the network takes them (scaled already);
 * label: class of each, 0 .. classes-1; count: 1 .. batch.  A step on fewer
 *   pictures than a batch weighs each as a full one does.
 * *out (NULL: not wanted): loss and hits before the update.
 * Errors: EARGUMENT (count, label), EMISMATCH (the loss is not finite),
 *   EDEVICE.  A step whose gradients are not finite changes nothing. */
int infer_trainer_step(struct infer_trainer *trainer, const float *pictures,
                       const int32_t *label, int64_t count,
                       struct infer_error *err, struct infer_train_result *out);

/* The caller's data: writes up to `room` pictures and their labels, as
 * infer_trainer_step() takes them, and returns their number; 0: there are no
 * more; negative: an INFER_E* code with which the call ends. */
typedef int64_t infer_train_data(void *user, float *pictures, int32_t *label,
                                 int64_t room);

/* Up to `steps` steps (0: until the data end), each on what `data` gives.
 * *out (NULL: not wanted): sums over these steps.
 * Errors: those of infer_trainer_step() and of `data`. */
int infer_trainer_run(struct infer_trainer *trainer, int64_t steps,
                      infer_train_data *data, void *user,
                      struct infer_error *err, struct infer_train_result *out);

/* Loss and hits over all that `data` gives, as in inference; weights stay.
 * Errors: those of infer_trainer_step() and of `data`. */
int infer_trainer_evaluate(struct infer_trainer *trainer,
                           infer_train_data *data, void *user,
                           struct infer_error *err,
                           struct infer_train_result *out);

/* The learning rate from the next step on; at least 0.  EARGUMENT. */
int infer_trainer_set_rate(struct infer_trainer *trainer, double rate,
                           struct infer_error *err);

/* Steps made so far, those before a checkpoint included. */
int64_t infer_trainer_steps(const struct infer_trainer *trainer);

/* Names of the classes, `count` as infer_trainer_shape() says, UTF-8; copied.
 * Checkpoints and model files made of them hold the names.  EARGUMENT, EMEMORY.
 */
int infer_trainer_set_labels(struct infer_trainer *trainer,
                             const char *const *label, int count,
                             struct infer_error *err);

/* Writes a checkpoint (safetensors): network, names of the classes, weights,
 * state of the optimiser.  path is replaced at once or stays as it was.
 * Errors: EIO, EMEMORY, EUNSUPPORTED (names that a file cannot hold). */
int infer_trainer_save(struct infer_trainer *trainer, const char *path,
                       struct infer_error *err);

/* Goes on from a checkpoint of the same network, optimizer, batch and seed:
 * later steps on the same data give the bits of an uninterrupted run.
 * Errors: EIO, EFORMAT (damaged, or another network), EARGUMENT (begun with
 *   other options).  The trainer stays as it was. */
int infer_trainer_load(struct infer_trainer *trainer, const char *path,
                       struct infer_error *err);

#ifdef __cplusplus
}
#endif

#endif
