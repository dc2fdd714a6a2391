/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: JSON, as an architecture's graph and as a tuning cache. */
#include "kernels/base/json.h"
#include "libinfer/graph/graph_json.h"
#include "libinfer/tune/tune_cache.h"
#include "tests/fuzz/fuzz.h"

static void read_graph(cJSON *json)
{
    struct infer_error err;
    struct graph *g = NULL;

    if (graph_expand_repeats(json, &err) < 0 ||
        graph_from_json(json, &err, &g) < 0)
        return;
    if (graph_infer_shapes(g, NULL, &err) == 0)
        (void)graph_validate(g, &err);
    graph_free(g);
}

static void read_cache(const char *text)
{
    struct tune_cache *cache = NULL;
    struct infer_error err;

    if (tune_cache_open("", "cpu", &err, &cache) < 0)
        return;
    (void)tune_cache_import(cache, text, &err);
    cJSON_free(tune_cache_text(cache));
    tune_cache_close(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct infer_error err;
    cJSON *json = NULL;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (json_parse(text, size, size & 1, &err, &json) == 0) {
        read_graph(json);
        cJSON_Delete(json);
    }
    read_cache(text);
    free(text);
    return 0;
}
