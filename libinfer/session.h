/* SPDX-License-Identifier: Apache-2.0 */
/* struct infer_session, for the files that implement it. */
#ifndef LIBINFER_SESSION_H
#define LIBINFER_SESSION_H

#include "kernels/base/error.h"
#include "libinfer/device/device.h"
#include "libinfer/model/model.h"
#include "libinfer/plan/plan.h"

/* A batch that is run in micro-batches (session_micro_batches.c). */
struct micro_batches {
    struct graph *whole;   /* with the shapes of the batch */
    struct plan *plan;     /* of one micro-batch; the session owns it */
    int64_t batch, images; /* of the whole, and of a micro-batch */
    size_t *offset;        /* of every output in session->gathered */
    size_t bytes;          /* of all outputs */
};

struct infer_session {
    struct infer_model *model; /* a reference */
    struct device device;
    struct plan_config config;
    bool best;     /* INFER_PRECISION_BEST */
    bool exceeded; /* by a plan: max_memory, not what there is */
    struct plan_products products;
    struct tuner *tuner;
    bool profile;
    struct plan **plan; /* one for each set of input shapes seen */
    int n_plans;
    struct plan *current; /* the latest prepared, or the first chosen */
    bool ready;           /* `current` is bound to memory that is there */
    struct plan *ran;     /* the one whose results are in the arena */
    /* Batches that are run in micro-batches; the one that `current` runs, and
     * the one whose results are in `gathered`; NULL: none. */
    struct micro_batches **micro;
    int n_micro;
    const struct micro_batches *whole, *whole_ran;
    void *arena, *workspace, *gathered;
    size_t arena_bytes, workspace_bytes, gathered_bytes;
    void (*log)(void *user, int level, const char *text); /* NULL: none */
    void *log_user;
    /* Tables of a run, one entry an input or output: a run allocates nothing.
     */
    struct infer_tensor *in;    /* matched to the graph's inputs */
    struct infer_tensor *out;   /* as the caller asks for them */
    bool *matched;              /* inputs: given by the caller */
    const unsigned char **base; /* where each input is read */
    struct graph_shape *shape;
    int *out_index;
};

/* Copies the caller's options, whose size may be that of another release;
 * fields beyond it get their defaults.  given NULL: the defaults. */
int session_options_read(const struct infer_session_options *given,
                         struct infer_error *err,
                         struct infer_session_options *out);

/* Opens the multiplier and puts its table into the device's memory; text NULL:
 * that of the model, if it has one; "none": exact products.  exact: layers that
 * do without; NULL: those of the model with its multiplier, else none.
 * session->products.entry is the session's. */
int session_take_multiplier(struct infer_session *s, const char *text,
                            const char *exact, struct infer_error *err);

/* What the caller gives: arrays in host memory, or tensors; one is NULL. */
struct session_given {
    const struct infer_array *array;
    const struct infer_tensor *tensor;
    int count;
};

/* Checks the arrays against the graph's inputs; fills session->in and
 * session->shape.  With data: also that there is data and enough of it. */
int session_match_inputs(struct infer_session *s,
                         const struct session_given *in, bool data,
                         struct infer_error *err);
/* Which graph output each array asks for, and that it is large enough; fills
 * session->out. */
int session_match_outputs(struct infer_session *s,
                          const struct session_given *out,
                          struct infer_error *err);
/* Points the plan at the inputs, from image `first` on, converting where types
 * differ. */
int session_take_inputs(struct infer_session *s, int64_t first,
                        struct infer_error *err);
/* Copies the first n_out of session->out to the caller's memory, and describes
 * them.  Without memory they are described only; with lend: where they lie. */
int session_give_outputs(struct infer_session *s, int n_out, bool lend,
                         struct infer_error *err);

/* Tells the caller's log (session_log.c). */
void session_log(const struct infer_session *s, int level, const char *fmt, ...)
    ERROR_PRINTF(3, 4);
/* The session as it was opened; the plan that is new. */
void session_log_open(const struct infer_session *s,
                      const struct infer_session_options *o);
void session_log_plan(const struct infer_session *s);

/* Whether the inputs of g have the shapes of session->shape. */
bool session_has_shapes(const struct infer_session *s, const struct graph *g);
/* The plan for session->shape, chosen if it is not there yet. */
int session_plan(struct infer_session *s, struct infer_error *err,
                 struct plan **out);
/* Prepares a plan; with INFER_PRECISION_BEST it chooses the types of its layers
 * first. */
int session_prepare_plan(struct infer_session *s, struct plan *plan,
                         struct infer_error *err);
/* Forgets a plan, and the micro-batches that it serves. */
void session_drop_plan(struct infer_session *s, struct plan *plan);

/* The shapes of the latest plan, or of the batch that it is a part of. */
static inline const struct graph *session_graph(const struct infer_session *s)
{
    return s->whole ? s->whole->whole : s->current->g;
}
/* Output i of the whole: its bytes, and where it lies after a run. */
size_t session_output_bytes(const struct plan *plan,
                            const struct micro_batches *whole, int i);
void *session_output_data(const struct infer_session *s,
                          const struct plan *plan,
                          const struct micro_batches *whole, int i);

/* The parts in which the batch of session->shape is run, if it was seen. */
struct micro_batches *micro_batches_find(const struct infer_session *s);
/* The same for a batch that is new; *out stays NULL where it is to be run
 * whole. */
int micro_batches_make(struct infer_session *s, struct infer_error *err,
                       struct micro_batches **out);
/* The same for a batch whose plan was refused with EMEMORY: the largest
 * micro-batches that max_memory allows.  EMEMORY, with the least memory that
 * would do, or the error that err holds where micro-batches are no way out. */
int micro_batches_fit(struct infer_session *s, struct infer_error *err,
                      struct micro_batches **out);
/* The first image of the part after the one that begins at `first`; the batch
 * after the last. */
int64_t micro_batches_next(const struct micro_batches *p, int64_t first);
/* Copies the outputs of the part that begins at `first` to the whole ones. */
void micro_batches_gather(struct infer_session *s, int64_t first);
/* Forgets parts[index], whose plan is gone. */
void micro_batches_drop(struct infer_session *s, int index);
void micro_batches_close(struct infer_session *s);

#endif
