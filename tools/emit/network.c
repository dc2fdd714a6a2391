/* SPDX-License-Identifier: Apache-2.0 */
/* The emitted file: plan, memory, functions, text. */
#include "tools/emit/emit.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/file_write.h"
#include "kernels/base/memory_size.h"
#include "kernels/base/text.h"
#include "tools/emit/emitter.h"

/* Memory of a buffer that is an output of the network; beyond those of enum
 * plan_memory. */
enum { CALLERS = 16 };

/* Part of the memory that a plan may take: the text of its constants and their
 * copies take up to nine times as much. */
#define MEMORY_SHARE 10
/* Largest work of the self-test's run on the reference backend: about an hour.
 */
#define MAX_WORK 1e12

/* ---- names --------------------------------------------------------- */

/* The file's name without folder and ".c", as an identifier. */
static int take_name(const char *path, struct infer_error *err,
                     char name[EMIT_NAME])
{
    const char *slash = strrchr(path, '/');
    const char *from = slash ? slash + 1 : path;
    const size_t n = strlen(from);
    size_t used = 0;

    if (n < 3 || !text_ends(from, ".c"))
        return error_set(err, INFER_EARGUMENT,
                         "%s: the name of a C file ends in .c", path);
    if (!isalpha((unsigned char)from[0]))
        used = (size_t)snprintf(name, EMIT_NAME, "net_");
    for (size_t i = 0; i < n - 2 && used < 40; i++)
        name[used++] = isalnum((unsigned char)from[i]) ? from[i] : '_';
    name[used] = '\0';
    return 0;
}

/* Upper case, for macros. */
static void shout(const char *name, char out[EMIT_NAME])
{
    size_t i;

    for (i = 0; name[i] && i + 1 < EMIT_NAME; i++)
        out[i] = (char)toupper((unsigned char)name[i]);
    out[i] = '\0';
}

/* Names the ports in, in_NAME..., out, out_NAME...: one alone needs no name of
 * its own. */
static int name_ports(const struct graph *g, const int *value, int n,
                      const char *word, struct infer_error *err,
                      struct emit_port **out)
{
    struct emit_port *port = calloc((size_t)n + 1, sizeof(*port));

    if (!port)
        return error_set(err, INFER_EMEMORY, "out of memory");
    *out = port;
    for (int i = 0; i < n; i++) {
        const struct graph_value *v = &g->value[value[i]];
        int used = snprintf(port[i].name, EMIT_NAME, "%s", word);

        port[i].value = v;
        port[i].dtype = v->dtype;
        port[i].count = 1;
        for (int d = 0; d < v->rank; d++)
            port[i].count *= v->dim[d];
        if (port[i].count == 0)
            return error_set(err, INFER_EUNSUPPORTED, "%s '%s' is empty",
                             word[0] == 'i' ? "input" : "output", v->name);
        if (!emit_type(v->dtype))
            return error_set(err, INFER_EUNSUPPORTED, "%s '%s' is %s",
                             word[0] == 'i' ? "input" : "output", v->name,
                             infer_dtype_name(v->dtype));
        if (n == 1)
            continue;
        used +=
            snprintf(port[i].name + used, EMIT_NAME - (size_t)used, "%d_", i);
        for (const char *c = v->name; *c && used < 40; c++)
            port[i].name[used++] = isalnum((unsigned char)*c) ? *c : '_';
        port[i].name[used] = '\0';
    }
    return 0;
}

/* ---- plan ---------------------------------------------------------- */

/* The plan of the reference with channels last, and what it needs. */
struct planning {
    struct device device;
    struct infer_model *model;
    struct plan_config config;
    struct plan *plan;
};

static int fix_shapes(const struct graph *g, struct infer_error *err,
                      struct graph_shape *shape)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->rank < 0)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the shape of input '%s' is open: name one with "
                             "--input-shape",
                             v->name);
        shape[i].rank = v->rank;
        for (int d = 0; d < v->rank; d++) {
            if (v->dim[d] < 0 && d > 0)
                return error_set(err, INFER_EUNSUPPORTED,
                                 "dimension %d of input '%s' is open: name "
                                 "the shape with --input-shape",
                                 d, v->name);
            shape[i].dim[d] = v->dim[d] < 0 ? 1 : v->dim[d];
        }
    }
    return 0;
}

static int make_plan(const struct graph *g, struct infer_error *err,
                     struct planning *p)
{
    struct graph_shape *shape = calloc((size_t)g->n_inputs + 1, sizeof(*shape));
    struct graph *copy = graph_copy(g);
    int rc;

    if (!shape || !copy) {
        free(shape);
        graph_free(copy);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    rc = model_from_graph(copy, err, &p->model);
    if (rc == 0)
        rc = device_open("cpu", 1, NULL, err, &p->device);
    if (rc == 0)
        rc = fix_shapes(g, err, shape);
    p->config = (struct plan_config){
        .model = p->model,
        .device = &p->device,
        .tiers = {.n = 1, .tier = {ROW_TIER(INFER_BACKEND_REF)}},
        .deterministic = true,
        .channels_last = true,
        .spelled_out = true,
        .max_memory = memory_size() / MEMORY_SHARE,
        .max_work = MAX_WORK,
        .precision = INFER_PRECISION_FP32};
    if (rc == 0)
        rc = plan_new(&p->config, shape, err, &p->plan);
    if (rc == 0)
        rc = plan_prepare(p->plan, err);
    free(shape);
    return rc;
}

static void drop_plan(struct planning *p)
{
    plan_free(p->plan);
    device_close(&p->device);
    infer_model_close(&p->model);
}

/* ---- memory -------------------------------------------------------- */

/* Whether a step leaves elements of another type in the buffer of a view, for
 * one after it to overwrite. */
static bool is_of_types(const struct plan *plan, const struct view *v)
{
    for (int i = 0; i < plan->steps.n; i++) {
        const struct plan_step *s = plan->steps.at[i];

        for (int k = 0; k < s->exec.problem.n_out; k++)
            if (s->out[k].buffer == v->buffer &&
                s->out[k].t.dtype != v->t.dtype)
                return true;
    }
    return false;
}

/* Whether output i is the only use of a whole buffer, which then can be the
 * caller's memory: that has the output's type alone. */
static bool is_whole(const struct plan *plan, int i)
{
    const struct view *v = &plan->output[i];
    const struct plan_buffer *b = &plan->buffers.at[v->buffer];

    for (int k = 0; k < plan->g->n_outputs; k++)
        if (k != i && plan->output[k].buffer == v->buffer)
            return false;
    return b->memory == PLAN_ARENA && v->offset == 0 &&
           (size_t)kern_tensor_count(&v->t) * infer_dtype_size(v->t.dtype) ==
               b->bytes &&
           !is_of_types(plan, v);
}

/* Names the buffers that are the caller's, and places the others anew. */
static int place(struct emit *e, struct plan *plan,
                 const struct emit_ports *ports, struct infer_error *err,
                 size_t *bytes)
{
    e->pointer = calloc((size_t)plan->buffers.n + 1, sizeof(*e->pointer));
    e->used = calloc((size_t)plan->buffers.n + 1, sizeof(*e->used));
    if (!e->pointer || !e->used)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < ports->n_in; i++)
        memcpy(e->pointer[plan->input_buffer[i]], ports->in[i].name, EMIT_NAME);
    for (int i = 0; i < ports->n_out; i++)
        if (is_whole(plan, i)) {
            const int b = plan->output[i].buffer;
            memcpy(e->pointer[b], ports->out[i].name, EMIT_NAME);
            plan->buffers.at[b].memory = CALLERS;
        }
    return plan_place(&plan->buffers, 1u << PLAN_ARENA, true, err, bytes, NULL);
}

/* ---- text ---------------------------------------------------------- */

static void add_shape(struct emit_text *t, const struct emit_port *p)
{
    emit_text_add(t, "/* %s", emit_type(p->dtype));
    for (int d = 0; d < p->value->rank; d++)
        emit_text_add(t, "%s%" PRId64, d > 0 ? "x" : " ", p->value->dim[d]);
    emit_text_add(t, " */");
}

static void add_prototype(struct emit_text *t, const char *name,
                          const struct emit_ports *ports)
{
    emit_text_add(t, "void %s_run(", name);
    for (int i = 0; i < ports->n_in; i++)
        emit_text_add(t, "%sconst %s *%s", i > 0 ? ", " : "",
                      emit_type(ports->in[i].dtype), ports->in[i].name);
    for (int i = 0; i < ports->n_out; i++)
        emit_text_add(t, "%s%s *%s", ports->n_in + i > 0 ? ", " : "",
                      emit_type(ports->out[i].dtype), ports->out[i].name);
    emit_text_add(t, ")");
}

static void write_header(struct emit_text *t, const char *name,
                         const struct emit_ports *ports, const char *pictures,
                         size_t arena, bool spare)
{
    char big[EMIT_NAME], port[EMIT_NAME];

    shout(name, big);
    emit_text_add(
        t,
        "/* Written by wconv --emit-c. */\n"
        "#ifndef %s_H\n#define %s_H\n\n#include <stdint.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
        "/* Numbers of elements; arrays are dense and row-major. */\n",
        big, big);
    for (int i = 0; i < ports->n_in + ports->n_out; i++) {
        const struct emit_port *p =
            i < ports->n_in ? &ports->in[i] : &ports->out[i - ports->n_in];

        shout(p->name, port);
        emit_text_add(t, "#define %s_%s_SIZE %" PRId64 " ", big, port,
                      p->count);
        add_shape(t, p);
        emit_text_add(t, "\n");
    }
    if (pictures)
        emit_text_add(t,
                      "\n/* Pictures: %s.\n * The caller prepares them. */\n",
                      pictures);
    emit_text_add(t,
                  "\n/* Bytes of static memory besides constants%s. */\n"
                  "#define %s_ARENA_BYTES %zu\n\n"
                  "/* Runs the network once.  Inputs and outputs do not "
                  "overlap.  All calls share one\n"
                  " * arena: one at a time. */\n",
                  spare ? ", without what vectors read\n * beyond its end: 12 "
                          "bytes, or 60 of SSE2 and NEON, 124 of AVX2"
                        : "",
                  big, arena);
    add_prototype(t, name, ports);
    emit_text_add(t, ";\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static void add_arena(struct emit_text *t, const struct emit *e, size_t bytes)
{
    const uint32_t types = e->arena_types;
    static const struct {
        enum infer_dtype dtype;
        const char *name;
    } member[] = {{INFER_F64, "f64"}, {INFER_F32, "f32"}, {INFER_I64, "i64"},
                  {INFER_I32, "i32"}, {INFER_I16, "i16"}, {INFER_I8, "i8"},
                  {INFER_U32, "u32"}, {INFER_U16, "u16"}, {INFER_U8, "u8"}};

    if (types == 0)
        return;
    emit_text_add(t, "/* Activations, placed by their lifetimes. */\n"
                     "static union {\n");
    for (size_t i = 0; i < sizeof(member) / sizeof(*member); i++)
        if (types >> member[i].dtype & 1)
            emit_text_add(
                t, "    %s %s[%zu%s];\n", emit_type(member[i].dtype),
                member[i].name,
                (bytes + 7) / 8 * 8 / infer_dtype_size(member[i].dtype),
                e->arena_spare && member[i].dtype == INFER_F32 ? " + SPARE(1)"
                                                               : "");
    emit_text_add(t, "} arena;\n\n");
}

static void write_source(struct emit_text *t, const struct emit *e,
                         const struct emit_ports *ports, size_t arena,
                         const struct emit_text *test)
{
    char big[EMIT_NAME];

    shout(e->name, big);
    emit_text_add(
        t,
        "/*\n"
        " * Written by wconv --emit-c: a network as C99, for any compiler, "
        "without a library\n"
        " * but libm, without allocation.\n"
        " *\n"
        " * With `real` double, IEEE arithmetic that is not contracted "
        "(-std=c99 or\n"
        " * -ffp-contract=off; no -ffast-math; on x86 of 32 bits -msse2 "
        "-mfpmath=sse) and the\n"
        " * same libm, results are those of infer's reference backend, bit "
        "for bit, unless\n"
        " * there are denormals, which infer counts as zero.\n"
        " * -D%s_REAL=float computes sums in single precision, for "
        "processors without\n"
        " * double.  -D%s_TEST adds main(), which checks this: exit status "
        "0 for the\n"
        " * same bits, 2 for values within 1e-4 of the largest, 1 for "
        "others.\n"
        " */\n"
        "#include \"%s.h\"\n\n#include <math.h>\n#include <string.h>\n\n"
        "#ifndef %s_REAL\n#define %s_REAL double\n#endif\n"
        "typedef %s_REAL real;\n\n"
        "/* Bytes of a vector register; the last vectors of an array may read "
        "SPARE elements\n * beyond its end: those that make lanes a multiple "
        "of four vectors. */\n"
        "#if __GNUC__ < 9 && !defined(__clang__) /* no conversion of vectors "
        "*/\n"
        "#define VECTOR 4\n#elif defined(__AVX2__)\n#define VECTOR 32\n"
        "#elif defined(__SSE2__) || defined(__ARM_NEON)\n#define VECTOR 16\n"
        "#else\n#define VECTOR 4\n#endif\n"
        "#define SPARE(lanes) ((VECTOR - (lanes) %% VECTOR) %% VECTOR)\n"
        "enum { LANES = VECTOR < sizeof(real) ? 1 : VECTOR / sizeof(real) "
        "};\n\n"
        "/* Loops over neighbouring sums are for vectors, not to be "
        "unrolled. */\n"
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        "#define EACH_LANE _Pragma(\"GCC unroll 1\")\n"
        "#else\n#define EACH_LANE\n#endif\n"
        "/* Functions of many layers: one copy.  Others do the work "
        "themselves, "
        "or have it\n * done and are better small. */\n"
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        "#define SHARED __attribute__((noinline, noclone, hot))\n"
        "#define HOT __attribute__((noinline, hot))\n"
        "#define COLD __attribute__((cold))\n"
        "#else\n#define SHARED\n#define HOT\n#define COLD\n#endif\n\n",
        big, big, e->name, big, big, big);
    add_arena(t, e, arena);
    emit_arrays(e, t);
    emit_text_add(t, "%s", emit_text_of(&e->helpers));
    emit_layer_function(e, t);
    emit_layer_tables(e, t);
    emit_functions(e, t);
    emit_text_add(t, "COLD ");
    add_prototype(t, e->name, ports);
    emit_text_add(t, "\n{\n");
    for (int i = 0; i < ports->n_in; i++)
        if (!e->used[e->plan->input_buffer[i]])
            emit_text_add(t, "    (void)%s;\n", ports->in[i].name);
    emit_calls(e, t);
    emit_text_put(t, emit_text_of(&e->run), e->run.n);
    emit_text_add(t,
                  "}\n\n#ifdef %s_TEST\n#include <stdio.h>\n"
                  "#include <string.h>\n\n",
                  big);
    emit_text_put(t, emit_text_of(test), test->n);
    emit_text_add(t, "#endif\n");
}

/* Copies of outputs that are no buffers of their own. */
static void copy_outputs(struct emit *e, const struct emit_ports *ports)
{
    for (int i = 0; i < ports->n_out; i++) {
        const struct view *v = &e->plan->output[i];
        const struct emit_port *p = &ports->out[i];
        char address[128];

        if (e->pointer[v->buffer][0] &&
            strcmp(e->pointer[v->buffer], p->name) == 0)
            continue;
        if (emit_is_constant(e, v)) {
            const int a =
                emit_array(e, v->t.dtype, plan_locate(e->plan, v),
                           (size_t)p->count * infer_dtype_size(p->dtype), NULL);
            if (a < 0) {
                e->failed = true;
                continue;
            }
            e->array[a].used = true;
            snprintf(address, sizeof(address), "%s", e->array[a].name);
        } else {
            emit_address(e, v, address);
        }
        emit_text_add(&e->run,
                      "    for (long i = 0; i < %" PRId64 "; i++)\n"
                      "        %s[i] = (%s)[i];\n",
                      p->count, p->name, address);
    }
}

/* Fills a new file; none is open after a failure. */
static int put_file(const char *path, const struct emit_text *text,
                    struct infer_error *err, struct file_writer *w)
{
    int rc = file_writer_open(path, err, w);

    if (rc == 0 && (rc = file_writer_put(w, 0, text->at, text->n, err)) < 0)
        file_writer_abort(w);
    return rc;
}

static int put_files(const char *path, const struct emit_text *source,
                     const struct emit_text *header, struct infer_error *err,
                     struct file_writer w[EMIT_FILES])
{
    const size_t n = strlen(path);
    char *beside = strdup(path);
    int rc;

    if (!beside)
        return error_set(err, INFER_EMEMORY, "out of memory");
    beside[n - 1] = 'h';
    rc = put_file(beside, header, err, &w[0]);
    if (rc == 0 && (rc = put_file(path, source, err, &w[1])) < 0)
        file_writer_abort(&w[0]);
    free(beside);
    return rc;
}

/* Everything but the plan and the names. */
static int emit_all(struct emit *e, struct plan *plan,
                    const struct emit_ports *ports, const char *path,
                    const char *pictures, struct infer_error *err,
                    struct emit_summary *out, struct file_writer w[EMIT_FILES])
{
    struct emit_text source = {0}, header = {0}, test = {0};
    size_t arena = 0;
    int rc = emit_selftest(e, ports, plan, err, &test);

    if (rc == 0)
        rc = place(e, plan, ports, err, &arena);
    for (int i = 0; rc == 0 && i < plan->n_run; i++)
        rc = emit_step(e, plan->run[i], err);
    if (rc == 0)
        rc = emit_merge(e, err);
    if (rc == 0)
        copy_outputs(e, ports);
    if (rc == 0) {
        write_header(&header, e->name, ports, pictures, arena, e->arena_spare);
        write_source(&source, e, ports, arena, &test);
        if (source.failed || header.failed || test.failed || e->failed ||
            e->run.failed || e->helpers.failed)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc == 0)
        rc = put_files(path, &source, &header, err, w);
    if (rc == 0 && out) {
        *out = (struct emit_summary){.arena_bytes = arena,
                                     .source_bytes = source.n + header.n,
                                     .steps = plan->n_run};
        for (int i = 0; i < e->n_functions; i++)
            out->functions +=
                e->function[i].like < 0 || e->function[i].like == i;
        for (int i = 0; i < e->n_arrays; i++)
            out->weight_bytes += e->array[i].used ? e->array[i].bytes : 0;
    }
    emit_text_clear(&source);
    emit_text_clear(&header);
    emit_text_clear(&test);
    return rc;
}

int emit_c_put(const struct graph *g, const char *path, const char *pictures,
               struct infer_error *err, struct emit_summary *out,
               struct file_writer w[EMIT_FILES])
{
    struct planning planning = {0};
    struct emit_ports ports = {0};
    char name[EMIT_NAME];
    struct emit e = {.name = name};
    int rc = take_name(path, err, name);

    if (rc == 0 && g->multiplier != NULL)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "products of an approximate multiplier have no form in "
                       "C (--multiplier=none takes it out)");
    if (rc == 0)
        rc = make_plan(g, err, &planning);
    if (rc == 0) {
        const struct graph *shaped = planning.plan->g;

        e.plan = planning.plan;
        ports.n_in = shaped->n_inputs;
        ports.n_out = shaped->n_outputs;
        rc =
            name_ports(shaped, shaped->input, ports.n_in, "in", err, &ports.in);
        if (rc == 0)
            rc = name_ports(shaped, shaped->output, ports.n_out, "out", err,
                            &ports.out);
    }
    if (rc == 0)
        rc = emit_all(&e, planning.plan, &ports, path, pictures, err, out, w);
    if (rc < 0)
        error_prefix(err, "--emit-c");
    emit_clear(&e);
    free(ports.in);
    free(ports.out);
    drop_plan(&planning);
    return rc;
}

int emit_c(const struct graph *g, const char *path, struct infer_error *err,
           struct emit_summary *out)
{
    struct file_writer w[EMIT_FILES];
    int rc = emit_c_put(g, path, NULL, err, out, w);

    if (rc == 0 && (rc = file_writers_commit(w, EMIT_FILES, false, err)) < 0)
        error_prefix(err, "--emit-c");
    return rc;
}
