/* SPDX-License-Identifier: Apache-2.0 */
/* Links libkernels without the libraries above it. */
#include <stdio.h>

#include "kernels/kern.h"

int main(void)
{
    printf("%zu rows\n", kern_row_count());
    return kern_row_count() > 0 ? 0 : 1;
}
