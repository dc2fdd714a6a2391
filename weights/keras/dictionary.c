/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keras: weights without a configuration, as a dictionary for an architecture.
 *
 * An entry is called like the constant that the reader of whole models makes
 * of it, so that an architecture file written from such a model binds:
 *
 *     <layer>.weight        kernel, W, gamma, alpha
 *     <layer>.bias          bias, b, beta
 *     <layer>.running_mean  moving_mean, running_mean
 *     <layer>.running_var   moving_variance, running_std (Keras 1 means the
 *                           variance by it)
 *     <layer>.depthwise.weight, <layer>.pointwise.weight
 *                           of a separable convolution
 *
 * and its values lie as in the graph: convolutions (R,S,C,K) become (K,C,R,S),
 * depthwise kernels (R,S,C,M) become (C*M,1,R,S), dense ones (C,K) become
 * (K,C), slopes (H,W,C) of PReLU become (C,H,W).  <layer> is Keras' layer name;
 * "model/layer" for a model inside a model.  In old files a kernel may have any
 * name: then rank and place decide, the first array of rank 2 and more being
 * the weight and the first vector the bias.  What still is unclear keeps Keras'
 * own name and order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/keras/keras.h"

/* What a variable is. */
enum role { UNKNOWN, KERNEL, DEPTHWISE, POINTWISE, VECTOR, SLOPES };

static const struct {
    const char *word, *suffix;
    enum role role;
} words[] = {{"kernel", "weight", KERNEL},
             {"recurrent_kernel", "recurrent_weight", KERNEL},
             {"W", "weight", KERNEL},
             {"bias", "bias", VECTOR},
             {"b", "bias", VECTOR},
             {"gamma", "weight", VECTOR},
             {"beta", "bias", VECTOR},
             {"moving_mean", "running_mean", VECTOR},
             {"running_mean", "running_mean", VECTOR},
             {"moving_variance", "running_var", VECTOR},
             {"running_std", "running_var", VECTOR},
             {"depthwise_kernel", "weight", DEPTHWISE},
             {"pointwise_kernel", "pointwise.weight", POINTWISE},
             {"alpha", "weight", SLOPES}};

/* One variable of a layer while it is named. */
struct found {
    struct constant *value;
    char layer[512];
    char word[256]; /* Keras' name of it */
    enum role role;
    const char *suffix; /* NULL: as Keras names it */
};

/* ---- layout -------------------------------------------------------- */

/* Whether a kernel of rank 4 (5, 3) is (K,C,window) already, as channels-first
 * models of Keras 1 have it: the bias tells the number of outputs. */
static bool is_window_last(const struct constant *c, int64_t outputs)
{
    const int last = c->rank - 1;

    return outputs >= 0 && c->dim[0] == outputs && c->dim[last] != outputs &&
           c->dim[last - 1] != outputs;
}

/* Slopes (spatial, C) to (C, spatial), unless only the first axis counts, as
 * in a channels-first model with shared axes. */
static struct constant *arrange_slopes(struct constant *c)
{
    int order[INFER_MAX_RANK];
    bool first_only = c->dim[0] > 1;

    for (int i = 1; i < c->rank; i++) {
        first_only = first_only && c->dim[i] == 1;
        order[i] = i - 1;
    }
    order[0] = c->rank - 1;
    return first_only ? constant_ref(c) : constant_transpose(c, order);
}

/* apart: no other tensor of the file views the bytes of c. */
static struct constant *arrange(struct constant *c, enum role role,
                                int64_t outputs, bool apart)
{
    int order[INFER_MAX_RANK];
    int64_t dim[INFER_MAX_RANK];
    const int n = c->rank - 2;

    if (role == SLOPES && c->rank > 1)
        return arrange_slopes(c);
    if (n < 0 || c->rank > 5 || role == SLOPES || role == VECTOR ||
        role == UNKNOWN ||
        (n > 0 && role == KERNEL && is_window_last(c, outputs)))
        return constant_ref(c);
    const bool depthwise = role == DEPTHWISE;
    order[0] = depthwise ? n : n + 1;
    order[1] = depthwise ? n + 1 : n;
    for (int i = 0; i < n; i++)
        order[i + 2] = i;
    if (apart && !depthwise && constant_transpose_here(c, order))
        return constant_ref(c);
    struct constant *t = constant_transpose(c, order);
    if (t == NULL || !depthwise)
        return t;
    memcpy(dim, t->dim, sizeof dim);
    struct constant *w = NULL;
    if (checked_mul_i64(dim[0], dim[1], &dim[0])) {
        dim[1] = 1;
        w = constant_reshape(t, t->rank, dim);
    }
    constant_unref(t);
    return w;
}

/* ---- naming -------------------------------------------------------- */

static void look_up(struct found *v)
{
    const char *word = v->word;
    const char *under = strrchr(word, '_');

    v->role = UNKNOWN;
    v->suffix = NULL;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const size_t n = strlen(words[i].word), m = strlen(word);
            /* Keras 1: "conv1_W", "bn_running_mean". */
            const bool match =
                round == 0 ? strcmp(word, words[i].word) == 0
                           : m > n && word[m - n - 1] == '_' &&
                                 strcmp(word + m - n, words[i].word) == 0;
            if (!match || (round == 1 && under == NULL))
                continue;
            v->role = words[i].role;
            v->suffix = words[i].suffix;
            return;
        }
    }
}

/* The dictionary, and the role of each of its entries: kernels are arranged
 * once all of them were read. */
struct bare {
    struct weights_dict *dict;
    struct noted {
        enum role role;
        int64_t outputs;
    } * noted;
    size_t count, capacity;
};

/* Notes what the next entry of the dictionary is. */
static int note_role(struct bare *bare, enum role role, int64_t outputs,
                     struct infer_error *err)
{
    if (bare->count == bare->capacity) {
        const size_t wanted = bare->capacity ? 2 * bare->capacity : 64;
        void *grown = realloc(bare->noted, wanted * sizeof *bare->noted);
        if (grown == NULL)
            return error_set(err, INFER_EMEMORY, "no memory for names");
        bare->noted = grown;
        bare->capacity = wanted;
    }
    bare->noted[bare->count++] = (struct noted){role, outputs};
    return 0;
}

static int add_unknown(struct bare *bare, const char *name, struct constant *c,
                       struct infer_error *err)
{
    const int rc = note_role(bare, UNKNOWN, -1, err);

    return rc < 0 ? rc
                  : weights_dict_add(bare->dict, name, constant_ref(c), err);
}

/* Arranges the entries one by one; the pages of the file below one that was
 * copied go back to the system. */
static int arrange_all(struct bare *bare, bool apart, struct infer_error *err)
{
    for (size_t i = 0; i < bare->count && i < bare->dict->count; i++) {
        struct weights_entry *e = &bare->dict->entry[i];
        struct constant *c = arrange(e->value, bare->noted[i].role,
                                     bare->noted[i].outputs, apart);
        if (c == NULL)
            return error_set(err, INFER_EMEMORY, "no memory for '%s'", e->name);
        if (apart && c->data != e->value->data)
            constant_give_back(e->value);
        else
            constant_unref(e->value);
        e->value = c;
    }
    return 0;
}

static int finish(struct bare *bare, const struct hdf5_file *f, int rc,
                  struct infer_error *err)
{
    if (rc >= 0)
        rc = arrange_all(bare, hdf5_arrays_are_apart(f), err);
    free(bare->noted);
    return rc < 0 ? rc : 0;
}

/* Variables of one layer, all there: settles what is unclear, then adds. */
static int add_group(struct bare *bare, struct found *v, int n,
                     struct infer_error *err)
{
    int64_t outputs = -1;
    bool kernel = false, bias = false, separable = false;
    int rc = 0;

    for (int i = 0; i < n; i++) {
        kernel = kernel || v[i].role == KERNEL || v[i].role == DEPTHWISE;
        bias = bias || (v[i].suffix && strcmp(v[i].suffix, "bias") == 0);
        separable = separable || v[i].role == POINTWISE;
    }
    for (int i = 0; i < n; i++) {
        if (v[i].role == UNKNOWN && v[i].value->rank >= 2 && !kernel) {
            v[i].role = KERNEL;
            v[i].suffix = "weight";
            kernel = true;
        } else if (v[i].role == UNKNOWN && v[i].value->rank == 1 && !bias &&
                   kernel) {
            v[i].role = VECTOR;
            v[i].suffix = "bias";
            bias = true;
        }
        if (v[i].role == DEPTHWISE && separable)
            v[i].suffix = "depthwise.weight";
        if (v[i].suffix && strcmp(v[i].suffix, "bias") == 0 &&
            v[i].value->rank == 1)
            outputs = v[i].value->dim[0];
    }
    for (int i = 0; i < n && rc == 0; i++) {
        char name[1024];
        snprintf(name, sizeof name, "%s.%s", v[i].layer,
                 v[i].suffix ? v[i].suffix : v[i].word);
        rc = note_role(bare, v[i].role, outputs, err);
        if (rc == 0)
            rc = weights_dict_add(bare->dict, name, constant_ref(v[i].value),
                                  err);
    }
    return rc;
}

/* Values of this many bytes and more may view the file. */
#define VIEW_BYTES 65536

static int read_value(struct hdf5_file *f, uint64_t address,
                      struct infer_error *err, struct constant **out)
{
    struct constant *c;
    const int rc = keras_read_tensor(f, address, err, &c);

    if (rc < 0)
        return rc;
    if (c->blob == NULL ||
        (c->bytes >= VIEW_BYTES && hdf5_arrays_are_apart(f))) {
        *out = c;
        return 0;
    }
    struct constant *copy = constant_new(c->dtype, c->rank, c->dim);
    if (copy != NULL)
        memcpy(copy->data, c->data, c->bytes);
    constant_unref(c);
    if (copy == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for a tensor");
    *out = copy;
    return 0;
}

static void free_found(struct found *v, int n)
{
    for (int i = 0; i < n; i++)
        constant_unref(v[i].value);
    free(v);
}

/* ---- .h5 ----------------------------------------------------------- */

/* "model/conv/kernel:0" of group "model" is variable kernel of layer
 * "model/conv"; "conv/kernel:0" of group "conv" and "conv_W" of group "conv"
 * belong to "conv". */
static void split_name(const char *group, const char *path, bool nested,
                       struct found *v)
{
    const char *slash = strrchr(path, '/');
    const char *word = slash ? slash + 1 : path;
    const size_t length = strcspn(word, ":");
    const char *start = slash;

    snprintf(v->word, sizeof v->word, "%.*s", (int)(length & 0xff), word);
    snprintf(v->layer, sizeof v->layer, "%.200s", group);
    if (!nested || slash == NULL)
        return;
    while (start > path && start[-1] != '/')
        start--;
    const size_t n = (size_t)(slash - start);
    if (strlen(group) != n || strncmp(group, start, n) != 0)
        snprintf(v->layer, sizeof v->layer, "%.200s/%.*s", group,
                 (int)(n < 200 ? n : 200), start);
}

/* True where the names belong to more than one layer: a model inside. */
static bool has_layers(const struct hdf5_strings *parts, int n_parts)
{
    const char *first = NULL;
    size_t first_bytes = 0;

    for (int p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].count; i++) {
            const char *path = parts[p].text[i];
            const char *slash = strrchr(path, '/');
            const size_t n = slash ? (size_t)(slash - path) : 0;
            /* Keras 1 gives kernels names without a layer ("uniform2"). */
            if (slash == NULL)
                continue;
            if (first == NULL) {
                first = path;
                first_bytes = n;
            } else if (n != first_bytes || strncmp(first, path, n) != 0) {
                return true;
            }
        }
    return false;
}

static int by_layer(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->layer,
                  ((const struct found *)b)->layer);
}

static int read_listed(struct hdf5_file *f, uint64_t address, const char *group,
                       const struct hdf5_strings *parts, int n_parts,
                       struct found *v, int *n, struct infer_error *err)
{
    /* Words alone do not make layers: Keras 1 has "uniform1", "conv1_b". */
    const bool nested = has_layers(parts, n_parts);
    int rc = 0;

    for (int p = 0; p < n_parts; p++) {
        for (size_t i = 0; i < parts[p].count; i++) {
            const char *path = parts[p].text[i];
            uint64_t at;
            rc = hdf5_find(f, address, path, err, &at);
            if (rc == 0)
                rc = error_set(err, INFER_EFORMAT,
                               "weight_names lists '%s', which is not there",
                               path);
            if (rc == 1)
                rc = read_value(f, at, err, &v[*n].value);
            if (rc < 0)
                return rc;
            split_name(group, path, nested, &v[*n]);
            look_up(&v[*n]);
            ++*n;
        }
    }
    return rc;
}

static int group_from_h5(struct hdf5_file *f, uint64_t top,
                         const struct hdf5_links *links, const char *group,
                         struct infer_error *err, struct bare *bare)
{
    struct hdf5_strings parts[KERAS_MAX_PARTS];
    uint64_t address;
    size_t total = 0;
    int n_parts = 0, n = 0;
    int rc = keras_find_layer(f, top, links, group, err, &address);

    if (rc == 0)
        return error_set(err, INFER_EFORMAT,
                         "layer_names lists '%s', which has no group", group);
    if (rc < 0)
        return rc;
    rc = keras_read_names(f, address, "weight_names", err, parts,
                          KERAS_MAX_PARTS, &n_parts);
    if (rc <= 0)
        return rc;
    for (int p = 0; p < n_parts; p++)
        total += parts[p].count;
    struct found *v = calloc(total + 1, sizeof *v);
    rc = v == NULL || total > INT32_MAX
             ? error_set(err, INFER_EMEMORY, "no memory for names")
             : read_listed(f, address, group, parts, n_parts, v, &n, err);
    for (int p = 0; p < n_parts; p++)
        hdf5_strings_clear(f, &parts[p]);
    if (rc >= 0 && n > 1)
        qsort(v, (size_t)n, sizeof *v, by_layer);
    for (int i = 0, end; rc >= 0 && i < n; i = end) {
        for (end = i + 1; end < n && by_layer(&v[i], &v[end]) == 0;)
            end++;
        rc = add_group(bare, v + i, end - i, err);
    }
    if (v != NULL)
        free_found(v, n);
    return rc < 0 ? rc : 0;
}

int keras_dictionary_from_h5(struct hdf5_file *f, uint64_t group,
                             struct infer_error *err, struct weights_dict *dict)
{
    struct hdf5_strings parts[KERAS_MAX_PARTS];
    struct hdf5_links links;
    struct bare bare = {.dict = dict};
    int n_parts = 0, rc = hdf5_links_read(f, group, err, &links);

    if (rc < 0)
        return rc;
    rc = keras_read_names(f, group, "layer_names", err, parts, KERAS_MAX_PARTS,
                          &n_parts);
    for (int p = 0; p < n_parts; p++) {
        for (size_t i = 0; i < parts[p].count && rc >= 0; i++) {
            rc = group_from_h5(f, group, &links, parts[p].text[i], err, &bare);
            if (rc < 0)
                error_prefix(err, "layer '%s'", parts[p].text[i]);
        }
        hdf5_strings_clear(f, &parts[p]);
    }
    hdf5_links_clear(f, &links);
    return finish(&bare, f, rc, err);
}

/* ---- .weights.h5 of Keras 3 ---------------------------------------- */

/* Variables have numbers; the group's name is the class ("conv2d_1"), which
 * together with their count says what they are. */
static const struct {
    const char *class_name;
    int count;
    const char *word[4];
} orders[] = {
    {"conv1d", 2, {"kernel", "bias"}},
    {"conv1d", 1, {"kernel"}},
    {"conv2d", 2, {"kernel", "bias"}},
    {"conv2d", 1, {"kernel"}},
    {"conv3d", 2, {"kernel", "bias"}},
    {"conv3d", 1, {"kernel"}},
    {"conv2d_transpose", 2, {"kernel", "bias"}},
    {"conv2d_transpose", 1, {"kernel"}},
    {"dense", 2, {"kernel", "bias"}},
    {"dense", 1, {"kernel"}},
    {"depthwise_conv2d", 2, {"depthwise_kernel", "bias"}},
    {"depthwise_conv2d", 1, {"depthwise_kernel"}},
    {"separable_conv2d", 3, {"depthwise_kernel", "pointwise_kernel", "bias"}},
    {"separable_conv2d", 2, {"depthwise_kernel", "pointwise_kernel"}},
    {"batch_normalization",
     4,
     {"gamma", "beta", "moving_mean", "moving_variance"}},
    {"batch_normalization", 2, {"moving_mean", "moving_variance"}},
    {"layer_normalization", 2, {"gamma", "beta"}},
    {"group_normalization", 2, {"gamma", "beta"}},
    {"p_re_lu", 1, {"alpha"}},
};

static const char *word_of(const char *group, int count, int i)
{
    size_t n = strlen(group);

    while (n > 0 && group[n - 1] >= '0' && group[n - 1] <= '9')
        n--;
    /* "conv2d" ends in no "_1"; "conv2d_1" does. */
    if (n == 0 || group[n - 1] != '_' || n == strlen(group))
        n = strlen(group);
    else
        n--;
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
        if (orders[k].count == count && strlen(orders[k].class_name) == n &&
            strncmp(orders[k].class_name, group, n) == 0)
            return orders[k].word[i];
    return NULL;
}

/* The layer's name is an attribute of its "vars"; older files lack it. */
static int layer_name(struct hdf5_file *f, uint64_t vars, const char *prefix,
                      const char *group, struct infer_error *err, char *out,
                      size_t bytes)
{
    struct hdf5_strings s = {0};
    struct hdf5_attribute a;
    struct hdf5_object o;
    int rc = hdf5_object_read(f, vars, err, &o);

    if (rc < 0)
        return rc;
    rc = hdf5_attribute_find(f, &o, "name", err, &a);
    if (rc == 1)
        rc = hdf5_attribute_strings(f, &a, err, &s);
    if (rc >= 0)
        snprintf(out, bytes, "%.200s%s%.200s", prefix, *prefix ? "/" : "",
                 s.count == 1 ? s.text[0] : group);
    hdf5_strings_clear(f, &s);
    hdf5_object_clear(f, &o);
    return rc < 0 ? rc : 0;
}

static int vars_from_v3(struct hdf5_file *f, uint64_t vars, const char *layer,
                        const char *group, struct infer_error *err,
                        struct bare *bare)
{
    struct hdf5_links links;
    int rc = hdf5_links_read(f, vars, err, &links);

    if (rc < 0)
        return rc;
    const int n = links.count < 64 ? (int)links.count : 64;
    struct found *v = calloc((size_t)n + 1, sizeof *v);
    if (v == NULL)
        rc = error_set(err, INFER_EMEMORY, "no memory for names");
    else if ((size_t)n != links.count)
        rc = error_set(err, INFER_EUNSUPPORTED, "layer '%s' has %zu variables",
                       layer, links.count);
    int filled = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char number[16];
        const int digits = snprintf(number, sizeof number, "%d", i);
        const struct hdf5_link *link =
            hdf5_links_find(&links, number, (size_t)digits);
        const char *word = word_of(group, n, i);
        if (link == NULL || link->kind != HDF5_HARD_LINK) {
            rc = error_set(err, INFER_EFORMAT, "layer '%s' has no variable %d",
                           layer, i);
            break;
        }
        rc = read_value(f, link->address, err, &v[i].value);
        filled += rc == 0;
        snprintf(v[i].layer, sizeof v[i].layer, "%s", layer);
        if (word != NULL)
            snprintf(v[i].word, sizeof v[i].word, "%s", word);
        else
            snprintf(v[i].word, sizeof v[i].word, "vars.%d", i);
        look_up(&v[i]);
    }
    hdf5_links_clear(f, &links);
    if (rc == 0) {
        /* Unnamed variables stay so: a class that is not known may have its
         * kernel anywhere. */
        for (int i = 0; i < n && rc == 0; i++)
            if (v[i].role == UNKNOWN) {
                char name[1024];
                snprintf(name, sizeof name, "%s.%s", v[i].layer, v[i].word);
                rc = add_unknown(bare, name, v[i].value, err);
            }
        if (rc == 0 && n > 0 && v[0].role != UNKNOWN)
            rc = add_group(bare, v, n, err);
    }
    if (v != NULL)
        free_found(v, filled);
    return rc;
}

/* "layers" of a model; groups inside may be models themselves. */
static int layers_from_v3(struct hdf5_file *f, uint64_t model,
                          const char *prefix, int depth,
                          struct infer_error *err, struct bare *bare)
{
    struct hdf5_links links;
    uint64_t layers;
    int rc = hdf5_find(f, model, "layers", err, &layers);

    if (rc <= 0)
        return rc;
    if (depth == KERAS_MAX_DEPTH)
        return error_set(err, INFER_EUNSUPPORTED,
                         "models inside models deeper than %d",
                         KERAS_MAX_DEPTH);
    rc = hdf5_links_read(f, layers, err, &links);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < links.count && rc >= 0; i++) {
        const struct hdf5_link *link = &links.link[i];
        char group[256], name[512];
        uint64_t vars;
        snprintf(group, sizeof group, "%.*s",
                 (int)(link->name_bytes < 200 ? link->name_bytes : 200),
                 link->name);
        if (link->kind != HDF5_HARD_LINK) {
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "'%s' is a link, which is not followed", group);
            break;
        }
        rc = hdf5_find(f, link->address, "vars", err, &vars);
        if (rc == 1)
            rc = layer_name(f, vars, prefix, group, err, name, sizeof name);
        else if (rc == 0)
            snprintf(name, sizeof name, "%s", group);
        else
            break;
        if (rc == 0)
            rc = layers_from_v3(f, link->address, name, depth + 1, err, bare);
        if (rc >= 0 && hdf5_find(f, link->address, "vars", err, &vars) == 1)
            rc = vars_from_v3(f, vars, name, group, err, bare);
    }
    hdf5_links_clear(f, &links);
    return rc < 0 ? rc : 0;
}

int keras_dictionary_from_v3(struct hdf5_file *f, uint64_t group,
                             struct infer_error *err, struct weights_dict *dict)
{
    struct bare bare = {.dict = dict};
    const int rc = layers_from_v3(f, group, "", 0, err, &bare);

    return finish(&bare, f, rc, err);
}
