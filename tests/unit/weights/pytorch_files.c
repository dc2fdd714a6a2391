/* SPDX-License-Identifier: Apache-2.0 */
/* Published PyTorch files, and pickles that were made to do harm. */
#include "config.h"

#include "tests/unit/weights/formats_help.h"

#include <dirent.h>
#include <math.h>

#include "kernels/base/json.h"

extern const struct weights_format weights_format_pytorch;
#define PT (&weights_format_pytorch)

/* ---- published files ----------------------------------------------- */

static int same_dtype(const char *torch, enum infer_dtype dtype)
{
    static const struct {
        const char *name;
        enum infer_dtype dtype;
    } known[] = {{"float64", INFER_F64}, {"float32", INFER_F32},
                 {"float16", INFER_F16}, {"bfloat16", INFER_BF16},
                 {"int64", INFER_I64},   {"int32", INFER_I32},
                 {"int16", INFER_I16},   {"int8", INFER_I8},
                 {"uint8", INFER_U8},    {"bool", INFER_BOOL}};
    size_t i;

    for (i = 0; i < COUNT(known); i++)
        if (strcmp(known[i].name, torch) == 0)
            return known[i].dtype == dtype;
    return 0;
}

static int is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * (fabs(a) + fabs(b)) + 1e-38;
}

static void compare_values(const cJSON *item, const struct constant *c)
{
    const cJSON *list = json_member(item, "values"), *value;
    double sum = 0;
    int64_t i = 0;

    if (!list)
        list = json_member(item, "first8");
    assert_non_null(list);
    cJSON_ArrayForEach(value, list)
    {
        double want =
            cJSON_IsBool(value) ? cJSON_IsTrue(value) : value->valuedouble;

        assert_true(i < constant_count(c));
        assert_true(is_near(scalar_load(c->dtype, c->data, i), want));
        i++;
    }
    if (json_member(item, "values"))
        assert_int_equal(i, constant_count(c));
    for (i = 0; i < constant_count(c); i++)
        sum += scalar_load(c->dtype, c->data, i);
    if (json_member(item, "sum"))
        assert_true(fabs(sum - json_double(item, "sum", 0)) < 1e-4);
}

/* Returns how many tensors of the file were found as they are expected. */
static size_t compare_file(const cJSON *file, const char *path)
{
    static const char prefix[] = "model_state_dict.";
    struct weights_import import;
    struct infer_error err;
    const cJSON *item;
    size_t found = 0;

    if (weights_read(path, NULL, &err, &import) < 0) {
        if (!json_member(file, "error"))
            fail_msg("%s", err.text);
        return 1;
    }
    assert_null(json_member(file, "error"));
    cJSON_ArrayForEach(item, file)
    {
        const char *name = json_string(item, "name");
        const cJSON *shape = json_member(item, "shape");
        int64_t dim[INFER_MAX_RANK];
        const struct constant *c;
        int rank, i;

        /* Numbers, and the optimiser, are no weights. */
        if (!shape || strncmp(name, "optimizer", 9) == 0)
            continue;
        if (strncmp(name, prefix, sizeof prefix - 1) == 0)
            name += sizeof prefix - 1;
        rank = cJSON_GetArraySize(shape);
        for (i = 0; i < rank; i++)
            dim[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        c = help_tensor(&import, name, rank, dim);
        assert_true(same_dtype(json_string(item, "dtype"), c->dtype));
        compare_values(item, c);
        found++;
    }
    assert_int_equal(found, import.dict.count);
    weights_import_clear(&import);
    return found;
}

TEST(test_published)
{
    struct infer_error err;
    unsigned char *text;
    cJSON *expected;
    const cJSON *file;
    char path[1024];
    size_t bytes, tensors = 0, files = 0;

    help_data(path, sizeof path, "torch-format-tests/expected.json");
    text = help_file(path, &bytes);
    if (json_parse((char *)text, bytes, true, &err, &expected) < 0)
        fail_msg("%s", err.text);
    cJSON_ArrayForEach(file, expected)
    {
        char name[512];

        snprintf(name, sizeof name, "torch-format-tests/%s", file->string);
        help_data(path, sizeof path, name);
        tensors += compare_file(file, path);
        files++;
    }
    assert_int_equal(files, 36);
    assert_true(tensors > 80);
    cJSON_Delete(expected);
    free(text);
}

/* Sums computed once with PyTorch itself. */
TEST(test_weights)
{
    static const struct {
        const char *file, *name;
        size_t count;
        double sum;
    } files[] = {
        {"blazeface/blazeface.pth", "backbone1.0.weight", 74, -3.74746965},
        {"cifar10-cnn-winml/myFirstModel.pth", "conv1.weight", 30, -1.63819036},
        {"cifar10-nets-atreides/base_cnn_exp0.5_sgd_lr01_e75_stepLR.pth",
         "conv1.weight", 32, -5.79248667},
        {"cifar10-nets-atreides/plainnet_neo_v1_5e4_20.pth", "conv0.weight",
         135, 0.519093047},
        {"cifar10-nets-atreides/resnet_neo_v1_5e4_20.pth", "conv0.weight", 135,
         -0.0852422395},
        {"cifar10-oval21/cifar_base_kw.pth", "0.weight", 8, 4.08573789},
        {"cifar10-resnet-akamaster/resnet20-12fca82f.th", "conv1.weight", 97,
         1.3100982},
        {"cifar10-resnet-vnncomp/resnet2b-model_best.pth", "conv1.weight", 16,
         0.88654252},
        {"lpips/v0.1-alex.pth", "lin0.model.1.weight", 5, 2.34953231},
        {"lpips/v0.1-squeeze.pth", "lin0.model.1.weight", 7, 5.69010078},
        {"mnist-cnn-burn/mnist.pt", "conv1.weight", 20, -0.282617211},
        {"mtcnn-facenet-pytorch/pnet.pt", "conv1.weight", 13, 2.34876704},
        {"mtcnn-facenet-pytorch/rnet.pt", "conv1.weight", 16, 0.235486531},
        {"retinaface-landmark/mobilenet0.25_Final.pth",
         "body.stage1.0.0.weight", 300, 3.45035034},
        {"ultraface/version-RFB-320.pth", "base_net.0.0.weight", 244,
         1.68209065},
        {"ultraface/version-slim-320.pth", "base_net.0.0.weight", 184,
         -0.964021444},
    };
    struct weights_import import;
    struct infer_error err;
    char path[1024], name[512];
    size_t i;
    int64_t j;

    for (i = 0; i < COUNT(files); i++) {
        const struct constant *c;
        double sum = 0;

        snprintf(name, sizeof name, "weights/%s", files[i].file);
        help_data(path, sizeof path, name);
        if (weights_read(path, NULL, &err, &import) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(import.format, "pytorch");
        assert_int_equal(import.dict.count, files[i].count);
        c = weights_dict_find(&import.dict, files[i].name);
        assert_non_null(c);
        for (j = 0; j < constant_count(c); j++)
            sum += scalar_load(c->dtype, c->data, j);
        assert_true(fabs(sum - files[i].sum) < 1e-6);
        weights_import_clear(&import);
    }
}

/* The few files of the collection that do no harm. */
static int is_benign(const char *name)
{
    return strcmp(name, "new_pytorch_model.bin") == 0 ||
           strcmp(name, "pytorch_model.bin") == 0 ||
           strcmp(name, "int_array.npy") == 0 ||
           strcmp(name, "int_arrays_compressed.npz") == 0;
}

TEST(test_malicious)
{
    static const char *const folders[] = {
        "pickle-malicious-DO-NOT-UNPICKLE/data",
        "pickle-malicious-DO-NOT-UNPICKLE/data2"};
    struct weights_import import;
    char folder[512], path[1024];
    struct infer_error err;
    struct dirent *entry;
    size_t f, files = 0;
    DIR *dir;

    for (f = 0; f < 2; f++) {
        help_data(folder, sizeof folder, folders[f]);
        dir = opendir(folder);
        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
            int rc, forced;

            if (entry->d_name[0] == '.')
                continue;
            files++;
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            rc = weights_read(path, NULL, &err, &import);
            if ((rc == 0) != is_benign(entry->d_name))
                fail_msg("%s: %d", path, rc);
            if (rc == 0)
                weights_import_clear(&import);
            /* And as a pickle, whatever it looks like. */
            size_t bytes;
            unsigned char *data = help_file(path, &bytes);
            forced = help_status(PT, data, bytes);
            free(data);
            assert_true(forced < 0 || is_benign(entry->d_name));
        }
        closedir(dir);
    }
    assert_int_equal(files, 73);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_malicious),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
