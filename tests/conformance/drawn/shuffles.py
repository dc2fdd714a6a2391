#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random networks with shuffles of channels, beside onnxruntime.

    shuffles.py FOLDER --wconv=build/wconv --infer=build/infer [--count=100] [--seed=N]

A network is a convolution and one to four blocks: halves that are joined and
shuffled (ShuffleNetV2), a shuffle before a depthwise and a full convolution,
parts of any size of a shuffled tensor that are joined again.  Parts are cut by
Split or by Slice, the batch is free or 2, and what lies between may be an output.
Each is converted and run with --backend=cpu and with the backend that infer
chooses; outputs are compared to 2e-5 of the largest.  The last line says how often the
passes over shuffles changed something.

Without --seed the seed is the clock's, which the first line says.
Exit status: 1 where an output differs or a tool fails.
"""
import argparse
import collections
import os
import random
import re
import shutil
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BOUND = 2e-5
PASSES = ["split-shuffle", "reorder-channels", "swap-halves"]


class Network:
    """The nodes of one network; values are names."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.constants, self.outputs = [], [], []
        self.free = rng.random() < 0.5
        self.side = rng.choice([4, 6])
        self.noise = np.random.default_rng(rng.randrange(1 << 32))

    def name(self):
        return f"v{len(self.nodes)}_{len(self.constants)}"

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def node(self, op, inputs, outputs=1, **attributes):
        out = [f"{self.name()}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, out, **attributes))
        return out if outputs > 1 else out[0]

    def conv(self, x, channels, filters, kernel=1, groups=1):
        shape = (filters, channels // groups, kernel, kernel)
        w = self.noise.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        inputs = [x, self.constant(w.astype(np.float32))]
        if self.rng.random() < 0.7:
            bias = self.noise.standard_normal(filters)
            inputs.append(self.constant(bias.astype(np.float32)))
        y = self.node("Conv", inputs, pads=[kernel // 2] * 4, group=groups)
        return self.node("Relu", [y]) if self.rng.random() < 0.5 else y

    def shuffle(self, x, channels, groups):
        batch, side = -1 if self.free else 2, self.side
        y = self.node("Reshape", [x, self.ints(batch, groups, channels // groups,
                                               side, side)])
        y = self.node("Transpose", [y], perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", [y, self.ints(batch, channels, side, side)])

    def halves(self, x, channels, cut):
        if self.rng.random() < 0.5:
            return self.node("Split", [x, self.ints(cut, channels - cut)], 2,
                             axis=1)
        return [self.node("Slice", [x, self.ints(a), self.ints(b), self.ints(1)])
                for a, b in ((0, cut), (cut, channels))]

    def join(self, parts):
        if self.rng.random() < 0.3:
            parts = parts[::-1]
        return self.node("Concat", parts, axis=1)

    def block(self, x, channels):
        """A block behind x; its output and channels."""
        rng = self.rng
        groups = rng.choice([g for g in range(2, 9) if channels % g == 0] or [1])
        kind = rng.randrange(5)
        if kind < 3 and channels % 2 == 0:
            half = channels // 2
            a, b = self.halves(x, channels, half)
            b = self.conv(b, half, half)
            if rng.random() < 0.6:
                b = self.conv(b, half, half, 3, half)
            b = self.conv(b, half, half)
            return self.shuffle(self.join([a, b]), channels, 2), channels
        y = self.shuffle(x, channels, groups)
        if kind == 3:
            if rng.random() < 0.7:
                y = self.conv(y, channels, channels, 3, channels)
            if rng.random() < 0.3:
                self.outputs.append(y)
            filters = rng.choice([8, 12, 24])
            return self.conv(y, channels, filters, rng.choice([1, 3])), filters
        cut = rng.randrange(1, channels)
        a, b = self.halves(y, channels, cut)
        if rng.random() < 0.3:
            self.outputs.append(y)
        return self.join([self.conv(a, cut, cut), b]), channels

    def write(self, path):
        rng = self.rng
        channels = rng.choice([8, 12, 16, 20, 24, 30])
        x = self.conv("x", 3, channels, 3)
        for _ in range(rng.randint(1, 4)):
            x, channels = self.block(x, channels)
        self.outputs.append(self.conv(x, channels, 5)
                            if rng.random() < 0.5 else x)
        self.outputs = list(dict.fromkeys(self.outputs))
        info = helper.make_tensor_value_info
        shape = ["N" if self.free else 2, 3, self.side, self.side]
        graph = helper.make_graph(
            self.nodes, "drawn", [info("x", TensorProto.FLOAT, shape)],
            [info(o, TensorProto.FLOAT, None) for o in self.outputs],
            self.constants)
        model = helper.make_model(graph,
                                  opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, path)


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-300:]}")
    return done.stdout


def check(options, seed, changes):
    """Faults of one network, as text."""
    path = os.path.join(options.folder, "drawn")
    net = Network(random.Random(seed))
    net.write(path + ".onnx")
    shape = (2, 3, net.side, net.side)
    x = net.noise.standard_normal(shape).astype(np.float32)
    np.savez(path + ".npz", x=x)
    session = onnxruntime.InferenceSession(path + ".onnx",
                                           providers=["CPUExecutionProvider"])
    want = session.run(net.outputs, {"x": x})
    text = call([options.wconv, path + ".onnx", "-o", path + ".infer"])
    for name in PASSES:
        found = re.search(rf"{name} +(\d+)", text)
        changes[name] += int(found[1]) if found else 0
    for more in (["--backend=cpu"], []):
        out = path + ".out"
        shutil.rmtree(out, ignore_errors=True)
        call([options.infer, "-m", path + ".infer", "-b", "2", "--threads=1",
              f"--load-inputs={path}.npz", f"--export-output={out}/"] + more)
        for o, w in zip(net.outputs, want):
            y = np.load(os.path.join(out, o + ".npy"))
            distance = np.abs(y - w).max() / np.abs(w).max()
            if not distance < BOUND:
                yield f"output {o} differs by {distance:.1e} {more}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--wconv", required=True)
    parser.add_argument("--infer", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    print("seed", options.seed, flush=True)
    changes, wrong = collections.Counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            faults = list(check(options, seed, changes))
        except RuntimeError as e:
            faults = [str(e)]
        for fault in faults:
            print(f"--seed={seed}: {fault}", flush=True)
        wrong += bool(faults)
    print(f"{options.count} networks, {wrong} wrong;",
          ", ".join(f"{name} {changes[name]}" for name in PASSES))
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
