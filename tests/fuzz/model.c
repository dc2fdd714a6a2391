/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a model file, whose checksums are repaired, is opened and run on
 * the reference within a budget.  What opens and runs within it must not fail
 * for want of memory, and nothing may be read out of bounds. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "libinfer/graph/constant.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/model/model.h"
#include "tests/fuzz/fuzz.h"

#define MAX_ARRAYS 8
#define MAX_MEMORY ((uint64_t)16 << 20)
#define MAX_WORK   3e7

/* Length and CRC of the header. */
static void repair(unsigned char *data, size_t size)
{
    static const char key[] = "\"infer.header_crc32\":\"";
    unsigned char *at;
    uint64_t n = 0;
    char hex[16];

    for (int i = 0; i < 8 && size >= 8; i++)
        n |= (uint64_t)data[i] << 8 * i;
    if (size < 8 || n > size - 8)
        return;
    at = memmem(data + 8, n, key, sizeof key - 1);
    if (!at || (size_t)(data + 8 + n - at) < sizeof key + 8)
        return;
    at += sizeof key - 1;
    memcpy(at, "00000000", 8);
    snprintf(hex, sizeof hex, "%08lx", crc32(0, data + 8, (uInt)n));
    memcpy(at, hex, 8);
}

/* CRCs of the tensors. */
static void repair_tensors(struct graph *g)
{
    struct infer_error err;

    for (int i = 0; i < g->n_values; i++) {
        struct constant *c = g->value[i].data;
        unsigned char *bytes;

        if (!c || !c->source)
            continue;
        bytes = malloc(c->bytes + 1);
        if (bytes &&
            file_source_read(c->source, c->offset, bytes, c->bytes, &err) == 0)
            c->crc = (uint32_t)crc32(0, bytes, (uInt)c->bytes);
        free(bytes);
    }
}

/* An array of this shape with free sizes set; false if it is too large. */
static bool make_array(const struct infer_tensor_info *t, struct infer_array *a)
{
    double bytes = (double)infer_dtype_size(t->dtype);

    memset(a, 0, sizeof *a);
    a->dtype = t->dtype;
    a->rank = t->rank < 0 ? 0 : t->rank;
    for (int i = 0; i < a->rank; i++) {
        a->dim[i] = t->dim[i] >= 0 ? t->dim[i] : i ? 5 : 2;
        bytes *= (double)a->dim[i];
    }
    if (!(bytes < (double)MAX_MEMORY))
        return false;
    a->bytes = (size_t)bytes;
    a->data = calloc(1, a->bytes + 1);
    return a->data != NULL;
}

static void run(const struct infer_model *model, struct infer_session *s)
{
    const int n_in = infer_model_input_count(model);
    const int n_out = infer_model_output_count(model);
    struct infer_array in[MAX_ARRAYS] = {{0}}, out[MAX_ARRAYS] = {{0}};
    struct infer_tensor_info t;
    struct infer_error err;
    bool fits = n_in <= MAX_ARRAYS && n_out <= MAX_ARRAYS;
    int i;

    for (i = 0; fits && i < n_in; i++)
        fits = infer_model_input(model, i, &t) == 0 && make_array(&t, &in[i]);
    fits = fits && infer_session_prepare(s, in, n_in, &err) == 0;
    for (i = 0; fits && i < n_out; i++)
        fits = infer_session_output(s, i, &t) == 0 && make_array(&t, &out[i]);
    if (fits)
        (void)infer_session_run(s, in, n_in, out, n_out, &err);
    for (i = 0; i < MAX_ARRAYS; i++) {
        free(in[i].data);
        free(out[i].data);
    }
}

static void open_model(const char *path, bool keep)
{
    struct infer_session_options o;
    struct infer_model *model = NULL;
    struct infer_session *s = NULL;
    struct infer_error err;
    struct graph *g;

    if (model_file_read(path, &err, &g) < 0)
        return;
    repair_tensors(g);
    infer_session_options_init(&o);
    o.backend = INFER_BACKEND_REF;
    o.tune_cache = "";
    o.threads = 1;
    o.keep_tensors = keep;
    o.max_memory = MAX_MEMORY;
    o.max_work = MAX_WORK;
    if (model_from_graph(g, &err, &model) == 0 &&
        infer_session_create(model, &o, &err, &s) == 0)
        run(model, s);
    infer_session_close(&s);
    infer_model_close(&model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size + 1);
    const int fd = memfd_create("model", MFD_CLOEXEC);
    char path[64];

    if (!copy || fd < 0)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    repair(copy, size);
    if (write(fd, copy, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_model(path, size & 1);
    close(fd);
    free(copy);
    return 0;
}
