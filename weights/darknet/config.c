/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Darknet's network.cfg:
 *
 *     [net]
 *     width=416
 *     # a comment
 *     [convolutional]
 *     filters = 32
 *
 * White space inside a line does not count; the first of equal keys wins.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/error.h"
#include "weights/darknet/darknet.h"

/* A section takes two bytes of text and some hundred of memory. */
#define MAX_SECTIONS 16384
#define MAX_OPTIONS  (1 << 20)

static int no_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

static int add_section(struct darknet_config *c, struct layers_text line,
                       int number, struct infer_error *err)
{
    struct darknet_section *array;

    if (line.bytes < 3 || line.data[line.bytes - 1] != ']')
        return error_set(err, INFER_EFORMAT, "line %d: '%.*s' is no [section]",
                         number, LAYERS_SHOW(line));
    if (c->n_sections == MAX_SECTIONS)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d sections",
                         MAX_SECTIONS);
    array = array_reserve(c->section, c->n_sections, &c->sections_capacity,
                          sizeof(*array));
    if (array == NULL)
        return no_memory(err);
    c->section = array;
    c->section[c->n_sections].type =
        layers_text_trim((struct layers_text){line.data + 1, line.bytes - 2});
    c->section[c->n_sections].first = c->n_options;
    c->section[c->n_sections++].n_options = 0;
    return 0;
}

static int add_option(struct darknet_config *c, struct layers_text line,
                      int number, struct infer_error *err)
{
    struct darknet_option option;
    struct darknet_option *array;

    if (c->n_sections == 0 || memchr(line.data, '=', line.bytes) == NULL)
        return error_set(err, INFER_EFORMAT,
                         "line %d: '%.*s' is no [section] and no key=value",
                         number, LAYERS_SHOW(line));
    if (c->n_options == MAX_OPTIONS)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d options",
                         MAX_OPTIONS);
    array = array_reserve(c->option, c->n_options, &c->options_capacity,
                          sizeof(*array));
    if (array == NULL)
        return no_memory(err);
    c->option = array;
    layers_text_cut(&line, '=', &option.key);
    option.key = layers_text_trim(option.key);
    option.value = layers_text_trim(line);
    c->option[c->n_options++] = option;
    c->section[c->n_sections - 1].n_options++;
    return 0;
}

/* The line without comment and white space at its ends. */
static struct layers_text clean(struct layers_text line)
{
    size_t i;

    for (i = 0; i < line.bytes; i++)
        if (line.data[i] == '#' || line.data[i] == ';')
            line.bytes = i;
    return layers_text_trim(line);
}

int darknet_config_parse(const void *text, size_t bytes,
                         struct infer_error *err, struct darknet_config *out)
{
    struct layers_text rest = {text, bytes}, line;
    int number = 0, rc = 0;

    memset(out, 0, sizeof(*out));
    while (rc == 0 && layers_text_cut(&rest, '\n', &line)) {
        number++;
        line = clean(line);
        if (line.bytes == 0)
            continue;
        rc = line.data[0] == '[' ? add_section(out, line, number, err)
                                 : add_option(out, line, number, err);
    }
    if (rc == 0 && out->n_sections < 2)
        rc = error_set(err, INFER_EFORMAT, "the network has no layers");
    if (rc < 0)
        darknet_config_clear(out);
    return rc;
}

void darknet_config_clear(struct darknet_config *config)
{
    free(config->section);
    free(config->option);
    memset(config, 0, sizeof(*config));
}

bool darknet_config_probe(const void *text, size_t bytes)
{
    struct layers_text rest = {text, bytes < 65536 ? bytes : 65536}, line;

    while (layers_text_cut(&rest, '\n', &line)) {
        line = clean(line);
        if (line.bytes > 0)
            return layers_text_is(line, "[net]") ||
                   layers_text_is(line, "[network]");
    }
    return false;
}
