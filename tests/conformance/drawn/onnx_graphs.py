#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small graphs of ONNX with drawn operators, attributes, opsets and types.

    onnx_graphs.py FOLDER --wconv=build/wconv --infer=build/infer
                   [--count=300] [--seed=1] [--first=0] [--only=REGEX]
                   [--list=FILE]

Each case draws a template of onnx_cases.py, an opset from 7 to 22 that has its
operator, and what stands around it: nothing, or a negation or an addition of a
constant before and after it.  Results are compared with ONNX Runtime without
optimisation, and with onnx.reference where that does not run the file or differs:
floats to 1e-4 of the largest output, integers and truths exactly.  What neither runs is
left out.  --list writes a line of JSON a case.  Exit status: 1 where a case
differs or crashes.
"""
import collections
import json
import os
import re
import shutil
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import onnx_cases as cases
import suite


def build(d, node, opset):
    """(model, inputs)"""
    inputs, initializers, nodes, names = {}, [], [], []
    for i, x in enumerate(node.inputs):
        if x is None:
            names.append("")
            continue
        name = "x%d" % i
        names.append(name)
        if isinstance(x, cases.C):
            initializers.append(numpy_helper.from_array(x.a, name))
            continue
        inputs[name] = x.a
        if x.a.dtype == np.float32 and i == 0 and d.random() < 0.3:
            nodes.append(helper.make_node("Neg", [name], [name + "n"]))
            names[-1] = name + "n"
    while names and not names[-1]:
        names.pop()
    outputs = ["y%d" % i for i in range(node.outputs)]
    nodes.append(helper.make_node(node.op, names, outputs, **node.attributes))
    if d.random() < 0.3 and node.outputs == 1:
        nodes.append(helper.make_node("Identity", ["y0"], ["z0"]))
        outputs = ["z0"]
    graph = helper.make_graph(
        nodes, "drawn", [helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10)
    model = onnx.shape_inference.infer_shapes(model)
    for o in model.graph.output:
        if not o.type.HasField("tensor_type"):
            o.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model, inputs


def expected(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options).run(None, inputs)
    except Exception:
        return reference(model, inputs)


def reference(model, inputs):
    from onnx.reference import ReferenceEvaluator
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in
                ReferenceEvaluator(model).run(None, inputs)]


def attempt(a, model, inputs, want):
    path, out = a.folder + "/case.onnx", a.folder + "/out"
    onnx.save(model, path)
    rc, text = suite.run(a.wconv, path, "-o", a.folder + "/case.infer", "-q")
    if rc != 0:
        return "refused" if rc == 2 else "crashed", text.replace(path, "")
    files = []
    for name, x in inputs.items():
        files.append("%s/%s.npy" % (a.folder, name))
        np.save(files[-1], x)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    rc, text = suite.run(a.infer, "-m", a.folder + "/case.infer", "-q",
                         "--threads=1", "--export-output=" + out,
                         *(["--load-inputs=" + ",".join(files)]
                           if files else []))
    if rc != 0:
        return "run refused" if rc in (1, 2) else "crashed", text
    for o, w in zip(model.graph.output, want):
        file = os.path.join(out, suite.file_name(o.name))
        if not os.path.exists(file):
            return "differs", "no output " + o.name
        got = suite.load(file, w.shape)
        top = float(np.abs(w[np.isfinite(w)]).max(initial=0)) \
            if w.dtype.kind == "f" else 0
        why = suite.close(got, w, 1e-4, 1e-4 * top)
        if why:
            return "differs", "%s: %s" % (o.name, why)
    return "match", ""


def text_of(node, opset):
    return "opset %d %s(%s) %s" % (opset, node.op, ", ".join(
        "-" if x is None else "%s%s%s" % (
            "const " if isinstance(x, cases.C) else "", x.a.dtype.name,
            list(x.a.shape)) for x in node.inputs), node.attributes)


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    onnxruntime.set_default_logger_severity(4)
    total, causes = collections.Counter(), collections.defaultdict(list)
    names = sorted(cases.TEMPLATES)
    for i in range(a.first, a.first + a.count):
        d = cases.Draw("%d %d" % (a.seed, i))
        name = d.choice(names)
        since, until, template = cases.TEMPLATES[name]
        d.opset = d.randint(since, until)
        if a.only and not re.search(a.only, name):
            continue
        node = template(d)
        try:
            with suite.silent():
                model, inputs = build(d, node, d.opset)
                want = [np.asarray(w) for w in expected(model, inputs)]
        except Exception as e:  # no reference takes it
            total["not run"] += 1
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"case": i, "name": name,
                                      "status": "not run", "why": str(e)[:200],
                                      "text": text_of(node, d.opset)}), file=f)
            continue
        status, why = attempt(a, model, inputs, want)
        if status == "differs":  # where the two references do not agree
            try:
                with suite.silent():
                    other = reference(model, inputs)
                if attempt(a, model, inputs, other)[0] == "match":
                    status = "match by onnx.reference"
            except Exception:
                pass
        total[status] += 1
        if not status.startswith("match"):
            causes[status, node.op].append(
                ("%d %s" % (i, text_of(node, d.opset)), why))
        if a.list:
            with open(a.list, "a") as f:
                print(json.dumps({"case": i, "name": name, "status": status,
                                  "why": why,
                                  "text": text_of(node, d.opset)}), file=f)
    return suite.report(total, causes, left_out=("not run",))


if __name__ == "__main__":
    sys.exit(main())
