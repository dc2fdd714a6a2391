/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --tile: super-resolution, denoising and style of pictures of any size.
 *
 * Tiles of one size cover the picture; neighbours share at least OVERLAP
 * pixels. A tile is run as a picture of its own, so that its edges, beyond
 * which the network sees nothing, are wrong as far as its windows reach.  Of
 * what two tiles share, the quarter at the edge of either is dropped and the
 * half between is mixed, from the one to the other.  Where the windows reach no
 * farther than a quarter of the overlap, the result equals a run on the whole
 * picture, up to the rounding to 8 bits where tiles are mixed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/image/image.h"
#include "libinfer/model/model.h"
#include "tools/infer/batch.h"
#include "tools/infer/reader.h"

/* Side of a tile where neither the network nor the user states one. */
#define DEFAULT_SIDE 256
/* Part of the side that neighbours share by default. */
#define DEFAULT_OVERLAP 8
/* Most pixels of a side of the result. */
#define MAX_SIDE (1 << 16)

/* One direction of the tiles of a picture. */
struct axis {
    int extent;  /* of the picture, pixels */
    int side;    /* of a tile */
    int overlap; /* that neighbours share at least */
    int count;   /* tiles */
};

static struct axis axis_of(int extent, int side, int overlap)
{
    const int step = side - overlap;
    const int more = extent > side ? (extent - side + step - 1) / step : 0;

    return (struct axis){extent, side, overlap, 1 + more};
}

/* Where tile i begins: the last one ends with the picture. */
static int axis_begin(const struct axis *a, int i)
{
    const int begin = i * (a->side - a->overlap);
    const int last = a->extent > a->side ? a->extent - a->side : 0;

    return begin < last ? begin : last;
}

/* The share of tile i in pixel `at` of a result that is `times` as large,
 * against the tiles before it: 0 to 1. */
static double axis_share(const struct axis *a, int i, int at, int times)
{
    double shared, from;

    if (i == 0)
        return 1;
    shared = axis_begin(a, i - 1) + a->side - axis_begin(a, i);
    from = axis_begin(a, i) + shared / 4;
    if (shared < 1) /* tiles that only touch */
        return 1;
    return fmin(fmax(((at + 0.5) / times - from) / (shared / 2), 0), 1);
}

/* ---- a tile -------------------------------------------------------- */

/* Pixel `at` of a line that is continued by its mirror image. */
static int mirrored(int at, int extent)
{
    const int period = extent > 1 ? 2 * (extent - 1) : 1;

    at %= period;
    return at < extent ? at : period - at;
}

/* Copies a tile; a picture that is smaller is continued. */
static void cut(const struct infer_image *from, int left, int top,
                struct infer_image *tile)
{
    const size_t channels = (size_t)from->channels;

    for (int y = 0; y < tile->height; y++) {
        const uint8_t *row =
            from->pixels + (size_t)mirrored(top + y, from->height) *
                               (size_t)from->width * channels;
        uint8_t *to = tile->pixels + (size_t)y * (size_t)tile->width * channels;

        for (int x = 0; x < tile->width; x++)
            memcpy(to + (size_t)x * channels,
                   row + (size_t)mirrored(left + x, from->width) * channels,
                   channels);
    }
}

/* Moves a pixel by `share` towards another one. */
static void mix(uint8_t *to, const uint8_t *from, int channels, double share)
{
    for (int c = 0; c < channels; c++)
        to[c] = (uint8_t)nearbyint(to[c] + share * (from[c] - to[c]));
}

/* ---- the result ---------------------------------------------------- */

/* What is made of one picture. */
struct mosaic {
    struct axis across, down;
    int times;                /* pixels of the result for one of the picture */
    struct infer_image row;   /* one row of tiles, joined */
    struct infer_image whole; /* the rows so far */
};

static void mosaic_clear(struct mosaic *m)
{
    infer_image_free(&m->row);
    infer_image_free(&m->whole);
}

/* Allocates the result when the first tile shows how large it is. */
static int mosaic_open(struct mosaic *m, const struct infer_image *tile,
                       struct infer_error *err)
{
    int rc;

    if (m->whole.pixels != NULL)
        return INFER_OK;
    m->times = tile->width / m->across.side;
    if (m->times < 1 || tile->width != m->times * m->across.side ||
        tile->height != m->times * m->down.side)
        return error_set(
            err, INFER_EUNSUPPORTED,
            "--tile: of a tile of %d x %d pixels the network makes "
            "%d x %d, no whole multiple",
            m->across.side, m->down.side, tile->width, tile->height);
    if (m->across.extent > MAX_SIDE / m->times ||
        m->down.extent > MAX_SIDE / m->times)
        return error_set(err, INFER_EUNSUPPORTED,
                         "--tile: the result has %" PRId64 " x %" PRId64
                         " pixels, at most %d a side are possible",
                         (int64_t)m->across.extent * m->times,
                         (int64_t)m->down.extent * m->times, MAX_SIDE);
    rc = image_new(m->across.extent * m->times, m->down.side * m->times,
                   tile->channels, err, &m->row);
    return rc < 0 ? rc
                  : image_new(m->across.extent * m->times,
                              m->down.extent * m->times, tile->channels, err,
                              &m->whole);
}

/* Joins the result of tile i to its row. */
static void add_tile(struct mosaic *m, int i, const struct infer_image *tile)
{
    const int left = axis_begin(&m->across, i) * m->times;
    const int channels = tile->channels;

    for (int y = 0; y < tile->height; y++)
        for (int x = 0; x < tile->width && left + x < m->row.width; x++)
            mix(m->row.pixels +
                    ((size_t)y * (size_t)m->row.width + (size_t)(left + x)) *
                        (size_t)channels,
                tile->pixels + ((size_t)y * (size_t)tile->width + (size_t)x) *
                                   (size_t)channels,
                channels, axis_share(&m->across, i, left + x, m->times));
}

/* Joins row k to those above. */
static void add_row(struct mosaic *m, int k)
{
    const int top = axis_begin(&m->down, k) * m->times;
    const int channels = m->row.channels;
    const size_t stride = (size_t)m->row.width * (size_t)channels;

    for (int y = 0; y < m->row.height && top + y < m->whole.height; y++) {
        const double share = axis_share(&m->down, k, top + y, m->times);

        for (size_t x = 0; x < stride; x += (size_t)channels)
            mix(m->whole.pixels + (size_t)(top + y) * stride + x,
                m->row.pixels + (size_t)y * stride + x, channels, share);
    }
}

/* ---- running ------------------------------------------------------- */

/* A run of --tile: buffers are kept from picture to picture. */
struct tiler {
    struct tool_run *run;
    struct infer_tensor_info info;
    struct graph_preprocess fit; /* the model's, tiles are not resized */
    struct batch b;
    int64_t limit; /* tiles a run */
};

/* The tiles of one direction of a picture. */
static int choose_axis(const struct tiler *t, int64_t stated, int extent,
                       struct infer_error *err, struct axis *out)
{
    const struct tool_request *r = t->run->request;
    int64_t side = r->tile_side, overlap = r->tile_overlap;

    if (stated > 0 && side > 0 && side != stated)
        return error_set(err, INFER_EARGUMENT,
                         "--tile=%" PRId64 ": the network takes %" PRId64
                         " pixels and no other size",
                         side, stated);
    if (stated > 0)
        side = stated;
    else if (side < 0)
        side = DEFAULT_SIDE;
    if (stated < 1 && side > extent)
        side = extent; /* the whole picture */
    if (overlap < 0)
        overlap = side / DEFAULT_OVERLAP;
    *out = axis_of(extent, (int)side,
                   (int)(overlap < side / 2 ? overlap : side / 2));
    return INFER_OK;
}

/* Writes tile `entry` of the batch into the input. */
static int load_tile(struct tiler *t, const struct infer_image *tile,
                     int64_t entry, struct infer_error *err)
{
    const int64_t hw[2] = {tile->height, tile->width};
    char *to = (char *)t->b.in.data + (size_t)entry * t->b.image_bytes;

    return t->run->pixels
               ? infer_model_fit(t->run->model, 0, tile, hw, (uint8_t *)to,
                                 t->b.image_bytes, err)
               : infer_model_preprocess(t->run->model, 0, tile, hw, (float *)to,
                                        t->b.image_bytes, err);
}

/* Runs tiles [first, first + n) of row k and joins their results. */
static int run_tiles(struct tiler *t, const struct infer_image *picture,
                     struct mosaic *m, int k, int first, int n,
                     struct infer_error *err)
{
    const int64_t hw[2] = {m->down.side, m->across.side};
    struct infer_image tile, made;
    int rc =
        image_new(m->across.side, m->down.side, picture->channels, err, &tile);

    if (rc < 0)
        return rc;
    for (int i = 0; rc == INFER_OK && i < n; i++) {
        cut(picture, axis_begin(&m->across, first + i), axis_begin(&m->down, k),
            &tile);
        rc = load_tile(t, &tile, i, err);
    }
    if (rc == INFER_OK)
        rc = infer_session_run(t->run->session, &t->b.in, 1, t->b.out.item,
                               t->b.out.count, err);
    for (int i = 0; rc == INFER_OK && i < n; i++) {
        const struct task_outputs o =
            tool_outputs(t->run, &t->b.out, hw, t->limit, i);

        /* Luminance takes the colours of its tile. */
        cut(picture, axis_begin(&m->across, first + i), axis_begin(&m->down, k),
            &tile);
        rc = task_image(&o, &t->fit, &tile, err, &made);
        if (rc < 0)
            break;
        rc = mosaic_open(m, &made, err);
        if (rc == INFER_OK)
            add_tile(m, first + i, &made);
        infer_image_free(&made);
    }
    infer_image_free(&tile);
    return rc;
}

static int run_mosaic(struct tiler *t, const struct infer_image *picture,
                      struct mosaic *m, struct infer_error *err)
{
    const int64_t hw[2] = {m->down.side, m->across.side};
    const uint64_t all = (uint64_t)m->across.count * (uint64_t)m->down.count;
    int rc = batch_reserve(t->run, &t->info, hw, t->limit, &t->b, err);

    if (rc == INFER_OK && t->run->task.kind != TASK_IMAGE)
        rc =
            error_set(err, INFER_EARGUMENT,
                      "--tile is for networks that make a picture, not for the "
                      "task %s (--task=image says that the output is one)",
                      task_words[t->run->task.kind]);
    for (int k = 0; rc == INFER_OK && k < m->down.count; k++) {
        for (int i = 0; rc == INFER_OK && i < m->across.count;
             i += (int)t->limit) {
            const int left = m->across.count - i;

            rc = run_tiles(t, picture, m, k, i,
                           left < t->limit ? left : (int)t->limit, err);
            cli_progress(t->run->cli, "tiles",
                         (uint64_t)k * (uint64_t)m->across.count + (uint64_t)i,
                         all);
        }
        if (rc == INFER_OK)
            add_row(m, k);
    }
    cli_progress_end(t->run->cli);
    return rc;
}

static int run_picture(struct tiler *t, const char *path,
                       struct infer_error *err)
{
    const uint64_t max_pixels = (uint64_t)t->run->request->max_pixels;
    struct infer_image picture = {0};
    struct tool_shown shown = {.path = path, .source = &picture};
    struct mosaic m = {.times = 0};
    int rc = reader_load(path, max_pixels, err, &picture);

    if (rc < 0)
        return rc;
    rc = choose_axis(t, t->info.dim[3], picture.width, err, &m.across);
    if (rc == INFER_OK)
        rc = choose_axis(t, t->info.dim[2], picture.height, err, &m.down);
    if (rc == INFER_OK)
        rc = run_mosaic(t, &picture, &m, err);
    if (rc == INFER_OK) {
        cli_verbose(t->run->cli, "%s: %d x %d tiles of %d x %d pixels", path,
                    m.across.count, m.down.count, m.across.side, m.down.side);
        rc = tool_show_made(t->run, &shown, &m.whole, err);
    }
    if (rc < 0)
        error_prefix(err, "%s", path);
    mosaic_clear(&m);
    infer_image_free(&picture);
    return rc;
}

int tool_run_tiles(struct tool_run *run, const struct tool_list *list,
                   struct infer_error *err)
{
    struct tiler t = {.run = run};
    int rc = tool_check_input(run->model, &t.info, err);

    if (rc < 0)
        return rc;
    t.limit = tool_batch_limit(run, &t.info);
    t.fit = *preprocess_of(model_graph(run->model), 0);
    if (t.fit.policy == GRAPH_RESIZE_SHORTER && t.fit.resize > 0)
        return error_set(err, INFER_EARGUMENT,
                         "--tile: the model resizes pictures to %d pixels "
                         "(wconv --resize=exact makes one that does not)",
                         (int)t.fit.resize);
    t.fit.policy = GRAPH_RESIZE_EXACT;
    if (run->cli->json) {
        run->result = cJSON_CreateArray();
        run->result_name = "pictures";
    }
    for (size_t i = 0; rc == INFER_OK && i < list->count; i++)
        rc = run_picture(&t, list->path[i], err);
    batch_clear(&t.b);
    return rc;
}
