/* SPDX-License-Identifier: Apache-2.0 */
/* What an unknown operation of an architecture file may have been meant for. */
#ifndef LIBINFER_GRAPH_OP_HINT_H
#define LIBINFER_GRAPH_OP_HINT_H

#include <stddef.h>

/* Writes what follows "operation 'NAME' is not known": " (it is ...)", or
 * nothing.  Returns out. */
const char *graph_op_hint(const char *name, char *out, size_t bytes);

#endif
