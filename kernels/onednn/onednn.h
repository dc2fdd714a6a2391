/* SPDX-License-Identifier: Apache-2.0 */
/* The fast CPU backend: what the tools may ask of it beyond its rows. */
#ifndef KERNELS_ONEDNN_ONEDNN_H
#define KERNELS_ONEDNN_ONEDNN_H

/* One line that names the library at run time, its version and the widest
 * vector instructions that it uses here, such as "oneDNN 2.6.3 (avx512_core)".
 * NULL where this build has no oneDNN.  The text is static. */
const char *kern_onednn_version(void);

#endif
