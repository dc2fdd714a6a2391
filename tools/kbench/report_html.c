/* SPDX-License-Identifier: Apache-2.0 */
/* One page, complete in itself: page.html with the JSON of the run in it. */
#include "tools/kbench/kbench.h"

/* Lines of page.html, made by the build. */
static const char *const page[] = {
#include "tools/kbench/page.inc"
};

void kb_html(const struct kb_report *r, FILE *f)
{
    cJSON *json = kb_json(r);

    if (r->change)
        cJSON_AddStringToObject(json, "compared_with", r->request->before);
    cli_put_page(f, page, sizeof(page) / sizeof(*page), json);
    cJSON_Delete(json);
}
