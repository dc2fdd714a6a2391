/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a training run. */
#include "tools/train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "tools/load.h"
#include "tools/terminal.h"

bool train_leads(const struct train_run *r)
{
    return !r->exchange || r->exchange->rank == 0;
}

/* ---- steps --------------------------------------------------------- */

static int put_batch(struct train_run *r, const struct loader_batch *b,
                     struct infer_error *err)
{
    return b->readable ? net_put_readable(r->net, b->x, b->label, err)
                       : net_put_batch(r->net, b->x, b->label, err);
}

/* Position of a batch's random numbers; each process has its own. */
static uint64_t place(const struct train_run *r, int64_t batch)
{
    const struct exchange *x = r->exchange;

    return (uint64_t)(x ? batch * x->size + x->rank : batch);
}

static int one_batch(struct train_run *r, const struct loader_batch *b,
                     int micro, struct infer_error *err,
                     struct net_metrics *out)
{
    const int64_t parts = r->request->accumulate;
    const float rate = (float)policy_rate(&r->policy, r->step);
    int rc = put_batch(r, b, err);

    if (rc == 0)
        rc = net_put_control(r->net, rate, r->cli->seed,
                             place(r, r->step * parts + micro), err);
    if (rc == 0)
        rc = net_put_stop(r->net, terminal_interrupt() != 0, err);
    if (rc == 0)
        rc = parts == 1 ? net_step(r->net, err)
                        : net_train(r->net, micro == 0, err);
    /* The update does not wait for the loss: non-finite gradients change
     * nothing, and the caller reports a non-finite loss. */
    if (rc == 0 && parts > 1 && micro == parts - 1)
        rc = net_update(r->net, err);
    return rc < 0 ? rc : net_read_metrics(r->net, err, out);
}

int train_step(struct train_run *r, const struct loader_batch *again,
               struct infer_error *err, struct net_metrics *out,
               int64_t *pictures)
{
    int rc = net_begin(r->net, err);

    memset(out, 0, sizeof(*out));
    *pictures = 0;
    for (int i = 0; rc == 0 && i < r->request->accumulate; i++) {
        const struct loader_batch *b = again;
        struct net_metrics m;

        if (!again)
            rc = loader_next(r->loader, err, &b);
        if (rc == 0)
            rc = one_batch(r, b, i, err, &m);
        if (rc < 0)
            break;
        out->loss += m.loss;
        out->hit += m.hit;
        out->stop = out->stop || m.stop;
        *pictures += b->all;
    }
    return rc < 0 ? rc : net_end(r->net, err);
}

int train_evaluate(struct train_run *r, struct infer_error *err)
{
    const int64_t batches = r->val_loader ? loader_batches(r->val_loader) : 0;
    double loss = 0;
    int64_t hit = 0;
    int rc;

    if (batches == 0)
        return 0;
    rc = loader_start(r->val_loader, 0, 0, err);
    if (rc == 0)
        rc = net_begin(r->net, err);
    for (int64_t i = 0; rc == 0 && i < batches; i++) {
        const struct loader_batch *b;
        struct net_metrics m;

        rc = loader_next(r->val_loader, err, &b);
        if (rc == 0)
            rc = put_batch(r, b, err);
        if (rc == 0)
            rc = net_eval(r->net, err);
        if (rc == 0)
            rc = net_read_metrics(r->net, err, &m);
        if (rc < 0)
            break;
        loss += m.loss;
        hit += m.hit;
    }
    if (rc == 0)
        rc = net_end(r->net, err);
    r->val_loss = loss / (double)r->val.count;
    r->val_accuracy = (double)hit / (double)r->val.count;
    return rc;
}

/* ---- trouble ------------------------------------------------------- */

/* In step `step`, counted from 0. */
static int diverged(const struct train_run *r, int64_t step, const char *what,
                    struct infer_error *err)
{
    char kept[512] = "no checkpoint was written yet";

    if (r->last_saved >= 0)
        snprintf(kept, sizeof(kept),
                 "the checkpoint of step %lld in %s is unharmed",
                 (long long)r->last_saved, r->saved_in);
    return error_set(err, INFER_EMISMATCH,
                     "step %lld: %s (learning rate %g).  Lower --lr, add "
                     "--warmup, or cut gradients with --clip-grad=1; %s",
                     (long long)step + 1, what, policy_rate(&r->policy, step),
                     kept);
}

/* Without a searched loss scale, non-finite gradients mean divergence. */
static int check_gradients(struct train_run *r, struct infer_error *err)
{
    float state[KERN_STEP_SIZE];
    int rc;

    if (r->net->options.step.backoff < 1)
        return 0;
    rc = net_read_state(r->net, state, err);
    if (rc == 0 && state[KERN_STEP_SKIPPED] > 0)
        rc = diverged(r, r->step - 1,
                      r->request->loss_scale > 1
                          ? "gradients are not finite, for which --loss-scale "
                            "may be too large"
                          : "gradients are not finite",
                      err);
    return rc;
}

/* ---- saving -------------------------------------------------------- */

static void note_saved(struct train_run *r)
{
    r->last_saved = r->step;
    r->saved_in = r->request->out;
}

static int write_checkpoint(struct train_run *r, const char *path,
                            struct infer_error *err)
{
    const struct train_request *q = r->request;
    struct checkpoint_info info = {.step = r->step,
                                   .seed = r->cli->seed,
                                   .batch = q->batch,
                                   .accumulate = q->accumulate,
                                   .pictures = r->train.count,
                                   .best = r->best_accuracy,
                                   .kernels = r->kernels,
                                   .graph = r->graph};

    memcpy(info.arch, r->arch, sizeof(info.arch));
    snprintf(info.rule, sizeof(info.rule), "%s", q->rule);
    return checkpoint_write(path, r->net, &info, err);
}

static int save(struct train_run *r, struct infer_error *err)
{
    int rc;

    if (!r->request->out)
        return train_leads(r) ? log_write(&r->log, err) : 0;
    if (r->last_saved == r->step)
        return 0;
    rc = check_gradients(r, err);
    if (rc == 0 && train_leads(r))
        rc = write_checkpoint(r, r->request->out, err);
    if (rc < 0)
        return rc;
    note_saved(r);
    return train_leads(r) ? log_write(&r->log, err) : 0;
}

/* Applies the last validation to --best. */
static int keep_best(struct train_run *r, struct infer_error *err)
{
    if (!(r->val_accuracy > r->best_accuracy))
        return 0;
    r->best_accuracy = r->val_accuracy;
    return r->request->best && train_leads(r)
               ? write_checkpoint(r, r->request->best, err)
               : 0;
}

/* ---- what is shown ------------------------------------------------- */

static void time_text(double seconds, char out[32])
{
    const long s = (long)(seconds + 0.5);

    if (s >= 3600)
        snprintf(out, 32, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 32, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 32, "%.1fs", seconds);
}

/* Sums since the last line or row. */
struct tally {
    double loss, begun;
    int64_t hit, pictures;
};

/* Sums of the epoch and since the last line. */
struct course {
    struct tally epoch, part;
    double begun, shown;
    double before; /* seconds logged before an interruption */
    int64_t first_step;
};

static void live(const struct train_run *r, struct course *c)
{
    static const double every[2] = {
        10, 0.2}; /* seconds, between lines on a terminal */
    const bool terminal = isatty(STDERR_FILENO);
    const double now = cli_now();
    const int64_t done = r->step - c->first_step;
    const struct tally *t = &c->epoch;
    char left[32];

    if (r->cli->verbosity < 0 || now - c->shown < every[terminal] ||
        t->pictures == 0)
        return;
    c->shown = now;
    time_text((now - c->begun) * (double)(r->total_steps - r->step) /
                  (double)done,
              left);
    fprintf(
        stderr,
        "%sepoch %lld  step %lld/%lld  loss %.4f  accuracy %.2f%%  "
        "%.0f images/s  %s left%s",
        terminal ? "\r" : "",
        (long long)((r->step - 1) / r->steps_per_epoch + 1), (long long)r->step,
        (long long)r->total_steps, t->loss / (double)t->pictures,
        100 * (double)t->hit / (double)t->pictures,
        (double)t->pictures / (now - t->begun), left, terminal ? "   " : "\n");
    fflush(stderr);
}

/* True if the progress line is on a terminal. */
static void clear_line(const struct train_run *r)
{
    if (r->cli->verbosity >= 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

/* trained: time of the last step, before validation. */
static void epoch_line(const struct train_run *r, const struct tally *t,
                       double trained)
{
    char seconds[32], val[96] = "";

    if (r->cli->verbosity < 0 || r->cli->json || t->pictures == 0)
        return;
    time_text(cli_now() - t->begun, seconds);
    if (r->val.count > 0)
        snprintf(val, sizeof(val), "validation loss %.4f, accuracy %.2f%%, ",
                 r->val_loss, 100 * r->val_accuracy);
    clear_line(r);
    printf("epoch %lld: loss %.4f, accuracy %.2f%%, %s%.0f images/s, %s\n",
           (long long)((r->step - 1) / r->steps_per_epoch + 1),
           t->loss / (double)t->pictures,
           100 * (double)t->hit / (double)t->pictures, val,
           (double)t->pictures / (trained - t->begun), seconds);
    fflush(stdout);
}

static int add_row(struct train_run *r, const struct course *c, bool validated,
                   double trained, struct infer_error *err)
{
    const struct tally *t = &c->part;
    const double n = (double)t->pictures;
    struct log_row row = {
        .step = r->step,
        .epoch = (double)r->step / (double)r->steps_per_epoch,
        .rate = policy_rate(&r->policy, r->step - 1),
        .loss = n > 0 ? t->loss / n : NAN,
        .accuracy = n > 0 ? (double)t->hit / n : NAN,
        .val_loss = validated ? r->val_loss : NAN,
        .val_accuracy = validated ? r->val_accuracy : NAN,
        .images_per_second = n > 0 ? n / (trained - t->begun) : NAN,
        .seconds = c->before + cli_now() - c->begun,
    };

    return log_add(&r->log, &row, err);
}

/* ---- the loop ------------------------------------------------------ */

static void count(struct tally *t, const struct net_metrics *m,
                  int64_t pictures)
{
    t->loss += m->loss;
    t->hit += m->hit;
    t->pictures += pictures;
}

static void restart(struct tally *t)
{
    memset(t, 0, sizeof(*t));
    t->begun = cli_now();
}

static int end_epoch(struct train_run *r, struct course *c,
                     struct infer_error *err)
{
    const double trained = cli_now();
    int rc = check_gradients(r, err);

    if (rc == 0)
        rc = train_evaluate(r, err);
    if (rc == 0)
        rc = add_row(r, c, r->val.count > 0, trained, err);
    if (rc < 0)
        return rc;
    epoch_line(r, &c->epoch, trained);
    rc = keep_best(r, err);
    restart(&c->epoch);
    restart(&c->part);
    return rc;
}

/* After each step: a row, a checkpoint, the end of an epoch. */
static int after_step(struct train_run *r, struct course *c,
                      struct infer_error *err)
{
    const int64_t every = train_steps_of(r, r->request->snapshot);
    const int64_t rows =
        r->steps_per_epoch > 100 ? r->steps_per_epoch / 100 : 1;
    const bool ends =
        r->step % r->steps_per_epoch == 0 || r->step == r->total_steps;
    int rc = 0;

    if (ends)
        rc = end_epoch(r, c, err);
    else if (r->step % rows == 0) {
        rc = add_row(r, c, false, cli_now(), err);
        restart(&c->part);
    }
    if (rc == 0 &&
        ((every > 0 && r->step % every == 0) || (every <= 0 && ends) ||
         r->step == r->total_steps || r->stop))
        rc = save(r, err);
    return rc;
}

static int loop(struct train_run *r, struct infer_error *err)
{
    /* Batches run on across epochs: a step may span two. */
    const int64_t taken = r->step * r->request->accumulate;
    const int64_t batches = loader_batches(r->loader);
    struct course c = {.begun = cli_now(), .first_step = r->step};
    const double waited = load_waited();
    int rc = loader_start(r->loader, taken / batches, taken % batches, err);

    if (r->log.count > 0)
        c.before = r->log.row[r->log.count - 1].seconds;
    c.shown = c.begun;
    restart(&c.epoch);
    restart(&c.part);
    while (rc == 0 && r->step < r->total_steps && !r->stop) {
        struct net_metrics m;
        int64_t pictures;

        rc = train_step(r, NULL, err, &m, &pictures);
        if (rc == 0 && !isfinite(m.loss))
            rc = diverged(r, r->step, "the loss is not finite", err);
        if (rc < 0)
            break;
        r->step++;
        /* All processes must stop after the same step. */
        r->stop = r->exchange ? m.stop : terminal_interrupt() != 0;
        count(&c.epoch, &m, pictures);
        count(&c.part, &m, pictures);
        live(r, &c);
        rc = after_step(r, &c, err);
    }
    clear_line(r);
    if (rc == 0 && train_leads(r) && !r->device.ops->identify)
        load_note(r->cli, load_waited() - waited, cli_now() - c.begun,
                  r->device.kern.threads);
    return rc;
}

/* A run that was resumed and has nothing left to do: success, for a supervisor
 * that starts it again until it succeeds. */
static int finish_complete(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;

    if (!train_leads(r))
        return 0;
    if (r->cli->verbosity >= 0)
        cli_error(r->cli,
                  "%s: the run is complete at step %lld; ask for more with "
                  "--epochs or --steps",
                  q->resume, (long long)r->step);
    return q->out && !cli_same_file(q->out, q->resume)
               ? write_checkpoint(r, q->out, err)
               : 0;
}

int train_run(struct train_run *r, struct infer_error *err)
{
    int rc;

    if (r->step >= r->total_steps && r->request->resume)
        return finish_complete(r, err);
    terminal_catch_interrupts();
    rc = loop(r, err);
    /* A failed run writes its log too. */
    if (rc < 0 && train_leads(r))
        (void)log_write(&r->log, NULL);
    if (rc == 0 && r->stop && train_leads(r)) {
        cli_error(r->cli, "stopped at step %lld of %lld; %s",
                  (long long)r->step, (long long)r->total_steps,
                  r->request->out ? "go on with --resume"
                                  : "nothing was saved: there is no -o");
    }
    return rc;
}
