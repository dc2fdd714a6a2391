# SPDX-License-Identifier: Apache-2.0
"""Hostile zip files, HDF5 files and safetensors."""
import importlib.util
import io
import json
import struct
import zipfile
import zlib

from hostile_files.bytes import size, u32


def zipped(entries, overlap=False):
    """A zip of (name, method, raw, declared size) entries; overlap: all members are
    one run of bytes."""
    out, central = b"", b""
    for i, (name, method, raw, declared) in enumerate(entries):
        name = name.encode()
        fixed = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0, 0, len(raw),
                            declared & 0xffffffff, len(name), 0)
        at = 0 if overlap else len(out)
        if not overlap or i == 0:
            out += b"PK\3\4" + fixed + name + raw
        central += (b"PK\1\2" + struct.pack("<H", 20) + fixed[:26] +
                    struct.pack("<HHHII", 0, 0, 0, 0, at) + name)
    n = min(len(entries), 65535)
    return out + central + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, n, n, len(central), len(out), 0)


def deflate(n, level=9):
    c = zlib.compressobj(level, zlib.DEFLATED, -15)
    return c.compress(bytes(n)) + c.flush()


def npy(n):
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (n // 4)).ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode()


def zips(draw):
    n = size(draw, 16, 27)
    raw = deflate(n)
    kind = draw.randrange(5)
    many = draw.choice((2, 100, 10000, 65535))
    if kind == 0:
        entries = [("a.npy", 8, raw, draw.choice((n, 10, 1 << 31)))]
        return ".npz", zipped(entries)
    if kind == 1:
        return ".npz", zipped([("w.npy", 8, raw, n)] * min(many, 200), overlap=True)
    if kind == 2:
        return ".npz", zipped([(f"{'d' * draw.randint(1, 30)}{i}", 0, b"", 0) for i in range(many)])
    if kind == 3:
        c = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = npy(n) + bytes(n)
        raw = c.compress(body) + c.flush()
        entries = [(f"w{i}.npy", 8, raw, len(body)) for i in range(draw.choice((1, 2, 8)))]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", 8) as z:
            for name, *_ in entries:
                z.writestr(name, body)
            z.writestr("bad.npy", b"\x93NUMPY\1\0\xff\xff")
        return ".npz", out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", 8) as z:
        z.writestr("config.json", b" " * n + b"{}")
        z.writestr("metadata.json", b"{}")
        z.writestr("model.weights.h5", bytes(n))
    return ".keras", out.getvalue()


def hdf5(draw):
    """Chunks of zeros that deflate writes small, and sizes that no chunk has."""
    import h5py
    n = size(draw, 14, 26)
    out = io.BytesIO()
    with h5py.File(out, "w") as f:
        units = draw.choice((4, 1 << 20, 1 << 40))
        config = {"class_name": "Sequential", "config": {"name": "s", "layers": [
            {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 8, 8, 3], "name": "i"}},
            {"class_name": draw.choice(("Dense", "Conv2D", "Nope")),
             "config": {"name": "d", "units": units, "filters": units, "kernel_size": [3, 3]}}]}}
        if draw.random() < 0.7:
            f.attrs["model_config"] = json.dumps(config)
        g = f.create_group("model_weights")
        names = []
        for i in range(draw.choice((1, 1, 4, 40))):
            chunk = min(n, draw.choice((1 << 10, 1 << 16, 1 << 22)))
            d = f"d{i}"
            kwargs = dict(compression="gzip", compression_opts=9, shuffle=draw.random() < 0.5)
            if draw.random() < 0.3:
                kwargs = {"fillvalue": 0.5}
            g.create_dataset(d, shape=(n,), chunks=(chunk,), dtype=draw.choice(("f4", "f8", "i8")), **kwargs)
            if "fillvalue" not in kwargs and n <= 1 << 24:
                g[d][:] = 0
            names.append(d.encode())
        if draw.random() < 0.7:
            g.attrs["layer_names"] = [b"d"]
            g.require_group("d").attrs["weight_names"] = names
    return ".h5", out.getvalue()


def safetensors(draw):
    kind = draw.randrange(5)
    n = draw.choice((1000, 30000, 200000))
    if kind == 0:
        head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(n)})
    elif kind == 1:
        head = "[" * n + "]" * n
    elif kind == 2:
        head = '{"a":' * n + "1" + "}" * n
    elif kind == 3:
        head = json.dumps({"w": {"dtype": draw.choice(("F32", "F64", "U8", "F4")),
                                 "shape": [size(draw, 0, 62) for _ in range(draw.randint(1, 9))],
                                 "data_offsets": [0, 64]}})
    else:
        head = json.dumps({"__metadata__": {f"k{i}": "v" for i in range(n)}})
    length = draw.choice((len(head), len(head), 1 << 40, 100000000))
    return ".safetensors", struct.pack("<Q", length) + head.encode() + bytes(64)


def external(draw):
    """Gzip around something else, and files that begin like others."""
    n = size(draw, 10, 26)
    return draw.choice((
        (".gz", b"\x1f\x8b\x08\0\0\0\0\0\0\3" + deflate(n) + u32(0) + u32(n)),
        (".pt", b"PK\3\4" + bytes(n >> 6)),
        (".h5", b"\x89HDF\r\n\x1a\n" + bytes(n >> 6)),
        (".npz", b"PK\5\6" * (n >> 8) + bytes(22)),
    ))


KINDS = {"zip": zips, "safetensors": safetensors, "gzip": external}
if importlib.util.find_spec("h5py"):
    KINDS["hdf5"] = hdf5
