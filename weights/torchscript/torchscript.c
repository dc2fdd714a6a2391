/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of TorchScript: traced, scripted and frozen modules that
 * torch.jit.save() wrote (archive.c says what is in them).
 *
 * The program of forward() is run by a machine of our own (script.h), which
 * tells the operators on tensors to the importer.  With an architecture, or
 * where bare weights are asked for, the reader of PyTorch's files takes the
 * tensors instead.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

extern const struct weights_format weights_format_pytorch;

static int probe(const struct weights_file *file)
{
    struct zipfile zip;
    int score;

    if (!zipfile_probe(file->blob) || zipfile_open(file->blob, NULL, &zip) < 0)
        return 0;
    score = ts_archive_probe(&zip) ? 97 : 0;
    zipfile_close(&zip);
    return score;
}

/* ---- as a program of aten.h ---------------------------------------- */

static int load(struct onnx_import *im, void *user, size_t index,
                struct constant **out)
{
    struct ts_archive *a = user;
    const int which = (int)(index % TS_PICKLES);
    char name[64];

    snprintf(name, sizeof name, "%s %zu",
             which == TS_DATA ? "weight" : "constant", index / TS_PICKLES);
    return torch_tensor(&a->source[which], (uint32_t)(index / TS_PICKLES), name,
                        im->err, out);
}

static int run(struct onnx_import *im, void *user)
{
    struct aten_program *program = aten_of(im)->program;
    struct ts_run r = {
        .im = im, .err = im->err, .arena = &im->keep, .program = program};
    int rc = ts_run_open(&r, user);

    program->unfinished = true;
    if (rc == 0)
        rc = ts_run_forward(&r);
    ts_run_close(&r);
    im->node = NULL;
    program->unfinished = rc < 0;
    return rc < 0 ? rc : r.result;
}

/* ---- inputs -------------------------------------------------------- */

static bool is_given(const struct weights_options *options, struct pb_span name,
                     int position)
{
    for (int i = 0; i < options->input_count; i++) {
        const struct weights_input_shape *s = &options->input_shape[i];

        if (s->name ? pb_span_is(name, s->name) : i == position)
            return true;
    }
    return false;
}

/* The type that the user states for an input, which the file's may not
 * contradict. */
static int state_type(const struct weights_options *options, int position,
                      struct aten_input *in, struct infer_error *err)
{
    const struct weights_input_type *t = NULL;

    for (int i = 0; i < options->input_type_count && !t; i++) {
        t = &options->input_type[i];
        if (t->name ? !pb_span_is(in->name, t->name) : i != position)
            t = NULL;
    }
    if (!t)
        return 0;
    if (!in->assumed && t->dtype != in->dtype)
        return error_set(err, INFER_EARGUMENT,
                         "--input-type: input '%.*s' is of type %s by the file",
                         PB_TEXT(in->name, 64), infer_dtype_name(in->dtype));
    in->dtype = t->dtype;
    in->assumed = false;
    return 0;
}

/* The sizes that the file was traced with, for inputs whose sizes are not
 * given; true where one had other sizes. */
static bool take_examples(const struct weights_options *options,
                          struct aten_program *program)
{
    bool changed = false;

    for (int i = 0; i < program->n_inputs; i++) {
        struct aten_input *in = &program->input[i];

        if (is_given(options, in->name, i) || in->example_rank < 0)
            continue;
        changed |= in->rank != in->example_rank ||
                   memcmp(in->dim, in->example,
                          (size_t)in->example_rank * sizeof *in->dim) != 0;
        in->rank = in->example_rank;
        memcpy(in->dim, in->example, sizeof in->dim);
        program->examples = true;
    }
    return changed;
}

static int find_inputs(struct ts_archive *a,
                       const struct weights_options *options,
                       struct infer_error *err, struct aten_program *program)
{
    struct ts_run r = {
        .program = program, .err = err, .arena = &program->arena};
    int rc = ts_run_open(&r, a);

    if (rc == 0)
        rc = ts_list_inputs(&r);
    ts_run_close(&r);
    if (rc == 0)
        rc = ts_read_traced(a, program, err);
    for (int i = 0; i < program->n_inputs && rc == 0; i++)
        rc = state_type(options, i, &program->input[i], err);
    if (rc == 0)
        rc = ts_guess_inputs(a, program);
    for (int i = 0; i < program->n_inputs && rc == 0; i++)
        if (program->input[i].rank < 0 && program->input[i].example_rank >= 0 &&
            !is_given(options, program->input[i].name, i)) {
            /* One of them needs its example: then all have theirs. */
            take_examples(options, program);
            break;
        }
    for (int i = 0; i < program->n_inputs && rc == 0; i++)
        if (program->input[i].rank < 0 &&
            !is_given(options, program->input[i].name, i))
            return error_set(
                err, INFER_EUNSUPPORTED,
                "a TorchScript file does not state the shape of its input "
                "'%.*s', and no convolution reads it: give the shape with "
                "--input-shape (or take the weights alone with "
                "--from=pytorch)",
                PB_TEXT(program->input[i].name, 64));
        else if (program->input[i].rank >= 0 &&
                 is_given(options, program->input[i].name, i))
            program->input[i].rank = -1; /* what is given holds */
    return rc;
}

static bool assumes(const struct aten_program *program)
{
    for (int i = 0; i < program->n_inputs; i++)
        if (program->input[i].assumed)
            return true;
    return false;
}

static int read_program(struct ts_archive *a,
                        const struct weights_options *options,
                        struct infer_error *err, struct weights_import *out)
{
    struct aten_program program = {.load = load, .run = run, .user = a};
    int rc = find_inputs(a, options, err, &program);

    if (rc == 0)
        rc = aten_import(&program, options, err, &out->graph);
    if (rc == INFER_EUNSUPPORTED && take_examples(options, &program)) {
        error_clear(err);
        rc = aten_import(&program, options, err, &out->graph);
    }
    if (rc == 0)
        snprintf(out->detail, sizeof out->detail, "program of TorchScript%s%s",
                 program.examples ? ", sizes of its trace" : "",
                 assumes(&program) ? ", inputs of floats assumed" : "");
    onnx_arena_clear(&program.arena);
    return rc;
}

static int read(struct weights_file *file,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out)
{
    struct infer_error local;
    struct ts_archive a;
    int rc;

    if (options->bare || options->arch)
        return weights_format_pytorch.read(file, options, err, out);
    if (!err)
        err = &local;
    rc = ts_archive_open(file->blob, err, &a);
    if (rc < 0)
        return rc;
    if (a.there[TS_DATA])
        rc = read_program(&a, options, err, out);
    else
        rc = error_set(err, INFER_EFORMAT, "the archive has no data.pkl");
    ts_archive_close(&a);
    return rc;
}

const struct weights_format weights_format_torchscript = {
    .name = "torchscript",
    .description =
        "TorchScript program of torch.jit.save (.pt): traced, scripted, frozen",
    .probe = probe,
    .read = read,
};
