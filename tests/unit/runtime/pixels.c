/* SPDX-License-Identifier: Apache-2.0 */
/* Models that take pixels give what the model that they were made from gives
 * for the same pictures: on the CPU, and on a GPU where there is one. */
#include "tests/unit/runtime/network.h"

#include <math.h>

#include "libinfer/graph/graph_json.h"
#include "libinfer/image/image.h"

#define BATCH   3
#define OUTPUTS 5

/* A convolution whose window reaches into the padding, ReLU, global pool,
 * dense; height and width may be -1. */
static struct infer_model *make_model(int64_t channels, int64_t height,
                                      int64_t width,
                                      const struct graph_preprocess *p)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_error err = {0};
    uint64_t state = 88172645463325252u;
    int node, x, w, bias, y;

    assert_non_null(g);
    x = input(g, "picture", DIMS(-1, channels, height, width));
    if (p)
        g->preprocess[0] = *p;
    y = add_conv(g, &state, "stem", x, channels, 8, 3, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add(g, GRAPH_REDUCE, "mean", IN(y), &node);
    g->node[node].attr.reduce = (struct graph_reduce){
        .kind = KERN_REDUCE_MEAN, .n_axes = 2, .axis = {2, 3}};
    w = weights(g, &state, DIMS(OUTPUTS, 8));
    bias = weights(g, &state, DIMS(OUTPUTS));
    y = add(g, GRAPH_DENSE, "scores", IN(y, w, bias), &node);
    assert_true(graph_add_output(g, y) >= 0);
    if (model_from_graph(g, &err, &model) < 0)
        fail_msg("%s", err.text);
    return model;
}

static struct infer_image make_picture(int width, int height, int channels,
                                       uint64_t *state)
{
    struct infer_image image;

    assert_int_equal(image_new(width, height, channels, NULL, &image), 0);
    for (int i = 0; i < width * height * channels; i++)
        image.pixels[i] = (uint8_t)random_bits(state);
    return image;
}

/* False where the device is not here. */
static bool score(struct infer_model *model, const char *device,
                  const struct infer_array *in, float *scores)
{
    struct infer_session_options o;
    struct infer_session *session;
    struct infer_error err = {0};
    struct infer_array out = {.data = scores,
                              .bytes = BATCH * OUTPUTS * sizeof(float)};
    int status;

    infer_session_options_init(&o);
    o.device = device;
    o.tune = 0;
    status = infer_session_create(model, &o, &err, &session);
    if (status == INFER_EDEVICE && !getenv("INFER_REQUIRE_GPU"))
        return false;
    if (status == INFER_OK)
        status = infer_session_run(session, in, 1, &out, 1, &err);
    if (status < 0)
        fail_msg("%s: %s", device, err.text);
    assert_int_equal(out.rank, 2);
    infer_session_close(&session);
    return true;
}

/* Both ways from the same pictures of 23 x 17 pixels to scores. */
static void compare(const struct graph_preprocess *p, int64_t channels,
                    int64_t height, int64_t width, int picture_channels)
{
    static const char *const devices[] = {"cpu", "cuda"};
    const int64_t hw[2] = {17, 23};
    const int64_t *given = height < 0 ? hw : NULL;
    const int64_t h = height < 0 ? hw[0] : height;
    const int64_t w = width < 0 ? hw[1] : width;
    const size_t count = (size_t)(channels * h * w);
    struct infer_model *planes = make_model(channels, height, width, p);
    struct infer_model *pixels;
    struct infer_error err = {0};
    struct infer_tensor_info info;
    uint64_t state = 1442695040888963407u;
    float *values = calloc(BATCH * count, sizeof(float));
    uint8_t *bytes = calloc(BATCH * count, 1);
    struct infer_array a = {.dtype = INFER_F32,
                            .rank = 4,
                            .dim = {BATCH, channels, h, w},
                            .data = values,
                            .bytes = BATCH * count * sizeof(float)};
    struct infer_array b = {.name = "picture",
                            .dtype = INFER_U8,
                            .rank = 4,
                            .dim = {BATCH, h, w, channels},
                            .data = bytes,
                            .bytes = BATCH * count};

    assert_non_null(values);
    assert_non_null(bytes);
    if (infer_model_take_pixels(planes, 0, &err, &pixels) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(infer_model_input(pixels, 0, &info), 0);
    assert_string_equal(info.name, "picture");
    assert_int_equal(info.dtype, INFER_U8);
    assert_int_equal(info.dim[3], channels);
    for (size_t i = 0; i < BATCH; i++) {
        struct infer_image image =
            make_picture(23, 17, picture_channels, &state);

        assert_int_equal(infer_model_preprocess(planes, 0, &image, given,
                                                values + i * count,
                                                count * sizeof(float), &err),
                         0);
        assert_int_equal(infer_model_fit(planes, 0, &image, given,
                                         bytes + i * count, count, &err),
                         0);
        infer_image_free(&image);
    }
    for (size_t d = 0; d < COUNT(devices); d++) {
        float want[BATCH * OUTPUTS], got[BATCH * OUTPUTS], most = 0;

        if (!score(planes, devices[d], &a, want) ||
            !score(pixels, devices[d], &b, got))
            continue;
        for (int i = 0; i < BATCH * OUTPUTS; i++)
            most = fmaxf(most, fabsf(want[i]));
        for (int i = 0; i < BATCH * OUTPUTS; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-5f * most))
                fail_msg("%s, score %d: %g from pixels, %g from planes",
                         devices[d], i, (double)got[i], (double)want[i]);
        assert_true(most > 0);
    }
    free(values);
    free(bytes);
    infer_model_close(&planes);
    infer_model_close(&pixels);
}

static struct graph_preprocess imagenet(void)
{
    struct graph_preprocess p = graph_preprocess_default();

    p.scale = 1.0f / 255;
    memcpy(p.mean, (const float[]){0.485f, 0.456f, 0.406f}, 3 * sizeof(float));
    memcpy(p.std, (const float[]){0.229f, 0.224f, 0.225f}, 3 * sizeof(float));
    return p;
}

TEST(test_same_scores)
{
    struct graph_preprocess p = imagenet();

    p.policy = GRAPH_RESIZE_SHORTER;
    p.resize = 14;
    compare(&p, 3, 12, 12, 3);
    p.color = GRAPH_BGR;
    compare(&p, 3, 12, 12, 3);
    p.policy = GRAPH_RESIZE_LETTERBOX;
    p.fill = 114;
    compare(&p, 3, 20, 16, 3);
    compare(&p, 3, 16, 40, 3);
    p.policy = GRAPH_RESIZE_NONE;
    compare(&p, 3, -1, -1, 3);
    p = imagenet();
    p.color = GRAPH_GRAY;
    compare(&p, 1, 12, 9, 3);
    compare(NULL, 1, 12, 9, 1);
    compare(NULL, 3, 12, 9, 1); /* a gray picture for a network of colours */
}

/* What the layers compute is not done twice. */
TEST(test_takes_pixels_once)
{
    const struct graph_preprocess p = imagenet();
    struct infer_model *planes = make_model(3, 12, 9, &p), *pixels, *again;
    struct infer_error err = {0};

    assert_int_equal(infer_model_take_pixels(planes, 0, &err, &pixels), 0);
    infer_model_close(&planes);
    assert_int_equal(infer_model_take_pixels(pixels, 0, &err, &again),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no picture"));
    infer_model_close(&pixels);
}

TEST(test_names_what_is_wrong)
{
    struct infer_model *model = make_model(3, 12, 9, NULL), *out;
    uint64_t random = 7;
    struct infer_image image = make_picture(5, 5, 3, &random);
    struct infer_error err = {0};
    uint8_t few[3 * 12 * 9 - 1];

    assert_int_equal(infer_model_take_pixels(NULL, 0, &err, &out),
                     INFER_EARGUMENT);
    assert_int_equal(infer_model_take_pixels(model, 0, &err, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(infer_model_take_pixels(model, 1, &err, &out),
                     INFER_EARGUMENT);
    assert_int_equal(infer_model_take_pixels(model, -1, &err, &out),
                     INFER_EARGUMENT);
    assert_int_equal(
        infer_model_fit(model, 0, &image, NULL, few, sizeof(few), &err),
        INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "323 bytes are too few for 324"));
    infer_model_close(&model);
    model = make_model(4, 12, 9, NULL);
    assert_int_equal(infer_model_take_pixels(model, 0, &err, &out),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no picture"));
    infer_model_close(&model);
    infer_image_free(&image);
}

/* A model of free height and width takes those of the caller. */
static void test_free_sides(void **unused)
{
    static const struct {
        int64_t hw[2];
        const char *says;
    } rows[] = {{{0, 8}, "a side of 0 pixels"},
                {{8, -1}, "a side of -1 pixels"},
                {{8, INT64_C(1) << 40}, "a side of 1099511627776 pixels"}};
    const struct graph_preprocess p = imagenet();
    struct infer_model *model = make_model(3, -1, -1, &p);
    uint8_t pixel[3] = {0};
    const struct infer_image image = {1, 1, 3, pixel};
    struct infer_error err = {0};
    float out[3 * 8 * 8];

    (void)unused;
    assert_int_equal(
        infer_model_preprocess(model, 0, &image, NULL, out, sizeof out, &err),
        INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no size was given"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(infer_model_preprocess(model, 0, &image, rows[i].hw,
                                                out, sizeof out, &err),
                         INFER_EARGUMENT);
        assert_non_null(strstr(err.text, rows[i].says));
    }
    infer_model_close(&model);
}

/* What is no picture, and a strip that would become longer than an int holds.
 */
static void test_impossible_pictures(void **unused)
{
    struct graph_preprocess p = imagenet();
    struct infer_model *model;
    uint8_t pixel[4] = {0};
    struct infer_image image = {1, 1, 3, pixel};
    struct infer_error err = {0};
    float out[3 * 8 * 8];
    const size_t bytes = sizeof(out);

    (void)unused;
    p.policy = GRAPH_RESIZE_SHORTER;
    p.resize = 256;
    model = make_model(3, 8, 8, &p);
    assert_int_equal(
        infer_model_preprocess(model, 0, &image, NULL, out, bytes, &err), 0);
    assert_int_equal(
        infer_model_preprocess(NULL, 0, &image, NULL, out, bytes, &err),
        INFER_EARGUMENT);
    assert_int_equal(
        infer_model_preprocess(model, 0, NULL, NULL, out, bytes, &err),
        INFER_EARGUMENT);
    assert_int_equal(
        infer_model_preprocess(model, 0, &image, NULL, NULL, bytes, &err),
        INFER_EARGUMENT);
    image.channels = 4;
    assert_int_equal(
        infer_model_preprocess(model, 0, &image, NULL, out, bytes, &err),
        INFER_EARGUMENT);
    image.channels = 3;
    /* The pixels are not looked at. */
    image.height = 1 << 28;
    assert_int_equal(
        infer_model_preprocess(model, 0, &image, NULL, out, bytes, &err),
        INFER_EMEMORY);
    assert_non_null(strstr(err.text, "1 x 268435456 pixels"));
    infer_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_impossible_pictures),
        cmocka_unit_test(test_free_sides),
        cmocka_unit_test(test_same_scores),
        cmocka_unit_test(test_takes_pixels_once),
        cmocka_unit_test(test_names_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
