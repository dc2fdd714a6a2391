#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers and functions of PyTorch with drawn arguments, as its exporters write
them.

    torch_layers.py FOLDER --wconv=build/wconv --infer=build/infer
                    [--count=100] [--seed=1] [--form=FORM] [--only=REGEX]
                    [--list=FILE]

Each case draws a template, its arguments and a form: ts (the exporter of
TorchScript to ONNX, opsets 9 to 20), dynamo (torch.export to ONNX, opsets 18 to
23), pt2, core (.pt2 after run_decompositions()), trace and script (TorchScript
archives).  Of the forms that can say so half leave the batch free, and some the
other axes, too; these run at two shapes.  Results are compared with PyTorch's:
floats to 1e-4 of the largest output, integers and truths exactly.

What PyTorch does not build, run or export is left out.  --list writes a line of
JSON a case.  Exit status: 1 where a case differs or crashes.
"""
import collections
import json
import logging
import os
import random
import re
import sys
import warnings

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite
import torch_cases as cases
from torch_ops import close, outputs_of, run_model

TYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
FORMS = ("ts", "dynamo", "pt2", "core", "trace", "script")


def flat(y):
    if torch.is_tensor(y):
        return [y]
    if y is None:
        return []
    return [t for v in (y.values() if isinstance(y, dict) else y)
            for t in flat(v)]


def free_axes(draw, inputs, case):
    """{axis: name} a input, or None: what the file leaves free."""
    if not case.free or draw.random() < 0.5:
        return None
    axes = [0]
    if case.free > 1 and draw.random() < 0.4:
        axes = list(range(inputs[0].ndim - (case.free - 1),
                          inputs[0].ndim)) + [0]
    return [{a: "batch" if a == 0 else "size%d" % a for a in axes
             if a < x.ndim} for x in inputs]


def larger(inputs, free, draw):
    more = {n: draw.choice((1, 2, 3)) for f in free for n in f.values()}
    return [torch.randn([s + more[f[i]] if i in f else s
                         for i, s in enumerate(x.shape)])
            if x.is_floating_point() else None
            for x, f in zip(inputs, free)]


def export(form, module, inputs, free, opset, path):
    names = ["x%d" % i for i in range(len(inputs))]
    if form == "ts":
        torch.onnx.export(
            module, tuple(inputs), path, dynamo=False, opset_version=opset,
            input_names=names,
            dynamic_axes=free and dict(zip(names, free)))
        return
    if form in ("trace", "script"):
        m = (torch.jit.trace(module, tuple(inputs), check_trace=False)
             if form == "trace" else torch.jit.script(module))
        m.save(path)
        return
    shapes = free and tuple(
        {a: torch.export.Dim.DYNAMIC for a in f} for f in free)
    if form == "dynamo":
        torch.onnx.export(module, tuple(inputs), path, dynamo=True,
                          opset_version=opset, input_names=names,
                          external_data=False, verbose=False,
                          dynamic_shapes=shapes and (shapes,)
                          if shapes and isinstance(module, cases.Function)
                          else shapes)
        return
    program = torch.export.export(
        module, tuple(inputs),
        dynamic_shapes=(shapes,) if shapes and isinstance(
            module, cases.Function) else shapes)
    torch.export.save(program.run_decompositions() if form == "core"
                      else program, path)


def unlike(path, inputs, got):
    """"" where ONNX Runtime makes of the file what infer does: then the
    exporter has left something out."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(path, options)
        want = session.run(None, {i.name: x.numpy() for i, x in zip(
            session.get_inputs(), inputs)})
    except Exception as e:
        return str(e)
    return "".join(close(g, w) for g, w in zip(got, want))


def attempt(a, draw, case, form):
    """(status, why, facts)"""
    module, inputs = case.module.eval(), case.inputs
    cases.enliven(module, inputs)
    free = (free_axes(draw, inputs, case)
            if form not in ("trace", "script") else None)
    opset = draw.randint(9, 20) if form == "ts" else draw.randint(18, 23)
    facts = "%s%s%s" % (form, " opset %d" % opset
                        if form in ("ts", "dynamo") else "",
                        " free %s" % list(free[0]) if free else "")
    path = a.folder + "/case." + (
        "onnx" if form in ("ts", "dynamo") else
        "pt" if form in ("trace", "script") else "pt2")
    runs = [inputs]
    with torch.no_grad():
        try:
            want = [flat(module(*inputs))]
            again = flat(module(*inputs))
        except Exception as e:  # the layer does not run
            return "not exported", str(e).split("\n")[0], facts
        if not want[0] or any(x.is_complex() for x in want[0]):
            return "not exported", "complex or no outputs", facts
        if not all(torch.equal(x.nan_to_num(), y.nan_to_num())
                   for x, y in zip(want[0], again)):
            return "not exported", "random", facts
        if free:
            other = larger(inputs, free, draw)
            if all(x is not None for x in other):
                try:
                    want.append(flat(module(*other)))
                    runs.append(other)
                except Exception:  # the layer does not take that size
                    pass
        try:
            with suite.silent():
                export(form, module, inputs, free, opset, path)
        except Exception as e:  # whatever PyTorch says
            return "not exported", str(e).split("\n")[0], facts
    model = a.folder + "/case.infer"
    shape = []
    if form == "script":  # which does not say what it takes
        arguments = torch.jit.load(path).forward.schema.arguments[1:]
        shape = ["--input-shape=%s:[%s]" % (n.name, ",".join(map(str, x.shape)))
                 for n, x in zip(arguments, inputs)
                 if not str(n.type).startswith("Optional")]
        shape += ["--input-type=%s:%s" % (n.name, TYPES[x.dtype])
                  for n, x in zip(arguments, inputs) if x.dtype in TYPES
                  and not str(n.type).startswith("Optional")]
    rc, text = suite.run(a.wconv, path, "-o", model, "-q", *shape)
    if rc != 0:
        return ("refused" if rc == 2 else "crashed",
                text.replace(path, ""), facts)
    for inputs, outputs in zip(runs, want):
        rc, text, out = run_model(a, model, inputs)
        if rc != 0:
            return ("run refused" if rc in (1, 2) else "crashed"), text, facts
        got = outputs_of(a, model, out)
        if len(got) != len(outputs):
            return "differs", "%d outputs, expected %d" % (
                len(got), len(outputs)), facts
        for g, w in zip(got, outputs):
            why = close(g, w.detach().contiguous().resolve_neg().numpy())
            if why and path.endswith("onnx") and not unlike(
                    path, inputs, got):
                return "not exported", "the file says something else", facts
            if why:
                return "differs", why, facts
    return "match", "", facts


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--form", choices=FORMS)
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    total, causes = collections.Counter(), collections.defaultdict(list)
    for i in range(a.first, a.first + a.count):
        draw = random.Random("%d %d" % (a.seed, i))
        torch.manual_seed(draw.randrange(1 << 30))
        name = draw.choice(sorted(cases.TEMPLATES))
        form = a.form or draw.choice(FORMS)
        if a.only and not re.search(a.only, name):
            continue
        try:
            case = cases.draw_case(name, draw)
        except Exception as e:  # the layer refuses these arguments
            total["not built"] += 1
            continue
        try:
            status, why, facts = attempt(a, draw, case, form)
        except Exception as e:  # of this program or of what it calls
            status, why, facts = "crashed", repr(e).split("\n")[0], form
        total[status] += 1
        if a.list:
            with open(a.list, "a") as f:
                print(json.dumps({"case": i, "name": name, "form": facts,
                                  "text": case.text, "status": status,
                                  "why": why}), file=f)
        if status not in ("match", "not exported"):
            causes[status, name].append(("%d %s %s" % (i, facts, case.text),
                                         why))
    return suite.report(total, causes, left_out=("not exported", "not built"))


if __name__ == "__main__":
    sys.exit(main())
