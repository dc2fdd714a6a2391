/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures read ahead: threads decode and preprocess the next ones while the
 * network runs on those before.
 *
 * Picture i is put into slot i % ahead, so that at most `ahead` are held; a
 * thread that comes to a slot still taken waits.
 */
#include "tools/infer/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/error.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/model/model.h"

enum slot_state { EMPTY, READING, READY };

struct slot {
    enum slot_state state;
    struct reader_picture picture;
    int rc;
    struct infer_error err;
};

struct reader {
    const struct infer_model *model;
    struct infer_tensor_info info;
    const struct tool_list *list;
    struct reader_options options;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t next_read, next_out; /* picture indices */
    bool stop;
    struct slot *slot;
    size_t ahead;
    pthread_t *thread;
    int n_threads;
};

/* Most bytes that are read from a stream. */
#define MAX_STREAM ((size_t)1 << 28)

/* All of a stream, malloc()ed. */
static int read_stream(FILE *f, struct infer_error *err, unsigned char **data,
                       size_t *bytes)
{
    size_t capacity = 0;

    *data = NULL;
    *bytes = 0;
    do {
        unsigned char *more;

        if (*bytes == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            more = capacity <= MAX_STREAM ? realloc(*data, capacity) : NULL;
            if (more == NULL)
                return error_set(err, INFER_EMEMORY, "more than %zu bytes",
                                 *bytes);
            *data = more;
        }
        *bytes += fread(*data + *bytes, 1, capacity - *bytes, f);
    } while (*bytes == capacity);
    return ferror(f) ? error_set(err, INFER_EIO, "%s", strerror(errno))
                     : INFER_OK;
}

static bool is_pipe(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

int reader_load(const char *path, uint64_t max_pixels, struct infer_error *err,
                struct infer_image *out)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    unsigned char *data;
    size_t bytes;
    FILE *f;
    int rc;

    if (!is_stdin && !is_pipe(path))
        return infer_image_load(path, max_pixels, err, out);
    f = is_stdin ? stdin : fopen(path, "rb");
    if (f == NULL)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    rc = read_stream(f, err, &data, &bytes);
    if (rc == INFER_OK)
        rc = infer_image_decode(data, bytes, max_pixels, err, out);
    if (rc < 0)
        error_prefix(err, "%s", is_stdin ? "standard input" : path);
    if (!is_stdin)
        fclose(f);
    free(data);
    return rc;
}

/* Decodes one picture and prepares it. */
static int read_picture(const struct reader *r, const char *path,
                        struct reader_picture *out, struct infer_error *err)
{
    struct infer_image image = {0};
    int64_t dim[4] = {1, r->info.dim[1], 0, 0};
    int rc = reader_load(path, r->options.max_pixels, err, &image);

    if (rc < 0)
        return rc;
    preprocess_open_size(preprocess_of(model_graph(r->model), 0), &image,
                         &dim[2], &dim[3]);
    if (r->info.dim[2] > 0)
        dim[2] = r->info.dim[2];
    if (r->info.dim[3] > 0)
        dim[3] = r->info.dim[3];
    out->bytes = array_bytes(r->options.pixels ? INFER_U8 : INFER_F32, 4, dim);
    out->data = out->bytes < SIZE_MAX ? malloc(out->bytes) : NULL;
    if (out->data == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else if (r->options.pixels)
        rc = infer_model_fit(r->model, 0, &image, dim + 2, out->data,
                             out->bytes, err);
    else
        rc = infer_model_preprocess(r->model, 0, &image, dim + 2, out->data,
                                    out->bytes, err);
    if (rc < 0)
        error_prefix(err, "%s", path);
    out->hw[0] = dim[2];
    out->hw[1] = dim[3];
    out->source = image;
    if (rc < 0 || !r->options.keep) {
        infer_image_free(&image);
        out->source.pixels = NULL;
    }
    return rc;
}

static void *read_ahead(void *context)
{
    struct reader *r = context;

    pthread_mutex_lock(&r->mutex);
    while (!r->stop && r->next_read < r->list->count) {
        const size_t i = r->next_read;
        struct slot *s = &r->slot[i % r->ahead];

        if (s->state != EMPTY) {
            pthread_cond_wait(&r->changed, &r->mutex);
            continue;
        }
        r->next_read++;
        s->state = READING;
        pthread_mutex_unlock(&r->mutex);
        memset(&s->picture, 0, sizeof(s->picture));
        s->rc = read_picture(r, r->list->path[i], &s->picture, &s->err);
        pthread_mutex_lock(&r->mutex);
        s->state = READY;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

int reader_start(const struct infer_model *model, const struct tool_list *list,
                 const struct reader_options *options, struct infer_error *err,
                 struct reader **out)
{
    struct reader *r = calloc(1, sizeof(*r));
    int i;

    if (r == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    r->model = model;
    if (tool_check_input(model, &r->info, err) < 0) {
        free(r);
        return INFER_EARGUMENT;
    }
    r->list = list;
    r->options = *options;
    r->ahead = options->ahead + (size_t)options->threads;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->slot = calloc(r->ahead, sizeof(*r->slot));
    r->thread = calloc((size_t)options->threads, sizeof(*r->thread));
    for (i = 0; r->slot != NULL && r->thread != NULL && i < options->threads;
         i++) {
        if (pthread_create(&r->thread[i], NULL, read_ahead, r) != 0)
            break;
        r->n_threads++;
    }
    if (r->n_threads == 0) {
        reader_stop(r);
        return error_set(err, INFER_EMEMORY, "no thread to read pictures");
    }
    *out = r;
    return INFER_OK;
}

int reader_peek(struct reader *r, struct infer_error *err,
                struct reader_picture **out)
{
    struct slot *s = &r->slot[r->next_out % r->ahead];

    pthread_mutex_lock(&r->mutex);
    while (s->state != READY)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
    if (s->rc < 0) {
        *err = s->err;
        return s->rc;
    }
    *out = &s->picture;
    return INFER_OK;
}

void reader_drop(struct reader *r)
{
    struct slot *s = &r->slot[r->next_out % r->ahead];

    pthread_mutex_lock(&r->mutex);
    free(s->picture.data);
    infer_image_free(&s->picture.source);
    s->picture.data = NULL;
    s->state = EMPTY;
    r->next_out++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

void reader_stop(struct reader *r)
{
    size_t i;

    if (r == NULL)
        return;
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    while (r->n_threads > 0)
        pthread_join(r->thread[--r->n_threads], NULL);
    for (i = 0; r->slot != NULL && i < r->ahead; i++) {
        free(r->slot[i].picture.data);
        infer_image_free(&r->slot[i].picture.source);
    }
    free(r->slot);
    free(r->thread);
    pthread_mutex_destroy(&r->mutex);
    pthread_cond_destroy(&r->changed);
    free(r);
}
