/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: models that name other files.  Three sections: the model (an
 * index of safetensors, or any other format), and two files beside it. */
#include "tests/fuzz/folder.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/sections.h"

static const char *const names[3] = {"model.safetensors.index.json",
                                     "a.safetensors", "b.bin"};

static void read_model(const char *path)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    volatile unsigned sum = 0;

    weights_options_init(&options);
    if (weights_read(path, &options, &err, &import) < 0)
        return;
    for (size_t i = 0; i < import.dict.count; i++)
        for (size_t j = 0; j < import.dict.entry[i].value->bytes; j++)
            sum += import.dict.entry[i].value->data[j];
    (void)sum;
    /* A network whose weights are another file is not valid yet. */
    if (import.graph != NULL &&
        (graph_sort(import.graph, &err) < 0 ||
         graph_infer_shapes(import.graph, NULL, &err) < 0))
        abort();
    weights_import_clear(&import);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section section[3];
    char path[128];

    sections_split(data, size, 3, section);
    folder_open();
    for (int i = 0; i < 3; i++)
        folder_put(names[i], section[i].data, section[i].bytes);
    read_model(folder_file(names[0], path));
    for (int i = 0; i < 3; i++)
        folder_remove(names[i]);
    folder_close();
    return 0;
}
