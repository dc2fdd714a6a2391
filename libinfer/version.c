/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library. */
#include "config.h"

#include "include/infer.h"

const char *infer_version(void)
{
    return PACKAGE_VERSION;
}
