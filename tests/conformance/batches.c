/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With `deterministic` an image gives the same bits alone and in any batch, at
 * any place in it, on any number of threads of a CPU.
 *
 * usage: batches [--device=cpu|cuda|cuda:N] [--precision=fp32|tf32|fp16|bf16]
 *                [--match=TEXT] only networks whose path holds the text
 *                [--free]       without `deterministic`: what differs then
 *                [FILE...]      model files (.infer) in addition
 *
 * Networks: those of the repository, and all below TEST_DATA/weights that come
 * as a graph whose batch is free.  Each of IMAGES random images is run alone on
 * one thread; what that gives is compared, bit by bit, with batches of several
 * sizes and orders on several numbers of threads.
 */
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "tests/conformance/model.h"
#include "tests/conformance/tensor.h"

#define IMAGES     5
#define MAX_INPUTS 8
#define MAX_OUT    32
/* Extent of sizes other than the batch that are free. */
#define FREE_SIZE 40
/* Seconds a network may take alone; larger ones run fewer batches. */
#define SLOW 0.5

/* Images of the largest batch. */
#define LARGEST 128

/* The images of a batch, in this order. */
struct batch {
    int n, image[LARGEST];
};

static const struct batch batches[] = {
    {5, {0, 1, 2, 3, 4}},          {3, {4, 0, 2}}, {2, {3, 1}},
    {8, {1, 1, 2, 0, 4, 3, 2, 0}}, {1, {2}},
};
static const int thread_counts[] = {1, 2, 3, 5};
/* Further batches of a GPU, which chooses kernels by how they fill it. */
static const int large[] = {37, LARGEST};

#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))

static struct infer_session_options asked;
static bool on_gpu;
static const char *match = "";
static int networks, skipped, failures;

/* One network: what its images are and what they give alone. */
struct net {
    const char *path;
    struct infer_model *model;
    int n_in, n_out;
    struct infer_tensor_info in[MAX_INPUTS];
    size_t item[MAX_INPUTS]; /* bytes of an image */
    unsigned char *pool[MAX_INPUTS];
    size_t row[MAX_OUT];
    unsigned char *alone[MAX_OUT]; /* IMAGES rows */
    bool slow;
    int compared, different;
};

/* ---- inputs -------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static uint32_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* False where a batch of such inputs means nothing here. */
static bool describe_input(struct net *n, int i)
{
    struct infer_tensor_info *t = &n->in[i];
    int64_t count = 1;

    infer_model_input(n->model, i, t);
    if (t->rank < 1 || t->dim[0] != -1 ||
        (t->dtype != INFER_F32 && t->dtype != INFER_U8))
        return false;
    for (int k = 1; k < t->rank; k++) {
        if (t->dim[k] < 0)
            t->dim[k] = FREE_SIZE;
        count *= t->dim[k];
    }
    n->item[i] = (size_t)count * infer_dtype_size(t->dtype);
    n->pool[i] = malloc(IMAGES * n->item[i]);
    for (size_t k = 0; k < IMAGES * n->item[i]; k++)
        n->pool[i][k] = (unsigned char)draw();
    if (t->dtype == INFER_F32)
        for (int64_t k = 0; k < IMAGES * count; k++)
            ((float *)(void *)n->pool[i])[k] =
                (float)draw() / 2147483648.0f - 1.0f;
    return true;
}

/* ---- runs ---------------------------------------------------------- */

static int run(const struct net *n, struct infer_session *s,
               const struct batch *b, struct infer_array *out,
               struct infer_error *err)
{
    struct infer_array in[MAX_INPUTS];
    int rc;

    memset(in, 0, sizeof in);
    for (int i = 0; i < n->n_in; i++) {
        in[i].dtype = n->in[i].dtype;
        in[i].rank = n->in[i].rank;
        memcpy(in[i].dim, n->in[i].dim, sizeof in[i].dim);
        in[i].dim[0] = b->n;
        in[i].bytes = (size_t)b->n * n->item[i];
        in[i].data = malloc(in[i].bytes);
        for (int k = 0; k < b->n; k++)
            memcpy((unsigned char *)in[i].data + (size_t)k * n->item[i],
                   n->pool[i] + (size_t)b->image[k] * n->item[i], n->item[i]);
    }
    rc = tensor_run(s, in, n->n_in, out, n->n_out, err);
    for (int i = 0; i < n->n_in; i++)
        free(in[i].data);
    return rc;
}

static void free_outputs(struct infer_array *out)
{
    for (int o = 0; o < MAX_OUT; o++)
        free(out[o].data);
    memset(out, 0, MAX_OUT * sizeof *out);
}

static int open_session(const struct net *n, int threads,
                        struct infer_session **out, struct infer_error *err)
{
    struct infer_session_options o = asked;

    o.threads = threads;
    return infer_session_create(n->model, &o, err, out);
}

/* Each image alone on one thread; false where the outputs of a batch are not
 * one an image. */
static bool run_alone(struct net *n, struct infer_error *err)
{
    struct infer_session *s = NULL;
    struct infer_array out[MAX_OUT] = {{0}};
    bool good = open_session(n, 1, &s, err) == INFER_OK;
    const clock_t start = clock();

    for (int i = 0; i < IMAGES && good; i++) {
        const struct batch one = {1, {i}};

        good = run(n, s, &one, out, err) == INFER_OK;
        for (int o = 0; o < n->n_out && good; o++) {
            good = out[o].rank > 0 && out[o].dim[0] == 1;
            n->row[o] = out[o].bytes;
            if (i == 0)
                n->alone[o] = malloc(IMAGES * out[o].bytes + 1);
            if (good)
                memcpy(n->alone[o] + (size_t)i * n->row[o], out[o].data,
                       n->row[o]);
        }
        free_outputs(out);
    }
    n->slow = (double)(clock() - start) / CLOCKS_PER_SEC / IMAGES > SLOW;
    infer_session_close(&s);
    return good;
}

static void compare(struct net *n, const struct batch *b, int threads,
                    const struct infer_array *out)
{
    for (int k = 0; k < b->n; k++) {
        bool same = true;

        for (int o = 0; o < n->n_out; o++)
            same = same && out[o].bytes == (size_t)b->n * n->row[o] &&
                   memcmp((const unsigned char *)out[o].data +
                              (size_t)k * n->row[o],
                          n->alone[o] + (size_t)b->image[k] * n->row[o],
                          n->row[o]) == 0;
        n->compared++;
        if (!same && n->different++ == 0)
            printf("       image %d at place %d of %d on %d threads: other "
                   "bits than alone\n",
                   b->image[k], k, b->n, threads);
    }
}

static int run_batch(struct net *n, struct infer_session *s, int threads,
                     const struct batch *b, struct infer_error *err)
{
    struct infer_array out[MAX_OUT] = {{0}};
    const int rc = run(n, s, b, out, err);

    if (rc == INFER_OK)
        compare(n, b, threads, out);
    free_outputs(out);
    return rc;
}

static int run_batches(struct net *n, int threads, struct infer_error *err)
{
    const int few = n->slow ? 2 : COUNT(batches);
    struct infer_session *s = NULL;
    int rc = open_session(n, threads, &s, err);

    for (int b = 0; b < few && rc == INFER_OK; b++)
        rc = run_batch(n, s, threads, &batches[b], err);
    for (int i = 0; i < COUNT(large) && on_gpu && rc == INFER_OK; i++) {
        struct batch b = {.n = large[i]};

        for (int k = 0; k < b.n; k++)
            b.image[k] = (3 * k + k / IMAGES) % IMAGES;
        rc = run_batch(n, s, threads, &b, err);
    }
    infer_session_close(&s);
    return rc;
}

/* ---- where it begins ----------------------------------------------- */

/* The first image's part of a tensor of the last run; false if the tensor has
 * none. */
static bool read_first(struct infer_session *s, const char *name, int images,
                       void **data, size_t *bytes)
{
    struct infer_array t = {0};

    *data = NULL;
    if (infer_session_read(s, name, &t, NULL) != INFER_OK || t.rank < 1 ||
        t.dim[0] != images)
        return false;
    *data = t.data = malloc(t.bytes + 1);
    *bytes = t.bytes / (size_t)images;
    return infer_session_read(s, name, &t, NULL) == INFER_OK;
}

/* Names the first tensor, in the graph's order, that an image has with other
 * bits in a batch of five.  Kept tensors may be computed by other kernels. */
static void find_first(const struct net *n)
{
    struct infer_session *s[2] = {NULL, NULL};
    const struct batch b[2] = {{1, {0}}, batches[0]};
    struct infer_error err = {0};
    bool good = true, same = true;

    asked.keep_tensors = 1;
    for (int i = 0; i < 2 && good; i++) {
        struct infer_array out[MAX_OUT] = {{0}};

        good = open_session(n, 1, &s[i], &err) == INFER_OK &&
               run(n, s[i], &b[i], out, &err) == INFER_OK;
        free_outputs(out);
    }
    asked.keep_tensors = 0;
    for (int i = 0; good && same; i++) {
        const char *name = infer_session_tensor_name(s[0], i);
        size_t bytes[2] = {0, 0};
        void *data[2] = {NULL, NULL};

        if (!name)
            break;
        if (read_first(s[0], name, 1, &data[0], &bytes[0]) &&
            read_first(s[1], name, b[1].n, &data[1], &bytes[1]))
            same =
                bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0;
        if (!same)
            printf("       it begins with %s\n", name);
        free(data[0]);
        free(data[1]);
    }
    if (good && same)
        printf("       no tensor of a session that keeps them differs\n");
    infer_session_close(&s[0]);
    infer_session_close(&s[1]);
}

/* ---- networks ------------------------------------------------------ */

static void clear(struct net *n)
{
    for (int i = 0; i < MAX_INPUTS; i++)
        free(n->pool[i]);
    for (int o = 0; o < MAX_OUT; o++)
        free(n->alone[o]);
    infer_model_close(&n->model);
}

/* Takes the model over. */
static void check_model(const char *path, struct infer_model *model)
{
    struct net n = {.path = path, .model = model};
    struct infer_error err = {0};
    bool fits;
    int rc = INFER_OK;

    n.n_in = infer_model_input_count(model);
    n.n_out = infer_model_output_count(model);
    fits =
        n.n_in > 0 && n.n_in <= MAX_INPUTS && n.n_out > 0 && n.n_out <= MAX_OUT;
    for (int i = 0; i < n.n_in && fits; i++)
        fits = describe_input(&n, i);
    if (!fits || !run_alone(&n, &err)) {
        printf("skip   %s: %s\n", path,
               err.text[0] ? err.text : "no free batch of images");
        skipped++;
        clear(&n);
        return;
    }
    for (int t = 0; t < (on_gpu ? 1 : COUNT(thread_counts)); t++)
        if (rc == INFER_OK && (!n.slow || thread_counts[t] < 3))
            rc = run_batches(&n, thread_counts[t], &err);
    if (rc < 0)
        printf("       %s\n", err.text);
    else if (n.different > 0)
        find_first(&n);
    networks++;
    failures += rc < 0 || n.different > 0;
    printf("%-6s %s: %d of %d images differ\n",
           rc < 0 || n.different > 0 ? "FAILED" : "ok", path, n.different,
           n.compared);
    fflush(stdout);
    clear(&n);
}

/* A network of the repository or of TEST_DATA; arch as in model_read(). */
static void check_file(const char *folder, const char *path, const char *arch)
{
    struct infer_model *model = NULL;
    struct infer_error err = {0};
    struct graph *g = NULL;

    if (strstr(path, match) == NULL)
        return;
    if (model_read(folder, path, arch, &g, &err) == INFER_OK && g != NULL &&
        model_optimise(g, &model, &err) == INFER_OK)
        check_model(path, model);
    graph_free(g);
}

static const struct {
    const char *path, *arch; /* below a folder "weights" */
} own[] = {
    {"../samples/digits/digits.safetensors",
     "../../samples/digits/digits.json"},
    {"../tests/data/seed_net.onnx", NULL},
    {"../tests/data/seed_model.keras", NULL},
    {"../tests/data/seed_pixels.keras", NULL},
    {"../tests/data/seed_scale.keras", NULL},
    {"../tests/data/seed_functions.keras", NULL},
    {"../tests/data/seed_net.tflite", NULL},
    {"../tests/data/seed_int8.tflite", NULL},
    {"../tests/data/seed_graph.pb", NULL},
    {"../tests/data/torch/pictures.pt2", NULL},
};

/* Bare weights of TEST_DATA that need an architecture. */
static const struct {
    const char *path, *arch;
} bare[] = {
    {"cifar10-resnet-akamaster/resnet20-12fca82f.th", "resnet20-cifar"},
    {"mnist-cnn-burn/mnist.safetensors", "mnist-cnn-burn.json"},
};

static bool is_graph(const char *name)
{
    static const char *const ends[] = {".onnx", ".keras", ".h5", ".tflite",
                                       ".pb"};
    const char *dot = strrchr(name, '.');

    for (int i = 0; i < COUNT(ends); i++)
        if (dot && strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static void check_folder(const char *folder)
{
    char root[4096];
    char *roots[] = {root, NULL};
    const size_t lead =
        (size_t)snprintf(root, sizeof root, "%s/weights", folder) + 1;
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    const FTSENT *e;

    while (fts && (e = fts_read(fts)) != NULL)
        if (e->fts_info == FTS_F && is_graph(e->fts_name))
            check_file(folder, e->fts_path + lead, NULL);
    if (fts)
        fts_close(fts);
    for (int i = 0; i < COUNT(bare); i++)
        check_file(folder, bare[i].path, bare[i].arch);
}

static void check_given(const char *path)
{
    struct infer_model *model = NULL;
    struct infer_error err = {0};

    if (infer_model_open(path, &err, &model) == INFER_OK) {
        check_model(path, model);
        return;
    }
    printf("FAILED %s\n", err.text);
    failures++;
}

static bool take_argument(const char *a)
{
    static const char *const precisions[] = {"fp32", "tf32", "fp16", "bf16"};

    for (int i = 0; i < COUNT(precisions); i++)
        if (strncmp(a, "--precision=", 12) == 0 &&
            strcmp(a + 12, precisions[i]) == 0) {
            asked.precision = (enum infer_precision)i;
            return true;
        }
    if (strncmp(a, "--device=", 9) == 0)
        asked.device = a + 9;
    else if (strncmp(a, "--match=", 8) == 0)
        match = a + 8;
    else if (strcmp(a, "--free") == 0)
        asked.deterministic = 0;
    else
        return a[0] != '-';
    return true;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("TEST_DATA");
    int given = 0;

    infer_session_options_init(&asked);
    asked.deterministic = 1;
    asked.tune = 0;
    asked.tune_cache = "";
    for (int i = 1; i < argc; i++)
        if (!take_argument(argv[i])) {
            fprintf(stderr, "batches: %s?\n", argv[i]);
            return 1;
        }
    on_gpu = model_on_gpu(&asked);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') {
            check_given(argv[i]);
            given++;
        }
    for (int i = 0; i < COUNT(own) && given == 0; i++)
        check_file(SOURCE_DIR, own[i].path, own[i].arch);
#ifdef __SANITIZE_ADDRESS__
    folder = NULL; /* bits are what this is about */
#endif
    if (given == 0 && folder)
        check_folder(folder);
    else if (given == 0)
        printf(
            "networks of the repository alone: TEST_DATA is not set, or this "
            "is a build with sanitizers\n");
    printf("%d networks, %d skipped, %d failed\n", networks, skipped, failures);
    if (networks == 0)
        return 3;
    return failures > 0 ? 3 : 0;
}
