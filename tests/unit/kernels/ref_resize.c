/* SPDX-License-Identifier: Apache-2.0 */
/* Resize of the reference: every mode, coordinate and rounding.
 * The expected values were computed with onnx.reference and PyTorch from the
 * same inputs; the antialiased cubic in double, where onnx.reference is off by
 * 1e-6. */
#include "tests/unit/kernels/ref_case.h"

/* The line -1.25 0.5 -0.5 1.25 0.25, resized. */
struct line_case {
    struct kern_resize attr;
    float scale;
    int64_t out;
    float e[10];
};

#define LINE(s, n, ...) .scale = s, .out = n, .attr = {__VA_ARGS__}

static const struct line_case lines[] = {
    {LINE(1.7f, 8, .mode = KERN_BILINEAR, .coord = KERN_HALF_PIXEL),
     .e = {-1.25f, -0.58088237f, 0.44852933f, -0.05882347f, -0.24264719f,
           0.78676456f, 0.9264707f, 0.33823541f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .coord = KERN_HALF_PIXEL),
     .e = {-0.66666675f, -0.49999991f, 0.58333349f}},
    {LINE(1.7f, 8, .mode = KERN_BILINEAR, .coord = KERN_PYTORCH_HALF_PIXEL),
     .e = {-1.25f, -0.58088237f, 0.44852933f, -0.05882347f, -0.24264719f,
           0.78676456f, 0.9264707f, 0.33823541f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .coord = KERN_PYTORCH_HALF_PIXEL),
     .e = {-0.66666675f, -0.49999991f, 0.58333349f}},
    {LINE(1.7f, 8, .mode = KERN_BILINEAR, .coord = KERN_ALIGN_CORNERS),
     .e = {-1.25f, -0.31666669f, 0.43333337f, -0.099999949f, -0.2666668f,
           0.66666651f, 1.0500001f, 0.51666677f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .coord = KERN_ALIGN_CORNERS),
     .e = {-1.25f, -0.49999988f, 0.25000024f}},
    {LINE(1.7f, 8, .mode = KERN_BILINEAR, .coord = KERN_ASYMMETRIC),
     .e = {-1.25f, -0.22058827f, 0.32352945f, -0.26470584f, 0.11764694f,
           1.1470587f, 0.72058833f, 0.25f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .coord = KERN_ASYMMETRIC),
     .e = {-1.25f, -0.1666666f, 0.91666681f}},
    {LINE(1.7f, 8, .mode = KERN_BILINEAR, .coord = KERN_HALF_PIXEL_SYMMETRIC),
     .e = {-1.25f, -0.32352933f, 0.38235292f, -0.20588236f, 0.014705868f,
           1.0441176f, 0.77941179f, 0.25f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .coord = KERN_HALF_PIXEL_SYMMETRIC),
     .e = {-0.66666657f, -0.5f, 0.58333337f}},
    {LINE(1.6f, 8, .mode = KERN_NEAREST, .nearest = KERN_ROUND_PREFER_FLOOR),
     .e = {-1.25f, -1.25f, 0.5f, -0.5f, -0.5f, 1.25f, 0.25f, 0.25f}},
    {LINE(1.5f, 7, .mode = KERN_NEAREST, .coord = KERN_ASYMMETRIC,
          .nearest = KERN_ROUND_PREFER_FLOOR),
     .e = {-1.25f, 0.5f, 0.5f, -0.5f, 1.25f, 1.25f, 0.25f}},
    {LINE(1.6f, 8, .mode = KERN_NEAREST, .nearest = KERN_ROUND_PREFER_CEIL),
     .e = {-1.25f, -1.25f, 0.5f, -0.5f, -0.5f, 1.25f, 0.25f, 0.25f}},
    {LINE(1.5f, 7, .mode = KERN_NEAREST, .coord = KERN_ASYMMETRIC,
          .nearest = KERN_ROUND_PREFER_CEIL),
     .e = {-1.25f, 0.5f, 0.5f, -0.5f, 1.25f, 1.25f, 0.25f}},
    {LINE(1.6f, 8, .mode = KERN_NEAREST, .nearest = KERN_FLOOR_NEAREST),
     .e = {-1.25f, -1.25f, 0.5f, 0.5f, -0.5f, -0.5f, 1.25f, 0.25f}},
    {LINE(1.5f, 7, .mode = KERN_NEAREST, .coord = KERN_ASYMMETRIC,
          .nearest = KERN_FLOOR_NEAREST),
     .e = {-1.25f, -1.25f, 0.5f, -0.5f, -0.5f, 1.25f, 0.25f}},
    {LINE(1.6f, 8, .mode = KERN_NEAREST, .nearest = KERN_CEIL_NEAREST),
     .e = {-1.25f, 0.5f, -0.5f, -0.5f, 1.25f, 1.25f, 0.25f, 0.25f}},
    {LINE(1.5f, 7, .mode = KERN_NEAREST, .coord = KERN_ASYMMETRIC,
          .nearest = KERN_CEIL_NEAREST),
     .e = {-1.25f, 0.5f, -0.5f, -0.5f, 1.25f, 0.25f, 0.25f}},
    {LINE(1.7f, 8, .mode = KERN_BICUBIC, .cubic_a = -0.5f,
          .exclude_outside = true),
     .e = {-1.38489f, -0.62960196f, 0.48516357f, -0.098704837f, -0.36439058f,
           0.9127059f, 1.0657566f, 0.30915073f}},
    {LINE(2, 10, .mode = KERN_BICUBIC, .cubic_a = -0.75f,
          .coord = KERN_ALIGN_CORNERS),
     .e = {-1.25f, -0.40192062f, 0.40500605f, 0.28240713f, -0.4278115f,
           -0.22513722f, 0.75462949f, 1.27332f, 0.83161873f, 0.25f}},
    {LINE(0.6f, 3, .mode = KERN_BILINEAR, .antialias = true),
     .e = {-0.59375f, 0.11111109f, 0.62500006f}},
    {LINE(0.6f, 3, .mode = KERN_BICUBIC, .cubic_a = -0.75f, .antialias = true),
     .e = {-0.59939808f, 0.25297619f, 0.67289156f}},
    {LINE(0.6f, 3, .mode = KERN_BICUBIC, .cubic_a = -0.75f, .antialias = true,
          .exclude_outside = true),
     .e = {-0.56122512f, 0.23206072f, 0.69770408f}},
};

TEST(test_line)
{
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct ref_case *c = ref_new(KERN_RESIZE);
        c->p.attr.resize = lines[i].attr;
        c->p.attr.resize.scale[0] = lines[i].scale;
        ref_ramp(c, 0, 7, 11, DIMS(5));
        ref_expect(c, lines[i].e, (size_t)lines[i].out, DIMS(lines[i].out));
    }
}

/* Twice the size from the corner: every other output lies between two. */
TEST(test_nearest_ties)
{
    static const float x[] = {1, 2, 3};
    static const struct {
        enum kern_nearest_mode mode;
        float e[6];
    } cases[] = {
        {KERN_ROUND_PREFER_FLOOR, {1, 1, 2, 2, 3, 3}},
        {KERN_ROUND_PREFER_CEIL, {1, 2, 2, 3, 3, 3}},
        {KERN_FLOOR_NEAREST, {1, 1, 2, 2, 3, 3}},
        {KERN_CEIL_NEAREST, {1, 2, 2, 3, 3, 3}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ref_case *c = ref_new(KERN_RESIZE);
        c->p.attr.resize.coord = KERN_ASYMMETRIC;
        c->p.attr.resize.nearest = cases[i].mode;
        c->p.attr.resize.scale[0] = 2;
        ref_in(c, 0, x, DIMS(3));
        ref_expect(c, cases[i].e, 6, DIMS(6));
    }
}

struct image_case {
    enum kern_resize_mode mode;
    enum kern_resize_coord coord;
    bool antialias;
    int64_t in, h, w;
    float scale_h, scale_w;
    float e[32];
};

TEST(test_image)
{
    static const struct image_case cases[] = {
        {KERN_BILINEAR,
         KERN_HALF_PIXEL,
         false,
         4,
         6,
         2,
         1.5f,
         0.5f,
         {-0.375f, 0.375f, -0.3125f, 0.4375f, -0.22916667f, 0.29166666f,
          -0.14583333f, -0.54166669f, -0.0625f, 0, 0, 0.75f}},
        {KERN_BICUBIC,
         KERN_HALF_PIXEL,
         false,
         4,
         8,
         4,
         2,
         1,
         {-1.4082031f,  0.63183594f,  -0.65820312f,  1.3818359f,
          -0.86621094f, 0.1640625f,   -0.11621094f,  1.0107422f,
          0.041992188f, -0.625f,      0.79199219f,   0.41503906f,
          0.072265625f, -0.49804688f, 0.82226562f,   -0.46777344f,
          -0.82226562f, 0.49804688f,  -0.072265625f, -1.1689453f,
          -0.79199219f, 0.625f,       -0.041992188f, -1.0419922f,
          0.11621094f,  -0.1640625f,  0.86621094f,   -0.13378906f,
          0.65820312f,  -0.63183594f, 1.4082031f,    0.40820312f}},
        {KERN_BILINEAR,
         KERN_HALF_PIXEL,
         true,
         6,
         3,
         4,
         0.5f,
         4.0f / 6,
         {0.03125f, -0.11111111f, 0.40873016f, -0.48660714f, 0.00390625f,
          0.22916667f, -0.14583333f, 0.0078125f, -0.13392857f, 0.1984127f,
          -0.32936508f, 0.084821429f}},
        {KERN_BICUBIC,
         KERN_ALIGN_CORNERS,
         false,
         4,
         2,
         5,
         0.5f,
         1.25f,
         {-1.25f, 0.20898438f, 0, -0.20898438f, 1.25f, 0.5f, -0.45800781f,
          0.375f, 1.2080078f, 0.25f}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct image_case *v = &cases[i];
        struct ref_case *c = ref_new(KERN_RESIZE);
        c->p.attr.resize = (struct kern_resize){
            .mode = v->mode,
            .coord = v->coord,
            .cubic_a = -0.75f,
            /* PyTorch's antialias leaves out what lies outside. */
            .antialias = v->antialias,
            .exclude_outside = v->antialias,
            .scale = {1, 1, v->scale_h, v->scale_w}};
        ref_ramp(c, 0, 7, 11, DIMS(1, 1, v->in, v->in));
        ref_expect(c, v->e, (size_t)(v->h * v->w), DIMS(1, 1, v->h, v->w));
    }
}

TEST(test_refused)
{
    static const float x[] = {1, 2, 3};
    struct ref_case *c = ref_new(KERN_RESIZE);

    c->p.attr.resize.scale[0] = 2;
    ref_in(c, 0, x, DIMS(3));
    ref_out(c, INFER_F32, c->out, DIMS(9));
    ref_refused(c, INFER_EUNSUPPORTED, "extent 3 times scale 2 is not 9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_nearest_ties),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
