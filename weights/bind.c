/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the weights of an architecture their data from a dictionary.
 *
 * Both sides may say more than the other needs: a checkpoint holds training
 * state, and its keys may carry the prefix of a wrapper.  Everything that does
 * not fit is listed in one report.
 */
#include "weights/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/base/text.h"
#include "weights/layout.h"

/* Tensors that only training uses, by their names' beginnings and ends. */
static const struct {
    const char *begin, *end, *why;
} training_only[] = {
    {"", "num_batches_tracked", "counter of training steps"},
    {"n_averaged", "", "counter of training steps"},
    {"", "total_ops", "counter of a profiler"},
    {"", "total_params", "counter of a profiler"},
    {"train.weight.", "", "weight behind an average"},
    {"train.", "", "optimiser state"},
    {"aux1.", "", "auxiliary classifier, used in training only"},
    {"aux2.", "", "auxiliary classifier, used in training only"},
    {"aux_classifier.", "", "auxiliary classifier, used in training only"},
    {"AuxLogits.", "", "auxiliary classifier, used in training only"},
};

/* True where a word of the key's first part, "val" and "loss" of
 * "val_loss.weight", says that a loss or a metric keeps the tensor. */
static bool is_of_loss_or_metric(const char *key)
{
    static const char *const words[] = {
        "loss", "losses", "criterion", "metric", "metrics", "acc", "accuracy"};
    const char *end = strchr(key, '.');

    for (const char *at = key; end && at < end;) {
        const size_t bytes = strcspn(at, "_.");

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (bytes == strlen(words[i]) && strncmp(at, words[i], bytes) == 0)
                return true;
        at += bytes + 1;
    }
    return false;
}

static const char *training_reason(const char *name)
{
    for (size_t i = 0; i < sizeof(training_only) / sizeof(training_only[0]);
         i++)
        if (text_begins(name, training_only[i].begin) &&
            text_ends(name, training_only[i].end))
            return training_only[i].why;
    return is_of_loss_or_metric(name) ? "of a loss or a metric" : NULL;
}

/* A value that waits for data. */
static bool is_weight(const struct graph *g, int value)
{
    const struct graph_value *v = &g->value[value];

    if (!v->name || v->producer >= 0 || v->data)
        return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (g->input[i] == value)
            return false;
    return true;
}

/* ---- prefixes ------------------------------------------------------ */

/* What a wrapper (DataParallel, Lightning, a model of which the network is one
 * part) puts before the keys: the first bytes of one of them. */
struct prefix {
    const char *text;
    size_t bytes;
};

/* The key behind the prefix; NULL where it does not begin so. */
static const char *behind(const char *key, struct prefix p)
{
    return p.bytes == 0 || strncmp(key, p.text, p.bytes) == 0 ? key + p.bytes
                                                              : NULL;
}

/* The same; a key without the prefix as it is. */
static const char *bare(const char *key, struct prefix p)
{
    const char *rest = behind(key, p);

    return rest ? rest : key;
}

/* How many weights of the graph the dictionary has behind a prefix. */
static size_t count_found(const struct graph *g,
                          const struct weights_dict *dict, struct prefix p)
{
    size_t n = 0;

    for (size_t i = 0; i < dict->count; i++) {
        const char *name = behind(dict->entry[i].name, p);
        int v = name ? graph_find_value(g, name) : -1;

        n += v >= 0 && is_weight(g, v);
    }
    return n;
}

/* Bytes of the key up to the next dot behind the prefix; 0 where there is none.
 */
static size_t next_dot(const char *key, struct prefix p)
{
    const char *rest = behind(key, p);
    const char *dot = rest ? strchr(rest, '.') : NULL;

    return dot ? (size_t)(dot + 1 - key) : 0;
}

/* Lengthens the prefix by the part that more than half of all keys have next
 * (the vote of Boyer and Moore).  False where there is none. */
static bool lengthen(const struct weights_dict *dict, struct prefix *p)
{
    struct prefix next = {NULL, 0};
    size_t votes = 0, count = 0;

    for (size_t i = 0; i < dict->count; i++) {
        const char *key = dict->entry[i].name;
        const size_t bytes = next_dot(key, *p);
        const bool same = bytes > 0 && bytes == next.bytes &&
                          strncmp(key, next.text, bytes) == 0;

        if (votes == 0 && bytes > 0)
            next = (struct prefix){key, bytes};
        votes = votes == 0 ? bytes > 0 : same ? votes + 1 : votes - 1;
    }
    for (size_t i = 0; next.bytes > 0 && i < dict->count; i++)
        count += behind(dict->entry[i].name, next) != NULL;
    if (count * 2 <= dict->count)
        return false;
    *p = next;
    return true;
}

/* The prefix of most keys that makes the most of them agree with the graph. */
static struct prefix shared_prefix(const struct graph *g,
                                   const struct weights_dict *dict)
{
    struct prefix p = {"", 0}, best = p;
    size_t best_found = count_found(g, dict, p);

    while (lengthen(dict, &p)) {
        const size_t found = count_found(g, dict, p);

        if (found > best_found) {
            best = p;
            best_found = found;
        }
    }
    return best;
}

/* ---- shapes -------------------------------------------------------- */

static void format_shape(int rank, const int64_t *dim, char *buf, size_t bytes)
{
    size_t used = 0;

    snprintf(buf, bytes, "%s", rank == 0 ? "scalar" : "");
    for (int i = 0; i < rank && used < bytes; i++)
        used += (size_t)snprintf(buf + used, bytes - used, "%s%lld",
                                 i ? "x" : "", (long long)dim[i]);
}

/* Equal but for dimensions of size 1. */
static bool shapes_agree(int rank_a, const int64_t *a, int rank_b,
                         const int64_t *b)
{
    int i = 0, j = 0;

    for (;;) {
        while (i < rank_a && a[i] == 1)
            i++;
        while (j < rank_b && b[j] == 1)
            j++;
        if (i == rank_a || j == rank_b)
            return i == rank_a && j == rank_b;
        if (a[i++] != b[j++])
            return false;
    }
}

static bool dims_known(const struct graph_value *v)
{
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] < 0)
            return false;
    return v->rank >= 0;
}

/* ---- binding ------------------------------------------------------- */

/* The same bytes in another shape: a copy, because the passes edit weights in
 * place while the dictionary still has its own. */
static struct constant *reshaped(struct constant *c,
                                 const struct graph_value *v)
{
    struct constant *to;

    if (c->rank == v->rank &&
        memcmp(c->dim, v->dim, (size_t)c->rank * sizeof(c->dim[0])) == 0)
        return constant_ref(c);
    to = constant_new(c->dtype, v->rank, v->dim);
    if (to)
        memcpy(to->data, c->data, c->bytes);
    return to;
}

/* The constant as the graph wants it: its shape, and its type where it states
 * one, else fp32 for every floating-point type. */
static struct constant *as_wanted(const struct graph_value *v,
                                  struct constant *c)
{
    enum infer_dtype dtype = v->dtype;
    struct constant *shaped, *converted;

    if (dtype == INFER_NONE)
        dtype = scalar_is_float(c->dtype) ? INFER_F32 : c->dtype;
    if (!dims_known(v))
        return constant_convert(c, dtype);
    shaped = reshaped(c, v);
    if (!shaped)
        return NULL;
    converted = constant_convert(shaped, dtype);
    constant_unref(shaped);
    return converted;
}

static int bind_one(struct graph *g, int value, struct constant *c,
                    bool partial, struct infer_error *err)
{
    const struct graph_value *v = &g->value[value];
    char have[128], want[128];
    struct constant *bound;

    if (dims_known(v) && !shapes_agree(v->rank, v->dim, c->rank, c->dim)) {
        if (partial)
            return 0;
        format_shape(c->rank, c->dim, have, sizeof(have));
        format_shape(v->rank, v->dim, want, sizeof(want));
        return error_add(err, INFER_EFORMAT,
                         "tensor '%s' is %s, the architecture wants %s",
                         v->name, have, want);
    }
    bound = as_wanted(v, c);
    if (!bound)
        return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory",
                         v->name);
    return graph_set_constant(g, value, bound, err);
}

/* The name under which the graph may know a tensor.  torchvision's DenseNet
 * files were written before its layers were renamed: "denselayer1.norm.1" is
 * "denselayer1.norm1" now. */
static const char *present_name(const char *name, char *buf, size_t bytes)
{
    const char *layer = strstr(name, "denselayer");
    const char *dot = layer ? strchr(layer, '.') : NULL;

    if (!dot || strlen(name) >= bytes ||
        (!text_begins(dot, ".norm.") && !text_begins(dot, ".conv.")))
        return name;
    snprintf(buf, bytes, "%.*s%s", (int)(dot + 5 - name), name, dot + 6);
    return buf;
}

/* The value that each entry is for: target[i], or -1. */
static void find_targets(const struct graph *g, const struct weights_dict *dict,
                         struct prefix p, int *target)
{
    for (size_t i = 0; i < dict->count; i++) {
        const char *name = behind(dict->entry[i].name, p);
        char buf[512];

        target[i] =
            name ? graph_find_value(g, present_name(name, buf, sizeof(buf)))
                 : -1;
        if (target[i] >= 0 && !is_weight(g, target[i]))
            target[i] = -1;
    }
}

/* An entry that is no weight: training state, or a fault. */
static int surplus(struct weights_dict *dict, size_t i, struct prefix p,
                   struct infer_error *err)
{
    const char *key = dict->entry[i].name;
    const char *why = training_reason(bare(key, p));

    if (!why)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%s' of the file has no place in the "
                         "architecture",
                         key);
    if (weights_dict_strip(dict, key, dict->entry[i].value->bytes, why) < 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return 0;
}

/* Binds every entry.  met[v] is set for each weight that the dictionary has,
 * in whatever shape. */
static int bind_entries(struct graph *g, struct weights_dict *dict,
                        struct prefix p, const int *target, bool partial,
                        unsigned char *met, struct infer_error *err)
{
    int worst = 0;

    for (size_t i = 0; i < dict->count; i++) {
        int rc = 0;

        if (target[i] >= 0) {
            met[target[i]] = 1;
            rc = bind_one(g, target[i], dict->entry[i].value, partial, err);
        } else if (!partial) {
            rc = surplus(dict, i, p, err);
        }
        if (rc == INFER_EMEMORY)
            return rc;
        if (rc < 0)
            worst = rc;
    }
    return worst;
}

static int list_missing(const struct graph *g, const unsigned char *met,
                        struct infer_error *err)
{
    int worst = 0;

    for (int v = 0; v < g->n_values; v++) {
        char want[128] = "";

        if (met[v] || !is_weight(g, v))
            continue;
        if (dims_known(&g->value[v]))
            format_shape(g->value[v].rank, g->value[v].dim, want, sizeof(want));
        worst = error_add(err, INFER_EFORMAT,
                          "tensor '%s'%s%s is missing from the file",
                          g->value[v].name, want[0] ? " " : "", want);
    }
    return worst;
}

/* Binds what find_targets() found, and lists what has no partner. */
static int bind_all(struct graph *g, struct weights_dict *dict, struct prefix p,
                    const int *target, bool partial, unsigned char *met,
                    struct infer_error *err)
{
    int rc = bind_entries(g, dict, p, target, partial, met, err);
    int missing = 0;

    if (rc != INFER_EMEMORY && !partial)
        missing = list_missing(g, met, err);
    return missing < 0 ? missing : rc;
}

int weights_bind(struct graph *g, struct weights_dict *dict,
                 const struct weights_options *options, struct infer_error *err)
{
    enum weights_dense_order order =
        options ? options->dense_order : WEIGHTS_DENSE_AUTO;
    enum weights_layout layout =
        options ? options->layout : WEIGHTS_LAYOUT_AUTO;
    const struct prefix p = shared_prefix(g, dict);
    unsigned char *met = calloc((size_t)g->n_values + 1, 1);
    int *target = calloc(dict->count + 1, sizeof(*target));
    int rc;

    error_clear(err);
    if (met && target) {
        find_targets(g, dict, p, target);
        rc = weights_to_channels_first(g, dict, target, &layout, err);
    } else {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc == 0)
        rc =
            bind_all(g, dict, p, target, options && options->partial, met, err);
    if (order == WEIGHTS_DENSE_AUTO && layout == WEIGHTS_CHANNELS_LAST)
        order = WEIGHTS_DENSE_HWC;
    if (rc == 0 && order == WEIGHTS_DENSE_HWC)
        rc = weights_reorder_dense(g, err);
    free(target);
    free(met);
    return rc;
}

/* ---- fit ----------------------------------------------------------- */

size_t weights_count_needed(const struct weights_dict *dict)
{
    size_t n = 0;

    for (size_t i = 0; i < dict->count; i++) {
        const char *rest = dict->entry[i].name, *dot;

        while (!training_reason(rest) && (dot = strchr(rest, '.')) != NULL)
            rest = dot + 1;
        n += !training_reason(rest);
    }
    return n;
}

size_t weights_count_open(const struct graph *g)
{
    size_t n = 0;

    for (int v = 0; v < g->n_values; v++)
        n += is_weight(g, v);
    return n;
}

/* A shape in TensorFlow's order: R,S,C,K for K,C,R,S. */
static bool agrees_channels_last(const struct graph_value *v,
                                 const struct constant *c)
{
    const int n = v->rank;

    if (n < 2 || c->rank != n)
        return n < 2 && shapes_agree(n, v->dim, c->rank, c->dim);
    for (int i = 2; i < n; i++)
        if (c->dim[i - 2] != v->dim[i])
            return false;
    return c->dim[n - 1] == v->dim[0] && c->dim[n - 2] == v->dim[1];
}

static void fit_example(struct weights_fit *fit, const struct graph_value *v,
                        const struct constant *c)
{
    char have[96], want[96];

    if (fit->example[0])
        return;
    format_shape(v->rank, v->dim, want, sizeof(want));
    if (c) {
        format_shape(c->rank, c->dim, have, sizeof(have));
        snprintf(fit->example, sizeof(fit->example),
                 "'%.48s' is %s, the architecture wants %s", v->name, have,
                 want);
    } else {
        snprintf(fit->example, sizeof(fit->example), "'%.48s' %s is missing",
                 v->name, want);
    }
}

/* Fit in one order of axes. */
static void fit_in_order(const struct graph *g, const struct weights_dict *dict,
                         struct prefix p, const int *target, bool channels_last,
                         unsigned char *met, struct weights_fit *fit)
{
    memset(fit, 0, sizeof(*fit));
    memset(met, 0, (size_t)g->n_values + 1);
    for (size_t i = 0; i < dict->count; i++) {
        const struct constant *c = dict->entry[i].value;
        const struct graph_value *v;

        if (target[i] < 0) {
            fit->surplus += !training_reason(bare(dict->entry[i].name, p));
            continue;
        }
        v = &g->value[target[i]];
        met[target[i]] = 1;
        if (!dims_known(v) ||
            (channels_last ? agrees_channels_last(v, c)
                           : shapes_agree(v->rank, v->dim, c->rank, c->dim))) {
            fit->agree++;
        } else {
            fit->misshaped++;
            fit_example(fit, v, c);
        }
    }
    for (int v = 0; v < g->n_values; v++)
        if (!met[v] && is_weight(g, v)) {
            fit->missing++;
            fit_example(fit, &g->value[v], NULL);
        }
    for (size_t i = 0; i < dict->count && !fit->example[0]; i++)
        if (target[i] < 0 && !training_reason(bare(dict->entry[i].name, p)))
            snprintf(fit->example, sizeof(fit->example),
                     "'%.48s' is not in the architecture", dict->entry[i].name);
}

int weights_measure_fit(const struct graph *g, const struct weights_dict *dict,
                        struct infer_error *err, struct weights_fit *out)
{
    const struct prefix p = shared_prefix(g, dict);
    unsigned char *met = calloc((size_t)g->n_values + 1, 1);
    int *target = calloc(dict->count + 1, sizeof(*target));
    struct weights_fit other;
    int rc = INFER_OK;

    if (met && target) {
        find_targets(g, dict, p, target);
        fit_in_order(g, dict, p, target, false, met, out);
        fit_in_order(g, dict, p, target, true, met, &other);
        if (other.misshaped < out->misshaped)
            *out = other;
    } else {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    free(target);
    free(met);
    return rc;
}
