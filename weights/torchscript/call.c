/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, methods and classes of the program; its inputs and outputs. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

static bool same(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* ---- finding ------------------------------------------------------- */

/* The file of "module.name", and the name. */
static int find_module(struct ts_run *r, struct pb_span qualified,
                       const struct ts_file **file, struct pb_span *name)
{
    size_t dot = qualified.bytes;

    *file = NULL;
    while (dot > 0 && qualified.data[dot - 1] != '.')
        dot--;
    if (dot == 0)
        return 0;
    *name = (struct pb_span){qualified.data + dot, qualified.bytes - dot};
    return ts_archive_module(
        r->archive, (struct pb_span){qualified.data, dot - 1}, r->err, file);
}

static int find_class(struct ts_run *r, const struct ts_file *file,
                      struct pb_span name, const struct ts_class **class)
{
    const struct ts_class *c = file ? file->class : NULL;
    int rc = 0;

    while (rc == 0 && c && !same(c->name, name)) {
        c = c->next;
        rc = ts_step(r, 1);
    }
    *class = c;
    return rc;
}

int ts_find_class(struct ts_run *r, struct pb_span name,
                  const struct ts_class **class)
{
    const struct ts_file *file;
    struct pb_span last = {NULL, 0};
    int rc = find_module(r, name, &file, &last);

    *class = NULL;
    return rc < 0 ? rc : find_class(r, file, last, class);
}

int ts_find_method(struct ts_run *r, const struct ts_class *c,
                   struct pb_span name, const struct ts_function **out)
{
    const struct ts_function *f = c ? c->function : NULL;
    size_t n = 0;

    for (; f && !same(f->name, name); f = f->next)
        n++;
    *out = f;
    return ts_compare(r, n);
}

/* ---- functions ----------------------------------------------------- */

/* Puts arguments into the slots of parameters; absent ones take defaults. */
static int bind(struct ts_run *r, struct ts_frame *frame, int n,
                const struct ts_arg *arg)
{
    const struct ts_function *f = frame->function;
    int rc = 0;

    for (int i = 0; i < n; i++) {
        int k = i;

        if (arg[i].name.bytes)
            for (k = 0; k < f->n_params; k++)
                if (same(f->param[k].name, arg[i].name))
                    break;
        if (k >= f->n_params)
            return ts_fail(r, INFER_EFORMAT,
                           "'%.*s' has no such parameter (%d arguments)",
                           PB_TEXT(f->name, 64), n);
        frame->slot[f->param[k].slot] = arg[i].value;
    }
    for (int k = 0; k < f->n_params && rc == 0; k++) {
        struct ts_value *v = &frame->slot[f->param[k].slot];

        if (v->kind != TSV_UNSET)
            continue;
        if (!f->param[k].otherwise)
            return ts_fail(r, INFER_EFORMAT, "'%.*s' needs argument '%.*s'",
                           PB_TEXT(f->name, 64), PB_TEXT(f->param[k].name, 64));
        rc = ts_evaluate(r, NULL, f->param[k].otherwise, v);
    }
    return rc;
}

int ts_call(struct ts_run *r, const struct ts_function *f, int n,
            const struct ts_arg *arg, struct ts_value *out)
{
    const struct ts_file *file = r->file;
    const unsigned line = r->line;
    struct ts_frame frame = {.function = f};
    int rc = ts_step(r, (size_t)f->slots + 1);

    if (rc < 0)
        return rc;
    if (++r->depth > TS_MAX_DEPTH)
        return ts_fail(r, INFER_EUNSUPPORTED, "calls are nested too deep");
    frame.slot = calloc((size_t)f->slots + 1, sizeof *out);
    if (!frame.slot)
        return ts_no_memory(r);
    rc = bind(r, &frame, n, arg);
    r->file = f->file;
    if (rc == 0)
        rc = ts_execute(r, &frame, f->body);
    *out = frame.returned ? frame.result : ts_none();
    free(frame.slot);
    if (rc == 0) {
        r->file = file; /* errors keep the innermost line */
        r->line = line;
    }
    r->depth--;
    return rc;
}

/* A tuple with names: its fields in order. */
static int make_tuple(struct ts_run *r, int n, const struct ts_arg *arg,
                      struct ts_value *out)
{
    const int rc = ts_new_list(r, TSV_TUPLE, n, out);

    for (int i = 0; i < n && rc == 0; i++)
        out->list->item[i] = arg[i].value;
    return rc;
}

/* CLASS.__new__(CLASS): an object without attributes. */
static int make_object(struct ts_run *r, struct pb_span class,
                       struct ts_value *out)
{
    struct ts_object *o = onnx_alloc(r->arena, sizeof *o);

    if (!o)
        return ts_no_memory(r);
    o->class = class;
    *out = (struct ts_value){.kind = TSV_OBJECT, .object = o};
    return 0;
}

int ts_call_named(struct ts_run *r, struct pb_span name, int n,
                  const struct ts_arg *arg, struct ts_value *out)
{
    static const char fresh[] = ".__new__";
    const size_t ending = sizeof fresh - 1;
    const struct ts_file *file;
    const struct ts_function *f;
    const struct ts_class *class = NULL;
    struct pb_span last = {NULL, 0};
    int rc;

    if (name.bytes > ending &&
        memcmp(name.data + name.bytes - ending, fresh, ending) == 0)
        return make_object(r, (struct pb_span){name.data, name.bytes - ending},
                           out);
    rc = find_module(r, name, &file, &last);
    for (f = rc == 0 && file ? file->function : NULL; f && rc == 0; f = f->next)
        if ((rc = ts_step(r, 1)) < 0 || same(f->name, last))
            break;
    if (rc < 0)
        return rc;
    if (f)
        return ts_call(r, f, n, arg, out);
    rc = find_class(r, file, last, &class);
    if (rc == 0 && class && pb_span_is(class->base, "NamedTuple"))
        return make_tuple(r, n, arg, out);
    return rc < 0 ? rc
                  : ts_fail(r, INFER_EFORMAT, "the archive has no '%.*s'",
                            PB_TEXT(name, 128));
}

int ts_call_method(struct ts_run *r, const struct ts_value *object,
                   struct pb_span name, int n, const struct ts_arg *arg,
                   struct ts_value *out)
{
    const struct ts_function *f;
    const struct ts_class *class;
    struct ts_arg *all;
    int rc;

    if (object->kind != TSV_OBJECT)
        return ts_fail(r, INFER_EUNSUPPORTED, "method '%.*s' is not supported",
                       PB_TEXT(name, 64));
    rc = ts_find_class(r, object->object->class, &class);
    if (rc < 0)
        return rc;
    rc = ts_find_method(r, class, name, &f);
    if (rc < 0)
        return rc;
    if (!f)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "the archive has no method '%.*s' of '%.*s'",
                       PB_TEXT(name, 64), PB_TEXT(object->object->class, 128));
    all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return ts_no_memory(r);
    all[0].value = *object;
    if (n > 0)
        memcpy(all + 1, arg, (size_t)n * sizeof *all);
    rc = ts_call(r, f, n + 1, all, out);
    free(all);
    return rc;
}

/* ---- the program --------------------------------------------------- */

int ts_run_open(struct ts_run *r, struct ts_archive *archive)
{
    r->archive = archive;
    r->arena->limit = r->arena->bytes + archive->room;
    ts_archive_rewind(archive);
    for (int which = 0; which < TS_PICKLES; which++) {
        r->tensor[which] =
            calloc(archive->pickle[which].count + 1, sizeof *r->tensor[which]);
        if (!r->tensor[which])
            return ts_no_memory(r);
    }
    r->object =
        calloc(archive->pickle[TS_DATA].count + 1, sizeof(struct ts_object *));
    return r->object ? 0 : ts_no_memory(r);
}

void ts_run_close(struct ts_run *r)
{
    for (int which = 0; which < TS_PICKLES; which++)
        free(r->tensor[which]);
    free(r->object);
    r->arena->limit = 0;
    r->arena->full = false;
}

static int find_forward(struct ts_run *r, struct ts_value *self,
                        const struct ts_function **out)
{
    const struct ts_class *class = NULL;
    int rc = ts_from_pickle(r, TS_DATA, r->archive->pickle[TS_DATA].root,
                            (struct pb_span){NULL, 0}, self);

    *out = NULL;
    if (rc == 0 && self->kind == TSV_OBJECT)
        rc = ts_find_class(r, self->object->class, &class);
    for (const struct ts_field *f = rc == 0 && class ? class->field : NULL; f;
         f = f->next)
        if (pb_span_is(f->name, "__forward_hooks__") ||
            pb_span_is(f->name, "__forward_pre_hooks__"))
            return ts_fail(r, INFER_EUNSUPPORTED,
                           "hooks of the whole network are not supported");
    if (rc == 0)
        rc = ts_find_method(
            r, class, (struct pb_span){(unsigned char *)"forward", 7}, out);
    if (rc == 0 && !*out)
        rc = error_set(r->err, INFER_EUNSUPPORTED,
                       "the program has no forward()");
    return rc;
}

/* The shape stays unknown: rank -1. The type is not stated. */
static void add_input(struct ts_run *r, const struct ts_param *p)
{
    struct aten_input *in = &r->program->input[r->program->n_inputs++];

    *in = (struct aten_input){.name = p->name,
                              .dtype = INFER_F32,
                              .assumed = true,
                              .rank = -1,
                              .example_rank = -1};
}

int ts_list_inputs(struct ts_run *r)
{
    const struct ts_function *f;
    struct ts_value self;
    int rc = find_forward(r, &self, &f);

    if (rc < 0)
        return rc;
    r->file = f->file;
    r->line = f->line;
    r->program->input =
        onnx_alloc(&r->program->arena,
                   (size_t)(f->n_params + 1) * sizeof *r->program->input);
    if (!r->program->input)
        return ts_no_memory(r);
    for (int i = 1; i < f->n_params; i++) {
        const struct ts_param *p = &f->param[i];

        if (!p->type || pb_span_is(p->type->text, "Tensor"))
            add_input(r, p);
        else if (!p->otherwise)
            return ts_fail(r, INFER_EUNSUPPORTED,
                           "input '%.*s' is no tensor, and has no default",
                           PB_TEXT(p->name, 64));
    }
    return r->program->n_inputs
               ? 0
               : ts_fail(r, INFER_EUNSUPPORTED, "forward() takes no tensor");
}

/* ---- outputs ------------------------------------------------------- */

static int add_output(struct ts_run *r, const struct ts_value *v);

static int add_outputs(struct ts_run *r, const struct ts_list *list, int from,
                       int step)
{
    int rc = 0;

    if (++r->depth > TS_MAX_DEPTH)
        return ts_fail(r, INFER_EUNSUPPORTED, "outputs are nested too deep");
    for (int i = from; i < list->n && rc == 0; i += step)
        rc = add_output(r, &list->item[i]);
    r->depth--;
    return rc;
}

/* Tensors in order; None is no output. */
static int add_output(struct ts_run *r, const struct ts_value *v)
{
    struct aten_program *p = r->program;

    if (v->kind == TSV_NONE)
        return 0;
    if (ts_is_list(v))
        return add_outputs(r, v->list, 0, 1);
    if (v->kind == TSV_DICT)
        return add_outputs(r, v->list, 1, 2);
    if (!ts_is_value(v))
        return ts_fail(r, INFER_EUNSUPPORTED, "an output that is no tensor");
    if (p->n_outputs == ONNX_MAX_OUTPUTS)
        return ts_fail(r, INFER_EUNSUPPORTED, "more than %d outputs",
                       ONNX_MAX_OUTPUTS);
    p->output[p->n_outputs++] = v->text;
    return 0;
}

int ts_run_forward(struct ts_run *r)
{
    const struct ts_function *f;
    struct ts_value self, result;
    struct ts_arg *arg;
    int rc = find_forward(r, &self, &f), n = 1;

    if (rc < 0)
        return rc;
    r->file = f->file;
    r->line = f->line;
    arg =
        onnx_alloc(r->arena, (size_t)(r->program->n_inputs + 1) * sizeof *arg);
    r->program->output =
        onnx_alloc(r->arena, ONNX_MAX_OUTPUTS * sizeof *r->program->output);
    r->program->n_outputs = 0;
    if (!arg || !r->program->output)
        return ts_no_memory(r);
    arg[0].value = self;
    for (int i = 0; i < r->program->n_inputs; i++)
        arg[n++] = (struct ts_arg){
            .name = r->program->input[i].name,
            .value = {.kind = TSV_TENSOR, .text = r->program->input[i].name}};
    rc = ts_call(r, f, n, arg, &result);
    if (rc == 0)
        rc = add_output(r, &result);
    if (rc == 0 && r->program->n_outputs == 0)
        rc = ts_fail(r, INFER_EFORMAT, "the program has no output");
    return rc;
}
