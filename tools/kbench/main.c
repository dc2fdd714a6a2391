/* SPDX-License-Identifier: Apache-2.0 */
/* kbench: verify, then time, the kernels for one problem, a sweep or every
 * layer of a model; ours, the vendor's and the reference. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tools/kbench/kbench.h"

static const char usage[] =
    "usage: kbench conv -n N -c C -H H -k K -R R [options]\n"
    "       kbench --problem=mb32ic64ih56oc64oh56kh3ph1 [options]\n"
    "       kbench conv -c4 -H32 -R3 --pad=1 --sweep n=1,4,16 --sweep "
    "k=1:16:x4\n"
    "       kbench [conv|dense|pool|transpose|all] --model=FILE|ARCHITECTURE\n"
    "       kbench [conv|...] FILE --sample=N --seed=S [options]\n"
    "       kbench multiplier FILE|NAME... [--axm=FILE]\n"
    "\n"
    "Verifies each kernel that supports a problem against the reference, then\n"
    "times it: ours, the baselines of cuDNN or oneDNN with all their engines,\n"
    "and the reference.  Shows times, rates, the share of what the device can\n"
    "do at best, and the ratio to the best baseline.\n"
    "\n"
    "A file of problems has a line each: a weight and a problem without its "
    "batch,\n"
    "such as 12 conv_fprop ic64ih56oc64oh56kh3ph1 +bias +relu.\n";

static int kbench(int argc, char **argv)
{
    struct kb_request request;
    struct cli cli = {.tool = "kbench", .usage = usage};
    struct infer_error err = {0};
    char *command = kb_command(argc, argv);

    kern_baseline_add();
    const int parsed = kb_parse(&cli, argc, argv, &request);
    if (parsed != 0) {
        kb_request_clear(&request);
        free(command);
        return parsed < 0 ? CLI_USAGE : CLI_OK;
    }
    enum cli_exit code = CLI_OK;
    if (request.list_kernels) {
        if (kb_list_kernels(&request) == 0) {
            cli_error(&cli, "no such kernel in this build");
            code = CLI_USAGE;
        }
        kb_request_clear(&request);
        free(command);
        return code;
    }
    if (kb_run(&request, command ? command : "", &err, &code) < 0)
        code = cli_fail(&cli, &err);
    kb_request_clear(&request);
    free(command);
    return code;
}

int main(int argc, char **argv)
{
    const bool multiplier = argc > 1 && strcmp(argv[1], "multiplier") == 0;

    return cli_main("kbench", argc, argv, multiplier ? kb_multiplier : kbench);
}
