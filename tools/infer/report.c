/* SPDX-License-Identifier: Apache-2.0 */
/* --profile, --report-memory, --report-load-time, and the one JSON document of
 * --json. */
#include "tools/infer/infer_tool.h"

#include <string.h>
#include <sys/resource.h>

#include "kernels/base/json.h"
#include "tools/terminal.h"

/* Peak resident memory of this program, bytes.  VmHWM restarts with each
 * program; ru_maxrss would keep the peak of a large parent. */
size_t tool_peak_bytes(void)
{
    unsigned long long kib = 0;
    struct rusage usage;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    if (kib > 0)
        return (size_t)kib * 1024;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

/* ---- text ---------------------------------------------------------- */

static double total_seconds(const struct infer_session *session)
{
    struct infer_layer_info layer;
    double total = 0;
    int i;

    for (i = 0; i < infer_session_layer_count(session); i++)
        if (infer_session_layer(session, i, &layer) == INFER_OK)
            total += layer.seconds;
    return total;
}

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds / 1e9 : 0;
}

/* Columns of a line with kernel and node; on a narrower terminal the kernel has
 * a line of its own. */
#define PROFILE_WIDTH 126

static void print_layers(const struct infer_session *session)
{
    const int columns = terminal_columns();
    double total = total_seconds(session);
    struct infer_layer_info l;
    int i;

    const bool narrow = columns > 0 && columns < PROFILE_WIDTH;

    printf("%4s %9s %6s %9s %8s  %-14s %s%s\n", "#", "ms", "%", "GFLOP/s",
           "GB/s", "op", narrow ? "node, kernel" : "kernel",
           narrow ? "" : "                                   node");
    for (i = 0; i < infer_session_layer_count(session); i++) {
        if (infer_session_layer(session, i, &l) < 0)
            continue;
        cli_print("%4d %9.4f %6.2f %9.1f %8.1f  %-14s ", i, 1e3 * l.seconds,
                  total > 0 ? 100 * l.seconds / total : 0,
                  rate(l.flops, l.seconds), rate(l.bytes, l.seconds), l.op);
        if (narrow)
            cli_print("%s\n%22s%s", l.name, "", l.kernel);
        else
            cli_print("%-40s %s", l.kernel, l.name);
        cli_print("%s%s%s\n", l.variant[0] ? " [" : "", l.variant,
                  l.variant[0] ? "]" : "");
    }
    printf("     %9.4f ms in all\n", 1e3 * total);
}

static void print_memory(const struct infer_session *session)
{
    struct infer_memory_info m;
    char text[32];

    if (infer_session_memory(session, &m) < 0)
        return;
    printf("activations  %s",
           cli_bytes((double)m.activations, text, sizeof(text)));
    printf(" (%s without reuse)\n",
           cli_bytes((double)m.activations_unshared, text, sizeof(text)));
    printf("weights      %s\n",
           cli_bytes((double)m.weights, text, sizeof(text)));
    printf("workspace    %s\n",
           cli_bytes((double)m.workspace, text, sizeof(text)));
    printf("peak of the process  %s\n",
           cli_bytes((double)tool_peak_bytes(), text, sizeof(text)));
}

/* ---- JSON ---------------------------------------------------------- */

static cJSON *layers_json(const struct infer_session *session)
{
    cJSON *json = cJSON_CreateArray();
    struct infer_layer_info l;
    int i;

    for (i = 0; i < infer_session_layer_count(session); i++) {
        cJSON *item;

        if (infer_session_layer(session, i, &l) < 0)
            continue;
        item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", l.name);
        cJSON_AddStringToObject(item, "op", l.op);
        cJSON_AddStringToObject(item, "kernel", l.kernel);
        if (l.variant[0])
            cJSON_AddStringToObject(item, "variant", l.variant);
        cJSON_AddNumberToObject(item, "ms", 1e3 * l.seconds);
        cJSON_AddNumberToObject(item, "flops", l.flops);
        cJSON_AddNumberToObject(item, "bytes", l.bytes);
        json_append(json, item);
    }
    return json;
}

static void add_memory(cJSON *json, const struct infer_session *session)
{
    struct infer_memory_info m;
    cJSON *item;

    if (infer_session_memory(session, &m) < 0)
        return;
    item = cJSON_AddObjectToObject(json, "memory");
    cJSON_AddNumberToObject(item, "activations", (double)m.activations);
    cJSON_AddNumberToObject(item, "activations_unshared",
                            (double)m.activations_unshared);
    cJSON_AddNumberToObject(item, "weights", (double)m.weights);
    cJSON_AddNumberToObject(item, "workspace", (double)m.workspace);
    cJSON_AddNumberToObject(item, "peak_bytes", (double)tool_peak_bytes());
}

/* The result alone, or one object with the reports. */
static void print_document(struct tool_run *run, bool layers)
{
    const struct tool_request *r = run->request;
    cJSON *json = run->result;

    run->result = NULL;
    if (layers || r->report_memory || r->report_load_time) {
        if (json == NULL || run->result_name != NULL) {
            cJSON *outer = cJSON_CreateObject();

            if (json != NULL)
                json_put(outer, run->result_name, json);
            json = outer;
        }
        if (layers)
            json_put(json, "layers", layers_json(run->session));
        if (r->report_memory)
            add_memory(json, run->session);
        if (r->report_load_time) {
            cJSON *item = cJSON_AddObjectToObject(json, "load_time");

            cJSON_AddNumberToObject(item, "open_ms", 1e3 * run->load_seconds);
            cJSON_AddNumberToObject(item, "plan_ms", 1e3 * run->plan_seconds);
        }
    }
    if (json != NULL)
        cli_print_json(json, false);
}

int tool_report(struct tool_run *run, struct infer_error *err)
{
    const struct tool_request *r = run->request;
    const bool layers = r->profile && r->profile_file == NULL;

    if (r->profile && !layers) {
        const int rc = cli_write_json(r->profile_file,
                                      layers_json(run->session), false, err);

        if (rc < 0)
            return rc;
    }
    if (run->cli->json) {
        print_document(run, layers);
        return INFER_OK;
    }
    if (layers)
        print_layers(run->session);
    if (r->report_load_time)
        printf("open %.1f ms, plan %.1f ms\n", 1e3 * run->load_seconds,
               1e3 * run->plan_seconds);
    if (r->report_memory)
        print_memory(run->session);
    return INFER_OK;
}
