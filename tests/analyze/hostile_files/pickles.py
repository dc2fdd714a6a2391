# SPDX-License-Identifier: Apache-2.0
"""Hostile pickles, alone, in a PyTorch archive, and in a NumPy array."""
import io
import pickle
import struct
import zipfile

from hostile_files.bytes import size, u32

TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def number(n):
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if -2**31 <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    raw = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def text(s):
    return b"X" + u32(len(s)) + s.encode()


def storage(key, count):
    return (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") +
            number(count) + b"tQ")


def tensor(key, count, shape, stride, offset=0):
    return (TENSOR + b"(" + storage(key, count) + number(offset) + numbers(shape) +
            numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR")


def archive(data, records, method=zipfile.ZIP_STORED, more=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        z.writestr("m/data.pkl", data)
        z.writestr("m/version", "3\n")
        for name, record in records.items():
            z.writestr(f"m/data/{name}", record)
        for name, record in more:
            z.writestr("m/" + name, record)
    return ".pth", out.getvalue()


def bomb(draw):
    """A memo that doubles, nests or is read many times."""
    n = draw.choice((20, 40, 100, 1000, 100000))
    kind = draw.randrange(8)
    if kind == 0:
        body = b"]q\0" + b"".join(b"h" + bytes([min(i, 254)]) * 2 and
                                  b"(h%ch%ct" % (min(i, 254), min(i, 254)) +
                                  b"q" + bytes([min(i + 1, 255)]) for i in range(min(n, 254)))
    elif kind == 1:
        body = b"(" * n + b"t" * n
    elif kind == 2:
        body = b"]" * n + b"a" * (n - 1)
    elif kind == 3:
        body = b"}q\0" + b"(" + b"".join(number(i) + b"h\0" for i in range(n)) + b"u"
    elif kind == 4:
        body = b"]" + b"r" + u32(draw.choice((0xffffffff, 1 << 24, 1 << 16)))
    elif kind == 5:
        body = b"I" + b"9" * n + b"\n"
    elif kind == 6:
        body = b"(" + b"".join(b"I%d\n" % i for i in range(n)) + b"l" + b"2" * n
    else:
        body = draw.choice((b"\x8b", b"\x8d", b"\x8e", b"\x96", b"B", b"T")) + b"\xff" * 8
    body = b"\x80\x02" + body + b"."
    return archive(body, {}) if draw.random() < 0.6 else (".pth", body)


def views(draw):
    """Tensors that are larger than their storage, or one storage many times."""
    count = draw.choice((1, 4, 1024, 1 << 16))
    big = size(draw, 10, 40)
    kind = draw.randrange(5)
    items = []
    if kind == 0:
        items = [([big], [0], 0)]
    elif kind == 1:
        items = [([count], [1], 0)] * draw.choice((10, 1000, 20000))
    elif kind == 2:
        items = [([big, big], [0, 0], 0)]
    elif kind == 3:
        items = [([count // 2 or 1, 1 << 10], [1, 0], 0)] * draw.choice((1, 64, 2000))
    else:
        items = [([big], [draw.choice((-1, 1, 1 << 40))], draw.choice((0, -1, 1 << 62)))]
    body = b"\x80\x02}(" + b"".join(
        text(f"layer{i}.weight") + tensor("0", count, *item) for i, item in enumerate(items)) + b"u."
    return archive(body, {"0": b"\0" * (4 * count)})


def deflated(draw):
    """Records that torch.save() would not compress."""
    count = size(draw, 16, 26)
    n = draw.choice((1, 3, 16)) if count < 1 << 22 else 1
    body = b"\x80\x02}(" + b"".join(
        text(f"l{i}.weight") + tensor(str(i), count, [count], [1]) for i in range(n)) + b"u."
    if draw.random() < 0.4:
        body = body[:-2]
    return archive(body, {str(i): b"\0" * (4 * count) for i in range(n)}, zipfile.ZIP_DEFLATED)


def whole(draw):
    """Modules in modules."""
    n = draw.choice((10, 1000, 20000))
    body = b"\x80\x02"
    for _ in range(n):
        body += b"ctorch.nn.modules.container\nSequential\n)\x81}(" + text("_modules") + b"}" + text("0")
    body += b"N" + b"sub" * n
    return archive(body + b".", {})


LOOPS = [
    "x = torch.add(x, x)", "y = torch.cat([x, x])\n{p}x = y", "l = torch.append(l, 1)",
    "x = torch.relu(x)", "s = torch.add(s, s)"]


def script(draw):
    """Programs of TorchScript that repeat, call themselves, or grow."""
    n = size(draw, 2, 40)
    kind = draw.randrange(6)
    if kind == 0:
        body = f"    l = [1]\n    for i in range({n}):\n      _0 = torch.append(l, i)\n    return x\n"
    elif kind == 1:
        body = "    return (self).forward(x, )\n"
    elif kind == 2:
        body = ("    l = [1]\n" + "".join("    l = torch.add(l, l)\n" for _ in range(draw.choice((10, 40)))) +
                "    return x\n")
    elif kind == 3:
        body = f"    return torch.{draw.choice(('zeros', 'ones', 'rand'))}([{n}, {n}])\n"
    elif kind == 4:
        body = ("    y = torch.expand(torch.ones([1, 1]), [%d, %d])\n    z = torch.%s(y, x)\n    return z\n" %
                (min(n, 1 << 20), 64, draw.choice(("mul", "matmul", "add", "nope"))))
    else:
        depth = draw.choice((50, 1000, 30000))
        body = "    return " + "(" * depth + "x" + ")" * depth + "\n"
    code = ("class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
            "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + body)
    data = b"\x80\x02c__torch__\nM\n)\x81}" + text("training") + b"\x89sb."
    return archive(data, {}, more=[("code/__torch__.py", code), ("constants.pkl", b"\x80\x02)."),
                                   ("byteorder", "little")])


def numpy(draw):
    """Headers of .npy that say more than there is."""
    big = size(draw, 10, 62)
    shape = draw.choice((f"({big},)", f"({big}, {big})", "(" + "2," * draw.choice((8, 64, 5000)) + ")",
                         "(" * 5000, "(-1,)", f"({big}L,)", "(3)"))
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (
        draw.choice(("<f4", "<f8", "|O", "<i8", ">f4", "|V99999999")), draw.choice(("True", "False")), shape)
    if draw.random() < 0.2:
        head = pickle.dumps(head).decode("latin1")
    head = (head + " " * draw.choice((0, 10, 60000)) + "\n").encode("latin1")
    npy = b"\x93NUMPY\x02\0" + u32(draw.choice((len(head), len(head), 1 << 31))) + head + b"\0" * 64
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice((0, 8))) as z:
        for i in range(draw.choice((1, 1, 100, 5000))):
            z.writestr(f"a{i}.npy", npy)
    return ".npz", out.getvalue()


KINDS = {"pickle-bomb": bomb, "pickle-views": views, "pickle-deflated": deflated,
         "pickle-modules": whole, "torchscript": script, "numpy-header": numpy}
