/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models whose heights and widths are free: what is computed from sizes
 * and used as data, and shapes with several free sizes. */
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

static void must_give(struct graph *g, int64_t h, int64_t w, const float *x,
                      const float *want, size_t n)
{
    struct graph *copy = graph_copy(g);
    float y[512] = {0};

    assert_non_null(copy);
    assert_true(n <= COUNT(y));
    run_reference(copy, DIMS(1, 2, h, w), x, y, sizeof y);
    for (size_t i = 0; i < n; i++)
        if (!(y[i] == want[i]))
            fail_msg("%lldx%lld: element %zu is %g, expected %g", (long long)h,
                     (long long)w, i, (double)y[i], (double)want[i]);
}

/* The value `name` is size d of x, as a scalar. */
static void size_of(struct pb_message *m, const char *d, const char *name)
{
    char in[32];

    snprintf(in, sizeof in, "shape %s", d);
    graph_node(m, "Gather", in, name, NULL);
}

static struct pb_message picture(void)
{
    struct pb_message m = EMPTY;

    graph_input(&m, "x", DIMS(-1, 2, -1, -1));
    graph_output(&m, "y");
    graph_ints(&m, "two", 0, NULL, INTS(2));
    graph_ints(&m, "three", 0, NULL, INTS(3));
    graph_ints(&m, "zero", 0, NULL, INTS(0));
    graph_ints(&m, "one", 0, NULL, INTS(1));
    graph_node(&m, "Shape", "x", "shape", NULL);
    size_of(&m, "two", "h");
    size_of(&m, "three", "w");
    return m;
}

/* y = x + (column + 0.5), or of the row: anchors of detectors. */
TEST(test_grid)
{
    for (int rows = 0; rows < 2; rows++) {
        struct pb_message m = picture(), a = EMPTY;
        float x[24], want[24];
        struct graph *g;

        graph_ints(&m, "target", DIMS(2), rows ? INTS(-1, 1) : INTS(1, -1));
        graph_floats(&m, "half", 0, NULL, FLOATS(0.5f));
        graph_node(&m, "Range", rows ? "zero h one" : "zero w one", "count",
                   NULL);
        attr_int(&a, "to", ONNX_FLOAT);
        graph_node(&m, "Cast", "count", "real", &a);
        graph_node(&m, "Add", "real half", "middle", NULL);
        graph_node(&m, "Reshape", "middle target", "grid", NULL);
        graph_node(&m, "Add", "x grid", "y", NULL);
        g = must_read(model_of(&m, 13));
        for (int k = 0; k < 2; k++) {
            const int h = k ? 3 : 4, w = k ? 4 : 2;

            for (int i = 0; i < 2 * h * w; i++) {
                x[i] = (float)(i * i);
                want[i] = x[i] + (float)(rows ? i / w % h : i % w) + 0.5f;
            }
            must_give(g, h, w, x, want, (size_t)(2 * h * w));
        }
        graph_free(g);
    }
}

/* The grid of both is joined and flattened, which no formula describes: it is
 * computed by the graph. */
TEST(test_joined_grid)
{
    struct pb_message m = picture(), a = EMPTY;
    float x[24] = {0}, want[24];
    struct graph *g;

    graph_ints(&m, "tall", DIMS(2), INTS(-1, 1));
    graph_ints(&m, "flat", DIMS(3), INTS(1, 1, -1));
    graph_ints(&m, "pixels", DIMS(3), INTS(0, 0, -1));
    graph_ints(&m, "ten", 0, NULL, INTS(10));
    graph_node(&m, "Range", "zero w one", "columns", NULL);
    graph_node(&m, "Range", "zero h one", "rows", NULL);
    graph_node(&m, "Mul", "rows ten", "tens", NULL);
    graph_node(&m, "Reshape", "tens tall", "column", NULL);
    graph_node(&m, "Add", "column columns", "both", NULL);
    graph_node(&m, "Reshape", "both flat", "line", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "line", "real", &a);
    graph_node(&m, "Reshape", "x pixels", "all", NULL);
    graph_node(&m, "Add", "all real", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int i = 0; i < 24; i++)
        want[i] = (float)(i / 4 % 3 * 10 + i % 4);
    must_give(g, 3, 4, x, want, 24);
    for (int i = 0; i < 20; i++)
        want[i] = (float)(i / 2 % 5 * 10 + i % 2);
    must_give(g, 5, 2, x, want, 20);
    graph_free(g);
}

/* N,C,H,W to N,C,HW and back: two free sizes, those of x. */
TEST(test_reshape_back)
{
    struct pb_message m = picture(), a = EMPTY;
    float x[12], want[12];
    struct graph *g;

    graph_ints(&m, "pixels", DIMS(3), INTS(0, 0, -1));
    graph_ints(&m, "channels", DIMS(1), INTS(2));
    graph_ints(&m, "axes", DIMS(1), INTS(0));
    graph_node(&m, "Neg", "x", "minus", NULL);
    graph_node(&m, "Reshape", "minus pixels", "line", NULL);
    graph_node(&m, "Unsqueeze", "h axes", "hs", NULL);
    graph_node(&m, "Unsqueeze", "w axes", "ws", NULL);
    size_of(&m, "zero", "n");
    graph_node(&m, "Unsqueeze", "n axes", "ns", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "ns channels hs ws", "target", &a);
    graph_node(&m, "Reshape", "line target", "y", NULL);
    g = must_read(model_of(&m, 13));
    assert_int_equal(g->value[g->output[0]].rank, 4);
    for (int i = 0; i < 12; i++)
        want[i] = -(x[i] = (float)i + 1);
    must_give(g, 2, 3, x, want, 12);
    must_give(g, 6, 1, x, want, 12);
    graph_free(g);
}

/* A constant of a free size. */
TEST(test_fill)
{
    struct pb_message m = picture();
    float x[12] = {0}, want[12];
    struct graph *g;
    const float two = 2;

    for (int i = 0; i < 12; i++)
        want[i] = two;
    {
        struct pb_message a = EMPTY;

        attr_tensor(&a, "value",
                    tensor_raw("", ONNX_FLOAT, DIMS(1), &two, sizeof two));
        graph_node(&m, "ConstantOfShape", "shape", "full", &a);
    }
    graph_node(&m, "Add", "x full", "y", NULL);
    g = must_read(model_of(&m, 13));
    must_give(g, 2, 3, x, want, 12);
    graph_free(g);
}

/* The feature map of stride 8 is resized to the size of that of stride 4 and
 * added to it, as in pyramids of features: for every size, and by windows with
 * and without a border. */
TEST(test_pyramid)
{
    for (int border = 0; border < 2; border++) {
        static const int64_t size[][2] = {
            {32, 40}, {39, 44}, {41, 47}, {33, 31}};
        struct pb_message m = picture();
        static const float x[2 * 47 * 47];
        static const float want[2 * 12 * 12];
        struct graph *g;

        for (int k = 0; k < 3; k++) {
            static const char *const name[] = {"x", "a", "b", "c"};
            const int64_t two[] = {2, 2}, three[] = {3, 3};
            struct pb_message a = EMPTY;

            attr_ints(&a, "kernel_shape", 2, border ? three : two);
            attr_ints(&a, "strides", DIMS(2, 2));
            if (border)
                attr_ints(&a, "pads", DIMS(1, 1, 1, 1));
            graph_node(&m, "MaxPool", name[k], name[k + 1], &a);
        }
        graph_node(&m, "Shape", "b", "sizes", NULL);
        graph_node(&m, "Resize", "c   sizes", "up", NULL);
        graph_node(&m, "Add", "b up", "y", NULL);
        g = must_read(model_of(&m, 13));
        for (size_t k = 0; k < COUNT(size); k++)
            must_give(g, size[k][0], size[k][1], x, want, 2);
        graph_free(g);
    }
}

/* Every pixel beside every pixel: x (x^T x), which is beyond any memory at the
 * larger of the sizes that the importer tries. */
TEST(test_all_pixels)
{
    struct pb_message m = picture(), a = EMPTY;
    const float x[8] = {1, 2, 3, 4, 1, 0, -1, 2};
    float want[8] = {0};
    struct graph *g;

    graph_ints(&m, "pixels", DIMS(3), INTS(0, 0, -1));
    graph_node(&m, "Reshape", "x pixels", "line", NULL);
    attr_ints(&a, "perm", DIMS(0, 2, 1));
    graph_node(&m, "Transpose", "line", "column", &a);
    graph_node(&m, "MatMul", "column line", "pairs", NULL);
    graph_node(&m, "MatMul", "line pairs", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int c = 0; c < 2; c++)
        for (int q = 0; q < 4; q++)
            for (int p = 0; p < 4; p++)
                want[4 * c + q] +=
                    x[4 * c + p] * (x[p] * x[q] + x[4 + p] * x[4 + q]);
    must_give(g, 2, 2, x, want, 8);
    must_give(g, 1, 4, x, want, 8);
    graph_free(g);
}

/* The sizes of x, of p, and what lies between their halves: (x - p) / 2. */
static void sizes_of_both(struct pb_message *m)
{
    struct pb_message a = EMPTY;

    attr_ints(&a, "kernel_shape", DIMS(2, 2));
    attr_ints(&a, "strides", DIMS(2, 2));
    graph_node(m, "MaxPool", "x", "p", &a);
    graph_ints(m, "last", DIMS(2), INTS(2, 3));
    graph_node(m, "Shape", "p", "small", NULL);
    graph_node(m, "Gather", "shape last", "big2", NULL);
    graph_node(m, "Gather", "small last", "small2", NULL);
    graph_node(m, "Sub", "big2 small2", "more", NULL);
    graph_node(m, "Div", "more two", "half", NULL);
}

/* x is cut to the size of p, from a corner and around the middle. */
TEST(test_crop)
{
    for (int middle = 0; middle < 2; middle++) {
        static const int64_t size[][2] = {{4, 6}, {5, 7}, {9, 4}};
        struct pb_message m = picture();
        struct graph *g;

        sizes_of_both(&m);
        graph_ints(&m, "corner", DIMS(2), INTS(0, 0));
        graph_node(&m, "Add", "half small2", "end", NULL);
        graph_node(&m, "Slice",
                   middle ? "x half end last" : "x corner small2 last", "part",
                   NULL);
        graph_node(&m, "Neg", "part", "y", NULL);
        g = must_read(model_of(&m, 13));
        for (size_t k = 0; k < COUNT(size); k++) {
            const int h = (int)size[k][0], w = (int)size[k][1];
            const int top = middle ? (h - h / 2) / 2 : 0;
            const int left = middle ? (w - w / 2) / 2 : 0;
            float x[2 * 9 * 7], want[2 * 9 * 7];
            size_t n = 0;

            for (int i = 0; i < 2 * h * w; i++)
                x[i] = (float)i;
            for (int c = 0; c < 2; c++)
                for (int i = 0; i < h / 2; i++)
                    for (int j = 0; j < w / 2; j++)
                        want[n++] = -x[(c * h + top + i) * w + left + j];
            must_give(g, h, w, x, want, n);
        }
        graph_free(g);
    }
}

/* p is padded to the size of x, half of it before, by 5 or by its edge. */
TEST(test_pad)
{
    for (int edge = 0; edge < 2; edge++) {
        static const int64_t size[][2] = {{4, 6}, {5, 7}, {9, 4}};
        struct pb_message m = picture(), a = EMPTY;
        struct graph *g;

        sizes_of_both(&m);
        graph_ints(&m, "none", DIMS(2), INTS(0, 0));
        graph_floats(&m, "five", 0, NULL, FLOATS(5));
        graph_node(&m, "Sub", "more half", "rest", NULL);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "none half none rest", "pads", &a);
        attr_text(&a, "mode", edge ? "edge" : "constant");
        graph_node(&m, "Pad", edge ? "p pads" : "p pads five", "y", &a);
        g = must_read(model_of(&m, 13));
        for (size_t k = 0; k < COUNT(size); k++) {
            const int h = (int)size[k][0], w = (int)size[k][1];
            const int top = (h - h / 2) / 2, left = (w - w / 2) / 2;
            float x[2 * 9 * 7], want[2 * 9 * 7];

            for (int i = 0; i < 2 * h * w; i++)
                x[i] = (float)i; /* the largest of four is the last */
            for (int i = 0; i < 2 * h * w; i++) {
                int p = i / w % h - top, q = i % w - left;
                const bool inside = p >= 0 && p < h / 2 && q >= 0 && q < w / 2;

                p = p < 0 ? 0 : p >= h / 2 ? h / 2 - 1 : p;
                q = q < 0 ? 0 : q >= w / 2 ? w / 2 - 1 : q;
                want[i] = inside || edge
                              ? x[(i / w / h * h + 2 * p + 1) * w + 2 * q + 1]
                              : 5;
            }
            must_give(g, h, w, x, want, (size_t)(2 * h * w));
        }
        graph_free(g);
    }
}

/* The picture is padded to multiples of 4, half of it before, and cut to its
 * size again: windows of attention, networks that halve.  The pads of heights
 * and of widths are told apart although both are remainders. */
TEST(test_multiple)
{
    for (int back = 0; back < 2; back++) {
        static const int64_t size[][2] = {{4, 8}, {5, 6}, {7, 9}, {8, 3}};
        struct pb_message m = picture(), a = EMPTY;
        struct graph *g;

        graph_ints(&m, "last", DIMS(2), INTS(2, 3));
        graph_ints(&m, "none", DIMS(2), INTS(0, 0));
        graph_ints(&m, "four", 0, NULL, INTS(4));
        graph_node(&m, "Gather", "shape last", "size", NULL);
        graph_node(&m, "Mod", "size four", "over", NULL);
        graph_node(&m, "Sub", "four over", "lack", NULL);
        graph_node(&m, "Mod", "lack four", "more", NULL);
        graph_node(&m, "Div", "more two", "half", NULL);
        graph_node(&m, "Sub", "more half", "rest", NULL);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "none half none rest", "pads", &a);
        graph_node(&m, "Pad", "x pads", back ? "padded" : "y", NULL);
        if (back) {
            graph_node(&m, "Add", "half size", "end", NULL);
            graph_node(&m, "Slice", "padded half end last", "y", NULL);
        }
        g = must_read(model_of(&m, 13));
        for (size_t k = 0; k < COUNT(size); k++) {
            const int h = (int)size[k][0], w = (int)size[k][1];
            const int tall = (h + 3) / 4 * 4, wide = (w + 3) / 4 * 4;
            const int top = (tall - h) / 2, left = (wide - w) / 2;
            float x[2 * 8 * 12], want[2 * 8 * 12];

            for (int i = 0; i < 2 * h * w; i++)
                x[i] = (float)i + 1;
            for (int i = 0; i < 2 * tall * wide; i++) {
                const int r = i / wide % tall - top, q = i % wide - left;

                want[i] = r < 0 || r >= h || q < 0 || q >= w
                              ? 0
                              : x[(i / wide / tall * h + r) * w + q];
            }
            must_give(g, h, w, x, back ? x : want,
                      (size_t)(back ? 2 * h * w : 2 * tall * wide));
        }
        graph_free(g);
    }
}

/* Half of the picture, rounded down, is padded to a multiple of 4 or 8: what
 * multiples of 2 would be at many sizes. */
TEST(test_multiple_of_half)
{
    for (int to = 4; to <= 8; to += 4) {
        struct pb_message m = picture(), a = EMPTY;
        float x[2 * 23 * 9];
        struct graph *g;

        graph_ints(&m, "last", DIMS(2), INTS(2, 3));
        graph_ints(&m, "none", DIMS(6), INTS(0, 0, 0, 0, 0, 0));
        graph_ints(&m, "unit", 0, NULL, INTS(to));
        attr_ints(&a, "kernel_shape", 2, INTS(2, 2));
        attr_ints(&a, "strides", 2, INTS(2, 2));
        graph_node(&m, "MaxPool", "x", "half", &a);
        graph_node(&m, "Shape", "half", "its", NULL);
        graph_node(&m, "Gather", "its last", "size", NULL);
        graph_node(&m, "Mod", "size unit", "over", NULL);
        graph_node(&m, "Sub", "unit over", "lack", NULL);
        graph_node(&m, "Mod", "lack unit", "more", NULL);
        memset(&a, 0, sizeof a);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "none more", "pads", &a);
        graph_node(&m, "Pad", "half pads", "y", NULL);
        g = must_read(model_of(&m, 13));
        for (size_t i = 0; i < COUNT(x); i++)
            x[i] = (float)i + 1;
        for (int h = 2; h <= 23; h++) {
            const int w = 9, tall = (h / 2 + to - 1) / to * to;
            const int wide = (w / 2 + to - 1) / to * to;
            float want[2 * 16 * 8];

            for (int i = 0; i < 2 * tall * wide; i++) {
                const int r = i / wide % tall, q = i % wide;

                want[i] =
                    r >= h / 2 || q >= w / 2
                        ? 0
                        : x[(i / wide / tall * h + 2 * r + 1) * w + 2 * q + 1];
            }
            must_give(g, h, w, x, want, (size_t)(2 * tall * wide));
        }
        graph_free(g);
    }
}

/* y = x + w % 4: computed at run time as the file says. */
TEST(test_remainder)
{
    struct pb_message m = picture(), a = EMPTY;
    struct graph *g;

    graph_ints(&m, "four", 0, NULL, INTS(4));
    graph_node(&m, "Mod", "w four", "over", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "over", "real", &a);
    graph_node(&m, "Add", "x real", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int w = 5; w < 8; w++) {
        float x[42], want[42];

        for (int i = 0; i < 6 * w; i++) {
            x[i] = (float)i;
            want[i] = (float)(i + w % 4);
        }
        must_give(g, 3, w, x, want, (size_t)(6 * w));
    }
    graph_free(g);
}

/* y = x + h w - (h + w) / 3, of two free sizes. */
TEST(test_two_sizes)
{
    struct pb_message m = picture(), a = EMPTY;
    struct graph *g;

    graph_node(&m, "Mul", "h w", "area", NULL);
    graph_node(&m, "Add", "h w", "sum", NULL);
    graph_node(&m, "Div", "sum three", "third", NULL);
    graph_node(&m, "Sub", "area third", "number", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "number", "real", &a);
    graph_node(&m, "Add", "x real", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int w = 5; w < 8; w++) {
        float x[42], want[42];

        for (int i = 0; i < 6 * w; i++) {
            x[i] = (float)i;
            want[i] = (float)(i + 3 * w - (3 + w) / 3);
        }
        must_give(g, 3, w, x, want, (size_t)(6 * w));
    }
    graph_free(g);
}

/* A third of a free height and width, which no tensor has: the pixels that are
 * nearest. */
TEST(test_third)
{
    static const int64_t size[][2] = {{6, 9}, {7, 4}, {8, 11}};
    struct pb_message m = picture(), a = EMPTY;
    struct graph *g;

    graph_ints(&m, "last", DIMS(2), INTS(2, 3));
    graph_ints(&m, "first", DIMS(2), INTS(0, 1));
    graph_node(&m, "Gather", "shape last", "size", NULL);
    graph_node(&m, "Gather", "shape first", "lead", NULL);
    graph_node(&m, "Div", "size three", "third", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "lead third", "sizes", &a);
    attr_text(&a, "mode", "nearest");
    attr_text(&a, "coordinate_transformation_mode", "asymmetric");
    attr_text(&a, "nearest_mode", "floor");
    graph_node(&m, "Resize", "x   sizes", "y", &a);
    g = must_read(model_of(&m, 13));
    for (size_t k = 0; k < COUNT(size); k++) {
        const int h = (int)size[k][0], w = (int)size[k][1];
        const int tall = h / 3, wide = w / 3;
        float x[2 * 8 * 11], want[2 * 8 * 11];

        for (int i = 0; i < 2 * h * w; i++)
            x[i] = (float)i;
        for (int i = 0; i < 2 * tall * wide; i++)
            want[i] = x[(i / wide / tall * h + i / wide % tall * h / tall) * w +
                        i % wide * w / wide];
        must_give(g, h, w, x, want, (size_t)(2 * tall * wide));
    }
    graph_free(g);
}

/* Twice the batch by half of the pixels, twice of them: the areas of YOLO12. */
TEST(test_areas)
{
    struct pb_message m = picture(), a = EMPTY;
    float x[24], want[24];
    struct graph *g;

    graph_ints(&m, "axes", DIMS(1), INTS(0));
    graph_ints(&m, "rest", DIMS(1), INTS(-1));
    size_of(&m, "zero", "n");
    graph_node(&m, "Mul", "n two", "areas", NULL);
    graph_node(&m, "Unsqueeze", "areas axes", "rows", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "rows rest", "target", &a);
    graph_node(&m, "Reshape", "x target", "line", NULL);
    graph_node(&m, "CumSum", "line one", "sum", NULL);
    graph_node(&m, "Reshape", "sum shape", "y", NULL);
    g = must_read(model_of(&m, 14));
    for (int i = 0; i < 24; i++) {
        x[i] = (float)i;
        want[i] = x[i] + (i % 12 ? want[i - 1] : 0);
    }
    must_give(g, 3, 4, x, want, 24);
    must_give(g, 6, 2, x, want, 24);
    graph_free(g);
}

/* Sizes as numbers: y = x / (w - 1) + 3 h - 2 w + 0.5 / h. */
TEST(test_numbers)
{
    static const int64_t size[][2] = {{4, 6}, {5, 3}, {9, 4}};
    struct pb_message m = picture(), a = EMPTY;
    struct graph *g;

    graph_floats(&m, "half", 0, NULL, FLOATS(0.5f));
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Sub", "w one", "before", NULL);
    graph_node(&m, "Cast", "before", "by", &a);
    graph_node(&m, "Div", "x by", "scaled", NULL);
    graph_node(&m, "Mul", "h three", "tripled", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "tripled", "more", &a);
    graph_node(&m, "Mul", "w two", "doubled", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "doubled", "less", &a);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "h", "rows", &a);
    graph_node(&m, "Div", "half rows", "part", NULL);
    graph_node(&m, "Add", "scaled more", "s", NULL);
    graph_node(&m, "Sub", "s less", "t", NULL);
    graph_node(&m, "Add", "t part", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (size_t k = 0; k < COUNT(size); k++) {
        const int h = (int)size[k][0], w = (int)size[k][1];
        float x[72], y[72];
        struct graph *copy = graph_copy(g);

        for (int i = 0; i < 2 * h * w; i++)
            x[i] = (float)i;
        assert_non_null(copy);
        run_reference(copy, DIMS(1, 2, h, w), x, y, sizeof y);
        for (int i = 0; i < 2 * h * w; i++)
            assert_float_equal(
                y[i], i / (w - 1.0) + 3.0 * h - 2.0 * w + 0.5 / h, 1e-5);
    }
    graph_free(g);
}

/* A picture of a free size read at points that are its own values: -1 and 1 are
 * its edges, and -3 and 3, mirrored, too. */
TEST(test_grid_sample)
{
    static const struct {
        const char *border;
        bool align;
        float first, last;
    } way[] = {{"zeros", true, -1, 1},
               {"reflection", true, 3, -3},
               {"reflection", true, -1, 1},
               {"border", false, -1, 1}};
    static const int64_t size[][2] = {{4, 6}, {5, 3}, {9, 4}};

    for (size_t k = 0; k < COUNT(way); k++) {
        struct pb_message m = picture(), a = EMPTY;
        struct graph *g;

        attr_ints(&a, "perm", DIMS(0, 2, 3, 1));
        graph_node(&m, "Transpose", "x", "points", &a);
        attr_int(&a, "align_corners", way[k].align);
        attr_text(&a, "padding_mode", way[k].border);
        graph_node(&m, "GridSample", "x points", "y", &a);
        g = must_read(model_of(&m, 16));
        for (size_t i = 0; i < COUNT(size); i++) {
            const int h = (int)size[i][0], w = (int)size[i][1], n = h * w;
            float x[72], want[72];

            for (int e = 0; e < 2 * n; e++)
                x[e] = e * 7 % 5 < 2 ? way[k].first : way[k].last;
            for (int e = 0; e < 2 * n; e++) {
                const int col = x[e % n] == way[k].first ? 0 : w - 1;
                const int row = x[n + e % n] == way[k].first ? 0 : h - 1;

                want[e] = x[e / n * n + row * w + col];
            }
            must_give(g, h, w, x, want, (size_t)(2 * n));
        }
        graph_free(g);
    }
}

/* Lines of the pixels of x and of p, joined and taken apart again. */
TEST(test_split)
{
    struct pb_message m = picture(), a = EMPTY;
    float x[2 * 5 * 7], want[2 * 5 * 7];
    struct graph *g;

    sizes_of_both(&m);
    graph_ints(&m, "line", DIMS(3), INTS(0, 0, -1));
    graph_node(&m, "Reshape", "x line", "pixels", NULL);
    graph_node(&m, "Reshape", "p line", "maxima", NULL);
    attr_int(&a, "axis", 2);
    graph_node(&m, "Concat", "pixels maxima", "both", &a);
    attr_int(&a, "keepdims", 1);
    attr_ints(&a, "axes", DIMS(0));
    graph_node(&m, "ReduceProd", "big2", "n", &a);
    attr_ints(&a, "axes", DIMS(0));
    graph_node(&m, "ReduceProd", "small2", "k", &a);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "n k", "parts", &a);
    attr_int(&a, "axis", 2);
    graph_node(&m, "Split", "both parts", "first second", &a);
    graph_node(&m, "Neg", "second", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int i = 0; i < 70; i++)
        x[i] = (float)i;
    for (int i = 0; i < 12; i++)
        want[i] = -x[(i / 6 * 5 + 2 * (i / 3 % 2) + 1) * 7 + 2 * (i % 3) + 1];
    must_give(g, 5, 7, x, want, 12);
    graph_free(g);
}

/* y = x, the places of what is positive, added up, and that itself. */
TEST(test_places)
{
    struct pb_message m = picture(), a = EMPTY, keep = EMPTY, perm = EMPTY;
    struct graph *g;

    graph_floats(&m, "nil", 0, NULL, FLOATS(0));
    graph_node(&m, "Greater", "x nil", "positive", NULL);
    graph_node(&m, "NonZero", "positive", "places", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "places", "real", &a);
    attr_int(&keep, "keepdims", 0);
    graph_node(&m, "ReduceSum", "real", "sum", &keep);
    attr_ints(&perm, "perm", 2, INTS(1, 0));
    graph_node(&m, "Transpose", "places", "at", &perm);
    graph_node(&m, "GatherND", "x at", "chosen", NULL);
    keep = (struct pb_message)EMPTY;
    attr_int(&keep, "keepdims", 0);
    graph_node(&m, "ReduceSum", "chosen", "total", &keep);
    graph_node(&m, "Add", "sum total", "both", NULL);
    graph_node(&m, "Add", "x both", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int k = 0; k < 2; k++) {
        const int h = k ? 3 : 4, w = k ? 5 : 2;
        float x[30], want[30], sum = 0;

        for (int i = 0; i < 2 * h * w; i++) {
            x[i] = i % 3 == 1 ? (float)i : -1;
            if (i % 3 == 1)
                sum += (float)(i + i / (h * w) + i / w % h + i % w);
        }
        for (int i = 0; i < 2 * h * w; i++)
            want[i] = x[i] + sum;
        must_give(g, h, w, x, want, (size_t)(2 * h * w));
    }
    graph_free(g);
}

/* Picture 0 is written. */
TEST(test_written_picture)
{
    struct pb_message m = picture();
    float x[30], want[30];
    struct graph *g;

    graph_ints(&m, "first", DIMS(1, 1), INTS(0));
    graph_floats(&m, "triple", 0, NULL, FLOATS(3));
    graph_node(&m, "Mul", "x triple", "more", NULL);
    graph_node(&m, "Slice", "more z1 o1", "part", NULL);
    graph_ints(&m, "z1", DIMS(1), INTS(0));
    graph_ints(&m, "o1", DIMS(1), INTS(1));
    graph_node(&m, "ScatterND", "x first part", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int i = 0; i < 30; i++) {
        x[i] = (float)(i - 9);
        want[i] = 3 * x[i];
    }
    must_give(g, 3, 5, x, want, 30);
    must_give(g, 4, 2, x, want, 16);
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_written_picture),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_joined_grid),
        cmocka_unit_test(test_reshape_back),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_pyramid),
        cmocka_unit_test(test_all_pixels),
        cmocka_unit_test(test_crop),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_multiple),
        cmocka_unit_test(test_remainder),
        cmocka_unit_test(test_two_sizes),
        cmocka_unit_test(test_third),
        cmocka_unit_test(test_areas),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_grid_sample),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_multiple_of_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
