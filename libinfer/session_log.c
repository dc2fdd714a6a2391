/* SPDX-License-Identifier: Apache-2.0 */
/* What a session tells the caller's log. */
#include <stdarg.h>
#include <stdio.h>

#include "kernels/problem.h"
#include "libinfer/session.h"

#define MIB 1048576.0

void session_log(const struct infer_session *s, int level, const char *fmt, ...)
{
    struct infer_error line; /* its text has no control characters */
    char text[512];
    va_list args;

    if (!s->log)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_set(&line, 0, "%s", text);
    s->log(s->log_user, level, line.text);
}

void session_log_open(const struct infer_session *s,
                      const struct infer_session_options *o)
{
    struct infer_tuning_info tuning;
    char device[256] = "";

    if (!s->log)
        return;
    if (!s->device.ops->describe ||
        s->device.ops->describe(&s->device, NULL, device, sizeof device) < 0)
        snprintf(device, sizeof device, "%s", s->device.ops->name);
    session_log(s, INFER_LOG_INFO, "session: %s; backend %s, precision %s",
                device, device_backend_names[o->backend],
                device_precision_names[o->precision]);
    tuner_info(s->tuner, &tuning);
    if (tuning.note && tuning.note[0] != '\0')
        session_log(s, INFER_LOG_WARNING, "tuning cache ignored: %s",
                    tuning.note);
}

static void log_layers(const struct infer_session *s)
{
    struct infer_layer_info layer;
    int i;

    for (i = 0; infer_session_layer(s, i, &layer) == 0; i++)
        session_log(s, INFER_LOG_DEBUG, "layer %d: %s %s, %s%s%s", i, layer.op,
                    layer.name, layer.kernel, layer.variant[0] ? " " : "",
                    layer.variant);
}

void session_log_plan(const struct infer_session *s)
{
    struct infer_memory_info memory;
    char shape[KERN_SHAPE_TEXT] = "no input";
    double unit = MIB;

    if (!s->log || infer_session_memory(s, &memory) < 0)
        return;
    if (memory.activations < MIB && memory.weights < MIB)
        unit = 1024;
    if (model_graph(s->model)->n_inputs > 0)
        kern_shape_text(s->shape[0].rank, s->shape[0].dim, shape);
    session_log(s, INFER_LOG_INFO,
                "plan for %s: %d steps; %.1f %s of activations, %.1f of "
                "weights, %.1f of workspace",
                shape, infer_session_layer_count(s),
                (double)memory.activations / unit, unit < MIB ? "KiB" : "MiB",
                (double)memory.weights / unit, (double)memory.workspace / unit);
    if (s->whole)
        session_log(s, INFER_LOG_INFO,
                    "plan for %s: runs as micro-batches of %lld", shape,
                    (long long)s->whole->images);
    log_layers(s);
}
