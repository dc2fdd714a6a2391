/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that oneDNN's code takes. */
#ifndef KERNELS_ONEDNN_PAGES_H
#define KERNELS_ONEDNN_PAGES_H

/* Lets go of the pages of the library's code and constants. */
void onednn_drop_pages(void);

#endif
