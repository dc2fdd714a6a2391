/* SPDX-License-Identifier: Apache-2.0 */
/* wconv: trained weights in, one lean model file out. */
#include "tools/wconv/wconv.h"

#include <string.h>

static int wconv(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "inspect") == 0)
        return wconv_inspect(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "diff") == 0)
        return wconv_diff(argc - 1, argv + 1);
    return wconv_convert(argc, argv);
}

int main(int argc, char **argv)
{
    return cli_main("wconv", argc, argv, wconv);
}
