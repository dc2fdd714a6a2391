#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times convolutions that wconv --emit-c writes against plain loops.

    emit_layers.py WCONV [--count=40] [--seed=SEED] [--options='-O2'] [--real=float]

Draws COUNT layers: 1 to 64 channels, windows of 1 to 7, strides of 1 to 3, dense,
grouped or depthwise, inside a network with channels last.  Each is called alone
and compared with two plain functions whose sizes are constants: one output at a
time, and all outputs of a pixel in an array of sums with weights in the order
that they are read.  The three take turns; the table has the least CPU
microseconds.  ratio: the faster plain function's time / ours; a value below 1 is
a loss.  SEED is that of the clock by default.  Needs onnx, NumPy and gcc.
"""
import argparse
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
%(arrays)s
__attribute__((noinline)) static void ours(void)
{
    %(call)s;
}
__attribute__((noinline)) static void scalar(const float *x, float *y)
{
    for (int p = 0; p < P; p++)
        for (int q = 0; q < Q; q++)
            for (int k = 0; k < K; k++) {
                real sum = 0;
                for (int r = 0; r < R; r++) {
                    const int h = p * STEP + r - PAD;
                    if (h < 0 || h >= H)
                        continue;
                    for (int s = 0; s < S; s++) {
                        const int v = q * STEP + s - PAD;
                        if (v < 0 || v >= W)
                            continue;
                        for (int c = 0; c < C / G; c++)
                            sum += (real)x[(h * W + v) * C + k / (K / G) * (C / G) + c] *
                                   w1[((k * R + r) * S + s) * (C / G) + c];
                    }
                }
                sum += b0[k];
                y[(p * Q + q) * K + k] = (float)(sum < 0 ? 0 : sum);
            }
}
__attribute__((noinline)) static void array(const float *x, float *y)
{
    for (int p = 0; p < P; p++)
        for (int q = 0; q < Q; q++) {
            real sum[K];
            for (int k = 0; k < K; k++)
                sum[k] = 0;
            for (int r = 0; r < R; r++) {
                const int h = p * STEP + r - PAD;
                if (h < 0 || h >= H)
                    continue;
                for (int s = 0; s < S; s++) {
                    const int v = q * STEP + s - PAD;
                    if (v < 0 || v >= W)
                        continue;
                    for (int g = 0; g < (DW ? 1 : G); g++)
                        for (int c = 0; c < (DW ? 1 : C / G); c++)
                            for (int k = 0; k < (DW ? K : K / G); k++)
                                sum[g * (K / G) + k] +=
                                    (real)x[(h * W + v) * C + (DW ? k : g * (C / G) + c)] *
                                    w2[((r * S + s) * (C / G) + c) * K + g * (K / G) + k];
                }
            }
            for (int k = 0; k < K; k++) {
                const real t = sum[k] + b0[k];
                y[(p * Q + q) * K + k] = (float)(t < 0 ? 0 : t);
            }
        }
}
static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &s);
    return 1e6 * s.tv_sec + 1e-3 * s.tv_nsec;
}
int main(void)
{
    static float x[H * W * C], y[P * Q * K];
    double least[3] = {1e9, 1e9, 1e9}, worst = 0, most = 0;
    for (int i = 0; i < H * W * C; i++)
        (%(x)s)[i] = x[i] = (float)((i * 2654435761u >> 16) & 0xffff) / 65536 - 0.5f;
    ours();
    scalar(x, y);
    for (int i = 0; i < P * Q * K; i++) {
        const double d = fabs(y[i] - (%(y)s)[i]);
        worst = d > worst ? d : worst;
        most = fabs(y[i]) > most ? fabs(y[i]) : most;
    }
    if (!(worst <= 1e-4 * most + 1e-6))
        return printf("other results: %%g of %%g\\n", worst, most), 1;
    for (int turn = 0; turn < TURNS; turn++)
        for (int who = 0; who < 3; who++) {
            const double start = now();
            double end;
            int n = 0;
            do {
                if (who == 0)
                    ours();
                else if (who == 1)
                    scalar(x, y);
                else
                    array(x, y);
                n++;
                end = now();
            } while (end - start < 300);
            if ((end - start) / n < least[who])
                least[who] = (end - start) / n;
        }
    printf("%%g %%g %%g\\n", least[0], least[1], least[2]);
    return 0;
}
"""


def channels(rng):
    """Half of them few."""
    return rng.choice((rng.randint(1, 64), int(2 ** rng.uniform(0, 6))))


def draw(rng):
    s = {"R": rng.randint(1, 7), "STEP": rng.choice((1, 1, 1, 2, 2, 3))}
    s["S"] = s["R"] if rng.random() < 0.8 else rng.randint(1, 7)
    kind = rng.choice(("dense", "dense", "dense", "depthwise", "grouped"))
    s["C"], s["K"], s["G"] = channels(rng), channels(rng), 1
    if kind == "depthwise":
        s["K"] = s["G"] = s["C"]
    if kind == "grouped":
        s["G"] = rng.randint(2, 8)
        s["C"] = s["G"] * rng.randint(1, 64 // s["G"])
        s["K"] = s["G"] * rng.randint(1, 64 // s["G"])
    s["DW"] = int(s["G"] > 1 and s["C"] == s["G"] == s["K"])
    s["PAD"] = rng.choice((0, min(s["R"], s["S"]) // 2))
    work = s["R"] * s["S"] * s["C"] * s["K"] // s["G"]
    side = int(math.sqrt(rng.uniform(1e5, 1e6) / work)) * s["STEP"]
    s["H"] = s["W"] = max(min(side, 48), s["R"], s["S"], 4)
    s["P"] = (s["H"] + 2 * s["PAD"] - s["R"]) // s["STEP"] + 1
    s["Q"] = (s["W"] + 2 * s["PAD"] - s["S"]) // s["STEP"] + 1
    return s if s["P"] * s["Q"] > 1 else draw(rng)


def model(s, path, w, b):
    def of(name, dims):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[3, 3],
                         pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], name="layer",
                         group=s["G"], kernel_shape=[s["R"], s["S"]],
                         strides=[s["STEP"]] * 2, pads=[s["PAD"]] * 4),
        helper.make_node("Relu", ["c"], ["d"], name="relu"),
        helper.make_node("GlobalAveragePool", ["d"], ["y"])]
    g = helper.make_graph(
        nodes, "g", [of("x", [1, s["C"], s["H"], s["W"]])],
        [of("y", [1, s["K"], 1, 1])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(
        g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def c_array(name, a):
    return "static const float %s[] = {%s};\n" % (
        name, ", ".join("%.9gf" % v if "." in "%.9g" % v or "e" in "%.9g" % v
                        else "%.9g.f" % v for v in a.ravel()))


def measure(a, s, folder, rng):
    w = rng.uniform(-1, 1, (s["K"], s["C"] // s["G"], s["R"], s["S"])).astype(
        np.float32)
    b = rng.uniform(-1, 1, s["K"]).astype(np.float32)
    model(s, folder + "/net.onnx", w, b)
    subprocess.run([a.wconv, "-q", folder + "/net.onnx",
                    "--emit-c=" + folder + "/net.c"], check=True)
    source = open(folder + "/net.c").read()
    call = re.search(r"    (conv_fprop_\d+\((.*)\)); /\* (?:layer|relu)", source)
    arena = re.findall(r"arena\.f32(?: \+ \d+)?", call.group(2))
    body = HARNESS % {
        "arrays": "".join("enum { %s = %d };\n" % v for v in s.items()) +
                  "enum { TURNS = %d };\n" % a.turns +
                  c_array("w1", w.transpose(0, 2, 3, 1)) +
                  c_array("w2", w.transpose(2, 3, 1, 0)) + c_array("b0", b),
        "call": call.group(1), "x": arena[0], "y": arena[-1]}
    with open(folder + "/run.c", "w") as f:
        f.write('#include "net.c"\n' + body)
    found = []
    for options in a.options:
        subprocess.run(
            ["gcc", "-std=c99", "-w", "-D_POSIX_C_SOURCE=199309L",
             "-DNET_REAL=" + a.real, *options.split(), folder + "/run.c", "-o",
             folder + "/run", "-lm"], check=True)
        out = subprocess.run([folder + "/run"], capture_output=True, text=True)
        if out.returncode:
            sys.exit("%s: %s" % (s, out.stdout))
        found.append([float(t) for t in out.stdout.split()])
    return found


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("wconv")
    p.add_argument("--count", type=int, default=40)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--options", action="append")
    p.add_argument("--real", default="float")
    p.add_argument("--turns", type=int, default=15)
    a = p.parse_args()
    a.options = a.options or ["-O2", "-O3", "-O3 -mavx2"]
    print("seed %d, real %s, load %.1f" % (a.seed, a.real, os.getloadavg()[0]))
    rng = random.Random(a.seed)
    numbers = np.random.default_rng(a.seed)
    ratios = [[] for _ in a.options]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.count):
            s = draw(rng)
            line = "%2d->%2d of %2d groups, %dx%d/%d pad %d, %dx%d:" % (
                s["C"], s["K"], s["G"], s["R"], s["S"], s["STEP"], s["PAD"],
                s["H"], s["W"])
            for i, t in enumerate(measure(a, s, folder, numbers)):
                ratios[i].append(min(t[1:]) / t[0])
                line += "  %8.2f %8.2f %8.2f %5.2f |" % (*t, ratios[i][-1])
            print(line, flush=True)
    for options, r in zip(a.options, ratios):
        print("%s: geometric mean %.2f, lowest %.2f, %d of %d below 1, %d below "
              "0.95" % (options, math.exp(sum(map(math.log, r)) / len(r)),
                        min(r), sum(v < 1 for v in r), len(r),
                        sum(v < 0.95 for v in r)))


if __name__ == "__main__":
    main()
