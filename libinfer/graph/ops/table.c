/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, made of ops.def. */
#include <string.h>

#include "libinfer/graph/ops/op.h"

/* A field of PADS is an array of begins with the ends right after it. */
#define PADS_OF(type, begin, end)                                              \
    _Static_assert(offsetof(struct type, end) ==                               \
                       offsetof(struct type, begin) +                          \
                           sizeof(((struct type *)0)->begin),                  \
                   "the ends do not follow the begins")
PADS_OF(kern_conv, pad_begin, pad_end);
PADS_OF(kern_pool, pad_begin, pad_end);
PADS_OF(kern_pad, begin, end);

_Static_assert(KERN_MAX_SPATIAL == 3 && INFER_MAX_RANK == 8,
               "the defaults of lists state every entry");

static const char *const auto_pads[] = {"explicit", "same_upper", "same_lower",
                                        "valid", NULL};
static const char *const pool_kinds[] = {"max", "average", NULL};
static const char *const pad_modes[] = {"constant", "reflect", "edge", "wrap",
                                        NULL};
static const char *const resize_modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const resize_coords[] = {
    "half_pixel", "pytorch_half_pixel",   "align_corners",
    "asymmetric", "half_pixel_symmetric", NULL,
};
static const char *const resize_nearest[] = {
    "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL,
};
static const char *const dtype_names[] = {
    [INFER_NONE] = "none",      [INFER_F64] = "F64",
    [INFER_F32] = "F32",        [INFER_F16] = "F16",
    [INFER_BF16] = "BF16",      [INFER_I64] = "I64",
    [INFER_I32] = "I32",        [INFER_I16] = "I16",
    [INFER_I8] = "I8",          [INFER_U64] = "U64",
    [INFER_U32] = "U32",        [INFER_U16] = "U16",
    [INFER_U8] = "U8",          [INFER_BOOL] = "BOOL",
    [INFER_F8E4M3] = "F8_E4M3", [INFER_DTYPE_COUNT] = NULL,
};

/* Counts of inputs and outputs; -1: any number. */
#define IN(min, max)  .min_in = (min), .max_in = (max)
#define OUT(min, max) .min_out = (min), .max_out = (max)

/* The attributes: FIELD, WORD (an enum), LIST (INTS, FLOATS, SIZES or PADS)
 * and COUNTED (INTN or INT64S, whose length is an attribute too); AXIS and AXES
 * are dimensions of input 0. */
#define FIELDS(...)                                                            \
    .field = (const struct graph_field[])                                      \
    {                                                                          \
        __VA_ARGS__,                                                           \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define AT(member) offsetof(union graph_attr, member)
#define FIELD(n, kind, member)                                                 \
    {                                                                          \
        .name = (n), .type = GRAPH_FIELD_##kind, .offset = AT(member)          \
    }
#define AXIS(member)                                                           \
    {                                                                          \
        .name = "axis", .type = GRAPH_FIELD_INT, .offset = AT(member),         \
        .axis = true                                                           \
    }
#define WORD(n, member, words)                                                 \
    {                                                                          \
        .name = (n), .type = GRAPH_FIELD_ENUM, .offset = AT(member),           \
        .names = (words)                                                       \
    }
#define LIST(n, kind, member, capacity)                                        \
    {                                                                          \
        .name = (n), .type = GRAPH_FIELD_##kind, .offset = AT(member),         \
        .count = (capacity)                                                    \
    }
#define COUNTED(n, kind, member, length, capacity)                             \
    {                                                                          \
        .name = (n), .type = GRAPH_FIELD_##kind, .offset = AT(member),         \
        .count_offset = AT(length), .count = (capacity)                        \
    }

#define AXES(member, length)                                                   \
    {                                                                          \
        .name = "axes", .type = GRAPH_FIELD_INTN, .offset = AT(member),        \
        .count_offset = AT(length), .count = INFER_MAX_RANK, .axis = true      \
    }

/* Attributes of several operations. */
#define CONV_FIELDS                                                            \
    FIELD("groups", INT, conv.conv.groups),                                    \
        LIST("stride", INTS, conv.conv.stride, KERN_MAX_SPATIAL),              \
        LIST("dilation", INTS, conv.conv.dilation, KERN_MAX_SPATIAL),          \
        LIST("pad", PADS, conv.conv.pad_begin, KERN_MAX_SPATIAL),              \
        WORD("auto_pad", conv.auto_pad, auto_pads)
#define CONV_DEFAULTS                                                          \
    {                                                                          \
        .groups = 1, .stride = {1, 1, 1}, .dilation = { 1, 1, 1 }              \
    }
#define NORM_DEFAULTS                                                          \
    {                                                                          \
        .epsilon = 1e-5f, .axis = -1, .groups = 1                              \
    }
#define DIMS(title) COUNTED(title, INT64S, dims.dim, dims.n, INFER_MAX_RANK)
#define SLICE_FIELD(n, kind, member)                                           \
    COUNTED(n, kind, slice.member, slice.n_axes, INFER_MAX_RANK)
#define DEPTH_SPACE_FIELDS                                                     \
    FIELD("block", INT, depth_space.block), FIELD("crd", BOOL, depth_space.crd)
/* One value for every dimension. */
#define EACH(value)                                                            \
    {                                                                          \
        value, value, value, value, value, value, value, value                 \
    }

static const struct graph_op_info table[GRAPH_OP_COUNT] = {
#define GRAPH_OP(symbol, op, ...)                                              \
    [symbol] = {.name = #op, .infer_shape = op_##op##_shape, __VA_ARGS__},
#include "libinfer/graph/ops.def"
#undef GRAPH_OP
};

const struct graph_op_info *graph_op_info(enum graph_op op)
{
    if ((int)op <= GRAPH_NONE || (int)op >= GRAPH_OP_COUNT)
        return NULL;
    return &table[op];
}

int *graph_axes(enum graph_op op, union graph_attr *attr, int *n)
{
    const struct graph_field *f = graph_op_info(op)->field;

    *n = 0;
    while (f && f->name && !f->axis)
        f++;
    if (!f || !f->name)
        return NULL;
    *n = 1;
    if (f->type == GRAPH_FIELD_INTN)
        memcpy(n, (const char *)attr + f->count_offset, sizeof *n);
    return (int *)((char *)attr + f->offset);
}

enum graph_op graph_op_find(const char *name)
{
    int i;

    for (i = GRAPH_NONE + 1; i < GRAPH_OP_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return (enum graph_op)i;
    return GRAPH_NONE;
}
