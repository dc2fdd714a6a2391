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

    if (fuzz_tell(graph_expand_repeats(json, &err), &err, 0) < 0 ||
        fuzz_tell(graph_from_json(json, &err, &g), &err, 0) < 0)
        return;
    if (fuzz_tell(graph_infer_shapes(g, NULL, &err), &err, 0) == 0)
        fuzz_tell(graph_validate(g, &err), &err, 0);
    graph_free(g);
}

static void read_cache(const char *text)
{
    struct tune_cache *cache = NULL;
    struct infer_error err;

    if (tune_cache_open("", "cpu", &err, &cache) < 0)
        return;
    fuzz_tell(tune_cache_import(cache, text, &err), &err, 0);
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
    if (fuzz_tell(json_parse(text, size, size & 1, &err, &json), &err, 0) ==
        0) {
        read_graph(json);
        cJSON_Delete(json);
    }
    read_cache(text);
    free(text);
    return 0;
}
