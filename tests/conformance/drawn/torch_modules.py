#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole modules of PyTorch, drawn statement by statement, in every form.

    torch_modules.py FOLDER --wconv=build/wconv --infer=build/infer
                     [--count=100] [--seed=N] [--first=0] [--form=FORM]
                     [--seconds=S] [--keep=FOLDER] [--list=FILE]

A module has one to three inputs (pictures, vectors, integers, scalars) and 2 to
14 statements: layers that may be used twice, residual branches, weights that
layers share, pieces cut to the size of others, sequences, grids.  Its outputs
are drawn, too, and may be inputs or constants.  The text of the module is a file
that --keep keeps where something is wrong.

Forms: ts (the exporter of TorchScript to ONNX), dynamo (torch.export to ONNX),
pt2, core (.pt2 after run_decompositions()), trace and script.  Where PyTorch can
say so the batch, or batch, height and width are free; all forms run at two sizes
of which a file may have the second refused by PyTorch itself.  wconv runs with
drawn options (-O0, --dtype=fp16, --quantize=int8), infer with drawn backends and
threads.  Results are compared with PyTorch's: floats to 1e-4 of the largest
output, halves and bytes by the noise.  "rounding": PyTorch's own result changes
as much where its inputs change by one in a million.

Without --seed the seed is the clock's, which the first line says.
Exit status: 1 where a case differs or crashes.
"""
import collections
import importlib.util
import json
import logging
import os
import random
import re
import shutil
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite
import torch_statements as statements
from torch_layers import flat, unlike
from torch_ops import close

FORMS = ("ts", "dynamo", "pt2", "core", "trace", "script")
HEAD = """import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""
ODD = ("x y", "a/b", "c:0", "é", "-n", "a,b", "x=1", ".", "\"q\"", "in.0")


class Text:
    """A module that grows, and its values at two sizes."""

    def __init__(self, draw):
        self.draw, self.net = draw, nn.Module()
        self.init, self.body, self.modules = [], [], []
        self.env = ({}, {})
        self.values, self.scope = [], {"torch": torch, "nn": nn,
                                       "F": nn.functional}
        self.net.eval()

    def shape(self, v):
        return tuple(self.env[0][v].shape)

    def integer(self, v):
        return not self.env[0][v].is_floating_point()

    def other(self, v):
        """A value, rather one that fits beside v."""
        near = [u for u in self.values if u != v
                and self.shape(u)[2:] == self.shape(v)[2:]
                and len(self.shape(u)) == len(self.shape(v))]
        if near and self.draw.random() < 0.8:
            return self.draw.choice(near)
        return self.draw.choice(self.values)

    def module(self, text):
        name = "m%d" % len(self.init)
        setattr(self.net, name, eval(text, self.scope).eval())
        self.init.append("self.%s = %s" % (name, text))
        self.modules.append("self." + name)
        return "self." + name

    def parameter(self, shape):
        name = "p%d" % len(self.init)
        kind = self.draw.choice(("nn.Parameter(torch.randn(%s))",
                                 "torch.randn(%s)")) % (list(shape),)
        if kind.startswith("nn"):
            setattr(self.net, name, eval(kind, self.scope))
            self.init.append("self.%s = %s" % (name, kind))
        else:
            self.net.register_buffer(name, eval(kind, self.scope))
            self.init.append("self.register_buffer('%s', %s)" % (name, kind))
        return name

    def step(self):
        kinds, weights = zip(*statements.KINDS)
        kept = len(self.init), list(self.modules)
        v = self.draw.choice(self.values[-3:] if self.draw.random() < 0.8
                             else self.values)
        try:
            text = self.draw.choices(kinds, weights)[0](self, v)
            if text is None:
                raise ValueError("no such statement")
            name = "v%d" % len(self.values)
            for env in self.env:
                with torch.no_grad():
                    y = eval(text, dict(self.scope, self=self.net, **env))
                if not torch.is_tensor(y) or y.numel() > 60000 or \
                        y.is_floating_point() and (
                            not torch.isfinite(y).all() or y.numel()
                            and y.abs().max() > 1e4):
                    raise ValueError("not a value to go on with")
                env[name] = y
        except Exception:  # PyTorch refuses it at one of the sizes
            del self.init[kept[0]:]
            self.modules = kept[1]
            self.env[0].pop("v%d" % len(self.values), None)
            return
        self.body.append("%s = %s" % (name, text))
        self.values.append(name)


def inputs_of(draw, sizes):
    """Tensors at each of the sizes (batch, height, width)."""
    c = draw.choice((1, 2, 3, 3, 4, 6, 8))
    kinds = [lambda n, h, w: torch.randn(n, c, h, w)]
    more = (lambda n, h, w: torch.randn(n, c, h, w),
            lambda n, h, w: torch.randn(n, 5, h, w),
            lambda n, h, w: torch.randn(n, 6),
            lambda n, h, w: torch.randn(n, 7, c),
            lambda n, h, w: torch.randint(0, 20, (n, 4)),
            lambda n, h, w: torch.randint(0, 20, (n, 4), dtype=torch.int32),
            lambda n, h, w: torch.rand(n, c, h, w) > 0.5,
            lambda n, h, w: torch.randn(()),
            lambda n, h, w: torch.randn(1))
    kinds += draw.sample(more, draw.choice((0, 0, 1, 2)))
    if draw.random() < 0.1:
        kinds.reverse()
    return [[k(*s) for k in kinds] for s in sizes]


def draw_module(draw, folder):
    """(module, text, inputs at two sizes)"""
    h, w = draw.randint(5, 14), draw.randint(5, 14)
    sizes = [(draw.randint(1, 3), h, w)]
    sizes.append((draw.randint(1, 4), h + draw.randint(1, 9),
                  w + draw.randint(1, 9)))
    runs = inputs_of(draw, sizes)
    g = Text(draw)
    for i, pair in enumerate(zip(*runs)):
        g.values.append("x%d" % i)
        for env, x in zip(g.env, pair):
            env["x%d" % i] = x
    names = list(g.values)
    count = draw.randint(2, 14)
    for _ in range(4 * count):
        if len(g.body) < count:
            g.step()
    if not g.body:
        raise ValueError("no statement")
    outputs = [g.values[-1]]
    for _ in range(draw.choice((0, 0, 1, 2))):
        outputs.append(draw.choice(g.values))
    text = HEAD + "".join("        %s\n" % s for s in g.init or ["pass"])
    text += "\n    def forward(self, %s):\n" % ", ".join(names)
    text += "".join("        %s\n" % s for s in g.body)
    text += "        return %s\n" % ", ".join(outputs)
    path = folder + "/module.py"
    with open(path, "w") as f:
        f.write(text)
    spec = importlib.util.spec_from_file_location("module", path)
    m = importlib.util.module_from_spec(spec)
    import linecache
    linecache.checkcache()
    spec.loader.exec_module(m)
    net = m.Net()
    enliven(net, draw)
    return net.eval(), text, runs


def enliven(net, draw):
    """Parameters and statistics that are constant at the start are drawn."""
    torch.manual_seed(draw.randrange(1 << 30))
    with torch.no_grad():
        for t in list(net.parameters()) + list(net.buffers()):
            if t.is_floating_point() and t.numel() and bool(
                    (t == t.flatten()[0]).all()):
                t.copy_(torch.rand(t.shape) + 0.5)


def export(form, net, inputs, free, opset, path, names):
    if form == "ts":
        torch.onnx.export(
            net, tuple(inputs), path, dynamo=False, opset_version=opset,
            input_names=names, do_constant_folding=opset % 2 == 0,
            dynamic_axes=free and dict(zip(names, free)))
    elif form == "trace":
        torch.jit.trace(net, tuple(inputs), check_trace=False).save(path)
    elif form == "script":
        torch.jit.script(net).save(path)
    else:
        shapes = free and tuple(
            {a: torch.export.Dim.DYNAMIC for a in f} for f in free)
        if form == "dynamo":
            torch.onnx.export(
                net, tuple(inputs), path, dynamo=True, opset_version=opset,
                input_names=names, external_data=False, verbose=False,
                optimize=opset % 2 == 0, dynamic_shapes=shapes)
            return
        program = torch.export.export(net, tuple(inputs),
                                      dynamic_shapes=shapes)
        torch.export.save(program.run_decompositions() if form == "core"
                          else program, path)


def free_axes(runs, which):
    """{axis: name} of each input."""
    if which == 0:
        return None
    free = []
    for x, y in zip(*runs):
        axes = [i for i in range(x.ndim) if x.ndim == 4 and i > 1] \
            if which == 2 else []
        free.append({i: "batch" if i == 0 else "size%d" % i
                     for i in ([0] if x.ndim and x.ndim > 1 else []) + axes})
    return free


def write_inputs(a, inputs):
    files = []
    for f in os.listdir(a.folder):
        if re.match(r"in[0-9]+\.npy$", f):
            os.remove(os.path.join(a.folder, f))
    for i, x in enumerate(inputs):
        files.append("%s/in%d.npy" % (a.folder, i))
        np.save(files[-1], x.detach().contiguous().numpy())
    return ",".join(files)


def run_infer(a, model, inputs, options):
    """(status, text, outputs in order)"""
    files = write_inputs(a, inputs)
    out = a.folder + "/out"
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    rc, text = suite.run(a.infer, "-m", model, "-q", "--load-inputs=" + files,
                         "--export-output=" + out + "/", *options)
    if rc != 0:
        return rc, text, []
    names = os.listdir(out)
    if len(names) == 1:
        return 0, "", [np.load(os.path.join(out, names[0]))]
    order = a.folder + "/order.json"
    rc, text = suite.run(a.infer, "-m", model, "-q", "--load-inputs=" + files,
                         "--export-output=" + order, *options)
    if rc != 0:
        return rc, text, []
    with open(order) as f:
        named = list(json.load(f))
    return 0, "", [np.load(os.path.join(out, suite.file_name(n)))
                   for n in named]


def chaotic(net, inputs, want):
    """How much PyTorch's results change with a change in a million."""
    worst = [0.0] * len(want)
    for i in range(4):
        torch.manual_seed(i)
        near = [x * (1 + 1e-6 * torch.randn(x.shape)) if x.is_floating_point()
                else x for x in inputs]
        with torch.no_grad():
            for k, (y, w) in enumerate(zip(flat(net(*near)), want)):
                if y.shape == w.shape and y.numel():
                    worst[k] = max(worst[k], float(
                        (y.double() - w.double()).abs().nan_to_num(1e30).max()))
    return worst


def noise(got, want):
    """What is above the signal, in decibels."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    e = ((got - want) ** 2).sum()
    return 999 if e == 0 else 10 * np.log10((want ** 2).sum() / e + 1e-30)


def judge(net, inputs, want, got, lossy):
    if len(got) != len(want):
        return "differs", "%d outputs, expected %d" % (len(got), len(want))
    status, text, rough = "match", "", None
    for k, (g, w) in enumerate(zip(got, want)):
        w = w.detach().contiguous()
        if w.dtype == torch.bfloat16:
            w = w.float()
        why = close(g, w.numpy())
        if not why:
            continue
        if why.startswith("shape"):
            return "differs", "output %d: %s" % (k, why)
        if lossy is not None and w.numel():
            if w.is_floating_point() and noise(g, w.numpy()) > lossy:
                continue
            status, text = "noisy", "output %d: %.0f dB" % (
                k, noise(g, w.numpy()))
            continue
        rough = rough or chaotic(net, inputs, want)
        off = np.abs(g.astype(np.float64) - w.double().numpy())
        if not np.isfinite(off).all() or off.max(initial=0) > 30 * rough[k]:
            return "differs", "output %d: %s" % (k, why)
        status = "rounding"
    return status, text


def unlike_apart(path, inputs, want):
    """unlike() in a process of its own: ONNX Runtime aborts at some files."""
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = unlike(path, inputs,
                          [y.contiguous().numpy() for y in want])
            os.write(w, text.encode("utf-8", "replace")[:4000])
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    return text if os.waitpid(child, 0)[1] == 0 else "ONNXRuntime aborts"


def named(path):
    """Inputs of an ONNX file: the exporter leaves out what nobody reads."""
    import onnx
    return [i.name for i in onnx.load(path).graph.input]


def attempt(a, draw, net, runs, form):
    """(status, why, facts)"""
    opset = draw.randint(11, 20) if form == "ts" else draw.randint(18, 21)
    which = draw.choice((0, 1, 2, 2))
    path = a.folder + "/case." + {"ts": "onnx", "dynamo": "onnx", "trace": "pt",
                                  "script": "pt"}.get(form, "pt2")
    names = ["x%d" % i for i in range(len(runs[0]))]
    if draw.random() < 0.1:
        names = draw.sample(ODD, len(names))
    why = ""
    while which >= 0:
        free = free_axes(runs, which) if form not in ("trace", "script") \
            else None
        try:
            with suite.silent(), torch.no_grad():
                export(form, net, runs[0], free, opset, path, names)
            break
        except Exception as e:  # whatever PyTorch says
            why = " ".join(str(e).split())
            which = which - 1 if free else -1
    facts = "%s%s free %d" % (form, " opset %d" % opset if path.endswith(
        "onnx") else "", which)
    if which < 0:
        return "not exported", why, facts
    options = draw.choice(((), (), (), ("-O0",), ("-O1",), ("--dtype=fp16",),
                           ("--quantize=int8",), ("--keep-bn",)))
    running = draw.choice(((), (), ("--threads=2",), ("--backend=ref",),
                           ("--backend=cpu",), ("--deterministic",)))
    lossy = {"--dtype=fp16": 30, "--quantize=int8": 8}.get(
        options[0] if options else "")
    facts += " ".join(("",) + options + running)
    reference = net
    if path.endswith(".pt"):
        reference = torch.jit.load(path)
    status, text = "match", ""
    model = a.folder + "/case.infer"
    for k, inputs in enumerate(runs):
        if k and free is None and not path.endswith(".pt"):
            break
        if k and which == 1 and free:
            inputs = [torch.cat([x, x, x, x])[:y.shape[0]] if x.ndim > 1 else x
                      for x, y in zip(runs[0], inputs)]
        with torch.no_grad():
            try:
                want = flat(reference(*inputs))
            except Exception as e:  # not at that size
                break
        extra = []
        if path.endswith(".pt"):
            arguments = reference.forward.schema.arguments[1:]
            extra = ["--input-shape=%s:[%s]" % (
                n.name, ",".join(map(str, x.shape)))
                for n, x in zip(arguments, inputs)]
            extra += ["--input-type=%s:%s" % (n.name, {
                torch.float32: "F32", torch.int64: "I64", torch.int32: "I32",
                torch.bool: "BOOL"}[x.dtype])
                for n, x in zip(arguments, inputs)]
        every = inputs
        if path.endswith("onnx"):
            inputs = [x for n, x in zip(names, inputs) if n in named(path)]
        if options and options[0].startswith("--q"):
            np.savez(a.folder + "/calibrate.npz", **{
                n: x.numpy() for n, x in zip(
                    [n.name for n in arguments] if extra else named(path)
                    if path.endswith("onnx") else names, inputs)})
            options = options[:1] + (
                "--calibrate=" + a.folder + "/calibrate.npz",)
        if k == 0 or extra:
            rc, said = suite.run(a.wconv, path, "-o", model, "-q", *options,
                                 *extra)
            if rc == 2 and path.endswith("onnx") and unlike_apart(
                    path, inputs, want):
                return "not exported", "the file says something else", facts
            if rc != 0:
                return ("refused" if rc in (1, 2) else "crashed",
                        said.replace(path, ""), facts)
        rc, said, got = run_infer(a, model, inputs, running)
        if not inputs:
            return "not exported", "no input is left", facts
        if rc != 0:
            return ("run refused" if rc in (1, 2) else "crashed",
                    "size %d: %s" % (k, said), facts)
        one, why = judge(reference, every, want, got, lossy)
        if one in ("differs", "noisy") and path.endswith("onnx") and \
                "ONNXRuntime" not in (unlike_apart(
                    path, inputs, want) or "ONNXRuntime"):
            return "not exported", "the file says something else", facts
        if one == "differs":
            return one, "size %d: %s" % (k, why), facts
        if one != "match":
            status, text = one, why
    return status, text, facts


def main():
    p = suite.parser(__doc__)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--form", choices=FORMS)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--keep")
    p.add_argument("--list")
    a = p.parse_args()
    if a.seed is None:
        a.seed = int(time.time())
    print("seed", a.seed, flush=True)
    for f in (a.folder, a.keep or a.folder):
        os.makedirs(f, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    total, causes = collections.Counter(), collections.defaultdict(list)
    end = time.time() + a.seconds
    for i in range(a.first, a.first + a.count):
        if time.time() > end:
            break
        draw = random.Random("%d %d" % (a.seed, i))
        torch.manual_seed(draw.randrange(1 << 30))
        try:
            net, text, runs = draw_module(draw, a.folder)
            with torch.no_grad():
                want = [flat(net(*r)) for r in runs]
                if not all(bool(torch.isfinite(y.float()).all()) for w in want
                           for y in w):
                    raise ValueError("not finite")
        except Exception as e:
            total["not built"] += 1
            continue
        form = a.form or draw.choice(FORMS + ("ts", "pt2", "trace"))
        try:
            status, why, facts = attempt(a, draw, net, runs, form)
        except Exception as e:  # of this program or of what it calls
            status, why, facts = "crashed", repr(e).split("\n")[0], form
        total[status] += 1
        if a.list:
            with open(a.list, "a") as f:
                print(json.dumps({"case": i, "form": facts, "status": status,
                                  "why": why}), file=f)
        if status in ("match", "rounding", "not exported"):
            continue
        print(i, facts, status, " ".join(why.split())[:300], flush=True)
        causes[status, form].append((str(i), why))
        if a.keep:
            for n in os.listdir(a.folder):
                if re.match(r"case\.(onnx|pt|pt2)$|module\.py$|in\d+\.npy$", n):
                    shutil.copy(os.path.join(a.folder, n), os.path.join(
                        a.keep, "%d.%s" % (i, n)))
    return suite.report(total, causes, left_out=("not exported", "not built"))


if __name__ == "__main__":
    sys.exit(main())
