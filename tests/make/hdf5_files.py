#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HDF5 files of every kind that the reader knows, and what h5py reads in them.

    hdf5_files.py FOLDER            writes the files and FOLDER/expected.txt
    hdf5_files.py --seeds FOLDER    the small files that are kept in tests/data
    hdf5_files.py --expect FILE...  prints the datasets that h5py reads in
                                    existing files, but optimiser state

tests/unit/weights/hdf5 compares its own reading with these lines when the environment
names the folder in HDF5_FILES.  A line is

    FILE PATH KIND TYPE (SHAPE) SUM

where SUM weighs element i with 1 + i % 7, so that reordering shows.
"""
import os
import sys

import h5py
import numpy as np

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64",
         "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
         "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}


def weighted(values):
    values = np.asarray(values, np.float64).ravel()
    return float(np.sum(values * (1 + np.arange(values.size) % 7)))


def describe(path, kind, get, shape):
    """One line, or None for what the reader does not support."""
    try:
        value = get()
    except Exception:  # h5py itself cannot read it
        return None
    if isinstance(value, h5py.Empty):
        value = np.zeros((0,), value.dtype if value.dtype.kind != "O"
                         and value.dtype.kind != "S" else object)
    if isinstance(value, (str, bytes)):
        value = np.array(value, dtype=object)
    array = np.asarray(value)
    if array.dtype.kind in "OS" and (
            array.size == 0 or all(isinstance(v, (str, bytes))
                                   for v in array.ravel())):
        total = 0
        for v in array.ravel():
            v = v.encode() if isinstance(v, str) else v
            total += sum(b * (1 + i % 7) for i, b in enumerate(v))
        return f"{path} {kind} strings {array.size} {total}"
    name = NAMES.get(array.dtype.newbyteorder("=").name)
    if name is None:
        return None
    dims = ",".join(str(n) for n in array.shape)
    return f"{path} {kind} {name} ({dims}) {weighted(array):.9g}"


def expect(file):
    lines = []
    with h5py.File(file, "r") as f:
        def attributes(path, item):
            for name in item.attrs:
                lines.append(describe(f"{path}@{name}", "attribute",
                                      lambda: item.attrs[name], None))

        def visit(path, item):
            attributes(path, item)
            if isinstance(item, h5py.Dataset):
                lines.append(describe(path, "dataset", lambda: item[()],
                                      item.shape))
            elif isinstance(item, h5py.Group):
                for name in item:
                    link = item.get(name, getlink=True)
                    if isinstance(link, h5py.HardLink):
                        visit(f"{path}/{name}", item[name])
        visit("", f["/"])
    return sorted(line for line in lines if line is not None)


def types(f):
    """Every element type, byte order and kind of attribute."""
    rng = np.random.default_rng(1)
    for order in "<>":
        for code in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2",
                     "u4", "u8"):
            data = (rng.standard_normal((3, 5)) * 40).astype(order + code)
            f.create_dataset(f"{'le' if order == '<' else 'be'}_{code}",
                             data=data)
    f["bool"] = rng.random((4, 6)) > 0.5
    f["scalar"] = np.float32(2.5)
    f["empty"] = np.zeros((0, 3), "f4")
    f["null"] = h5py.Empty("f4")
    f["rank8"] = rng.random((2, 1, 2, 1, 3, 1, 2, 2)).astype("f4")
    space = f.create_dataset("arrays", (3,), dtype=np.dtype(("i4", (2, 2))))
    space[...] = rng.integers(0, 99, (3, 2, 2))
    colours = h5py.enum_dtype({"red": 0, "green": 5}, basetype="i2")
    f.create_dataset("enum", data=[0, 5, 5], dtype=colours)
    text = h5py.string_dtype()
    f.create_dataset("text", data=["alpha", "", "γάμμα"], dtype=text)
    f.create_dataset("fixed", data=np.array([b"one", b"three"], "S8"))
    f["named"] = np.dtype("f4")
    f.create_dataset("of_named", data=np.arange(7, dtype="f4"),
                     dtype=f["named"])
    f.create_dataset("compound", data=np.zeros(2, [("a", "f4"), ("b", "i4")]))
    f.create_dataset("vlen", (2,), dtype=h5py.vlen_dtype("i4"))
    for i, value in enumerate((1.5, 7, "word", b"bytes", np.arange(6.0),
                               [b"a", b"bc"], ["x", "yz"], True,
                               h5py.Empty("f4"), [])):
        f.attrs[f"a{i}"] = value


def layouts(f):
    """Every storage layout and filter, with chunks that do not divide."""
    rng = np.random.default_rng(2)
    data = np.round(rng.standard_normal((37, 23)), 1).astype("f4")
    f.create_dataset("contiguous", data=data)
    f.create_dataset("unwritten", (9, 4), "f4", fillvalue=1.25)
    f.create_dataset("chunked", data=data, chunks=(8, 5))
    f.create_dataset("one_chunk", data=data, chunks=(37, 23))
    f.create_dataset("one_chunk_gzip", data=data, chunks=(37, 23),
                     compression="gzip")
    f.create_dataset("gzip", data=data, chunks=(8, 5), compression="gzip",
                     compression_opts=9)
    f.create_dataset("shuffled", data=data, chunks=(8, 5), compression="gzip",
                     shuffle=True, fletcher32=True)
    f.create_dataset("fletcher", data=data[:, :3].astype("i1"), chunks=(5, 3),
                     fletcher32=True)
    f.create_dataset("lzf", data=data, chunks=(8, 5), compression="lzf")
    f.create_dataset("scaled", data=data.astype("i4"), chunks=(8, 5),
                     scaleoffset=4)
    for name, maximum in (("rows", (None, 23)), ("columns", (37, None)),
                          ("both", (None, None)), ("larger", (90, 60))):
        for gzip in (None, "gzip"):
            f.create_dataset(f"{name}_{gzip}", data=data, chunks=(8, 5),
                             maxshape=maximum, compression=gzip)
    holes = f.create_dataset("holes", (40, 40), "f4", chunks=(8, 8),
                             maxshape=(None, 40), fillvalue=-3)
    holes[17:20, 9:30] = 5
    shrunk = f.create_dataset("shrunk", data=data, chunks=(8, 5),
                              maxshape=(None, 23))
    shrunk.resize((11, 23))
    many = f.create_dataset("many", (9000,), "i4", chunks=(2,),
                            maxshape=(None,))
    many[...] = np.arange(9000)
    sparse = f.create_dataset("sparse", (60000,), "i2", chunks=(3,),
                              maxshape=(None,))
    sparse[59000:59900] = 7
    fixed = f.create_dataset("pages", (9000,), "i4", chunks=(2,))
    fixed[2000:2500] = 3
    f.create_dataset("cube", data=rng.random((5, 6, 7, 2)), chunks=(2, 4, 3, 1),
                     maxshape=(5, None, 7, 2), compression="gzip")


def compact(f):
    """Data inside the object header."""
    space = h5py.h5s.create_simple((3, 4))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    d = h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F32BE, space, plist)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(12, dtype="f4"))
    # Chunks allocated at once and without filters: the implicit index.
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 3))
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    d = h5py.h5d.create(f.id, b"implicit", h5py.h5t.NATIVE_INT16, space, plist)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(12, dtype="i2"))


def groups(f):
    """Many links, many and large attributes, deep paths."""
    for i in range(700):
        f[f"wide/link {i:04d} with a name of some length"] = np.int32(i)
    deep = f
    for i in range(24):
        deep = deep.create_group(f"level{i}")
    deep["bottom"] = np.arange(3)
    for i in range(40):
        f["wide"].attrs[f"attribute {i}"] = i * 1.5
    f["long"] = np.float32(1)
    f["long"].attrs["text"] = "configuration " * 20000
    f["hard"] = f["long"]
    f["soft"] = h5py.SoftLink("/long")
    f["external"] = h5py.ExternalLink("other.h5", "/x")


def large_attributes(f):
    """Above 64 KiB, which only dense storage can hold."""
    f.attrs["large"] = np.arange(30000, dtype="f8")
    f.attrs["larger"] = np.arange(50000, dtype="i4")
    for i in range(300):
        f.attrs[f"small {i}"] = np.arange(i % 50, dtype="i2")


def seed(f):
    """A little of everything, for tests that damage it."""
    data = np.arange(35, dtype="f4").reshape(7, 5)
    f.create_dataset("group/contiguous", data=data[:3])
    f.create_dataset("group/gzip", data=data, chunks=(4, 3),
                     compression="gzip", shuffle=True, fletcher32=True)
    f.create_dataset("group/grows", data=data, chunks=(2, 5),
                     maxshape=(None, 5), fillvalue=3)
    f.create_dataset("group/fixed", data=data.astype(">i2"), chunks=(3, 2))
    f.create_dataset("group/both", data=data.astype("u1"), chunks=(3, 2),
                     maxshape=(None, None))
    f["text"] = "a string"
    f["flag"] = np.array([True, False])
    f.attrs["names"] = np.array([b"one", b"two"])
    f.attrs["words"] = ["alpha", "beta"]
    f.attrs["number"] = 2.5
    for i in range(12):
        f[f"many/{i}"] = np.int8(i)
        f["many"].attrs[f"a{i}"] = i


def refused(f):
    """What a reader of weights must refuse by its name."""
    f["soft"] = h5py.SoftLink("/compound")
    f["external"] = h5py.ExternalLink("/etc/passwd", "/x")
    f.create_dataset("compound", data=np.zeros(2, [("a", "f4"), ("b", "i4")]))
    f.create_dataset("vlen", (2,), dtype=h5py.vlen_dtype("i4"))
    f.create_dataset("reference", (1,), dtype=h5py.ref_dtype)
    f.create_dataset("opaque", data=np.zeros(2, "V3"))
    f.create_dataset("lzf", data=np.zeros((8, 8)), chunks=(4, 4),
                     compression="lzf")
    f.create_dataset("scale", data=np.zeros((8, 8), "i4"), chunks=(4, 4),
                     scaleoffset=4)
    f.create_dataset("bomb", (2 ** 50,), "f8", chunks=(1024,))
    f.create_dataset("large", (2 ** 26,), "f8", chunks=(1024,))
    f.create_dataset("rank9", data=np.zeros((1,) * 9))
    f.create_dataset("files", (4,), "f4",
                     external=[("/etc/passwd", 0, 16)])
    layout = h5py.VirtualLayout((4,), "f4")
    layout[...] = h5py.VirtualSource("/etc/passwd", "x", (4,))
    f.create_virtual_dataset("virtual", layout)
    # 4 MiB of zeros in a chunk of 4 KiB, many times over.
    f.create_dataset("zeros", data=np.zeros((32, 1 << 20), "i1"),
                     chunks=(1, 1 << 20), compression="gzip")


def main():
    if sys.argv[1] == "--expect":
        for file in sys.argv[2:]:
            for line in expect(file):
                if " dataset " in line and "/optimizer" not in line:
                    print(os.path.basename(file), line)
        return
    if sys.argv[1] == "--seeds":
        for name, fill, libver in (("seed_earliest", seed, "earliest"),
                                   ("seed_latest", seed, "latest"),
                                   ("refused", refused, "latest")):
            with h5py.File(os.path.join(sys.argv[2], name + ".h5"), "w",
                           libver=libver) as f:
                fill(f)
        return
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    made = []

    def make(name, fill, **options):
        path = os.path.join(folder, name + ".h5")
        with h5py.File(path, "w", **options) as f:
            fill(f)
        made.append(path)

    for libver in ("earliest", "v108", "v110", "latest"):
        for fill in (types, layouts, compact, groups):
            make(f"{fill.__name__}_{libver}", fill, libver=libver)
    make("types_userblock", types, userblock_size=1024)
    make("layouts_userblock", layouts, userblock_size=512, libver="latest")
    make("groups_ordered", groups, libver="latest", track_order=True)
    make("large_attributes", large_attributes, libver="latest")
    make("seed_earliest", seed, libver="earliest")
    make("seed_latest", seed, libver="latest")
    with open(os.path.join(folder, "expected.txt"), "w") as out:
        for path in made:
            for line in expect(path):
                out.write(f"{os.path.basename(path)} {line}\n")


main()
