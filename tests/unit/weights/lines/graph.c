/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as JSON, a line each: what is accepted, with the shapes of the
 * outputs, and what is refused in which words.
 *
 *     x(1,3,4,4) w{2,3,3,3} conv x w stride=[2,2] act:{'kind':'relu'} ; softmax
 *
 * is an architecture file with an input, a weight and two nodes n1, n2, whose
 * outputs are y1, y2 unless `>a,b` names others.  key=value: an attribute;
 * key:value: a member of the node, of the input before it, or, after !, of the
 * graph; all else names the node's inputs, the output of the node before it
 * where there are none, - for an absent one.  x(1,3):I64 has that type.  Values
 * are JSON with single quotes.  " apart" behind the shapes: the images of a
 * batch are independent.
 */
#include "libinfer/graph/model_file.h"
#include "tests/unit/weights/lines/tokens.h"

/* Members of an object with `,` between them. */
static void put_member(struct text *t, const char *token, const char *end)
{
    put(t, "%s\"%.*s\":", t->bytes ? "," : "", (int)(end - token), token);
    for (const char *p = end + 1; *p; p++)
        put(t, "%c", *p == '\'' ? '"' : *p);
}

/* Names between commas, as strings; - is null. */
static void put_names(struct text *t, char *names)
{
    char *save, *name;

    for (name = strtok_r(names, ",", &save); name;
         name = strtok_r(NULL, ",", &save)) {
        const char *quote = strcmp(name, "-") == 0 ? "" : "\"";

        put(t, "%s%s%s%s", t->bytes ? "," : "", quote, *quote ? name : "null",
            quote);
    }
}

/* Name, shape and type: x(1,3):I64 or w{2,3}. */
static void put_tensor(struct text *t, const char *open)
{
    const size_t n = strcspn(open + 1, ")}");
    const char *colon = strchr(open, ':');

    put(t, "\"shape\":[%.*s],\"dtype\":\"%s\"", (int)n, open + 1,
        colon ? colon + 1 : "F32");
}

struct node {
    struct text in, out, attr, more;
};

static void put_node(struct text *nodes, const char *op, int number,
                     const char **line, struct text *graph)
{
    struct node n = {0};
    char token[128];

    while (next_token(line, token, sizeof token) && strcmp(token, ";") != 0) {
        const size_t word =
            strspn(token, "abcdefghijklmnopqrstuvwxyz_0123456789");

        if (token[0] == '!' && strchr(token, ':'))
            put_member(graph, token + 1, strchr(token, ':'));
        else if (token[0] == '>')
            put_names(&n.out, token + 1);
        else if (word > 0 && token[word] == '=')
            put_member(&n.attr, token, token + word);
        else if (word > 0 && token[word] == ':')
            put_member(&n.more, token, token + word);
        else
            put_names(&n.in, token);
    }
    if (n.in.bytes == 0 && number > 1)
        put(&n.in, "\"y%d\"", number - 1);
    else if (n.in.bytes == 0)
        put(&n.in, "\"x\"");
    if (n.out.bytes == 0)
        put(&n.out, "\"y%d\"", number);
    put(nodes,
        "%s{\"name\":\"n%d\",\"op\":\"%s\",\"in\":[%s],\"out\":[%s]"
        "%s%s%s%s%s}",
        nodes->bytes ? "," : "", number, op, n.in.data, n.out.data,
        n.attr.bytes ? ",\"attr\":{" : "", n.attr.data, n.attr.bytes ? "}" : "",
        n.more.bytes ? "," : "", n.more.data);
}

static void put_graph(struct text *t, const char *line)
{
    struct text inputs = {"", 0}, weights = {"", 0}, nodes = {"", 0},
                more = {"", 0};
    char token[128];
    int n = 0;

    while (next_token(&line, token, sizeof token)) {
        char *open = strpbrk(token, "({"), *colon = strchr(token, ':');

        if (token[0] == '!' && colon) {
            put_member(&more, token + 1, colon);
        } else if (open && *open == '(' && open > token) {
            put(&inputs, "%s{\"name\":\"%.*s\",", inputs.bytes ? "}," : "",
                (int)(open - token), token);
            put_tensor(&inputs, open);
        } else if (open && open > token && colon != open - 1) {
            put(&weights, "%s\"%.*s\":{", weights.bytes ? "}," : "",
                (int)(open - token), token);
            put_tensor(&weights, open);
        } else if (colon) {
            put(&inputs, ",");
            put(&inputs, "\"%.*s\":", (int)(colon - token), token);
            for (const char *p = colon + 1; *p; p++)
                put(&inputs, "%c", *p == '\'' ? '"' : *p);
        } else {
            put_node(&nodes, token, ++n, &line, &more);
        }
    }
    put(t, "{\"infer\":1,\"inputs\":[%s%s],\"nodes\":[%s]", inputs.data,
        inputs.bytes ? "}" : "", nodes.data);
    if (weights.bytes)
        put(t, ",\"weights\":{%s}}", weights.data);
    if (!strstr(more.data, "\"outputs\""))
        put(t, ",\"outputs\":[\"y%d\"]", n);
    put(t, "%s%s}", more.bytes ? "," : "", more.data);
}

/* Whether images are independent, by copies of the graph of two batches. */
static bool is_separable(const struct graph *g)
{
    struct graph *copy[2] = {graph_copy(g), graph_copy(g)};
    bool apart = true;

    for (int i = 0; i < 2; i++) {
        struct graph_shape *shape =
            calloc((size_t)g->n_inputs + 1, sizeof *shape);

        assert_true(copy[i] && shape);
        for (int k = 0; k < g->n_inputs; k++) {
            const struct graph_value *v = &g->value[g->input[k]];

            shape[k].rank = v->rank;
            for (int d = 0; d < v->rank; d++)
                shape[k].dim[d] = d == 0          ? 2 + 2 * i
                                  : v->dim[d] < 0 ? 8
                                                  : v->dim[d];
            apart &= v->rank > 0 && v->dim[0] < 0;
        }
        if (apart)
            apart = graph_infer_shapes(copy[i], shape, NULL) == 0;
        free(shape);
    }
    if (apart)
        apart = graph_separable(copy[1], copy[0]) == 1;
    graph_free(copy[0]);
    graph_free(copy[1]);
    return apart;
}

static int read_line(const char *line, char *said, size_t room)
{
    struct text net = {"", 0};
    struct infer_error err = {0};
    struct graph *g = NULL;
    int rc;

    put_graph(&net, line);
    memory_faults_on();
    rc = model_file_parse_arch(net.data, net.bytes, &err, &g);
    memory_faults_off();
    if (rc == 0)
        rc = graph_infer_shapes(g, NULL, &err);
    if (rc == 0) {
        shapes_of(g, said, room);
        if (is_separable(g))
            snprintf(said + strlen(said), room - strlen(said), " apart");
    } else {
        snprintf(said, room, "%s", err.text);
    }
    graph_free(g);
    return rc;
}

#define TABLE "tests/unit/weights/lines/graph.def"
#include "tests/unit/weights/importer/table.h"
