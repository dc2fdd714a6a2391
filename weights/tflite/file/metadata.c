/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite Metadata: what a file says of pictures and classes beside
 * its network.
 *
 * The buffer that the metadata entry TFLITE_METADATA names holds a FlatBuffer
 * of its own (root table ModelMetadata): for each input how its values are
 * normalised, (x - mean) / std of a pixel x in 0 .. 255, and for each output
 * the name of a file of labels.  The files lie in a zip archive behind the
 * FlatBuffer of the network, whose offsets count from the start of the file or
 * from its own.
 *
 * The network does not depend on any of this: what is damaged, or says what a
 * model file cannot hold, is left out.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/graph/graph_json.h"
#include "weights/bytes.h"
#include "weights/tflite/tflite.h"
#include "weights/zip.h"

/* Fields of the tables, and the values of two enumerations. */
enum { MODEL_METADATA = 6 };
enum { ENTRY_NAME, ENTRY_BUFFER };
enum { MODEL_SUBGRAPHS = 3 };
enum { SUBGRAPH_INPUTS = 2, SUBGRAPH_OUTPUTS };
enum { TENSOR_CONTENT = 3, TENSOR_UNITS, TENSOR_FILES = 6 };
enum { CONTENT_TYPE, CONTENT_PROPERTIES };
enum { UNIT_TYPE, UNIT_OPTIONS };
enum { NORMAL_MEAN, NORMAL_STD };
enum { FILE_NAME, FILE_TYPE = 2, FILE_LOCALE };
enum { IMAGE_PROPERTIES = 2, COLOR_GRAY = 2, NORMALIZATION = 1 };
enum { AXIS_LABELS = 2, VALUE_LABELS = 3 };

/* Bytes of a file of labels, and labels in it. */
#define MAX_LABEL_BYTES (1 << 20)
#define MAX_LABELS      65536
/* Bytes of an archive that counts from its own start: it is copied. */
#define MAX_ARCHIVE ((size_t)16 << 20)

static bool text_is(const struct fb_vector *v, const char *word)
{
    return v->count == strlen(word) &&
           memcmp(fb_list_data(v), word, v->count) == 0;
}

/* The table of the network's metadata; false where the file has none. */
static bool open_metadata(struct tflite_model *m, struct fb *file,
                          struct fb_table *out)
{
    struct fb whole; /* apart from the network's: its damage is no matter */
    struct fb_vector list;
    struct fb_table top;

    fb_open(&whole, m->file.data, m->file.bytes);
    top = fb_root(&whole);
    list = fb_list(&top, MODEL_METADATA, 4);
    for (size_t i = 0; i < list.count; i++) {
        const struct fb_table entry = fb_list_table(&list, i);
        const struct fb_vector name = fb_list(&entry, ENTRY_NAME, 1);
        const unsigned char *data;
        struct infer_error fault;
        struct fb_vector graphs;
        struct fb_table root;
        size_t bytes;

        if (whole.damaged || !text_is(&name, "TFLITE_METADATA"))
            continue;
        if (tflite_model_buffer(m, fb_u32(&entry, ENTRY_BUFFER, 0), &fault,
                                &data, &bytes) < 0 ||
            bytes < 8 || memcmp(data + 4, "M001", 4) != 0)
            return false;
        fb_open(file, data, bytes);
        root = fb_root(file);
        graphs = fb_list(&root, MODEL_SUBGRAPHS, 4);
        if (file->damaged || graphs.count == 0)
            return false;
        *out = fb_list_table(&graphs, 0);
        return !file->damaged;
    }
    return false;
}

/* ---- pictures ------------------------------------------------------ */

/* One value for all channels, or one each; false for anything else. */
static bool channel_values(const struct fb_vector *v, int64_t channels,
                           float *out)
{
    if (v->count != 1 && v->count != (size_t)channels)
        return false;
    for (int i = 0; i < 4; i++) {
        const size_t k = v->count == 1 || i >= channels ? 0 : (size_t)i;

        out[i] = fb_list_f32(v, k);
        if (!isfinite(out[i]))
            return false;
    }
    return true;
}

static bool find_normalization(const struct fb_table *tensor, int64_t channels,
                               float *mean, float *std)
{
    const struct fb_vector units = fb_list(tensor, TENSOR_UNITS, 4);

    for (size_t i = 0; i < units.count; i++) {
        const struct fb_table unit = fb_list_table(&units, i);
        struct fb_vector means, stds;
        struct fb_table options;

        if (fb_u8(&unit, UNIT_TYPE, 0) != NORMALIZATION)
            continue;
        options = fb_sub(&unit, UNIT_OPTIONS);
        means = fb_list(&options, NORMAL_MEAN, 4);
        stds = fb_list(&options, NORMAL_STD, 4);
        if (tensor->file->damaged || !channel_values(&means, channels, mean) ||
            !channel_values(&stds, channels, std))
            return false;
        for (int k = 0; k < 4; k++)
            if (std[k] == 0)
                return false;
        return true;
    }
    return false;
}

/* Preprocessing of input i, a picture of one or three channels. */
static void set_picture(struct tflite_model *m, struct graph *g, int i,
                        const struct fb_table *tensor)
{
    const struct fb_table content = fb_sub(tensor, TENSOR_CONTENT);
    const struct graph_value *x = &g->value[g->input[i]];
    struct graph_preprocess p = graph_preprocess_default();
    struct infer_error fault;
    struct tflite_tensor t;
    int64_t channels;
    bool gray;

    if (tflite_model_tensor(m, fb_list_i32(&m->inputs, (size_t)i), &fault, &t) <
            0 ||
        t.rank != 4 || x->rank != 4 || x->dim[1] != t.dim[3])
        return;
    channels = t.dim[3];
    gray = channels == 1;
    if ((channels != 1 && channels != 3) ||
        !find_normalization(tensor, channels, p.mean, p.std))
        return;
    if (fb_u8(&content, CONTENT_TYPE, 0) == IMAGE_PROPERTIES) {
        const struct fb_table image = fb_sub(&content, CONTENT_PROPERTIES);

        if ((fb_u8(&image, 0, 0) == COLOR_GRAY) != gray)
            return;
    }
    /* Integers hold the normalised pixels divided by their scale, which are
     * the pixels again in the files of all known converters: tflite.c. */
    if (tensor->file->damaged || tflite_is_quantised(&t))
        return;
    p.present = true;
    p.policy = GRAPH_RESIZE_EXACT;
    p.color = gray ? GRAPH_GRAY : GRAPH_RGB;
    p.scale = 1;
    g->preprocess[i] = p;
}

/* Outputs, and files of an output, that are looked at. */
#define MOST_LISTED 256

/* ---- labels -------------------------------------------------------- */

/* The first file of labels that an output names, without a locale where there
 * is the choice. */
static bool find_labels(const struct fb_table *graph, struct fb_vector *out)
{
    const struct fb_vector outputs = fb_list(graph, SUBGRAPH_OUTPUTS, 4);
    bool found = false;

    for (size_t o = 0; o < outputs.count && o < MOST_LISTED; o++) {
        const struct fb_table tensor = fb_list_table(&outputs, o);
        const struct fb_vector files = fb_list(&tensor, TENSOR_FILES, 4);

        for (size_t i = 0; i < files.count && i < MOST_LISTED; i++) {
            const struct fb_table file = fb_list_table(&files, i);
            const uint8_t type = fb_u8(&file, FILE_TYPE, 0);

            if (type != AXIS_LABELS && type != VALUE_LABELS)
                continue;
            if (!found || fb_list(&file, FILE_LOCALE, 1).count == 0)
                *out = fb_list(&file, FILE_NAME, 1);
            found = true;
            if (fb_list(&file, FILE_LOCALE, 1).count == 0)
                return !graph->file->damaged;
        }
    }
    return found && !graph->file->damaged;
}

/* The archive behind the network whose offsets count from its own start, as a
 * blob; NULL where there is none. */
static struct blob *archive_of(const struct blob *blob)
{
    const size_t record = 22;
    size_t begin, size, offset;
    const unsigned char *p;
    unsigned char *copy;

    /* A file with metadata is longer. */
    p = blob->data + blob->bytes - record; /* without a comment */
    if (bytes_le32(p) != 0x06054b50)
        return NULL;
    size = bytes_le32(p + 12);
    offset = bytes_le32(p + 16);
    if (size > blob->bytes - record || offset > blob->bytes - record - size)
        return NULL;
    begin = blob->bytes - record - size - offset;
    if (begin == 0 || blob->bytes - begin > MAX_ARCHIVE)
        return NULL;
    copy = malloc(blob->bytes - begin);
    if (!copy)
        return NULL;
    memcpy(copy, blob->data + begin, blob->bytes - begin);
    return blob_new(copy, blob->bytes - begin);
}

static bool open_archive(struct blob *blob, struct zipfile *zip)
{
    struct infer_error fault;
    struct blob *own;
    int rc = zipfile_open(blob, &fault, zip);

    if (rc == 0)
        return true;
    own = archive_of(blob);
    if (!own)
        return false;
    rc = zipfile_open(own, &fault, zip);
    blob_unref(own);
    return rc == 0;
}

/* One line of text, without what ends it. */
static char *take_line(const char **at, const char *end)
{
    const char *line = *at;
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    size_t n = (size_t)((stop ? stop : end) - line);
    char *text;

    *at = stop ? stop + 1 : end;
    if (n > 0 && line[n - 1] == '\r')
        n--;
    text = malloc(n + 1);
    if (text) {
        memcpy(text, line, n);
        text[n] = '\0';
    }
    return text;
}

/* The lines of a file as the network's labels. */
static int store_labels(const struct zipfile_data *file, struct graph *g,
                        struct infer_error *err)
{
    const char *at = (const char *)file->data, *end = at + file->bytes;
    int count = 0;

    if (file->bytes == 0 || memchr(at, 0, file->bytes) ||
        !text_is_utf8(at, file->bytes))
        return 0;
    for (const char *p = at; p < end; p++)
        count += *p == '\n' || p + 1 == end;
    if (count > MAX_LABELS)
        return 0;
    g->label = calloc((size_t)count, sizeof *g->label);
    for (; g->label && at < end; g->n_labels++) {
        g->label[g->n_labels] = take_line(&at, end);
        if (!g->label[g->n_labels])
            break;
    }
    return g->n_labels == count
               ? 0
               : error_set(err, INFER_EMEMORY, "out of memory");
}

static int read_labels(struct tflite_model *m, const struct fb_vector *name,
                       struct graph *g, struct infer_error *err)
{
    struct zipfile_data file;
    struct infer_error fault;
    struct zipfile zip;
    char path[256];
    int64_t i = -1;
    int rc = 0;

    if (name->count == 0 || name->count >= sizeof path ||
        memchr(fb_list_data(name), 0, name->count) ||
        !open_archive(m->blob, &zip))
        return 0;
    memcpy(path, fb_list_data(name), name->count);
    path[name->count] = '\0';
    i = zipfile_find(&zip, path);
    if (i >= 0 && zip.entry[i].bytes <= MAX_LABEL_BYTES &&
        zipfile_read(&zip, (size_t)i, &fault, &file) == 0) {
        rc = store_labels(&file, g, err);
        zipfile_data_clear(&file);
    }
    zipfile_close(&zip);
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

int tflite_metadata_apply(struct tflite_model *m, struct graph *g,
                          struct infer_error *err)
{
    struct fb_vector inputs, name;
    struct fb_table graph;
    struct fb file;

    if (!open_metadata(m, &file, &graph))
        return 0;
    inputs = fb_list(&graph, SUBGRAPH_INPUTS, 4);
    for (size_t i = 0; i < inputs.count; i++) {
        const struct fb_table tensor = fb_list_table(&inputs, i);

        if (inputs.count == (size_t)g->n_inputs &&
            m->inputs.count == inputs.count && !file.damaged)
            set_picture(m, g, (int)i, &tensor);
    }
    if (g->n_labels > 0 || !find_labels(&graph, &name))
        return 0;
    return read_labels(m, &name, g, err);
}
