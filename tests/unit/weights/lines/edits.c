/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tests/data with an edit, a line each: what is accepted, with the
 * shapes of the outputs or the tensors, and what is refused in which words.
 *
 *     seed_model.keras config.json 'units':~4 'units':~5
 *     seed_model.h5 - kernel cernel
 *
 * are the file, the member of its archive (-: the file itself), and pairs of
 * texts: what stands there, each time, and what takes its place.  ~ is a space,
 * ' a double quote, %0a a byte in base 16; ! at the end leaves the member out.
 */
#include "tests/unit/graph/data.h"
#include "tests/unit/weights/lines/tensors.h"
#include "weights/zip.h"

#define EDITS 4

struct edit {
    unsigned char text[2][128];
    size_t bytes[2];
};

struct edits {
    char file[64], member[64];
    struct edit edit[EDITS];
    int n;
    bool drop;
};

static size_t put_bytes(unsigned char *out, const char *p)
{
    size_t n = 0;

    for (; *p; p++) {
        unsigned value;

        if (*p == '%' && sscanf(p + 1, "%2x", &value) == 1) {
            out[n++] = (unsigned char)value;
            p += 2;
        } else {
            out[n++] = *p == '~' ? ' ' : *p == '\'' ? '"' : (unsigned char)*p;
        }
    }
    return n;
}

static void read_edits(const char *line, struct edits *l)
{
    char token[128];

    memset(l, 0, sizeof *l);
    assert_true(next_token(&line, l->file, sizeof l->file) &&
                next_token(&line, l->member, sizeof l->member));
    for (; next_token(&line, token, sizeof token); l->n++) {
        struct edit *e = &l->edit[l->n];

        if (strcmp(token, "!") == 0) {
            l->drop = true;
            break;
        }
        assert_true(l->n < EDITS);
        e->bytes[0] = put_bytes(e->text[0], token);
        assert_true(e->bytes[0] > 0 && next_token(&line, token, sizeof token));
        e->bytes[1] = put_bytes(e->text[1], token);
    }
}

/* The bytes with all edits, each of which finds its text. */
static struct maker edited(const struct edits *l, const unsigned char *data,
                           size_t bytes)
{
    struct maker m = {0};
    bool found[EDITS] = {false};

    for (size_t at = 0; at < bytes;) {
        const struct edit *e = NULL;

        for (int i = 0; i < l->n && !e; i++)
            if (l->edit[i].bytes[0] <= bytes - at &&
                memcmp(data + at, l->edit[i].text[0], l->edit[i].bytes[0]) == 0)
                e = &l->edit[i];
        if (e)
            found[e - l->edit] = true;
        if (e)
            maker_bytes(&m, e->text[1], e->bytes[1]);
        else
            maker_bytes(&m, data + at, 1);
        at += e ? e->bytes[0] : 1;
    }
    for (int i = 0; i < l->n; i++)
        assert_true(found[i]);
    return m;
}

static struct maker edited_archive(const struct edits *l,
                                   const struct data_bytes *file)
{
    struct zipfile_data data[16];
    struct maker member[16], out;
    struct zipmaker z = {0};
    struct infer_error err;
    struct zipfile zip;
    struct blob *blob = help_blob(file->data, file->bytes);

    assert_int_equal(zipfile_open(blob, &err, &zip), 0);
    assert_true(zip.count <= COUNT(data) && zipfile_find(&zip, l->member) >= 0);
    for (size_t i = 0; i < zip.count; i++) {
        const bool own = strcmp(zip.entry[i].name, l->member) == 0;
        const struct edits none = {.n = 0};

        assert_int_equal(zipfile_read(&zip, i, &err, &data[i]), 0);
        member[i] = edited(own ? l : &none, data[i].data, data[i].bytes);
        if (!own || !l->drop)
            zipmaker_add(&z, zip.entry[i].name, member[i].data,
                         member[i].bytes);
    }
    zipmaker_end(&z);
    out = z.file;
    z.file = (struct maker){0};
    for (size_t i = 0; i < zip.count; i++) {
        zipfile_data_clear(&data[i]);
        maker_clear(&member[i]);
    }
    zipmaker_clear(&z);
    zipfile_close(&zip);
    blob_unref(blob);
    return out;
}

/* The graph's outputs, or the tensors. */
static void tell(struct weights_import *import, char *said, size_t room)
{
    struct infer_error err;

    if (import->graph && graph_infer_shapes(import->graph, NULL, &err) == 0)
        shapes_of(import->graph, said, room);
    else
        tensors_of(&import->dict, said, room);
}

static const struct weights_format *format_of(const char *name,
                                              const struct maker *m)
{
    struct weights_file file = {name, help_blob(m->data, m->bytes)};
    const struct weights_format *best = NULL;
    int most = 0;

    for (size_t i = 0; i < weights_format_count(); i++) {
        const int fits = weights_format_at(i)->probe(&file);

        if (fits > most) {
            best = weights_format_at(i);
            most = fits;
        }
    }
    weights_file_close(&file);
    return best;
}

static int read_line(const char *line, char *said, size_t room)
{
    const struct weights_format *format;
    struct weights_import import;
    struct infer_error err;
    struct data_bytes file;
    struct maker m;
    char path[256];
    struct edits l;
    int rc;

    read_edits(line, &l);
    snprintf(path, sizeof path, SOURCE_DIR "/tests/data/%s", l.file);
    file = data_read(path);
    m = strcmp(l.member, "-") == 0 ? edited(&l, file.data, file.bytes)
                                   : edited_archive(&l, &file);
    format = format_of(l.file, &m);
    assert_non_null(format);
    rc = help_read(format, m.data, m.bytes, &err, &import);
    said[0] = '\0';
    if (rc == 0)
        tell(&import, said, room);
    else
        snprintf(said, room, "%s", err.text);
    weights_import_clear(&import);
    maker_clear(&m);
    free(file.data);
    return rc;
}

#define TABLE "tests/unit/weights/lines/edits.def"
#include "tests/unit/weights/importer/table.h"
