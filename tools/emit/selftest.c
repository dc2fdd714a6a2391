/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The self-test of an emitted file: inputs from a small generator, and what the
 * reference backend makes of them, as a checksum of all bits and some values.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "tools/emit/emitter.h"

/* Values of each output that are compared one by one. */
#define SAMPLES 16

/* Numerical Recipes' generator, 32 bits. */
static uint32_t next(uint32_t *state)
{
    return *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
}

/* Reals: multiples of 2^-23 in [-1, 1); integers: 0 to 255 in bytes, 0 or 1
 * elsewhere. */
static void fill(const struct emit_port *port, uint32_t *state, void *data)
{
    const bool bytes = port->dtype == INFER_I8 || port->dtype == INFER_U8;

    for (int64_t i = 0; i < port->count; i++) {
        const uint32_t bits = next(state);

        if (scalar_is_float(port->dtype))
            scalar_store(port->dtype, data, i,
                         (double)(bits >> 8) / 8388608 - 1);
        else
            scalar_store_i64(port->dtype, data, i,
                             bytes ? (int64_t)(bits >> 24) -
                                         (port->dtype == INFER_I8 ? 128 : 0)
                                   : (int64_t)(bits >> 31));
    }
}

/* FNV-1a over the bytes of each element, the lowest first. */
static uint32_t checksum(const struct emit_port *port, const void *data,
                         uint32_t sum)
{
    const size_t size = infer_dtype_size(port->dtype);
    const unsigned char *at = data;

    for (int64_t i = 0; i < port->count; i++, at += size) {
        uint64_t bits = 0;
        uint32_t half;

        if (size == 8) {
            memcpy(&bits, at, 8);
        } else if (size == 4) {
            memcpy(&half, at, 4);
            bits = half;
        } else {
            bits = (uint64_t)scalar_load_i64(port->dtype, at, 0);
        }
        for (size_t k = 0; k < size; k++)
            sum = (sum ^ (uint32_t)(bits >> 8 * k & 255)) * UINT32_C(16777619);
    }
    return sum;
}

/* ---- the reference's results ---------------------------------------- */

struct run {
    void **in;
    void *arena, *workspace;
};

static int allocate(const struct emit_ports *ports, const struct plan *plan,
                    struct run *run, struct infer_error *err)
{
    uint32_t state = 1;

    run->in = calloc((size_t)ports->n_in + 1, sizeof(*run->in));
    run->arena = aligned_alloc(64, (plan->arena_bytes / 64 + 1) * 64);
    run->workspace = aligned_alloc(64, (plan->workspace_bytes / 64 + 1) * 64);
    if (!run->in || !run->arena || !run->workspace)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < ports->n_in; i++) {
        const struct emit_port *port = &ports->in[i];

        run->in[i] =
            malloc((size_t)port->count * infer_dtype_size(port->dtype) + 1);
        if (!run->in[i])
            return error_set(err, INFER_EMEMORY, "out of memory");
        fill(port, &state, run->in[i]);
    }
    return 0;
}

static int run_plan(struct plan *plan, const struct run *run,
                    struct infer_error *err)
{
    plan_bind(plan, run->arena, run->workspace);
    for (int i = 0; i < plan->n_patches; i++) {
        const struct plan_patch *p = &plan->patch[i];
        *p->slot = (const char *)run->in[p->input] + p->bytes;
    }
    return plan_launch(plan, err);
}

static void release(const struct emit_ports *ports, struct run *run)
{
    for (int i = 0; run->in && i < ports->n_in; i++)
        free(run->in[i]);
    free(run->in);
    free(run->arena);
    free(run->workspace);
}

/* ---- the text ------------------------------------------------------ */

static const char generator[] =
    "static uint32_t state = 1;\n\n"
    "static uint32_t next(void)\n"
    "{\n"
    "    state = (uint32_t)(state * UINT32_C(1664525) + "
    "UINT32_C(1013904223));\n"
    "    return state;\n"
    "}\n\n";

static const char comparison[] =
    "static uint32_t mix(uint32_t sum, uint64_t bits, int bytes)\n"
    "{\n"
    "    for (int k = 0; k < bytes; k++)\n"
    "        sum = (uint32_t)((sum ^ (uint32_t)(bits >> 8 * k & 255)) *\n"
    "                         UINT32_C(16777619));\n"
    "    return sum;\n"
    "}\n\n"
    "/* The largest difference of some elements from the reference's, over "
    "the\n"
    " * largest of these. */\n"
    "static double worst, largest;\n\n"
    "static void compare(double found, double wanted)\n"
    "{\n"
    "    const double d = found != found && wanted != wanted ? 0\n"
    "                     : found == wanted ? 0 : fabs(found - wanted);\n"
    "    if (!(d <= worst))\n"
    "        worst = d;\n"
    "    if (fabs(wanted) > largest)\n"
    "        largest = fabs(wanted);\n"
    "}\n\n";

static void add_fill(struct emit_text *out, const struct emit_port *p)
{
    const char *type = emit_type(p->dtype);

    emit_text_add(out, "    for (long i = 0; i < %" PRId64 "; i++)\n",
                  p->count);
    if (scalar_is_float(p->dtype))
        emit_text_add(out, "        %s[i] = (%s)(next() >> 8) / 8388608 - 1;\n",
                      p->name, type);
    else if (p->dtype == INFER_I8)
        emit_text_add(out,
                      "        %s[i] = (int8_t)((int)(next() >> 24) - 128);\n",
                      p->name);
    else if (p->dtype == INFER_U8)
        emit_text_add(out, "        %s[i] = (uint8_t)(next() >> 24);\n",
                      p->name);
    else
        emit_text_add(out, "        %s[i] = (%s)(next() >> 31);\n", p->name,
                      type);
}

static void add_check(struct emit_text *out, const struct emit_port *p)
{
    const size_t size = infer_dtype_size(p->dtype);

    emit_text_add(out, "    for (long i = 0; i < %" PRId64 "; i++) {\n",
                  p->count);
    if (scalar_is_float(p->dtype))
        emit_text_add(out,
                      "        uint%zu_t bits;\n"
                      "        memcpy(&bits, &%s[i], sizeof(bits));\n"
                      "        sum = mix(sum, bits, %zu);\n",
                      8 * size, p->name, size);
    else
        emit_text_add(out, "        sum = mix(sum, (uint64_t)%s[i], %zu);\n",
                      p->name, size);
    emit_text_add(out, "    }\n");
}

/* Element i of output p as a literal. */
static void add_literal(struct emit_text *out, double v)
{
    if (isnan(v))
        emit_text_add(out, "(double)NAN");
    else if (isinf(v))
        emit_text_add(out, "%s(double)INFINITY", v < 0 ? "-" : "");
    else
        emit_text_add(out, "%.17g", v);
}

static void add_samples(struct emit_text *out, const struct emit_port *p,
                        const void *data)
{
    const int64_t n = p->count < SAMPLES ? p->count : SAMPLES;

    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * (p->count / n);
        emit_text_add(out, "    compare((double)%s[%" PRId64 "], ", p->name,
                      at);
        add_literal(out, scalar_load(p->dtype, data, at));
        emit_text_add(out, ");\n");
    }
}

static void add_main(const struct emit *e, const struct emit_ports *ports,
                     void *const *results, struct emit_text *out)
{
    uint32_t sum = UINT32_C(2166136261);

    emit_text_add(out, "int main(void)\n{\n");
    for (int i = 0; i < ports->n_in + ports->n_out; i++) {
        const struct emit_port *p =
            i < ports->n_in ? &ports->in[i] : &ports->out[i - ports->n_in];
        emit_text_add(out, "    static %s %s[%" PRId64 "];\n",
                      emit_type(p->dtype), p->name, p->count);
    }
    emit_text_add(out, "    uint32_t sum = UINT32_C(2166136261);\n\n");
    for (int i = 0; i < ports->n_in; i++)
        add_fill(out, &ports->in[i]);
    emit_text_add(out, "    %s_run(", e->name);
    for (int i = 0; i < ports->n_in + ports->n_out; i++)
        emit_text_add(out, "%s%s", i > 0 ? ", " : "",
                      i < ports->n_in ? ports->in[i].name
                                      : ports->out[i - ports->n_in].name);
    emit_text_add(out, ");\n");
    for (int i = 0; i < ports->n_out; i++) {
        add_check(out, &ports->out[i]);
        add_samples(out, &ports->out[i], results[i]);
        sum = checksum(&ports->out[i], results[i], sum);
    }
    emit_text_add(
        out,
        "    if (sum == UINT32_C(0x%08" PRIx32 ")) {\n"
        "        printf(\"%s: the bits of the reference\\n\");\n"
        "        return 0;\n"
        "    }\n"
        "    printf(\"%s: other bits than the reference's; largest \"\n"
        "           \"difference %%g, of values up to %%g\\n\",\n"
        "           worst, largest);\n"
        "    return worst <= 1e-4 * largest ? 2 : 1;\n"
        "}\n",
        sum, e->name, e->name);
}

int emit_selftest(const struct emit *e, const struct emit_ports *ports,
                  struct plan *plan, struct infer_error *err,
                  struct emit_text *out)
{
    struct run run = {0};
    void **results = calloc((size_t)ports->n_out + 1, sizeof(*results));
    int rc = results ? allocate(ports, plan, &run, err)
                     : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc == 0)
        rc = run_plan(plan, &run, err);
    for (int i = 0; rc == 0 && i < ports->n_out; i++) {
        results[i] = plan_locate(plan, &plan->output[i]);
        if (!results[i])
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "output '%s' is an input or a constant",
                           ports->out[i].value->name);
    }
    if (rc == 0) {
        if (ports->n_in > 0)
            emit_text_put(out, generator, sizeof(generator) - 1);
        emit_text_put(out, comparison, sizeof(comparison) - 1);
        add_main(e, ports, results, out);
    }
    free(results);
    release(ports, &run);
    return rc;
}
