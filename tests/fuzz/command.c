/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: command lines.  Arguments of train, one a line, and each as a
 * value of every kind that options take. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tools/cli.h"
#include "tools/train/options.h"

#define MAX_ARGUMENTS 64

static void read_value(const char *text)
{
    int64_t dim[INFER_MAX_RANK], whole;
    double list[4], number;
    char *name = NULL;
    int rank;

    if (cli_shape(text, &name, &rank, dim) &&
        (rank < 0 || rank > INFER_MAX_RANK))
        abort();
    free(name);
    if (cli_doubles(text, list, 4) > 4)
        abort();
    if (cli_seconds(text, &number) && !(number >= 0 && isfinite(number)))
        abort();
    if (cli_int(text, -5, 70000, &whole) && (whole < -5 || whole > 70000))
        abort();
    (void)cli_double(text, &number);
    (void)cli_nearest(text, cli_tune_words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli cli = {
        .tool = "train", .usage = train_usage, .option = train_options};
    static char tool[] = "train";
    char *argv[MAX_ARGUMENTS + 2] = {tool}, *text = malloc(size + 1), *rest;
    struct train_request request;
    int argc = 1, count;

    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    for (rest = text; rest && argc <= MAX_ARGUMENTS;) {
        argv[argc++] = strsep(&rest, "\n");
        read_value(argv[argc - 1]);
    }
    train_request_init(&request);
    if (cli_parse(&cli, argc, argv, &request, &count) == 0) {
        if (count < 0 || count >= argc)
            abort();
        (void)train_request_finish(&cli, &request);
    }
    free(text);
    return 0;
}
