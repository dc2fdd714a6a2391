#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same small networks in the ways in which exporters write ONNX files.

    onnx_variations.py FOLDER [--wconv=PATH --infer=PATH] [--only=REGEX]

Writes FOLDER/NAME/m.onnx for each variation.  With the tools each file is
converted and run, and the outputs are compared with ONNX Runtime's on the same
file, or with onnx.reference's where ONNX Runtime does not run it.  Needs onnx
and onnxruntime.  The exit status is 1 if a file is refused or differs.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

VARIATIONS = {}


def variation(f):
    VARIATIONS[f.__name__] = f
    return f


def family(prefix, *args):
    """One variation for each of args."""
    def add(f):
        for a in args:
            VARIATIONS["%s_%s" % (prefix, a)] = lambda a=a: f(a)
        return f
    return add


def rng():
    return np.random.default_rng(5)


class Net:
    """Nodes and weights in the making."""

    def __init__(self, opset=17, ir=8, shape=(1, 3, 16, 16), dtype=np.float32):
        self.opset, self.ir = opset, ir
        self.rng = rng()
        self.dtype = dtype
        self.nodes, self.weights, self.names = [], [], 0
        self.inputs = [("x", np.float32, shape)]
        self.functions, self.domains = [], []
        self.outputs = []
        self.values = []

    def name(self, what="v"):
        self.names += 1
        return "%s_%d" % (what, self.names)

    def const(self, a, name=None):
        name = name or self.name("w")
        self.weights.append(nh.from_array(np.asarray(a), name))
        return name

    def weight(self, *shape, low=-1, high=1, name=None):
        a = self.rng.uniform(low, high, shape) / max(
            1, np.sqrt(np.prod(shape[1:])) / 2 if len(shape) > 1 else 1)
        return self.const(a.astype(self.dtype), name)

    def op(self, kind, *inputs, out=None, outs=1, domain=None, **attr):
        y = [out or self.name(kind.lower())] + [self.name() for _ in
                                                range(outs - 1)]
        self.nodes.append(h.make_node(kind, list(inputs), y, domain=domain,
                                      **attr))
        return y[0] if outs == 1 else y

    def bn(self, x, k, **attr):
        return self.op("BatchNormalization", x, self.weight(k, low=.5, high=1.5),
                       self.weight(k), self.weight(k),
                       self.weight(k, low=.5, high=1.5), **attr)

    def squeeze(self, x, axes):
        if self.opset < 13:
            return self.op("Squeeze", x, axes=axes)
        return self.op("Squeeze", x, self.const(np.array(axes, np.int64)))

    def clip(self, x, low, high):
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.const(np.array(low, self.dtype)),
                       self.const(np.array(high, self.dtype)))

    def pad(self, x, pads):
        if self.opset < 11:
            return self.op("Pad", x, pads=pads, mode="constant")
        return self.op("Pad", x, self.const(np.array(pads, np.int64)))

    def mean(self, x, axes, keep=1):
        if self.opset < 18:
            return self.op("ReduceMean", x, axes=axes, keepdims=keep)
        return self.op("ReduceMean", x, self.const(np.array(axes, np.int64)),
                       keepdims=keep)

    def resize(self, x):
        s = self.const(np.array([1, 1, 2, 2], np.float32))
        if self.opset < 9:
            return self.op("Upsample", x, mode="nearest", scales=[1, 1, 2., 2.])
        if self.opset == 9:
            return self.op("Upsample", x, s, mode="nearest")
        if self.opset == 10:
            return self.op("Resize", x, s, mode="nearest")
        roi = self.const(np.zeros(0, np.float32)) if self.opset < 13 else ""
        return self.op("Resize", x, roi, s, mode="nearest",
                       coordinate_transformation_mode="asymmetric",
                       nearest_mode="floor")

    def body(self, x, c=3):
        """Convolutions, norms, pools, a residual, other sizes, a head."""
        x = self.op("Conv", x, self.weight(8, c, 3, 3), self.weight(8),
                    pads=[1, 1, 1, 1], strides=[1, 1], kernel_shape=[3, 3])
        x = self.op("Relu", self.bn(x, 8))
        y = self.op("Conv", x, self.weight(8, 1, 3, 3), group=8,
                    pads=[1, 1, 1, 1])
        y = self.clip(self.bn(y, 8), 0.0, 6.0)
        y = self.op("Conv", self.pad(y, [0] * 8), self.weight(8, 8, 1, 1))
        x = self.op("Add", x, y)
        x = self.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = self.op("AveragePool", self.resize(x), kernel_shape=[3, 3],
                    strides=[2, 2], pads=[1, 1, 1, 1])
        x = self.op("Concat", x, self.op("Sigmoid", x), axis=1)
        return self.op("GlobalAveragePool", x)

    def head(self, x, out="y"):
        x = self.op("Flatten", x, axis=1)
        x = self.op("Gemm", x, self.weight(5, 16), self.weight(5), transB=1)
        return self.op("Softmax", x, axis=1, out=out)

    def model(self, **more):
        inputs = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(
            np.dtype(t)), s) for n, t, s in self.inputs]
        outputs = [h.make_tensor_value_info(n, t, s) for n, t, s in
                   self.outputs or [("y", T.FLOAT, None)]]
        g = h.make_graph(self.nodes, "g", inputs, outputs, self.weights,
                         value_info=self.values)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", self.opset)] + [
            h.make_opsetid(d, 1) for d in self.domains],
            functions=self.functions, **more)
        m.ir_version = self.ir
        return m


def plain(opset=17, ir=8, **more):
    n = Net(opset, ir, **more)
    n.head(n.body("x"))
    return n


# ---- versions -----------------------------------------------------------

@family("opset", *range(7, 23))
def opset(v):
    return plain(v, 3 if v < 9 else 10 if v > 20 else 8).model()


@family("ir", *range(3, 12))
def ir(v):
    m = plain(9 if v < 8 else 17, v).model()
    if v == 3:
        with_inputs(m)
    return m


def with_inputs(m):
    for w in m.graph.initializer:
        m.graph.input.append(h.make_tensor_value_info(w.name, w.data_type,
                                                      w.dims))
    return m


@variation
def initializers_as_inputs():
    return with_inputs(plain().model())


@variation
def initializers_as_inputs_first():
    m = plain().model()
    x = m.graph.input[0]
    del m.graph.input[:]
    with_inputs(m).graph.input.append(x)
    return m


# ---- where weights are ---------------------------------------------------

def constants(m, how):
    """Weights in Constant nodes."""
    nodes = []
    for w in m.graph.initializer:
        if how == "sparse" and w.data_type == T.FLOAT:
            a = nh.to_array(w).copy()
            a.flat[::2] = 0
            at = np.flatnonzero(a)
            nodes.append(h.make_node("Constant", [], [w.name],
                                     sparse_value=h.make_sparse_tensor(
                nh.from_array(a.flat[at], w.name), nh.from_array(at.astype(
                    np.int64), w.name + "_at"), a.shape)))
        elif how == "floats" and w.data_type == T.FLOAT and len(w.dims) == 1:
            nodes.append(h.make_node("Constant", [], [w.name], value_floats=[
                float(f) for f in nh.to_array(w)]))
        elif how == "floats" and w.data_type == T.INT64 and len(w.dims) == 1:
            nodes.append(h.make_node("Constant", [], [w.name], value_ints=[
                int(f) for f in nh.to_array(w)]))
        elif how == "floats" and w.data_type == T.FLOAT and not w.dims:
            nodes.append(h.make_node("Constant", [], [w.name],
                                     value_float=float(nh.to_array(w))))
        else:
            t = T()
            t.CopyFrom(w)
            t.name = ""
            nodes.append(h.make_node("Constant", [], [w.name], value=t))
    del m.graph.initializer[:]
    old = list(m.graph.node)
    del m.graph.node[:]
    m.graph.node.extend(nodes + old)
    return m


@family("constant_nodes", "tensor", "floats", "sparse")
def constant_nodes(how):
    return constants(plain().model(), how)


@variation
def sparse_initializers():
    m = plain().model()
    w = m.graph.initializer[0]
    a = nh.to_array(w).copy()
    a.flat[::3] = 0
    at = np.stack(np.nonzero(a), 1).astype(np.int64)
    m.graph.sparse_initializer.append(h.make_sparse_tensor(
        nh.from_array(a[a != 0], w.name), nh.from_array(at, w.name + "_at"),
        a.shape))
    del m.graph.initializer[0]
    return m


def retype(m, f):
    for w in m.graph.initializer:
        f(w)
    return m


@variation
def float_data():
    def f(w):
        a = nh.to_array(w)
        w.ClearField("raw_data")
        if w.data_type == T.FLOAT:
            w.float_data.extend(a.ravel().tolist())
        else:
            w.int64_data.extend(a.ravel().tolist())
    return retype(plain().model(), f)


@variation
def float_data_unpacked():
    """Old protobuf writers do not pack repeated numbers: the same content,
    a tag before each."""
    return float_data()


def unpack(data):
    """The bytes of a model with float_data unpacked."""
    m = onnx.load_from_string(data)
    t = m.graph.initializer[0]
    packed = t.SerializeToString()
    values = list(t.float_data)
    t.ClearField("float_data")
    loose = t.SerializeToString() + b"".join(
        b"\x25" + np.float32(v).tobytes() for v in values)

    def length(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    g_old = onnx.load_from_string(data).graph.SerializeToString()
    old = b"\x2a" + length(len(packed)) + packed
    assert g_old.count(old) == 1
    g_new = g_old.replace(old, b"\x2a" + length(len(loose)) + loose)
    whole_old = b"\x3a" + length(len(g_old)) + g_old
    assert data.count(whole_old) == 1
    return data.replace(whole_old, b"\x3a" + length(len(g_new)) + g_new)


@family("external", "one", "many", "offsets", "nested")
def external(how):
    m = plain().model()

    def save(path):
        folder = os.path.dirname(path)
        if how == "offsets":
            # holes, an order of its own, no length, a checksum
            with open(os.path.join(folder, "w.bin"), "wb") as f:
                for i, w in enumerate(reversed(m.graph.initializer)):
                    f.write(b"\xff" * (4096 - f.tell() % 4096 + i * 4))
                    a = nh.to_array(w)
                    w.ClearField("raw_data")
                    w.data_location = T.EXTERNAL
                    del w.external_data[:]
                    items = [("location", "w.bin"), ("offset", str(f.tell())),
                             ("checksum", "0" * 40), ("length",
                                                      str(a.nbytes))]
                    for k, v in items:
                        w.external_data.add(key=k, value=v)
                    f.write(a.tobytes())
            onnx.save(m, path)
        elif how == "nested":
            os.makedirs(os.path.join(folder, "weights"))
            for i, w in enumerate(m.graph.initializer):
                a = nh.to_array(w)
                w.ClearField("raw_data")
                w.data_location = T.EXTERNAL
                w.external_data.add(key="location",
                                    value="./weights/%d.bin" % i)
                a.tofile(os.path.join(folder, "weights", "%d.bin" % i))
            onnx.save(m, path)
        else:
            onnx.save_model(m, path, save_as_external_data=True,
                            all_tensors_to_one_file=how == "one",
                            location="m.data" if how == "one" else None,
                            size_threshold=0)
    return m, save


@family("weights", "f16_cast", "bf16_cast", "f64_cast")
def cast_weights(how):
    """Weights of another type behind a Cast."""
    m = plain().model()
    nodes = []
    for w in m.graph.initializer:
        if w.data_type == T.FLOAT:
            a, name = nh.to_array(w), w.name
            w.CopyFrom(h.make_tensor(name + "_s", {
                "f16_cast": T.FLOAT16, "bf16_cast": T.BFLOAT16,
                "f64_cast": T.DOUBLE}[how], a.shape, a.ravel().tolist()))
            nodes.append(h.make_node("Cast", [w.name], [name], to=T.FLOAT))
    old = list(m.graph.node)
    del m.graph.node[:]
    m.graph.node.extend(nodes + old)
    return m


@family("half", "inputs", "inside")
def half(how):
    n = Net(dtype=np.float16)
    if how == "inside":
        x = n.op("Cast", "x", to=T.FLOAT16)
    else:
        x = "x"
        n.inputs = [("x", np.float16, (1, 3, 16, 16))]
    y = n.head(n.body(x), "y16")
    n.op("Cast", y, to=T.FLOAT, out="y")
    return n.model()


@variation
def double():
    n = Net(dtype=np.float64)
    n.inputs = [("x", np.float64, (1, 3, 16, 16))]
    n.head(n.body("x"))
    n.outputs = [("y", T.DOUBLE, None)]
    return n.model()


# ---- inputs -------------------------------------------------------------

@family("free", "batch", "size", "names", "unknown", "all", "no_shape")
def free(how):
    shape = dict(batch=("N", 3, 16, 16), size=(1, 3, "h", "w"),
                 names=("N", 3, "h", "h"), unknown=(None, 3, 16, 16),
                 all=(None, 3, None, None), no_shape=None)[how]
    n = Net()
    n.inputs = [("x", np.float32, shape)]
    n.head(n.body("x"))
    return n.model()


@family("zero_dim", "batch", "minus_one")
def zero_dim(how):
    m = plain().model()
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = (
        0 if how == "batch" else -1)
    return m


@family("nhwc", "transpose", "transposes_inside", "batch_free")
def nhwc(how):
    n = Net()
    n.inputs = [("x", np.float32, ("N" if how == "batch_free" else 1,
                                   16, 16, 3))]
    x = n.op("Transpose", "x", perm=[0, 3, 1, 2])
    if how != "transposes_inside":
        n.head(n.body(x))
        return n.model()
    # tf2onnx without its optimiser: a pair around each layer
    for c, k in ((3, 8), (8, 8)):
        x = n.op("Conv", x, n.weight(k, c, 3, 3), auto_pad="SAME_UPPER",
                 strides=[2, 2])
        x = n.op("Transpose", x, perm=[0, 2, 3, 1])
        x = n.op("Add", x, n.weight(k))
        x = n.op("Relu", x)
        x = n.op("Transpose", x, perm=[0, 3, 1, 2])
    x = n.op("Transpose", x, perm=[0, 2, 3, 1])
    x = n.op("Reshape", x, n.const(np.array([-1, 4 * 4 * 8], np.int64)))
    n.op("MatMul", x, n.weight(128, 5), out="y")
    return n.model()


@family("pixels", "uint8", "uint8_nhwc", "resize", "divide", "mean_std",
        "crop", "gray", "bgr")
def pixels(how):
    n = Net()
    x = "x"
    if how.startswith("uint8") or how in ("resize", "crop", "bgr"):
        shape = dict(uint8_nhwc=(1, 16, 16, 3), resize=(1, 3, 20, 24),
                     crop=(1, 3, 20, 24)).get(how, (1, 3, 16, 16))
        n.inputs = [("x", np.uint8, shape)]
        x = n.op("Cast", x, to=T.FLOAT)
    if how == "uint8_nhwc":
        x = n.op("Transpose", x, perm=[0, 3, 1, 2])
    if how == "resize":
        x = n.op("Resize", x, "", "", n.const(np.array([1, 3, 16, 16],
                                                       np.int64)),
                 mode="linear", coordinate_transformation_mode="half_pixel")
    if how == "crop":
        x = n.op("Slice", x, n.const(np.array([2, 4], np.int64)),
                 n.const(np.array([18, 20], np.int64)),
                 n.const(np.array([2, 3], np.int64)))
    if how == "bgr":
        x = n.op("Gather", x, n.const(np.array([2, 1, 0], np.int64)), axis=1)
    if how == "gray":
        x = n.op("Conv", x, n.const(np.array([.3, .6, .1], np.float32).reshape(
            1, 3, 1, 1)))
        x = n.op("Concat", x, x, x, axis=1)
    scale = 255.0
    if how == "divide":
        x = n.op("Div", x, n.const(np.float32(255)))
        x = n.op("Sub", x, n.const(np.float32(.5)))
        x = n.op("Div", x, n.const(np.float32(.5)))
    elif how == "mean_std":
        x = n.op("Sub", x, n.const(np.array([123., 116, 103],
                                            np.float32).reshape(1, 3, 1, 1)))
        x = n.op("Mul", x, n.const(np.array([.017, .0175, .0174],
                                            np.float32).reshape(3, 1, 1)))
    else:
        x = n.op("Div", x, n.const(np.float32(scale)))
    n.head(n.body(x))
    return n.model()


@variation
def two_inputs():
    n = Net()
    n.inputs = [("a", np.float32, ("N", 3, 16, 16)),
                ("b", np.float32, ("N", 1, 16, 16))]
    n.head(n.body(n.op("Concat", "a", "b", axis=1), 4))
    return n.model()


@variation
def unused_input():
    n = plain()
    n.inputs.append(("unused", np.float32, (1, 4)))
    return n.model()


@variation
def scalar_input():
    n = Net()
    n.inputs.append(("s", np.float32, ()))
    n.head(n.body(n.op("Mul", "x", "s")))
    return n.model()


# ---- names --------------------------------------------------------------

def rename(m, f):
    table = {}

    def new(s):
        if s == "":
            return s
        if s not in table:
            table[s] = f(s, len(table))
        return table[s]
    for i, node in enumerate(m.graph.node):
        node.name = f(node.name or node.output[0], 7000 + i)
        for part in (node.input, node.output):
            part[:] = [new(s) for s in part]
    for v in [*m.graph.input, *m.graph.output, *m.graph.initializer]:
        v.name = new(v.name)
    return m


@family("names", "colon", "slash", "unicode", "digits", "spaces", "dots",
        "long", "prefix", "case", "controls", "json")
def names(how):
    f = dict(colon=lambda s, i: "%s:0" % s, slash=lambda s, i: "/a/b/%s" % s,
             unicode=lambda s, i: "層%dß🙂" % i, digits=lambda s, i: "%d" % i,
             spaces=lambda s, i: "a b %d " % i,
             dots=lambda s, i: "../%d.weight" % i,
             long=lambda s, i: "n%d" % i + "x" * 3000,
             prefix=lambda s, i: "a" * (i + 1),
             case=lambda s, i: "".join(
                 c.upper() if i >> k & 1 else c
                 for k, c in enumerate("abcdefgh")),
             controls=lambda s, i: "a\n\t%d" % i,
             json=lambda s, i: '{"op": [%d], \\' % i)[how]
    return rename(plain().model(), f)


@variation
def names_of_nodes_equal():
    m = plain().model()
    for node in m.graph.node:
        node.name = "same"
    return m


@variation
def names_of_nodes_empty():
    m = plain().model()
    m.graph.name = ""
    for node in m.graph.node:
        node.name = ""
    return m


# ---- structure ----------------------------------------------------------

@variation
def identities():
    n = Net()
    n.head(n.op("Identity", n.op("Dropout", n.body(n.op("Identity", "x")))))
    m = n.model()
    k = m.graph.node[-1]
    k.output[0] = "y_"
    m.graph.node.append(h.make_node("Identity", ["y_"], ["y"]))
    return m


@variation
def identity_of_weights():
    """Optimised exporters share weights through Identity."""
    m = plain().model()
    w = [i.name for i in m.graph.initializer if len(i.dims) == 4][0]
    for node in m.graph.node:
        node.input[:] = [s + "_i" if s == w else s for s in node.input]
    m.graph.node.insert(0, h.make_node("Identity", [w], [w + "_i"]))
    return m


@family("dropout", 7, 12, 13)
def dropout(v):
    n = Net(v)
    x = n.body("x")
    if v == 7:
        x, _ = n.op("Dropout", x, ratio=.5, outs=2)
    else:
        x, _ = n.op("Dropout", x, n.const(np.float32(.5)),
                    n.const(np.array(False)), outs=2)
    n.head(x)
    return n.model()


@variation
def unused_nodes():
    n = plain()
    n.op("NotAnOperator", n.op("Relu", "x"))
    return n.model()


@variation
def unused_weights():
    n = plain()
    n.weight(7, 7)
    return n.model()


@variation
def several_outputs():
    n = Net()
    x = n.body("x")
    n.op("Identity", x, out="z")
    n.head(x)
    n.outputs = [("z", T.FLOAT, None), ("y", T.FLOAT, [1, 5]),
                 (x, T.FLOAT, None)]
    return n.model()


@variation
def output_twice_read():
    """An output that a later node reads too."""
    n = Net()
    x = n.op("Relu", n.op("Conv", "x", n.weight(8, 3, 3, 3)), out="z")
    n.op("Conv", x, n.weight(4, 8, 3, 3), out="y")
    n.outputs = [("z", T.FLOAT, None), ("y", T.FLOAT, None)]
    return n.model()


@variation
def output_is_input():
    n = plain()
    n.outputs = [("y", T.FLOAT, None), ("x", T.FLOAT, [1, 3, 16, 16])]
    return n.model()


@variation
def output_is_constant():
    n = plain()
    n.const(np.arange(6, dtype=np.float32).reshape(2, 3), "k")
    n.outputs = [("y", T.FLOAT, None), ("k", T.FLOAT, [2, 3])]
    return n.model()


@variation
def wrong_output_shape():
    """Stale shapes in value_info and outputs, as graph surgery leaves."""
    n = plain()
    n.outputs = [("y", T.FLOAT, ["a", "b"])]
    n.values = [h.make_tensor_value_info(v.output[0], T.FLOAT, ["q"] * 4)
                for v in n.nodes[:8]]
    return n.model()


@variation
def shared_weights():
    n = Net()
    w, b = n.weight(3, 3, 3, 3), n.weight(3)
    x = "x"
    for _ in range(3):
        x = n.op("Relu", n.op("Conv", x, w, b, pads=[1, 1, 1, 1]))
    n.head(n.body(x))
    return n.model()


@family("function", "plain", "nested", "attribute", "overload")
def function(how):
    n = Net(ir=10 if how == "overload" else 8)
    n.domains = ["local"]
    opsets = [h.make_opsetid("", 17), h.make_opsetid("local", 1)]
    alpha = h.make_node("LeakyRelu", ["c"], ["y"])
    if how == "attribute":
        a = alpha.attribute.add()
        a.name, a.ref_attr_name, a.type = "alpha", "slope", 1
    body = [h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), alpha]
    f = h.make_function("local", "Block", ["x", "w"], ["y"], body, opsets,
                        ["slope"] if how == "attribute" else [])
    n.functions = [f]
    kind = "Block"
    if how == "nested":
        n.functions.append(h.make_function(
            "local", "Two", ["x", "w"], ["y"],
            [h.make_node("Block", ["x", "w"], ["c"], domain="local"),
             h.make_node("Block", ["c", "w"], ["y"], domain="local")],
            opsets, []))
        kind = "Two"
    attr = dict(slope=.3) if how == "attribute" else {}
    x = n.op(kind, "x", n.weight(3, 3, 3, 3), domain="local", **attr)
    n.head(n.body(x))
    m = n.model()
    if how == "overload":
        g = m.functions.add()
        g.CopyFrom(m.functions[0])
        g.overload = "other"
        g.node[1].CopyFrom(h.make_node("Tanh", ["c"], ["y"]))
        m.graph.node[0].overload = "other"
    return m


@variation
def subgraph_if():
    n = Net()
    c = n.const(np.array(True))
    t = h.make_graph([h.make_node("Relu", ["x"], ["t"])], "t", [], [
        h.make_tensor_value_info("t", T.FLOAT, None)])
    e = h.make_graph([h.make_node("Neg", ["x"], ["e"])], "e", [], [
        h.make_tensor_value_info("e", T.FLOAT, None)])
    n.head(n.body(n.op("If", c, then_branch=t, else_branch=e)))
    return n.model()


@family("batch_norm", "training", "opset6", "opset7_spatial", "epsilon",
        "rank2", "double_stats", "no_conv", "five")
def batch_norm(how):
    n = Net()
    if how == "training":
        # PyTorch's exporter with training=PRESERVE of a network in eval mode
        y = n.op("Conv", "x", n.weight(8, 3, 3, 3))
        y = n.bn(y, 8, momentum=.9, training_mode=0)
        n.op("GlobalAveragePool", y, out="y")
        return n.model()
    if how == "opset6":
        n.opset, n.ir = 6, 3
        y = n.op("Conv", "x", n.weight(8, 3, 3, 3))
        y = n.bn(y, 8, is_test=1, spatial=1)
        n.op("GlobalAveragePool", y, out="y")
        return n.model()
    if how == "opset7_spatial":
        n.opset, n.ir = 7, 3
        n.op("GlobalAveragePool", n.bn("x", 3, spatial=1), out="y")
        return n.model()
    if how == "five":
        # opset 7 to 13 with training outputs that nobody reads
        n.opset = 9
        y = n.op("Conv", "x", n.weight(8, 3, 3, 3))
        n.op("BatchNormalization", y, *[n.weight(8, low=.5) for _ in range(4)],
             out="y")
        return n.model()
    if how == "epsilon":
        n.op("Relu", n.bn(n.op("Conv", "x", n.weight(8, 3, 3, 3)), 8,
                          epsilon=.1), out="y")
        return n.model()
    if how == "rank2":
        n.inputs = [("x", np.float32, ("N", 12))]
        y = n.bn(n.op("Gemm", "x", n.weight(12, 8)), 8)
        n.op("Gemm", n.op("Relu", y), n.weight(8, 3), out="y")
        return n.model()
    if how == "double_stats":
        n.opset = 15
        y = n.op("Conv", "x", n.weight(8, 3, 3, 3))
        s = [n.weight(8, low=.5) for _ in range(2)]
        n.dtype = np.float64
        s += [n.weight(8, low=.5) for _ in range(2)]
        n.op("BatchNormalization", y, *s, out="y")
        return n.model()
    n.head(n.body(n.bn("x", 3)))
    return n.model()


@family("batch_norm_written_out", "mul_add", "sub_div", "reciprocal", "rsqrt")
def batch_norm_written_out(how):
    n = Net()
    x = n.op("Conv", "x", n.weight(8, 3, 3, 3))
    c = dict(low=.5, high=1.5)

    def v():
        return n.weight(8, 1, 1, **c)
    if how == "mul_add":
        x = n.op("Add", n.op("Mul", x, v()), v())
    elif how == "sub_div":
        x = n.op("Add", n.op("Mul", n.op("Div", n.op("Sub", x, v()),
                                         n.op("Sqrt", n.op("Add", v(), n.const(
                                             np.float32(1e-3))))), v()), v())
    elif how == "reciprocal":
        s = n.op("Mul", n.op("Reciprocal", n.op("Sqrt", v())), v())
        x = n.op("Add", n.op("Mul", x, s), n.op("Sub", v(), n.op("Mul", s, v())))
    else:
        s = n.op("Div", n.const(np.float32(1)), n.op("Sqrt", v()))
        x = n.op("Mul", s, n.op("Sub", x, v()))
    n.op("Relu", x, out="y")
    return n.model()


# ---- idioms of exporters -------------------------------------------------

@family("idiom", "flatten_reshape0", "flatten_shape", "mean_head",
        "mean_all_axes", "gemm_alpha_beta", "gemm_transA", "gemm_bias_matrix",
        "gemm_constant_left", "matmul_add", "swish", "hard_swish", "hard_sigmoid",
        "gelu", "gelu_tanh", "mish", "prelu", "layer_norm", "instance_norm",
        "group_norm", "channel_shuffle", "split_old", "split_new",
        "se_block", "pixel_shuffle", "upsample_like", "reflect_pad",
        "softmax_old_4d", "softmax_nhwc", "log_softmax", "auto_pad_same",
        "auto_pad_valid", "auto_pad_lower", "auto_pad_notset_pads",
        "deconv", "deconv_output_shape", "deconv_same", "pool_ceil",
        "pool_include_pad", "pool_same", "pool_dilated", "pool_lp", "pool_3d",
        "conv_1d", "conv_3d", "conv_no_kernel_shape", "conv_weight_computed",
        "paddle_scale", "mxnet_broadcast", "cast_int_shape", "slice_negative",
        "slice_steps", "expand_free", "where_mask", "attention", "lstm", "gru",
        "argmax", "one_hot", "topk", "l2_normalize", "weight_norm",
        "unsqueeze_squeeze", "squeeze_all", "global_max", "reduce_max_flat",
        "depthwise_multiplier", "grouped_nhwc", "max_of_three", "sum_of_one",
        "pow_two", "abs_neg", "div_const_left", "clip_one_side",
        "clip_no_bounds", "elu_selu_celu", "concat_const", "shape_gather",
        "size_of_input", "constant_of_shape", "range_grid", "einsum",
        "normalize_imagenet", "spp", "focus", "resize_sizes", "resize_linear",
        "resize_align", "resize_cubic", "resize_opset10_linear",
        "resize_tf_half", "resize_roi", "scatter_nd", "gather_nd", "trilu",
        "bidirectional_lstm", "roi_align", "grid_sample", "nonzero_mask",
        "depth_to_space_crd", "space_to_depth", "lrn", "mean_variance_norm",
        "tile", "cumsum", "qkv_split", "relu6_min_max", "erf_gelu_scaled",
        "float_equal", "not_equal", "dynamic_batch_reshape")
def idiom(how):
    n = Net()
    if how in ("softmax_old_4d", "split_old", "resize_opset10_linear"):
        n.opset = dict(resize_opset10_linear=10).get(how, 11)
    i64 = lambda *a: n.const(np.array(a, np.int64))
    f32 = lambda *a: n.const(np.array(a, np.float32))
    s32 = lambda a: n.const(np.float32(a))
    conv = lambda x, c, k, r=3, **a: n.op("Conv", x, n.weight(k, c, r, r),
                                          n.weight(k), **a)
    x = conv("x", 3, 8, pads=[1, 1, 1, 1])
    flat = lambda x: n.op("Flatten", n.op("GlobalAveragePool", x))

    def batch(*s):
        n.inputs = [("x", np.float32, ("N", 3, 16, 16))]
        return s

    def table():
        f = flat(x)
        return dict(
            gemm_alpha_beta=lambda: n.op("Gemm", f, n.weight(8, 5), n.weight(5),
                                         alpha=.5, beta=2.),
            gemm_transA=lambda: n.op("Gemm", n.weight(8, 4), n.op(
                "Reshape", f, i64(8, 1)), transA=1),
            gemm_bias_matrix=lambda: n.op("Gemm", f, n.weight(8, 5),
                                          n.weight(1, 5)),
            gemm_constant_left=lambda: n.op("Gemm", n.weight(5, 8), n.op(
                "Transpose", f), n.weight(5, 1)),
            matmul_add=lambda: n.op("Add", n.weight(5), n.op(
                "MatMul", f, n.weight(8, 5))),
            l2_normalize=lambda: n.op("Div", f, n.op("Expand", n.op(
                "Clip", n.op("ReduceL2", f, axes=[1], keepdims=1), s32(1e-12)),
                n.op("Shape", f))),
            log_softmax=lambda: n.op("LogSoftmax", f),
            argmax=lambda: n.op("Cast", n.op("ArgMax", f, axis=1, keepdims=0),
                                to=T.FLOAT),
            one_hot=lambda: n.op("OneHot", n.op("ArgMax", f, axis=1, keepdims=0),
                                 i64(8), f32(0, 1)),
            topk=lambda: n.op("TopK", f, i64(3), outs=2)[0],
            float_equal=lambda: n.op("Cast", n.op("Greater", f, s32(0)),
                                     to=T.FLOAT),
            not_equal=lambda: n.op("Cast", n.op("Not", n.op("Less", f, s32(0))),
                                   to=T.FLOAT),
            unsqueeze_squeeze=lambda: n.squeeze(n.op("Unsqueeze", f, i64(1, 3)),
                                                [1]),
            squeeze_all=lambda: n.op("Squeeze", n.op("GlobalAveragePool", x)),
        )
    simple = dict(
        flatten_reshape0=lambda: n.op("Reshape", n.op("GlobalAveragePool", x),
                                      i64(0, -1)),
        flatten_shape=lambda: batch() or n.op("Reshape", x, n.op(
            "Concat", n.op("Unsqueeze", n.op("Gather", n.op("Shape", x), n.const(
                np.int64(0))), i64(0)), i64(-1), axis=0)),
        mean_head=lambda: n.mean(x, [2, 3], 0),
        mean_all_axes=lambda: n.op("ReduceMean", x),
        swish=lambda: n.op("Mul", n.op("Sigmoid", x), x),
        hard_swish=lambda: n.op("Div", n.op("Mul", x, n.op("Clip", n.op(
            "Add", x, s32(3)), s32(0), s32(6))), s32(6)),
        hard_sigmoid=lambda: n.op("Mul", x, n.op("HardSigmoid", x,
                                                 alpha=1 / 6.)),
        gelu=lambda: n.op("Mul", n.op("Mul", x, n.op("Add", n.op("Erf", n.op(
            "Div", x, s32(2 ** .5))), s32(1))), s32(.5)),
        erf_gelu_scaled=lambda: n.op("Mul", x, n.op("Mul", s32(.5), n.op(
            "Add", s32(1), n.op("Erf", n.op("Mul", x, s32(.5 ** .5)))))),
        gelu_tanh=lambda: n.op("Mul", n.op("Mul", s32(.5), x), n.op(
            "Add", s32(1), n.op("Tanh", n.op("Mul", s32((2 / np.pi) ** .5), n.op(
                "Add", x, n.op("Mul", s32(.044715), n.op("Pow", x,
                                                         s32(3)))))))),
        mish=lambda: n.op("Mul", x, n.op("Tanh", n.op("Softplus", x))),
        prelu=lambda: n.op("PRelu", x, n.weight(8, 1, 1)),
        layer_norm=lambda: n.op("LayerNormalization", x, n.weight(16),
                                n.weight(16), axis=-1),
        instance_norm=lambda: n.op("InstanceNormalization", x, n.weight(8),
                                   n.weight(8)),
        group_norm=lambda: n.op("Add", n.op("Mul", n.op("Reshape", n.op(
            "InstanceNormalization", n.op("Reshape", x, i64(0, 2, -1)),
            f32(1, 1), f32(0, 0)), n.op("Shape", x)), n.weight(8, 1, 1)),
            n.weight(8, 1, 1)),
        channel_shuffle=lambda: n.op("Reshape", n.op("Transpose", n.op(
            "Reshape", x, i64(1, 2, 4, 16, 16)), perm=[0, 2, 1, 3, 4]),
            i64(1, -1, 16, 16)),
        split_old=lambda: n.op("Concat", *reversed(n.op(
            "Split", x, outs=2, axis=1, split=[3, 5])), axis=1),
        split_new=lambda: n.op("Concat", *reversed(n.op(
            "Split", x, i64(3, 5), outs=2, axis=1)), axis=1),
        se_block=lambda: n.op("Mul", x, n.op("Sigmoid", conv(n.op("Relu", conv(
            n.mean(x, [2, 3]), 8, 4, 1)), 4, 8, 1))),
        pixel_shuffle=lambda: n.op("DepthToSpace", x, blocksize=2, mode="CRD"),
        depth_to_space_crd=lambda: n.op("DepthToSpace", x, blocksize=2),
        space_to_depth=lambda: n.op("SpaceToDepth", x, blocksize=4),
        upsample_like=lambda: n.op("Resize", conv(x, 8, 2, strides=[2, 2]), "",
                                   "", n.op("Concat", i64(1, 2), n.op(
                                       "Slice", n.op("Shape", x), i64(2), i64(4)),
                                       axis=0), mode="nearest"),
        reflect_pad=lambda: n.op("Pad", x, i64(0, 0, 1, 2, 0, 0, 3, 1),
                                 mode="reflect"),
        softmax_old_4d=lambda: n.op("Softmax", x, axis=1),
        softmax_nhwc=lambda: n.op("Transpose", n.op("Softmax", n.op(
            "Transpose", x, perm=[0, 2, 3, 1]), axis=-1), perm=[0, 3, 1, 2]),
        auto_pad_same=lambda: n.op("Conv", x, n.weight(4, 8, 3, 3),
                                   auto_pad="SAME_UPPER", strides=[2, 2]),
        auto_pad_lower=lambda: n.op("Conv", x, n.weight(4, 8, 4, 4),
                                    auto_pad="SAME_LOWER", strides=[3, 3]),
        auto_pad_valid=lambda: n.op("Conv", x, n.weight(4, 8, 3, 3),
                                    auto_pad="VALID", pads=[0, 0, 0, 0]),
        auto_pad_notset_pads=lambda: n.op("Conv", x, n.weight(4, 8, 3, 3),
                                          auto_pad="NOTSET", pads=[0, 1, 2, 3]),
        deconv=lambda: n.op("ConvTranspose", x, n.weight(8, 4, 3, 3), n.weight(4),
                            strides=[2, 2], pads=[1, 1, 1, 1],
                            output_padding=[1, 1]),
        deconv_output_shape=lambda: n.op("ConvTranspose", x, n.weight(8, 4, 3, 3),
                                         strides=[2, 2], output_shape=[32, 32]),
        deconv_same=lambda: n.op("ConvTranspose", x, n.weight(8, 4, 3, 3),
                                 strides=[2, 2], auto_pad="SAME_UPPER"),
        pool_ceil=lambda: n.op("MaxPool", x, kernel_shape=[3, 3],
                               strides=[2, 2], ceil_mode=1),
        pool_include_pad=lambda: n.op("AveragePool", x, kernel_shape=[3, 3],
                                      pads=[1, 1, 1, 1], count_include_pad=1),
        pool_same=lambda: n.op("AveragePool", x, kernel_shape=[3, 3],
                               auto_pad="SAME_UPPER", strides=[2, 2]),
        pool_dilated=lambda: n.op("MaxPool", x, kernel_shape=[3, 3],
                                  dilations=[2, 2]),
        pool_lp=lambda: n.op("LpPool", x, kernel_shape=[3, 3], p=2),
        pool_3d=lambda: n.op("MaxPool", n.op("Unsqueeze", x, i64(2)),
                             kernel_shape=[1, 2, 2], strides=[1, 2, 2]),
        conv_1d=lambda: n.op("Conv", n.op("Reshape", x, i64(1, 8, -1)),
                             n.weight(4, 8, 5), strides=[3]),
        conv_3d=lambda: n.op("Conv", n.op("Reshape", x, i64(1, 2, 4, 16, 16)),
                             n.weight(4, 2, 3, 3, 3)),
        conv_no_kernel_shape=lambda: n.op("Conv", x, n.weight(4, 8, 3, 5)),
        conv_weight_computed=lambda: n.op("Conv", x, n.op("Transpose", n.weight(
            3, 3, 8, 4), perm=[3, 2, 0, 1])),
        paddle_scale=lambda: n.op("Add", n.op("Mul", x, f32(2)), f32(.5)),
        mxnet_broadcast=lambda: n.op("Mul", x, n.op("Expand", n.op(
            "GlobalAveragePool", x), n.op("Shape", x))),
        cast_int_shape=lambda: n.op("Reshape", x, n.op("Cast", n.const(np.array(
            [0, 4, -1], np.int32)), to=T.INT64)),
        slice_negative=lambda: n.op("Slice", x, i64(-3, -9), i64(2 ** 62, -1),
                                    i64(-1, 2)),
        slice_steps=lambda: n.op("Slice", x, i64(10, 0), i64(-2 ** 62, 2 ** 62),
                                 i64(2, 3), i64(-2, 3)),
        expand_free=lambda: batch() or n.op("Add", x, n.op("Expand", n.weight(
            1, 8, 1, 1), n.op("Shape", x))),
        where_mask=lambda: n.op("Where", n.op("Greater", x, s32(0)), x, n.op(
            "Mul", x, s32(.1))),
        lstm=lambda: n.op("LSTM", n.op("Transpose", n.op(
            "Reshape", x, i64(1, 8, 256)), perm=[2, 0, 1]), n.weight(1, 24, 8),
            n.weight(1, 24, 6), n.weight(1, 48), hidden_size=6),
        gru=lambda: n.op("GRU", n.op("Transpose", n.op(
            "Reshape", x, i64(1, 8, 256)), perm=[2, 0, 1]), n.weight(1, 18, 8),
            n.weight(1, 18, 6), n.weight(1, 36), hidden_size=6,
            linear_before_reset=1),
        bidirectional_lstm=lambda: n.op("LSTM", n.op("Transpose", n.op(
            "Reshape", x, i64(1, 8, 256)), perm=[2, 0, 1]), n.weight(2, 24, 8),
            n.weight(2, 24, 6), n.weight(2, 48), hidden_size=6,
            direction="bidirectional"),
        attention=lambda: n.op("MatMul", n.op("Softmax", n.op("Mul", n.op(
            "MatMul", n.op("Reshape", x, i64(1, 2, 4, 256)), n.op(
                "Transpose", n.op("Reshape", x, i64(1, 2, 4, 256)),
                perm=[0, 1, 3, 2])), s32(1 / 16.)), axis=-1), n.op(
            "Reshape", x, i64(1, 2, 4, 256))),
        qkv_split=lambda: n.op("Add", *n.op("Split", n.op("MatMul", n.op(
            "Transpose", n.op("Reshape", x, i64(0, 8, -1)), perm=[0, 2, 1]),
            n.weight(8, 24)), i64(12, 12), outs=2, axis=-1)),
        weight_norm=lambda: n.op("Conv", x, n.op("Mul", n.op("Div", w4, n.op(
            "ReduceL2", w4, axes=[1, 2, 3])), n.weight(4, 1, 1, 1))),
        global_max=lambda: n.op("GlobalMaxPool", x),
        reduce_max_flat=lambda: n.op("ReduceMax", x, axes=[-1], keepdims=0),
        depthwise_multiplier=lambda: n.op("Conv", x, n.weight(16, 1, 3, 3),
                                          group=8),
        grouped_nhwc=lambda: n.op("Transpose", n.op("Conv", x, n.weight(
            12, 2, 3, 3), group=4), perm=[0, 2, 3, 1]),
        max_of_three=lambda: n.op("Max", x, n.op("Neg", x), s32(.2)),
        sum_of_one=lambda: n.op("Sum", n.op("Mean", x)),
        pow_two=lambda: n.op("Pow", x, n.const(np.array(2, np.int64))),
        abs_neg=lambda: n.op("Abs", n.op("Neg", x)),
        div_const_left=lambda: n.op("Div", s32(1), n.op("Add", s32(10), x)),
        clip_one_side=lambda: n.op("Clip", x, "", s32(.3)),
        clip_no_bounds=lambda: n.op("Clip", x),
        relu6_min_max=lambda: n.op("Min", n.op("Max", x, s32(0)), s32(6)),
        elu_selu_celu=lambda: n.op("Elu", n.op("Selu", n.op("Celu", x,
                                                            alpha=.7)),
                                   alpha=.3),
        concat_const=lambda: n.op("Concat", x, n.weight(1, 2, 16, 16), axis=1),
        shape_gather=lambda: n.op("Reshape", x, n.op("Concat", *[n.op(
            "Unsqueeze", n.op("Gather", n.op("Shape", x), n.const(np.int64(i))),
            i64(0)) for i in (0, 1)], i64(-1), axis=0)),
        size_of_input=lambda: n.op("Div", x, n.op("Cast", n.op("Size", x),
                                                  to=T.FLOAT)),
        constant_of_shape=lambda: n.op("Add", x, n.op("ConstantOfShape", n.op(
            "Shape", x), value=nh.from_array(np.array([.5], np.float32)))),
        range_grid=lambda: n.op("Add", x, n.op("Cast", n.op("Range", n.const(
            np.int64(0)), n.const(np.int64(16)), n.const(np.int64(1))),
            to=T.FLOAT)),
        einsum=lambda: n.op("Einsum", x, n.weight(8, 5),
                            equation="nchw,ck->nkhw"),
        normalize_imagenet=lambda: n.op("Div", n.op("Sub", x, n.weight(8, 1, 1)),
                                        n.weight(8, 1, 1, low=.5)),
        spp=lambda: n.op("Concat", x, *[n.op("MaxPool", x, kernel_shape=[k, k],
                                             pads=[k // 2] * 4)
                                        for k in (5, 9, 13)], axis=1),
        focus=lambda: n.op("Concat", *[n.op("Slice", x, i64(a, b), i64(
            2 ** 31 - 1, 2 ** 31 - 1), i64(2, 3), i64(2, 2)) for a, b in (
                (0, 0), (1, 0), (0, 1), (1, 1))], axis=1),
        resize_sizes=lambda: n.op("Resize", x, "", "", i64(1, 8, 25, 31),
                                  mode="linear"),
        resize_linear=lambda: n.op("Resize", x, "", f32(1, 1, 2.5, .5),
                                   mode="linear", coordinate_transformation_mode=
                                   "pytorch_half_pixel"),
        resize_align=lambda: n.op("Resize", x, "", f32(1, 1, 2, 3), mode="linear",
                                  coordinate_transformation_mode=
                                  "align_corners"),
        resize_cubic=lambda: n.op("Resize", x, "", f32(1, 1, 2, 2), mode="cubic",
                                  cubic_coeff_a=-.75),
        resize_opset10_linear=lambda: n.op("Resize", x, f32(1, 1, 2, 2),
                                           mode="linear"),
        resize_tf_half=lambda: n.op("Resize", x, "", f32(1, 1, 1.5, 2),
                                    mode="nearest",
                                    coordinate_transformation_mode="asymmetric",
                                    nearest_mode="ceil"),
        resize_roi=lambda: n.op("Resize", x, f32(0, 0, .1, .2, 1, 1, .8, .9), "",
                                i64(1, 8, 9, 9), mode="linear",
                                coordinate_transformation_mode=
                                "tf_crop_and_resize"),
        scatter_nd=lambda: n.op("ScatterND", x, i64([0, 1, 2, 3], [0, 2, 0, 0]),
                                f32(9, 8)),
        gather_nd=lambda: n.op("GatherND", x, i64([0, 1], [0, 3])),
        trilu=lambda: n.op("Trilu", x, n.const(np.int64(1)), upper=0),
        roi_align=lambda: n.op("RoiAlign", x, f32([0, 0, 9, 9], [2, 3, 15, 12]),
                               i64(0, 0), output_height=3, output_width=3),
        grid_sample=lambda: n.op("GridSample", x, n.op("Tanh", n.weight(
            1, 5, 5, 2)), align_corners=1),
        nonzero_mask=lambda: n.op("Mul", x, n.op("Cast", n.op("And", n.op(
            "Greater", x, s32(-.5)), n.op("Less", x, s32(.5))), to=T.FLOAT)),
        lrn=lambda: n.op("LRN", x, size=5, alpha=1e-3, beta=.75, bias=2.),
        mean_variance_norm=lambda: n.op("MeanVarianceNormalization", x,
                                        axes=[0, 2, 3]),
        tile=lambda: n.op("Tile", x, i64(1, 2, 1, 3)),
        cumsum=lambda: n.op("CumSum", x, n.const(np.int64(2))),
        dynamic_batch_reshape=lambda: batch() or n.op("Reshape", x, i64(
            -1, 8 * 16 * 16)),
    )
    w4 = n.weight(4, 8, 3, 3) if how == "weight_norm" else None
    y = simple[how]() if how in simple else table()[how]()
    n.nodes[-1].output[0] = "y" if y == n.nodes[-1].output[0] else y
    if y not in ("y",) and n.nodes[-1].output[0] != "y":
        n.op("Identity", y, out="y")
    return n.model()


# ---- quantised ----------------------------------------------------------

def quantized(act=np.uint8, weight=np.int8, channel=True, symmetric=False,
              bias=True, fold=False, opset=17, per_layer=False):
    """Q/DQ around convolutions, an addition, a pool and a dense layer."""
    n = Net(opset, ir=10 if opset > 19 else 8)
    i = np.iinfo(act)
    zero = 0 if act == np.int8 and symmetric else (
        128 if symmetric else 100 if act == np.uint8 else -20)

    def qdq(x, scale):
        s, z = n.const(np.float32(scale)), n.const(act(zero))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", x, s, z), s, z)

    def wq(shape, scale_in, axis=0):
        k = shape[axis] if channel else 1
        a = n.rng.uniform(-1, 1, shape).astype(np.float32)
        low, high = (-127, 127) if weight == np.int8 else (0, 255)
        wz = 0 if weight == np.int8 else 120
        q = np.clip(np.rint(a * 120) + wz, low, high).astype(weight)
        s = (n.rng.uniform(.5, 1.5, k) / 120 / np.sqrt(
            np.prod(shape) / shape[axis])).astype(np.float32)
        s_ = s if channel else s[0]
        z = np.full(k, wz, weight) if channel else weight(wz)
        w = n.op("DequantizeLinear", n.const(q), n.const(np.asarray(s_)),
                 n.const(z), **(dict(axis=axis) if channel else {}))
        if not bias:
            return w, None
        sb = (np.asarray(s_) * np.float32(scale_in)).astype(np.float32)
        b = n.op("DequantizeLinear", n.const(n.rng.integers(
            -5000, 5000, shape[axis]).astype(np.int32)), n.const(
                sb if channel else np.float32(sb)), **(
                    dict(axis=0) if channel else {}))
        return w, b

    def conv(x, scale, *shape, **attr):
        w, b = wq(shape, scale)
        return n.op("Conv", x, w, *([b] if b else []), **attr)

    x = qdq("x", .02)
    y = n.op("Relu", conv(x, .02, 8, 3, 3, 3, pads=[1, 1, 1, 1]))
    y = qdq(y, .03)
    z = n.op("Clip", conv(y, .03, 8, 1, 3, 3, group=8, pads=[1, 1, 1, 1]),
             n.const(np.float32(0)), n.const(np.float32(6)))
    z = qdq(conv(qdq(z, .025), .025, 8, 8, 1, 1), .04)
    y = qdq(n.op("Add", y, z), .05)
    y = qdq(n.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), .05)
    y = qdq(n.op("GlobalAveragePool", y), .05)
    y = qdq(n.op("Flatten", y), .05)
    w, b = wq((8, 5), .05, 1)
    y = n.op("Gemm", y, w, *([b] if b else []))
    n.op("Identity", qdq(y, .1), out="y")
    return n.model()


for _a in ("uint8", "int8"):
    for _w in ("int8", "uint8"):
        for _c in (0, 1):
            for _s in (0, 1):
                for _b in (0, 1):
                    VARIATIONS["qdq_%s_%s%s%s%s" % (
                        _a, _w, "_channel" * _c, "_symmetric" * _s,
                        "_bias" * _b)] = lambda a=_a, w=_w, c=_c, s=_s, b=_b: (
                            quantized(getattr(np, a), getattr(np, w), c, s, b))


@family("qdq", "opset10", "opset13", "opset19", "opset21")
def qdq_opset(v):
    return quantized(opset=int(v[5:]), channel=int(v[5:]) > 10)


@family("qdq", "no_zero_points", "blocked", "int4", "uint4", "float8",
        "weights_only", "relu_between", "int16", "dynamic", "qlinear",
        "convinteger", "gemm_transposed", "gemm_transB_float_bias")
def qdq(how):
    n = Net(21, 10)
    f = lambda v: n.const(np.float32(v))
    q = lambda x, s, z: n.op("DequantizeLinear", n.op(
        "QuantizeLinear", x, f(s), *z), f(s), *z)
    flat = n.op("Flatten", "x")
    i8 = lambda *s: n.rng.integers(-127, 127, s).astype(np.int8)
    if how == "no_zero_points":
        y = q("x", .02, [])
        w = n.op("DequantizeLinear", n.const(i8(4, 3, 3, 3)), f(.00217))
        n.op("Identity", q(n.op("Conv", y, w), .0233, []), out="y")
    elif how == "blocked":
        w = n.op("DequantizeLinear", n.const(i8(768, 8)), n.weight(
            24, 8, low=.001, high=.01), axis=0, block_size=32)
        n.op("MatMul", flat, w, out="y")
    elif how in ("int4", "uint4"):
        t = T.INT4 if how == "int4" else T.UINT4
        a = n.rng.integers(0, 8, (768, 8))
        n.weights.append(h.make_tensor("w4", t, a.shape, a.ravel()))
        n.weights.append(h.make_tensor("z4", t, [8], [1] * 8))
        w = n.op("DequantizeLinear", "w4", n.weight(8, low=.001, high=.01),
                 "z4", axis=1)
        n.op("MatMul", flat, w, out="y")
    elif how == "float8":
        a = n.rng.uniform(-2, 2, (768, 8)).astype(np.float32)
        n.weights.append(h.make_tensor("w8", T.FLOAT8E4M3FN, a.shape, a.ravel()))
        w = n.op("DequantizeLinear", "w8", f(.01))
        n.op("MatMul", flat, w, out="y")
    elif how == "weights_only":
        w = n.op("DequantizeLinear", n.const(i8(4, 3, 3, 3)), n.weight(
            4, low=.001, high=.01), n.const(np.zeros(4, np.int8)), axis=0)
        n.op("Conv", "x", w, n.weight(4), out="y")
    elif how == "relu_between":
        z = [n.const(np.uint8(0))]
        w = n.op("DequantizeLinear", n.const(i8(4, 3, 3, 3)), f(.003))
        y = n.op("Conv", q("x", .01, [n.const(np.uint8(128))]), w)
        n.op("Identity", q(n.op("Relu", y), .01, z), out="y")
    elif how == "int16":
        z = [n.const(np.int16(0))]
        w = n.op("DequantizeLinear", n.const(i8(4, 3, 3, 3)), f(.003))
        n.op("Identity", q(n.op("Conv", q("x", .0001, z), w), .001, z), out="y")
    elif how == "dynamic":
        y, s, z = n.op("DynamicQuantizeLinear", flat, outs=3)
        p = n.op("MatMulInteger", y, n.const(i8(768, 8)), z, n.const(np.int8(0)))
        n.op("Mul", n.op("Cast", p, to=T.FLOAT), n.op("Mul", s, f(.01)), out="y")
    elif how == "qlinear":
        s, z = f(.02), n.const(np.uint8(128))
        x = n.op("QuantizeLinear", "x", s, z)
        y = n.op("QLinearConv", x, s, z, n.const(i8(4, 3, 3, 3)), n.weight(
            4, low=.001, high=.005), n.const(np.zeros(4, np.int8)), f(.02), z,
            n.const(np.arange(4, dtype=np.int32) * 900))
        n.op("DequantizeLinear", y, f(.02), z, out="y")
    elif how == "convinteger":
        s, z = f(.02), n.const(np.uint8(128))
        x = n.op("QuantizeLinear", "x", s, z)
        y = n.op("ConvInteger", x, n.const(i8(4, 3, 3, 3)), z)
        n.op("Mul", n.op("Cast", y, to=T.FLOAT), f(1e-4), out="y")
    else:
        z = [n.const(np.uint8(128))]
        w = n.op("DequantizeLinear", n.const(i8(5, 768)), n.weight(
            5, low=.001, high=.01), n.const(np.zeros(5, np.int8)), axis=0)
        y = q(flat, .02, z)
        if how == "gemm_transposed":
            y = n.op("MatMul", y, n.op("Transpose", w, perm=[1, 0]))
        else:
            y = n.op("Gemm", y, w, n.weight(5), transB=1)
        n.op("Identity", q(y, .1, z), out="y")
    return n.model()


# ---- running ------------------------------------------------------------

def save(name, folder):
    made = VARIATIONS[name]()
    m, how = made if isinstance(made, tuple) else (made, None)
    os.makedirs(folder)
    path = os.path.join(folder, "m.onnx")
    if how:
        how(path)
    elif name == "float_data_unpacked":
        with open(path, "wb") as f:
            f.write(unpack(m.SerializeToString()))
    else:
        onnx.save(m, path)
    return path, m


def inputs_of(m):
    r = rng()
    weights = {w.name for w in m.graph.initializer}
    feed = {}
    for i in m.graph.input:
        if i.name in weights:
            continue
        t = i.type.tensor_type
        dims = [d.dim_value if d.dim_value > 0 else
                16 if d.dim_param in ("h", "w") or k >= 2 else
                2 if d.dim_param or not d.dim_value else 1
                for k, d in enumerate(t.shape.dim)]
        if not t.HasField("shape"):
            dims = [1, 3, 16, 16]
        dtype = h.tensor_dtype_to_np_dtype(t.elem_type)
        feed[i.name] = (r.integers(0, 255, dims) if dtype == np.uint8 else
                        r.normal(size=dims)).astype(dtype)
    return feed


def truth(path, m, feed):
    try:
        import onnxruntime as ort
        o = ort.SessionOptions()
        o.log_severity_level = 4
        o.intra_op_num_threads = 1
        # quantised graphs as they are written, not as they are fused
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        return "onnxruntime", s.run(None, feed)
    except Exception as first:
        try:
            from onnx.reference import ReferenceEvaluator
            return "onnx.reference", ReferenceEvaluator(path).run(None, feed)
        except Exception as e:
            return "none: %s / %s" % (str(first)[:90], str(e)[:60]), None


def safe(name):
    """infer's file name of a tensor."""
    return "".join(c if " " < c < "\x7f" and c not in '/\\:*?"<>|' else "_"
                   for c in name)


def compare(path, m, a):
    """What is wrong, or an empty string; and who said so."""
    feed = inputs_of(m)
    who, want = truth(path, m, feed)
    folder = os.path.dirname(path)
    model = os.path.join(folder, "m.infer")
    p = subprocess.run([a.wconv, path, "-q", "-o", model], capture_output=True)
    if p.returncode:
        return who, "refused: " + p.stderr.decode()[-300:].strip()
    if want is None:
        return who, ""
    files = []
    for k, x in enumerate(feed.values()):
        files.append(os.path.join(folder, "in%d.npy" % k))
        np.save(files[-1], x)
    out = os.path.join(folder, "out")
    p = subprocess.run([a.infer, "-m", model, "-q", "--export-output=" + out,
                        "--load-inputs=" + ",".join(files)],
                       capture_output=True)
    if p.returncode:
        return who, "infer: " + p.stderr.decode()[-300:].strip()
    got = sorted(os.listdir(out))
    if len(got) != len(want):
        return who, "%d outputs, %d expected" % (len(got), len(want))
    worst = 0.0
    for o, w in zip(m.graph.output, want):
        f = os.path.join(out, safe(o.name) + ".npy")
        if not os.path.exists(f):
            f = os.path.join(out, got[0])
        g = np.load(f)
        if g.shape != w.shape:
            return who, "shape %s, expected %s" % (g.shape, w.shape)
        w = w.astype(np.float64)
        worst = max(worst, float(np.abs(g - w).max() / max(
            np.abs(w).max(), 1e-30)) if w.size else 0)
    # types of 16 bits carry 3 digits
    limit = 4e-3 if "half" in path else 1e-5
    return who, "" if worst <= limit else "error %.1e" % worst


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder")
    p.add_argument("--wconv")
    p.add_argument("--infer")
    p.add_argument("--only", default="")
    a = p.parse_args()
    bad = count = 0
    for name in VARIATIONS:
        if not re.search(a.only, name):
            continue
        folder = os.path.join(a.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        path, m = save(name, folder)
        count += 1
        if a.wconv and a.infer:
            who, wrong = compare(path, m, a)
            bad += wrong != ""
            if wrong or not who.startswith("onnxr"):
                print("%-40s %s (%s)" % (name, wrong or "fine", who))
    print("%d files, %d not as they should be" % (count, bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
