/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Darknet reader on one line each: what is accepted, with the shapes of the
 * outputs, and what is refused in which words.
 *
 *     [net] channels=2 height=4 width=4 [convolutional] filters=2 size=3 w38
 *
 * is a file with a section or a key on each line; w38: 38 floats of weights
 * behind a header of version 0.2.5.
 */
#include "tests/unit/weights/lines/tokens.h"
#include "weights/darknet/darknet.h"

static int read_line(const char *line, char *said, size_t room)
{
    static const unsigned char header[20] = {[4] = 2, [8] = 5};
    static unsigned char weights[20 + 4 * 4096];
    struct text net = {"", 0};
    char token[128];
    size_t floats = 0;

    while (next_token(&line, token, sizeof token)) {
        char *end = token;

        if (token[0] == 'w' && token[1] >= '0' && token[1] <= '9')
            floats = strtoul(token + 1, &end, 10);
        if (*end || end == token)
            put(&net, "%s\n", token);
    }
    assert_true(floats <= 4096);
    memcpy(weights, header, sizeof header);
    for (size_t i = 0; i < floats; i++)
        memcpy(weights + 20 + 4 * i, &(const float){0.5f}, 4);
    return read_texts(darknet_read, &net, weights, 20 + 4 * floats, said, room);
}

#define TABLE "tests/unit/weights/lines/darknet.def"
#include "tests/unit/weights/importer/table.h"
