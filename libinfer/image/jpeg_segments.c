/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a JPEG file, walked before libjpeg sees it.
 *
 * A file of several scans makes libjpeg hold every coefficient, 2 bytes each,
 * from the first scan on; every further scan costs some bytes and one pass over
 * the picture.  Here scans are counted before that, and a component whose DC
 * coefficients no scan gives is refused.  EXIF is read here as well, so that
 * libjpeg keeps no segments: it walks their list for each one.
 * Source: ITU-T T.81, annex B (segments), G.1.1.1 (progressive scans); CIPA
 * DC-008, 4.7.2 (EXIF in APP1).
 */
#include "libinfer/image/image_head.h"

#include <string.h>

#include "kernels/base/error.h"

/* A progressive picture of more scans than this costs more than it shows. */
#define MAX_SCANS      100
#define MAX_COMPONENTS 10 /* libjpeg's limit; a frame declares up to 255 */

enum marker {
    TEM = 0x01,
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    JPG = 0xc8,
    SOF10 = 0xca,
    DAC = 0xcc,
    SOF15 = 0xcf,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP1 = 0xe1
};

struct walk {
    const unsigned char *data;
    size_t bytes, at;
    struct infer_error *err;
    bool framed, progressive;
    int n; /* components */
    unsigned char id[MAX_COMPONENTS];
    bool begun[MAX_COMPONENTS]; /* a scan gives its DC coefficients */
    int in_first;               /* components of the first scan */
};

static unsigned read_u16(const unsigned char *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* Moves behind the next marker and returns it; -1 at the end of the file.
 * Bytes between segments, entropy-coded data among them, are passed over. */
static int next_marker(struct walk *w)
{
    while (w->at + 1 < w->bytes) {
        const unsigned char *p = w->data + w->at;

        if (p[0] != 0xff || p[1] == 0xff) {
            w->at++;
            continue;
        }
        w->at += 2;
        if (p[1] != 0 && p[1] != TEM && (p[1] < RST0 || p[1] > RST7))
            return p[1];
    }
    return -1;
}

static bool is_frame(int marker)
{
    return marker >= SOF0 && marker <= SOF15 && marker != DHT &&
           marker != JPG && marker != DAC;
}

/* p: behind the length, n bytes. */
static void read_frame(struct walk *w, int marker, const unsigned char *p,
                       size_t n, struct image_head *out)
{
    int i;

    if (n < 6 || w->framed)
        return; /* libjpeg refuses it */
    w->framed = true;
    w->progressive = marker == SOF2 || marker == SOF10;
    out->height = read_u16(p + 1);
    out->width = read_u16(p + 3);
    w->n = p[5] < MAX_COMPONENTS ? p[5] : MAX_COMPONENTS;
    out->channels = w->n == 1 ? 1 : 3;
    for (i = 0; i < w->n && 6 + 3 * (size_t)i < n; i++)
        w->id[i] = p[6 + 3 * i];
}

static void read_scan(struct walk *w, const unsigned char *p, size_t n,
                      struct image_head *out)
{
    const int count = n > 0 ? p[0] : 0;
    int i, k;

    out->scans++;
    if (n < (size_t)count * 2 + 4)
        return;
    if (out->scans == 1)
        w->in_first = count;
    /* Start of the spectrum, and the high half of the approximation: the first
     * DC scan has 0 and 0; scans of a sequential frame have all coefficients.
     */
    if (w->progressive && (p[1 + 2 * count] != 0 || p[3 + 2 * count] >> 4 != 0))
        return;
    for (i = 0; i < count; i++)
        for (k = 0; k < w->n; k++)
            if (w->id[k] == p[1 + 2 * i])
                w->begun[k] = true;
}

/* The first segment that states an orientation other than 1 says it. */
static void read_exif(const unsigned char *p, size_t n, struct image_head *out)
{
    static const char name[6] = "Exif\0";

    if (out->orientation == 1 && out->scans == 0 && n > sizeof(name) &&
        memcmp(p, name, sizeof(name)) == 0)
        out->orientation = exif_orientation(p + sizeof(name), n - sizeof(name));
}

static int check(const struct walk *w, struct image_head *out)
{
    int k;

    out->buffered = w->progressive || w->in_first < w->n;
    if (out->scans > MAX_SCANS)
        return error_set(w->err, INFER_EMEMORY,
                         "JPEG: more than %d scans: the file has %d", MAX_SCANS,
                         out->scans);
    for (k = 0; out->scans > 0 && k < w->n; k++)
        if (!w->begun[k])
            return error_set(w->err, INFER_EFORMAT,
                             "JPEG: component %d of %d has no %s scan", k + 1,
                             w->n, w->progressive ? "DC" : "own");
    return INFER_OK;
}

int jpeg_read_head(const unsigned char *data, size_t bytes,
                   struct infer_error *err, struct image_head *out)
{
    struct walk w = {.data = data, .bytes = bytes, .at = 2, .err = err};
    int marker;

    memset(out, 0, sizeof(*out));
    out->orientation = 1;
    for (;;) {
        size_t length;

        marker = next_marker(&w);
        if (marker == EOI)
            return check(&w, out);
        if (marker == SOI)
            continue; /* libjpeg refuses it */
        length = marker >= 0 && bytes - w.at >= 2 ? read_u16(data + w.at) : 0;
        if (marker < 0 || length > bytes - w.at)
            return error_set(err, INFER_EFORMAT,
                             "JPEG: the file ends too early: no end marker in "
                             "%zu bytes",
                             bytes);
        if (length < 2)
            return error_set(err, INFER_EFORMAT,
                             "JPEG: segment 0x%02x at byte %zu has a length of "
                             "%zu",
                             (unsigned)marker, w.at - 2, length);
        if (is_frame(marker))
            read_frame(&w, marker, data + w.at + 2, length - 2, out);
        else if (marker == SOS)
            read_scan(&w, data + w.at + 2, length - 2, out);
        else if (marker == APP1)
            read_exif(data + w.at + 2, length - 2, out);
        w.at += length;
    }
}
