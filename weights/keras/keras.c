/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keras: the format row.
 *
 *   .keras        a zip archive of config.json and model.weights.h5 (Keras 3)
 *   .h5, .hdf5    one HDF5 file; attribute model_config, group model_weights
 *                 (Keras 1 to 3), or weights alone: attribute layer_names, or
 *                 the groups of Keras 3's save_weights()
 *
 * Training state (optimiser variables, the training configuration, seeds) is
 * noted by name and size and not read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"
#include "weights/zip.h"

/* ---- what is stripped ---------------------------------------------- */

static int strip(struct weights_import *out, const char *name, size_t bytes,
                 const char *why, struct infer_error *err)
{
    if (weights_dict_strip(&out->dict, name, bytes, why) < 0)
        return error_set(err, INFER_EMEMORY, "no memory for the report");
    return 0;
}

/* Notes every dataset below a group, without reading its data. */
static int strip_group(struct hdf5_file *f, uint64_t address, const char *path,
                       const char *why, int depth, struct weights_import *out,
                       struct infer_error *err)
{
    struct hdf5_object o;
    struct hdf5_links links;
    int rc = hdf5_object_read(f, address, err, &o);

    if (rc < 0)
        return rc;
    const enum hdf5_object_kind kind = hdf5_object_kind(&o);
    hdf5_object_clear(f, &o);
    if (kind == HDF5_DATASET) {
        struct hdf5_dataset d;
        size_t bytes = 0;
        rc = hdf5_dataset_open(f, address, err, &d);
        if (rc == 0)
            rc = hdf5_dataset_bytes(&d, err, &bytes);
        return rc < 0 ? rc : strip(out, path, bytes, why, err);
    }
    if (kind != HDF5_GROUP || depth == KERAS_MAX_DEPTH)
        return 0;
    rc = hdf5_links_read(f, address, err, &links);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < links.count && rc == 0; i++) {
        const struct hdf5_link *l = &links.link[i];
        char below[1024];
        snprintf(below, sizeof below, "%.700s/%.*s", path,
                 (int)(l->name_bytes < 300 ? l->name_bytes : 300), l->name);
        if (l->kind == HDF5_HARD_LINK)
            rc = strip_group(f, l->address, below, why, depth + 1, out, err);
    }
    hdf5_links_clear(f, &links);
    return rc;
}

static int strip_named(struct hdf5_file *f, const char *name, const char *why,
                       struct weights_import *out, struct infer_error *err)
{
    uint64_t address;
    const int rc = hdf5_find(f, hdf5_root(f), name, err, &address);

    return rc <= 0 ? rc : strip_group(f, address, name, why, 0, out, err);
}

/* ---- from a configuration to a graph ------------------------------- */

/* "2.4.0" -> 2; Keras 1 wrote no version at first. */
static int major_of(const char *version)
{
    if (version != NULL && version[0] >= '1' && version[0] <= '9')
        return version[0] - '0';
    return 0;
}

/* Without a version, the names of attributes tell Keras 1. */
static bool looks_like_keras1(const char *text)
{
    return strstr(text, "\"border_mode\"") != NULL ||
           strstr(text, "\"output_dim\"") != NULL ||
           strstr(text, "\"nb_filter\"") != NULL;
}

static int finish_graph(struct keras_emit *k, const struct keras_model *model,
                        struct infer_error *err)
{
    struct graph *g = k->g;
    int rc;

    free(g->name);
    g->name = strdup(model->name);
    if (g->name == NULL)
        return error_set(err, INFER_EMEMORY, "no memory for the graph");
    graph_remove_dead(g);
    rc = graph_compact(g, err);
    if (rc == 0)
        rc = graph_validate(g, err);
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, err);
    return rc;
}

struct source {
    struct hdf5_file *f;
    uint64_t group; /* of the variables */
    bool v3;
    const char *version, *backend;
    const char *text; /* of the configuration */
    size_t text_bytes;
};

static int build(struct keras_emit *k, struct keras_model *model,
                 const struct source *s, struct infer_error *err)
{
    int rc = keras_name_variables(k, model);

    if (rc == 0)
        rc = s->v3 ? keras_variables_from_v3(model, s->f, s->group, err)
                   : keras_variables_from_h5(model, s->f, s->group, err);
    k->apart = hdf5_arrays_are_apart(s->f);
    if (rc == 0)
        rc = keras_emit_model(k, model);
    return rc == 0 ? finish_graph(k, model, err) : rc;
}

static int read_configured(const struct source *s,
                           const struct weights_options *options,
                           struct infer_error *err, struct weights_import *out)
{
    struct keras_model *model = NULL;
    cJSON *json;
    /* Python's json writes NaN and Infinity as bare words. */
    int rc = json_parse(s->text, s->text_bytes, true, err, &json);

    if (rc < 0) {
        error_prefix(err, "model configuration");
        return rc;
    }
    struct keras_emit k = {.err = err, .options = options};
    k.major = major_of(s->version);
    if (k.major == 0)
        k.major = looks_like_keras1(s->text) ? 1 : 2;
    /* tf.keras calls itself 2.2.4-tf from TensorFlow 1.13 on. */
    k.old_resize = s->version && strncmp(s->version, "2.2.", 4) == 0 &&
                   strstr(s->version, "tf") == NULL;
    k.theano = s->backend && strcmp(s->backend, "theano") == 0;
    rc = keras_model_parse(json, err, &model);
    k.g = rc == 0 ? graph_new() : NULL;
    if (rc == 0 && k.g == NULL)
        rc = error_set(err, INFER_EMEMORY, "no memory for the graph");
    if (rc == 0)
        rc = build(&k, model, s, err);
    if (rc == 0) {
        snprintf(out->detail, sizeof out->detail, "Keras %.20s, %.20s, %s",
                 s->version ? s->version : "1", model->class_name,
                 k.channels_first ? "channels first" : "channels last");
        out->graph = k.g;
    } else {
        graph_free(k.g);
    }
    keras_model_free(model);
    cJSON_Delete(json);
    return rc;
}

/* ---- .h5 ----------------------------------------------------------- */

/* The only string of an attribute.  1 found, 0 absent. */
static int read_text(struct hdf5_file *f, uint64_t address, const char *name,
                     struct infer_error *err, struct hdf5_strings *out)
{
    struct hdf5_attribute a;
    struct hdf5_object o;
    int rc = hdf5_object_read(f, address, err, &o);

    memset(out, 0, sizeof *out);
    if (rc < 0)
        return rc;
    rc = hdf5_attribute_find(f, &o, name, err, &a);
    if (rc == 1)
        rc = hdf5_attribute_strings(f, &a, err, out);
    hdf5_object_clear(f, &o);
    if (rc < 0)
        return rc;
    if (out->count > 1) {
        hdf5_strings_clear(f, out);
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' is more than one string", name);
    }
    return out->count == 1;
}

/* An attribute of the root, or of the group with the weights (old files). */
static int read_text_of(struct hdf5_file *f, uint64_t group, const char *name,
                        struct infer_error *err, struct hdf5_strings *out)
{
    const int rc = read_text(f, hdf5_root(f), name, err, out);

    return rc != 0 || group == hdf5_root(f)
               ? rc
               : read_text(f, group, name, err, out);
}

static int strip_training(struct hdf5_file *f, struct weights_import *out,
                          struct infer_error *err)
{
    struct hdf5_strings text;
    int rc = read_text(f, hdf5_root(f), "training_config", err, &text);

    if (rc == 1) {
        rc = strip(out, "training_config", text.bytes[0],
                   "training configuration", err);
        hdf5_strings_clear(f, &text);
    }
    if (rc >= 0)
        rc = strip_named(f, "optimizer_weights", "optimiser state", out, err);
    if (rc >= 0)
        rc = strip_named(f, "optimizer", "optimiser state", out, err);
    return rc < 0 ? rc : 0;
}

static int read_bare(struct hdf5_file *f, uint64_t group,
                     const struct hdf5_strings *version,
                     struct infer_error *err, struct weights_import *out)
{
    uint64_t layers;
    bool keras3 = false;
    int rc = keras_dictionary_from_h5(f, group, err, &out->dict);

    if (rc == 0 && out->dict.count == 0) {
        rc = hdf5_find(f, hdf5_root(f), "layers", err, &layers);
        keras3 = rc == 1;
        if (keras3)
            rc = keras_dictionary_from_v3(f, hdf5_root(f), err, &out->dict);
    }
    if (rc == 0 && out->dict.count == 0)
        return keras3 ? error_set(err, INFER_EFORMAT, "the file has no weights")
                      : error_set(err, INFER_EUNSUPPORTED,
                                  "an HDF5 file without Keras' model_config, "
                                  "layer_names or layers");
    snprintf(out->detail, sizeof out->detail, "Keras %.20s, weights only",
             version->count ? version->text[0] : "1");
    return rc;
}

static int read_h5(struct hdf5_file *f, const struct weights_options *options,
                   struct infer_error *err, struct weights_import *out)
{
    struct hdf5_strings config = {0}, version = {0}, backend = {0};
    uint64_t group = hdf5_root(f);
    int rc = hdf5_find(f, hdf5_root(f), "model_weights", err, &group);

    if (rc >= 0)
        rc = strip_training(f, out, err);
    if (rc >= 0)
        rc = read_text_of(f, group, "keras_version", err, &version);
    if (rc >= 0)
        rc = read_text_of(f, group, "backend", err, &backend);
    if (rc >= 0)
        rc = read_text(f, hdf5_root(f), "model_config", err, &config);
    if (rc == 1) {
        const struct source s = {
            .f = f,
            .group = group,
            .version = version.count ? version.text[0] : NULL,
            .backend = backend.count ? backend.text[0] : NULL,
            .text = config.text[0],
            .text_bytes = config.bytes[0]};
        rc = read_configured(&s, options, err, out);
    } else if (rc == 0) {
        rc = read_bare(f, group, &version, err, out);
    }
    hdf5_strings_clear(f, &config);
    hdf5_strings_clear(f, &version);
    hdf5_strings_clear(f, &backend);
    return rc;
}

/* ---- .keras -------------------------------------------------------- */

#define CONFIG  "config.json"
#define WEIGHTS "model.weights.h5"

static int read_member(struct zipfile *zip, const char *name,
                       struct infer_error *err, struct zipfile_data *out)
{
    const int64_t i = zipfile_find(zip, name);
    int rc;

    memset(out, 0, sizeof *out);
    if (i < 0)
        return error_set(err, INFER_EFORMAT, "the archive has no '%s'", name);
    rc = zipfile_read(zip, (size_t)i, err, out);
    if (rc < 0)
        error_prefix(err, "'%s'", name);
    return rc;
}

/* Seeds of random layers, which do nothing outside training. */
static int strip_seeds(struct hdf5_file *f, struct weights_import *out,
                       struct infer_error *err)
{
    struct hdf5_links links;
    uint64_t layers, seeds;
    int rc = hdf5_find(f, hdf5_root(f), "layers", err, &layers);

    if (rc <= 0)
        return rc;
    rc = hdf5_links_read(f, layers, err, &links);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < links.count && rc >= 0; i++) {
        const struct hdf5_link *l = &links.link[i];
        char path[512];
        if (l->kind != HDF5_HARD_LINK)
            continue;
        rc = hdf5_find(f, l->address, "seed_generator", err, &seeds);
        snprintf(path, sizeof path, "layers/%.*s/seed_generator",
                 (int)(l->name_bytes < 300 ? l->name_bytes : 300), l->name);
        if (rc == 1)
            rc = strip_group(f, seeds, path, "random seeds", 0, out, err);
    }
    hdf5_links_clear(f, &links);
    return rc < 0 ? rc : 0;
}

static int read_keras_parts(struct zipfile *zip,
                            const struct zipfile_data *config,
                            const char *version,
                            const struct weights_options *options,
                            struct infer_error *err, struct weights_import *out)
{
    struct zipfile_data weights;
    struct hdf5_file *f = NULL;
    int rc = read_member(zip, WEIGHTS, err, &weights);

    if (rc < 0)
        return rc;
    rc = hdf5_open(weights.blob, weights.data, weights.bytes, err, &f);
    if (rc == 0) {
        const struct source s = {.f = f,
                                 .group = hdf5_root(f),
                                 .v3 = true,
                                 .version = version,
                                 .text = (const char *)config->data,
                                 .text_bytes = config->bytes};
        rc = strip_named(f, "optimizer", "optimiser state", out, err);
        if (rc >= 0)
            rc = strip_seeds(f, out, err);
        if (rc >= 0)
            rc = read_configured(&s, options, err, out);
    }
    if (rc < 0)
        error_prefix(err, CONFIG " and " WEIGHTS);
    hdf5_close(f);
    zipfile_data_clear(&weights);
    return rc;
}

/* metadata.json says which Keras wrote the archive; it may be absent. */
static int read_version(struct zipfile *zip, struct infer_error *err,
                        char *version, size_t bytes)
{
    struct zipfile_data data;
    cJSON *json;
    int rc;

    snprintf(version, bytes, "3");
    if (zipfile_find(zip, "metadata.json") < 0)
        return 0;
    rc = read_member(zip, "metadata.json", err, &data);
    if (rc < 0)
        return rc;
    rc = json_parse((const char *)data.data, data.bytes, true, err, &json);
    if (rc == 0) {
        const char *word = json_string(json, "keras_version");
        if (word != NULL)
            snprintf(version, bytes, "%s", word);
        cJSON_Delete(json);
    } else {
        error_prefix(err, "'metadata.json'");
    }
    zipfile_data_clear(&data);
    /* tf.keras 2.12 and later write this format too; its layers behave as
     * those of Keras 2. */
    if (rc == 0 && (major_of(version) < 2 || major_of(version) > 3))
        rc =
            error_set(err, INFER_EUNSUPPORTED,
                      "written by Keras %.40s; 2 and 3 are supported", version);
    return rc;
}

static int read_keras(struct blob *blob, const struct weights_options *options,
                      struct infer_error *err, struct weights_import *out)
{
    struct zipfile zip;
    struct zipfile_data config = {0};
    char version[64];
    int rc = zipfile_open(blob, err, &zip);

    if (rc < 0)
        return rc;
    rc = read_version(&zip, err, version, sizeof version);
    if (rc == 0)
        rc = read_member(&zip, CONFIG, err, &config);
    if (rc == 0)
        rc = read_keras_parts(&zip, &config, version, options, err, out);
    zipfile_data_clear(&config);
    zipfile_close(&zip);
    return rc;
}

/* ---- the row ------------------------------------------------------- */

/* True where the zip directory, at the archive's end, names config.json: the
 * full check of the archive comes with reading. */
static bool zip_names_config(const struct blob *blob)
{
    static const char word[] = CONFIG;
    const size_t tail = blob->bytes < 65536 ? blob->bytes : 65536;
    const unsigned char *p = blob->data + blob->bytes - tail;

    for (size_t i = 0; i + sizeof word - 1 <= tail; i++)
        if (memcmp(p + i, word, sizeof word - 1) == 0)
            return true;
    return false;
}

static int probe(const struct weights_file *file)
{
    if (zipfile_probe(file->blob))
        return zip_names_config(file->blob) ? 80 : 0;
    return hdf5_probe(file->blob->data, file->blob->bytes) ? 90 : 0;
}

static int read_file(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    struct hdf5_file *f;
    int rc;

    if (zipfile_probe(file->blob))
        return read_keras(file->blob, options, err, out);
    rc = hdf5_open(file->blob, file->blob->data, file->blob->bytes, err, &f);
    if (rc < 0)
        return rc;
    rc = read_h5(f, options, err, out);
    hdf5_close(f);
    return rc;
}

const struct weights_format weights_format_keras = {
    .name = "keras",
    .description = "Keras 1 to 3: .keras, .h5 and .hdf5, weights-only .h5",
    .probe = probe,
    .read = read_file,
};
