#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times infer against onnxruntime and OpenVINO on a CPU, ONNX file by ONNX file.

    cpu_onnx_peers.py BUILD FILE.onnx... [--threads=1] [--rounds=5] [--seconds=0.35]
                      [--processor]

Every file has one input of a stated shape.  wconv of the build converts it;
infer, onnxruntime and OpenVINO (fp32, latency, one stream) take turns, a turn
being all runs of that many seconds, two at least of the rivals; the table has
the least time of all, in milliseconds.  ratio: the better rival's / infer's.
--processor: the processor time of the process instead, for one thread on a machine
that does other work; infer's clock is replaced for that (LD_PRELOAD, needs gcc).
Needs onnx, onnxruntime, openvino and NumPy.
"""
import argparse
import json
import math
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
import openvino


# CLOCK_MONOTONIC as the processor time of the process.
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t c, struct timespec *t)
{
    return (int)syscall(SYS_clock_gettime,
                        c == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : c, t);
}
"""


def build_clock(folder):
    path = os.path.join(folder, "clock.so")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o",
                    path], input=CLOCK, text=True, check=True)
    return path


def infer(a, model):
    out = subprocess.run(
        [a.build + "/infer", "-m", model, "--bench", "--json",
         "--threads=%d" % a.threads, "--warmup=100ms",
         "--duration=%gs" % a.seconds],
        check=True, capture_output=True, text=True,
        env=dict(os.environ, LD_PRELOAD=a.clock) if a.clock else None).stdout
    return json.loads(out)["min_ms"]


def repeated(a, run):
    now = time.process_time if a.processor else time.perf_counter
    least, runs, end = math.inf, 0, now() + a.seconds
    while now() < end or runs < 2:
        start = now()
        run()
        least = min(least, now() - start)
        runs += 1
    return 1e3 * least


def openvino_run(a, path, x):
    core = openvino.Core()
    request = core.compile_model(
        core.read_model(path), "CPU",
        {"INFERENCE_NUM_THREADS": a.threads, "NUM_STREAMS": 1,
         "PERFORMANCE_HINT": "LATENCY",
         "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return lambda: repeated(a, lambda: request.infer([x], share_inputs=True))


def rivals(a, path, name, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options,
                                           providers=["CPUExecutionProvider"])
    return {"onnxruntime": lambda: repeated(
                a, lambda: session.run(None, {name: x})),
            "OpenVINO": openvino_run(a, path, x)}


def compare(a, path, folder):
    """The least milliseconds of each."""
    model = os.path.join(folder, "model.infer")
    subprocess.run([a.build + "/wconv", path, "-o", model, "-q"], check=True)
    first = onnx.load(path, load_external_data=False).graph.input[0]
    x = np.random.default_rng(0).standard_normal(
        [d.dim_value for d in first.type.tensor_type.shape.dim])
    run = {"infer": lambda: infer(a, model)}
    run.update(rivals(a, path, first.name, x.astype(np.float32)))
    least = dict.fromkeys(run, math.inf)
    for _ in range(a.rounds):
        for who in run:
            least[who] = min(least[who], run[who]())
    return least


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build")
    p.add_argument("files", nargs="+")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=0.35)
    p.add_argument("--processor", action="store_true")
    a = p.parse_args()
    ratios = []
    print("| network | infer | onnxruntime | OpenVINO | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        a.clock = build_clock(folder) if a.processor else None
        for path in a.files:
            t = compare(a, path, folder)
            ratios.append(min(t["onnxruntime"], t["OpenVINO"]) / t["infer"])
            print("| %s | %.2f | %.2f | %.2f | %.2f |" % (
                os.path.basename(path).removesuffix(".onnx"), t["infer"],
                t["onnxruntime"], t["OpenVINO"], ratios[-1]), flush=True)
    print("\ngeometric mean %.3f, %d of %d ahead, lowest %.2f" % (
        math.exp(sum(map(math.log, ratios)) / len(ratios)),
        sum(r > 1 for r in ratios), len(ratios), min(ratios)))


if __name__ == "__main__":
    main()
