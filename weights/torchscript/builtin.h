/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the language's functions share. */
#ifndef WEIGHTS_TORCHSCRIPT_BUILTIN_H
#define WEIGHTS_TORCHSCRIPT_BUILTIN_H

#include "weights/torchscript/script.h"

/* A row's function: 1 done, 0 the arguments are for another one. */
typedef int ts_function_of(struct ts_run *r, int n, const struct ts_arg *arg,
                           struct ts_value *out);

ts_function_of ts_do_add_lists;
ts_function_of ts_do_all;
ts_function_of ts_do_any;
ts_function_of ts_do_append;
ts_function_of ts_do_ceil_of;
ts_function_of ts_do_contains;
ts_function_of ts_do_copy_list;
ts_function_of ts_do_count_of;
ts_function_of ts_do_device;
ts_function_of ts_do_equal;
ts_function_of ts_do_extend;
ts_function_of ts_do_floor_of;
ts_function_of ts_do_format;
ts_function_of ts_do_from_number;
ts_function_of ts_do_get_item;
ts_function_of ts_do_insert;
ts_function_of ts_do_is_floating;
ts_function_of ts_do_is_other;
ts_function_of ts_do_is_same;
ts_function_of ts_do_item_of;
ts_function_of ts_do_items;
ts_function_of ts_do_keys;
ts_function_of ts_do_largest;
ts_function_of ts_do_least;
ts_function_of ts_do_length;
ts_function_of ts_do_negate;
ts_function_of ts_do_no;
ts_function_of ts_do_nothing;
ts_function_of ts_do_pass;
ts_function_of ts_do_percent;
ts_function_of ts_do_pop;
ts_function_of ts_do_raise_it;
ts_function_of ts_do_range_entry;
ts_function_of ts_do_range_length;
ts_function_of ts_do_rank_of;
ts_function_of ts_do_repeat_list;
ts_function_of ts_do_reverse;
ts_function_of ts_do_set_item;
ts_function_of ts_do_size_of;
ts_function_of ts_do_slice;
ts_function_of ts_do_some_text;
ts_function_of ts_do_sum_list;
ts_function_of ts_do_tensor;
ts_function_of ts_do_to_bool;
ts_function_of ts_do_to_float;
ts_function_of ts_do_to_int;
ts_function_of ts_do_type_of;
ts_function_of ts_do_type_of_device;
ts_function_of ts_do_unequal;
ts_function_of ts_do_unwrap;
ts_function_of ts_do_values;

#endif
