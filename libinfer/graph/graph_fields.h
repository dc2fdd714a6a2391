/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes through their field tables: checking, writing, reading. */
#ifndef LIBINFER_GRAPH_GRAPH_FIELDS_H
#define LIBINFER_GRAPH_GRAPH_FIELDS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "libinfer/graph/graph.h"

/* The attributes with which an operation starts; for a function of one
 * argument, those of its kind. */
void graph_fields_defaults(enum graph_op op, const union graph_attr *attr,
                           union graph_attr *out);

/* Finds values that the tables do not allow: words outside an enum, lengths
 * outside their arrays, NaN.  Adds a line for each to err. */
int graph_fields_check(const struct graph_field *field, const void *base,
                       const char *where, struct infer_error *err);

/* Writes the fields that differ from those of `defaults` into object.  rank is
 * that of the tensor that lists with an entry a dimension belong to, or -1.
 * False when out of memory. */
bool graph_fields_write(const struct graph_field *field, const void *base,
                        const void *defaults, int rank, cJSON *object);

/* Reads the members of object into base, which holds the defaults.  Members
 * that no field and no word of `others` (NULL-terminated, may be NULL) names
 * are faults, and so are wrong types and values; each adds a line to err. */
int graph_fields_read(const struct graph_field *field, const cJSON *object,
                      const char *const *others, const char *where, void *base,
                      struct infer_error *err);

/* kind, a and b of an activation, as members of an object. */
extern const struct graph_field graph_act_fields[];
/* Reads such an object, constants not stated being the usual ones of its
 * kind. */
int graph_act_read(const cJSON *object, const char *where,
                   struct kern_unary *out, struct infer_error *err);

/* JSON of a float: a number with as few digits as it needs, or "inf" and
 * "-inf", which JSON has no number for. */
cJSON *graph_float_to_json(float value);
bool graph_float_from_json(const cJSON *item, float *out);

#endif
