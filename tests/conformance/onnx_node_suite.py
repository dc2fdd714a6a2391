#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own operator tests, all that the onnx package holds, through the tools.

    onnx_node_suite.py FOLDER --wconv=build/wconv --infer=build/infer
                       [--only=REGEX] [--all] [--rest]

Each case is written as an ONNX file, converted with wconv, run with infer and
compared by the case's own tolerances ("rounding": not within them, and within
1e-6 of the largest value); integers, and values of 8 bits and fewer,
exactly; bfloat16 to 2^-7 of the value and 2^-8 of the largest, float16 to 2^-10
and 2^-11.  An output whose entries are counted at run time is cut to its count.
Inputs that wconv has to know become initializers: none, all but the first, or all, whichever
works first.  Needs onnx, NumPy and ml_dtypes.

Counted are the plain cases (their expansions into functions are cases of their
own, run with --all) outside strings, sequences, optionals, losses and optimisers
of training, and ImageDecoder; --rest adds these.  Exit
status: 1 where a case differs or crashes.
"""
import collections
import os
import re
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests

import suite

OUTSIDE = re.compile(
    "Sequence|Optional|String|Regex|TfIdf|EntropyLoss|LogLikelihoodLoss|"
    "ImageDecoder|Adagrad|Adam$|Momentum|Gradient|LabelEncoder")


def outside(case):
    ops = {n.op_type for n in case.model.graph.node}
    return (any(OUTSIDE.search(o) for o in ops)
            or "string" in case.name.lower())


def build(case, inputs, keep, path):
    """The case's model with the inputs from `keep` on as initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    g = model.graph
    names = [i.name for i in g.input]
    del g.input[keep:]
    for name, tensor in list(zip(names, inputs))[keep:]:
        t = g.initializer.add()
        t.CopyFrom(tensor)
        t.name = name
    if keep == 0:  # infer wants an input to run on
        info = onnx.helper.make_tensor_value_info
        g.input.append(info("nothing", onnx.TensorProto.FLOAT, [1]))
        g.output.append(info("nothing_out", onnx.TensorProto.FLOAT, [1]))
        g.node.append(onnx.helper.make_node("Identity", ["nothing"],
                                            ["nothing_out"]))
    onnx.save(model, path)
    return model


def attempt(a, case, inputs, outputs, keep):
    """("match" | "refused" | "differs" | "crashed", why)"""
    path, model = a.folder + "/case.onnx", a.folder + "/case.infer"
    build(case, inputs, keep, path)
    rc, text = suite.run(a.wconv, path, "-o", model, "-q")
    if rc != 0:
        return "refused" if rc == 2 else "crashed", text.replace(path, "")
    files = []
    for i, t in enumerate(inputs[:keep]):
        files.append("%s/in%d.npy" % (a.folder, i))
        np.save(files[-1], suite.plain(numpy_helper.to_array(t)))
    if keep == 0:
        files.append(a.folder + "/in0.npy")
        np.save(files[-1], np.zeros(1, np.float32))
    out = a.folder + "/out"
    shutil.rmtree(out, ignore_errors=True)
    rc, text = suite.run(
        a.infer, "-m", model, "-q", "--threads=1", "--export-output=" + out,
        "--load-inputs=" + ",".join(files))
    if rc != 0:
        return ("run refused" if rc in (1, 2) else "crashed"), text
    for info, t in zip(case.model.graph.output, outputs):
        file = os.path.join(out, suite.file_name(info.name))
        if not os.path.exists(file):
            return "differs", "no output %s" % info.name
        want = numpy_helper.to_array(t)
        got = suite.load(file, want.shape)
        why = suite.close(got, want, case.rtol, case.atol)
        if why:
            return ("rounding" if re.match("[0-9.]+e-(0[7-9]|1)", why) else
                    "differs"), why
    return "match", ""


def one(a, case):
    if any(isinstance(t, (list, dict, type(None)))
           for part in case.data_sets[0] for t in part):
        return "refused", "sequences, optional values or maps"
    inputs, outputs = ([t if isinstance(t, onnx.TensorProto) else
                        numpy_helper.from_array(np.asarray(t)) for t in part]
                       for part in case.data_sets[0])
    first = None
    for keep in dict.fromkeys([len(inputs), min(1, len(inputs)), 0]):
        if keep == 0 and len(inputs) == 0 and first:
            break
        result = attempt(a, case, inputs, outputs, keep)
        if result[0] in ("match", "rounding", "differs", "crashed"):
            return result
        first = first or result
    return first


def main():
    p = suite.parser(__doc__)
    p.add_argument("--all", action="store_true")
    p.add_argument("--rest", action="store_true")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for case in sorted(load_node_model_tests(), key=lambda c: c.name):
        if (a.only and not re.search(a.only, case.name)
                or "_expanded" in case.name and not a.all
                or outside(case) and not a.rest):
            continue
        status, why = one(a, case)
        total[status] += 1
        if status != "match":
            ops = "+".join(sorted({n.op_type for n in case.model.graph.node}))
            causes[status, ops].append((case.name, why))
    return suite.report(total, causes)


if __name__ == "__main__":
    sys.exit(main())
