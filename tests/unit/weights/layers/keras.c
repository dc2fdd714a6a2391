/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of Keras by their configuration alone: which values are read, and what
 * is said about others.  Layers with variables are in tests/unit/weights/keras.
 */
#include "kernels/base/json.h"
#include "tests/unit/weights/formats_help.h"
#include "weights/keras/keras.h"

#define PICTURE  "[null, 6, 5, 4]"
#define SEQUENCE "[null, 7, 4]"
#define VECTOR   "[null, 8]"

/* The status of a configuration, its shapes included. */
static int read_text(const char *text, struct infer_error *err)
{
    struct keras_model *model = NULL;
    cJSON *json = NULL;
    int rc;

    assert_int_equal(json_parse(text, strlen(text), true, err, &json), 0);
    rc = keras_model_parse(json, err, &model);
    if (rc == 0) {
        struct keras_emit k = {.g = graph_new(), .err = err, .major = 3};

        assert_non_null(k.g);
        if (keras_name_variables(&k, model) == 0)
            keras_emit_model(&k, model);
        rc = k.status < 0 ? k.status : graph_infer_shapes(k.g, NULL, err);
        graph_free(k.g);
    }
    keras_model_free(model);
    cJSON_Delete(json);
    return rc;
}

/* Of a network of one layer. */
static int read_layer(const char *shape, const char *class, const char *more,
                      struct infer_error *err)
{
    char text[1024];

    snprintf(
        text, sizeof text,
        "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", "
        "\"layers\": [{\"class_name\": \"InputLayer\", \"config\": "
        "{\"name\": \"in\", \"batch_shape\": %s}}, {\"class_name\": \"%s\", "
        "\"config\": {\"name\": \"x\"%s%s}}]}}",
        shape, class, more[0] ? ", " : "", more);
    return read_text(text, err);
}

/* Of a call of a function of keras.ops. */
static int read_call(const char *shape, const char *class, const char *more,
                     const char *args, const char *kwargs,
                     struct infer_error *err)
{
    char text[2048];

    snprintf(text, sizeof text,
             "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", "
             "\"layers\": [{\"class_name\": \"InputLayer\", \"config\": "
             "{\"name\": \"in\", \"batch_shape\": %s}, \"inbound_nodes\": []}, "
             "{\"class_name\": \"%s\", \"config\": {\"name\": \"x\"%s%s}, "
             "\"inbound_nodes\": [{\"args\": [%s], \"kwargs\": {%s}}]}], "
             "\"input_layers\": [[\"in\", 0, 0]], \"output_layers\": "
             "[[\"x\", 0, 0]]}}",
             shape, class, more[0] ? ", " : "", more, args, kwargs);
    return read_text(text, err);
}

TEST(test_layers)
{
    static const struct {
        const char *shape, *class, *more;
        int code;
        const char *word;
    } cases[] = {
        {PICTURE, "Reshape", "", INFER_EFORMAT, "target_shape is no list"},
        {PICTURE, "Reshape", "\"target_shape\": []", INFER_EFORMAT,
         "target_shape is empty or has -1 twice"},
        {PICTURE, "Reshape", "\"target_shape\": [-1, -1]", INFER_EFORMAT,
         "target_shape is empty or has -1 twice"},
        {PICTURE, "Reshape", "\"target_shape\": [0]", INFER_EFORMAT,
         "dimension 1 of target_shape"},
        {PICTURE, "Reshape", "\"target_shape\": [\"a\"]", INFER_EFORMAT,
         "dimension 1 of target_shape"},
        {PICTURE, "Reshape", "\"target_shape\": [1,1,1,1,1,1,1,1,1,1,1,120]",
         INFER_EUNSUPPORTED, "more than 8 dimensions"},
        {PICTURE, "Reshape", "\"target_shape\": [-2, 3]", INFER_EFORMAT,
         "dimension 1 of target_shape"},
        {PICTURE, "Reshape", "\"target_shape\": [6, 20]", 0, ""},
        {PICTURE, "Reshape", "\"target_shape\": [7, 20]", INFER_EFORMAT,
         "a tensor of shape ?x6x5x4 cannot have shape ?x7x20"},
        {PICTURE, "MaxPooling2D", "\"padding\": \"causal\"", INFER_EUNSUPPORTED,
         "causal padding"},
        {PICTURE, "MaxPooling2D", "\"pool_size\": [0, 2]", INFER_EFORMAT,
         "pool_size is not 2 integers from 1 to 2147483647"},
        {PICTURE, "MaxPooling2D", "\"pool_size\": [2, 2, 2]", INFER_EFORMAT,
         "pool_size is not 2 integers from 1 to 2147483647"},
        {SEQUENCE, "MaxPooling2D", "\"pool_size\": [2, 2]", INFER_EFORMAT,
         "its input has 3 dimensions, 4 are due"},
        {PICTURE, "AveragePooling2D", "\"strides\": [-1, 2]", INFER_EFORMAT,
         "strides is not 2 integers from 1 to 2147483647"},
        {PICTURE, "MaxPooling2D", "\"data_format\": \"x\"", INFER_EFORMAT,
         "data_format is not channels_last or channels_first"},
        {PICTURE, "Permute", "\"dims\": [1, 1, 2]", INFER_EFORMAT,
         "dims is no permutation"},
        {PICTURE, "Permute", "\"dims\": [1, 2]", INFER_EFORMAT,
         "dims is not 3 integers from 1 to 3"},
        {PICTURE, "Permute", "\"dims\": [3, 1, 4]", INFER_EFORMAT,
         "dims is not 3 integers from 1 to 3"},
        {PICTURE, "Permute", "\"dims\": [3, 1, 2]", 0, ""},
        {PICTURE, "RepeatVector", "\"n\": 3", INFER_EFORMAT,
         "its input has 4 dimensions"},
        {VECTOR, "RepeatVector", "\"n\": 0", INFER_EFORMAT,
         "n is not an integer from 1 to 2147483647"},
        {VECTOR, "RepeatVector", "\"n\": 3", 0, ""},
        {PICTURE, "ZeroPadding2D", "\"padding\": [1]", INFER_EFORMAT,
         "padding does not give 4 sides"},
        {PICTURE, "ZeroPadding2D", "\"padding\": [[1, 2], [3]]", INFER_EFORMAT,
         "padding does not give 4 sides"},
        {PICTURE, "ZeroPadding2D", "\"padding\": [[1, 2], [3, -1]]",
         INFER_EFORMAT, "padding does not give 4 sides"},
        {PICTURE, "ZeroPadding2D", "\"padding\": [1,2,3,4,5,6,7]",
         INFER_EFORMAT, "padding does not give 4 sides"},
        {PICTURE, "ZeroPadding2D", "\"padding\": [[1, 2], [3, 4]]", 0, ""},
        {PICTURE, "Cropping2D", "\"cropping\": [[1, 2], [0, 1]]", 0, ""},
        {PICTURE, "Cropping2D", "\"cropping\": [[3, 3], [0, 1]]", INFER_EFORMAT,
         "layer 'x': the crop leaves nothing"},
        {PICTURE, "Cropping2D", "\"cropping\": [[1, 1], [5, 0]]", INFER_EFORMAT,
         "layer 'x': the crop leaves nothing"},
        {SEQUENCE, "Cropping1D", "\"cropping\": [7, 0]", INFER_EFORMAT,
         "layer 'x': the crop leaves nothing"},
        {"[null, null, 5, 4]", "Cropping2D", "\"cropping\": [[3, 3], [0, 1]]",
         0, ""},
        {PICTURE, "UpSampling2D", "\"interpolation\": \"foo\"",
         INFER_EUNSUPPORTED,
         "interpolation 'foo'; nearest, bilinear and bicubic are supported"},
        {PICTURE, "UpSampling2D", "\"size\": [0, 2]", INFER_EFORMAT,
         "size is not 2 integers from 1 to 65536"},
        {PICTURE, "UpSampling2D",
         "\"size\": [2, 2], \"interpolation\": \"bilinear\"", 0, ""},
        {PICTURE, "Conv2D",
         "\"filters\": 3, \"kernel_size\": [3, 3], \"padding\": \"causal\"",
         INFER_EUNSUPPORTED, "causal padding here"},
        {PICTURE, "Conv2D",
         "\"filters\": 3, \"kernel_size\": [3, 3], \"groups\": 0",
         INFER_EFORMAT, "groups is not an integer from 1 to 2147483647"},
        {PICTURE, "Conv2D",
         "\"filters\": 3, \"kernel_size\": [3, 3], \"dilation_rate\": [0, 1]",
         INFER_EFORMAT, "dilation_rate is not 2 integers from 1 to 2147483647"},
        {SEQUENCE, "Conv2D", "\"filters\": 3, \"kernel_size\": [3, 3]",
         INFER_EFORMAT, "its input has 3 dimensions, 4 are due"},
        {SEQUENCE, "Conv1D",
         "\"filters\": 3, \"kernel_size\": [100000], \"dilation_rate\": "
         "[100000], \"padding\": \"causal\"",
         INFER_EUNSUPPORTED, "causal padding here"},
        {PICTURE, "Conv2DTranspose",
         "\"filters\": 3, \"kernel_size\": [3, 3], \"groups\": 2",
         INFER_EUNSUPPORTED,
         "groups or causal padding of a transposed convolution"},
        {PICTURE, "Conv2DTranspose",
         "\"filters\": 3, \"kernel_size\": [3, 3], \"padding\": \"causal\"",
         INFER_EUNSUPPORTED, "causal padding here"},
        {PICTURE, "DepthwiseConv2D",
         "\"kernel_size\": [3, 3], \"depth_multiplier\": 0", INFER_EFORMAT,
         "depth_multiplier is not an integer from 1 to 2147483647"},
        {PICTURE, "Softmax", "\"axis\": 4", INFER_EFORMAT,
         "softmax over axis 4 of 4"},
        {PICTURE, "Softmax", "\"axis\": -5", INFER_EFORMAT,
         "softmax over axis -5 of 4"},
        {PICTURE, "Softmax", "\"axis\": 0", 0, ""},
        {PICTURE, "Softmax", "\"axis\": 2", 0, ""},
        {PICTURE, "Softmax", "\"axis\": [1, 2]", INFER_EFORMAT,
         "axis is not an integer from -8 to 8"},
        {PICTURE, "Activation", "\"activation\": \"nope\"", INFER_EUNSUPPORTED,
         "activation 'nope'"},
        {PICTURE, "Activation", "\"activation\": {\"config\": {}}",
         INFER_EFORMAT, "its activation is no word"},
        {PICTURE, "Activation",
         "\"activation\": {\"class_name\": \"ReLU\", \"config\": "
         "{\"max_value\": 6}}",
         0, ""},
        {PICTURE, "ReLU", "\"max_value\": \"a\"", INFER_EFORMAT,
         "max_value is not a number"},
        {PICTURE, "ELU", "\"alpha\": []", INFER_EFORMAT,
         "alpha is not a number"},
        {PICTURE, "GroupNormalization", "\"groups\": -2", INFER_EFORMAT,
         "groups is not an integer from -1 to 2147483647"},
        {PICTURE, "LayerNormalization", "\"axis\": [1, 3]", INFER_EUNSUPPORTED,
         "axes that are not the last"},
        {PICTURE, "BatchNormalization", "\"axis\": 5", INFER_EFORMAT,
         "axis 5 of 4"},
        {PICTURE, "BatchNormalization", "\"axis\": 0", INFER_EFORMAT,
         "axis 0 of 4"},
        {PICTURE, "Normalization", "\"axis\": 3", INFER_EFORMAT,
         "its mean or variance is missing"},
        {PICTURE, "UnitNormalization", "\"axis\": 7", INFER_EFORMAT,
         "axis is not one of 4"},
        {PICTURE, "Dense", "\"units\": 0", INFER_EFORMAT,
         "units is not an integer from 1 to 2147483647"},
        {PICTURE, "Flatten", "", 0, ""},
        {PICTURE, "GlobalAveragePooling2D", "\"keepdims\": 3", 0, ""},
        {SEQUENCE, "GlobalAveragePooling2D", "", INFER_EFORMAT,
         "its input has 3 dimensions, 4 are due"},
        {PICTURE, "Rescaling", "\"scale\": \"a\"", INFER_EFORMAT,
         "scale or offset is no number"},
        {PICTURE, "Dropout", "\"rate\": 0.5", 0, ""},
        {PICTURE, "CenterCrop", "\"height\": 7, \"width\": 2",
         INFER_EUNSUPPORTED, "its input of 6 pixels is smaller than 7"},
        {PICTURE, "CenterCrop", "\"height\": 2, \"width\": 2", 0, ""},
        {PICTURE, "Resizing", "\"height\": 0, \"width\": 2", INFER_EFORMAT,
         "height is not an integer from 1 to 2147483647"},
        {PICTURE, "Resizing",
         "\"height\": 3, \"width\": 2, \"crop_to_aspect_ratio\": true",
         INFER_EUNSUPPORTED, "aspect ratio kept"},
        {PICTURE, "Resizing",
         "\"height\": 3, \"width\": 2, \"interpolation\": \"area\"",
         INFER_EUNSUPPORTED,
         "interpolation 'area'; nearest, bilinear and bicubic are supported"},
        {PICTURE, "AdaptiveAveragePooling2D", "\"output_size\": [0, 2]",
         INFER_EFORMAT, "output_size is not 2 integers from 1 to 1024"},
        {PICTURE, "AdaptiveAveragePooling2D", "\"output_size\": [4, 2]", 0, ""},
        /* A layer of the user's own, in Keras 1 and 2. */
        {PICTURE, "Threshold", "", INFER_EUNSUPPORTED,
         "class Threshold is not supported"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct infer_error err = {0};
        const int rc =
            read_layer(cases[i].shape, cases[i].class, cases[i].more, &err);

        if (rc != cases[i].code || !strstr(err.text, cases[i].word))
            fail_msg("%s %s: %d, '%s'", cases[i].class, cases[i].more, rc,
                     rc < 0 ? err.text : "");
    }
}

#define X                                                                      \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": "  \
    "[\"in\", 0, 0]}}"
#define ARRAY(more) "{\"class_name\": \"__numpy__\"" more "}"

TEST(test_calls)
{
    static const struct {
        const char *shape, *class, *more, *args, *kwargs;
        int code;
        const char *word;
    } cases[] = {
        {PICTURE, "Add", "", X ", " ARRAY(""), "", INFER_EFORMAT,
         "an array among its arguments has no value"},
        {PICTURE, "Add", "", X ", " ARRAY(", \"config\": 7"), "", INFER_EFORMAT,
         "an array among its arguments has no value"},
        {PICTURE, "Add", "",
         X ", " ARRAY(", \"config\": {\"value\": [1, 2, 3, 4]}"), "", 0, ""},
        {PICTURE, "TakeAlongAxis", "\"axis\": 3",
         X ", " ARRAY(", \"config\": {\"value\": [[[[1]]]]}"), "",
         INFER_EUNSUPPORTED, "indices whose axis 0 is not the input's"},
        {PICTURE, "TakeAlongAxis", "\"axis\": 3", X ", " X, "", 0, ""},
        {PICTURE, "Glu", "", ARRAY(", \"config\": {\"value\": 2}"), "",
         INFER_EFORMAT, "a number has no axes"},
        {PICTURE, "DotProductAttention", "",
         ARRAY(", \"config\": {\"value\": 2}") ", " X ", " X, "", INFER_EFORMAT,
         "a number has no axes"},
        {PICTURE, "Average", "\"axis\": 1", X,
         "\"weights\": " ARRAY(", \"config\": {\"value\": [1, 2]}"),
         INFER_EUNSUPPORTED, "an average with weights"},
        {PICTURE, "Average", "\"axis\": 1", X, "\"weights\": null", 0, ""},
        {PICTURE, "Tensordot", "\"axes\": [[1]]", X ", " X, "", INFER_EFORMAT,
         "axes of a product"},
        {PICTURE, "Tensordot", "\"axes\": [[1], [1], [1]]", X ", " X, "",
         INFER_EFORMAT, "axes of a product"},
        {PICTURE, "Tensordot", "\"axes\": [[1, 2], [1]]", X ", " X, "",
         INFER_EFORMAT, "axes of a product"},
        {PICTURE, "Tensordot", "\"axes\": [[1, -3], [1, 2]]", X ", " X, "",
         INFER_EFORMAT, "axes of a product"},
        {PICTURE, "Tensordot", "\"axes\": [[1], [4]]", X ", " X, "",
         INFER_EFORMAT, "axes of a product"},
        {PICTURE, "Pad",
         "\"mode\": \"symmetric\", \"pad_width\": [[0, 0], [0, 0], [6, 0], "
         "[0, 0]]",
         X, "", INFER_EUNSUPPORTED, "pads that are wider than the axis of 5"},
        {PICTURE, "Pad",
         "\"mode\": \"symmetric\", \"pad_width\": [[0, 0], [0, 0], [5, 0], "
         "[0, 0]]",
         X, "", 0, ""},
        {PICTURE, "Cumsum", "\"axis\": 1, \"dtype\": \"int32\"", X, "",
         INFER_EUNSUPPORTED, "a dtype of its own other than float32"},
        {PICTURE, "Cumsum", "\"axis\": 1, \"dtype\": \"float32\"", X, "", 0,
         ""},
        {PICTURE, "Median", "\"axis\": [1, 2]", X, "", INFER_EUNSUPPORTED,
         "along 2 axes"},
        {PICTURE, "Median", "\"axis\": [1]", X, "", 0, ""},
        {PICTURE, "RGBToGrayscale", "", X, "", INFER_EFORMAT,
         "4 channels; 1 or 3 are due"},
        {"[null, 6, 5, 1]", "RGBToGrayscale", "", X, "", 0, ""},
        {"[null, 6, 5, 3]", "RGBToGrayscale", "", X, "", 0, ""},
        {PICTURE, "Fmax", "", X ", 2.0", "", 0, ""},
        {PICTURE, "LogicalXor", "", X ", " X, "", 0, ""},
        {PICTURE, "DotProductAttention", "", X ", " X ", " X, "\"scale\": -1.0",
         0, ""},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct infer_error err = {0};
        const int rc = read_call(cases[i].shape, cases[i].class, cases[i].more,
                                 cases[i].args, cases[i].kwargs, &err);

        if (rc != cases[i].code || !strstr(err.text, cases[i].word))
            fail_msg("%s %s: %d, '%s'", cases[i].class, cases[i].more, rc,
                     rc < 0 ? err.text : "");
    }
}

/* Einsums and others that ask for sizes: each time every node is looked at. */
TEST(test_asked)
{
    char *text = malloc(1 << 20);
    struct infer_error err = {0};
    size_t n;

    assert_non_null(text);
    n = (size_t)sprintf(
        text, "{\"class_name\": \"Functional\", \"config\": {\"name\": "
              "\"m\", \"layers\": [{\"class_name\": \"InputLayer\", "
              "\"config\": {\"name\": \"in\", \"batch_shape\": " SEQUENCE
              "}, \"inbound_nodes\": []}");
    for (int i = 0; i < 300; i++) {
        char from[16] = "in";

        if (i > 0)
            snprintf(from, sizeof from, "x%d", i - 1);
        n += (size_t)sprintf(
            text + n,
            ", {\"class_name\": \"Einsum\", \"config\": {\"name\": "
            "\"x%d\", \"subscripts\": \"abc->acb\"}, \"inbound_nodes\": "
            "[{\"args\": [{\"class_name\": \"__keras_tensor__\", "
            "\"config\": {\"keras_history\": [\"%s\", 0, 0]}}], "
            "\"kwargs\": {}}]}",
            i, from);
    }
    sprintf(text + n, "], \"input_layers\": [[\"in\", 0, 0]], "
                      "\"output_layers\": [[\"x299\", 0, 0]]}}");
    assert_int_equal(read_text(text, &err), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "more than 256 layers that depend"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_calls),
                                       cmocka_unit_test(test_asked)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
