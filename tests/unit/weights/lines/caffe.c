/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Caffe reader on one line each: what is accepted, with the shapes of the
 * outputs, and what is refused in which words.
 *
 *     x(1,3,4,4) Convolution convolution_param { num_output: 2 } w(2,3,3,3) ;
 * ReLU
 *
 * is a network with an input and two layers y1, y2, each on the top of the one
 * before it unless it names a bottom; w(...): the next blob of the layer. Words
 * are in single quotes.
 */
#include "tests/unit/weights/lines/tokens.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/caffe/caffe.h"

static void input_of(struct text *net, const char *token)
{
    struct list v;

    read_list(strchr(token, '(') + 1, &v);
    put(net, "input: \"%c\" input_shape {", token[0]);
    for (int i = 0; i < v.n; i++)
        put(net, " dim: %lld", (long long)v.integer[i]);
    put(net, " }\n");
}

static void put_blob(struct pb_message *layer, const char *token)
{
    struct pb_message blob = {0}, shape = {0};
    struct list v;
    float data[1024];
    int64_t n = 1;

    read_list(strchr(token, '(') + 1, &v);
    for (int i = 0; i < v.n; i++) {
        assert_true(v.integer[i] <= 4096);
        pb_int(&shape, 1, v.integer[i]);
        n = v.integer[i] > 0 && n <= 1024 ? n * v.integer[i] : 0;
    }
    assert_true(n <= 1024);
    for (int64_t i = 0; i < n; i++)
        data[i] = 0.5f;
    pb_nested(&blob, 7, &shape);
    pb_bytes(&blob, 5, data, (size_t)n * sizeof *data);
    pb_nested(layer, 7, &blob);
}

/* A layer's text and blobs up to the next ";". */
static void put_layer(struct text *net, struct pb_message *weights,
                      const char *type, int number, const char **line)
{
    struct pb_message layer = {0};
    struct text body = {"", 0};
    char token[128];

    pb_text(&layer, 1, "y");
    layer.data[layer.size - 1] = (unsigned char)('0' + number % 10);
    pb_text(&layer, 2, type);
    while (next_token(line, token, sizeof token) && strcmp(token, ";") != 0) {
        if (token[0] == 'w' && token[1] == '(')
            put_blob(&layer, token);
        else
            put(&body, " %s", token);
    }
    put(net, "layer { name: \"%d\" type: \"%s\"", number % 10, type);
    if (!strstr(body.data, "bottom:") && number > 1)
        put(net, " bottom: \"y%d\"", number - 1);
    else if (!strstr(body.data, "bottom:"))
        put(net, " bottom: \"x\"");
    if (!strstr(body.data, "top:"))
        put(net, " top: \"y%d\"", number);
    put(net, "%s }\n", body.data);
    pb_nested(weights, 100, &layer);
}

static int read_line(const char *line, char *said, size_t room)
{
    struct pb_message weights = {0};
    struct text net = {"", 0};
    char token[128];
    int n = 0, rc;

    pb_text(&weights, 1, "net");
    while (next_token(&line, token, sizeof token)) {
        if (token[1] == '(')
            input_of(&net, token);
        else if (token[0] >= 'A' && token[0] <= 'Z')
            put_layer(&net, &weights, token, ++n, &line);
        else
            put(&net, " %s", token);
    }
    rc = read_texts(caffe_read, &net, weights.data, weights.size, said, room);
    pb_free(&weights);
    return rc;
}

#define TABLE "tests/unit/weights/lines/caffe.def"
#include "tests/unit/weights/importer/table.h"
