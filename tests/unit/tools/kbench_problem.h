/* SPDX-License-Identifier: Apache-2.0 */
/* A problem of kbench from a line of words. */
#ifndef TESTS_UNIT_TOOLS_KBENCH_PROBLEM_H
#define TESTS_UNIT_TOOLS_KBENCH_PROBLEM_H

#include "tests/unit/test.h"
#include "tools/kbench/kbench.h"

static struct kern_problem problem_of(const char *text, const char *precision)
{
    struct kb_figures f;
    struct kern_problem p;
    struct infer_error err = {0};

    kb_figures_init(&f, KERN_CONV_FPROP);
    if (kb_figures_parse(text, &f, &err) < 0 ||
        kb_figures_problem(&f, kb_precision_find(precision), KERN_NHWC, &err,
                           &p) < 0)
        fail_msg("%s: %s", text, err.text);
    return p;
}

#endif
