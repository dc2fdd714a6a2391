#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operator tests (op_db) through torch.export and TorchScript.

    torch_ops.py FOLDER --wconv=build/wconv --infer=build/infer
                 [--format=pt2|core|trace] [--samples=3] [--seed=1]
                 [--only=REGEX] [--list=FILE]

Of each operator's sample inputs in float32 a few are drawn.  Each becomes a
module whose tensors are inputs, is exported (core: after run_decompositions()),
converted with wconv, run with infer and compared with PyTorch: floats to 1e-4
of the largest output, integers and truths exactly.  Where not every tensor can
be an input, all but the first become constants.

Left out: random numbers, FFT, linear algebra, sparse and special functions,
operators without a stated result, samples without a tensor, complex ones and
those that PyTorch does not export.  --list writes a line of JSON a case.
Exit status: 1 where a case differs or crashes.
"""
import collections
import json
import os
import random
import re
import shutil
import sys
import warnings

import numpy as np
import torch
from torch.utils import _pytree as pytree

import suite

OUTSIDE = re.compile(
    r"rand|^normal|bernoulli|multinomial|dropout|fft|stft|linalg|sparse|special|"
    r"poisson|cauchy|exponential|geometric|uniform|log_normal|^empty|^new_empty|"
    r"jiterator|cholesky|^svd|^pca|^lu|^qr|^geqrf|^ormqr|^orgqr|eig|^triangular|"
    r"^pinverse|^logdet|^lobpcg|^nonzero_static|^rand|^inverse|^det$|"
    r"alpha_dropout|^equal$|^item$|^allclose$|^polygamma|^torch.ops|^histc|"
    r"^complex$|^polar$|^view_as_complex|^to_sparse")


class Call(torch.nn.Module):
    """op(sample) as a module: tensors of `keep` are inputs, others buffers."""

    def __init__(self, op, leaves, spec, keep):
        super().__init__()
        self.op, self.spec, self.keep = op, spec, keep
        self.fixed = [None if torch.is_tensor(x) else x for x in leaves]
        self.tensors = [torch.is_tensor(x) for x in leaves]
        for i, x in enumerate(leaves):
            if torch.is_tensor(x) and i not in keep:
                self.register_buffer("c%d" % i, x)

    def forward(self, *inputs):
        given = dict(zip(self.keep, inputs))
        leaves = [given[i] if i in given else getattr(self, "c%d" % i)
                  if t else x for i, (x, t) in
                  enumerate(zip(self.fixed, self.tensors))]
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        out = [y for y in pytree.tree_leaves(self.op(x, *args, **kwargs))
               if torch.is_tensor(y)]
        return out[0] if len(out) == 1 else tuple(out)


def close(got, want):
    if got.shape != want.shape:
        return "shape %s, expected %s" % (got.shape, want.shape)
    if want.dtype.kind != "f":
        return "" if np.array_equal(got.astype(np.float64),
                                    want.astype(np.float64)) else "values"
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)) or not np.array_equal(
            got[~finite], want[~finite], equal_nan=True):
        return "infinities or NaN"
    top = np.abs(want[finite]).max(initial=1e-30)
    error = np.abs(got[finite] - want[finite]).max(initial=0) / top
    return "" if error <= 1e-4 else "%.1e of the largest output" % error


def attempt(a, module, inputs):
    """("match" | "refused" | "differs" | "crashed" | "not exported", why)"""
    path, model = a.folder + "/case", a.folder + "/case.infer"
    module.eval()
    with torch.no_grad():
        want = module(*inputs)
        want = list(want) if isinstance(want, tuple) else [want]
        if not want or any(x.is_complex() or x.layout != torch.strided
                           for x in want):
            return "not exported", "complex or sparse outputs"
        again = module(*inputs)
        again = list(again) if isinstance(again, tuple) else [again]
        if any(not torch.equal(x.nan_to_num(), y.nan_to_num())
               for x, y in zip(want, again)):
            return "not exported", "another result each time"
        path += ".pt" if a.format == "trace" else ".pt2"
        try:
            if a.format == "trace":
                torch.jit.trace(module, tuple(inputs),
                                check_trace=False).save(path)
            else:
                program = torch.export.export(module, tuple(inputs))
                if a.format == "core":
                    program = program.run_decompositions()
                torch.export.save(program, path)
        except Exception as e:  # whatever PyTorch says
            return "not exported", str(e).split("\n")[0]
    shapes = ["--input-shape=[%s]" % ",".join(map(str, inputs[0].shape))]
    rc, text = suite.run(a.wconv, path, "-o", model, "-q",
                   *(shapes if a.format == "trace" else []))
    if rc != 0:
        return "refused" if rc == 2 else "crashed", text.replace(path, "")
    rc, text, out = run_model(a, model, inputs)
    if rc != 0:
        return ("run refused" if rc in (1, 2) else "crashed"), text
    got = outputs_of(a, model, out)
    if len(got) != len(want):
        return "differs", "%d outputs, expected %d" % (len(got), len(want))
    for g, w in zip(got, want):
        why = close(g, w.detach().resolve_neg().numpy())
        if why:
            return "differs", why
    return "match", ""


def run_model(a, model, inputs):
    """Runs infer on tensors: its status, what it says, the folder of outputs."""
    for f in os.listdir(a.folder):
        if re.match(r"in[0-9]+\.npy$", f):
            os.remove(os.path.join(a.folder, f))
    files = []
    for i, x in enumerate(inputs):
        files.append("%s/in%d.npy" % (a.folder, i))
        np.save(files[-1], x.detach().contiguous().numpy())
    out = a.folder + "/out"
    shutil.rmtree(out, ignore_errors=True)
    rc, text = suite.run(a.infer, "-m", model, "-q", "--threads=1",
                         "--export-output=" + out,
                         "--load-inputs=" + ",".join(files))
    return rc, text, out


def outputs_of(a, model, folder):
    """The written outputs in the model's order, which a JSON of them has."""
    files = os.listdir(folder)
    if len(files) == 1:
        return [np.load(os.path.join(folder, files[0]))]
    inputs = sorted(f for f in os.listdir(a.folder)
                    if re.match(r"in[0-9]+\.npy$", f))
    order = a.folder + "/order.json"
    suite.run(a.infer, "-m", model, "-q", "--threads=1", "--export-output=" + order,
        "--load-inputs=" + ",".join(
            os.path.join(a.folder, "in%d.npy" % i) for i in range(len(inputs))))
    with open(order) as f:
        names = list(json.load(f))
    return [np.load(os.path.join(folder, suite.file_name(n))) for n in names]


def one(a, op, sample):
    args = (sample.input, sample.args, sample.kwargs)
    leaves, spec = pytree.tree_flatten(args)

    tensors = [i for i, x in enumerate(leaves) if torch.is_tensor(x)]
    if (not tensors or any(leaves[i].layout != torch.strided or
                           leaves[i].is_complex() for i in tensors)):
        return "not exported", "no tensors of numbers"
    leaves = [x.detach().clone() if torch.is_tensor(x) else x for x in leaves]
    first = None
    # A TorchScript file's inputs have no shape: one is stated, of the first.
    ways = [tuple(tensors), tuple(tensors[:1])]
    if a.format == "trace":
        ways = ways[1:]
        if not leaves[tensors[0]].numel() or not leaves[tensors[0]].ndim:
            return "not exported", "an empty input or one of rank 0"
    for keep in dict.fromkeys(ways):
        for f in os.listdir(a.folder):
            if re.match(r"in[0-9]+\.npy$", f):
                os.remove(os.path.join(a.folder, f))
        result = attempt(a, Call(op.op, leaves, spec, keep),
                         [leaves[i] for i in keep])
        if result[0] in ("match", "differs", "crashed"):
            return result
        first = first or result
    return first


def main():
    from torch.testing._internal.common_methods_invocations import op_db
    p = suite.parser(__doc__)
    p.add_argument("--format", default="pt2", choices=["pt2", "core", "trace"])
    p.add_argument("--samples", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--list")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    warnings.simplefilter("ignore")
    total, causes = collections.Counter(), collections.defaultdict(list)
    for op in op_db:
        name = op.name + ("." + op.variant_test_name
                          if op.variant_test_name else "")
        if (OUTSIDE.search(op.name) or a.only and not re.search(a.only, name)
                or torch.float32 not in op.dtypes):
            continue
        draw = random.Random("%d %s" % (a.seed, name))
        torch.manual_seed(draw.randrange(1 << 30))
        try:
            samples = list(op.sample_inputs("cpu", torch.float32))
        except Exception:  # its own test does not run here
            continue
        drawn = draw.sample(range(len(samples)), min(a.samples, len(samples)))
        for i in sorted(drawn):
            try:
                status, why = one(a, op, samples[i])
            except Exception as e:  # the operator itself refuses the sample
                status, why = "not exported", str(e).split("\n")[0]
            total[status] += 1
            if a.list:
                with open(a.list, "a") as f:
                    print(json.dumps({"op": name, "sample": i, "status": status,
                                      "why": why}), file=f)
            if status not in ("match", "not exported"):
                causes[status, name].append((i, why))
    return suite.report(total, causes, left_out=("not exported",))


if __name__ == "__main__":
    sys.exit(main())
