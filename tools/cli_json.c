/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that the tools write.  Names of files and tensors come from anywhere,
 * and JSON is UTF-8: what is not is written as \xNN, as messages write it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"
#include "kernels/text.h"
#include "tools/cli.h"

/* The text with every byte that is no UTF-8 as "\\xNN", five characters that a
 * reader of JSON takes for \xNN; to be freed. */
static char *make_utf8(const char *text)
{
    size_t left = strlen(text), used = 0, n;
    char *out = malloc(5 * left + 1);
    uint32_t code;

    for (; out != NULL && left > 0; text += n, left -= n) {
        n = text_utf8(text, left, &code);
        if (n == 0) {
            used += (size_t)sprintf(out + used, "\\\\x%02X",
                                    (unsigned)(unsigned char)*text);
            n = 1;
        } else {
            memcpy(out + used, text, n);
            used += n;
        }
    }
    if (out != NULL)
        out[used] = '\0';
    return out;
}

char *cli_json_text(const cJSON *json, bool compact)
{
    char *raw = compact ? cJSON_PrintUnformatted(json) : cJSON_Print(json);
    char *text = NULL;

    if (raw != NULL)
        text = text_is_utf8(raw, strlen(raw)) ? strdup(raw) : make_utf8(raw);
    cJSON_free(raw);
    return text;
}

int cli_write_json(const char *path, cJSON *json, bool compact,
                   struct infer_error *err)
{
    char *text = cli_json_text(json, compact);
    FILE *f;
    bool bad;

    cJSON_Delete(json);
    if (text == NULL)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    f = fopen(path, "w");
    bad = f == NULL || fputs(text, f) < 0 || fputc('\n', f) < 0;
    if (f != NULL && fclose(f) != 0)
        bad = true;
    free(text);
    return bad ? error_set(err, INFER_EIO, "%s: %s", path, strerror(errno))
               : INFER_OK;
}

void cli_print_json(cJSON *json, bool compact)
{
    char *text = cli_json_text(json, compact);

    if (text != NULL)
        puts(text);
    free(text);
    cJSON_Delete(json);
}
