/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: Keras files: .h5 whole or weights alone, .keras, and model
 * configurations as bare JSON.  A graph that comes out must hold together. */
#include "tests/fuzz/fuzz.h"

#include "kernels/base/json.h"
#include "weights/keras/keras.h"

extern const struct weights_format weights_format_keras;

/* Layers without variables need no file: their graph is built too. */
static void configuration(const uint8_t *data, size_t size)
{
    struct keras_model *model = NULL;
    struct infer_error err;
    cJSON *json = NULL;

    if (json_parse((const char *)data, size, true, &err, &json) < 0)
        return;
    if (fuzz_tell(keras_model_parse(json, &err, &model), &err, 0) == 0) {
        struct keras_emit k = {.g = graph_new(), .err = &err, .major = 3};
        if (k.g != NULL && keras_name_variables(&k, model) == 0)
            keras_emit_model(&k, model);
        fuzz_tell(k.status, &err, 0);
        graph_free(k.g);
    }
    keras_model_free(model);
    cJSON_Delete(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weights_file file = {"fuzz", fuzz_blob(data, size)};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;

    if (!file.blob)
        return 0;
    if (size > 0 && data[0] == '{') {
        configuration(data, size);
        weights_file_close(&file);
        return 0;
    }
    weights_options_init(&options);
    weights_import_init(&import);
    if (weights_format_keras.probe(&file) > 0 &&
        fuzz_tell(weights_format_keras.read(&file, &options, &err, &import),
                  &err, 0) == 0 &&
        import.graph != NULL &&
        (graph_validate(import.graph, &err) < 0 ||
         graph_infer_shapes(import.graph, NULL, &err) < 0))
        abort();
    weights_import_clear(&import);
    weights_file_close(&file);
    return 0;
}
