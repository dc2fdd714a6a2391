# SPDX-License-Identifier: Apache-2.0
"""Hostile ONNX and TensorFlow graphs: few bytes that stand for many."""
import struct

from hostile_files.bytes import i64, nested, number, shape, size


# ---- ONNX ------------------------------------------------------------------

def tensor(name, dims, kind, raw):
    return (b"".join(number(1, d) for d in dims) + number(2, kind) +
            nested(8, name) + nested(9, raw))


def ints(name, values, rank=1):
    return tensor(name, [len(values)] if rank else [], 7, b"".join(i64(v) for v in values))


def floats(name, values, dims=None):
    return tensor(name, [len(values)] if dims is None else dims, 1,
                  struct.pack(f"<{len(values)}f", *values))


def attr(name, value):
    out = nested(1, name)
    if isinstance(value, bytes):
        return out + nested(5, value) + number(20, 4)
    if isinstance(value, str):
        return out + nested(4, value) + number(20, 3)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return out + b"\x15" + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, tuple):  # a graph
        return out + nested(6, value[0]) + number(20, 5)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, ins, outs, **attrs):
    return (b"".join(nested(1, i) for i in ins) + b"".join(nested(2, o) for o in outs) +
            nested(4, op) + b"".join(nested(5, attr(k, v)) for k, v in attrs.items()))


def value(name, dims, kind=1):
    sh = b"".join(nested(1, number(1, d) if isinstance(d, int) else nested(2, d)) for d in dims)
    return nested(1, name) + nested(2, nested(1, number(1, kind) + nested(2, sh)))


def graph(nodes, inits, ins, outs, name="g"):
    return (b"".join(nested(1, n) for n in nodes) + nested(2, name) +
            b"".join(nested(5, t) for t in inits) + b"".join(nested(11, v) for v in ins) +
            b"".join(nested(12, v) for v in outs))


def model(g, extra=b"", opset=17):
    return number(1, 8) + nested(7, g) + nested(8, nested(1, "") + number(2, opset)) + extra


class Net:
    def __init__(self, draw):
        self.draw, self.nodes, self.inits, self.n = draw, [], [], 0

    def name(self):
        self.n += 1
        return f"t{self.n}"

    def const(self, t, *args):
        name = self.name()
        self.inits.append(t(name, *args))
        return name

    def op(self, op, *ins, **attrs):
        out = self.name()
        self.nodes.append(node(op, ins, [out], **attrs))
        return out


def blown(net, low=16, high=27):
    """A constant of many elements from a few bytes."""
    draw = net.draw
    n = size(draw, low, high)
    dims = shape(draw, n)
    kind = draw.randrange(14)
    one = net.const(floats, [draw.random() + 0.5], [1] * len(dims))
    if kind == 0:
        return net.op("ConstantOfShape", net.const(ints, dims), value=floats("", [0.5]))
    if kind == 1:
        return net.op("Expand", one, net.const(ints, dims))
    if kind == 2:
        return net.op("Tile", one, net.const(ints, dims))
    if kind == 3:
        r = net.op("Range", *(net.const(floats, [v], []) for v in (0.0, float(n), 1.0)))
        return net.op("Reshape", r, net.const(ints, [-1, 1]))
    if kind == 4:
        pads = [draw.choice((0, d)) for d in dims] + [d - 1 for d in dims]
        return net.op("Pad", one, net.const(ints, pads), mode=draw.choice(("constant", "edge")))
    if kind == 5:
        side = int(n ** 0.5) or 1
        x = net.const(floats, [1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2])
        return net.op("Resize", x, "", "", net.const(ints, [1, 1, side, side]),
                      mode=draw.choice(("nearest", "linear", "cubic")))
    if kind == 6:
        x = one
        for _ in range(draw.randint(2, 9)):
            x = net.op("Concat", *[x] * draw.choice((2, 4, 16, 64)), axis=0)
        return x
    if kind == 7:
        table = net.const(floats, [0.5] * 8, [8])
        return net.op("Gather", table, net.op(
            "Expand", net.const(ints, [3]), net.const(ints, dims)))
    if kind == 8:
        side = int(n ** 0.5) or 1
        a = net.op("Expand", net.const(floats, [1.0], [1, 1]), net.const(ints, [side, 1]))
        b = net.op("Expand", net.const(floats, [1.0], [1, 1]), net.const(ints, [1, side]))
        return net.op(draw.choice(("MatMul", "Mul", "Add")), a, b)
    if kind == 9:
        depth = min(n, 1 << 22)
        return net.op("OneHot", net.const(ints, [0, 1, 2]), net.const(ints, [depth]),
                      net.const(floats, [0.0, 1.0]))
    if kind == 10:
        x = net.op("ConstantOfShape", net.const(ints, dims), value=floats("", [0.5]))
        return net.op(draw.choice(("Neg", "CumSum", "Softmax", "Exp", "Cast")), x,
                      *([net.const(ints, [0], 0)] if False else []))
    if kind == 11:
        x = net.op("ConstantOfShape", net.const(ints, [max(1, n // 4), 4]))
        return net.op("ScatterND", x, net.const(ints, [0]), net.const(floats, [1.0] * 4))
    if kind == 12:
        out = net.name()
        values = nested(9, struct.pack("<2f", 1, 2)) + number(1, 2) + number(2, 1)
        index = ints("", [0, n - 1])
        sparse = nested(1, values) + nested(2, index) + number(3, n)
        net.nodes.append(nested(2, out) + nested(4, "Constant") + nested(
            5, nested(1, "sparse_value") + nested(22, sparse) + number(20, 11)))
        return out
    side = min(int(n ** 0.5) or 1, 4096)
    return net.op("EyeLike", net.op("ConstantOfShape", net.const(ints, [side, side])))


def use(net, x):
    """A reader that wants elements, or none."""
    draw = net.draw
    kind = draw.randrange(12)
    if kind == 0:
        return net.op("Conv", "x", x)
    if kind == 1:
        return net.op("Gemm", net.op("Flatten", "x"), x, transB=draw.randrange(2))
    if kind == 2:
        return net.op("MatMul", "x", x)
    if kind == 3:
        return net.op("Add", "x", x)
    if kind == 4:
        return net.op("Gather", "x", net.op("Cast", x, to=7))
    if kind == 5:
        return net.op("Reshape", "x", net.op("Cast", x, to=7))
    if kind == 6:
        flat = net.op("Reshape", x, net.const(ints, [-1]))
        return net.op("BatchNormalization", "x", flat, flat, flat, flat)
    if kind == 7:
        return net.op("ScatterElements", "x", net.op("Cast", x, to=7), x, axis=0)
    if kind == 8:
        scale = net.op("Reshape", x, net.const(ints, [-1]))
        return net.op("QuantizeLinear", "x", scale, axis=1)
    if kind == 9:
        return net.op("Where", net.op("Cast", x, to=9), "x", x)
    if kind == 10:
        return net.op("LSTM", "x", x, x, hidden_size=draw.choice((1, 64, 4096)))
    return net.op("Unknown", x)


def finish(net, y, extra=b""):
    draw = net.draw
    if draw.random() < 0.5:
        y = net.op(draw.choice(("Unknown", "StringNormalizer", "Conv")), y)
    dims = draw.choice(([1, 3, 8, 8], ["n", 3, 8, 8], ["n", 4], [1, 4, "h", "w"]))
    return ".onnx", model(graph(net.nodes, net.inits, [value("x", dims)], [value(y, [1])]), extra)


def constants(draw):
    net = Net(draw)
    y = "x"
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        y = use(net, blown(net))
    return finish(net, y)


def chains(draw):
    """One large constant, and a chain or a fan of nodes on it."""
    net = Net(draw)
    x = blown(net, 12, 22)
    top = []
    for i in range(draw.choice((8, 64, 512, 4096))):
        y = net.op(draw.choice(("Neg", "Exp", "Relu", "Identity", "Transpose")), x)
        if draw.random() < 0.5:
            x = y
        top.append(y)
    if draw.random() < 0.5:
        x = net.op("Concat", *top[:4000], axis=0)
    return finish(net, use(net, x))


def shared_weights(draw):
    net = Net(draw)
    n = draw.choice((256, 512, 1024))
    w = net.const(floats, [0.5] * (n * n), [n, n])
    y = net.op("Reshape", "x", net.const(ints, [-1, n]))
    for _ in range(draw.choice((16, 128, 1024))):
        y = net.op(draw.choice(("MatMul", "MatMul", "Gemm")), y, w)
    return finish(net, y)


def bodies(draw):
    """Bodies in bodies, and loops of many steps."""
    kind = draw.randrange(4)
    inner = graph([node("Identity", ["x"], ["y"])], [], [], [value("y", [1])])
    if kind == 0:
        for i in range(draw.choice((10, 31, 90, 3000))):
            n = node("If", [draw.choice(("c", "k"))], ["y"], then_branch=(inner,),
                     else_branch=(inner if len(inner) < 1 << 18 else b"",))
            inner = graph([n], [], [], [value("y", [1])])
            if len(inner) > 1 << 20:
                break
        return ".onnx", model(inner + nested(5, tensor("k", [], 9, b"\1")) +
                              nested(11, value("x", [1, 3, 8, 8])))
    net = Net(draw)
    body = Net(draw)
    body.n = 1000000
    if kind == 1:
        y = use_body(body, "a")
    elif kind == 2:
        y = body.op("Concat", "a", "a", axis=0)
    else:
        y = body.op("Mul", "a", body.op("ConstantOfShape", body.const(ints, [size(draw, 10, 26)])))
    g = graph(body.nodes + [node("Identity", ["c"], ["c2"])], body.inits,
              [value("i", [], 7), value("c", [], 9), value("a", [1])],
              [value("c2", [], 9), value(y, [1])])
    trips = net.const(ints, [size(draw, 4, 62)], 0)
    true = net.name()
    net.inits.append(tensor(true, [], 9, b"\1"))
    start = draw.choice(("x", net.const(floats, [1.0])))
    out = net.name()
    net.nodes.append(node("Loop", [trips, true, start], [out], body=(g,)))
    return finish(net, out)


def use_body(net, x):
    for _ in range(net.draw.choice((1, 4, 64))):
        x = net.op(net.draw.choice(("Neg", "Exp", "Relu")), x)
    return x


def functions(draw):
    """Functions that call one another, twice each time."""
    depth = draw.choice((8, 16, 24, 1000))
    out = b""
    for i in range(depth):
        if i + 1 < depth:
            calls = [nested(1, "x") + nested(2, "t") + nested(4, f"F{i + 1}") + nested(7, "own"),
                     nested(1, "t") + nested(2, "y") + nested(4, f"F{i + 1}") + nested(7, "own")]
        else:
            calls = [node("Neg", ["x"], ["y"])]
        out += nested(25, nested(1, f"F{i}") + nested(4, "x") + nested(5, "y") +
                      b"".join(nested(7, c) for c in calls) +
                      nested(9, nested(1, "") + number(2, 17)) +
                      nested(9, nested(1, "own") + number(2, 1)) + nested(10, "own"))
    call = nested(1, "x") + nested(2, "y") + nested(4, "F0") + nested(7, "own")
    g = graph([call], [], [value("x", [1, 3, 8, 8])], [value("y", [1])])
    return ".onnx", model(g, nested(8, nested(1, "own") + number(2, 1)) + out)


def many(draw):
    """Many of one part that takes few bytes."""
    n = draw.choice((1000, 30000, 300000))
    kind = draw.randrange(7)
    ins, outs = [value("x", [1, 3, 8, 8])], [value("y", [1])]
    if kind == 0:
        g = graph([b""] * n, [], ins, outs)
    elif kind == 1:
        g = graph([node("Neg", ["x"], ["y"])], [b""] * n, ins, outs)
    elif kind == 2:
        g = graph([node("Neg", ["x"], ["y"])], [], ins + [b""] * n, outs)
    elif kind == 3:
        g = graph([node("Sum", ["x"] * n, ["y"])], [], ins, outs)
    elif kind == 4:
        g = graph([node("Split", ["x"], [f"y{i}" for i in range(n)])], [], ins, outs)
    elif kind == 5:
        g = graph([node("Neg", [f"t{i + 1}"], [f"t{i}"]) for i in range(n)] +
                  [node("Neg", ["t0"], ["y"])], [], ins, outs)
    else:
        g = graph([node("Neg", ["x"], ["y"], axes=[1] * n)], [], ins, outs)
    return ".onnx", model(g)


def lies(draw):
    """Sizes that the bytes do not have."""
    dims = [draw.choice((0, 1, -1, 1 << 20, 1 << 31, 1 << 62, 7)) for _ in range(draw.randint(1, 9))]
    t = tensor("w", dims, draw.choice((1, 7, 10, 11, 9, 22, 17)), b"\0" * draw.choice((0, 4, 64, 4096)))
    net = Net(draw)
    net.inits.append(t)
    y = use(net, "w")
    if draw.random() < 0.5:
        return finish(net, y)
    g = graph(net.nodes, net.inits, [value("x", [size(draw, 0, 62) for _ in range(4)])],
              [value(y, [1])])
    return ".onnx", model(g)


# ---- TensorFlow ------------------------------------------------------------

def tf_attr(name, data):
    return nested(5, nested(1, name) + nested(2, data))


def tf_node(name, op, ins, **attrs):
    return nested(1, nested(1, name) + nested(2, op) + b"".join(nested(3, i) for i in ins) +
                  b"".join(tf_attr(k, v) for k, v in attrs.items()))


def tf_shape(dims):
    return b"".join(nested(2, number(1, d)) for d in dims)


def tf_const(name, kind, dims, values):
    field = {1: 5, 3: 7, 9: 10}[kind]
    packed = (struct.pack(f"<{len(values)}f", *values) if kind == 1 else
              b"".join(number(0, v)[1:] for v in values))
    t = number(1, kind) + nested(2, tf_shape(dims)) + nested(field, packed)
    return tf_node(name, "Const", [], dtype=number(6, kind), value=nested(8, t))


def tensorflow(draw):
    n = size(draw, 16, 28)
    dims = shape(draw, n)
    kind = draw.randrange(6)
    out = tf_node("x", "Placeholder", [], dtype=number(6, 1), shape=nested(7, tf_shape([1, 8, 8, 3])))
    out += tf_const("s", 3, [len(dims)], dims) + tf_const("one", 1, [1] * len(dims), [1.5])
    out += tf_const("r", 3, [], [n]) + tf_const("z", 3, [], [0]) + tf_const("u", 3, [], [1])
    t = dict(T=number(6, 1))
    if kind == 0:
        out += tf_const("w", 1, dims, [0.5] * draw.choice((0, 1, 2)))
    elif kind == 1:
        out += tf_node("w", "Fill", ["s", "one"], **t)
    elif kind == 2:
        out += tf_node("w", "BroadcastTo", ["one", "s"], **t)
    elif kind == 3:
        out += tf_node("w", "Tile", ["one", "s"], **t)
    elif kind == 4:
        out += tf_node("w", "Range", ["z", "r", "u"], Tidx=number(6, 3))
    else:
        out += tf_const("w", 3, dims, [5] * draw.choice((0, 1, 2)))
    last = "w"
    for i in range(draw.choice((0, 1, 8, 256))):
        out += tf_node(f"n{i}", draw.choice(("Neg", "Exp", "Identity", "Square")), [last], **t)
        last = f"n{i}"
    op, ins = draw.choice((("MatMul", ["x", last]), ("AddV2", ["x", last]), ("Reshape", ["x", last]),
                           ("Conv2D", ["x", last]), ("Mean", ["x", last]), ("GatherV2", ["x", last, "z"]),
                           ("Unknown", [last]), ("Transpose", ["x", last])))
    more = dict(strides=nested(1, nested(3, b"\1\1\1\1")), padding=nested(2, "SAME"))
    out += tf_node("y", op, ins, **t, **(more if op == "Conv2D" else {}))
    if draw.random() < 0.5:
        out += tf_node("q", "Unknown", ["y"])
    return ".pb", out


KINDS = {"onnx-constants": constants, "onnx-chains": chains, "onnx-shared": shared_weights,
         "onnx-bodies": bodies, "onnx-functions": functions, "onnx-many": many,
         "onnx-lies": lies, "tensorflow": tensorflow}
