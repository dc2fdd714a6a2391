/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of frames, as of a camera: one thread delivers frames at a fixed
 * rate into a short queue, another runs the network on them.  If the network is
 * slower than the camera the oldest frame is dropped, so that results are never
 * more than the queue behind.  The model is opened from memory.
 *
 *     cc stream.c $(pkg-config --cflags --libs libinfer) -lpthread -o stream
 *     ./stream digits.infer 30 90 images/?.png    # 30 frames/s, 90 frames
 *
 * The pictures take the camera's place, one after the other.
 */
#define _POSIX_C_SOURCE 200809L /* clock_nanosleep() */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <infer.h>

#define QUEUE 3

struct frame {
    int number;
    const struct infer_image *image; /* a camera would own a ring of these */
};

/* The mutex guards all of it; `changed` is signalled after each change. */
struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct frame frame[QUEUE];
    int first, count, dropped;
    int ended; /* no frame will follow */
};

static void put_frame(struct queue *q, struct frame frame)
{
    pthread_mutex_lock(&q->mutex);
    if (q->count == QUEUE) {
        q->first = (q->first + 1) % QUEUE;
        q->count--;
        q->dropped++;
    }
    q->frame[(q->first + q->count++) % QUEUE] = frame;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

/* Waits for a frame; 0 when the stream has ended. */
static int get_frame(struct queue *q, struct frame *out)
{
    int got;

    pthread_mutex_lock(&q->mutex);
    while (q->count == 0 && !q->ended)
        pthread_cond_wait(&q->changed, &q->mutex);
    got = q->count > 0;
    if (got) {
        *out = q->frame[q->first];
        q->first = (q->first + 1) % QUEUE;
        q->count--;
    }
    pthread_mutex_unlock(&q->mutex);
    return got;
}

static void end_stream(struct queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->ended = 1;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->mutex);
}

/* ---- the camera ---------------------------------------------------- */

struct camera {
    struct queue *queue;
    struct infer_image *image;
    int images, frames;
    double rate; /* frames a second */
};

static void *run_camera(void *argument)
{
    const struct camera *c = argument;
    struct timespec due;

    clock_gettime(CLOCK_MONOTONIC, &due);
    for (int i = 0; i < c->frames; i++) {
        put_frame(c->queue, (struct frame){i, &c->image[i % c->images]});
        due.tv_nsec += (long)(1e9 / c->rate) % 1000000000;
        due.tv_sec += (time_t)(1 / c->rate) + due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    end_stream(c->queue);
    return NULL;
}

/* ---- the network --------------------------------------------------- */

/* Runs the network on every frame that it gets; the arrays are made once. */
static int watch(const struct infer_model *model, struct infer_session *session,
                 struct queue *queue, int *seen, struct infer_error *err)
{
    struct infer_tensor_info info;
    struct infer_array in = {.dtype = INFER_F32, .rank = 4}, out = {0};
    struct frame frame;
    int64_t best;
    int rc = infer_model_input(model, 0, &info);

    if (rc < 0 || info.rank != 4 || info.dim[2] < 0 || info.dim[3] < 0)
        return INFER_EUNSUPPORTED; /* pictures of a fixed size alone */
    in.bytes = sizeof(float);
    for (int k = 0; k < 4; k++)
        in.bytes *= (size_t)(in.dim[k] = k == 0 ? 1 : info.dim[k]);
    in.data = calloc(1, in.bytes);
    rc = in.data == NULL ? INFER_EMEMORY
                         : infer_session_run(session, &in, 1, &out, 1, err);
    if (rc == 0 && (out.data = malloc(out.bytes)) == NULL)
        rc = INFER_EMEMORY;
    while (rc == 0 && get_frame(queue, &frame)) {
        rc = infer_model_preprocess(model, 0, frame.image, NULL, in.data,
                                    in.bytes, err);
        if (rc == 0)
            rc = infer_session_run(session, &in, 1, &out, 1, err);
        if (rc == 0 && infer_array_top_k(&out, 0, 1, &best, NULL, err) == 1) {
            const char *label = infer_model_label(model, (int)best);

            printf("frame %d: %s\n", frame.number, label ? label : "?");
            ++*seen;
        }
    }
    free(in.data);
    free(out.data);
    return rc;
}

/* Opens a model of a file's bytes, which free() releases when the model is
 * closed: they could as well come from a network or from the program itself. */
static int open_model(const char *path, struct infer_error *err,
                      struct infer_model **out)
{
    FILE *f = fopen(path, "rb");
    void *data = NULL;
    size_t bytes = 0;
    long end;

    if (f != NULL && fseek(f, 0, SEEK_END) == 0 && (end = ftell(f)) > 0 &&
        fseek(f, 0, SEEK_SET) == 0 && (data = malloc((size_t)end)) != NULL)
        bytes = fread(data, 1, (size_t)end, f);
    if (f != NULL)
        fclose(f);
    if (data == NULL) {
        fprintf(stderr, "stream: %s cannot be read\n", path);
        return INFER_EIO;
    }
    return infer_model_open_memory(data, bytes, free, data, err, out);
}

static int run_stream(struct camera *camera, const struct infer_model *model,
                      struct infer_session *session, struct infer_error *err)
{
    struct queue queue = {.first = 0};
    pthread_t thread;
    int seen = 0, rc;

    pthread_mutex_init(&queue.mutex, NULL);
    pthread_cond_init(&queue.changed, NULL);
    camera->queue = &queue;
    rc = pthread_create(&thread, NULL, run_camera, camera) != 0 ? INFER_EMEMORY
                                                                : 0;
    if (rc == 0) {
        rc = watch(model, session, &queue, &seen, err);
        pthread_join(thread, NULL);
        printf("%d frames, %d seen, %d dropped\n", camera->frames, seen,
               queue.dropped);
    }
    pthread_cond_destroy(&queue.changed);
    pthread_mutex_destroy(&queue.mutex);
    return rc;
}

int main(int argc, char **argv)
{
    struct infer_model *model = NULL;
    struct infer_session *session = NULL;
    struct infer_error err = {0};
    struct camera camera = {.rate = argc > 2 ? atof(argv[2]) : 0,
                            .frames = argc > 3 ? atoi(argv[3]) : 0};
    int rc;

    if (argc < 5 || !(camera.rate > 0) || camera.frames < 1) {
        fprintf(stderr, "usage: stream MODEL RATE FRAMES PICTURE...\n");
        return 1;
    }
    camera.image = calloc((size_t)argc, sizeof *camera.image);
    rc = camera.image == NULL ? INFER_EMEMORY
                              : open_model(argv[1], &err, &model);
    if (rc == 0)
        rc = infer_session_create(model, NULL, &err, &session);
    for (int i = 4; rc == 0 && i < argc; i++) {
        rc = infer_image_load(argv[i], 0, &err, &camera.image[camera.images]);
        camera.images += rc == 0;
    }
    if (rc == 0)
        rc = run_stream(&camera, model, session, &err);
    if (rc < 0)
        fprintf(stderr, "stream: %s\n",
                err.text[0] != '\0' ? err.text : infer_status_name(rc));
    while (camera.images > 0)
        infer_image_free(&camera.image[--camera.images]);
    free(camera.image);
    infer_session_close(&session);
    infer_model_close(&model);
    return rc < 0 ? 2 : 0;
}
