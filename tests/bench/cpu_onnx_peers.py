#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times infer against onnxruntime and OpenVINO on a CPU, ONNX file by ONNX file.

    cpu_onnx_peers.py BUILD FILE.onnx... [--threads=1] [--rounds=5] [--seconds=0.35]

Every file has one input of a stated shape.  wconv of the build converts it;
infer, onnxruntime and OpenVINO (fp32, latency, one stream) take turns, a turn
being all runs of that many seconds, three at least of the rivals; the table has
the least time of all, in milliseconds.  ratio: the better rival's / infer's.
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


def infer(a, model):
    out = subprocess.run(
        [a.build + "/infer", "-m", model, "--bench", "--json",
         "--threads=%d" % a.threads, "--warmup=100ms",
         "--duration=%gs" % a.seconds],
        check=True, capture_output=True, text=True).stdout
    return json.loads(out)["min_ms"]


def repeated(a, run):
    least, runs, end = math.inf, 0, time.perf_counter() + a.seconds
    while time.perf_counter() < end or runs < 3:
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
        runs += 1
    return 1e3 * least


def rivals(a, path, name, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options,
                                           providers=["CPUExecutionProvider"])
    core = openvino.Core()
    request = core.compile_model(
        core.read_model(path), "CPU",
        {"INFERENCE_NUM_THREADS": a.threads, "NUM_STREAMS": 1,
         "PERFORMANCE_HINT": "LATENCY",
         "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return {"onnxruntime": lambda: repeated(
                a, lambda: session.run(None, {name: x})),
            "OpenVINO": lambda: repeated(
                a, lambda: request.infer([x], share_inputs=True))}


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
    a = p.parse_args()
    ratios = []
    print("| network | infer | onnxruntime | OpenVINO | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
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
