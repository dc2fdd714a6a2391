/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in architectures and the binding of dictionaries to them. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/base/scalar.h"
#include "tests/unit/test.h"
#include "weights/arch.h"
#include "weights/passes.h"

/* Values that wait for data. */
static bool is_weight(const struct graph *g, int v)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (g->input[i] == v)
            return false;
    return g->value[v].producer < 0 && !g->value[v].data;
}

/* A dictionary with a tensor for every weight of a graph. */
static void fill(const struct graph *g, const char *prefix,
                 struct weights_dict *dict)
{
    weights_dict_init(dict);
    for (int v = 0; v < g->n_values; v++) {
        const struct graph_value *value = &g->value[v];
        struct infer_error err;
        struct constant *c;
        char name[256];

        if (!is_weight(g, v))
            continue;
        c = constant_new(INFER_F32, value->rank, value->dim);
        assert_non_null(c);
        scalar_store(INFER_F32, c->data, 0, v);
        snprintf(name, sizeof(name), "%s%s", prefix, value->name);
        assert_int_equal(weights_dict_add(dict, name, c, &err), 0);
    }
}

static struct graph *build(const char *name, const struct weights_dict *dict)
{
    struct infer_error err;
    struct graph *g = NULL;

    err.text[0] = 0;
    if (arch_open(name, dict, &err, &g) < 0)
        fail_msg("%s", err.text);
    return g;
}

static struct constant *tensor(int rank, const int64_t *dim)
{
    struct constant *c = constant_new(INFER_F32, rank, dim);

    assert_non_null(c);
    return c;
}

/* Number of scores that a network trained on the usual data set gives: clips
 * have 5 dimensions, segmentation a picture as output. */
static int64_t usual_classes(const struct graph *g)
{
    const struct graph_value *in = &g->value[g->input[0]];

    if (in->rank == 5)
        return 400;
    if (g->value[g->output[0]].rank == 4)
        return 21;
    return in->dim[2] >= 224 ? 1000 : 10;
}

/* Every row builds a valid graph whose shapes end in the usual classes. */
TEST(every_row)
{
    assert_true(arch_count() >= 230);
    for (size_t i = 0; i < arch_count(); i++) {
        const struct arch_row *row = arch_at(i);
        struct graph *g = build(row->name, NULL);
        const struct graph_value *out;
        struct weights_dict dict;
        struct infer_error err;

        fill(g, "", &dict);
        if (weights_bind(g, &dict, NULL, &err) < 0)
            fail_msg("%s: %s", row->name, err.text);
        weights_dict_clear(&dict);
        assert_ptr_equal(arch_find(row->name), row);
        assert_int_equal(graph_sort(g, &err), 0);
        if (graph_infer_shapes(g, NULL, &err) < 0)
            fail_msg("%s: %s", row->name, err.text);
        if (graph_validate(g, &err) < 0)
            fail_msg("%s: %s", row->name, err.text);
        out = &g->value[g->output[0]];
        assert_true(out->rank == 2 || out->rank == 4);
        assert_int_equal(out->dim[0], -1);
        assert_int_equal(out->dim[1], usual_classes(g));
        for (int d = 2; d < out->rank; d++)
            assert_int_equal(out->dim[d], g->value[g->input[0]].dim[d]);
        assert_int_equal(g->preprocess[0].present,
                         g->value[g->input[0]].rank == 4);
        assert_string_equal(g->name, row->name);
        graph_free(g);
    }
    assert_null(arch_at(arch_count()));
    assert_null(arch_find("resnet51"));
}

TEST(unknown_name)
{
    struct infer_error err;
    struct graph *g;

    assert_int_equal(arch_open("resnet51", NULL, &err, &g), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "resnet"));
}

/* Prefixes of wrappers, one or several. */
TEST(prefixes)
{
    static const char *const prefix[] = {"", "module.", "model.module.",
                                         "state_dict.model.",
                                         "student.backbone."};

    for (size_t i = 0; i < COUNT(prefix); i++) {
        struct graph *g = build("lenet5", NULL);
        struct weights_dict dict;
        struct infer_error err;
        int fc1;

        fill(g, prefix[i], &dict);
        if (weights_bind(g, &dict, NULL, &err) < 0)
            fail_msg("%s", err.text);
        fc1 = graph_find_value(g, "fc1.weight");
        assert_non_null(g->value[fc1].data);
        assert_int_equal(
            (int)scalar_load(INFER_F32, g->value[fc1].data->data, 0), fc1);
        weights_dict_clear(&dict);
        graph_free(g);
    }
}

/* The classifier of the file decides; a prefix does not hide it. */
/* A prefix of most keys: what lacks it has no place, even if its name fits, but
 * for what only training, a profiler, a loss or a metric uses. */
TEST(prefix_of_most)
{
    static const struct {
        const char *name;
        int rc;
    } more[] = {{"n_averaged", 0},
                {"net.total_ops", 0},
                {"criterion.weight", 0},
                {"val_acc.confmat", 0},
                {"net_loss.weight", 0},
                {"gloss.weight", INFER_EFORMAT},
                {"loss", INFER_EFORMAT}, /* a tensor, no part with one */
                {"neck.weight", INFER_EFORMAT},
                {"fc1.bias", INFER_EFORMAT}};

    for (size_t i = 0; i < COUNT(more); i++) {
        const int64_t one[1] = {1};
        struct graph *g = build("lenet5", NULL);
        struct weights_dict dict;
        struct infer_error err;

        fill(g, "net.", &dict);
        assert_int_equal(
            weights_dict_add(&dict, more[i].name, tensor(1, one), &err), 0);
        assert_int_equal(weights_bind(g, &dict, NULL, &err), more[i].rc);
        if (more[i].rc < 0)
            assert_non_null(strstr(err.text, more[i].name));
        weights_dict_clear(&dict);
        graph_free(g);
    }
}

TEST(class_count)
{
    static const struct {
        const char *arch, *weight, *bias;
        int64_t dim[4];
        int rank;
    } row[] = {
        {"resnet18", "module.fc.weight", "module.fc.bias", {7, 512}, 2},
        {"squeezenet1_1",
         "module.classifier.1.weight",
         "module.classifier.1.bias",
         {7, 512, 1, 1},
         4},
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        struct weights_dict dict;
        struct infer_error err;
        struct graph *g;

        weights_dict_init(&dict);
        assert_int_equal(weights_dict_add(&dict, row[i].weight,
                                          tensor(row[i].rank, row[i].dim),
                                          &err),
                         0);
        g = build(row[i].arch, &dict);
        assert_int_equal(graph_sort(g, &err), 0);
        assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
        assert_int_equal(g->value[g->output[0]].dim[1], 7);
        graph_free(g);
        weights_dict_clear(&dict);
    }
}

/* Everything that does not fit stands in one report. */
TEST(every_fault)
{
    const int64_t wrong[2] = {300, 783}, extra[1] = {5};
    struct graph *g = build("lenet-300-100", NULL);
    struct weights_dict full, dict;
    struct infer_error err;

    fill(g, "", &full);
    weights_dict_init(&dict);
    for (size_t i = 0; i < full.count; i++) {
        const char *name = full.entry[i].name;
        struct constant *c = constant_ref(full.entry[i].value);

        if (strcmp(name, "fc2.bias") == 0 || strcmp(name, "fc1.weight") == 0)
            constant_unref(c);
        else
            assert_int_equal(weights_dict_add(&dict, name, c, &err), 0);
    }
    assert_int_equal(
        weights_dict_add(&dict, "fc1.weight", tensor(2, wrong), &err), 0);
    assert_int_equal(
        weights_dict_add(&dict, "fc9.weight", tensor(1, extra), &err), 0);
    assert_int_equal(weights_bind(g, &dict, NULL, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "'fc2.bias' 100 is missing"));
    assert_non_null(strstr(err.text, "'fc1.weight' is 300x783"));
    assert_non_null(strstr(err.text, "wants 300x784"));
    assert_non_null(strstr(err.text, "'fc9.weight'"));
    /* A tensor of the wrong shape is not missing as well. */
    assert_null(strstr(err.text, "fc1.weight' 300x784 is missing"));
    weights_dict_clear(&dict);
    weights_dict_clear(&full);
    graph_free(g);
}

/* Dimensions of size 1 do not count; other types become fp32. */
TEST(squeezed_shapes)
{
    const int64_t dim[4] = {1000, 512, 1, 1};
    struct graph *g = build("resnet18", NULL);
    struct weights_dict full, dict;
    struct infer_error err;
    int fc;

    fill(g, "", &full);
    weights_dict_init(&dict);
    for (size_t i = 0; i < full.count; i++) {
        struct constant *c = constant_ref(full.entry[i].value);

        if (strcmp(full.entry[i].name, "fc.weight") == 0) {
            constant_unref(c);
            c = constant_new(INFER_F16, 4, dim);
            assert_non_null(c);
            scalar_store(INFER_F16, c->data, 3, 0.5);
        }
        assert_int_equal(weights_dict_add(&dict, full.entry[i].name, c, &err),
                         0);
    }
    if (weights_bind(g, &dict, NULL, &err) < 0)
        fail_msg("%s", err.text);
    fc = graph_find_value(g, "fc.weight");
    assert_int_equal(g->value[fc].rank, 2);
    assert_int_equal(g->value[fc].dtype, INFER_F32);
    assert_true(scalar_load(INFER_F32, g->value[fc].data->data, 3) == 0.5);
    weights_dict_clear(&dict);
    weights_dict_clear(&full);
    graph_free(g);
}

static int recognise(const char *arch, const char *prefix, const char *change,
                     struct infer_error *err, const struct arch_row **row)
{
    struct graph *g = build(arch, NULL);
    const int64_t wrong[2] = {3, 1};
    struct weights_dict dict;
    int rc;

    fill(g, prefix, &dict);
    for (size_t i = 0; change && i < dict.count; i++)
        if (strcmp(dict.entry[i].name, change) == 0) {
            constant_unref(dict.entry[i].value);
            dict.entry[i].value = tensor(2, wrong);
        }
    rc = arch_recognise(&dict, err, row);
    weights_dict_clear(&dict);
    graph_free(g);
    return rc;
}

/* True where another built-in has the same tensors: with torchvision's scaling
 * of the input, or timm's forms of TensorFlow's padding. */
static bool has_twin(const char *name)
{
    char own[64], other[64];

    if (strncmp(name, "googlenet", 9) == 0 ||
        strncmp(name, "inception_v3", 12) == 0)
        return true;
    snprintf(own, sizeof own, "%s", strncmp(name, "tf_", 3) ? name : name + 3);
    if (strlen(own) > 5 && strcmp(own + strlen(own) - 5, "-timm") == 0)
        own[strlen(own) - 5] = 0;
    snprintf(other, sizeof other, "%.58s-timm", own);
    if (strcmp(name, own) == 0 && arch_find(other))
        return false; /* torchvision's network of that name */
    if (!arch_find(other) && !arch_find(own))
        return false;
    snprintf(other, sizeof other, "tf_%.60s", own);
    return arch_find(other) != NULL;
}

/* A number for the names and shapes of a built-in's tensors, in any order. */
static uint64_t signature(const char *name)
{
    struct graph *g = build(name, NULL);
    uint64_t sum = 0;

    for (int v = 0; v < g->n_values; v++) {
        const struct graph_value *value = &g->value[v];
        uint64_t h;

        if (!is_weight(g, v))
            continue;
        h = hash_bytes(value->name, strlen(value->name));
        for (int d = 0; d < value->rank; d++)
            h = h * 1099511628211U + (uint64_t)value->dim[d];
        sum += h * h;
    }
    graph_free(g);
    return sum;
}

/* No two built-ins have the same tensors but the twins. */
TEST(distinct)
{
    uint64_t seen[512];

    assert_true(arch_count() <= COUNT(seen));
    for (size_t i = 0; i < arch_count(); i++) {
        const char *name = arch_at(i)->name;
        bool twin = false;

        seen[i] = signature(name);
        for (size_t k = 0; k < i; k++)
            if (seen[k] == seen[i]) {
                twin = true;
                if (!has_twin(name) || !has_twin(arch_at(k)->name))
                    fail_msg("%s has the tensors of %s", name,
                             arch_at(k)->name);
            }
        if (strncmp(name, "tf_", 3) == 0 && has_twin(name) && !twin)
            fail_msg("%s: no twin", name);
    }
}

/* Built-ins, every eighth, are found by their own tensors, except for those
 * that differ by no tensor; a fault is named, with the nearest architecture. */
TEST(recognised)
{
    const struct arch_row *row = NULL;
    struct infer_error err;

    for (size_t i = 0; i < arch_count(); i += 8) {
        const char *name = arch_at(i)->name;
        const int rc = recognise(name, "module.", NULL, &err, &row);

        if (has_twin(name)) {
            assert_int_equal(rc, INFER_EUNSUPPORTED);
            assert_non_null(strstr(err.text, "2 built-in architectures fit"));
            assert_non_null(strstr(err.text, name));
            continue;
        }
        if (rc < 0)
            fail_msg("%s: %s", name, err.text);
        assert_string_equal(row->name, name);
    }
    assert_int_equal(
        recognise("resnet20-cifar", "", "layer2.1.conv1.weight", &err, &row),
        INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "resnet20-cifar: "));
    assert_non_null(strstr(err.text, "'layer2.1.conv1.weight' is 3x1"));
}

/* What only training needs is noted as stripped, not refused. */
TEST(training_state)
{
    static const char *const names[] = {"bn1.num_batches_tracked",
                                        "aux1.fc1.weight",
                                        "aux_classifier.0.weight"};
    const int64_t one[1] = {1};
    struct graph *g = build("googlenet", NULL);
    struct weights_dict dict;
    struct infer_error err;

    fill(g, "", &dict);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            weights_dict_add(&dict, names[i], tensor(1, one), &err), 0);
    if (weights_bind(g, &dict, NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dict.stripped_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(dict.stripped[i].name, names[i]);
        assert_int_equal(dict.stripped[i].bytes, 4);
    }
    weights_dict_clear(&dict);
    graph_free(g);
}

/* The names that torchvision's DenseNet files still have. */
TEST(old_densenet_names)
{
    struct graph *g = build("densenet121", NULL);
    struct weights_dict full, dict;
    struct infer_error err;

    fill(g, "", &full);
    weights_dict_init(&dict);
    for (size_t i = 0; i < full.count; i++) {
        const char *name = full.entry[i].name;
        const char *layer = strstr(name, "denselayer");
        const char *dot = layer ? strchr(layer, '.') : NULL;
        char old[256];

        snprintf(old, sizeof(old), "%s", name);
        if (dot) /* ".norm1." to ".norm.1." */
            snprintf(old, sizeof(old), "%.*s.%s", (int)(dot + 5 - name), name,
                     dot + 5);
        assert_int_equal(weights_dict_add(&dict, old,
                                          constant_ref(full.entry[i].value),
                                          &err),
                         0);
    }
    if (weights_bind(g, &dict, NULL, &err) < 0)
        fail_msg("%s", err.text);
    weights_dict_clear(&dict);
    weights_dict_clear(&full);
    graph_free(g);
}

/* Binding and folding edit the tensors in place once the dictionary is gone:
 * no second copy of the weights. */
TEST(folding_in_place)
{
    struct graph *g = build("resnet18", NULL);
    struct weights_dict dict;
    struct infer_error err;
    const unsigned char *before;
    int w;

    fill(g, "", &dict);
    assert_int_equal(weights_bind(g, &dict, NULL, &err), 0);
    weights_dict_clear(&dict);
    w = graph_find_value(g, "layer4.1.conv2.weight");
    before = g->value[w].data->data;
    if (weights_run_passes(g, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
    w = graph_find_value(g, "layer4.1.conv2.weight");
    assert_ptr_equal(g->value[w].data->data, before);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(unknown_name),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(prefix_of_most),
        cmocka_unit_test(class_count),
        cmocka_unit_test(every_fault),
        cmocka_unit_test(squeezed_shapes),
        cmocka_unit_test(distinct),
        cmocka_unit_test(recognised),
        cmocka_unit_test(training_state),
        cmocka_unit_test(old_densenet_names),
        cmocka_unit_test(folding_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
