/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the kinds of functions, in enum order, NULL-terminated: in graphs,
 * on command lines and in what is printed of problems. */
#ifndef KERNELS_NAMES_H
#define KERNELS_NAMES_H

extern const char *const kern_unary_names[];
extern const char *const kern_binary_names[];
extern const char *const kern_reduce_names[];
extern const char *const kern_scatter_names[];
extern const char *const kern_cell_names[];

#endif
