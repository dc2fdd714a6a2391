/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Keras reader on one line each: what is accepted, with the shapes of the
 * outputs, and what is refused in which words.
 *
 *     (6,5,4) Conv2D filters=3 kernel_size=[3,3] ; Add [x0,y1] axis:1
 *
 * is a network with an input x0 (more of them: x1, ...) and two layers y1, y2,
 * whose configuration and arguments are JSON without spaces and with single
 * quotes.  key=value: the configuration; key:value: an argument by name; all
 * else: an argument by place, the output of the layer before it where there is
 * none; n[1,2]: an array.  w(3,3,4,3): the next variable of the layers, all
 * 0.5. `major=2` first: the version of Keras.
 */
#include "kernels/base/json.h"
#include "tests/unit/weights/lines/tokens.h"
#include "weights/keras/keras.h"

static void put_tensor(struct text *t, char kind, int number)
{
    put(t,
        "{\"class_name\":\"__keras_tensor__\",\"config\":{\"keras_history\":"
        "[\"%c%d\",0,0]}}",
        kind, number);
}

/* JSON of a value: 'a' is "a", x0 and y1 are tensors, n[1] is an array. */
static void put_value(struct text *t, const char *p)
{
    bool quoted = false;

    for (; *p; p++) {
        if (*p == '\'')
            quoted = !quoted;
        if (!quoted && (*p == 'x' || *p == 'y') && p[1] >= '0' && p[1] <= '9') {
            put_tensor(t, *p, p[1] - '0');
            p++;
        } else if (!quoted && *p == 'n' && p[1] == '[') {
            put(t, "{\"class_name\":\"__numpy__\",\"config\":{\"value\":%s}}",
                p + 1);
            return;
        } else {
            put(t, "%c", *p == '\'' ? '"' : *p);
        }
    }
}

/* "key" in the token, which ends at `end`, then the value behind it. */
static void put_member(struct text *t, const char *token, const char *end)
{
    put(t, "%s\"%.*s\":", t->bytes ? "," : "", (int)(end - token), token);
    put_value(t, end + 1);
}

/* The variables of a line. */
struct tensors {
    struct constant *c[24];
    int n, used;
};

static void add_tensor(struct tensors *w, const char *token)
{
    struct list v;
    struct constant *c;

    read_list(strchr(token, '(') + 1, &v);
    assert_true(v.n <= INFER_MAX_RANK && w->n < (int)COUNT(w->c));
    for (int i = 0; i < v.n; i++)
        assert_true(v.integer[i] >= 0 && v.integer[i] <= 4096);
    c = constant_new(INFER_F32, v.n, v.integer);
    assert_non_null(c);
    for (int64_t i = 0; i < constant_count(c); i++)
        ((float *)c->data)[i] = 0.5f;
    w->c[w->n++] = c;
}

/* Gives the variables of a layer, and of those that it applies, their values.
 * Those of a mean and a variance are in the layer's configuration. */
static void fill(struct keras_layer *l, struct tensors *w)
{
    for (int i = 0; i < l->n_variables; i++) {
        assert_true(w->used < w->n);
        l->variable[i].data = constant_ref(w->c[w->used++]);
    }
    for (int i = 0; i < l->n_inner; i++)
        fill(&l->inner[i], w);
}

static void put_layer(struct text *net, const char *class, int number,
                      const char **line, struct tensors *w)
{
    struct text config = {"", 0}, args = {"", 0}, kwargs = {"", 0};
    char token[128];

    while (next_token(line, token, sizeof token) && strcmp(token, ";") != 0) {
        const size_t word =
            strspn(token, "abcdefghijklmnopqrstuvwxyz_0123456789"
                          "WH");

        if (strncmp(token, "w(", 2) == 0) {
            add_tensor(w, token);
        } else if (word > 0 && token[word] == '=') {
            put_member(&config, token, token + word);
        } else if (word > 0 && token[word] == ':') {
            put_member(&kwargs, token, token + word);
        } else {
            put(&args, "%s", args.bytes ? "," : "");
            put_value(&args, token);
        }
    }
    if (args.bytes == 0)
        put_tensor(&args, number > 1 ? 'y' : 'x', number > 1 ? number - 1 : 0);
    put(net,
        ",{\"class_name\":\"%s\",\"name\":\"y%d\",\"config\":{\"name\":\"y%d\""
        "%s%s},\"inbound_nodes\":[{\"args\":[%s],\"kwargs\":{%s}}]}",
        class, number, number, config.bytes ? "," : "", config.data, args.data,
        kwargs.data);
}

/* The JSON of a line. */
static void put_network(struct text *net, const char *line, int *major,
                        struct tensors *w)
{
    struct text layers = {"", 0}, inputs = {"", 0};
    int n_inputs = 0, n_layers = 0;
    char token[128];

    while (next_token(&line, token, sizeof token)) {
        if (token[0] == '(') {
            token[strcspn(token, ")")] = '\0';
            put(&layers,
                "%s{\"class_name\":\"InputLayer\",\"name\":\"x%d\",\"config\":"
                "{\"name\":\"x%d\",\"batch_shape\":[null%s%s]},"
                "\"inbound_nodes\":[]}",
                n_inputs ? "," : "", n_inputs, n_inputs, token[1] ? "," : "",
                token + 1);
            put(&inputs, "%s[\"x%d\",0,0]", n_inputs ? "," : "", n_inputs);
            n_inputs++;
        } else if (token[0] >= 'A' && token[0] <= 'Z') {
            put_layer(&layers, token, ++n_layers, &line, w);
        } else {
            sscanf(token, "major=%d", major);
        }
    }
    put(net,
        "{\"class_name\":\"Functional\",\"config\":{\"name\":\"m\",\"layers\":"
        "[%s],\"input_layers\":[%s],\"output_layers\":[[\"y%d\",0,0]]}}",
        layers.data, inputs.data, n_layers);
}

static int read_line(const char *line, char *said, size_t room)
{
    struct keras_model *model = NULL;
    struct infer_error err = {0};
    struct text net = {"", 0};
    struct tensors w = {{NULL}, 0, 0};
    cJSON *json = NULL;
    int rc, major = 3;

    put_network(&net, line, &major, &w);
    memory_faults_on();
    rc = json_parse(net.data, net.bytes, true, &err, &json);
    if (rc == 0)
        rc = keras_model_parse(json, &err, &model);
    memory_faults_off();
    said[0] = '\0';
    if (rc == 0) {
        struct keras_emit k = {.g = graph_new(), .err = &err, .major = major};

        assert_non_null(k.g);
        if (keras_name_variables(&k, model) == 0) {
            for (int i = 0; i < model->n_layers; i++)
                fill(&model->layer[i], &w);
            memory_faults_on();
            keras_emit_model(&k, model);
            memory_faults_off();
        }
        rc = k.status < 0 ? k.status : graph_infer_shapes(k.g, NULL, &err);
        if (rc == 0)
            shapes_of(k.g, said, room);
        graph_free(k.g);
    }
    if (rc < 0)
        snprintf(said, room, "%s", err.text);
    for (int i = 0; i < w.n; i++)
        constant_unref(w.c[i]);
    keras_model_free(model);
    cJSON_Delete(json);
    return rc;
}

#define TABLE "tests/unit/weights/lines/keras.def"
#include "tests/unit/weights/importer/table.h"
