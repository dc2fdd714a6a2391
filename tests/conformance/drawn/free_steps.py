#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over a free number of steps, exported by PyTorch (both
exporters to ONNX, torch.export, TorchScript), against PyTorch at other numbers
of steps and batches than the export's.

usage: free_steps.py BUILD [NAME ...]

BUILD holds wconv and infer.  Needs torch and onnx.  What PyTorch itself does
not export with free sizes is said and not counted.  Exit status: 1 for a
network that is refused or differs.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn

TOLERANCE = 2e-5


class Layers(nn.Module):
    def __init__(self, kind, batch_first, both, layers, hidden, bias):
        super().__init__()
        self.r = getattr(nn, kind)(6, hidden, layers, batch_first=batch_first,
                                   bidirectional=both, bias=bias)
        self.f = nn.Linear(hidden * (2 if both else 1), 4)

    def forward(self, x):
        return self.f(self.r(x)[0])


class Recogniser(nn.Module):
    """Of lines of text: as many steps as the picture is wide."""

    def __init__(self, kind, hidden):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(8, 8, 3, (2, 1), 1), nn.ReLU())
        self.r = getattr(nn, kind)(32, hidden, 2, bidirectional=True)
        self.f = nn.Linear(2 * hidden, 11)

    def forward(self, x):
        x = self.c(x)
        b, c, h, w = x.shape
        x = x.reshape(b, c * h, w).permute(2, 0, 1)
        return self.f(self.r(x)[0]).log_softmax(-1)


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(6, 8, 2, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.r(x, (h, c))
        return y, h, c


class Last(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.r = nn.GRU(6, 8, batch_first=True, bidirectional=both)
        self.f = nn.Linear(8, 3)

    def forward(self, x):
        y, h = self.r(x)
        return self.f(h[-1]) + y[:, -1, :3]


class Case:
    """steps: the dimension of x that is free besides the batch's, and what it
    is a multiple of."""

    def __init__(self, name, network, shape, steps, multiple=1, states=0):
        self.name, self.network = name, network.eval()
        self.shape, self.steps, self.multiple = shape, steps, multiple
        self.batch = 1 if steps == 0 else 0
        self.names = ["x", "h", "c"][:1 + states]

    def inputs(self, batch, steps):
        shape = list(self.shape)
        shape[self.batch] = batch
        shape[self.steps] = steps * self.multiple
        return [torch.randn(shape)] + [torch.randn(2, batch, 8)
                                       for _ in self.names[1:]]

    def free_shapes(self):
        shape = list(self.shape)
        shape[self.batch] = shape[self.steps] = -1
        return ["--input-shape=x:" + "x".join(map(str, shape))]


def cases():
    for kind in ("LSTM", "GRU", "RNN"):
        yield Case(kind, Layers(kind, True, True, 2, 8, True), (1, 1, 6), 1)
        yield Case(kind + "-steps-first",
                   Layers(kind, False, False, 1, 9, False), (1, 1, 6), 0)
        yield Case("recogniser-" + kind, Recogniser(kind, 12), (1, 1, 16, 1),
                   3, 8)
    yield Case("state", State(), (1, 1, 6), 1, states=2)
    yield Case("last", Last(False), (1, 1, 6), 1)
    yield Case("last-both", Last(True), (1, 1, 6), 1)


def export_old(case, x, path):
    axes = {n: {1: "batch"} for n in case.names}
    axes["x"] = {case.steps: "steps", case.batch: "batch"}
    torch.onnx.export(case.network, tuple(x), path, dynamo=False,
                      input_names=case.names, dynamic_axes=axes,
                      opset_version=17)


def sizes(case):
    batch = torch.export.Dim("batch", min=1, max=64)
    steps = torch.export.Dim("steps", min=2, max=512)
    return [{case.steps: case.multiple * steps if case.multiple > 1 else steps,
             case.batch: batch}] + [{1: batch}] * (len(case.names) - 1)


def export_new(case, x, path):
    torch.onnx.export(case.network, tuple(x), path, dynamo=True,
                      input_names=case.names, dynamic_shapes=sizes(case),
                      verbose=False)


def export_program(case, x, path):
    torch.export.save(
        torch.export.export(case.network, tuple(x),
                            dynamic_shapes=sizes(case), strict=False), path)


def export_script(case, x, path):
    if len(x) > 1:
        raise RuntimeError("sizes of several inputs have no names")
    torch.jit.trace(case.network, tuple(x)).save(path)


FORMS = {"onnx": (export_old, ".onnx"), "dynamo": (export_new, ".onnx"),
         "pt2": (export_program, ".pt2"), "traced": (export_script, ".pt")}


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    return r.stderr.strip() if r.returncode else None


def check(build, case, form, folder):
    """None, or what is wrong; ValueError: PyTorch does not export it."""
    export, suffix = FORMS[form]
    path = os.path.join(folder, "net" + suffix)
    model = os.path.join(folder, "net.infer")
    try:
        export(case, case.inputs(2, 6), path)
    except Exception as e:
        raise ValueError(str(e).strip().splitlines()[0]) from e
    given = case.free_shapes() if form == "traced" else []
    error = run(os.path.join(build, "wconv"), path, "-o", model, "-q", *given)
    if error:
        return "refused: " + error
    for batch, steps in ((2, 7), (1, 12), (3, 5)):
        x = case.inputs(batch, steps)
        want = case.network(*x)
        want = want if isinstance(want, tuple) else (want,)
        load = []
        for name, v in zip(case.names, x):
            at = os.path.join(folder, name + ".npy")
            np.save(at, v.numpy())
            load.append("%s:%s" % (name, at))
        out = tempfile.mkdtemp(dir=folder) + "/"
        error = run(os.path.join(build, "infer"), "-m", model,
                    "--export-output=" + out,
                    "--load-inputs=" + ",".join(load))
        if error and ("expected" in error and "shape" in error):
            raise ValueError("the exporter fixed the sizes")
        if error:
            return error
        got = [np.load(out + f) for f in os.listdir(out)]
        for v in want:
            v = v.detach().numpy()
            if not any(g.shape == v.shape and
                       np.allclose(g, v, atol=TOLERANCE) for g in got):
                return "differs at batch %d, %d steps" % (batch, steps)
    return None


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    count = {"equal": 0, "wrong": 0, "not exported": 0}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if len(sys.argv) > 2 and case.name not in sys.argv[2:]:
                continue
            for form in FORMS:
                try:
                    wrong = check(sys.argv[1], case, form, folder)
                    key = "wrong" if wrong else "equal"
                except ValueError as e:
                    wrong, key = e, "not exported"
                count[key] += 1
                if wrong:
                    print(case.name, form, key + ":", wrong, flush=True)
    print(", ".join("%d %s" % (n, k) for k, n in count.items()))
    sys.exit(1 if count["wrong"] else 0)


main()
