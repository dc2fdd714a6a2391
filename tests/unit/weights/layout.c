/* SPDX-License-Identifier: Apache-2.0 */
/* Channels-last bare weights: bound, they equal the channels-first ones. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"
#include "weights/arch.h"

/* A value of its own for each element of each tensor of these sizes. */
static float element(int value, int64_t i)
{
    return (float)(value % 64) * 131072.0f + (float)(i % 131071);
}

static bool waits(const struct graph *g, int v)
{
    return g->value[v].producer < 0 && !g->value[v].data && v != g->input[0];
}

static struct constant *filled(const struct graph *g, int v)
{
    const struct graph_value *value = &g->value[v];
    struct constant *c = constant_new(INFER_F32, value->rank, value->dim);

    assert_non_null(c);
    for (int64_t i = 0; i < constant_count(c); i++)
        ((float *)c->data)[i] = element(v, i);
    return c;
}

/* The conv weight as R,S,C,K, or R,S,C,M for a depthwise one. */
static struct constant *conv_last(const struct constant *c, int groups)
{
    const int64_t k = c->dim[0], ch = c->dim[1], r = c->dim[2], s = c->dim[3];
    const bool depthwise = groups > 1;
    const int64_t dim[4] = {r, s, depthwise ? groups : ch,
                            depthwise ? k / groups : k};
    struct constant *to = constant_new(INFER_F32, 4, dim);
    const float *from = (const float *)c->data;

    assert_non_null(to);
    for (int64_t a = 0; a < k; a++)
        for (int64_t b = 0; b < ch; b++)
            for (int64_t p = 0; p < r * s; p++) {
                const int64_t last =
                    depthwise ? p * k + a : (p * ch + b) * k + a;

                ((float *)to->data)[last] = from[(a * ch + b) * r * s + p];
            }
    return to;
}

/* The dense weight as C,K with C in the order pixel, channel. */
static struct constant *dense_last(const struct constant *c, int64_t channels)
{
    const int64_t k = c->dim[0], n = c->dim[1], pixels = n / channels;
    const int64_t dim[2] = {n, k};
    struct constant *to = constant_new(INFER_F32, 2, dim);

    assert_non_null(to);
    for (int64_t a = 0; a < k; a++)
        for (int64_t ch = 0; ch < channels; ch++)
            for (int64_t p = 0; p < pixels; p++)
                ((float *)to->data)[(p * channels + ch) * k + a] =
                    ((const float *)c->data)[a * n + ch * pixels + p];
    return to;
}

/* A channels-last dictionary of g; `picture` is the dense weight that reads a
 * flattened picture of so many channels. */
static void fill_last(const struct graph *g, const char *picture,
                      int64_t channels, struct weights_dict *dict)
{
    struct infer_error err;

    weights_dict_init(dict);
    for (int v = 0; v < g->n_values; v++) {
        const int user = graph_single_user(g, v);
        struct constant *c, *last = NULL;

        if (!waits(g, v))
            continue;
        c = filled(g, v);
        if (user >= 0 && g->node[user].op == GRAPH_CONV && c->rank == 4)
            last = conv_last(c, g->node[user].attr.conv.conv.groups);
        if (user >= 0 && g->node[user].op == GRAPH_DENSE && c->rank == 2)
            last = dense_last(c, strcmp(g->value[v].name, picture) == 0
                                     ? channels
                                     : c->dim[1]);
        if (last)
            constant_unref(c);
        assert_int_equal(
            weights_dict_add(dict, g->value[v].name, last ? last : c, &err), 0);
    }
}

/* How many weights are as filled() made them. */
static int count_right(const struct graph *g)
{
    int right = 0;

    for (int v = 0; v < g->n_values; v++) {
        const struct constant *c = g->value[v].data;
        int64_t i = 0;

        if (g->value[v].producer >= 0 || !c || c->dtype != INFER_F32)
            continue;
        while (i < constant_count(c) &&
               ((const float *)c->data)[i] == element(v, i))
            i++;
        right += i == constant_count(c);
    }
    return right;
}

struct run {
    const char *arch, *picture;
    int64_t channels;
    enum weights_layout layout;
    enum weights_dense_order order;
};

static int bind(const struct run *r, int *weights, char *text, size_t bytes)
{
    struct weights_options options;
    struct weights_dict dict;
    struct infer_error err;
    struct graph *g;
    int status, right;

    err.text[0] = 0;
    assert_int_equal(arch_open(r->arch, NULL, &err, &g), 0);
    *weights = 0;
    for (int v = 0; v < g->n_values; v++)
        *weights += waits(g, v);
    fill_last(g, r->picture, r->channels, &dict);
    weights_options_init(&options);
    options.layout = r->layout;
    options.dense_order = r->order;
    status = weights_bind(g, &dict, &options, &err);
    snprintf(text, bytes, "%s", err.text);
    right = status < 0 ? status : count_right(g);
    weights_dict_clear(&dict);
    graph_free(g);
    return right;
}

TEST(by_shape_and_by_word)
{
    static const struct run runs[] = {
        {"lenet5", "fc1.weight", 16, WEIGHTS_LAYOUT_AUTO, WEIGHTS_DENSE_AUTO},
        {"lenet5", "fc1.weight", 16, WEIGHTS_CHANNELS_LAST, WEIGHTS_DENSE_HWC},
        {"mobilenet_v2", "", 0, WEIGHTS_LAYOUT_AUTO, WEIGHTS_DENSE_AUTO},
        {"resnet18", "", 0, WEIGHTS_CHANNELS_LAST, WEIGHTS_DENSE_AUTO},
    };
    char text[512];

    for (size_t i = 0; i < COUNT(runs); i++) {
        int weights, right = bind(&runs[i], &weights, text, sizeof(text));

        if (right != weights)
            fail_msg("%s: %d of %d weights: %s", runs[i].arch, right, weights,
                     text);
    }
}

/* The order of the dense inputs alone changes one weight. */
TEST(dense_order_alone)
{
    struct run r = {"lenet5", "fc1.weight", 16, WEIGHTS_CHANNELS_LAST,
                    WEIGHTS_DENSE_CHW};
    char text[512];
    int weights, right;

    right = bind(&r, &weights, text, sizeof(text));
    assert_int_equal(right, weights - 1);
}

/* A layout that was named is not guessed at. */
TEST(wrong_layout)
{
    struct run r = {"lenet5", "fc1.weight", 16, WEIGHTS_CHANNELS_FIRST,
                    WEIGHTS_DENSE_AUTO};
    char text[512];
    int weights;

    assert_int_equal(bind(&r, &weights, text, sizeof(text)), INFER_EFORMAT);
    assert_non_null(strstr(text, "conv2.weight"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_shape_and_by_word),
        cmocka_unit_test(dense_order_alone),
        cmocka_unit_test(wrong_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
