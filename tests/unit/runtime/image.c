/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: decoders against independent decodes, resampling against Pillow,
 * damaged files. */
#include "tests/unit/graph/data.h"

#include <math.h>
#include <sys/resource.h>
#include <zlib.h>

#include "libinfer/image/image.h"
#include "tests/unit/folder.h"

/* ---- resampling ---------------------------------------------------- */

static struct infer_image test_picture(int width, int height)
{
    struct infer_image image;
    int x, y, c;
    uint8_t *p;

    assert_int_equal(image_new(width, height, 3, NULL, &image), 0);
    p = image.pixels;
    for (y = 0; y < height; y++)
        for (x = 0; x < width; x++)
            for (c = 0; c < 3; c++)
                *p++ = (uint8_t)(x * x * 7 + y * 13 + c * 50 + x * y);
    return image;
}

static uint32_t picture_crc(const struct infer_image *image)
{
    return (uint32_t)crc32(
        0, image->pixels,
        (uInt)(image->width * image->height * image->channels));
}

/* Image.fromarray(test_picture(23, 17)).resize((w, h), FILTER) of Pillow 13:
 * crc32(tobytes()). */
TEST(test_resize_equals_pillow)
{
    static const struct {
        enum graph_filter filter;
        int width, height;
        uint32_t crc;
    } expected[] = {
        {GRAPH_BILINEAR, 7, 5, 0xac51d4c1},
        {GRAPH_BILINEAR, 40, 31, 0x272b1fbf},
        {GRAPH_BILINEAR, 23, 9, 0x46d3dcfe},
        {GRAPH_BILINEAR, 11, 17, 0x060a24ae},
        {GRAPH_BILINEAR, 1, 1, 0x34b54f6b},
        {GRAPH_BICUBIC, 7, 5, 0xeec3c47f},
        {GRAPH_BICUBIC, 40, 31, 0x04effba2},
        {GRAPH_BICUBIC, 23, 9, 0x4219d42a},
        {GRAPH_BICUBIC, 11, 17, 0x3d16a497},
        {GRAPH_BICUBIC, 1, 1, 0x2c6c141d},
        {GRAPH_NEAREST, 7, 5, 0x22dfa020},
        {GRAPH_NEAREST, 40, 31, 0xbcdee00e},
        {GRAPH_NEAREST, 23, 9, 0x503b17ba},
        {GRAPH_NEAREST, 11, 17, 0x4f079afb},
        {GRAPH_NEAREST, 1, 1, 0xd473c0ed},
    };
    struct infer_image in = test_picture(23, 17), out;
    size_t i;

    for (i = 0; i < COUNT(expected); i++) {
        assert_int_equal(image_resize(&in, expected[i].width,
                                      expected[i].height, expected[i].filter,
                                      NULL, &out),
                         0);
        assert_int_equal(picture_crc(&out), expected[i].crc);
        infer_image_free(&out);
    }
    assert_int_equal(image_convert(&in, 1, NULL, &out), 0);
    assert_int_equal(picture_crc(&out), 0xb5f4521b);
    infer_image_free(&out);
    assert_int_equal(image_resize(&in, 0, 5, GRAPH_BILINEAR, NULL, &out),
                     INFER_EARGUMENT);
    infer_image_free(&in);
}

/* Between two pixels, at 0.5 of 2 in 7, Pillow takes what the sum of its steps
 * gives. */
TEST(test_nearest_between)
{
    static const uint8_t want[7] = {0, 0, 0, 0, 1, 1, 1};
    uint8_t pixel[2] = {0, 1};
    struct infer_image in = {.width = 2, .height = 1, .channels = 1, pixel};
    struct infer_image out;

    assert_int_equal(image_resize(&in, 7, 1, GRAPH_NEAREST, NULL, &out), 0);
    assert_memory_equal(out.pixels, want, 7);
    infer_image_free(&out);
    in.width = 1;
    in.height = 2;
    assert_int_equal(image_resize(&in, 1, 7, GRAPH_NEAREST, NULL, &out), 0);
    assert_memory_equal(out.pixels, want, 7);
    infer_image_free(&out);
}

/* One column of 2^21 rows as 64 columns would be 2^27 pixels before its rows
 * are resampled: each column is the resampled one, and the whole takes little.
 */
TEST(test_resize_of_a_line)
{
    enum { ROWS = 1 << 21, WIDTH = 64, HEIGHT = 3 };
    struct infer_image in = {0}, line, out;
    struct rusage before, after;

    in.width = in.channels = 1;
    in.height = ROWS;
    in.pixels = malloc(ROWS);
    assert_non_null(in.pixels);
    for (int i = 0; i < ROWS; i++)
        in.pixels[i] = (uint8_t)(i >> 13);
    assert_int_equal(image_resize(&in, 1, HEIGHT, GRAPH_BILINEAR, NULL, &line),
                     0);
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(
        image_resize(&in, WIDTH, HEIGHT, GRAPH_BILINEAR, NULL, &out), 0);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss <= 64 << 10);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        assert_int_equal(out.pixels[i], line.pixels[i / WIDTH]);
    infer_image_free(&in);
    infer_image_free(&line);
    infer_image_free(&out);
}

/* ---- PNG ----------------------------------------------------------- */

struct png_case {
    const char *top;
    char *table;
    int valid, refused;
};

/* The row of path in the table, or NULL. */
static const char *table_row(const struct png_case *c, const char *path)
{
    size_t n = strlen(path);
    const char *line = c->table;

    while (line != NULL && *line != '\0') {
        if (strncmp(line, path, n) == 0 && line[n] == '\t')
            return line + n + 1;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return NULL;
}

static void check_png(const char *path, void *user)
{
    struct png_case *c = user;
    const char *row = table_row(c, path + strlen(c->top) + 1);
    struct infer_image image = {0};
    struct infer_error err = {0};
    int width, height, channels;
    unsigned crc;

    if (strstr(path, ".png") == NULL)
        return;
    if (infer_image_load(path, 0, &err, &image) < 0) {
        if (row != NULL)
            fail_msg("%s is valid: %s", path, err.text);
        assert_non_null(strstr(err.text, path));
        c->refused++;
        return;
    }
    if (row == NULL) {
        /* The independent decoder refuses damage in chunks that hold no
         * pixels; those may pass here. */
        if (strstr(path, "corrupt/") != NULL || strstr(path, "iphone/") != NULL)
            fail_msg("%s must be refused", path);
    } else {
        assert_int_equal(
            sscanf(row, "%d\t%d\t%d\t%x", &width, &height, &channels, &crc), 4);
        if (image.width != width || image.height != height ||
            image.channels != channels || picture_crc(&image) != crc)
            fail_msg("%s: decoded differently: %d x %d x %d, %08x", path,
                     image.width, image.height, image.channels,
                     picture_crc(&image));
        c->valid++;
    }
    infer_image_free(&image);
}

TEST(test_png_suites)
{
    struct png_case c = {0};
    char top[2048];
    FILE *f;
    size_t got;

    REQUIRE_DATA("png-tests", top);
    c.top = top;
    c.table = calloc(1, 1 << 20);
    f = fopen(SOURCE_DIR "/tests/expected/png.tsv", "r");
    assert_non_null(f);
    got = fread(c.table, 1, (1 << 20) - 1, f);
    fclose(f);
    assert_true(got > 0);
    walk_files(top, check_png, &c);
    free(c.table);
    print_message("%d valid, %d refused\n", c.valid, c.refused);
    assert_int_equal(c.valid, 185);
    assert_int_equal(c.refused, 28);
}

/* ---- JPEG ---------------------------------------------------------- */

struct outcome {
    int read, refused;
};

/* The reference decodes were made by another decoder with another inverse
 * transform and upsampling: a few levels at edges of chroma, far less on the
 * average. */
static void check_jpeg_pair(const char *path, void *user)
{
    struct outcome *o = user;
    char twin[4096];
    struct infer_image a, b, gray;
    struct infer_error err = {0};
    size_t i, n, length = strlen(path);
    double sum = 0;

    if (length < 5 || strcmp(path + length - 4, ".jpg") != 0)
        return;
    snprintf(twin, sizeof(twin), "%.*s.png", (int)(length - 4), path);
    if (infer_image_load(twin, 0, &err, &b) < 0)
        fail_msg("%s", err.text);
    if (infer_image_load(path, 0, &err, &a) < 0) {
        /* Policy: a picture that ends in the middle of its data is refused. */
        if (strstr(path, "partial") == NULL && strstr(path, "missing") == NULL)
            fail_msg("%s", err.text);
        o->refused++;
        infer_image_free(&b);
        return;
    }
    assert_int_equal(a.width, b.width);
    assert_int_equal(a.height, b.height);
    if (a.channels != b.channels) {
        assert_int_equal(image_convert(&b, a.channels, NULL, &gray), 0);
        infer_image_free(&b);
        b = gray;
    }
    n = (size_t)a.width * (size_t)a.height * (size_t)a.channels;
    for (i = 0; i < n; i++)
        sum += abs(a.pixels[i] - b.pixels[i]);
    if (!(sum / (double)n < 2.5))
        fail_msg("%s: mean difference %g", path, sum / (double)n);
    o->read++;
    infer_image_free(&a);
    infer_image_free(&b);
}

TEST(test_jpeg_reference)
{
    struct outcome o = {0};
    char top[2048];

    REQUIRE_DATA("jpeg-tests/reftest", top);
    walk_files(top, check_jpeg_pair, &o);
    print_message("%d read, %d refused\n", o.read, o.refused);
    assert_int_equal(o.read, 23);
    assert_int_equal(o.refused, 1);
}

/* Against the PPM beside it: at most `most` levels away anywhere, and `mean`
 * on the average. */
static void check_near_ppm(const char *jpeg, const char *ppm, int most,
                           double mean)
{
    struct infer_image image;
    uint8_t *expected;
    char head[16];
    double sum = 0;
    size_t i, n;
    FILE *f;

    assert_int_equal(infer_image_load(jpeg, 0, NULL, &image), 0);
    assert_int_equal(image.width, 227);
    assert_int_equal(image.height, 149);
    n = (size_t)image.width * (size_t)image.height * 3;
    f = fopen(ppm, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, 15, f), 15); /* "P6\n227 149\n255\n" */
    expected = malloc(n);
    assert_non_null(expected);
    assert_int_equal(fread(expected, 1, n, f), n);
    fclose(f);
    for (i = 0; i < n; i++) {
        int d = abs(image.pixels[i] - expected[i]);

        assert_true(d <= most);
        sum += d;
    }
    assert_true(sum / (double)n < mean);
    free(expected);
    infer_image_free(&image);
}

/* The PPM was made with djpeg -dct fast, whose transform is coarser than ours:
 * at most 3 levels, and 0.19 on the average.  testimgint was compressed once
 * more; Pillow's decode of it is 17 levels away at most, 0.47 on the average.
 */
TEST(test_jpeg_near_djpeg)
{
    char path[2048], again[2048], ppm[2048];

    REQUIRE_DATA("jpeg-tests/libjpeg-turbo/testorig.jpg", path);
    REQUIRE_DATA("jpeg-tests/libjpeg-turbo/testimgint.jpg", again);
    REQUIRE_DATA("jpeg-tests/libjpeg-turbo/testorig.ppm", ppm);
    check_near_ppm(path, ppm, 3, 0.2);
    check_near_ppm(again, ppm, 18, 0.5);
}

static void survive(const char *path, void *user)
{
    struct outcome *o = user;
    struct infer_image image;
    struct infer_error err = {0};

    if (infer_image_load(path, 0, &err, &image) < 0) {
        assert_non_null(strstr(err.text, path));
        assert_true(err.code < 0);
        o->refused++;
    } else {
        assert_true(image.width > 0 && image.height > 0);
        infer_image_free(&image);
        o->read++;
    }
}

TEST(test_jpeg_crashers)
{
    struct outcome o = {0};
    char top[2048];

    REQUIRE_DATA("jpeg-tests/crashtest", top);
    walk_files(top, survive, &o);
    print_message("%d read, %d refused\n", o.read, o.refused);
    assert_int_equal(o.read + o.refused, 74);
    assert_true(o.refused > 60);
}

TEST(test_photographs)
{
    struct outcome o = {0};
    char top[2048];

    REQUIRE_DATA("photos", top);
    walk_files(top, survive, &o);
    assert_int_equal(o.read, 14);
}

/* ---- damage made here ---------------------------------------------- */

/* Every prefix is refused; every flipped bit is survived. */
static void damage(const char *path)
{
    const struct data_bytes file = data_read(path);
    const size_t bytes = file.bytes;
    unsigned char *copy = malloc(bytes);
    size_t i;
    struct infer_image image;

    assert_non_null(copy);
    for (i = 0; i + 2 < bytes; i++) {
        /* A copy of the exact size lets AddressSanitizer see every overrun. */
        unsigned char *part = malloc(i > 0 ? i : 1);

        memcpy(part, file.data, i);
        if (infer_image_decode(part, i, 1 << 20, NULL, &image) == 0) {
            /* Only the end marker may be missing. */
            assert_true(i + 12 >= bytes);
            infer_image_free(&image);
        }
        free(part);
    }
    for (i = 0; i < bytes * 8 && i < 4096 * 8; i++) {
        memcpy(copy, file.data, bytes);
        copy[i / 8] ^= (unsigned char)(1 << i % 8);
        if (infer_image_decode(copy, bytes, 1 << 20, NULL, &image) == 0)
            infer_image_free(&image);
    }
    free(copy);
    free(file.data);
}

TEST(test_damage)
{
    char path[2048];

    REQUIRE_DATA("png-tests/pngsuite/primary/basi3p04.png", path);
    damage(path);
    REQUIRE_DATA("jpeg-tests/reftest/grayscale_16x24_sampling2x2.jpg", path);
    damage(path);
}

/* numpy.asarray() of Pillow 13's image, a palette's indices; gray of fewer than
 * 8 bits, which Pillow scales, divided by 255 / (2^bits - 1): crc32(tobytes()).
 */
TEST(test_indices)
{
    static const struct {
        const char *name;
        uint32_t crc;
    } expected[] = {
        {"basn3p01", 0xfba3dc7f}, {"basi3p02", 0x8d186fe6},
        {"basi3p04", 0x280e99f1}, {"basn3p08", 0xf6ed8aa6},
        {"tbbn3p08", 0x2111c7b4}, {"s35n3p04", 0xd5b1ad32},
        {"basi0g08", 0x784b4a4e}, {"basn0g02", 0x27316528},
        {"basn0g04", 0x574bd5b7}, {"basi0g01", 0x260dd161},
    };
    static const char *const refused[] = {"basn2c08", "basn6a08", "basi4a08"};
    struct infer_image image;
    struct infer_error err;
    char name[64], path[2048];

    for (size_t i = 0; i < COUNT(expected); i++) {
        snprintf(name, sizeof name, "png-tests/pngsuite/primary/%s.png",
                 expected[i].name);
        REQUIRE_DATA(name, path);
        assert_int_equal(image_load_indices(path, 0, &err, &image), 0);
        assert_int_equal(image.channels, 1);
        assert_int_equal(picture_crc(&image), expected[i].crc);
        infer_image_free(&image);
        assert_int_equal(image_load_indices(path, 10, &err, &image),
                         INFER_EMEMORY);
    }
    for (size_t i = 0; i < COUNT(refused); i++) {
        snprintf(name, sizeof name, "png-tests/pngsuite/primary/%s.png",
                 refused[i]);
        REQUIRE_DATA(name, path);
        assert_int_equal(image_load_indices(path, 0, &err, &image),
                         INFER_EUNSUPPORTED);
        assert_non_null(strstr(err.text, refused[i]));
    }
}

/* ---- orientation --------------------------------------------------- */

/* A PNG file of 2 x 3 gray pixels, 1 to 6, with a chunk eXIf of n bytes. */
static int decode_with_exif(const char *exif, size_t n,
                            struct infer_image *image)
{
    uint8_t pixels[6] = {1, 2, 3, 4, 5, 6}, file[512], chunk[80];
    const struct infer_image gray = {2, 3, 1, pixels};
    const size_t head = 33; /* signature and IHDR */
    struct infer_error err;
    uint32_t crc;
    size_t bytes;
    FILE *f;

    assert_int_equal(image_write_png(&gray, in_folder("exif.png"), &err), 0);
    f = fopen(in_folder("exif.png"), "rb");
    assert_non_null(f);
    bytes = fread(file, 1, sizeof file - sizeof chunk, f);
    fclose(f);
    assert_true(bytes > head && n + 12 <= sizeof chunk);
    memcpy(chunk, (uint8_t[8]){0, 0, 0, (uint8_t)n, 'e', 'X', 'I', 'f'}, 8);
    memcpy(chunk + 8, exif, n);
    crc = (uint32_t)crc32(0, chunk + 4, (uInt)n + 4);
    for (int i = 0; i < 4; i++)
        chunk[8 + n + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    memmove(file + head + n + 12, file + head, bytes - head);
    memcpy(file + head, chunk, n + 12);
    return infer_image_decode(file, bytes + n + 12, 0, &err, image);
}

/* Blocks of EXIF; what has no sound orientation is left as it is stored. */
TEST(test_orientation)
{
#define LITTLE "II*\0\010\0\0\0"
#define ENTRY  "\1\0\022\1\3\0\1\0\0\0"
#define BLOCK(n)                                                               \
    {                                                                          \
        LITTLE ENTRY n "\0\0\0", 22                                            \
    }
    static const struct {
        struct {
            char bytes[36];
            size_t n;
        } exif;
        int width;
        uint8_t pixels[6];
    } row[] = {
        {BLOCK("\1"), 2, {1, 2, 3, 4, 5, 6}},
        {BLOCK("\2"), 2, {2, 1, 4, 3, 6, 5}},
        {BLOCK("\3"), 2, {6, 5, 4, 3, 2, 1}},
        {BLOCK("\4"), 2, {5, 6, 3, 4, 1, 2}},
        {BLOCK("\5"), 3, {1, 3, 5, 2, 4, 6}},
        {BLOCK("\6"), 3, {5, 3, 1, 6, 4, 2}},
        {BLOCK("\7"), 3, {6, 4, 2, 5, 3, 1}},
        {BLOCK("\010"), 3, {2, 4, 6, 1, 3, 5}},
        {BLOCK("\0"), 2, {1, 2, 3, 4, 5, 6}},
        {BLOCK("\011"), 2, {1, 2, 3, 4, 5, 6}},
        /* Big-endian, the second of two entries. */
        {{"MM\0*\0\0\0\010\0\2\1\0\0\3\0\0\0\1\0\2\0\0"
          "\1\022\0\3\0\0\0\1\0\3\0\0",
          34},
         2,
         {6, 5, 4, 3, 2, 1}},
        /* Cut in the entry, in the header; empty; another number than 42; a
         * directory beyond the block; no entries. */
        {{LITTLE ENTRY "\3\0\0", 21}, 2, {1, 2, 3, 4, 5, 6}},
        {{LITTLE, 7}, 2, {1, 2, 3, 4, 5, 6}},
        {{"", 0}, 2, {1, 2, 3, 4, 5, 6}},
        {{"II+\0\010\0\0\0" ENTRY "\3\0\0\0", 22}, 2, {1, 2, 3, 4, 5, 6}},
        {{"II*\0\025\0\0\0" ENTRY "\3\0\0\0", 22}, 2, {1, 2, 3, 4, 5, 6}},
        {{"II*\0\377\377\377\377" ENTRY "\3\0\0\0", 22}, 2, {1, 2, 3, 4, 5, 6}},
        {{LITTLE "\0\0", 10}, 2, {1, 2, 3, 4, 5, 6}},
    };

    for (size_t i = 0; i < COUNT(row); i++) {
        struct infer_image image;

        assert_int_equal(
            decode_with_exif(row[i].exif.bytes, row[i].exif.n, &image), 0);
        assert_int_equal(image.width, row[i].width);
        assert_int_equal(image.height, 6 / row[i].width);
        assert_memory_equal(image.pixels, row[i].pixels, 6);
        infer_image_free(&image);
    }
}

TEST(test_limits)
{
    struct infer_image image;
    struct infer_error err = {0};
    char path[2048];

    assert_int_equal(infer_image_decode("", 0, 0, &err, &image), INFER_EFORMAT);
    assert_int_equal(infer_image_decode("GIF89a", 6, 0, &err, &image),
                     INFER_EUNSUPPORTED);
    assert_int_equal(infer_image_decode("", 0, 0, &err, NULL), INFER_EARGUMENT);
    assert_int_equal(infer_image_decode(NULL, 1, 0, &err, &image),
                     INFER_EARGUMENT);
    assert_int_equal(infer_image_load(NULL, 0, &err, &image), INFER_EARGUMENT);
    assert_int_equal(infer_image_decode(NULL, 1, 0, &err, &image),
                     INFER_EARGUMENT);
    assert_int_equal(infer_image_load("/dev/null", 0, &err, &image), INFER_EIO);
    assert_int_equal(infer_image_load("/", 0, &err, &image), INFER_EIO);
    assert_int_equal(infer_image_load("no such file", 0, &err, &image),
                     INFER_EIO);
    assert_non_null(strstr(err.text, "no such file"));
    REQUIRE_DATA("photos/onnx-tutorials-cat.jpg", path);
    assert_int_equal(infer_image_load(path, 100, &err, &image), INFER_EMEMORY);
    assert_non_null(strstr(err.text, "pixels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_equals_pillow),
        cmocka_unit_test(test_nearest_between),
        cmocka_unit_test(test_resize_of_a_line),
        cmocka_unit_test(test_png_suites),
        cmocka_unit_test(test_jpeg_reference),
        cmocka_unit_test(test_jpeg_near_djpeg),
        cmocka_unit_test(test_jpeg_crashers),
        cmocka_unit_test(test_photographs),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
