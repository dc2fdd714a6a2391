#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks of PyTorch libraries, drawn by name, on several processors.

    torch_survey.py FOLDER --wconv=build/wconv --infer=build/infer --out=FILE
                    [--libraries=timm:6,torchvision:1,...] [--seed=N]
                    [--processes=8] [--seconds=600] [--limit=150] [--most=100e6]
                    [--known=FILE] [--stop=FILE] [--only=REGEX] [--forms=LIST]

Names are drawn without repetition, those that --known holds ("library name" a
line) after all others; a library stands as often as its figure says.  Without
--seed the seed is the clock's.  Weights are random, parameters that are constant
at the start drawn, batch norms calibrated.  Each network is written by both
exporters to ONNX (ts: opsets 11 to 17, dynamo: 18 to 21) and in one more form:
pt2, core (.pt2 after run_decompositions()), trace or script; of half the files
the batch is free, of a quarter height and width, too, and these run at two
shapes.  The library yolo is in survey_yolo.py, smaller packages are in
survey_packages.py.  One network has --limit seconds
in a process of its own.

A line of JSON a file goes to --out as soon as it is known: "status" is match
(1e-4 of the largest output), rounding (at most twice as far from double precision
as PyTorch is), differs, refused, "run refused", crashed, "not exported" (PyTorch
does not write it, or ONNX Runtime gives of the file what infer does), "not
built", "too large" or "too long"; "difference" is from PyTorch, "double" infer's
and "own" PyTorch's distance from double precision.  For what is not right "ort"
says what ONNX Runtime makes of the file.  "peak_mib" is what wconv took at most,
by GNU time, "weights_mib" the parameters and buffers.  The file --stop ends it.
"""
import collections
import json
import logging
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import suite
import survey_networks as survey
import survey_packages
import survey_yolo
from torch_layers import export, flat
from torch_networks import calibrate
from torch_ops import outputs_of, run_model

MORE = ("pt2", "core", "trace", "script")


def distance(got, want):
    """Of lists of arrays: the largest difference, relative to the largest value
    of its output, or a text where shapes or infinities differ."""
    if len(got) != len(want):
        return "%d outputs, expected %d" % (len(got), len(want))
    worst = 0.0
    for g, w in zip(got, want):
        if g.shape != w.shape:
            return "shape %s, expected %s" % (g.shape, w.shape)
        g, w = g.astype(np.float64), w.astype(np.float64)
        finite = np.isfinite(w)
        if not np.array_equal(finite, np.isfinite(g)):
            return "infinities or NaN"
        top = np.abs(w[finite]).max(initial=1e-30)
        worst = max(worst, np.abs(g - w)[finite].max(initial=0) / top)
    return float(worst)


def arrays(y):
    return [t.detach().contiguous().numpy() for t in flat(y)]


def in_double(module, inputs):
    try:
        with torch.no_grad():
            return arrays(module.double()(*[x.double() for x in inputs]))
    except Exception:  # a type that the network states itself
        return None
    finally:
        module.float()


def by_onnxruntime(path, runs, want):
    """What ONNX Runtime makes of the file: its distances, or what it says."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        s = onnxruntime.InferenceSession(path, options)
        return [distance(s.run(None, {i.name: x.numpy() for i, x in zip(
            s.get_inputs(), r)}), w) for r, w in zip(runs, want)]
    except Exception as e:  # of whatever kind
        return " ".join(str(e).split())[:200]


def judge(a, module, path, model, runs, want):
    """Runs the model at each shape: {"status": ..., ...}"""
    facts = {"status": "match", "difference": 0.0}
    for x, w in zip(runs, want):
        rc, text, out = run_model(a, model, x)
        if rc != 0:
            facts.update(status="run refused" if rc in (1, 2) else "crashed",
                         why=text, shape=list(x[0].shape))
            return facts
        got = outputs_of(a, model, out)
        d = distance(got, w)
        if isinstance(d, float) and d <= 1e-4:
            facts["difference"] = max(d, facts["difference"])
            continue
        facts.update(difference=d, status="differs", shape=list(x[0].shape))
        exact = in_double(module, x) if isinstance(d, float) else None
        if exact is not None:
            facts["double"], facts["own"] = distance(got, exact), distance(
                w, exact)
            if facts["double"] <= 2 * facts["own"]:
                facts["status"] = "rounding"
                continue
        if path.endswith("onnx"):
            ort = by_onnxruntime(path, [x], [got])
            if isinstance(ort, list) and isinstance(ort[0], float) and \
                    ort[0] <= 1e-4:
                facts.update(status="not exported",
                             why="the file says something else")
        return facts
    return facts


def attempt(a, draw, module, runs, want, form):
    path = a.folder + "/case." + {"ts": "onnx", "dynamo": "onnx", "trace": "pt",
                                  "script": "pt"}.get(form, "pt2")
    x = runs[0]
    axes = None
    if form not in ("trace", "script") and draw.random() < 0.5:
        axes = [0]
        if x[0].ndim > 2 and draw.random() < 0.5:
            axes = [0, *range(2, x[0].ndim)]
    opset = (draw.choice((11, 13, 14, 15, 16, 17, 17, 17)) if form == "ts" else
             draw.choice((18, 18, 19, 20, 21)) if form == "dynamo" else 0)
    facts = {"form": form, "free": len(axes or ()), "opset": opset}
    free = axes and [{d: "batch" if d == 0 else "size%d" % d for d in axes}
                     for _ in x]
    if not axes:
        runs, want = runs[:1], want[:1]
    elif len(axes) == 1:
        runs, want = runs[:2], want[:2]
    else:
        runs, want = [runs[0], runs[-1]], [want[0], want[-1]]
    a.say(facts)
    start = time.time()
    if form == "script" and a.scripted:
        module = a.scripted(module)
    try:
        with suite.silent(), torch.no_grad():
            try:
                export(form, module, x, free, opset, path)
            except Exception:  # older opsets lack operators
                if form != "ts" or opset == 17:
                    raise
                facts["opset"] = 17
                export(form, module, x, free, 17, path)
    except Exception as e:  # whatever PyTorch says
        return dict(facts, status="not exported",
                    why=" ".join(str(e).split())[:200])
    facts["export_s"] = round(time.time() - start, 1)
    model, more = a.folder + "/case.infer", []
    if form in ("trace", "script"):
        names = torch.jit.load(path).forward.schema.arguments[1:]
        more = ["--input-shape=%s:[%s]" % (n.name, ",".join(map(str, t.shape)))
                for n, t in zip(names, x)]
    start = time.time()
    rc, text = suite.run("/usr/bin/time", "-q", "-o", a.folder + "/peak", "-f",
                         "%M", a.wconv, path, "-o", model, "-q", *more)
    facts["wconv_s"] = round(time.time() - start, 2)
    if rc != -1:  # in time
        facts["peak_mib"] = int(open(a.folder + "/peak").read()) >> 10
    facts["weights_mib"] = sum(
        t.numel() * t.element_size()
        for t in module.state_dict().values()) >> 20
    if rc != 0:
        facts.update(status="refused" if rc == 2 else "crashed",
                     why=text.replace(path, ""))
    else:
        facts.update(judge(a, module, path, model, runs, want))
    if facts["status"] in ("refused", "run refused", "crashed", "differs") \
            and path.endswith("onnx"):
        facts["ort"] = by_onnxruntime(path, runs, want)
    return facts


def parameters_of(library, name, draw):
    """How many parameters, without their memory where the library can."""
    if library != "timm":
        return 0
    import timm
    try:
        with torch.device("meta"):
            m = timm.create_model(name, pretrained=False)
    except Exception:
        return 0
    return sum(p.numel() for p in m.parameters())


def liven(module):
    with torch.no_grad():
        for p in module.parameters():
            if p.is_floating_point() and p.numel() and bool(
                    (p == p.flatten()[0]).all()):
                p.copy_(p + 0.4 * (torch.rand(p.shape) - 0.3))


def one(a, library, name, seed, turn):
    """All files of one network, in the process of its own."""
    if library == "yolo":
        survey_yolo.one(a, name, seed, turn, distance)
        return
    draw = random.Random("%s %s %d" % (library, name, seed))
    torch.manual_seed(draw.randrange(1 << 30))
    a.say({"form": "build"})
    state = draw.getstate()
    try:
        n = parameters_of(library, name, draw)
        if n <= a.most:
            module, sizes = (survey_packages.build(library, name)
                             if library in survey_packages.TABLES else
                             survey.BUILD[library](name, draw, False))
            n = n or sum(p.numel() for p in module.parameters())
        if n > a.most:
            a.write({"status": "too large", "why": "%.0fe6" % (n / 1e6)})
            return
        module.eval()
        liven(module)
        for s in sizes:
            try:
                with torch.no_grad():
                    module(torch.rand(2, *s))
                break
            except Exception as e:
                why = e
        else:
            raise why
        x = [torch.rand(2, *s)]
        calibrate(module, x)
    except Exception as e:  # of the library
        a.write({"status": "not built", "why": " ".join(str(e).split())[:200]})
        return
    runs, want = [], []
    shapes = [(2, *s), (3, *s)]
    if len(s) > 1:
        shapes += [(1, s[0], *(n + 32 * (1 + i % 2)
                               for i, n in enumerate(s[1:])))]
    for shape in shapes:
        try:
            r = [torch.rand(*shape)]
            with torch.no_grad():
                y, again = arrays(module(*r)), arrays(module(*r))
            if not all(np.array_equal(p, q, equal_nan=True)
                       for p, q in zip(y, again)):
                a.write({"status": "not built", "why": "random"})
                return
            if all(np.isfinite(p).all() for p in y) and y:
                want.append(y)
                runs.append(r)
        except Exception:  # not at that size
            pass
    if not runs:
        a.write({"status": "not built", "why": "no finite outputs"})
        return
    a.scripted = None
    if library == "timm":
        def scripted(module):
            draw.setstate(state)
            m = survey.BUILD[library](name, draw, True)[0]
            m.load_state_dict(module.state_dict())
            return m.eval()
        a.scripted = scripted
    forms = (a.forms.split(",") if a.forms else
             ["ts", "dynamo", MORE[turn % len(MORE)]])
    if turn % 2:
        forms.reverse()
    text = {"text": module.drawn} if hasattr(module, "drawn") else {}
    for form in forms:
        start = time.time()
        try:
            facts = attempt(a, draw, module, runs, want, form)
        except Exception as e:  # of this program or of what it calls
            facts = {"form": form, "status": "crashed", "why": repr(e)[:300]}
        a.write(dict(facts, seconds=round(time.time() - start, 1), **text))


def child(a, slot, library, name, seed, turn):
    """Never returns."""
    os.setsid()
    a.folder = "%s/%d" % (a.folder, slot)
    shutil.rmtree(a.folder, ignore_errors=True)
    os.makedirs(a.folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def write(facts):
        facts = dict(library=library, name=name, seed=seed, **facts)
        with open(a.out, "a") as f:
            f.write(json.dumps(facts) + "\n")

    def say(facts):
        with open(a.folder + "/at", "w") as f:
            json.dump(facts, f)
    a.write, a.say = write, say
    try:
        one(a, library, name, seed, turn)
    finally:
        os._exit(0)


def end_of(pid):
    """Kills a process and its children."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # before its setsid()
            pass
    os.waitpid(pid, 0)


def names_in_turn(a, draw):
    """(library, name): libraries by their figures, known names at the end."""
    known = set()
    if a.known:
        known = {tuple(l.split()[:2]) for l in open(a.known) if l.split()}
    lists, figures = {}, {}
    for part in a.libraries.split(","):
        library, _, figure = part.partition(":")
        try:
            names = (survey_yolo.names() if library == "yolo" else
                     survey_packages.names_of(library)
                     if library in survey_packages.TABLES else
                     survey.NAMES[library]())
        except Exception as e:  # it is not here
            print(library, "is not here:", e, flush=True)
            continue
        names = [n for n in names if not a.only or re.search(a.only, n)]
        draw.shuffle(names)
        names.sort(key=lambda n: (library, n) in known)
        lists[library], figures[library] = names, float(
                figure or 1)
    done = collections.Counter()
    while lists:
        library = min(lists, key=lambda l: (done[l] + 0.5) / figures[l])
        yield library, lists[library].pop(0)
        done[library] += 1
        if not lists[library]:
            del lists[library]


def main():
    p = suite.parser(__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--libraries", default="timm:6,torchvision:1,smp:1")
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--processes", type=int, default=8)
    p.add_argument("--seconds", type=float, default=600)
    p.add_argument("--limit", type=float, default=150)
    p.add_argument("--most", type=float, default=100e6)
    p.add_argument("--count", type=int, default=1 << 30)
    p.add_argument("--known")
    p.add_argument("--stop")
    p.add_argument("--forms")
    a = p.parse_args()
    a.folder, a.out = os.path.abspath(a.folder), os.path.abspath(a.out)
    end = time.time() + a.seconds
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    import importlib
    for m in ("onnxscript", "onnxruntime",
              "torch.onnx._internal.exporter._core"):
        importlib.import_module(m)  # once for all processes
    turns = names_in_turn(a, random.Random(a.seed))
    running, turn = {}, 0  # slot: (process, start, library, name)
    print("seed", a.seed, flush=True)

    def over():
        return time.time() > end or (a.stop and os.path.exists(a.stop))
    while not over() and (running or turn < a.count):
        for slot in range(a.processes):
            if slot not in running and turn < a.count:
                step = next(turns, None)
                if step is None:
                    a.count = turn
                    break
                pid = os.fork()
                if pid == 0:
                    child(a, slot, *step, a.seed, turn)
                running[slot] = (pid, time.time(), *step)
                turn += 1
        time.sleep(0.05)
        for slot, (pid, start, *step) in list(running.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del running[slot]
            elif time.time() - start > a.limit:
                end_of(pid)
                del running[slot]
                try:
                    at = json.load(open("%s/%d/at" % (a.folder, slot)))
                except Exception:
                    at = {}
                with open(a.out, "a") as f:
                    f.write(json.dumps(dict(
                        library=step[0], name=step[1], seed=a.seed,
                        status="too long", **at)) + "\n")
    for pid, *_ in running.values():
        end_of(pid)
    total = collections.Counter()
    if os.path.exists(a.out):
        for line in open(a.out):
            total[json.loads(line)["status"]] += 1
    print(dict(total), flush=True)
    return 1 if total["differs"] + total["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
