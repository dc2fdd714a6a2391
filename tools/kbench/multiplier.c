/* SPDX-License-Identifier: Apache-2.0 */
/* kbench multiplier: errors of approximate multipliers, and their tables in our
 * own form. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/multiplier.h"
#include "tools/kbench/kbench.h"
#include "tools/kbench/multiplier_report.h"
#include "tools/multiplier_source.h"
#include "weights/weights.h"

static const char usage[] =
    "usage: kbench multiplier FILE|NAME... [options]\n"
    "\n"
    "Prints the errors of multipliers over all pairs of operands.  A file is "
    "a\n"
    "table of ApproxTrain (NAME_m.bin), TFApprox (131072 bytes), AdaPT (a C\n"
    "array), ApproxTorch (rows of text) or of --axm; a name is one of --list.\n"
    "Operands of floating point count as their significands, 1 <= v < 2.  A\n"
    "name \"*.c\" is compiled (doc/multipliers.md).\n";

struct request {
    const char *axm, *html, *model, *inputs;
    bool list;
};

/* What reports need beside the request. */
struct reporting {
    const struct graph *graph;     /* of --model, or NULL */
    const struct samples *samples; /* of --inputs, or NULL */
    cJSON *all;
    FILE *page; /* NULL: none */
};

static const struct cli_option options[] = {
    {"axm", 0, CLI_TEXT, "FILE", "write the table of the only multiplier",
     CLI_FIELD(struct request, axm)},
    {"html", 0, CLI_TEXT, "FILE", "a page with a map of the errors",
     CLI_FIELD(struct request, html)},
    {"model", 0, CLI_TEXT, "FILE",
     "second operands count as often as this network's weights have them",
     CLI_FIELD(struct request, model)},
    {"inputs", 0, CLI_TEXT, "PATH[:N]",
     "first operands count as often as its layers read them in these "
     "pictures or arrays",
     CLI_FIELD(struct request, inputs)},
    {"list", 0, CLI_FLAG, NULL, "built-in multipliers",
     CLI_FIELD(struct request, list)},
    {NULL}};

/* ---- reports ------------------------------------------------------- */

static const char *operands_of(const struct multiplier *m)
{
    if (m->kind == MULTIPLIER_FLOAT)
        return "floating point";
    return m->is_signed ? "signed integers" : "unsigned integers";
}

static void print(const struct multiplier *m, const struct multiplier_errors *e)
{
    cli_print("%s: %s of %d %sbits (%s), %zu products, CRC-32 %08x%s\n",
              m->name, operands_of(m), m->bits,
              m->kind == MULTIPLIER_FLOAT ? "mantissa " : "", m->form,
              multiplier_entries(m), m->crc,
              e->commutative ? "" : ", not commutative");
    cli_print("  wrong products         %12.6g %%\n", 100 * e->rate);
    cli_print("  mean error (bias)      %12.6g   relative %.6g %%\n", e->mean,
              100 * e->relative_bias);
    cli_print("  mean absolute error    %12.6g   relative %.6g %%\n",
              e->mean_absolute, 100 * e->mean_relative);
    cli_print("  worst error            %12.6g   relative %.6g %%\n", e->worst,
              100 * e->worst_relative);
    if (e->worst != 0)
        cli_print("  worst operands         %12.6g x %.6g = %.6g\n",
                  multiplier_operand(m, e->worst_a),
                  multiplier_operand(m, e->worst_b),
                  multiplier_product(m, e->worst_a, e->worst_b));
}

static cJSON *json_of(const struct multiplier *m,
                      const struct multiplier_errors *e)
{
    cJSON *o = cJSON_CreateObject();
    const struct {
        const char *key;
        double value;
    } number[] = {
        {"bits", m->bits},
        {"entries", (double)multiplier_entries(m)},
        {"crc32", m->crc},
        {"rate", e->rate},
        {"mean", e->mean},
        {"mean_absolute", e->mean_absolute},
        {"worst", e->worst},
        {"worst_a", multiplier_operand(m, e->worst_a)},
        {"worst_b", multiplier_operand(m, e->worst_b)},
        {"mean_relative", e->mean_relative},
        {"worst_relative", e->worst_relative},
        {"relative_bias", e->relative_bias},
    };

    if (!cJSON_AddStringToObject(o, "name", m->name) ||
        !cJSON_AddStringToObject(o, "form", m->form) ||
        !cJSON_AddStringToObject(o, "operands", operands_of(m)) ||
        !cJSON_AddBoolToObject(o, "commutative", e->commutative))
        cli_lose_output();
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        if (!cJSON_AddNumberToObject(o, number[i].key, number[i].value))
            cli_lose_output();
    return o;
}

/* ---- the command --------------------------------------------------- */

static int list_formulas(void)
{
    const char *help;

    for (int i = 0; multiplier_formula(i, &help); i++)
        cli_print("%-20s %s\n", multiplier_formula(i, &help), help);
    return CLI_OK;
}

/* Reports one multiplier and writes it if asked. */
static int report(const struct cli *cli, const struct request *r,
                  const char *text, const struct reporting *to,
                  struct infer_error *err)
{
    struct multiplier_errors e;
    struct multiplier *m = NULL;
    struct kb_operands operands = {NULL, NULL};
    int rc = tool_open_multiplier(text, err, &m);

    if (rc == 0 && m->accumulated)
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "%s: errors are those of single products: leave out "
                       ",acc=",
                       text);
    if (rc == 0 && to->graph)
        rc = kb_multiplier_count(m, to->graph, to->samples, err, &operands);
    if (rc < 0) {
        multiplier_free(m);
        return rc;
    }
    multiplier_measure(m, operands.first, operands.second, &e);
    if (!cli->json)
        print(m, &e);
    else if (!cJSON_AddItemToArray(to->all, json_of(m, &e)))
        cli_lose_output();
    if (to->page)
        kb_multiplier_put(to->page, m, &e, r->model);
    if (r->axm)
        rc = multiplier_write(m, r->axm, err);
    kb_multiplier_clear(&operands);
    multiplier_free(m);
    return rc;
}

/* Reports them all; the page is written last. */
static int report_all(const struct cli *cli, const struct request *r,
                      char *const *text, int count, struct reporting *to,
                      struct infer_error *err)
{
    struct file_part part = {0};
    char *page = NULL;
    int rc = 0;

    if (r->html)
        to->page = open_memstream(&page, &part.bytes);
    if (r->html && !to->page)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (to->page)
        kb_multiplier_begin(to->page);
    for (int i = 0; rc == 0 && i < count; i++)
        rc = report(cli, r, text[i], to, err);
    if (to->page)
        kb_multiplier_end(to->page);
    if (to->page && fclose(to->page) != 0 && rc == 0)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    part.data = page;
    if (rc == 0 && r->html)
        rc = cli_write_file(r->html, &part, 1, err);
    free(page);
    return rc;
}

static int check(const struct cli *cli, const struct request *r, int count)
{
    if (count < 2 && !r->list) {
        cli_error(cli, "no multiplier is given (--list, --help)");
        return CLI_USAGE;
    }
    if (r->inputs && !r->model) {
        cli_error(cli, "--inputs needs --model");
        return CLI_USAGE;
    }
    if (r->axm && count != 2) {
        cli_error(cli, "--axm takes one multiplier, not %d", count - 1);
        return CLI_USAGE;
    }
    return CLI_OK;
}

int kb_multiplier(int argc, char **argv)
{
    struct cli cli = {.tool = "kbench", .usage = usage, .option = options};
    struct request r = {0};
    struct infer_error err = {0};
    int count = 0, rc = 0;
    const int parsed = cli_parse(&cli, argc, argv, &r, &count);

    if (parsed != 0)
        return parsed < 0 ? CLI_USAGE : CLI_OK;
    if (check(&cli, &r, count) != CLI_OK)
        return CLI_USAGE;
    if (r.list)
        return list_formulas();
    struct weights_network network = {0};
    struct weights_options read;
    struct samples samples = {0};
    struct reporting to = {.all = cli.json ? cJSON_CreateArray() : NULL};
    if (r.model) {
        weights_options_init(&read);
        rc = weights_network_open(r.model, &read, &err, &network);
        if (rc == 0 && !network.graph)
            rc = error_set(&err, INFER_EUNSUPPORTED, "%s: has no network",
                           r.model);
        to.graph = network.graph;
    }
    if (rc == 0 && r.inputs)
        rc = samples_read(r.inputs, network.graph, &err, &samples);
    if (rc == 0 && r.inputs)
        to.samples = &samples;
    if (rc == 0)
        rc = report_all(&cli, &r, argv + 1, count - 1, &to, &err);
    samples_clear(&samples);
    weights_network_close(&network);
    if (rc < 0) {
        cJSON_Delete(to.all);
        return cli_fail(&cli, &err);
    }
    if (cli.json)
        cli_print_json(to.all, false);
    return CLI_OK;
}
