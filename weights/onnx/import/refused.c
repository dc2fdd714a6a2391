/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of an ONNX graph that are refused: one line a cause. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/import.h"

static int fail_outputs(struct onnx_import *im)
{
    int i, v;

    for (i = 0; i < im->node->n_out; i++) {
        if (im->node->out[i].bytes == 0)
            continue;
        if (onnx_value_get(im, im->node->out[i], &v) < 0)
            return im->rc;
        /* One that was folded, too: its number may be what was refused. */
        im->value[v].state = ONNX_FAILED;
    }
    return 0;
}

/* One reason for which nodes of one operator were refused. */
struct onnx_refusal {
    struct onnx_refusal *next;
    char *op, *why, *label; /* label: of the first such node */
    size_t nodes;
    int rc;
};

/* Further kinds are only counted. */
#define MAX_REFUSALS 256

static char *keep_text(struct onnx_import *im, const char *text)
{
    char *copy = onnx_alloc(&im->keep, strlen(text) + 1);

    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static int refuse(struct onnx_import *im, int rc, const char *why,
                  const char *label)
{
    struct onnx_refusal **at = &im->refused.first, *r;

    while (*at && (strcmp((*at)->op, im->node->op) != 0 ||
                   strcmp((*at)->why, why) != 0))
        at = &(*at)->next;
    if (!*at && im->refused.kinds == MAX_REFUSALS) {
        im->refused.others++;
        return 0;
    }
    if (!*at) {
        r = onnx_alloc(&im->keep, sizeof *r);
        if (!r)
            return INFER_EMEMORY;
        r->rc = rc;
        r->op = keep_text(im, im->node->op);
        r->why = keep_text(im, why);
        r->label = keep_text(im, label);
        if (!r->op || !r->why || !r->label)
            return INFER_EMEMORY;
        im->refused.kinds++;
        *at = r;
    }
    (*at)->nodes++;
    return 0;
}

int onnx_first_refusal(const struct onnx_import *im)
{
    return im->refused.first ? im->refused.first->rc : 0;
}

void onnx_report_refusals(struct onnx_import *im)
{
    struct infer_error line;
    int rc = 0;

    for (const struct onnx_refusal *r = im->refused.first; r; r = r->next) {
        rc = r->rc;
        error_clear(&line);
        error_add(&line, rc, "%s", r->why);
        error_prefix(&line, "%s", r->label);
        if (r->nodes > 1) {
            const size_t used = strlen(line.text);

            snprintf(line.text + used, sizeof line.text - used,
                     " (%zu such nodes)", r->nodes);
        }
        error_add(im->err, rc, "%s", line.text);
    }
    if (im->refused.others > 0)
        error_add(im->err, rc, "and %zu nodes more", im->refused.others);
    im->refused = (struct onnx_refusals){NULL, 0, 0};
}

int onnx_end_node(struct onnx_import *im, int rc,
                  const struct infer_error *fault, const char *label,
                  int *result)
{
    im->rc = 0;
    if (rc < 0 && refuse(im, rc, fault->text, label) < 0)
        rc = INFER_EMEMORY;
    if (rc < 0 && *result == 0)
        *result = rc;
    return rc == INFER_EMEMORY || (rc != 0 && fail_outputs(im) < 0)
               ? INFER_EMEMORY
               : 0;
}

/* True where all refused nodes are of unknown kinds, and no output of the graph
 * needs one: what a loss or a metric of training left behind. */
bool onnx_refused_are_dead(struct onnx_import *im)
{
    struct pb_span name;
    bool dead = im->refused.first && im->refused.others == 0;
    int rc, v;

    for (const struct onnx_refusal *r = im->refused.first; r; r = r->next)
        dead &= r->rc == INFER_EUNSUPPORTED;
    for (size_t i = 0; dead && (rc = im->source->output(im, i, &name)) != 0;
         i++) {
        v = rc < 0 ? -1 : onnx_value_find(im, name);
        dead = v >= 0 && im->value[v].state != ONNX_FAILED;
    }
    return dead;
}
