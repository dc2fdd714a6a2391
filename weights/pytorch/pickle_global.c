/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a pickle of weights may load, and what each stands for.  None
 * is ever imported or called; a name that is not here refuses the file. */
#include "weights/pytorch/pickle_machine.h"

#include <stdio.h>
#include <string.h>

#define STORAGE(name, dtype)                                                   \
    {"torch", name, CALL_STORAGE, dtype},                                      \
    {                                                                          \
        "torch.cuda", name, CALL_STORAGE, dtype                                \
    }
/* Python 2 and Python 3 names of the built-in module. */
#define BUILTIN(name, call)                                                    \
    {"builtins", name, call, INFER_NONE},                                      \
    {                                                                          \
        "__builtin__", name, call, INFER_NONE                                  \
    }
/* numpy 2 renamed numpy.core. */
#define NUMPY(module, name, call)                                              \
    {"numpy.core." module, name, call, INFER_NONE},                            \
    {                                                                          \
        "numpy._core." module, name, call, INFER_NONE                          \
    }

static const struct pickle_row rows[] = {
    {"collections", "OrderedDict", CALL_DICT, INFER_NONE},
    {"collections", "defaultdict", CALL_DICT, INFER_NONE},
    {"collections", "Counter", CALL_DICT, INFER_NONE},

    {"torch._utils", "_rebuild_tensor", CALL_TENSOR, INFER_NONE},
    {"torch._utils", "_rebuild_tensor_v2", CALL_TENSOR, INFER_NONE},
    {"torch._utils", "_rebuild_tensor_v3", CALL_TENSOR_TYPED, INFER_NONE},
    {"torch._utils", "_rebuild_parameter", CALL_PARAMETER, INFER_NONE},
    {"torch._utils", "_rebuild_parameter_with_state", CALL_PARAMETER,
     INFER_NONE},
    {"torch._tensor", "_rebuild_from_type_v2", CALL_FROM_TYPE, INFER_NONE},
    {"torch", "Tensor", CALL_NEVER, INFER_NONE},
    {"torch.nn.parameter", "Parameter", CALL_NEVER, INFER_NONE},
    {"torch.nn.parameter", "Buffer", CALL_NEVER, INFER_NONE},
    {"torch", "Size", CALL_TUPLE, INFER_NONE},
    {"torch", "device", CALL_OPAQUE, INFER_NONE},

    STORAGE("DoubleStorage", INFER_F64),
    STORAGE("FloatStorage", INFER_F32),
    STORAGE("HalfStorage", INFER_F16),
    STORAGE("BFloat16Storage", INFER_BF16),
    STORAGE("LongStorage", INFER_I64),
    STORAGE("IntStorage", INFER_I32),
    STORAGE("ShortStorage", INFER_I16),
    STORAGE("CharStorage", INFER_I8),
    STORAGE("ByteStorage", INFER_U8),
    STORAGE("BoolStorage", INFER_BOOL),
    STORAGE("ComplexFloatStorage", INFER_NONE),
    STORAGE("ComplexDoubleStorage", INFER_NONE),
    STORAGE("QInt8Storage", INFER_NONE),
    STORAGE("QUInt8Storage", INFER_NONE),
    STORAGE("QInt32Storage", INFER_NONE),
    STORAGE("UntypedStorage", INFER_NONE),
    {"torch.storage", "UntypedStorage", CALL_STORAGE, INFER_NONE},
    {"torch.storage", "TypedStorage", CALL_STORAGE, INFER_NONE},

    {"torch", "float64", CALL_DTYPE, INFER_F64},
    {"torch", "double", CALL_DTYPE, INFER_F64},
    {"torch", "float32", CALL_DTYPE, INFER_F32},
    {"torch", "float", CALL_DTYPE, INFER_F32},
    {"torch", "float16", CALL_DTYPE, INFER_F16},
    {"torch", "half", CALL_DTYPE, INFER_F16},
    {"torch", "bfloat16", CALL_DTYPE, INFER_BF16},
    {"torch", "int64", CALL_DTYPE, INFER_I64},
    {"torch", "long", CALL_DTYPE, INFER_I64},
    {"torch", "int32", CALL_DTYPE, INFER_I32},
    {"torch", "int", CALL_DTYPE, INFER_I32},
    {"torch", "int16", CALL_DTYPE, INFER_I16},
    {"torch", "short", CALL_DTYPE, INFER_I16},
    {"torch", "int8", CALL_DTYPE, INFER_I8},
    {"torch", "uint64", CALL_DTYPE, INFER_U64},
    {"torch", "uint32", CALL_DTYPE, INFER_U32},
    {"torch", "uint16", CALL_DTYPE, INFER_U16},
    {"torch", "uint8", CALL_DTYPE, INFER_U8},
    {"torch", "bool", CALL_DTYPE, INFER_BOOL},
    {"torch", "complex64", CALL_DTYPE, INFER_NONE},
    {"torch", "complex128", CALL_DTYPE, INFER_NONE},
    {"torch", "float8_e4m3fn", CALL_DTYPE, INFER_F8E4M3},
    {"torch", "float8_e5m2", CALL_DTYPE, INFER_NONE},
    {"torch", "float8_e4m3fnuz", CALL_DTYPE, INFER_NONE},
    {"torch", "float8_e5m2fnuz", CALL_DTYPE, INFER_NONE},

    NUMPY("multiarray", "scalar", CALL_NUMPY_SCALAR),
    NUMPY("multiarray", "_reconstruct", CALL_NUMPY_ARRAY),
    NUMPY("numeric", "_frombuffer", CALL_NUMPY_BUFFER),
    {"numpy", "dtype", CALL_NUMPY_DTYPE, INFER_NONE},
    {"numpy", "ndarray", CALL_NUMPY_CLASS, INFER_NONE},

    {"_codecs", "encode", CALL_ENCODE, INFER_NONE},
    BUILTIN("set", CALL_SET),
    BUILTIN("frozenset", CALL_SET),
    BUILTIN("list", CALL_LIST),
    BUILTIN("tuple", CALL_TUPLE),
    BUILTIN("dict", CALL_DICT),
    BUILTIN("bytes", CALL_BYTES),
    BUILTIN("bytearray", CALL_BYTES),
    BUILTIN("complex", CALL_OPAQUE),
    BUILTIN("slice", CALL_OPAQUE),
    BUILTIN("int", CALL_NEVER),
    BUILTIN("float", CALL_NEVER),
    BUILTIN("bool", CALL_NEVER),
    BUILTIN("str", CALL_NEVER),
    BUILTIN("object", CALL_NEVER),
    {"copyreg", "_reconstructor", CALL_RECONSTRUCT, INFER_NONE},
    {"copy_reg", "_reconstructor", CALL_RECONSTRUCT, INFER_NONE},
    {"argparse", "Namespace", CALL_OPAQUE, INFER_NONE},
    {"types", "SimpleNamespace", CALL_OPAQUE, INFER_NONE},
    {"functools", "partial", CALL_OPAQUE, INFER_NONE},
    {"torch.jit._pickle", "build_intlist", CALL_LIST, INFER_NONE},
    {"torch.jit._pickle", "build_doublelist", CALL_LIST, INFER_NONE},
    {"torch.jit._pickle", "build_boollist", CALL_LIST, INFER_NONE},
    {"torch.jit._pickle", "build_tensorlist", CALL_LIST, INFER_NONE},
    {"torch.jit._pickle", "restore_type_tag", CALL_TAGGED, INFER_NONE},
    {"pathlib", "PosixPath", CALL_OPAQUE, INFER_NONE},
    {"pathlib", "WindowsPath", CALL_OPAQUE, INFER_NONE},
    {"pathlib", "PurePosixPath", CALL_OPAQUE, INFER_NONE},
    {"pathlib", "PureWindowsPath", CALL_OPAQUE, INFER_NONE},
    {"datetime", "datetime", CALL_OPAQUE, INFER_NONE},
    {"datetime", "date", CALL_OPAQUE, INFER_NONE},
    {"datetime", "timedelta", CALL_OPAQUE, INFER_NONE},
};

#define ROWS (sizeof rows / sizeof *rows)

static bool equal(const char *text, const unsigned char *p, size_t bytes)
{
    return strlen(text) == bytes && memcmp(text, p, bytes) == 0;
}

int64_t pickle_row_find(const unsigned char *module, size_t module_bytes,
                        const unsigned char *name, size_t name_bytes)
{
    size_t i;

    for (i = 0; i < ROWS; i++)
        if (equal(rows[i].name, name, name_bytes) &&
            equal(rows[i].module, module, module_bytes))
            return (int64_t)i;
    return -1;
}

bool pickle_is_layer(const unsigned char *module, size_t bytes)
{
    static const char *const prefixes[] = {"torch.nn.modules.", PICKLE_SCRIPT};
    size_t i, n;

    /* A class that the script itself defined is __torch__.NAME. */
    if (bytes == sizeof PICKLE_SCRIPT - 2 &&
        memcmp(module, PICKLE_SCRIPT, bytes) == 0)
        return true;
    for (i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        n = strlen(prefixes[i]);
        if (bytes > n && memcmp(module, prefixes[i], n) == 0)
            return true;
    }
    return false;
}

const struct pickle_row *pickle_row_at(uint32_t row)
{
    return &rows[row];
}

void pickle_row_name(uint32_t row, char *text, size_t bytes)
{
    if (row >= ROWS)
        snprintf(text, bytes, "an unknown type");
    else
        snprintf(text, bytes, "%s.%s", rows[row].module, rows[row].name);
}
