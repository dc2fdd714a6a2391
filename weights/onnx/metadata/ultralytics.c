/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports of Ultralytics: their metadata name the classes (a dictionary or a
 * list as Python prints it), the task and, for poses, the points.  Their
 * pictures are RGB of 0 to 1, fitted with bars of 114; classifiers see the
 * centre, RT-DETR the whole picture stretched (ultralytics/engine/predictor.py
 * and models/ of version 8.4).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/graph/graph_json.h"
#include "weights/onnx/metadata/metadata.h"

#define MAX_NAMES 100000
/* Boxes of a network that has chosen them itself, at most. */
#define MAX_CHOSEN 1000
/* Prototypes of masks. */
#define MASKS 32

/* ---- names --------------------------------------------------------- */

struct text {
    const char *at, *end;
};

/* Skips blanks and takes the character, if it is the next. */
static bool take(struct text *t, char c)
{
    while (t->at < t->end && isspace((unsigned char)*t->at))
        t->at++;
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_number(struct text *t, int *out)
{
    int value = 0;
    const char *from;

    while (t->at < t->end && isspace((unsigned char)*t->at))
        t->at++;
    for (from = t->at; t->at < t->end && isdigit((unsigned char)*t->at);
         t->at++)
        if ((value = 10 * value + (*t->at - '0')) > MAX_NAMES)
            return false;
    *out = value;
    return t->at > from;
}

/* A string in quotes of either kind.  NULL: none, or no memory. */
static char *take_string(struct text *t)
{
    const char quote = take(t, '\'') ? '\'' : take(t, '"') ? '"' : '\0';
    const char *from = t->at;
    size_t n = 0;
    char *out;

    while (quote && t->at < t->end && *t->at != quote)
        t->at += *t->at == '\\' && t->at + 1 < t->end ? 2 : 1;
    if (!quote || t->at == t->end)
        return NULL;
    out = malloc((size_t)(t->at - from) + 1);
    for (const char *c = from; out && c < t->at; c++)
        out[n++] = *c == '\\' ? *++c : *c;
    if (out && (memchr(out, 0, n) || !text_is_utf8(out, n))) {
        free(out);
        return NULL;
    }
    if (out)
        out[n] = '\0';
    t->at++;
    return out;
}

struct names {
    char **text;
    int count;
};

static void names_clear(struct names *n)
{
    while (n->count > 0)
        free(n->text[--n->count]);
    free(n->text);
    *n = (struct names){0};
}

static bool names_add(struct names *n, char *text)
{
    char **more =
        text ? realloc(n->text, ((size_t)n->count + 1) * sizeof *more) : NULL;

    if (!more) {
        free(text);
        return false;
    }
    n->text = more;
    n->text[n->count++] = text;
    return true;
}

/* {0: 'person', 1: 'car'} or ['person', 'car'].  False, and no names, for
 * anything else. */
static bool names_read(struct pb_span word, struct names *n)
{
    struct text t = {(const char *)word.data,
                     (const char *)word.data + word.bytes};
    const bool keys = word.bytes > 0 && take(&t, '{');
    bool good = keys || (word.bytes > 0 && take(&t, '['));
    int key;

    *n = (struct names){0};
    while (good) {
        good = n->count < MAX_NAMES &&
               (!keys ||
                (take_number(&t, &key) && key == n->count && take(&t, ':'))) &&
               names_add(n, take_string(&t));
        if (good && !take(&t, ','))
            break;
    }
    if (good && take(&t, keys ? '}' : ']'))
        return true;
    names_clear(n);
    return false;
}

/* Names that are the numbers of the classes say nothing. */
static bool are_numbers(const struct names *n)
{
    char number[16];

    for (int i = 0; i < n->count; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(n->text[i], number) != 0)
            return false;
    }
    return true;
}

/* ---- task ---------------------------------------------------------- */

/* Rows and columns of the first output, without the batch; -1: free. */
struct head {
    int64_t rows, columns;
};

static struct head head_of(struct graph *g)
{
    const struct graph_value *y;

    /* A network whose shapes do not fit is refused later. */
    if (g->n_outputs == 0 || graph_infer_shapes(g, NULL, NULL) < 0)
        return (struct head){0, 0};
    y = &g->value[g->output[0]];
    return y->rank == 3 ? (struct head){y->dim[1], y->dim[2]}
                        : (struct head){0, 0};
}

/* Whether the head is one of anchors in columns of x y width height, classes
 * and `more` numbers, or one of chosen boxes in rows of corners, score, class
 * and `more`. */
static bool is_yolo(struct head h, int classes, int more)
{
    return h.rows == 4 + classes + more ||
           (h.columns == 6 + more && h.rows <= MAX_CHOSEN);
}

static bool read_points(struct pb_span word, int shape[2])
{
    struct text t = {(const char *)word.data,
                     (const char *)word.data + word.bytes};

    return word.bytes > 0 && (take(&t, '[') || take(&t, '(')) &&
           take_number(&t, &shape[0]) && take(&t, ',') &&
           take_number(&t, &shape[1]) && shape[0] > 0 &&
           (shape[1] == 2 || shape[1] == 3);
}

/* The word of the task; "" where the outputs are none of those known here. */
static void task_word(const struct pb_span *word, struct head h, int classes,
                      char *out, size_t bytes)
{
    const struct pb_span task = word[ONNX_TASK];
    const bool detect = task.bytes == 0 || pb_span_is(task, "detect");
    int points[2];

    out[0] = '\0';
    if (pb_span_is(task, "classify"))
        snprintf(out, bytes, "classify");
    else if (pb_span_is(task, "semantic"))
        snprintf(out, bytes, "segment");
    else if (pb_span_is(word[ONNX_HEAD], "RTDETRDecoder") && h.columns == 6)
        snprintf(out, bytes, "detect:rtdetr:chosen");
    else if (detect && h.rows == 4 + classes)
        snprintf(out, bytes, "detect:yolov8");
    else if (detect && h.columns == 6 && h.rows <= MAX_CHOSEN)
        snprintf(out, bytes, "detect:end2end");
    else if (detect && h.columns == 5 + classes)
        snprintf(out, bytes, "detect:yolov5");
    else if (detect && h.columns == 4 + classes)
        snprintf(out, bytes, "detect:rtdetr");
    else if (pb_span_is(task, "segment") && is_yolo(h, classes, MASKS))
        snprintf(out, bytes, "detect:yoloseg");
    else if (pb_span_is(task, "obb") && is_yolo(h, classes, 1))
        snprintf(out, bytes, "detect:yoloobb");
    else if (pb_span_is(task, "pose") &&
             read_points(word[ONNX_POINTS], points) &&
             is_yolo(h, classes, points[0] * points[1]))
        snprintf(out, bytes, "detect:yolopose:%dx%d", points[0], points[1]);
}

/* ---- all ----------------------------------------------------------- */

static void set_pictures(struct graph *g, const char *task)
{
    struct graph_preprocess p = graph_preprocess_default();
    const struct graph_value *x = &g->value[g->input[0]];

    if (x->rank != 4 || (x->dim[1] != 1 && x->dim[1] != 3))
        return;
    p.color = x->dim[1] == 1 ? GRAPH_GRAY : GRAPH_RGB;
    p.scale = 1.0f / 255;
    p.fill = 114;
    p.policy = strcmp(task, "classify") == 0 ? GRAPH_RESIZE_SHORTER
               : strncmp(task, "detect:rtdetr", 13) == 0
                   ? GRAPH_RESIZE_EXACT
                   : GRAPH_RESIZE_LETTERBOX;
    p.resize = 0; /* as the input */
    g->preprocess[0] = p;
}

int onnx_ultralytics_apply(const struct pb_span *word, struct graph *g,
                           struct infer_error *err)
{
    struct names names;
    char task[64];

    if (word[ONNX_STRIDE].bytes == 0 || g->n_inputs == 0 ||
        !names_read(word[ONNX_NAMES], &names))
        return 0;
    task_word(word, head_of(g), names.count, task, sizeof task);
    if (!g->preprocess[0].present)
        set_pictures(g, task);
    if (task[0] && !g->task && !(g->task = strdup(task))) {
        names_clear(&names);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (g->n_labels > 0 || are_numbers(&names)) {
        names_clear(&names);
        return 0;
    }
    g->label = names.text;
    g->n_labels = names.count;
    return 0;
}
