/* SPDX-License-Identifier: Apache-2.0 */
/* Everything, for other programs. */
#include "tools/kbench/kbench.h"
#include "kernels/base/json.h"

static cJSON *result_json(const struct kb_case *c, const struct kb_result *r)
{
    cJSON *o = cJSON_CreateObject();
    const double t = r->time.median;
    const int baseline = c->best[KB_BASELINE];

    cJSON_AddStringToObject(o, "kernel", r->row->name);
    if (r->variant[0])
        cJSON_AddStringToObject(o, "variant", r->variant);
    cJSON_AddStringToObject(o, "side", kb_side_names[r->side]);
    cJSON_AddStringToObject(o, "state", kb_state_names[r->state]);
    if (r->text[0])
        cJSON_AddStringToObject(o, "note", r->text);
    cJSON_AddNumberToObject(o, "workspace", (double)r->workspace);
    if (r->time.rounds == 0)
        return o;
    cJSON_AddNumberToObject(o, "median_us", t * 1e6);
    cJSON_AddNumberToObject(o, "min_us", r->time.min * 1e6);
    cJSON_AddNumberToObject(o, "p95_us", r->time.p95 * 1e6);
    cJSON_AddNumberToObject(o, "spread", r->time.spread);
    cJSON_AddNumberToObject(o, "rounds", r->time.rounds);
    cJSON_AddNumberToObject(o, "launches", r->launches);
    cJSON_AddNumberToObject(o, "tflops", kb_rate(c->flops, t) / 1e12);
    cJSON_AddNumberToObject(o, "gbs", kb_rate(c->bytes, t) / 1e9);
    cJSON_AddNumberToObject(o, "floor_percent", 100 * kb_rate(c->floor, t));
    cJSON_AddNumberToObject(o, "error", r->worst);
    if (baseline >= 0)
        cJSON_AddNumberToObject(o, "ratio",
                                kb_rate(c->result[baseline].time.median, t));
    return o;
}

static cJSON *case_json(const struct kb_case *c)
{
    cJSON *o = cJSON_CreateObject(), *list;

    if (c->model[0]) {
        cJSON_AddStringToObject(o, "model", c->model);
        cJSON_AddStringToObject(o, "layer", c->name);
        cJSON_AddNumberToObject(o, "count", c->count);
    }
    cJSON_AddNumberToObject(o, "batch", (double)c->batch);
    cJSON_AddStringToObject(o, "direction", kb_dir_names[c->dir]);
    cJSON_AddStringToObject(o, "precision", c->precision->name);
    cJSON_AddStringToObject(o, "problem", c->text);
    cJSON_AddNumberToObject(o, "flops", c->flops);
    cJSON_AddNumberToObject(o, "bytes", c->bytes);
    cJSON_AddNumberToObject(o, "floor_us", c->floor * 1e6);
    cJSON_AddStringToObject(o, "floor_by", c->by_bytes ? "bytes" : "flops");
    cJSON_AddNumberToObject(o, "outputs_verified", (double)c->verified);
    if (c->ratio > 0)
        cJSON_AddNumberToObject(o, "ratio", c->ratio);
    if (c->untried > 0)
        cJSON_AddNumberToObject(o, "variants_untried", c->untried);
    if (c->before > 0)
        cJSON_AddNumberToObject(o, "before_us", c->before * 1e6);
    list = cJSON_AddArrayToObject(o, "kernels");
    for (int i = 0; i < c->n_results; i++)
        json_append(list, result_json(c, &c->result[i]));
    return o;
}

static void add_peak(cJSON *list, const char *name, const struct kb_peak *p)
{
    if (p->value <= 0)
        return;
    cJSON *o = cJSON_AddObjectToObject(list, name);
    cJSON_AddNumberToObject(o, "value", p->value);
    cJSON_AddStringToObject(o, "how", p->how);
}

static cJSON *group_json(const struct kb_group *g)
{
    cJSON *o = cJSON_CreateObject();

    if (g->model) {
        cJSON_AddStringToObject(o, "model", g->model);
        cJSON_AddNumberToObject(o, "batch", (double)g->batch);
        cJSON_AddStringToObject(o, "direction", kb_dir_names[g->dir]);
        cJSON_AddStringToObject(o, "precision", g->precision->name);
    }
    cJSON_AddNumberToObject(o, "compared", g->compared);
    cJSON_AddNumberToObject(o, "ahead", g->ahead);
    cJSON_AddNumberToObject(o, "ratio", g->mean);
    cJSON_AddNumberToObject(o, "ours_us", g->ours * 1e6);
    cJSON_AddNumberToObject(o, "baseline_us", g->baseline * 1e6);
    cJSON_AddNumberToObject(o, "floor_us", g->floor * 1e6);
    return o;
}

cJSON *kb_json(const struct kb_report *r)
{
    cJSON *o = cJSON_CreateObject(), *list;

    cJSON_AddNumberToObject(o, "kbench", 1);
    cJSON_AddStringToObject(o, "date", r->machine->date);
    cJSON_AddStringToObject(o, "command", r->machine->command);
    cJSON_AddStringToObject(o, "device", r->machine->device);
    cJSON_AddStringToObject(o, "host", r->machine->host);
    cJSON_AddStringToObject(o, "system", r->machine->system);
    cJSON_AddStringToObject(o, "software", r->machine->software);
    cJSON_AddStringToObject(o, "cache", r->request->cold ? "cold" : "warm");
    cJSON_AddNumberToObject(o, "waited", r->machine->waited);
    list = cJSON_AddObjectToObject(o, "peaks");
    for (int i = 0; i < r->request->n_precisions; i++) {
        const struct kb_precision *p = r->request->precision[i];
        add_peak(list, p->name, &r->peaks->flops[kb_precision_index(p)]);
    }
    add_peak(list, "memory", &r->peaks->memory);
    add_peak(list, "cache", &r->peaks->cache);
    cJSON_AddNumberToObject(list, "launch_us", r->peaks->launch * 1e6);
    json_put(o, "summary", group_json(&r->summary->all));
    list = cJSON_AddArrayToObject(o, "groups");
    for (int i = 0; i < r->summary->n_groups; i++)
        json_append(list, group_json(&r->summary->group[i]));
    list = cJSON_AddArrayToObject(o, "problems");
    for (int i = 0; i < r->cases->count; i++)
        json_append(list, case_json(&r->cases->item[i]));
    return o;
}
