/* SPDX-License-Identifier: Apache-2.0 */
/* --compare=ref,...: the same input through other backends. */
#include "tools/infer/infer_tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/device/device.h"
#include "libinfer/model/model.h"
#include "tools/difference.h"

static bool measure(const struct infer_array *a, const struct infer_array *b,
                    struct difference *d)
{
    memset(d, 0, sizeof(*d));
    if (array_count(a) != array_count(b))
        return false;
    difference_of(a->dtype, a->data, b->dtype, b->data, array_count(a), d);
    return true;
}

/* Default of --rtol: the rounding error of a deep network, about 20 times the
 * unit roundoff of the multiplied values. */
static double tolerance(const struct tool_request *r)
{
    static const double usual[] = {[INFER_PRECISION_FP32] = 1e-4,
                                   [INFER_PRECISION_TF32] = 1e-2,
                                   [INFER_PRECISION_FP16] = 1e-2,
                                   [INFER_PRECISION_BF16] = 8e-2,
                                   [INFER_PRECISION_BEST] = 8e-2};

    return r->rtol >= 0 ? r->rtol : usual[r->session.precision];
}

static bool within(const struct tool_request *r, const struct difference *d)
{
    return d->max_abs <= r->atol || d->max_rel <= tolerance(r);
}

/* Creates a session and runs it once; with --layers it keeps all tensors.
 * mine: the one that the user asks for, as asked; others on a CPU are of fp32.
 */
static int run_backend(struct tool_run *run, enum infer_backend backend,
                       bool mine, const struct arrays *in, struct arrays *out,
                       struct infer_session **session, struct infer_error *err)
{
    struct infer_session_options options = run->request->session;
    int rc;

    options.backend = backend;
    options.keep_tensors = run->request->layers;
    if (!mine && kern_backend_of(backend)->device == KERN_CPU) {
        options.device = NULL;
        options.precision = INFER_PRECISION_FP32;
    }
    rc = infer_session_create(run->model, &options, err, session);
    if (rc == INFER_OK)
        rc = infer_session_prepare(*session, in->item, in->count, err);
    if (rc == INFER_OK)
        rc = tool_make_outputs(*session, run->model, out, err);
    if (rc == INFER_OK)
        rc = infer_session_run(*session, in->item, in->count, out->item,
                               out->count, err);
    return rc;
}

/* Reads a tensor of a session; data is to be freed. */
static int read_tensor(struct infer_session *session, const char *name,
                       struct infer_array *a, struct infer_error *err)
{
    int rc;

    memset(a, 0, sizeof(*a));
    rc = infer_session_read(session, name, a, err);
    if (rc < 0)
        return rc;
    a->data = malloc(a->bytes > 0 ? a->bytes : 1);
    if (a->data == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return infer_session_read(session, name, a, err);
}

/* Adds one comparison to the document of --json. */
static void add_json(cJSON *list, const char *name, const struct difference *d,
                     bool good)
{
    cJSON *item = cJSON_CreateObject();

    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddBoolToObject(item, "ok", good);
    cJSON_AddNumberToObject(item, "max_abs", d->max_abs);
    cJSON_AddNumberToObject(item, "max_rel", d->max_rel);
    json_append(list, item);
}

/* Both sides read the weights from one file. */
static bool is_weight(const struct tool_run *run, const char *name)
{
    const struct graph *g = model_graph(run->model);
    const int value = graph_find_value(g, name);

    return value >= 0 && g->value[value].data != NULL;
}

/* Compares all tensors but the weights in graph order; *first gets the name of
 * the first one beyond the tolerance. */
static int compare_layers(struct tool_run *run, struct infer_session *mine,
                          struct infer_session *other, cJSON *json,
                          const char **first, struct infer_error *err)
{
    cJSON *list = json != NULL ? cJSON_AddArrayToObject(json, "tensors") : NULL;
    const char *name;
    int i, rc = INFER_OK;

    *first = NULL;
    for (i = 0;
         rc == INFER_OK && (name = infer_session_tensor_name(mine, i)) != NULL;
         i++) {
        struct infer_array a = {0}, b = {0};
        struct difference d;

        if (is_weight(run, name))
            continue;
        rc = read_tensor(mine, name, &a, err);
        if (rc == INFER_OK)
            rc = read_tensor(other, name, &b, err);
        if (rc == INFER_OK) {
            bool good = measure(&a, &b, &d) && within(run->request, &d);

            if (!good && *first == NULL)
                *first = name;
            if (list != NULL)
                add_json(list, name, &d, good);
            else
                cli_print("  %-4s %-48s max %.3g (%.3g of the largest value)\n",
                          good ? "ok" : "BAD", name, d.max_abs, d.max_rel);
        }
        free(a.data);
        free(b.data);
    }
    return rc;
}

static void print_output(const char *name, const char *word,
                         const struct difference *d, bool good)
{
    cli_print("%-4s %s against %s: max %.3g (%.3g of the largest value)",
              good ? "ok" : "BAD", name, word, d->max_abs, d->max_rel);
    if (!good)
        printf(", element %" PRId64 ": %.9g, expected %.9g", d->at, d->found,
               d->expected);
    putchar('\n');
}

static void compare_outputs(struct tool_run *run, const char *word,
                            const struct arrays *mine,
                            const struct arrays *other, cJSON *json, bool *bad)
{
    cJSON *list = json != NULL ? cJSON_AddArrayToObject(json, "outputs") : NULL;
    int64_t elements = 0, finite = 0;
    int i;

    for (i = 0; i < mine->count; i++) {
        struct difference d;
        bool good = measure(&mine->item[i], &other->item[i], &d) &&
                    within(run->request, &d);

        if (list != NULL)
            add_json(list, mine->item[i].name, &d, good);
        else
            print_output(mine->item[i].name, word, &d, good);
        *bad = *bad || !good;
        elements += array_count(&other->item[i]);
        finite += d.finite;
    }
    /* NaN equals NaN; if all values are NaN, the comparison proves nothing. */
    if (elements > 0 && finite == 0) {
        cli_error(run->cli, "no output against %s holds a finite number", word);
        *bad = true;
    }
}

/* Runs one more backend.  json: NULL, or where its results go. */
static int compare_one(struct tool_run *run, int backend,
                       const struct arrays *in, struct infer_session *mine,
                       const struct arrays *my_out, cJSON *json, bool *bad,
                       struct infer_error *err)
{
    struct infer_session *other = NULL;
    struct arrays out = {0};
    const char *first = NULL;
    int rc;

    if (json != NULL)
        cJSON_AddStringToObject(json, "against", device_backend_names[backend]);
    rc = run_backend(run, (enum infer_backend)backend, false, in, &out, &other,
                     err);
    if (rc == INFER_OK)
        compare_outputs(run, device_backend_names[backend], my_out, &out, json,
                        bad);
    if (rc == INFER_OK && run->request->layers)
        rc = compare_layers(run, mine, other, json, &first, err);
    if (first != NULL && json != NULL)
        cJSON_AddStringToObject(json, "first", first);
    else if (first != NULL)
        cli_print("the first tensor that departs is %s\n", first);
    *bad = *bad || first != NULL;
    infer_session_close(&other);
    arrays_clear(&out);
    return rc;
}

/* The backends of --compare; their number. */
static int parse_backends(const char *text, int *backend,
                          struct infer_error *err)
{
    char word[16];
    int n = 0;

    for (;;) {
        const size_t length = strcspn(text, ",");
        int which = -1;

        if (length < sizeof(word)) {
            memcpy(word, text, length);
            word[length] = '\0';
            which = cli_word(word, device_backend_names);
        }
        if (which <= INFER_BACKEND_AUTO || n == INFER_BACKEND_COUNT)
            return error_set(err, INFER_EARGUMENT,
                             "--compare takes ref, cpu, onednn, cuda or "
                             "cudnn, not '%.*s'",
                             (int)length, text);
        backend[n++] = which;
        if (text[length] == '\0')
            return n;
        text += length + 1;
    }
}

static int compare_all(struct tool_run *run, const int *backend, int n,
                       struct infer_error *err)
{
    struct arrays in = {0}, out = {0};
    struct infer_session *mine = NULL;
    bool bad = false;
    int i, rc = tool_make_inputs(run, &in, err);

    if (rc == INFER_OK)
        rc = run_backend(run, run->request->session.backend, true, &in, &out,
                         &mine, err);
    for (i = 0; rc == INFER_OK && i < n; i++) {
        cJSON *json = NULL;

        if (run->result != NULL) {
            json = cJSON_CreateObject();
            cJSON_AddItemToArray(run->result, json);
        }
        rc = compare_one(run, backend[i], &in, mine, &out, json, &bad, err);
    }
    if (rc == INFER_OK && bad)
        rc = error_set(err, INFER_EMISMATCH,
                       "backends disagree (atol %g, rtol %g)",
                       run->request->atol, tolerance(run->request));
    infer_session_close(&mine);
    arrays_clear(&in);
    arrays_clear(&out);
    return rc;
}

int tool_compare(struct tool_run *run, struct infer_error *err)
{
    int backend[INFER_BACKEND_COUNT];
    const int n = parse_backends(run->request->compare, backend, err);

    if (n < 0)
        return n;
    if (run->cli->json) {
        run->result = cJSON_CreateArray();
        run->result_name = "compare";
    }
    return compare_all(run, backend, n, err);
}
