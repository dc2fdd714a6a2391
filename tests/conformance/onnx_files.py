#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX files, such as others publish, beside ONNX Runtime.

    onnx_files.py FOLDER FILE|DIRECTORY... --wconv=build/wconv --infer=build/infer
                  [--half=0|1] [--sample=N] [--seed=1] [--only=REGEX] [--list=FILE]

Files of the same content count once.  --half takes those whose SHA-256 has that
lowest bit in its first byte: one half to look into, one to measure with.  Each
is converted with wconv, run with infer on random inputs, drawn by its content,
and compared with ONNX Runtime without optimisation: floats to 1e-4 of the
largest output, bfloat16 and float16 by their own precision, integers exactly.
Sizes that are free are 2 (the first), 3 (the second of four) and else 8, or 64
of four dimensions.  Where wconv wants to know a shape or an index, inputs of
integers become constants, then all but the first ("with constants").  Files
that ONNX Runtime does not run are counted apart.  Needs onnx, onnxruntime and
NumPy.  Exit status: 1 where a file differs or crashes.
"""
import collections
import hashlib
import json
import os
import random
import re
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import suite


def files_of(a):
    found, seen = [], set()
    for top in a.files:
        below = ([top] if os.path.isfile(top) else sorted(
            os.path.join(d, f) for d, _, names in os.walk(top) for f in names
            if f.endswith(".onnx")))
        for path in below:
            with open(path, "rb") as f:
                digest = hashlib.sha256(f.read()).digest()
            if digest in seen or a.only and not re.search(a.only, path):
                continue
            seen.add(digest)
            if a.half is None or digest[0] & 1 == a.half:
                found.append((path, digest))
    if a.sample and a.sample < len(found):
        found = random.Random(a.seed).sample(found, a.sample)
    return found


def random_array(rng, info):
    t = info.type.tensor_type
    if not info.type.HasField("tensor_type"):
        raise ValueError("an input that is no tensor")
    n = len(t.shape.dim)
    shape = [d.dim_value if d.dim_value > 0 else 2 if i == 0 else
             8 if n != 4 else 3 if i == 1 else 64
             for i, d in enumerate(t.shape.dim)]
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type))
    if dtype.kind == "O":
        raise ValueError("an input of strings")
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        low, high = ((0, 3) if dtype.itemsize > 1 else
                     (np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
        return rng.integers(low, high, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def expected(path, names, arrays):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, arrays)))


def convert(a, path, model, names, arrays):
    """(names of the inputs left, None), or (None, the first refusal)."""
    out, first = a.folder + "/file.infer", None
    integers = [n for n, x in zip(names, arrays) if x.dtype.kind in "iub"]
    tries = [[]]
    if integers and len(integers) < len(names):
        tries.append(integers)
    if len(names) > 1:
        tries.append(names[1:])
    for fixed in tries:
        given = path
        if fixed:
            given = a.folder + "/file.onnx"
            m = onnx.ModelProto()
            m.CopyFrom(model)
            for i in [i for i in m.graph.input if i.name in fixed]:
                m.graph.input.remove(i)
            for n, x in zip(names, arrays):
                if n in fixed:
                    m.graph.initializer.append(numpy_helper.from_array(x, n))
            onnx.save(m, given)
        rc, text = suite.run(a.wconv, given, "-o", out, "-q")
        if rc == 0:
            return [n for n in names if n not in fixed], None
        if rc != 2:
            return None, "crashed: %s" % text
        first = first or text.replace(given, "FILE")
    return None, first


def one(a, path, digest):
    """(status, why)"""
    rng = np.random.default_rng(list(digest))
    try:
        model = onnx.load(path)
        fixed = {i.name for i in model.graph.initializer}
        infos = [i for i in model.graph.input if i.name not in fixed]
        names = [i.name for i in infos]
        arrays = [random_array(rng, i) for i in infos]
        want = expected(path, names, arrays)
    except Exception as e:  # not a file that the reference runs
        return "no reference", str(e).split("\n")[0]
    left, why = convert(a, path, model, names, arrays)
    if left is None:
        return ("crashed" if why.startswith("crashed") else "refused"), why
    files = []
    for i, n in enumerate(left):
        files.append("%s/in%d.npy" % (a.folder, i))
        np.save(files[-1], suite.plain(arrays[names.index(n)]))
    out = a.folder + "/out"
    shutil.rmtree(out, ignore_errors=True)
    rc, text = suite.run(
        a.infer, "-m", a.folder + "/file.infer", "-q", "--threads=1",
        "--export-output=" + out,
        *(["--load-inputs=" + ",".join(files)] if files else []))
    if rc != 0:
        return ("run refused" if rc in (1, 2) else "crashed"), text
    for info, w in zip(model.graph.output, want):
        if not isinstance(w, np.ndarray):
            return "no reference", "an output that is no tensor"
        file = os.path.join(out, suite.file_name(info.name))
        if not os.path.exists(file):
            file = out  # a single output may be the file itself
        if not os.path.isfile(file):
            return "differs", "no output %s" % info.name
        top = float(np.abs(w[np.isfinite(w)]).max(initial=0)) \
            if w.dtype.kind == "f" else 0
        why = suite.close(suite.load(file, w.shape), w, 0, max(1e-4 * top, 1e-30))
        if why:
            return "differs", why
    return ("match" if len(left) == len(names) else "with constants"), ""


def main():
    p = suite.parser(__doc__)
    p.add_argument("files", nargs="+")
    p.add_argument("--half", type=int, choices=[0, 1])
    p.add_argument("--sample", type=int)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for path, digest in files_of(a):
        status, why = one(a, path, digest)
        total[status] += 1
        if a.list:
            with open(a.list, "a") as f:
                print(json.dumps({"file": path, "status": status, "why": why}),
                      file=f)
        if status not in ("match", "with constants", "no reference"):
            cause = re.sub("'[^']*'|[0-9][0-9.e+-]*", "N", why.split(": ")[-1])
            causes[status, cause[:40]].append((os.path.basename(path), why))
    return suite.report(total, causes, left_out=("no reference",))


if __name__ == "__main__":
    sys.exit(main())
