/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of two files, for the tests of their readers: reading them from
 * memory, running them on the reference backend, and comparing with values or
 * with the outputs that an independent runtime computed. */
#ifndef TESTS_UNIT_WEIGHTS_LAYERS_RUN_H
#define TESTS_UNIT_WEIGHTS_LAYERS_RUN_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/infer.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"
#include "weights/weights.h"

/* ---- bytes --------------------------------------------------------- */

/* Bytes that grow: the weights of a test's network. */
struct run_bytes {
    unsigned char *data;
    size_t bytes;
};

static inline void run_put(struct run_bytes *b, const void *data, size_t bytes)
{
    b->data = realloc(b->data, b->bytes + bytes + 1);
    assert_non_null(b->data);
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
}

static inline void run_put_u32(struct run_bytes *b, uint32_t v)
{
    const unsigned char le[4] = {(unsigned char)v, (unsigned char)(v >> 8),
                                 (unsigned char)(v >> 16),
                                 (unsigned char)(v >> 24)};

    run_put(b, le, 4);
}

static inline void run_put_floats(struct run_bytes *b, const float *v, size_t n)
{
    run_put(b, v, n * sizeof(*v));
}
#define RUN_FLOATS(b, ...)                                                     \
    run_put_floats(b, (const float[]){__VA_ARGS__},                            \
                   sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* A file of exactly these bytes, so that AddressSanitizer sees every read
 * beyond them.  data NULL: no file. */
static inline struct weights_file run_file(const void *data, size_t bytes)
{
    struct weights_file file = {NULL, NULL};
    unsigned char *copy;

    if (data == NULL)
        return file;
    if (bytes > (size_t)1 << 30)
        abort();
    copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    assert_non_null(file.blob);
    return file;
}

/* ---- reading ------------------------------------------------------- */

/* The reader of a format with its two files. */
typedef int run_reader(const struct weights_file *net,
                       const struct weights_file *weights,
                       const struct weights_options *options,
                       struct infer_error *err, struct weights_import *out);

static inline int run_read(run_reader *reader, const char *net,
                           size_t net_bytes, const struct run_bytes *weights,
                           struct infer_error *err, struct weights_import *out)
{
    struct weights_file a = run_file(net, net_bytes);
    struct weights_file b =
        run_file(weights ? weights->data : NULL, weights ? weights->bytes : 0);
    struct weights_options options;
    int rc;

    weights_options_init(&options);
    weights_import_init(out);
    err->text[0] = 0;
    rc = reader(&a, b.blob ? &b : NULL, &options, err, out);
    if (rc < 0) {
        assert_true(err->text[0] != 0);
        assert_null(out->graph);
    }
    weights_file_close(&a);
    weights_file_close(&b);
    return rc;
}

/* A network that must be fine. */
static inline struct graph *run_must_read(run_reader *reader, const char *net,
                                          const struct run_bytes *weights)
{
    struct weights_import import;
    struct infer_error err;
    struct graph *g;

    if (run_read(reader, net, strlen(net), weights, &err, &import) < 0)
        fail_msg("%s", err.text);
    g = import.graph;
    import.graph = NULL;
    weights_import_clear(&import);
    if (graph_sort(g, &err) < 0 || graph_infer_shapes(g, NULL, &err) < 0 ||
        (weights != NULL && graph_validate(g, &err) < 0))
        fail_msg("%s", err.text);
    return g;
}

/* A network that must be refused, with these words. */
static inline void run_refused(run_reader *reader, const char *net,
                               const struct run_bytes *weights, int code,
                               const char *words)
{
    struct weights_import import;
    struct infer_error err;
    const int rc = run_read(reader, net, strlen(net), weights, &err, &import);

    weights_import_clear(&import);
    if (rc != code || strstr(err.text, words) == NULL)
        fail_msg("%d '%s', expected %d '%s'", rc, rc < 0 ? err.text : "", code,
                 words);
}

/* Every prefix of the weights must be refused. */
static inline void run_truncate(run_reader *reader, const char *net,
                                const struct run_bytes *weights)
{
    struct weights_import import;
    struct infer_error err;
    struct run_bytes part = *weights;

    for (part.bytes = 0; part.bytes < weights->bytes; part.bytes++) {
        if (run_read(reader, net, strlen(net), &part, &err, &import) >= 0)
            fail_msg("accepted with %zu of %zu bytes", part.bytes,
                     weights->bytes);
        weights_import_clear(&import);
    }
}

/* Nothing may go wrong beside an error, whatever byte of either file changes
 * and wherever the network ends. */
static inline void run_damage(run_reader *reader, const char *net,
                              const struct run_bytes *weights)
{
    static const unsigned char put[] = {0, 1, 0x7f, 0x80, 0xff, '{', '-', '9'};
    struct run_bytes damaged = {NULL, 0};
    struct weights_import import;
    struct infer_error err;
    const size_t n = strlen(net);
    char *text = strdup(net);
    size_t i, k;

    assert_non_null(text);
    run_put(&damaged, weights->data, weights->bytes);
    for (i = 0; i < n + damaged.bytes; i++) {
        unsigned char *at =
            i < n ? (unsigned char *)text + i : damaged.data + (i - n);
        const unsigned char was = *at;

        for (k = 0; k < sizeof(put); k++) {
            *at = put[k];
            run_read(reader, text, n, &damaged, &err, &import);
            weights_import_clear(&import);
        }
        *at = was;
        run_read(reader, text, i < n ? i : n, weights, &err, &import);
        weights_import_clear(&import);
    }
    free(text);
    free(damaged.data);
}

/* ---- running ------------------------------------------------------- */

struct run_shape {
    int rank;
    int64_t dim[INFER_MAX_RANK];
};
/* SHAPE(1, 3, 8, 8) */
#define SHAPE(...)                                                             \
    ((struct run_shape){                                                       \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),             \
        {__VA_ARGS__}})

#define RUN_MAX_OUTPUTS 16
struct run {
    struct infer_model *model;
    struct infer_session *session;
    struct infer_array out[RUN_MAX_OUTPUTS];
    int n_out;
};

/* Runs a copy of the graph on one input. */
static inline struct run run_graph(const struct graph *g, const float *x,
                                   int rank, const int64_t *dim)
{
    struct infer_session_options options;
    struct infer_error err = {0};
    struct infer_array in = {.dtype = INFER_F32, .rank = rank};
    struct run r = {.n_out = g->n_outputs};
    size_t count = 1;
    int i;

    for (i = 0; i < rank; i++)
        count *= (size_t)dim[i];
    memcpy(in.dim, dim, (size_t)rank * sizeof(*dim));
    in.data = (void *)(uintptr_t)x;
    in.bytes = count * sizeof(*x);
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    assert_true(r.n_out <= RUN_MAX_OUTPUTS);
    if (model_from_graph(graph_copy(g), &err, &r.model) < 0 ||
        infer_session_create(r.model, &options, &err, &r.session) < 0 ||
        infer_session_run(r.session, &in, 1, r.out, r.n_out, &err) < 0)
        fail_msg("%s", err.text);
    for (i = 0; i < r.n_out; i++) {
        r.out[i].name = g->value[g->output[i]].name;
        r.out[i].data = malloc(r.out[i].bytes + 1);
        assert_non_null(r.out[i].data);
    }
    if (infer_session_run(r.session, &in, 1, r.out, r.n_out, &err) < 0)
        fail_msg("%s", err.text);
    return r;
}

static inline void run_end(struct run *r)
{
    int i;

    for (i = 0; i < r->n_out; i++)
        free(r->out[i].data);
    infer_session_close(&r->session);
    infer_model_close(&r->model);
}

/* Output 0 must be these values. */
static inline void run_expect(const struct graph *g, const float *x,
                              struct run_shape shape, const float *expected,
                              size_t n)
{
    struct run r = run_graph(g, x, shape.rank, shape.dim);
    const float *y = r.out[0].data;
    size_t i;

    if (r.out[0].bytes != n * sizeof(*y))
        fail_msg("%zu outputs, expected %zu", r.out[0].bytes / sizeof(*y), n);
    for (i = 0; i < n; i++)
        if (!(fabsf(y[i] - expected[i]) <=
              1e-5f * fmaxf(1, fabsf(expected[i]))))
            fail_msg("output %zu is %g, expected %g", i, (double)y[i],
                     (double)expected[i]);
    run_end(&r);
}
#define RUN_EXPECT(g, x, shape, ...)                                           \
    run_expect(g, x, shape, (const float[]){__VA_ARGS__},                      \
               sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* ---- recorded outputs ---------------------------------------------- */

/* numpy's default_rng(0), as far as the inputs need it: PCG64 (O'Neill, 2014)
 * seeded with SeedSequence(0), its output as bytes. */
__extension__ typedef unsigned __int128 run_u128;
struct run_random {
    run_u128 state, inc;
    uint64_t word;
    int left; /* bytes of word */
};

static inline uint32_t run_hash(uint32_t v, uint32_t *h, uint32_t mult)
{
    v ^= *h;
    *h *= mult;
    v *= *h;
    return v ^ v >> 16;
}

static inline uint64_t run_next(struct run_random *r)
{
    const run_u128 mult = (run_u128)UINT64_C(2549297995355413924) << 64 |
                          UINT64_C(4865540595714422341);
    uint64_t x;
    unsigned turn;

    r->state = r->state * mult + r->inc;
    x = (uint64_t)(r->state >> 64) ^ (uint64_t)r->state;
    turn = (unsigned)(r->state >> 122);
    return x >> turn | x << (-turn & 63);
}

static inline struct run_random run_random_zero(void)
{
    uint32_t pool[4], h = 0x43b0d7e5, word[8];
    struct run_random r = {0, 0, 0, 0};
    uint64_t v[4];
    int i, k;

    for (i = 0; i < 4; i++)
        pool[i] = run_hash(0, &h, 0x931e8875);
    for (i = 0; i < 4; i++)
        for (k = 0; k < 4; k++)
            if (i != k) {
                const uint32_t m =
                    0xca01f9dd * pool[k] -
                    0x4973f715 * run_hash(pool[i], &h, 0x931e8875);

                pool[k] = m ^ m >> 16;
            }
    h = 0x8b51f9dd;
    for (i = 0; i < 8; i++)
        word[i] = run_hash(pool[i % 4], &h, 0x58f38ded);
    for (i = 0; i < 4; i++)
        v[i] = word[2 * i] | (uint64_t)word[2 * i + 1] << 32;
    r.inc = ((run_u128)v[2] << 64 | v[3]) << 1 | 1;
    run_next(&r);
    r.state += (run_u128)v[0] << 64 | v[1];
    run_next(&r);
    return r;
}

static inline unsigned run_byte(struct run_random *r)
{
    unsigned b;

    if (r->left == 0) {
        r->word = run_next(r);
        r->left = 8;
    }
    b = (unsigned)(r->word & 0xff);
    r->word >>= 8;
    r->left--;
    return b;
}

/* TEST_DATA/weights-formats/name, or skips the test. */
static inline const char *run_data(char *path, size_t bytes, const char *name)
{
    const char *folder = getenv("TEST_DATA");

    if (!folder) {
        print_message("TEST_DATA is not set: skipped\n");
        skip();
    }
    snprintf(path, bytes, "%s/weights-formats/%s", folder, name);
    return path;
}

/* The case of this id in reference.json. */
static inline const cJSON *run_case(const cJSON *all, const char *id)
{
    const cJSON *c;

    cJSON_ArrayForEach(c, json_member(all, "results"))
    {
        const char *name = json_string(c, "id");

        if (name != NULL && strcmp(name, id) == 0)
            return c;
    }
    fail_msg("reference.json has no case '%s'", id);
    return NULL;
}

/* The case's only input, random bytes times scale plus offset. */
static inline float *run_case_input(const cJSON *c, int *rank, int64_t *dim)
{
    const cJSON *input = json_member(c, "inputs")->child, *d;
    const float scale = (float)json_double(input, "scale", 1);
    const float offset = (float)json_double(input, "offset", 0);
    struct run_random random = run_random_zero();
    size_t n = 1, i;
    float *x;

    assert_string_equal(json_string(input, "kind"), "uint8");
    *rank = 0;
    cJSON_ArrayForEach(d, json_member(input, "shape"))
    {
        dim[*rank] = (int64_t)d->valuedouble;
        n *= (size_t)dim[(*rank)++];
    }
    x = malloc(n * sizeof(*x));
    assert_non_null(x);
    for (i = 0; i < n; i++) {
        const float product = (float)run_byte(&random) * scale;

        x[i] = product + offset;
    }
    return x;
}

/* Largest difference of an output from the recorded values, of the largest of
 * them.  Shapes may differ by dimensions of size 1. */
static inline double run_case_difference(const struct infer_array *out,
                                         const cJSON *result)
{
    const double min = json_double(result, "min", 0);
    const double max = json_double(result, "max", 0);
    const double largest = fmax(fabs(min), fabs(max));
    const cJSON *values = json_member(result, "values"), *v;
    const size_t n = out->bytes / sizeof(float);
    const float *y = out->data;
    double worst = 0, count = 1;
    size_t i = 0, top = 0;

    cJSON_ArrayForEach(v, json_member(result, "shape")) count *= v->valuedouble;
    if ((double)n != count)
        fail_msg("'%s' has %zu elements, %g are recorded", out->name, n, count);
    cJSON_ArrayForEach(v, values)
    {
        const size_t at = n <= 64 ? i : i * (n - 1) / 63;

        worst = fmax(worst, fabs((double)y[at] - v->valuedouble));
        i++;
    }
    assert_true(i > 0);
    for (i = 0; i < n; i++) {
        if (!isfinite(y[i]))
            return INFINITY;
        if (y[i] > y[top])
            top = i;
    }
    worst = fmax(worst, fabs((double)y[top] - max));
    return worst / largest;
}

/* Runs TEST_DATA's case `id`, whose file is read from `path`.  Outputs are
 * those of `names`: recorded name, name in the graph; NULL at the end.
 * epsilon: of every batch norm, or negative.  Returns the largest relative
 * difference. */
static inline double run_recorded(const char *id, const char *file,
                                  const char *const *names, double epsilon)
{
    struct weights_options options;
    struct weights_input_shape shape = {NULL, 0, {0}};
    struct weights_import import;
    struct infer_error err = {0};
    char path[4096];
    double worst = 0;
    cJSON *all = NULL;
    void *text;
    size_t bytes;
    int i, k;

    run_data(path, sizeof(path), "reference.json");
    if (file_read_all(path, 1 << 26, &err, &text, &bytes) < 0 ||
        json_parse(text, bytes, false, &err, &all) < 0)
        fail_msg("%s", err.text);
    free(text);
    const cJSON *c = run_case(all, id);
    float *x = run_case_input(c, &shape.rank, shape.dim);
    weights_options_init(&options);
    options.input_shape = &shape;
    options.input_count = 1;
    run_data(path, sizeof(path), file);
    if (weights_read(path, &options, &err, &import) < 0 ||
        graph_compact(import.graph, &err) < 0 ||
        graph_validate(import.graph, &err) < 0)
        fail_msg("%s", err.text);
    for (i = 0; epsilon >= 0 && i < import.graph->n_nodes; i++)
        if (import.graph->node[i].op == GRAPH_BATCH_NORM)
            import.graph->node[i].attr.norm.epsilon = (float)epsilon;
    struct run r = run_graph(import.graph, x, shape.rank, shape.dim);
    for (; names[0] != NULL; names += 2) {
        for (k = 0; k < r.n_out && strcmp(r.out[k].name, names[1]) != 0; k++)
            ;
        if (k == r.n_out)
            fail_msg("%s: no output '%s'", path, names[1]);
        const double d = run_case_difference(
            &r.out[k], json_member(json_member(c, "results"), names[0]));
        if (!(d <= worst))
            worst = d;
    }
    run_end(&r);
    free(x);
    weights_import_clear(&import);
    cJSON_Delete(all);
    print_message("%s: %.2g of the largest output\n", id, worst);
    return worst;
}

#endif
