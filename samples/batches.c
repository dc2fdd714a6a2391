/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many pictures: threads that share a model, each with a session of its own,
 * run batches of pictures.
 *
 *     cc batches.c $(pkg-config --cflags --libs libinfer) -lpthread -o batches
 *     ./batches digits.infer 4 8 images/?.png     # 4 threads, batches of 8
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <infer.h>

#define MAX_THREADS 64

/* What all threads share.  taken is the number of pictures that threads have
 * begun with; a mutex guards it, the rest is constant or a thread's own part.
 */
struct work {
    struct infer_model *model;
    char **path;
    int64_t *best; /* of each picture */
    int pictures, batch, taken;
    pthread_mutex_t mutex;
};

/* One thread: its session, and room for a batch. */
struct worker {
    struct work *work;
    struct infer_session *session;
    struct infer_array in;
    struct infer_error err;
    pthread_t thread;
    int rc;
};

/* Takes the next pictures: returns their number, 0 at the end. */
static int take(struct work *w, int *first)
{
    int n;

    pthread_mutex_lock(&w->mutex);
    *first = w->taken;
    n = w->pictures - w->taken < w->batch ? w->pictures - w->taken : w->batch;
    w->taken += n;
    pthread_mutex_unlock(&w->mutex);
    return n;
}

/* Reads picture i of the batch into the input array. */
static int read_picture(struct worker *t, const char *path, int i)
{
    const size_t bytes = t->in.bytes / (size_t)t->work->batch;
    struct infer_image image;
    int rc = infer_image_load(path, 0, &t->err, &image);

    if (rc < 0)
        return rc;
    rc = infer_model_preprocess(
        t->work->model, 0, &image, NULL,
        (float *)(void *)((char *)t->in.data + bytes * (size_t)i), bytes,
        &t->err);
    infer_image_free(&image);
    return rc;
}

/* Runs the first n pictures of the input array.  The output stays in the
 * session's memory, where it is read before the next run. */
static int run_batch(struct worker *t, int first, int n)
{
    struct infer_tensor in = {.dtype = INFER_F32, .rank = 4}, out = {0};
    int rc;

    for (int k = 0; k < 4; k++)
        in.dim[k] = k == 0 ? n : t->in.dim[k];
    in.data = t->in.data;
    in.bytes = t->in.bytes;
    rc = infer_session_run_tensors(t->session, &in, 1, &out, 1, &t->err);
    if (rc < 0)
        return rc;
    struct infer_array scores = {.dtype = out.dtype, .rank = out.rank};

    for (int k = 0; k < out.rank; k++)
        scores.dim[k] = out.dim[k];
    scores.data = out.data;
    scores.bytes = out.bytes;
    for (int i = 0; rc >= 0 && i < n; i++)
        rc = infer_array_top_k(&scores, i, 1, &t->work->best[first + i], NULL,
                               &t->err);
    return rc < 0 ? rc : 0;
}

static void *run_thread(void *argument)
{
    struct worker *t = argument;
    int first, n;

    while (t->rc == 0 && (n = take(t->work, &first)) > 0) {
        for (int i = 0; t->rc == 0 && i < n; i++)
            t->rc = read_picture(t, t->work->path[first + i], i);
        if (t->rc == 0)
            t->rc = run_batch(t, first, n);
    }
    return NULL;
}

/* A session of one CPU thread: the threads of this program share the cores. */
static int open_worker(struct work *w, struct worker *t)
{
    struct infer_session_options options;
    struct infer_tensor_info info;
    int rc = infer_model_input(w->model, 0, &info);

    if (rc < 0 || info.rank != 4 || info.dim[2] < 0 || info.dim[3] < 0)
        return INFER_EUNSUPPORTED; /* pictures of a fixed size alone */
    t->work = w;
    t->in.bytes = sizeof(float) * (size_t)w->batch;
    for (int k = 1; k < 4; k++) {
        t->in.dim[k] = info.dim[k];
        t->in.bytes *= (size_t)info.dim[k];
    }
    t->in.data = malloc(t->in.bytes);
    if (t->in.data == NULL)
        return INFER_EMEMORY;
    infer_session_options_init(&options);
    options.threads = 1;
    return infer_session_create(w->model, &options, &t->err, &t->session);
}

static int run_all(struct work *w, struct worker *worker, int threads)
{
    int started = 0, rc = 0;

    for (int i = 0; rc == 0 && i < threads; i++)
        rc = worker[i].rc = open_worker(w, &worker[i]);
    while (rc == 0 && started < threads &&
           pthread_create(&worker[started].thread, NULL, run_thread,
                          &worker[started]) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(worker[i].thread, NULL);
    if (rc == 0 && started == 0)
        rc = INFER_EMEMORY;
    for (int i = 0; i < threads; i++) {
        if (worker[i].rc < 0) {
            rc = worker[i].rc;
            fprintf(stderr, "batches: %s\n",
                    worker[i].err.text[0] != '\0' ? worker[i].err.text
                                                  : infer_status_name(rc));
        }
        infer_session_close(&worker[i].session);
        free(worker[i].in.data);
    }
    return rc;
}

int main(int argc, char **argv)
{
    static struct worker worker[MAX_THREADS];
    struct work w = {.batch = argc > 3 ? atoi(argv[3]) : 0,
                     .path = argv + 4,
                     .pictures = argc - 4};
    const int threads = argc > 2 ? atoi(argv[2]) : 0;
    struct infer_error err;
    int rc;

    if (argc < 5 || threads < 1 || threads > MAX_THREADS || w.batch < 1) {
        fprintf(stderr, "usage: batches MODEL THREADS BATCH PICTURE...\n");
        return 1;
    }
    if (infer_model_open(argv[1], &err, &w.model) < 0) {
        fprintf(stderr, "batches: %s\n", err.text);
        return 2;
    }
    w.best = calloc((size_t)w.pictures, sizeof *w.best);
    pthread_mutex_init(&w.mutex, NULL);
    rc = w.best == NULL ? INFER_EMEMORY : run_all(&w, worker, threads);
    for (int i = 0; rc == 0 && i < w.pictures; i++) {
        const char *label = infer_model_label(w.model, (int)w.best[i]);

        printf("%s: %s\n", w.path[i], label != NULL ? label : "?");
    }
    pthread_mutex_destroy(&w.mutex);
    free(w.best);
    infer_model_close(&w.model);
    return rc < 0 ? 2 : 0;
}
