/* SPDX-License-Identifier: Apache-2.0 */
/* Compares our best kernels with those of an earlier run, problem by
 * problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/constant.h"
#include "tools/kbench/kbench.h"

/* All kernels of all layers of six networks make some 20 MB. */
#define MAX_BYTES ((uint64_t)1 << 30)

/* ---- reading ------------------------------------------------------- */

static const char *text_of(const cJSON *o, const char *key)
{
    const cJSON *item = json_member(o, key);

    return cJSON_IsString(item) ? item->valuestring : "";
}

/* Seconds of our fastest kernel in a problem of the file; 0 for none. */
static double best_of(const cJSON *problem)
{
    const cJSON *k;
    double best = 0;

    cJSON_ArrayForEach(k, json_member(problem, "kernels"))
    {
        const cJSON *us = json_member(k, "median_us");
        const char *state = text_of(k, "state");
        if (strcmp(text_of(k, "side"), kb_side_names[KB_OURS]) != 0 ||
            (strcmp(state, kb_state_names[KB_TIMED]) != 0 &&
             strcmp(state, kb_state_names[KB_DROPPED]) != 0) ||
            !cJSON_IsNumber(us) || !(us->valuedouble > 0))
            continue;
        if (best == 0 || us->valuedouble * 1e-6 < best)
            best = us->valuedouble * 1e-6;
    }
    return best;
}

static bool same_problem(const cJSON *problem, const struct kb_case *c)
{
    return strcmp(text_of(problem, "problem"), c->text) == 0 &&
           strcmp(text_of(problem, "precision"), c->precision->name) == 0;
}

int kb_compare(const char *path, bool cold, struct kb_cases *cases,
               struct infer_error *err)
{
    cJSON *root = NULL;
    const cJSON *problem;
    int rc = file_read_json(path, MAX_BYTES, err, &root);

    if (rc < 0)
        return rc;
    if (!cJSON_IsNumber(json_member(root, "kbench")) ||
        !cJSON_IsArray(json_member(root, "problems")))
        rc = error_set(err, INFER_EFORMAT, "%s: not what kbench --json wrote",
                       path);
    else if (strcmp(text_of(root, "cache"), cold ? "cold" : "warm") != 0)
        rc = error_set(err, INFER_EFORMAT,
                       "%s: measured with a %s cache, this run has a %s one",
                       path, text_of(root, "cache"), cold ? "cold" : "warm");
    for (int i = 0; rc == 0 && i < cases->count; i++)
        cJSON_ArrayForEach(
            problem,
            json_member(root, "problems")) if (same_problem(problem,
                                                            &cases->item[i]))
        {
            cases->item[i].before = best_of(problem);
            break;
        }
    cJSON_Delete(root);
    return rc;
}

/* ---- judging ------------------------------------------------------- */

/* Before / now; 0 where one of them is missing. */
static double change_of(const struct kb_case *c)
{
    if (c->before <= 0 || c->best[KB_OURS] < 0)
        return 0;
    return c->before / c->result[c->best[KB_OURS]].time.median;
}

static void sort_moved(const struct kb_cases *cases, struct kb_change *out)
{
    for (int i = 1; i < out->n_moved; i++) {
        const int moved = out->moved[i];
        int at = i;
        while (at > 0 && change_of(&cases->item[out->moved[at - 1]]) >
                             change_of(&cases->item[moved])) {
            out->moved[at] = out->moved[at - 1];
            at--;
        }
        out->moved[at] = moved;
    }
}

int kb_change_of(const struct kb_cases *cases, struct kb_change *out)
{
    memset(out, 0, sizeof(*out));
    out->moved = calloc((size_t)cases->count + 1, sizeof(*out->moved));
    if (!out->moved)
        return INFER_EMEMORY;
    for (int i = 0; i < cases->count; i++) {
        const double change = change_of(&cases->item[i]);
        if (change <= 0)
            continue;
        out->count++;
        out->mean += log(change);
        if (change >= 1 / (1 + KB_NOISE) && change <= 1 + KB_NOISE)
            continue;
        out->moved[out->n_moved++] = i;
        out->n_slower += change < 1;
    }
    out->mean = out->count > 0 ? exp(out->mean / out->count) : 0;
    sort_moved(cases, out);
    return 0;
}

void kb_change_free(struct kb_change *c)
{
    free(c->moved);
    memset(c, 0, sizeof(*c));
}
