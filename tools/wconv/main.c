/* SPDX-License-Identifier: Apache-2.0 */
/* wconv: trained weights in, one lean model file out. */
#include "tools/wconv/wconv.h"

#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

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
#ifdef __GLIBC__
    /* Bytes.  Tensors of at least this size go back to the system as soon as
     * they are freed; by default glibc raises the limit to the largest one,
     * and freed tensors stay as holes. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
    return cli_main("wconv", argc, argv, wconv);
}
