# SPDX-License-Identifier: Apache-2.0
"""Hostile TensorFlow Lite files: tables that are shared, sizes that lie."""
import struct

from hostile_files.bytes import size


class Table:
    def __init__(self, **fields):
        self.fields = {int(k[1:]): v for k, v in fields.items()}


class Buffer:
    """Tables are written before their parts, so that offsets count upwards; a part
    that stands twice in memory stands once in the file."""

    def __init__(self):
        self.out, self.todo, self.at = bytearray(8), [], {}
        self.kept = []

    def word(self, at, n):
        struct.pack_into("<I", self.out, at, n & 0xffffffff)

    def align(self, n):
        self.out += bytes(-len(self.out) % n)

    def put(self, thing):
        self.align(8)
        if isinstance(thing, Table):
            n = max(thing.fields, default=-1) + 1
            vt = len(self.out)
            self.out += struct.pack("<HH", 4 + 2 * n, 4 + 8 * n) + bytes(2 * n)
            self.align(8)
            self.out += bytes(4)
            at = len(self.out)
            self.out += struct.pack("<i", at - vt) + bytes(8 * n)
            for i, v in thing.fields.items():
                struct.pack_into("<H", self.out, vt + 4 + 2 * i, 4 + 8 * i)
                if isinstance(v, int):
                    struct.pack_into("<q", self.out, at + 4 + 8 * i, v)
                else:
                    self.todo.append((at + 4 + 8 * i, v))
            return at
        at = len(self.out)
        if isinstance(thing, (bytes, str)):
            raw = thing.encode() if isinstance(thing, str) else thing
            self.out += struct.pack("<I", len(raw)) + raw + b"\0"
        elif thing and isinstance(thing[0], int):
            self.out += struct.pack(f"<I{len(thing)}i", len(thing), *thing)
        else:
            self.out += struct.pack("<I", len(thing)) + bytes(4 * len(thing))
            for i, part in enumerate(thing):
                self.todo.append((at + 4 + 4 * i, part))
        return at

    def write(self, root):
        self.out[4:8] = b"TFL3"
        self.todo.append((0, root))
        while self.todo:
            at, part = self.todo.pop()
            if id(part) not in self.at:
                self.at[id(part)] = self.put(part)
                self.kept.append(part)
            self.word(at, self.at[id(part)] - at)
        return bytes(self.out)


def tensor(shape, kind, buffer, name, **more):
    return Table(f0=shape, f1=kind, f2=buffer, f3=name, **more)


def network(draw):
    big = size(draw, 10, 30)
    raw = bytes(draw.choice((4, 64, 4096, 1 << 16)))
    quant = Table(f2=struct.pack("<f", 0.5), f3=struct.pack("<q", 0))
    quant = Table(f2=[0x3f000000], f3=[0, 0])
    quant.fields[3] = [0]
    shape = draw.choice(([big], [1, big], [big, big], [1] * 9, [len(raw)], [len(raw) // 4]))
    w = tensor(shape, draw.choice((0, 1, 2, 9, 17)), 1, "w",
               **({"f4": quant} if draw.random() < 0.4 else {}))
    tensors = [tensor([1, 8, 8, 3], 0, 0, "x"), w, tensor([1, 8, 8, 3], 0, 0, "y"),
               tensor([2], 2, 2, "s")]
    n = draw.choice((1, 4, 300, 20000))
    kind = draw.randrange(5)
    ops, outs = [], [2]
    if kind == 0:  # one operator many times
        op = Table(f0=0, f1=[0, 1], f2=[2])
        ops = [op] * n
    elif kind == 1:  # one tensor many times
        tensors += [w] * n
        ops = [Table(f0=0, f1=list(range(4, 4 + min(n, 2000))) + [0], f2=[2])]
    elif kind == 2:  # a chain of copies of a large constant
        for i in range(min(n, 2000)):
            tensors.append(tensor([0], 0, 0, f"t{i}"))
            ops.append(Table(f0=0, f1=[1 if i == 0 else 3 + i, 3], f2=[4 + i]))
        outs = [3 + min(n, 2000)]
    elif kind == 3:  # dequantised again and again
        for i in range(min(n, 2000)):
            tensors.append(w)
            tensors.append(tensor(shape, 0, 0, f"d{i}"))
            ops.append(Table(f0=0, f1=[4 + 2 * i], f2=[5 + 2 * i]))
        ops.append(Table(f0=1, f1=[0, 5], f2=[2]))
    else:
        ops = [Table(f0=0, f1=[0, 1, -1], f2=[2]), Table(f0=1, f1=[2, 3], f2=[2])]
    codes = [0, 2, 3, 4, 6, 9, 14, 22, 34, 40, 47, 69, 83, 93, 94, 99, 114, 130, 250]
    opcodes = []
    for _ in range(2):
        c = draw.choice(codes)
        opcodes.append(Table(f0=min(c, 127), f3=c, f2=1))
    graph = Table(f0=tensors, f1=[0], f2=outs, f3=ops, f4="g")
    buffers = [Table(), Table(f0=raw), Table(f0=struct.pack("<2i", big & 0x7fffffff, 4))]
    graphs = [graph] * draw.choice((1, 1, 2, 1000))
    if draw.random() < 0.2:
        buffers = [buffers[1]] * draw.choice((3, 100000))
    return Buffer().write(Table(f0=3, f1=opcodes, f2=graphs, f3="d", f4=buffers))


def tflite(draw):
    data = bytearray(network(draw))
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        at = draw.randrange(8, len(data) - 4) & ~3
        struct.pack_into("<I", data, at, draw.choice((0, 0xffffffff, 0x7fffffff, 1 << 20, at)))
    return ".tflite", bytes(data)


KINDS = {"tflite": tflite}
