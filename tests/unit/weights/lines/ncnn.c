/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ncnn reader on one line each: what is accepted, with the shapes of the
 * outputs, and what is refused in which words.
 *
 *     Input >x 0=4 1=4 2=3 ; Convolution x>y 0=2 1=3 6=54 u0 f54
 *
 * is a file of two layers with their blobs and parameters.  Of the weights, u0
 * is an integer of 32 bits, f54 54 floats, h4 4 halves, b3 3 bytes.
 */
#include "tests/unit/weights/lines/tokens.h"
#include "weights/ncnn/ncnn.h"

struct filler {
    unsigned char data[16384];
    size_t n;
};

static void put_bytes(struct filler *w, const void *data, size_t n)
{
    assert_true(n <= sizeof w->data - w->n);
    memcpy(w->data + w->n, data, n);
    w->n += n;
}

/* True: the token is of the weights. */
static bool put_weights(struct filler *w, const char *token)
{
    char *end;
    const unsigned long n = strtoul(token + 1, &end, 0);

    if (!strchr("ufhb", token[0]) || *end || end == token + 1)
        return false;
    if (token[0] == 'u') {
        put_bytes(w, &(const uint32_t){(uint32_t)n}, 4);
        return true;
    }
    assert_true(n <= sizeof w->data);
    for (unsigned long i = 0; i < n; i++) {
        if (token[0] == 'f')
            put_bytes(w, &(const float){0.5f}, 4);
        else
            put_bytes(w, "\x01\x38", token[0] == 'h' ? 2 : 1);
    }
    return true;
}

/* "a,b>c": how many names and the names. */
static int put_names(struct text *t, char *names)
{
    char *save, *name;
    int n = 0;

    for (name = strtok_r(names, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        put(t, " %s", name);
        n++;
    }
    return n;
}

static int read_line(const char *line, char *said, size_t room)
{
    struct text layers = {"", 0}, net = {"", 0};
    struct filler weights = {{0}, 0};
    int n_layers = 0, n_blobs = 0;
    bool first = true;
    char token[128];

    while (next_token(&line, token, sizeof token)) {
        char *arrow = strchr(token, '>');

        if (strcmp(token, ";") == 0) {
            put(&layers, "\n");
            first = true;
        } else if (first) {
            put(&layers, "%s l%d", token, n_layers++);
            first = false;
        } else if (arrow) {
            struct text in = {"", 0}, out = {"", 0};
            int n_in, n_out;

            *arrow = '\0';
            n_in = put_names(&in, token);
            n_out = put_names(&out, arrow + 1);
            n_blobs += n_out;
            put(&layers, " %d %d%s%s", n_in, n_out, in.data, out.data);
        } else if (!put_weights(&weights, token)) {
            put(&layers, " %s", token);
        }
    }
    put(&net, "7767517\n%d %d\n%s\n", n_layers, n_blobs, layers.data);
    return read_texts(ncnn_read, &net, weights.data, weights.n, said, room);
}

#define TABLE "tests/unit/weights/lines/ncnn.def"
#include "tests/unit/weights/importer/table.h"
