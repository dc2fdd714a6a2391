/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions, training and the exchange between GPUs on a CUDA runtime that fails
 * when asked to (standin.h): each call of CUDA, cuDNN, cuBLASLt and NCCL in
 * turn.  Needs no GPU.
 *
 * A process of its own for each fault, so that nothing is loaded or cached yet:
 *   - no crash, no call with an object that is gone;
 *   - an error has a code and a text, lack of memory is INFER_EMEMORY;
 *   - success means the results of the unharmed run, bit for bit;
 *   - after an error that is not sticky the same session runs and gives them;
 *   - what was opened is closed: no memory, stream, event or graph is left;
 *   - the work done once more, unharmed, gives the same results and leaves as
 *     many descriptors of the libraries as without the fault.
 *
 * usage: faults [SCENARIO [CALL FAULT]]
 *
 * With CALL and FAULT: one, in this process, for a debugger.  GPU_FAULTS=N:
 * faults a scenario and kind, spread over its calls (default 12);
 * GPU_FAULTS=all: each.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/infer_train.h"
#include "tests/faults/gpu/standin.h"
#include "tests/unit/runtime/network.h"
#include "tools/train/group/exchange.h"

#define MOST_RESULTS 64

/* ---- a run of a scenario ------------------------------------------- */

/* Filled by the child, in memory that it shares with its parent. */
struct report {
    long calls;
    int results;
    uint64_t result[MOST_RESULTS];
    long descriptors; /* after a second, unharmed run */
    bool failed;      /* the chosen call took place */
    char function[64];
    char verdict[512]; /* what is wrong; "": nothing */
};

static struct report *report;
static struct report clean; /* of the run without a fault */
static bool judging;        /* results are compared with those of `clean` */

#define WRONG(...)                                                             \
    do {                                                                       \
        if (!report->verdict[0])                                               \
            snprintf(report->verdict, sizeof report->verdict, __VA_ARGS__);    \
    } while (0)

/* The next result of the scenario. */
static void result(uint64_t value)
{
    const int i = report->results++;

    if (i >= MOST_RESULTS)
        abort();
    report->result[i] = value;
    if (judging && (i >= clean.results || value != clean.result[i]))
        WRONG("result %d is not that of the unharmed run", i);
}

static uint64_t hash(const void *data, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

/* Looks at an error, and says whether the call is to be tried again. */
static bool try_again(int rc, const struct infer_error *err)
{
    if (rc >= 0)
        return false;
    if (err->code != rc || !err->text[0])
        WRONG("code %d without its error: %d, \"%s\"", rc, err->code,
              err->text);
    if (!standin.failed) {
        WRONG("an error without a fault: %s", err->text);
        return false;
    }
    if (standin.fault == STANDIN_MEMORY_OUT &&
        strncmp(standin.failed, "cudaMalloc", 10) == 0 && rc != INFER_EMEMORY)
        WRONG("code %d for lack of memory", rc);
    if (standin.onward || standin.fault == STANDIN_STICKY)
        return false;
    standin.nth = 0;
    return true;
}

/* Calls CALL, and once more where it failed for a fault that is over. */
#define TWICE(CALL)                                                            \
    do {                                                                       \
        standin.trace = 1;                                                     \
        rc = (CALL);                                                           \
        if (try_again(rc, err)) {                                              \
            standin.trace = 1;                                                 \
            rc = (CALL);                                                       \
            if (rc < 0)                                                        \
                WRONG("of no use after a fault: %s", err->text);               \
        }                                                                      \
    } while (0)

/* ---- sessions ------------------------------------------------------ */

/* Channels in multiples of 64, for the kernels of tensor cores and TMA. */
static struct graph *wide_network(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int node, x, y;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 64, 16, 16));
    y = add_conv(g, &state, "a", x, 64, 128, 3, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add_conv(g, &state, "b", y, 128, 128, 3, 2, 1, -1);
    y = add_conv(g, &state, "c", y, 128, 64, 1, 1, 1, -1);
    y = add(g, GRAPH_POOL, "global", IN(y), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    y = add(g, GRAPH_FLATTEN, "flat", IN(y), NULL);
    const int w = weights(g, &state, DIMS(64, 64)),
              bias = weights(g, &state, DIMS(64));
    y = add(g, GRAPH_DENSE, "logits", IN(y, w, bias), NULL);
    y = add(g, GRAPH_SOFTMAX, "probability", IN(y), NULL);
    assert_int_equal(graph_add_output(g, y), 0);
    return g;
}

struct use {
    struct graph *(*network)(void);
    int channels;
    enum infer_backend backend;
    enum infer_precision precision;
    int tune, profile, keep, repeat;
    bool stream, tensors;
};

/* A run of a batch, on arrays of the host. */
static int run_batch(struct infer_session *s, const struct use *u,
                     int64_t batch, struct infer_error *err)
{
    uint64_t state = 7;
    struct infer_array x = array_of(&state, DIMS(batch, u->channels, 16, 16));
    float y[4 * 64];
    struct infer_array out = {.data = y, .bytes = sizeof y};
    int rc;

    /* Weights travel to the device once, at the first attempt or the second. */
    TWICE(infer_session_prepare(s, &x, 1, err));
    if (rc == 0)
        TWICE(infer_session_run(s, &x, 1, &out, 1, err));
    if (rc == 0)
        result(hash(y, out.bytes));
    free(x.data);
    return rc;
}

/* The same on device memory, which the caller owns. */
static int run_tensors(struct infer_session *s, const struct use *u,
                       struct infer_error *err)
{
    const size_t bytes = (size_t)u->channels * 16 * 16 * sizeof(float);
    void *x = standin_make(STANDIN_MEMORY, bytes);
    void *y = standin_make(STANDIN_MEMORY, 64 * sizeof(float));
    const struct infer_tensor in = {.dtype = INFER_F32,
                                    .rank = 4,
                                    .dim = {1, u->channels, 16, 16},
                                    .data = x,
                                    .bytes = bytes,
                                    .memory = INFER_MEMORY_CUDA,
                                    .device = 1};
    struct infer_tensor out = {.data = y,
                               .bytes = 64 * sizeof(float),
                               .memory = INFER_MEMORY_CUDA,
                               .device = 1};
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3; i++) {
        TWICE(infer_session_run_tensors(s, &in, 1, &out, 1, err));
        if (rc == 0)
            result(standin.trace);
    }
    standin_drop(STANDIN_MEMORY, x);
    standin_drop(STANDIN_MEMORY, y);
    return rc;
}

static int use_session(struct infer_session *s, const struct use *u,
                       struct infer_error *err)
{
    /* The first is launched step by step, the second recorded; then both again,
     * and another batch. */
    static const int64_t batch[] = {1, 1, 1, 3, 3, 1};
    double seconds[4];
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof batch / sizeof *batch; i++)
        rc = run_batch(s, u, batch[i], err);
    if (rc == 0 && u->tensors)
        rc = run_tensors(s, u, err);
    if (rc == 0 && u->repeat)
        TWICE(infer_session_repeat(s, 4, seconds, err));
    if (rc == 0 && u->keep) {
        float y[4 * 64];
        struct infer_array out = {.data = y, .bytes = sizeof y};

        TWICE(infer_session_read(s, "logits", &out, err));
        if (rc == 0)
            result(hash(y, out.bytes));
    }
    return rc;
}

static int run_sessions(const void *what, struct infer_error *err)
{
    const struct use *u = what;
    struct infer_model *model = model_of(u->network());
    void *stream = u->stream ? standin_make(STANDIN_STREAM, 1) : NULL;
    struct infer_session_options o;
    struct infer_session *s = NULL, *second = NULL;
    int rc;

    infer_session_options_init(&o);
    o.device = "cuda:1";
    o.backend = u->backend;
    o.precision = u->precision;
    o.threads = 1;
    o.tune = u->tune;
    o.tune_cache = "";
    o.profile = u->profile;
    o.keep_tensors = u->keep;
    o.stream = stream;
    TWICE(infer_session_create(model, &o, err, &s));
    if (rc == 0)
        rc = use_session(s, u, err);
    /* Another one of the model, which shares packed weights. */
    if (rc == 0)
        TWICE(infer_session_create(model, &o, err, &second));
    if (rc == 0)
        rc = run_batch(second, u, 1, err);
    infer_session_close(&s);
    infer_session_close(&second);
    infer_model_close(&model);
    if (stream)
        standin_drop(STANDIN_STREAM, stream);
    return rc;
}

/* ---- training ------------------------------------------------------ */

struct training {
    enum infer_precision precision;
    bool offload; /* within the least memory: activations go to the host */
};

/* The least memory of the network, found in the first run; shared. */
static uint64_t *least_memory;

/* Finds it by a request that is refused; calls are counted from here on. */
static void find_least(const char *arch, struct infer_train_options o)
{
    struct infer_error err = {0};
    struct infer_trainer *t = NULL;

    o.memory = 1;
    if (*least_memory > 0)
        return;
    if (infer_trainer_create(arch, &o, &err, &t) == INFER_EMEMORY) {
        const char *text = strstr(err.text, "takes ");
        *least_memory = text ? strtoull(text + 6, NULL, 10) : 0;
    }
    if (*least_memory == 0)
        WRONG("the least memory is not told: %s", err.text);
    infer_trainer_close(&t);
    standin.calls = 0;
}

static int train(struct infer_trainer *t, struct infer_error *err)
{
    static float x[4 * 3 * 32 * 32];
    const int32_t label[4] = {0, 1, 2, 3};
    struct infer_train_result r;
    int rc = 0;

    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i % 7) / 8;
    for (int i = 0; rc == 0 && i < 4; i++)
        TWICE(infer_trainer_step(t, x, label, 4, err, &r));
    return rc;
}

static int run_training(const void *what, struct infer_error *err)
{
    const struct training *u = what;
    /* Dropping and computing again is enough for the small one. */
    const char *arch =
        u->offload ? "resnet20-cifar" : SOURCE_DIR "/tests/arch/tiny.json";
    struct infer_train_options o;
    struct infer_trainer *t = NULL;
    char path[] = "/tmp/gpu-faults-XXXXXX";
    const int fd = mkstemp(path);
    int rc;

    infer_train_options_init(&o);
    o.device = "cuda";
    o.threads = 1;
    o.batch = 4;
    o.classes = 10;
    o.precision = u->precision;
    o.optimizer = INFER_OPTIMIZER_ADAM;
    o.clip = 1;
    if (u->offload) {
        find_least(arch, o);
        o.memory = *least_memory;
    }
    standin_copies[0] = standin_copies[1] = 0;
    TWICE(infer_trainer_create(arch, &o, err, &t));
    if (rc == 0)
        rc = train(t, err);
    if (rc == 0 &&
        (u->offload ? standin_copies[0] == 0 || standin_copies[1] == 0
                    : standin_copies[0] > 0))
        WRONG("%ld copies to the host and %ld back", standin_copies[0],
              standin_copies[1]);
    if (rc == 0)
        TWICE(infer_trainer_save(t, path, err));
    if (rc == 0)
        TWICE(infer_trainer_load(t, path, err));
    if (rc == 0)
        rc = train(t, err);
    infer_trainer_close(&t);
    if (fd >= 0)
        close(fd);
    unlink(path);
    return rc;
}

/* ---- several GPUs -------------------------------------------------- */

static int exchange(struct exchange *x, const struct device *d,
                    struct infer_error *err)
{
    void *memory = NULL;
    int rc;

    TWICE(d->ops->alloc(d, 1024, err, &memory));
    if (rc == 0)
        TWICE(x->ops->share(x, memory, 1024, err));
    if (rc == 0)
        TWICE(x->ops->reduce(x, memory, 256, INFER_F32, true, err));
    if (rc == 0)
        TWICE(x->ops->join(x, err));
    if (rc == 0)
        result(standin.trace);
    if (memory)
        d->ops->free(d, memory);
    return rc;
}

static int run_exchange(const void *what, struct infer_error *err)
{
    struct group g = {.size = 1, .local_size = 1};
    struct device d = {0};
    struct exchange *x = NULL;
    int rc;

    (void)what;
    TWICE(exchange_check(&g, err));
    if (rc == 0)
        TWICE(device_open("cuda", 1, NULL, err, &d));
    if (rc < 0)
        return rc;
    TWICE(exchange_open(&g, &d, err, &x));
    if (rc == 0)
        rc = exchange(x, &d, err);
    exchange_close(x);
    device_close(&d);
    return rc;
}

/* ---- scenarios ----------------------------------------------------- */

#define USE(network_, channels_, ...)                                          \
    &(const struct use)                                                        \
    {                                                                          \
        .network = network_, .channels = channels_, __VA_ARGS__                \
    }

static const struct scenario {
    const char *name;
    int (*run)(const void *what, struct infer_error *err);
    const void *what;
    /* A fault may change which kernels are chosen, or a step that is not done
     * again changes what follows: results are not compared. */
    bool varies;
    /* What cuDNN reports while it plans is a reason against a row, whatever its
     * code: an engine that cannot do a problem has many. */
    bool may_refuse;
    bool lengthy; /* a third of the faults */
} scenarios[] = {
    {.name = "plain",
     .run = run_sessions,
     .what = USE(small_network, 3, .backend = INFER_BACKEND_CUDA)},
    {.name = "half",
     .run = run_sessions,
     .what = USE(wide_network, 64, .backend = INFER_BACKEND_CUDA,
                 .precision = INFER_PRECISION_FP16, .repeat = 1)},
    {.name = "profile",
     .run = run_sessions,
     .what = USE(small_network, 3, .backend = INFER_BACKEND_CUDA, .profile = 1,
                 .keep = 1)},
    {.name = "stream",
     .run = run_sessions,
     .what = USE(small_network, 3, .backend = INFER_BACKEND_CUDA,
                 .stream = true, .tensors = true)},
    {.name = "tune",
     .run = run_sessions,
     .what = USE(small_network, 3, .backend = INFER_BACKEND_CUDA, .tune = 1),
     .varies = true},
#ifdef HAVE_CUDNN
    {.name = "cudnn",
     .run = run_sessions,
     .what = USE(small_network, 3, .backend = INFER_BACKEND_CUDNN,
                 .precision = INFER_PRECISION_FP16),
     .varies = true,
     .may_refuse = true},
#endif
    {.name = "train",
     .run = run_training,
     .what = &(const struct training){.precision = INFER_PRECISION_FP32},
     .varies = true},
    {.name = "train, half",
     .run = run_training,
     .what = &(const struct training){.precision = INFER_PRECISION_FP16},
     .varies = true},
    {.name = "train, offload",
     .run = run_training,
     .what = &(const struct training){.precision = INFER_PRECISION_FP32,
                                      .offload = true},
     .varies = true,
     .lengthy = true},
#ifdef HAVE_NCCL
    {.name = "exchange", .run = run_exchange},
#endif
};

struct fault {
    const char *name;
    enum standin_fault kind;
    bool onward;
};

static const struct fault faults[] = {
    {.name = "fails", .kind = STANDIN_PLAIN},
    {.name = "has no memory", .kind = STANDIN_MEMORY_OUT},
    {.name = "fails from then on", .kind = STANDIN_PLAIN, .onward = true},
    {.name = "loses the context", .kind = STANDIN_STICKY},
};

static void check_closed(const char *when)
{
    for (int k = 0; k < STANDIN_KINDS; k++)
        if (k != STANDIN_HANDLE && k != STANDIN_DESCRIPTOR &&
            standin.live[k] != 0)
            WRONG("%ld %s left %s", standin.live[k], standin_kinds[k], when);
    if (standin.misuses)
        WRONG("%ld calls with what is not there %s", standin.misuses, when);
}

/* The child: a run with the fault, then one without. */
static void run_child(const struct scenario *sc, long nth,
                      const struct fault *f)
{
    struct infer_error err = {0};
    int rc;

    alarm(60);
    standin.nth = nth;
    standin.fault = f->kind;
    standin.onward = f->onward;
    judging = clean.results > 0 && !sc->varies;
    rc = sc->run(sc->what, &err);
    report->failed = standin.failed != NULL;
    report->calls = standin.calls;
    if (standin.failed)
        snprintf(report->function, sizeof report->function, "%s",
                 standin.failed);
    if (rc < 0 && !standin.failed)
        WRONG("fails without a fault: %s", err.text);
    if (rc < 0 && rc != INFER_EMEMORY && rc != INFER_EDEVICE &&
        !(rc == INFER_EUNSUPPORTED && sc->may_refuse))
        WRONG("code %d: %s", rc, err.text);
    check_closed("after the fault");
    if (f->kind == STANDIN_STICKY && nth > 0)
        return;
    standin.nth = 0;
    report->results = 0;
    rc = sc->run(sc->what, &err);
    if (rc < 0)
        WRONG("the next one fails: %s", err.text);
    check_closed("after the next one");
    report->descriptors =
        standin.live[STANDIN_DESCRIPTOR] + standin.live[STANDIN_HANDLE];
    if (judging && report->descriptors != clean.descriptors)
        WRONG("%ld descriptors and handles, unharmed %ld", report->descriptors,
              clean.descriptors);
}

/* Returns 0, or 1 where something is wrong. */
static int check(const struct scenario *sc, long nth, const struct fault *f)
{
    int status;
    pid_t child;

    memset(report, 0, sizeof *report);
    fflush(NULL);
    child = fork();
    if (child < 0)
        return perror("fork"), 1;
    if (child == 0) {
        run_child(sc, nth, f);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child)
        return perror("waitpid"), 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        WRONG("the process ended with status %#x", status);
    if (!report->verdict[0])
        return 0;
    printf(
        "%s, call %ld (%s) %s: %s\n  tests/faults/gpu/faults '%s' %ld '%s'\n",
        sc->name, nth, report->function, f->name, report->verdict, sc->name,
        nth, f->name);
    return 1;
}

/* One fault in this process, for a debugger. */
static int repeat(const struct scenario *sc, long nth, const char *name)
{
    for (size_t k = 0; k < COUNT(faults); k++)
        if (strcmp(name, faults[k].name) == 0) {
            run_child(sc, nth, &faults[k]);
            printf("%s: %s\n", report->function, report->verdict);
        }
    return report->verdict[0] != 0;
}

int main(int argc, char **argv)
{
    static const struct fault none = {.name = ""};
    const char *text = getenv("GPU_FAULTS");
    const bool all = text && strcmp(text, "all") == 0;
    const long most = all ? 0 : text ? atol(text) : 12;
    long runs = 0, failed = 0;

    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    least_memory = mmap(NULL, sizeof *least_memory, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED || least_memory == MAP_FAILED)
        return perror("mmap"), 1;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        const struct scenario *sc = &scenarios[i];
        long wrong = 0, done = 0;

        if (argc > 1 && strcmp(argv[1], sc->name) != 0)
            continue;
        if (argc > 3)
            return repeat(sc, atol(argv[2]), argv[3]);
        memset(&clean, 0, sizeof clean);
        wrong += check(sc, 0, &none);
        clean = *report;
        const long few = sc->lengthy ? (most + 2) / 3 : most;
        const long step =
            all || clean.calls < most ? 1 : (clean.calls + few - 1) / few;
        for (size_t k = 0; clean.calls > 0 && k < COUNT(faults); k++)
            for (long n = 1 + (long)k % step; n <= clean.calls; n += step) {
                wrong += check(sc, n, &faults[k]);
                if (!report->failed && !sc->varies)
                    printf("%s, call %ld: does not take place\n", sc->name, n);
                done++;
            }
        printf("%s: %ld calls, %d results, %ld faults, %ld wrong\n", sc->name,
               clean.calls, clean.results, done, wrong);
        runs += done;
        failed += wrong;
    }
    printf("%ld faults, %ld failed\n", runs, failed);
    return failed > 0 || runs == 0;
}
