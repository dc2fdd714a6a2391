/* SPDX-License-Identifier: Apache-2.0 */
/* One page, complete in itself: page.html with the JSON of the run in it. */
#include <stdlib.h>
#include <string.h>

#include "tools/kbench/kbench.h"

/* Lines of page.html, made by the build. */
static const char *const page[] = {
#include "tools/kbench/page.inc"
};

/* Escapes '<', so that no text of the JSON ends its element. */
static void put_json(const struct kb_report *r, FILE *f)
{
    cJSON *json = kb_json(r);
    char *text;

    if (r->change)
        cJSON_AddStringToObject(json, "compared_with", r->request->before);
    text = cli_json_text(json, true);
    for (const char *at = text; at && *at; at++)
        if (*at == '<')
            fputs("\\u003c", f);
        else
            fputc(*at, f);
    fputc('\n', f);
    cJSON_Delete(json);
    free(text);
}

void kb_html(const struct kb_report *r, FILE *f)
{
    for (size_t i = 0; i < sizeof(page) / sizeof(*page); i++)
        if (strcmp(page[i], "@REPORT@\n") == 0)
            put_json(r, f);
        else
            fputs(page[i], f);
}
