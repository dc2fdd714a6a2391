/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: the classes of layers that are known, by class_name through an
 * allow-list; "module" and "registered_name" are only looked at to refuse what
 * is not Keras' own. */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

static const struct keras_class classes[] = {
#define NONE              NULL
#define KERAS_INPUT(name) {name, 0, 0, false, NULL, NULL},
#define KERAS_LAYER(name, max_in, arg, variables, emit)                        \
    {name, max_in, arg, false, variables, emit},
#define KERAS_FUNCTION(name, max_in, arg, emit)                                \
    {name, max_in, arg, true, NULL, emit},
#include "weights/keras/layers.def"
#undef KERAS_LAYER
#undef KERAS_FUNCTION
#undef KERAS_INPUT
#undef NONE
};

const struct keras_class *keras_class_find(const char *name)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].name, name) == 0)
            return &classes[i];
    return NULL;
}

bool keras_is_model(const char *class_name)
{
    return strcmp(class_name, "Sequential") == 0 ||
           strcmp(class_name, "Functional") == 0 ||
           strcmp(class_name, "Model") == 0;
}

/* True for what Keras' own classes state: module null or keras..., registered
 * name null or the class itself. */
bool keras_is_own(const cJSON *layer, const char *class_name)
{
    static const char *const modules[] = {
        "keras", "tf_keras", "tensorflow.python.keras", "tensorflow.keras"};
    const char *module = json_string(layer, "module");
    const char *registered = json_string(layer, "registered_name");

    if (registered != NULL && strcmp(registered, class_name) != 0)
        return false;
    if (module == NULL)
        return true;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        const size_t n = strlen(modules[i]);
        if (strncmp(module, modules[i], n) == 0 &&
            (module[n] == '\0' || module[n] == '.'))
            return true;
    }
    return false;
}

/* Two functions of keras.ops have the class name of a layer; .h5 does not say
 * whose module it is, but their configurations differ. */
const struct keras_class *keras_class_of(const cJSON *config,
                                         const char *class_name)
{
    if (strcmp(class_name, "Dot") == 0 && !json_member(config, "axes"))
        class_name = "ops.Dot";
    else if (strcmp(class_name, "Average") == 0 && json_member(config, "axis"))
        class_name = "ops.Average";
    return keras_class_find(class_name);
}

/* True where the file says that this is a function of keras.ops: by its module,
 * or by a call as only Keras 3 writes it.  Else a layer of the user's own may
 * have the function's name: Keras 1 and 2 do not state modules. */
static bool is_function(const cJSON *layer)
{
    static const char *const modules[] = {"keras.src.ops", "keras.ops"};
    const char *module = json_string(layer, "module");
    const cJSON *calls = json_member(layer, "inbound_nodes");

    for (size_t i = 0; module && i < sizeof modules / sizeof *modules; i++)
        if (strncmp(module, modules[i], strlen(modules[i])) == 0)
            return true;
    return cJSON_IsArray(calls) && json_member(calls->child, "args") != NULL;
}

static bool is_supported(const cJSON *layer, const char *class_name)
{
    const struct keras_class *class =
        keras_class_of(json_member(layer, "config"), class_name);

    return class != NULL && (!class->function || is_function(layer));
}

/* One line of the report, or false where the layer is fine. */
bool keras_report_class(const cJSON *layer, const char *class_name,
                        const char *name, struct infer_error *err)
{
    if (!keras_is_own(layer, class_name))
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': custom class %s; only Keras' own layers are "
                  "supported",
                  name, class_name);
    else if (strcmp(class_name, "Lambda") == 0)
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': Lambda holds Python code, which is never run",
                  name);
    else if (!keras_is_model(class_name) && !is_supported(layer, class_name))
        error_add(err, INFER_EUNSUPPORTED,
                  "layer '%s': class %s is not supported", name, class_name);
    else
        return false;
    return true;
}
