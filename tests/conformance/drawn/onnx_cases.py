# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX with drawn attributes, for onnx_graphs.py.

A template is a function of Draw.  It gives Node(op, inputs, attributes): an
input is an array that changes from run to run (X), an array of the file (C), or
None where an optional one is left out.
"""
import random

import numpy as np

TEMPLATES = {}  # name: (first opset, last opset, function)


class X:
    def __init__(self, a):
        self.a = np.asarray(a)


class C(X):
    pass


class Node:
    def __init__(self, op, inputs, outputs=1, **attributes):
        self.op, self.inputs, self.outputs = op, inputs, outputs
        self.attributes = {k: v for k, v in attributes.items()
                           if v is not None}


class Draw(random.Random):
    """A random number generator with an opset."""
    opset = 17

    def maybe(self, *choice, p=0.5):
        return self.choice(choice) if self.random() < p else None

    def shape(self, rank, low=1, high=7):
        return [self.randint(low, high) for _ in range(rank)]

    def floats(self, *shape, low=-2.0, high=2.0):
        r = np.random.RandomState(self.randrange(1 << 30))
        return r.uniform(low, high, shape).astype(np.float32)

    def ints(self, *shape, low=-9, high=9, dtype=np.int64):
        r = np.random.RandomState(self.randrange(1 << 30))
        return r.randint(low, high + 1, shape).astype(dtype)

    def numbers(self, *shape, kinds=("f", "f", "i32", "i64")):
        kind = self.choice(kinds)
        if kind == "f":
            return self.floats(*shape)
        if kind == "f16":
            return self.floats(*shape).astype(np.float16)
        if kind == "d":
            return self.floats(*shape).astype(np.float64)
        low = 0 if kind.startswith("u") else -9
        return self.ints(*shape, low=low, dtype={
            "i32": np.int32, "i64": np.int64, "u8": np.uint8,
            "i8": np.int8}[kind])

    def axis(self, rank):
        return self.randint(-rank, rank - 1)

    def flag(self):
        return self.maybe(0, 1, p=0.7)


def op(name=None, since=7, until=22):
    def add(f):
        TEMPLATES[name or f.__name__] = since, until, f
        return f
    return add


def window(d, n, size, dilated=True):
    """Attributes of a window over n dimensions."""
    k = [d.randint(1, 3) for _ in range(n)]
    a = {"kernel_shape": k}
    if d.random() < 0.6:
        a["strides"] = [d.randint(1, 3) for _ in range(n)]
    how = d.choice(("pads", "pads", "none", "SAME_UPPER", "SAME_LOWER",
                    "VALID", "NOTSET"))
    if how == "pads":
        a["pads"] = [d.randint(0, v - 1) for v in k] + [
            d.randint(0, v - 1) for v in k]
    elif how != "none":
        a["auto_pad"] = how
    if dilated and how in ("pads", "none") and d.random() < 0.4:
        a["dilations"] = [d.randint(1, 2) for _ in range(n)]
    return a


@op("Conv")
def conv(d):
    n, g = d.choice((1, 2, 2, 2, 3)), d.choice((1, 1, 2, 3))
    a = window(d, n, 7)
    cin, cout = g * d.randint(1, 3), g * d.randint(1, 3)
    k = a["kernel_shape"]
    if d.random() < 0.3:
        del a["kernel_shape"]
    if g > 1 or d.random() < 0.3:
        a["group"] = g
    x = d.floats(d.randint(1, 2), cin, *d.shape(n, 6, 9))
    w = d.floats(cout, cin // g, *k)
    return Node("Conv", [X(x), d.choice((C, C, X))(w),
                         C(d.floats(cout)) if d.random() < 0.5 else None], **a)


@op("ConvTranspose")
def conv_transpose(d):
    n, g = d.choice((1, 2, 2, 3)), d.choice((1, 1, 2))
    a = window(d, n, 7)
    cin, cout = g * d.randint(1, 3), d.randint(1, 3)
    k = a["kernel_shape"]
    s = a.get("strides", [1] * n)
    if d.random() < 0.3:
        a["output_padding"] = [d.randint(0, max(v - 1, 0)) for v in s]
    size = d.shape(n, 3, 6)
    if d.random() < 0.2:
        a.pop("pads", None)
        a["output_shape"] = [v * t + d.randint(0, 1) for v, t in zip(size, s)]
    if g > 1:
        a["group"] = g
    return Node("ConvTranspose", [
        X(d.floats(d.randint(1, 2), cin, *size)),
        C(d.floats(cin, cout, *k)),
        C(d.floats(cout * g)) if d.random() < 0.5 else None], **a)


@op("MaxPool", 8)
def max_pool(d):
    n = d.choice((1, 2, 2, 3))
    a = window(d, n, 7, d.opset >= 10)
    if d.opset >= 10:
        a["ceil_mode"] = d.flag()
    x = d.floats(2, 3, *d.shape(n, 6, 9))
    if d.opset >= 12 and d.random() < 0.2:
        x = d.numbers(*x.shape, kinds=("u8", "i8"))
    if d.random() < 0.15 and x.dtype == np.float32:
        return Node("MaxPool", [X(x)], 2, storage_order=d.flag(), **a)
    return Node("MaxPool", [X(x)], **a)


@op("AveragePool")
def average_pool(d):
    n = d.choice((1, 2, 2, 3))
    a = window(d, n, 7, d.opset >= 19)
    if d.opset >= 10:
        a["ceil_mode"] = d.flag()
    return Node("AveragePool", [X(d.floats(2, 3, *d.shape(n, 6, 9)))],
                count_include_pad=d.flag(), **a)


@op("LpPool")
def lp_pool(d):
    n = d.choice((1, 2, 2))
    a = window(d, n, 7, d.opset >= 18)
    if d.opset >= 18:
        a["ceil_mode"] = d.flag()
    return Node("LpPool", [X(d.floats(2, 3, *d.shape(n, 6, 9)))],
                p=d.maybe(1, 2, 3), **a)


@op("GlobalPool")
def global_pool(d):
    name = d.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    more = {"p": d.maybe(1, 2, 3)} if name == "GlobalLpPool" else {}
    return Node(name, [X(d.floats(2, 3, *d.shape(d.randint(1, 3), 2, 6)))],
                **more)


@op("BatchNormalization")
def batch_norm(d):
    c = d.randint(1, 5)
    x = d.floats(2, c, *d.shape(d.randint(0, 3), 2, 5))
    return Node("BatchNormalization", [X(x)] + [
        C(v) for v in (d.floats(c), d.floats(c), d.floats(c),
                       d.floats(c, low=0.1))], epsilon=d.maybe(1e-3, 1e-5))


@op("InstanceNormalization")
def instance_norm(d):
    c = d.randint(1, 4)
    return Node("InstanceNormalization", [
        X(d.floats(2, c, *d.shape(d.randint(1, 3), 3, 6))), C(d.floats(c)),
        C(d.floats(c))], epsilon=d.maybe(1e-3))


@op("LayerNormalization", 17)
def layer_norm(d):
    rank = d.randint(2, 4)
    x = d.floats(*d.shape(rank, 2, 6))
    axis = d.axis(rank) if d.random() < 0.8 else None
    own = x.shape[(-1 if axis is None else axis % rank):]
    if axis is not None and axis % rank == 0:
        own = x.shape
    return Node("LayerNormalization", [
        X(x), C(d.floats(*own)), C(d.floats(*own)) if d.random() < 0.6
        else None], axis=axis, epsilon=d.maybe(1e-3))


@op("GroupNormalization", 21)
def group_norm(d):
    g = d.randint(1, 3)
    c = g * d.randint(1, 3)
    return Node("GroupNormalization", [
        X(d.floats(2, c, *d.shape(d.randint(1, 2), 3, 5))), C(d.floats(c)),
        C(d.floats(c))], num_groups=g, epsilon=d.maybe(1e-2))


@op("LRN")
def lrn(d):
    return Node("LRN", [X(d.floats(2, d.randint(2, 7), 4, 5))],
                size=d.choice((1, 3, 5)), alpha=d.maybe(0.1),
                beta=d.maybe(0.6), bias=d.maybe(2.0))


@op("MeanVarianceNormalization", 9)
def mvn(d):
    return Node("MeanVarianceNormalization", [X(d.floats(2, 3, 4, 5))],
                axes=d.maybe([0, 2, 3], [1, 2], [-1], [0, 1, 2, 3]))


@op("LpNormalization")
def lp_norm(d):
    rank = d.randint(1, 4)
    return Node("LpNormalization", [X(d.floats(*d.shape(rank, 2, 5)))],
                axis=d.maybe(d.axis(rank)), p=d.maybe(1, 2))


@op("Gemm")
def gemm(d):
    m, n, k = d.shape(3, 1, 6)
    ta, tb = d.flag(), d.flag()
    c = d.choice((None, (n,), (1, n), (m, 1), (m, n), (1,), ()))
    if c is None and d.opset < 11:
        c = (n,)
    return Node("Gemm", [
        X(d.floats(*((k, m) if ta else (m, k)))),
        d.choice((C, X))(d.floats(*((n, k) if tb else (k, n)))),
        None if c is None else d.choice((C, X))(d.floats(*c))],
        transA=ta, transB=tb, alpha=d.maybe(0.5, -1.0), beta=d.maybe(0.3, 0.0))


@op("MatMul")
def matmul(d):
    m, n, k, b, c = d.shape(5, 1, 5)
    a = d.choice(((k,), (m, k), (b, m, k), (c, b, m, k), (1, b, m, k)))
    w = d.choice(((k,), (k, n), (b, k, n), (c, b, k, n), (c, 1, k, n)))
    kinds = ("f", "f", "f", "d") if d.opset < 9 else ("f", "f", "i32", "d")
    kind = d.choice(kinds)
    return Node("MatMul", [X(d.numbers(*a, kinds=(kind,))),
                           d.choice((C, X))(d.numbers(*w, kinds=(kind,)))])


def pair(d, kinds=("f", "f", "i32", "i64")):
    """Two arrays that are broadcast."""
    rank = d.randint(0, 4)
    s = d.shape(rank, 1, 4)
    a = [v if d.random() < 0.7 else 1 for v in s]
    b = [v if d.random() < 0.7 else 1 for v in s][d.randint(0, rank):]
    if d.random() < 0.5:
        a, b = b, a
    kind = (d.choice(kinds),)
    return d.numbers(*a, kinds=kind), d.numbers(*b, kinds=kind)


@op("Arithmetic")
def arithmetic(d):
    name = d.choice(("Add", "Sub", "Mul", "Div"))
    a, b = pair(d)
    if name == "Div":
        b = np.where(b == 0, b.dtype.type(3), b)
        if b.dtype == np.float32:
            b = np.sign(b) * (np.abs(b) + np.float32(0.5))
    return Node(name, [X(a), d.choice((C, X))(b)])


@op("Mod", 10)
def mod(d):
    a, b = pair(d, ("f", "i32", "i64", "u8", "i8"))
    b = np.where(np.abs(b) < 0.3, b.dtype.type(3), b)
    return Node("Mod", [X(a), d.choice((C, X))(b)],
                fmod=1 if a.dtype == np.float32 else d.flag())


@op("Pow")
def power(d):
    a, b = pair(d, ("f",))
    if d.opset >= 12 and d.random() < 0.4:
        b = d.ints(*b.shape, low=0, high=3, dtype=d.choice(
            (np.int32, np.int64)))
        if d.random() < 0.4:
            a = d.ints(*a.shape, low=-4, high=4, dtype=np.int32)
    else:
        a = np.abs(a) + np.float32(0.1)
    return Node("Pow", [X(a), d.choice((C, X))(b)])


@op("Compare", 9)
def compare(d):
    name = d.choice(("Less", "Greater", "Equal") + (
        ("LessOrEqual", "GreaterOrEqual") if d.opset >= 12 else ()))
    a, b = pair(d)
    return Node(name, [X(np.round(a)), d.choice((C, X))(np.round(b))])


@op("Logic")
def logic(d):
    a, b = pair(d)
    return Node(d.choice(("And", "Or", "Xor")), [X(a > 0), X(b > 0)])


@op("Bits", 18)
def bits(d):
    a, b = pair(d, ("i32", "i64", "u8"))
    return Node(d.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
                [X(a), d.choice((C, X))(b)])


@op("BitShift", 11)
def bit_shift(d):
    a, b = pair(d, ("u8",))
    return Node("BitShift", [X(a), X(b % 8)],
                direction=d.choice(("LEFT", "RIGHT")))


@op("Variadic", 8)
def variadic(d):
    s = d.shape(d.randint(1, 3), 1, 4)
    name = d.choice(("Sum", "Mean", "Max", "Min"))
    kind = ("f",) if name in ("Sum", "Mean") or d.opset < 12 else (
        d.choice(("f", "i32", "i64", "u8")),)
    return Node(name, [X(d.numbers(*[
        v if d.random() < 0.7 else 1 for v in s][d.randint(0, 1):],
        kinds=kind)) for _ in range(d.randint(1, 4))])


@op("Clip")
def clip(d):
    x = d.floats(*d.shape(d.randint(0, 4)))
    if d.opset < 11:
        return Node("Clip", [X(x)], min=d.maybe(-1.0, 0.0),
                    max=d.maybe(0.5, 1.0))
    if d.opset >= 12 and d.random() < 0.4:
        x = d.numbers(*x.shape, kinds=("i32", "i64", "u8", "i8"))
    low = None if d.random() < 0.4 else C(np.asarray(1 if x.dtype.kind == "u"
                                                     else -1, x.dtype))
    high = None if d.random() < 0.4 else C(np.asarray(
        3 if x.dtype.kind != "f" else 0.5, x.dtype))
    return Node("Clip", [X(x), low, high])


@op("Reduce")
def reduce(d):
    name = d.choice(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin",
                     "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
                     "ReduceLogSumExp", "ReduceSumSquare"))
    rank = d.randint(1, 4)
    x = d.floats(*d.shape(rank, 1, 5))
    if name == "ReduceLogSum":
        x = np.abs(x) + np.float32(0.1)
    elif d.random() < 0.3 and name in ("ReduceSum", "ReduceMax", "ReduceMin",
                                       "ReduceProd", "ReduceMean"):
        x = d.numbers(*x.shape, kinds=("i32", "i64"))
    axes = None
    if d.random() < 0.75:
        axes = d.sample(range(rank), d.randint(1, rank))
        if d.opset >= 11:
            axes = [v - rank if d.random() < 0.4 else v for v in axes]
    if d.opset >= (13 if name == "ReduceSum" else 18):
        noop = d.flag()
        if axes is None and d.random() < 0.3:
            axes = []
        return Node(name, [X(x)] + ([] if axes is None else [
            C(np.asarray(axes, np.int64))]), keepdims=d.flag(),
            noop_with_empty_axes=noop)
    return Node(name, [X(x)], axes=axes, keepdims=d.flag())


@op("Arg")
def arg(d):
    rank = d.randint(1, 4)
    x = np.round(d.floats(*d.shape(rank, 1, 5)))
    if d.random() < 0.3:
        x = x.astype(np.int32)
    return Node(d.choice(("ArgMax", "ArgMin")), [X(x)],
                axis=d.maybe(d.axis(rank) if d.opset >= 11
                             else d.randrange(rank)), keepdims=d.flag(),
                select_last_index=d.flag() if d.opset >= 12 else None)


@op("TopK")
def top_k(d):
    rank = d.randint(1, 3)
    x = d.floats(*d.shape(rank, 2, 7))
    axis = d.axis(rank) if d.opset >= 11 else d.randrange(rank)
    k = d.randint(1, x.shape[axis])
    if d.opset < 10:
        return Node("TopK", [X(x)], 2, axis=axis, k=k)
    more = {} if d.opset < 11 else {"largest": d.flag()}
    return Node("TopK", [X(x), C(np.asarray([k], np.int64))], 2, axis=axis,
                **more)


@op("Softmax")
def softmax(d):
    rank = d.randint(1, 4)
    name = d.choice(("Softmax", "LogSoftmax", "Hardmax"))
    return Node(name, [X(d.floats(*d.shape(rank, 1, 5)))],
                axis=d.maybe(d.axis(rank) if d.opset >= 11
                             else d.randrange(rank)))


@op("Split")
def split(d):
    rank = d.randint(1, 4)
    x = d.numbers(*d.shape(rank, 3, 7))
    axis = d.axis(rank) if d.opset >= 11 else d.randrange(rank)
    n = x.shape[axis]
    parts = d.randint(1, 3)
    if d.random() < 0.5:
        cut = sorted(d.sample(range(1, n), min(parts, n) - 1))
        sizes = np.diff([0] + cut + [n])
        if d.opset < 13:
            return Node("Split", [X(x)], len(sizes), axis=axis,
                        split=[int(v) for v in sizes])
        return Node("Split", [X(x), C(sizes.astype(np.int64))], len(sizes),
                    axis=axis)
    if d.opset >= 18:
        return Node("Split", [X(x)], parts, axis=axis, num_outputs=parts)
    parts = d.choice([v for v in range(1, n + 1) if n % v == 0])
    return Node("Split", [X(x)], parts, axis=axis)


@op("Slice")
def slices(d):
    rank = d.randint(1, 4)
    x = d.numbers(*d.shape(rank, 2, 7))
    axes = d.sample(range(rank), d.randint(1, rank))
    start, end, step = [], [], []
    for a in axes:
        n = x.shape[a]
        i, j = sorted((d.randint(0, n), d.randint(0, n)))
        s = d.choice((1, 1, 2, -1, -2)) if d.opset >= 10 else 1
        if i == j:
            i, j = 0, n
        if s < 0:
            start.append(d.choice((j - 1, j - 1 - n, 1 << 40 if j == n
                                   else j - 1)))
            end.append(i - 1 if i > 0 else d.choice((-n - 1, -(1 << 62))))
        else:
            start.append(d.choice((i, i - n) if i < n else (i,)))
            end.append(d.choice((j, j - n)) if j < n else
                       d.choice((n, (1 << 63) - 1, (1 << 31) - 1, n + 3)))
        step.append(s)
    if d.opset < 10:
        return Node("Slice", [X(x)], starts=start, ends=end,
                    axes=axes if axes != list(range(len(axes)))
                    or d.random() < 0.5 else None)
    axes = [a - rank if d.random() < 0.4 else a for a in axes]
    t = np.int64
    steps = C(np.asarray(step, t)) if (any(s != 1 for s in step)
                                       or d.random() < 0.4) else None
    return Node("Slice", [X(x), C(np.asarray(start, t)),
                          C(np.asarray(end, t)), C(np.asarray(axes, t)),
                          steps])


@op("Pad")
def pad(d):
    rank = d.randint(1, 4)
    x = d.floats(*d.shape(rank, 3, 6))
    mode = d.maybe("constant", "reflect", "edge",
                   "wrap" if d.opset >= 19 else "edge", p=0.7)
    pads = [0] * (2 * rank)
    for a in d.sample(range(rank), d.randint(1, min(rank, 2))):
        low = -1 if mode in (None, "constant") and d.random() < 0.3 else 0
        pads[a], pads[a + rank] = d.randint(low, 2), d.randint(low, 2)
    if d.opset < 11:
        return Node("Pad", [X(x)], pads=pads, mode=mode,
                    value=d.maybe(1.5))
    if d.random() < 0.2 and mode in (None, "constant"):
        x = d.numbers(*x.shape, kinds=("i32", "i64"))
    value = C(np.asarray(1, x.dtype)) if d.random() < 0.4 else None
    axes = None
    if d.opset >= 18 and d.random() < 0.4:
        own = d.sample(range(rank), d.randint(1, rank))
        pads = [pads[a] for a in own] + [pads[a + rank] for a in own]
        axes = C(np.asarray([a - rank if d.random() < 0.4 else a
                             for a in own], np.int64))
    return Node("Pad", [X(x), C(np.asarray(pads, np.int64)), value, axes],
                mode=mode)


@op("Resize", 10)
def resize(d):
    n = d.choice((1, 2, 2, 2, 3))
    mode = d.maybe("nearest", "linear", "cubic" if n == 2 else "linear", p=0.9)
    if mode == "linear" and n == 3 and d.opset < 11:
        mode = "nearest"
    x = d.floats(1, 2, *d.shape(n, 3, 7))
    size = [1, 2] + [d.randint(2, 11) for _ in range(n)]
    scale = np.asarray([1, 1] + [d.choice((0.5, 0.6, 1.5, 2.0, 2.6))
                                 for _ in range(n)], np.float32)
    if d.opset < 11:
        mode = "nearest" if mode == "cubic" else mode
        return Node("Resize", [X(x), C(scale)], mode=mode)
    a = {"mode": mode}
    a["coordinate_transformation_mode"] = d.maybe(
        "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
        "half_pixel_symmetric" if d.opset >= 19 else "half_pixel", p=0.8)
    if mode in (None, "nearest"):
        a["nearest_mode"] = d.maybe("floor", "ceil", "round_prefer_floor",
                                    "round_prefer_ceil", p=0.7)
    if mode == "cubic":
        a["cubic_coeff_a"] = d.maybe(-0.5)
        a["exclude_outside"] = d.flag()
    if d.opset >= 18 and mode in ("linear", "cubic") and d.random() < 0.25:
        a["antialias"] = 1
    empty = C(np.zeros(0, np.float32))
    roi = empty if d.opset < 13 else d.choice((empty, None))
    if d.random() < 0.5:
        if d.opset >= 18 and d.random() < 0.4:
            own = [v for v in range(2, n + 2)]
            a["axes"] = own
            size = size[2:]
            if n > 1:
                a["keep_aspect_ratio_policy"] = d.maybe(
                    "not_larger", "not_smaller", "stretch")
        return Node("Resize", [X(x), roi, empty if d.opset < 13 else None,
                               C(np.asarray(size, np.int64))], **a)
    return Node("Resize", [X(x), roi, C(scale)], **a)


@op("Upsample", 7, 9)
def upsample(d):
    x = d.floats(1, 2, *d.shape(2, 3, 6))
    s = [1.0, 1.0, d.choice((1.0, 2.0, 3.0)), d.choice((2.0, 1.5))]
    mode = d.maybe("nearest", "linear")
    if d.opset < 9:
        return Node("Upsample", [X(x)], scales=s, mode=mode)
    return Node("Upsample", [X(x), C(np.asarray(s, np.float32))], mode=mode)


@op("Gather")
def gather(d):
    rank = d.randint(1, 4)
    x = d.numbers(*d.shape(rank, 2, 6), kinds=("f", "i64", "u8"))
    axis = d.axis(rank)
    low = -x.shape[axis] if d.opset >= 11 else 0
    at = d.ints(*d.shape(d.randint(0, 2), 1, 4), low=low,
                high=x.shape[axis] - 1,
                dtype=d.choice((np.int32, np.int64)))
    return Node("Gather", [X(x), d.choice((C, X))(at)],
                axis=axis if axis != 0 or d.random() < 0.5 else None)


@op("GatherElements", 11)
def gather_elements(d):
    rank = d.randint(1, 4)
    x = d.numbers(*d.shape(rank, 2, 6), kinds=("f", "i64"))
    axis = d.axis(rank)
    s = [d.randint(1, v) for v in x.shape]
    at = d.ints(*s, low=-x.shape[axis], high=x.shape[axis] - 1)
    return Node("GatherElements", [X(x), d.choice((C, X))(at)], axis=axis)


@op("GatherND", 11)
def gather_nd(d):
    x = d.floats(*d.shape(3, 2, 4))
    b = d.choice((0, 0, 1)) if d.opset >= 12 else 0
    n = d.randint(1, 3 - b)
    lead = ([x.shape[0]] if b else []) + d.shape(d.randint(0, 1), 1, 3)
    at = np.stack([d.ints(*lead, low=-x.shape[b + i], high=x.shape[b + i] - 1)
                   for i in range(n)], -1)
    return Node("GatherND", [X(x), d.choice((C, X))(at)],
                batch_dims=b or None)


@op("ScatterElements", 11)
def scatter_elements(d):
    rank = d.randint(1, 3)
    x = d.floats(*d.shape(rank, 3, 6))
    axis = d.axis(rank) % rank
    s = [d.randint(1, v) for v in x.shape]
    r = np.random.RandomState(d.randrange(1 << 30))
    order = np.argsort(r.rand(*x.shape), axis)  # no place is met twice
    at = order[tuple(slice(v) for v in s)]
    how = d.maybe(*(("none",) + (("add", "mul") if d.opset >= 16 else ()) + (
        ("max", "min") if d.opset >= 18 else ())))
    if how in ("add", "max", "min"):
        at = r.randint(-x.shape[axis], x.shape[axis], s)
    return Node("ScatterElements", [
        X(x), d.choice((C, X))(at.astype(np.int64)), X(d.floats(*s))],
        axis=d.choice((axis, axis - rank)), reduction=how)


@op("ScatterND", 11)
def scatter_nd(d):
    x = d.floats(*d.shape(3, 3, 5))
    n = d.randint(1, 3)
    r = np.random.RandomState(d.randrange(1 << 30))
    all_at = np.stack(np.meshgrid(*[np.arange(v) for v in x.shape[:n]],
                                  indexing="ij"), -1).reshape(-1, n)
    m = d.randint(1, min(4, len(all_at)))
    at = all_at[r.permutation(len(all_at))[:m]]
    how = d.maybe("add", "mul", "none") if d.opset >= 16 else None
    return Node("ScatterND", [
        X(x), d.choice((C, X))(at.astype(np.int64)),
        X(d.floats(m, *x.shape[n:]))], reduction=how)


@op("Concat")
def concat(d):
    rank = d.randint(1, 4)
    s = d.shape(rank, 1, 4)
    axis = d.axis(rank) if d.opset >= 11 else d.randrange(rank)
    kind = (d.choice(("f", "i64", "u8")),)
    parts = []
    for _ in range(d.randint(1, 4)):
        s[axis] = d.randint(1, 3)
        parts.append(d.choice((X, X, C))(d.numbers(*s, kinds=kind)))
    parts[0] = X(parts[0].a)
    return Node("Concat", parts, axis=axis)


@op("Transpose")
def transpose(d):
    rank = d.randint(1, 5)
    perm = d.sample(range(rank), rank)
    return Node("Transpose", [X(d.numbers(*d.shape(rank, 1, 4)))],
                perm=d.maybe(perm, p=0.8))


@op("Reshape")
def reshape(d):
    s = [d.choice((2, 3, 4)) for _ in range(d.randint(1, 4))]
    x = d.numbers(*s)
    to = d.choice(([-1], [0, -1], [1, -1], [-1, 1], [0] * len(s),
                   s[::-1], [1] + s, [-1, s[-1]]))
    if to == [0, -1] and len(s) == 1:
        to = [0, 1]
    return Node("Reshape", [X(x), C(np.asarray(to, np.int64))],
                allowzero=0 if d.opset >= 14 and d.random() < 0.3 else None)


@op("Flatten")
def flatten(d):
    rank = d.randint(1, 4)
    low = -rank if d.opset >= 11 else 0
    return Node("Flatten", [X(d.numbers(*d.shape(rank, 1, 4), kinds=(
        ("f",) if d.opset < 9 else ("f", "i64"))))],
        axis=d.maybe(d.randint(low, rank), p=0.8))


@op("Squeeze")
def squeeze(d):
    rank = d.randint(2, 5)
    s = [d.choice((1, 1, 3)) for _ in range(rank)]
    ones = [i for i, v in enumerate(s) if v == 1]
    axes = None
    if ones and d.random() < 0.7:
        axes = d.sample(ones, d.randint(1, len(ones)))
        if d.opset >= 11:
            axes = [a - rank if d.random() < 0.4 else a for a in axes]
    x = X(d.numbers(*s))
    if d.opset >= 13:
        return Node("Squeeze", [x] + ([C(np.asarray(axes, np.int64))]
                                      if axes else []))
    return Node("Squeeze", [x], axes=axes)


@op("Unsqueeze")
def unsqueeze(d):
    rank = d.randint(0, 3)
    n = d.randint(1, 2)
    axes = d.sample(range(rank + n), n)
    if d.opset >= 11:
        axes = [a - rank - n if d.random() < 0.4 else a for a in axes]
    x = X(d.numbers(*d.shape(rank, 1, 4)))
    if d.opset >= 13:
        return Node("Unsqueeze", [x, C(np.asarray(axes, np.int64))])
    return Node("Unsqueeze", [x], axes=axes)


@op("Expand", 8)
def expand(d):
    a, b = pair(d)
    return Node("Expand", [X(a), C(np.asarray(b.shape, np.int64))])


@op("Tile")
def tile(d):
    rank = d.randint(1, 4)
    return Node("Tile", [X(d.numbers(*d.shape(rank, 1, 4))), C(
        np.asarray([d.randint(1, 3) for _ in range(rank)], np.int64))])


@op("Where", 9)
def where(d):
    a, b = pair(d)
    c, _ = pair(d)
    try:
        np.broadcast(a, b, c)
    except ValueError:
        c = np.zeros((), np.float32)
    return Node("Where", [X(c > 0), X(a), d.choice((C, X))(b)])


@op("CumSum", 11)
def cum_sum(d):
    rank = d.randint(1, 4)
    return Node("CumSum", [X(d.numbers(*d.shape(rank, 2, 5))), C(np.asarray(
        d.axis(rank), d.choice((np.int32, np.int64))))],
        exclusive=d.flag(), reverse=d.flag())


@op("DepthSpace")
def depth_space(d):
    b = d.randint(1, 3)
    if d.random() < 0.5:
        return Node("SpaceToDepth", [X(d.floats(2, 3, b * 2, b * 3))],
                    blocksize=b)
    return Node("DepthToSpace", [X(d.floats(2, 2 * b * b, 3, 2))], blocksize=b,
                mode=d.maybe("DCR", "CRD") if d.opset >= 11 else None)


@op("OneHot", 9)
def one_hot(d):
    n = d.randint(2, 5)
    at = d.ints(*d.shape(d.randint(1, 2), 1, 4), low=-n, high=n - 1)
    return Node("OneHot", [X(at), C(np.asarray(n, np.int64)), C(
        d.choice((np.asarray([0, 1], np.float32),
                  np.asarray([2, -1], np.int64))))],
        axis=d.maybe(*range(-at.ndim - 1, at.ndim + 1)))


@op("Trilu", 14)
def trilu(d):
    x = d.floats(*d.shape(d.randint(2, 4), 2, 5))
    return Node("Trilu", [X(x), C(np.asarray(d.randint(-3, 3), np.int64))
                          if d.random() < 0.6 else None], upper=d.flag())


@op("EyeLike", 9)
def eye_like(d):
    return Node("EyeLike", [X(d.floats(*d.shape(2, 2, 5)))],
                k=d.maybe(-1, 1, 2), dtype=d.maybe(1, 7))


@op("Einsum", 12)
def einsum(d):
    text = d.choice(("ij,jk->ik", "bij,bjk->bik", "bhqd,bhkd->bhqk", "ij->ji",
                     "ij->i", "ij,ij->", "i,j->ij", "bij,bik->bjk", "ii->i",
                     "...ij,...jk->...ik", "ij,jk", "bi,oi->bo", "abc->cab",
                     "bchw,bkc->bkhw", "ij,kj->ik"))
    sizes = {c: d.randint(2, 4) for c in "abcdefhijkloqw"}
    ins = text.split("->")[0].split(",")
    return Node("Einsum", [X(d.floats(*[sizes[c] for c in s.replace("...", "a")]))
                           for s in ins], equation=text)


@op("Activation")
def activation(d):
    x = d.floats(*d.shape(d.randint(0, 4), 1, 5), low=-4, high=4)
    name, since, more = d.choice((
        ("HardSigmoid", 7, {"alpha": 0.3, "beta": 0.4}), ("Elu", 7, {
            "alpha": 0.7}), ("LeakyRelu", 7, {"alpha": 0.2}), ("Selu", 7, {
                "alpha": 1.5, "gamma": 1.1}), ("ThresholdedRelu", 10, {
                    "alpha": 0.8}), ("Shrink", 9, {"lambd": 0.7, "bias": 0.2}),
        ("Celu", 12, {"alpha": 0.6}), ("Softplus", 7, {}), ("Softsign", 7, {}),
        ("Gelu", 20, {"approximate": "tanh"}), ("Mish", 18, {}),
        ("HardSwish", 14, {}), ("Erf", 9, {}), ("Sign", 9, {}), ("Ceil", 7, {}),
        ("Round", 11, {}), ("Abs", 7, {}), ("Neg", 7, {}), ("Exp", 7, {}),
        ("Sigmoid", 7, {}), ("Tanh", 7, {}), ("Sin", 7, {}), ("Atan", 7, {}),
        ("Sinh", 9, {}), ("Asinh", 9, {}), ("Floor", 7, {}), ("Relu", 7, {}),
        ("Identity", 7, {}), ("Not", 7, None), ("IsNaN", 9, {}),
        ("IsInf", 10, {"detect_positive": 0}), ("Reciprocal", 7, {}),
        ("Sqrt", 7, {}), ("Log", 7, {})))
    if d.opset < since:
        name, more = "Relu", {}
    if name == "Not":
        return Node("Not", [X(x > 0)])
    if name in ("Sqrt", "Log", "Reciprocal"):
        x = np.abs(x) + np.float32(0.1)
    if name == "IsInf":
        x = np.where(x > 2, np.float32(np.inf), np.where(
            x < -2, -np.float32(np.inf), x)).astype(np.float32)
    if name in ("Abs", "Neg", "Sign") and d.random() < 0.4:
        x = d.numbers(*x.shape, kinds=("i32", "i64"))
    if name == "Relu" and d.opset >= 14 and d.random() < 0.3:
        x = d.numbers(*x.shape, kinds=("i32",))
    return Node(name, [X(x)], **{k: v for k, v in more.items()
                                 if d.random() < 0.6})


@op("PRelu")
def prelu(d):
    x = d.floats(*d.shape(d.randint(1, 4), 1, 4))
    s = [v if d.random() < 0.6 else 1 for v in x.shape][d.randint(0, x.ndim):]
    return Node("PRelu", [X(x), d.choice((C, X))(d.floats(*s))])


@op("Cast", 9)
def cast(d):
    x = d.numbers(*d.shape(d.randint(0, 3)), kinds=("f", "i32", "i64", "u8",
                                                   "f16"))
    return Node("Cast", [X(x)], to=d.choice((1, 6, 7, 9, 10, 11, 3)))


@op("Quantize", 10)
def quantize(d):
    x = d.floats(2, 3, 4, low=-6, high=6)
    kind = d.choice((np.uint8, np.int8))
    axis = d.maybe(*range(-3, 3)) if d.opset >= 13 else None
    vector = d.opset >= 13 and d.random() < 0.5
    n = (x.shape[1 if axis is None else axis],) if vector else ()
    scale = d.floats(*n, low=0.02, high=0.1)
    zero = d.ints(*n, low=0, high=9, dtype=kind)
    if d.random() < 0.5:
        x = d.ints(*x.shape, low=0, high=100, dtype=kind)
        return Node("DequantizeLinear", [X(x), C(scale), C(zero)
                                         if d.random() < 0.7 else None],
                    axis=axis)
    return Node("QuantizeLinear", [X(x), C(scale), C(zero)
                                   if d.random() < 0.7 else None], axis=axis)


@op("Integers", 10)
def integers(d):
    a, b = d.choice((np.uint8, np.int8)), d.choice((np.uint8, np.int8))
    if d.random() < 0.5:
        m, n, k = d.shape(3, 1, 5)
        return Node("MatMulInteger", [
            X(d.ints(m, k, low=0, high=99, dtype=a)),
            d.choice((C, X))(d.ints(k, n, low=0, high=99, dtype=b)),
            C(np.asarray(7, a)) if d.random() < 0.5 else None,
            C(d.ints(*d.choice(((), (n,))), low=0, high=9, dtype=b))
            if d.random() < 0.5 else None])
    w = window(d, 2, 7)
    return Node("ConvInteger", [
        X(d.ints(1, 2, 6, 7, low=0, high=99, dtype=np.uint8)),
        C(d.ints(3, 2, *w["kernel_shape"], low=0, high=99, dtype=np.uint8)),
        C(np.asarray(7, np.uint8)) if d.random() < 0.5 else None,
        C(np.asarray(5, np.uint8)) if d.random() < 0.5 else None], **w)


@op("DynamicQuantizeLinear", 11)
def dynamic(d):
    return Node("DynamicQuantizeLinear", [X(d.floats(*d.shape(2, 2, 6)))], 3)


@op("Recurrent")
def recurrent(d):
    name, gates = d.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    t, b, i, h = d.randint(1, 5), d.randint(1, 2), d.randint(1, 4), \
        d.randint(1, 4)
    way = d.maybe("forward", "reverse", "bidirectional", p=0.8)
    n = 2 if way == "bidirectional" else 1
    ins = [X(d.floats(t, b, i)), C(d.floats(n, gates * h, i)),
           C(d.floats(n, gates * h, h)),
           C(d.floats(n, 2 * gates * h)) if d.random() < 0.6 else None, None,
           d.choice((C, X))(d.floats(n, b, h)) if d.random() < 0.5 else None]
    a = {"hidden_size": h, "direction": way}
    if name == "LSTM":
        ins += [C(d.floats(n, b, h)) if d.random() < 0.5 else None,
                C(d.floats(n, 3 * h)) if d.random() < 0.3 else None]
        a["input_forget"] = d.flag()
    if name == "GRU":
        a["linear_before_reset"] = d.flag()
    if name == "RNN" and d.random() < 0.4:
        a["activations"] = [d.choice(("Relu", "Tanh", "Sigmoid"))] * n
    if d.random() < 0.2:
        a["clip"] = 0.8
    return Node(name, ins, d.choice((1, 2, 3 if name == "LSTM" else 2)), **a)


@op("GridSample", 16)
def grid_sample(d):
    n = 2
    modes = ("linear", "nearest", "cubic") if d.opset >= 20 else (
        "bilinear", "nearest", "bicubic")
    return Node("GridSample", [
        X(d.floats(2, 2, *d.shape(n, 3, 6))),
        X(d.floats(2, 3, 4, 2, low=-1.3, high=1.3))], mode=d.maybe(*modes),
        padding_mode=d.maybe("zeros", "border", "reflection"),
        align_corners=d.flag())


@op("RoiAlign", 10)
def roi_align(d):
    n = d.randint(1, 4)
    corner = d.floats(n, 2, low=0, high=5)
    rois = np.concatenate([corner, corner + d.floats(n, 2, low=1, high=7)], 1)
    return Node("RoiAlign", [
        X(d.floats(2, 2, 8, 9)), X(rois), X(d.ints(n, low=0, high=1))],
        output_height=d.maybe(2, 3), output_width=d.maybe(3, 2),
        sampling_ratio=d.choice((1, 2, 3)), spatial_scale=d.maybe(0.5, 1.0),
        mode=d.maybe("avg"), coordinate_transformation_mode=d.maybe(
            "half_pixel", "output_half_pixel") if d.opset >= 16 else None)


@op("ReverseSequence", 10)
def reverse_sequence(d):
    b, t = d.randint(1, 3), d.randint(1, 5)
    batch = d.choice((0, 1))
    s = [b, t] if batch == 0 else [t, b]
    return Node("ReverseSequence", [
        X(d.floats(*s, 3)), d.choice((C, X))(d.ints(b, low=1, high=t))],
        batch_axis=batch, time_axis=1 - batch)


@op("Col2Im", 18)
def col2im(d):
    k, s, p, g = d.shape(2, 1, 3), d.shape(2, 1, 2), d.shape(4, 0, 1), \
        d.shape(2, 1, 2)
    size = d.shape(2, 6, 8)
    n = 1
    for i in range(2):
        n *= (size[i] + p[i] + p[i + 2] - g[i] * (k[i] - 1) - 1) // s[i] + 1
    return Node("Col2Im", [X(d.floats(2, 2 * k[0] * k[1], n)),
                           C(np.asarray(size, np.int64)),
                           C(np.asarray(k, np.int64))],
                strides=s, pads=p, dilations=g)


@op("CenterCropPad", 18)
def center_crop_pad(d):
    rank = d.randint(2, 4)
    axes = d.sample(range(rank), d.randint(1, rank))
    return Node("CenterCropPad", [
        X(d.floats(*d.shape(rank, 2, 6))),
        C(np.asarray(d.shape(len(axes), 1, 8), np.int64))],
        axes=[a - rank if d.random() < 0.4 else a for a in axes])


@op("NonZero", 9)
def non_zero(d):
    return Node("NonZero", [X((d.floats(*d.shape(d.randint(1, 3), 2, 5)) > 0)
                              .astype(d.choice((np.float32, np.int64))))])


@op("Compress", 9)
def compress(d):
    x = d.floats(*d.shape(d.randint(1, 3), 2, 5))
    axis = d.maybe(d.axis(x.ndim) if d.opset >= 11 else d.randrange(x.ndim))
    n = x.size if axis is None else x.shape[axis]
    c = d.ints(d.randint(1, n), low=0, high=1) > 0
    c[0] = True
    return Node("Compress", [X(x), C(c)], axis=axis)


@op("Shape", 7)
def shape(d):
    x = d.floats(*d.shape(d.randint(1, 4)))
    if d.opset < 15:
        return Node(d.choice(("Shape", "Size")), [X(x)])
    return Node("Shape", [X(x)], start=d.maybe(-2, -1, 0, 1),
                end=d.maybe(-1, 2, 9))
