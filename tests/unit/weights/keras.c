/* SPDX-License-Identifier: Apache-2.0 */
/* The Keras reader: models of every layer against recorded outputs, real
 * models, weights alone, refusals by name, damaged files.
 *
 * The seeds of tests/data are always read and damaged.  TEST_DATA adds real
 * models; KERAS_FILES names a folder that tests/make/keras_models.py filled. */
#include "tests/unit/graph/data.h"

#include <stdbool.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "kernels/base/json.h"
#include "tests/unit/weights/keras_run.h"
#include "weights/arch.h"
#include "weights/keras/keras.h"

#define SEEDS SOURCE_DIR "/tests/data/"

/* ---- reading ------------------------------------------------------- */

static int read_path(const char *path, struct weights_import *out,
                     struct infer_error *err)
{
    struct weights_options options;

    weights_options_init(&options);
    weights_import_init(out);
    const int rc = weights_read(path, &options, err, out);
    if (rc < 0)
        weights_import_clear(out);
    return rc;
}

/* The format row on bytes in memory, without a file. */
static int read_bytes(const void *data, size_t bytes,
                      struct weights_import *out, struct infer_error *err)
{
    const struct weights_format *keras = NULL;
    struct weights_options options;
    struct weights_file file = {.path = "memory"};
    unsigned char *copy = malloc(bytes ? bytes : 1);

    for (size_t i = 0; i < weights_format_count(); i++)
        if (strcmp(weights_format_at(i)->name, "keras") == 0)
            keras = weights_format_at(i);
    assert_non_null(keras);
    assert_non_null(copy);
    if (bytes)
        memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    assert_non_null(file.blob);
    weights_options_init(&options);
    weights_import_init(out);
    int rc = INFER_EFORMAT;
    err->text[0] = 0;
    if (keras->probe(&file) > 0)
        rc = keras->read(&file, &options, err, out);
    else
        snprintf(err->text, sizeof err->text, "not recognised");
    if (rc < 0)
        weights_import_clear(out);
    blob_unref(file.blob);
    return rc;
}

/* ---- recorded outputs ---------------------------------------------- */

/* A graph without its weights, as an architecture file would give it. */
static struct graph *without_weights(const struct graph *g)
{
    struct infer_error err = {0};
    struct graph *bare = NULL;
    cJSON *json = graph_to_json(g);

    assert_non_null(json);
    if (graph_from_json(json, &err, &bare) < 0)
        fail_msg("%s", err.text);
    cJSON_Delete(json);
    /* The shapes that an architecture file states under "weights". */
    for (int i = 0; i < bare->n_values; i++) {
        struct graph_value *v = &bare->value[i];
        const int k = graph_find_value(g, v->name);
        if (k < 0 || g->value[k].data == NULL)
            continue;
        v->rank = g->value[k].rank;
        memcpy(v->dim, g->value[k].dim, sizeof v->dim);
    }
    return bare;
}

/* Binds NAME.weights.h5 to the architecture of the whole model. */
static void check_weights_only(const char *path, const struct graph *g,
                               const struct weights_dict *io)
{
    struct weights_import import;
    struct infer_error err = {0};

    if (read_path(path, &import, &err) < 0)
        fail_msg("%s", err.text);
    assert_null(import.graph);
    struct graph *bare = without_weights(g);
    if (weights_bind(bare, &import.dict, NULL, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    if (graph_infer_shapes(bare, NULL, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    const double d = run_graph(bare, io);
    if (!(d <= 1e-5))
        fail_msg("%s: differs by %g", path, d);
    graph_free(bare);
    weights_import_clear(&import);
}

/* NAME.npz beside NAME.keras, NAME.h5 and NAME.weights.h5.  Returns how many
 * models were run. */
static int check_model(const char *npz, bool bind)
{
    static const char *const suffixes[] = {".keras", ".h5"};
    struct weights_import io, import;
    struct infer_error err = {0};
    char path[4096];
    int models = 0;

    if (read_path(npz, &io, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%.*s%s", (int)strlen(npz) - 4, npz,
                 suffixes[i]);
        if (access(path, R_OK) != 0)
            continue;
        if (read_path(path, &import, &err) < 0)
            fail_msg("%s", err.text);
        if (import.graph == NULL)
            fail_msg("%s: no graph", path);
        const double d = run_graph(import.graph, &io.dict);
        if (!(d <= 1e-5))
            fail_msg("%s: differs by %g", path, d);
        models++;
        snprintf(path, sizeof path, "%.*s.weights.h5", (int)strlen(npz) - 4,
                 npz);
        if (i == 0 && bind && access(path, R_OK) == 0)
            check_weights_only(path, import.graph, &io.dict);
        weights_import_clear(&import);
    }
    weights_import_clear(&io);
    return models;
}

TEST(test_seed)
{
    assert_int_equal(check_model(SEEDS "seed_model.npz", true), 2);
    assert_int_equal(check_model(SEEDS "seed_scale.npz", false), 2);
    assert_int_equal(check_model(SEEDS "seed_functions.npz", false), 2);
    assert_int_equal(check_model(SEEDS "seed_pixels.npz", false), 1);
    assert_int_equal(check_model(SEEDS "keras/steps.npz", false), 2);
    assert_int_equal(check_model(SEEDS "keras/numbers.npz", false), 2);
    assert_int_equal(check_model(SEEDS "keras/order.npz", false), 2);
    assert_int_equal(check_model(SEEDS "keras/frames.npz", false), 1);
    assert_int_equal(check_model(SEEDS "keras/filters.npz", false), 1);
}

/* A model that scales pixels itself says so; another says nothing. */
TEST(test_pixels)
{
    struct weights_import import;
    struct infer_error err = {0};

    assert_int_equal(read_path(SEEDS "seed_pixels.keras", &import, &err), 0);
    assert_true(import.graph->preprocess[0].present);
    assert_true(import.graph->preprocess[0].scale == 1);
    assert_int_equal(import.graph->preprocess[0].color, GRAPH_RGB);
    weights_import_clear(&import);
    assert_int_equal(read_path(SEEDS "seed_model.keras", &import, &err), 0);
    assert_false(import.graph->preprocess[0].present);
    weights_import_clear(&import);
}

/* Not of models without weights, or with layers whose variables a bare file
 * does not name unambiguously. */
static bool can_bind(const char *name)
{
    static const char *const not [] = {"norms.",  "adapted.", "conv3d.",
                                       "conv1d.", "vectors.", "activations.",
                                       "pools.",  "shapes."};

    for (size_t i = 0; i < COUNT(not ); i++)
        if (strncmp(name, not [i], strlen(not [i])) == 0)
            return false;
    return true;
}

TEST(test_made_models)
{
    const char *folder = getenv("KERAS_FILES");
    struct dirent **names;
    int models = 0;

    if (folder == NULL) {
        print_message("skipped: KERAS_FILES is not set "
                      "(tests/make/keras_models.py)\n");
        skip();
    }
    const int n = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(names[i]->d_name, '.');
        if (dot != NULL && strcmp(dot, ".npz") == 0) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            models += check_model(path, can_bind(names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    print_message("%d models\n", models);
    assert_true(models >= 50);
}

/* ---- real models --------------------------------------------------- */

/* reference_outputs.json for one model, as "output0". */
static struct constant *recorded_output(const char *model)
{
    char path[4096];
    struct infer_error err = {0};
    cJSON *json;

    assert_non_null(
        data_path("weights/reference_outputs.json", path, sizeof path));
    struct data_bytes b = data_read(path);
    assert_int_equal(json_parse((char *)b.data, b.bytes, true, &err, &json), 0);
    const cJSON *rows = json_member(
        json_member(json_member(json, "models"), model), "outputs_first10");
    assert_non_null(rows);
    const int64_t dim[2] = {cJSON_GetArraySize(rows),
                            cJSON_GetArraySize(rows->child)};
    struct constant *c = constant_new(INFER_F32, 2, dim);
    int64_t i = 0;
    for (const cJSON *r = rows->child; r != NULL; r = r->next)
        for (const cJSON *v = r->child; v != NULL; v = v->next)
            scalar_store(INFER_F32, c->data, i++, v->valuedouble);
    cJSON_Delete(json);
    free(b.data);
    return c;
}

TEST(test_real_models)
{
    static const struct {
        const char *path, *input;
        int nodes, stripped;
    } cases[] = {{"keras-mini-xception/fer2013_mini_XCEPTION.102-0.66.hdf5",
                  "fer2013_mini_XCEPTION.102-0.66-input.npy", 54, 106},
                 {"keras-mini-xception/gender_mini_XCEPTION.21-0.95.hdf5",
                  "gender_mini_XCEPTION.21-0.95-input.npy", 54, 106},
                 {"keras-mlperf-tiny/vww_96.h5", "vww_96-input.npy", 86, 222}};
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct weights_import import, input;
        char path[4096], name[512];
        snprintf(name, sizeof name, "weights/%s", cases[i].path);
        REQUIRE_DATA(name, path);
        if (read_path(path, &import, &err) < 0)
            fail_msg("%s", err.text);
        assert_non_null(import.graph);
        assert_int_equal(import.graph->n_nodes, cases[i].nodes);
        assert_int_equal(import.dict.stripped_count, cases[i].stripped);
        assert_int_equal(import.dict.count, 0);
        snprintf(name, sizeof name, "weights/reference-inputs/%s",
                 cases[i].input);
        REQUIRE_DATA(name, path);
        if (read_path(path, &input, &err) < 0)
            fail_msg("%s", err.text);
        struct weights_dict io;
        weights_dict_init(&io);
        assert_int_equal(input.dict.count, 1);
        weights_dict_add(&io, "input0", constant_ref(input.dict.entry[0].value),
                         &err);
        weights_dict_add(&io, "output0", recorded_output(cases[i].path), &err);
        const double d = run_graph(import.graph, &io);
        if (!(d <= 1e-4))
            fail_msg("%s: differs by %g", cases[i].path, d);
        weights_dict_clear(&io);
        weights_import_clear(&input);
        weights_import_clear(&import);
    }
}

/* Both files hold the same weights: they give the same graph. */
TEST(test_same_weights)
{
    struct weights_import a, b;
    struct infer_error err = {0};
    char path[4096];

    REQUIRE_DATA("weights/keras-mnist-cnn/mnist_cnn.h5", path);
    assert_int_equal(read_path(path, &a, &err), 0);
    REQUIRE_DATA("weights/keras-mnist-cnn/mnist_cnn.keras", path);
    assert_int_equal(read_path(path, &b, &err), 0);
    assert_int_equal(a.graph->n_values, b.graph->n_values);
    for (int i = 0; i < a.graph->n_values; i++) {
        const struct graph_value *v = &a.graph->value[i];
        const int k = graph_find_value(b.graph, v->name);
        assert_true(k >= 0);
        if (v->data == NULL)
            continue;
        const struct constant *c = b.graph->value[k].data;
        assert_non_null(c);
        assert_int_equal(c->bytes, v->data->bytes);
        assert_memory_equal(c->data, v->data->data, c->bytes);
    }
    assert_int_equal(graph_find_value(a.graph, "conv2d_2.weight") >= 0, 1);
    assert_string_equal(a.graph->name, "sequential_1");
    weights_import_clear(&a);
    weights_import_clear(&b);
}

/* Keras 1, weights alone, with odd names of datasets. */
TEST(test_squeezenet)
{
    struct weights_import import;
    struct infer_error err = {0};
    char path[4096];

    REQUIRE_DATA("weights/keras-squeezenet/"
                 "squeezenet_weights_tf_dim_ordering_tf_kernels_notop.h5",
                 path);
    assert_int_equal(read_path(path, &import, &err), 0);
    assert_null(import.graph);
    assert_int_equal(import.dict.count, 50);
    const struct constant *w =
        weights_dict_find(&import.dict, "fire2/expand3x3.weight");
    assert_non_null(w);
    const int64_t dim[4] = {64, 16, 3, 3};
    assert_int_equal(w->rank, 4);
    assert_memory_equal(w->dim, dim, sizeof dim);
    assert_non_null(weights_dict_find(&import.dict, "fire2/expand3x3.bias"));
    assert_non_null(weights_dict_find(&import.dict, "conv1.weight"));
    weights_import_clear(&import);
}

/* ---- refusals ------------------------------------------------------ */

/* Replaces text in the configuration, which the file holds verbatim, by text
 * of the same length (padded with blanks, which JSON ignores). */
static struct data_bytes edited(const char *path, const char *from,
                                const char *to)
{
    struct data_bytes b = data_read(path);
    const size_t n = strlen(from), m = strlen(to);
    bool any = false;

    assert_true(m <= n);
    for (size_t i = 0; i + n <= b.bytes; i++) {
        if (memcmp(b.data + i, from, n) != 0)
            continue;
        memset(b.data + i, ' ', n);
        memcpy(b.data + i, to, m);
        any = true;
    }
    if (!any)
        fail_msg("no '%s' in %s", from, path);
    return b;
}

TEST(test_refusals)
{
    static const struct {
        const char *from, *to;
        int code;
        const char *word;
    } cases[] = {
        {"\"class_name\": \"Conv2D\"", "\"class_name\": \"Lambda\"",
         INFER_EUNSUPPORTED, "'aa': Lambda"},
        {"\"class_name\": \"Flatten\"", "\"class_name\": \"Custom\"",
         INFER_EUNSUPPORTED, "'dd': class Custom"},
        {"\"class_name\": \"Dense\"", "\"class_name\": \"Nope\"",
         INFER_EUNSUPPORTED, "'ee': class Nope"},
        {"\"class_name\": \"Functional\"", "\"class_name\": \"MyModel\"",
         INFER_EUNSUPPORTED, "class MyModel"},
        {"\"filters\": 3", "\"filters\": 4", INFER_EFORMAT, "shape"},
        {"\"filters\": 3", "\"filters\": 0", INFER_EFORMAT, "filters"},
        {"\"filters\": 3", "\"filters\":-1", INFER_EFORMAT, "filters"},
        {"\"kernel_size\": [3, 3]", "\"kernel_size\": [3, 0]", INFER_EFORMAT,
         "kernel_size"},
        {"\"kernel_size\": [3, 3]", "\"kernel_size\": [3]", INFER_EFORMAT,
         "kernel_size"},
        {"\"kernel_size\": [3, 3]", "\"kernel_size\": [5, 3]", INFER_EFORMAT,
         "shape"},
        {"\"strides\": [1, 1]", "\"strides\": [\"\",1]", INFER_EFORMAT,
         "strides"},
        {"\"strides\": [1, 1]", "\"strides\": [0, 1]", INFER_EFORMAT,
         "strides"},
        {"\"padding\": \"valid\"", "\"padding\": \"foooo\"", INFER_EUNSUPPORTED,
         "foooo"},
        {"\"activation\": \"relu\"", "\"activation\": \"ruin\"",
         INFER_EUNSUPPORTED, "activation 'ruin'"},
        {"\"use_bias\": true", "\"use_bias\": \"\"", INFER_EFORMAT, "use_bias"},
        {"\"units\": 4", "\"units\": 5", INFER_EFORMAT, "outputs"},
        {"\"epsilon\": 0.001", "\"epsilon\": NaN", 0, ""},
        {"\"epsilon\": 0.001", "\"epsilon\": \"\"", INFER_EFORMAT, "epsilon"},
        {"\"epsilon\": 0.001", "\"epsilon\": 1e99", INFER_EFORMAT, "epsilon"},
        {"\"epsilon\": 0.001", "\"epsilon\": 1e999", INFER_EFORMAT, ""},
        {"{\"name\": \"float32\"}", "{\"name\": \"int8\"}", INFER_EUNSUPPORTED,
         "policy 'int8'"},
        {"\"keras_history\": [\"cc\", 0, 0]",
         "\"keras_history\": [\"dd\", 0, 0]", INFER_EFORMAT, "cycle"},
        {"\"keras_history\": [\"cc\", 0, 0]",
         "\"keras_history\": [\"zz\", 0, 0]", INFER_EFORMAT, "'zz'"},
        {"\"keras_history\": [\"cc\", 0, 0]",
         "\"keras_history\": [\"cc\", 7, 0]", INFER_EFORMAT, "call 7"},
        {"\"keras_history\": [\"cc\", 0, 0]",
         "\"keras_history\": [\"cc\", 0, 7]", INFER_EFORMAT, "output 7"},
        {"\"name\": \"cc\"", "\"name\": \"bb\"", INFER_EFORMAT, "two layers"},
        {"\"output_layers\": [", "\"outpul_layers\": [", INFER_EFORMAT, ""},
        {"\"batch_shape\": [null, 6, 5, 2]", "\"batch_shape\": [null, 2, 5, 2]",
         INFER_EFORMAT, "aa"},
        {"\"batch_shape\": [null, 6, 5, 2]", "\"batch_shape\": []",
         INFER_EFORMAT, "shape"}};
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct weights_import import;
        struct data_bytes b =
            edited(SEEDS "seed_model.h5", cases[i].from, cases[i].to);
        const int rc = read_bytes(b.data, b.bytes, &import, &err);
        if (rc != cases[i].code || strstr(err.text, cases[i].word) == NULL)
            fail_msg("%s -> %s: %d, '%s'", cases[i].from, cases[i].to, rc,
                     rc < 0 ? err.text : "");
        if (rc == 0)
            weights_import_clear(&import);
        free(b.data);
    }
}

/* Configurations that no file of ours holds. */
TEST(test_configurations)
{
#define MODEL(layers)                                                          \
    "{\"class_name\": \"Sequential\", \"config\": [" layers "]}"
#define RELU(more)                                                             \
    "{\"class_name\": \"ReLU\", \"config\": {\"name\": \"r\"}" more "}"
    static const struct {
        const char *json;
        int code;
        const char *word;
    } cases[] = {
        {MODEL(RELU("")), 0, ""},
        {MODEL(RELU(", \"module\": \"keras.src.layers\"")), 0, ""},
        {MODEL(RELU(", \"module\": \"os\"")), INFER_EUNSUPPORTED, "custom"},
        {MODEL(RELU(", \"module\": \"builtins\"")), INFER_EUNSUPPORTED,
         "custom"},
        {MODEL(RELU(", \"module\": \"keras_evil\"")), INFER_EUNSUPPORTED,
         "custom"},
        {MODEL(RELU(", \"registered_name\": \"P>ReLU\"")), INFER_EUNSUPPORTED,
         "custom"},
        {MODEL(RELU("") ", " RELU("")), INFER_EFORMAT, "two layers"},
        {MODEL(""), INFER_EFORMAT, "no layers"},
        {MODEL("7"), INFER_EFORMAT, "no class"},
        {MODEL("{\"class_name\": \"ReLU\"}"), INFER_EFORMAT, "no class"},
        {"{\"class_name\": \"Sequential\"}", INFER_EFORMAT, "layers"},
        {"{\"config\": {}}", INFER_EFORMAT, "no class"},
        {"[]", INFER_EFORMAT, "no class"},
        {"{\"class_name\": \"Functional\", \"config\": {\"layers\": []}}",
         INFER_EFORMAT, ""}};
#undef MODEL
#undef RELU
    struct infer_error err = {0};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct keras_model *model = NULL;
        cJSON *json;
        assert_int_equal(json_parse(cases[i].json, strlen(cases[i].json), false,
                                    &err, &json),
                         0);
        const int rc = keras_model_parse(json, &err, &model);
        if (rc != cases[i].code || strstr(err.text, cases[i].word) == NULL)
            fail_msg("%s: %d, '%s'", cases[i].json, rc, err.text);
        keras_model_free(model);
        cJSON_Delete(json);
    }
}

/* Numbers stand for true and false. */
TEST(test_truth)
{
    struct keras_emit k = {0};
    cJSON *json = cJSON_Parse("{\"a\": 1, \"b\": 0.0, \"c\": true}");

    assert_true(keras_bool(&k, json, "a", false));
    assert_false(keras_bool(&k, json, "b", true));
    assert_true(keras_bool(&k, json, "c", false));
    assert_true(keras_bool(&k, json, "d", true));
    assert_int_equal(k.status, 0);
    cJSON_Delete(json);
}

/* Models inside models, deeper than any sane file. */
/* 40 layers that each apply one. */
TEST(test_depth_of_layers)
{
    struct keras_model *model = NULL;
    struct infer_error err = {0};
    cJSON *json = cJSON_Parse("{\"class_name\": \"ReLU\", \"config\": "
                              "{\"name\": \"r\"}}");
    cJSON *whole = cJSON_Parse("{\"class_name\": \"Sequential\", \"config\": "
                               "{\"name\": \"s\", \"layers\": []}}");

    for (int i = 0; i < 40; i++) {
        cJSON *outer = cJSON_CreateObject();
        cJSON *config = cJSON_AddObjectToObject(outer, "config");
        cJSON_AddStringToObject(outer, "class_name", "TimeDistributed");
        cJSON_AddStringToObject(config, "name", "t");
        cJSON_AddItemToObject(config, "layer", json);
        json = outer;
    }
    cJSON_AddItemToArray(
        cJSON_GetObjectItem(cJSON_GetObjectItem(whole, "config"), "layers"),
        json);
    assert_int_equal(keras_model_parse(whole, &err, &model),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "layers inside layers deeper than"));
    cJSON_Delete(whole);
}

TEST(test_depth)
{
    struct keras_model *model = NULL;
    struct infer_error err = {0};
    cJSON *json = cJSON_Parse("{\"class_name\": \"ReLU\", \"config\": "
                              "{\"name\": \"r\"}}");

    for (int i = 0; i < 40; i++) {
        cJSON *outer = cJSON_CreateObject();
        cJSON *config = cJSON_AddObjectToObject(outer, "config");
        cJSON_AddStringToObject(outer, "class_name", "Sequential");
        cJSON_AddStringToObject(config, "name", "s");
        cJSON_AddItemToArray(cJSON_AddArrayToObject(config, "layers"), json);
        json = outer;
    }
    assert_int_equal(keras_model_parse(json, &err, &model), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "deeper than"));
    cJSON_Delete(json);
}

/* All unsupported layers come in one report. */
TEST(test_all_listed)
{
    struct weights_import import;
    struct infer_error err = {0};
    struct data_bytes b =
        edited(SEEDS "seed_model.h5", "\"class_name\": \"Conv2D\"",
               "\"class_name\": \"Lambda\"");

    for (size_t i = 0; i + 7 < b.bytes; i++)
        if (memcmp(b.data + i, "\"Dense\"", 7) == 0)
            memcpy(b.data + i, "\"Tense\"", 7);
    assert_int_equal(read_bytes(b.data, b.bytes, &import, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "'aa': Lambda"));
    assert_non_null(strstr(err.text, "'ee': class Tense"));
    free(b.data);
}

TEST(test_other_formats)
{
    static const struct {
        const char *path;
        int code;
        const char *word;
    } cases[] = {{"hdf5-malformed/libmysofa/tester.sofa", INFER_EUNSUPPORTED,
                  "model_config"},
                 {"hdf5-malformed/h5py-valid/vlen_string_dset.h5",
                  INFER_EUNSUPPORTED, "model_config"},
                 {"keras-format-tests/pre_pr22362_nested_container.keras",
                  INFER_EUNSUPPORTED, "NestedDenseModel"}};
    struct infer_error err = {0};
    char path[4096];

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct weights_import import;
        REQUIRE_DATA(cases[i].path, path);
        const int rc = read_path(path, &import, &err);
        if (rc != cases[i].code || strstr(err.text, cases[i].word) == NULL)
            fail_msg("%s: %d, '%s'", path, rc, err.text);
        /* The text names the file. */
        assert_non_null(strstr(err.text, path));
    }
}

static void one_malformed(const char *path, void *user)
{
    struct weights_import import;
    struct infer_error err = {0};

    if (read_path(path, &import, &err) >= 0)
        fail_msg("%s was read as weights", path);
    assert_true(err.text[0] != '\0');
    ++*(int *)user;
}

TEST(test_malformed)
{
    char path[4096];
    int files = 0;

    REQUIRE_DATA("hdf5-malformed/cvefiles", path);
    walk_files(path, one_malformed, &files);
    assert_int_equal(files, 91);
}

/* ---- damage -------------------------------------------------------- */

static int read_quietly(const void *data, size_t bytes)
{
    struct weights_import import;
    struct infer_error err = {0};
    const int rc = read_bytes(data, bytes, &import, &err);

    if (rc < 0 && err.text[0] == '\0')
        fail_msg("refused with %d and without a word", rc);
    if (rc == 0)
        weights_import_clear(&import);
    return rc;
}

/* Bits and lengths are sampled, one of so many: fewer of a network that is
 * unrolled, which takes ten times as long to read and is an HDF5 file like the
 * others. */
static const struct {
    const char *path;
    size_t lengths, bits;
} damaged[] = {{SEEDS "seed_model.h5", 97, 101},
               {SEEDS "seed_model.keras", 97, 211},
               {SEEDS "seed_model.weights.h5", 97, 101},
               {SEEDS "seed_functions.h5", 97, 401},
               {SEEDS "keras/steps.h5", 679, 2331}};

TEST(test_truncated)
{
    for (size_t s = 0; s < COUNT(damaged); s++) {
        struct data_bytes b = data_read(damaged[s].path);
        assert_int_equal(read_quietly(b.data, b.bytes), 0);
        for (size_t n = 0; n < b.bytes; n += n < 512 ? 1 : damaged[s].lengths)
            if (read_quietly(b.data, n) >= 0)
                fail_msg("%s cut to %zu bytes was read", damaged[s].path, n);
        free(b.data);
    }
}

TEST(test_flipped)
{
    for (size_t s = 0; s < COUNT(damaged); s++) {
        struct data_bytes b = data_read(damaged[s].path);
        int refused = 0;
        for (size_t bit = 0; bit < b.bytes * 8; bit += damaged[s].bits) {
            b.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
            refused += read_quietly(b.data, b.bytes) < 0;
            b.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_true(refused > 100);
        free(b.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seed),
                                       cmocka_unit_test(test_pixels),
                                       cmocka_unit_test(test_made_models),
                                       cmocka_unit_test(test_real_models),
                                       cmocka_unit_test(test_same_weights),
                                       cmocka_unit_test(test_squeezenet),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_configurations),
                                       cmocka_unit_test(test_truth),
                                       cmocka_unit_test(test_depth),
                                       cmocka_unit_test(test_depth_of_layers),
                                       cmocka_unit_test(test_all_listed),
                                       cmocka_unit_test(test_other_formats),
                                       cmocka_unit_test(test_malformed),
                                       cmocka_unit_test(test_truncated),
                                       cmocka_unit_test(test_flipped)};

    return cmocka_run_group_tests_name("keras", tests, NULL, NULL);
}
