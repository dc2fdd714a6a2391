/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the pictures of a run and checks them against the network and each
 * other. */
#include "tools/train/train.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "libinfer/image/preprocess.h"

static int wish_of(const struct graph *g, struct infer_error *err,
                   struct data_wish *out)
{
    const struct graph_value *v =
        g->n_inputs > 0 ? &g->value[g->input[0]] : NULL;

    if (!v || v->rank != 4 || (v->dim[1] != 1 && v->dim[1] != 3) ||
        v->dim[2] < 1 || v->dim[3] < 1 || v->dim[2] > 16384 ||
        v->dim[3] > 16384)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the network's input is no picture of 1 or 3 "
                         "channels and a fixed size");
    out->channels = (int)v->dim[1];
    out->height = (int)v->dim[2];
    out->width = (int)v->dim[3];
    out->preprocess = *preprocess_of(g, 0);
    return 0;
}

/* Pictures that cannot be resized must have the network's input size. */
static int check_size(const struct data_set *set, const struct data_wish *wish,
                      struct infer_error *err)
{
    if (set->channels == wish->channels && set->height == wish->height &&
        set->width == wish->width)
        return 0;
    return error_set(err, INFER_EFORMAT,
                     "%s: its pictures are %dx%dx%d, but the network takes "
                     "%dx%dx%d: choose another --arch",
                     set->path, set->channels, set->height, set->width,
                     wish->channels, wish->height, wish->width);
}

static int open_data(struct train_run *r, const struct data_wish *wish,
                     struct infer_error *err)
{
    const struct train_request *q = r->request;
    const char *val = q->val ? q->val : q->data;
    int rc = data_open(q->data, DATA_TRAIN, wish, err, &r->train);

    /* Only the names of the classes count. */
    if (rc == DATA_ABSENT && q->evaluate)
        rc = data_open(val, DATA_TEST, wish, err, &r->train);
    if (rc == 0)
        rc = check_size(&r->train, wish, err);
    if (rc != 0)
        return rc < 0 ? rc : INFER_EFORMAT;
    rc = data_open(val, DATA_TEST, wish, err, &r->val);
    /* --val, and --data of --evaluate, may also be pictures without parts. */
    if (rc == DATA_ABSENT && (q->val || q->evaluate))
        rc = data_open(val, DATA_TRAIN, wish, err, &r->val);
    if (rc == DATA_ABSENT && !q->val) {
        if (r->cli->verbosity >= 0)
            cli_error(r->cli,
                      "%s: no test pictures there: no validation (--val names "
                      "some)",
                      q->data);
        return 0;
    }
    if (rc != 0)
        return rc < 0 ? rc : INFER_EFORMAT;
    return check_size(&r->val, wish, err);
}

/* Both parts must number their classes alike. */
static int check_names(const struct train_run *r, struct infer_error *err)
{
    const struct data_set *a = &r->train, *b = &r->val;

    if (!a->class_name || !b->class_name)
        return 0;
    if (a->classes != b->classes)
        return error_set(err, INFER_EFORMAT, "%s has %d classes, %s has %d",
                         a->path, a->classes, b->path, b->classes);
    for (int i = 0; i < a->classes; i++)
        if (strcmp(a->class_name[i], b->class_name[i]) != 0)
            return error_set(
                err, INFER_EFORMAT, "class %d is '%s' in %s and '%s' in %s", i,
                a->class_name[i], a->path, b->class_name[i], b->path);
    return 0;
}

int train_check_classes(const struct train_run *r, const struct net *n,
                        struct infer_error *err)
{
    const int64_t have = r->train.classes, want = n->classes;

    if (have < 2)
        return error_set(err, INFER_EFORMAT,
                         "%s: all its pictures are of one class%s%s: there is "
                         "nothing to tell apart (folders: one for each class)",
                         r->train.path, r->train.class_name ? ", " : "",
                         r->train.class_name ? r->train.class_name[0] : "");
    if (have > want || (r->train.class_name && have != want))
        return error_set(err, INFER_EFORMAT,
                         "%s: has %lld classes, but the network scores %lld: "
                         "choose another --arch, or change its last layer",
                         r->train.path, (long long)have, (long long)want);
    if (r->val.count > 0 && r->val.classes > want)
        return error_set(err, INFER_EFORMAT,
                         "%s: has %d classes, but the network scores %lld: it "
                         "belongs to another set than %s",
                         r->val.path, r->val.classes, (long long)want,
                         r->train.path);
    return 0;
}

/* Fewer than a batch: they are one, or as many of them as every process has. */
static void note_small_set(const struct train_run *r)
{
    if (r->train.count < r->request->batch && r->cli->verbosity >= 0)
        cli_error(r->cli,
                  "%s: %lld pictures do not fill a batch of %lld: a batch has "
                  "%lld",
                  r->train.path, (long long)r->train.count,
                  (long long)r->request->batch, (long long)train_batch(r));
}

/* Unused class numbers are allowed.  A damaged label would add a class, and to
 * a built-in network a score. */
static int note_empty_classes(const struct train_run *r,
                              struct infer_error *err)
{
    const struct data_set *set = &r->train;
    bool *met = calloc((size_t)set->classes, sizeof(*met));
    int count = 0;

    if (!met)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < set->count; i++) {
        count += !met[set->label[i]];
        met[set->label[i]] = true;
    }
    free(met);
    if (count < set->classes && r->cli->verbosity >= 0)
        cli_error(r->cli,
                  "%s: labels reach %d, but only %d classes have pictures",
                  set->path, set->classes - 1, count);
    return 0;
}

static int write_labels(const struct train_run *r, struct infer_error *err)
{
    const struct data_set *set = &r->train;
    struct file_writer w;
    uint64_t at = 0;
    int rc;

    if (!set->class_name)
        return error_set(err, INFER_EARGUMENT,
                         "%s: its classes are numbers: --write-labels is for "
                         "folders",
                         set->path);
    rc = file_writer_open(r->request->labels, err, &w);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < set->classes; i++) {
        const size_t length = strlen(set->class_name[i]);

        if (strchr(set->class_name[i], '\n'))
            rc = error_set(err, INFER_EFORMAT,
                           "%s: the name of class '%s' is more than a line",
                           set->path, set->class_name[i]);
        else
            rc = file_writer_put(&w, at, set->class_name[i], length, err);
        if (rc == 0)
            rc = file_writer_put(&w, at + length, "\n", 1, err);
        at += length + 1;
    }
    if (rc == 0)
        return file_writer_commit(&w, err);
    file_writer_abort(&w);
    return rc;
}

int train_open_pictures(struct train_run *r, const struct graph *g,
                        struct infer_error *err)
{
    const struct train_request *q = r->request;
    struct data_wish wish;
    int rc = wish_of(g, err, &wish);

    wish.max_pixels = (uint64_t)q->max_pixels;
    if (rc == 0)
        rc = open_data(r, &wish, err);
    if (rc == 0)
        rc = check_names(r, err);
    if (rc == 0 && q->evaluate)
        rc = data_number_by(&r->train, g->label, g->n_labels, err);
    if (rc == 0 && q->evaluate)
        rc = data_number_by(&r->val, g->label, g->n_labels, err);
    if (rc == 0 && !q->evaluate)
        rc = note_empty_classes(r, err);
    if (rc == 0 && q->best && r->val.count == 0)
        rc = error_set(err, INFER_EARGUMENT,
                       "--best needs test pictures: name some with --val");
    if (rc == 0 && q->labels && train_is_run(q) && train_leads(r))
        rc = write_labels(r, err);
    if (rc < 0)
        return rc;
    r->preprocess = wish.preprocess;
    if (!q->grad_check && !q->evaluate)
        note_small_set(r);
    return 0;
}
