/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: where each layer's variables lie in the HDF5 file.
 *
 * .h5 (Keras 1 to 3): a group for each layer of the outer model, whose
 * attribute weight_names lists paths of datasets below it.  A model inside the
 * model is one layer here: its variables come in the order "all trainable
 * ones, then all others".
 *
 * .keras: layers/<class>[_n]/vars/0, 1, ...; n counts the layers of that class
 * before it in the list.  A model inside has its own "layers" group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/keras/keras.h"

/* ---- attributes with lists of names -------------------------------- */

int keras_read_names(struct hdf5_file *f, uint64_t address, const char *name,
                     struct infer_error *err, struct hdf5_strings *parts,
                     int max_parts, int *n_parts)
{
    struct hdf5_attribute a;
    struct hdf5_object o;
    char numbered[64];
    int rc = hdf5_object_read(f, address, err, &o);

    *n_parts = 0;
    if (rc < 0)
        return rc;
    rc = hdf5_attribute_find(f, &o, name, err, &a);
    if (rc == 1) {
        rc = hdf5_attribute_strings(f, &a, err, &parts[0]);
        *n_parts = rc == 0;
    } else if (rc == 0) {
        do {
            snprintf(numbered, sizeof numbered, "%s%d", name, *n_parts);
            rc = hdf5_attribute_find(f, &o, numbered, err, &a);
            if (rc != 1)
                break;
            if (*n_parts == max_parts)
                rc = error_set(err, INFER_EUNSUPPORTED,
                               "attribute %s in more than %d parts", name,
                               max_parts);
            else
                rc = hdf5_attribute_strings(f, &a, err, &parts[*n_parts]);
            if (rc == 0)
                ++*n_parts;
        } while (rc == 0);
    }
    hdf5_object_clear(f, &o);
    if (rc < 0) {
        while (*n_parts > 0)
            hdf5_strings_clear(f, &parts[--*n_parts]);
        return rc;
    }
    return *n_parts > 0;
}

/* ---- one tensor ---------------------------------------------------- */

/* Keras 3 keeps bfloat16 as opaque pairs of bytes with an attribute that says
 * what they are. */
static int open_tensor(struct hdf5_file *f, uint64_t address,
                       struct infer_error *err, struct hdf5_dataset *d)
{
    struct hdf5_strings word = {0};
    struct hdf5_attribute a;
    struct hdf5_object o;
    int rc = hdf5_dataset_open(f, address, err, d);

    if (rc < 0 || !d->type.opaque)
        return rc;
    rc = hdf5_object_read(f, address, err, &o);
    if (rc < 0)
        return rc;
    rc = hdf5_attribute_find(f, &o, "dtype", err, &a);
    if (rc == 1)
        rc = hdf5_attribute_strings(f, &a, err, &word);
    hdf5_object_clear(f, &o);
    if (rc == 0 && word.count == 1 && strcmp(word.text[0], "bfloat16") == 0)
        rc = hdf5_dataset_retype(f, d, INFER_BF16, err);
    hdf5_strings_clear(f, &word);
    return rc;
}

int keras_read_tensor(struct hdf5_file *f, uint64_t address,
                      struct infer_error *err, struct constant **out)
{
    struct hdf5_dataset d;
    const int rc = open_tensor(f, address, err, &d);

    return rc < 0 ? rc : hdf5_dataset_numbers(f, &d, err, out);
}

/* Floating-point tensors become F32: what the graph computes in.  The result
 * never views the file, which is released after reading. */
static int read_tensor(struct hdf5_file *f, uint64_t address,
                       struct infer_error *err, struct constant **out)
{
    struct constant *c, *wide;
    const int rc = keras_read_tensor(f, address, err, &c);

    if (rc < 0)
        return rc;
    wide = constant_convert(c, INFER_F32);
    constant_unref(c);
    if (wide == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for a tensor");
    *out = wide;
    return 0;
}

/* ---- .h5 ----------------------------------------------------------- */

/* The variables of a layer or model in the order of saving. */
struct slots {
    struct keras_variable **slot;
    int count, capacity;
};

static bool add_slot(struct slots *s, struct keras_variable *v)
{
    if (s->count == s->capacity) {
        const int wanted = s->capacity ? 2 * s->capacity : 8;
        void *grown = realloc(s->slot, (size_t)wanted * sizeof(*s->slot));
        if (grown == NULL)
            return false;
        s->slot = grown;
        s->capacity = wanted;
    }
    s->slot[s->count++] = v;
    return true;
}

/* Variables of a layer whose trainable flag is wanted; a frozen layer has no
 * trainable ones. */
static bool collect(struct keras_layer *l, bool frozen, bool wanted,
                    struct slots *out)
{
    frozen = frozen || !l->trainable;
    if (l->model != NULL) {
        for (int i = 0; i < l->model->n_layers; i++)
            if (!collect(&l->model->layer[i], frozen, wanted, out))
                return false;
        return true;
    }
    for (int i = 0; i < l->n_inner; i++)
        if (!collect(&l->inner[i], frozen, wanted, out))
            return false;
    for (int i = 0; i < l->n_variables; i++) {
        struct keras_variable *v = &l->variable[i];
        if ((v->trainable && !frozen) == wanted && !add_slot(out, v))
            return false;
    }
    return true;
}

static int fill_slots(struct hdf5_file *f, uint64_t group,
                      const struct hdf5_strings *parts, int n_parts,
                      const struct slots *slots, struct infer_error *err)
{
    int at = 0, rc = 0;

    for (int p = 0; p < n_parts; p++) {
        for (size_t i = 0; i < parts[p].count && rc == 0; i++) {
            struct keras_variable *v = slots->slot[at++];
            uint64_t address;
            rc = hdf5_find(f, group, parts[p].text[i], err, &address);
            if (rc == 1)
                rc = read_tensor(f, address, err, &v->data);
            else if (rc == 0)
                rc = error_set(err, INFER_EFORMAT,
                               "weight_names lists '%s', which is not there",
                               parts[p].text[i]);
            if (rc < 0)
                error_prefix(err, "'%s'", parts[p].text[i]);
        }
    }
    return rc;
}

int keras_find_layer(struct hdf5_file *f, uint64_t group,
                     const struct hdf5_links *links, const char *name,
                     struct infer_error *err, uint64_t *address)
{
    const struct hdf5_link *l = hdf5_links_find(links, name, strlen(name));

    if (l == NULL || l->kind != HDF5_HARD_LINK)
        return hdf5_find(f, group, name, err, address); /* "a/b", refusals */
    *address = l->address;
    return 1;
}

static int layer_from_h5(struct keras_layer *l, struct hdf5_file *f,
                         uint64_t group, const struct hdf5_links *links,
                         struct infer_error *err)
{
    struct hdf5_strings parts[KERAS_MAX_PARTS];
    struct slots slots = {0};
    uint64_t address;
    size_t listed = 0;
    int n_parts = 0;

    if (!collect(l, false, true, &slots) || !collect(l, false, false, &slots)) {
        free(slots.slot);
        return error_set(err, INFER_EMEMORY, "no memory for variables");
    }
    int rc = slots.count == 0
                 ? 0
                 : keras_find_layer(f, group, links, l->name, err, &address);
    if (rc == 0 && slots.count > 0)
        rc = error_set(err, INFER_EFORMAT, "the file has no group for it");
    if (rc == 1)
        rc = keras_read_names(f, address, "weight_names", err, parts,
                              KERAS_MAX_PARTS, &n_parts);
    for (int p = 0; p < n_parts; p++)
        listed += parts[p].count;
    if (rc >= 0 && listed != (size_t)slots.count)
        rc = error_set(err, INFER_EFORMAT,
                       "the file has %zu weights for it, its configuration "
                       "wants %d",
                       listed, slots.count);
    if (rc >= 0)
        rc = fill_slots(f, address, parts, n_parts, &slots, err);
    for (int p = 0; p < n_parts; p++)
        hdf5_strings_clear(f, &parts[p]);
    free(slots.slot);
    if (rc < 0)
        error_prefix(err, "layer '%s' (%s)", l->path, l->class_name);
    return rc;
}

int keras_variables_from_h5(struct keras_model *model, struct hdf5_file *f,
                            uint64_t group, struct infer_error *err)
{
    struct hdf5_links links;
    int rc = hdf5_links_read(f, group, err, &links);

    if (rc < 0)
        return rc;
    for (int i = 0; i < model->n_layers && rc >= 0; i++)
        rc = layer_from_h5(&model->layer[i], f, group, &links, err);
    hdf5_links_clear(f, &links);
    return rc;
}

/* ---- .keras -------------------------------------------------------- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* keras.src.utils.naming.to_snake_case: "Conv2DTranspose" is
 * "conv2d_transpose", "LeakyReLU" is "leaky_re_lu".  Two rewrites, each from
 * left to right without looking at what it wrote: (.)([A-Z][a-z]+) and
 * ([a-z])([A-Z]) get a '_' in the middle. */
static void snake_case(const char *name, char *out, size_t bytes)
{
    char first[128];
    size_t n = 0, m = 0;

    for (size_t i = 0; name[i] != '\0' && n + 2 < sizeof first; i++) {
        first[n++] = name[i];
        if (!is_upper(name[i + 1]) || !is_lower(name[i + 2]))
            continue;
        first[n++] = '_';
        first[n++] = name[++i];
        while (is_lower(name[i + 1]) && n + 2 < sizeof first)
            first[n++] = name[++i];
    }
    first[n] = '\0';
    for (size_t i = 0; i < n && m + 2 < bytes; i++) {
        const char c = first[i];
        out[m++] = is_upper(c) ? (char)(c - 'A' + 'a') : c;
        if (is_lower(c) && is_upper(first[i + 1]))
            out[m++] = '_';
    }
    out[m] = '\0';
}

/* Number of layers with the same snake-case class before layer i.  Classes
 * are few, so a table of those seen is enough. */
struct counted {
    const char *class_name;
    int count;
};
struct counter {
    struct counted entry[256];
    int n;
};

static int count_class(struct counter *c, const char *class_name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->entry[i].class_name, class_name) == 0)
            return c->entry[i].count++;
    if (c->n < 256)
        c->entry[c->n++] = (struct counted){class_name, 1};
    return 0;
}

static int model_from_v3(struct keras_model *model, struct hdf5_file *f,
                         uint64_t group, struct infer_error *err);
static int layer_from_v3(struct keras_layer *l, struct hdf5_file *f,
                         uint64_t layer, struct infer_error *err);

/* Variables in groups below the layer's: each counts from 0. */
static int grouped_from_v3(struct keras_layer *l, struct hdf5_file *f,
                           uint64_t layer, struct infer_error *err)
{
    int number = 0, rc = 0;

    for (int i = 0; i < l->n_variables && rc == 0; i++) {
        struct keras_variable *v = &l->variable[i];
        char path[128];
        uint64_t address;

        number = i > 0 && strcmp(v->group, v[-1].group) == 0 ? number + 1 : 0;
        snprintf(path, sizeof path, "%s/vars/%d", v->group, number);
        rc = hdf5_find(f, layer, path, err, &address);
        if (rc == 1)
            rc = read_tensor(f, address, err, &v->data);
        else if (rc == 0)
            rc = error_set(err, INFER_EFORMAT, "the file has no '%s' for it",
                           path);
    }
    return rc;
}

/* The layers that a layer holds. */
static int inner_from_v3(struct keras_layer *l, struct hdf5_file *f,
                         uint64_t layer, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; i < l->n_inner && rc == 0; i++) {
        struct keras_layer *inner = &l->inner[i];
        uint64_t address;

        rc = hdf5_find(f, layer, inner->group, err, &address);
        if (rc == 1)
            rc = inner->model != NULL
                     ? model_from_v3(inner->model, f, address, err)
                     : layer_from_v3(inner, f, address, err);
        else if (rc == 0 && (inner->model != NULL || inner->n_variables > 0))
            rc = error_set(err, INFER_EFORMAT, "the file has no '%s' for it",
                           inner->group);
    }
    return rc;
}

/* vars/0 .. vars/n-1, no more and no fewer. */
static int layer_from_v3(struct keras_layer *l, struct hdf5_file *f,
                         uint64_t layer, struct infer_error *err)
{
    struct hdf5_links links;
    uint64_t vars;

    if (l->n_inner > 0)
        return inner_from_v3(l, f, layer, err);
    if (l->n_variables > 0 && l->variable[0].group != NULL)
        return grouped_from_v3(l, f, layer, err);
    int rc = hdf5_find(f, layer, "vars", err, &vars);

    if (rc == 0 && l->n_variables > 0)
        return error_set(err, INFER_EFORMAT, "its group has no 'vars'");
    if (rc <= 0)
        return rc;
    rc = hdf5_links_read(f, vars, err, &links);
    if (rc < 0)
        return rc;
    if (links.count != (size_t)l->n_variables)
        rc = error_set(err, INFER_EFORMAT,
                       "the file has %zu weights for it, its configuration "
                       "wants %d",
                       links.count, l->n_variables);
    for (int i = 0; i < l->n_variables && rc == 0; i++) {
        char number[16];
        const int n = snprintf(number, sizeof number, "%d", i);
        const struct hdf5_link *link =
            hdf5_links_find(&links, number, (size_t)n);
        if (link == NULL || link->kind != HDF5_HARD_LINK)
            rc = error_set(err, INFER_EFORMAT,
                           "the file has no weight number %d for it", i);
        else
            rc = read_tensor(f, link->address, err, &l->variable[i].data);
    }
    hdf5_links_clear(f, &links);
    return rc;
}

static int entry_from_v3(struct keras_layer *l, struct hdf5_file *f,
                         const struct hdf5_links *links, const char *name,
                         struct infer_error *err)
{
    const struct hdf5_link *link = hdf5_links_find(links, name, strlen(name));
    int rc;

    if (link == NULL)
        /* Layers without variables need not be there. */
        rc = l->n_variables == 0 && l->model == NULL && l->n_inner == 0
                 ? 0
                 : error_set(err, INFER_EFORMAT,
                             "the file has no group 'layers/%s' for it", name);
    else if (link->kind != HDF5_HARD_LINK)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "its group 'layers/%s' is a link, which is not "
                       "followed",
                       name);
    else
        rc = l->model != NULL ? model_from_v3(l->model, f, link->address, err)
                              : layer_from_v3(l, f, link->address, err);
    if (rc < 0 && l->model == NULL)
        error_prefix(err, "layer '%s' (%s)", l->path, l->class_name);
    return rc;
}

static int model_from_v3(struct keras_model *model, struct hdf5_file *f,
                         uint64_t group, struct infer_error *err)
{
    struct counter *counter;
    struct hdf5_links links;
    uint64_t layers;
    int rc = hdf5_find(f, group, "layers", err, &layers);

    if (rc == 0)
        rc = error_set(err, INFER_EFORMAT,
                       "model '%s': the file has no group 'layers' for it",
                       model->name);
    if (rc < 0)
        return rc;
    counter = calloc(1, sizeof *counter);
    if (counter == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for layer names");
    rc = hdf5_links_read(f, layers, err, &links);
    if (rc < 0) {
        free(counter);
        return rc;
    }
    for (int i = 0; i < model->n_layers && rc == 0; i++) {
        struct keras_layer *l = &model->layer[i];
        char class_name[128], name[160];
        snake_case(l->class_name, class_name, sizeof class_name);
        const int before = count_class(counter, l->class_name);
        if (before == 0)
            snprintf(name, sizeof name, "%s", class_name);
        else
            snprintf(name, sizeof name, "%s_%d", class_name, before);
        rc = entry_from_v3(l, f, &links, name, err);
    }
    hdf5_links_clear(f, &links);
    free(counter);
    return rc;
}

int keras_variables_from_v3(struct keras_model *model, struct hdf5_file *f,
                            uint64_t group, struct infer_error *err)
{
    return model_from_v3(model, f, group, err);
}
