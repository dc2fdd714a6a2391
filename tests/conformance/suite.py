# SPDX-License-Identifier: Apache-2.0
"""What suites of operators and of files share (onnx_node_suite.py, onnx_files.py,
torch_ops.py): arguments, programs that end in time, arrays compared, and the
report of cases by what became of them."""
import argparse
import contextlib
import glob
import os
import subprocess
import sys

import numpy as np


def run(*cmd):
    """The exit status, -1 after 60 s, and what was printed."""
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=60)
    except subprocess.TimeoutExpired:
        return -1, "took longer than 60 s"
    return p.returncode, p.stdout.decode("utf-8", "replace").strip()


@contextlib.contextmanager
def silent():
    """Keeps what libraries print, in C++ too, from the report."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for to, k in enumerate(kept, 1):
            os.dup2(k, to)
            os.close(k)
        os.close(nothing)


def plain(a):
    """An array of one of NumPy's own types with the same values: what infer
    takes and gives for types that it does not compute in."""
    if a.dtype.kind in "fiub":
        return a
    return a.astype(np.int8 if a.dtype.name.startswith("int") else np.uint8
                    if a.dtype.name.startswith("uint") else np.float32)


def close(got, want, rtol, atol):
    name = want.dtype.name
    want = plain(want)
    if got.shape != want.shape:
        return "shape %s, expected %s" % (got.shape, want.shape)
    if want.dtype.kind == "f":
        if name in ("bfloat16", "float16"):
            top = float(np.abs(want[np.isfinite(want)]).max(initial=0))
            bits = 7 if name == "bfloat16" else 10
            rtol, atol = 2.0 ** -bits, max(top * 2.0 ** -(bits + 1), 1e-7)
        elif name.startswith("float8") or name.startswith("float4"):
            rtol = atol = 0
        with np.errstate(all="ignore"):
            same = np.allclose(got.astype(np.float64), want.astype(np.float64),
                               rtol, atol, equal_nan=True)
    else:
        same = np.array_equal(got, want)
    if same:
        return ""
    if want.dtype.kind == "f" and np.array_equal(np.isfinite(got),
                                                 np.isfinite(want)):
        finite = np.isfinite(want)
        error = np.abs(got - want.astype(np.float64))[finite].max(initial=0)
        top = np.abs(want[finite]).max(initial=1e-30)
        return "%.1e of the largest value" % (error / top)
    return "values"


def file_name(name):
    return "".join(c if " " < c < "\x7f" and c not in '/\\:*?"<>|' else "_"
                   for c in name) + ".npy"


def load(file, shape):
    """An exported output; one whose entries are counted at run time is cut to
    its count, along the axes that differ from the shape expected.  Outputs of
    one count have it once."""
    got = np.load(file)
    count = file[:-4] + ".count.npy"
    if got.shape != tuple(shape) and not os.path.exists(count):
        counts = glob.glob(os.path.join(os.path.dirname(file), "*.count.npy"))
        count = counts[0] if len(counts) == 1 else count
    if os.path.exists(count):
        n = int(np.load(count).ravel()[0])
        got = got[tuple(slice(0, n if g != w else None)
                        for g, w in zip(got.shape, shape))]
    return got


def parser(doc):
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--wconv", default="wconv")
    p.add_argument("--infer", default="infer")
    p.add_argument("--only", metavar="PATTERN")
    return p


def report(total, causes, left_out=()):
    """Prints a line per status and operator of causes, {(status, operator):
    [(case, why), ...]}, the most frequent first, then the totals but for the
    statuses left out.  Returns the exit status."""
    for (status, operator), cases in sorted(causes.items(),
                                            key=lambda c: -len(c[1])):
        print("%3d %-11s %-24s %s: %s" % (
            len(cases), status, operator, cases[0][0],
            " ".join(cases[0][1].split())[:200]))
    print("%d cases: %s" % (
        sum(n for status, n in total.items() if status not in left_out),
        ", ".join("%d %s" % (n, s) for s, n in total.most_common())))
    return 1 if total["differs"] + total["crashed"] else 0
